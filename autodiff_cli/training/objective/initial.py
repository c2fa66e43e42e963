"""First values of parameters.

A number begins at 1. An array begins at random, since equal units would stay equal: weights are drawn so that signals
keep their size from layer to layer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.graph.op import Shape
from autodiff_cli.graph.registry import registered
from autodiff_cli.language.layers import Initial

Array = NDArray[np.float64]

NUMBER = 1.0


def initial_arrays(shapes: Mapping[str, Shape], layers: Mapping[str, Initial], seed: int) -> dict[str, Array]:
    """First values of the parameters that are arrays.

    The biases of layers are 0. The weights of a layer are normal with variance 2/inputs before a rectifier, which lets
    about half of a signal through (He et al. 2015, arXiv 1502.01852), else uniform with variance 2/(inputs + outputs)
    (Glorot & Bengio 2010). An array that is no part of a layer is normal with that variance; a vector counts as a
    matrix with one row.

    Args:
        shapes: of the parameters, in the order in which they are drawn.
        layers: what those of layers are.
        seed: of the generator. All arrays are drawn, whether their values are used or not, so that fixing one leaves
            the others as they are.
    """
    if not any(shapes.values()):
        return {}  # most fits draw nothing, and need not import what draws
    generator = np.random.default_rng(seed)
    return {name: _drawn(generator, shape, layers.get(name)) for name, shape in shapes.items() if shape}


def _drawn(generator: np.random.Generator, shape: Shape, layer: Initial | None) -> Array:
    outputs, inputs = (1, *shape)[-2:]
    spread = math.sqrt(2 / (inputs + outputs))
    if layer is None:
        return generator.normal(0, spread, shape)
    if layer.kind == "bias":
        return np.zeros(shape)
    if layer.activation is not None and registered(layer.activation).is_rectifier:
        return generator.normal(0, math.sqrt(2 / inputs), shape)
    limit = math.sqrt(3) * spread
    return generator.uniform(-limit, limit, shape)

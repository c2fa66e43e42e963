"""The right digits of several outputs, and of their derivatives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from autodiff_cli.explain.digits.right_arrays import Spoilt, spoilt_numbers
from autodiff_cli.explain.labels import Labels
from autodiff_cli.explain.record import Caveat
from autodiff_cli.formula.formula import Formula
from autodiff_cli.formula.further import Further, output_shape
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node, constant
from autodiff_cli.ops.structural import index

_MOST_ELEMENTS = 1_000  # of the outputs that are arrays; each has a gradient of its own


def warned_outputs(
    formula: Formula, chosen: Mapping[str, Formula], place: Mapping[str, Any], found: Further
) -> list[Caveat]:
    """The warnings of outputs and their Jacobian: by `outputs.NAME` and `jacobian.NAME.x`.

    Args:
        chosen: the outputs by their names, all of the variables of `formula`.
        place: a number or an array for every variable.
        found: what floats give.
    """
    tape = formula.tape
    output = tape.outputs[0]
    label = Labels(tape, formula.names, formula.source).texts[output]
    return _spoilt(chosen, place, found).told([], output, label)


def _spoilt(chosen: Mapping[str, Formula], place: Mapping[str, Any], found: Further) -> Spoilt:
    graphs: dict[str, Node] = {}
    shown: dict[str, Any] = {}
    leaves: dict[str, Node] = {}
    unknown = 0
    for label, of in (found.jacobian or {}).items():
        output = chosen[label]
        sizes, leaves = output.sizes(place), dict(output.leaves)
        shape = output_shape(output, sizes)
        if math.prod(shape) > _MOST_ELEMENTS:
            unknown += math.prod(shape) + sum(map(np.size, of.values()))
            continue
        for position in np.ndindex(shape):
            called = f"{label}[{', '.join(map(str, position))}]" if position else label
            element = index(output.output, *(constant(str(k)) for k in position)) if position else output.output
            graphs[f"outputs.{called}"] = element
            shown[f"outputs.{called}"] = np.asarray((found.outputs or {})[label])[position]
            slopes = gradient_nodes(element, [leaves[name] for name in of], sizes)
            for name, slope in zip(of, slopes, strict=True):
                graphs[f"jacobian.{called}.{name}"] = slope
                shown[f"jacobian.{called}.{name}"] = np.asarray(of[name])[position]
    spoilt = spoilt_numbers(graphs, shown, place, leaves)
    # What is undefined at an edge that floats round across is left to them, as in a gradient.
    right = {name: text for name, text in spoilt.right.items() if text != "nan"}
    return Spoilt(right, spoilt.unknown + unknown)

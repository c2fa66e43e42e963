"""Graphs at numbers and arrays: batches of points are rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autodiff_cli.backends.choice import suited
from autodiff_cli.backends.protocol import Array, RowGraphs
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Shape


def evaluate(
    outputs: Sequence[Node], point: Mapping[str, Any], leaves: Mapping[str, Shape] | None = None
) -> list[Array]:
    """The values of graphs at numbers and arrays.

    Args:
        point: a number or an array for the name of every input leaf. Axes of an array in front of those of its leaf
            are a batch; batches broadcast against each other by NumPy's rules.
        leaves: the shapes of leaves that are no scalars.

    Returns:
        One array per output, of the batch's shape and then the output's own.

    >>> from autodiff_cli.language.lowering import read
    >>> evaluate([read("a*x").output], {"a": 2.0, "x": [1.0, 2.0, 3.0]})
    [array([2., 4., 6.])]
    """
    sizes = leaves or {}
    arrays = {name: np.asarray(value, dtype=np.float64) for name, value in point.items()}
    batches = {name: value.shape[: value.ndim - len(sizes.get(name, ()))] for name, value in arrays.items()}
    batch = np.broadcast_shapes(*batches.values())
    rows = math.prod(batch)
    columns = {
        name: np.moveaxis(
            np.broadcast_to(value, (*batch, *sizes.get(name, ()))).reshape(rows, *sizes.get(name, ())), 0, -1
        )
        for name, value in arrays.items()
        if batches[name]
    }
    graphs = RowGraphs(outputs, columns.keys(), sizes)
    kernel = suited("auto", None, graphs, rows, passes=1).rows(graphs)
    found = np.empty((graphs.numbers, rows))
    prepared = kernel.prepare({name: value for name, value in arrays.items() if name not in columns})
    kernel.write(prepared, columns, found)
    return [
        np.moveaxis(found[place], -1, 0).reshape((*batch, *size))
        for place, size in zip(graphs.places, graphs.sizes, strict=True)
    ]

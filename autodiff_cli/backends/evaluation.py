"""Evaluation of graphs at numbers and arrays, with the points of a batch as rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autodiff_cli.array_types import Array
from autodiff_cli.backends.protocol import RowGraphs
from autodiff_cli.backends.selection import choose_backend
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Shape


def evaluate(
    outputs: Sequence[Node], point: Mapping[str, Any], leaves: Mapping[str, Shape] | None = None, backend: str = "auto"
) -> list[Array]:
    """Return the values of graphs at a point or at a batch of points.

    Args:
        outputs: the graphs.
        point: a number or an array for every input leaf, by name. Axes of an array before those of its leaf are batch
            axes; the batch axes of all leaves are broadcast against each other by NumPy's rules.
        leaves: the shapes of the leaves that are not scalars, by name.
        backend: `numpy`, `llvm` or `auto`.

    Returns:
        One array per output, of the batch's shape followed by the output's own.

    >>> from autodiff_cli.language.program import read
    >>> evaluate([read("a*x").output], {"a": 2.0, "x": [1.0, 2.0, 3.0]})
    [array([2., 4., 6.])]
    """
    shapes = leaves or {}
    arrays = {name: np.asarray(value, dtype=np.float64) for name, value in point.items()}
    batches = {name: value.shape[: value.ndim - len(shapes.get(name, ()))] for name, value in arrays.items()}
    batch = np.broadcast_shapes(*batches.values())
    rows = math.prod(batch)
    columns = {
        name: np.moveaxis(
            np.broadcast_to(value, (*batch, *shapes.get(name, ()))).reshape(rows, *shapes.get(name, ())), 0, -1
        )
        for name, value in arrays.items()
        if batches[name]
    }
    graphs = RowGraphs(outputs, columns.keys(), shapes)
    kernel = choose_backend(backend, None, graphs, rows, passes=1).row_kernel(graphs)
    values = np.empty((graphs.value_count, rows))
    prepared = kernel.prepare({name: value for name, value in arrays.items() if name not in columns})
    kernel.write(prepared, columns, values)
    return [
        np.moveaxis(values[part], -1, 0).reshape((*batch, *size))
        for part, size in zip(graphs.output_slices, graphs.output_shapes, strict=True)
    ]

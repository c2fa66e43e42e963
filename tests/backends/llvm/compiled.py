"""What the tests of compiled kernels share."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from autodiff_cli.backends.llvm.backend import LlvmBackend
from autodiff_cli.backends.llvm.machine_code import host_processor
from autodiff_cli.backends.numpy_backend import NumpyBackend
from autodiff_cli.backends.protocol import Backend, RowGraphs
from autodiff_cli.graph.node import Node, Shape

Array = NDArray[np.float64]

WIDTHS = [width for width in (2, 4, 8) if width <= host_processor().width]
# This machine's vectors always, narrower ones with --exhaustive: continuous integration tests them as other machines.
every_width = pytest.mark.parametrize(
    "width", [pytest.param(width, marks=[pytest.mark.exhaustive] if width < WIDTHS[-1] else []) for width in WIDTHS]
)


def _computed(
    is_summed: bool,
    backend: Backend,
    outputs: Sequence[Node],
    columns: Mapping[str, NDArray[Any]],
    point: Mapping[str, Any] | None = None,
    leaves: Mapping[str, Shape] | None = None,
) -> Array:
    graphs, rows = RowGraphs(outputs, columns.keys(), leaves or {}), next(iter(columns.values())).shape[-1]
    if is_summed:
        return backend.sum_kernel(graphs).sums(point or {}, columns, rows)
    kernel = backend.row_kernel(graphs)
    out = np.full((kernel.value_count, rows), 12345.0)
    kernel.write(kernel.prepare(point or {}), columns, out)
    return out


def alone(width: int, outputs: Sequence[Node], columns: Mapping[str, NDArray[Any]]) -> Array:
    """The outputs of every row, each alone in a vector: one row that needs care makes the code careful for all rows of
    its vector, which hides what is wrong without it."""
    repeated = {name: np.repeat(column, width) for name, column in columns.items()}
    lanes = by_row(LlvmBackend(1, width), outputs, repeated).reshape(len(outputs), -1, width)
    np.testing.assert_array_equal(lanes, np.broadcast_to(lanes[..., :1], lanes.shape))
    return lanes[..., 0]


by_row = functools.partial(_computed, False)  # the outputs of every row, one below the other
summed = functools.partial(_computed, True)  # their sums over all rows


def agree(found: Array, wanted: Array, names: Sequence[str], absolute: float = 1e-13) -> None:
    """Values of outputs are the same. Those that are not are told by their names, if they have some."""
    is_same = np.isclose(found, wanted, rtol=2e-13, atol=absolute, equal_nan=True).reshape(len(found), -1).all(axis=1)
    wrong = [name for name, each in zip(names, is_same, strict=False) if not each]
    np.testing.assert_allclose(found, wanted, rtol=2e-13, atol=absolute, err_msg="; ".join(wrong))


def both_ways(*arguments: Any, width: int | None = None, names: Sequence[str] = ()) -> None:
    """Compiled code and NumPy's blocks agree, by row and in sums."""
    found, wanted = (by_row(backend, *arguments) for backend in (LlvmBackend(1, width), NumpyBackend()))
    agree(found, wanted, names)
    size = np.nansum(np.abs(wanted[np.isfinite(wanted).all(axis=1)]), axis=1).max(initial=0.0)  # of what is added up
    found, wanted = (summed(backend, *arguments) for backend in (LlvmBackend(1, width), NumpyBackend()))
    agree(found, wanted, names, 1e-13 + 1e-17 * size)

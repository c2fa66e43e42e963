"""Sums over rows that have the same bits on every machine and with any number of threads.

Rows are divided into blocks, and the results of blocks are always combined in the same order: a fold. The order depends
only on the number of parts, not on who computed them or when. The parts are the leaves of a balanced binary tree, in
which rounding errors grow with the logarithm of the number of parts.

NumPy's linear algebra runs on one thread where bits matter, because OpenBLAS adds in a different order for each number
of threads. Blocks are small enough for one thread to be as fast.

A total is the sum over rows of a graph's value, as a graph: a loss over data and its gradient towards an array are
totals. The gradient towards a matrix of weights is a sum over rows of outer products. Computed row by row these would
be the largest arrays of all, while their sum is one matrix product, `G @ X.T`. So a total is moved through linear
operations down to the outer products, where it becomes such a matrix product.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from autodiff_cli.array_types import Array
from autodiff_cli.graph.node import Node, Op, Shape, variable
from autodiff_cli.graph.tape import Tape, dependents, infer_shapes
from autodiff_cli.ops.arithmetic import add, div, mul, neg, sub, where
from autodiff_cli.ops.structural import is_gathered, matmul, outer, place, transpose

T = TypeVar("T")


def block_slices(rows: int, size: int) -> Iterator[slice]:
    """Return the blocks of `size` rows that `rows` rows are divided into; the last one has the remaining rows.

    >>> [*block_slices(5, 2)]
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def fold(parts: Iterable[T], combine: Callable[[T, T], T]) -> T:
    """Combine the parts with an associative operation, in the order of a balanced tree.

    The number of partial results in memory is at most the depth of the tree. Raises ValueError if there are no parts.

    >>> fold("abcdefg", lambda left, right: f"({left}{right})")
    '(((ab)(cd))((ef)g))'
    """
    pending: list[tuple[int, T]] = []  # (number of parts, their combination), the largest first
    for part in parts:
        size = 1
        while pending and pending[-1][0] == size:
            part = combine(pending.pop()[1], part)
            size *= 2
        pending.append((size, part))
    if not pending:
        raise ValueError("nothing to combine")
    _, total = pending.pop()
    while pending:
        total = combine(pending.pop()[1], total)
    return total


_LIBRARY_FOLDERS = ("../numpy.libs", ".dylibs", ".libs")  # where wheels of NumPy put libraries, relative to it
_blas_lock = threading.Lock()
_active_count = 0
_saved_thread_count = 0


@contextlib.contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Run NumPy's linear algebra on one thread within this context, for all threads of the process.

    Without effect if NumPy is not built with OpenBLAS.
    """
    global _active_count, _saved_thread_count
    functions = _openblas_functions()
    if functions is None:
        yield
        return
    get_count, set_count = functions
    with _blas_lock:
        if not _active_count:
            _saved_thread_count = get_count()
            set_count(1)
        _active_count += 1
    try:
        yield
    finally:
        with _blas_lock:
            _active_count -= 1
            if not _active_count:
                set_count(_saved_thread_count)


_MIN_THREADED_SIZE = 1024  # elements of a matrix; OpenBLAS uses one thread for far larger ones too


def single_threaded_for(matrix: Array) -> contextlib.AbstractContextManager[None]:
    """Return the context of `single_threaded_blas` for a matrix that OpenBLAS may factorize on several threads.

    Beside other programs, its threads take up to a hundred times as long for a matrix of order 150.
    """
    return single_threaded_blas() if matrix.size > _MIN_THREADED_SIZE else contextlib.nullcontext()


def svd(matrices: Array, *, full_matrices: bool = True) -> tuple[Array, Array, Array]:
    """Return the singular value decomposition of a matrix or a stack, with the same bits on any number of cores."""
    with single_threaded_for(matrices):
        return np.linalg.svd(matrices, full_matrices=full_matrices)


def eigh(matrices: Array) -> tuple[Array, Array]:
    """Return the eigenvalues and eigenvectors of a symmetric matrix or a stack; see `svd`."""
    with single_threaded_for(matrices):
        return np.linalg.eigh(matrices)


@functools.cache
def _openblas_functions() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """Return the functions that get and set OpenBLAS's number of threads; None if NumPy uses another library."""
    home = Path(np.__file__).parent
    for path in (file for folder in _LIBRARY_FOLDERS for file in sorted((home / folder).glob("*openblas*"))):
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        for prefix in ("scipy_", ""):
            for suffix in ("64_", "_64", ""):
                get_count, set_count = (
                    getattr(library, f"{prefix}openblas_{verb}_num_threads{suffix}", None) for verb in ("get", "set")
                )
                if get_count is not None and set_count is not None:
                    return get_count, set_count
    return None


ROW_COUNT_NODE = variable("number of rows")  # the number of rows of a block; no formula can contain this name


# The last axis of an input is the axis of rows. Its length is 1 if all rows have the same value, even for
# an input that depends on a column, if it only reads the column's shape.


def _total_of_outer(a: Array, b: Array, rows: Any) -> Any:
    if a.shape[-1] == b.shape[-1] == rows:
        return (a @ b.T)[..., None]
    return (a.sum(axis=-1)[:, None] * b.sum(axis=-1) * _repeat_count(a, b, rows))[..., None]


def _total_of_matmul(a: Array, b: Array, rows: Any) -> Any:
    if a.shape[-1] == b.shape[-1] == rows:
        return np.tensordot(a, b, axes=([1, 2], [0, 2]))[..., None]
    return (a.sum(axis=-1) @ b.sum(axis=-1) * _repeat_count(a, b, rows))[..., None]


def _total_of_place(x: Array, like: Array, at: Array, rows: Any) -> Any:
    values = np.broadcast_to(x, at.shape) if at.shape[-1] == rows else x * rows
    return np.bincount(at.astype(np.intp), values, len(like))[:, None]


def _repeat_count(a: Array, b: Array, rows: Any) -> Any:
    """Return how often a product counts if at most one factor has an axis of rows: once, if that axis was summed."""
    return rows if a.shape[-1] == b.shape[-1] else 1


def _total_op(name: str, shape: Callable[..., Shape], count: int) -> Op:
    """Return an operation that only kernels use, since derivatives are taken before rows are summed.

    Its last input is `ROW_COUNT_NODE`.
    """
    return Op(name=name, min_inputs=count + 1, max_inputs=count + 1, shape=shape)


_TOTAL = _total_op("total", lambda node, x, rows: x, 1)
_TOTAL_OUTER = _total_op("total_outer", lambda node, a, b, rows: a + b, 2)
_TOTAL_PLACE = _total_op("total_place", lambda node, x, like, at, rows: like, 3)
_TOTAL_MATMUL = _total_op("total_matmul", lambda node, a, b, rows: a[:-1] + b[1:], 2)

TOTAL_FUNCTIONS: dict[Op, Callable[..., Any]] = {
    # A value that is common to all rows is multiplied by their number.
    _TOTAL: lambda x, rows: np.add.reduce(x, axis=-1, keepdims=True) if x.shape[-1] == rows else x * rows,
    _TOTAL_OUTER: _total_of_outer,
    _TOTAL_MATMUL: _total_of_matmul,
    _TOTAL_PLACE: _total_of_place,  # row by row these arrays would have an element for each level
}


def totals(roots: Sequence[Node], columns: Collection[str], leaves: Mapping[str, Shape]) -> list[Node]:
    """Return graphs of the sums over rows of other graphs. They read the leaf `ROW_COUNT_NODE`.

    Args:
        roots: the graphs of one row.
        columns: the names of the leaves that vary from row to row.
        leaves: the shapes of the leaves that are not scalars, by name.
    """
    tape = Tape(roots)
    shapes = infer_shapes(tape, leaves)
    by_row = dependents(tape.nodes, (node for node in tape.nodes if node.is_input and node.text in columns))
    scattered = dependents(tape.nodes, (node for node in tape.nodes if node.op is place and is_gathered(node)))
    required = by_row.intersection(roots)
    linear_inputs: dict[Node, tuple[int, ...]] = {}
    for node, shape in zip(reversed(tape.nodes), reversed(shapes), strict=True):
        if node in required and (len(shape) == 2 or (shape and node in scattered)):
            linear_inputs[node] = _linear_inputs(node, by_row)
            required.update(node.inputs[k] for k in linear_inputs[node])
    total_of: dict[Node, Node] = {}
    shape_of = dict(zip(tape.nodes, shapes, strict=True))
    for node, shape in shape_of.items():
        if node in required:
            masked = _with_masked_factors(node, shape_of)
            total_of[node] = _total_node(masked, linear_inputs.get(node, ()), total_of, shape)
    return [total_of[root] if root in total_of else mul(root, ROW_COUNT_NODE) for root in roots]


def _linear_inputs(node: Node, by_row: Collection[Node]) -> tuple[int, ...]:
    """Return the positions of the inputs whose totals determine the node's total; empty if it must be summed itself."""
    varying = tuple(k for k, child in enumerate(node.inputs) if child in by_row)
    if node.op in (add, sub):
        return varying
    if node.op in (neg, transpose, mul, matmul, outer):
        return varying if len(varying) == 1 else ()
    return varying if node.op is div and varying == (0,) else ()


def _with_masked_factors(node: Node, shapes: Mapping[Node, Shape]) -> Node:
    """Move a condition on the row from an outer product to its factors.

    A product of vectors that the condition makes 0 becomes a product of vectors that the condition makes 0. The results
    are equal, also where they are nan or infinite.
    """
    if node.op is not where:
        return node
    condition, product, otherwise = node.inputs
    is_row_cut = shapes[condition] == () and otherwise.is_constant and otherwise.text == "0"
    if is_row_cut and product.op is place and is_gathered(product):
        return place(where(condition, product.inputs[0], otherwise), *product.inputs[1:])
    if not is_row_cut or product.op is not outer:
        return node
    return outer(*[where(condition, vector, otherwise) for vector in product.inputs])


def _total_node(node: Node, linear_inputs: tuple[int, ...], total_of: Mapping[Node, Node], shape: Shape) -> Node:
    """Return the total of a node, given the totals of its inputs."""
    if linear_inputs:
        is_sum = node.op in (add, sub)
        inputs = [
            total_of[child] if k in linear_inputs else mul(child, ROW_COUNT_NODE) if is_sum else child
            for k, child in enumerate(node.inputs)
        ]
        return Node(node.op, tuple(inputs))
    if node.op is outer:
        return _TOTAL_OUTER(*node.inputs, ROW_COUNT_NODE)
    if node.op is place and is_gathered(node):
        return _TOTAL_PLACE(*node.inputs, ROW_COUNT_NODE)
    if node.op is matmul and len(shape) == 2:
        return _TOTAL_MATMUL(*node.inputs, ROW_COUNT_NODE)
    return _TOTAL(node, ROW_COUNT_NODE)

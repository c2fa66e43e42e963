"""Sums over rows, as graphs: what a loss over data and its gradient towards an array come down to.

The gradient towards a matrix of weights is a sum over rows of outer products. Written down row by row these would be
the largest arrays of all; their sum is one product of matrices, `G @ X.T`. So a total is not taken of a finished
matrix: through what is linear it goes down to the outer products below, and there it becomes such a product.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.graph.node import Node, variable
from autodiff_cli.graph.op import Op, Shape
from autodiff_cli.graph.shapes import shapes
from autodiff_cli.graph.tape import Tape
from autodiff_cli.ops.arithmetic import add, div, mul, neg, sub
from autodiff_cli.ops.choice import where
from autodiff_cli.ops.structural import matmul, outer, transpose

Array = NDArray[np.float64]

ROWS = variable("number of rows")  # of the block; no text can name it


# What is totalled has an axis of rows at the end, of length 1 where all rows have the same: as it may be although it
# depends on a column, of which only the shape is read.


def _of_array(x: Array, rows: Any) -> Any:
    """The sum over rows, the last axis, which keeps a length of 1."""
    return np.add.reduce(x, axis=-1, keepdims=True) if x.shape[-1] == rows else x * rows


def _of_outer(a: Array, b: Array, rows: Any) -> Any:
    if a.shape[-1] == b.shape[-1] == rows:
        return (a @ b.T)[..., None]
    return (a.sum(axis=-1)[:, None] * b.sum(axis=-1) * _repeats(a, b, rows))[..., None]


def _of_matmul(a: Array, b: Array, rows: Any) -> Any:
    if a.shape[-1] == b.shape[-1] == rows:
        return np.tensordot(a, b, axes=([1, 2], [0, 2]))[..., None]
    return (a.sum(axis=-1) @ b.sum(axis=-1) * _repeats(a, b, rows))[..., None]


def _repeats(a: Array, b: Array, rows: Any) -> Any:
    """How often a product counts of which one input at most has an axis of rows: once, if that has been summed over."""
    return rows if a.shape[-1] == b.shape[-1] else 1


def _total(name: str, shape: Callable[..., Shape], count: int) -> Op:
    """An operation that only kernels know: derivatives are taken before rows are summed. Its last input is `ROWS`."""
    return Op(name=name, least=count + 1, most=count + 1, shape=shape)


_TOTAL = _total("total", lambda node, x, rows: x, 1)
_TOTAL_OUTER = _total("total_outer", lambda node, a, b, rows: a + b, 2)
_TOTAL_MATMUL = _total("total_matmul", lambda node, a, b, rows: a[:-1] + b[1:], 2)

TOTALS: dict[Op, Callable[..., Any]] = {_TOTAL: _of_array, _TOTAL_OUTER: _of_outer, _TOTAL_MATMUL: _of_matmul}


def totals(roots: Sequence[Node], columns: Collection[str], leaves: Mapping[str, Shape]) -> list[Node]:
    """Graphs of the sums over rows of other graphs. They read the leaf `ROWS`.

    Args:
        columns: the names of the leaves that vary from row to row.
        leaves: the shapes of leaves that are no scalars.
    """
    tape = Tape(roots)
    sizes = shapes(tape, leaves)
    by_row: set[Node] = set()
    for node in tape.nodes:
        if (node.is_input and node.text in columns) or not by_row.isdisjoint(node.inputs):
            by_row.add(node)
    wanted = by_row.intersection(roots)
    through: dict[Node, tuple[int, ...]] = {}
    for node, size in zip(reversed(tape.nodes), reversed(sizes), strict=True):
        if node in wanted and len(size) == 2:
            through[node] = _linear(node, by_row)
            wanted.update(node.inputs[k] for k in through[node])
    found: dict[Node, Node] = {}
    size_of = dict(zip(tape.nodes, sizes, strict=True))
    for node, size in size_of.items():
        if node in wanted:
            whole = _passed_on(node, size_of)
            found[node] = _taken(whole, through.get(node, ()), found, size)
    return [found[root] if root in found else mul(root, ROWS) for root in roots]


def _linear(node: Node, by_row: Collection[Node]) -> tuple[int, ...]:
    """The positions of the inputs whose totals make up that of the node; none if it has to be summed itself."""
    varying = tuple(k for k, child in enumerate(node.inputs) if child in by_row)
    if node.op in (add, sub):
        return varying if len(varying) == 2 else ()
    if node.op in (neg, transpose, mul, matmul, outer):
        return varying if len(varying) == 1 else ()
    return varying if node.op is div and varying == (0,) else ()


def _passed_on(node: Node, sizes: Mapping[Node, Shape]) -> Node:
    """A product of two vectors that a condition on the row leaves or makes 0, as one of vectors that are made 0: their
    product, and so what comes of nan and infinities, is the same."""
    if node.op is not where:
        return node
    condition, product, other = node.inputs
    is_row_cut = sizes[condition] == () and other.is_constant and other.text == "0"
    if not is_row_cut or product.op is not outer:
        return node
    return outer(*[where(condition, vector, other) for vector in product.inputs])


def _taken(node: Node, through: tuple[int, ...], found: Mapping[Node, Node], size: Shape) -> Node:
    """The total of a node, given those of its inputs."""
    if through:
        inputs = tuple(found[child] if k in through else child for k, child in enumerate(node.inputs))
        return Node(node.op, inputs)
    if node.op is outer:
        return _TOTAL_OUTER(*node.inputs, ROWS)
    if node.op is matmul and len(size) == 2:
        return _TOTAL_MATMUL(*node.inputs, ROWS)
    return _TOTAL(node, ROWS)

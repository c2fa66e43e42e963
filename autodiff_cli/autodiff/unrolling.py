"""Unrolling of arrays: graphs in which every element of an array is a scalar node of its own.

Algorithms for scalars only (arbitrary precision, Taylor series) then work for arrays as well. Broadcasting and
operations on whole arrays disappear; elementwise operations remain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.graph.node import Node, constant, get_op, variable
from autodiff_cli.graph.op import ZERO, Shape
from autodiff_cli.graph.shapes import shape_of
from autodiff_cli.graph.tape import topological_order
from autodiff_cli.ops.structural import literal_index, matmul

NodeArray: TypeAlias = NDArray[np.object_]  # an array of scalar nodes, of shape () for one

MAX_OPERATIONS = 500_000


class TooManyOperationsError(ValueError):
    """Arrays are too large to be unrolled."""


def unroll(
    outputs: Sequence[Node], leaves: Mapping[Node, NodeArray] | None = None, max_operations: int = MAX_OPERATIONS
) -> list[NodeArray]:
    """Return the graphs of `outputs` with their arrays unrolled.

    Args:
        outputs: the graphs.
        leaves: the elements of input leaves, as arrays of the leaf's shape; all other leaves are scalars and remain.
        max_operations: the maximum number of operations on numbers.

    Returns:
        For each output an array of its shape that contains the graphs of its elements.

    Raises:
        TooManyOperationsError: before large graphs are built.
        ShapeError: if shapes do not match.
    """
    return _Unroller(max_operations).run(outputs, leaves or {})


def element_leaves(name: str, shape: Shape) -> NodeArray:
    """Return an input leaf for every element of an array, named as in the language: `W[0, 1]`."""
    indices = [*np.ndindex(shape)]
    return _node_array(
        [variable(f"{name}[{', '.join(map(str, index))}]" if index else name) for index in indices], shape
    )


class _Unroller:
    """Unrolls graphs, within a budget of operations."""

    def __init__(self, most: int) -> None:
        self._max_operations = self._remaining = most

    def run(self, outputs: Sequence[Node], leaves: Mapping[Node, NodeArray]) -> list[NodeArray]:
        unrolled = dict(leaves)
        for node in topological_order(outputs):
            if node not in unrolled:
                unrolled[node] = (
                    _node_array([node], ())
                    if node.op is None
                    else self._apply(node, [unrolled[i] for i in node.inputs])
                )
        return [unrolled[output] for output in outputs]

    def _apply(self, node: Node, inputs: list[NodeArray]) -> NodeArray:
        op = node.operation
        expansion = op.expand(len(inputs)) if op.is_structural and op.name not in ARRAY_FUNCTIONS else None
        if expansion is not None:  # its operations are counted in turn
            return self.run([expansion], dict(zip(op.placeholders(len(inputs)), inputs, strict=True)))[0]
        shape = shape_of(node, [x.shape for x in inputs])
        self._remaining -= math.prod(shape) * (inputs[0].shape[-1] if op is matmul else 1)
        if self._remaining < 0:
            raise TooManyOperationsError(
                f"with its arrays written out, the formula has more than {self._max_operations:,} operations on numbers"
            )
        if op.is_structural:
            return np.asarray(ARRAY_FUNCTIONS[op.name](*inputs), dtype=object)
        columns = [np.broadcast_to(x, shape).reshape(-1).tolist() for x in inputs]
        return _node_array([op(*row) for row in zip(*columns, strict=True)], shape)


def _node_array(nodes: Sequence[Node], shape: Shape) -> NodeArray:
    array = np.empty(len(nodes), dtype=object)
    array[:] = nodes
    return array.reshape(shape)


def _reduction(name: str) -> Callable[[NodeArray], Node]:
    """Return a function that combines all elements of an array pairwise by the operation of this name."""
    return lambda x: reduce(get_op(name), x.reshape(-1).tolist())


_logsumexp = _reduction("logaddexp")


def _sum_like(x: NodeArray, like: NodeArray) -> Any:
    x = np.asarray(x.sum(axis=tuple(range(x.ndim - like.ndim))), dtype=object)
    broadcast_axes = tuple(i for i in range(like.ndim) if like.shape[i] == 1 < x.shape[i])
    return x.sum(axis=broadcast_axes, keepdims=True)


def _softmax(x: NodeArray) -> NodeArray:
    log_total = _logsumexp(x)
    exp = get_op("exp")
    return _node_array([exp(node - log_total) for node in x.reshape(-1)], x.shape)


def _norm(x: NodeArray) -> Node:
    square, sqrt = get_op("square"), get_op("sqrt")
    return sqrt(reduce(get_op("add"), [square(node) for node in x.reshape(-1)]))


def _indices(positions: Sequence[NodeArray]) -> tuple[int, ...]:
    """Return the integers of constant index nodes, whose shapes have been checked."""
    integers = (literal_index(position.item()) for position in positions)
    return tuple(number for number in integers if number is not None)


def _scatter(x: NodeArray, like: NodeArray, where: Any) -> NodeArray:
    zeros = np.full(like.shape, ZERO, dtype=object)
    zeros[where] = x if x.ndim else x.item()
    return zeros


ARRAY_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "broadcast_like": lambda x, like: np.broadcast_to(x, like.shape),
    "sum_like": _sum_like,
    "sum": _reduction("add"),
    "prod": _reduction("mul"),
    "largest": _reduction("max"),
    "smallest": _reduction("min"),
    "size": lambda x: constant(str(x.size)),
    "norm": _norm,
    "logsumexp": _logsumexp,
    "softmax": _softmax,
    "matmul": lambda a, b: a @ b,
    "outer": np.multiply.outer,
    "dot": lambda a, b: reduce(get_op("add"), map(get_op("mul"), a.flat, b.flat)),
    "stack": lambda *xs: np.stack(xs),
    "concat": lambda *xs: np.concatenate(xs),
    "transpose": np.transpose,
    "index": lambda x, *positions: x[_indices(positions)],
    "place": lambda x, like, *positions: _scatter(x, like, _indices(positions)),
    "part": lambda x, *ends: x[slice(*_indices(ends))],
    "pad": lambda x, start, stop, like: _scatter(x, like, slice(*_indices([start, stop]))),
}

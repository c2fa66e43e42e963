"""Arrays written out: graphs in which every element of an array is a node of its own.

What works for numbers only (digits without end, Taylor series) works for arrays when they are written out. Broadcasting
and the operations on whole arrays disappear; the operations element by element stay what they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.graph.node import Node, constant, variable
from autodiff_cli.graph.op import ZERO, Shape
from autodiff_cli.graph.registry import registered
from autodiff_cli.graph.shapes import shape_of
from autodiff_cli.graph.tape import topological
from autodiff_cli.ops.structural import matmul, whole_number

Nodes: TypeAlias = NDArray[np.object_]  # an array of scalar nodes, of shape () for one

MOST_OPERATIONS = 500_000


class TooManyOperationsError(ValueError):
    """Arrays that are too large to be written out."""


def unroll(
    outputs: Sequence[Node], leaves: Mapping[Node, Nodes] | None = None, most: int = MOST_OPERATIONS
) -> list[Nodes]:
    """The graphs of `outputs` with their arrays written out.

    Args:
        leaves: the elements of input leaves, in the leaf's shape; other leaves are scalars and stay.
        most: how many operations on numbers there may be.

    Returns:
        For each output an array of its shape, with the graphs of its elements.

    Raises:
        TooManyOperationsError: before anything large is made.
        ShapeError: where shapes do not fit together.
    """
    return _Unrolling(most).run(outputs, leaves or {})


def elements(name: str, shape: Shape) -> Nodes:
    """An input leaf for every element of an array, called as the language writes it: `W[0, 1]`."""
    places = [*np.ndindex(shape)]
    return _array([variable(f"{name}[{', '.join(map(str, place))}]" if place else name) for place in places], shape)


class _Unrolling:
    """Counts the operations that are left to it."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def run(self, outputs: Sequence[Node], leaves: Mapping[Node, Nodes]) -> list[Nodes]:
        made = dict(leaves)
        for node in topological(outputs):
            if node not in made:
                made[node] = _single(node) if node.op is None else self._applied(node, [made[i] for i in node.inputs])
        return [made[output] for output in outputs]

    def _applied(self, node: Node, inputs: list[Nodes]) -> Nodes:
        op = node.op
        assert op is not None
        expansion = op.expand(len(inputs)) if op.structural and op.name not in TABLE else None
        if expansion is not None:  # of operations that are counted
            return self.run([expansion], dict(zip(op.placeholders(len(inputs)), inputs, strict=True)))[0]
        shape = shape_of(node, [x.shape for x in inputs])
        self._left -= math.prod(shape) * (inputs[0].shape[-1] if op is matmul else 1)
        if self._left < 0:
            raise TooManyOperationsError(
                f"with its arrays written out, the formula has more than {self._most:,} operations on numbers"
            )
        if op.structural:
            return np.asarray(TABLE[op.name](*inputs), dtype=object)
        columns = [np.broadcast_to(x, shape).reshape(-1).tolist() for x in inputs]
        return _array([op(*row) for row in zip(*columns, strict=True)], shape)


def _single(node: Node) -> Nodes:
    return _array([node], ())


def _array(nodes: Sequence[Node], shape: Shape) -> Nodes:
    made = np.empty(len(nodes), dtype=object)
    made[:] = nodes
    return made.reshape(shape)


def _fold(name: str) -> Callable[[Nodes], Node]:
    """All elements of an array joined, two at a time, by the operation of this name."""
    return lambda x: reduce(registered(name), x.reshape(-1).tolist())


_logsumexp = _fold("logaddexp")


def _sum_like(x: Nodes, like: Nodes) -> Any:
    x = np.asarray(x.sum(axis=tuple(range(x.ndim - like.ndim))), dtype=object)
    stretched = tuple(i for i in range(like.ndim) if like.shape[i] == 1 < x.shape[i])
    return x.sum(axis=stretched, keepdims=True)


def _softmax(x: Nodes) -> Nodes:
    whole = _logsumexp(x)
    exp = registered("exp")
    return _array([exp(node - whole) for node in x.reshape(-1)], x.shape)


def _norm(x: Nodes) -> Node:
    square, sqrt = registered("square"), registered("sqrt")
    return sqrt(reduce(registered("add"), [square(node) for node in x.reshape(-1)]))


def _numbers(positions: Sequence[Nodes]) -> tuple[int, ...]:
    """Indices, which are constants written as whole numbers; the shapes have been found to be right."""
    found = (whole_number(position.item()) for position in positions)
    return tuple(number for number in found if number is not None)


def _put(x: Nodes, like: Nodes, where: Any) -> Nodes:
    zeros = np.full(like.shape, ZERO, dtype=object)
    zeros[where] = x if x.ndim else x.item()
    return zeros


TABLE: dict[str, Callable[..., Any]] = {
    "broadcast_like": lambda x, like: np.broadcast_to(x, like.shape),
    "sum_like": _sum_like,
    "sum": _fold("add"),
    "prod": _fold("mul"),
    "largest": _fold("max"),
    "smallest": _fold("min"),
    "size": lambda x: constant(str(x.size)),
    "norm": _norm,
    "logsumexp": _logsumexp,
    "softmax": _softmax,
    "matmul": lambda a, b: a @ b,
    "outer": np.multiply.outer,
    "dot": lambda a, b: reduce(registered("add"), map(registered("mul"), a.flat, b.flat)),
    "stack": lambda *xs: np.stack(xs),
    "concat": lambda *xs: np.concatenate(xs),
    "transpose": np.transpose,
    "index": lambda x, *positions: x[_numbers(positions)],
    "place": lambda x, like, *positions: _put(x, like, _numbers(positions)),
    "part": lambda x, *ends: x[slice(*_numbers(ends))],
    "pad": lambda x, start, stop, like: _put(x, like, slice(*_numbers([start, stop]))),
}

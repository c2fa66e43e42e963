"""Unrolling of arrays: graphs in which every element of an array is a scalar node of its own.

Algorithms for scalars only (arbitrary precision, Taylor series) then work for arrays as well. Broadcasting and
operations on whole arrays disappear; elementwise operations remain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.graph.node import Node, Shape, as_node, get_op, variable
from autodiff_cli.graph.tape import shape_of, topological_order
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.numbers.arrays import STRUCTURAL
from autodiff_cli.numbers.forms import ARRAY_DEFINITIONS
from autodiff_cli.ops.structural import literal_index, matmul, norm, softmax

NodeArray: TypeAlias = NDArray[np.object_]  # an array of scalar nodes, of shape () for one

MAX_OPERATIONS = 500_000
_MAX_ELEMENTS = 50_000  # elements of arrays; to create the leaves of more takes longer than most operations do
_MAX_SQUARE_SUM = 1e200  # larger sums of squares, or their inverses, have derivatives with few digits


class TooManyOperationsError(ExpressionError):
    """Arrays are too large to be unrolled."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"with its arrays written out, the formula has more than {limit:,} operations on numbers")


def unroll(
    outputs: Sequence[Node],
    leaves: Mapping[Node, NodeArray] | None = None,
    max_operations: int | None = None,
    is_exact: bool = True,
    is_short: bool = False,
) -> list[NodeArray]:
    """Return the graphs of `outputs` with their arrays unrolled.

    Args:
        outputs: the graphs.
        leaves: the elements of input leaves, as arrays of the leaf's shape; all other leaves are scalars and remain.
        max_operations: the maximum number of operations on numbers; `MAX_OPERATIONS` by default.
        is_exact: whether the graphs are for exact numbers; else for floats, which round, overflow and underflow.
        is_short: whether the length of two numbers is one operation, which does not keep a nan beside infinity.

    Returns:
        For each output an array of its shape that contains the graphs of its elements.

    Raises:
        TooManyOperationsError: before large graphs are built.
        ShapeError: if shapes do not match.
    """
    budget = MAX_OPERATIONS if max_operations is None else max_operations
    return _Unroller(budget, is_exact, is_short).run(outputs, leaves or {})


def element_names(name: str, shape: Shape) -> list[str]:
    """Return the names of the elements of an array in row-major order, as in the language: `W[0, 1]`."""
    return [f"{name}[{', '.join(map(str, index))}]" if index else name for index in np.ndindex(shape)]


def element_leaves(name: str, shape: Shape) -> NodeArray:
    """Return an input leaf for every element of an array, by its name."""
    return _node_array([*map(variable, element_names(name, shape))], shape)


class UnrolledGraphs(NamedTuple):
    """Graphs at a point of numbers and arrays, unrolled into graphs of numbers.

    Attributes:
        graphs: for each graph an array of its shape that contains the graphs of its elements.
        leaves: the leaves of the elements of each variable, by its name.
        point: the value of every element, by the name of its leaf.
    """

    graphs: list[NodeArray]
    leaves: dict[str, NodeArray]
    point: dict[str, float]


def unroll_at(
    graphs: Sequence[Node],
    point: Mapping[str, Any],
    leaves: Mapping[str, Node],
    max_operations: int = MAX_OPERATIONS,
    is_short: bool = False,
) -> UnrolledGraphs:
    """Return graphs with their arrays unrolled, and the point as numbers.

    Args:
        point: the value of each variable, a number or an array.
        leaves: the leaf of each variable.
        is_short: whether the length of two numbers is one operation, if no number is nan.

    Raises:
        TooManyOperationsError: for more than `max_operations` operations on numbers.
    """
    if sum(map(np.size, point.values())) > max(max_operations, _MAX_ELEMENTS):
        raise TooManyOperationsError(max_operations)
    elements = {name: element_leaves(name, np.shape(x)) for name, x in point.items()}
    arrays = {leaves[name]: array for name, array in elements.items()}
    has_nan = any(np.isnan(x).any() for x in point.values())
    unrolled = unroll(graphs, arrays, max_operations, is_short=is_short and not has_nan)
    pairs = ((elements[name].reshape(-1), np.ravel(x)) for name, x in point.items())
    values = {leaf.text: float(x) for array, numbers in pairs for leaf, x in zip(array, numbers, strict=True)}
    return UnrolledGraphs(unrolled, elements, values)


class _Unroller:
    """Unrolls graphs, within a budget of operations."""

    def __init__(self, max_operations: int, is_exact: bool, is_short: bool) -> None:
        self._max_operations = self._remaining = max_operations
        self._is_exact, self._is_short = is_exact, is_short

    def run(self, outputs: Sequence[Node], leaves: Mapping[Node, NodeArray]) -> list[NodeArray]:
        unrolled = dict(leaves)
        for node in topological_order(outputs):
            if node not in unrolled:
                inputs = [unrolled[i] for i in node.inputs]
                unrolled[node] = _node_array([node], ()) if node.op is None else self._apply(node, inputs)
        return [unrolled[output] for output in outputs]

    def _apply(self, node: Node, inputs: list[NodeArray]) -> NodeArray:
        op = node.operation
        has_function = not op.is_structural or op.name in {*_NODE_FUNCTIONS, *STRUCTURAL}
        expansion = None if has_function else op.expand(len(inputs))
        if not self._is_exact and op is softmax:
            expansion = ARRAY_DEFINITIONS[op](*op.placeholders(1))
        if expansion is not None:  # its operations are counted in turn
            return self.run([expansion], dict(zip(op.placeholders(len(inputs)), inputs, strict=True)))[0]
        shape = shape_of(node, [x.shape for x in inputs])
        self._remaining -= math.prod(shape) * (inputs[0].shape[-1] if op is matmul else 1)
        if self._remaining < 0:
            raise TooManyOperationsError(self._max_operations)
        if op is norm:
            return _node_array([_norm(*inputs[0].reshape(-1), is_short=self._is_short)], ())
        if op.is_structural:
            return _apply_structural(op.name, inputs, shape)
        columns = [np.broadcast_to(x, shape).reshape(-1).tolist() for x in inputs]
        return _node_array([op(*row) for row in zip(*columns, strict=True)], shape)


def _node_array(nodes: Sequence[Node], shape: Shape) -> NodeArray:
    array = np.empty(len(nodes), dtype=object)
    array[:] = nodes
    return array.reshape(shape)


def _extreme(name: str) -> Callable[[NodeArray], Node]:
    """Return a function of an array that is the operation of this name on all elements, of which some may tie."""
    return lambda x: x.item() if x.size == 1 else get_op(name)(*x.reshape(-1).tolist())


def _logsumexp(x: NodeArray) -> Any:
    return reduce(get_op("logaddexp"), x.reshape(-1).tolist())


def _softmax(x: NodeArray) -> NodeArray:
    log_total = _logsumexp(x)
    exp = get_op("exp")
    return _node_array([exp(node - log_total) for node in x.reshape(-1)], x.shape)


def _norm(first: Node, *others: Node, is_short: bool) -> Node:
    length = reduce(get_op("hypot"), others, first) if others else get_op("abs")(first)
    if len(others) < 1 + is_short:
        return length
    total = reduce(get_op("add"), map(get_op("square"), (first, *others)))
    if len(others) == 1:
        return get_op("where_defined")(total, length)  # beside infinity, `hypot` does not keep a nan
    # The root of the sum is exact for fractions, and keeps a nan. Where squares or slopes underflow or overflow, and at
    # 0, where a square root has no slope, the length is nested.
    is_extreme = get_op("or")(total <= 1 / _MAX_SQUARE_SUM, total >= _MAX_SQUARE_SUM)
    return get_op("where")(is_extreme, length, get_op("sqrt")(total))


# Operations whose functions of arrays compute with floats. All other functions only rearrange, add and multiply.
_NODE_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "largest": _extreme("max"),
    "smallest": _extreme("min"),
    "logsumexp": _logsumexp,
    "softmax": _softmax,
    "dot": lambda a, b: np.sum(a * b),  # of two numbers, a * b is no array
}


def _apply_structural(name: str, inputs: Sequence[NodeArray], shape: Shape) -> NodeArray:
    """Return an operation on whole arrays, as arrays of floats compute it with one row."""
    if name in _NODE_FUNCTIONS:
        return np.asarray(_NODE_FUNCTIONS[name](*inputs), dtype=object)
    positions = [literal_index(x.item()) if x.shape == () else None for x in inputs]
    rows = [
        np.array([x.item() if k is None else k]) if x.shape == () else x[..., None]
        for x, k in zip(inputs, positions, strict=True)
    ]
    return _node_array([*map(as_node, STRUCTURAL[name](*rows).ravel().tolist())], shape)

"""From graphs to items: every operation becomes a function of vectors over elements, or a way to read."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from autodiff_cli.algebra.table import share
from autodiff_cli.backends.llvm.functions.arithmetic import ARITHMETIC
from autodiff_cli.backends.llvm.functions.table import applied
from autodiff_cli.backends.llvm.functions.vectors import Lane, Vector, VectorCode
from autodiff_cli.backends.llvm.plans.definitions import defined
from autodiff_cli.backends.llvm.plans.items import (
    ROW_COUNT,
    Arranged,
    Called,
    Compute,
    Each,
    Effect,
    Input,
    Item,
    Leaf,
    MatrixProduct,
    Plan,
    Reading,
    Stage,
    along,
    contiguous,
    stretched,
)
from autodiff_cli.backends.protocol import RowGraphs
from autodiff_cli.backends.totals import ROWS, TOTALS, totals
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Op, Shape
from autodiff_cli.graph.shapes import shapes
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.arrays.table import ARRAYS, quiet
from autodiff_cli.ops.structural import whole_number


def planned(graphs: RowGraphs, *, summed: bool, first: Sequence[str] = ()) -> Plan:
    """The plan for these graphs, or for their sums over rows.

    Args:
        first: leaves with which the point is to begin, one after the other; others follow at the next multiple of
            `GRID` numbers.
    """
    outputs = defined(share(graphs.outputs), graphs.leaves)
    if summed:
        outputs = totals(outputs, graphs.columns, graphs.leaves)
    # Derivatives in the order in which a backward sweep finds them: towards the last parameters first.
    tape = Tape([*outputs[:1], *outputs[:0:-1]])
    planner = _Planner(graphs, first)
    level = Stage.TOTAL if summed else Stage.ROW
    wanted: dict[Node, list[tuple[Shape, int]]] = {}
    for output, size, place in zip(outputs, graphs.sizes, graphs.places, strict=True):
        wanted.setdefault(output, []).append((size, place.start))
    for node, shape in zip(tape.nodes, shapes(tape, graphs.leaves), strict=True):
        planner.add(node, shape)
        for size, start in wanted.get(node, ()):
            planner.hand_out(node, size, start, level)
    planner.plan.numbers = graphs.numbers
    return planner.plan


class _Planner:
    def __init__(self, graphs: RowGraphs, first: Sequence[str]) -> None:
        self.plan = Plan()
        self._columns = graphs.columns
        self._found: dict[Node, Input] = {ROWS: Reading(ROW_COUNT, (), 0, ())}
        self._shapes: dict[Node, Shape] = {ROWS: ()}
        self._point_size = 0
        self._placed: dict[str, Leaf] = {}
        for name in first:
            self._placed[name] = self._of_the_point(name, graphs.leaves.get(name, ()))
        self._point_size = on_grid(self._point_size)

    def add(self, node: Node, shape: Shape) -> None:
        """What a node comes to, its inputs being there."""
        if node in self._found:
            return
        self._shapes[node] = shape
        if node.op is None:
            self._found[node] = float(ARRAYS.read(node.text)) if node.is_constant else self._leaf(node, shape)
            return
        inputs = [self._found[child] for child in node.inputs]
        sizes = [self._shapes[child] for child in node.inputs]
        if node.op in TOTALS:
            self._found[node] = self._total(inputs[:-1], sizes[:-1], shape)
        elif node.op.structural:
            self._found[node] = _STRUCTURES[node.op.name](self, node, inputs, sizes, shape)
        else:
            self._found[node] = self._element_by_element(node.op, inputs, shape)

    def hand_out(self, node: Node, size: Shape, offset: int, level: Stage) -> None:
        """Write a value out, element by element."""
        inputs = (stretched(self._found[node], size),)
        self.put(Each(_same, inputs, size, level, Effect.WRITE, contiguous(size), math.prod(size), offset))

    def put(self, item: Item, shape: Shape = ()) -> Reading:
        """A new item, and how its elements are read."""
        self.plan.items.append(item)
        return Reading(len(self.plan.items) - 1, shape, 0, contiguous(shape))

    def keep(self, compute: Compute, inputs: Sequence[Input], shape: Shape) -> Reading:
        """A new array, element by element."""
        whole = tuple(stretched(each, shape) for each in inputs)
        level = self.plan.highest(inputs)
        return self.put(Each(compute, whole, shape, level, Effect.KEEP, contiguous(shape), math.prod(shape)), shape)

    def combine(
        self, effect: Effect, factors: Sequence[Input], over: Shape, strides: tuple[int, ...], shape: Shape
    ) -> Reading:
        """The product of the factors, combined along the axes whose stride is 0."""
        compute = _same if len(factors) == 1 else ARITHMETIC["mul"]
        level = Stage.ROW if effect is Effect.TOTAL else self.plan.highest(factors)
        return self.put(Each(compute, tuple(factors), over, level, effect, strides, math.prod(shape)), shape)

    def layer(self, matrix: Reading, strides: tuple[int, ...], vector: Reading, shape: Shape) -> Reading:
        """A matrix that is the same for all rows, read with these strides, times a vector per row."""
        plain = self._plain(vector, vector.shape)
        assert isinstance(plain, Reading)
        length = vector.shape[0]
        read = Reading(matrix.source, (*shape, length), matrix.offset, strides)
        return self.put(MatrixProduct((read, plain), length, shape[0]), shape)

    def _leaf(self, node: Node, shape: Shape) -> Reading:
        if node.text in self._columns:
            leaf = Leaf(node.text, shape, Stage.ROW, len(self.plan.columns))
            self.plan.columns.append(leaf)
        else:
            leaf = self._placed.get(node.text) or self._of_the_point(node.text, shape)
        return Reading(leaf, shape, 0, contiguous(shape))

    def _of_the_point(self, name: str, shape: Shape) -> Leaf:
        leaf = Leaf(name, shape, Stage.UNIFORM, self._point_size)
        self.plan.points.append(leaf)
        self._point_size += math.prod(shape)
        return leaf

    def _element_by_element(self, op: Op, inputs: Sequence[Input], shape: Shape) -> Input:
        numbers = [each for each in inputs if isinstance(each, float)]
        if len(numbers) == len(inputs):
            with quiet():
                return float(ARRAYS.function(op, len(inputs))(*numbers))
        if not _has_form(op, tuple(each if isinstance(each, float) else None for each in inputs)):
            plain = tuple(self._plain(each, shape) for each in inputs)
            return self.put(Called(op, plain, shape, self.plan.highest(inputs), math.prod(shape)), shape)
        return self.keep(lambda *vectors: applied(op, *vectors), inputs, shape)

    def _plain(self, given: Input, shape: Shape) -> Input:
        """The same elements one after the other, in memory of the kernel's own."""
        if isinstance(given, float):
            return given
        is_there = isinstance(given.source, int) and given.shape == shape and given.is_plain
        return given if is_there else self.keep(_same, [given], shape)

    def _total(self, factors: Sequence[Input], sizes: Sequence[Shape], shape: Shape) -> Reading:
        """The sum over rows of an array, of an outer product, or of a product of matrices."""
        if len(factors) == 1:
            return self.combine(Effect.TOTAL, [stretched(factors[0], shape)], shape, contiguous(shape), shape)
        if len(sizes[0]) == 1:
            return self.combine(Effect.TOTAL, _outer(factors, shape), shape, contiguous(shape), shape)
        over, read = _product_loop(factors, sizes)
        return self.combine(Effect.TOTAL, read, over, (*contiguous(shape), 0), shape)


GRID = 8  # numbers: as many as the widest vector has


def on_grid(count: int) -> int:
    """So many numbers, or the next more that fill whole vectors."""
    return -(-count // GRID) * GRID


def _same(x: Vector) -> Vector:
    return x


@functools.lru_cache(4096)
def _has_form(op: Op, numbers: tuple[float | None, ...]) -> bool:
    """Whether an operation has a form in vectors for inputs that are these numbers, or not known: they may decide."""
    code = VectorCode()
    vectors = [
        code.make("load", Lane.FLOAT, detail=k, varies=True) if each is None else code.vector(each)
        for k, each in enumerate(numbers)
    ]
    return applied(op, *vectors) is not None


# --- operations on whole arrays

Structure: TypeAlias = Callable[[_Planner, Node, Sequence[Input], Sequence[Shape], Shape], Input]


def _indexed(_: _Planner, node: Node, inputs: Sequence[Input], __: Sequence[Shape], shape: Shape) -> Input:
    return _from(inputs[0], shape, _numbers(node.inputs[1:]), len(node.inputs) - 1)


def _part(_: _Planner, node: Node, inputs: Sequence[Input], __: Sequence[Shape], shape: Shape) -> Input:
    return _from(inputs[0], shape, _numbers(node.inputs[1:2]), 0)


def _from(array: Input, shape: Shape, positions: Sequence[int], gone: int) -> Input:
    """What stands at a position, the first axes being gone."""
    if isinstance(array, float):
        return array  # it stands for an array of equal numbers
    return Reading(array.source, shape, array.offset + _offset(positions, array.strides), array.strides[gone:])


def _offset(positions: Sequence[int], strides: Sequence[int]) -> int:
    return sum(k * stride for k, stride in zip(positions, strides, strict=False))


def _numbers(nodes: Sequence[Node]) -> list[int]:
    """The whole numbers that are written there: shapes have been checked."""
    return [whole_number(node) or 0 for node in nodes]


def _transposed(_: _Planner, __: Node, inputs: Sequence[Input], ___: Sequence[Shape], shape: Shape) -> Input:
    if isinstance(inputs[0], float):
        return inputs[0]
    return Reading(inputs[0].source, shape, inputs[0].offset, inputs[0].strides[::-1])


def _stretched(_: _Planner, __: Node, inputs: Sequence[Input], ___: Sequence[Shape], shape: Shape) -> Input:
    return stretched(inputs[0], shape)


def _sum_like(planner: _Planner, _: Node, inputs: Sequence[Input], sizes: Sequence[Shape], shape: Shape) -> Input:
    over = sizes[0]
    if over == shape:
        return inputs[0]
    own = contiguous(shape)
    missing = len(over) - len(shape)
    strides = tuple(
        0 if axis < missing or shape[axis - missing] != length else own[axis - missing]
        for axis, length in enumerate(over)
    )
    return planner.combine(Effect.ADD, [inputs[0]], over, strides, shape)


def _reduced(effect: Effect) -> Structure:
    def reduced(planner: _Planner, _: Node, inputs: Sequence[Input], sizes: Sequence[Shape], shape: Shape) -> Input:
        return planner.combine(effect, inputs, sizes[0], (0,) * len(sizes[0]), shape)

    return reduced


def _outer(factors: Sequence[Input], shape: Shape) -> list[Input]:
    return [along(factors[0], shape, (0,)), along(factors[1], shape, (1,))]


def _outer_product(planner: _Planner, _: Node, inputs: Sequence[Input], __: Sequence[Shape], shape: Shape) -> Input:
    return planner.keep(ARITHMETIC["mul"], _outer(inputs, shape), shape)


def _product_loop(factors: Sequence[Input], sizes: Sequence[Shape]) -> tuple[Shape, list[Input]]:
    """The axes of the loops of a product, the summed one last, and how the factors are read."""
    left, right = sizes[0], sizes[1]
    over = (*left[:-1], *right[1:], right[0])
    last = len(over) - 1
    first, second = (*range(len(left) - 1), last), (last, *range(len(left) - 1, last))
    return over, [along(factors[0], over, first), along(factors[1], over, second)]


def _matmul(planner: _Planner, _: Node, inputs: Sequence[Input], sizes: Sequence[Shape], shape: Shape) -> Input:
    left, right = inputs
    if isinstance(left, Reading) and isinstance(right, Reading):
        for matrix, vector, strides in ((left, right, left.strides), (right, left, right.strides[::-1])):
            is_layer = (planner.plan.level(matrix), planner.plan.level(vector)) == (Stage.UNIFORM, Stage.ROW)
            if is_layer and (len(matrix.shape), len(vector.shape)) == (2, 1):
                return planner.layer(matrix, strides, vector, shape)
    over, read_both = _product_loop(inputs, sizes)
    return planner.combine(Effect.ADD, read_both, over, (*contiguous(shape), 0), shape)


def _stacked(planner: _Planner, _: Node, inputs: Sequence[Input], sizes: Sequence[Shape], shape: Shape) -> Input:
    length = math.prod(sizes[0])
    return _arranged(planner, inputs, sizes, [k * length for k in range(len(inputs))], shape)


def _concatenated(planner: _Planner, _: Node, inputs: Sequence[Input], sizes: Sequence[Shape], shape: Shape) -> Input:
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + math.prod(size))
    return _arranged(planner, inputs, sizes, starts[:-1], shape)


def _placed(planner: _Planner, node: Node, inputs: Sequence[Input], sizes: Sequence[Shape], shape: Shape) -> Input:
    return _arranged(planner, inputs[:1], sizes, [_offset(_numbers(node.inputs[2:]), contiguous(shape))], shape)


def _padded(planner: _Planner, node: Node, inputs: Sequence[Input], sizes: Sequence[Shape], shape: Shape) -> Input:
    return _arranged(planner, inputs[:1], sizes, [_offset(_numbers(node.inputs[1:2]), contiguous(shape))], shape)


def _arranged(
    planner: _Planner, inputs: Sequence[Input], sizes: Sequence[Shape], offsets: Sequence[int], shape: Shape
) -> Input:
    shapes = tuple(sizes[: len(inputs)])
    strides = tuple(map(contiguous, shapes))
    level = planner.plan.highest(inputs)
    return planner.put(Arranged(tuple(inputs), shapes, tuple(offsets), strides, level, math.prod(shape)), shape)


_STRUCTURES: dict[str, Structure] = {
    "broadcast_like": _stretched,
    "sum_like": _sum_like,
    "sum": _reduced(Effect.ADD),
    "largest": _reduced(Effect.LARGEST),
    "smallest": _reduced(Effect.SMALLEST),
    "prod": _reduced(Effect.MULTIPLY),
    "matmul": _matmul,
    "outer": _outer_product,
    "stack": _stacked,
    "index": _indexed,
    "place": _placed,
    "concat": _concatenated,
    "part": _part,
    "pad": _padded,
    "transpose": _transposed,
}

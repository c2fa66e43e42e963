"""The plan of a kernel: array operations with explicit strides, made from graphs.

Every operation becomes an item that is computed for each element of an array, and for each row of data if it depends on
a column. Operations that only select or rearrange elements (an index, a transpose, broadcasting) are not items but
strided views of other arrays. Other operations on whole arrays are reduced to sums, products, extremes and the assembly
of arrays from parts.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from autodiff_cli.algebra.simplify import NodeTable, share
from autodiff_cli.array_types import ignore_float_errors
from autodiff_cli.backends.llvm.vectors import ARITHMETIC, Vector, apply_rounded, apply_to_vectors
from autodiff_cli.backends.protocol import RowGraphs
from autodiff_cli.backends.reductions import ROW_COUNT_NODE, TOTAL_FUNCTIONS, totals
from autodiff_cli.graph.node import Gate, Node, Op, Shape, constant
from autodiff_cli.graph.tape import ShapeInference, Tape, group_pairs, infer_shapes, topological_order
from autodiff_cli.numbers.arrays import ARRAYS
from autodiff_cli.numbers.floats import parse_constant
from autodiff_cli.numbers.forms import ARRAY_DEFINITIONS
from autodiff_cli.ops.arithmetic import abs_, add, div, equal, mod, mul, quotient_slope, sub, where
from autodiff_cli.ops.functions import pow_, square
from autodiff_cli.ops.structural import is_gathered, literal_index, size

Compute: TypeAlias = Callable[..., Vector]


class Stage(enum.IntEnum):
    """When a value is computed: once per point, for each row, or after all rows, if it depends on a total."""

    UNIFORM = 0
    ROW = 1
    TOTAL = 2


@dataclass(frozen=True, slots=True)
class KernelInput:
    """An input of a kernel: a leaf of its graphs.

    Attributes:
        name: the name of the leaf.
        shape: its shape for one row.
        stage: `ROW` for a column, `UNIFORM` for a value of the point.
        position: the number of the column, or the position of its first element among the numbers of the point.
    """

    name: str
    shape: Shape
    stage: Stage
    position: int


ROW_COUNT_INPUT = KernelInput("", (), Stage.TOTAL, 0)  # the number of rows of a block


@dataclass(frozen=True, slots=True)
class StridedView:
    """An array view: which elements of an item or of an input are read, as in NumPy.

    Attributes:
        source: the number of the item, or the input.
        shape: the shape of the view.
        offset: the position of the first element.
        strides: the distance between elements along each axis; 0 along axes that are broadcast.
    """

    source: int | KernelInput
    shape: Shape
    offset: int
    strides: tuple[int, ...]

    @property
    def is_contiguous(self) -> bool:
        """Whether all elements are read consecutively, from the first on."""
        return self.offset == 0 and self.strides == contiguous_strides(self.shape)


Input: TypeAlias = StridedView | float  # what an item reads: an array, or a constant


class Effect(enum.Enum):
    """The effect of an item on its result."""

    STORE = "store"  # stored in an element of an array
    ADD = "add"  # reduced along the axes whose stride is 0
    MULTIPLY = "multiply"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    TOTAL = "total"  # summed over rows
    OUTPUT = "output"  # written to the outputs


@dataclass(frozen=True, slots=True)
class ElementwiseItem:
    """A function of vectors that is applied to each element.

    Attributes:
        compute: the function.
        inputs: views of the iteration's shape, or constants.
        shape: the shape of the iteration.
        stage: when the item is computed.
        effect: what happens to the values.
        strides: the strides of the result along the axes of the iteration; 0 along axes that are reduced.
        size: the number of elements of the result.
        offset: the position of the first element among the outputs, for `Effect.OUTPUT`.
    """

    compute: Compute
    inputs: tuple[Input, ...]
    shape: Shape
    stage: Stage
    effect: Effect
    strides: tuple[int, ...]
    size: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class AssembledArray:
    """An array assembled from parts, each with the offset and the strides of its elements; all other elements are 0."""

    inputs: tuple[Input, ...]
    shapes: tuple[Shape, ...]
    offsets: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    stage: Stage
    size: int


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """The product of a matrix that is common to all rows with one vector per row.

    Attributes:
        inputs: views of the matrix, of shape (size, inner), and of the vector, of shape (inner,).
        inner: the number of elements of the vector.
        size: the number of elements of the result.
        stage: when the item is computed.
    """

    inputs: tuple[StridedView, StridedView]
    inner: int
    size: int
    stage: Stage = Stage.ROW


@dataclass(frozen=True, slots=True)
class IndexedItem:
    """An element of an array for each row, at the position that a column has.

    Attributes:
        inputs: a view of the array, which is common to all rows, or else of the number that is added to an element of
            the result; and of the position.
        size: the number of elements of the result.
        is_total: whether numbers are summed over rows by their positions.
        stage: when the item is computed.
    """

    inputs: tuple[StridedView, StridedView]
    size: int = 1
    is_total: bool = False
    stage: Stage = Stage.ROW


Item: TypeAlias = ElementwiseItem | AssembledArray | MatrixProduct | IndexedItem


def is_total(item: Item) -> bool:
    """Return whether an item sums a value over rows."""
    return item.is_total if isinstance(item, IndexedItem) else getattr(item, "effect", None) is Effect.TOTAL


@dataclass(slots=True)
class KernelPlan:
    """Everything that a kernel computes.

    Attributes:
        column_inputs: the columns, by position.
        point_inputs: the values of the point, by position.
        items: the items, each after its inputs.
        value_count: the number of outputs, for each row or as sums.
        output_stage: the stage in which the outputs are known: `ROW` or, for sums, `TOTAL`.
    """

    column_inputs: list[KernelInput] = field(default_factory=list)
    point_inputs: list[KernelInput] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    value_count: int = 0
    output_stage: Stage = Stage.ROW

    def stage_of(self, operand: Input) -> Stage:
        """Return the stage in which a value is known."""
        if isinstance(operand, float):
            return Stage.UNIFORM
        if isinstance(operand.source, KernelInput):
            return operand.source.stage
        item = self.items[operand.source]
        return Stage.TOTAL if is_total(item) else item.stage

    def latest_stage(self, inputs: Iterable[Input]) -> Stage:
        """Return the stage in which all of these values are known."""
        return max(map(self.stage_of, inputs), default=Stage.UNIFORM)


def contiguous_strides(shape: Shape) -> tuple[int, ...]:
    """Return the strides of a contiguous array, in elements; the last axis varies fastest.

    >>> contiguous_strides((2, 3))
    (3, 1)
    """
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def broadcast_view(view: Input, shape: Shape) -> Input:
    """Return a view of an input that is broadcast to a shape."""
    if isinstance(view, float) or view.shape == shape:
        return view
    missing = len(shape) - len(view.shape)
    strides = tuple(0 if n == 1 else stride for n, stride in zip(view.shape, view.strides, strict=True))
    return StridedView(view.source, shape, view.offset, (0,) * missing + strides)


def view_along(view: Input, over: Shape, axes: Sequence[int]) -> Input:
    """Return a view whose axes are the given axes of an iteration over `over`; it is constant along other axes."""
    if isinstance(view, float):
        return view
    strides = dict(zip(axes, view.strides, strict=True))
    return StridedView(view.source, over, view.offset, tuple(strides.get(axis, 0) for axis in range(len(over))))


_SECONDS_PER_VALUE = 2e-9  # seconds per vector: the average over arithmetic and functions
_VALUES_PER_PRODUCT = 0.125  # cost of a product in a matrix product, relative to other values


def seconds_per_row(plan: KernelPlan, width: int) -> float:
    """Return an estimate of the time that a row takes on one thread, until it has been measured.

    Args:
        plan: the plan.
        width: the number of rows in a vector.
    """
    values = 0.0
    for item in plan.items:
        if isinstance(item, MatrixProduct):
            values += item.size * item.inner * _VALUES_PER_PRODUCT
        elif item.stage is Stage.ROW:
            values += math.prod(item.shape) if isinstance(item, ElementwiseItem) else 1 if is_total(item) else item.size
    return values * _SECONDS_PER_VALUE / width


def expand_array_operations(roots: Sequence[Node], leaves: Mapping[str, Shape]) -> list[Node]:
    """Return the graphs with operations on whole arrays expressed by fewer ones, and common sub-expressions shared.

    Args:
        roots: the graphs.
        leaves: the shapes of the leaves that are not scalars, by name.
    """
    shapes = ShapeInference(leaves)

    def rewrite(table: NodeTable, op: Op, inputs: tuple[Node, ...]) -> Node | None:
        if op is size:
            return table.leaf(constant(str(math.prod(shapes.infer(inputs[0]) or ()))))
        if op not in ARRAY_DEFINITIONS and not (op.is_structural and op.expansion is not None):
            return None
        placeholders = op.placeholders(len(inputs))
        definition = (ARRAY_DEFINITIONS.get(op) or op.expansion)(*placeholders)  # type: ignore[misc]
        return table.rebuild([definition], dict(zip(placeholders, inputs, strict=True)))[0]

    return NodeTable(rewrite).rebuild(roots)


def plan_kernel(
    graphs: RowGraphs,
    *,
    is_summed: bool,
    leading: Sequence[str] = (),
    finish: Callable[[list[Node]], list[Node]] | None = None,
) -> KernelPlan:
    """Return the plan for graphs, or for their sums over rows.

    Args:
        graphs: the graphs.
        is_summed: whether to compute sums over rows.
        finish: returns the outputs, given the graphs of the sums; by default the sums are the outputs.
        leading: leaves whose numbers come first in the point, consecutively; further leaves follow at the next multiple
            of `POINT_ALIGNMENT`.
    """
    outputs = expand_array_operations(share(graphs.outputs), graphs.leaf_shapes)
    if is_summed:
        outputs = totals(outputs, graphs.columns, graphs.leaf_shapes)
    finished = outputs if finish is None else finish(outputs)
    if finish is not None:
        expanded = expand_array_operations([*outputs, *finished], graphs.leaf_shapes)
        outputs, finished = expanded[: len(outputs)], expanded[len(outputs) :]
    # Derivatives in the order in which a backward sweep computes them: towards the last parameters first.
    tape = Tape([*outputs[:1], *outputs[:0:-1], *finished])
    planner = _Planner(graphs, leading, _decisive_nodes(topological_order(outputs)))
    planner.plan.value_count = graphs.value_count
    planner.plan.output_stage = Stage.TOTAL if is_summed else Stage.ROW
    positions = zip(graphs.output_shapes, (numbers.start for numbers in graphs.output_slices), strict=True)
    output_positions = group_pairs(zip(finished, positions, strict=True))
    for node, shape in zip(tape.nodes, infer_shapes(tape, graphs.leaf_shapes), strict=True):
        planner.add_node(node, shape)
        for output_shape, start in output_positions.get(node, ()):
            planner.add_output(node, output_shape, start)
    return planner.plan


def _decisive_nodes(nodes: Sequence[Node]) -> set[Node]:
    """Return the nodes on which a jump, a pole or a domain depends, given all nodes in topological order.

    One unit in the last place decides there: `floor(x/49)` is off by 1 if 49/49 is below 1, `sqrt(1 - 10*x)` is nan at
    0.1 if the product is not rounded, and `1/(x/49 - 1)` is finite at 49.
    """
    decisive: set[Node] = set()
    # Numbers for which it matters on which side of 0 they are, or whether they are 0: at jumps, and at poles of
    # quotients; and terms of sums among the latter. There products may be fused, since exact ones stay exact.
    jumping, divisors, terms = set[Node](), set[Node](), set[Node]()
    for node in reversed(nodes):
        op = node.op
        if op is None:
            continue
        exponent = _whole_exponent(node)
        has_domain = op.domain is not None and exponent is None
        is_sum = op.is_structural or (op in (add, sub) and not _is_positive_sum(node))
        if node in decisive or op.gate is Gate.BLOCK or op is mod or has_domain or (is_sum and node in jumping):
            decisive.update(node.inputs)
        elif op is where:
            decisive.add(node.inputs[0])
        is_quotient = op in (div, quotient_slope)
        may_jump = not is_quotient and (op.singular or op.kink or (op.is_helper and not op.is_positive))
        if node in jumping or (may_jump if exponent is None else exponent < 0):
            jumping.update(node.inputs)
        if node in terms or (is_sum and node in divisors):
            terms.update(node.inputs)
            decisive |= {node} if is_quotient or op.is_structural else set()
        divisors.update(node.inputs if node in divisors else node.inputs[1:] if is_quotient else ())
    return decisive


def _is_positive_sum(node: Node) -> bool:
    """Return whether a node adds a positive constant to a positive function or an even power."""
    term, last = sorted(node.inputs, key=lambda each: each.is_constant)
    if node.op is not add or not last.is_constant or not parse_constant(last.text) > 0 or term.op is None:
        return False
    exponent = _whole_exponent(term)
    return term.op.is_positive or term.op in (abs_, square) or (exponent is not None and exponent % 2 == 0)


def _whole_exponent(node: Node) -> float | None:
    """Return the exponent of a power if it is a constant integer, so that every base has this power; else None."""
    exponent = parse_constant(node.inputs[-1].text) if node.op is pow_ and node.inputs[-1].is_constant else math.nan
    return exponent if exponent.is_integer() else None


class _Planner:
    def __init__(self, graphs: RowGraphs, first: Sequence[str], decisive: Set[Node]) -> None:
        self.plan = KernelPlan()
        self._decisive = decisive
        self._is_decisive = False  # whether the node that is planned is one of them
        self._columns = graphs.columns
        self._views: dict[Node, Input] = {ROW_COUNT_NODE: StridedView(ROW_COUNT_INPUT, (), 0, ())}
        self._shapes: dict[Node, Shape] = {ROW_COUNT_NODE: ()}
        self._point_size = 0
        self._leading_inputs = {name: self._add_point_input(name, graphs.leaf_shapes.get(name, ())) for name in first}
        self._point_size = aligned_count(self._point_size)

    def add_node(self, node: Node, shape: Shape) -> None:
        """Plan the value of a node whose inputs are planned."""
        if node in self._views:
            return
        self._shapes[node], self._is_decisive = shape, node in self._decisive
        if node.op is None:
            self._views[node] = (
                float(ARRAYS.parse_constant(node.text)) if node.is_constant else self._input_view(node, shape)
            )
            return
        inputs = [self._views[child] for child in node.inputs]
        shapes = [self._shapes[child] for child in node.inputs]
        if node.op in TOTAL_FUNCTIONS:
            self._views[node] = self._add_total(inputs[:-1], shapes[:-1], shape)
        elif node.op.is_structural:
            self._views[node] = _ARRAY_RULES[node.op.name](self, node, inputs, shapes, shape)
        else:
            self._views[node] = self._apply_elementwise(node.op, inputs, shape)

    def add_output(self, node: Node, shape: Shape, offset: int) -> None:
        """Add an item that writes a value to the outputs, element by element."""
        inputs, stage = (broadcast_view(self._views[node], shape),), self.plan.output_stage
        self.add_item(
            ElementwiseItem(
                _identity, inputs, shape, stage, Effect.OUTPUT, contiguous_strides(shape), math.prod(shape), offset
            )
        )

    def add_item(self, item: Item, shape: Shape = ()) -> StridedView:
        """Add an item, and return a view of its elements."""
        self.plan.items.append(item)
        return StridedView(len(self.plan.items) - 1, shape, 0, contiguous_strides(shape))

    def add_elementwise(self, compute: Compute, inputs: Sequence[Input], shape: Shape) -> StridedView:
        """Add an item that computes an array element by element, and return its view."""
        views = tuple(broadcast_view(each, shape) for each in inputs)
        stage = self.plan.latest_stage(inputs)
        return self.add_item(
            ElementwiseItem(compute, views, shape, stage, Effect.STORE, contiguous_strides(shape), math.prod(shape)),
            shape,
        )

    def add_reduction(
        self, effect: Effect, factors: Sequence[Input], over: Shape, strides: tuple[int, ...], shape: Shape
    ) -> StridedView:
        """Add an item that reduces the product of the factors along the axes whose stride is 0, and return its view."""
        compute = (
            _identity if len(factors) == 1 else partial(apply_rounded, mul) if self._is_decisive else ARITHMETIC["mul"]
        )
        stage = Stage.ROW if effect is Effect.TOTAL else self.plan.latest_stage(factors)
        return self.add_item(
            ElementwiseItem(compute, tuple(factors), over, stage, effect, strides, math.prod(shape)), shape
        )

    def add_matrix_product(
        self, matrix: StridedView, strides: tuple[int, ...], vector: StridedView, shape: Shape
    ) -> StridedView:
        """Add the product of a matrix that is common to all rows, read with these strides, with one vector per row."""
        is_stored = isinstance(vector.source, int) and vector.is_contiguous
        contiguous = vector if is_stored else self.add_elementwise(_identity, [vector], vector.shape)
        length = vector.shape[0]
        matrix_view = StridedView(matrix.source, (*shape, length), matrix.offset, strides)
        return self.add_item(MatrixProduct((matrix_view, contiguous), length, shape[0]), shape)

    def _input_view(self, node: Node, shape: Shape) -> StridedView:
        if node.text in self._columns:
            leaf = KernelInput(node.text, shape, Stage.ROW, len(self.plan.column_inputs))
            self.plan.column_inputs.append(leaf)
        else:
            leaf = self._leading_inputs.get(node.text) or self._add_point_input(node.text, shape)
        return StridedView(leaf, shape, 0, contiguous_strides(shape))

    def _add_point_input(self, name: str, shape: Shape) -> KernelInput:
        leaf = KernelInput(name, shape, Stage.UNIFORM, self._point_size)
        self.plan.point_inputs.append(leaf)
        self._point_size += math.prod(shape)
        return leaf

    def _apply_elementwise(self, op: Op, inputs: Sequence[Input], shape: Shape) -> Input:
        constants = [each for each in inputs if isinstance(each, float)]
        if len(constants) == len(inputs):
            with ignore_float_errors():
                return float(ARRAYS.function(op, len(inputs))(*constants))
        apply = apply_rounded if self._is_decisive else apply_to_vectors
        return self.add_elementwise(lambda *vectors: apply(op, *vectors), inputs, shape)

    def add_indexed(self, values: Input, at: Input, shape: Shape, is_total: bool = False) -> StridedView:
        """Add an item that reads or sums an element for each row; the array that it reads is stored first."""
        size = () if is_total or isinstance(values, float) else values.shape
        stored = self.add_elementwise(_identity, [values], size), self.add_elementwise(_identity, [at], ())
        return self.add_item(IndexedItem(stored, math.prod(shape), is_total), shape)

    def _add_total(self, factors: Sequence[Input], sizes: Sequence[Shape], shape: Shape) -> StridedView:
        """Add the sum over rows of an array, of an outer product, a matrix product, or of elements by their index."""
        if len(factors) == 3:
            return self.add_indexed(factors[0], factors[2], shape, is_total=True)
        over, strides = shape, contiguous_strides(shape)
        if len(factors) == 1:
            views = [broadcast_view(factors[0], shape)]
        elif len(sizes[0]) == 1:
            views = _outer_factors(factors, shape)
        else:
            (over, views), strides = _product_loop(factors, sizes), (*strides, 0)
        return self.add_reduction(Effect.TOTAL, views, over, strides, shape)


POINT_ALIGNMENT = 8  # numbers in the widest vector


def aligned_count(count: int) -> int:
    """Return the number rounded up to a multiple of `POINT_ALIGNMENT`."""
    return -(-count // POINT_ALIGNMENT) * POINT_ALIGNMENT


def _identity(x: Vector) -> Vector:
    return x


# --- Rules of operations on whole arrays

ArrayRule: TypeAlias = Callable[[_Planner, Node, Sequence[Input], Sequence[Shape], Shape], Input]


def _view(array: Input, shape: Shape, axes: slice, positions: Sequence[Node] = ()) -> Input:
    """Return a view of the elements of an array from a position on, along some of its axes."""
    if isinstance(array, float):
        return array  # an array of equal numbers
    return StridedView(array.source, shape, array.offset + _offset(positions, array.strides), array.strides[axes])


def _offset(positions: Sequence[Node], strides: Sequence[int]) -> int:
    """Return the distance to a position, given as literal nodes, whose values shape inference has checked."""
    return sum((literal_index(node) or 0) * stride for node, stride in zip(positions, strides, strict=False))


def _plan_sum_like(planner: _Planner, _: Node, inputs: Sequence[Input], sizes: Sequence[Shape], shape: Shape) -> Input:
    over = sizes[0]
    if over == shape:
        return inputs[0]
    own = contiguous_strides(shape)
    missing = len(over) - len(shape)
    strides = tuple(
        0 if axis < missing or shape[axis - missing] != length else own[axis - missing]
        for axis, length in enumerate(over)
    )
    return planner.add_reduction(Effect.ADD, [inputs[0]], over, strides, shape)


def _reduction_rule(effect: Effect) -> ArrayRule:
    def reduced(planner: _Planner, _: Node, inputs: Sequence[Input], sizes: Sequence[Shape], shape: Shape) -> Input:
        return planner.add_reduction(effect, inputs, sizes[0], (0,) * len(sizes[0]), shape)

    return reduced


def _outer_factors(factors: Sequence[Input], shape: Shape) -> list[Input]:
    return [view_along(factors[0], shape, (0,)), view_along(factors[1], shape, (1,))]


def _product_loop(factors: Sequence[Input], sizes: Sequence[Shape]) -> tuple[Shape, list[Input]]:
    """Return the axes of the loops of a matrix product, the summed one last, and views of the factors."""
    left, right = sizes[0], sizes[1]
    over = (*left[:-1], *right[1:], right[0])
    last = len(over) - 1
    first, second = (*range(len(left) - 1), last), (last, *range(len(left) - 1, last))
    return over, [view_along(factors[0], over, first), view_along(factors[1], over, second)]


def _plan_matmul(planner: _Planner, _: Node, inputs: Sequence[Input], sizes: Sequence[Shape], shape: Shape) -> Input:
    left, right = inputs
    if isinstance(left, StridedView) and isinstance(right, StridedView):
        for matrix, vector, strides in ((left, right, left.strides), (right, left, right.strides[::-1])):
            is_layer = (planner.plan.stage_of(matrix), planner.plan.stage_of(vector)) == (Stage.UNIFORM, Stage.ROW)
            if is_layer and (len(matrix.shape), len(vector.shape)) == (2, 1):
                return planner.add_matrix_product(matrix, strides, vector, shape)
    over, views = _product_loop(inputs, sizes)
    return planner.add_reduction(Effect.ADD, views, over, (*contiguous_strides(shape), 0), shape)


def _assemble(
    planner: _Planner, inputs: Sequence[Input], sizes: Sequence[Shape], offsets: Sequence[int], shape: Shape
) -> Input:
    shapes = tuple(sizes[: len(inputs)])
    strides = tuple(map(contiguous_strides, shapes))
    stage = planner.plan.latest_stage(inputs)
    return planner.add_item(
        AssembledArray(tuple(inputs), shapes, tuple(offsets), strides, stage, math.prod(shape)), shape
    )


def _plan_index(p: _Planner, node: Node, inputs: Sequence[Input], sizes: Sequence[Shape], shape: Shape) -> Input:
    if is_gathered(node):
        if p.plan.stage_of(inputs[0]) is Stage.ROW:
            return p.add_reduction(Effect.ADD, [_select_at(p, inputs[1], inputs[0], sizes[0])], sizes[0], (0,), shape)
        return p.add_indexed(inputs[0], inputs[1], shape)
    return _view(inputs[0], shape, slice(len(inputs) - 1, None), node.inputs[1:])


def _plan_place(p: _Planner, node: Node, inputs: Sequence[Input], sizes: Sequence[Shape], shape: Shape) -> Input:
    if is_gathered(node):
        return _select_at(p, inputs[2], inputs[0], shape)
    return _assemble(p, inputs[:1], sizes, [_offset(node.inputs[2:], contiguous_strides(shape))], shape)


def _select_at(p: _Planner, at: Input, values: Input, shape: Shape) -> StridedView:
    """Return the elements of an array that are at the position of a row, and 0 elsewhere."""
    count = math.prod(shape)
    numbers = _assemble(p, [*map(float, range(count))], [()] * count, range(count), shape)

    def select(at: Vector, number: Vector, value: Vector) -> Vector:
        return apply_to_vectors(where, apply_to_vectors(equal, at, number), value, at.code.as_vector(0.0))

    return p.add_elementwise(select, [at, numbers, values], shape)


# Each rule takes the planner, the node, its inputs, their shapes, and the shape of the result.
_ARRAY_RULES: dict[str, ArrayRule] = {
    "sum": _reduction_rule(Effect.ADD),
    "largest": _reduction_rule(Effect.MAXIMUM),
    "smallest": _reduction_rule(Effect.MINIMUM),
    "prod": _reduction_rule(Effect.MULTIPLY),
    "sum_like": _plan_sum_like,
    "matmul": _plan_matmul,
    "outer": lambda p, node, xs, s, shape: p.add_elementwise(ARITHMETIC["mul"], _outer_factors(xs, shape), shape),
    "broadcast_like": lambda p, node, xs, s, shape: broadcast_view(xs[0], shape),
    "transpose": lambda p, node, xs, s, shape: _view(xs[0], shape, slice(None, None, -1)),
    "index": _plan_index,
    "part": lambda p, node, xs, s, shape: _view(xs[0], shape, slice(None), node.inputs[1:2]),
    "stack": lambda p, node, xs, s, shape: _assemble(p, xs, s, _starts(s), shape),
    "concat": lambda p, node, xs, s, shape: _assemble(p, xs, s, _starts(s), shape),
    "place": _plan_place,
    "pad": lambda p, node, xs, s, shape: _assemble(
        p, xs[:1], s, [_offset(node.inputs[1:2], contiguous_strides(shape))], shape
    ),
}


def _starts(parts: Sequence[Shape]) -> list[int]:
    """Return the positions at which the parts of an array begin."""
    return [0, *itertools.accumulate(map(math.prod, parts))][:-1]

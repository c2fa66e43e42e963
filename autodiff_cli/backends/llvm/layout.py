"""The loops of a kernel and the memory of a thread: loop nests, addresses of values, loads and stores.

Items that iterate over the same elements are fused into one loop nest. `MemoryLayout` assigns an address to every value
that must be stored; `MemoryAccess` writes the code that computes addresses, loads and stores.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from autodiff_cli.backends.llvm.machine_code import ModuleBuilder
from autodiff_cli.backends.llvm.plan import (
    ROW_COUNT_INPUT,
    Effect,
    ElementwiseItem,
    Item,
    KernelInput,
    KernelPlan,
    Stage,
    StridedView,
    is_total,
)
from autodiff_cli.backends.llvm.vectors import MAX_MODERATE, MIN_MODERATE
from autodiff_cli.graph.node import Shape
from autodiff_cli.numbers.machine_code import FunctionBuilder, Loop, float_literal

MAX_NEST_ITEMS = 5000  # the time that LLVM takes grows faster than the number of items in a nest


@dataclass(frozen=True, slots=True)
class LoopNest:
    """Items that share their loops. Items that are not elementwise have a nest of their own.

    Attributes:
        stage: when the nest is executed.
        shape: the shape over which the loops iterate.
        item_numbers: the numbers of the items in the plan.
    """

    stage: Stage
    shape: Shape
    item_numbers: tuple[int, ...]


def _nests_of_stage(items: Sequence[Item], stage: Stage) -> Iterator[LoopNest]:
    pending = [k for k, item in enumerate(items) if item.stage is stage]
    remaining = set(pending)
    while pending:
        first = next(k for k in pending if remaining.isdisjoint(_sources(items[k])))
        opener = items[first]
        members = [first]
        if isinstance(opener, ElementwiseItem):
            members = list(_fusible_items(items, pending, remaining, opener.shape))
        yield LoopNest(stage, opener.shape if isinstance(opener, ElementwiseItem) else (), tuple(members))
        remaining.difference_update(members)
        pending = [k for k in pending if k in remaining]


def _fusible_items(items: Sequence[Item], pending: Sequence[int], remaining: set[int], shape: Shape) -> Iterator[int]:
    """Yield the items that can be computed in one pass over this shape."""
    members: set[int] = set()
    for k in pending:
        item = items[k]
        if not isinstance(item, ElementwiseItem) or item.shape != shape:
            continue
        missing = remaining.intersection(_sources(item)) - members
        if not missing and all(
            isinstance(each, float) or each.source not in members or is_direct(items, each) for each in item.inputs
        ):
            members.add(k)
            yield k
            if len(members) == MAX_NEST_ITEMS:
                return


def is_direct(items: Sequence[Item], operand: StridedView) -> bool:
    """Return whether an input reads, in each iteration, exactly the element that is computed in that iteration."""
    source = items[operand.source] if isinstance(operand.source, int) else None
    return isinstance(source, ElementwiseItem) and source.shape == operand.shape and operand.is_contiguous


def _sources(item: Item) -> set[int]:
    """Return the items that an item reads."""
    views = (operand for operand in item.inputs if isinstance(operand, StridedView))
    return {view.source for view in views if not isinstance(view.source, KernelInput)}


def stored_items(plan: KernelPlan, nests: Sequence[LoopNest]) -> set[int]:
    """Return the items whose results must be stored, because other nests, or other iterations, read them."""
    nest_of = {k: number for number, nest in enumerate(nests) for k in nest.item_numbers}
    stored = set()
    for k, item in enumerate(plan.items):
        if not isinstance(item, ElementwiseItem) or item.effect is not Effect.STORE:
            stored.add(k)
        for operand in item.inputs:
            if isinstance(operand, StridedView) and isinstance(operand.source, int):
                is_in_register = nest_of[operand.source] == nest_of[k] and is_direct(plan.items, operand)
                if not is_in_register:
                    stored.add(operand.source)
    return stored


ALIGNMENT = 64  # bytes: a cache line, and the widest vector


# Numbers of rows in a strip, found by measurements.
_UNSTORED_STRIP_ROWS = 2048  # without stored values a strip only bounds the number of terms in a partial sum
_MIN_STRIP_ROWS = 64  # for values with many elements
_MAX_STRIP_ROWS = 512  # for values with few elements
_STRIP_CACHE_BYTES = 128 * 1024  # stored values of a strip remain in the nearest caches


class MemoryLayout:
    """The loop nests of a plan, and the addresses of its values in the memory of a thread, as offsets in bytes.

    Args:
        plan: the plan.
        width: the number of doubles in a vector.

    Attributes:
        nests: the loop nests.
        strip_rows: the maximum number of rows in a strip.
        offsets: every stored item: one number per element, or for values by row a strip of rows per element.
        flag: a number that is not 0 if quick code was inaccurate for some rows of a strip.
        sum_range: the beginning and the end of the numbers that are summed; the first is the number of rows.
        tail_table: the table of columns for the last rows.
        tail_columns: copies of the last rows of each column.
        tail_out: the outputs of the last rows.
        size: the total size.
    """

    def __init__(self, plan: KernelPlan, width: int) -> None:
        self.plan, self.size = plan, 0
        self.nests = [nest for stage in Stage for nest in _nests_of_stage(plan.items, stage)]
        stored = stored_items(plan, self.nests)
        by_row = {k: item for k, item in enumerate(plan.items) if k in stored and _is_stored_by_row(item)}
        self.strip_rows, self.offsets = _strip_rows(by_row, width), dict[int, int]()
        self.flag = self._allocate(8)
        start = self._allocate(8)
        for k, item in enumerate(plan.items):
            if k in stored and (is_total(item) or item.stage is Stage.TOTAL):
                self.offsets[k] = self._allocate(item.size * 8)
        self.sum_range = (start, self.size)
        for k, item in enumerate(plan.items):
            if k in stored and item.stage is Stage.UNIFORM:
                self.offsets[k] = self._allocate(item.size * 8)
        self._place_strips(by_row)
        self.tail_table = self._allocate(16 * len(plan.column_inputs))
        self.tail_columns = [self._allocate(width * 8 * math.prod(leaf.shape)) for leaf in plan.column_inputs]
        self.tail_out = self._allocate(plan.value_count * width * 8)

    def _allocate(self, size: int) -> int:
        """Return the address of the next aligned bytes."""
        start = self.size
        self.size += -(-size // ALIGNMENT) * ALIGNMENT
        return start

    def _place_strips(self, by_row: Mapping[int, Item]) -> None:
        """Assign addresses to strips. A strip's memory is reused after the last nest that reads it."""
        last_read: dict[int, int] = {}
        for n, nest in enumerate(self.nests):
            for k in nest.item_numbers:
                last_read[k] = n
                last_read |= dict.fromkeys(_sources(self.plan.items[k]), n)
        free: dict[int, list[int]] = {}
        for n, nest in enumerate(self.nests):
            for k in nest.item_numbers:
                if k in by_row:
                    size = by_row[k].size * self.strip_rows * 8
                    reusable = free.get(size)
                    self.offsets[k] = reusable.pop() if reusable else self._allocate(size)
            for k, end in last_read.items():
                if end == n and k in by_row:
                    free.setdefault(by_row[k].size * self.strip_rows * 8, []).append(self.offsets[k])


def _is_stored_by_row(item: Item) -> bool:
    is_out = is_total(item) or (isinstance(item, ElementwiseItem) and item.effect is Effect.OUTPUT)
    return item.stage is Stage.ROW and not is_out


def _strip_rows(by_row: Mapping[int, Item], width: int) -> int:
    if not by_row:
        return _UNSTORED_STRIP_ROWS
    bytes_per_row = 8 * sum(item.size for item in by_row.values())
    fitting = min(_MAX_STRIP_ROWS, max(_MIN_STRIP_ROWS, _STRIP_CACHE_BYTES // bytes_per_row))
    return fitting // (4 * width) * 4 * width


# Column types that kernels read, by NumPy's type codes: LLVM's type, and its conversion to double.
COLUMN_TYPES = {
    "f8": ("double", ""), "f4": ("float", "fpext"), "i8": ("i64", "sitofp"), "i4": ("i32", "sitofp"),
    "i2": ("i16", "sitofp"), "i1": ("i8", "sitofp"), "u8": ("i64", "uitofp"), "u4": ("i32", "uitofp"),
    "u2": ("i16", "uitofp"), "u1": ("i8", "uitofp"), "b1": ("i8", "uitofp"),
}  # fmt: skip


class ArrayCell(NamedTuple):
    """An element of an item or an input, as a function of loop counters.

    Attributes:
        source: the item's number, or the input.
        offset: the constant part of the element's position.
        terms: pairs of a loop counter and the factor by which it enters the position.
    """

    source: int | KernelInput
    offset: int
    terms: tuple[tuple[str, int], ...] = ()


class MemoryAccess:
    """Writes the address computations, loads and stores of a function.

    In every function, `%memory` is the thread's memory and `%point` the point. Functions that process a strip of rows
    also have: `%columns`, pairs of an address and the distance between elements; `%row`, the strip's first row in the
    columns; `%span`, the number of rows; `%live`, how many rows of the last vector count; `%out`, where outputs are
    written, `%stride` bytes apart. Functions that run after all rows only have `%out` in addition.

    Args:
        module: the module of the function.
        ir: the function.
        layout: the plan with its memory layout.
        types: the types of the columns, as NumPy type codes.
    """

    def __init__(
        self, module: ModuleBuilder, ir: FunctionBuilder, layout: MemoryLayout, types: tuple[str, ...]
    ) -> None:
        self.module, self.target, self.ir = module, module.target, ir
        self.plan, self._layout = layout.plan, layout
        self._column_types = types
        self._row = ""
        self._pointers: dict[tuple[ArrayCell, bool], str] = {}
        self._multiples: dict[tuple[str, int], str] = {}  # multiples of loop counters

    def clear_pointers(self) -> None:
        """Forget all computed addresses, because another loop begins."""
        self._pointers.clear()
        self._multiples.clear()

    def is_stored(self, number: int) -> bool:
        """Return whether an item's value has an address."""
        return number in self._layout.offsets

    def is_by_row(self, cell: ArrayCell) -> bool:
        """Return whether an element has a value for each row."""
        if isinstance(cell.source, KernelInput):
            return cell.source.stage is Stage.ROW
        item = self.plan.items[cell.source]
        return item.stage is Stage.ROW and not is_total(item)

    @contextmanager
    def row_loop(self, start: str, stop: str, count: int) -> Iterator[tuple[Loop, list[str]]]:
        """Add a loop over the vectors of a strip, and return it with the first row of each of its `count` vectors."""
        width = self.target.width
        with self.ir.loop(start, stop, count * width) as loop:
            yield (
                loop,
                [loop.index, *(self.ir.assign(f"add nuw nsw i64 {loop.index}, {k * width}") for k in range(1, count))],
            )

    def set_row(self, row: str) -> None:
        """Set the first row of the vector that subsequent loads and stores refer to."""
        self._row = row

    def locate(self, cell: ArrayCell, effect: Effect = Effect.STORE) -> None:
        """Compute the address of an element, ahead of the loop over rows."""
        key = (cell, effect is Effect.OUTPUT)
        if key in self._pointers:
            return
        self._pointers[key] = self._output_address(cell) if effect is Effect.OUTPUT else self.address(cell)

    def load(self, cell: ArrayCell, row: str | None = None) -> str:
        """Load a located element, as a vector of rows or as one number in all lanes.

        Args:
            cell: the element.
            row: the first row; by default the row of `set_row`.
        """
        pointer, assign = self._pointers[cell, False], self.ir.assign
        floats, width, row = self.module.float_vector, self.target.width, row or self._row
        if isinstance(cell.source, KernelInput) and cell.source.stage is Stage.ROW:
            kind, conversion = COLUMN_TYPES[self._column_types[cell.source.position]]
            address = self.ir.element(kind, pointer, row)
            size = int(self._column_types[cell.source.position][1:])
            loaded = assign(f"load <{width} x {kind}>, ptr {address}, align {size}")
            return assign(f"{conversion} <{width} x {kind}> {loaded} to {floats}") if conversion else loaded
        if self.is_by_row(cell):
            return self.ir.load(floats, self.ir.element("double", pointer, row))
        return self.ir.splat("double", self.load_number(cell), width)

    def store(self, cell: ArrayCell, value: str, effect: Effect = Effect.STORE, row: str | None = None) -> None:
        """Store a value by row at its located address."""
        aligned = 8 if effect is Effect.OUTPUT else self.target.vector_bytes
        address = self.ir.element("double", self._pointers[cell, effect is Effect.OUTPUT], row or self._row)
        self.ir.emit(f"store {self.module.float_vector} {value}, ptr {address}, align {aligned}")

    def store_scalar(self, cell: ArrayCell, value: str, effect: Effect = Effect.STORE) -> None:
        """Store the first lane at the located address of a number."""
        lane = self.ir.assign(f"extractelement {self.module.float_vector} {value}, i64 0")
        self.ir.store("double", lane, self._pointers[cell, effect is Effect.OUTPUT])

    def load_number(self, cell: ArrayCell) -> str:
        """Load a located number."""
        return self.ir.load("double", self._pointers[cell, False])

    def store_number(self, cell: ArrayCell, number: str) -> None:
        """Store a located number."""
        self.ir.store("double", number, self._pointers[cell, False])

    def add_to_total(self, cell: ArrayCell, value: str) -> None:
        """Add the lanes of a sum that correspond to rows to a located total."""
        floats, width = self.module.float_vector, self.target.width
        counted = self.ir.assign(f"select <{width} x i1> %mask, {floats} {value}, {floats} zeroinitializer")
        total = self.module.sum_lanes(self.ir, counted)
        self.store_number(cell, self.ir.assign(f"fadd double {self.load_number(cell)}, {total}"))

    def lower_flag(self) -> None:
        """Note that quick code has been accurate so far."""
        self.ir.store("i64", 0, self.ir.element("i8", "%memory", self._layout.flag))

    def extreme(self, predicate: str, value: str, before: str) -> str:
        """Return the new extreme: `value` where it compares so with the one before, which nan never does."""
        floats, width = self.module.float_vector, self.target.width
        is_new = self.ir.assign(f"fcmp {predicate} {floats} {value}, {before}")
        return self.ir.assign(f"select <{width} x i1> {is_new}, {floats} {value}, {floats} {before}")

    def raise_flag(self, least: str, most: str) -> None:
        """Note that quick code was inaccurate if an extreme of the watched magnitudes is not moderate."""
        assign, floats, width = self.ir.assign, self.module.float_vector, self.target.width
        is_small = assign(f"fcmp olt {floats} {least}, splat (double {float_literal(MIN_MODERATE)})")
        is_large = assign(f"fcmp ogt {floats} {most}, splat (double {float_literal(MAX_MODERATE)})")
        lanes = assign(f"bitcast <{width} x i1> {assign(f'or <{width} x i1> {is_small}, {is_large}')} to i{width}")
        flag = self.ir.element("i8", "%memory", self._layout.flag)
        raised = assign(f"or i64 {self.ir.load('i64', flag)}, {assign(f'zext i{width} {lanes} to i64')}")
        self.ir.store("i64", raised, flag)

    def is_flag_raised(self) -> str:
        """Return a condition: whether quick code was inaccurate."""
        flag = self.ir.load("i64", self.ir.element("i8", "%memory", self._layout.flag))
        return self.ir.assign(f"icmp ne i64 {flag}, 0")

    def address(self, cell: ArrayCell) -> str:
        """Return the address of an element, in the strip's first row if it has a value for each row."""
        layout, source = self._layout, cell.source
        if source is ROW_COUNT_INPUT:
            return self._cell_address("%memory", layout.sum_range[0], cell, 8)
        if isinstance(source, KernelInput):
            if source.stage is Stage.ROW:
                return self._column_address(source, cell)
            return self._cell_address("%point", 8 * source.position, cell, 8)
        unit = 8 * layout.strip_rows if self.is_by_row(cell) else 8
        return self._cell_address("%memory", layout.offsets[source], cell, unit)

    def _column_address(self, leaf: KernelInput, cell: ArrayCell) -> str:
        ir, entry = self.ir, 2 * leaf.position
        begin = ir.load("ptr", ir.element("i64", "%columns", entry))
        if leaf.shape:
            distance = ir.load("i64", ir.element("i64", "%columns", entry + 1))
            begin = ir.element("i8", begin, self._byte_distance(cell, distance))
        return ir.element(COLUMN_TYPES[self._column_types[leaf.position]][0], begin, "%row")

    def _output_address(self, cell: ArrayCell) -> str:
        assert isinstance(cell.source, int)
        if self.plan.items[cell.source].stage is not Stage.ROW:
            return self._cell_address("%out", 0, cell, 8)
        return self.ir.element("double", self.ir.element("i8", "%out", self._byte_distance(cell, "%stride")), "%row")

    def _cell_address(self, base: str, start: int, cell: ArrayCell, unit: int) -> str:
        """Return the address of an element in an array whose elements are `unit` bytes apart."""
        address = self.ir.element("i8", base, start + cell.offset * unit)
        for counter, stride in cell.terms:
            address = self.ir.element("i8", address, self._multiple(counter, stride * unit))
        return address

    def _multiple(self, counter: str, factor: int) -> str:
        """Return a multiple of a counter."""
        if (counter, factor) not in self._multiples:
            self._multiples[counter, factor] = self.ir.assign(f"mul nuw nsw i64 {counter}, {factor}")
        return self._multiples[counter, factor]

    def _byte_distance(self, cell: ArrayCell, distance: str) -> str:
        """Return the offset of an element in an array whose elements are `distance` bytes apart."""
        assign = self.ir.assign
        steps = str(cell.offset)
        for counter, stride in cell.terms:
            steps = assign(f"add nsw i64 {steps}, {self._multiple(counter, stride)}")
        return assign(f"mul nsw i64 {steps}, {distance}")

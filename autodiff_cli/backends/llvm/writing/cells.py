"""Elements in memory: where they lie, how they are loaded and stored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from autodiff_cli.backends.llvm.functions.vectors import Vector
from autodiff_cli.backends.llvm.plans.items import ROW_COUNT, Effect, Leaf, Plan, Stage
from autodiff_cli.backends.llvm.plans.layout import PlanLayout, is_total
from autodiff_cli.backends.llvm.writing.listing import ModuleText
from autodiff_cli.backends.llvm.writing.text import Loop, Text

# The types of numbers that columns may have, by NumPy's letters: LLVM's type, and what makes a double of it.
CONVERSIONS = {
    "f8": ("double", ""), "f4": ("float", "fpext"), "i8": ("i64", "sitofp"), "i4": ("i32", "sitofp"),
    "i2": ("i16", "sitofp"), "i1": ("i8", "sitofp"), "u8": ("i64", "uitofp"), "u4": ("i32", "uitofp"),
    "u2": ("i16", "uitofp"), "u1": ("i8", "uitofp"), "b1": ("i8", "uitofp"),
}  # fmt: skip


class LoopCell(NamedTuple):
    """An element of an item or a leaf: a number, and for each counter how far it goes with it."""

    source: int | Leaf
    shift: int
    terms: tuple[tuple[str, int], ...] = ()


class Memory:
    """What a function knows of the memory it works in.

    In every function `%memory` is the thread's own and `%point` the point. One that goes over a strip of rows has
    `%columns`, pairs of an address and the distance between elements; `%row`, the first in these; `%span`, how many
    rows; `%sums`, where totals are added up; `%live`, how many rows of the last vector count; `%out`, where numbers are
    handed out, `%stride` bytes apart. One that comes after all rows has `%out` alone.

    Args:
        types: of the columns, by NumPy's letters.
    """

    def __init__(self, module: ModuleText, text: Text, plan: Plan, layout: PlanLayout, types: tuple[str, ...]) -> None:
        self.module = module
        self.target = module.target
        self.text = text
        self._plan = plan
        self._layout = layout
        self._types = types
        self._row = ""
        self._pointers: dict[tuple[LoopCell, bool], str] = {}
        self._multiples: dict[tuple[str, int], str] = {}  # of counters

    def forget(self) -> None:
        """Nothing is located any more: another loop has begun."""
        self._pointers.clear()
        self._multiples.clear()

    def keeps(self, number: int) -> bool:
        """Whether an item's value has a place in memory."""
        return number in self._layout.places

    def is_by_row(self, cell: LoopCell) -> bool:
        """Whether an element is another one for each row."""
        if isinstance(cell.source, Leaf):
            return cell.source.level is Stage.ROW
        item = self._plan.items[cell.source]
        return item.level is Stage.ROW and not is_total(item)

    def is_in_lanes(self, cell: LoopCell) -> bool:
        """Whether a total is added up in whole vectors."""
        return cell.source in self._layout.lanes

    @contextmanager
    def rows(self, start: str, stop: str, count: int) -> Iterator[tuple[Loop, list[str]]]:
        """A loop over the vectors of a strip, and where each of the `count` vectors of a pass begins."""
        width = self.target.width
        with self.text.loop(start, stop, count * width) as loop:
            yield (
                loop,
                [loop.index, *(self.text.put(f"add nuw nsw i64 {loop.index}, {k * width}") for k in range(1, count))],
            )

    def stand(self, row: str) -> None:
        """What is loaded and stored from here on is of the vector that begins at this row."""
        self._row = row

    def locate(self, cell: LoopCell, effect: Effect = Effect.KEEP) -> None:
        """Write down where an element begins, ahead of the loop over rows."""
        key = (cell, effect is Effect.WRITE)
        if key in self._pointers:
            return
        self._pointers[key] = self._handed_out(cell) if effect is Effect.WRITE else self._place(cell, effect)

    def begin(self, source: int | Leaf) -> str:
        """The address of an item's first element."""
        assert isinstance(source, int)
        return self.text.put(f"getelementptr inbounds i8, ptr %memory, i64 {self._layout.places[source]}")

    def arguments(self) -> str:
        """The address of the pointers that calls of Python get."""
        return self.text.put(f"getelementptr inbounds i8, ptr %memory, i64 {self._layout.arguments}")

    def load(self, vector: Vector, row: str | None = None) -> str:
        """An element that was located, as a vector of rows or with one number in all lanes.

        Args:
            row: the first of the rows; by default where the loop over them stands.
        """
        cell: LoopCell = vector.detail
        pointer, put = self._pointers[cell, False], self.text.put
        floats, width, row = self.module.floats, self.target.width, row or self._row
        if isinstance(cell.source, Leaf) and cell.source.level is Stage.ROW:
            kind, conversion = CONVERSIONS[self._types[cell.source.place]]
            address = put(f"getelementptr inbounds {kind}, ptr {pointer}, i64 {row}")
            size = int(self._types[cell.source.place][1:])
            found = put(f"load <{width} x {kind}>, ptr {address}, align {size}")
            return put(f"{conversion} <{width} x {kind}> {found} to {floats}") if conversion else found
        if self.is_by_row(cell):
            address = put(f"getelementptr inbounds double, ptr {pointer}, i64 {row}")
            return put(f"load {floats}, ptr {address}, align {self.target.bytes}")
        number = put(f"load double, ptr {pointer}, align 8")
        lane = put(f"insertelement {floats} poison, double {number}, i64 0")
        return put(f"shufflevector {floats} {lane}, {floats} poison, <{width} x i32> zeroinitializer")

    def store(self, cell: LoopCell, value: str, effect: Effect = Effect.KEEP, row: str | None = None) -> None:
        """Put a value by row where it was located."""
        aligned = 8 if effect is Effect.WRITE else self.target.bytes
        pointer = self._pointers[cell, effect is Effect.WRITE]
        address = self.text.put(f"getelementptr inbounds double, ptr {pointer}, i64 {row or self._row}")
        self.text.do(f"store {self.module.floats} {value}, ptr {address}, align {aligned}")

    def present(self, cell: LoopCell) -> str:
        """The value by row that lies there now."""
        address = self.text.put(f"getelementptr inbounds double, ptr {self._pointers[cell, False]}, i64 {self._row}")
        return self.text.put(f"load {self.module.floats}, ptr {address}, align {self.target.bytes}")

    def store_once(self, cell: LoopCell, value: str, effect: Effect = Effect.KEEP) -> None:
        """Put the first lane where a number was located."""
        lane = self.text.put(f"extractelement {self.module.floats} {value}, i64 0")
        self.text.do(f"store double {lane}, ptr {self._pointers[cell, effect is Effect.WRITE]}, align 8")

    def summed(self, cell: LoopCell) -> str:
        """What a total, in whole vectors, has come to."""
        return self.text.put(f"load {self.module.floats}, ptr {self._pointers[cell, False]}, align {self.target.bytes}")

    def set_total(self, cell: LoopCell, total: str) -> None:
        """Make a total, in whole vectors, what it was or what it has become."""
        pointer = self._pointers[cell, False]
        self.text.do(f"store {self.module.floats} {total}, ptr {pointer}, align {self.target.bytes}")

    def watched(self) -> tuple[str, str]:
        """The addresses of the least and the largest size of divisors."""
        start, put = self._layout.watched, self.text.put
        least = put(f"getelementptr inbounds i8, ptr %memory, i64 {start}")
        return least, put(f"getelementptr inbounds i8, ptr %memory, i64 {start + self.target.bytes}")

    def add(self, cell: LoopCell, value: str) -> None:
        """Add a sum to a total that was located."""
        if self.is_in_lanes(cell):
            before = self.summed(cell)
            self.set_total(cell, self.text.put(f"fadd {self.module.floats} {before}, {value}"))
        else:
            self._add_lanes(self._pointers[cell, False], value)

    def _add_lanes(self, pointer: str, value: str) -> None:
        """Add what the lanes that count hold to one number."""
        text, floats, width = self.text, self.module.floats, self.target.width
        counted = text.put(f"select <{width} x i1> %mask, {floats} {value}, {floats} zeroinitializer")
        total = self.module.across(text, counted)
        before = text.put(f"load double, ptr {pointer}, align 8")
        text.do(f"store double {text.put(f'fadd double {before}, {total}')}, ptr {pointer}, align 8")

    def _place(self, cell: LoopCell, effect: Effect) -> str:
        layout, source = self._layout, cell.source
        if isinstance(source, Leaf):
            return self._column(source, cell) if source.level is Stage.ROW else self._number(source, cell)
        if effect is Effect.TOTAL and source in layout.lanes:
            return self._from("%sums", layout.lanes[source], cell, self.target.bytes)
        unit = 8 * layout.strip if self.is_by_row(cell) else 8
        return self._from("%memory", layout.places[source], cell, unit)

    def _number(self, leaf: Leaf, cell: LoopCell) -> str:
        if leaf is ROW_COUNT:
            return self._from("%memory", self._layout.sums[0], cell, 8)
        return self._from("%point", 8 * leaf.place, cell, 8)

    def _column(self, leaf: Leaf, cell: LoopCell) -> str:
        put = self.text.put
        entry = put(f"getelementptr inbounds i64, ptr %columns, i64 {2 * leaf.place}")
        begin = put(f"load ptr, ptr {entry}, align 8")
        if leaf.shape:
            next_one = put(f"getelementptr inbounds i64, ptr %columns, i64 {2 * leaf.place + 1}")
            distance = put(f"load i64, ptr {next_one}, align 8")
            begin = put(f"getelementptr inbounds i8, ptr {begin}, i64 {self._times(cell, distance)}")
        kind = CONVERSIONS[self._types[leaf.place]][0]
        return put(f"getelementptr inbounds {kind}, ptr {begin}, i64 %row")

    def _handed_out(self, cell: LoopCell) -> str:
        put = self.text.put
        assert isinstance(cell.source, int)
        if self._plan.items[cell.source].level is not Stage.ROW:
            return self._from("%out", 0, cell, 8)
        begin = put(f"getelementptr inbounds i8, ptr %out, i64 {self._times(cell, '%stride')}")
        return put(f"getelementptr inbounds double, ptr {begin}, i64 %row")

    def _from(self, base: str, start: int, cell: LoopCell, unit: int) -> str:
        """The address of an element, elements being `unit` bytes apart."""
        put = self.text.put
        address = put(f"getelementptr inbounds i8, ptr {base}, i64 {start + cell.shift * unit}")
        for counter, stride in cell.terms:
            steps = self._multiple(counter, stride * unit)
            address = put(f"getelementptr inbounds i8, ptr {address}, i64 {steps}")
        return address

    def _multiple(self, counter: str, factor: int) -> str:
        """A multiple of a counter."""
        if (counter, factor) not in self._multiples:
            self._multiples[counter, factor] = self.text.put(f"mul nuw nsw i64 {counter}, {factor}")
        return self._multiples[counter, factor]

    def _times(self, cell: LoopCell, distance: str) -> str:
        """The bytes up to an element, elements being so far apart."""
        put = self.text.put
        steps = str(cell.shift)
        for counter, stride in cell.terms:
            steps = put(f"add nsw i64 {steps}, {self._multiple(counter, stride)}")
        return put(f"mul nsw i64 {steps}, {distance}")

"""Nests of loops written down: over elements, over the rows of a strip, the instructions inside."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from autodiff_cli.backends.llvm.functions.basic import larger, smaller
from autodiff_cli.backends.llvm.functions.division import with_shared_divisors
from autodiff_cli.backends.llvm.functions.inline import inlined
from autodiff_cli.backends.llvm.functions.vectors import Lane, Vector, VectorCode, ordered
from autodiff_cli.backends.llvm.plans.items import Arranged, Called, Each, Effect, Input, Leaf, Plan, Stage
from autodiff_cli.backends.llvm.plans.layout import is_total
from autodiff_cli.backends.llvm.plans.nests import Nest, is_direct
from autodiff_cli.backends.llvm.writing.cells import LoopCell, Memory
from autodiff_cli.backends.llvm.writing.listing import Listing, Order
from autodiff_cli.backends.llvm.writing.watch import Watch
from autodiff_cli.graph.op import Shape


class Index(NamedTuple):
    """Where a loop over elements stands: at a counter (None where it is written out) and a number to add."""

    counter: str | None
    shift: int


Tile: TypeAlias = tuple[Sequence[Index], ...]  # for each axis, the indices that are written out beside each other

# What a reduction begins with, and how it goes on.
_START = {Effect.ADD: 0.0, Effect.MULTIPLY: 1.0, Effect.LARGEST: -math.inf, Effect.SMALLEST: math.inf}
_COMBINE: dict[Effect, Callable[[Vector, Vector], Vector]] = {
    Effect.ADD: lambda a, b: a + b,
    Effect.MULTIPLY: lambda a, b: a * b,
    Effect.LARGEST: larger,
    Effect.SMALLEST: smaller,
}

_TILE = 4  # by as many: sums of products over rows that share their factors
_SPARE = 8  # registers for all else than sums
# A function is a long chain of instructions, each of which waits for the one before, so several vectors side by side
# keep the processor busy: at most so many, as long as they come to so many instructions together. Longer loops are not
# written twice either.
_ABREAST, _TOGETHER = 4, 1000


class Deed(NamedTuple):
    """What is done with a value in each pass: an item's effect on a cell."""

    number: int
    effect: Effect
    cell: LoopCell
    value: Vector


def emit(memory: Memory, plan: Plan, nest: Nest) -> None:
    """Write a nest of items `Each` down."""
    items = [plan.items[k] for k in nest.numbers]
    for k, item in zip(nest.numbers, items, strict=True):
        assert isinstance(item, Each)
        if item.effect in _START:
            _fill(memory, k, item.level, item.size, _START[item.effect])
    is_outer = len(nest.shape) == 2 and all(is_total(item) for item in items)
    sizes = (_TILE, _TILE) if is_outer else (1,) * len(nest.shape)
    for tile in tiles(memory, nest.shape, sizes):
        _body(memory, plan, nest, tile)


def emit_arranged(memory: Memory, plan: Plan, number: int) -> None:
    """Write down how an array is put together from its parts."""
    item = plan.items[number]
    assert isinstance(item, Arranged)
    if not item.is_full:
        _fill(memory, number, item.level, item.size, 0.0)
    for given, shape, offset, strides in zip(item.inputs, item.shapes, item.offsets, item.strides, strict=True):
        for tile in tiles(memory, shape, (1,) * len(shape)):
            code = VectorCode()
            indices = tuple(axis[0] for axis in tile)
            cell = cell_at(number, offset, strides, indices)
            _carry_out(memory, item.level, [Deed(number, Effect.KEEP, cell, _input(memory, code, given, indices))])


def emit_called(memory: Memory, plan: Plan, number: int) -> None:
    """Write down a call of Python: the item's number, where its inputs and its result lie, how many rows there are."""
    item = plan.items[number]
    assert isinstance(item, Called)
    text = memory.text
    places = [None if isinstance(given, float) else memory.begin(given.source) for given in item.inputs]
    arguments = memory.arguments()
    for k, place in enumerate(places):
        if place is not None:
            text.do(f"store ptr {place}, ptr {text.put(f'getelementptr i64, ptr {arguments}, i64 {k}')}, align 8")
    called = text.put("load ptr, ptr %memory, align 8")
    rows = "%span" if item.level is Stage.ROW else "1"
    text.do(f"call void {called}(i64 {number}, ptr {arguments}, ptr {memory.begin(number)}, i64 {rows})")


def _fill(memory: Memory, number: int, level: Stage, size: int, value: float) -> None:
    """Put a number into all elements of an array."""
    for tile in tiles(memory, (size,), (1,)):
        cell = cell_at(number, 0, (1,), (tile[0][0],))
        _carry_out(memory, level, [Deed(number, Effect.KEEP, cell, VectorCode().vector(value))])


def tiles(memory: Memory, shape: Shape, sizes: Sequence[int], chosen: Tile = ()) -> Iterator[Tile]:
    """Loops over a shape. What is written between two tiles is inside of them."""
    axis = len(chosen)
    if axis == len(shape):
        memory.forget()
        yield chosen
        return
    length, size = shape[axis], sizes[axis]
    whole = length // size * size
    if whole > size:
        with memory.text.loop("0", str(whole), size) as loop:
            yield from tiles(memory, shape, sizes, (*chosen, [Index(loop.index, k) for k in range(size)]))
    elif whole:
        yield from tiles(memory, shape, sizes, (*chosen, [Index(None, k) for k in range(size)]))
    if whole < length:
        yield from tiles(memory, shape, sizes, (*chosen, [Index(None, k) for k in range(whole, length)]))


def cell_at(source: int | Leaf, offset: int, strides: Sequence[int], indices: Sequence[Index]) -> LoopCell:
    """The element at these indices."""
    shift = offset + sum(index.shift * stride for index, stride in zip(indices, strides, strict=True))
    terms = tuple(
        (index.counter, stride) for index, stride in zip(indices, strides, strict=True) if index.counter and stride
    )
    return LoopCell(source, shift, terms)


def _input(memory: Memory, code: VectorCode, given: Input, indices: Sequence[Index]) -> Vector:
    """An input of an item, as a vector."""
    if isinstance(given, float):
        return code.vector(given)
    cell = cell_at(given.source, given.offset, given.strides, indices)
    return code.make("load", Lane.FLOAT, detail=cell, varies=memory.is_by_row(cell))


def _body(memory: Memory, plan: Plan, nest: Nest, tile: Tile) -> None:
    """All items of a nest at the indices of one tile."""
    code = VectorCode()
    deeds: list[Deed] = []
    for indices in itertools.product(*tile):
        made: dict[int, Vector] = {}
        for k in nest.numbers:
            item = plan.items[k]
            assert isinstance(item, Each)
            vectors = [
                made[given.source]
                if not isinstance(given, float) and given.source in made and is_direct(plan.items, given)
                else _input(memory, code, given, indices)
                for given in item.inputs
            ]
            value = item.compute(*vectors)
            assert value is not None
            made[k] = value
            if item.effect is not Effect.KEEP or memory.keeps(k):
                deeds.append(Deed(k, item.effect, cell_at(k, item.offset, item.strides, indices), value))
    _carry_out(memory, nest.level, deeds)


def _carry_out(memory: Memory, level: Stage, deeds: Sequence[Deed]) -> None:
    """Compute the values, once or for each vector of rows in the strip, and do with them what is to be done."""
    if level is not Stage.ROW:
        _carry_out_once(memory, deeds)
        return
    values = [deed.value for deed in deeds]
    may_watch = _may_begin_again(memory, deeds)
    quick, divisors = with_shared_divisors(values, watching=may_watch)
    sizes = [*map(abs, divisors)]
    turned: list[Vector] = []
    if memory.target.fuses:
        found, positive, turned = inlined([*quick, *sizes], watching=may_watch, scaling=memory.target.scales)
        quick, sizes = found[: len(values)], [*found[len(values) :], *positive]
    if not sizes and not turned:
        _RowLoop(memory, deeds, quick).write_all()
        return
    totals = [deed.cell for deed in deeds if deed.effect is Effect.TOTAL]
    for cell in totals:
        memory.locate(cell, Effect.TOTAL)
    before = [memory.summed(cell) for cell in totals]
    watch = Watch(memory, sizes, turned)
    _RowLoop(memory, deeds, quick, watch).write_all()
    with memory.text.when(watch.is_alarmed()):
        for cell, total in zip(totals, before, strict=True):
            memory.set_total(cell, total)
        memory.forget()
        _RowLoop(memory, deeds, values, is_rare=True).write_all()
    memory.forget()


def _carry_out_once(memory: Memory, deeds: Sequence[Deed]) -> None:
    order = Order([deed.value for deed in deeds])
    listing = _listing(memory, deeds, order)
    for deed in deeds:
        _do_once(memory, deed, listing.name(deed.value))


def _listing(memory: Memory, deeds: Sequence[Deed], order: Order) -> Listing:
    """All that is loaded and stored located, and written down what is the same for all rows."""
    listing = Listing(memory.module, memory.text, memory.load)
    for vector in order.loads:
        memory.locate(vector.detail)
    for deed in deeds:
        memory.locate(deed.cell, deed.effect)
    listing.put_all(order.fixed)
    return listing


def _may_begin_again(memory: Memory, deeds: Sequence[Deed]) -> bool:
    """Whether the rows of a strip can be gone through once more, to the same effect, with code of some size."""
    sums = [deed.cell for deed in deeds if deed.effect is Effect.TOTAL]
    is_small = len(sums) + len(ordered([deed.value for deed in deeds])) <= _TOGETHER
    return is_small and all(map(memory.is_in_lanes, sums)) and not any(deed.effect in _COMBINE for deed in deeds)


class _RowLoop:
    """A loop over the vectors of a strip.

    Args:
        values: of the deeds, as they are to be computed.
        watch: on some of them.
        is_rare: whether it is seldom gone through, so that it is to be short.
    """

    def __init__(
        self,
        memory: Memory,
        deeds: Sequence[Deed],
        values: Sequence[Vector],
        watch: Watch | None = None,
        *,
        is_rare: bool = False,
    ) -> None:
        deeds = [deed._replace(value=value) for deed, value in zip(deeds, values, strict=True)]
        order = Order(values)
        self._memory = memory
        self._listing = _listing(memory, deeds, order)
        self._early = order.early
        self._size = order.size
        self._has_functions = order.has_functions
        self._is_rare = is_rare
        self._watch = watch
        self._looks = [(*each, order.needed(each[0])) for each in watch.sizes] if watch else []
        self._steps = [(deed, order.needed(deed.value)) for deed in deeds]
        self._sums = [deed for deed in deeds if deed.effect is Effect.TOTAL]

    def write_all(self) -> None:
        """Write it down for all rows of the strip, several vectors in each pass where functions are called."""
        memory, text = self._memory, self._memory.text
        count = 1
        if self._has_functions and not self._is_rare:
            count = min(_ABREAST, 2 ** max(0, int(math.log2(_TOGETHER / self._size))))
        if count == 1:
            self._write("0", "%span", 1)
            return
        whole = text.put(f"and i64 %span, {-count * memory.target.width}")
        with text.when(text.put(f"icmp ne i64 {whole}, 0")):
            self._write("0", whole, count)
        with text.when(text.put(f"icmp ne i64 {whole}, %span")):
            self._write(whole, "%span", 1)

    def _write(self, start: str, stop: str, count: int) -> None:
        """Write it down, so many vectors in each pass."""
        memory, floats, watch = self._memory, self._memory.module.floats, self._watch
        in_registers = len(self._sums) <= memory.target.registers - _SPARE
        sizes = watch.loaded() if watch else []
        with memory.rows(start, stop, count) as (loop, rows):
            if watch:
                watch.begin(loop, sizes)
            names = [loop.carry(memory.text.name(), floats, "zeroinitializer") for _ in self._sums if in_registers]
            under_way = iter(names)
            copies = [(row, self._listing.copy()) for row in rows]
            for vector in self._early:
                for row, listing in copies:
                    memory.stand(row)
                    listing.put_all([vector])
            for size, is_least, needed in self._looks:
                for vector in needed:
                    for row, listing in copies:
                        memory.stand(row)
                        listing.put_all([vector])
                for _, listing in copies:
                    if watch:
                        watch.look(listing.name(size), is_least=is_least)
            if watch:
                watch.end(loop)
            for deed, needed in self._steps:
                is_summed = deed.effect is Effect.TOTAL and in_registers
                total = next(under_way) if is_summed else ""
                for vector in needed:
                    for row, listing in copies:
                        memory.stand(row)
                        listing.put_all([vector])
                for row, listing in copies:
                    memory.stand(row)
                    if is_summed:
                        total = _one_more(memory, listing, deed.value, total)
                    else:
                        _do_by_row(memory, deed, listing.name(deed.value))
                if is_summed:
                    loop.hand_on(total)
        if watch:
            watch.store(loop.reached[:2])
        for deed, total in zip(self._sums, loop.reached[2 if watch else 0 :], strict=False):
            memory.add(deed.cell, total)


def _one_more(memory: Memory, listing: Listing, value: Vector, total: str) -> str:
    """A total with one more value added. What a mask leaves out is not added as a 0: that is one instruction less."""
    put, floats = memory.text.put, memory.module.floats
    if value.op == "select" and value.inputs[2].number == 0.0:
        mask, given = value.inputs[0], value.inputs[1]
        more = put(f"fadd contract {floats} {total}, {listing.name(given)}")
        masks = memory.module.type(Lane.TRUTH)
        return put(f"select {masks} {listing.name(mask)}, {floats} {more}, {floats} {total}")
    return put(f"fadd contract {floats} {total}, {listing.name(value)}")


def _do_once(memory: Memory, deed: Deed, value: str) -> None:
    if deed.effect in _COMBINE:
        vector = deed.value.code.make("load", Lane.FLOAT, detail=deed.cell)
        value = _combined(memory, deed.effect, memory.load(vector), value)
    memory.store_once(deed.cell, value, deed.effect)


def _do_by_row(memory: Memory, deed: Deed, value: str) -> None:
    if deed.effect is Effect.TOTAL:
        memory.add(deed.cell, value)
        return
    if deed.effect in _COMBINE:
        value = _combined(memory, deed.effect, memory.present(deed.cell), value)
    memory.store(deed.cell, value, deed.effect)


def _combined(memory: Memory, effect: Effect, before: str, value: str) -> str:
    """One more step of a reduction."""
    code = VectorCode()
    found = _COMBINE[effect](*[code.make("argument", Lane.FLOAT, detail=name, varies=True) for name in (before, value)])
    listing = Listing(memory.module, memory.text, lambda vector: vector.detail)
    listing.put_all(ordered([found]))
    return listing.name(found)

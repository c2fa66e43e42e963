"""Code generation: the LLVM module of a kernel, from its plan, its loop nests and its memory layout.

`PlanWriter` writes the functions of a kernel, which run once per point (`prologue`), for a strip of rows (`strip`),
after all rows of a block (`epilogue`), for a block (`block`), and for all blocks of a job (`run`).

In matrix products, a tile of the result, some elements by some vectors of rows, stays in registers while the loop runs
along the inner axis: each number that is loaded serves a whole row or column of the tile.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from string import Template
from typing import NamedTuple, TypeAlias

from autodiff_cli.backends.llvm.layout import COLUMN_TYPES, ArrayCell, LoopNest, MemoryAccess, MemoryLayout, is_direct
from autodiff_cli.backends.llvm.machine_code import (
    VECTOR_ATTRIBUTES,
    InstructionOrder,
    InstructionWriter,
    ModuleBuilder,
    Processor,
)
from autodiff_cli.backends.llvm.plan import (
    AssembledArray,
    Effect,
    ElementwiseItem,
    IndexedItem,
    Input,
    KernelInput,
    MatrixProduct,
    Stage,
    StridedView,
    is_total,
)
from autodiff_cli.backends.llvm.vectors import Vector, VectorCode, maximum, minimum, quick_forms
from autodiff_cli.graph.node import Shape
from autodiff_cli.graph.tape import topological_order
from autodiff_cli.numbers.machine_code import FunctionBuilder, float_literal


class LoopIndex(NamedTuple):
    """An index of a loop over elements: a counter (None where the loop is unrolled) plus a constant."""

    counter: str | None
    offset: int


Copies: TypeAlias = Sequence[tuple[str, InstructionWriter]]  # the first row and the writer of each vector
Tile: TypeAlias = tuple[Sequence[LoopIndex], ...]  # the unrolled indices of each axis

# The initial values of reductions, and the functions that combine.
_INITIAL_VALUES = {Effect.ADD: 0.0, Effect.MULTIPLY: 1.0, Effect.MAXIMUM: -math.inf, Effect.MINIMUM: math.inf}
_COMBINERS: dict[Effect, Callable[[Vector, Vector], Vector]] = {
    Effect.ADD: lambda a, b: a + b,
    Effect.MULTIPLY: lambda a, b: a * b,
    Effect.MAXIMUM: maximum,
    Effect.MINIMUM: minimum,
}


# The unrolling and interleaving of loops, so that values stay in registers and the processor stays busy.
_TILE_ELEMENTS = 4  # along both axes: sums of outer products over rows share the loads of their factors
# Functions are long chains of dependent instructions, so the chains of several vectors are interleaved.
_MAX_INTERLEAVED = 4  # vectors
_MAX_INTERLEAVED_INSTRUCTIONS = 1000  # instructions of all vectors; longer loops are not written twice either
_LOAD_REGISTERS = 8  # registers for the loaded factors of a matrix product
_WIDE_TILE = 4  # vectors of rows in a tile of a matrix product, if the result has few elements
_NARROW_TILE = 2  # vectors of rows in a tile otherwise


class CellStore(NamedTuple):
    """A value and its use in each iteration: an item's effect on a cell."""

    number: int
    effect: Effect
    cell: ArrayCell
    value: Vector


def emit_elementwise(memory: MemoryAccess, nest: LoopNest) -> None:
    """Emit a nest of elementwise items."""
    items = [memory.plan.items[k] for k in nest.item_numbers]
    for k, item in zip(nest.item_numbers, items, strict=True):
        assert isinstance(item, ElementwiseItem)
        if item.effect in _INITIAL_VALUES:
            _emit_fill(memory, k, item.stage, item.size, _INITIAL_VALUES[item.effect])
    is_outer = len(nest.shape) == 2 and all(is_total(item) for item in items)
    sizes = (_TILE_ELEMENTS, _TILE_ELEMENTS) if is_outer else (1,) * len(nest.shape)
    for tile in loop_tiles(memory, nest.shape, sizes):
        _emit_tile(memory, nest, tile)


def emit_assembled(memory: MemoryAccess, number: int) -> None:
    """Emit the assembly of an array from its parts."""
    item = memory.plan.items[number]
    assert isinstance(item, AssembledArray)
    if sum(map(math.prod, item.shapes)) < item.size:
        _emit_fill(memory, number, item.stage, item.size, 0.0)
    for part, shape, offset, strides in zip(item.inputs, item.shapes, item.offsets, item.strides, strict=True):
        for tile in loop_tiles(memory, shape, (1,) * len(shape)):
            code = VectorCode()
            indices = tuple(axis[0] for axis in tile)
            cell = cell_at(number, offset, strides, indices)
            _emit_stores(
                memory, item.stage, [CellStore(number, Effect.STORE, cell, _input_vector(memory, code, part, indices))]
            )


def _emit_fill(memory: MemoryAccess, number: int, stage: Stage, size: int, value: float) -> None:
    """Emit code that sets all elements of an array to a number."""
    for tile in loop_tiles(memory, (size,), (1,)):
        cell = cell_at(number, 0, (1,), (tile[0][0],))
        _emit_stores(memory, stage, [CellStore(number, Effect.STORE, cell, VectorCode().as_vector(value))])


def loop_tiles(memory: MemoryAccess, shape: Shape, sizes: Sequence[int], chosen: Tile = ()) -> Iterator[Tile]:
    """Yield the tiles of loops over a shape; code that is emitted between two tiles is inside the first one's loops."""
    axis = len(chosen)
    if axis == len(shape):
        yield chosen
        return
    length, size = shape[axis], sizes[axis]
    tiled = length // size * size
    if tiled > size:
        with memory.ir.loop("0", str(tiled), size) as loop:
            yield from loop_tiles(memory, shape, sizes, (*chosen, [LoopIndex(loop.index, k) for k in range(size)]))
    elif tiled:
        yield from loop_tiles(memory, shape, sizes, (*chosen, [LoopIndex(None, k) for k in range(size)]))
    if tiled < length:
        yield from loop_tiles(memory, shape, sizes, (*chosen, [LoopIndex(None, k) for k in range(tiled, length)]))


def cell_at(source: int | KernelInput, offset: int, strides: Sequence[int], indices: Sequence[LoopIndex]) -> ArrayCell:
    """Return the element at these indices."""
    position = offset + sum(index.offset * stride for index, stride in zip(indices, strides, strict=True))
    terms = tuple(
        (index.counter, stride) for index, stride in zip(indices, strides, strict=True) if index.counter and stride
    )
    return ArrayCell(source, position, terms)


def _input_vector(memory: MemoryAccess, code: VectorCode, operand: Input, indices: Sequence[LoopIndex]) -> Vector:
    """Return an input of an item as a vector."""
    if isinstance(operand, float):
        return code.as_vector(operand)
    cell = cell_at(operand.source, operand.offset, operand.strides, indices)
    return code.make("load", detail=cell, is_varying=memory.is_by_row(cell))


def _emit_tile(memory: MemoryAccess, nest: LoopNest, tile: Tile) -> None:
    """Emit all items of a nest at the indices of one tile."""
    code = VectorCode()
    stores: list[CellStore] = []
    for indices in itertools.product(*tile):
        values: dict[int, Vector] = {}
        for k in nest.item_numbers:
            item = memory.plan.items[k]
            assert isinstance(item, ElementwiseItem)
            vectors = [
                values[operand.source]
                if not isinstance(operand, float) and operand.source in values and is_direct(memory.plan.items, operand)
                else _input_vector(memory, code, operand, indices)
                for operand in item.inputs
            ]
            values[k] = value = item.compute(*vectors)
            if item.effect is not Effect.STORE or memory.is_stored(k):
                stores.append(CellStore(k, item.effect, cell_at(k, item.offset, item.strides, indices), value))
    _emit_stores(memory, nest.stage, stores)


def _emit_stores(memory: MemoryAccess, stage: Stage, stores: Sequence[CellStore]) -> None:
    """Emit the values and their effects, once or for each vector of rows in the strip."""
    if stage is not Stage.ROW:
        _emit_scalar_stores(memory, stores)
        return
    values = [store.value for store in stores]
    quick, watched = quick_forms(
        values, may_watch=_can_recompute(stores), has_fma=memory.target.has_fma, has_scalef=memory.target.has_scalef
    )
    if not watched:
        _RowLoop(memory, stores, quick).write_all()
        return
    totals = [store.cell for store in stores if store.effect is Effect.TOTAL]
    for cell in totals:
        memory.locate(cell)
    totals_before = [memory.load_number(cell) for cell in totals]
    memory.lower_flag()
    _RowLoop(memory, stores, quick, watched).write_all()
    with memory.ir.branch(memory.is_flag_raised()):
        for cell, total in zip(totals, totals_before, strict=True):
            memory.store_number(cell, total)
        _RowLoop(memory, stores, values, is_rare=True).write_all()
    memory.clear_pointers()


def _emit_scalar_stores(memory: MemoryAccess, stores: Sequence[CellStore]) -> None:
    writer = _prepared_writer(memory, stores, InstructionOrder([store.value for store in stores]))
    for store in stores:
        memory.store_scalar(store.cell, _combine(memory, store, writer.operand(store.value)), store.effect)


def _prepared_writer(memory: MemoryAccess, stores: Sequence[CellStore], order: InstructionOrder) -> InstructionWriter:
    """Return a writer for these stores: addresses are computed, and loop-invariant instructions written."""
    writer = InstructionWriter(memory.module, memory.ir, lambda vector: memory.load(vector.detail))
    for vector in order.loads:
        memory.locate(vector.detail)
    for store in stores:
        memory.locate(store.cell, store.effect)
    writer.write_all(order.invariant)
    return writer


def _can_recompute(stores: Sequence[CellStore]) -> bool:
    """Return whether a strip can be computed a second time with the same effect, by code of limited size."""
    is_small = len(topological_order([store.value for store in stores])) <= _MAX_INTERLEAVED_INSTRUCTIONS
    return is_small and not any(store.effect in _COMBINERS for store in stores)


class _RowLoop:
    """A loop over the vectors of a strip.

    Args:
        memory: the memory access of the function.
        stores: the effects.
        values: the values of the effects, in the form in which they are computed.
        watched: magnitudes that must be moderate, each with whether it has a lower limit too.
        is_rare: whether the loop is rarely executed, so that its code should be short.
    """

    def __init__(
        self,
        memory: MemoryAccess,
        stores: Sequence[CellStore],
        values: Sequence[Vector],
        watched: Sequence[tuple[Vector, bool]] = (),
        *,
        is_rare: bool = False,
    ) -> None:
        stores = [store._replace(value=value) for store, value in zip(stores, values, strict=True)]
        order = InstructionOrder([*(size for size, _ in watched), *values])
        self._memory = memory
        self._writer = _prepared_writer(memory, stores, order)
        self._hoisted = order.hoisted
        self._size = order.size
        self._has_functions = order.has_functions
        self._is_rare = is_rare
        self._watched = [(size, has_minimum, order.take(size)) for size, has_minimum in watched]
        self._stores = [(store, order.take(store.value)) for store in stores]
        self._totals = [store for store in stores if store.effect is Effect.TOTAL]

    def write_all(self) -> None:
        """Write the loop for all rows of the strip, with several vectors per iteration if it contains functions."""
        memory, ir = self._memory, self._memory.ir
        count = 1
        if self._has_functions and not self._is_rare:
            doublings = max(0, int(math.log2(_MAX_INTERLEAVED_INSTRUCTIONS / self._size)))
            count = min(_MAX_INTERLEAVED, 2**doublings)
        if count == 1:
            self._write("0", "%span", 1)
            return
        whole = ir.assign(f"and i64 %span, {-count * memory.target.width}")
        with ir.branch(ir.assign(f"icmp ne i64 {whole}, 0")):
            self._write("0", whole, count)
        with ir.branch(ir.assign(f"icmp ne i64 {whole}, %span")):
            self._write(whole, "%span", 1)

    def _write(self, start: str, stop: str, count: int) -> None:
        """Write the loop with `count` vectors per iteration."""
        memory, floats = self._memory, self._memory.module.float_vector
        starts = [f"splat (double {float_literal(math.inf)})", "zeroinitializer"] if self._watched else []
        starts += ["zeroinitializer"] * len(self._totals)
        with memory.row_loop(start, stop, count) as (loop, rows):
            carried = iter([loop.carry(memory.ir.new_name(), floats, each) for each in starts])
            copies = [(row, self._writer.copy()) for row in rows]
            self._write_interleaved(self._hoisted, copies)
            if self._watched:
                for extreme in self._observe(copies, next(carried), next(carried)):
                    loop.set_next(extreme)
            for store, needed in self._stores:
                self._write_interleaved(needed, copies)
                if store.effect is not Effect.TOTAL:
                    self._store(copies, store)
                    continue
                total = next(carried)
                for _, writer in copies:
                    total = _add_to_sum(memory, writer, store.value, total)
                loop.set_next(total)
        finals = iter(loop.final_values)
        if self._watched:
            memory.raise_flag(next(finals), next(finals))
        for store, total in zip(self._totals, finals, strict=True):
            memory.add_to_total(store.cell, total)

    def _observe(self, copies: Copies, least: str, most: str) -> tuple[str, str]:
        """Return the extremes of the watched magnitudes, given the extremes of the rows before."""
        for size, has_minimum, needed in self._watched:
            self._write_interleaved(needed, copies)
            for _, writer in copies:
                most = self._memory.extreme("ogt", writer.operand(size), most)
                least = self._memory.extreme("olt", writer.operand(size), least) if has_minimum else least
        return least, most

    def _store(self, copies: Copies, store: CellStore) -> None:
        """Store a value for each row."""
        memory = self._memory
        for row, writer in copies:
            memory.set_row(row)
            memory.store(store.cell, _combine(memory, store, writer.operand(store.value)), store.effect)

    def _write_interleaved(self, vectors: Sequence[Vector], copies: Copies) -> None:
        """Write each instruction for all vectors of rows in turn, so that their dependent chains overlap."""
        for vector in vectors:
            for row, writer in copies:
                self._memory.set_row(row)
                writer.write_all([vector])


def _add_to_sum(memory: MemoryAccess, writer: InstructionWriter, value: Vector, total: str) -> str:
    """Return a sum plus a value. Masked values are skipped instead of adding 0, which saves an instruction."""
    assign, floats = memory.ir.assign, memory.module.float_vector
    if value.op == "select" and value.inputs[2].constant == 0.0:
        mask, unmasked = value.inputs[0], value.inputs[1]
        masked_sum = assign(f"fadd contract {floats} {total}, {writer.operand(unmasked)}")
        masks = memory.module.bool_vector
        return assign(f"select {masks} {writer.operand(mask)}, {floats} {masked_sum}, {floats} {total}")
    return assign(f"fadd contract {floats} {total}, {writer.operand(value)}")


def _combine(memory: MemoryAccess, store: CellStore, value: str) -> str:
    """Return what to store for a value: of a reduction, the result so far with this value; else the value itself."""
    if store.effect not in _COMBINERS:
        return value
    code, names = VectorCode(), (memory.load(store.cell), value)
    result = _COMBINERS[store.effect](*[code.make("argument", detail=name, is_varying=True) for name in names])
    writer = InstructionWriter(memory.module, memory.ir, lambda vector: vector.detail)
    writer.write_all(topological_order([result]))
    return writer.operand(result)


def emit_product(memory: MemoryAccess, number: int) -> None:
    """Emit the product of a matrix that is common to all rows with one vector per row."""
    item = memory.plan.items[number]
    assert isinstance(item, MatrixProduct)
    sums = memory.target.register_count - _LOAD_REGISTERS if memory.target.register_count > 16 else 12
    columns = _WIDE_TILE if item.size <= sums // _WIDE_TILE else _NARROW_TILE
    rows = min(item.size, sums // columns)
    with memory.row_loop("0", "%span", columns) as (_, starts):
        for (tile,) in loop_tiles(memory, (item.size,), (rows,)):
            totals = iter(_tile_sums(memory, item, tile, starts))
            for index in tile:
                cell = cell_at(number, 0, (1,), (index,))
                memory.clear_pointers()
                memory.locate(cell)
                for start in starts:
                    memory.store(cell, next(totals), row=start)


def emit_indexed(memory: MemoryAccess, number: int) -> None:
    """Emit a loop over rows that reads an element for each, or adds a number to it."""
    item, ir = memory.plan.items[number], memory.ir
    assert isinstance(item, IndexedItem)
    memory.clear_pointers()
    cells = [cell_at(view.source, view.offset, (), ()) for view in item.inputs]
    values, positions = [memory.address(cell) for cell in cells]
    result = memory.address(cell_at(number, 0, (), ()))
    last = ir.assign(f"sub i64 %live, {memory.target.width}")  # the last vector may have fewer rows
    with ir.loop("0", ir.assign(f"add i64 %span, {last}") if item.is_total else "%span") as loop:
        at = ir.assign(f"fptosi double {ir.load('double', ir.element('double', positions, loop.index))} to i64")
        if item.is_total:
            goal = ir.element("double", result, at)
            value = ir.load("double", ir.element("double", values, loop.index if memory.is_by_row(cells[0]) else "0"))
            value = ir.assign(f"fadd double {ir.load('double', goal)}, {value}")
        else:
            goal = ir.element("double", result, loop.index)
            value = ir.load("double", ir.element("double", values, at))
        ir.store("double", value, goal)


def _tile_sums(
    memory: MemoryAccess, item: MatrixProduct, tile: Sequence[LoopIndex], starts: Sequence[str]
) -> Sequence[str]:
    """Emit the sums of some rows of a matrix times the vectors that begin at `starts`, and return them row by row."""
    ir, floats = memory.ir, memory.module.float_vector
    with ir.loop("0", str(item.inner)) as inner:
        names = [[inner.carry(ir.new_name(), floats, "zeroinitializer") for _ in starts] for _ in tile]
        along = LoopIndex(inner.index, 0)
        factors = _load_factors(memory, item.inputs[1], (along,), starts)
        for index, partial_sums in zip(tile, names, strict=True):
            (weight,) = _load_factors(memory, item.inputs[0], (index, along), starts[:1])
            for factor, before in zip(factors, partial_sums, strict=True):
                product = ir.assign(f"fmul contract {floats} {weight}, {factor}")
                inner.set_next(ir.assign(f"fadd contract {floats} {before}, {product}"))
    return inner.final_values


def _load_factors(
    memory: MemoryAccess, view: StridedView, indices: Sequence[LoopIndex], starts: Sequence[str]
) -> list[str]:
    """Load an element of a factor for the vectors of rows that begin at `starts`."""
    cell = cell_at(view.source, view.offset, view.strides, indices)
    memory.clear_pointers()
    memory.locate(cell)
    return [memory.load(cell, row=start) for start in starts]


# The fields of a job, 8 bytes each: the addresses of the point, of the table of columns and of the outputs; the number
# of rows; the next block to process, and the end of the job's blocks; the distance between rows of `out` in bytes.
BLOCK_JOB_FIELDS = ("point", "columns", "out", "rows", "next", "end", "stride")

PROLOGUE_PARAMETERS = "ptr %memory, ptr %point"
STRIP_PARAMETERS = "ptr %memory, ptr %point, ptr %columns, i64 %row, i64 %span, i64 %live, ptr %out, i64 %stride"
_BLOCK_PARAMETERS = "ptr %memory, ptr %point, ptr %columns, i64 %first, i64 %rows, ptr %out, i64 %stride"


def density_module(target: Processor, layout: MemoryLayout, types: tuple[str, ...], block: int, size: int) -> str:
    """Return the text of the module of a density of `size` numbers, whose functions are in density.ll."""
    module, plan = ModuleBuilder(target), layout.plan
    PlanWriter(module, layout, types).write_block_functions()
    inputs, outputs = sum(math.prod(leaf.shape) for leaf in plan.point_inputs), plan.value_count
    sizes = {"size": size, "inputs": inputs, "outputs": outputs, "block": block, "memory_bytes": layout.size}
    sizes |= {"size_bytes": 8 * size, "output_bytes": 8 * outputs}
    return module.text() + Template(Path(__file__).with_name("density.ll").read_text("utf-8")).substitute(sizes)


def kernel_module(target: Processor, layout: MemoryLayout, types: tuple[str, ...], block: int) -> str:
    """Return the text of a kernel's module.

    It exports `run(job, memory)`, which processes blocks until none is left, and `fold_level(sums, blocks, step)`,
    which adds the sums of block i + `step` to the sums of block i, for every second of these blocks.

    Args:
        target: the processor.
        layout: the plan with its memory layout.
        types: the types of the columns, as NumPy type codes.
        block: the number of rows in a block.
    """
    module = ModuleBuilder(target)
    writer = PlanWriter(module, layout, types)
    writer.write_block_functions()
    writer.write_run(block)
    writer.write_fold_level()
    return module.text()


class PlanWriter:
    """Writes the functions of a plan.

    Args:
        module: the module.
        layout: the plan with its memory layout.
        types: the types of the columns, as NumPy type codes.
    """

    def __init__(self, module: ModuleBuilder, layout: MemoryLayout, types: tuple[str, ...]) -> None:
        self._module = module
        self._plan, self._layout = layout.plan, layout
        self._column_types = types

    def write_block_functions(self) -> None:
        """Write the functions for a block of rows: `prologue`, which runs once per point, and `block`."""
        self.write_stage("prologue", PROLOGUE_PARAMETERS, Stage.UNIFORM)
        self.write_stage("strip", STRIP_PARAMETERS, Stage.ROW)
        self.write_stage("epilogue", "ptr %memory, ptr %point, ptr %out", Stage.TOTAL)
        self.write_tail_copies()
        self.write_block()

    def write_stage(self, name: str, parameters: str, stage: Stage) -> None:
        """Write a function with all nests of a stage."""
        ir = FunctionBuilder(f"define internal void @{name}({parameters}) {VECTOR_ATTRIBUTES} {{")
        memory = MemoryAccess(self._module, ir, self._layout, self._column_types)
        width = self._module.target.width
        if stage is Stage.ROW:
            lanes = ", ".join(f"i64 {lane}" for lane in range(width))
            ir.emit(f"%mask = icmp ult <{width} x i64> <{lanes}>, {ir.splat('i64', '%live', width)}")
        for nest in self._layout.nests:
            if nest.stage is stage:
                self._write_nest(memory, nest)
        self._module.add(ir)

    def _write_nest(self, memory: MemoryAccess, nest: LoopNest) -> None:
        match self._plan.items[nest.item_numbers[0]]:
            case ElementwiseItem():
                emit_elementwise(memory, nest)
            case AssembledArray():
                emit_assembled(memory, nest.item_numbers[0])
            case MatrixProduct():
                emit_product(memory, nest.item_numbers[0])
            case IndexedItem():
                emit_indexed(memory, nest.item_numbers[0])

    def write_tail_copies(self) -> None:
        """Write functions that copy the last rows of a column, and repeat the very last one to fill a vector."""
        for kind in sorted({COLUMN_TYPES[letters][0] for letters in self._column_types}):
            ir = FunctionBuilder(
                f"define internal void @tail_{kind}(ptr %from, ptr %to, i64 %rest, i64 %count, i64 %distance) {{"
            )
            width = self._module.target.width
            last = ir.assign("sub i64 %rest, 1")
            with ir.loop("0", "%count") as element, ir.loop("0", str(width)) as lane:
                begin = ir.element("i8", "%from", ir.assign(f"mul i64 {element.index}, %distance"))
                value = ir.load(kind, ir.element(kind, begin, ir.minimum(lane.index, last)))
                position = ir.assign(f"add i64 {ir.assign(f'mul i64 {element.index}, {width}')}, {lane.index}")
                ir.store(kind, value, ir.element(kind, "%to", position))
            self._module.add(ir)

    def write_block(self) -> None:
        """Write the function that processes all rows of a block, strip by strip."""
        ir = FunctionBuilder(f"define internal void @block({_BLOCK_PARAMETERS}) {VECTOR_ATTRIBUTES} {{")
        layout, width = self._layout, self._module.target.width
        start, end = layout.sum_range
        sums = ir.element("i8", "%memory", start)
        self._module.declare("void @llvm.memset.p0.i64(ptr, i8, i64, i1)", is_pure=False)
        ir.emit(f"call void @llvm.memset.p0.i64(ptr align 64 {sums}, i8 0, i64 {end - start}, i1 false)")
        ir.store("double", ir.assign("uitofp i64 %rows to double"), sums)
        whole = ir.assign(f"and i64 %rows, {-width}")
        with ir.branch(ir.assign(f"icmp ne i64 {whole}, 0")), ir.loop("0", whole, layout.strip_rows) as strip:
            span = ir.minimum(ir.assign(f"sub i64 {whole}, {strip.index}"), layout.strip_rows)
            row = ir.assign(f"add i64 %first, {strip.index}")
            ir.emit(
                f"call void @strip(ptr %memory, ptr %point, ptr %columns, i64 {row}, i64 {span}, i64 {width}, "
                "ptr %out, i64 %stride)"
            )
        rest = ir.assign(f"sub i64 %rows, {whole}")
        with ir.branch(ir.assign(f"icmp ne i64 {rest}, 0")):
            self._write_tail(ir, rest, ir.assign(f"add i64 %first, {whole}"))
        ir.emit("call void @epilogue(ptr %memory, ptr %point, ptr %out)")
        self._module.add(ir)

    def _write_tail(self, ir: FunctionBuilder, rest: str, first: str) -> None:
        """Process the last rows, which do not fill a vector, as a strip of one vector over copies."""
        layout, width = self._layout, self._module.target.width
        table = ir.element("i8", "%memory", layout.tail_table)
        for leaf, start, letters in zip(self._plan.column_inputs, layout.tail_columns, self._column_types, strict=True):
            kind, count = COLUMN_TYPES[letters][0], math.prod(leaf.shape)
            entry = ir.element("i64", "%columns", 2 * leaf.position)
            distance = ir.load("i64", ir.element("i64", entry, 1))
            begin = ir.assign(f"getelementptr {kind}, ptr {ir.assign(f'load ptr, ptr {entry}')}, i64 {first}")
            copy = ir.element("i8", "%memory", start)
            ir.emit(f"call void @tail_{kind}(ptr {begin}, ptr {copy}, i64 {rest}, i64 {count}, i64 {distance})")
            own = ir.element("i64", table, 2 * leaf.position)
            ir.store("ptr", copy, own)
            ir.store("i64", width * int(letters[1:]), ir.element("i64", own, 1))
        out = ir.element("i8", "%memory", layout.tail_out)
        ir.emit(
            f"call void @strip(ptr %memory, ptr %point, ptr {table}, i64 0, i64 {width}, i64 {rest}, ptr {out}, "
            f"i64 {8 * width})"
        )
        if self._plan.output_stage is Stage.ROW:
            self._write_tail_values(ir, rest, first, out)

    def _write_tail_values(self, ir: FunctionBuilder, rest: str, first: str, out: str) -> None:
        width = self._module.target.width
        with ir.loop("0", str(self._plan.value_count)) as number, ir.loop("0", rest) as lane:
            position = ir.assign(f"add i64 {ir.assign(f'mul i64 {number.index}, {width}')}, {lane.index}")
            value = ir.load("double", ir.element("double", out, position))
            begin = ir.element("i8", "%out", ir.assign(f"mul i64 {number.index}, %stride"))
            row = ir.assign(f"add i64 {first}, {lane.index}")
            ir.store("double", value, ir.element("double", begin, row))

    def write_fold_level(self) -> None:
        """Write the function that adds up pairs of sums of blocks; NumPy would take longer than a block."""
        ir = FunctionBuilder("define void @fold_level(ptr %sums, i64 %blocks, i64 %step) {")
        numbers, last = self._plan.value_count, ir.assign("sub i64 %blocks, %step")
        distance = ir.assign(f"mul i64 %step, {numbers}")
        with ir.loop("0", last, ir.assign("shl i64 %step, 1")) as block, ir.loop("0", str(numbers)) as number:
            start = ir.assign(f"mul i64 {block.index}, {numbers}")
            total = ir.element("double", "%sums", ir.assign(f"add i64 {start}, {number.index}"))
            other = ir.load("double", ir.element("double", total, distance))
            ir.store("double", ir.assign(f"fadd double {ir.load('double', total)}, {other}"), total)
        self._module.add(ir)

    def write_run(self, block: int) -> None:
        """Write the function that processes blocks until none is left. Several threads may share a job."""
        ir = FunctionBuilder(f"define void @run(ptr %job, ptr %memory) {VECTOR_ATTRIBUTES} {{")
        fields = {name: ir.element("i64", "%job", k) for k, name in enumerate(BLOCK_JOB_FIELDS)}
        job = {
            name: ir.assign(f"load {'ptr' if name in ('point', 'columns', 'out') else 'i64'}, ptr {pointer}")
            for name, pointer in fields.items()
            if name != "next"
        }
        ir.emit(f"call void @prologue(ptr %memory, ptr {job['point']})")
        head = ir.new_label()
        ir.emit(f"br label %{head}")
        ir.begin_block(head)
        number = ir.assign(f"atomicrmw add ptr {fields['next']}, i64 1 monotonic")
        with ir.branch(ir.assign(f"icmp ult i64 {number}, {job['end']}"), head):
            first = ir.assign(f"mul i64 {number}, {block}")
            rows = ir.minimum(ir.assign(f"sub i64 {job['rows']}, {first}"), block)
            out = job["out"]
            if self._plan.output_stage is Stage.TOTAL:
                out = ir.element("i8", out, ir.assign(f"mul i64 {number}, {8 * self._plan.value_count}"))
            ir.emit(
                f"call void @block(ptr %memory, ptr {job['point']}, ptr {job['columns']}, i64 {first}, i64 {rows}, "
                f"ptr {out}, i64 {job['stride']})"
            )
        self._module.add(ir)

"""The LLVM backend: kernels for sums, for values by row, and for epochs of gradient methods.

Graphs are compiled when they are first run, for the types of the columns. An epoch runs batch after batch in compiled
code: the rows of a batch are gathered, the gradient is computed, and the parameters are updated.
"""

from __future__ import annotations

import ctypes
import math
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.algebra.simplify import share
from autodiff_cli.array_types import Array, ignore_float_errors
from autodiff_cli.backends import protocol
from autodiff_cli.backends.gradient_descent import EpochLoop, mean_loss
from autodiff_cli.backends.llvm.codegen import PROLOGUE_PARAMETERS, STRIP_PARAMETERS, PlanWriter, density_module
from autodiff_cli.backends.llvm.layout import ALIGNMENT, COLUMN_TYPES, MemoryLayout
from autodiff_cli.backends.llvm.machine_code import (
    VECTOR_ATTRIBUTES,
    CompiledModule,
    ModuleBuilder,
    Processor,
    compile_module,
    host_processor,
)
from autodiff_cli.backends.llvm.plan import KernelPlan, Stage, aligned_count, is_total, plan_kernel
from autodiff_cli.backends.llvm.runtime import BoundColumns, PlanRunner, aligned_zeros
from autodiff_cli.backends.protocol import BatchLosses, EpochRequest, RowOrder
from autodiff_cli.backends.reductions import ROW_COUNT_NODE, fold
from autodiff_cli.graph.node import Node, constant, variable
from autodiff_cli.graph.tape import LazyTable
from autodiff_cli.numbers.machine_code import FunctionBuilder
from autodiff_cli.ops.arithmetic import and_, where
from autodiff_cli.ops.structural import broadcast_like, norm, stack

# The fields of a job, 8 bytes each. `order` has row numbers of 4 bytes each, of which positions `begin` to `end` are
# processed in batches of `batch` rows. `window` rows, which are some batches, are gathered at a time from `columns` to
# `buffer`, two tables of columns. Without an `order`, batches are read from `buffer` as they are stored. The means of a
# batch are written to `means`, and its mean loss to `losses`; `count` is the number of losses. `point` begins with the
# parameters, and `memory` has the accumulators. A step reads the table `step_columns`, writes to `next`, and is counted
# in `step_point`.
EPOCH_JOB_FIELDS = (
    "order", "begin", "end", "batch", "window", "columns", "buffer", "means", "losses", "count",
    "point", "memory", "step_columns", "step_point", "step_memory", "next",
)  # fmt: skip
_ADDRESS_FIELDS = frozenset(EPOCH_JOB_FIELDS) - {"begin", "end", "batch", "window", "count"}


def epoch_module(target: Processor, kernel: CompiledEpochKernel, types: tuple[str, ...]) -> str:
    """Return the text of the module of a gradient method. It exports `epoch(job, memory)`.

    Args:
        target: the processor.
        kernel: the kernel.
        types: the types of the columns, as NumPy type codes.
    """
    module = ModuleBuilder(target)
    PlanWriter(module, kernel.loss, types).write_block_functions()
    step = PlanWriter(module, kernel.step, ("f8",) * len(kernel.step.plan.column_inputs))
    step.write_stage("step_prologue", PROLOGUE_PARAMETERS, Stage.UNIFORM)
    step.write_stage("step_strip", STRIP_PARAMETERS, Stage.ROW)
    for kind in sorted({COLUMN_TYPES[letters][0] for letters in types}):
        module.add(_gather_function(kind))
    module.add(_EpochWriter(module, kernel, types).function())
    return module.text()


def _gather_function(kind: str) -> FunctionBuilder:
    """Return a function that copies rows in a given order."""
    ir = FunctionBuilder(f"define internal void @gather_{kind}(ptr %from, ptr %order, ptr %to, i64 %count) {{")
    with ir.loop("0", "%count") as loop:
        number = ir.load("i32", ir.element("i32", "%order", loop.index))
        value = ir.load(kind, ir.element(kind, "%from", ir.assign(f"zext i32 {number} to i64")))
        ir.store(kind, value, ir.element(kind, "%to", loop.index))
    return ir


class _EpochWriter:
    """Writes the function `epoch`."""

    def __init__(self, module: ModuleBuilder, kernel: CompiledEpochKernel, types: tuple[str, ...]) -> None:
        self._module = module
        self._kernel = kernel
        self._column_types = types
        self._width = module.target.width
        self._ir = FunctionBuilder(f"define void @epoch(ptr %job, ptr %memory) {VECTOR_ATTRIBUTES} {{")
        self._job: dict[str, str] = {}

    def function(self) -> FunctionBuilder:
        ir = self._ir
        for k, name in enumerate(EPOCH_JOB_FIELDS):
            pointer = ir.element("i64", "%job", k)
            kind = "ptr" if name in _ADDRESS_FIELDS else "i64"
            self._job[name] = pointer if name == "count" else ir.load(kind, pointer)
        job = self._job
        with ir.loop(job["begin"], job["end"], job["window"]) as window:
            count = ir.minimum(ir.assign(f"sub i64 {job['end']}, {window.index}"), job["window"])
            is_ordered = ir.assign(f"icmp ne ptr {job['order']}, null")
            start = ir.assign(f"select i1 {is_ordered}, i64 0, i64 {window.index}")
            with ir.branch(is_ordered):
                self._write_gather(window.index, count)
            with ir.loop("0", count, job["batch"]) as batch:
                rows = ir.minimum(ir.assign(f"sub i64 {count}, {batch.index}"), job["batch"])
                self._write_batch(ir.assign(f"add i64 {start}, {batch.index}"), rows)
        return ir

    def _field_address(self, field: str, index: int | str, kind: str = "double") -> str:
        return self._ir.assign(f"getelementptr inbounds {kind}, ptr {self._job[field]}, i64 {index}")

    def _write_gather(self, begin: str, count: str) -> None:
        """Gather the rows of a window."""
        assign = self._ir.assign
        order = assign(f"getelementptr inbounds i32, ptr {self._job['order']}, i64 {begin}")
        for leaf, letters in zip(self._kernel.loss.plan.column_inputs, self._column_types, strict=True):
            (source, far), (goal, near) = (self._column_entry(field, leaf.position) for field in ("columns", "buffer"))
            with self._ir.loop("0", str(math.prod(leaf.shape))) as element:
                from_ = assign(f"getelementptr i8, ptr {source}, i64 {assign(f'mul i64 {element.index}, {far}')}")
                to = assign(f"getelementptr i8, ptr {goal}, i64 {assign(f'mul i64 {element.index}, {near}')}")
                self._ir.emit(
                    f"call void @gather_{COLUMN_TYPES[letters][0]}(ptr {from_}, ptr {order}, ptr {to}, i64 {count})"
                )

    def _column_entry(self, field: str, column: int) -> tuple[str, str]:
        """Load an entry of a table of columns: the address and the distance between elements."""
        begin = self._ir.load("ptr", self._field_address(field, 2 * column, "i64"))
        return begin, self._ir.load("i64", self._field_address(field, 2 * column + 1, "i64"))

    def _write_batch(self, first: str, rows: str) -> None:
        """Compute the means over the rows of a batch, and take the step."""
        ir, job = self._ir, self._job
        ir.emit(f"call void @prologue(ptr %memory, ptr {job['point']})")
        ir.emit(
            f"call void @block(ptr %memory, ptr {job['point']}, ptr {job['buffer']}, i64 {first}, i64 {rows}, "
            f"ptr {job['means']}, i64 0)"
        )
        loss = ir.load("double", job["means"])
        number = ir.load("i64", job["count"])
        ir.store("double", loss, self._field_address("losses", number))
        ir.store("i64", ir.assign(f"add i64 {number}, 1"), job["count"])
        if self._kernel.step_counter is not None:
            counter = self._field_address("step_point", self._kernel.step_counter)
            steps = ir.load("double", counter)
            ir.store("double", ir.assign(f"fadd double {steps}, 1.0"), counter)
        ir.emit(f"call void @step_prologue(ptr {job['step_memory']}, ptr {job['step_point']})")
        width, strip = self._kernel.padded_count, self._kernel.step.strip_rows
        with ir.loop("0", str(width), strip) as part:
            span = ir.minimum(ir.assign(f"sub i64 {width}, {part.index}"), strip)
            ir.emit(
                f"call void @step_strip(ptr {job['step_memory']}, ptr {job['step_point']}, ptr {job['step_columns']}, "
                f"i64 {part.index}, i64 {span}, i64 {self._width}, ptr {job['next']}, i64 {8 * width})"
            )
        self._write_copy("point", 0, width)
        if self._kernel.accumulator_count:
            self._write_copy("memory", width, self._kernel.accumulator_count * width)

    def _write_copy(self, field: str, begin: int, count: int) -> None:
        """Copy the results of a step to the state."""
        self._module.declare("void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)", is_pure=False)
        pointers = f"ptr align 64 {self._job[field]}, ptr align 64 {self._field_address('next', begin)}"
        self._ir.emit(f"call void @llvm.memcpy.p0.p0.i64({pointers}, i64 {8 * count}, i1 false)")


# The division of epochs into calls of compiled code.
_MAX_BATCH_ROWS = 8192  # larger batches are summed by all threads, in a Python loop over batches
_GATHER_BYTES = 2**18  # gathered rows remain in a near cache
_CALL_SECONDS = 0.05  # estimated duration of a call; Ctrl-C is handled between calls


class CompiledEpochKernel:
    """Epochs in compiled code, on one thread, since each step depends on the one before; see `EpochKernel`.

    Args:
        descent: the loss and the step.
        target: the processor.
        loop: runs epochs with batches so large that several threads should sum over their rows.

    Attributes:
        loss: computes the means of the loss and of its slopes over the rows of a batch, and the sum of its weights, if
            there are any.
        step: computes the update of the parameters.
        step_counter: the position of the number of the step in the step's point; None if the step does not read it.
        padded_count: the number of parameters, rounded up to whole vectors.
        accumulator_count: the number of accumulators per parameter.
    """

    def __init__(self, descent: protocol.GradientDescent, target: Processor, loop: protocol.EpochKernel) -> None:
        self._loop, self._lock = loop, threading.Lock()
        self.loss = loss = MemoryLayout(_loss_plan(descent), target.width)
        self.step = step = MemoryLayout(_step_plan(descent.update), target.width)
        self._parameter_count = sum(math.prod(descent.loss.leaf_shapes.get(name, ())) for name in descent.parameters)
        self.padded_count = width = aligned_count(self._parameter_count)
        self.accumulator_count = memory = len(descent.update.accumulators)
        other_inputs = loss.plan.point_inputs[len(descent.parameters) :]
        self._point_names = [leaf.name for leaf in other_inputs]
        positions = {leaf.name: leaf.position for leaf in step.plan.point_inputs}
        self._rate, self.step_counter = positions.get(protocol.RATE), positions.get(protocol.STEP)
        self._modules = LazyTable(lambda types: compile_module(partial(epoch_module, target, self, types), target))
        self._point = aligned_zeros(width + sum(math.prod(leaf.shape) for leaf in other_inputs))
        self._accumulators = aligned_zeros(memory * width)
        self._next = aligned_zeros((1 + memory) * width)
        self._means = aligned_zeros(loss.plan.value_count + width)
        self._step_point = aligned_zeros(len(step.plan.point_inputs))
        self._workspaces = [aligned_zeros(layout.size // 8) for layout in (loss, step)]
        rows = {protocol.THETA: self._point, protocol.GRADIENT: self._means[1:]}
        rows |= {name: self._accumulators[k * width :] for k, name in enumerate(descent.update.accumulators)}
        self._step_columns = np.array([(rows[leaf.name].ctypes.data, 0) for leaf in step.plan.column_inputs], np.int64)
        self._job = np.zeros(len(EPOCH_JOB_FIELDS), np.uint64)
        self._set_job(point=self._point, memory=self._accumulators, next=self._next, means=self._means)
        self._set_job(step_point=self._step_point, step_columns=self._step_columns, step_memory=self._workspaces[1])

    def run(
        self, epoch: EpochRequest, columns: protocol.Columns, order: RowOrder = None, losses: BatchLosses = None
    ) -> float:
        """Take one step per batch and return the mean loss; see `EpochKernel.run`."""
        rows = next(iter(columns.values())).shape[-1]
        count = rows if order is None else len(order)
        if min(epoch.batch_rows, count) > _MAX_BATCH_ROWS or rows >= 2**32:
            return self._loop.run(epoch, columns, order, losses)
        with self._lock, ignore_float_errors():
            bound = BoundColumns(self.loss.plan.column_inputs, columns, rows)
            run = self._modules[bound.type_codes].function("epoch")
            self._load_state(epoch)
            try:
                losses = [] if losses is None else losses
                return mean_loss(self._run(run, epoch, bound, order, count, losses))
            finally:
                self._store_state(epoch.state)

    def run_full_batch(
        self, epoch: EpochRequest, weight: float, sums: Callable[[protocol.SumKernel, protocol.Point], Array]
    ) -> float:
        """Take one step over all rows and return the loss before it; see `EpochKernel.run_full_batch`."""
        return self._loop.run_full_batch(epoch, weight, sums)

    def _run(
        self, run: Any, epoch: EpochRequest, bound: BoundColumns, order: RowOrder, rows: int, before: list[float]
    ) -> list[float]:
        batch = max(1, min(epoch.batch_rows, rows))
        window, gathered, _buffers = self._gather_buffers(bound, batch)
        losses = np.empty(-(-rows // batch))
        positions = 0 if order is None else order.astype(np.uint32)
        self._set_job(order=positions, columns=bound.table, buffer=bound.table if order is None else gathered)
        self._set_job(losses=losses, batch=batch, window=window, count=0)
        begin, part = 0, window
        while begin < rows:
            end = min(begin + part, rows)
            self._set_job(begin=begin, end=end)
            start = time.perf_counter()
            run(self._job.ctypes.data, self._workspaces[0].ctypes.data)
            pace = max(1e-9, (time.perf_counter() - start) / (end - begin))
            begin, part = end, max(1, int(_CALL_SECONDS / pace) // window) * window
            if epoch.on_progress is not None and begin < rows:
                epoch.on_progress(begin / rows, mean_loss(losses[: self._step_count()]))
        before += losses[: self._step_count()].tolist()
        return before

    def _gather_buffers(self, bound: BoundColumns, batch: int) -> tuple[int, NDArray[np.int64], list[Array]]:
        """Return the number of rows gathered at a time, the table of the gathered columns, and their memory."""
        leaves = self.loss.plan.column_inputs
        sizes = [int(letters[1:]) for letters in bound.type_codes]
        counts = [math.prod(leaf.shape) for leaf in leaves]
        bytes_of_row = sum(size * count for size, count in zip(sizes, counts, strict=True))
        window = max(1, _GATHER_BYTES // max(1, bytes_of_row) // batch) * batch
        distances = [-(-window * size // ALIGNMENT) * ALIGNMENT for size in sizes]
        buffers = [aligned_zeros(distance * count // 8) for distance, count in zip(distances, counts, strict=True)]
        table = [(array.ctypes.data, distance) for array, distance in zip(buffers, distances, strict=True)]
        return window, np.array(table, np.int64), buffers

    def _load_state(self, epoch: EpochRequest) -> None:
        width, count = self.padded_count, self._parameter_count
        self._point[:count] = epoch.state.values[0]
        self._accumulators.reshape(-1, width)[:, :count] = epoch.state.values[1:]
        if self._point_names:
            self._point[width:] = np.concatenate([np.ravel(epoch.point[name]) for name in self._point_names])
        if self._rate is not None:
            self._step_point[self._rate] = epoch.learning_rate
        if self.step_counter is not None:
            self._step_point[self.step_counter] = epoch.state.step_count

    def _store_state(self, state: protocol.OptimizerState) -> None:
        width, count = self.padded_count, self._parameter_count
        state.values[0] = self._point[:count]
        state.values[1:] = self._accumulators.reshape(-1, width)[:, :count]
        state.step_count += self._step_count()

    def _step_count(self) -> int:
        """Return the number of steps that the job has taken."""
        return int(self._job[EPOCH_JOB_FIELDS.index("count")])

    def _set_job(self, **fields: NDArray[Any] | int) -> None:
        for name, value in fields.items():
            self._job[EPOCH_JOB_FIELDS.index(name)] = value if isinstance(value, int) else value.ctypes.data


def _loss_plan(descent: protocol.GradientDescent) -> KernelPlan:
    """Return the plan of the means of the loss and of its slopes, and of the sum of the weights, if there are any."""
    graphs, weights = descent.loss, [] if descent.weight_column is None else [variable(descent.weight_column)]
    outputs = share([*graphs.outputs, *weights])
    shapes = (*graphs.output_shapes, *[() for _ in weights])

    def means(sums: list[Node]) -> list[Node]:
        total_weight = sums[-1] if weights else ROW_COUNT_NODE
        loss, *slopes = [each / total_weight for each in sums[: len(graphs.outputs)]]
        if descent.clip_norm is not None:
            sizes = zip(slopes, descent.parameters, graphs.output_shapes[1:], strict=True)
            parts = [norm(broadcast_like(x, variable(name))) if shape else x for x, name, shape in sizes]
            length = norm(stack(*parts))
            is_long = and_(length > descent.clip_norm, length < constant("inf"))
            factor = where(is_long, descent.clip_norm / length, 1)
            slopes = [slope * factor for slope in slopes]
        return [loss, *slopes, *sums[len(graphs.outputs) :]]

    return plan_kernel(
        protocol.RowGraphs(outputs, graphs.columns, graphs.leaf_shapes, shapes),
        is_summed=True,
        leading=descent.parameters,
        finish=means,
    )


def _step_plan(update: protocol.Update) -> KernelPlan:
    outputs = share([update.theta, *update.accumulators.values()])
    return plan_kernel(
        protocol.RowGraphs(outputs, {protocol.THETA, protocol.GRADIENT, *update.accumulators}), is_summed=False
    )


# The division of rows into blocks.
_BLOCK_ROWS = 8192  # rows per block, as in the NumPy backend
_MIN_BLOCK_ROWS = 512  # enough for the work of a block to outweigh its overhead
_MAX_BLOCK_VALUES = 65_536  # numbers of the largest value in a block, which gets fewer rows if it has more
_MAX_PARTIAL_SUMS = 2**22  # numbers in memory as sums of blocks, before they are added up
_MAX_STACK_BYTES = 2**19  # bytes of stack that a density uses; threads of other libraries have stacks of 2 MB
_DensityFunction = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_uint64, *[ctypes.c_void_p] * 4)


class LlvmBackend:
    """The backend `llvm`, which compiles kernels; see `Backend`.

    Args:
        threads: the maximum number of threads; None for all cores.
        width: the number of doubles in a vector; None for the maximum.
    """

    name = "llvm"

    def __init__(self, threads: int | None = None, width: int | None = None) -> None:
        self._threads = threads or protocol.available_cores()
        self._target = host_processor(width)

    def sum_kernel(self, graphs: protocol.RowGraphs) -> CompiledSumKernel:
        """Compile graphs whose outputs are summed over rows; see `Backend.sum_kernel`.

        No value of a row outlives its strip, so nothing needs to be recomputed.
        """
        return CompiledSumKernel(graphs, self._target, self._threads)

    def row_kernel(self, graphs: protocol.RowGraphs) -> CompiledRowKernel:
        """Compile graphs that give values for each row; see `Backend.row_kernel`."""
        return CompiledRowKernel(graphs, self._target, self._threads)

    def epoch_kernel(self, descent: protocol.GradientDescent) -> protocol.EpochKernel:
        """Compile a gradient method; see `Backend.epoch_kernel`."""
        return CompiledEpochKernel(descent, self._target, EpochLoop(self, descent))


class _CompiledKernel(protocol.RecipeKernel):
    is_summed = False

    def __init__(self, graphs: protocol.RowGraphs, target: Processor, threads: int) -> None:
        super().__init__(_rebuild_compiled, type(self), graphs, target.width, is_shared=True)
        self._target, plan = target, plan_kernel(graphs, is_summed=self.is_summed)
        self.names = frozenset(leaf.name for leaf in (*plan.column_inputs, *plan.point_inputs))
        self.block_rows = _block_rows(plan)
        self.value_count, self.output_slices = graphs.value_count, graphs.output_slices
        self._runner = PlanRunner(plan, target, threads, self.block_rows)


class CompiledSumKernel(_CompiledKernel):
    """Sums over rows, in compiled code; see `SumKernel`."""

    is_summed = True

    def __init__(self, graphs: protocol.RowGraphs, target: Processor, threads: int) -> None:
        super().__init__(graphs, target, threads)
        self._max_blocks = max(1, _MAX_PARTIAL_SUMS // max(1, self.value_count))  # whose sums are in memory
        self._allocate_partials(1)

    def sums(self, point: protocol.Point, columns: protocol.Columns, rows: int) -> Array:
        """Return the sums of the outputs over all rows; see `SumKernel.sums`."""
        if not rows:
            return np.zeros(self.value_count)
        runner = self._runner
        with runner.lock:
            runner.bind(columns, rows)
            values = runner.pack_point(point)
            if rows <= self.block_rows:
                return self._sum_blocks(values, 0, 1)
            parts = runner.block_groups(-(-rows // self.block_rows), self._max_blocks)
            if len(parts) == 1:
                return self._sum_blocks(values, *parts[0])
            with ignore_float_errors():
                return fold((self._sum_blocks(values, *part) for part in parts), np.add)

    def density(
        self,
        point: protocol.Point,
        columns: protocol.Columns,
        rows: int,
        places: Mapping[str, slice],
        directions: Array,
    ) -> CompiledDensity | None:
        """Return minus the sums as a function of z in compiled code; see `SumKernel.density`."""
        layout = MemoryLayout(self._runner.plan, self._target.width)
        if layout.size > _MAX_STACK_BYTES or sys.platform == "win32":  # where larger stacks need a library
            return None
        start = np.array(self._runner.pack_point(point))
        by_input = np.zeros((len(start), len(directions)))
        for leaf in layout.plan.point_inputs:
            if leaf.name in places:
                by_input[leaf.position : leaf.position + math.prod(leaf.shape)] = directions[places[leaf.name]]
        bound = BoundColumns(layout.plan.column_inputs, columns, rows)
        arguments = self._target, layout, bound.type_codes, self.block_rows, len(directions)
        module = compile_module(partial(density_module, *arguments), self._target)
        transposed = np.ascontiguousarray(directions.T)
        ranges = np.array([_nonzero_range(row) for row in (*by_input, *transposed)], np.int64)
        return CompiledDensity(module, bound, rows, start, by_input, transposed, ranges)

    def _sum_blocks(self, values: Any, first: int, end: int) -> Array:
        if len(self._partials) < end - first:
            self._allocate_partials(end - first)
        self._runner.run(values, self._address - 8 * self.value_count * first, first, end)
        step = 1
        while step < end - first:  # the levels of the tree of `fold`
            self._runner.fold_level(self._address, end - first, step)
            step *= 2
        return self._total.copy()

    def _allocate_partials(self, blocks: int) -> None:
        """Allocate memory for the sums of blocks, and store its address, which takes long to find."""
        self._partials = np.empty((blocks, self.value_count))
        self._total: Array = self._partials[0]  # the sum of all blocks, after they are folded
        self._address = self._partials.ctypes.data


class CompiledDensity:
    """A log-density in compiled code; see `protocol.DensityFunction`. It owns everything that the code reads."""

    def __init__(self, module: CompiledModule, bound: BoundColumns, rows: int, *arrays: NDArray[Any]) -> None:
        self._module, self._bound, self._arrays = module, bound, arrays
        self._size = len(arrays[2])
        self._data = np.array([rows, *(array.ctypes.data for array in (bound.table, *arrays))], np.uint64)
        self.addresses = module.address("density"), module.address("copy"), self._data.ctypes.data
        self._function = _DensityFunction(self.addresses[0])

    def __call__(self, z: Array) -> Array:
        """Return the value and the gradient, of shape (1 + P,)."""
        z, result = np.ascontiguousarray(z), np.empty(1 + self._size)
        self._function(self._size, z.ctypes.data, result.ctypes.data + 8, result.ctypes.data, self.addresses[2])
        return result


class CompiledRowKernel(_CompiledKernel):
    """Values for each row, in compiled code; see `RowKernel`."""

    def prepare(self, point: protocol.Point) -> Any:
        """Return the numbers of a point; see `RowKernel.prepare`."""
        return self._runner.pack_point(point)

    def write(self, prepared: Any, columns: protocol.Columns, out: Array) -> None:
        """Write the outputs for some rows into an array; see `RowKernel.write`."""
        rows = out.shape[-1]
        if not rows:
            return
        if out.shape != (self.value_count, rows) or out.dtype != np.float64 or (rows > 1 and out.strides[1] != 8):
            raise ValueError(f"`out` must be an array of {self.value_count}x{rows} doubles with contiguous rows")
        with self._runner.lock:
            self._runner.bind(columns, rows)
            blocks = -(-rows // self.block_rows)
            for first, end in self._runner.block_groups(blocks, blocks):
                self._runner.run(prepared, out.ctypes.data, first, end, out.strides[0])


def _nonzero_range(row: Array) -> tuple[int, int]:
    """Return the position of the first number that is not 0, and the position after the last one."""
    places = np.flatnonzero(row)
    return (int(places[0]), int(places[-1]) + 1) if len(places) else (0, 0)


def _rebuild_compiled(kind: Callable[..., Any], graphs: protocol.RowGraphs, width: int) -> Any:
    """Return a kernel, rebuilt in another process."""
    return kind(graphs, host_processor(width), protocol.thread_limit() or protocol.available_cores())


def _block_rows(plan: KernelPlan) -> int:
    """Return the number of rows in a block.

    It is smaller if a row has many values, and if many sums are accumulated in memory, since sums of blocks are added
    in pairs.
    """
    by_row = [item for item in plan.items if item.stage is Stage.ROW]
    widest = max((item.size for item in by_row if not is_total(item)), default=1)
    shorter = max(widest / (_MAX_BLOCK_VALUES / _BLOCK_ROWS), sum(is_total(item) for item in by_row) / 32)
    return int(2 ** round(math.log2(max(_MIN_BLOCK_ROWS, min(_BLOCK_ROWS, _BLOCK_ROWS / shorter)))))

"""The NumPy backend: graphs are evaluated block by block over the rows, as a plan of NumPy calls.

A block is small enough for its arrays to stay in the processor's cache, and memory does not grow with rows × nodes.
Values that depend on no column are computed once per evaluation, and constants only once. Rows are the last axis of
every array.

A plan is a sequence of steps over numbered values. Liveness analysis frees each value after its last use.

`FallbackBackend` compiles kernels, and falls back to NumPy, with a notice, when compilation fails.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np

from autodiff_cli.algebra.simplify import share
from autodiff_cli.array_types import Array, ignore_float_errors
from autodiff_cli.backends import protocol
from autodiff_cli.backends.gradient_descent import EpochLoop
from autodiff_cli.backends.reductions import ROW_COUNT_NODE, TOTAL_FUNCTIONS, block_slices, fold, totals
from autodiff_cli.graph.node import Shape, is_literal
from autodiff_cli.graph.tape import Tape, infer_shapes
from autodiff_cli.numbers.arrays import ARRAYS, LOGICAL_UFUNCS
from autodiff_cli.ops.arithmetic import where
from autodiff_cli.ops.functions import pow_
from autodiff_cli.ops.structural import matmul
from autodiff_cli.system import has_memory_limits, keep_memory_free


class PlanStep(NamedTuple):
    """One operation of a plan.

    Attributes:
        function: computes the output from the values of the inputs.
        inputs: the numbers of the input values.
        output: the number of the output value.
        dead: the numbers of the values that no later step reads.
    """

    function: Callable[..., Any]
    inputs: tuple[int, ...]
    output: int
    dead: tuple[int, ...] = ()


def execute(steps: Sequence[PlanStep], values: list[Any]) -> None:
    """Execute the steps, replacing entries of `values` in place."""
    for function, inputs, output, dead in steps:
        values[output] = function(*[values[i] for i in inputs])
        for i in dead:
            values[i] = None


def with_liveness(steps: Sequence[PlanStep], live_out: Collection[int]) -> list[PlanStep]:
    """Return the steps that are needed, each with the values that are dead after it.

    Args:
        steps: the plan.
        live_out: the values that are read after all steps.
    """
    alive = set(live_out)
    needed = []
    for step in reversed(steps):
        if step.output not in alive:
            continue
        dead = tuple(dict.fromkeys(i for i in step.inputs if i not in alive))
        alive.update(dead)
        needed.append(step._replace(dead=dead))
    return needed[::-1]


# Rows per block. In measurements, calls of NumPy dominate below 4,096 rows, and arrays leave the cache above 32,768.
BLOCK_ROWS = 8192


# Sizes of the NumPy backend's blocks, and of its memory for arrays per row.
_FULL_BLOCK_ELEMENTS = 8  # elements per row: values with more get shorter blocks, which stay in the cache
_MAX_SHORTENING = 16  # ratio of `BLOCK_ROWS` to the shortest block: matrix products need some rows to be fast
_RUNNING_BYTES = 96 << 20  # bytes of memory that a fit in machine code needs besides LLVM

# How a value varies: never, from one evaluation to the next, from row to row; or it is a total over rows.
_CONSTANT, _UNIFORM, _BY_ROW, _TOTAL = range(4)


class NumpyBackend:
    """The backend `numpy`, which runs on one thread; see `Backend`."""

    name = "numpy"

    def sum_kernel(self, graphs: protocol.RowGraphs) -> NumpySumKernel:
        """Prepare graphs whose outputs are summed over rows; see `Backend.sum_kernel`."""
        return NumpySumKernel(graphs)

    def row_kernel(self, graphs: protocol.RowGraphs) -> NumpyRowKernel:
        """Prepare graphs that give values for each row; see `Backend.row_kernel`."""
        return NumpyRowKernel(graphs)

    def epoch_kernel(self, descent: protocol.GradientDescent) -> EpochLoop:
        """Prepare a gradient method, as a loop over batches; see `Backend.epoch_kernel`."""
        return EpochLoop(self, descent)


class _NumpyKernel(protocol.RecipeKernel):
    is_summed = False

    def __init__(self, graphs: protocol.RowGraphs) -> None:
        super().__init__(type(self), graphs, is_shared=False)
        self._kernel = BlockEvaluator(graphs, summed=self.is_summed)
        self.output_slices, self._output_shapes = graphs.output_slices, graphs.output_shapes
        self.value_count = graphs.value_count
        self.names, self.block_rows = self._kernel.names, self._kernel.block_rows


class NumpySumKernel(_NumpyKernel):
    """Sums over rows, with NumPy; see `SumKernel`."""

    is_summed = True

    def density(self, *_: Any) -> None:
        """Return None: there is no compiled code."""

    def sums(self, point: protocol.Point, columns: protocol.Columns, rows: int) -> Array:
        """Return the sums of the outputs over all rows; see `SumKernel.sums`."""
        if not rows:
            return np.zeros(self.value_count)
        with ignore_float_errors():
            prepared, parts = self._kernel.prepare(point), block_slices(rows, self.block_rows)
            blocks = (self._kernel.evaluate_block(prepared, columns, part) for part in parts)
            return fold(map(self._flatten, blocks), np.add)

    def _flatten(self, values: Sequence[Any]) -> Array:
        flat = np.empty(self.value_count)
        for part, value in zip(self.output_slices, values, strict=True):
            flat[part] = np.ravel(value)
        return flat


class NumpyRowKernel(_NumpyKernel):
    """Values for each row, with NumPy; see `RowKernel`."""

    def prepare(self, point: protocol.Point) -> list[Any]:
        """Return everything that is common to all rows at a point; see `RowKernel.prepare`."""
        with ignore_float_errors():
            return self._kernel.prepare(point)

    def write(self, prepared: Sequence[Any], columns: protocol.Columns, out: Array) -> None:
        """Write the outputs for some rows into an array; see `RowKernel.write`."""
        with ignore_float_errors():
            for part in block_slices(out.shape[-1], self.block_rows):
                # The values of a block are freed before those of the next one are allocated.
                self._write_block(self._kernel.evaluate_block(prepared, columns, part), out[:, part])

    def _write_block(self, values: Sequence[Any], out: Array) -> None:
        for part, size, value in zip(self.output_slices, self._output_shapes, values, strict=True):
            out[part].reshape((*size, -1))[...] = value


class BlockEvaluator:
    """Graphs prepared for evaluation over blocks of rows.

    Args:
        graphs: the graphs. Common sub-expressions are computed once. A layer begins at each `@`; without any, each
            operation is a layer.
        summed: whether to compute sums over the rows instead of values for each row.

    Attributes:
        names: the names of the leaves that are read.
        block_rows: the best number of rows in a block: a power of two, so that parts of whole blocks suit all kernels.
    """

    def __init__(self, graphs: protocol.RowGraphs, *, summed: bool = False) -> None:
        roots = share(graphs.outputs)
        if summed:
            roots = totals(roots, graphs.columns, graphs.leaf_shapes)
        # Derivatives in the order in which a backward sweep computes them: towards the last parameters first.
        tape = Tape([*roots[:1], *roots[:0:-1]])
        self._outputs = (*tape.outputs[:1], *tape.outputs[:0:-1])
        self._leaves = {
            node.text: i for i, node in enumerate(tape.nodes) if node.is_input and node is not ROW_COUNT_NODE
        }
        self.names = frozenset(self._leaves)
        self._row_count = tape.index.get(ROW_COUNT_NODE)
        self._constants: list[Any] = [
            ARRAYS.parse_constant(node.text) if node.is_constant else None for node in tape.nodes
        ]
        levels, shapes = _variation_levels(tape, graphs.columns), infer_shapes(tape, graphs.leaf_shapes)
        constant, self._uniform, by_row = _steps_by_stage(tape, levels, shapes)
        self._by_row = with_liveness(by_row, self._outputs)
        with ignore_float_errors():
            execute(constant, self._constants)
        row_sizes = (math.prod(shape) for shape, level in zip(shapes, levels, strict=True) if level == _BY_ROW)
        # Fewer rows where a value of one row has many elements, so that a block of it stays in the cache.
        rows = min(BLOCK_ROWS, _FULL_BLOCK_ELEMENTS * BLOCK_ROWS // max(row_sizes, default=1))
        self.block_rows = max(BLOCK_ROWS // _MAX_SHORTENING, 1 << max(0, rows.bit_length() - 1))

    def prepare(self, point: Mapping[str, Any]) -> list[Any]:
        """Return the values that are common to all rows. Call it within `ignore_float_errors()`.

        Args:
            point: a value for every leaf that is not a column.
        """
        values = list(self._constants)
        for name, position in self._leaves.items():
            if name in point:
                value = point[name]
                values[position] = value[..., None] if getattr(value, "ndim", 0) else np.float64(value)
        execute(self._uniform, values)
        return values

    def evaluate_block(self, prepared: Sequence[Any], columns: protocol.Columns, part: slice) -> list[Any]:
        """Return the values of the outputs over one block of rows, or their sums if the evaluator sums.

        Call it within `ignore_float_errors()`.

        Args:
            prepared: the result of `prepare`, which is not changed.
            columns: an array of numbers for every column, rows last: of shape (rows,) for a scalar.
            part: the rows of the block.

        Returns:
            Arrays with the rows along the last axis. For sums, and for values that are common to all rows, this axis
            has length 1, or is missing if the output is a scalar.
        """
        values = list(prepared)
        for name, position in self._leaves.items():
            if name in columns:
                values[position] = np.asarray(columns[name][..., part], np.float64)
        if self._row_count is not None:
            values[self._row_count] = part.stop - part.start
        execute(self._by_row, values)
        return [values[i] for i in self._outputs]


def _variation_levels(tape: Tape, columns: Collection[str]) -> list[int]:
    """Return how much each node varies: as much as its most varying input."""
    levels: list[int] = []
    for node, inputs in zip(tape.nodes, tape.inputs, strict=True):
        if node.op is None:
            level = _BY_ROW if node.text in columns else _TOTAL if node is ROW_COUNT_NODE else _UNIFORM
            levels.append(_CONSTANT if node.is_constant else level)
        else:
            level = max([levels[j] for j in inputs], default=_CONSTANT)
            levels.append(_TOTAL if node.op in TOTAL_FUNCTIONS else level)
    return levels


def _steps_by_stage(tape: Tape, levels: Sequence[int], shapes: Sequence[Shape]) -> list[list[PlanStep]]:
    """Return the steps that are executed only once, once per evaluation, and once per block of rows."""
    conditions = _boolean_nodes(tape)
    stages: list[list[PlanStep]] = [[], [], []]
    for i, node in enumerate(tape.nodes):
        if node.op is not None:
            function = _array_function(tape, i, levels, shapes, conditions)
            stages[min(levels[i], _BY_ROW)].append(PlanStep(function, tape.inputs[i], i))
    return stages


def _boolean_nodes(tape: Tape) -> set[int]:
    """Return the nodes that can remain boolean arrays, because only choices and other such conditions read them.

    Converting them to floats and back would be two more passes over memory.
    """
    booleans = {i for i, node in enumerate(tape.nodes) if node.op is not None and node.op.name in LOGICAL_UFUNCS}
    booleans.difference_update(tape.outputs)
    for i in range(len(tape) - 1, -1, -1):
        node, inputs = tape.nodes[i], tape.inputs[i]
        if i in booleans and node.op is not None:
            continue
        booleans.difference_update(inputs[1:] if node.op is where else inputs)
    return booleans


def _array_function(
    tape: Tape, i: int, levels: Sequence[int], shapes: Sequence[Shape], conditions: Collection[int]
) -> Callable[..., Any]:
    """Return the function that applies the operation of node `i` to arrays."""
    node, inputs = tape.nodes[i], tape.inputs[i]
    op = node.operation
    if op in TOTAL_FUNCTIONS:
        return TOTAL_FUNCTIONS[op]
    if i in conditions:
        return LOGICAL_UFUNCS[op.name]
    if op is where and inputs[0] in conditions:
        return np.where
    if op is pow_ and is_literal(node.inputs[1], 2):
        return lambda x, _: np.square(x)  # many times faster than a power
    if op is matmul and levels[inputs[0]] < _BY_ROW <= levels[inputs[1]] and len(shapes[inputs[1]]) == 1:
        return lambda a, x: np.matmul(a[..., 0], x)  # the matrix or vector is common to all rows
    return ARRAYS.function(op, len(inputs))


# --- NumPy in place of compiled kernels

Kernel = TypeVar("Kernel")
Notify: TypeAlias = Callable[[str], object]


def log_warning(sentence: str) -> None:
    """Log a warning as `autodiff_cli`; without a logging configuration it goes to standard error."""
    import logging

    logging.getLogger("autodiff_cli").warning(sentence)


class FallbackBackend:
    """A `Backend` that compiles kernels until compilation fails once, and uses NumPy from then on.

    Args:
        compiled: creates the compiling backend; it may raise.
        plain: the backend to fall back to.
        notify: called once, with the reason, when the fallback comes into use.
    """

    def __init__(
        self, compiled: Callable[[], protocol.Backend], plain: protocol.Backend, notify: Notify = log_warning
    ) -> None:
        self._plain = plain
        self._notify = notify
        self._compiled: protocol.Backend | None = plain  # None after an error, so that later ones are not notified
        try:
            with keep_memory_free(_RUNNING_BYTES):
                self._compiled = compiled()
        except (ImportError, OSError, RuntimeError) as error:  # llvmlite is missing or broken
            self.disable_compilation(error)

    @property
    def name(self) -> str:
        """The name of the backend in use."""
        return self.active_backend.name

    @property
    def active_backend(self) -> protocol.Backend:
        """The backend that makes kernels at present."""
        return self._compiled or self._plain

    def disable_compilation(self, error: Exception) -> None:
        """Use the plain backend from now on, and notify the user of the error."""
        if self._compiled is None and isinstance(error, protocol.CompilationError):
            return  # the user has been notified for another kernel
        self._compiled = None
        reason = re.split(r"\n|\. ", str(error).strip())[0] or type(error).__name__
        limits = " within the limit of memory" if has_memory_limits() else ""
        self._notify(
            f"machine code could not be generated{limits} ({reason}); "
            "NumPy is used instead, which is slower; see `autodiff doctor`"
        )

    def sum_kernel(self, graphs: protocol.RowGraphs) -> protocol.SumKernel:
        """Compile graphs whose outputs are summed over rows; see `Backend.sum_kernel`."""
        return self._kernel(lambda backend: backend.sum_kernel(graphs))

    def row_kernel(self, graphs: protocol.RowGraphs) -> protocol.RowKernel:
        """Compile graphs that give values for each row; see `Backend.row_kernel`."""
        return self._kernel(lambda backend: backend.row_kernel(graphs))

    def epoch_kernel(self, descent: protocol.GradientDescent) -> protocol.EpochKernel:
        """Compile a gradient method; see `Backend.epoch_kernel`."""
        return self._kernel(lambda backend: backend.epoch_kernel(descent))

    def _kernel(self, make: Callable[[protocol.Backend], Kernel]) -> Kernel:
        return cast(Kernel, _FallbackKernel(self, make))


class _FallbackKernel:
    """A kernel of any kind that may fail to compile when it is made, or when it is first called with columns.

    It has all attributes of the kernel in use. The result of a row kernel's `prepare` names the kernel that made it.
    """

    def __init__(self, owner: FallbackBackend, make: Callable[[protocol.Backend], Any]) -> None:
        self._owner = owner
        self._make = make
        try:
            self._kernel = make(owner.active_backend)
        except (protocol.CompilationError, MemoryError) as error:
            self._switch(error)

    def __reduce__(self) -> Any:
        return self._kernel.__reduce__()  # pickle the kernel in use

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        attribute = getattr(self._kernel, name)
        if not callable(attribute):
            return attribute

        def call(*arguments: Any, **options: Any) -> Any:
            try:
                return getattr(self._kernel, name)(*arguments, **options)
            except protocol.CompilationError as error:
                self._switch(error)
                return getattr(self._kernel, name)(*arguments, **options)

        self.__dict__[name] = call
        return call

    def prepare(self, point: protocol.Point) -> list[Any]:
        return [self._kernel, point, self._kernel.prepare(point)]

    def write(self, prepared: list[Any], columns: protocol.Columns, out: Array) -> None:
        if prepared[0] is not self._kernel:  # prepared by the kernel before the switch
            prepared[:] = self.prepare(prepared[1])
        try:
            self._kernel.write(prepared[2], columns, out)
        except protocol.CompilationError as error:
            self._switch(error)
            self.write(prepared, columns, out)

    def _switch(self, error: Exception) -> None:
        """Replace the kernel by a kernel of the plain backend, whose errors are raised."""
        self._owner.disable_compilation(error)
        self._kernel = self._make(self._owner.active_backend)

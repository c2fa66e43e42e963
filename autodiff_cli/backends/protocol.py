"""The interface between models and backends: graphs for one row of data, compiled to run over many rows.

A backend receives graphs, including the graphs of gradients, and compiles each set of them once into a kernel. Backends
contain no derivative rules and know neither models nor losses. To add a backend, write a module or a folder beside this
file and one line in `selection.py`.

Rows are the last axis of every array, so that the values of one quantity are contiguous in memory.

A kernel is pickled as the graphs it was built from (`RecipeKernel`) and rebuilt once in each process that receives it.
Plans and machine code are only valid where they were made. Results have the same bits in every process whose vectors
have the same width.
"""

from __future__ import annotations

import math
import os
import pickle
import threading
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from autodiff_cli.graph.node import Node, Shape
from autodiff_cli.graph.tape import PackedGraph, Tape, infer_shapes, pack, unpack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from autodiff_cli.array_types import Array

# Names of the leaves that an `Update` may read, besides its accumulators.
THETA, GRADIENT, RATE, STEP = "theta", "gradient", "rate", "step"


@dataclass(frozen=True, slots=True)
class Update:
    """One step of a gradient method, as graphs for a single parameter.

    The graphs read the leaves `theta`, `gradient` (of the mean loss) and the accumulators by name, which have one value
    per parameter, and `rate` and `step` (1 for the first step), which are common to all parameters.

    Attributes:
        theta: the parameter after the step.
        accumulators: values that the method carries from step to step, such as momenta, by name: each after the step.
            They are 0 before the first step.
    """

    theta: Node
    accumulators: Mapping[str, Node] = field(default_factory=dict)


# Arrays of shape (rows,), or (*shape, rows) where each row has an array. Other numeric types are converted to doubles.
Columns: TypeAlias = "Mapping[str, NDArray[Any]]"
RowOrder: TypeAlias = "NDArray[Any] | None"  # row numbers; None for all rows in their stored order
BatchLosses: TypeAlias = "list[float] | None"
Point = Mapping[str, Any]  # a number or an array for every leaf that is not a column
# Called with the completed fraction of an epoch and the mean loss of its batches so far.
ProgressCallback = Callable[[float, float], None]


class CompilationError(RuntimeError):
    """A kernel could not be compiled for the columns it was first called with; nothing has been computed."""


@dataclass(frozen=True, slots=True, eq=False)
class RowGraphs:
    """Graphs written for one row, to be evaluated over many rows.

    Args:
        outputs: the graphs. Backends compute their common sub-expressions once.
        columns: the names of the leaves that vary from row to row; all other leaves are the same for all rows.
        leaf_shapes: the shapes of the leaves that are not scalars, by name.
        declared_shapes: the shape of each output, for graphs of a single number that represent an array of equal
            numbers; by default the inferred shapes.

    Attributes:
        output_shapes: the shape of each output.
        value_count: the number of values of all outputs together, for one row.
        output_slices: the positions of each output among these values.

    >>> from autodiff_cli.language.program import read
    >>> graphs = RowGraphs([read("a*x").output, read("[x, 2, a]").output], {"x"})
    >>> graphs.output_shapes, graphs.value_count
    (((), (3,)), 4)
    """

    outputs: Sequence[Node]
    columns: Set[str]
    leaf_shapes: Mapping[str, Shape] = field(default_factory=dict)
    declared_shapes: Sequence[Shape] | None = None
    output_shapes: tuple[Shape, ...] = field(init=False)
    value_count: int = field(init=False)
    output_slices: tuple[slice, ...] = field(init=False)

    def __post_init__(self) -> None:
        if self.declared_shapes is None:
            tape = Tape(self.outputs)
            shapes = infer_shapes(tape, self.leaf_shapes)
            output_shapes = tuple(shapes[i] for i in tape.outputs)
        else:
            output_shapes = tuple(self.declared_shapes)
        object.__setattr__(self, "output_shapes", output_shapes)
        ends = [0, *accumulate(map(math.prod, output_shapes))]
        object.__setattr__(self, "value_count", ends[-1])
        object.__setattr__(self, "output_slices", tuple(slice(*bounds) for bounds in pairwise(ends)))

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpack_graphs, (pack(self.outputs), sorted(self.columns), dict(self.leaf_shapes), self.declared_shapes)


def _unpack_graphs(outputs: PackedGraph, columns: Sequence[str], *rest: Any) -> RowGraphs:
    return RowGraphs(unpack(outputs), {*columns}, *rest)


class Kernel(Protocol):
    """Compiled graphs."""

    @property
    def names(self) -> frozenset[str]:
        """The names of the leaves that the kernel reads."""

    @property
    def block_rows(self) -> int:
        """The number of rows in a block."""


class SumKernel(Kernel, Protocol):
    """Compiled graphs whose outputs are summed over rows: a loss and its gradient.

    Rows are divided into blocks of `block_rows`. Each kernel is free to choose the order of additions within a block;
    the sums of blocks are combined in the order of `fold`. So the result has the same bits with any number of threads,
    and folding the sums of parts of 2^k blocks each gives the sum over all rows.

    A kernel is pickled as its recipe and rebuilt once per process; see `RecipeKernel`.
    """

    def sums(self, point: Point, columns: Columns, rows: int) -> Array:
        """Return the sums of the outputs over all rows, concatenated and flattened: an array of shape (value_count,).

        Undefined values become nan. No exception is raised for them, and NumPy issues no warning.

        Args:
            point: a value for every leaf that is not a column; other names are ignored.
            columns: complete columns, of any strides, which are not changed; other names are ignored.
            rows: the number of rows. The sums over no rows are 0.
        """

    def density(
        self, point: Point, columns: Columns, rows: int, places: Mapping[str, slice], directions: Array
    ) -> DensityFunction | None:
        """Return minus the sums as a function of numbers z in compiled code; None if that is not available.

        Args:
            point: the point for z = 0, with the leaves that do not depend on z.
            columns: complete columns, which must not change.
            rows: the number of rows.
            places: the rows of `directions` for each leaf that depends on z.
            directions: the derivatives of these leaves towards z, an array of shape (P, P). The first output is the
                value, and all further outputs are its gradient towards these leaves.
        """


class DensityFunction(Protocol):
    """A log-density in compiled code that any thread may call."""

    @property
    def addresses(self) -> tuple[int, int, int]:
        """The addresses of two C functions, and of the data that is their last argument.

        `density(size, z, gradient, value, data)` returns 0, or 3 if a result is not finite;
        `copy(size, size, z, out, data)` returns 0.
        """

    def __call__(self, z: Array) -> Array:
        """Return the value and the gradient, of shape (1 + P,)."""


class RowKernel(Kernel, Protocol):
    """Compiled graphs that give values for each row: predictions, or residuals and their derivatives.

    A kernel is pickled as its recipe and rebuilt once per process; see `RecipeKernel`.
    """

    @property
    def value_count(self) -> int:
        """The number of output values per row."""

    @property
    def output_slices(self) -> Sequence[slice]:
        """The positions of each output among the values of a row."""

    def prepare(self, point: Point) -> Any:
        """Return everything that is common to all rows at a point, to be passed to `write`.

        Args:
            point: a value for every leaf that is not a column; other names are ignored.
        """

    def write(self, prepared: Any, columns: Columns, out: Array) -> None:
        """Write the outputs for some rows into an array.

        Args:
            prepared: the result of `prepare`, which is not changed.
            columns: the columns of these rows.
            out: an array of shape (value_count, rows) with contiguous rows, which receives the outputs one below the
                other, each flattened.
        """


@dataclass(frozen=True, slots=True)
class GradientDescent:
    """A mean loss over rows, and the gradient method that minimizes it.

    Attributes:
        loss: the weighted loss of a row, followed by its slope towards each parameter.
        parameters: the names of the parameters' leaves, in the order of the slopes and of `theta`, arrays flattened.
        weight_column: the name of the column of weights; None if all rows have weight 1.
        update: the step.
        clip_norm: the maximum length of a batch's gradient, to which longer ones are shortened; None for no limit.
    """

    loss: RowGraphs
    parameters: Sequence[str]
    weight_column: str | None
    update: Update
    clip_norm: float | None = None


@dataclass(slots=True)
class OptimizerState:
    """The state of a gradient method. Together with the state of the random generator it determines all further steps.

    Attributes:
        values: an array of shape (1 + accumulators, P): the parameters, then each accumulator, in the order of the
            update.
        step_count: the number of steps taken.
    """

    values: Array
    step_count: int = 0

    @classmethod
    def initial(cls, theta: Array, update: Update) -> OptimizerState:
        """Return the state before the first step."""
        import numpy as np  # `Update` and the names of its leaves are used where NumPy must not be loaded

        values = np.zeros((1 + len(update.accumulators), len(theta)))
        values[0] = theta
        return cls(values)

    @property
    def theta(self) -> Array:
        """The parameters: a view of the first row of `values`."""
        theta: Array = self.values[0]
        return theta


class EpochRequest(NamedTuple):
    """An epoch of a gradient method, independent of where the rows are.

    Attributes:
        state: the state of the method, which is updated in place.
        learning_rate: the factor of the step.
        point: a value for every leaf that is neither a column nor a parameter; other names are ignored.
        batch_rows: the maximum number of rows in a batch.
        on_progress: called from time to time during a long epoch.
    """

    state: OptimizerState
    learning_rate: float
    point: Point
    batch_rows: int
    on_progress: ProgressCallback | None = None


class EpochKernel(Protocol):
    """A compiled gradient method that runs whole epochs."""

    def run(self, epoch: EpochRequest, columns: Columns, order: RowOrder = None, losses: BatchLosses = None) -> float:
        """Take one step per batch, over rows in a given order, and return the mean loss of the batches.

        A batch has the next `batch_rows` rows of the order; the last batch has the rows that are left. Its loss and
        gradient are the weighted means over its rows.

        Args:
            epoch: the state, the learning rate and the size of batches.
            columns: complete columns, at least one.
            order: row numbers; by default all rows in their stored order.
            losses: a list to which the loss of each batch is appended. It may hold losses of earlier rows of the epoch,
                which count in the mean.

        Returns:
            The mean of the batches' losses, each computed before its step; nan or infinite if the method diverged.
        """

    def run_full_batch(self, epoch: EpochRequest, weight: float, sums: Callable[[SumKernel, Point], Array]) -> float:
        """Take one step over all rows, which may be in memory, streamed or on a cluster, and return the loss before it.

        The result has the bits of `run` with a batch of all rows, if there are more rows than a block has.

        Args:
            epoch: the state and the learning rate.
            weight: the total weight of all rows.
            sums: a function that returns the sums of a kernel over all rows at a point.

        Returns:
            The loss before the step.
        """


class Backend(Protocol):
    """A factory of kernels: one way to evaluate graphs over rows."""

    @property
    def name(self) -> str:
        """The name by which users select the backend."""

    def sum_kernel(self, graphs: RowGraphs) -> SumKernel:
        """Compile graphs whose outputs are summed over rows: a value, followed by its derivatives, if any."""

    def row_kernel(self, graphs: RowGraphs) -> RowKernel:
        """Compile graphs that give values for each row."""

    def epoch_kernel(self, descent: GradientDescent) -> EpochKernel:
        """Compile a gradient method. Backends without loops of their own return `gradient_descent.EpochLoop`."""


# --- Kernels in other processes

_MAX_KERNELS = 64  # rebuilt kernels cached per process; the least recently used one is dropped

_kernels_lock = threading.Lock()
_thread_limit: int | None = None


class RecipeKernel:
    """The base of kernels, which are pickled as recipes to rebuild them in other processes.

    Args:
        make: a module-level function or a class, which returns the kernel.
        arguments: its arguments, which can all be pickled.
        is_shared: whether the threads of a process share one kernel, waiting for each other, since it runs on several
            threads itself; otherwise each thread has its own.
    """

    def __init__(self, make: Callable[..., Any], *arguments: Any, is_shared: bool) -> None:
        self._recipe, self.is_shared = (make, arguments), is_shared

    @cached_property
    def _reduced(self) -> tuple[Any, ...]:
        """The result of `__reduce__`. Computed once, so that graphs are flattened only once."""
        return _rebuild_kernel, (self.is_shared, pickle.dumps(self._recipe))

    def __reduce__(self) -> tuple[Any, ...]:
        return self._reduced


def available_cores() -> int:
    """Return the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_thread_limit(count: int | None) -> None:
    """Limit the number of threads of kernels that are rebuilt in this process; None for all cores."""
    global _thread_limit
    _thread_limit = count


def thread_limit() -> int | None:
    """Return the maximum number of threads of kernels that are rebuilt in this process; None for all cores."""
    return _thread_limit


def _rebuild_kernel(is_shared: bool, content: bytes) -> Any:
    with _kernels_lock:
        return _rebuilt_kernel(0 if is_shared else threading.get_ident(), content)


@lru_cache(_MAX_KERNELS)
def _rebuilt_kernel(thread: int, content: bytes) -> Any:  # noqa: ARG001 - kernels of threads differ
    make, arguments = pickle.loads(content)
    return make(*arguments)

"""The available backends, the choice between them, evaluation of graphs by them, and their status on this machine."""

from __future__ import annotations

import functools
import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from autodiff_cli.graph.tape import Tape, broadcast_shapes, infer_shapes
from autodiff_cli.system import CacheUnavailableError, open_cache_folder

if TYPE_CHECKING:  # command-line options list the backends and start without NumPy
    from autodiff_cli.array_types import Array
    from autodiff_cli.backends.numpy_backend import Notify
    from autodiff_cli.backends.protocol import Backend, RowGraphs
    from autodiff_cli.graph.node import Node, Shape


# Limits within which `auto` compiles, because compiled kernels save time. Work is the number of computed values: values
# per row, times rows, times passes.
_MIN_WORK = 50_000_000  # NumPy computes fewer values than this in the time that loading LLVM and compiling take
_MIN_DONE_WORK = 25_000_000  # work done by NumPy after which kernels are compiled after all
_CALL_OVERHEAD_ROWS = 2000  # rows that take NumPy as long as calling its functions
_BATCH_OVERHEAD_ROWS = 2000  # rows that take NumPy as long as starting another batch
_TYPICAL_PASSES = 25  # passes over the data in a fit
_MAX_COUNTED_VALUES = 5_000  # values per row: in wide layers, matrix products are fast in NumPy too
_MAX_OPERATIONS = 5_000  # more take seconds to compile
_MAX_VALUES = 5_000_000  # values per row: models larger than layers of a thousand units were not measured


def _make_numpy_backend(threads: int | None) -> Backend:  # noqa: ARG001 - NumPy runs on one thread
    from autodiff_cli.backends.numpy_backend import NumpyBackend

    return NumpyBackend()


def _make_llvm_backend(threads: int | None) -> Backend:
    from autodiff_cli.backends.llvm.backend import LlvmBackend

    return LlvmBackend(threads)


# Functions that create each backend, given its maximum number of threads (None: all cores).
BACKEND_FACTORIES: dict[str, Callable[[int | None], Backend]] = {
    "numpy": _make_numpy_backend,
    "llvm": _make_llvm_backend,
}
BACKEND_NAMES = ("auto", *BACKEND_FACTORIES)


def make_backend(name: str = "numpy", threads: int | None = None) -> Backend:
    """Return the backend with this name.

    Args:
        name: one of `BACKEND_FACTORIES`.
        threads: the maximum number of threads; None for all cores.

    Raises:
        KeyError: if there is no such backend.
        ImportError: if the backend needs a package that is not installed.

    >>> make_backend().name
    'numpy'
    """
    return BACKEND_FACTORIES[name](threads)


@functools.cache
def has_compiler() -> bool:
    """Return whether the package that compiles kernels, llvmlite, is installed."""
    return importlib.util.find_spec("llvmlite") is not None


def choose_backend(
    name: str,
    threads: int | None,
    graphs: RowGraphs,
    rows: int,
    passes: int = _TYPICAL_PASSES,
    notify: Notify | None = None,
    batches: int = 1,
) -> Backend:
    """Return the backend with this name, or for `auto` the faster backend for these graphs.

    Args:
        name: one of `BACKEND_NAMES`.
        threads: the maximum number of threads; None for all cores.
        graphs: the graphs to be evaluated.
        rows: the number of rows.
        passes: how many times the rows are evaluated.
        notify: called with a sentence if compiling fails and NumPy is used instead; by default the sentence is logged.
        batches: the number of batches that each pass is divided into.

    >>> from autodiff_cli.backends.protocol import RowGraphs
    >>> from autodiff_cli.language.program import read
    >>> choose_backend("auto", None, RowGraphs([read("a*x").output], {"x"}), 100).name
    'numpy'
    """
    effective_rows = (rows + (batches - 1) * _BATCH_OVERHEAD_ROWS) * passes
    if name == "auto" and _MAX_COUNTED_VALUES * effective_rows < _MIN_WORK:
        name = "numpy"  # decided without looking at the graphs
    if name == "auto":
        values = _counted_values(graphs)
        name = "llvm" if values is not None and values * effective_rows >= _MIN_WORK and has_compiler() else "numpy"
    return make_backend(name, threads) if name == "numpy" else compiling_backend(threads, notify)


def compiling_backend(threads: int | None, notify: Notify | None = None) -> Backend:
    """Return the backend that compiles kernels, or NumPy if that fails; see `choose_backend`."""
    from autodiff_cli.backends.numpy_backend import FallbackBackend, log_warning

    return FallbackBackend(lambda: make_backend("llvm", threads), make_backend("numpy"), notify or log_warning)


@functools.lru_cache(64)
def _counted_values(graphs: RowGraphs) -> int | None:
    """Return the number of values that are computed for each row, at most a limit; None if compiling takes too long."""
    tape = Tape(graphs.outputs)
    values = sum(map(math.prod, infer_shapes(tape, graphs.leaf_shapes)))
    if len(tape.nodes) > _MAX_OPERATIONS or values > _MAX_VALUES:
        return None
    return min(values, _MAX_COUNTED_VALUES)


def passes_before_compiling(graphs: RowGraphs, rows: int) -> float:
    """Return after how many passes over the rows in NumPy compiled kernels pay; infinite if they never do.

    Passes are counted and not timed, so that the results of a program are the same whenever it runs.
    """
    values = _counted_values(graphs) if has_compiler() else None
    return _MIN_DONE_WORK / (values * (rows + _CALL_OVERHEAD_ROWS)) if values else math.inf


def evaluate(
    outputs: Sequence[Node], point: Mapping[str, Any], leaves: Mapping[str, Shape] | None = None, backend: str = "auto"
) -> list[Array]:
    """Return the values of graphs at a point or at a batch of points.

    Args:
        outputs: the graphs.
        point: a number or an array for every input leaf, by name. Leading axes of an array, beyond the axes of its
            leaf, are batch axes; the batch axes of all leaves are broadcast against each other by NumPy's rules.
        leaves: the shapes of the leaves that are not scalars, by name.
        backend: `numpy`, `llvm` or `auto`.

    Returns:
        One array per output, of the batch's shape followed by the output's own.

    >>> from autodiff_cli.language.program import read
    >>> evaluate([read("a*x").output], {"a": 2.0, "x": [1.0, 2.0, 3.0]})
    [array([2., 4., 6.])]
    """
    import numpy as np

    from autodiff_cli.backends.protocol import RowGraphs

    shapes = leaves or {}
    arrays = {name: np.asarray(value, dtype=np.float64) for name, value in point.items()}
    batches = {name: value.shape[: value.ndim - len(shapes.get(name, ()))] for name, value in arrays.items()}
    batch = broadcast_shapes((), *batches.values())
    rows = math.prod(batch)
    columns = {
        name: np.moveaxis(
            np.broadcast_to(value, (*batch, *shapes.get(name, ()))).reshape(rows, *shapes.get(name, ())), 0, -1
        )
        for name, value in arrays.items()
        if batches[name]
    }
    graphs = RowGraphs(outputs, columns.keys(), shapes)
    kernel = choose_backend(backend, None, graphs, rows, passes=1).row_kernel(graphs)
    values = np.empty((graphs.value_count, rows))
    prepared = kernel.prepare({name: value for name, value in arrays.items() if name not in columns})
    kernel.write(prepared, columns, values)
    return [
        np.moveaxis(values[part], -1, 0).reshape((*batch, *size))
        for part, size in zip(graphs.output_slices, graphs.output_shapes, strict=True)
    ]


class BackendStatus(NamedTuple):
    """The status of backends in this installation. The field names are keys of the JSON document of `autodiff doctor`.

    Attributes:
        backend: the backend that `auto` uses for large computations; `none` without NumPy.
        why: the reason, as a phrase.
        processor: the model and the vector width; empty without compiled kernels.
        functions: the implementation of exp, sin and other functions of vectors; empty without compiled kernels.
        threads: the default number of threads of compiled kernels; 1 without them.
        cache: the folder that stores machine code; empty if there is none.
        cache_problem: why there is no such folder; empty if there is one.
    """

    backend: str
    why: str
    processor: str
    functions: str
    threads: int
    cache: str
    cache_problem: str


def backend_status() -> BackendStatus:
    """Return the status, determined by compiling and running a small kernel.

    >>> backend_status().backend in ("llvm", "numpy")
    True
    """
    try:
        cache = (str(open_cache_folder()), "")
    except CacheUnavailableError as error:
        cache = ("", str(error))
    if importlib.util.find_spec("numpy") is None:
        return BackendStatus("none", "numpy is not installed", "", "", 1, *cache)
    if not has_compiler():
        return BackendStatus("numpy", "llvmlite is not installed", "", "", 1, *cache)
    try:
        return _compiled_status(cache)
    except Exception as error:  # any failure means that fits run on NumPy
        return BackendStatus("numpy", f"a kernel could not be compiled: {error}", "", "", 1, *cache)


def _compiled_status(cache: tuple[str, str]) -> BackendStatus:
    import numpy as np

    from autodiff_cli.backends.llvm.backend import LlvmBackend
    from autodiff_cli.backends.llvm.machine_code import host_processor
    from autodiff_cli.backends.protocol import RowGraphs, available_cores
    from autodiff_cli.graph.node import variable
    from autodiff_cli.ops.functions import exp

    kernel = LlvmBackend(1).sum_kernel(RowGraphs([exp(variable("x"))], {"x"}))
    (total,) = kernel.sums({}, {"x": np.zeros(3)}, 3)
    if total != 3:
        raise RuntimeError(f"a test kernel computed {total} instead of 3")
    processor = host_processor()
    has_vectors = processor.vector_function("exp", 1) is not None
    functions = "glibc's libmvec, vector by vector" if has_vectors else "the C library, number by number (slower)"
    if processor.has_fma:
        functions = f"exp, log, sin and cos inlined; others from {functions}"
    model = f"{processor.cpu}, vectors of {processor.width} doubles"
    return BackendStatus(
        "llvm", "llvmlite is installed, and a test kernel ran", model, functions, available_cores(), *cache
    )

"""Which backends there are, and the one that is meant."""

from __future__ import annotations

import functools
import importlib.util
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from autodiff_cli.graph.shapes import shapes
from autodiff_cli.graph.tape import Tape

if TYPE_CHECKING:  # options name backends, and start without NumPy
    from autodiff_cli.backends.fallback import Say
    from autodiff_cli.backends.protocol import Backend, RowGraphs

# Where compiling pays. Numbers of a row times rows times how often they are gone through: below, all of that takes
# NumPy less time than it takes to load LLVM and to compile; of wide layers not all numbers count, since products of
# matrices are fast there. Operations: more take seconds to compile. Numbers of a row: more than layers of a thousand
# units have was not tried.
_WORTH = 50_000_000
_PASSES = 25  # of a fit, about
_CALL = 2000  # rows that cost NumPy as much as it costs to begin another batch
_COUNTED = 5_000
_LONGEST, _WIDEST = 5_000, 5_000_000


def _numpy(threads: int | None) -> Backend:  # noqa: ARG001 - it runs on one
    from autodiff_cli.backends.blocks import Blocks

    return Blocks()


def _llvm(threads: int | None) -> Backend:
    from autodiff_cli.backends.llvm.kernel import Llvm

    return Llvm(threads)


# How each is made, given the most threads that it may use (None: as many as there are cores).
BACKENDS: dict[str, Callable[[int | None], Backend]] = {"numpy": _numpy, "llvm": _llvm}
NAMES = ("auto", *BACKENDS)


def backend(name: str = "numpy", threads: int | None = None) -> Backend:
    """The backend of a name.

    Raises:
        KeyError: if there is none.
        ImportError: if it needs what is not installed.

    >>> backend().name
    'numpy'
    """
    return BACKENDS[name](threads)


@functools.cache
def compiles() -> bool:
    """Whether there is what compiled kernels need."""
    return importlib.util.find_spec("llvmlite") is not None


def suited(
    name: str,
    threads: int | None,
    graphs: RowGraphs,
    rows: int,
    passes: int = _PASSES,
    say: Say | None = None,
    batches: int = 1,
) -> Backend:
    """The backend of a name; for `auto` the one that is faster for graphs over so many rows.

    Args:
        passes: how often these are gone through.
        batches: into how many each pass is divided.
        say: is told, in a sentence, if compiling fails, so that all runs on NumPy; by default the log is.

    >>> from autodiff_cli.backends.protocol import RowGraphs
    >>> from autodiff_cli.language.lowering import read
    >>> suited("auto", None, RowGraphs([read("a*x").output], {"x"}), 100).name
    'numpy'
    """
    if name == "auto" and _COUNTED * (rows + (batches - 1) * _CALL) * passes < _WORTH:
        name = "numpy"  # whatever the graphs are
    if name == "auto":
        tape = Tape(graphs.outputs)
        numbers = sum(map(math.prod, shapes(tape, graphs.leaves)))
        is_known = len(tape.nodes) <= _LONGEST and numbers <= _WIDEST
        pays = is_known and min(numbers, _COUNTED) * (rows + (batches - 1) * _CALL) * passes >= _WORTH and compiles()
        name = "llvm" if pays else "numpy"
    if name == "numpy":
        return backend(name, threads)
    from autodiff_cli.backends.fallback import Fallback, log

    return Fallback(lambda: backend(name, threads), backend("numpy", threads), say or log)

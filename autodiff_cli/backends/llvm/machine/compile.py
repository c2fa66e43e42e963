"""Text to machine code."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from autodiff_cli.backends.llvm.target import Processor
from autodiff_cli.backends.protocol import NotCompiled
from autodiff_cli.cache import entry_name, load, store
from autodiff_cli.numbers.compiled.machine import LOCK, VERSIONS, engine, parsed
from autodiff_cli.version import __version__

_LONG = 500_000  # characters of a text that would take seconds to optimise
_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class Machine:
    """Machine code in memory, with the functions that it exports."""

    def __init__(self, text: str, target: Processor) -> None:
        with LOCK:
            self._engine = engine(_object(text, target), target.machine())

    def address(self, name: str) -> int:
        """That of a function. Raises NotCompiled where what it calls is nowhere to be found."""
        with _not_compiled():
            found: int = self._engine.get_function_address(name)
        return found

    def function(self, name: str, kind: Any = _RUN) -> Any:
        """A function, by default of two addresses."""
        return kind(self.address(name))


def compiled(write: Callable[[], str], target: Processor) -> Machine:
    """The machine code of a text, which is written first. Raises NotCompiled if LLVM cannot make it here.

    A mistake in what writes the text, or in the text, is none of LLVM's, and is raised as it is.
    """
    with _not_compiled((MemoryError,)):
        text = write()
    with _not_compiled():
        return Machine(text, target)


@contextlib.contextmanager
def _not_compiled(kinds: tuple[type[Exception], ...] = (RuntimeError, OSError, MemoryError)) -> Iterator[None]:
    """Raise NotCompiled in the place of errors of these kinds, by default of those of LLVM and its linker."""
    try:
        yield
    except kinds as error:
        raise NotCompiled(str(error) or type(error).__name__) from error


def assembly(text: str, target: Processor) -> str:
    """What the text becomes, for people."""
    with LOCK:
        found: str = target.machine().emit_assembly(parsed(text))
    return found


def _object(text: str, target: Processor) -> bytes:
    """Object code for the text, from the cache or made anew."""
    name = entry_name("kernel", text, target.triple, target.cpu, target.features, __version__, *VERSIONS)
    code = load(name)
    if code is None:
        code = target.machine(in_haste=len(text) > _LONG).emit_object(parsed(text))
        store(name, code)
    return code

"""Text to machine code."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm

from autodiff_cli.backends.llvm.target import Processor
from autodiff_cli.backends.protocol import NotCompiled
from autodiff_cli.cache import entry_name, load, store
from autodiff_cli.version import __version__

_LONG = 500_000  # characters of a text that would take seconds to optimise
_LOCK = threading.Lock()  # LLVM's own state is one for all threads
_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class Machine:
    """Machine code in memory, with the functions that it exports."""

    def __init__(self, text: str, target: Processor) -> None:
        with _LOCK:
            self._engine = _engine(_object(text, target), target)

    def function(self, name: str) -> Any:
        """A function of two addresses."""
        return _RUN(self._engine.get_function_address(name))


def compiled(write: Callable[[], str], target: Processor) -> Machine:
    """The machine code of a text, which is written first. Raises NotCompiled if either fails."""
    try:
        return Machine(write(), target)
    except Exception as error:  # LLVM's own, of many kinds
        raise NotCompiled(str(error) or type(error).__name__) from error


def assembly(text: str, target: Processor) -> str:
    """What the text becomes, for people."""
    with _LOCK:
        found: str = target.machine().emit_assembly(_parsed(text))
    return found


def _object(text: str, target: Processor) -> bytes:
    """Object code for the text, from the cache or made anew."""
    versions = (__version__, llvm.__name__, ".".join(map(str, llvm.llvm_version_info)))
    name = entry_name("kernel", text, target.triple, target.cpu, target.features, *versions)
    code = load(name)
    if code is None:
        code = target.machine(in_haste=len(text) > _LONG).emit_object(_parsed(text))
        store(name, code)
    return code


def _parsed(text: str) -> Any:
    module = llvm.parse_assembly(text)
    module.verify()
    return module


def _engine(code: bytes, target: Processor) -> Any:
    empty = llvm.parse_assembly(f'target triple = "{target.triple}"')
    engine = llvm.create_mcjit_compiler(empty, target.machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine

"""LLVM's text to machine code in this process."""

from __future__ import annotations

import functools
import itertools
import sys
import threading
from typing import Any

import llvmlite.binding as llvm

LOCK = threading.Lock()  # LLVM's own state is one for all threads
VERSIONS = (llvm.__name__, ".".join(map(str, llvm.llvm_version_info)))  # what object code depends on, beside the text


def parsed(text: str) -> Any:
    """A text as LLVM's module.

    Raises:
        AssertionError: if LLVM does not understand it, which is a mistake of whoever wrote it.
    """
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise AssertionError(f"LLVM does not understand: {error}") from error
    return module


def engine(code: bytes, machine: Any) -> Any:
    """Object code in memory, ready to run on a machine."""
    if sys.platform == "linux":
        return _Linked(code)
    empty = llvm.parse_assembly(f'target triple = "{machine.triple}"')
    found = llvm.create_mcjit_compiler(empty, machine)
    found.add_object_file(llvm.ObjectFileRef.from_data(code))
    found.finalize_object()
    return found


class _Linked:
    """Object code, linked as a library of its own.

    Its code and its constants lie side by side, as what is linked that way does. LLVM's older linker asks for memory
    for each of them, and where it gets them more than 2 GB apart, as in a process that is full of other libraries, it
    ends the process.
    """

    def __init__(self, code: bytes) -> None:
        self._jit = _jit()
        self._name = f"autodiff-{next(_numbers)}"
        library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        self._kept = [library.link(self._jit, self._name)]

    def get_function_address(self, name: str) -> int:
        """That of a function which is exported."""
        found = self._jit.lookup(self._name, name)
        self._kept.append(found)
        address: int = found[name]
        return address


@functools.cache
def _jit() -> Any:
    return llvm.create_lljit_compiler(use_jit_link=True)


_numbers = itertools.count()

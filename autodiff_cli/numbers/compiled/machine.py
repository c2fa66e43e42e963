"""LLVM's text to machine code in this process."""

from __future__ import annotations

import threading
from typing import Any

import llvmlite.binding as llvm

LOCK = threading.Lock()  # LLVM's own state is one for all threads
VERSIONS = (llvm.__name__, ".".join(map(str, llvm.llvm_version_info)))  # what object code depends on, beside the text


def parsed(text: str) -> Any:
    """A text as LLVM's module."""
    module = llvm.parse_assembly(text)
    module.verify()
    return module


def engine(code: bytes, machine: Any) -> Any:
    """Object code in memory, ready to run on a machine."""
    empty = llvm.parse_assembly(f'target triple = "{machine.triple}"')
    found = llvm.create_mcjit_compiler(empty, machine)
    found.add_object_file(llvm.ObjectFileRef.from_data(code))
    found.finalize_object()
    return found

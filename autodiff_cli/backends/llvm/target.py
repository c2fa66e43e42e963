"""The processor that code is made for, and what its mathematical library has in vectors."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm

_LIBRARY = "libmvec.so.1"  # glibc's functions of vectors
# The letter in its names for vectors of so many doubles: SSE2, AVX2, AVX-512.
_LETTERS = {2: "b", 4: "d", 8: "e"}


@dataclass(frozen=True)
class Processor:
    """A processor.

    Attributes:
        triple: its family and system, as LLVM names them.
        cpu: its model.
        features: what it can do, as LLVM takes them.
        width: how many doubles a vector has.
    """

    triple: str
    cpu: str
    features: str
    width: int

    @property
    def bytes(self) -> int:
        """The size of a vector."""
        return 8 * self.width

    @property
    def registers(self) -> int:
        """How many vectors can be at hand."""
        return 32 if self.width == 8 or self.triple.startswith("aarch64") else 16

    @property
    def fuses(self) -> bool:
        """Whether a product and a sum, rounded once, are one instruction."""
        return self.triple.startswith("aarch64") or "+fma," in f"{self.features},"

    @property
    def scales(self) -> bool:
        """Whether a multiple of a power of two is one instruction."""
        return self.triple.startswith("x86_64") and self.width == 8

    def symbol(self, name: str, count: int) -> str | None:
        """The library's function of `count` vectors; None where there is none."""
        if not self.triple.startswith("x86_64") or not _has_library():
            return None
        mangled = f"_ZGV{_LETTERS[self.width]}N{self.width}{'v' * count}_{name}"
        return mangled if llvm.address_of_symbol(mangled) else None

    def machine(self, *, in_haste: bool = False) -> Any:
        """LLVM's own idea of it.

        Args:
            in_haste: compile in a third of the time, for code that takes half as long again.
        """
        _started()
        # More than the first level takes half as long again, and what it makes is not faster.
        return llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=self.cpu, features=self.features, opt=0 if in_haste else 1, reloc="pic", codemodel="default", jit=True
        )


@functools.cache
def host(width: int | None = None) -> Processor:
    """This machine.

    Args:
        width: how many doubles a vector has, at most what the processor can do; by default just that.
    """
    _started()
    found = llvm.get_host_cpu_features()
    widest = 8 if found.get("avx512f") and found.get("avx512dq") else 4 if found.get("avx2") and found.get("fma") else 2
    if width is not None and width > widest:
        raise ValueError(f"this processor has vectors of at most {widest} doubles")
    return Processor(llvm.get_process_triple(), llvm.get_host_cpu_name(), found.flatten(), width or widest)


@functools.cache
def _started() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@functools.cache
def _has_library() -> bool:
    try:
        llvm.load_library_permanently(_LIBRARY)
    except RuntimeError:
        return False
    return True

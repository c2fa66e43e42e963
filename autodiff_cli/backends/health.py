"""What this installation computes with: which path is in use, and why."""

from __future__ import annotations

from typing import NamedTuple

from autodiff_cli.backends.choice import compiles
from autodiff_cli.cache import cache_folder


class Health(NamedTuple):
    """What was found.

    Attributes:
        backend: what `auto` takes for much work.
        why: in words.
        processor: its model and the doubles that its vectors hold; empty without compiled kernels.
        functions: where sin, exp and others come from, for vectors; likewise.
        threads: how many compiled kernels use by default; likewise 1.
        cache: the folder in which machine code is kept; empty if none is.
    """

    backend: str
    why: str
    processor: str
    functions: str
    threads: int
    cache: str


def health() -> Health:
    """Look, by compiling and running a kernel.

    >>> health().backend in ("llvm", "numpy")
    True
    """
    folder = cache_folder()
    kept = "" if folder is None else str(folder)
    if not compiles():
        return Health("numpy", "llvmlite is not installed", "", "", 1, kept)
    try:
        return _compiled(kept)
    except Exception as error:  # whatever keeps fits from compiling
        return Health("numpy", f"a kernel could not be compiled: {error}", "", "", 1, kept)


def _compiled(kept: str) -> Health:
    import numpy as np

    from autodiff_cli.backends.llvm.kernel import Llvm
    from autodiff_cli.backends.llvm.machine.threads import cores
    from autodiff_cli.backends.llvm.target import host
    from autodiff_cli.backends.protocol import RowGraphs
    from autodiff_cli.graph.node import variable
    from autodiff_cli.ops.elementary import exp

    kernel = Llvm(1).sums(RowGraphs([exp(variable("x"))], {"x"}))
    (found,) = kernel.sums({}, {"x": np.zeros(3)}, 3)
    if found != 3:
        raise RuntimeError(f"three times exp(0) came to {found}")
    processor = host()
    has_vectors = processor.symbol("exp", 1) is not None
    functions = "glibc's libmvec, a vector at a time" if has_vectors else "the C library, one number at a time (slower)"
    if processor.fuses:
        functions = f"exp, log, sin and cos written out; others by {functions}"
    model = f"{processor.cpu}, vectors of {processor.width} doubles"
    return Health("llvm", "llvmlite is there, and a kernel ran", model, functions, cores(), kept)

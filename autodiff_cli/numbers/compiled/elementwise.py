"""Functions of floats over arrays, as machine code."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.cache import entry_name, load, store
from autodiff_cli.version import __version__

Array: TypeAlias = NDArray[np.float64]


class Elementwise:
    """A function of floats, applied to every element of arrays that fit together.

    It is compiled when it is first called; without llvmlite it runs as it stands, which takes a hundred times as long.

    >>> import math
    >>> Elementwise(math.erf)([0.0, 1.0]).tolist() == [math.erf(0.0), math.erf(1.0)]
    True
    """

    def __init__(self, function: Callable[..., float]) -> None:
        self._function = function
        self._rows: Callable[..., Array] | None = None

    def __call__(self, *given: Any) -> Array:
        arrays = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in given)) if len(given) > 1 else given
        rows = self._rows = self._rows or _compiled(self._function, len(given)) or _interpreted(self._function)
        return rows(*(np.require(array, np.float64, ("C", "A")) for array in arrays))


def _interpreted(function: Callable[..., float]) -> Callable[..., Array]:
    def rows(*arrays: Array) -> Array:
        values = map(function, *(array.ravel().tolist() for array in arrays))
        return np.fromiter(values, np.float64, arrays[0].size).reshape(arrays[0].shape)

    return rows


def _compiled(function: Callable[..., float], count: int) -> Callable[..., Array] | None:
    """None if there is no compiler."""
    try:
        engine = _engine(function)
    except ImportError:
        return None
    if engine is None:
        return None
    address = ctypes.c_void_p
    run = ctypes.CFUNCTYPE(None, address, ctypes.c_int64, *[address] * count)(engine.get_function_address("rows"))

    def rows(*arrays: Array) -> Array:
        out = np.empty(arrays[0].shape)
        run(out.ctypes.data, out.size, *(array.ctypes.data for array in arrays))
        return out

    rows.engine = engine  # type: ignore[attr-defined]  # lives as long as what it runs
    return rows


def _engine(function: Callable[..., float]) -> Any:
    """The function in machine code; None where the platform's library lacks a function that it calls."""
    import llvmlite.binding as llvm

    from autodiff_cli.numbers.compiled import machine
    from autodiff_cli.numbers.compiled.text import program

    text = program(function)
    library = ctypes.CDLL(None if os.name == "posix" else "ucrtbase")
    for name in re.findall(r"^declare double @(\w+)\(", text, re.MULTILINE):
        if not hasattr(library, name):
            return None
        llvm.add_symbol(name, ctypes.cast(getattr(library, name), ctypes.c_void_p).value)
    with machine.LOCK:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = llvm.Target.from_default_triple().create_target_machine(
            opt=2, reloc="pic", codemodel="default", jit=True
        )
        name = entry_name("function", text, target.triple, __version__, *machine.VERSIONS)
        code = load(name)
        if code is None:
            module = machine.parsed(text)
            passes = llvm.create_new_module_pass_manager()
            passes.add_sroa_pass()
            passes.add_simplify_cfg_pass()
            passes.run(module, llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options()))
            code = target.emit_object(module)
            store(name, code)
        return machine.engine(code, target)

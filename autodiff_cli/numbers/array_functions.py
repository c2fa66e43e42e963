"""Functions of NumPy arrays: NumPy's own, careful forms, and functions of floats as machine code.

Elementary and activation functions that NumPy lacks, or computes carelessly, are evaluated as graphs; see `forms`.
Special functions are the functions of floats, compiled and applied to every element.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from autodiff_cli.array_types import Array
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import LazyTable
from autodiff_cli.numbers import float_functions, gamma_functions, special_functions
from autodiff_cli.numbers.floats import parse_constant as parse_float
from autodiff_cli.numbers.forms import DEFINITIONS, FORM_FUNCTIONS, RARE_FUNCTIONS, careful_form, function_form
from autodiff_cli.numbers.kind import Kind

# --- Functions of floats as machine code ---


class Elementwise:
    """A function of floats that is applied to every element of arrays, which are broadcast together.

    It is compiled when it is first called. Without llvmlite it runs in Python, which takes a hundred times as long.

    >>> import math
    >>> Elementwise(math.erf)([0.0, 1.0]).tolist() == [math.erf(0.0), math.erf(1.0)]
    True
    """

    def __init__(self, function: Callable[..., float]) -> None:
        self._function = function
        self._apply: Callable[..., Array] | None = None

    def __call__(self, *arguments: Any) -> Array:
        arrays = (
            np.broadcast_arrays(*(np.asarray(x, np.float64) for x in arguments)) if len(arguments) > 1 else arguments
        )
        rows = self._apply = (
            self._apply or _compile_rows(self._function, len(arguments)) or _interpret_rows(self._function)
        )
        return rows(*(np.require(array, np.float64, ("C", "A")) for array in arrays))


def _interpret_rows(function: Callable[..., float]) -> Callable[..., Array]:
    def rows(*arrays: Array) -> Array:
        values = map(function, *(array.ravel().tolist() for array in arrays))
        return np.fromiter(values, np.float64, arrays[0].size).reshape(arrays[0].shape)

    return rows


def _compile_rows(function: Callable[..., float], count: int) -> Callable[..., Array] | None:
    """Return the compiled function of arrays; None if llvmlite is not installed or the platform lacks a function."""
    try:
        engine = _machine_code(function)
    except (ImportError, OSError):  # not installed, or too little memory to load it
        return None
    if engine is None:
        return None
    address = ctypes.c_void_p
    run = ctypes.CFUNCTYPE(None, address, ctypes.c_int64, *[address] * count)(engine.get_function_address("rows"))

    def rows(*arrays: Array) -> Array:
        out = np.empty(arrays[0].shape)
        run(out.ctypes.data, out.size, *(array.ctypes.data for array in arrays))
        return out

    return rows


@functools.cache
def compiled_symbol(op: str) -> str | None:
    """Return the symbol of the compiled function of floats that computes an operation, for compiled code to call.

    None if the platform's library lacks a function that it calls.
    """
    from autodiff_cli.numbers.machine_code import add_symbol

    engine = _machine_code(_COMPILABLE[op])
    if engine is None:
        return None
    add_symbol(f"autodiff_{op}", engine.get_function_address("one"))
    return f"autodiff_{op}"


@functools.cache  # keeps the machine code alive
def _machine_code(function: Callable[..., float]) -> Any:
    """Return an engine with the compiled function; None if the platform's library lacks a function that it calls."""
    import llvmlite.binding as llvm

    from autodiff_cli.numbers.machine_code import compile_assembly, initialize, llvm_program

    text = llvm_program(function)
    library = ctypes.CDLL(None if os.name == "posix" else "ucrtbase")
    for name in re.findall(r"^declare double @(\w+)\(", text, re.MULTILINE):
        if not hasattr(library, name):
            return None
        llvm.add_symbol(name, ctypes.cast(getattr(library, name), ctypes.c_void_p).value)
    initialize()
    target = llvm.Target.from_default_triple().create_target_machine(opt=2, reloc="pic", codemodel="default", jit=True)

    def optimize(module: Any, machine: Any) -> None:
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))

    return compile_assembly("function", text, target, optimize=optimize)


# --- Functions of NumPy, and primitives of careful forms ---


def _extremum(pick: np.ufunc) -> Callable[..., Array]:
    """Return the extreme of some numbers; of equal ones the first, as Python does. NumPy may return 0 or -0."""

    def first_extreme(x: Array, y: Array) -> Array:
        z = pick(x, y)
        return z if np.all(z) else np.where(z == x, x, z)

    return lambda *xs: functools.reduce(first_extreme, xs)


# NumPy's comparisons and logical operations, which return truth values.
LOGICAL_UFUNCS: dict[str, np.ufunc] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not,
}  # fmt: skip

ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "mod": np.mod,
    "abs": np.abs, "sign": lambda x: np.where(x == 0, x, np.sign(x)),
    "floor": np.floor, "ceil": np.ceil, "round": np.round,
    "max": _extremum(np.maximum), "min": _extremum(np.minimum),
}  # fmt: skip

NUMPY_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "square": np.square, "sqrt": np.sqrt,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "coth": lambda x: 1 / np.tanh(x), "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "hypot": np.hypot,
    "erf": Elementwise(math.erf), "erfc": Elementwise(math.erfc), "erfinv": Elementwise(float_functions.erfinv),
}  # fmt: skip


# --- Careful forms ---


class ArrayForm:
    """A function of arrays that evaluates the careful form of an operation, compiled for each number of inputs.

    Args:
        form: returns the form as a graph, given nodes.
        kind: returns the kind of number, which may be defined later.
    """

    def __init__(self, form: Callable[..., Node], kind: Callable[[], Kind[Any]] = lambda: _FORM_ARRAYS) -> None:
        self._functions = LazyTable(lambda count: kind().compile_form(form, count))

    def __call__(self, *arrays: Any) -> Any:
        return self._functions[len(arrays)](*arrays)


def _lazily(name: str) -> Callable[..., Any]:
    """Return the function that evaluates a rarely needed form only if an element needs it."""
    careful = ArrayForm(partial(function_form, RARE_FUNCTIONS[name]))
    return lambda needed, usual, *xs: np.where(needed, careful(*xs), usual) if np.any(needed) else usual


_sinc_derivative_elementwise = Elementwise(special_functions.sinc_derivative)
product_error = ArrayForm(partial(function_form, float_functions.product_error))
_sinc_slope = ArrayForm(partial(function_form, special_functions.sinc_slope))


ELEMENTARY: dict[str, Callable[..., Any]] = {
    **{name: ArrayForm(partial(careful_form, name)) for name in {**DEFINITIONS, **FORM_FUNCTIONS}},
    **NUMPY_FUNCTIONS,
    **ARITHMETIC,
}

_SPECIAL_FUNCTIONS = special_functions.OPERATIONS | gamma_functions.OPERATIONS
_COMPILABLE = {**_SPECIAL_FUNCTIONS, "erfinv": float_functions.erfinv}  # functions with loops, which have no form
SPECIAL: dict[str, Any] = {
    **{name: Elementwise(function) for name, function in _SPECIAL_FUNCTIONS.items()},
    # The first derivative, which gradients need, is vectorized.
    "sinc_derivative": lambda n, x: _sinc_slope(x) if np.all(n == 1) else _sinc_derivative_elementwise(n, x),
}


def parse_constant(text: str) -> Any:
    """Return the number of a constant, given its text."""
    return np.float64(parse_float(text))


# The arrays of careful forms; conditions there are truth values, not numbers.
_FORM_ARRAYS: Kind[Any] = Kind(
    "arrays",
    {
        **ELEMENTARY,
        **SPECIAL,
        **LOGICAL_UFUNCS,
        "where": np.where,
        "product_error": product_error,
        "sum_error": ArrayForm(partial(function_form, float_functions.sum_error)),
        "copysign": np.copysign,
        "platform_cbrt": np.cbrt,
        "platform_pow": np.power,
        **{name: _lazily(name) for name in RARE_FUNCTIONS},
    },
    parse_constant,
)

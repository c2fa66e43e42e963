"""Functions of NumPy arrays: elementary functions, activation functions, and functions of floats as machine code.

Elementary and activation functions are vectorized versions of the functions in `float_functions`, whose comments give
the reasons for their forms. Special functions are the functions of floats, compiled and applied to every element.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from autodiff_cli.array_types import Array
from autodiff_cli.cache import entry_name, load, store
from autodiff_cli.numbers import gamma_functions, special_functions
from autodiff_cli.numbers.float_functions import (
    FAR_LEFT,
    MISH_LINEAR_FROM,
    SQRT_HALF,
    SQRT_HALF_ERROR,
    SQRT_TWO_PI,
    erfinv,
)
from autodiff_cli.numbers.special_functions import sinc_derivative
from autodiff_cli.version import __version__

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

    rows.engine = engine  # type: ignore[attr-defined]  # keeps the machine code alive
    return rows


def _machine_code(function: Callable[..., float]) -> Any:
    """Return an engine with the compiled function; None if the platform's library lacks a function that it calls."""
    import llvmlite.binding as llvm

    from autodiff_cli.numbers import machine_code as machine
    from autodiff_cli.numbers.machine_code import llvm_program

    text = llvm_program(function)
    library = ctypes.CDLL(None if os.name == "posix" else "ucrtbase")
    for name in re.findall(r"^declare double @(\w+)\(", text, re.MULTILINE):
        if not hasattr(library, name):
            return None
        llvm.add_symbol(name, ctypes.cast(getattr(library, name), ctypes.c_void_p).value)
    with machine.LLVM_LOCK:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = llvm.Target.from_default_triple().create_target_machine(
            opt=2, reloc="pic", codemodel="default", jit=True
        )
        name = entry_name("function", text, target.triple, __version__, *machine.LLVM_VERSIONS)
        code = load(name)
        if code is None:
            module = machine.parse_assembly(text)
            passes = llvm.create_new_module_pass_manager()
            passes.add_sroa_pass()
            passes.add_simplify_cfg_pass()
            passes.run(module, llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options()))
            code = target.emit_object(module)
            store(name, code)
        return machine.load_object_code(code, target)


# --- Elementary functions ---


def _split(x: Array) -> tuple[Array, Array]:
    """Return x as a sum of two numbers with 26 bits each (Veltkamp's splitting)."""
    c = 134217729.0 * x
    high = c - (c - x)
    return high, x - high


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded product a·b and its rounding error."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, np.where(np.isfinite(error), error, 0.0)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded sum a + b and its rounding error."""
    total = a + b
    b_part = total - a
    error = (a - (total - b_part)) + (b - b_part)
    return total, np.where(np.isfinite(error), error, 0.0)


def _pow(x: Array, y: Array) -> Array:
    z: Array = np.power(x, y)
    is_fraction = np.floor(y) != y
    if not np.any(is_fraction):
        return z
    is_undefined = is_fraction & np.isneginf(x)  # the platform returns inf or 0 there
    return np.where(is_undefined, np.nan, z) if np.any(is_undefined) else z


def _pow_slope_base(x: Array, y: Array) -> Array:
    z = _pow(x, y)
    slope = y * (z / x)
    edge = (x == 0) | (np.abs(z) < 1e-290) | np.isinf(z)
    if np.any(edge):
        exponent, error = two_sum(y, np.asarray(-1.0))
        edge_slope = y * _pow(x, exponent)
        correction = edge_slope * error * np.log(np.abs(x))
        slope = np.where(edge, np.where(np.isfinite(correction), edge_slope + correction, edge_slope), slope)
    return np.where(y == 0, 0.0, slope)


def _pow_slope_exponent(x: Array, y: Array) -> Array:
    slope = np.where((x == 0) & (y == 0), np.nan, _pow(x, y) * np.log(x))
    return np.where((x == 0) & (y > 0), 0.0, slope)


def _times_log(a: Array, x: Array) -> Array:
    return np.where((a == 0) & ~np.isnan(x), 0.0, a * np.log(x))


def _root(x: Array, n: Array) -> Array:
    size = np.abs(x)
    z = np.power(size, 1 / n)
    product, error = two_product(1 / n, n)
    step = z * ((1 - product - error) / n * np.log(size))
    z = np.where(np.isfinite(step), z + step, z)
    z = np.where(n == 2, np.sqrt(size), np.where(n == 3, _cbrt(size), z))
    z = np.where((n == 0) | np.isnan(x) | np.isnan(n), np.nan, z)
    return np.where(x >= 0, z, np.where(np.mod(n, 2) == 1, -z, np.nan))


def _log_base(x: Array, base: Array) -> Array:
    return np.where(base == 2, np.log2(x), np.where(base == 10, np.log10(x), np.log(x) / np.log(base)))


def _asec(x: Array) -> Array:
    size = np.abs(x)
    angle: Array = np.arctan(np.sqrt(size - 1) * np.sqrt(size + 1))
    return np.where(x < 0, np.pi - angle, angle)


def _acsc(x: Array) -> Array:
    size = np.abs(x)
    angle: Array = np.arctan(1 / (np.sqrt(size - 1) * np.sqrt(size + 1)))
    return np.copysign(angle, x)


def _acoth(x: Array) -> Array:
    size = np.abs(x)
    return np.copysign(np.where(size >= 1, np.log1p(2 / (size - 1)) / 2, np.nan), x)


def _asech(x: Array) -> Array:
    z = np.where(x < 1e-9, math.log(2) - np.log(x), np.arcsinh(np.sqrt((1 - x) * (1 + x)) / x))
    return np.where(x >= 0, z, np.nan)


def _acsch(x: Array) -> Array:
    size = np.abs(x)
    return np.copysign(np.where(size < 1e-9, math.log(2) - np.log(size), np.arcsinh(1 / size)), x)


def _sech(x: Array) -> Array:
    half = np.exp(-np.abs(x) / 2)
    return np.where(np.abs(x) < 700, 1 / np.cosh(x), 2 * half * half)


def _csch(x: Array) -> Array:
    return np.where(np.abs(x) < 700, 1 / np.sinh(x), np.copysign(_sech(x), x))


def _cbrt(x: Array) -> Array:
    z = np.cbrt(x)
    cube = z * z * z
    return np.where((np.abs(cube) > 1e-290) & np.isfinite(cube), z - (cube - x) / (3 * z * z), z)


def _sech_square(x: Array) -> Array:
    c = np.cosh(2 * x)
    z = 2 / (1 + c)
    return z if np.isfinite(c).all() else np.where(np.isinf(c), np.square(_sech(x)), z)


def _csch_square(x: Array) -> Array:
    s = np.sinh(x)
    return 1 / s / s


def _atan_slope(x: Array) -> Array:
    z = 1 / (1 + x * x)
    return np.where(z == 0, 1 / x / x, z)


def _direction(x: Array, length: Array) -> Array:
    return np.where(length == 0, 0.0, x / length)


def _sinc(x: Array) -> Array:
    return np.where(x == 0, 1.0, np.where(np.isinf(x), 0.0, np.sin(x) / x))


# (-1)^k·2k/(2k + 1)!: the coefficients of the power series of the derivative of sinc, divided by x, highest power
# first.
_SINC_SLOPE = [(-1.0) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(10, 0, -1)]


def _sinc_derivative(n: Array, x: Array) -> Array:
    """Return the n-th derivative of sinc. The first one, which gradients need, is vectorized."""
    if not np.all(n == 1):
        return _sinc_derivative_elementwise(n, x)
    near = x * np.polyval(_SINC_SLOPE, x * x) + 0.0  # 0 and not -0, as for floats
    far = (np.cos(x) - np.sin(x) / x) / x
    return np.where(np.abs(x) < 1, near, np.where(np.isinf(x), 0.0, far))


_sinc_derivative_elementwise = Elementwise(sinc_derivative)


# fmt: off
ELEMENTARY: dict[str, Callable[..., Any]] = {
    "pow": _pow, "pow_slope_base": _pow_slope_base, "pow_slope_exponent": _pow_slope_exponent,
    "times_log": _times_log,
    "square": np.square, "sqrt": np.sqrt, "cbrt": _cbrt, "root": _root,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "log_base": _log_base,
    "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sec": lambda x: 1 / np.cos(x), "csc": lambda x: 1 / np.sin(x), "cot": lambda x: 1 / np.tan(x),
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "asec": _asec, "acsc": _acsc, "acot": lambda x: np.arctan(1 / x),
    "asin_slope": lambda x: 1 / np.sqrt((1 - x) * (1 + x)), "atanh_slope": lambda x: 1 / (1 - x) / (1 + x),
    "atan_slope": _atan_slope,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "sech": _sech, "csch": _csch, "coth": lambda x: 1 / np.tanh(x),
    "sech_square": _sech_square, "csch_square": _csch_square,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "asech": _asech, "acsch": _acsch, "acoth": _acoth,
    "hypot": np.hypot, "direction": _direction,
    "sinc": _sinc, "sinc_derivative": _sinc_derivative,
}
# fmt: on


# --- Error functions, the normal distribution and activation functions ---


def _exp_minus_square(x: Array) -> Array:
    square, error = two_product(x, x)
    z = np.exp(-square)
    return z - z * error


def _exp_square(x: Array) -> Array:
    square, error = two_product(x, x)
    z = np.exp(square)
    return np.where(np.isinf(z), z, z + z * error)


_erfc = Elementwise(math.erfc)


def _exp_minus_half_square(x: Array) -> Array:
    square, error = two_product(x, x)
    z = np.exp(-square / 2)
    return z - z * (error / 2)


def _standardize(x: Array, mean: Array | float, deviation: Array | float) -> tuple[Array, Array | float]:
    """Return (x - mean)/deviation, rounded, and its rounding error; nan unless the deviation is positive."""
    deviation = np.where(np.asarray(deviation) > 0, deviation, np.nan)
    if np.all(mean == 0) and np.all(deviation == 1):
        return np.broadcast_to(x, np.broadcast_shapes(np.shape(x), np.shape(mean), np.shape(deviation))), 0.0
    difference, difference_error = two_sum(x, -np.asarray(mean))
    u = difference / deviation
    product, error = two_product(u, np.asarray(deviation))
    quotient_error = ((difference - product) - error + difference_error) / deviation
    return u, np.where(np.isfinite(quotient_error), quotient_error, 0.0)


def _normal_pdf(x: Array, mean: Array | float = 0.0, deviation: Array | float = 1.0) -> Array:
    u, error = _standardize(x, mean, deviation)
    z = _exp_minus_half_square(u)
    return np.where(z == 0, z, z - z * u * error) / (deviation * SQRT_TWO_PI)


def _normal_cdf(x: Array, mean: Array | float = 0.0, deviation: Array | float = 1.0) -> Array:
    u, u_error = _standardize(x, mean, deviation)
    t, error = two_product(-u, np.asarray(SQRT_HALF))
    error = error - (u * SQRT_HALF_ERROR + u_error * SQRT_HALF)
    tail = _erfc(t)
    corrected = tail - 2 / math.sqrt(math.pi) * _exp_minus_square(t) * error
    return np.where((tail == 0) | np.isinf(t), tail, corrected) / 2


def _sigmoid(x: Array) -> Array:
    z = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, z) / (1.0 + z)


def _sigmoid_slope(x: Array) -> Array:
    z: Array = np.exp(-np.abs(x))
    return z / (1 + z) / (1 + z)


def _silu(x: Array) -> Array:
    return _with_far_left(x, x * _sigmoid(x), x)


def _silu_slope(x: Array) -> Array:
    z = np.exp(-np.abs(x))
    slope = (1 + z + np.where(x >= 0, z * x, x)) / (1 + z) * (np.where(x >= 0, 1.0, z) / (1 + z))
    return _with_far_left(x, slope, 1 + x)


def _with_far_left(x: Array, usual: Array, factor: Array) -> Array:
    """Return `usual`, but factor·exp(x) below `FAR_LEFT`, where the exponential alone would underflow."""
    far = x < FAR_LEFT
    if not np.any(far):
        return usual
    half = np.exp(np.minimum(x, 0.0) / 2)
    return np.where(far, factor * half * half, usual)


def _mish(x: Array) -> Array:
    w = np.exp(np.minimum(x, MISH_LINEAR_FROM))
    n = w * (w + 2)
    return _with_far_left(x, x * (n / (n + 2)), x)


def _mish_slope(x: Array) -> Array:
    clipped = np.minimum(x, MISH_LINEAR_FROM)
    w = np.exp(clipped)
    n = w * (w + 2)
    return _with_far_left(x, w / (n + 2) * (w + 2 + 2 * clipped / (1 + w * w / (2 + 2 * w))), 1 + x)


def _logit(x: Array) -> Array:
    return np.where((x > 0.25) & (x < 0.75), 2 * np.arctanh(2 * x - 1), np.log(x / (1 - x)))


def _softsign(x: Array) -> Array:
    return np.where(np.isinf(x), np.sign(x), x / (1.0 + np.abs(x)))


def _binary_softmax(x: Array, y: Array) -> Array:
    difference, error = two_sum(x, -y)
    z = _sigmoid(difference)
    return z + z * _sigmoid(-difference) * error


def _logaddexp(x: Array, y: Array) -> Array:
    high = np.maximum(x, y)
    difference, error = two_sum(np.minimum(x, y), -high)
    z = np.exp(difference)
    return np.where(x == y, x + math.log(2), high + np.log1p(z + z * error))


def _softplus(x: Array) -> Array:
    total: Array = np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))
    return total


# fmt: off
ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "erf": Elementwise(math.erf), "erfc": _erfc, "erfinv": Elementwise(erfinv),
    "exp_minus_square": _exp_minus_square, "exp_minus_half_square": _exp_minus_half_square, "exp_square": _exp_square,
    "normal_pdf": _normal_pdf, "normal_cdf": _normal_cdf,
    "sigmoid": _sigmoid, "sigmoid_slope": _sigmoid_slope, "logit": _logit,
    "softplus": _softplus, "logsigmoid": lambda x: -_softplus(-x),
    "logaddexp": _logaddexp, "binary_softmax": _binary_softmax,
    "silu": _silu, "silu_slope": _silu_slope, "mish": _mish, "mish_slope": _mish_slope,
    "softsign": _softsign,
}
# fmt: on


_FLOAT_FUNCTIONS: dict[str, Any] = (
    special_functions.SPECIAL | special_functions.INTEGRALS | gamma_functions.GAMMA | gamma_functions.INCOMPLETE_GAMMA
)

SPECIAL: dict[str, Any] = {
    name: Elementwise(function)
    for name, function in _FLOAT_FUNCTIONS.items()
    if name not in ("sinc", "sinc_derivative")  # vectorized above
}

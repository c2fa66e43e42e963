"""Operations on vectors: a table with the instructions of each operation, like the tables of floats and arrays.

Conditions are the numbers 1 and 0. Between comparisons and choices they remain masks, because `as_condition` of an
`as_number` is the mask itself.

Elementary functions and activations use the formulas of `numbers.array_functions` and `numbers.float_functions`, whose
functions of the same names explain them, or other formulas where one exponential serves several functions, such as tanh
and its slope.

Composite operations without an entry are expanded. Operations that have no vector form are computed by NumPy, a strip
of rows at a time; see `runtime.PythonCalls`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from autodiff_cli.backends.llvm.vectors import (
    Operand,
    Vector,
    as_condition,
    as_number,
    copysign,
    equal,
    exp,
    expm1,
    is_finite,
    is_infinite,
    is_nan,
    log,
    log1p,
    maximum,
    minimum,
    not_equal,
    polynomial,
    sqrt,
    two_product,
    two_sum,
    where,
)
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Op
from autodiff_cli.graph.tape import topological_order
from autodiff_cli.numbers.arrays import ARRAYS
from autodiff_cli.numbers.float_functions import FAR_LEFT, MISH_LINEAR_FROM, SQRT_HALF, SQRT_HALF_ERROR, SQRT_TWO_PI
from autodiff_cli.numbers.floats import parse_constant

VectorFunction = Callable[..., Vector]


def _extremum(pick: VectorFunction) -> VectorFunction:
    def extreme(first: Vector, *rest: Vector) -> Vector:
        for x in rest:
            first = pick(first, x)
        return first

    return extreme


def _mod(a: Vector, b: Vector) -> Vector:
    """Return the remainder with the sign of b; that of C's fmod is the sign of a."""
    rest = a.code.make("frem", a.lane_type, a, b)
    adjusted = where(~equal(rest, 0.0) & not_equal(as_number(rest < 0.0), as_number(b < 0.0)), rest + b, rest)
    return where(equal(rest, 0.0), copysign(0.0, b), adjusted)


def _sign(x: Vector) -> Vector:
    return where(equal(x, 0.0) | is_nan(x), x, copysign(1.0, x))


def _heaviside(x: Vector) -> Vector:
    return where(equal(x, 0.0), 0.5, where(x > 0.0, 1.0, where(x < 0.0, 0.0, x)))


def _rounding(name: str) -> VectorFunction:
    return lambda x: x.code.call(name, x)


ARITHMETIC: dict[str, VectorFunction] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "quotient_slope": lambda x, y: x / y / y,
    "mod": _mod,
    "eq": lambda a, b: as_number(equal(a, b)),
    "ne": lambda a, b: as_number(not_equal(a, b)),
    "lt": lambda a, b: as_number(a < b),
    "le": lambda a, b: as_number(a <= b),
    "gt": lambda a, b: as_number(a > b),
    "ge": lambda a, b: as_number(a >= b),
    "and": lambda a, b: as_number(as_condition(a) & as_condition(b)),
    "or": lambda a, b: as_number(as_condition(a) | as_condition(b)),
    "not": lambda a: as_number(~as_condition(a)),
    "abs": abs,
    "sign": _sign,
    "floor": _rounding("floor"),
    "ceil": _rounding("ceil"),
    "round": _rounding("roundeven"),
    "where": lambda condition, a, b: where(as_condition(condition), a, b),
    "max": _extremum(maximum),
    "min": _extremum(minimum),
    "clip": lambda x, low, high: minimum(maximum(x, low), high),
    "relu": lambda x: maximum(x, 0.0),
    "heaviside": _heaviside,
    "where_defined": lambda z, slope: where(is_nan(z), z, slope),
}


def _library_function(name: str) -> VectorFunction:
    return lambda *inputs: inputs[0].code.call(name, *inputs)


_platform_pow = _library_function("pow")
_sin, _cos, _tan, _atan, _asinh, _cbrt = map(_library_function, ("sin", "cos", "tan", "atan", "asinh", "cbrt"))


# --- Powers


def _pow(x: Vector, y: Vector) -> Vector:
    """Return x^y; nan for -inf and a fraction, where the platform returns inf or 0."""
    z = _platform_pow(x, y)
    if y.constant is not None and (math.isinf(y.constant) or y.constant % 1 == 0):
        return z
    is_fraction = not_equal(y.code.call("floor", y), y)
    return where(equal(x, -math.inf) & is_fraction, math.nan, z)


def power(x: Vector, y: Vector) -> Vector:
    """Return x^y. Small constant integer exponents become products."""
    exponent = y.constant
    if exponent in _WHOLE_POWERS:
        return _WHOLE_POWERS[exponent](x)
    return _pow(x, y)


def _power_half(x: Vector) -> Vector:
    return sqrt(x) + 0.0  # adding 0 turns -0 into 0, the power of -0


_WHOLE_POWERS: dict[float | None, VectorFunction] = {
    -2.0: lambda x: 1.0 / x / x,
    -1.0: lambda x: 1.0 / x,
    0.5: _power_half,
    1.0: lambda x: x,
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
    0.0: lambda x: x.code.as_vector(1.0),
    4.0: lambda x: (x * x) * (x * x),
}

_INEXACT_POWERS = (-2.0, 3.0, 4.0)  # their products have two roundings


def _careful_slope(x: Vector, y: Vector) -> Vector:
    exponent, error = two_sum(y, -1.0)
    careful = y * _pow(x, exponent)
    correction = careful * error * log(abs(x))
    return where(is_finite(correction), careful + correction, careful)


def _pow_slope_base(x: Vector, y: Vector) -> Vector:
    exponent = y.constant
    if exponent == 1.0:
        return where(is_nan(x), x, 1.0)
    if exponent and (exponent - 1.0) + 1.0 == exponent:
        return y * power(x, y - 1.0)  # y - 1 is exact
    z = power(x, y)
    edge = equal(x, 0.0) | (abs(z) < 1e-290) | is_infinite(z)
    slope = x.code.with_cold_path(edge, y * (z / x), _careful_slope, x, y)
    return where(equal(y, 0.0), 0.0, slope)


def _pow_slope_exponent(x: Vector, y: Vector) -> Vector:
    slope = where(equal(x, 0.0) & equal(y, 0.0), math.nan, power(x, y) * log(x))
    return where(equal(x, 0.0) & (y > 0.0), 0.0, slope)


def _times_log(a: Vector, x: Vector) -> Vector:
    return where(equal(a, 0.0) & ~is_nan(x), 0.0, a * log(x))


def _root(x: Vector, n: Vector) -> Vector:
    size = abs(x)
    z = _pow(size, 1.0 / n)
    product, error = two_product(1.0 / n, n)
    step = z * ((1.0 - product - error) / n * log(size))
    z = where(is_finite(step), z + step, z)
    z = where(equal(n, 2.0), sqrt(size), where(equal(n, 3.0), _cbrt(size), z))
    z = where(equal(n, 0.0) | is_nan(x) | is_nan(n), math.nan, z)
    half = abs(n) / 2.0
    is_odd = equal(half - half.code.call("floor", half), 0.5)
    return where(x >= 0.0, z, where(is_odd, -z, math.nan))


def _log_base(x: Vector, base: Vector) -> Vector:
    exact = {2.0: "log2", 10.0: "log10"}
    if base.constant is not None:
        return x.code.call(exact[base.constant], x) if base.constant in exact else log(x) / log(base)
    value = log(x) / log(base)
    for number, name in exact.items():
        value = where(equal(base, number), x.code.call(name, x), value)
    return value


# --- Hyperbolic functions, from exponentials that do not overflow

# (tanh(x)/x - 1)/x² as a polynomial in x² for |x| < 1/2, highest power first: a Chebyshev fit, accurate to 2^-56.
_TANH_COEFFICIENTS = (
    5.946956589763009e-05, -0.00022107222975850652, 0.0005849653729021945, -0.001454959384380447,
    0.0035920334653723896, -0.008863229270067843, 0.021869488297234514, -0.05396825396361009,
    0.13333333333329825, -0.3333333333333333,
)  # fmt: skip


def _tanh(x: Vector) -> Vector:
    size = abs(x)
    far = exp(-2.0 * size)
    z = x * x
    near = size + size * (z * polynomial(_TANH_COEFFICIENTS, z))
    return copysign(where(size < 0.5, near, (1.0 - far) / (1.0 + far)), x)


def _sech_square(x: Vector) -> Vector:
    far = exp(-2.0 * abs(x))
    return 4.0 * far / ((1.0 + far) * (1.0 + far))


def _sech(x: Vector) -> Vector:
    far = exp(-abs(x))
    return 2.0 * far / (1.0 + far * far)


def _csch(x: Vector) -> Vector:
    size = abs(x)
    return copysign(2.0 * exp(-size) / -expm1(-2.0 * size), x)


def _csch_square(x: Vector) -> Vector:
    size = abs(x)
    difference = expm1(-2.0 * size)
    return 4.0 * exp(-2.0 * size) / difference / difference


# --- Inverse functions


def _asec(x: Vector) -> Vector:
    size = abs(x)
    angle = _atan(sqrt(size - 1.0) * sqrt(size + 1.0))
    return where(x < 0.0, math.pi - angle, angle)


def _acsc(x: Vector) -> Vector:
    size = abs(x)
    return copysign(_atan(1.0 / (sqrt(size - 1.0) * sqrt(size + 1.0))), x)


def _acoth(x: Vector) -> Vector:
    size = abs(x)
    return copysign(where(size >= 1.0, log1p(2.0 / (size - 1.0)) / 2.0, math.nan), x)


def _asech(x: Vector) -> Vector:
    z = where(x < 1e-9, math.log(2) - log(x), _asinh(sqrt((1.0 - x) * (1.0 + x)) / x))
    return where(x >= 0.0, z, math.nan)


def _acsch(x: Vector) -> Vector:
    size = abs(x)
    return copysign(where(size < 1e-9, math.log(2) - log(size), _asinh(1.0 / size)), x)


# --- Slopes


def _far_atan_slope(x: Vector) -> Vector:
    return 1.0 / x / x


def _atan_slope(x: Vector) -> Vector:
    z = 1.0 / (1.0 + x * x)
    return x.code.with_cold_path(equal(z, 0.0), z, _far_atan_slope, x)


def _direction(x: Vector, length: Vector) -> Vector:
    return where(equal(length, 0.0), 0.0, x / length)


def _sinc(x: Vector) -> Vector:
    return where(equal(x, 0.0), 1.0, where(is_infinite(x), 0.0, _sin(x) / x))


# (-1)^k · 2k/(2k + 1)!, the power series of sinc's slope divided by x, highest power first.
_SINC_SLOPE_COEFFICIENTS = [(-1.0) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(10, 0, -1)]


def _sinc_derivative(n: Vector, x: Vector) -> Vector | None:
    """Return the first derivative of sinc, which gradients need; None for other orders."""
    if n.constant != 1.0:
        return None
    near = x * polynomial(_SINC_SLOPE_COEFFICIENTS, x * x)
    far = (_cos(x) - _sin(x) / x) / x
    return where(abs(x) < 1.0, near, where(is_infinite(x), 0.0, far))


# Operations that are functions of the mathematical library, with the same names.
_LIBRARY_NAMES = (
    "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "hypot", "atan2", "erf", "erfc",
)  # fmt: skip

ELEMENTARY: dict[str, Callable[..., Vector | None]] = {
    **{
        name: _library_function(name)
        for name in _LIBRARY_NAMES
    },
    "pow": power, "pow_slope_base": _pow_slope_base, "pow_slope_exponent": _pow_slope_exponent, "times_log": _times_log,
    "square": lambda x: x * x, "root": _root, "log_base": _log_base,
    "sec": lambda x: 1.0 / _cos(x), "csc": lambda x: 1.0 / _sin(x), "cot": lambda x: 1.0 / _tan(x),
    "asec": _asec, "acsc": _acsc, "acot": lambda x: _atan(1.0 / x),
    "asin_slope": lambda x: 1.0 / sqrt((1.0 - x) * (1.0 + x)), "atanh_slope": lambda x: 1.0 / (1.0 - x) / (1.0 + x),
    "atan_slope": _atan_slope,
    "tanh": _tanh, "sech": _sech, "csch": _csch, "coth": lambda x: 1.0 / _tanh(x),
    "sech_square": _sech_square, "csch_square": _csch_square,
    "asech": _asech, "acsch": _acsch, "acoth": _acoth,
    "direction": _direction, "sinc": _sinc, "sinc_derivative": _sinc_derivative,
}  # fmt: skip


def _exp_minus_square(x: Vector) -> Vector:
    square, error = two_product(x, x)
    z = exp(-square)
    return z - z * error


def _exp_square(x: Vector) -> Vector:
    square, error = two_product(x, x)
    z = exp(square)
    return where(is_infinite(z), z, z + z * error)


def _exp_minus_half_square(x: Vector) -> Vector:
    square, error = two_product(x, x)
    z = exp(-square / 2.0)
    return z - z * (error / 2.0)


def _standardize(x: Vector, mean: Operand, deviation: Operand) -> tuple[Vector, Operand]:
    """Return (x - mean)/deviation, rounded, and its rounding error; nan unless the deviation is positive."""
    code = x.code
    middle, scale = code.as_vector(mean), code.as_vector(deviation)
    if middle.constant == 0.0 and scale.constant == 1.0:
        return x, 0.0
    scale = where(scale > 0.0, scale, math.nan)
    difference, difference_error = two_sum(x, -middle)
    u = difference / scale
    product, error = two_product(u, scale)
    rest = ((difference - product) - error + difference_error) / scale
    return u, where(is_finite(rest), rest, 0.0)


def _normal_pdf(x: Vector, mean: Operand = 0.0, deviation: Operand = 1.0) -> Vector:
    u, error = _standardize(x, mean, deviation)
    z = _exp_minus_half_square(u)
    return where(equal(z, 0.0), z, z - z * u * error) / (deviation * x.code.as_vector(SQRT_TWO_PI))


def _normal_cdf(x: Vector, mean: Operand = 0.0, deviation: Operand = 1.0) -> Vector:
    u, rounding_error = _standardize(x, mean, deviation)
    t, product_error = two_product(-u, SQRT_HALF)
    error = product_error - (u * SQRT_HALF_ERROR + x.code.as_vector(rounding_error) * SQRT_HALF)
    tail = x.code.call("erfc", t)
    corrected = tail - 2 / math.sqrt(math.pi) * _exp_minus_square(t) * error
    return where(equal(tail, 0.0) | is_infinite(t), tail, corrected) / 2.0


def _sigmoid(x: Vector) -> Vector:
    z = exp(-abs(x))
    return where(x < 0.0, z, 1.0) / (1.0 + z)


def _sigmoid_slope(x: Vector) -> Vector:
    z = exp(-abs(x))
    return z / ((1.0 + z) * (1.0 + z))


def _times_exp(factor: Vector, x: Vector) -> Vector:
    """Return factor·exp(x) for x < 0, also where the exponential alone underflows."""
    half = exp(x / 2.0)
    return factor * half * half


def _one_plus_x_times_exp(x: Vector) -> Vector:
    return _times_exp(1.0 + x, x)


def _x_times_exp(x: Vector) -> Vector:
    return _times_exp(x, x)


def _silu(x: Vector) -> Vector:
    return x.code.with_cold_path(x < FAR_LEFT, x * _sigmoid(x), _x_times_exp, x)


def _silu_slope(x: Vector) -> Vector:
    z = exp(-abs(x))
    is_left = x < 0.0
    slope = (1.0 + z + where(is_left, x, z * x)) / (1.0 + z) * (where(is_left, z, 1.0) / (1.0 + z))
    return x.code.with_cold_path(x < FAR_LEFT, slope, _one_plus_x_times_exp, x)


def _mish(x: Vector) -> Vector:
    w = exp(minimum(x, MISH_LINEAR_FROM))
    n = w * (w + 2.0)
    return x.code.with_cold_path(x < FAR_LEFT, x * (n / (n + 2.0)), _x_times_exp, x)


def _mish_slope(x: Vector) -> Vector:
    near = minimum(x, MISH_LINEAR_FROM)
    w = exp(near)
    n = w * (w + 2.0)
    slope = w / (n + 2.0) * (w + 2.0 + 2.0 * near / (1.0 + w * w / (2.0 + 2.0 * w)))
    return x.code.with_cold_path(x < FAR_LEFT, slope, _one_plus_x_times_exp, x)


def _logit(x: Vector) -> Vector:
    middle = 2.0 * x.code.call("atanh", 2.0 * x - 1.0)
    return where((x > 0.25) & (x < 0.75), middle, log(x / (1.0 - x)))


def _softsign(x: Vector) -> Vector:
    return where(is_infinite(x), x.code.call("copysign", 1.0, x), x / (1.0 + abs(x)))


def _binary_softmax(x: Vector, y: Vector) -> Vector:
    difference, error = two_sum(x, -y)
    z = _sigmoid(difference)
    return z + z * _sigmoid(-difference) * error


def _logaddexp(x: Vector, y: Vector) -> Vector:
    high = maximum(x, y)
    difference, error = two_sum(minimum(x, y), -high)
    z = exp(difference)
    return where(equal(x, y), x + math.log(2), high + log1p(z + z * error))


def _softplus(x: Vector) -> Vector:
    return maximum(x, 0.0) + log1p(exp(-abs(x)))


ACTIVATIONS: dict[str, Callable[..., Vector]] = {
    "exp_minus_square": _exp_minus_square,
    "exp_minus_half_square": _exp_minus_half_square,
    "exp_square": _exp_square,
    "normal_pdf": _normal_pdf,
    "normal_cdf": _normal_cdf,
    "sigmoid": _sigmoid,
    "sigmoid_slope": _sigmoid_slope,
    "logit": _logit,
    "softplus": _softplus,
    "logsigmoid": lambda x: -_softplus(-x),
    "logaddexp": _logaddexp,
    "binary_softmax": _binary_softmax,
    "silu": _silu,
    "silu_slope": _silu_slope,
    "mish": _mish,
    "mish_slope": _mish_slope,
    "softsign": _softsign,
}


_VECTOR_FUNCTIONS: dict[str, Callable[..., Vector | None]] = {**ARITHMETIC, **ELEMENTARY, **ACTIVATIONS}


def apply_rounded(op: Op, *inputs: Vector) -> Vector | None:
    """Return the result of an elementwise operation whose arithmetic is rounded as in NumPy, as `apply_to_vectors`."""
    if op.name == "pow" and inputs[1].constant in _INEXACT_POWERS:
        return _pow(*inputs)
    with inputs[0].code.separate_rounding():
        return apply_to_vectors(op, *inputs)


def apply_to_vectors(op: Op, *inputs: Vector) -> Vector | None:
    """Return the result of an elementwise operation on vectors; None if the operation has no vector form."""
    function = _VECTOR_FUNCTIONS.get(op.name)
    if function is not None:
        return function(*inputs)
    if op.name in ARRAYS.table:
        return None
    definition = _expansion(op, len(inputs))
    if definition is None:
        return None
    order, placeholders = definition
    values: dict[Node, Vector] = dict(zip(placeholders, inputs, strict=True))
    for node in order:
        if node in values:
            continue
        if node.op is None:
            values[node] = inputs[0].code.as_vector(parse_constant(node.text))
            continue
        value = apply_to_vectors(node.op, *[values[child] for child in node.inputs])
        if value is None:
            return None
        values[node] = value
    return values[order[-1]]


@functools.cache
def _expansion(op: Op, count: int) -> tuple[list[Node], tuple[Node, ...]] | None:
    """Return the nodes of a composite's expansion in topological order, and its placeholders; otherwise None."""
    expansion = op.expand(count)
    return None if expansion is None else (topological_order([expansion]), op.placeholders(count))

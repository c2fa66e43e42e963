"""The special functions for numbers of any precision, as the language defines them.

mpmath's own names often mean another branch, normalisation or order of arguments; and at a pole it raises where the
language has an infinity. Called through the guards of `precise`, which make nan of what is complex or raises.
"""

from __future__ import annotations

from autodiff_cli.numbers.digits import INF, MP, NAN, ONE, ZERO, Function, Number, divide, is_whole

_FAR = 256  # bits before the point from which on mpmath's erfc gives up; it is 0 there to any precision one asks for
_MOST_ORDER = 10_000  # of a derivative


def square(x: Number) -> Number:
    """x², without rounding."""
    return MP.fmul(x, x, exact=True)


def erfc(x: Number) -> Number:
    """1 - erf(x)."""
    return MP.erfc(x if not MP.isnormal(x) or MP.mag(x) < _FAR else MP.sign(x) * INF)


def lambertw_rise(x: Number) -> Number:
    """1 + W(x), which near -1/e is half as long as x is far from it: with twice the digits."""
    with MP.workprec(2 * MP.prec + max(0, -_magnitude(x))):
        return 1 + MP.lambertw(x)


def _magnitude(x: Number) -> int:
    return int(MP.mag(x)) if MP.isnormal(x) else 0


# --- the gamma family


def _is_pole(x: Number) -> bool:
    return x == -INF or (x <= 0 and is_whole(x))


def gamma(x: Number) -> Number:
    """The gamma function; infinite at 0, nan at its other poles."""
    return INF if x == 0 else NAN if _is_pole(x) else MP.gamma(x)


def lgamma(x: Number) -> Number:
    """log(abs(gamma(x))); infinite at the poles."""
    return INF if _is_pole(x) or MP.isinf(x) else MP.re(MP.loggamma(x))


def digamma(x: Number) -> Number:
    """The slope of lgamma; infinite at 0, nan at its other poles."""
    return -INF if x == 0 else NAN if _is_pole(x) else MP.psi(0, x)


def polygamma(n: Number, x: Number) -> Number:
    """The n-th derivative of digamma; where n is odd, infinite at the poles."""
    if not (is_whole(n) and 0 <= n <= _MOST_ORDER):
        return NAN
    if n == 0 or x == -INF:
        return digamma(x)
    if _is_pole(x):
        return INF if n % 2 == 1 else -INF if x == 0 else NAN
    if x == INF:
        return ZERO
    # By reflection: mpmath goes down from pole to pole, which takes for ever far left.
    if x < 0:
        return (-1) ** int(n) * (MP.psi(int(n), 1 - x) + _cotangents(int(n), -x))
    return MP.psi(int(n), x)


def _cotangents(order: int, x: Number) -> Number:
    """The n-th derivative of π·cot(πx), from that of a polynomial in the cotangent: c' = -π(1 + c²)."""
    coefficients = [ZERO, ONE]
    for _ in range(order):
        slopes = [k * c for k, c in enumerate(coefficients)][1:]
        coefficients = [ZERO] * (len(slopes) + 2)
        for k, slope in enumerate(slopes):
            coefficients[k] -= slope
            coefficients[k + 2] -= slope
    cotangent = divide(MP.cospi(x), MP.sinpi(x))
    return MP.pi ** (order + 1) * MP.polyval(coefficients[::-1], cotangent)


def polygamma_gap(n: Number, a: Number, b: Number) -> Number:
    """polygamma(n, a) - polygamma(n, a + b), with the bits that cancel where b is small beside a."""
    with MP.extraprec(max(0, 2 * (_magnitude(a) - _magnitude(b)))):
        return polygamma(n, a) - polygamma(n, a + b)


def digamma_gap(a: Number, b: Number) -> Number:
    """digamma(a) - digamma(a + b)."""
    return polygamma_gap(ZERO, a, b)


def beta(a: Number, b: Number) -> Number:
    """gamma(a)·gamma(b)/gamma(a + b)."""
    low, high = min(a, b), max(a, b)
    if low == -INF or (_is_pole(low) and _is_pole(high)):
        return NAN
    if _is_pole(low) or _is_pole(high):
        return gamma(low if _is_pole(low) else high)
    if _is_pole(a + b):
        return ZERO
    if high == INF:
        return ZERO if low > 0 else INF * gamma(low)
    return MP.beta(a, b)


def beta_slope(a: Number, b: Number) -> Number:
    """The slope of beta(a, b) towards a."""
    if _is_pole(a + b) and not _is_pole(a) and not _is_pole(b):
        # beta is 0 there, digamma infinite; 1/gamma rises through its zero at -m by (-1)^m·m!
        order = -(a + b)
        return MP.gamma(a) * MP.gamma(b) * MP.gamma(order + 1) * (-1 if order % 2 else 1)
    return beta(a, b) * digamma_gap(a, b)


def gamma_density(a: Number, x: Number) -> Number:
    """x^(a-1)·exp(-x)/gamma(a)."""
    if x < 0:
        return NAN
    scale = MP.rgamma(a)
    if scale == 0 or x == INF:
        return ZERO
    if x == 0:
        return MP.sign(scale) * INF if a < 1 else ONE if a == 1 else ZERO
    with MP.extraprec(2 * max(0, _magnitude(a), _magnitude(x))):  # for the large powers, which cancel
        return MP.power(x, a - 1) * MP.exp(-x) * MP.rgamma(a)


def gammainc(a: Number, x: Number) -> Number:
    """The regularised lower incomplete gamma function."""
    if a < 0 or x < 0 or (a == x and a in (ZERO, INF)):
        return NAN
    return ZERO if x == 0 or a == INF else ONE if a == 0 or x == INF else MP.gammainc(a, 0, x, regularized=True)


def gammaincc(a: Number, x: Number) -> Number:
    """The regularised upper incomplete gamma function."""
    if a < 0 or x < 0 or (a == x and a in (ZERO, INF)):
        return NAN
    return ONE if x == 0 or a == INF else ZERO if a == 0 or x == INF else MP.gammainc(a, x, INF, regularized=True)


# --- sin(x)/x, sinh(x)/x and their derivatives


def sinc_derivative(n: Number, x: Number) -> Number:
    """The n-th derivative of sin(x)/x."""
    if MP.isinf(x):
        return ZERO if n >= 0 and is_whole(n) else NAN
    turns = MP.sin(x), MP.cos(x)  # with their negatives, all derivatives of the sine
    return _quotient_derivative(n, x, -1, lambda k: turns[k % 2] * (-1) ** (k % 4 // 2))


def sinhc_derivative(n: Number, x: Number) -> Number:
    """The n-th derivative of sinh(x)/x."""
    if MP.isinf(x):
        return (-INF if x < 0 and n % 2 == 1 else INF) if n >= 0 and is_whole(n) else NAN
    turns = MP.sinh(x), MP.cosh(x)
    return _quotient_derivative(n, x, 1, lambda k: turns[k % 2])


def _quotient_derivative(n: Number, x: Number, sign: int, derivative: Function) -> Number:
    """The n-th derivative s_n of f(x)/x, where f'' = sign·f: of sin or sinh.

    Far from 0 by x·s_n + n·s_(n-1) = f's n-th derivative; near 0, where that cancels, by the power series
    Σ sign^k x^(2k-n) / ((2k+1)·(2k-n)!), whose terms grow to e^|x| before they shrink.
    """
    if not (is_whole(n) and 0 <= n <= _MOST_ORDER):
        return NAN
    order = int(n)
    if abs(x) < 2 * (1 + order):
        with MP.extraprec(2 * int(abs(x))):
            return _series(order, x, sign)
    value = derivative(0) / x
    for k in range(1, order + 1):
        value = (derivative(k) - k * value) / x
    return value


def _series(order: int, x: Number, sign: int) -> Number:
    k = (order + 1) // 2
    rest = 2 * k - order
    term = sign**k * x**rest
    total, before = ZERO, NAN
    while total != before:
        before = total
        total += term / (2 * k + 1)
        term *= sign * x * x / ((rest + 1) * (rest + 2))
        k, rest = k + 1, rest + 2
    return total


# fmt: off
SPECIAL: dict[str, Function] = {
    "erf": MP.erf, "erfc": erfc, "erfi": MP.erfi, "erfinv": MP.erfinv,
    "bell": lambda x: MP.exp(-square(x)), "half_bell": lambda x: MP.exp(-square(x) / 2),
    "swell": lambda x: MP.exp(square(x)),
    "lambertw": MP.lambertw, "lambertw_rise": lambertw_rise,
    "gamma": gamma, "lgamma": lgamma, "digamma": digamma, "polygamma": polygamma,
    "polygamma_gap": polygamma_gap, "digamma_gap": digamma_gap,
    "beta": beta, "beta_slope": beta_slope, "gamma_density": gamma_density,
    "gammainc": gammainc, "gammaincc": gammaincc,
    "sinc": lambda x: sinc_derivative(ZERO, x), "sinc_derivative": sinc_derivative,
    "sinhc": lambda x: sinhc_derivative(ZERO, x), "sinhc_derivative": sinhc_derivative,
    "coshc": lambda x: x if MP.isinf(x) else divide(MP.cosh(x), x),
    "growth": lambda x: INF if x == INF else divide(MP.exp(x), x),
    "chirp_sine": lambda x: MP.sinpi(square(x) / 2), "chirp_cosine": lambda x: MP.cospi(square(x) / 2),
    "Ei": MP.ei, "Si": MP.si, "Ci": MP.ci, "Shi": MP.shi, "Chi": MP.chi,
    "fresnels": MP.fresnels, "fresnelc": MP.fresnelc,
}
# fmt: on

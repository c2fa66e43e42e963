"""Special functions for floats: error functions, derivatives of sinc, Lambert's W, Bessel functions and integrals, by
IEEE 754.

The integrals (exponential, sine, cosine, Fresnel) use their power series near 0 and their asymptotic series for large
arguments. In between they use a continued fraction, or the midpoint rule for an integrand that decays so fast that the
rule is accurate to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from math import copysign, inf, nan, pi

from autodiff_cli.numbers.float_functions import (
    cos,
    cosh,
    divide,
    exp,
    exp_minus_square,
    exp_square,
    is_derivative_order,
    is_odd,
    power,
    product_error,
    ratio_series,
    sin,
    sinc,
    sinh,
)
from autodiff_cli.numbers.gamma_functions import cos_pi, gamma, sin_pi

# --- The imaginary error function ---


def erfi(x: float) -> float:
    """2/√π times the integral of exp(t²) from 0 to x: by its power series, or by the asymptotic series of Dawson's
    function.

    The power series is corrected to first order for the rounding error of the square.
    """
    if math.isinf(x):
        return x
    if abs(x) > 7:
        return exp_square(x) / x / math.sqrt(pi) * ratio_series(lambda k: (2 * k - 1) / (2 * x * x))
    total = ratio_series(lambda k: x * x * (2 * k - 1) / (k * (2 * k + 1)))
    if abs(x) > 1:
        total += product_error(x, x) * (math.exp(x * x) - total) / (2 * x * x)
    return 2 / math.sqrt(pi) * x * total


# --- exp(x)/x, sinc, sinhc and their derivatives ---


def exp_over_x(x: float) -> float:
    """exp(x)/x; for large x as exp(x/2)/x·exp(x/2), because exp(x) overflows before the quotient does."""
    if x < 700:
        return divide(exp(x), x)
    half = exp(x / 2)
    return half / x * half if x < inf else x


def cosh_over_x(x: float) -> float:
    """cosh(x)/x."""
    return divide(cosh(x), x) if abs(x) < 700 else exp_over_x(abs(x)) / 2 * copysign(1.0, x)


def _sine_derivative(n: float, x: float) -> float:
    """sin(x + nπ/2), the n-th derivative of the sine."""
    quarter_turns = n % 4
    if quarter_turns % 2 == 0:
        return sin(x) if quarter_turns == 0 else -sin(x)
    return math.cos(x) if quarter_turns == 1 else -math.cos(x)


# (-1)^k·2k/(2k + 1)! for k from 10 to 2: the coefficients of the power series of sinc_slope(x)/x, highest power first.
SINC_SLOPE_SERIES = [(-1.0) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(10, 1, -1)]


def sinc_slope(x: float) -> float:
    """The derivative of sin(x)/x; by its power series between -1 and 1."""
    if not abs(x) < 1:
        return 0.0 if math.isinf(x) else (cos(x) - sin(x) / x) / x
    total = 0.0
    square = x * x
    for coefficient in SINC_SLOPE_SERIES:
        total = (total + coefficient) * square
    return x * (total - 1 / 3) + 0.0  # 0 and not -0 at 0


def sinc_derivative(n: float, x: float) -> float:
    """The n-th derivative of sin(x)/x for an integer n from 0.

    It uses the recurrence x·s_n + n·s_(n-1) = sin(x + nπ/2), which follows from differentiating x·sinc(x) = sin(x) n
    times. The forward recurrence damps errors by k/x in each step. Near 0 the backward recurrence is used, which damps
    errors by x/k. It starts at an order so high that its starting value 0 has no effect on the result.
    """
    if n == 1:
        return sinc_slope(x)
    if not is_derivative_order(n) or x != x:
        return nan
    if math.isinf(x):
        return 0.0
    if abs(x) > n + 1:
        value = math.sin(x) / x
        k = 1.0
        while k <= n:
            value = (_sine_derivative(k, x) - k * value) / x
            k += 1
        return value
    k = n + 2
    left = abs(x) / (n + 1)
    while left > 1e-19:
        left *= abs(x) / k
        k += 1
    value = 0.0
    while k > n:
        value = (_sine_derivative(k, x) - x * value) / k
        k -= 1
    return value


def sinhc(x: float) -> float:
    """sinh(x)/x, and 1 at 0."""
    if x == 0:
        return 1.0
    return sinh(x) / x if abs(x) < 700 else exp_over_x(abs(x)) / 2


def sinhc_derivative(n: float, x: float) -> float:
    """The n-th derivative of sinh(x)/x for an integer n from 0.

    For large x it uses the recurrence x·s_n + n·s_(n-1) = sinh(x) or cosh(x). Near 0 it uses the power series
    Σ x^(2k-n)/((2k+1)·(2k-n)!), from the first k with 2k >= n, whose terms all have the same sign.
    """
    if not is_derivative_order(n) or x != x:
        return nan
    if math.isinf(x):
        return -inf if x < 0 and is_odd(n) else inf
    if abs(x) > 3 * (1 + n):
        return _sinhc_forward_recurrence(n, x)
    degree = n % 2
    power = x if degree == 1 else 1.0
    total = 0.0
    previous = nan
    while total != previous:
        previous = total
        total += power / (n + degree + 1)
        power *= x * x / ((degree + 1) * (degree + 2))
        degree += 2
    return total


def _sinhc_forward_recurrence(n: float, x: float) -> float:
    even = sinhc(x)
    odd = cosh_over_x(x)
    if math.isinf(even):
        return odd if is_odd(n) else even
    value = even
    k = 1.0
    while k <= n:
        value = (odd if is_odd(k) else even) - k * value / x
        k += 1
    return value


# --- Lambert's W ---

# 1/e as a rounded number, and its rounding error: the branch point is -1/e.
INVERSE_E, INVERSE_E_ERROR = 0.36787944117144233, -1.2428753672788363e-17


def lambertw(x: float) -> float:
    """The principal branch of the inverse of w·exp(w), for x >= -1/e.

    Near the branch point it uses the power series of 1 + W, and around 0 Halley's method for w·exp(w) - x. Above 3 it
    uses Newton's method for w + log(w) - log(x), because exp(w) would overflow or lose digits.
    """
    if x == 0 or x == inf:
        return x
    if not x >= -INVERSE_E:
        return nan
    if x < -0.25:
        return lambertw_plus_1(x) - 1
    if x > 3:
        return _lambertw_large(x)
    w = x / (1 + x) if x < 1 else math.log1p(x) * 0.75
    for _ in range(6):
        excess = w - x * math.exp(-w)
        w -= excess / (1 + w - (w + 2) * excess / (2 * w + 2))
    return w


def _lambertw_large(x: float) -> float:
    log_x = math.log(x)
    w = 1.0
    for _ in range(6):
        w -= w / (1 + w) * (w + math.log(w) - log_x)
    return w


def lambertw_plus_1(x: float) -> float:
    """1 + lambertw(x), accurate near the branch point, where it is about √(2(1 + e·x)) and its derivative infinite."""
    if not x >= -INVERSE_E:
        return nan
    if x >= -0.25:
        return 1 + lambertw(x)
    p = math.sqrt(2 * math.e * max(x + INVERSE_E + INVERSE_E_ERROR, 0.0))
    total = 0.0
    for coefficient in branch_series():
        total = (total + coefficient) * p
    return total


def lambertw_slope(x: float) -> float:
    """The derivative of W, 1/(exp(W)·(1 + W)); for x > 1 as 1/(exp(W) + x), which depends less on the error of W."""
    w = lambertw(x)
    return 1 / (math.exp(w) + x) if x > 1 else divide(1.0, exp(w) * lambertw_plus_1(x))


@cache
def branch_series() -> list[float]:
    """The coefficients of 1 + W in powers of p = √(2(1 + e·x)), highest power first.

    The recurrence is from Corless et al. (1996), "On the Lambert W function", equations 4.23 and 4.24.
    """
    mu, alpha = [Fraction(-1), Fraction(1)], [Fraction(2), Fraction(-1)]
    for k in range(2, 60):
        alpha.append(Fraction(sum(mu[j] * mu[k + 1 - j] for j in range(2, k))))
        mu.append((k - 1) * (mu[k - 2] / 2 + alpha[k - 2] / 4) / (k + 1) - alpha[k] / 2 - mu[k - 1] / (k + 1))
    return [float(coefficient) for coefficient in mu[:0:-1]]


EULER = 0.5772156649015329  # γ


# --- Exponential, sine and cosine integrals ---


def exponential_integral(x: float) -> float:
    """Ei(x), the principal value of the integral of exp(t)/t from -∞ to x.

    Below -1 it uses the continued fraction of E1, up to 50 the power series γ + log|x| + Σ x^k/(k·k!), and above 50 the
    asymptotic series exp(x)/x·Σ k!/x^k.
    """
    if x > 50:
        return exp_over_x(x) * ratio_series(lambda k: k / x)
    if x == 0:
        return -inf
    if x < -1:
        return -math.exp(x) * _exponential_fraction(-x)
    return x * ratio_series(lambda k: x * k / ((k + 1) * (k + 1))) + (math.log(abs(x)) + EULER)


def _exponential_fraction(t: float) -> float:
    """The continued fraction 1/(t + 1 - 1/(t + 3 - 4/(t + 5 - …))) for t >= 1, evaluated backward."""
    k = math.floor(20 + 100 / t)
    tail = t + 2 * k + 1
    while k > 0:
        tail = t + 2 * k - 1 - k * k / tail
        k -= 1
    return 1 / tail


def _sine_series(x: float, square: float) -> float:
    """x·Σ square^k/((2k+1)·(2k+1)!) from k = 0: Si if square is -x², Shi if it is x²."""
    return x * ratio_series(lambda k: square * (2 * k - 1) / (2 * k * (2 * k + 1) * (2 * k + 1)))


def _cosine_series(x: float, square: float) -> float:
    """γ + log(x) + Σ square^k/(2k·(2k)!) from k = 1: Ci if square is -x², Chi if it is x²."""
    total = ratio_series(lambda k: square * k / ((2 * k + 1) * (2 * k + 2) * (k + 1)))
    return EULER + math.log(x) + square / 4 * total


def _auxiliary_sum(x: float, f_factor: float, g_factor: float) -> float:
    """The oscillating part of Si and Ci for x > 2: f·f_factor + g·g_factor, with the auxiliary functions f and g.

    g - i·f is exp(ix)·E1(ix), computed by its complex continued fraction, evaluated backward. Above 60, f and g are
    computed by their asymptotic series.
    """
    if x > 60:
        f = ratio_series(lambda k: -2 * k * (2 * k - 1) / x / x) / x
        g = ratio_series(lambda k: -2 * k * (2 * k + 1) / x / x) / x / x
        return f * f_factor + g * g_factor
    real = 0.0
    imaginary = 0.0
    k = math.floor(20 + 200 / x)
    while k > 0:
        # 1/(ix + 2k - 1 - k²·tail)
        a = 2 * k - 1 - k * k * real
        b = x - k * k * imaginary
        real = a / (a * a + b * b)
        imaginary = -b / (a * a + b * b)
        k -= 1
    return real * g_factor - imaginary * f_factor


def sine_integral(x: float) -> float:
    """Si(x), the integral of sin(t)/t from 0 to x."""
    size = abs(x)
    if size <= 2:
        return _sine_series(x, -x * x)
    if size < inf:
        return copysign(pi / 2 - _auxiliary_sum(size, math.cos(size), math.sin(size)), x)
    return copysign(pi / 2, x) if x == x else x


def cosine_integral(x: float) -> float:
    """Ci(x), minus the integral of cos(t)/t from x to ∞; complex below 0, so nan."""
    if not x > 0:
        return -inf if x == 0 else nan
    if x <= 2:
        return _cosine_series(x, -x * x)
    return _auxiliary_sum(x, math.sin(x), -math.cos(x)) if x < inf else 0.0


def hyperbolic_sine_integral(x: float) -> float:
    """Shi(x), the integral of sinh(t)/t from 0 to x; for |x| > 20 as Ei(|x|)/2 with the sign of x."""
    return copysign(exponential_integral(abs(x)) / 2, x) if abs(x) > 20 else _sine_series(x, x * x)


def hyperbolic_cosine_integral(x: float) -> float:
    """Chi(x) = γ + log(x) + the integral of (cosh(t) - 1)/t from 0 to x; complex below 0, so nan."""
    if not x > 0:
        return -inf if x == 0 else nan
    return exponential_integral(x) / 2 if x > 20 else _cosine_series(x, x * x)


# --- Fresnel integrals ---


def _wave_from_zero(x: float, first: float) -> float:
    """sin(π(x² - first)/2), measured from its nearest zero, so that it keeps its digits next to zeros."""
    if not abs(x) < 2.0**53:
        return math.sin(pi / 2 * (0.0 - first)) if math.isfinite(x) else nan  # every float this large is even
    turn = x * x % 4
    error = product_error(x, x)
    zero = first + 2 * math.floor((turn + error - first) / 2 + 0.5)
    wave = math.sin(pi / 2 * (turn - zero + error))
    return wave if (zero - first) % 4 == 0 else -wave


def chirp_sine(x: float) -> float:
    """sin(πx²/2)."""
    return _wave_from_zero(x, 0.0)


def chirp_cosine(x: float) -> float:
    """cos(πx²/2)."""
    return -_wave_from_zero(x, 1.0)


def fresnel_sine(x: float) -> float:
    """S(x), the integral of sin(πt²/2) from 0 to x."""
    return _fresnel(x, 1.0)


def fresnel_cosine(x: float) -> float:
    """C(x), the integral of cos(πt²/2) from 0 to x."""
    return _fresnel(x, 0.0)


def _fresnel(x: float, first: float) -> float:
    """C (first = 0) or S (first = 1)."""
    size = abs(x)
    if size < 1.2:
        return (x * x * x * (pi / 6) if first == 1 else x) * _fresnel_series(x, first)
    if not size < inf:
        return copysign(0.5, x) if x == x else x
    side = 2 * first - 1
    cosine = chirp_cosine(x)
    sine = chirp_sine(x)
    return copysign(0.5 - _fresnel_oscillation(size, cosine + side * sine, side * cosine - sine), x)


def _fresnel_series(x: float, first: float) -> float:
    """The power series of C (first = 0) or S (first = 1), divided by its leading term: in powers of (πx²/2)²."""
    w = pi / 2 * x * x
    return ratio_series(
        lambda k: -w * w * (4 * k + 2 * first - 3) / ((2 * k + first) * (2 * k + first - 1) * (4 * k + 2 * first + 1))
    )


def _fresnel_oscillation(x: float, real: float, imaginary: float) -> float:
    """Half of real·Re(w) + imaginary·Im(w) for the Faddeeva function w at (1 + i)·x·√π/2, in which C + i·S is
    (1 + i)/2·(1 - exp(iπx²/2)·w).
    """
    place = math.sqrt(pi) / 2 * x
    return _faddeeva(place, place, real, imaginary, 0.0) / 2


# --- The Faddeeva function ---

FADDEEVA_STEP = math.sqrt(pi / 12)


def wofz_real(x: float, y: float) -> float:
    """The real part of w(x + iy) = exp(-z²)·erfc(-iz) for y >= 0."""
    return _faddeeva(abs(x), y, 1.0, 0.0, 0.0)


def wofz_imag(x: float, y: float) -> float:
    """The imaginary part of w(x + iy)."""
    return copysign(_faddeeva(abs(x), y, 0.0, 1.0, 0.0), x)


def wofz_slope_real(x: float, y: float) -> float:
    """The real part of the derivative of w."""
    return copysign(_faddeeva(abs(x), y, 1.0, 0.0, 1.0), -x)


def wofz_slope_imag(x: float, y: float) -> float:
    """The imaginary part of the derivative of w."""
    return _faddeeva(abs(x), y, 0.0, 1.0, 1.0)


def _faddeeva(x: float, y: float, real: float, imaginary: float, order: float) -> float:
    """real·Re(w) + imaginary·Im(w) for x >= 0, by the midpoint or the trapezoidal rule for i/π·∫ exp(-t²)/(z - t) dt,
    with the residue of the rule: Al Azah & Chandler-Wilde 2021, "Computation of the complex error function using
    modified trapezoidal rules". If the order is 1, the derivative of w takes the place of w.

    The two parts of each term are written without cancellation.
    """
    if not (x >= 0 and y >= 0):
        return nan
    r = max(x, y)
    if r > 1e8:
        u = x / r
        v = y / r
        s = (u * u + v * v) * r
        if order == 0:
            return 0.0 if math.isinf(r) else (real * v + imaginary * u) / s / math.sqrt(pi)
        return 0.0 if math.isinf(r) else -(2 * real * u * v + imaginary * (u - v) * (u + v)) / s / s / math.sqrt(pi)
    shift = _faddeeva_shift(x, y)
    b = 2 * x * y
    total = 0.0
    for k in range(15):
        t = (k + shift) * FADDEEVA_STEP
        q = (x - t) * (x + t) - y * y
        p = (x - y) * (x + y) + t * t
        size = q * q + b * b
        weight = math.exp(-t * t) / size
        if t == 0:
            weight /= 2
        if order == 0:
            term = real * y * (t * t + x * x + y * y) + imaginary * x * ((x - t) * (x + t) + y * y)
        else:
            term = -(real * b * (b * b + q * (2 * p - q)) + imaginary * (p * (q - b) * (q + b) + 2 * q * b * b)) / size
        total += weight * term
    return 2 * FADDEEVA_STEP / pi * total + _faddeeva_residue(x, y, shift, real, imaginary, order)


def _faddeeva_shift(x: float, y: float) -> float:
    """The place of the first node of the rule, in steps: 0 or 1/2, so that no node is close to z."""
    phase = x / FADDEEVA_STEP % 1
    return 0.0 if y < x and 0.25 <= phase <= 0.75 else 0.5


def _faddeeva_residue(x: float, y: float, shift: float, real: float, imaginary: float, order: float) -> float:
    """Two parts of 2·exp(-z²)/(1 ± exp(-2πiz/h)), or of its derivative if the order is 1."""
    if y >= pi / FADDEEVA_STEP or x > 27.5:
        return 0.0
    sign = 4 * shift - 1
    turn = 2 * pi / FADDEEVA_STEP
    growth = sign * math.exp(turn * y)
    a = 1 + growth * math.cos(turn * x)
    b = -growth * math.sin(turn * x)
    size = a * a + b * b
    c = a / size
    d = -b / size
    height = 2 * exp_minus_square(x) * math.exp(y * y)
    u = height * (math.cos(2 * x * y) * c + math.sin(2 * x * y) * d)
    v = height * (math.cos(2 * x * y) * d - math.sin(2 * x * y) * c)
    if order == 0:
        return real * u + imaginary * v
    f = turn * d - 2 * x
    g = turn * (1 - c) - 2 * y
    return real * (u * f - v * g) + imaginary * (u * g + v * f)


# --- Bessel functions, for orders up to 1000 ---

BESSEL_SERIES_UP_TO = 1e-8  # where the first term of the power series of J and I is accurate to rounding
MAX_BESSEL_ORDER = 1000.0  # the recurrence takes one step per order


def _bessel_parity(order: float) -> float:
    """The sign of an integer order, (-1)^order; nan for other orders."""
    return nan if abs(order) % 1 != 0 else (-1.0 if is_odd(order) else 1.0)


def besselj(order: float, x: float) -> float:
    """J: for orders below 0 by reflection, above x by the Wronskian, and else by `_bessel_upward`."""
    if not abs(order) <= MAX_BESSEL_ORDER or not x >= 0:
        return _bessel_parity(order) * besselj(order, -x) if x < 0 and abs(order) <= MAX_BESSEL_ORDER else nan
    if order < 0:
        if abs(order) % 1 == 0:
            return _bessel_parity(order) * besselj(-order, x) + 0.0  # 0 and not -0 at 0
        return cos_pi(order) * besselj(-order, x) + sin_pi(order) * bessely(-order, x)
    if x < BESSEL_SERIES_UP_TO:
        return power(x / 2, order) / gamma(order + 1)
    if x == inf:
        return 0.0
    if x > order + 1.8:
        return _bessel_upward(order, x, 0.0)
    above = _bessel_upward(order + 1, x, 1.0)
    if above == -inf:
        return 0.0
    return 2 / (pi * x) / (_bessel_ratio(order, x, -1.0) * _bessel_upward(order, x, 1.0) - above)


def bessely(order: float, x: float) -> float:
    """Y: for orders below 0 by reflection, and else by `_bessel_upward`."""
    if not abs(order) <= MAX_BESSEL_ORDER or not x >= 0:
        return nan
    side = cos_pi(min(order, 0.0))  # the sign of -Y next to 0, where it is 0 for halves of odd integers
    if x == inf or (x == 0 and side == 0):
        return 0.0
    if x == 0:
        return -inf if side > 0 else inf
    if order < 0:
        return cos_pi(order) * bessely(-order, x) - sin_pi(order) * besselj(-order, x)
    return _bessel_upward(order, x, 1.0)


def besseli(order: float, x: float) -> float:
    """I: by the Wronskian of I and K, without overflow before the result."""
    if not abs(order) <= MAX_BESSEL_ORDER or not x >= 0:
        return _bessel_parity(order) * besseli(order, -x) if x < 0 and abs(order) <= MAX_BESSEL_ORDER else nan
    if order < 0:
        if abs(order) % 1 == 0:
            return besseli(-order, x)
        return besseli(-order, x) - 2 / pi * sin_pi(order) * besselk(-order, x)
    if x < BESSEL_SERIES_UP_TO:
        return power(x / 2, order) / gamma(order + 1)
    if x > 800 + 2 * order:
        return inf
    shift = min(x, 700.0) if order < x else 0.0
    scaled = _scaled_bessel_k(order + 1, x, shift) + _bessel_ratio(order, x, 1.0) * _scaled_bessel_k(order, x, shift)
    return divide(math.exp(shift / 2), x * scaled) * math.exp(shift / 2)


def besselk(order: float, x: float) -> float:
    """K, which is infinite at 0."""
    if not abs(order) <= MAX_BESSEL_ORDER or not x >= 0:
        return nan
    if x == 0 or x > 800 + 2 * abs(order):
        return inf if x == 0 else 0.0
    return _scaled_bessel_k(abs(order), x, 0.0)


def _scaled_bessel_k(order: float, x: float, shift: float) -> float:
    """K·exp(shift): the integral of exp(-x·cosh(t))·cosh(order·t) from 0 to ∞, by the trapezoidal rule, which converges
    exponentially (DLMF 10.32.9).
    """
    peak = math.asinh(order / max(x, 1e-300))
    level = order * peak - 2 * x * sinh(peak / 2) * sinh(peak / 2)
    step = min(0.12, 0.5 / math.sqrt(order + x))
    total = 0.0
    t = 0.0
    value = 1.0
    while t <= peak or value > 1e-18 * total:
        height = sinh(t / 2)
        value = exp(order * t - level - 2 * x * height * height) * (1 + math.exp(-2 * order * t)) / 2
        total += value if t > 0 else value / 2
        t += step
    return total * step * exp(level - x + shift)


def _bessel_ratio(order: float, x: float, sign: float) -> float:
    """J of the next order over J, or I over I if the sign is 1: by their continued fraction (DLMF 10.10.1, 10.33.1)."""
    k = math.floor(40 + 1.5 * x)
    ratio = 0.0
    while k > 0:
        ratio = 1 / (2 * (order + k) / x + sign * ratio)
        k -= 1
    return ratio


def _bessel_upward(order: float, x: float, second: float) -> float:
    """J, or Y if `second` is 1, by the recurrence from orders below 2."""
    k = order % 1
    value = _bessel_path(k, x, second)
    if order < 1:
        return value
    above = _bessel_path(k + 1, x, second)
    k += 1
    while k < order and abs(above) < inf:
        below = value
        value = above
        above = 2 * k / x * above - below
        k += 1
    return above


def _bessel_path(order: float, x: float, second: float) -> float:
    """J, or Y if `second` is 1, for orders from 0 to 2.

    The sum of J and i·Y is an integral of exp(x·sinh(w) - order·w) (DLMF 10.9.18), here along the path on which it
    decays fastest for order 0: exp(ix - x·sinh(t)·tanh(t)). The trapezoidal rule converges exponentially.
    """
    step = min(0.1, 0.4 / math.sqrt(max(x, 1.0)))
    even = 0.0
    odd = 0.0
    largest = 0.0
    t = 0.0
    weight = step / (2 * pi)
    up = 1.0
    while up > 1e-18 * largest:
        slant = 1 / cosh(t)
        decay = x * sinh(t) if t < 700 else exp(t + math.log(x)) / 2
        up = weight * exp(order * t - decay * math.tanh(t))
        down = up * math.exp(-2 * order * t)
        a = 2 * order * math.atan(math.exp(-t))
        b = order * pi - a
        even += up * (slant * math.cos(a) - math.sin(a)) + down * (slant * math.cos(b) - math.sin(b))
        odd += up * (slant * math.sin(a) + math.cos(a)) + down * (slant * math.sin(b) + math.cos(b))
        largest = max(largest, up)
        weight = step / pi
        t += step
    if largest == inf:
        return -inf
    return math.sin(x) * even - math.cos(x) * odd if second == 1 else math.cos(x) * even + math.sin(x) * odd


OPERATIONS: dict[str, Callable[..., float]] = {
    **{function.__name__: function for function in (
        erfi, exp_over_x, cosh_over_x, sinc, sinc_derivative, sinhc, sinhc_derivative,
        lambertw, lambertw_plus_1, lambertw_slope, chirp_sine, chirp_cosine,
        wofz_real, wofz_imag, wofz_slope_real, wofz_slope_imag, besselj, bessely, besseli, besselk,
    )},
    "Ei": exponential_integral, "Si": sine_integral, "Ci": cosine_integral,
    "Shi": hyperbolic_sine_integral, "Chi": hyperbolic_cosine_integral,
    "fresnels": fresnel_sine, "fresnelc": fresnel_cosine,
}  # fmt: skip

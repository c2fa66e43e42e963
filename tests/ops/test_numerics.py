"""Where numbers are hard: far out, beside 0, at the ends of domains, at ties and jumps, beside branches not taken.

Value, gradient and second derivative as users get them, of single numbers and of arrays, against mpmath.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from math import inf, nan

import numpy as np
import pytest
from mpmath import mp, mpf

import autodiff_cli as ad
from autodiff_cli.graph.node import all_ops, variable
from autodiff_cli.language.printer import to_text
from tests.each import each
from tests.ops.table import cdf, phi, sig, sinc_n, softplus

Formula = Callable[..., mpf]
LARGEST = mpf(1.7976931348623157e308)


def close(found: float, exact: mpf, tolerance: float) -> bool:
    """Whether a float is a number up to a relative error, or is what the number becomes where floats end."""
    if mp.isnan(exact) or math.isnan(found):
        return bool(mp.isnan(exact)) and math.isnan(found)
    if abs(exact) > LARGEST or math.isinf(found):
        return abs(exact) > LARGEST and found == math.copysign(inf, exact)
    return bool(abs(mpf(found) - exact) <= tolerance * abs(exact) + mpf(5e-324))


def orders(text: str, x: float) -> list[tuple[float, float, float]]:
    """Value, slope and second derivative of a formula in x: of a number, of an array, and from the printed slope."""
    f = ad.parse(text)
    first = f.derivative("x")
    second = first.derivative("x")
    xs = np.array([x, x])
    arrays = [np.broadcast_to(g(x=xs) if g.variables else g(), 2)[1] for g in (f, first, second)]
    return [
        (f(x=x), f.grad(x=x)["x"], float(f.hessian(x=x)[0, 0])),
        (f(x=x), f.grad(x=xs)["x"][0], f.derivatives("x", 2, x=x)[2]),
        tuple(map(float, arrays)),
    ]


def check(text: str, formulas: Sequence[Formula], points: Sequence[float], tolerances: Sequence[float]) -> None:
    for x in points:
        with mp.workdps(120):
            exact = [mpf(formula(mpf(x))) for formula in formulas]
            for found in orders(text, x):
                for number, wanted, tolerance in zip(found, exact, tolerances, strict=True):
                    assert close(number, wanted, tolerance), (text, x, found, [mp.nstr(w, 17) for w in exact])


def mish_slope(x: mpf) -> mpf:
    return mp.tanh(softplus(x)) + x * mp.sech(softplus(x)) ** 2 * sig(x)


def mish_curvature(x: mpf) -> mpf:
    return mp.sech(softplus(x)) ** 2 * sig(x) * (2 + x * (sig(-x) - 2 * mp.tanh(softplus(x)) * sig(x)))


# Each with its slope and its second derivative.
ACTIVATIONS: dict[str, tuple[Formula, Formula, Formula]] = {
    "sigmoid(x)": (sig, lambda x: sig(x) * sig(-x), lambda x: -sig(x) * sig(-x) * mp.tanh(x / 2)),
    "softplus(x)": (softplus, sig, lambda x: sig(x) * sig(-x)),
    "logsigmoid(x)": (lambda x: -softplus(-x), lambda x: sig(-x), lambda x: -sig(x) * sig(-x)),
    "tanh(x)": (mp.tanh, lambda x: mp.sech(x) ** 2, lambda x: -2 * mp.tanh(x) * mp.sech(x) ** 2),
    "elu(x)": (
        lambda x: x if x >= 0 else mp.expm1(x),
        lambda x: 1 if x >= 0 else mp.exp(x),
        lambda x: 0 if x >= 0 else mp.exp(x),
    ),
    "gelu(x)": (lambda x: x * cdf(x), lambda x: cdf(x) + x * phi(x), lambda x: phi(x) * (2 - x * x)),
    "silu(x)": (
        lambda x: x * sig(x),
        lambda x: sig(x) * (1 + x * sig(-x)),
        lambda x: sig(x) * sig(-x) * (2 - x * mp.tanh(x / 2)),
    ),
    "mish(x)": (lambda x: x * mp.tanh(softplus(x)), mish_slope, mish_curvature),
}


@each("text", ACTIVATIONS)
def test_activations_far_out_and_near_0(text: str) -> None:
    points = [0.0, *(sign * size for size in (1e-300, 1e-9, 0.3, 3.0, 20.0, 36.9, 300.0, 800.0) for sign in (1, -1))]
    check(text, ACTIVATIONS[text], points, (9e-16, 9e-16, 2e-14))


def root(x: mpf) -> mpf:
    return mp.sign(x) * mp.cbrt(abs(x))


ELEMENTARY: dict[str, tuple[tuple[Formula, Formula, Formula], tuple[float, ...]]] = {
    "log1p(x)": (
        (lambda x: mp.log1p(x), lambda x: 1 / (1 + x), lambda x: -1 / (1 + x) ** 2),
        (1e-300, -1e-300, 1e-20, -1e-9, 1e-5, -0.9999999, 1e300),
    ),
    "expm1(x)": ((mp.expm1, mp.exp, mp.exp), (1e-300, -1e-300, 1e-20, -1e-9, 1e-5, -40.0, 700.0, 800.0, -800.0)),
    "sinc(x)": (
        (lambda x: sinc_n(0, x), lambda x: sinc_n(1, x), lambda x: sinc_n(2, x)),
        (0.0, 1e-300, -1e-9, 1e-5, 0.01, -0.99, 1.01, 10.0, 1e6),
    ),
    "acosh(x)": (
        (mp.acosh, lambda x: 1 / mp.sqrt(x * x - 1), lambda x: -x / mp.sqrt(x * x - 1) ** 3),
        (1 + 2.0**-52, 1.0000001, 2.0, 1e100),
    ),
    "asin(x)": (
        (mp.asin, lambda x: 1 / mp.sqrt(1 - x * x), lambda x: x / mp.sqrt(1 - x * x) ** 3),
        (1e-300, 1e-9, -0.5, 1 - 2.0**-53, -0.9999999),
    ),
    "atanh(x)": (
        (mp.atanh, lambda x: 1 / (1 - x * x), lambda x: 2 * x / (1 - x * x) ** 2),
        (1e-300, 1e-9, -0.5, 1 - 2.0**-53, -1 + 2.0**-53, 0.9999999),
    ),
    "logit(x)": (
        (lambda x: mp.log(x / (1 - x)), lambda x: 1 / (x * (1 - x)), lambda x: (2 * x - 1) / (x * (1 - x)) ** 2),
        (1e-300, 1e-100, 1e-9, 0.2, 0.49, 0.8, 1 - 1e-9, 1 - 2.0**-53),
    ),
    "coth(x)": (
        (mp.coth, lambda x: -(mp.csch(x) ** 2), lambda x: 2 * mp.coth(x) * mp.csch(x) ** 2),
        (1e-100, -1e-9, 0.5, -3.0, 300.0, 800.0),
    ),
    "sech(x)": (
        (mp.sech, lambda x: -mp.sech(x) * mp.tanh(x), lambda x: mp.sech(x) * (1 - 2 * mp.sech(x) ** 2)),
        (0.0, 1e-9, -0.5, 3.0, 300.0, 800.0),
    ),
    "atan(x)": (
        (mp.atan, lambda x: 1 / (1 + x * x), lambda x: -2 * x / (1 + x * x) ** 2),
        (1e-300, 1.0, -1e9, 1e77, 1e100, 1e200),
    ),
    "log10(x)": (
        (mp.log10, lambda x: 1 / (x * mp.log(10)), lambda x: -1 / (x * x * mp.log(10))),
        (1e-150, 1.0000001, 1e150, 1.7976931348623157e308),
    ),
    "cbrt(x)": (
        (root, lambda x: 1 / (3 * root(x) ** 2), lambda x: -2 / (9 * x * root(x) ** 2)),
        (1e-150, -2.0, 1e-9, 1e150),
    ),
}  # fmt: skip


@each("text", ELEMENTARY)
def test_elementary_functions_at_the_ends_of_their_domains(text: str) -> None:
    formulas, points = ELEMENTARY[text]
    check(text, formulas, points, (9e-16, 9e-16, 2e-14))


@each(
    ("text", "x", "value", "slope"),
    [
        ("acosh(x)", 1.0, 0.0, inf),
        ("atanh(x)", 1.0, inf, inf),
        ("atanh(x)", -1.0, -inf, inf),
        ("logit(x)", 0.0, -inf, inf),
        ("logit(x)", 1.0, inf, inf),
        ("acosh(x)", 0.5, nan, nan),
        ("atanh(x)", 1.5, nan, nan),
        ("logit(x)", -0.5, nan, nan),
        ("log1p(x)", -1.0, -inf, inf),
        ("asin(x)", 1.0, math.pi / 2, inf),
        ("sqrt(x)", 0.0, 0.0, inf),
        ("softplus(x)", inf, inf, 1.0),
        ("sigmoid(x)", -inf, 0.0, 0.0),
        ("tanh(x)", inf, 1.0, 0.0),
        ("elu(x)", -inf, -1.0, 0.0),
        ("sinc(x)", inf, 0.0, 0.0),
        ("weibull_pdf(x, 2, 1.5)", inf, 0.0, 0.0),
    ],
)
def test_ends(text: str, x: float, value: float, slope: float) -> None:
    for found in orders(text, x)[::2]:
        assert found[:2] == pytest.approx((value, slope), rel=1e-15, nan_ok=True)


# Operations with a finite value but a nan slope at an infinity: they oscillate there, or are undefined beside it.
UNDEFINED_AT_INFINITY = {"atan2", "pow", "beta", "Ci", "fresnels", "fresnelc", "gammainc", "gammaincc"}


def test_slopes_are_0_where_a_function_levels_off_at_infinity() -> None:
    for op in all_ops():
        if op.is_structural or op.is_helper or op.name in UNDEFINED_AT_INFINITY:
            continue
        for count in range(op.min_inputs, (op.max_inputs or 2) + 1):
            for end in (math.inf, -math.inf):
                f = ad.parse(to_text(op(*map(variable, "abcd"[:count]))))
                value, slopes = f.value_and_grad(dict(zip("abcd"[:count], (end, 1.75, 2.0, 2.25), strict=False)))
                assert not math.isfinite(value) or not any(map(math.isnan, slopes.values())), (op.name, end)


SPECIAL: dict[str, tuple[Formula, tuple[float, ...]]] = {
    "gamma(x)": (mp.gamma, (1e-9, 0.5, 3.0, 50.5, 170.5, -0.5, -2.5, -7.25, -100.5)),
    "lgamma(x)": (lambda x: mp.re(mp.loggamma(x)), (1e-9, 0.5, 1.1, 2.9, 50.5, 1e6, -0.5, -2.4, -7.25, -100.5)),
    "digamma(x)": (lambda x: mp.psi(0, x), (1e-9, 0.5, 1.1, 2.9, 50.5, 1e6, -0.7, -2.4, -7.25, -100.3)),
    "beta(x, 2.5)": (lambda x: mp.beta(x, mpf(2.5)), (1e-9, 0.5, 1.1, 50.5, 1e6, -0.7, -2.4, -7.25, -100.3)),
    "beta(x, -1.25)": (lambda x: mp.beta(x, mpf(-1.25)), (0.5, 1.1, 50.5, -0.7, -2.4)),
    "erf(x)": (mp.erf, (-1e-9, 0.5, -2.0, 6.5, 20.0)),
    "erfc(x)": (mp.erfc, (-1e-9, 0.5, -2.0, 6.5, 20.0, 26.0)),
    "erfinv(x)": (mp.erfinv, (1e-9, -0.5, 0.9999, -1 + 1e-12)),
}


@each("text", SPECIAL)
def test_special_functions_in_tails_and_at_negative_numbers(text: str) -> None:
    """The second derivative of beta multiplies two differences of digammas, which may be near 0 themselves."""
    function, points = SPECIAL[text]
    for x in points:
        with mp.workdps(260):
            step = abs(mpf(x)) / 10**20
            low, mid, high = (function(x + k * step) for k in (-1, 0, 1))
            exact = (mid, (high - low) / (2 * step), (high - 2 * mid + low) / step**2)
            for found in orders(text, x):
                for number, wanted in zip(found, exact, strict=True):
                    assert close(number, mp.re(wanted), 1e-12), (text, x, found, [mp.nstr(w, 17) for w in exact])


def gradients(text: str, **point: float) -> list[dict[str, float]]:
    """The gradient at a point of numbers, and of arrays."""
    f = ad.parse(text)
    batch = f.grad({name: np.array([x, x]) for name, x in point.items()})
    return [f.grad(point), {name: float(np.broadcast_to(slope, 2)[1]) for name, slope in batch.items()}]


SIGNS = tuple(itertools.product((1, -1), repeat=2))


@each("size", [1.0, 1e300, 1e-300, 1e-160, 1e160])
@each(("a", "b"), [(a * 3, b * 4) for a, b in SIGNS] + [(0, 2), (0, -2), (2, 0), (-2, 0), (1e-9, 1)])
def test_hypot_and_atan2_in_every_quadrant(a: float, b: float, size: float) -> None:
    x, y = b * size, a * size
    with mp.workdps(60):
        length = mp.hypot(x, y)
        cos, sin = mpf(x) / length, mpf(y) / length
        lengths, angles = ad.parse("hypot(y, x)"), ad.parse("atan2(y, x)")
        assert close(lengths(x=x, y=y), length, 4e-16)
        assert close(angles(x=x, y=y), mp.atan2(y, x), 4e-16)
        for slopes in gradients("hypot(y, x)", y=y, x=x):
            assert close(slopes["x"], cos, 9e-16)
            assert close(slopes["y"], sin, 9e-16)
        for slopes in gradients("atan2(y, x)", y=y, x=x):
            assert close(slopes["x"], -sin / length, 9e-16)
            assert close(slopes["y"], cos / length, 9e-16)
        if size == 1:
            bending = lengths.hessian(x=x, y=y) * float(length)  # towards y, x
            exact = [[cos**2, -sin * cos], [-sin * cos, sin**2]]
            np.testing.assert_allclose(bending, np.array(exact, float), 1e-14, 1e-15)
            turning = angles.hessian(x=x, y=y) * float(length**2)
            exact = [[-2 * sin * cos, sin**2 - cos**2], [sin**2 - cos**2, 2 * sin * cos]]
            np.testing.assert_allclose(turning, np.array(exact, float), 1e-14, 1e-15)


def test_hypot_and_atan2_at_0() -> None:
    assert gradients("hypot(y, x)", y=0.0, x=0.0) == [{"y": 0.0, "x": 0.0}] * 2
    assert all(math.isnan(slope) for found in gradients("atan2(y, x)", y=0.0, x=0.0) for slope in found.values())
    assert ad.parse("atan2(y, x)")(y=0.0, x=-1.0) == math.pi


@each(("x", "y"), [(3.0, -2.0), (1e3, 1e3 + 1e-9), (-700.0, 1.0), (-30.000000000000004, 1e-15), (800.0, 800.0)])
def test_logaddexp(x: float, y: float) -> None:
    with mp.workdps(120):
        top, gap = max(x, y), mp.exp(-abs(mpf(x) - mpf(y)))
        share = 1 / (1 + mp.exp(mpf(y) - mpf(x)))
        f = ad.parse("logaddexp(x, y)")
        for value in (f(x=x, y=y), f(x=np.array([x]), y=np.array([y]))[0]):
            assert abs(mpf(value) - (top + mp.log1p(gap))) <= 9e-16 * max(abs(mpf(top)), mp.log1p(gap))
        for slopes in gradients("logaddexp(x, y)", x=x, y=y):
            assert close(slopes["x"], share, 9e-16)
            assert close(slopes["y"], 1 - share, 9e-16)
        assert close(f.hessian(x=x, y=y)[0, 1], -share * (1 - share), 2e-14)


@each(
    ("x", "y", "value", "to_x", "to_y"),
    [
        (0.0, 0.0, 1.0, 0.0, nan),
        (0.0, 1.0, 0.0, 1.0, 0.0),
        (0.0, 2.0, 0.0, 0.0, 0.0),
        (0.0, 0.5, 0.0, inf, 0.0),
        (0.0, -1.0, inf, -inf, -inf),
        (3.0, 0.0, 1.0, 0.0, math.log(3)),
        (-3.0, 0.0, 1.0, 0.0, nan),
        (-2.0, 3.0, -8.0, 12.0, nan),
        (-2.0, 2.0, 4.0, -4.0, nan),
        (-2.0, -3.0, -1 / 8, -3 / 16, nan),
        (-2.0, 0.5, nan, nan, nan),
        (2.0, 0.5, math.sqrt(2), math.sqrt(2) / 4, math.sqrt(2) * math.log(2)),
        (1.0, 1e300, 1.0, 1e300, 0.0),
        (inf, 2.0, inf, inf, inf),
        (inf, -1.0, 0.0, -0.0, nan),
        (2.0, inf, inf, inf, inf),
    ],
)
def test_powers_of_every_sign_and_zero(x: float, y: float, value: float, to_x: float, to_y: float) -> None:
    f = ad.parse("x^y")
    for found in (f(x=x, y=y), float(f(x=np.array([x]), y=np.array([y]))[0])):
        assert found == pytest.approx(value, rel=4e-16, nan_ok=True)
    for slopes in gradients("x^y", x=x, y=y):
        assert (slopes["x"], slopes["y"]) == pytest.approx((to_x, to_y), rel=9e-16, nan_ok=True)


@each(
    ("x", "y", "hessian"),
    [
        (-2.0, 3.0, [[-12.0, nan], [nan, nan]]),
        (0.0, 2.0, [[2.0, 0.0], [0.0, 0.0]]),
        (0.0, 3.0, [[0.0, 0.0], [0.0, 0.0]]),
        (1.0, 2.0, [[2.0, 1.0], [1.0, 0.0]]),
        (2.0, 3.0, [[12.0, 4 + 12 * math.log(2)], [4 + 12 * math.log(2), 8 * math.log(2) ** 2]]),
    ],
)
def test_second_derivatives_of_powers(x: float, y: float, hessian: list[list[float]]) -> None:
    np.testing.assert_allclose(ad.parse("x^y").hessian(x=x, y=y), hessian, 1e-14)


@each(
    ("text", "x", "found"),
    [
        ("x^2", -3.0, (9.0, -6.0, 2.0)),
        ("x^3", 0.0, (0.0, 0.0, 0.0)),
        ("x^2", 0.0, (0.0, 0.0, 2.0)),
        ("x^1", 0.0, (0.0, 1.0, 0.0)),
        ("x^0", 0.0, (1.0, 0.0, 0.0)),
        ("x^-1", -2.0, (-0.5, -0.25, -0.25)),
        ("x^0.5", 4.0, (2.0, 0.25, -1 / 32)),
        ("(-2)^x", 3.0, (-8.0, nan, nan)),
        ("0^x", 2.0, (0.0, 0.0, 0.0)),
        ("2^x", 0.0, (1.0, math.log(2), math.log(2) ** 2)),
        ("x^x", 1.0, (1.0, 1.0, 2.0)),
    ],
)
def test_powers_with_fixed_parts(text: str, x: float, found: tuple[float, float, float]) -> None:
    for numbers in orders(text, x):
        assert numbers == pytest.approx(found, rel=1e-15, nan_ok=True)


@each(
    ("text", "point", "slopes"),
    [
        ("max(a, b, c)", (2.0, 2.0, 2.0), (1 / 3, 1 / 3, 1 / 3)),
        ("max(a, b, c)", (2.0, 1.0, 2.0), (0.5, 0.0, 0.5)),
        ("min(a, b, c)", (2.0, 2.0, 3.0), (0.5, 0.5, 0.0)),
        ("max(a, a, b) + 0*c", (1.0, 1.0, 5.0), (2 / 3, 1 / 3, 0.0)),
        ("min(a, b, c)", (-0.0, 0.0, 1.0), (0.5, 0.5, 0.0)),
        ("max(a, b, c)", (inf, inf, 1.0), (0.5, 0.5, 0.0)),
        ("clip(a, b, c)", (1.0, 0.0, 2.0), (1.0, 0.0, 0.0)),
        ("clip(a, b, c)", (-1.0, 0.0, 2.0), (0.0, 1.0, 0.0)),
        ("clip(a, b, c)", (3.0, 0.0, 2.0), (0.0, 0.0, 1.0)),
        ("clip(a, b, c)", (0.0, 0.0, 2.0), (0.0, 0.0, 0.0)),
        ("clip(a, b, c)", (1.0, 2.0, 0.0), (0.0, 0.0, 1.0)),
        ("mod(a, b) + c", (7.5, 2.0, 0.0), (1.0, -3.0, 1.0)),
        ("mod(a, b) + c", (-7.5, 2.0, 0.0), (1.0, 4.0, 1.0)),
        ("mod(a, b) + c", (7.5, -2.0, 0.0), (1.0, 4.0, 1.0)),
        ("mod(a, b) + c", (6.0, 2.0, 0.0), (1.0, -3.0, 1.0)),
        ("a*floor(b) + ceil(c)", (2.0, 2.5, 0.5), (2.0, 0.0, 0.0)),
        ("a*round(b) + sign(c)", (2.0, 2.5, 0.5), (2.0, 0.0, 0.0)),
        ("a*round(b) + heaviside(c)", (2.0, 3.5, 0.0), (4.0, 0.0, 0.0)),
    ],
)
def test_ties_clips_and_jumps(text: str, point: tuple[float, ...], slopes: tuple[float, ...]) -> None:
    for found in gradients(text, **dict(zip("abc", point, strict=True))):
        assert tuple(found.values()) == pytest.approx(slopes, rel=1e-15)


@each(
    ("text", "x", "found"),
    [
        ("where(x > 0, sqrt(x), x^2)", -3.0, (9.0, -6.0, 2.0)),
        ("where(x > 0, log(x), where(x < -1, 1/(x + 2), x^3))", -0.5, (-0.125, 0.75, -3.0)),
        ("where(x > 0, log(x), where(x < -1, sqrt(x + 1), x^3))", -0.5, (-0.125, 0.75, -3.0)),
        ("where(x == 0, 1, sin(x)/x)*x^2", 0.0, (0.0, 0.0, 2.0)),
        ("where(x >= 0, 5*x + x^2, sqrt(x))", 0.0, (0.0, 5.0, 2.0)),
        ("where(x < 1, where(x > 0, 1/x, x^2), log(-1))", 0.0, (0.0, 0.0, 2.0)),
        ("where(x < 800, x^2, exp(exp(x)))", 700.0, (490000.0, 1400.0, 2.0)),
        ("where(x < 1, x^2, nan)", 0.5, (0.25, 1.0, 2.0)),
        ("where(x < 1, x^2, inf*x)", 0.5, (0.25, 1.0, 2.0)),
        ("exp(where(x > 0, log(x), x))", -1.0, (math.exp(-1), math.exp(-1), math.exp(-1))),
        ("max(x^2, sqrt(x - 9) - 100*heaviside(x - 9))", 10.0, (100.0, 20.0, 2.0)),
        ("clip(x, 0, 1)*x + relu(-sqrt(x))", 0.25, (0.0625, 0.5, 2.0)),
    ],
)
def test_unused_branches(text: str, x: float, found: tuple[float, float, float]) -> None:
    for numbers in orders(text, x):
        assert numbers == pytest.approx(found, rel=1e-15)


@each(("x", "mean", "deviation"), [
    (0.1, 0.3, 1.0), (0.1, 2.7, 0.11), (-3.3, 0.1, 0.1), (1e5 + 0.1, 1e5, 0.3), (-30.1, 0.7, 1.0), (-30.1, 0.0, 1.3),
])  # fmt: skip
def test_the_normal_distribution_with_mean_and_deviation(x: float, mean: float, deviation: float) -> None:
    with mp.workdps(60):
        u = (mpf(x) - mpf(mean)) / mpf(deviation)
        density = phi(u) / mpf(deviation)
        point = {"x": x, "m": mean, "s": deviation}
        for name, value, slopes in (
            ("normal_pdf", density, (-u * density, u * density, (u * u - 1) * density)),
            ("normal_cdf", cdf(u), (density * deviation, -density * deviation, -u * density * deviation)),
        ):
            f = ad.parse(f"{name}(x, m, s)")
            assert close(f(point), value, 9e-16)
            assert close(f({name: np.array([number]) for name, number in point.items()})[0], value, 9e-16)
            for found in gradients(f"{name}(x, m, s)", **point):
                for number, slope in zip(found.values(), slopes, strict=True):
                    assert close(number, slope / mpf(deviation), 1.5e-15)


@each("x", [1e22, 1e300, 3.141592653589793, -11.0, 2**53 * math.pi, 5e-324])
def test_waves_of_huge_arguments(x: float) -> None:
    with mp.workdps(400):
        check("sin(x)", (mp.sin, mp.cos, lambda x: -mp.sin(x)), [x], (3e-16, 3e-16, 3e-16))
        check(
            "tan(x)",
            (mp.tan, lambda x: mp.sec(x) ** 2, lambda x: 2 * mp.tan(x) * mp.sec(x) ** 2),
            [x],
            (5e-16, 9e-16, 2e-15),
        )

"""Formulas at points where digits are lost: constants that nearly cancel, ties, zeros, and the ends of the range.

Zeros of functions, of slopes and of differences are found by bisection, down to neighbouring floats.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from autodiff_cli import ExpressionError, parse
from tests.fuzz.grammar import CALLED, WHOLE_FIRST, Case

NAMED = {"pi": math.pi, "e": math.e, "tau": math.tau}
UNARY = [op.spelling for op in CALLED if op.accepts(1)]
BINARY = [op.spelling for op in CALLED if op.accepts(2) and not op.accepts(1) and op.name not in WHOLE_FIRST]
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
JUMPS = ("floor({})", "ceil({})", "round({})", "sign({})", "heaviside({})", "abs({})", "relu({})", "{} % 1")
EXACT_AT_FIRST_SIGHT = (  # each is x, but for its rounding errors
    "x/{k}*{k}", "sqrt(x)^2", "sqrt(x^2)", "exp(log(x))", "log(exp(x))", "(x + {c}) - {c}", "x*{c}/{c}", "1/(1/x)",
    "({c}*x - x)/({c} - 1)", "cbrt(x)^3", "10^log10(x)", "x^{k}^(1/{k})", "(x/{k} + x/{k})*{k}/2", "tan(atan(x))",
    "x + 1 - 1", "x*0.1*10", "(x + x/{k})/(1 + 1/{k})", "hypot(x, 0)", "2*(x/2)",
)  # fmt: skip


def delicate_case(seed: int) -> Case:
    """The case of a seed: always the same.

    Raises:
        ExpressionError: if the language refuses the text.
    """
    chance = Random(seed)
    kinds = (_constants, _comparison, _zero, _zero, _zero, _magnitudes, _short_numbers, _jump, _edge, _broadcast)
    kind = chance.choice(kinds)
    text, point = kind(chance)
    if kind is _broadcast:
        return Case(seed, text, point, True)
    if chance.random() < 0.3:
        text, point = _combined(chance, text, point)
    variables = parse(text).variables
    return Case(seed, text, {name: point[name] for name in variables}, False)


Made = tuple[str, dict[str, Any]]


def _combined(chance: Random, text: str, point: dict[str, float]) -> Made:
    """The formula as a part of another one."""
    form = chance.choice(
        ("({})*y", "y + ({})", "({})/y", "exp({})", "({})^2", "y*({}) - y", "1/({})", "where(y > 0, {}, y)", "sin({})",
         "a = {}; a*y + a", "log(abs({}))", "sqrt(abs({}))", "1e20*({}) + y", "({}) - ({})*y")
    )  # fmt: skip
    return form.replace("{}", text), {"y": _number(chance), **point}


def _number(chance: Random) -> float:
    kind = chance.random()
    if kind < 0.4:
        return round(chance.gauss(0, 3), chance.choice([0, 1, 2, 3])) or 1.0
    if kind < 0.8:
        return chance.gauss(0, 1) * 10 ** chance.uniform(-3, 3)
    return chance.choice((1, -1)) * math.ldexp(1 + chance.random(), chance.randint(-60, 60))


def _literal(x: float) -> str:
    return f"({x!r})" if x < 0 else repr(x)


def _nearby(chance: Random, x: float) -> str:
    """A decimal near a number: fewer of its digits, or others at their end."""
    if chance.random() < 0.5:
        return f"{x:.{chance.randint(3, 20)}g}"
    return repr(x * (1 + chance.choice((1, -1)) * 10 ** chance.uniform(-17, -3)))


def _constant(chance: Random) -> tuple[str, float]:
    kind = chance.random()
    if kind < 0.3:
        return chance.choice([*NAMED.items()])
    if kind < 0.5:
        number = chance.randint(2, 99)
        function = chance.choice(("sqrt", "exp", "log", "sin", "cos", "tanh", "cbrt", "atan", "gamma"))
        text = f"{function}({number / 10})"
        return text, float(parse(text)())
    number = round(chance.uniform(0, 10), chance.randint(1, 17)) or 0.1
    return repr(number), number


def _constants(chance: Random) -> Made:
    """Differences of constants, and of constants and what is computed of them."""
    text, number = _constant(chance)
    other = _nearby(chance, number)
    factor = f"1e{chance.randint(-30, 30)}"
    form = chance.choice(
        ("x*({} - {})", "x + {f}*({} - {})", "({} - {})/x", "x^({} - {} + 1)", "x*{} - x*{}", "{} - {} + x*1e-20",
         "x*({} - {}) + 1e400*x - 1e400", "x*1e-400/{} - {}",
         "({} + x) - ({} + x)", "(x - {}) - (x - {})", "{}*x/{} - x", "where({} == {}, x, 2*x)",
         "x*(log({}) - log({}))")
    )  # fmt: skip
    text = form.replace("{f}", factor).format(text, other)
    return text, {"x": _number(chance)}


def _same_number(chance: Random) -> str:
    form = chance.choice(EXACT_AT_FIRST_SIGHT)
    return form.format(k=chance.choice((3, 7, 10, 49)), c=chance.choice(("0.1", "1e8", "pi", "1e16", "3")))


def _comparison(chance: Random) -> Made:
    """Choices between numbers that are equal but for rounding."""
    x = abs(_number(chance)) if chance.random() < 0.8 else float(chance.randint(1, 500))
    left = f"({_same_number(chance)})"
    right = chance.choice(("x", f"({_same_number(chance)})", "y"))
    condition = f"{left} {chance.choice(COMPARISONS)} {right}"
    form = chance.choice(
        ("where({}, x, 2*x)", "where({}, x^2, -x)", "where(not ({}), x, 3*x)", "where(({}) and x > 0, x, 1/x)",
         "x*({})", "max(a, b)", "min(a, 2*b - a)", "abs(a - b) + x", "clip(x, a, b + 1)", "relu(a - b)*1e10 + x")
    )  # fmt: skip
    if "a" in form.replace("and", "").replace("abs", "").replace("max", "").replace("clip", "").replace("relu", ""):
        return f"a = {left}; b = {right}; {form}", {"x": x, "y": _neighbour(chance, x)}
    return form.format(condition), {"x": x, "y": _neighbour(chance, x)}


def _jump(chance: Random) -> Made:
    """Steps and kinks of numbers that are whole, or 0, but for rounding."""
    whole = chance.randint(1, 2000)
    k = chance.choice((3, 7, 10, 49, 0.1, 0.3, 1e-3))
    quotients = (f"x/{k}*{k}", f"x/{k}/y*{k}", f"(x/{k} + y/{k})*{k}", f"{k}*(x/{k} - y/{k})", f"x*{k}/{k}/y")
    inner = chance.choice(
        (f"x*{k}", f"x/{k}", f"x*{k} - {whole}", f"x/{k} - {whole}", f"{_same_number(chance)} - y", *quotients)
    )
    x = chance.choice((whole / k, whole * k, float(whole), _neighbour(chance, whole / k)))
    return chance.choice(JUMPS).format(f"({inner})") + chance.choice((" + x", "*x", "")), {"x": x, "y": float(whole)}


def _neighbour(chance: Random, x: float) -> float:
    for _ in range(chance.randint(0, 2)):
        x = math.nextafter(x, chance.choice((-math.inf, math.inf)))
    return x


def _magnitudes(chance: Random) -> Made:
    """Products, quotients and powers of numbers of all sizes that floats have."""
    form = chance.choice(
        ("x*y", "x/y", "x*y/z", "x^2/y", "sqrt(x*y)", "hypot(x, y)", "x*y*z", "x/(y*z)", "log(x) - log(y)", "x + y - z",
         "1/(1/x + 1/y)", "exp(log(x))", "x^3", "cbrt(x)", "(x*y)^0.5/z", "atan2(x, y)", "asinh(x)", "log1p(x)",
         "x*exp(-y)", "expm1(x)", "(x - y)*(x + y)", "x^2 - y^2", "x^-2", "sqrt(x^2 + y^2)", "tanh(x)/x", "sin(x)/x",
         "x % y", "logaddexp(x, y)", "norm([x, y])", "softplus(x)", "acosh(x)", "x^y", "erfc(x)", "gamma(x)")
    )  # fmt: skip
    return form, {name: _any_float(chance) for name in "xyz"}


EDGES = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, math.inf, -math.inf, math.nan, -1 / math.e, 171.6243, 709.78, -745.13)


def _edge(chance: Random) -> Made:
    """One function at ends of domains, poles, infinities, and the floats next to them."""
    x, y = (_neighbour(chance, chance.choice((*EDGES, float(chance.randint(-9, 9))))) for _ in "xy")
    form = chance.choice(
        [*(f"{name}(x)" for name in UNARY), *(f"{name}(x, y)" for name in BINARY), "x^y", "x % y", "x/y"]
    )
    return form, {"x": x, "y": y}


def _broadcast(chance: Random) -> Made:
    """A number combined with all elements of an array, then reduced to a number."""
    shape = chance.choice(((3,), (2, 3)))
    inner = chance.choice(("V", "2*V", f"{chance.choice(UNARY)}(V)", "V^2", "V - x", f"V*{chance.choice(UNARY)}(x)"))
    form = chance.choice((*(f"{name}({{}}, {{}})" for name in BINARY), "{}*{}", "{}/{}", "{} - {}", "{}^{}", "{} % {}"))
    pair = ("x", f"({inner})") if chance.random() < 0.5 else (f"({inner})", "x")
    reduction = chance.choice(("sum", "mean", "norm", "prod", "max", "min", "logsumexp"))
    inside = form.format(*pair)
    if chance.random() < 0.3:
        inside = chance.choice(("x*({})", "({}) + x", "where(({}) > x, x, V)", "max(x, {})")).format(inside)
    text = f"V: {'x'.join(map(str, shape))}; {reduction}({inside})"
    elements = [round(chance.gauss(0, 2), 2) for _ in range(math.prod(shape))]
    return text, {"V": np.array(elements).reshape(shape), "x": round(chance.gauss(0, 2), 2) or 1.0}


def _any_float(chance: Random) -> float:
    exponent = chance.choice((chance.randint(-1074, 1023), chance.randint(-1074, -1000), chance.randint(900, 1023)))
    x = math.ldexp(chance.choice((1.0, 1 + chance.random())), exponent)
    return chance.choice((x, x, -x))


def _short_numbers(chance: Random) -> Made:
    """Sums, products, powers and quotients of short numbers, next to the size at which they are rounded."""

    def short() -> float:
        return chance.randrange(1, 2 ** chance.randint(5, 53)) / chance.choice((1, 8, 64, 1024))

    form = chance.choice(
        ("x*y - z", "x^2 - z", "x*y + x - z", "x^3 - z", "sqrt(x) - z", "x/y - z", "(x + y) - z", "x*y*z - z*x*y",
         "x^2 - y^2 - z", "hypot(x, y) - z", "x*y - z*(x + 1)", "root(x, 3) - z", "x^1.5 - z", "x^y - z")
    )  # fmt: skip
    point = {"x": short(), "y": chance.choice((short(), float(chance.randint(1, 9))))}
    try:
        z = float(parse(form.replace("z", "0") if "z" in form else form)(**point))
    except (ExpressionError, TypeError):
        z = short()
    return form, {**point, "z": _neighbour(chance, z) if math.isfinite(z) else 1.0}


def _zero(chance: Random) -> Made:
    """A function at a zero of its own, of its slope, or of its difference from a number or another function."""
    inner = chance.choice(("x", "x", "x", "2*x", "x^2", "x - 0.1", "x/3", "-x", "exp(x)", "1/x"))
    function = f"{chance.choice(UNARY)}({inner})"
    if chance.random() < 0.2:
        function = f"{chance.choice(BINARY)}({inner}, {chance.choice(('2', '0.3', 'x', '-1.5', '3', '7.3e6'))})"
    kind = chance.random()
    text = function
    if kind < 0.2:
        text = f"{function} - {_literal(_number(chance))}"
    elif kind < 0.4:
        text = f"{function} - {chance.choice(UNARY)}(x)"
    elif kind < 0.5:
        text = f"{function}*{chance.choice(UNARY)}(x)"
    slope_of = chance.random() < 0.4
    formula = parse(text)
    if formula.variables != ("x",):
        return text, {"x": _number(chance)}

    def at(x: float) -> float:
        return float(formula.grad(x=x)["x"]) if slope_of else float(formula(x=x))

    return text, {"x": _bisected(chance, at)}


def _bisected(chance: Random, at: Callable[[float], float]) -> float:
    """A float next to which a function changes its sign, or one at random."""
    spread = chance.choice((1.0, 5.0, 30.0, 1000.0))
    values = sorted(chance.uniform(-spread, spread) for _ in range(12))
    signs = [at(x) for x in values]
    places = [
        k for k in range(11) if signs[k] * signs[k + 1] < 0 and math.isfinite(signs[k]) and math.isfinite(signs[k + 1])
    ]
    if not places:
        return chance.choice((_number(chance), 0.0, 1.0))
    k = chance.choice(places)
    low = bisect(at, values[k], values[k + 1])
    high = math.nextafter(low, math.inf)
    return chance.choice((low, high, low * (1 + chance.choice((1, -1)) * 10 ** chance.uniform(-16, -3))))


def bisect(at: Callable[[float], float], low: float, high: float) -> float:
    """The last float, from the lower of two, before a function changes its sign."""
    is_positive = at(low) > 0
    while math.nextafter(low, high) < high:
        middle = _between(low, high)
        if (at(middle) > 0) == is_positive:
            low = middle
        else:
            high = middle
    return low


def _between(low: float, high: float) -> float:
    """The float in the middle of two, counted in floats on the way to 0."""
    if low < 0 < high:
        return 0.0 if low != -5e-324 else high / 2
    ordered = [struct.unpack("<q", struct.pack("<d", abs(x)))[0] for x in (low, high)]
    middle: float = struct.unpack("<d", struct.pack("<q", sum(ordered) // 2))[0]
    return math.copysign(middle, low if low else high)

"""Operators, comparisons and choices on vectors. Conditions are 1 and 0, as everywhere; between comparisons and choices
they stay masks, since `truth` of a `number` is the condition itself."""

from __future__ import annotations

from collections.abc import Callable

from autodiff_cli.backends.llvm.functions.basic import (
    copysign,
    equal,
    is_nan,
    larger,
    not_equal,
    number,
    smaller,
    truth,
    where,
)
from autodiff_cli.backends.llvm.functions.vectors import Vector

Function = Callable[..., Vector]


def _extreme(pick: Function) -> Function:
    def extreme(first: Vector, *rest: Vector) -> Vector:
        for x in rest:
            first = pick(first, x)
        return first

    return extreme


def _mod(a: Vector, b: Vector) -> Vector:
    """The remainder with the sign of b: C's has the sign of a."""
    rest = a.code.make("frem", a.kind, a, b)
    moved = where(~equal(rest, 0.0) & not_equal(number(rest < 0.0), number(b < 0.0)), rest + b, rest)
    return where(equal(rest, 0.0), copysign(0.0, b), moved)


def _sign(x: Vector) -> Vector:
    return where(equal(x, 0.0) | is_nan(x), x, copysign(1.0, x))


def _heaviside(x: Vector) -> Vector:
    return where(equal(x, 0.0), 0.5, where(x > 0.0, 1.0, where(x < 0.0, 0.0, x)))


def _rounded(how: str) -> Function:
    return lambda x: x.code.function(how, x)


ARITHMETIC: dict[str, Function] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "quotient_slope": lambda x, y: x / y / y,
    "mod": _mod,
    "eq": lambda a, b: number(equal(a, b)),
    "ne": lambda a, b: number(not_equal(a, b)),
    "lt": lambda a, b: number(a < b),
    "le": lambda a, b: number(a <= b),
    "gt": lambda a, b: number(a > b),
    "ge": lambda a, b: number(a >= b),
    "and": lambda a, b: number(truth(a) & truth(b)),
    "or": lambda a, b: number(truth(a) | truth(b)),
    "not": lambda a: number(~truth(a)),
    "abs": abs,
    "sign": _sign,
    "floor": _rounded("floor"),
    "ceil": _rounded("ceil"),
    "round": _rounded("roundeven"),
    "where": lambda condition, a, b: where(truth(condition), a, b),
    "max": _extreme(larger),
    "min": _extreme(smaller),
    "clip": lambda x, low, high: smaller(larger(x, low), high),
    "relu": lambda x: larger(x, 0.0),
    "heaviside": _heaviside,
    "within": lambda z, slope: where(is_nan(z), z, slope),
}

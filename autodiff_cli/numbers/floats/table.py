"""Floats, by the rules of IEEE 754: infinities and nan instead of exceptions, never a complex number."""

from __future__ import annotations

import importlib
import math
import operator
from collections.abc import Callable
from math import copysign, inf, nan

from autodiff_cli.numbers.floats.activations import ACTIVATIONS
from autodiff_cli.numbers.floats.elementary import ELEMENTARY, Function, divide, guarded
from autodiff_cli.numbers.kind import Kind


def modulus(a: float, b: float) -> float:
    """The remainder of a / b with the sign of b."""
    try:
        return a % b
    except ZeroDivisionError:
        return nan


def whole(function: Callable[[float], int]) -> Function:
    """A rounding function that returns floats, and infinities as they are."""
    return guarded(lambda x: copysign(float(function(x)), x), lambda x: x)


floor = whole(math.floor)
ceil = whole(math.ceil)
nearest = whole(round)


def signum(x: float) -> float:
    """-1, 0 or 1."""
    return x if x == 0 or x != x else copysign(1.0, x)


def largest(*xs: float) -> float:
    """The largest; nan if any is nan."""
    return max(xs) if not any(x != x for x in xs) else nan


def smallest(*xs: float) -> float:
    """The smallest; nan if any is nan."""
    return min(xs) if not any(x != x for x in xs) else nan


def clip(x: float, low: float, high: float) -> float:
    """x kept between low and high; high where the two are the wrong way round."""
    return smallest(largest(x, low), high)


def _truth(compare: Callable[[float, float], bool]) -> Callable[[float, float], float]:
    return lambda x, y: 1.0 if compare(x, y) else 0.0


CONSTANTS = {"pi": math.pi, "tau": math.tau, "e": math.e, "inf": inf, "nan": nan}


def read(text: str) -> float:
    """The float nearest to the number that a constant's text names."""
    named = CONSTANTS.get(text)
    return float(text) if named is None else named


def _later(module: str, name: str) -> Callable[..., float]:
    """An operation of one of the modules here that is imported when it is first called."""
    return lambda *xs: getattr(importlib.import_module(f"autodiff_cli.numbers.floats.{module}"), module.upper())[name](
        *xs
    )


# The operations whose modules are imported when one of them is needed.
_LATER = {
    "special": (
        "erfi", "erfinv", "swell", "growth", "coshc", "sinc_derivative", "sinhc", "sinhc_derivative",
        "lambertw", "lambertw_rise", "lambertw_slope",
    ),
    "integrals": ("Ei", "Si", "Ci", "Shi", "Chi", "chirp_sine", "chirp_cosine", "fresnels", "fresnelc"),
    "gamma": (
        "gamma", "lgamma", "digamma", "polygamma", "digamma_gap", "polygamma_gap", "beta", "beta_slope",
        "gamma_density",
    ),
    "incomplete_gamma": ("gammainc", "gammaincc"),
}  # fmt: skip

# fmt: off
TABLE: dict[str, Callable[..., float]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": divide, "neg": operator.neg,
    "quotient_slope": lambda x, y: divide(divide(x, y), y),
    "mod": modulus,
    "eq": _truth(operator.eq), "ne": _truth(operator.ne), "lt": _truth(operator.lt),
    "le": _truth(operator.le), "gt": _truth(operator.gt), "ge": _truth(operator.ge),
    "and": _truth(lambda x, y: x != 0 and y != 0), "or": _truth(lambda x, y: x != 0 or y != 0),
    "not": lambda x: 0.0 if x else 1.0,
    "abs": abs, "sign": signum, "floor": floor, "ceil": ceil, "round": nearest,
    "where": lambda condition, a, b: a if condition else b,
    "max": largest, "min": smallest, "clip": clip,
    "relu": lambda x: 0.0 if x <= 0 else x,
    "heaviside": lambda x: x if x != x else 0.5 * (signum(x) + 1.0),
    "within": lambda z, slope: slope if z == z else nan,
    **ELEMENTARY,
    **ACTIVATIONS,
    **{op: _later(module, op) for module, ops in _LATER.items() for op in ops},
}
# fmt: on

FLOATS: Kind[float] = Kind("floats", TABLE, read)

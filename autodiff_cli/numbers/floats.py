"""Floats, by the rules of IEEE 754: infinities and nan instead of exceptions, never a complex number."""

from __future__ import annotations

import importlib
import math
import operator
from collections.abc import Callable
from math import copysign, inf, nan

from autodiff_cli.numbers.activation_floats import ACTIVATIONS
from autodiff_cli.numbers.elementary_floats import ELEMENTARY, Function, divide, guarded
from autodiff_cli.numbers.kind import Kind


def modulo(a: float, b: float) -> float:
    """The remainder of a / b with the sign of b."""
    try:
        return a % b
    except ZeroDivisionError:
        return nan


def whole(function: Callable[[float], int]) -> Function:
    """A rounding function that returns floats, and infinities as they are."""
    return guarded(lambda x: copysign(float(function(x)), x), lambda x: x)


def sign(x: float) -> float:
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


_NAMED = {"pi": math.pi, "tau": math.tau, "e": math.e, "inf": inf, "nan": nan}


def read(text: str) -> float:
    """The float nearest to the number that a constant's text names."""
    named = _NAMED.get(text)
    return float(text) if named is None else named


def _later(module: str, name: str) -> Callable[..., float]:
    """A function of one of the modules here that is imported when it is first called."""
    return lambda *xs: getattr(importlib.import_module(f"autodiff_cli.numbers.{module}"), name)(*xs)


# The functions of the modules of special functions, by the names of the operations.
_SPECIAL = {
    "erfi": "erfi", "erfinv": "erfinv", "swell": "swell",
    "Ei": "exponential_integral", "Si": "sine_integral", "Ci": "cosine_integral",
    "Shi": "hyperbolic_sine_integral", "Chi": "hyperbolic_cosine_integral", "growth": "growth",
    "sinc_derivative": "sinc_derivative", "sinhc_derivative": "sinhc_derivative",
    "sinhc": "sinhc", "coshc": "hyperbolic_growth",
    "fresnels": "fresnel_sine", "fresnelc": "fresnel_cosine",
    "chirp_sine": "chirp_sine", "chirp_cosine": "chirp_cosine",
    "lambertw": "lambertw", "lambertw_rise": "lambertw_rise", "lambertw_slope": "lambertw_slope",
}  # fmt: skip
_GAMMA = (
    "gamma", "lgamma", "digamma", "polygamma", "digamma_gap", "polygamma_gap", "beta", "beta_slope",
    "gamma_density",
)  # fmt: skip
_INCOMPLETE_GAMMA = ("gammainc", "gammaincc")

# fmt: off
FLOATS: Kind[float] = Kind("floats", {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": divide, "neg": operator.neg,
    "quotient_slope": lambda x, y: divide(divide(x, y), y),
    "mod": modulo,
    "eq": _truth(operator.eq), "ne": _truth(operator.ne), "lt": _truth(operator.lt),
    "le": _truth(operator.le), "gt": _truth(operator.gt), "ge": _truth(operator.ge),
    "and": _truth(lambda x, y: x != 0 and y != 0), "or": _truth(lambda x, y: x != 0 or y != 0),
    "not": lambda x: 0.0 if x else 1.0,
    "abs": abs, "sign": sign, "floor": whole(math.floor), "ceil": whole(math.ceil), "round": whole(round),
    "where": lambda condition, a, b: a if condition else b,
    "max": largest, "min": smallest, "clip": clip,
    "relu": lambda x: 0.0 if x <= 0 else x,
    "heaviside": lambda x: x if x != x else 0.5 * (sign(x) + 1.0),
    "within": lambda z, slope: slope if z == z else nan,
    **ELEMENTARY,
    **ACTIVATIONS,
    **{op: _later("special_floats", name) for op, name in _SPECIAL.items()},
    **{op: _later("gamma_floats", op) for op in _GAMMA},
    **{op: _later("incomplete_gamma_floats", op) for op in _INCOMPLETE_GAMMA},
}, read)
# fmt: on

"""What holds at infinities, at nan and at poles: what the language says of floats there."""

from __future__ import annotations

import math
import sys

from flint import arb, fmpq

from autodiff_cli.graph.registry import registered
from autodiff_cli.numbers.balls.number import (
    INF,
    NAN,
    NEGATIVE_INF,
    Number,
    Undecided,
    is_finite,
    is_nan,
    nearest,
    sign,
)
from autodiff_cli.numbers.floats.table import FLOATS

_EIGHTHS = 8.0  # of π: what arcs and integrals go to at infinities


def conventional(name: str, *xs: Number) -> Number:
    """The value of an operation at an infinity, at nan, or at a point where its record says that it is singular.

    It is what the table of floats has there: an infinity, nan, a short number, or a simple part of π. Raises Undecided
    for anything else, which a float does not tell.
    """
    value = FLOATS.function(registered(name), len(xs))(*map(_float, xs))
    if math.isnan(value):
        return NAN
    if math.isinf(value):
        return INF if value > 0 else NEGATIVE_INF
    if (value * 1024).is_integer():
        return fmpq(int(value * 1024), 1024)
    parts = value * _EIGHTHS / math.pi
    if math.isfinite(parts) and math.isclose(parts, round(parts), rel_tol=1e-14):
        return arb.pi() * round(parts) / int(_EIGHTHS)
    raise Undecided


def _float(x: Number) -> float:
    """The nearest float that lies on the same side of 0, 1 and -1, and is finite where the number is."""
    if not is_finite(x):
        return math.nan if is_nan(x) else math.inf if x > 0 else -math.inf
    side = sign(x)
    found = abs(nearest(x))
    if side == 0:
        return 0.0
    found = min(max(found, sys.float_info.min), sys.float_info.max)
    if found == 1 and abs(x) != 1:
        found = math.nextafter(1.0, 2.0 if abs(x) > 1 else 0.0)
    return math.copysign(found, side)

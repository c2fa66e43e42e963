"""Exponentials, logarithms, sines and cosines written out among other instructions, in place of calls of the library.

A call spills every register, and waits; a polynomial between other instructions does neither, and a sine and a cosine
of the same argument share what brings it near 0. The forms are the usual ones (Cody and Waite, "Software Manual for the
Elementary Functions", 1980): a multiple of log(2) or of π/2 is taken off, in pieces, by fused multiply-adds, or an
exponent as bits; what is left goes into a polynomial, a Chebyshev fit good to 2^-56; sizes and signs are put back as
bits. Without an instruction for fused multiply-adds calls stay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from autodiff_cli.backends.llvm.functions.basic import copysign, fma, larger, polynomial, smaller, where
from autodiff_cli.backends.llvm.functions.division import Bounds, bounds_of, is_moderate
from autodiff_cli.backends.llvm.functions.vectors import INTRINSICS, Lane, Vector, ordered, rebuilt

_INSTRUCTIONS = 30  # of a function
_MOST = 2000  # instructions of a loop: LLVM takes too long for more

# A double near this has its whole part in its last bits.
_SHIFT = 1.5 * 2.0**52

_LOG2 = (0.6931471805599453, 2.3190468138462996e-17)  # the pieces of log(2)
# (exp(r) - 1 - r)/r² for |r| < log(2)/2, highest power first.
_EXP = (
    2.510038549551032e-08, 2.7620088445409746e-07, 2.7557268459997064e-06, 2.4801521295954376e-05,
    0.00019841269863053618, 0.0013888888917213717, 0.008333333333330062, 0.04166666666662413, 0.16666666666666669,
    0.5000000000000001,
)  # fmt: skip
_BEYOND = 750.0  # exp is 0 or infinite from here on

# The pieces of π/2, all positive: so -0 stays -0.
_HALF_PI = (1.5707963267948966, 6.123233995736765e-17, 1.082856673921914e-32)
FARTHEST = 2.0**20  # beyond this the pieces do not suffice
# (sin(r)/r - 1)/r² and (cos(r) - 1 + r²/2)/r⁴ for |r| < π/4, in powers of r², highest first.
_SIN = (
    1.591810123027412e-10, -2.5051131455427946e-08, 2.755731610068303e-06, -0.0001984126983675497,
    0.008333333333330946, -0.16666666666666666,
)  # fmt: skip
_COS = (
    -1.1382614868556325e-11, 2.0876146024689747e-09, -2.7557317270560326e-07, 2.4801587298763433e-05,
    -0.0013888888888887395, 0.041666666666666664,
)  # fmt: skip

# (log((1 + s)/(1 - s)) - 2s)/s³ for |s| < (√2 - 1)/(√2 + 1), in powers of s², highest first.
_LOG = (
    0.14616721179861816, 0.15331699633543858, 0.18182889786191042, 0.2222221112572281, 0.28571428626031065,
    0.3999999999989938, 0.666666666666667,
)  # fmt: skip


class Inlined(NamedTuple):
    """Results without calls.

    Attributes:
        positive: what logarithms are taken of, where that is not sure to be between `NEAR` and `FAR` of `division`: it
            must be; nan may be there.
        turned: arguments of sines and cosines, whose size must be at most `FARTHEST`; nan may be there.
    """

    roots: list[Vector]
    positive: list[Vector]
    turned: list[Vector]


def inlined(roots: Sequence[Vector], *, watching: bool, scaling: bool) -> Inlined:
    """The same results, with the functions written out that vary from row to row; all of them, or none where a call
    would stay.

    Args:
        watching: whether also those whose arguments have to be watched.
        scaling: whether a multiple of a power of two is one instruction.
    """
    order = ordered(roots)
    called = [vector for vector in order if vector.op == "call" and vector.detail not in INTRINSICS and vector.varies]
    is_long = len(order) + _INSTRUCTIONS * len(called) > _MOST
    if not called or is_long or any(vector.detail not in _KNOWN for vector in called):
        return Inlined([*roots], [], [])
    bounds = bounds_of(order)
    unsure = {vector for vector in called if not _is_sure(vector.detail, bounds[vector.inputs[0]])}
    if unsure and not watching:
        return Inlined([*roots], [], [])
    wanted = set(called)

    def replaced(vector: Vector, inputs: Sequence[Vector]) -> Vector | None:
        if vector not in wanted:
            return None
        (x,) = inputs
        if vector.detail in _WAVES:
            turned[x] = None
            return _wave(x, _WAVES[vector.detail])
        if vector.detail in _LOGS:
            value, size = _LOGS[vector.detail](x)
            if vector in unsure:
                positive[size] = None
            return value
        return _exp(x, scaling=scaling)

    positive: dict[Vector, None] = {}
    turned: dict[Vector, None] = {}
    return Inlined(rebuilt(roots, replaced), [*positive], [*turned])


def _is_sure(function: str, bounds: Bounds) -> bool:
    """Whether an argument between these bounds need not be watched."""
    if function in _WAVES:
        return False
    shift = 1.0 if function == "log1p" else 0.0
    return function == "exp" or is_moderate((bounds[0] + shift, bounds[1] + shift))


def _rounded(x: Vector, scale: float) -> tuple[Vector, Vector]:
    """x·scale as a whole number, and with that in its last bits."""
    shifted = fma(x, scale, _SHIFT)
    return x.code.exactly("fsub", shifted, _SHIFT), shifted


def _power_of_two(k: Vector) -> Vector:
    """2^k for a whole number."""
    return k.code.make("exponent", Lane.FLOAT, k.code.exactly("fadd", k, _SHIFT + 1023.0))


def _exp(x: Vector, *, scaling: bool) -> Vector:
    near = smaller(larger(x, -_BEYOND), _BEYOND)
    n, _ = _rounded(near, 1 / math.log(2))
    r = fma(n, -_LOG2[1], fma(n, -_LOG2[0], near))
    z = 1.0 + (r + r * r * polynomial(_EXP, r))
    if scaling:
        return x.code.make("scaled", Lane.FLOAT, z, n)
    half, _ = _rounded(n, 0.5)
    return z * _power_of_two(half) * _power_of_two(n - half)  # in two steps, since 2^n may not be a number


def _log_of(k: Vector, f: Vector) -> Vector:
    """log(2^k·(1 + f)), f between √½ - 1 and √2 - 1 (the form of fdlibm's e_log.c)."""
    s = f / (2.0 + f)
    square, half = s * s, 0.5 * f * f
    rest = half - fma(k, _LOG2[1], s * (half + square * polynomial(_LOG, square)))
    return fma(k, _LOG2[0], f - rest)


def _apart(x: Vector) -> tuple[Vector, Vector]:
    """k and m of x = 2^k·m, m between √½ and √2, for what is positive and not denormal."""
    code = x.code
    k = code.exactly("fsub", code.make("binade", Lane.FLOAT, x), 2.0**52 + 1023.0)
    return k, code.make("mantissa", Lane.FLOAT, x)


def _log(x: Vector) -> tuple[Vector, Vector]:
    """Of x; and x, which is to be watched."""
    k, m = _apart(x)
    return _log_of(k, fma(x, 0.0, m) - 1.0), x  # nan stays


def _log1p(x: Vector) -> tuple[Vector, Vector]:
    """Of 1 + x, what rounding takes from the sum being put back; and 1 + x, which is to be watched."""
    code = x.code
    total = code.exactly("fadd", x, 1.0)
    rest = code.exactly("fsub", total, x)  # Knuth's sum of two
    lost = code.exactly(
        "fadd", code.exactly("fsub", x, code.exactly("fsub", total, rest)), code.exactly("fsub", 1.0, rest)
    )
    k, m = _apart(total)
    f = fma(lost, _power_of_two(-k), m - 1.0)
    return copysign(_log_of(k, f), x), total


def _turned(x: Vector) -> tuple[Vector, Vector]:
    """x less a multiple of π/2, and which one, in the last bits."""
    n, shifted = _rounded(x, 2 / math.pi)
    r = x
    for piece in _HALF_PI:
        r = fma(n, -piece, r)
    return r, shifted


def _wave(x: Vector, quarters: float) -> Vector:
    """A sine that begins so many quarters of a turn later."""
    code = x.code
    r, shifted = _turned(x)
    square = r * r
    sine = copysign(r + r * square * polynomial(_SIN, square), r)  # -0 too
    cosine = 1.0 - (0.5 * square - square * square * polynomial(_COS, square))
    at = code.exactly("fadd", shifted, quarters) if quarters else shifted
    return code.make("turned", Lane.FLOAT, where(code.make("odd", Lane.TRUTH, at), cosine, sine), at)


_LOGS = {"log": _log, "log1p": _log1p}
_WAVES = {"sin": 0.0, "cos": 1.0}
_KNOWN = {"exp", *_LOGS, *_WAVES}

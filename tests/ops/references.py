"""Numbers of operations that mpmath takes long to compute, stored: values and slopes at points of all magnitudes.

`python -m tests.ops.references` computes `references.txt` anew. Each line has an operation, a point, and the value and
the slopes there; a number that is the sum of terms that cancel has the largest of them after `~`.
"""

from __future__ import annotations

import itertools
import math
import random
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

import numpy as np
from mpmath import mp, mpf

from tests.ops.domains import VALUES
from tests.ops.table import ROWS, Row

STORED = Path(__file__).with_name("references.txt")
SECONDS = 20  # longest time for a point
EXACT = {"add", "sub", "mul", "neg", "mod", "sign", "not", "and", "or", "where", "max", "min", "clip", "floor", "ceil"}
EXACT |= {
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "round",
    "abs",
    "heaviside",
    "relu",
    "leaky_relu",
    "hardtanh",
    "relu6",
    "div",
}

ORDERS = (0.0, 1.0, 2.0, 3.0, 5.0, 8.0)
SHAPES = (0.04, 0.6, 1.0, 3.5, 11.0, 40.0, 150.0, 900.0)
FAR = (-7.0, -2.5, -0.4, 0.3, 1.5, 4.5)  # deviations of a gamma distribution
BESSEL_ORDERS = (0.0, 0.5, 1.0, 2.0, 2.3, 7.0, 20.2, 60.0, -1.5, -3.0, -2.2)
# Points on all sides of the borders between methods, of operations with several arguments.
GRIDS: dict[str, list[tuple[float, ...]]] = {
    "gammainc": [(a, x) for a in SHAPES for k in FAR if (x := a + k * math.sqrt(a)) > 0],
    "gammainc_slope": [(a, x) for a in SHAPES[:-1] for k in FAR if (x := a + k * math.sqrt(a)) > 0],
    "besselj": [*itertools.product(BESSEL_ORDERS, (1e-4, 0.7, 1.9, 2.2, 6.0, 19.0, 24.0, 27.0, 90.0, 2000.0))],
    "polygamma": [*itertools.product(ORDERS, (-3.3, -0.4, 1e-3, 0.6, 1.46, 2.5, 7.0, 14.0, 40.0, 1e5))],
    "sinc_derivative": [*itertools.product(ORDERS, (0.0, 1e-6, 0.3, -1.2, 2.9, 5.5, 9.0, 14.0, -40.0, 600.0))],
    "beta": [*itertools.product((0.01, 0.7, 2.0, 9.5, 60.0, 900.0), repeat=2), (-0.4, 0.9), (-2.6, 1.7), (-1.5, -0.7)],
    "wofz_real": [*itertools.product((0.0, 0.03, 0.8, 2.9, -5.5, 7.5, 40.0, 1e4), (0.0, 1e-5, 0.2, 1.7, 6.5, 30.0))],
}
GRIDS["gammaincc"], GRIDS["gammainc_curvature"] = GRIDS["gammainc"], GRIDS["gammainc_slope"]
GRIDS["bessely"], GRIDS["besselk"] = (
    [point for point in GRIDS["besselj"] if name == "bessely" or point[1] < 100] for name in ("bessely", "besselk")
)
GRIDS["besseli"], GRIDS["wofz_imag"] = GRIDS["besselk"], GRIDS["wofz_real"]
GRIDS["sinhc_derivative"] = GRIDS["sinc_derivative"]
SIZES = [*np.geomspace(1e-7, 1e3, 21).tolist()]


def points_of(row: Row) -> list[tuple[float, ...]]:
    """Return the points of an operation: those of its grid, or else some that are drawn from its domain."""
    chance = random.Random(row.name)
    if len(row.domain) == 1:
        return [(side * size,) for size in SIZES for side in (1, -1)] + [(chance.uniform(-3, 3),) for _ in range(8)]
    if row.name in GRIDS:
        return GRIDS[row.name]
    ends = [(max(low, -1e4), min(high, 1e4)) for low, high in row.domain]
    return [tuple(chance.choice((chance.uniform(*end), near(*end, chance))) for end in ends) for _ in range(24)]


def near(low: float, high: float, chance: random.Random) -> float:
    """Return a number between bounds, as likely of one magnitude as of another down to 1e-4."""
    size = max(abs(low), abs(high)) * 10 ** -chance.uniform(0, 6)
    return min(max(chance.choice((-1, 1)) * size, low), high)


def lines() -> Iterator[str]:
    """Yield the lines of the file."""
    seen = set()
    for row in (row for row in ROWS if row.name not in EXACT):
        for point in points_of(row):
            if (row.name, point) not in seen:
                seen.add((row.name, point))
                yield from [line] if (line := line_of(row, point)) else []


def line_of(row: Row, point: Sequence[float]) -> str | None:
    """Return the line of a point, or None if there is no value, or if it takes long."""
    exactly = [mpf(x) for x in point]
    terms = [row.terms] + [row.slope_terms or row.terms] * len(point)
    try:
        signal.alarm(SECONDS)
        with mp.workdps(60):
            if not is_float(VALUES.get(row.name, row.value)(*exactly)):
                return None
            words = []
            for exact, term in zip((row.value, *row.slopes), terms, strict=True):
                number = None if exact is None else exact(*exactly)
                is_known = number is not None and is_float(number)
                words.append(
                    f"{float(number)!r}{f'~{float(abs(term(*exactly)))!r}' if term else ''}" if is_known else "?"
                )
    except (TimeoutError, ValueError, ZeroDivisionError, mp.NoConvergence, NotImplementedError, OverflowError):
        return None
    finally:
        signal.alarm(0)
    return " ".join([row.name, *map(repr, point), ":", *words])


def is_float(number: mpf) -> bool:
    """Whether a number is real, and 0 or a normal number of floats."""
    real = mp.mpmathify(number)
    return bool(mp.isfinite(real)) and not mp.im(real) and (real == 0 or 1e-290 < abs(real) < 1e290)


def give_up(_: int, __: FrameType | None) -> None:
    raise TimeoutError


def read_references() -> dict[str, list[tuple[tuple[float, ...], list[tuple[float, float] | None]]]]:
    """Return points by operation, with the value and the slopes: the number and the size of its terms, if known."""
    found: dict[str, list[tuple[tuple[float, ...], list[tuple[float, float] | None]]]] = {}
    for line in STORED.read_text(encoding="utf-8").splitlines():
        place, _, numbers = line.partition(" : ")
        name, *point = place.split()
        pairs = [None if word == "?" else word.partition("~")[::2] for word in numbers.split()]
        known = [pair and (float(pair[0]), float(pair[1] or 0)) for pair in pairs]
        found.setdefault(name, []).append((tuple(map(float, point)), known))
    return found


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, give_up)
    STORED.write_text("".join(f"{line}\n" for line in lines()), encoding="utf-8")

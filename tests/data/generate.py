"""The generated data sets of this folder: `python generate.py` writes them again, byte for byte."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

HERE = Path(__file__).parent
DIGITS = 6  # after the decimal point

Rows = list[tuple[float, ...]]


def sine() -> Rows:
    """One period of sin(x), 120 points, with normal noise of standard deviation 0.02."""
    random = Random(1)
    places = [math.pi * (2 * k / 119 - 1) for k in range(120)]
    return [(x, math.sin(x) + random.gauss(0, 0.02)) for x in places]


def quadratic() -> Rows:
    """0.5x² + 0.3x + 0.1 at 50 points from -2 to 2."""
    places = [4 * k / 49 - 2 for k in range(50)]
    return [(x, 0.5 * x * x + 0.3 * x + 0.1) for x in places]


def xor() -> Rows:
    """The truth table of exclusive or."""
    return [(a, b, a ^ b) for a in (0, 1) for b in (0, 1)]


def moons() -> Rows:
    """Two interleaving half circles of radius 1, 200 points each, with normal noise of standard deviation 0.1."""
    random = Random(2)
    rows: Rows = []
    for k in range(200):
        angle = math.pi * k / 199
        upper, lower = (math.cos(angle), math.sin(angle)), (1 - math.cos(angle), 0.5 - math.sin(angle))
        for moon, (x, y) in enumerate((upper, lower)):
            rows.append((x + random.gauss(0, 0.1), y + random.gauss(0, 0.1), moon))
    return rows


SETS = {"sine": ("x,y", sine), "quadratic": ("x,y", quadratic), "xor": ("x1,x2,y", xor), "moons": ("x1,x2,moon", moons)}


def text(name: str) -> str:
    """The CSV of a set. Rounded, so that no platform's last digit shows."""
    header, rows = SETS[name]
    lines = (",".join(map(_cell, row)) for row in rows())
    return "\n".join([header, *lines]) + "\n"


def _cell(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.{DIGITS}f}"


if __name__ == "__main__":
    for name in SETS:
        (HERE / f"{name}.csv").write_text(text(name), encoding="utf-8")

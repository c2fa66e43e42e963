"""How long a least-squares fit takes, and how many digits it gets right, against SciPy's `curve_fit`.

Both run in this process, in turn, from the same starting values; medians and their ratio are printed. The model is text
for autodiff, a NumPy function for SciPy, which takes its derivatives by differences. The digits are those of the worst
parameter, beside the values that made the data; with noise they say how well the data determine it.

    python benchmarks/fit.py [ROUNDS]
"""

from __future__ import annotations

import itertools
import math
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import curve_fit

import autodiff_cli as ad

TRUTH = (2.5, 1.3, 0.7, 3.1)
START = (1.0, 1.0, 1.0, 3.0)
TEXT = "y ~ a*exp(-b*x) + c*sin(d*x)"
SIZES = (100, 10_000, 1_000_000)
NOISE = (0.0, 0.1)  # standard deviations


def model(x: Any, a: float, b: float, c: float, d: float) -> Any:
    """The model of `TEXT`."""
    return a * np.exp(-b * x) + c * np.sin(d * x)


def with_autodiff(x: Any, y: Any) -> list[float]:
    """The parameters, by autodiff."""
    return [*ad.fit(TEXT, {"x": x, "y": y}, start=dict(zip("abcd", START, strict=True))).parameters.values()]


def with_scipy(x: Any, y: Any) -> list[float]:
    """The parameters, by SciPy."""
    found: list[float] = curve_fit(model, x, y, START)[0].tolist()
    return found


def measured(run: Callable[[Any, Any], list[float]], x: Any, y: Any) -> tuple[float, float]:
    """Seconds, and right digits."""
    begin = time.perf_counter()
    found = run(x, y)
    seconds = time.perf_counter() - begin
    error = max(abs(value / truth - 1) for value, truth in zip(found, TRUTH, strict=True))
    return seconds, -math.log10(max(error, 1e-16))


def main(rounds: int = 7) -> None:
    """Fit data of every size with both, `rounds` times in turn."""
    print(f"{'rows':>9}  {'noise':>5}  {'autodiff':>10}  {'curve_fit':>10}  {'ratio':>6}  {'digits':>6}  {'digits':>6}")
    for rows, noise in itertools.product(SIZES, NOISE):
        x = np.linspace(0, 3, rows)
        y = model(x, *TRUTH) + noise * np.random.default_rng(0).normal(size=rows)
        runs = [(measured(with_autodiff, x, y), measured(with_scipy, x, y)) for _ in range(rounds)]
        ours, theirs = (statistics.median(run[k][0] for run in runs) for k in (0, 1))
        digits = " ".join(f"{runs[0][k][1]:>7.1f}" for k in (0, 1))
        times = f"{ours * 1e3:>7.1f} ms  {theirs * 1e3:>7.1f} ms  {ours / theirs:>6.2f}"
        print(f"{rows:>9,}  {noise:>5}  {times} {digits}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""Propagation of errors over many rows, against the gradients alone and against the package `uncertainties`.

Run with `python benchmarks/uncertainty.py [ROWS]`. Each of ours is the whole command, from a file to a file: the best
of a few runs, without and with `--sigma`. `uncertainties` squares numbers that it has in memory, one by one.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

RUNS = 3
FORMULAS = ("x^2", "x*y + sin(x)", "y*exp(-x^2/2)/sqrt(1 + x^2)")
THEIR_ROWS = 100_000


def seconds(words: list[str], output: Path) -> float:
    """Return the seconds of a command, the best of the runs."""
    times = []
    for _ in range(RUNS):
        with output.open("w") as stream:
            start = time.perf_counter()
            subprocess.run([sys.executable, "-m", "autodiff_cli", *words], stdout=stream, check=True)
            times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Print the times of all formulas, then those of `uncertainties`."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    generator = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        points, output = Path(folder) / "points.csv", Path(folder) / "results.csv"
        table = generator.uniform(0.5, 2, (rows, 4)) * [1, 1, 0.1, 0.1]
        np.savetxt(points, table, fmt="%.6f", delimiter=",", header="x,y,sx,sy", comments="")
        for formula in FORMULAS:
            names = [name for name in "xy" if name in formula.replace("exp", "")]
            gradients = ["grad", formula, "--at", str(points)]
            errors = [word for name in names for word in ("--sigma", f"{name}=s{name}")]
            alone, with_errors = seconds(gradients, output), seconds([*gradients, *errors], output)
            ratio = with_errors / alone
            print(f"{formula}: gradients {alone:.2f} s, with standard errors {with_errors:.2f} s, {ratio:.2f} times")
    if importlib.util.find_spec("uncertainties") is None:
        print("uncertainties is not installed")
        return
    from uncertainties import unumpy

    numbers = unumpy.uarray(generator.uniform(1, 2, THEIR_ROWS), 0.1)
    start = time.perf_counter()
    unumpy.std_devs(numbers**2)
    print(f"uncertainties: x^2 of {THEIR_ROWS:,} numbers in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()

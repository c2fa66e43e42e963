"""From a CSV file to parameters with errors, as whole processes: `autodiff train`, pandas and SciPy, gnuplot.

Processes run in turn, on the same file and from the same starting values; medians are printed, and ratios of ours to
theirs. Beside the time on the clock stands that on all cores, which other work on the machine disturbs less, and the
largest amount of memory. gnuplot takes part if it is installed, below a million rows.

    python benchmarks/processes.py [ROUNDS [ROWS ...]]
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

SIZES = (200, 200_000, 2_000_000)
TRUTH = (2.5, 1.3, 0.7, 3.1)
START = (1.0, 1.0, 1.0, 3.0)
# Installed programs have their bytecode beside them, so what runs from a checkout may keep it too.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
SLOW = 1_000_000  # rows from which on gnuplot takes a minute

CURVE_FIT = """
import sys
import numpy as np
import pandas
from scipy.optimize import curve_fit

data = pandas.read_csv(sys.argv[1])
model = lambda x, a, b, c, d: a*np.exp(-b*x) + c*np.sin(d*x)
found, covariance = curve_fit(model, data["x"].to_numpy(), data["y"].to_numpy(), [1, 1, 1, 3])
print(found, np.sqrt(np.diag(covariance)))
"""
GNUPLOT = """
set datafile separator ","
set fit quiet logfile "/dev/null"
a = 1; b = 1; c = 1; d = 3
f(x) = a*exp(-b*x) + c*sin(d*x)
fit f(x) "{path}" skip 1 using 1:2 via a, b, c, d
print a, a_err, b, b_err, c, c_err, d, d_err
"""


class Cost(NamedTuple):
    """Of a process: seconds on the clock and on all cores, and megabytes."""

    wall: float
    cpu: float
    memory: float


def cost(command: Sequence[str]) -> Cost:
    """Run a process to its end."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command[0]} failed with status {process.returncode}")
    return Cost(time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def commands(path: Path, rows: int) -> dict[str, list[str]]:
    """What is run, by name."""
    starts = [word for name, value in zip("abcd", START, strict=True) for word in (f"--{name}", str(value))]
    found = {
        "autodiff": [
            str(Path(sys.executable).with_name("autodiff")),
            *("train", "y ~ a*exp(-b*x) + c*sin(d*x)", str(path), *starts),
        ],
        "curve_fit": [sys.executable, "-c", CURVE_FIT, str(path)],
    }
    if rows < SLOW and shutil.which("gnuplot"):
        found["gnuplot"] = ["gnuplot", "-e", GNUPLOT.format(path=path).strip().replace("\n", "; ")]
    return found


def write(path: Path, rows: int) -> None:
    """Rows of the model with noise, as most programs would print them."""
    generator = np.random.default_rng(0)
    a, b, c, d = TRUTH
    with path.open("w") as stream:
        stream.write("x,y\n")
        for start in range(0, rows, 100_000):
            x = 3 * np.arange(start, min(start + 100_000, rows)) / rows
            y = a * np.exp(-b * x) + c * np.sin(d * x) + generator.normal(0, 0.05, len(x))
            np.savetxt(stream, np.column_stack((x, y)), "%.9g", ",")


def main(rounds: int = 5, *sizes: int) -> None:
    """Measure every size."""
    print(f"{'rows':>9}  {'':9}  {'clock':>10}  {'cores':>10}  {'memory':>8}  ratio of ours (clock, cores)")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.csv"
        for rows in sizes or SIZES:
            write(path, rows)
            every = commands(path, rows)
            for command in every.values():
                cost(command)  # what is compiled is kept, and the file is in memory
            runs = [{name: cost(command) for name, command in every.items()} for _ in range(rounds)]
            median = {name: Cost(*map(statistics.median, zip(*(run[name] for run in runs)))) for name in every}  # noqa: B905
            ours = median["autodiff"]
            for name, theirs in median.items():
                ratio = "" if name == "autodiff" else f"{ours.wall / theirs.wall:.2f}, {ours.cpu / theirs.cpu:.2f}"
                times = f"{theirs.wall * 1e3:>7.0f} ms  {theirs.cpu * 1e3:>7.0f} ms"
                print(f"{rows:>9,}  {name:9}  {times}  {theirs.memory:>5.0f} MB  {ratio}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

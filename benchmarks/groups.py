"""How long a fit for each of many groups takes, against a loop over SciPy's `curve_fit`.

The whole run is measured as a process from a CSV file, and the fits alone in this one, in turn with SciPy, which gets
the groups as slices of one array and is given a share of them only. On a busy machine the time of the processor says
more than that of the clock; both are printed.

    python benchmarks/groups.py [GROUPS]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import curve_fit

import autodiff_cli as ad

TEXT = "y ~ a*exp(-b*x)"
ROWS = 20  # of a group
SHARE = 20  # of the groups, one in so many is fitted by SciPy


def model(x: Any, a: float, b: float) -> Any:
    """The model of `TEXT`."""
    return a * np.exp(-b * x)


def data(groups: int) -> dict[str, Any]:
    """Decays with a little noise."""
    generator = np.random.default_rng(0)
    x = np.tile(np.linspace(0, 3, ROWS), groups)
    a, b = (np.repeat(generator.uniform(*ends, groups), ROWS) for ends in ((1, 5), (0.2, 2)))
    y = model(x, a, b) + 0.02 * generator.normal(size=len(x))
    return {"x": x, "y": y, "group": np.repeat(np.arange(groups), ROWS)}


def seconds(run: Any) -> tuple[float, float]:
    """How long it takes, by the clock and of the processor, children included."""
    begin, before = time.perf_counter(), os.times()
    run()
    after = os.times()
    return time.perf_counter() - begin, sum(after[:4]) - sum(before[:4])


def main(groups: int = 10_000) -> None:
    """Fit all of them, and print what it takes."""
    columns = data(groups)

    def loop() -> None:
        for k in range(0, groups, SHARE):
            rows = slice(k * ROWS, (k + 1) * ROWS)
            curve_fit(model, columns["x"][rows], columns["y"][rows], [1, 1])

    ours = seconds(lambda: ad.fit_by(TEXT, columns, "group"))
    theirs = [SHARE * part for part in seconds(loop)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "groups.csv"
        lines = (f"{x!r},{y!r},{k}" for x, y, k in zip(*(column.tolist() for column in columns.values()), strict=True))
        path.write_text("\n".join(["x,y,group", *lines]))
        line = [sys.executable, "-m", "autodiff_cli", "train", TEXT, str(path), "--by", "group", "-o", f"{path}.out"]
        whole = seconds(lambda: subprocess.run(line, check=True))
    print(f"{groups:,} groups of {ROWS} rows, seconds by the clock and of the processor")
    print(f"fits alone: autodiff {ours[0]:.2f} {ours[1]:.2f}, curve_fit {theirs[0]:.2f} {theirs[1]:.2f}")
    print(f"from CSV to CSV, as a process: {whole[0]:.2f} {whole[1]:.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

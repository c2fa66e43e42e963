"""Compare autodiff with SymPy, SciPy, lmfit and micrograd: how many times longer a peer takes.

Each task runs here and with its peer in turn, on one thread, and the ratio is that of the least processor times, which
other work on the machine disturbs least. Tasks and models are those of the other scripts in this folder. A peer that is
not installed is left out; `pip install --group peers` installs all. The table is Markdown, as in `docs/comparison.md`.

    python benchmarks/comparison.py [ROUNDS]
"""

from __future__ import annotations

import datetime
import importlib.metadata
import importlib.util
import os
import platform
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # read when libraries are imported

import derivatives
import fit
import groups
import numpy as np
from scipy.optimize import curve_fit

import autodiff_cli as ad
from autodiff_cli import nn

ROWS = 10_000  # of a single fit
GROUPS = 200
LAYERS = [8, 8, 1]  # of the network of `Value`s; it has two inputs


class Task(NamedTuple):
    """One task, done by autodiff and by a peer.

    Attributes:
        name: the task, for the table.
        peer: the distribution of the peer.
        ours: does the task with autodiff.
        theirs: does it with the peer.
    """

    name: str
    peer: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]


def formulas() -> Task:
    """Derivatives of a formula of a thousand operations as formulas, from text to text."""
    text = derivatives.TEXTS["rational"]

    def ours() -> None:
        f = ad.parse(text)
        for name in f.variables:
            str(f.derivative(name))

    def theirs() -> None:
        import sympy

        sympy.core.cache.clear_cache()
        f = sympy.sympify(text.replace("^", "**"))
        for symbol in f.free_symbols:
            str(f.diff(symbol))

    return Task("derivatives of a sum of 165 fractions, from text to text", "sympy", ours, theirs)


def one_fit(peer: str, rows: int) -> Task:
    """One fit with four parameters to data in memory, with standard errors."""
    x = np.linspace(0, 3, rows)
    y = fit.model(x, *fit.TRUTH) + np.random.default_rng(0).normal(0, 0.05, rows)
    start = dict(zip("abcd", fit.START, strict=True))

    def ours() -> None:
        ad.fit(fit.TEXT, {"x": x, "y": y}, start=start, threads=1)

    def by_lmfit() -> None:
        import lmfit

        lmfit.Model(fit.model).fit(y, x=x, **start)

    theirs = by_lmfit if peer == "lmfit" else lambda: curve_fit(fit.model, x, y, fit.START)
    return Task(f"a fit of 4 parameters, {rows:,} rows", peer, ours, theirs)


def many_fits() -> Task:
    """One fit for each of many groups."""
    columns = groups.data(GROUPS)

    def theirs() -> None:
        for k in range(GROUPS):
            rows = slice(k * groups.ROWS, (k + 1) * groups.ROWS)
            curve_fit(groups.model, columns["x"][rows], columns["y"][rows], [1, 1])

    name = f"a fit of 2 parameters for each of {GROUPS} groups of {groups.ROWS} rows"
    return Task(name, "scipy", lambda: ad.fit_by(groups.TEXT, columns, "group"), theirs)


def eager_network() -> Task:
    """Forward and backward pass of a network of `Value`s."""

    def theirs() -> None:
        from micrograd.nn import MLP

        MLP(2, LAYERS)([1.0, -2.0]).backward()

    name = f"one backward pass through `MLP(2, {LAYERS})`, which is built anew"
    return Task(name, "micrograd", lambda: nn.MLP(2, LAYERS)([1.0, -2.0]).backward(), theirs)


def seconds(run: Callable[[], Any]) -> float:
    """The processor time that it takes."""
    begin = time.process_time()
    run()
    return time.process_time() - begin


def main(rounds: int = 5) -> None:
    """Print a table of the ratios, with the date, the machine and the versions."""
    tasks = [
        formulas(), one_fit("scipy", 100), one_fit("lmfit", 100), one_fit("scipy", ROWS), one_fit("lmfit", ROWS),
        many_fits(), eager_network(),
    ]  # fmt: skip
    tasks = [task for task in tasks if importlib.util.find_spec(task.peer)]
    versions = ", ".join(f"{peer} {importlib.metadata.version(peer)}" for peer in dict.fromkeys(t.peer for t in tasks))
    print(f"{datetime.date.today()}, {platform.machine()}, Python {platform.python_version()}, {versions}\n")
    print("| task | peer | time of the peer / time of autodiff |\n| --- | --- | --- |")
    for task in tasks:
        task.ours(), task.theirs()  # imports, and what is compiled, which is kept
        times = [(seconds(task.ours), seconds(task.theirs)) for _ in range(rounds)]
        ours, theirs = map(min, zip(*times, strict=True))
        print(f"| {task.name} | {task.peer} | {theirs / ours:.2g} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

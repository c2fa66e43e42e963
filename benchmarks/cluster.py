"""What a fit on a cluster costs beside the same in memory, and what that says of very many rows.

An iteration is one loss with its gradient, and one triangular factor, over all rows. Measured on this machine: what a
fold costs that has hardly any rows, with few and with many parts; how long a row takes one worker; both again with two
workers; how fast workers read Parquet. The projection at the end is arithmetic on these figures and on the constants
below, which are printed too. Everything runs in turn, and medians are shown, since other things run beside.

    python benchmarks/cluster.py [ROWS]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from autodiff_cli import Objective
from autodiff_cli.data.files import open_data
from autodiff_cli.training.objective import cluster as placing
from autodiff_cli.training.objective.cluster import ClusterRows
from autodiff_cli.training.objective.cluster_connection import connect_cluster

MODEL = "y ~ a*exp(-b*x) + c"
FEW = 8192 * 2  # rows whose fold takes no time
MANY_PARTS = 128

COLUMNS = 2
NETWORK = 1.25e9  # bytes a second between machines: 10 Gbit/s
STORAGE = 2e8  # bytes a second that a machine reads Parquet with, from whatever all of them share
CORES = 32  # of a machine
PASSES = 30  # of a fit, with what comes after it
PARAMETERS = 3


class Figures(NamedTuple):
    """What was measured, in seconds.

    Attributes:
        call: of an iteration of no rows in two parts; `part` is what one part more adds.
        fold: of a row and a core, for a loss and its gradient or for [J | r]ᵀ[J | r], whichever takes longer.
        read: of a row and a core.
    """

    call: float
    part: float
    fold: float
    read: float


def data(rows: int) -> dict[str, Any]:
    """A decay with noise."""
    generator = np.random.default_rng(0)
    x = generator.uniform(0, 3, rows)
    return {"x": x, "y": 2 * np.exp(-1.3 * x) + 0.3 + 0.05 * generator.normal(size=rows)}


def median(run: Callable[[Any], object], times: int) -> float:
    """Seconds of a call; each is given another point, so that nothing is remembered."""
    taken = []
    for k in range(times):
        begin = time.perf_counter()
        run([1 + 1e-6 * k, 1, 0.5])
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


@contextmanager
def placed(objective: Objective, workers: int, each: int = placing.PARTITIONS_PER_WORKER) -> Iterator[Objective]:
    """The same with its rows on workers of this machine."""
    before, placing.PARTITIONS_PER_WORKER = placing.PARTITIONS_PER_WORKER, each
    try:
        with connect_cluster(f"local:{workers}") as cluster:
            assert cluster is not None
            there = objective.with_rows(ClusterRows.from_table(cluster, objective.table))
            for k in range(3):  # kernels are made
                there.value_and_grad([1, 1, k])
                there.triangle([1, 1, k])
            yield there
    finally:
        placing.PARTITIONS_PER_WORKER = before


def line(what: str, *seconds: float, unit: float = 1e3, of: str = "ms") -> None:
    """A line of the report."""
    print(f"{what:<58}" + "".join(f"{value * unit:10.2f}" for value in seconds) + f"  {of}")


def measured(rows: int) -> Figures:
    """Measure, and say what comes out."""
    few = Objective(MODEL, data(FEW), backend="llvm")
    here = median(few.value_and_grad, 50)
    with placed(few, 2) as there:
        call = median(there.value_and_grad, 60) - here
    line(f"an iteration beyond its fold, 2 parts ({FEW} rows)", call)
    several = Objective(MODEL, data(MANY_PARTS * 8192), backend="llvm")
    here = median(several.value_and_grad, 20)
    with placed(several, 2, MANY_PARTS) as there:
        parts = len(there.data._parts.futures)  # type: ignore[attr-defined]
        part = (median(there.value_and_grad, 20) - here - call) / (parts - 2)
    line(f"  and each part more ({parts} parts)", max(part, 0.0))
    many = Objective(MODEL, data(rows), backend="llvm", threads=1)
    found = {1: [0.0, 0.0], 2: [0.0, 0.0]}
    alone = [median(many.value_and_grad, 9), median(many.triangle, 5)]
    for workers in found:
        with placed(many, workers) as there:
            found[workers] = [median(there.value_and_grad, 9), median(there.triangle, 5)]
    print(f"\n{rows} rows: here on one thread, with 1 worker, with 2")
    for k, what in enumerate(("loss and gradient", "triangular factor of [J | r]")):
        line(f"  {what}", alone[k], found[1][k], found[2][k])
        print(f"    2 workers take {found[2][k] / found[1][k]:.2f} of the time of 1")
    read = reading(rows)
    line("reading Parquet, a row and a core", read, unit=1e9, of="ns")
    fold = max(*alone) / rows
    line("a fold, a row and a core", fold, unit=1e9, of="ns")
    return Figures(call, max(part, 0.0), fold, read)


def reading(rows: int) -> float:
    """Seconds that a row of Parquet takes a reader."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        parquet.write_table(pa.table(data(rows)), path)
        taken = []
        for _ in range(3):
            begin = time.perf_counter()
            open_data([str(path)]).load(["x", "y"])
            taken.append(time.perf_counter() - begin)
    return statistics.median(taken) / rows


def projected(figures: Figures, rows: float, machines: int) -> Sequence[str]:
    """A line of the projection: each machine is one worker with a thread for each core."""
    cores = machines * CORES
    parts = rows / placing.partition_rows(int(rows), machines)
    numbers = max(PARAMETERS + 1, (PARAMETERS + 1) ** 2)
    loads = {
        "computing": rows * figures.fold / cores,
        "scheduler": figures.call + parts * figures.part,
        "network": parts * 8 * numbers / NETWORK,
    }
    of_pass = sum(loads.values())
    read = max(rows * figures.read / cores, rows * COLUMNS * 8 / (machines * STORAGE))
    binds = "reading" if read > PASSES * of_pass else max(loads, key=lambda name: loads[name])
    return (
        f"{rows:.0e}",
        f"{machines}",
        f"{rows * COLUMNS * 8 / machines / 1e9:.0f} GB",
        f"{parts:.0f}",
        spoken(read),
        *(spoken(loads[name]) for name in ("computing", "scheduler", "network")),
        spoken(read + PASSES * of_pass),
        binds,
    )


def spoken(seconds: float) -> str:
    """Seconds for people.

    >>> spoken(0.0123), spoken(90), spoken(7200)
    ('12 ms', '90 s', '2.0 h')
    """
    if seconds < 1:
        return f"{seconds * 1e3:.2g} ms"
    return (
        f"{seconds:.0f} s"
        if seconds < 600
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )


def main(rows: int = 10_000_000) -> None:
    """Measure, and project."""
    figures = measured(rows)
    print(
        f"\nProjected: {CORES} cores a machine, {NETWORK * 8 / 1e9:.0f} Gbit/s, "
        f"{STORAGE / 1e6:.0f} MB/s read by each, {COLUMNS} columns, {PARAMETERS} parameters, {PASSES} passes"
    )
    titles = ("rows", "machines", "each keeps", "parts", "read", "computing", "scheduler", "network", "fit", "binds")
    print("| " + " | ".join(titles) + " |")
    print("| " + " | ".join("---" if title == "binds" else "---:" for title in titles) + " |")
    for count, machines in ((1e9, 1), (1e9, 8), (1e12, 256), (1e12, 1024)):
        print("| " + " | ".join(projected(figures, count, machines)) + " |")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

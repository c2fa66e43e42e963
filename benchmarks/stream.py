"""What a pass over streamed rows costs, beside rows in memory: ns per row and pass, and the most memory.

Each fit runs in a process of its own, on the same model of two columns (`y ~ a*exp(-b*x)`), from Parquet, CSV and gzip.
For each, beside the time of a whole fit, that of a pass: the time of all passes after the first, by their number and
the rows; and the memory that the process had at most.

    python benchmarks/stream.py [ROWS] [FORMAT …]
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

MODEL = "y ~ a*exp(-b*x)"
FORMATS = ("parquet", "csv", "csv.gz")
_AT_ONCE = 1_000_000  # rows that are made at a time
_CHILD = f"""
import json, resource, sys, time
path, stream = sys.argv[1], sys.argv[2] == "stream"
from autodiff_cli.data.files import open_data
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.fitting.fit import fit_objective
files, options = open_data([path]), FitOptions(stream=stream)
begun = time.perf_counter()
objective = Objective.of("{MODEL}", files, options)
opened = time.perf_counter()
found = fit_objective(objective, options)
ended = time.perf_counter()
print(json.dumps({{
    "parameters": found.parameters, "first": opened - begun, "rest": ended - opened, "rows": found.rows,
    "passes": files.streamed.passes - 1 if stream else None,
    "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}}))
"""


def made(folder: Path, rows: int, kind: str) -> Path:
    """A file of so many rows."""
    path = folder / f"rows.{kind}"
    source = folder / "rows.parquet"
    if not source.exists():
        generator = np.random.default_rng(0)
        with parquet.ParquetWriter(source, pa.schema([("x", pa.float64()), ("y", pa.float64())])) as writer:
            for start in range(0, rows, _AT_ONCE):
                x = generator.uniform(0, 3, min(_AT_ONCE, rows - start))
                y = 2 * np.exp(-1.3 * x) + generator.normal(0, 0.1, len(x))
                writer.write_table(pa.table({"x": x, "y": y}))
    if kind != "parquet" and not (folder / "rows.csv").exists():
        file = parquet.ParquetFile(source)
        with csv.CSVWriter(folder / "rows.csv", file.schema_arrow) as text:
            for batch in file.iter_batches():
                text.write_batch(batch)
    if kind == "csv.gz":
        with (folder / "rows.csv").open("rb") as plain, gzip.open(path, "wb", 6) as packed:
            shutil.copyfileobj(plain, packed)
    return path


def main() -> None:
    """Measure, and print a table."""
    words = sys.argv[1:]
    rows = int(float(words[0])) if words else 10_000_000
    print(f"{MODEL}, {rows} rows of two columns ({rows * 16 / 2**20:.0f} MB)")
    print(f"{'from':>10} {'rows':>9} {'first pass':>11} {'others':>7} {'ns/row/pass':>12} {'seconds':>8} {'memory':>9}")
    with tempfile.TemporaryDirectory() as place:
        for kind in words[1:] or FORMATS:
            path = made(Path(place), rows, kind)
            kept = []
            for how in ("memory", "stream"):
                child = subprocess.run(
                    [sys.executable, "-c", _CHILD, path, how], capture_output=True, text=True, check=True
                )
                found = json.loads(child.stdout)
                kept.append(found["parameters"])
                passes = found["passes"]
                each = f"{found['rest'] / passes / rows * 1e9:.1f}" if passes else ""
                total = found["first"] + found["rest"]
                where = "streamed" if how == "stream" else "memory"
                print(
                    f"{kind:>10} {where:>9} {found['first']:>9.2f} s {passes or '':>7} {each:>12} {total:>8.2f} "
                    f"{found['memory']:>6.0f} MB"
                )
            assert kept[0] == kept[1], "not the same bits"


if __name__ == "__main__":
    main()

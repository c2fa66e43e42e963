"""Streamed rows give bit-identical results to rows in memory, for every format, model and method."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

import autodiff_cli as ad
from autodiff_cli.data import delimited, streaming
from autodiff_cli.data.dialect import FileOptions
from autodiff_cli.data.files import open_data
from autodiff_cli.data.streaming import MIN_CHUNK_ROWS
from autodiff_cli.options import OptionError
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.result.goodness import subsample
from autodiff_cli.training.rows import MemoryRows
from tests.each import each
from tests.support import goodness

ROWS = 2 * MIN_CHUNK_ROWS + 100
CURVE = "y ~ a*exp(-b*x)"
CACHES = ["on", pytest.param("off", marks=pytest.mark.slow)]
FORMATS = ("d.parquet", "d.arrow", "d.csv", "d.csv.gz", "d.jsonl", "d.tsv")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Use many small chunks, and a cache folder of its own."""
    monkeypatch.setattr(streaming, "_MAX_CHUNK_ROWS", streaming.MIN_CHUNK_ROWS)
    monkeypatch.setattr(delimited, "_LINE_BLOCK_BYTES", 1 << 14)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def table() -> Any:
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 3, ROWS))
    y = 2 * np.exp(-1.3 * x) + rng.normal(0, 0.1, ROWS)
    y[::17] += rng.normal(0, 3, len(y[::17]))
    group = np.array(["north", "east", "south"])[rng.integers(0, 3, ROWS)]
    p = 1 / (1 + np.exp(1 - x))
    return pa.table(
        {
            "x": x,
            "other": rng.uniform(size=ROWS),
            "y": y,
            "w": rng.integers(0, 3, ROWS),
            "s": rng.uniform(0.1, 0.2, ROWS),
            "group": group,
            "site": rng.integers(10, 13, ROWS),
            "k": np.where(rng.uniform(size=ROWS) < p, "b", "a"),
            "n": rng.poisson(np.exp(0.3 + 0.5 * x)),
            "hit": rng.uniform(size=ROWS) < p,
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the same table in every format."""
    place, data = tmp_path_factory.mktemp("data"), table()
    parquet.write_table(data, place / "d.parquet", row_group_size=5003)
    feather.write_feather(data, place / "d.arrow", chunksize=3001)
    csv.write_csv(data, place / "d.csv")
    text = (place / "d.csv").read_bytes()
    (place / "d.csv.gz").write_bytes(gzip.compress(text, 1))
    (place / "d.tsv").write_bytes(text.replace(b",", b"\t"))
    with (place / "d.jsonl").open("w") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in data.to_pylist())
    return place


def facts(found: Any) -> str:
    """Return everything that a fit reports, exactly."""
    return repr(
        [
            found.rows,
            {name: np.asarray(value).tolist() for name, value in found.parameters.items()},
            {name: None if value is None else np.asarray(value).tolist() for name, value in found.stderr.items()},
            found.history,
            goodness(found),
            found.loss,
            found.accuracy,
            found.notes,
            found.warnings,
            found.validation_loss,
            found.intervals,
        ]
    )


def without_row_number(text: str) -> str:
    return re.sub(r"row \d+ \(([^)]*)\)", r"the row with \1", text)


def both(paths: list[str], model: str, given: Mapping[str, Any], reading: FileOptions | None = None) -> tuple[str, str]:
    """Return what a fit reports for rows in memory and for streamed rows, with rows named by their cells alone: numbers
    of streamed rows are not known if some are left out.
    """
    options = FileOptions() if reading is None else reading
    whole = ad.fit(model, open_data(paths, options=options), **given)
    files = open_data(paths, options=options)
    streamed = ad.fit(model, files, stream=True, **given)
    assert files.streamed is not None
    return without_row_number(facts(whole)), without_row_number(facts(streamed))


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("cache", CACHES)
def test_every_format(folder: Path, name: str, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if cache == "off":
        monkeypatch.setenv("AUTODIFF_CACHE", "off")
    whole, streamed = both([str(folder / name)], "y ~ a[group]*exp(-b*x)", {"weights": "w"})
    assert streamed == whole


FITS: list[tuple[str, Mapping[str, Any]]] = [
    (CURVE, {"sigma": "s", "x_sigma": {"x": "s"}}),
    (CURVE, {"loss": "huber"}),
    (CURVE, {"loss": "mae"}),
    (CURVE, {"optimizer": "lbfgs", "weights": "w"}),
    (CURVE, {"profile": True}),
    (CURVE, {"bootstrap": 3}),
    (CURVE, {"starts": 3}),
    (CURVE, {"validation": 0.3, "patience": 2, "optimizer": "adam", "epochs": 6, "learning_rate": 0.05}),
    (CURVE, {"validation": 0.3, "batch_size": 500, "epochs": 2}),
    (CURVE, {"optimizer": "rmsprop", "epochs": 3}),
    (CURVE, {"optimizer": "adam", "epochs": 3, "batch_size": 100, "backend": "numpy"}),
    (CURVE, {"optimizer": "adam", "epochs": 3, "batch_size": 100, "backend": "llvm"}),
    ("n ~ exp(a + b*x)", {"family": "poisson"}),
    ("hit ~ sigmoid(a + b*x)", {"loss": "bce", "weights": "w"}),
    ("k ~ softmax([0, a + b*x])", {}),
    ("site ~ softmax(mlp([x, other], [4]))", {"epochs": 5, "optimizer": "adam"}),
    ("[y, n] ~ [a*x, b*x]", {}),
    ("y ~ mlp([x, other], [8], tanh)", {"epochs": 3, "diagnosis": True}),
    ("y ~ a[site]*exp(-b*x) + c*(group == 'east')", {}),
    ("y ~ a*sin(w*x + p)", {}),
    (CURVE, {"plot": True, "l1": 0.01}),
]


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize(("model", "given"), FITS, ids=[*map(str, FITS)])
def test_every_kind_of_fit(folder: Path, model: str, given: Mapping[str, Any]) -> None:
    whole, streamed = both([str(folder / "d.parquet")], model, given)
    assert streamed == whole


@pytest.mark.slow
@each("name", ["d.parquet", "d.csv"])
@each("where", ["x > 1", "group == 'north' and x < 2.5"])
def test_rows_chosen_by_a_condition(folder: Path, name: str, where: str) -> None:
    whole, streamed = both([str(folder / name)], CURVE, {}, FileOptions(where=where))
    assert streamed == whole


@pytest.mark.slow
def test_several_files_and_renamed_columns(folder: Path) -> None:
    paths = [str(folder / name) for name in ("d.csv", "d.parquet", "d.csv.gz")]
    whole, streamed = both(paths, "y ~ a*exp(-b*time)", {}, FileOptions(column=["time=x"]))
    assert streamed == whole
    assert f"[{3 * ROWS}," in streamed


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("name", ["d.parquet", "d.csv", "d.jsonl"])
@pytest.mark.parametrize("cache", CACHES)
def test_missing_cells(tmp_path: Path, name: str, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if cache == "off":
        monkeypatch.setenv("AUTODIFF_CACHE", "off")
    y = table().column("y").to_pylist()
    y[::500] = [None] * len(y[::500])
    group = table().column("group").to_pylist()
    group[7::900] = [None] * len(group[7::900])
    data = pa.table({"x": table().column("x"), "y": y, "group": group})
    path = tmp_path / name
    if name == "d.parquet":
        parquet.write_table(data, path)
    elif name == "d.csv":
        csv.write_csv(data, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in data.to_pylist()))
    whole, streamed = both([str(path)], "y ~ a[group]*exp(-b*x)", {"drop_missing": True})
    assert streamed == whole
    assert "rows left out because a cell is missing" in streamed
    with pytest.raises(ad.DataError) as in_memory:
        ad.fit(CURVE, str(path))
    with pytest.raises(ad.DataError) as in_blocks:
        ad.fit(CURVE, str(path), stream=True)
    first = str(in_memory.value).splitlines()[1]  # the first of several problems
    assert first in str(in_blocks.value)
    assert in_blocks.value.missing


@pytest.mark.slow
def test_cells_that_only_careful_reading_understands(tmp_path: Path) -> None:
    x = np.linspace(0, 3, ROWS)
    path = tmp_path / "d.csv"
    days = [f"2024-01-{1 + k % 28:02}" for k in range(ROWS)]
    rows = (f'{x[k]:.6f},"1,{k % 900 + 100}",{days[k]}\n' for k in range(ROWS))
    path.write_text("x,y,day\n" + "".join(rows))
    whole, streamed = both([str(path)], "y ~ a*x + b*day + c", {})
    assert streamed == whole


@pytest.mark.slow
def test_checkpoints_go_on_whether_rows_are_streamed_or_not(folder: Path, tmp_path: Path) -> None:
    path, kept = str(folder / "d.parquet"), str(tmp_path / "fit.checkpoint")
    whole = ad.fit(CURVE, path, optimizer="adam", epochs=8)
    ad.fit(CURVE, path, optimizer="adam", epochs=4, stream=True, checkpoint=kept)
    assert ad.fit(CURVE, path, optimizer="adam", epochs=8, resume=kept).history == whole.history


@pytest.mark.slow
def test_long_orders_of_mini_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from autodiff_cli.backends import gradient_descent
    from autodiff_cli.training import rows

    for module in (gradient_descent, rows):
        monkeypatch.setattr(module, "MAX_FULL_SHUFFLE_ROWS", 10_000)
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 3, 60_000)
    path = tmp_path / "d.parquet"
    parquet.write_table(pa.table({"x": x, "y": 2 * np.exp(-1.3 * x), "w": rng.uniform(size=len(x))}), path)
    for given in (
        {"batch_size": 100},
        {"batch_size": 300, "weights": "w"},
        {"batch_size": 30_000},
        {"batch_size": 10**6},
        {"batch_size": 700, "validation": 0.25},
    ):
        for backend in ("numpy", "llvm"):
            whole, found = both([str(path)], CURVE, {**given, "epochs": 2, "backend": backend})
            assert found == whole


def test_what_streamed_rows_cannot_do_is_named(folder: Path) -> None:
    path = str(folder / "d.parquet")
    with pytest.raises(OptionError, match="a column or an expression"):
        ad.fit(CURVE, path, stream=True, weights=np.ones(ROWS))
    with pytest.raises(OptionError, match="in memory already"):
        ad.fit("y ~ a*x", {"x": [1, 2], "y": [1, 2]}, stream=True)


def test_mini_batches_need_a_file_on_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTODIFF_CACHE", "off")
    with pytest.raises(ad.DataError, match="AUTODIFF_CACHE=off"):
        ad.fit(CURVE, str(folder / "d.parquet"), stream=True, batch_size=100)


def test_the_progress_of_each_pass_counts_the_rows_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "_PROGRESS_SECONDS", 0.0)
    path = tmp_path / "d.parquet"
    parquet.write_table(table(), path)
    reports: list[streaming.PassProgress] = []
    columns = streaming.StreamedColumns(open_data([str(path)]), ["x", "y"], [], "a test", on_progress=reports.append)
    sizes = [rows for _ in range(2) for _, rows in columns.iter_chunks(["x"])]
    chunks = len(sizes) // 2
    assert [report.number for report in reports] == np.repeat([1, 2, 3], chunks).tolist()
    assert [report.total for report in reports] == [*[None] * chunks, *[ROWS] * 2 * chunks]
    assert [report.rows for report in reports] == np.tile(np.cumsum(sizes[:chunks]), 3).tolist()
    assert sum(sizes) == 2 * ROWS
    assert columns.rows_read == 3 * ROWS
    monkeypatch.setattr(streaming, "_PROGRESS_SECONDS", 60.0)
    del reports[:]
    assert sum(rows for _, rows in columns.iter_chunks(["x"])) == ROWS
    assert [report.rows for report in reports] == sizes[:1]


def test_searches_for_starts_of_streamed_fits_run_on_rows_in_memory(tmp_path: Path) -> None:
    """A sample of all of few rows counts too; otherwise each point of a search is a pass over the file."""
    file = tmp_path / "rows.csv"
    file.write_text("x,y\n1,2\n2,3\n3,5\n", encoding="utf-8")
    streamed = Objective.of(Model.parse("y ~ a*x", ("x", "y")), open_data([str(file)]), FitOptions(stream=True))
    assert not isinstance(streamed.data, MemoryRows)
    assert isinstance(subsample(streamed).data, MemoryRows)

"""Files that workers read themselves: the fit is that of memory, and so is what is wrong."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from autodiff_cli.data.dialect import FileOptions
from autodiff_cli.data.files import open_data
from autodiff_cli.data.table import DataError
from autodiff_cli.training.fitting.fit import fit_dataset
from autodiff_cli.training.objective import cluster as on_cluster
from autodiff_cli.training.objective.cluster import ClusterData, ClusterRows
from autodiff_cli.training.objective.cluster_connection import connect_cluster
from autodiff_cli.training.options import FitOptions

pytest.importorskip("distributed")

ROWS = 20_000
MODEL = "y ~ a*exp(-b*x) + c"


def table() -> dict[str, Any]:
    generator = np.random.default_rng(5)
    x = np.round(generator.uniform(0, 3, ROWS), 6)
    y = np.round(2 * np.exp(-1.3 * x) + 0.3 + generator.normal(size=ROWS) * 0.05, 6)
    return {
        "x": x,
        "y": y,
        "w": np.round(generator.uniform(0.1, 2, ROWS), 3),
        "g": np.array(["A", "B", "C"])[generator.integers(0, 3, ROWS)],
        "k": (x + generator.normal(size=ROWS) > 1.5).astype(np.int64),
    }


TABLE = table()


def text(columns: dict[str, Any] = TABLE) -> str:
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("rows")
    (found / "a.csv").write_text(text())
    (found / "a.csv.gz").write_bytes(gzip.compress(text().encode()))
    parquet.write_table(pa.table(TABLE), found / "a.parquet", row_group_size=3000)
    feather.write_feather(pa.table(TABLE), found / "a.arrow")
    lines = text().splitlines()
    lines[100], lines[9000] = "1,,1,A,0", "1,1,1,,0"
    (found / "gaps.csv").write_text("\n".join(lines))
    lines[100], lines[9000] = "1,x,1,A,0", "1,1"
    (found / "broken.csv").write_text("\n".join(lines))
    (found / "quoted.csv").write_text(text().replace(",A,", ',"A",'))
    (found / "dates.csv").write_text("".join(["t,y\n", *(f"2020-01-{day:02},{day}.5\n" for day in range(2, 29))]))
    (found / "empty.csv").write_text("x,y,w,g,k\n")
    return found


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[type]:
    """How data were opened."""
    found: list[type] = []
    for kind in (ClusterData, on_cluster.ScatteredData):

        class Noted(kind):  # type: ignore[misc, valid-type]
            def __init__(self, *arguments: Any, kind: type = kind) -> None:
                super().__init__(*arguments)
                found.append(kind)

        monkeypatch.setattr(on_cluster, kind.__name__, Noted)
    return found


def options(cluster: Any = None, **given: Any) -> FitOptions:
    return FitOptions(**given, cluster=cluster)


def both(model: str, paths: list[str], client: Any, how: FileOptions, **given: Any) -> tuple[list[Any], list[Any]]:
    """The fit, or what is wrong with it, and what is said of the file: in memory, and on the cluster."""
    results = []
    for on in (None, client):
        with connect_cluster(on) as cluster:
            file = open_data(paths, options=how)
            try:
                results.append([repr(fit_dataset(model, file, options(cluster, **given))), file.notes, file.origins])
            except DataError as error:
                results.append([str(error)])
    return results[0], results[1]


SAME: dict[str, tuple[str, list[str], dict[str, Any], dict[str, Any]]] = {
    "parquet": (MODEL, ["a.parquet"], {}, {}),
    "text": (MODEL, ["a.csv"], {}, {}),
    "zipped": (MODEL, ["a.csv.gz"], {}, {}),
    "arrow": (MODEL, ["a.arrow"], {}, {}),
    "several": (MODEL, ["a.csv", "a.parquet"], {}, {}),
    "a condition": (MODEL, ["a.parquet"], {"where": "x > 1 and g == 'B'"}, {}),
    "a condition of several": (MODEL, ["a.csv", "a.parquet"], {"where": "x > 1 and g == 'Q' or x < 1"}, {}),
    "missing cells": (MODEL, ["gaps.csv"], {}, {"drop_missing": True}),
    "missing labels": ("y ~ a[g]*exp(-b*x)", ["gaps.csv"], {}, {"drop_missing": True}),
    "weights": (MODEL, ["a.parquet"], {}, {"weights": "w", "loss": "huber"}),
    "errors": (MODEL, ["a.csv"], {}, {"sigma": "w", "x_sigma": {"x": "w"}, "start": {"a": 2}}),
    "levels": ("y ~ a[g]*exp(-b*x)", ["a.csv"], {}, {}),
    "a text": ("y ~ a + b*(g == 'A') + c*(g == 'Z')", ["a.parquet"], {}, {}),
    "classes": ("g ~ softmax([0, a*x + b, c*x + d])", ["a.csv"], {}, {}),
    "classes by number": ("k ~ softmax([0, a*x + b])", ["a.parquet"], {}, {}),
    "vectors": ("y ~ dot(v, [x, w, 1])", ["a.csv"], {}, {"start": {"v": [0.0, 0.0, 0.0]}}),
}
SHORT = {"missing labels"}


@pytest.mark.sampled
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in SHORT)) for name in SAME])
def test_workers_read_what_one_reader_reads(name: str, folder: Path, client: Any, ways: list[type]) -> None:
    model, files, how, given = SAME[name]
    here, there = both(model, [str(folder / file) for file in files], client, FileOptions(**how), **given)
    assert there == here
    assert ways == [ClusterData]


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize(
    ("file", "how", "given"),
    [
        ("gaps.csv", {}, {}),
        ("broken.csv", {}, {}),
        ("broken.csv", {}, {"drop_missing": True}),
        ("quoted.csv", {}, {}),
        ("dates.csv", {}, {}),
        ("empty.csv", {}, {}),
        ("a.csv", {"where": "x > 100"}, {}),
        ("a.parquet", {"where": "g == 'D'"}, {}),
        ("a.csv", {}, {"weights": "nothing"}),
        ("a.csv", {}, {"weights": np.arange(ROWS) % 7}),
    ],
)
def test_errors_and_warnings_are_those_of_rows_in_memory(
    file: str, how: dict[str, Any], given: dict[str, Any], folder: Path, client: Any
) -> None:
    model = "y ~ a + b*t" if file.startswith("dates") else MODEL
    here, there = both(model, [str(folder / file)], client, FileOptions(**how), **given)
    assert there == here


def test_a_weight_that_is_none_is_named_by_its_row(folder: Path, client: Any) -> None:
    path = folder / "weights.csv"
    path.write_text(text({**TABLE, "w": np.where(np.arange(ROWS) == 15_000, -1, TABLE["w"])}))
    here, there = both(MODEL, [str(path)], client, FileOptions(), weights="w")
    assert there == here
    assert "row 15001 has -1" in there[0]


@pytest.mark.parametrize("where", [None, "x > 0"])
def test_a_row_is_named_by_its_number_if_none_is_left_out(where: str | None, folder: Path, client: Any) -> None:
    path = folder / "outlier.csv"
    x, noise = np.arange(-50.0, ROWS - 50), np.random.default_rng(2).normal(size=ROWS)
    path.write_text(text({"x": x, "y": x + np.where(x == 100, 30, noise)}))
    with connect_cluster(client) as cluster:
        fit = fit_dataset("y ~ a*x", open_data([str(path)], options=FileOptions(where=where)), options(cluster))
    [outlier] = [warning for warning in fit.warnings if "is an outlier" in warning]
    assert outlier.startswith("the row with" if where else "row 151 (y = 130, x = 100)")


def test_a_file_that_a_worker_does_not_find_is_named(
    folder: Path, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "here.csv"
    path.write_text(text())
    real = on_cluster.divide_files

    def elsewhere(*given: Any) -> Any:
        found = real(*given)
        path.unlink()
        return found

    monkeypatch.setattr(on_cluster, "divide_files", elsewhere)
    with connect_cluster(client) as cluster, pytest.raises(DataError) as caught:
        fit_dataset(MODEL, open_data([str(path)]), options(cluster))
    said = str(caught.value)
    assert f"cannot read {path}: no such file or directory" in said
    assert "the worker inproc://" in said
    assert "each worker must find the file under this name" in said


@pytest.mark.slow
def test_a_file_that_changes_before_it_is_read_again_is_an_error(folder: Path, client: Any) -> None:
    path = folder / "changing.csv"
    path.write_text(text())
    with connect_cluster(client) as cluster:
        assert cluster is not None
        from autodiff_cli.training.objective.objective import Objective

        objective = Objective.of(MODEL, open_data([str(path)]), options(cluster))
        before = objective.value([1, 1, 1])
        rows = objective.data
        assert isinstance(rows, ClusterRows)
        lost = rows._partitions.futures[0].key
        path.write_text(text({**TABLE, "y": TABLE["y"][::-1]}))  # as many bytes

        def forget(dask_scheduler: Any) -> None:
            task = dask_scheduler.tasks[lost]
            dask_scheduler.transitions({lost: "released"}, "test")
            assert task.state != "memory"

        assert objective.value([1, 1, 1]) == before
        client.run_on_scheduler(forget)
        with pytest.raises(DataError, match="the data changed during the fit"):
            objective.value([2, 1, 1])

"""Streamed rows under adverse conditions: little memory, files that change or end early, interrupts."""

from __future__ import annotations

import contextlib
import functools
import gzip
import itertools
import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import autodiff_cli as ad
from autodiff_cli.data import delimited, source, streaming
from autodiff_cli.data.files import DataSource, open_data
from autodiff_cli.data.streaming import DecodedColumns, StreamedColumns, extend_checksum
from autodiff_cli.training.objective import loading
from autodiff_cli.training.options import FitOptions
from tests.each import amount
from tests.support import ROOT, expect_refusal, run_cli

CURVE = "y ~ a*exp(-b*x)"


def table(rows: int = 2000) -> Any:
    x = np.linspace(0, 3, rows)
    return pa.table({"x": x, "y": 2 * np.exp(-1.3 * x) + 0.01 * np.sin(99 * x)})


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.mark.parametrize("keeps_its_date", [False, True])
def test_a_file_that_changes_between_passes(tmp_path: Path, keeps_its_date: bool) -> None:
    path = tmp_path / "d.parquet"
    parquet.write_table(table(), path)
    before = path.stat()

    def change(epoch: Any) -> None:
        if epoch.number == 2:
            other = table()
            parquet.write_table(other.set_column(1, "y", pa.array(other.column("y").to_numpy()[::-1].copy())), path)
            if keeps_its_date:
                os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    with pytest.raises(ad.DataError, match="the data changed while they were read"):
        ad.fit(CURVE, str(path), stream=True, on_epoch=change)
    with pytest.raises(ad.DataError, match=r"d\.parquet: no such file"):
        ad.fit(CURVE, str(path), stream=True, on_epoch=lambda _: path.unlink(missing_ok=True))


@pytest.mark.parametrize("change", ["values", "fewer rows", "more rows", "date"])
def test_what_changes_while_a_file_is_read_again_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    path, signatures = tmp_path / "d.parquet", itertools.count()
    parquet.write_table(table(), path)
    read_files = StreamedColumns._read_files

    def read_again(self: StreamedColumns, names: Any) -> Any:
        chunks = [*read_files(self, names)]
        if change == "values":
            self._checksums["y"] += 1
        if change == "date":
            monkeypatch.setattr(DataSource, "signature", lambda _: next(signatures))
        yield from chunks[change == "fewer rows" :] + chunks[: change == "more rows"]

    def begin(_: Any) -> None:
        monkeypatch.setattr(StreamedColumns, "_read_files", read_again)

    with pytest.raises(ad.DataError, match="the data changed while they were read"):
        ad.fit(CURVE, str(path), stream=True, on_epoch=begin)


def test_a_checksum_depends_on_the_order_of_chunks_and_on_the_first_of_many() -> None:
    chunks = [np.array([1.0, 2.0]), np.array([3.0, 0.5]), np.array([-7.0, 1e300])]
    orders = [functools.reduce(extend_checksum, order, 0) for order in itertools.permutations(chunks)]
    assert len({*orders}) == len(orders)
    beginnings = [functools.reduce(extend_checksum, [first, *chunks * 40], 0) for first in chunks]
    assert len({*beginnings}) == len(beginnings)


@pytest.mark.slow
def test_a_file_that_was_decoded_may_change(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    csv.write_csv(table(), path)
    whole = ad.fit(CURVE, str(path))
    assert ad.fit(CURVE, str(path), stream=True, on_epoch=lambda _: path.write_text("")).parameters == whole.parameters


def test_files_that_end_early(tmp_path: Path) -> None:
    parquet.write_table(table(), tmp_path / "whole.parquet")
    (tmp_path / "d.parquet").write_bytes((tmp_path / "whole.parquet").read_bytes()[:9000])
    csv.write_csv(table(), tmp_path / "d.csv")
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress((tmp_path / "d.csv").read_bytes())[:9000])
    for name, words in (("d.parquet", "d.parquet: "), ("d.csv.gz", "d.csv.gz: ")):
        expect_refusal(run_cli(["train", CURVE, str(tmp_path / name), "--stream"]), words)


def test_a_cell_that_is_no_number_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    csv.write_csv(table(), path)
    path.write_text(path.read_text() + "3.1,two\n")
    expect_refusal(run_cli(["train", CURVE, str(path), "--stream"]), 'line 2002, column `y`: "two" is not a number')


@pytest.mark.parametrize(("model", "options", "cell", "words"), [
    ("y ~ a + b*x", {"weights": "w"}, "-1,1,1,a", "weights: row 230 has"),
    ("y ~ a + b*x", {"sigma": "w"}, "0,1,1,a", "sigma: row 230 has"),
    ("y ~ a + b*x", {}, "1,,1,a", "line 231, column `x`: empty"),
    ("y ~ a + b*x", {}, "1,one,1,a", "line 231, column `x`: "),
    ("y ~ a + b*x", {}, "1,1,2,2,a", "line 231: 5 cells"),
    ("y ~ a[g] + b*x", {}, "1,1,2,", "line 231, column `g`: empty"),
    ("log(y) ~ a + b*x", {}, "1,1,-1,a", "in row 230 (y = -1, x = 1)"),
    ("y ~ a + b*log(x)", {}, "1,-1,2,a", "in row 230 (y = 2, x = -1)"),
    ("y ~ a + b^x", {"start": {"b": 1e9}}, "1,99,2,a", "in row 230 (y = 2, x = 99)"),
])  # fmt: skip
def test_a_row_is_named_by_its_number_in_whichever_chunk_it_is(
    model: str, options: dict[str, Any], cell: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "_MAX_CHUNK_ROWS", 100)
    monkeypatch.setattr(streaming, "MIN_CHUNK_ROWS", 100)
    monkeypatch.setattr(delimited, "_LINE_BLOCK_BYTES", 1000)
    lines = [cell if k == 230 else f"1,{k / 50},{2 + k / 70 + k % 7},{'ab'[k % 2]}" for k in range(1, 251)]
    (tmp_path / "d.csv").write_text("\n".join(["w,x,y,g", *lines, ""]))
    said = []
    for stream in (False, True):
        try:
            said.append(ad.fit(model, str(tmp_path / "d.csv"), stream=stream, **options).failure)
        except ad.DataError as error:
            said.append(str(error))
    assert words in said[0]
    assert said[0] == said[1]


def test_many_rows_are_gathered_in_little_memory(tmp_path: Path) -> None:
    rows, chunk = 200_000, 8192
    decoded = DecodedColumns(tmp_path, ["x"], chunk)
    for start in range(0, rows, chunk):
        part = np.arange(start, min(start + chunk, rows), dtype=float)
        decoded.add({"x": part}, len(part))
    numbers = np.random.default_rng(0).integers(0, rows, rows // 4)
    numbers[:3] = rows - 1, 0, rows - 1  # far from each other, and one twice
    tracemalloc.start()
    found = decoded.gather(numbers, ["x"])["x"]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.array_equal(found, numbers)
    assert peak < 6 * numbers.nbytes
    assert decoded.gather(np.array([], int), ["x"])["x"].size == 0


@pytest.mark.slow
@pytest.mark.parametrize("limit_mb", [500, 340, 160])
def test_a_fit_under_any_limit_ends_in_a_result_or_a_message(tmp_path: Path, limit_mb: int) -> None:
    resource = pytest.importorskip("resource")
    path = tmp_path / "d.csv"
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 3, 1_000_000)
    csv.write_csv(pa.table({"x": x, "y": 2 * np.exp(-1.3 * x) + rng.normal(0, 0.01, len(x))}), path)
    bytes_ = limit_mb * 1_000_000
    run = subprocess.run(
        [sys.executable, "-m", "autodiff_cli", "train", CURVE, str(path), "--json"],
        capture_output=True, cwd=ROOT, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (bytes_, bytes_)),
    )  # fmt: skip
    if run.returncode == 0:
        assert json.loads(run.stdout)["parameters"]["b"] == pytest.approx(1.3, abs=1e-3)
    else:
        assert run.returncode in (1, 2)
        assert run.stderr.splitlines()[-1].startswith("error: not enough memory"), run.stderr


@pytest.mark.exhaustive
def test_a_limit_between_two_that_suffice_suffices(tmp_path: Path) -> None:
    """Whatever is loaded where there is room for it, LLVM above all, leaves enough for the rest of the fit."""
    pytest.importorskip("resource")
    path = tmp_path / "d.parquet"
    x = np.linspace(0, 3, 2**21)
    parquet.write_table(pa.table({"x": x, "y": 2 * np.exp(-1.3 * x)}), path, row_group_size=2**20)
    code = f"""
import os, resource, sys
import numpy, pyarrow.parquet
import autodiff_cli as ad

def fits(limit):
    process = os.fork()
    if not process:
        size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + limit * 2**20,) * 2)
        found = ad.fit("{CURVE}", {str(path)!r}, stream=True, epochs=2)
        os._exit(found.rows != 2**21)
    return os.waitpid(process, 0)[1] == 0

limits = [limit for limit in range(300, 390, {amount(40, 40, 10)}) if not fits(limit)]
print(limits, file=sys.stderr)
"""
    process = child(code)
    _, err = process.communicate(timeout=600)
    assert err.splitlines()[-1] == "[]", err


@pytest.mark.parametrize("is_limited", [False, True])
def test_chunks_take_a_share_of_the_memory_and_are_as_long_as_it_allows(
    is_limited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "has_memory_limits", lambda: is_limited)
    fixed, longest = (64 << 20, 1 << 14) if is_limited else (24 << 20, 1 << 16)
    for columns in (1, 3, 40, 700):
        copies = 8 * 8 * columns  # bytes of the copies of a row
        least = fixed + 8192 * copies
        monkeypatch.setattr(streaming, "available_memory", lambda enough=least: enough - 1)
        with pytest.raises(ad.DataError, match=f"{columns} columns needs {least / 2**20:.0f} MB"):
            streaming._chunk_rows(columns)
        for available in (least, 3 * least, 20 * least, 1 << 40):
            monkeypatch.setattr(streaming, "available_memory", lambda amount=available: amount)
            chunk, share = streaming._chunk_rows(columns), min((available - fixed) // 4, 128 << 20)
            assert 8192 <= chunk <= longest
            assert (chunk // 8192).bit_count() == 1
            assert chunk == 8192 or chunk * copies <= share
            assert chunk == longest or 2 * chunk * copies > share
    monkeypatch.setattr(streaming, "available_memory", lambda: None)
    assert streaming._chunk_rows(3) == 1 << 16


def test_too_little_memory_for_one_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "d.parquet"
    parquet.write_table(table(), path)
    monkeypatch.setattr(streaming, "available_memory", lambda: 1 << 20)
    expect_refusal(run_cli(["train", CURVE, str(path), "--stream"]), "the smallest block of 8192 rows")


@pytest.mark.parametrize(("model", "options", "numbers", "labels"), [
    ("y ~ a*x", {}, 2, 0),
    ("y ~ a*x + z*b", {"weights": "w"}, 4, 0),
    ("y ~ a[g]*x", {"sigma": "w"}, 3, 1),
    ("y ~ a[g]*x + (h == 'u')", {}, 2, 2),
])  # fmt: skip
def test_only_columns_that_a_fit_reads_take_memory_8_bytes_for_a_number_and_64_for_a_label(
    model: str, options: Any, numbers: int, labels: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = {name: np.arange(1.0, 7.0) for name in "xyzw"} | {name: ["u", "v"] * 3 for name in "gh"}
    parquet.write_table(pa.table(columns), tmp_path / "d.parquet")
    monkeypatch.setattr(loading, "_MIN_STREAMED_BYTES", 0)
    half = 6 * (8 * numbers + 64 * labels)
    read = (open_data([str(tmp_path / "d.parquet")]), ad.Objective(model, columns).model, FitOptions(**options))
    for reserved in (0, source.RESERVED_BYTES):  # of an address space with a limit, a part is reserved
        monkeypatch.setattr(loading, "has_memory_limits", lambda is_limited=reserved > 0: is_limited)
        for available, is_streamed in ((reserved + 2 * half, False), (reserved + 2 * half - 1, True), (None, False)):
            monkeypatch.setattr(loading, "available_memory", lambda amount=available: amount)
            assert bool(loading.streaming_reason(*read)) is is_streamed


@pytest.mark.slow
def test_what_is_larger_than_half_of_the_memory_is_streamed_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "d.parquet"
    parquet.write_table(table(), path)
    monkeypatch.setattr(loading, "_MIN_STREAMED_BYTES", 0)
    monkeypatch.setattr(loading, "available_memory", lambda: 4 * 8 * 2000)
    files = open_data([str(path)])
    ad.fit(CURVE, files)
    assert files.streamed is None  # exactly half of the memory
    monkeypatch.setattr(loading, "available_memory", lambda: 4 * 8 * 2000 - 2)
    monkeypatch.setattr(loading, "has_memory_limits", lambda: True)  # reserved address space counts
    monkeypatch.setattr(loading, "available_memory", lambda: source.RESERVED_BYTES + 4 * 8 * 2000 - 2)
    output = run_cli(["train", CURVE, str(path)])
    assert "the rows are streamed (their columns take about 0 MB, more than half of the available" in output.stderr
    assert "million rows a second" in output.stderr
    assert output.status == 0


@pytest.mark.parametrize("name", ["d.parquet", "d.csv", "d.csv.gz", "d.jsonl", "d.arrow"])
def test_rows_are_estimated_before_they_are_read(tmp_path: Path, name: str) -> None:
    from pyarrow import feather

    rows = 30_000
    data = table(rows)
    path = tmp_path / name
    text = "x,y\n" + "".join(f"{x:.5f},{y:.5f}\n" for x, y in zip(*(c.to_pylist() for c in data.columns), strict=True))
    if name == "d.parquet":
        parquet.write_table(data, path)
    elif name == "d.arrow":
        feather.write_feather(data, path, chunksize=6_000)
    elif name == "d.jsonl":
        path.write_text("".join(f'{{"x": {k}, "y": 1.5}}\n' for k in range(rows)))
    else:
        path.write_bytes(gzip.compress(text.encode(), 6) if name.endswith("gz") else text.encode())
    assert open_data([str(path)]).estimate_rows() == pytest.approx(rows, rel=0.15)


def test_standard_input_is_spooled_to_disk_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "x,y\n" + "".join(f"{k},{2 * k + k % 2}\n" for k in range(50))
    whole = run_cli(["train", "y ~ a*x", "-", "--json"], stdin=text)
    assert run_cli(["train", "y ~ a*x", "-", "--json", "--stream"], stdin=text) == whole
    monkeypatch.setattr(source, "_MEMORY_CHECK_BYTES", 10)
    monkeypatch.setattr(source, "available_memory", lambda: 100)  # so little that it is spooled without --stream
    assert run_cli(["train", "y ~ a*x", "-", "--json"], stdin=text) == whole
    monkeypatch.setenv("AUTODIFF_CACHE", "off")
    expect_refusal(run_cli(["train", "y ~ a*x", "-", "--stream"], stdin=text), "AUTODIFF_CACHE=off")


@pytest.mark.slow
def test_no_room_on_disk_costs_time_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "d.csv"
    csv.write_csv(table(30_000), path)
    monkeypatch.setattr(streaming, "_MAX_CHUNK_ROWS", streaming.MIN_CHUNK_ROWS)
    plain, written = DecodedColumns.add, []

    def add(self: DecodedColumns, *given: Any) -> None:
        written.append(given)
        if len(written) == 3:
            raise OSError(28, "No space left on device")
        plain(self, *given)

    monkeypatch.setattr(DecodedColumns, "add", add)
    files = open_data([str(path)])
    found = ad.fit(CURVE, files, stream=True)
    assert found.parameters == ad.fit(CURVE, str(path)).parameters
    assert files.streamed is not None
    assert files.streamed._decoded is None
    assert "read again in every pass" in files.notes[-1]


def test_memory_that_control_groups_leave(tmp_path: Path) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    with contextlib.suppress(OSError):
        total = 1024 * int(Path("/proc/meminfo").read_text().split()[1])
        assert [*source._machine_memory(proc)] == [pytest.approx(total, rel=0.1)]
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 100 kB\nMemAvailable: 90 kB\n")
    (proc / "self" / "statm").write_text("0 0 0 0 0 0 0\n")
    (proc / "self" / "cgroup").write_text("5:cpuset:/\n4:cpu,memory:/jobs/one\n0::/user/two\n")
    assert source.available_memory(proc, groups) == 90 * 1024

    def write(folder: Path, **files: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name.replace("memory_", "memory.")).write_text(text)

    write(groups / "user" / "two", memory_max="max\n", memory_current="10\n", memory_stat="inactive_file 4\n")
    write(groups / "user", memory_max="50000\n", memory_current="10000\n", memory_stat="inactive_file 4000\n")
    assert source.available_memory(proc, groups) == 44_000
    write(groups / "memory" / "jobs" / "one", memory_limit_in_bytes="9000", memory_usage_in_bytes="8000")
    write(groups / "memory" / "jobs" / "one", memory_stat="cache 5\ntotal_inactive_file 500\n")
    assert source.available_memory(proc, groups) == 1500


@pytest.mark.parametrize(("kind", "pages"), [(resource.RLIMIT_AS, 30), (resource.RLIMIT_DATA, 5)])
def test_memory_that_limits_of_the_process_leave(
    kind: int, pages: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "meminfo").write_text(f"MemAvailable: {1 << 40} kB\n")
    (tmp_path / "self" / "statm").write_text("30 0 0 0 0 5 0\n")  # pages: of all, and of data
    maximum = 100 * resource.getpagesize()
    limits = {kind: (maximum, resource.RLIM_INFINITY)}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits.get(kind, (resource.RLIM_INFINITY,) * 2))
    assert source.available_memory(tmp_path, tmp_path) == (100 - pages) * resource.getpagesize()
    limits[kind] = resource.getpagesize(), resource.RLIM_INFINITY
    assert source.available_memory(tmp_path, tmp_path) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["d.csv", "d.parquet", "d.jsonl"])
def test_predictions_of_what_is_larger_than_memory(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 20_000
    data = table(rows).append_column("g", pa.array(["north", "south"] * (rows // 2)))
    path = tmp_path / name
    if name == "d.csv":
        csv.write_csv(data, path, csv.WriteOptions(quoting_style="none"))
    elif name == "d.parquet":
        parquet.write_table(data, path)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in data.to_pylist()))
    model = str(tmp_path / "model.json")
    assert run_cli(["train", "y ~ a[g]*exp(-b*x)", str(path), "--save", model]).status == 0
    monkeypatch.setattr(streaming, "_MAX_CHUNK_ROWS", streaming.MIN_CHUNK_ROWS)
    for words in ([], ["--interval", "0.9", "--residuals"], ["--json"]):
        whole = run_cli(["predict", model, str(path), *words])
        assert whole.status == 0
        with monkeypatch.context() as patch:
            patch.setattr(loading, "_MIN_STREAMED_BYTES", 0)
            patch.setattr(loading, "available_memory", lambda: 1)
            parts = run_cli(["predict", model, str(path), *words])
        assert "the rows are streamed" in parts.stderr
        assert parts == whole


def test_a_level_that_was_not_fitted_ends_predictions_before_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, model = tmp_path / "d.csv", str(tmp_path / "model.json")
    data.write_text("x,y,g\n" + "".join(f"{k},{k * k + 1},{'ab'[k % 2]}\n" for k in range(20)))
    assert run_cli(["train", "y ~ a[g]*x", str(data), "--save", model]).status == 0
    data.write_text(data.read_text() + "20,400,c\n")
    monkeypatch.setattr(loading, "_MIN_STREAMED_BYTES", 0)
    monkeypatch.setattr(loading, "available_memory", lambda: 1)
    expect_refusal(run_cli(["predict", model, str(data)]), "the model was not fitted with the level `c`")


def child(code: str, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, text=True, stderr=subprocess.PIPE, **more)


@pytest.mark.slow
def test_an_interrupt_leaves_no_file(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "d.csv"
    csv.write_csv(table(50_000), path)
    words = ["autodiff", "train", CURVE, str(path), "--stream", "--optimizer", "adam", "--epochs", "1000000"]
    process = child(
        f"import sys; sys.argv = {words!r}; from autodiff_cli.cli.main import main; sys.exit(main())",
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.split()[:1] == ["10"]:
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "the report has the best parameters so far" in err
    assert "a" in out
    assert not [file for file in cache.rglob("*") if file.is_file() and file.stat().st_size > 200_000]


LIMITS = {"RLIMIT_AS": 300 * 2**20, "RLIMIT_DATA": 150 * 2**20}  # bytes beyond those of the imports


def write_large_file(path: Path, blocks: int) -> None:
    rng, rows = np.random.default_rng(0), 2**21
    with parquet.ParquetWriter(path, pa.schema([("x", pa.float64()), ("y", pa.float64())])) as writer:
        for _ in range(blocks):
            x = np.round(rng.uniform(0, 3, rows), 3)
            writer.write_table(pa.table({"x": x, "y": np.round(2 * np.exp(-1.3 * x), 2)}), row_group_size=2**20)


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["RLIMIT_AS", pytest.param("RLIMIT_DATA", marks=pytest.mark.exhaustive)])
def test_a_file_larger_than_the_limit(tmp_path: Path, limit: str) -> None:
    resource = pytest.importorskip("resource")
    blocks = math.ceil(1.2 * LIMITS[limit] / 2**25)  # of 2**21 rows, which are 2**25 bytes in memory
    write_large_file(path := tmp_path / "d.parquet", blocks)
    code = f"""
import resource, sys
import numpy, pyarrow.parquet
size, data = (int(open("/proc/self/statm").read().split()[k]) * resource.getpagesize() for k in (0, 5))
most = (size if "{limit}" == "RLIMIT_AS" else data) + {LIMITS[limit]}
resource.setrlimit(resource.{limit}, (most, most))
import autodiff_cli as ad
found = ad.fit("{CURVE}", {str(path)!r}, epochs=2)
print(found.rows, found.parameters, file=sys.stderr)
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))  # of this process
print(peak.split()[1], file=sys.stderr)
"""
    begun = time.monotonic()
    process = child(code)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    first, last = err.splitlines()[-2:]
    assert first.startswith(f"{blocks * 2**21} ")
    assert int(last) < 400 * 1024, f"{last} kB after {time.monotonic() - begun:.0f} s"
    assert resource.RLIMIT_AS != resource.RLIMIT_DATA


def test_reserved_memory_counts_under_a_limit_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Rows:
        def estimate_rows(self) -> int:
            return 1000

    dataset: Any = Rows()
    monkeypatch.setattr(loading, "_MIN_STREAMED_BYTES", 0)
    needed = 2 * 8 * 1000
    for is_limited, free, fits in (
        (False, needed, True),
        (False, needed - 1, False),
        (False, None, True),
        (True, needed, False),
        (True, needed + source.RESERVED_BYTES, True),
        (True, needed + source.RESERVED_BYTES - 1, False),
        (True, None, True),
    ):
        monkeypatch.setattr(loading, "has_memory_limits", lambda is_limited=is_limited: is_limited)
        monkeypatch.setattr(loading, "available_memory", lambda free=free: free)
        assert (loading.memory_shortage(dataset, 1, 0) is None) == fits, (is_limited, free)


def test_columns_on_disk_are_read_whole_if_the_system_returns_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded, column = DecodedColumns(tmp_path, ["x", "y"], 8), np.arange(8.0)
    decoded.add({"x": column, "y": 10 + column}, 8)
    decoded.add({"x": -column, "y": -10 - column}, 5)
    whole = decoded._bytes.read_into
    monkeypatch.setattr(decoded._bytes, "read_into", lambda view, offset: whole(view[:24], offset))
    buffers = {"x": np.empty(8), "y": np.empty(8)}
    assert decoded.read(0, buffers) == 8
    assert [*buffers["x"], *buffers["y"]] == [*column, *(10 + column)]
    assert decoded.read(1, buffers) == 5
    assert [*buffers["y"][:5]] == [*(-10 - column[:5])]
    assert decoded.gather(np.array([1, 7, 12]), ["y"])["y"].tolist() == [11, 17, -14]

"""What goes wrong around the program: full disks, folders that cannot be written, kills, others at the same file."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import autodiff_cli as ad

AUTODIFF = str(Path(sys.executable).with_name("autodiff"))
TRACE = [AUTODIFF, "trace", "x*y + sin(x)", "--x", "2", "--y", "3"]


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "line.csv"
    path.write_text("x,y\n" + "".join(f"{k},{2 * k + 1}\n" for k in range(50)))
    return str(path)


def limited_to(size: int) -> None:
    """Let this process write files of so many bytes at most, as on a disk that is nearly full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.sampled
@pytest.mark.parametrize("ending", ["html", "json", "svg"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"page.{ending}"
    path.write_text("old")
    # Without PYTHONDONTWRITEBYTECODE Python would leave bytecode that the limit cut off, for all later processes.
    done = subprocess.run(
        [*TRACE, "-o", str(path)], capture_output=True, text=True, preexec_fn=lambda: limited_to(100),
        env={**os.environ, "AUTODIFF_CACHE": "off", "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 1
    assert f"error: cannot write {path}: " in done.stderr
    assert [*tmp_path.iterdir()] == [path]
    assert path.read_text() == "old"


def test_a_device_without_room_is_a_failure_in_words() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*TRACE], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "error: cannot write: no space left on device\n"


@pytest.mark.slow
def test_folders_that_nothing_can_be_written_to() -> None:
    """Not even by root: for what is asked for it is a failure, for the cache nothing."""
    done = subprocess.run([*TRACE, "-o", "/proc/page.svg"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: cannot write /proc/page.svg: " in done.stderr
    settings = {**os.environ, "XDG_CACHE_HOME": "/proc"}
    cacheless = subprocess.run([*TRACE, "--json"], capture_output=True, text=True, env=settings)
    assert (cacheless.returncode, cacheless.stderr) == (0, "")


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_a_whole_file(data: str, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    command = [AUTODIFF, "train", "y ~ a*x + b", data, "--save", str(path), "--json"]
    begun = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    whole = time.monotonic() - begun
    rounds = 10
    for k in range(rounds):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            time.sleep(whole * (0.5 + 0.6 * k / rounds))
            process.kill()
        assert ad.load(path).parameters == pytest.approx({"a": 2, "b": 1})


@pytest.mark.slow
def test_many_processes_at_one_cache_and_one_model_file(data: str, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    settings = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [AUTODIFF, "train", "y ~ a*x + b", data, "--save", str(path), "--json"]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=settings)
        for _ in range(4)
    ]
    for process in processes:
        output, _ = process.communicate()
        assert process.returncode == 0
        assert json.loads(output)["parameters"] == pytest.approx({"a": 2, "b": 1})
    assert ad.load(path).parameters == pytest.approx({"a": 2, "b": 1})
    assert {found.name for found in tmp_path.iterdir()} == {"model.json", "line.csv", "cache"}


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_the_command_quietly() -> None:
    command = [AUTODIFF, "grad", "x^2", "--x", "0:1:100000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "x,value,d_x\n"
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == ("", 0)


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(("options", "read"), [([], "stdout"), (["--json"], "stderr")])
def test_a_fit_is_saved_also_where_nobody_reads_its_table_to_the_end(
    options: list[str], read: str, unbuffered: str, data: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.json"
    command = [AUTODIFF, "train", "y ~ a*x + b", data, "--optimizer", "sgd", "--lr", "0.0001", "--epochs", "3000"]
    settings = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(
        [*command, "--every", "1", "--save", str(path), *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=settings, text=True,
    ) as process:  # fmt: skip
        streams = {"stdout": process.stdout, "stderr": process.stderr}
        stream = streams.pop(read)
        (other,) = streams.values()
        assert stream is not None
        assert other is not None
        stream.readline()
        stream.close()
        other.read()
        assert process.wait() == 0
    assert ad.load(path).epochs == 3000


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("closed", "status", "said"),
    [
        ("<&-", 0, ""),
        ("2>&-", 0, ""),
        (">&-", 1, "error: cannot write: bad file descriptor\n"),  # there is an answer, and nowhere to give it
        ("<&- >&- 2>&-", 1, ""),
    ],
)
def test_streams_that_are_closed_from_the_start(closed: str, status: int, said: str) -> None:
    done = subprocess.run(f'"{AUTODIFF}" grad x^2 --x 3 {closed}', shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (status, said)

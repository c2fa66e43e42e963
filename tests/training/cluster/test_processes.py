"""Workers that are processes: one that dies is replaced, and none is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad

psutil = pytest.importorskip("psutil")
pytest.importorskip("distributed")

pytestmark = pytest.mark.slow

MODEL = "y ~ a*exp(-b*x) + c"
ENDLESS = ["--optimizer", "sgd", "--lr", "1e-6", "--epochs", "1000000"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    generator = np.random.default_rng(2)
    x = generator.uniform(0, 3, 30_000)
    y = 2 * np.exp(-1.3 * x) + 0.3 + generator.normal(size=x.size) * 0.05
    found = tmp_path_factory.mktemp("cluster") / "data.csv"
    np.savetxt(found, np.column_stack((x, y)), "%.9g", ",", header="x,y", comments="")
    return found


def autodiff(*words: str) -> list[str]:
    return [sys.executable, "-m", "autodiff_cli", *words]


def session(process: Any) -> int | None:
    try:
        return os.getsid(process.pid)
    except ProcessLookupError:
        return None


@contextlib.contextmanager
def fit(*words: str) -> Iterator[subprocess.Popen[str]]:
    """A `train` in a session of its own, of which no process is left in the end, whoever their parents are by then."""
    words = ("train", MODEL, *words, "--json")
    with subprocess.Popen(autodiff(*words), stdout=-1, stderr=-1, text=True, start_new_session=True) as process:
        try:
            yield process
        except BaseException:
            process.kill()  # the test failed, and the fit may never end
            raise
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    there = [one for one in psutil.process_iter() if session(one) == process.pid]
    _, left = psutil.wait_procs(there, timeout=10)
    assert not left


def workers(process: subprocess.Popen[Any]) -> list[Any]:
    """The worker processes below a process."""
    below = psutil.Process(process.pid).children(recursive=True)
    return [child for child in below if "spawn_main" in " ".join(child.cmdline())]


@pytest.fixture
def running(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """A fit that does not end by itself, in a group of processes of its own, after some epochs."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # other programs write to that of the system
    with fit(str(path), "--cluster", "local:2", *ENDLESS) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.split()[:1] == ["3"]:
                break
        yield process
    if process.returncode >= 0:  # who is killed cannot tidy up
        assert [*tmp_path.glob("autodiff-*")] == []


def test_a_worker_that_is_killed_is_replaced_and_the_fit_has_the_same_bits(path: Path) -> None:
    steps = (str(path), "--optimizer", "adam", "--lr", "0.02", "--epochs", "150")
    with fit(*steps) as process:
        wanted = json.loads(process.communicate()[0])
    with fit(*steps, "--cluster", "local:2") as process:
        assert process.stderr is not None
        said: list[str] = []
        for line in process.stderr:
            said.append(line)
            if line.split()[:1] in (["5"], ["20"]):
                there = workers(process)
                there[0].kill()
        assert process.stdout is not None
        found = json.load(process.stdout)
    assert process.returncode == 0
    assert found == wanted
    assert not [line for line in said if "distributed" in line or "Traceback" in line or "Nanny" in line]


def test_ctrl_c_prints_the_best_so_far_and_leaves_nothing_behind(running: subprocess.Popen[str]) -> None:
    assert len(workers(running)) == 2
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to all of them
    out, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert json.loads(out)["parameters"].keys() == {"a", "b", "c"}
    assert "interrupted; the report has the best parameters so far" in said
    assert "Traceback" not in said


def test_ctrl_c_while_workers_start_leaves_nothing_behind(path: Path) -> None:
    for wait in (0.3, 1.0, 2.0):
        with fit(str(path), "--cluster", "local:2", *ENDLESS) as process:
            time.sleep(wait)
            os.killpg(process.pid, signal.SIGINT)
            _, said = process.communicate(timeout=60)
        # Python ends by the signal itself, which shells call 130 too, where it fell into an `exec` of some import.
        assert process.returncode in (130, -signal.SIGINT), said
        assert "Traceback" not in said


def test_a_fit_that_is_killed_takes_its_workers_along(running: subprocess.Popen[str]) -> None:
    there = workers(running)
    running.kill()
    _, alive = psutil.wait_procs(there, timeout=30)
    assert not alive


def test_a_lost_scheduler_is_reported(path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"], stderr=-1, text=True
    ) as scheduler:
        assert scheduler.stderr is not None
        address = next(line.split()[-1] for line in scheduler.stderr if "Scheduler at:" in line)
        threading.Thread(target=scheduler.stderr.read, daemon=True).start()
        worker = subprocess.Popen(
            [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-dashboard"], stderr=-3
        )
        words = autodiff("train", MODEL, str(path), "--cluster", address, *ENDLESS)
        with subprocess.Popen(words, stdout=-1, stderr=-1, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.split()[:1] == ["3"]:
                    break
            scheduler.kill()
            _, said = process.communicate(timeout=60)
        worker.kill()
        worker.wait()
    assert process.returncode == 1
    assert said.splitlines() == [f"error: cluster {address}: the connection to the scheduler is lost"]


def test_a_program_may_ask_for_workers_of_its_own(tmp_path: Path, path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nimport numpy as np\nimport autodiff_cli as ad\n"
        "if __name__ == '__main__':\n"
        f"    x, y = np.loadtxt({str(path)!r}, delimiter=',', skiprows=1).T\n"
        "    for workers in ('local:1', 'local:2'):\n"
        f"        print(ad.fit({MODEL!r}, {{'x': x, 'y': y}}, cluster=workers).parameters)\n",
        encoding="utf-8",
    )
    x, y = np.loadtxt(path, delimiter=",", skiprows=1).T
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("\n".join([str(ad.fit(MODEL, {"x": x, "y": y}).parameters)] * 2), "")

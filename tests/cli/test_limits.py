"""What is too large is refused before it is computed: the message has the limit, and what to do."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from autodiff_cli.autodiff import unrolling
from autodiff_cli.cli import inputs
from autodiff_cli.cli.environment import ExitStatus, Failure, errors_as_failure
from autodiff_cli.data import source
from autodiff_cli.explain import tracing as passes
from autodiff_cli.formula import derivatives as further
from autodiff_cli.language import parser
from autodiff_cli.language import program as building
from tests.support import run_cli


def refused(line: str | list[str], *words: str) -> None:
    output = run_cli(line)
    assert (output.status, output) == (2, "")
    for word in words:
        assert word in output.stderr


def test_orders() -> None:
    refused("grad x --order 171 --x 1", "--order must be from 1 to 170")
    assert run_cli("grad 1/x --order 170 --x 1 --json").json["derivative"] == pytest.approx(7.257415615307994e306)


def test_digits() -> None:
    refused("grad x --x 2 --precision 100001", "from 2 to 100,000")


def test_points_of_a_grid() -> None:
    refused("grad x*y --x 0:1:9999999999 --y 0:1:9999999999", "at most 4,611,686,018,427,387,904 are possible")
    refused("grad x --x 0:1:1e12", "START:STOP:COUNT", "--x 0:10:101")


def test_characters_of_a_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in (parser, inputs):
        monkeypatch.setattr(module, "MAX_TEXT_LENGTH", 10)
    file = tmp_path / "long.txt"
    file.write_text("x" * 1000)
    refused(["grad", f"@{file}", "--x", "1"], "limit of 10 characters", "MAX_TEXT_LENGTH")


def test_an_endless_text_is_read_no_further_than_the_limit() -> None:
    refused("grad @/dev/zero --x 1", "limit of 5,000,000 characters", "MAX_TEXT_LENGTH")


def test_operations_of_functions_that_expand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "MAX_STEPS", 10)
    refused(["grad", "f(t) = t*t*t*t*t*t*t; f(f(f(x)))"], "limit of 10 operations", "MAX_STEPS")


def test_numbers_of_a_hessian_and_a_jacobian(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(further, "MAX_DERIVATIVES", 5)
    refused(
        "grad x*y*z --x 1 --y 2 --z 3 --hessian", "the hessian has 9 numbers, more than the 5 that are shown", "--wrt x"
    )
    assert run_cli("grad x*y*z --x 1 --y 2 --z 3 --hessian --wrt x,z --json").json["hessian"] == {
        "x": {"x": 0.0, "z": 2.0},
        "z": {"x": 2.0, "z": 0.0},
    }
    refused(
        "grad [x,y,z*x] --x 1 --y 2 --z 3 --jacobian",
        "the jacobian has 6 numbers, more than the 5",
        "Expression.jacobian",
    )
    assert run_cli("grad [x,y,z*x] --x 1 --y 2 --z 3 --jacobian --wrt x").status == 0


def test_numbers_of_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "MAX_NUMBERS", 50)
    assert run_cli("grad sum(v*v) --v [1,2,3]").status == 0
    refused("grad sum(outer(v,v)) --v [1,2,3,4,5,6]", "numbers, but a trace stores at most 50 (2 GB)", "value_and_grad")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["grad --precision 20", "check"])
def test_operations_of_arrays_written_out(command: str) -> None:
    long = str([1] * 1000).replace(" ", "")
    refused(
        f"{command} sum(outer(v,v)) --v {long}", f"more than {unrolling.MAX_OPERATIONS:,} operations", "from Python"
    )


@pytest.mark.slow
def test_what_goes_on_and_on_is_stopped_by_ctrl_c() -> None:
    words = ["-m", "autodiff_cli", "grad", "x", "--x", "0:1:1000000000000"]
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"x,value,d_x\n"  # it has begun
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert (process.returncode, errors) == (ExitStatus.INTERRUPTED, b"interrupted\n")


@pytest.mark.parametrize("error", [MemoryError("Unable to allocate 12 GiB"), RuntimeError("can't start new thread")])
def test_memory_that_is_not_there_is_a_failure(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def exhausted(*_: object) -> None:
        raise error

    monkeypatch.setattr(inputs, "trace_at", exhausted)
    if not isinstance(error, MemoryError):  # libraries have other errors, which say so where a limit leaves little
        with pytest.raises(RuntimeError):
            run_cli("grad x --x 1")
        monkeypatch.setattr(source, "has_memory_limits", lambda: True)
        monkeypatch.setattr(source, "available_memory", lambda: 1 << 20)
    output = run_cli("grad x --x 1")
    assert (output.status, output) == (ExitStatus.FAILED, "")
    assert output.stderr == f"error: not enough memory ({error})\n"


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize(
    "line", ["grad x --set {}", "grad x --x 1 --mode {}", "lesson {}", "train y~x {}", "trace x --x 1 -o {}/"]
)
def test_a_message_does_not_repeat_all_of_what_is_endless(line: str) -> None:
    output = run_cli(line.format("a" * 100_000))
    assert output.status in (1, 2)
    assert output == ""
    assert len(output.stderr) < 2100
    assert "characters) …" in output.stderr


def test_only_a_file_that_cannot_be_written_is_a_failure() -> None:
    """A reader of standard output that has gone is not."""
    with pytest.raises(BrokenPipeError), errors_as_failure("fit.json"):
        raise BrokenPipeError
    with pytest.raises(Failure, match=r"cannot write fit\.json: "), errors_as_failure("fit.json"):
        raise PermissionError(13, "no")

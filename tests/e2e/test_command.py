"""The installed command, as a process: the worked examples, streams, statuses, and what it does not import."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.each import each
from tests.support import run_cli

AUTODIFF = str(Path(sys.executable).with_name("autodiff"))


def autodiff(*words: str, encoding: str = "utf-8") -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, "PYTHONIOENCODING": encoding}
    return subprocess.run([AUTODIFF, *words], capture_output=True, encoding=encoding, env=settings)


s = 1 / (1 + math.exp(-7))
t = math.tanh(6)
# fmt: off
EXAMPLES = [
    ("x*y + sin(x)",             {"x": 2, "y": 3},                      6.909297426825682,
     {"x": 2.5838531634528574, "y": 2}),
    ("(w*x + b - t)^2",          {"x": 2, "w": 3, "b": 1, "t": 5},      4,       {"w": 8, "b": 4, "x": 12, "t": -4}),
    ("a*b + c",                  {"a": 2, "b": 3, "c": 10},             16,      {"a": 3, "b": 2, "c": 1}),
    ("a*b + a",                  {"a": 2, "b": 3},                      8,       {"a": 4, "b": 2}),
    ("a = x+y; b = x-y; a*b",    {"x": 5, "y": 3},                      16,      {"x": 10, "y": -6}),
    ("log(sigmoid(w*x + b))",    {"w": 2, "x": 3, "b": 1},              math.log(s),
     {"w": 3*(1-s), "x": 2*(1-s), "b": 1-s}),
    ("tanh(a*b)",                {"a": 2, "b": 3},                      t,       {"a": 3*(1-t*t), "b": 2*(1-t*t)}),
    ("3*x^2 + 2*x + 1",          {"x": 2},                              17,      {"x": 14}),
    ("(w*x+b)^2",                {"x": 3, "w": 2, "b": 1},              49,      {"w": 42, "b": 14, "x": 28}),
    ("(w1*x + b - t)^2",         {"w1": .5, "b": .1, "x": 2, "t": 1.8}, .49,
     {"w1": -2.8, "b": -1.4, "x": -.7, "t": 1.4}),
    ("max(x, y)",                {"x": 2, "y": 3},                      3,       {"x": 0, "y": 1}),
    ("max(x, y)",                {"x": 3, "y": 2},                      3,       {"x": 1, "y": 0}),
    ("max(x, y)",                {"x": 3, "y": 3},                      3,       {"x": .5, "y": .5}),
    ("relu(x)",                  {"x": 2},                              2,       {"x": 1}),
    ("relu(x)",                  {"x": -2},                             0,       {"x": 0}),
    ("relu(x)",                  {"x": 0},                              0,       {"x": 0}),
]
# fmt: on


@each(("text", "point", "value", "gradient"), EXAMPLES)
def test_worked_examples(text: str, point: dict[str, float], value: float, gradient: dict[str, float]) -> None:
    words = ["grad", text, *(f"--{name}={x}" for name, x in point.items()), "--json"]
    output = run_cli(words)
    assert (output.status, output.stderr) == (0, "")
    document = output.json
    assert document["value"] == pytest.approx(value, rel=1e-15, abs=0)
    assert document["gradient"] == pytest.approx(gradient, rel=1e-11, abs=0)


@pytest.mark.slow
def test_the_exponent_of_a_negative_base_does_not_spoil_the_other_slope() -> None:
    document = json.loads(autodiff("grad", "x^n", "--x", "-2", "--n", "3", "--json").stdout)
    assert document["gradient"] == {"x": 12.0, "n": "nan"}
    assert [warning["kind"] for warning in document["warnings"]] == ["domain"]


@pytest.mark.slow
def test_the_module_is_the_command() -> None:
    words = ["grad", "x^2", "--x", "3"]
    done = subprocess.run([sys.executable, "-m", "autodiff_cli", *words], capture_output=True, encoding="utf-8")
    assert done.stdout == autodiff(*words).stdout
    assert "d/dx = 6\n" in done.stdout


def imported_by(*words: str) -> set[str]:
    """The packages that a command imports."""
    code = (
        "import sys; from autodiff_cli.cli.main import main\n"
        f"sys.argv = ['autodiff', *{words!r}]; assert main() == 0\n"
        "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    return set(done.stderr.split())


@pytest.mark.sampled
@pytest.mark.parametrize("command", ["grad", "trace"])
@pytest.mark.parametrize("option", [[], ["--json"]])
def test_nothing_heavy_is_imported(command: str, option: list[str]) -> None:
    imported = imported_by(command, "x*y + sin(x)", "--x", "2", "--y", "3", *option)
    heavy = {"numpy", "scipy", "pyarrow", "rich", "typer", "click", "lark", "flint", "llvmlite"}
    assert heavy.isdisjoint(imported)
    assert "autodiff_cli" in imported


@pytest.mark.sampled
@pytest.mark.parametrize("command", ["train", "compare", "predict", "data"])
def test_help_imports_nothing_heavy(command: str) -> None:
    heavy = {"numpy", "scipy", "pyarrow", "lark", "flint", "llvmlite"}
    assert heavy.isdisjoint(imported_by(command, "--help"))


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--x", "2", "--y", "3", "--hessian"], ["--x", "0:1:3", "--y", "3"]])
def test_arrays_import_a_compiler_only_where_a_function_needs_it(words: list[str]) -> None:
    imported = imported_by("grad", "x*y + sin(x)", *words)
    assert "numpy" in imported
    assert "llvmlite" not in imported


def modules_of(*words: str) -> set[str]:
    """The parts of the package that a command imports."""
    code = (
        "import sys; from autodiff_cli.cli.main import main\n"
        f"sys.argv = ['autodiff', *{words!r}]; assert main() == 0\n"
        "print(*{'.'.join(name.split('.')[:2]) for name in sys.modules if name.startswith('autodiff_cli.')},"
        " file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    return {name.partition(".")[2] for name in done.stderr.split()}


def test_a_command_loads_only_what_it_needs(tmp_path: Path) -> None:
    data = tmp_path / "d.csv"
    data.write_text("x,y\n0,1\n1,3\n2,5.5\n3,7\n4,9.2\n")
    assert "training" not in modules_of("grad", "x*y", "--at", str(data))
    assert "explain" not in modules_of("train", "y ~ a + b*x", str(data))
    assert {"render", "training", "language"}.intersection(modules_of("--help")) <= {"render", "language"}
    assert "typer" not in imported_by("--help")


def test_bad_input_has_status_2_and_an_empty_output() -> None:
    done = autodiff("grad", "x*", "--x", "2")
    assert (done.returncode, done.stdout) == (2, "")
    assert "line 1, column 3" in done.stderr


@pytest.mark.slow
def test_a_reader_that_stops_reading_is_no_error() -> None:
    text = "+".join(["x"] * 5000)
    process = subprocess.Popen([AUTODIFF, "grad", text, "--x", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0


def test_a_full_disk_is_a_failure() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [AUTODIFF, "grad", "x", "--x", "1"], stdout=full, stderr=subprocess.PIPE, encoding="utf-8"
        )
    assert done.returncode == 1
    assert done.stderr == "error: cannot write: no space left on device\n"


def test_ctrl_c_while_reading_ends_with_130() -> None:
    process = subprocess.Popen(
        [AUTODIFF, "grad", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    # The pipe is full, so the process reads: it has begun.
    process.stdin.write(b" " * 1_000_000)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate()
    assert (process.returncode, output, errors) == (130, b"", b"interrupted\n")


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_output_of_few_characters_is_no_reason_to_fail(encoding: str) -> None:
    assert autodiff("trace", "λ*2", "--λ", "3", encoding=encoding).returncode == 0
    document = json.loads(autodiff("grad", "λ*2", "--λ", "3", "--json", encoding=encoding).stdout)
    assert document["gradient"] == {"λ": 2.0}


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ("grad x --x 2 >&-", 1, "error: cannot write: bad file descriptor\n"),
        ("grad y --x 2 2>&-", 2, ""),
        ("grad - --x 2 <&-", 2, "error: line 1, column 1: the text is empty; expected an expression\n"),
        ("grad x --x 2 --json >&- 2>&- <&-", 1, ""),
    ],
)
def test_a_process_started_without_streams_ends_as_it_should(command: str, status: int, message: str) -> None:
    done = subprocess.run(f"{AUTODIFF} {command}", shell=True, capture_output=True, encoding="utf-8")
    assert (done.returncode, done.stderr) == (status, message)


@pytest.mark.slow
def test_points_come_from_a_pipe_that_is_named() -> None:
    done = subprocess.run(
        [AUTODIFF, "grad", "x^2", "--at", "/dev/stdin"], input="x\n1\n2\n", capture_output=True, encoding="utf-8"
    )
    assert (done.stdout, done.stderr) == ("x,value,d_x\n1,1,2\n2,4,4\n", "")

"""Every way to end has its status, and none shows a traceback."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.cli import environment, main
from autodiff_cli.cli.environment import Environment, ExitStatus
from autodiff_cli.cli.main import run
from autodiff_cli.version import __version__
from tests.support import run_cli
from tests.texts import CHARACTERS

ENTRY = 4  # modules that are imported before Ctrl-C can be heard: the package, its version, `cli`, `cli.main`


@given(st.lists(st.text(CHARACTERS), max_size=4))
def test_no_words_whatever_give_a_traceback(words: list[str]) -> None:
    output = run_cli(["grad", *words])
    assert output.status in (0, 2)
    assert (output.status == 2) == bool(output.stderr)
    assert output.status == 0 or output == ""


@given(st.text(CHARACTERS))
def test_a_value_is_a_number_or_bad_input(value: str) -> None:
    assert run_cli(["grad", "x", f"--x={value}", "--json"]).status in (0, 2)


def test_version_and_help() -> None:
    assert run_cli("--version") == f"autodiff {__version__}\n"
    for line in ("", "--help", "-h"):
        output = run_cli(line)
        assert output.status == 0
        assert "grad" in output
        assert "trace" in output


def test_an_unknown_command_is_bad_input() -> None:
    output = run_cli("gard x")
    assert (output.status, output) == (2, "")
    assert "did you mean `grad`" in output.stderr


class Broken(io.StringIO):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def write(self, _: str) -> int:
        raise self.error


def test_output_that_cannot_be_written_is_a_failure() -> None:
    stderr = io.StringIO()
    world = Environment(io.StringIO(), Broken(OSError(28, "No space left on device")), stderr)
    assert run(["grad", "x", "--x", "1"], world) == ExitStatus.FAILED
    assert stderr.getvalue() == "error: cannot write: no space left on device\n"


def test_ctrl_c_ends_with_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    world = Environment(io.StringIO(), Broken(KeyboardInterrupt()), io.StringIO())
    monkeypatch.setattr(environment.Environment, "of_process", classmethod(lambda cls: world))
    monkeypatch.setattr("sys.argv", ["autodiff", "grad", "x", "--x", "1"])
    monkeypatch.setattr(main.gc, "set_threshold", lambda count: None)
    monkeypatch.setattr(main.gc, "freeze", lambda: None)
    assert main.main() == ExitStatus.INTERRUPTED
    assert capsys.readouterr().err == "interrupted\n"


def test_a_note_that_nobody_can_read_is_no_failure() -> None:
    world = Environment(io.StringIO(), io.StringIO(), Broken(OSError(28, "No space left on device")))
    assert run(["grad", "x", "--x", "1", "--y", "2"], world) == ExitStatus.BAD_INPUT


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_file_formats_are_utf_8_in_any_terminal(encoding: str) -> None:
    for line in ("trace θ*é --θ 2 --é 3 --format svg", "trace θ*é --θ 2 --é 3 --format html", "grad θ --θ 1:2:2"):
        stdout = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        assert run(line.split(), Environment(io.StringIO(), stdout, io.StringIO())) == ExitStatus.DONE
        assert "θ" in stdout.buffer.getvalue().decode("utf-8")  # type: ignore[attr-defined]


def test_messages_have_no_control_characters(tmp_path: Path) -> None:
    output = run_cli(["grad", f"@{tmp_path}/\x1b[31m"])
    assert output.status == 2
    assert "\x1b" not in output.stderr


# Ctrl-C at the n-th module of ours that is imported, in a process of its own for each n.
INTERRUPTED = """
import os, sys
class CtrlC:
    left = 0
    def find_spec(self, name, *_):
        self.left -= name.startswith("autodiff_cli")
        if not self.left:
            raise KeyboardInterrupt
sys.meta_path.insert(0, CtrlC())
sys.argv = ["autodiff", "grad", "x", "--x", "1"]
for count in range(1, 17):
    child = os.fork()
    if not child:
        CtrlC.left = count
        try:
            from autodiff_cli.cli.main import main
        except KeyboardInterrupt:
            os._exit(9)
        os._exit(main())
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
def test_ctrl_c_while_it_starts_ends_with_130() -> None:
    """As soon as the entry point itself is there."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=True)
    assert [*map(int, done.stdout.split())] == [9] * ENTRY + [130] * (16 - ENTRY)
    assert done.stderr == "interrupted\n" * (16 - ENTRY)


LOST = """
import os, signal, sys, time
import autodiff_cli.cli.main as command
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
{}
    time.sleep(60)
command.run = run
sys.exit(command.main())
"""
DESTRUCTOR = """
class Interrupted:
    def __del__(self):
        interrupt()
def run(*_):
    Interrupted()
"""
AGAIN = """
import threading
class Prompt(threading.Timer):  # the first one ends before it has started, as on a busy machine
    count = 0
    def start(self):
        Prompt.count += 1
        return super().start() if Prompt.count > 1 else self.function(*self.args)
threading.Timer = Prompt
"""
IMPORT = """
class Finder:
    def find_spec(self, name, *_):
        if name == "pyexpat":
            interrupt()
sys.meta_path.insert(0, Finder())
def run(*_):
    import xml.etree.ElementTree  # goes on without its part in C if that fails, for whatever reason
"""


@pytest.mark.parametrize("place", [DESTRUCTOR, AGAIN + DESTRUCTOR, IMPORT])
def test_ctrl_c_where_python_drops_or_replaces_exceptions_is_not_lost(place: str) -> None:
    """Dask's futures have destructors, and a fit on a cluster has thousands of them."""
    done = subprocess.run([sys.executable, "-c", LOST.format(place)], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_a_number_that_is_too_large_for_proven_digits_is_not_called_undefined() -> None:
    output = run_cli("grad sin(x) --x 1e100000 --precision 20")
    assert "cannot be computed for a number of this size" in output
    assert "is not defined" not in output


def test_an_infinite_error_of_a_value_is_refused() -> None:
    assert run_cli("grad x --x 2+-inf").status == 2


class ClosedStream(io.StringIO):
    """A standard output whose reader has gone."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self.attempts, self._file = 0, file

    def write(self, _text: str) -> int:
        self.attempts += 1
        raise BrokenPipeError

    def fileno(self) -> int:
        return self._file.fileno()


def test_a_fit_that_nobody_reads_goes_on_only_if_it_writes_files(tmp_path: Path) -> None:
    (tmp_path / "line.csv").write_text("x,y\n1,2\n2,4.1\n3,6\n")
    command = ["train", "y ~ a*x", str(tmp_path / "line.csv"), "--optimizer", "adam", "--epochs", "5", "--every", "1"]
    for words, goes_on in ((command, False), ([*command, "--save", str(tmp_path / "line.json")], True)):
        with (tmp_path / "output").open("wb") as file:
            stream = ClosedStream(file)
            assert run(words, Environment(io.StringIO(), stream, io.StringIO())) == 0
        assert (stream.attempts > 1) == goes_on
    assert (tmp_path / "line.json").exists()


class Screen(io.StringIO):
    """A stream that is a terminal, or not, and notes how it is configured."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal, self.configured = is_terminal, {}

    def isatty(self) -> bool:
        return self.is_terminal

    def reconfigure(self, **settings: str) -> None:
        self.configured.update(settings)


@pytest.mark.parametrize(
    ("is_terminal", "variables", "expected"),
    [
        (True, {"TERM": "xterm"}, (True, 123, True)),
        (True, {}, (True, 123, True)),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, (True, 123, False)),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, (True, 123, True)),
        (True, {"TERM": "dumb"}, (False, 80, False)),
        (False, {"TERM": "xterm"}, (False, 80, False)),
    ],
)
def test_output_is_wrapped_and_coloured_in_terminals_that_can(
    is_terminal: bool, variables: dict[str, str], expected: tuple[bool, int, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"COLUMNS": "123", "LINES": "9", **variables}.items():
        monkeypatch.setenv(name, value)
    stdout, stderr = Screen(is_terminal), Screen(not is_terminal)
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setattr(sys, "stderr", stderr)
    found = environment.Environment.of_process()
    assert (found.terminal, found.width, found.colour) == expected
    assert found.stdout is stdout
    assert stdout.configured.keys() == stderr.configured.keys() == {"errors"}

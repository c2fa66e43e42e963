"""`autodiff trace --step` in a terminal of its own: what keys do, and that the terminal is given back as it was."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autodiff_cli.cli import terminal as terminal_module
from autodiff_cli.cli import trace
from autodiff_cli.cli.environment import Environment
from autodiff_cli.cli.terminal import Key, decode_keys
from autodiff_cli.cli.terminal import Terminal as FullScreen
from autodiff_cli.explain.record import Trace
from autodiff_cli.explain.tracing import trace as find_trace
from autodiff_cli.expression import parse
from autodiff_cli.render.step_view import StepView
from tests.support import run_cli

AUTODIFF = str(Path(sys.executable).with_name("autodiff"))
LINE = ["trace", "x*y + sin(x)", "--x", "2", "--y", "3"]
GENEROUS = 60  # seconds after which something that should come is given up
TAKEN, GIVEN_BACK = b"\x1b[?1049h", b"\x1b[?1049l"


class Terminal:
    """A pseudo-terminal, and a process that it controls."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        self.resize(80, 24)
        self.before = termios.tcgetattr(self.theirs)
        self.written = b""

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def start(self, *words: str, stdin: Any = None, **variables: str) -> None:
        self.process = subprocess.Popen(
            words,
            stdin=self.theirs if stdin is None else stdin,
            stdout=self.theirs,
            stderr=self.theirs,
            env={**os.environ, "TERM": "xterm", "PYTHONIOENCODING": "utf-8", **variables},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(1, termios.TIOCSCTTY, 0),
        )

    def type(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def until(self, text: str | bytes) -> bytes:
        """What is written up to a text, which must come; the next search begins behind it."""
        wanted = text.encode() if isinstance(text, str) else text
        deadline = time.monotonic() + GENEROUS
        while wanted not in self.written:
            assert select.select([self.ours], [], [], max(deadline - time.monotonic(), 0))[0], (wanted, self.written)
            self.written += os.read(self.ours, 65536)
        before, _, self.written = self.written.partition(wanted)
        return before

    def end(self) -> int:
        """Wait for the process, whose terminal must then be as it was; its status."""
        self.until(GIVEN_BACK)
        while (status := self.process.poll()) is None:
            if select.select([self.ours], [], [], 0.01)[0]:
                self.written += os.read(self.ours, 65536)
        assert termios.tcgetattr(self.theirs) == self.before
        return status


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    found = Terminal()
    yield found
    if found.process.poll() is None:
        found.process.kill()
    found.process.wait()
    os.close(found.ours)
    os.close(found.theirs)


def walking(terminal: Terminal, *options: str, **variables: str) -> None:
    terminal.start(AUTODIFF, *LINE, "--step", *options, **variables)
    terminal.until("the beginning")
    terminal.until("q quit")


@pytest.mark.slow
def test_after_the_steps_the_uncertainty_is_shown(terminal: Terminal) -> None:
    walking(terminal, "--sigma", "x=0.1")
    terminal.type(b"q")
    assert terminal.end() == 0
    assert b"where the variance comes from" in terminal.written


def test_keys_lead_through_both_passes(terminal: Terminal) -> None:
    walking(terminal)
    for keys, place in (
        (b"\x1b[C", "forward 1 of 3"),
        (b"\x1bOC", "forward 2 of 3"),
        (b" ", "forward 3 of 3"),
        (b"l", "backward 1 of 3"),
        (b"\x1b[D", "forward 3 of 3"),
        (b"\x1b[F", "the end"),
        (b"\x1b[C", "the end"),
        (b"\x7f", "backward 3 of 3"),
        (b"\x1b[1~", "the beginning"),
        (b"  \x1b[1;5C  ", "backward 2 of 3"),
    ):
        terminal.type(keys)
        terminal.until(place)
    terminal.until("sin scales by its slope, cos(2) = -0.416147")
    terminal.until("q quit")
    terminal.type(b"?")
    terminal.until("previous step")
    terminal.type(b"q")
    assert terminal.end() == 0


def test_a_small_window_is_scrolled_down_and_up_again(terminal: Terminal) -> None:
    terminal.resize(80, 8)
    terminal.start(AUTODIFF, *LINE, "--step")
    opening = terminal.until("q quit").partition(b"the beginning")[2]
    for key in (b"j", b"k"):
        terminal.type(key)
        shown = terminal.until("q quit").partition(b"the beginning")[2]
        assert (shown == opening) == (key == b"k")
    terminal.type(b"q")
    assert terminal.end() == 0


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("key", [b"q", b"\x1b", b"\x04"])
def test_what_quits(terminal: Terminal, key: bytes) -> None:
    walking(terminal)
    terminal.type(key)
    assert terminal.end() == 0
    assert terminal.written == b""


def test_ctrl_c_ends_with_130(terminal: Terminal) -> None:
    walking(terminal)
    terminal.type(b"\x03")
    assert terminal.end() == 130
    assert b"Traceback" not in terminal.written


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_to_end_is_obeyed_with_the_terminal_in_order(terminal: Terminal, number: signal.Signals) -> None:
    walking(terminal)
    terminal.process.send_signal(number)
    assert terminal.end() == -number


@pytest.mark.slow
def test_after_a_crash_the_terminal_is_in_order(terminal: Terminal) -> None:
    code = (
        "import sys\n"
        "from autodiff_cli.render.step_view import StepView\n"
        "from autodiff_cli.cli.main import main\n"
        f"sys.argv = ['autodiff', *{LINE!r}, '--step']\n"
        "draw = StepView.screen\n"
        "StepView.screen = lambda self, view, window: draw(self, view, window) if not view.position else 1 / 0\n"
        "sys.exit(main())\n"
    )
    terminal.start(sys.executable, "-c", code)
    terminal.until("q quit")
    terminal.type(b" ")
    assert terminal.end() == 1
    assert b"ZeroDivisionError" in terminal.written


SHELL = """
import os, signal, subprocess, sys, termios
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
before = termios.tcgetattr(0)
job = subprocess.Popen(sys.argv[1:], process_group=0)
os.tcsetpgrp(0, job.pid)
_, status = os.waitpid(job.pid, os.WUNTRACED)
assert os.WIFSTOPPED(status)
assert termios.tcgetattr(0) == before
os.tcsetpgrp(0, os.getpgrp())
print("stopped", flush=True)
sys.stdin.readline()
os.tcsetpgrp(0, job.pid)
os.killpg(job.pid, signal.SIGCONT)
_, status = os.waitpid(job.pid, 0)
os.tcsetpgrp(0, os.getpgrp())
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.slow
def test_a_suspended_step_view_restores_the_terminal_and_resumes(terminal: Terminal) -> None:
    terminal.start(sys.executable, "-c", SHELL, AUTODIFF, *LINE, "--step")
    terminal.until("q quit")
    terminal.type(b"  ")
    terminal.until("forward 2 of 3")
    terminal.until("q quit")
    terminal.type(b"\x1a")
    terminal.until(GIVEN_BACK)
    terminal.until("stopped")
    terminal.type(b"\n")
    terminal.until(TAKEN)
    terminal.until("forward 2 of 3")
    terminal.until("q quit")
    terminal.type(b"q")
    assert terminal.end() == 0


def test_a_terminal_that_knows_no_size_is_drawn_as_80_by_24(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((0, 0)))
    assert FullScreen(0, 1).size() == (80, 24)


@pytest.mark.slow
def test_another_size_is_drawn_at_once(terminal: Terminal) -> None:
    walking(terminal)
    terminal.resize(100, 31)
    terminal.until(b"\x1b[31;1H")
    terminal.resize(20, 8)
    drawn = terminal.until(b"\x1b[8;1H")
    assert b"\x1b[9;1H" not in drawn.rpartition(b"\x1b[1;1H")[2]
    terminal.type(b"q")
    assert terminal.end() == 0


@pytest.mark.slow
def test_the_expression_may_come_through_a_pipe(terminal: Terminal) -> None:
    source, target = os.pipe()
    os.write(target, b"x*y + sin(x)")
    os.close(target)
    terminal.start(AUTODIFF, "trace", "-", *LINE[2:], "--step", stdin=source)
    os.close(source)
    terminal.until("q quit")
    terminal.type(b" ")
    terminal.until("forward 1 of 3")
    terminal.type(b"q")
    assert terminal.end() == 0


@pytest.mark.slow
def test_no_colour_where_it_is_not_wanted(terminal: Terminal) -> None:
    terminal.start(AUTODIFF, *LINE, "--step", NO_COLOR="1")
    codes = re.findall(rb"\x1b\[([\d;]*)m", terminal.until("q quit"))
    assert codes
    assert set(codes) <= {b"0", b"1", b"2", b"1;7"}
    terminal.type(b"q")
    assert terminal.end() == 0


@pytest.mark.slow
def test_an_encoding_without_lines_gets_ascii(terminal: Terminal) -> None:
    terminal.start(AUTODIFF, *LINE, "--step", PYTHONIOENCODING="ascii")
    assert terminal.until("q quit").isascii()
    terminal.type(b"q")
    assert terminal.end() == 0


@pytest.mark.slow
def test_options_apply_to_the_step_view(terminal: Terminal) -> None:
    terminal.start(AUTODIFF, *LINE, "--step", "--digits", "3", "--wrt", "y")
    terminal.until("q quit")
    terminal.type(b"G")
    assert b"d/dx" not in terminal.until("d/dy = 2")
    terminal.type(b"\x1b[A\x1b[Hq")
    assert terminal.end() == 0


@pytest.mark.slow
def test_a_terminal_that_cannot_be_drawn_on_gets_the_plain_trace(terminal: Terminal) -> None:
    terminal.start(AUTODIFF, *LINE, "--step", TERM="dumb")
    shown = terminal.until("d/dy = 2")
    assert b"\x1b" not in shown
    assert shown.startswith(b"note: --step needs a terminal, but standard output")
    assert terminal.process.wait() == 0


@pytest.mark.slow
def test_without_a_terminal_all_steps_are_printed(terminal: Terminal) -> None:
    plain = subprocess.run([AUTODIFF, *LINE], capture_output=True, encoding="utf-8", stdin=subprocess.DEVNULL)
    piped = subprocess.run([AUTODIFF, *LINE, "--step"], capture_output=True, encoding="utf-8", stdin=subprocess.DEVNULL)
    assert (piped.returncode, piped.stdout) == (0, plain.stdout)
    assert piped.stderr.startswith("note: --step needs a terminal")
    terminal.start(AUTODIFF, *LINE, "--step", stdin=subprocess.DEVNULL)
    assert b"but standard input is not a terminal" in terminal.until("d/dy")
    assert terminal.process.wait() == 0


@pytest.mark.parametrize(
    "options",
    [
        ["--json"],
        ["--format", "svg"],
        ["--format", "text"],
        ["-o", "x"],
        ["--paths"],
        ["--tape"],
        ["--mode", "forward"],
    ],
)
def test_step_excludes_what_is_not_for_a_terminal(options: list[str]) -> None:
    output = run_cli([*LINE, "--step", *options])
    assert (output.status, output) == (2, "")
    assert output.stderr.startswith("error: --step cannot be combined with --")


def test_steps_in_a_terminal_have_the_warnings_of_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Trace] = []
    monkeypatch.setattr(trace, "step_through", lambda _, found, **_others: bool(shown.append(found)))
    report = run_cli("trace exp(x)/x --x 1+-0.9 --step")
    (found,) = shown
    assert [warning.kind for warning in found.warnings] == ["nonlinear"]
    assert f"nonlinear: {found.warnings[0].message}" in report


class Keys:
    """A terminal in which some keys are pressed, one after the other, and then the one that quits."""

    def __init__(self, keys: list[Key]) -> None:
        self.keys, self.screens = [*keys, Key.QUIT], list[list[bytes]]()

    def size(self) -> tuple[int, int]:
        return 80, 24

    def draw(self, lines: list[bytes]) -> None:
        self.screens.append(lines)

    def next_keys(self) -> list[Key]:
        return [self.keys.pop(0)]


@pytest.mark.parametrize(
    ("keys", "others"),
    [
        ([Key.PREVIOUS], []),
        ([Key.UP], []),
        ([Key.NEXT, Key.PREVIOUS], []),
        ([Key.LAST, Key.NEXT], [Key.LAST]),
        ([Key.LAST, Key.FIRST], [Key.FIRST]),
        ([Key.HELP, Key.HELP], []),
    ],
)
def test_keys_stay_within_the_steps(keys: list[Key], others: list[Key]) -> None:
    environment = Environment(io.StringIO(), io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO())
    view = StepView(find_trace(parse("x*y + sin(x)"), {"x": 2.0, "y": 3.0}), None, "utf-8")
    terminals = Keys(keys), Keys(others)
    for terminal in terminals:
        trace._run(view, terminal, environment)  # type: ignore[arg-type]
    assert terminals[0].screens[-1] == terminals[1].screens[-1]


# fmt: off
CODES = [
    (b"",                     True,  [],                               b""),
    (b"\x1b[C",               False, [Key.NEXT],                       b""),
    (b"\x1b[1;2D",            False, [Key.PREVIOUS],                   b""),
    (b"\x1b",                 False, [],                               b"\x1b"),
    (b"\x1b",                 True,  [Key.QUIT],                       b""),
    (b"\x1b[",                False, [],                               b"\x1b["),
    (b"\x1b[1;",              False, [],                               b"\x1b[1;"),
    (b"\x1b[1;",              True,  [],                               b""),
    (b"\x1bO",                False, [],                               b"\x1bO"),
    (b" \x1b[H\x1bOF?",       False, [Key.NEXT, Key.FIRST, Key.LAST, Key.HELP], b""),
    (b"\x1b\x1b[C",           False, [Key.QUIT, Key.NEXT],             b""),
    (b"\x1bx",                False, [],                               b""),
    (b"\x1b[200~x\x1b[201~",  False, [],                               b""),
    ("λz".encode(),           False, [],                               b""),
]
# fmt: on


@pytest.mark.parametrize(("data", "is_all", "keys", "rest"), CODES)
def test_what_a_terminal_sends_is_read_as_keys(data: bytes, is_all: bool, keys: list[Key], rest: bytes) -> None:
    assert decode_keys(data, is_all) == (keys, rest)
    for k in range(len(data) if keys and not is_all else 0):  # and in two parts
        first, begun = decode_keys(data[:k], is_all=False)
        second, left = decode_keys(begun + data[k:], is_all=False)
        assert (first + second, left) == (keys, rest)


def test_signals_find_the_terminal_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends or stops has given the terminal back; one that continues takes it again and draws."""
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    events: list[str] = []

    def note(event: str) -> None:
        written = os.read(ours, 4096) if select.select([ours], [], [], 0)[0] else b""
        screens = re.findall(rb"\x1b\[\?1049([hl])", written)
        is_restored = termios.tcgetattr(theirs) == before
        events.append(f"{b''.join(screens).decode()} {event} {'as before' if is_restored else 'taken'}".strip())

    handlers: dict[int, Any] = {}
    ends = [-7]

    def handle(number: int, handler: Any) -> Any:
        before, handlers[number] = handlers.get(number, f"handler of {number}"), handler
        return before

    def wake(end: int, **_: bool) -> int:
        ends.append(end)
        return ends[-2]

    monkeypatch.setattr(terminal_module.signal, "signal", handle)
    monkeypatch.setattr(terminal_module.signal, "set_wakeup_fd", wake)
    monkeypatch.setattr(terminal_module.os, "kill", lambda process, number: note(f"kill {signal.Signals(number).name}"))
    with FullScreen(theirs, theirs) as screen:
        note("begin")
        for name in ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGTSTP", "SIGCONT", "SIGWINCH"):
            os.write(screen._wakeup_write, bytes([getattr(signal, name)]))
            assert screen.next_keys() == [Key.REDRAW]
            note("then")
            if name in ("SIGTERM", "SIGHUP", "SIGQUIT"):
                screen._enter()  # a process that goes on all the same
                os.read(ours, 4096)
        with pytest.raises(KeyboardInterrupt):
            screen._handle_signal(signal.SIGINT)
    note("end")
    assert (ends[1] >= 0, ends[2:]) == (True, [-7])
    assert len(handlers) == 7
    assert all(handler == f"handler of {int(number)}" for number, handler in handlers.items())
    ended = ["l kill {} as before", "then as before"]
    assert events == [
        "h begin taken",
        *(text.format(name) for name in ("SIGTERM", "SIGHUP", "SIGQUIT") for text in ended),
        "l kill SIGTSTP as before",
        "h then taken",
        "h then taken",
        "then taken",
        "l end as before",
    ]
    os.close(ours)
    os.close(theirs)

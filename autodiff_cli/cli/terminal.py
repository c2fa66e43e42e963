"""A terminal in full-screen mode: single keys are read, the whole screen is drawn, and the terminal is always restored.

This works only on systems with `termios`. It uses control sequences of ECMA-48 and xterm, which every current terminal
understands.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import os
import re
import select
import signal
import termios
from collections.abc import Sequence
from types import FrameType
from typing import Any

_ESCAPE_SECONDS = 0.1  # a key code that begins with Esc arrives completely within this time, in seconds

# Alternate screen, no cursor, long lines cut instead of wrapped; and the reverse.
_ENTER_SCREEN = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
_LEAVE_SCREEN = b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"

_FATAL = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_SIGNALS = (*_FATAL, signal.SIGINT, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)


class Key(enum.Enum):
    """A command of the step-by-step view, with the codes of its keys."""

    NEXT = (b"\x1b[C", b"\x1bOC", b" ", b"\r", b"\n", b"l", b"f")
    PREVIOUS = (b"\x1b[D", b"\x1bOD", b"\x7f", b"\x08", b"h", b"b")
    FIRST = (b"\x1b[H", b"\x1bOH", b"\x1b[1~", b"\x1b[7~", b"g")
    LAST = (b"\x1b[F", b"\x1bOF", b"\x1b[4~", b"\x1b[8~", b"G")
    UP = (b"\x1b[A", b"\x1bOA", b"k")
    DOWN = (b"\x1b[B", b"\x1bOB", b"j")
    HELP = (b"?",)
    QUIT = (b"q", b"Q", b"\x1b", b"\x03", b"\x04")
    REDRAW = (b"\x0c",)  # also when the window was resized or overwritten


_KEY_BY_CODE = {code: key for key in Key for code in key.value}
# A control sequence, an Esc before another Esc, Alt with a key, a single byte, or an incomplete sequence.
_CODE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[ -~]|(?=\x1b)|[^\[O\x1b])|[^\x1b]|\x1b.*", re.DOTALL)
_INCOMPLETE_CODE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|O)?\Z")
_MODIFIED_KEY = re.compile(rb"\x1b\[1;\d+([A-H])")


def decode_keys(data: bytes, is_all: bool) -> tuple[list[Key], bytes]:
    """Decode the bytes from a terminal into keys.

    Args:
        data: the bytes.
        is_all: whether no more bytes belong to them, so that an Esc at the end is the key Esc.

    Returns:
        The keys, and the bytes of an incomplete key at the end.
    """
    keys = []
    position = 0
    for code in _CODE.finditer(data):
        if _INCOMPLETE_CODE.match(data, code.start()) and not is_all:
            break
        keys.append(_KEY_BY_CODE.get(_MODIFIED_KEY.sub(b"\x1b[\\1", code[0])))
        position = code.end()
    return [key for key in keys if key is not None], data[position:]


class Terminal:
    """A context in which a terminal is in full-screen mode with single-key input.

    The terminal is restored at the end, on an exception, when the process is terminated, and while it is stopped
    (Ctrl-Z). Signals are recorded when they arrive and handled in `next_keys`, so that none interrupts a control
    sequence. Use it in the main thread.

    Args:
        source: the file descriptor to read keys from.
        target: the file descriptor of the terminal to write to.
    """

    def __init__(self, source: int, target: int) -> None:
        self._source, self._target = source, target
        self._pending = b""

    def __enter__(self) -> Terminal:
        self._modes = termios.tcgetattr(self._source)
        self._wakeup_read, self._wakeup_write = os.pipe()
        for end in (self._wakeup_read, self._wakeup_write):
            os.set_blocking(end, False)
        self._previous_wakeup = signal.set_wakeup_fd(self._wakeup_write, warn_on_full_buffer=False)
        self._handlers = {number: signal.signal(number, _ignore_signal) for number in _SIGNALS}
        try:
            self._enter()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()
        signal.set_wakeup_fd(self._previous_wakeup)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._wakeup_read)
        os.close(self._wakeup_write)

    def size(self) -> tuple[int, int]:
        """Return the columns and rows of the window; 80 and 24 if the terminal does not know them."""
        columns, rows = os.get_terminal_size(self._target)
        return columns or 80, rows or 24

    def draw(self, lines: Sequence[bytes]) -> None:
        """Draw the whole screen, one line for each row."""
        self._write(b"".join(b"\x1b[%d;1H\x1b[K%b" % (row, line) for row, line in enumerate(lines, 1)))

    def next_keys(self) -> list[Key]:
        """Wait for keys and return them. A closed terminal counts as QUIT.

        Raises:
            KeyboardInterrupt: for Ctrl-C.
        """
        while True:
            seconds = _ESCAPE_SECONDS if self._pending else None
            ready, _, _ = select.select([self._source, self._wakeup_read], [], [], seconds)
            if self._wakeup_read in ready:
                for number in os.read(self._wakeup_read, 1024):
                    self._handle_signal(number)
                return [Key.REDRAW]
            data = self._read() if ready else b""
            if ready and not data:
                return [Key.QUIT]
            keys, self._pending = decode_keys(self._pending + data, is_all=not ready)
            if keys:
                return keys

    def _read(self) -> bytes:
        try:
            return os.read(self._source, 1024)
        except OSError:  # hung up
            return b""

    def _handle_signal(self, number: int) -> None:
        """Handle a signal, with the terminal restored while the process is stopped or terminated."""
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        if number in _FATAL or number == signal.SIGTSTP:
            self._leave()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)  # the process ends here, or stops until SIGCONT
            signal.signal(number, _ignore_signal)
        if number in (signal.SIGTSTP, signal.SIGCONT):
            self._enter()

    def _enter(self) -> None:
        modes = termios.tcgetattr(self._source)
        modes[3] &= ~(termios.ICANON | termios.ECHO)
        modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
        self._set_modes(modes)
        self._write(_ENTER_SCREEN)

    def _leave(self) -> None:
        with contextlib.suppress(OSError, termios.error):  # the terminal may be gone
            self._write(_LEAVE_SCREEN)
            self._set_modes(self._modes)

    def _set_modes(self, modes: list[Any]) -> None:
        """Set the terminal's modes. In the background this stops the process, so it is repeated when interrupted."""
        while True:
            try:
                return termios.tcsetattr(self._source, termios.TCSADRAIN, modes)
            except termios.error as error:
                if error.args[0] != errno.EINTR:
                    raise

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._target, data) :]


def _ignore_signal(number: int, _: FrameType | None) -> None:
    """Handle a signal by doing nothing: Python already writes its number to the wake-up pipe."""

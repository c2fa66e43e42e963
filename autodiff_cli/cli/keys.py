"""A terminal taken over: keys come one by one, the whole screen is ours, and all is given back whatever happens.

Only for systems with `termios`. Control sequences are those of ECMA-48 and of xterm, which every terminal of today
understands.
"""

from __future__ import annotations

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

_ESCAPE_SECONDS = 0.1  # after Esc, how long the rest of a longer key may be on its way

# Another screen, no cursor, lines that are cut instead of wrapped; and back.
_TAKE = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
_GIVE_BACK = b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"

_FATAL = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_SIGNALS = (*_FATAL, signal.SIGINT, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)


class Key(enum.Enum):
    """What someone wants."""

    NEXT = enum.auto()
    PREVIOUS = enum.auto()
    FIRST = enum.auto()
    LAST = enum.auto()
    UP = enum.auto()
    DOWN = enum.auto()
    HELP = enum.auto()
    QUIT = enum.auto()
    REDRAW = enum.auto()  # no key: the window has another size, or shows something else


_KEYS = {
    Key.NEXT: (b"\x1b[C", b"\x1bOC", b" ", b"\r", b"\n", b"l", b"f"),
    Key.PREVIOUS: (b"\x1b[D", b"\x1bOD", b"\x7f", b"\x08", b"h", b"b"),
    Key.FIRST: (b"\x1b[H", b"\x1bOH", b"\x1b[1~", b"\x1b[7~", b"g"),
    Key.LAST: (b"\x1b[F", b"\x1bOF", b"\x1b[4~", b"\x1b[8~", b"G"),
    Key.UP: (b"\x1b[A", b"\x1bOA", b"k"),
    Key.DOWN: (b"\x1b[B", b"\x1bOB", b"j"),
    Key.HELP: (b"?",),
    Key.QUIT: (b"q", b"Q", b"\x1b", b"\x03", b"\x04"),
    Key.REDRAW: (b"\x0c",),
}
_MEANINGS = {code: key for key, codes in _KEYS.items() for code in codes}
# A control sequence, Esc before another, Alt with a key, or a byte; and the beginning of what may be a sequence.
_CODE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[ -~]|(?=\x1b)|[^\[O\x1b])|[^\x1b]", re.DOTALL)
_BEGUN = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|O)?\Z")
_WITH_SHIFT_AND_THE_LIKE = re.compile(rb"\x1b\[1;\d+([A-H])")


def decoded(data: bytes, is_all: bool) -> tuple[list[Key], bytes]:
    """The keys in what a terminal has sent, and what is not a key yet.

    Args:
        is_all: whether nothing more belongs to it, so that an Esc at the end is the key Esc.
    """
    found = []
    place = 0
    while place < len(data):
        if _BEGUN.match(data, place) and not is_all:
            break
        code = _CODE.match(data, place)
        if code is None:  # what has begun and does not go on
            found.append(_MEANINGS.get(data[place:]))
            place = len(data)
        else:
            found.append(_MEANINGS.get(_WITH_SHIFT_AND_THE_LIKE.sub(b"\x1b[\\1", code[0])))
            place = code.end()
    return [key for key in found if key is not None], data[place:]


class Terminal:
    """A context in which a terminal is ours. It is given back at the end, at an exception, when the process is asked to
    end, and for as long as it is stopped (Ctrl-Z).

    Signals are noted when they come and obeyed in `next_keys`, so that none interrupts half an order to the terminal.
    To be used in the main thread.

    Args:
        source: the descriptor from which keys come.
        target: the descriptor of the terminal that is written to.
    """

    def __init__(self, source: int, target: int) -> None:
        self._source, self._target = source, target
        self._begun = b""

    def __enter__(self) -> Terminal:
        self._modes = termios.tcgetattr(self._source)
        self._noted, self._notes = os.pipe()
        for end in (self._noted, self._notes):
            os.set_blocking(end, False)
        self._notes_before = signal.set_wakeup_fd(self._notes, warn_on_full_buffer=False)
        self._handlers = {number: signal.signal(number, _note) for number in _SIGNALS}
        try:
            self._take()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._give_back()
        signal.set_wakeup_fd(self._notes_before)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._noted)
        os.close(self._notes)

    def size(self) -> tuple[int, int]:
        """The columns and rows of the window; 80 and 24 for a terminal that does not know."""
        columns, rows = os.get_terminal_size(self._target)
        return columns or 80, rows or 24

    def draw(self, lines: Sequence[bytes]) -> None:
        """Fill the screen: as many lines as it has rows."""
        self._write(b"".join(b"\x1b[%d;1H\x1b[K%b" % (row, line) for row, line in enumerate(lines, 1)))

    def next_keys(self) -> list[Key]:
        """The keys that come next; waits until there are any. A terminal that is gone means QUIT.

        Raises:
            KeyboardInterrupt: for Ctrl-C.
        """
        while True:
            seconds = _ESCAPE_SECONDS if self._begun else None
            ready, _, _ = select.select([self._source, self._noted], [], [], seconds)
            if self._noted in ready:
                for number in os.read(self._noted, 1024):
                    self._obey(number)
                return [Key.REDRAW]
            data = self._read() if ready else b""
            if ready and not data:
                return [Key.QUIT]
            found, self._begun = decoded(self._begun + data, is_all=not ready)
            if found:
                return found

    def _read(self) -> bytes:
        try:
            return os.read(self._source, 1024)
        except OSError:  # hung up
            return b""

    def _obey(self, number: int) -> None:
        """Do what a signal asks for, with the terminal in order meanwhile."""
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        if number in _FATAL or number == signal.SIGTSTP:
            self._give_back()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)  # here the process ends, or stands still until it is told to go on
            signal.signal(number, _note)
        if number in (signal.SIGTSTP, signal.SIGCONT):
            self._take()

    def _take(self) -> None:
        modes = termios.tcgetattr(self._source)
        modes[3] &= ~(termios.ICANON | termios.ECHO)
        modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
        self._set(modes)
        self._write(_TAKE)

    def _give_back(self) -> None:
        try:
            self._write(_GIVE_BACK)
            self._set(self._modes)
        except (OSError, termios.error):
            return  # the terminal is gone

    def _set(self, modes: list[Any]) -> None:
        """Set the terminal's modes. In the background that stops the process, and is to be tried again."""
        while True:
            try:
                return termios.tcsetattr(self._source, termios.TCSADRAIN, modes)
            except termios.error as error:
                if error.args[0] != errno.EINTR:
                    raise

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._target, data) :]


def _note(number: int, _: FrameType | None) -> None:
    """A handler of signals for which it is enough that Python writes down their numbers."""

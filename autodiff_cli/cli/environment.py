"""The world around a command, as one object that tests replace."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple, TextIO

if TYPE_CHECKING:
    from autodiff_cli.render.paper import Paper

_LONGEST_LINE = 2000  # characters of what is told


class Environment(NamedTuple):
    """Streams, and what is known about them.

    Attributes:
        terminal: whether standard output is a terminal that can do more than print lines.
        width: its columns; nothing else is ever wrapped or shortened.
        colour: whether it may be coloured.
        clock: seconds, for progress.
    """

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    terminal: bool = False
    width: int = 80
    colour: bool = False
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def of_process(cls) -> Environment:
        """The environment of this process."""
        from autodiff_cli.render.text import LOOKALIKES

        stdin, stdout, stderr = sys.stdin or _nothing("r"), sys.stdout or _nothing("w"), sys.stderr or _nothing("w")
        for stream in (stdout, stderr):
            # A character that the encoding lacks is no reason to fail.
            getattr(stream, "reconfigure", lambda **_: None)(errors=LOOKALIKES)
        terminal = stdout.isatty() and os.environ.get("TERM") != "dumb"
        return cls(
            stdin,
            stdout,
            stderr,
            terminal=terminal,
            width=shutil.get_terminal_size().columns if terminal else 80,
            colour=terminal and not os.environ.get("NO_COLOR"),
        )

    def paper(self) -> Paper:
        """What to write a report on: with colour and boxes in a terminal, plain lines elsewhere."""
        if self.terminal:
            from autodiff_cli.render.terminal import TerminalPaper

            return TerminalPaper(self.stdout, self.width, self.colour)
        from autodiff_cli.render.paper import Paper

        return Paper(self.stdout)

    def document(self) -> TextIO:
        """Standard output for a file format: in UTF-8, whatever the terminal's encoding is. What was read with
        `surrogateescape` comes out as it went in."""
        if isinstance(self.stdout, io.TextIOWrapper):
            self.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
        return self.stdout

    def note(self, message: str) -> None:
        """Tell the user something that is not part of the answer. Where there is nobody to tell, nothing happens. Of a
        line that repeats something endless, the middle is left out."""
        from autodiff_cli.render.text import shortened, visible

        lines = (shortened(line, _LONGEST_LINE) for line in visible(message).split("\n"))
        with contextlib.suppress(OSError):
            self.stderr.write("\n".join(lines) + "\n")


def _nothing(mode: Literal["r", "w"]) -> TextIO:
    """A stream in the place of one that the process was started without: it has nothing to read, and takes nothing."""
    return open(os.open(os.devnull, os.O_RDONLY), mode, encoding="utf-8")

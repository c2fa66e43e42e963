"""The world around a command, as one object that tests replace."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TextIO

if TYPE_CHECKING:
    from autodiff_cli.render.paper import Paper


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
        for stream in (sys.stdout, sys.stderr):
            # A character that the encoding lacks is no reason to fail.
            getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
        terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        return cls(
            sys.stdin,
            sys.stdout,
            sys.stderr,
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

    def note(self, message: str) -> None:
        """Tell the user something that is not part of the answer."""
        from autodiff_cli.render.text import visible

        self.stderr.write(visible(message) + "\n")

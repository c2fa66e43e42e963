"""`autodiff trace --step`: the walk through a trace, key by key."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autodiff_cli.cli.environment import Environment
from autodiff_cli.explain.record import Trace

if TYPE_CHECKING:
    from autodiff_cli.cli.keys import Terminal
    from autodiff_cli.render.characters.walk import Walk


def walked(environment: Environment, traced: Trace, digits: int | None, is_input_read: bool) -> bool:
    """Walk through a trace until the user quits.

    Args:
        is_input_read: whether the expression came from standard input, so that keys cannot.

    Returns:
        False where that needs a terminal and there is none; a note says so.
    """
    if importlib.util.find_spec("termios") is None:
        return _refused(environment, "this system has none that it knows")
    if not environment.terminal:
        return _refused(environment, "standard output is not a terminal that can be drawn on")
    with _keyboard(environment, is_input_read) as source:
        if source is None:
            return _refused(environment, "standard input is not a terminal")
        from autodiff_cli.cli.keys import Terminal
        from autodiff_cli.render.characters.walk import Walk

        walk = Walk(traced, digits, environment.stdout.encoding)
        environment.stdout.flush()
        with Terminal(source, environment.stdout.fileno()) as terminal:
            _walk(walk, terminal, environment)
    return True


def _refused(environment: Environment, reason: str) -> bool:
    environment.note(f"note: --step needs a terminal, but {reason}; here are all steps")
    return False


@contextlib.contextmanager
def _keyboard(environment: Environment, is_input_read: bool) -> Iterator[int | None]:
    """The descriptor from which keys come: standard input, or if that was a pipe with the expression, the terminal that
    controls the process. None if there is none."""
    if environment.stdin.isatty():
        yield environment.stdin.fileno()
        return
    try:
        source = os.open("/dev/tty", os.O_RDONLY) if is_input_read else None
    except OSError:
        source = None
    try:
        yield source
    finally:
        if source is not None:
            os.close(source)


def _walk(walk: Walk, terminal: Terminal, environment: Environment) -> None:
    """Draw, and do what the keys say, until one says to quit."""
    from autodiff_cli.cli.keys import Key
    from autodiff_cli.render.characters.cells import Extent
    from autodiff_cli.render.characters.ink import coded
    from autodiff_cli.render.characters.walk import Viewpoint
    from autodiff_cli.render.text import LOOKALIKES

    last = len(walk.moments) - 1
    view = Viewpoint()
    while True:
        window = Extent(*terminal.size())
        lines = (coded(line, environment.colour) for line in walk.screen(view, window))
        terminal.draw([line.encode(environment.stdout.encoding, LOOKALIKES) for line in lines])
        for key in terminal.next_keys():
            match key:
                case Key.NEXT:
                    view = Viewpoint(min(view.at + 1, last))
                case Key.PREVIOUS:
                    view = Viewpoint(max(view.at - 1, 0))
                case Key.FIRST:
                    view = Viewpoint()
                case Key.LAST:
                    view = Viewpoint(last)
                case Key.UP:
                    view = view._replace(line=max(view.line - 1, 0))
                case Key.DOWN:
                    view = view._replace(line=min(view.line + 1, walk.last_line(view, window)))
                case Key.HELP:
                    view = Viewpoint(view.at, is_help=not view.is_help)
                case Key.REDRAW:
                    pass
                case Key.QUIT:
                    return

"""The manual page, autodiff(1), from the text of `--help`. `python docs/manual_page.py` prints it; wheels have it."""

from __future__ import annotations

from autodiff_cli import __version__
from autodiff_cli.cli.command_line import COMMANDS, find_command, overview

_MANUAL_WIDTH = 72  # columns; readers of manual pages indent them
_ROFF_ESCAPES = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}


def manual() -> str:
    """Return the manual page, in the macros of man(7): the help of `autodiff` and of its commands, as it stands.

    >>> manual().splitlines()[0]
    '.TH AUTODIFF 1 "" "autodiff 0.1.0" "User Commands"'
    """
    lines = [
        f'.TH AUTODIFF 1 "" "autodiff {__version__}" "User Commands"',
        ".SH NAME",
        "autodiff \\- differentiate formulas, watch backpropagation, fit formulas to data",
        ".SH SYNOPSIS",
        *_verbatim(overview()),
        ".SH COMMANDS",
    ]
    for name in COMMANDS:
        lines += [f".SS autodiff {name}", *_verbatim(find_command(name).help(_MANUAL_WIDTH))]
    return "\n".join([*lines, *_CLOSING_SECTIONS]) + "\n"


_CLOSING_SECTIONS = r""".SH EXIT STATUS
.TP
0
Done.
.TP
1
The command ran and failed: a fit diverged, a check failed, or a file could not be written.
.TP
2
Bad input: a formula, a name, an option or a file cannot be used. The message names it and its place.
.TP
130
Interrupted.
.SH ENVIRONMENT
.TP
AUTODIFF_CACHE
If \(lqoff\(rq, no cache is written. Otherwise the cache is the folder \(lqautodiff\(rq in $XDG_CACHE_HOME or
~/.cache; on macOS and Windows, in the cache folder of the system.
.TP
AUTODIFF_CPU
The instruction set to compile for: \(lqnative\(rq (default), \(lqx86-64\(rq or \(lqx86-64-v3\(rq.
.TP
NO_COLOR
If set, output has no colours.""".splitlines()


def _verbatim(text: str) -> list[str]:
    """Return the lines of a text that keeps its line breaks."""
    return [".nf", *map(_escaped, text.splitlines()), ".fi"]


def _escaped(text: str) -> str:
    """Return text escaped for roff: no macro, no escape sequence, a minus for each hyphen.

    >>> print(_escaped(".x -y '\\\\'"))
    \\&.x \\-y \\(aq\\e\\(aq
    """
    escaped = "".join(_ROFF_ESCAPES.get(c, c if c.isascii() else f"\\[u{ord(c):04X}]") for c in text)
    return r"\&" + escaped if text.startswith(".") else escaped


if __name__ == "__main__":
    print(manual(), end="")

"""The manual page, made of what `--help` says.

`python -m autodiff_cli.cli.completing.manual` writes it; wheels have it ready.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

import typer
from typer.core import TyperArgument, TyperCommand

from autodiff_cli.cli.app import commands
from autodiff_cli.version import __version__

_ESCAPES = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}
_AS_IT_STANDS = "\b\n"  # before paragraphs in helps that are not to be filled


def manual() -> str:
    """The page, in the macros of man(7).

    >>> manual().splitlines()[0]
    '.TH AUTODIFF 1 "" "autodiff 0.1.0" "User Commands"'
    """
    group = commands("")
    named = {name: command for name, command in group.commands.items() if isinstance(command, TyperCommand)}
    summary, _, overview = (group.help or "").partition("\n\n")
    lines = [
        f'.TH AUTODIFF 1 "" "autodiff {__version__}" "User Commands"',
        ".SH NAME",
        f"autodiff \\- {_text(summary[0].lower() + summary[1:].rstrip('.'))}",
        ".SH SYNOPSIS",
        *[line for name, command in named.items() for line in _synopsis(name, command)][1:],
        ".SH DESCRIPTION",
        *_paragraphs(overview),
        ".SH COMMANDS",
    ]
    for name, command in named.items():
        lines += [f".SS autodiff {name}", *_paragraphs(command.help or ""), *_parameters(name, command)]
    return "\n".join([*lines, *_END]) + "\n"


_END = r""".SH EXIT STATUS
.TP
0
Done.
.TP
1
It ran and failed: a fit that diverged, a check that does not hold, a file that could not be written.
.TP
2
Bad input: a formula, a name, an option or a file that cannot be used. The message says which and where.
.TP
130
Interrupted.
.SH ENVIRONMENT
.TP
AUTODIFF_CACHE
\(lqoff\(rq: no file is written that was not asked for. Otherwise what can be computed again is kept in
\(lqautodiff\(rq in $XDG_CACHE_HOME or ~/.cache.
.TP
NO_COLOR
If it is set, nothing is coloured.""".splitlines()


def _synopsis(name: str, command: TyperCommand) -> list[str]:
    pieces = " ".join(command.collect_usage_pieces(_context(name, command)))
    return [".br", f".B autodiff {name}", _text(pieces)]


def _parameters(name: str, command: TyperCommand) -> Iterator[str]:
    """Arguments, then options, each with what it means."""
    for parameter in sorted(
        command.get_params(_context(name, command)), key=lambda p: not isinstance(p, TyperArgument)
    ):
        record = parameter.get_help_record(_context(name, command))
        if record is not None:
            yield ".TP"
            yield f".B {_text(record[0])}"
            yield from _filled(record[1])


def _context(name: str, command: TyperCommand) -> typer.Context:
    return typer.Context(command, info_name=f"autodiff {name}")


def _paragraphs(help: str) -> Iterator[str]:
    """A help's paragraphs: filled, or as they stand."""
    for k, paragraph in enumerate(re.split(r"\n\s*\n", textwrap.dedent(help).strip())):
        yield from [".PP"][:k]
        if not paragraph.startswith(_AS_IT_STANDS):
            yield from _filled(paragraph)
            continue
        yield ".nf"
        yield from map(_text, textwrap.dedent(paragraph[len(_AS_IT_STANDS) :]).splitlines())
        yield ".fi"


def _filled(text: str) -> Iterator[str]:
    yield from map(_text, textwrap.wrap(text, 78, break_long_words=False, break_on_hyphens=False))


def _text(text: str) -> str:
    """Text that means itself: no macro, no escape, no hyphen in the place of a minus.

    >>> print(_text(".x -y '\\\\'"))
    \\&.x \\-y \\(aq\\e\\(aq
    """
    escaped = "".join(_ESCAPES.get(c, c if c.isascii() else f"\\[u{ord(c):04X}]") for c in text)
    return r"\&" + escaped if text.startswith(".") else escaped


if __name__ == "__main__":
    print(manual(), end="")

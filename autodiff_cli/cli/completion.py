"""`autodiff completion`: scripts for shells, and the words that complete a command line.

A script asks `autodiff completion SHELL -- PLACE WORDS` for the completions of the word at the cursor. If there are
none, the shell completes file names.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from autodiff_cli.cli.command_line import COMMANDS, EXPRESSIONS, Parameter, command, find_command
from autodiff_cli.cli.environment import DATA_SUFFIXES, BadInput, Output
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.options import argument, option

_SHELLS = Path(__file__).parent / "shells"  # the folder of the scripts, each of which says how to install it

_QUOTES = "\"'"
_NAME_AT_END = re.compile(r"[^\W\d]\w*$")  # the incomplete name at the end of an expression
_VARIABLE_METAVAR = re.compile(r"\[?VAR]?|x(=1)?,y(=2)?|NAME\[?=(VALUE]?|LOW:HIGH)")  # the value is a variable


def completions(words: Sequence[str], after: Sequence[str] = ()) -> list[str]:
    """Return the completions of the last word; empty if a file name is expected, or if nothing fits.

    Args:
        words: the words after `autodiff`, up to the one at the cursor.
        after: the words that follow it.

    >>> completions(["tra"]), completions(["grad", "x*y", "--wr"]), completions(["grad", "x*y + logadd"])
    (['trace', 'train'], ['--wrt'], ['x*y + logaddexp('])
    """
    *before, typed = words or [""]
    if not before:
        return [name for name in COMMANDS if name.startswith(typed)]
    name, *rest = before
    line = [*rest, *after]
    if name not in COMMANDS:
        return []
    command = find_command(name)
    options = command.options
    last = rest[-1] if rest else ""
    if last in options and not options[last].is_flag:
        return _option_values(options[last], line, typed)
    option, equals, value = typed.partition("=")
    if equals and option in options:
        return [f"{option}={completion_text}" for completion_text in _option_values(options[option], line, value)]
    if typed.startswith("-"):
        variable_options = (f"--{variable}" for variable in _variable_names(line)) if command.takes_values else ()
        return sorted({text for text in (*options, *variable_options) if text.startswith(typed) and text not in line})
    position = min(sum(not word.startswith("-") for word in rest), len(command.arguments) - 1)
    metavars = {argument.metavar for argument in command.arguments[position:]}
    if metavars.intersection(EXPRESSIONS) or (typed[:1] in _QUOTES and typed):
        return _complete_expression(typed, line)
    return []


def _option_values(option: Parameter, line_words: Sequence[str], typed: str) -> list[str]:
    """Return the completions of the value of an option, known from its type, its check or its metavar."""
    metavar = option.metavar
    choices: Iterable[str] = option.choices
    if re.fullmatch(r"\[?[a-z][a-z0-9]*(\|[a-z0-9]+)+\]?", metavar):
        choices = metavar.strip("[]").split("|")  # some values of an option that accepts others too
    elif metavar.endswith("COLUMN"):
        choices = _column_names(line_words)
    elif _VARIABLE_METAVAR.fullmatch(metavar):
        *listed, typed = typed.split(",")
        head = "".join(f"{part}," for part in listed)
        return [head + name for name in _variable_names(line_words) if name.startswith(typed) and name not in listed]
    return [str(choice) for choice in choices if str(choice).startswith(typed)]


def _complete_expression(typed: str, line_words: Sequence[str]) -> list[str]:
    """Return the expression with the name at its end completed; functions get an opening bracket."""
    from autodiff_cli.ops import function_names, overloads

    text = typed.lstrip(_QUOTES)
    tail = _NAME_AT_END.search(text)
    if tail is None:
        return []
    head, prefix = text[: tail.start()], tail[0]
    names = [name for name in _column_names(line_words) if name.startswith(prefix) and name != prefix]
    function_matches = sorted(name for name in function_names() if name.startswith(prefix))
    functions = [f"{name}(" for name in function_matches if not any(op.is_helper for op in overloads(name))]
    return [head + name for name in (*names, *functions)]


def _variable_names(line_words: Sequence[str]) -> list[str]:
    """Return the names in the expressions on the line that take a value."""
    from autodiff_cli.language.program import read

    columns = _column_names(line_words)
    names: dict[str, None] = {}
    for word in line_words:
        if not word.startswith("-") and Path(word).suffix not in (*DATA_SUFFIXES, ".json"):
            with contextlib.suppress(ExpressionError):
                names |= dict.fromkeys(read(word.strip(_QUOTES)).leaves)
    return [name for name in names if name not in columns and name.isidentifier()]


def _column_names(line_words: Iterable[str]) -> list[str]:
    """Return the columns of the data files on the line."""
    return list(dict.fromkeys(name for word in line_words for name in _columns_of_file(word)))


def _columns_of_file(path: str) -> Iterator[str]:
    """Yield the columns of a data file; none for another word or an unreadable file."""
    if Path(path).suffix.lower() not in DATA_SUFFIXES or not os.path.isfile(path):
        return
    from autodiff_cli.data.files import DataFile
    from autodiff_cli.data.table import DataError

    with contextlib.suppress(DataError):
        yield from DataFile(path).names


Shell = StrEnum("Shell", ["bash", "zsh", "fish"])


_WORDS_HELP = "For the script: number of the word at the cursor, and the words of the line."


@command()
def completion(
    shell: Shell = argument("bash|zsh|fish", "Shell to complete for."),
    words: list[str] | None = option("[-- PLACE WORDS...]", _WORDS_HELP),
) -> Output:
    """Print a script that lets a shell complete command lines.

    It completes commands, options and their choices, variables as options, functions of the language, and the columns
    of data files on the line.

    \b
    Examples:
      eval "$(autodiff completion bash)"
      autodiff completion fish > ~/.config/fish/completions/autodiff.fish
    """
    from autodiff_cli.render.report import text_report

    if not words:
        text = (_SHELLS / f"autodiff.{shell}").read_text(encoding="utf-8")
    elif not words[0].isdecimal() or not int(words[0]):
        raise BadInput(f"the first argument is the number of the word at the cursor, not `{words[0]}`")
    else:
        cursor = 1 + int(words[0])
        text = "".join(f"{word}\n" for word in completions(words[1:cursor] or [""], words[cursor:]))
    return Output(text_report(text))

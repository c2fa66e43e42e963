"""What can stand at the end of a command line: commands, options, their choices, names and functions in expressions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from typer.core import TyperCommand, TyperOption

from autodiff_cli.cli.app import COMMANDS, commands
from autodiff_cli.language.errors import ExpressionError

_QUOTES = "\"'"
_TAIL = re.compile(r"[^\W\d]\w*$")  # the name that is being typed at the end of an expression
_NAMED = ("--wrt", "--fix", "--bounds", "--set", "--direction", "--paths")  # take names of variables
_COLUMNS = ("--weights", "--sigma", "--by", "--x-sigma")  # take names of columns
_EXPRESSIONS = {"grad": 1, "trace": 1, "check": 1, "export": 1, "train": 1, "compare": 99}  # how many arguments are
_ENDINGS = (".csv", ".tsv", ".txt", ".dat", ".gz", ".parquet", ".arrow", ".feather", ".jsonl", ".ndjson")


def completions(words: Sequence[str], after: Sequence[str] = ()) -> list[str]:
    """The words that can stand in the place of the last one. None where a file's name is wanted, or nothing is known.

    Args:
        words: those after `autodiff`, up to the one that is being typed.
        after: those that follow it.

    >>> completions(["tra"]), completions(["grad", "x*y", "--wr"]), completions(["grad", "x*y + logadd"])
    (['trace', 'train'], ['--wrt'], ['x*y + logaddexp('])
    """
    *before, typed = words or [""]
    if not before:
        return [name for name in COMMANDS if name.startswith(typed)]
    name, *rest = before
    line = [*rest, *after]
    command = commands(name).commands.get(name) if name in COMMANDS else None
    if not isinstance(command, TyperCommand):
        return []
    options = {text: p for p in command.params if isinstance(p, TyperOption) for text in p.opts}
    last = rest[-1] if rest else ""
    if last in options and not options[last].is_flag:
        return _values(options[last], last, line, typed)
    option, equals, value = typed.partition("=")
    if equals and option in options:
        return [f"{option}={found}" for found in _values(options[option], option, line, value)]
    if typed.startswith("-"):
        own = (f"--{variable}" for variable in _variables(line)) if _takes_values(command) else ()
        return sorted({text for text in (*options, *own) if text.startswith(typed) and text not in line})
    arguments = [word for word in rest if not word.startswith("-")]
    if len(arguments) < _EXPRESSIONS.get(name, 0) or (typed[:1] in _QUOTES and typed):
        return _in_expression(typed, line)
    return []


def _values(option: TyperOption, name: str, rest: Sequence[str], typed: str) -> list[str]:
    """What an option can be given."""
    choices: Iterable[str] = getattr(option.type, "choices", ())
    metavar = option.metavar or ""
    if not choices and re.fullmatch(r"\[?[a-z][a-z0-9]*(\|[a-z0-9]+)+\]?", metavar):
        choices = metavar.strip("[]").split("|")
    if not choices and name == "--optimizer":
        from autodiff_cli.training.options import METHODS

        choices = METHODS
    if not choices and name == "--loss":
        from autodiff_cli.training.objective.losses import LOSSES

        choices = LOSSES
    if name in _COLUMNS:
        choices = _columns(rest)
    if name in _NAMED:
        *begun, typed = typed.split(",")
        head = "".join(f"{part}," for part in begun)
        return [head + found for found in _variables(rest) if found.startswith(typed) and found not in begun]
    return [str(choice) for choice in choices if str(choice).startswith(typed)]


def _in_expression(typed: str, rest: Sequence[str]) -> list[str]:
    """The expression with the name at its end completed: functions with a bracket, columns as they are."""
    from autodiff_cli.ops import function, function_names

    text = typed.lstrip(_QUOTES)
    tail = _TAIL.search(text)
    if tail is None:
        return []
    head, begun = text[: tail.start()], tail[0]
    names = [name for name in _columns(rest) if name.startswith(begun) and name != begun]
    fitting = sorted(name for name in function_names() if name.startswith(begun))
    functions = [f"{name}(" for name in fitting if not any(op.helper for op in function(name))]
    return [head + name for name in (*names, *functions)]


def _variables(rest: Sequence[str]) -> list[str]:
    """The names in the expressions on the line that take a value."""
    from autodiff_cli.language.lowering import read

    columns = _columns(rest)
    found: dict[str, None] = {}
    for word in rest:
        if word.startswith("-") or Path(word).suffix in (*_ENDINGS, ".json"):
            continue
        try:
            found |= dict.fromkeys(read(word.strip(_QUOTES)).leaves)
        except ExpressionError:
            continue
    return [name for name in found if name not in columns and name.isidentifier()]


def _columns(rest: Iterable[str]) -> list[str]:
    """The columns of the data files on the line."""
    return list(dict.fromkeys(name for word in rest for name in _header(word)))


def _header(path: str) -> Iterator[str]:
    if Path(path).suffix.lower() not in _ENDINGS or not Path(path).is_file():
        return
    from autodiff_cli.data.files import DataFile
    from autodiff_cli.data.table import DataError

    try:
        yield from DataFile(path).names
    except DataError:
        return


def _takes_values(command: TyperCommand) -> bool:
    return any(parameter.name == "assignments" for parameter in command.params)

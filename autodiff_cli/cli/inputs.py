"""What commands read from their arguments: expressions, and values of variables."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from pathlib import Path
from typing import Any

import typer

from autodiff_cli.cli.call import Call
from autodiff_cli.cli.environment import Environment
from autodiff_cli.cli.errors import BadInput
from autodiff_cli.cli.options import HELP, close_option
from autodiff_cli.explain.digits.right import unheld
from autodiff_cli.explain.record import Trace
from autodiff_cli.explain.tracing import trace
from autodiff_cli.formula.formula import Formula
from autodiff_cli.front import parse
from autodiff_cli.graph.node import Node
from autodiff_cli.language.errors import (
    MOST_LISTED,
    ExpressionError,
    MissingValueError,
    UnknownNameError,
    in_brief,
    suggest,
)
from autodiff_cli.language.lexer import canonical, written_name
from autodiff_cli.language.parser import LONGEST_TEXT

_PLUS_MINUS = re.compile(r"±|\+-")
_COMMA = re.compile(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)")  # outside backticks


def text_of(argument: str, environment: Environment) -> str:
    """The text of an expression: the argument itself, `-` for standard input, `@file` for a file. No more is read than
    what shows that it is too long.

    Raises:
        BadInput: for a file that cannot be read.
    """
    if argument == "-":
        return _decoded("standard input", lambda: environment.stdin.read(LONGEST_TEXT + 1))
    if argument.startswith("@"):
        return _decoded(f"`{argument[1:]}`", lambda: _beginning(argument[1:]))
    return argument


def _beginning(path: str) -> str:
    with Path(path).open(encoding="utf-8") as stream:
        return stream.read(LONGEST_TEXT + 1)


@functools.lru_cache(maxsize=4096)  # a value is asked for as floats have it, and again with all its digits
def constant_expression(name: str, text: str) -> Formula:
    """The value of an option as a formula without variables.

    Raises:
        BadInput: for a text that is not one.
    """
    try:
        expression = parse(text)
    except ExpressionError as error:
        raise BadInput(f"the value of {name}: {error}") from error
    if expression.variables:
        raise BadInput(f"the value of {name} must be a number or a constant expression, not `{text}`")
    return expression


def constant_value(name: str, text: str) -> Any:
    """The value of an option: any constant expression, as `pi/4`; an array for one like `[1, 2, 3]`. Raises as
    `constant_expression` does."""
    return constant_expression(name, text).value()


def constant_values(texts: Mapping[str, str]) -> dict[str, Any]:
    """The values of several variables. Raises as `constant_value` does."""
    return {name: constant_value(f"`{name}`", text) for name, text in texts.items()}


def formula(
    context: typer.Context, text: str, given: Iterable[str], columns: Iterable[str] = (), notes: bool = True
) -> Formula:
    """Read an expression for which the variables `given` have values.

    A given name that is a constant of the language (`e`) is a variable then.

    Args:
        columns: more names that replace constants; the expression need not have them.
        notes: whether to pass on what there is to say about the text.

    Raises:
        ExpressionError: for a text that is not an expression, and for a name that it does not have.
    """
    names = [*given]
    expression = parse(text, [*names, *columns])
    for name in names:
        if name not in expression.leaves:
            for leaf in expression.variables:
                meant = _meant_by(leaf, names)
                if meant is not None:
                    raise meant
            raise unknown(name, expression.leaves, expression.names.values(), "expression has no variable", context)
    for note in expression.notes if notes else ():
        Call.of(context).environment.note(f"note: {note}")
    return expression


def _meant_by(leaf: str, given: Collection[str]) -> UnknownNameError | None:
    """What to say of a name without a value where values are given for its parts: `xy`, with values for `x` and `y`."""
    if leaf in given:
        return None
    if leaf.endswith("ᵀ") and leaf[:-1] in given:
        words = f"`{leaf}` is one name; rows are made columns by a function"
        return UnknownNameError(words, suggestion=f"transpose({leaf[:-1]})")
    parts: list[str] = []
    rest = leaf
    while rest:
        part = max((name for name in given if name and rest.startswith(name)), key=len, default=None)
        if part is None:
            return None
        parts.append(part)
        rest = rest[len(part) :]
    if len(set(parts)) < len(parts):
        return None
    return UnknownNameError(f"`{leaf}` is one name; multiplication is written `*`", suggestion="*".join(parts))


def unknown(
    name: str, names: Iterable[str], bound: Iterable[str], lacks: str, context: typer.Context
) -> UnknownNameError:
    """The error for a value of a name that is not there, which may also be a misspelt option.

    Args:
        names: those that take a value; `bound` have one from the text itself.
        lacks: what is missing where, in words.
    """
    if name in bound:
        return UnknownNameError(f"`{name}` is defined by the expression itself, so it takes no value")
    message = f"the {lacks} `{name}`"
    close = suggest(name, names)
    if close is not None:
        return UnknownNameError(message, suggestion=f"--{close}")
    options = [option for parameter in context.command.params for option in parameter.opts if option.startswith("-")]
    known = [*names]
    only = f", only {in_brief(known, '`')}" if known else ""
    return UnknownNameError(f"{message}{only}; there is no option --{name}", suggestion=close_option(name, options))


def traced(context: typer.Context, expression: Formula, given: Mapping[str, str], wrt: Iterable[str]) -> Trace:
    """Both passes over an expression at the point that was given.

    Raises:
        MissingValueError: naming all variables without a value.
        BadInput: for a value that is not a constant expression.
    """
    return trace(expression, point(context, expression, given), wrt, unheld_values(expression, given))


def point(context: typer.Context, expression: Formula, given: Mapping[str, str]) -> dict[str, Any]:
    """The value of every variable. Raises as `traced` does."""
    check_all_given(context, expression, given)
    values = constant_values(given)
    return {name: values[name] for name in expression.variables}


def unheld_values(expression: Formula, given: Mapping[str, str]) -> dict[str, Any]:
    """Those of the values that no float holds, as `1e-400`, with all their digits."""
    found = {
        name: unheld(constant_expression(f"`{name}`", given[name])) for name in expression.variables if name in given
    }
    return {name: number for name, number in found.items() if number is not None}


def graphs(context: typer.Context, expression: Formula, given: Mapping[str, str]) -> dict[str, Node]:
    """The value of every variable as a graph, to be computed with more digits than a float has. Raises as `traced`
    does."""
    check_all_given(context, expression, given)
    return {name: constant_expression(f"`{name}`", given[name]).output for name in expression.variables}


def without_errors(given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The values of variables, and the standard errors of those that have one: `2+-0.1`, `2±0.1`.

    Raises:
        BadInput: for one that is not a value and an error.
    """
    values, errors = {}, {}
    for name, text in given.items():
        value, *rest = _PLUS_MINUS.split(text)
        if rest:
            if len(rest) > 1 or not value.strip() or not rest[0].strip() or value.count("[") > value.count("]"):
                raise BadInput(
                    f"the value of `{name}`: a value and its error are written 2+-0.1, an array and the errors of its "
                    f"elements [1, 2]+-[0.1, 0.2], not `{text}`"
                )
            errors[name] = rest[0]
        values[name] = value
    return values, errors


def interval(text: str) -> tuple[str, str] | None:
    """The two ends of an interval like `1.9..2.1`; None for another value."""
    low, dots, high = text.partition("..")
    return (low, high) if dots else None


def refuse_many(given: Mapping[str, str], command: str) -> None:
    """Raise BadInput for a range, an interval and a value with an error, which only `grad` takes."""
    errors = without_errors(given)[1]
    for name, text in given.items():
        if ":" in text or name in errors or interval(text):
            kind = "a value with an error" if name in errors else "an interval" if interval(text) else "a range"
            what = f"{kind}, as `{text}`,"
            raise BadInput(f"the value of `{name}`: {what} is for `grad`; {command} takes one number or array")


def check_all_given(context: typer.Context, expression: Formula, given: Container[str]) -> None:
    """Raise MissingValueError, naming all variables that are not given, with values that fit those that are."""
    missing = [name for name in expression.variables if name not in given]
    if missing:
        from autodiff_cli.render.reports.gradient import example_value

        known = given if isinstance(given, Mapping) and not expression.is_scalar else {}
        read = {name: constant_value(f"`{name}`", x) if isinstance(x, str) else x for name, x in known.items()}
        given_shapes = {name: getattr(x, "shape", ()) for name, x in read.items()}
        expression.check_numbers(given_shapes)
        shapes = expression.example_shapes_beside(given_shapes)
        values = {name: example_value(shapes.get(name, ())) for name in missing[:MOST_LISTED]}
        example = " ".join(spelt(context, name, value) for name, value in values.items())
        more = " …" if len(missing) > MOST_LISTED else ""
        raise MissingValueError(f"no value for {in_brief(missing, '`')}; add {example}{more}")


def spelt(context: typer.Context, name: str, value: str) -> str:
    """How to give a variable a value: by an option of its name, unless the command has one of that name itself, or the
    name stands in backticks."""
    written = written_name(name)
    if written != name:
        bare = value.strip('"')
        return f"--set {shlex.quote(f'{written}={bare}')}"
    options = {*HELP, *(option for parameter in context.command.params for option in parameter.opts)}
    return f"--set {name}={value}" if f"--{name}" in options else f"--{name} {value}"


def listed(names: str) -> tuple[str, ...]:
    """The names in a list like `x,y`, each once."""
    return tuple(dict.fromkeys(canonical(name.strip()) for name in _COMMA.split(names)))


def chosen(expression: Formula, names: str | None) -> tuple[str, ...]:
    """The variables that a list like `x,y` names; all of the expression's for None.

    Raises:
        UnknownNameError: for a name that the expression lacks.
    """
    if names is None:
        return expression.variables
    wanted = listed(names)
    for name in wanted:
        if not name:
            raise BadInput("--wrt takes names with commas between them, as --wrt x,y")
        if name not in expression.leaves:
            message = f"--wrt {names}: the expression has no variable `{name}`"
            raise UnknownNameError(message, suggestion=suggest(name, expression.leaves))
    return wanted


def _decoded(what: str, read: Callable[[], str]) -> str:
    """What `read` reads, without the mark that some editors begin a file with."""
    try:
        return read().removeprefix("\ufeff").rstrip()
    except UnicodeDecodeError as error:
        raise BadInput(f"{what} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except (OSError, ValueError) as error:  # a path with a NUL is a ValueError
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise BadInput(f"cannot read {what}: {reason}") from error

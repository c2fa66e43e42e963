"""From leaves that stand for a level or a match to numbers that a fit knows.

A match (`group == 'A'`) is a column of 1 and 0. `a[group]` is the sum over all levels of a parameter of its own,
`a[A]`, times the match of that level; so parameters, starts, bounds and errors are what they are in any model.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from autodiff_cli.graph.node import Node, variable
from autodiff_cli.graph.tape import rebuild, topological
from autodiff_cli.language.columns import NO_COLUMNS, ColumnNames, Level, Match, compared_with_text
from autodiff_cli.language.errors import ExpressionError, UnknownNameError, in_brief, suggest
from autodiff_cli.language.lowering import Program
from autodiff_cli.language.parser import parse
from autodiff_cli.training.errors import OptionError

Levels = Mapping[str, Sequence[Any]]

_MARKS = ("'", '"')


def column_names(text: str, names: Collection[str]) -> ColumnNames:
    """What the text of a model says of the columns: those that it compares with quoted text hold text, and each may
    choose among the values of a parameter."""
    if "[" not in text and not any(mark in text for mark in _MARKS):
        return NO_COLUMNS
    texts = compared_with_text(parse(text).lexemes) if any(mark in text for mark in _MARKS) else set()
    return ColumnNames({name for name in names if name in texts}, names)


def name_of(parameter: str, level: Any) -> str:
    """The name of a parameter's value for a level.

    >>> name_of("a", "north")
    'a[north]'
    """
    return f"{parameter}[{level}]"


def check_levels(program: Program, columns: Collection[str]) -> dict[str, Level]:
    """Of each parameter that has levels, the column that chooses among them.

    Raises:
        ExpressionError: for one that has the levels of two columns, or is a number besides.
    """
    found: dict[str, Level] = {}
    for leaf in program.of_columns.values():
        if not isinstance(leaf, Level):
            continue
        if leaf.parameter in columns:
            raise ExpressionError(f"`{leaf.parameter}` is a column; only parameters have a value for each level")
        other = found.setdefault(leaf.parameter, leaf)
        if other.column != leaf.column:
            message = f"`{leaf.parameter}` has a value for each level of `{other.column}`, so not of `{leaf.column}`"
            raise ExpressionError(message, suggestion=f"{leaf.parameter}2[{leaf.column}]")
        if leaf.parameter in program.leaves:
            raise ExpressionError(
                f"`{leaf.parameter}` is one number here, and one for each level of `{leaf.column}` there: "
                "use two names for them"
            )
    return found


def expanded(program: Program, levels: Levels) -> Program:
    """The program with a parameter for each level in the place of each leaf that stands for levels.

    Args:
        levels: those of each column that has some.
    """
    if not any(isinstance(leaf, Level) for leaf in program.of_columns.values()):
        return program
    _check_known(program, levels)
    made = {**program.leaves, **program.bound}  # levels that are tied to others are bound to expressions of them
    order: dict[str, Node] = {}
    replaced: dict[Node, Node] = {}
    matches: dict[str, Level | Match] = {}
    for text, node in program.leaves.items():
        leaf = program.of_columns.get(text)
        if not isinstance(leaf, Level):
            order[text] = node
            continue
        terms = []
        for level in levels[leaf.column]:
            match = Match(leaf.column, str(level))
            name = name_of(leaf.parameter, level)
            matches[str(match)] = match
            value = made.setdefault(name, variable(name))
            if name not in program.bound:
                order[name] = value
            terms.append(value * made.setdefault(str(match), variable(str(match))))
        replaced[node] = _sum(terms)
    order |= {text: made[text] for text in matches}
    kept = {text: leaf for text, leaf in program.of_columns.items() if isinstance(leaf, Match)}
    output, *target = rebuild([program.output, *([] if program.target is None else [program.target])], replaced)
    return dataclasses.replace(
        program,
        output=output,
        target=target[0] if target else None,
        leaves=order,
        of_columns={**kept, **matches},
        bound=dict(zip(program.bound, rebuild([*program.bound.values()], replaced), strict=True)),
    )


def _check_known(program: Program, levels: Levels) -> None:
    """Raise UnknownNameError for a name of a level that is not there."""
    of_levels = {
        leaf.parameter: [name_of(leaf.parameter, level) for level in levels[leaf.column]]
        for leaf in program.of_columns.values()
        if isinstance(leaf, Level)
    }
    read = {*program.leaves, *program.bound} - program.of_columns.keys() - of_levels.keys()
    by_level(dict.fromkeys(sorted(read)), {name for own in of_levels.values() for name in own}, of_levels)


def _sum(terms: Sequence[Node]) -> Node:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def columns_read(program: Program, names: Collection[str]) -> Iterator[str]:
    """The columns of the data that a program reads, as numbers or by their levels, in order; some perhaps twice."""
    for text in program.leaves:
        leaf = program.of_columns.get(text)
        if leaf is not None:
            yield leaf.column
        elif text in names:
            yield text


def columns_of(nodes: Sequence[Node], program: Program, names: Collection[str]) -> tuple[str, ...]:
    """The columns of the data that graphs read."""
    found: dict[str, None] = {}
    for leaf in topological(nodes):
        if leaf.is_input and leaf.text in program.of_columns:
            found[program.of_columns[leaf.text].column] = None
        elif leaf.is_input and leaf.text in names:
            found[leaf.text] = None
    return tuple(found)


def parameter_names(program: Program, names: Collection[str]) -> tuple[str, ...]:
    """The names that are no columns, of those that have levels without these."""
    found: dict[str, None] = {}
    for text in program.leaves:
        leaf = program.of_columns.get(text)
        if isinstance(leaf, Level):
            found[leaf.parameter] = None
        elif leaf is None and text not in names:
            found[text] = None
    return tuple(found)


def in_backticks(text: str, parameters: Collection[str]) -> str:
    """A text in which the names of levels' parameters stand in backticks, so that it can be read.

    >>> in_backticks("a[A] - a[B]", ["a[A]", "a[B]", "c"])
    '`a[A]` - `a[B]`'
    """
    names = [name for name in parameters if name.endswith("]")]
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"(?<![\w`]){re.escape(name)}", lambda found: f"`{found.group()}`", text)
    return text


def levels_in_backticks(text: str, parameters: Collection[str]) -> str:
    """The same where the levels are not known yet, of parameters that have some.

    >>> levels_in_backticks("2*a[A] - w[0]", ["a"])
    '2*`a[A]` - w[0]'
    """
    for name in parameters:
        text = re.sub(rf"(?<![\w`]){re.escape(name)}\[[^\]`]*\]", lambda found: f"`{found.group()}`", text)
    return text


def base_of(name: str, parameters: Collection[str]) -> str:
    """The parameter that a name like `a[A]` is a value of; the name itself for others.

    >>> base_of("a[A]", {"a", "b"}), base_of("b", {"a", "b"})
    ('a', 'b')
    """
    base = name.partition("[")[0]
    return base if name.endswith("]") and base in parameters else name


def by_level(values: Mapping[str, Any], parameters: Collection[str], of_levels: Mapping[str, Sequence[str]]) -> Any:
    """Values of parameters, those given for all levels (`a`) spread over them (`a[A]`), where none is given for one.

    Args:
        parameters: all names, the levels' too.
        of_levels: the names of the levels by that of the parameter.

    Raises:
        UnknownNameError: for a level that is not there.
    """
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name in of_levels:
            found |= {each: value for each in of_levels[name] if each not in values}
            continue
        base = base_of(name, of_levels)
        if base != name and name not in parameters:
            there = in_brief(of_levels[base], "`")
            words = f"there is no `{name}`; the levels are {there}"
            raise UnknownNameError(words, suggestion=suggest(name, of_levels[base]))
        found[name] = value
    return found


def check_not_many(name: str, levels: Sequence[Any], most: int) -> None:
    """Raise OptionError for more levels than a model has parameters for."""
    if len(levels) > most:
        raise OptionError(
            f"column `{name}` has {len(levels)} levels; one model has at most {most}: --by {name} fits each by itself"
        )

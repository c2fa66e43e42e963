"""Many points at once, for `grad`: the rows of a file (`--at FILE`), or ranges of values (`--x 0:10:101`)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

import typer

from autodiff_cli.backends.blocks import BLOCK
from autodiff_cli.cli import inputs
from autodiff_cli.cli.answer import Answer
from autodiff_cli.cli.call import Call
from autodiff_cli.cli.data import bad_input, data_file
from autodiff_cli.cli.declarations import More
from autodiff_cli.cli.errors import BadInput, Failure
from autodiff_cli.data.files import Block, DataFile
from autodiff_cli.data.table import DataError
from autodiff_cli.explain.digits.right_rows import RightRows
from autodiff_cli.formula.formula import Formula
from autodiff_cli.formula.points import MOST_POINTS, Gradients, Range, grid
from autodiff_cli.language.errors import in_brief
from autodiff_cli.render.reports.gradients import PointByPoint

_COUNT = re.compile("0*[1-9][0-9]*")
_LONGEST_COUNT = 100  # digits; what can be counted is far below


def answer(
    context: typer.Context,
    argument: str,
    given: Mapping[str, str],
    asked: More,
    wrt: str | None,
    digits: int | None,
    json: bool,
) -> Answer:
    """The value and the gradient at the rows of a file, or at all combinations of the values in ranges.

    Args:
        asked: what else is asked for, which does not go with many points.
        wrt: towards which variables (a list like `x,y`; None for all).

    Raises:
        BadInput: for a file or ranges that cannot be used, and for options that do not go with many points.
        ExpressionError: as for one point.
    """
    ranges = [name for name, value in given.items() if ":" in value]
    many = f"--{ranges[0]} {given[ranges[0]]}" if ranges else "--at"
    if others := [option for option in asked.options() if not (option == "--at" and not ranges)]:
        raise BadInput(f"{many} is for many points and {others[0]} is not: leave one of them out")
    if asked.at == argument == "-":
        raise BadInput("the expression and the points cannot both come from standard input: give one as a file")
    environment = Call.of(context).environment
    text = inputs.text_of(argument, environment)
    if asked.at is None:
        found = _on_a_grid(context, text, given, wrt, digits)
    else:
        found = _in_a_file(context, text, given, asked.at, wrt, digits)

    def tell() -> None:
        if found.undefined:
            what = "points where the value or a derivative is not a finite number"
            environment.note(f"{what}: {found.undefined}")
        if found.spoilt:
            environment.note(
                f"precision: rows in which rounding, or the range of floats, has spoilt a number: {found.spoilt}"
            )
            for row in found.first_spoilt:
                environment.note(f"  {row}")
        if found.unseen:
            environment.note(f"precision: further rows in which a number may be spoilt: {found.unseen}")

    return Answer(found.report, json, then=tell)


def _on_a_grid(
    context: typer.Context, text: str, given: Mapping[str, str], wrt: str | None, digits: int | None
) -> PointByPoint:
    ranges = {name: value_range(name, value) for name, value in given.items() if ":" in value}
    count = math.prod(chosen.count for chosen in ranges.values())
    if count > MOST_POINTS:
        raise BadInput(f"the ranges have {count:,} combinations, and {MOST_POINTS:,} is the most that can be counted")
    formula = inputs.formula(context, text, given)
    fixed = {name: value for name, value in given.items() if name not in ranges}
    blocks = ((columns, None) for columns in grid(ranges))
    gradients, right = _gradients(context, formula, [*ranges], fixed, wrt)
    gradients.points = count
    return PointByPoint(gradients, [*ranges], blocks, digits, right)


def _in_a_file(
    context: typer.Context, text: str, given: Mapping[str, str], path: str, wrt: str | None, digits: int | None
) -> PointByPoint:
    with bad_input():
        file = data_file(path, Call.of(context).environment, once=True)
        formula = inputs.formula(context, text, given, file.names)
        columns = [variable for variable in formula.variables if variable in file.names]
        _check_columns(file, columns, given, formula)
        gradients, right = _gradients(context, formula, columns, given, wrt)
        found = PointByPoint(gradients, file.header, _answerable(file, columns), digits, right)
        if taken := [own for own in found.results if own in file.names]:
            raise BadInput(f"{file.name}: there is a column `{taken[0]}` already; the results would have that name too")
        if path != "-":
            # What is wrong far down is found before anything is written.
            gradients.points = sum(len(block.cells) for block in file.blocks(columns, BLOCK))
    return found


def _answerable(file: DataFile, columns: Sequence[str]) -> Iterator[Block]:
    """The blocks of a file. A row that cannot be used is a failure once others have been answered, since what is
    written stands."""
    answered = False
    try:
        for block in file.blocks(columns, BLOCK):
            yield block
            answered = True
    except DataError as error:
        raise (Failure if answered else BadInput)(str(error)) from error
    if not answered:
        raise BadInput(f"{file.name}: there are no rows")


def _gradients(
    context: typer.Context, formula: Formula, columns: Sequence[str], fixed: Mapping[str, str], wrt: str | None
) -> tuple[Gradients, RightRows]:
    """What computes the rows, and what looks for those that are spoilt."""
    inputs.check_all_given(context, formula, {*columns, *fixed})
    values, names = inputs.constant_values(fixed), inputs.chosen(formula, wrt)
    gradients = Gradients(formula, columns, values, names)
    values = {name: value for name, value in values.items() if name in formula.leaves}
    return gradients, RightRows(formula, values, columns, names, inputs.unheld_values(formula, fixed))


def value_range(name: str, text: str) -> Range:
    """The range that `START:STOP:COUNT` names; START and STOP may be any constant expressions.

    Raises:
        BadInput: for a text that is not one.
    """
    parts = text.split(":")
    if len(parts) != 3 or not _COUNT.fullmatch(parts[2].strip()):
        raise BadInput(f"the value of `{name}`: a range is START:STOP:COUNT, as --{name} 0:10:101, not `{text}`")
    if len(parts[2].strip()) > _LONGEST_COUNT:
        raise BadInput(f"the value of `{name}`: {MOST_POINTS:,} is the most that can be counted")
    ends = [inputs.constant_value(f"`{name}`", part) for part in parts[:2]]
    if not all(isinstance(end, float) and math.isfinite(end) for end in ends):
        raise BadInput(f"the value of `{name}`: a range goes from one finite number to another, not `{text}`")
    return Range(ends[0], ends[1], int(parts[2]))


def _check_columns(file: DataFile, columns: Sequence[str], given: Mapping[str, str], formula: Formula) -> None:
    if not columns:
        wanted, columns_there = in_brief(formula.variables, "`") or "none at all", in_brief(file.names)
        raise BadInput(
            f"{file.name}: no column is a variable of the expression ({wanted}); the columns are {columns_there}"
        )
    for column in columns:
        if column in given:
            raise BadInput(f"`{column}` is a column of {file.name}, so it takes no value: leave --{column} out")

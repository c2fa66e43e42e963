"""Many points at once, for `grad`: the rows of a file (`--at FILE`), or ranges of values (`--x 0:10:101`)."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import typer

from autodiff_cli.backends.blocks import BLOCK
from autodiff_cli.cli import inputs
from autodiff_cli.cli.call import Call
from autodiff_cli.cli.data import bad_input
from autodiff_cli.cli.declarations import Asked
from autodiff_cli.cli.environment import Environment
from autodiff_cli.cli.errors import BadInput, Failure
from autodiff_cli.explain.points import MOST_POINTS, Array, Gradients, Range, grid
from autodiff_cli.expression import Expression
from autodiff_cli.language.lexer import canonical
from autodiff_cli.render.gradients import Writer
from autodiff_cli.render.numbers import in_full

Row = tuple[str, list[str]]  # its place in the file (`line 2`), and its cells
Block = tuple[dict[str, Array], list[list[str]]]  # the numbers of some rows by column, and the cells of each


class Form(NamedTuple):
    """How results are written, and towards which variables (a list like `x,y`; None for all)."""

    wrt: str | None
    digits: int | None
    json: bool


def write_points(context: typer.Context, argument: str, given: Mapping[str, str], asked: Asked, form: Form) -> None:
    """Write the value and the gradient at the rows of a file, or at all combinations of the values in ranges.

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
    text = inputs.text_of(argument, Call.of(context).environment)
    writer = (
        _on_a_grid(context, text, given, form) if asked.at is None else _in_a_file(context, text, given, asked.at, form)
    )
    if writer.undefined:
        what = "points where the value or a derivative is not a finite number"
        Call.of(context).environment.note(f"{what}: {writer.undefined}")


def _on_a_grid(context: typer.Context, text: str, given: Mapping[str, str], form: Form) -> Writer:
    ranges = {name: value_range(name, value) for name, value in given.items() if ":" in value}
    count = math.prod(chosen.count for chosen in ranges.values())
    if count > MOST_POINTS:
        raise BadInput(f"the ranges have {count:,} combinations, and {MOST_POINTS:,} is the most that can be counted")
    formula = inputs.formula(context, text, given)
    fixed = {name: value for name, value in given.items() if name not in ranges}
    writer = _writer(context, formula, [*ranges], [*ranges], fixed, form)
    for columns in grid(ranges):
        writer.write(columns, zip(*(map(in_full, column.tolist()) for column in columns.values()), strict=True))
    return writer


def _in_a_file(context: typer.Context, text: str, given: Mapping[str, str], path: str, form: Form) -> Writer:
    name = "standard input" if path == "-" else path
    with bad_input():
        read = _reader(path, Call.of(context).environment)
        rows = read()
        _, header = next(rows, ("", []))
        names = [canonical(cell.strip()) for cell in header]
        formula = inputs.formula(context, text, given, names)
        columns = [variable for variable in formula.variables if variable in names]
        _check_header(name, names, columns, given, formula)
        writer = _writer(context, formula, header, columns, given, form)
        if taken := [own for own in writer.results if own in names]:
            raise BadInput(f"{name}: there is a column `{taken[0]}` already; the results would have that name too")
        places = {variable: names.index(variable) for variable in columns}
        blocks = _blocks(name, rows, places, len(header))
        if path != "-":
            # What is wrong far down is found before anything is written.
            for _ in blocks:
                pass
            blocks = _blocks(name, itertools.islice(read(), 1, None), places, len(header))
        if not _answer(writer, blocks):
            raise BadInput(f"{name}: there are no rows")
    return writer


def _blocks(name: str, rows: Iterator[Row], places: Mapping[str, int], width: int) -> Iterator[Block]:
    while block := list(itertools.islice(rows, BLOCK)):
        yield _numbers(name, block, places, width), [cells for _, cells in block]


def _answer(writer: Writer, blocks: Iterable[Block]) -> bool:
    """Write the results of all blocks, if there are any. A row that cannot be used is a failure once others have been
    answered, since what is written stands."""
    answered = False
    try:
        for numbers, cells in blocks:
            writer.write(numbers, cells)
            answered = True
    except BadInput as error:
        if answered:
            raise Failure(str(error)) from error
        raise
    return answered


def _writer(
    context: typer.Context,
    formula: Expression,
    header: Sequence[str],
    columns: Sequence[str],
    fixed: Mapping[str, str],
    form: Form,
) -> Writer:
    inputs.check_all_given(context, formula, {*columns, *fixed})
    gradients = Gradients(formula, columns, inputs.constant_values(fixed), inputs.chosen(formula, form.wrt))
    return Writer(Call.of(context).environment.document(), header, gradients, form.digits, form.json)


def value_range(name: str, text: str) -> Range:
    """The range that `START:STOP:COUNT` names; START and STOP may be any constant expressions.

    Raises:
        BadInput: for a text that is not one.
    """
    parts = text.split(":")
    if len(parts) != 3 or not parts[2].strip().isdecimal() or int(parts[2]) == 0:
        raise BadInput(f"the value of `{name}`: a range is START:STOP:COUNT, as --{name} 0:10:101, not `{text}`")
    ends = [inputs.constant_value(f"`{name}`", part) for part in parts[:2]]
    if not all(isinstance(end, float) and math.isfinite(end) for end in ends):
        raise BadInput(f"the value of `{name}`: a range goes from one finite number to another, not `{text}`")
    return Range(ends[0], ends[1], int(parts[2]))


def _reader(path: str, environment: Environment) -> Callable[[], Iterator[Row]]:
    """Reads the rows of a file as text, the header first, again each time; those of standard input only once.

    Raises DataError, and BadInput for standard input.
    """
    if path == "-":
        return lambda: _rows_of(environment.stdin)
    from autodiff_cli.training.files import DataFile

    return DataFile(path).numbered_rows


def _rows_of(stream: Iterable[str]) -> Iterator[Row]:
    """The rows of comma- or tab-separated text, as they arrive."""
    lines = iter(stream)
    try:
        first = next(lines, "").removeprefix("\ufeff")
        delimiter = "\t" if "\t" in first and "," not in first else ","
        reader = csv.reader(itertools.chain([first], lines), delimiter=delimiter)
        yield from ((f"line {reader.line_num}", cells) for cells in reader if cells)
    except (csv.Error, UnicodeDecodeError) as error:
        raise BadInput(f"standard input is not CSV: {error}") from error


def _check_header(
    name: str, names: Sequence[str], columns: Sequence[str], given: Mapping[str, str], formula: Expression
) -> None:
    if not columns:
        wanted = ", ".join(f"`{variable}`" for variable in formula.variables) or "none at all"
        listed = ", ".join(names) or "none"
        raise BadInput(f"{name}: no column is a variable of the expression ({wanted}); the columns are {listed}")
    for column in columns:
        if names.count(column) > 1:
            raise BadInput(f"{name}: the header names the column `{column}` more than once")
        if column in given:
            raise BadInput(f"`{column}` is a column of {name}, so it takes no value: leave --{column} out")


def _numbers(name: str, rows: Sequence[Row], places: Mapping[str, int], width: int) -> dict[str, Array]:
    """The columns at `places`."""
    for line, cells in rows:
        if len(cells) != width:
            counted = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
            raise BadInput(f"{name}: {line} has {counted}, but the header has {width}")
    found = {}
    for column, place in places.items():
        try:
            found[column] = np.array([_number(cells[place]) for _, cells in rows])
        except ValueError:
            line, cells = next((line, cells) for line, cells in rows if not _is_number(cells[place]))
            what = f"`{cells[place]}` is not a number" if cells[place].strip() else "the cell is empty"
            raise BadInput(f"{name}: {line}, column `{column}`: {what}") from None
    return found


def _number(cell: str) -> float:
    """The number in a cell. What Python reads but files do not mean (`1_0`) is none, and raises ValueError too."""
    if "_" in cell:
        raise ValueError
    return float(cell)


def _is_number(cell: str) -> bool:
    try:
        _number(cell)
    except ValueError:
        return False
    return True

"""Tracing the loss of a row of data: which model, which row, which parameters."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import typer

from autodiff_cli.cli import inputs
from autodiff_cli.cli.call import Call
from autodiff_cli.cli.data import bad_input, data_files
from autodiff_cli.cli.errors import BadInput
from autodiff_cli.cli.options import check_no_value
from autodiff_cli.data.options import AS_IT_IS, FileOptions

if TYPE_CHECKING:
    from autodiff_cli.explain.record import Trace
    from autodiff_cli.training.row import TracedRow

MODEL_FILE = ".json"  # how the name of a fitted model ends; no model ends so


class RowAsked(NamedTuple):
    """What a command line says of a row of data.

    Attributes:
        data: the names of the files.
        number: of the row, among all rows of the files that count; the first one is 1.
        loss: what a row costs, as for `train`.
        reading: how the files are to be read.
    """

    data: list[str]
    number: int | None
    loss: str | None
    reading: FileOptions

    @property
    def is_one(self) -> bool:
        """Whether a row is asked for. Raises BadInput for half of what that takes."""
        if self.data and self.number is not None:
            return True
        if self.number is not None:
            raise BadInput(
                f"--row {self.number} is a row of a data file: name it after the model, as autodiff trace MODEL DATA"
            )
        if self.data:
            check_no_value(self.data[0])
            quotes = 'if it is part of the expression, put that in quotes, as autodiff trace "x*y"'
            raise BadInput(
                f"`{self.data[0]}` is one word too many; --row N traces the loss of a row of a data file; {quotes}"
            )
        if self.loss is not None:
            raise BadInput("--loss is for the loss of a row of data: add DATA and --row N")
        if self.reading != AS_IT_IS:
            said = dataclasses.asdict(self.reading)
            option = next(name for name, value in dataclasses.asdict(AS_IT_IS).items() if said[name] != value)
            raise BadInput(f"--{option.replace('_', '-')} is for data files: add DATA and --row N")
        return False


def traced_row(context: typer.Context, model: str, of: RowAsked, given: dict[str, str], wrt: str | None) -> Trace:
    """The trace of the loss of a row.

    Args:
        model: a model, or the name of a file that `train --save` wrote.
        given: the texts of the values of parameters.
        wrt: names to differentiate towards; the parameters that a fit moves for None.

    Raises:
        BadInput, ExpressionError: as `train` and `predict` do.
    """
    from autodiff_cli.explain.tracing import trace

    environment = Call.of(context).environment
    if model == "-" and "-" in of.data:
        raise BadInput("MODEL and DATA cannot both be standard input")
    with bad_input("--row takes a row without such cells"):
        found = _row(context, model, of, given)
    for note in (*found.formula.notes, *found.notes):
        environment.note(f"note: {note}")
    inputs.check_all_given(context, found.formula, found.point)
    return trace(found.formula, found.point, found.wrt if wrt is None else inputs.chosen(found.formula, wrt))


def _row(context: typer.Context, model: str, of: RowAsked, given: dict[str, str]) -> TracedRow:
    from autodiff_cli.training.options import LossOptions
    from autodiff_cli.training.result.model_file import load
    from autodiff_cli.training.row import row_of_fit, row_of_model

    assert of.number is not None
    environment, values = Call.of(context).environment, inputs.constant_values(given)
    is_fitted = model.endswith(MODEL_FILE)
    if is_fitted and of.loss is not None:
        raise BadInput(f"--loss {of.loss}: {model} says which loss it was fitted by")
    fit = load(model) if is_fitted else None
    file = data_files(of.data, environment, of.reading, fit.moments() if fit else {})
    if fit:
        found = row_of_fit(fit, file, of.number, values)
    else:
        text = inputs.text_of(model, environment)
        found = row_of_model(text, file, of.number, values, LossOptions(of.loss))
    return dataclasses.replace(found, notes=(*file.notes, *found.notes))

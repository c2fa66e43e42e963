"""Tracing the loss of a row of data: which model, which row, which parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from autodiff_cli.cli import inputs
from autodiff_cli.cli.call import Call
from autodiff_cli.cli.data import bad_input, data_files
from autodiff_cli.cli.errors import BadInput

if TYPE_CHECKING:
    from autodiff_cli.explain.record import Trace
    from autodiff_cli.training.row import TracedRow

MODEL_FILE = ".json"  # how the name of a fitted model ends; no model ends so


def traced_row(
    context: typer.Context, model: str, data: str, row: int, loss: str | None, given: dict[str, str], wrt: str | None
) -> Trace:
    """The trace of the loss of a row.

    Args:
        model: a model, or the name of a file that `train --save` wrote.
        loss: what a row costs, as for `train`.
        given: the texts of the values of parameters.
        wrt: names to differentiate towards; the parameters that a fit moves for None.

    Raises:
        BadInput, ExpressionError: as `train` and `predict` do.
    """
    from autodiff_cli.explain.tracing import trace

    environment = Call.of(context).environment
    if model == data == "-":
        raise BadInput("MODEL and DATA cannot both be standard input")
    with bad_input("--row takes a row without such cells"):
        found = _row(context, model, data, row, loss, given)
    for note in (*found.formula.notes, *found.notes):
        environment.note(f"note: {note}")
    inputs.check_all_given(context, found.formula, found.point)
    return trace(found.formula, found.point, found.wrt if wrt is None else inputs.chosen(found.formula, wrt))


def _row(context: typer.Context, model: str, data: str, row: int, loss: str | None, given: dict[str, str]) -> TracedRow:
    from autodiff_cli.data.options import AS_IT_IS
    from autodiff_cli.training.options import LossOptions
    from autodiff_cli.training.result.model_file import load
    from autodiff_cli.training.row import row_of_fit, row_of_model

    environment, values = Call.of(context).environment, inputs.constant_values(given)
    if not model.endswith(MODEL_FILE):
        file = data_files([data], environment, AS_IT_IS)
        return row_of_model(inputs.text_of(model, environment), file, row, values, LossOptions(loss))
    if loss is not None:
        raise BadInput(f"--loss {loss}: {model} says which loss it was fitted by")
    fit = load(model)
    return row_of_fit(fit, data_files([data], environment, AS_IT_IS, fit.moments()), row, values)


def refuse_without_row(data: str | None, loss: str | None) -> None:
    """Raise BadInput for what only the trace of a row of data takes."""
    if data is not None:
        quotes = 'if it is part of the expression, put that in quotes, as autodiff trace "x*y"'
        raise BadInput(f"`{data}` is one word too many; --row N traces the loss of a row of a data file; {quotes}")
    if loss is not None:
        raise BadInput("--loss is for the loss of a row of data: add DATA and --row N")

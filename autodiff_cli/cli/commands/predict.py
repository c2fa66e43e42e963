"""`autodiff predict`: what a saved model says of new rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autodiff_cli.cli.answer import Answer
from autodiff_cli.cli.call import Call
from autodiff_cli.cli.declarations import Json
from autodiff_cli.cli.errors import BadInput
from autodiff_cli.language.errors import in_brief

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from autodiff_cli.data.files import DataFile
    from autodiff_cli.training.result.fit import FittedModel

_MODEL = "A file that `train --save` wrote."
_DATA = "CSV, TSV, gzip of either, or Parquet; - reads it from standard input. The target's columns may be missing."


def predict(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL.json", help=_MODEL, show_default=False)],
    data: Annotated[str, typer.Argument(metavar="DATA", help=_DATA, show_default=False)],
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Write to a file, not to standard output.")
    ] = None,
    json: Json = False,
) -> Answer:
    """Predict with a model that `train --save` wrote.

    Writes DATA's columns and one more, `prediction`, as CSV: the class for a classification. A model of several targets
    has a column `prediction_NAME` for each.

    \b
    Examples:
      autodiff train "y ~ a*exp(-b*x)" decay.csv --save decay.json
      autodiff predict decay.json new.csv > predicted.csv
      autodiff predict decay.json new.parquet -o predicted.csv
      cut -d, -f1 new.csv | autodiff predict decay.json - --json
    """
    from autodiff_cli.cli.data import bad_input, data_file
    from autodiff_cli.render.fits.predictions import named_predictions, predictions_report, undefined
    from autodiff_cli.training.result.model_file import load

    call = Call.of(context)
    environment = call.environment
    if call.values:
        raise BadInput(f"predict takes no values such as --{next(iter(call.values))}: the model file has them all")
    with bad_input():
        fit = load(model)
        file = data_file(data, environment)
        predicted = _predicted(fit, file)
    predictions = named_predictions(fit, predicted)
    _check_new(predictions, file)
    if count := undefined(predictions):
        environment.note(f"rows whose prediction is not a finite number: {count}")
    return Answer(
        predictions_report(fit, file.header, lambda: _rows(file, len(predicted)), predictions), json, output=output
    )


def _predicted(fit: FittedModel, file: DataFile) -> NDArray[Any]:
    """The prediction for each row.

    Raises:
        BadInput: if the file lacks a column.
        DataError: for cells that are missing or hold no number, or if there are no rows.
    """
    lacking = [name for name in fit.predictors if name not in file.names]
    if lacking:
        needed, there = in_brief(lacking, "`"), in_brief(file.names)
        raise BadInput(f"{file.name}: the model needs {needed}; the columns are {there}")
    if fit.predictors:
        return fit.predict(file.load(fit.predictors).columns)
    count = sum(1 for _ in file.rows())
    return fit.predict({"": range(count)})  # the same for all


def _rows(file: DataFile, predicted: int) -> Iterator[list[str]]:
    """The rows as text. Raises BadInput for one that cannot be handed through: better before the first is written than
    after it."""
    from autodiff_cli.cli.data import bad_input

    with bad_input():
        count = sum(1 for _ in file.rows())
    if count != predicted:
        raise BadInput(f"{file.name}: it has {predicted} rows or {count}, depending on how its quotes are read")
    return file.rows()


def _check_new(names: Iterable[str], file: DataFile) -> None:
    for name in names:
        if name in file.names:
            raise BadInput(f"{file.name}: there is a column `{name}` already; the predictions would have that name too")

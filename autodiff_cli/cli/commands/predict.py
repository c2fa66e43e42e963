"""`autodiff predict`: what a saved model says of new rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autodiff_cli.cli.answer import Answer
from autodiff_cli.cli.call import Call
from autodiff_cli.cli.declarations import Json
from autodiff_cli.cli.errors import BadInput
from autodiff_cli.cli.files import DATA_HELP, FILE_OPTIONS
from autodiff_cli.cli.records import with_records
from autodiff_cli.data.options import FileOptions
from autodiff_cli.language.errors import in_brief

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from autodiff_cli.data.files import Cells
    from autodiff_cli.data.several import DataFiles
    from autodiff_cli.data.table import Table
    from autodiff_cli.training.prediction.named import NamedPredictions, WantedColumns
    from autodiff_cli.training.result.fit import FittedModel

_MADE = 6  # columns of predictions and their text, about, that are in memory beside those of the data
_MODEL = "A file that `train --save` wrote."
_DATA = f"{DATA_HELP} The target's columns may be missing."


@with_records(FILE_OPTIONS, reading=FileOptions)
def predict(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL.json", help=_MODEL, show_default=False)],
    data: Annotated[list[str], typer.Argument(metavar="DATA", help=_DATA, show_default=False)],
    *,
    reading: FileOptions,
    interval: Annotated[
        float | None,
        typer.Option(
            "--interval",
            metavar="LEVEL",
            help="Also the ends of the confidence band and of the prediction band, 0.95 say.",
        ),
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Also the probability of each class, or that of a 1.")
    ] = False,
    residuals: Annotated[
        bool, typer.Option("--residuals", help="Also target minus prediction; DATA has the target's columns too.")
    ] = False,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Leave out rows with an empty, nan or infinite cell.")
    ] = False,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Write to a file, not to standard output.")
    ] = None,
    json: Json = False,
) -> Answer:
    """Predict with a model that `train --save` wrote.

    Writes DATA's columns and one more, `prediction`, as CSV: the class for a classification. A model of several targets
    has a column `prediction_NAME` for each. `--interval` adds `confidence_low` and `confidence_high`, between which the
    mean lies, and `prediction_low` and `prediction_high`, between which a new number does.

    \b
    Examples:
      autodiff train "y ~ a*exp(-b*x)" decay.csv --save decay.json
      autodiff predict decay.json new.csv > predicted.csv
      autodiff predict decay.json new.parquet --interval 0.95 -o predicted.csv
      autodiff predict decay.json decay.csv --residuals --drop-missing
      autodiff predict flowers.json new.csv --probabilities
      cut -d, -f1 new.csv | autodiff predict decay.json - --json
    """
    from autodiff_cli.cli.data import bad_input, data_files
    from autodiff_cli.data.table import Table
    from autodiff_cli.render.fits.predictions import predictions_report, undefined
    from autodiff_cli.training.opening.streamed import too_large
    from autodiff_cli.training.options import checked_level
    from autodiff_cli.training.prediction.named import WantedColumns
    from autodiff_cli.training.prediction.streamed import PredictionsInMemory, StreamedPredictions
    from autodiff_cli.training.result.model_file import load

    call = Call.of(context)
    environment = call.environment
    if call.values:
        raise BadInput(f"predict takes no values such as --{next(iter(call.values))}: the model file has them all")
    with bad_input("--drop-missing leaves such rows out"):
        level = None if interval is None else checked_level(interval)
        fit = load(model)
        file = data_files(data, environment, reading, fit.moments())
        wanted = WantedColumns(level, probabilities, residuals)
        numbers, texts = _needed(fit, file, wanted)
        is_chosen = drop_missing or reading.where is not None or not (numbers or texts)
        why = None if is_chosen else too_large(file, len(numbers) + _MADE, len(texts))
        chunks: Callable[[], Iterable[NamedPredictions]]
        if why is None:
            table, columns = _read(file, numbers, texts, drop_missing)
            chunks = PredictionsInMemory(fit, columns, wanted).chunks
        else:
            streamed = StreamedPredictions(fit, file, numbers, texts, wanted, why)
            table, chunks = Table({}, streamed.rows), streamed.chunks
        count, names, note = 0, [""], ""
        for chunk in chunks():  # before anything is written
            count, names, note = count + undefined(chunk.columns), [*chunk.columns], chunk.note
    _check_new(names, file)
    if count:
        environment.note(f"rows whose prediction is not a finite number: {count}")
    if table.dropped:
        environment.note(f"rows left out because a cell is missing: {table.dropped}")
    for said in (note, *file.notes):
        if said:
            environment.note(said)

    def predictions() -> Iterator[Mapping[str, NDArray[Any]]]:
        with bad_input():
            yield from (chunk.columns for chunk in chunks())

    report = predictions_report(fit, file.header, lambda: _rows(file, table), names, predictions)
    return Answer(report, json, output=output)


def _needed(fit: FittedModel, file: DataFiles, wanted: WantedColumns) -> tuple[set[str], list[str]]:
    """The columns that are needed: those of numbers, and those of labels. Raises BadInput if the file lacks one."""
    needed = fit.columns if wanted.residuals else fit.predictors
    lacking = [name for name in needed if name not in file.names]
    if lacking:
        missing, there = in_brief(lacking, "`"), in_brief(file.names)
        what = "--residuals needs the target too:" if {*lacking}.isdisjoint(fit.predictors) else "the model needs"
        raise BadInput(f"{file.name}: {what} {missing}; the columns are {there}")
    weighing = fit.terms.weighing
    names = {*needed, weighing} if wanted.level is not None and weighing in file.names else {*needed}
    labelled = [name for name in fit.labelled if name in names]
    return names - {*labelled}, labelled


def _read(
    file: DataFiles, numbers: Collection[str], texts: Sequence[str], drop_missing: bool
) -> tuple[Table, Mapping[str, NDArray[Any]]]:
    """The table of these columns, and they by name, those of labels among them.

    Raises:
        DataError: for cells that are missing or hold no number, or if there are no rows.
    """
    import numpy as np

    from autodiff_cli.data.table import Table
    from autodiff_cli.training.levels.indicators import load_with_labels

    if numbers or texts:
        table, labels = load_with_labels(file, numbers, texts, drop_missing)
        return table, {**table.columns, **labels}
    count = sum(map(len, file.rows()))
    alike = Table({"": np.zeros(count)}, count)
    return alike, alike.columns


def _rows(file: DataFiles, table: Table) -> Iterator[Cells]:
    """The rows as text. Raises BadInput for one that cannot be handed through: better before the first is written than
    after it."""
    from autodiff_cli.cli.data import bad_input
    from autodiff_cli.data.files import kept_rows

    with bad_input():
        count = sum(map(len, file.rows()))
    read = table.rows + table.dropped
    if count != read:
        raise BadInput(f"{file.name}: it has {read} rows or {count}, depending on how its quotes are read")
    return file.rows() if table.kept is None else kept_rows(file.rows(), table.kept)


def _check_new(names: Iterable[str], file: DataFiles) -> None:
    for name in names:
        if name in file.names:
            raise BadInput(f"{file.name}: there is a column `{name}` already; the predictions would have that name too")

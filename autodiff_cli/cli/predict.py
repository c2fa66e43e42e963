"""`autodiff predict`: the predictions of a saved model for the rows of data files."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autodiff_cli.cli import inputs
from autodiff_cli.cli.command_line import DATA_HELP, Call, command, is_model, output_option
from autodiff_cli.cli.environment import BadInput, Output, hint_about_missing_cells, open_data_files
from autodiff_cli.data.dialect import CellParser, FileOptions, parse_datetime, time_text
from autodiff_cli.graph.tape import leaf_names
from autodiff_cli.language.errors import format_names
from autodiff_cli.language.lexer import canonical_name, is_name, is_signed_number
from autodiff_cli.language.names import joined_columns
from autodiff_cli.options import Restriction, all_need, argument, exclusive, option, option_fields, suffix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from autodiff_cli.data.batches import ColumnQuery
    from autodiff_cli.data.files import CellRows, DataSource
    from autodiff_cli.data.table import Table
    from autodiff_cli.render.report import Report
    from autodiff_cli.training.result.fitted_model import FittedModel
    from autodiff_cli.training.result.prediction import PredictionRequest


_prediction = partial(option, group="Prediction")
_FILE = suffix(".csv", ".txt", ".json", "")
_PREDICTION_COLUMNS = 6  # estimated columns in memory besides the data: predictions and their text

_RESTRICTIONS = (
    Restriction("data", lambda options: "inverse" in options, "--inverse takes no DATA: it needs only the new reading"),
    *exclusive("inverse", ("posterior", "probabilities", "residuals")),
    *all_need(("drop_missing", *option_fields(FileOptions)), "data", "DATA"),
)


@command(*_RESTRICTIONS, reading=FileOptions)
def predict(
    call: Call,
    model: str = argument("MODEL.json", "Model file that `train --save` wrote."),
    data: list[str] | None = option("[DATA]...", f"{DATA_HELP} The target's column may be missing."),
    *,
    reading: FileOptions,
    interval: float | None = _prediction("--interval LEVEL", "Confidence and prediction bands at a level, like 0.95."),
    posterior: bool = _prediction("--posterior", "Also write 95 % bands from draws of `train --posterior N --save`."),
    probabilities: bool = _prediction("--probabilities", "Also write the probability of each class, or of a 1."),
    residuals: bool = _prediction("--residuals", "Also write target minus prediction; DATA needs the target."),
    inverse: str | None = _prediction("--inverse NAME", "Find NAME for a new reading of the target, --y 3.2+-0.1."),
    drop_missing: bool = option("--drop-missing", "Leave out rows with empty, nan or infinite cells."),
    output: str | None = output_option("-o, --output FILE", "Write to FILE (.csv, .json), not standard output.", _FILE),
) -> Output:
    """Predict with a model that `train --save` wrote.

    The output is CSV: the columns of DATA and a column `prediction`, with values of the left side of the model, such as
    log(y). For a classifier, the prediction is the class. For several targets, there is a column `prediction_NAME` for
    each. Without DATA, `--x 1.5` sets the value of a column.

    `--interval` adds columns for the mean, `confidence_low` and `confidence_high`, and for a new observation,
    `prediction_low` and `prediction_high`.

    `--inverse x` lists all x at which the prediction is equal to a new reading of the target, with standard errors and
    intervals. For a reading without an error, the standard deviation of the residuals is used.

    \b
    Examples:
      autodiff train "y ~ a*exp(-b*x)" decay.csv --save decay.json
      autodiff predict decay.json new.csv > predicted.csv
      autodiff predict decay.json --x 1.5 --interval 0.95
      autodiff predict decay.json new.parquet --interval 0.95 -o predicted.csv
      autodiff predict decay.json decay.csv --residuals --drop-missing
      autodiff predict flowers.json new.csv --probabilities
      autodiff predict decay.json --inverse x --y 1.2+-0.05 --x 0..4
      cut -d, -f1 new.csv | autodiff predict decay.json - --json
    """
    from autodiff_cli.data.batches import ColumnQuery, MissingCells
    from autodiff_cli.data.streaming import StreamedColumns
    from autodiff_cli.data.table import Table
    from autodiff_cli.render.rows import count_undefined, predictions_report
    from autodiff_cli.training.objective.loading import memory_shortage
    from autodiff_cli.training.options import check_confidence_level
    from autodiff_cli.training.result.fitted_model import load
    from autodiff_cli.training.result.prediction import (
        PredictionRequest,
        column_chunks,
        prediction_chunks,
        streamed_chunks,
    )

    environment = call.environment
    if inverse is not None:
        return Output(_inverse_report(call, load(model), canonical_name(inverse), interval), path=output)
    if data and len(data) == 1 and data[0].endswith(inputs.MODEL_SUFFIX) and Path(model).suffix not in ("", ".json"):
        model, data = data[0], [model]
    if is_model(model) or (re.search("[*+^(]", model) and not Path(model).exists()):
        raise BadInput("predict takes the file of a fitted model, which `autodiff train MODEL DATA --save FILE` writes")
    if not data and not call.values:
        raise BadInput("missing DATA; usage: autodiff predict MODEL.json DATA, or a value of each column: --x 2")
    with hint_about_missing_cells("use --drop-missing to leave such rows out"):
        level = (0.95 if posterior else None) if interval is None else check_confidence_level(interval)
        fit = load(model)
        call = _with_joint_labels(call, fit)
        spreads = fit.settings.spread_graphs(call.values) or {}
        for name in call.values.keys() - {*leaf_names([*spreads.values()])}:
            if name not in fit.columns:
                raise inputs.unknown_name_error(name, fit.columns, (), "model has no column", call)
            if data:
                raise BadInput(f"give DATA or --{name}, not both")
        if data:
            file = open_data_files(data, environment, reading, fit.column_origins, outputs=[output])
        else:
            file = _row_of_values(call, fit)
        request = PredictionRequest(level, probabilities, residuals, posterior)
        numbers, labels = _needed_columns(fit, file, request)
        is_chosen = drop_missing or reading.where is not None or not (numbers or labels)
        reason = None if is_chosen else memory_shortage(file, len(numbers) + _PREDICTION_COLUMNS, len(labels))
        if reason is None:
            missing = MissingCells.DROP if drop_missing else MissingCells.REFUSE
            table, columns = _read_columns(file, ColumnQuery(numbers, labels, missing, levels=fit.levels))
            chunks = prediction_chunks(fit, table.rows, lambda: column_chunks(columns), request)
        else:
            streamed = file.streamed = StreamedColumns(
                file, sorted(numbers), labels, reason, levels=fit.levels, on_progress=file.on_progress
            )
            table = Table({}, streamed.rows)
            chunks = prediction_chunks(fit, table.rows, lambda: streamed_chunks(streamed), request)
        count, names, note = 0, [""], ""
        for chunk in chunks():  # errors in the data appear before anything is written
            count, names, note = count + count_undefined(chunk.columns), [*chunk.columns], note or chunk.note
    if clashes := [name for name in names if name in file.names]:
        raise BadInput(f"{file.name}: there is already a column `{clashes[0]}`, which is also the name of a result")
    if count:
        environment.note(f"rows whose prediction is not finite: {count}")
    if table.dropped:
        environment.note(f"rows left out because of missing cells: {table.dropped}")
    targets = fit.parsed_model.targets()  # several have columns with their names
    if len(targets) == 1 and not is_name(targets[0]):
        environment.note(f"the predictions are values of `{targets[0]}`, the left side of the model")
    times = [f"predicted `{x}`: seconds since {time_text(fit.origins[x])}" for x in targets if x in fit.origins]
    environment.note(*filter(None, (note, *file.notes)), *times)

    report = predictions_report(
        fit, file.header, lambda: _text_rows(file, table), names, lambda: (chunk.columns for chunk in chunks())
    )
    return Output(report, path=output)


def _with_joint_labels(call: Call, fit: FittedModel) -> Call:
    """Return the inputs with one value for the levels of several columns, such as `N, 1` for `a[site, dose]`.

    Raises:
        BadInput: if only some of these columns have a value.
    """
    from autodiff_cli.data.batches import joint_text

    values = dict(call.values)
    for name in fit.label_columns:
        parts = joined_columns(name, call.values)
        missing = [part for part in parts if part not in call.values]
        if missing and len(missing) < len(parts):
            raise BadInput(f"no value for {format_names(missing, '`')}; the model has parameters for `{name}`")
        if not missing and parts != [name]:
            values[name] = joint_text(values[part] if part in fit.columns else values.pop(part) for part in parts)
    return call._replace(values=values)


def _row_of_values(call: Call, fit: FittedModel) -> DataSource:
    """Return a table of one row: the values of columns that were given as options."""
    import shlex

    from autodiff_cli.data.dialect import FileOptions
    from autodiff_cli.data.files import open_data
    from autodiff_cli.data.table import csv_text

    if missing := [name for name in fit.predictors if name not in call.values]:
        examples: dict[str, Any] = dict.fromkeys(fit.label_columns, "A")
        examples |= {n: x[0] for n, x in fit.levels.items()} | {n: time_text(x) for n, x in fit.origins.items()}
        example = " ".join(inputs.value_option(call, name, shlex.quote(str(examples.get(name, 2)))) for name in missing)
        raise BadInput(f"no value for {format_names(missing, '`')}; add {example}, or DATA")
    cells = []
    for name, text in call.values.items():
        number = "" if name in fit.label_columns else repr(_number(name, text, fit))
        cells.append(text if not number or name in fit.origins or is_signed_number(text) else number)
    table = io.BytesIO(csv_text((call.values, cells)).encode())
    return open_data(["-"], table, options=FileOptions(delimiter=",", decimal="."), origins=fit.origins)


def _number(name: str, text: str, fit: FittedModel) -> float:
    """Return the value of a column that was given as an option; of a time, the seconds since its origin.

    Raises BadInput unless it is a finite number.
    """
    is_time = name in fit.origins
    value = CellParser(origin=fit.origins[name]).parse(text) if is_time else inputs.constant_value(f"`{name}`", text)
    is_like_fit = is_time == (parse_datetime(text) is not None)  # as an expression, 2024-01-01 is 2022
    if not is_like_fit or not isinstance(value, float | int) or not math.isfinite(value):
        kind = f"time like {time_text(fit.origins[name])}" if is_time else "finite number"
        raise BadInput(f"the value of `{name}` must be a {kind}, not `{text}`")
    return float(value)


def _inverse_report(call: Call, fit: FittedModel, column: str, interval: float | None) -> Report:
    """Return the report of the values of a column at which the prediction is equal to a reading."""
    from autodiff_cli.render.rows import inverse_report
    from autodiff_cli.training.options import check_confidence_level
    from autodiff_cli.training.result import prediction

    texts, errors = inputs.split_uncertainties(_with_joint_labels(call, fit).values)
    targets = [name for name in fit.parsed_model.residual_columns if name not in fit.predictors]
    for name in {column, *texts} - {*fit.predictors, *targets}:
        raise inputs.unknown_name_error(name, (*fit.predictors, *targets), (), "model has no column", call)
    limits = inputs.split_interval(typed := texts.pop(column, ""))
    target = next((name for name in targets if name in texts), None)
    if target is None or (limits is None and (typed or column not in fit.ranges)):
        y, x = target or next(iter(targets), "y"), column
        raise BadInput(f"--inverse {x} needs a reading and a range: --{y} 3.2+-0.1 --{x} 0..10")
    values = {name: text if name in fit.label_columns else _number(name, text, fit) for name, text in texts.items()}
    if limits is None:
        ends = fit.ranges[column]
        call.environment.note(f"searching the range of {column} in the fitted rows, {ends[0]:g} to {ends[1]:g}")
    else:
        ends = _number(column, limits[0], fit), _number(column, limits[1], fit)
    if target in fit.origins and not is_signed_number(errors.get(target, "0")):
        raise BadInput(f"the error of `{target}` is a number of seconds, not `{errors[target]}`")
    error = _number(f"error of {target}", errors[target], fit) if target in errors else None
    if column in fit.origins:
        call.environment.note(f"column `{column}`: dates and times are seconds since {time_text(fit.origins[column])}")
    level = fit.confidence_level if interval is None else check_confidence_level(interval)
    value = float(values.pop(target))
    predictions = prediction.inverse(fit, column, value, error, limits=ends, others=values, level=level)
    if not any(each.value is not None for each in predictions):
        close = "; from `low` to `high`, the difference is not significant" if predictions else ""
        call.environment.note(f"no {column} from {ends[0]:g} to {ends[1]:g} gives the prediction {value:g}{close}")
    reading = {"inverse": column, "target": target, "reading": value, "error": error, "level": level}
    return inverse_report(reading, predictions)


def _needed_columns(fit: FittedModel, file: DataSource, request: PredictionRequest) -> tuple[set[str], list[str]]:
    """Return the columns that are needed: those with numbers, and those with labels.

    Raises:
        BadInput: if the file lacks one of them.
    """
    needed = fit.parsed_model.residual_columns if request.residuals and fit.classes is None else fit.predictors
    from autodiff_cli.data.files import FILE_COLUMN

    known = {*file.names, FILE_COLUMN}
    missing = {name: [part for part in joined_columns(name, file.names) if part not in known] for name in needed}
    if missing_names := [*chain(*missing.values())]:
        who = "the model" if any(missing[name] for name in fit.predictors) else "--residuals"
        words = f"{who} needs the column{'s' * (len(missing_names) > 1)} {format_names(missing_names, '`')}"
        raise BadInput(f"{file.name}: {words}; the columns are {format_names(file.names)}")
    spreads = None if request.level is None else fit.settings.spread_graphs(file.names)
    names = {*needed, *leaf_names([*(spreads or {}).values()])}
    labelled = [name for name in fit.label_columns if name in names]
    return names - {*labelled}, labelled


def _read_columns(file: DataSource, query: ColumnQuery) -> tuple[Table, Mapping[str, NDArray[Any]]]:
    """Read columns; return the table, and all columns by name.

    Raises:
        DataError: for missing cells, for cells without a number, and for a file without rows.
    """
    import numpy as np

    from autodiff_cli.data.table import Table, check_has_rows

    if query.numbers or query.labels or file.is_filtered:
        table = file.read(query)
        check_has_rows(table, f"{file.name}: ")
    else:
        table = Table({}, sum(map(len, file.iter_rows())))
    labels = {name: column.levels(name)[column.codes] for name, column in table.labels.items()}
    return table, {**table.columns, **labels} or {"": np.zeros(table.rows)}


def _text_rows(file: DataSource, table: Table) -> Iterator[CellRows]:
    """Return the rows of the data as text, without those that were left out.

    Raises:
        BadInput: if the rows as text do not match the rows that were parsed.
    """
    count = sum(map(len, file.iter_rows()))
    parsed_count = table.rows if table.row_mask is None else len(table.row_mask)
    if count != parsed_count:
        raise BadInput(f"{file.name}: it has {parsed_count} or {count} rows, depending on how quotes are parsed")
    return file.iter_selected_rows(table)

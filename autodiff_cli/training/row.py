"""The loss of one row of data as a formula, of its columns and the parameters: what a trace of training looks at."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autodiff_cli.data import cells
from autodiff_cli.data.several import DataFiles
from autodiff_cli.data.table import DataError
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.node import constant
from autodiff_cli.graph.tape import rebuild, topological
from autodiff_cli.language.errors import in_brief
from autodiff_cli.training.levels.indicators import indicators, labelled, levels_of, load_with_labels
from autodiff_cli.training.objective.graphs import chosen_loss, loss_of_row
from autodiff_cli.training.objective.labels import Classes, encoded
from autodiff_cli.training.objective.loading import check_names
from autodiff_cli.training.objective.losses import SCALE
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.options import LossOptions, ParameterOptions
from autodiff_cli.training.result.fit import FittedModel


@dataclass(frozen=True, slots=True)
class TracedRow:
    """A row, and its loss.

    Attributes:
        formula: the loss, of the columns and the parameters; without the row's weight.
        point: what the row has in the columns, and the parameters that are known.
        wrt: the parameters that a fit moves.
        notes: what the numbers stand for, as sentences.
    """

    formula: Formula
    point: Mapping[str, Any]
    wrt: tuple[str, ...]
    notes: tuple[str, ...] = ()


def row_loss(model: Model, loss: str, options: LossOptions, classes: int | None) -> Formula:
    """The loss of a row as a formula; its text is the model's.

    Args:
        model: resolved.
        loss: see `chosen_loss`; the options say more of it.
        classes: how many there are, if the model tells classes apart.
    """
    program = model.program
    output = loss_of_row(model, loss, options, classes, program.target, program.output)
    scale = constant(1.0 if options.scale is None else options.scale)
    scales = {leaf: scale for leaf in topological([output]) if leaf.is_input and leaf.text == SCALE}
    return Formula(
        rebuild([output], scales)[0],
        program.leaves,
        text=model.text,
        source=program.source,
        notes=program.notes,
        shapes=model.shapes,
    )


def row_of_model(text: str, file: DataFiles, number: int, values: Mapping[str, Any], options: LossOptions) -> TracedRow:
    """The loss of a row at parameters that are given, as far as they are.

    Args:
        number: of the row; the first one is 1.
        values: of parameters, by canonical names.

    Raises:
        ExpressionError, OptionError: as a fit does.
        DataError: for a row that is not there or has a cell that is missing or holds no number.
    """
    model = Model.read(text, file.names, values)
    check_names(values, model)
    loss = chosen_loss(model, options)
    if model.leveled:
        _, labels = load_with_labels(file, (), model.leveled, drop_missing=True)
        model = model.with_levels({name: levels_of(found) for name, found in labels.items()})
        values = model.parameters_by_level(ParameterOptions(start=values)).start
    point, classes = _row(file, number, model, None)
    model = model.resolved(values, None if classes is None else len(classes))
    formula = row_loss(model, loss, options, None if classes is None else len(classes))
    return TracedRow(formula, {**point, **values}, model.parameters, _notes(model, classes))


def row_of_fit(fit: FittedModel, file: DataFiles, number: int, values: Mapping[str, Any]) -> TracedRow:
    """The loss of a row at the parameters of a fit.

    Args:
        values: of parameters, in place of those fitted.

    Raises as `row_of_model` does.
    """
    model = fit._read
    check_names(values, model)
    if fit.loss_name is None and fit.scale is not None:
        raise DataError("the model file does not say which loss it was fitted by: `train --save` it anew")
    options = LossOptions(fit.loss_name or None, fit.scale, fit.huber_delta)
    loss = chosen_loss(model, options)
    point, classes = _row(file, number, model, fit.classes)
    formula = row_loss(model, loss, options, None if classes is None else len(classes))
    free = tuple(name for name in model.parameters if name not in fit.fixed)
    values = model.parameters_by_level(ParameterOptions(start=values)).start
    point |= {**fit.parameters, **fit.fixed, **values}
    return TracedRow(formula, point, free, _notes(model, classes))


def _row(file: DataFiles, number: int, model: Model, classes: Classes | None) -> tuple[dict[str, Any], Classes | None]:
    """What a row has in the columns of a model, and the classes; these are read from all rows where they are not known.
    Of the column of classes it is the position among them."""
    place, texts = file.row(number, model.columns)
    point: dict[str, Any] = {}
    labels: dict[str, Any] = {}
    for name, text in zip(model.columns, texts, strict=True):
        where = f"{file.name}: row {number} ({place}), column `{name}`"
        if text in cells.MISSING:
            raise DataError(f"{where}: the cell is empty, and the loss needs it; choose another row")
        if name == model.class_column:
            if classes is None:
                every = file.load((), drop_missing=True, labels=name).labels
                assert every is not None
                classes, _ = encoded(every, name)
            point[name] = float(_position(text, classes, where))
            continue
        if name in model.labelled:
            labels[name] = labelled([text], name, None)
            levels = [*map(str, model.levels.get(name, labels[name]))]
            if str(labels[name][0]) not in levels:
                raise DataError(f"{where}: {cells.shown(text)} is no level of the model ({in_brief(levels)})")
        if name not in model.numeric:
            continue
        reader = file.readers[name]
        if reader.origin is None:
            reader.read(file.row(1, [name]).cells[0])  # from it dates and times are counted
        value = reader.read(text)
        if value is None or not math.isfinite(value):
            raise DataError(f"{where}: {cells.shown(text)} is not a {'finite ' if value is not None else ''}number")
        point[name] = value
    return point | {name: float(found[0]) for name, found in indicators(model.matches, labels).items()}, classes


def _position(text: str, classes: Classes, where: str) -> int:
    """Which of the classes a label is."""
    value = cells.number(text)
    for k, label in enumerate(classes):
        if label == text or (isinstance(label, int) and label == value):
            return k
    raise DataError(f"{where}: {cells.shown(text)} is none of the classes that the model tells apart")


def _notes(model: Model, classes: Classes | None) -> tuple[str, ...]:
    if classes is None or model.class_column is None:
        return ()
    listed = ", ".join(f"{label} = {k}" for k, label in enumerate(classes))
    return (f"`{model.class_column}` counts its classes: {listed}",)

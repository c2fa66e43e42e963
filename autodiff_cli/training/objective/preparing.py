"""From a model, data and options to all that an objective is about."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.choice import suited
from autodiff_cli.backends.protocol import Backend, RowGraphs
from autodiff_cli.data.table import Dataset, Table
from autodiff_cli.training.bounds import Bounds, of_parameters
from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.levels.expansion import check_not_many
from autodiff_cli.training.levels.indicators import indicators, levels_of
from autodiff_cli.training.objective.graphs import chosen_loss, graphs, x_error
from autodiff_cli.training.objective.initial import NUMBER, initial_arrays
from autodiff_cli.training.objective.kernels import Kernels
from autodiff_cli.training.objective.labels import Classes, encoded
from autodiff_cli.training.objective.loading import check_names, load
from autodiff_cli.training.objective.losses import L1, L2
from autodiff_cli.training.objective.meanings import check_reads_a_column
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.objective.parameters import ParameterLayout, checked
from autodiff_cli.training.options import EPOCHS, Limits, Options, in_words
from autodiff_cli.training.rows.memory import InMemory
from autodiff_cli.training.rows.protocol import WEIGHT, Rows

Array = NDArray[np.float64]

_LEVELS = 500  # of a column that parameters can have: more numbers have no errors either


@dataclass(slots=True)
class Prepared:
    """What an objective is about. See `Objective` for the attributes."""

    model: Model
    loss: str
    classes: Classes | None
    weighted: bool
    data: Rows
    layout: ParameterLayout
    fixed: dict[str, Any]
    start: Array
    given: frozenset[str]
    bounds: Bounds
    limits: dict[str, Limits]
    kernels: Kernels
    family: str | None
    likelihood: bool
    penalties: dict[str, float]


def prepare(model: str | Model, dataset: Dataset, options: Options) -> Prepared:
    """Read the model and the data, and make graphs of them.

    Raises:
        ExpressionError, DataError, OptionError: see `Objective`.
    """
    named = options.parameters.named
    read = model if isinstance(model, Model) else Model.read(model, dataset.names, named)
    check_names(named, read)
    loss = chosen_loss(read, options.loss)
    if options.data.x_sigma and options.loss.family is not None:
        raise OptionError("errors in x are for least squares, not for a family")
    table, labels = load(dataset, read, options.data)
    classes: Classes | None = None
    if read.class_column is not None:
        classes, codes = encoded(labels[read.class_column], read.class_column)
        table = dataclasses.replace(table, columns={**table.columns, read.class_column: codes})
    if read.labelled:
        read, table = _with_levels(read, table, labels)
    parameters = read.parameters_by_level(options.parameters)
    begun = {name: checked(name, value) for name, value in parameters.start.items()}
    kept = {name: value if value is None else checked(name, value) for name, value in parameters.fixed.items()}
    given = begun | {name: value for name, value in kept.items() if value is not None}
    count = None if classes is None else len(classes)
    resolved = read.resolved(given, count)
    if not options.data.no_columns:
        check_reads_a_column(resolved, dataset.names, options.data.columns, named)
    weighted = WEIGHT in table.columns
    free = [name for name in resolved.parameters if name not in kept]
    built = graphs(resolved, loss, options.loss, count, weighted, free, options.data.x_sigma)
    values: dict[str, Any] = dict.fromkeys(resolved.parameters, NUMBER)
    values |= initial_arrays(resolved.array_parameters, resolved.program.initial, options.method.seed)
    values |= given
    layout = ParameterLayout(free, resolved.shapes)
    box = of_parameters(layout.places, layout.size, parameters.bounds)
    _check_starts(begun, parameters.bounds)
    leaves = [resolved.program.leaves[name] for name in free]
    loss_of_row = RowGraphs(
        [built.weighted], {*resolved.of_rows, *built.gathered, *map(x_error, built.x_errors), WEIGHT}, built.leaves
    )
    notes: list[str] = []
    chosen = suited(options.method.backend, options.method.threads, loss_of_row, table.rows, say=notes.append)
    stepping = _stepping(options, loss_of_row, table.rows, chosen, notes)
    notes += [
        f"no row has the text '{match.text}' in the column `{match.column}`"
        for name, match in resolved.matches.items()
        if not table.columns[name].any()
    ]
    return Prepared(
        model=resolved,
        loss=loss,
        classes=classes,
        weighted=weighted,
        data=InMemory(built.extended(table)),
        layout=layout,
        fixed={name: values[name] for name in resolved.parameters if name in kept},
        start=_started(layout, layout.gather([values[name] for name in free]), begun, box),
        given=frozenset(begun),
        bounds=box,
        limits=dict(parameters.bounds),
        kernels=Kernels(built, resolved.of_rows, leaves, options.method.recompute_every, chosen, notes, stepping),
        family=options.loss.family,
        likelihood=options.loss.likelihood,
        penalties={L1: options.loss.l1, L2: options.loss.l2},
    )


def _stepping(options: Options, loss: RowGraphs, rows: int, chosen: Backend, notes: list[str]) -> Backend:
    """What takes the steps of mini-batches: it may pay to compile these alone."""
    method = options.method
    if method.batch_size is None or chosen.name != "numpy" or notes:
        return chosen
    batches = -(-rows // method.batch_size)
    # Whatever the number of epochs asked for: a fit that is resumed for more of them goes the same way.
    return suited(method.backend, method.threads, loss, rows, EPOCHS, notes.append, batches)


def _with_levels(model: Model, table: Table, labels: Mapping[str, NDArray[Any]]) -> tuple[Model, Table]:
    """The model with a parameter for each level that occurs, and the table with what its labels come to."""
    levels = {name: levels_of(labels[name]) for name in model.leveled}
    for name, found in levels.items():
        check_not_many(name, found, _LEVELS)
    model = model.with_levels(levels)
    columns = {**table.columns, **indicators(model.matches, labels)}
    return model, dataclasses.replace(table, columns=columns)


def _check_starts(begun: Mapping[str, Any], bounds: Mapping[str, Limits]) -> None:
    """Raise OptionError for a start that is given outside of its bounds."""
    for name, value in begun.items():
        low, high = bounds.get(name, (-np.inf, np.inf))
        outside = np.ravel((value < low) | (value > high))
        if outside.any():
            first = np.ravel(value)[outside][0]
            raise OptionError(f"`{name}` starts at {first:g}, outside of its bounds, {in_words((low, high))}")


def _started(layout: ParameterLayout, theta: Array, begun: Mapping[str, Any], box: Bounds) -> Array:
    """The start, with numbers that nobody gave between their bounds."""
    return np.where(layout.mask([name for name in layout.names if name in begun]), theta, box.inside(theta))

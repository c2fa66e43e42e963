"""From a model, data and options to all that an objective is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.choice import suited
from autodiff_cli.backends.protocol import Backend, RowGraphs
from autodiff_cli.data.table import Dataset, Table
from autodiff_cli.training.bounds import Bounds, Limits, in_words, of_parameters
from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.objective.graphs import WEIGHT, chosen_loss, graphs, x_error
from autodiff_cli.training.objective.initial import NUMBER, initial_arrays
from autodiff_cli.training.objective.kernels import Kernels
from autodiff_cli.training.objective.labels import Classes, encoded
from autodiff_cli.training.objective.loading import check_names, load
from autodiff_cli.training.objective.losses import L1, L2
from autodiff_cli.training.objective.meanings import check_reads_a_column
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.objective.parameters import ParameterLayout, checked
from autodiff_cli.training.options import EPOCHS, Options

Array = NDArray[np.float64]


@dataclass(slots=True)
class Prepared:
    """What an objective is about. See `Objective` for the attributes."""

    model: Model
    loss: str
    classes: Classes | None
    weighted: bool
    table: Table
    layout: ParameterLayout
    fixed: dict[str, Any]
    start: Array
    given: frozenset[str]
    bounds: Bounds
    kernels: Kernels
    family: str | None
    likelihood: bool
    penalties: dict[str, float]


def prepare(model: str | Model, dataset: Dataset, options: Options) -> Prepared:
    """Read the model and the data, and make graphs of them.

    Raises:
        ExpressionError, DataError, OptionError: see `Objective`.
    """
    begun = {name: checked(name, value) for name, value in options.parameters.start.items()}
    kept = {name: value if value is None else checked(name, value) for name, value in options.parameters.fixed.items()}
    given = begun | {name: value for name, value in kept.items() if value is not None}
    named = options.parameters.named
    read = model if isinstance(model, Model) else Model.read(model, dataset.names, named)
    check_names(named, read)
    loss = chosen_loss(read, options.loss)
    if options.data.x_sigma and options.loss.family is not None:
        raise OptionError("errors in x are for least squares, not for a family")
    table = load(dataset, read, options.data)
    classes: Classes | None = None
    if table.labels is not None and read.class_column is not None:
        classes, codes = encoded(table.labels, read.class_column)
        table = Table({**table.columns, read.class_column: codes}, table.rows, table.dropped)
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
    box = of_parameters(layout.places, layout.size, options.parameters.bounds)
    _check_starts(begun, options.parameters.bounds)
    leaves = [resolved.program.leaves[name] for name in free]
    loss_of_row = RowGraphs(
        [built.weighted], {*resolved.columns, *built.gathered, *map(x_error, built.x_errors), WEIGHT}, built.leaves
    )
    notes: list[str] = []
    chosen = suited(options.method.backend, options.method.threads, loss_of_row, table.rows, say=notes.append)
    stepping = _stepping(options, loss_of_row, table.rows, chosen, notes)
    return Prepared(
        model=resolved,
        loss=loss,
        classes=classes,
        weighted=weighted,
        table=built.extended(table),
        layout=layout,
        fixed={name: values[name] for name in resolved.parameters if name in kept},
        start=_started(layout, layout.gather([values[name] for name in free]), begun, box),
        given=frozenset(begun),
        bounds=box,
        kernels=Kernels(built, resolved.columns, leaves, options.method.recompute_every, chosen, notes, stepping),
        family=options.loss.family,
        likelihood=options.loss.likelihood,
        penalties={L1: options.loss.l1, L2: options.loss.l2},
    )


def _stepping(options: Options, loss: RowGraphs, rows: int, chosen: Backend, notes: list[str]) -> Backend:
    """What takes the steps of mini-batches: it may pay to compile these alone."""
    method = options.method
    if method.batch_size is None or chosen.name != "numpy" or notes:
        return chosen
    epochs = EPOCHS if method.epochs is None else method.epochs
    batches = -(-rows // method.batch_size)
    return suited(method.backend, method.threads, loss, rows, epochs, notes.append, batches)


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

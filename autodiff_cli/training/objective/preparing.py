"""From a model, data and options to all that an objective is about."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.choice import suited
from autodiff_cli.backends.protocol import Backend, RowGraphs
from autodiff_cli.data.table import Dataset
from autodiff_cli.training.bounds import Bounds, of_parameters
from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.keeping.memo import Memo
from autodiff_cli.training.levels.expansion import check_not_many
from autodiff_cli.training.objective.graphs import Graphs, chosen_loss, graphs, x_error
from autodiff_cli.training.objective.initial import NUMBER, initial_arrays
from autodiff_cli.training.objective.kernels import Kernels
from autodiff_cli.training.objective.labels import Classes
from autodiff_cli.training.objective.loading import check_names
from autodiff_cli.training.objective.losses import L1, L2
from autodiff_cli.training.objective.meanings import check_reads_a_column
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.objective.parameters import ParameterLayout, checked
from autodiff_cli.training.opening.choice import OpenedData, opened
from autodiff_cli.training.options import EPOCHS, Limits, Options, in_words
from autodiff_cli.training.rows.protocol import WEIGHT, Rows

Array = NDArray[np.float64]

_KEPT = 16  # models of which is kept what was made of them
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
    read = model if isinstance(model, Model) else _read(model, tuple(dataset.names), frozenset(named))
    check_names(named, read)
    loss = chosen_loss(read, options.loss)
    if options.data.x_sigma and options.loss.family is not None:
        raise OptionError("errors in x are for least squares, not for a family")
    data = opened(dataset, read, options)
    classes: Classes | None = None
    if read.class_column is not None:
        classes = data.classes(read.class_column)
    nowhere: list[str] = []
    if read.labelled:
        read = _with_levels(read, data)
        nowhere = data.match(read.matches)
    parameters = read.parameters_by_level(options.parameters)
    begun = {name: checked(name, value) for name, value in parameters.start.items()}
    kept = {name: value if value is None else checked(name, value) for name, value in parameters.fixed.items()}
    given = begun | {name: value for name, value in kept.items() if value is not None}
    made = _made(read, given, [*kept], loss, options, None if classes is None else len(classes), weighted=data.weighted)
    resolved, built, layout, loss_of_row = made.model, made.graphs, made.layout, made.loss
    free = layout.names
    if not options.data.no_columns:
        check_reads_a_column(resolved, dataset.names, options.data.columns, named)
    values: dict[str, Any] = dict.fromkeys(resolved.parameters, NUMBER)
    values |= initial_arrays(resolved.array_parameters, resolved.program.initial, options.method.seed)
    values |= given
    box = of_parameters(layout.places, layout.size, parameters.bounds)
    _check_starts(begun, parameters.bounds)
    notes: list[str] = []
    chosen = suited(options.method.backend, options.method.threads, loss_of_row, data.rows, say=notes.append)
    stepping = _stepping(options, loss_of_row, data.rows, chosen, notes)
    notes += [
        f"no row has the text '{resolved.matches[name].text}' in the column `{resolved.matches[name].column}`"
        for name in nowhere
    ]
    return Prepared(
        model=resolved,
        loss=loss,
        classes=classes,
        weighted=data.weighted,
        data=data.over(built),
        layout=layout,
        fixed={name: values[name] for name in resolved.parameters if name in kept},
        start=_started(layout, layout.gather([values[name] for name in free]), begun, box),
        given=frozenset(begun),
        bounds=box,
        limits=dict(parameters.bounds),
        kernels=made.kernels(options.method.recompute_every, chosen, notes, stepping),
        family=options.loss.family,
        likelihood=options.loss.likelihood,
        penalties={L1: options.loss.l1, L2: options.loss.l2},
    )


@dataclass(slots=True)
class _Made:
    """What a model's text and options come to, whatever the rows.

    Attributes:
        loss: of a row, with its weight.
    """

    model: Model
    graphs: Graphs
    layout: ParameterLayout
    loss: RowGraphs
    read: Model
    _kernels: dict[int | None, Kernels] = dataclasses.field(default_factory=dict)

    def kernels(self, recompute_every: int | None, chosen: Backend, notes: Sequence[str], stepping: Backend) -> Kernels:
        """What runs the graphs. NumPy's are those of the last time."""
        leaves = [self.model.program.leaves[name] for name in self.layout.names]

        def made() -> Kernels:
            return Kernels(self.graphs, self.model.of_rows, leaves, recompute_every, chosen, notes, stepping)

        if chosen.name != "numpy" or stepping is not chosen or notes:
            return made()
        if recompute_every not in self._kernels:
            self._kernels[recompute_every] = made()
        return self._kernels[recompute_every]


_read = functools.lru_cache(_KEPT)(Model.read)
made_before: Memo[_Made] = Memo(_KEPT)


def _made(
    read: Model,
    given: Mapping[str, Any],
    kept: Sequence[str],
    loss: str,
    options: Options,
    classes: int | None,
    *,
    weighted: bool,
) -> _Made:
    """Graphs of a model; those of the last time, if nothing in them depends on the data."""

    def make() -> _Made:
        resolved = read.resolved(given, classes)
        free = [name for name in resolved.parameters if name not in kept]
        built = graphs(resolved, loss, options.loss, classes, weighted, free, options.data.x_sigma)
        columns = {*resolved.of_rows, *built.gathered, *map(x_error, built.x_errors), WEIGHT}
        return _Made(
            resolved,
            built,
            ParameterLayout(free, resolved.shapes),
            RowGraphs([built.weighted], columns, built.leaves),
            read,
        )

    if classes is not None or read.labelled or read.program.arrays or any(map(np.ndim, given.values())):
        return make()
    # The model that was read is kept with what was made of it, so that its address stays its own.
    key = (id(read), tuple(kept), loss, options.loss, weighted, tuple(options.data.x_sigma))
    return made_before.of(key, make)


def _stepping(options: Options, loss: RowGraphs, rows: int, chosen: Backend, notes: list[str]) -> Backend:
    """What takes the steps of mini-batches: it may pay to compile these alone."""
    method = options.method
    if method.batch_size is None or chosen.name != "numpy" or notes:
        return chosen
    batches = -(-rows // method.batch_size)
    # Whatever the number of epochs asked for: a fit that is resumed for more of them goes the same way.
    return suited(method.backend, method.threads, loss, rows, EPOCHS, notes.append, batches)


def _with_levels(model: Model, data: OpenedData) -> Model:
    """The model with a parameter for each level that occurs."""
    levels = {name: data.levels(name) for name in model.leveled}
    for name, found in levels.items():
        check_not_many(name, found, _LEVELS)
    return model.with_levels(levels)


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

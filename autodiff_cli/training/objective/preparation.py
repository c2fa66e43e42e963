"""Preparation of an objective: from a model, data and options to rows, kernels and starting values.

`PreparedObjective` loads the data (in memory, streamed or on a cluster), resolves the model, builds its graphs and
chooses a backend. Models without arrays are cached, so that repeated fits of the same model compile it once.
"""

from __future__ import annotations

import functools
import itertools
import math
import threading
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from autodiff_cli.array_types import Array
from autodiff_cli.backends.protocol import Backend, RowGraphs
from autodiff_cli.backends.selection import choose_backend, make_backend, passes_before_compiling
from autodiff_cli.data import dialect, files, source, table
from autodiff_cli.language.errors import format_names, spelling_hint, suggest
from autodiff_cli.ops.functions import LOG_DENSITIES
from autodiff_cli.options import OptionError
from autodiff_cli.training.losses import L1_FACTOR, L2_FACTOR, LOSSES, PRIOR_FACTOR, X_ERROR_FACTOR, LossKind, Prior
from autodiff_cli.training.objective import loading
from autodiff_cli.training.objective import model as models
from autodiff_cli.training.objective import parameters as layouts
from autodiff_cli.training.objective.kernels import Kernels, build_graphs, choose_loss
from autodiff_cli.training.optimizers import DEFAULT_EPOCHS
from autodiff_cli.training.options import BoundPair, FitOptions, describe_bounds
from autodiff_cli.training.rows import GROUP, numbers_in_data

T = TypeVar("T")


class ThreadLocalCache(threading.local, Generic[T]):
    """A cache of the most recent results of pure functions. Each thread has its own.

    >>> memo = ThreadLocalCache(2)
    >>> [memo.get(key, lambda: key.upper()) for key in "aba"]
    ['A', 'B', 'A']
    """

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._entries: dict[Hashable, T] = {}  # in the order of their last use

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the cached result for a key, or compute and cache it. Exceptions are not cached."""
        entry = self._entries.pop(key, None)
        if entry is None:
            entry = compute()
        self._entries[key] = entry
        while len(self._entries) > self._max_entries:
            del self._entries[next(iter(self._entries))]
        return entry

    def clear(self) -> None:
        """Empty the cache."""
        self._entries.clear()


def open_fit_data(dataset: table.Dataset, model: models.Model, options: FitOptions) -> loading.FitData:
    """Open the data of a fit: streamed if the options ask for it, or if they need more than half of the available
    memory.

    Raises:
        DataError, OptionError: see `LoadedData`, `StreamedData` and `ClusterData`.
    """
    source.reserve_blas_buffer()
    streamable = dataset if isinstance(dataset, files.DataSource) else None
    if options.stream and streamable is None:
        raise OptionError("stream requires files; these data are in memory already")
    if options.cluster is not None:
        from autodiff_cli.training.objective.cluster import Cluster, open_on_cluster

        assert isinstance(options.cluster, Cluster)
        return open_on_cluster(options.cluster, dataset, model, options)
    if streamable is not None:
        why = "as asked" if options.stream else loading.streaming_reason(streamable, model, options)
        if why is not None:
            return loading.StreamedData(streamable, model, options, why)
    return loading.LoadedData(dataset, model, options)


_CACHED_MODELS = 16  # recent models whose graphs and kernels are cached
_MAX_LEVELS = 500  # levels of one column; standard errors are not computed for more parameters either


class PreparedObjective:
    """The parts of an objective. See `Objective` for the attributes."""

    def _prepare(self, model: str | models.Model, dataset: table.Dataset, options: FitOptions) -> None:
        """Parse the model, load the data, and build graphs and kernels.

        Raises:
            ExpressionError, DataError, OptionError: see `Objective`.
        """
        named = options.parameters.names
        parsed = (
            model if isinstance(model, models.Model) else parse_model(model, tuple(dataset.names), frozenset(named))
        )
        parsed = parsed.with_parameters(hyperparameters(options.parsed_priors))
        loading.check_parameter_names(named, parsed)
        self.loss, user_priors = choose_loss(parsed, options), dict(options.parsed_priors)
        effects = _pop_effects(parsed, options, user_priors)
        data = open_fit_data(dataset, parsed, options)
        self.classes: loading.Classes | None = None
        if parsed.class_column is not None:
            distinct = data.encode(parsed.class_column, parsed.class_column)
            self.classes = loading.check_classes(distinct, data.rows, parsed.class_column)
        self.groups = None if parsed.group_column is None else data.encode(GROUP, parsed.group_column, np.int32)
        self.warnings: list[str] = []
        if parsed.label_columns:
            parsed = _add_levels(parsed, data, effects)
            empty = [parsed.matches[name] for name in data.add_indicators(parsed.matches)]
            self.warnings += [f"no row has the text '{each.text}' in the column `{each.column}`" for each in empty]
            for name, effect in parsed.effects.items():
                data.encode(name, effect.column)
        parameters = parsed.expand_values(options.parameters)
        self.sigma_prior: Prior | None = None
        if "sigma" in user_priors and not parsed.accepts("sigma") and self.loss == "mse" and not options.absolute_sigma:
            self.sigma_prior = user_priors.pop("sigma")
            if options.posterior is None:
                words = "sigma, the standard deviation of the residuals, has a prior in a posterior only"
                raise OptionError(f"{words}; for the mode it is profiled: add --posterior 1000")
        self.priors = priors = _expand_priors(parsed, user_priors, parameters.fixed)
        if priors:
            check_likelihood("a prior", self.loss, options.family, options.likelihood, options.scale is None)
        start_values = {name: layouts.check_value(name, value) for name, value in parameters.start.items()}
        fixed_values = {
            name: value if value is None else layouts.check_value(name, value)
            for name, value in parameters.fixed.items()
        }
        fixed_values |= _convolution_values(parsed, data)
        known_values = start_values | {name: value for name, value in fixed_values.items() if value is not None}
        _, resolved, layout, kernels = self._compile(parsed, known_values, tuple(fixed_values), options, data)
        self.model, self.layout = resolved, layout
        if not options.no_columns:
            models.check_reads_data(resolved, dataset.names, loading.weighting_columns(dataset.names, options), named)
        values: dict[str, Any] = dict.fromkeys(resolved.parameters, layouts.INITIAL_VALUE)
        values |= layouts.initial_arrays(resolved.array_parameters, resolved.program.layer_parameters, options.seed)
        values |= known_values
        self.fixed = {name: values[name] for name in resolved.parameters if name in fixed_values}
        self.bounds_by_name, limits = dict(parameters.bounds), dict(parameters.bounds)
        natural = layouts.natural_bounds(resolved.program, layout.names) if options.likelihood else {}
        for name, (low, high) in (*natural.items(), *_supports(priors, layout.names, start_values)):
            own_low, own_high = limits.get(name, (-math.inf, math.inf))
            low, high = limits[name] = max(low, own_low), min(high, own_high)
            if not low < high:
                raise OptionError(f"`{name}`: no number is within its bounds and has a density above 0")
        self.bounds = layouts.bounds_box(layout.slices, layout.size, limits)
        for name, value in start_values.items():
            _check_start(name, value, limits.get(name, (-np.inf, np.inf)), "its bounds,")
        self.user_starts = frozenset(start_values)
        ranges = {name: prior.likely_range for name, prior in priors.items() if name in layout.slices}
        self._likely_ranges = layouts.bounds_box(layout.slices, layout.size, ranges)
        theta = layout.flatten([values[name] for name in layout.names])
        is_given = layout.mask([name for name in layout.names if name in start_values])
        self.start = np.where(is_given, theta, self.likely_bounds(self.bounds).move_inside(theta))
        self.orders = parameters.orders
        for name in itertools.chain(*self.orders):
            if name not in layout.slices or layout.shapes.get(name):
                raise OptionError(f"bounds: `{name}` must be a number that is fitted, to be compared with another one")
        self.shares = layouts.mixture_shares(resolved.program, layout) if options.likelihood else ()
        self.data, self.is_weighted = data.build_rows(kernels.graphs), data.is_weighted
        self.origins, self.zero_weight_rows = dict(dataset.origins), data.rows - self.data.rows
        self.selections = data.selections
        notes: list[str] = []
        loss, rows = kernels.loss_graphs, self.data.rows
        chosen = choose_backend(options.backend, options.threads, loss, rows, notify=notes.append)
        epoch_backend = _epoch_backend(options, loss, rows, chosen, notes)
        has_changed = chosen.name != "numpy" or epoch_backend is not chosen or notes
        self.kernels = kernels
        if has_changed:
            self.kernels = replace(kernels, backend=chosen, notes=notes, epoch_backend=epoch_backend)
        self.passes_before_compiling = math.inf
        if options.backend == "auto" and chosen.name == "numpy" and not notes:
            self.passes_before_compiling = passes_before_compiling(loss, rows)
        self.threads, self.family, self.is_likelihood = options.threads, options.family, options.likelihood
        self.is_absolute = options.absolute_sigma
        # The values of leaves that are neither columns nor parameters.
        self.settings = {L1_FACTOR: options.l1, L2_FACTOR: options.l2, PRIOR_FACTOR: 0.0}
        self.settings |= {X_ERROR_FACTOR: 1.0} if options.x_errors else {}
        self.effects = {name: effects[leaf.parameter] for name, leaf in resolved.effects.items()}

    def _compile(
        self,
        parsed: models.Model,
        known_values: Mapping[str, Any],
        fixed_names: tuple[str, ...],
        options: FitOptions,
        data: loading.FitData,
    ) -> _CompiledModel:
        """Return the kernels of a model, from the cache if nothing in them depends on the data."""

        def build() -> _CompiledModel:
            count = None if self.classes is None else len(self.classes)
            model = parsed.resolve(known_values, count)
            layout = layouts.ParameterLayout(
                [name for name in model.parameters if name not in fixed_names], model.shapes
            )
            is_weighted, scales, free = data.is_weighted, data.target_scales, layout.names
            graphs = build_graphs(model, self.loss, options, count, is_weighted, free, scales, self.priors)
            leaves = [model.program.leaves[name] for name in free]
            return _CompiledModel(parsed, model, layout, Kernels(graphs, {*model.row_leaves}, leaves, make_backend()))

        has_arrays = bool(parsed.program.arrays) or any(map(np.ndim, known_values.values()))
        if self.classes is not None or parsed.label_columns or has_arrays or self.priors:
            return build()
        settings = options.huber_delta, options.l1, options.l2, options.sigma is None, *options.x_errors
        key = (id(parsed), fixed_names, self.loss, settings, data.is_weighted, data.target_scales)
        return model_cache.get(key, build)

    def likely_bounds(self, box: layouts.Bounds) -> layouts.Bounds:
        """Return bounds that are narrowed to the likely ranges of the parameters with priors."""
        return layouts.Bounds(box.clip(self._likely_ranges.low), box.clip(self._likely_ranges.high))

    @property
    def scalar_parameters(self) -> list[str]:
        """The free parameters that are numbers; only for these are other starting values searched."""
        return [name for name, shape in self.layout.shapes.items() if not shape]

    @property
    def unset_parameters(self) -> list[str]:
        """The free parameters that are numbers and have no starting value from the user."""
        return [name for name in self.scalar_parameters if name not in self.user_starts]


class _CompiledModel(NamedTuple):
    """The part of an objective that depends on the model and the options, but not on the rows.

    Attributes:
        parsed: the model as it was parsed. It is kept so that its id, which is in the key of the cache, is not reused.
        model: the model, with resolved shapes.
        layout: the positions of the free parameters.
        kernels: the kernels of the loss, by NumPy.
    """

    parsed: models.Model
    model: models.Model
    layout: layouts.ParameterLayout
    kernels: Kernels


def _convolution_values(parsed: models.Model, data: loading.FitData) -> dict[str, Array]:
    """Return the places and weights of the responses of `convolve`, by the names of their parameters.

    The weights follow the trapezoidal rule, scaled to an area of 1.

    Raises:
        DataError: if places do not rise from row to row, or if a response has no area.
    """
    values: dict[str, Array] = {}
    for (place_name, weight_name), columns in parsed.program.convolutions.items():
        rows = data.rows_by(loading.ColumnRecipe({*columns}, {}, {}, {}))
        places, response = map(rows.column, columns)
        steps = np.diff(places)
        if not (steps > 0).all():
            row = int(np.argmin(steps > 0)) + 1
            number = numbers_in_data(data.selections, np.array([row]))
            place = f"at {places[row]:.15g}" if number is None else f"in row {number[0] + 1}"
            raise dialect.DataError(f"convolve: `{columns[0]}` must rise from row to row; {place} it does not")
        widths = (np.append(steps, 0) + np.append(0, steps)) / 2
        area = float(widths @ response)
        if not area > 0:
            raise dialect.DataError(f"convolve: the response `{columns[1]}` has no positive area")
        values |= {place_name: places, weight_name: widths * response / area}
    return values


@functools.lru_cache(_CACHED_MODELS)
def parse_model(
    text: str, names: tuple[str, ...], user_names: frozenset[str], group_column: str | None = None
) -> models.Model:
    """Return a model, which is parsed only once for the same arguments; see `Model.parse`."""
    return replace(models.Model.parse(text, names, user_names), group_column=group_column)


model_cache: ThreadLocalCache[_CompiledModel] = ThreadLocalCache(_CACHED_MODELS)


def hyperparameters(priors: Mapping[str, Prior]) -> tuple[str, ...]:
    """Return the names of the parameters that the arguments of priors read."""
    return tuple(dict.fromkeys(name for prior in priors.values() for name in prior.parameters))


def _expand_priors(model: models.Model, priors: Mapping[str, Prior], fixed: Mapping[str, Any]) -> dict[str, Prior]:
    """Return the priors of free parameters, with `a[group]` copied to each level of the column. Raises OptionError
    for a parameter that does not exist, that is fixed, or that has two priors for all levels.
    """
    expanded: dict[str, Prior] = {}
    for name, prior in sorted(priors.items(), key=lambda pair: pair[0] in model.parameters):  # single levels last
        base, _, column = name.removesuffix("]").partition("[")
        is_single = name in model.parameters
        levels = model.levels.get(column, ()) if column else itertools.chain(*model.levels.values())
        own = [name] if is_single else [models.level_parameter(base, level) for level in levels]
        known = [each for each in own if each in model.parameters]
        if not known:
            hint = spelling_hint(name, model.parameters, f"there are {format_names(model.parameters)}", quote="")
            raise OptionError(f"the prior of `{name}`: the model has no such parameter; {hint}")
        if fixed.keys() >= {*known}:
            raise OptionError(f"the prior of `{name}`: the parameter is fixed")
        if not (is_single or expanded.keys().isdisjoint(known)):
            raise OptionError(f"`{base}` has two priors: leave one of them out")
        _check_arguments(name, prior, model)
        expanded |= {each: prior for each in known if each not in fixed}
    try:
        TopologicalSorter({name: prior.parameters for name, prior in expanded.items()}).prepare()
    except CycleError as error:
        raise OptionError(f"the prior of `{error.args[1][0]}` depends on this parameter itself") from None
    return expanded


def _check_arguments(name: str, prior: Prior, model: models.Model) -> None:
    """Raise OptionError if an argument of a prior reads a column."""
    for other in prior.parameters:
        if other not in model.parameters:
            raise OptionError(f"the prior of `{name}`, {prior.text}: `{other}` is not a parameter")


def check_likelihood(subject: str, loss: str, family: str | None, is_likelihood: bool, has_open_scale: bool) -> None:
    """Raise OptionError if a loss has no likelihood that priors could multiply.

    Args:
        subject: the option that needs it.
        has_open_scale: whether theta of negative binomial counts is estimated.
    """
    name = family or loss
    kind = LOSSES[loss].kind if loss else LossKind.LIKELIHOOD if is_likelihood else LossKind.OTHER
    if name.startswith("quasi"):
        raise OptionError(f"{subject} needs a likelihood, and {name} has none; choose {name.removeprefix('quasi')}")
    if loss == "gamma" or (loss == "negative_binomial" and has_open_scale):
        figure = "dispersion" if loss == "gamma" else "theta"
        raise OptionError(f"{subject} needs a likelihood, and the {figure} of {name} is estimated outside of it")
    if kind not in (LossKind.SQUARES, LossKind.LIKELIHOOD):
        words = f"the loss {name} is not a likelihood; choose mse, bce or poisson"
        if not loss:
            words = "the model is its own loss; add --likelihood if it is a negative log-likelihood"
        raise OptionError(f"{subject} needs a likelihood: {words}")


def _supports(
    priors: Mapping[str, Prior], free_names: Sequence[str], start_values: Mapping[str, Any]
) -> Iterator[tuple[str, BoundPair]]:
    """Yield the ranges of parameters in which priors have a density. Raises OptionError for a start outside."""
    for name, prior in priors.items():
        if name in start_values:
            _check_start(name, start_values[name], prior.support, f"the support of its prior, {prior.text}:")
        if name in free_names and prior.support != (-math.inf, math.inf):
            yield name, prior.support
        yield from ((each, (0.0, math.inf)) for each in prior.positive_parameters if each in free_names)


def _epoch_backend(options: FitOptions, loss: RowGraphs, rows: int, backend: Backend, notes: list[str]) -> Backend:
    """Return the backend for mini-batches, which may be worth compiling although full batches are not."""
    if options.batch_size is None or backend.name != "numpy" or notes:
        return backend
    batches = -(-rows // options.batch_size)
    # The requested number of epochs must not matter, because a fit may resume with more epochs.
    return choose_backend(options.backend, options.threads, loss, rows, DEFAULT_EPOCHS, notes.append, batches)


def _add_levels(model: models.Model, data: loading.FitData, effects: Collection[str]) -> models.Model:
    """Return the model with one parameter for each level that occurs, unless it is a random effect."""
    levels = {name: data.levels(name) for name in model.level_columns}
    for leaf in models.check_levels(model.program, model.columns).values():
        if leaf.parameter not in effects:
            models.check_level_count(leaf.column, levels[leaf.column], _MAX_LEVELS)
    return model.with_levels(levels, effects)


def _pop_effects(model: models.Model, options: FitOptions, priors: dict[str, Prior]) -> dict[str, Prior]:
    """Return the distributions of the random effects by their names, and remove them from the priors.

    Raises:
        OptionError: for an effect without levels or without a normal prior, and for a value given to an effect.
    """
    leveled, effects = models.check_levels(model.program, model.columns), dict[str, Prior]()
    for name in options.random_effects:
        if name not in leveled:
            words = f"laplace: the model has no parameter `{name}` with a value for each level, such as `u` of u[tree]"
            close = suggest(name.partition("[")[0], leveled)
            raise OptionError(f"{words}; did you mean {close}?" if close else words)
        column = leveled[name].column
        own = [key for key in priors if key.partition("[")[0] == name]
        if not own:
            raise OptionError(f'laplace: `{name}` needs a distribution: add --prior "{name}[{column}] ~ normal(0, s)"')
        single = [key for key in own if key not in (name, models.level_parameter(name, column))]
        if single or len(own) > 1:
            raise OptionError(f"laplace: levels of `{name}` have one prior, but `{(single or own)[-1]}` has its own")
        effects[name] = prior = priors.pop(own[0])
        _check_arguments(name, prior, model)
        if other := next(filter(leveled.__contains__, prior.parameters), ""):
            raise OptionError(f"laplace: the prior of `{name}`, {prior.text}: `{other}` must be a single parameter")
        if prior.distribution is not LOG_DENSITIES["normal"]:
            raise OptionError(
                f"laplace: the prior of `{name}` must be normal, not {prior.text}; "
                f"write another distribution as a function of a normal effect, such as exp({name}[{column}])"
            )
        for other in options.parameters.names:
            if other.partition("[")[0] == name:
                raise OptionError(f"laplace: `{name}` is integrated out; `{other}` has no start, bounds or fixed value")
    if effects and priors:
        raise OptionError(f"laplace: only the effects can have priors, but `{next(iter(priors))}` has one")
    return effects


def _check_start(name: str, value: Any, limits: BoundPair, range_name: str) -> None:
    """Raise OptionError for a starting value outside of a range, which is named in the message."""
    low, high = limits
    is_outside = np.ravel((value < low) | (value > high))
    if is_outside.any():
        x = np.ravel(value)[is_outside][0]
        raise OptionError(f"the starting value {x:.15g} of `{name}` is outside {range_name} {describe_bounds(limits)}")

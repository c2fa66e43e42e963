"""A fitted model: a record of a fit, which predicts new rows.

A model file has the same record as one JSON document of texts and numbers, so that loading a file runs no code.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.array_types import Array, ignore_float_errors
from autodiff_cli.backends.selection import evaluate
from autodiff_cli.data import json_records as records
from autodiff_cli.data.batches import LabelColumn, join_labels
from autodiff_cli.data.table import DataError, float_array, label_vector, named_columns
from autodiff_cli.graph.node import Node, Shape
from autodiff_cli.graph.tape import ShapeError, broadcast_shapes, format_shape
from autodiff_cli.language.errors import ExpressionError, MissingValueError, format_names
from autodiff_cli.language.names import JOINT_SEPARATOR, joined_columns
from autodiff_cli.ops.functions import sigmoid
from autodiff_cli.options import OptionError
from autodiff_cli.system import error_reason, open_atomic_text
from autodiff_cli.training.losses import LOSSES, parse_priors
from autodiff_cli.training.objective.kernels import is_generalised_linear
from autodiff_cli.training.objective.loading import Classes, check_labels, indicator_columns, weighting_graph
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.objective.parameters import ParameterLayout
from autodiff_cli.training.optimizers import EpochRecord
from autodiff_cli.training.options import check_confidence_level
from autodiff_cli.training.result.diagnosis import Diagnosis
from autodiff_cli.training.result.goodness import DRAWN, ParameterPosterior, student_quantile, student_tail
from autodiff_cli.training.result.statistics import MAX_COVARIANCE_SIZE, FitStatistics, flat_errors
from autodiff_cli.version import __version__


class RandomEffect(NamedTuple):
    """A random effect, which Laplace's approximation integrated out of the likelihood.

    Attributes:
        column: the column of its levels.
        distribution: its distribution, such as `normal(0, s)`.
        mean, sd: the mean and the standard deviation of that distribution.
        modes: its most probable value for each level, given the estimates.
        errors: the standard errors of the modes, given the estimates.
    """

    column: str
    distribution: str
    mean: float
    sd: float
    modes: dict[str, float]
    errors: dict[str, float]


NOT_SAVED = {"is_saved": False}  # metadata of a field that model files do not have


class DerivedQuantity(TypedDict):
    """The value and the standard error of a derived quantity; None for an unknown error."""

    value: float
    stderr: float | None


@dataclass(frozen=True, slots=True)
class FitSettings:
    """The settings of a fit that matter for predictions.

    Attributes:
        likelihood: whether the model is itself a negative log-likelihood.
        weighted: whether rows had weights or standard deviations.
        weights, sigma: the weights or standard deviations: a column, a number or an expression; None for arrays.
        absolute_sigma: whether standard deviations are absolute, not relative.
        family: the family of the target, if one was named.
        has_sigma: whether rows had standard deviations.
        x_sigma: the standard deviations of predictors, by name: a column, a number or an expression; None for arrays.
    """

    likelihood: bool = False
    weighted: bool = False
    weights: str | None = None
    sigma: str | None = None
    absolute_sigma: bool = False
    family: str | None = None
    has_sigma: bool = False
    x_sigma: dict[str, str | None] = field(default_factory=dict)

    @property
    def weighting(self) -> str | None:
        """The weights or standard deviations of the rows: a column, a number or an expression."""
        return self.weights if self.sigma is None else self.sigma

    def spread_graphs(self, names: Collection[str]) -> dict[str, Node] | None:
        """Return the weights or standard deviations of new rows, and of their predictors, as graphs over columns.

        The first one has an empty name, the others the names of the predictors. Returns None if the columns do not
        determine all of them.
        """
        with contextlib.suppress(DataError):
            sources = {"": self.weighting, **self.x_sigma}
            graphs = {key: weighting_graph(text, "sigma", names) for key, text in sources.items() if text is not None}
            return graphs if len(graphs) == len(sources) else None
        return None


@dataclass(frozen=True, slots=True)
class FittedCurve:
    """The predicted curve of all rows, or of those with the same labels.

    Attributes:
        name: the labels; empty for all rows.
        x, y: the points of the curve.
        low, high: the limits of the confidence band; None if it is unknown.
        prediction_low, prediction_high: the limits of the prediction band; None if it is unknown.
    """

    name: str
    x: Array
    y: Array
    low: Array | None = None
    high: Array | None = None
    prediction_low: Array | None = None
    prediction_high: Array | None = None


@dataclass(frozen=True, slots=True)
class FitPlot:
    """Rows of the data with their predictions and the fitted curves, for a plot.

    Attributes:
        predictor: the name of the predictor on the x axis; empty if there are several, so that the x axis has the
            prediction.
        target: the name of the target.
        x, y, residuals: the values of the plotted rows, each of shape (plotted,).
        groups: the position in `curves` of each row's curve.
        sigma, x_sigma: the standard deviations of y and of x, of shape (plotted,); None if they were not given.
        rows: the number of all rows.
        curves: the predicted curves; with several predictors, the diagonal on which perfect predictions lie.
        group_column: the columns whose labels name the curves, for a legend; empty for one curve.
        level: the probability of the bands.
        is_log_scale: whether the predictor has a logarithmic axis, as doses do: on a linear one most rows would be at
            one end.
        note: a description of the points, if they are not rows.
    """

    predictor: str
    target: str
    x: Array
    y: Array
    residuals: Array
    groups: NDArray[np.intp]
    sigma: Array | None
    x_sigma: Array | None
    rows: int
    curves: tuple[FittedCurve, ...]
    group_column: str
    level: float
    is_log_scale: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FittedModel(FitStatistics):
    """A fitted model: its parameters with their uncertainty, how well it fits, and how it was fitted.

    The attributes of `FitStatistics` and `GoodnessOfFit` are attributes of the fit, too. The fields also define the
    JSON document of a fit, in this order, and model files.

    Attributes:
        model: the text of the model.
        rows: the number of rows that the model was fitted to.
        parameters: the fitted values by name, as floats and arrays.
        fixed: the values of the parameters that were fixed.
        loss: the loss over all rows, a (weighted) mean.
        optimizer: the method that was used.
        epochs: the number of epochs or iterations.
        converged: whether the method stopped at a solution and, if draws were requested, the chains agree.
        intervals: the intervals under `profile` and `bootstrap`, by parameter, if they were requested: pairs, of arrays
            for arrays. None if unknown; infinite where the data set no limit.
        priors: the prior of each parameter that has one, such as `normal(0, 10)`; the parameters are then the
            posterior mode.
        posterior: the summary of the draws of each number, if draws were requested; with `sigma`, the standard
            deviation of the residuals, where it is unknown.
        random_effects: the effects that `laplace` integrated out, by name. `log_likelihood` and the errors are then of
            the marginal likelihood; residuals and predictions are at the modes of the effects.
        divergences: the number of transitions of the sampler that diverged.
        draws: the draws by name, of shape (chains, draws, …). A model file has at most 1,000 of each number.
        derived: the derived quantities by name.
        bounds: the lower and upper bound of each bounded parameter.
        scale: the residual scale of a robust loss; None for other losses.
        penalty: the value of the penalties `l1` and `l2`, which are part of `loss`; None without one.
        classes: the sorted labels of a classifier; None for other models.
        accuracy: the share of rows whose class is predicted correctly; None if the model does not predict classes.
        auc: the area under the receiver operating characteristic of a model of two classes; else None.
        roc: the receiver operating characteristic: `false_positive_rate`, `true_positive_rate` and `threshold`.
        confusion: the number of rows of each class (row of the matrix) that are predicted as each class (column); None
            for other models.
        validation_rows: the number of rows that were held out.
        validation_loss, validation_accuracy: the loss and accuracy for these rows; None if there are none.
        diagnosis: the diagnosis of a network, if it was requested.
        plot: the rows and the curve of a plot, if it was requested and the model predicts numbers.
        history: `{"epoch": k, "loss": …}` for the start (0) and each epoch, with `"validation_loss"` if rows were held
            out.
        warnings: sentences on limits of the results.
        notes: sentences on choices that were made during the fit, such as its starting values.
        failure: why the method stopped, if it neither converged nor reached the requested number of epochs; otherwise
            empty.
        element_names: the names of the rows of `correlation`, such as `a` and `W[0, 1]`; empty if there are very many.
        confidence_level: the probability of the intervals in reports.
        loss_name: the name of the loss in `losses.LOSSES`; empty if the model is its own loss.
        huber_delta: the threshold of the Huber loss; None for its default.
        settings: the settings of the fit that matter for predictions.
        levels: the sorted levels of each column that selects parameters (`a[group]`).
        origins: the time from which dates and times are counted in seconds, by column.
        units: the units of columns, for the axes of plots.
        ranges: the minimum and maximum of each predictor in the fitted rows.

    >>> import autodiff_cli as ad
    >>> fit = ad.fit("y ~ a*x + b", {"x": [0, 1, 2, 3], "y": [1, 3, 5, 7.5]})
    >>> {name: round(value, 6) for name, value in fit.parameters.items()}
    {'a': 2.15, 'b': 0.9}
    >>> fit.converged, fit.dof, round(fit.rss, 6)
    (True, 2, 0.075)
    """

    model: str
    rows: int
    parameters: dict[str, Any]
    fixed: dict[str, Any]
    loss: float
    optimizer: str
    epochs: int
    converged: bool
    intervals: dict[str, dict[str, tuple[Any, Any] | None]] = field(
        default_factory=dict, metadata=records.IF_KNOWN | records.NONFINITE_IS_NULL
    )
    priors: dict[str, str] = field(default_factory=dict, metadata=records.IF_KNOWN)
    posterior: dict[str, ParameterPosterior] = field(
        default_factory=dict, metadata=records.IF_KNOWN | records.NAN_IS_NULL
    )
    random_effects: dict[str, RandomEffect] = field(default_factory=dict, metadata=records.IF_KNOWN)
    derived: dict[str, DerivedQuantity] = field(default_factory=dict, metadata=records.IF_KNOWN)
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict, metadata=records.IF_KNOWN)
    scale: float | None = field(default=None, metadata=records.IF_KNOWN)
    penalty: float | None = field(default=None, metadata=records.IF_KNOWN)
    classes: Classes | None = field(default=None, metadata=records.IF_KNOWN)
    accuracy: float | None = field(default=None, metadata=records.IF_KNOWN)
    auc: float | None = field(default=None, metadata=records.IF_KNOWN)
    roc: dict[str, Array] | None = field(default=None, metadata=records.IF_KNOWN | NOT_SAVED)
    confusion: NDArray[np.int64] | None = field(default=None, metadata=records.IF_KNOWN)
    validation_rows: int = field(default=0, metadata=records.IF_KNOWN)
    validation_loss: float | None = field(default=None, metadata=records.IF_KNOWN)
    validation_accuracy: float | None = field(default=None, metadata=records.IF_KNOWN)
    diagnosis: Diagnosis | None = field(default=None, metadata=records.IF_KNOWN | NOT_SAVED)
    plot: FitPlot | None = field(default=None, metadata=records.IF_KNOWN | NOT_SAVED)
    history: list[EpochRecord]
    warnings: list[str]
    notes: list[str] = field(default_factory=list)
    failure: str = field(metadata=records.NOT_IN_DOCUMENT)
    divergences: int = field(default=0, metadata=records.NOT_IN_DOCUMENT)
    draws: dict[str, Any] = field(default_factory=dict, metadata=records.NOT_IN_DOCUMENT, repr=False)
    element_names: tuple[str, ...] = field(default=(), metadata=records.NOT_IN_DOCUMENT | NOT_SAVED)
    confidence_level: float = field(default=0.95, metadata=records.NOT_IN_DOCUMENT)
    loss_name: str = field(metadata=records.NOT_IN_DOCUMENT)
    huber_delta: float | None = field(default=None, metadata=records.NOT_IN_DOCUMENT)
    settings: FitSettings = field(default_factory=FitSettings, metadata=records.NOT_IN_DOCUMENT)
    levels: dict[str, tuple[int | str, ...]] = field(default_factory=dict, metadata=records.NOT_IN_DOCUMENT)
    origins: dict[str, datetime] = field(default_factory=dict, metadata=records.NOT_IN_DOCUMENT)
    units: dict[str, str] = field(default_factory=dict, metadata=records.NOT_IN_DOCUMENT)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict, metadata=records.NOT_IN_DOCUMENT)
    parsed_model: Model = field(repr=False, metadata=records.NOT_IN_DOCUMENT | NOT_SAVED)

    @property
    def formula(self) -> str:
        """The prediction with numbers for the parameters, in the expression language; empty if there are very many."""
        return self.parsed_model.formula({**self.parameters, **self.fixed})

    @property
    def errors(self) -> Array:
        """The standard errors of all elements of parameters in a row; nan where they are unknown."""
        return flat_errors(self.stderr, self.parameters)

    @property
    def covariance(self) -> Array:
        """The covariance of the estimates, of shape (P, P); nan where it is unknown.

        Rows and columns have the order of the parameters, with the elements of arrays row by row.

        >>> import autodiff_cli as ad
        >>> fit = ad.fit("y ~ a + b*x", {"x": [1, 2, 3, 4], "y": [1, 3, 4, 8]})
        >>> fit.covariance.round(3).tolist()
        [[1.35, -0.45], [-0.45, 0.18]]
        """
        errors = self.errors
        with ignore_float_errors():  # a variance may overflow
            return self.correlation * np.outer(errors, errors)

    def confidence(self, level: float | None = None) -> dict[str, Any]:
        """Return the confidence interval of each parameter and derived quantity as a pair, of arrays for arrays; None
        if its error is unknown. Under hierarchical priors, its ends are quantiles of the draws.

        Args:
            level: the probability, such as 0.95 or 95 (per cent); by default the confidence level of the fit.

        Raises:
            OptionError: for an invalid level.

        >>> import autodiff_cli as ad
        >>> fit = ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6.6]})
        >>> [round(end, 3) for end in fit.confidence(0.95)["a"]]
        [1.837, 2.42]
        """
        return self.confidence_of({**self.parameters, **self.derived}, level)

    def confidence_of(self, names: Iterable[str], level: float | None = None) -> dict[str, tuple[Any, Any] | None]:
        """Return the confidence intervals of parameters and derived quantities; see `confidence`."""
        if self.definition == DRAWN:
            outside = 1 - (self.confidence_level if level is None else check_confidence_level(level))
            return {k: tuple(np.quantile(self.draws[k], [outside / 2, 1 - outside / 2], axis=(0, 1))) for k in names}
        half_width = self.quantile(level)
        estimates = {name: self.estimate(name) for name in names}
        return {
            name: None if error is None else (value - half_width * error, value + half_width * error)
            for name, (value, error) in estimates.items()
        }

    @property
    def chi_squared(self) -> float | None:
        """The sum of squared residuals in units of their standard deviations; None without sigma."""
        return self.rss if self.settings.has_sigma else None

    @property
    def t_values(self) -> dict[str, Any | None]:
        """The value of each parameter divided by its standard error; None, or nan in an array, if that is unknown or 0.
        A parameter whose error comes from draws has None, because that is not a test.
        """
        known = {} if self.definition == DRAWN else self.stderr
        errors = {name: math.nan if error is None else error for name, error in known.items()}
        return {name: _known(self.parameters[name] / np.where(errors[name], errors[name], math.nan)) for name in errors}

    @property
    def p_values(self) -> dict[str, Any | None]:
        """The two-sided p-value of each parameter: the probability of a larger `t_values` if the parameter is 0. It
        uses Student's t distribution where intervals do, else the normal one.

        >>> import autodiff_cli as ad
        >>> round(ad.fit("y ~ a + b*x", {"x": [1, 2, 3, 4], "y": [1, 3, 4, 8]}).p_values["a"], 6)
        0.3258
        """

        def tail(t: float) -> float:
            if self.interval_dof is None:
                return math.erfc(abs(t) / math.sqrt(2))
            return student_tail(abs(t), self.interval_dof) if self.interval_dof > 0 else math.nan

        tails = np.vectorize(tail, otypes=[float])
        with ignore_float_errors():  # a t value may be nan
            return {name: None if t is None else _known(tails(t)) for name, t in self.t_values.items()}

    @property
    def odds_ratios(self) -> dict[str, dict[str, Any]]:
        """The odds ratio of each parameter of a logistic regression, exp of the parameter, as `value`, with its
        confidence interval from `low` to `high`; empty for other models.
        """
        output, shapes = self.parsed_model.program.output, self.parsed_model.shapes
        leaves = [self.parsed_model.program.leaves[name] for name in self.parameters]
        if self.loss_name != "bce" or output.op is not sigmoid or not is_generalised_linear(output, leaves, shapes):
            return {}
        ends = {name: pair or (math.nan, math.nan) for name, pair in self.confidence_of(self.parameters).items()}
        with ignore_float_errors():  # a parameter that goes to infinity has an infinite ratio
            ratios = {name: [_known(np.exp(each)) for each in (self.parameters[name], *ends[name])] for name in ends}
        return {name: dict(zip(("value", "low", "high"), three, strict=True)) for name, three in ratios.items()}

    @property
    def draw_counts(self) -> tuple[int, int]:
        """The number of chains, and of the draws of each; 0 and 0 for a fit without draws."""
        chains, draws = next(iter(self.draws.values())).shape[:2] if self.draws else (0, 0)
        return chains, draws

    def estimate(self, name: str) -> tuple[Any, Any | None]:
        """Return the value of a parameter or derived quantity, and its standard error; None if it has none."""
        if name in self.derived:
            return self.derived[name]["value"], self.derived[name]["stderr"]
        return {**self.parameters, **self.fixed}[name], self.stderr.get(name)

    @property
    def errors_on_bounds(self) -> Array:
        """The `errors` given that parameters on a bound are fixed there: theirs are 0 instead of nan, as the errors of
        the other parameters assume.
        """
        on_bound = np.concatenate(
            [np.isin(np.ravel(value), self.bounds.get(name, ())) for name, value in self.parameters.items()]
        )
        return np.where(on_bound, 0.0, self.errors)

    def quantile(self, level: float | None = None) -> float:
        """Return the half-width of confidence intervals in standard errors; nan if there are none.

        Args:
            level: see `confidence`.
        """
        chosen = self.confidence_level if level is None else check_confidence_level(level)
        dof = math.inf if self.interval_dof is None else self.interval_dof
        return student_quantile(chosen, dof) if dof > 0 else math.nan

    @property
    def on_bounds(self) -> tuple[str, ...]:
        """The names of the parameters with an element on a bound.

        >>> import autodiff_cli as ad
        >>> ad.fit("y ~ a + b*x", {"x": [1, 2, 3], "y": [3, 2, 1.5]}, bounds={"b": (0, None)}).on_bounds
        ('b',)
        """
        values = {name: np.asarray(self.parameters[name]) for name in self.bounds}
        return tuple(name for name, (low, high) in self.bounds.items() if np.isin(values[name], (low, high)).any())

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that the model reads."""
        return self.parsed_model.columns

    @property
    def column_origins(self) -> dict[str, datetime | None]:
        """The time from which the dates and times of each column are counted; None for other columns."""
        return {name: self.origins.get(name) for name in self.columns}

    @property
    def predictors(self) -> tuple[str, ...]:
        """The columns that the prediction reads."""
        return self.parsed_model.predictors

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns that the model reads as labels."""
        return self.parsed_model.label_columns

    @property
    def targets(self) -> tuple[str, ...]:
        """The text left of `~`, one for each component of the target."""
        return self.parsed_model.targets()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, which `load` reads. Raises OSError if that fails; an existing file is then
        unchanged.

        >>> import autodiff_cli as ad, os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ad.fit("y ~ a*x", {"x": [1, 2], "y": [2, 4]}).save(os.path.join(folder, "model.json"))
        ...     os.listdir(folder)
        ['model.json']
        """
        saved = {name: getattr(self, name) for name in _SAVED_FIELDS}
        every = max(1, -(-math.prod(self.draw_counts) // _MAX_SAVED_DRAWS))
        saved["draws"] = {name: values[:, ::every] for name, values in self.draws.items()}
        if not self.definition:
            saved["correlation"] = None  # all elements are nan
        header = {"format": _FORMAT, "version": _FORMAT_VERSION, "autodiff": __version__, "columns": self.columns}
        document = {**header, **records.to_json(saved)}
        document["checksum"] = _checksum(document)
        with open_atomic_text(path) as stream:
            json.dump(document, stream, ensure_ascii=False, allow_nan=False)
            stream.write("\n")

    def probabilities(self, data: Mapping[str, ArrayLike]) -> Array:
        """Return the predictions as numbers: for a classifier the probability of each class, of shape (rows, classes).

        Raises:
            MissingValueError: if a column is missing.

        >>> import autodiff_cli as ad
        >>> fit = ad.fit("kind ~ softmax(dense(x, 2))", {"x": [0, 1, 2, 3], "kind": ["a", "b", "a", "b"]})
        >>> fit.probabilities({"x": [0, 1, 2]}).shape
        (3, 2)
        """
        prediction = evaluate([self.parsed_model.program.output], self.leaf_values(data), self.parsed_model.shapes)[0]
        return prediction if self.predictors else np.full((*first_column_shape(data), *prediction.shape), prediction)

    def residuals(self, data: Mapping[str, ArrayLike]) -> Array:
        """Return target minus prediction, of the shape of the prediction. The data need the columns of the target, too.

        Raises:
            MissingValueError: if a column is missing.
            OptionError: for a model without a target, and for a classifier.

        >>> import autodiff_cli as ad
        >>> ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6]}).residuals({"x": [10], "y": [21]}).round(9)
        array([1.])
        """
        target = self.parsed_model.program.target
        if target is None or self.classes is not None:
            raise OptionError("there are no residuals: the model needs a numeric target left of `~`")
        columns = self._read_columns(data, self.parsed_model.residual_columns)
        return evaluate([target], columns, self.parsed_model.shapes)[0] - self.probabilities(data)

    def leaf_values(self, data: Mapping[str, ArrayLike], *, shared: bool = False) -> dict[str, Any]:
        """Return the value of every leaf of the prediction.

        Args:
            shared: broadcast the columns to one length, that of the data if none is read.

        Raises:
            MissingValueError: for missing columns.
            DataError: for columns of different lengths, and for arrays of several axes as shared columns.
        """
        columns = self._read_columns(data, self.predictors)
        if shared:
            rows = broadcast_shapes(*map(np.shape, columns.values())) if columns else first_column_shape(data)
            if len(rows) > 1:
                raise DataError(f"bands need one number per row and column, not an array of shape {format_shape(rows)}")
            columns = {name: np.broadcast_to(values, rows) for name, values in columns.items()} or {"": np.zeros(rows)}
        return {**self.parameters, **self.fixed, **columns}

    def _read_columns(self, data: Mapping[str, ArrayLike], names: Sequence[str]) -> dict[str, Array]:
        """Return columns of data as floats, and the indicators of their labels.

        Raises:
            MissingValueError: for missing columns.
            DataError: for columns of different lengths.
        """
        arrays = named_columns(data)
        for name in {*self.label_columns} & {*names} - arrays.keys():
            parts = [part for part in joined_columns(name, arrays) if part in arrays]
            if JOINT_SEPARATOR.join(parts) == name:
                joint = join_labels([LabelColumn.of(label_vector(arrays[part], part)) for part in parts]).joined()
                arrays[name] = np.array([*joint.values, None], object)[joint.codes]
        if missing := [name for name in names if name not in arrays]:
            raise MissingValueError(f"no value for {format_names(missing, '`')}")
        columns = {name: float_array(arrays[name], name) for name in names if name in self.parsed_model.numeric}
        matches = {name: match for name, match in self.parsed_model.matches.items() if match.column in names}
        read = {match.column for match in matches.values()}
        labels = {name: check_labels(arrays[name], name, self.levels.get(name)) for name in read}
        columns |= indicator_columns(matches, labels)
        for leaf, effect in self.parsed_model.effects.items():
            if effect.column in names:
                codes, new = check_labels(arrays[effect.column], effect.column, self.levels[effect.column])
                modes = self.random_effects[effect.parameter].modes
                columns[leaf] = np.array([modes[str(level)] for level in new.tolist()])[codes]
        try:
            broadcast_shapes((), *map(np.shape, columns.values()))
        except ShapeError:
            effects = {leaf: effect.column for leaf, effect in self.parsed_model.effects.items()}
            origins = {leaf: match.column for leaf, match in matches.items()} | effects
            shapes = {origins.get(name, name): format_shape(values.shape) for name, values in columns.items()}
            lengths = [f"`{name}` has {shape}" for name, shape in shapes.items()]
            raise DataError(f"the columns differ in length: {format_names(lengths)}") from None
        return columns


def _known(values: Array) -> Any | None:
    """Return an array, or a number; None for nan."""
    return values if values.ndim else None if np.isnan(values) else float(values)


def first_column_shape(data: Mapping[str, ArrayLike]) -> tuple[int, ...]:
    """Return the shape of the first column."""
    return next((np.shape(values) for values in named_columns(data).values()), ())


# --- Model files

_FORMAT = "autodiff model"
_FORMAT_VERSION = 4  # raised by a release that adds a key or changes its meaning
_MAX_SAVED_DRAWS = 1000  # draws of each number, from all chains
_SAVED_FIELDS = [field.name for field in dataclasses.fields(FittedModel) if field.metadata.get("is_saved", True)]


class ModelFileError(DataError):
    """A file that is not a model file or cannot be read. The message says where the problem is.

    >>> load("nowhere.json")
    Traceback (most recent call last):
        ...
    autodiff_cli.training.result.fitted_model.ModelFileError: nowhere.json: no such file or directory
    """


def load(path: str | os.PathLike[str]) -> FittedModel:
    """Return the fitted model in a file that `save` wrote.

    Raises:
        ModelFileError: if the file does not exist or is not a valid model file.

    >>> import autodiff_cli as ad, os, tempfile
    >>> fit = ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.json")
    ...     fit.save(path)
    ...     load(path).probabilities({"x": [4, 5]})
    array([ 8., 10.])
    """
    try:
        if Path(path).is_char_device():  # it may have no end
            raise _InvalidModelFile("a device, not a model file")
        return _fit_from_document(_parse_document(Path(path).read_bytes()))
    except OSError as error:
        raise ModelFileError(f"{path}: {error_reason(error)}") from None
    except (_InvalidModelFile, ExpressionError, OptionError) as error:
        raise ModelFileError(f"{path}: {error}") from None


class _InvalidModelFile(Exception):  # noqa: N818 - it becomes a ModelFileError, which adds the path
    """The reason why a file is not a valid model file."""


def _parse_document(content: bytes) -> dict[str, Any]:
    """Return the JSON document of a model file."""
    try:
        document = records.parse_json(content.decode("utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise _InvalidModelFile("not a model file, or a damaged one; `train --save MODEL.json` writes one") from None
    except ValueError as error:  # a key occurs twice
        raise _InvalidModelFile(f"damaged, or edited: {error}") from None
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise _InvalidModelFile(f'not a model file: it lacks `"format": "{_FORMAT}"`; write one with `train --save`')
    version = document.get("version")
    if version != _FORMAT_VERSION:
        written_by = f" (written by autodiff {by})" if isinstance(by := document.get("autodiff"), str) else ""
        raise _InvalidModelFile(
            f"the file has version {_abbreviated_json(version)} of the format{written_by}, but this release reads "
            f"version {_FORMAT_VERSION}: update autodiff, or fit the model again"
        )
    if _read_value(document, "checksum", str) != _checksum(document):
        raise _InvalidModelFile("damaged, or edited: its content does not match its checksum; fit the model again")
    return document


def _fit_from_document(document: dict[str, Any]) -> FittedModel:
    """Return the fitted model of a document."""
    types = get_type_hints(FittedModel) | {"correlation": Array | None}  # None for one that is unknown
    attributes = {name: _read_value(document, name, types[name]) for name in _SAVED_FIELDS}
    values = {**attributes["parameters"], **attributes["fixed"]}
    model = _model_from_document(attributes, _read_value(document, "columns", list[str]), values)
    layout = ParameterLayout([*attributes["parameters"]], model.shapes)
    if attributes["correlation"] is None:
        attributes["correlation"] = np.broadcast_to(np.nan, (layout.size, layout.size))
    element_names = layout.element_names if layout.size <= MAX_COVARIANCE_SIZE else ()
    fit = FittedModel(**attributes, element_names=element_names, parsed_model=model)
    for name, is_possible in _possible_fields(fit, layout):
        if not is_possible:
            raise _impossible_value(document, name)
    return fit


def _possible_fields(fit: FittedModel, layout: ParameterLayout) -> Iterator[tuple[str, bool]]:
    """Yield the name of each field that must match others or has a range, and whether it does."""
    shapes = {**layout.shapes, **dict.fromkeys(fit.derived, ())}
    ends = [(name, end) for each in fit.intervals.values() for name, pair in each.items() for end in pair or ()]
    levels = {each.parameter: {*map(str, fit.levels[each.column])} for each in fit.parsed_model.effects.values()}
    heads = {np.shape(values)[:2] for values in fit.draws.values()}
    drawn = shapes if fit.definition == DRAWN else layout.shapes if fit.draws else ()
    labels = len(fit.classes or ())

    yield "rows", fit.rows > 0
    yield "stderr", fit.stderr.keys() == layout.shapes.keys() and _have_shapes(fit.stderr.items(), shapes)
    yield "correlation", np.shape(fit.correlation) == (layout.size, layout.size)
    factor = np.zeros((0, layout.size)) if fit.partial_factor is None else fit.partial_factor
    yield "partial_factor", np.shape(factor)[1:] == (layout.size,) and bool(np.isfinite(factor).all())
    yield "intervals", _have_shapes(ends, shapes)
    yield "bounds", fit.bounds.keys() <= layout.shapes.keys()
    yield "classes", fit.classes is None or fit.parsed_model.class_column is not None
    yield "confusion", fit.confusion is None or np.shape(fit.confusion) == (labels, labels)
    yield "draws", len(heads) <= 1 and {*map(len, heads)} <= {2} and fit.draws.keys() >= {*drawn}
    yield "draws", all(np.shape(values)[2:] == shapes.get(name, ()) for name, values in fit.draws.items())
    yield "confidence_level", 0 < fit.confidence_level < 1
    yield "loss_name", fit.loss_name in {"", *LOSSES}
    yield "scale", fit.loss_name != "negative_binomial" or (fit.scale or 0.0) > 0
    yield "null_test", fit.null_test is None or len(fit.null_test.dof) == (2 if fit.null_test.name == "F" else 1)
    for kind in ("modes", "errors"):
        yield "random_effects", {k: {*getattr(each, kind)} for k, each in fit.random_effects.items()} == levels


def _have_shapes(values: Iterable[tuple[str, Any]], shapes: Mapping[str, Shape]) -> bool:
    """Whether all named values, except None, have the shape of their name."""
    return all(name in shapes and (value is None or np.shape(value) == shapes[name]) for name, value in values)


def _checksum(document: Mapping[str, Any]) -> str:
    """Return the checksum of the keys and values of a document, however it is indented."""
    content = json.dumps({name: value for name, value in document.items() if name != "checksum"})
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


def _model_from_document(attributes: Mapping[str, Any], columns: Sequence[str], values: Mapping[str, Any]) -> Model:
    """Return the model of a document. Raises ExpressionError if its text or shapes are invalid."""
    classes, effects = attributes["classes"], attributes["random_effects"]
    model = Model.parse(attributes["model"], columns, (*values, *effects), is_saved=True)
    if not all(map(attributes["levels"].get, model.level_columns)):
        raise _InvalidModelFile("its `levels` do not match its model")
    priors = parse_priors(attributes["priors"] | {name: effect.distribution for name, effect in effects.items()})
    arguments = {other for prior in priors.values() for other in prior.parameters}
    own = [name for name in values if name in arguments or (effects and name.startswith("sigma"))]
    model = model.with_levels(attributes["levels"], effects).with_parameters(own)
    if {*model.parameters} != {*values} or {*model.columns} != {*columns}:
        raise _InvalidModelFile("its parameters and columns do not match its model")
    return model.resolve(values, None if classes is None else len(classes))


def _read_value(document: Mapping[str, Any], name: str, kind: Any) -> Any:
    """Return the value of a key of a document as a type."""
    if name not in document:
        raise _InvalidModelFile(f"it lacks `{name}`")
    try:
        return records.read_json(kind, document[name])
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError):
        raise _impossible_value(document, name) from None


def _impossible_value(document: Mapping[str, Any], name: str) -> _InvalidModelFile:
    """Return the error for a value of a document that is of another type, out of range or at odds with others."""
    return _InvalidModelFile(f"`{name}` cannot be {_abbreviated_json(document[name])}")


def _abbreviated_json(value: Any) -> str:
    """Return a value as JSON of at most 40 characters."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:39]}…"

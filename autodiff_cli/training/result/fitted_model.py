"""The prediction of a fitted model as a graph, for those who take it elsewhere.

What a fit is: a record of what was found, that predicts and can be kept.

Reading fitted models from disk: see `model_format`.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.array_types import Array
from autodiff_cli.backends.evaluation import evaluate
from autodiff_cli.data.table import DataError, float_array, named_columns
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Shape
from autodiff_cli.language.errors import ExpressionError, MissingValueError, format_names
from autodiff_cli.language.lexer import canonical_name
from autodiff_cli.options import OptionError
from autodiff_cli.training.objective.loading import Classes, check_labels, indicator_columns
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.objective.parameters import ParameterLayout
from autodiff_cli.training.options import check_confidence_level
from autodiff_cli.training.result.diagnosis import Diagnosis
from autodiff_cli.training.result.goodness import GoodnessOfFit, normal_quantile, student_quantile
from autodiff_cli.training.result.model_format import (
    MODEL_FORMAT,
    MODEL_FORMAT_VERSION,
    VALUE_READERS,
    FitSettings,
    ValueReader,
    read_texts,
    save_model,
)
from autodiff_cli.training.result.prediction import Bands, FitPlot, prediction_bands
from autodiff_cli.training.result.statistics import MAX_COVARIANCE_SIZE, correlations


class PredictionGraph(NamedTuple):
    """The prediction of a row as a graph.

    Attributes:
        output: the node of the prediction.
        shapes: the shapes of the leaves that are arrays.
        values: the values of the parameters, by name.
        columns: the leaves that are columns.
        matches: the leaves that are 1 where a column has a certain label, else 0.
    """

    output: Node
    shapes: dict[str, Shape]
    values: dict[str, Any]
    columns: tuple[str, ...]
    matches: tuple[str, ...]


def prediction_graph(model: Model, values: Mapping[str, Any]) -> PredictionGraph:
    """Return the prediction of a model with fitted parameters."""
    program = model.program
    shapes = {name: shape for name, shape in model.shapes.items() if name in program.leaves}
    return PredictionGraph(program.output, shapes, dict(values), model.predictors(), tuple(model.matches))


@dataclass(frozen=True, slots=True)
class FittedModel:
    """A fitted model: its parameters with their uncertainty, how well it fits, and how it was fitted.

    Attributes:
        model: the text of the model.
        rows: the number of rows that the model was fitted to.
        parameters: the fitted values by name, as floats and arrays.
        fixed: the values of the parameters that were fixed.
        stderr: the standard error of each parameter, as `definition` describes; None if it is unknown (`warnings` has
            the reason). For an array it is an array, with nan for unknown elements.
        loss: the loss over all rows, a (weighted) mean.
        rss: the (weighted) sum of squared residuals; None for a model without `~`.
        dof: the number of rows minus the number of fitted parameters.
        r_squared: the share of the variation of the target that the model explains. It is nan if the target does not
            vary, and None without `~`.
        optimizer: the method that was used.
        epochs: the number of epochs or iterations.
        converged: whether the method stopped at a solution.
        failure: why the method stopped, if it neither converged nor reached the requested number of epochs; otherwise
            empty.
        history: `{"epoch": k, "loss": …}` for the start (0) and each epoch, with `"validation_loss"` if rows were held
            out.
        covariance: the covariance of the estimates, of shape (P, P), in the order of `parameters` with arrays row by
            row; nan where it is unknown.
        element_names: the names of its rows, such as `a` and `W[0, 1]`; empty if there are very many.
        definition: a description of the standard errors.
        formula: the prediction with numbers for the parameters, in the expression language; empty if there are very
            many.
        warnings: sentences on what limits how the results may be used.
        notes: sentences on choices that were made during the fit, such as its starting values.
        classes: the sorted labels of a classifier; otherwise None, like the next two.
        accuracy: the share of rows whose class is predicted correctly.
        confusion: the number of rows of each class (row of the matrix) that are predicted as each class (column).
        validation_rows: the number of rows that were held out.
        validation_loss, validation_accuracy: the loss and accuracy for these rows; None if there are none.
        loss_name: the name of the loss in `losses.LOSSES`; empty if the model is its own loss, None if a file does not
            say.
        huber_delta: the threshold of the Huber loss; None for its default.
        figures: the goodness of fit. The most frequent figures are attributes of the fit, too.
        interval_dof: the degrees of freedom of Student's t distribution for intervals; None for the normal
            distribution.
        derived: the derived quantities by name: `{"value": …, "stderr": …}`, with None for an unknown error.
        intervals: the intervals under `profile` and `bootstrap`, by parameter, if they were requested: pairs, of arrays
            for arrays. None if unknown; infinite where the data set no limit.
        bounds: the lower and upper bound of each bounded parameter.
        confidence_level: the probability of the intervals in reports.
        penalty: the value of the penalties `l1` and `l2`, which are part of `loss`; None without one.
        scale: the residual scale of a robust loss; None for other losses.
        terms: the settings of the fit that matter for predictions.
        levels: the sorted levels of each column that selects parameters (`a[group]`).
        plot_data: the data of the plots, if they were requested.
        diagnosis: the diagnosis of a network, if it was requested.
        origins: the time from which dates and times are counted in seconds, by column, in ISO 8601.

    >>> import autodiff_cli as ad
    >>> found = ad.fit("y ~ a*x + b", {"x": [0, 1, 2, 3], "y": [1, 3, 5, 7.5]})
    >>> {name: round(value, 6) for name, value in found.parameters.items()}
    {'a': 2.15, 'b': 0.9}
    >>> found.converged, found.dof, round(found.rss, 6)
    (True, 2, 0.075)
    """

    model: str
    rows: int
    parameters: dict[str, Any]
    fixed: dict[str, Any]
    stderr: dict[str, Any]
    loss: float
    rss: float | None
    dof: int
    r_squared: float | None
    optimizer: str
    epochs: int
    converged: bool
    failure: str
    history: list[dict[str, float]]
    covariance: Array
    definition: str
    formula: str
    warnings: list[str]
    _parsed_model: Model = field(repr=False)
    notes: list[str] = field(default_factory=list)
    element_names: tuple[str, ...] = ()
    classes: Classes | None = None
    accuracy: float | None = None
    confusion: NDArray[np.int64] | None = None
    validation_rows: int = 0
    validation_loss: float | None = None
    validation_accuracy: float | None = None
    diagnosis: Diagnosis | None = None
    plot_data: FitPlot | None = None
    scale: float | None = None
    loss_name: str | None = None
    huber_delta: float | None = None
    penalty: float | None = None
    figures: GoodnessOfFit = field(default_factory=GoodnessOfFit)
    interval_dof: int | None = None
    confidence_level: float = 0.95
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    intervals: dict[str, dict[str, Any]] = field(default_factory=dict)
    derived: dict[str, dict[str, float | None]] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    terms: FitSettings = field(default_factory=FitSettings)
    levels: dict[str, Sequence[Any]] = field(default_factory=dict)

    def origin_datetimes(self) -> dict[str, datetime]:
        """Return `origins` as datetimes."""
        return {name: datetime.fromisoformat(text) for name, text in self.origins.items()}

    @property
    def correlation(self) -> Array:
        """The correlation matrix of the estimates, of shape (P, P), in the order of `covariance`.

        >>> import autodiff_cli as ad
        >>> fit = ad.fit("y ~ a + b*x", {"x": [1, 2, 3, 4], "y": [1, 3, 4, 8]})
        >>> fit.correlation.round(3).tolist()
        [[1.0, -0.913], [-0.913, 1.0]]
        """
        return correlations(self.covariance)

    def confidence(self, level: float | None = None) -> dict[str, Any]:
        """Return the confidence interval of each parameter as a pair, of arrays for arrays; None if its error is
        unknown.

        Args:
            level: the probability, such as 0.95 or 95 (per cent); by default that of the fit.

        Raises:
            OptionError: for an invalid level.

        >>> import autodiff_cli as ad
        >>> fit = ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6.6]})
        >>> [round(end, 3) for end in fit.confidence(0.95)["a"]]
        [1.837, 2.42]
        """
        half_width = self.quantile(level)
        return {
            name: None
            if error is None
            else (self.parameters[name] - half_width * error, self.parameters[name] + half_width * error)
            for name, error in self.stderr.items()
        }

    @property
    def covariance_on_bounds(self) -> Array:
        """The covariance given that parameters on a bound are fixed there: their variance is 0 instead of nan, as the
        errors of the other parameters assume.
        """
        on_bound = np.concatenate(
            [np.isin(np.ravel(value), self.bounds.get(name, ())) for name, value in self.parameters.items()]
        )
        covariance = self.covariance.copy()
        covariance[on_bound, :] = 0.0
        covariance[:, on_bound] = 0.0
        return covariance

    def quantile(self, level: float | None = None) -> float:
        """Return the half-width of confidence intervals in standard errors; nan if there are none.

        Args:
            level: see `confidence`.
        """
        chosen = self.confidence_level if level is None else check_confidence_level(level)
        if self.interval_dof is None:
            return normal_quantile(chosen)
        return student_quantile(chosen, self.interval_dof) if self.interval_dof > 0 else math.nan

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
    def rmse(self) -> float | None:
        """The root mean square of the residuals."""
        return self.figures.rmse

    @property
    def adjusted_r_squared(self) -> float | None:
        """R² with variances in place of sums of squares."""
        return self.figures.adjusted_r_squared

    @property
    def reduced_chi_squared(self) -> float | None:
        """The residual sum of squares divided by the degrees of freedom."""
        return self.figures.reduced_chi_squared

    @property
    def log_likelihood(self) -> float | None:
        """The log-likelihood of the data."""
        return self.figures.log_likelihood

    @property
    def deviance(self) -> float | None:
        """Twice the difference in log-likelihood to a perfect fit."""
        return self.figures.deviance

    @property
    def aic(self) -> float | None:
        """The Akaike information criterion."""
        return self.figures.aic

    @property
    def aicc(self) -> float | None:
        """The Akaike information criterion with the correction for few rows."""
        return self.figures.aicc

    @property
    def bic(self) -> float | None:
        """The Bayesian (Schwarz) information criterion."""
        return self.figures.bic

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that the model reads."""
        return self._parsed_model.columns

    @property
    def model_warnings(self) -> tuple[str, ...]:
        """The warnings that are about the text of the model."""
        return self._parsed_model.warnings

    @property
    def predictors(self) -> tuple[str, ...]:
        """The columns that the prediction reads."""
        return self._parsed_model.predictors()

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns that the model reads as labels."""
        return self._parsed_model.label_columns

    @property
    def targets(self) -> tuple[str, ...]:
        """The text left of `~`, one for each component of the target."""
        return self._parsed_model.targets()

    @property
    def prediction(self) -> PredictionGraph:
        """The prediction of a row as a graph."""
        return prediction_graph(self._parsed_model, {**self.parameters, **self.fixed})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, which `load` reads. Raises OSError if that fails; an existing file is then
        unchanged.

        >>> import autodiff_cli as ad, os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ad.fit("y ~ a*x", {"x": [1, 2], "y": [2, 4]}).save(os.path.join(folder, "model.json"))
        ...     os.listdir(folder)
        ['model.json']
        """
        save_model(self, path)

    @overload
    def predict(self, data: Mapping[str, ArrayLike], interval: None = None) -> NDArray[Any]: ...

    @overload
    def predict(self, data: Mapping[str, ArrayLike], interval: float) -> Bands: ...

    def predict(self, data: Mapping[str, ArrayLike], interval: float | None = None) -> NDArray[Any] | Bands:
        """Return the predictions for new rows, of shape (rows,), or (rows, n) for a target of n components.

        A classifier returns the label of the most probable class; `probabilities` returns the numbers.

        Args:
            data: an array for each column that the prediction reads; other columns are ignored. A prediction that reads
                none is repeated for each row of the first column.
            interval: the probability of confidence and prediction bands, such as 0.95; the result is then a `Bands`. If
                the fit weighted the rows, prediction bands need the column of weights or sigmas, too.

        Raises:
            MissingValueError: if a column is missing.
            OptionError: if there is no interval, as for classifiers and fits without standard errors.

        >>> import autodiff_cli as ad
        >>> found = ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4.1, 6]})
        >>> found.predict({"x": [10, 20]}).round(3)
        array([20.143, 40.286])
        >>> found.predict({"x": [10]}, interval=0.95).confidence_low.round(3)
        array([19.456])
        """
        if interval is not None:
            return prediction_bands(
                self, self._parsed_model, self._leaf_values(data, shared=True), self._relative_sigma(data), interval
            )
        predicted = self.probabilities(data)
        return predicted if self.classes is None else np.array(self.classes)[np.argmax(predicted, axis=-1)]

    def probabilities(self, data: Mapping[str, ArrayLike]) -> Array:
        """Return the predictions as numbers: for a classifier the probability of each class, of shape (rows, classes).

        Raises:
            MissingValueError: if a column is missing.

        >>> import autodiff_cli as ad
        >>> found = ad.fit("kind ~ softmax(dense(x, 2))", {"x": [0, 1, 2, 3], "kind": ["a", "b", "a", "b"]})
        >>> found.probabilities({"x": [0, 1, 2]}).shape
        (3, 2)
        """
        values = self._leaf_values(data)
        prediction = evaluate([self._parsed_model.program.output], values, self._parsed_model.shapes)[0]
        if self.predictors:
            return prediction
        return np.full((*_first_column_shape(data), *prediction.shape), prediction)

    def residuals(self, data: Mapping[str, ArrayLike]) -> Array:
        """Return target minus prediction, of the shape of the prediction. The data need the columns of the target, too.

        Raises:
            MissingValueError: if a column is missing.
            OptionError: for a model without a target, and for a classifier.

        >>> import autodiff_cli as ad
        >>> ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6]}).residuals({"x": [10], "y": [21]}).round(9)
        array([1.])
        """
        target = self._parsed_model.program.target
        if target is None or self.classes is not None:
            raise OptionError("there are no residuals: the model needs a numeric target left of `~`")
        names = self._parsed_model.columns
        targets = evaluate([target], self._read_columns(data, names), self._parsed_model.shapes)[0]
        residuals: Array = targets - self.probabilities(data)
        return residuals

    def _leaf_values(self, data: Mapping[str, ArrayLike], *, shared: bool = False) -> dict[str, Any]:
        """Return the value of every leaf of the prediction.

        Args:
            shared: broadcast the columns to one shape with at least one axis, even if none is read.
        """
        columns = self._read_columns(data, self.predictors)
        if shared:
            shape = np.broadcast_shapes(*map(np.shape, columns.values())) if columns else _first_column_shape(data)
            rows = shape or (1,)
            columns = {name: np.broadcast_to(values, rows) for name, values in columns.items()} or {"": np.zeros(rows)}
        return {**self.parameters, **self.fixed, **columns}

    def _read_columns(self, data: Mapping[str, ArrayLike], names: Sequence[str]) -> dict[str, Array]:
        """Return columns of data as floats, and the indicators of their labels. Raises MissingValueError for missing
        columns.
        """
        arrays = {canonical_name(name): values for name, values in named_columns(data).items()}
        missing = [name for name in names if name not in arrays]
        if missing:
            raise MissingValueError(f"no value for {format_names(missing, '`')}")
        columns = {name: float_array(arrays[name], name) for name in names if name in self._parsed_model.numeric}
        matches = {name: match for name, match in self._parsed_model.matches.items() if match.column in names}
        if matches:
            read = {match.column for match in matches.values()}
            labels = {name: check_labels(arrays[name], name, self.levels.get(name)) for name in read}
            columns |= indicator_columns(matches, labels)
        return columns

    def _relative_sigma(self, data: Mapping[str, ArrayLike]) -> Array | float | None:
        """Return the relative standard deviations of rows; see `prediction_bands`."""
        settings = self.terms
        if not settings.weighted:
            return 1.0
        arrays = {canonical_name(name): values for name, values in named_columns(data).items()}
        if settings.weighting_column not in arrays:
            return None
        values = float_array(arrays[settings.weighting_column], settings.weighting_column)
        with np.errstate(all="ignore"):
            return values if settings.sigma is not None else 1 / np.sqrt(values)


def _first_column_shape(data: Mapping[str, ArrayLike]) -> tuple[int, ...]:
    """Return the shape of the first column."""
    return next((np.shape(values) for values in named_columns(data).values()), ())


# --- Model files


class ModelFileError(DataError):
    """A file that is not a model file or cannot be read. The message says where the problem is.

    >>> load("nowhere.json")
    Traceback (most recent call last):
        ...
    autodiff_cli.training.result.fitted_model.ModelFileError: nowhere.json: no such file or directory
    """


def load(path: str | os.PathLike[str]) -> FittedModel:
    """Return the fitted model in a file that `save` wrote, in this release or an earlier one.

    Raises:
        ModelFileError: if the file does not exist or is not a valid model file.

    >>> import autodiff_cli as ad, os, tempfile
    >>> found = ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.json")
    ...     found.save(path)
    ...     load(path).predict({"x": [4, 5]})
    array([ 8., 10.])
    """
    try:
        return _fit_from_document(_parse_document(Path(path).read_bytes()))
    except OSError as error:
        raise ModelFileError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except (_InvalidModelFile, ExpressionError) as error:
        raise ModelFileError(f"{path}: {error}") from None


class _InvalidModelFile(Exception):  # noqa: N818 - it becomes a ModelFileError, which adds the path
    """The reason why a file is not a valid model file."""


def _parse_document(content: bytes) -> dict[str, Any]:
    """Return the JSON document of a model file."""
    try:
        document = json.loads(content.decode("utf-8"), parse_constant=_reject_constant)
    except UnicodeDecodeError as error:
        raise _InvalidModelFile(f"not a model file: byte {error.start} is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        location = f"line {error.lineno}, column {error.colno}"
        raise _InvalidModelFile(f"not a model file, or a damaged one: {error.msg} ({location})") from None
    except (ValueError, RecursionError):
        raise _InvalidModelFile("not a model file, or a damaged one: it has values that no model has") from None
    if not isinstance(document, dict) or document.get("format") != MODEL_FORMAT:
        raise _InvalidModelFile(
            f'not a model file: it lacks `"format": "{MODEL_FORMAT}"`; write one with `train --save`'
        )
    version = document.get("version")
    if type(version) is not int or version < 1:
        raise _InvalidModelFile(f"the version of the format must be a whole number, not {_abbreviated_json(version)}")
    if version > MODEL_FORMAT_VERSION:
        writer = document.get("autodiff")
        written_by = f" (written by autodiff {writer})" if isinstance(writer, str) else ""
        raise _InvalidModelFile(
            f"the file has version {version} of the format{written_by}, but this release reads versions up to "
            f"{MODEL_FORMAT_VERSION}: update autodiff"
        )
    return document


def _reject_constant(name: str) -> None:
    """Raise ValueError for the constants NaN and Infinity, which model files do not use."""
    raise ValueError(name)


def _fit_from_document(document: Mapping[str, Any]) -> FittedModel:
    """Return the fitted model of a document."""
    attributes = {name: _read_value(document, name, read) for name, read in VALUE_READERS.items() if name in document}
    missing = [
        field.name
        for field in dataclasses.fields(FittedModel)
        if _is_required_field(field) and field.name not in attributes
    ]
    if missing:
        raise _InvalidModelFile(f"it lacks {format_names(missing, '`')}")
    values = {**attributes["parameters"], **attributes["fixed"]}
    model = _model_from_document(attributes, _read_value(document, "columns", read_texts), values)
    layout = ParameterLayout([*attributes["parameters"]], model.shapes)
    shape = layout.size, layout.size
    if attributes["covariance"] is None:
        attributes["covariance"] = np.broadcast_to(np.nan, shape)
    if {*attributes["stderr"]} != {*attributes["parameters"]} or np.shape(attributes["covariance"]) != shape:
        raise _InvalidModelFile("its standard errors do not match its parameters")
    return FittedModel(
        **attributes,
        element_names=layout.element_names if layout.size <= MAX_COVARIANCE_SIZE else (),
        _parsed_model=model,
    )


def _model_from_document(attributes: Mapping[str, Any], columns: Sequence[str], values: Mapping[str, Any]) -> Model:
    """Return the model of a document. Raises ExpressionError if its text or shapes are invalid."""
    model = Model.parse(attributes["model"], columns, values, is_saved=True)
    levels = attributes.get("levels", {})
    if {*model.level_columns} != {*levels}:
        raise _InvalidModelFile("its levels do not match its model")
    model = model.with_levels(levels)
    if {*model.parameters} != {*values} or {*model.columns} != {*columns}:
        raise _InvalidModelFile("its parameters and columns do not match its model")
    classes = attributes.get("classes")
    if (classes is None) is not (model.class_column is None):
        raise _InvalidModelFile(
            "it has classes, but its model is not a classifier" if classes else "it lacks `classes`"
        )
    return model.resolve(values, None if classes is None else len(classes))


def _is_required_field(field: dataclasses.Field[Any]) -> bool:
    """Return whether a model file must have a field."""
    no_default = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    return no_default and not field.name.startswith("_")


def _read_value(document: Mapping[str, Any], name: str, read: ValueReader) -> Any:
    """Return the value of a key of a document."""
    try:
        return read(document[name])
    except KeyError:
        raise _InvalidModelFile(f"it lacks `{name}`") from None
    except (TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise _InvalidModelFile(f"`{name}` cannot be {_abbreviated_json(document[name])}") from None


def _abbreviated_json(value: Any) -> str:
    """Return a value as JSON of at most 40 characters."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:39]}…"

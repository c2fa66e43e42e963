"""What a fit is: a record of what was found, that predicts and can be kept."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.backends.evaluate import evaluate
from autodiff_cli.data.frames import named_columns
from autodiff_cli.data.table import floats
from autodiff_cli.language.errors import MissingValueError, in_brief
from autodiff_cli.language.lexer import canonical
from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.levels.indicators import indicators, labelled
from autodiff_cli.training.objective.labels import Classes
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.options import checked_level
from autodiff_cli.training.prediction.bands import Bands, bands
from autodiff_cli.training.prediction.graph import PredictionGraph, prediction_graph
from autodiff_cli.training.prediction.picture import Picture
from autodiff_cli.training.prediction.terms import Terms
from autodiff_cli.training.result.covariance import correlations
from autodiff_cli.training.result.diagnosis import Diagnosis
from autodiff_cli.training.result.distributions import normal_quantile, student_quantile
from autodiff_cli.training.result.figures import Figures
from autodiff_cli.training.result.model_format import save

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FittedModel:
    """A fitted model.

    Attributes:
        model: its text.
        rows: how many rows were used.
        parameters: the fitted values by name, floats and arrays; `fixed` are those that kept theirs.
        stderr: the standard error of each, as `definition` says; None where it is not known (`warnings` say why). Of an
            array it is an array, in which nan stands for single numbers that are not known.
        loss: the chosen loss over all rows, a (weighted) mean; `start_loss` is that at the start.
        rss: the (weighted) sum of squared residuals; None for a model without `~`.
        dof: rows minus fitted parameters.
        r_squared: the share of the target's variation that is explained; nan if it does not vary, None without `~`.
        optimizer: the method that ran.
        epochs: how many it took.
        converged: whether it stopped because nothing more was to gain.
        failure: why it stopped, if that was neither convergence nor the number of epochs asked for; else empty.
        history: `{"epoch": k, "loss": …}` for the start (0) and each epoch, and `"validation_loss"` where rows
            are held out.
        covariance: of shape (P, P), in the order of `parameters`, arrays row by row; nan where it is
            not known.
        numbers: the names of its rows: `a`, `W[0, 1]`; none where there are more than anyone reads.
        definition: what the standard errors are, in words.
        formula: the prediction with numbers for the parameters, in the expression language; empty if these are many.
        warnings: what a reader should know, as sentences.
        classes: of a model that tells classes apart, their labels, sorted; else None, as the next two.
        accuracy: the share of the rows whose class is predicted.
        confusion: how many rows of each class (a row of the table) are taken for which (a column).
        validation_rows: how many more rows were held out.
        validation_loss: the loss over these; None if there are none. `validation_accuracy` likewise.
        loss_name: what a row costs, by the names of `losses.LOSSES`; empty where the model is its own loss, None where
            a file does not say.
        huber_delta: where the loss huber bends; None for the usual place.
        figures: of the fit as a whole, see `Figures`; those that are often asked for are attributes too.
        interval_dof: the degrees of freedom of Student's distribution for intervals; None for the normal one.
        derived: the quantities that were asked for, by name: `{"value": …, "stderr": …}`, with None for an error
            that is not known.
        intervals: those that were asked for besides `confidence`, by name, under `profile` and `bootstrap`: pairs, of
            arrays for arrays; None for one that is not known, infinite where the data set no end.
        bounds: the least and the greatest value that parameters could have, where any were given.
        confidence_level: of the intervals that reports show.
        penalty: what the penalties `l1` and `l2` add to `loss`; None without one.
        scale: what a robust loss measures residuals by; None for others.
        terms: what the fit was asked for.
        levels: of each column that parameters have a value for each level of (`a[group]`), sorted.
        picture: what `--plot` shows; None if that was not asked.
        diagnosis: whether a network is healthy; None if that was not asked.
        origins: by column, the moment from which its dates and times are counted in seconds, in the form of ISO 8601.

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
    _read: Model = field(repr=False)
    numbers: tuple[str, ...] = ()
    classes: Classes | None = None
    accuracy: float | None = None
    confusion: NDArray[np.int64] | None = None
    validation_rows: int = 0
    validation_loss: float | None = None
    validation_accuracy: float | None = None
    diagnosis: Diagnosis | None = None
    picture: Picture | None = None
    scale: float | None = None
    loss_name: str | None = None
    huber_delta: float | None = None
    penalty: float | None = None
    figures: Figures = field(default_factory=Figures)
    interval_dof: int | None = None
    confidence_level: float = 0.95
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    intervals: dict[str, dict[str, Any]] = field(default_factory=dict)
    derived: dict[str, dict[str, float | None]] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    terms: Terms = field(default_factory=Terms)
    levels: dict[str, Sequence[Any]] = field(default_factory=dict)

    def moments(self) -> dict[str, datetime]:
        """The `origins` as moments."""
        return {name: datetime.fromisoformat(text) for name, text in self.origins.items()}

    @property
    def correlation(self) -> Array:
        """The correlations of the estimates, of shape (P, P), in the order of `covariance`.

        >>> import autodiff_cli as ad
        >>> fit = ad.fit("y ~ a + b*x", {"x": [1, 2, 3, 4], "y": [1, 3, 4, 8]})
        >>> fit.correlation.round(3).tolist()
        [[1.0, -0.913], [-0.913, 1.0]]
        """
        return correlations(self.covariance)

    def confidence(self, level: float | None = None) -> dict[str, Any]:
        """The interval of each parameter that holds the true value with this probability, as a pair; None where its
        error is not known. Of an array it is a pair of arrays.

        Args:
            level: 0.95 or 95 per cent, say; by default that of the fit.

        Raises:
            OptionError: for what is no level.

        >>> import autodiff_cli as ad
        >>> fit = ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6.6]})
        >>> [round(end, 3) for end in fit.confidence(0.95)["a"]]
        [1.837, 2.42]
        """
        width = self.quantile(level)
        return {
            name: None
            if error is None
            else (self.parameters[name] - width * error, self.parameters[name] + width * error)
            for name, error in self.stderr.items()
        }

    @property
    def held_covariance(self) -> Array:
        """The covariance with the numbers that ended on a bound held there, as the errors of the others have them: they
        vary by 0, and not by nan."""
        held = np.concatenate(
            [np.isin(np.ravel(value), self.bounds.get(name, ())) for name, value in self.parameters.items()]
        )
        found = self.covariance.copy()
        found[held, :] = 0.0
        found[:, held] = 0.0
        return found

    def quantile(self, level: float | None = None) -> float:
        """The half-width of intervals in standard errors; nan where there are none.

        Args:
            level: see `confidence`.
        """
        chosen = self.confidence_level if level is None else checked_level(level)
        if self.interval_dof is None:
            return normal_quantile(chosen)
        return student_quantile(chosen, self.interval_dof) if self.interval_dof > 0 else math.nan

    @property
    def on_bounds(self) -> tuple[str, ...]:
        """The parameters that ended on a bound, with any of their numbers.

        >>> import autodiff_cli as ad
        >>> ad.fit("y ~ a + b*x", {"x": [1, 2, 3], "y": [3, 2, 1.5]}, bounds={"b": (0, None)}).on_bounds
        ('b',)
        """
        values = {name: np.asarray(self.parameters[name]) for name in self.bounds}
        return tuple(name for name, (low, high) in self.bounds.items() if np.isin(values[name], (low, high)).any())

    @property
    def rmse(self) -> float | None:
        """The root of the mean square of the residuals."""
        return self.figures.rmse

    @property
    def adjusted_r_squared(self) -> float | None:
        """R² with variances in the place of sums of squares."""
        return self.figures.adjusted_r_squared

    @property
    def reduced_chi_squared(self) -> float | None:
        """rss/dof."""
        return self.figures.reduced_chi_squared

    @property
    def log_likelihood(self) -> float | None:
        """The logarithm of how likely the data are."""
        return self.figures.log_likelihood

    @property
    def deviance(self) -> float | None:
        """Twice what a perfect fit's log-likelihood is more."""
        return self.figures.deviance

    @property
    def aic(self) -> float | None:
        """Akaike's criterion."""
        return self.figures.aic

    @property
    def aicc(self) -> float | None:
        """The same, corrected for few rows."""
        return self.figures.aicc

    @property
    def bic(self) -> float | None:
        """Schwarz's criterion."""
        return self.figures.bic

    @property
    def columns(self) -> tuple[str, ...]:
        """The names in the model that are columns of the data."""
        return self._read.columns

    @property
    def doubts(self) -> tuple[str, ...]:
        """Those of the warnings that are about the text of the model."""
        return self._read.warnings

    @property
    def predictors(self) -> tuple[str, ...]:
        """The columns that the prediction reads."""
        return self._read.predictors()

    @property
    def labelled(self) -> tuple[str, ...]:
        """The columns that the model reads by their labels."""
        return self._read.labelled

    @property
    def targets(self) -> tuple[str, ...]:
        """What stands left of `~`, as text: each part of an array by itself."""
        return self._read.targets()

    @property
    def prediction(self) -> PredictionGraph:
        """The prediction of a row as a graph."""
        return prediction_graph(self._read, {**self.parameters, **self.fixed})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, which `load` reads. Raises OSError if that fails; an older file then stands.

        >>> import autodiff_cli as ad, os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ad.fit("y ~ a*x", {"x": [1, 2], "y": [2, 4]}).save(os.path.join(folder, "model.json"))
        ...     os.listdir(folder)
        ['model.json']
        """
        save(self, path)

    @overload
    def predict(self, data: Mapping[str, ArrayLike], interval: None = None) -> NDArray[Any]: ...

    @overload
    def predict(self, data: Mapping[str, ArrayLike], interval: float) -> Bands: ...

    def predict(self, data: Mapping[str, ArrayLike], interval: float | None = None) -> NDArray[Any] | Bands:
        """The model's prediction for new rows: numbers, of shape (rows,), or (rows, n) for a target of n components.

        A model that tells classes apart gives the label of the most probable one; `probabilities` has the numbers.

        Args:
            data: an array for each column that the prediction reads; others may be there too. A prediction that reads
                none is repeated for each row of the first.
            interval: the probability with which bands are to hold what they are about, 0.95 say; then the result is a
                `Bands`. Where the fit weighed rows, prediction bands need its column of weights or sigmas too.

        Raises:
            MissingValueError: if a column is not there.
            OptionError: if there is no interval: for classes, and for fits without standard errors.

        >>> import autodiff_cli as ad
        >>> found = ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4.1, 6]})
        >>> found.predict({"x": [10, 20]}).round(3)
        array([20.143, 40.286])
        >>> found.predict({"x": [10]}, interval=0.95).confidence_low.round(3)
        array([19.456])
        """
        if interval is not None:
            return bands(self, self._read, self._point(data, shared=True), self._spread(data), interval)
        predicted = self.probabilities(data)
        return predicted if self.classes is None else np.array(self.classes)[np.argmax(predicted, axis=-1)]

    def probabilities(self, data: Mapping[str, ArrayLike]) -> Array:
        """The same as numbers: for classes, the probability of each, of shape (rows, classes).

        Raises as `predict` does.

        >>> import autodiff_cli as ad
        >>> found = ad.fit("kind ~ softmax(dense(x, 2))", {"x": [0, 1, 2, 3], "kind": ["a", "b", "a", "b"]})
        >>> found.probabilities({"x": [0, 1, 2]}).shape
        (3, 2)
        """
        values = self._point(data)
        prediction = evaluate([self._read.program.output], values, self._read.shapes)[0]
        if self.predictors:
            return prediction
        return np.full((*_batch(data), *prediction.shape), prediction)

    def residuals(self, data: Mapping[str, ArrayLike]) -> Array:
        """Target minus prediction, of the shape of a prediction. The data have the target's columns too.

        Raises:
            MissingValueError: if a column is not there.
            OptionError: for a model without a target, and for classes.

        >>> import autodiff_cli as ad
        >>> ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6]}).residuals({"x": [10], "y": [21]}).round(9)
        array([1.])
        """
        target = self._read.program.target
        if target is None or self.classes is not None:
            raise OptionError("there are no residuals: they are a target, left of `~`, minus a predicted number")
        names = self._read.columns
        found = evaluate([target], self._columns(data, names), self._read.shapes)[0]
        residuals: Array = found - self.probabilities(data)
        return residuals

    def _point(self, data: Mapping[str, ArrayLike], *, shared: bool = False) -> dict[str, Any]:
        """The value of every leaf of the prediction.

        Args:
            shared: bring columns to one shape, of one axis at least, also where none is read.
        """
        columns = self._columns(data, self.predictors)
        if shared:
            shape = np.broadcast_shapes(*map(np.shape, columns.values())) if columns else _batch(data)
            rows = shape or (1,)
            columns = {name: np.broadcast_to(values, rows) for name, values in columns.items()} or {"": np.zeros(rows)}
        return {**self.parameters, **self.fixed, **columns}

    def _columns(self, data: Mapping[str, ArrayLike], names: Sequence[str]) -> dict[str, Array]:
        given = {canonical(name): values for name, values in named_columns(data).items()}
        missing = [name for name in names if name not in given]
        if missing:
            raise MissingValueError(f"no value for {in_brief(missing, '`')}")
        columns = {name: floats(given[name], name) for name in names if name in self._read.numeric}
        matches = {name: match for name, match in self._read.matches.items() if match.column in names}
        if matches:
            read = {match.column for match in matches.values()}
            labels = {name: labelled(given[name], name, self.levels.get(name)) for name in read}
            columns |= indicators(matches, labels)
        return columns

    def _spread(self, data: Mapping[str, ArrayLike]) -> Array | float | None:
        """See `bands`."""
        terms = self.terms
        if not terms.weighted:
            return 1.0
        given = {canonical(name): values for name, values in named_columns(data).items()}
        if terms.weighing not in given:
            return None
        values = floats(given[terms.weighing], terms.weighing)
        with np.errstate(all="ignore"):
            return values if terms.sigma is not None else 1 / np.sqrt(values)


def _batch(data: Mapping[str, ArrayLike]) -> tuple[int, ...]:
    """The shape of the first column."""
    return next((np.shape(values) for values in named_columns(data).values()), ())

"""What a fit is: a record of what was found, that predicts and can be kept."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.backends.evaluate import evaluate
from autodiff_cli.language.errors import MissingValueError, in_brief
from autodiff_cli.language.lexer import canonical
from autodiff_cli.training.objective.labels import Classes
from autodiff_cli.training.objective.model import Model
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
        bounds: the least and the greatest value that parameters could have, where any were given.
        confidence_level: of the intervals that reports show.
        scale: what a robust loss measures residuals by; None for others.
        diagnosis: whether a network is healthy; None if that was not asked.

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
    scale: float | None = None
    loss_name: str | None = None
    huber_delta: float | None = None
    figures: Figures = field(default_factory=Figures)
    interval_dof: int | None = None
    confidence_level: float = 0.95
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    derived: dict[str, dict[str, float | None]] = field(default_factory=dict)

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
            level: between 0 and 1; by default that of the fit.

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

    def quantile(self, level: float | None = None) -> float:
        """The half-width of intervals in standard errors; nan where there are none.

        Args:
            level: between 0 and 1; by default that of the fit.
        """
        chosen = self.confidence_level if level is None else level
        if not 0 < chosen < 1:
            raise ValueError(f"a level of confidence lies between 0 and 1, not at {chosen:g}")
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
    def targets(self) -> tuple[str, ...]:
        """What stands left of `~`, as text: each part of an array by itself."""
        return self._read.targets()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, which `load` reads. Raises OSError if that fails; an older file then stands.

        >>> import autodiff_cli as ad, os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ad.fit("y ~ a*x", {"x": [1, 2], "y": [2, 4]}).save(os.path.join(folder, "model.json"))
        ...     os.listdir(folder)
        ['model.json']
        """
        save(self, path)

    def predict(self, data: Mapping[str, ArrayLike]) -> NDArray[Any]:
        """The model's prediction for new rows: numbers, of shape (rows,), or (rows, n) for a target of n components.

        A model that tells classes apart gives the label of the most probable one; `probabilities` has the numbers.

        Args:
            data: an array for each column that the prediction reads; others may be there too. A prediction that reads
                none is repeated for each row of the first.

        Raises:
            MissingValueError: if one of them is not there.

        >>> import autodiff_cli as ad
        >>> ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6]}).predict({"x": [10, 20]})
        array([20., 40.])
        """
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
        given = {canonical(str(name)): data[name] for name in data.keys()}  # noqa: SIM118 (data frames)
        columns = self._read.predictors()
        missing = [name for name in columns if name not in given]
        if missing:
            raise MissingValueError(f"no value for {in_brief(missing, '`')}")
        point = {name: np.asarray(given[name], dtype=np.float64) for name in columns}
        values = {**self.parameters, **self.fixed, **point}
        prediction = evaluate([self._read.program.output], values, self._read.shapes)[0]
        if columns:
            return prediction
        return np.full((*np.shape(next(iter(given.values()), ())), *prediction.shape), prediction)

"""Formulas as scikit-learn estimators, for pipelines, grid searches and scoring.

This module needs the extra `sklearn`. In a formula, the columns of an array are `x0`, `x1` and so on; the columns of a
data frame have their own names.

>>> import numpy as np
>>> X = np.linspace(0, 2, 21).reshape(-1, 1)
>>> model = FormulaRegressor("a*exp(-b*x0)").fit(X, 2.5*np.exp(-1.3*X[:, 0]))
>>> round(model.parameters_["b"], 6), round(model.score(X, 2.5*np.exp(-1.3*X[:, 0])), 6)
(1.3, 1.0)
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.fitting import Fit, fit
from autodiff_cli.language import lexer, parser, program
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.ops.structural import softmax
from autodiff_cli.options import option_fields
from autodiff_cli.training.options import FitOptions

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError("autodiff_cli.sklearn needs scikit-learn: pip install scikit-learn") from error

__all__ = ["FormulaClassifier", "FormulaRegressor"]

_RIDGE = 1e-4  # default weight of squared parameters of classifiers, so that separable classes have a finite solution
_PROBABILITY_ERROR = 1e-9  # rounding errors of formulas such as c + (1 - c)*sigmoid(x0)


@dataclasses.dataclass(frozen=True)
class EstimatorOptions(FitOptions):
    """The parameters of an estimator: a formula, and the options of its fit.

    Attributes:
        formula: the prediction in the expression language; statements before it may bind names and declare shapes. By
            default it is linear in all columns.
        random_state: the seed for the random number generator; it replaces `seed`.
    """

    formula: str | None = None
    random_state: int | None = None


def _model(formula: str, target: str) -> str:
    """Return the model that predicts a target by a formula.

    Raises:
        ExpressionError: for a syntax error.

    >>> _model("u = b*x0; a*exp(-u)  # 1; 2", "y"), _model("p = a*x0", "y")
    ('u = b*x0; y ~ a*exp(-u)  # 1; 2', 'p = a*x0\\ny ~ p')
    """
    parsed = parser.parse(formula)
    if parsed.error is not None:
        raise parsed.error
    last = parsed.statements[-1]
    if last.target is not None:
        raise ExpressionError("the formula of an estimator is the prediction alone; leave out `~` and its left side")
    if last.name is not None:
        return f"{formula}\n{target} ~ {lexer.quote_name(parsed.lexemes.words[last.name])}"
    start = min(map(parsed.lexemes.start, last.code.numbers))
    return f"{formula[:start]}{target} ~ {formula[start:]}"


class _FormulaEstimator(BaseEstimator):  # type: ignore[misc]
    """Base class of the estimators. Its parameters are the fields of `EstimatorOptions`."""

    __init__ = EstimatorOptions.__init__  # it sets attributes of any object

    def __post_init__(self) -> None:
        """Check nothing: the constructor of an estimator only sets its parameters, and `fit` checks them."""

    @property
    def parameters_(self) -> dict[str, Any]:
        """The fitted parameters, by name."""
        return self.fit_.parameters

    @property
    def stderr_(self) -> dict[str, Any]:
        """The standard errors of the parameters, by name; None for those that are unknown."""
        return self.fit_.stderr

    def _columns(self, X: NDArray[Any]) -> dict[str, NDArray[Any]]:
        return lexer.canonical_names(zip(self._column_names, X.T.copy(), strict=True))

    def _weighted_rows(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, **checks: Any) -> Any:
        """Return the rows whose weight is not 0, with their targets, and their weights, or None without weights."""
        rows, target = validate_data(self, X, y, dtype=np.float64, **checks)
        names = [f"x{k}" for k in range(rows.shape[1])]
        self._column_names = names if self.formula is None else getattr(self, "feature_names_in_", names)
        weights = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
        is_used = weights > 0
        return rows[is_used], target[is_used], None if sample_weight is None else weights[is_used]

    def _fit_formula(
        self, X: NDArray[Any], target: NDArray[Any], prediction: str, weights: NDArray[Any] | None, **changes: Any
    ) -> None:
        columns = self._columns(X)
        target_name = "target"
        while target_name in columns or target_name in prediction:
            target_name += "_"
        seed = self.seed if self.random_state is None else self.random_state
        options = {name: getattr(self, name) for name in option_fields(FitOptions)} | {"seed": seed} | changes
        if weights is not None:
            if self.weights is not None:
                raise ValueError("give sample_weight or the parameter `weights`, not both")
            options["weights"] = weights
        self.fit_: Fit = fit(_model(prediction, target_name), {**columns, target_name: target}, **options)
        beyond = [name for name in self.fit_.parameters if name[:1] == "x" and name[1:].isdecimal()]
        if beyond and "x0" in columns:
            raise ValueError(f"the formula has `{beyond[0]}`, but the columns are only {', '.join(columns)}")
        self.n_iter_ = self.fit_.epochs
        if not self.fit_.converged:
            warnings.warn("; ".join(self.fit_.warnings) or "the fit did not converge", ConvergenceWarning, stacklevel=3)

    def _probabilities(self, X: ArrayLike) -> NDArray[np.float64]:
        check_is_fitted(self, "fit_")
        return self.fit_.probabilities(self._columns(validate_data(self, X, reset=False, dtype=np.float64)))


class FormulaRegressor(RegressorMixin, _FormulaEstimator):  # type: ignore[misc]
    """A regressor that predicts by a formula; the default formula is linear in all columns, `x0`, `x1` and so on.

    After `fit`, `parameters_` and `stderr_` are the estimates, and `fit_` is the whole result: see `autodiff_cli.Fit`.
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Estimate the parameters of the formula.

        Args:
            X: the columns, of shape (rows, columns), or a data frame.
            y: the target, of shape (rows,).
            sample_weight: weights of the squared residuals, of shape (rows,).

        Raises:
            ValueError: if the formula, the data or the options are invalid. `ExpressionError`, `DataError` and
                `OptionError` are subclasses.
        """
        rows, target, weights = self._weighted_rows(X, y, sample_weight, y_numeric=True)
        formula = self.formula
        if formula is None:
            formula = " + ".join(["intercept", *(f"slope_{k}*x{k}" for k in range(rows.shape[1]))])
        self._fit_formula(rows, np.asarray(target, dtype=np.float64), formula, weights)
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the predictions, of shape (rows,)."""
        return self._probabilities(X)


class FormulaClassifier(ClassifierMixin, _FormulaEstimator):  # type: ignore[misc]
    """A classifier that predicts probabilities by a formula.

    A formula `softmax(…)` gives the probability of each class, in the order of `classes_`. For two classes, a formula
    may also give the probability of the second one, as `sigmoid(a*x0 + b)` does. The default formula is a softmax of
    linear functions of all columns, which are standardised: they have mean 0 and standard deviation 1. Unless `l2` or
    `priors` are given, it is fitted with `l2=1e-4`, so that separable classes have a finite solution.

    After `fit`, `parameters_` and `stderr_` are the estimates, and `fit_` is the whole result: see `autodiff_cli.Fit`.
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Estimate the parameters of the formula.

        Args:
            X: the columns, of shape (rows, columns), or a data frame.
            y: the labels, of shape (rows,).
            sample_weight: weights of the rows' losses, of shape (rows,).

        Raises:
            ValueError: if the formula, the data or the options are invalid, and for fewer than two classes.
        """
        rows, labels, weights = self._weighted_rows(X, y, sample_weight)  # without classes whose weights are all 0
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"a classifier needs at least two classes; here is 1 class, {self.classes_[0]}")
        formula = self.formula
        if formula is None:
            means = np.average(rows, axis=0, weights=weights)
            scales = np.sqrt(np.average((rows - means) ** 2, axis=0, weights=weights))
            numbers = enumerate(zip(means.tolist(), np.where(scales > 0, scales, 1.0).tolist(), strict=True))
            columns = ", ".join(f"(x{k} - ({mean}))/{scale}" for k, (mean, scale) in numbers)
            formula = f"softmax(dense([{columns}], {len(self.classes_)}))"
        is_softmax = program.read(formula).output.op is softmax
        if not is_softmax and len(self.classes_) > 2:
            raise ValueError(f"the formula gives one number for {len(self.classes_)} classes: use softmax(…)")
        loss = self.loss or (None if is_softmax or self.family else "bce")
        l2 = self.l2 or (0.0 if self.formula or self.priors else _RIDGE)
        self._fit_formula(rows, codes if is_softmax else codes.astype(np.float64), formula, weights, loss=loss, l2=l2)
        return self

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each class, of shape (rows, classes), in the order of `classes_`.

        Raises:
            ValueError: if the formula gives other numbers than probabilities, such as nan.
        """
        probabilities = self._probabilities(X)
        if not np.all((probabilities >= -_PROBABILITY_ERROR) & (probabilities <= 1 + _PROBABILITY_ERROR)):
            raise ValueError(
                "the formula gives numbers that are not between 0 and 1, so no probabilities: use sigmoid(…)"
            )
        return probabilities if probabilities.ndim == 2 else np.stack([1 - probabilities, probabilities], axis=1)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of each row."""
        codes = np.argmax(self.predict_proba(X), axis=1)  # raises NotFittedError first
        return np.asarray(self.classes_[codes])

"""Compare models by how well they fit the same rows, for what their parameters cost."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from numpy.typing import ArrayLike

from autodiff_cli.data.table import Dataset
from autodiff_cli.training.comparison.cross_validation import cross_validated
from autodiff_cli.training.comparison.nested import why_not_nested
from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.fit import fitted_objective
from autodiff_cli.training.levels.shared import SharedRows
from autodiff_cli.training.objective.loading import as_dataset
from autodiff_cli.training.objective.losses import LossKind
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.objective.parameters import by_canonical_name
from autodiff_cli.training.options import (
    DataOptions,
    LossOptions,
    MethodOptions,
    Options,
    ParameterOptions,
)
from autodiff_cli.training.result.distributions import chi_squared_tail, fisher_tail
from autodiff_cli.training.result.fit import FittedModel

FOLDS = 5  # of cross-validation, by default


@dataclass(frozen=True, slots=True)
class Compared:
    """A model among others.

    Attributes:
        fit: of the model to all rows.
        k: the parameters that its criteria count: the free ones, and the variance where it is estimated.
        delta: its AICc minus the least of all models; None without one, as the next.
        weight: its share of the evidence, by AICc: Akaike 1978.
        cv_error: the mean loss of rows that are held out, in turn; None if that was not asked, nan if a fit failed.
    """

    fit: FittedModel
    k: int
    delta: float | None
    weight: float | None
    cv_error: float | None


@dataclass(frozen=True, slots=True)
class NestedTest:
    """Whether a model needs what another one leaves out.

    Attributes:
        smaller, larger: the models' texts.
        name: `F` or `likelihood ratio`; empty where there is no test, for the `reason`.
        statistic: F, or twice the difference of the log-likelihoods.
        dof: the degrees of freedom: one number, or two for F.
        p: the probability of a larger statistic if the smaller model holds.
    """

    smaller: str
    larger: str
    name: str = ""
    statistic: float = math.nan
    dof: tuple[int, ...] = ()
    p: float = math.nan
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Models, best first: by AICc; those without one after them, by the error of cross-validation, then by loss.

    Attributes:
        rows: that all were fitted to.
        folds: of cross-validation; 0 without it.
        tests: of each pair of models of which one may be a special case of the other.
    """

    models: tuple[Compared, ...]
    tests: tuple[NestedTest, ...]
    rows: int
    folds: int


def compare(
    models: Sequence[str],
    data: Mapping[str, ArrayLike] | Dataset,
    *,
    start: Mapping[str, ArrayLike] | None = None,
    loss: str | None = None,
    family: str | None = None,
    likelihood: bool = False,
    weights: ArrayLike | str | None = None,
    sigma: ArrayLike | str | None = None,
    absolute_sigma: bool = False,
    optimizer: str = "auto",
    seed: int = 0,
    drop_missing: bool = False,
    folds: int = FOLDS,
) -> Comparison:
    """Fit several models of one target to the same rows, and compare them.

    Args:
        models: see `fit`, also for the other options. A start is for each model that has the parameter.
        folds: of cross-validation, which `seed` draws; 0 for none.

    Raises:
        OptionError: if there is nothing to compare, or if criteria of different targets would be compared.
        ExpressionError, DataError: see `fit`.

    >>> x = [0, 1, 2, 3, 4, 5, 6, 7]
    >>> found = compare(["y ~ a + b*x", "y ~ a"], {"x": x, "y": [1, 3.1, 4.9, 7, 9.2, 11, 12.8, 15]})
    >>> [one.fit.model for one in found.models], found.tests[0].name, found.tests[0].p < 1e-6
    (['y ~ a + b*x', 'y ~ a'], 'F', True)
    """
    options = Options(
        ParameterOptions(by_canonical_name(start)),
        DataOptions(weights, sigma, absolute_sigma, drop_missing, no_columns=True),
        LossOptions(loss, family=family, likelihood=likelihood),
        MethodOptions(optimizer, seed=seed),
    )
    return compared(models, as_dataset(data), options, folds)


def compared(models: Sequence[str], dataset: Dataset, options: Options, folds: int = FOLDS) -> Comparison:
    """The same, with the options in their groups."""
    if len(models) < 2:
        raise OptionError("to compare takes two models, or more")
    if len({*models}) < len(models):
        raise OptionError("a model is given twice")
    if folds < 0 or folds == 1:
        raise OptionError(f"cross-validation takes 2 folds or more, or 0 for none, not {folds}")
    start = options.parameters.start
    read = [Model.read(text, dataset.names, start) for text in models]
    _check_targets(read)
    for name in start:
        if not any(model.takes(name) for model in read):
            raise OptionError(f"no model has the parameter `{name}`")
    shared = SharedRows(dataset, read, options.data)
    objectives = [Objective.of(model, shared, _options_of(model, options)) for model in read]
    fits = [fitted_objective(one, options) for one in objectives]
    folds = min(folds, objectives[0].rows)
    errors = [_error(one, fit, options, folds) for one, fit in zip(objectives, fits, strict=True)]
    least = min((fit.aicc for fit in fits if _has_aicc(fit) and fit.aicc is not None), default=math.nan)
    total = sum(math.exp((least - fit.aicc) / 2) for fit in fits if _has_aicc(fit) and fit.aicc is not None)
    found = [
        Compared(
            fit,
            _counted(one),
            fit.aicc - least if _has_aicc(fit) and fit.aicc is not None else None,
            math.exp((least - fit.aicc) / 2) / total if _has_aicc(fit) and fit.aicc is not None else None,
            error,
        )
        for one, fit, error in zip(objectives, fits, errors, strict=True)
    ]
    tests = [
        _test(a, b, objectives[i], objectives[j])
        for i, a in enumerate(found)
        for j, b in enumerate(found)
        if objectives[i].layout.size < objectives[j].layout.size
    ]
    return Comparison(tuple(sorted(found, key=_standing)), tuple(tests), objectives[0].rows, folds)


def _check_targets(models: Sequence[Model]) -> None:
    targets = ["".join(model.targets()) for model in models]
    for model, target in zip(models, targets, strict=True):
        if target != targets[0] or model.class_column != models[0].class_column:
            one, other = (f"`{text}`" if text else "a loss of its own" for text in (targets[0], target))
            raise OptionError(f"models of different targets, {one} and {other}, have no figures to compare them by")


def _options_of(model: Model, options: Options) -> Options:
    start = {name: value for name, value in options.parameters.start.items() if model.takes(name)}
    return dataclasses.replace(options, parameters=dataclasses.replace(options.parameters, start=start))


def _counted(objective: Objective) -> int:
    has_variance = objective.kind is LossKind.SQUARES or objective.loss == "gamma"
    return objective.layout.size + has_variance


def _error(objective: Objective, fit: FittedModel, options: Options, folds: int) -> float | None:
    if folds < 2:
        return None
    if fit.failure:
        return math.nan
    theta = objective.layout.gather([fit.parameters[name] for name in objective.parameters])
    return cross_validated(objective, theta, fit.optimizer, options.method, folds)


def _has_aicc(fit: FittedModel) -> bool:
    return fit.aicc is not None and not math.isnan(fit.aicc) and not fit.failure


def _standing(one: Compared) -> tuple[float, ...]:
    """What models are sorted by."""
    error = math.inf if one.cv_error is None or math.isnan(one.cv_error) else one.cv_error
    loss = math.inf if math.isnan(one.fit.loss) else one.fit.loss
    aicc = one.fit.aicc
    if aicc is None or not _has_aicc(one.fit):
        return (1.0 + bool(one.fit.failure), error, loss)
    return (0.0, aicc, one.fit.bic or 0.0, loss)


def _test(a: Compared, b: Compared, small: Objective, large: Objective) -> NestedTest:
    """The test of a model against one with more parameters."""
    one, other = a.fit, b.fit
    texts = one.model, other.model
    if not (one.converged and other.converged):
        return NestedTest(*texts, reason="one of the fits did not converge")
    if small.kind not in (LossKind.SQUARES, LossKind.LIKELIHOOD):
        return NestedTest(*texts, reason=f"the loss {small.loss or 'of the models'} is not a likelihood")
    if (reason := why_not_nested(small, large)) is not None:
        return NestedTest(*texts, reason=reason)
    more = large.layout.size - small.layout.size
    if one.on_bounds or other.on_bounds:
        return NestedTest(*texts, reason="a parameter is on a bound")
    if small.kind is LossKind.SQUARES and one.rss is not None and other.rss is not None:
        gain, unit = one.rss - other.rss, other.rss
        if other.terms.absolute_sigma:
            return _judged(texts, "likelihood ratio", gain, (more,))
    elif small.loss == "gamma":
        gain, unit = (one.deviance or 0.0) - (other.deviance or 0.0), (other.figures.dispersion or 0.0) * other.dof
    else:
        return _judged(
            texts, "likelihood ratio", 2 * ((other.log_likelihood or 0.0) - (one.log_likelihood or 0.0)), (more,)
        )
    if other.dof <= 0 or not unit > 0:
        return NestedTest(*texts, reason="the larger model leaves no residuals to measure by")
    return _judged(texts, "F", (gain / more) / (unit / other.dof), (more, other.dof))


def _judged(texts: tuple[str, str], name: str, statistic: float, dof: tuple[int, ...]) -> NestedTest:
    if statistic < -1e-6:
        return NestedTest(
            *texts, reason="the model with more parameters fits worse, so that its best fit was not found"
        )
    size = max(statistic, 0.0)
    p = fisher_tail(size, *dof) if len(dof) == 2 else chi_squared_tail(size, dof[0])
    return NestedTest(*texts, name, size, dof, p)

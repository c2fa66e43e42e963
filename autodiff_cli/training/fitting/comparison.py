"""Comparison of models: information criteria, k-fold cross-validation, and tests of nested models.

A test of nested models needs certainty that one is a special case of the other. There are two sound ways. If both
predictions, or the arguments of equal link functions, are linear in their parameters, the larger design matrix spans
every column of the smaller one on these rows. Otherwise, parameters of the larger model are set to 0 or 1. The result
must be the formula of the smaller model, with the same names. If the data do not determine all parameters there, the
usual distributions of test statistics do not hold (Davies 1977, Biometrika 64, 247).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.algebra.readable import readable
from autodiff_cli.array_types import Array, ignore_float_errors
from autodiff_cli.backends.reductions import svd
from autodiff_cli.data.table import Dataset
from autodiff_cli.graph.node import Node, constant
from autodiff_cli.graph.tape import substitute
from autodiff_cli.language.errors import format_names
from autodiff_cli.language.printer import to_text
from autodiff_cli.options import OptionError, as_list, check_restrictions, explicit_options, option_fields, refused
from autodiff_cli.training.fitting.fit import fit_objective
from autodiff_cli.training.fitting.optimization import optimize, refit_rows
from autodiff_cli.training.fitting.posterior import LeaveOneOut, leave_one_out
from autodiff_cli.training.fitting.progress import Progress, are_rows_determined
from autodiff_cli.training.losses import LossKind, Prior
from autodiff_cli.training.objective.loading import SharedDataset
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.objective.preparation import hyperparameters, parse_model
from autodiff_cli.training.optimizers import OPTIMIZERS
from autodiff_cli.training.options import ComparisonOptions, FitOptions
from autodiff_cli.training.result.fitted_model import FittedModel
from autodiff_cli.training.result.goodness import criteria_parameters, significance_test
from autodiff_cli.training.result.prediction import RESIDUAL_SIGMAS
from autodiff_cli.training.result.statistics import undetermined


def assign_folds(rows: int, folds: int, seed: int) -> NDArray[np.intp]:
    """Return a random fold for each row. The sizes of the folds differ by at most one row.

    >>> np.bincount(assign_folds(10, 4, 0)).tolist()
    [3, 3, 2, 2]
    """
    return np.random.default_rng(seed).permutation(np.arange(rows) % folds)


def cross_validation_error(
    objective: Objective, fit: FittedModel, options: FitOptions, folds: int
) -> tuple[float | None, str]:
    """Return the cross-validation error of a fit and an empty text, or None and the reason in words.

    It is the (weighted) mean loss of the rows, each with the parameters of a fit to the folds that do not contain it.
    Each fit starts from the fit to all rows. Networks and gradient methods start from scratch. They end near their
    start, so a start that was fitted to the held-out rows would leak information about them.

    Args:
        fit: the fit to all rows.
        folds: the number of folds, at most the number of rows; fewer than 2 for no cross-validation.
    """
    if folds < 2 or fit.failure:
        return None, ""
    fold_of_row = assign_folds(objective.rows, folds, options.seed)
    starts_anew = objective.is_network or fit.optimizer in OPTIMIZERS
    most = int(np.bincount(fold_of_row).max())
    if objective.has_residuals and (objective.rows - most) * objective.components < objective.layout.size:
        return None, "no cross-validation error: the rows without a fold are fewer than the parameters"
    theta = objective.layout.flatten([fit.parameters[name] for name in objective.parameters])
    training_rows = (np.flatnonzero(fold_of_row != fold) for fold in range(folds))
    if starts_anew:
        outcomes = [optimize(fit.optimizer, objective.select_rows(rows), options, Progress()) for rows in training_rows]
    else:
        outcomes = refit_rows(objective, theta, training_rows, None)
    ends = [end.theta for end in outcomes if end.converged or (starts_anew and not end.failure)]
    if len(ends) < folds:
        return None, f"no cross-validation error: {folds - len(ends)} of {folds} folds could not be fitted"
    total = weight = 0.0
    for fold, end in enumerate(ends):
        held_out = objective.select_rows(np.flatnonzero(fold_of_row == fold))
        rest = np.flatnonzero(fold_of_row != fold)
        if not (
            starts_anew or objective.is_penalised or are_rows_determined(held_out, objective.select_rows(rest), end)
        ):
            return None, "no cross-validation error: a fold has rows whose parameters the other folds do not determine"
        held_out = held_out.without_penalty() if held_out.has_priors else held_out
        total += held_out.value(end) * held_out.total_weight
        weight += held_out.total_weight
    error = total / weight
    if not math.isfinite(error):
        return None, "no cross-validation error: the loss of a fold is not finite"
    return error, ""


# --- Nested models


NESTING_UNKNOWN = "it is not known whether one is a special case of the other"


_MAX_SUBSTITUTIONS = 2000  # assignments of 0 and 1 to parameters that are tried
_MAX_SPAN_ROWS = 200_000  # rows for which the columns of linear models are compared
_POOLING_POINTS = 3  # random points at which a model with levels and one without are compared
_SPAN_TOLERANCE = 1e-9  # share of a column outside of a span that counts as rounding


def why_not_nested(small: Objective, large: Objective, parameters: Mapping[str, Any]) -> str | None:
    """Return None if the model with fewer parameters is a regular special case of the other, at its fitted parameters;
    otherwise why that is unknown, as a clause.
    """
    links = {None if each.is_linear else each.model.program.output.op for each in (small, large)}
    if len(links) == 1 and small.is_generalised_linear and large.is_generalised_linear and small.rows <= _MAX_SPAN_ROWS:
        return None if _in_span(small, large) else NESTING_UNKNOWN
    if small.model.array_parameters or large.model.array_parameters:
        return "they have array parameters"
    return None if _pools_levels(small, large) else _substitution_failure(small, large, parameters)


def _pools_levels(small: Objective, large: Objective) -> bool:
    """Whether the smaller model is the larger one with the same value for all levels of some parameters, such as `Vm`
    for `Vm[state]`. Both are evaluated at random points to find out.
    """
    names = [name if name in small.parameters else name.partition("[")[0] for name in large.parameters]
    if {*names} != {*small.parameters} or len(names) != large.layout.size or not small.has_residuals:
        return False
    generator, positions = np.random.default_rng(0), [small.parameters.index(name) for name in names]
    with ignore_float_errors():
        for _ in range(_POOLING_POINTS):
            theta = generator.uniform(0.2, 2.0, small.layout.size)
            pooled = large.evaluate_rows(large.kernels.residuals, theta[positions])
            expected = small.evaluate_rows(small.kernels.residuals, theta)
            if not np.isfinite(expected).any() or not np.allclose(pooled, expected, rtol=1e-9, equal_nan=True):
                return False
    return True


def _in_span(small: Objective, large: Objective) -> bool:
    """Return whether the larger model can make all predictions of the smaller one on these rows."""
    with ignore_float_errors():
        large_matrix, small_matrix = _design_matrix(large), _design_matrix(small)
        # The difference of the constant terms has to lie in the span, too.
        constant_difference = small_matrix[:, -1] - large_matrix[:, -1]
        basis, columns = large_matrix[:, :-1], np.column_stack((small_matrix[:, :-1], constant_difference))
        if not np.isfinite(basis).all():
            return False
        lengths = np.linalg.norm(basis, axis=0)
        directions, singular_values, _ = svd(basis / np.where(lengths > 0, lengths, 1.0), full_matrices=False)
        directions = directions[:, singular_values > _SPAN_TOLERANCE * singular_values[0]]
        distances = np.linalg.norm(columns - directions @ (directions.T @ columns), axis=0)
        return bool((distances <= _SPAN_TOLERANCE * np.linalg.norm(columns, axis=0)).all())


def _design_matrix(objective: Objective) -> Array:
    """Return the coefficient of each parameter in the scores, and as the last column the constant term, for all rows
    and components. The scores of classes are without their mean, on which no probability depends.
    """
    width, classes = objective.layout.size + 1, objective.classes
    scores = objective.kernels.scores_and_jacobian(objective.model.target_shape if classes is None else (len(classes),))
    values = objective.evaluate_rows(scores, np.zeros(width - 1)).reshape(-1, width, objective.rows)
    values -= values.mean(axis=0) * (classes is not None)
    return values.swapaxes(1, 2).reshape(-1, width)


def _substitution_failure(small: Objective, large: Objective, parameters: Mapping[str, Any]) -> str | None:
    """Return why setting parameters of the larger model to 0 or 1 does not give the smaller model, or why the larger
    model is then not regular at the fit of the smaller one; None if it is.
    """
    smaller_text, program = _canonical_text(small, {}), large.model.program
    extra = [name for name in large.parameters if name not in small.parameters]
    count = large.layout.size - small.layout.size
    if len(extra) != count:
        return NESTING_UNKNOWN
    for values in islice(product((0.0, 1.0), repeat=count), _MAX_SUBSTITUTIONS):
        chosen = dict(zip(extra, values, strict=True))
        setting = {program.leaves[name]: constant(value) for name, value in chosen.items()}
        if _canonical_text(large, setting) != smaller_text:
            continue
        is_unknown = undetermined(large, np.array([{**parameters, **chosen}[name] for name in large.parameters]))
        if is_unknown.any():
            unknown = [large.parameters[k] for k in np.flatnonzero(is_unknown)]
            place = " and ".join(f"{name} = {value:g}" for name, value in chosen.items())
            what = f"the data do not determine {format_names(unknown, '`')} where {place}"
            return f"{what}, so the distribution of the test statistic is not known"
        return None
    return NESTING_UNKNOWN


def _canonical_text(objective: Objective, setting: Mapping[Node, Node]) -> str:
    """Return the prediction in canonical form, with fixed parameters and others replaced by constants."""
    fixed = {objective.model.program.leaves[name]: constant(float(x)) for name, x in objective.fixed.items()}
    return to_text(readable(substitute([objective.model.program.output], {**fixed, **setting}))[0])


# A comparison has one set of options for all models, and reports statistics of its own.
_COMPARISON_RESTRICTIONS = refused(
    (name for name, field in option_fields(FitOptions).items() if not getattr(field.option, "compared", False)),
    "compare has no option {option}",
)


@dataclass(frozen=True, slots=True)
class ComparedModel:
    """One of several compared models.

    Attributes:
        fit: the fit to all rows.
        k: the number of parameters that the criteria count: the free ones, and the variance if it is estimated.
        delta: the AICc minus the smallest of all models; None without AICc, or if a model fits exactly.
        weight: the Akaike weight (Akaike 1978); None where `delta` is.
        loo: the leave-one-out estimate from draws of the posterior; None without draws.
        cv_error: the mean loss in cross-validation; None if it was not requested or a fit failed.
    """

    fit: FittedModel
    k: int
    delta: float | None
    weight: float | None
    cv_error: float | None
    loo: LeaveOneOut | None = None


@dataclass(frozen=True, slots=True)
class NestedTest:
    """A test whether a model needs the parameters that another one lacks.

    Attributes:
        smaller, larger: the texts of the models.
        name, statistic, dof, p: see `SignificanceTest`; the name is empty if there is no test.
        reason: why there is no test.
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
    """The comparison of models, sorted by AICc; models without AICc follow, sorted by cross-validation error and loss.
    Models that fit exactly come first, sorted by their number of parameters.

    Attributes:
        models: the models, best first.
        tests: a test for each pair of models with different numbers of parameters.
        rows: the number of rows that all models were fitted to.
        folds: the number of folds of the cross-validation; 0 without it.
    """

    models: tuple[ComparedModel, ...]
    tests: tuple[NestedTest, ...]
    rows: int
    folds: int


def compare_models(models: Sequence[str], dataset: Dataset, options: ComparisonOptions) -> Comparison:
    """Fit and compare several models. See `autodiff_cli.compare`, also for the exceptions."""
    check_restrictions(_COMPARISON_RESTRICTIONS, explicit_options(options))
    folds, options = options.folds, dataclasses.replace(options, no_columns=True)
    models = as_list(models)
    if len(models) < 2:
        raise OptionError("compare needs at least two models")
    if len({*models}) < len(models):
        raise OptionError("the same model was given twice")
    parsed = [parse_model(text, tuple(dataset.names), frozenset(options.parameters.start)) for text in models]
    _check_targets(parsed)
    for name in (*options.parameters.names, *_model_parameters(options.parsed_priors).values()):
        if not any(model.accepts(name) for model in parsed):
            raise OptionError(f"no model has the parameter `{name}`")
    shared = SharedDataset(dataset, parsed, options)
    objectives = [Objective.of(model, shared, _options_for_model(model, options)) for model in parsed]
    fits = [fit_objective(one, options) for one in objectives]
    folds = min(folds, objectives[0].rows)
    # With scales of their own, models with too many parameters, whose scales are small, would seem to predict better.
    scales = [fit.scale for fit in fits if fit.scale is not None]
    for one in objectives if scales else ():
        one.set_scale((max if one.has_theta else min)(scales))
    errors = [cross_validation_error(one, fit, options, folds) for one, fit in zip(objectives, fits, strict=True)]
    for fit, (_, reason) in zip(fits, errors, strict=True):
        fit.warnings.extend([reason] if reason else [])
    criteria = [fit.aicc if not fit.failure and not math.isnan(fit.aicc or 0.0) else None for fit in fits]
    lowest = min((aicc for aicc in criteria if aicc is not None), default=math.nan)
    is_exact = any(fit.is_perfect for fit in fits)  # then the likelihoods have no maximum to compare
    deltas = [None if aicc is None or is_exact else aicc - lowest for aicc in criteria]
    weights = [None if delta is None else math.exp(-delta / 2) for delta in deltas]
    total = sum(weight for weight in weights if weight is not None)
    compared = [
        ComparedModel(
            fit,
            criteria_parameters(objective, fit.rank, options.absolute_sigma),
            delta,
            None if weight is None else weight / total,
            error,
            leave_one_out(objective, fit.draws) if fit.draws else None,
        )
        for objective, fit, (error, _), delta, weight in zip(objectives, fits, errors, deltas, weights, strict=True)
    ]
    tests = [
        _nested_test(a, b, small, large)
        for (a, small), (b, large) in permutations(zip(fits, objectives, strict=True), 2)
        if (a.rank, small.layout.size) < (b.rank, large.layout.size)
    ]
    return Comparison(tuple(sorted(compared, key=_ranking_key)), tuple(tests), objectives[0].rows, folds)


def _check_targets(models: Sequence[Model]) -> None:
    """Raise OptionError for models of different targets."""
    targets = ["".join(model.targets()) for model in models]
    for model, target in zip(models, targets, strict=True):
        if target != targets[0] or model.class_column != models[0].class_column:
            first, different = (f"`{text}`" if text else "a loss of its own" for text in (targets[0], target))
            raise OptionError(f"models of different targets, {first} and {different}, cannot be compared")


def _options_for_model(model: Model, options: FitOptions) -> FitOptions:
    """Return the options with the starting values, bounds and priors of the parameters that a model has."""
    start = {name: value for name, value in options.parameters.start.items() if model.accepts(name)}
    limits = {
        name: [None if isinstance(limit, str) and not model.accepts(limit) else limit for limit in ends]
        for name, ends in (options.bounds or {}).items()
        if model.accepts(name)
    }
    bounds = {name: (low, high) for name, (low, high) in limits.items()}
    named = _model_parameters(options.parsed_priors)
    unused = {name for name, parameter in named.items() if not model.accepts(parameter)}
    priors = {name: prior.text for name, prior in options.parsed_priors.items() if name not in unused}
    return dataclasses.replace(options, start=start, bounds=bounds, priors=priors)


def _model_parameters(priors: Mapping[str, Prior]) -> dict[str, str]:
    """Return the parameters of models that have priors, without levels, by the names of the priors."""
    others = {*hyperparameters(priors), RESIDUAL_SIGMAS[0]}
    return {name: name.partition("[")[0] for name in priors if name not in others}


def _ranking_key(compared: ComparedModel) -> tuple[float, ...]:
    """Return the key by which models are sorted. Criteria that differ by rounding errors keep the given order."""
    fit, error = compared.fit, math.inf if compared.cv_error is None else compared.cv_error
    loss = math.inf if math.isnan(fit.loss) else fit.loss
    if fit.is_perfect and not fit.failure:
        return (-1.0, compared.k)
    if fit.aicc is None or math.isnan(fit.aicc) or fit.failure:
        return (1.0 + bool(fit.failure), -compared.loo.elpd if compared.loo else error, loss)
    return (0.0, *(float(f"{criterion or 0.0:.9g}") for criterion in (fit.aicc, fit.bic)))


def _nested_test(small_fit: FittedModel, large_fit: FittedModel, small: Objective, large: Objective) -> NestedTest:
    """Return the test of a model against one with more parameters."""
    texts = small_fit.model, large_fit.model
    if not (small_fit.converged and large_fit.converged):
        return NestedTest(*texts, reason="one of the fits did not converge")
    if small.has_priors or large.has_priors:
        return NestedTest(*texts, reason="parameters have priors")
    if small.kind not in (LossKind.SQUARES, LossKind.LIKELIHOOD):
        return NestedTest(*texts, reason=f"the loss {small.loss or 'of the models'} is not a likelihood")
    if (reason := why_not_nested(small, large, small_fit.parameters)) is not None:
        return NestedTest(*texts, reason=reason)
    if small_fit.on_bounds or large_fit.on_bounds:
        return NestedTest(*texts, reason="a parameter is on a bound")
    figure = "rss" if small.kind is LossKind.SQUARES else "deviance" if small.has_dispersion else "log_likelihood"
    before, after = (getattr(fit, figure) for fit in (small_fit, large_fit))
    if before is None or after is None:
        return NestedTest(*texts, reason="there is no likelihood")
    gain, unit = 2 * (after - before) if figure == "log_likelihood" else before - after, None
    if small.kind is LossKind.SQUARES and not large_fit.settings.absolute_sigma:
        unit = (large_fit.rss or 0.0) / max(large_fit.dof, 1)
    elif small.has_dispersion:
        unit = large_fit.dispersion or 0.0
    if unit is not None and (large_fit.dof <= 0 or large_fit.is_perfect):
        return NestedTest(*texts, reason="the larger model fits exactly, so the residual variance is unknown")
    extra = large_fit.rank - small_fit.rank  # without redundant parameters
    if not extra or np.isnan([*small_fit.errors, *large_fit.errors]).any():
        return NestedTest(*texts, reason="the data do not determine all parameters")
    if gain < -1e-6 * (1.0 if unit is None else unit):
        return NestedTest(*texts, reason="the model with more parameters fits worse, so its best fit was not found")
    return NestedTest(*texts, **significance_test(gain, extra, unit, large_fit.dof)._asdict())

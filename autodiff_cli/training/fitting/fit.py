"""Run a fit and build its result.

`fit_dataset` and `fit_objective` run the fit. `build_fit` computes the statistics and warnings of the `FittedModel`, to
which `conclude` adds intervals. `judge` decides whether a fit converged.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from autodiff_cli.array_types import Array, ignore_float_errors
from autodiff_cli.backends.selection import evaluate
from autodiff_cli.data.table import Dataset
from autodiff_cli.graph.node import Node
from autodiff_cli.language.errors import format_names
from autodiff_cli.language.lexer import canonical_name
from autodiff_cli.ops.functions import LOG_DENSITIES, sigmoid
from autodiff_cli.options import OptionError
from autodiff_cli.training.fitting import inference, minimization, optimization, symmetries
from autodiff_cli.training.fitting.limits import find_unlimited
from autodiff_cli.training.fitting.progress import Progress, Validation, open_checkpoint, split_validation
from autodiff_cli.training.fitting.starts import SETTINGS, Multistart, multistart
from autodiff_cli.training.losses import L1_FACTOR, L2_FACTOR, LOSSES, PRIOR_FACTOR, X_ERROR_FACTOR, LossKind
from autodiff_cli.training.methods.gradient_descent import EpochProgressCallback, Outcome, report_single_fit
from autodiff_cli.training.objective.batch import ObjectiveBatch, repeat_objective
from autodiff_cli.training.objective.cluster_connection import connected
from autodiff_cli.training.objective.model import Model, tie_fixed_parameters
from autodiff_cli.training.objective.objective import Objective, copy_with
from autodiff_cli.training.objective.preparation import hyperparameters
from autodiff_cli.training.optimizers import OPTIMIZERS
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.result import goodness
from autodiff_cli.training.result.diagnosis import curve_warning, diagnose, explain_failure, residual_structure
from autodiff_cli.training.result.fitted_model import FitSettings, FittedModel
from autodiff_cli.training.result.prediction import collect_plot_data
from autodiff_cli.training.result.statistics import (
    COVARIANCE,
    MAX_COVARIANCE_SIZE,
    ComputedStatistics,
    FitStatistics,
    bound_text,
    compute_statistics,
    correlations,
    errors_by_name,
    flat_errors,
)

_MAX_COMPARED_LEVELS = 8  # levels; the values of each are tried as starting values of all levels
_MAX_ADOPTED_FITS = 10  # successive better fits that profiles may lead to


_NO_SOLUTION = "no standard errors: the fit did not converge"
_NO_SCALE = "no standard errors: the residuals have no scale"
_NEGLIGIBLE_DISTANCE = 1e-3  # distance from the minimum, in standard errors, at which a fit counts as converged
_NOT_CONVERGED = "not converged: the loss was still falling at the last epoch"

_STOPPED_NEAR_MINIMUM = (
    "not converged: this learning rate leads close to the minimum, but not to it; try a smaller --lr or --lr-schedule"
)
_UNBOUNDED = "not converged: the loss falls ever more slowly, as if it had no minimum; try a simpler model, or --bounds"


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a fit.

    Attributes:
        fit: the best parameters so far.
    """

    def __init__(self, fit: FittedModel) -> None:
        super().__init__("interrupted")
        self.fit = fit


def fit_dataset(model: str | Model, dataset: Dataset, options: FitOptions) -> FittedModel:
    """Fit a model to a dataset. Raises the exceptions of `autodiff_cli.fit`."""
    if isinstance(model, str):
        model, options = tie_fixed_parameters(model, dataset.names, options)
    with connected(options) as options:
        return fit_objective(Objective.of(model, dataset, options), options)


@ignore_float_errors()
def fit_objective(
    objective: Objective,
    options: FitOptions,
    on_progress: EpochProgressCallback | None = None,
    on_draw: Callable[[int, int], None] | None = None,
) -> FittedModel:
    """Fit an objective that was made with the same options. Raises OptionError and Interrupted.

    Args:
        on_progress: is called from time to time during a long epoch.
        on_draw: is called for every draw from the posterior, with the number of draws so far and the total number.
    """
    method = checked_method(objective, options)
    if objective.effects:
        return _fit_random_effects(objective, options, Progress(options.on_epoch, None, on_progress))
    if objective.orders and (options.checkpoint is not None or options.resume is not None):
        raise OptionError("bounds: ordered parameters cannot be combined with checkpoint or resume")
    writer, checkpoint = open_checkpoint(options, objective, method)
    validation = None
    if options.validation is not None:
        objective, held_out = split_validation(objective, options.validation, options.seed)
        validation = Validation(held_out, options.patience, options.min_delta)
    quantities = inference.DerivedQuantities(options.quantities, objective.model, objective.layout)
    progress = Progress(options.on_epoch, validation, on_progress, writer, checkpoint)
    progress.notes += objective.notes
    if options.x_sigma:
        if options.epochs is None and method in ("lm", "lbfgs"):
            objective = _start_without_x_errors(objective, method, options, progress)
            options = dataclasses.replace(options, starts=None)
        names = ", ".join(f"`{name}`" for name in objective.kernels.graphs.x_errors)
        effect = "are included by the effective variance sigma² + (∂f/∂x·sigma_x)², to first order"
        progress.notes.append(f"errors in {names} {effect}")
    run = FitRun(objective, method, progress, options, quantities)
    try:
        if options.posterior is not None and hyperparameters(objective.priors):  # whose joint mode says nothing
            return _with_posterior(run, None, on_draw)
        run, outcome = _find_minimum(run)
        if options.posterior is not None:
            return _with_posterior(run, conclude(run, outcome), on_draw)
        progress.finish()  # the result has its warnings
        return conclude(run, outcome)
    finally:
        progress.finish()


def checked_method(objective: Objective, options: FitOptions) -> str:
    """Return the method of a fit. Raises OptionError for options that do not suit the objective."""
    if not objective.parameters:
        raise OptionError("there is nothing to fit: every parameter is fixed")
    if options.posterior is not None:
        from autodiff_cli.training.fitting.posterior import check_posterior

        check_posterior(objective, options)
    method = minimization.choose_method(options, objective)
    options.check_method(method)
    inference.check_intervals(objective, options)
    return method


class FitRun(NamedTuple):
    """A fit under way: its objective, method, options and progress.

    Attributes:
        objective: the objective that is minimised.
        method: the name of the method.
        progress: the epochs so far, with warnings and notes.
        options: the options of the fit.
        quantities: the derived quantities.
    """

    objective: Objective
    method: str
    progress: Progress
    options: FitOptions
    quantities: inference.DerivedQuantities


def _fit_random_effects(objective: Objective, options: FitOptions, progress: Progress) -> FittedModel:
    """Fit an objective with random effects, which are integrated out. Raises OptionError."""
    from autodiff_cli.training.fitting.laplace import fit_random_effects

    try:
        final, outcome, statistics, loss, effects = fit_random_effects(objective, options, progress)
    finally:
        progress.finish()
    progress.notes += [*objective.notes, _RANDOM_EFFECTS]
    quantities = inference.DerivedQuantities(options.quantities, final.model, final.layout)
    run = FitRun(final, "lbfgs", progress, options, quantities)
    return dataclasses.replace(build_fit(run, outcome, statistics, loss), random_effects=effects)


def _chain_start(objective: Objective, options: FitOptions) -> Array:
    """Return the starting point of chains under hierarchical priors: a fit with all levels at their means."""
    from autodiff_cli.training.fitting.laplace import fit_at_means

    leaves, means = objective.model.program.leaves, dict[Node, Node]()
    for name, prior in objective.priors.items():
        if prior.distribution is LOG_DENSITIES["normal"] and prior.parameters:
            means[leaves[name]] = prior.arguments_in(leaves)[0]
    start = fit_at_means(objective, means, options)[1]
    values = evaluate([*means.values()], objective.point(start))
    for leaf, value in zip(means, values, strict=True):
        start[objective.layout.slices[leaf.text]] = value
    return start if np.isfinite(start).all() else objective.start


def _with_posterior(run: FitRun, result: FittedModel | None, on_draw: Callable[[int, int], None] | None) -> FittedModel:
    """Return a fit with draws from its posterior. Raises Interrupted.

    Args:
        result: the fit without draws; None for hierarchical priors, under which the parameters are means of draws.
    """
    from autodiff_cli.training.fitting.posterior import draw_posterior, parameter_draws

    objective, options = run.objective, run.options
    if result is None:
        start = _chain_start(objective, options)
    elif result.failure:
        return result
    else:
        start = objective.layout.flatten([result.parameters[name] for name in objective.layout.names])

    def count_draw(count: int, total: int) -> None:
        run.progress.record_draw(count)
        if on_draw is not None:
            on_draw(count, total)

    progress = run.progress
    log = progress.evaluations if progress.checkpoint_writer or progress.resumed_from else None
    try:
        drawn = draw_posterior(objective, start, options, run.quantities, log, count_draw)
    except KeyboardInterrupt:
        if result is None:
            raise
        raise Interrupted(dataclasses.replace(result, converged=False)) from None
    progress.finish()
    if result is None:
        numbers = parameter_draws(objective, drawn.draws).reshape(-1, objective.layout.size)
        theta = numbers.mean(axis=0)
        statistics = dataclasses.replace(
            compute_statistics(objective, theta, options.absolute_sigma, _NO_SOLUTION, with_goodness=True),
            missing_error_reasons=(),
            stderr=objective.layout.values(numbers.std(axis=0, ddof=1)),
            correlation=correlations(np.atleast_2d(np.cov(numbers.T))),
            definition=goodness.DRAWN,
            warnings=(),
        )
        result = build_fit(run, Outcome(theta, True), statistics)
        result.notes[0] = _POSTERIOR_MEANS  # replaces the note on the mode
    earlier = [each for each in result.warnings if each != _HIERARCHICAL]
    reported = dataclasses.replace(
        result,
        converged=result.converged and drawn.is_representative,
        posterior=drawn.summaries,
        divergences=drawn.divergences,
        draws=drawn.draws,
        warnings=[*dict.fromkeys((*earlier, *progress.warnings, *drawn.warnings))],
    )
    if not drawn.is_complete:
        raise Interrupted(reported)
    return reported


def conclude(
    run: FitRun, outcome: Outcome, statistics: ComputedStatistics | None = None, loss: float | None = None
) -> FittedModel:
    """Return the fitted model for the outcome of a method, with the requested intervals; see `build_fit`.

    If a profile finds a better fit, it replaces the outcome. Raises Interrupted.

    Args:
        statistics: the statistics at the outcome, if they are computed already.
        loss: the mean loss there, if it is computed already.
    """
    for _ in range(_MAX_ADOPTED_FITS):
        result = build_fit(run, outcome, statistics, loss)
        try:
            return inference.add_intervals(result, run.objective, run.options, run.quantities)
        except KeyboardInterrupt:
            raise Interrupted(result) from None
        except inference.BetterFit as better:
            if run.options.patience is not None:  # a minimum is not what the validation rows chose
                break
            note = f"the profile of `{better.element}` led to a better fit, which is reported"
            outcome, statistics, loss = _refit(run, better.theta, note), None, None
    result = build_fit(run, outcome)
    reason = "try --starts" if run.options.patience is None else "--patience ended the fit before its minimum"
    result.warnings.append(f"no intervals: the profiles find better fits; {reason}")
    return result


def _refit(run: FitRun, theta: Array, note: str) -> Outcome:
    """Fit from a point that is better than the last fit, add a note, and return the end."""
    run.progress.notes.append(note)
    batch, report = ObjectiveBatch([run.objective]), report_single_fit(run.progress.record)
    (end,) = minimization.minimize_and_check(minimization.converging_method(run.objective), batch, theta[None], report)
    return minimization.assess_solution(run.objective, end)


def _find_minimum(run: FitRun) -> tuple[FitRun, Outcome]:
    """Run the method, and return its outcome with the run whose objective has it. Raises Interrupted."""
    progress = run.progress
    try:
        run, outcome = _optimize_constrained(run)
        return run, _compare_levels(run, outcome)
    except KeyboardInterrupt:
        if progress.best is None:
            raise
        progress.finish()
        raise Interrupted(build_fit(run, Outcome(progress.best.theta, False, "interrupted"))) from None


def _optimize_constrained(run: FitRun) -> tuple[FitRun, Outcome]:
    """Run a method (see `optimize_multistart`); if its end breaks the order of parameters, run it on their differences.

    Returns:
        The outcome, and the run that has it.
    """
    objective, method, progress, options, _ = run
    outcome = optimization.optimize_multistart(method, objective, options, progress)
    if outcome.failure or objective.constraints.are_met(outcome.theta):
        return run, outcome
    options, notes = dataclasses.replace(options, starts=None), len(progress.notes)

    def fit(candidate: Objective, has_slacks: bool) -> Outcome:
        return optimization.optimize(method, candidate, options, Progress() if has_slacks else progress)

    objective, outcome = minimization.fit_constrained(objective, outcome.theta, fit)
    del progress.notes[notes:]  # they describe auxiliary bounds
    for tied in objective.constraints.active(outcome.theta):
        listed = format_names([objective.layout.names[k] for k in tied.positions], "`")
        whole = "sum to 1, which leaves no share for the last component"
        difference = whole if tied.limit else "end equal: the data contradict their order"
        progress.warnings.append(f"{listed} {difference}; the standard errors assume that this holds")
    return run._replace(objective=objective), outcome


def _compare_levels(run: FitRun, outcome: Outcome) -> Outcome:
    """Return the outcome of a fit, or a better one from starting values that make the levels of a column more alike.

    These have the terms of all levels in the same order, or the values of one level for all levels.
    """
    objective, method = run.objective, run.method
    is_searched = outcome.divergence is None and method in ("lm", "lbfgs") and run.options.epochs is None
    if not objective.model.levels or not is_searched or objective.is_linear or objective.is_penalised:
        return outcome
    if objective.layout.size > symmetries.MAX_SYMMETRIC_PARAMETERS or objective.rows > symmetries.MAX_REPEATED_ROWS:
        return outcome
    positions: dict[str, dict[str, int]] = {}
    for k, name in enumerate(objective.layout.names):
        parameter, _, level = name.partition("[")
        positions.setdefault(level, {})[parameter] = k
    positions.pop("", None)
    starts = [outcome.theta, symmetries.order_terms(objective, outcome.theta[None], aligns_levels=True)[0]]
    for values in [*positions.values()][:_MAX_COMPARED_LEVELS]:
        starts.append(outcome.theta.copy())
        for others in positions.values():
            shared = others.keys() & values.keys()
            starts[-1][[others[name] for name in shared]] = outcome.theta[[values[name] for name in shared]]
    first, *ends = minimization.minimize_and_check(method, repeat_objective(objective, len(starts)), np.array(starts))
    best = minimization.best_alternative(objective, first, [end.theta for end in ends])
    if best is None:
        return outcome
    return _refit(run, best, "a better fit was found from the same starting values for all levels")


def build_fit(
    run: FitRun, outcome: Outcome, statistics: ComputedStatistics | None = None, loss: float | None = None
) -> FittedModel:
    """Return the fitted model for the outcome of a method.

    It includes statistics, derived quantities, warnings and notes, and the data of a plot if the options request it.

    Args:
        statistics: the statistics at the outcome, if they are computed already. The outcome is then used as it is,
            without `canonical_parameters`.
        loss: the mean loss there, if it is computed already.
    """
    objective, method, progress, options, quantities = run
    choices: list[str] = []
    if statistics is None:
        outcome, choices = _canonical_outcome(objective, method, outcome)
        reason = missing_errors_reason(outcome)
        statistics = compute_statistics(objective, outcome.theta, options.absolute_sigma, reason, with_goodness=True)
    outcome, statistics = _with_kinks(objective, outcome, statistics, options.absolute_sigma)
    has_scale = objective.loss and LOSSES[objective.loss].has_scale and statistics.missing_error_reasons != (_NO_SCALE,)
    model, layout, first, validation = objective.model, objective.layout, progress.first, progress.validation
    verdict = judge(run, outcome, statistics)
    statistics = verdict.statistics
    auc, roc = goodness.roc_curve(objective, outcome.theta) or (None, None)
    quantity_values, quantity_warnings = inference.estimate_quantities(
        quantities, objective.point(outcome.theta), statistics
    )
    unseen = validation.warnings(outcome.theta, statistics) if validation else ()
    judgement = (*verdict.warnings, *unseen, *quantity_warnings, *verdict.reasons)
    notes = [*_loss_notes(objective), *model.notes, *objective.kernels.notes, *left_out(objective)]
    result = FittedModel(
        model=model.text,
        rows=objective.rows,
        parameters=layout.values(outcome.theta),
        fixed=dict(objective.fixed),
        loss=_loss_value(objective, method, outcome, statistics) if loss is None else loss,
        optimizer=method,
        epochs=progress.last.number if progress.last else 0,
        converged=verdict.converged,
        failure=outcome.failure and verdict.reasons[-1],
        history=progress.history,
        warnings=[*model.warnings, *objective.warnings, *progress.warnings, *judgement],
        notes=[*notes, *progress.notes, *choices],
        priors={name: prior.text for name, prior in objective.priors.items()},
        parsed_model=model,
        levels=dict(model.levels),
        origins=objective.origins,
        ranges=objective.cached(RANGES, lambda: _predictor_ranges(objective)),
        derived=quantity_values,
        bounds=objective.bounds_by_name,
        element_names=layout.element_names if layout.size <= MAX_COVARIANCE_SIZE else (),
        classes=objective.classes,
        accuracy=goodness.classification_accuracy(objective, outcome.theta),
        auc=auc,
        roc=roc,
        confusion=None if objective.classes is None else objective.confusion(outcome.theta),
        loss_name=objective.loss,
        huber_delta=options.huber_delta,
        confidence_level=options.confidence,
        settings=fit_settings(objective, options),
        penalty=_penalty_value(objective, outcome.theta),
        scale=objective.scale if has_scale else None,
        diagnosis=diagnose(objective, first.theta, outcome.theta) if options.diagnosis and first else None,
        **(validation.summary(outcome.theta) if validation else {}),
        **{each.name: getattr(statistics, each.name) for each in dataclasses.fields(FitStatistics)},
    )
    if options.plot:
        return dataclasses.replace(result, plot=collect_plot_data(result, objective, outcome.theta, options))
    return result


def missing_errors_reason(end: Outcome) -> str:
    """Return the reason why an outcome has no standard errors, as a sentence; empty if it may have some."""
    return _NO_SOLUTION if end.failure else _NO_SCALE * (end.note == minimization.NO_SCALE)


class FitVerdict(NamedTuple):
    """The verdict on a fit: whether it converged, and what limits its results.

    Attributes:
        converged: whether the fit ended at a minimum. Otherwise no profile or bootstrap intervals are computed.
        statistics: the statistics that are valid at this end.
        warnings: sentences on limits of the statistics.
        reasons: sentences on why the fit failed or did not converge, and on what to try.
    """

    converged: bool
    statistics: ComputedStatistics
    warnings: list[str]
    reasons: list[str]


def judge(run: FitRun, outcome: Outcome, statistics: ComputedStatistics) -> FitVerdict:
    """Return the verdict on a fit; fits of groups, of chunks of files and of several starts get theirs here, too."""
    objective, method, progress, options, _ = run
    is_at_minimum, note, distance = outcome.converged, outcome.note, statistics.minimum_distance
    is_off_minimum = options.tolerance is options.patience is None and distance > COVARIANCE.max_minimum_distance
    if not is_at_minimum and distance < _NEGLIGIBLE_DISTANCE and not outcome.failure:
        is_at_minimum = True
    elif is_at_minimum and is_off_minimum and not outcome.kinks:
        is_at_minimum, note = False, _STOPPED_NEAR_MINIMUM if method in OPTIMIZERS else _UNBOUNDED
    if is_at_minimum and (words := _no_minimum_note(objective, outcome.theta, statistics)):
        is_at_minimum, note = False, words
    is_convex = objective.is_generalised_linear and (objective.is_linear or objective.kind is LossKind.LIKELIHOOD)
    is_ended = is_at_minimum or (outcome.is_stuck and objective.is_likelihood)
    is_checked = is_ended and method not in OPTIMIZERS and not (is_convex or objective.is_network)
    is_checked &= statistics.dof > 0 and bool(statistics.is_imprecise.any()) and not objective.is_penalised
    limits = find_unlimited(objective, outcome.theta, statistics) if is_checked else ""
    if limits:
        is_at_minimum, note = False, f"the loss has no minimum: {limits}, so the data set no limit to it"
        errors = flat_errors(statistics.stderr, objective.layout.values(outcome.theta))
        known = np.where(statistics.is_imprecise, math.nan, errors)
        statistics = dataclasses.replace(statistics, stderr=errors_by_name(objective, known))
    outcome = dataclasses.replace(outcome, converged=is_at_minimum, failure=outcome.failure * (not limits))
    has_several_ends = not outcome.failure and method not in OPTIMIZERS and statistics.definition != goodness.DRAWN
    doubt = doubt_warning(objective, outcome, statistics) if has_several_ends else ""
    exact, separation = "", statistics.separation_warning
    if statistics.is_perfect:  # the likelihood has no maximum
        likelihood = ", so there is no likelihood and no AIC" * (statistics.aic is not None)
        rounding = "; the standard errors only reflect rounding" * bool(statistics.definition)
        exact = f"the residuals are rounding errors{likelihood}{rounding}"
        unknown: dict[str, Any] = dict.fromkeys(("log_likelihood", "aic", "aicc", "bic", "durbin_watson"))
        statistics = dataclasses.replace(statistics, **unknown)
    if statistics.is_perfect or (separation and objective.has_dispersion) or not is_at_minimum:
        statistics = dataclasses.replace(statistics, null_test=None)  # tests compare minima by a variance
    if outcome.kinks:
        errors = flat_errors(statistics.stderr, objective.layout.values(outcome.theta))[[*outcome.kinks]]
        at_kinks = _kink_note(objective, outcome.kinks, bool(np.isfinite(errors).any()))
        note = f"{note}; {at_kinks}" if note else at_kinks
    hierarchical = _HIERARCHICAL if hyperparameters(objective.priors) else ""
    broken = curve_warning(objective, outcome.theta) if is_at_minimum else ""
    has_scatter = is_at_minimum and not doubt and not statistics.is_perfect
    scatter = goodness.scatter_warnings(objective, outcome.theta, statistics, statistics.dof) if has_scatter else ()
    overdispersed = goodness.family_warnings(statistics, objective.loss)
    warnings = (doubt, broken, *scatter, *statistics.warnings, exact, hierarchical, *overdispersed)
    reasons = [separation]
    if not separation:
        closing = outcome.failure or note or _NOT_CONVERGED * (not is_at_minimum)
        # Only gradient methods have a rate that is too high if the loss rises; with other ones, its scale changed.
        losses = [record["loss"] for record in progress.history][0 if method in OPTIMIZERS else -1 :]
        reasons = [*explain_failure(objective, outcome, losses), closing]
    return FitVerdict(is_at_minimum and not separation, statistics, [*filter(None, warnings)], [*filter(None, reasons)])


def _with_kinks(
    objective: Objective, outcome: Outcome, statistics: ComputedStatistics, absolute_sigma: bool
) -> tuple[Outcome, ComputedStatistics]:
    """Return the end of a fit with the parameters at kinks of the loss, and its statistics.

    In these statistics such parameters are fixed if not even one side of the kinks has any: if the fit stops off the
    minimum of that side, or if the loss has no curvature there.
    """
    is_minimum = statistics.rank == objective.layout.size
    is_minimum &= not statistics.minimum_distance > COVARIANCE.max_minimum_distance
    if is_minimum or not outcome.converged or not objective.has_kinks:
        return outcome, statistics
    theta, fixed, kinks = outcome.theta, objective.bounds, outcome.kinks
    while more := minimization.kinks_at_minimum(objective, theta, kinks):  # random points miss some of many kinks
        kinks = (*kinks, *more)
    if not kinks:
        return outcome, statistics
    for k in kinks:
        fixed = fixed.with_fixed(k, float(theta[k]))
    single = copy_with(objective.with_rows(objective.data), bounds=fixed)
    statistics = compute_statistics(single, theta, absolute_sigma, with_goodness=True)
    on_bounds = bound_text(ObjectiveBatch([single]), 0, theta, fixed.active(theta), bool(statistics.definition))
    others = tuple(each for each in statistics.warnings if each not in on_bounds)
    return dataclasses.replace(outcome, kinks=tuple(sorted(kinks))), dataclasses.replace(statistics, warnings=others)


def _kink_note(objective: Objective, kinks: Sequence[int], has_errors: bool) -> str:
    """Return a sentence on the parameters that end at a kink of the loss, and on whether they have standard errors."""
    listed = format_names([objective.layout.element_names[k] for k in kinks], "`")
    verb, no_errors = "ends at a kink", "it has no standard error"
    if len(kinks) > 1:
        verb, no_errors = "end at kinks", "they have no standard errors"
    errors = "standard errors hold on one side of it only" if has_errors else no_errors
    return f"{listed} {verb} of the loss (from abs, max, relu or where); {errors}"


def doubt_warning(objective: Objective, outcome: Outcome, statistics: ComputedStatistics) -> str:
    """Return the warning that a fit is doubtful; empty if it is not.

    It is doubtful if another frequency explains far more, if the residuals are not random, or if the best frequency of
    pure noise would explain as much; families lack the last of these tests. The fit of a negative log-likelihood from
    starting values of the user is doubtful if another minimum is more likely.
    """
    if (likelier := _likelier_fit(objective, outcome)) is not None:
        gain = (objective.value(outcome.theta) - objective.value(likelier)) * objective.total_weight
        starts = minimization.format_starts(objective, likelier)
        return (
            f"this fit is doubtful: another minimum has a log-likelihood that is {gain:.3g} higher; start from {starts}"
        )
    explained, share = 0.0, "this fit is doubtful:"
    if has_r_squared := objective.kind in (LossKind.SQUARES, LossKind.ROBUST):
        known = statistics.r_squared or compute_statistics(objective, outcome.theta).r_squared
        if objective.kind is LossKind.ROBUST:
            known = goodness.robust_r_squared(objective, outcome.theta)
        explained = math.inf if known is None else known
        share += f" it explains {float(f'{100 * max(explained, 0):.2g}'):g} % of the target's variation, and"
    enough = optimization.RESTARTS.poor_r_squared if objective.is_network else optimization.RESTARTS.perfect_r_squared
    if not explained < enough:
        return ""
    if (better := _better_frequency_fit(objective, outcome)) is not None:
        starts = minimization.format_starts(objective, better, symmetries.Sinusoids(objective).frequencies)
        return f"{share} another frequency explains far more; start from {starts}"
    structure, sigmas = residual_structure(objective, outcome.theta), goodness.RESIDUALS.systematic_sigmas
    if structure > sigmas and not goodness.has_equal_scatter(objective, outcome.theta, statistics.scatter_trend):
        structure = residual_structure(objective, outcome.theta, has_equal_scatter=False)
    if structure > sigmas:
        is_convex = objective.is_linear or objective.is_generalised_linear
        other = "another model" if is_convex else "other starting values, or another model,"
        errors = ", and the standard errors are probably too small" * bool(statistics.definition)
        return (
            f"this fit is doubtful: neighbouring residuals are alike ({structure:.2g} standard errors from a random "
            f"order); {other} may fit better{errors}"
        )
    if not has_r_squared:
        return ""
    count = _scanned_frequencies(objective)
    chance = min(1.0, count * (1 - max(explained, 0.0)) ** ((objective.rows - objective.layout.size) / 2))
    if not chance > optimization.RESTARTS.chance_of_noise:
        return ""
    # Sinusoids of several frequencies may fit so few rows.
    limit = minimization.MINIMIZATION.few_rows_per_parameter * objective.layout.size
    if objective.target_count <= limit:
        return f"{share} so few rows do not determine the frequency"
    return f"{share} the best of {count} frequencies does so in pure noise with probability {chance:.1g}"


def _scanned_frequencies(objective: Objective) -> int:
    """Return the number of independent frequencies that a fit chooses from; 0 if the user gave a start for each."""
    names, user_starts = objective.layout.element_names, objective.user_starts
    sinusoids = symmetries.Sinusoids(objective)
    grids = sinusoids.frequency_grids(objective.start, 1, SETTINGS.max_frequencies, objective.bounds)
    return sum(len(grid.values) for grid in grids if names[grid.parameter] not in user_starts)


def _likelier_fit(objective: Objective, outcome: Outcome) -> Array | None:
    """Return a likelier fit of a negative log-likelihood than the fit from the user's starting values; else None."""
    if not (objective.is_likelihood and objective.user_starts and outcome.converged):
        return None
    unset = copy_with(objective.with_rows(objective.data), user_starts=frozenset())
    fitted = optimization.BatchedFit(ObjectiveBatch([unset]), "lbfgs", FitOptions(), starts=outcome.theta[None])
    fitted.restart_likelihoods_at_random()
    return minimization.best_alternative(objective, outcome, fitted.theta)


def _better_frequency_fit(objective: Objective, outcome: Outcome) -> Array | None:
    """Return a fit with other frequencies that is far better than the fit from the user's frequencies; else None."""
    names, user_starts = objective.layout.element_names, objective.user_starts
    is_checked = user_starts and objective.has_residuals
    if not is_checked or user_starts.isdisjoint([names[k] for k in symmetries.Sinusoids(objective).frequencies]):
        return None
    every = objective.layout.mask(objective.scalar_parameters)
    # A steep curve makes effective variances large, so that its residuals look small.
    batch, start = ObjectiveBatch([_without_x_errors(objective)]), outcome.theta[None]
    (candidate,) = multistart(batch, start, every, 0, SETTINGS.check, Multistart.frequency_points)
    if candidate is None:
        return None
    (gain,) = minimization.rank_gains(batch, start, candidate.end[None])
    dispersion = compute_statistics(batch.objective, candidate.end, with_goodness=True).dispersion or 1.0
    return candidate.end if gain > optimization.RESTARTS.frequency_gain * max(dispersion, 1.0) else None


def _loss_notes(objective: Objective) -> list[str]:
    """Return a note if the parameters are a posterior mode, or if squares of residuals are no likelihood of 0 and 1.

    Numbers from 0 to 1 are all 0 or 1 exactly if their variance is the product of their mean and 1 minus their mean.
    """
    if objective.has_priors:
        free = [name for name in objective.parameters if name not in objective.priors]
        flat = f"; {format_names(free, '`')} {'has' if len(free) == 1 else 'have'} a flat one" if free else ""
        return [f"the parameters are the posterior mode; losses include the priors{flat}"]
    if objective.kind is LossKind.SQUARES and objective.model.program.output.op is sigmoid:
        low, high, weight, means, squares = objective.target_spreads
        if low.min() == 0 and high.max() == 1 and np.allclose(squares, weight * means * (1 - means), atol=0):
            return ["all targets are 0 or 1; if the prediction is a probability, --loss bce fits it by its likelihood"]
    return []


_RANDOM_EFFECTS = (
    "the random effects are integrated out by Laplace's approximation; residuals and predictions are at their modes"
)
_POSTERIOR_MEANS = "the priors are hierarchical: the parameters are the means of the draws from the posterior"
_HIERARCHICAL = (
    "the priors are hierarchical, and the mode of their joint density is not a useful estimate: it pulls the "
    "parameters together; draw from the posterior with --posterior 1000"
)


RANGES = "ranges of predictors"  # the key of the ranges in an objective's cache; see `Objective.cached`


def numeric_predictors(model: Model) -> tuple[str, ...]:
    """Return the names of the predictors that are numbers."""
    return tuple(name for name in model.predictors if name in model.numeric)


def _predictor_ranges(objective: Objective) -> dict[str, tuple[float, float]]:
    """Return the minimum and maximum of each predictor that is a number."""
    names = numeric_predictors(objective.model)
    if not names:
        return {}
    low, high, *_ = objective.column_spreads
    ends = dict(zip(objective.read_columns, zip(low.tolist(), high.tolist(), strict=True), strict=True))
    return {name: ends[name] for name in names}


def _no_minimum_note(objective: Objective, theta: Array, statistics: ComputedStatistics) -> str:
    """Return the reason why the end of a fit is not a minimum; empty if it may be one.

    Either rounding errors decide the fit, or no parameter has an effect there, or undetermined terms, such as two bends
    at one place, are far larger than the target and cancel each other.
    """
    losses, check = np.array([objective.mean_square(statistics.rss or 0.0)]), minimization.are_rounding_errors
    if objective.cached_at("rounding", theta, lambda: bool(check(repeat_objective(objective, 1), theta[None], losses))):
        return "not converged: where the fit ended, rounding errors of large terms that cancel change the residuals"
    if objective.kind is not LossKind.SQUARES or not statistics.missing_error_reasons or objective.is_penalised:
        return ""
    slopes = np.linalg.norm(objective.triangle(theta)[:, :-1], axis=0)
    nearby = theta + 1e-3 * (1 + np.abs(theta))
    if not slopes.any() and statistics.rss and objective.value(nearby) == objective.value(theta):
        return _FLAT
    largest = _CANCELLATION * math.sqrt(objective.target_variation()) or math.inf
    names = [objective.layout.element_names[k] for k in np.flatnonzero(slopes * np.abs(theta) > largest)]
    return f"the terms of {format_names(names, '`')} grow without bound and cancel each other" if names else ""


_CANCELLATION = 1e6  # size of terms, relative to the variation of the target, above which they cancel each other
_FLAT = "not converged: no parameter has an effect where the fit ended; choose other starting values or smaller steps"


def fit_settings(objective: Objective, options: FitOptions) -> FitSettings:
    """Return the settings of a fit that matter for predictions."""
    weights, sigma, *x_sigmas = (
        canonical_name(str(option)) if isinstance(option, str | float | int) else None
        for option in (options.weights, options.sigma, *options.x_errors.values())
    )
    known = objective.is_likelihood, objective.is_weighted, weights, sigma, options.absolute_sigma, objective.family
    return FitSettings(*known, options.sigma is not None, dict(zip(options.x_errors, x_sigmas, strict=True)))


def _canonical_outcome(objective: Objective, method: str, outcome: Outcome) -> tuple[Outcome, list[str]]:
    """Return the outcome at its canonical point, and a sentence for each choice; see `canonical_parameters`."""
    if not outcome.converged or method not in ("lm", "lbfgs") or objective.is_network or objective.is_penalised:
        return outcome, []
    theta, notes = symmetries.canonical_parameters(objective, outcome.theta)
    if not objective.constraints.are_met(theta):
        theta, notes = outcome.theta, []
    ordered = symmetries.order_terms(objective, theta[None])[0]
    notes += [symmetries.TERMS_NOTE] if (ordered != theta).any() else []
    return dataclasses.replace(outcome, theta=ordered) if notes else outcome, notes


def left_out(objective: Objective) -> list[str]:
    """Return a sentence for each reason for which rows of the data are left out."""
    whose = " of all groups" * (objective.groups is not None)
    reasons = {"a cell is missing": objective.data.dropped, "their weight is 0": objective.zero_weight_rows}
    return [f"rows{whose} left out because {reason}: {count}" for reason, count in reasons.items() if count]


def _penalty_value(objective: Objective, theta: Array) -> float | None:
    """Return the sum of the penalties in the loss; None without a penalty."""
    if not objective.is_penalised:
        return None
    factors = objective.settings
    if objective.has_priors:
        unit = objective.scale**2 if objective.kind is LossKind.SQUARES else 1.0
        return -factors[PRIOR_FACTOR] * unit * float(objective.log_priors(theta[None])[0])
    return float(np.sum(factors[L1_FACTOR] * np.abs(theta) + factors[L2_FACTOR] * np.square(theta)))


def _loss_value(objective: Objective, method: str, outcome: Outcome, statistics: FitStatistics) -> float:
    """Return the mean loss over all rows, from the sum of squares if it is computed already."""
    rss = statistics.rss if method == "lm" and not objective.is_penalised else None
    return objective.value(outcome.theta) if rss is None else objective.mean_square(rss)


def _without_x_errors(objective: Objective) -> Objective:
    """Return an objective without the variance that errors in x cause."""
    return copy_with(objective, settings={**objective.settings, X_ERROR_FACTOR: 0.0})


def _start_without_x_errors(objective: Objective, method: str, options: FitOptions, progress: Progress) -> Objective:
    """Return the objective with the start at the end of a fit without errors in x, if that fit succeeds.

    A steep model far from the solution has a large effective variance, which makes its residuals look small. So a fit
    with errors in x from the given start could end on a curve that is steep everywhere. Only the fit without these
    errors is searched for better minima.
    """
    search = Progress()
    outcome = optimization.optimize_multistart(method, _without_x_errors(objective), options, search)
    if outcome.failure:
        return objective
    progress.notes += search.notes
    return copy_with(objective, start=outcome.theta)

"""Goodness of fit: quantiles of distributions, significance tests, scales of residuals, accuracy, information criteria
and likelihoods of families.

`goodness_of_fit` computes the figures of a fit as a whole. Sums over rows are folds of small picklable functions, so
that they run block by block, also on a cluster.
"""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array, Mask, ignore_float_errors
from autodiff_cli.backends.reductions import eigh
from autodiff_cli.data.json_records import IF_KNOWN, NOT_IN_DOCUMENT
from autodiff_cli.numbers.float_functions import erfinv
from autodiff_cli.numbers.gamma_functions import betainc, gammaincc
from autodiff_cli.ops.functions import sigmoid
from autodiff_cli.ops.structural import softmax
from autodiff_cli.training.losses import COUNT_LOSSES, LossKind
from autodiff_cli.training.objective.batch import Batch, GatheredRows
from autodiff_cli.training.objective.objective import Objective, describe_row
from autodiff_cli.training.result import row_figures as row_sums
from autodiff_cli.training.result.row_figures import LikelihoodSums, RowFigures, likelihood_sums, residual_figures
from autodiff_cli.training.rows import WEIGHT, ColumnArrays, MemoryRows

_NORMAL_LIMIT_DOF = 1e7  # degrees of freedom: beyond, Student's t equals the normal distribution in double precision


def normal_quantile(level: float) -> float:
    """Return the half-width, in standard deviations, of the central interval with probability `level` of a normal
    distribution.

    >>> round(normal_quantile(0.95), 6)
    1.959964
    """
    return math.sqrt(2) * erfinv(level)


@functools.lru_cache(1024)
def student_quantile(level: float, dof: float) -> float:
    """Return the half-width of the central interval with probability `level` of Student's t distribution.

    >>> round(student_quantile(0.95, 10), 6)
    2.228139
    """
    if dof > _NORMAL_LIMIT_DOF:
        return normal_quantile(level)
    tail = 1 - level
    low, high = 0.0, 1.0
    while student_tail(high, dof) > tail:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if student_tail(middle, dof) > tail else (low, middle)
    return high


def student_tail(size: float, dof: float) -> float:
    """Return the two-sided tail probability of Student's t distribution.

    >>> round(student_tail(2.228139, 10), 6)
    0.05
    """
    square = size * size
    return betainc(dof / 2, 0.5, dof / (dof + square), 1.0 if square == math.inf else square / (dof + square))


def chi_squared_tail(value: float, dof: float) -> float:
    """Return the upper tail probability of the chi-squared distribution.

    >>> round(chi_squared_tail(18.307, 10), 5)
    0.05
    """
    return gammaincc(dof / 2, value / 2)


def fisher_tail(ratio: float, above: float, below: float) -> float:
    """Return the upper tail probability of the F distribution with `above` and `below` degrees of freedom.

    >>> round(fisher_tail(4.10282, 2, 10), 5)
    0.05
    """
    total = below + above * ratio
    return betainc(below / 2, above / 2, below / total, above * ratio / total)


DRAWN = "standard deviations of the draws from the posterior"  # the definition of standard errors of means of draws
MAX_RHAT = 1.01  # largest R-hat of chains that agree: Vehtari et al. 2021, Bayesian Analysis 16, 667


class ParameterPosterior(NamedTuple):
    """The summary of the draws of a number: mean, standard deviation, quantiles, effective sample sizes and R-hat.

    The diagnostics follow Vehtari et al. 2021, Bayesian Analysis 16, 667.
    """

    mean: float
    sd: float
    q05: float
    median: float
    q95: float
    ess_bulk: float
    ess_tail: float
    rhat: float

    @property
    def has_converged(self) -> bool:
        """Whether the chains agree, as far as R-hat tells."""
        return self.rhat <= MAX_RHAT


class SignificanceTest(NamedTuple):
    """A test whether parameters are needed.

    Attributes:
        name: `F` or `likelihood ratio`.
        statistic: F, or twice the difference of the log-likelihoods.
        dof: the degrees of freedom: two numbers for F, else one.
        p: the probability of a larger statistic if the parameters are not needed.
    """

    name: str
    statistic: float
    dof: tuple[int, ...]
    p: float


def significance_test(gain: float, extra: int, unit: float | None, dof: int) -> SignificanceTest:
    """Return the F-test, or for a known variance the likelihood-ratio test, of parameters that lower the deviance.

    Args:
        gain: the decrease of the deviance.
        extra: the number of the parameters.
        unit: the estimated variance or dispersion, with `dof` degrees of freedom; None if it is known.
    """
    gain = max(gain, 0.0)
    if unit is None:
        return SignificanceTest("likelihood ratio", gain, (extra,), chi_squared_tail(gain, extra))
    ratio = gain / extra / unit
    return SignificanceTest("F", ratio, (extra, dof), fisher_tail(ratio, extra, dof))


MAD_TO_STD = 1.482602218505602  # standard deviation of a normal distribution, divided by its median absolute deviation


class ResidualSettings(NamedTuple):
    """Thresholds and sample sizes for tests of residuals."""

    min_rows: int = 10  # rows: with fewer, the similarity of neighbours is not conclusive
    max_sampled_rows: int = 200_000  # rows; of more, a random sample is examined
    median_margin: float = 0.01  # rank, as a share of the rows, by which a median of the sample may be off
    structure_rows: int = 20_000  # rows of the random sample in which structure is searched, if there are more
    structure_blocks: int = 200  # means of neighbouring residuals in which structure is searched, if rows are more
    systematic_sigmas: float = 3.5  # standard errors from randomness: a chance of 1 in 4000
    max_pearson_variance: float = 6.0  # mean variance of squared Pearson residuals, 2 if normal; of rare events more
    suspect_sigmas: float = 2.5  # standard errors above which it is worth looking for a better fit
    outlying_target: float = 3.0  # distance of a target from the median, in median distances; 1.4 at the top of a sine
    max_design_rows: int = 10_000  # rows on which a constant is compared with the span of a model
    max_sorted_rows: int = 1_000_000  # rows whose residuals are kept in memory and sorted for quantiles
    overdispersion_p: float = 2.3e-4  # p-value of overdispersion below which it is reported: 3.5 standard errors
    min_overdispersion: float = 1.2  # dispersion above which it matters: standard errors are 10 % too small


RESIDUALS = ResidualSettings()


def unweighted_residuals(objective: Objective, theta: Array) -> Array:
    """Return target minus prediction, of shape (components, rows); for families the Pearson residuals."""
    evaluate = functools.partial(objective.evaluate_rows, theta=theta)
    return objective.cached_at(
        "residuals", theta, lambda: row_sums.residuals_of(objective, objective.kernels, evaluate)
    )


def robust_scale(objective: Objective, theta: Array) -> float:
    """Return the robust standard deviation of the weighted residuals: 1.4826 · MAD, consistent for normal residuals.

    >>> round(robust_scale(Objective("y ~ a", {"y": [1, 2, 3, 4, 100]}), np.array([3.0])), 4)
    1.4826
    """
    if objective.rows <= RESIDUALS.max_sampled_rows:
        return float(MAD_TO_STD * np.median(_absolute_residuals(objective, theta)))
    sample, margin = subsample(objective), RESIDUALS.median_margin
    low, high = np.quantile(_absolute_residuals(sample, theta), (0.5 - margin, 0.5 + margin))
    return float(MAD_TO_STD * _median_between(objective, theta, float(low), float(high)))


def influence_norms(batch: Batch, theta: Array, ranks: NDArray[np.intp] | int) -> tuple[Array, Array]:
    """Return for each robust fit s·K·sqrt(Σψ²), and mean(ψ'). Their ratio takes the place of the norm of the residuals
    of least squares, by the first of the covariances of Huber 1981, Robust Statistics, section 7.6.

    K = 1 + p/n·var(ψ')/mean(ψ')² corrects it for few rows, with p parameters, of which the data determine `ranks`
    combinations. The mean is nan if it or s is not positive.
    """
    objectives = [batch.objective_of(fit) for fit in range(len(theta))]
    sums = np.array([each.sum_rows(each.kernels.influence, at) for each, at in zip(objectives, theta, strict=True)])
    mean, mean_square = (sums[:, 1:] / batch.target_counts[:, None]).T
    correction = 1 + ranks / batch.target_counts * (mean_square / np.square(mean) - 1)
    is_convex = (mean > 0) & (batch.scales > 0)
    return batch.scales * np.sqrt(sums[:, 0]) * correction, np.where(is_convex, mean, math.nan)


def subsample(objective: Objective, most: int = RESIDUALS.max_sampled_rows) -> Objective:
    """Return an objective over a random sample of the rows, if there are more than `most`; few rows are loaded."""
    is_loaded = objective.rows <= most and isinstance(objective.data, MemoryRows)
    return objective if is_loaded else objective.select_rows(sampled_rows(objective.rows, most))


def sampled_rows(rows: int, most: int) -> NDArray[np.intp]:
    """Return the numbers of a random sample of rows; of all rows if there are at most `most`."""
    if rows <= most:
        return np.arange(rows)
    drawn = np.sort(np.random.default_rng(0).integers(0, rows, most))
    return drawn[np.diff(drawn, prepend=-1) > 0]  # np.unique takes several times the memory


def without_outliers(objective: Objective) -> Objective:
    """Return the objective over a sample of the rows, without those whose target is far from the median."""
    sample = subsample(objective)
    targets = sample.evaluate_rows(sample.kernels.target, sample.start)
    distances = np.abs(targets - np.median(targets, axis=1, keepdims=True)).max(axis=0)
    return sample.select_rows(np.flatnonzero(distances <= RESIDUALS.outlying_target * np.median(distances)))


def robust_r_squared(objective: Objective, theta: Array) -> float:
    """Return the share of the variance of the target that the prediction explains, with variances from medians instead
    of means.

    >>> from autodiff_cli.training.objective.objective import Objective, describe_row
    >>> columns = {"x": [1, 2, 3, 4, 5], "y": [1.1, 2, 2.9, 4, 500]}
    >>> round(robust_r_squared(Objective("y ~ a*x", columns), np.array([1.0])), 3)
    0.992
    """
    sample = subsample(objective)
    scale, target = robust_scale(sample, theta), sample.evaluate_rows(sample.kernels.target, theta)
    spread = float(np.median(_magnitudes(target - np.median(target, axis=1, keepdims=True), _weights(sample))))
    return 1 - (scale / (MAD_TO_STD * spread)) ** 2 if spread > 0 else math.nan


def _absolute_residuals(objective: Objective, theta: Array) -> Array:
    """Return the absolute weighted residuals of all rows."""
    return _magnitudes(unweighted_residuals(objective, theta), _weights(objective))


def _weights(objective: Objective) -> Array | None:
    return objective.column(WEIGHT) if objective.is_weighted else None


def _magnitudes(values: Array, weights: Array | None) -> Array:
    """Return the absolute values of all rows, times the roots of the weights."""
    return np.abs(values if weights is None else values * np.sqrt(weights))


def residuals_between(low: float, high: float, block: Array, columns: ColumnArrays) -> tuple[int, int, Array]:
    """Return the number of residuals of a block, how many absolute weighted ones are below two bounds, and those
    between them.
    """
    magnitudes = _magnitudes(block, columns.get(WEIGHT))
    between = magnitudes[(magnitudes >= low) & (magnitudes <= high)]
    return magnitudes.size, int(np.count_nonzero(magnitudes < low)), between


def join_between(a: tuple[int, int, Array], b: tuple[int, int, Array]) -> tuple[int, int, Array]:
    """Return the counts and residuals of two blocks together."""
    return a[0] + b[0], a[1] + b[1], np.concatenate((a[2], b[2]))


def _median_between(objective: Objective, theta: Array, low: float, high: float) -> float:
    """Return the median absolute weighted residual, which lies between two bounds with a chance of error below 1e-15.
    Only residuals between them are kept in memory.
    """
    if math.isnan(low):
        return math.nan
    reduce = functools.partial(residuals_between, low, high)
    count, below, between = objective.fold_rows(objective.kernels.residuals, theta, reduce, join_between)
    first, last = (count - 1) // 2 - below, count // 2 - below
    if first < 0 or last >= len(between):
        return float(np.median(_absolute_residuals(objective, theta)))
    middle = np.partition(between, (first, last))
    return float((middle[first] + middle[last]) / 2)


# --- Accuracy


def classification_accuracy(objective: Objective, theta: Array) -> float | None:
    """Return the share of rows whose class is predicted correctly; for probabilities, those on the correct side of 1/2.
    Returns None if the model does not predict classes.

    >>> objective = Objective("t ~ sigmoid(a*x)", {"x": [-0.2, 1, 2], "t": [0, 1, 0]}, loss="bce")
    >>> round(classification_accuracy(objective, np.array([1.0])), 4)
    0.6667
    """
    if objective.classes is not None:
        confusion = objective.confusion(theta)
        return float(np.trace(confusion) / np.sum(confusion))
    if objective.loss != "bce" or objective.components != 1:
        return None
    kernel = objective.kernels.target_and_prediction
    invalid, correct, count = objective.fold_rows(kernel, theta, _count_correct, np.add)
    return None if invalid else float(correct / count)


def _count_correct(values: Array, _: ColumnArrays) -> NDArray[np.intp]:
    """Return the number of targets other than 0 and 1, of correctly predicted rows, and of all rows of a block."""
    target, prediction = values
    invalid = np.count_nonzero((target != 0) & (target != 1))
    return np.array([invalid, np.count_nonzero((prediction > 0.5) == (target > 0.5)), len(target)])


def roc_curve(objective: Objective, theta: Array) -> tuple[float, dict[str, Array]] | None:
    """Return the area under the receiver operating characteristic, and the curve, of a model of two classes; None for
    other models and very many rows.

    The curve has the rates of true and false positives if rows with a probability of at least each threshold are called
    positive. Points on a straight line are left out.

    >>> objective = Objective("t ~ sigmoid(a*x)", {"x": [-1, 1, 2], "t": [0, 1, 0]}, loss="bce")
    >>> round(roc_curve(objective, np.array([1.0]))[0], 4)
    0.5
    """
    is_binary = objective.loss == "bce" and objective.components == 1
    if not (is_binary or len(objective.classes or ()) == 2) or objective.rows > RESIDUALS.max_sorted_rows:
        return None
    target, *_, score = objective.evaluate_rows(objective.kernels.target_and_prediction, theta)
    weight = objective.column(WEIGHT) if objective.is_weighted else np.ones_like(target)
    order = np.argsort(-score, kind="stable")
    is_last = np.append(np.diff(score[order]) != 0, True)  # the last of rows with equal scores
    true, false = (np.append(0.0, np.cumsum(weight[order] * (target[order] == label))[is_last]) for label in (1, 0))
    if not (np.isin(target, (0, 1)).all() and np.isfinite(score).all() and true[-1] > 0 and false[-1] > 0):
        return None
    up, right = np.diff(true), np.diff(false)
    is_corner = np.append(True, np.append(up[1:] * right[:-1] != up[:-1] * right[1:], True))
    true, false = true / true[-1], false / false[-1]
    area = float(np.sum(np.diff(false) * (true[1:] + true[:-1]) / 2))
    threshold = np.append(np.inf, score[order][is_last])
    points = {"false_positive_rate": false, "true_positive_rate": true, "threshold": threshold}
    return area, {name: values[is_corner] for name, values in points.items()}


# --- Separated classes


class SeparationSettings(NamedTuple):
    """When classes count as separated by a model."""

    certain_row_loss: float = 1e-8  # loss of a row whose class is predicted with certainty
    diverging_error_ratio: float = 10.0  # standard errors per value of a parameter that goes to infinity
    min_share: float = 0.1  # share of a parameter in directions without curvature above which it may go to infinity
    compared_step: float = 0.9  # relative step towards 0 at which the likelihood is compared
    min_likelihood_cost: float = 0.1  # log-likelihood lost in a step of 1/10 standard error: 0.005 near a maximum


SEPARATION = SeparationSettings()


def has_no_finite_minimum(objective: Objective, theta: Array) -> bool:
    """Return whether a point where a method stopped without convergence is on the way to a minimum at infinity.

    With scores that are linear in the parameters, the loss is convex and not negative. If it has no minimum, it keeps
    falling in some direction in which the predictions of some rows become certain.
    """
    return _is_convex(objective) and bool(_count_certain_rows(objective, theta))


def find_separation(objective: Objective, theta: Array) -> tuple[str, Mask]:
    """Find parameters without a finite estimate: the model separates classes, or predicts counts of 0 with certainty.

    Returns:
        A sentence on them, which is empty if there are none, and the mask of the parameters without a meaningful error.
    """
    none, every = np.zeros(len(theta), np.bool_), np.ones(len(theta), np.bool_)
    if objective.loss not in ("bce", "cross_entropy", *COUNT_LOSSES) or objective.is_network or objective.is_penalised:
        return "", none
    certain_rows = _count_certain_rows(objective, theta)
    if not certain_rows:
        return "", none
    if objective.components == 1 and objective.classes is None and objective.target_variation() == 0:
        y = f"{objective.target_spreads.means[0]:g}"
        return f"all targets are {y}, so the best mean is {y} in each row: the parameters are meaningless", every
    diverging = _diverging_parameters(objective, theta)
    complete = classification_accuracy(objective, theta) == 1
    if complete and not diverging.any() and _is_convex(objective):
        diverging = every  # any multiple of these parameters is better
    if not diverging.any():
        return "", none
    names = [name for name, elements in objective.layout.slices.items() if diverging[elements].any()]
    listed = ", ".join(f"`{name}`" for name in names)
    rows = "1 row is" if certain_rows == 1 else f"{certain_rows} rows are"
    separated = "classes completely" if complete else "some rows completely from those of other classes"
    meaningless = "the values" if complete else "the values of such parameters"
    cause = f"the model separates {separated} ({rows} predicted with certainty)"
    if objective.loss in COUNT_LOSSES:
        cause = f"the best mean is 0 ({rows} predicted to be 0 with certainty)"
    sentence = f"{cause}: {listed} would go to infinity, so {meaningless} are meaningless"
    return sentence, every if complete else diverging


def _diverging_parameters(objective: Objective, theta: Array) -> Mask:
    """Return the mask of the parameters that go to infinity.

    Judged by its slope and curvature, the likelihood would hardly change if such a parameter, together with others,
    became nearly 0; in fact it falls. The first is true of a parameter near 0 as well, and of both parameters of a
    ratio, but the second is not. Flat directions are compared with the sizes of the parameters, because the rank of the
    curvature would depend on rounding.
    """
    sizes, diverging = np.abs(theta), np.zeros(len(theta), np.bool_)
    loss, gradient = objective.value_and_grad(theta)
    hessian = objective.hessian(theta) * sizes[:, None] * sizes
    slopes = np.abs(gradient * sizes) * objective.total_weight
    if not (np.isfinite(hessian).all() and (slopes < SEPARATION.min_likelihood_cost).all()):
        return diverging
    curvatures, directions = eigh(hessian)
    flat = directions[:, curvatures < SEPARATION.diverging_error_ratio**-2]
    projection = flat @ flat.T
    for k in np.flatnonzero(np.diag(projection) > SEPARATION.min_share).tolist():
        step = sizes * projection[k] * (np.sign(theta[k]) / projection[k, k])
        rise = objective.value(theta - SEPARATION.compared_step * step) - loss
        diverging[k] = rise * objective.total_weight > SEPARATION.min_likelihood_cost
    return diverging


def _is_convex(objective: Objective) -> bool:
    """Return whether the loss is convex: a sigmoid or softmax of linear scores, without a penalty."""
    output = objective.model.program.output
    is_linear_classifier = objective.loss in ("bce", "cross_entropy") and output.op in (sigmoid, softmax)
    return is_linear_classifier and objective.is_generalised_linear and not objective.is_penalised


def _count_certain_rows(objective: Objective, theta: Array) -> int:
    """Return the number of rows whose class is predicted with certainty."""
    return int(objective.fold_rows(objective.kernels.row_loss, theta, _count_certain, operator.add))


def _count_certain(loss: Array, _: ColumnArrays) -> int:
    """Return the number of losses of certain predictions in a block."""
    return int((np.abs(loss) < SEPARATION.certain_row_loss).sum())


# --- Goodness of fit


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # arrays have no truth value to compare by
class GoodnessOfFit:
    """The goodness of a fit. Figures that do not apply are None.

    Attributes:
        adjusted_r_squared: R² with variances in place of sums of squares.
        rmse: the root mean (weighted) square of the residuals: √(rss/n).
        reduced_chi_squared: rss/dof.
        log_likelihood: the log-likelihood of the data. For least squares it is normal, with known variances if sigma is
            absolute, otherwise with the maximum likelihood variance divided by the weights.
        aic, aicc, bic: the information criteria of `log_likelihood`; see `criteria_parameters`.
        chi_squared_p: the probability of a larger chi-squared, if sigma is absolute.
        deviance: twice the difference in log-likelihood to a perfect fit.
        null_deviance: the deviance of a model that predicts the mean.
        pearson_chi_squared: the sum of squared residuals, each divided by the variance that the family gives it.
        dispersion: Pearson's estimate of the dispersion: `pearson_chi_squared/dof`.
        overdispersion_p: the probability of a larger `pearson_chi_squared` if counts or proportions have the variance
            of their family.
        log_prior: the log-density of the priors at the estimate, which `log_likelihood` does not include.
        non_integers: the number of targets that are not the whole numbers that their family needs. Then there is no
            likelihood, so that `log_likelihood` and the information criteria are None.
        theta, theta_stderr: the maximum likelihood estimate of theta of negative binomial counts, whose variance is
            `mean + mean²/theta`, and its standard error.
        null_test: the test against a constant; see `null_test`.
        durbin_watson: the Durbin–Watson statistic, if the rows are sorted by the only predictor; 2 if neighbours are
            independent.
        residual_quantiles: the minimum, lower quartile, median, upper quartile and maximum.
        residual_std: the standard deviation of the residuals: √(rss/dof); of robust fits without outliers.
        largest_residual: the size of the largest weighted residual.
        scatter_trend: the rank correlation of the sizes of residuals with the prediction, in standard errors.
    """

    adjusted_r_squared: float | None = None
    rmse: float | None = None
    reduced_chi_squared: float | None = None
    log_likelihood: float | None = None
    aic: float | None = None
    aicc: float | None = None
    bic: float | None = None
    chi_squared_p: float | None = field(default=None, metadata=IF_KNOWN)
    deviance: float | None = field(default=None, metadata=IF_KNOWN)
    null_deviance: float | None = field(default=None, metadata=IF_KNOWN)
    pearson_chi_squared: float | None = field(default=None, metadata=IF_KNOWN)
    dispersion: float | None = field(default=None, metadata=IF_KNOWN)
    overdispersion_p: float | None = field(default=None, metadata=IF_KNOWN)
    log_prior: float | None = field(default=None, metadata=IF_KNOWN)
    theta: float | None = field(default=None, metadata=IF_KNOWN)
    theta_stderr: float | None = field(default=None, metadata=IF_KNOWN)
    null_test: SignificanceTest | None = field(default=None, metadata=IF_KNOWN)
    durbin_watson: float | None = field(default=None, metadata=IF_KNOWN)
    residual_quantiles: tuple[float, float, float, float, float] | None = field(default=None, metadata=IF_KNOWN)
    residual_std: float | None = field(default=None, metadata=NOT_IN_DOCUMENT)
    largest_residual: float = field(default=0.0, metadata=NOT_IN_DOCUMENT)
    scatter_trend: float = field(default=0.0, metadata=NOT_IN_DOCUMENT)
    non_integers: int = field(default=0, metadata=NOT_IN_DOCUMENT)


def goodness_of_fit(
    objective: Objective,
    theta: Array,
    residual_norm: float | None,
    dof: int,
    rank: int,
    absolute_sigma: bool,
    rows: RowFigures | None = None,
) -> dict[str, Any]:
    """Return the known figures of `GoodnessOfFit`, by name, of a fit that ended at `theta`.

    Args:
        residual_norm: the root of the sum of squares; None without residuals.
        dof, rank: see `FitStatistics`.
        absolute_sigma: whether the weights are 1/σ² of known errors.
        rows: the figures of all rows; by default they are computed.
    """
    if residual_norm is not None and not math.isfinite(residual_norm):  # the loss is not defined here
        return {}
    if objective.has_priors:
        of_maxima = ("aic", "aicc", "bic", "chi_squared_p", "overdispersion_p", "null_test")
        plain = objective.without_penalty()
        figures = goodness_of_fit(plain, theta, residual_norm, dof, rank, absolute_sigma, rows)
        return {**figures, **dict.fromkeys(of_maxima), "log_prior": float(objective.log_priors(theta[None])[0])}
    # The number of parameters of a network does not measure its complexity, and a penalised estimate does not maximise
    # the likelihood.
    has_likelihood, count = not (objective.is_network or objective.is_penalised), dof + rank
    with ignore_float_errors():
        if objective.kind is LossKind.LIKELIHOOD:
            return {} if objective.is_network else _likelihood_fit(objective, theta, dof, rank, rows)
        if residual_norm is None or (objective.kind is LossKind.OTHER and has_likelihood):
            return {}
        of_residuals = rows.residuals if rows else _residual_summary(objective, theta, rank)
        if objective.kind is LossKind.ROBUST or not has_likelihood:
            return {"rmse": residual_norm / math.sqrt(count), **of_residuals}
        has_scaled_residuals = objective.kernels.graphs.has_scaled_residuals
        variation = objective.target_variation() if rows is None else rows.variation
        log_weights = rows.log_weights if rows else sum_log_weights(objective) if objective.is_weighted else 0.0
        k = criteria_parameters(objective, rank, absolute_sigma)
        # Each target has its own mean.
        variance = 0.0 if has_scaled_residuals else variation / max(count - objective.components, 1)
        of_sum = _least_squares_goodness(residual_norm, count, dof, k, variance, absolute_sigma, log_weights)
        figures = {**of_residuals, **of_sum}
        if objective.kernels.graphs.x_errors:
            # The weights depend on the parameters, so the sum of squares is not a likelihood.
            return figures | dict.fromkeys(("log_likelihood", "aic", "aicc", "bic"))
        if not has_scaled_residuals:
            unit = None if absolute_sigma else figures["reduced_chi_squared"]
            gain = variation - residual_norm * residual_norm
            figures["null_test"] = null_test(objective, theta, gain, unit, dof, rank, rows)
        return figures


def criteria_parameters(objective: Objective, rank: int, absolute_sigma: bool) -> int:
    """Return the number of parameters that information criteria count: those that the data determine, and the variance,
    the dispersion or theta if it is estimated.
    """
    estimates_variance = objective.kind is LossKind.SQUARES and not absolute_sigma
    estimates_theta = objective.has_theta and objective.is_scale_estimated
    return rank + (estimates_variance or objective.has_dispersion or estimates_theta)


def _least_squares_goodness(
    residual_norm: float, count: int, dof: int, k: int, variance: float, absolute_sigma: bool, sum_log_weights: float
) -> dict[str, Any]:
    """Return the figures of a least-squares fit that follow from its sum of squares, by name.

    Args:
        residual_norm, dof, absolute_sigma: see `goodness_of_fit`.
        count: the number of target values in rows with a positive weight.
        k: the number of parameters that information criteria count.
        variance: the variance of the target; 0 if it is not meaningful.
        sum_log_weights: the sum of the logarithms of the weights, a part of the likelihood.
    """
    log_variance = 2 * math.log(residual_norm) - math.log(count) if residual_norm != 0 else -math.inf
    spread = residual_norm * residual_norm if absolute_sigma else count * (log_variance + 1)
    log_likelihood = (sum_log_weights - spread - count * math.log(2 * math.pi)) / 2
    residual_std = residual_norm / math.sqrt(dof) if dof > 0 else None
    reduced = None if residual_std is None else residual_std * residual_std
    return {
        "rmse": residual_norm / math.sqrt(count),
        "residual_std": residual_std,
        "adjusted_r_squared": None if reduced is None or not variance else 1 - reduced / variance,
        "reduced_chi_squared": reduced,
        "chi_squared_p": chi_squared_tail(residual_norm * residual_norm, dof) if absolute_sigma and dof > 0 else None,
        **information_criteria(log_likelihood, k, count),
    }


def sum_log_weights(objective: Objective) -> float:
    """Return the sum of the logarithms of the weights, counted once per target component."""
    return float(objective.fold_columns({WEIGHT}, _block_log_weights, operator.add)) * objective.components


def _block_log_weights(columns: ColumnArrays) -> float:
    """Return the sum of the logarithms of the weights of a block."""
    return float(np.sum(np.log(columns[WEIGHT])))


def _likelihood_fit(objective: Objective, theta: Array, dof: int, rank: int, rows: RowFigures | None) -> dict[str, Any]:
    """Return the figures of a maximum likelihood fit; of a penalised one only whether its target is valid."""
    k, count = criteria_parameters(objective, rank, absolute_sigma=False), dof + rank
    if objective.classes is not None or not objective.has_target:
        if objective.is_penalised:
            return {}
        log_likelihood = -objective.value(theta) * objective.total_weight
        return {"deviance": -2 * log_likelihood, **information_criteria(log_likelihood, k, count)}
    sums = likelihood_sums(objective, theta) if rows is None else rows.sums
    non_integers = 0 if objective.is_quasi else int(sums.non_integers)
    if objective.is_penalised:
        return {"non_integers": non_integers}
    # Weights of counts may be frequencies or exposures. The best likelihood of single trials is 1.
    has_trials = objective.loss == "bce" and sums.log_likelihood + sums.deviance < 0
    is_tested = has_trials or (objective.loss == "poisson" and not objective.is_weighted)
    has_likelihood = not (objective.is_quasi or non_integers)
    figures = count_figures(sums, dof, is_tested=is_tested and has_likelihood)
    if objective.has_theta:
        shape = objective.scale
        slopes = functools.partial(row_sums.theta_slopes, objective.components, shape, None)
        information = float(objective.fold_rows(objective.kernels.target_and_prediction, theta, slopes, np.add)[1])
        if not objective.is_scale_estimated:
            figures["theta"] = shape
        elif objective.target_spreads.high.max() > 0:  # counts of 0 alone are equally likely for every theta
            error = 1 / math.sqrt(information) if information > 0 else None
            figures |= {"theta": shape, "theta_stderr": error} if shape < row_sums.MAX_THETA else {"theta": math.inf}
    unit, gain = figures["dispersion"] if objective.has_dispersion else None, 2 * (sums.null_deviance - sums.deviance)
    if objective.has_theta and objective.is_scale_estimated:  # deviances for different theta cannot be compared
        null = likelihood_sums(objective, theta, of_constant=True)
        gain = 2 * (sums.log_likelihood - null.log_likelihood - null.deviance + null.null_deviance)
    figures |= information_criteria(sums.log_likelihood, k, count) if has_likelihood else {}
    test = null_test(objective, theta, gain, unit, dof, rank, rows) if sums.null_deviance > 0 else None
    return {**figures, "non_integers": non_integers, "null_test": test}


def rank_with_constant(objective: Objective) -> int:
    """Return the rank of a model that is linear up to its link if it contains a constant, and 0 otherwise.

    Examples of a constant are `a` in `exp(a + b*x)`, and the parameters of all levels of a column. Of very many rows, a
    sample is examined. The derivatives are taken where all parameters are 0, because no link is flat there.
    """
    if not row_sums.can_have_constant(objective):
        return 0
    count = min(objective.rows, RESIDUALS.max_design_rows)
    sample = objective.select_rows(np.arange(count) * objective.rows // count)
    columns = sample.evaluate_rows(objective.kernels.prediction_and_jacobian, np.zeros(objective.layout.size))
    rows = GatheredRows(sample.column, np.array([count]), is_weighted=False)
    return int(row_sums.ranks_with_constant(rows, columns)[0])


def null_test(
    objective: Objective, theta: Array, gain: float, unit: float | None, dof: int, rank: int, rows: RowFigures | None
) -> SignificanceTest | None:
    """Return the test of a model against a constant, by how much it lowers the deviance; see `significance_test`. None
    if a constant is not a special case of the model, or if the rank where all parameters are 0 is another one.
    """
    if not (rank > 1 and dof > 0 and unit != 0) or objective.bounds.active(theta).any():
        return None
    is_nested = rank == (rank_with_constant(objective) if rows is None else rows.rank_with_constant)
    return significance_test(gain, rank - 1, unit, dof) if is_nested else None


def count_figures(sums: LikelihoodSums, dof: int, *, is_tested: bool) -> dict[str, Any]:
    """Return the deviances, Pearson's chi-squared with the dispersion, and the test of overdispersion.

    The test compares chi-squared with its mean and variance under the family, so it holds for small counts, too.
    """
    score = (sums.pearson - dof) / math.sqrt(sums.pearson_variance) if sums.pearson_variance > 0 else 0.0
    return {
        "deviance": 2 * sums.deviance,
        "null_deviance": 2 * sums.null_deviance,
        "pearson_chi_squared": sums.pearson,
        "dispersion": sums.pearson / dof if dof > 0 else None,
        "overdispersion_p": math.erfc(score / math.sqrt(2)) / 2 if is_tested and dof > 0 else None,
    }


def family_warnings(goodness: GoodnessOfFit, loss: str | None) -> list[str]:
    """Return the warnings that the target does not follow its family.

    Counts may not be whole numbers, counts or proportions may scatter clearly more than their family allows, and
    negative binomial counts no more than Poisson counts.
    """
    if goodness.non_integers:
        values, counts, advice = "targets", "counts", "--family quasipoisson"
        if loss == "bce":
            values, counts = "products of weight and target", "numbers of successes"
            advice = "the numbers of trials as --weights, or --family quasibinomial"
        return [
            f"not all {values} are whole numbers, as {counts} are: there is no likelihood, and the standard errors "
            f"assume the variance of {counts}; use {advice}"
        ]
    if goodness.theta == math.inf:
        return ["theta has no finite estimate: the counts scatter no more than Poisson counts; use --family poisson"]
    dispersion, p = goodness.dispersion or 0.0, goodness.overdispersion_p
    if p is None or p > RESIDUALS.overdispersion_p or not RESIDUALS.min_overdispersion <= dispersion < math.inf:
        return []
    subject, advice = "counts scatter more than Poisson counts", "quasipoisson or negative_binomial"
    if loss == "bce":
        subject, advice = "proportions scatter more than binomial ones", "quasibinomial"
    return [
        f"the {subject}: the dispersion is {dispersion:.3g} instead of 1, so the standard errors are too small by a "
        f"factor of {math.sqrt(dispersion):.2g}; use --family {advice}"
    ]


def has_equal_scatter(objective: Objective, theta: Array, scatter_trend: float) -> bool:
    """Whether residuals have the same variance in all rows, and no heavy tails, as those of rare events have.

    Args:
        scatter_trend: see `GoodnessOfFit`.
    """
    if objective.loss in row_sums.DISTRIBUTIONS:
        count = objective.target_count
        return bool(likelihood_sums(objective, theta).pearson_variance <= RESIDUALS.max_pearson_variance * count)
    return objective.kind is not LossKind.OTHER and not abs(scatter_trend) > RESIDUALS.systematic_sigmas


def scatter_warnings(objective: Objective, theta: Array, goodness: GoodnessOfFit, dof: int) -> list[str]:
    """Return warnings about an outlier and about unequal scatter, which standard errors do not take into account.

    The scatter is unequal if residuals are larger where predictions are large, or small.

    The largest residual is compared with the standard deviation of all other residuals, corrected for their number
    (Bonferroni).
    """
    if not goodness.residual_std or dof < 2 or objective.kind is LossKind.ROBUST:
        return []
    size, sentences = goodness.largest_residual / goodness.residual_std, []
    distance = size * math.sqrt((dof - 1) / (dof - size * size)) if size * size < dof else math.inf
    limit = RESIDUALS.overdispersion_p / objective.rows
    # The normal distribution, which is much faster, has lighter tails than Student's.
    if math.erfc(distance / math.sqrt(2)) < limit and student_tail(distance, dof - 1) < limit:
        row = int(np.argmax(_absolute_residuals(objective, theta).max(axis=0)))
        sentences.append(
            f"{describe_row(objective, row)} is an outlier: its residual is {distance:.3g} standard deviations of the "
            "other residuals; check it, or use a robust loss, such as --loss huber"
        )
    elif abs(goodness.scatter_trend) > RESIDUALS.systematic_sigmas:
        where = "large" if goodness.scatter_trend > 0 else "small"
        sentences.append(
            f"the residuals scatter more where predictions are {where} ({abs(goodness.scatter_trend):.2g} standard "
            "errors from equal scatter), but the standard errors assume equal scatter; weight the rows, for example by "
            "--sigma or --weights"
        )
    return sentences


def information_criteria(log_likelihood: float, k: int, count: int) -> dict[str, Any]:
    """Return AIC (Akaike 1974), AICc for few rows (Hurvich & Tsai 1989) and BIC (Schwarz 1978)."""
    aic = 2 * k - 2 * log_likelihood
    return {
        "log_likelihood": log_likelihood,
        "aic": aic,
        "aicc": aic + 2 * k * (k + 1) / (count - k - 1) if count > k + 1 else math.inf,
        "bic": k * math.log(count) - 2 * log_likelihood,
    }


def _residual_summary(objective: Objective, theta: Array, rank: int) -> dict[str, Any]:
    """Return the figures that need every residual; of many rows only a standard deviation, of networks none."""
    if objective.is_network or objective.rows > RESIDUALS.max_sorted_rows:
        is_robust = objective.kind is LossKind.ROBUST and not objective.is_network
        of_sample = _residual_summary(subsample(objective, RESIDUALS.structure_rows), theta, rank) if is_robust else {}
        return {name: value for name, value in of_sample.items() if name == "residual_std"}
    residuals, sizes = unweighted_residuals(objective, theta), np.array([objective.rows])
    rows = GatheredRows(objective.table.columns.__getitem__, sizes, is_weighted=objective.is_weighted)
    of_rows = objective.evaluate_rows(objective.kernels.target_and_prediction, theta)
    [figures] = residual_figures(objective, rows, residuals, of_rows[objective.components :], np.array([rank]))
    if objective.kernels.graphs.has_scaled_residuals:  # residuals are in units of their errors
        del figures["residual_quantiles"]
    return figures

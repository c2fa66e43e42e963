"""Inference after a fit: derived quantities, profile intervals and bootstrap intervals.

- Derived quantities such as `half = ln(2)/b` have standard errors by the delta method: for a quantity with gradient g
and parameters with covariance C, the variance is gᵀ·C·g to first order. The gradient is exact.
- A profile interval holds all values of a parameter for which the best fit is not significantly worse: Bates & Watts
1988, Nonlinear Regression Analysis, section 6.1. In a linear model its limits are those from the standard error.
- The bootstrap fits resamples of the rows, drawn with replacement; its intervals are percentiles,
or corrected ones (BCa): Efron & Tibshirani 1993, An Introduction to the Bootstrap, sections 9.5, 13.3 and 14.3.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array, ignore_float_errors
from autodiff_cli.backends.reductions import block_slices
from autodiff_cli.backends.selection import evaluate
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import ShapeError, ShapeInference, leaf_names, substitute, topological_order
from autodiff_cli.language.errors import ExpressionError, UnknownNameError, format_names, given_by, shape_error, suggest
from autodiff_cli.language.lexer import is_name
from autodiff_cli.language.program import Program
from autodiff_cli.numbers.float_functions import erfinv
from autodiff_cli.options import OptionError
from autodiff_cli.training.fitting.minimization import comparison_losses, meet_constraints, project_linear
from autodiff_cli.training.fitting.optimization import refit, refit_rows
from autodiff_cli.training.fitting.starts import SETTINGS, Effort
from autodiff_cli.training.fitting.symmetries import find_jumps, jump_gaps
from autodiff_cli.training.losses import LossKind
from autodiff_cli.training.methods.gradient_descent import StoppingRule
from autodiff_cli.training.methods.least_squares import linear_mask
from autodiff_cli.training.objective.batch import repeat_objective
from autodiff_cli.training.objective.model import Model, quote_level_names
from autodiff_cli.training.objective.objective import Objective, copy_with
from autodiff_cli.training.objective.parameters import ParameterLayout, read_with_parameters
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.result.fitted_model import DerivedQuantity, FittedModel
from autodiff_cli.training.result.statistics import FitStatistics, delta_method_variances, flat_errors, undetermined
from autodiff_cli.training.rows import RowIndex

DerivedValues = dict[str, DerivedQuantity]
_CONSTRAINT = "a constraint: an order of parameters, or a sum of shares"
_NO_INTERVALS = "a network's parameters have no intervals, because hidden units are interchangeable"


class DerivedQuantities:
    """Derived quantities of a model as graphs of its parameters.

    Args:
        quantities: their texts by name. They may use parameters, names that the model binds (unless these depend on a
            column), and earlier quantities.
        layout: the layout of the free parameters.

    Raises:
        ExpressionError: for text that cannot be parsed, an unknown name, or an array.
        OptionError: for a quantity that has the name of something else.
    """

    def __init__(self, quantities: Mapping[str, str], model: Model, layout: ParameterLayout) -> None:
        self._layout, self._shapes = layout, dict(model.shapes)
        self._leaves = [model.program.leaves[name] for name in layout.names]
        graphs: dict[str, Node] = {}
        for name, text in quantities.items():
            if name in (*model.columns, *model.parameters, *model.program.bound) and name != text:
                raise OptionError(f"`{name}` is a name of the model: rename the derived quantity")
            with given_by("derive"):
                graphs[name] = self._build_graph(text, model, graphs)
        self.names = tuple(graphs)
        self._values = [*graphs.values()]
        self._gradients = [s for value in self._values for s in gradient_nodes(value, self._leaves, self._shapes)]
        nodes = topological_order([*self._values, *self._gradients])
        self._leaf_names = {node.text for node in nodes if node.is_input}

    def _build_graph(self, text: str, model: Model, earlier: Mapping[str, Node]) -> Node:
        """Return the graph of one quantity, given the earlier ones."""
        declared = {name for name in (*model.parameters, *model.program.bound, *earlier) if is_name(name)}
        program = read_with_parameters(quote_level_names(text, (*model.parameters, *model.program.bound)), declared)
        if program.target is not None:
            raise ExpressionError("a derived quantity must not have `~`", text)
        replacements = {leaf: _resolve_name(name, program, model, earlier) for name, leaf in program.leaves.items()}
        output = substitute([program.output], replacements)[0]
        try:
            shape = ShapeInference(self._shapes).infer(output)
        except ShapeError as error:
            raise shape_error(error, program.source) from None
        if shape:
            raise ExpressionError(f"a derived quantity is a number, but `{text}` is an array; sum it or index it")
        return output

    def values(self, point: Mapping[str, Any]) -> Array:
        """Return the values of the quantities for parameter values by name."""
        return np.array([float(value) for value in self.batch_values(point).values()])

    def batch_values(self, point: Mapping[str, Any]) -> dict[str, Array]:
        """Return the values of the quantities by name, for arrays of values of the parameters."""
        with ignore_float_errors():
            return dict(zip(self.names, self._evaluate(self._values, point) if self.names else (), strict=True))

    def jacobian(self, point: Mapping[str, Any]) -> Array:
        """Return the derivatives with respect to all free elements, of shape (quantities, P)."""
        with ignore_float_errors():
            derivatives = self._evaluate(self._gradients, point)
        pairs = zip(derivatives, itertools.cycle(self._layout.shapes.values()), strict=False)
        elements = [np.broadcast_to(slope, shape).ravel() for slope, shape in pairs]
        return np.concatenate(elements).reshape(len(self.names), -1)

    def _evaluate(self, nodes: list[Node], point: Mapping[str, Any]) -> list[Array]:
        return evaluate(nodes, {name: value for name, value in point.items() if name in self._leaf_names}, self._shapes)


def _resolve_name(name: str, program: Program, model: Model, earlier: Mapping[str, Node]) -> Node:
    """Return the node that a name in a quantity stands for. Raises ExpressionError if there is none."""
    if name in earlier:
        return earlier[name]
    if name in model.parameters:
        return model.program.leaves[name]
    bound, start = model.program.bound.get(name), program.source.start(program.leaves[name])
    if bound is None and name not in model.columns:
        names = [*model.parameters, *model.program.bound, *earlier]
        message = f"the model has no parameter `{name}` for a derived quantity; it has {format_names(names, '`')}"
        raise UnknownNameError(message, program.text, start, suggest(name, names))
    columns = [] if bound is None else [leaf for leaf in leaf_names([bound]) if leaf in model.row_leaves]
    if bound is None or columns:
        reason = f"depends on the column `{columns[0]}`" if columns else "is a column"
        message = f"`{name}` {reason}, but a derived quantity is one number for all rows"
        raise ExpressionError(message, program.text, start)
    return bound


def estimate_quantities(
    quantities: DerivedQuantities, point: Mapping[str, Any], statistics: FitStatistics
) -> tuple[DerivedValues, list[str]]:
    """Return the values and standard errors of quantities, and a sentence for each unknown error.

    Args:
        point: the values of all parameters, including fixed ones.
        statistics: the statistics of the free parameters.
    """
    if not quantities.names:
        return {}, []
    values, slopes = quantities.values(point), quantities.jacobian(point)
    errors = flat_errors(statistics.stderr, point)
    standard_errors = np.sqrt(delta_method_variances(slopes, statistics, errors)).tolist()
    estimates, warnings = DerivedValues(), list[str]()
    for k, name in enumerate(quantities.names):
        value, error = float(values[k]), standard_errors[k] if math.isfinite(standard_errors[k]) else None
        if not math.isfinite(value):
            warnings.append(f"the derived quantity `{name}` is {value} at the solution")
        elif error is None and not np.isnan(errors).all():
            warnings.append(f"`{name}` has no standard error: a variance that it depends on is unknown")
        elif error == 0 and any(quantities.values(each)[k] != value for each in _shifted(point, statistics.stderr)):
            error = None
            warnings.append(f"`{name}` has no standard error: it jumps within the errors of the parameters")
        estimates[name] = {"value": value, "stderr": error}
    return estimates, warnings


def _shifted(point: Mapping[str, Any], stderr: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield points with one parameter moved down or up by two standard errors, which is about its 95 % interval."""
    for name, error in stderr.items():
        for factor in () if error is None else (-2, 2):
            yield {**point, name: point[name] + factor * np.nan_to_num(error)}


class ProfileSettings(NamedTuple):
    """Settings of the search for profile intervals."""

    max_parameters: int = 50  # parameters: each needs dozens of fits
    max_outward_steps: int = 48  # steps away from the estimate; each is at most twice the last
    steps_to_limit: int = 4  # steps to the limit of a straight profile
    near_zero: float = 1e-3  # a value, relative to the estimate, that is tried before the sign changes
    flat_rise: float = 1e-6  # rise over a step, relative to the threshold, of a flat profile
    flat_steps: int = 5  # flat steps, each twice as long as the one before, after which a profile stays flat
    jump_tolerance: float = 1e-4  # relative distance from the threshold at which the profile jumps over it
    max_evaluations: int = 200  # evaluations of a fit by Levenberg-Marquardt
    jump_gaps: int = 100  # gaps between rows, the nearest and some of the others, to which a jump is moved on each side
    largest: float = 1e300  # size of a parameter above which it counts as infinite
    max_root_steps: int = 80  # steps of the root search for a limit
    root_tolerance: float = 1e-8  # relative error of the rise at a limit
    better_fit_tolerance: float = 1e-6  # fall of the deviance, in squared standard errors, of a better fit


PROFILE = ProfileSettings()


def check_profile(objective: Objective) -> None:
    """Raise OptionError for an objective without meaningful profiles."""
    if objective.is_network:
        raise OptionError(f"profile: {_NO_INTERVALS}")
    if objective.kind not in (LossKind.SQUARES, LossKind.LIKELIHOOD) or objective.classes is not None:
        problem = "classes" if objective.classes is not None else f"the loss {objective.loss or 'of this model'}"
        raise OptionError(f"profile needs least squares or a likelihood, not {problem}; use bootstrap instead")
    if objective.is_penalised:
        raise OptionError("profile needs a likelihood, which a penalised fit does not have; use bootstrap")
    if (count := objective.layout.size) > PROFILE.max_parameters:
        raise OptionError(f"profile handles at most {PROFILE.max_parameters} parameters, not {count}; use bootstrap")


class BetterFit(Exception):  # noqa: N818 - a better fit is no error
    """A profile found a fit that is better than the estimate.

    Attributes:
        element: the name of the number whose profile it was.
        theta: the better fit.
    """

    def __init__(self, element: str, theta: Array) -> None:
        super().__init__(f"there is a better fit: {element}")
        self.element, self.theta = element, theta


def profile_intervals(objective: Objective, theta: Array, fit: FittedModel) -> tuple[Array, Array, list[str]]:
    """Return the profile intervals of all free elements around the fit that ended at `theta`, at the confidence level
    of the fit.

    Returns:
        The limits, of shape (P,), infinite where no fit is significantly worse and nan where unknown; and a sentence
        for each limit that is infinite, unknown or on a bound.

    Raises:
        BetterFit: if there is one.
    """
    low, high, warnings = np.full(len(theta), math.nan), np.full(len(theta), math.nan), list[str]()
    rise, unit = fit.quantile(), math.nan if fit.is_perfect else _standard_error_unit(objective, fit)
    if not (unit > 0 and math.isfinite(rise)):
        return low, high, ["no profile intervals: the residual variance is unknown"]
    objective = copy_with(objective, is_scale_estimated=False)  # negative binomial counts keep their theta
    with ignore_float_errors():
        for element in range(len(theta)):
            profile = _Profile(objective, theta, fit, element, unit)
            low[element], high[element] = profile.limits(rise, fit.confidence_level)
            warnings += profile.warnings
    return low, high, warnings


def _standard_error_unit(objective: Objective, fit: FittedModel) -> float:
    """Return the rise of the deviance for one standard error: 1 if it is twice a log-likelihood."""
    if objective.kind is LossKind.SQUARES and fit.interval_dof is not None:
        return math.nan if fit.rss is None or fit.dof <= 0 else fit.rss / fit.dof
    return (fit.dispersion or math.nan) if objective.has_dispersion else 1.0


def _deviance(objective: Objective, theta: Array) -> float:
    """Return the sum of squares, or minus twice the log-likelihood up to a constant."""
    if objective.kind is LossKind.SQUARES:
        return float(np.sum(np.square(objective.triangle(theta)[:, -1])))
    return 2 * objective.value(theta) * objective.total_weight * objective.components


class _Profile:
    """The profile of one element: the root of the rise of the best fit with the element fixed, in standard errors.

    Attributes:
        name: the name of the element.
        warnings: a sentence for each limit that is missing or on a bound.
    """

    def __init__(self, objective: Objective, theta: Array, fit: FittedModel, element: int, unit: float) -> None:
        self._objective, self._theta, self._element, self._unit = objective, theta, element, unit
        self.name = objective.layout.element_names[element]
        self._minimum = _deviance(objective, theta)
        self._error, self._changes = fit.errors[element], np.nan_to_num(fit.correlation[element] * fit.errors)
        self._initial_step = self._error if self._error > 0 else 0.1 * abs(float(theta[element])) or 1.0
        self._solutions: dict[float, Array] = {float(theta[element]): theta}  # the best fits so far, by the fixed value
        self._linear = linear_mask(objective, (np.arange(len(theta)) != element) & (objective.kind is LossKind.SQUARES))
        self.warnings: list[str] = []
        self._is_searched = False

    def limits(self, rise: float, level: float) -> tuple[float, float]:
        """Return both limits, where the profile reaches a height; nan if they are unknown.

        The profile of a jump is a step at each row. At the true place of the jump, its height has the distribution of
        Hansen 2000, Econometrica 68, 575, theorem 2, at the given probability.
        """
        groups = [group for group in find_jumps(self._objective) if self._element in [jump.parameter for jump in group]]
        if not groups or self._error > 0:
            return self._endpoint(-1, rise), self._endpoint(1, rise)
        if len(groups) > 1:
            self.warnings.append(f"no profile interval for `{self.name}`: it moves several jumps, or shares one")
            return math.nan, math.nan
        gaps = jump_gaps(groups[0], self._objective, self._theta, PROFILE.jump_gaps)
        height = math.sqrt(-2 * math.log1p(-math.sqrt(level)))
        reason = "a jump at the end of the data fits nearly as well"
        likely = [gap for gap in gaps.tolist() if self._root_deviance(sum(gap) / 2) <= height]
        low = likely[0][0] if likely[0][0] > gaps[0, 0] else self._no_limit(-1, reason)
        return low, likely[-1][1] if likely[-1][1] < gaps[-1, 1] else self._no_limit(1, reason)

    def _endpoint(self, side: int, rise: float) -> float:
        """Return the lower (-1) or upper (1) limit, where the profile reaches a height; the bound if that comes
        first.

        The profile is followed in short steps, so that it stays on its branch. Beyond a pole of the model, there may be
        equally good fits with parameters of the other sign.
        """
        estimate = float(self._theta[self._element])
        limit = float((self._objective.bounds.low if side < 0 else self._objective.bounds.high)[self._element])
        if estimate == limit:
            return self._end_at(limit, f"its bound, {limit:g}")
        inner, inner_rise = estimate, 0.0
        longest = rise / PROFILE.steps_to_limit
        step, flat_steps = longest * self._initial_step, 0
        far = estimate + side * rise * self._initial_step
        self._root_deviance(far if side * far < side * limit else limit)  # only long steps reach another minimum
        for _ in range(PROFILE.max_outward_steps):
            outer = inner + side * step if side * (inner + side * step) < side * limit else limit
            # Values of both signs may fit, with infinity between them: `V` of `V*x/(K + x)` for straight data.
            for place in (estimate * PROFILE.near_zero, outer) if inner * outer < 0 else (outer,):
                outer, outer_rise = place, self._root_deviance(place)
                if outer_rise >= rise:
                    break
            if outer_rise >= rise:
                end, end_rise = self._find_root(inner, inner_rise, outer, outer_rise, rise)
                if abs(end_rise - rise) <= PROFILE.jump_tolerance * rise:
                    if not (end_rise := self._root_deviance_from_outside(end)) < (1 - PROFILE.jump_tolerance) * rise:
                        return end
                    inner, inner_rise, step = end, end_rise, longest * self._initial_step
                    continue
                # No continuous curve jumps, so a fit has failed. Others start all over the range, once.
                outer, outer_rise = end, math.inf
                if not self._is_searched:
                    outer_rise = self._best_root_deviance(end, self._theta[None], SETTINGS.thorough)
                    self._is_searched = True
                if not outer_rise < rise:
                    if abs(end) <= PROFILE.near_zero * abs(estimate):
                        return self._end_at(0.0, "0, beyond which fits fail or are far worse")
                    return self._no_limit(side, f"no fit succeeds beyond {end:.6g}")
            if outer == limit:
                return self._end_at(limit, f"its bound, {limit:g}")
            slope = (outer_rise - inner_rise) / abs(outer - inner)
            # Towards an asymptote below the threshold, steps double, so that the profile is followed far enough.
            reach = min(1.05 * (rise - outer_rise), longest) / slope if slope > 0 else math.inf
            step = min(2.0 * abs(outer - inner), max(reach, 0.25 * abs(outer - inner)))
            flat_steps = flat_steps + 1 if outer_rise - inner_rise <= PROFILE.flat_rise * rise else 0
            if flat_steps == PROFILE.flat_steps:
                if math.isinf(limit):
                    break
                step = math.inf  # to the bound
            inner, inner_rise = outer, outer_rise
        return self._no_limit(side, "its profile is flat")

    def _end_at(self, limit: float, description: str) -> float:
        """Warn that the interval ends where its profile does, and return that limit."""
        self.warnings.append(f"the profile interval of `{self.name}` ends at {description}")
        return limit

    def _no_limit(self, side: float, reason: str) -> float:
        """Warn that a side has no limit, and return the infinity that stands for it."""
        self.warnings.append(f"the data set no {'lower' if side < 0 else 'upper'} limit for `{self.name}`: {reason}")
        return side * math.inf

    def _find_root(
        self, inner: float, inner_rise: float, outer: float, outer_rise: float, rise: float
    ) -> tuple[float, float]:
        """Return the value at which the profile reaches a height, and its height there.

        Secants are used, because the curve is nearly straight, with bisection as a safeguard. If the profile jumps over
        the height, the value behind the jump is returned.
        """
        for number in range(1, PROFILE.max_root_steps):
            change = outer_rise - inner_rise
            # Secants alone may shorten one side without end.
            is_bisected = number % 4 == 0 or not (change and math.isfinite(change))
            share = 0.5 if is_bisected else min(max((rise - inner_rise) / change, 0.02), 0.98)
            middle = inner + (outer - inner) * share
            if abs(outer - inner) <= PROFILE.root_tolerance * abs(outer):
                break
            height = self._root_deviance(middle)
            if abs(height - rise) <= PROFILE.root_tolerance * rise:
                return middle, height
            if height < rise:
                inner, inner_rise = middle, height
            else:
                outer, outer_rise = middle, height
        return outer, outer_rise

    def _root_deviance(self, value: float) -> float:
        """Return the root of the rise of the deviance at a value; infinite where the model is not defined.

        Fits start from the nearest ones on both sides, and from where these lead.
        """
        sides = [x for x in self._solutions if x <= value], [x for x in self._solutions if x > value]
        nearest = [min(side, key=lambda x: abs(x - value)) for side in sides if side]
        step = (value - nearest[0]) / self._error if self._error > 0 else 0.0  # the others are correlated with it
        points = np.array([self._solutions[nearest[0]] + step * self._changes, *(self._solutions[x] for x in nearest)])
        if self._linear.any():
            bounds = self._objective.bounds.with_fixed(self._element, value)
            projected, _ = project_linear(self._objective, points, self._linear, bounds)
            points = projected if len(projected) else points
            if np.count_nonzero(self._linear) == len(self._theta) - 1:  # all of them are the same
                points = points[:1]
        return self._best_root_deviance(value, points)

    def _root_deviance_from_outside(self, value: float) -> float:
        """Return the root deviance at a limit, with fits from the other side of the estimate too.

        A better minimum often lies there. From now on, only the best of these fits is followed.
        """
        known = self._solutions[value]
        beyond = np.array([self._theta - share * (known - self._theta) for share in (0, 1, 4)])
        beyond[:, self._element], beyond[0] = value, known
        self._solutions = {float(self._theta[self._element]): self._theta}
        return self._best_root_deviance(value, beyond)

    def _best_root_deviance(self, value: float, starts: Array, effort: Effort | None = None) -> float:
        """Return the root deviance of the best fit at a value, from some starts moved to it and, with an effort, from
        others. Raises BetterFit for a fit better than the estimate.
        """
        bounds = self._objective.constraints.within(self._objective.bounds.with_fixed(self._element, value))
        starts = bounds.clip(starts)
        objective = copy_with(self._objective, bounds=bounds)
        stop = StoppingRule(evaluations=PROFILE.max_evaluations)
        outcomes = refit(repeat_objective(objective, len(starts)), starts, effort, are_all_searched=True, stop=stop)
        outcomes = [meet_constraints(objective, end, stop) for end in outcomes]
        ends = np.array([*(end.theta for end in outcomes if end.divergence is None), *starts])
        is_known = np.isfinite(comparison_losses(repeat_objective(self._objective, len(ends)), ends))
        is_known &= [np.abs(end).max() < PROFILE.largest and objective.constraints.are_met(end) for end in ends]
        deviances = np.where(is_known, [_deviance(self._objective, end) for end in ends], math.nan)
        if not np.isfinite(deviances).any():
            return math.inf
        best = int(np.nanargmin(deviances))
        theta, rise = ends[best], (deviances[best] - self._minimum) / self._unit
        self._solutions[value] = theta
        if rise < -PROFILE.better_fit_tolerance:
            raise BetterFit(self.name, theta)
        return math.sqrt(max(rise, 0.0))


# --- Bootstrap intervals


class BootstrapSettings(NamedTuple):
    """Settings of the bootstrap."""

    min_tail_resamples: int = 5  # resamples beyond a limit, below which it is unreliable
    max_blocks: int = 500  # blocks of rows that are left out one by one
    draw_rows: int = 2**17  # rows drawn at a time, which bounds the memory
    max_failed_share: float = 0.5  # share of failed resamples, beyond which there are no intervals


BOOTSTRAP = BootstrapSettings()


@dataclass(slots=True)
class BootstrapFits:
    """The fits of resamples.

    Attributes:
        thetas: the free parameters at the end of each converged fit, of shape (resamples, P).
        jackknife: the free parameters of fits without one row (or one block of many rows) each, of shape (n, P); None
            for percentile intervals.
        warnings: sentences on failed and missing resamples.
    """

    thetas: Array
    jackknife: Array | None = None
    warnings: list[str] = field(default_factory=list)

    def intervals(self, quantity: Callable[[Array], Array], theta: Array, level: float) -> tuple[Array, Array]:
        """Return the intervals of quantities; nan if there are no resamples.

        Args:
            quantity: the values of the quantities, of shape (n,), at a point.
            theta: the estimate.
            level: the probability.
        """
        estimate = quantity(theta)
        values = np.array([quantity(end) for end in self.thetas]).reshape(-1, len(estimate))
        shares = np.full((2, len(estimate)), [[(1 - level) / 2], [(1 + level) / 2]])
        if self.jackknife is not None and len(values):
            shares = _bca_shares(values, estimate, np.array([quantity(end) for end in self.jackknife]), shares[0, 0])
        ends = np.full((2, len(estimate)), math.nan)
        for k in np.flatnonzero(np.isfinite(shares).all(axis=0) & bool(len(values))).tolist():
            ends[:, k] = np.quantile(values[:, k], shares[:, k])
        return ends[0], ends[1]


def _bca_shares(values: Array, estimate: Array, jackknife: Array, tail: float) -> Array:
    """Return the shares of the resamples below both limits of bias-corrected and accelerated intervals, of shape
    (2, n): Efron & Tibshirani 1993, section 14.3.
    """
    with ignore_float_errors():
        gap, change = values - estimate, jackknife.mean(axis=0) - jackknife
        rounding = 1e-8 * np.median(np.abs(gap), axis=0) + 1e-14 * np.abs(estimate)  # many means of counts are equal
        below = np.mean(gap <= rounding, axis=0) / 2 + np.mean(gap < -rounding, axis=0) / 2
        acceleration = np.sum(change**3, axis=0) / (6 * np.sum(np.square(change), axis=0) ** 1.5)
        bias = math.sqrt(2) * np.vectorize(erfinv, otypes=[float])(2 * below - 1)
        shifted = bias + math.sqrt(2) * erfinv(1 - 2 * tail) * np.array([[-1.0], [1.0]])
        scores = bias + shifted / (1 - np.nan_to_num(acceleration) * shifted)
    return np.asarray(np.vectorize(math.erfc, otypes=[float])(-scores / math.sqrt(2)) / 2)


def bootstrap_fits(objective: Objective, theta: Array, count: int, options: FitOptions) -> BootstrapFits:
    """Fit `count` resamples, each from the start `theta`. A seed always draws the same rows."""
    generator, rows, tail = np.random.default_rng(options.seed), objective.rows, round((1 - options.confidence) / 2, 12)
    unknown = None if objective.is_penalised else undetermined(objective, theta)

    def converged_ends(samples: Iterator[RowIndex]) -> Array:
        """Return the parameters at the ends of the fits that converge, of shape (fits, P)."""
        ends = refit_rows(objective, theta, samples, unknown)
        return np.array([end.theta for end in ends if end.converged]).reshape(-1, len(theta))

    fits = BootstrapFits(converged_ends(_draw_row_counts(generator, rows) for _ in range(count)))
    failed = count - len(fits.thetas)
    if options.bootstrap_method == "bca" and rows > 1:
        blocks = np.array_split(generator.permutation(rows), min(rows, BOOTSTRAP.max_blocks))  # rows may be sorted
        fits.jackknife = converged_ends(np.isin(np.arange(rows), block, invert=True) for block in blocks)
        if lost := len(blocks) - len(fits.jackknife):
            cause = f"{lost} of {len(blocks)} fits, each without {'a row' if len(blocks) == rows else 'some rows'}"
            fits.warnings.append(f"{cause}, failed; bca intervals correct for skewness without them")
    if failed > BOOTSTRAP.max_failed_share * count:
        fits.thetas = fits.thetas[:0]
        fits.warnings.append(f"no bootstrap intervals: {failed} of {count} resamples could not be fitted")
    elif failed:
        effect = "; the intervals may be too narrow" if failed > tail * count else ""
        fits.warnings.append(f"{failed} of {count} bootstrap resamples could not be fitted and were ignored{effect}")
    if len(fits.thetas) and len(fits.thetas) * tail < BOOTSTRAP.min_tail_resamples:
        enough = math.ceil(round(BOOTSTRAP.min_tail_resamples / tail * count / len(fits.thetas), 6))
        few = f"{count} resamples are too few for reliable {100 * options.confidence:g} % intervals"
        fits.warnings.append(f"{few}; use --bootstrap {enough} or more")
    return fits


def _draw_row_counts(generator: np.random.Generator, rows: int) -> NDArray[np.uint8]:
    """Return how often each row occurs in a sample of as many rows. The counts fit into a byte."""
    counts = np.zeros(rows, np.uint8)
    for part in block_slices(rows, BOOTSTRAP.draw_rows):
        np.add.at(counts, generator.integers(rows, size=part.stop - part.start), 1)
    return counts


# --- Requested intervals


def check_intervals(objective: Objective, options: FitOptions) -> None:
    """Raise OptionError for requested intervals that the objective does not allow."""
    if options.profile:
        check_profile(objective)
    if options.bootstrap is not None and objective.is_network:
        raise OptionError(f"bootstrap: {_NO_INTERVALS}")


def add_intervals(
    fit: FittedModel, objective: Objective, options: FitOptions, quantities: DerivedQuantities
) -> FittedModel:
    """Return the fit with the requested profile and bootstrap intervals. The bootstrap includes derived quantities.

    Raises BetterFit if a profile meets a better fit.
    """
    if not options.profile and options.bootstrap is None:
        return fit
    intervals, warnings = dict[str, dict[str, Any]](), list[str]()
    theta = objective.layout.flatten([*fit.parameters.values()])
    on_constraint = f"the fit ends on {_CONSTRAINT}" if objective.constraints.active(theta) else ""
    if reason := on_constraint or ("" if fit.converged else "the fit did not converge"):
        return dataclasses.replace(fit, warnings=[*fit.warnings, f"no profile or bootstrap intervals: {reason}"])
    objective = copy_with(objective, bounds=objective.constraints.within(objective.bounds))
    if options.profile:
        low, high, warnings = profile_intervals(objective, theta, fit)
        intervals["profile"] = _intervals_by_name(objective, low, high)
    if options.bootstrap is not None:
        resampled, level = bootstrap_fits(objective, theta, options.bootstrap, options), fit.confidence_level
        low, high = resampled.intervals(lambda end: end, theta, level)
        is_unknown = np.isnan(fit.errors_on_bounds)
        if is_unknown.all():  # the loss may have no standard errors
            is_unknown &= not objective.is_penalised and (fit.dof <= 0 or undetermined(objective, theta))
        low[is_unknown] = high[is_unknown] = math.nan  # the ends of resamples depend on the start alone
        intervals["bootstrap"] = _intervals_by_name(objective, low, high)
        warnings += resampled.warnings
        if quantities.names:
            low, high = resampled.intervals(lambda end: quantities.values(objective.point(end)), theta, level)
            for name, *ends in zip(quantities.names, low.tolist(), high.tolist(), strict=True):
                has_none = is_unknown.any() and fit.derived[name]["stderr"] is None
                intervals["bootstrap"][name] = None if has_none or np.isnan(ends).any() else tuple(ends)
    return dataclasses.replace(fit, intervals=intervals, warnings=[*fit.warnings, *warnings])


def _intervals_by_name(objective: Objective, low: Array, high: Array) -> dict[str, Any]:
    """Return intervals as pairs by name, of arrays for arrays; None if neither limit is known."""
    lows, highs = objective.layout.values(low), objective.layout.values(high)
    return {name: None if np.isnan([lows[name], highs[name]]).all() else (lows[name], highs[name]) for name in lows}

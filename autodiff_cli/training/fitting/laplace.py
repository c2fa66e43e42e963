"""Random effects, integrated out of the likelihood by Laplace's approximation: Tierney & Kadane 1986, J. Am. Stat.
Assoc. 81, 82; Skaug & Fournier 2006, Comput. Stat. Data Anal. 51, 699.

An effect is written as `mean + deviation·b` with b standard normal. Laplace's approximation does not change under such
scaling, and a deviation of 0 is then a point like any other. At the parameters θ, with the modes b̂ of the joint
density, minus the marginal log-likelihood is

    Σ ℓ(θ, b̂) + |b̂|²/2 + log det H / 2,    H = 1 + ∂²Σℓ/∂b².

Its gradient follows from the implicit function theorem, with M = H⁻¹ and λ = M·∂/∂b tr(M·∂²Σℓ/∂b²)/2 as constants: that
of Σ ℓ + tr(M·∂²ℓ/∂b²)/2 - λ·∂ℓ/∂b. All derivatives are those of graphs of one row, which are compiled; levels share no
row, so that H has a block for each level of one column. Where columns cross, it is the one with the most levels, and
the others are in a Schur complement.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.algebra.simplify import simplify
from autodiff_cli.algebra.table import share
from autodiff_cli.array_types import Array
from autodiff_cli.backends.protocol import RowGraphs, RowKernel
from autodiff_cli.backends.selection import choose_backend, evaluate
from autodiff_cli.graph.gradient import gradient_nodes, tangent
from autodiff_cli.graph.node import Node, variable
from autodiff_cli.graph.op import ONE, ZERO
from autodiff_cli.graph.tape import leaf_names, substitute, topological_order
from autodiff_cli.language.errors import format_names
from autodiff_cli.numbers.arrays import ignore_float_errors
from autodiff_cli.ops.elementary import exp
from autodiff_cli.options import OptionError
from autodiff_cli.training.fitting.minimization import root_mean_square
from autodiff_cli.training.fitting.optimization import choose_method, optimize_multistart
from autodiff_cli.training.fitting.progress import Progress
from autodiff_cli.training.losses import LossKind
from autodiff_cli.training.methods.gradient_descent import Outcome
from autodiff_cli.training.methods.quasi_newton import fit_smooth
from autodiff_cli.training.objective.batch import Fits, ObjectiveBatch
from autodiff_cli.training.objective.objective import Objective, copy_with
from autodiff_cli.training.objective.parameters import Bounds, ParameterLayout
from autodiff_cli.training.objective.preparation import check_likelihood
from autodiff_cli.training.optimizers import Epoch
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.result.fitted_model import RandomEffect
from autodiff_cli.training.result.goodness import information_criteria
from autodiff_cli.training.result.prediction import RESIDUAL_SIGMAS
from autodiff_cli.training.result.statistics import ComputedStatistics, compute_statistics, inverse_hessians
from autodiff_cli.training.rows import WEIGHT, MemoryRows

_LOG_SIGMA = (
    "log sigma"  # the leaf of the logarithm of the residuals' standard deviation; no name in a text has a blank
)
_PASSES = 400  # over the rows, in a usual fit
_MAX_NEWTON_STEPS = 200
_LAST_STEP = 1e-6  # towards the modes, relative to the effects: Newton's method squares the error
_SMALLEST_STEP = 1e-12  # share of a Newton step
_MAX_CROSSED = 2000  # effects of all columns but the one with the most levels, whose Schur complement is dense
_DIFFERENCE = 1e-3  # step of differences of gradients, in standard errors
_FIRST_DIFFERENCE = 1e-4  # the same while standard errors are unknown, relative to the parameters

Index = NDArray[np.intp]


class _Rows(NamedTuple):
    """The loss of each row, with its first and second derivatives towards the effects of the row."""

    loss: Array
    slopes: Array
    curvatures: Array


class _Modes(NamedTuple):
    """The modes of the effects, the rows there, and the factored Hessian."""

    effects: Array
    rows: _Rows
    hessian: _Hessian


class EffectIndex:
    """The positions of the effects of each row in the vector of all effects, those of the largest column first.

    Args:
        columns: the column of levels of each term.
        codes: the level of each row, by term.
        counts: the number of levels, by term.
    """

    def __init__(self, columns: Sequence[str], codes: Sequence[Index], counts: Sequence[int]) -> None:
        sizes = dict(zip(columns, counts, strict=True))
        largest = max(sizes, key=lambda column: sizes[column])
        self.first = [k for k, column in enumerate(columns) if column == largest]
        self.levels, self.width = sizes[largest], len(self.first)
        self.starts, self.strides = [0] * len(columns), [1] * len(columns)
        end = self.levels * self.width
        for k, count in enumerate(counts):
            if k in self.first:
                self.starts[k], self.strides[k] = self.first.index(k), self.width
            else:
                self.starts[k], end = end, end + count
        self.size, self.crossed = end, end - self.levels * self.width
        self.counts = counts
        places = zip(self.starts, self.strides, codes, strict=True)
        self.rows: Index = np.array([start + stride * code for start, stride, code in places])
        # Levels of a single column are independent given the parameters, so that each takes its own steps.
        self.part_of_row = codes[self.first[0]] if not self.crossed else np.zeros_like(codes[0])
        parts = np.arange(self.levels) if not self.crossed else np.zeros(self.levels, np.intp)
        self.part_of_effect = np.concatenate((np.repeat(parts, self.width), np.zeros(self.crossed, np.intp)))
        self.pairs = [(a, b) for a in range(len(columns)) for b in range(a, len(columns))]

    def positions(self, term: int) -> Index:
        """Return the positions of the effects of a term, by level."""
        return self.starts[term] + self.strides[term] * np.arange(self.counts[term])

    def sum_by_effect(self, values: Array) -> Array:
        """Return the sums over rows for each effect, of values of shape (terms, rows)."""
        total = np.zeros(self.size)
        for rows, own in zip(self.rows, values, strict=True):
            total += np.bincount(rows, own, self.size)
        return total


class _Hessian:
    """1 plus the second derivatives of the summed loss towards the effects, in factored form: blocks A of the levels of
    the largest column, the Schur complement of the others, and W = A⁻¹·B.

    Attributes:
        log_determinant: the logarithm of its determinant; nan if it is not positive definite.
    """

    def __init__(self, index: EffectIndex, curvatures: Array) -> None:
        self._index = index
        levels, width, crossed, split = index.levels, index.width, index.crossed, index.levels * index.width
        blocks = np.zeros((levels, width, width))
        between, corner = np.zeros((split, crossed)), np.zeros((crossed, crossed))
        for (a, b), values in zip(index.pairs, curvatures, strict=True):
            first, second = (a, b) if a in index.first else (b, a)
            rows, others = index.rows[first], index.rows[second]
            if first in index.first and second in index.first:
                i, j = index.first.index(first), index.first.index(second)
                blocks[:, i, j] += (own := np.bincount((rows - i) // width, values, levels))
                blocks[:, j, i] += own if i != j else 0.0
            elif first in index.first:
                flat = rows * crossed + others - split
                between += np.bincount(flat, values, split * crossed).reshape(split, crossed)
            else:
                flat = (rows - split) * crossed + others - split
                own = np.bincount(flat, values, crossed * crossed).reshape(crossed, crossed)
                corner += own if a == b else own + own.T
        blocks[:, range(width), range(width)] += 1
        corner[range(crossed), range(crossed)] += 1
        self._inverse, signs, logarithms = self._inverted(blocks)
        self._between = (self._inverse @ between.reshape(levels, width, crossed)).reshape(split, crossed)
        self._corner, sign, logarithm = self._inverted((corner - between.T @ self._between)[None])
        is_definite = bool((signs > 0).all() and (sign > 0).all())
        self.log_determinant = float(logarithms.sum() + logarithm.sum()) if is_definite else math.nan

    @staticmethod
    def _inverted(matrices: Array) -> tuple[Array, Array, Array]:
        """Return inverses of symmetric matrices, with curvatures made positive so that steps descend, the least sign of
        a curvature, and the logarithms of the determinants.
        """
        if not np.isfinite(matrices).all():
            return np.full_like(matrices, np.nan), -np.ones(len(matrices)), np.zeros(len(matrices))
        if matrices.shape[1] == 1:  # the usual case
            curvatures, directions = matrices[:, 0], np.ones_like(matrices)
        else:
            curvatures, directions = np.linalg.eigh(matrices)
        sizes = np.maximum(np.abs(curvatures), 1e-8)
        inverses = (directions / sizes[:, None, :]) @ directions.swapaxes(1, 2)
        return inverses, np.sign(curvatures.min(axis=1, initial=1.0)), np.log(sizes).sum(axis=1)

    def solve(self, values: Array) -> Array:
        """Return H⁻¹·values."""
        split = self._index.levels * self._index.width
        crossed = self._corner[0] @ (values[split:] - self._between.T @ values[:split])
        blocks = (self._inverse @ values[:split].reshape(self._index.levels, -1, 1)).reshape(-1)
        return np.concatenate((blocks - self._between @ crossed, crossed))

    def inverse_elements(self, rows: Index, others: Index) -> Array:
        """Return elements of H⁻¹ at pairs of effects that have a row in common, or are of the same column."""
        split, width = self._index.levels * self._index.width, self._index.width
        low, high = np.minimum(rows, others), np.maximum(rows, others)
        is_block, is_corner = high < split, low >= split
        elements = np.empty(len(rows))
        spread = self._between @ self._corner[0]
        i, j = low[is_block], high[is_block]
        elements[is_block] = self._inverse[i // width, i % width, j % width]
        elements[is_block] += np.einsum("nk,nk->n", spread[i], self._between[j]) if self._index.crossed else 0.0
        elements[is_corner] = self._corner[0][low[is_corner] - split, high[is_corner] - split]
        is_between = ~is_block & ~is_corner
        elements[is_between] = -spread[low[is_between], high[is_between] - split]
        return elements


class MarginalLikelihood(ObjectiveBatch):
    """Minus the marginal log-likelihood of an objective with random effects, up to a constant, as a batch of one fit.

    Attributes:
        names: the parameters; the last one is `_LOG_SIGMA` if the variance of the residuals is unknown.
    """

    def __init__(self, objective: Objective, options: FitOptions) -> None:
        program, graphs = objective.model.program, objective.kernels.graphs
        table = objective.table
        self.terms = [*objective.effects]
        self.effects = [objective.model.effects[name] for name in self.terms]
        codes = [table.columns[name].astype(np.intp) for name in self.terms]
        counts = [len(objective.model.levels[effect.column]) for effect in self.effects]
        self.index = EffectIndex([effect.column for effect in self.effects], codes, counts)
        if self.index.crossed > _MAX_CROSSED:
            listed = format_names([effect.column for effect in self.effects], "`")
            raise OptionError(f"laplace: {listed} cross, and all but one of them may have {_MAX_CROSSED} levels in all")
        self.means, self.deviations, replaced = list[Node](), list[Node](), dict[Node, Node]()
        for name, prior in objective.effects.items():
            own = {leaf: program.leaves[leaf.text] for leaf in topological_order(prior.arguments) if leaf.is_input}
            mean, deviation = substitute(prior.arguments, own)
            self.means.append(mean)
            self.deviations.append(deviation)
            replaced[program.leaves[name]] = mean + deviation * program.leaves[name]
        (row,) = substitute([graphs.loss * objective.components], replaced)
        self.names, leaves = [*objective.layout.names], [program.leaves[name] for name in objective.layout.names]
        if objective.kind is LossKind.SQUARES:
            row = row / 2
        self._counted = 0
        if objective.has_unknown_variance:
            self.names.append(_LOG_SIGMA)
            leaves.append(variable(_LOG_SIGMA))
            row = row * exp(-2 * leaves[-1])
            self._counted = objective.weighted_rows * objective.components
        row = variable(WEIGHT) * row if graphs.has_weight else row
        super().__init__([objective], Bounds.unbounded(len(self.names)))
        if objective.bounds.has_bounds:
            ends = objective.bounds
            extra = len(self.names) - len(ends.low)
            self.bounds = Bounds(np.append(ends.low, [-np.inf] * extra), np.append(ends.high, [np.inf] * extra))
        self._columns: dict[str, Any] = dict(table.columns)
        self._rows, self._fixed = objective.rows, {**objective.fixed, **objective.settings}
        self._build_kernels(row, leaves, [program.leaves[name] for name in self.terms], options)
        self._last = np.zeros(self.index.size)

    def _build_kernels(self, row: Node, leaves: list[Node], effects: list[Node], options: FitOptions) -> None:
        """Compile the loss with its derivatives towards effects, and the gradient of the marginal likelihood."""
        graphs = self.objective.kernels.graphs
        row, *both = share([row, *leaves, *effects])
        leaves, effects = both[: len(leaves)], both[len(leaves) :]
        shapes = graphs.leaf_shapes
        slopes = gradient_nodes(row, effects, shapes)
        curvatures = [tangent(slopes[a], {effects[b]: ONE}, shapes) for a, b in self.index.pairs]
        self._inverse_names = [f"inverse {a} {b}" for a, b in self.index.pairs]
        self._adjoint_names = [f"adjoint {k}" for k in range(len(effects))]
        trace: Node = ZERO
        for (a, b), name, curvature in zip(self.index.pairs, self._inverse_names, curvatures, strict=True):
            trace = trace + curvature * variable(name) / (2 if a == b else 1)
        total = row + trace
        for name, slope in zip(self._adjoint_names, slopes, strict=True):
            total = total - variable(name) * slope
        columns = {*self.objective.kernels.columns, *self.terms, *self._inverse_names, *self._adjoint_names}

        def compiled(outputs: list[Node]) -> RowKernel:
            own = RowGraphs(simplify(outputs), columns, shapes, [()] * len(outputs))
            backend = choose_backend(options.backend, options.threads, own, self._rows, _PASSES)
            return backend.row_kernel(own)

        self._inner = compiled([row, *slopes, *curvatures])
        self._third = compiled(gradient_nodes(trace, effects, shapes))
        self._outer = compiled(gradient_nodes(total, leaves, shapes))

    def _evaluate(self, kernel: RowKernel, point: dict[str, Any], columns: dict[str, Array]) -> Array:
        """Return the values of a kernel for every row, of shape (values, rows)."""
        values = np.empty((kernel.value_count, self._rows))
        kernel.write(kernel.prepare(point), {**self._columns, **columns}, values)
        return values

    def point(self, theta: Array) -> dict[str, Any]:
        """Return the value of every leaf that is not a column."""
        return {**dict(zip(self.names, theta.tolist(), strict=True)), **self._fixed}

    def _effect_columns(self, effects: Array) -> dict[str, Array]:
        return dict(zip(self.terms, effects[self.index.rows], strict=True))

    def _rows_at(self, point: dict[str, Any], effects: Array) -> _Rows:
        values, count = self._evaluate(self._inner, point, self._effect_columns(effects)), 1 + len(self.terms)
        return _Rows(values[0], values[1:count], values[count:])

    def _part_losses(self, rows: _Rows, effects: Array) -> Array:
        """Return minus the joint log-density of each independent part of the effects."""
        count = int(self.index.part_of_effect.max(initial=0)) + 1
        losses = np.zeros(count)
        losses += np.bincount(self.index.part_of_effect, np.square(effects) / 2, count)
        losses += np.bincount(self.index.part_of_row, rows.loss, count)
        return losses

    def modes(self, theta: Array) -> _Modes | None:
        """Return the modes of the effects by Newton's method; None if there are none."""
        for start in (self._last, np.zeros(self.index.size)):
            found = self._modes_from(self.point(theta), start)
            if found is not None:
                self._last = found.effects
                return found
        return None

    def _modes_from(self, point: dict[str, Any], effects: Array) -> _Modes | None:
        index = self.index
        rows = self._rows_at(point, effects)
        losses = self._part_losses(rows, effects)
        if not np.isfinite(losses).all():
            return None
        share_of_step = np.ones(len(losses))
        for _ in range(_MAX_NEWTON_STEPS):
            hessian = _Hessian(index, rows.curvatures)
            gradient = effects + index.sum_by_effect(rows.slopes)
            step = -hessian.solve(gradient)
            if not np.isfinite(step).all():
                return None
            if np.abs(step).max() <= _LAST_STEP * (1 + np.abs(effects).max()):
                effects = effects + step
                rows = self._rows_at(point, effects)
                hessian = _Hessian(index, rows.curvatures)
                return _Modes(effects, rows, hessian) if math.isfinite(hessian.log_determinant) else None
            trial = effects + share_of_step[index.part_of_effect] * step
            rows_there = self._rows_at(point, trial)
            losses_there = self._part_losses(rows_there, trial)
            is_lower = losses_there <= losses + 1e-12 * np.abs(losses)
            if not is_lower.any() and share_of_step.max() < _SMALLEST_STEP:
                return None
            moves, rows_move = is_lower[index.part_of_effect], is_lower[index.part_of_row]
            effects = np.where(moves, trial, effects)
            rows = _Rows(*(np.where(rows_move, new, old) for new, old in zip(rows_there, rows, strict=True)))
            losses = np.where(is_lower, losses_there, losses)
            share_of_step = np.where(is_lower, np.minimum(1.0, 2 * share_of_step), share_of_step / 2)
        return None

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """Return minus the marginal log-likelihood, up to a constant, and its gradient; nan where there is no mode."""
        modes = self.modes(theta)
        if modes is None:
            return math.nan, np.full(len(theta), math.nan)
        effects, rows, hessian = modes
        value = float(rows.loss.sum() + effects @ effects / 2 + hessian.log_determinant / 2)
        columns, index = self._effect_columns(effects), self.index
        for name, (a, b) in zip(self._inverse_names, index.pairs, strict=True):
            columns[name] = hessian.inverse_elements(index.rows[a], index.rows[b])
        point = self.point(theta)
        adjoints = hessian.solve(index.sum_by_effect(self._evaluate(self._third, point, columns)))
        columns |= dict(zip(self._adjoint_names, adjoints[index.rows], strict=True))
        gradient = self._evaluate(self._outer, point, columns).sum(axis=1)
        if self._counted:
            value += self._counted * float(theta[-1])
            gradient[-1] += self._counted
        return value, gradient

    def values_and_gradients(self, theta: Array, fits: Fits) -> tuple[Array, Array]:  # noqa: ARG002
        """Return the values, and their gradients; see `value_and_gradient`."""
        values, gradients = zip(*map(self.value_and_gradient, theta), strict=True)
        return np.array(values), np.array(gradients)

    def hessians(self, theta: Array, fits: Fits) -> Array:  # noqa: ARG002
        """Return the Hessians, by central differences of gradients."""
        return np.array([self._differences(each, _FIRST_DIFFERENCE * np.maximum(np.abs(each), 1e-3)) for each in theta])

    def _differences(self, theta: Array, steps: Array) -> Array:
        """Return the Hessian by differences of fourth order of gradients."""
        rows = []
        for k, step in enumerate(steps):
            direction = np.eye(len(theta))[k] * step
            slopes = [self.value_and_gradient(theta + times * direction)[1] for times in (-2, -1, 1, 2)]
            rows.append((slopes[0] - 8 * slopes[1] + 8 * slopes[2] - slopes[3]) / (12 * step))
        matrix: Array = np.array(rows)
        return (matrix + matrix.T) / 2

    def hessian(self, theta: Array) -> Array:
        """Return the Hessian at the end of a fit, with steps in proportion to standard errors."""
        rough = np.diag(self.hessians(theta[None], np.zeros(1, np.intp))[0])
        sizes = np.where(rough > 0, 1 / np.sqrt(np.where(rough > 0, rough, 1.0)), np.maximum(np.abs(theta), 1.0))
        return self._differences(theta, _DIFFERENCE * sizes)

    def without_kinks(self) -> None:
        """Return None: the inner problem must be smooth; see `check_laplace`."""
        return

    def distributions(self, theta: Array) -> list[tuple[float, float]]:
        """Return the mean and the standard deviation of each term."""
        point = self.point(theta)
        pairs = evaluate([*self.means, *self.deviations], point)
        return [(float(pairs[k]), float(pairs[len(self.terms) + k])) for k in range(len(self.terms))]

    def start(self, fixed: Array, sigma: float) -> Array:
        """Return the starting point, with deviations for which a level's rows say as much of its effect as its
        distribution.

        Args:
            fixed: the values of the parameters of the objective.
            sigma: the standard deviation of the residuals.
        """
        theta = np.append(fixed, [math.log(sigma)] if self._counted else [])
        free = {
            self.names.index(node.text): k
            for k, node in enumerate(self.deviations)
            if node.is_input and node.text in self.names and node.text not in self.objective.user_starts
        }
        theta[[*free]] = 1.0
        rows = self._rows_at(self.point(theta), np.zeros(self.index.size))
        for place, term in free.items():
            curvature = rows.curvatures[self.index.pairs.index((term, term))].sum() / self.index.counts[term]
            theta[place] = 1 / math.sqrt(curvature) if 0 < curvature < math.inf else 1.0
        return self.bounds.clip(theta)

    def joint_loss(self, theta: Array) -> float:
        """Return the summed loss where all effects are at their means."""
        total = self._rows_at(self.point(theta), np.zeros(self.index.size)).loss.sum()
        return float(total + self._counted * (theta[-1] if self._counted else 0.0))

    def with_positive_deviations(self, theta: Array) -> Array:
        """Return a point with the sign of deviations that are parameters made positive, which changes nothing else."""
        theta = theta.copy()
        for node in self.deviations:
            if node.is_input and node.text in self.names:
                theta[self.names.index(node.text)] = abs(theta[self.names.index(node.text)])
        return theta


def check_laplace(objective: Objective) -> None:
    """Raise OptionError for a model whose random effects cannot be integrated out."""
    open_scale = objective.is_scale_estimated
    check_likelihood("laplace", objective.loss, objective.family, objective.is_likelihood, open_scale)
    if objective.is_network or objective.classes is not None or objective.model.shapes:
        raise OptionError("laplace: networks, classifiers and array parameters have no random effects")
    if objective.orders or objective.shares:
        raise OptionError("laplace cannot be combined with ordered parameters or shares of a mixture")
    read = {*leaf_names([objective.kernels.graphs.loss])}
    for name, prior in objective.effects.items():
        effect = objective.model.effects[name]
        deviation = prior.arguments[1]
        others = read | {*leaf_names([each.arguments[0] for each in objective.effects.values()])}
        if deviation.is_input and deviation.text in others:
            raise OptionError(
                f"laplace: `{deviation.text}`, the standard deviation of `{effect.parameter}`, also stands elsewhere"
            )
    if objective.kernels.without_kinks is not None:
        raise OptionError("laplace needs a smooth model: this one has a kink, such as abs")


class RandomEffectsFit(NamedTuple):
    """The end of a fit with random effects.

    Attributes:
        objective: the objective with the effects at their modes, and with all parameters.
        outcome: the end of the method.
        statistics: the statistics of the marginal likelihood.
        loss: minus the marginal log-likelihood, divided by the number of rows.
        effects: the random effects by name.
    """

    objective: Objective
    outcome: Outcome
    statistics: ComputedStatistics
    loss: float
    effects: dict[str, RandomEffect]


@ignore_float_errors()
def fit_random_effects(objective: Objective, options: FitOptions, progress: Progress) -> RandomEffectsFit:
    """Fit an objective with random effects by maximum marginal likelihood.

    The model without random effects is fitted first, which gives the starting values.

    Args:
        progress: receives the steps.

    Raises:
        OptionError: see `check_laplace`.
    """
    check_laplace(objective)
    marginal = MarginalLikelihood(objective, options)
    plain, fixed, log_likelihood = _fit_without_effects(objective, marginal, options)
    rms = root_mean_square(plain[0], plain[1]) if objective.has_unknown_variance else 1.0
    if not rms > 0:
        raise OptionError("laplace: the model without random effects fits the rows exactly")
    start = marginal.start(fixed, rms)
    constant = -log_likelihood - marginal.joint_loss(np.append(fixed, [math.log(rms)] * objective.has_unknown_variance))

    def report(_: Fits, numbers: Fits, losses: Array, points: Array) -> None:
        progress.record(Epoch(int(numbers[0]), float(losses[0] + constant) / objective.rows, points[0].copy()))

    (outcome,) = fit_smooth(marginal, start[None], report, unit=1.0)
    theta = marginal.with_positive_deviations(outcome.theta)
    value, _ = marginal.value_and_gradient(theta)
    modes = marginal.modes(theta)
    if modes is None:
        raise OptionError("laplace: the random effects have no most probable values at the starting point; give others")
    pairs = marginal.distributions(theta)
    effects, columns = dict[str, RandomEffect](), dict[str, Any]()
    for k, (mean, deviation) in enumerate(pairs):
        places, effect = marginal.index.positions(k), marginal.effects[k]
        values = mean + deviation * modes.effects[places]
        errors = abs(deviation) * np.sqrt(modes.hessian.inverse_elements(places, places))
        labels = [*map(str, objective.model.levels[effect.column])]
        effects[effect.parameter] = RandomEffect(
            effect.column,
            objective.effects[marginal.terms[k]].text,
            mean,
            abs(deviation),
            dict(zip(labels, values.tolist(), strict=True)),
            dict(zip(labels, errors.tolist(), strict=True)),
        )
        columns[marginal.terms[k]] = mean + deviation * modes.effects[marginal.index.rows[k]]
    hessian = marginal.hessian(theta) if not outcome.failure else np.full((len(theta), len(theta)), np.nan)
    is_fixed = (theta <= marginal.bounds.low) | (theta >= marginal.bounds.high)
    without_spread = [
        each.parameter for each, (_, deviation) in zip(marginal.effects, pairs, strict=True) if not deviation
    ]
    names = [*marginal.names]
    for node in marginal.deviations:
        if node.is_input and node.text in names:
            is_fixed[names.index(node.text)] |= theta[names.index(node.text)] == 0
    if names[-1] == _LOG_SIGMA:
        leaves = objective.model.program
        names[-1] = RESIDUAL_SIGMAS[RESIDUAL_SIGMAS[0] in (*leaves.leaves, *leaves.bound)]
        theta[-1] = math.exp(theta[-1])
        hessian[-1] /= theta[-1]
        hessian[:, -1] /= theta[-1]
    free = np.flatnonzero(~is_fixed)
    covariance = np.full(hessian.shape, np.nan)
    (covariance[np.ix_(free, free)],), (reasons,) = inverse_hessians(
        hessian[np.ix_(free, free)][None], [names[k] for k in free]
    )
    final = _at_modes(objective, names, theta, columns)
    statistics = _statistics(final, theta, covariance, -value - constant, reasons, without_spread)
    outcome = dataclasses.replace(outcome, theta=theta)
    return RandomEffectsFit(final, outcome, statistics, (value + constant) / objective.rows, effects)


def _fit_without_effects(
    objective: Objective, marginal: MarginalLikelihood, options: FitOptions
) -> tuple[tuple[Objective, Array], Array, float]:
    """Fit the model with all effects at their means.

    Returns:
        The objective of this model with its fitted parameters, all parameters of the objective, and the log-likelihood.
    """
    model, program = objective.model, objective.model.program
    means = {program.leaves[name]: mean for name, mean in zip(marginal.terms, marginal.means, strict=True)}
    output, *target = substitute([program.output, *([] if program.target is None else [program.target])], means)
    read = {*leaf_names([output, *target])}
    names = [name for name in objective.layout.names if name in read]
    leaves = {name: leaf for name, leaf in program.leaves.items() if name in read}
    column_leaves = {name: leaf for name, leaf in program.column_leaves.items() if name in leaves}
    parameters = tuple(name for name in model.parameters if name in read)
    changed = dataclasses.replace(
        program, output=output, target=target[0] if target else None, leaves=leaves, column_leaves=column_leaves
    )
    kernels = objective.kernels.substituted(means)
    places = [objective.layout.names.index(name) for name in names]
    plain = copy_with(
        objective.with_rows(objective.data),
        model=dataclasses.replace(model, program=changed, parameters=parameters),
        kernels=dataclasses.replace(kernels, parameters=[leaves[name] for name in names]),
        layout=ParameterLayout(names, {}),
        start=objective.start[places],
        bounds=Bounds(objective.bounds.low[places], objective.bounds.high[places]),
        effects={},
    )
    theta = plain.start
    if names:
        settings = dataclasses.replace(options, laplace=None, priors=None, on_epoch=None, derive=None)
        theta = optimize_multistart(choose_method(settings, plain), plain, settings, Progress()).theta
    statistics = compute_statistics(plain, theta, options.absolute_sigma, with_goodness=True)
    fixed = objective.start.copy()
    fixed[places] = theta
    return (plain, theta), fixed, statistics.log_likelihood or 0.0


def _at_modes(objective: Objective, names: Sequence[str], theta: Array, columns: dict[str, Any]) -> Objective:
    """Return the objective with the values of the effects in its rows, and with the residuals' standard deviation."""
    model, table = objective.model.with_parameters(names), objective.table
    extra = len(names) - objective.layout.size
    bounds = Bounds(*(np.append(ends, [end] * extra) for ends, end in _ends(objective)))
    return copy_with(
        objective.with_rows(MemoryRows(dataclasses.replace(table, columns={**table.columns, **columns}))),
        model=model,
        layout=ParameterLayout(names, {}),
        kernels=dataclasses.replace(objective.kernels, parameters=[model.program.leaves[name] for name in names]),
        bounds=bounds,
        start=theta,
    )


def _ends(objective: Objective) -> tuple[tuple[Array, float], tuple[Array, float]]:
    return (objective.bounds.low, -np.inf), (objective.bounds.high, np.inf)


def _statistics(
    final: Objective,
    theta: Array,
    covariance: Array,
    log_likelihood: float,
    reasons: Sequence[str],
    without_spread: Sequence[str],
) -> ComputedStatistics:
    """Return the statistics of a fit, of the marginal likelihood; residuals are at the modes of the effects."""
    count = final.weighted_rows * final.components
    errors = final.layout.values(np.sqrt(np.diag(covariance)))
    known = {name: None if np.isnan(error) else error for name, error in errors.items()}
    figures: dict[str, Any] = information_criteria(log_likelihood, len(theta), count)
    rss, r_squared = None, None
    if final.kind is LossKind.SQUARES:
        rss, variation = final.rss(theta), final.target_variation()
        r_squared = 1 - rss / variation if variation > 0 else math.nan
        figures |= {"rmse": math.sqrt(rss / count)}
        if final.has_unknown_variance:
            figures["residual_std"] = float(theta[-1])
    else:
        figures["deviance"] = -2 * log_likelihood
    sentences = [*reasons]
    if without_spread:
        listed = format_names(without_spread, "`")
        sentences.append(f"the standard deviation of {listed} is 0: the levels differ no more than chance explains")
    return ComputedStatistics(
        stderr=known,
        covariance=covariance,
        rss=rss,
        dof=count - len(theta),
        r_squared=r_squared,
        definition=_DEFINITION if any(error is not None for error in known.values()) else "",
        missing_error_reasons=tuple(reasons),
        warnings=tuple(sentences),
        **figures,
    )


_DEFINITION = "square roots of the diagonal of the inverse Hessian of minus the marginal log-likelihood"

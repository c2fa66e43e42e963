"""Random effects, integrated out of the likelihood by Laplace's approximation: Tierney & Kadane 1986, J. Am. Stat.
Assoc. 81, 82; Skaug & Fournier 2006, Comput. Stat. Data Anal. 51, 699.

An effect is written as `mean + deviation·b` with b standard normal. Laplace's approximation does not change under such
scaling, and a deviation of 0 is then a point like any other. At the parameters θ, with the modes b̂ of the joint
density, minus the marginal log-likelihood is

    Σ ℓ(θ, b̂) + |b̂|²/2 + log det H / 2,    H = 1 + ∂²Σℓ/∂b².

Its gradient follows from the implicit function theorem, with M = H⁻¹ and λ = M·∂/∂b tr(M·∂²Σℓ/∂b²)/2 as constants: it
is the gradient of Σ ℓ + tr(M·∂²ℓ/∂b²)/2 - λ·∂ℓ/∂b. The graph of one row's loss is differentiated, and the derivatives
are compiled. Levels share no row, so H has a block for each level of one column. Where columns cross, the column with
the most levels has the blocks, and a Schur complement has the effects of all other columns.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.algebra.simplify import share, simplify
from autodiff_cli.array_types import Array, ignore_float_errors
from autodiff_cli.backends.protocol import RowGraphs, RowKernel
from autodiff_cli.backends.reductions import single_threaded_blas
from autodiff_cli.backends.selection import choose_backend, evaluate
from autodiff_cli.graph.gradient import gradient_nodes, tangents
from autodiff_cli.graph.node import ONE, Gate, Node, variable
from autodiff_cli.graph.tape import dependents, leaf_names, substitute, topological_order
from autodiff_cli.language.errors import format_names
from autodiff_cli.ops.functions import exp
from autodiff_cli.options import OptionError
from autodiff_cli.training.fitting.minimization import choose_method, root_mean_square
from autodiff_cli.training.fitting.optimization import optimize_multistart
from autodiff_cli.training.fitting.progress import Progress
from autodiff_cli.training.losses import LossKind
from autodiff_cli.training.methods.gradient_descent import Outcome
from autodiff_cli.training.methods.quasi_newton import fit_smooth_loss
from autodiff_cli.training.objective.batch import Fits, ObjectiveBatch
from autodiff_cli.training.objective.objective import Objective, copy_with
from autodiff_cli.training.objective.parameters import Bounds, ParameterLayout
from autodiff_cli.training.objective.preparation import check_likelihood
from autodiff_cli.training.optimizers import Epoch
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.result import statistics as fit_statistics
from autodiff_cli.training.result.fitted_model import RandomEffect
from autodiff_cli.training.result.goodness import find_separation, information_criteria
from autodiff_cli.training.result.prediction import residual_sigma_name
from autodiff_cli.training.rows import WEIGHT, MemoryRows

_LOG_SIGMA = "log sigma"  # the logarithm of the residuals' standard deviation; no name in a text has a blank
_PASSES = 400  # passes over the rows in a usual fit
_MAX_NEWTON_STEPS = 200  # Newton steps to the modes
_LAST_STEP = 1e-6  # length of the last step to the modes, relative to the effects: Newton's method squares the error
_SMALLEST_STEP = 1e-12  # shortest step, as a share of a Newton step
_MAX_CROSSED = 2000  # effects of all columns but the one with the most levels, whose Schur complement is dense
_DIFFERENCE = 1e-3  # step of differences of gradients, in standard errors
_DIFFERENCE_TOLERANCE = 1e-5  # relative singular value of a Hessian that counts as 0: it has about 10 correct digits
_FIRST_DIFFERENCE = 1e-4  # step of differences relative to the parameters, while standard errors are unknown

_NODES = 9  # points of the quadrature that checks the approximation
_MOST_EXCESS = 0.5  # excess of the approximate log-likelihood that does not change the estimates much
_EXACT = math.log(1e-8)  # size of residuals, relative to those without effects, that is rounding
_MIN_CURVATURE = 1e-8  # curvature of the joint density for Newton steps, relative to the effects' own

Index = NDArray[np.intp]


class _Modes(NamedTuple):
    """The modes of the effects, with the sum of the rows' losses and the factored Hessian there."""

    effects: Array
    loss: float
    hessian: _Hessian


class EffectIndex:
    """The positions of the effects of each row in the vector of all effects.

    The effects of the column with the most levels come first, level by level; the effects of columns that cross it
    follow.

    Args:
        columns: the column of levels of each term.
        codes: the level of each row, by term.
        counts: the number of levels, by term.
    """

    def __init__(self, columns: Sequence[str], codes: Sequence[Index], counts: Sequence[int]) -> None:
        largest = columns[int(np.argmax(counts))]
        first = [k for k, column in enumerate(columns) if column == largest]
        self.width, self.levels = len(first), max(counts)
        self.split = self.size = self.width * self.levels
        self.places: list[Index] = []  # of the effects of each term, by level
        for k, count in enumerate(counts):
            if k in first:
                self.places.append(first.index(k) + self.width * np.arange(count))
            else:
                self.places.append(self.size + np.arange(count))
                self.size += count
        self.crossed = self.size - self.split
        self.rows = [place[code] for place, code in zip(self.places, codes, strict=True)]
        # Levels of a single column are independent given the parameters, so that each takes its own Newton steps.
        self.parts = np.arange(self.size) // self.width if not self.crossed else np.zeros(self.size, np.intp)
        self.pairs = [(a, b) for a in range(len(columns)) for b in range(a, len(columns))]
        self.elements = [self.find_elements(self.rows[a], self.rows[b]) for a, b in self.pairs]

    def find_elements(self, rows: Index, others: Index) -> Index:
        """Return where elements of a symmetric matrix over the effects are stored.

        The parts are the upper triangles of the blocks of the largest column, the rectangle that couples these effects
        to the effects of crossing columns, and the upper triangle of the latter.
        """
        low, high = np.minimum(rows, others), np.maximum(rows, others)
        beyond, blocks = high - self.split, self.split * self.width
        in_corner = blocks + self.split * self.crossed + (low - self.split) * self.crossed + beyond
        outside = np.where(low < self.split, blocks + low * self.crossed + beyond, in_corner)
        elements: Index = np.where(beyond < 0, low * self.width + high % self.width, outside)
        return elements

    def matrices(self, storage: Array) -> tuple[Array, Array, Array]:
        """Return a stored symmetric matrix as full matrices: its blocks, its rectangle and its corner."""
        blocks, between, corner = np.split(storage, np.cumsum([self.split * self.width, self.split * self.crossed]))
        square = blocks.reshape(-1, self.width, self.width), corner.reshape(1, self.crossed, self.crossed)
        whole = [each + np.triu(each, 1).swapaxes(1, 2) for each in square]
        return whole[0], between.reshape(self.levels, self.width, self.crossed), whole[1]

    def sum_by_effect(self, values: Array) -> Array:
        """Return the sums over rows for each effect, of values of shape (terms, rows)."""
        return _sum_at(np.concatenate(self.rows), values.ravel(), self.size)


def _sum_at(places: Index, values: Array, size: int) -> Array:
    """Return the sums of the values that belong to each place."""
    return np.asarray(np.bincount(places, values, size), np.float64)


class _Hessian:
    """The Hessian H = 1 + ∂²Σℓ/∂b² with respect to the effects, in factored form.

    Its factors are the inverse blocks A⁻¹ of the column with the most levels, W = A⁻¹·B, and the inverse Schur
    complement of the effects of crossing columns.

    Attributes:
        log_determinant: the logarithm of its determinant; nan if it is not positive definite.
    """

    def __init__(self, index: EffectIndex, curvatures: Array) -> None:
        self._index = index
        count = index.split * (index.width + index.crossed) + index.crossed**2
        blocks, between, corner = index.matrices(_sum_at(np.concatenate(index.elements), curvatures.ravel(), count))
        self._blocks, log_determinant = _inverted(blocks + np.eye(index.width))
        self._between = self._blocks @ between
        flat = index.split, index.crossed  # products of matrices are much faster than sums over levels
        complement = corner + np.eye(index.crossed) - between.reshape(flat).T @ self._between.reshape(flat)
        self._corner, logarithm = _inverted(complement)
        self.log_determinant = log_determinant + logarithm

    def solve(self, values: Array) -> Array:
        """Return H⁻¹·values."""
        first, others = values[: self._index.split].reshape(self._index.levels, -1), values[self._index.split :]
        crossed = self._corner[0] @ (others - np.tensordot(first, self._between))
        solved = np.einsum("lij,lj->li", self._blocks, first) - self._between @ crossed
        return np.concatenate((solved.ravel(), crossed))

    def inverse(self) -> Array:
        """Return the elements of H⁻¹ for pairs of effects; see `EffectIndex.find_elements`."""
        spread = self._between @ self._corner[0]
        blocks = self._blocks + spread @ self._between.swapaxes(1, 2)
        return np.concatenate([each.ravel() for each in (blocks, -spread, self._corner)])


def _inverted(matrices: Array) -> tuple[Array, float]:
    """Return the inverses of symmetric matrices, and the logarithm of the product of their determinants.

    It is nan if a curvature is not positive; the inverse then has its absolute value, so that Newton steps descend.
    """
    if not np.isfinite(matrices).all():
        return np.full_like(matrices, math.nan), math.nan
    if matrices.shape[1] == 1:  # the usual case, in which LAPACK would be slow
        curvatures, directions = matrices[:, 0], np.ones_like(matrices)
    else:
        with contextlib.suppress(np.linalg.LinAlgError):  # not positive definite
            roots = np.diagonal(np.linalg.cholesky(matrices), axis1=1, axis2=2)
            return np.asarray(np.linalg.inv(matrices), np.float64), 2 * float(np.log(roots).sum())
        curvatures, directions = np.linalg.eigh(matrices)
    sizes = np.maximum(np.abs(curvatures), _MIN_CURVATURE)
    inverses = (directions / sizes[:, None]) @ directions.swapaxes(1, 2)
    return inverses, float(np.log(np.where(curvatures > 0, curvatures, math.nan)).sum())


def _weighted_sum(weights: Sequence[Node], values: Sequence[Node]) -> Node:
    """Return the sum of products as a graph."""
    return reduce(add, (weight * value for weight, value in zip(weights, values, strict=True)))


def _with_free_ends(bounds: Bounds, size: int) -> Bounds:
    """Return bounds for more parameters, of which the last ones have none."""
    extra = np.full(size - len(bounds.low), np.inf)
    return Bounds(np.append(bounds.low, -extra), np.append(bounds.high, extra))


class MarginalLikelihood(ObjectiveBatch):
    """Minus the marginal log-likelihood of an objective with random effects, up to a constant, as a batch of one fit.

    Attributes:
        names: the parameters; the last one is `_LOG_SIGMA` if the variance of the residuals is unknown.
    """

    def __init__(self, objective: Objective, options: FitOptions) -> None:
        self.terms = [*objective.effects]
        self.effects = [objective.model.effects[name] for name in self.terms]
        codes = [objective.table.columns[name].astype(np.intp) for name in self.terms]
        counts = [len(objective.model.levels[effect.column]) for effect in self.effects]
        self.index = EffectIndex([effect.column for effect in self.effects], codes, counts)
        if self.index.crossed > _MAX_CROSSED:
            listed = format_names([effect.column for effect in self.effects], "`")
            raise OptionError(f"laplace: all but the largest of {listed} may have {_MAX_CROSSED} levels together")
        leaves, graphs = objective.model.program.leaves, objective.kernels.graphs
        arguments = [prior.arguments_in(leaves) for prior in objective.effects.values()]
        self.means, self.deviations = zip(*arguments, strict=True)
        effects = [leaves[name] for name in self.terms]
        terms = zip(effects, self.means, self.deviations, strict=True)
        (row,) = substitute([graphs.loss * objective.components], {leaf: mean + sd * leaf for leaf, mean, sd in terms})
        self.names, parameters = [*objective.layout.names], [leaves[name] for name in objective.layout.names]
        if objective.kind is LossKind.SQUARES:
            row = row / 2
        self._targets = 0  # whose residuals have an unknown standard deviation
        if objective.has_unknown_variance:
            self.names.append(_LOG_SIGMA)
            parameters.append(variable(_LOG_SIGMA))
            row = row * exp(-2 * parameters[-1])
            self._targets = objective.target_count
        row = variable(WEIGHT) * row if graphs.has_weight else row
        super().__init__([objective], _with_free_ends(objective.bounds, len(self.names)))
        self._columns: dict[str, Any] = dict(objective.table.columns)
        self._rows, self._fixed = objective.rows, {**objective.fixed, **objective.settings}
        self._build_kernels(row, parameters, effects, options)
        self._last = np.zeros(self.index.size)

    def _build_kernels(self, row: Node, parameters: list[Node], effects: list[Node], options: FitOptions) -> None:
        """Compile the loss with its derivatives towards effects, and the gradient of the marginal likelihood."""
        kernels, pairs = self.objective.kernels, self.index.pairs
        row, *leaves = share([row, *effects, *parameters])
        effects, parameters = leaves[: len(effects)], leaves[len(effects) :]
        shapes = kernels.graphs.leaf_shapes
        slopes = gradient_nodes(row, effects, shapes)
        along = [tangents(slopes[: k + 1], {effect: ONE}, shapes) for k, effect in enumerate(effects)]
        curvatures = [along[b][a] for a, b in pairs]
        self._inverse_names = [f"inverse {a} {b}" for a, b in pairs]
        self._adjoint_names = [f"adjoint {name}" for name in self.terms]
        halves = [ONE / 2 if a == b else ONE for a, b in pairs]
        trace = _weighted_sum(halves, [variable(n) * c for n, c in zip(self._inverse_names, curvatures, strict=True)])
        total = row + trace - _weighted_sum([*map(variable, self._adjoint_names)], slopes)
        columns = {*kernels.columns, *self.terms, *self._inverse_names, *self._adjoint_names}

        def compiled(outputs: list[Node]) -> RowKernel:
            graphs = RowGraphs(simplify(outputs), columns, shapes, [()] * len(outputs))
            return choose_backend(options.backend, options.threads, graphs, self._rows, _PASSES).row_kernel(graphs)

        self._inner = compiled([row, *slopes, *curvatures])
        self._third = compiled(gradient_nodes(trace, effects, shapes))
        self._outer = compiled(gradient_nodes(total, parameters, shapes))

    def _evaluate(self, kernel: RowKernel, theta: Array, effects: Array, columns: Mapping[str, Array] = {}) -> Array:
        """Return the values of a kernel for every row, of shape (values, rows)."""
        values = np.empty((kernel.value_count, self._rows))
        by_row = {name: effects[rows] for name, rows in zip(self.terms, self.index.rows, strict=True)}
        kernel.write(kernel.prepare(self.point(theta)), {**self._columns, **by_row, **columns}, values)
        return values

    def point(self, theta: Array) -> dict[str, Any]:
        """Return the value of every leaf that is not a column."""
        return {**dict(zip(self.names, theta.tolist(), strict=True)), **self._fixed}

    def modes(self, theta: Array) -> _Modes | None:
        """Return the modes of the effects by Newton's method; None if there are none."""
        modes = self._modes_from(theta, self._last) or self._modes_from(theta, np.zeros(self.index.size))
        self._last = self._last if modes is None else modes.effects
        return modes

    def _modes_from(self, theta: Array, effects: Array) -> _Modes | None:
        index, parts = self.index, self.index.parts
        part_of_row, count = parts[index.rows[0]], int(parts.max()) + 1

        def losses_at(effects: Array, losses: Array) -> Array:
            return _sum_at(parts, np.square(effects) / 2, count) + _sum_at(part_of_row, losses, count)

        rows = self._evaluate(self._inner, theta, effects)
        losses = losses_at(effects, rows[0])
        share_of_step = np.ones(count)
        for _ in range(_MAX_NEWTON_STEPS):
            first, second = rows[1 : 1 + len(self.terms)], rows[1 + len(self.terms) :]
            step = -_Hessian(index, second).solve(effects + index.sum_by_effect(first))
            if not np.isfinite(step).all() or share_of_step.max() < _SMALLEST_STEP:
                return None
            if np.abs(step).max() <= _LAST_STEP * (1 + np.abs(effects).max()):
                effects = effects + step
                rows = self._evaluate(self._inner, theta, effects)
                hessian = _Hessian(index, rows[1 + len(self.terms) :])
                is_defined = math.isfinite(hessian.log_determinant)
                return _Modes(effects, float(rows[0].sum()), hessian) if is_defined else None
            trial = effects + share_of_step[parts] * step
            rows_there = self._evaluate(self._inner, theta, trial)
            losses_there = losses_at(trial, rows_there[0])
            is_lower = losses_there <= losses + 1e-12 * np.abs(losses)
            effects, losses = np.where(is_lower[parts], trial, effects), np.where(is_lower, losses_there, losses)
            rows = np.where(is_lower[part_of_row], rows_there, rows)
            share_of_step = np.where(is_lower, np.minimum(1.0, 2 * share_of_step), share_of_step / 2)
        return None

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """Return minus the marginal log-likelihood, up to a constant, and its gradient; nan where there is no mode."""
        modes, index = self.modes(theta), self.index
        if modes is None:
            return math.nan, np.full(len(theta), math.nan)
        effects, loss, hessian = modes
        value = loss + effects @ effects / 2 + hessian.log_determinant / 2
        inverse = hessian.inverse()
        columns = {name: inverse[places] for name, places in zip(self._inverse_names, index.elements, strict=True)}
        adjoints = hessian.solve(index.sum_by_effect(self._evaluate(self._third, theta, effects, columns)))
        columns |= {name: adjoints[rows] for name, rows in zip(self._adjoint_names, index.rows, strict=True)}
        gradient = self._evaluate(self._outer, theta, effects, columns).sum(axis=1)
        if self._targets:
            value += self._targets * theta[-1]
            gradient[-1] += self._targets
        return float(value), gradient

    def values_and_gradients(self, theta: Array, fits: Fits) -> tuple[Array, Array]:  # noqa: ARG002
        """Return the values, and their gradients; see `value_and_gradient`."""
        values, gradients = zip(*map(self.value_and_gradient, theta), strict=True)
        return np.array(values), np.array(gradients)

    def hessians(self, theta: Array, fits: Fits) -> Array:  # noqa: ARG002
        """Return the Hessians, by differences of gradients."""
        return np.array([self._differences(each, _FIRST_DIFFERENCE * np.maximum(np.abs(each), 1e-3)) for each in theta])

    def hessian(self, theta: Array) -> Array:
        """Return the Hessian at the end of a fit, by differences over steps in proportion to standard errors."""
        rough = np.diag(self.hessians(theta[None], np.zeros(1, np.intp))[0])
        is_known = rough > 0
        sizes = np.where(is_known, 1 / np.sqrt(np.where(is_known, rough, 1.0)), np.maximum(np.abs(theta), 1.0))
        return self._differences(theta, _DIFFERENCE * sizes)

    def _differences(self, theta: Array, steps: Array) -> Array:
        """Return the Hessian by differences of fourth order of gradients."""
        rows = []
        for step in np.diag(steps):
            slopes = [self.value_and_gradient(theta + times * step)[1] for times in (-2, -1, 1, 2)]
            rows.append((slopes[0] - 8 * slopes[1] + 8 * slopes[2] - slopes[3]) / (12 * step.sum()))
        matrix: Array = np.array(rows)
        return (matrix + matrix.T) / 2

    def without_kinks(self) -> None:
        """Return None: effects enter smoothly; see `check_laplace`."""
        return

    @cached_property
    def spreads(self) -> dict[int, int]:
        """The positions of the parameters that are themselves the standard deviation of a term, with the term."""
        pairs = [(node.text, k) for k, node in enumerate(self.deviations) if node.is_input]
        return {self.names.index(name): k for name, k in pairs if name in self.names}

    def start(self, theta: Array) -> Array:
        """Return a starting point. Its standard deviations are such that the rows of a level and the distribution are
        equally informative about the effect.
        """
        theta = theta.copy()
        places = [place for place in self.spreads if self.names[place] not in self.objective.user_starts]
        theta[places] = 1.0
        curvatures = self._evaluate(self._inner, theta, np.zeros(self.index.size))[1 + len(self.terms) :]
        for place in places:
            term = self.spreads[place]
            curvature = curvatures[self.index.pairs.index((term, term))].sum() / len(self.index.places[term])
            theta[place] = 1 / math.sqrt(curvature) if 0 < curvature < math.inf else 1.0
        return self.bounds.clip(theta)

    def loss_at_means(self, theta: Array) -> float:
        """Return the summed loss where all effects have their means."""
        losses = self._evaluate(self._inner, theta, np.zeros(self.index.size))[0]
        return float(losses.sum() + (self._targets * theta[-1] if self._targets else 0.0))

    def excess(self, theta: Array, modes: _Modes) -> float:
        """Return about how much the approximation exceeds the log-likelihood.

        Gauss-Hermite quadrature checks each effect by itself, with all others at their modes.
        """
        index, effects, total = self.index, modes.effects, 0.0
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        rows = self._evaluate(self._inner, theta, effects)
        for k, (places, of_rows) in enumerate(zip(index.places, index.rows, strict=True)):
            curvatures = _sum_at(of_rows, rows[1 + len(self.terms) + index.pairs.index((k, k))], index.size)[places]
            there, ratios = effects.copy(), np.zeros(len(places))
            for node, weight in zip(nodes.tolist(), (weights / weights.sum()).tolist(), strict=True):
                there[places] = effects[places] + node / np.sqrt(1 + curvatures)
                losses = self._evaluate(self._inner, theta, there)[0] - rows[0]
                rises = _sum_at(of_rows, losses, index.size) + (np.square(there) - np.square(effects)) / 2
                ratios += weight * np.exp(node**2 / 2 - rises[places])
            total -= float(np.log(ratios).sum())
        return total


def check_laplace(objective: Objective) -> None:
    """Raise OptionError for a model whose random effects cannot be integrated out."""
    check_likelihood("laplace", objective.loss, objective.family, objective.is_likelihood, objective.is_scale_estimated)
    if objective.classes is not None or objective.model.shapes:
        raise OptionError("laplace: networks, classifiers and array parameters have no random effects")
    if objective.orders or objective.shares:
        raise OptionError("laplace cannot be combined with ordered parameters or shares of a mixture")
    priors, loss = objective.effects, objective.kernels.graphs.loss
    elsewhere = {*leaf_names([loss, *(prior.arguments[0] for prior in priors.values())])}
    for name, prior in priors.items():
        spread, effect = prior.arguments[1], objective.model.effects[name].parameter
        if spread.is_input and spread.text in elsewhere:
            raise OptionError(f"laplace: `{spread.text}`, the standard deviation of `{effect}`, also occurs elsewhere")
    order = topological_order([objective.model.program.output])  # losses compare it only with its domain
    reached = dependents(order, [objective.model.program.leaves[name] for name in priors])
    for op in (node.op for node in order if node in reached):
        if op is not None and (op.kink is not None or op.gate is Gate.BLOCK):  # such as abs and <
            raise OptionError(f"laplace: the effects must be smooth in the model, and `{op.name}` is not")


@ignore_float_errors()
@single_threaded_blas()  # its threads cost more than they save: factorizations are many and small
def fit_random_effects(
    objective: Objective, options: FitOptions, progress: Progress
) -> tuple[Objective, Outcome, fit_statistics.ComputedStatistics, float, dict[str, RandomEffect]]:
    """Fit an objective with random effects by maximum marginal likelihood.

    The model with all effects at their means is fitted first, which gives the starting values.

    Args:
        progress: receives the steps.

    Returns:
        The objective with the effects at their modes and with all parameters, the end of the method, the statistics of
        the marginal likelihood, minus that likelihood's logarithm divided by the number of rows, and the random effects
        by name.

    Raises:
        OptionError: see `check_laplace`.
    """
    check_laplace(objective)
    marginal = MarginalLikelihood(objective, options)
    effects_of_rows = [objective.model.program.leaves[name] for name in marginal.terms]
    plain, fixed = fit_at_means(objective, dict(zip(effects_of_rows, marginal.means, strict=True)), options)
    if objective.has_unknown_variance:
        sigma = root_mean_square(plain, plain.start)
        if not sigma > 0:
            raise OptionError("laplace: the model without random effects fits the rows exactly")
        fixed = np.append(fixed, math.log(sigma))
    if separation := find_separation(plain, plain.start)[0]:  # then no effects prevent it
        raise OptionError(f"laplace: without random effects, {separation}")
    plain_statistics = fit_statistics.compute_statistics(plain, plain.start, options.absolute_sigma, with_goodness=True)
    # The marginal likelihood of the program's graphs lacks terms that depend on no parameter.
    constant = -(plain_statistics.log_likelihood or 0.0) - marginal.loss_at_means(fixed)

    def report(_: Fits, numbers: Fits, losses: Array, points: Array) -> None:
        progress.record(Epoch(int(numbers[0]), float(losses[0] + constant) / objective.rows, points[0].copy()))

    (outcome,) = fit_smooth_loss(marginal, marginal.start(fixed)[None], report, unit=1.0)
    theta = outcome.theta.copy()
    if objective.has_unknown_variance and theta[-1] < fixed[-1] + _EXACT:
        raise OptionError("laplace: the model with its effects fits the rows exactly, so the likelihood has no maximum")
    for place in marginal.spreads:  # their signs do not matter
        theta[place] = abs(theta[place])
    log_likelihood, modes = -marginal.value_and_gradient(theta)[0] - constant, marginal.modes(theta)
    if modes is None:
        raise OptionError("laplace: the effects have no modes at the starting values: choose other ones")
    if (excess := marginal.excess(theta, modes)) > _MOST_EXCESS:
        progress.warnings.append(
            f"Laplace's approximation exceeds the log-likelihood by about {excess:.2g}, because levels have few rows: "
            "the estimates may be far from the maximum: use --posterior"
        )
    means, spreads = np.split(np.array(evaluate([*marginal.means, *marginal.deviations], marginal.point(theta))), 2)
    inverse, index = modes.hessian.inverse(), marginal.index
    effects, columns = dict[str, RandomEffect](), dict[str, Array]()
    for name, effect, mean, spread, positions in zip(
        marginal.terms, marginal.effects, means.tolist(), spreads.tolist(), index.places, strict=True
    ):
        levels = [*map(str, objective.model.levels[effect.column])]
        values = mean + spread * modes.effects[positions]
        errors = abs(spread) * np.sqrt(inverse[index.find_elements(positions, positions)])
        by_level = (dict(zip(levels, each.tolist(), strict=True)) for each in (values, errors))
        text = objective.effects[name].text
        effects[effect.parameter] = RandomEffect(effect.column, text, mean, abs(spread), *by_level)
        columns[name] = values[objective.table.columns[name].astype(np.intp)]
    names, hessian = [*marginal.names], marginal.hessian(theta)
    is_known = (theta > marginal.bounds.low) & (theta < marginal.bounds.high)
    on_bound = ~is_known
    is_known[[place for place in marginal.spreads if theta[place] == 0]] = False
    if names[-1] == _LOG_SIGMA:
        names[-1] = residual_sigma_name(objective.model)
        theta[-1] = math.exp(theta[-1])
        hessian[-1] /= theta[-1]
        hessian[:, -1] /= theta[-1]
    of_known = np.where(np.outer(is_known, is_known), hessian, 0.0)
    covariances = fit_statistics.inverse_hessians(of_known[None], names, is_known[None], _DIFFERENCE_TOLERANCE)
    covariance, reasons = covariances.inverses[0] * (math.nan if outcome.failure else 1), covariances.reasons[0]
    model, table = objective.model.with_parameters(names), objective.table
    final = copy_with(
        objective.with_rows(MemoryRows(dataclasses.replace(table, columns={**table.columns, **columns}))),
        model=model,
        layout=ParameterLayout(names, {}),
        kernels=dataclasses.replace(objective.kernels, parameters=[model.program.leaves[name] for name in names]),
        bounds=_with_free_ends(objective.bounds, len(names)),
        start=theta,
    )
    reasons += [
        f"the standard deviation of `{name}` is 0: the levels differ no more than chance explains"
        for name, effect in effects.items()
        if effect.sd == 0
    ]
    reasons += fit_statistics.bound_text(ObjectiveBatch([final]), 0, theta, on_bound, bool(is_known.any()))
    statistics = _statistics(final, theta, covariance, log_likelihood, reasons, plain_statistics.non_integers)
    return final, dataclasses.replace(outcome, theta=theta), statistics, -log_likelihood / objective.rows, effects


def fit_at_means(objective: Objective, means: Mapping[Node, Node], options: FitOptions) -> tuple[Objective, Array]:
    """Fit a model without priors in which some leaves are replaced by their means.

    Returns:
        The objective without these leaves, which starts at its fit, and a starting point with these values.
    """
    model, program = objective.model, objective.model.program
    roots = [program.output] if program.target is None else [program.output, program.target]
    output, *target = substitute(roots, means)
    leaves = {name: program.leaves[name] for name in program.leaves if name in {*leaf_names([output, *target])}}
    columns = {name: leaf for name, leaf in program.column_leaves.items() if name in leaves}
    changed = dataclasses.replace(
        program, output=output, target=target[0] if target else None, leaves=leaves, column_leaves=columns
    )
    places = [k for k, name in enumerate(objective.layout.names) if name in leaves]
    names = [objective.layout.names[k] for k in places]
    kernels = dataclasses.replace(objective.kernels.substituted(means), parameters=[leaves[name] for name in names])
    parameters = tuple(name for name in model.parameters if name in leaves)
    others = objective.layout.values(objective.start)  # read by priors alone
    plain = copy_with(
        objective.with_rows(objective.data).without_penalty(),
        model=dataclasses.replace(model, program=changed, parameters=parameters),
        kernels=kernels,
        layout=ParameterLayout(names, {}),
        start=objective.start[places],
        bounds=Bounds(objective.bounds.low[places], objective.bounds.high[places]),
        fixed={**objective.fixed, **{name: x for name, x in others.items() if name not in leaves}},
        effects={},
        priors={},
    )
    start = objective.start.copy()
    if places:
        settings = FitOptions(backend=options.backend, threads=options.threads, seed=options.seed)
        plain.start = optimize_multistart(choose_method(settings, plain), plain, settings, Progress()).theta
        start[places] = plain.start
    return plain, start


def _statistics(
    final: Objective, theta: Array, covariance: Array, log_likelihood: float, reasons: Sequence[str], non_integers: int
) -> fit_statistics.ComputedStatistics:
    """Return the statistics of the marginal likelihood, with residuals at the modes of the effects."""
    count = final.target_count
    errors = final.layout.values(np.sqrt(np.diag(covariance)))
    figures: dict[str, Any] = {} if non_integers else information_criteria(log_likelihood, len(theta), count)
    if final.kind is LossKind.SQUARES:
        rss, variation = final.rss(theta), final.target_variation()
        figures |= {"rss": rss, "r_squared": 1 - rss / variation if variation > 0 else math.nan}
        figures |= {"rmse": math.sqrt(rss / count), "residual_std": theta[-1] if final.has_unknown_variance else None}
    else:
        figures |= {"rss": None, "r_squared": None, "deviance": None if non_integers else -2 * log_likelihood}
    return fit_statistics.ComputedStatistics(
        stderr={name: None if np.isnan(error) else error for name, error in errors.items()},
        correlation=fit_statistics.correlations(covariance),
        dof=count - len(theta),
        rank=len(theta),
        definition="" if np.isnan(covariance).all() else _DEFINITION,
        missing_error_reasons=tuple(reasons),
        warnings=tuple(reasons),
        non_integers=non_integers,
        **figures,
    )


_DEFINITION = "square roots of the diagonal of the inverse Hessian of minus the marginal log-likelihood"

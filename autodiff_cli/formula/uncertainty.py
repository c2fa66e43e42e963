"""Uncertain inputs: how standard errors and correlations of the inputs reach the value of a formula.

For a gradient g, a Hessian H and a covariance matrix C of normal inputs, the variance of the value is gᵀCg to first
order. To second order, its mean is f + tr(HC)/2 and its variance gᵀCg + tr((HC)²)/2, which is exact for quadratic
formulas. `UncertainPoint.simulate` checks both by random inputs.

C is never formed. With the standard errors σ and the Cholesky factor L of the correlation matrix, the first order is
the length of Lᵀ(σ·g), so that no rounding error can make a variance negative.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array
from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.autodiff.unrolling import element_names
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.gradient import derivative_key, gradient_nodes
from autodiff_cli.graph.node import Node, as_node, constant, is_exactly, variable
from autodiff_cli.graph.tape import Tape
from autodiff_cli.language.errors import ExpressionError, format_names
from autodiff_cli.numbers.arrays import start_perturbed_array_run
from autodiff_cli.numbers.floats import PERTURBED_RUNS, UNPERTURBED
from autodiff_cli.ops.arithmetic import abs_, not_equal, or_, where
from autodiff_cli.ops.functions import hypot
from autodiff_cli.ops.structural import index, norm

MAX_ELEMENTS = 1000  # uncertain numbers; a larger Hessian takes too long
MAX_DIFFERENCE = 0.1  # relative difference between the two standard errors that makes the first order misleading
MAX_BIAS = 0.5  # shift of the mean, in standard errors, that makes the first order misleading
_MAX_JUDGED = 6  # uncertain variables of rows whose second order is computed, to see if the first misleads
_REACH = 2.0  # standard errors from the point at which the formula is compared with its quadratic approximation
_OBLIQUE_DIRECTIONS = 30  # directions in which several errors act together, as x*y^2 at 0 needs, beside each alone
_ROUNDING = 1e-10  # a pivot of a correlation matrix down to minus this is 0, in spite of rounded correlations
_ROUNDING_MARGIN = 8.0  # rounding errors may be larger than in one perturbed run by this factor
_PERTURBED_DRAWS = 1000  # random draws at which rounding errors are perturbed
_BLOCK_NUMBERS = 1 << 20  # random numbers that are drawn at once
_PROBABILITIES = (0.025, 0.16, 0.5, 0.84, 0.975)
_MAX_TAIL_ERROR = 0.1  # relative sampling error of a standard deviation that only heavy tails cause


class Correlations:
    """The correlations between some numbers.

    Args:
        pairs: the correlations by the pairs of names; all other pairs are uncorrelated.

    Attributes:
        names: the numbers, by the names of variables or of elements (`v[0]`).
        factor: the lower triangular matrix L whose product L @ L.T is the correlation matrix.
        pairs: these correlations.

    Raises:
        ExpressionError: for a number outside -1..1, and if the matrix is not positive semidefinite.

    >>> Correlations({("x", "y"): 0.6}).factor
    array([[1. , 0. ],
           [0.6, 0.8]])
    """

    def __init__(self, pairs: Mapping[tuple[str, str], float]) -> None:
        names = tuple(dict.fromkeys(itertools.chain(*pairs)))
        matrix = np.eye(len(names))
        for (a, b), value in pairs.items():
            if not -1 <= value <= 1:
                raise ExpressionError(f"the correlation of `{a}` and `{b}` must be from -1 to 1, not {value:.15g}")
            matrix[names.index(a), names.index(b)] = matrix[names.index(b), names.index(a)] = value
        factor: Array = np.zeros_like(matrix)
        for j in range(len(names)):
            column = matrix[j:, j] - factor[j:, :j] @ factor[j, :j]
            if column[0] > _ROUNDING:
                factor[j:, j] = column / math.sqrt(column[0])
            elif column[0] < -_ROUNDING or np.abs(column).max() > math.sqrt(_ROUNDING):
                raise ExpressionError(f"the correlations of {format_names(names, '`')} are not positive semidefinite")
        self.names, self.factor, self.pairs = names, factor, pairs


UNCORRELATED = Correlations({})


class Moments(NamedTuple):
    """The mean and the standard error of a value."""

    mean: float
    stderr: float


class MonteCarlo(NamedTuple):
    """The distribution of a value for random inputs.

    Attributes:
        draws: the number of draws.
        seed: the seed of the random number generator.
        mean: the mean of the finite values.
        stderr: their standard deviation.
        stderr_error: the sampling error of that standard deviation.
        quantiles: the quantiles of all values that are not nan, by their probabilities as text.
        undefined: the number of draws at which the value is nan or infinite.
        rounding: the standard deviation that rounding errors alone cause.
    """

    draws: int
    seed: int
    mean: float
    stderr: float
    stderr_error: float
    quantiles: dict[str, float]
    undefined: int
    rounding: float


class ErrorSource(NamedTuple):
    """An uncertain number, and its part in the uncertainty of the value to first order.

    Attributes:
        name: the variable, or the element of an array.
        deviation: its standard error.
        change: the change of the value by one standard error: slope times `deviation`.
        share_rate: the share of the variance that each unit of `change` brings. Shares are linear, so the change along
            one path of several has a share too.
    """

    name: str
    deviation: float
    change: float
    share_rate: float

    @property
    def share(self) -> float:
        """The share in the variance; negative if correlations make the error of the value smaller."""
        return self.change * self.share_rate


class Uncertainty(NamedTuple):
    """The uncertainty of a value.

    Attributes:
        stderr: the standard error to first order.
        shares: the share of the variance that comes from each uncertain variable. They sum to 1; with correlations they
            may be negative.
        sources: the uncertain numbers.
        pairs: the correlations of these numbers that are not 0, by both names.
        second_order: the mean and the standard error to second order; None for more than `MAX_ELEMENTS` numbers.
        monte_carlo: the distribution for random inputs, if it is requested.
        warning: why the first order misleads, in words; empty if it does not.
        recommended: the result to use: "first order", "second order", "Monte Carlo" or "quantiles".
        reason: the reason for this recommendation, as a sentence.
    """

    stderr: float
    shares: dict[str, float]
    sources: tuple[ErrorSource, ...]
    pairs: Mapping[tuple[str, str], float]
    second_order: Moments | None
    monte_carlo: MonteCarlo | None
    warning: str
    recommended: str
    reason: str


class UncertainPoint:
    """A point at which some variables have standard errors.

    Args:
        formula: a formula whose output is a number.
        point: the value of every variable.
        errors: the standard error of each uncertain variable; for an array one for all elements, or one for each.
        correlations: the correlations of variables, or of elements of arrays.

    Attributes:
        formula: the formula.
        point: the value of every variable.
        variables: the uncertain variables.
        correlations: the correlations of their elements.
        names: the names of all uncertain numbers, the elements of arrays included.
        deviations: their standard errors.

    Raises:
        ExpressionError: for a negative or infinite error, an error of another shape than its value, and a correlation
        of a name that is not an uncertain number.
    """

    def __init__(
        self,
        formula: Formula,
        point: Mapping[str, Any],
        errors: Mapping[str, Any],
        correlations: Correlations = UNCORRELATED,
    ) -> None:
        self.formula, self.point, self.variables, self.correlations = formula, point, tuple(errors), correlations
        self._shapes = {name: np.shape(point[name]) for name in errors}
        for name, error in errors.items():
            check_errors(name, error, self._shapes[name])
        self.names = [element for name, shape in self._shapes.items() for element in element_names(name, shape)]
        self.deviations = self._flatten(errors)
        for name in correlations.names:
            check_correlated(name, self.names, self._shapes)
        self._positions = [self.names.index(name) for name in correlations.names]

    @np.errstate(all="ignore")
    def uncertainty(
        self,
        value: float,
        gradient: Mapping[str, Any],
        hessian: Mapping[str, Mapping[str, Any]] | None,
        right: Mapping[str, str] = MappingProxyType({}),
        draws: int = 0,
        seed: int = 0,
    ) -> Uncertainty:
        """Return the uncertainty of the value.

        Args:
            value: the value of the formula at the point.
            gradient: the derivative with respect to each uncertain variable.
            hessian: the second derivatives with respect to the uncertain variables; None for too many numbers.
            right: the correct digits of those numbers that rounding made inaccurate, named as in warnings: `value`,
                `x`, `hessian.x.y`.
            draws: the number of random inputs; 0 for no simulation.
            seed: the seed of the random number generator.
        """
        correct = {name: float(text) for name, text in right.items() if text != "unknown"}
        value = correct.get("value", value)
        slopes = self._flatten(gradient)
        for k, name in enumerate(self.names):
            slopes[k] = correct.get(derivative_key(name), slopes[k])
        changes = self._weight(slopes)
        amounts = self._correlate(changes, self.correlations.factor)
        stderr = math.hypot(*amounts)
        has_slope = (slopes != 0) | [_is_tiny(right, derivative_key(name)) for name in self.names]
        is_lost = ((changes == 0) & (self.deviations > 0) & has_slope).any()
        rates = np.zeros_like(changes)
        if stderr != 0:
            rates = self._correlate(amounts / stderr, self.correlations.factor.T) / stderr
        sources = tuple(map(ErrorSource, self.names, self.deviations.tolist(), changes.tolist(), rates.tolist()))
        shares = dict(zip(self._shapes, map(math.fsum, self._split(changes * rates)), strict=True))
        first, second_order, misleads, differs = Moments(value, stderr), None, "", ""
        if hessian is not None:
            curvature = self._curvature(hessian, correct)
            spread = math.hypot(stderr, *(curvature / math.sqrt(2)).ravel())
            second_order = Moments(value + float(np.trace(curvature)) / 2, spread)
            misleads, differs = _compare_orders(first, second_order), self._remainder(value, amounts, curvature, spread)
        simulated = self.simulate(draws, seed) if draws else None
        if is_lost:
            misleads = "the standard error is too small for a float"
        reasons = ", and ".join(filter(None, (misleads, differs)))
        warning = f"the first-order uncertainty is misleading: {reasons}" if reasons else ""
        if is_lost:
            recommended = "first order", "Multiply the formula by a large number: floats cannot represent its error."
        elif simulated is not None:
            recommended = _recommend(first, second_order, simulated)
        elif differs or second_order is None:
            recommended = "Monte Carlo", "Add --monte-carlo 100000: it shows the distribution of the value."
        elif misleads:
            recommended = "second order", "Use the second-order result: the formula is nearly quadratic here."
        else:
            recommended = "first order", "Use the first-order result: the second order agrees with it."
        pairs = self.correlations.pairs
        return Uncertainty(stderr, shares, sources, pairs, second_order, simulated, warning, *recommended)

    def simulate(self, draws: int, seed: int) -> MonteCarlo:
        """Return the distribution of the value for normal inputs, drawn at random."""
        generator, rows = np.random.default_rng(seed), max(1, _BLOCK_NUMBERS // max(1, len(self.names)))
        counts = (min(rows, draws - start) for start in range(0, draws, rows))
        blocks = (generator.standard_normal((count, len(self.names))) for count in counts)
        values = np.concatenate([*map(self._values_at, blocks)])
        finite = values[np.isfinite(values)]
        known = values[~np.isnan(values)]
        numbers = np.quantile(known if known.size else [math.nan], _PROBABILITIES, method="nearest").tolist()
        mean, stderr = (float(finite.mean()), float(finite.std())) if finite.size else (math.nan, math.nan)
        # The sampling error of a variance is the standard deviation of the squared deviations, by the square root of n.
        spread = float(np.square((finite - mean) / stderr).std()) if stderr > 0 else 0.0
        sample = np.random.default_rng(seed).standard_normal((min(draws, _PERTURBED_DRAWS), len(self.names)))
        rounding = float(np.sqrt(np.mean(np.square(np.nan_to_num(self._rounding_at(sample), posinf=0.0)))))
        return MonteCarlo(
            draws,
            seed,
            mean,
            stderr,
            stderr * spread / 2 / math.sqrt(max(1, finite.size)),
            dict(zip(map(str, _PROBABILITIES), numbers, strict=True)),
            draws - finite.size,
            rounding,
        )

    def _flatten(self, numbers: Mapping[str, Any]) -> Array:
        """Return numbers or arrays by variable as a vector of all uncertain numbers; one number is for all elements."""
        parts = (np.broadcast_to(np.asarray(numbers[name], float), shape) for name, shape in self._shapes.items())
        return np.concatenate([np.zeros(0), *map(np.ravel, parts)])

    def _split(self, numbers: Array) -> list[Array]:
        """Return the parts of the last axis of an array for each uncertain variable."""
        return np.split(numbers, np.cumsum([math.prod(shape) for shape in self._shapes.values()])[:-1], axis=-1)

    def _weight(self, numbers: Array) -> Array:
        """Return numbers times standard errors. An input without error contributes 0, even if its slope is infinite."""
        return np.where(self.deviations == 0, 0.0, numbers * self.deviations)

    def _correlate(self, numbers: Array, factor: Array) -> Array:
        """Return arrays whose last axis is multiplied by a matrix at the correlated numbers."""
        if self._positions:
            numbers = numbers.copy()
            numbers[..., self._positions] = numbers[..., self._positions] @ factor
        return numbers

    def _curvature(self, hessian: Mapping[str, Mapping[str, Any]], correct: Mapping[str, float]) -> Array:
        """Return the second derivatives along independent directions of one standard error each."""
        sizes = {name: math.prod(shape) for name, shape in self._shapes.items()}
        matrix = np.block([[np.reshape(hessian[a][b], (sizes[a], sizes[b])) for b in sizes] for a in sizes])
        for i, j in np.ndindex(matrix.shape) if correct else ():
            matrix[i, j] = correct.get(f"hessian.{self.names[i]}.{self.names[j]}", matrix[i, j])
        half = self._correlate(self._weight(matrix), self.correlations.factor).T
        return self._correlate(self._weight(half), self.correlations.factor)

    def _points_at(self, steps: Array, *, is_perturbed: bool = False) -> dict[str, Any]:
        """Return the points at steps from the point, of shape (steps, uncertain numbers), in standard errors.

        Args:
            is_perturbed: round every inexact sum in the other direction.
        """
        moves = self._split(self._correlate(steps, self.correlations.factor.T) * self.deviations)
        values = dict(self.point)
        for (name, shape), change in zip(self._shapes.items(), moves, strict=True):
            start, move = np.asarray(self.point[name]), change.reshape(-1, *shape)
            values[name] = end = start + move
            if is_perturbed:
                lost = move - (end - start)
                values[name] = np.nextafter(end, np.where(lost == 0, end, np.copysign(math.inf, lost)))
        return values

    def _values_at(self, steps: Array) -> Array:
        """Return the values at steps from the point."""
        sizes = self.formula.value_shapes(self.formula.at(self.point))
        (numbers,) = self.formula.evaluate([self.formula.output], self._points_at(steps), sizes)
        return np.broadcast_to(numbers, len(steps))

    def _rounding_at(self, steps: Array) -> Array:
        """Return how far the values at steps from the point move if all rounding errors are perturbed, as of inputs."""
        tape, values = Tape([self.formula.output]), list[Array]()
        for run, is_perturbed in ((PERTURBED_RUNS[:1], True), ((UNPERTURBED,), False)):
            leaf_values = {
                name: np.moveaxis(x, 0, -1) if name in self._shapes else np.asarray(x, float)[..., None]
                for name, x in self._points_at(steps, is_perturbed=is_perturbed).items()
            }
            values.append(forward(tape, start_perturbed_array_run(*run), leaf_values)[-1])
        return np.asarray(np.broadcast_to(np.abs(values[0] - values[1]), len(steps)))

    def _remainder(self, value: float, amounts: Array, curvature: Array, spread: float) -> str:
        """Return, in words, how the formula differs from its quadratic approximation; empty if the difference is small.

        The first and second order do not show higher derivatives, kinks and steps, as in x^4 at 0, or in sin(x) for an
        error of many periods.

        Args:
            value: the value at the point.
            amounts: its changes along independent directions of one standard error each.
            curvature: the second derivatives along them.
            spread: the standard error to second order.
        """
        oblique = np.random.default_rng(0).standard_normal((_OBLIQUE_DIRECTIONS, len(amounts)))
        directions = np.concatenate([np.eye(len(amounts)), oblique / np.linalg.norm(oblique, axis=1, keepdims=True)])
        steps = np.concatenate([directions, -directions]) * _REACH
        numbers = self._values_at(steps)
        expected = value + steps @ amounts + ((steps @ curvature) * steps).sum(axis=1) / 2
        if np.isnan(numbers).any():
            return f"the formula is not defined everywhere within {_REACH:g} standard errors of the point"
        rounding = 1e-9 * abs(value) + _ROUNDING_MARGIN * self._rounding_at(steps)
        # Both may overflow.
        if ((numbers == expected) | (np.abs(numbers - expected) <= MAX_BIAS * spread + rounding)).all():
            return ""
        return f"the formula is far from quadratic within {_REACH:g} standard errors of the point"


def check_errors(name: str, error: Any, shape: tuple[int, ...]) -> None:
    """Raise ExpressionError for standard errors of a variable that are negative, infinite or of another shape."""
    numbers = np.asarray(error, dtype=float)
    if numbers.shape not in ((), shape) or not ((numbers >= 0) & (numbers < math.inf)).all():
        shown = f"{error:g}" if numbers.shape == () else np.array2string(numbers, separator=", ", threshold=6)
        raise ExpressionError(f"the error of `{name}` must be 0 or positive, or an array of such errors, not {shown}")


def check_correlated(name: str, names: Iterable[str], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise ExpressionError if a correlated name is not an uncertain number."""
    if shapes.get(name):
        first = next(each for each in names if each.startswith(f"{name}["))
        raise ExpressionError(f"correlation of `{name}`: it is an array, so name its elements, such as {first}")
    if name not in names:
        raise ExpressionError(f"correlation of `{name}`: it is not an uncertain input; give it an error, as in 2+-0.1")


def _compare_orders(first: Moments, second: Moments) -> str:
    """Return, in words, how the first order differs from the second; empty if they are close."""
    bias = second.mean - first.mean
    if not (math.isfinite(first.stderr) and math.isfinite(second.stderr) and math.isfinite(bias)):
        return "slopes or curvatures are not finite"
    parts = []
    if abs(second.stderr - first.stderr) > MAX_DIFFERENCE * min(first.stderr, second.stderr):
        parts.append(f"the standard error is {first.stderr:.4g}, and {second.stderr:.4g} to second order")
    if abs(bias) > MAX_BIAS * first.stderr:
        parts.append(f"curvature shifts the mean by {bias:.4g}")
    return ", and ".join(parts)


def _recommend(first: Moments, second: Moments | None, simulated: MonteCarlo) -> tuple[str, str]:
    """Return which result to use, and why, by comparison with random draws."""
    if simulated.undefined:
        share = f"{simulated.undefined:,} of {simulated.draws:,} draws"
        return "quantiles", f"Use the quantiles: the value is not finite for {share}."
    if simulated.rounding > MAX_DIFFERENCE * simulated.stderr and first.stderr > 0:
        best = "first order" if second is None else "second order"
        return best, f"Use the {best.replace(' ', '-')} result: rounding errors destroy the digits of the draws."
    if simulated.stderr_error > _MAX_TAIL_ERROR * simulated.stderr:
        return "quantiles", "Use the quantiles: the tails are so heavy that a standard error means little."
    if _is_close(first, simulated):
        return "first order", "Use the first-order result: it has no random error, and the draws agree with it."
    if second is not None and _is_close(second, simulated):
        return "second order", "Use the second-order result: it has no random error, and the draws agree with it."
    return "Monte Carlo", "Use the random draws: neither order agrees with them."


def _is_tiny(right: Mapping[str, str], name: str) -> bool:
    """Whether the correct digits show that a number is too small for a float."""
    text = right.get(name, "unknown")
    return text != "unknown" and float(text) == 0 and not is_exactly(text, 0)


def _is_close(moments: Moments, simulated: MonteCarlo) -> bool:
    """Whether a mean and a standard error agree with random draws, within the sampling error."""
    tolerance = MAX_DIFFERENCE / 2 * simulated.stderr
    mean_error = simulated.stderr / math.sqrt(simulated.draws)
    return (
        abs(moments.mean - simulated.mean) <= tolerance + 3 * mean_error
        and abs(moments.stderr - simulated.stderr) <= tolerance + 3 * simulated.stderr_error
    )


# --- Rows


@dataclass(frozen=True)
class RowErrors:
    """Standard errors of variables at many points, for the standard error of the value at each point.

    Attributes:
        columns: the variables whose error is a column, with the name of the column.
        fixed: the errors of other variables, which are equal at all points: numbers, or arrays for arrays.
        correlations: the correlations of variables, or of elements of arrays.
    """

    columns: Mapping[str, str]
    fixed: Mapping[str, Any]
    correlations: Correlations = UNCORRELATED

    @property
    def names(self) -> tuple[str, ...]:
        """The uncertain variables."""
        return (*self.columns, *self.fixed)

    @property
    def leaf_values(self) -> dict[str, Any]:
        """The errors that are equal at all points, by the names of their leaves."""
        return {f"error of {name}": error for name, error in self.fixed.items()}

    @property
    def leaves(self) -> dict[str, Node]:
        """The leaves of all errors, by name."""
        return {name: variable(name) for name in (*self.columns.values(), *self.leaf_values)}

    def graphs(
        self, slopes: Mapping[str, Node], leaves: Mapping[str, Node], shapes: Mapping[str, tuple[int, ...]]
    ) -> tuple[Node, Node]:
        """Return the standard error of the value to first order, and the condition that it misleads, as graphs.

        The condition compares it with the second order. It is never true for arrays and for more than `_MAX_JUDGED`
        variables, where the second order takes too long.

        Args:
            slopes: the graphs of the derivatives with respect to the uncertain variables.
            leaves: the leaves of variables and of errors, by name.
            shapes: the shapes of the variables that are arrays.

        Raises:
            ExpressionError: as `UncertainPoint` does.
        """
        changes = self._changes(slopes, leaves, shapes)
        stderr = _length(changes)
        if len(self.names) > _MAX_JUDGED or any(shapes.get(name) for name in self.names):
            return stderr, as_node(0)
        inputs = [leaves[name] for name in self.names]
        second = (gradient_nodes(change, inputs, shapes) for change in changes)
        curvatures = [self._changes(dict(zip(self.names, each, strict=True)), leaves, shapes) for each in second]
        bias = functools.reduce(operator.add, (row[k] for k, row in enumerate(curvatures))) / 2
        wider = _length([stderr, *(curvature * as_node(math.sqrt(0.5)) for row in curvatures for curvature in row)])
        misleads = or_(wider > stderr * as_node(1 + MAX_DIFFERENCE), abs_(bias) > stderr * as_node(MAX_BIAS))
        return stderr, misleads

    def _changes(
        self, slopes: Mapping[str, Node], leaves: Mapping[str, Node], shapes: Mapping[str, tuple[int, ...]]
    ) -> list[Node]:
        """Return the changes of the value along independent directions of one standard error each; see `graphs`."""
        parts: list[Node] = []
        correlated: dict[str, Node] = {}
        names: list[str] = []
        for name in self.names:
            shape = shapes.get(name, ())
            leaf = leaves[self.columns.get(name, f"error of {name}")]
            change = slopes[name] * leaf
            if name in self.fixed:
                check_errors(name, self.fixed[name], shape)
            if not np.all(self.fixed.get(name, 0)):
                change = where(not_equal(leaf, 0), change, 0)  # 0 times an infinite slope is 0 here
            labels = element_names(name, shape)
            names += labels
            chosen = {*labels} & {*self.correlations.names}
            if not chosen:
                parts.append(norm(change) if shape else change)
                continue
            for position, label in zip(np.ndindex(shape), labels, strict=True):
                element = index(change, *(constant(str(k)) for k in position)) if position else change
                if label in chosen:
                    correlated[label] = element
                else:
                    parts.append(element)
        for name in self.correlations.names:
            check_correlated(name, names, shapes)
        for column in self.correlations.factor.T:
            terms = [
                correlated[name] * as_node(float(factor))
                for name, factor in zip(self.correlations.names, column, strict=True)
                if factor
            ]
            if terms:
                parts.append(functools.reduce(operator.add, terms))
        return parts


def _length(parts: Sequence[Node]) -> Node:
    """Return the root of the sum of squares."""
    return functools.reduce(hypot, parts) if len(parts) > 1 else abs_(parts[0])


def check_error_columns(columns: Mapping[str, NDArray[Any]], names: Iterable[str], first_row: int | None) -> None:
    """Raise ExpressionError for a negative or infinite error in a column, with its row.

    Args:
        columns: some rows of all columns.
        names: the columns of errors.
        first_row: the number of the first of these rows; None if it is not known.
    """
    for name in names:
        bad = np.flatnonzero(~((columns[name] >= 0) & (columns[name] < math.inf)))
        if bad.size:
            shown, place = columns[name][bad[0]], "" if first_row is None else f"row {first_row + int(bad[0])}: "
            raise ExpressionError(f"{place}the error in column `{name}` must be 0 or positive, not {shown:g}")

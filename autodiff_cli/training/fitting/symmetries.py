"""Symmetries of a model: parameter vectors with the same predictions, of which one is reported.

`canonical_parameters` chooses positive widths, phases within half a turn, softmax scores with sum 0, and the order of
two interchangeable rates. `order_terms` puts interchangeable terms, such as peaks and the components of mixtures, into
the same order in all fits. `Sinusoids` has the frequencies and phases of a model.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.algebra.simplify import share, simplify
from autodiff_cli.array_types import Array, Mask, ignore_float_errors
from autodiff_cli.backends.protocol import RowGraphs, RowKernel
from autodiff_cli.backends.selection import make_backend
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Gate, Node, is_literal
from autodiff_cli.graph.tape import group_pairs, leaf_names, topological_order
from autodiff_cli.ops.functions import cos, sin, sinc
from autodiff_cli.training.losses import LossKind
from autodiff_cli.training.methods.gradient_descent import StoppingRule
from autodiff_cli.training.methods.least_squares import DEPENDENCE_TOLERANCE, fit_least_squares, linear_mask
from autodiff_cli.training.objective.batch import repeat_objective, softmax_null_space
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.objective.parameters import Bounds, complemented_shares, dimensional_scales
from autodiff_cli.training.result.goodness import subsample
from autodiff_cli.training.result.statistics import compute_statistics, scaled_svd

MAX_SYMMETRIC_PARAMETERS = 200  # symmetries are searched up to this many parameters
MAX_REPEATED_ROWS = 100_000  # rows up to which fits are repeated to find equivalent or better solutions
_MAX_JOINT_PARAMETERS = 20  # joint symmetries are searched up to this many parameters: all subsets are tried
_MAX_COMPARED_ROWS = 500  # rows on which predictions are compared
_PREDICTION_TOLERANCE = 1e-9  # difference, relative to the range of the predictions, that counts as rounding
_EXCHANGE_TOLERANCE = 1e-7  # relative difference of the predictions of a second fit that counts as rounding
_MAX_EXCHANGE_EVALUATIONS = 100  # evaluations of a second fit; equivalent solutions are found within 40
_MAX_EXCHANGED_LEVELS = 20  # levels for each of which an exchange of parameters is tried
_MAX_LISTED = 6  # parameters of another solution that a sentence lists
_MAX_JOINT_FLIPS = 3  # parameters whose signs are flipped together
_TURN_DIGITS = 9  # digits of a turn to which the place of a row is rounded
_SPAN_TOLERANCE = 1e-6  # relative difference of two slope ranges that count as equal
_EVEN_STEPS = 1e-3  # deviation from whole multiples of the smallest distance, beyond which rows are uneven
_UNEVEN_SHARE = 20.0  # highest frequency for uneven rows, relative to even rows; it is higher if some rows are close
_CLOSEST_ROWS = 1e-9  # distance of rows, relative to their range, below which they count as one

Positions = NDArray[np.intp]


def canonical_parameters(objective: Objective, theta: Array) -> tuple[Array, list[str]]:
    """Return the canonical point among all points with the same predictions, and a sentence for each choice.

    A symmetry is used only if the predictions stay the same. Parameters with a given start keep its sign.
    """
    shortest, notes = _shortest_parameters(objective, theta)
    if notes or objective.loss == "cross_entropy":
        return shortest, notes
    layout = objective.layout
    if layout.size > MAX_SYMMETRIC_PARAMETERS or len(layout.element_names) != len(layout.names):
        return theta, []
    with ignore_float_errors():
        point, notes = _Symmetries(objective, theta, objective.bounds).resolve()
    # A minimum on a bound is none on the other side of it.
    is_minimum = np.array_equal(objective.bounds.active(point), objective.bounds.active(theta))
    return (point, notes) if is_minimum else (theta, [])


TERMS_NOTE = "terms of the model are interchangeable; they are reported in the same order in every fit"


def order_terms(objective: Objective, theta: Array, *, aligns_levels: bool = False) -> Array:
    """Return points of shape (fits, P) with interchangeable terms in the same order.

    Such terms are peaks or the components of a mixture. They are sorted by their first nonlinear parameter, or ordered
    like the starting values if the user gave any.

    Args:
        aligns_levels: sort the terms of each level separately, even if that changes the predictions. If all levels
            share parameters, the result may be the start of a better fit.
    """
    layout, groups = objective.layout, _interchangeable_terms(objective, theta[0])
    if not groups:
        return theta
    ordered = theta.copy()
    for terms in (part for each, symmetries in groups for part in each.by_level(objective, symmetries, aligns_levels)):
        columns, key = terms.columns, terms.columns[:, terms.key]
        is_given = np.isin(columns, [k for k, name in enumerate(layout.names) if name in objective.user_starts])
        if is_given.any():
            if not is_given[:, terms.key].all():
                continue
            columns = columns[np.argsort(objective.start[key], kind="stable")]
        values = terms.extended(ordered)
        ranks = np.argsort(values[:, columns[:, terms.key]], axis=1, kind="stable")
        exchanged = values.copy()
        for rank, term in enumerate(columns):
            exchanged[:, term] = values[np.arange(len(theta))[:, None], columns[ranks[:, rank]]]
        ordered = exchanged[:, : layout.size]
    is_allowed = [objective.constraints.are_met(point) and objective.bounds.contains(point) for point in ordered]
    if not aligns_levels:  # a minimum on a bound is none on the other side of it
        is_allowed &= (objective.bounds.active(ordered) == objective.bounds.active(theta)).all(axis=1)
    return np.where(np.array(is_allowed)[:, None], ordered, theta)


def interchangeable_masks(objective: Objective, theta: Array) -> Array:
    """Return the masks of the parameters of each interchangeable term, of shape (n, P)."""
    sets, every = _interchangeable_terms(objective, theta), np.arange(len(theta))
    return np.array([np.isin(every, term) for each, _ in sets for term in each.columns])


def exchanged_terms(objective: Objective, theta: Array) -> Array:
    """Return the points where two interchangeable terms have exchanged their parameters, of shape (n, P)."""
    points = [np.empty((0, len(theta)))]
    for each, symmetries in _interchangeable_terms(objective, theta):
        for terms in each.by_level(objective, symmetries, always=False):
            for pair in combinations(terms.columns, 2):
                exchanged = terms.extended(theta[None])
                exchanged[:, np.concatenate(pair)] = exchanged[:, np.concatenate(pair[::-1])]
                points.append(exchanged[:, : len(theta)])
    return np.concatenate(points)


def _interchangeable_terms(objective: Objective, theta: Array) -> list[tuple[_Terms, _Symmetries]]:
    """Return the sets of interchangeable terms of a sum, and the components of each mixture."""
    layout = objective.layout
    if layout.size > MAX_SYMMETRIC_PARAMETERS or len(layout.element_names) != len(layout.names) or objective.has_priors:
        return []
    linear, mixtures = linear_mask(objective), _mixture_shares(objective)
    terms = separate_terms(objective, linear, ~linear) if objective.has_residuals else []
    if len(terms) < 2 and not mixtures:
        return []
    point = theta * np.random.default_rng(0).uniform(0.8, 1.25, len(theta))
    return [*_similar_terms(objective, point, terms), *_mixtures(objective, point, mixtures)]


class _Terms(NamedTuple):
    """A set of interchangeable terms of a model.

    Attributes:
        columns: the parameters of each term, of shape (terms, parameters of a term); from P on, the last share.
        key: the position in a term of the parameter by which terms are ordered.
        shares: the free shares of each mixture, of which the last share is 1 minus their sum.
    """

    columns: NDArray[np.intp]
    key: int
    shares: Sequence[Sequence[int]] = ()

    def extended(self, theta: Array) -> Array:
        """Return points of shape (fits, P) with the last shares as further columns."""
        return np.column_stack((theta, *(1 - theta[:, [*part]].sum(axis=1) for part in self.shares)))

    def are_interchangeable(self, objective: Objective, symmetries: _Symmetries) -> bool:
        """Whether the terms have equal bounds, and the same predictions at a point when two of them change places."""
        point, bounds = symmetries.point, objective.bounds
        of_terms = self.columns[:, (self.columns < len(point)).all(axis=0) & ~np.isin(self.columns[0], self.shares)]
        if not all((limits[of_terms] == limits[of_terms[0]]).all() for limits in (bounds.low, bounds.high)):
            return False
        for term in self.columns[1:]:
            exchanged = self.extended(point[None])[0]
            exchanged[[*self.columns[0], *term]] = exchanged[[*term, *self.columns[0]]]
            if not symmetries.is_equivalent(exchanged[: len(point)]):
                return False
        return True

    def by_level(self, objective: Objective, symmetries: _Symmetries, always: bool) -> list[_Terms]:
        """Return the terms of each level separately if they are interchangeable there; otherwise all together."""
        levels = [objective.layout.names[k].partition("[")[2] for k in self.columns[0].tolist()]
        parts = []
        for level in dict.fromkeys(levels):
            own = [k for k, other in enumerate(levels) if other == level]
            keys = [number for number, k in enumerate(own) if k >= self.key]
            parts += [_Terms(self.columns[:, own], keys[0], self.shares)] if keys else []
        is_split = always or all(part.are_interchangeable(objective, symmetries) for part in parts)
        return parts if len(parts) > 1 and is_split else [self]


def _similar_terms(
    objective: Objective, point: Array, terms: Sequence[_TermParameters]
) -> Iterator[tuple[_Terms, _Symmetries]]:
    """Yield the sets of interchangeable terms of a sum, such as peaks; see `separate_terms`."""
    sets = list[_Terms]()
    symmetries = _Symmetries(objective, point, Bounds.unbounded(len(point)))
    for factors, others in terms:
        term = [*factors, *others]
        for number, (columns, key, _) in enumerate(sets):
            if key != len(factors) or columns.shape[1] != len(term):
                continue
            if _Terms(np.array([columns[0], term]), key).are_interchangeable(objective, symmetries):
                sets[number] = _Terms(np.vstack((columns, term)), key)
                break
        else:
            sets.append(_Terms(np.array([term]), len(factors)))
    yield from ((similar, symmetries) for similar in sets if len(similar.columns) > 1)


_Shares = tuple[tuple[str, ...], ...]  # the free shares of a mixture, each with its names for all levels


def _mixture_shares(objective: Objective) -> list[_Shares]:
    """Return the shares of each mixture such as `w*f + (1 - w)*g`."""
    program, slices = objective.model.program, objective.layout.slices

    def find() -> list[_Shares]:
        nodes = topological_order([program.output])
        distinct = dict.fromkeys(tuple(complemented_shares(node, program)) for node in nodes)
        return [shares for shares in distinct if shares and len({len(levels) for levels in shares}) == 1]

    mixtures = objective.kernels.cached("shares of mixtures", find)
    return [shares for shares in mixtures if all(name in slices for levels in shares for name in levels)]


def _mixtures(objective: Objective, point: Array, mixtures: Sequence[_Shares]) -> Iterator[tuple[_Terms, _Symmetries]]:
    """Yield the components of mixtures, given their shares: the parameters that matter where one share is 1."""
    slices, size = objective.layout.slices, len(point)
    for shares in mixtures:
        free = np.array([[slices[name].start for name in levels] for levels in shares]).T  # of shape (levels, shares)
        inside = point.copy()
        inside[free] = 0.7 / (1 + len(shares))
        symmetries = _Symmetries(objective, inside, Bounds.unbounded(size))
        corners = np.vstack((np.eye(len(shares)), np.zeros(len(shares))))
        own = [symmetries.influential(free, corner) for corner in corners]
        common = np.logical_and.reduce(own)
        positions = [np.flatnonzero(matters & ~common) for matters in own]
        if len({len(each) for each in positions}) > 1 or not len(positions[0]):
            continue
        last = [*free.T, size + np.arange(len(free))]
        columns = np.array([[*each, *share] for each, share in zip(positions, last, strict=True)])
        terms = _Terms(columns, 0, free.tolist())
        if terms.are_interchangeable(objective, symmetries):
            yield terms, symmetries


def _shortest_parameters(objective: Objective, theta: Array) -> tuple[Array, list[str]]:
    """Return the shortest vector of parameters with the same predictions, of a model that is linear up to its link.

    The scores of a softmax then sum to 0 over the classes. Rounding errors would choose another vector on each
    processor. They would also choose whether a redundant parameter ends on a bound, and so seems to be determined.
    """
    null_space, note, bounds = softmax_null_space(objective, theta), _CENTRED_SOFTMAX, objective.bounds
    if null_space is None or not null_space.shape[1]:
        if not objective.is_generalised_linear:
            return theta, []
        if not (bounds.active(theta).any() or compute_statistics(objective, theta).missing_error_reasons):
            return theta, []
        scale, _, directions, is_null = scaled_svd(objective.slope_triangle(theta), DEPENDENCE_TOLERANCE)
        null_space, note = np.linalg.qr((directions[is_null] / scale).T)[0], _SHORTEST
    shortest = theta - null_space @ (null_space.T @ theta)
    # Where a link is flat, more directions than those of the columns seem to change nothing.
    is_equivalent = _Symmetries(objective, theta, bounds).is_equivalent(shortest, _EXCHANGE_TOLERANCE)
    is_usable = null_space.size and is_equivalent and (bounds.active(shortest) <= bounds.active(theta)).all()
    return (shortest, [note]) if is_usable else (theta, [])


_CENTRED_SOFTMAX = (
    "softmax scores are determined only up to a common constant; the parameters are reported with sums of 0 over the "
    "classes"
)
_SHORTEST = "parameters with other values fit equally well; those with the least sum of squares are reported"


class _Symmetries:
    """The signs, phases and jumps that leave all predictions unchanged.

    Attributes:
        point: the point of the predictions.
    """

    def __init__(self, objective: Objective, theta: Array, bounds: Bounds) -> None:
        self._objective, self._names, self._bounds = objective, objective.layout.names, bounds
        self._theta = self.point = theta
        backwards = [name in objective.user_starts and objective.start[k] < 0 for k, name in enumerate(self._names)]
        self._signs = np.where(backwards, -1.0, 1.0)
        self._sinusoids = Sinusoids(self._objective)
        self._linear = linear_mask(objective)
        self._phases = self._sinusoids.phases

    def resolve(self) -> tuple[Array, list[str]]:
        """Return the canonical point, and a sentence for each choice."""
        lowered = dict.fromkeys(self._lower_frequencies())
        flipped = dict.fromkeys(name for subset in self._flip_signs() for name in subset)
        turned = group_pairs(self._turn_phases())
        notes = [*self._exchange_pairs(), *self._centre_jumps()]
        choices = (
            (lowered, "the lowest frequencies are reported for {}; evenly spaced rows leave others open"),
            (flipped, "the signs of {} are not determined; the positive values are reported"),
            *((names, sentence) for sentence, names in turned.items()),
        )
        notes += [sentence.format(", ".join(f"`{name}`" for name in names)) for names, sentence in choices if names]
        return self._theta, notes

    def _lower_frequencies(self) -> Iterator[str]:
        """Lower frequencies as long as the predictions stay the same, and yield their names."""
        if self._objective.kind is not LossKind.SQUARES or self._objective.rows > MAX_REPEATED_ROWS:
            return
        for index, lowest in self._sinusoids.lowest_aliases(self._theta):
            if self._names[index] not in self._objective.user_starts:
                refitted = self._refit(np.array([[index]]), np.array([[lowest]]))[0]
                if self.is_equivalent(refitted, _EXCHANGE_TOLERANCE):
                    self._theta = self.point = refitted
                    del self._at_point  # at high frequencies, rounding errors of predictions are large
                    yield self._names[index]

    def _flip_signs(self) -> Iterator[list[str]]:
        """Flip the signs of one parameter, or of a few together, while more of them get their preferred sign."""
        preferred = self._count_preferred(self._theta)
        if preferred == len(self._theta) - len(self._phases):
            return
        # The sign of a parameter that could as well be 0, such as the intercept of a perfect line, is only rounding.
        positions = np.arange(len(self._theta))
        matters = [k for k in positions.tolist() if not self.is_equivalent(np.where(positions == k, 0.0, self._theta))]
        subsets = [
            indices
            for count in range(1, _MAX_JOINT_FLIPS + 1 if len(self._theta) <= _MAX_JOINT_PARAMETERS else 2)
            for indices in combinations(matters, count)
        ]
        for indices in subsets:
            for mirrored in self._mirror_images([*indices]):
                # Fitted linear parameters may cancel a term, whose signs are then meaningless.
                without = np.where(np.isin(positions, indices), 0.0, mirrored)
                is_better = self._count_preferred(mirrored) > preferred and self.is_equivalent(mirrored)
                if is_better and not self.is_equivalent(without):
                    self._theta, preferred = mirrored, self._count_preferred(mirrored)
                    yield [self._names[k] for k in indices if k not in self._phases]
                    break

    def _count_preferred(self, theta: Array) -> int:
        """The number of parameters, except for phases, with the preferred sign."""
        is_preferred = theta * self._signs > 0
        is_preferred[self._phases] = False
        return int(np.count_nonzero(is_preferred))

    def _mirror_images(self, indices: list[int]) -> Iterator[Array]:
        """Yield the point with some signs flipped; also with a phase shifted by half a turn."""
        mirrored = self._theta.copy()
        mirrored[indices] *= -1
        yield mirrored
        for index, turn, _ in self._sinusoids.turns(mirrored):
            shifted = mirrored.copy()
            shifted[index] += turn / 2
            yield shifted
        if len(indices) == 1 and self._linear.any() and not self._linear[indices[0]]:
            yield self._with_fitted_linear(mirrored)

    def _with_fitted_linear(self, theta: Array) -> Array:
        """Return a point with the values of the linear parameters that change the predictions least.

        In `b + (t - b)/(1 + (k/x)^h)`, the sign of `h` changes if `b` and `t` change places.
        """
        columns = np.flatnonzero(self._linear)
        theta = np.where(self._linear, 0.0, theta)
        units = [np.where(np.arange(len(theta)) == column, 1.0, theta) for column in columns]
        base = self._predictions(theta)
        design = np.array([(self._predictions(unit) - base).ravel() for unit in units]).T
        change = (self._at_point - base).ravel()
        if np.isfinite(design).all() and np.isfinite(change).all():
            theta[columns] = np.linalg.lstsq(design, change, rcond=None)[0]
        return theta

    def _turn_phases(self) -> Iterator[tuple[str, str]]:
        """Turn angles to within half a turn of 0, and places such as `t0` in `sin(w*(t - t0))` to within half a turn of
        the row nearest to the user's start, or to 0. Yield a sentence for each phase that changes, and its name.
        """
        for index, turn, places in self._sinusoids.turns(self._theta):
            start = self._objective.start[index] if self._names[index] in self._objective.user_starts else 0.0
            nearest = turn * round(float(np.clip(start, places.min(), places.max())) / turn, _TURN_DIGITS)
            turns = math.floor((self._theta[index] - nearest) / turn + 0.5)
            turned = self._theta.copy()
            turned[index] -= turn * turns
            if turns and self.is_equivalent(turned):
                self._theta = turned
                near = f"values within half a turn of {nearest:.6g}"
                yield f"{near} are reported for {{}}; whole turns change nothing", self._names[index]

    def _exchange_pairs(self) -> Iterator[str]:
        """Exchange parameters that are interchangeable if others change with them, and yield a sentence for each pair.

        An example is the rates of absorption and elimination of a drug. Signs of parameters and starting values of the
        user decide which solution is reported; otherwise the first parameter of a pair gets the larger value.
        """
        for pair in self._similar_pairs():
            single = [pair[:, [k]] for k in range(pair.shape[1])] if 1 < pair.shape[1] <= _MAX_EXCHANGED_LEVELS else []
            exchanged, *by_level = self._refit(pairs := [pair, *single], [self._theta[each[::-1]] for each in pairs])
            signs = np.sign(np.subtract(*self._objective.start[pair]))
            preferred = np.where(signs != 0, signs, 1.0)

            def score(theta: Array, pair: Positions = pair, preferred: Array = preferred) -> tuple[int, int]:
                is_ordered = np.sign(np.subtract(*theta[pair])) == preferred
                return self._count_preferred(theta), int(np.count_nonzero(is_ordered))

            candidates = [self._theta]
            if by_level and all(self.is_equivalent(point, _EXCHANGE_TOLERANCE) for point in by_level):
                wrong = np.sign(np.subtract(*self._theta[pair])) != preferred
                changes = np.array(by_level) - self._theta
                exchanged = self._theta + changes.sum(axis=0)
                candidates.append(self._theta + changes[wrong].sum(axis=0))
            if not self.is_equivalent(exchanged, _EXCHANGE_TOLERANCE):
                continue
            candidates.append(exchanged)
            best = max(candidates, key=score)
            other, self._theta = exchanged if best is self._theta else self._theta, best
            one, two = (self._names[k].partition("[")[0] for k in pair[:, 0])
            words = f"another solution gives the same predictions, with `{one}` and `{two}` exchanged"
            changed = np.flatnonzero(np.abs(other - best) > _EXCHANGE_TOLERANCE * np.abs(best))
            if len(changed) <= _MAX_LISTED:
                words += f": {', '.join(f'{self._names[k]} = {other[k]:.4g}' for k in changed)}"
            yield words

    def _centre_jumps(self) -> Iterator[str]:
        """Move jumps to the middle between two rows, where that changes nothing, and yield a sentence for each."""
        objective, positions = self._objective, np.arange(len(self._theta))
        groups = find_jumps(objective) if objective.has_kinks and objective.rows <= MAX_REPEATED_ROWS else []
        for index, jumps in group_pairs((group[0].parameter, group[0]) for group in groups if len(group) == 1).items():
            for low, high in jump_gaps(jumps, objective, self._theta, 1).tolist():
                centred = np.where(positions == index, low / 2 + high / 2, self._theta)
                is_usable = low <= self._theta[index] <= high > low and self._bounds.contains(centred)
                if is_usable and objective.value(centred) == objective.value(self._theta):
                    self._theta, name = centred, f"`{self._names[index]}`"
                    yield f"any {name} between {low:.6g} and {high:.6g} fits equally well; the middle is reported"

    def _similar_pairs(self) -> Iterator[Positions]:
        """Yield the pairs of nonlinear parameters with the same dimension, each of shape (2, levels).

        Pairs from interchangeable terms are left out: `order_terms` treats them.
        """
        objective = self._objective
        if objective.kind is not LossKind.SQUARES or objective.rows > MAX_REPEATED_ROWS:
            return
        positions: dict[str, dict[str, int]] = {}
        for k in np.flatnonzero(~self._linear).tolist():
            name, _, level = self._names[k].partition("[")
            positions.setdefault(name, {})[level] = k
        similar = [pair for pair in combinations(positions.values(), 2) if pair[0].keys() == pair[1].keys()]
        if not similar:
            return
        columns = {name: 10.0 + k**0.5 for k, name in enumerate(objective.model.columns)}  # unrelated scales
        program, target = objective.model.program.output, objective.model.program.target
        sizes = [*dimensional_scales(program, target, columns, self._names).values()]
        pairs = [np.array([[*one.values()], [two[level] for level in one]]) for one, two in similar]
        pairs = [pair for pair in pairs if math.isclose(*(sizes[k] for k in pair[:, 0]))]
        interchangeable = _interchangeable_terms(objective, self._theta) if pairs else []
        ordered = [{*column} for terms, _ in interchangeable for column in terms.columns.T.tolist()]
        yield from (pair for pair in pairs if not any({*pair[:, 0]} <= column for column in ordered))

    def _refit(self, fixed: Sequence[Positions] | Positions, values: Sequence[Array] | Array) -> Array:
        """Return points with other values of some parameters each and all others fitted."""
        each = np.array([self._theta, self._bounds.low, self._bounds.high])
        start, low, high = np.tile(each[:, None], (len(fixed), 1))
        for row, (some, others) in enumerate(zip(fixed, values, strict=True)):
            start[row, some] = low[row, some] = high[row, some] = others
        batch = repeat_objective(self._objective, len(fixed), Bounds(low, high))
        ends = fit_least_squares(batch, start, stop=StoppingRule(evaluations=_MAX_EXCHANGE_EVALUATIONS))
        return np.array([end.theta for end in ends])

    def is_equivalent(self, theta: Array, relative: float = _PREDICTION_TOLERANCE) -> bool:
        """Whether a point lies within the bounds and has the same predictions, relative to their range."""
        if not self._bounds.contains(theta):
            return False
        original = self._at_point
        tolerance = relative * max(float(np.ptp(original)), 1e-3 * float(np.abs(original).max()))
        return bool((np.abs(self._predictions(theta) - original) <= tolerance).all())

    def influential(self, fixed: NDArray[np.intp], values: Array) -> NDArray[np.bool_]:
        """Return which of the other parameters have an effect where some parameters have these values."""
        point, mask = self.point.copy(), np.zeros(len(self.point), np.bool_)
        point[fixed] = values
        original = self._predictions(point)
        for k in np.setdiff1d(np.arange(len(point)), fixed).tolist():
            changed = point.copy()
            changed[k] *= 1.1
            mask[k] = not np.array_equal(self._predictions(changed), original)
        return mask

    def _predictions(self, theta: Array) -> Array:
        """The predictions for a sample of the rows, or their losses if there is no prediction."""
        sample, kernels = self._sinusoids.sample, self._objective.kernels
        if not sample.has_residuals:
            return sample.evaluate_rows(kernels.row_loss, theta)
        target = sample.cached("target", lambda: sample.evaluate_rows(kernels.target, theta))
        return np.asarray(target - sample.evaluate_rows(kernels.residuals, theta))

    @functools.cached_property
    def _at_point(self) -> Array:
        """The predictions at the point."""
        return self._predictions(self.point)


class FrequencyGrid(NamedTuple):
    """The values of a frequency to be scanned, from low to high frequencies.

    Attributes:
        parameter: the index of the parameter in `theta`.
        values: its values, evenly spaced in turns over the range of the data.
        turns: the number of turns for each value.
    """

    parameter: int
    values: Array
    turns: Array


class Sinusoids:
    """The frequencies and phases of a prediction: the parameters in the arguments of its sines and cosines.

    Attributes:
        frequencies: the indices of the parameters whose effect on an argument depends on columns.
        phases: the indices of the parameters with the same effect in every row, or in every row of a level.

    >>> from autodiff_cli.training.objective.objective import Objective
    >>> objective = Objective("y ~ a*sin(2*pi*x/P + p)", {"x": [0.0, 1, 2, 3, 4], "y": [0, 1, 0, -1, 0]})
    >>> waves = Sinusoids(objective)
    >>> (scan,) = waves.frequency_grids(objective.start, 1, 100, objective.bounds)
    >>> scan.parameter, scan.values.tolist()
    (1, [4.0, 2.0])
    >>> [*waves.turns(objective.start)]
    [(2, 6.283185307179586, array([0.]))]
    """

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        cached = objective.kernels.cached
        self._slopes, self.frequencies, self.phases = cached("waves", lambda: _find_arguments(objective))

    def frequency_grids(self, theta: Array, per_turn: int, most: int, box: Bounds) -> Iterator[FrequencyGrid]:
        """Yield the values to scan for each frequency or period, up to half a turn between the two closest rows.

        Rows at even distances do not distinguish higher frequencies from lower ones; rows at uneven distances do.

        Args:
            theta: the values of all other parameters.
            per_turn: the number of values per additional turn.
            most: the maximum number of values.
            box: bounds within which the values lie.
        """
        for index, unit, power, steps in self._scales(theta):
            high = max(steps[-1], self._objective.rows * (1 if _are_even(steps) else _UNEVEN_SHARE)) / 2
            ends = np.array([box.low[index], box.high[index]])
            with np.errstate(divide="ignore"):
                turns = np.sort((np.where(ends > 0, ends, 0.0) / unit) ** power)
            low, high = max(1 / per_turn, turns[0]), turns[1] if np.isfinite(turns[1]) else high
            first, last = math.ceil(low * per_turn - 1e-6), math.floor(high * per_turn + 1e-6)
            turns = np.arange(first, min(last, first + most) + 1)
            if len(turns):
                yield FrequencyGrid(index, unit * (turns / per_turn) ** power, turns / per_turn)

    def lowest_aliases(self, theta: Array) -> Iterator[tuple[int, float]]:
        """Yield lower values of a frequency or period that rows at even distances may not distinguish from its value,
        with its index, the lowest last.
        """
        for index, unit, power, steps in self._scales(theta):
            turns = (theta[index] / unit) ** power
            for period in (steps[-1], steps[-1] / 2) if _are_even(steps) else ():  # sin² has half of the period
                lowest = turns - period * round(turns / period)
                if lowest not in (0, turns):
                    yield index, unit * lowest**power

    def _scales(self, theta: Array) -> Iterator[tuple[int, float, int, Array]]:
        """Yield the index of each frequency or period, its value for one turn over the range of the data, 1 for a
        frequency or -1 for a period, and the positions of the rows, from 0, in units of the smallest distance.
        """
        for index in self.frequencies:
            at_one = theta.copy()
            at_one[index] = at_one[index] or 1.0
            at_two = at_one.copy()
            at_two[index] *= 2
            slopes, span_at_two = self._row_slopes(index, at_one), np.ptp(self._row_slopes(index, at_two))
            span = float(np.ptp(slopes))
            places = np.unique(slopes)
            places = places[np.diff(places, prepend=-np.inf) > _CLOSEST_ROWS * span]
            steps = (places - places[0]) / np.diff(places).min(initial=np.inf)
            if abs(span_at_two / span - 1) < _SPAN_TOLERANCE:
                yield index, 2 * np.pi / span, 1, steps
            elif abs(4 * span_at_two / span - 1) < _SPAN_TOLERANCE:
                yield index, span * at_one[index] ** 2 / (2 * np.pi), -1, steps

    def turns(self, theta: Array) -> Iterator[tuple[int, float, Array]]:
        """Yield the index of each phase, the change of it that is a whole turn, and the values with which its argument
        is 0 in a row, if it is a place such as `t0` in `sin(w*(t - t0))`; only 0 if it is an angle.
        """
        for index in self.phases:
            values = self.sample.evaluate_rows(self._slopes[index], theta)
            slopes, *arguments = values[:, np.isfinite(values).all(axis=0) & (values[0] != 0)]
            if len(slopes):  # rows of other levels have a slope of 0
                places = np.array([theta[index] - argument / slopes for argument in arguments] or [0.0])
                yield index, 2 * math.pi / float(np.abs(slopes).min()), places

    def _row_slopes(self, index: int, theta: Array) -> Array:
        """The derivative of an argument in each row."""
        return np.asarray(self._objective.evaluate_rows(self._slopes[index], theta)[0])

    @functools.cached_property
    def sample(self) -> Objective:
        """The objective over some of the rows, on which predictions are compared."""
        return subsample(self._objective, _MAX_COMPARED_ROWS)


def _are_even(steps: Array) -> bool:
    """Whether all distances between neighbours, in units of the smallest one, are whole numbers."""
    return bool((np.abs((gaps := np.diff(steps)) - np.rint(gaps)) <= _EVEN_STEPS).all())


def _find_arguments(objective: Objective) -> tuple[dict[int, RowKernel], list[int], list[int]]:
    """Find the parameters in the arguments of sinusoids.

    Returns:
        Kernels for the derivatives of the arguments, by the index of the parameter, which also compute the argument if
        the derivative of a phase depends on parameters; the indices of the parameters whose derivative depends on
        columns, and of those, the phases, whose derivative depends at most on labels.
    """
    kernels: dict[int, RowKernel] = {}
    model, layout = objective.model, objective.layout
    by_columns: dict[bool, list[int]] = {True: [], False: []}
    sinusoids = _slopes_of(objective, lambda node: node.inputs[0] if node.op in (sin, cos, sinc) else None)
    for node, argument, used in sinusoids:
        varies = [not {*model.columns, *model.effects}.isdisjoint(leaf_names([slope])) for _, slope in used]
        if node.op is sinc and not all(varies):
            continue  # the place of a pulse is not a phase
        for (leaf, slope), of_row in zip(used, varies, strict=True):
            index, is_angle = layout.slices[leaf.text].start, {*layout.names}.isdisjoint(leaf_names([slope]))
            if leaf.text not in model.shapes and index not in kernels:
                kernels[index] = _row_kernel(objective, [slope] if of_row or is_angle else [slope, argument])
                by_columns[of_row].append(index)
    return kernels, by_columns[True], by_columns[False]


class Jump(NamedTuple):
    """A parameter that moves a jump or a bend of the model, such as `k` in `x > k` and `relu(x - k)`, or `m` and also
    `w` in `abs(x - m) < w`.

    Attributes:
        parameter: the index of the parameter.
        kernel: its value that puts the jump at each row, if the argument of the operation is linear in it.
    """

    parameter: int
    kernel: RowKernel


def jump_gaps(jumps: Sequence[Jump], objective: Objective, theta: Array, count: int) -> Array:
    """Return pairs of values of a parameter that put one of its jumps at neighbouring rows, in order: the pairs nearest
    to a point, and ever fewer of the others, up to a count on each side.
    """
    values = np.concatenate([objective.evaluate_rows(jump.kernel, theta)[0] for jump in jumps])
    rows, here = np.unique(values[np.isfinite(values)]), theta[jumps[0].parameter]
    if len(rows) < 2:
        return np.array([[here, here]])
    steps = np.unique(np.geomspace(1, len(rows), count).astype(int))
    after = np.searchsorted(rows, here) + np.concatenate((-steps, [0], steps))
    return np.asarray(rows[np.unique(np.clip(after, 1, len(rows) - 1))[:, None] - [1, 0]])


def find_jumps(objective: Objective) -> list[tuple[Jump, ...]]:
    """Return each parameter that moves a jump or a bend, and each two that move the same jump in some rows."""
    return objective.kernels.cached("jumps", lambda: [*_find_jumps(objective)])


def _find_jumps(objective: Objective) -> Iterator[tuple[Jump, ...]]:
    def difference(node: Node) -> Node | None:
        has_kink = node.op is not None and node.op.kink is not None and not node.op.is_structural
        return functools.reduce(operator.sub, node.inputs[:2]) if has_kink else None

    for node, distance, used in _slopes_of(objective, difference):
        slopes = {leaf: slope for leaf, slope in used if leaf.text not in objective.model.shapes}
        places = {leaf: _row_kernel(objective, simplify([leaf - distance / slope])) for leaf, slope in slopes.items()}
        jumps = [Jump(objective.layout.slices[leaf.text].start, kernel) for leaf, kernel in places.items()]
        if len(jumps) > 1 and node.op and node.op.gate is not Gate.BLOCK:
            continue  # several parameters of a bend also change the curve elsewhere, which takes more than a scan
        rows = [np.isfinite(objective.evaluate_rows(jump.kernel, objective.start)[0]) for jump in jumps]
        yield from zip(jumps)
        yield from ((jumps[i], jumps[k]) for i, k in combinations(range(len(jumps)), 2) if (rows[i] & rows[k]).any())


def _slopes_of(
    objective: Objective, argument_of: Callable[[Node], Node | None]
) -> Iterator[tuple[Node, Node, list[tuple[Node, Node]]]]:
    """Yield each operation that has an argument, and the argument with its derivatives by parameters, except zeros."""
    model, layout = objective.model, objective.layout
    shared, *leaves = share([model.program.output, *(model.program.leaves[name] for name in layout.names)])
    for node in topological_order([shared]):
        if (argument := argument_of(node)) is not None:
            slopes = simplify(gradient_nodes(argument, leaves, model.shapes))
            yield node, argument, [pair for pair in zip(leaves, slopes, strict=True) if not is_literal(pair[1], 0)]


def _row_kernel(objective: Objective, graphs: list[Node]) -> RowKernel:
    return make_backend().row_kernel(RowGraphs(graphs, {*objective.model.row_leaves}, objective.model.shapes))


_TermParameters = tuple[list[int], list[int]]  # the linear and the nonlinear parameters of a term


def separate_terms(objective: Objective, linear: Mask, searched: Mask) -> list[_TermParameters]:
    """Return the linear and the nonlinear parameters of each term of a sum, such as the parameters of each peak.

    The result is empty if a nonlinear parameter is in no term.
    """
    key = f"terms of {linear.tobytes()!r} and {searched.tobytes()!r}"
    return objective.kernels.cached(key, lambda: _separate_terms(objective, linear, searched))


def _separate_terms(objective: Objective, linear: Mask, searched: Mask) -> list[_TermParameters]:
    model, layout = objective.model, objective.layout
    names = {index: name for name, part in layout.slices.items() for index in [part.start]}
    factors = np.flatnonzero(linear).tolist()
    output, *leaves = share([model.program.output, *(model.program.leaves[names[k]] for k in factors)])
    terms: dict[tuple[int, ...], list[int]] = {}
    for factor, slope in zip(factors, simplify(gradient_nodes(output, leaves, model.shapes)), strict=True):
        texts = {*leaf_names([slope])}
        others = tuple(k for k in np.flatnonzero(searched).tolist() if names.get(k) in texts)
        terms.setdefault(others, []).append(factor)
    terms.pop((), None)
    covered = {index for others in terms for index in others}
    return [(k, [*others]) for others, k in terms.items()] if covered == {*np.flatnonzero(searched).tolist()} else []

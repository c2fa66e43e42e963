"""Starting values estimated from the data, for fits that fail from the default ones.

`multistart` searches for many fits side by side. Each search proposes points for its fit. The best points of all
searches are improved in one batch, on samples of the rows, and the best end of each fit is returned. Four ideas reduce
a search:

- Parameters in which the prediction is linear need no starting value (variable projection, Golub & Pereyra 1973).
- Frequencies are scanned one by one, as in a periodogram, with the model in place of the sinusoids (`Sinusoids`), and
  two of them together where they meet, as in `sin(v*x)*cos(w*x)`.
- Each jump or bend, as of `x > k` and `relu(x - k)`, is put between any two rows in memory, one after the other.
- All other parameters are drawn at random, with the sizes of the columns, of their reciprocals, and of the expressions
  that operations combine them with. In `y ~ a*exp(-x/t)`, `t` is drawn with the size of x.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import operator
from collections.abc import Callable, Generator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array, Mask, ignore_float_errors
from autodiff_cli.backends.protocol import RowGraphs, RowKernel
from autodiff_cli.backends.reductions import block_slices
from autodiff_cli.backends.selection import make_backend
from autodiff_cli.graph.tape import dependents, leaf_names, topological_order
from autodiff_cli.numbers.floats import parse_constant
from autodiff_cli.training.fitting import minimization, symmetries
from autodiff_cli.training.fitting.symmetries import FrequencyGrid, Sinusoids
from autodiff_cli.training.losses import LossKind
from autodiff_cli.training.methods.gradient_descent import StoppingRule
from autodiff_cli.training.methods.least_squares import fit_least_squares, linear_mask, project_linear_each
from autodiff_cli.training.objective.batch import BATCH, Batch, Fits, GroupBatch, repeat_objective
from autodiff_cli.training.objective.objective import Objective, copy_with
from autodiff_cli.training.objective.parameters import Bounds, initial_arrays
from autodiff_cli.training.result.diagnosis import residual_structure
from autodiff_cli.training.result.goodness import RESIDUALS, sampled_rows, subsample
from autodiff_cli.training.rows import MemoryRows

_RIDGE = 1e-12  # added to the diagonal of normal equations with unit diagonal, which may be singular


class Effort(NamedTuple):
    """The work of the search for one fit.

    Attributes:
        draws: the number of random points, with values for all parameters that are not linear.
        descents: the number of fits in each round, from the best points.
        scan_work: the number of values scanned for one frequency, times rows.
    """

    draws: int
    descents: int
    scan_work: int


class MultistartSettings(NamedTuple):
    """Size and stopping rules of the search for starting values."""

    thorough: Effort = Effort(1500, 12, 10_000_000)
    check: Effort = Effort(1500, 12, 1_000_000)  # effort to check a fit that is not poor
    quick: Effort = Effort(100, 4, 1_000_000)  # effort for each of many fits, and to compare a fit with other valleys
    max_sample_rows: int = 500  # rows of the random sample; a regular sample would alias frequencies
    max_draw_work: int = 30_000_000  # limit of draws, times rows, times squared number of parameters
    random_rounds: int = 3  # rounds that share the random points
    max_frequencies: int = 100_000  # values scanned for one frequency
    frequencies_per_turn: int = 5  # scanned frequencies per additional turn over the range of the data
    min_frequencies: int = 200  # values scanned in all: with few rows, five per turn alias
    frequency_steps: int = 8  # Gauss-Newton steps from the best frequencies of a scan
    min_gaps: int = 5  # gaps between rows to which a jump is moved, on each side; more if there is time for them
    jump_rounds: int = 3  # passes over all jumps
    max_peaks: int = 6  # frequencies for which phases are tried
    scan_rounds: int = 2  # passes over all frequencies, if the model has several
    residual_rounds: int = 3  # searches for points that explain the residuals of the best one
    likelihood_draws: int = 500  # random points for a model that is itself minus a log-likelihood
    likelihood_starts: int = 144  # the best of these points, which are improved
    max_likelihood_rows: int = 2000  # rows of the sample on which these points are improved
    # Epochs, best ends that continue, and the mean difference of log-likelihoods that keeps them in different valleys.
    likelihood_rounds: tuple[tuple[int, int, float], ...] = ((8, 36, 0.1), (30, 6, 0.01), (200, 6, 0.001))
    likelihood_searches: int = 4  # the most searches for better minima, each near the end of the last
    max_thorough_fits: int = 100  # fits of a batch that are searched thoroughly; searches of more are quick
    max_sampled_fits: int = 20  # sample of many fits that may be poor, which decides whether all are searched
    max_searched_fits: int = 200  # fits that are searched together, which bounds the memory
    neighbours: int = 7  # the nearest points, with the point itself, that show whether it is the lowest of a valley
    max_terms: int = 12  # terms of a sum that are placed one after the other
    beam_width: int = 4  # best placements of the terms so far, to each of which the next term is added
    descent_evaluations: int = 60  # evaluations of each run
    descent_epochs: int = 30  # epochs of each run of a likelihood, after its run of least squares
    equal_loss_tolerance: float = 1e-6  # relative difference of two losses that count as equal
    confirmations: int = 3  # the search ends when this many proposals of points led to the best loss
    good_fit_share: float = 0.001  # share of the target's variation below which a loss without structure is good
    few_rows: int = 100  # with fewer rows, that share shrinks by their cube: wrong curves fit few rows well


SETTINGS = MultistartSettings()


@dataclass(frozen=True, slots=True)
class StartCandidate:
    """A starting point with the result of a fit from it to a sample of the rows.

    Attributes:
        start: the starting point.
        end: the end of the fit.
        loss: the loss at the end; see `comparison_losses`.
        alternatives: other ends that are nearly as likely on the sample.
    """

    start: Array
    end: Array
    loss: float
    alternatives: tuple[Array, ...] = ()


def best_candidate(candidates: Sequence[StartCandidate]) -> StartCandidate | None:
    """Return the first candidate with the lowest loss, up to rounding; None if there are none.

    Aliases of a frequency have equal losses; they come later in a list.
    """
    lowest = min((candidate.loss for candidate in candidates), default=0.0)
    return next((candidate for candidate in candidates if is_equal_loss(candidate.loss, lowest)), None)


def is_equal_loss(loss: float, lowest: float) -> bool:
    """Whether a loss is equal to the lowest one up to rounding, or lower, so that both are at one minimum."""
    return loss <= lowest + SETTINGS.equal_loss_tolerance * abs(lowest)


class DescentRequest(NamedTuple):
    """A request for fits from some points.

    Attributes:
        points: the starting points, of shape (n, P).
        box: bounds for these fits, whose ends are then only intermediate steps of a search; None for the usual bounds.
    """

    points: Array
    box: Bounds | None = None


@ignore_float_errors()
def multistart(
    batch: Batch,
    starts: Array,
    free: Mask,
    seed: int,
    effort: Effort = SETTINGS.thorough,
    strategy: StartStrategy | None = None,
) -> list[StartCandidate | None]:
    """Return the best of many starting points for each fit of a batch; None if none is usable.

    Fits are searched together as far as memory allows: one objective after the other unless they are groups of rows.

    Args:
        starts: the given starting points, of shape (fits, P).
        free: the mask of the parameters that may be varied.
        seed: the seed of the random numbers of each fit.
        effort: the work for each fit.
        strategy: a single strategy, such as `Multistart.kink_points`; by default the whole search. The starting points
            are then the ends of fits, near which other minima are searched.
    """
    candidates: list[StartCandidate | None] = []
    for part in block_slices(len(starts), SETTINGS.max_searched_fits if isinstance(batch, GroupBatch) else 1):
        some = batch.take(np.arange(part.start, part.stop))
        searches = [
            Multistart(some.objective_of(k), start, free, seed, some.bounds.select(k), effort)
            for k, start in enumerate(starts[part])
        ]
        proposals = [search.best_of([strategy]) if strategy else search.best() for search in searches]
        candidates += _run_searches(sample_batch(some), proposals, starts[part])
    return candidates


def sample_batch(batch: Batch) -> Batch:
    """Return a batch of groups, or of one fit, over random samples of the rows of each."""
    if isinstance(batch, GroupBatch):
        return batch.take_rows(lambda rows: sampled_rows(rows, SETTINGS.max_sample_rows))
    (objective,) = batch.objectives
    return repeat_objective(subsample(objective, SETTINGS.max_sample_rows), 1, batch.bounds)


def _run_searches(samples: Batch, searches: Sequence[Search], starts: Array) -> list[StartCandidate | None]:
    """Run one search for each fit of a batch, and return the results; all fits that they request run in one batch."""
    results: list[StartCandidate | None] = [None] * len(searches)
    replies: dict[int, Any] = dict.fromkeys(range(len(searches)))  # the first ones are None
    lowest = np.square(samples.triangles(starts, np.arange(len(starts)))[:, :, -1]).sum(axis=1)
    while replies:
        requests = dict[int, DescentRequest]()
        for k, reply in replies.items():
            try:
                requests[k] = searches[k].send(reply)
            except StopIteration as end:
                results[k] = end.value
        replies = _descend(samples, requests, lowest) if requests else {}
    return results


def _descend(samples: Batch, requests: dict[int, DescentRequest], lowest: Array) -> dict[int, list[StartCandidate]]:
    """Return the candidates of each request, except for points where the loss is undefined.

    All are fitted by least squares first. Likelihoods and priors then continue with their own loss from there, or from
    the points themselves if these are better.
    """
    points = np.concatenate([request.points for request in requests.values()])
    if not len(points):
        return {k: [] for k in requests}
    fits: Fits = np.repeat([*requests], [len(request.points) for request in requests.values()])
    boxes = [(request.box or samples.bounds.select(k), request.points.shape) for k, request in requests.items()]
    ends_of_boxes = ([np.broadcast_to(end, shape) for end in (box.low, box.high)] for box, shape in boxes)
    batch = samples.take(fits, Bounds(*map(np.concatenate, zip(*ends_of_boxes, strict=True))))
    stop = StoppingRule(evaluations=SETTINGS.descent_evaluations, searches=(fits, lowest))
    outcomes = fit_least_squares(batch, points, stop=stop)
    ends = np.array([end.theta for end in outcomes]).reshape(points.shape)
    if batch.objective.kind is LossKind.LIKELIHOOD or batch.objective.has_priors:
        before, after = (minimization.comparison_losses(batch, each) for each in (points, ends))
        starts = np.where((after < before)[:, None], ends, points)
        outcomes = minimization.minimize_batch("lbfgs", batch, starts, stop=StoppingRule(SETTINGS.descent_epochs))
        ends = np.array([end.theta for end in outcomes]).reshape(points.shape)
    replies: dict[int, list[StartCandidate]] = {k: [] for k in requests}
    candidates = map(StartCandidate, points, ends, minimization.comparison_losses(batch, ends).tolist())
    for k, outcome, candidate in zip(fits.tolist(), outcomes, candidates, strict=True):
        if outcome.divergence is None:
            replies[k].append(candidate)
    return replies


def exponents_of(objective: Objective) -> list[int]:
    """Return the indices of the parameters that are exponents."""
    return sorted({partner.parameter for partner in _partners_of(objective) if partner.kernel is None})


def sample_starts(objective: Objective, seed: int, count: int) -> Array:
    """Return random starting points, of shape (count, P).

    Numbers are drawn from the values and scales of the columns, or uniformly between two bounds. Arrays are initialised
    as at the start of a fit, with another seed.
    """
    generator, box, layout = np.random.default_rng(seed), objective.bounds, objective.layout
    points = box.draw_inside(_sample_values(_column_ranges(objective), generator, (count, layout.size)), generator)
    for number, point in enumerate(points, 1):
        arrays = initial_arrays(layout.shapes, objective.model.program.layer_parameters, seed + number)
        for name, values in arrays.items():
            point[layout.slices[name]] = np.ravel(values)
    return box.move_inside(points)


_ColumnRanges = tuple[Array, Array, Array]


def _column_ranges(objective: Objective) -> _ColumnRanges:
    """Return the minimum, the maximum and the typical sizes of the columns; see `Spreads.typical_sizes`."""
    if not objective.read_columns:
        return np.zeros(1), np.ones(1), np.ones(1)
    of_values = objective.column_spreads
    return of_values.low, of_values.high, of_values.typical_sizes


def _sample_values(columns: _ColumnRanges, generator: np.random.Generator, shape: int | tuple[int, ...]) -> Array:
    """Draw values of parameters.

    With probability 1/2, a value is uniform over the range of a column (a location). Otherwise its scale is 1, or the
    scale or the spread of a column, or the reciprocal of one of these (a rate), within a factor of 100 and with either
    sign.
    """
    low, high, sizes = columns
    columns_drawn = generator.integers(len(low), size=shape)
    location = generator.uniform(low[columns_drawn], high[columns_drawn])
    # `Generator.choice` draws the same indices, in several times as long.
    magnitude = sizes[generator.integers(len(sizes), size=shape)] * 10 ** generator.triangular(-2, 0, 2, shape)
    sign = np.where(generator.integers(3, size=shape) < 2, 1.0, -1.0)
    return np.where(generator.random(shape) < 0.5, location, magnitude * sign)


class _Partner(NamedTuple):
    """An expression that an operation combines with a parameter, and that suggests the size of the parameter.

    Attributes:
        parameter: the index of the parameter.
        operation: the name of the operation; `div by` for a parameter in the denominator.
        power: the power of the parameter that meets it.
        names: the names of the leaves of the expression.
        kernel: the values of the expression in each row; None for the base of a power.
    """

    parameter: int
    operation: str
    power: float
    names: Set[str] = frozenset()
    kernel: RowKernel | None = None


def _partners_of(objective: Objective) -> list[_Partner]:
    """Return the partners of all parameters that are numbers, which each model finds once."""
    return objective.kernels.cached("partners", lambda: _find_partners(objective))


def _find_partners(objective: Objective) -> list[_Partner]:
    """Find the partners of all parameters that are numbers, inputs before their users."""
    model, layout = objective.model, objective.layout
    leaves = model.program.leaves
    names = [name for name in layout.names if name in leaves and name not in model.shapes]
    columns = {name for name in model.columns if name in leaves}  # not labels
    rows = {*columns, *names, *(place for place, _ in model.program.convolutions)}
    shapes = {name: shape for name, shape in model.shapes.items() if name not in rows}
    parameters = {leaves[name]: (layout.slices[name].start, 1.0) for name in names}
    order, partners = topological_order([model.program.output]), []
    varying = dependents(order, (leaves[name] for name in columns))
    for node in order:
        if node.op is None:
            continue
        name, positions = node.op.name, [k for k, child in enumerate(node.inputs) if child in parameters]
        others = [child for child in node.inputs if child not in parameters and not child.is_constant]
        if len(positions) == 1 and not others:  # a multiple or a power of a parameter
            index, power = parameters[node.inputs[positions[0]]]
            factors = {"neg": 1.0, "mul": 1.0, "div": 1.0 - 2.0 * positions[0], "square": 2.0}
            if name == "pow" and positions[0] == 0:
                factors[name] = parse_constant(node.inputs[1].text)
            if name in factors:
                parameters[node] = index, power * factors[name]
        for k in positions:
            index, power = parameters[node.inputs[k]]
            if name == "pow" and k:
                partners.append(_Partner(index, name, power))
            elif others and others[0] in varying and (read := {*leaf_names([others[0]])}) <= rows | {*objective.fixed}:
                kernel = make_backend().row_kernel(RowGraphs([others[0]], rows, shapes))
                partners.append(_Partner(index, "div by" if name == "div" and k else name, power, read, kernel))
    return partners


def _balance_with_partners(
    objective: Objective, points: Array, searched: Mask, generator: np.random.Generator, weight: Array | None = None
) -> None:
    """Draw parameters with the size, in a random row, of the expressions that operations combine them with.

    Examples are `b` in `b*exp(-c*x)`, `k` in `x/k`, `m` in `x - m`. So the constants of doses over many decades are
    drawn from all decades, and the offsets of years are near the years.

    Args:
        points: the points, of shape (n, P), which are modified.
        searched: the mask of the parameters to draw.
        weight: the weights of the rows, by which every second point draws its row.
    """
    count, slices = len(points), objective.layout.slices
    rows = generator.integers(objective.rows, size=(2, count))
    if weight is not None and 0 < weight.sum() < np.inf:
        rows[0, ::2] = generator.choice(objective.rows, len(rows[0, ::2]), p=weight / weight.sum())
    counts: dict[int, int] = {}
    places = [place for place, _ in objective.model.program.convolutions]
    for index, operation, power, names, kernel in _partners_of(objective):
        if not searched[index]:
            continue
        values, sign = np.ones((2, count)), generator.choice((1.0, 1.0, 1.0, -1.0), count)
        if kernel is not None:
            drawn = {name: objective.column(name)[rows].ravel() for name in names & {*objective.model.columns}}
            drawn |= {name: np.tile(points[:, slices[name].start], 2) for name in names & slices.keys()}
            # Distances from one row to another.
            drawn |= {place: generator.choice(objective.fixed[place], 2 * count) for place in places if place in names}
            elements = np.empty((kernel.value_count, 2 * count))  # of an array, of which one is drawn
            kernel.write(kernel.prepare(objective.fixed), drawn, elements)
            values = generator.permuted(elements, axis=0)[0].reshape(2, count)
        factor = 10 ** generator.triangular(-1, 0, 1, count)
        distance = np.abs(values[0] - values[1])
        size = np.where((generator.random(count) < 0.5) | (distance == 0), np.abs(values[0]), distance)
        if operation == "sub":
            chosen = values[0]
        elif operation in ("mul", "div", "div by", "pow", "add"):
            chosen = sign * (1 / size if operation == "mul" else size) * factor
        else:  # the mean or the standard deviation of a distribution
            chosen = np.where(generator.random(count) < 0.5, values[0], distance * factor)
        chosen = np.sign(chosen) * np.abs(chosen) ** (1 / power) if power else chosen
        counts[index] = counts.get(index, 0) + 1  # so that each of several partners is used with the same probability
        is_used = np.isfinite(chosen) & (chosen != 0) & (generator.random(count) < 1 / counts[index])
        points[is_used, index] = chosen[is_used]


def likelihood_starts(objective: Objective, seed: int, end: Array, components: Array) -> Array:
    """Return the most likely of many random points, as starts for a model that is a negative log-likelihood.

    Half of the points share parameters with the end of another fit: some of them, or all but those of one component.
    The others are drawn from rows that are improbable there, such as the rows of a component that this end lacks.

    Args:
        end: the end of the other fit.
        components: the masks of the parameters of each component, of shape (n, P).
    """
    generator, chosen = np.random.default_rng(seed), list[Array]()
    free = objective.layout.mask([name for name in objective.parameters if name not in objective.user_starts])
    points = np.tile(objective.start, (SETTINGS.likelihood_draws, 1))
    with ignore_float_errors():
        columns = _column_ranges(objective)
        points[:, free] = _sample_values(columns, generator, (len(points), int(np.count_nonzero(free))))
        losses = objective.evaluate_rows(objective.kernels.row_loss, end)[0]
        near = points[::2].copy()
        _balance_with_partners(objective, points, free, generator)
        _balance_with_partners(objective, near, free, generator, losses - losses.min())
        box = objective.bounds
        is_drawn = generator.random(near.shape) < 0.5
        if len(components):
            is_drawn[::2] = components[generator.integers(len(components), size=len(is_drawn[::2]))]
        # Ranked apart: points with a parameter of an end without a limit would be the most likely ones.
        for part in (points, np.where(is_drawn, near, end)):
            inside = np.where(free, box.draw_inside(part, generator), box.clip(part))
            losses = repeat_objective(objective, len(part)).losses(inside, np.arange(len(part)))
            losses = np.where(np.isfinite(losses), losses, np.inf)
            # The best of parts, since the best of all lie close together, often in one valley.
            best = minimization.best_of_slices(losses, SETTINGS.likelihood_starts // 2)
            chosen.append(inside[best[np.isfinite(losses[best])]])
        search = Multistart(objective, end, free, seed, box, SETTINGS.check)
        chosen += [search.likeliest_frequencies(), *(request.points for request in search.jump_points())]
    return np.concatenate(chosen)


class Multistart:
    """The search for starting values of one fit on a random sample of its rows. See `multistart` for the arguments.

    The searches are generators: they yield points, and receive the candidates to which these lead.

    Args:
        box: the bounds of the points.

    Attributes:
        linear: the mask of the free parameters in which the prediction is linear.
    """

    def __init__(
        self, objective: Objective, start: Array, free: Mask, seed: int, box: Bounds, effort: Effort = SETTINGS.thorough
    ) -> None:
        self._objective, self._start, self._box, self._generator = objective, start, box, np.random.default_rng(seed)
        self._boxes = (objective.likely_bounds(box), box) if objective.has_priors else (box,)
        self._free, self._effort = free, effort
        self._sample, self._sinusoids = subsample(objective, SETTINGS.max_sample_rows), Sinusoids(objective)
        self.linear = linear_mask(objective, free)
        self._searched = free & ~self.linear
        self._has_frequencies = False
        scanned = math.prod(len(grid.values) for grid in self._frequency_grids(start))
        if math.isfinite(self._sample.passes_before_compiling):  # otherwise the backend is already chosen
            passes = min(scanned, effort.scan_work // self._sample.rows)
            kernels = self._sample.kernels.compiled_for(self._sample.rows, passes, objective.threads)
            self._sample = copy_with(self._sample, kernels=kernels)

    @cached_property
    def _terms(self) -> list[tuple[list[int], list[int]]]:
        terms = symmetries.separate_terms(self._objective, self.linear, self._searched)
        return terms if 1 < len(terms) <= SETTINGS.max_terms else []

    def best(self) -> Search:
        """Return the best candidate; None if none is usable."""
        best = yield from self.best_of(START_STRATEGIES)
        for _ in range(SETTINGS.residual_rounds):
            if best is None or not self._has_structure(best):
                break
            near = [self.points_near(best.end)]
            near += [self._place_term(best.end[None], *term, self.linear) for term in self._terms]
            best = best_candidate([best, *(yield DescentRequest(np.concatenate(near)))])
        return best

    def best_of(self, strategies: Sequence[StartStrategy]) -> Search:
        """Return the best candidate of some strategies; None if there is none."""
        best: StartCandidate | None = None
        candidates, confirmations, reply = list[StartCandidate](), 0, None
        proposals = self._propose(strategies)
        with contextlib.suppress(StopIteration):
            while confirmations < SETTINGS.confirmations and not (best and self._is_good(best)):
                descent = proposals.send(reply)
                reply = yield descent
                candidate = best_candidate([] if descent.box else reply)
                if candidate is None:
                    continue
                candidates += reply
                if best is None or best_candidate([best, candidate]) is candidate:
                    best, confirmations = candidate, 1
                elif is_equal_loss(candidate.loss, best.loss):
                    # Where a parameter has no effect, as a rate that went to infinity, there are many ends of equal
                    # loss.
                    confirmations += bool(minimization.are_equal_solutions(best.end, candidate.end))
        if best is None:
            return None
        ends, losses = (np.array([getattr(each, name) for each in (best, *candidates)]) for name in ("end", "loss"))
        return dataclasses.replace(best, alternatives=minimization.likely_ends(self._sample, ends, losses))

    def _propose(self, strategies: Sequence[StartStrategy]) -> Proposals:
        """Yield the proposals of strategies, one after the other: first where priors put the parameters."""
        for box in self._boxes:
            self._box = box
            for strategy in strategies:
                yield from strategy(self)

    def _is_good(self, candidate: StartCandidate) -> bool:
        """Whether the residuals of a candidate are so small that no other one is needed."""
        sample = self._sample
        if sample.kind is LossKind.LIKELIHOOD:
            return False
        share = SETTINGS.good_fit_share * min(1.0, sample.rows / SETTINGS.few_rows) ** 3
        largest = share * sample.mean_square(sample.target_variation())
        return candidate.loss < largest and not self._has_structure(candidate)

    def _has_structure(self, candidate: StartCandidate) -> bool:
        """Whether the residuals at the end of a candidate suggest that there is a better one."""
        return residual_structure(self._sample, candidate.end) > RESIDUALS.suspect_sigmas

    def frequency_points(self) -> Proposals:
        """Yield the start with the best frequencies and phases, and the best values of the linear parameters."""
        points = self._scan_frequencies(self._start)
        self._has_frequencies = len(points) > 0
        if self._has_frequencies:
            yield DescentRequest(np.concatenate((points, self.follow_frequencies(points))))
            yield from self._frequency_pairs()

    def _frequency_pairs(self) -> Proposals:
        """Yield points with the best pairs of frequencies.

        A scan of single frequencies misses pairs that multiply, as in a beat, `sin(v*x)*cos(w*x)`, and pairs that are
        so close in a sum that one sinusoid explains much of both.
        """
        for scan, other in itertools.permutations(self._frequency_grids(self._start), 2):
            is_sum = any((scan.parameter in term) != (other.parameter in term) for _, term in self._terms)
            if is_sum and scan.parameter > other.parameter:
                continue  # each pair of a sum is scanned once
            work = SETTINGS.check.scan_work if is_sum else self._effort.scan_work
            is_new = np.diff(np.floor(other.turns * 2), prepend=-1.0) > 0  # one value for each half turn
            most = int(np.sqrt(work / (self._sample.rows * is_new.mean())))
            values = other.values[:most][is_new[:most]]
            thetas = np.where(np.arange(len(self._start)) == other.parameter, values[:, None], self._start)
            scan = FrequencyGrid(scan.parameter, scan.values[:most], scan.turns[:most])
            points = self._scan_frequency(thetas, scan)
            yield DescentRequest(np.concatenate((points, self.follow_frequencies(points))))

    def follow_frequencies(self, points: Array) -> Array:
        """Return the points after some Gauss-Newton steps of frequencies and phases, each with the best values of the
        linear parameters (variable projection, Golub & Pereyra 1973).

        If the rows are far from the origin, as in `a*sin(w*t) + b*cos(w*t)` with `t` in Julian days, a small change of
        `w` turns the phase many times. Other methods can follow this only in tiny steps of `a` and `b`.
        """
        waves, joint = self._sinusoids.frequencies + self._sinusoids.phases, self.linear.copy()
        joint[waves] |= self._searched[waves]
        for adjusted in (joint, self.linear) * SETTINGS.frequency_steps:
            points = self._project(points, adjusted)[0]
        return points

    def exponent_points(self) -> Proposals:
        """Yield the start with exponents of the other sign: both signs of `k` in `a - b*exp(-(x/c)^k)` may have a
        minimum.
        """
        exponents = [index for index in exponents_of(self._objective) if self._free[index]]
        if exponents:
            points = np.tile(self._start, (len(exponents) + 1, 1))
            # Each alone, then all of them.
            points[:, exponents] *= 1 - 2 * np.vstack((np.eye(len(exponents)), np.ones(len(exponents))))
            yield DescentRequest(self._project(points, self.linear)[0])

    def kink_points(self) -> Proposals:
        """Yield points with kinks between other rows than at the start, where further minima may be."""
        if self._objective.has_kinks:
            yield DescentRequest(self.points_near(self._start))

    def jump_points(self) -> Proposals:
        """Yield the start with each jump, or bend, at its best place between rows.

        All gaps near the best place so far are tried, and ever fewer of the others. Parameters that move the same jump
        are also tried together, two at a time.
        """
        objective = self._objective if isinstance(self._objective.data, MemoryRows) else self._sample
        is_squares = objective.kind is LossKind.SQUARES
        groups = [g for g in symmetries.find_jumps(objective) if all(self._searched[jump.parameter] for jump in g)]
        best = self._start[None]
        for group in groups * SETTINGS.jump_rounds:
            most = (self._effort.scan_work // objective.rows) ** (1 / len(group))
            count, points = max(SETTINGS.min_gaps, int(most / 2)), best[:1]
            for jump in group:
                gaps = [symmetries.jump_gaps([jump], objective, point, count) for point in points]
                points = np.repeat(points, [*map(len, gaps)], axis=0)
                points[:, jump.parameter] = np.concatenate(gaps).mean(axis=1)
            points = self._box.clip(np.concatenate((best[:1], points)))
            if is_squares or self.linear.any():
                points, left = minimization.project_linear(objective, points, self.linear, self._box)
            if not is_squares:
                left = repeat_objective(objective, len(points)).losses(points, np.arange(len(points)))
            valleys = _lowest_valleys(np.fmin(left, np.inf)[None])
            best = points[valleys] if len(valleys) else best
        if groups:
            yield DescentRequest(best[: 1 if is_squares else None])

    def points_of_other_valleys(self) -> Proposals:
        """Yield random points in other valleys than the start, for a model that is not linear.

        A point stands for a valley if the loss is larger at all its neighbours: topographical global optimization, Törn
        & Viitanen 1992.
        """
        if self._searched.any() and not self._sinusoids.frequencies:
            drawn = np.concatenate((self._start[None], self.random_draws()))
            points, remaining = self._project(drawn, self.linear)
            ranks, count = np.argsort(np.argsort(points[:, self._searched].T)), len(points)
            distances = np.abs(ranks[:, :, None] - ranks[:, None]).max(axis=0)
            # As a stable sort of the distances, but several times faster.
            neighbours = np.sort(distances * count + np.arange(count))[:, : SETTINGS.neighbours] % count
            is_lowest = np.all(remaining[neighbours] >= remaining[:, None], axis=1)
            valleys = 1 + np.flatnonzero(is_lowest[1:])
            lowest = valleys[np.argsort(remaining[valleys], kind="stable")[: self._effort.descents]]
            yield DescentRequest(points[lowest])

    def matching_pursuit_points(self) -> Proposals:
        """Yield points found term by term, as in matching pursuit (Mallat & Zhang 1993).

        Each term of a sum, such as a peak, is placed where it best explains the residuals of the terms before it. The
        last one is not yet refined.
        """
        varied = self.linear & ~np.isin(np.arange(len(self._start)), [k for linear, _ in self._terms for k in linear])
        points = np.where(self.linear, 0.0, self._start)[None]
        for number, (linear, searched) in enumerate(self._terms):
            if number:
                box = Bounds(np.where(varied, self._box.low, points), np.where(varied, self._box.high, points))
                ends = sorted((yield DescentRequest(points, box)), key=lambda end: end.loss)
                points = np.array([end.end for end in ends[: SETTINGS.beam_width]]).reshape(-1, len(self._start))
            varied[linear] = varied[searched] = True
            points = self._place_term(points, linear, searched, varied & self.linear)
        if self._terms:
            yield DescentRequest(points)

    def _place_term(self, points: Array, linear: list[int], searched: list[int], adjusted: Mask) -> Array:
        """Return the best of random points that differ from other points in one term of a sum.

        The term is more probable where the other terms leave large residuals.

        Args:
            points: the other points.
            linear, searched: the linear and the nonlinear parameters of the term.
            adjusted: the mask of the linear parameters that are fitted.
        """
        count = len(self._start)
        without, is_placed = ~np.isin(np.arange(count), linear), np.isin(np.arange(count), searched)
        proposed, remaining = [np.empty((0, count))], [np.empty(0)]
        for theta in self._project(np.where(without, points, 0.0), adjusted & without)[0]:
            residuals = self._sample.evaluate_rows(self._sample.kernels.residuals, theta)[0]
            drawn = np.where(is_placed, self.random_draws(np.square(residuals)), theta)
            variants, left = self._best_of_parts(drawn, adjusted)
            proposed.append(variants)
            remaining.append(left)
        order = np.argsort(np.concatenate(remaining), kind="stable")
        return np.concatenate(proposed)[order[: self._effort.descents]]

    def _best_of_parts(self, drawn: Array, adjusted: Mask) -> tuple[Array, Array]:
        """Return the best of each of some parts of random points, with fitted values of some linear parameters, and
        their remaining sums of squares, the least first.

        The parts grow from few points to many, since the best of many points lie close together, often in one valley.
        """
        every = repeat_objective(self._sample, len(drawn), self._box)
        points, remaining = project_linear_each(every, np.arange(len(drawn)), drawn, adjusted)
        best = minimization.best_of_slices(remaining, self._effort.descents)
        best = best[np.argsort(remaining[best], kind="stable")][: np.count_nonzero(np.isfinite(remaining[best]))]
        return points[best], remaining[best]

    def random_points(self) -> Proposals:
        """Yield the best random points, with the best values of the linear parameters and the best frequencies."""
        if not self._has_frequencies:
            for drawn in np.array_split(self.random_draws(), SETTINGS.random_rounds):
                if len(drawn):
                    yield DescentRequest(self._best_of_parts(drawn, self.linear)[0])
        elif np.count_nonzero(self._searched) > len(self._sinusoids.frequencies + self._sinusoids.phases):
            # Otherwise, all nonlinear parameters were scanned.
            for theta in self._best_of_parts(self.random_draws(), self.linear)[0][: self._effort.descents // 3]:
                best = self._scan_frequencies(theta)[:1]
                yield DescentRequest(best if len(best) else theta[None])

    def points_near(self, theta: Array) -> Array:
        """Return the best of random points that share half of the parameters with another point and may explain its
        residuals, such as a second peak.
        """
        residuals = self._sample.evaluate_rows(self._sample.kernels.residuals, theta)[0]
        drawn = np.where(self._searched, self.random_draws(np.square(residuals)), theta)
        drawn = np.where(self._generator.random(drawn.shape) < 0.5, drawn, theta)
        searched = np.flatnonzero(self._searched)  # every fourth point exchanges values, such as two positions
        drawn[::4, searched] = self._generator.permuted(np.tile(theta[searched], (len(drawn[::4]), 1)), axis=1)
        return self._best_of_parts(drawn, self.linear)[0]

    def random_draws(self, weight: Array | None = None) -> Array:
        """Return points within the bounds with random values of the nonlinear parameters; see `_sample_values`."""
        count = int(np.count_nonzero(self._searched))
        if not count or not self._sample.model.numeric:
            return self._start[None]
        columns, size = _column_ranges(self._sample), len(self._start)
        draws = min(self._effort.draws, SETTINGS.max_draw_work // (self._sample.rows * size * size) + 1)
        points = np.tile(self._start, (draws, 1))
        points[:, self._searched] = _sample_values(columns, self._generator, (draws, count))
        _balance_with_partners(self._sample, points[: draws // 2], self._searched, self._generator, weight)
        if not self._box.has_bounds:
            return points
        is_outside = (points < self._box.low) | (points > self._box.high)
        return np.where(is_outside, self._box.draw_inside(points, self._generator), points)

    def _frequency_grids(self, theta: Array) -> list[FrequencyGrid]:
        """Return the values to scan for each frequency that is searched."""
        per_turn = max(SETTINGS.frequencies_per_turn, 2 * SETTINGS.min_frequencies // self._sample.rows)
        most = min(SETTINGS.max_frequencies, self._effort.scan_work // self._sample.rows)
        grids = self._sinusoids.frequency_grids(theta, per_turn, most, self._box)
        return [grid for grid in grids if self._searched[grid.parameter]]

    def _scan_frequencies(self, theta: Array) -> Array:
        """Scan the frequencies one after the other; return the best points, or none if the model has no frequency."""
        scans = self._frequency_grids(theta)
        points = np.empty((0, len(theta)))
        for scan in scans * (SETTINGS.scan_rounds if len(scans) > 1 else 1):
            scanned = self._scan_frequency(theta[None], scan)
            points = scanned if len(scanned) else points if len(points) else theta[None]
            theta = points[0]
        return points

    def _scan_frequency(self, thetas: Array, scan: FrequencyGrid) -> Array:
        """Return the points with the best values of one frequency and of the phases, the best first.

        The rows of `thetas` have the values to try for all other parameters.
        """
        phases = [index for index in self._sinusoids.phases if self._searched[index]]
        # A sinusoid of any phase is a sum of two of fixed phase; the derivative towards the phase is the second one.
        adjusted = self.linear.copy()
        adjusted[phases] = True
        points = np.repeat(thetas, len(scan.values), axis=0)
        points[:, scan.parameter] = np.tile(scan.values, len(thetas))
        sums = self._remaining_squares(points, np.flatnonzero(adjusted)).reshape(len(thetas), -1)
        # Among many frequencies some fit by chance, so the likelihood is weighed by a prior density of 1/frequency.
        sums *= scan.turns ** (2 / self._sample.rows)
        projections = [self._project(self._phase_variants(peak), self.linear) for peak in points[_lowest_valleys(sums)]]
        ends = [(left.min(), variants[np.argmin(left)]) for variants, left in projections if len(variants)]
        return np.array([end for _, end in sorted(ends, key=operator.itemgetter(0))]).reshape(-1, thetas.shape[1])

    def likeliest_frequencies(self) -> Array:
        """Return the points with the best of all frequencies, and of eight phases, for a loss without residuals."""
        points = [np.empty((0, len(self._start)))]
        for scan in self._frequency_grids(self._start):
            variants = np.repeat(self._phase_variants(self._start), len(scan.values), axis=0)
            variants[:, scan.parameter] = np.resize(scan.values, len(variants))
            losses = repeat_objective(self._sample, len(variants)).losses(variants, np.arange(len(variants)))
            losses = np.fmin(losses.reshape(-1, len(scan.values)), np.inf) + np.log(scan.turns) / self._sample.rows
            valleys = _lowest_valleys(losses.min(axis=0, keepdims=True))
            points.append(variants[np.argmin(losses[:, valleys], axis=0) * len(scan.values) + valleys])
        return np.concatenate(points)

    def _phase_variants(self, theta: Array) -> Array:
        """Return the point with all phases shifted by multiples of an eighth of a turn."""
        phases = [(index, turn) for index, turn, _ in self._sinusoids.turns(theta) if self._searched[index]]
        variants = np.tile(theta, (8 if phases else 1, 1))
        for index, turn in phases:
            variants[:, index] += np.arange(8) / 8 * turn
        return variants

    def _remaining_squares(self, points: Array, columns: NDArray[np.intp]) -> Array:
        """Return the sums of squares at many points after a linear fit of some parameters, by normal equations, whose
        accuracy is enough to compare frequencies; infinite where they are undefined.
        """
        sums = np.empty(len(points))
        chosen = [*columns, points.shape[1]]
        for part in block_slices(len(points), max(1, BATCH.rows // self._sample.rows)):
            count = part.stop - part.start
            batch = repeat_objective(self._sample, count, self._box)
            matrices = batch.residual_matrices(points[part], np.arange(count))[:, :, chosen]
            grams = np.swapaxes(matrices, 1, 2) @ matrices
            grams[~np.isfinite(grams).all(axis=(1, 2))] = np.nan
            scale = np.sqrt(np.diagonal(grams, axis1=1, axis2=2))
            scale = np.where(scale > 0, scale, 1.0)
            grams /= scale[:, :, None] * scale[:, None, :]
            grams[:, range(len(columns)), range(len(columns))] += _RIDGE
            steps = np.linalg.solve(grams[:, :-1, :-1], grams[:, :-1, -1:])
            sums[part] = (1 - np.sum(grams[:, :-1, -1:] * steps, axis=(1, 2))) * np.square(scale[:, -1])
        return np.where(np.isfinite(sums), np.maximum(sums, 0.0), np.inf)

    def _project(self, points: Array, adjusted: Mask) -> tuple[Array, Array]:
        return minimization.project_linear(self._sample, points, adjusted, self._box)


def _lowest_valleys(losses: Array) -> NDArray[np.intp]:
    """Return the flat indices of the lowest local minima along the rows of a matrix, the lowest first."""
    around = np.pad(losses, ((0, 0), (1, 1)), constant_values=np.inf)
    valleys = np.flatnonzero((losses <= around[:, :-2]) & (losses <= around[:, 2:]) & np.isfinite(losses))
    return valleys[np.argsort(losses.ravel()[valleys], kind="stable")[: SETTINGS.max_peaks]]


# A generator that yields points, and receives the candidates to which they lead.
Proposals = Generator[DescentRequest, Any, None]
Search = Generator[DescentRequest, Any, StartCandidate | None]
StartStrategy = Callable[[Multistart], Proposals]

# Ways to find other minima near the end of a fit, for models with exponents, kinks, jumps or frequencies.
OTHER_MINIMA = (Multistart.exponent_points, Multistart.kink_points, Multistart.jump_points, Multistart.frequency_points)

# Ways to propose points, each array the most promising first, in the order in which they are tried. All of them use
# variable projection for the linear parameters.
START_STRATEGIES: tuple[StartStrategy, ...] = (
    Multistart.frequency_points,
    Multistart.matching_pursuit_points,
    Multistart.random_points,
)

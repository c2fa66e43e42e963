"""Zeros, minima and maxima of formulas in a box, as records: `solve`, `minimize` and `search_minimum`.

Names of the attributes are the keys of the JSON documents.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from flint import arb, fmpq

from autodiff_cli.array_types import Array
from autodiff_cli.autodiff.arbitrary_precision import BallFunction, bits_for_digits
from autodiff_cli.autodiff.unrolling import unroll
from autodiff_cli.data.json_records import NOT_IN_DOCUMENT
from autodiff_cli.formula.formula import Formula, as_mapping
from autodiff_cli.graph.node import ZERO, Node, is_literal
from autodiff_cli.graph.tape import substitute, topological_order
from autodiff_cli.language.errors import ExpressionError, format_names, pluralize
from autodiff_cli.numbers import ball_arithmetic as ball
from autodiff_cli.numbers.ball_arithmetic import Number, float_bounds
from autodiff_cli.ops.arithmetic import and_, equal, greater, greater_equal, less, less_equal, not_, not_equal, or_
from autodiff_cli.solving import MAX_BOXES, proof
from autodiff_cli.solving.search import Boxes, Search, System, enclosure_function, kind_by_surroundings, kinds_of_points

_CONDITIONS = (and_, or_, not_, less, less_equal, greater, greater_equal, not_equal)
_BITS = 128  # working precision of proofs in bits, if the results are floats
_SHOWN_DIGITS = 15  # digits of a number that no float represents
_GUARD_BITS = 64  # bits of the working precision beyond the requested digits
_SPARE_BITS = 40  # bits of the working precision that zeros need not reach: to reach them would take more steps
_MAX_MERGED = 300  # undecided boxes that are joined where they touch; more may form curves, and are joined in cells
_GRID_CELLS = 16  # cells along each coordinate
_MAX_CLUSTER_PART = 2.0**-8  # width relative to the domain; wider clusters are not examined
_MAX_CLUSTERS = 300  # clusters of undecided boxes that are examined for kinks and multiple zeros
# Values are compared on the borders of such parts of the domain around a point.
_SURROUNDINGS = (0.1, 1e-2, 1e-3, 1e-6, 1e-9, 0.0)

Coordinate: TypeAlias = float | str  # texts with --precision
Bounds: TypeAlias = tuple[Coordinate, Coordinate]


@dataclass(frozen=True)
class Root:
    """A zero.

    Attributes:
        point: the coordinates of the zero, rounded, by name.
        enclosure: bounds of each coordinate.
        unique: whether it is proven that the enclosure holds exactly one zero.
    """

    point: dict[str, Coordinate]
    enclosure: dict[str, Bounds]
    unique: bool = True


@dataclass(frozen=True)
class StationaryPoint:
    """A point where the gradient is 0, or an optimum on an edge of the box.

    Attributes:
        point: the coordinates, rounded, by name.
        enclosure: bounds of each coordinate.
        value: the value of the formula there, rounded.
        value_enclosure: bounds of the value.
        kind: `minimum`, `maximum`, `saddle`, or `degenerate` where second derivatives do not decide.
        on_edge: whether it lies on an edge of the box, where the gradient need not be 0.
        at_kink: whether the slopes jump there, and some mean of them is 0.
    """

    point: dict[str, Coordinate]
    enclosure: dict[str, Bounds]
    value: Coordinate
    value_enclosure: Bounds
    kind: str
    on_edge: bool
    at_kink: bool = False


@dataclass(frozen=True)
class GlobalOptimum:
    """The global minimum or maximum over a box, its edges included.

    Attributes:
        value_enclosure: bounds of the greatest lower or least upper bound of all values.
        points: the indices of the points that may be there.
        attained: whether it is proven that this is a value of the formula. At a jump, and at the border of a domain,
            values may only approach it.
    """

    value_enclosure: Bounds
    points: list[int]
    attained: bool


class NearZero(NamedTuple):
    """A point where equations and their slope along a curve are 0 as far as their digits show.

    Attributes:
        point: the coordinates, by name.
        error: a bound of the equations there.
    """

    point: dict[str, Coordinate]
    error: float


@dataclass(frozen=True, kw_only=True)
class BoxRecord:
    """The outcome of a search in a box.

    Attributes:
        expression: the text of the formula.
        box: the range of each unknown.
        complete: whether it is proven that there are no other points of its kind in the box.
        unresolved: the boxes that may hold some.
        boxes: the number of boxes that were examined.
        fixed: the values of the other variables.
    """

    expression: str
    box: dict[str, tuple[float, float]]
    complete: bool
    unresolved: list[dict[str, tuple[float, float]]] = field(default_factory=list)
    boxes: int
    fixed: dict[str, float] = field(default_factory=dict, metadata=NOT_IN_DOCUMENT)


@dataclass(frozen=True, kw_only=True)
class Solution(BoxRecord):
    """All zeros in a box.

    Attributes:
        roots: the zeros.
        nearly: points in unresolved boxes that may be multiple zeros.
    """

    roots: list[Root]
    nearly: list[NearZero] = field(default_factory=list, metadata=NOT_IN_DOCUMENT)


@dataclass(frozen=True, kw_only=True)
class Optima(BoxRecord):
    """All stationary points in a box, and the global minimum or maximum over it.

    Attributes:
        points: the stationary points, and optima on edges.
        global_: the global optimum; None for a local search.
        is_maximum: whether the global optimum is a maximum.
        start: the starting point of a local search.
    """

    points: list[StationaryPoint]
    global_: GlobalOptimum | None = None
    is_maximum: bool = field(default=False, metadata=NOT_IN_DOCUMENT)
    start: dict[str, float] = field(default_factory=dict, metadata=NOT_IN_DOCUMENT)


setattr(Optima, "global", property(lambda self: self.global_))  # the name in JSON, which is a keyword of Python


@dataclass(frozen=True)
class BoxProblem:
    """A formula with unknowns that range over a box, and fixed variables.

    Attributes:
        formula: the formula.
        ranges: the exact ends of the range of each unknown.
        fixed: the other variables, as constant graphs.
        digits: the number of digits of the results; None for floats.
        max_boxes: the number of boxes after which the search ends.
        on_progress: receives the number of boxes examined and of boxes left.
    """

    formula: Formula
    ranges: Mapping[str, tuple[Number, Number]]
    fixed: Mapping[str, Node]
    digits: int | None = None
    max_boxes: int = MAX_BOXES
    on_progress: Callable[[int, int], None] = lambda done, left: None

    @cached_property
    def unknowns(self) -> dict[str, Node]:
        """The leaves of the unknowns, in order of their appearance."""
        return {name: leaf for name, leaf in self.formula.leaves.items() if name in self.ranges}

    @cached_property
    def fixed_values(self) -> dict[str, Any]:
        """The values of the fixed variables, as floats or arrays."""
        return {name: Formula(node, {}).value() for name, node in self.fixed.items()}

    @property
    def bits(self) -> int:
        """The working precision of proofs."""
        return _BITS if self.digits is None else bits_for_digits(self.digits) + _GUARD_BITS

    @cached_property
    def domain(self) -> proof.Domain:
        """The box."""
        return proof.Domain(*([self.ranges[name][k] for name in self.unknowns] for k in (0, 1)))

    def outputs(self) -> list[Node]:
        """Return the elements of the output, with the fixed variables replaced; an equation as the difference of its
        sides.

        Raises:
            ExpressionError: for arrays, values that are not finite, and a condition that is not an equation.
        """
        leaves, fixed = self.formula.leaves, self.fixed_values
        for name in leaves:
            if name in self.formula.arrays | self.formula.shapes.keys() or not isinstance(fixed.get(name, 0.0), float):
                raise ExpressionError(f"`{name}` is an array; here, write its elements as numbers: [{name}1, {name}2]")
            if not math.isfinite(fixed.get(name, 0.0)):
                raise ExpressionError(f"the value of `{name}` must be finite, not {fixed[name]}")
        with self.formula.locate_errors():
            elements = unroll([self.formula.output])[0].reshape(-1).tolist()
        if any(element.op in _CONDITIONS for element in elements):
            raise ExpressionError("a condition has no zeros or optima; equations are `x == 1` or `[x == 1, y == 2]`")
        differences = [x.inputs[0] - x.inputs[1] if x.op is equal else x - ZERO for x in elements]
        return substitute(differences, {leaves[name]: node for name, node in self.fixed.items()})

    def evaluate(self, point: Mapping[str, Array]) -> list[Array]:
        """Return the values of the outputs at a batch of points, in floats."""
        from autodiff_cli.backends.selection import evaluate

        return evaluate(self.outputs(), point)

    def search(self, system: System) -> Search:
        """Search the box."""
        return Search(system, *self.domain.floats(), self.max_boxes, self.on_progress)

    @property
    def record(self) -> dict[str, Any]:
        """The fields that records of results have in common."""
        return {
            "expression": self.formula.text,
            "box": {name: tuple(map(ball.nearest_float, self.ranges[name])) for name in self.unknowns},
            "fixed": self.fixed_values,
        }

    def number(self, x: Number) -> Coordinate:
        """Return a number as a float, or its proven digits with `digits` and if no float has them; 0 if it may be 0."""
        x = ball.ZERO if isinstance(x, arb) and x.contains(0) else x
        nearest = ball.nearest_float(x)
        if self.digits is None and (0 < abs(nearest) < math.inf or ball.is_zero(x) or not ball.is_finite(x)):
            return nearest
        proven = max(1, math.floor(ball.accurate_bits(x) * math.log10(2)))
        return ball.format_digits(x, min(proven, self.digits or _SHOWN_DIGITS))

    def bounds(self, x: Number) -> Bounds:
        """Return bounds of an enclosure, rounded outward."""
        if self.digits is None or not ball.is_finite(x):
            return float_bounds(x)
        below, above = (x.lower(), x.upper()) if isinstance(x, arb) else (x, x)
        low, high = proof.as_fraction(below), proof.as_fraction(above)
        if low is None or high is None:  # decimals of balls have more correct digits than this margin
            margin = fmpq(1, 10**9)
            down, up = (lambda end: (end - margin).floor()), (lambda end: (end + margin).ceil())
            return ball.format_digits(below, self.digits, down), ball.format_digits(above, self.digits, up)
        return ball.format_digits(low, self.digits, fmpq.floor), ball.format_digits(high, self.digits, fmpq.ceil)


def read_problem(
    formula: Formula, box: Mapping[str, Any] | None, values: Mapping[str, Any], max_boxes: int, digits: int | None
) -> BoxProblem:
    """Return the problem for Python values: pairs of numbers are ranges, numbers are fixed values. Floats are exact.

    Raises:
        UnknownNameError: for a name that is not a variable.
        MissingValueError: for a variable without a value.
        ExpressionError: for a range that is empty or infinite, and for a number of digits below 1.
    """
    if digits is not None and digits < 1:
        raise ExpressionError(f"`precision` is a number of digits, from 1, not {digits}")
    ranges, fixed = {}, {}
    for name, value in formula.by_names({**as_mapping(box), **values}, "range or value").items():
        if hasattr(value, "__len__") and not isinstance(value, str):
            low, high = (_exact_number(name, end) for end in value) if len(value) == 2 else (ball.ZERO,) * 2
            if not low < high:
                raise ExpressionError(f"the range of `{name}` must be a pair (low, high) with low < high")
            ranges[name] = (low, high)
        else:
            fixed[name] = proof.fraction_node(_exact_number(name, value))
    return BoxProblem(formula, ranges, fixed, digits, max_boxes)


def _exact_number(name: str, value: Any) -> fmpq:
    """Return the exact value of a number of Python."""
    try:
        exact = Fraction(value.item() if hasattr(value, "item") else value)
    except (TypeError, ValueError, OverflowError):
        raise ExpressionError(f"`{name}` takes a finite number or a pair (low, high) of them, not {value!r}") from None
    return fmpq(exact.numerator, exact.denominator)


# --- Zeros ---


@np.errstate(all="ignore")  # warnings about enclosures of unbounded functions
def solve(problem: BoxProblem) -> Solution:
    """Find all zeros of a formula, or of a vector of formulas, in a box, and prove each.

    Raises:
        ExpressionError: if there are not as many equations as unknowns.
    """
    equations, unknowns = problem.outputs(), problem.unknowns
    if not unknowns:
        raise ExpressionError("there is no unknown: give a variable a range")
    if len(equations) != len(unknowns):
        raise ExpressionError(
            f"{pluralize(len(equations), 'equation')} for {pluralize(len(unknowns), 'unknown')} "
            f"({format_names([*unknowns], '`')}): there must be as many equations as variables with a range"
        )
    with ball.working_precision(problem.bits):
        systems = proof.factor_systems(equations, [*problem.unknowns.values()])
        part = replace(problem, max_boxes=max(1, problem.max_boxes // len(systems)))
        roots: list[tuple[Sequence[Number], bool]] = []
        unresolved, nearly, boxes = [], [], 0
        for factors, others in systems.items():
            system = System(problem.unknowns, factors)
            result = part.search(system)
            boxes += result.count
            points, _, _, undecided = _proven_zeros(problem, system, result)
            singular, undecided = _decided_regions(problem, system, undecided)
            unresolved += [_named_box(system, low, high) for low, high in merge_touching(undecided)]
            for region in singular:
                if region.error:
                    nearly += [NearZero(_point(problem, point)[0], region.error) for point in region.points]
                    unresolved += [_hull(system, point) for point in region.points]
                else:
                    points += [p for p in region.points if not any(proof.overlap(p, known) for known in points)]
            is_defined = BallFunction(system.names, others, problem.bits)
            for point in points:
                if is_defined(point) is None:
                    unresolved.append(_hull(system, point))
                elif len(systems) == 1:  # zeros of one factor differ
                    roots.append((point, True))
                else:
                    _add_zero(problem, roots, point)
        records = []
        for enclosure, is_unique in roots:
            # A box that another factor leaves unresolved may hold zeros beside the proven one.
            is_alone = not any(_is_overlap(map(problem.bounds, enclosure), box.values()) for box in unresolved)
            records.append(Root(*_point(problem, enclosure), is_unique and is_alone))
        records.sort(key=lambda root: [*map(float, root.point.values())])
        return Solution(
            roots=records, unresolved=unresolved, complete=not unresolved, boxes=boxes, nearly=nearly, **problem.record
        )


def _add_zero(problem: BoxProblem, zeros: list[tuple[Sequence[Number], bool]], enclosure: Sequence[Number]) -> None:
    """Add the zero of a factor, and whether it is the only one in its enclosure; join it with those that it may be."""
    is_unique = True
    for other, is_other_unique in [*zeros]:
        pairs = [*zip(other, enclosure, strict=True)]
        if _is_overlap(map(problem.bounds, other), map(problem.bounds, enclosure)):
            zeros.remove((other, is_other_unique))
            is_same = all(isinstance(x, fmpq) and isinstance(y, fmpq) and x == y for x, y in pairs)
            is_unique = is_unique and is_same and is_other_unique
            enclosure = enclosure if is_same else [ball.as_ball(x).union(ball.as_ball(y)) for x, y in pairs]
    zeros.append((enclosure, is_unique))


def _is_overlap(box: Iterable[Bounds], other: Iterable[Bounds]) -> bool:
    """Return whether two boxes have a common point."""
    ends = [[*map(Decimal, (*bounds, *others))] for bounds, others in zip(box, other, strict=True)]
    return all(a <= d and c <= b for a, b, c, d in ends)


def _point(problem: BoxProblem, enclosure: Sequence[Number]) -> tuple[dict[str, Coordinate], dict[str, Bounds]]:
    """Return a point and its enclosure for a record."""
    names = problem.unknowns
    return (
        {name: problem.number(x) for name, x in zip(names, enclosure, strict=True)},
        {name: problem.bounds(x) for name, x in zip(names, enclosure, strict=True)},
    )


def _named_box(system: System, low: Array, high: Array) -> dict[str, tuple[float, float]]:
    return dict(zip(system.names, zip((low + 0.0).tolist(), (high + 0.0).tolist(), strict=True), strict=True))  # no -0


def _hull(system: System, point: Sequence[Number]) -> dict[str, tuple[float, float]]:
    return dict(zip(system.names, map(float_bounds, point), strict=True))


def _decided_regions(problem: BoxProblem, system: System, undecided: Boxes) -> tuple[list[proof.SingularZeros], Boxes]:
    """Return the regions around undecided boxes whose zeros another proof finds, and the boxes that stay undecided.

    For an objective, these are stationary points at kinks, and where the Hessian is singular. Each is listed once.
    """
    regions: list[proof.SingularZeros] = []
    is_left, kinks = np.ones(len(undecided), dtype=bool), proof.KinkProver(system, problem.bits)
    start, end, *_ = (side[:, 0] for side in problem.domain.floats())
    clusters = merge_touching(undecided.select((undecided.side == 0).all(axis=0)))
    for low, high in clusters if len(clusters) <= _MAX_CLUSTERS else ():
        is_known = any(((known.lower <= low) & (high <= known.upper)).all() for known in regions)
        if is_known or (high - low > _MAX_CLUSTER_PART * (end - start)).any():  # the search was cut short there
            continue
        points = None
        if system.objective is not None:
            objective = system.enclose_objective(low.reshape(-1, 1), high.reshape(-1, 1))
            # Where the function jumps and at the ends, a minimum may be no stationary point.
            if not objective.is_continuous.all() or (low <= start).any() or (high >= end).any():
                continue
            points = kinks.prove(low, high)
        is_kink = points is not None
        region = (
            proof.SingularZeros(low, high, points or []) if is_kink else _singular_region(problem, system, low, high)
        )
        if region is not None and not (region.error and system.objective is not None):
            known = [point for other in regions for point in other.points]
            points = [point for point in region.points if not any(proof.overlap(point, other) for other in known)]
            points = [point for point in points if not problem.domain.excludes(point)]
            regions.append(region._replace(points=points, is_kink=is_kink))
            is_left &= ~((region.lower <= undecided.lower.T) & (region.upper >= undecided.upper.T)).all(axis=1)
    return regions, undecided.select(is_left)


def _singular_region(problem: BoxProblem, system: System, low: Array, high: Array) -> proof.SingularZeros | None:
    """Return the zeros around a cluster of boxes with a singular Jacobian, proven in a box as wide as possible."""
    for margin in ((high - low).max(), 0.0):
        ends = low - margin, high + margin
        region = proof.prove_singular_zeros(system, *ends, problem.bits) or proof.prove_isolated_zero(
            system, (low, high), *ends
        )
        if region is not None:
            return region
    return None


def _proven_zeros(
    problem: BoxProblem, system: System, result: Search
) -> tuple[list[list[Number]], list[Array], list[str], Boxes]:
    """Return the proven zeros in the domain, their edges and kinds, and the boxes that stay undecided.

    Each zero is listed once, with the edges to which it is fixed, and its kind as a stationary point.
    """
    domain, zeros, regions = problem.domain, result.zeros, result.regions
    proven = proof.Prover(system, domain, problem.bits, _SPARE_BITS).prove(zeros)
    undecided = result.undecided.join(zeros.select([k for k, zero in enumerate(proven) if zero is None]))
    at = [k for k, zero in enumerate(proven) if zero is not None and not domain.excludes(zero)]
    ends = np.array([[float_bounds(x) for x in proven[k] or ()] for k in at]).reshape(len(at), len(domain.lower), 2).T
    region, sides = regions.select(at), zeros.side[:, at]
    distinct: list[int] = []
    for n in range(len(at)):
        # A zero may be found from several boxes: they are one zero if it lies in the region where another is unique.
        is_same = (region.lower[:, :n] <= ends[0, :, n : n + 1]) & (region.upper[:, :n] >= ends[1, :, n : n + 1])
        if not (is_same & (sides[:, :n] == sides[:, n : n + 1])).all(axis=0)[distinct].any():
            distinct.append(n)
    region, sides, (low, high) = region.select(distinct), sides[:, distinct], ends[:, :, distinct]
    is_objective = system.objective is not None and len(distinct)
    kinds = kinds_of_points(system, low, high, sides) if is_objective else [""] * len(distinct)
    is_covered = np.zeros(len(undecided), dtype=bool)
    for lower, upper, side, kind in zip(region.lower.T, region.upper.T, sides.T, kinds, strict=True):
        # The Hessian is regular in the whole region. So the function is convex there if it is at its minimum, and has
        # no smaller values on edges.
        has_side = (side == undecided.side.T) | ((side == 0) & (kind == "minimum"))
        is_covered |= (has_side & (lower <= undecided.lower.T) & (upper >= undecided.upper.T)).all(axis=1)
    return [proven[at[n]] or [] for n in distinct], [*sides.T], kinds, undecided.select(~is_covered)


def merge_touching(boxes: Boxes) -> list[tuple[Array, Array]]:
    """Return the hulls of groups of boxes that touch, or nearly so, as their lower and upper ends."""
    lower, upper = boxes.lower.T, boxes.upper.T
    if len(boxes) > _MAX_MERGED:
        return _hulls_on_grid(lower, upper)
    groups: list[tuple[Array, Array]] = []
    lower, upper = lower[np.lexsort(lower.T[::-1])], upper[np.lexsort(lower.T[::-1])]
    for low, high in zip(lower, upper, strict=True):
        separate = []
        for a, b in groups:
            gap = np.minimum(high - low, b - a)  # parts between boxes of one cluster may be excluded
            if ((a - gap <= high) & (low - gap <= b)).all():
                low, high = np.minimum(low, a), np.maximum(high, b)
            else:
                separate.append((a, b))
        groups = [*separate, (low, high)]
    return groups if len(groups) == len(boxes) else merge_touching(_boxes_of(groups))


def _hulls_on_grid(lower: Array, upper: Array) -> list[tuple[Array, Array]]:
    """Return the hulls of the boxes in each cell of a coarse grid."""
    start, width = lower.min(axis=0), upper.max(axis=0) - lower.min(axis=0)
    cells = np.floor((lower - start) / np.where(width > 0, width, 1) * _GRID_CELLS)
    groups: dict[tuple[float, ...], tuple[Array, Array]] = {}
    for cell, low, high in zip(map(tuple, cells.tolist()), lower, upper, strict=True):
        a, b = groups.get(cell, (low, high))
        groups[cell] = np.minimum(a, low), np.maximum(b, high)
    return [*groups.values()]


def _boxes_of(groups: Sequence[tuple[Array, Array]]) -> Boxes:
    lower, upper = (np.array([group[k] for group in groups]).T for k in (0, 1))
    return Boxes(lower, upper, np.zeros(lower.shape))


# --- Minima and maxima ---


def optimize(problem: BoxProblem, is_maximum: bool = False) -> Optima:
    """Find all stationary points in a box; without any range, search an optimum from the values of the variables."""
    return (minimize if problem.ranges else search_minimum)(problem, is_maximum)


_OPPOSITE = {"minimum": "maximum", "maximum": "minimum"}


@np.errstate(all="ignore")
def minimize(problem: BoxProblem, is_maximum: bool = False) -> Optima:
    """Find all stationary points of a formula in a box, classify them, and enclose the global minimum or maximum.

    Raises:
        ExpressionError: for a formula that is not a number.
    """
    output, system = _objective_system(problem, is_maximum)
    with ball.working_precision(problem.bits):
        result = problem.search(system)
        zeros, sides, kinds, undecided = _proven_zeros(problem, system, result)
        objective = BallFunction(system.names, [output], problem.bits)
        regions, undecided = _decided_regions(problem, system, undecided)
        clusters = [(point, region) for region in regions for point in region.points]
        enclosures = zeros + [point for point, _ in clusters]
        values = [objective.bounds(enclosure)[0] for enclosure in enclosures]
        bounds = [*map(float_bounds, values)]
        others = merge_touching(undecided)
        for k, (_, region) in enumerate(clusters, len(zeros)):
            beside = enclosures[:k] + enclosures[k + 1 :]
            kinds.append(_kind_in_region(problem, system, values[k], region, beside, others))
        is_at_kink = [False] * len(zeros) + [region.is_kink for _, region in clusters]
        points = [
            _stationary_point(problem, enclosure, value, kind, is_kink, is_maximum)
            for enclosure, value, kind, is_kink in zip(enclosures, values, kinds, is_at_kink, strict=True)
        ]
        sides += [np.zeros(len(system.names))] * len(clusters)
        most, least = result.best, [lower for lower, _ in bounds]
        lowest: Number = arb("inf")
        for value, (_, upper), enclosure, side in zip(values, bounds, enclosures, sides, strict=True):
            if not _may_be_outside(problem.domain, enclosure, side):
                most, lowest = min(most, upper), _lesser(lowest, value)
        is_attained = math.isfinite(most)
        if len(undecided):
            lower_bounds = system.lower_bounds(undecided)
            least.append(float(lower_bounds.min()))
            rivals = undecided.select(lower_bounds < most)  # boxes with equal values cannot take a point's place
            is_continuous = system.enclose_objective(rivals.lower, rivals.upper).is_continuous.all()
            is_attained &= bool(is_continuous) or _has_finitely_many_values(output, system, problem.domain)
        order = sorted(range(len(points)), key=lambda i: [*map(float, points[i].point.values())])
        best = [n for n, i in enumerate(order) if bounds[i][0] <= most and not ball.as_ball(values[i]) > lowest]
        exact = [] if len(undecided) else [values[order[n]] for n in best]
        value = _global_bounds(problem, min([*least, most]), most, exact, is_maximum)
        return Optima(
            points=[points[i] for i in order],
            global_=GlobalOptimum(value, best, is_attained),
            unresolved=[_named_box(system, *ends) for ends in others],
            complete=not len(undecided),
            boxes=result.count,
            is_maximum=is_maximum,
            **problem.record,
        )


def _has_finitely_many_values(objective: Node, system: System, domain: proof.Domain) -> bool:
    """Whether a formula is constant between jumps, such as those of `floor(x)`, and the domain has finitely many."""
    lower, upper, *_ = domain.floats()
    nodes = enclosure_function(system.names, topological_order([objective]))(lower, upper)
    is_finite = bool(np.isfinite(nodes.upper - nodes.lower).all())
    return is_finite and all(is_literal(slope, 0) for slope in system.equations)


def _kind_in_region(
    problem: BoxProblem,
    system: System,
    value: Number,
    region: proof.SingularZeros,
    others: Sequence[Sequence[Number]],
    unresolved: Sequence[tuple[Array, Array]],
) -> str:
    """Return the kind of a point that second derivatives do not decide, from the values around it."""
    start, end, *_ = (side[:, 0] for side in problem.domain.floats())
    for part in _SURROUNDINGS:
        margin = 2 * (region.upper - region.lower) + part * (end - start)
        a, b = region.lower - margin, region.upper + margin
        is_alone = all(map(proof.Domain(a.tolist(), b.tolist()).excludes, others))
        is_alone &= not any(((p <= b) & (q >= a)).all() for p, q in unresolved)
        if is_alone and (a >= start).all() and (b <= end).all():
            kind = kind_by_surroundings(system, value, a, b)
            if kind != "degenerate":
                return kind
    return "degenerate"


def _objective_system(problem: BoxProblem, is_maximum: bool) -> tuple[Node, System]:
    """Return the function to minimise, and the system of its gradient.

    Raises:
        ExpressionError: for a formula that is not a number, and for an equation.
    """
    problem.formula.check_scalar_output(problem.formula.shapes)
    if problem.formula.output.op is equal:
        raise ExpressionError("an equation has no minimum; to solve it, use `solve`")
    (output,) = problem.outputs()
    output = -output if is_maximum else output
    return output, System.of_objective(problem.unknowns, output)


def _may_be_outside(domain: proof.Domain, enclosure: Sequence[Number], side: Array) -> bool:
    """Whether an enclosure reaches beyond an edge to which it is not fixed."""
    ends = zip(enclosure, domain.lower, domain.upper, side.tolist(), strict=True)
    return any(not s and not (ball.as_ball(x) >= low and ball.as_ball(x) <= high) for x, low, high, s in ends)


def _stationary_point(
    problem: BoxProblem, enclosure: Sequence[Number], value: Number, kind: str, is_kink: bool, is_maximum: bool
) -> StationaryPoint:
    value = -value if is_maximum else value
    return StationaryPoint(
        *_point(problem, enclosure), problem.number(value), problem.bounds(value),
        _OPPOSITE.get(kind, kind) if is_maximum else kind, problem.domain.is_on_edge(enclosure), is_kink,
    )  # fmt: skip


def _lesser(a: Number, b: Number) -> Number:
    """Return an enclosure of the lesser of two numbers."""
    return a if a is b else ball.as_ball(a).min(ball.as_ball(b))


def _global_bounds(problem: BoxProblem, low: float, high: float, values: Sequence[Number], is_maximum: bool) -> Bounds:
    """Return bounds of the optimum; from the values of the points where it must be, if that is known."""
    if values and all(map(ball.is_finite, values)):
        least = reduce(_lesser, values)
        return problem.bounds(-least if is_maximum else least)
    low, high = (-high, -low) if is_maximum else (low, high)
    return (low + 0.0, high + 0.0) if problem.digits is None else (repr(low + 0.0), repr(high + 0.0))


# --- Local search ---

_MAX_RADIUS = 1e100  # radius of a trust region; squares of longer steps overflow
_MAX_STEPS = 500  # steps of a local search
_LOCAL_BOXES = 20_000  # boxes of the proof around the end of the descent
_LOCAL_PARTS = (1e-1, 1e-3, 1e-6, 1.0)  # half widths of the boxes tried around the end, relative to its place


@np.errstate(all="ignore")
def search_minimum(problem: BoxProblem, is_maximum: bool = False) -> Optima:
    """Search a minimum or maximum near the values of the variables by Newton's method, and prove it.

    The points of the result are that optimum, or none if the search fails.
    """
    formula = problem.formula
    problem.outputs()  # checks the values
    start = problem.fixed_values
    free = BoxProblem(formula, dict.fromkeys(formula.leaves, (ball.ZERO,) * 2), {}, problem.digits)
    _, system = _objective_system(free, is_maximum)
    end = _descend(system, np.array([start[name] for name in system.names]))
    kind, boxes = "maximum" if is_maximum else "minimum", 0
    points: list[StationaryPoint] = []
    place = {} if end is None else dict(zip(system.names, end.tolist(), strict=True))
    for part in _LOCAL_PARTS if place else ():
        ranges = {name: _range_around(x, part) for name, x in place.items()}
        local = minimize(BoxProblem(formula, ranges, {}, problem.digits, _LOCAL_BOXES), is_maximum)
        boxes += local.boxes
        points = [point for point in local.points if point.kind == kind and not point.on_edge]
        if points:
            points = [min(points, key=lambda p: math.dist([float(p.point[name]) for name in place], place.values()))]
            break
    return Optima(**problem.record, complete=False, boxes=boxes, points=points, is_maximum=is_maximum, start=start)


def _range_around(x: float, part: float) -> tuple[Number, Number]:
    """Return the ends of a range around a number, which is not its middle."""
    width = part * max(abs(x), 1.0)
    return ball.from_float(x - width), ball.from_float(x + 1.0625 * width)


def _descend(system: System, point: Array) -> Array | None:
    """Return the end of a trust-region Newton search from a point; None if the function is undefined there."""

    def middle(x: Any) -> Array:
        return np.asarray(x.lower / 2 + x.upper / 2)[:, 0]

    def value_at(place: Array) -> float:
        column = place.reshape(-1, 1)
        return float(middle(system.enclose_objective(column, column))[0])

    size, radius, value = len(point), 1.0, value_at(point)
    if not math.isfinite(value):
        return None
    for _ in range(_MAX_STEPS):
        column = point.reshape(-1, 1)
        slope = middle(system.enclose(column, column))
        hessian = middle(system.enclose_jacobian(column, column)).reshape(size, size)
        if not (np.isfinite(slope).all() and np.isfinite(hessian).all()):
            return point
        step = _trust_region_step(slope, hessian, radius)
        expected = -(slope @ step + step @ hessian @ step / 2)
        scale = np.maximum(np.abs(point), 1)
        if (np.abs(step) <= 1e-14 * scale).all() or radius <= 1e-14 * scale.max():
            return point
        new_value = value_at(point + step)
        gain = (value - new_value) / expected if expected > 0 and math.isfinite(new_value) else -1.0
        if new_value < value:
            point, value = point + step, new_value
        elif not gain > 0 and (np.abs(step) <= 1e-7 * scale).all() and np.linalg.norm(step) < radius:
            return point + step  # rounding hides the gain of a full Newton step
        if gain > 0.7:
            radius = min(radius * 3, _MAX_RADIUS)
        elif gain <= 0.2:
            radius = float(np.linalg.norm(step)) / 3
        if not np.isfinite(point).all() or np.abs(point).max() > 1e150:
            return None
    return point


def _trust_region_step(slope: Array, hessian: Array, radius: float) -> Array:
    """Return the step of at most a length that minimises the quadratic model."""
    curvature, vectors = np.linalg.eigh((hessian + hessian.T) / 2)
    along = vectors.T @ slope
    tiny = 1e-12 * max(float(np.abs(curvature).max()), 1e-300)
    low = max(0.0, tiny - float(curvature[0]))
    step = -along / (curvature + low)
    if np.linalg.norm(step) <= radius:
        if curvature[0] < -tiny:  # add a direction in which the function falls away from a saddle or a maximum
            step[0] += math.sqrt(max(radius**2 - float(step @ step), 0.0)) * (1 if step[0] >= 0 else -1)
        return np.asarray(vectors @ step)
    high = low + float(np.linalg.norm(along)) / radius + 1e-300
    for _ in range(60):
        shift = (low + high) / 2
        low, high = (shift, high) if np.linalg.norm(along / (curvature + shift)) > radius else (low, shift)
    return np.asarray(vectors @ (-along / (curvature + high)))

"""Proven digits and proven bounds, in ball arithmetic.

`precise_trace` computes value and gradient to any number of digits. The point is given as formulas (`1/3`, `0.1`,
`[0.1, 0.2]`) that replace the variables, so an input is never rounded to a float. Arrays are computed element by
element.

`enclosure` bounds value and gradient while variables range over intervals.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from autodiff_cli.algebra.conditions import with_pairwise_choices
from autodiff_cli.autodiff.arbitrary_precision import (
    MAX_CANCELLED_DIGITS,
    BallFunction,
    PreciseValues,
    bits_for_digits,
    evaluate_to_digits,
)
from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.explain.accuracy import VALUE
from autodiff_cli.explain.record import Contribution, NodeWarning, Trace
from autodiff_cli.explain.tracing import SweepGraphs
from autodiff_cli.explain.warnings import find_warnings
from autodiff_cli.formula.derivatives import has_arrays
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.gradient import derivative_key, gradient_nodes
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import Tape, leaf_names, substitute
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.numbers import ball_arithmetic as ball
from autodiff_cli.numbers.ball_arithmetic import Number, float_bounds, from_float

_GUARD_BITS = 64  # extra bits for running totals, so that their sums round only once
_UNPROVEN_MESSAGE = (
    f"its digits are not proven: even {MAX_CANCELLED_DIGITS} more digits (fewer if they take too long) do not "
    "distinguish it from 0, or from the point of a jump or a choice, so it is assumed to be exactly there"
)
_UNKNOWN_MESSAGE = "more digits are needed to determine it than can be computed"


def precise_trace(
    expression: Formula,
    value_graphs: Mapping[str, Node],
    wrt: Iterable[str],
    digits: int,
    max_operations: int | None = None,
) -> Trace:
    """Run both passes with a given number of proven digits of value and gradient.

    Args:
        expression: the expression.
        value_graphs: the value of every variable, as a constant graph.
        wrt: the variables to differentiate with respect to. Further variables count as constants.
        digits: the number of significant digits.
        max_operations: the maximum number of scalar operations, arrays element by element; half a million by default.

    Returns:
        A trace whose numbers are texts of `digits` significant digits. The digits of value and gradient are proven, or
        a warning says that they are not. Warnings about floats are kept where they apply to these numbers too.

    Raises:
        ExpressionError: for too many operations, for shapes that do not fit, and for an output that is an array.

    >>> from autodiff_cli import parse
    >>> precise_trace(parse("x^2"), {"x": parse("1/3").output}, ["x"], 20).gradient
    {'x': '0.66666666666666666667'}
    """
    evaluate: Callable[..., PreciseValues] = evaluate_to_digits
    if has_arrays(expression, value_graphs):
        evaluate = partial(_evaluate_elements, limit=max_operations)
    point = dict(zip(value_graphs, evaluate([*value_graphs.values()], digits, len(value_graphs)).numbers, strict=True))
    near = {name: _map_elements(_nearest_float, number) for name, number in point.items()}
    both = SweepGraphs(expression, tuple(wrt), near)
    graphs = both.graphs
    with expression.locate_errors():
        at_point = {expression.leaves[name]: value_graphs[name] for name in expression.variables}
        results = evaluate(substitute(graphs, at_point), digits, len(both.results))
    exact = dict(zip(graphs, results.numbers, strict=True))
    floats = both.evaluate_at(near, {node: _map_elements(_nearest_float, number) for node, number in exact.items()})
    warnings = [warning for warning in find_warnings(floats) if _applies(warning, floats)]
    unproven = {
        graph: _UNKNOWN_MESSAGE if ball.is_nan(exact[graph]) else _UNPROVEN_MESSAGE
        for graph, is_proven in zip(graphs, results.is_proven, strict=True)
        if not is_proven
    }
    warnings += _unproven_warnings(both, unproven, floats.labels)
    with ball.working_precision(bits_for_digits(digits) + _GUARD_BITS):
        return replace(_with_text_numbers(both.evaluate_at(point, exact), digits), warnings=warnings)


def _unproven_warnings(both: SweepGraphs, unproven: Mapping[Node, str], labels: Sequence[str]) -> Iterator[NodeWarning]:
    """Yield a warning for the value and every derivative whose digits are not proven, with the message for each."""
    tape = both.sweep.tape
    for i, (node, adjoint) in enumerate(zip(tape.nodes, both.sweep.adjoints, strict=True)):
        slope = adjoint.local if adjoint is not None and node.is_input else None
        if slope is not None and slope in unproven:
            yield NodeWarning(i, "precision", f"the derivative with respect to {labels[i]}: {unproven[slope]}")
        if i in tape.outputs and node in unproven:
            yield NodeWarning(i, "precision", f"the value: {unproven[node]}")


def _applies(warning: NodeWarning, floats: Trace) -> bool:
    """Whether a warning about floats also applies to numbers of higher precision and a much larger range."""
    if warning.kind == "overflow":
        value = floats.values[warning.node]
        return math.isinf(value if isinstance(value, float) else abs(value).max())
    return warning.kind != "precision"


def _with_text_numbers(exact: Trace, digits: int) -> Trace:
    """Return a trace with its numbers as texts of `digits` digits."""

    def write(number: Any) -> Any:
        return None if number is None else _map_elements(lambda x: ball.format_digits(x, digits), number)

    def write_contribution(part: Contribution) -> Contribution:
        return part._replace(local=write(part.local), amount=write(part.amount), total=write(part.total))

    return replace(
        exact,
        point={name: write(number) for name, number in exact.point.items()},
        values=[*map(write, exact.values)],
        adjoints_or_none=[*map(write, exact.adjoints_or_none)],
        contributions=[tuple(map(write_contribution, parts)) for parts in exact.contributions],
    )


def _evaluate_elements(graphs: Sequence[Node], digits: int, required_count: int, limit: int | None) -> PreciseValues:
    """Return the values of constant graphs with arrays: numbers, and arrays of numbers, with the digits proven.

    Args:
        graphs: the graphs.
        digits: the number of digits.
        required_count: how many of the graphs, from the first, must have proven digits.
        limit: the maximum number of scalar operations; half a million by default.

    Raises:
        ExpressionError: for more operations.
    """
    from autodiff_cli.autodiff.unrolling import TooManyOperationsError, unroll

    try:
        arrays = unroll(graphs, max_operations=limit)
    except TooManyOperationsError as error:
        function = "autodiff_cli.explain.precision.precise_trace"
        raise ExpressionError(f"{error}; from Python, `{function}` takes more with `max_operations=`") from error
    elements = [element for array in arrays for element in array.reshape(-1).tolist()]
    results = evaluate_to_digits(elements, digits, sum(array.size for array in arrays[:required_count]))
    numbers, proven = iter(results.numbers), iter(results.is_proven)
    values = [_map_elements(lambda _: next(numbers), array if array.ndim else array.item()) for array in arrays]
    return PreciseValues(values, [all([*itertools.islice(proven, array.size)]) for array in arrays])


def _map_elements(function: Callable[[Any], Any], number: Any) -> Any:
    """Return a function of a number, or an array of its results for all elements in row-major order."""
    if not getattr(number, "ndim", 0):
        return function(number)
    import numpy as np

    results = [function(x) for x in number.reshape(-1).tolist()]
    return np.array(results, dtype=float if isinstance(results[0], float) else object).reshape(number.shape)


def _nearest_float(number: Number) -> float:
    """Return the nearest finite float of a finite number; only infinities become infinite."""
    nearest = ball.nearest_float(number)
    if math.isinf(nearest) and ball.is_finite(number):
        return math.copysign(sys.float_info.max, nearest)
    return nearest


_BITS = 128  # bits of ball arithmetic: rounding is negligible compared with the width of the boxes
_MAX_EVALUATIONS = 20_000  # of nodes, for the bounds of one output; more give tighter bounds, and take longer
_MAX_DEPTH = 50  # halvings of a variable's interval
_TOLERANCE = 2.0**-50  # relative; bounds within it of a number that is attained are not improved

Interval = tuple[Number, Number]  # its ends, as fractions or balls
FloatBounds: TypeAlias = tuple[float, float]


class ProvenBounds(NamedTuple):
    """Proven bounds of value and gradient over intervals.

    Attributes:
        bounds: the bounds of the value (`VALUE`) and of the derivative with respect to each variable (by
            `derivative_key`); infinite if it may be unbounded or undefined.
        undefined: whether the value or a derivative may be unbounded or undefined somewhere in the intervals.
    """

    bounds: dict[str, FloatBounds]
    undefined: bool


def enclosure(formula: Formula, intervals: Mapping[str, Interval], wrt: Sequence[str]) -> ProvenBounds:
    """Return proven bounds of the value and of the derivatives with respect to `wrt`.

    Each is bounded by branch and bound (Moore, Kearfott and Cloud, *Introduction to Interval Analysis*, 2009, chapters
    6 and 9): boxes are halved while they may hold a smaller or a larger number than those found.

    Args:
        formula: the formula, of numbers.
        intervals: the lower and the upper end of each variable; the same object twice for a single value.
        wrt: the variables to differentiate with respect to.

    >>> from autodiff_cli import parse
    >>> from autodiff_cli.numbers.balls import parse_constant
    >>> enclosed = enclosure(parse("x^2"), {"x": (parse_constant("1.5"), parse_constant("2"))}, ["x"])
    >>> enclosed.bounds["value"]
    (2.25, 4.0)
    """
    slopes = gradient_nodes(with_pairwise_choices(formula.output), [formula.leaves[name] for name in wrt])
    with ball.working_precision(_BITS):
        ends = [_extremes(formula, output, intervals) for output in (formula.output, *slopes)]
    bounds = dict(zip([VALUE, *map(derivative_key, wrt)], ends, strict=True))
    return ProvenBounds(bounds, any(math.isinf(end) for interval in bounds.values() for end in interval))


def _extremes(formula: Formula, output: Node, intervals: Mapping[str, Interval]) -> FloatBounds:
    """Return the least lower and the greatest upper bound of an output."""
    varying = [name for name in leaf_names([output]) if intervals[name][0] is not intervals[name][1]]
    slopes = gradient_nodes(with_pairwise_choices(output), [formula.leaves[name] for name in varying])
    tape = Tape(outputs := [formula.output, output, *slopes])
    evaluate, evaluate_all = (BallFunction([*intervals], each, _BITS) for each in ([output], outputs))
    boxes, budget, depth = [dict(intervals)], _MAX_EVALUATIONS // len(tape.nodes), 0
    least, most = sys.float_info.max, -sys.float_info.max  # the least and the most of the finite numbers found
    lowest, highest = math.inf, -math.inf  # bounds over all boxes that are not halved
    while boxes:
        bounds = []
        # Balls alone suffice for monotonic functions; they do not need NumPy.
        ends = _interval_ends(tape, boxes) if depth else [[(-math.inf, math.inf)] * len(outputs)]
        for box, interval_ends in zip(boxes, ends, strict=True):
            place = [ball.interval_between(*sides) for sides in box.values()]
            _, own, *spans = map(_intersection, map(float_bounds, evaluate_all.bounds(place)), interval_ends)
            minimum, maximum = (_extreme(evaluate, box, zip(varying, spans, strict=True), side) for side in (0, 1))
            least, most = min(least, minimum.found[1]), max(most, maximum.found[0])
            is_smooth = evaluate(place) is not None
            bounds.append(_intersection(own, (minimum.bounds[0], maximum.bounds[1])) if is_smooth else own)
        smaller, larger = (x * (1 + math.copysign(_TOLERANCE, sign * x)) for x, sign in ((least, -1), (most, 1)))
        is_open = [low < smaller or high > larger for low, high in bounds]
        budget -= len(boxes)
        if 2 * sum(is_open) > budget or depth == _MAX_DEPTH * len(varying):
            is_open = [False] * len(boxes)
        halves = list[dict[str, Interval]]()
        for box, (low, high), is_halved in zip(boxes, bounds, is_open, strict=True):
            if is_halved:
                halves += _halves(box, varying, depth)
            else:
                lowest, highest = min(lowest, low), max(highest, high)
        boxes, depth = halves, depth + 1
    return lowest + 0.0, highest + 0.0  # without the sign of a zero


class _Extreme(NamedTuple):
    """Bounds of the minimum or maximum over a box, and of a number that may be it."""

    bounds: FloatBounds
    found: FloatBounds


def _extreme(
    evaluate: BallFunction, box: Mapping[str, Interval], slopes: Iterable[tuple[str, FloatBounds]], side: int
) -> _Extreme:
    """Return the minimum (side 0) or the maximum (side 1) of a smooth output over a box.

    Along variables whose slope has one sign, it is at an end of the box. Along the others, the output differs from its
    value in the middle by at most slope times distance (the mean value theorem).
    """
    place, rest = {name: low for name, (low, _) in box.items()}, ball.ZERO
    for name, (least, most) in slopes:
        low, high = box[name]
        middle = (low + high) / 2
        place[name] = box[name][side if least >= 0 else 1 - side] if least >= 0 or most <= 0 else middle
        if place[name] is middle:
            slope = ball.interval_between(from_float(least), from_float(most))
            rest += slope * (ball.interval_between(low, high) - middle)
    (value,) = evaluate.bounds([*place.values()])
    return _Extreme(float_bounds(value + rest), float_bounds(value))


def _halves(box: Mapping[str, Interval], names: Sequence[str], depth: int) -> Iterator[dict[str, Interval]]:
    """Return the halves of a box along one of its variables, which take turns."""
    name = names[depth % len(names)]
    low, high = box[name]
    middle = (low + high) / 2
    return ({**box, name: half} for half in ((low, middle), (middle, high)))


def _intersection(first: FloatBounds, second: FloatBounds) -> FloatBounds:
    return max(first[0], second[0]), min(first[1], second[1])


def _interval_ends(tape: Tape, boxes: Sequence[Mapping[str, Interval]]) -> list[list[FloatBounds]]:
    """Return the ends of the outputs over each box in interval arithmetic.

    There, squares are never negative, and intervals end at the edge of a domain. The ends are infinite where the first
    output may jump or be undefined.
    """
    import numpy as np

    from autodiff_cli.numbers.intervals import INTERVALS, Intervals

    ends = {name: np.array([[float_bounds(end) for end in box[name]] for box in boxes]) for name in boxes[0]}
    with np.errstate(all="ignore"):
        values = forward(tape, INTERVALS, {name: Intervals.between(x[:, 0, 0], x[:, 1, 1]) for name, x in ends.items()})
    is_defined = np.broadcast_to(values[tape.outputs[0]].is_continuous, len(boxes))
    sides = np.array([[np.broadcast_to(end, len(boxes)) for end in values[i][:2]] for i in tape.outputs])
    return [
        [(a, b) if is_known and a <= b else (-math.inf, math.inf) for a, b in zip(*box, strict=True)]
        for box, is_known in zip(sides.T.tolist(), is_defined, strict=True)
    ]

"""Between which bounds value and gradient stay while variables run through intervals: proven.

The intervals are cut into boxes, and on each of them everything is computed with balls that hold all values at once. On
a box where the derivatives towards all of the variables keep their signs, and nothing jumps, the value is least and
largest at corners.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from flint import arb

from autodiff_cli.autodiff.forward import forward
from autodiff_cli.explain.digits.right import VALUE
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import Tape, topological
from autodiff_cli.numbers.balls.hulls import hulls, may_jump, start_looking
from autodiff_cli.numbers.balls.number import INF, NEGATIVE_INF, Number, ball, is_finite, of_float
from autodiff_cli.numbers.kind import Kind
from autodiff_cli.ops.arithmetic import abs_
from autodiff_cli.ops.choice import max_, min_, where

_BITS = 128
_BOXES = 1024  # at the most; more of them make bounds tighter

Interval = tuple[Number, Number]  # its ends, as fractions or balls
Ends: TypeAlias = tuple[float, float]


class ProvenBounds(NamedTuple):
    """Proven bounds.

    Attributes:
        bounds: of the value (`VALUE`), and of the derivative towards each variable, by its name; infinite where it may
            be unbounded or undefined.
        undefined: whether the value or a derivative may be unbounded or undefined at a point of the intervals.
    """

    bounds: dict[str, Ends]
    undefined: bool


def enclosure(formula: Formula, intervals: Mapping[str, Interval], wrt: Sequence[str]) -> ProvenBounds:
    """The bounds of the value and of the derivatives towards `wrt`.

    Args:
        formula: of numbers.
        intervals: the ends between which each variable lies, the lower first; the same object twice for one value.

    >>> from autodiff_cli import parse
    >>> from autodiff_cli.numbers.balls.table import read
    >>> found = enclosure(parse("x^2"), {"x": (read("1.5"), read("2"))}, ["x"])
    >>> found.bounds["value"]
    (2.25, 4.0)
    """
    moving = [name for name, (low, high) in intervals.items() if low is not high]
    slopes = gradient_nodes(_by_comparisons(formula.output), [formula.leaves[name] for name in [*wrt, *moving]])
    tape = Tape([formula.output, *slopes])
    names = [VALUE, *wrt]
    ends: dict[str, list[Interval]] = {name: [] for name in names}
    with hulls(_BITS) as kind:
        for box in _boxes(intervals, moving):
            values = forward(tape, kind, {name: _hull(*sides) for name, sides in box.items()})
            results = [_ends(values[i]) for i in tape.outputs]
            if not is_finite(values[tape.outputs[0]]):
                results = [(NEGATIVE_INF, INF)] * len(results)  # what has no value has no derivative
            of_moving = dict(zip(moving, results[len(names) :], strict=True))
            results[0] = _at_corners(formula.tape, kind, box, of_moving) or results[0]
            for name, found in zip(names, results, strict=False):
                ends[name].append(found)
        bounds = {name: _bounds(found) for name, found in ends.items()}
    return ProvenBounds(bounds, any(math.isinf(end) for found in bounds.values() for end in found))


def _by_comparisons(root: Node) -> Node:
    """A graph whose `max` and `min` are choices, two by two, of which a ball may know the outcome.

    Where two tie, of the slopes any mean may be taken. So a tie is not to be decided either: its condition is 0/0.
    """
    made: dict[Node, Node] = {}
    for node in topological([root]):
        inputs = [made[child] for child in node.inputs]
        if node.op not in (max_, min_):
            made[node] = node if node.op is None else node.op(*inputs)
            continue
        best = inputs[0]
        for x in inputs[1:]:
            lead = best - x if node.op is max_ else x - best
            best = where(lead / abs_(lead) > 0, best, x)
        made[node] = best
    return made[root]


def _hull(low: Number, high: Number) -> Number:
    """A ball from end to end."""
    return low if low is high else arb(ball((low + high) / 2), ball((high - low) / 2))


def _ends(x: Number) -> Interval:
    """The ends of a ball; infinite of what may be undefined."""
    return (ball(x).lower(), ball(x).upper()) if is_finite(x) else (NEGATIVE_INF, INF)


def _boxes(intervals: Mapping[str, Interval], moving: Sequence[str]) -> Iterator[dict[str, Interval]]:
    """The intervals cut into equal parts, in all combinations."""
    if not moving:
        yield dict(intervals)
        return
    count = max(1, int(_BOXES ** (1 / len(moving))))
    for places in itertools.product(range(count), repeat=len(moving)):
        box = dict(intervals)
        for name, k in zip(moving, places, strict=True):
            low, high = intervals[name]
            step = (high - low) / count
            box[name] = (low + step * k if k else low, low + step * (k + 1) if k + 1 < count else high)
        yield box


def _at_corners(
    tape: Tape, kind: Kind[Number], box: Mapping[str, Interval], slopes: Mapping[str, Interval]
) -> Interval | None:
    """The least and the largest value on a box where no slope changes its sign and nothing jumps; None for another."""
    least, most = dict(box), dict(box)
    for name, (low, high) in slopes.items():
        if not (low >= 0 or high <= 0):
            return None
        first, last = box[name] if low >= 0 else box[name][::-1]
        least[name], most[name] = (first, first), (last, last)
    start_looking()
    whole = forward(tape, kind, {name: _hull(*sides) for name, sides in box.items()})[tape.outputs[0]]
    if may_jump() or not is_finite(whole):
        return None
    corners = [
        forward(tape, kind, {name: _hull(*sides) for name, sides in corner.items()})[tape.outputs[0]]
        for corner in (least, most)
    ]
    return (_ends(corners[0])[0], _ends(corners[1])[1]) if all(map(is_finite, corners)) else None


def _bounds(boxes: Sequence[Interval]) -> Ends:
    """The nearest floats between which the numbers of all boxes lie."""
    return min(_below(low) for low, _ in boxes), -min(_below(-high) for _, high in boxes)


def _below(x: arb) -> float:
    found = float(x)
    if found == math.inf and x.is_finite():
        return sys.float_info.max
    while math.isfinite(found) and not of_float(found) <= x:
        found = math.nextafter(found, -math.inf)
    return found

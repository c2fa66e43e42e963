"""What to do about a gradient that rounding has spoilt: which operation spoils it, and how else to write the formula.

Both are found by trying. An operation's share in the damage is how far the derivative goes when this one result is
moved by a unit in the last place. And a formula that the table of rewritings offers is recommended only if, with floats
and at this very point, more numbers have their digits than as it is written, and none has lost them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from autodiff_cli.algebra.better import better
from autodiff_cli.explain.digits.right import VALUE, right_numbers
from autodiff_cli.explain.record import Trace, shape_of
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.node import Node, constant
from autodiff_cli.graph.tape import rebuild

_MOST_NODES = 200  # of a formula whose operations are tried one by one
_MOVE = "1.0000000000000002"  # 1 and a unit in the last place


def written_better(trace: Trace) -> str | None:
    """The formula written so that of value and gradient more numbers keep their digits at this point, and none loses
    them; None if no such way is known."""
    if not trace.is_scalar:
        return None
    # Of arrays that are declared nothing is made here.
    leaves = {name: leaf for name, leaf in trace.expression.leaves.items() if not shape_of(trace.point[name])}
    formula = Formula(trace.expression.output, leaves)
    fewest, best = _spoilt(trace, formula), None
    for slopes in (False, True):
        graph = better(formula.output, slopes)
        offered = None if graph is None else Formula(graph, leaves)
        if offered is not None and (left := _spoilt(trace, offered)) < fewest:
            fewest, best = left, offered
    return None if best is None else str(best)


def _spoilt(trace: Trace, written: Formula) -> frozenset[str]:
    """Which numbers of value and gradient have lost digits where the formula is written in this way."""
    point = {name: trace.point[name] for name in written.leaves}
    value, gradient = written.value_and_grad(point)
    found = {VALUE: float(value), **{name: float(gradient[name]) for name in trace.wrt if name in point}}
    return frozenset(right_numbers(trace.expression, point, found))


def spoilers(trace: Trace, names: Iterable[str]) -> dict[str, str]:
    """The operation whose rounding moves a derivative most, as the trace calls it, by the name of the variable.

    A derivative that no result of the forward pass moves is left out: its own terms cancel.
    """
    formula, point = trace.expression, trace.point
    if not trace.is_scalar or len(trace.tape.nodes) > _MOST_NODES:
        return {}
    worst: dict[str, tuple[float, int]] = {}
    names = [*names]
    for i, node in enumerate(trace.tape.nodes):
        if node.op is None or not trace.tape.reached[i]:
            continue
        slopes = _moved(formula, node).grad(point)
        for name in names:
            distance = abs(float(slopes[name]) - trace.gradient[name])
            if math.isfinite(distance) and distance > worst.get(name, (0.0, -1))[0]:
                worst[name] = (distance, i)
    return {name: trace.labels[i] for name, (_, i) in worst.items()}


def _moved(formula: Formula, node: Node) -> Formula:
    """The formula with one result moved by a unit in the last place."""
    (output,) = rebuild([formula.output], {node: node * constant(_MOVE)})
    return formula.with_output(output)

"""Both passes carried out at a point: numbers in one loop each, arrays as graphs that are evaluated together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from autodiff_cli.autodiff.forward import forward
from autodiff_cli.autodiff.reverse import reverse
from autodiff_cli.explain.digits.right import VALUE, checked_right, of_unheld
from autodiff_cli.explain.record import Given, Trace, added_up
from autodiff_cli.explain.warnings import caveats
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.collector import collector_paused
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.floats.table import FLOATS


def trace(
    expression: Formula,
    point: Mapping[str, Any],
    wrt: Iterable[str] | None = None,
    unheld: Mapping[str, Any] = MappingProxyType({}),
) -> Trace:
    """Run both passes at a point.

    Args:
        point: a value for every variable of the expression.
        wrt: the variables to differentiate towards; all by default. The others count as constants.
        unheld: those of the values, numbers, that no float holds, as fractions or balls.

    Raises:
        KeyError: for a name in `wrt` that the expression lacks.
        ExpressionError: for a variable that has no value, where shapes do not fit, for an output that is an array, and
            before computing for arrays that would not fit into memory.

    >>> from autodiff_cli import parse
    >>> found = trace(parse("x*y + sin(x)"), {"x": 2, "y": 3})
    >>> found.gradient
    {'x': 2.5838531634528574, 'y': 2.0}
    >>> [(found.labels[given.to], given.amount) for given in found.handed[2]]
    [('x', 3.0), ('y', 2.0)]
    """
    point = expression.at(point)
    chosen = expression.variables if wrt is None else tuple(wrt)
    with collector_paused():
        if expression.is_one_point_of_scalars(point):
            found = _of_numbers(expression, point, chosen)
            slopes: dict[str, Node] = {}
        else:
            from autodiff_cli.explain.passes import trace_of_arrays

            found, slopes = trace_of_arrays(expression, point, chosen)
        found = replace(found, unheld=unheld) if unheld else found
        found.warnings.extend(caveats(found))
        if found.is_scalar:
            found.warnings[:] = checked_right(found)
        else:
            from autodiff_cli.explain.digits.right_arrays import checked_arrays

            found.warnings[:] = checked_arrays(found, {VALUE: expression.output, **slopes})
        found.warnings.extend(of_unheld(found))
        return found


def _of_numbers(expression: Formula, point: Mapping[str, Any], wrt: tuple[str, ...]) -> Trace:
    everything = set(wrt) == set(expression.variables)
    tape = expression.tape if everything else Tape((expression.output,), [expression.leaves[name] for name in wrt])
    values = forward(tape, FLOATS, point)
    arrived = reverse(tape, FLOATS, values, 1.0)
    return Trace(
        expression, point, wrt, tape, values, arrived, added_up(tape, values, [*_given(tape, values, arrived)])
    )


def _given(tape: Tape, values: Sequence[float], arrived: Sequence[float | None]) -> Iterator[Given]:
    """What every node hands on to the inputs that take a gradient, by position."""
    for i, (node, inputs, live) in enumerate(zip(tape.nodes, tape.inputs, tape.edges, strict=True)):
        if node.op is None or not tape.reached[i]:
            yield {}
            continue
        adjoint, wanted = arrived[i], tuple([k for k, j in enumerate(inputs) if tape.reached[j]])
        locals_ = FLOATS.partials(node.op, len(inputs), wanted)(values[i], *[values[j] for j in inputs])
        given: dict[int, tuple[Any, Any]] = {}
        for k, local in zip(wanted, locals_, strict=True):
            if adjoint is None or local is None or k not in live:
                given[k] = 0.0 if local is None else local, None
            else:
                given[k] = local, local * adjoint
        yield given

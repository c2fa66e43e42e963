"""Value and gradient to any number of right digits: the same rules, on numbers that have the digits.

The point is given as formulas (`1/3`, `0.1`, `[0.1, 0.2]`), which are put in place of the variables: an input never
goes through a float. Arrays are written out first, because the digits are found number by number.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autodiff_cli.autodiff.digits import MOST_CANCELLED, Evaluated, bits_of, evaluate
from autodiff_cli.explain.passes import PassGraphs, passes
from autodiff_cli.explain.record import Caveat, Trace
from autodiff_cli.explain.warnings import caveats
from autodiff_cli.formula.elements import has_arrays
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import rebuild
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.numbers.balls.number import Number, is_finite, nearest, text, working

_GUARD = 64  # bits with which running totals are added up, beyond those of their digits
_UNPROVEN = (
    f"its digits are not proven: with {MOST_CANCELLED} digits more, or as many as came quickly, it could not be told "
    "from 0, or from where a choice or a step lies, and is taken to be there"
)


def precise_trace(
    expression: Formula, given: Mapping[str, Node], wrt: Iterable[str], digits: int, most: int | None = None
) -> Trace:
    """Run both passes with so many right digits of value and gradient.

    Args:
        given: the value of every variable, as a graph without variables.
        wrt: the variables to differentiate towards. The others count as constants.
        most: how many operations on numbers the formula may have when its arrays are written out; half a million by
            default.

    Returns:
        A trace whose numbers are texts of `digits` significant digits each; those of value and gradient are proven, or
        a warning says that they are not. Of warnings about floats, it has those that hold for its numbers too.

    Raises:
        ExpressionError: for arrays that are larger, do not fit together, or are the output.

    >>> from autodiff_cli import parse
    >>> precise_trace(parse("x^2"), {"x": parse("1/3").output}, ["x"], 20).gradient
    {'x': '0.66666666666666666667'}
    """
    with_arrays = has_arrays(expression, given)

    def known(graphs: Sequence[Node], sure: int) -> Evaluated:
        return _evaluated(graphs, digits, sure, most) if with_arrays else evaluate(graphs, digits, sure)

    point = dict(zip(given, known([*given.values()], len(given)).numbers, strict=True))
    near = {name: _each(_float, number) for name, number in point.items()}
    both = passes(expression, tuple(wrt), near)
    graphs = both.graphs
    with expression.placed():
        found = known(
            rebuild(graphs, {expression.leaves[name]: given[name] for name in expression.variables}), len(both.results)
        )
    exact = dict(zip(graphs, found.numbers, strict=True))
    floats = both.at(near, {node: _each(_float, number) for node, number in exact.items()})
    warnings = [caveat for caveat in caveats(floats) if _holds(caveat, floats)]
    warnings += _unproven(both, dict(zip(graphs, found.proven, strict=True)), floats.labels)
    with working(bits_of(digits) + _GUARD):
        return replace(_written(both.at(point, exact), digits), warnings=warnings)


def _unproven(both: PassGraphs, proven: Mapping[Node, bool], labels: Sequence[str]) -> Iterator[Caveat]:
    """A warning on the value, and on every derivative, whose digits are not proven."""
    tape = both.swept.tape
    for i, (node, adjoint) in enumerate(zip(tape.nodes, both.swept.adjoints, strict=True)):
        slope = adjoint.local if adjoint is not None and node.is_input else None
        if slope is not None and not proven[slope]:
            yield Caveat(i, "precision", f"the derivative towards {labels[i]}: {_UNPROVEN}")
        if i in tape.outputs and not proven[node]:
            yield Caveat(i, "precision", f"the value: {_UNPROVEN}")


def _holds(caveat: Caveat, floats: Trace) -> bool:
    """Whether a warning about floats holds for numbers that have the digits and nearly all of the range."""
    if caveat.kind == "overflow":
        value = floats.values[caveat.node]
        return math.isinf(value if isinstance(value, float) else abs(value).max())
    return caveat.kind != "precision"


def _written(exact: Trace, digits: int) -> Trace:
    """A trace with its numbers as texts."""

    def write(number: Any) -> Any:
        return None if number is None else _each(lambda x: text(x, digits), number)

    return replace(
        exact,
        point={name: write(number) for name, number in exact.point.items()},
        values=[*map(write, exact.values)],
        arrived=[*map(write, exact.arrived)],
        handed=[
            tuple(
                given._replace(local=write(given.local), amount=write(given.amount), total=write(given.total))
                for given in several
            )
            for several in exact.handed
        ],
    )


def _evaluated(graphs: Sequence[Node], digits: int, sure: int, most: int | None) -> Evaluated:
    """The values of graphs with arrays and without inputs: numbers, and arrays of numbers. See `digits.evaluate`."""
    from autodiff_cli.autodiff.unroll import MOST_OPERATIONS, TooManyOperationsError, unroll

    try:
        arrays = unroll(graphs, most=MOST_OPERATIONS if most is None else most)
    except TooManyOperationsError as error:
        raise ExpressionError(
            f"{error}; from Python, `autodiff_cli.explain.digits.precision.precise_trace` takes more with `most=`"
        ) from error
    elements = [element for array in arrays for element in array.reshape(-1).tolist()]
    found = evaluate(elements, digits, sum(array.size for array in arrays[:sure]))
    numbers, proven = iter(found.numbers), iter(found.proven)
    values = [_each(lambda _: next(numbers), array if array.ndim else array.item()) for array in arrays]
    return Evaluated(values, [all([*itertools.islice(proven, array.size)]) for array in arrays])


def _each(function: Callable[[Any], Any], number: Any) -> Any:
    """The results for a number, or for all elements of an array in the order of its rows."""
    if not getattr(number, "ndim", 0):
        return function(number)
    import numpy as np

    results = [function(x) for x in number.reshape(-1).tolist()]
    return np.array(results, dtype=float if isinstance(results[0], float) else object).reshape(number.shape)


def _float(number: Number) -> float:
    """The nearest float, for a large number the largest: an infinity is one only if the number is."""
    found = nearest(number)
    if math.isinf(found) and is_finite(number):
        return math.copysign(sys.float_info.max, found)
    return found

"""Value and gradient to any number of right digits: the same rules, on numbers that have the digits.

The point is given as formulas (`1/3`, `0.1`, `[0.1, 0.2]`), which are put in place of the variables: an input never
goes through a float. Arrays are written out first, because the digits are found number by number.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autodiff_cli.autodiff.digits import evaluate
from autodiff_cli.explain.elements import has_arrays
from autodiff_cli.explain.steps import Trace
from autodiff_cli.explain.warnings import Caveat, caveats
from autodiff_cli.expression import Expression
from autodiff_cli.graph.gradient import selected, sweep
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import rebuild
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.numbers.digits import Number
from autodiff_cli.numbers.precise import text


@dataclass(frozen=True, eq=False)
class PreciseTrace(Trace):
    """A trace whose numbers are texts of `digits` significant digits each; those of value and gradient are right.

    Attributes:
        floats: the same numbers as floats, as far as these go.
    """

    floats: Trace

    @property
    def is_scalar(self) -> bool:
        return self.floats.is_scalar

    @property
    def gradient(self) -> dict[str, Any]:
        index, leaves = self.tape.index, self.expression.leaves
        return {
            name: self.arrived[index[leaves[name]]] if leaves[name] in index else _zeros(self.point[name])
            for name in self.wrt
        }

    @property
    def warnings(self) -> list[Caveat]:
        return [caveat for caveat in caveats(self.floats) if self._holds(caveat)]

    def _holds(self, caveat: Caveat) -> bool:
        """Whether a warning about floats holds for numbers that have the digits and nearly all of the range."""
        if caveat.kind == "overflow":
            value = self.floats.values[caveat.node]
            return math.isinf(value if isinstance(value, float) else abs(value).max())
        return caveat.kind != "precision"


def precise_trace(
    expression: Expression, given: Mapping[str, Node], wrt: Iterable[str], digits: int, most: int | None = None
) -> PreciseTrace:
    """Run both passes with so many right digits of value and gradient.

    Args:
        given: the value of every variable, as a graph without variables.
        wrt: the variables to differentiate towards. The others count as constants.
        most: how many operations on numbers the formula may have when its arrays are written out; half a million by
            default.

    Raises:
        ExpressionError: for arrays that are larger, do not fit together, or are the output.
    """
    chosen = tuple(wrt)
    if has_arrays(expression, given):
        floats, exact = _of_arrays(expression, given, chosen, digits, most)
    else:
        floats, exact = _of_numbers(expression, given, chosen, digits)

    def write(number: Any) -> Any:
        return _each(lambda x: text(x, digits), number)

    # What nothing reaches structurally is 0; what no variable reaches has no adjoint.
    values = [*map(write, exact.values)]
    texts = [
        write(number) if number is not None else _zeros(value) if reached else None
        for number, value, reached in zip(exact.arrived, values, exact.tape.reached, strict=True)
    ]
    point = {name: write(number) for name, number in exact.point.items()}
    return PreciseTrace(expression, point, chosen, exact.tape, values, texts, floats)


def _of_numbers(
    expression: Expression, given: Mapping[str, Node], wrt: tuple[str, ...], digits: int
) -> tuple[Trace, Trace]:
    """The trace of an expression of numbers, as floats and exact."""
    swept = sweep(expression.output, [expression.leaves[name] for name in wrt])
    tape = swept.tape
    adjoints = [None if adjoint is None else selected(adjoint) for adjoint in swept.adjoints]
    first = [expression.output, *_slopes(tape.nodes, adjoints)]
    wanted = dict.fromkeys([*first, *tape.nodes, *(node for node in adjoints if node is not None), *given.values()])
    place = {expression.leaves[name]: given[name] for name in expression.variables}
    numbers = evaluate(rebuild([*wanted], place), digits, len(dict.fromkeys(first)))
    known: dict[Node | None, Number] = {**dict(zip(wanted, numbers, strict=True)), None: None}

    def trace(read: Callable[[Number], Any]) -> Trace:
        point = {name: read(known[node]) for name, node in given.items()}
        arrived = [None if node is None else read(known[node]) for node in adjoints]
        return Trace(expression, point, wrt, tape, [read(known[node]) for node in tape.nodes], arrived)

    return trace(_float), trace(lambda number: number)


def _of_arrays(
    expression: Expression, given: Mapping[str, Node], wrt: tuple[str, ...], digits: int, most: int | None
) -> tuple[Trace, Trace]:
    """The same of an expression with arrays."""
    from autodiff_cli.explain.arrays import passes, sizes_at

    point = dict(zip(given, _evaluated([*given.values()], digits, len(given), most), strict=True))
    near = {name: _each(_float, number) for name, number in point.items()}
    both = passes(expression, wrt, sizes_at(expression, near))
    adjoints = [None if adjoint is None else adjoint.local for adjoint in both.swept.adjoints]
    first = [expression.output, *_slopes(both.swept.tape.nodes, adjoints)]
    wanted = dict.fromkeys([*first, *both.graphs])
    place = {expression.leaves[name]: given[name] for name in expression.variables}
    with expression.placed():
        numbers = _evaluated(rebuild([*wanted], place), digits, len(dict.fromkeys(first)), most)
    exact = dict(zip(wanted, numbers, strict=True))
    floats = {node: _each(_float, number) for node, number in exact.items()}
    return both.trace(expression, near, wrt, floats), both.trace(expression, point, wrt, exact)


def _slopes(nodes: Sequence[Node], adjoints: Sequence[Node | None]) -> list[Node]:
    """The derivatives towards the input leaves."""
    return [slope for node, slope in zip(nodes, adjoints, strict=True) if node.is_input and slope is not None]


def _evaluated(graphs: Sequence[Node], digits: int, sure: int, most: int | None) -> list[Any]:
    """The values of graphs with arrays and without inputs: numbers, and arrays of numbers. See `digits.evaluate`."""
    from autodiff_cli.autodiff.unroll import MOST_OPERATIONS, TooManyOperationsError, unroll

    try:
        arrays = unroll(graphs, most=MOST_OPERATIONS if most is None else most)
    except TooManyOperationsError as error:
        raise ExpressionError(
            f"{error}; from Python, `autodiff_cli.explain.precision.precise_trace` takes more with `most=`"
        ) from error
    elements = [element for array in arrays for element in array.reshape(-1).tolist()]
    numbers = iter(evaluate(elements, digits, sum(array.size for array in arrays[:sure])))
    return [_each(lambda _: next(numbers), array if array.ndim else array.item()) for array in arrays]


def _each(function: Callable[[Any], Any], number: Any) -> Any:
    """The results for a number, or for all elements of an array in the order of its rows."""
    if not getattr(number, "ndim", 0):
        return function(number)
    import numpy as np

    results = [function(x) for x in number.reshape(-1).tolist()]
    return np.array(results, dtype=float if isinstance(results[0], float) else object).reshape(number.shape)


def _zeros(value: Any) -> Any:
    return _each(lambda _: "0.0", value)


def _float(number: Number) -> float:
    """The nearest float, for a large number the largest: an infinity is one only if the number is."""
    nearest = float(number)
    if math.isinf(nearest) and abs(number) != math.inf:
        return math.copysign(sys.float_info.max, nearest)
    return nearest

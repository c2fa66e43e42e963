"""Value and gradient to any number of right digits: the same rules, on numbers that have the digits.

The point is given as formulas (`1/3`, `0.1`), which are put in place of the variables: an input never goes through a
float.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autodiff_cli.autodiff.digits import evaluate
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
    def gradient(self) -> dict[str, Any]:
        index, leaves = self.tape.index, self.expression.leaves
        return {name: self.arrived[index[leaves[name]]] if leaves[name] in index else "0.0" for name in self.wrt}

    @property
    def warnings(self) -> list[Caveat]:
        return [caveat for caveat in caveats(self.floats) if self._holds(caveat)]

    def _holds(self, caveat: Caveat) -> bool:
        """Whether a warning about floats holds for numbers that have the digits and nearly all of the range."""
        is_infinite = math.isinf(self.floats.values[caveat.node])
        return caveat.kind != "precision" and (caveat.kind != "overflow" or is_infinite)


def precise_trace(expression: Expression, given: Mapping[str, Node], wrt: Iterable[str], digits: int) -> PreciseTrace:
    """Run both passes with so many right digits of value and gradient.

    Args:
        given: the value of every variable, as a graph without variables.
        wrt: the variables to differentiate towards. The others count as constants.

    Raises:
        ExpressionError: for an expression with arrays.
    """
    if not expression.is_scalar:
        raise ExpressionError("arbitrary precision is for numbers; this expression has arrays")
    chosen = tuple(wrt)
    swept = sweep(expression.output, [expression.leaves[name] for name in chosen])
    tape = swept.tape
    adjoints = [None if adjoint is None else selected(adjoint) for adjoint in swept.adjoints]
    slopes = [adjoints[i] for i, node in enumerate(tape.nodes) if node.is_input and tape.reached[i]]
    first = [expression.output, *(slope for slope in slopes if slope is not None)]
    wanted = dict.fromkeys([*first, *tape.nodes, *(node for node in adjoints if node is not None), *given.values()])
    place = {expression.leaves[name]: given[name] for name in expression.variables}
    numbers = evaluate(rebuild([*wanted], place), digits, len(dict.fromkeys(first)))
    values: dict[Node | None, Number] = {**dict(zip(wanted, numbers, strict=True)), None: None}

    def read(nodes: Sequence[Node | None]) -> list[Number]:
        return [values[node] for node in nodes]

    point = {name: values[node] for name, node in given.items()}
    floats = Trace(
        expression,
        {name: _float(number) for name, number in point.items()},
        chosen,
        tape,
        [_float(number) for number in read(tape.nodes)],
        [None if number is None else _float(number) for number in read(adjoints)],
    )
    # What nothing reaches structurally is 0; what no variable reaches has no adjoint.
    texts = [
        text(number, digits) if number is not None else "0.0" if reached else None
        for number, reached in zip(read(adjoints), tape.reached, strict=True)
    ]
    return PreciseTrace(
        expression,
        {name: text(number, digits) for name, number in point.items()},
        chosen,
        tape,
        [text(number, digits) for number in read(tape.nodes)],
        texts,
        floats,
    )


def _float(number: Number) -> float:
    """The nearest float, for a large number the largest: an infinity is one only if the number is."""
    nearest = float(number)
    if math.isinf(nearest) and abs(number) != math.inf:
        return math.copysign(sys.float_info.max, nearest)
    return nearest

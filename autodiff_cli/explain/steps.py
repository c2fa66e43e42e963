"""The `Trace`: everything that both passes computed at one point.

It is the single source of what `grad` and `trace` show, as text and as JSON; a renderer never differentiates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from autodiff_cli.autodiff.forward import forward
from autodiff_cli.autodiff.reverse import reverse
from autodiff_cli.explain.warnings import Caveat, caveats
from autodiff_cli.expression import Expression
from autodiff_cli.graph.op import Op
from autodiff_cli.graph.tape import Tape
from autodiff_cli.language.printer import labels
from autodiff_cli.numbers.floats import FLOATS


class ForwardStep(NamedTuple):
    """One operation carried out: the node's value from its inputs' values."""

    step: int
    node: int
    op: Op
    inputs: tuple[int, ...]
    value: Any


class Handed(NamedTuple):
    """What goes from a node to one of its inputs: `amount = local * adjoint`.

    An operation on whole arrays, as a product of matrices, has no local derivative; its `local` is None.
    """

    local: Any
    amount: Any


class Contribution(NamedTuple):
    """What a node hands one of its inputs: `amount = local * adjoint`, see `Handed`.

    `total` is what the input has been handed so far, this amount included; this is the `use`-th of the `uses` of that
    input, and `position` says which input of the node it is. An input that structurally gets nothing (the branch not
    taken, a literal zero factor) is listed with the local derivative 0 and the amount 0.
    """

    position: int
    to: int
    local: Any
    amount: Any
    total: Any
    use: int
    uses: int


class BackwardStep(NamedTuple):
    """One node, its adjoint complete, handing each of its inputs their share."""

    step: int
    node: int
    op: Op
    adjoint: Any
    contributions: tuple[Contribution, ...]


@dataclass(frozen=True, eq=False)
class Trace:
    """Both passes over an expression at a point. Numbers are floats, or arrays where a node is one.

    Attributes:
        expression: what was differentiated.
        point: the value of every variable.
        wrt: the variables towards which it was differentiated.
        tape: the nodes; ids everywhere are positions in it.
        values: the value of every node.
        arrived: what the reverse pass brought to every node; None where structurally nothing arrived.
    """

    expression: Expression
    point: Mapping[str, Any]
    wrt: tuple[str, ...]
    tape: Tape
    values: list[Any]
    arrived: list[Any]

    @property
    def is_scalar(self) -> bool:
        """Whether every node is a number."""
        return True

    @property
    def value(self) -> Any:
        """The value of the output."""
        return self.values[self.tape.outputs[0]]

    @cached_property
    def adjoints(self) -> list[Any]:
        """The adjoint of every node; None for one that no variable of `wrt` reaches, which takes no gradient."""
        return [
            (_nothing(value) if adjoint is None else adjoint) if reached else None
            for adjoint, reached, value in zip(self.arrived, self.tape.reached, self.values, strict=True)
        ]

    @cached_property
    def gradient(self) -> dict[str, Any]:
        """The derivative towards each variable of `wrt`; 0 for one that the output does not depend on."""
        index, leaves = self.tape.index, self.expression.leaves
        found = {name: self.arrived[index[leaves[name]]] if leaves[name] in index else None for name in self.wrt}
        return {name: _nothing(self.point[name]) if slope is None else slope for name, slope in found.items()}

    @cached_property
    def labels(self) -> list[str]:
        """What to call every node: the user's name for it, else the sub-expression, shortened if it is long."""
        return labels(self.tape.nodes, self.tape.inputs, self.expression.names)

    @cached_property
    def warnings(self) -> list[Caveat]:
        """Where the value or the derivative is not what a reader may assume."""
        return caveats(self)

    @property
    def forward(self) -> Iterator[ForwardStep]:
        """The operations in the order in which they are carried out."""
        step = 0
        for i, (node, inputs) in enumerate(zip(self.tape.nodes, self.tape.inputs, strict=True)):
            if node.op is not None:
                step += 1
                yield ForwardStep(step, i, node.op, inputs, self.values[i])

    @property
    def backward(self) -> Iterator[BackwardStep]:
        """The operations that a variable reaches, from the output down; each after all its users."""
        uses = Counter(j for inputs in self.tape.inputs for j in inputs)
        totals: dict[int, Any] = {}
        used: Counter[int] = Counter()
        step = 0
        for i in range(len(self.tape) - 1, -1, -1):
            op, adjoint = self.tape.nodes[i].op, self.adjoints[i]
            if op is None or adjoint is None:
                continue
            handed = self.handed_at(i)
            contributions = []
            for k, j in enumerate(self.tape.inputs[i]):
                if not self.tape.reached[j]:
                    continue
                nothing = _nothing(self.values[j])
                local, amount = handed.get(k, (nothing, nothing))
                if k in handed:
                    totals[j] = totals[j] + amount if j in totals else amount
                used[j] += 1
                contributions.append(Contribution(k, j, local, amount, totals.get(j, nothing), used[j], uses[j]))
            step += 1
            yield BackwardStep(step, i, op, adjoint, tuple(contributions))

    def handed_at(self, i: int) -> dict[int, Handed]:
        """What a node hands on, by input position; inputs that structurally get nothing are left out."""
        op, inputs, live, adjoint = self.tape.nodes[i].op, self.tape.inputs[i], self.tape.edges[i], self.arrived[i]
        if op is None or not live or adjoint is None:
            return {}
        partials = FLOATS.partials(op, len(inputs), live)(self.values[i], *[self.values[j] for j in inputs])
        return {k: Handed(d, d * adjoint) for k, d in zip(live, partials, strict=True) if d is not None}


def _nothing(value: Any) -> Any:
    """Zero, in the shape of a value."""
    if isinstance(value, float):
        return 0.0
    import numpy as np

    return np.zeros_like(value)


def trace(expression: Expression, point: Mapping[str, Any], wrt: Iterable[str] | None = None) -> Trace:
    """Run both passes at a point.

    Args:
        point: a value for every variable of the expression.
        wrt: the variables to differentiate towards; all by default. The others count as constants.

    Raises:
        KeyError: for a name in `wrt` that the expression lacks.
        ExpressionError: for a variable that has no value, where shapes do not fit, for an output that is an array.
    """
    point = expression.at(point)
    chosen = expression.variables if wrt is None else tuple(wrt)
    if not expression.is_one_point_of_scalars(point):
        from autodiff_cli.explain.arrays import array_trace

        return array_trace(expression, point, chosen)
    everything = set(chosen) == set(expression.variables)
    tape = expression.tape if everything else Tape((expression.output,), [expression.leaves[name] for name in chosen])
    values = forward(tape, FLOATS, point)
    return Trace(expression, point, chosen, tape, values, reverse(tape, FLOATS, values, 1.0))

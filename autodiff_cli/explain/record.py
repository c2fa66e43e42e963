"""The `Trace`: everything that both passes computed at one point.

It is the single source of what `grad` and `trace` show, as text and as JSON; a renderer never differentiates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

from autodiff_cli.explain.labels import Labels
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.op import Op
from autodiff_cli.graph.tape import Tape


class ForwardStep(NamedTuple):
    """One operation carried out: the node's value from its inputs' values."""

    step: int
    node: int
    op: Op
    inputs: tuple[int, ...]
    value: Any


class Handed(NamedTuple):
    """What goes along an edge, from a node to one of its inputs: `amount = local * adjoint`.

    Attributes:
        position: which input of the node it is, and `to` that input.
        local: the local derivative of the operation, whether or not anything arrives at it; 0 where a choice did not
            take the input; None for an operation on whole arrays, as a product of matrices, which has none.
        total: what the input has been handed so far, this amount included.
        use: this is the `use`-th of the `uses` of that input; where structurally nothing is handed is none.
        is_nothing: whether structurally nothing is handed (to the branch not taken, past a literal zero factor, by a
            node at which nothing arrives); the amount is 0 then.
    """

    position: int
    to: int
    local: Any
    amount: Any
    total: Any
    use: int
    uses: int
    is_nothing: bool


class BackwardStep(NamedTuple):
    """One node, its adjoint complete, handing each of its inputs their share."""

    step: int
    node: int
    op: Op
    adjoint: Any
    contributions: tuple[Handed, ...]


class Caveat(NamedTuple):
    """One warning.

    `kind` is `kink` (the derivative is one-sided there), `domain` (undefined there), `singular` (infinite, or 0 × inf),
    `overflow` (too large for a float), `precision` (digits lost to cancellation) or `unavailable` (no derivative is
    known). A warning of lost digits has the right ones in `right`, by the name of the variable, and "value".
    """

    node: int
    kind: str
    message: str
    right: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Trace:
    """Both passes over an expression at a point.

    Numbers are floats, or arrays where a node is one; with more digits than a float has, they are texts.

    Attributes:
        expression: what was differentiated.
        point: the value of every variable.
        wrt: the variables towards which it was differentiated.
        tape: the nodes; ids everywhere are positions in it.
        values: the value of every node.
        arrived: what the reverse pass brought to every node; None where structurally nothing arrived.
        handed: what every node hands on, to each input that takes a gradient.
        absent: of an array that something arrives at, the elements at which structurally nothing does, as booleans; by
            node, where there are any.
        unheld: of `point`, the numbers that were given and that no float holds, as fractions or balls.
        warnings: where the value or the derivative is not what a reader may assume.
    """

    expression: Formula
    point: Mapping[str, Any]
    wrt: tuple[str, ...]
    tape: Tape
    values: list[Any]
    arrived: list[Any]
    handed: list[tuple[Handed, ...]]
    absent: Mapping[int, Any] = field(default_factory=dict)
    unheld: Mapping[str, Any] = field(default_factory=dict)
    warnings: list[Caveat] = field(default_factory=list)

    @cached_property
    def is_scalar(self) -> bool:
        """Whether every node is a number, and every operation one on numbers."""
        is_structural = any(node.op is not None and node.op.structural for node in self.tape.nodes)
        return not is_structural and not any(map(shape_of, self.values))

    @property
    def value(self) -> Any:
        """The value of the output."""
        return self.values[self.tape.outputs[0]]

    @cached_property
    def adjoints(self) -> list[Any]:
        """The adjoint of every node; None for one that no variable of `wrt` reaches, which takes no gradient."""
        return [
            (nothing(value) if adjoint is None else adjoint) if reached else None
            for adjoint, reached, value in zip(self.arrived, self.tape.reached, self.values, strict=True)
        ]

    @cached_property
    def gradient(self) -> dict[str, Any]:
        """The derivative towards each variable of `wrt`; 0 for one that the output does not depend on."""
        index, leaves = self.tape.index, self.expression.leaves
        found = {name: self.arrived[index[leaves[name]]] if leaves[name] in index else None for name in self.wrt}
        return {name: nothing(self.point[name]) if slope is None else slope for name, slope in found.items()}

    @cached_property
    def naming(self) -> Labels:
        """What to call nodes and calls."""
        return Labels(self.tape, self.expression.names, self.expression.source)

    @property
    def labels(self) -> list[str]:
        """What to call every node: the reader's name for it, else the sub-expression, shortened if it is long."""
        return self.naming.texts

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
        step = 0
        for i in range(len(self.tape) - 1, -1, -1):
            op = self.tape.nodes[i].op
            if op is not None and self.tape.reached[i]:
                step += 1
                yield BackwardStep(step, i, op, self.adjoints[i], self.handed[i])


# By input position: the local derivative, and the amount that is handed on; None where structurally nothing is.
Given = Mapping[int, tuple[Any, Any]]


def added_up(tape: Tape, values: Sequence[Any], given: Sequence[Given]) -> list[tuple[Handed, ...]]:
    """What every node of a tape hands on, with running totals in the order of the reverse pass.

    Args:
        given: for every node what it hands on, to each of its inputs that takes a gradient.
    """
    amounts = ((tape.inputs[i][k], amount) for i, to in enumerate(given) for k, (_, amount) in to.items())
    uses = Counter(j for j, amount in amounts if amount is not None)
    used: Counter[int] = Counter()
    totals: dict[int, Any] = {}
    found: list[tuple[Handed, ...]] = [()] * len(tape)
    for i in range(len(tape) - 1, -1, -1):
        handed = []
        for k, j in enumerate(tape.inputs[i]):
            if not tape.reached[j]:
                continue
            local, amount = given[i][k]
            is_nothing = amount is None
            if is_nothing:
                amount = nothing(values[j])
            else:
                used[j] += 1
                totals[j] = totals[j] + amount if j in totals else amount
            handed.append(Handed(k, j, local, amount, totals.get(j, amount), used[j], uses[j], is_nothing))
        found[i] = tuple(handed)
    return found


def nothing(value: Any) -> Any:
    """Zero, of the kind and the shape of a value."""
    if isinstance(value, str):
        return "0.0"
    if not shape_of(value):
        return type(value)(0)
    import numpy as np

    zero = value.dtype.type(0) if value.dtype != object else nothing(value.flat[0])
    return np.full(value.shape, zero, dtype=value.dtype)


def shape_of(number: Any) -> tuple[int, ...]:
    """The shape of a number or an array, without NumPy."""
    shape: tuple[int, ...] = getattr(number, "shape", ())
    return shape


def is_anywhere(truth: Any) -> bool:
    """Whether a truth holds (is not 0), of an array at one element at least."""
    return bool(truth.any() if shape_of(truth) else truth)

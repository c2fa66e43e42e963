"""The `Trace`: everything that the forward and backward pass computed at one point.

It is the single source of what `grad` and `trace` show, as text and as JSON; a renderer never differentiates.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

from autodiff_cli.explain.labels import Labels
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.node import Op
from autodiff_cli.graph.tape import Tape, has_array_operations

ROUNDING_ERROR = 2 * sys.float_info.epsilon  # relative, of a contribution: of the local derivative and of the product


class ForwardStep(NamedTuple):
    """One step of the forward pass: an operation, its inputs, and the value it computes."""

    step: int
    node: int
    op: Op
    inputs: tuple[int, ...]
    value: Any


class Contribution(NamedTuple):
    """The contribution of a node to the adjoint of one of its inputs: `amount = local * adjoint`.

    Attributes:
        position: the position of the input among the node's inputs.
        to: the id of the input.
        local: the local derivative of the operation, which does not depend on its adjoint. It is 0 where a choice did
            not select the input, and None for an operation on whole arrays, such as a matrix product.
        amount: the contribution itself.
        total: the adjoint of the input so far, this contribution included.
        use: this contribution is number `use` of the `uses` contributions to that input; structural zeros do not
            count.
        uses: how many contributions the input receives.
        is_structural_zero: whether the contribution is absent, not a computed 0. This is so in a branch that was not
            taken, behind a literal zero factor, and from a node that has no adjoint. The amount is then 0.
    """

    position: int
    to: int
    local: Any
    amount: Any
    total: Any
    use: int
    uses: int
    is_structural_zero: bool


class BackwardStep(NamedTuple):
    """One step of the backward pass: a node whose adjoint is complete, and its contributions to its inputs."""

    step: int
    node: int
    op: Op
    adjoint: Any
    contributions: tuple[Contribution, ...]


class NodeWarning(NamedTuple):
    """A warning about one node: its value or derivative is not what a reader may assume.

    Attributes:
        node: the id of the node.
        kind: `kink` (the derivative is one-sided), `domain` (undefined), `singular` (infinite, or 0 × inf), `overflow`
            (too large for a float), `precision` (digits lost to cancellation), `unavailable` (no derivative is known)
            or `nonlinear` (the first-order uncertainty is misleading).
        message: the warning in words.
        right: for a `precision` warning, the correct digits by the name of the variable, or "value".
    """

    node: int
    kind: str
    message: str
    right: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Trace:
    """The record of the forward and backward pass over an expression at one point.

    Values are floats, or arrays for nodes that are arrays. In a trace of higher precision they are texts.

    Attributes:
        expression: the expression that was differentiated.
        point: the value of every variable.
        wrt: the variables to differentiate with respect to.
        tape: the nodes. Node ids are positions on this tape.
        values: the value of every node.
        adjoints_or_none: the adjoint of every node; None where it is a structural zero.
        contributions: the contributions of every node to its inputs that take a gradient.
        zero_masks: boolean masks of the elements whose adjoint is a structural zero, by node; only for arrays that have
            such elements.
        unrepresentable: exact values (fractions or balls) of those numbers in `point` that no float represents.
        warnings: where the value or the derivative is not what a reader may assume.
    """

    expression: Formula
    point: Mapping[str, Any]
    wrt: tuple[str, ...]
    tape: Tape
    values: list[Any]
    adjoints_or_none: list[Any]
    contributions: list[tuple[Contribution, ...]]
    zero_masks: Mapping[int, Any] = field(default_factory=dict)
    unrepresentable: Mapping[str, Any] = field(default_factory=dict)
    warnings: list[NodeWarning] = field(default_factory=list)

    @cached_property
    def is_scalar(self) -> bool:
        """Whether every node is a number, and no operation works on whole arrays."""
        return not has_array_operations(self.tape.nodes) and not any(map(array_shape, self.values))

    @property
    def value(self) -> Any:
        """The value of the output."""
        return self.values[self.tape.outputs[0]]

    @cached_property
    def adjoints(self) -> list[Any]:
        """The adjoint of every node; None for a node that depends on no variable of `wrt` and so takes no gradient."""
        return [
            (zero_like(value) if adjoint is None else adjoint) if reached else None
            for adjoint, reached, value in zip(self.adjoints_or_none, self.tape.is_active, self.values, strict=True)
        ]

    @cached_property
    def gradient(self) -> dict[str, Any]:
        """The derivative with respect to each variable of `wrt`; 0 if the output does not depend on it."""
        index, leaves = self.tape.index, self.expression.leaves
        adjoints = {
            name: self.adjoints_or_none[index[leaves[name]]] if leaves[name] in index else None for name in self.wrt
        }
        return {name: zero_like(self.point[name]) if slope is None else slope for name, slope in adjoints.items()}

    @cached_property
    def negligible(self) -> frozenset[int]:
        """The nodes whose adjoint is not 0, but no larger than the rounding errors of what cancels in it.

        Only of traces of floats. The errors are estimated to first order.
        """
        if not self.is_scalar or isinstance(self.value, str):
            return frozenset()
        errors = [0.0] * len(self.tape)
        for step in self.backward:
            for part in step.contributions:
                if not part.is_structural_zero:
                    errors[part.to] += abs(part.local) * errors[step.node] + ROUNDING_ERROR * abs(part.amount)
        return frozenset(i for i, x in enumerate(self.adjoints_or_none) if x and abs(x) <= errors[i] < math.inf)

    def with_warning(self, kind: str, message: str) -> Trace:
        """Return the trace with a warning about its output; unchanged for an empty message."""
        output = self.tape.outputs[0]
        return replace(self, warnings=[*self.warnings, NodeWarning(output, kind, message)]) if message else self

    @cached_property
    def users(self) -> list[list[int]]:
        """For each node, the nodes that it is an input of, in order, once for each use."""
        users: list[list[int]] = [[] for _ in self.tape.nodes]
        for i, inputs in enumerate(self.tape.inputs):
            for j in inputs:
                users[j].append(i)
        return users

    @cached_property
    def naming(self) -> Labels:
        """The labels of nodes and of function calls."""
        return Labels(self.tape, self.expression.names, self.expression.source)

    @property
    def labels(self) -> list[str]:
        """The label of every node: its name in the text, else its sub-expression, shortened if it is long."""
        return self.naming.texts

    @property
    def forward(self) -> Iterator[ForwardStep]:
        """The steps of the forward pass, in the order of evaluation."""
        operations = (i for i, node in enumerate(self.tape.nodes) if node.op is not None)
        for step, i in enumerate(operations, 1):
            yield ForwardStep(step, i, self.tape.nodes[i].operation, self.tape.inputs[i], self.values[i])

    @property
    def backward(self) -> Iterator[BackwardStep]:
        """The steps of the backward pass, from the output to the inputs; each node comes after all its users."""
        nodes, is_active = self.tape.nodes, self.tape.is_active
        operations = [i for i, node in enumerate(nodes) if node.op is not None and is_active[i]]
        for step, i in enumerate(reversed(operations), 1):
            yield BackwardStep(step, i, nodes[i].operation, self.adjoints[i], self.contributions[i])


# By input position: the local derivative and the contribution, which is None for a structural zero.
EdgeAmounts = Mapping[int, tuple[Any, Any]]


def accumulate_contributions(
    tape: Tape, values: Sequence[Any], amounts_by_node: Sequence[EdgeAmounts]
) -> list[tuple[Contribution, ...]]:
    """Return the contributions of every node of a tape, with running totals in the order of the backward pass.

    Args:
        amounts_by_node: for every node, the local derivative and amount for each input that takes a gradient.
    """
    amounts = ((tape.inputs[i][k], amount) for i, to in enumerate(amounts_by_node) for k, (_, amount) in to.items())
    uses = Counter(j for j, amount in amounts if amount is not None)
    used: Counter[int] = Counter()
    totals: dict[int, Any] = {}
    contributions_by_node: list[tuple[Contribution, ...]] = [()] * len(tape)
    for i in range(len(tape) - 1, -1, -1):
        contributions = []
        for k, j in enumerate(tape.inputs[i]):
            if not tape.is_active[j]:
                continue
            local, amount = amounts_by_node[i][k]
            is_nothing = amount is None
            if is_nothing:
                amount = zero_like(values[j])
            else:
                used[j] += 1
                totals[j] = totals[j] + amount if j in totals else amount
            contributions.append(Contribution(k, j, local, amount, totals.get(j, amount), used[j], uses[j], is_nothing))
        contributions_by_node[i] = tuple(contributions)
    return contributions_by_node


def zero_like(value: Any) -> Any:
    """Return a zero of the same type and shape as a value."""
    if isinstance(value, str):
        return "0.0"
    if not array_shape(value):
        return type(value)(0)
    import numpy as np

    zero = value.dtype.type(0) if value.dtype != object else zero_like(value.flat[0])
    return np.full(value.shape, zero, dtype=value.dtype)


def array_shape(number: Any) -> tuple[int, ...]:
    """Return the shape of a number or an array. Does not import NumPy."""
    return getattr(number, "shape", ())


def any_true(truth: Any) -> bool:
    """Whether a condition holds: a number that is not 0, or an array with at least one such element."""
    return bool(truth.any() if array_shape(truth) else truth)

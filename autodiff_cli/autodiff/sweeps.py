"""Forward and reverse sweeps over a tape: values, tangents (forward mode) and adjoints (reverse mode)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from autodiff_cli.graph.tape import LazyTable, Tape, gc_paused
from autodiff_cli.numbers.kind import Kind

N = TypeVar("N")


class ForwardPass(Generic[N]):
    """The sweep from the inputs of a tape to its outputs, prepared for one kind of number.

    >>> from autodiff_cli import parse
    >>> from autodiff_cli.numbers.floats import FLOATS
    >>> ForwardPass(parse("x*y + x").tape, FLOATS)({"x": 2.0, "y": 3.0})
    [2.0, 3.0, 6.0, 8.0]

    Attributes:
        steps: for each operation the number of its node, its function, and the numbers of its inputs.
    """

    def __init__(self, tape: Tape, kind: Kind[N]) -> None:
        self._constants: list[Any] = [None] * len(tape)
        self._leaves: list[tuple[int, str]] = []
        self.steps: list[tuple[int, Callable[..., N], tuple[int, ...]]] = []
        functions = LazyTable(lambda key: kind.function(*key))
        with gc_paused():
            for i, (node, inputs) in enumerate(zip(tape.nodes, tape.inputs, strict=True)):
                if node.op is not None:
                    self.steps.append((i, functions[node.op, len(inputs)], inputs))
                elif node.is_constant:
                    self._constants[i] = kind.parse_constant(node.text)
                else:
                    self._leaves.append((i, node.text))

    def __call__(self, point: Mapping[str, N]) -> list[N]:
        """Return the value of every node, in tape order.

        Args:
            point: a number for every input leaf, by name. Raises KeyError if one is missing.
        """
        values = self._constants.copy()
        for i, name in self._leaves:
            values[i] = point[name]
        for i, function, inputs in self.steps:
            if len(inputs) == 1:  # one or two arguments are passed directly, which is faster than collecting them
                values[i] = function(values[inputs[0]])
            elif len(inputs) == 2:
                values[i] = function(values[inputs[0]], values[inputs[1]])
            else:
                values[i] = function(*[values[j] for j in inputs])
        return values


def forward(tape: Tape, kind: Kind[N], point: Mapping[str, N]) -> list[N]:
    """Return the value of every node at one point; see `ForwardPass`."""
    return ForwardPass(tape, kind)(point)


def tangents(tape: Tape, kind: Kind[N], values: list[N], seeds: Mapping[str, N]) -> list[N | None]:
    """Return the rate of change of every node, for inputs that change at the rates `seeds` (forward mode).

    The tangent of a node that depends on no seeded input is None: it contributes to nothing.
    """
    rates: list[Any] = []
    for i, (node, inputs) in enumerate(zip(tape.nodes, tape.inputs, strict=True)):
        if node.op is None:
            rates.append(seeds.get(node.text) if node.is_input else None)
            continue
        active = tuple(k for k in tape.active_inputs[i] if rates[inputs[k]] is not None)
        rate: Any = None
        if active:
            partials = kind.partials(node.op, len(inputs), active)
            for k, local in zip(active, partials(values[i], *[values[j] for j in inputs]), strict=True):
                if local is not None:
                    amount = local * rates[inputs[k]]
                    rate = amount if rate is None else rate + amount
        rates.append(rate)
    return rates


class ReversePass(Generic[N]):
    """The sweep from the first output of a tape to its inputs, prepared for one kind of number.

    >>> from autodiff_cli import parse
    >>> from autodiff_cli.numbers.floats import FLOATS
    >>> ReversePass(parse("x*y + x").tape, FLOATS)([2.0, 3.0, 6.0, 8.0], 1.0)
    [4.0, 2.0, 1.0, 1.0]
    """

    def __init__(self, tape: Tape, kind: Kind[N]) -> None:
        self._output = tape.outputs[0]
        # The nodes that contribute: their local derivatives, the positions of their inputs, and the positions of the
        # inputs that receive contributions.
        self.steps: list[tuple[int, Callable[..., tuple[N | None, ...]], tuple[int, ...], tuple[int, ...]]] = []
        functions = LazyTable(lambda key: kind.partials(*key))
        with gc_paused():
            for i in range(self._output, -1, -1):
                op, inputs, active = tape.nodes[i].op, tape.inputs[i], tape.active_inputs[i]
                if op is not None and active:
                    partials = functions[op, len(inputs), active]
                    receivers = inputs if len(active) == len(inputs) else tuple([inputs[k] for k in active])
                    self.steps.append((i, partials, inputs, receivers))

    def __call__(self, values: list[N], seed: N) -> list[N | None]:
        """Return the adjoint of every node: the derivative of the output towards it, times `seed`.

        Nodes are visited in reverse topological order, so that a node's adjoint is complete when its own contributions
        are computed. An adjoint of None means that there is structurally no contribution: no path leads from the node
        to the output, or every path passes a choice that was not taken. Such a node contributes nothing, even if its
        local derivatives are not finite.

        Args:
            values: the value of every node, from the forward sweep.
            seed: the adjoint of the output.
        """
        adjoints: list[Any] = [None] * len(values)
        adjoints[self._output] = seed
        for i, partials, inputs, receivers in self.steps:
            adjoint = adjoints[i]
            if adjoint is None:
                continue
            if len(inputs) == 1:
                slopes = partials(values[i], values[inputs[0]])
            elif len(inputs) == 2:
                slopes = partials(values[i], values[inputs[0]], values[inputs[1]])
            else:
                slopes = partials(values[i], *[values[k] for k in inputs])
            for j, local in zip(receivers, slopes):  # noqa: B905
                if local is not None:
                    amount = local * adjoint
                    so_far = adjoints[j]
                    adjoints[j] = amount if so_far is None else so_far + amount
        return adjoints


def reverse(tape: Tape, kind: Kind[N], values: list[N], seed: N) -> list[N | None]:
    """Return the adjoint of every node at one point; see `ReversePass`."""
    return ReversePass(tape, kind)(values, seed)

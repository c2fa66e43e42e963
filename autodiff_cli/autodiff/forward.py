"""From the inputs to the output: values, and tangents (forward mode)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from autodiff_cli.graph.collector import collector_paused
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.kind import Kind

N = TypeVar("N")

# Where an operation's inputs are: the first, the second if there is one, and the others. Loops tell operations apart by
# their number of inputs, since a call with one or two is faster than one that collects its arguments first.
Places = tuple[int, int | None, tuple[int, ...]]


def places(inputs: tuple[int, ...]) -> Places:
    """The places of an operation's inputs as loops like them."""
    return inputs[0], inputs[1] if len(inputs) > 1 else None, inputs[2:]


class Forward(Generic[N]):
    """The loop from the inputs of a tape to its outputs, made ready for one kind of number.

    >>> from autodiff_cli import parse
    >>> from autodiff_cli.numbers.floats.table import FLOATS
    >>> Forward(parse("x*y + x").tape, FLOATS)({"x": 2.0, "y": 3.0})
    [2.0, 3.0, 6.0, 8.0]
    """

    def __init__(self, tape: Tape, kind: Kind[N]) -> None:
        self._constants: list[Any] = [None] * len(tape)
        self._leaves: list[tuple[int, str]] = []
        self._steps: list[tuple[int, Callable[..., N], int, int | None, tuple[int, ...]]] = []
        functions: dict[Any, Callable[..., N]] = {}
        with collector_paused():
            for i, (node, inputs) in enumerate(zip(tape.nodes, tape.inputs, strict=True)):
                if node.op is not None:
                    key = node.op, len(inputs)
                    function = functions.get(key)
                    if function is None:
                        function = functions[key] = kind.function(*key)
                    self._steps.append((i, function, *places(inputs)))
                elif node.is_constant:
                    self._constants[i] = kind.read(node.text)
                else:
                    self._leaves.append((i, node.text))

    def __call__(self, point: Mapping[str, N]) -> list[N]:
        """The value of every node, in tape order.

        Args:
            point: a number for the name of every input leaf. Raises KeyError for one that is missing.
        """
        values = self._constants.copy()
        for i, name in self._leaves:
            values[i] = point[name]
        for i, function, first, second, others in self._steps:
            if second is None:
                values[i] = function(values[first])
            elif not others:
                values[i] = function(values[first], values[second])
            else:
                values[i] = function(values[first], values[second], *[values[j] for j in others])
        return values


def forward(tape: Tape, kind: Kind[N], point: Mapping[str, N]) -> list[N]:
    """The value of every node at one point; see `Forward`."""
    return Forward(tape, kind)(point)


def tangents(tape: Tape, kind: Kind[N], values: list[N], seeds: Mapping[str, N]) -> list[N | None]:
    """Forward mode: how fast every node changes when the inputs change at the rates `seeds`.

    A node that depends on no seeded input has the tangent None: it takes part in nothing.
    """
    found: list[Any] = []
    for i, (node, inputs) in enumerate(zip(tape.nodes, tape.inputs, strict=True)):
        if node.op is None:
            found.append(seeds.get(node.text) if node.is_input else None)
            continue
        live = tuple(k for k in tape.edges[i] if found[inputs[k]] is not None)
        total: Any = None
        if live:
            partials = kind.partials(node.op, len(inputs), live)
            for k, local in zip(live, partials(values[i], *[values[j] for j in inputs]), strict=True):
                if local is not None:
                    amount = local * found[inputs[k]]
                    total = amount if total is None else total + amount
        found.append(total)
    return found

"""From the inputs to the output: values, and tangents (forward mode)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from autodiff_cli.graph.collector import collector_paused
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.kind import Kind

N = TypeVar("N")


def forward(tape: Tape, kind: Kind[N], point: Mapping[str, N]) -> list[N]:
    """The value of every node, in tape order.

    Args:
        point: a number for the name of every input leaf. Raises KeyError for one that is missing.
    """
    key = forward, kind
    if key not in tape.prepared:
        with collector_paused():
            tape.prepared[key] = _prepared(tape, kind)
    constants, leaves, steps = tape.prepared[key]
    values: list[Any] = constants.copy()
    for i, name in leaves:
        values[i] = point[name]
    # Told apart by their number of inputs, since one call in a loop is faster than one that collects arguments first.
    for i, function, first, second in steps:
        if second >= 0:
            values[i] = function(values[first], values[second])
        elif second == UNARY:
            values[i] = function(values[first])
        else:
            values[i] = function(*[values[j] for j in first])
    return values


UNARY, _MANY = -1, -2

Steps = list[tuple[int, Callable[..., Any], Any, int]]


def places(inputs: tuple[int, ...]) -> tuple[Any, int]:
    """The places of an operation's inputs as loops like them: two inputs as two places, one as a place and `UNARY`, any
    other number as a tuple and a negative number."""
    if len(inputs) == 2:
        return inputs
    return (inputs[0], UNARY) if len(inputs) == 1 else (inputs, _MANY)


def _prepared(tape: Tape, kind: Kind[N]) -> tuple[list[Any], list[tuple[int, str]], Steps]:
    """The constants in their places, the places of the input leaves, and every operation as its place, its function
    and the places of its inputs."""
    constants: list[Any] = [None] * len(tape)
    leaves: list[tuple[int, str]] = []
    steps: Steps = []
    functions: dict[Any, Any] = {}
    for i, (node, inputs) in enumerate(zip(tape.nodes, tape.inputs, strict=True)):
        if node.op is None:
            if node.is_constant:
                constants[i] = kind.read(node.text)
            else:
                leaves.append((i, node.text))
            continue
        count = len(inputs)
        function = functions.get((node.op, count))
        if function is None:
            function = functions[node.op, count] = kind.function(node.op, count)
        steps.append((i, function, *places(inputs)))
    return constants, leaves, steps


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

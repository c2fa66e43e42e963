"""From the inputs to the output: values, and tangents (forward mode)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.kind import Kind

N = TypeVar("N")


def forward(tape: Tape, kind: Kind[N], point: Mapping[str, N]) -> list[N]:
    """The value of every node, in tape order.

    Args:
        point: a number for the name of every input leaf. Raises KeyError for one that is missing.
    """
    values: list[N] = []
    functions: dict[Any, Any] = {}
    for node, inputs in zip(tape.nodes, tape.inputs, strict=True):
        op = node.op
        if op is None:
            values.append(kind.read(node.text) if node.is_constant else point[node.text])
            continue
        key = op, len(inputs)
        function = functions.get(key)
        if function is None:
            function = functions[key] = kind.function(*key)
        values.append(function(*[values[i] for i in inputs]))
    return values


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

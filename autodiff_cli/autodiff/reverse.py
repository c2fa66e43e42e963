"""From the output to the inputs: the chain rule, in one loop."""

from __future__ import annotations

from typing import Any, TypeVar

from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.kind import Kind

N = TypeVar("N")


def reverse(tape: Tape, kind: Kind[N], values: list[N], seed: N) -> list[N | None]:
    """The adjoint of every node: the derivative of the (first) output towards it, times `seed`.

    Every node waits until all its users have handed it their share; topological order, read backwards, sees to that.
    The adjoint None means that structurally nothing arrived: no path leads from the node to the output, or a choice
    that was not taken stands on every path. Such a node hands nothing on, whatever its own local derivatives are.
    """
    adjoints: list[Any] = [None] * len(tape)
    adjoints[tape.outputs[0]] = seed
    compiled: dict[Any, Any] = {}
    nodes, tape_inputs, edges = tape.nodes, tape.inputs, tape.edges
    for i in range(tape.outputs[0], -1, -1):
        adjoint = adjoints[i]
        live = edges[i]
        if adjoint is None or not live:
            continue
        inputs = tape_inputs[i]
        key = nodes[i].op, len(inputs), live
        partials = compiled.get(key)
        if partials is None:
            partials = compiled[key] = kind.partials(*key)  # type: ignore[arg-type]
        for k, local in zip(live, partials(values[i], *[values[j] for j in inputs])):  # noqa: B905
            if local is not None:
                j = inputs[k]
                amount = local * adjoint
                adjoints[j] = amount if adjoints[j] is None else adjoints[j] + amount
    return adjoints

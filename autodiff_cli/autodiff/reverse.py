"""From the output to the inputs: the chain rule, in one loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from autodiff_cli.autodiff.forward import UNARY, places
from autodiff_cli.graph.collector import collector_paused
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.kind import Kind

N = TypeVar("N")


def reverse(tape: Tape, kind: Kind[N], values: list[N], seed: N) -> list[N | None]:
    """The adjoint of every node: the derivative of the (first) output towards it, times `seed`.

    Every node waits until all its users have handed it their share; topological order, read backwards, sees to that.
    The adjoint None means that structurally nothing arrived: no path leads from the node to the output, or a choice
    that was not taken stands on every path. Such a node hands nothing on, whatever its own local derivatives are.
    """
    key = reverse, kind
    if key not in tape.prepared:
        with collector_paused():
            tape.prepared[key] = [*_prepared(tape, kind)]
    adjoints: list[Any] = [None] * len(tape)
    adjoints[tape.outputs[0]] = seed
    for i, partials, first, second, receivers in tape.prepared[key]:
        adjoint = adjoints[i]
        if adjoint is None:
            continue
        if second >= 0:
            slopes = partials(values[i], values[first], values[second])
        elif second == UNARY:
            slopes = partials(values[i], values[first])
        else:
            slopes = partials(values[i], *[values[k] for k in first])
        for j, local in zip(receivers, slopes):  # noqa: B905
            if local is not None:
                amount = local * adjoint
                so_far = adjoints[j]
                adjoints[j] = amount if so_far is None else so_far + amount
    return adjoints


Step = tuple[int, Callable[..., Any], Any, int, tuple[int, ...]]


def _prepared(tape: Tape, kind: Kind[N]) -> Iterator[Step]:
    """From the output down, the nodes that hand something on: each with the function for its local derivatives, the
    places of its inputs, and those of the inputs that receive."""
    functions: dict[Any, Any] = {}
    for i in range(tape.outputs[0], -1, -1):
        live, inputs = tape.edges[i], tape.inputs[i]
        if live:
            key = tape.nodes[i].op, len(inputs), live
            partials = functions.get(key)
            if partials is None:
                partials = functions[key] = kind.partials(*key)  # type: ignore[arg-type]
            yield (i, partials, *places(inputs), tuple([inputs[k] for k in live]))

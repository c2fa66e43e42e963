"""From the output to the inputs: the chain rule, in one loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from autodiff_cli.autodiff.forward import places
from autodiff_cli.graph.collector import collector_paused
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.kind import Kind

N = TypeVar("N")


class Reverse(Generic[N]):
    """The loop from the (first) output of a tape to its inputs, made ready for one kind of number.

    >>> from autodiff_cli import parse
    >>> from autodiff_cli.numbers.floats.table import FLOATS
    >>> Reverse(parse("x*y + x").tape, FLOATS)([2.0, 3.0, 6.0, 8.0], 1.0)
    [4.0, 2.0, 1.0, 1.0]
    """

    def __init__(self, tape: Tape, kind: Kind[N]) -> None:
        self._output = tape.outputs[0]
        # The nodes that hand something on: the function for their local derivatives, the places of their inputs, and
        # those of the inputs that receive.
        self._steps: list[
            tuple[int, Callable[..., tuple[N | None, ...]], int, int | None, tuple[int, ...], tuple[int, ...]]
        ] = []
        functions: dict[Any, Callable[..., tuple[N | None, ...]]] = {}
        with collector_paused():
            for i in range(self._output, -1, -1):
                op, inputs, live = tape.nodes[i].op, tape.inputs[i], tape.edges[i]
                if op is not None and live:
                    key = op, len(inputs), live
                    partials = functions.get(key)
                    if partials is None:
                        partials = functions[key] = kind.partials(*key)
                    self._steps.append((i, partials, *places(inputs), tuple([inputs[k] for k in live])))

    def __call__(self, values: list[N], seed: N) -> list[N | None]:
        """The adjoint of every node: the derivative of the output towards it, times `seed`.

        Every node waits until all its users have handed it their share; topological order, read backwards, sees to
        that. The adjoint None means that structurally nothing arrived: no path leads from the node to the output, or a
        choice that was not taken stands on every path. Such a node hands nothing on, whatever its own local derivatives
        are.

        Args:
            values: of every node, from the forward loop.
        """
        adjoints: list[Any] = [None] * len(values)
        adjoints[self._output] = seed
        for i, partials, first, second, others, receivers in self._steps:
            adjoint = adjoints[i]
            if adjoint is None:
                continue
            if second is None:
                slopes = partials(values[i], values[first])
            elif not others:
                slopes = partials(values[i], values[first], values[second])
            else:
                slopes = partials(values[i], values[first], values[second], *[values[k] for k in others])
            for j, local in zip(receivers, slopes):  # noqa: B905
                if local is not None:
                    amount = local * adjoint
                    so_far = adjoints[j]
                    adjoints[j] = amount if so_far is None else so_far + amount
        return adjoints


def reverse(tape: Tape, kind: Kind[N], values: list[N], seed: N) -> list[N | None]:
    """The adjoint of every node at one point; see `Reverse`."""
    return Reverse(tape, kind)(values, seed)

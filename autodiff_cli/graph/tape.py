"""The tape: a graph's nodes numbered once, in topological order.

After that, loops run over integers and lists, and nothing recurses: a chain of 100,000 nodes is as good as a sum.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from autodiff_cli.graph.collector import collector_paused
from autodiff_cli.graph.node import Node, is_literal
from autodiff_cli.graph.registry import registered

_POSITIONS = ((), (0,), (0, 1), (0, 1, 2))  # the usual numbers of inputs, made once


class Vertex(Protocol):
    """What has inputs of its own kind: a node, or a number that remembers how it was computed."""

    @property
    def inputs(self) -> tuple[Any, ...]: ...


V = TypeVar("V", bound=Vertex)


def topological(outputs: Iterable[V]) -> list[V]:
    """Every vertex that the outputs need, each once and after its inputs; inputs in the order they are written."""
    order: list[V] = []
    done: set[V] = set()
    opened: set[V] = set()
    stack: list[V] = list(outputs)[::-1]
    while stack:
        node = stack.pop()
        if node in done:
            continue
        if node.inputs and node not in opened:
            opened.add(node)
            stack.append(node)
            stack.extend(node.inputs[::-1])
        else:
            done.add(node)
            order.append(node)
    return order


class Tape:
    """The nodes of a graph in topological order, with each node's inputs as positions in that order.

    Args:
        outputs: the nodes whose values are wanted.
        wrt: the input leaves towards which derivatives are wanted; all of them by default.

    Attributes:
        nodes: in topological order; a node's position is its id.
        inputs: for each node, the ids of its inputs.
        outputs: the ids of the outputs.
        reached: for each node, whether one of the `wrt` leaves is among its ancestors (or is it). What is not reached
            takes no gradient.
        edges: for each node, the positions among its inputs through which a derivative travels: those that are
            reached, without those that a literal zero multiplies (`0*x`, `x^0`).
    """

    __slots__ = ("edges", "index", "inputs", "nodes", "outputs", "reached")

    def __init__(self, outputs: Sequence[Node], wrt: Iterable[Node] | None = None) -> None:
        with collector_paused():
            self.nodes = topological(outputs)
            self.index = {node: i for i, node in enumerate(self.nodes)}
            index = self.index
            self.inputs = [tuple([index[child] for child in node.inputs]) for node in self.nodes]
            self.outputs = tuple(index[output] for output in outputs)
            self.reached: list[bool] = []
            self.edges: list[tuple[int, ...]] = []
            self._mark(None if wrt is None else set(wrt))

    def _mark(self, seeds: set[Node] | None) -> None:
        reached, edges = self.reached, self.edges
        zeros: set[int] = set()
        for i, (node, inputs) in enumerate(zip(self.nodes, self.inputs, strict=True)):
            op = node.op
            if op is None:
                seed = node.is_input if seeds is None else node in seeds
                reached.append(seed)
                edges.append(())
                if is_literal(node, 0):
                    zeros.add(i)
                continue
            live = _POSITIONS[len(inputs)] if len(inputs) < len(_POSITIONS) else tuple(range(len(inputs)))
            if False in [reached[j] for j in inputs]:
                live = tuple([k for k in live if reached[inputs[k]]])
            reached.append(bool(live))
            if zeros and op.factors and live:
                live = tuple([k for k in live if not _cancelled(op.factors[k], inputs, zeros)])
            elif zeros and is_literal(node, 0):
                zeros.add(i)
            edges.append(live)

    def __len__(self) -> int:
        return len(self.nodes)


def _cancelled(factor: int | None, inputs: tuple[int, ...], zeros: set[int]) -> bool:
    """Whether the input that multiplies a partial is a literal zero."""
    return factor is not None and inputs[factor] in zeros


def rebuild(roots: Sequence[Node], replace: Mapping[Node, Node]) -> list[Node]:
    """The graphs of `roots` with some nodes replaced; what contains no replaced node stays the same object."""
    made: dict[Node, Node] = dict(replace)
    for node in topological(roots):
        if node in made:
            continue
        inputs = tuple(made[child] for child in node.inputs)
        unchanged = all(new is old for new, old in zip(inputs, node.inputs, strict=True))
        made[node] = node if unchanged else Node(node.op, inputs)
    return [made[root] for root in roots]


Packed = tuple[list[tuple[str | None, tuple[int, ...], str, bool]], tuple[int, ...]]


def pack(roots: Sequence[Node]) -> Packed:
    """The graphs of `roots` as flat lists, for pickling without recursion over depth."""
    tape = Tape(roots)
    rows = [
        (node.op.name if node.op is not None else None, inputs, node.text, node.is_constant)
        for node, inputs in zip(tape.nodes, tape.inputs, strict=True)
    ]
    return rows, tape.outputs


def unpack(packed: Packed) -> list[Node]:
    """The roots that `pack` flattened, sharing what they shared."""
    nodes: list[Node] = []
    for name, inputs, text, is_constant in packed[0]:
        op = registered(name) if name is not None else None
        nodes.append(Node(op, tuple(nodes[i] for i in inputs), text, is_constant))
    return [nodes[i] for i in packed[1]]


def _unpack_one(packed: Packed) -> Node:
    """The single root that `pack` flattened."""
    return unpack(packed)[0]


copyreg.pickle(Node, lambda node: (_unpack_one, (pack((node,)),)))

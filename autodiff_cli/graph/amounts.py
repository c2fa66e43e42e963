"""Amounts that count where a mask holds: multiplied, added, and passed through operations on whole arrays.

An amount is a `Partial`, a local derivative on its way along the chain rule. Its mask is never multiplied in: where it
does not hold the amount is *selected away*, so that a branch that was not taken contributes exactly 0, whatever stands
there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from autodiff_cli.graph.node import Node, is_literal
from autodiff_cli.graph.op import Partial, Shape
from autodiff_cli.graph.registry import registered
from autodiff_cli.graph.shapes import Shapes, shapes
from autodiff_cli.graph.tape import Tape

Linear = Callable[[Node], Node]  # a graph with a node put in for the placeholder on which it depends linearly


class Sizes:
    """The shapes of the nodes of a tape, by position, and of graphs over them; all of them `()` if nothing is an array.

    Args:
        leaves: the shapes of input leaves by name; scalars are left out. Raises ShapeError if they do not fit.
    """

    def __init__(self, tape: Tape, leaves: Mapping[str, Shape] | None) -> None:
        self._has_arrays = bool(leaves) or any(node.op is not None and node.op.structural for node in tape.nodes)
        self._of_tape = shapes(tape, leaves or {}) if self._has_arrays else [()] * len(tape)
        self._of_graphs = Shapes(leaves or {})
        self._certain: set[Node] = set()

    def __getitem__(self, i: int) -> Shape:
        return self._of_tape[i]

    def shape_of(self, graph: Node) -> Shape:
        """The shape of a graph over the tape's leaves."""
        return (self._of_graphs.of(graph) or ()) if self._has_arrays else ()

    def passed(
        self, amount: Partial, through: Linear, like: Node, arranges: bool, own: Partial | None = None
    ) -> Partial:
        """An amount for each element of `like` behind a linear operation.

        One that arranges elements, or adds them up, arranges a mask that has elements as it does the amount. Behind one
        that mixes elements a mask only says whether anything arrives at all.

        Args:
            own: a partial with the mask of the elements that the operation itself reaches, at least one.
        """
        if amount.mask is not None and self.shape_of(amount.mask):
            mask = through(self._stretched(amount.mask, like)) if arranges else self._anywhere(amount.mask)
            return Partial(through(amount.selected), mask, settled=arranges)
        reached = None if own is None else own.mask
        if reached is not None:
            self._certain.add(reached)
        is_settled = arranges and all(p is None or p.mask is None or p.settled for p in (amount, own))
        return Partial(through(amount.local), both(amount.mask, reached), is_settled)

    def _stretched(self, mask: Node, like: Node) -> Node:
        """A mask with one element for each of `like`."""
        return mask if self.shape_of(mask) == self.shape_of(like) else registered("broadcast_like")(mask, like)

    def _anywhere(self, mask: Node) -> Node | None:
        """Whether a mask holds for any element, as one number; None if it certainly does."""
        waiting = [mask]
        while waiting:
            part = waiting.pop()
            if part in self._certain or is_literal(part, 1):
                return None
            if part.op is not None and part.op.keeps_all:
                waiting.append(part.inputs[0])
            elif part.op is registered("or"):
                waiting.extend(part.inputs)
        return registered("largest")(mask)


def times(local: Node, amount: Node) -> Node:
    """A product that is not written where one of the two is 1."""
    if is_literal(amount, 1):
        return local
    return amount if is_literal(local, 1) else amount * local


def both(outer: Node | None, inner: Node | None) -> Node | None:
    """The mask that holds where both do."""
    if outer is None or inner is None:
        return inner if outer is None else outer
    return registered("and")(outer, inner)


def add_up(amounts: Sequence[Partial]) -> Partial:
    """The sum of amounts. Those under one mask stay under it; opposite masks join to one `where`.

    They arrive from the output's end; the sum is written in the order of the text.
    """
    total = amounts[-1]
    for amount in amounts[-2::-1]:
        total = _add(total, amount)
    return total


def _add(a: Partial, b: Partial) -> Partial:
    if a.mask is b.mask:
        return Partial(a.local + b.local, a.mask, a.settled and b.settled)
    if a.mask is None or b.mask is None:
        return Partial(a.selected + b.selected)
    (outer, inner), (other_outer, other_inner) = _split(a.mask), _split(b.mask)
    if outer is other_outer and _negates(other_inner, inner):
        return Partial(registered("where")(inner, a.local, b.local), outer)
    if outer is other_outer and _negates(inner, other_inner):
        return Partial(registered("where")(other_inner, b.local, a.local), outer)
    return Partial(a.selected + b.selected, registered("or")(a.mask, b.mask), settled=True)


def _split(mask: Node) -> tuple[Node | None, Node]:
    """The mask outside which another was set, if it is such a one, and that other."""
    if mask.op is registered("and"):
        return mask.inputs[0], mask.inputs[1]
    return None, mask


def _negates(a: Node, b: Node) -> bool:
    """Whether the first mask is written as the opposite of the second."""
    return a.op is registered("not") and a.inputs[0] is b

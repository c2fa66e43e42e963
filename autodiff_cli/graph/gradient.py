"""Reverse mode on nodes: the gradient of a graph, as graphs.

The same sweep as the numeric loop in `autodiff_cli.autodiff.reverse` (adjoint of an input += local × adjoint), but the
amounts are nodes. It needs nothing of an operation except its rule, so a composite's own partials are the gradient of
its expansion.

Contributions travel as `Partial`: an amount, and a mask under which it counts. A mask is not multiplied in: where it
does not hold the amount is *selected away*, so that the branch a choice does not take contributes exactly 0, whatever
stands there.

With arrays, an adjoint always has the shape of its node: where an elementwise operation stretched an input, what it
hands back is summed to the input's shape again. Shapes decide that, so they are known before the sweep.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autodiff_cli.graph.masks import both, holds_in_part, holds_somewhere, negates, split
from autodiff_cli.graph.node import Node, is_literal
from autodiff_cli.graph.op import ONE, ZERO, Op, Partial, Shape, registered
from autodiff_cli.graph.shapes import Shapes, shapes
from autodiff_cli.graph.tape import Tape, rebuild
from autodiff_cli.graph.template import Template

NOTHING = Partial(ZERO)
_START = Partial(ONE)


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one node hands back to one of its inputs: to the input at `position`, local × adjoint = amount.

    `local` is 0 where a choice did not take the input. A structural operation has no local derivative of its own; its
    `local` is None.
    """

    position: int
    local: Node | None
    amount: Partial


@dataclass(frozen=True, slots=True)
class Sweep:
    """A whole reverse sweep on nodes.

    Attributes:
        tape: of the output.
        adjoints: of every node of the tape; None where nothing arrives.
        contributions: for every node, what it hands to its inputs.
    """

    tape: Tape
    adjoints: list[Partial | None]
    contributions: list[list[Contribution]]


def sweep(
    output: Node, wrt: Sequence[Node], leaves: Mapping[str, Shape] | None = None, seed: Partial = _START
) -> Sweep:
    """Carry the adjoint `seed` from the output back to the nodes `wrt`.

    Args:
        leaves: the shapes of input leaves by name; scalars are left out. Raises ShapeError if they do not fit.
        seed: the adjoint of the output, of the output's shape.
    """
    tape = Tape((output,), wrt)
    sizes = _sizes(tape, leaves)
    arriving: list[list[Partial]] = [[] for _ in tape.nodes]
    arriving[tape.outputs[0]].append(seed)
    adjoints: list[Partial | None] = [None] * len(tape)
    contributions: list[list[Contribution]] = [[] for _ in tape.nodes]
    for i in range(len(tape) - 1, -1, -1):
        if not arriving[i]:
            continue
        adjoint = adjoints[i] = add_up(arriving[i])
        if tape.edges[i]:
            contributions[i] = list(_contributions(tape, i, adjoint, sizes))
            for contribution in contributions[i]:
                arriving[tape.inputs[i][contribution.position]].append(contribution.amount)
    return Sweep(tape, adjoints, contributions)


def gradient(
    output: Node, wrt: Sequence[Node], leaves: Mapping[str, Shape] | None = None, seed: Partial = _START
) -> list[Partial]:
    """The derivative of `output` towards each node of `wrt`, as (amount, mask). Arguments as for `sweep`."""
    swept = sweep(output, wrt, leaves, seed)
    found = [swept.adjoints[swept.tape.index[node]] if node in swept.tape.index else None for node in wrt]
    return [NOTHING if adjoint is None else adjoint for adjoint in found]


def gradient_nodes(
    output: Node, wrt: Sequence[Node], leaves: Mapping[str, Shape] | None = None, seed: Partial = _START
) -> list[Node]:
    """The derivative of `output` towards each node of `wrt`, each as one graph that is 0 where its mask fails.

    It has the shape of the node, also where nothing arrives.
    """
    return [
        registered("broadcast_like")(ZERO, node)
        if found is NOTHING and (leaves or {}).get(node.text)
        else selected(found)
        for found, node in zip(gradient(output, wrt, leaves, seed), wrt, strict=True)
    ]


def tangent(output: Node, seeds: Mapping[Node, Node], leaves: Mapping[str, Shape] | None = None) -> Node:
    """Forward mode on nodes: the derivative of `output` along the direction that gives each leaf its seed.

    It has the shape of the output, also where nothing moves.
    """
    tape = Tape((output,), seeds)
    sizes = _sizes(tape, leaves)
    tangents: list[Partial | None] = []
    for i, node in enumerate(tape.nodes):
        if node in seeds:
            tangents.append(Partial(seeds[node]))
            continue
        amounts = list(_tangent_amounts(tape, i, tangents, sizes))
        tangents.append(add_up(amounts[::-1]) if amounts else None)
    found = tangents[tape.outputs[0]]
    if found is None and sizes is not None and sizes[tape.outputs[0]]:
        return registered("broadcast_like")(ZERO, output)
    return ZERO if found is None else selected(found)


class _Sizes:
    """The shapes of the nodes of a tape, by position, and of graphs over them."""

    def __init__(self, tape: Tape, leaves: Mapping[str, Shape]) -> None:
        self._of_tape = shapes(tape, leaves)
        self._of_graphs = Shapes(leaves)

    def __getitem__(self, i: int) -> Shape:
        return self._of_tape[i]

    def varies(self, mask: Node | None) -> bool:
        """Whether a mask has elements, and may hold for some of them only."""
        return mask is not None and self._of_graphs.of(mask) != ()

    def anywhere(self, mask: Node | None) -> Node | None:
        """A mask as one number: whether it holds for any element. That is what is left of it behind an operation that
        mixes elements."""
        if mask is None or not self.varies(mask):
            return mask
        return None if holds_somewhere(mask) else registered("largest")(mask)

    def stretched(self, mask: Node, like: Node) -> Node:
        """A mask with one element for each of `like`."""
        of = self._of_graphs.of
        return mask if of(mask) == of(like) else registered("broadcast_like")(mask, like)

    def stretching(self, local: Node, adjoint: Node, shape: Shape) -> Node:
        """An adjoint of this shape without the stretch that its product with `local` makes anyway."""
        is_stretched = adjoint.op is not None and adjoint.op.name == "broadcast_like"
        return adjoint.inputs[0] if is_stretched and self._of_graphs.of(local) == shape else adjoint


def _sizes(tape: Tape, leaves: Mapping[str, Shape] | None) -> _Sizes | None:
    """The shape of every node; None if all are scalars. Raises ShapeError where shapes do not fit together."""
    if not leaves and not any(node.op is not None and node.op.structural for node in tape.nodes):
        return None
    return _Sizes(tape, leaves or {})


def _contributions(tape: Tape, i: int, adjoint: Partial, sizes: _Sizes | None) -> Iterator[Contribution]:
    node, inputs = tape.nodes[i], tape.inputs[i]
    assert node.op is not None
    if node.op.structural:
        assert sizes is not None
        yield from _passed(tape, i, adjoint, sizes)
        return
    live = tape.edges[i]
    for k, partial in zip(live, partials_at(node, live), strict=True):
        if is_literal(partial.local, 0):
            continue
        is_sign = is_literal(partial.local, 1) or is_literal(partial.local, -1)
        settled = adjoint.settled and partial.mask is None and is_sign
        arriving = adjoint.local if sizes is None else sizes.stretching(partial.local, adjoint.local, sizes[i])
        amount = Partial(_times(partial.local, arriving), both(adjoint.mask, partial.mask), settled)
        if sizes is not None and sizes[inputs[k]] != sizes[i]:
            amount = _summed(amount, node, node.inputs[k], sizes)
        yield Contribution(k, selected(partial), amount)


def _summed(amount: Partial, node: Node, like: Node, sizes: _Sizes) -> Partial:
    """What an elementwise operation hands to an input that it stretched."""
    sum_like = registered("sum_like")
    if amount.mask is None or not sizes.varies(amount.mask):
        return Partial(sum_like(amount.local, like), amount.mask, amount.settled)
    mask = sum_like(sizes.stretched(amount.mask, node), like)
    return Partial(sum_like(selected(amount), like), mask, settled=True)


def _passed(tape: Tape, i: int, adjoint: Partial, sizes: _Sizes) -> Iterator[Contribution]:
    """What a structural operation hands on.

    One that arranges elements, or adds them up, arranges a mask as it does an adjoint. Behind one that mixes them a
    mask says only whether anything arrives.
    """
    node = tape.nodes[i]
    assert node.op is not None
    passage = node.op.passage(tuple(sizes[j] for j in tape.inputs[i]))
    place = {passage.output: node, **zip_nodes(passage.inputs, node.inputs)}
    found = {k: partial for k in tape.edges[i] if (partial := passage.partials[k]) is not None}
    masks: list[Node | None]
    if adjoint.mask is None or not sizes.varies(adjoint.mask):
        own = rebuild([ONE if partial.mask is None else partial.mask for partial in found.values()], place)
        masks = [both(adjoint.mask, None if mask is ONE else mask) for mask in own]
        arriving, settled = adjoint.local, node.op.arranges and (adjoint.mask is None or adjoint.settled)
    else:
        over_masks = place | {passage.adjoint: sizes.stretched(adjoint.mask, node)}
        arranged = rebuild([partial.local for partial in found.values()], over_masks) if node.op.arranges else []
        masks = [*arranged] or [sizes.anywhere(adjoint.mask)] * len(found)
        arriving, settled = selected(adjoint), node.op.arranges
    amounts = rebuild([partial.local for partial in found.values()], place | {passage.adjoint: arriving})
    for (k, partial), amount, mask in zip(found.items(), amounts, masks, strict=True):
        if not is_literal(amount, 0):
            yield Contribution(k, None, Partial(amount, mask, settled and (partial.mask is None or partial.settled)))


def _tangent_amounts(tape: Tape, i: int, tangents: Sequence[Partial | None], sizes: _Sizes | None) -> Iterator[Partial]:
    node, inputs = tape.nodes[i], tape.inputs[i]
    live = {k: moving for k in tape.edges[i] if (moving := tangents[inputs[k]]) is not None}
    if not live:
        return
    assert node.op is not None
    if node.op.structural:
        assert sizes is not None
        yield from _moved(tape, i, live, sizes)
        return
    for (k, moving), partial in zip(live.items(), partials_at(node, tuple(live)), strict=True):
        if is_literal(partial.local, 0):
            continue
        amount = Partial(_times(partial.local, moving.local), both(moving.mask, partial.mask))
        if sizes is not None and sizes[inputs[k]] != sizes[i]:
            amount = Partial(registered("broadcast_like")(amount.local, node), amount.mask)
        yield amount


def _moved(tape: Tape, i: int, live: Mapping[int, Partial], sizes: _Sizes) -> Iterator[Partial]:
    """How a structural operation moves when its inputs do. Masks pass through it as in `_passed`."""
    node = tape.nodes[i]
    assert node.op is not None
    passage = node.op.passage(tuple(sizes[j] for j in tape.inputs[i]))
    place = {passage.output: node, **zip_nodes(passage.inputs, node.inputs)}
    for k, moving in live.items():
        ahead, varies = passage.ahead[k], sizes.varies(moving.mask)
        if ahead is None:
            continue
        graphs = [selected(moving) if varies else moving.local]
        if node.op.arranges and (varies or holds_in_part(ahead)):
            graphs.append(sizes.stretched(ONE if moving.mask is None else moving.mask, node.inputs[k]))
        amount, *arranged = [rebuild([ahead], place | {passage.tangents[k]: graph})[0] for graph in graphs]
        mask = arranged[0] if arranged else sizes.anywhere(moving.mask)
        yield Partial(amount, mask, node.op.arranges and (varies or moving.mask is None or moving.settled))


def zip_nodes(places: Sequence[Node], nodes: Sequence[Node]) -> dict[Node, Node]:
    """What stands for each placeholder."""
    return dict(zip(places, nodes, strict=True))


@functools.cache
def _template(op: Op, count: int, wanted: tuple[int, ...]) -> Template:
    """The local derivatives and the masks (1 where there is none) of a rule, towards some of its inputs."""
    rule = op.partials(count)
    parts = [(p.local, ONE if p.mask is None else p.mask) for p in (rule.partials[k] for k in wanted)]
    return Template((rule.output, *rule.inputs), [part for pair in parts for part in pair])


def partials_at(node: Node, wanted: tuple[int, ...]) -> list[Partial]:
    """The rule of the node's operation towards the inputs at the positions `wanted`, with the node and its inputs put
    in for the placeholders."""
    assert node.op is not None
    built = _template(node.op, len(node.inputs), wanted).build((node, *node.inputs))
    return [Partial(local, None if mask is ONE else mask) for local, mask in zip(built[::2], built[1::2], strict=True)]


def selected(partial: Partial) -> Node:
    """The amount where the mask holds, else 0, as one graph."""
    if partial.mask is None or partial.settled:
        return partial.local
    return registered("where")(partial.mask, partial.local, ZERO)


def add_up(amounts: Sequence[Partial]) -> Partial:
    """The sum of contributions. Those under one mask stay under it; opposite masks join to one `where`.

    They arrive from the output's end; the sum is written in the order of the text.
    """
    total = amounts[-1]
    for amount in amounts[-2::-1]:
        total = _add(total, amount)
    return total


def _add(a: Partial, b: Partial) -> Partial:
    if a.mask is b.mask:
        return Partial(a.local + b.local, a.mask, a.settled and b.settled)
    for one, other in ((a, b), (b, a)):
        if one.mask is not None and other.mask is not None:
            outer, inner = split(one.mask)
            other_outer, other_inner = split(other.mask)
            if outer is other_outer and negates(other_inner, inner):
                return Partial(registered("where")(inner, one.local, other.local), outer)
    mask = None if a.mask is None or b.mask is None else registered("or")(a.mask, b.mask)
    return Partial(selected(a) + selected(b), mask, settled=True)


def _times(local: Node, adjoint: Node) -> Node:
    if is_literal(adjoint, 1):
        return local
    if is_literal(local, 1):
        return adjoint
    return adjoint * local

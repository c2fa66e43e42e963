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

from autodiff_cli.graph.amounts import Linear, Sizes, add_up, both, times
from autodiff_cli.graph.node import Node, is_literal
from autodiff_cli.graph.op import ONE, ZERO, Op, Partial, Passage, Shape
from autodiff_cli.graph.registry import registered
from autodiff_cli.graph.tape import Tape, rebuild
from autodiff_cli.graph.template import Template

NOTHING = Partial(ZERO)
_START = Partial(ONE)


@dataclass(frozen=True, slots=True)
class Sweep:
    """A whole reverse sweep on nodes.

    Attributes:
        tape: of the output.
        adjoints: of every node of the tape; None where nothing arrives.
        contributions: for every node, what it hands to its inputs, by their position; structurally nothing to others.
    """

    tape: Tape
    adjoints: list[Partial | None]
    contributions: list[dict[int, Partial]]


def sweep(
    output: Node, wrt: Sequence[Node], leaves: Mapping[str, Shape] | None = None, seed: Partial = _START
) -> Sweep:
    """Carry the adjoint `seed` from the output back to the nodes `wrt`.

    Args:
        leaves: the shapes of input leaves by name; scalars are left out. Raises ShapeError if they do not fit.
        seed: the adjoint of the output, of the output's shape.
    """
    tape = Tape((output,), wrt)
    sizes = Sizes(tape, leaves)
    arriving: list[list[Partial]] = [[] for _ in tape.nodes]
    arriving[tape.outputs[0]].append(seed)
    adjoints: list[Partial | None] = [None] * len(tape)
    contributions: list[dict[int, Partial]] = [{} for _ in tape.nodes]
    for i in range(len(tape) - 1, -1, -1):
        if not arriving[i]:
            continue
        adjoint = adjoints[i] = add_up(arriving[i])
        if tape.edges[i]:
            contributions[i] = dict(_contributions(tape, i, adjoint, sizes))
            for k, amount in contributions[i].items():
                arriving[tape.inputs[i][k]].append(amount)
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
        else found.selected
        for found, node in zip(gradient(output, wrt, leaves, seed), wrt, strict=True)
    ]


def tangent(output: Node, seeds: Mapping[Node, Node], leaves: Mapping[str, Shape] | None = None) -> Node:
    """Forward mode on nodes: the derivative of `output` along the direction that gives each leaf its seed.

    It has the shape of the output, also where nothing moves.
    """
    tape = Tape((output,), seeds)
    sizes = Sizes(tape, leaves)
    tangents: list[Partial | None] = []
    for i, node in enumerate(tape.nodes):
        if node in seeds:
            tangents.append(Partial(seeds[node]))
            continue
        amounts = list(_tangent_amounts(tape, i, tangents, sizes))
        tangents.append(add_up(amounts[::-1]) if amounts else None)
    found = tangents[tape.outputs[0]]
    if found is None and sizes[tape.outputs[0]]:
        return registered("broadcast_like")(ZERO, output)
    return ZERO if found is None else found.selected


def _contributions(tape: Tape, i: int, adjoint: Partial, sizes: Sizes) -> Iterator[tuple[int, Partial]]:
    node, inputs, live = tape.nodes[i], tape.inputs[i], tape.edges[i]
    assert node.op is not None
    if node.op.structural:
        yield from _handed_on(tape, i, adjoint, sizes)
        return
    for k, partial in zip(live, partials_at(node, live), strict=True):
        if is_literal(partial.local, 0):
            continue
        is_sign = is_literal(partial.local, 1) or is_literal(partial.local, -1)
        settled = adjoint.settled and partial.mask is None and is_sign
        arriving = _unstretched(adjoint.local) if sizes.shape_of(partial.local) == sizes[i] else adjoint.local
        amount = Partial(times(partial.local, arriving), both(adjoint.mask, partial.mask), settled)
        if sizes[inputs[k]] != sizes[i]:
            amount = sizes.passed(amount, _summed_to(node.inputs[k]), node, arranges=True)
        yield k, amount


def _unstretched(adjoint: Node) -> Node:
    """An adjoint without the stretch that its product with what has that shape makes anyway."""
    return adjoint.inputs[0] if adjoint.op is registered("broadcast_like") else adjoint


def _handed_on(tape: Tape, i: int, adjoint: Partial, sizes: Sizes) -> Iterator[tuple[int, Partial]]:
    """What a structural operation hands on."""
    node = tape.nodes[i]
    assert node.op is not None
    passage, place = _passage(tape, i, sizes)
    for k in tape.edges[i]:
        partial = passage.partials[k]
        if partial is None:
            continue
        amount = _passed(adjoint, partial, passage.adjoint, place, node, sizes, node.op.arranges)
        if not is_literal(amount.local, 0):
            yield k, amount


def _tangent_amounts(tape: Tape, i: int, tangents: Sequence[Partial | None], sizes: Sizes) -> Iterator[Partial]:
    """What the tangents of a node's inputs add to its own."""
    node, inputs = tape.nodes[i], tape.inputs[i]
    live = {k: moving for k in tape.edges[i] if (moving := tangents[inputs[k]]) is not None}
    if not live:
        return
    assert node.op is not None
    if node.op.structural:
        passage, place = _passage(tape, i, sizes)
        for k, moving in live.items():
            partial = passage.ahead[k]
            if partial is not None:
                yield _passed(moving, partial, passage.tangents[k], place, node.inputs[k], sizes, node.op.arranges)
        return
    for (k, moving), partial in zip(live.items(), partials_at(node, tuple(live)), strict=True):
        if is_literal(partial.local, 0):
            continue
        amount = Partial(times(partial.local, moving.local), both(moving.mask, partial.mask))
        if sizes[inputs[k]] != sizes[i]:
            amount = Partial(registered("broadcast_like")(amount.local, node), amount.mask)
        yield amount


def _summed_to(like: Node) -> Linear:
    """The sum over the axes along which a node was stretched."""
    return lambda node: registered("sum_like")(node, like)


def _passage(tape: Tape, i: int, sizes: Sizes) -> tuple[Passage, dict[Node, Node]]:
    """How derivatives pass through a structural operation, and what stands for its output and its inputs."""
    node = tape.nodes[i]
    assert node.op is not None
    passage = node.op.passage(tuple(sizes[j] for j in tape.inputs[i]))
    return passage, {passage.output: node, **dict(zip(passage.inputs, node.inputs, strict=True))}


def _passed(
    amount: Partial, partial: Partial, leaf: Node, place: Mapping[Node, Node], like: Node, sizes: Sizes, arranges: bool
) -> Partial:
    """What becomes of an amount, which has the shape of `like`, when it stands for the placeholder `leaf` of what a
    structural operation says."""

    def put(graph: Node, node: Node) -> Node:
        return rebuild([graph], {**place, leaf: node})[0]

    own = None if partial.mask is None else Partial(partial.local, put(partial.mask, like), partial.settled)
    return sizes.passed(amount, lambda node: put(partial.local, node), like, arranges, own)


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

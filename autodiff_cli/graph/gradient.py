"""Derivatives as graphs: reverse mode and forward mode on nodes.

The reverse sweep is the one of the numeric loop in `autodiff_cli.autodiff.sweeps` (adjoint of an input += local
derivative × adjoint), with nodes in place of numbers. It uses only the derivative rule of an operation, so the rule of
a composite is the gradient of its expansion.

A contribution is a `Partial`: an amount, and a mask outside which it is exactly 0. The mask is never multiplied in. A
`where` selects the amount, so a nan in a branch that was not taken cannot leak.

The adjoint of an array has the shape of its node. Where an elementwise operation broadcast an input, the contribution
is summed back to the shape of the input. Shapes are therefore inferred before the sweep.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autodiff_cli.graph.node import Node, get_op, is_literal
from autodiff_cli.graph.op import ONE, ZERO, Op, Partial, Shape, StructuralRule
from autodiff_cli.graph.shapes import ShapeInference, infer_shapes
from autodiff_cli.graph.tape import Tape, Template, substitute

LinearMap = Callable[[Node], Node]  # instantiates a graph that depends linearly on its placeholder


# --- Arithmetic of masked contributions ---


class TapeShapes:
    """The shapes of a tape's nodes, by position, and of graphs over its leaves. Without arrays, all shapes are `()`.

    Args:
        leaves: the shapes of input leaves by name; leaves without an entry are scalars.

    Raises:
        ShapeError: if shapes are incompatible.
    """

    def __init__(self, tape: Tape, leaves: Mapping[str, Shape] | None) -> None:
        self._has_arrays = bool(leaves) or any(node.op is not None and node.op.is_structural for node in tape.nodes)
        self._tape_shapes = infer_shapes(tape, leaves or {}) if self._has_arrays else [()] * len(tape)
        self._graph_shapes = ShapeInference(leaves or {})
        self._nonempty_masks: set[Node] = set()

    def __getitem__(self, i: int) -> Shape:
        return self._tape_shapes[i]

    def shape_of(self, graph: Node) -> Shape:
        """Return the shape of a graph over the tape's leaves."""
        return (self._graph_shapes.infer(graph) or ()) if self._has_arrays else ()

    def apply_linear(
        self, amount: Partial, linear_map: LinearMap, like: Node, propagates_masks: bool, own: Partial | None = None
    ) -> Partial:
        """Return the result of a linear operation on an amount and its mask.

        An operation that rearranges or sums elements is applied to a mask of elements too. After an operation that
        mixes elements, the mask is one number: whether any element contributes.

        Args:
            amount: the argument, with the shape of `like`.
            linear_map: the operation, as a function of nodes.
            like: a node with the shape of the argument.
            propagates_masks: whether the operation only rearranges or sums elements.
            own: a partial with the mask of the elements that the operation reaches (at least one); None if it reaches
                all of them.
        """
        if amount.mask is not None and self.shape_of(amount.mask):
            element_mask = self._broadcast_mask(amount.mask, like)
            mask = linear_map(element_mask) if propagates_masks else self._any_element(amount.mask)
            return Partial(linear_map(amount.masked_graph), mask, is_masked=propagates_masks)
        own_mask = None if own is None else own.mask
        if own_mask is not None:
            self._nonempty_masks.add(own_mask)
        is_masked = propagates_masks and all(p is None or p.mask is None or p.is_masked for p in (amount, own))
        return Partial(linear_map(amount.local), intersect_masks(amount.mask, own_mask), is_masked)

    def _broadcast_mask(self, mask: Node, like: Node) -> Node:
        """Return a mask broadcast to the shape of `like`."""
        return mask if self.shape_of(mask) == self.shape_of(like) else get_op("broadcast_like")(mask, like)

    def _any_element(self, mask: Node) -> Node | None:
        """Return one number that is 1 if the mask is true for any element; None if that is certain."""
        stack = [mask]
        while stack:
            candidate = stack.pop()
            if candidate in self._nonempty_masks or is_literal(candidate, 1):
                return None
            if candidate.op is not None and candidate.op.keeps_all_elements:
                stack.append(candidate.inputs[0])
            elif candidate.op is get_op("or"):
                stack.extend(candidate.inputs)
        return get_op("largest")(mask)


def simplified_product(local: Node, amount: Node) -> Node:
    """Return the product of a local derivative and an amount, without a factor that is literally 1."""
    if is_literal(amount, 1):
        return local
    return amount if is_literal(local, 1) else amount * local


def intersect_masks(outer: Node | None, inner: Node | None) -> Node | None:
    """Return the intersection of two masks; None is the mask that is true everywhere."""
    if outer is None or inner is None:
        return inner if outer is None else outer
    return get_op("and")(outer, inner)


def sum_partials(amounts: Sequence[Partial]) -> Partial:
    """Return the sum of contributions. Equal masks are kept, and opposite masks become one `where`.

    Contributions arrive in reverse topological order. The sum is built in the opposite order, that of the formula's
    text.
    """
    total = amounts[-1]
    for amount in amounts[-2::-1]:
        total = _add_partials(total, amount)
    return total


def _add_partials(a: Partial, b: Partial) -> Partial:
    if a.mask is b.mask:
        return Partial(a.local + b.local, a.mask, a.is_masked and b.is_masked)
    if a.mask is None or b.mask is None:
        return Partial(a.masked_graph + b.masked_graph)
    (outer, inner), (other_outer, other_inner) = _split_mask(a.mask), _split_mask(b.mask)
    if outer is other_outer and _is_negation(other_inner, inner):
        return Partial(get_op("where")(inner, a.local, b.local), outer)
    if outer is other_outer and _is_negation(inner, other_inner):
        return Partial(get_op("where")(other_inner, b.local, a.local), outer)
    return Partial(a.masked_graph + b.masked_graph, get_op("or")(a.mask, b.mask), is_masked=True)


def _split_mask(mask: Node) -> tuple[Node | None, Node]:
    """Return the operands of a mask that is a conjunction; None and the mask itself otherwise."""
    if mask.op is get_op("and"):
        return mask.inputs[0], mask.inputs[1]
    return None, mask


def _is_negation(a: Node, b: Node) -> bool:
    """Return whether the first mask is literally the negation of the second."""
    return a.op is get_op("not") and a.inputs[0] is b


# --- Reverse mode ---

NO_CONTRIBUTION = Partial(ZERO)  # compared by identity: the derivative is structurally 0
_UNIT_ADJOINT = Partial(ONE)


@dataclass(frozen=True, slots=True)
class ReverseSweep:
    """The result of a reverse sweep on nodes.

    Attributes:
        tape: the tape of the output.
        adjoints: the adjoint of each node; None where it is structurally 0.
        contributions: for each node, the contributions to its inputs, by input position; structural zeros are absent.
    """

    tape: Tape
    adjoints: list[Partial | None]
    contributions: list[dict[int, Partial]]


def reverse_sweep(
    output: Node, wrt: Sequence[Node], leaves: Mapping[str, Shape] | None = None, seed: Partial = _UNIT_ADJOINT
) -> ReverseSweep:
    """Propagate the adjoint `seed` from the output back to the nodes `wrt`.

    Args:
        output: the node to differentiate.
        wrt: the nodes to differentiate with respect to.
        leaves: the shapes of input leaves by name; leaves without an entry are scalars.
        seed: the adjoint of the output, with the shape of the output.

    Raises:
        ShapeError: if shapes are incompatible.
    """
    tape = Tape((output,), wrt)
    shapes = TapeShapes(tape, leaves)
    incoming: list[list[Partial]] = [[] for _ in tape.nodes]
    incoming[tape.outputs[0]].append(seed)
    adjoints: list[Partial | None] = [None] * len(tape)
    contributions: list[dict[int, Partial]] = [{} for _ in tape.nodes]
    for i in range(len(tape) - 1, -1, -1):
        if not incoming[i]:
            continue
        adjoint = adjoints[i] = sum_partials(incoming[i])
        if tape.active_inputs[i]:
            contributions[i] = dict(_contributions(tape, i, adjoint, shapes))
            for k, contribution in contributions[i].items():
                incoming[tape.inputs[i][k]].append(contribution)
    return ReverseSweep(tape, adjoints, contributions)


def gradient(
    output: Node, wrt: Sequence[Node], leaves: Mapping[str, Shape] | None = None, seed: Partial = _UNIT_ADJOINT
) -> list[Partial]:
    """Return the derivatives of `output` with respect to the nodes `wrt`, with masks.

    `reverse_sweep` describes the arguments and errors.
    """
    sweep = reverse_sweep(output, wrt, leaves, seed)
    adjoints = [sweep.adjoints[sweep.tape.index[node]] if node in sweep.tape.index else None for node in wrt]
    return [NO_CONTRIBUTION if adjoint is None else adjoint for adjoint in adjoints]


def gradient_nodes(
    output: Node, wrt: Sequence[Node], leaves: Mapping[str, Shape] | None = None, seed: Partial = _UNIT_ADJOINT
) -> list[Node]:
    """Return the derivatives of `output` with respect to the nodes `wrt`, one graph each with the shape of the node.

    `reverse_sweep` describes the arguments and errors.
    """
    return [
        get_op("broadcast_like")(ZERO, node)
        if derivative is NO_CONTRIBUTION and (leaves or {}).get(node.text)
        else derivative.masked_graph
        for derivative, node in zip(gradient(output, wrt, leaves, seed), wrt, strict=True)
    ]


def tangent(output: Node, seeds: Mapping[Node, Node], leaves: Mapping[str, Shape] | None = None) -> Node:
    """Return the directional derivative of `output` by forward mode, as one graph with the shape of the output.

    Args:
        output: the node to differentiate.
        seeds: the tangent of each leaf along the direction; leaves without an entry are held constant.
        leaves: the shapes of input leaves by name; leaves without an entry are scalars.

    Raises:
        ShapeError: if shapes are incompatible.
    """
    tape = Tape((output,), seeds)
    shapes = TapeShapes(tape, leaves)
    tangents: list[Partial | None] = []
    for i, node in enumerate(tape.nodes):
        if node in seeds:
            tangents.append(Partial(seeds[node]))
            continue
        amounts = list(_tangent_contributions(tape, i, tangents, shapes))
        tangents.append(sum_partials(amounts[::-1]) if amounts else None)
    result = tangents[tape.outputs[0]]
    if result is None and shapes[tape.outputs[0]]:
        return get_op("broadcast_like")(ZERO, output)
    return ZERO if result is None else result.masked_graph


def _contributions(tape: Tape, i: int, adjoint: Partial, shapes: TapeShapes) -> Iterator[tuple[int, Partial]]:
    node, inputs, active = tape.nodes[i], tape.inputs[i], tape.active_inputs[i]
    assert node.op is not None
    if node.op.is_structural:
        yield from _structural_contributions(tape, i, adjoint, shapes)
        return
    for k, partial in zip(active, partials_at(node, active), strict=True):
        if is_literal(partial.local, 0):
            continue
        is_sign = is_literal(partial.local, 1) or is_literal(partial.local, -1)
        is_masked = adjoint.is_masked and partial.mask is None and is_sign
        broadcasts = shapes.shape_of(partial.local) == shapes[i]
        local = simplified_product(partial.local, _without_broadcast(adjoint.local) if broadcasts else adjoint.local)
        amount = Partial(local, intersect_masks(adjoint.mask, partial.mask), is_masked)
        if shapes[inputs[k]] != shapes[i]:
            amount = shapes.apply_linear(amount, _sum_to_shape(node.inputs[k]), node, propagates_masks=True)
        yield k, amount


def _without_broadcast(adjoint: Node) -> Node:
    """Return an adjoint before it was broadcast: its product with an array of that shape broadcasts it anyway."""
    return adjoint.inputs[0] if adjoint.op is get_op("broadcast_like") else adjoint


def _structural_contributions(
    tape: Tape, i: int, adjoint: Partial, shapes: TapeShapes
) -> Iterator[tuple[int, Partial]]:
    """Yield the contributions of a structural operation to its inputs, with the input positions."""
    node = tape.nodes[i]
    assert node.op is not None
    rule, substitution = _structural_rule(tape, i, shapes)
    for k in tape.active_inputs[i]:
        partial = rule.vjps[k]
        if partial is None:
            continue
        amount = _structural_contribution(
            adjoint, partial, rule.adjoint, substitution, node, shapes, node.op.propagates_masks
        )
        if not is_literal(amount.local, 0):
            yield k, amount


def _tangent_contributions(
    tape: Tape, i: int, tangents: Sequence[Partial | None], shapes: TapeShapes
) -> Iterator[Partial]:
    """Yield the contributions of the inputs' tangents to the tangent of a node."""
    node, inputs = tape.nodes[i], tape.inputs[i]
    active = {k: input_tangent for k in tape.active_inputs[i] if (input_tangent := tangents[inputs[k]]) is not None}
    if not active:
        return
    assert node.op is not None
    if node.op.is_structural:
        rule, substitution = _structural_rule(tape, i, shapes)
        for k, input_tangent in active.items():
            partial = rule.jvps[k]
            if partial is not None:
                yield _structural_contribution(
                    input_tangent,
                    partial,
                    rule.tangents[k],
                    substitution,
                    node.inputs[k],
                    shapes,
                    node.op.propagates_masks,
                )
        return
    for (k, input_tangent), partial in zip(active.items(), partials_at(node, tuple(active)), strict=True):
        if is_literal(partial.local, 0):
            continue
        local = simplified_product(partial.local, input_tangent.local)
        amount = Partial(local, intersect_masks(input_tangent.mask, partial.mask))
        if shapes[inputs[k]] != shapes[i]:
            amount = Partial(get_op("broadcast_like")(amount.local, node), amount.mask)
        yield amount


def _sum_to_shape(like: Node) -> LinearMap:
    """Return the map that sums an array over the axes along which `like` was broadcast to it."""
    return lambda node: get_op("sum_like")(node, like)


def _structural_rule(tape: Tape, i: int, shapes: TapeShapes) -> tuple[StructuralRule, dict[Node, Node]]:
    """Return the rule of a structural operation, and the nodes for the placeholders of its output and its inputs."""
    node = tape.nodes[i]
    assert node.op is not None
    rule = node.op.structural_rule(tuple(shapes[j] for j in tape.inputs[i]))
    return rule, {rule.output: node, **dict(zip(rule.inputs, node.inputs, strict=True))}


def _structural_contribution(
    amount: Partial,
    partial: Partial,
    placeholder: Node,
    substitution: Mapping[Node, Node],
    like: Node,
    shapes: TapeShapes,
    propagates_masks: bool,
) -> Partial:
    """Return the contribution of a structural operation, with `amount` (of the shape of `like`) as its argument.

    Args:
        amount: the adjoint or tangent that the operation propagates.
        partial: the contribution over placeholders.
        placeholder: the leaf of `partial` that stands for `amount`.
        substitution: the nodes for the other placeholders.
        like: a node with the shape of `amount`.
        shapes: the shapes of the tape.
        propagates_masks: whether the operation only rearranges or sums elements.
    """

    def instantiate(graph: Node, node: Node) -> Node:
        return substitute([graph], {**substitution, placeholder: node})[0]

    own = None if partial.mask is None else Partial(partial.local, instantiate(partial.mask, like), partial.is_masked)
    return shapes.apply_linear(amount, lambda node: instantiate(partial.local, node), like, propagates_masks, own)


@functools.cache
def _rule_template(op: Op, count: int, wanted: tuple[int, ...]) -> Template:
    """Return a template of the partial derivatives with respect to some inputs: local, mask, local, mask, and so on.

    A mask of None is the constant 1.
    """
    rule = op.derivative_rule(count)
    pairs = [(p.local, ONE if p.mask is None else p.mask) for p in (rule.partials[k] for k in wanted)]
    return Template((rule.output, *rule.inputs), [graph for pair in pairs for graph in pair])


def partials_at(node: Node, wanted: tuple[int, ...]) -> list[Partial]:
    """Return the partial derivatives of a node with respect to its inputs at the positions `wanted`."""
    assert node.op is not None
    built = _rule_template(node.op, len(node.inputs), wanted).build((node, *node.inputs))
    return [Partial(local, None if mask is ONE else mask) for local, mask in zip(built[::2], built[1::2], strict=True)]

"""Derivatives as graphs: reverse mode and forward mode on nodes.

The reverse sweep is the algorithm of the numeric loop in `autodiff_cli.autodiff.sweeps` (adjoint of an input += local
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
from types import MappingProxyType

from autodiff_cli.graph.node import ONE, ZERO, Node, Op, Partial, Shape, StructuralRule, get_op, is_literal, variable
from autodiff_cli.graph.tape import ShapeInference, Tape, Template, has_array_operations, infer_shapes, substitute

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
        self._has_arrays = bool(leaves) or has_array_operations(tape.nodes)
        self._tape_shapes = infer_shapes(tape, leaves or {}) if self._has_arrays else [()] * len(tape)
        self._graph_shapes = ShapeInference(leaves or {})
        self._nonempty_masks: set[Node] = set()

    def __getitem__(self, i: int) -> Shape:
        return self._tape_shapes[i]

    def shape_of(self, graph: Node) -> Shape:
        """Return the shape of a graph over the tape's leaves."""
        return (self._graph_shapes.infer(graph) or ()) if self._has_arrays else ()

    def apply_linear(
        self, amount: Partial, linear_map: LinearMap, like: Node, propagates_masks: bool, reach: Partial | None = None
    ) -> Partial:
        """Return the result of a linear operation on an amount and its mask.

        An operation that rearranges or sums elements is applied to a mask of elements too. After an operation that
        mixes elements, the mask is one number: whether any element contributes.

        Args:
            amount: the argument, with the shape of `like`.
            linear_map: the operation, as a function of nodes.
            like: a node with the shape of the argument.
            propagates_masks: whether the operation only rearranges or sums elements.
            reach: a partial with the mask of the elements that the operation reaches (at least one); None if it reaches
                all of them.
        """
        if amount.mask is not None and self.shape_of(amount.mask):
            is_whole = self.shape_of(amount.mask) == self.shape_of(like)
            element_mask = amount.mask if is_whole else get_op("broadcast_like")(amount.mask, like)
            mask = linear_map(element_mask) if propagates_masks else self._any_element(amount.mask)
            return Partial(linear_map(amount.masked_graph), mask, is_masked=propagates_masks)
        reach_mask = None if reach is None else reach.mask
        if reach_mask is not None:
            self._nonempty_masks.add(reach_mask)
        is_masked = propagates_masks and all(p is None or p.mask is None or p.is_masked for p in (amount, reach))
        return Partial(linear_map(amount.local), intersect_masks(amount.mask, reach_mask), is_masked)

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

    Contributions arrive in reverse topological order and are added in this order, as the loops over numbers do, so that
    both have the same rounding errors. Each stands left of the earlier ones, in the order of the formula's text.
    """
    total = amounts[0]
    for amount in amounts[1:]:
        total = _add_partials(amount, total)
    return total


def _add_partials(a: Partial, b: Partial) -> Partial:
    if a.mask is b.mask:
        return Partial(a.local + b.local, a.mask, a.is_masked and b.is_masked)
    if a.mask is None or b.mask is None:
        return Partial(a.masked_graph + b.masked_graph)
    (outer, inner), (other_outer, other_inner) = _split_mask(a.mask), _split_mask(b.mask)
    for mask, this, opposite, other in ((inner, a, other_inner, b), (other_inner, b, inner, a)):
        if outer is other_outer and opposite.op is get_op("not") and opposite.inputs[0] is mask:
            return Partial(get_op("where")(mask, this.local, other.local), outer)
    return Partial(a.masked_graph + b.masked_graph, get_op("or")(a.mask, b.mask), is_masked=True)


def _split_mask(mask: Node) -> tuple[Node | None, Node]:
    """Return the operands of a mask that is a conjunction; None and the mask itself otherwise."""
    return (mask.inputs[0], mask.inputs[1]) if mask.op is get_op("and") else (None, mask)


# --- Reverse mode ---

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
            contributions[i] = dict(_contributions(tape, i, dict.fromkeys(tape.active_inputs[i], adjoint), shapes))
            # Contributions of one operation to the same node are summed first: they often cancel exactly, as in x/x and
            # x%x.
            by_receiver: dict[int, list[Partial]] = {}
            for k, contribution in contributions[i].items():
                by_receiver.setdefault(tape.inputs[i][k], []).append(contribution)
            for j, amounts in by_receiver.items():
                incoming[j].append(sum_partials(amounts))
    return ReverseSweep(tape, adjoints, contributions)


def gradient(
    output: Node, wrt: Sequence[Node], leaves: Mapping[str, Shape] | None = None, seed: Partial = _UNIT_ADJOINT
) -> list[Partial | None]:
    """Return the derivatives of `output` with respect to the nodes `wrt`, with masks; None for structural zeros.

    `reverse_sweep` describes the arguments and errors.
    """
    sweep = reverse_sweep(output, wrt, leaves, seed)
    return [sweep.adjoints[sweep.tape.index[node]] if node in sweep.tape.index else None for node in wrt]


def derivative_key(name: str) -> str:
    """Return the key of a derivative among the numbers at a point: the variable, in backticks if another has its name.

    >>> derivative_key("x"), derivative_key("value")
    ('x', '`value`')
    """
    return f"`{name}`" if name in ("value", "stderr", "derivative", "directional") else name


def gradient_nodes(
    output: Node, wrt: Sequence[Node], leaves: Mapping[str, Shape] | None = None, seed: Partial = _UNIT_ADJOINT
) -> list[Node]:
    """Return the derivatives of `output` with respect to the nodes `wrt`, one graph each with the shape of the node.

    `reverse_sweep` describes the arguments and errors.
    """
    return [
        _zeros_like(node, (leaves or {}).get(node.text, ())) if derivative is None else derivative.masked_graph
        for derivative, node in zip(gradient(output, wrt, leaves, seed), wrt, strict=True)
    ]


def _zeros_like(node: Node, shape: Shape) -> Node:
    """Return 0 in the shape of a node."""
    return get_op("broadcast_like")(ZERO, node) if shape else ZERO


def tangents(
    outputs: Sequence[Node],
    seeds: Mapping[Node, Node],
    leaves: Mapping[str, Shape] | None = None,
    masks: Mapping[Node, Node] = MappingProxyType({}),
) -> list[Node]:
    """Return the directional derivatives of `outputs` by forward mode, as graphs with the shapes of the outputs.

    Args:
        outputs: the nodes to differentiate.
        seeds: the tangent of each leaf along the direction; leaves without an entry are held constant.
        leaves: the shapes of input leaves by name; leaves without an entry are scalars.
        masks: for some leaves, where their tangents are not 0.

    Raises:
        ShapeError: if shapes are incompatible.
    """
    tape = Tape(outputs, seeds)
    shapes = TapeShapes(tape, leaves)
    partials: list[Partial | None] = []
    for i, node in enumerate(tape.nodes):
        if node in seeds:
            partials.append(Partial(seeds[node], masks.get(node), is_masked=node in masks))
            continue
        inputs = tape.inputs[i]
        rates = {k: rate for k in tape.active_inputs[i] if (rate := partials[inputs[k]]) is not None}
        amounts = [amount for _, amount in _contributions(tape, i, rates, shapes, is_forward=True)] if rates else []
        partials.append(functools.reduce(_add_partials, amounts) if amounts else None)
    return [
        _zeros_like(output, shapes[at]) if (result := partials[at]) is None else result.masked_graph
        for output, at in zip(outputs, tape.outputs, strict=True)
    ]


# --- Contributions of one operation ---


def _contributions(
    tape: Tape, i: int, arguments: Mapping[int, Partial], shapes: TapeShapes, is_forward: bool = False
) -> Iterator[tuple[int, Partial]]:
    """Yield the contributions along the edges of a node, with the input positions.

    Args:
        tape: the tape.
        i: the position of the node.
        arguments: the number that each edge propagates, by input position: in reverse mode the adjoint of the node,
            which contributes to the adjoint of the input; in forward mode the tangent of the input.
        shapes: the shapes of the tape.
        is_forward: whether the mode is forward.
    """
    node, inputs = tape.nodes[i], tape.inputs[i]
    if node.operation.is_structural:
        yield from _structural_contributions(tape, i, arguments, shapes, is_forward)
        return
    for (k, argument), partial in zip(arguments.items(), partials_at(node, tuple(arguments)), strict=True):
        if is_literal(partial.local, 0):
            continue
        is_sign = is_literal(partial.local, 1) or is_literal(partial.local, -1)
        is_masked = argument.is_masked and partial.mask is None and is_sign
        broadcasts = shapes.shape_of(partial.local) == shapes[i]
        # The product of an argument with an array broadcasts it anyway.
        is_repeated = broadcasts and argument.local.op is get_op("broadcast_like")
        factor = argument.local.inputs[0] if is_repeated else argument.local
        mask = intersect_masks(argument.mask, partial.mask)
        amount = Partial(simplified_product(partial.local, factor), mask, is_masked)
        if shapes[inputs[k]] != shapes[i]:
            if is_forward:
                amount = Partial(get_op("broadcast_like")(amount.local, node), mask)
            else:
                sum_to_input = functools.partial(_sum_like, node.inputs[k])
                amount = shapes.apply_linear(amount, sum_to_input, node, propagates_masks=True)
        yield k, amount


def _sum_like(like: Node, array: Node) -> Node:
    """Return an array summed over the axes along which `like` was broadcast to it."""
    return get_op("sum_like")(array, like)


def _structural_contributions(
    tape: Tape, i: int, arguments: Mapping[int, Partial], shapes: TapeShapes, is_forward: bool
) -> Iterator[tuple[int, Partial]]:
    """Yield the contributions along the edges of a structural operation: see `_contributions`."""
    node, input_shapes = tape.nodes[i], tuple(shapes[j] for j in tape.inputs[i])
    rule = node.operation.structural_rule(input_shapes)
    known = rule.bind(node, node.inputs)
    sizes = rule.bind(shapes[i], input_shapes) | {rule.adjoint: shapes[i]}
    for k, argument in arguments.items():
        partial = rule.vjps[k]
        if partial is None:
            continue
        if is_forward:
            mask_shape = () if argument.mask is None else shapes.shape_of(argument.mask)
            places = {**sizes, _TANGENT: input_shapes[k], _MASK: mask_shape}
            amount = _transposed(rule, partial, argument, known, places)
        else:
            reach = None
            if partial.mask is not None:
                reach = Partial(partial.local, _instantiate(partial.mask, known, rule.adjoint, node), partial.is_masked)
            linear_map = functools.partial(_instantiate, partial.local, known, rule.adjoint)
            amount = shapes.apply_linear(argument, linear_map, node, node.operation.propagates_masks, reach)
        if not is_literal(amount.local, 0):
            yield k, amount


_TANGENT, _MASK = variable("d"), variable("m")  # placeholders for a tangent and its mask


def _transposed(
    rule: StructuralRule, vjp: Partial, tangent: Partial, known: Mapping[Node, Node], places: Mapping[Node, Shape]
) -> Partial:
    """Return the contribution of the tangent of an input of a structural operation to the tangent of its output.

    The map from tangents to tangents is the transpose of the map from adjoints to adjoints, so it is the reverse sweep
    over the graph of the latter.

    Args:
        rule: the rule of the operation.
        vjp: the contribution of the output's adjoint to the adjoint of the input, in placeholders.
        tangent: the tangent of the input.
        known: the nodes for the placeholders of the output and the inputs.
        places: the shapes of all placeholders.
    """
    own_mask = None if vjp.is_masked else vjp.mask
    mask = intersect_masks(None if tangent.mask is None else _MASK, own_mask)
    literals = {place: node for place, node in known.items() if node.is_constant}  # an index determines a shape
    sizes = {place.text: shape for place, shape in places.items()}
    seed = Partial(_TANGENT, mask, tangent.is_masked and own_mask is None)
    transposed = gradient(substitute([vjp.local], literals)[0], [rule.adjoint], sizes, seed)[0]
    assert transposed is not None
    nodes = {**known, rule.adjoint: known[rule.output], _TANGENT: tangent.local}  # an adjoint has the output's shape
    if tangent.mask is not None:
        nodes[_MASK] = tangent.mask
    local, *masks = substitute([graph for graph in (transposed.local, transposed.mask) if graph is not None], nodes)
    return Partial(local, masks[0] if masks else None, transposed.is_masked)


def _instantiate(graph: Node, known: Mapping[Node, Node], placeholder: Node, argument: Node) -> Node:
    """Return a graph of a rule over the nodes for its placeholders."""
    return substitute([graph], {**known, placeholder: argument})[0]


@functools.cache
def _rule_template(op: Op, count: int, positions: tuple[int, ...]) -> Template:
    """Return a template of the partial derivatives with respect to some inputs: local, mask, local, mask, and so on.

    A mask of None is the constant 1.
    """
    rule = op.derivative_rule(count)
    pairs = [(p.local, ONE if p.mask is None else p.mask) for p in (rule.partials[k] for k in positions)]
    return Template(rule.places, [graph for pair in pairs for graph in pair])


def partials_at(node: Node, positions: tuple[int, ...]) -> list[Partial]:
    """Return the partial derivatives of a node with respect to its inputs at some positions."""
    built = _rule_template(node.operation, len(node.inputs), positions).build((node, *node.inputs))
    return [Partial(local, None if mask is ONE else mask) for local, mask in zip(built[::2], built[1::2], strict=True)]

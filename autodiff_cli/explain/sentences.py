"""What the sentences about both passes say, as phrases: which one fits an operation, and its formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

from autodiff_cli.explain.formulas import applied, around, is_loose, is_loose_number
from autodiff_cli.explain.jacobians import cross_entropy, cross_entropy_of_logits, has_jacobian
from autodiff_cli.explain.labels import is_constant_name
from autodiff_cli.explain.passages import passage
from autodiff_cli.explain.phrases import Cases, Phrase, Sides, Slot, phrase_of
from autodiff_cli.explain.record import Trace, is_anywhere, shape_of
from autodiff_cli.graph.node import as_node
from autodiff_cli.graph.op import Gate, Op, Precedence
from autodiff_cli.graph.registry import registered
from autodiff_cli.language.printer import to_pieces

NEAR = 0.01  # how near its ends the slope of an activation is not given as books have it
LONGEST_FORMULA = 40  # a longer local derivative is given as a number only


def ends(op: Op) -> tuple[float, ...]:
    """The numbers near which the output of an activation is flat."""
    return tuple(end for end in op.ends or () if math.isfinite(end))


def name(trace: Trace, i: int) -> str:
    """A node's label; for a named intermediate, and the value of a call, also what it stands for: `a = x + y`."""
    label, names, nodes = trace.labels[i], trace.expression.names, trace.tape.nodes
    op, inputs = nodes[i].op, trace.tape.inputs[i]
    if op is None:
        return label
    if nodes[i] not in names:
        return f"{label} = {trace.naming.written_out(nodes[i])}" if trace.naming.is_call(nodes[i]) else label
    if all(nodes[j].is_constant and nodes[j] not in names and not is_constant_name(nodes[j]) for j in inputs):
        return label  # what it stands for is said by its numbers
    loose = [is_loose(op, k, nodes[j]) and nodes[j] not in names for k, j in enumerate(inputs)]
    return f"{label} = {applied(op, [trace.labels[j] for j in inputs], loose)}"


def forward_phrase(trace: Trace, i: int) -> Phrase:
    """What carrying out an operation does, with slots for its numbers."""
    op = trace.tape.nodes[i].op
    assert op is not None
    return _computed(op, len(trace.tape.inputs[i]), isinstance(trace.values[i], float))


@cache
def _computed(op: Op, count: int, is_scalar: bool) -> Phrase:
    if op.structural and not op.symbol:
        return (Sides(((Slot("name"),), (Slot("output"),))),)
    numbers = _on_numbers(op, [Slot("value", k) for k in range(count)])
    if _is_truth(op) and is_scalar:
        verdict = Cases("truth", (("false",), ("true",)))
        return (Slot("name"), ": ", *numbers, " is ", verdict, ", so ", Slot("output"))
    if _is_truth(op):
        return (Slot("name"), ": ", *numbers, " gives ", Slot("output"))
    return (Sides(((Slot("name"),), numbers, (Slot("output"),))),)


def backward_phrase(trace: Trace, i: int) -> Phrase:
    """What an operation that takes gradient does with its adjoint, with slots for its numbers."""
    op, inputs = trace.tape.nodes[i].op, trace.tape.inputs[i]
    assert op is not None
    reached = tuple(k for k, j in enumerate(inputs) if trace.tape.reached[j])
    are_scalars = all(isinstance(trace.values[j], float) for j in (i, *inputs))
    nothing = "nothing reaches it from the output, so it hands on nothing"
    if op.structural:
        handing_on = _structural(op, len(inputs), not shape_of(trace.values[i]), has_jacobian(trace, i))
    else:
        handing_on = _handing_on(op, len(inputs), reached, are_scalars)
        if any(_is_stretched(trace, i, k) for k in reached):
            handing_on = (*handing_on, "; what was stretched gets the sum over its copies")
    return (Cases("arrived", ((nothing,), handing_on)),)


@cache
def _handing_on(op: Op, count: int, reached: Sequence[int], are_scalars: bool) -> Phrase:
    match op.gate:
        case Gate.DISTRIBUTE if op.symbol == "-":
            return (
                "a difference distributes: the first term gets the adjoint, the second gets it with its sign turned",
            )
        case Gate.DISTRIBUTE:
            return ("a sum distributes: each term gets the adjoint, unchanged",)
        case Gate.SWAP:
            return ("a product swaps: each factor gets the adjoint times the value of the other factor",)
        case Gate.ROUTE:
            return _passing(op, are_scalars) if count == 1 else _routing(op, are_scalars)
        case Gate.BLOCK:
            return (f"{_title(op)} is flat wherever it does not jump, so it hands on nothing",)
        case Gate.SCALE:
            scales: Phrase = (f"{_title(op)} scales by its slope", *_slopes(op, count, reached, are_scalars))
            if op.kink is None or not are_scalars:
                return scales
            return (Cases("kink", (scales, (f"{_title(op)} has a kink here: {op.kink_note}",))),)


def _passing(op: Op, is_scalar: bool) -> Phrase:
    """What an operation says that lets its adjoint pass, or not."""
    title = _title(op)
    if not is_scalar:
        passes: Phrase = (f"{title} lets its adjoint pass where it is not flat",)
        flat: Phrase = (f"{title} blocks its adjoint at every element: the slope there is 0",)
    else:
        passes = (f"{title} lets its adjoint pass",)
        inactive = ": the unit is inactive at this input" if op.dies else ""
        off: Phrase = (f"{title} is flat at ", Slot("value"), f" and blocks its adjoint{inactive}")
        at_kink = (f"{title} has a kink at ", Slot("value"), f": {op.kink_note}, so its adjoint is blocked")
        flat = (Cases("kink", (off, at_kink)),)
    return (Cases("chosen", (flat, passes, passes)),)


def _routing(op: Op, is_scalar: bool) -> Phrase:
    """What an operation says that hands its adjoint to one of several inputs."""
    title = _title(op)
    nothing: Phrase = (f"{title} chose something that does not depend on a variable, so its adjoint ends here",)
    if is_scalar and op.kink is not None:
        nothing = (Cases("kink", (nothing, (f"{title} has a kink here: {op.kink_note}",))),)
    elements = (f"{title} routes its adjoint, element by element, to what it chose",)
    routes = (f"{title} routes its adjoint to what it chose, ", Slot("chosen"), "; nothing goes elsewhere")
    shares = (f"{title} is tied and shares its adjoint equally: ", Slot("share"), " of it for ", Slot("chosen"))
    return (Cases("chosen", (nothing, routes if is_scalar else elements, shares)),)


def _slopes(op: Op, count: int, reached: Sequence[int], are_scalars: bool) -> Phrase:
    """The local derivatives with their numbers: `, cos(2) = -0.416147`."""
    if count == 1 and reached:
        return (", ", *slope_phrase(op, 1, 0, are_scalars))
    parts: list[Any] = []
    for position in reached:
        parts += [", " if parts else ": ", *slope_phrase(op, count, position, are_scalars)]
        parts += [" towards ", Slot("label", position)]
    return tuple(parts)


@cache
def slope_phrase(op: Op, count: int, position: int, are_scalars: bool) -> Phrase:
    """The local derivative of an elementwise operation towards one input, as a formula with its number."""
    number = (Slot("local", position),)
    if not are_scalars:
        return number
    formula = slope_formula(op, count, position)
    slope = (Cases("as read", (number, (Sides((formula, number), LONGEST_FORMULA),)), position),)
    if op.textbook is None:
        return slope
    rule = op.partials(count)
    slots = {rule.output: Slot("output"), rule.inputs[0]: Slot("value")}
    textbook = phrase_of(to_pieces(as_node(op.textbook(*slots)), slots), slots)
    return (Cases("saturated", ((Sides((textbook, formula, number), LONGEST_FORMULA),), slope)),)


@cache
def slope_formula(op: Op, count: int, position: int) -> Phrase:
    """The local derivative as the rule has it, with slots for the values."""
    rule, values = op.partials(count), [Slot("value", k) for k in range(count)]
    local = rule.partials[position].local
    if local is rule.output:  # as for exp, which is its own slope
        return _on_numbers(op, values)
    slots = dict(zip((rule.output, *rule.inputs), [Slot("output"), *values], strict=True))
    return phrase_of(to_pieces(local, slots), slots)


def _on_numbers(op: Op, slots: Sequence[Slot]) -> Phrase:
    """An operation on numbers, as `applied_to_numbers` writes it."""
    count = len(slots)
    before, *after = around(op, count)
    parts: list[str | Slot] = [before]
    for k, (slot, then) in enumerate(zip(slots, after, strict=True)):
        parts += (slot._replace(is_loose=is_loose_number(op, k, count)), then)
    return tuple(part for part in parts if part)


def contribution_phrase(trace: Trace, i: int, position: int) -> Phrase:
    """What a node hands one of its inputs, with slots for the numbers."""
    total = Slot("total", position)
    uses = (
        (),
        (", use ", Slot("use", position), " of ", Slot("uses", position), ": total so far ", total),
        (", the last of ", Slot("uses", position), " uses: accumulates to ", total),
    )
    factors, amount = _factors(trace, i, position), Slot("amount", position)
    return (
        *(Slot("label", position), ": "),
        Cases("absent", ((*factors, " = ", amount), ("structurally nothing",)), position),
        Cases("use", uses, position),
        *_collapsed(trace, i, position),
    )


def _collapsed(trace: Trace, i: int, position: int) -> Phrase:
    """What softmax hands on where a cross-entropy stands above it; nothing elsewhere."""
    above = cross_entropy_of_logits(trace, i)
    if above is not None:
        weights, total_of_both = above
        p = f"softmax({trace.labels[trace.tape.inputs[i][0]]})"
        difference = f"({p} - {_factor(trace, weights)}) × "
        whole: Phrase = (difference, Slot("adjoint at", total_of_both, is_loose=True))
        return (
            Cases("finite", ((), ("; above it stands a cross-entropy, so all that arrives is ", *whole)), position),
        )
    found = cross_entropy(trace, i)
    if found is None:
        return ()
    is_softmax = trace.tape.nodes[i].op is registered("softmax")
    p = _factor(trace, i) if is_softmax else f"softmax({trace.labels[trace.tape.inputs[i][0]]})"
    adjoint = Slot("adjoint at", found.total, is_loose=True)
    if found.weights is None:
        assert found.taken is not None
        taken = ", ".join(trace.labels[j] for j in trace.tape.inputs[found.taken][1:])
        one = f"1 at [{taken}], 0 elsewhere"
        collapsed: Phrase = (f"({one}, less {p}) × ", adjoint)
        simple: Phrase = (f"{p}, less 1 at [{taken}]",)
        said = Cases("minus one", (collapsed, simple), found.total)
    else:
        w = _factor(trace, found.weights)
        numbers: Phrase = (" = ", Slot("output"), " - ", Slot("value at", found.weights)) if is_softmax else ()
        said = Cases("whole", (
            (f"({w} - {p}*sum({trace.labels[found.weights]})) × ", adjoint),
            (Cases("minus one", ((f"({w} - {p}) × ", adjoint), (f"{p} - {w}", *numbers)), found.total),),
        ), found.weights)  # fmt: skip
    return (Cases("finite", ((), ("; above it stands a cross-entropy, so this is ", said)), position),)


def _factor(trace: Trace, i: int) -> str:
    """A label that may stand beside an operator."""
    node, label = trace.tape.nodes[i], trace.labels[i]
    is_tight = node.op is None or not node.op.symbol or node in trace.expression.names or trace.naming.is_call(node)
    return label if is_tight else f"({label})"


def _factors(trace: Trace, i: int, position: int) -> Phrase:
    """Local derivative × adjoint, in numbers; for an operation on whole arrays its rule as a formula."""
    op = trace.tape.nodes[i].op
    assert op is not None
    factors = _product(position)
    if op.structural:
        passed = passage(trace, i, position)
        if passed is None:
            return factors
        has_formula = op.kink is None or op.gate is not Gate.SCALE
        return (passed,) if has_formula else (Cases("kink", ((passed,), ("0 × adjoint",))),)
    return ("sum of ", *factors) if _is_stretched(trace, i, position) else factors


def _is_stretched(trace: Trace, i: int, position: int) -> bool:
    """Whether broadcasting stretches an input of an elementwise operation."""
    return shape_of(trace.values[trace.tape.inputs[i][position]]) != shape_of(trace.values[i])


@cache
def _product(position: int) -> Phrase:
    return _on_numbers(registered("mul"), [Slot("local", position), Slot("adjoint")])


@cache
def _structural(op: Op, count: int, is_number: bool, has_slopes: bool) -> Phrase:
    """What an operation on whole arrays does with its adjoint.

    Args:
        is_number: whether it gives a number.
        has_slopes: whether they are shown.
    """
    title = _title(op)
    slopes: Phrase = (", ", Slot("jacobian")) if has_slopes else ()
    match op.gate:
        case Gate.ROUTE if op.kink is not None:
            return (f"{title} routes its adjoint to {op.summary}, in equal shares where several tie",)
        case Gate.DISTRIBUTE:
            return (f"{title} hands its adjoint to every element that it took in, unchanged",)
        case Gate.SWAP if count == 1:
            return (f"{title} swaps: each element gets the adjoint times the product of the others", *slopes)
        case Gate.SWAP:
            return (f"{title} swaps: each side gets the adjoint times the other side",)
        case Gate.ROUTE:
            return (f"{title} only arranges: each part of the adjoint goes where that part came from",)
        case Gate.BLOCK:
            return (f"{title} does not depend on the elements, so it hands on nothing",)
        case Gate.SCALE if not is_number:
            mixes = f"{title} mixes: every output depends on every input, so each input gets a part of every adjoint"
            return (f"{mixes}, by the Jacobian", *slopes)
        case Gate.SCALE:
            scales: Phrase = (f"{title} scales: each element gets the adjoint times its slope", *slopes)
            at_kink = (f"{title} has a kink here: {op.kink_note}",)
            return scales if op.kink is None else (Cases("kink", (scales, at_kink)),)


def _is_truth(op: Op) -> bool:
    return Precedence.OR <= op.precedence <= Precedence.COMPARISON


def is_finite(*numbers: Any) -> bool:
    """Whether numbers, and all elements of arrays, are finite; None is not."""
    return not any(number is None or is_anywhere((number != number) | (abs(number) == math.inf)) for number in numbers)


def total(x: Any) -> float:
    """The sum of all elements."""
    return float(x.sum()) if shape_of(x) else x


def is_somewhere(local: Any) -> bool:
    """Whether a local derivative is not 0, at one element at least."""
    return bool(local != 0) if isinstance(local, float) else bool((local != 0).any())


def _title(op: Op) -> str:
    """What to call an operation at the beginning of a sentence."""
    return op.title or (f"`{op.symbol}`" if op.symbol else op.spelling or op.name)

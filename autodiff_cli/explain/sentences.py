"""The steps of both passes as sentences, like the words of someone who explains at a blackboard.

A sentence is a *phrase*: a sequence of texts and slots for numbers, with cases that depend on the numbers. One phrase
says the same thing at any point. `StepSentences` fills phrases in with the numbers of a trace; the HTML page gets them
as data and fills them in again whenever a number changes, so no sentence is written twice.

A sentence is made from the gate pattern of the operation and from its derivative rule. The local derivative is printed
from the rule, with its numbers (`cos(2) = -0.416147`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeAlias

from autodiff_cli.explain import operations
from autodiff_cli.explain.accuracy import VALUE
from autodiff_cli.explain.labels import blackboard_notation, is_constant_name, negative_number_precedence
from autodiff_cli.explain.record import BackwardStep, Contribution, ForwardStep, Trace, any_true, array_shape
from autodiff_cli.explain.warnings import CANCELLATION, UNDEFINED_ELEMENTS, UNDEFINED_SLOPES
from autodiff_cli.graph.codegen import Fragment
from autodiff_cli.graph.node import Gate, Node, Op, Precedence, as_node, get_op
from autodiff_cli.language.errors import join_words
from autodiff_cli.language.printer import Gap, to_pieces

_NEGATIVE_ZERO = re.compile(r"(?<![^\s(,*×/^])-0(?![\w.])")

Phrase: TypeAlias = "tuple[str | Slot | Sides | Cases, ...]"


class Facts(Protocol):
    """The facts about one step of a trace that phrases are filled in with."""

    def text(self, what: str, of: int) -> str:
        """Return the text for a slot, by `Slot.what` and `Slot.of`."""

    def case(self, by: str, of: int) -> int:
        """Return the number of the case that is true, by `Cases.by` and `Cases.of`."""


class Slot(NamedTuple):
    """A slot in a phrase for a text, most often a number.

    Attributes:
        what: which text. Of the node of the step: `node` (its label), `name`, `output` (its value), `adjoint`,
            `jacobian`; `chosen`, the labels of the inputs that a choice selects, and `share`, the part of the adjoint
            that each of them gets; `lost`, how many digits of the output rounding its inputs can destroy. Of an input:
            `label` and `value`. Of the contribution to an input: `local`, `amount`, `total`, `use`, `uses`. Of any
            node: `label at`, `value at` and `adjoint at`.
        of: the position of the input, or the id of the node.
        is_loose: whether a negative number is put in brackets.
    """

    what: str
    of: int = 0
    is_loose: bool = False

    def fill(self, facts: Facts) -> str:
        """Return the text of the slot."""
        text = facts.text(self.what, self.of)
        return f"({text})" if self.is_loose and text.startswith("-") else text

    def data(self) -> list[Any]:
        """Return the slot as JSON values."""
        return [self.what, self.of, int(self.is_loose)]


class Sides(NamedTuple):
    """The sides of an equation, `x*y = 2 × 3 = 6`; equal texts appear once.

    Attributes:
        phrases: the sides, from left to right.
        max_length: sides longer than this many characters are left out, except for the last; 0 keeps all.
    """

    phrases: tuple[Phrase, ...]
    max_length: int = 0

    def fill(self, facts: Facts) -> str:
        """Return the equation."""
        *before, last = (fill(phrase, facts) for phrase in self.phrases)
        sides = [side for side in before if not self.max_length or len(side) <= self.max_length]
        return " = ".join(dict.fromkeys([*sides, last]))

    def data(self) -> list[Any]:
        """Return the equation as JSON values."""
        return ["sides", self.max_length, *map(phrase_json, self.phrases)]


class Cases(NamedTuple):
    """Alternative phrases, of which the facts select one.

    Attributes:
        by: the fact that selects. Most are no (first phrase) or yes (second phrase):
            `arrived`: the node has an adjoint. `truth`: the value of the node is not 0. `kink`: the operation has a
            kink here. `saturated`: the output of an activation is near one of its limits. `undefined`: the value of
            the node is nan.
            `absent`: the contribution to an input is a structural zero, which the product of numbers would not show.
            `finite`: that contribution is finite. `as read`: the local derivative equals its readable formula.
            `whole`: the elements of the value of a node sum to 1. `minus one`: the adjoint of a node is -1.
            `smooth`: value and gradient are finite, the gradient is accurate, and no node with an adjoint is at a kink.
            Two have three phrases. `use`: the contribution to an input is the only one, one of several, or the last of
            several. `chosen`: a choice selected no input that takes a gradient, selected one, or is tied.
        phrases: the alternatives.
        of: the position of the input, or the id of the node.
    """

    by: str
    phrases: tuple[Phrase, ...]
    of: int = 0

    def fill(self, facts: Facts) -> str:
        """Return the phrase of the case that is true, filled in."""
        return fill(self.phrases[facts.case(self.by, self.of)], facts)

    def data(self) -> list[Any]:
        """Return the cases as JSON values."""
        return ["cases", self.by, self.of, *map(phrase_json, self.phrases)]


def fill(phrase: Phrase, facts: Facts) -> str:
    """Return the sentence: the phrase with its slots filled in. `-0` becomes `0`."""
    return _NEGATIVE_ZERO.sub("0", "".join(part if isinstance(part, str) else part.fill(facts) for part in phrase))


def phrase_json(phrase: Phrase) -> list[Any]:
    """Return the phrase as JSON values."""
    return [part if isinstance(part, str) else part.data() for part in phrase]


def formula_phrase(pieces: Iterable[str | Gap], slots: Mapping[Node, Slot]) -> Phrase:
    """Return the phrase of a formula that was printed in pieces, with slots for its leaves."""
    return tuple(
        piece if isinstance(piece, str) else slots[piece.leaf]._replace(is_loose=piece.needs_brackets)
        for piece in pieces
    )


SATURATION_DISTANCE = 0.01  # nearer to its limits, the textbook derivative of an activation is lost in rounded numbers
MAX_FORMULA_LENGTH = 40  # characters; a longer local derivative is shown as a number only


def saturation_values(op: Op) -> tuple[float, ...]:
    """Return the finite limits of an activation, near which its output is flat."""
    return tuple(end for end in op.saturation_values or () if math.isfinite(end))


def label_with_definition(trace: Trace, i: int) -> str:
    """Return the label of a node; a named intermediate and the value of a call with their definition: `a = x + y`."""
    label, names, nodes = trace.labels[i], trace.expression.names, trace.tape.nodes
    op, inputs = nodes[i].op, trace.tape.inputs[i]
    if op is None:
        return label
    if nodes[i] not in names:
        return f"{label} = {trace.naming.definition(nodes[i])}" if trace.naming.is_call(nodes[i]) else label
    if all(nodes[j].is_constant and nodes[j] not in names and not is_constant_name(nodes[j]) for j in inputs):
        return label  # its definition is its numbers, which are shown anyway
    operands = [Fragment(trace.labels[j], trace.naming.precedence(j)) for j in inputs]
    return f"{label} = {blackboard_notation(op, len(inputs)).format(operands).text}"


def forward_phrase(trace: Trace, i: int) -> Phrase:
    """Return the phrase of a forward step, with slots for its numbers."""
    op = trace.tape.nodes[i].operation
    return _operation_phrase(op, len(trace.tape.inputs[i]), isinstance(trace.values[i], float))


@cache
def _operation_phrase(op: Op, count: int, is_scalar: bool) -> Phrase:
    numbers = _numbers_phrase(op, [Slot("value", k) for k in range(count)])
    if _is_boolean(op) and is_scalar:
        verdict = Cases("truth", (("false",), ("true",)))
        return (Slot("name"), ": ", *numbers, " is ", verdict, ", so ", Slot("output"))
    if _is_boolean(op):
        return (Slot("name"), ": ", *numbers, " gives ", Slot("output"))
    return (Sides(((Slot("name"),), numbers, (Slot("output"),))),)


def backward_phrase(trace: Trace, i: int) -> Phrase:
    """Return the phrase of a backward step, with slots for its numbers: what the operation does with its adjoint."""
    op, inputs = trace.tape.nodes[i].operation, trace.tape.inputs[i]
    reached = tuple(k for k, j in enumerate(inputs) if trace.tape.is_active[j])
    are_scalars = all(isinstance(trace.values[j], float) for j in (i, *inputs))
    if op.is_structural:
        effect = _structural_phrase(
            op, len(inputs), not array_shape(trace.values[i]), operations.has_jacobian(trace, i)
        )
    else:
        effect = _elementwise_phrase(op, len(inputs), reached, are_scalars)
        if any(_is_broadcast(trace, i, k) for k in reached):
            effect = (*effect, " (summed over the copies of a broadcast input)")
    return (Cases("arrived", (("its adjoint is 0, so it contributes 0",), effect)),)


@cache
def _elementwise_phrase(op: Op, count: int, reached: Sequence[int], are_scalars: bool) -> Phrase:
    match op.gate:
        case Gate.DISTRIBUTE if op.symbol == "-" and len(reached) > 1:
            return ("a difference distributes: the first term gets the adjoint, the second gets minus the adjoint",)
        case Gate.DISTRIBUTE:
            term: str | Slot = "each term" if len(reached) > 1 else Slot("label", reached[0])
            name, is_second = ("a difference", reached[0] == 1) if op.symbol == "-" else ("a sum", False)
            share = "minus the adjoint" if is_second else "the adjoint, unchanged"
            return (f"{name} distributes: ", term, f" gets {share}")
        case Gate.SWAP:
            factor: str | Slot = "each factor" if len(reached) > 1 else Slot("label", reached[0])
            return ("a product swaps: ", factor, " gets the adjoint times the value of the other factor")
        case Gate.ROUTE:
            choice = _unary_choice_phrase(op, are_scalars) if count == 1 else _choice_phrase(op, are_scalars)
            return _phrase_unless("undefined", op, are_scalars, choice, "compares with nan, so it selects nothing")
        case Gate.BLOCK:
            constant: Phrase = (f"{_title(op)} is constant between its jumps, so it contributes 0",)
            return _phrase_unless("kink", op, are_scalars, constant, "jumps here, so slope 0 is used")
        case Gate.SCALE:
            slopes = "its slopes" if len(reached) > 1 else "its slope"
            scales: Phrase = (f"{_title(op)} scales by {slopes}", *_slopes_phrase(op, count, reached, are_scalars))
            return _phrase_unless("kink", op, are_scalars, scales, f"has a kink here: {op.kink_note}")


def _phrase_unless(by: str, op: Op, is_scalar: bool, phrase: Phrase, words: str) -> Phrase:
    """Return a phrase, with other words where the case `by` is true of an operation of numbers that has kinks."""
    return (Cases(by, (phrase, (f"{_title(op)} {words}",))),) if is_scalar and op.kink is not None else phrase


def _unary_choice_phrase(op: Op, is_scalar: bool) -> Phrase:
    """Return the phrase of an operation on one input that passes its adjoint or blocks it, such as relu."""
    title = _title(op)
    if not is_scalar:
        passes: Phrase = (f"{title} passes its adjoint on where it is not flat",)
        flat: Phrase = (f"{title} blocks its adjoint at every element: the slope there is 0",)
    else:
        passes = (f"{title} passes its adjoint on",)
        inactive = Cases("truth", ((": the unit is inactive at this input",), ("",)))
        off: Phrase = (f"{title} is flat at ", Slot("value"), " and blocks its adjoint", inactive)
        at_kink = (f"{title} has a kink at ", Slot("value"), f": {op.kink_note}, so its adjoint is blocked")
        flat = (Cases("kink", (off, at_kink)),)
    return (Cases("chosen", (flat, passes, passes)),)


def _choice_phrase(op: Op, is_scalar: bool) -> Phrase:
    """Return the phrase of a choice, which passes its adjoint to one of several inputs."""
    title = _title(op)
    constant = (f"{title} selected an input that depends on no variable, so its adjoint stops here",)
    nothing = _phrase_unless("kink", op, is_scalar, constant, f"has a kink here: {op.kink_note}")
    elements = (f"{title} routes its adjoint, element by element, to the input that it selected",)
    routes = (f"{title} routes all of its adjoint to the input that it selected, ", Slot("chosen"))
    shares = (f"{title} is tied and splits its adjoint equally: ", Slot("share"), " of it to ", Slot("chosen"))
    return (Cases("chosen", (nothing, routes if is_scalar else elements, shares)),)


def _slopes_phrase(op: Op, count: int, reached: Sequence[int], are_scalars: bool) -> Phrase:
    """Return the phrase of the local derivatives with their numbers: `, cos(2) = -0.416147`."""
    if count == 1 and reached:
        return (", ", *slope_phrase(op, 1, 0, are_scalars))
    parts: list[Any] = []
    for position in reached:
        parts += [", " if parts else ": ", *slope_phrase(op, count, position, are_scalars)]
        parts += [" for ", Slot("label", position)]
    return tuple(parts)


@cache
def slope_phrase(op: Op, count: int, position: int, are_scalars: bool) -> Phrase:
    """Return the phrase of a local derivative of an elementwise operation, as a formula with its number."""
    number = (Slot("local", position),)
    if not are_scalars:
        return number
    formula = slope_formula(op, count, position)
    slope = (Cases("as read", (number, (Sides((formula, number), MAX_FORMULA_LENGTH),)), position),)
    if op.textbook_slope is None:
        return slope
    rule = op.derivative_rule(count)
    slots = {rule.output: Slot("output"), rule.inputs[0]: Slot("value")}
    textbook = formula_phrase(to_pieces(as_node(op.textbook_slope(*slots)), slots), slots)
    return (Cases("saturated", ((Sides((textbook, formula, number), MAX_FORMULA_LENGTH),), slope)),)


@cache
def slope_formula(op: Op, count: int, position: int) -> Phrase:
    """Return the formula of a local derivative as in its rule, with slots for the values."""
    rule, values = op.derivative_rule(count), [Slot("value", k) for k in range(count)]
    local = rule.partials[position].local
    if local is rule.output:  # as for exp, which is its own slope
        return _numbers_phrase(op, values)
    slots = rule.bind(Slot("output"), values)
    return formula_phrase(to_pieces(local, slots), slots)


def _numbers_phrase(op: Op, slots: Sequence[Slot]) -> Phrase:
    """Return an operation on slots for numbers, as `format_operation_on_numbers` writes it."""
    count = len(slots)
    notation = blackboard_notation(op, count)
    parts: list[str | Slot] = [notation.texts[0]]
    for k, slot in enumerate(slots):
        is_loose = negative_number_precedence(k, count) < notation.operand_precedences[k]
        parts += (slot._replace(is_loose=is_loose), notation.texts[k + 1])
    return tuple(part for part in parts if part)


@cache
def warning_phrases(op: Op, count: int) -> dict[str, Phrase]:
    """Return the phrases of the warnings that can be decided from the numbers of a node alone, by kind.

    They are `undefined` (the value is nan, but no input is), `infinite` (the value is infinite), `overflow` (the value
    is too large), `kink`, and `cancellation` (the operation magnifies rounding errors). For the input at position k
    they are `product k` (0 × inf) and `slope k` (the local derivative is not finite). Operations on whole arrays have
    only `kink`, `undefined elements` (an element is nan, of no input) and `undefined slopes` (an element of a
    contribution is).
    """
    kink: dict[str, Phrase] = {} if op.kink is None else {"kink": (Slot("node"), f": {op.kink_note}")}
    if op.is_structural:
        elements, slopes = (Slot("node"), f": {UNDEFINED_ELEMENTS}"), (Slot("node"), f": {UNDEFINED_SLOPES}")
        return {**kink, "undefined elements": elements, "undefined slopes": slopes}
    call = _numbers_phrase(op, [Slot("value", k) for k in range(count)])
    why = f" is not defined for real numbers{'' if op.uncomputed is None else ' or cannot be computed'}, so nan"
    phrases: dict[str, Phrase] = {
        "undefined": (Slot("node"), ": ", *call, why),
        "infinite": (Slot("node"), ": the value is ", Slot("output")),
        "overflow": (Slot("node"), ": the value is too large for a float, so ", Slot("output")),
        "cancellation": (Slot("node"), ": ", CANCELLATION[0], Slot("lost"), CANCELLATION[1]),
    }
    for k in range(count):
        product = ": 0 × inf: slope ", Slot("local", k), " times adjoint ", Slot("adjoint"), " is not defined, so nan"
        overflow = Cases("singular", (("too large for a float, so ",), ()), k)
        towards = ": the slope with respect to ", Slot("label", k), " is ", overflow, Slot("local", k)
        phrases |= {f"product {k}": (Slot("node"), *product), f"slope {k}": (Slot("node"), *towards)}
    return phrases | kink


def contribution_phrase(trace: Trace, i: int, position: int) -> Phrase:
    """Return the phrase of the contribution of a node to one of its inputs, with slots for the numbers."""
    total = Slot("total", position)
    uses = (
        (),
        (", use ", Slot("use", position), " of ", Slot("uses", position), ": total so far ", total),
        (", the last of ", Slot("uses", position), " uses: total ", total),
    )
    factors, amount = _factors_phrase(trace, i, position), Slot("amount", position)
    return (
        *(Slot("label", position), ": "),
        Cases("absent", ((*factors, " = ", amount), ("0, a structural zero",)), position),
        Cases("use", uses, position),
        *_cross_entropy_phrase(trace, i, position),
    )


def _cross_entropy_phrase(trace: Trace, i: int, position: int) -> Phrase:
    """Return the simplified contribution of a softmax below a cross-entropy; an empty phrase for other nodes."""
    above = operations.cross_entropy_above_logsumexp(trace, i)
    if above is not None:
        weights, total_of_both = above
        p = f"softmax({trace.labels[trace.tape.inputs[i][0]]})"
        difference = f"({p} - {_bracketed_label(trace, weights)}) × "
        sentence: Phrase = (difference, Slot("adjoint at", total_of_both, is_loose=True))
        return (Cases("finite", ((), (", and with the cross-entropy after it the total is ", *sentence)), position),)
    entropy = operations.cross_entropy_above(trace, i)
    if entropy is None:
        return ()
    is_softmax = trace.tape.nodes[i].op is get_op("softmax")
    p = _bracketed_label(trace, i) if is_softmax else f"softmax({trace.labels[trace.tape.inputs[i][0]]})"
    adjoint = Slot("adjoint at", entropy.total, is_loose=True)
    if entropy.weights is None:
        assert entropy.index_node is not None
        index_labels = ", ".join(trace.labels[j] for j in trace.tape.inputs[entropy.index_node][1:])
        one = f"1 at [{index_labels}], 0 elsewhere"
        collapsed: Phrase = (f"({one}, minus {p}) × ", adjoint)
        simple: Phrase = (f"{p}, minus 1 at [{index_labels}]",)
        cases = Cases("minus one", (collapsed, simple), entropy.total)
    else:
        w = _bracketed_label(trace, entropy.weights)
        numbers: Phrase = (" = ", Slot("output"), " - ", Slot("value at", entropy.weights)) if is_softmax else ()
        cases = Cases("whole", (
            (f"({w} - {p}*sum({trace.labels[entropy.weights]})) × ", adjoint),
            (Cases("minus one", ((f"({w} - {p}) × ", adjoint), (f"{p} - {w}", *numbers)), entropy.total),),
        ), entropy.weights)  # fmt: skip
    return (Cases("finite", ((), (", which with the cross-entropy after it is ", cases)), position),)


def _bracketed_label(trace: Trace, i: int) -> str:
    """Return the label of a node, in brackets if it could be misread beside an operator."""
    node, label = trace.tape.nodes[i], trace.labels[i]
    is_tight = node.op is None or not node.op.symbol or node in trace.expression.names or trace.naming.is_call(node)
    return label if is_tight else f"({label})"


def _factors_phrase(trace: Trace, i: int, position: int) -> Phrase:
    """Return local derivative × adjoint in numbers; for an operation on whole arrays, its rule as a formula."""
    op = trace.tape.nodes[i].operation
    factors = _numbers_phrase(get_op("mul"), [Slot("local", position), Slot("adjoint")])
    if op.is_structural:
        passed = operations.adjoint_formula(trace, i, position)
        if passed is None:
            return factors
        has_formula = op.kink is None or op.gate is not Gate.SCALE
        return (passed,) if has_formula else (Cases("kink", ((passed,), ("0 × adjoint",))),)
    return ("sum of ", *factors) if _is_broadcast(trace, i, position) else factors


def _is_broadcast(trace: Trace, i: int, position: int) -> bool:
    """Whether an input of an elementwise operation is broadcast to a larger shape."""
    return array_shape(trace.values[trace.tape.inputs[i][position]]) != array_shape(trace.values[i])


@cache
def _structural_phrase(op: Op, count: int, is_number: bool, has_slopes: bool) -> Phrase:
    """Return the phrase of what an operation on whole arrays does with its adjoint.

    Args:
        is_number: whether the output is a number.
        has_slopes: whether the Jacobian is shown.
    """
    title = _title(op)
    slopes: Phrase = (", ", Slot("jacobian")) if has_slopes else ()
    match op.gate:
        case Gate.ROUTE if op.kink is not None:
            return (f"{title} routes its adjoint to {op.summary}, in equal shares if several tie",)
        case Gate.DISTRIBUTE:
            return (f"{title} passes its adjoint unchanged to every element of its input",)
        case Gate.SWAP if count == 1:
            return (f"{title} swaps: each element gets the adjoint times the product of the others", *slopes)
        case Gate.SWAP:
            return (f"{title} swaps: each side gets the adjoint times the other side",)
        case Gate.ROUTE:
            return (f"{title} only rearranges: each element of the adjoint goes back to where that element came from",)
        case Gate.BLOCK:
            return (f"{title} does not depend on the elements, so it contributes 0",)
        case Gate.SCALE if not is_number:
            mixes = f"{title} mixes: every output depends on every input, so each input gets a part of every adjoint"
            return (f"{mixes}, by the Jacobian", *slopes)
        case Gate.SCALE:
            scales: Phrase = (f"{title} scales: each element gets the adjoint times its slope", *slopes)
            return _phrase_unless("kink", op, True, scales, f"has a kink here: {op.kink_note}")


def _is_boolean(op: Op) -> bool:
    return Precedence.OR <= op.precedence <= Precedence.COMPARISON


def is_finite(*numbers: Any) -> bool:
    """Whether all numbers and all elements of arrays are finite; None is not."""
    return not any(number is None or any_true((number != number) | (abs(number) == math.inf)) for number in numbers)


def _title(op: Op) -> str:
    """Return the name of an operation for the beginning of a sentence."""
    return op.title or (f"`{op.symbol}`" if op.symbol else op.spelling or op.name)


BACKWARD_PASS_SENTENCE = (
    "The output's adjoint is 1. A node is processed once all its users have contributed to its adjoint."
)
FIRST_ADJOINT: Phrase = (
    "Why does the backward pass start with 1? An adjoint is the rate at which the output changes with a node. "
    "The output changes with itself at a rate of exactly 1. All other adjoints follow from it.",
)


def closing_phrases(trace: Trace) -> list[Phrase]:
    """Return what one backward pass has computed, and how to read the first derivative."""
    count, index = len(trace.wrt), trace.tape.index
    result = "the derivative of the output" if count == 1 else f"all {count} derivatives at once"
    phrases: list[Phrase] = [(f"Both passes are done. One backward pass gave {result}.",)]
    for name in trace.wrt:
        leaf = trace.expression.leaves[name]
        if leaf in index:
            label = Slot("label at", index[leaf])
            others = " The same holds for the other variables." if count > 1 else ""
            rough = "A derivative predicts changes of the output only where it is finite and accurate, away from kinks."
            if array_shape(trace.point[name]):
                rate = (" is the rate at which the output changes with that element of ", label, f".{others}")
                return [*phrases, (Cases("smooth", ((rough,), ("Each element of d/d", label, *rate))),)]
            slope = Slot("adjoint at", index[leaf])
            moves = (": if ", label, " changes by a small h, the output changes by about ", slope, f" × h.{others}")
            return [*phrases, ("d/d", label, " = ", slope, Cases("smooth", ((f". {rough}",), moves)))]
    return phrases


NEGLIGIBLE = " (its adjoint is 0 within rounding errors)"
_SUM_TOLERANCE = 1e-9  # a sum of probabilities may differ from 1 by this much, by rounding


class StepSentences:
    """The steps of a trace as sentences.

    Args:
        show: returns the text of a number or an array.
    """

    def __init__(self, trace: Trace, show: Callable[[Any], str]) -> None:
        self._trace = trace
        self._show = show

    def forward(self, step: ForwardStep) -> str:
        """Return a forward step with its numbers: `x*y = 2 × 3 = 6`."""
        return fill(forward_phrase(self._trace, step.node), _StepFacts(self._trace, self._show, step))

    def fill(self, phrase: Phrase) -> str:
        """Return a phrase that belongs to no step, filled in with the numbers of the trace."""
        return fill(phrase, _StepFacts(self._trace, self._show, None))

    def backward(self, step: BackwardStep) -> str:
        """Return what a node does with its adjoint, as a sentence without a full stop."""
        sentence = fill(backward_phrase(self._trace, step.node), _StepFacts(self._trace, self._show, step))
        return sentence + NEGLIGIBLE * (step.node in self._trace.negligible)

    def contribution(self, step: BackwardStep, contribution: Contribution) -> str:
        """Return the contribution to one input, `x: 3 × 1 = 3`; for one of several uses, with the running total."""
        phrase = contribution_phrase(self._trace, step.node, contribution.position)
        is_negligible = contribution.to in self._trace.negligible and _use_case(contribution) == 2
        return fill(phrase, _StepFacts(self._trace, self._show, step)) + NEGLIGIBLE * is_negligible

    def slope(self, node: int, position: int) -> str:
        """Return the local derivative of a node with respect to an input as in its rule, with the numbers filled in."""
        op, count = self._trace.tape.nodes[node].operation, len(self._trace.tape.inputs[node])
        step = next(step for step in self._trace.backward if step.node == node)
        return fill(slope_formula(op, count, position), _StepFacts(self._trace, self._show, step))


class _StepFacts:
    """The facts of one step of a trace; without a step, the facts of the whole trace."""

    def __init__(self, trace: Trace, show: Callable[[Any], str], step: ForwardStep | BackwardStep | None) -> None:
        self.trace = trace
        self.node = trace.tape.outputs[0] if step is None else step.node
        self._show = show
        self._contributions = step.contributions if isinstance(step, BackwardStep) else ()

    def text(self, what: str, of: int) -> str:
        """Return the text for a slot."""
        return _WORDS[what](self, of) if what in _WORDS else self._show(_NUMBERS[what](self, of))

    def case(self, by: str, of: int) -> int:
        """Return the number of the case that is true."""
        return int(_CASES[by](self, of))

    def contribution(self, position: int) -> Contribution:
        """Return the contribution to the input at a position."""
        return next(each for each in self._contributions if each.position == position)

    def input(self, position: int) -> int:
        """Return the node that is the input at a position."""
        return self.trace.tape.inputs[self.node][position]

    @property
    def selected(self) -> list[Contribution]:
        """The contributions whose local derivative is not 0, at one element at least."""
        return [each for each in self._contributions if any_true(each.local != 0)]

    @property
    def is_saturated(self) -> bool:
        """Whether the value is near a limit of the operation."""
        ends = saturation_values(self.trace.tape.nodes[self.node].operation)
        return any(abs(self.trace.values[self.node] - end) < SATURATION_DISTANCE for end in ends)


def _use_case(use: Contribution) -> int:
    """Return 0 for the only use of a node, 1 for one of several, and 2 for the last of several."""
    return 0 if use.uses == 1 or use.is_structural_zero else 1 if use.use < use.uses else 2


def _choice_case(selected: Sequence[Contribution]) -> int:
    """Return 0 if no input is selected, 1 for one input, and 2 for several that share."""
    share = selected[0].local if selected else None
    return 0 if share is None else 2 if isinstance(share, float) and share != 1 else 1


# Texts and numbers for slots, by `Slot.what`, and numbers of cases, by `Cases.by`: functions of the facts and of
# the slot's `of`.
_WORDS: Mapping[str, Callable[[_StepFacts, int], str]] = {
    "node": lambda facts, of: facts.trace.labels[facts.node],
    "name": lambda facts, of: label_with_definition(facts.trace, facts.node),
    "chosen": lambda facts, of: join_words([facts.trace.labels[each.to] for each in facts.selected]),
    "label": lambda facts, of: facts.trace.labels[facts.input(of)],
    "label at": lambda facts, of: facts.trace.labels[of],
    "use": lambda facts, of: str(facts.contribution(of).use),
    "uses": lambda facts, of: str(facts.contribution(of).uses),
}
_NUMBERS: Mapping[str, Callable[[_StepFacts, int], Any]] = {
    "output": lambda facts, of: facts.trace.values[facts.node],
    "value": lambda facts, of: facts.trace.values[facts.input(of)],
    "value at": lambda facts, of: facts.trace.values[of],
    "adjoint": lambda facts, of: facts.trace.adjoints[facts.node],
    "adjoint at": lambda facts, of: facts.trace.adjoints[of],
    "jacobian": lambda facts, of: operations.jacobian(facts.trace, facts.node),
    "share": lambda facts, of: facts.selected[0].local,
    "local": lambda facts, of: facts.contribution(of).local,
    "amount": lambda facts, of: facts.contribution(of).amount,
    "total": lambda facts, of: facts.contribution(of).total,
}
_CASES: Mapping[str, Callable[[_StepFacts, int], int]] = {
    "arrived": lambda facts, of: facts.trace.adjoints_or_none[facts.node] is not None,
    "truth": lambda facts, of: facts.trace.values[facts.node] != 0,
    "undefined": lambda facts, of: facts.trace.values[facts.node] != facts.trace.values[facts.node],
    "absent": lambda facts, of: (
        facts.contribution(of).is_structural_zero
        and not is_finite(facts.contribution(of).local, facts.trace.adjoints[facts.node])
    ),
    "finite": lambda facts, of: is_finite(facts.contribution(of).amount),
    "whole": lambda facts, of: (
        abs((x if isinstance(x := facts.trace.values[of], float) else x.sum()) - 1) < _SUM_TOLERANCE
    ),
    "smooth": lambda facts, of: (
        is_finite(facts.trace.value, *facts.trace.gradient.values())
        and not any(each.kind == "kink" or each.right.keys() - {VALUE} for each in facts.trace.warnings)
    ),
    "minus one": lambda facts, of: facts.trace.adjoints[of] == -1,
    "kink": lambda facts, of: operations.is_at_kink(facts.trace, facts.node),
    "as read": lambda facts, of: operations.is_readable_form_equal(facts.trace, facts.node, facts.contribution(of)),
    "saturated": lambda facts, of: facts.is_saturated,
    "use": lambda facts, of: _use_case(facts.contribution(of)),
    "chosen": lambda facts, of: _choice_case(facts.selected),
}

"""Both passes in the words of someone explaining at a blackboard.

What a sentence says comes from the operation's gate pattern and from its rule: the local derivative is printed from the
rule itself, with the numbers put in (`cos(2) = -0.416147`). Sentences are phrases, which a page fills in with other
numbers; `Words` fills them in with those of a trace.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from autodiff_cli.explain.formulas import applied, applied_to_numbers, is_loose, literal
from autodiff_cli.explain.phrases import Cases, Phrase, Sides, Slot, fill, negative, phrase_of
from autodiff_cli.explain.steps import BackwardStep, Contribution, ForwardStep, Trace
from autodiff_cli.graph.node import variable
from autodiff_cli.graph.op import Gate, Op, Precedence, registered
from autodiff_cli.graph.tape import rebuild
from autodiff_cli.language.printer import to_text

_TRANSPOSED = re.compile(r"\btranspose\((\w+)\)")
LONGEST_FORMULA = 40  # a longer local derivative is given as a number only
_RECTIFIERS = ("relu", "relu6")  # units that die: where they are flat, what lies below learns nothing


class Words:
    """The steps of a trace in words.

    Args:
        show: how to write numbers and arrays.
    """

    def __init__(self, trace: Trace, show: Callable[[Any], str]) -> None:
        self._trace = trace
        self._show = show

    def forward(self, step: ForwardStep) -> str:
        """A forward step with its numbers filled in: `x*y = 2 × 3 = 6`."""
        return fill(forward_phrase(self._trace, step.node), _Facts(self._trace, self._show, step))

    def hands_on(self, step: BackwardStep) -> bool:
        """Whether the node has anything to hand on: structurally, something arrived at it."""
        return self._trace.arrived[step.node] is not None

    def backward(self, step: BackwardStep) -> str:
        """What a node does with its adjoint, as a sentence that ends without a stop."""
        return fill(backward_phrase(self._trace, step.node), _Facts(self._trace, self._show, step))

    def contribution(self, step: BackwardStep, given: Contribution) -> str:
        """What one input is handed, `x: 3 × 1 = 3`, and where it is used several times, its running total."""
        phrase = contribution_phrase(self._trace, step.node, given.position)
        return fill(phrase, _Facts(self._trace, self._show, step))


class _Facts:
    """What the phrases about one step of a trace are filled in with."""

    def __init__(self, trace: Trace, show: Callable[[Any], str], step: ForwardStep | BackwardStep) -> None:
        self._trace = trace
        self._show = show
        self._node = step.node
        self._given = {given.position: given for given in step.contributions} if isinstance(step, BackwardStep) else {}

    def text(self, what: str, of: int) -> str:
        """What stands in a slot, see `Slot`."""
        match what:
            case "name":
                return name(self._trace, self._node)
            case "chosen":
                return " and ".join(dict.fromkeys(self._trace.labels[given.to] for given in self._chosen))
            case "label":
                return self._trace.labels[self._input(of)]
            case "use" | "uses":
                return str(getattr(self._given[of], what))
            case _:
                return self._show(self._number(what, of))

    def case(self, by: str, of: int) -> int:
        """Which of the cases is true, see `Cases`."""
        match by:
            case "arrived":
                return int(self._trace.arrived[self._node] is not None)
            case "truth":
                return int(self._trace.values[self._node] != 0)
            case "use":
                given = self._given[of]
                return 0 if given.uses == 1 else 1 if given.use < given.uses else 2
            case _:
                if not self._chosen:
                    return 0
                share = self._chosen[0].local
                return 2 if isinstance(share, float) and share != 1 else 1

    def _number(self, what: str, of: int) -> Any:
        match what:
            case "output":
                return self._trace.values[self._node]
            case "value":
                return self._trace.values[self._input(of)]
            case "adjoint":
                return self._trace.adjoints[self._node]
            case "share":
                return self._chosen[0].local
            case _:
                return getattr(self._given[of], what)

    def _input(self, position: int) -> int:
        return self._trace.tape.inputs[self._node][position]

    @property
    def _chosen(self) -> list[Contribution]:
        return [given for given in self._given.values() if _is_somewhere(given.local)]


def name(trace: Trace, i: int) -> str:
    """A node's label; for a named intermediate also what it stands for: `a = x + y`."""
    label, names, nodes = trace.labels[i], trace.expression.names, trace.tape.nodes
    op, inputs = nodes[i].op, trace.tape.inputs[i]
    if op is None or nodes[i] not in names:
        return label
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
        return (Slot("name"), " = ", Slot("output"))
    numbers = phrase_of(applied_to_numbers(op, [negative(Slot("value", k)) for k in range(count)]))
    if _is_truth(op) and is_scalar:
        verdict = Cases("truth", (("false",), ("true",)))
        return (Slot("name"), ": ", *numbers, " is ", verdict, ", so ", Slot("output"))
    return (Sides(((Slot("name"),), numbers, (Slot("output"),))),)


def backward_phrase(trace: Trace, i: int) -> Phrase:
    """What an operation that takes gradient does with its adjoint, with slots for its numbers."""
    op, inputs = trace.tape.nodes[i].op, trace.tape.inputs[i]
    assert op is not None
    reached = tuple(k for k, j in enumerate(inputs) if trace.tape.reached[j])
    are_scalars = all(isinstance(trace.values[j], float) for j in (i, *inputs))
    nothing = "nothing reaches it from the output, so it hands on nothing"
    return (Cases("arrived", ((nothing,), _handing_on(op, len(inputs), reached, are_scalars))),)


@cache
def _handing_on(op: Op, count: int, reached: Sequence[int], are_scalars: bool) -> Phrase:
    if op.structural:
        return (_structural(op),)
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
            return (f"{_title(op)} scales by its slope", *_slopes(op, count, reached, are_scalars))


def _passing(op: Op, is_scalar: bool) -> Phrase:
    """What an operation says that lets its adjoint pass, or not."""
    dead = ": a dead unit at this point" if op.name in _RECTIFIERS else ""
    flat = (f"{_title(op)} is flat at ", Slot("value"), f" and blocks its adjoint{dead}")
    passes = (f"{_title(op)} lets its adjoint pass{'' if is_scalar else ' where it is not flat'}",)
    return (Cases("chosen", (flat, passes, passes)),)


def _routing(op: Op, is_scalar: bool) -> Phrase:
    """What an operation says that hands its adjoint to one of several inputs."""
    title = _title(op)
    nothing = (f"{title} chose something that does not depend on a variable, so its adjoint ends here",)
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
    return (Sides((slope_formula(op, count, position), number), LONGEST_FORMULA),)


@cache
def slope_formula(op: Op, count: int, position: int) -> Phrase:
    """The local derivative as the rule has it, with slots for the values."""
    marks = [negative(Slot("value", k)) for k in range(count)]
    rule = op.partials(count)
    if rule.partials[position].local is rule.output:  # as for exp, which is its own slope
        return phrase_of(applied_to_numbers(op, marks))
    place = dict(zip((rule.output, *rule.inputs), map(literal, [negative(Slot("output")), *marks]), strict=True))
    return phrase_of(to_text(rebuild([rule.partials[position].local], place)[0], share=False))


def contribution_phrase(trace: Trace, i: int, position: int) -> Phrase:
    """What a node hands one of its inputs, with slots for the numbers."""
    total = Slot("total", position)
    uses = (
        (),
        (", use ", Slot("use", position), " of ", Slot("uses", position), ": total so far ", total),
        (", the last of ", Slot("uses", position), " uses: accumulates to ", total),
    )
    factors, amount = _factors(trace, i, position), Slot("amount", position)
    return (Slot("label", position), ": ", *factors, " = ", amount, Cases("use", uses, position))


def _factors(trace: Trace, i: int, position: int) -> Phrase:
    """Local derivative × adjoint, in numbers; for an operation on whole arrays its rule as a formula."""
    op, inputs = trace.tape.nodes[i].op, trace.tape.inputs[i]
    assert op is not None
    factors = _product(position)
    if op.structural:
        passage = _passage(trace, i, position)
        return factors if passage is None else (passage,)
    is_stretched = shape_of(trace.values[inputs[position]]) != shape_of(trace.values[i])
    return ("sum of ", *factors) if is_stretched else factors


@cache
def _product(position: int) -> Phrase:
    factors = [negative(Slot("local", position)), negative(Slot("adjoint"))]
    return phrase_of(applied_to_numbers(registered("mul"), factors))


def _passage(trace: Trace, i: int, position: int) -> str | None:
    """What an operation on whole arrays hands to an input: `outer(adjoint, x)`, `Wᵀ @ adjoint`; None for nothing."""
    op, inputs, nodes = trace.tape.nodes[i].op, trace.tape.inputs[i], trace.tape.nodes
    assert op is not None
    passage = op.passage(tuple(shape_of(trace.values[j]) for j in inputs))
    graph = passage.back[position]
    if graph is None:
        return None
    place = {passage.adjoint: variable("adjoint"), passage.output: variable(trace.labels[i])}
    for leaf, j in zip(passage.inputs, inputs, strict=True):
        place[leaf] = nodes[j] if nodes[j].op is None else variable(trace.labels[j])
    (passed,) = rebuild([graph], place)
    every = passed.op is not None and passed.op.name == "broadcast_like"
    if every:
        passed = passed.inputs[0]
    elif passed.op is not None and passed.op.name == "place" and passed.inputs[0] is place[passage.adjoint]:
        return f"adjoint at [{', '.join(at.text for at in passed.inputs[2:])}], 0 elsewhere"
    formula = _TRANSPOSED.sub(r"\1ᵀ", to_text(passed, share=False))
    if len(formula) > LONGEST_FORMULA:
        return "its part of the adjoint"
    return f"{formula}, for every element" if every else formula


def _structural(op: Op) -> str:
    """What an operation on whole arrays does with its adjoint."""
    title = _title(op)
    match op.gate:
        case Gate.ROUTE if op.kink is not None:
            return f"{title} routes its adjoint to {op.summary}, in equal shares where several tie"
        case Gate.DISTRIBUTE:
            return f"{title} hands its adjoint to every element that it took in, unchanged"
        case Gate.SWAP:
            return f"{title} swaps: each side gets the adjoint times the other side"
        case Gate.ROUTE:
            return f"{title} only arranges: each part of the adjoint goes where that part came from"
        case Gate.BLOCK:
            return f"{title} does not depend on the elements, so it hands on nothing"
        case Gate.SCALE:
            return f"{title} scales by its slope at every element"


def shape_of(number: Any) -> tuple[int, ...]:
    """The shape of a number or an array, without NumPy."""
    shape: tuple[int, ...] = getattr(number, "shape", ())
    return shape


def _is_truth(op: Op) -> bool:
    return Precedence.OR <= op.precedence <= Precedence.COMPARISON


def _is_somewhere(local: Any) -> bool:
    """Whether a local derivative is not 0, at one element at least."""
    return bool(local != 0) if isinstance(local, float) else bool((local != 0).any())


def _title(op: Op) -> str:
    """What to call an operation at the beginning of a sentence."""
    titles = {
        "matmul": "a product of arrays",
        "stack": "an array",
        "index": "an index",
        "div": "a quotient",
        "neg": "a minus sign",
        "pow": "a power",
        "mod": "a remainder",
    }
    return titles.get(op.name, f"`{op.symbol}`" if op.symbol else op.spelling or op.name)

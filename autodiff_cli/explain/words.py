"""Both passes in the words of someone explaining at a blackboard.

What a sentence says comes from the operation's gate pattern and from its rule: the local derivative is printed from the
rule itself, with the numbers put in (`cos(2) = -0.416147`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from autodiff_cli.explain.formulas import applied, applied_to_numbers, is_loose, literal
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
        numbers = [self._show(self._trace.values[j]) for j in step.inputs]
        if step.op.structural and not step.op.symbol:
            return f"{self._name(step)} = {self._show(step.value)}"
        with_numbers = applied_to_numbers(step.op, numbers)
        if _is_truth(step.op) and isinstance(step.value, float):
            verdict = "true" if step.value else "false"
            return f"{self._name(step)}: {with_numbers} is {verdict}, so {self._show(step.value)}"
        sides = [self._name(step), with_numbers, self._show(step.value)]
        return " = ".join(dict.fromkeys(sides))

    def hands_on(self, step: BackwardStep) -> bool:
        """Whether the node has anything to hand on: structurally, something arrived at it."""
        return self._trace.arrived[step.node] is not None

    def backward(self, step: BackwardStep) -> str:
        """What a node does with its adjoint, as a sentence that ends without a stop."""
        if not self.hands_on(step):
            return "nothing reaches it from the output, so it hands on nothing"
        if step.op.structural:
            return _structural(step.op)
        match step.op.gate:
            case Gate.DISTRIBUTE if step.op.symbol == "-":
                return (
                    "a difference distributes: the first term gets the adjoint, the second gets it with its sign turned"
                )
            case Gate.DISTRIBUTE:
                return "a sum distributes: each term gets the adjoint, unchanged"
            case Gate.SWAP:
                return "a product swaps: each factor gets the adjoint times the value of the other factor"
            case Gate.ROUTE:
                return self._routed(step)
            case Gate.BLOCK:
                return f"{_title(step.op)} is flat wherever it does not jump, so it hands on nothing"
            case Gate.SCALE:
                return f"{_title(step.op)} scales by its slope{self._slopes(step)}"

    def contribution(self, step: BackwardStep, given: Contribution) -> str:
        """What one input is handed, `x: 3 × 1 = 3`, and where it is used several times, its running total."""
        words = f"{self._trace.labels[given.to]}: {self._factors(step, given)} = {self._show(given.amount)}"
        if given.uses == 1:
            return words
        if given.use < given.uses:
            return f"{words}, use {given.use} of {given.uses}: total so far {self._show(given.total)}"
        return f"{words}, the last of {given.uses} uses: accumulates to {self._show(given.total)}"

    def _factors(self, step: BackwardStep, given: Contribution) -> str:
        """Local derivative × adjoint, in numbers; for an operation on whole arrays its rule as a formula."""
        if given.local is None:
            return self._passage(step, given)
        factors = applied_to_numbers(registered("mul"), [self._show(given.local), self._show(step.adjoint)])
        return f"sum of {factors}" if shape_of(given.amount) != shape_of(step.adjoint) else factors

    def _passage(self, step: BackwardStep, given: Contribution) -> str:
        """What an operation on whole arrays hands to an input: `outer(adjoint, x)`, `Wᵀ @ adjoint`."""
        nodes, inputs = self._trace.tape.nodes, self._trace.tape.inputs[step.node]
        passage = step.op.passage(tuple(shape_of(self._trace.values[j]) for j in inputs))
        graph = passage.back[given.position]
        assert graph is not None
        place = {passage.adjoint: variable("adjoint"), passage.output: variable(self._trace.labels[step.node])}
        for leaf, j in zip(passage.inputs, inputs, strict=True):
            place[leaf] = nodes[j] if nodes[j].op is None else variable(self._trace.labels[j])
        formula = _TRANSPOSED.sub(r"\1ᵀ", to_text(rebuild([graph], place)[0], share=False))
        return formula if len(formula) <= LONGEST_FORMULA else "its part of the adjoint"

    def _name(self, step: ForwardStep) -> str:
        """The node's label; for a named intermediate also what it stands for: `a = x + y`."""
        label = self._trace.labels[step.node]
        names, nodes = self._trace.expression.names, self._trace.tape.nodes
        if nodes[step.node] not in names:
            return label
        operands = [self._trace.labels[j] for j in step.inputs]
        loose = [is_loose(step.op, k, nodes[j]) and nodes[j] not in names for k, j in enumerate(step.inputs)]
        return f"{label} = {applied(step.op, operands, loose)}"

    def _routed(self, step: BackwardStep) -> str:
        title = _title(step.op)
        chosen = [given for given in step.contributions if _is_somewhere(given.local)]
        if len(self._trace.tape.inputs[step.node]) == 1:
            if chosen and not isinstance(chosen[0].local, float):
                return f"{title} lets its adjoint pass where it is not flat"
            if chosen:
                return f"{title} lets its adjoint pass"
            at = self._show(self._trace.values[self._trace.tape.inputs[step.node][0]])
            dead = ": a dead unit at this point" if step.op.name in _RECTIFIERS else ""
            return f"{title} is flat at {at} and blocks its adjoint{dead}"
        if not chosen:
            return f"{title} chose something that does not depend on a variable, so its adjoint ends here"
        labels = " and ".join(dict.fromkeys(self._trace.labels[given.to] for given in chosen))
        share = chosen[0].local
        if not isinstance(share, float):
            return f"{title} routes its adjoint, element by element, to what it chose"
        if share != 1:
            return f"{title} is tied and shares its adjoint equally: {self._show(share)} of it for {labels}"
        return f"{title} routes its adjoint to what it chose, {labels}; nothing goes elsewhere"

    def _slopes(self, step: BackwardStep) -> str:
        """The local derivatives with their numbers: `, cos(2) = -0.416147`."""
        if len(step.contributions) == 1 and len(self._trace.tape.inputs[step.node]) == 1:
            return f", {self._slope(step, step.contributions[0])}"
        parts = [f"{self._slope(step, given)} towards {self._trace.labels[given.to]}" for given in step.contributions]
        return ": " + ", ".join(parts) if parts else ""

    def _slope(self, step: BackwardStep, given: Contribution) -> str:
        number = self._show(given.local)
        if not isinstance(given.local, float):
            return number
        inputs = self._trace.tape.inputs[step.node]
        rule = step.op.partials(len(inputs))
        if rule.partials[given.position].local is rule.output:  # as for exp, which is its own slope
            called = applied_to_numbers(step.op, [self._show(self._trace.values[j]) for j in inputs])
            return f"{called} = {number}"
        values = [self._trace.values[j] for j in (step.node, *inputs)]
        place = {leaf: literal(self._show(x)) for leaf, x in zip((rule.output, *rule.inputs), values, strict=True)}
        formula = to_text(rebuild([rule.partials[given.position].local], place)[0], share=False)
        return number if formula == number or len(formula) > LONGEST_FORMULA else f"{formula} = {number}"


def _structural(op: Op) -> str:
    """What an operation on whole arrays does with its adjoint."""
    title = _title(op)
    match op.gate:
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

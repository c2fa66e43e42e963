"""Both passes in the words of someone explaining at a blackboard.

What a sentence says comes from the operation's gate pattern and from its rule: the local derivative is printed from the
rule itself, with the numbers put in (`cos(2) = -0.416147`). Sentences are phrases, which a page fills in with other
numbers; `Words` fills them in with those of a trace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autodiff_cli.explain.jacobians import jacobian
from autodiff_cli.explain.phrases import Phrase, fill
from autodiff_cli.explain.record import BackwardStep, ForwardStep, Handed, Trace
from autodiff_cli.explain.sentences import (
    NEAR,
    backward_phrase,
    contribution_phrase,
    ends,
    forward_phrase,
    is_finite,
    is_somewhere,
    name,
    slope_formula,
    total,
)
from autodiff_cli.explain.slopes import is_at_kink, is_read_right

_WHOLE = 1e-9  # how far a sum may be from 1 that is one of probabilities


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

    def say(self, phrase: Phrase) -> str:
        """A phrase of no step, with numbers of any nodes."""
        return fill(phrase, _Facts(self._trace, self._show, None))

    def hands_on(self, step: BackwardStep) -> bool:
        """Whether the node has anything to hand on: structurally, something arrived at it."""
        return self._trace.arrived[step.node] is not None

    def backward(self, step: BackwardStep) -> str:
        """What a node does with its adjoint, as a sentence that ends without a stop."""
        return fill(backward_phrase(self._trace, step.node), _Facts(self._trace, self._show, step))

    def contribution(self, step: BackwardStep, given: Handed) -> str:
        """What one input is handed, `x: 3 × 1 = 3`, and where it is used several times, its running total."""
        phrase = contribution_phrase(self._trace, step.node, given.position)
        return fill(phrase, _Facts(self._trace, self._show, step))

    def slope(self, node: int, position: int) -> str:
        """The local derivative of a node towards an input as its rule has it, with the numbers filled in."""
        op, count = self._trace.tape.nodes[node].op, len(self._trace.tape.inputs[node])
        assert op is not None
        step = next(step for step in self._trace.backward if step.node == node)
        return fill(slope_formula(op, count, position), _Facts(self._trace, self._show, step))


class _Facts:
    """What the phrases about one step of a trace, or about none, are filled in with."""

    def __init__(self, trace: Trace, show: Callable[[Any], str], step: ForwardStep | BackwardStep | None) -> None:
        self._trace = trace
        self._show = show
        self._node = trace.tape.outputs[0] if step is None else step.node
        self._given = {given.position: given for given in step.contributions} if isinstance(step, BackwardStep) else {}

    def text(self, what: str, of: int) -> str:
        """What stands in a slot, see `Slot`."""
        match what:
            case "name":
                return name(self._trace, self._node)
            case "chosen":
                *before, last = (self._trace.labels[given.to] for given in self._chosen)
                return f"{', '.join(before)} and {last}" if before else last
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
            case "absent":
                given = self._given[of]
                return int(given.is_nothing and not is_finite(given.local, self._trace.adjoints[self._node]))
            case "finite":
                return int(is_finite(self._given[of].amount))
            case "whole":
                return int(abs(total(self._trace.values[of]) - 1) < _WHOLE)
            case "smooth":
                return int(is_finite(self._trace.adjoints[of]) and not any(map(self._is_at_kink, self._trace.backward)))
            case "minus one":
                return int(self._trace.adjoints[of] == -1)
            case "kink":
                return int(is_at_kink(self._trace, self._node))
            case "as read":
                return int(is_read_right(self._trace, self._node, self._given[of]))
            case "saturated":
                return int(any(abs(self._trace.values[self._node] - end) < NEAR for end in self._ends))
            case "use":
                given = self._given[of]
                return 0 if given.uses == 1 or given.is_nothing else 1 if given.use < given.uses else 2
            case _:
                if not self._chosen:
                    return 0
                share = self._chosen[0].local
                return 2 if isinstance(share, float) and share != 1 else 1

    def _is_at_kink(self, step: BackwardStep) -> bool:
        """Whether something arrives at a kink of an operation on numbers, or on whole arrays."""
        values = [self._trace.values[i] for i in (step.node, *self._trace.tape.inputs[step.node])]
        is_one = step.op.structural or all(isinstance(value, float) for value in values)
        return is_one and self._trace.arrived[step.node] is not None and is_at_kink(self._trace, step.node)

    def _number(self, what: str, of: int) -> Any:
        match what:
            case "output":
                return self._trace.values[self._node]
            case "value":
                return self._trace.values[self._input(of)]
            case "value at":
                return self._trace.values[of]
            case "adjoint at":
                return self._trace.adjoints[of]
            case "jacobian":
                return jacobian(self._trace, self._node)
            case "adjoint":
                return self._trace.adjoints[self._node]
            case "share":
                return self._chosen[0].local
            case _:
                return getattr(self._given[of], what)

    @property
    def _ends(self) -> tuple[float, ...]:
        op = self._trace.tape.nodes[self._node].op
        return () if op is None else ends(op)

    def _input(self, position: int) -> int:
        return self._trace.tape.inputs[self._node][position]

    @property
    def _chosen(self) -> list[Handed]:
        return [given for given in self._given.values() if is_somewhere(given.local)]

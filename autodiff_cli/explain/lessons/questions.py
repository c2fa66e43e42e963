"""Questions about a trace: what is asked, what is right, and two hints, the first of them without numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autodiff_cli.explain.operations import described
from autodiff_cli.explain.record import Trace
from autodiff_cli.explain.sentences import name
from autodiff_cli.explain.words import Words
from autodiff_cli.graph.op import Gate

_TYPED = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?", re.IGNORECASE)
_EXACT = 1e-9


@dataclass(frozen=True, slots=True)
class Question:
    """A question.

    Attributes:
        kind: `value`, `local`, `adjoint`, `next` or `bug`.
        choices: what to choose from; none where a number is asked for.
        right: the choices that are right, by their places from 1.
        answer: the number that is right, else the first right choice as text.
        hints: first without numbers, then with them.
    """

    kind: str
    text: str
    choices: tuple[str, ...]
    right: tuple[int, ...]
    answer: float | str
    hints: tuple[str, str]

    def is_right(self, typed: str) -> bool:
        """Whether an answer is right: a choice by its place or its text, a number to the digits typed, at least two.

        >>> asked = Question("value", "?", (), (), 0.909297, ("", ""))
        >>> [asked.is_right(typed) for typed in ("0.91", "0.9", "0.92", ".9093", "x")]
        [True, False, False, True, False]
        """
        typed = _plain(typed)
        if self.choices:
            return any(typed in self._names(k) for k in self.right)
        assert isinstance(self.answer, float)
        return is_rounded(typed, self.answer)

    def is_answer(self, typed: str) -> bool:
        """Whether an answer is of the kind that is asked for, right or wrong: one of the choices, or a number."""
        typed = _plain(typed)
        if self.choices:
            return any(typed in self._names(k + 1) for k in range(len(self.choices)))
        return _TYPED.fullmatch(typed) is not None

    @property
    def wanted(self) -> str:
        """What kind of answer that is, as a sentence."""
        if self.choices:
            return f"The answer is a number from 1 to {len(self.choices)}."
        return "The answer is a number, rounded to two digits or more, as 0.25 or 1e-3."

    def _names(self, k: int) -> set[str]:
        """What a choice may be called: by its place, its text, or the node in it."""
        text = self.choices[k - 1]
        return {str(k), text, text.partition(": ")[0]}


def _plain(typed: str) -> str:
    """What was typed, a choice without its bracket: `2)` is 2."""
    typed = typed.strip().replace("−", "-")
    return typed[:-1] if re.fullmatch(r"\d+[).]", typed) else typed


def is_rounded(typed: str, x: float) -> bool:
    """Whether a text is a number, or the number rounded to at least two digits."""
    if not _TYPED.fullmatch(typed):
        return False
    off = abs(float(typed) - x)
    if off <= _EXACT * abs(x):
        return True
    mantissa, _, power = typed.lower().partition("e")
    last = int(power or 0) - len(mantissa.partition(".")[2])  # the places of the last digit typed, and of the first one
    first = int(f"{x:.1e}".partition("e")[2])
    return last < first and off <= 0.5000001 * 10.0**last


def question(trace: Trace, asked: Mapping[str, Any], show: Callable[[Any], str]) -> Question:
    """A question about a trace of numbers.

    Args:
        asked: its `kind`, and the labels of the nodes that it is about, `of`, `towards` and `after`.
        show: how to write numbers.
    """
    return getattr(_Asking(trace, show), f"ask_{asked['kind']}")(  # type: ignore[no-any-return]
        **{key: label for key, label in asked.items() if key != "kind"}
    )


class _Asking:
    def __init__(self, trace: Trace, show: Callable[[Any], str]) -> None:
        self._trace = trace
        self._show = show
        self._words = Words(trace, show)
        self._users: list[list[int]] = [[] for _ in trace.values]
        for i in range(len(trace.tape) - 1, -1, -1):
            for j in dict.fromkeys(trace.tape.inputs[i]):
                self._users[j].append(i)

    def ask_value(self, of: str) -> Question:
        """The value of an operation."""
        i = self._node(of)
        step = next(step for step in self._trace.forward if step.node == i)
        filled_in = self._words.forward(step).rpartition(" = ")[0]
        hints = f"Fill in the values of its inputs: {name(self._trace, i)}.", f"{filled_in}: what is that?"
        return self._number("value", f"What is the value of {of}?", self._trace.values[i], hints)

    def ask_local(self, of: str, towards: str) -> Question:
        """A local derivative."""
        i, j = self._node(of), self._node(towards)
        op, given = self._trace.tape.nodes[i].op, self._given(i, j)
        assert op is not None
        text = f"What is the local derivative of {of} towards {towards}?"
        if op.gate is Gate.ROUTE:
            first = "What was chosen passes all of a change on, what was not chosen nothing of it."
            chosen = self._words.forward(next(step for step in self._trace.forward if step.node == i))
            return self._number("local", text, given.local, (first, chosen))
        rule = described(op)
        towards_input = [*rule.derivatives][given.position]
        slope = f"the slope of {rule.call} towards {towards_input} is {rule.derivatives[towards_input]}"
        formula = self._words.slope(i, given.position)
        step = next(step for step in self._trace.backward if step.node == i)
        second = self._words.backward(step) if formula == self._show(given.local) else f"{formula}: what is that?"
        hints = f"It is about {name(self._trace, i)} alone: {slope}.", second
        return self._number("local", text, given.local, hints)

    def ask_adjoint(self, of: str) -> Question:
        """An adjoint."""
        i = self._node(of)
        users = self._users[i]
        labels = " and ".join(self._trace.labels[user] for user in users)
        each = "it hands on" if len(users) == 1 else "each hands it"
        total = "" if len(users) == 1 else "; add them up"
        first = f"{of} is used by {labels}: {each} local derivative × adjoint{total}."
        products = (self._product(user, i) for user in users)
        return self._number(
            "adjoint", f"What is the adjoint of {of}?", self._trace.adjoints[i], (first, "; ".join(products))
        )

    def ask_next(self, after: Sequence[str]) -> Question:
        """Which node can hand on next."""
        done = {self._node(label) for label in after}
        waiting = [step.node for step in self._trace.backward if step.node not in done]
        ready = [i for i in waiting if self._reached(i) <= done]
        choices = sorted((self._trace.labels[i] for i in waiting), key=str.lower)
        right = tuple(choices.index(self._trace.labels[i]) + 1 for i in ready)
        gone = f"{', '.join(after)} {'has' if len(after) == 1 else 'have'} handed on"
        held = (
            f"{self._trace.labels[i]} waits for {' and '.join(self._trace.labels[j] for j in self._reached(i) - done)}"
            for i in waiting
            if i not in ready
        )
        hints = (
            "A node can go as soon as all that use it have gone.",
            "; ".join(held) + "." if len(ready) < len(waiting) else "All of them can go.",
        )
        text = f"{gone}. Which node can go next?"
        return Question("next", text, tuple(choices), right, choices[right[0] - 1], hints)

    def ask_bug(self, of: str) -> Question:
        """Which adjoint a program gets wrong that assigns where it should add."""
        trace, wrong = self._trace, self._assigned()
        listed = [i for i, adjoint in enumerate(wrong) if adjoint is not None and i not in trace.tape.outputs]
        listed.reverse()
        choices = tuple(f"{trace.labels[i]}: {self._show(wrong[i])}" for i in listed)
        first = self._node(of)
        assert next(i for i in listed if wrong[i] != trace.adjoints[i]) == first
        users = self._users[first]
        hints = (
            "`=` forgets what was there before: look for a node that is used more than once.",
            f"{of} is used by {' and '.join(trace.labels[i] for i in users)}; "
            f"{'; '.join(self._product(user, first) for user in users)}.",
        )
        text = "A program says `adjoint = local × …` where += belongs, and finds these. Which is the first wrong one?"
        place = listed.index(first)
        return Question("bug", text, choices, (place + 1,), choices[place], hints)

    def _assigned(self) -> list[Any]:
        """The adjoints with = in the place of +=."""
        trace = self._trace
        found: list[Any] = [None] * len(trace.tape)
        found[trace.tape.outputs[0]] = 1.0
        for step in trace.backward:
            for given in step.contributions:
                found[given.to] = given.local * found[step.node]
        return found

    def _number(self, kind: str, text: str, x: Any, hints: tuple[str, str]) -> Question:
        assert isinstance(x, float)
        assert math.isfinite(x)
        return Question(kind, text, (), (), x or 0.0, hints)

    def _node(self, label: str) -> int:
        return self._trace.labels.index(label)

    def _given(self, user: int, to: int) -> Any:
        return next(given for given in self._trace.handed[user] if given.to == to)

    def _reached(self, i: int) -> set[int]:
        return {j for j in self._users[i] if self._trace.tape.reached[j]}

    def _product(self, user: int, to: int) -> str:
        """What a user hands to a node, without saying what it comes to."""
        step = next(step for step in self._trace.backward if step.node == user)
        given = [given for given in step.contributions if given.to == to]
        sentences = (self._words.contribution(step, part).partition(": ")[2] for part in given)
        products = " and ".join(sentence.partition(", ")[0].rpartition(" = ")[0] for sentence in sentences)
        label = self._trace.labels[user]
        where = "" if given[0].local is not None else f", where the adjoint of {label} is {self._show(step.adjoint)}"
        return f"{label} hands it {products}{where}"

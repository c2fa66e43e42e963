"""Lessons on backpropagation: text, a formula, and questions, all filled in from a trace.

A lesson is read from `lessons.toml`. The placeholders in its text are replaced by numbers from the trace of its
formula. A question has its answer and two hints, the first without numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from autodiff_cli.explain.operations import Description
from autodiff_cli.explain.record import Contribution, Trace
from autodiff_cli.explain.sentences import StepSentences, label_with_definition
from autodiff_cli.explain.tracing import trace
from autodiff_cli.explain.views import PathNetwork, forward_operations, reverse_operations
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.node import Gate
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.system import read_tables

_NUMBER = re.compile(r"[-+]?(\d*?)(0*)(\.\d*)?(?:e([-+]?\d+))?", re.IGNORECASE)
_RELATIVE_TOLERANCE = 1e-9  # an answer typed in full may differ by this much
_ROUNDED_TERMS = 0.01  # an expression may differ by this much, relatively, since its numbers may be rounded


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a trace.

    Attributes:
        kind: `value`, `local`, `adjoint`, `next` or `bug`.
        text: the question itself.
        choices: the answers to choose from; empty if the answer is a number.
        correct: the numbers of the correct choices, counted from 1.
        answer: the correct number, or the text of the first correct choice.
        hints: a hint without numbers, and one with numbers.
    """

    kind: str
    text: str
    choices: tuple[str, ...]
    correct: tuple[int, ...]
    answer: float | str
    hints: tuple[str, str]

    def is_correct(self, typed: str) -> bool:
        """Whether an answer is correct: a choice by its number or text, a number rounded to two digits or more, or an
        expression of numbers.

        >>> question = Question("value", "?", (), (), 0.909297, ("", ""))
        >>> [question.is_correct(typed) for typed in ("0.91", "0.9", "0,92", ".9093", "sin(2)", "x")]
        [True, False, False, True, True, False]
        """
        typed = _normalize(typed)
        if self.choices:
            return any(typed in self._accepted_texts(k) for k in self.correct)
        assert isinstance(self.answer, float)
        return is_rounded(typed, self.answer)

    def is_valid(self, typed: str) -> bool:
        """Whether an answer has the expected form, correct or not: one of the choices, or an expression of numbers."""
        typed = _normalize(typed)
        if self.choices:
            return any(typed in self._accepted_texts(k + 1) for k in range(len(self.choices)))
        return not math.isnan(_evaluate(typed))

    @property
    def expected_form(self) -> str:
        """The expected form of the answer, as a sentence."""
        if self.choices:
            return f"The answer is a number from 1 to {len(self.choices)}."
        return "The answer is a number, rounded to two digits or more, such as 0.25, 1.5e-3 or 2*cos(0.6)."

    def _accepted_texts(self, k: int) -> set[str]:
        """Return the texts that select a choice: its number, its text, or the node that it names."""
        text = self.choices[k - 1]
        return {str(k), text, f"{k}) {text}", text.partition(": ")[0]}


def _normalize(typed: str) -> str:
    """Return what was typed without spaces, with decimal points; a choice without its bracket: `2)` is `2`."""
    typed = re.sub(r"(?<=\d),(?=\d)", ".", typed.strip().replace("−", "-"))
    return typed[:-1] if re.fullmatch(r"\d+[).]", typed) else typed


def _evaluate(typed: str) -> float:
    """Return the value of an expression of numbers; nan for anything else."""
    try:
        return float(Formula.read(typed)())
    except (ExpressionError, TypeError):
        return math.nan


def is_rounded(typed: str, x: float) -> bool:
    """Whether a text is the number `x`, in full or rounded to at least two digits, or an expression with this value.

    Zeros at the end of a whole number, such as 120, count as digits up to the second.
    """
    number, off = _NUMBER.fullmatch(typed), abs(_evaluate(typed) - x)
    if number is None or off <= _RELATIVE_TOLERANCE * abs(x):
        return off <= _ROUNDED_TERMS * abs(x)
    digits, zeros, decimals, power = number.groups("")
    places = 1 - len(decimals) if decimals else max(0, min(len(zeros), len(digits + zeros) - 2))
    # Powers of ten of the last digit typed, and of the first digit of x.
    last, first = int(power or 0) + places, int(f"{x:.1e}".partition("e")[2])
    return last < first and off <= 0.5000001 * 10.0**last


def make_question(trace: Trace, specification: Mapping[str, Any], show: Callable[[Any], str]) -> Question:
    """Return a question about a trace of numbers.

    Args:
        specification: the `kind` of the question, and the labels of its nodes: `of`, `towards` and `after`.
        show: returns the text of a number.
    """
    return getattr(_QuestionMaker(trace, show), f"ask_{specification['kind']}")(  # type: ignore[no-any-return]
        **{key: label for key, label in specification.items() if key != "kind"}
    )


def _node(trace: Trace, label: str) -> int:
    """Return the id of the node with a label."""
    return trace.labels.index(label)


def _contribution(trace: Trace, user: int, to: int) -> Contribution:
    """Return the first contribution of a node to one of its inputs."""
    return next(contribution for contribution in trace.contributions[user] if contribution.to == to)


class _QuestionMaker:
    def __init__(self, trace: Trace, show: Callable[[Any], str]) -> None:
        self._trace = trace
        self._show = show
        self._words = StepSentences(trace, show)
        self._forward_steps = {step.node: step for step in trace.forward}
        self._backward_steps = {step.node: step for step in trace.backward}
        self._users = [[*dict.fromkeys(reversed(users))] for users in trace.users]

    def ask_value(self, of: str) -> Question:
        """Ask for the value of an operation."""
        i = _node(self._trace, of)
        filled_in = self._words.forward(self._forward_steps[i]).rpartition(" = ")[0]
        task = f"Fill in the values of its inputs: {label_with_definition(self._trace, i)}."
        hints = task, f"{filled_in}: what is that?"
        return self._numeric_question("value", f"What is the value of {of}?", self._trace.values[i], hints)

    def ask_local(self, of: str, towards: str) -> Question:
        """Ask for a local derivative."""
        i, j = _node(self._trace, of), _node(self._trace, towards)
        op, contribution = self._trace.tape.nodes[i].operation, _contribution(self._trace, i, j)
        text = f"What is the local derivative of {of} with respect to {towards}?"
        if op.gate is Gate.ROUTE:
            first = "The selected input passes a change on in full, the others not at all."
            hints = first, self._words.forward(self._forward_steps[i])
            return self._numeric_question("local", text, contribution.local, hints)
        rule = Description(op)
        towards_input = [*rule.derivatives][contribution.position]
        slope = f"the derivative of {rule.call} with respect to {towards_input} is {rule.derivatives[towards_input]}"
        formula = self._words.slope(i, contribution.position)
        is_number = formula == self._show(contribution.local)
        second = self._words.backward(self._backward_steps[i]) if is_number else f"{formula}: what is that?"
        hints = f"Only one operation matters: {label_with_definition(self._trace, i)}: {slope}.", second
        return self._numeric_question("local", text, contribution.local, hints)

    def ask_adjoint(self, of: str) -> Question:
        """Ask for an adjoint."""
        i = _node(self._trace, of)
        users = self._users[i]
        labels = " and ".join(self._trace.labels[user] for user in users)
        each, total = ("it", "") if len(users) == 1 else ("each", "; add the contributions")
        first = f"{of} is used by {labels}: {each} contributes local derivative × adjoint{total}."
        hints = first, "; ".join(self._product_in_words(user, i) for user in users)
        return self._numeric_question("adjoint", f"What is the adjoint of {of}?", self._trace.adjoints[i], hints)

    def ask_next(self, after: Sequence[str]) -> Question:
        """Ask which node is ready for the next backward step."""
        done = {_node(self._trace, label) for label in after}
        waiting = [step.node for step in self._trace.backward if step.node not in done]
        ready = [i for i in waiting if self._users_with_gradient(i) <= done]
        choices = sorted((self._trace.labels[i] for i in waiting), key=str.lower)
        right = tuple(choices.index(self._trace.labels[i]) + 1 for i in ready)
        labels = self._trace.labels
        reasons = (
            f"{labels[i]} waits for {' and '.join(labels[j] for j in self._users_with_gradient(i) - done)}"
            for i in waiting
            if i not in ready
        )
        hints = "A node is ready as soon as all its users are done.", "; ".join(reasons) + "."
        text = f"{', '.join(after)} {'is' if len(after) == 1 else 'are'} done. Which node can be next?"
        return Question("next", text, tuple(choices), right, choices[right[0] - 1], hints)

    def ask_bug(self, of: str) -> Question:
        """Ask which adjoint is wrong in a program that assigns contributions instead of adding them."""
        trace, wrong = self._trace, self._adjoints_by_assignment()
        candidates = [i for i in reversed(range(len(wrong))) if wrong[i] is not None and i not in trace.tape.outputs]
        choices = tuple(f"{trace.labels[i]}: {self._show(wrong[i])}" for i in candidates)
        first = _node(self._trace, of)
        assert next(i for i in candidates if wrong[i] != trace.adjoints[i]) == first
        users = self._users[first]
        hints = (
            "= overwrites earlier contributions: look for a node that is used more than once.",
            f"{of} is used by {' and '.join(trace.labels[i] for i in users)}; "
            f"{'; '.join(self._product_in_words(user, first) for user in users)}.",
        )
        text = "A program computes these adjoints with adjoint = local × … instead of +=. Which is wrong first?"
        position = candidates.index(first)
        return Question("bug", text, choices, (position + 1,), choices[position], hints)

    def _adjoints_by_assignment(self) -> list[Any]:
        """Return the adjoints that a program computes with `=` instead of `+=`."""
        trace = self._trace
        adjoints: list[Any] = [None] * len(trace.tape)
        adjoints[trace.tape.outputs[0]] = 1.0
        for step in trace.backward:
            for contribution in step.contributions:
                adjoints[contribution.to] = contribution.local * adjoints[step.node]
        return adjoints

    def _numeric_question(self, kind: str, text: str, x: float, hints: tuple[str, str]) -> Question:
        return Question(kind, text, (), (), x or 0.0, hints)

    def _users_with_gradient(self, i: int) -> set[int]:
        return {j for j in self._users[i] if self._trace.tape.is_active[j]}

    def _product_in_words(self, user: int, to: int) -> str:
        """Return the contribution of a user to a node as a product in words, without the result."""
        step = self._backward_steps[user]
        contributions = [contribution for contribution in step.contributions if contribution.to == to]
        sentences = (self._words.contribution(step, part).partition(": ")[2] for part in contributions)
        products = " and ".join(sentence.partition(", ")[0].rpartition(" = ")[0] for sentence in sentences)
        label = self._trace.labels[user]
        is_array = contributions[0].local is None
        where = f", where the adjoint of {label} is {self._show(step.adjoint)}" if is_array else ""
        return f"{label} contributes {products}{where}"


_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_DIFFERENCE = re.compile(r"(forward|central) difference (\S+) (\S+)")


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson.

    Attributes:
        name: the name on the command line.
        title: the title.
        trace: both passes over the formula of the lesson.
        text: the paragraphs; one that begins with `>>>` is a Python session.
        question_trace: the trace that the questions are about, at other values.
        questions: the questions.
    """

    name: str
    title: str
    trace: Trace
    text: tuple[str, ...]
    question_trace: Trace
    questions: tuple[Question, ...]


def is_session(paragraph: str) -> bool:
    """Whether a paragraph of a lesson is a Python session, to be shown line by line."""
    return paragraph.startswith(">>>")


@cache
def _lesson_table() -> dict[str, Mapping[str, Any]]:
    return {lesson["name"]: lesson for lesson in read_tables(__file__, "lessons.toml")["lesson"]}


def lesson_titles() -> dict[str, str]:
    """Return the titles of all lessons by name, in the recommended order."""
    return {name: lesson["title"] for name, lesson in _lesson_table().items()}


def load_lesson(name: str, show: Callable[[Any], str]) -> Lesson:
    """Return a lesson by its name.

    Args:
        show: returns the text of a number or an array.

    Raises:
        KeyError: if there is no such lesson.

    >>> lesson = load_lesson("chain", lambda x: f"{x:.3g}")
    >>> lesson.title
    'The chain rule: local slopes, multiplied'
    >>> lesson.text[1][:58]
    'Going forward, values are computed: a = 1.5, then b = 0.99'
    """
    entry = _lesson_table()[name]
    formula = Formula.read(entry["formula"])
    lesson_trace, question_trace = (
        trace(formula, {key: float(text) for key, text in entry[values].items()}) for values in ("values", "asked_at")
    )
    numbers = _PlaceholderTexts(lesson_trace, entry.get("learned", ()), show)
    return Lesson(
        name,
        entry["title"],
        lesson_trace,
        tuple(_PLACEHOLDER.sub(lambda slot: numbers.text(slot[1]), paragraph.strip()) for paragraph in entry["text"]),
        question_trace,
        tuple(make_question(question_trace, about, show) for about in entry["questions"]),
    )


class _PlaceholderTexts:
    """The texts for the placeholders in a lesson's paragraphs."""

    def __init__(self, recorded: Trace, learned: tuple[str, ...], show: Callable[[Any], str]) -> None:
        self._trace = recorded
        self._learned = learned
        self._show = show

    def text(self, slot: str) -> str:
        """Return the text for a placeholder; the head of `lessons.toml` lists them."""
        what, _, of = slot.partition(" ")
        if slot.startswith("value after "):
            return self._show(self._value_after(float(slot.rpartition(" ")[2])))
        if (difference := _DIFFERENCE.fullmatch(slot)) is not None:
            return self._show(self._difference(difference[2], float(difference[3]), difference[1] == "central"))
        match what:
            case "value":
                return self._show(self._trace.values[_node(self._trace, of)])
            case "adjoint":
                return self._show(self._trace.adjoints[_node(self._trace, of)])
            case "local" | "amount":
                user, to = (_node(self._trace, label.strip()) for label in of.split("->"))
                return self._show(getattr(_contribution(self._trace, user, to), what))
            case "variables":
                return str(len(self._trace.point))
            case "forward":
                return str(forward_operations(self._trace, self._trace.wrt).multiplications)
            case "reverse":
                return str(reverse_operations(self._trace).multiplications)
            case "paths":
                return str(PathNetwork(self._trace).from_variable(of, 0).total)
            case "uses":
                return str(len(self._trace.users[_node(self._trace, of)]))
            case "rate":
                return self._show(float(of))
            case "updated":
                name, rate = of.split()
                return self._show(self._updated_value(name, float(rate)))
        raise KeyError(slot)

    def _difference(self, name: str, step: float, is_central: bool) -> float:
        """Return the difference quotient of the output in a variable."""
        f, point = self._trace.expression, self._trace.point
        ahead, behind = (f.value({**point, name: point[name] + h}) for h in (step, -step if is_central else 0.0))
        return float((ahead - behind) / (2 * step if is_central else step))

    def _updated_value(self, name: str, rate: float) -> float:
        return float(self._trace.point[name] - rate * self._trace.gradient[name])

    def _value_after(self, rate: float) -> Any:
        updated = {name: self._updated_value(name, rate) for name in self._learned}
        return self._trace.expression.value({**self._trace.point, **updated})

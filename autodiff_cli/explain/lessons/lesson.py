"""A lesson: read from the table `lessons.toml`, its numbers filled in from the trace of its formula."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from autodiff_cli.explain.lessons.questions import Question, question
from autodiff_cli.explain.record import Handed, Trace
from autodiff_cli.explain.tracing import trace
from autodiff_cli.explain.views.forward_mode import forward_work, reverse_work
from autodiff_cli.explain.views.paths import Network
from autodiff_cli.formula.formula import Formula

_GAP = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson.

    Attributes:
        name: by which it is asked for.
        trace: both passes over its formula.
        text: its paragraphs.
        asked: the trace that the questions are about, at other values.
    """

    name: str
    title: str
    trace: Trace
    text: tuple[str, ...]
    asked: Trace
    questions: tuple[Question, ...]


@cache
def _table() -> dict[str, Mapping[str, Any]]:
    import tomllib

    text = (Path(__file__).parent / "lessons.toml").read_text(encoding="utf-8")
    return {lesson["name"]: lesson for lesson in tomllib.loads(text)["lesson"]}


def titles() -> dict[str, str]:
    """The titles of all lessons by name, in the order in which they are best read."""
    return {name: lesson["title"] for name, lesson in _table().items()}


def lesson(name: str, show: Callable[[Any], str]) -> Lesson:
    """A lesson by its name.

    Args:
        show: how to write numbers and arrays.

    Raises:
        KeyError: if there is none of that name.

    >>> found = lesson("chain", lambda x: f"{x:.3g}")
    >>> found.title
    'The chain rule: local slopes, multiplied'
    >>> found.text[1][:58]
    'Going forward, values are computed: a = 1.5, then b = 0.99'
    """
    given = _table()[name]
    formula = Formula.read(given["formula"])
    recorded, asked = (
        trace(formula, {key: float(text) for key, text in given[values].items()}) for values in ("values", "asked_at")
    )
    numbers = _Numbers(recorded, given.get("learned", ()), show)
    return Lesson(
        name,
        given["title"],
        recorded,
        tuple(_GAP.sub(lambda gap: numbers.text(gap[1]), paragraph) for paragraph in given["text"]),
        asked,
        tuple(question(asked, about, show) for about in given["questions"]),
    )


class _Numbers:
    """What stands in the gaps of a lesson's text."""

    def __init__(self, recorded: Trace, learned: tuple[str, ...], show: Callable[[Any], str]) -> None:
        self._trace = recorded
        self._learned = learned
        self._show = show

    def text(self, gap: str) -> str:
        """The text of a gap, see the table."""
        if gap in _COUNTED:
            return str(_COUNTED[gap](self._trace))
        what, _, of = gap.partition(" ")
        if gap.startswith("value after "):
            return self._show(self._value_after(float(gap.rpartition(" ")[2])))
        match what:
            case "value":
                return self._show(self._trace.values[self._node(of)])
            case "adjoint":
                return self._show(self._trace.adjoints[self._node(of)])
            case "local" | "amount":
                return self._show(getattr(self._handed(of), what))
            case "paths":
                return str(Network(self._trace).from_variable(of, 0).total)
            case "uses":
                return str(Counter(j for inputs in self._trace.tape.inputs for j in inputs)[self._node(of)])
            case "rate":
                return self._show(float(of))
            case "moved":
                name, rate = of.split()
                return self._show(self._moved(name, float(rate)))
        raise KeyError(gap)

    def _node(self, label: str) -> int:
        return self._trace.labels.index(label)

    def _handed(self, edge: str) -> Handed:
        user, to = (self._node(label.strip()) for label in edge.split("->"))
        return next(given for given in self._trace.handed[user] if given.to == to)

    def _moved(self, name: str, rate: float) -> float:
        return float(self._trace.point[name] - rate * self._trace.gradient[name])

    def _value_after(self, rate: float) -> Any:
        moved = {name: self._moved(name, rate) for name in self._learned}
        return self._trace.expression.value({**self._trace.point, **moved})


_COUNTED: Mapping[str, Callable[[Trace], int]] = {
    "variables": lambda found: len(found.point),
    "operations": lambda found: sum(1 for _ in found.forward),
    "forward work": lambda found: forward_work(found, found.wrt).multiplications,
    "reverse work": lambda found: reverse_work(found).multiplications,
}

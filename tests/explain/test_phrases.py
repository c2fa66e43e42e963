"""Phrases: sentences with slots, filled in with any facts, and the same as data."""

from __future__ import annotations

import json

import pytest

from autodiff_cli.explain.phrases import Cases, Phrase, Sides, Slot, data, fill, negative, phrase_of


class Known:
    """Facts that are given: texts by slot, and one case."""

    def __init__(self, case: int = 0, **texts: str) -> None:
        self._case = case
        self._texts = texts

    def text(self, what: str, of: int) -> str:
        return self._texts[f"{what}{of}"]

    def case(self, by: str, of: int) -> int:  # noqa: ARG002 - it is the same for all
        return self._case


X, Y = Slot("value", 0), Slot("value", 1)


@pytest.mark.parametrize(
    ("written", "x", "y", "said"),
    [
        (f"{negative(X)}^2", "3", "", "3^2"),
        (f"({negative(X)})^2", "3", "", "3^2"),
        (f"({negative(X)})^2", "-3", "", "(-3)^2"),
        (f"cos({negative(X)})", "-3", "", "cos(-3)"),
        (f"cos({negative(X)})", "3", "", "cos(3)"),
        (f"{negative(X)} × ({negative(Y)})", "-1", "-2", "-1 × (-2)"),
        (f"({negative(X)} + 1)/{negative(Y)}", "-1", "2", "(-1 + 1)/2"),
        ("nothing to fill in", "", "", "nothing to fill in"),
    ],
)
def test_brackets_are_there_for_negative_numbers_only(written: str, x: str, y: str, said: str) -> None:
    assert fill(phrase_of(written), Known(value0=x, value1=y)) == said


def test_many_inputs_have_slots_of_their_own() -> None:
    written = ", ".join(negative(Slot("value", k)) for k in range(1000))
    numbers = [str(k * k) for k in range(1000)]
    facts = Known(**{f"value{k}": number for k, number in enumerate(numbers)})
    assert fill(phrase_of(written), facts) == ", ".join(numbers)


def test_equal_sides_are_said_once_and_long_ones_not_at_all() -> None:
    sides: Phrase = (Sides(((X,), ("2 + 3",), (Y,))),)
    assert fill(sides, Known(value0="2 + 3", value1="5")) == "2 + 3 = 5"
    assert fill((Sides(((X,), (Y,)), longest=4),), Known(value0="12345", value1="123456")) == "123456"


def test_the_case_that_is_true_is_said() -> None:
    phrase: Phrase = ("it ", Cases("truth", (("is not",), ("is ", X))))
    assert fill(phrase, Known(0)) == "it is not"
    assert fill(phrase, Known(1, value0="7")) == "it is 7"


def test_a_phrase_is_data() -> None:
    phrase: Phrase = ("a ", Slot("local", 2, True), Sides(((X,),), 40), Cases("use", ((), ("b",)), 1))
    assert json.loads(json.dumps(data(phrase))) == [
        "a ",
        ["local", 2, 1],
        ["sides", 40, [["value", 0, 0]]],
        ["cases", "use", 1, [], ["b"]],
    ]

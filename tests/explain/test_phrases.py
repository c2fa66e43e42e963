"""Phrases: sentences with slots, filled in with any facts, and the same as data."""

from __future__ import annotations

import json

import pytest

from autodiff_cli.explain.sentences import Cases, Phrase, Sides, Slot, fill, formula_phrase, phrase_json
from autodiff_cli.graph.node import variable
from autodiff_cli.language.printer import to_pieces
from autodiff_cli.language.program import read
from autodiff_cli.ops import get_op


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
    ("formula", "x", "y", "said"),
    [
        ("x^2", "3", "", "3^2"),
        ("x^2", "-3", "", "(-3)^2"),
        ("2^x", "-3", "", "2^-3"),
        ("cos(x)", "-3", "", "cos(-3)"),
        ("cos(x)^y", "3", "-1", "cos(3)^-1"),
        ("(x + 1)/y", "-1", "2", "(-1 + 1)/2"),
        ("y - x*y", "-1", "-2", "-2 - (-1)*(-2)"),
        ("-x", "-1", "", "-(-1)"),
        ("x", "-1", "", "-1"),
        ("2", "", "", "2"),
    ],
)
def test_brackets_are_there_for_negative_numbers_only(formula: str, x: str, y: str, said: str) -> None:
    program = read(formula)
    slots = {leaf: {"x": X, "y": Y}[name] for name, leaf in program.leaves.items()}
    assert fill(formula_phrase(to_pieces(program.output, slots), slots), Known(value0=x, value1=y)) == said


def test_many_inputs_have_slots_of_their_own() -> None:
    leaves = [variable(f"x{k}") for k in range(1000)]
    slots = {leaf: Slot("value", k) for k, leaf in enumerate(leaves)}
    numbers = [str(k * k) for k in range(1000)]
    facts = Known(**{f"value{k}": number for k, number in enumerate(numbers)})
    said = fill(formula_phrase(to_pieces(get_op("max")(*leaves), slots), slots), facts)
    assert said == f"max({', '.join(numbers)})"


def test_what_repeats_is_named_where_that_is_shorter() -> None:
    x = variable("x")
    root = get_op("sin")(get_op("exp")(x) + 1)
    slots = {x: X}
    assert fill(formula_phrase(to_pieces(root * root, slots), slots), Known(value0="-2")) == (
        "t1 = sin(exp(-2) + 1); t1*t1"
    )


def test_a_sentence_shows_equal_sides_once_and_omits_long_ones() -> None:
    sides: Phrase = (Sides(((X,), ("2 + 3",), (Y,))),)
    assert fill(sides, Known(value0="2 + 3", value1="5")) == "2 + 3 = 5"
    assert fill((Sides(((X,), (Y,)), max_length=4),), Known(value0="12345", value1="123456")) == "123456"


def test_a_sentence_shows_the_case_that_holds() -> None:
    phrase: Phrase = ("it ", Cases("truth", (("is not",), ("is ", X))))
    assert fill(phrase, Known(0)) == "it is not"
    assert fill(phrase, Known(1, value0="7")) == "it is 7"


def test_a_phrase_is_data() -> None:
    phrase: Phrase = ("a ", Slot("local", 2, True), Sides(((X,),), 40), Cases("use", ((), ("b",)), 1))
    assert json.loads(json.dumps(phrase_json(phrase))) == [
        "a ",
        ["local", 2, 1],
        ["sides", 40, [["value", 0, 0]]],
        ["cases", "use", 1, [], ["b"]],
    ]


def test_sides_of_an_equation_that_are_too_long_are_left_out_except_for_the_last() -> None:
    for length in range(1, 9):
        for most in range(9):
            said = fill((Sides((("a" * length,), ("b" * 6,)), most),), Known())
            assert said == ("a" * length + " = " if not most or length <= most else "") + "b" * 6

"""Lessons: no number in them is written by hand, what they call right is right, and hints come in two stages."""

from __future__ import annotations

import doctest
import math
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff_cli as ad
import autodiff_cli.explain.lessons as lessons
from autodiff_cli.explain.lessons import Question, is_rounded
from autodiff_cli.render.formatting import number_formats
from tests.each import each

SHOW = number_formats(None)[1]
NAMES = [*lessons.lesson_titles()]
TABLE = {
    lesson["name"]: lesson
    for lesson in tomllib.loads((Path(lessons.__file__).parent / "lessons.toml").read_text(encoding="utf-8"))["lesson"]
}


def test_what_a_course_on_backpropagation_has_is_there() -> None:
    assert {"chain", "fan-out", "gates", "dead-relu", "diamond", "forward-reverse", "vanishing", "softmax"} <= {*NAMES}
    assert {"training-step", "slope", "matrices", "mini-batch", "shared-weights", "gradient-check"} <= {*NAMES}
    assert "engine" in NAMES


@each("name", NAMES)
def test_no_number_is_written_by_hand(name: str) -> None:
    for paragraph in TABLE[name]["text"]:
        assert ">>>" in paragraph or not re.search(r"\d", re.sub(r"\{[^{}]*\}", "", paragraph)), paragraph
    assert not any("{" in paragraph for paragraph in lessons.load_lesson(name, SHOW).text)


@each("name", NAMES)
def test_answers_are_those_of_an_independent_gradient(name: str) -> None:
    """Adjoints by central differences of the formula in which the node is a variable."""
    lesson = lessons.load_lesson(name, SHOW)
    f, point = lesson.question_trace.expression, dict(lesson.question_trace.point)
    for row, asked in zip(TABLE[name]["questions"], lesson.questions, strict=True):
        if row["kind"] == "adjoint" and row["of"] in point:
            step = 1e-6
            ahead, behind = (float(ad.parse(f.text)({**point, row["of"]: point[row["of"]] + h})) for h in (step, -step))
            assert asked.answer == pytest.approx((ahead - behind) / (2 * step), rel=1e-6, abs=1e-9)
        if row["kind"] == "value":
            statements = {text.partition("=")[0].strip(): text.partition("=")[2] for text in f.text.split(";")}
            prefix = f.text.partition(f"{row['of']} =")[0]
            inner = ad.parse(prefix + statements[row["of"]])
            assert asked.answer == float(inner({key: point[key] for key in inner.variables}))


@each("name", NAMES)
def test_what_is_right_is_accepted_and_what_is_wrong_is_not(name: str) -> None:
    for asked in lessons.load_lesson(name, SHOW).questions:
        if asked.choices:
            for k, choice in enumerate(asked.choices, 1):
                assert asked.is_correct(str(k)) is asked.is_correct(choice) is (k in asked.correct)
            assert 0 < len(asked.correct) < len(asked.choices) or len(asked.choices) == 1
        else:
            assert isinstance(asked.answer, float)
            assert asked.is_correct(repr(asked.answer))
            assert not asked.is_correct(repr(asked.answer + 0.7))
        assert not asked.is_correct("")


@each("name", NAMES)
def test_the_first_hint_has_no_number_of_the_point(name: str) -> None:
    """What is written in the formula itself may stand in it, and an exponent of a rule."""
    lesson = lessons.load_lesson(name, SHOW)
    for asked in lesson.questions:
        first, second = asked.hints
        assert not re.search(r"\d\.\d", first)
        assert first != second.strip(".") != ""
        assert not asked.choices or "`=`" in first or not re.search(r"\d", first)


@each("name", NAMES)
def test_no_answer_stands_in_the_text(name: str) -> None:
    """Answers such as 1, or a small whole number, may stand there by chance."""
    lesson = lessons.load_lesson(name, SHOW)
    for asked in lesson.questions:
        if isinstance(asked.answer, float) and not asked.answer.is_integer():
            assert not any(SHOW(asked.answer) in paragraph for paragraph in lesson.text)


@each("name", NAMES)
def test_no_sentence_names_a_direction_of_the_drawing(name: str) -> None:
    """Whether inputs are to the left or above depends on the window."""
    lesson = lessons.load_lesson(name, SHOW)
    for text in (*lesson.text, *(text for question in lesson.questions for text in (question.text, *question.hints))):
        assert not re.search(r"(?i)\bon the (left|right)\b|\b(above|below|on top|beneath)\b", text), text


@each("name", NAMES)
def test_no_sentence_has_more_than_25_words(name: str) -> None:
    lesson = lessons.load_lesson(name, SHOW)
    texts = [text for text in lesson.text if not lessons.is_session(text)]
    texts += [text for question in lesson.questions for text in (question.text, *question.hints)]
    for sentence in (sentence for text in texts for sentence in re.split(r"(?<=[.?!;])\s+", text)):
        assert len(re.findall(r"[^\W\d_]{2,}", sentence)) <= 25, sentence


@each("name", NAMES)
def test_python_sessions_give_what_they_show(name: str) -> None:
    sessions = "\n".join(text for text in lessons.load_lesson(name, SHOW).text if lessons.is_session(text))
    example = doctest.DocTestParser().get_doctest(sessions + "\n", {}, name, None, None)
    assert bool(example.examples) == (name == "engine")
    assert doctest.DocTestRunner().run(example).failed == 0


def test_differences_come_close_to_the_gradient_unless_the_step_is_tiny() -> None:
    text = " ".join(lessons.load_lesson("gradient-check", SHOW).text)
    gradient, forward, central, small, tiny = (
        float(re.search(rf"{before} (-?[\d.e-]*\d)", text)[1])  # type: ignore[index]
        for before in ("pass gives", "h = 0.1 gives", r"\(h \+ h\), gives", "central difference is", "it is")
    )
    assert abs(small - gradient) <= abs(central - gradient) < abs(forward - gradient)
    assert abs(tiny - gradient) > 100 * abs(small - gradient)


def test_which_nodes_can_go_next() -> None:
    lesson = lessons.load_lesson("diamond", SHOW)
    first, second = (asked for asked in lesson.questions if asked.kind == "next")
    assert (first.choices, first.correct) == (("a", "b", "c", "d"), (4,))
    assert (second.choices, second.correct) == (("a", "b"), (2,))


def test_the_bug_shows_where_the_last_contribution_stands_alone() -> None:
    asked = lessons.load_lesson("fan-out", SHOW).questions[-1]
    assert asked.kind == "bug"
    assert asked.answer == "x: -2"  # the share of a, which comes last; += gives -1.46


@each(("typed", "verdict"), [("-0.42", True), ("-.416", True), ("-0.4", False), ("-0.41", False), ("0.42", False)])
def test_a_number_is_right_to_the_digits_typed(typed: str, verdict: bool) -> None:
    assert is_rounded(typed, -0.4161468365471424) is verdict


@each(("typed", "x"), [("120", 123.4), ("123.4", 123.4), ("3000", 3046), ("-500", -501)])
def test_zeros_at_the_end_of_a_whole_number_may_come_from_rounding(typed: str, x: float) -> None:
    assert is_rounded(typed, x)
    assert not is_rounded(f"{typed}.0", x + 0.2)
    assert not is_rounded("100", 123.4)


@given(x=st.floats(1e-3, 1e6), digits=st.integers(2, 9))
def test_a_number_rounded_to_two_digits_or_more_is_right_and_its_neighbours_are_not(x: float, digits: int) -> None:
    typed = f"{x:.{digits - 1}e}"
    assert is_rounded(typed, x)
    mantissa, _, power = typed.partition("e")
    unit = 10.0 ** (1 - digits)
    assert not is_rounded(f"{float(mantissa) + 2 * unit:.{digits - 1}f}e{power}", x)


def test_a_choice_is_called_by_its_place_its_text_or_its_node_and_the_rest_is_no_answer() -> None:
    asked = Question("bug", "?", ("a: 1", "x: -2"), (2,), "x: -2", ("", ""))
    assert all(asked.is_correct(typed) for typed in ("2", "2)", " x ", "x: -2", "x: −2", "2) x: -2"))
    assert not any(asked.is_correct(typed) for typed in ("1", "a", "-2"))
    assert [asked.is_valid(typed) for typed in ("1", "a", "x", "3", "y", "-2")] == [True] * 3 + [False] * 3
    asked = Question("value", "?", (), (), 0.5, ("", ""))
    assert all(asked.is_valid(typed) for typed in (".5", "-1e3", "0,5", "1/2", "cos(1)"))
    assert not any(asked.is_valid(typed) for typed in ("half", "x", "", "nan", "1/", "[1, 2]", "0.5 or so"))


_EXPRESSIONS = st.recursive(
    st.integers(-99, 99).map(lambda n: (str(n / 8), n / 8)),
    lambda parts: st.one_of(
        st.tuples(parts, parts).map(lambda t: (f"({t[0][0]}) + ({t[1][0]})", t[0][1] + t[1][1])),
        st.tuples(parts, parts).map(lambda t: (f"({t[0][0]})*({t[1][0]})", t[0][1] * t[1][1])),
        parts.map(lambda part: (f"({part[0]})/3", part[1] / 3)),
        parts.map(lambda part: (f"cos({part[0]})", math.cos(part[1]))),
    ),
    max_leaves=5,
)


@given(_EXPRESSIONS)
def test_an_answer_may_be_an_expression_with_decimal_points_or_commas(drawn: tuple[str, float]) -> None:
    typed, x = drawn
    asked = Question("value", "?", (), (), x, ("", ""))
    for text in (typed, typed.replace(".", ","), typed.replace("-", "−"), f" {typed} "):
        assert asked.is_valid(text)
        assert asked.is_correct(text)
    other = Question("value", "?", (), (), x + 0.03 * abs(x) + 1e-3, ("", ""))
    assert not other.is_correct(f"1*({typed})")

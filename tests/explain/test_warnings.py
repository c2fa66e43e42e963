"""Warnings name the spot where a derivative is not what one may assume, and only such spots."""

from __future__ import annotations

import itertools
import math
import re
from random import Random

import numpy as np

from autodiff_cli.explain import sentences
from autodiff_cli.explain.tracing import trace
from autodiff_cli.explain.warnings import predicate_holds
from autodiff_cli.expression import parse
from autodiff_cli.render.formatting import shortest_text
from tests.each import amount, each, is_exhaustive
from tests.fuzz.__main__ import made
from tests.support import run_cli

# expression, point, the warnings as (kind, label of the node, words of the message)
# fmt: off
TABLE = [
    ("abs(x)",                     {"x": 0},          [("kink", "abs(x)", "the slopes are -1 and 1; 0 is used")]),
    ("abs(x)",                     {"x": 1},          []),
    ("relu(x)",                    {"x": 0},          [("kink", "relu(x)", "0 is used")]),
    ("relu(x)",                    {"x": -1},         []),
    ("clip(x, 0, 1)",              {"x": 1},          [("kink", "clip(x, 0, 1)", "0 is used")]),
    ("clip(x, y, y)",              {"x": 1, "y": 2},  [("kink", "clip(x, y, y)", "0 is used")]),
    ("relu6(x) + hardtanh(y)",     {"x": 6, "y": -1}, [("kink", "relu6(x)", "is used"),
                                                       ("kink", "hardtanh(y)", "is used")]),
    ("max(x, y)",                  {"x": 2, "y": 2},  [("kink", "max(x, y)", "equal shares")]),
    ("hypot(x, y)",                {"x": 0, "y": 0},  [("kink", "hypot(x, y)", "tip of a cone")]),
    ("log(x)",                     {"x": -1},         [("domain", "log(x)", "log(-1) is not defined")]),
    ("x*log(-1)",                  {"x": 2},          [("domain", "log(-1)", "so nan")]),
    ("wofz_real(x, y)",            {"x": 1, "y": -1}, [("domain", "wofz_real(x, y)", "wofz_real(1, -1) cannot be computed")]),
    ("besselj(1001, x)",           {"x": 1000},       [("domain", "besselj(1001, x)", "besselj(1001, 1000) cannot be computed")]),
    ("besselj(1000.5, x)",         {"x": -1},         [("domain", "besselj(1000.5, x)", "besselj(1000.5, -1) is not defined")]),
    ("polygamma(1.5, x)",          {"x": 2},          [("domain", "polygamma(1.5, x)", "polygamma(1.5, 2) is not defined")]),
    ("sinhc_derivative(1000, x)",  {"x": 2},          [("domain", "sinhc_derivative(1000, x)", "sinhc_derivative(1001, 2), which cannot be computed"),
                                                       ("precision", "sinhc_derivative(1000, x)", "correct: d/dx is ")]),
    ("inf*(x - x)",                {"x": 2},          [("domain", "inf*(x - x)", "inf × 0 is not defined"),
                                                       ("singular", "x", "inf - inf")]),
    ("x^n",                        {"x": -2, "n": 3}, [("domain", "x^n", "the slope with respect to n needs log(-2)")]),
    ("x^y",                        {"x": 0, "y": 0},  [("singular", "x^y", "with respect to y is not defined")]),
    ("sqrt(x)",                    {"x": 0},          [("singular", "sqrt(x)", "the slope with respect to x is inf")]),
    ("sqrt(x)^2",                  {"x": 0},          [("singular", "sqrt(x)", "0 × inf")]),
    ("1/x",                        {"x": 0},          [("singular", "1/x", "the value is inf")]),
    ("x/y",                        {"x": 0, "y": 0},  [("domain", "x/y", "0 / 0 is not defined")]),
    ("besselj(999, x)",            {"x": 1000},       []),
    ("atan2(y, x)",                {"x": 0, "y": 0},  [("singular", "atan2(y, x)", "slope with respect to y is nan")]),
    ("gammainc_curvature(a, x)",   {"a": 2, "x": 1},  [("unavailable", "gammainc_curvature(a, x)", "with respect to a is not available")]),
    ("gammainc(2, x)",             {"x": 1},          []),
    ("lambertw(x)",                {"x": -0.36787944117144233}, [("singular", "lambertw(x)", "with respect to x is inf")]),
    ("exp(x)*0.5",                 {"x": 1000},       [("overflow", "exp(x)", "too large for a float")]),
    ("1e308*x + 1e308*x",          {"x": 1e-9},       [("overflow", "x", "its adjoint is too large")]),
    ("x*1e300*1e300",              {"x": 1e-300},     [("overflow", "x*1e300", "slope times adjoint")]),
    ("where(x > 0, x, log(x))",    {"x": 1},          []),
    ("where(x > 1, x^2, 2*x)",     {"x": 1},          [("kink", "x > 1", "the slope is one-sided")]),
    ("where(x == 0, 1, sin(x)/x)", {"x": 0},          [("kink", "x == 0", "the slope is one-sided")]),
    ("where(y > 0 and x >= 1, x, 0)", {"x": 1, "y": 0}, [("kink", "y > 0", "the slope is one-sided")]),
    ("where(2 >= 2, x, 0)",        {"x": 1},          []),
    ("where(sqrt(x) > 1, 1, x)",   {"x": -1},         [("domain", "sqrt(x)", "sqrt(-1) is not defined")]),
    ("where(not log(x) > 1, 1, x)", {"x": -1},        [("domain", "log(x)", "log(-1) is not defined")]),
    ("where(x > 0 and log(x) > 1, 1, x)", {"x": -1},  []),
    ("where(x <= 0 or log(x) > 1, x, 1)", {"x": -1},  []),
    ("where(x > 0, x, x*log(-1))", {"x": 1},          []),
    ("where(x > 0, x, log(-1))",   {"x": 1},          []),
    ("where(x > 0, x, log(x))",    {"x": -1},         [("domain", "log(x)", "log(-1)")]),
    ("max(x, abs(y))",             {"x": 1, "y": 0},  []),
    ("0*abs(x) + x",               {"x": 0},          []),
    ("0*sin(log(x)) + x",          {"x": -1},         [("domain", "log(x)", "log(-1)")]),
    ("relu(log(x))",               {"x": -1},         [("domain", "log(x)", "log(-1)")]),
    ("where(x < 0, log(x), log(2*x))", {"x": -1},     [("domain", "log(x)", "log(-1)")]),
    ("x + 1e16 - 1e16",            {"x": 1.5},        [("precision", "x + 1e16 - 1e16", "16 of the 16 digits")]),
    ("x - 1e15",                   {"x": 1e15 + 1},   []),
    ("log(x) + abs(log(x))",       {"x": -1},         [("domain", "log(x)", ""), ("domain", "log(x)", "")]),
]
# fmt: on


@each(("text", "point", "expected"), TABLE)
def test_warnings(text: str, point: dict[str, float], expected: list[tuple[str, str, str]]) -> None:
    found = trace(parse(text), {name: float(value) for name, value in point.items()})
    at = [(warning.kind, found.labels[warning.node]) for warning in found.warnings]
    assert sorted(at) == sorted((kind, label) for kind, label, _ in expected)
    for kind, label, words in expected:
        message = found.warnings[at.index((kind, label))].message
        assert label in message
        assert words in message


class PageFacts(sentences._StepFacts):
    """The facts of a step, with the one that only the page decides by itself."""

    def case(self, by: str, of: int) -> int:
        if by != "singular":
            return super().case(by, of)
        inputs = [self.trace.values[j] for j in self.trace.tape.inputs[self.node]]
        return int(predicate_holds(self.trace.tape.nodes[self.node].operation, "singular", inputs))


@each(("text", "point"), [row[:2] for row in TABLE])
def test_a_page_has_the_words_of_a_warning(text: str, point: dict[str, float]) -> None:
    """The page fills phrases in with its numbers. It names no place and no correct digits, and says less of slopes."""
    found = trace(parse(text), {name: float(value) for name, value in point.items()})
    steps = {step.node: step for step in found.backward}
    for warning in found.warnings:
        words = warning.message.split(": ", 1)[1].split("; correct: ")[0]
        is_slope = re.match("the slope .* so nan|slope times adjoint", words)
        if warning.kind not in {"kink", "domain", "singular", "overflow"} or is_slope or warning.node not in steps:
            continue
        op, facts = found.tape.nodes[warning.node].operation, PageFacts(found, shortest_text, steps[warning.node])
        if op.uncomputed is not None:  # the page does not know which
            why = " is not defined for real numbers or cannot be computed, so nan"
            words = re.sub(" is not defined.*| cannot be.*", why, words)
        used = {str(contribution.position) for contribution in steps[warning.node].contributions}
        phrases = sentences.warning_phrases(op, len(found.tape.inputs[warning.node])).items()
        shown = [
            sentences.fill(phrase, facts).split(": ", 1)[1]
            for name, phrase in phrases
            if name != "cancellation" and (not name[-1].isdigit() or name[-1] in used)
        ]
        assert words in shown


GUARDED = ["where(x > 0 and log(x) > 1, x, 2*x)", "where(x <= 0 or sqrt(x) > 1, x, 2*x)", "where(log(x) > 0, x, 1)"]


# A choice that takes nothing from an input, before an operation with an infinite slope there.
CHOSEN = ["sqrt(relu(x))", "sqrt(clip(x, 0, 5))", "log(max(x, 0))", "sqrt(where(x > 0, x, 0))"]


@each("text", [*CHOSEN, *GUARDED, *(text for text, point, _ in TABLE if [*point] == ["x"])], sampled=True)
def test_an_element_of_an_array_has_the_warnings_of_a_number(text: str) -> None:
    def warned(expression: str, x: object) -> list[tuple[str, str]]:
        found = trace(parse(expression), {"x": x})
        return [(warning.kind, found.labels[warning.node]) for warning in found.warnings if warning.kind != "precision"]

    points = (-2.0, -1.0, 0.0, 0.5, 1.0, 3.0)
    alone = {point: warned(text, point) for point in points}
    neighbours = [*itertools.pairwise((*points, points[0]))]  # each is first of a pair and second of another one
    for first, second in itertools.permutations(points, 2) if is_exhaustive() else neighbours:
        together = {*warned(f"x: 2; sum({text})", np.array([first, second]))} - {
            ("domain", f"sum({text})")
        }  # inf - inf
        assert together == {*alone[first], *alone[second]}, (first, second)


def test_a_warning_shows_its_place_in_the_expression() -> None:
    (warning,) = trace(parse("x + abs(x)"), {"x": 0.0}).warnings
    assert "(column 5)" in warning.message
    (warning,) = trace(parse("a = x + 1\nb = x^2\na*b + abs(x)"), {"x": 0.0}).warnings
    assert "(line 3, column 7)" in warning.message


def test_a_variable_outside_wrt_has_no_warning() -> None:
    assert trace(parse("x + abs(y)"), {"x": 1.0, "y": 0.0}, "x").warnings == []


@each(
    ("text", "expected"),
    [
        ("sum(where(v > 0, log(v), 0))", []),
        ("sum(where(v > 2, v, sqrt(v)))", [("domain", "sqrt(v)", "element [0]")]),
        ("sum(where(v > 1, v, 2*v))", [("kink", "v > 1", "element [1]")]),
        ("sum(where(v > 0, v, log(-1)))", [("domain", "log(-1)", "so nan")]),
        ("sum(where(v > -5, v, log(-1)))", []),
        ("sum(v)*log(-1)", [("domain", "log(-1)", "so nan")]),
        ("sum(inf*(v - v))", [("singular", "v", "inf - inf"), ("domain", "inf*(v - v)", "element [0]")]),
    ],
)
def test_of_arrays_only_the_elements_that_take_part_count(text: str, expected: list[tuple[str, str, str]]) -> None:
    found = trace(parse(text), {"v": np.array([-1.0, 1.0])})
    assert [(warning.kind, found.labels[warning.node]) for warning in found.warnings] == [
        (kind, label) for kind, label, _ in expected
    ]
    assert all(words in warning.message for warning, (*_, words) in zip(found.warnings, expected, strict=True))


def test_cancellation_is_said_where_it_destroys_six_digits() -> None:
    """Rounding x + c changes the value by c ulps, which is c/x times as much as rounding the value itself."""
    for size in (1e-3, 0.3, 40.1):
        for exponent in (4.5, 5.5, 6.5, 8.5):
            found = trace(parse("(x + c) - c"), {"x": size, "c": size * 10.0**exponent + 1 / 3}).warnings
            said = [re.search(r"can destroy (\d+) of the 16 digits", warning.message) for warning in found]
            assert any(said) is (exponent > 6), (size, exponent, found)
            assert all(abs(int(match[1]) - exponent) <= 1 for match in said if match)


@each("seed", range(amount(1, 2, 20)))
def test_a_nan_has_a_warning(seed: int) -> None:
    """Also where it arises from infinite elements of arrays, in values and in slopes."""
    chance = Random(seed)
    count = 0
    for found in filter(None, map(made, range(1000 * seed, 1000 * seed + 60))):
        point = {name: _with_infinities(value, chance) for name, value in found.point.items()}
        with np.errstate(all="ignore"):
            at = trace(parse(found.text), point)
        numbers = [at.value, *at.gradient.values()]
        is_undefined = any(np.isnan(number).any() for number in numbers)
        assert at.warnings or not is_undefined, (found.text, point)
        count += is_undefined
    assert count > 3


def _with_infinities(value: float | np.ndarray, chance: Random) -> float | np.ndarray:
    """The value without nan, and zeros or infinities in place of some of its numbers."""
    numbers = np.array(np.nan_to_num(value), dtype=float)
    for place in np.ndindex(numbers.shape):
        if chance.random() < 0.3:
            numbers[place] = chance.choice([math.inf, -math.inf, 0.0])
    return numbers if numbers.shape else float(numbers)


@each("words", [
    ["v: 3; w: 2; A: 2x3; a = sum(A) - x; (voigt(a, a, a)^2 + asech(w)[0]) % min(a % v + concat(w, [z]))",
     "--A", "[[1e-300, 4e-3, -0.0762], [-2, -1e200, -9996.5]]", "--x", "5e-4", "--z", "-0.2",
     "--v", "[-2.47, 1e150, -1]", "--w", "[0.9586852173227983, -2.9383587659460312e-05]"],
    ["asech(logsigmoid(z))", "--z", "54770"],
])  # fmt: skip
def test_no_digits_are_claimed_of_what_is_not_defined(words: list[str]) -> None:
    warnings = run_cli(["grad", *words, "--json"]).json["warnings"]
    assert {warning["kind"] for warning in warnings} & {"domain", "singular"}
    assert not [warning for warning in warnings if re.search(r"\bis nan\b", warning["message"])]


@each("order", [2, 3])
@each(("formula", "expected"), [("softsign(x)", 0), ("elu(x)", 0), ("celu(x)", 0), ("sigmoid(x)", None)])
def test_a_derivative_that_does_not_exist_is_a_convention(formula: str, expected: float | None, order: int) -> None:
    """For `softsign` it was called one-sided, but is neither of the sides: 2 and -2."""
    found = run_cli(f'grad "{formula}" --x 0 --order {order} --json').json
    warned = ["do not exist, a convention is used" in each["message"] for each in found["warnings"]]
    assert warned == ([] if expected is None else [True])
    assert expected in (None, found["derivative"])

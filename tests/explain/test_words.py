"""The steps as someone would say them at a blackboard."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.explain.sentences import NEGLIGIBLE, StepSentences, closing_phrases, label_with_definition
from autodiff_cli.explain.tracing import trace
from autodiff_cli.expression import parse
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.node import Gate, Node, Op, all_ops, as_node, variable
from autodiff_cli.language.printer import to_text
from autodiff_cli.language.program import read
from autodiff_cli.render.formatting import number_formats, shortest_text
from tests.each import each, examples
from tests.graphs import ELEMENTWISE, graphs


def forward(text: str, **point: float) -> list[str]:
    found = trace(parse(text), point)
    words = StepSentences(found, number_formats(6)[1])
    return [words.forward(step) for step in found.forward]


def backward(text: str, **point: Any) -> list[str]:
    found = trace(parse(text), point)
    words = StepSentences(found, number_formats(6)[1])
    said = []
    for step in found.backward:
        said += [words.backward(step), *(words.contribution(step, given_) for given_ in step.contributions)]
    return said


# fmt: off
FORWARD = [
    ("x*y",                {"x": 2, "y": 3},   "x*y = 2 × 3 = 6"),
    ("x - y",              {"x": 2, "y": -3},  "x - y = 2 - (-3) = 5"),
    ("x*y",                {"x": -2, "y": -3}, "x*y = -2 × (-3) = 6"),
    ("x^y",                {"x": -2, "y": 3},  "x^y = (-2)^3 = -8"),
    ("-x",                 {"x": -2},          "-x = -(-2) = 2"),
    ("sin(x)",             {"x": 2},           "sin(x) = sin(2) = 0.909297"),
    ("max(x, 1, y)",       {"x": 2, "y": 3},   "max(x, 1, y) = max(2, 1, 3) = 3"),
    ("x > y",              {"x": 2, "y": 3},   "x > y: 2 > 3 is false, so 0"),
    ("a = x + y",          {"x": 2, "y": 3},   "a = x + y = 2 + 3 = 5"),
    ("a = (x + 1)*(x*2)",  {"x": 2},           "a = (x + 1) × (x*2) = 3 × 4 = 12"),
    ("f(t) = t + 1; a = f(x)*x", {"x": 2},     "a = f(x) × x = 3 × 2 = 6"),
    ("2 + 3",              {},                 "2 + 3 = 5"),
]
# fmt: on


@each(("text", "point", "last"), FORWARD)
def test_a_forward_step_has_its_numbers_filled_in(text: str, point: dict[str, float], last: str) -> None:
    assert forward(text, **point)[-1] == last


SUM = "a sum distributes: each term gets the adjoint, unchanged"
DIFFERENCE = "a difference distributes: the first term gets the adjoint, the second gets minus the adjoint"
PRODUCT = "a product swaps: each factor gets the adjoint times the value of the other factor"
KINK = "relu has a kink at 0: the slopes are 0 and 1; 0 is used, so its adjoint is blocked"
SIGMOID = "sigmoid scales by its slope, 0.5*(1 - 0.5) = sigmoid(0)*sigmoid(0) = 0.25"
INACTIVE = "relu is flat at -2 and blocks its adjoint: the unit is inactive at this input"
CONSTANT = "max selected an input that depends on no variable, so its adjoint stops here"
# fmt: off
BACKWARD = [
    ("x + y",              {"x": 2, "y": 3}, SUM),
    ("x - y",              {"x": 2, "y": 3}, DIFFERENCE),
    ("x*y",                {"x": 2, "y": 3}, PRODUCT),
    ("max(x, y)",          {"x": 2, "y": 3}, "max routes all of its adjoint to the input that it selected, y"),
    ("max(x, y)",          {"x": 2, "y": 2}, "max is tied and splits its adjoint equally: 0.5 of it to x and y"),
    ("max(x, 3)",          {"x": 2},         CONSTANT),
    ("where(x > 0, x, y)", {"x": 2, "y": 3}, "where routes all of its adjoint to the input that it selected, x"),
    ("relu(x)",            {"x": 2},         "relu passes its adjoint on"),
    ("relu(x)",            {"x": -2},        INACTIVE),
    ("relu(x)",            {"x": 0},         KINK),
    ("tanh(x)",            {"x": 0.5},       "tanh scales by its slope, 1 - 0.462117^2 = 1/cosh(0.5)^2 = 0.786448"),
    ("tanh(x)",            {"x": 4},         "tanh scales by its slope, 1/cosh(4)^2 = 0.00134095"),
    ("sigmoid(x)",         {"x": 0},         SIGMOID),
    ("floor(x)",           {"x": 1.5},       "floor is constant between its jumps, so it contributes 0"),
    ("floor(x)",           {"x": 2},         "floor jumps here, so slope 0 is used"),
    ("x > 1",              {"x": 1},         "`>` jumps here, so slope 0 is used"),
    ("sin(x)",             {"x": 2},         "sin scales by its slope, cos(2) = -0.416147"),
    ("exp(x)",             {"x": 1},         "exp scales by its slope, exp(1) = 2.71828"),
    ("x^3",                {"x": 2},         "a power scales by its slope: 3*2^(3 - 1) = 12 for x"),
    ("x/4",                {"x": 1},         "a quotient scales by its slope: 1/4 = 0.25 for x"),
]
# fmt: on


@each(("text", "point", "first"), BACKWARD)
def test_a_backward_step_names_the_effect_of_its_gate(text: str, point: dict[str, float], first: str) -> None:
    assert backward(text, **point)[0] == first


def test_contributions_have_all_three_numbers_and_the_total_of_what_is_used_twice() -> None:
    said = backward("x*y + sin(x)", x=2, y=3)
    assert "x: -0.416147 × 1 = -0.416147, use 1 of 2: total so far -0.416147" in said
    assert "x: 3 × 1 = 3, the last of 2 uses: total 2.58385" in said
    assert "y: 2 × 1 = 2" in said


# fmt: off
NEGATIVE = [
    ("a - x*y",  {"a": 1, "x": 2, "y": -3},  "x: -3 × (-1) = 3"),
    ("a - x*y",  {"a": 1, "x": 2, "y": -3},  "y: 2 × (-1) = -2"),
    ("x - y",    {"x": 2, "y": 3},           "y: -1 × 1 = -1"),
    ("x^3",      {"x": -2},                  "a power scales by its slope: 3*(-2)^(3 - 1) = 12 for x"),
    ("x^y",      {"x": 2, "y": -1},
     "a power scales by its slopes: -1*2^(-1 - 1) = -0.25 for x, 2^-1*log(2) = 0.346574 for y"),
    ("sin(x)",   {"x": -2},                  "sin scales by its slope, cos(-2) = -0.416147"),
    ("cos(x)",   {"x": -2},                  "cos scales by its slope, -sin(-2) = 0.909297"),
    ("sqrt(x)",  {"x": 4},                   "sqrt scales by its slope, 1/(2*2) = 0.25"),
]
# fmt: on


@each(("text", "point", "sentence"), NEGATIVE)
def test_negative_numbers_have_brackets_where_a_sign_could_be_misread(
    text: str, point: dict[str, float], sentence: str
) -> None:
    assert sentence in backward(text, **point)


@each(
    "text", ["5 - x", "x - 5", "x - y", "3 + x", "x + y", "3*x", "x*y", "x*x", "x/2", "2/x", "x/y", "x^2", "2^x", "x^y"]
)
def test_a_sentence_speaks_of_as_many_inputs_as_get_something(text: str) -> None:
    sentence, *contributions = backward(text, **dict.fromkeys(parse(text).variables, 2.0))
    is_plural = re.search(r"\beach\b|the second gets|slopes", sentence) is not None
    assert is_plural == (len(contributions) > 1), sentence


def test_a_name_used_several_times_accumulates() -> None:
    said = [line for line in backward("x^2 + 3*x + sin(x)", x=2) if line.startswith("x:")]
    assert [line.partition(", ")[2] for line in said] == [
        "use 1 of 3: total so far -0.416147",
        "use 2 of 3: total so far 2.58385",
        "the last of 3 uses: total 6.58385",
    ]


def test_a_power_whose_exponent_moves_has_both_slopes() -> None:
    assert backward("x^y", x=2, y=3)[0] == (
        "a power scales by its slopes: 3*2^(3 - 1) = 12 for x, 2^3*log(2) = 5.54518 for y"
    )


@each(
    ("text", "x", "dead"),
    [("relu(x)", -2, True), ("relu6(x)", -2, True), ("relu6(x)", 8, False), ("hardtanh(x)", -2, False)],
)
def test_a_unit_that_learns_nothing_is_pointed_out(text: str, x: float, dead: bool) -> None:
    said = backward(text, x=x)[0]
    assert f"flat at {x} and blocks its adjoint" in said
    assert ("inactive" in said) == dead


def test_a_node_with_adjoint_0_contributes_nothing() -> None:
    said = backward("where(x > 0, x, log(x))", x=2)
    assert "its adjoint is 0, so it contributes 0" in said


ON_ARRAYS = {
    "sum(v)": "v: adjoint, for every element = [1, 1]",
    "v[1]": "v: adjoint at [1], 0 elsewhere = [0, 1]",
    "mean(v)": "v: adjoint/2, for every element = [0.5, 0.5]",
    "dot(v, [3, 4])": "v: adjoint*[3, 4] = [3, 4]",
}


@each("text", ON_ARRAYS)
def test_sentences_of_array_operations_name_where_the_adjoint_goes(text: str) -> None:
    assert ON_ARRAYS[text] in backward(text, v=[1, 2])


def test_max_of_an_array_routes() -> None:
    assert backward("max(v)", v=[1, 2])[0] == (
        "max routes its adjoint to the largest element, in equal shares if several tie"
    )


def test_an_unused_branch_contributes_nothing_among_arrays() -> None:
    said = backward("where(s > 0, s, sum(log(v)))", s=1, v=[0, 1])
    assert said.count("its adjoint is 0, so it contributes 0") == 3


CROSS_ENTROPIES = {
    "p = softmax(z); -sum(y*log(p))": "it is p - y = [0.231224, 0.628532, 0.140244] - [0, 1, 0]",
    "-sum(y*logsoftmax(z))": "it is softmax(z) - y",
    "-dot(y, log(softmax(z)))": "it is softmax(z) - y = [0.231224, 0.628532, 0.140244] - [0, 1, 0]",
    "s = sum(y); -log(softmax(z)[1])*2*s": "it is (1 at [1], 0 elsewhere, minus softmax(z)) × (-2)",
    "-logsoftmax(z)[1] + sum(y)": "it is softmax(z), minus 1 at [1]",
    "-3*sum(y*log(softmax(z)))": "it is (y - softmax(z)) × (-3)",
    "logsumexp(z) - dot(y, z)": "the total is (softmax(z) - y) × 1",
    "-2*(logsumexp(z) - dot(z, y*2))": "the total is (softmax(z) - (y*2)) × (-2)",
    "-sum(y*2*log(softmax(z)))": "it is ((y*2) - softmax(z)*sum(y*2)) × (-1)",
}


@each("text", CROSS_ENTROPIES)
def test_softmax_and_cross_entropy_collapse(text: str) -> None:
    (said,) = [line for line in backward(text, z=[1, 2, 0.5], y=[0, 1, 0]) if "cross-entropy" in line]
    assert CROSS_ENTROPIES[text] in said


NO_CROSS_ENTROPIES = [
    "sum(softmax(z)*y)",
    "p = softmax(z); -sum(y*log(p)) + p[0]",
    "p = softmax(z); -sum(y[0]*log(p))",
    "-sum(y*log(z))",
    "-sum(y*softmax(z))",
    "logsumexp(z) - dot(y, z) + z[0]",
    "logsumexp(z) - dot(y, 2*z)",
    "dot(y, z) - logsumexp(z)",
    "d = dot(y, z); (logsumexp(z) - d)*d",
    "sum(y + log(softmax(z)))",
    "-sum(log(softmax(z))) + 0*y[0]",
]


@each("text", NO_CROSS_ENTROPIES)
def test_nothing_else_is_recognised_as_a_cross_entropy(text: str) -> None:
    assert not any("cross-entropy" in line for line in backward(text, z=[1, 2, 0.5], y=[0, 1, 0]))


def test_sentences_of_operations_that_mix_elements_mention_it() -> None:
    mixed, contribution = backward("sum(softmax(z)*[1, 0])", z=[0, 0])[-2:]
    assert mixed == (
        "softmax mixes: every output depends on every input, so each input gets a part of every adjoint, by the "
        "Jacobian, [[0.25, -0.25], [-0.25, 0.25]]"
    )
    assert contribution == "z: softmax(z)*(adjoint - sum(adjoint*softmax(z))) = [0.25, -0.25]"
    assert backward("norm(v)", v=[3, 4])[0] == "norm scales: each element gets the adjoint times its slope, [0.6, 0.8]"
    assert backward("prod(v)", v=[3, 4])[0].endswith("the adjoint times the product of the others, [4, 3]")
    assert backward("norm(v)", v=[1.0] * 100)[0] == "norm scales: each element gets the adjoint times its slope"


@pytest.mark.parametrize("op", [op for op in all_ops() if op.textbook_slope is not None], ids=lambda op: op.name)
@given(x=st.floats(-6, 6))
def test_a_slope_as_books_have_it_is_the_slope(op: Op, x: float) -> None:
    leaf = variable("x")
    z = op(leaf)
    assert op.textbook_slope is not None
    book = Formula(as_node(op.textbook_slope(z, leaf)), {"x": leaf})
    assert book(x=x) == pytest.approx(Formula(z, {"x": leaf}).grad(x=x)["x"], rel=1e-6)


SPECIAL = st.sampled_from([0.0, 1.0, -1.0, 2.0, -2.5, 0.5, 3.0, 6.0, 1e-9, -40.0, 1e200, math.inf])
SCALES = [op for op in ELEMENTWISE if op.gate is Gate.SCALE and not op.is_helper]


@pytest.mark.sampled
@pytest.mark.parametrize("op", SCALES, ids=lambda op: op.name)
@examples(15)
@given(data=st.data())
def test_statements_about_slopes_are_equations(op: Op, data: st.DataObject) -> None:
    count = data.draw(st.integers(op.min_inputs, op.max_inputs or max(op.min_inputs, 3)))
    leaves = [variable(name) for name in "xyzuvw"[:count]]
    point = {leaf.text: data.draw(SPECIAL | st.floats(-4, 4)) or 0.0 for leaf in leaves}
    found = trace(Formula(op(*leaves), {leaf.text: leaf for leaf in leaves}), point)
    words = StepSentences(found, shortest_text)
    (step,) = found.backward
    said = words.backward(step).partition(" scales by its slope")[2]
    for slope in filter(None, re.split(r" for \w(?:, |$)", said[2:])):
        sides = [parse(side).value() for side in slope.split(" = ")]
        assert len(sides) == 1 or sides == pytest.approx([sides[-1]] * len(sides), rel=1e-6), said


AT_KINKS = {
    ("abs(x)", 0): "abs has a kink here: the slopes are -1 and 1; 0 is used",
    ("leaky_relu(x)", 0): "leaky_relu has a kink here: the slopes are 0.01 and 1; 0.01 is used",
    ("clip(x, 0, 1)", 1): "clip has a kink here: the slopes are 0 and 1; 0 is used",
    ("clip(x, 0, 1)", 2): "clip selected an input that depends on no variable, so its adjoint stops here",
    ("hypot(x, x)", 0): "hypot has a kink here: it is the tip of a cone; gradient 0 is used",
    ("relu6(x)", 6): "relu6 has a kink at 6: the slopes are 0 and 1; 0 is used, so its adjoint is blocked",
}


@each(("text", "x"), AT_KINKS)
def test_a_kink_is_reported_at_its_node(text: str, x: float) -> None:
    assert backward(text, x=x)[0] == AT_KINKS[text, x]
    assert "kink" not in backward(text, x=x + 0.5)[0]


CHOICES = [op for op in ELEMENTWISE if op.gate is Gate.ROUTE and not op.is_helper]


@each("op", CHOICES)
def test_nothing_that_compares_with_nan_is_flat_tied_or_selected(op: Op) -> None:
    names = "xyz"[: max(op.min_inputs, 1 if op.max_inputs == 1 else 2)]
    leaves = {name: variable(name) for name in names}
    found = trace(Formula(op(*leaves.values()), leaves), dict.fromkeys(names, math.nan))
    said = StepSentences(found, number_formats(6)[1]).backward(next(iter(found.backward)))
    compares = "compares with nan, so it selects nothing" in said
    assert compares == (op.name != "where"), said  # nan is true, as any number but 0


def test_the_tip_of_a_cone_has_no_formula() -> None:
    assert backward("norm(v)", v=[0, 0]) == [
        "norm has a kink here: it is the tip of a cone; gradient 0 is used",
        "v: 0 × adjoint = [0, 0]",
    ]


def test_an_input_that_ties_with_itself_is_named_as_often() -> None:
    assert backward("max(x, x, y)", x=2, y=2)[0].endswith("0.333333 of it to x, x and y")


PASSAGES = {
    "norm(W @ v - u)": "W @ v - u: adjoint*((W @ v - u)/norm(W @ v - u)) = [-0.707107, -0.707107]",
    "sum(transpose(W) @ v)": "v: transpose(W)ᵀ @ adjoint = [3, 7]",
    "sum((W @ W) @ v)": "v: (W @ W)ᵀ @ adjoint = [22, 32]",
    "a = 2*v; logsumexp(a)": "a: adjoint*softmax(a) = [0.119203, 0.880797]",
    "f(t) = logsumexp(2*t); f(v)": "2*t in f(v): adjoint*softmax(2*t) = [0.119203, 0.880797]",
    "sum(concat(v, [3])^2)": "v: elements 0 to 1 of the adjoint = [2, 4]",
    "sum(concat([3*v[0]], v))": "[3*v[0]]: element 0 of the adjoint = [1]",
    "max(v)": "v: its share of the adjoint at the largest element, 0 elsewhere = [0, 1]",
}


@each("text", PASSAGES)
def test_how_an_adjoint_passes_is_a_formula_that_can_be_read(text: str) -> None:
    given_ = {"v": [1, 2], "W": [[1, 2], [3, 4]], "u": [6, 12]}
    formula = parse(text)
    assert PASSAGES[text] in backward(text, **{name: given_[name] for name in formula.variables})


def test_what_broadcasting_stretched_is_not_called_unchanged() -> None:
    said = backward("sum(v + x)", v=[1, 2], x=1)
    assert f"{SUM} (summed over the copies of a broadcast input)" in said
    assert "x: sum of 1 × [1, 1] = 2" in said


def test_what_a_name_stands_for_is_written_as_in_the_text() -> None:
    found = trace(parse("z = [a, b]; k = (z + z)[1]; n = z[0]; k*n"), {"a": 1.0, "b": 2.0})
    words = StepSentences(found, number_formats(6)[1])
    said = [words.forward(step) for step in found.forward]
    assert said[0] == "z = [a, b] = [1, 2]"
    assert {"k = (z + z)[1] = [2, 4][1] = 4", "n = z[0] = [1, 2][0] = 1"} <= {*said}


@each("inner", ("+", "-", "*", "/", "%", "^", "<", "==", "and"))
@each("outer", ("+", "-", "*", "/", "%", "^", "<", "==", "or"))
def test_a_definition_reads_back_as_the_operation_that_it_defines(inner: str, outer: str) -> None:
    for written in (f"(x {inner} y) {outer} z", f"z {outer} (x {inner} y)", f"-(x {inner} y)", f"not (x {inner} y)"):
        found = trace(parse(f"a = {written}; a + z"), {"x": 2, "y": 3, "z": 4})
        names = {name: i for i, name in enumerate(found.labels)}
        shown = label_with_definition(found, names["a"]).removeprefix("a = ").replace(" × ", "*")
        assert to_text(read(shown).output) == to_text(read(written).output), shown


def test_comparisons_of_arrays_are_not_written_as_equations() -> None:
    found = trace(parse("sum((v == [0, 1])*v)"), {"v": [0, 3]})
    assert "v == [0, 1]: [0, 3] == [0, 1] gives [1, 0]" in map(
        StepSentences(found, number_formats(6)[1]).forward, found.forward
    )


def test_no_sentence_repeats_a_side() -> None:
    assert forward("c = -2; d = 2*3; c*d*x", x=1)[:2] == ["c = -2", "d = 2 × 3 = 6"]
    found = trace(parse("sum([1, 2]*x)"), {"x": 1.0})
    assert StepSentences(found, number_formats(6)[1]).forward(next(found.forward)) == "[1, 2]"


def test_structural_zeros_are_not_products_with_infinity() -> None:
    lines = backward("sqrt(where(x > 0, 2*x, 3*x))", x=0)
    assert "2*x: 0, a structural zero" in lines
    assert "3*x: 1 × inf = inf" in lines


def test_the_derivatives_of_a_backward_pass_are_counted() -> None:
    for count in (1, 2, 3):
        names = "xyz"[:count]
        found = trace(parse("*".join(names)), dict.fromkeys(names, 2.0))
        first = StepSentences(found, repr).fill(closing_phrases(found)[0])
        assert f"gave {f'all {count} derivatives at once' if count > 1 else 'the derivative of the output'}." in first


def test_uses_are_counted_to_the_last() -> None:
    lines = backward("where(x > 0, x^2, 3*x)*x", x=2)
    assert [line for line in lines if "use" in line] == [
        "x: 4 × 1 = 4, use 1 of 2: total so far 4",
        "x: 4 × 2 = 8, the last of 2 uses: total 12",
    ]


OPTION = (
    "d1 = (log(s/k) + (r + v^2/2)*t)/(v*sqrt(t)); d2 = d1 - v*sqrt(t); s*normal_cdf(d1) - k*exp(-r*t)*normal_cdf(d2)"
)


@examples(20)
@given(*(st.floats(least, most) for least, most in ((80, 125), (80, 125), (0, 0.1), (0.2, 0.6), (0.25, 2))))
def test_an_adjoint_that_cancels_is_called_0_within_rounding_errors(
    s: float, k: float, r: float, v: float, t: float
) -> None:
    """The value of an option does not change with d1 alone: in exact arithmetic, that adjoint is 0."""
    found = trace(parse(OPTION), {"s": s, "k": k, "r": r, "v": v, "t": t})
    labels = {i: found.labels[i] for i, adjoint in enumerate(found.adjoints) if adjoint}
    negligible = {labels[i] for i in found.negligible}
    assert negligible & {*labels.values()} >= {"d1", "s/k", "v^2"} & {*labels.values()}
    assert not negligible & {*found.point}
    said = backward(OPTION, **found.point)
    assert sum(line.endswith(NEGLIGIBLE) for line in said) >= len(negligible)


@each(("text", "point"), [("1e-20*x*y", {"x": 2.0, "y": 3.0}), ("x - 0.9999999*x", {"x": 2.0}), ("x - x", {"x": 2.0})])
def test_an_adjoint_that_is_small_or_0_is_not_called_0_within_rounding_errors(
    text: str, point: dict[str, float]
) -> None:
    assert not trace(parse(text), point).negligible


# A number of a sentence; those of labels, such as the 2 of `x2` or `n(0, 1)`, are parts of words and calls.
_NUMBER = r"\(?(-?\d[\d.]*(?:e[+-]?\d+)?|-?inf|nan)\)?"
_MAX_WORDS = 25


def check_sentence(sentence: str) -> None:
    """Fail unless a sentence says one thing, in few words, and is punctuated as an item of a list."""
    prose = re.sub(r"\S*[\d()\[\]*^=×/]\S*", "", sentence)  # without formulas
    assert len(re.findall(r"[A-Za-z][a-z'-]*", prose)) <= _MAX_WORDS, sentence
    assert not re.search(r"[;.]\s|[;.,:]$|^\s|\s$|  |None|\bTrue\b|\bFalse\b|Slot", sentence), sentence


@examples(150, deadline=None)
@given(graph=graphs(ELEMENTWISE, most=5), xyz=st.tuples(*[st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0])] * 3))
def test_each_sentence_says_one_thing_and_its_numbers_are_those_of_the_trace(
    graph: tuple[Node, list[Node]], xyz: tuple[float, float, float]
) -> None:
    root, leaves = graph
    found = trace(Formula(root, {leaf.text: leaf for leaf in leaves}), dict(zip("xyz", xyz, strict=True)))
    words = StepSentences(found, repr)
    for step in found.backward:
        check_sentence(words.backward(step).replace(step.op.kink_note or "()", "that is a corner"))
        for contribution in step.contributions:
            line = words.contribution(step, contribution)
            if "structural zero" in line:
                assert contribution.amount == 0
                continue
            (factors,) = re.finditer(rf": {_NUMBER} × {_NUMBER} = {_NUMBER}", line)
            local, adjoint, amount = (float(number) for number in factors.groups())
            assert (local, adjoint, amount) == pytest.approx(
                (contribution.local, step.adjoint, contribution.amount), nan_ok=True
            )
            uses = re.search(rf"use (\d+) of (\d+): total so far {_NUMBER}$|last of (\d+) uses: total {_NUMBER}$", line)
            assert (uses is None) == (contribution.uses <= 1 or contribution.is_structural_zero)
            if uses:
                assert float(uses[3] or uses[5]) == pytest.approx(contribution.total, nan_ok=True)
    for phrase in closing_phrases(found):
        closing = words.fill(phrase)
        assert closing.endswith(".")
        assert not closing.endswith("..")
        for sentence in re.split(r"(?<=\.)\s+(?=[A-Z])", closing):
            assert re.match(r"[A-Z]|d/d", sentence), sentence
            check_sentence(sentence.removesuffix("."))


ARRAY_FORMULAS = [*CROSS_ENTROPIES, *PASSAGES, *ON_ARRAYS, "sum(x*v + v/x)", "softmax(v)[0]", "prod(v)*max(v, x)[1]"]
ARRAY_POINT = {"v": [1, 2], "W": [[1, 2], [3, 4]], "u": [6, 12], "y": [0, 1, 0], "z": [1, 2, 0.5], "x": 1.5}


@each("text", ARRAY_FORMULAS)
def test_each_sentence_about_arrays_says_one_thing(text: str) -> None:
    for sentence in backward(text, **{name: ARRAY_POINT[name] for name in parse(text).variables}):
        check_sentence(sentence)


@each(
    ("text", "rough", "smooth"),
    [
        ("where(x > 1, x^2, 3*x)", {"x": 1}, {"x": 2}),
        ("x*where(x > y and x > 1, x^2, 3*x)", {"x": 2, "y": 2}, {"x": 2, "y": 1}),
        ("abs(x) + y", {"x": 0, "y": 1}, {"x": 1, "y": 0}),
        ("sum(abs(v))", {"v": [1, 0]}, {"v": [1, -1]}),
        ("norm(v)*x", {"v": [0, 0], "x": 1}, {"v": [0, 1], "x": 1}),
        ("max(v)", {"v": [2, 2, 1]}, {"v": [3, 2, 1]}),
        ("sum(relu(W @ v))", {"W": [[0, 1], [1, 1]], "v": [1, 0]}, {"W": [[1, 1], [1, 1]], "v": [1, 0]}),
        ("sum(sqrt(v))", {"v": [0, 1]}, {"v": [4, 1]}),
        ("y + sqrt(x)", {"x": 0, "y": 1}, {"x": 4, "y": 1}),
        ("(1 - cos(x))/x^2 + y", {"x": 1e-8, "y": 1}, {"x": 1, "y": 1}),
        ("x*sum((1 - cos(v))/v^2)", {"v": [1, 1e-8], "x": 2}, {"v": [1, 2], "x": 2}),
        ("x + exp(y)", {"x": 1, "y": 710}, {"x": 1, "y": 2}),
    ],
)
def test_changes_of_the_output_are_predicted_where_all_derivatives_are_finite_and_accurate_and_there_is_no_kink(
    text: str, rough: dict[str, Any], smooth: dict[str, Any]
) -> None:
    for point, is_predicted in ((rough, False), (smooth, True)):
        found = trace(parse(text), point)
        *_, closing = (StepSentences(found, repr).fill(phrase) for phrase in closing_phrases(found))
        assert ("away from kinks" in closing) is not is_predicted, closing
        assert bool(re.search("if . changes by|is the rate", closing)) is is_predicted, closing

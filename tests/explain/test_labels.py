"""Nodes are called as the reader called them, and what is shortened still shows which operation it is."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.explain.labels import ELLIPSIS, MAX_CALL_LENGTH, MAX_LABEL_LENGTH, Labels
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import Tape
from autodiff_cli.language.parser import parse
from autodiff_cli.language.program import read
from tests.each import each
from tests.graphs import graphs

XOR = (
    "n(a,b) = sigmoid(v1*tanh(w1*a + w2*b + b1) + v2*tanh(w3*a + w4*b + b2) + c);"
    "(n(0,0) - 0)^2 + (n(0,1) - 1)^2 + (n(1,0) - 1)^2 + (n(1,1) - 0)^2"
)


def labels_of(text: str) -> list[str]:
    program = read(text)
    return Labels(Tape((program.output,)), program.source.names, program.source).texts


def operations(text: str) -> list[str]:
    """The labels of the operations of a text, from the inputs to the output."""
    program = read(text)
    tape = Tape((program.output,))
    found = Labels(tape, program.source.names, program.source).texts
    return [label for label, node in zip(found, tape.nodes, strict=True) if node.op is not None]


def test_labels_are_names_constants_and_sub_expressions() -> None:
    assert labels_of("x*y + sin(x)") == ["x", "y", "x*y", "sin(x)", "x*y + sin(x)"]
    assert labels_of("a = x + 1; (a*2.50)^2") == ["x", "1", "a", "2.50", "a*2.50", "2", "(a*2.50)^2"]
    assert labels_of("W @ [x, y]") == ["W", "x", "y", "[x, y]", "W @ [x, y]"]
    assert labels_of("(a + b)[0, 1]")[-1] == "(a + b)[0, 1]"
    assert labels_of("0 < -x <= 1")[-1] == "0 < -x <= 1"
    assert labels_of("-(x - (y - z))^2")[-1] == "-(x - (y - z))^2"


def test_long_labels_lose_their_middle() -> None:
    label = labels_of("exp(" + " + ".join(f"term{i}" for i in range(50)) + ")")[-1]
    assert len(label) <= 40
    assert label.count("…") == 1
    assert label.startswith("exp(term0 + term1")
    assert label.endswith("term48 + term49)")


def test_of_what_is_too_long_whole_operands_are_left_out() -> None:
    first, second = "alpha*beta*gamma_1*delta*epsilon", "tanh(alpha*beta*gamma_1*delta*epsilon)"
    assert labels_of(f"{first}*zeta*eta")[-1] == "alpha*beta*gamma_1*…*epsilon*zeta*eta"
    assert labels_of(f"{second}^2 - {second}")[-1] == "tanh(…*epsilon)^2 - tanh(…*epsilon)"
    assert labels_of(f"atan2({second}, 1)")[-1] == "atan2(tanh(alpha*…*delta*epsilon), 1)"
    assert labels_of(f"max({', '.join(f'variable{i}' for i in range(30))})")[-1] == "max(…)"
    assert labels_of(f"a - {first} + b - {first}*zeta")[-1] == "… - alpha*beta*…*delta*epsilon*zeta"


@given(graphs(), st.integers(1, 60))
def test_labels_stay_within_the_limit(graph: tuple[Node, list[Node]], limit: int) -> None:
    tape = Tape((graph[0],))
    found = Labels(tape, {}, None)
    assert all(len(label) <= MAX_LABEL_LENGTH for label in map(found.label_in_call, range(len(tape))))
    assert all(len(found.label_in_call(i, limit)) <= limit for i in range(len(tape)))


@given(graphs(most=30))
def test_a_label_that_is_whole_reads_back_and_brackets_of_others_match(graph: tuple[Node, list[Node]]) -> None:
    tape = Tape((graph[0],))
    for label in Labels(tape, {}, None).texts:
        assert parse(label.replace(ELLIPSIS, "x")).error is None


def test_the_value_of_a_call_is_the_call_and_what_is_inside_stands_beside_it() -> None:
    found = operations(XOR)
    assert found[:3] == ["w1*a in n(0, 0)", "w2*b in n(0, 0)", "w1*a + w2*b in n(0, 0)"]
    assert found[12:17] == [
        "v1*tanh(… + b1) + v2*tanh(… + b2) in n(0, 0)",
        "v1*tanh(… + b1) + v2*tanh(… + b2) + c in n(0, 0)",
        "n(0, 0)",
        "n(0, 0) - 0",
        "(n(0, 0) - 0)^2",
    ]
    assert found[-1] == "(n(0, 0) - 0)^2 + … + (n(1, 1) - 0)^2"
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f(t) = t*x; f(x)*f(y)", ["f(x)", "f(y)", "f(x)*f(y)"]),
        ("f(t) = t*x + 1; f(x)", ["t*x in f(x)", "f(x)"]),  # as the text has it, although t is x
        ("f(t) = t^2; a = f(x); a + 1", ["a", "a + 1"]),
        ("f(t) = t; f(x) + 1", ["x + 1"]),
        ("g(t) = sin(t); f(t) = g(t); f(x) + g(x)", ["f(x)", "g(x)", "f(x) + g(x)"]),
        ("g(u) = 2*u + 1; f(t) = g(t^2)*t; f(x*y)", [
            "x*y", "t^2 in f(x*y)", "2*u in g((x*y)^2)", "g((x*y)^2)", "f(x*y)"]),
        ("f(t) = (t   +  # one\n 1)*2; f(x)", ["t + 1 in f(x)", "f(x)"]),
        ("f(t) = 0 < t <= 1; f(x)", ["0 < t in f(x)", "t <= 1 in f(x)", "f(x)"]),
        ("f(t) = -t²; f(x)", ["t² in f(x)", "f(x)"]),
        ("2*mlp(x, [2], tanh)", [
            "[x]", "mlp.0.weight @ [x]", "mlp.0.weight @ [x] + mlp.0.bias", "mlp.0",
            "mlp.1.weight @ mlp.0", "mlp.1", "mlp(x)", "2*mlp(x)"]),
    ],
)  # fmt: skip
def test_names_in_functions_and_layers(text: str, expected: list[str]) -> None:
    assert operations(text) == expected


def test_calls_stay_short_however_deep_they_stand() -> None:
    text = "f0(t) = t + 1;" + "".join(f"f{k}(t) = f{k - 1}(t*{k}) + {k};" for k in range(1, 30)) + "f29(x)"
    found = operations(text)
    assert max(map(len, found)) <= MAX_LABEL_LENGTH + len(" in ") + MAX_CALL_LENGTH
    assert "t*29 in f29(x)" in found


@each("room", range(10, 90, 9))
def test_a_label_within_a_width_names_its_call_if_there_is_room_for_both(room: int) -> None:
    program = read(XOR)
    labels = Labels(Tape((program.output,)), program.source.names, program.source)
    for i, call in enumerate(labels.calls):
        label, whole = labels.fit(i, room), f"{labels.label_in_call(i)} in {call}"
        assert len(label) <= room
        assert label == whole or len(whole) > room or not call


def test_long_sums_that_differ_in_their_middle_have_labels_of_their_own() -> None:
    whole = "+".join(f"x{k}" for k in range(30))
    found = operations(f"sin({whole})*sin({whole.replace('x15', 'z')})")
    labels = [label for label in found if ELLIPSIS in label]
    assert len({*labels}) == len(labels) > 20


def test_what_is_different_is_called_differently() -> None:
    terms = [f"exp(variable{i} + variable{i + 1} + variable{i + 2})" for i in range(6)]
    found = operations("*".join(f"({a} + {b})" for a, b in itertools.combinations(terms, 2)))
    sums = [label for label in found if label.startswith("exp(") and ") + exp(" in label]
    assert len(sums) == len(set(sums)) == 15


@pytest.mark.parametrize(
    ("text", "width", "wanted"),
    [
        ("s1 - sy + 1", 10, "s1 - … + 1"),
        ("one - two + three - four", 18, "one - … - four"),
        ("num/den*factor", 12, "num/…*factor"),
        ("normal_cdf((x + y)/(z*sqrt(t)))", 12, "norm…_cdf(…)"),
        ("s*normal_cdf((x + y)/(z*sqrt(t)))", 12, "s*nor…cdf(…)"),
        ("normal_cdf((x + y)/(z*sqrt(t)))", 9, "…"),
    ],
)
def test_a_short_label_keeps_signs_and_the_function_of_what_it_leaves_out(text: str, width: int, wanted: str) -> None:
    node = read(text).output
    tape = Tape([node])
    assert Labels(tape, {}, None).fit(len(tape) - 1, width) == wanted


@pytest.mark.parametrize("sign", [" + ", "*"])
def test_of_a_long_chain_as_many_operands_from_both_ends_are_shown_as_fit(sign: str) -> None:
    """Three from each end at most, the last first, whatever the length of the chain."""
    for count in range(3, 10):
        names = [f"x{k}" for k in range(count)]
        program = read(sign.join(names))
        label = Labels(Tape((program.output,)), program.source.names, program.source)._labels_in_call[-1]
        shortened = [
            sign.join([*names[:first], ELLIPSIS, *names[count - last :]])
            for first, last in ((0, 1), (1, 1), (1, 2), (2, 2), (2, 3), (3, 3))
            if first + last < count
        ]
        for room in range(len(shortened[0]), MAX_LABEL_LENGTH + 1):
            fitting = [text for text in (*shortened, sign.join(names)) if len(text) <= room]
            assert label.fit(room) == fitting[-1], room

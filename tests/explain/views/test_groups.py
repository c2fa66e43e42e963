"""Frames around what the text names: what stands in them, and how they depend on what goes in."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.explain.record import Trace
from autodiff_cli.explain.tracing import trace
from autodiff_cli.explain.views import fold_frames, frame_derivatives, frames
from autodiff_cli.expression import parse
from tests.texts import grouped_texts


def at(text: str, **point: float) -> Trace:
    expression = parse(text)
    return trace(expression, {name: point.get(name, 2.0) for name in expression.variables})


def framed(found: Trace) -> list[tuple[str, int | None, list[str]]]:
    """Every frame with the labels of its members."""
    around = frames(found, [True] * len(found.tape))
    return [(frame.label, frame.outer, [found.labels[i] for i in frame.members]) for frame in around]


def test_what_serves_an_intermediate_alone_is_framed() -> None:
    assert framed(at("a = 2*sin(x) + y; b = sin(a)^2; b*x")) == [
        ("a", None, ["2", "sin(x)", "2*sin(x)", "a"]),
        ("b", None, ["sin(a)", "2", "b"]),
    ]


def test_every_call_is_framed_with_its_arguments() -> None:
    assert framed(at("f(t) = sin(t)^2; f(x)*f(x + 1)")) == [
        ("f(x)", None, ["sin(t) in f(x)", "2", "f(x)"]),
        ("f(x + 1)", None, ["sin(t) in f(x + 1)", "2", "f(x + 1)"]),
    ]


def test_frames_nest_as_the_text_does() -> None:
    assert framed(at("f(t) = sin(t)^2; g(u) = f(u) + u; a = g(x)*x; a + 1")) == [
        ("a", None, ["a"]),
        ("g(x)", 0, ["g(x)"]),
        ("f(x)", 1, ["sin(t) in f(x)", "2", "f(x)"]),
    ]


def test_one_frame_for_two_names_of_the_same() -> None:
    assert framed(at("f(t) = sin(t)^2; a = f(x); a + 1")) == [("a = f(x)", None, ["sin(t) in f(x)", "2", "a"])]


def test_one_operation_needs_no_frame() -> None:
    assert framed(at("f(t) = sin(t); a = x*y; f(a) + a")) == []
    assert framed(at("f(t) = t^2; a = 3*x; f(a) + a")) == []


def test_a_constant_is_framed_with_its_only_users() -> None:
    assert framed(at("a = pi*x + sin(pi); a*x"))[0][2] == ["pi", "pi*x", "sin(pi)", "a"]
    assert "pi" not in framed(at("a = pi*x + 1; a*pi"))[0][2]


def test_the_layers_of_a_network_are_framed() -> None:
    point = {
        "mlp.0.weight": [[1.0], [1.0]],
        "mlp.0.bias": [0.0, 0.0],
        "mlp.1.weight": [[1.0, 1.0]],
        "mlp.1.bias": [0.0],
    }
    found = trace(parse("mlp(x, [2])^2"), {"x": 0.5, **point})
    assert [(label, outer) for label, outer, _ in framed(found)] == [("mlp(x)", None), ("mlp.0", 0), ("mlp.1", 0)]


def test_a_derived_formula_has_no_frames() -> None:
    expression = parse("a = x^2; sin(a)").derivative("x")
    assert frames(trace(expression, {"x": 2.0}), [True] * len(expression.tape)) == []


def test_a_call_of_a_thousand_nested_functions() -> None:
    text = "f0(t) = sin(t)*t;" + "".join(f"f{k + 1}(t) = f{k}(t) + t;" for k in range(1000)) + "f1000(x)*2"
    found = framed(at(text))
    assert len(found) == 1001
    assert found[-1] == ("f0(x)", 999, ["sin(t) in f0(x)", "f0(x)"])


@pytest.mark.parametrize(
    ("text", "folded", "left"),
    [
        ("f(t) = sin(t)^2; f(x)*f(y)", ["f(x)", "f(y)"], []),
        ("f(t) = sin(t)^2; f(x)", [], ["f(x)"]),
        ("f(t) = sin(t)^2; g(t) = f(t) + f(2*t); z = g(x)*y", ["g(x)"], ["z"]),
        ("f(t) = sin(t)^2; g(t) = f(t)*f(2*t); g(x)", ["f(x)", "f(2*x)"], ["g(x)"]),
    ],
)
def test_what_holds_the_output_stays_open(text: str, folded: list[str], left: list[str]) -> None:
    found = at(text)
    kept, folds = fold_frames(frames(found, [True] * len(found.tape)), found.tape.outputs[0])
    assert [frame.label for frame in folds] == folded
    assert [frame.label for frame in kept] == left
    assert all(kept[whole.outer].members.count(whole.members[-1]) == 1 for whole in folds if whole.outer is not None)


def test_a_rate_sums_over_the_paths_inside() -> None:
    found = at("f(t, u) = t*sin(t) + u; f(x, y)^2")
    (whole,) = frames(found, [True] * len(found.tape))
    index = found.tape.index
    x, y = (index[found.expression.leaves[name]] for name in "xy")
    assert frame_derivatives(found, whole.members) == {x: pytest.approx(math.sin(2) + 2 * math.cos(2)), y: 1.0}


def test_a_rate_is_absent_where_no_gradient_goes() -> None:
    found = at("a = where(x > 0, x, 5*y) + pi; a*pi")
    (whole,) = frames(found, [True] * len(found.tape))
    named = {found.labels[i]: rate for i, rate in frame_derivatives(found, whole.members).items()}
    assert named == {"x": 1.0, "y": 0.0, "pi": None}


@given(grouped_texts(), st.sampled_from([0.5, 2.0, -1.5]))
def test_a_frame_is_left_only_by_its_last_node(text: str, x: float) -> None:
    found = at(text, x=x)
    around = frames(found, [True] * len(found.tape))
    inside = [set(frame.members) for frame in around]
    for k in range(len(around) - 1, -1, -1):
        outer = around[k].outer
        if outer is not None:
            assert outer < k
            inside[outer] |= inside[k]
    assert sum(len(frame.members) for frame in around) == len(set().union(*inside))
    for members in inside:
        assert len(members) > 1
        left = {j for i, inputs in enumerate(found.tape.inputs) for j in inputs if i not in members and j in members}
        assert left <= {max(members)}


@given(grouped_texts(), st.sampled_from([0.5, 2.0, -1.5]))
def test_a_fold_contributes_what_the_nodes_inside_contribute(text: str, x: float) -> None:
    found = at(text, x=x)
    _, folds = fold_frames(frames(found, [True] * len(found.tape)), found.tape.outputs[0])
    for whole in folds:
        members, adjoint = set(whole.members), found.adjoints[whole.members[-1]]
        for j, rate in frame_derivatives(found, whole.members).items():
            amounts = [
                part.amount
                for step in found.backward
                if step.node in members
                for part in step.contributions
                if part.to == j
            ]
            if rate is None:
                assert amounts == []
            elif adjoint is not None and math.isfinite(adjoint) and all(map(math.isfinite, amounts)):
                assert rate * adjoint == pytest.approx(sum(amounts), rel=1e-9, abs=1e-9 * sum(map(abs, amounts)))

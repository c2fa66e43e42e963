"""The trace of an expression with arrays."""

from __future__ import annotations

import json

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.explain import tracing
from autodiff_cli.explain.operations import adjoint_formula
from autodiff_cli.explain.record import Trace
from autodiff_cli.explain.tracing import trace
from tests.support import run_cli

TEXT = "W: 2x3; sum(relu(W @ x + b)*v)"
POINT = {
    "W": np.array([[1.0, 2.0, 3.0], [4.0, 5.0, -6.0]]),
    "x": np.array([0.1, 0.2, 0.3]),
    "b": np.array([1.0, 0.1]),
    "v": np.array([1.0, -2.0]),
}


@pytest.fixture(scope="module")
def traced() -> Trace:
    return trace(ad.parse(TEXT), POINT)


def test_the_gradient_is_that_of_the_expression(traced: Trace) -> None:
    for name, slope in ad.parse(TEXT).grad(POINT).items():
        np.testing.assert_allclose(traced.gradient[name], slope, rtol=1e-15)


def test_totals_are_adjoints_and_have_the_shape_of_their_node(traced: Trace) -> None:
    totals = {given.to: given.total for step in traced.backward for given in step.contributions}
    for node, total in totals.items():
        np.testing.assert_array_equal(total, traced.adjoints[node])
        assert np.shape(total) == np.shape(traced.values[node])


def test_elementwise_amounts_are_local_times_adjoint(traced: Trace) -> None:
    for step in traced.backward:
        for given in step.contributions:
            if given.local is None:
                assert step.op.is_structural
            elif np.shape(given.amount) == np.shape(step.adjoint):
                np.testing.assert_allclose(given.amount, given.local * step.adjoint)


def test_the_rule_of_a_product_of_matrices_is_shown() -> None:
    text = str(run_cli(["trace", TEXT, *(f"--{name}={value.tolist()}" for name, value in POINT.items())]))
    assert "W: outer(adjoint, x) = [[0.1, 0.2, 0.3], [0, 0, 0]]" in text
    assert "x: Wᵀ @ adjoint = [1, 2, 3]" in text


def test_json_holds_arrays_as_nested_lists() -> None:
    result = run_cli(["grad", "sum(log(v))", "--v", "[1, 0, 2]", "--json"])
    assert result.json["variables"] == {"v": [1.0, 0.0, 2.0]}
    assert result.json["gradient"] == {"v": [1.0, "inf", 0.5]}
    assert result.json["value"] == "-inf"
    json.dumps(result.json, allow_nan=False)


def test_warnings_name_the_element() -> None:
    (first, *_) = trace(ad.parse("sum(log(v))"), {"v": np.array([1.0, -2.0, -3.0])}).warnings
    assert (first.kind, "element [1]" in first.message) == ("domain", True)
    (kink,) = trace(ad.parse("sum(abs(v))"), {"v": np.array([1.0, 0.0, 2.0])}).warnings
    assert (kink.kind, "element [1]" in kink.message) == ("kink", True)
    for text in ("norm([x, y])", "max([x, y])"):
        (tip,) = trace(ad.parse(text), {"x": 0.0, "y": 0.0}).warnings
        assert (tip.kind, text in tip.message) == ("kink", True)
    assert trace(ad.parse("sum(where(v > 0, log(v), 0))"), {"v": np.array([1.0, 2.0])}).warnings == []


def test_large_arrays_are_summarised_not_cut() -> None:
    text = str(run_cli(["trace", "sum(v^2)", "--v", str([float(i) for i in range(200)])]))
    assert "200 from 0 to 199" in text
    assert max(map(len, text.splitlines()[1:])) < 200


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["grad", "x*y", "--x", "[1, 2]", "--y", "2"], "`x` is a number here"),
        (["grad", "W @ x", "--W", "[[1, 2], [3, 4]]", "--x", "[1, 2]"], "only a number has a gradient"),
        (["trace", "sum(W @ x)", "--W", "[[1, 2]]", "--x", "[1, 2, 3]"], "1x2 @ 3"),
        (["grad", "v: 3; sum(v)", "--v", "[1, 2]"], "declared with the shape 3"),
        (["grad", "sum(v)", "--v", "[]"], "line 1"),
        (["grad", "sum(v)", "--v", "[[1, 2], [3]]"], "the same shape"),
    ],
)
def test_arrays_that_do_not_fit(words: list[str], message: str) -> None:
    result = run_cli(words)
    assert (result.status, str(result)) == (2, "")
    assert message in result.stderr


def test_a_rule_with_long_labels_stays_a_formula() -> None:
    text = "logsumexp(transpose(alpha_matrix) @ beta_vector_long + gamma_vector_long*exp(delta_vector_long))"
    names = ["beta_vector_long", "gamma_vector_long", "delta_vector_long"]
    at = trace(ad.parse(text), {"alpha_matrix": [[1, 2], [3, 4]]} | {key: [1, -1] for key in names})
    formula = adjoint_formula(at, at.tape.outputs[0], 0)
    assert formula is not None
    assert formula.startswith("adjoint*softmax(")
    assert len(formula) <= 72


@pytest.mark.parametrize(
    ("text", "point", "count"),
    [
        ("sum(v*w)", {"v": [1, 2, 3], "w": [1, 2, 3]}, 14),
        ("sum(v*v)", {"v": [1, 2, 3]}, 17),
        ("sum(v*v*v)", {"v": [1, 2, 3]}, 32),
        ("sum(tanh(W @ v))*v[0]", {"v": [1, 2, 3], "W": [[1, 2, 3], [4, 5, 6]]}, 54),
    ],
)
def test_the_numbers_of_both_passes_are_limited(
    text: str, point: dict[str, list[float]], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values, adjoints, contributions and, for what is used several times, their running totals."""
    monkeypatch.setattr(tracing, "MAX_NUMBERS", count)
    assert trace(ad.parse(text), point).value == ad.parse(text)(**point)
    monkeypatch.setattr(tracing, "MAX_NUMBERS", count - 1)
    with pytest.raises(ad.ExpressionError, match=f"both passes have {count} numbers, .* at most {count - 1} "):
        trace(ad.parse(text), point)


@pytest.mark.parametrize(
    "text",
    [
        "(W @ log(v))[0]",
        "sum(where([1, 0] > 0, W @ log(v), 0))",
        "max(W @ log(v))",
        "sum(relu(W @ log(v)))",
        "sum(where([1, 0] > 0, outer([1, 2], log(v)) @ v, 1))",
    ],
)
def test_a_cause_is_found_through_operations_that_change_the_shape(text: str) -> None:
    point = {"W": np.array([[1, 0, 2], [3, 4, 5]]), "v": np.array([-1, 1, 2])}
    formula = ad.parse(text)
    found = trace(formula, {name: point[name] for name in formula.variables})
    assert [(warning.kind, found.labels[warning.node]) for warning in found.warnings] == [("domain", "log(v)")]

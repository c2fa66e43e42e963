"""JSON documents are those that the interface promises."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction

import pytest

from autodiff_cli.explain.tracing import trace
from autodiff_cli.expression import parse
from autodiff_cli.formula.derivatives import HigherDerivatives
from autodiff_cli.render.gradient import formulas_report, gradient_document
from autodiff_cli.render.report import dumps
from autodiff_cli.render.trace import _json_count, trace_document
from tests.support import run_cli

POINT = {"x": 2.0, "y": 3.0}
X, Y = 3 + math.cos(2), 2.0


def test_the_document_of_the_gradient() -> None:
    document = json.loads(dumps(gradient_document(trace(parse("x*y + sin(x)"), POINT))))
    s = math.sin(2)
    assert document == {
        "expression": "x*y + sin(x)",
        "variables": POINT,
        "value": 6 + s,
        "gradient": {"x": X, "y": Y},
        "nodes": [
            {"id": 0, "label": "x", "op": "input", "inputs": [], "value": 2.0, "adjoint": X},
            {"id": 1, "label": "y", "op": "input", "inputs": [], "value": 3.0, "adjoint": Y},
            {"id": 2, "label": "x*y", "op": "mul", "inputs": [0, 1], "value": 6.0, "adjoint": 1.0},
            {"id": 3, "label": "sin(x)", "op": "sin", "inputs": [0], "value": s, "adjoint": 1.0},
            {"id": 4, "label": "x*y + sin(x)", "op": "add", "inputs": [2, 3], "value": 6 + s, "adjoint": 1.0},
        ],
        "order": [0, 1, 2, 3, 4],
        "warnings": [],
    }
    assert [*document] == ["expression", "variables", "value", "gradient", "nodes", "order", "warnings"]


def test_the_document_of_the_trace_adds_both_passes() -> None:
    found = trace(parse("x*y + sin(x)"), POINT)
    document = json.loads(dumps(trace_document(found)))
    assert {key: document[key] for key in gradient_document(found)} == json.loads(dumps(gradient_document(found)))
    assert document["forward"][0] == {"step": 1, "node": 2, "op": "mul", "inputs": [0, 1], "value": 6.0}
    assert document["backward"][2] == {
        "step": 3,
        "node": 2,
        "op": "mul",
        "adjoint": 1.0,
        "contributions": [
            {"to": 0, "local": 3.0, "amount": 3.0, "total": X},
            {"to": 1, "local": 2.0, "amount": 2.0, "total": 2.0},
        ],
    }


def test_constants_take_no_gradient() -> None:
    document = gradient_document(trace(parse("x^-2"), {"x": 2.0}))
    assert [(node["label"], node["op"], node["adjoint"]) for node in document["nodes"]] == [
        ("x", "input", -0.25),
        ("2", "constant", None),
        ("-2", "neg", None),
        ("x^-2", "pow", 1.0),
    ]


def test_what_is_not_finite_is_a_word() -> None:
    document = json.loads(dumps(trace_document(trace(parse("1/x - log(-x) + nan"), {"x": 0.0}))))
    assert document["value"] == "nan"
    assert {node["value"] for node in document["nodes"]} >= {"inf", "-inf", "nan"}
    assert document["gradient"] == {"x": "nan"}


def test_the_label_of_a_named_intermediate_is_its_name() -> None:
    document = gradient_document(trace(parse("a = x + 1; a*a"), {"x": 2.0}))
    assert [node["label"] for node in document["nodes"]] == ["x", "1", "a", "a*a"]


def test_derivatives_as_formulas_read_back() -> None:
    expression = parse("x*y + sin(x)")
    derivatives = HigherDerivatives(formulas={name: expression.derivative(name) for name in "xy"})
    (document,) = formulas_report(expression, derivatives, lambda name, value: f"--{name} {value}").documents()
    assert document["variables"] == ["x", "y"]
    assert parse(document["derivatives"]["x"])(**POINT) == X


@pytest.mark.parametrize(
    ("line", "sections"),
    [
        ("x^2*y --x 1+-0.1 --y 2+-0.3 --monte-carlo 1234", 3),
        ("exp(x) --x 1+-0.5", 2),
        ("abs(x) --x 0+-0.5", 2),
        ("[x^2*y,y/x] --x 1+-0.1 --y 2+-0.3 --jacobian --monte-carlo 1000", 6),
        ("a=x*y;b=a/y;a+b --x 1+-0.1 --y 2+-0.3 --jacobian --outputs a,b", 4),
    ],
)
def test_the_text_of_an_uncertainty_has_what_its_document_has(line: str, sections: int) -> None:
    document = run_cli(["grad", *line.split(), "--json"]).json["uncertainty"]
    text = run_cli(["grad", *line.split()])
    kinds = {"stderr": "to first order", "second_order": "to second order"}
    shown = 0
    for name, found in (document if "stderr" not in document else {"": document}).items():
        for key, title in {**kinds, "monte_carlo": f"by {found.get('monte_carlo', {}).get('draws', 0):,}"}.items():
            assert (f"\nuncertainty{' of ' * bool(name)}{name}, {title}" in text) is (key in found)
            shown += key in found
        assert f"standard error of the value = {found['stderr']:.6g}\n" in text
        for part in (found[key] for key in ("second_order", "monte_carlo") if key in found):
            assert f"\n  mean = {part['mean']:.6g}, standard error = {part['stderr']:.6g}\n" in text
        for variable, share in found["shares"].items():
            assert f"from {variable}: {100 * share:.1f} % of its variance" in text
        if "monte_carlo" in found:
            low, _, median, _, high = found["monte_carlo"]["quantiles"].values()
            assert f"  median = {median:.6g}; 95 % of the values are from {low:.6g} to {high:.6g}\n" in text
    assert shown == sections


def test_numbers_of_paths_are_exact_in_json_as_long_as_a_reader_can_take_them() -> None:
    for bits in (0, 10, 63, 64, 1000, 13_000, 13_998):
        assert json.loads(dumps(_json_count(1 << bits))) == 1 << bits
    for bits in (14_300, 20_000):
        count = json.loads(dumps(_json_count(1 << bits)))
        assert isinstance(count, str)
        assert Fraction(Decimal(count)) == 1 << bits

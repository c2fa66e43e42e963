"""Every element of an array that is printed has 12 right digits, or the right ones stand beside it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from mpmath import mp

from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.explain import accuracy
from autodiff_cli.explain.array_accuracy import perturbation_distances
from autodiff_cli.explain.record import Trace
from autodiff_cli.explain.tracing import trace
from autodiff_cli.explain.warnings import check_higher_derivatives
from autodiff_cli.expression import parse
from autodiff_cli.formula.derivatives import HigherDerivatives
from autodiff_cli.graph.tape import Tape
from autodiff_cli.language.program import read
from autodiff_cli.numbers.arrays import ARRAYS, LONGDOUBLE_EPS_RATIO
from tests.each import each
from tests.support import run_cli

SPOILT = [
    ("sum((1 - cos(v))/v^2)", {"v": [1e-8, 1.0]}, {"v[0]": "-8.33333333333333e-10"}),
    ("sum(exp(v) - 1)", {"v": [2e-6, 3e-9]}, {"value": "2.00300200000583e-6"}),
    # lost inside of an operation on the whole array
    ("sum(v)", {"v": [1e16, 1.0, -1e16]}, {"value": "1"}),
    ("v @ w", {"v": [1e16, 1.0, -1e16], "w": [1.0, 3.0, 1.0]}, {"value": "3"}),
    ("(W @ v)[1]", {"W": [[1.0, 0.0, 0.0], [1e16, 1.0, -1e16]], "v": [1.0, 1.0, 1.0]}, {"value": "1"}),
    ("logsumexp(v)", {"v": [0.0, -40.0]}, {"value": "4.24835425529159e-18"}),
    ("logsoftmax(v)[0]", {"v": [39.0625, -0.25]}, {"value": "-8.44886129155776e-18"}),
    ("norm(v)/norm(w)", {"v": [1e-200, 0.0], "w": [1e200, 1e200]}, {"value": "7.07106781186548e-401"}),
    # vanished, or overflowed, on the way
    ("prod(v)", {"v": [1e-200, 1e-200, 1e300]}, {"value": "1e-100", "v[2]": "1e-400"}),
    ("dot(v, w)*1e300", {"v": [1e-200, 0.0], "w": [1e-200, 3.0]}, {"value": "1e-100"}),
    ("sum(1/(v + 1) - 1/v)", {"v": [1e300, 1.0]}, {"v[0]": "2e-900"}),
    ("max(v)/(1 + sqrt(dot(v, v)/sum(v)^2)) + 1", {"v": [1e200, 1e200]}, {"value": "5.85786437626905e+199"}),
    ("sqrt(sum(v^2))", {"v": [3e-200, 4e-200]}, {"value": "5e-200", "v[0]": "0.6", "v[1]": "0.8"}),
    ("norm(v - w)", {"v": [2.0**-1060, 2.0**-1060], "w": [0.0, 0.0]}, {"v[0]": "0.707106781186548"}),
    ("dot([1e-400, 1e-401], v)", {"v": [1.0, 2.0]}, {"value": "1.2e-400", "v[0]": "1e-400", "v[1]": "1e-401"}),
    # exp(-800), with 1e200 as it is written
    ("softmax(v)[1]*1e200", {"v": [0.0, -800.0]}, {"value": "3.66787458417769e-148"}),
]
RIGHT: list[tuple[str, dict[str, Any]]] = [
    ("sum(tanh(W @ x))", {"W": [[0.1, 0.2], [0.3, 0.4]], "x": [1.0, 2 / 7]}),
    ("sum(v)", {"v": [3.0, -1.0, -2.0]}),
    ("v @ w", {"v": [3.0, -1.0], "w": [1.0, 3.0]}),
    ("sum(relu(v)) + max(v)", {"v": [-1.0, 0.0, 2.5]}),
    ("sum(log(v))", {"v": [0.0, 2.0]}),
    ("norm(v - w)", {"v": [0.1, 0.2], "w": [0.1, 0.2]}),
    ("softmax(v)[0]", {"v": [0.25, 1.5]}),
]


def right(found: Trace) -> dict[str, str]:
    return {name: text for warning in found.warnings for name, text in warning.right.items()}


def at(text: str, point: dict[str, Any]) -> Trace:
    return trace(parse(text), {name: np.array(x) for name, x in point.items()})


@pytest.mark.parametrize(("text", "point", "expected"), SPOILT, ids=[text for text, _, _ in SPOILT])
def test_warnings_give_the_correct_digits_of_inaccurate_results(
    text: str, point: dict[str, Any], expected: dict[str, str]
) -> None:
    traced = at(text, point)
    found = right(traced)
    if expected.get("value") == repr(float(traced.values[-1])).removesuffix(".0"):
        expected = {name: text for name, text in expected.items() if name != "value"}  # added in an order without loss
    assert {name: found.get(name, "")[: len(text)] for name, text in expected.items()} == expected


@pytest.mark.parametrize(("text", "point"), RIGHT, ids=[text for text, _ in RIGHT])
def test_accurate_results_have_no_warning(text: str, point: dict[str, Any]) -> None:
    assert right(at(text, point)) == {}


def test_longdouble_proves_nothing_where_it_loses_as_many_digits() -> None:
    """1e9 is lost beside 1e30 by both, so that they agree."""
    count = accuracy.SETTINGS.small_point
    v = 2.0**47 * np.arange(1, count + 1) + 1e9
    correct = 2**46 * count * (count + 1) + 10**9 * count
    assert right(at("sum((v + 1e30) - 1e30)", {"v": [*v]}))["value"] == f"{correct:.14e}"


def test_warnings_of_large_arrays_count_inaccurate_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "SETTINGS", accuracy.SETTINGS._replace(max_operations=10))
    found = at("sum((1 - cos(v))/v^2)", {"v": [1e-8, 1.0, 2.0, 3.0]})
    (message,) = [warning.message for warning in found.warnings]
    assert "2 printed numbers may be inaccurate" in message
    assert "more than 10 operations" in message


def test_a_derivative_of_higher_order_that_would_take_too_long_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "SETTINGS", accuracy.SETTINGS._replace(max_operations=10))
    formula, point = parse("sum((1 - cos(x*v))/v^2)"), {"x": 1e-3, "v": np.array([1e-3, 1.0, 2.0])}
    request = HigherDerivatives(derivative=3.0, variable="x", order=2)
    assert check_higher_derivatives(formula, formula.at(point), request) == ({}, 1)


def test_second_derivatives_that_would_take_too_long_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "SETTINGS", accuracy.SETTINGS._replace(max_hessian_operations=10))
    answer = run_cli('grad "sum((1 - cos(v))/v^2)" --v "[1e-3, 1]" --hessian')
    assert "1 printed number may be inaccurate" in answer


@pytest.mark.parametrize("rows", [3, 4, 7])
def test_outputs_that_are_too_large_to_check_are_counted(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their values, and their slopes with respect to each element of each variable."""
    monkeypatch.setattr(accuracy, "SETTINGS", accuracy.SETTINGS._replace(max_output_elements=3))
    vector = str([*range(1, rows + 1)])
    line = [
        "grad",
        f"v: {rows}; w: {rows}; a = v*w; sum(a)",
        "--v",
        vector,
        "--w",
        vector,
        "--jacobian",
        "--outputs",
        "a",
    ]
    messages = [warning["message"] for warning in run_cli([*line, "--json"]).json["warnings"]]
    counted = [f"{rows + 2 * rows**2} printed numbers may be inaccurate"] if rows > 3 else []
    assert [message.partition(": ")[2].partition(";")[0] for message in messages] == counted


def test_warnings_list_only_some_of_many_inaccurate_numbers() -> None:
    found = at("sum((1 - cos(v))/v^2)", {"v": [1e-8] * 30})
    (warning,) = found.warnings
    assert len(warning.right) == 31
    assert warning.message.count("d/dv") == 9
    assert "and 21 more" in warning.message


def warned(words: str) -> dict[str, str]:
    warnings = json.loads(run_cli(f"grad {words} --json"))["warnings"]
    return {name: text for warning in warnings for name, text in warning.get("right", {}).items()}


FLAT = '"sum((1 - cos(v))/v^2)*y" --v "[1e-3, 1]" --y 2'


def test_second_derivatives_of_arrays_by_element() -> None:
    found = warned(f"{FLAT} --hessian")
    assert found["hessian.v[0].v[0]"] == "-0.166666633333335"  # the same as of the number alone, twice its half
    assert found["hessian.v[0].y"] == found["hessian.y.v[0]"] == "-0.0000833333277777779"
    assert "hessian.v[1].v[1]" not in found
    assert not any(name.startswith("hessian") for name in warned('"sum(tanh(v))" --v "[0.3, 1]" --hessian'))


def test_constants_within_operations_serve_all_ways_to_move() -> None:
    """First two at once, for the gradient, then one by one, for a direction each."""
    assert warned('"selu((z <= z)^0.5)*logsumexp(x)" --z 1.5 --x "[0.5, 1]" --hessian') == {}


def test_directional_and_higher_derivatives_among_arrays() -> None:
    alone = warned('"(1 - cos(x))/x^2*y + (1 - cos(1))*y" --x 1e-3 --y 2 --direction x=1,y=0')
    assert warned(f'{FLAT} --direction "v=[1,0],y=0"')["directional"] == alone["directional"]
    among = warned('"sum((1 - cos(v*y))/(v*y)^2)" --v "[1e-3, 1e-3]" --y 1 --wrt y --order 3')["derivative"]
    single = warned('"2*(1 - cos(1e-3*y))/(1e-3*y)^2" --y 1 --order 3')["derivative"]
    assert float(among) == pytest.approx(float(single), rel=1e-12)


def test_rows_of_numbers_beside_arrays() -> None:
    answer = run_cli('grad "sum((1 - cos(v*y))/(v*y)^2)" --v "[1e-3, 2]" --y 1e-5:1:2 --wrt y --json')
    first, _ = map(json.loads, answer.splitlines())
    assert first["warnings"][0]["right"]["value"] == "0.999999999983333"


def test_rows_of_zeros_are_not_in_doubt() -> None:
    assert "inaccurate" not in run_cli('grad "relu(x)" --x=-1:1:30001').stderr


def test_several_outputs_and_their_jacobian() -> None:
    found = warned('"[(1 - cos(x))/x^2, exp(x) - 1, x]" --x 1e-8 --jacobian')
    assert found == {"outputs.0": "0.5", "jacobian.0.x": "-8.33333333333333e-10", "outputs.1": "1.000000005e-8"}
    named = run_cli('grad "a = (1 - cos(x*v))/x^2; b = sum(v); a[0] + b" --x 1e-8 --v "[1,2]" --jacobian --outputs a,b')
    assert "output a[0] is 0.5" in named
    assert "d(a)/dx[0] is -8.33333333333333e-10" in named
    assert "(b)" not in named
    assert warned('"[x*y, sin(x)]" --x 2 --y 3 --jacobian') == {}


@pytest.mark.skipif(LONGDOUBLE_EPS_RATIO == 1, reason="long floats are floats here")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_in_large_layers_exactly_the_inaccurate_elements_are_listed(seed: int) -> None:
    """Sums of many terms of which a few cancel by chance: nothing "may" be inaccurate."""
    chance = np.random.default_rng(seed)
    weights, x = chance.normal(size=(250, 250)), chance.normal(size=250)
    found = trace(parse("sum(tanh(W @ x))"), {"W": weights, "x": x})
    known = right(found)
    assert not any("may have" in warning.message for warning in found.warnings)
    with mp.workdps(30):
        slopes = [mp.sech(mp.fdot(zip(row, x.tolist(), strict=True))) ** 2 for row in weights.tolist()]
        for j, slope in enumerate(found.gradient["x"].tolist()):
            exact = mp.fdot(zip(weights[:, j].tolist(), slopes, strict=True))
            error, name = abs(slope - exact) / abs(exact), f"x[{j}]"
            assert error > 0.8e-12 if name in known else error <= 1e-12
            assert abs(mp.mpf(known.get(name, exact)) - exact) < 1e-12 * abs(exact)


@each(
    "text",
    [
        *(f"where(x*y {comparison} c, 1, 2)" for comparison in ("<", "<=", ">", ">=", "==", "!=")),
        *(f"where({condition}, 1, 2)" for condition in ("x*y - c", "not (x*y - c)", "1 and x*y - c", "0 or x*y - c")),
        *("floor(x*y - c)", "ceil(x*y - c)", "round(x*y - c + 1/2)", "round(x*y - c - 3/2)", "(x*y - c) % 1"),
        *("sign(x*y - c)", "heaviside(x*y - c)"),
    ],
)
def test_what_only_rounding_decides_is_undecided_in_every_row(text: str) -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 300))
    tape = Tape([read(text).output])
    for difference in (0, 0.1):
        columns = {"x": x, "y": y, "c": x * y + difference}
        numbers = np.asarray(forward(tape, ARRAYS, columns)[-1], dtype=float)
        (found,) = perturbation_distances(tape, [numbers], columns)
        assert (np.isinf(found) == (difference == 0)).all()

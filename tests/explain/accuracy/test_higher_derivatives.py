"""Derivatives beyond the gradient, and those at many points, have 12 right digits or the right ones beside them."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from mpmath import mp

from autodiff_cli.explain import accuracy
from autodiff_cli.explain.array_accuracy import RowAccuracy
from autodiff_cli.expression import parse
from autodiff_cli.formula.array_derivatives import BatchedGradient
from autodiff_cli.render.rows import GradientTable
from tests.each import each
from tests.support import run_cli


def right(words: str) -> dict[str, str]:
    warnings = json.loads(run_cli(f"grad {words} --json"))["warnings"]
    return {name: text for warning in warnings for name, text in warning.get("right", {}).items()}


@pytest.mark.parametrize(("text", "x", "order"), [("sin(x)/x", "1.25", 10), ("(1 - cos(x))/x^2", "0.01", 3)])
def test_a_derivative_of_high_order_that_cancels_has_its_right_digits(text: str, x: str, order: int) -> None:
    with mp.workdps(60):
        function = {"sin(x)/x": lambda t: mp.sin(t) / t, "(1 - cos(x))/x^2": lambda t: (1 - mp.cos(t)) / t**2}[text]
        wanted = mp.taylor(function, mp.mpf(float(x)), order)[order] * mp.factorial(order)
        found = mp.mpf(right(f'"{text}" --x {x} --order {order}')["derivative"])
        assert abs(found - wanted) < abs(wanted) * mp.mpf("1e-13")


def test_second_and_directional_derivatives_too() -> None:
    found = right('"(1 - cos(x))/x^2*y" --x 1e-3 --y 2 --hessian --direction x=1,y=1')
    assert found["hessian.x.x"] == "-0.166666633333335"
    assert found["hessian.x.y"] == found["hessian.y.x"] == "-0.0000833333277777779"
    assert found["directional"] == "0.499833291677779"
    assert "hessian.y.y" not in found


def test_equal_parts_of_a_formula_are_perturbed_differently() -> None:
    found = right('"(x + 1)^(1/n) - x^(1/n)" --x 732277.8808918278 --n 732277.8808910954 --wrt n --order 3')
    assert found["derivative"].startswith("-2.849727991285")


def test_parts_perturbed_alike_by_chance_twice_differ_in_the_third_run() -> None:
    words = "--v '[-7.880422184787675e-13, 7.880466517904337e-13, -7.880424583542486e-13]'"
    words += " --u '[-7.880424583542486e-13, -7.880426314553241e-13, -7.880424583542708e-13]'"
    found = right(f'"sum(outer(v, u)) - sum(v)*sum(u)" {words} --direction "v=[1,1,1],u=[1,1,1]"')
    assert found["directional"] == "0"


def test_second_derivatives_that_vanish_are_not_zero() -> None:
    assert right('"cbrt(x + 1) - cbrt(x)" --x 1e300 --hessian')["hessian.x.x"] == "3.7037037037037e-801"


def test_second_derivatives_indistinguishable_from_zero_count_as_zero() -> None:
    """The first is 1 + 1/(exp(a*x) - 1) + 1/(exp(b*x) - 1) written otherwise; the second has whole multiples of pi."""
    found = right('"(exp((a + b)*x) - 1)/((exp(a*x) - 1)*(exp(b*x) - 1))" --a=-0.2 --b=-4e-16 --x=-2 --hessian')
    assert (found["hessian.a.b"], found["hessian.b.b"][:5]) == ("0", "1.562")
    assert right('"sin(pi*x)" --x 1e10 --hessian')["hessian.x.x"] == "0"


def test_accurate_derivatives_have_no_warning() -> None:
    assert right('"x^3*y + sin(x)" --x 1.1 --y 2 --hessian --direction x=1,y=1') == {}
    assert right('"exp(x)" --x 1.1 --order 9') == {}


def test_numbers_in_the_text_that_no_float_holds() -> None:
    found = right('"1e-400*x^2" --x 2 --order 2 --hessian --direction x=1')
    assert {name: found[name] for name in ("derivative", "directional", "hessian.x.x")} == {
        "derivative": "2e-400",
        "directional": "4e-400",
        "hessian.x.x": "2e-400",
    }
    assert "row 3: with all digits the value is 2e-400, d/dx is 1e-400" in run_cli('grad "1e-400*x" --x 0:2:3').stderr


def test_values_that_no_float_holds() -> None:
    found = right('"5*x^2" --x 1e-400 --order 1 --hessian --direction x=1')
    assert {name: found.get(name) for name in ("value", "x", "derivative", "directional", "hessian.x.x")} == {
        "value": "5e-800",
        "x": "1e-399",
        "derivative": "1e-399",
        "directional": "1e-399",
        "hessian.x.x": None,  # 10
    }
    assert right('"sum([1, 2]*x)" --x 1e400') == {"value": "3e+400"}
    assert right('"3*x" --x "exp(-800)"') == {"value": "1.10036237525331e-347"}
    assert "row 3: with all digits the value is 3e-400" in run_cli('grad "3*x*y" --x 1e-400 --y 0:1:3').stderr
    said = "x: 1e-400 is not representable as a float; 0 is used instead"
    assert said in [warning["message"] for warning in run_cli('grad "x + 1" --x 1e-400 --json').json["warnings"]]
    assert said in run_cli('trace "x + 1" --x 1e-400')


VIEWS = ("grad", "grad --hessian", "grad --jacobian", "grad --mode forward", "trace", "trace --mode forward",
         "trace --paths x", "check")  # fmt: skip
SMALL = ("x*y*1e300 --y 1e-400", "sum(v)*x*1e300 --v [0,1e-400]", "a=x*y;1e300*a --y 1e-400")


@each("view, words", [*itertools.product(VIEWS, SMALL), ("grad --jacobian", "[x,x*y*1e300] --y 1e-400")])
def test_every_view_has_the_right_digits_and_says_which_numbers_no_float_represents(view: str, words: str) -> None:
    """The value is 2e-100 and the derivative with respect to x 1e-100, but both are 0 as floats."""
    output = run_cli([*view.split(), *words.split(), "--x", "2"])
    assert output.count("1e-400 is not representable as a float; 0 is used instead") == 1
    assert "1.00000000000000e-100" in output if view == "check" else " is 2e-100" in output and " is 1e-100" in output


@each("text", ["abs(x)", "sqrt(x)", "1/x", "log(x - 1)", "where(x > 0, x, 2*x)", "exp(x + 1000)", "polygamma(x, 2)",
               "sqrt(x)^2", "exp(x)", "1 + x*1e-20 - 1"])  # fmt: skip
@each("form", ["[x, {}]", "[[{}, 1], [x, x]]", "v: 2; v*({})", "a = {}; 2*x"])
def test_outputs_have_the_warnings_of_numbers(form: str, text: str) -> None:
    options = ["--jacobian", *["--outputs", "a"] * form.startswith("a"), *["--v", "[1,2]"] * form.startswith("v")]
    words = [["grad", text], ["grad", form.format(text), *options]]
    number, outputs = (run_cli([*each_of, "--x", "0", "--json"]).json["warnings"] for each_of in words)
    assert {warning["kind"] for warning in outputs} == {warning["kind"] for warning in number}
    assert len({warning["message"] for warning in outputs}) == len(outputs)


@each("view", ["grad", "trace", "trace --mode forward", "trace --paths x"])
def test_every_view_says_where_the_first_order_misleads(view: str) -> None:
    assert "nonlinear: the first-order uncertainty is misleading" in run_cli(f"{view} x^4 --x 0+-0.1")


def test_values_that_floats_represent_have_no_warning() -> None:
    for value in ("pi/4", "0.1", "1/3", "1e-300", "1.1e-320", "inf", "0", "-1e300", "sum([0, 0])"):
        assert "precision" not in run_cli(f'grad "x + 1" --x={value}')


def test_inaccurate_rows_are_named() -> None:
    answer = run_cli('grad "(1 - cos(x))/x^2" --x 1e-8:1:3')
    assert "row 1: with all digits the value is 0.5, d/dx is -8.33333333333333e-10" in answer.stderr
    assert "rows with inaccurate numbers: 1" in answer.stderr
    lines = [json.loads(line) for line in run_cli('grad "(1 - cos(x))/x^2" --x 1e-8:1:3 --json').splitlines()]
    assert [("warnings" in line) for line in lines] == [True, False, False]
    assert lines[0]["warnings"][0]["right"]["value"] == "0.5"


@pytest.mark.parametrize(
    ("arrays", "numbers"), [("sum([x, -x, y])", "x + -x + y"), ("norm([x, y]) - x", "sqrt(x^2 + y^2) - x")]
)
def test_rows_with_arrays_of_numbers_have_the_digits_of_those_without(arrays: str, numbers: str) -> None:
    """Such a formula has no array among its values; its inaccurate rows ended in a traceback."""
    points = "x,y\n1e17,0.5\n1e17,3\nnan,1\n2,nan\n"
    found, expected = (run_cli(["grad", formula, "--at", "-", "--json"], stdin=points) for formula in (arrays, numbers))
    assert (found, found.stderr) == (expected, expected.stderr)
    assert found.status == 0


def test_only_the_first_of_many_inaccurate_rows_are_named() -> None:
    gradients = BatchedGradient(parse("(1 + x) - 1"), ["x"], {}, ["x"])
    blocks = [({"x": np.full(3, 1e-20)}, None)] * 4
    table = GradientTable(gradients, ["x"], blocks, RowAccuracy(gradients))
    assert len([*table.report.documents()]) == 12
    assert [message.split(":")[0] for message in table.first_inaccurate] == [f"row {k}" for k in range(1, 6)]


def test_rows_beyond_the_most_that_are_computed_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "SETTINGS", accuracy.SETTINGS._replace(max_rows=3))
    formula = parse("(1 + x) - 1")
    gradients = BatchedGradient(formula, ["x"], {}, ["x"])
    rows = RowAccuracy(gradients)
    columns = {"x": np.full(10, 1e-20)}
    assert len(rows.check(columns, gradients.evaluate(columns))) == 3
    assert rows.unchecked == 7
    notes = run_cli(["grad", "(1 + x) - 1", "--at", "-"], stdin="x\n" + "1e-20\n" * 10).stderr
    assert "rows with inaccurate numbers: 3" in notes
    assert "precision: further rows that may have inaccurate numbers: 7" in notes


@pytest.mark.parametrize(("most", "checked"), [(1, 1), (30, 3)])
def test_one_row_at_least_is_computed_however_large_its_formula_is(
    monkeypatch: pytest.MonkeyPatch, most: int, checked: int
) -> None:
    """Beyond that, rows are computed as far as their operations together stay below the limit."""
    monkeypatch.setattr(accuracy, "SETTINGS", accuracy.SETTINGS._replace(max_row_operations=most))
    gradients = BatchedGradient(parse("(1 + x + x + x + x + x + x) - 1"), ["x"], {}, ["x"])
    rows, columns = RowAccuracy(gradients), {"x": np.full(10, 1e-20)}
    right = rows.check(columns, gradients.evaluate(columns))
    assert (len(right), rows.unchecked) == (checked, 10 - checked)
    assert {numbers["value"] for numbers in right.values()} == {"6e-20"}

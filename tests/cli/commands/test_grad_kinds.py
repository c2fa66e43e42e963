"""`autodiff grad` beyond the gradient: formulas, forward mode, higher orders, directions, several outputs."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

import autodiff_cli as ad
from autodiff_cli.ops import get_op
from tests.each import each, examples
from tests.ops.table import ROWS, Row
from tests.support import expect_refusal, run_cli

POINT = "--x 2 --y 3"
F = f'grad "x*y + sin(x)" {POINT}'


# --- all of them, as JSON


def test_all_kinds_of_one_output_go_together() -> None:
    document = run_cli(F + " --symbolic --hessian --direction x=1,y=2 --mode forward --json").json
    assert document["derivatives"] == {"x": "y + cos(x)", "y": "x"}
    assert document["hessian"] == {"x": {"x": -math.sin(2), "y": 1.0}, "y": {"x": 1.0, "y": 0.0}}
    assert document["directional"] == pytest.approx(3 + math.cos(2) + 4, rel=1e-15)
    assert document["tangents"] == {"x": [1.0, 0.0, 3.0, math.cos(2), 3 + math.cos(2)], "y": [0.0, 1.0, 2.0, 0.0, 2.0]}
    assert document["gradient"] == {"x": 3 + math.cos(2), "y": 2.0}
    assert document["value"] == 6 + math.sin(2)
    of_arrays = run_cli('grad "sum(v*w)" --v [1,2] --w [3,4] --mode forward --json').json
    assert of_arrays["gradient"] == {"v[0]": 3, "v[1]": 4, "w[0]": 1, "w[1]": 2}
    assert {len(column) for column in of_arrays["tangents"].values()} == {len(of_arrays["nodes"])}


def test_without_these_options_none_of_their_keys_is_there() -> None:
    assert set(run_cli(F + " --json").json) == {
        "expression", "variables", "value", "gradient", "nodes", "order", "warnings",
    }  # fmt: skip


coordinates = st.floats(0.1, 3).map(lambda x: round(x, 3))


@examples(25)
@given(coordinates, coordinates)
def test_every_kind_tells_the_same_of_the_gradient(x: float, y: float) -> None:
    text = "exp(-x*y) + max(x, y)^2*log(x + y)"
    line = ["grad", text, f"--x={x}", f"--y={y}", "--json"]
    gradient = run_cli(line).json["gradient"]
    forward = run_cli([*line, "--mode", "forward"]).json["gradient"]
    assert forward == pytest.approx(gradient, rel=1e-12)
    for name in "xy":
        along = run_cli([*line, "--direction", f"{name}=1"]).json["directional"]
        (slope,) = run_cli([*line, "--wrt", name, "--jacobian"]).json["jacobian"]["0"].values()
        derivative = run_cli([*line, "--wrt", name, "--order", "1"]).json["derivative"]
        formula = run_cli(["grad", text, "--wrt", name, "--json"]).json["derivatives"][name]
        at_the_point = ad.parse(f"{formula} + 0*x*y")(x=x, y=y)
        assert [along, slope, derivative, at_the_point] == pytest.approx([gradient[name]] * 4, rel=1e-12)


@each("row", [row for row in ROWS if len(row.domain) == 1 and get_op(row.name).spelling], ids=lambda row: row.name)
def test_one_sided_second_derivatives_have_a_warning(row: Row) -> None:
    """They are those of both sides, by differences in mpmath."""
    for x in (0.0, 1.0, -1.0, 0.5, 2.0):
        with mp.workdps(100), contextlib.suppress(ValueError):  # outside of a domain
            sides = [mp.diff(row.value, mpf(x) + side * mpf(10) ** -20, 2, h=mpf(10) ** -30) for side in (1, -1)]
            is_near_a_pole = not all(isinstance(slope, mpf) and abs(slope) < 1e6 for slope in sides)
            if not is_near_a_pole and abs(sides[0] - sides[1]) > 1e-6:
                found = run_cli(["grad", f"{get_op(row.name).spelling}(x)", f"--x={x}", "--hessian", "--json"]).json
                assert "kink" in {warning["kind"] for warning in found["warnings"]}, (x, sides)


@each("knot", [-1, 0.5, 2])
def test_the_third_derivative_of_a_spline_jumps_at_knots_with_a_warning(knot: float) -> None:
    spline = ad.parse("spline(x, -1, 3, 0.5, 1, 2, 2)")
    below, above = (spline.derivatives("x", 3, x=knot + step) for step in (-1e-9, 1e-9))
    assert below[:3] == pytest.approx(above[:3], abs=1e-6)
    assert abs(below[3] - above[3]) > 0.1
    for order, place, kinds in ((3, knot, ["kink"]), (2, knot, []), (3, knot + 0.1, [])):
        found = run_cli(["grad", str(spline), f"--x={place}", "--order", str(order), "--json"]).json
        assert [warning["kind"] for warning in found["warnings"]] == kinds


def test_the_hessian_of_arrays_has_their_shapes() -> None:
    document = run_cli(["grad", "v: 2; a*sum(v^2)", "--v", "[1, 2]", "--a", "3", "--hessian", "--json"]).json
    assert document["hessian"] == {
        "v": {"v": [[6.0, 0.0], [0.0, 6.0]], "a": [2.0, 4.0]},
        "a": {"v": [2.0, 4.0], "a": 0.0},
    }
    assert run_cli("grad sum(v)*x^2 --v [1,2] --x 3 --hessian --wrt x --json").json["hessian"] == {"x": {"x": 6.0}}
    assert run_cli("grad logsumexp([1,2]) --hessian --json").json["hessian"] == {}


def test_orders() -> None:
    assert run_cli('grad "ln(1 + x)" --x 0 --order 6 --json').json["derivative"] == -120.0
    assert run_cli('grad "y*x^3" --x 2 --y 5 --wrt x --order 2 --json').json["derivative"] == 60.0
    assert "d^6/dx^6 = -120\n" in run_cli('grad "ln(1 + x)" --x 0 --order 6')
    assert "d/dx = 1\n" in run_cli('grad "ln(1 + x)" --x 0 --order 1')


@each("text", ["x^1.5", "x^(4/3)", "gammainc_slope(x + 3, x + 3)", "sum(v^1.5)*x"])
def test_a_higher_derivative_that_is_not_finite_has_a_warning(text: str) -> None:
    found = run_cli(["grad", text, "--x", "0", *(["--v", "[0, 1]"] if "v" in text else []), "--hessian", "--json"]).json
    assert all(np.isfinite(np.array(slope, dtype=float)).all() for slope in found["gradient"].values())
    assert [warning["kind"] for warning in found["warnings"]] == ["singular"]
    assert run_cli("grad x^2.5 --x 0 --hessian --json").json["warnings"] == []


def test_a_direction_may_name_some_variables_by_any_constant_expression() -> None:
    assert run_cli(F + " --direction y=atan2(1,1)*4/pi --json").json["directional"] == pytest.approx(2, rel=1e-15)
    assert run_cli("grad x*sum(v) --x 2 --v [1,2] --direction x=1,v=[3,4] --json").json["directional"] == 17.0
    assert "along x = 1, y = 2\n  derivative = 6.58385" in run_cli(F + " --direction x=1,y=2")


# --- several outputs


def test_named_statements_are_outputs_by_any_of_their_names() -> None:
    text = "a = x*y; b = x/y; c = a; d = y; a + b"
    document = run_cli(["grad", text, "--x", "2", "--y", "4", "--jacobian", "--outputs", "a,b,c,d", "--json"]).json
    assert document["jacobian"] == {
        "a": {"x": 4.0, "y": 2.0},
        "b": {"x": 0.25, "y": -0.125},
        "c": {"x": 4.0, "y": 2.0},
        "d": {"x": 0.0, "y": 1.0},
    }
    assert document["outputs"] == {"a": 8.0, "b": 0.5, "c": 8.0, "d": 4.0}
    assert document["value"] == 8.5


def test_a_statement_that_only_outputs_name_is_no_oversight() -> None:
    output = run_cli('grad "a = x*y; b = x + y" --jacobian --outputs a,b --x 2 --y 3')
    assert (output.status, output.stderr) == (0, "")


def test_an_array_has_its_elements_as_outputs() -> None:
    document = run_cli('grad "r = x*y; [r, x + y]" --x 2 --y 3 --jacobian --json').json
    assert document["jacobian"] == {"r": {"x": 3.0, "y": 2.0}, "1": {"x": 1.0, "y": 1.0}}
    assert document["value"] == [6.0, 5.0]
    matrix = run_cli(["grad", "W @ v", "--W", "[[1, 2], [3, 4]]", "--v", "[5, 6]", "--jacobian", "--json"]).json
    assert matrix["jacobian"]["1"] == {"W": [[0.0, 0.0], [5.0, 6.0]], "v": [3.0, 4.0]}
    assert run_cli("grad [x,x] --x 1 --jacobian --json").json["jacobian"] == {"0": {"x": 1.0}, "1": {"x": 1.0}}


def test_higher_orders_towards_a_number_among_arrays() -> None:
    document = run_cli("grad sum(exp(t*v)) --t 0 --v [1,2] --order 5 --wrt t --json").json
    assert document["derivative"] == 33.0
    assert document["gradient"] == {"t": 3.0}


def test_the_jacobian_as_text() -> None:
    output = run_cli('grad "[x*y, x + y]" --x 2 --y 3 --jacobian')
    assert output.endswith("outputs\n  0 = 6\n  1 = 5\n\njacobian\n     x  y\n  0  3  2\n  1  1  1\n")


def test_the_outputs_of_a_matrix_are_its_rows() -> None:
    document = run_cli('grad "W: 2x3; W*k" --W "[[1, 2, 3], [4, 5, 6]]" --k 2 --jacobian --json').json
    assert document["outputs"] == {"0": [2, 4, 6], "1": [8, 10, 12]}
    for row, of_row in enumerate(document["jacobian"][str(row)] for row in range(2)):
        assert of_row["k"] == [[1, 2, 3], [4, 5, 6]][row]
        # [column of the output][row and column of W]
        assert of_row["W"] == [[[2 * (i == row and j == k) for j in range(3)] for i in range(2)] for k in range(3)]


# --- as formulas


def test_without_values_they_are_formulas() -> None:
    document = run_cli("grad x^2*y --hessian --json").json
    assert document["hessian"]["y"]["x"] == document["hessian"]["x"]["y"] == "2*x"
    assert document["derivatives"]["y"] == "x^2"
    assert run_cli("grad x^4 --order 3 --json").json["derivative"] == "24*x"
    jacobian = run_cli('grad "a = x*y; b = x + y" --jacobian --outputs a,b --json').json["jacobian"]
    assert jacobian == {"a": {"x": "y", "y": "x"}, "b": {"x": "1", "y": "1"}}
    assert run_cli("grad x^2*y --hessian").splitlines()[2:5] == ["d^2/dx^2 = 2*y", "d^2/dxdy = 2*x", "d^2/dy^2 = 0"]
    assert run_cli("grad x*y --symbolic") == run_cli("grad x*y")


# --- what makes no sense

# fmt: off
BAD = [
    ("grad x*y --outputs a --x 1 --y 2",                  "add --jacobian"),
    ("grad x*y --jacobian --hessian --x 1 --y 2",         "--jacobian cannot be combined with --hessian"),
    ("grad 'a = x; a*x' --jacobian --outputs b --x 1",    "no statement of the expression defines `b`"),
    ("grad x*y --order 2 --x 1 --y 2",                    "choose it with --wrt"),
    ("grad x --order 0 --x 1",                            "--order"),
    ("grad x --order 171 --x 1",                          "170"),
    ("grad 2*3 --order 2",                                "with respect to one variable"),
    ("grad x --mode sideways --x 1",                      "`sideways`"),
    ("grad x*y --mode forward",                           "no value for `x`, `y`"),
    ("grad x*y --direction x=1",                          "no value for `x`, `y`"),
    ("grad x*y --direction x --x 1 --y 2",                "--direction takes NAME=VALUE"),
    ("grad x*y --direction x=1,x=2 --x 1 --y 2",          "two values"),
    ("grad x*y --direction z=1 --x 1 --y 2",              "no variable `z`"),
    ("grad x*y --direction x=a --x 1 --y 2",              "the value of `x` must be a number"),
    ("grad sum(v) --order 2 --v [1,2]",                   "`v` is an array; derivatives of higher order"),
    ("grad 'v: 2; sum(v^2)' --hessian",                   "give all variables values"),
    ("grad 'v: 2; sum(v^2)' --order 2",                   "give all variables values"),
    ("grad [x,x] --hessian --x 1",                        "array"),
]
# fmt: on


@pytest.mark.parametrize(("line", "message"), BAD)
def test_bad_input_has_status_2_a_message_and_no_output(line: str, message: str) -> None:
    expect_refusal(run_cli(line), message)


def test_the_hint_writes_values_in_the_shape_of_their_variable() -> None:
    output = run_cli("grad 'v: 2; M: 2x2; x*sum(v) + sum(M)'")
    hint = output.splitlines()[-1].partition(": ")[2]
    assert hint == '--v "[2, 2]" --M "[[2, 2], [2, 2]]" --x 2'
    assert run_cli(f"grad 'v: 2; M: 2x2; x*sum(v) + sum(M)' {hint} --json").json["value"] == 16


def test_shares_of_a_variance_that_is_not_finite_are_unknown() -> None:
    for formula in ("1/x", "abs(x)/x"):
        output = run_cli(["grad", formula, "--x", "0+-0.1"])
        assert "  from x: unknown\n" in output
        assert "nan %" not in output


# Formulas with two variables, and the same ones with the other variable first.
WRITTEN_TWICE = [("x*y^3", "y^3*x"), ("exp(x) - sin(y)", "-sin(y) + exp(x)")]
KINDS = [
    "--x 0.5 --y 1.5 --order 2 --wrt y", "--x 0.5 --y 1.5 --order 3 --wrt x", "--x 0.5 --y 1.5 --hessian",
    "--x 0.5 --y 1.5 --jacobian", "--x 0.5 --y 1.5 --direction y=2,x=1", "--x 0.5 --y 1.5 --wrt y",
    "--x 0.5+-0.1 --y 1.5", "--x 0.5 --y 1.5+-0.2", "--x 0.5+-0.1 --y 1.5+-0.2 --correlation x,y=0.5",
    "--x 0.5..0.625 --y 1.5..1.625", "--x 0.5..0.625 --y 1.5..1.625 --wrt y", "--x 0.5 --y 1.5 --precision 20",
    "--order 2 --wrt y", "--order 3 --wrt x", "--hessian", "--symbolic --x 0.5 --y 1.5 --wrt y", "--wrt y",
]  # fmt: skip


def rounded(value: Any) -> Any:
    """Return a document with 9 digits of its numbers; formulas are replaced by their values."""
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [*map(rounded, value)]
    if isinstance(value, str) and " order" not in value:
        value = ad.parse(f"{value} + 0*x*y")(x=0.5, y=1.5)
    return f"{value:.9g}" if isinstance(value, float) else value


@each(
    "kind, texts",
    [*itertools.product(KINDS, WRITTEN_TWICE)],
    quick=lambda kind, texts: (KINDS.index(kind) + WRITTEN_TWICE.index(texts)) % 2 == 0,
)
def test_numbers_belong_to_the_same_names_whichever_variable_comes_first(texts: tuple[str, str], kind: str) -> None:
    documents, reports = [], []
    for text in texts:
        document = run_cli(["grad", text, *kind.split(), "--json"]).json
        left_out = ("expression", "variables", "nodes", "order", "warnings", "outputs")
        documents.append(rounded({name: value for name, value in document.items() if name not in left_out}))
        report = run_cli(["grad", text, *kind.split(), "--digits", "6"]).partition("\nnodes")[0].replace("dydx", "dxdy")
        reports.append(sorted(line for line in report.splitlines() if re.fullmatch(r" *d.* = [^a-z]*", line)))
    assert documents[0] == documents[1]
    assert reports[0] == reports[1]


@each("name", ["value", "stderr", "derivative", "directional"])
def test_a_variable_has_the_numbers_of_any_other_if_it_has_the_name_of_a_result(name: str) -> None:
    """Only its keys among other numbers have backticks."""
    commands = [
        "{}^2*y --{} 1..2 --y 3",
        "(1 - cos({}))/{}^2 + y --{} 1e-8 --y 0",
        "(1 - cos({}))/{}^2*y --{} 1e-8+-1e-9 --y 2+-0.1 --hessian --order 2 --wrt {} --direction {}=1",
        "y*sum(({} + [1, y]) - {}) --{} 1e17 --y 2",
    ]
    for command in commands:
        text, _, options = command.partition(" --")
        words = ["grad", text, *f"--{options}".split(), "--json"]
        own, other = (
            re.sub(r'"(message|label)": ".*?"', "", run_cli([w.format(*[v] * 3) for w in words])) for v in (name, "x")
        )
        keyed = re.sub(r'"(right|enclosure)": \{.*?\}', lambda part: part[0].replace('"x"', f'"`{name}`"'), other)
        assert own == re.sub(r"\bx\b", name, keyed)


def test_a_grid_has_no_two_columns_of_one_name() -> None:
    found = run_cli("grad value^2+x --value 0:1:3 --x 2")
    assert found.status == 2
    assert "there is already a column `value`" in found.stderr

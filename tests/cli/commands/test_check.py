"""`autodiff check`, `grad --precision` and uncertain values."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from mpmath import mp, mpf

from tests.each import each
from tests.support import expect_refusal, run_cli


def test_a_table_and_a_verdict() -> None:
    output = run_cli('check "x*y + sin(x)" --x 2 --y 3')
    assert (output.status, output.stderr) == (0, "")
    lines = output.splitlines()
    assert lines[:2] == ["x*y + sin(x)", "at x = 2, y = 3"]
    assert lines[3].split() == ["variable", "gradient", "reference", "relative", "error", "order", "verdict"]
    assert lines[-1] == "The gradient is correct."


def test_json() -> None:
    document = run_cli("check x^3+abs(y) --x 2 --y 0 --json").json
    assert document["agrees"] is True
    assert document["checks"]["x"]["gradient"] == 12.0
    assert document["checks"]["x"]["order"] == pytest.approx(2.0)
    assert document["checks"]["x"]["relative_error"] == 0.0
    assert document["checks"]["y"]["verdict"] == "kink"
    assert mpf(document["checks"]["x"]["reference"]) == 12


def test_a_gradient_that_does_not_hold_has_status_1_and_is_written() -> None:
    output = run_cli("check exp(x)/exp(999) --x 1000 --json")
    assert output.status == 1
    assert output.json["agrees"] is False
    assert "The gradient is wrong." in run_cli("check exp(x)/exp(999) --x 1000")


def test_precision_gives_digits_that_no_float_has_been_near() -> None:
    document = run_cli('grad "x*y + erf(x)" --x 0.1 --y pi/4 --precision 50 --json').json
    with mp.workdps(70):
        x, y = mpf("0.1"), mp.pi / 4
        wanted = {
            "value": mp.nstr(x * y + mp.erf(x), 50, strip_zeros=False),
            "x": mp.nstr(y + 2 / mp.sqrt(mp.pi) * mp.exp(-x * x), 50, strip_zeros=False),
        }
    assert document["value"] == wanted["value"]
    assert document["gradient"] == {"x": wanted["x"], "y": "0.1" + 49 * "0"}
    assert document["variables"]["x"] == "0.1" + 49 * "0"
    assert document["nodes"][0]["adjoint"] == wanted["x"]


def test_precision_as_text_shows_results_in_full_and_nodes_in_brief() -> None:
    output = run_cli('grad "exp(1000*x) + 1" --x 1 --precision 30')
    assert "value = 1.97007111401704699388887935224e+434\n" in output
    assert "1.97007e+434" in output
    assert "overflow" not in output


def test_precision_keeps_conventions_and_warnings() -> None:
    document = run_cli("grad abs(x)+sqrt(x) --x 0 --precision 20 --json").json
    assert document["gradient"] == {"x": "inf"}
    assert {warning["kind"] for warning in document["warnings"]} == {"kink", "singular"}
    assert run_cli('grad "where(x > 0, x, log(x))" --x 2 --precision 20 --json').json["gradient"] == {
        "x": "1." + 19 * "0"
    }


@pytest.mark.slow
def test_slopes_of_beta_where_its_arguments_sum_to_a_pole() -> None:
    """Beta is 0 there. The sum of decimals that are no floats is not known exactly as a ball."""
    gradient = run_cli('grad "beta(a, b)" --a 0.3 --b -3.3 --precision 20 --json').json["gradient"]
    with mp.workdps(40):
        slope = mp.diff(lambda x: mp.beta(x, mp.mpf("-3.3")), mp.mpf("0.3"))
    assert [float(gradient[name]) for name in "ab"] == pytest.approx([float(slope)] * 2, rel=1e-14)


@pytest.mark.exhaustive
def test_slopes_of_beta_over_its_zeros_are_bounded() -> None:
    """Sums of the intervals include the pole -2."""
    enclosure = run_cli('grad "beta(a, b)" --a 2.5..2.6 --b -4.5..-4.4 --json').json["enclosure"]
    assert -0.22 < enclosure["b"][0] < enclosure["b"][1] < -0.15


def test_arrays_have_digits_and_checks_element_by_element() -> None:
    line = '"sum(W @ x)^2" --W "[[0.1, 1/3]]" --x "[3, 1]"'
    document = run_cli(f"grad {line} --precision 20 --json").json
    assert document["variables"]["W"] == [["0.10000000000000000000", "0.33333333333333333333"]]
    assert document["gradient"]["W"] == [["3.8000000000000000000", "1.2666666666666666667"]]
    assert "d/dx = [0.12666666666666666667, 0.42222222222222222222]" in run_cli(f"grad {line} --precision 20")
    assert [*run_cli(f"check {line} --json").json["checks"]] == ["W[0, 0]", "W[0, 1]", "x[0]", "x[1]"]
    assert "W[0, 1]" in run_cli(f"check {line}")


def test_a_formula_without_variables_has_digits_too() -> None:
    assert run_cli("grad sum([1,1/3]) --precision 20 --json").json["value"] == "1.3333333333333333333"


def test_large_arrays_of_many_digits_are_shown_by_their_range() -> None:
    output = run_cli(["grad", "sum(v*v)", "--v", str([*range(101)]), "--precision", "30"])
    assert "d/dv = 101 from 0 to 200" in output


def test_uncertain_values() -> None:
    for value in (
        "2+-0.1",
        "2±0.1",
        "2 ± 0.1",
        "2+-1/10",
        "2+/-0.1",
        "2.0(1)",
        "2.00(10)",
        "20(1)e-1",
        "2+-5%",
        "2.0 (1)",
        "2.0(0.1)",
        "20(1.0)e-1",
    ):
        document = run_cli(["grad", "x*y", "--x", value, "--y", "3+-0.2", "--json"]).json
        assert document["value"] == 6.0
        assert document["uncertainty"]["value"] == pytest.approx(0.5)
        assert document["uncertainty"]["shares"] == pytest.approx({"x": 0.36, "y": 0.64})
    assert "uncertainty" not in run_cli(["grad", "x", "--x", "2+(-0.1)", "--json"]).json
    output = run_cli("grad x*y --x 2+-0.1 --y 3")
    assert "standard error of the value = 0.3\n" in output
    assert "from x: 100.0 % of its variance" in output
    assert "Use the first-order result" in output
    assert run_cli("grad x --x=-2.5(3) --json").json["uncertainty"]["stderr"] == 0.3
    assert run_cli("grad sum(v) --v [-1,2]+-10% --json").json["uncertainty"]["stderr"] == pytest.approx(0.05**0.5)


def test_uncertainty_has_two_orders_and_a_referee() -> None:
    line = "grad x^2 --x 0+-0.1 --hessian --monte-carlo 1000 --json"
    document = run_cli(line).json
    assert document["hessian"] == {"x": {"x": 2.0}}
    assert [warning["kind"] for warning in document["warnings"]] == ["nonlinear"]
    found = document["uncertainty"]
    assert found["value"] == found["stderr"] == 0
    assert found["second_order"] == pytest.approx({"mean": 0.01, "stderr": 0.02**0.5 / 10})
    assert found["monte_carlo"]["mean"] == pytest.approx(0.01, rel=0.2)
    assert [*found["monte_carlo"]["quantiles"]] == ["0.025", "0.16", "0.5", "0.84", "0.975"]
    assert run_cli(line).json == document
    assert run_cli(f"{line} --seed 1").json["uncertainty"]["monte_carlo"] != found["monte_carlo"]
    assert found["recommended"] in run_cli("grad x^2 --x 0+-0.1 --monte-carlo 1000")


def test_uncertainty_comes_from_correct_digits() -> None:
    document = run_cli('grad "(1 - cos(x))/x^2" --x 1e-8+-1e-9 --json').json
    assert document["uncertainty"]["stderr"] == pytest.approx(1e-9 * 1e-8 / 12, rel=1e-9)
    # The mean is 1/2 - E(x^2)/24.
    assert document["uncertainty"]["second_order"]["mean"] == pytest.approx(0.5, rel=1e-12)


def test_correlated_values() -> None:
    found = run_cli("grad x+y --x 1+-0.3 --y 2+-0.4 --correlation x,y=0.5 --json").json["uncertainty"]
    assert found["stderr"] == pytest.approx((0.09 + 0.16 + 0.12) ** 0.5)
    assert found["shares"] == pytest.approx({"x": 0.15 / 0.37, "y": 0.22 / 0.37})
    line = ["grad", "sum(W*[[1,2],[3,4]])", "--W", "[[1,1],[1,1]]+-0.1", "--correlation", "W[0,1], W[1, 0]=1", "--json"]
    assert run_cli(line).json["uncertainty"]["stderr"] == pytest.approx(0.1 * (1 + 25 + 16) ** 0.5)


def test_each_output_of_a_jacobian_has_its_uncertainty() -> None:
    document = run_cli("grad [x*y,x^2] --x 0+-0.1 --y 3+-0.4 --correlation x,y=0.5 --jacobian --json").json
    alone = run_cli("grad x*y --x 0+-0.1 --y 3+-0.4 --correlation x,y=0.5 --json").json
    assert document["uncertainty"]["0"] == alone["uncertainty"]
    assert document["uncertainty"]["1"]["second_order"]["stderr"] == pytest.approx(0.02**0.5 / 10)
    (warning,) = [warning for warning in document["warnings"] if warning["kind"] == "nonlinear"]
    assert "1: the first-order uncertainty is misleading" in warning["message"]
    assert "uncertainty of b, to first order" in run_cli("grad a=x;b=2*x;a+b --x 1+-0.1 --jacobian --outputs a,b")


def test_variables_named_like_options_of_uncertain_values() -> None:
    document = run_cli("grad sigma*x --sigma 2 --x 3+-0.1 --json").json
    assert (document["value"], document["uncertainty"]["stderr"]) == (6.0, pytest.approx(0.2))
    assert "the option is written --sigma x=0.1" in run_cli("grad x --x 3 --sigma 2").stderr


@pytest.mark.parametrize(("errors", "wanted"), [("0.5", 2.5), ("[0.1,0.2]", (0.3**2 + 0.8**2) ** 0.5)])
def test_uncertain_arrays(errors: str, wanted: float) -> None:
    found = run_cli(["grad", "sum(v*[3,4])", "--v", f"[1,2]+-{errors}", "--json"]).json["uncertainty"]
    assert (found["value"], found["shares"]) == (pytest.approx(wanted), {"v": pytest.approx(1.0)})


def test_uncertainty_counts_what_is_not_differentiated_too() -> None:
    document = run_cli("grad x*y --x 2+-0.1 --y 3 --wrt y --json").json
    assert document["gradient"] == {"y": 2.0}
    assert document["uncertainty"]["value"] == pytest.approx(0.3)


def test_a_file_of_points_has_a_standard_error_per_row(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text("x,y,sx\n1,2,0.1\n3,4,0\n5,6,0.2\n")
    line = f"grad x*y --at {path} --wrt y --sigma x=sx --sigma y=0.5 --correlation x,y=0.8"
    header, *rows = [row.split(",") for row in run_cli(line).splitlines()]
    assert header == ["x", "y", "sx", "value", "d_y", "stderr"]
    for x, y, sx, *_, stderr in (map(float, row) for row in rows):
        assert stderr == pytest.approx(((y * sx) ** 2 + (x * 0.5) ** 2 + 1.6 * x * y * sx * 0.5) ** 0.5)
    document = json.loads(run_cli(f"{line} --json").splitlines()[0])
    assert (document["stderr"], document["gradient"]) == (float(rows[0][-1]), {"y": 1.0})
    # Values that are equal in all rows, and grids, may be uncertain as well.
    table = run_cli(
        [
            "grad",
            "a*x + sum(v)",
            "--at",
            str(path),
            "--a",
            "2.0(1)",
            "--v",
            "[1,2]+-0.3",
            "--where",
            "x < 4",
            "--wrt",
            "x",
        ]
    )
    assert [float(row.split(",")[-1]) for row in table.splitlines()[1:]] == pytest.approx([0.19**0.5, 0.27**0.5])
    assert run_cli("grad x*y --x 1:2:2 --y 3+-0.5").splitlines()[2].split(",")[-1] == "1"
    output = run_cli(f"grad (x-3)^2 --at {path} --sigma x=0.1")
    assert "is misleading, because the formula is nonlinear within the errors: 1, first row 2" in output.stderr
    # Correct digits, where rounding spoils them.
    path.write_text("x,s\n1e-8,1e-9\n")
    output = run_cli(f'grad "(1 - cos(x))/x^2" --at {path} --sigma x=s')
    assert "the standard error is 8.33333333333333e-19" in output.stderr


@each(
    "errors, message",
    [
        ("--sigma x=sz", "there is no column `sz`; the columns are x, sx"),
        ("--sigma x=-1", "the error of `x` must be 0 or positive, or an array of such errors, not -1"),
        ("--sigma x=sx", "row 2: the error in column `sx` must be 0 or positive, not -0.5"),
        ("--sigma x=sx --where 'x > 1'", "error: the error in column `sx` must be 0 or positive, not -0.5"),
        ("--sigma z=1", "no variable `z`"),
        ("--sigma x=1 --correlation x,y=0.5", "correlation of `y`: it is not an uncertain input"),
        ("--sigma x=1 --monte-carlo 100", "cannot be combined with --at"),
    ],
)
def test_errors_of_points_that_cannot_be(errors: str, message: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("points") / "points.csv"
    path.write_text("x,sx\n1,0.1\n2,-0.5\n")
    expect_refusal(run_cli(f"grad x^2 --at {path} {errors}"), message)


def test_trace_shows_where_the_variance_comes_from_path_by_path() -> None:
    line = "trace x*y+sin(x) --x 2+-0.1 --y 3+-0.2 --correlation x,y=0.5"
    document = run_cli(f"{line} --json").json
    sources = document["variance_paths"]
    shares = [path["share"] for source in sources.values() for path in source["paths"]]
    assert sum(shares) == pytest.approx(1)
    assert {name: source["share"] for name, source in sources.items()} == pytest.approx(
        document["uncertainty"]["shares"]
    )
    assert [path["nodes"] for path in sources["x"]["paths"]] == [[0, 2, 4], [0, 3, 4]]
    for source in sources.values():
        assert sum(path["change"] for path in source["paths"]) == pytest.approx(source["change"])
    text = run_cli(line)
    assert "0.1 × (-0.416147) = -0.0416147, -5.8 % of the variance" in text
    assert "variance = 0.4^2 + 0.258385^2 + 2 × 0.5 × 0.258385 × 0.4 = 0.330117" in text
    arrays = run_cli("trace sum(v*[3,4]) --v [1,2]+-0.1 --json").json["variance_paths"]
    assert {name: source["share"] for name, source in arrays.items()} == pytest.approx({"v[0]": 0.36, "v[1]": 0.64})
    many = run_cli("trace x*x*x*x --x 2+-0.1 --limit 1 --json").json["variance_paths"]["x"]
    assert (len(many["paths"]), many["rest"]) == (1, {"count": 3, "share": pytest.approx(0.75)})
    text = run_cli("trace x*x*x*x --x 2+-0.1 --limit 1")
    assert "0.1 × 8 = 0.8, 25.0 % of the variance" in text
    assert "… and 3 more, together 2.4, 75.0 % of the variance" in text
    assert "all paths together: 3.2" in text
    opposed = "trace x+y+z --x 1+-0.1 --y 2+-0.3 --z 3+-0.05 --correlation x,y=-0.9 --json"
    assert [*run_cli(opposed).json["variance_paths"]] == ["y", "x", "z"]  # by size: the share of x is negative


@each(
    "line, name, right",
    [
        ("grad sum(v*[3,1]) --v [1e-400,0]", "value", "3e-400"),
        ("grad sum(W@[3,1]) --W [[0,1e-400],[0,0]]", "value", "1e-400"),
        ("grad max(v) --v [-1e400,-2e400]", "value", "-1e+400"),
        ("grad 3*x --x 1 --direction x=1e-400", "directional", "3e-400"),
        ("grad sum(v*[3,1]) --v [1,0] --direction v=[1e-400,0]", "directional", "3e-400"),
    ],
)
def test_numbers_that_no_float_represents_keep_their_value_wherever_they_stand(
    line: str, name: str, right: str
) -> None:
    warnings = run_cli(f"{line} --json").json["warnings"]
    assert {name: text for warning in warnings for name, text in warning.get("right", {}).items()}[name] == right


# fmt: off
BAD = [
    ("grad x*y --x 2+-0.1 --y 0:1:3 --monte-carlo 100", "cannot be combined with --y 0:1:3"),
    ("grad x --x 2 --monte-carlo 100",        "needs uncertain values"),
    ("grad x --x 2 --correlation x,y=0.5",    "needs uncertain values"),
    ("grad x --x 2+-0.1 --seed 3",            "--set seed=3"),
    ("grad x --x 2+-0.1 --sigma x=3",         "two values"),
    ("grad x --x 2 --sigma y=3",              "no variable `y`"),
    ("grad x*y --x 2+-1 --y 3 --correlation x,y=0.5", "correlation of `y`: it is not an uncertain input"),
    ("grad x*y --x 2+-1 --y 3+-1 --correlation x,z=0.5", "correlation of `z`"),
    ("grad x*y --x 2+-1 --y 3+-1 --correlation x,y=1.5", "from -1 to 1, not 1.5"),
    ("grad x*y --x 2+-1 --y 3+-1 --correlation x,y=nan", "from -1 to 1, not nan"),
    ("grad x*y --x 2+-1 --y 3+-1 --correlation x=1", "takes two names and a number"),
    ("grad x*y --x 2+-1 --y 3+-1 --correlation x,x=1", "takes two names and a number"),
    ("grad x*y --x 2+-1 --y 3+-1 --correlation x,y=1 --correlation y,x=1", "`y` and `x` is given twice"),
    ("grad x*y*z --x 2+-1 --y 3+-1 --z 1+-1 --correlation x,y=1 --correlation y,z=1 --correlation x,z=-1",
                                              "`x`, `y`, `z` are not positive semidefinite"),
    ("grad sum(v) --v [1,2]+-1 --correlation v,v[0]=1", "name its elements, such as v[0]"),
    ("trace x --x 2+-0.1 --format svg",       "--format svg shows no uncertain value"),
    ("grad x --x 2 --precision 20 --order 2", "cannot be combined with --order"),
    ("grad x --x 0:1e-400:3",                 "must be representable as a float, not `1e-400`"),
    ("grad x --x 1e-400..1",                  "the value of `x` must be representable as a float, not `1e-400`"),
    ("solve x-2 --x 0..1e400",                "the value of `x` must be representable as a float, not `1e400`"),
    ("solve x-y --x 0..1 --y 1e-400",         "the value of `y` must be representable as a float"),
    ("minimize x^2 --x 1e-400",               "the value of `x` must be representable as a float"),
    ("grad x*y --x 1:2:2 --y 1 --sigma x=1e-400", "the error of `x` must be representable as a float"),
    ("grad x*y --x 1+-1 --y 1+-1 --correlation x,y=1e-400", "--correlation x,y must be representable as a float"),
    ("grad x --x 2+-",                        "written 2+-0.1"),
    ("grad x --x 1+-2+-3",                    "written 2+-0.1"),
    ("grad sum(v) --v [1+-0.1,2]",            "[1, 2]+-[0.1, 0.2]"),
    ("grad sum(v) --v [1,2]+-[1,2,3]",        "an array of such errors"),
    ("grad sum(v) --v [1,2]+-[1,-1]",         "must be 0 or positive"),
    ("grad x --x 2+-[1,2]",                   "an array of such errors"),
    ("grad x --x 2+-z",                       "error of `x`"),
    ("grad x --x 2+-(-1)",                    "must be 0 or positive"),
    ("grad x --x 2.05e-3(3)",                 "a number and its error are written 2.0(1)e-3"),
    ("grad sum(v) --v [1(1),2.0(2)]",         "an array and its errors [1, 2]+-[0.1, 0.2]"),
    ("grad x --x 2 --precision 0",            "--precision"),
    ("grad x --x 2 --precision 1000000",      "from 2 to 100,000"),
    ("grad x*y --x 2 --precision 30",         "no value for `y`"),
    ("grad sum(outer(v,v)) --v [1,2] --precision 30 --order 2", "cannot be combined with --order"),
    ("check 2*v --v [1,2]",                   "is a number here, not an array"),
    ("check x*y --x 2",                       "no value for `y`"),
    ("check 2*3",                             "the expression has no variables"),
    ("check x --x 0:1:3",                     "a range here (`0:1:3`); only `grad` takes grids"),
    ("check x*y --x 1 --y 0:1:3",             "`y` cannot be a range here (`0:1:3`)"),
    ("check x --x 2+-0.1",                    "cannot have an error here (`2+-0.1`), only in `grad` and `trace`"),
    ("check x --x 2.0(1)",                    "cannot have an error here (`2.0(1)`), only in `grad` and `trace`"),
    ("check x --x 2 --precision 5",           "--precision is an option of `autodiff grad`"),
    ("check x --x 2 --wrt y",                 "no variable `y`"),
]
# fmt: on


@pytest.mark.parametrize(("line", "message"), BAD)
def test_bad_input_has_status_2_a_message_and_no_output(line: str, message: str) -> None:
    output = run_cli(line)
    assert (output.status, output) == (2, "")
    assert message in output.stderr


@pytest.mark.slow
def test_flint_is_imported_only_when_needed() -> None:
    program = "import sys; from autodiff_cli.cli.main import main; main(); sys.exit('flint' in sys.modules)"
    for words, expected in (["grad", "x", "--x", "2"], 0), (["grad", "x", "--x", "2", "--precision", "30"], 1):
        done = subprocess.run([sys.executable, "-c", program, *words], check=False, capture_output=True)
        assert done.returncode == expected


@each(
    ("text", "x", "conclusion"),
    [
        ("log(x)", "1", "correct"),
        ("log(x)", "-1", "correct where there is a derivative"),
        ("abs(x)", "0", "correct where there is a derivative"),
        ("cbrt(x)^3", "0", "correct where there is a derivative, except where it is nan"),
    ],
)
def test_no_gradient_is_called_correct_where_there_is_none(text: str, x: str, conclusion: str) -> None:
    assert str(run_cli(["check", text, "--x", x])).splitlines()[-1] == f"The gradient is {conclusion}."


@each("values", ["--x 1 --y -2", "--x -1 --y 2", "--x -0.3 --y -1e5", "--x 1e-9 --y 3"])
@each("text", ["exp(-x^2)*y", "-exp(x)*y", "(1 - cos(x))*y", "x/y - x^3", "sin(pi)*x + y", "0*x + y"])
def test_relative_errors_are_those_of_the_printed_numbers(text: str, values: str) -> None:
    """They have no sign, also of negative slopes."""
    for found in run_cli(["check", text, *values.split(), "--json"]).json["checks"].values():
        exact = Fraction(found["reference"])
        if exact == 0:
            assert found["relative_error"] == (None if found["gradient"] else 0)
            continue
        error = abs(Fraction(found["gradient"]) - exact) / abs(exact)
        assert found["relative_error"] == pytest.approx(float(error), rel=1e-9, abs=1e-45)

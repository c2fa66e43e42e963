"""`autodiff check`, `grad --precision` and uncertain values."""

from __future__ import annotations

import subprocess
import sys

import pytest
from mpmath import mp, mpf

from tests.support import run_cli


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
    for value in ("2+-0.1", "2±0.1", "2 ± 0.1", "2+-1/10"):
        document = run_cli(["grad", "x*y", "--x", value, "--y", "3+-0.2", "--json"]).json
        assert document["value"] == 6.0
        assert document["uncertainty"]["value"] == pytest.approx(0.5)
        assert document["uncertainty"]["shares"] == pytest.approx({"x": 0.36, "y": 0.64})
    assert "uncertainty" not in run_cli(["grad", "x", "--x", "2+(-0.1)", "--json"]).json
    output = run_cli("grad x*y --x 2+-0.1 --y 3")
    assert "standard error of the value = 0.3\n" in output
    assert "from x: 100.0 % of its variance" in output


@pytest.mark.parametrize(("errors", "wanted"), [("0.5", 2.5), ("[0.1,0.2]", (0.3**2 + 0.8**2) ** 0.5)])
def test_uncertain_arrays(errors: str, wanted: float) -> None:
    found = run_cli(["grad", "sum(v*[3,4])", "--v", f"[1,2]+-{errors}", "--json"]).json["uncertainty"]
    assert found == {"value": pytest.approx(wanted), "shares": {"v": pytest.approx(1.0)}}


def test_uncertainty_counts_what_is_not_differentiated_too() -> None:
    document = run_cli("grad x*y --x 2+-0.1 --y 3 --wrt y --json").json
    assert document["gradient"] == {"y": 2.0}
    assert document["uncertainty"]["value"] == pytest.approx(0.3)


# fmt: off
BAD = [
    ("grad x --x 2+-0.1 --hessian",           "cannot be combined with --hessian"),
    ("grad x*y --x 2+-0.1 --y 0:1:3",         "cannot be combined with --y 0:1:3"),
    ("grad x --x 2 --precision 20 --order 2", "cannot be combined with --order"),
    ("grad x --x 2+-",                        "written 2+-0.1"),
    ("grad x --x 1+-2+-3",                    "written 2+-0.1"),
    ("grad sum(v) --v [1+-0.1,2]",            "[1, 2]+-[0.1, 0.2]"),
    ("grad sum(v) --v [1,2]+-[1,2,3]",        "an array of such errors"),
    ("grad sum(v) --v [1,2]+-[1,-1]",         "must be 0 or positive"),
    ("grad x --x 2+-[1,2]",                   "an array of such errors"),
    ("grad x --x 2+-z",                       "error of `x`"),
    ("grad x --x 2+-(-1)",                    "must be 0 or positive"),
    ("grad x --x 2 --precision 0",            "--precision"),
    ("grad x --x 2 --precision 1000000",      "from 2 to 100,000"),
    ("grad x*y --x 2 --precision 30",         "no value for `y`"),
    ("grad sum(outer(v,v)) --v [1,2] --precision 30 --order 2", "cannot be combined with --order"),
    ("check 2*v --v [1,2]",                   "is a number here, not an array"),
    ("check x*y --x 2",                       "no value for `y`"),
    ("check 2*3",                             "the expression has no variables"),
    ("check x --x 0:1:3",                     "only `grad` accepts a range (`0:1:3`)"),
    ("check x --x 2+-0.1",                    "only `grad` accepts a value with an error (`2+-0.1`)"),
    ("trace x --x 2±0.1",                     "only `grad` accepts a value with an error (`2±0.1`)"),
    ("check x --x 2 --precision 5",           "there is no option --precision\n"),
    ("check x --x 2 --wrt y",                 "no variable `y`"),
]
# fmt: on


@pytest.mark.parametrize(("line", "message"), BAD)
def test_bad_input_has_status_2_a_message_and_no_output(line: str, message: str) -> None:
    output = run_cli(line)
    assert (output.status, output) == (2, "")
    assert message in output.stderr


def test_flint_is_imported_only_when_needed() -> None:
    program = "import sys; from autodiff_cli.cli.main import main; main(); sys.exit('flint' in sys.modules)"
    for words, expected in (["grad", "x", "--x", "2"], 0), (["grad", "x", "--x", "2", "--precision", "30"], 1):
        done = subprocess.run([sys.executable, "-c", program, *words], check=False, capture_output=True)
        assert done.returncode == expected

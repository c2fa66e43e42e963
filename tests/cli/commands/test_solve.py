"""`autodiff solve`, `minimize` and `maximize`."""

from __future__ import annotations

import io
import itertools
import re

import pytest
from mpmath import mp, mpf

from autodiff_cli.cli.environment import Environment
from autodiff_cli.cli.main import run
from tests.each import amount, each
from tests.support import expect_refusal, run_cli


def test_zeros_as_text_and_as_json() -> None:
    output = run_cli('solve "x^3 - 2*x - 5" --x 0..3')
    assert (output.status, output.stderr) == (0, "")
    assert output.splitlines()[:2] == ["x^3 - 2*x - 5", "with x between 0 and 3"]
    assert "2.094551481542" in output
    assert "Complete: 1 zero, proven" in output
    document = run_cli('solve "x^3 - 2*x - 5" --x 0..3 --json').json
    assert document["box"] == {"x": [0, 3]}
    assert (document["complete"], document["unresolved"]) == (True, [])
    (root,) = document["roots"]
    assert root == {
        "point": {"x": 2.0945514815423265},
        "enclosure": {"x": [2.0945514815423265, 2.094551481542327]},
        "unique": True,
    }


def test_two_zeros_that_no_computed_digit_tells_apart_are_not_counted_as_one() -> None:
    command = 'solve "(x - 0.1)*(x - 0.1 - 1e-25)*(x - 0.5)" --x 0..1'
    assert "Complete: at least 2 zeros, proven" in run_cli(command)
    assert "Complete: 3 zeros, proven" in run_cli(f"{command} --precision 40")


def test_unknowns_and_fixed_values() -> None:
    document = run_cli('solve "[a*x^2 + y^2 == 1, y == x]" --a 3 --x -2..2 --y -2..2 --json').json
    assert document["box"] == {"x": [-2, 2], "y": [-2, 2]}
    assert [root["point"] for root in document["roots"]] == [{"x": -0.5, "y": -0.5}, {"x": 0.5, "y": 0.5}]
    assert "a = 3" in run_cli('solve "a*x - 1" --a 3 --x 0..1')


def test_optima_as_text_and_as_json() -> None:
    output = run_cli('minimize "x^4 - 3*x^2 + x" --x -2..2')
    assert "global minimum = -3.51390503893478" in output
    assert "Complete: 3 points, proven" in output
    for command, text, kind in (("maximize", "-(x - 1)^2", "maximum"), ("minimize", "(x - 1)^2", "minimum")):
        assert f"exactly one stationary point nearby, a {kind}." in run_cli([command, text, "--x", "0.5"])
    document = run_cli('maximize "x*exp(-x)" --x 0..10 --json').json
    assert [point["kind"] for point in document["points"]] == ["maximum"]
    assert document["points"][0]["point"] == {"x": 1.0}
    assert document["points"][0]["on_edge"] is False
    assert document["global"]["points"] == [0]
    low, high = document["global"]["value_enclosure"]
    assert low <= 0.36787944117144233 <= high
    assert document["complete"] is True


def test_an_optimum_whose_terms_cancel_has_only_digits_that_are_proven() -> None:
    with mp.workdps(100):
        x = mp.findroot(lambda x: 4 * x * (x**2 - 2) + mpf(10) ** -20, mp.sqrt(2))
        least = (x**2 - 2) ** 2 + (x - mp.sqrt(2)) / mpf(10) ** 20
        output = run_cli('minimize "(x^2 - 2)^2 + (x - sqrt(2))/10^20" --x 1..2 --precision 30')
        (text,) = re.findall(r"global minimum = -(.*)e-42", output)
        assert text == mp.nstr(-least * mpf(10) ** 42, len(text) - 1)
        assert 20 < len(text) < 30


def test_digits_and_precision() -> None:
    (root,) = run_cli('solve "x^2 - 2" --x 0..2 --precision 40 --json').json["roots"]
    assert root["point"]["x"] == "1.414213562373095048801688724209698078570"
    assert root["enclosure"]["x"][0] == "1.414213562373095048801688724209698078569"
    assert "1.41\n" in run_cli('solve "x^2 - 2" --x 0..2 --digits 3')


def test_what_is_unresolved_is_said() -> None:
    output = run_cli('solve "tan(x)" --x -5..5')
    assert output.status == 0
    assert "unresolved\n" in output
    assert "Incomplete: 3 zeros proven; there may be others in the unresolved boxes." in output
    for command in ("solve", "minimize", "maximize"):
        cut_short = run_cli(f"{command} sin(x) --x 1..100 --max-boxes 2 --json").json
        assert (cut_short["complete"], cut_short["boxes"]) == (False, 2)
        assert cut_short["unresolved"]


@pytest.mark.slow
def test_an_incomplete_search_claims_no_global_optimum() -> None:
    output = run_cli('minimize "sqrt(x)*log(x)" --x 0..2')
    assert "infimum is at most -0.735758882342884" in output
    assert "no bound on the other side is proven" in output
    assert "-0.735758882342885  minimum\n" in output
    assert "supremum is at least " in run_cli('maximize "tan(x)" --x 0..2')


def test_a_formula_without_values_has_no_optimum() -> None:
    assert "does not exist: the formula is undefined" in run_cli('minimize "log(-x)" --x 1..2')


@each(
    ("command", "optimum"),
    [
        ("maximize exp(1000*x) --x 0..1", "1.97007111401705e+434"),
        ("maximize exp(1000*x) --x 0..1 --precision 20", "1.9700711140170469939e+434"),
        ("minimize 1+(x^2-1)^2+1e-30*x --x -2..2 --precision 35", "0.99999999999999999999999999999900000"),
    ],
)
def test_an_optimum_that_no_float_represents_has_the_digits_of_its_point(command: str, optimum: str) -> None:
    (line,) = [line for line in run_cli(command).splitlines() if line.startswith("global m")]
    assert line.split(" = ")[1] == optimum


@pytest.mark.slow
def test_a_local_search() -> None:
    document = run_cli('minimize "(1 - x)^2 + 100*(y - x^2)^2" --x -1 --y 2 --json').json
    assert document["complete"] is False
    assert [point["point"] for point in document["points"]] == [{"x": 1.0, "y": 1.0}]
    failed = run_cli("minimize x --x 1")
    assert failed.status == 1
    assert "without a proven minimum" in failed
    assert run_cli('minimize "-x^2" --x 1').stderr == ""  # no overflow on the way down


def test_a_local_search_without_an_optimum_fails() -> None:
    lines = "minimize x --x 1 --json", "maximize x --x 1", "minimize x --x 1", 'minimize "-x^2" --x 1 --json'
    for line in lines[: amount(1, 4, 4)]:
        assert run_cli(line).status == 1
    assert [run_cli(f"{command} x^2 --x 1").status for command in ("minimize", "maximize")] == [0, 1]
    assert run_cli("minimize exp(x) --x 0..1 --max-boxes 1").status == 0  # an incomplete search is no failure


def test_plots() -> None:
    assert "line: x^2 - 2" in run_cli('solve "x^2 - 2" --x 0..2 --plot')
    assert "y over x, o: points found" in run_cli('maximize "x*y*(1 - x - y)" --x 0..1 --y 0..1 --plot')
    expect_refusal(run_cli('minimize "x^2 - 2*x" --x 0 --plot'), "over a range LOW..HIGH")


def test_a_long_search_shows_its_progress_in_a_terminal() -> None:
    def searched(**settings: bool) -> str:
        times = [0.0, 0.5, 0.9, 2.1, 2.15, 2.35, 9.0]
        clock = iter(times)
        stdout = io.StringIO()
        environment = Environment(io.StringIO(), stdout, io.StringIO(), clock=lambda: next(clock), **settings)
        show = environment.progress_bar().update_search
        for time in times[1:]:
            show(round(1000 * time), 1)
        show(9000, 0)
        return stdout.getvalue()

    assert [*dict.fromkeys(re.findall(r"([\d,]+) boxes examined", searched(terminal=True)))] == [
        "2,100",
        "2,350",
        "9,000",
    ]
    assert searched(terminal=True, json=True) == searched(terminal=False) == ""


@each("limit", [1, 30, 5000, 100_000])
def test_no_progress_is_left_when_a_report_begins(limit: int) -> None:
    stdout = io.StringIO()
    environment = Environment(io.StringIO(), stdout, stdout, True, clock=itertools.count(step=10).__next__)
    assert run(["minimize", "sin(9*x)*y", "--x", "-9..9", "--y", "-5..5", "--max-boxes", str(limit)], environment) == 0
    progress, title, report = stdout.getvalue().partition("sin(9*x)*y\n")
    assert title
    assert re.sub(r"\s|\x1b\[[\d?;]*[a-zA-Z]", "", progress.rpartition("\x1b[2K")[2]) == ""
    assert "boxes examined, " not in report.partition("Complete")[0].partition("Incomplete")[0]


@each(
    "line, message",
    [
        ('solve "x + y" --x 0..1',                     "no range or value for `y`; add --y -10..10"),
        ('solve "x^2 - 2" --x 1',                      "no variable has a range; to solve for `x`, write --x -10..10"),
        ('solve "[x, x - 1]" --x 0..1',                "2 equations for 1 unknown"),
        ('solve "x + y" --x 0..1 --y 0..1',            "1 equation for 2 unknowns"),
        ("solve x --x 2..1",                           "an interval is LOW..HIGH"),
        ("solve x --x 1..1",                           "an interval is LOW..HIGH"),
        ("solve x --x 1..",                            "an interval is LOW..HIGH"),
        ("grad x --x ..2",                             "an interval is LOW..HIGH"),
        ("solve x --x 0..inf",                         "finite numbers"),
        ("solve x --x 0:3",                            "a range is LOW..HIGH"),
        ("solve 3",                                    "the expression has no variables"),
        ("solve x --x 0..1 --max-boxes 0",             "--max-boxes must be at least 1"),
        ("minimize [x,y] --x 0..1 --y 0..1",           "the output is an array"),
        ('minimize "x == 1" --x 0..1',                 "to solve it, use `solve`"),
        ("solve x --x 0..1 --z 3",                     "no variable `z`"),
        ("solve a*x --x 0..1 --a 2+-0.1",              "cannot have an error here (`2+-0.1`)"),
        ('solve "x - y" --x 0..3 --y [1,2,3]',         "`y` is an array; here, write its elements as numbers"),
        ('minimize "x^2 - y" --x 0..3 --y [1,2,3]',    "`y` is an array"),
        ('minimize "x^2 - y" --x 1 --y [1,2,3]',       "`y` is an array"),
        ('minimize "x^2 - y" --x 0..3 --y nan',        "the value of `y` must be finite, not nan"),
        ('maximize "x^2 - y" --x inf --y 1',           "the value of `x` must be finite, not inf"),
        ('solve "x^2 < 2" --x 0..2',                    "a condition has no zeros"),
        ('solve "x == y == 2" --x 0..3 --y 0..3',      "equations are `x == 1` or `[x == 1, y == 2]`"),
        ("roots x --x 0..1",                           "did you mean `solve`?"),
    ],
)  # fmt: skip
def test_refusals(line: str, message: str) -> None:
    expect_refusal(run_cli(line), message)


@each(
    ("written", "zero"),
    [
        ("x = cos(x)", 0.7390851332151607),
        ("cos(x) = x", 0.7390851332151607),
        ("x = 0.5", 0.5),
        ("[x = 0.5]", 0.5),
        ("4*x^2 = 1", 0.5),
        ("z = 2; z*x = 1", 0.5),
    ],
)
def test_an_equation_with_a_single_sign_is_refused_with_one_that_works(written: str, zero: float) -> None:
    refused = run_cli(["solve", written, "--x", "0..1"])
    if ";" in written:  # the first `=` binds a name
        expect_refusal(refused, "use `==` to compare two values")
        return
    expect_refusal(refused, "an equation is written with `==`: ")
    equation = refused.stderr.strip().partition("`==`: ")[2]
    (root,) = run_cli(["solve", equation, "--x", "0..1", "--json"]).json["roots"]
    assert root["point"]["x"] == pytest.approx(zero)


@each(
    "written",
    [
        "-5,4",
        "[-5, 4]",
        "(-5,4)",
        "-5:4",
        "-5 to 4",
        "-5 4",
        "-5;4",
        "-5<x<4",
        "-5 <= x <= 4",
        "4,-5",
        "{-5., 4.0}",
        "-5e0,4",
    ],
)
def test_a_range_of_other_tools_is_refused_with_one_that_works(written: str) -> None:
    for command in ("solve", "minimize"):
        refused = run_cli([command, "x^2 - 3", "--x", written])
        expect_refusal(refused, "a range is LOW..HIGH, such as")
        meant = re.search(r"such as (\S+), not", refused.stderr)
        assert meant is not None
        assert run_cli([command, "x^2 - 3", "--x", meant[1], "--json"]).json["box"] == {"x": [-5, 4]}
    for line in ("solve x --bounds x=0:1", "minimize x --range 0,1", "maximize x --from 0"):
        expect_refusal(run_cli(line), "the range of a variable is the value of its option, such as --x -5..5")

"""What `autodiff train` takes and says of parameters beyond their starts: bounds, ties, derived quantities."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import ROOT, expect_refusal, run_cli

DECAY = str(ROOT / "docs" / "data" / "decay.csv")
MODEL = "y ~ a*exp(-b*x)"


def train(*options: str, model: str = MODEL):
    return run_cli(["train", model, DECAY, *options])


@pytest.mark.parametrize("bounds", ["b=0:1.2", "0 < b <= 1.2", "b<1.2"])
def test_active_bounds_are_reported(bounds: str) -> None:
    output = train("--bounds", bounds)
    assert output.status == 0
    assert "on its bound" in output
    assert "`b` ends on its upper bound, 1.2; the standard errors" in output
    found = train("--bounds", bounds, "--json").json
    assert found["parameters"]["b"] == 1.2
    assert found["stderr"]["b"] is None
    assert found["confidence"]["b"] is None
    assert found["stderr"]["a"] > 0
    assert found["bounds"]["b"][1] == 1.2


def test_conditions_on_several_parameters_are_no_repetition() -> None:
    assert train("--bounds", "0 <= a <= 5", "--bounds", "0 <= b <= 5").status == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--bounds", "b=0:1", "--bounds", "b=0:2"], "--bounds b is given twice"),
        (["--bounds", "b=0:1", "--bounds", "b < 2"], "the bounds of `b` are given twice"),
        (["--bounds", "b=2:1"], "the lower bound of `b` is above the upper one: 2 to 1"),
        (["--bounds", "b < 2*a"], "a bound must be a number; write what depends on parameters into the model"),
        (["--bounds", "b"], "write bounds as NAME=LOW:HIGH"),
        (["--bounds", "bb=0:1"], "the model has no parameter `bb`"),
        (["--bounds", "x=0:1"], "`x` is a column of the data"),
        (["--bounds", "b=0:1", "--b", "5"], "the starting value 5 of `b` is outside its bounds, 0 to 1"),
        (["--bounds", "b=0:1", "--fix", "b"], "`b` is fixed"),
        # numbers with all digits that matter
        (["--bounds", "b=0.12345678:0.12345678"], "--fix b=0.12345678"),
        (["--bounds", "b=1.00000002:1.00000001"], "1.00000002 to 1.00000001"),
        (
            ["--bounds", "b=0:1.00000001", "--b", "1.00000002"],
            "value 1.00000002 of `b` is outside its bounds, 0 to 1.00000001",
        ),
    ],
)
def test_bounds_that_cannot_be_are_refused(options: list[str], message: str) -> None:
    expect_refusal(train(*options), message)


def test_a_name_that_is_bound_in_the_text_ties_parameters() -> None:
    tied = train("--json", model="b = 2*a; y ~ 2.5*exp(-a*x)*b/b*b/(2*a)").json
    assert [*tied["parameters"]] == ["a"]
    assert tied["parameters"]["a"] == pytest.approx(1.3, rel=0.01)


def test_derived_quantities_are_in_the_text_and_in_json() -> None:
    options = ["--derive", "half = ln(2)/b", "--derive", "area=a/b"]
    assert "half  0.5330          0.0034  0.5262 to 0.5398" in train(*options)
    found = train(*options, "--json").json
    half, b = found["derived"]["half"], found["parameters"]["b"]
    assert half["value"] == pytest.approx(0.6931471805599453 / b)
    assert half["stderr"] == pytest.approx(0.6931471805599453 / b**2 * found["stderr"]["b"])
    assert [*found["derived"]] == ["half", "area"]
    assert "derived" not in train("--json").json


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--derive", "q=a", "--derive", "q=b"], "--derive q is given twice"),
        (["--derive", "q=bb"], "--derive: line 1, column 1: the model has no parameter `bb`"),
        (["--derive", "q=2a"], "--derive: line 1, column 2: expected an operator before `a`"),
        (["--fix", "a=2b"], "--fix: line 1, column 2: expected an operator before `b`"),
        (["--prior", "a ~ normal (2, b c)"], "column 14: expected `,` or an operator before `c`\n  normal (2, b c)\n"),
        (["--derive", "q=x"], "`x` is a column, but a derived quantity"),
        (["--derive", "q="], "derive takes NAME=EXPR"),
    ],
)
def test_quantities_that_cannot_be_are_refused(options: list[str], message: str) -> None:
    expect_refusal(train(*options), message)


def test_requested_intervals_are_shown_side_by_side() -> None:
    options = ["--profile", "--bootstrap", "30", "--confidence", "90"]
    output = train(*options)
    assert "90 % intervals" in output
    assert "2.483 to 2.518" in output
    found = train(*options, "--json").json["intervals"]
    assert [*found] == ["profile", "bootstrap"]
    for of_kind in found.values():
        assert of_kind["a"][0] < 2.5 < of_kind["a"][1]
    assert "intervals" not in train("--json").json
    expect_refusal(train("--bootstrap", "1"), "--bootstrap must be at least 2 resamples, not 1")
    expect_refusal(train("--profile", "--loss", "mae"), "profile needs least squares or a likelihood")


def test_fix_ties_a_parameter_to_others() -> None:
    found = train("--fix", "b=a/2", "--json").json
    assert [*found["parameters"]] == ["a"]
    assert found["derived"]["b"]["value"] == pytest.approx(found["parameters"]["a"] / 2)
    assert train("--fix", "b=pi/2", "--json").json["fixed"] == {"b": pytest.approx(1.5707963267948966)}
    expect_refusal(train("--fix", "b=2*x"), "`x` is a column")
    expect_refusal(train("--fix", "z=2*a"), "the model has no parameter `z` to tie")
    expect_refusal(train("--fix", "b=a/2", "--fix", "b=3"), "--fix b is given twice")


def test_groups_have_their_derived_quantities_too(tmp_path: Path) -> None:
    rows = "".join(f"{x},{a * x},{name}\n" for name, a in (("u", 2), ("v", 3)) for x in range(1, 5))
    path = tmp_path / "sites.csv"
    path.write_text(f"x,y,site\n{rows}")
    line = ["train", "y ~ a*x", str(path), "--by", "site", "--derive", "twice = 2*a"]
    assert [group["derived"]["twice"]["value"] for group in run_cli([*line, "--json"]).json["groups"]] == [4, 6]
    assert "twice" in run_cli(line)
    run_cli([*line, "-o", str(tmp_path / "table.csv")])
    header, first, _ = (text.split(",") for text in (tmp_path / "table.csv").read_text().splitlines())
    assert float(first[header.index("twice")]) == 4
    assert "twice_stderr" in header

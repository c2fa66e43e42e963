"""`autodiff compare` as it is typed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autodiff_cli.render.formatting import number_formats
from tests.support import expect_refusal, run_cli

DECAY = "docs/data/decay.csv"
MODELS = ["y ~ a*exp(-b*x)", "y ~ a + b*x", "y ~ a*exp(-b*x) + c"]


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])


def test_models_are_listed_best_first() -> None:
    output = run_cli(["compare", DECAY, *MODELS])
    assert output.status == 0
    lines = output.splitlines()
    assert lines[0] == "3 models fitted to 40 rows, best first"
    assert lines[2].split("  ")[-1] == "y ~ a*exp(-b*x)"
    assert "1 within 2: F(1, 37)" in output
    document = run_cli(["compare", DECAY, *MODELS, "--json"]).json
    assert [one["model"] for one in document["models"]] == [MODELS[0], MODELS[2], MODELS[1]]
    best = document["models"][0]
    assert best["k"] == 3
    assert best["aicc"] == min(one["aicc"] for one in document["models"])
    assert {"loss", "bic", "cv_error", "parameters", "delta_aicc", "weight"} <= {*best}
    assert [test["test"] for test in document["tests"]].count("F") == 1


@pytest.mark.parametrize(
    ("options", "order"),
    [
        (["--loss", "mae", "--folds", "0"], "lowest loss first"),
        (["--family", "quasipoisson", "--folds", "0"], "lowest loss first"),
        (["--loss", "mae"], "best first"),
        (["--folds", "0"], "best first"),
    ],
)
def test_a_loss_alone_does_not_make_a_model_the_best(options: list[str], order: str) -> None:
    lines = run_cli(["compare", "docs/data/warpbreaks.csv", "breaks ~ a", "breaks ~ a[wool]", *options]).splitlines()
    assert lines[0] == f"2 models fitted to 54 rows, {order}"


def test_starts_are_for_the_models_that_have_them() -> None:
    document = run_cli(["compare", DECAY, *MODELS, "--c", "0.5", "--folds", "0", "--json"]).json
    assert document["models"][0]["cv_error"] is None
    expect_refusal(run_cli(["compare", DECAY, *MODELS, "--q", "0.5"]), "the models have no parameter `q`")


def test_the_report_says_which_rows_no_model_was_fitted_to(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("x,y,w\n1,1,1\n,2,1\n3,3.1,0\n4,4,1\n5,5.3,2\n6,6.1,1\n")
    output = run_cli(f'compare "y ~ a*x+b" "y ~ a" {path} --weights w --drop-missing')
    assert output.splitlines()[0] == "2 models fitted to 4 rows, best first"
    assert output.endswith(
        "notes\n  rows left out because a cell is missing: 1\n  rows left out because their weight is 0: 1\n"
    )


def test_one_model_that_fails_does_not_stop_the_others() -> None:
    output = run_cli(["compare", DECAY, MODELS[0], "y ~ a*log(x - 9) + b", "--json"])
    assert output.status == 0
    good, bad = output.json["models"]
    assert good["model"] == MODELS[0]
    assert "log(x - 9)" in bad["warnings"][-1]
    assert bad["aicc"] is None or bad["aicc"] == "nan"
    assert "log(x - 9)" in run_cli(["compare", DECAY, MODELS[0], "y ~ a*log(x - 9) + b"])


def test_bad_input_is_status_2() -> None:
    expect_refusal(run_cli(["compare", DECAY]), "missing MODEL...")
    expect_refusal(run_cli(["compare", DECAY, MODELS[0]]), "needs at least two models")
    expect_refusal(run_cli(["compare", DECAY, MODELS[0], "y ~ a +"]), "")
    expect_refusal(
        run_cli(["compare", DECAY, MODELS[0], MODELS[1], "--folds", "1"]), "--folds must be at least 2, or 0 for none"
    )
    expect_refusal(run_cli(["compare", DECAY, MODELS[0], MODELS[1], "--jsn"]), "--json")


def test_warnings_and_pairs_without_a_test_are_told(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("x,y\n1,2.5\n2,3.9\n3,6.2\n4,8\n5,9.9\n6,12.3\n", encoding="utf-8")
    alike = run_cli(["compare", str(path), "y ~ a + b*x", "y ~ c"])
    assert "warnings" not in alike
    assert "no test for" not in alike
    assert "2 within 1: F(1, 4)" in alike
    other = run_cli(["compare", str(path), "y ~ a + b*x", "y ~ c*x^d", "y ~ p + q*x + r*x"])
    warnings = other.partition("\nwarnings\n")[2]
    assert "the data determine only a combination of `q`, `r`" in warnings
    assert "no test for other pairs: it is not known whether one is a special case of the other" in other


BRIEF = number_formats(None)[1]
UNKNOWN = "it is not known whether one is a special case of the other"


def cell(number: float | str | None, form: Callable[[float], str] = BRIEF) -> str:
    return "-" if number in (None, "nan") else form(float(number))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("models", "options"),
    [
        (["y ~ a + b*x", "y ~ c", "y ~ p + q*x + r*x", "y ~ c*x^d", "y ~ a*log(x - 9) + b"], []),
        (["y ~ c*x^d", "y ~ a*exp(b*x)"], ["--folds", "3"]),
        (["y ~ a + b*x", "y ~ a"], ["--folds", "0"]),
    ],
)
def test_the_report_says_what_the_document_says(models: list[str], options: list[str], tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("x,y\n1,2.5\n2,3.9\n3,6.2\n4,8\n5,9.9\n6,12.3\n", encoding="utf-8")
    words = ["compare", str(path), *models, *options]
    report, document = str(run_cli(words)), run_cli([*words, "--json"]).json
    found, places = document["models"], {one["model"]: k for k, one in enumerate(document["models"], 1)}
    lines = report.splitlines()
    titles = next(k for k, line in enumerate(lines) if line.split()[:2] == ["k", "loss"])
    assert lines[2 : 2 + len(found)] == [f"  {place}  {model}" for model, place in places.items()]
    for one, line in zip(found, lines[titles + 1 :], strict=False):
        figures = [cell(one["loss"]), cell(one["aicc"])]
        figures += [cell(one["delta_aicc"], "{:.2f}".format), cell(one["weight"], "{:.3f}".format), cell(one["bic"])]
        figures += [cell(one["cv_error"])] * (document["folds"] > 0)
        assert line.split() == [str(places[one["model"]]), str(one["k"]), *figures]
    assert (f"1/{document['folds']} of the rows" in report) == (document["folds"] > 0)
    wanted, unknown = [], 0
    for test in document["tests"]:
        pair = f"  {places[test['smaller']]} within {places[test['larger']]}: "
        if test["test"]:
            dof = ", ".join(map(str, test["dof"]))
            wanted.append(f"{pair}{test['test']}({dof}) = {cell(test['statistic'])}, p = {test['p']:.3g}")
        elif test["reason"] == UNKNOWN:
            unknown += 1
        else:
            wanted.append(f"{pair}not tested: {test['reason']}")
    wanted += [f"  no test for {'other' if wanted else 'these'} pairs: {UNKNOWN}"] * (unknown > 0)
    assert [line for line in lines if " within " in line or "no test for" in line] == wanted
    warnings = [f"{places[one['model']]}  {text}" for one in found for text in one["warnings"]]
    shown = report.partition("\nwarnings\n")[2]
    assert all(text in shown for text in warnings)
    assert len(shown.splitlines()) == len(warnings)

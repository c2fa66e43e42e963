"""What commands and functions refuse, in the words that say what to do instead."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.cli.main import _with_flags
from autodiff_cli.options import OptionError, option_fields
from autodiff_cli.training.options import FitOptions
from autodiff_cli.training.result import statistics
from tests.each import each
from tests.support import ROOT, expect_refusal, run_cli


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("grad x^2 --x 3 x=3", "unexpected argument `x=3`; to set a variable, use `--x 3`"),
        ("trace - - --row 1", "only one argument can be `-`, standard input"),
        ('compare "y ~ a*x" - -', "only one argument can be `-`, standard input"),
        ('train "y ~ a*x" https://a.org/d.csv', "this is a URL; give the path of a file"),
        ('grad "spline(x, 1, 2)" --x 1', "`spline` takes x and two or more pairs of knot and value"),
        ('train "y ~ a*x" {data} --resume {data}', "d.csv: not a checkpoint"),
        ('train "y ~ a*x" {data} --resume {data}.none', "d.csv.none: no such file"),
        ("predict {model} --inverse x --z 3 --y 2", "the model has no column `z`"),
        ("predict {model} 3", "unexpected argument `3`; to set a variable, use `--NAME 3`"),
        ('train "y ~ a*x" {data} "y ~ a + b*x"', "only one model is expected; to fit several, use autodiff compare"),
        ('trace "y ~ a*x" "y ~ b*x" {data} --row 1', "only one model is expected"),
        ('train "y ~ a*x" {data} --fix a 5', "--fix takes one value: --fix a=5"),
        ("{data}", "is a file, not a command; to look at its columns: autodiff data"),
        ("grad x^2 --x:1", "to set a variable, use `--x 1`"),
        ("grad x --x 0:0.1:1", "a range is START:STOP:COUNT"),
        ("grad x*y --wrt [x,y]", "--wrt takes names separated by commas"),
        ("grad x --x 2 --backward", "did you mean --mode reverse?"),
        ('train "y ~ a*x" {data} --x x', "the value of `x` must be a number"),
        ("grad nn(x) --x 1", "a neural network is written `mlp`"),
    ],
)
def test_commands_that_cannot_be_meant(line: str, message: str, tmp_path: Path) -> None:
    data, model = tmp_path / "d.csv", tmp_path / "m.json"
    data.write_text("x,y\n1,2\n2,3\n3,5\n4,4\n")
    assert run_cli(f'train "y ~ a*x" {data} --save {model}').status == 0
    expect_refusal(run_cli(line.format(data=data, model=model)), message)


@each("line, message", [
    ("train y~a*x d.csv --by g --save m.json",               "--by cannot be combined with --save"),
    ("train y~a*x d.csv --by g --page p.html",               "--by cannot be combined with --page"),
    ("train y~a*x d.csv --by g --every 2",                   "--by cannot be combined with --every"),
    ("train y~a*x d.csv --by g --draws d.csv --posterior 9", "--by cannot be combined with --draws"),
    ("train y~a*x d.csv --page p.html --laplace a",          "--page cannot be combined with --laplace"),
    ("train y~a*x d.csv --page p.html --cluster local:1",    "--page cannot be combined with --cluster"),
    ("train y~a*x d.csv --draws d.csv",                      "--draws needs --posterior"),
    ("predict m.json --inverse x --posterior",               "--inverse cannot be combined with --posterior"),
    ("predict m.json --inverse x --probabilities",           "--inverse cannot be combined with --probabilities"),
    ("predict m.json --inverse x --residuals",               "--inverse cannot be combined with --residuals"),
    ("predict m.json --inverse x d.csv",                     "--inverse takes no DATA"),
    ("predict m.json --x 2 --where x",                       "--where needs DATA"),
    ("predict m.json --x 2 --drop-missing",                  "--drop-missing needs DATA"),
    ("export x --to c --value-only --wrt x",                 "--value-only cannot be combined with --wrt"),
    ("export m.json --to onnx --wrt x",                      "--to onnx writes only the prediction"),
    ("export m.json --to onnx --hessian",                    "--to onnx writes only the prediction"),
    ("export m.json --to onnx --value-only",                 "--to onnx writes only the prediction"),
    ("grad x*y --outputs x --x 1 --y 2",                     "--outputs needs --jacobian"),
    ("trace x --x 1 --limit 3",                              "--limit needs --paths"),
    ("trace x --x 1+-1 --format svg",                        "--format svg shows no uncertain value"),
    ("trace x --x 1 --fold",                                 "--fold needs a drawing"),
    ("trace y~a*x --family poisson",                         "--family needs a row of data"),
    ("trace y~a*x --row 1",                                  "--row 1 needs a data file"),
    ("solve x --x 0..1 --plot --json",                       "--plot cannot be combined with --json"),
    ("minimize x^2 --x 0..1 --plot --json",                  "--plot cannot be combined with --json"),
    ("maximize x^2 --x 0..1 --plot --json",                  "--plot cannot be combined with --json"),
])  # fmt: skip
def test_options_without_effect_are_refused_before_a_file_is_read(line: str, message: str) -> None:
    expect_refusal(run_cli(line), message)


@each(
    "value",
    [
        "-1,5",
        *(f"{number}{unit}" for number in ("3", "-2.5", "1e3") for unit in ("kg", " cm", "x", "pi", "%", "°", "deg")),
    ],
)
def test_a_value_that_is_suggested_is_one(value: str) -> None:
    refusal = run_cli(["grad", "x^2", f"--x={value}"])
    expect_refusal(refusal, "the value of `x`")
    suggestion = re.search("Did you mean `(.*)`", refusal.stderr)
    assert suggestion is None or run_cli(["grad", "x^2", f"--x={suggestion[1]}"]).status == 0


@each(
    ("name", "words"),
    [
        ("gammaln", "it is written `lgamma(x)`"),
        ("Σ", "it is written `sum(x)`"),
        ("D", "derivatives are not written in the expression"),
        ("dawsn", "this function is not available"),
        ("sine", "did you mean `sin`?"),
        ("quokka", "lists them all"),
    ],
)
def test_an_operation_of_another_tool_is_named_as_it_is_here(name: str, words: str) -> None:
    expect_refusal(run_cli(["ops", name]), words)


def test_the_file_of_the_most_similar_name_is_suggested(tmp_path: Path) -> None:
    for name in ("d.csv", "d.csv.gz", "e.tsv"):
        (tmp_path / name).write_text("x,y\n1,2\n")
    for typed, close in (
        ("D.CSV", "d.csv"),
        ("dd.csv", "d.csv"),
        ("d", "d.csv"),
        ("e.csv", "e.tsv"),
        ("d.csv.g", "d.csv.gz"),
    ):
        expect_refusal(run_cli(f"data {tmp_path / typed}"), f"did you mean {tmp_path / close}?")


def test_a_label_whose_probability_is_suggested_can_be_fitted(tmp_path: Path) -> None:
    data = tmp_path / "d.csv"
    data.write_text("x,state\n1,alive\n2,dead\n3,alive\n4,dead\n")
    refusal = run_cli(["train", "state ~ a*x", str(data)])
    target = re.search("compare: `(.*) ~ sigmoid", refusal.stderr)
    assert target is not None
    assert run_cli(["train", f"{target[1]} ~ sigmoid(a*x)", str(data)]).status == 0


def test_a_classifier_that_is_suggested_can_be_fitted(tmp_path: Path) -> None:
    data = tmp_path / "d.csv"
    data.write_text("dose [nM],cell state,other\n1,healthy,2\n2,dead,3\n3,dead,1\n4,healthy,5\n")
    refusal = run_cli(["train", "`cell state` ~ a*`dose [nM]`", str(data)])
    suggestion = re.search("for a classifier, write `(.*)`$", refusal.stderr, re.MULTILINE)
    assert suggestion is not None
    assert run_cli(["train", suggestion[1], str(data), "--epochs", "2"]).status == 0
    data.write_text(data.read_text().replace("healthy", "3 %").replace("dead", "2 %"))
    assert "softmax" not in run_cli(["train", "`cell state` ~ a*`dose [nM]`", str(data)]).stderr


@pytest.mark.parametrize("data", [[1.0, 2.0], 3.0, np.ones((3, 2))])
def test_data_without_names_of_columns(data: Any) -> None:
    with pytest.raises((TypeError, ad.DataError), match=r"named columns|has no column names"):
        ad.fit("y ~ a*x", data)


def test_standard_errors_of_very_many_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "MAX_COVARIANCE_SIZE", 2)
    data = {"x": np.arange(9.0), "y": np.arange(9.0) ** 2}
    for model, has_errors in (("y ~ a + b*x", True), ("y ~ a + b*x + c*x^3", False)):
        found = ad.fit(model, data)
        assert all((error is not None) == has_errors for error in found.stderr.values())
        assert any("there are more than 2 parameters" in each for each in found.warnings) != has_errors


def test_messages_that_begin_with_an_option_of_a_fit_name_its_flag() -> None:
    flags = {name: field.option.flags[:1] for name, field in option_fields(FitOptions).items()} | {"by": ["--by"]}
    kinds = {"OptionError": (OptionError, r"(\w+):? "), "DataError": (ad.DataError, r"(\w+): ")}
    seen = set()
    for file in (ROOT / "autodiff_cli" / "training").rglob("*.py"):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in kinds):
                continue
            kind, beginning = kinds[call.func.id]
            text = next((str(part.value) for part in ast.walk(call) if isinstance(part, ast.Constant)), "")
            if (name := re.match(beginning, text)) and flags.get(name[1]):
                assert _with_flags(kind(text)).startswith(flags[name[1]][0] + text[name.end(1) :][:1]), text
                seen.add(name[1])
    assert {"by", "bounds", "derive", "laplace", "sigma", "profile"} <= seen

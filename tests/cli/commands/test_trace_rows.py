"""`autodiff trace MODEL DATA --row N`: the loss of a row of data."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

import autodiff_cli as ad
from tests.support import expect_refusal, run_cli

DECAY = "x,y,unit\n0,2.1,s\n1,0.8,s\n2,0.3,s\n3,,s\n4,inf,s\n5,?,s\n"
KINDS = "x1,x2,kind\n0,0,b\n1,0,a\n0,1,c\n1,1,a\n0,2,c\n2,0,b\n1,2,c\n2,1,a\n"


@pytest.fixture
def decay(tmp_path: Path) -> str:
    (tmp_path / "decay.csv").write_text(DECAY)
    return str(tmp_path / "decay.csv")


@pytest.fixture
def kinds(tmp_path: Path) -> str:
    (tmp_path / "kinds.csv").write_text(KINDS)
    return str(tmp_path / "kinds.csv")


def test_the_loss_of_the_third_row(decay: str) -> None:
    document = run_cli(f'trace "y ~ a*exp(-b*x)" {decay} --row 3 --a 2 --b 1 --json').json
    residual = 0.3 - 2 * math.exp(-2)
    assert document["expression"] == "y ~ a*exp(-b*x)"
    assert [*document["variables"].items()] == [("y", 0.3), ("x", 2.0), ("a", 2.0), ("b", 1.0)]
    assert document["value"] == pytest.approx(residual**2, rel=1e-13)
    assert document["gradient"] == pytest.approx(
        {"a": -2 * residual * math.exp(-2), "b": 2 * residual * 2 * 2 * math.exp(-2)}, rel=1e-13
    )


def test_the_fitted_parameters_of_a_file_which_options_replace(decay: str, tmp_path: Path) -> None:
    model = tmp_path / "decay.json"
    ad.fit("y ~ a*exp(-b*x)", {"x": [0, 1, 2], "y": [2.1, 0.8, 0.3]}, fixed={"b": 1}).save(model)
    document = run_cli(f"trace {model} {decay} --row 2 --json").json
    assert document["variables"]["b"] == 1
    assert [*document["gradient"]] == ["a"]
    assert run_cli(f"trace {model} {decay} --row 2 --a 2 --json").json["variables"]["a"] == 2
    assert [*run_cli(f"trace {model} {decay} --row 2 --wrt b,x --json").json["gradient"]] == ["b", "x"]


ROBUST = ["huber", "logcosh", "soft_l1", "cauchy"]


@pytest.mark.parametrize("loss", ["mse", "mae", *ROBUST])
def test_the_mean_over_the_rows_is_what_a_fit_makes_small(loss: str, tmp_path: Path) -> None:
    x, y, theta = [0.0, 1.0, 2.0], [2.1, 9.0, 0.3], [2.0, 0.7]
    path = tmp_path / "rows.csv"
    path.write_text("x,y\n" + "".join(f"{a},{b}\n" for a, b in zip(x, y, strict=True)))
    traces = [
        run_cli(f'trace "y ~ a*exp(-b*x)" {path} --row {k} --a 2 --b 0.7 --loss {loss} --json') for k in (1, 2, 3)
    ]
    rows = [trace.json for trace in traces]
    for trace in traces:
        assert ("the residual scale (theta of counts) is 1; fits estimate it" in trace.stderr) == (loss in ROBUST)
    value, gradient = ad.Objective("y ~ a*exp(-b*x)", {"x": x, "y": y}, loss=loss).value_and_grad(np.array(theta))
    assert np.mean([row["value"] for row in rows]) == pytest.approx(value, rel=1e-12)
    for name, slope in zip("ab", gradient, strict=True):
        assert np.mean([row["gradient"][name] for row in rows]) == pytest.approx(slope, rel=1e-12)


@pytest.mark.parametrize("family", ["poisson", "gamma"])
def test_a_family_has_its_loss_as_in_fits(family: str, tmp_path: Path) -> None:
    path, model = tmp_path / "rows.csv", tmp_path / "decay.json"
    path.write_text("x,y\n0,5\n1,2\n2,1\n3,1\n")
    line = f'"y ~ a*exp(-b*x)" {path} --family {family}'
    fit = run_cli(f"train {line} --save {model}")
    assert fit.status == 0, fit.stderr
    values = " ".join(f"--{name} {value!r}" for name, value in ad.load(str(model)).parameters.items())
    row, fitted = run_cli(f"trace {line} --row 2 {values} --json"), run_cli(f"trace {model} {path} --row 2 --json")
    assert row.json["value"] == fitted.json["value"]
    expect_refusal(run_cli(f"trace {line} --row 2 --loss mse"), "--family cannot be combined with --loss")


def test_a_saved_fit_is_traced_by_the_loss_it_was_fitted_by(tmp_path: Path) -> None:
    x, y = [0.0, 1.0, 2.0, 3.0, 4.0], [0.1, 1.0, 2.2, 2.9, 9.0]
    path, model = tmp_path / "rows.csv", tmp_path / "line.json"
    path.write_text("x,y\n" + "".join(f"{a},{b}\n" for a, b in zip(x, y, strict=True)))
    fit = ad.fit("y ~ a*x + b", {"x": x, "y": y}, loss="huber", huber_delta=0.8)
    fit.save(model)
    rows = [run_cli(f"trace {model} {path} --row {k} --json").json["value"] for k in range(1, 6)]
    assert np.mean(rows) == pytest.approx(fit.loss, rel=1e-9)
    assert "scale" not in run_cli(f"trace {model} {path} --row 1").stderr
    refused = run_cli(f"trace {model} {path} --row 1 --loss mse")
    expect_refusal(refused, "already has the loss of its fit")


WEIGHTINGS = ["", "--weights n", "--sigma s", '--sigma "sqrt(s)"', "--sigma x", "--sigma 0.5"]


@pytest.mark.parametrize(
    ("loss", "weighting"),
    [
        pytest.param(loss, weighting, marks=[pytest.mark.slow] * ((k + number) % 3 > 0))
        for k, loss in enumerate(["mse", "huber", "cauchy"])
        for number, weighting in enumerate(WEIGHTINGS)
    ],
)
def test_rows_with_errors_of_their_own_add_up_to_the_loss_of_the_fit(loss: str, weighting: str, tmp_path: Path) -> None:
    path, model, page = tmp_path / "rows.csv", tmp_path / "line.json", tmp_path / "page.html"
    lines = ["1,2.1,0.1,0", "2,3.9,0.2,3", "3,6.2,0.3,1", "4,13,0.5,2", "5,10.1,0.7,1", "6,11.8,0.8,4"]
    path.write_text("\n".join(["x,y,s,n", *lines]) + "\n")
    fit = run_cli(f'train "y ~ a*x + b" {path} --loss {loss} {weighting} --save {model} --page {page} --json').json
    rows = [run_cli(f"trace {model} {path} --row {k} --json").json["value"] for k in range(1, 7)]
    x, _, s, n = np.array([line.split(",") for line in lines], float).T
    weights = {"": n * 0 + 1, "--weights n": n, "--sigma s": s**-2, "--sigma x": x**-2, "--sigma 0.5": n * 0 + 1}.get(
        weighting, 1 / s
    )
    assert np.average(rows, weights=weights) == pytest.approx(fit["loss"], rel=1e-9)
    shown = json.loads(re.findall(r'id="record"[^>]*>(.*?)</script>', page.read_text(), re.DOTALL)[0])
    first, count = map(int, re.findall(r'"rows":\[(\d+),[^]]*\],"count":(\d+)', page.read_text())[0])
    assert (first, count) == (2 if weighting == "--weights n" else 1, 6)  # the first that has a weight
    assert shown["nodes"][int(shown["output"])]["value"] == pytest.approx(rows[first - 1], rel=1e-6)


def test_the_loss_of_a_class_is_minus_the_logarithm_of_its_probability(kinds: str) -> None:
    line = f'trace "kind ~ softmax([0, a*x1, b*x2])" {kinds} --a 0.5 --b 2'
    expect_refusal(run_cli(f"{line} --row 9"), "there is no row 9; the last one is 8")
    document = run_cli(f"{line} --row 3 --json").json
    Path(kinds).write_text("x1,x2,kind\n0,0,1.5\n1,0,2\n")
    expect_refusal(run_cli(f"{line} --row 1"), "column `kind`: a label must be a whole number")
    assert document["value"] == pytest.approx(math.log(2 + math.exp(2)) - 2, rel=1e-13)  # of c, where x1 = 0, x2 = 1
    assert document["gradient"]["b"] == pytest.approx(math.exp(2) / (2 + math.exp(2)) - 1, rel=1e-13)


def test_classes_and_networks(kinds: str, tmp_path: Path) -> None:
    model = tmp_path / "kinds.json"
    trained = run_cli(
        f'train "kind ~ softmax(mlp([x1, x2], [3], tanh))" {kinds} --epochs 20 --save {model} --json'
    ).json
    rows = [run_cli(f"trace {model} {kinds} --row {k} --json").json for k in range(1, 9)]
    assert np.mean([row["value"] for row in rows]) == pytest.approx(trained["loss"], rel=1e-9)
    assert [row["variables"]["kind"] for row in rows] == [1, 0, 2, 0, 2, 1, 2, 0]
    assert np.shape(rows[0]["gradient"]["mlp.0.weight"]) == (3, 2)
    assert "counts its classes: a = 0, b = 1, c = 2" in run_cli(f"trace {model} {kinds} --row 1").stderr


@pytest.mark.parametrize("view", ["--paths", "--tape", "--mode forward", "--format svg", "--format html", "--step"])
def test_all_views_work(decay: str, view: str) -> None:
    output = run_cli(f'trace "y ~ a*exp(-b*x)" {decay} --row 3 --a 2 --b 1 {view}')
    assert output.status == 0
    assert "exp(-b*x)" in output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--row 4 --a 2 --b 1", "row 4, column `y`: nan\nchoose a row without missing cells"),
        ("--row 5 --a 2 --b 1", "row 5, column `y`: inf\nchoose a row without missing cells"),
        ("--row 6 --a 2 --b 1", 'line 7, column `y`: "?" is not a number'),
        ("--row 0 --a 2 --b 1", "--row must be at least 1, not 0"),
        ("--row 1 --a 2", "no value for `b`; add --b 2"),
        ("--row 1 --a 2 --b 1 --y 3", "`y` is a column of the data"),
        ("--row 1 --a 2 --c 1", "no parameter `c`"),
        ("--row 1 --a 2 --b 1 --loss msd", "there is no loss msd; did you mean mse?"),
        ("--a 2 --b 1", "to trace the loss at a row of a data file, add --row N"),
    ],
)
def test_what_cannot_be_traced(decay: str, options: str, message: str) -> None:
    expect_refusal(run_cli(f'trace "y ~ a*exp(-b*x)" {decay} {options}'), message)


def test_a_row_needs_data_and_a_model_needs_its_columns(decay: str, tmp_path: Path) -> None:
    expect_refusal(run_cli('trace "y ~ a*x" --row 3 --a 2'), "--row 3 needs a data file")
    expect_refusal(run_cli("trace a*x --loss mse --a 2 --x 1"), "add DATA and --row N")
    expect_refusal(run_cli(f"trace {tmp_path}/none.json {decay} --row 3"), "no such file")
    model = tmp_path / "line.json"
    ad.fit("y ~ a*t", {"t": [1, 2, 3], "y": [1, 2, 3]}).save(model)
    expect_refusal(run_cli(f"trace {model} {decay} --row 3"), "there is no column `t`; the columns are x, y, unit")


def test_parameters_with_a_value_for_each_level(tmp_path: Path) -> None:
    path, model = tmp_path / "groups.csv", tmp_path / "groups.json"
    path.write_text("x,y,group\n0,2.1,A\n1,0.8,B\n2,0.3,A\n3,0.1,B\n1.5,0.5,C\n")
    document = run_cli(f'trace "y ~ a[group]*exp(-b*x)" {path} --row 2 --a 2 --b 1 --json').json
    residual = 0.8 - 2 * math.exp(-1)
    assert document["gradient"] == pytest.approx(
        {"a[A]": 0, "a[B]": -2 * residual * math.exp(-1), "a[C]": 0, "b": 4 * residual * math.exp(-1)}, rel=1e-12
    )
    fitted = run_cli(f'train "y ~ a[group]*exp(-b*x)" {path} --save {model} --json').json
    rows = [run_cli(f"trace {model} {path} --row {k} --json").json["value"] for k in range(1, 6)]
    assert np.mean(rows) == pytest.approx(fitted["loss"], rel=1e-9)
    matched = run_cli(f"trace \"y ~ c*(group == 'A')\" {path} --row 3 --c 2 --json").json
    assert matched["gradient"]["c"] == pytest.approx(-2 * (0.3 - 2))
    (tmp_path / "other.csv").write_text("x,y,group\n0,2.1,Z\n")
    refused = run_cli(f"trace {model} {tmp_path}/other.csv --row 1")
    expect_refusal(refused, 'row 1, column `group`: "Z" is not among A, B, C')


def test_files_are_read_as_train_reads_them(tmp_path: Path) -> None:
    text, first, second = (tmp_path / name for name in ("e.txt", "f1.csv", "f2.csv"))
    text.write_text("% instrument 7\n0;2,1;s\n% moved\n1;0,8;s\n2;0,3;m\n")
    options = "--delimiter ; --decimal , --comment % --no-header --a 2 --b 1 --json"
    rows = [run_cli(f'trace "c2 ~ a*exp(-b*c1)" {text} --row {k} {options}').json for k in (1, 2, 3)]
    for row, (x, y) in zip(rows, [(0, 2.1), (1, 0.8), (2, 0.3)], strict=True):
        assert row["value"] == pytest.approx((y - 2 * math.exp(-x)) ** 2, rel=1e-12)
    kept = run_cli(f'trace "c2 ~ a*exp(-b*c1)" {text} --row 1 {options} --where "c3 == \'m\'"')
    assert kept.json["value"] == rows[2]["value"]
    assert "--where keeps 1 of 3 rows" in kept.stderr
    first.write_text("x,y\n0,1\n1,2\n")
    second.write_text("y,x\n5,3\n")
    third = run_cli(f'trace "y ~ a*t" {first} {second} --column t=x --row 3 --a 2 --json').json
    assert third["variables"] == {"y": 5, "t": 3, "a": 2}
    expect_refusal(run_cli(f'trace "y ~ a*x" {first} {second} --row 4 --a 2'), "there is no row 4; the last one is 3")


@pytest.mark.parametrize("option", ["--delimiter ;", "--no-header", "--where x>0", "--column t=x"])
def test_options_of_files_want_files(option: str) -> None:
    name = option.split()[0]
    expect_refusal(run_cli(f"trace x^2 --x 1 {option}"), f"{name} needs a row of data: add DATA and --row N")


def test_a_cross_entropy_is_traced_as_textbooks_write_it_unless_that_loses_digits(kinds: str, tmp_path: Path) -> None:
    path = tmp_path / "hits.csv"
    path.write_text("x,hit\n1,1\n2,0\n")
    line = f'trace "hit ~ sigmoid(w*x)" {path} --loss bce'
    output = run_cli(f"{line} --row 2 --w 0.3")
    assert "note: fits compute this loss as where(hit > 0" in output.stderr
    nodes = {node["label"]: node for node in run_cli(f"{line} --row 2 --w 0.3 --json").json["nodes"]}
    p = nodes["sigmoid(w*x)"]["value"]
    assert nodes["w*x"]["adjoint"] == pytest.approx(p - 0, rel=1e-12)
    assert nodes["log(1 - sigmoid(w*x))"]["value"] == pytest.approx(math.log(1 - p), rel=1e-12)
    for weight in (20, 200):
        steep = run_cli(f"{line} --row 1 --w {weight} --json")
        assert "softplus" in {node["op"] for node in steep.json["nodes"]}
        assert steep.json["warnings"] == []
    model, out = '"kind ~ softmax(dense([x1, x2], 3))"', tmp_path / "fit.json"
    assert run_cli(f"train {model} {kinds} --epochs 3 --optimizer adam --save {out}").status == 0
    document = run_cli(f"trace {out} {kinds} --row 1 --json").json
    (z,) = (node for node in document["nodes"] if node["op"] == "add" and isinstance(node["value"], list))
    (p_,) = (node for node in document["nodes"] if node["op"] == "softmax")
    assert z["adjoint"] == pytest.approx(np.array(p_["value"]) - [0, 1, 0], rel=1e-9)  # row 1 is of the second class

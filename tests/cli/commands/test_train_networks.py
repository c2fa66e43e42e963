"""`autodiff train` of networks and classifications: reports, validation, saving, diagnosis, and bad input."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

import autodiff_cli as ad
from tests.support import SETS, Output, run_cli

MOONS, IRIS, XOR, SINE = (str(SETS / f"{name}.csv") for name in ("moons", "iris", "xor", "sine"))
FLOWERS = "species ~ softmax(mlp([sepal_length, sepal_width, petal_length, petal_width], [8], tanh))"
FAST = ["--epochs", "3"]


def lines(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines()]


def refused(output: Output) -> str:
    assert (output.status, output) == (2, "")
    assert "Traceback" not in output.stderr
    return output.stderr


# --- reports


def test_a_network_is_reported_layer_by_layer_and_has_every_number_in_json() -> None:
    line = ["train", "y ~ mlp(x, [32], tanh)", SINE, *FAST]
    output, document = run_cli(line), run_cli([*line, "--json"]).json
    assert output.status == 0
    assert np.shape(document["parameters"]["mlp.0.weight"]) == (32, 1)
    norm = np.linalg.norm([*np.ravel(document["parameters"]["mlp.0.weight"]), *document["parameters"]["mlp.0.bias"]])
    assert ["mlp.0", "weight", "32x1,", "bias", "32", "64", f"{norm:.6g}"] in lines(output)
    assert "97 parameters" in output
    assert "fitted formula" not in output
    assert "--save MODEL.json" in output
    assert max(map(len, output.splitlines())) < 130


def test_the_formula_of_a_small_network_can_be_pasted() -> None:
    line = ["train", "y ~ mlp(x, [2], tanh)", SINE, *FAST]
    output, document = run_cli(line), run_cli([*line, "--json"]).json
    assert f"  {document['formula']}" in output.splitlines()
    value = run_cli(["grad", document["formula"], "--x", "0.5", "--json"]).json["value"]
    fit = ad.fit("y ~ mlp(x, [2], tanh)", {"x": [1.0, 2.0], "y": [0.0, 1.0]}, start=document["parameters"], epochs=0)
    assert value == pytest.approx(fit.predict({"x": [0.5]})[0], rel=1e-12)


def test_a_classification_has_accuracy_and_a_confusion_table() -> None:
    line = ["train", FLOWERS, IRIS, "--epochs", "50", "--lr", "0.05"]
    output, document = run_cli(line), run_cli([*line, "--json"]).json
    confusion = np.array(document["confusion"])
    assert document["classes"] == ["setosa", "versicolor", "virginica"]
    assert confusion.sum(axis=1).tolist() == [50, 50, 50]
    assert document["accuracy"] == np.trace(confusion) / 150
    assert ["setosa", *map(str, confusion[0])] in lines(output)
    assert f"accuracy = {document['accuracy']:.6g}" in output


def test_small_arrays_are_shown_in_full() -> None:
    output = run_cli(["train", "y ~ dot(w, [x, 1])", SINE, "--json"])
    report = run_cli(["train", "y ~ dot(w, [x, 1])", SINE])
    first, second = output.json["parameters"]["w"]
    assert f"[{first!r}, {second!r}]" in report
    assert [len(output.json["covariance"]), *output.json["covariance"]["w[0]"]] == [2, "w[0]", "w[1]"]


def test_no_line_of_a_report_is_wider_than_the_terminal() -> None:
    for width in (40, 80):
        output = run_cli(["train", FLOWERS, IRIS, *FAST, "--validation", "0.2", "--diagnose"], terminal=width)
        assert output.status == 0
        assert all(len(line) <= width for line in output.splitlines())


# --- starts, fixed values


def test_arrays_start_at_values_and_are_fixed_by_their_names() -> None:
    line = ["train", "y ~ sum(W @ [x, 1])", SINE, "--json", "--epochs", "0", "--optimizer", "sgd"]
    assert run_cli([*line, "--W", "[[1, 2], [pi/2, -4]]"]).json["parameters"] == {"W": [[1, 2], [np.pi / 2, -4]]}
    network = ["train", "y ~ mlp(x, [2], tanh)", SINE, "--json", "--epochs", "5"]
    fixed = run_cli([*network, "--fix", "mlp.0.bias"]).json
    assert fixed["fixed"] == {"mlp.0.bias": [0, 0]}
    assert "mlp.0.bias" not in fixed["parameters"]
    assert run_cli([*network, "--fix", "mlp.0.bias=[1, 2]"]).json["fixed"] == {"mlp.0.bias": [1, 2]}
    for words in (["--set", "mlp.0.bias=[1, 2]"], ["--mlp.0.bias", "[1, 2]"], ["--mlp.0.bias=[1, 2]"]):
        begun = run_cli(["train", "y ~ mlp(x, [2], tanh)", SINE, "--json", "--epochs", "0", *words])
        assert begun.json["parameters"]["mlp.0.bias"] == [1, 2]


# --- validation, saving, diagnosis


def test_validation_in_the_table_and_the_document() -> None:
    line = ["train", "moon ~ softmax(mlp([x1, x2], [16], relu))", MOONS, "--epochs", "20", "--validation", "0.25"]
    output, document = run_cli(line), run_cli([*line, "--json"]).json
    assert document["rows"] == 300
    assert document["validation_rows"] == 100
    assert {"accuracy", "validation_accuracy", "validation_loss"} <= {*document}
    last = document["history"][-1]
    assert [str(last["epoch"]), f"{last['loss']:.6g}", f"{last['validation_loss']:.6g}"] in lines(output)
    assert "validation loss" in output
    assert "100 rows held out" in output


def test_patience_ends_a_run() -> None:
    line = ["train", "y ~ mlp(x, [8], tanh)", SINE, "--validation", "0.25", "--patience", "3", "--epochs", "5000"]
    document = run_cli([*line, "--lr", "0.3", "--json"]).json
    assert document["epochs"] < 5000
    assert document["validation_loss"] == min(record["validation_loss"] for record in document["history"])


def test_a_saved_model_predicts_what_the_fit_does(tmp_path: Path) -> None:
    path = str(tmp_path / "model.json")
    output = run_cli(["train", FLOWERS, IRIS, "--epochs", "100", "--lr", "0.05", "--save", path])
    assert output.status == 0
    assert f"saved to {path}" in output.stderr
    predicted = run_cli(["predict", path, IRIS])
    right = sum(row[-2] == row[-1] for row in (line.split(",") for line in predicted.splitlines()[1:]))
    assert right / 150 == ad.load(path).accuracy > 0.9


def test_what_cannot_be_saved_is_known_before_the_fit(tmp_path: Path) -> None:
    output = run_cli(["train", "y ~ a*x", SINE, "--save", str(tmp_path / "none" / "model.json")])
    assert (output.status, output) == (1, "")
    assert "cannot write" in output.stderr


def test_a_fit_that_failed_writes_no_results(tmp_path: Path) -> None:
    path, table = tmp_path / "model.json", tmp_path / "table.csv"
    path.write_text("old")
    failing = ["train", "y ~ a*x", SINE, "--optimizer", "sgd", "--lr", "1e9"]
    output = run_cli([*failing, "--save", str(path), "-o", str(table)])
    assert output.status == 1
    assert all(f"{each} was not written" in output.stderr for each in (path, table))
    assert path.read_text() == "old"


def test_diagnose_in_words_and_in_json() -> None:
    line = ["train", "y ~ mlp(x, [4], relu)", SINE, *FAST, "--diagnose", "--set", "mlp.0.bias=[-99, -99, 9, 9]"]
    output, document = run_cli(line), run_cli([*line, "--json"]).json
    assert "mlp.0: 2 of 4 units are dead" in output
    assert "to avoid dead units, try: " in output
    assert document["diagnosis"]["units"][0]["dead"] == 2
    healthy = run_cli(["train", "y ~ mlp(x, [8], tanh)", SINE, "--epochs", "100", "--diagnose"])
    assert "healthy" in healthy
    assert "diagnosis" not in run_cli(["train", "y ~ a*x", SINE, "--json"]).json


# --- bad input


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("'W: 2x3; y ~ sum(W @ [x, 1])' SINE", "2x3 @ 2"),
        ("'y ~ sum([])' SINE", "column"),
        ("'y ~ [x, 1][2]' SINE", "out of range"),
        ("'y ~ [x, a]' SINE", "the prediction a vector of 2"),
        ("'y ~ sum(W)' SINE", "declare it"),
        ("'y ~ dot(w, [x, 1])' SINE --w '[1, 2, 3]'", "it got 3 and 2"),
        ("'y ~ dot(w, [x, 1])' SINE --w '[[1, 2], [3]]'", "`w`"),
        ("'y ~ mlp(x, [2])' SINE --fix 'mlp.0.bias=[1]'", "mlp.0.bias"),
        ("'y ~ mlp(x, [2])' SINE --mlp.7.bias 1", "mlp.7.bias"),
        ("'y ~ mlp(x, [0])' SINE", "column"),
        ("'y ~ mlp(x, [2], tanhh)' SINE", "tanh"),
        ("'y ~ softmax(mlp([x, 1], [2]))' SINE", "whole number"),
        ("'species ~ a*petal_width' IRIS", "is not a number"),
        ("'petal_width ~ a*species' IRIS", "is not a number"),
        ("'y ~ a*x' SINE --validation 1.5", "between 0 and 1"),
        ("'y ~ a*x' SINE --validation some", "--validation"),
        ("'y ~ a*x' SINE --patience 3", "--validation"),
    ],
)
def test_bad_input_is_status_2(words: str, message: str) -> None:
    for more in ([], ["--json"]):
        output = run_cli([*_words(f"train {words}"), *more])
        assert message in refused(output)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("x,c\n1,a\n2,a\n3,a\n", "one class"),
        ("x,c\n1,a\n2,b\n3,c\n4,d\n", "4 different values in 4 rows"),
        ("x,c\n1,a\n2,\n3,b\n4,a\n", "line 3, column `c`: empty"),
        ("x,c\n1,0\n2,0.5\n3,1\n4,1\n", "whole number"),
        ("x,c\n", "no rows"),
    ],
)
def test_classes_that_are_none(rows: str, message: str) -> None:
    assert message in refused(run_cli(["train", "c ~ softmax(mlp(x, [2]))", "-"], stdin=rows))


def _words(line: str) -> list[str]:
    return [{"SINE": SINE, "IRIS": IRIS}.get(word, word) for word in shlex.split(line)]

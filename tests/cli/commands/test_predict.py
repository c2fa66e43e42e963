"""`autodiff predict` as it is typed: the data with one more column, and errors that name what is wrong."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import autodiff_cli as ad
from autodiff_cli.render.rows import count_undefined
from tests.each import amount
from tests.support import Output, run_cli

ROWS = "x,y,note\n0,1,first\n1,3,second\n2,4.5,third\n3,7,fourth\n"


@pytest.fixture
def model(tmp_path: Path) -> str:
    return trained(tmp_path, "y ~ a + b*x", ROWS)


def trained(tmp_path: Path, model: str, rows: str, *options: str) -> str:
    (tmp_path / "rows.csv").write_text(rows)
    path = str(tmp_path / "model.json")
    output = run_cli(["train", model, str(tmp_path / "rows.csv"), "--save", path, "--json", *options])
    assert output.status == 0, output.stderr
    return path


def table(output: str) -> list[dict[str, str]]:
    return [*csv.DictReader(io.StringIO(output))]


def refused(output: Output) -> str:
    assert (output.status, output) == (2, "")
    assert "Traceback" not in output.stderr
    return output.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["predict", "fit.json", "rows.csv", "-o", "./fit.json"],
        ["export", "fit.json", "--to", "c", "-o", "fit.json"],
        ["train", "@fit.json", "rows.csv", "--save", "fit.json"],
        ["train", "y ~ a + b*x", "rows.csv", "--checkpoint", "rows.csv"],
        ["train", "y ~ a + b*x", "r*.csv", "--checkpoint", "rows.csv"],
        ["train", "y ~ a + b*x", "rows.csv", "--save", "new", "--page", "./new"],
    ],
)
def test_no_output_replaces_an_input_or_another_output(
    words: list[str], model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content = {"rows.csv": ROWS, "fit.json": Path(model).read_text()}
    for name, text in content.items():
        Path(name).write_text(text)
    assert f"{words[-1]} is an input or another output" in refused(run_cli(words))
    Path(model).unlink()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == content


@pytest.mark.parametrize("option", ["--save", "-o", "predict"])
def test_no_output_replaces_the_data(model: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = (tmp_path / "rows.csv").rename("rows" if option == "--save" else "rows.csv")
    for read, written in ((data.name, f"./{data}"), (f"r*{data.suffix}", data.name), (str(data.absolute()), data.name)):
        fit = ["train", "y ~ a + b*x", read, option, written]
        output = run_cli(["predict", model, read, "-o", written] if option == "predict" else fit)
        assert f"{written} is an input or another output, which would be replaced" in refused(output)
        assert data.read_text() == ROWS


def test_a_dash_as_the_output_is_standard_output(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["predict", model, str(tmp_path / "rows.csv")]
    assert run_cli([*words, "-o", "-"]) == run_cli(words) != ""
    assert run_cli(["lesson", "slope", "-o", "-"]) == run_cli("lesson slope") != ""
    assert not (tmp_path / "-").exists()


# --- answers


def test_the_data_come_back_as_they_are_with_a_prediction(model: str, tmp_path: Path) -> None:
    text = 'id,x,"a, b"\n007,1.50,"say ""hi"""\n008,2e0,\n'
    (tmp_path / "new.csv").write_text(text)
    output = run_cli(["predict", model, str(tmp_path / "new.csv")])
    assert output.status == 0
    assert [row["id"] for row in table(output)] == ["007", "008"]
    assert [row["x"] for row in table(output)] == ["1.50", "2e0"]
    assert table(output)[0]["a, b"] == 'say "hi"'
    assert [*table(output)[0]] == ["id", "x", "a, b", "prediction"]
    found = ad.load(model).predict({"x": [1.5, 2]})
    assert [float(row["prediction"]) for row in table(output)] == found.tolist()


def test_every_kind_of_data_gives_the_same(model: str, tmp_path: Path) -> None:
    wanted = run_cli(["predict", model, str(tmp_path / "rows.csv")])
    (tmp_path / "rows.tsv").write_text(ROWS.replace(",", "\t"))
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(ROWS.encode()))
    assert run_cli(["predict", model, "-"], stdin=ROWS) == wanted
    assert run_cli(["predict", model, str(tmp_path / "rows.tsv")]) == wanted
    assert run_cli(["predict", model, str(tmp_path / "rows.csv.gz")]) == wanted
    parquet.write_table(pa.table({"x": [0, 1], "note": [None, "n"]}), tmp_path / "rows.parquet")
    rows = table(run_cli(["predict", model, str(tmp_path / "rows.parquet")]))
    assert [row["note"] for row in rows] == ["", "n"]
    assert [row["prediction"] for row in rows] == [row["prediction"] for row in table(wanted)[:2]]


@pytest.mark.parametrize(
    ("fitted", "new", "options"),
    [
        ("y ~ a[g] + b*x", "g,x\n1.5,2\n1.5,3\n", ""),
        ("y ~ a[g] + b*x", "x,g,note\n2,A,first\n3,1.5,\n", "--interval 0.9"),
        ("y ~ a[g] + b*x", "g,x\n1.5,2\nC,3\n", ""),
        ("y ~ a + b*x", "y,x\n1,2\n4,3\n", "--residuals --json"),
        ("g ~ softmax(dense(x, 2))", "x\n0.5\n4\n", "--probabilities"),
    ],
)
def test_streamed_rows_are_predicted_like_rows_in_memory(
    fitted: str, new: str, options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A level of the fit may look like another kind of label where it is the only one."""
    path = trained(tmp_path, fitted, "x,y,g\n0,1,A\n1,3,1.5\n2,4.5,A\n3,7,1.5\n4,9.5,A\n5,11,1.5\n")
    (tmp_path / "new.csv").write_text(new)
    line = ["predict", path, str(tmp_path / "new.csv"), *options.split()]
    in_memory = run_cli(line)
    monkeypatch.setattr("autodiff_cli.training.objective.loading.memory_shortage", lambda *_: "there is little memory")
    streamed = run_cli(line)
    assert (streamed, streamed.status) == (in_memory, in_memory.status)
    if streamed.status == 0:
        assert "the rows are streamed (there is little memory)" in streamed.stderr
    else:
        assert streamed.stderr.replace("row 2, ", "") == in_memory.stderr.replace("row 2, ", "")


def test_decimal_commas_come_back_as_points_beside_the_prediction(model: str, tmp_path: Path) -> None:
    """The output has one decimal mark, and can be read again."""
    rows = "x,y,note\n0,-1.5,1st\n1250.25,3e-3,2nd\n2,4.5,\n"
    points, commas = tmp_path / "points.csv", tmp_path / "commas.csv"
    points.write_text(rows)
    commas.write_text(rows.replace(",", ";").replace("1250.25", "1.250,25").replace("1.5", "1,5").replace("4.5", "4,5"))
    predicted = run_cli(["predict", model, str(commas)])
    assert predicted == run_cli(["predict", model, str(points)])


def test_json_and_a_file(model: str, tmp_path: Path) -> None:
    document = run_cli(["predict", model, "-", "--json"], stdin="x\n1\n2\n").json
    assert document["rows"] == 2
    assert document["prediction"] == ad.load(model).predict({"x": [1, 2]}).tolist()
    path = tmp_path / "out.csv"
    quiet = run_cli(["predict", model, "-", "-o", str(path)], stdin="x\n1\n2\n")
    assert (quiet.status, quiet) == (0, "")
    assert path.read_text() == run_cli(["predict", model, "-"], stdin="x\n1\n2\n")


@pytest.mark.slow
def test_text_of_another_encoding_comes_back_as_utf_8(model: str, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_bytes(b"note,x\ncaf\xe9,1\n")
    assert run_cli(["predict", model, str(tmp_path / "new.csv"), "-o", str(tmp_path / "out.csv")]).status == 0
    wanted = (tmp_path / "out.csv").read_bytes()
    assert wanted.decode().startswith("note,x,prediction\ncafé,1,")
    autodiff = Path(sys.executable).with_name("autodiff")
    done = subprocess.run(
        [autodiff, "predict", model, "-"], input=b"note,x\ncaf\xe9,1\n", capture_output=True, check=True
    )
    assert done.stdout == wanted


def test_a_prediction_that_is_not_finite_is_pointed_out(tmp_path: Path) -> None:
    path = trained(tmp_path, "y ~ a*log(x + 1)", ROWS)
    output = run_cli(["predict", path, "-"], stdin="x\n1\n-1\n-2\n")
    assert [float(row["prediction"]) for row in table(output)][1:] == [-math.inf, pytest.approx(math.nan, nan_ok=True)]
    assert "prediction is not finite: 2" in output.stderr
    assert run_cli(["predict", path, "-", "--json"], stdin="x\n-1\n").json["prediction"] == ["-inf"]


def test_a_band_without_ends_is_no_undefined_prediction() -> None:
    bands = {"prediction": np.array([1.0, np.nan]), "prediction_low": np.full(2, np.nan)}
    assert count_undefined(bands) == 1


def test_a_prediction_that_reads_no_column_is_the_same_for_all(tmp_path: Path) -> None:
    path = trained(tmp_path, "y ~ a", ROWS, "--no-columns")
    rows = table(run_cli(["predict", path, "-"], stdin="z\n1\n2\n"))
    assert [float(row["prediction"]) for row in rows] == pytest.approx([3.875, 3.875])


def test_classes_are_labels_and_the_label_column_need_not_be_there(tmp_path: Path) -> None:
    rows = "a,b,kind\n" + "".join(f"{k % 5},{10 * (k % 2)},{['low', 'high'][k % 2]}\n" for k in range(20))
    path = trained(tmp_path, "kind ~ softmax(mlp([a, b], [4], tanh))", rows, "--epochs", "300")
    output = run_cli(["predict", path, "-"], stdin="b,a\n0,1\n10,2\n")
    assert [row["prediction"] for row in table(output)] == ["low", "high"]
    unknown = run_cli(["predict", path, "-"], stdin="b,a,kind\n0,1,never seen\n")
    assert table(unknown)[0]["prediction"] == "low"


@pytest.mark.parametrize("target", ["y", "log(y)", "[y, x]"])
def test_predictions_of_a_function_of_a_column_are_named(target: str, tmp_path: Path) -> None:
    model = trained(tmp_path, f"{target} ~ {'[a, b]' if ',' in target else 'a + b*x'}", "x,y\n1,2\n2,3\n3,5\n4,8\n")
    predicted = run_cli(["predict", model, "--x", "2"])
    assert ("the predictions are values of `log(y)`" in predicted.stderr) == (target == "log(y)")


def test_several_targets_have_a_column_each(tmp_path: Path) -> None:
    rows = "x,u,v\n0,1,5\n1,3,6\n2,5,7\n"
    path = trained(tmp_path, "[u, log(v)] ~ [a + b*x, c + x*d]", rows)
    output = run_cli(["predict", path, "-"], stdin="x\n3\n")
    assert [*table(output)[0]] == ["x", "prediction_u", "prediction_log(v)"]
    assert float(table(output)[0]["prediction_u"]) == pytest.approx(7)


def test_a_column_that_the_model_does_not_read_may_hold_whole_texts(model: str, tmp_path: Path) -> None:
    text = "x,note\n1,first\n2," + 200_000 * "z" + "\n"
    for line in (["predict", model, "-"], ["grad", "x^2", "--at", "-"]):
        output = run_cli(line, stdin=text)
        assert (output.status, output.stderr) == (0, "")
        assert output.splitlines()[2].startswith(text.splitlines()[2])
    (tmp_path / "long.csv").write_text(text)
    assert run_cli(["grad", "x^2", "--at", str(tmp_path / "long.csv")]).status == 0


# --- errors


@pytest.mark.parametrize("command", ["predict", "grad"])
def test_a_damaged_column_that_is_only_copied_is_reported_before_rows_are_written(
    command: str, model: str, tmp_path: Path
) -> None:
    path = tmp_path / "new.parquet"
    words = ["predict", model] if command == "predict" else ["grad", "x^2", "--at"]
    columns = {"x": [1.0, 2.0], "note": pa.array([b"good", b"\xff"]).cast(pa.binary()).view(pa.string())}
    parquet.write_table(pa.table(columns), path)
    assert str(path) in refused(run_cli([*words, str(path)]))
    columns["note"] = ["first " * 9, "second " * 9]
    parquet.write_table(pa.table(columns), path, compression="none", use_dictionary=False)
    content = bytearray(path.read_bytes())
    start = content.index(b"first ")
    content[start - 40 : start] = 40 * b"\xff"  # of the page's own header
    path.write_bytes(content)
    assert str(path) in refused(run_cli([*words, str(path)]))


def test_rows_that_quotes_make_more_than_one_of_are_known_before_they_are_written(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autodiff_cli.data.files.DataSource.iter_rows", lambda _: iter([["1"]]))
    assert "it has 2 or 1 rows" in refused(run_cli(["predict", model, "-"], stdin="x\n1\n2\n"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "the file is empty"),
        ("x\n", "there are no rows"),
        ("z,w\n1,2\n", "the model needs the column `x`; the columns are z, w"),
        ("x,z\n1,2\n1\n", "line 3: 1 cell, but the header has 2"),
        ("x\n1\ntwo\n", 'line 3, column `x`: "two" is not a number'),
        ("x,z\n1,1\n,1\n", "line 3, column `x`: empty"),
        ("x,prediction\n1,2\n", "there is already a column `prediction`"),
    ],
)
def test_bad_data_is_status_2(data: str, message: str, model: str) -> None:
    for more in ([], ["--json"]):
        assert message in refused(run_cli(["predict", model, "-", *more], stdin=data))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("MODEL", "missing DATA"),
        ("/nowhere.json -", "/nowhere.json: no such file"),
        ("MODEL /nowhere.csv", "/nowhere.csv: no such file"),
        ("rows.csv -", "not a model file"),
        ("MODEL - --a 2", "--a is not an option, and the model has no column `a`"),
        ("MODEL - --jsn", "--json"),
    ],
)
def test_bad_words_are_status_2(words: str, message: str, model: str, tmp_path: Path) -> None:
    words = words.replace("MODEL", model).replace("rows.csv", str(tmp_path / "rows.csv"))
    assert message in refused(run_cli(f"predict {words}", stdin="x\n1\n"))


def test_a_damaged_model_is_status_2(model: str) -> None:
    document = json.loads(Path(model).read_text())
    for damage in (
        {"version": 99},
        {"parameters": {"a": [1, 2], "b": 1}},
        {"model": "y ~"},
        {"parameters": {"a": 1, "b": None}},
        {"intervals": {"bootstrap": {"a": []}}},
        {"intervals": {"bootstrap": {"a": ""}}},
    ):
        Path(model).write_text(json.dumps({**document, **damage}))
        assert model in refused(run_cli(["predict", model, "-"], stdin="x\n1\n"))


def test_a_file_that_cannot_be_written_is_status_1(model: str, tmp_path: Path) -> None:
    output = run_cli(["predict", model, "-", "-o", str(tmp_path / "none" / "out.csv")], stdin="x\n1\n")
    assert output.status == 1
    assert "cannot write" in output.stderr


# --- more columns


def test_bands_and_residuals_are_columns(model: str) -> None:
    output = run_cli(["predict", model, "-", "--interval", "95", "--residuals"], stdin="x,y\n1,3\n2,5\n")
    ends = ["confidence_low", "confidence_high", "prediction_low", "prediction_high"]
    first, second = table(output)
    assert [*first] == ["x", "y", "prediction", *ends, "residual"]
    low, high, below, above = (float(first[end]) for end in ends)
    assert below < low < float(first["prediction"]) < high < above
    assert float(second["residual"]) == 5 - float(second["prediction"])
    document = run_cli(["predict", model, "-", "--interval", "0.95", "--json"], stdin="x\n1\n").json
    assert [document[end] for end in ends] == [[low], [high], [below], [above]]


def test_rows_with_missing_cells_are_left_out_and_counted(model: str) -> None:
    text = "note,x\nfirst,1\nsecond,\nthird,3\n"
    output = run_cli(["predict", model, "-", "--drop-missing"], stdin=text)
    assert [row["note"] for row in table(output)] == ["first", "third"]
    assert "rows left out because of missing cells: 1" in output.stderr
    assert "--drop-missing" in refused(run_cli(["predict", model, "-"], stdin=text))


def test_probabilities_of_classes_and_of_ones(tmp_path: Path) -> None:
    rows = "a,b,kind\n" + "".join(f"{k % 5},{10 * (k % 2)},{['low', 'high'][k % 2]}\n" for k in range(20))
    path = trained(tmp_path, "kind ~ softmax(mlp([a, b], [4], tanh))", rows, "--epochs", "300")
    (row,) = table(run_cli(["predict", path, "-", "--probabilities"], stdin="b,a\n0,1\n"))
    assert float(row["probability_low"]) + float(row["probability_high"]) == pytest.approx(1)
    assert "probabilities" in refused(run_cli(["predict", path, "-", "--interval", "0.9"], stdin="b,a\n0,1\n"))
    assert "no residuals" in refused(run_cli(["predict", path, "-", "--residuals"], stdin="b,a,kind\n0,1,low\n"))
    path = trained(tmp_path, "y ~ sigmoid(a + b*x)", "x,y\n0,0\n1,1\n2,0\n3,1\n", "--loss", "bce")
    output = run_cli(["predict", path, "-", "--probabilities", "--interval", "0.9"], stdin="x\n1\n")
    assert table(output)[0]["probability"] == table(output)[0]["prediction"]
    assert "no prediction band" in output.stderr


def test_models_outside_the_language_are_refused(model: str) -> None:
    assert "probabilities" in refused(run_cli(["predict", model, "-", "--probabilities"], stdin="x\n1\n"))
    assert "between 0 and 1" in refused(run_cli(["predict", model, "-", "--interval", "0"], stdin="x\n1\n"))
    assert "--residuals needs the column `y`" in refused(
        run_cli(["predict", model, "-", "--residuals"], stdin="x\n1\n")
    )


def test_missing_columns_of_joint_labels_are_those_of_the_model(tmp_path: Path) -> None:
    model = trained(
        tmp_path, "y ~ a[lot, dose] + b*x", "lot,dose,x,y\n" + "N,1,0,1\nN,2,1,3.1\nS,1,0,2\nS,2,1,4.2\n" * 2
    )
    for more in ([], ["--residuals"]):
        message = refused(run_cli(["predict", model, "-", *more], stdin="x,y\n1,2\n"))
        assert "the model needs the columns `lot`, `dose`; the columns are x, y" in message


JOINT = [("N", 1), ("N", 2), ("Lee, A", 1), ("Lee, A", 2)]


def test_labels_of_several_columns_have_an_option_each(tmp_path: Path) -> None:
    rows = "".join(
        f'"{lot}",{dose},{x},{k + x + x * k / 50}\n' for k, (lot, dose) in enumerate(JOINT) for x in (0, 1, 2)
    )
    model = trained(tmp_path, "y ~ a[lot, dose] + b*x", f"lot,dose,x,y\n{rows}")
    for lot, dose in JOINT:
        options = ["--lot", lot, "--dose", str(dose)]
        (of_file,) = table(run_cli(["predict", model, "-"], stdin=f'lot,dose,x\n"{lot}",{dose},1\n'))
        (of_values,) = table(run_cli(["predict", model, "--x", "1", *options]))
        assert of_values["prediction"] == of_file["prediction"]
        line = ["predict", model, "--inverse", "x", "--y", of_file["prediction"], *options]
        (found,) = table(run_cli(line))
        assert float(found["x"]) == pytest.approx(1, rel=1e-9)
    assert "no value for `dose`" in refused(run_cli(["predict", model, "--x", "1", "--lot", "N"]))


def test_values_of_columns_stand_for_a_row_of_data(tmp_path: Path) -> None:
    model = trained(tmp_path, "y ~ a[site] + b*x", "site,x,y\nN,0,1\nN,1,3.1\nS,0,2\nS,1,4.2\n")
    (tmp_path / "row.csv").write_text("site,x\nS,0.5\n")
    from_file = run_cli(["predict", model, str(tmp_path / "row.csv"), "--interval", "0.9"])
    assert run_cli(["predict", model, "--site", "S", "--x", "0.5", "--interval", "0.9"]) == from_file
    assert table(run_cli(["predict", model, "--site", "S", "--x", "1/4"]))[0]["x"] == "0.25"


@pytest.mark.parametrize(("first", "other"), [("2024-01-01", "12:30"), ("12:30", "2024-01-01"), ("12:30", "noon")])
def test_values_of_times_are_like_those_of_the_fit(first: str, other: str, tmp_path: Path) -> None:
    second, third = (first.replace("01-01", f"01-0{2 + k}").replace("12:", f"{13 + k}:") for k in range(2))
    model = trained(tmp_path, "y ~ a + b*t", f"t,y\n{first},1\n{second},3.1\n{third},4.9\n")
    refused = run_cli(["predict", model, "--t", other])
    assert (refused.status, refused) == (2, "")
    shown = f"{first} 00:00:00" if "-" in first else f"{first}:00"
    assert refused.stderr == f"error: the value of `t` must be a time like {shown}, not `{other}`\n"
    assert float(table(run_cli(["predict", model, "--t", second]))[0]["prediction"]) == pytest.approx(3)
    inverse = run_cli(["predict", model, "--inverse", "t", "--y", "2", "--t", f"{first}..{second}"])
    assert inverse.stderr == f"column `t`: dates and times are seconds since {shown}\n"
    (found,) = table(inverse)
    assert float(found["t"]) == pytest.approx((86400 if "-" in first else 3600) * (2 - 1.05) / 1.95)


def test_the_example_for_a_missing_value_works(tmp_path: Path) -> None:
    rows = (
        "site,day,x,y\nN b,2024-01-01,1,1\nS,2024-01-02,2,3\nN b,2024-01-03,4,4\nS,2024-01-05,3,7\nS,2024-01-08,1,9\n"
    )
    model = trained(tmp_path, "y ~ a[site] + b*day + c*x", rows)
    refused = run_cli(["predict", model, "--y", "2"])
    (example,) = re.findall("add (.*), or DATA", refused.stderr)
    assert run_cli(["predict", model, *shlex.split(example)]).status == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--z", "4"], "the model has no column `z`"),
        (["--y", "3"], "no value for `x`; add --x 2, or DATA"),
        (["--x", "nan"], "the value of `x` must be a finite number, not `nan`"),
        (["--x", "[1, 2]"], "the value of `x` must be a finite number"),
        (["--inverse", "x", "--y", "[1, 2]", "--x", "0..1"], "the value of `y` must be a finite number"),
        (["--inverse", "x", "--y", "4+--1", "--x", "0..1"], "the error of a reading must be 0 or positive, not -1"),
        (["--inverse", "z", "--y", "4"], "the model has no column `z`"),
        (["rows.csv", "--x", "2"], "give DATA or --x, not both"),
        ([], "missing DATA; usage: autodiff predict MODEL.json DATA, or a value of each column: --x 2"),
    ],
)
def test_values_that_are_no_row_are_refused_by_name(model: str, arguments: list[str], message: str) -> None:
    output = run_cli(["predict", model, *arguments])
    assert (output.status, output) == (2, "")
    assert message in output.stderr


@pytest.mark.parametrize("values", [["--x", "2"], ["--inverse", "x", "--y", "4", "--x", "0..5"]])
def test_no_option_is_ignored_without_data(model: str, values: list[str]) -> None:
    assert run_cli(["predict", model, *values]).status == 0
    for words in ("--where x>5", "--skip 1", "--drop-missing", "--decimal ,", "--units-row"):
        assert (
            refused(run_cli(["predict", model, *values, *words.split()])) == f"error: {words.split()[0]} needs DATA\n"
        )
    if "--inverse" in values:
        for words in ("--residuals", "--probabilities", "--posterior", "rows.csv"):
            assert "--inverse" in refused(run_cli(["predict", model, *values, words]))


def test_a_row_of_values_may_have_all_that_messages_ask_for(tmp_path: Path) -> None:
    """The suggestion for a missing label works as it is typed, and a column of errors gives the prediction band."""
    data, model = tmp_path / "d.csv", tmp_path / "m.json"
    rows = [("New York" if k % 2 else "Rome", k, 2 * k + 0.1 * (k % 3), 0.1 + 0.1 * (k % 2)) for k in range(12)]
    data.write_text("site,x,y,s\n" + "".join(f"{','.join(map(str, row))}\n" for row in rows), encoding="utf-8")
    assert run_cli(["train", "y ~ a[site] + b*x", str(data), "--sigma", "2*s", "--save", str(model)]).status == 0
    refused = run_cli(f"predict {model} --x 1")
    (example,) = re.findall(r"add (--site .*), or DATA", refused.stderr)
    without = run_cli(f"predict {model} --x 1 {example} --interval 0.9")
    assert without.splitlines()[1].endswith(",nan,nan")
    assert "weighted the rows by `2*s`" in without.stderr
    found = run_cli(f"predict {model} --x 1 {example} --s 0.1 --interval 0.9")
    assert (found.status, found.stderr) == (0, "")
    names, numbers = (line.split(",") for line in found.splitlines())
    row = dict(zip(names, numbers, strict=True))
    assert float(row["prediction_low"]) < float(row["confidence_low"]) < float(row["confidence_high"])


def test_the_level_of_an_inverse_prediction_is_that_of_the_fit_unless_it_is_given(tmp_path: Path) -> None:
    x = [1.0, 2, 3, 4, 5, 6, 7]
    data = {"x": x, "y": [2.5, 3.1, 3.4, 4.2, 4.4, 5.1, 5.4]}
    for level in (0.5, 0.99)[: amount(1, 2, 2)]:
        fit = ad.fit("y ~ a + b*x", data, confidence=level)
        fit.save(tmp_path / "m.json")
        line = ["predict", str(tmp_path / "m.json"), "--inverse", "x", "--y", "4+-0.1", "--x", "0..10", "--json"]
        for words, given in (([], None), (["--interval", "0.8"], 0.8)):
            document = run_cli([*line, *words]).json
            (expected,) = fit.inverse("x", 4.0, 0.1, limits=(0, 10), level=given)
            text = json.dumps(document)
            assert document["level"] == (given or level)
            assert all(repr(end) in text for end in (expected.value, expected.low, expected.high)), document

"""`autodiff grad` at many points: files and ranges, as CSV and as JSON lines."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import autodiff_cli as ad
from tests.each import each, examples
from tests.support import run_cli


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def points(tmp_path: Path) -> str:
    file = tmp_path / "points.csv"
    file.write_text('id,x,y\na,2,3\n"b, too",1,0\n')
    return str(file)


# --- files


def test_results_stand_beside_the_rows(points: str) -> None:
    output = run_cli(["grad", "x*y + sin(x)", "--at", points])
    assert output == (
        "id,x,y,value,d_x,d_y\n"
        f"a,2,3,{6 + math.sin(2)},{3 + math.cos(2)},2\n"
        f'"b, too",1,0,{math.sin(1)},{math.cos(1)},1\n'
    )
    assert (output.status, output.stderr) == (0, "")


def test_it_says_how_the_file_was_read(tmp_path: Path) -> None:
    """What was detected changes what the numbers mean, in `grad` as in a fit."""
    file = tmp_path / "points.csv"
    file.write_text("# a comment\nday;x;y\n2024-01-02;1,5;yes\n2024-01-03;2,5;no\n")
    output = run_cli(["grad", "x*y + day", "--at", str(file), "--where", "x > 2"])
    assert rows_of(output)[0]["value"] == "86400"
    fitted = run_cli(["train", "x ~ a*y + b*day", str(file), "--where", "x > 1"]).stderr
    assert set(output.stderr.splitlines()) - set(fitted.splitlines()) == {"--where keeps 1 of 2 rows"}
    assert "dates and times are seconds since 2024-01-02" in output.stderr
    none = run_cli(["grad", "x*y + day", "--at", str(file), "--where", "x > 3"])
    assert (none.status, none) == (2, "")
    assert "--where keeps none of 2 rows" in none.stderr


def test_variables_without_a_column_have_values(points: str) -> None:
    rows = rows_of(run_cli(["grad", "a*x", "--at", points, "--a", "pi", "--wrt", "a", "--digits", "3"]))
    assert [(row["value"], row["d_a"]) for row in rows] == [("6.28", "2"), ("3.14", "1")]
    assert "d_x" not in rows[0]
    weighted = run_cli(["grad", "w[0]*x + w[1]*y", "--at", points, "--w", "[10, 1]", "--wrt", "x"])
    assert [row["value"] for row in rows_of(weighted)] == ["23", "10"]


def test_json_is_a_document_per_line(points: str) -> None:
    first, second = map(json.loads, run_cli(["grad", "x*log(y)", "--at", points, "--json"]).splitlines())
    assert first == {
        "variables": {"x": 2.0, "y": 3.0},
        "value": 2 * math.log(3),
        "gradient": {"x": math.log(3), "y": 2 / 3},
    }
    assert second["value"] == "-inf"


def test_standard_input_and_other_separators() -> None:
    assert run_cli("grad x^2 --at -", stdin="\ufeffx\n3\n\n4\n") == "x,value,d_x\n3,9,6\n4,16,8\n"
    assert run_cli("grad c1*c2 --at - --no-header", stdin="3,2\n4,5\n") == (
        "c1,c2,value,d_c1,d_c2\n3,2,6,2,3\n4,5,20,5,4\n"
    )
    assert run_cli("grad x*y --at -", stdin="x\ty\n3\t2\n") == "x,y,value,d_x,d_y\n3,2,6,2,3\n"


def test_files_are_read_as_by_train(tmp_path: Path) -> None:
    zipped, table = tmp_path / "points.csv.gz", tmp_path / "points.parquet"
    zipped.write_bytes(gzip.compress(b'"x", y \n3,2\n'))
    parquet.write_table(pa.table({"x": [3.0], "y": [2]}), table)
    for path, header in ((zipped, "x, y "), (table, "x,y")):
        assert run_cli(["grad", "x*y", "--at", str(path)]).splitlines()[0] == f"{header},value,d_x,d_y"
        assert rows_of(run_cli(["grad", "x*y", "--at", str(path)]))[0]["value"] == "6"


def test_a_column_of_a_constants_name_is_a_variable() -> None:
    assert run_cli("grad e*x --at -", stdin="e,x\n3,2\n").startswith("e,x,value,d_e,d_x\n3,2,6,2,3\n")


def test_points_that_are_not_finite_are_counted() -> None:
    output = run_cli("grad log(x) --at -", stdin="x\n1\n0\n-1\n")
    assert output.status == 0
    assert output.stderr == "points where the value or a derivative is not finite: 2\n"


def test_more_rows_than_a_block_holds() -> None:
    count = 20_000
    output = run_cli("grad x^2 --at -", stdin="x\n" + "".join(f"{k}\n" for k in range(count)))
    assert output.splitlines()[-1] == f"{count - 1},{(count - 1) ** 2},{2 * (count - 1)}"
    assert len(output.splitlines()) == count + 1


@pytest.mark.parametrize(
    ("formula", "usual", "fifth", "message"),
    [
        ("x^2", "1,0.01", "1,-1", "row 5: the error in column `s` must be 0 or positive"),
        ("x^2", "1,0.01", "0,1", "nonlinear within the errors: 1, first row 5\n"),
        ("(x + 1e20) - 1e20", "0,1", "3,1", "  row 5: with all digits"),
    ],
)
def test_rows_that_messages_name_are_counted_through_all_blocks(
    formula: str, usual: str, fifth: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autodiff_cli.backends.numpy_backend.BLOCK_ROWS", 2)
    rows = "\n".join(["x,s", *[usual] * 4, fifth, ""])
    (tmp_path / "points.csv").write_text(rows)
    for place in ("-", str(tmp_path / "points.csv")):
        assert message in run_cli(["grad", formula, "--at", place, "--sigma", "x=s"], stdin=rows).stderr


def test_errors_far_down_are_reported_before_anything_is_written(tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    file.write_text("x\n" + "1\n" * 20_000 + "a\n")
    for more in ([], ["--json"]):
        output = run_cli(["grad", "x^2", "--at", str(file), *more])
        assert (output.status, output) == (2, "")
        assert 'line 20002, column `x`: "a" is not a number' in output.stderr


def test_standard_input_is_answered_as_it_arrives_and_a_bad_row_far_down_is_a_failure() -> None:
    output = run_cli("grad x^2 --at -", stdin="x\n" + "1\n" * 20_000 + "a\n")
    assert output.status == 1
    assert output.startswith("x,value,d_x\n1,1,2\n")
    assert 'line 20002, column `x`: "a" is not a number' in output.stderr


def test_an_invalid_row_of_standard_input_is_invalid_input_unless_rows_were_written_before_it() -> None:
    output = run_cli("grad x^2 --at -", stdin="x\n1\na\n")
    assert (output.status, output) == (2, "")


MISSING = ("", "NA", "n/a", "null")


@examples(40)
@given(st.lists(st.tuples(st.sampled_from(["1", "2.5", "-3", *MISSING]), st.sampled_from(["0", "4", "-1", *MISSING]))))
def test_rows_that_where_drops_may_have_missing_cells_and_a_condition_on_a_missing_cell_is_false(
    rows: list[tuple[str, str]],
) -> None:
    selected = [(x, y) for x, y in rows if y not in MISSING and float(y) >= 0]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "points.csv")
        file.write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in rows))
        output = run_cli(["grad", "x*y", "--at", str(file), "--where", "y >= 0"])
    if not selected or any(x in MISSING for x, _ in selected):
        assert (output.status, output) == (2, "")
    else:
        assert [(row["x"], row["y"], float(row["d_x"])) for row in rows_of(output)] == [
            (x, y, float(y)) for x, y in selected
        ]


def test_a_missing_cell_is_called_missing_and_the_advice_that_the_message_gives_works(tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    file.write_text("x,y\n1,2\n2,NA\n3,\n")
    wrong = run_cli(["grad", "x*y", "--at", str(file)])
    for problem in ("line 3, column `y`: NA; --where", "line 4, column `y`: empty; --where"):
        assert problem in wrong.stderr
    assert "as NA" not in wrong.stderr
    assert rows_of(run_cli(["grad", "x*y", "--at", str(file), "--where", "y == y"]))[0]["value"] == "2"


# fmt: off
BAD = [
    ("x,y\n1\n",           "line 2: 1 cell, but the header has 2"),
    ("x,y\n1,2\n\n1,a\n",  'line 4, column `y`: "a" is not a number'),
    ("x,y\n1,\n",          "line 2, column `y`: empty"),
    ("x,y\n1,1_0\n",       'column `y`: "1_0" is not a number'),
    ("x,y\n",              "there are no rows"),
    ("",                   "the file is empty"),
    ("x,y\n1,٣\n",         'column `y`: "٣" is not a number'),
    ("1,2\n3,4\n",         "the first line holds numbers, not column names"),
    ("a,b\n1,2\n",         "no column is a variable (`x`, `y`); the columns are a, b"),
    ("x\n1\n",             "no value for `y`"),
    ("x,x,y\n1,2,3\n",     "more than once"),
    ("x,y,value\n1,2,3\n", "there is already a column `value`"),
    ("x,y,d_x\n1,2,3\n",   "there is already a column `d_x`"),
]
# fmt: on


def test_a_cell_of_a_file_is_named_by_its_line(tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    file.write_text('x,"y"\n\n"1","2\n"\n3,4;\n')
    output = run_cli(["grad", "x*y", "--at", str(file)])
    assert (output.status, output) == (2, "")
    assert 'points.csv: line 5, column `y`: "4;" is not a number' in output.stderr


@each(("data", "message"), BAD)
def test_what_is_wrong_with_the_points_is_named(data: str, message: str) -> None:
    output = run_cli("grad x*y --at -", stdin=data)
    assert (output.status, output) == (2, "")
    assert message in output.stderr


# fmt: off
WRONG = [
    (["grad", "x*y", "--x", "2"],            "so it takes no value: leave --x out"),
    (["grad", "x*y", "--x", "0:1:3"],        "cannot be combined with --at"),
    (["grad", "x*y", "--hessian"],           "cannot be combined with --hessian"),
    (["grad", "x*y", "--z", "2"],            "no variable `z`"),
    (["grad", "sum(v)*x", "--v", "[1,2]"],   "--wrt"),
    (["grad", "sum(x)"],                     "`x` is an array"),
    (["grad", "[x, y]"],                     "array"),
]
# fmt: on


@each(("words", "message"), WRONG)
def test_options_that_do_not_go_with_a_file(words: Sequence[str], message: str, points: str) -> None:
    output = run_cli([*words, "--at", points])
    assert (output.status, output) == (2, "")
    assert message in output.stderr


def test_a_file_that_is_not_there_is_named() -> None:
    output = run_cli("grad x --at nowhere.csv")
    assert (output.status, output) == (2, "")
    assert "nowhere.csv" in output.stderr
    assert "both" in run_cli("grad - --at -", stdin="x\n1\n").stderr


# --- ranges


def test_a_range_has_both_ends_and_short_decimals() -> None:
    rows = rows_of(run_cli("grad x^2 --x 0:10:101"))
    assert [row["x"] for row in rows] == [repr(k / 10).removesuffix(".0") for k in range(101)]
    assert [*rows[3]] == ["x", "value", "d_x"]


def test_ranges_go_over_all_combinations_the_last_one_fastest() -> None:
    rows = rows_of(run_cli("grad x*y*z --x 0:1:2 --y 1:3:3 --z 2"))
    found = [(row["x"], row["y"], row["value"], row["d_z"]) for row in rows]
    products = itertools.product((0, 1), (1, 2, 3))
    assert found == [(str(x), str(y), str(2 * x * y), str(x * y)) for x, y in products]


@examples(20)
@given(st.floats(-5, 5), st.floats(-5, 5), st.integers(2, 9))
def test_each_point_is_as_if_it_were_alone(start: float, stop: float, count: int) -> None:
    text = "where(x > y, x^2*y, sin(x) - y)"
    lines = run_cli(["grad", text, "--x", f"{start}:{stop}:{count}", "--y=1/3", "--json"]).splitlines()
    assert len(lines) == count
    for document in map(json.loads, lines):
        x = document["variables"]["x"]
        value, gradient = ad.parse(text).value_and_grad(x=x, y=1 / 3)
        assert document["value"] == pytest.approx(value, rel=1e-14)
        assert document["gradient"] == pytest.approx(gradient, rel=1e-14)


# fmt: off
RANGES = [
    ("0:1",        "a range is START:STOP:COUNT, such as --x 0:10:101, not `0:1`"),
    ("0:1:0",      "START:STOP:COUNT"),
    ("0:1:2.5",    "START:STOP:COUNT"),
    ("0:1:2:3",    "START:STOP:COUNT"),
    ("0:inf:3",    "the ends of a range are finite numbers"),
    ("0:y:3",      "must be a number"),
    ("[1,2]:3:4",  "the ends of a range are finite numbers"),
    ("0:1:99999999999999999999", "the ranges give"),
    ("0:1:" + 5000 * "1", "a range has at most"),
    ("0:1:٣",      "START:STOP:COUNT"),
]
# fmt: on


@each(("value", "message"), RANGES)
def test_a_range_that_is_none_is_explained(value: str, message: str) -> None:
    output = run_cli(["grad", "x", "--x", value])
    assert (output.status, output) == (2, "")
    assert message in output.stderr


def test_a_range_over_all_floats() -> None:
    rows = rows_of(run_cli("grad x --x -1e308:1e308:5"))
    assert [float(row["x"]) for row in rows] == [-1e308, -5e307, 0, 5e307, 1e308]


def test_a_range_of_one_and_ends_that_are_expressions() -> None:
    assert run_cli("grad x --x 2:2:1") == "x,value,d_x\n2,2,1\n"
    assert rows_of(run_cli("grad x --x -pi:pi:3"))[0]["x"] == str(-math.pi)


def test_arrays_may_be_the_same_at_all_points() -> None:
    output = run_cli("grad sum(v*x) --v [1,2] --x 0:1:3 --wrt x")
    assert (output.status, output) == (0, "x,value,d_x\n0,0,3\n0.5,1.5,3\n1,3,3\n")
    for line, message in (
        ("grad sum(v*x) --v [1,2] --x 0:1:3", "choose variables that are numbers with --wrt"),
        ("grad 'v: 2; sum(v)' --v 0:1:3", "each point has one number for it"),
        ("grad v[0] --v 0:1:3", "each point has one number for it"),
    ):
        refused = run_cli(line)
        assert (refused.status, refused) == (2, "")
        assert message in refused.stderr


@each(
    "options",
    [
        [],
        ["--where", "x > 500"],
        ["--where", "s == 'A'"],
        ["--comment", "%"],
        ["--skip", "0"],
        ["--units-row"],
        ["--sigma", "x=e"],
        ["--where", "s == 'A' and x < 10", "--sigma", "x=e", "--units-row"],
    ],
)
def test_points_from_standard_input_are_those_of_a_file(options: list[str]) -> None:
    """Standard input is read once, as rows arrive; nothing that has to look ahead may lose rows."""
    units, note = "m,m,,\n" if "--units-row" in options else "", 100 * "z"  # more text than is read at once
    text = "x,e,s,note\n" + units + "".join(f"{k},0.1,{'AB'[k % 2]},{note}\n" for k in range(2_000))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "points.csv"
        path.write_text(text)
        of_file = run_cli(["grad", "x^2", "--at", str(path), *options])
    of_stream = run_cli(["grad", "x^2", "--at", "-", *options], stdin=text)
    assert (of_file.status, of_stream.status) == (0, 0)
    assert of_stream == of_file
    assert len(of_stream.splitlines()) > (5 if "--where" in options else 2_000)

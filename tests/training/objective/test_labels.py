"""Class columns: whole numbers or texts, from memory and from files, and what is no class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from autodiff_cli import DataError, Objective, fit
from autodiff_cli.data.dialect import FileOptions
from autodiff_cli.data.files import DataSource, open_data
from tests.each import each
from tests.support import run_cli

MODEL = "k ~ softmax([0, a*x + b, c*x])"
X = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([3, 1, 2, 1, 2, 3], (1, 2, 3)),
        ([3.0, 10.0, 2.0, 10.0, 2.0, 3.0], (2, 3, 10)),
        (["c", "a", "b", "a", "b", "c"], ("a", "b", "c")),
        (np.array(["10", "9", "b", "9", "b", "10"], dtype=object), ("10", "9", "b")),
        ([-1, 0, 1, 0, 1, -1], (-1, 0, 1)),
    ],
)
def test_classes_are_sorted_and_counted(labels: Any, classes: tuple[Any, ...]) -> None:
    objective = Objective(MODEL, {"x": X, "k": labels})
    assert objective.classes == classes
    assert objective.confusion(objective.start).sum(axis=1).tolist() == [2, 2, 2]


def csv(tmp_path: Path, labels: list[str]) -> DataSource:
    path = tmp_path / "rows.csv"
    path.write_text("x,k\n" + "".join(f"{x},{label}\n" for x, label in zip(X, labels, strict=True)))
    return open_data([str(path)])


def test_labels_of_a_file_that_are_all_numbers_are_numbers(tmp_path: Path) -> None:
    assert Objective(MODEL, csv(tmp_path, ["10", "9", "1", " 9", "1", "10"])).classes == (1, 9, 10)
    assert Objective(MODEL, csv(tmp_path, ["10", "9", "b", " 9 ", "b", "10"])).classes == ("10", "9", "b")
    assert Objective(MODEL, csv(tmp_path, ["p q", '"r, s"', "u", '"r, s"', "u", "p q"])).classes == ("p q", "r, s", "u")


@pytest.mark.parametrize("labels", [[1, 2, 3, 1, 2, 3], ["a", "b", "c", "a", "b", "c"]])
def test_labels_of_a_parquet_file(tmp_path: Path, labels: list[Any]) -> None:
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"x": X, "k": labels}), path)
    assert Objective(MODEL, open_data([str(path)])).classes == tuple(labels[:3])


def test_a_label_that_is_missing_is_named_or_its_row_left_out(tmp_path: Path) -> None:
    for labels in (["a", "b", "", "c", "b", "a"], ["1", "2", "NA", "3", "2", "1"]):
        with pytest.raises(DataError, match="line 4, column `k`: ") as caught:
            Objective(MODEL, csv(tmp_path, labels))
        assert caught.value.missing
        assert Objective(MODEL, csv(tmp_path, labels), drop_missing=True).rows == 5
    for none in (None, float("nan"), " "):
        columns = {"x": X, "k": np.array(["a", "b", none, "c", "b", "a"], dtype=object)}
        with pytest.raises(DataError, match="row 3, column `k`: no label"):
            Objective(MODEL, columns)
        assert Objective(MODEL, columns, drop_missing=True).rows == 5


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a"] * 6, "column `k` has only one class, a; a classification needs at least two"),
        ([7] * 6, "column `k` has only one class, 7"),
        (list("abcdef"), "column `k` has 6 different values in 6 rows: it is hardly a class"),
        ([0.5, 1, 2, 1, 2, 1], "column `k`: a label must be a whole number below 2.63 or text, not 0.5"),
        ([1e308, 1, 2, 1, 2, 1], "column `k`: a label must be a whole number below 2.63 or text, not 1e.308"),
        (np.array([1, 2**63, 1, 2, 1, 2], dtype=np.uint64), "column `k`: a label must be a whole number below 2.63"),
        ([[1], [2], [3], [1], [2], [3]], "expected one label per row"),
        (list("aba"), "the columns differ in length"),
        (["a", "b\udcff", "a", "b", "a", "b"], r"column `k`: 'b\\udcff' is not Unicode text"),
    ],
)
def test_columns_that_hold_no_classes(labels: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Objective(MODEL, {"x": X, "k": labels})


def test_a_label_that_is_not_utf_8_is_named_by_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(b"x,k\n1,a\n2,b\xff\n3,a\n")
    with pytest.raises(DataError, match="line 3, column `k`: text that is not UTF-8"):
        Objective(MODEL, open_data([str(path)], options=FileOptions(encoding="utf-8")))


@pytest.mark.parametrize("labels", [[*range(20), *range(10)], [*range(30), *range(30)]], ids=["20 of 30", "30 of 60"])
def test_values_for_two_rows_each_or_few_values_are_classes(labels: list[int]) -> None:
    objective = Objective("k ~ softmax(mlp(x, [2]))", {"x": np.arange(float(len(labels))), "k": labels})
    assert objective.classes == tuple(range(max(labels) + 1))


def test_many_values_for_a_few_rows_are_hardly_classes() -> None:
    labels = [*range(30), *range(20)]
    with pytest.raises(DataError, match="30 different values in 50 rows"):
        Objective("k ~ softmax(mlp(x, [2]))", {"x": np.arange(50.0), "k": labels})


def test_a_class_that_only_validation_rows_have_is_an_error() -> None:
    labels = ["a", "b"] * 10 + ["rare"]
    columns = {"x": np.arange(21.0), "k": labels}
    seen = 0
    for seed in range(8):
        try:
            fit("k ~ softmax(mlp(x, [2]))", columns, epochs=1, validation=0.4, seed=seed)
            seen += 1
        except DataError as error:
            assert "all rows of the class rare are held out" in str(error)  # noqa: PT017 - depends on the seed
    assert 0 < seen < 8


def test_predictions_are_labels() -> None:
    found = fit("k ~ softmax([0, a*x + b])", {"x": X, "k": ["low", "low", "low", "up", "low", "up"]})
    assert found.predict({"x": [-9.0, 99.0]}).tolist() == ["low", "up"]
    assert found.probabilities({"x": X}).shape == (6, 2)
    assert found.rss is None
    assert found.r_squared is None


@each("base", [2**53, 2**63, 2**64 - 2, 10**30])
def test_groups_of_large_whole_numbers_stay_apart(base: int) -> None:
    """Neighbours are the same float."""
    rows = [f"{number},{x},{number - base + x}" for number in (base, base + 1) for x in range(3)]
    document = run_cli(["train", "y ~ a + b*x", "-", "--by", "id", "--json"], stdin="\n".join(["id,x,y", *rows])).json
    assert [str(group["by"]) for group in document["groups"]] == [str(base), str(base + 1)]
    assert [group["parameters"]["a"] for group in document["groups"]] == pytest.approx([0, 1], abs=1e-9)

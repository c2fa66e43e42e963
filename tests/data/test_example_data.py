"""The data sets are as their README describes them."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from pathlib import Path

import pytest

from tests.data import generate

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", generate.SETS)
def test_the_script_writes_the_generated_sets(name: str) -> None:
    assert (HERE / f"{name}.csv").read_text() == generate.text(name)


def test_iris_has_the_sums_of_fishers_paper() -> None:
    with (HERE / "iris.csv").open() as stream:
        rows = [*csv.DictReader(stream)]
    assert Counter(row["species"] for row in rows) == {"setosa": 50, "versicolor": 50, "virginica": 50}
    means = {
        ("setosa", "sepal_length"): 5.006, ("setosa", "sepal_width"): 3.428,
        ("setosa", "petal_length"): 1.462, ("setosa", "petal_width"): 0.246,
        ("versicolor", "sepal_length"): 5.936, ("versicolor", "sepal_width"): 2.770,
        ("versicolor", "petal_length"): 4.260, ("versicolor", "petal_width"): 1.326,
        ("virginica", "sepal_length"): 6.588, ("virginica", "sepal_width"): 2.974,
        ("virginica", "petal_length"): 5.552, ("virginica", "petal_width"): 2.026,
    }  # fmt: skip
    for (species, column), mean in means.items():
        values = [float(row[column]) for row in rows if row["species"] == species]
        assert sum(values) / 50 == pytest.approx(mean)


def test_digits_are_pixels_from_0_to_16() -> None:
    with gzip.open(HERE / "digits.csv.gz", "rt") as stream:
        rows = [*csv.DictReader(stream)]
    assert len(rows) == 1797
    assert {int(row[f"p{k}"]) for row in rows for k in range(64)} == {*range(17)}
    assert {int(row["digit"]) for row in rows} == {*range(10)}

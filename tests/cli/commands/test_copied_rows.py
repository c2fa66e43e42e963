"""Random tables in every format, through `grad --at` and `predict`: all columns stay, results are exact beside them."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import autodiff_cli as ad
from tests.each import amount
from tests.support import run_cli

X = np.linspace(0.1, 3, 12)
TEXTS = [
    ["a", "b"],
    ["x,y", "p;q"],
    ['say "hi"', "it's"],
    ["é", "日本"],
    ["007", "1e5"],
    ["one\ntwo", "three"],
    ["", "NA"],
]
FORMATS = ["csv", "tsv", "csv.gz", "parquet", "arrow", "jsonl"]


def random_table(chance: Random) -> dict[str, list[Any]]:
    """Return three columns of numbers of many sizes, labels, and up to three columns of texts, in random order."""
    rows = chance.choice([1, 2, 7])
    sizes = [chance.choice([1.0, 10.0 ** chance.randint(-9, 9), 1 / 3]) for _ in range(rows)]
    columns: dict[str, list[Any]] = {
        "x": [chance.gauss(0, 1) * size for size in sizes],
        "y": [abs(chance.gauss(0, 1)) + 0.01 for _ in range(rows)],
        "z": [chance.gauss(0, 1) for _ in range(rows)],
        "g": [chance.choice("AB") for _ in range(rows)],
    }
    for name in chance.sample(["note", "n,1", 'q"q', "Temp [°C]", "名", "d_x2", "s p"], chance.randint(0, 3)):
        words = chance.choice(TEXTS)
        columns[name] = [chance.choice(words) for _ in range(rows)]
    return {name: columns[name] for name in chance.sample([*columns], len(columns))}


def save_table(columns: dict[str, list[Any]], path: Path) -> None:
    rows = [*zip(*columns.values(), strict=True)]
    if path.suffix in (".parquet", ".arrow"):
        {".parquet": parquet.write_table, ".arrow": feather.write_feather}[path.suffix](pa.table(columns), path)
        return
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows))
        return
    text = io.StringIO(newline="")
    csv.writer(text, "excel-tab" if path.suffix == ".tsv" else "excel").writerows([[*columns], *rows])
    content = text.getvalue().encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def results_of(output: str, columns: dict[str, list[Any]], where: Any) -> dict[str, list[str]]:
    """Return the columns beside those of the data, which are as they were written: numbers as the same floats."""
    header, *body = csv.reader(io.StringIO(output, newline=""))
    found = {name: [row[k] for row in body] for k, name in enumerate(header)}
    assert header[: len(columns)] == [*columns], where
    for name, cells in columns.items():
        copied = [*map(float, found[name])] if name in "xyz" else found[name]
        assert copied == cells, (where, name)
    return {name: found[name] for name in header[len(columns) :]}


def test_gradients_at_the_rows_of_a_file_stand_beside_all_of_its_columns(tmp_path: Path) -> None:
    formulas = [ad.parse(text) for text in ("x*y + z", "y/z - 2*x", "x^2*y", "where(z > 0, x, y)*z")]
    for seed in range(amount(24, 60, 500)):
        chance = Random(seed)
        columns, formula = random_table(chance), chance.choice(formulas)
        path = tmp_path / f"data.{FORMATS[seed % len(FORMATS)]}"
        save_table(columns, path)
        words = ["grad", str(formula), "--at", str(path), *["--delimiter", "tab"] * (path.suffix == ".tsv")]
        found = results_of(run_cli(words), columns, (seed, path.name))
        assert [*found] == ["value", *(f"d_{name}" for name in formula.variables)]
        documents = [json.loads(line) for line in run_cli([*words, "--json"]).splitlines()]
        points = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        for k, (point, document) in enumerate(zip(points, documents, strict=True)):
            value, slopes = formula.value_and_grad({name: point[name] for name in formula.variables})
            expected = [value, *slopes.values()]
            assert [float(cells[k]) for cells in found.values()] == pytest.approx(expected, rel=4e-16, abs=0), seed
            written = [document["value"], *document["gradient"].values()]
            assert written == [float(cells[k]) for cells in found.values()], seed


MODELS = [
    "y ~ a*exp(-b*x) + c",
    "y ~ a[g] + b*x",
    "log(y) ~ a + b*x",
    "[y, z] ~ mlp(x, [2])",
    "g ~ softmax(dense(x, 2))",
]


def test_predictions_stand_beside_all_columns_of_the_data(tmp_path: Path) -> None:
    """With every option that adds columns, they are what Python returns, to the last bit."""
    data = {"x": X, "y": 2 * np.exp(-X) + 0.01 * np.sin(9 * X), "z": -X, "g": ["A", "B"] * 6}
    fits = [ad.fit(model, data, epochs=20) for model in MODELS]
    bands = ("confidence_low", "confidence_high", "prediction_low", "prediction_high")
    for seed in range(amount(24, 60, 500)):
        chance = Random(seed)
        columns, fit = random_table(chance), chance.choice(fits)
        model, path, output = (tmp_path / n for n in ("m.json", f"data.{FORMATS[seed % len(FORMATS)]}", "out.csv"))
        fit.save(model)
        save_table(columns, path)
        is_classifier, targets = fit.classes is not None, len(fit.targets)
        options = [["--probabilities"], []] if is_classifier else [["--residuals"], ["--interval", "0.9"], []]
        words = chance.choice(options if targets == 1 else [[], ["--residuals"]])
        delimiter = ["--delimiter", "tab"] * (path.suffix == ".tsv")
        done = run_cli(["predict", str(model), str(path), "-o", str(output), *words, *delimiter])
        assert (done.status, done) == (0, ""), done.stderr
        found = results_of(output.read_bytes().decode(), columns, (seed, path.name))
        inputs = {name: columns[name] for name in "xyzg"}
        predicted = np.reshape(fit.predict(inputs), (-1, targets)).T
        names = ["prediction"] if targets == 1 else ["prediction_y", "prediction_z"]
        expected: dict[str, Any] = dict(zip(names, predicted, strict=True))
        if "--probabilities" in words:
            expected |= dict(zip([*found][1:], fit.probabilities(inputs).T, strict=True))
            assert [*found][1:] == [f"probability_{label}" for label in "AB"]
        elif "--residuals" in words:
            names = ["residual"] if targets == 1 else ["residual_y", "residual_z"]
            expected |= dict(zip(names, np.reshape(fit.residuals(inputs), (-1, targets)).T, strict=True))
        elif words:
            table = fit.predict(inputs, interval=0.9)
            expected |= {name: getattr(table, name) for name in bands}
        assert {*found} == {*expected}, seed
        for name, cells in found.items():
            assert [type(x)(c) for c, x in zip(cells, expected[name].tolist(), strict=True)] == expected[name].tolist()

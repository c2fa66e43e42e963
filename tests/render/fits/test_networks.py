"""Layers, confusion tables and diagnoses on paper."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest

from autodiff_cli.render.fit import MAX_CLASSES, diagnosis_document, layers_table, write_confusion, write_diagnosis
from autodiff_cli.render.formatting import number_formats
from autodiff_cli.render.report import Paper, TerminalPaper
from autodiff_cli.training.result.diagnosis import Diagnosis, LayerGradients, LayerUnits

BRIEF = number_formats(None)[1]


def confusion(classes: list[object], counts: list[list[int]]) -> list[list[str]]:
    stream = io.StringIO()
    write_confusion(Paper(stream), classes, np.array(counts))
    return [line.split() for line in stream.getvalue().splitlines()]


def diagnosis(found: Diagnosis) -> str:
    stream = io.StringIO()
    write_diagnosis(Paper(stream), found)
    return stream.getvalue()


def test_a_layer_is_one_row_with_its_shapes_numbers_and_norm() -> None:
    values = {
        "mlp.0.weight": np.array([[3.0, 0.0], [0.0, 0.0], [0.0, 0.0]]),
        "mlp.0.bias": np.array([0.0, 4.0, 0.0]),
        "W": np.ones((4, 4)),
    }
    table = layers_table(values, {"mlp.0.bias"}, BRIEF)
    assert {*table.rows} == {("mlp.0", "weight 3x2, bias 3 (fixed)", "9", "5"), ("W", "4x4", "16", "4")}


def test_layers_stand_in_the_order_of_their_numbers() -> None:
    values = {f"mlp.{k}.bias": np.ones(2) for k in (0, 10, 2, 1)}
    assert [row[0] for row in layers_table(values, (), BRIEF).rows] == ["mlp.0", "mlp.1", "mlp.2", "mlp.10"]


def test_a_confusion_table_has_true_classes_down() -> None:
    lines = confusion(["cat", "dog"], [[5, 1], [0, 7]])
    assert lines[-3:] == [["cat", "dog"], ["cat", "5", "1"], ["dog", "0", "7"]]


def test_of_many_classes_only_the_worst_mistakes_are_shown() -> None:
    count = MAX_CLASSES + 1
    counts = np.eye(count, dtype=int) * 9
    counts[3, 5], counts[5, 3], counts[0, 20] = 2, 8, 1
    lines = confusion([*range(count)], counts.tolist())
    assert lines[-3:] == [["5", "3", "8"], ["3", "5", "2"], ["0", "20", "1"]]
    everything = confusion([*range(count)], np.ones((count, count), dtype=int).tolist())
    assert len(everything) < 20
    assert "410 more" in " ".join(everything[-1])


def test_a_table_that_does_not_fit_the_terminal_is_a_list_too() -> None:
    stream = io.StringIO()
    labels = [f"a rather long label {k}" for k in range(5)]
    write_confusion(TerminalPaper(stream, 60, colour=False), labels, np.ones((5, 5), dtype=int))
    assert "predicted as" in stream.getvalue()
    assert all(len(line) <= 60 for line in stream.getvalue().splitlines())


@pytest.mark.parametrize("width", [None, 40, 200])
def test_a_label_gives_a_terminal_no_orders(width: int | None) -> None:
    stream = io.StringIO()
    paper = Paper(stream) if width is None else TerminalPaper(stream, width, colour=False)
    write_confusion(paper, ["v\x1b[31m", "w\x1b]0;title\x07"], np.ones((2, 2), dtype=int))
    assert "\\x1b[31m" in stream.getvalue()
    assert not {"\x1b", "\x07"} & {*stream.getvalue()}


def test_a_healthy_network_is_reported_as_healthy() -> None:
    healthy = Diagnosis(
        (LayerUnits("mlp.0", "relu", 8, 0, 0),), (LayerGradients("mlp.0", 0.5, 0.1), LayerGradients("mlp.1", 0.4, 0.1))
    )
    assert "healthy" in diagnosis(healthy)
    assert re.search(r"mlp.0 +8 relu +none", diagnosis(healthy))
    assert diagnosis_document(healthy)["problems"] == []


def test_every_problem_comes_with_what_to_do() -> None:
    sick = Diagnosis(
        (LayerUnits("mlp.0", "relu", 8, 3, 0), LayerUnits("mlp.1", "tanh", 8, 0, 8)),
        (LayerGradients("mlp.0", 1e-9, 1e9), LayerGradients("mlp.1", 1.0, 1.0)),
    )
    text = diagnosis(sick)
    assert re.search(r"mlp.0 +8 relu +3 dead", text)
    assert re.search(r"mlp.1 +8 tanh +8 saturated", text)
    assert "3 of 8 units are dead" in text
    assert "8 of 8 units are saturated" in text
    assert "at the start the gradient is only 1e-09, but 1 in the last layer" in text
    assert "at the end the gradient is 1e+09, but 1 in the last layer" in text
    for name in ("dead units", "saturated units", "vanishing gradients", "exploding gradients"):
        assert text.count(f"to avoid {name}, try: ") == 1
    kinds = [problem["kind"] for problem in diagnosis_document(sick)["problems"]]
    assert kinds == ["dead", "saturated", "vanishing", "exploding"]


def test_of_layers_with_one_problem_the_first_is_named() -> None:
    names = [f"mlp.{k}" for k in range(4)]
    vanishing = Diagnosis((), tuple(LayerGradients(name, 10.0 ** (4 * k - 12), 1.0) for k, name in enumerate(names)))
    assert [problem["layer"] for problem in diagnosis_document(vanishing)["problems"]] == names[:3]
    assert "mlp.0: at the start the gradient is only" in diagnosis(vanishing)
    assert not any(f"{name}: " in diagnosis(vanishing) for name in names[1:])


def test_a_model_without_layers_has_nothing_to_examine() -> None:
    assert "no layers" in diagnosis(Diagnosis((), ()))

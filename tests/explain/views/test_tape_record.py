"""What the backward pass needs is read from the rules."""

from __future__ import annotations

import re

import pytest

from autodiff_cli.explain.tracing import trace
from autodiff_cli.explain.views import TapeRecord
from autodiff_cli.expression import parse
from tests.each import each
from tests.support import run_cli

# fmt: off
SAVED = [
    ("x + y",              []),
    ("x*y",                ["x", "y"]),
    ("x*2",                []),
    ("sin(x)",             ["x"]),
    ("exp(x)",             ["exp(x)"]),
    ("sqrt(x)",            ["sqrt(x)"]),
    ("x/y",                ["x", "y"]),
    ("x/3",                []),
    ("relu(x)",            ["x"]),
    ("max(x, y)",          ["max(x, y)", "x", "y"]),
    ("floor(x)",           []),
]
# fmt: on


@pytest.mark.parametrize(("text", "saved"), SAVED)
def test_an_operation_keeps_what_its_rule_reads(text: str, saved: list[str]) -> None:
    expression = parse(text)
    found = trace(expression, dict.fromkeys(expression.variables, 2.0))
    last = TapeRecord(found).entries[-1]
    assert sorted(found.labels[j] for j in last.saved) == sorted(saved)


@each("text", ["tanh(2)*x", "sigmoid(y)*x", "x + softplus(y)^2", "max(x, logsigmoid(y))", "sum([x, tanh(y)])"])
def test_an_operation_through_which_no_gradient_passes_keeps_nothing(text: str) -> None:
    expression = parse(text)
    found = trace(expression, dict.fromkeys(expression.variables, 2.0), ["x"])
    record = TapeRecord(found)
    without = [entry for entry in record.entries if found.adjoints[entry.node] is None]
    assert without
    assert [entry.saved for entry in without] == [()] * len(without)


def test_a_value_that_several_operations_keep_is_stored_once() -> None:
    record = TapeRecord(trace(parse("sin(x)*cos(x)"), {"x": 1.0}))
    assert [entry.bytes for entry in record.entries] == [8, 0, 16]
    assert (record.bytes, record.computed, record.peak_without_checkpoints) == (24, 24, 16)


def test_arrays_count_all_their_elements_and_a_sum_keeps_none() -> None:
    record = TapeRecord(trace(parse("W: 2x3; sum(tanh(W @ x))"), {"W": [[1.0] * 3] * 2, "x": [1.0] * 3}))
    assert [(entry.op.name, entry.bytes) for entry in record.entries] == [("matmul", 72), ("tanh", 16), ("sum", 0)]


def test_checkpoints_trade_memory_for_operations_done_again() -> None:
    record = TapeRecord(trace(parse("sin(" * 64 + "x" + ")" * 64), {"x": 1.0}))
    assert record.peak_without_checkpoints == 63 * 8
    eight = next(chosen for chosen in record.checkpoints if chosen.every == 8)
    # Seven values cross a border, and the fullest stretch adds the other seven that its own backward pass reads.
    assert (eight.stretches, eight.kept, eight.peak) == (8, 7 * 8, 14 * 8)
    assert eight.recomputed == 7 * 7


@pytest.mark.parametrize("text", ["x", "2", "sin(x)"])
def test_a_formula_too_short_for_checkpoints_has_none(text: str) -> None:
    expression = parse(text)
    assert TapeRecord(trace(expression, dict.fromkeys(expression.variables, 1.0))).checkpoints == []


def test_the_table_of_checkpoints_has_the_numbers_of_the_document() -> None:
    formula = " + ".join(f"exp({k}*x)" for k in range(1, 16))
    command = ["trace", formula, "--x", "0.1", "--tape"]
    document = run_cli([*command, "--json"]).json
    table = run_cli(command).partition("\ncheckpoints: ")[2]
    rows = [[int(number) for number in re.findall(r"\d+", line)] for line in table.splitlines()[3:-1]]
    count, names = len(document["tape"]), ("every", "stretches", "kept", "peak", "saved", "recomputed")
    assert rows == [[*(each[name] for name in names), count] for each in document["checkpoints"]]
    peak = {each["peak"] + each["saved"] for each in document["checkpoints"]}
    assert table.rstrip().endswith(f"Without checkpoints: {peak.pop()} B for {count} operations, not counting inputs.")
    assert not peak

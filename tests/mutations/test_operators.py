"""Mutations are drawn by a seed from the whole package, can be made, and are not in the list of equivalent ones."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.mutations.__main__ import Calls, callers
from tests.mutations.operators import OPERATORS, PACKAGE, draw, mutations_of, stale_entries
from tests.support import ROOT

COUNT = 300


@pytest.mark.exhaustive
def test_mutations_of_all_kinds_can_be_made() -> None:
    drawn = draw(ROOT, COUNT, seed=1)
    part = "autodiff_cli/graph/op"
    assert draw(ROOT, COUNT, 1, part) == draw(ROOT, COUNT, 1, part) != draw(ROOT, COUNT, 2, part)
    assert set(Counter(mutation.operator for mutation in drawn)) == set(OPERATORS)
    assert len({mutation.file for mutation in drawn}) > COUNT / 4
    for mutation in drawn[::40]:
        source = (ROOT / mutation.file).read_bytes()
        broken = mutation.apply(source)
        assert ast.dump(ast.parse(broken)) != ast.dump(ast.parse(source)), mutation


def test_operators_by_example() -> None:
    source = b"""
MOST_ROWS = 63  # a budget
class RowSettings:
    rows: int = 98  # another
def f(x, n: int = 2):
    assert n > 2, "no result depends on it"
    if x <= 0 and n:
        raise ValueError
    while x < 0.3 or n < len(x) or len(y) + len(z) < MOST_ROWS:
        x, n = g(1e-9, 0.2, 200, ulp_bound=8), 64
    x = x.reshape(-1, 5)[:MOST_ROWS] + n[: SETTINGS.rows]
    return -x*3 + len(n)
"""
    changes = {f"{mutation.old} -> {mutation.new}" for mutation in mutations_of(source, "f.py")}
    assert changes >= {
        "<= -> <", "2 -> 3", "x <= 0 and n -> ((n))", "raise ValueError -> pass", "-x -> (x)", "* -> /", "+ -> -",
        "-x*3 + len(n) -> (len(n))", "len(n) -> (len(n)) - 1", "3 -> 4", "< -> >=", "< -> <=", "1e-9 -> 1e-06",
        "0.2 -> 0.4", "200 -> 20", "8 -> 0", "64 -> 65",
    }  # fmt: skip
    assert changes.isdisjoint({"> -> >=", "> -> <=", "63 -> 64", "98 -> 99", "8 -> 9", "-1 -> (1)", "1 -> 2"})
    assert changes.isdisjoint({"len(y) -> (len(y)) - 1", "len(z) -> (len(z)) + 1"})
    assert changes.isdisjoint({"MOST_ROWS -> (MOST_ROWS) + 1", "SETTINGS.rows -> (SETTINGS.rows) + 1"})


@pytest.mark.slow
def test_equivalent_mutations_are_still_there() -> None:
    assert [*stale_entries(ROOT)] == []


def test_the_quickest_tests_of_a_function_come_first() -> None:
    source = b"def f(x):\n    return x + 1\n"
    (mutation, *_) = mutations_of(source, "f.py")
    calls = {
        "a.py::slow": Calls(3.0, frozenset({"f.py:f"})),
        "a.py::quick": Calls(1.0, frozenset({"f.py:f", "g.py:g"})),
        "a.py::longest": Calls(9.0, frozenset({"f.py:f"})),
        "a.py::other": Calls(0.1, frozenset({"f.py:<module>", "g.py:f"})),
        "a.py::marked": Calls(0.2, frozenset({"f.py:f"}), is_slow=True),
    }
    assert callers(mutation, calls, most_seconds=5) == ["a.py::quick", "a.py::slow", "a.py::marked"]


def test_what_runs_at_import_is_tried_by_the_tests_of_its_folder_and_of_its_file() -> None:
    source = b"LIMITS = {'a': 1}\n\ndef table():\n    return -1\n"
    quick, slow, other = "tests/f/a.py::quick", "tests/f/a.py::slow", "tests/mutations/test_operators.py::other"
    calls = {
        slow: Calls(3.0, frozenset({f"{PACKAGE}/f/g.py:table"})),
        quick: Calls(1.0, frozenset()),
        other: Calls(0.5, frozenset({f"{PACKAGE}/f/f.py:f"})),
        f"{other}s": Calls(0.1, frozenset({f"{PACKAGE}/f/f.py:<module>"})),
    }
    for mutation in mutations_of(source, f"{PACKAGE}/f/f.py"):
        assert callers(mutation, calls, most_seconds=5) == [quick, slow, other]
    importing = {f"{PACKAGE}/f/f.py:table", f"{PACKAGE}/f/f.py:<module>"}
    calls[f"{other}s"] = Calls(0.1, frozenset(importing))  # the first test that imports the file calls what builds it
    for mutation in mutations_of(source, f"{PACKAGE}/f/f.py"):
        assert set(callers(mutation, calls, most_seconds=5)) >= {quick, slow, f"{other}s"}


@pytest.mark.slow
def test_functions_that_a_process_calls_are_recorded(tmp_path: Path) -> None:
    startup = ROOT / "tests" / "mutations" / "startup"
    environment = {**os.environ, "PYTHONPATH": str(startup), "RECORDED_CALLS": str(tmp_path)}
    subprocess.run([sys.executable, "-c", "import json; json.dumps(1)"], env=environment, check=True)
    (record,) = tmp_path.iterdir()
    assert f"{json.__file__}\tdumps" in record.read_text(encoding="utf-8").splitlines()

"""Commands in an installation that has only Typer, Rich and Lark: they work, or say in one line what to install."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import io, json, sys
sys.modules.update(dict.fromkeys(("numpy", "pyarrow", "llvmlite", "flint", "graphlay", "plotille")))
from autodiff_cli.cli.environment import Environment
from autodiff_cli.cli.main import run
results = []
for words in json.load(sys.stdin):
    stdout, stderr = io.StringIO(), io.StringIO()
    status = run(words, Environment(io.StringIO(), stdout, stderr))
    results.append([int(status), stdout.getvalue(), stderr.getvalue()])
print(json.dumps(results))
"""

WORKING = [
    ["grad", "x*y + sin(x)", "--x", "2", "--y", "3"], ["grad", "x^2"], ["grad", "x^2", "--x", "3", "--order", "3"],
    ["grad", "x^2", "--x", "3", "--json"], ["grad", "x^2", "--x", "3", "--mode", "forward"],
    ["trace", "x*y", "--x", "2", "--y", "3"], ["trace", "x*y", "--x", "2", "--y", "3", "--format", "latex"],
    ["trace", "x*y", "--x", "2", "--y", "3", "--paths"], ["ops"], ["ops", "sin"], ["lesson"], ["lesson", "chain"],
    ["export", "where(x > 0, sqrt(x), 5*x)", "--to", "jax"], ["export", "gamma(x)^y", "--to", "c"], ["doctor"],
]  # fmt: skip
REFUSED = {
    "numpy": [
        ["train", "y ~ a*x", "data.csv"], ["data", "data.csv"], ["grad", "x^2", "--x", "3", "--hessian"],
        ["grad", "sum(v)", "--v", "[1, 2]"], ["export", "v: 3; sum(v)", "--to", "c"],
    ],
    "python-flint": [
        ["grad", "x", "--x", "1e-400"], ["grad", "x^2", "--x", "1..2"], ["check", "x^2", "--x", "3"],
        ["grad", "x^2", "--x", "3", "--precision", "50"],
    ],
    "graphlay": [["trace", "x*y", "--x", "2", "--y", "3", "--format", "svg"]],
}  # fmt: skip


@pytest.fixture(scope="module")
def results() -> dict[str, tuple[int, str, str]]:
    lost = ["grad", "(1 - cos(x))/x^2", "--x", "1e-8", "--json"]
    commands = [*WORKING, lost, *(words for several in REFUSED.values() for words in several)]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=json.dumps(commands), capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    return {" ".join(words): tuple(result) for words, result in zip(commands, found, strict=True)}


@pytest.mark.slow
def test_scalar_commands_work(results: dict[str, tuple[int, str, str]]) -> None:
    for words in WORKING:
        status, stdout, _ = results[" ".join(words)]
        assert status == 0, words
        assert stdout, words


def test_other_commands_name_the_package_and_how_to_install_it(results: dict[str, tuple[int, str, str]]) -> None:
    for package, several in REFUSED.items():
        for words in several:
            message = f"error: this needs {package}, which is not installed: pip install {package}\n"
            assert results[" ".join(words)] == (2, "", message)


def test_lost_digits_are_said_though_the_correct_ones_are_unknown(results: dict[str, tuple[int, str, str]]) -> None:
    status, stdout, _ = results["grad (1 - cos(x))/x^2 --x 1e-8 --json"]
    (warning,) = json.loads(stdout)["warnings"]
    assert status == 0
    assert warning["right"] == {"value": "unknown", "x": "unknown"}
    assert "pip install python-flint" in warning["message"]

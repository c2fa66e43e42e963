"""Drawings, read by the programs that others read them with: libxml2 for SVG, Graphviz for DOT."""

from __future__ import annotations

import subprocess

import pytest

from tests.each import each
from tests.support import run_cli
from tests.tools import program

FORMULAS = [
    ["x*y + sin(x)", "--x", "2", "--y", "3"],
    ["x # \"quotes\" 'and' </style></svg><script>&amp; ]]> <!-- -->", "--x", "2"],
    ['x*y + # \\ \\N \\" \u202e\u2066 \x1b[31m \x07 \ufffe\ufeff `${x}`\n 1', "--x", "2", "--y", "3"],
    ["λ₁*变量 + θ_0^2", "--λ₁", "2", "--变量", "3", "--θ_0", "4"],
    ["node + edge*graph", "--node", "1", "--edge", "2", "--graph", "3"],
    ["a = log(x); b = a^2; max(a, b) - sqrt(-x)", "--x", "0", "--highlight", "x"],
    ["f(t) = sin(t)^2; g(subgraph) = f(subgraph)*subgraph; end = g(x) + g(x*y); end*x", "--x", "2", "--y", "3"],
    ["relu(W @ x + b)[0] * exp(800)", "--W", "[[1, 2], [3, 4]]", "--x", "[1, 2]", "--b", "[0, 1]"],
    ["mlp(x, [3, 2])^2", "--x", "1"],
]
VIEWS = [[], ["--fold"], ["--hide-constants"]]
# fmt: off
WEIGHTS = {
    "mlp.0.weight": "[[1], [2], [3]]", "mlp.0.bias": "[0, 0, 0]",
    "mlp.1.weight": "[[1, 2, 3], [4, 5, 6]]", "mlp.1.bias": "[0, 0]",
    "mlp.2.weight": "[[1, 2]]", "mlp.2.bias": "[0]",
}
# fmt: on


def drawn(words: list[str], view: list[str], form: str) -> bytes:
    more = [f"--set={name}={value}" for name, value in WEIGHTS.items()] if words[0].startswith("mlp") else []
    output = run_cli(["trace", *words, *more, *view, "--format", form])
    assert output.stderr == ""
    return output.encode()


@pytest.mark.slow
@each("view", VIEWS, ids=" ".join)
@each("words", FORMULAS, ids=lambda words: ascii(words[0][:20]))
def test_libxml2_reads_the_svg(words: list[str], view: list[str]) -> None:
    xmllint = program("xmllint", "libxml2-utils")
    checked = subprocess.run([xmllint, "--noout", "-"], input=drawn(words, view, "svg"), capture_output=True)
    assert (checked.returncode, checked.stderr) == (0, b"")


@pytest.mark.slow
@each("view", VIEWS, ids=" ".join)
@each("words", FORMULAS, ids=lambda words: ascii(words[0][:20]))
def test_graphviz_draws_the_dot(words: list[str], view: list[str]) -> None:
    dot = program("dot", "graphviz")
    image = subprocess.run([dot, "-Tsvg"], input=drawn(words, view, "dot"), capture_output=True)
    assert (image.returncode, image.stderr) == (0, b"")
    edges = image.stdout.count(b'class="edge"')
    assert edges == drawn(words, view, "dot").count(b" -> ")


def test_graphviz_frames_what_the_text_names() -> None:
    dot = program("dot", "graphviz")
    image = subprocess.run([dot, "-Tsvg"], input=drawn(FORMULAS[6], [], "dot"), capture_output=True).stdout
    assert image.count(b'class="cluster"') == 5

"""Nothing recurses over depth, and nothing grows faster than the text."""

from __future__ import annotations

import pytest

from autodiff_cli.graph.tape import Tape, topological
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.language.lowering import read
from autodiff_cli.language.printer import labels, to_text
from tests.language.compare import identical

N = 100_000


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("x" + "+y*x" * (N // 2), N + 2),
        ("sin(" * N + "x" + ")" * N, N + 1),
        ("(" * N + "x" + ")" * N, 1),
        ("-" * N + "x", N + 1),
        ("+" * N + "x", 1),
        ("not " * N + "x", N + 1),
        ("x" + "^x" * N, N + 1),
        ("x" + "² " * N, 2 * N + 1),
        ("x" + " < x" * N, 2 * N),
        ("max(" + "x," * N + "x)", 2),
        ("a0 = x\n" + "".join(f"a{i} = -a{i - 1}\n" for i in range(1, N)) + f"a{N - 1}", N),
        ("v" + "[0]" * N, 2 * N + 1),
        ("[" + "x, " * N + "x]", 2),
        ("sum(" * N + "x" + ")" * N, N + 1),
        ("(([x])[0])" + "+[x][0]" * (N // 3), 4 * (N // 3) + 4),
        ("x" + " @ x" * N, N + 1),
        ("f0(t) = -t\n" + "".join(f"f{i}(t) = -f{i - 1}(t)\n" for i in range(1, N)) + f"f{N - 1}(x)", N + 1),
    ],
    ids=[
        "sum",
        "calls",
        "brackets",
        "minus",
        "plus",
        "not",
        "power",
        "squares",
        "chain",
        "max",
        "bindings",
        "indices",
        "vector",
        "sums",
        "many vectors",
        "products",
        "functions",
    ],
)
def test_a_hundred_thousand_deep(text: str, nodes: int) -> None:
    program = read(text)
    tape = Tape((program.output,))
    assert len(tape) == nodes
    assert identical(read(to_text(program.output)).output, program.output)
    assert max(map(len, labels(tape.nodes, tape.inputs, {}))) <= 40
    assert program.source.span(program.output) is not None


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("(" * N, N + 1),
        ("x" + ")" * N, 2),
        ("sin(" * N + "x", 4 * N + 2),
        ("-" * N, N + 1),
        ("[" * N, N + 1),
        ("[" * N + "x" + "]" * N, N - 2),
        ("x" + "]" * N, 2),
        ("([" * N + "x", 2 * N + 2),
    ],
)
def test_a_mistake_a_hundred_thousand_deep(text: str, column: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        read(text)
    assert caught.value.column == column
    assert len(str(caught.value)) < 500


def test_a_hundred_layers_are_read_at_the_pace_of_one() -> None:
    program = read("x0 = [x, y]\n" + "".join(f"x{i + 1} = dense(x{i}, 3, tanh)\n" for i in range(1000)) + "sum(x1000)")
    assert len(program.shapes) == 2000
    assert program.shapes["dense.999.weight"] == (3, 3)


def test_a_function_that_doubles_prints_without_doubling() -> None:
    text = "f0(t) = t*t\n" + "".join(f"f{i}(t) = f{i - 1}(t)*f{i - 1}(t + 1)\n" for i in range(1, 12)) + "f11(x)"
    program = read(text)
    assert len(topological((program.output,))) > 2**12
    assert identical(read(to_text(program.output)).output, program.output)

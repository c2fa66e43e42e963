"""Deep expressions do not exhaust the stack, and time and memory grow no faster than the text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autodiff_cli.explain.labels import Labels
from autodiff_cli.graph.tape import Tape, topological_order
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.language.printer import to_text
from autodiff_cli.language.program import read
from tests.language.compare import identical

DEPTHS = [1_100, pytest.param(3_000, marks=pytest.mark.slow)]

# Texts of n operations, and how many nodes they are.
DEEP: dict[str, Callable[[int], tuple[str, int]]] = {
    "sum": lambda n: ("x" + "+y*x" * (n // 2), n + 2),
    "calls": lambda n: ("sin(" * n + "x" + ")" * n, n + 1),
    "brackets": lambda n: ("(" * n + "x" + ")" * n, 1),
    "minus": lambda n: ("-" * n + "x", n + 1),
    "plus": lambda n: ("+" * n + "x", 1),
    "not": lambda n: ("not " * n + "x", n + 1),
    "power": lambda n: ("x" + "^x" * n, n + 1),
    "squares": lambda n: ("x" + "² " * n, 2 * n + 1),
    "chain": lambda n: ("x" + " < x" * n, 2 * n),
    "max": lambda n: ("max(" + "x," * n + "x)", 2),
    "bindings": lambda n: ("a0 = x\n" + "".join(f"a{i} = -a{i - 1}\n" for i in range(1, n)) + f"a{n - 1}", n),
    "indices": lambda n: ("v" + "[0]" * n, 2 * n + 1),
    "vector": lambda n: ("[" + "x, " * n + "x]", 2),
    "sums": lambda n: ("sum(" * n + "x" + ")" * n, n + 1),
    "many vectors": lambda n: ("(([x])[0])" + "+[x][0]" * (n // 3), 4 * (n // 3) + 4),
    "products": lambda n: ("x" + " @ x" * n, n + 1),
    "functions": lambda n: (
        "f0(t) = -t\n" + "".join(f"f{i}(t) = -f{i - 1}(t)\n" for i in range(1, n)) + f"f{n - 1}(x)",
        n + 1,
    ),
}

# Texts that are wrong, and the column at which.
WRONG: dict[str, Callable[[int], tuple[str, int]]] = {
    "open brackets": lambda n: ("(" * n, n + 1),
    "closed brackets": lambda n: ("x" + ")" * n, 2),
    "open calls": lambda n: ("sin(" * n + "x", 4 * n + 2),
    "minus": lambda n: ("-" * n, n + 1),
    "open arrays": lambda n: ("[" * n, n + 1),
    "arrays of arrays": lambda n: ("[" * n + "x" + "]" * n, n - 2),
    "closed arrays": lambda n: ("x" + "]" * n, 2),
    "open pairs": lambda n: ("([" * n + "x", 2 * n + 2),
}


@pytest.mark.sampled
@pytest.mark.parametrize("n", DEPTHS)
@pytest.mark.parametrize("form", DEEP)
def test_deep(form: str, n: int) -> None:
    text, nodes = DEEP[form](n)
    program = read(text)
    tape = Tape((program.output,))
    assert len(tape) == nodes
    assert identical(read(to_text(program.output)).output, program.output)
    assert max(map(len, Labels(tape, {}, None).texts)) <= 40
    assert program.source.span(program.output) is not None


@pytest.mark.parametrize("n", DEPTHS)
@pytest.mark.parametrize("form", WRONG)
def test_a_mistake_deep_down(form: str, n: int) -> None:
    text, column = WRONG[form](n)
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
    assert len(topological_order((program.output,))) > 2**12
    assert identical(read(to_text(program.output)).output, program.output)

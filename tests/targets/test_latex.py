"""What LaTeX shows is what the formula says: it is read back as Python and evaluated."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest

from autodiff_cli import parse
from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.export.languages import export
from autodiff_cli.graph.codegen import Fragment, straight_line_code
from autodiff_cli.graph.node import Node, variable
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.targets.latex import LATEX, LatexLibrary
from autodiff_cli.targets.translation import GraphWriter
from tests.each import each
from tests.targets.test_programs import NESTED, NESTED_POINTS

# Braces and brackets become those of Python, so that `\frac{a}{b}` is a call of a call.
PYTHON = {
    r"\left\lfloor": "floor(", r"\left\lceil": "ceil(", r"\left|": "abs(", r"\left": "", r"\right\rfloor": ")",
    r"\right\rceil": ")", r"\right|": ")", r"\right": "", r"\land": " and ", r"\lor": " or ", r"\lnot": " not ",
    r"\le": "<=", r"\ge": ">=", r"\ne": "!=", r"\bmod": "%", r"\cdot": "*", r"\,": "*", r"\frac": "fraction",
    r"\ln": "ln", r"\sqrt[3]": "cube_root", r"\sqrt[": "any_root[", r"\sqrt": "math.sqrt", "^{": "**(", "[": "number(",
    "]": ")", "{": "(", "}": ")", "=": "==", r"\log_(": "logarithm(", r"\sin": "math.sin",
    r"\tau": "math.tau", r"\pi": "math.pi",
}  # fmt: skip
NAMES = {
    "math": math, "floor": math.floor, "ceil": math.ceil, "fraction": lambda a: lambda b: a / b, "number": float,
    "cube_root": math.cbrt, "e": math.e, "ln": math.log, "logarithm": lambda b: lambda x: math.log(x, b),
}  # fmt: skip


def evaluated(source: str, point: dict[str, float]) -> float:
    source = re.sub(r"\\sqrt\[([^][]+)\]\{(\w+)\}", r"(\2)**(1/(\1))", source)
    pattern = "|".join(map(re.escape, sorted(PYTHON, key=len, reverse=True)))
    text = re.sub(pattern, lambda match: PYTHON[match[0]], source.replace(r"\log_{", "logarithm{"))
    return float(eval(text.strip(), {**NAMES, **point}))


def in_latex(root: Node) -> str:
    leaves = {leaf: Fragment(leaf.text) for leaf in Tape([root]).nodes if leaf.is_input}
    lines = straight_line_code([root], leaves, GraphWriter(LatexLibrary(LATEX)).write, 10_000)
    assert not lines.lines
    return LATEX.coerce(lines.results[0]).text


@pytest.mark.slow
def test_an_operator_within_another_has_the_brackets_that_it_needs() -> None:
    for nested in NESTED:
        leaves = [variable(name) for name in "xyz"[: nested.count]]
        root = nested(*leaves)
        source = in_latex(root)
        for numbers in NESTED_POINTS[:3]:  # the last divides by 0
            point = dict(zip("xyz", numbers, strict=True))
            expected = forward(Tape([root]), FLOATS, {leaf.text: point[leaf.text] for leaf in leaves})[-1]
            if math.isfinite(expected):
                assert evaluated(source, point) == pytest.approx(expected, rel=1e-12), (nested.name, source, point)


@each("text", ["{} + y", "y - {}", "{}*y", "y*{}", "-{}", "{}^2", "{} % y", "sin({})"])
def test_a_choice_within_another_operation_has_brackets(text: str) -> None:
    """Otherwise what follows it would read as a part of its last row."""
    source = in_latex(parse(text.format("where(x > 1, x^2, 3*x)")).output)
    assert re.search(r"\\left\(\\begin\{cases\}.*\\end\{cases\}\\right\)", source), source


@each(
    "text, function",
    [
        ("root(x, y)", lambda x, y: x ** (1 / y)),
        ("log(x, y)", lambda x, y: math.log(x) / math.log(y)),
        ("cbrt(x) + y", lambda x, y: x ** (1 / 3) + y),
        ("x*2*y + 3*x", lambda x, y: 2 * x * y + 3 * x),
        ("abs(x - y)*floor(x)", lambda x, y: abs(x - y) * math.floor(x)),
        ("exp(-(x + y))/ceil(y)", lambda x, y: math.exp(-x - y) / math.ceil(y)),
        ("ln(x)/sqrt(y)", lambda x, y: math.log(x) / math.sqrt(y)),
        ("-sin(x)^2 - (x - (y - 1))", lambda x, y: -(math.sin(x) ** 2) - (x - y + 1)),
    ],
)
def test_functions_with_notations_of_their_own(text: str, function: Callable[[float, float], float]) -> None:
    source = in_latex(parse(text).output)
    for x, y in ((2.5, 1.7), (7.2, 3.4)):
        assert evaluated(source, {"x": x, "y": y}) == pytest.approx(function(x, y), rel=1e-12), source


def test_a_number_after_a_factor_is_told_from_the_digits_before_it() -> None:
    for text in ("2*3*x", "x*2", "2*x*0.5*y", "(x + 1)*4"):
        assert not re.search(r"\\,\s*\d", export(parse(text), "latex")), text


def test_products_keep_the_brackets_of_their_second_factor() -> None:
    found = in_latex(parse("v: 2; w: 2; a*(b*sum(v)) + dot(v, b*w)").output)
    assert found == r"a \, \left(b \, \left(\sum v\right)\right) + v^{\mathsf{T}} \, \left(b \, w\right)"

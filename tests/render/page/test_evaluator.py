"""What the evaluator of a page is made of, and its numbers in Node; `tests/browser/test_evaluator.py` has more."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import numpy as np
import pytest

from autodiff_cli.explain.tracing import trace
from autodiff_cli.expression import Expression, parse
from autodiff_cli.graph.codegen import Fragment, straight_line_code
from autodiff_cli.graph.node import Node, Op, get_op, variable
from autodiff_cli.numbers.arrays import STRUCTURAL
from autodiff_cli.numbers.translation import Library
from autodiff_cli.ops import all_ops
from autodiff_cli.render.javascript import evaluator, javascript_declarations, page_file
from autodiff_cli.targets.languages import JAVASCRIPT
from autodiff_cli.targets.translation import GraphWriter
from tests.browser.test_evaluator import ARRAYS, POINTS, bound_of, computed, differences, expression
from tests.each import amount, each
from tests.graphs import ELEMENTWISE
from tests.support import ROOT
from tests.tools import program

TRANSLATED = [op for op in all_ops() if not op.is_structural]


@each("op", TRANSLATED, ids=lambda op: op.name, sampled=True)
def test_javascript_has_every_operation_and_its_rule(op: Op) -> None:
    for count in range(op.min_inputs, (op.max_inputs or max(op.min_inputs, 3)) + 1):
        pen, rule = GraphWriter(Library(JAVASCRIPT)), op.derivative_rule(count)
        words = pen.lower([op(*rule.inputs), *(partial.local for partial in rule.partials)])
        names = {place: Fragment(place.text) for place in (rule.output, *rule.inputs)}
        assert len(straight_line_code(words, names, pen.write).results) == 1 + count


def test_javascript_has_every_operation_on_arrays() -> None:
    assert [name for name in STRUCTURAL if name not in javascript_declarations("arrays.js")] == []


class NodePage:
    """Runs JavaScript as a page of a browser does."""

    def evaluate(self, function: str, argument: str) -> str:
        script = f'process.stdout.write(({function})(require("fs").readFileSync(0, "utf8")))'
        command = [program("node", "nodejs"), "-e", script]
        return subprocess.run(command, input=argument, stdout=subprocess.PIPE, text=True, check=True).stdout


def test_node_computes_the_numbers_of_traces() -> None:
    """Values, adjoints and contributions of every operation, and of formulas with arrays."""
    cases = [(trace(parse(text), point), (1e-13, 1e-15)) for text, point in ARRAYS]
    for op in TRANSLATED:
        for point in POINTS.get(op.name, ())[0 if op.name == "round" else -amount(1, 2, 4) :]:
            leaves = [variable(f"x{k}") for k in range(len(point))]
            named = {leaf.text: x for leaf, x in zip(leaves, point, strict=True)}
            cases.append((trace(expression(op(*leaves), leaves), named), bound_of(op)))
    page: Any = NodePage()
    found = computed(page, [(at, [at.point]) for at, _ in cases])
    for (at, bound), (result,) in zip(cases, found, strict=True):
        assert differences(result, at, bound) == [], at.expression


def test_files_of_primitives_are_whole() -> None:
    folder = ROOT / "autodiff_cli/render/page/primitives"
    for file in sorted(path.name for path in folder.glob("*.js")):
        text = page_file(f"page/primitives/{file}")
        assert "".join("".join(javascript_declarations(file).values()).split()) == "".join(text.split())


@pytest.mark.slow
@each("has_arrays", [False, True])
def test_no_two_declarations_have_one_name(has_arrays: bool) -> None:
    x = variable("x")
    counts = [(op, k) for op in ELEMENTWISE for k in range(op.min_inputs, (op.max_inputs or max(op.min_inputs, 3)) + 1)]
    total = add_up([op(*[x] * count) for op, count in counts])
    f = Expression(get_op("sum")(total), {"x": x}, shapes={"x": (2,)}) if has_arrays else Expression(total, {"x": x})
    text = evaluator(trace(f, {"x": [1.0, 2.0] if has_arrays else 1.0}))
    names = re.findall(r"^(?:const|function) ([$\w]+)", text, re.MULTILINE)
    assert len(names) > 200
    assert len({*names}) == len(names)


def add_up(nodes: list[Node]) -> Node:
    total = nodes[0]
    for node in nodes[1:]:
        total = total + node
    return total


def test_a_page_carries_only_what_its_formula_needs() -> None:
    text = evaluator(trace(parse("x*y + tanh(x)"), {"x": 1, "y": 2}))
    assert len(text) < 7000
    assert "erfc" not in text
    assert "lift" not in text
    assert len(evaluator(trace(parse("sum(W @ x)"), {"W": np.ones((2, 2)), "x": [1, 2]}))) < 15000

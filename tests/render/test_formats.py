"""One record, many formats: the numbers in the report and in the page are those of the JSON."""

from __future__ import annotations

import io
import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.explain.record import Trace
from autodiff_cli.explain.tracing import trace
from autodiff_cli.expression import Expression
from autodiff_cli.graph.node import Node
from autodiff_cli.render.html_page import to_html
from autodiff_cli.render.report import Paper, dumps
from autodiff_cli.render.trace import trace_document, trace_report
from tests.graphs import graphs

POINTS = st.fixed_dictionaries(dict.fromkeys("xyz", st.sampled_from([0.0, 1.0, -1.0, 0.5, 2.0, -3.25, 800.0])))
DATA = re.compile(r'<script type="application/json"[^>]*>(.*?)</script>', re.DOTALL)


def traced(graph: tuple[Node, list[Node]], point: dict[str, float]) -> Trace:
    output, leaves = graph
    return trace(Expression(output, {leaf.text: leaf for leaf in leaves}), point)


def same(number: Any) -> Any:
    """A number in a form in which equal ones compare equal, nan too."""
    return None if number is None else repr(float(number))


@given(graphs(), POINTS)
def test_the_numbers_of_the_report(graph: tuple[Node, list[Node]], point: dict[str, float]) -> None:
    found = traced(graph, point)
    document = json.loads(dumps(trace_document(found)))
    sheet = io.StringIO()
    trace_report(found).write(Paper(sheet, 17))
    forward, backward = (
        re.findall(r"^  \d+\. .*$", part, re.MULTILINE) for part in sheet.getvalue().split("backward pass:")
    )
    values = [same(step["value"]) for step in document["forward"]]
    assert len(forward) == len(values)
    for line, value in zip(forward, values, strict=True):
        if " = " in line:  # of a comparison the report says whether it holds
            assert same(line.rsplit(" = ", 1)[1]) == value
    adjoints = [same(re.findall(r", adjoint (\S+): ", line)[0]) for line in backward]
    assert adjoints == [same(step["adjoint"]) for step in document["backward"]]
    slopes = dict(re.findall(r"^  d/d(\w) = (\S+)$", sheet.getvalue(), re.MULTILINE))
    assert {name: same(slope) for name, slope in slopes.items()} == {
        name: same(slope) for name, slope in document["gradient"].items()
    }


@given(graphs(), POINTS)
def test_the_numbers_of_the_page(graph: tuple[Node, list[Node]], point: dict[str, float]) -> None:
    found = traced(graph, point)
    document = json.loads(dumps(trace_document(found)))
    (written,) = DATA.findall(to_html(found))
    nodes = json.loads(written)["nodes"]
    assert [(same(node["value"]), same(node["adjoint"])) for node in nodes] == [
        (same(node["value"]), same(node["adjoint"])) for node in document["nodes"]
    ]
    for step in document["backward"]:
        assert [
            (entry["to"], same(entry["local"]), same(entry["amount"])) for entry in nodes[step["node"]]["contributions"]
        ] == [(given_["to"], same(given_["local"]), same(given_["amount"])) for given_ in step["contributions"]]

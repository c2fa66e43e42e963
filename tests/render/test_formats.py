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
from autodiff_cli.explain.views import TapeRecord
from autodiff_cli.expression import Expression, parse
from autodiff_cli.graph.node import Node
from autodiff_cli.render.html_page import to_html
from autodiff_cli.render.report import Paper, Report, dumps
from autodiff_cli.render.trace import tape_report, trace_document, trace_report
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


def written(report: Report) -> str:
    sheet = io.StringIO()
    report.write(Paper(sheet, 6))
    return sheet.getvalue()


def test_an_array_is_drawn_where_it_is_first_used() -> None:
    found = trace(parse("sum(x) + sum(x*x) + sum(x*sin(x))"), {"x": [k / 7 for k in range(40)]})
    forward = written(trace_report(found)).partition("backward pass:")[0]
    assert len(re.findall(r"^ +x +\|", forward, re.MULTILINE)) == 1


def test_the_report_of_a_tape_has_the_checkpoints_of_its_document() -> None:
    report = tape_report(TapeRecord(trace(parse("sin(" * 64 + "x" + ")" * 64), {"x": 1.0})))
    (document,) = report.documents()
    rows = [line.split() for line in written(report).partition("checkpoints")[2].splitlines()]
    for entry in document["checkpoints"]:
        row = next(row for row in rows if row[:2] == [str(entry["every"]), str(entry["stretches"])])
        assert row[-3:] == [str(entry["recomputed"]), "of", "64"]


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

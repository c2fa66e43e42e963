"""Drawings: the numbers are those of the JSON, what users typed is data, roles differ in more than colour."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodiff_cli.explain.record import Trace
from autodiff_cli.explain.tracing import trace
from autodiff_cli.expression import Expression, parse
from autodiff_cli.graph.node import Node
from autodiff_cli.render.drawing import Role, View, box_lines, build_drawing, to_dot, to_mermaid, to_svg
from autodiff_cli.render.formatting import number_formats
from autodiff_cli.render.report import dumps
from autodiff_cli.render.trace import trace_document
from tests.graphs import graphs
from tests.texts import CHARACTERS, grouped_texts

SVG = "{http://www.w3.org/2000/svg}"
POINTS = st.fixed_dictionaries(dict.fromkeys("xyz", st.sampled_from([0.0, 1.0, -1.0, 0.5, 2.0, -3.25, 800.0])))
SHOW = number_formats(17)[1]  # every digit
HOSTILE = 'a = x*y  # "]; </script><b>&amp; \\ `#quot; \u202e \ufffe\na + 1'


def traced(graph: tuple[Node, list[Node]], point: dict[str, float]) -> Trace:
    output, leaves = graph
    return trace(Expression(output, {leaf.text: leaf for leaf in leaves}), point)


def at(text: str, **point: float) -> Trace:
    return trace(parse(text), point)


def as_json(found: Trace) -> Any:
    return json.loads(dumps(trace_document(found)))


def locals_in(document: Any) -> Counter[tuple[int, int, float]]:
    return Counter(
        (given_["to"], step["node"], read(given_["local"]))
        for step in document["backward"]
        for given_ in step["contributions"]
    )


def read(number: Any) -> Any:
    """A number of a document or a drawing, so that equal ones compare equal, nan too."""
    return None if number is None else repr(float(number))


def nodes(svg: str) -> list[ElementTree.Element]:
    return [group for group in ElementTree.fromstring(svg).iter(f"{SVG}g") if "data-node" in group.attrib]


def edges(svg: str) -> list[ElementTree.Element]:
    return [group for group in ElementTree.fromstring(svg).iter(f"{SVG}g") if "data-from" in group.attrib]


@settings(deadline=None)
@given(graphs(), POINTS)
def test_the_numbers_of_an_svg_are_those_of_the_json(graph: tuple[Node, list[Node]], point: dict[str, float]) -> None:
    found = traced(graph, point)
    document, svg = as_json(found), to_svg(build_drawing(found), SHOW)
    drawn = {
        int(group.get("data-node", "")): (read(group.get("data-value")), read(group.get("data-adjoint")))
        for group in nodes(svg)
    }
    assert drawn == {node["id"]: (read(node["value"]), read(node["adjoint"])) for node in document["nodes"]}
    travelled = Counter(
        (int(edge.get("data-from", "")), int(edge.get("data-to", "")), read(edge.get("data-local")))
        for edge in edges(svg)
        if edge.get("data-local") is not None
    )
    assert travelled == locals_in(document)


DOT_NODE = re.compile(r'^ +n(\d+) \[label="((?:[^"\\]|\\.)*)"')
DOT_EDGE = re.compile(r'^  n(\d+) -> n(\d+)(?: \[label="([^"]*)")?')
MERMAID_NODE = re.compile(r'^ +n(\d+)[(\[{/]+"([^"]*)"')
MERMAID_EDGE = re.compile(r'^  n(\d+) [-=]+>(?:\|"([^"]*)"\|)? n(\d+)$')


def said(lines: list[str]) -> tuple[Any, Any]:
    """The value and the adjoint in the lines of a node; the value of a constant may be its label."""
    words = dict(line.split(" ", 1) for line in lines[1:] if " " in line)
    return read(words.get("value", lines[0])), read(words.get("adjoint"))


@settings(deadline=None)
@given(graphs(), POINTS)
def test_the_numbers_of_dot_are_those_of_the_json(graph: tuple[Node, list[Node]], point: dict[str, float]) -> None:
    found = traced(graph, point)
    document, lines = as_json(found), to_dot(build_drawing(found), SHOW).splitlines()
    drawn = {int(m[1]): said(m[2].split("\\n")) for m in map(DOT_NODE.match, lines) if m}
    assert drawn == {node["id"]: (read(node["value"]), read(node["adjoint"])) for node in document["nodes"]}
    travelled = Counter((int(m[1]), int(m[2]), read(m[3])) for m in map(DOT_EDGE.match, lines) if m and m[3])
    assert travelled == locals_in(document)


@settings(deadline=None)
@given(graphs(), POINTS)
def test_the_numbers_of_mermaid_are_those_of_the_json(graph: tuple[Node, list[Node]], point: dict[str, float]) -> None:
    found = traced(graph, point)
    document, lines = as_json(found), to_mermaid(build_drawing(found), SHOW).splitlines()
    drawn = {int(m[1]): said(m[2].split("<br/>")) for m in map(MERMAID_NODE.match, lines) if m}
    assert drawn == {node["id"]: (read(node["value"]), read(node["adjoint"])) for node in document["nodes"]}
    travelled = Counter((int(m[1]), int(m[3]), read(m[2])) for m in map(MERMAID_EDGE.match, lines) if m and m[2])
    assert travelled == locals_in(document)


def test_numbers_are_shown_to_six_digits_and_stored_in_full() -> None:
    svg = to_svg(build_drawing(at("x*y + sin(x)", x=2, y=3)), number_formats(None)[1])
    assert ">adjoint 2.58385<" in svg
    assert 'data-adjoint="2.5838531634528574"' in svg


def test_what_users_type_is_data_in_every_format() -> None:
    drawn = build_drawing(at(HOSTILE, x=2, y=3))
    svg = to_svg(drawn, SHOW)
    ElementTree.fromstring(svg)
    assert "</script>" not in svg
    for text in (svg, to_dot(drawn, SHOW), to_mermaid(drawn, SHOW)):
        assert "\u202e" not in text
        assert "\ufffe" not in text
    dot = to_dot(drawn, SHOW).splitlines()[1]
    assert re.fullmatch(r'  label="(?:[^"\\]|\\.)*";', dot)


@settings(deadline=None)
@given(st.text(st.sampled_from('"\\nb#;\n') | CHARACTERS, max_size=30))
def test_any_label_stays_inside_its_quotes(text: str) -> None:
    found = at("x*y", x=2, y=3)
    found.__dict__["labels"] = [text, "y", text]
    drawn = build_drawing(found)
    ElementTree.fromstring(to_svg(drawn, SHOW).encode())
    assert all(line.count('"') in (0, 2) for line in to_mermaid(drawn, SHOW).splitlines())
    assert len(to_mermaid(drawn, SHOW).splitlines()) == len(
        to_mermaid(build_drawing(at("x*y", x=2, y=3)), SHOW).splitlines()
    )
    label = DOT_NODE.match(to_dot(drawn, SHOW).splitlines()[5])
    assert label is not None
    assert re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), label[2]).split("\n")[0] == drawn.boxes[0].label


def test_roles_differ_in_shape() -> None:
    drawn = build_drawing(at("sin(x)*2", x=1))
    rectangles = [
        [(rect.get("class"), rect.get("rx")) for rect in node.iter(f"{SVG}rect")] for node in nodes(to_svg(drawn, SHOW))
    ]
    assert len({str(shape) for shape in rectangles}) == 4
    dot = re.findall(r"shape=\w+(?:, style=\"[\w,]+\")?(?:, peripheries=2)?", to_dot(drawn, SHOW))
    assert len(set(dot)) == 4
    mermaid = re.findall(r"^  n\d+([(\[/]+)\"", to_mermaid(drawn, SHOW), re.M)
    assert len(set(mermaid)) == 4


def test_the_paths_of_one_variable_stand_out() -> None:
    drawn = build_drawing(at("x*y + sin(x)", x=2, y=3), View(highlight="x"))
    assert [box.label for box in drawn.boxes if not box.is_highlighted] == ["y"]
    assert [(arrow.source, arrow.target) for arrow in drawn.arrows if not arrow.is_highlighted] == [(1, 2)]
    assert to_mermaid(drawn, SHOW).count("==>") == 4
    assert to_svg(drawn, SHOW).count('class="edge highlighted"') == 4


def test_the_cone_of_one_variable() -> None:
    drawn = build_drawing(at("x*y + sin(y)", x=2, y=3), View(only="x"))
    assert [box.label for box in drawn.boxes] == ["x", "x*y", "x*y + sin(y)"]
    assert len(drawn.arrows) == 2


def test_constants_can_be_hidden() -> None:
    found = at("x^-2 + 3*4", x=2)
    assert len(build_drawing(found).boxes) == 8
    assert [box.label for box in build_drawing(found, View(hide_constants=True)).boxes] == ["x", "x^-2", "x^-2 + 3*4"]
    assert [box.label for box in build_drawing(at("2 + 3"), View(hide_constants=True)).boxes] == ["2 + 3"]


FUNCTIONS = "f(t) = sin(t)^2; g(u) = f(u)*u; a = g(x) + g(y); a*x"


def test_named_intermediates_and_calls_are_framed_in_every_format() -> None:
    drawn = build_drawing(at(FUNCTIONS, x=2, y=3))
    mermaid, dot, svg = to_mermaid(drawn, SHOW), to_dot(drawn, SHOW), ElementTree.fromstring(to_svg(drawn, SHOW))
    names = ["a", "g(x)", "f(x)", "g(y)", "f(y)"]
    assert re.findall(r'subgraph g\d+\["(.*)"\]', mermaid) == names
    assert mermaid.count("  end\n") == 5
    assert re.findall(r'subgraph cluster_\d+ \{ label="(.*?)"', dot) == names
    assert dot.count("{") == dot.count("}") == 6
    assert [group.findtext(f"{SVG}title") for group in svg.iter(f"{SVG}g") if group.get("class") == "group"] == names


def test_folding_draws_every_frame_without_the_output_as_one_node() -> None:
    found = at(FUNCTIONS, x=2, y=3)
    drawn = build_drawing(found, View(fold=True))
    assert [(box.label, box.role) for box in drawn.boxes] == [
        ("x", Role.INPUT),
        ("y", Role.INPUT),
        ("a", Role.FOLDED),
        ("a*x", Role.OUTPUT),
    ]
    assert "a, 9 nodes inside, value" in ", ".join(box_lines(drawn.boxes[2], SHOW))
    slope = math.sin(2) ** 2 + 2 * math.sin(4)
    assert [(arrow.source, arrow.target) for arrow in drawn.arrows].count((0, drawn.boxes[2].id)) == 1
    (local,) = (arrow.local for arrow in drawn.arrows if (arrow.source, arrow.target) == (0, drawn.boxes[2].id))
    assert local == pytest.approx(slope)


def test_what_holds_the_output_is_not_folded() -> None:
    drawn = build_drawing(at("f(t) = sin(t)^2; z = f(x)*f(y)", x=2, y=3), View(fold=True))
    assert [box.label for box in drawn.boxes] == ["x", "f(x)", "y", "f(y)", "z"]
    assert [(frame.label, len(frame.members)) for frame in drawn.frames] == [("z", 3)]


def test_folding_goes_with_the_other_views() -> None:
    found = at("f(t, u) = sin(t)*u + 2; f(x, y)*x*3", x=2, y=3)
    drawn = build_drawing(found, View(highlight="y", hide_constants=True, fold=True))
    assert [box.label for box in drawn.boxes if box.is_highlighted] == ["y", "f(x, y)", *found.labels[-3::2]]
    assert sum(arrow.is_highlighted for arrow in drawn.arrows) == 3
    assert [box.label for box in build_drawing(found, View(only="y", fold=True)).boxes] == [
        "y",
        "f(x, y)",
        *found.labels[-3::2],
    ]


@given(grouped_texts(), st.sampled_from([0.5, 2.0, -1.5]))
def test_the_numbers_of_folded_nodes_are_those_of_the_json(text: str, x: float) -> None:
    found = trace(parse(text), dict.fromkeys(parse(text).variables, x))
    drawn = build_drawing(found, View(fold=True))
    numbers = {node["id"]: (read(node["value"]), read(node["adjoint"])) for node in as_json(found)["nodes"]}
    svg = {
        int(group.get("data-node", "")): (read(group.get("data-value")), read(group.get("data-adjoint")))
        for group in nodes(to_svg(drawn, SHOW))
    }
    dot = {int(m[1]): said(m[2].split("\\n")) for m in map(DOT_NODE.match, to_dot(drawn, SHOW).splitlines()) if m}
    mermaid = {
        int(m[1]): said(m[2].split("<br/>")) for m in map(MERMAID_NODE.match, to_mermaid(drawn, SHOW).splitlines()) if m
    }
    assert svg == dot == mermaid == {box.id: numbers[box.id] for box in drawn.boxes}


@given(grouped_texts(), st.sampled_from([0.5, 2.0, -1.5]))
def test_every_path_goes_through_the_folded_nodes(text: str, x: float) -> None:
    found = trace(parse(text), dict.fromkeys(parse(text).variables, x))
    drawn = build_drawing(found, View(fold=True))
    adjoints = {box.id: box.adjoint for box in drawn.boxes}
    summed = dict.fromkeys(adjoints, 0.0)
    sizes = dict.fromkeys(adjoints, 0.0)
    for arrow in drawn.arrows:
        if arrow.local is not None and adjoints[arrow.target] is not None:
            summed[arrow.source] += arrow.local * adjoints[arrow.target]
            sizes[arrow.source] += abs(arrow.local * adjoints[arrow.target])
    for box in drawn.boxes:
        if box.role is not Role.OUTPUT and box.adjoint is not None and math.isfinite(sizes[box.id]):
            assert summed[box.id] == pytest.approx(box.adjoint, rel=1e-9, abs=1e-9 * sizes[box.id])


def test_an_svg_is_titled_and_self_contained() -> None:
    svg = to_svg(build_drawing(at("x*y + sin(x)", x=2, y=3)), number_formats(None)[1])
    image = ElementTree.fromstring(svg)
    assert image.get("role") == "img"
    assert image.findtext(f"{SVG}title") == "x*y + sin(x)"
    assert "5 nodes and 5 edges" in (image.findtext(f"{SVG}desc") or "")
    assert "prefers-color-scheme:dark" in svg
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)|href|url\(", svg)


@pytest.mark.parametrize("text", ["x", "2", "x + x"])
def test_the_smallest_graphs_are_drawn(text: str) -> None:
    expression = parse(text)
    found = trace(expression, dict.fromkeys(expression.variables, 1.0))
    assert len(nodes(to_svg(build_drawing(found), SHOW))) == len(found.tape)


def test_arrays_are_drawn_with_what_is_known() -> None:
    found = trace(parse("sum(tanh(W @ x))"), {"W": [[1.0, 0.0], [0.0, 1.0]], "x": [0.5, 2.0]})
    svg = to_svg(build_drawing(found), number_formats(None)[1])
    assert "value [0.5, 2]" in svg
    assert "2 numbers" in svg  # the slopes of tanh
    assert [edge.get("data-local") for edge in edges(svg)].count(None) == 3


@pytest.mark.parametrize("text", ["sum(W @ W)", "K = W@W; sum(tanh(W @ transpose(K)/sqrt(3)))"])
def test_no_number_of_an_array_is_cut(text: str) -> None:
    svg = to_svg(
        build_drawing(trace(parse(text), {"W": [[1.2345, -2.3456], [0.0012345, 34567.89]]})), number_formats(None)[1]
    )
    lines = re.findall(r"<text[^>]*>((?:value|adjoint) [^<]*)</text>", svg)
    assert len(lines) > 5
    assert not [line for line in lines if "…" in line]


def test_labels_with_signs_of_markup_are_text_in_an_svg() -> None:
    svg = ElementTree.fromstring(to_svg(build_drawing(at("where(x < y, x, y)", x=2, y=3)), SHOW).encode())
    assert "x < y" in {title.text for title in svg.iter(f"{SVG}title")}


@pytest.mark.parametrize("write", [to_svg, to_dot, to_mermaid])
def test_signs_and_numbers_stay_behind_names_that_are_written_from_right_to_left(write: Any) -> None:
    for first, second in (("א", "ب"), ("שם", "ߒ"), ("ܐ", "ދ"), ("𞤀", "𐤀")):
        drawing = build_drawing(trace(parse(f"{first} - 2^{second}"), {first: 2.0, second: 3.0}))
        text = re.sub('="[^"]*"|<desc>.*</desc>', "", write(drawing, SHOW)) if write is to_svg else write(drawing, SHOW)
        for name in (first, second):
            assert name in text
            assert re.findall(f"{name}(?!\u200e|#8206;)", text) == []


@pytest.mark.parametrize("count", [1, 2, 7, 8, 20])
def test_the_title_has_the_derivatives_that_fit_and_the_number_of_the_others(count: int) -> None:
    found = at(" + ".join(f"{k + 1}*x{k}" for k in range(count)), **{f"x{k}": 1.0 for k in range(count)})
    first, *entries = [f"value = {count * (count + 1) // 2}", *(f"d/dx{k} = {k + 1}" for k in range(count))]
    lines = [f"{first}; {', '.join(entries[:shown])}" for shown in range(1, count + 1)]
    fitting = [line for line in lines if len(line) <= 100]
    left = count - len(fitting)
    wanted = fitting[-1] + (f" and {left} more derivative{'s' * (left > 1)}" if left else "")
    assert wanted in "".join(ElementTree.fromstring(to_svg(build_drawing(found), SHOW)).itertext())


@pytest.mark.parametrize(("write", "end"), [(to_dot, "}"), (to_mermaid, "end")])
def test_lines_inside_of_frames_are_indented(write: Callable[..., str], end: str) -> None:
    text = "f(u) = u*u + 1; g(u) = f(u) + sin(u); h(u) = g(u)*2; h(x) + f(y)"
    lines = write(build_drawing(at(text, x=1.0, y=2.0)), SHOW).splitlines()
    depth, deepest = 1, 1
    for line in lines[1 : -1 if write is to_dot else None]:
        if line.strip() == end:
            depth -= 1
        assert len(line) - len(line.lstrip()) == 2 * depth, line
        if line.strip().startswith("subgraph"):
            depth += 1
        deepest = max(depth, deepest)
    assert (depth, deepest) == (1, 4)

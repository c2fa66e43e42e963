"""The page of a trace as a file: what it may load, what is in it, how large it is."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autodiff_cli.explain import lessons
from autodiff_cli.explain.tracing import trace
from autodiff_cli.expression import parse
from autodiff_cli.fitting import fit
from autodiff_cli.graph.node import variable
from autodiff_cli.graph.tape import Tape
from autodiff_cli.ops import get_op
from autodiff_cli.render import html_page
from autodiff_cli.render.drawing import View
from autodiff_cli.render.formatting import number_formats
from autodiff_cli.render.html_page import home_page, to_html
from autodiff_cli.render.lesson import course_pages, exercise_sheet
from autodiff_cli.training.objective.preparation import parse_model
from tests.support import run_cli


class Read(HTMLParser):
    """The elements of a page with their attributes, and the contents of its scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.contents: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem is not None:
            self.contents.append((self.cdata_elem, data))


def page(text: str = "x*y + sin(x)", **point: Any) -> str:
    return to_html(trace(parse(text), point or {"x": 2, "y": 3}))


def joined(read: Read, tag: str, kind: str | None = None) -> str:
    """The content of the one style, or of the one script of a kind."""
    assert kind is None or ("script", {"type": kind, "id": "record"}) in read.elements
    found = [text for which, text in read.contents if which == tag]
    return found[0] if kind else found[-1]


def test_every_page_has_a_language_a_title_a_heading_and_one_main_landmark(tmp_path: Path) -> None:
    lesson = lessons.load_lesson(next(iter(lessons.lesson_titles())), number_formats(None)[1])
    pages = [page(), home_page("x*y", "x=2", ""), *(text for _, text in course_pages([lesson]))]
    pages.append(exercise_sheet(trace(parse("x*y"), {"x": 2, "y": 3}), View()))
    fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6.6]}, plot=True).save_plot(tmp_path / "fit.html")
    pages.append((tmp_path / "fit.html").read_text(encoding="utf-8"))
    for text in pages:
        elements = Read(text).elements
        tags = [tag for tag, _ in elements]
        assert tags.count("main") == 1
        levels = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1
        assert all(below <= above + 1 for above, below in pairwise(levels))
        assert "title" in tags
        assert ("html", {"lang": "en"}) in elements


def test_the_policy_allows_the_pages_own_script_and_style_and_nothing_else() -> None:
    read = Read(page())
    (policy,) = [a["content"] for tag, a in read.elements if a.get("http-equiv") == "Content-Security-Policy"]

    def known_by(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    script, style = known_by(joined(read, "script")), known_by(joined(read, "style"))
    assert policy == (
        f"default-src 'none'; script-src {script}; style-src {style}; base-uri 'none'; form-action 'none'"
    )


def test_the_policies_of_other_pages_allow_the_scripts_that_they_have() -> None:
    """Whole ones: those of lessons, the front page of the server, exercises."""
    name, *_ = lessons.lesson_titles()
    pages = [text for _, text in course_pages([lessons.load_lesson(name, number_formats(None)[1])])]
    pages += [home_page("x*y", "x=2", ""), exercise_sheet(trace(parse("x*y"), {"x": 2, "y": 3}), View())]
    for text in pages:
        read = Read(text)
        (policy,) = [a["content"] for tag, a in read.elements if a.get("http-equiv") == "Content-Security-Policy"]
        for tag in ("script", "style"):
            found = {part for which, part in read.contents if which == tag and part.strip()}
            hashes = {base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in found}
            allowed = {*re.findall(r"'sha256-([^']*)'", "".join(re.findall(rf"{tag}-src ([^;]*)", policy)))}
            assert allowed <= hashes, tag


def test_the_policy_comes_before_anything_that_it_governs() -> None:
    names = [tag for tag, _ in Read(page()).elements]
    assert names.index("meta") < names.index("style") < names.index("script")
    assert page().index("Content-Security-Policy") < page().index("<style")


def test_nothing_is_loaded_and_no_attribute_is_a_script_or_a_style() -> None:
    for tag, attributes in Read(page("a = x*y; f(t) = t^2; f(a) + y")).elements:
        assert tag not in ("img", "link", "iframe", "object", "embed", "audio", "video", "use", "image")
        assert not {"style", "src", "href"} & attributes.keys()
        assert not any(name.startswith("on") for name in attributes)


@pytest.mark.parametrize(
    "text", ["</script><script>", "<!--<script>", "&lt;", "\u2028\u2029", "]]>", "{policy}", "%s $x"]
)
def test_text_cannot_leave_its_place(text: str) -> None:
    plain, hostile = Read(page("x + 1", x=2)), Read(page(f"# {text}\nx + 1", x=2))
    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in plain.elements]
    assert joined(hostile, "script") == joined(plain, "script")
    data = joined(hostile, "script", "application/json")
    assert not re.search("[<\u2028\u2029]", data)
    assert json.loads(data)["nodes"][0]["label"] == "x"


@pytest.mark.parametrize("text", ["x*y + sin(x)", "gelu(x) + lambertw(y) + gamma(x)", "sigmoid(x*y)^2"])
def test_the_page_of_a_small_formula_is_small(text: str) -> None:
    assert len(page(text).encode()) < 322_000


def test_the_record_has_every_number_of_the_document() -> None:
    words = ["where(x > 0, 1/y, log(x)) + max(x, y)", "--x", "2", "--y", "0"]
    record = json.loads(joined(Read(run_cli(["trace", *words, "--format", "html"])), "script", "application/json"))
    document = run_cli(["trace", *words, "--json"]).json
    assert [(node["value"], node["adjoint"]) for node in record["nodes"]] == [
        (node["value"], node["adjoint"]) for node in document["nodes"]
    ]
    assert record["forward"] == [step["node"] for step in document["forward"]]
    assert record["backward"] == [step["node"] for step in document["backward"]]
    for step in document["backward"]:
        contributions = record["nodes"][step["node"]]["contributions"]
        assert [(one["to"], one["local"], one["amount"]) for one in contributions] == [
            (one["to"], one["local"], one["amount"]) for one in step["contributions"]
        ]


@pytest.mark.parametrize("text", ["x*y + sin(x)", "α = x + y\n  α^2  # 😀\n", "f(t) = t*y\nf(x) + f(y)"])
def test_every_operation_is_located_in_the_text(text: str) -> None:
    record = json.loads(joined(Read(page(text)), "script", "application/json"))
    written = record["text"].encode("utf-16-le")
    for node in record["nodes"]:
        start, end = node["span"]
        assert 0 <= start < end <= len(written) // 2
    start, end = record["nodes"][record["output"]]["span"]
    assert written[2 * start : 2 * end].decode("utf-16-le").strip() in text


@pytest.mark.parametrize("ending", ["html", "htm", "HTML"])
def test_the_file_suffix_selects_the_page(tmp_path: Any, ending: str) -> None:
    file = tmp_path / f"page.{ending}"
    assert run_cli(["trace", "x^2", "--x", "3", "-o", str(file)]) == ""
    assert file.read_text(encoding="utf-8") == run_cli("trace x^2 --x 3 --format html")


@pytest.mark.slow
def test_a_graph_that_is_too_large_to_draw_is_refused_with_a_way_out() -> None:
    found = run_cli(["trace", "+".join(["x"] * 4000), "--x", "1", "--format", "html"])
    assert found.status == 2
    assert found == ""
    assert "at most 3000 nodes" in found.stderr
    assert "--format dot" in found.stderr


def test_a_record_of_any_expression_makes_a_page() -> None:
    derivative = parse("x*exp(x)").derivative("x")
    assert "data-node" in to_html(trace(derivative, {"x": 1}))


def test_the_title_is_text() -> None:
    page = to_html(trace(parse("where(x < y, x, y)"), {"x": 2, "y": 3}))
    assert "x &lt; y" in page[page.index("<title>") : page.index("</title>")]


@pytest.mark.slow
def test_a_page_of_the_largest_graph_stays_under_three_megabytes() -> None:
    terms = " + ".join(f"a*sin({k}*x)^2*exp(-b*{k})" for k in range(1, 230))
    expression = parse(terms)
    page = to_html(trace(expression, {"a": 1.0, "b": 0.1, "x": 0.3}))
    assert len(page.encode()) < 3e6


def test_formulas_of_steps_and_their_derivatives() -> None:
    found = html_page.panels_document(trace(parse("d = sin(x)*y; d/x + sum([x, y])"), {"x": 1.0, "y": 2.0}))["latex"]
    vector = r"\begin{pmatrix} x \\ y \end{pmatrix}"
    product = r"\sin\left(x\right) \, y"
    assert found["formula"] == rf"\frac{{d}}{{x}} + \sum {vector}, \quad d = {product}"
    steps = {
        "x": [],
        r"\sin\left(x\right)": [r"\cos\left(x\right)"],
        "y": [],
        "d": ["y", r"\sin\left(x\right)"],
        r"\frac{d}{x}": [r"\frac{1}{x}", r"-\frac{d}{x^{2}}"],
        vector: [None, None],
        rf"\sum {vector}": [None],
        rf"\frac{{d}}{{x}} + \sum {vector}": ["1", "1"],
    }
    assert dict(zip(found["nodes"], found["slopes"], strict=True)) == steps


@pytest.mark.parametrize("count", [2, 3, 12, 60])
def test_a_long_formula_of_a_step_is_the_number_of_the_step(count: int) -> None:
    text = " + ".join(f"sin(x{k})*cos(x{k})" for k in range(count))
    found = html_page.panels_document(trace(parse(text), {f"x{k}": 1.0 for k in range(count)}))["latex"]
    whole = " + ".join(rf"\sin\left(x_{{{k}}}\right) \, \cos\left(x_{{{k}}}\right)" for k in range(count))
    assert found["formula"] == (whole if len(whole) <= 2400 else "")
    assert max(map(len, found["nodes"])) <= 120
    assert (whole in found["nodes"]) == (len(whole) <= 120)
    numbers = {int(number) for node in found["nodes"] for number in re.findall(r"n_\{(\d+)\}", node)}
    assert [found["nodes"][number] for number in numbers] == [f"n_{{{number}}}" for number in numbers]
    assert all(slope is not None for slopes in found["slopes"] for slope in slopes)


@pytest.mark.parametrize(("size", "limit"), [(119, 120), (120, 120), (121, 120), (2400, 2400), (2401, 2400)])
def test_formulas_are_as_long_as_they_may_be(size: int, limit: int) -> None:
    names = ["x" * 900, "y" * 900, "z"][-limit // 900 :]
    names[-1] *= size - len(" + ".join(rf"\mathrm{{{name}}}" for name in names)) + 1
    found = html_page.panels_document(trace(parse(" + ".join(names)), dict.fromkeys(names, 1.0)))["latex"]
    text = " + ".join(rf"\mathrm{{{name}}}" for name in names)
    assert len(text) == size
    whole = {120: found["nodes"][-1], 2400: found["formula"]}[limit]
    assert whole == (text if size <= limit else {120: "n_{0}", 2400: ""}[limit])


def test_the_prediction_on_the_page_of_a_loss_is_the_output_of_the_model_or_the_input_of_its_last_operation() -> None:
    model: Any = parse_model("y ~ sigmoid(a*x)", ("x", "y"), frozenset())
    output = model.program.output
    inner, other = get_op("square")(output.inputs[0]), variable("y")
    for loss, expected in ((output - other, (3, "")), (inner, (2, "sigmoid")), (other, (None, ""))):
        trace_of_loss: Any = SimpleNamespace(tape=Tape([loss]))
        assert html_page._prediction_node(model, trace_of_loss) == expected
    likelihood: Any = parse_model("a*x", ("x", "y"), frozenset())
    assert html_page._prediction_node(likelihood, SimpleNamespace(tape=Tape([likelihood.program.output]))) == (None, "")


@pytest.mark.parametrize("text", ["x*y + sin(x)", "x - y", "exp(x*y)/(1 + x) - tanh(y)"])
def test_a_graph_without_scripts_has_the_same_margin_on_all_sides(text: str) -> None:
    elements = Read(page(text)).elements
    (frame,) = [attributes["viewbox"] or "" for tag, attributes in elements if tag == "svg" and "viewbox" in attributes]
    left, top, width, height = map(float, frame.split())
    drawn = [a for tag, a in elements if tag == "rect" and "x" in a]
    xs, ys = (
        [edge for a in drawn for edge in (float(a[at] or 0), float(a[at] or 0) + float(a[size] or 0))]
        for at, size in (("x", "width"), ("y", "height"))
    )
    margins = min(xs) - left, left + width - max(xs), min(ys) - top, top + height - max(ys)
    assert margins == pytest.approx([margins[0]] * 4, abs=1)
    assert margins[0] > 10

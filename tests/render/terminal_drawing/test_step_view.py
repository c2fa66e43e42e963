"""The walk through a trace: every screen fits its window, shows the node that it is about, and only true numbers."""

from __future__ import annotations

import itertools
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.explain.record import ForwardStep, Trace
from autodiff_cli.explain.sentences import StepSentences
from autodiff_cli.explain.tracing import trace
from autodiff_cli.expression import Expression, parse
from autodiff_cli.graph.node import Node
from autodiff_cli.render.character_layout import Extent
from autodiff_cli.render.formatting import display_width, number_formats
from autodiff_cli.render.step_view import HELP_LINES, StepView, ViewState
from tests.each import examples
from tests.graphs import graphs
from tests.render.terminal_drawing.support import plain_text
from tests.support import ROOT

POINTS = st.fixed_dictionaries(dict.fromkeys("xyz", st.sampled_from([0.0, 1.0, -1.0, 0.5, 2.0, -3.25, 800.0])))
WINDOWS = st.builds(Extent, st.integers(1, 120), st.integers(1, 50))
ROOMY = Extent(5000, 500)
DIGITS = 17


def traced(graph: tuple[Node, list[Node]], point: dict[str, float]) -> Trace:
    output, leaves = graph
    return trace(Expression(output, {leaf.text: leaf for leaf in leaves}), point)


def at(text: str, **point: float) -> Trace:
    return trace(parse(text), point)


def screen(step_view: StepView, view: ViewState, window: Extent = ROOMY) -> list[str]:
    return [plain_text(line) for line in step_view.screen(view, window)]


def in_boxes(lines: list[str], mark: str) -> Counter[str]:
    """The texts in boxes after a mark."""
    return Counter(text for line in lines for text in re.findall(rf"[│║┃] {mark} (\S+)", line))


@given(graphs(), POINTS, WINDOWS, st.data())
def test_every_screen_fits_its_window(
    graph: tuple[Node, list[Node]], point: dict[str, float], window: Extent, data: st.DataObject
) -> None:
    step_view = StepView(traced(graph, point), None, data.draw(st.sampled_from(["utf-8", "ascii", "latin-1"])))
    view = ViewState(
        data.draw(st.integers(0, len(step_view.steps) - 1)), data.draw(st.integers(0, 30)), data.draw(st.booleans())
    )
    lines = screen(step_view, view, window)
    assert len(lines) == window.height
    assert max(map(display_width, lines)) <= window.width


@given(graphs(), POINTS, WINDOWS, st.data())
def test_the_current_node_is_always_in_sight(
    graph: tuple[Node, list[Node]], point: dict[str, float], window: Extent, data: st.DataObject
) -> None:
    step_view = StepView(traced(graph, point), None, "utf-8")
    moment = data.draw(st.integers(1, len(step_view.steps) - 2)) if len(step_view.steps) > 2 else 0
    assert "┏" in "".join(screen(step_view, ViewState(moment), window)) or not moment


@given(graphs(), POINTS)
def test_at_the_end_the_boxes_hold_the_numbers_of_the_trace(
    graph: tuple[Node, list[Node]], point: dict[str, float]
) -> None:
    found = traced(graph, point)
    show = number_formats(DIGITS)[1]
    step_view = StepView(found, DIGITS, "utf-8")
    lines = screen(step_view, ViewState(len(step_view.steps) - 1))
    boxed = [i for i, node in enumerate(found.tape.nodes) if not node.is_constant or i == found.tape.outputs[0]]
    assert in_boxes(lines, "=") == Counter(show(found.values[i]) for i in boxed)
    assert in_boxes(lines, "∂") == Counter(show(a) for a in found.adjoints if a is not None)


@examples(30)  # each draws all steps
@given(graphs(), POINTS)
def test_values_appear_one_by_one_then_adjoints_as_contributions_arrive(
    graph: tuple[Node, list[Node]], point: dict[str, float]
) -> None:
    found = traced(graph, point)
    show, output = number_formats(DIGITS)[1], found.tape.outputs[0]
    step_view = StepView(found, DIGITS, "utf-8")
    values = {
        i: x
        for i, x in enumerate(found.values)
        if found.tape.nodes[i].is_input or (found.tape.nodes[i].is_constant and i == output)
    }
    adjoints: dict[int, float] = {}
    for k, moment in enumerate(step_view.steps):
        step = moment.step
        if isinstance(step, ForwardStep):
            values[step.node] = step.value
        elif step is not None:
            adjoints |= {step.node: step.adjoint, **{given_.to: given_.total for given_ in step.contributions}}
        lines = screen(step_view, ViewState(k))
        assert in_boxes(lines, "=") == Counter(map(show, values.values()))
        if k < len(step_view.steps) - 1:
            assert in_boxes(lines, "∂") == Counter(map(show, adjoints.values()))


@pytest.mark.slow
def test_an_incomplete_adjoint_is_labelled() -> None:
    step_view = StepView(at("x*y + sin(x)", x=2, y=3), None, "utf-8")
    lines = [screen(step_view, ViewState(k)) for k in range(len(step_view.steps))]
    assert any("∂ -0.416147 … │" in line for line in lines[5])
    assert any("∂ 2.58385     │" in line for line in lines[6])


@pytest.mark.slow
def test_the_words_are_those_of_the_plain_trace() -> None:
    found = at("h = relu(w*x + b); (h - t)^2", w=3, x=2, b=1, t=5)
    step_view, words = StepView(found, None, "utf-8"), StepSentences(found, number_formats(None)[1])
    shown = ["\n".join(screen(step_view, ViewState(k))) for k in range(len(step_view.steps))]
    forward, backward = [*found.forward], [*found.backward]
    for step, text in zip(forward, shown[1:], strict=False):
        assert words.forward(step) in text
    for step, text in zip(backward, shown[1 + len(forward) :], strict=False):
        assert words.backward(step) in text
        assert all(words.contribution(step, given_) in text for given_ in step.contributions)
    assert "at w = 3, x = 2, b = 1, t = 5" in shown[0]
    assert "d/dw = 8" in shown[-1]


def test_the_documentation_shows_what_is_drawn() -> None:
    page = (ROOT / "docs" / "tracing.md").read_text(encoding="utf-8")
    step_view = StepView(at("x*y + sin(x)", x=2, y=3), None, "utf-8")
    assert "\n".join(screen(step_view, ViewState(5), Extent(80, 24))[:13]) in page


@pytest.mark.slow
def test_the_view_explains_the_seed_and_ends_with_the_gradient() -> None:
    step_view = StepView(at("x*y + sin(x)", x=2, y=3), None, "utf-8")
    shown = ["\n".join(screen(step_view, ViewState(k))) for k in range(len(step_view.steps))]
    assert [k for k, text in enumerate(shown) if "The output's adjoint is 1." in text] == [4]
    assert "d/dx = 2.58385: if x changes by a small h, the output changes by about 2.58385 × h" in shown[-1]
    step_view = StepView(at("abs(x)", x=0), None, "utf-8")
    assert "d/dx = 0. A derivative predicts changes of the output only" in "\n".join(screen(step_view, ViewState(3)))


@pytest.mark.parametrize(("z", "shown"), [
    ([1, 2, 0.5], "= [0.2312, 0.6285, 0.1402]"),
    ([1, 2, 0.5, 3], "= [0.085, 0.23, 0.052, 0.63]"),
    ([1, 2, 0.5, 3, 1e-3, -9], "= 6 from 3.76e-06 to 0.612"),
])  # fmt: skip
def test_arrays_in_boxes_have_fewer_digits_and_no_halves_of_numbers(z: list[float], shown: str) -> None:
    step_view = StepView(at("-log(softmax(z)[1])", z=z), None, "utf-8")
    assert shown in "\n".join(screen(step_view, ViewState(1)))


def test_warnings_stand_at_the_end() -> None:
    step_view = StepView(at("abs(x)", x=0), None, "utf-8")
    assert "kink" in "\n".join(screen(step_view, ViewState(len(step_view.steps) - 1)))


def test_titles_are_shortened_before_the_drawing_scrolls() -> None:
    step_view = StepView(at("(w*x + b - t)^2", w=1, x=2, b=3, t=4), None, "utf-8")
    assert "┌ w*x + b - t ┐" in screen(step_view, ViewState(), Extent(80, 24))[4]
    assert any("┌ - ──┐" in line for line in screen(step_view, ViewState(), Extent(60, 20)))


def test_words_for_which_there_is_no_room_can_be_scrolled() -> None:
    names = [f"x{i}" for i in range(20)]
    step_view = StepView(at("+".join(names), **dict.fromkeys(names, 1.0)), None, "utf-8")
    window = Extent(60, 20)
    end = ViewState(len(step_view.steps) - 1)
    assert any(re.fullmatch(r"↓ \d+ more lines", line) for line in screen(step_view, end, window))
    seen = {
        line
        for k in range(step_view.max_first_line(end, window) + 1)
        for line in screen(step_view, end._replace(first_line=k), window)
    }
    assert {f"  d/d{name:<3} = 1" for name in names} <= seen
    assert not any("more lines" in line for line in screen(step_view, end._replace(first_line=99), window))
    for rows in (20, 21, 22):  # the last line of the window is below too, as it says how many are
        below = step_view.max_first_line(end, Extent(60, rows)) + 1
        assert f"↓ {below} more lines" in screen(step_view, end, Extent(60, rows))


def test_the_help_lists_the_keys() -> None:
    step_view = StepView(at("x^2", x=3), None, "utf-8")
    lines = screen(step_view, ViewState(is_help=True), Extent(200, 40))
    assert set(HELP_LINES) <= set(lines)


def test_of_a_huge_graph_the_surroundings_are_drawn() -> None:
    text = "a = x^2;" + "+".join(["sin(a)"] * 2000)
    found = at(text, x=0.5)
    step_view = StepView(found, None, "utf-8")
    window = Extent(100, 40)
    first = screen(step_view, ViewState(1), window)
    assert any("┏ a ━" in line for line in first)
    assert any("┌ sin(a) " in line for line in first)
    assert any("▸… 1994 more" in line for line in first)
    for k in (1000, 3500, len(step_view.steps) - 2):
        assert any("┏" in line for line in screen(step_view, ViewState(k), window))


@pytest.mark.slow
def test_of_many_inputs_only_some_are_drawn_in_a_huge_graph() -> None:
    names = [f"x{i}" for i in range(20)]
    found = at(f"max({', '.join(names)}) + {' + '.join(['sin(x0)'] * 2000)}", **dict.fromkeys(names, 1.0))
    step_view = StepView(found, None, "utf-8")
    assert any("… 14 more╺━" in line for line in screen(step_view, ViewState(1), Extent(80, 40)))


@pytest.mark.parametrize(
    "text", ["x", "2", "1 + 1", "λ*2", "名前 + x̂", "sum([x, y] @ [[1, 2], [3, 4]])", "where(x > 0, x, 0)"]
)
def test_all_kinds_of_formulas_have_a_step_view(text: str) -> None:
    expression = parse(text)
    step_view = StepView(trace(expression, dict.fromkeys(expression.variables, 2.0)), None, "utf-8")
    for k, window in itertools.product(range(len(step_view.steps)), (Extent(20, 8), Extent(80, 24))):
        lines = screen(step_view, ViewState(k), window)
        assert max(map(display_width, lines)) <= window.width


def test_a_terminal_gets_no_orders_from_the_formula() -> None:
    found = at("a = x*y  # \x1b[2J\na + 1", x=2, y=3)
    found.__dict__["labels"] = ["x", "y", "\x1b]0;title\x07", "1", "\u202eout"]
    step_view = StepView(found, None, "utf-8")
    text = "".join(itertools.chain.from_iterable(screen(step_view, ViewState(k)) for k in range(len(step_view.steps))))
    assert not {"\x1b", "\x07", "\u202e"} & {*text}


def test_where_the_encoding_has_no_lines_all_is_in_its_characters() -> None:
    step_view = StepView(at("λ*2", λ=3), None, "ascii")
    lines = [line for k in range(len(step_view.steps)) for line in screen(step_view, ViewState(k), Extent(80, 24))]
    assert "".join(lines).isascii()
    assert any("# \\u03bb*2 #" in line or "\\u03bb*2 ==" in line for line in lines)


def test_the_first_backward_step_alone_says_how_the_backward_pass_begins() -> None:
    step_view = StepView(at("x*y + sin(x)", x=2, y=3), None, "utf-8")
    window = Extent(200, 40)
    screens = [" ".join(screen(step_view, ViewState(k), window)) for k in range(len(step_view.steps))]
    assert ["The output's adjoint is 1." in text for text in screens] == [False] * 4 + [True] + [False] * 3

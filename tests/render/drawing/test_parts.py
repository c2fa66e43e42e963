"""Large drawings with frames: part by part, nothing lost and nothing on top of anything else."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff_cli as ad
from autodiff_cli.render.drawing import build_drawing, to_svg
from autodiff_cli.render.formatting import number_formats
from autodiff_cli.render.layout import (
    PAGE,
    TITLE_HEIGHT,
    FrameSpec,
    GraphSpec,
    NodeSpec,
    Point,
    Rectangle,
    Size,
    layout_in_parts,
)
from tests.each import examples
from tests.render.drawing.specs import Framed, graph_spec

XOR = (
    "n(a, b) = sigmoid(v1*tanh(w1*a + w2*b + b1) + v2*tanh(w3*a + w4*b + b2) + c); "
    "(n(0, 0) - 0)^2 + (n(0, 1) - 1)^2 + (n(1, 0) - 1)^2 + (n(1, 1) - 0)^2"
)
WEIGHTS = {"w1": 1, "w2": -1, "b1": 0.1, "w3": -1, "w4": 1, "b2": 0.2, "v1": 1, "v2": 1, "c": -0.5}
CALLS = "f(t, u) = tanh(t*u + 1); h = f(a, x); g(p) = p*h + f(p, a); k = g(x) + g(a); f(b, h) + f(k, x)"


def svg(text: str, values: dict[str, float]) -> str:
    return to_svg(build_drawing(ad.parse(text).trace(**values)), number_formats(None)[1])


def test_a_large_drawing_with_calls_stands_in_parts() -> None:
    text = svg(XOR, WEIGHTS)
    width = float(re.search(r'width="(\d+)"', text)[1])  # type: ignore[index]
    assert width < 2000  # as a whole 3440
    assert len(set(re.findall(r'data-node="(\d+)"', text))) == len(re.findall(r'data-node="', text)) == 96
    assert text.count(" copy") == 3 * 9 + 4  # of the parameters, of the results
    assert "duplicate" in text
    assert "once more" not in svg("f(t) = t^2; f(x) + f(y)", {"x": 1, "y": 2})


def _inside(inner: Rectangle, outer: Rectangle, margin: float = 0) -> bool:
    return all(
        abs(inner.centre[k] - outer.centre[k]) <= (outer.size[k] - inner.size[k]) / 2 - margin + 0.01 for k in (0, 1)
    )


def _apart(one: Rectangle, other: Rectangle) -> bool:
    return any(abs(one.centre[k] - other.centre[k]) >= (one.size[k] + other.size[k]) / 2 - 0.01 for k in (0, 1))


def _touches(place: Rectangle, point: Point) -> bool:
    return all(abs(place.centre[k] - point[k]) <= place.size[k] / 2 + 1 for k in (0, 1))


@examples(60)
@given(st.data())
def test_parts_have_everything(data: st.DataObject) -> None:
    count = data.draw(st.integers(3, 24))
    below = st.integers(0, count - 1)
    drawn = data.draw(st.lists(st.tuples(below, below).filter(lambda edge: edge[0] < edge[1]), max_size=40))
    edges = sorted([*drawn, (0, 1), (0, 2)], key=lambda edge: edge[1])
    targets = sorted({target for _, target in edges})
    first = data.draw(st.integers(1, len(targets) - 1))
    second = data.draw(st.integers(first + 1, len(targets)))
    third = data.draw(st.integers(second, len(targets)))
    inner = [Framed(targets[second:third], 1, 70)] if second < third else []
    frames = [Framed(targets[:first], None, 30), Framed(targets[first:second], None, 50), *inner]
    size = Size(80, 40)
    found = layout_in_parts(graph_spec(count, size, edges, Size(20, 10), frames))
    assert found is not None
    layout, there = found
    assert there[:count] == [*range(count)]
    part = {i: min(k, 1) for k, frame in enumerate(frames) for i in frame.nodes}
    for i in range(count):  # once where it is computed, and in each part with a user; a variable has the first user's
        users = [part.get(target) for source, target in edges if source == i]
        assert there.count(i) == len({part.get(i) if i in targets or not users else users[0], *users})
    places = [Rectangle(centre, size) for centre in layout.centres]
    assert all(_apart(a, b) for a, b in itertools.combinations(places, 2))
    whole = Rectangle(Point(layout.size.width / 2, layout.size.height / 2), layout.size)
    assert all(_inside(place, whole) for place in (*places, *layout.frames))
    for k, frame in enumerate(frames):
        assert all(_inside(places[i], layout.frames[k], TITLE_HEIGHT) for i in frame.nodes)
    assert _apart(layout.frames[0], layout.frames[1])
    for (source, target), route in zip(edges, layout.routes, strict=True):
        assert _touches(places[target], route.points[-1])
        assert any(_touches(places[k], route.points[0]) for k, i in enumerate(there) if i == source)


@examples(60)
@given(st.integers(1, 12), st.integers(1, 8), st.integers(40, 500))
def test_parts_of_one_size_stand_in_rows_as_wide_as_a_page(count: int, length: int, width: int) -> None:
    frames = [Framed(range(k * length, (k + 1) * length), None, 30) for k in range(count)]
    edges = [(i, i + 1) for frame in frames for i in frame.nodes[:-1]]
    found = layout_in_parts(graph_spec(count * length, Size(width, 40), edges, None, frames))
    assert found is not None
    part, gap = found.layout.frames[0].size, 2 * TITLE_HEIGHT
    columns = min(count, max(1, int((PAGE.width + gap) // (part.width + gap))))
    size = Size(columns * (part.width + gap) - gap, -(-count // columns) * (part.height + gap) - gap)
    assert found.layout.size == pytest.approx(size)


def in_rows(sizes: Sequence[Size], breaks: Sequence[bool], gap: float) -> tuple[Size, list[Point], float]:
    """Return the size and the centres for one choice of rows, and the width at which a part more would fit a row."""
    rows = [[0]]
    for k, is_new in enumerate(breaks, 1):
        rows = [*rows, [k]] if is_new else [*rows[:-1], [*rows[-1], k]]
    widths = [sum(sizes[k].width + gap for k in row) - gap for row in rows]
    heights = [max(sizes[k].height for k in row) for row in rows]
    centres = [
        Point(
            sum(sizes[i].width + gap for i in row if i < k) + sizes[k].width / 2,
            sum(heights[:at]) + at * gap + sizes[k].height / 2,
        )
        for at, row in enumerate(rows)
        for k in row
    ]
    longer = [width + gap + sizes[row[0]].width for width, row in zip(widths, rows[1:], strict=False)]
    size = Size(max(widths), sum(heights) + (len(rows) - 1) * gap)
    return size, centres, min(longer, default=math.inf)


def test_parts_stand_in_rows_like_words() -> None:
    """A row ends where one part more would not fit a page."""
    chance = random.Random(4)
    for count in [1, 2, 3, 4, 5, 6, 7] * 3:
        drawn = [[chance.randrange(10, 900) for _ in range(3)] for _ in range(count)]
        found = layout_in_parts(
            GraphSpec(
                [NodeSpec(Size(width, height), k) for k, (width, height, _) in enumerate(drawn)],
                [],
                [FrameSpec(None, title) for *_, title in drawn],
            )
        )
        assert found is not None
        layout, pad = found.layout, TITLE_HEIGHT
        sizes = [Size(max(width, title) + 2 * pad, height + 3 * pad) for width, height, title in drawn]
        assert [frame.size for frame in layout.frames] == sizes
        for frame, centre, (width, height, _) in zip(layout.frames, layout.centres, drawn, strict=True):
            assert centre.x - width / 2 == frame.centre.x - frame.size.width / 2 + pad
            assert centre.y + height / 2 == frame.centre.y + frame.size.height / 2 - pad
        ways = [in_rows(sizes, breaks, 2 * pad) for breaks in itertools.product([False, True], repeat=count - 1)]
        assert (layout.size, [frame.centre for frame in layout.frames]) in [way[:2] for way in ways]
        limit = max(PAGE.width, *(size.width for size in sizes))
        assert layout.size in [size for size, _, longer in ways if size.width <= limit < longer]


def test_a_call_within_a_call_keeps_its_frame() -> None:
    text = svg(CALLS + " + exp(k) + sin(f(k, a))*f(h, b)^2 + f(a, b)", {"a": 1, "b": 2, "x": 0.5})
    for label in ("h = f(a, x)", "k", "g(x)", "g(a)"):
        assert f"<title>{label}</title>" in text

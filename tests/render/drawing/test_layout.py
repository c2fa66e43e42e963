"""The layout: layers from left to right, nothing on top of anything else, the same every time."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodiff_cli.render import layout
from autodiff_cli.render.layout import (
    MAX_NODES,
    TITLE_HEIGHT,
    GraphTooLargeError,
    Layout,
    Point,
    Rectangle,
    Size,
    layered_layout,
    layout_with_copies,
)
from tests.render.drawing.specs import Framed, graph_spec

EDGES = st.integers(1, 25).flatmap(
    lambda count: st.tuples(
        st.just(count),
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda e: e[0] < e[1])),
    )
)
SIZE, LABEL = Size(80, 40), Size(60, 12)


def laid_out(count: int, edges: list[tuple[int, int]], label: Size = LABEL) -> Layout:
    return layered_layout(graph_spec(count, SIZE, edges, label))


@settings(deadline=None)
@given(EDGES)
def test_nodes_keep_apart_and_edges_go_right(graph: tuple[int, list[tuple[int, int]]]) -> None:
    count, edges = graph
    found = laid_out(count, edges)
    for a, b in itertools.combinations(found.centres, 2):
        assert abs(a.x - b.x) >= SIZE.width or abs(a.y - b.y) >= SIZE.height
    for source, target in edges:
        assert found.centres[source].x < found.centres[target].x


@settings(deadline=None)
@given(EDGES)
def test_everything_is_inside_the_drawing_which_has_no_margin(graph: tuple[int, list[tuple[int, int]]]) -> None:
    count, edges = graph
    found = laid_out(count, edges)
    places = [Rectangle(centre, SIZE) for centre in found.centres]
    places += [Rectangle(route.label, LABEL) for route in found.routes if route.label is not None]
    places += [Rectangle(point, Size(0, 0)) for route in found.routes for point in route.points]
    whole = Rectangle(Point(found.size.width / 2, found.size.height / 2), found.size)
    assert all(holds(whole, place) for place in places)
    for k in (0, 1):
        assert min(place.centre[k] - place.size[k] / 2 for place in places) == pytest.approx(0, abs=1e-6)
        assert max(place.centre[k] + place.size[k] / 2 for place in places) == pytest.approx(found.size[k])
    assert all(len(route.points) >= 2 for route in found.routes)


@settings(deadline=None)
@given(EDGES)
def test_the_same_graph_always_looks_the_same(graph: tuple[int, list[tuple[int, int]]]) -> None:
    assert laid_out(*graph) == laid_out(*graph)


def test_a_graph_that_no_one_could_read_is_refused() -> None:
    with pytest.raises(GraphTooLargeError, match=str(MAX_NODES)):
        layout_with_copies(graph_spec(MAX_NODES + 1, SIZE, [], None))


@st.composite
def framed_graphs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]], list[Framed]]:
    """A graph that is built part by part; a part may be framed, and is left only by its last node."""
    edges: list[tuple[int, int]] = []
    frames: list[Framed] = []
    nodes = [0, 1]

    def node(known: list[int]) -> int:
        nodes.append(len(nodes))
        edges.extend((source, nodes[-1]) for source in draw(st.sets(st.sampled_from(known), min_size=1, max_size=2)))
        return nodes[-1]

    def part(entering: list[int], outer: int | None, depth: int) -> int:
        k, members, inside = len(frames), list[int](), list[int]()
        frames.append(Framed(members, outer, draw(st.sampled_from([20.0, 400.0]))))
        for _ in range(draw(st.integers(1, 3))):
            if depth < 3 and draw(st.booleans()):
                inside.append(part([*entering, *inside], k, depth + 1))
            else:
                inside.append(node([*entering, *inside]))
                members.append(inside[-1])
        last = node(inside)
        unused = set(inside) - {source for source, _ in edges}
        edges.extend((source, last) for source in unused)
        members.append(last)
        return last

    known = [0, 1]
    for _ in range(draw(st.integers(1, 3))):
        known.append(part(known[-3:], None, 1))
    return len(nodes), edges, frames


def holds(place: Rectangle, other: Rectangle) -> bool:
    return all(
        abs(inner - outer) <= (extent - part) / 2 + 0.01
        for inner, outer, extent, part in zip(other.centre, place.centre, place.size, other.size, strict=True)
    )


def meet(place: Rectangle, other: Rectangle) -> bool:
    return all(
        abs(a - b) < (first + second) / 2 - 0.01
        for a, b, first, second in zip(place.centre, other.centre, place.size, other.size, strict=True)
    )


@settings(deadline=None)
@given(framed_graphs())
def test_a_frame_holds_what_stands_in_it_and_nothing_else(
    graph: tuple[int, list[tuple[int, int]], list[Framed]],
) -> None:
    count, edges, frames = graph
    found = layered_layout(graph_spec(count, SIZE, edges, Size(30, 12), frames))
    places = [Rectangle(centre, SIZE) for centre in found.centres]
    around: dict[int, set[int]] = {i: set() for i in range(count)}
    for k, frame in enumerate(frames):
        title = Rectangle(found.frames[k].centre, Size(frame.title_width, TITLE_HEIGHT))
        assert found.frames[k].size.width >= title.size.width
        outer: int | None = k
        while outer is not None:
            assert holds(found.frames[outer], found.frames[k])
            for i in frame.nodes:
                around[i].add(outer)
            outer = frames[outer].outer
    for i, k in itertools.product(range(count), range(len(frames))):
        assert holds(found.frames[k], places[i]) if k in around[i] else not meet(found.frames[k], places[i])
    for source, target in edges:
        assert any(found.centres[source][axis] < found.centres[target][axis] for axis in (0, 1))


@pytest.mark.parametrize("frames", [[], [Framed(range(k, k + 8), None, 20.0) for k in range(1, 57, 8)]])
def test_a_long_graph_is_turned_or_goes_on_in_another_row(frames: list[Framed]) -> None:
    edges = [(k, k + 1) for k in range(63)]
    found = layered_layout(graph_spec(64, SIZE, edges, Size(30, 12), frames))
    assert found.size.width <= 1200
    assert layered_layout(graph_spec(3, SIZE, edges[:2], None)).size.height == SIZE.height


@settings(deadline=None)
@given(EDGES)
def test_labels_stand_on_their_lines(graph: tuple[int, list[tuple[int, int]]]) -> None:
    for route in laid_out(*graph).routes:
        assert route.label is not None
        assert any(
            min(a.x, b.x) - 1.1 <= route.label.x <= max(a.x, b.x) + 1.1
            and min(a.y, b.y) - 1.1 <= route.label.y <= max(a.y, b.y) + 1.1
            for a, b in itertools.pairwise(route.points)
        )


def test_labels_keep_off_nodes_and_each_other() -> None:
    edges = [*itertools.product(range(4), range(4, 8))]
    label = Size(30, 12)
    found = laid_out(8, edges, label)
    places = [Rectangle(centre, SIZE) for centre in found.centres]
    places += [Rectangle(route.label, label) for route in found.routes if route.label is not None]
    assert len(places) == 8 + len(edges)
    assert not any(meet(place, other) for place, other in itertools.combinations(places, 2))


def test_a_label_covers_something_only_if_every_position_on_its_line_does() -> None:
    chance = random.Random(3)

    def point() -> Point:
        return Point(chance.uniform(-300, 500), chance.uniform(-300, 500))

    covering = 0
    for _ in range(100):
        taken = [Rectangle(point(), Size(chance.uniform(5, 250), chance.uniform(5, 250))) for _ in range(8)]
        placer = layout._LabelPlacer(taken)
        for _ in range(6):
            start, size = point(), Size(chance.uniform(5, 150), chance.uniform(5, 60))
            end = Point(start.x + chance.choice([-1, 1]) * chance.uniform(20, 400), point().y)
            corners = (start, Point(end.x, start.y), end)
            lines = sorted(itertools.pairwise(corners), key=lambda line: math.dist(*line), reverse=True)
            shift = chance.choice([0.9, -0.9, 1.1, -1.1, 60])
            anchor = Point(start.x + chance.uniform(0.2, 0.8) * (end.x - start.x), start.y + shift)
            allowed = [anchor] if abs(shift) < 1 else []
            allowed += [
                Point(a.x + share * (b.x - a.x), a.y + share * (b.y - a.y))
                for share in layout._LABEL_POSITIONS
                for a, b in lines
            ]
            free = [at for at in allowed if not any(overlap(Rectangle(at, size), other) for other in taken)]
            found = placer.place(size, anchor, corners)
            assert found == (free or allowed)[0]
            taken.append(Rectangle(found, size))
            covering += not free
    assert covering > 20


def overlap(place: Rectangle, other: Rectangle) -> bool:
    """Whether two rectangles have a part in common, by their edges."""
    (left, top), (right, bottom) = (
        [f(place.centre[k] + sign * place.size[k] / 2, other.centre[k] + sign * other.size[k] / 2) for k in (0, 1)]
        for f, sign in ((max, -1), (min, 1))
    )
    return bool(left < right and top < bottom)


def test_excess_width_counts_twice() -> None:
    width, height = layout.PAGE
    for share in (0.1, 0.5, 1.0):
        assert (
            layout.page_overflow(Size(share * width, height)) == 1 == layout.page_overflow(Size(width, share * height))
        )
    for times in (1.5, 2.0, 4.0):
        assert layout.page_overflow(Size(times * width, height)) == layout.page_overflow(Size(width, times**2 * height))
        assert layout.page_overflow(Size(width, times * height)) == times


def test_of_all_directions_the_one_that_fits_a_page_best_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    chance, ways = random.Random(2), layout._DIRECTIONS
    for count in (12, 20, 30):
        edges = [(chance.randrange(max(0, i - 6), i), i) for i in range(1, count) for _ in range(chance.randint(1, 2))]
        spec = graph_spec(count, Size(chance.randint(200, 400), chance.randint(50, 200)), edges, None)
        chosen, alone = layered_layout(spec), []
        for way in ways:
            monkeypatch.setattr(layout, "_DIRECTIONS", (way,))
            alone.append(layered_layout(spec))
        monkeypatch.setattr(layout, "_DIRECTIONS", ways)
        assert chosen == min(alone, key=lambda each: layout.page_overflow(each.size))

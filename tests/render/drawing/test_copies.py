"""Layouts of graphs with long edges: complete, orthogonal, and there in time."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest

from autodiff_cli.render import layout
from autodiff_cli.render.layout import (
    EdgeSpec,
    FrameSpec,
    GraphSpec,
    GraphTooLargeError,
    LayoutWithCopies,
    NodeSpec,
    Point,
    Size,
    layered_layout,
    layout_with_copies,
)
from tests.render.drawing.specs import Framed, graph_spec

NODE, LABEL = Size(100, 40), Size(50, 12)


def chain(count: int, sources: int) -> list[tuple[int, int]]:
    """The edges of a chain of nodes, each of which uses a few variables too."""
    edges = [(sources + k, sources + k + 1) for k in range(count - 1)]
    return edges + [(source, sources + k) for k in range(count) for source in range(sources)]


def laid(count: int, sources: int) -> tuple[LayoutWithCopies, list[tuple[int, int]]]:
    edges = chain(count, sources)
    return layout_with_copies(graph_spec(count + sources, NODE, edges, LABEL)), edges


def is_on_border(point: Point, centre: Point) -> bool:
    across, down = abs(point.x - centre.x) / (NODE.width / 2), abs(point.y - centre.y) / (NODE.height / 2)
    return max(across, down) == pytest.approx(1, abs=0.01)


def test_a_graph_without_long_edges_is_laid_out_as_it_is() -> None:
    spec = graph_spec(12, NODE, chain(10, 2), LABEL)
    assert layout_with_copies(spec) == (layered_layout(spec), [*range(12)])


@pytest.mark.parametrize(
    ("count", "sources", "waypoints"),
    [(30, 1, 200), *(pytest.param(*each, 3000, marks=pytest.mark.slow) for each in [(80, 1), (200, 2)])],
)
def test_every_edge_leads_from_its_source_or_a_duplicate_to_its_target(
    count: int, sources: int, waypoints: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "_MAX_WAYPOINTS", waypoints)
    (found, nodes), edges = laid(count, sources)
    assert nodes[: count + sources] == [*range(count + sources)]
    assert len(nodes) > len({*nodes})
    assert len(found.routes) == len(edges)
    for (source, target), route in zip(edges, found.routes, strict=True):
        assert any(
            is_on_border(route.points[0], centre)
            for node, centre in zip(nodes, found.centres, strict=True)
            if node == source
        )
        assert is_on_border(route.points[-1], found.centres[target])
        assert route.label is not None


@pytest.mark.slow
def test_the_longest_edges_are_short_beside_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    def longest(found: LayoutWithCopies) -> float:
        return max(abs(route.points[-1].x - route.points[0].x) for route in found.layout.routes)

    monkeypatch.setattr(layout, "_DIRECTIONS", layout._DIRECTIONS[:1])  # from left to right
    drawn_once = laid(60, 1)[0]
    monkeypatch.setattr(layout, "_MAX_WAYPOINTS", 20)
    drawn_again = laid(60, 1)[0]
    assert len(drawn_once.nodes) == 61 < len(drawn_again.nodes)
    assert longest(drawn_again) < longest(drawn_once) / 4


@pytest.mark.slow
def test_lines_stay_inside_the_drawing_and_go_up_down_and_sideways_only() -> None:
    (found, _), _ = laid(80, 2)
    for route in found.routes:
        for point in route.points:
            assert -1 <= point.x <= found.size.width + 1
            assert -1 <= point.y <= found.size.height + 1
        for a, b in zip(route.points, route.points[1:], strict=False):
            assert min(abs(a.x - b.x), abs(a.y - b.y)) < 1


def test_duplicates_are_in_the_frame_of_their_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_MAX_WAYPOINTS", 300)
    edges, members = chain(30, 2), [*range(2, 20)]
    found, drawn = layout_with_copies(graph_spec(32, NODE, edges, None, [Framed(members, None, 30)]))
    (frame,) = found.frames
    for (_, target), route in zip(edges, found.routes, strict=True):
        starts = [k for k in range(32, len(drawn)) if is_on_border(route.points[0], found.centres[k])]
        for i in (target, *starts) if target in members else ():
            assert abs(found.centres[i].x - frame.centre.x) <= (frame.size.width - NODE.width) / 2 + 1
            assert abs(found.centres[i].y - frame.centre.y) <= (frame.size.height - NODE.height) / 2 + 1


def test_only_the_longest_edges_leave_from_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "layered_layout", lambda spec: spec)
    chance = random.Random(5)
    for most in range(40):
        monkeypatch.setattr(layout, "_MAX_WAYPOINTS", most)
        count = chance.randint(2, 12)
        edges = [edge for edge in itertools.combinations(range(count), 2) if chance.random() < 0.4]
        sizes = [Size(chance.randint(1, 9), chance.randint(1, 9)) for _ in range(count)]
        frames = [chance.choice([None, 0]) for _ in range(count)]
        labels = [chance.choice([None, LABEL]) for _ in edges]
        spec = GraphSpec(
            [*map(NodeSpec, sizes, frames)],
            [EdgeSpec(*edge, label) for edge, label in zip(edges, labels, strict=True)],
            [FrameSpec(None, 30)],
        )
        found, there = layout_with_copies(spec)

        def steps_below(node: int, edges: Sequence[tuple[int, int]] = edges) -> int:
            """The length of the longest path to the last layer."""
            return max((1 + steps_below(target) for source, target in edges if source == node), default=0)

        assert isinstance(found, GraphSpec)
        assert [(there[edge.source], edge.target, edge.label) for edge in found.edges] == [*spec.edges]
        copied = {edge.source: edge.target for edge in found.edges if edge.source >= count}
        assert [*found.nodes] == [*spec.nodes] + [
            NodeSpec(sizes[there[copy]], frames[target]) for copy, target in sorted(copied.items())
        ]
        assert len({(there[copy], target) for copy, target in copied.items()}) == len(found.nodes) - count
        passed = [steps_below(source) - steps_below(target) - 1 for source, target in edges]
        is_copied = [edge.source >= count for edge in found.edges]
        kept, drawn_again = (sorted(n for n, copy in zip(passed, is_copied, strict=True) if copy == x) for x in (0, 1))
        assert kept + drawn_again == sorted(passed)
        assert sum(kept) <= most
        assert not drawn_again or sum(kept) + drawn_again[0] > most


def test_too_many_nodes_are_refused_but_duplicates_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_MAX_WAYPOINTS", 20)
    monkeypatch.setattr(layout, "MAX_NODES", 61)
    assert len(laid(60, 1)[0].nodes) > 61
    with pytest.raises(GraphTooLargeError, match="at most 61 nodes, and this graph has 62"):
        laid(61, 1)

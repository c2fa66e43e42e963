"""Layouts of graphs with long edges: complete, orthogonal, and there in time."""

from __future__ import annotations

import pytest

from autodiff_cli.render.layout import FrameSpec, Layout, Point, Size, layered_layout, layout_with_lanes

NODE, LABEL = Size(100, 40), Size(50, 12)


def chain(count: int, sources: int) -> tuple[list[Size], list[tuple[int, int]]]:
    """A chain of nodes, each of which uses a few variables too."""
    edges = [(sources + k, sources + k + 1) for k in range(count - 1)]
    edges += [(source, sources + k) for k in range(count) for source in range(sources)]
    return [NODE] * (count + sources), edges


def laid(count: int, sources: int) -> tuple[Layout, list[tuple[int, int]]]:
    nodes, edges = chain(count, sources)
    return layout_with_lanes(nodes, edges, [LABEL] * len(edges)), edges


def is_on_border(point: Point, centre: Point) -> bool:
    across, down = abs(point.x - centre.x) / (NODE.width / 2), abs(point.y - centre.y) / (NODE.height / 2)
    return max(across, down) == pytest.approx(1, abs=0.01)


def test_a_graph_without_long_edges_is_laid_out_as_it_is() -> None:
    nodes, edges = chain(10, 2)
    assert layout_with_lanes(nodes, edges, [LABEL] * len(edges)) == layered_layout(nodes, edges, [LABEL] * len(edges))


@pytest.mark.parametrize(
    ("count", "sources"), [(80, 1), *(pytest.param(*each, marks=pytest.mark.slow) for each in [(60, 4), (400, 2)])]
)
def test_every_edge_leads_from_its_source_to_its_target(count: int, sources: int) -> None:
    found, edges = laid(count, sources)
    assert len(found.routes) == len(edges)
    for (source, target), route in zip(edges, found.routes, strict=True):
        assert is_on_border(route.points[0], found.centres[source])
        assert is_on_border(route.points[-1], found.centres[target])
        assert route.label is not None


@pytest.mark.slow
def test_lines_go_up_down_and_sideways_only() -> None:
    found, _ = laid(80, 2)
    for route in found.routes:
        for a, b in zip(route.points, route.points[1:], strict=False):
            assert min(abs(a.x - b.x), abs(a.y - b.y)) < 1


@pytest.mark.slow
def test_all_is_inside_the_drawing_and_lanes_are_above_all_nodes() -> None:
    found, edges = laid(80, 2)
    top = min(centre.y for centre in found.centres) - NODE.height / 2
    long = [route for route in found.routes if min(point.y for point in route.points) < top - 1]
    assert 0 < len(long) < len(edges)
    for route in found.routes:
        for point in route.points:
            assert -1 <= point.x <= found.size.width + 1
            assert -1 <= point.y <= found.size.height + 1


@pytest.mark.slow
def test_a_line_that_comes_down_passes_beside_the_nodes_of_its_column() -> None:
    found, _ = laid(80, 2)
    for route in found.routes:
        if len(route.points) != 6:
            continue
        x, low, high = route.points[3].x, *sorted((route.points[3].y, route.points[4].y))
        for centre in found.centres:
            if low < centre.y < high:
                assert not centre.x - NODE.width / 2 < x < centre.x + NODE.width / 2


def test_frames_move_with_their_nodes() -> None:
    nodes, edges = chain(80, 2)
    members = [*range(2, 20)]
    found = layout_with_lanes(nodes, edges, [None] * len(edges), [FrameSpec(members, None, 30)])
    (frame,) = found.frames
    for i in members:
        assert abs(found.centres[i].x - frame.centre.x) <= (frame.size.width - NODE.width) / 2 + 1
        assert abs(found.centres[i].y - frame.centre.y) <= (frame.size.height - NODE.height) / 2 + 1

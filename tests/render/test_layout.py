"""The layout: layers from left to right, nothing on top of anything else, the same every time."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodiff_cli.render.layout import MOST_NODES, Layout, Size, TooLarge, layered

EDGES = st.integers(1, 25).flatmap(
    lambda count: st.tuples(
        st.just(count),
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda e: e[0] < e[1])),
    )
)
SIZE = Size(80, 40)


def laid_out(count: int, edges: list[tuple[int, int]]) -> Layout:
    return layered([SIZE] * count, edges, [Size(30, 12)] * len(edges))


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
def test_everything_is_inside_the_drawing(graph: tuple[int, list[tuple[int, int]]]) -> None:
    count, edges = graph
    found = laid_out(count, edges)
    points = [point for route in found.routes for point in (*route.points, route.label) if point is not None]
    for point in (*found.centres, *points):
        assert -0.01 <= point.x <= found.size.width + 0.01
        assert -0.01 <= point.y <= found.size.height + 0.01
    assert all(len(route.points) >= 2 for route in found.routes)


@settings(deadline=None)
@given(EDGES)
def test_the_same_graph_always_looks_the_same(graph: tuple[int, list[tuple[int, int]]]) -> None:
    assert laid_out(*graph) == laid_out(*graph)


def test_a_graph_that_no_one_could_read_is_refused() -> None:
    with pytest.raises(TooLarge, match=str(MOST_NODES)):
        layered([SIZE] * (MOST_NODES + 1), [], [])

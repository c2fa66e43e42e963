"""Graphs to lay out, from pairs of nodes and from frames that know the nodes inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autodiff_cli.render.layout import EdgeSpec, FrameSpec, GraphSpec, NodeSpec, Size


class Framed(NamedTuple):
    """A frame: the nodes directly inside, the index of the frame around it, and the width of its title."""

    nodes: Sequence[int]
    outer: int | None
    title_width: float


def graph_spec(
    count: int, size: Size, edges: Sequence[tuple[int, int]], label: Size | None, frames: Sequence[Framed] = ()
) -> GraphSpec:
    """Return a graph of nodes of one size, all edges of which have the same label."""
    around = {i: k for k, frame in enumerate(frames) for i in frame.nodes}
    return GraphSpec(
        [NodeSpec(size, around.get(i)) for i in range(count)],
        [EdgeSpec(*edge, label) for edge in edges],
        [FrameSpec(frame.outer, frame.title_width) for frame in frames],
    )

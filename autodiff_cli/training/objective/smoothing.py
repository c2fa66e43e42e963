"""Losses with corners, without them: `abs(u)` becomes `hypot(u, e)`, for a sequence of ever smaller e.

Where a corner is the minimum, as it is of a sum of absolute residuals, no gradient vanishes. The minima of the rounded
losses tend to that of the loss itself, and each is one that second derivatives can prove.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from autodiff_cli.graph.node import Node, variable
from autodiff_cli.graph.tape import Tape, rebuild
from autodiff_cli.ops.arithmetic import abs_
from autodiff_cli.ops.elementary import hypot


class Rounded(NamedTuple):
    """Graphs whose corners are rounded.

    Attributes:
        graphs: the same with `hypot(u, e)` for `abs(u)`.
        corners: each `abs(u)` of the graphs before.
        radii: the names of the leaves e, one for each.
    """

    graphs: list[Node]
    corners: list[Node]
    radii: list[str]


def rounded(graphs: Sequence[Node], parameters: Collection[Node]) -> Rounded:
    """Round the corners that depend on parameters.

    >>> a = variable("a")
    >>> rounded([abs_(a - 1), abs_(variable("x"))], {a}).radii
    ['radius 0']
    """
    tape = Tape(graphs, wrt=parameters)
    corners = [node for node, reached in zip(tape.nodes, tape.reached, strict=True) if node.op is abs_ and reached]
    radii = [f"radius {k}" for k in range(len(corners))]  # no name in a text has a blank
    made: dict[Node, Node] = {}
    for corner, radius in zip(corners, radii, strict=True):
        (inner,) = rebuild(corner.inputs, made)
        made[corner] = hypot(inner, variable(radius))
    return Rounded(rebuild(graphs, made), corners, radii)

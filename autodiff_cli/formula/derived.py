"""The derivatives of a formula as formulas. They have most of their parts in common, so they are tidied together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from autodiff_cli.algebra.readable import readable
from autodiff_cli.algebra.simplify import simplify
from autodiff_cli.graph.node import Node


class Derived:
    """All first derivatives of one formula.

    Args:
        gradient: the derivatives by variable, as the reverse sweep makes them.
        symbols: the variables in the order in which products are written.
        scalar: whether everything is a number.
    """

    def __init__(self, gradient: Mapping[str, Node], symbols: tuple[str, ...], scalar: bool) -> None:
        self._gradient = gradient
        self._symbols = symbols
        self._scalar = scalar

    @cached_property
    def slopes(self) -> dict[str, Node]:
        """The derivatives, simplified, by variable."""
        return dict(zip(self._gradient, simplify(list(self._gradient.values()), scalar=self._scalar), strict=True))

    def written(self, slope: Node) -> Node:
        """What is printed for one of them."""
        if self._scalar:
            return self._written[slope]
        return readable([slope], self._symbols, scalar=False)[0]

    @cached_property
    def _written(self) -> dict[Node, Node]:
        slopes = list(self.slopes.values())
        return dict(zip(slopes, readable(slopes, self._symbols), strict=True))

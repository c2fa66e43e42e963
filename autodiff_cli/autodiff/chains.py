"""Chains: what hangs together by one kind of operation, as a + (b - c) + d does by sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from autodiff_cli.graph.node import Node
from autodiff_cli.ops.arithmetic import add, div, mul, neg, sub

_SUMS, _PRODUCTS = frozenset({add, sub}), frozenset({mul, div})


def find_chains(order: Sequence[Node], spread: bool) -> tuple[set[Node], set[Node]]:
    """The nodes that are sums, and those that are links: used once, by an operation of their own kind.

    A negation is of the kind of its only user; else it is a product.

    Args:
        order: the nodes of a graph in topological order.
        spread: whether there are to be links at all.
    """
    uses = Counter(child for node in order for child in node.inputs)
    sums: set[Node] = set()
    links: set[Node] = set()
    for node in reversed(order):
        if node.op in _SUMS:
            sums.add(node)
        elif node.op not in _PRODUCTS and node.op is not neg:
            continue
        kind = _SUMS if node in sums else _PRODUCTS
        for child in node.inputs if spread else ():
            if uses[child] == 1 and (child.op in kind or child.op is neg):
                links.add(child)
                if kind is _SUMS:
                    sums.add(child)
    return sums, links

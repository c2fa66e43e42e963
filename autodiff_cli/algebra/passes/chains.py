"""Chains: what hangs together by one kind of operation, as a + (b - c) + d does by sums."""

from __future__ import annotations

from collections.abc import Sequence

from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Op
from autodiff_cli.ops.arithmetic import add, div, mul, neg, sub

_SUMS, _PRODUCTS = frozenset({add, sub}), frozenset({mul, div, neg})
_OTHERS: frozenset[Op] = frozenset()


def find_chains(order: Sequence[Node], roots: Sequence[Node], spread: bool) -> tuple[set[Node], set[Node]]:
    """The nodes that are sums, and those that are links: no formula uses them twice, and all their users are operations
    of their own kind.

    A negation is of the kind of its users; else it is a product.

    Args:
        order: the nodes of the formulas in topological order.
        roots: the formulas. What two of them share is not used twice; a root is no link.
        spread: whether there are to be links at all.
    """
    needed = dict.fromkeys(order, 0)  # by which formulas: a bit for each
    for i, root in enumerate(roots):
        needed[root] |= 1 << i
    users: dict[Node, frozenset[Op]] = {}
    apart = set(roots)
    sums: set[Node] = set()
    links: set[Node] = set()
    for node in reversed(order):
        op = node.op
        if op is None:
            continue
        kind = _SUMS if op in _SUMS else _PRODUCTS if op in _PRODUCTS else _OTHERS
        if spread and node not in apart and (kind is users[node] or op is neg) and users[node] is not _OTHERS:
            kind = users[node]
            links.add(node)
        if kind is _SUMS:
            sums.add(node)
        bits = needed[node]
        for child in node.inputs:
            if needed[child] & bits or users.setdefault(child, kind) is not kind:
                apart.add(child)
            needed[child] |= bits
    return sums, links

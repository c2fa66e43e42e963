"""Every path from a variable to the output, and what each contributes to the gradient.

A path's contribution is the product of the local derivatives along it; the gradient is the sum over all paths. There
can be 2^300 of them, so they are counted and summed by a single pass and listed largest first, one by one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from autodiff_cli.explain.record import Trace
from autodiff_cli.language.errors import ExpressionError

# In the order of paths, which is by logarithms, what has none: a structural zero, 0, and an infinity or nan. They are
# finite so that sums of them have an order too.
_ABSENT, _ZERO, _ENDLESS = -1e12, -1e6, 1e6


class Edge(NamedTuple):
    """A use of a node: by which other node, and at which rate the user changes with it.

    The rate is the local derivative; None where structurally nothing passes: the branch not taken, a literal zero
    factor.
    """

    user: int
    local: float
    rate: float | None


class Path(NamedTuple):
    """One way from a variable to the output.

    Attributes:
        nodes: from the variable to the output.
        rates: the local derivative of every edge, in the same order.
        product: the product of the rates; exactly 0 if structurally nothing passes on one of the edges.
    """

    nodes: tuple[int, ...]
    rates: tuple[float, ...]
    product: float


class Paths(NamedTuple):
    """The paths from one variable.

    Attributes:
        total: how many there are in all.
        listed: those with the largest products, largest first.
        rest: the sum of the products of all others.
    """

    name: str
    total: int
    listed: list[Path]
    rest: float

    @property
    def left(self) -> int:
        """How many are not listed."""
        return self.total - len(self.listed)


class Network:
    """The edges of a trace, with what one pass from the output down finds out about the paths from every node on.

    Raises:
        ExpressionError: for a trace with arrays, whose local derivatives are no numbers.
    """

    def __init__(self, trace: Trace) -> None:
        if not trace.is_scalar:
            raise ExpressionError("paths multiply numbers, and this formula has arrays; write it with numbers only")
        self._trace = trace
        count = len(trace.tape)
        self._users: list[list[Edge]] = [[] for _ in range(count)]
        self._counts = [0] * count
        self._best: list[Edge | None] = [None] * count  # where the largest path goes on
        self._weights = [0.0] * count  # the logarithm of its product
        self._counts[trace.tape.outputs[0]] = 1
        for i in range(count - 1, -1, -1):
            self._choose(i)
            for edge, j in self._edges_below(i):
                self._users[j].append(edge)
                self._counts[j] += self._counts[i]

    def from_variable(self, name: str, limit: int) -> Paths:
        """The paths from a variable, of which `limit` are listed."""
        start = self._trace.tape.index.get(self._trace.expression.leaves[name])
        if start is None or not self._trace.tape.reached[start]:
            return Paths(name, 0, [], 0.0)
        listed, rest = self._largest(start, limit)
        paths = sorted((_path(start, edges) for edges in listed), key=_size, reverse=True)
        return Paths(name, self._counts[start], paths, rest)

    def _edges_below(self, i: int) -> Iterator[tuple[Edge, int]]:
        """The edges that end at a node, each with the input that it begins at."""
        for given in self._trace.handed[i]:
            yield Edge(i, given.local, None if given.is_nothing else given.local), given.to

    def _choose(self, i: int) -> None:
        """Find out how the largest path from a node goes on, once all its users have."""
        if self._users[i]:
            best = max(self._users[i], key=self._weight)
            self._best[i], self._weights[i] = best, self._weight(best)

    def _weight(self, edge: Edge) -> float:
        """The logarithm of the size of the largest product from an edge on."""
        return _logarithm(edge.rate) + self._weights[edge.user]

    def _largest(self, start: int, limit: int) -> tuple[list[list[Edge]], float]:
        """The `limit` largest paths from a node, as edges, and the sum of the products of all others.

        The largest path of a class is known, so the largest class gives the next path, and what is left of the class is
        split into smaller ones by where they leave that path: Lawler 1972, "A procedure for computing the k best
        solutions". Ties cost nothing, and what the classes that are left sum to is what the paths that are left do.
        """
        found: list[list[Edge]] = []
        classes = [_Class(-self._weights[start], 0, [], 0, None, 1.0, 0.0)]
        made = itertools.count(1)
        while classes and len(found) < limit:
            largest = heappop(classes)
            found.append(largest.beginning)
            for remaining in self._without_largest(start, largest, found[-1], made):
                heappush(classes, remaining)
        return found, sum((self._sum(start, remaining) for remaining in classes), 0.0)

    def _without_largest(self, start: int, divided: _Class, edges: list[Edge], made: Iterator[int]) -> Iterator[_Class]:
        """Divide the paths of a class, without the largest, by where they leave it.

        Args:
            edges: the beginning that they share; it is extended to that largest path.
            made: numbers for the classes, in order.
        """
        node = edges[-1].user if edges else start
        product, weight = divided.product, divided.weight
        while (following := self._best[node]) is not None:
            for edge in self._users[node]:
                if edge is not following:
                    size, beyond = weight + self._weight(edge), weight + _logarithm(edge.rate)
                    yield _Class(-size, next(made), edges, len(edges), edge, _times(product, edge.rate), beyond)
            edges.append(following)
            node = following.user
            product, weight = _times(product, following.rate), weight + _logarithm(following.rate)

    def _sum(self, start: int, remaining: _Class) -> float:
        """The sum of the products of all paths of a class."""
        node = start if remaining.leaving is None else remaining.leaving.user
        arrived = self._trace.arrived[node]
        return 0.0 if remaining.product is None or arrived is None else remaining.product * arrived


class _Class(NamedTuple):
    """Paths that share a beginning: the first `kept` edges of `followed`, then the edge `leaving`.

    Ordered by `size` (minus the logarithm of the largest product), those made first before others.

    Attributes:
        product: of the shared beginning; None where structurally nothing passes. `weight` is its logarithm.
    """

    size: float
    made: int
    followed: list[Edge]
    kept: int
    leaving: Edge | None
    product: float | None
    weight: float

    @property
    def beginning(self) -> list[Edge]:
        """The edges that all of them begin with."""
        edges = self.followed[: self.kept]
        return edges if self.leaving is None else [*edges, self.leaving]


def _path(start: int, edges: list[Edge]) -> Path:
    """The path along some edges. Its product is multiplied in the order of the reverse pass."""
    product: float | None = 1.0
    for edge in reversed(edges):
        product = _times(product, edge.rate)
    nodes = (start, *(edge.user for edge in edges))
    return Path(nodes, tuple(edge.local for edge in edges), product or 0.0)


def _times(product: float | None, rate: float | None) -> float | None:
    return None if product is None or rate is None else rate * product


def _logarithm(rate: float | None) -> float:
    if rate is None:
        return _ABSENT
    return math.log(abs(rate)) if rate and math.isfinite(rate) else _ENDLESS if rate else _ZERO


def _size(path: Path) -> float:
    """By what listed paths are ordered; what is not a number comes first."""
    return math.inf if math.isnan(path.product) else abs(path.product)

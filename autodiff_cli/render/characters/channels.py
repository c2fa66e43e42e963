"""Lines through a channel between two columns of boxes, as on a circuit board (Hashimoto and Stevens, 1971).

Each line comes in a row from the left, turns into one vertical track, and leaves in some rows to the right.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from typing import NamedTuple


class Crossing(NamedTuple):
    """A line that crosses a channel: the row in which it comes, the rows in which it leaves. No two lines of a channel
    come in the same row, or leave in the same row."""

    entry: int
    exits: tuple[int, ...]

    @property
    def is_straight(self) -> bool:
        """Whether it needs no track."""
        return all(row == self.entry for row in self.exits)

    @property
    def span(self) -> tuple[int, int]:
        """The first and the last row of its vertical part."""
        return min(self.entry, *self.exits), max(self.entry, *self.exits)

    @property
    def rank(self) -> tuple[int, int]:
        """Which lines turn first, so that few cross: of those that go up the highest, of those that go down the
        lowest."""
        top, bottom = self.span
        return (self.entry if self.entry - top > bottom - self.entry else -self.entry), self.entry


def tracks(lines: Sequence[Crossing]) -> dict[Crossing, int] | None:
    """A track for each line that is not straight, counted from the left, so that lines at most cross.

    Where a line leaves in the row in which another comes, the other must turn before it, or they would share that row.
    These demands may form a circle; then the answer is None, and one side of the channel has to move.
    """
    coming = {line.entry: line for line in lines if not line.is_straight}
    later: dict[Crossing, set[Crossing]] = {line: set() for line in coming.values()}
    for line in coming.values():
        for row in line.exits:
            if coming.get(row, line) is not line:
                later[coming[row]].add(line)
    waiting_for = dict.fromkeys(later, 0)
    for line in itertools.chain.from_iterable(later.values()):
        waiting_for[line] += 1
    ready = [line.rank for line, count in waiting_for.items() if not count]
    heapq.heapify(ready)
    least = dict.fromkeys(later, 0)
    taken: list[list[tuple[int, int]]] = []
    found: dict[Crossing, int] = {}
    while ready:
        line = coming[heapq.heappop(ready)[1]]
        found[line] = track = _first_free(taken, line.span, least[line])
        for other in later[line]:
            least[other] = max(least[other], track + 1)
            waiting_for[other] -= 1
            if not waiting_for[other]:
                heapq.heappush(ready, other.rank)
    return found if len(found) == len(later) else None


def _first_free(taken: list[list[tuple[int, int]]], span: tuple[int, int], least: int) -> int:
    """The first track from `least` on that is free in all rows of a span, which it takes."""
    top, bottom = span
    track = least
    while track < len(taken) and any(top <= last and first <= bottom for first, last in taken[track]):
        track += 1
    taken.extend([] for _ in range(track + 1 - len(taken)))
    taken[track].append(span)
    return track

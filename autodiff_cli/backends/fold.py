"""Rows fall into blocks, and what was computed for each block is combined, always in the same order: a fold.

The order depends on the number of parts alone, not on who computed them or when, so that every way to share the work
gives the same result to the last bit. It is that of a balanced tree, in which rounding errors grow with the logarithm
of the number of parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def slices(rows: int, size: int) -> Iterator[slice]:
    """The blocks that `rows` rows fall into, of `size` rows each; the last has what is left.

    >>> [*slices(5, 2)]
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def fold(parts: Iterable[T], combine: Callable[[T, T], T]) -> T:
    """Combine the parts with an associative operation. Holds as many as the tree is deep at a time.

    Raises ValueError if there is no part.

    >>> fold("abcdefg", lambda left, right: f"({left}{right})")
    '(((ab)(cd))((ef)g))'
    """
    waiting: list[tuple[int, T]] = []  # (parts in it, their combination), the largest first
    for part in parts:
        size = 1
        while waiting and waiting[-1][0] == size:
            part = combine(waiting.pop()[1], part)
            size *= 2
        waiting.append((size, part))
    if not waiting:
        raise ValueError("nothing to combine")
    _, total = waiting.pop()
    while waiting:
        total = combine(waiting.pop()[1], total)
    return total

"""What pure functions gave last, so that a fit of the same model again does not begin anew."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Memo(threading.local, Generic[T]):
    """The results for the keys that were asked for last. Each thread has its own, for what is no business of two.

    >>> memo = Memo(2)
    >>> [memo.of(key, lambda: key.upper()) for key in "aba"]
    ['A', 'B', 'A']
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: OrderedDict[Hashable, T] = OrderedDict()

    def of(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result for a key; made, if it is not there. What making raises is not kept."""
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = make()
            while len(self._found) > self._most:
                self._found.popitem(last=False)
        else:
            self._found.move_to_end(key)
        return found

    def forget(self) -> None:
        """Keep nothing."""
        self._found.clear()

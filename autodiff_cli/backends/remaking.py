"""Kernels in other processes: a kernel pickles as what it was made of, and is made again where it arrives, once.

What a kernel is in memory, plans and machine code, means nothing elsewhere; the graphs that it was made of do. Its
results have the same bits wherever it is made, given vectors of one width.
"""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import Any

_MOST = 64  # kernels that a process keeps; of more the one goes that has not been asked for longest

_kept: OrderedDict[tuple[str, int], Any] = OrderedDict()
_making = threading.Lock()
_threads: int | None = None


class Recipe:
    """What a kernel is made of.

    Args:
        make: a function of a module, or a class.
        arguments: what it takes; all of this can be pickled.
        shared: whether threads may have one kernel together, as they wait for one another; else each has its own.
    """

    def __init__(self, make: Callable[..., Any], *arguments: Any, shared: bool) -> None:
        self._content = make, arguments
        self._is_shared = shared

    @property
    def is_shared(self) -> bool:
        """Whether threads may have one kernel together."""
        return self._is_shared

    @cached_property
    def reduced(self) -> tuple[Any, ...]:
        """For `__reduce__` of the kernel. Graphs are flattened once, however often it is pickled."""
        content = pickle.dumps(self._content)
        return _remade, (hashlib.blake2b(content, digest_size=16).digest(), self._is_shared, content)


def use_threads(count: int | None) -> None:
    """Let kernels that are made again in this process run on so many threads at most; None for all cores."""
    global _threads
    _threads = count


def threads() -> int | None:
    """How many that are."""
    return _threads


def is_shared(kernel: Any) -> bool:
    """Whether a kernel that was made again is one for all threads, and runs on several itself."""
    recipe = getattr(kernel, "recipe", None)
    return isinstance(recipe, Recipe) and recipe.is_shared


def kept() -> int:
    """How many kernels were made again in this process, and are kept."""
    return len(_kept)


def _remade(digest: bytes, shared: bool, content: bytes) -> Any:
    key = digest.hex(), 0 if shared else threading.get_ident()
    with _making:
        kernel = _kept.pop(key, None)
        if kernel is None:
            make, arguments = pickle.loads(content)
            kernel = make(*arguments)
        _kept[key] = kernel
        if len(_kept) > _MOST:
            _kept.popitem(last=False)
    return kernel

"""One thread for NumPy's linear algebra where bits count.

OpenBLAS adds up in another order on other numbers of threads, so that the factorization of a block of many columns
would depend on the machine. Blocks are small enough for one thread to be as fast.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

_FOLDERS = ("../numpy.libs", ".dylibs", ".libs")  # beside NumPy, or within: what wheels carry
_SUFFIXES = ("64_", "_64", "")
_lock = threading.Lock()
_inside = 0
_before = 0


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Within, NumPy's linear algebra has one thread, in all threads of the process.

    Where NumPy has a library of another kind nothing happens.
    """
    global _inside, _before
    found = _library()
    if found is None:
        yield
        return
    get, put = found
    with _lock:
        if not _inside:
            _before = get()
            put(1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                put(_before)


@functools.cache
def _library() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """What says how many threads NumPy's OpenBLAS has, and what changes it."""
    home = Path(np.__file__).parent
    for path in (file for folder in _FOLDERS for file in sorted((home / folder).glob("*openblas*"))):
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        for prefix in ("scipy_", ""):
            for suffix in _SUFFIXES:
                get, put = (
                    getattr(library, f"{prefix}openblas_{verb}_num_threads{suffix}", None) for verb in ("get", "set")
                )
                if get is not None and put is not None:
                    return get, put
    return None

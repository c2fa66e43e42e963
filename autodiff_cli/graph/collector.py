"""Pausing the garbage collector while something large is built."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Build without the collector. Nearly all that building a graph or a tape makes is kept; looking through it for
    garbage again and again takes as long as the building."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()

"""What libraries take: threads, and what they reserve, used or not, which limits of addresses or of data count."""

from __future__ import annotations

import contextlib
import os

_SPIN = "18"  # the binary logarithm of cycles: a tenth of a millisecond
_ARENAS = -8  # M_ARENA_MAX of glibc


def has_limits() -> bool:
    """Whether this process has a limit of addresses or of data (`ulimit -v`, `ulimit -d`)."""
    try:
        import resource
    except ImportError:  # not on Windows
        return False
    limits = (resource.getrlimit(what)[0] for what in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    return any(limit != resource.RLIM_INFINITY for limit in limits)


def before_libraries() -> None:
    """Before NumPy is imported by a program of ours: its threads are to sleep when they have nothing to do.

    OpenBLAS lets them spin for 25 ms after its start and after each product, on the core that others could use.
    """
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", _SPIN)
    reserve_little()


def reserve_little() -> None:
    """Where there is a limit, let no library reserve memory for each thread: before NumPy is imported, if that can be.

    Arenas of glibc take 64 MB of addresses each, and OpenBLAS has space for every thread it could use.
    """
    if not has_limits():
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with contextlib.suppress(OSError, AttributeError):  # another library of C
        import ctypes

        ctypes.CDLL(None).mallopt(_ARENAS, 1)

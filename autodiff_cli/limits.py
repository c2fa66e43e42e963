"""Resource use of libraries: the threads they start, and the memory they reserve under limits such as `ulimit -v`."""

from __future__ import annotations

import contextlib
import os

_SPIN_TIMEOUT_LOG2 = "18"  # binary logarithm of clock cycles, about 0.1 ms, after which an idle thread sleeps
_M_ARENA_MAX = -8  # the parameter of glibc's `mallopt` for the number of arenas


def has_memory_limits() -> bool:
    """Whether this process has a limit on its address space or its data (`ulimit -v`, `ulimit -d`)."""
    try:
        import resource
    except ImportError:  # not on Windows
        return False
    limits = (resource.getrlimit(resource_kind)[0] for resource_kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    return any(limit != resource.RLIM_INFINITY for limit in limits)


def configure_libraries() -> None:
    """Make idle threads of OpenBLAS sleep, and Arrow return free memory. Call this before NumPy is imported.

    By default these threads spin for 25 ms after start-up and after each matrix product, and occupy cores that others
    could use. Arrow's own allocator keeps memory for itself, and reserves more than 100 MB of addresses.
    """
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", _SPIN_TIMEOUT_LOG2)
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    limit_reservations()


def limit_reservations() -> None:
    """Under a memory limit, stop libraries from reserving memory for each thread. Call this before NumPy is imported.

    Each arena of glibc takes 64 MB of address space, and OpenBLAS reserves buffers for every thread it could start.
    """
    if not has_memory_limits():
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with contextlib.suppress(OSError, AttributeError):  # the C library is not glibc
        import ctypes

        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)

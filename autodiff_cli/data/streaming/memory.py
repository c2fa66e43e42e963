"""How much memory this process may still have."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from autodiff_cli.limits import has_limits, reserve_little

_PROC = Path("/proc")
_GROUPS = Path("/sys/fs/cgroup")
# Bytes that a fit takes where reserved addresses count: readers, threads, compiled code, what libraries of linear
# algebra set aside.
RESERVED = 288 << 20
_UNLIMITED = 1 << 62  # a group's limit beyond it is none


def available(proc: Path = _PROC, groups: Path = _GROUPS) -> int | None:
    """Bytes that this process can still use: the least of what the machine has left, what its control groups (of either
    version) leave, and its own limits of addresses and of data. None where nothing is known.
    """
    known = [*_machine(proc), *_by_groups(proc, groups), *_by_limits(proc)]
    return max(0, min(known)) if known else None


def keep_to_limits() -> None:
    """Where this process has a limit of its own, let libraries take memory as needed, no addresses in advance."""
    if not has_limits():
        return
    import pyarrow as pa
    import pyarrow.compute

    reserve_little()
    pa.set_memory_pool(pa.system_memory_pool())
    pa.set_io_thread_count(1)


def _machine(proc: Path) -> Iterator[int]:
    """What the machine could give without swapping."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in (proc / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                yield int(line.split()[1]) * 1024
                return
    with contextlib.suppress(OSError, ValueError, AttributeError):
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _by_groups(proc: Path, groups: Path) -> Iterator[int]:
    """What each group that the process is in leaves. Files in its cache can make room, but for those in use."""
    with contextlib.suppress(OSError):
        for line in (proc / "self" / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                names, roots = ("memory.max", "memory.current", "inactive_file"), [groups, groups / "unified"]
            elif "memory" in controllers.split(","):
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
                roots = [groups / "memory"]
            else:
                continue
            inside = Path(path.lstrip("/"))
            # In a container the path may be that outside of it, and the root that of the group itself.
            for root in roots:
                for folder in (inside, *inside.parents):
                    yield from _left(root / folder, *names)


def _left(folder: Path, limit: str, used: str, reclaimable: str) -> Iterator[int]:
    with contextlib.suppress(OSError, ValueError):  # ValueError: `max`, no limit
        most = int((folder / limit).read_text())
        if most < _UNLIMITED:
            stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            yield most - int((folder / used).read_text()) + int(stat.get(reclaimable, 0))


def _by_limits(proc: Path) -> Iterator[int]:
    """What `ulimit -v` and `ulimit -d` leave."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    try:
        pages = [int(word) for word in (proc / "self" / "statm").read_text().split()]
    except (OSError, ValueError):
        return
    size = resource.getpagesize()
    for what, used in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
        most, _ = resource.getrlimit(what)
        if most != resource.RLIM_INFINITY:
            yield most - used * size

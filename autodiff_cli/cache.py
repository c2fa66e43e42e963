"""The cache: what can be computed again, kept in a folder of the user's own.

An entry is a name and bytes. What is loaded is what was stored under that name, to the last bit, or nothing: each entry
carries a hash of its name and content. Whatever is wrong (a damaged entry, a full disk, a folder that others can write
to) makes an entry that is not there, never an error, so callers compute again and go on. With `AUTODIFF_CACHE=off` in
the environment nothing is read and no file is written.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from pathlib import Path

LARGEST = 16 * 2**20  # bytes of one entry
MOST = 64 * 2**20  # bytes of all entries; beyond that the oldest go

_UNFINISHED = ".part"
_ABANDONED = 3600  # seconds after which an unfinished entry is no longer being written
_HASH = hashlib.sha256
# A pipe in the place of an entry must not keep its reader waiting.
_READING = os.O_RDONLY | sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
_WRITING = os.O_WRONLY | os.O_CREAT | os.O_EXCL | sum(getattr(os, flag, 0) for flag in ("O_CLOEXEC", "O_BINARY"))


def entry_name(kind: str, *parts: str) -> str:
    """The name of an entry of this kind that depends on the parts, and on nothing else.

    >>> entry_name("tables", "a grammar") == entry_name("tables", "a grammar")
    True
    >>> entry_name("tables", "a", "b") == entry_name("tables", "ab")
    False
    """
    digest = _HASH(repr(parts).encode()).hexdigest()
    return f"{kind}-{digest[:32]}"


def load(name: str) -> bytes | None:
    """What was stored under this name; None if nothing is, or not what was stored.

    An entry is read only if it is an ordinary file of this user that nobody else can write to.

    >>> load("a name under which nothing was stored") is None
    True
    """
    folder = cache_folder()
    if folder is None:
        return None
    try:
        descriptor = os.open(folder / name, _READING)
        with open(descriptor, "rb") as stream:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or not _is_private(status) or status.st_size > LARGEST:
                return None
            found = stream.read(status.st_size)
    except OSError:
        return None
    size = _HASH().digest_size
    digest, content = found[:size], found[size:]
    return content if digest == _digest(name, content) else None


def store(name: str, content: bytes) -> None:
    """Keep bytes under a name, in the place of what was there. Readers see the old entry or the new one, never a part.

    What is too large, or cannot be written, is not kept.
    """
    folder = cache_folder()
    if folder is None or len(content) > LARGEST - _HASH().digest_size:
        return
    part = folder / f".{name}.{os.urandom(4).hex()}{_UNFINISHED}"
    try:
        with open(os.open(part, _WRITING, 0o600), "wb") as stream:
            stream.write(_digest(name, content) + content)
        part.replace(folder / name)
        _make_room(folder, folder / name)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()


def cache_folder() -> Path | None:
    """The folder of the cache, made if it is not there; None if caching is off or the folder cannot be trusted.

    It is `autodiff` in `$XDG_CACHE_HOME` or `~/.cache`. It has to belong to the user; nobody else may write to it.
    """
    if os.environ.get("AUTODIFF_CACHE") == "off":
        return None
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME", ""))
        folder = (base if base.is_absolute() else Path.home() / ".cache") / "autodiff"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except (OSError, RuntimeError):  # Path.home() raises the latter for a user without a home
        return None
    return folder if stat.S_ISDIR(status.st_mode) and _is_private(status) else None


def _is_private(status: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user and can be written by nobody else."""
    mine = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    return mine and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _digest(name: str, content: bytes) -> bytes:
    return _HASH(name.encode() + b"\0" + content).digest()


def _make_room(folder: Path, newest: Path) -> None:
    """Remove the oldest entries until the others are within the limit, and what was never finished."""
    entries = []
    for path in folder.iterdir():
        status = path.lstat()
        if path.name.endswith(_UNFINISHED):
            if status.st_mtime < time.time() - _ABANDONED:
                path.unlink(missing_ok=True)
        elif stat.S_ISREG(status.st_mode) and path != newest:
            entries.append((status.st_mtime, status.st_size, path))
    room = MOST - newest.lstat().st_size
    for _, size, path in sorted(entries, reverse=True):
        room -= size
        if room < 0:
            path.unlink(missing_ok=True)

"""Services of the operating system: a folder for cached results, limits of memory and threads, and
files that are written completely or not at all.

The cache on disk holds results that can be computed again. An entry is a name and bytes, stored with a hash of both:
`load` returns exactly what was stored, or nothing. A damaged entry, a full disk, or a folder that other users can write
to makes an entry missing, and never raises an error; the caller computes the result again. With `AUTODIFF_CACHE=off` in
the environment, nothing is read or written.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, TextIO

MAX_ENTRY_BYTES = 16 * 2**20  # bytes of one entry; larger results are not stored
MAX_CACHE_BYTES = 64 * 2**20  # bytes of all entries; beyond this, the oldest are removed

_PARTIAL_SUFFIX = ".part"
_ABANDONED_SECONDS = 3600  # a partial entry that is older than this was left by a process that died
_HASH = hashlib.sha256
# Without blocking, so that a pipe in place of an entry cannot make its reader wait forever.
_READ_FLAGS = os.O_RDONLY | sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | sum(getattr(os, flag, 0) for flag in ("O_CLOEXEC", "O_BINARY"))


def entry_name(kind: str, *parts: str) -> str:
    """Return the name of an entry, which depends on its kind and on the parts only.

    >>> entry_name("tables", "a grammar") == entry_name("tables", "a grammar")
    True
    >>> entry_name("tables", "a", "b") == entry_name("tables", "ab")
    False
    """
    return f"{kind}-{_HASH(repr(parts).encode()).hexdigest()[:32]}"


def load(name: str) -> bytes | None:
    """Return the bytes that were stored under a name; None if there are none, or if they are damaged.

    An entry is read only if it is a regular file of this user that no other user can write to.

    >>> load("a name under which nothing was stored") is None
    True
    """
    folder = cache_folder()
    if folder is None:
        return None
    try:
        descriptor = os.open(folder / name, _READ_FLAGS)
        with open(descriptor, "rb") as stream:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or not _is_private(status) or status.st_size > MAX_ENTRY_BYTES:
                return None
            data = stream.read(status.st_size)
    except OSError:
        return None
    size = _HASH().digest_size
    digest, content = data[:size], data[size:]
    return content if digest == _digest(name, content) else None


def store(name: str, content: bytes) -> None:
    """Store bytes under a name, and replace an older entry. Readers see the old entry or the new one, never a part.

    Bytes that are too many, or cannot be written, are silently not stored.
    """
    folder = cache_folder()
    if folder is None or len(content) > MAX_ENTRY_BYTES - _HASH().digest_size:
        return
    part = folder / f".{name}.{os.urandom(4).hex()}{_PARTIAL_SUFFIX}"
    try:
        with open(os.open(part, _WRITE_FLAGS, 0o600), "wb") as stream:
            stream.write(_digest(name, content) + content)
        part.replace(folder / name)
        _evict_oldest(folder, folder / name)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()


class CacheUnavailableError(Exception):
    """No cache can be used; the message gives the reason."""


def cache_folder() -> Path | None:
    """Return the folder of the cache, and create it if it is missing; None if there is no cache."""
    try:
        return open_cache_folder()
    except CacheUnavailableError:
        return None


def open_cache_folder() -> Path:
    """Return the folder of the cache, and create it if it is missing.

    On Linux it is `autodiff` in `$XDG_CACHE_HOME` or `~/.cache`, elsewhere the place that the system recommends. It
    must belong to the user, and no other user may write to it.

    Raises:
        CacheUnavailableError: if caching is off, or the folder cannot be made or is unsafe.
    """
    if os.environ.get("AUTODIFF_CACHE") == "off":
        raise CacheUnavailableError("AUTODIFF_CACHE is off")
    try:
        folder = _user_cache_folder()
    except RuntimeError as error:  # a user without a home folder
        raise CacheUnavailableError(str(error)) from None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise CacheUnavailableError(f"{folder}: {error_reason(error)}") from None
    if not stat.S_ISDIR(status.st_mode):
        raise CacheUnavailableError(f"{folder} is not a folder")
    if not _is_private(status):
        raise CacheUnavailableError(f"{folder} belongs to another user, or others can write to it")
    return folder


def _user_cache_folder() -> Path:
    if sys.platform != "linux":
        from platformdirs import user_cache_path

        return user_cache_path("autodiff", appauthor=False)
    # platformdirs would return the same, but its import takes a tenth of the start-up time
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "autodiff"


def _is_private(status: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user, and no other user can write to it.

    Windows has no such bits: the folder is in the user's profile, whose access list protects it.
    """
    if sys.platform == "win32":
        return True
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _digest(name: str, content: bytes) -> bytes:
    return _HASH(name.encode() + b"\0" + content).digest()


def _evict_oldest(folder: Path, newest: Path) -> None:
    """Remove the oldest entries until the rest is within `MAX_CACHE_BYTES`, and partial entries that were abandoned.

    Raises:
        OSError: also if another process removes an entry at the same time; the next call continues.
    """
    entries = []
    for path in folder.iterdir():
        status = path.lstat()
        if path.name.endswith(_PARTIAL_SUFFIX):
            if status.st_mtime < time.time() - _ABANDONED_SECONDS:
                path.unlink()
        elif stat.S_ISREG(status.st_mode) and path != newest:
            entries.append((status.st_mtime, status.st_size, path))
    room = MAX_CACHE_BYTES - newest.lstat().st_size
    for _, size, path in sorted(entries, reverse=True):
        room -= size
        if room < 0:
            path.unlink()


# --- Limits of memory and threads ---

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


@contextlib.contextmanager
def keep_memory_free(size: int) -> Iterator[None]:
    """Under a memory limit, keep at least `size` bytes free in this context: allocations that need them fail.

    Raises OSError if there is less already.
    """
    if not has_memory_limits():
        yield
        return
    import mmap

    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS):
        yield


# --- Atomic writing of files: a file is written completely or not changed at all ---

# Bytes that are not UTF-8 were read as surrogates; they are written back unchanged.
_TEXT_MODE: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape", "newline": ""}


def open_atomic_text(path: str | os.PathLike[str]) -> AbstractContextManager[TextIO]:
    """Open a text stream that replaces the file at `path` when the block ends; after an exception the old file is
    unchanged.

    The new file gets the owner and permissions of the old one, as far as the system allows. Pipes and devices such as
    `/dev/stdout` are written directly; a named pipe waits for its reader.

    Raises:
        OSError: if the file cannot be written.
    """
    return _open_atomic(path, "", _TEXT_MODE)


def open_atomic_bytes(path: str | os.PathLike[str]) -> AbstractContextManager[IO[bytes]]:
    """Open a binary stream that replaces the file at `path` when the block ends; see `open_atomic_text`."""
    return _open_atomic(path, "b", {})


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file, which is replaced as a whole. Raises OSError; see `open_atomic_text`."""
    with open_atomic_text(path) as stream:
        stream.write(text)


@contextlib.contextmanager
def _open_atomic(path: str | os.PathLike[str], kind: str, options: Mapping[str, Any]) -> Iterator[Any]:
    """Open a stream to a temporary file and rename that when the block ends."""
    old = _existing_status(path)
    if old is not None and not stat.S_ISREG(old.st_mode):
        with Path(path).open(f"w{kind}", **options) as stream:
            yield stream
        return
    target = Path(os.path.realpath(path))  # replace the target of a symbolic link, not the link
    part = _temporary_path(target)
    try:
        with part.open(f"x{kind}", **options) as stream:
            if old is not None:
                _copy_ownership(stream.fileno(), old)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(target)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename == os.fspath(part):
            error.filename = os.fspath(path)  # the user knows nothing of the temporary file
        raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise OSError if `open_atomic_text` could not write a file. Call it before long work whose result goes there."""
    old = _existing_status(path)
    if old is not None and not stat.S_ISREG(old.st_mode):
        return  # opening and closing a pipe would signal the end of data to its reader
    part = _temporary_path(Path(os.path.realpath(path)))
    part.open("x").close()
    part.unlink()


def read_tables(module: str, name: str) -> dict[str, Any]:
    """Return the tables of a TOML file that stands beside a module, given the path of the module."""
    import tomllib

    return tomllib.loads((Path(module).parent / name).read_text(encoding="utf-8"))


def keys_by_word(table: Mapping[str, str]) -> dict[str, str]:
    """Return the key of each word in the values of a table.

    >>> keys_by_word({"lm": "trf leastsq"})
    {'trf': 'lm', 'leastsq': 'lm'}
    """
    return {word: key for key, words in table.items() for word in words.split()}


def error_reason(error: Exception) -> str:
    """Return the message of an error.

    Messages of the operating system are in lower case, without error number and path. For a file that does not exist,
    the message suggests a file with a similar name.
    """
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    close = _similar_file(str(error.filename)) if isinstance(error, FileNotFoundError) and error.filename else None
    return error.strerror.lower() + (f"; did you mean {close}?" if close else "")


def _similar_file(path: str) -> str | None:
    """Return the file of the same folder whose name, with or without suffix, is most similar to that of a path."""
    import difflib

    folder, name = os.path.split(path)
    files = [*Path(folder).glob("*")]
    spellings = {getattr(file, part).casefold(): file for part in ("stem", "name") for file in files}
    close = difflib.get_close_matches(name.casefold(), spellings, n=1, cutoff=0.8)
    return str(spellings[close[0]]) if close and not os.path.islink(path) else None  # a link may lead nowhere


def _existing_status(path: str | os.PathLike[str]) -> os.stat_result | None:
    """Return the status of an existing file; None if there is none. Raises OSError if it cannot be overwritten."""
    try:
        status = os.stat(os.fspath(path))
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return status


def _copy_ownership(file: int, old: os.stat_result) -> None:
    """Give a new file the owner, group and permissions of the old one, as far as the process may."""
    for owner, group in ((old.st_uid, -1), (-1, old.st_gid)):
        with contextlib.suppress(OSError, AttributeError):  # AttributeError: Windows has no owners
            os.fchown(file, owner, group)
    with contextlib.suppress(OSError, AttributeError):
        os.fchmod(file, stat.S_IMODE(old.st_mode) & 0o777)


def _temporary_path(target: Path) -> Path:
    """Return the path of a temporary file in the same folder: a rename is atomic only within a file system.

    Its name is short even if the target's is long.
    """
    return target.with_name(f".{os.urandom(8).hex()}.part")

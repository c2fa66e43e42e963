"""Files that are either written as a whole or not touched."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, TextIO

# Bytes that were read as surrogates, because they are not UTF-8, are written as they were.
_TEXT: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape", "newline": ""}


def replacing(path: str | os.PathLike[str]) -> AbstractContextManager[TextIO]:
    """A stream of text that becomes the file at `path` when all is written; after an exception the old file stands.

    The new file has the owner and the permissions of the old one, as far as the system lets it. What is no ordinary
    file (a pipe, `/dev/stdout`) is written directly; a named pipe waits for its reader.

    Raises:
        OSError: if it cannot be written.
    """
    return _replacing(path, "", _TEXT)


def replacing_bytes(path: str | os.PathLike[str]) -> AbstractContextManager[IO[bytes]]:
    """The same for a stream of bytes."""
    return _replacing(path, "b", {})


@contextlib.contextmanager
def _replacing(path: str | os.PathLike[str], kind: str, how: Mapping[str, Any]) -> Iterator[Any]:
    old = _standing(path)
    if old is not None and not stat.S_ISREG(old.st_mode):
        with Path(path).open(f"w{kind}", **how) as stream:
            yield stream
        return
    target = Path(os.path.realpath(path))  # a link stays a link
    part = _beside(target)
    try:
        with part.open(f"x{kind}", **how) as stream:
            if old is not None:
                _take_after(stream.fileno(), old)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise OSError if `replacing` has no hope of writing the file: better before an hour of work than after it."""
    old = _standing(path)
    if old is not None and not stat.S_ISREG(old.st_mode):
        return  # opening a pipe to try it would make its reader believe that nothing comes
    part = _beside(Path(os.path.realpath(path)))
    part.open("x").close()
    part.unlink()


def _standing(path: str | os.PathLike[str]) -> os.stat_result | None:
    """What is there already; None for nothing. Raises OSError where that cannot be written over."""
    try:
        found = os.stat(os.fspath(path))
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return found


def _take_after(file: int, old: os.stat_result) -> None:
    """Give a new file the owner, the group and the permissions of the old one, each if we may."""
    for owner, group in ((old.st_uid, -1), (-1, old.st_gid)):
        with contextlib.suppress(OSError, AttributeError):  # the latter where files have no owners
            os.fchown(file, owner, group)
    with contextlib.suppress(OSError, AttributeError):
        os.fchmod(file, stat.S_IMODE(old.st_mode) & 0o777)


def _beside(target: Path) -> Path:
    """A file in the same folder, since only within a file system a file can take another's place at once. Its name is
    short, however long the target's is."""
    return target.with_name(f".{secrets.token_hex(8)}.part")

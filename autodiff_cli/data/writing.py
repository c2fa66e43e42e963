"""Atomic writing of files: a file is written completely or not changed at all."""

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
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise OSError if `open_atomic_text` could not write a file. Call it before long work whose result goes there."""
    old = _existing_status(path)
    if old is not None and not stat.S_ISREG(old.st_mode):
        return  # opening and closing a pipe would signal the end of data to its reader
    part = _temporary_path(Path(os.path.realpath(path)))
    part.open("x").close()
    part.unlink()


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
    """Return the path of a temporary file in the same folder: a rename is atomic only within a file system. Its name is
    short, whatever the length of the target's.
    """
    return target.with_name(f".{secrets.token_hex(8)}.part")

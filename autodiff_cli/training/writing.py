"""Files that are either written as a whole or not touched."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

# Bytes that were read as surrogates, because they are not UTF-8, are written as they were.
_TEXT: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape", "newline": ""}


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """A stream of text that becomes the file at `path` when all is written; after an exception the old file stands.

    What is no ordinary file (a pipe, `/dev/stdout`) is written directly.

    Raises:
        OSError: if it cannot be written.
    """
    target = Path(path).resolve()  # a link stays a link
    if target.exists() and not target.is_file():
        with target.open("w", **_TEXT) as stream:
            yield stream
        return
    part = _beside(target)
    try:
        with part.open("x", **_TEXT) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise OSError if `replacing` has no hope of writing the file: better before an hour of work than after it."""
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        target.open("ab").close()
        return
    part = _beside(target)
    part.open("x").close()
    part.unlink()


def _beside(target: Path) -> Path:
    """A file in the same folder, since only within a file system a file can take another's place at once."""
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")

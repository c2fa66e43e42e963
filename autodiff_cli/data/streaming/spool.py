"""What a pipe gives, kept so that it can be read again: in memory, or on disk where it is long."""

from __future__ import annotations

import io
import os
import stat
import threading
import weakref
from typing import Any, BinaryIO

from autodiff_cli.cache import cache_folder
from autodiff_cli.data.cells import DataError
from autodiff_cli.data.streaming.memory import available

_PIECE = 1 << 20  # bytes that are read at a time
_LOOKED_AT = 64 << 20  # bytes that need no look at how much memory there is
_SHARE = 4  # part of the memory left that the bytes may take


class SpooledBytes:
    """Bytes in a file without a name, which goes with the process."""

    def __init__(self, stream: Any, size: int) -> None:
        self._stream = stream
        self._size = size
        weakref.finalize(self, stream.close)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._size

    def read(self, at: int, count: int) -> bytes:
        """Some of them."""
        with self._lock:
            self._stream.seek(at)
            found: bytes = self._stream.read(count)
            return found


class _Reading(io.RawIOBase):
    """The bytes of a file that others read too, from the start."""

    def __init__(self, content: SpooledBytes) -> None:
        self._content = content
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self._content.read(self._at, len(buffer))
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._content)}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        return self._at


def opened_again(content: bytes | SpooledBytes) -> BinaryIO:
    """A stream of the bytes, from the start."""
    return io.BufferedReader(_Reading(content)) if isinstance(content, SpooledBytes) else io.BytesIO(content)


def all_of(stream: BinaryIO, name: str, *, on_disk: bool = False) -> bytes | SpooledBytes:
    """All bytes of a stream, by steps between which an endless one can be interrupted.

    Args:
        name: for messages.
        on_disk: keep them on disk, also if they are few.

    Raises:
        DataError: where they would have to be on disk, and no file may be written; for a device without an end.
    """
    if _is_device(stream):
        typed = stream.read(_LOOKED_AT)
        if len(typed) == _LOOKED_AT:
            raise DataError(f"{name}: this is a device without an end, not a file of data")
        return typed
    pieces: list[bytes] = []
    size, most = 0, 0 if on_disk else _LOOKED_AT
    for piece in iter(lambda: stream.read(_PIECE), b""):
        pieces.append(piece)
        size += len(piece)
        if size > most:
            left = None if on_disk else available()
            if on_disk or (left is not None and size > left // _SHARE):
                return _spooled(pieces, stream, name)
            most = size + _LOOKED_AT
    return b"".join(pieces)


def _is_device(stream: BinaryIO) -> bool:
    """Whether it is a device such as `/dev/zero`. So are a terminal and `/dev/null`, which give little."""
    try:
        return stat.S_ISCHR(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):  # no file of the system's
        return False


def _spooled(pieces: list[bytes], stream: BinaryIO, name: str) -> SpooledBytes:
    import tempfile

    folder = cache_folder()
    if folder is None:
        raise DataError(
            f"{name}: to be streamed it has to be kept on disk, and the cache is off (AUTODIFF_CACHE=off) or has no "
            "folder; save it to a file, and name that"
        )

    kept: Any = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - it lives as long as what is returned
    try:
        kept.writelines(pieces)
        pieces.clear()
        kept.writelines(iter(lambda: stream.read(_PIECE), b""))
    except OSError as error:
        kept.close()
        raise DataError(f"{name}: it cannot be kept on disk, to be streamed: {error.strerror or error}") from None
    return SpooledBytes(kept, kept.tell())

"""Streams of text that are watched as they are read."""

from __future__ import annotations

import abc
import io
from typing import Any, BinaryIO

LONGEST_LINE = 1 << 26  # bytes
_NEAR = 1 << 10  # bytes in which the end of a line is looked for first


class _Watched(io.RawIOBase):
    """The bytes of another stream.

    Args:
        stream: is not closed with this one.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream: Any = stream

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._stream.seekable())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._stream.seek(offset, whence))

    def readinto(self, buffer: Any) -> int:
        count = int(self._stream.readinto1(buffer))
        self._see(memoryview(buffer)[:count])
        return count

    @abc.abstractmethod
    def _see(self, piece: memoryview) -> None:
        """Look at what is read."""


class BoundedLines(_Watched):
    """A text. Reading a line that is so long that there is none of it in files of data raises OSError, before memory is
    full: few bytes that are zipped may be very many."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(stream)
        self._begun = 0  # bytes of the line that is not read to its end

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._begun = 0
        return super().seek(offset, whence)

    def _see(self, piece: memoryview) -> None:
        for part in (piece[-_NEAR:], piece):  # most lines are short
            end = bytes(part).rfind(b"\n")
            if end >= 0:
                self._begun = len(part) - end - 1
                return
        self._begun += len(piece)
        if self._begun > LONGEST_LINE:
            raise OSError(f"a line is longer than {LONGEST_LINE >> 20} MB, the most there may be")


class CountedQuotes(_Watched):
    """A text.

    Attributes:
        count: how many quotes there were so far.
    """

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(stream)
        self.count = 0

    def _see(self, piece: memoryview) -> None:
        self.count += bytes(piece).count(b'"')

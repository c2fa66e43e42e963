"""Where the bytes of a data file are."""

from __future__ import annotations

import contextlib
import copy
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from autodiff_cli.data.streaming.spool import SpooledBytes, all_of, opened_again
from autodiff_cli.data.streaming.watched import BoundedLines
from autodiff_cli.data.table import DataError

_PIECE = 1 << 20  # bytes that are read at a time
_BUFFER = 1 << 17  # bytes of a text that are read at a time
_SHORT = 1 << 16  # bytes of a file that are read at once without it
_PACKED = 1 << 17  # bytes of a text that are packed to see how short it gets
_LONG = 1 << 18  # bytes of a file of which what pays for many rows is worth loading
_START = 16  # bytes that tell formats apart
_ZIPPED = b"\x1f\x8b"
_WIDE = (b"\xff\xfe", b"\xfe\xff")  # UTF-16
# What the module `csv` says, in words of files.
_IN_WORDS = {
    "new-line character": "a line ends in a carriage return alone; save the file with line feeds",
    "field larger": "a cell is longer than 16 million characters, the most there may be",
}

# What cannot be read is called what it is, by how it begins.
_FOREIGN = {
    b"PK\x03\x04": "a zip file, as workbooks (.xlsx, .ods) and .npz are: save the sheet as CSV, or unzip it",
    b"\xd0\xcf\x11\xe0": "an old workbook (.xls): save the sheet as CSV",
    b"%PDF": "a PDF: copy its table into a CSV file",
    b"\x89HDF": "an HDF5 file: write its table as Parquet or CSV",
    b"CDF\x01": "a NetCDF file: write its table as Parquet or CSV",
    b"CDF\x02": "a NetCDF file: write its table as Parquet or CSV",
    b"SQLite format": "an SQLite database: write its table as CSV (`.mode csv` and `.output FILE` in sqlite3)",
    b"\x93NUMPY": "a NumPy array: write it with numpy.savetxt and the names of its columns",
    b"BZh": "compressed by bzip2: unpack it, or use gzip",
    b"\xfd7zXZ": "compressed by xz: unpack it, or use gzip",
    b"\x28\xb5\x2f\xfd": "compressed by zstd: unpack it, or use gzip",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"FEA1": "a Feather file of version 1: write it again as version 2",
}


class ByteSource:
    """The bytes of a file, of a pipe, or of standard input.

    Args:
        path: `-` stands for `stdin`. What a pipe gives is kept, so that it can be read again.
        stdin: where `-` is read from.
        once: leave what is in `stdin` there until it is read, as it arrives; then it is gone.
        on_disk: keep what a pipe gives in a file without a name, and not in memory, also if it is short.

    Attributes:
        name: for messages.
        start: the first bytes, before they are unzipped.
        once: whether the bytes can be read only once.

    Raises:
        DataError: if there is no such file, or if it is known not to be data that can be read.
    """

    def __init__(self, path: str, stdin: BinaryIO | None = None, *, once: bool = False, on_disk: bool = False) -> None:
        self.name = "standard input" if path == "-" else path
        self._path = Path(path)
        self.once = once
        self._bytes: bytes | SpooledBytes | None = None
        self._stream: io.BufferedReader | None = None
        try:
            if path == "-" and stdin is not None:
                if once:
                    self._stream = stdin if isinstance(stdin, io.BufferedReader) else io.BufferedReader(_raw(stdin))
                else:
                    self._bytes = all_of(stdin, self.name, on_disk=on_disk)
            elif not (self._path.is_file() or self._path.is_dir()):
                with self._path.open("rb") as pipe:  # it gives its bytes only once
                    self._bytes = all_of(pipe, self.name, on_disk=on_disk)
            self.start = self._peek()
        except (OSError, ValueError) as error:  # the latter of names with a character that no name may have
            raise self.unreadable(error) from None
        for magic, what in _FOREIGN.items():
            if self.start.startswith(magic):
                raise DataError(f"{self.name}: this is {what}")

    @property
    def plain_size(self) -> int | None:
        """How many bytes a file has that is not zipped, and whose lines end as bytes tell; None for other sources."""
        if self._bytes is not None or self.once or self.start.startswith((_ZIPPED, *_WIDE)):
            return None
        return self._path.stat().st_size

    def of_bytes(self, content: bytes) -> ByteSource:
        """A source of the same name with other bytes."""
        found = copy.copy(self)
        found._bytes = content
        return found

    @property
    def text_start(self) -> bytes:
        """The first bytes of a text, unzipped."""
        if not self.is_zipped:
            return self.start
        try:
            with self.text() as stream:
                return stream.read(_START)
        except (OSError, EOFError, zlib.error):
            return b""

    @contextlib.contextmanager
    def raw(self) -> Iterator[BinaryIO]:
        """The bytes as they are."""
        if self._stream is not None:
            yield self._stream
            return
        with self._path.open("rb") if self._bytes is None else opened_again(self._bytes) as stream:
            yield stream

    @contextlib.contextmanager
    def text(self) -> Iterator[BinaryIO]:
        """The bytes of a text, unzipped. Reading a line that is too long raises OSError."""
        with self.raw() as raw, contextlib.ExitStack() as stack:
            if self.is_zipped:
                raw = cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=raw)))
            yield io.BufferedReader(BoundedLines(raw), _BUFFER)

    def keep(self) -> None:
        """Read all there is of what could be read only once."""
        if self._stream is not None:
            self._bytes, self._stream, self.once = all_of(self._stream, self.name), None, False

    @property
    def is_zipped(self) -> bool:
        """Whether it is a text that is zipped."""
        return self.start.startswith(_ZIPPED)

    @property
    def is_long(self) -> bool:
        """Whether there are many bytes, which can be read again."""
        if self.once:
            return False
        return self._size() >= _LONG

    @property
    def is_short(self) -> bool:
        """Whether there are so few bytes that reading them cell by cell takes less time than loading what is fast."""
        return not self.once and self._size() < _SHORT

    def lines_about(self) -> int:
        """How many lines of text there are, estimated by the first of them; none of what cannot be read."""
        try:
            with self.text() as stream:
                begun = stream.read(_PIECE)
        except (OSError, EOFError, zlib.error):
            return 0
        size = self._size()
        if len(begun) < _PIECE:
            size = len(begun)
        elif self.is_zipped:
            some = begun[:_PACKED]
            size = size * len(some) // max(1, len(zlib.compress(some, 6)))  # as those who write such files do
        return size * begun.count(b"\n") // max(1, len(begun))

    def signature(self) -> tuple[int, ...]:
        """What differs after a file has been written to, most likely."""
        if self._bytes is not None or self._stream is not None:
            return ()
        try:
            status = self._path.stat()
        except OSError as error:
            raise self.unreadable(error) from None
        return status.st_size, status.st_mtime_ns, status.st_ino

    def _size(self) -> int:
        return self._path.stat().st_size if self._bytes is None else len(self._bytes)

    def unreadable(self, error: Exception, line: int | None = None) -> DataError:
        """The error for bytes that cannot be read, or make no sense."""
        known = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        reason = next((words for start, words in _IN_WORDS.items() if known.startswith(start)), " ".join(known.split()))
        return DataError(f"{self.name}: {'' if line is None else f'line {line}: '}{reason}")

    def _peek(self) -> bytes:
        if self._stream is not None:
            return self._stream.peek(_START)[:_START]
        with self.raw() as stream:
            return stream.read(_START)


def _raw(stream: BinaryIO) -> Any:
    """A stream of bytes as `BufferedReader` takes it."""
    return stream

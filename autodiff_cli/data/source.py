"""The bytes of data files, pipes and standard input, and the memory that is available for them.

A `ByteSource` opens a file or pipe as often as needed. It buffers bytes that can be read only once, in memory or, if
there are many, in a temporary file. It decompresses gzip, refuses known formats that are not data, and protects against
endless lines. `available_memory` estimates how much memory this process can still use.
"""

from __future__ import annotations

import codecs
import contextlib
import copy
import functools
import gzip
import io
import itertools
import os
import stat
import threading
import weakref
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from autodiff_cli.data.dialect import DataError
from autodiff_cli.system import cache_folder, error_reason, has_memory_limits, limit_reservations, read_tables

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")
# Bytes of address space that a fit needs besides its data, where reserved addresses count against a limit: for readers,
# threads, compiled code and the buffers of BLAS.
RESERVED_BYTES = 288 << 20
_LIBRARY_BYTES = 96 << 20  # bytes that readers, threads and OpenBLAS need at least
_UNLIMITED_BYTES = 1 << 62  # bytes; control groups without a limit report a value beyond it


def available_memory(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> int | None:
    """Return the bytes that this process can still use; None if that is unknown.

    It is the minimum of the machine's available memory, what the control groups (version 1 or 2) leave, and the limits
    of the process on address space and data.
    """
    limits = [*_machine_memory(proc), *_cgroup_memory(proc, cgroups), *_ulimit_memory(proc)]
    return max(0, min(limits)) if limits else None


def save_memory() -> None:
    """Let Arrow return memory at once, and stop libraries from reserving address space if this process has a limit."""
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
    if has_memory_limits():
        import pyarrow.compute

        limit_reservations()
        pa.set_io_thread_count(1)


def is_memory_low() -> bool:
    """Whether a limit of the process leaves too little memory for another library or its threads."""
    return has_memory_limits() and (available_memory() or 0) < _LIBRARY_BYTES


def reserve_blas_buffer() -> None:
    """Under a memory limit, let OpenBLAS allocate its buffer; without it, OpenBLAS would end the process later.

    LLVM takes five times as much when it is loaded, but a fit can do without it. Raises MemoryError.
    """
    if has_memory_limits():
        import numpy as np

        if is_memory_low():
            raise MemoryError(f"a fit needs {_LIBRARY_BYTES >> 20} MB besides its data")
        np.linalg.inv(np.eye(3))


def _machine_memory(proc: Path) -> Iterator[int]:
    """Yield the memory that the machine can provide without swapping."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in (proc / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                yield int(line.split()[1]) * 1024
                return
    with contextlib.suppress(OSError, ValueError, AttributeError):
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _cgroup_memory(proc: Path, groups: Path) -> Iterator[int]:
    """Yield the remaining memory of each control group of the process.

    Cached files count as free unless they are in use.
    """
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
            path_in_group = Path(path.lstrip("/"))
            # In a container the path may be the host's, with the container's own group mounted at the root.
            for root in roots:
                for folder in (path_in_group, *path_in_group.parents):
                    yield from _cgroup_remaining(root / folder, *names)


def _cgroup_remaining(folder: Path, limit: str, used: str, reclaimable: str) -> Iterator[int]:
    """Yield the remaining memory of one control group, if it has a limit."""
    with contextlib.suppress(OSError, ValueError):  # ValueError: `max`, no limit
        maximum = int((folder / limit).read_text())
        if maximum < _UNLIMITED_BYTES:
            statistics = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            yield maximum - int((folder / used).read_text()) + int(statistics.get(reclaimable, 0))


def _ulimit_memory(proc: Path) -> Iterator[int]:
    """Yield the remaining memory within the limits of `ulimit -v` and `ulimit -d`."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    try:
        pages = [int(word) for word in (proc / "self" / "statm").read_text().split()]
    except (OSError, ValueError):
        return
    size = resource.getpagesize()
    for resource_type, used_pages in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
        maximum, _ = resource.getrlimit(resource_type)
        if maximum != resource.RLIM_INFINITY:
            yield maximum - used_pages * size


# --- Bytes of pipes


# Limits of the storage for bytes from pipes.
_SPOOL_READ_BYTES = 1 << 20  # bytes per read: an interrupt is noticed between two reads
_MEMORY_CHECK_BYTES = 64 << 20  # bytes between two checks of the available memory
_MEMORY_DIVISOR = 4  # bytes in memory may take 1/4 of the available memory


class TemporaryBytes:
    """Bytes in an unnamed temporary file, which is deleted with this object. Threads can read it at once.

    Args:
        folder: the folder of the file.

    Raises:
        OSError: if the file cannot be created.
    """

    def __init__(self, folder: Path) -> None:
        import tempfile

        self._stream: Any = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - it lives as long as this
        weakref.finalize(self, self._stream.close)
        self._lock = threading.Lock()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def write(self, content: bytes | memoryview, at: int) -> None:
        """Write bytes from an offset on. Raises OSError."""
        left = memoryview(content)
        with self._lock:
            self._stream.seek(at)
            while left:
                left = left[self._stream.write(left) :]
        self._size = max(self._size, at + len(content))

    def read_into(self, buffer: Any, at: int) -> int:
        """Fill a buffer with the bytes from an offset on; return how many there are, at most its length."""
        with self._lock:
            self._stream.seek(at)
            return int(self._stream.readinto(buffer))


class _ReadableStream(io.RawIOBase):
    """The base of streams that can be read."""

    def readable(self) -> bool:
        return True


class _TemporaryStream(_ReadableStream):
    """A stream over temporary bytes with its own position, so that several readers can share the file."""

    def __init__(self, content: TemporaryBytes) -> None:
        self._content = content
        self._at = 0

    def readinto(self, buffer: Any) -> int:
        count = self._content.read_into(buffer, self._at)
        self._at += count
        return count

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._content)}[whence]
        self._at = max(0, start + offset)
        return self._at


def reopen(content: bytes | TemporaryBytes) -> BinaryIO:
    """Return a stream that starts at the first byte."""
    return io.BufferedReader(_TemporaryStream(content)) if isinstance(content, TemporaryBytes) else io.BytesIO(content)


def read_all(stream: BinaryIO, name: str, *, spool_to_disk: bool = False) -> bytes | TemporaryBytes:
    """Return all bytes of a stream. It is read in steps, so that an endless one can be interrupted.

    Args:
        name: the name of the source for messages.
        spool_to_disk: keep the bytes on disk even if they are few.

    Raises:
        DataError: if the bytes have to be on disk but no file can be written, and for an endless device.
        OSError: if the stream cannot be read, or is text with an implausibly long line.
    """
    if _is_device(stream):
        typed = stream.read(_MEMORY_CHECK_BYTES)
        if len(typed) == _MEMORY_CHECK_BYTES:
            raise DataError(f"{name}: this is an endless device, not a data file")
        return typed
    start = stream.read(_SPOOL_READ_BYTES)
    if not start.startswith((*_NOT_IN_GZIP,)):
        stream = cast(BinaryIO, BoundedLineStream(stream))
    pieces: list[bytes] = []
    size, next_check = 0, 0 if spool_to_disk else _MEMORY_CHECK_BYTES
    for piece in itertools.chain([start], iter(lambda: stream.read(_SPOOL_READ_BYTES), b"")):
        pieces.append(piece)
        size += len(piece)
        if size > next_check:
            memory = None if spool_to_disk else available_memory()
            if spool_to_disk or (memory is not None and size > memory // _MEMORY_DIVISOR):
                return _spool_to_disk(pieces, stream, name)
            next_check = size + _MEMORY_CHECK_BYTES
    return b"".join(pieces)


def _is_device(stream: BinaryIO) -> bool:
    """Return whether a stream is a character device. Terminals and `/dev/null` are too, but they deliver little."""
    try:
        return stat.S_ISCHR(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):  # not an operating-system file
        return False


def _spool_to_disk(pieces: list[bytes], stream: BinaryIO, name: str) -> TemporaryBytes:
    """Write the bytes read so far, and the rest of a stream, to a temporary file.

    Raises DataError if there is no room for it.
    """
    folder = cache_folder()
    if folder is None:
        reason = "the cache is off (AUTODIFF_CACHE=off) or has no folder"
        raise DataError(f"{name}: streaming needs a copy on disk, but {reason}")
    spool = None
    while piece := pieces.pop(0) if pieces else stream.read(_SPOOL_READ_BYTES):
        try:
            spool = TemporaryBytes(folder) if spool is None else spool
            spool.write(piece, len(spool))
        except OSError as error:
            raise DataError(f"{name}: cannot write the copy that streaming needs: {error_reason(error)}") from None
    assert spool is not None  # there is a piece
    return spool


# --- Lines of bounded length


MAX_LINE_BYTES = 1 << 26  # bytes; longer lines are not data
_TAIL_BYTES = 1 << 10  # bytes at the end of a piece that are searched first: most lines are short


class BoundedLineStream(_ReadableStream):
    """A stream of text that raises OSError for an implausibly long line, before it fills the memory: a small gzip file
    can expand to any size.

    Args:
        stream: the stream to read; it stays open when this one is closed.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream: Any = stream
        self._line_bytes = 0  # bytes of the current line so far

    def seekable(self) -> bool:
        return bool(self._stream.seekable())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._line_bytes = 0
        return int(self._stream.seek(offset, whence))

    def readinto(self, buffer: Any) -> int:
        count = int(self._stream.readinto1(buffer))
        piece = memoryview(buffer)[:count]
        for part in (piece[-_TAIL_BYTES:], piece):
            end = bytes(part).rfind(b"\n")
            if end >= 0:
                self._line_bytes = len(part) - end - 1
                return count
        self._line_bytes += count
        if self._line_bytes > MAX_LINE_BYTES:
            raise OSError(f"a line is longer than {MAX_LINE_BYTES >> 20} MB, the maximum")
        return count


class ByteChunkStream(_ReadableStream):
    """A stream of bytes from an iterator of chunks."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            try:
                self._rest = next(self._chunks, b"")
            except UnicodeError as error:  # text in UTF-16 without a mark, and encodings that are no text
                raise OSError(f"the text does not have this encoding: {error}") from None
        content, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(content)] = content
        return len(content)


# --- Sources of bytes


_SAMPLE_BYTES = 1 << 20  # bytes from which the number of lines is estimated
_TEXT_BUFFER_BYTES = 1 << 17  # bytes per read: larger buffers are not faster
_SMALL_FILE_BYTES = 1 << 16  # bytes; for smaller files loading pyarrow costs more than it saves
_COMPRESSION_SAMPLE_BYTES = 1 << 17  # bytes that are compressed to estimate the ratio of a gzip file
_LARGE_FILE_BYTES = 1 << 18  # bytes; from here on loading pyarrow pays off for text batches
_MAGIC_BYTES = 16  # bytes: the longest signature in _UNSUPPORTED_FORMATS fits
_GZIP_MAGIC = b"\x1f\x8b"
# Encodings by their byte order marks. UTF-32 is first, since its mark begins like that of UTF-16.
_MARKED_ENCODINGS = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_TABLES = read_tables(__file__, "unreadable_files.toml")
_UNSUPPORTED_FORMATS = {start.encode("latin-1"): description for start, description in _TABLES["formats"].items()}
# Formats that cannot be read if they are compressed by gzip as a whole, by their first bytes.
_NOT_IN_GZIP = {_GZIP_MAGIC: "a gzip file", b"PAR1": "Parquet", b"ARROW1": "Arrow", b"PK\x03\x04": "a zip file"}


class ByteSource:
    """The bytes of a file, a pipe or standard input.

    Args:
        path: a path, or `-` for `stdin`. The bytes of a pipe are kept, so that they can be read again.
        stdin: the stream that `-` stands for.
        single_pass: read `stdin` row by row as data arrive, without keeping anything.
        spool_to_disk: keep the bytes of a pipe in a temporary file, however short they are.
        encoding: the encoding of text; None to detect it.

    Attributes:
        name: the name for messages.
        first_bytes: the first bytes, before decompression.
        is_gzipped: whether the bytes are compressed by gzip.
        is_single_pass: whether the bytes can be read only once.

    Raises:
        DataError: if there is no such file, or if its format is known but not supported.
    """

    def __init__(
        self,
        path: str,
        stdin: BinaryIO | None = None,
        *,
        single_pass: bool = False,
        spool_to_disk: bool = False,
        encoding: str | None = None,
    ) -> None:
        self.name = "standard input" if path == "-" else path
        self._named_encoding = encoding
        self._path = Path(path)
        self.is_single_pass = single_pass
        self._bytes: bytes | TemporaryBytes | None = None
        self._stream: io.BufferedReader | None = None
        try:
            if path == "-" and stdin is not None:
                if single_pass:
                    is_buffered = isinstance(stdin, io.BufferedReader)
                    self._stream = cast(Any, stdin) if is_buffered else io.BufferedReader(cast(Any, stdin))
                else:
                    self._bytes = read_all(stdin, self.name, spool_to_disk=spool_to_disk)
            elif not (self._path.is_file() or self._path.is_dir()):
                with self._path.open("rb") as pipe:  # a pipe can be read only once
                    self._bytes = read_all(pipe, self.name, spool_to_disk=spool_to_disk)
            self.first_bytes = self._peek()
        except (OSError, ValueError) as error:  # ValueError: the path has a null character
            raise self.read_error(error) from None
        self.is_gzipped = self.first_bytes.startswith(_GZIP_MAGIC)
        for magic, description in _UNSUPPORTED_FORMATS.items():
            if self.first_bytes.startswith(magic):
                raise DataError(f"{self.name}: this is {description}")

    @property
    def seekable_size(self) -> int | None:
        """The size of an uncompressed file in UTF-8; None for other sources."""
        if self._bytes is not None or self.is_single_pass or self.is_gzipped or self.encoding is not None:
            return None
        return self._path.stat().st_size

    def with_bytes(self, content: bytes) -> ByteSource:
        """Return a source of the same name with other bytes, in UTF-8."""
        source = copy.copy(self)
        source._bytes, source.encoding = content, None
        return source

    @functools.cached_property
    def encoding(self) -> str | None:
        """The encoding of text that is not UTF-8; None for UTF-8. It is detected by the first megabyte."""
        if self._named_encoding is not None:
            return None if codecs.lookup(self._named_encoding).name == "utf-8" else self._named_encoding
        stream = self._stream
        sample = self._start(self._open_decompressed, _SAMPLE_BYTES) if stream is None else stream.peek()
        for mark, encoding in _MARKED_ENCODINGS.items():
            if sample.startswith(mark):
                return encoding
        lines = sample.count(b"\n")
        for encoding, line_end, high_bytes in (
            ("utf-16-le", b"\n\0", sample[1::2]),
            ("utf-16-be", b"\0\n", sample[::2]),
        ):
            if sample.count(line_end) == lines and (lines or 2 * high_bytes.count(0) > len(high_bytes)):
                return encoding
        try:
            codecs.getincrementaldecoder("utf-8")().decode(sample)
        except UnicodeDecodeError:
            return "cp1252"  # Latin-1 with the punctuation that Windows adds
        return None

    @contextlib.contextmanager
    def _open_decompressed(self) -> Iterator[BinaryIO]:
        with self.open_raw() as raw, contextlib.ExitStack() as stack:
            yield cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=raw))) if self.is_gzipped else raw

    @property
    def first_text_bytes(self) -> bytes:
        """The first bytes, decompressed."""
        return self._start(self.open_text, _MAGIC_BYTES) if self.is_gzipped else self.first_bytes

    @staticmethod
    def _start(opened: Callable[[], contextlib.AbstractContextManager[BinaryIO]], size: int) -> bytes:
        """Return the first bytes of a stream; none if there is an error, which reading the rows reports."""
        try:
            with opened() as stream:
                return stream.read(size)
        except (OSError, EOFError, zlib.error):
            return b""

    @contextlib.contextmanager
    def open_raw(self) -> Iterator[BinaryIO]:
        """Open the bytes without decompression."""
        if self._stream is not None:
            yield self._stream
            return
        with self._path.open("rb") if self._bytes is None else reopen(self._bytes) as stream:
            yield stream

    @contextlib.contextmanager
    def open_text(self) -> Iterator[io.BufferedReader]:
        """Open the text as UTF-8, decompressed. Reading an implausibly long line raises OSError."""
        encoding = self.encoding
        with self._open_decompressed() as raw:
            if encoding is not None:
                pieces = iter(functools.partial(cast(Any, raw).read1, _TEXT_BUFFER_BYTES), b"")
                text = codecs.iterdecode(pieces, encoding, "replace")
                raw = io.BufferedReader(ByteChunkStream(codecs.iterencode(text, "utf-8")))
            yield io.BufferedReader(BoundedLineStream(raw), _TEXT_BUFFER_BYTES)

    def buffer_all(self) -> None:
        """Read the rest of a single-pass source, so that it can be read again."""
        if self._stream is not None:
            self._bytes, self._stream, self.is_single_pass = read_all(self._stream, self.name), None, False

    def check_compressed_format(self) -> None:
        """Raise DataError if the bytes are compressed by gzip, and their format is not one of text."""
        start = self._start(self._open_decompressed, _MAGIC_BYTES) if self.is_gzipped else b""
        for magic, description in {**_UNSUPPORTED_FORMATS, **_NOT_IN_GZIP}.items():
            if start.startswith(magic):
                raise DataError(f"{self.name}: gzip contains {description.partition(':')[0]}; unpack it first")

    @property
    def is_large(self) -> bool:
        """Whether there is so much to read, repeatedly, that loading pyarrow pays off."""
        return not self.is_single_pass and self._size() >= _LARGE_FILE_BYTES

    @property
    def is_small(self) -> bool:
        """Whether there is so little to read that parsing cell by cell is faster than loading pyarrow."""
        return not self.is_single_pass and self._size() < _SMALL_FILE_BYTES

    def estimate_lines(self) -> int:
        """Return the estimated number of lines, from their mean length at the start; 0 if the source cannot be read."""
        sample = self._start(self.open_text, _SAMPLE_BYTES)
        if len(sample) < _SAMPLE_BYTES:
            return sample.count(b"\n")
        size = self._size()
        if self.is_gzipped:
            start = sample[:_COMPRESSION_SAMPLE_BYTES]
            size = size * len(start) // max(1, len(zlib.compress(start, 6)))  # 6 is the usual compression level
        return size * sample.count(b"\n") // len(sample)

    def signature(self) -> tuple[int, ...]:
        """Return a value that changes when the file is modified: its size, time and inode. Empty for pipes."""
        if self._bytes is not None or self._stream is not None:
            return ()
        try:
            status = self._path.stat()
        except OSError as error:
            raise self.read_error(error) from None
        return status.st_size, status.st_mtime_ns, status.st_ino

    def _size(self) -> int:
        return self._path.stat().st_size if self._bytes is None else len(self._bytes)

    def read_error(self, error: Exception, line: int | None = None) -> DataError:
        """Return the error for bytes that cannot be read or parsed: a DataError as it is."""
        if isinstance(error, DataError):
            return error
        message = error_reason(error)
        reason = next(
            (explanation for start, explanation in _TABLES["csv_messages"].items() if message.startswith(start)),
            " ".join(message.split()),
        )
        return DataError(f"{self.name}: {'' if line is None else f'line {line}: '}{reason}")

    def _peek(self) -> bytes:
        if self._stream is not None:
            return self._stream.peek(_MAGIC_BYTES)[:_MAGIC_BYTES]
        with self.open_raw() as stream:
            return stream.read(_MAGIC_BYTES)

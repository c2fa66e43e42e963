"""Cells as text, column by column: for files whose rows are many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.data.cells import number

_PIECE = 1 << 20  # bytes of a text that are looked at at a time
_SLAB = 1 << 21  # bytes of it whose lines become rows together, on all cores
SHARE = _SLAB // 8  # bytes of them for one core at a time, at least
_ENDS = (b"", b"\r", b"\n")
_BATCH = 1 << 22  # bytes of it that become one batch of rows


class NotPlain(Exception):  # noqa: N818 - what it is
    """Rows that have to be read one by one."""


class TextColumns:
    """Some rows of a file: the text of their cells, by column, as it stands there.

    Args:
        batch: Arrow's, of bytes.
    """

    def __init__(self, batch: Any) -> None:
        self.batch = batch

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def parts(self, size: int) -> Iterator[TextColumns]:
        """The same rows, so many at a time."""
        return (TextColumns(self.batch.slice(start, size)) for start in range(0, len(self), size))

    def kept(self, rows: NDArray[np.bool_]) -> TextColumns:
        """Some of the rows, by a truth value for each."""
        import pyarrow as pa

        return TextColumns(self.batch.filter(pa.array(rows)))

    def select(self, places: Sequence[int]) -> TextColumns:
        """The columns at some places, in that order."""
        return TextColumns(self.batch.select(list(places)))

    def numbers(self, place: int) -> NDArray[np.float64]:
        """A column as numbers. Raises NotPlain if a cell holds none."""
        import pyarrow as pa
        import pyarrow.compute as pc

        cells = self.batch.column(place)
        try:
            found = np.asarray(pc.ascii_trim_whitespace(cells.cast(pa.string())).cast(pa.float64()))
            if np.isfinite(found).all():
                return found
        except pa.ArrowInvalid:
            pass
        values = [number(cell.strip()) for cell in _decoded(cells)]  # who else reads numbers may read more as such
        if None in values:
            raise NotPlain
        return np.array(values, dtype=np.float64)

    def rows(self) -> list[list[str]]:
        """The same rows, cell by cell."""
        return [list(cells) for cells in zip(*map(_decoded, self.batch.columns), strict=True)]


def numbers_as_text(column: NDArray[Any], written: Callable[[float], str]) -> Any:
    """Floats as an Arrow array of texts.

    Args:
        written: the text of a number, in the fewest digits that read back.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    # Arrow writes as many digits; where the point stands, or an exponent, all agree in this range.
    size = np.abs(column)
    odd = ~((size >= 1e-3) & (size < 1e10) & (column != np.rint(column)))
    texts = pa.array(column).cast(pa.string())
    return pc.replace_with_mask(texts, pa.array(odd), pa.array([*map(written, column[odd].tolist())], pa.string()))


def whole_lines(stream: BinaryIO) -> Iterator[memoryview]:
    """The lines of a text without quotes, many at a time, in memory that the next ones are written to.

    Raises NotPlain at a quote.
    """
    slab = bytearray(_SLAB)
    held = 0  # bytes at its start: of a line whose end has not been read
    while count := stream.readinto(memoryview(slab)[held:]):  # type: ignore[attr-defined]
        there = held + count
        if slab.find(b'"', held, there) >= 0:
            raise NotPlain
        end = slab.rfind(b"\n", held, there) + 1
        if end:
            yield from _filled(memoryview(slab)[:end])
            slab[: there - end] = slab[end:there]
        elif there == len(slab):  # one line alone
            slab = slab + bytearray(len(slab))
        held = there - end
    yield from _filled(memoryview(slab)[:held])


def _filled(lines: memoryview) -> Iterator[memoryview]:
    if lines[:1] not in _ENDS or bytes(lines).lstrip(b"\r\n"):
        yield lines


def has_quotes(stream: BinaryIO) -> bool:
    """Whether there are quotes in a text."""
    return any(b'"' in piece for piece in iter(lambda: stream.read(_PIECE), b""))


def text_batches(stream: BinaryIO, delimiter: str, width: int) -> Iterator[TextColumns]:
    """The rows of a text without quotes. Raises NotPlain at one that has too few cells or too many."""
    import pyarrow as pa
    from pyarrow import csv as pa_csv

    names = [str(place) for place in range(width)]
    try:
        with pa_csv.open_csv(
            stream,
            read_options=pa_csv.ReadOptions(column_names=names, block_size=_BATCH),
            parse_options=pa_csv.ParseOptions(delimiter=delimiter, quote_char=False),
            convert_options=pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.binary())),
        ) as reader:
            yield from map(TextColumns, reader)
    except (pa.ArrowInvalid, OSError, EOFError) as error:
        raise NotPlain from error


def _decoded(cells: Any) -> list[str]:
    return [cell.decode("utf-8", "surrogateescape") for cell in cells.to_pylist()]

"""Pieces of a file's columns, as its reader hands them on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.data.cells import DataError, number

_MOST_LABELS = 1 << 16  # different ones of a column


@dataclass(frozen=True, slots=True)
class Coded:
    """LabelCodes of some rows: for each the place of its text among some, -1 where it is missing."""

    codes: NDArray[np.int64]
    texts: list[Any]

    def kept(self, rows: NDArray[np.bool_]) -> Coded:
        """Some of them, by a truth value for each."""
        return Coded(self.codes[rows], self.texts)

    def cells(self) -> NDArray[np.object_]:
        """The labels themselves, None where one is missing."""
        return np.array([*self.texts, None], dtype=object)[self.codes]


class RawPiece(NamedTuple):
    """Some rows of a file.

    Attributes:
        file: its name.
        columns: floats, or `Coded`.
        rows: the number of each in the file, from 1 on.
    """

    file: str
    columns: Mapping[str, Any]
    rows: NDArray[np.intp]


Raw = dict[str, Any]  # of each column floats, nan where a cell is missing, or `Coded`


def as_numbers(column: Any) -> NDArray[np.float64]:
    """A column of a piece as numbers, also where it was read as labels; nan for what is none."""
    if not isinstance(column, Coded):
        return np.asarray(column, np.float64)
    values = [number(str(text)) for text in column.texts]
    return np.array([math.nan if value is None else value for value in (*values, None)])[column.codes]


def coded(cells: Any) -> Coded:
    """A column of Arrow, whatever its type, as labels."""
    import pyarrow as pa

    known: dict[Any, int] = {}
    parts = []
    for chunk in cells.chunks:
        encoded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        indices = encoded.indices.cast(pa.int64()).fill_null(-1)
        start = indices.offset
        own = np.frombuffer(indices.buffers()[1], np.int64)[start : start + len(indices)]
        parts.append(np.array([*_places(encoded.dictionary.to_pylist(), known), -1], np.int64)[own])
    return Coded(np.concatenate(parts) if parts else np.empty(0, np.int64), [*known])


def coded_cells(cells: Iterable[Any]) -> Coded:
    """Cells of a text as labels; None where one is missing."""
    known: dict[Any, int] = {}
    return Coded(np.array([*_places(cells, known)], np.int64), [*known])


def _places(texts: Iterable[Any], known: dict[Any, int]) -> Iterable[int]:
    for text in texts:
        cell = text.strip() if isinstance(text, str) else text
        if cell is None or cell != cell or cell == "":
            yield -1
        else:
            yield known.setdefault(cell, len(known))


class LabelCodes:
    """The labels of a column, as they come up.

    Args:
        name: of the column, for messages.

    Raises:
        DataError: for labels that are neither whole numbers nor texts, and for very many.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._codes: dict[str, int] = {}

    def taken(self, piece: Coded) -> NDArray[np.float64]:
        """The code of each label of a piece, -1 where it is missing."""
        own = [self._codes.setdefault(str(text), len(self._codes)) for text in piece.texts]
        if len(self._codes) > _MOST_LABELS:
            raise DataError(
                f"column `{self._name}` has more than {_MOST_LABELS} different values: they are hardly labels"
            )
        return np.array([*own, -1], np.float64)[piece.codes]

    @property
    def values(self) -> NDArray[Any]:
        """The label of each code: whole numbers, if all are written as numbers, else texts."""
        texts = [*self._codes]
        found = [number(text) for text in texts]
        if None in found:
            return np.array(texts)
        numbers = np.array(found, dtype=np.float64)
        for value in numbers.tolist():
            if not math.isfinite(value) or value != round(value) or abs(value) >= 2**63:
                words = f"a label is a whole number below 2^63 or a text, not {value:g}"
                raise DataError(f"column `{self._name}`: {words}")
        return numbers.astype(np.int64)


class Rechunker:
    """Pieces of any lengths made chunks of one length.

    Args:
        spaces: arrays to fill in turn, each with room for a chunk, by the names of the columns.
    """

    def __init__(self, spaces: Sequence[dict[str, NDArray[np.float64]]], chunk: int) -> None:
        self._spaces = spaces
        self._chunk = chunk
        self._turn = 0
        self._filled = 0

    def full(self, piece: dict[str, NDArray[np.float64]], rows: int) -> Iterable[dict[str, NDArray[np.float64]]]:
        """Take the next piece; the chunks that it fills, each to be used before the next is asked for."""
        start = 0
        while start < rows:
            count = min(rows - start, self._chunk - self._filled)
            space = self._spaces[self._turn]
            for name, array in space.items():
                array[self._filled : self._filled + count] = piece[name][start : start + count]
            start += count
            self._filled += count
            if self._filled == self._chunk:
                self._filled = 0
                self._turn = (self._turn + 1) % len(self._spaces)
                yield space

    def last(self) -> tuple[dict[str, NDArray[np.float64]], int]:
        """What is left at the end, and how many rows that is."""
        return self._spaces[self._turn], self._filled

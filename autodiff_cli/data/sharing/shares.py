"""Files read by several at once: each reads a share of the rows, which it can find by itself."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.data.cells import CellKind
from autodiff_cli.data.files import DataFile
from autodiff_cli.data.options import FileOptions
from autodiff_cli.data.several import DataFiles
from autodiff_cli.data.table import DataError
from autodiff_cli.data.texts import NotPlain


@dataclass(frozen=True, slots=True)
class FileShare:
    """Some rows of a file.

    Attributes:
        path: of the file, wherever it is read.
        size: how many bytes it has.
        options: how it is to be read.
        between: see `ColumnFormat.restrict`; None for the whole file.
    """

    path: str
    size: int
    options: FileOptions
    between: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class ReadShare:
    """What a share has.

    Attributes:
        columns: numbers, and for texts their places in `texts`.
        rows: how many count; `dropped` were left out because a cell is missing, `others` by a condition.
        texts: the different ones of each column of text, sorted.
        seen: see `Filtered`.
        check: a number that differs, most likely, if anything does.
    """

    columns: dict[str, NDArray[Any]]
    rows: int
    dropped: int
    others: int
    texts: dict[str, list[str]]
    seen: dict[str, list[str | None]]
    check: int


def each_of(files: DataFiles) -> Sequence[DataFile]:
    """The files, one by one."""
    return [files] if isinstance(files, DataFile) else files.files


def shares(files: DataFiles, count: int) -> list[list[FileShare]] | None:
    """Divide files into about so many shares in all, those of each in the order of its rows; None for what cannot be
    read twice.

    >>> from autodiff_cli.data.several import open_data
    >>> import io
    >>> shares(open_data(["-"], io.BytesIO(b"x,y\\n1,2\\n")), 3) is None
    True
    """
    several = each_of(files)
    if not all(os.path.isfile(file.path) for file in several):
        return None
    sizes = [os.path.getsize(file.path) for file in several]
    found = []
    for file, size in zip(several, sizes, strict=True):
        path = os.path.abspath(file.path)
        extent = file.format.extent
        if extent is None:
            found.append([FileShare(path, size, file.options, None)])
            continue
        begin, end = extent
        parts = min(max(1, round(count * size / max(1, sum(sizes)))), max(1, end - begin))
        ends = [begin + (end - begin) * k // parts for k in range(parts + 1)]
        found.append([FileShare(path, size, file.options, (ends[k], ends[k + 1])) for k in range(parts)])
    return found


def read_share(share: FileShare, wanted: Collection[str], texts: Collection[str], *, drop_missing: bool) -> ReadShare:
    """Read the columns of a share.

    Args:
        wanted: the columns that are read as numbers.
        texts: those that are read as texts.
        drop_missing: leave out rows with a missing cell.

    Raises:
        NotPlain: where only who reads the whole file knows what is meant, or what is wrong.
        DataError: if the file is not there, or has another size.
    """
    try:
        size = os.path.getsize(share.path)
    except OSError as error:
        raise DataError(f"{share.path}: {(error.strerror or str(error)).lower()}") from None
    if size != share.size:
        raise DataError(f"{share.path}: it has {size} bytes here, and {share.size} where the fit was started")
    if not {*wanted}.isdisjoint(texts):
        raise NotPlain  # a column is read in one way here
    file = DataFile(share.path, options=share.options)
    try:
        if share.between is not None:
            file.format.restrict(*share.between)
        raw, rows, seen = file.of_share({*wanted, *texts}, texts)
    except DataError:
        raise NotPlain from None  # it says where in the share, and not in the file
    if any(reader.kind not in (None, CellKind.NUMBER) for reader in file.readers.values()):
        raise NotPlain  # what the first cell says holds for all shares
    columns, bad = dict(raw), np.zeros(len(next(iter(raw.values()))), np.bool_)
    for name in texts:
        bad |= np.array([text is None for text in columns[name]], np.bool_)
    for name in wanted:
        bad |= ~np.isfinite(columns[name])
    if bad.any():
        if not drop_missing:
            raise NotPlain
        columns = {name: column[~bad] for name, column in columns.items()}
    known: dict[str, list[str]] = {}
    for name in texts:
        found, codes = np.unique(columns[name].astype(str), return_inverse=True)
        known[name], columns[name] = found.tolist(), codes.astype(np.int32)
    kept, dropped = len(bad), int(np.count_nonzero(bad))
    return ReadShare(columns, kept - dropped, dropped, rows - kept, known, seen, _check(columns, wanted))


def _check(columns: dict[str, NDArray[Any]], names: Collection[str]) -> int:
    found = 0
    for name in sorted(names):
        bits = np.ascontiguousarray(columns[name], np.float64).view(np.uint64)
        found = (found * 3 + int(np.add.reduce(bits))) % 2**64
    return found

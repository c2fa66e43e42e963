"""Shares of data files, which the workers of a cluster read in parallel.

`divide_files` divides files into ranges without reading them; `read_share` reads one range on its own.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.data.dialect import CellKind, FileOptions
from autodiff_cli.data.files import DataFile, DataSource
from autodiff_cli.data.table import DataError, FallbackRequired


@dataclass(frozen=True, slots=True)
class FileShare:
    """A part of the rows of a file.

    Attributes:
        path: the absolute path of the file.
        size: the size of the file in bytes.
        options: how to read the file.
        extent: the part of the divisible range; see `ColumnFormat.restrict`. None for the whole file.
    """

    path: str
    size: int
    options: FileOptions
    extent: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class ShareData:
    """The data of a share.

    Attributes:
        columns: numbers; for text columns, indices into `texts`.
        rows: the number of rows in `columns`.
        dropped: the number of rows that were dropped because a cell was missing.
        filtered_out: the number of rows that the filter dropped.
        texts: the different texts of each text column, sorted.
        observed_texts: see `FilteredColumns`.
        checksum: a checksum of the numbers.
    """

    columns: dict[str, NDArray[Any]]
    rows: int
    dropped: int
    filtered_out: int
    texts: dict[str, list[str]]
    observed_texts: dict[str, list[str | None]]
    checksum: int


def individual_files(files: DataSource) -> Sequence[DataFile]:
    """Return the files of a data source."""
    return [files] if isinstance(files, DataFile) else files.files


def divide_files(files: DataSource, count: int) -> list[list[FileShare]] | None:
    """Divide files into about `count` shares, listed by file in the order of the rows. Returns None for sources that
    cannot be read twice.

    >>> from autodiff_cli.data.files import open_data
    >>> import io
    >>> divide_files(open_data(["-"], io.BytesIO(b"x,y\\n1,2\\n")), 3) is None
    True
    """
    file_list = individual_files(files)
    if not all(os.path.isfile(file.path) for file in file_list):
        return None
    sizes = [os.path.getsize(file.path) for file in file_list]
    shares = []
    for file, size in zip(file_list, sizes, strict=True):
        path = os.path.abspath(file.path)
        extent = file.format.divisible_range
        if extent is None:
            shares.append([FileShare(path, size, file.options, None)])
            continue
        begin, end = extent
        parts = min(max(1, round(count * size / max(1, sum(sizes)))), max(1, end - begin))
        ends = [begin + (end - begin) * k // parts for k in range(parts + 1)]
        shares.append([FileShare(path, size, file.options, (ends[k], ends[k + 1])) for k in range(parts)])
    return shares


def read_share(share: FileShare, wanted: Collection[str], texts: Collection[str], *, drop_missing: bool) -> ShareData:
    """Read the columns of a share.

    Args:
        wanted: the columns to read as numbers.
        texts: the columns to read as texts.
        drop_missing: drop rows with a missing cell.

    Raises:
        FallbackRequired: if the share cannot be interpreted, or an error cannot be located, without the rest of the
            file.
        DataError: if the file is missing or has another size.
    """
    try:
        size = os.path.getsize(share.path)
    except OSError as error:
        raise DataError(f"{share.path}: {(error.strerror or str(error)).lower()}") from None
    if size != share.size:
        raise DataError(
            f"{share.path}: the file has {size} bytes on this worker, but {share.size} where the fit was started"
        )
    if not {*wanted}.isdisjoint(texts):
        raise FallbackRequired  # a share reads a column either as numbers or as texts
    file = DataFile(share.path, options=share.options)
    try:
        if share.extent is not None:
            file.format.restrict(*share.extent)
        raw, rows, observed = file.read_restricted({*wanted, *texts}, texts)
    except DataError:
        raise FallbackRequired from None  # the error has a location in the share, not in the file
    if any(parser.kind not in (None, CellKind.NUMBER) for parser in file.parsers.values()):
        raise FallbackRequired  # the first cell of the file decides the kind of a column
    columns, is_incomplete = dict(raw), np.zeros(len(next(iter(raw.values()))), np.bool_)
    for name in texts:
        is_incomplete |= np.array([text is None for text in columns[name]], np.bool_)
    for name in wanted:
        is_incomplete |= ~np.isfinite(columns[name])
    if is_incomplete.any():
        if not drop_missing:
            raise FallbackRequired
        columns = {name: column[~is_incomplete] for name, column in columns.items()}
    different_texts: dict[str, list[str]] = {}
    for name in texts:
        values, codes = np.unique(columns[name].astype(str), return_inverse=True)
        different_texts[name], columns[name] = values.tolist(), codes.astype(np.int32)
    complete, dropped = len(is_incomplete), int(np.count_nonzero(is_incomplete))
    return ShareData(
        columns, complete - dropped, dropped, rows - complete, different_texts, observed, _checksum(columns, wanted)
    )


def _checksum(columns: dict[str, NDArray[Any]], names: Collection[str]) -> int:
    """Return a checksum of the bits of columns."""
    checksum = 0
    for name in sorted(names):
        bits = np.ascontiguousarray(columns[name], np.float64).view(np.uint64)
        checksum = (checksum * 3 + int(np.add.reduce(bits))) % 2**64
    return checksum

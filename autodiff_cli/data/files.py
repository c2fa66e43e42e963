"""Data files: one file (`DataFile`) or several files with the same columns (`FileCollection`) as a dataset.

`open_data` opens paths, folders and patterns. `summarize_data` describes what was read: columns, types, ranges and
first rows.
"""

from __future__ import annotations

import contextlib
import glob
import itertools
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array
from autodiff_cli.data.delimited import describe_bad_cell
from autodiff_cli.data.dialect import DEFAULT_FILE_OPTIONS, CellKind, CellParser, FileOptions, cell_count, is_missing
from autodiff_cli.data.formats import detect_format
from autodiff_cli.data.source import ByteSource
from autodiff_cli.data.streaming import CodedLabels, ColumnBatch, GrowingArray, PassProgress, RawBatch, StreamedColumns
from autodiff_cli.data.table import (
    DataError,
    FallbackRequired,
    RawColumns,
    Record,
    RowFilter,
    Table,
    TextBatch,
    as_table,
    problem_list,
)
from autodiff_cli.language.errors import format_names, suggest
from autodiff_cli.language.lexer import canonical_name, quote_name

_BLOCK_ROWS = 10_000  # rows of a block of text
CellRows: TypeAlias = list[list[str]] | TextBatch


class RowBlock(NamedTuple):
    """Some rows of a file.

    Attributes:
        columns: the requested columns as numbers, by name.
        cells: the text of all cells.
    """

    columns: dict[str, Array]
    cells: CellRows


class FilteredColumns(NamedTuple):
    """Columns of the rows that the filter of a file keeps.

    Attributes:
        columns: see `RawColumns`.
        rows: the number of rows before filtering.
        observed_texts: the different texts of each text column that the filter reads, in order of occurrence.
    """

    columns: dict[str, Any]
    rows: int
    observed_texts: dict[str, list[str | None]]


class DataFile:
    """A dataset of one file.

    Args:
        path: a path, or `-` for `stdin`.
        stdin: the stream that `-` stands for.
        options: how to read the file.
        origins: the time from which dates and times are counted, by column; by default the first cell's.
        single_pass: read standard input row by row as data arrive, without keeping anything.
        spool_to_disk: keep the bytes of a pipe in a temporary file.

    Attributes:
        name: the name for messages.
        header: the names of the columns as the file has them.
        names: the normalized names of the columns, without empty and repeated ones.
        parsers: the parser of each column, with what it detected.
        is_part: whether the file is one of several, so that a filter may keep none of its rows.
        on_progress: called with the progress of a pass over streamed rows.
        streamed: the streamed columns, once streaming has started.

    Raises:
        DataError: if there is no such file, if its header cannot be read, or if a column that the options name is not
            there.
    """

    def __init__(
        self,
        path: str,
        stdin: BinaryIO | None = None,
        *,
        options: FileOptions = DEFAULT_FILE_OPTIONS,
        origins: Mapping[str, datetime] = MappingProxyType({}),
        single_pass: bool = False,
        spool_to_disk: bool = False,
    ) -> None:
        source = self._source = ByteSource(path, stdin, single_pass=single_pass, spool_to_disk=spool_to_disk)
        self.name = source.name
        self.path, self.options, self.is_part = path, options, False
        self.format = detect_format(source, options)
        self.header = tuple(self.format.header)
        self._positions: dict[str, list[int]] = {}
        for position, name in enumerate(self._column_names(options.renamed_columns)):
            self._positions.setdefault(name, []).append(position)
        self.names = tuple(filter(None, self._positions))
        self.parsers = {name: self.format.new_parser() for name in self.names}
        for name in self.parsers.keys() & origins.keys():
            self.parsers[name].origin = origins[name]
        self._notes: dict[str, None] = {}
        self._mask: NDArray[np.bool_] | None = None  # which rows the filter keeps, once it has been applied
        self.on_progress: Callable[[PassProgress], object] | None = None
        self.streamed: StreamedColumns | None = None
        self._row_filter = None
        if options.where is not None:
            self._row_filter = RowFilter(options.where, self.names, self.text_columns)

    @property
    def text_columns(self) -> list[str]:
        """The names of the text columns."""
        positions = self.format.text_positions()
        return [name for name in self.names if self._positions[name][0] in positions]

    @property
    def notes(self) -> list[str]:
        """Sentences on how the file was interpreted: everything that was detected and affects the values."""
        column_notes = ((name, parser.note()) for name, parser in self.parsers.items())
        parser_notes = [f"column `{name}`: {note}" for name, note in column_notes if note is not None]
        stream_notes = [] if self.streamed is None else [self.streamed.note]
        return [*self.format.notes, *parser_notes, *self._notes, *stream_notes]

    @property
    def origins(self) -> dict[str, datetime]:
        """The times from which dates and times are counted, for the columns read so far."""
        return {name: parser.origin for name, parser in self.parsers.items() if parser.origin is not None}

    def load(self, wanted: Collection[str], *, drop_missing: bool = False, labels: str | None = None) -> Table:
        """Return some columns as a table; see `Dataset.load`. Only these columns are read. Labels become numbers if all
        of them are numbers.
        """
        return load_table(self, wanted, drop_missing, labels)

    def read(self, wanted: Collection[str], *, drop_missing: bool = False, texts: Collection[str] = ()) -> RawColumns:
        """Return some columns of the rows that the filter keeps.

        Args:
            wanted: the names of the columns.
            drop_missing: accept missing cells.
            texts: the columns among them that are read as text.

        Raises:
            DataError: see `Dataset.load`. Missing cells may be left for the caller to handle.
        """
        if not self.column_positions(wanted):
            raise DataError(f"{self.name}: the model uses none of its columns, which are {format_names(self.names)}")
        if self._row_filter is None:
            columns = self.format.read_columns(self.column_positions(wanted), drop_missing, texts, self.parsers)
            return RawColumns(columns, range(1, len(next(iter(columns.values()))) + 1))
        positions = self.column_positions({*wanted, *self._row_filter.numeric_columns, *self._row_filter.text_columns})
        columns = self.format.read_columns(positions, True, {*texts, *self._row_filter.text_columns}, self.parsers)
        mask = self._apply_filter(self._row_filter, columns)
        if not (mask.any() or self.is_part):
            raise DataError("\n".join([f"{self.name}: --where keeps none of {len(mask)} rows", *self._notes][:-1]))
        filtered = {name: column[mask] for name, column in columns.items() if name in wanted}
        return RawColumns(filtered, np.flatnonzero(mask) + 1)

    def read_restricted(self, wanted: Collection[str], texts: Collection[str]) -> FilteredColumns:
        """Return some columns of a file that was restricted to a part, which may have no row that the filter keeps.
        Missing cells are kept.
        """
        row_filter = self._row_filter
        if row_filter is None:
            columns = self.format.read_columns(self.column_positions(wanted), True, texts, self.parsers)
            return FilteredColumns(columns, len(next(iter(columns.values()))), {})
        positions = self.column_positions({*wanted, *row_filter.numeric_columns, *row_filter.text_columns})
        columns = self.format.read_columns(positions, True, {*texts, *row_filter.text_columns}, self.parsers)
        mask = row_filter.mask(columns)
        filtered = {name: column[mask] for name, column in columns.items() if name in wanted}
        return FilteredColumns(
            filtered, len(mask), {name: [*dict.fromkeys(columns[name].tolist())] for name in row_filter.text_columns}
        )

    def note_filter_result(self, kept_rows: int, rows: int, observed: Mapping[str, Sequence[str | None]]) -> None:
        """Add notes on how many rows the filter keeps and on quoted texts that no row has.

        Args:
            kept_rows: the number of rows that the filter keeps.
            rows: the number of all rows.
            observed: the different texts of each text column that the filter reads.

        Raises:
            DataError: if the filter keeps no row.
        """
        if self._row_filter is None:
            return
        notes = self._row_filter.notes({name: np.array([*texts], dtype=object) for name, texts in observed.items()})
        if not (kept_rows or self.is_part):
            raise DataError("\n".join([f"{self.name}: --where keeps none of {rows} rows", *notes]))
        self._notes |= dict.fromkeys([*notes, f"--where keeps {kept_rows} of {rows} rows"])

    def iter_batches(
        self,
        wanted: Collection[str],
        texts: Collection[str],
        size: int,
        *,
        drop_missing: bool = False,
        cell_by_cell: bool = False,
    ) -> Generator[ColumnBatch]:
        """Yield some columns of the rows that the filter keeps, some rows at a time, with texts as `CodedLabels`.

        Args:
            size, cell_by_cell: see `ColumnFormat.iter_batches`.

        Raises:
            DataError: see `read`.
            FallbackRequired: if the file has to be parsed cell by cell.
        """
        if not self.column_positions(wanted):
            raise DataError(f"{self.name}: the model uses none of its columns, which are {format_names(self.names)}")
        row_filter = self._row_filter
        filter_columns = set() if row_filter is None else {*row_filter.text_columns, *row_filter.numeric_columns}
        text_columns = texts if row_filter is None else {*texts, *row_filter.text_columns}
        accepts_missing = drop_missing or row_filter is not None
        batches = self.format.iter_batches(
            self.column_positions({*wanted, *filter_columns}),
            accepts_missing,
            text_columns,
            self.parsers,
            size,
            cell_by_cell,
        )
        return filter_batches(self.name, batches, wanted, row_filter, self.note_filter_result)

    @property
    def is_slow_to_parse(self) -> bool:
        """Whether parsing or filtering takes so long that the result is worth storing."""
        return self.format.is_slow_to_parse or self._row_filter is not None

    def estimate_rows(self) -> int:
        """Return the estimated number of rows; see `ColumnFormat.estimate_rows`."""
        return self.format.estimate_rows()

    def signature(self) -> tuple[Any, ...]:
        """Return a value that changes when the file is modified; see `ByteSource.signature`."""
        return self._source.signature()

    def iter_rows(self) -> Iterator[CellRows]:
        """Yield the rows that the filter keeps as text, in blocks."""
        return (
            self._iter_unfiltered_rows()
            if self._row_filter is None
            else filter_rows(self._iter_unfiltered_rows(), self._row_mask(self._row_filter))
        )

    def iter_blocks(self, wanted: Collection[str], size: int) -> Iterator[RowBlock]:
        """Yield all rows in order, at most `size` at a time: the requested columns as numbers, and the text of all
        cells.

        Cells may be nan or infinite if the file has them written out.

        Raises:
            DataError: for empty cells, cells that are not numbers, and rows with too few or too many cells, block by
                block.
        """
        positions = self.column_positions(wanted)
        done = 0
        with contextlib.suppress(FallbackRequired), contextlib.closing(self.format.iter_text_batches()) as texts:
            for batch in texts:
                for part in batch.split(size):
                    yield RowBlock({name: part.parse_column(position) for name, position in positions.items()}, part)
                    done += len(part)
            return
        with contextlib.closing(self.format.iter_records()) as records:
            rest = itertools.islice(records, done, None)
            while block := list(itertools.islice(rest, size)):
                yield RowBlock(self._parse_numbers(block, positions), [record.cells for record in block])

    def row(self, number: int, wanted: Collection[str]) -> Record:
        """Return the requested cells of a row as text, in the order of `wanted`. Rows are counted from 1.

        Raises:
            DataError: if there is no such row or column, and if the row has too few or too many cells.
        """
        missing = [name for name in wanted if name not in self.names]
        if missing:
            columns = f"the columns are {format_names(self.names)}"
            raise DataError(f"{self.name}: there is no column {format_names(missing, '`')}; {columns}")
        positions, count = self.column_positions(wanted), 0
        records: Iterator[Record] = self.format.iter_records()
        if self._row_filter is not None:
            records = itertools.compress(records, self._row_mask(self._row_filter).tolist())
        for count, (location, cells) in enumerate(records, 1):
            if count == number:
                if len(cells) != len(self.header):
                    problem = f"{cell_count(len(cells))}, but the header has {len(self.header)}"
                    raise DataError(f"{self.name}: {location}: {problem}")
                return Record(location, [cells[positions[name]].strip() for name in wanted])
        if not count:
            raise DataError(f"{self.name}: there are no rows")
        raise DataError(f"{self.name}: there is no row {number}; the last one is {count}")

    def _iter_unfiltered_rows(self) -> Iterator[CellRows]:
        """Yield all rows as text, in blocks."""
        done = 0
        with contextlib.suppress(FallbackRequired), contextlib.closing(self.format.iter_text_batches()) as texts:
            for cells in texts:
                yield cells
                done += len(cells)
            return
        with contextlib.closing(self.format.iter_records()) as records:
            rest = itertools.islice(records, done, None)
            while block := [record.cells for record in itertools.islice(rest, _BLOCK_ROWS)]:
                yield block

    def _row_mask(self, row_filter: RowFilter) -> NDArray[np.bool_]:
        """Return which rows the filter keeps."""
        if self._mask is None:
            positions = self.column_positions({*row_filter.numeric_columns, *row_filter.text_columns})
            self._apply_filter(
                row_filter, self.format.read_columns(positions, True, row_filter.text_columns, self.parsers)
            )
        assert self._mask is not None
        return self._mask

    def _apply_filter(self, row_filter: RowFilter, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
        """Return which rows the filter keeps, given the columns that it reads, and add notes on the result."""
        mask = self._mask = row_filter.mask(columns)
        self._notes |= dict.fromkeys(row_filter.notes(columns))
        self._notes[f"--where keeps {np.count_nonzero(mask)} of {len(mask)} rows"] = None
        return mask

    def _column_names(self, renamed: Mapping[str, str]) -> list[str]:
        """Return the normalized names of all columns after renaming. Raises DataError for names that do not fit."""
        names = [canonical_name(cell.strip()) for cell in self.header]
        for original, name in renamed.items():
            if original not in names:
                closest = suggest(original, names)
                hint = f"did you mean `{closest}`?" if closest else f"the columns are {format_names(self.header)}"
                raise DataError(f"{self.name}: --column {name}: there is no column `{original}`; {hint}")
            if name in names and name not in renamed:
                raise DataError(f"{self.name}: --column {name}: the file already has a column `{name}`")
        return [renamed.get(name, name) for name in names]

    def column_positions(self, wanted: Collection[str]) -> dict[str, int]:
        """Return the positions of the named columns that exist. Raises DataError for a name that occurs twice."""
        names = sorted({*wanted} & self._positions.keys(), key=self._positions.__getitem__)
        for name in names:
            if len(self._positions[name]) > 1:
                raise DataError(f"{self.name}: the header names the column `{name}` more than once")
        return {name: self._positions[name][0] for name in names}

    def _parse_numbers(self, records: Sequence[Record], positions: Mapping[str, int]) -> dict[str, Array]:
        """Return columns of some records as numbers. Raises DataError for invalid cells."""
        width = len(self.header)
        problems = [
            f"{location}: {cell_count(len(cells))}, but the header has {width}"
            for location, cells in records
            if len(cells) != width
        ]
        columns: dict[str, list[float]] = {name: [] for name in positions}
        for location, cells in records if not problems else ():
            for name, position in positions.items():
                cell = cells[position].strip()
                value = None if is_missing(cell) else self.parsers[name].parse(cell)
                if value is None:
                    problems.append(f"{location}, column `{name}`: {describe_bad_cell(cell, self.parsers[name])}")
                else:
                    columns[name].append(value)
        if problems:
            raise DataError(problem_list(problems, f"{self.name}: "))
        return {name: np.array(values) for name, values in columns.items()}


def filter_rows(blocks: Iterable[CellRows], mask: NDArray[np.bool_]) -> Iterator[CellRows]:
    """Yield the rows of blocks that a mask over all rows selects."""
    start = 0
    for cells in blocks:
        block_mask = mask[start : start + len(cells)]
        start += len(cells)
        yield (
            cells.filter_rows(block_mask)
            if isinstance(cells, TextBatch)
            else [*itertools.compress(cells, block_mask.tolist())]
        )


def filter_batches(
    file: str,
    batches: Generator[RawBatch],
    wanted: Collection[str],
    row_filter: RowFilter | None,
    note_result: Callable[[int, int, Mapping[str, Sequence[str | None]]], None],
) -> Generator[ColumnBatch]:
    """Yield the requested columns of the rows that a filter keeps; of all rows without a filter.

    Args:
        file: the name of the file.
        note_result: called at the end with the number of rows kept, the number of all rows, and the texts that occurred
            in each column that the filter reads.
    """
    count = kept_rows = 0
    texts = set() if row_filter is None else row_filter.text_columns
    observed: dict[str, dict[str | None, None]] = {name: {} for name in texts}
    with contextlib.closing(batches):
        for batch in batches:
            length = len(next(iter(batch.values())))
            rows = np.arange(count + 1, count + length + 1)
            count += length
            columns = {name: batch[name] for name in wanted}
            if row_filter is not None:
                for name in texts:
                    observed[name] |= dict.fromkeys(batch[name].texts)
                mask = row_filter.mask({**batch, **{name: batch[name].cells() for name in texts}})
                rows = rows[mask]
                columns = {
                    n: each.filter_rows(mask) if isinstance(each, CodedLabels) else each[mask]
                    for n, each in columns.items()
                }
            kept_rows += len(rows)
            yield ColumnBatch(file, columns, rows)
    note_result(kept_rows, count, {name: [*column_texts] for name, column_texts in observed.items()})


class _ReadableColumns(Protocol):
    """A file, or several, with named columns."""

    @property
    def name(self) -> str: ...

    def read(
        self, wanted: Collection[str], *, drop_missing: bool = False, texts: Collection[str] = ()
    ) -> RawColumns: ...


def load_table(file: _ReadableColumns, wanted: Collection[str], drop_missing: bool, labels: str | None) -> Table:
    """Return columns of a file, or of several, as a table; see `Dataset.load`."""
    texts = set() if labels is None else {labels}
    return as_table(
        file.read({*wanted, *texts}, drop_missing=drop_missing, texts=texts), drop_missing, labels, f"{file.name}: "
    )


# --- Several files


_WILDCARDS = frozenset("*?[")
_MAX_NAMES_SHOWN = 3  # files that are named in messages


def open_data(
    paths: Sequence[str],
    stdin: BinaryIO | None = None,
    *,
    options: FileOptions = DEFAULT_FILE_OPTIONS,
    origins: Mapping[str, datetime] = MappingProxyType({}),
    spool_to_disk: bool = False,
) -> DataFile | FileCollection:
    """Open the data at some paths; each is a file, a folder of files or a pattern such as `2024-*.csv`.

    Args:
        stdin: the stream that `-` stands for.
        options: how to read the files.
        origins, spool_to_disk: see `DataFile`.

    Raises:
        DataError: for missing or unreadable files, and for files with different columns.
    """
    files = [path for pattern in paths for path in _expand_path(pattern)]
    if len(files) == 1:
        return DataFile(files[0], stdin, options=options, origins=origins, spool_to_disk=spool_to_disk)
    return FileCollection(
        [DataFile(path, stdin, options=options, origins=origins, spool_to_disk=spool_to_disk) for path in files]
    )


class FileCollection:
    """A dataset of several files with the same columns in any order, one after the other; see `DataFile`.

    Raises:
        DataError: if the columns of a file are not those of the first; the message names both files.
    """

    def __init__(self, files: Sequence[DataFile]) -> None:
        self._files = files
        for file in files:
            file.is_part = True
        self.on_progress: Callable[[PassProgress], object] | None = None
        self.streamed: StreamedColumns | None = None
        first = files[0]
        shown = ", ".join(file.name for file in files[:_MAX_NAMES_SHOWN])
        self.name = (
            shown if len(files) <= _MAX_NAMES_SHOWN else f"{shown} and {len(files) - _MAX_NAMES_SHOWN} more files"
        )
        self._has_same_order = all(file.header == first.header for file in files)
        self.header = first.header if self._has_same_order else first.names
        self.names, self.format = first.names, first.format
        for file in files[1:]:
            missing = [name for name in first.names if name not in file.names]
            added = [name for name in file.names if name not in first.names]
            if missing or added:
                difference = f"lacks {format_names(missing, '`')}" if missing else f"has {format_names(added, '`')} too"
                raise DataError(f"{file.name}: its columns differ from those of {first.name}: it {difference}")

    @property
    def files(self) -> Sequence[DataFile]:
        """The files in order."""
        return self._files

    @property
    def parsers(self) -> Mapping[str, CellParser]:
        """The parser of each column; see `DataFile.parsers`."""
        return self._files[0].parsers

    def column_positions(self, wanted: Collection[str]) -> dict[str, int]:
        """Return the positions of the named columns in `header`."""
        return (
            self._files[0].column_positions(wanted)
            if self._has_same_order
            else {n: self.names.index(n) for n in wanted}
        )

    @property
    def text_columns(self) -> list[str]:
        """The names of the text columns."""
        return self._files[0].text_columns

    @property
    def notes(self) -> list[str]:
        """Sentences on how the files were interpreted. Notes that do not apply to all files start with the name of
        their file.
        """
        notes_by_file = [file.notes for file in self._files]
        common = [note for note in notes_by_file[0] if all(note in notes for notes in notes_by_file)]
        file_notes = (
            f"{file.name}: {note}"
            for file, notes in zip(self._files, notes_by_file, strict=True)
            for note in notes
            if note not in common
        )
        stream_notes = [] if self.streamed is None else [self.streamed.note]
        return [f"{len(self._files)} files", *common, *file_notes, *stream_notes]

    @property
    def origins(self) -> dict[str, datetime]:
        """The times from which dates and times are counted."""
        return self._files[0].origins

    def load(self, wanted: Collection[str], *, drop_missing: bool = False, labels: str | None = None) -> Table:
        """Return some columns as a table; see `Dataset.load`."""
        return load_table(self, wanted, drop_missing, labels)

    def read(self, wanted: Collection[str], *, drop_missing: bool = False, texts: Collection[str] = ()) -> RawColumns:
        """Return some columns of the rows that the filter keeps; see `DataFile.read`."""
        columns: dict[str, GrowingArray] = {}
        rows = 0
        for file in self._files:
            part = file.read(wanted, drop_missing=drop_missing, texts=texts)
            if not drop_missing and len(part.row_numbers):  # errors name the file of a missing cell
                numbers = {name: column for name, column in part.columns.items() if name not in texts}
                as_table(RawColumns(numbers, part.row_numbers), drop_missing, None, f"{file.name}: ")
            for name, column in part.columns.items():
                columns.setdefault(name, GrowingArray()).add(column)
            rows += len(part.row_numbers)
            self._share_origins(file.origins)
        self._check_rows_remain(rows)
        return RawColumns({name: column.finish() for name, column in columns.items()}, range(1, rows + 1))

    def iter_batches(
        self,
        wanted: Collection[str],
        texts: Collection[str],
        size: int,
        *,
        drop_missing: bool = False,
        cell_by_cell: bool = False,
    ) -> Generator[ColumnBatch]:
        """Yield some columns of some rows at a time; see `DataFile.iter_batches`."""
        rows = 0
        for file in self._files:
            for piece in file.iter_batches(wanted, texts, size, drop_missing=drop_missing, cell_by_cell=cell_by_cell):
                yield piece
                rows += len(piece.row_numbers)
                self._share_origins(file.origins)
        self._check_rows_remain(rows)

    def _check_rows_remain(self, rows: int) -> None:
        """Raise DataError if the filter keeps no row of any file."""
        if not rows and self._files[0].options.where is not None:
            raise DataError("\n".join([f"{self.name}: --where keeps no row of any file", *self.notes[1:]]))

    @property
    def is_slow_to_parse(self) -> bool:
        """Whether parsing or filtering takes so long that the result is worth storing."""
        return any(file.is_slow_to_parse for file in self._files)

    def estimate_rows(self) -> int:
        """Return the estimated number of rows of all files."""
        return sum(file.estimate_rows() for file in self._files)

    def signature(self) -> tuple[Any, ...]:
        """Return a value that changes when a file is modified."""
        return tuple(file.signature() for file in self._files)

    def iter_rows(self) -> Iterator[CellRows]:
        """Yield the rows as text, in blocks, with cells in the order of the first file's columns."""
        for file in self._files:
            yield from map(self._cell_reorderer(file), file.iter_rows())

    def iter_blocks(self, wanted: Collection[str], size: int) -> Iterator[RowBlock]:
        """Yield all rows in order as numbers and as text; see `DataFile.iter_blocks`."""
        for file in self._files:
            in_order = self._cell_reorderer(file)
            for columns, cells in file.iter_blocks(wanted, size):
                yield RowBlock(columns, in_order(cells))
            self._share_origins(file.origins)

    def row(self, number: int, wanted: Collection[str]) -> Record:
        """Return the requested cells of a row; see `DataFile.row`."""
        before = 0
        for file in self._files:
            count = sum(map(len, file.iter_rows()))
            if number <= before + count:
                location, cells = file.row(number - before, wanted)
                return Record(f"{file.name}: {location}", cells)
            before += count
        raise DataError(f"{self.name}: there is no row {number}; the last one is {before}")

    def _cell_reorderer(self, file: DataFile) -> Callable[[CellRows], CellRows]:
        """Return a function that puts the cells of a file's rows in the order of the first file's columns."""
        if self._has_same_order:
            return lambda cells: cells
        positions_in_file = file.column_positions(self.names)
        positions = [positions_in_file[name] for name in self.names]

        def in_order(cells: CellRows) -> CellRows:
            if isinstance(cells, TextBatch):
                return cells.select_columns(positions)
            return [[row[position] for position in positions] for row in cells]

        return in_order

    def _share_origins(self, origins: Mapping[str, datetime]) -> None:
        """Make all files count dates and times from the same origins."""
        for file, (name, origin) in itertools.product(self._files, origins.items()):
            file.parsers[name].origin = origin


def _expand_path(pattern: str) -> list[str]:
    """Return the files that a path stands for, sorted by name. Raises DataError if there are none or if they cannot be
    listed.
    """
    try:
        return _matching_files(pattern)
    except OSError as error:
        raise DataError(f"{pattern}: {(error.strerror or str(error)).lower()}") from None


def _matching_files(pattern: str) -> list[str]:
    """Return the files that a path stands for. Raises OSError if they cannot be listed."""
    path = Path(pattern)
    if pattern == "-" or path.is_file():
        return [pattern]
    if path.is_dir():
        files = sorted(str(child) for child in path.iterdir() if child.is_file() and not child.name.startswith("."))
        if not files:
            raise DataError(f"{pattern}: the folder has no files")
        return files
    if _WILDCARDS.isdisjoint(pattern) or path.exists():
        return [pattern]
    files = sorted(name for name in glob.glob(pattern, recursive=True) if Path(name).is_file())
    if not files:
        raise DataError(f"{pattern}: no file matches this pattern")
    return files


DataSource: TypeAlias = DataFile | FileCollection


_SAMPLE_ROWS = 5  # rows that are shown
_KIND_TITLES: dict[CellKind | None, str] = {CellKind.BOOLEAN: "yes or no", CellKind.DATETIME: "date or time"}


@dataclass(frozen=True)
class ColumnSummary:
    """A description of one column.

    Attributes:
        name: its normalized name.
        written: its name as an expression has to write it.
        original: its name in the file.
        type: `number`, `whole number`, `yes or no`, `date or time`, or `text`.
        missing: the number of missing cells.
        minimum, maximum: the smallest and the largest number (seconds for dates and times); None for text and for empty
            columns.
        levels: the number of different texts; None for numbers.
    """

    name: str
    written: str
    original: str
    type: str
    missing: int
    minimum: float | None = None
    maximum: float | None = None
    levels: int | None = None


@dataclass(frozen=True)
class DataSummary:
    """A description of a file, or of several with the same columns.

    Attributes:
        name: the name for messages.
        format: the name of the format.
        rows: the number of rows.
        columns: a description of each column.
        first_rows: the first rows as text, in the order of `header`.
        header: the names of the columns in the file.
        notes: sentences on how the file was interpreted.
        options: the command-line options that request the same interpretation explicitly.
    """

    name: str
    format: str
    rows: int
    columns: tuple[ColumnSummary, ...]
    first_rows: tuple[tuple[str, ...], ...]
    header: tuple[str, ...]
    notes: tuple[str, ...]
    options: tuple[str, ...]


def summarize_data(file: DataSource) -> DataSummary:
    """Return a description of files.

    Raises:
        DataError: for cells of numeric columns that are not numbers.
    """
    texts = {*file.text_columns}
    columns_read = file.read(file.names, drop_missing=True, texts=texts)
    positions = file.column_positions(file.names)
    columns = tuple(
        _summarize_column(file, name, file.header[positions[name]], columns_read.columns[name], name in texts)
        for name in file.names
    )
    all_rows = (row for cells in file.iter_rows() for row in (cells if isinstance(cells, list) else cells.rows()))
    first = tuple(tuple(row) for row in itertools.islice(all_rows, _SAMPLE_ROWS))
    return DataSummary(
        name=file.name,
        format=file.format.title,
        rows=len(columns_read.row_numbers),
        columns=columns,
        first_rows=first,
        header=file.header,
        notes=tuple(file.notes),
        options=tuple(file.format.options),
    )


def _summarize_column(file: DataSource, name: str, original: str, cells: Any, is_text: bool) -> ColumnSummary:
    """Return the description of one column."""
    written = quote_name(name)
    if is_text:
        present = [cell for cell in cells.tolist() if cell is not None]
        return ColumnSummary(name, written, original, "text", len(cells) - len(present), levels=len({*present}))
    present = cells[np.isfinite(cells)]
    is_whole = len(present) > 0 and bool(np.all(present == np.round(present)))
    return ColumnSummary(
        name,
        written,
        original,
        _KIND_TITLES.get(file.parsers[name].kind, "whole number" if is_whole else "number"),
        len(cells) - len(present),
        float(present.min()) if len(present) else None,
        float(present.max()) if len(present) else None,
    )

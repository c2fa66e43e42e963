"""Data files: each (`DataFile`) yields batches of columns, and one or several are a dataset (`DataSource`).

A filter selects rows of each batch; rows with missing cells are refused, dropped or kept. Several files are read one
after the other. `DataSource.load` joins the batches into a table; streaming and clusters use them as they are.

`open_data` opens paths, folders and patterns. `DataSummary` describes what was read: columns, types, ranges and
first rows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import itertools
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array
from autodiff_cli.data.batches import (
    CodeTable,
    ColumnBatch,
    ColumnQuery,
    ColumnRequest,
    FallbackRequired,
    GrowingArray,
    LabelColumn,
    MissingCells,
    ProblemList,
    RawBatch,
    find_missing,
    join_labels,
    labels_of,
    numbers_of,
    select_rows,
    with_fallback,
)
from autodiff_cli.data.delimited import parse_block
from autodiff_cli.data.dialect import DEFAULT_FILE_OPTIONS, CellKind, DataError, FileOptions
from autodiff_cli.data.formats import detect_format
from autodiff_cli.data.source import ByteSource
from autodiff_cli.data.streaming import PassProgress, StreamedColumns
from autodiff_cli.data.table import FilterCounts, RowFilter, Table, TextBatch, check_has_rows
from autodiff_cli.graph.tape import group_pairs
from autodiff_cli.language.errors import format_names, pluralize, spelling_hint
from autodiff_cli.language.lexer import canonical_name, quote_name
from autodiff_cli.language.names import joined_columns
from autodiff_cli.system import error_reason

FILE_COLUMN = "file"  # the column with the name of the file that a row comes from
_TEXT_BLOCK_ROWS = 10_000  # rows of a block of text
CellRows: TypeAlias = list[list[str]] | TextBatch


class RowBlock(NamedTuple):
    """Some rows of a file.

    Attributes:
        columns: the requested columns as numbers, by name.
        cells: the text of all cells.
    """

    columns: dict[str, Array]
    cells: CellRows


class DataFile:
    """A file of named columns.

    Args:
        path: a path, or `-` for `stdin`.
        stdin: the stream that `-` stands for.
        options: how to read the file.
        single_pass: read standard input row by row as data arrive, without keeping anything, unless rows are filtered.
        spool_to_disk: keep the bytes of a pipe in a temporary file.

    Attributes:
        source: the bytes of the file.
        name: the name for messages.
        header: the names of the columns as the file has them.
        names: the normalized names of the columns, without empty and repeated ones.
        parsers: the parser of each column, which records the kind of its cells.
        label: the label of the rows of this file, if files are levels.
        foreign_columns: the columns that only other files of the dataset have, with the name of one of these files.
        is_one_of_several: whether the file is one of several, so that a filter may select none of its rows.
        filter_counts: the effect of the filter, after the last pass over the rows.

    Raises:
        DataError: if there is no such file, if its header cannot be read, or if it lacks a column that the options
            name.
    """

    def __init__(
        self,
        path: str,
        stdin: BinaryIO | None = None,
        *,
        options: FileOptions = DEFAULT_FILE_OPTIONS,
        single_pass: bool = False,
        spool_to_disk: bool = False,
        is_one_of_several: bool = False,
    ) -> None:
        where = options.where
        single_pass &= where is None  # a filter needs to know the types of columns before the first row
        source = self.source = ByteSource(
            path, stdin, single_pass=single_pass, spool_to_disk=spool_to_disk, encoding=options.encoding
        )
        self.name = source.name
        self.label = Path(source.name).name
        self.path, self.options, self.is_one_of_several = path, options, is_one_of_several
        self.foreign_columns: dict[str, str] = {}
        self.format = detect_format(source, options)
        self.header = tuple(self.format.header)
        names = self._column_names(options.renamed_columns)
        self._positions = group_pairs((name, position) for position, name in enumerate(names))
        self.names = tuple(filter(None, self._positions))
        self.parsers = {name: self.format.new_parser() for name in self.names}
        self.filter_counts = FilterCounts()
        new_parser = None if self.format.has_types else self.format.new_parser
        self._row_filter = None if where is None else RowFilter(where, self.names, self.text_columns, new_parser)

    @property
    def text_columns(self) -> list[str]:
        """The names of the text columns."""
        positions = self.format.text_positions()
        return [name for name in self.names if self._positions[name][0] in positions]

    @property
    def notes(self) -> list[str]:
        """Sentences on how the file was interpreted: everything that was detected and affects the values."""
        column_notes = ((name, parser.note()) for name, parser in self.parsers.items())
        return [*self.format.notes, *[f"column `{name}`: {note}" for name, note in column_notes if note is not None]]

    @property
    def origins(self) -> dict[str, datetime]:
        """The times from which dates and times are counted, for the columns read so far."""
        return {name: parser.origin for name, parser in self.parsers.items() if parser.origin is not None}

    def use_origins(self, origins: Mapping[str, datetime | None]) -> None:
        """Set the times from which dates and times are counted, by column; other columns are left out."""
        for name in self.parsers.keys() & origins.keys():
            self.parsers[name].origin = origins[name]

    @property
    def units(self) -> dict[str, str]:
        """The units that a row of the file states, by column."""
        units = {name: self.format.units.get(self.header[places[0]], "") for name, places in self._positions.items()}
        return {name: unit for name, unit in units.items() if name and unit}

    def iter_batches(self, query: ColumnQuery) -> Generator[ColumnBatch]:
        """Yield some columns of the rows that the filter selects; see `DataSource.iter_batches`."""
        row_filter = self._row_filter
        names = self._positions.keys()
        joined = {name: joined_columns(name, names) for name in query.labels}
        labels = {*itertools.chain(*joined.values())} - ({FILE_COLUMN} - names)
        filtered, texts = (set(), set()) if row_filter is None else (row_filter.columns, row_filter.text_columns)
        request = ColumnRequest(
            self.column_positions({*query.numbers, *labels, *filtered}),
            {*labels, *texts},
            self.parsers,
            query.batch_rows,
            accepts_missing=query.missing is not MissingCells.REFUSE or row_filter is not None,
            cell_by_cell=query.cell_by_cell,
        )
        can_find_lines = self.format.is_slow_to_parse and not query.cell_by_cell
        requested = {*query.numbers, *query.labels}
        rows, counts, problems = 0, FilterCounts(), ProblemList(f"{self.name}: ")
        with contextlib.closing(self.format.iter_batches(request)) as batches:
            for batch in batches:
                count = len(next(iter(batch.values())))
                mask = None if row_filter is None else row_filter.mask(batch, self.parsers, counts)
                selected = count if mask is None else int(np.count_nonzero(mask))
                if FILE_COLUMN not in names:
                    batch[FILE_COLUMN] = LabelColumn(np.zeros(count, np.int32), [self.label])
                batch |= {
                    name: join_labels([labels_of(batch, part) for part in parts])
                    for name, parts in joined.items()
                    if len(parts) > 1 and {*parts} <= batch.keys()
                }
                columns = select_rows({name: batch[name] for name in requested & batch.keys()}, mask)
                incomplete = {} if query.missing is MissingCells.KEEP else find_missing(columns, query.numbers)
                dropped = 0
                if incomplete and query.missing is MissingCells.DROP:
                    complete = ~np.logical_or.reduce([*incomplete.values()])
                    columns, dropped = select_rows(columns, complete), int(np.count_nonzero(~complete))
                    mask = np.ones(count, np.bool_) if mask is None else mask.copy()
                    mask[mask] = complete
                elif incomplete and can_find_lines:
                    raise FallbackRequired
                elif incomplete:
                    row_numbers = np.arange(count) if mask is None else np.flatnonzero(mask)
                    problems.add_missing(incomplete, columns, row_numbers + rows + 1)
                rows += count
                if not problems:
                    yield ColumnBatch(columns, selected - dropped, mask, dropped)
        problems.raise_if_any()
        self.set_filter_counts(counts)

    def set_filter_counts(self, counts: FilterCounts) -> None:
        """Set `filter_counts`. Raises DataError if the filter selects no row, unless the file is one of several."""
        self.filter_counts = counts
        if not (self._row_filter is None or counts.selected or self.is_one_of_several):
            problem = f"{self.name}: --where keeps none of {counts.rows} rows"
            raise DataError("\n".join([problem, *self.filter_notes(counts)[:-1]]))

    def filter_notes(self, counts: FilterCounts) -> list[str]:
        """Return notes on quoted texts that no row has, on uncertain rows, and on the number of selected rows."""
        if self._row_filter is None or not counts.rows:
            return []
        notes = self._row_filter.notes(counts.texts)
        if counts.uncertain_count:
            warning = f"--where: the condition is uncertain in {pluralize(counts.uncertain_count, 'row')}"
            notes.append(f"{warning}: floats cannot distinguish whole numbers beyond 2^53")
        return [*notes, f"--where keeps {counts.selected} of {counts.rows} rows"]

    def iter_blocks(self, names: Collection[str], size: int, *, is_filtered: bool = False) -> Iterator[RowBlock]:
        """Yield rows in order, at most `size` at a time: the requested columns as numbers, and the text of all cells.

        Cells may be nan or infinite if the file spells them so.

        Args:
            names: the columns.
            size: the maximum number of rows in a block, before filtering.
            is_filtered: whether to yield only the rows that the filter selects.

        Raises:
            DataError: for empty cells, cells that are not numbers, and rows with too few or too many cells, block by
                block.
        """
        row_filter = self._row_filter if is_filtered else None
        request = ColumnRequest(self.column_positions(names), (), self.parsers, size, True, True, refuses_blanks=True)
        done, counts = 0, FilterCounts()
        if row_filter is None:
            with contextlib.suppress(FallbackRequired), contextlib.closing(self.format.iter_text_batches()) as batches:
                for part in (part for batch in batches for part in batch.split(size)):
                    columns = {name: part.parse_column(position) for name, position in request.positions.items()}
                    yield RowBlock(columns, part)
                    done += len(part)
                return
        to_plain_text = self.format.new_parser().plain_text
        parse = partial(parse_block, self.name, len(self.header))
        with contextlib.closing(self.format.iter_records()) as records:
            rest = itertools.islice(records, done, None)
            while block := list(itertools.islice(rest, size)):
                if row_filter is not None:  # only the selected rows need all cells
                    places = self.column_positions({*names, *row_filter.columns})
                    batch = parse(block, ColumnRequest(places, row_filter.text_columns, self.parsers, size, True, True))
                    block = [*itertools.compress(block, row_filter.mask(batch, self.parsers, counts).tolist())]
                cells = [[*map(to_plain_text, each.cells)] for each in block]
                yield RowBlock(parse(block, request), cells)
        if row_filter is not None:
            self.set_filter_counts(counts)

    def _column_names(self, renamed: Mapping[str, str]) -> list[str]:
        """Return the normalized names of all columns, after renaming.

        Raises DataError if a renamed column is missing, or if the new name is taken.
        """
        names = [canonical_name(cell.strip()) for cell in self.header]
        for original, name in renamed.items():
            if original in names:
                if name in names and name not in renamed:
                    raise DataError(f"{self.name}: --column {name}: the file already has a column `{name}`")
            elif not (self.is_one_of_several and name in names):  # else another file has the original
                swapped = f"did you mean --column {original}={name}?" * (name in names)
                hint = spelling_hint(original, names, swapped or f"the columns are {format_names(self.header)}")
                raise DataError(f"{self.name}: --column {name}: there is no column `{original}`; {hint}")
        return [renamed.get(name, name) for name in names]

    def column_positions(self, requested: Collection[str]) -> dict[str, int]:
        """Return the positions of the named columns that exist.

        Raises DataError for a name that occurs twice, and for a column that only other files have.
        """
        if lacking := sorted(self.foreign_columns.keys() & {*requested}):
            others = f"its columns differ from those of {self.foreign_columns[lacking[0]]}"
            raise DataError(f"{self.name}: {others}: it lacks {format_names(lacking, '`')}")
        names = sorted({*requested} & self._positions.keys(), key=self._positions.__getitem__)
        for name in names:
            if len(self._positions[name]) > 1:
                raise DataError(f"{self.name}: the header names the column `{name}` more than once")
        return {name: self._positions[name][0] for name in names}


def _filter_rows(blocks: Iterable[CellRows], mask: NDArray[np.bool_]) -> Iterator[CellRows]:
    """Yield the rows of blocks that a mask over all rows selects."""
    start = 0
    for cells in blocks:
        chosen = mask[start : start + len(cells)]
        start += len(cells)
        yield cells.filter_rows(chosen) if isinstance(cells, TextBatch) else [*itertools.compress(cells, chosen)]


# --- One or several files


_WILDCARDS = frozenset("*?[")
_MAX_NAMES_SHOWN = 3  # files that are named in messages


def open_data(
    paths: Sequence[str],
    stdin: BinaryIO | None = None,
    *,
    options: FileOptions = DEFAULT_FILE_OPTIONS,
    origins: Mapping[str, datetime | None] = MappingProxyType({}),
    spool_to_disk: bool = False,
) -> DataSource:
    """Open the data at some paths; each is a file, a folder of files or a pattern such as `2024-*.csv`.

    Args:
        stdin: the stream that `-` stands for.
        options: how to read the files.
        origins: the origin of each column in the data of a fit, from which its dates and times are counted; None for a
            column that held numbers.
        spool_to_disk: see `DataFile`.

    Raises:
        DataError: for missing or unreadable files, and for files with different columns.
    """
    files = [path for pattern in paths for path in _expand_path(pattern)]
    if not files:
        raise DataError("there is no file to read: give at least one path")
    settings: dict[str, Any] = {"options": options, "spool_to_disk": spool_to_disk}
    return DataSource([DataFile(path, stdin, **settings, is_one_of_several=len(files) > 1) for path in files], origins)


class DataSource:
    """Data files, read one after the other as one dataset; see `Dataset`.

    Attributes:
        files: the files in order.
        name: the name for messages.
        header: the names of the columns that all files have, as they have them.
        common_names: the normalized names of the columns that all files have, in the order of the first file.
        names: the normalized names of all columns, without empty and repeated ones. Only columns that all files have
            can be read. Several files without a column `file` have one with their names as labels.
        parsers: the parser of each column, which records the kind of its cells.
        is_filtered: whether a filter selects rows.
        on_progress: called with the progress of a pass over streamed rows.
        streamed: the streamed columns, once streaming has started.

    Args:
        origins: see `open_data`.

    Raises:
        DataError: if the files have no column in common.
    """

    def __init__(
        self, files: Sequence[DataFile], origins: Mapping[str, datetime | None] = MappingProxyType({})
    ) -> None:
        self.files = files
        self._time_columns = {name: origin is not None for name, origin in origins.items()}
        self.on_progress: Callable[[PassProgress], object] | None = None
        self.streamed: StreamedColumns | None = None
        first = files[0]
        shown, rest = ", ".join(file.name for file in files[:_MAX_NAMES_SHOWN]), len(files) - _MAX_NAMES_SHOWN
        self.name = shown if rest <= 0 else f"{shown} and {pluralize(rest, 'more file')}"
        self._has_same_order = all(file.header == first.header for file in files)
        owners = {name: file for file in reversed(files) for name in reversed(file.names)}
        self.common_names = [name for name in first.names if all(name in file.parsers for file in files)]
        self.header = first.header if self._has_same_order else tuple(self.common_names)
        self.names = tuple(dict.fromkeys((*first.names, *owners)))
        self.parsers = {name: owner.parsers[name] for name, owner in owners.items()}
        if len(files) > 1 and FILE_COLUMN not in self.names:
            self.names = (*self.names, FILE_COLUMN)
            for file in files if len({file.label for file in files}) < len(files) else ():
                file.label = file.name
        self.is_filtered = first.options.where is not None
        for file in files:
            file.use_origins(origins)
            file.foreign_columns = {name: owner.name for name, owner in owners.items() if name not in file.parsers}
        if not self.common_names and len(files) > 1:
            raise DataError(f"{files[-1].name}: it has no column that all other files have")

    @property
    def notes(self) -> list[str]:
        """Sentences on how the files were interpreted and streamed.

        A note that does not apply to all files starts with the name of its file.
        """
        notes_by_file = [file.notes for file in self.files]
        common = [note for note in notes_by_file[0] if all(note in notes for notes in notes_by_file)]
        file_notes = (
            f"{file.name}: {note}"
            for file, notes in zip(self.files, notes_by_file, strict=True)
            for note in notes
            if note not in common
        )
        count_notes = [f"{len(self.files)} files"] if len(self.files) > 1 else []
        stream_notes = [] if self.streamed is None else [self.streamed.note]
        partial = dict.fromkeys(name for file in self.files for name in file.foreign_columns)
        count_notes += [f"only some files have {format_names([*partial], '`')}"] * bool(partial)
        counts = FilterCounts()
        for file in self.files:
            counts.add(file.filter_counts)
        return [*count_notes, *common, *file_notes, *self.files[0].filter_notes(counts), *stream_notes]

    @property
    def origins(self) -> dict[str, datetime]:
        """The times from which dates and times are counted, for the columns read so far."""
        return self.files[0].origins

    @property
    def is_slow_to_parse(self) -> bool:
        """Whether parsing or filtering takes so long that the result is worth storing."""
        return self.is_filtered or any(file.format.is_slow_to_parse for file in self.files)

    def estimate_rows(self) -> int:
        """Return the number of rows; estimated from the first rows if a file does not state it."""
        return sum(file.format.estimate_rows() for file in self.files)

    def signature(self) -> tuple[Any, ...]:
        """Return a value that changes when a file is modified; see `ByteSource.signature`."""
        return tuple(file.source.signature() for file in self.files)

    def iter_batches(self, query: ColumnQuery) -> Generator[ColumnBatch]:
        """Yield some columns of the rows that the filter selects, in batches. Only these columns are read.

        Raises:
            DataError: for a query that names no column, for cells that are not numbers, for missing cells, and for a
                column of numbers in one file that holds dates or times in another.
            FallbackRequired: if the files have to be parsed cell by cell.
        """
        names = {*self.names, FILE_COLUMN}
        parts = (part for name in query.labels for part in joined_columns(name, names))
        if not self.is_filtered and {*query.numbers, *parts}.isdisjoint(names):
            used = f"uses none of its columns, which are {format_names(self.names)}"
            raise DataError(f"{self.name}: {f'the model {used}' if self.names else 'the columns have no names'}")
        rows = 0
        for file in self.files:
            for batch in file.iter_batches(query):
                self._check_times(file, {*query.numbers} & file.parsers.keys(), batch)
                yield batch
                rows += batch.rows + batch.dropped
                for other in self.files:
                    other.use_origins(file.origins)  # so that all files count dates and times from the same ones
        if not rows and self.is_filtered and len(self.files) > 1:
            raise DataError("\n".join([f"{self.name}: --where keeps no row of any file", *self.notes[1:]]))

    def _check_times(self, file: DataFile, names: Collection[str], batch: ColumnBatch) -> None:
        """Raise DataError if a column holds dates or times in a file, and numbers in another or in the data of the fit,
        or the reverse.
        """
        for name in names:
            kind, expected = file.parsers[name].kind, self._time_columns.get(name)
            holds_times, cells = kind is CellKind.DATETIME, numbers_of(batch.columns, name)
            # Arrow, which parses large files, records no kind.
            is_news = holds_times != expected and (kind is not None or bool(np.isfinite(cells).any()))
            if is_news and self._time_columns.setdefault(name, holds_times) != holds_times:
                own, others = ("dates or times", "numbers") if holds_times else ("numbers", "dates or times")
                raise DataError(f"{file.name}: column `{name}` holds {own}, but {others} in the other data")

    def load(self, names: Collection[str], *, drop_missing: bool = False, labels: Collection[str] = ()) -> Table:
        """Return some columns as a table; see `Dataset.load`. Only these columns are read."""
        table = self.read(ColumnQuery(names, labels, MissingCells.DROP if drop_missing else MissingCells.REFUSE))
        check_has_rows(table, f"{self.name}: ")
        return table

    def read(self, query: ColumnQuery) -> Table:
        """Return some columns as a table, which may have no rows.

        Labels become the levels of the fit, or numbers if all of them are numbers.
        """
        table = with_fallback(query, self.read_once)
        labels = {name: column.parsed(query.levels.get(name, ())) for name, column in table.labels.items()}
        return dataclasses.replace(table, labels=labels)

    def read_once(self, query: ColumnQuery) -> Table:
        """Return some columns as a table, which may have no rows. Labels are texts as they are in the files.

        Raises FallbackRequired if the files have to be parsed cell by cell.
        """
        # 1/16 more than estimated: the lines of the sample may be longer than the rest
        expected = 0 if self.is_filtered else self.estimate_rows() * 17 // 16
        numbers = {name: GrowingArray(expected) for name in self.names if name in query.numbers}
        names = {*self.names, FILE_COLUMN}
        tables = {name: CodeTable() for name in query.labels if {*joined_columns(name, names)} <= names}
        codes = {name: GrowingArray(expected, np.int32) for name in tables}
        rows = dropped = 0
        masks: list[tuple[NDArray[np.bool_] | None, int]] = []
        for batch in self.iter_batches(query):
            for name, array in numbers.items():
                array.add(numbers_of(batch.columns, name))
            for name, table in tables.items():
                codes[name].add(table.encode(labels_of(batch.columns, name)))
            rows, dropped = rows + batch.rows, dropped + batch.dropped
            masks.append((batch.mask, batch.rows))
        has_all = all(mask is None for mask, _ in masks)
        return Table(
            {name: array.finish() for name, array in numbers.items()},
            rows,
            dropped,
            {name: LabelColumn(array.finish(), [*tables[name].labels]) for name, array in codes.items()},
            None if has_all else np.concatenate([np.ones(n, np.bool_) if mask is None else mask for mask, n in masks]),
        )

    def iter_rows(self) -> Iterator[CellRows]:
        """Yield all rows as text, in blocks, with cells in the order of `header`."""
        for file in self.files:
            places = {} if self._has_same_order else file.column_positions(self.header)
            positions = [places[name] for name in self.header if places]
            for _, cells in file.iter_blocks((), _TEXT_BLOCK_ROWS):
                if isinstance(cells, TextBatch):
                    cells = TextBatch(cells.batch.select(positions)) if positions else cells
                elif positions:
                    cells = [[row[position] for position in positions] for row in cells]
                yield cells

    def iter_selected_rows(self, table: Table) -> Iterator[CellRows]:
        """Yield the rows of a table as text."""
        return self.iter_rows() if table.row_mask is None else _filter_rows(self.iter_rows(), table.row_mask)

    def row(self, number: int, numbers: Collection[str], labels: Collection[str]) -> RawBatch:
        """Return some columns of a single row, counted from 1 among the rows that the filter selects.

        Args:
            numbers, labels: see `ColumnQuery`.

        Raises:
            DataError: if there is no such row or column, for cells that are not numbers, and for missing cells.
        """
        names = [*numbers, *itertools.chain(*(joined_columns(name, self.names) for name in labels))]
        unknown = [name for name in names if name not in self.names]
        if unknown:
            columns = f"the columns are {format_names(self.names)}"
            raise DataError(f"{self.name}: there is no column {format_names(unknown, '`')}; {columns}")
        query = ColumnQuery(numbers, labels, MissingCells.KEEP, batch_rows=max(1, number))
        row = with_fallback(query, lambda query: self._read_row(query, number))
        problems = ProblemList(f"{self.name}: ")
        problems.add_missing(find_missing(row, numbers), row, [number])
        problems.raise_if_any()
        return row

    def _read_row(self, query: ColumnQuery, number: int) -> RawBatch:
        count, row = 0, None
        for batch in self.iter_batches(query):
            if count < number <= count + batch.rows:
                place = number - 1 - count
                row = {name: column[place : place + 1] for name, column in batch.columns.items()}
            count += batch.rows
            if row is not None and not self.is_filtered:  # a filter counts the rows up to the last one
                break
        if row is not None:
            return row
        problem = f"there is no row {number}; the last one is {count}" if count else "there are no rows"
        raise DataError(f"{self.name}: {problem}")


def _expand_path(pattern: str) -> list[str]:
    """Return the files that a path, a folder or a pattern names, sorted.

    Raises DataError if there are none or if they cannot be listed.
    """
    if "://" in pattern:
        raise DataError(f"{pattern}: this is a URL; give the path of a file, downloaded if necessary")
    path = Path(pattern)
    try:
        if pattern != "-" and path.is_dir():
            files = sorted(str(child) for child in path.iterdir() if child.is_file() and not child.name.startswith("."))
            problem = "the folder has no files"
        elif pattern == "-" or _WILDCARDS.isdisjoint(pattern) or path.exists():
            return [pattern]
        else:
            files = sorted(name for name in glob.glob(pattern, recursive=True) if Path(name).is_file())
            problem = "no file matches this pattern"
    except OSError as error:
        raise DataError(f"{pattern}: {error_reason(error)}") from None
    if not files:
        raise DataError(f"{pattern}: {problem}")
    return files


_SAMPLE_ROWS = 5  # number of rows shown
_KIND_TITLES: dict[CellKind | None, str] = {CellKind.BOOLEAN: "yes or no", CellKind.DATETIME: "date or time"}


@dataclass(frozen=True)
class ColumnSummary:
    """A description of one column.

    Attributes:
        name: its normalized name.
        written: its name in expressions, in backticks if necessary.
        original: its name in the file.
        type: `number`, `whole number`, `yes or no`, `date or time`, or `text`.
        missing: the number of missing cells.
        minimum, maximum: the smallest and the largest number (seconds for dates and times); None for text and for empty
            columns.
        levels: the number of different texts; None for numbers.
        unit: its unit, if a row of the file states units.
    """

    name: str
    written: str
    original: str
    type: str
    missing: int
    minimum: float | None = None
    maximum: float | None = None
    levels: int | None = None
    unit: str = ""


class DataSummary:
    """A description of a file, or of several with the same columns.

    Args:
        file: the files.

    Attributes:
        name: the name for messages.
        format: the name of the format.
        rows: the number of rows.
        columns: a description of each column.
        first_rows: the first rows as text, in the order of `header`.
        header: the names of the columns in the file.
        notes: sentences on how the file was interpreted.
        options: the command-line options that request the same interpretation explicitly.

    Raises:
        DataError: for cells of numeric columns that are not numbers.
    """

    def __init__(self, file: DataSource) -> None:
        first, names = file.files[0], file.common_names
        texts = [name for name in first.text_columns if name in names]
        table = file.read(ColumnQuery({*names}.difference(texts), texts, MissingCells.KEEP))
        originals = {name: first.header[position] for name, position in first.column_positions(names).items()}
        units = first.units
        blocks = file.iter_selected_rows(table)
        all_rows = (row for cells in blocks for row in (cells if isinstance(cells, list) else cells.rows()))
        self.first_rows = [tuple(row) for row in itertools.islice(all_rows, _SAMPLE_ROWS)]
        self.columns = [
            _summarize_column(
                (name, quote_name(name), originals[name]),
                table.labels[name] if name in table.labels else table.columns[name],
                file.parsers[name].kind,
                units.get(name, ""),
            )
            for name in names
        ]
        self.name, self.header, self.notes, self.rows = file.name, file.header, file.notes, table.rows
        self.format, self.options = first.format.title, first.format.options


def _summarize_column(
    names: tuple[str, str, str], cells: NDArray[Any] | LabelColumn, kind: CellKind | None, unit: str
) -> ColumnSummary:
    """Return the description of a column of numbers or of labels; `names` are its first three fields."""
    if isinstance(cells, LabelColumn):
        levels = len(np.unique(cells.codes[cells.codes >= 0]))
        return ColumnSummary(*names, "text", int(np.sum(cells.codes < 0)), levels=levels, unit=unit)
    present = cells[np.isfinite(cells)]
    is_whole = len(present) > 0 and bool(np.all(present == np.round(present)))
    low, high = (float(present.min()), float(present.max())) if len(present) else (None, None)
    title = _KIND_TITLES.get(kind, "whole number" if is_whole else "number")
    return ColumnSummary(*names, title, len(cells) - len(present), low, high, unit=unit)

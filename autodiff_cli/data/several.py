"""Several files of the same columns as one Dataset."""

from __future__ import annotations

import glob
import itertools
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, TypeAlias

from autodiff_cli.data.cells import CellReader
from autodiff_cli.data.files import Block, Cells, DataFile, loaded
from autodiff_cli.data.options import AS_IT_IS, FileOptions
from autodiff_cli.data.streaming.columns import Passing, StreamedColumns
from autodiff_cli.data.streaming.growing import Growing
from autodiff_cli.data.streaming.pieces import RawPiece
from autodiff_cli.data.table import DataError, RawColumns, Record, Table, as_table
from autodiff_cli.data.texts import TextColumns
from autodiff_cli.language.errors import in_brief

_WILD = frozenset("*?[")
_MOST_NAMED = 3  # files that a name for messages spells out


def open_data(
    paths: Sequence[str],
    stdin: BinaryIO | None = None,
    *,
    options: FileOptions = AS_IT_IS,
    origins: Mapping[str, datetime] = MappingProxyType({}),
    on_disk: bool = False,
) -> DataFile | SeveralFiles:
    """The data at some paths, each a file, a folder of files or a pattern (`2024-*.csv`).

    Args:
        stdin: where `-` is read from.
        options: how files are to be read.
        origins, on_disk: see `DataFile`.

    Raises:
        DataError: for what is not there or cannot be read, and for files whose columns are not the same.
    """
    found = [path for given in paths for path in _expanded(given)]
    if len(found) == 1:
        return DataFile(found[0], stdin, options=options, origins=origins, on_disk=on_disk)
    return SeveralFiles([DataFile(path, stdin, options=options, origins=origins, on_disk=on_disk) for path in found])


class SeveralFiles:
    """Files of the same columns, in any order, one after the other. See `DataFile`.

    Raises:
        DataError: if a file has other columns than the first; the message names both.
    """

    def __init__(self, files: Sequence[DataFile]) -> None:
        self._files = files
        for file in files:
            file.is_part = True
        self.listen: Callable[[Passing], object] | None = None
        self.streamed: StreamedColumns | None = None
        first = files[0]
        shown = ", ".join(file.name for file in files[:_MOST_NAMED])
        self.name = shown if len(files) <= _MOST_NAMED else f"{shown} and {len(files) - _MOST_NAMED} more files"
        self._is_in_order = all(file.header == first.header for file in files)
        self.header = first.header if self._is_in_order else first.names
        self.names, self.format = first.names, first.format
        for file in files[1:]:
            lacking = [name for name in first.names if name not in file.names]
            added = [name for name in file.names if name not in first.names]
            if lacking or added:
                what = f"lacks {in_brief(lacking, '`')}" if lacking else f"has {in_brief(added, '`')} too"
                raise DataError(f"{file.name}: its columns are not those of {first.name}: it {what}")

    @property
    def files(self) -> Sequence[DataFile]:
        """Each of them, in order."""
        return self._files

    @property
    def readers(self) -> Mapping[str, CellReader]:
        """See `DataFile.readers`."""
        return self._files[0].readers

    def places(self, wanted: Collection[str]) -> dict[str, int]:
        """Where columns of these names stand in `header`."""
        return self._files[0].places(wanted) if self._is_in_order else {n: self.names.index(n) for n in wanted}

    @property
    def texts(self) -> list[str]:
        """See `DataFile.texts`."""
        return self._files[0].texts

    @property
    def notes(self) -> list[str]:
        """See `DataFile.notes`; each says which file it is about, but for what holds for all."""
        several = [file.notes for file in self._files]
        common = [note for note in several[0] if all(note in notes for notes in several)]
        own = (
            f"{file.name}: {note}"
            for file, notes in zip(self._files, several, strict=True)
            for note in notes
            if note not in common
        )
        streamed = [] if self.streamed is None else [self.streamed.note]
        return [f"{len(self._files)} files", *common, *own, *streamed]

    @property
    def origins(self) -> dict[str, datetime]:
        """See `DataFile.origins`."""
        return self._files[0].origins

    def load(self, wanted: Collection[str], *, drop_missing: bool = False, labels: str | None = None) -> Table:
        """See `Dataset.load`."""
        return loaded(self, wanted, drop_missing, labels)

    def read(self, wanted: Collection[str], *, drop_missing: bool = False, texts: Collection[str] = ()) -> RawColumns:
        """See `DataFile.read`."""
        columns: dict[str, Growing] = {}
        rows = 0
        for file in self._files:
            part = file.read(wanted, drop_missing=drop_missing, texts=texts)
            if not drop_missing and len(part.rows):  # what is missing is named with its file
                numbers = {name: column for name, column in part.columns.items() if name not in texts}
                as_table(RawColumns(numbers, part.rows), drop_missing, None, f"{file.name}: ")
            for name, column in part.columns.items():
                columns.setdefault(name, Growing()).add(column)
            rows += len(part.rows)
            self._count_from(file.origins)
        self._check_left(rows)
        return RawColumns({name: column.whole() for name, column in columns.items()}, range(1, rows + 1))

    def pieces(
        self,
        wanted: Collection[str],
        texts: Collection[str],
        size: int,
        *,
        drop_missing: bool = False,
        careful: bool = False,
    ) -> Generator[RawPiece]:
        """See `DataFile.pieces`."""
        rows = 0
        for file in self._files:
            for piece in file.pieces(wanted, texts, size, drop_missing=drop_missing, careful=careful):
                yield piece
                rows += len(piece.rows)
                self._count_from(file.origins)
        self._check_left(rows)

    def _check_left(self, rows: int) -> None:
        """Raise DataError if the condition leaves no row of any file."""
        if not rows and self._files[0].options.where is not None:
            raise DataError("\n".join([f"{self.name}: --where leaves no row of any file", *self.notes[1:]]))

    @property
    def is_text(self) -> bool:
        """See `DataFile.is_text`."""
        return any(file.is_text for file in self._files)

    def rows_about(self) -> int:
        """See `DataFile.rows_about`."""
        return sum(file.rows_about() for file in self._files)

    def signature(self) -> tuple[Any, ...]:
        """See `DataFile.signature`."""
        return tuple(file.signature() for file in self._files)

    def rows(self) -> Iterator[Cells]:
        """See `DataFile.rows`; cells in the order of the first file's columns."""
        for file in self._files:
            yield from map(self._in_order(file), file.rows())

    def blocks(self, wanted: Collection[str], size: int) -> Iterator[Block]:
        """See `DataFile.blocks`."""
        for file in self._files:
            in_order = self._in_order(file)
            for columns, cells in file.blocks(wanted, size):
                yield Block(columns, in_order(cells))
            self._count_from(file.origins)

    def row(self, number: int, wanted: Collection[str]) -> Record:
        """See `DataFile.row`."""
        before = 0
        for file in self._files:
            count = sum(map(len, file.rows()))
            if number <= before + count:
                place, cells = file.row(number - before, wanted)
                return Record(f"{file.name}: {place}", cells)
            before += count
        raise DataError(f"{self.name}: there is no row {number}; the last one is {before}")

    def _in_order(self, file: DataFile) -> Callable[[Cells], Cells]:
        """What brings the cells of rows into the order of the first file's columns."""
        if self._is_in_order:
            return lambda cells: cells
        there = file.places(self.names)
        places = [there[name] for name in self.names]

        def in_order(cells: Cells) -> Cells:
            if isinstance(cells, TextColumns):
                return cells.select(places)
            return [[row[place] for place in places] for row in cells]

        return in_order

    def _count_from(self, origins: Mapping[str, datetime]) -> None:
        """Let all files count dates and times from the same moments."""
        for file, (name, origin) in itertools.product(self._files, origins.items()):
            file.readers[name].origin = origin


def _expanded(given: str) -> list[str]:
    """The files that a path stands for, sorted by name. Raises DataError where there is none, or none to be seen."""
    try:
        return _found(given)
    except OSError as error:
        raise DataError(f"{given}: {(error.strerror or str(error)).lower()}") from None


def _found(given: str) -> list[str]:
    path = Path(given)
    if given == "-" or path.is_file():
        return [given]
    if path.is_dir():
        found = sorted(str(child) for child in path.iterdir() if child.is_file() and not child.name.startswith("."))
        if not found:
            raise DataError(f"{given}: there is no file in this folder")
        return found
    if _WILD.isdisjoint(given) or path.exists():
        return [given]
    found = sorted(name for name in glob.glob(given, recursive=True) if Path(name).is_file())
    if not found:
        raise DataError(f"{given}: no file has a name like this")
    return found


DataFiles: TypeAlias = DataFile | SeveralFiles

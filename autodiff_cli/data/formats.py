"""The formats of data files, told apart by what the files begin with."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from typing import Any, Protocol

from autodiff_cli.data.arrow import Feather, JsonLines, Parquet
from autodiff_cli.data.cells import CellReader
from autodiff_cli.data.delimited import Delimited
from autodiff_cli.data.dialect import Dialect
from autodiff_cli.data.source import ByteSource
from autodiff_cli.data.streaming.pieces import Raw
from autodiff_cli.data.table import Record
from autodiff_cli.data.texts import TextColumns

_BLANKS = b"\xef\xbb\xbf \t\r\n"


class ColumnFormat(Protocol):
    """A way to write columns down."""

    @property
    def title(self) -> str:
        """What it is called."""

    @property
    def header(self) -> Sequence[str]:
        """The names of the columns, as the file spells them."""

    @property
    def notes(self) -> Sequence[str]:
        """What was seen of how the columns are written that nobody said."""

    @property
    def options(self) -> Sequence[str]:
        """The options that say the same outright."""

    @property
    def extent(self) -> tuple[int, int] | None:
        """Between which two numbers its rows lie, if parts of these can be read alone: of bytes, or groups of rows."""

    def restrict(self, begin: int, end: int) -> None:
        """Be a part of it from now on, for `columns`: the rows that begin between two numbers of the extent.

        Raises NotPlain if these cannot be told.
        """

    def reader(self) -> CellReader:
        """What reads the cells of a column."""

    def text_places(self) -> Collection[int]:
        """The places of the columns of text: those whose first cell that is not missing is no number."""

    def columns(
        self, places: Mapping[str, int], drop_missing: bool, texts: Collection[str], readers: Mapping[str, CellReader]
    ) -> dict[str, Any]:
        """The columns at some places, by other names: floats, nan where a cell is missing; of `texts`, texts, None
        where one is.

        Args:
            readers: what reads the cells of each, and learns what they are.

        Raises:
            DataError: for cells that hold no number; where the place of what is missing is known, for these too unless
                `drop_missing`.
        """

    def pieces(
        self,
        places: Mapping[str, int],
        drop_missing: bool,
        texts: Collection[str],
        readers: Mapping[str, CellReader],
        size: int,
        careful: bool,
    ) -> Generator[Raw]:
        """The same, some rows at a time; texts as `Coded`.

        Args:
            size: how many rows at a time, about, where the file does not say.
            careful: read cell by cell, where that makes a difference.

        Raises:
            DataError: as `columns`.
            NotPlain: where only careful reading can go on, or can say what is wrong.
        """

    def rows_about(self) -> int:
        """How many rows there are, estimated by how long the first ones are, if nothing says it."""

    @property
    def is_text(self) -> bool:
        """Whether reading takes long, since numbers are written as text."""

    def records(self) -> Generator[Record]:
        """The rows as text, each with its place. Of what can be read only once, those that were not read yet."""

    def texts(self) -> Generator[TextColumns]:
        """The rows by column, where that is faster. Raises NotPlain where it has to end, maybe at once."""


def format_of(source: ByteSource, dialect: Dialect) -> ColumnFormat:
    """The format of a file. Raises DataError for one that has no names of columns."""
    if source.is_zipped or source.start.lstrip(_BLANKS).startswith((Parquet.MAGIC, Feather.MAGIC, JsonLines.MAGIC)):
        source.keep()  # only a text of rows can be read as it arrives
    for kind in (Parquet, Feather):
        if source.start.startswith(kind.MAGIC):
            return kind(source)
    if source.text_start.lstrip(_BLANKS).startswith(JsonLines.MAGIC):
        return JsonLines(source)
    return Delimited(source, dialect)

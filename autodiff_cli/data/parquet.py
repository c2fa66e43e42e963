"""Parquet files, through pyarrow."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from autodiff_cli.data.source import ByteSource
from autodiff_cli.data.table import DataError, Record, as_floats, as_texts
from autodiff_cli.data.texts import NotPlain, TextColumns

MAGIC = b"PAR1"  # the first bytes of such a file


class Parquet:
    """A Parquet file. See `files.ColumnFormat`."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        with self._opened() as file:
            self.header = list(file.schema_arrow.names)

    def columns(self, places: Mapping[str, int], drop_missing: bool, labels: str | None) -> dict[str, Any]:  # noqa: ARG002
        """See `ColumnFormat.columns`."""
        import pyarrow as pa

        columns: dict[str, Any] = {}
        with self._opened() as file:
            names = {name: self.header[place] for name, place in places.items()}
            table = file.read(columns=list(names.values()))
            for name, own in names.items():
                cells = table.column(own)
                if name == labels:
                    columns[name] = as_texts(cells)
                    continue
                if pa.types.is_boolean(cells.type):
                    cells = cells.cast(pa.int8())
                try:
                    columns[name] = as_floats(cells.cast(pa.float64(), safe=False))
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                    what = f"column `{name}` holds values of type {cells.type}, not numbers"
                    raise DataError(f"{self._source.name}: {what}") from None
        return columns

    def texts(self) -> Generator[TextColumns]:
        """See `ColumnFormat.texts`."""
        raise NotPlain
        yield

    def records(self) -> Generator[Record]:
        """See `ColumnFormat.records`."""
        with self._opened() as file:
            columns = [column.to_pylist() for column in file.read().columns]
        for k, cells in enumerate(zip(*columns, strict=True), 1):
            yield Record(f"row {k}", ["" if cell is None else str(cell) for cell in cells])

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Any]:
        """The file as pyarrow has it. What pyarrow cannot read within raises DataError."""
        import pyarrow as pa
        from pyarrow import parquet

        with self._source.raw() as stream:
            try:
                yield parquet.ParquetFile(stream)
            except DataError:
                raise
            except (OSError, ValueError, pa.ArrowException) as error:
                raise self._source.unreadable(error) from None

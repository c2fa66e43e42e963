"""Predictions for many rows, chunk by chunk: streamed, and in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from autodiff_cli.data.files import DataFile
from autodiff_cli.data.several import SeveralFiles
from autodiff_cli.data.streaming.columns import StreamedColumns, label
from autodiff_cli.training.prediction.named import NamedPredictions, WantedColumns, named_predictions

if TYPE_CHECKING:
    from autodiff_cli.training.result.fit import FittedModel


_CHUNK = 1 << 17  # rows that are predicted together


class PredictionsInMemory:
    """What is predicted for each row of columns, made again whenever it is asked for, unless rows are few."""

    def __init__(self, fit: FittedModel, columns: Mapping[str, NDArray[Any]], wanted: WantedColumns) -> None:
        self._fit, self._columns, self._wanted = fit, columns, wanted
        self._rows = len(next(iter(columns.values())))
        self._known: list[NamedPredictions] = []

    def chunks(self) -> Iterator[NamedPredictions]:
        """The predictions of all rows, in order. Raises as `named_predictions`."""
        if self._rows > _CHUNK:
            return (self._of(start) for start in range(0, self._rows, _CHUNK))
        self._known = self._known or [self._of(0)]
        return iter(self._known)

    def _of(self, start: int) -> NamedPredictions:
        columns = {name: values[start : start + _CHUNK] for name, values in self._columns.items()}
        return named_predictions(self._fit, columns, self._wanted)


class StreamedPredictions:
    """What is predicted for each row of files, made again whenever it is asked for.

    Args:
        numbers, texts: the columns that are read as numbers, and as labels.
        why: they are streamed, in words.

    Attributes:
        rows: how many there are.

    Raises:
        DataError: see `StreamedColumns`.
    """

    def __init__(
        self,
        fit: FittedModel,
        files: DataFile | SeveralFiles,
        numbers: Collection[str],
        texts: Sequence[str],
        wanted: WantedColumns,
        why: str,
    ) -> None:
        self._fit, self._wanted = fit, wanted
        self._columns = files.streamed = StreamedColumns(files, sorted(numbers), texts, why, listen=files.listen)
        self.rows = self._columns.rows

    def chunks(self) -> Iterator[NamedPredictions]:
        """The predictions of all rows, in order. Raises as `named_predictions`."""
        labels = {name: codes.values for name, codes in self._columns.labels.items()}
        for columns, rows in self._columns.chunks(self._columns.names):
            data = {name: columns[name][:rows] for name in self._columns.numbers}
            of_labels = {name: values[columns[label(name)][:rows].astype(int)] for name, values in labels.items()}
            yield named_predictions(self._fit, {**data, **of_labels}, self._wanted)

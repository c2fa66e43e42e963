"""Predictions for rows that are streamed, chunk by chunk."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from autodiff_cli.data.files import DataFile
from autodiff_cli.data.several import SeveralFiles
from autodiff_cli.data.streaming.columns import StreamedColumns, label
from autodiff_cli.training.prediction.named import NamedPredictions, WantedColumns, named_predictions

if TYPE_CHECKING:
    from autodiff_cli.training.result.fit import FittedModel


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

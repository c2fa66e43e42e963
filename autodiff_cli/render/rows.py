"""Results row by row: gradients at many points, and predictions, as CSV or as JSON.

CSV repeats the cells of the input and adds columns of numbers. Many rows are written column by column by pyarrow, which
is ten times as fast as Python's `csv` and gives the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.data.table import TextBatch, csv_text, format_numbers
from autodiff_cli.explain.accuracy import describe_correct_digits
from autodiff_cli.formula.array_derivatives import STDERR
from autodiff_cli.render.formatting import NumberFormat, digits_format, shortest_text
from autodiff_cli.render.report import Paper, Report

if TYPE_CHECKING:
    from autodiff_cli.array_types import Array
    from autodiff_cli.data.files import CellRows
    from autodiff_cli.explain.array_accuracy import RowAccuracy
    from autodiff_cli.formula.array_derivatives import BatchedGradient, Columns
    from autodiff_cli.training.result.fitted_model import FittedModel
    from autodiff_cli.training.result.prediction import InversePrediction

# --- CSV ---

_MIN_ARROW_ROWS = 2000  # rows for which importing pyarrow pays off


def csv_rows(
    cells: CellRows | None,
    results: Iterable[NDArray[Any]],
    show: NumberFormat | None = None,
    before: Iterable[NDArray[Any]] = (),
) -> str:
    """Return rows as CSV: input cells first, then result columns.

    Args:
        cells: the cells at the beginning of each row; None if there are none.
        results: columns of numbers or texts at the end of each row.
        show: writes the numbers of `results`; by default floats have all their digits.
        before: columns at the beginning of each row if there are no cells; floats have all their digits.
    """
    added, first = [*results], [*before]
    if show is None and (isinstance(cells, TextBatch) or (cells is None and len(added[0]) >= _MIN_ARROW_ROWS)):
        text = _arrow_csv([] if cells is None else cells.batch.columns, [*first, *added])
        if text is not None:
            return text
    rows = [[]] * len(added[0]) if cells is None else cells.rows() if isinstance(cells, TextBatch) else cells
    columns = [*(_cell_texts(column, None) for column in first), *(_cell_texts(column, show) for column in added)]
    return csv_text([*row, *more] for row, more in zip(rows, zip(*columns, strict=True), strict=True))


def _cell_texts(column: NDArray[Any], show: NumberFormat | None) -> list[str]:
    return [*map(show or (shortest_text if column.dtype.kind == "f" else str), column.tolist())]


def _arrow_csv(cells: Sequence[Any], columns: Sequence[NDArray[Any]]) -> str | None:
    """Return rows as CSV by pyarrow; None if a cell needs quotes or is not UTF-8."""
    import pyarrow as pa
    from pyarrow import csv as pa_csv

    added = (
        format_numbers(column, shortest_text) if column.dtype.kind == "f" else pa.array(_cell_texts(column, None))
        for column in columns
    )
    arrays = [*cells, *added]
    table = pa.RecordBatch.from_arrays(arrays, names=[str(position) for position in range(len(arrays))])
    sink = pa.BufferOutputStream()
    try:
        pa_csv.write_csv(table, sink, pa_csv.WriteOptions(include_header=False, quoting_style="none"))
    except pa.ArrowInvalid:
        return None
    return sink.getvalue().to_pybytes().decode("utf-8")


# --- Gradients at many points ---

_MAX_LISTED_ROWS = 5  # inaccurate rows that a warning names


@dataclass
class GradientTable:
    """The value and the gradient at many points, one line per point, as CSV or JSON.

    CSV has the columns of the point, then `value`, then `d_NAME` for each variable, then `stderr` if there are standard
    errors. Points are evaluated while they are
    written, so the counts below are complete only afterwards.

    Attributes:
        gradients: computes value and gradient at a block of points.
        header: the names of the columns that describe a point.
        blocks: blocks of points: for each variable that varies one number per point, and the input cells of the points;
            None if the numbers are the cells. The blocks are read once.
        accuracy: finds rows that rounding errors made inaccurate.
        undefined_count: the number of points at which the value or a derivative was not finite.
        inaccurate_count: the number of rows in which a number lost digits.
        first_inaccurate: messages about the first of these rows.
        misleading_count: the number of rows in which the first-order standard error is misleading.
        first_misleading: the first of these rows, from 1.
    """

    gradients: BatchedGradient
    header: Sequence[str]
    blocks: Iterable[tuple[Columns, CellRows | None]]
    accuracy: RowAccuracy
    undefined_count: int = 0
    inaccurate_count: int = 0
    first_inaccurate: list[str] = field(default_factory=list)
    misleading_count: int = 0
    first_misleading: int = 0

    @property
    def result_columns(self) -> tuple[str, ...]:
        """The names of the columns that are added."""
        slopes = (f"d_{name}" for name in self.gradients.wrt)
        return ("value", *slopes, *([STDERR] if STDERR in self.gradients.graphs else []))

    @property
    def report(self) -> Report:
        """The report, which evaluates the points as it is written."""
        return Report(self._write, self._documents, is_data=True)

    def _compute(self) -> Iterator[tuple[Columns, CellRows | None, Array, Mapping[int, Mapping[str, str]]]]:
        rows = 0
        for columns, cells in self.blocks:
            results = self.gradients.evaluate(columns)
            results, misleading = np.split(results, [len(self.gradients.graphs)])
            if np.any(misleading):
                self.first_misleading = self.first_misleading or rows + int(np.argmax(misleading)) + 1
                self.misleading_count += int(np.count_nonzero(misleading))
            self.undefined_count += int(np.count_nonzero(~np.isfinite(results).all(axis=0)))
            correct = self.accuracy.check(columns, results)
            self.inaccurate_count += len(correct)
            for row in [*correct][: _MAX_LISTED_ROWS - len(self.first_inaccurate)]:
                digits = describe_correct_digits(correct[row])
                self.first_inaccurate.append(f"row {rows + row + 1}: with all digits {digits}")
            rows += results.shape[1]
            yield columns, cells, results, correct

    def _write(self, paper: Paper) -> None:
        show = None if paper.digits is None else digits_format(paper.digits)
        for block, (columns, cells, results, _) in enumerate(self._compute()):
            if block == 0:
                paper.stream.write(csv_text([[*self.header, *self.result_columns]]))
            coordinates = [columns[name] for name in self.header] if cells is None else []
            paper.stream.write(csv_rows(cells, results, show, coordinates))

    def _documents(self) -> Iterator[dict[str, Any]]:
        for columns, _, results, correct in self._compute():
            names = self.gradients.columns
            points = zip(*(columns[name].tolist() for name in names), strict=True)
            for row, (point, numbers) in enumerate(zip(points, results.T.tolist(), strict=True)):
                value, *slopes = numbers[: 1 + len(self.gradients.wrt)]
                errors = dict(zip(self.result_columns[1 + len(slopes) :], numbers[1 + len(slopes) :], strict=True))
                warnings = {}
                if row in correct:
                    message = f"with all digits {describe_correct_digits(correct[row])}"
                    warning = {"kind": "precision", "message": message, "right": dict(correct[row])}
                    warnings = {"warnings": [warning]}
                yield {
                    "variables": dict(zip(names, point, strict=True)),
                    "value": value,
                    "gradient": dict(zip(self.gradients.wrt, slopes, strict=True)),
                    **errors,
                    **warnings,
                }


# --- Predictions ---


Predictions = Mapping[str, NDArray[Any]]


_BANDS = ("confidence_low", "confidence_high", "prediction_low", "prediction_high")


def predictions_report(
    fit: FittedModel,
    header: Sequence[str],
    rows: Callable[[], Iterable[CellRows]],
    names: Sequence[str],
    predictions: Callable[[], Iterable[Predictions]],
) -> Report:
    """Report predictions as CSV, with the rows of the data before them, or as a JSON document.

    Args:
        header: the names of the columns of the data.
        rows: returns the rows of the data, block by block.
        names: the names of the columns of predictions.
        predictions: returns the predictions, block by block; the blocks may differ from the blocks of `rows`.
    """

    def write(paper: Paper) -> None:
        blocks, columns = rows(), _ColumnBuffer(predictions())
        paper.stream.write(csv_text([[*header, *names]]))
        for cells in blocks:
            paper.stream.write(csv_rows(cells, columns.take(len(cells))))

    return Report(write, lambda: [_predictions_document(fit, names, predictions())], is_data=True)


def inverse_report(reading: Mapping[str, Any], solutions: Sequence[InversePrediction]) -> Report:
    """Report the solutions of an inverse prediction as CSV, or as a JSON document with the fields of the reading."""
    from autodiff_cli.training.result.prediction import InversePrediction

    def write(paper: Paper) -> None:
        paper.stream.write(csv_text([[reading["inverse"], *InversePrediction._fields[1:]]]))
        for solution in solutions:
            paper.stream.write(csv_text([["" if each is None else shortest_text(each) for each in solution]]))

    return Report(write, lambda: [{**reading, "solutions": solutions}], is_data=True)


class _ColumnBuffer:
    """Collects columns that arrive in blocks of rows, and returns them in blocks of other sizes."""

    def __init__(self, chunks: Iterable[Predictions]) -> None:
        self._chunks = iter(chunks)
        self._remaining: list[NDArray[Any]] = []

    def take(self, count: int) -> list[NDArray[Any]]:
        """Return the next `count` rows of all columns."""
        while not self._remaining or len(self._remaining[0]) < count:
            more = [*next(self._chunks).values()]
            pairs = zip(self._remaining, more, strict=True)
            self._remaining = [np.concatenate(pair) for pair in pairs] if self._remaining else more
        rows = [column[:count] for column in self._remaining]
        self._remaining = [column[count:] for column in self._remaining]
        return rows


def _predictions_document(fit: FittedModel, names: Sequence[str], chunks: Iterable[Predictions]) -> dict[str, Any]:
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for chunk in chunks:
        for name, column in chunk.items():
            columns[name] += column.tolist()
    return {"model": fit.model, "rows": len(columns[names[0]]), **columns}


def count_undefined(predictions: Predictions) -> int:
    """Number of rows with a prediction that is nan or infinite. Bands may be absent where there is a prediction."""
    numeric = [
        ~np.isfinite(column)
        for name, column in predictions.items()
        if column.dtype.kind == "f" and not name.startswith(_BANDS)
    ]
    return int(np.count_nonzero(np.logical_or.reduce(numeric))) if numeric else 0

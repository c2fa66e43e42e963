"""Tables of data: named columns of numbers of one length, with labels where a model needs them.

A `Dataset` provides the columns of a model as a `Table`: `MemoryDataset` from mappings, data frames and Arrow tables,
`files.DataSource` from files. The module also converts the values that users provide to arrays, holds rows as text
(`TextBatch`), and selects rows by an expression such as `t > 0 and group == 'A'` (`RowFilter`).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.array_types import Array, as_float_array, as_label_array, as_real_array
from autodiff_cli.backends.selection import evaluate
from autodiff_cli.data.batches import (
    FallbackRequired,
    LabelColumn,
    ProblemList,
    RawBatch,
    find_missing,
    join_labels,
    labels_of,
    numbers_of,
    select_rows,
    without_dictionary,
)
from autodiff_cli.data.dialect import MISSING_VALUES, CellKind, CellParser, label_text, time_text
from autodiff_cli.data.dialect import DataError as DataError
from autodiff_cli.graph.tape import ShapeInference
from autodiff_cli.language.errors import ExpressionError, format_names, spelling_hint
from autodiff_cli.language.lexer import canonical_names
from autodiff_cli.language.names import ColumnNames, TextMatch, joined_columns
from autodiff_cli.language.parser import parse
from autodiff_cli.language.program import read_for_floats


def named_columns(data: Any) -> dict[str, ArrayLike]:
    """Return the columns of data by canonical names, without copying them.

    Args:
        data: a mapping, a pandas or polars data frame, an Arrow table or record batch, or a structured array.

    Raises:
        TypeError: for data without named columns.
        InputError: if two columns have the same name.

    >>> named_columns(np.array([(1, 2.0)], dtype=[("x", int), ("y", float)]))
    {'x': array([1]), 'y': array([2.])}
    """
    if isinstance(data, np.ndarray):
        if data.dtype.names is None:
            raise TypeError('an array has no column names; pass {"x": array[:, 0], …} or a structured array')
        pairs = [(name, data[name]) for name in data.dtype.names]
    elif hasattr(data, "column_names"):  # Arrow
        pairs = [(name, data.column(position)) for position, name in enumerate(data.column_names)]
    elif isinstance(data, Mapping) or hasattr(data, "keys"):
        pairs = [(name, data[name]) for name in data.keys()]  # noqa: SIM118 (data frames iterate otherwise)
    elif hasattr(data, "columns") and hasattr(data, "get_column"):  # polars
        pairs = [(name, data.get_column(name)) for name in data.columns]
    else:
        raise TypeError(f"data must have named columns (a mapping, a data frame or a table), not {type(data).__name__}")
    # NumPy would read other values for the missing cells of Arrow's dictionary-encoded chunks.
    return canonical_names((str(name), without_dictionary(column)) for name, column in pairs)


_NATIVE_TYPE_CODES = frozenset("?bBhHiIlLqQfd")  # NumPy type codes of numbers that every backend reads


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of numbers, each of shape (rows,), or (…, rows) where a row has an array.

    Attributes:
        columns: arrays by name, of float64 or of a type that converts to float64: float32, integers, booleans. They may
            share memory with the caller's data and are never modified.
        rows: the number of rows.
        dropped: the number of rows that were dropped because a cell was missing.
        labels: columns of labels, by name.
        row_mask: for each original row, whether the table has it; None if it has all.
    """

    columns: Mapping[str, NDArray[Any]]
    rows: int
    dropped: int = 0
    labels: Mapping[str, LabelColumn] = field(default_factory=dict)
    row_mask: NDArray[np.bool_] | None = None

    def select_rows(self, rows: slice | NDArray[np.intp] | NDArray[np.bool_]) -> Table:
        """Return a table of some rows, given by a slice, row numbers or a mask. Labels are left out."""
        columns = {name: values[..., rows] for name, values in self.columns.items()}
        return Table(columns, next(iter(columns.values())).shape[-1], self.dropped)


class Record(NamedTuple):
    """A row of a file as text.

    Attributes:
        location: `line 2`, or `row 1` in a file without lines.
        cells: the text of every cell, including empty ones.
    """

    location: str
    cells: list[str]


@runtime_checkable
class Dataset(Protocol):
    """A source of columns: data in memory, or files."""

    @property
    def names(self) -> Sequence[str]:
        """The names of all columns, normalized as names in expressions are."""

    @property
    def origins(self) -> Mapping[str, datetime]:
        """The times from which dates and times are counted, for the columns read so far."""

    def load(self, names: Collection[str], *, drop_missing: bool = False, labels: Collection[str] = ()) -> Table:
        """Return some columns as a table.

        Args:
            names: the names of columns of numbers.
            drop_missing: drop rows with a cell that is empty, nan or infinite; without it, such cells are errors.
            labels: the names of columns of labels, which hold integers or texts. They may be among `names` too.

        Raises:
            DataError: for missing cells, cells that are not numbers, columns of different lengths, and data without
                rows.
        """


class MemoryDataset:
    """A dataset of columns in memory: anything that `named_columns` accepts."""

    def __init__(self, data: Mapping[str, ArrayLike]) -> None:
        self._data = named_columns(data)
        self.names, self.origins = tuple(self._data), dict[str, datetime]()

    def load(self, names: Collection[str], *, drop_missing: bool = False, labels: Collection[str] = ()) -> Table:
        """Return some columns as a table; see `Dataset.load`.

        Contiguous arrays of floats and integers are not copied; objects and other types become float64.
        """
        columns: dict[str, NDArray[Any]] = {}
        label_columns: dict[str, LabelColumn] = {}
        for name, values in self._data.items():
            if name in names:
                try:
                    columns[name] = numeric_vector(values, f"column `{name}`")
                except DataError as error:
                    is_sequence = isinstance(values, list | tuple) or getattr(values, "ndim", 0) > 0
                    first = next(iter(values), None) if is_sequence else None  # type: ignore[arg-type]
                    raise DataError(str(error), text_columns={name: first} if isinstance(first, str) else {}) from None
        for name in labels:
            parts = joined_columns(name, self._data)
            if {*parts} <= self._data.keys():
                columns_of_labels = [LabelColumn.of(label_vector(self._data[part], part)) for part in parts]
                label_columns[name] = join_labels(columns_of_labels).joined()
        if not columns and not label_columns:
            raise DataError(f"the model uses none of the columns, which are {format_names(self.names)}")
        both: RawBatch = {**columns, **label_columns, **columns}  # numbers first, also of a column that is read as both
        lengths = {name: len(column) for name, column in both.items()}
        if len(set(lengths.values())) > 1:
            lengths_text = format_names([f"`{name}` has {length}" for name, length in lengths.items()])
            raise DataError(f"the columns differ in length: {lengths_text}")
        rows, missing = next(iter(lengths.values())), find_missing(both, ())
        if not drop_missing:
            problems = ProblemList()
            problems.add_missing(missing, both, range(1, rows + 1))
            problems.raise_if_any()
        mask = ~np.logical_or.reduce([*missing.values()]) if missing else None
        left = rows if mask is None else int(np.count_nonzero(mask))
        columns, label_columns = select_rows(columns, mask), select_rows(label_columns, mask)
        table = Table(columns, left, rows - left, label_columns, mask)
        check_has_rows(table)
        return table


def check_has_rows(table: Table, prefix: str = "") -> None:
    """Raise DataError for a table without rows. The message begins with `prefix`, such as `"prices.csv: "`."""
    if not table.rows:
        problem = "no rows are left: every row has a missing cell" if table.dropped else "there are no rows"
        raise DataError(prefix + problem)


def label_vector(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return the labels of a column as an array of shape (rows,). Raises DataError for another shape."""
    array = as_label_array(values)
    if array.ndim != 1:
        raise DataError(f"column `{name}` has the shape {array.shape}; expected one label per row")
    return array


def float_array(values: ArrayLike, name: str) -> Array:
    """Return the values of a column as a float64 array of any shape. Raises DataError if they are not numbers."""
    try:
        return as_float_array(values)
    except (TypeError, ValueError):
        raise DataError(f"column `{name}` holds values that are not numbers") from None


def numeric_vector(values: ArrayLike, description: str) -> NDArray[Any]:
    """Return values as a contiguous array of shape (rows,), of their own numeric type or float64.

    Raises DataError, whose message begins with `description`, if they are not numbers.
    """
    try:
        array = as_real_array(values)
        if array.dtype.kind not in "biufO":
            raise TypeError(array.dtype)
        if array.dtype.char not in _NATIVE_TYPE_CODES or not array.dtype.isnative:
            array = as_float_array(array)  # None in an object array becomes nan
    except (TypeError, ValueError):
        hint = "; use (t - t[0])/np.timedelta64(1, 's')" if "datetime" in str(getattr(values, "dtype", "")) else ""
        raise DataError(f"{description} holds values that are not numbers{hint}") from None
    if array.ndim != 1:
        raise DataError(f"{description} has the shape {array.shape}; expected one number per row")
    return np.ascontiguousarray(array)


# --- Rows as text


class TextBatch:
    """Some rows of a file, with their cells as text.

    Args:
        batch: an Arrow record batch of binary columns.
    """

    def __init__(self, batch: Any) -> None:
        self.batch = batch

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def split(self, size: int) -> Iterator[TextBatch]:
        """Return the rows in batches of at most `size` rows."""
        return (TextBatch(self.batch.slice(start, size)) for start in range(0, len(self), size))

    def filter_rows(self, rows: NDArray[np.bool_]) -> TextBatch:
        """Return the rows that a mask selects."""
        import pyarrow as pa

        return TextBatch(self.batch.filter(pa.array(rows)))

    def parse_column(self, position: int) -> NDArray[np.float64]:
        """Return a column as numbers. Raises FallbackRequired if a cell is not a plain number."""
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            texts = pc.ascii_trim_whitespace(self.batch.column(position).cast(pa.string()))
            return np.asarray(texts.cast(pa.float64()))
        except pa.ArrowInvalid:  # other readers accept more notations
            raise FallbackRequired from None

    def rows(self) -> list[list[str]]:
        """Return the cells of every row."""
        columns = [
            [cell.decode("utf-8", "surrogateescape") for cell in cells.to_pylist()] for cells in self.batch.columns
        ]
        return [list(cells) for cells in zip(*columns, strict=True)]


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Return rows of cells as lines of CSV."""
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()


def format_numbers(column: NDArray[Any], format_number: Callable[[float], str]) -> Any:
    """Return floats as an Arrow array of texts.

    Args:
        format_number: returns the shortest text that reads back as the same number.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    # Arrow and Python print the same digits, but use exponents in different ranges. They agree between these limits.
    magnitude = np.abs(column)
    is_special = ~((magnitude >= 1e-3) & (magnitude < 1e10) & (column != np.rint(column)))
    texts = pa.array(column).cast(pa.string())
    return pc.replace_with_mask(
        texts, pa.array(is_special), pa.array([*map(format_number, column[is_special].tolist())], pa.string())
    )


# --- Selection of rows

_EXACT_LIMIT = 2**53  # beyond, not every whole number is a float


@dataclass
class FilterCounts:
    """The effect of a filter on a file, or on a part of it.

    Attributes:
        rows: the number of rows before filtering.
        selected: the number of rows that the filter selects.
        uncertain_count: the number of rows in which rounding to floats may decide the condition.
        texts: the different texts of each text column that the filter reads, in order of occurrence.
    """

    rows: int = 0
    selected: int = 0
    uncertain_count: int = 0
    texts: dict[str, dict[str, None]] = field(default_factory=dict)

    def add(self, other: FilterCounts) -> None:
        """Add the counts of further rows."""
        self.rows += other.rows
        self.selected += other.selected
        self.uncertain_count += other.uncertain_count
        for name, texts in other.texts.items():
            self.texts.setdefault(name, {}).update(texts)


ParserFactory = Callable[[], CellParser] | None


class RowFilter:
    """A filter of rows by an expression of columns. A row is kept if the expression is neither 0 nor nan.

    Args:
        text: the expression.
        names: the names of all columns.
        texts: the names of the text columns, which can be compared with quoted text.
        new_parser: makes a parser of cells; None if all text columns are known.

    Attributes:
        numeric_columns: the numeric columns that the expression reads.
        text_columns: the text columns that it reads.
        columns: all columns that it reads.

    Raises:
        DataError: for text that is not an expression of these columns.
    """

    def __init__(self, text: str, names: Collection[str], texts: Collection[str], new_parser: ParserFactory) -> None:
        self._dates: dict[str, tuple[str, str]] = {}  # the column and the date that a leaf stands for
        try:
            text, mixed = self._name_dates(text, {*names} - {*texts}, new_parser)
            program = read_for_floats(text, self._dates, ColumnNames(texts={*texts, *mixed}))
        except ExpressionError as error:
            raise DataError(f"--where: {error}") from error
        self._output = program.output
        self._matches = {name: leaf for name, leaf in program.column_leaves.items() if isinstance(leaf, TextMatch)}
        self.numeric_columns = [name for name in program.leaves if name not in self._matches.keys() | self._dates]
        self.text_columns = {match.column for match in self._matches.values()}
        self.columns = {*self.numeric_columns, *self.text_columns}
        is_array = program.shapes or program.arrays or ShapeInference({}).infer(program.output)
        if program.target is not None or is_array or not self.columns:
            raise DataError("--where takes a condition on columns, such as `t > 0` or `t == 1`")
        for name in self.numeric_columns:
            if name not in names:
                hint = spelling_hint(name, names, f"the columns are {format_names(names)}")
                if name in MISSING_VALUES:
                    hint = "--drop-missing leaves out rows with missing cells"
                elif re.fullmatch(rf"\s*\w+\s*=\s*{re.escape(name)}\s*", text):
                    hint = f"to compare with text, write `{text.partition('=')[0].strip()} == '{name}'`"
                raise DataError(f"--where: there is no column `{name}`; {hint}")

    def _name_dates(self, text: str, numeric: Collection[str], new_parser: ParserFactory) -> tuple[str, set[str]]:
        """Return the expression with a name for each quoted date that is compared with a column without texts, and
        those columns that are compared with other quoted text.
        """
        lexemes = parse(text).lexemes
        types, words = lexemes.types, lexemes.words
        pieces, end, mixed = [], 0, set()
        for k, kind in enumerate(types):
            places = [j for j in (k - 2, k + 2) if 0 <= j < len(types) and types[(j + k) // 2] == "COMPARE"]
            place = next((j for j in places if types[j] == "NAME" and words[j] in numeric), None)
            if kind != "TEXT" or place is None:
                continue
            column, quoted, is_equality = words[place], words[k][1:-1], words[(place + k) // 2] in ("==", "!=")
            if is_equality and new_parser is not None and new_parser().parse(quoted) is None:
                mixed.add(column)
            else:
                self._dates[f"date {k}"] = column, quoted
                pieces += [text[end : lexemes.start(k)], f"`date {k}`"]
                end = lexemes.end(k)
        return "".join([*pieces, text[end:]]), mixed

    def mask(self, batch: RawBatch, parsers: Mapping[str, CellParser], counts: FilterCounts) -> NDArray[np.bool_]:
        """Return a mask of the rows of a batch that the filter keeps, and count them.

        A row is uncertain if the result would change with the last digit of a number beyond 2^53.

        Args:
            parsers: the parsers of the columns, which have read the batch.
            counts: the counts so far.

        Raises:
            DataError: for quoted text that is not a date as its column has them.
        """
        point: dict[str, Any] = {}
        for name, (column, date) in self._dates.items():
            # Arrow, which parses large files, records no kind.
            kind = parsers[column].kind or (CellKind.NUMBER if np.isfinite(numbers_of(batch, column)).any() else None)
            seconds = parsers[column].parse(date) if kind is CellKind.DATETIME else None
            if seconds is None and kind is not None:
                held = f"{kind.value}: write a number without quotes, as in `{column} == 1`"
                if (origin := parsers[column].origin) is not None:
                    held = f"dates or times such as '{time_text(origin)}'"
                raise DataError(f"--where: cannot compare '{date}' with `{column}`, which holds {held}")
            point[name] = np.float64(np.nan if seconds is None else seconds)
        for name in self.numeric_columns:
            point[name] = numbers_of(batch, name)
        for name, match in self._matches.items():
            labels = labels_of(batch, match.column)
            matches = (text == label_text(match.text) for text in labels.values)
            point[name] = np.array([*matches, False], np.float64)[labels.codes]
        holds = self._evaluate(point)
        in_doubt = np.zeros_like(holds)
        for name in self.numeric_columns:
            values = point[name]
            beyond = (np.abs(values) >= _EXACT_LIMIT) & np.isfinite(values)
            for end in (-np.inf, np.inf) * bool(beyond.any()):
                neighbours = np.where(beyond, np.nextafter(values, end), values)
                in_doubt |= holds != self._evaluate(point | {name: neighbours})
        texts = {name: dict.fromkeys(labels_of(batch, name).values) for name in self.text_columns}
        counts.add(FilterCounts(len(holds), int(np.count_nonzero(holds)), int(np.count_nonzero(in_doubt)), texts))
        return holds

    def _evaluate(self, point: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Return for which rows the expression is neither 0 nor nan."""
        (values,) = evaluate([self._output], point)
        return np.asarray(np.isfinite(values) & (values != 0))

    def notes(self, observed: Mapping[str, Collection[str]]) -> list[str]:
        """Return a note for each quoted text that no row has, with the closest text.

        Args:
            observed: the different texts of each text column.
        """
        notes = []
        for match in self._matches.values():
            texts = [*observed.get(match.column, ())]
            if label_text(match.text) not in texts:
                hint = spelling_hint(match.text, texts, f"there are {format_names(texts)}", quote="'")
                notes.append(f"--where: no row has '{match.text}' in column `{match.column}`; {hint}")
        return notes

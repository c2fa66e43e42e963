"""Batches of columns, which readers of files yield, and the joining of batches.

A batch maps names to arrays of numbers or to `LabelColumn`. A reader receives a `ColumnRequest`. `GrowingArray` joins
numbers, `CodeTable` labels. `ProblemList` collects problems of cells for one message.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple, TypeAlias, TypeGuard, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array
from autodiff_cli.data.dialect import BOOLEANS, CellKind, CellParser, DataError, label_text, parse_number
from autodiff_cli.language.names import JOINT_SEPARATOR

_BLOCK_VALUES = 65_536  # values per block: temporary arrays stay in the cache
_LABEL_LIMIT = 2**63  # labels are stored as 64-bit integers
_MAX_PROBLEMS_SHOWN = 5  # problems in one message: enough to see the pattern
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,300}")  # integers within the range of floats
_JOINT_PART = re.compile(r'(?:"((?:[^"]|"")*)"|(.*?))(?:, |\Z)', re.DOTALL)  # of a combination: quoted, or plain
MINUTE_NUMBER = re.compile(rb"-(?<=[eE]-)0*(?:[3-9]\d\d|\d{4})")  # begins with a literal, which is found fast

T = TypeVar("T")
C = TypeVar("C", bound="NDArray[Any] | LabelColumn")


@dataclass(frozen=True, slots=True)
class LabelColumn:
    """A column of labels, such as the names of groups.

    Attributes:
        codes: for each row the position of its label in `values`; -1 if it is missing.
        values: the different labels: texts and numbers (see `CodeTable`), or tuples of these, which are combinations of
            labels. A label may occur twice, as the texts `7` and `07` do once they are numbers.
    """

    codes: NDArray[np.integer[Any]]
    values: Sequence[Any]

    @classmethod
    def of(cls, cells: NDArray[Any], text: Callable[[str], str] = label_text) -> LabelColumn:
        """Return the labels in an array of cells; see `CodeTable`.

        >>> LabelColumn.of(np.array(["b", "a", "b"]))
        LabelColumn(codes=array([0, 1, 0], dtype=int32), values=['b', 'a'])
        """
        codes, table = np.empty(len(cells), np.int32), CodeTable(text)
        for start in range(0, len(cells), _BLOCK_VALUES):  # in blocks, so that a large array is never copied as a whole
            block = cells[start : start + _BLOCK_VALUES]
            if block.dtype.char in "ef":  # the shortest decimal numbers, as in text files
                block = block.astype(str).astype(np.float64)
            if block.dtype.kind in "biuf":
                distinct, positions = np.unique(block, return_inverse=True)
                codes[start : start + len(block)] = table.codes(distinct.tolist())[positions]
            else:
                codes[start : start + len(block)] = table.codes(block.tolist())
        return cls(codes, [*table.labels])

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: slice | NDArray[Any]) -> LabelColumn:
        """Return the labels of some rows, with only the values that these have."""
        return LabelColumn(self.codes[rows], self.values).compacted()

    def compacted(self) -> LabelColumn:
        """Return the labels without values that no row has."""
        used = np.flatnonzero(np.bincount(self.codes + 1)[1:])
        new_codes = np.full(len(self.values) + 1, -1, np.int32)
        new_codes[used] = np.arange(len(used))
        return LabelColumn(new_codes[self.codes], [self.values[code] for code in used.tolist()])

    def parsed(self, levels: Collection[Any] = ()) -> LabelColumn:
        """Return the labels as numbers if all can be numbers, as in text files; otherwise unchanged. Combinations
        become texts; this rule applies to each of their columns.

        Args:
            levels: the levels that a fit knows: a label is the level with its text or, if there is none, its number.
        """
        if any(isinstance(label, tuple) for label in self.values):
            columns = [*zip(*self.values, strict=True)]
            splits = [each for level in levels if len(each := _joint_parts(str(level))) == len(columns)]
            known_parts: Iterable[Any] = zip(*splits, strict=True) if splits else [levels] * len(columns)
            pairs = zip(columns, known_parts, strict=True)
            parts = [LabelColumn(self.codes, labels).parsed(known).values for labels, known in pairs]
            return LabelColumn(self.codes, [*zip(*parts, strict=True)]).joined()
        if levels:
            by_text = {str(level): level for level in levels}
            matches = (by_text.get(str(label), by_text.get(_plain_text(label), label)) for label in self.values)
            return LabelColumn(self.codes, [*matches])
        numbers = [_as_number(label) for label in self.values]
        return LabelColumn(self.codes, numbers) if all(map(_is_finite, numbers)) else self

    def joined(self) -> LabelColumn:
        """Return the labels with combinations as texts, in which texts of numbers are unchanged."""
        return LabelColumn(self.codes, [joint_text(v) if isinstance(v, tuple) else v for v in self.values])

    def numbers(self, name: str) -> Array:
        """Return the labels as numbers, with nan for missing ones. Raises DataError for text."""
        numbers = [BOOLEANS.get(cell, _as_number(cell)) for cell in self.values]
        if None in numbers:
            text = str(self.values[numbers.index(None)])
            raise DataError(f"column `{name}` holds text, not numbers", text_columns={name: text})
        values: Array = np.array([*numbers, math.nan], np.float64)[self.codes]
        return values

    def levels(self, name: str, *, are_whole: bool = True) -> NDArray[Any]:
        """Return the label of each code: integers if all labels are whole numbers, otherwise texts.

        Args:
            name: the name of the column.
            are_whole: whether other numbers are errors; without it, all are floats if there are any, unless some labels
                would be equal then.

        Raises:
            DataError: for numbers that are not whole, and for text that is not valid Unicode.
        """
        if all(isinstance(label, int | float) for label in self.values):
            for value in self.values:
                if abs(value) >= _LABEL_LIMIT or value != round(value):
                    if not are_whole and not (isinstance(value, float) and abs(value) >= _LABEL_LIMIT):
                        floats = np.array(self.values, np.float64)
                        return floats if len({*floats}) == len({*self.values}) else np.array([*map(str, self.values)])
                    raise DataError(f"column `{name}`: a label must be a whole number below 2^63 or text, not {value}")
            return np.array([int(value) for value in self.values], np.int64)
        for value in map(str, self.values):
            if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
                problem = "has a NUL character" if "\0" in value else "is not Unicode text"
                raise DataError(f"column `{name}`: {value!r} {problem}")
        return np.array([*map(str, self.values)])


def join_labels(columns: Sequence[LabelColumn]) -> LabelColumn:
    """Return the combinations of the labels of several columns as one column.

    >>> join_labels([LabelColumn.of(np.array(["a", "b", "a"])), LabelColumn.of(np.array([1.0, 2.0, 1.0]))])
    LabelColumn(codes=array([0, 1, 0], dtype=int32), values=[('a', 1.0), ('b', 2.0)])
    """
    if len(columns) == 1:
        return columns[0]
    words = [column.values for column in columns]
    combinations, positions = np.unique(np.array([column.codes for column in columns]), axis=1, return_inverse=True)
    table = CodeTable()
    codes = table.codes(
        None if min(combination) < 0 else tuple(map(operator.getitem, words, combination))
        for combination in combinations.T.tolist()
    )
    return LabelColumn(codes[positions.ravel()], [*table.labels])  # NumPy 2.0 adds an axis


def joint_text(labels: Iterable[Any]) -> str:
    """Return a combination of labels as text, in which texts of numbers are unchanged.

    A text with the separator is in quotes, so that different combinations have different texts.

    >>> joint_text(["Lee, A", 7.0]), joint_text(["Lee", "A, 7"])
    ('"Lee, A", 7', 'Lee, "A, 7"')
    """
    texts = (label if isinstance(label, str) else _plain_text(label) for label in labels)
    return JOINT_SEPARATOR.join(
        '"{}"'.format(text.replace('"', '""')) if JOINT_SEPARATOR in text or text.startswith('"') else text
        for text in texts
    )


def _joint_parts(text: str) -> list[str]:
    """Return the labels of a combination, as texts: the inverse of `joint_text`."""
    return [quoted.replace('""', '"') or plain for quoted, plain in _JOINT_PART.findall(text)[:-1]]


def _plain_text(label: Any) -> str:
    """Return a label as text: a number in its shortest notation, and a whole one without a point."""
    number = _as_number(label)
    return str(label) if not _is_finite(number) else str(int(number) if number == int(number) else number)


class CodeTable(dict[Any, int]):
    """The code of each cell's label. Labels are numbered in the order in which they first occur.

    A label is a number or a text. It is the same for all notations of a time, of `true` and `false`, and of a text with
    blanks around it. Cells that are None, nan, infinite or blank have the code -1.

    Args:
        text: returns the text of a label.

    Attributes:
        labels: the different labels.
    """

    def __init__(self, text: Callable[[str], str] = label_text) -> None:
        super().__init__()
        self._text = text
        self.labels: dict[Any, int] = {}

    def __missing__(self, cell: Any) -> int:
        """Return the code of a cell that has not occurred before."""
        if _is_missing(cell):
            return -1
        if isinstance(cell, timedelta):
            cell = cell.total_seconds()
        is_label = isinstance(cell, int | float | tuple) and not isinstance(cell, bool)
        label = cell if is_label else self._text(cell_text(cell).strip())
        code = self[cell] = self.labels.setdefault(label, len(self.labels))
        return code

    def parsed(self, levels: Collection[Any] = ()) -> LabelColumn:
        """Return the labels without rows, as numbers if all can be numbers; see `LabelColumn.parsed`."""
        return LabelColumn(np.empty(0, np.int32), [*self.labels]).parsed(levels)

    def codes(self, cells: Iterable[Any]) -> NDArray[np.int32]:
        """Return the code of each cell's label."""
        return np.array([self[cell] for cell in cells], np.int32)

    def encode(self, batch: LabelColumn, name: str = "", max_labels: float = math.inf) -> NDArray[np.int32]:
        """Return the code of each row's label, -1 if it is missing, and add the labels that are new.

        Raises:
            DataError: for more than `max_labels` labels of the column `name`.
        """
        codes = np.array([*(self.labels.setdefault(label, len(self.labels)) for label in batch.values), -1], np.int32)
        if len(self.labels) > max_labels:
            raise DataError(f"column `{name}` has more than {max_labels} different values, too many for labels")
        of_rows: NDArray[np.int32] = codes[batch.codes]
        return of_rows


def _as_number(label: Any) -> float | None:
    """Return a label as a number, exactly if it is whole; None for other text."""
    if isinstance(label, int | float):
        return label
    value = parse_number(str(label))
    return int(str(label)) if _is_finite(value) and _WHOLE_NUMBER.fullmatch(str(label)) else value


def _is_finite(number: float | None) -> TypeGuard[float]:
    return number is not None and math.isfinite(number)


@dataclass(frozen=True, slots=True)
class ColumnRequest:
    """The columns to read from a file, and how.

    Attributes:
        positions: the position of each column in the file, by its name.
        labels: the names of the columns that are read as labels.
        parsers: the parser of each column, which records its kind.
        batch_rows: the approximate number of rows of a batch, if the file does not determine it.
        accepts_missing: whether missing cells are left to the caller.
        cell_by_cell: whether to parse text cell by cell, so that every notation is understood and errors name the line.
        refuses_blanks: whether cells of numbers that are empty, or mark a missing value, are invalid; nan is a number.
    """

    positions: Mapping[str, int]
    labels: Collection[str]
    parsers: Mapping[str, CellParser]
    batch_rows: int
    accepts_missing: bool
    cell_by_cell: bool
    refuses_blanks: bool = False


RawBatch: TypeAlias = "dict[str, NDArray[Any] | LabelColumn]"  # by name: numbers, with nan for missing cells, or labels


def numbers_of(batch: Mapping[str, Any], name: str) -> NDArray[Any]:
    """Return a column of a batch as numbers, also if it was read as labels. Raises DataError for text."""
    column = batch[name]
    return column.numbers(name) if isinstance(column, LabelColumn) else column


def labels_of(batch: RawBatch, name: str) -> LabelColumn:
    """Return a column of a batch that was read as labels."""
    column = batch[name]
    assert isinstance(column, LabelColumn)
    return column


class MissingCells(Enum):
    """The treatment of rows with missing cells. Rows that a filter drops may have missing cells in any case."""

    REFUSE = "refuse"
    DROP = "drop"
    KEEP = "keep"


class ColumnBatch(NamedTuple):
    """Some rows of a file.

    Attributes:
        columns: by name, numbers or labels.
        rows: the number of rows.
        mask: which of the file's rows these are, of those that were read for this batch; None for all of them.
        dropped: the number of rows that were dropped because a cell is missing.
    """

    columns: RawBatch
    rows: int
    mask: NDArray[np.bool_] | None
    dropped: int


@dataclass(frozen=True, slots=True)
class ColumnQuery:
    """The columns to read from data files, and how.

    Attributes:
        numbers: the columns of numbers. Those that are among `labels` too are read as labels.
        labels: the columns of labels.
        missing: how rows with missing cells are treated.
        batch_rows, cell_by_cell: see `ColumnRequest`.
        levels: the levels of columns of labels that a fit knows.
    """

    numbers: Collection[str]
    labels: Collection[str] = ()
    missing: MissingCells = MissingCells.REFUSE
    batch_rows: int = 1 << 18  # few enough that a file is never in memory twice
    cell_by_cell: bool = False
    levels: Mapping[str, Collection[Any]] = field(default_factory=dict)


class FallbackRequired(Exception):  # noqa: N818 - it signals a slower path, not an error
    """Raised where a fast reader cannot handle a file, so that its rows have to be parsed one by one."""


def with_fallback(query: ColumnQuery, read: Callable[[ColumnQuery], T]) -> T:
    """Return the result of a query: read as fast as possible and, if that fails, cell by cell."""
    try:
        return read(query)
    except FallbackRequired:
        return read(dataclasses.replace(query, cell_by_cell=True))


def select_rows(batch: Mapping[str, C], rows: NDArray[np.bool_] | None) -> dict[str, C]:
    """Return the rows of columns that a mask selects; None selects all."""
    return {name: column if rows is None else cast(C, column[rows]) for name, column in batch.items()}


def find_missing(batch: Mapping[str, C], numbers: Collection[str]) -> dict[str, NDArray[np.bool_]]:
    """Return a mask of the missing cells of each column that has some: cells that are empty, nan or infinite.

    Args:
        batch: the columns.
        numbers: the columns whose labels must be numbers.
    """
    missing = {}
    for name, column in batch.items():
        if isinstance(column, LabelColumn) and len(column) and column.codes.min() < 0:
            missing[name] = column.codes < 0
        if not isinstance(column, LabelColumn) or name in numbers:
            values = numbers_of(batch, name)
            if not all_finite(values):
                missing[name] = ~np.isfinite(values)
    return missing


class ProblemList:
    """Problems of the cells of a file or a table: cells that are invalid or, if there are none, missing ones.

    Args:
        prefix: the start of the message, such as `"prices.csv: "`.

    Attributes:
        text_columns: see `DataError`.
        is_text_among_numbers: whether an invalid cell stands in a column that has numbers too.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self.invalid: list[str] = []
        self.missing: list[str] = []
        self.text_columns: dict[str, str] = {}
        self.is_text_among_numbers = False

    def __bool__(self) -> bool:
        return bool(self.invalid or self.missing)

    def add_missing(
        self, missing: Mapping[str, NDArray[np.bool_]], columns: RawBatch, row_numbers: Sequence[int] | NDArray[np.intp]
    ) -> None:
        """Add missing cells by row and column.

        Args:
            missing: a mask of the missing cells of each column.
            columns: the columns.
            row_numbers: the number of each row in the file, counted from 1.
        """
        for row in np.flatnonzero(np.logical_or.reduce([*missing.values()])).tolist():
            for name, is_missing_cell in missing.items():
                if is_missing_cell[row]:
                    column = columns[name]
                    cell = "no label" if isinstance(column, LabelColumn) else column[row]
                    self.missing.append(f"row {row_numbers[row]}, column `{name}`: {cell}")

    def raise_if_any(self) -> None:
        """Raise DataError that lists the first few problems, one per line, and counts the rest."""
        listed = self.invalid or self.missing
        if listed:
            rest = [f"… and {len(listed) - _MAX_PROBLEMS_SHOWN} more"] if len(listed) > _MAX_PROBLEMS_SHOWN else []
            lines = [f"{self._prefix}{len(listed)} problems:", *listed[:_MAX_PROBLEMS_SHOWN], *rest]
            message = self._prefix + listed[0] if len(listed) == 1 else "\n  ".join(lines)
            # A damaged number, such as 2.5*, is no unit.
            if self.invalid and all(re.match(r'line 2, column .*: "(?!\W*\d)', problem) for problem in listed):
                message += "\nif line 2 has the units of the columns, add --units-row"
            elif all(problem.endswith(CellKind.NUMBER.value) for problem in listed) and (
                self.is_text_among_numbers or all(re.search(r': "\W*\d', problem) for problem in listed)
            ):
                message += "\nwrite numbers without units or notes"
                message += ", and missing values as NA" * self.is_text_among_numbers
            raise DataError(message, missing=not self.invalid, text_columns=self.text_columns)


def _is_missing(cell: Any) -> bool:
    try:
        return (
            cell is None
            or bool(cell != cell)
            or (isinstance(cell, str) and not cell.strip())
            or (isinstance(cell, float) and math.isinf(cell))
        )
    except TypeError:  # pandas.NA != pandas.NA is NA, which has no truth value
        return True


def all_finite(values: NDArray[Any]) -> bool:
    """Return whether all values are finite, without allocating an array of their length."""
    return all(
        bool(np.isfinite(values[start : start + _BLOCK_VALUES]).all()) for start in range(0, len(values), _BLOCK_VALUES)
    )


# --- Arrays


_GROWTH_DIVISOR = 8  # grow by 1/8 more than needed: the system moves pages, so frequent growth is cheap


class GrowingArray:
    """An array that grows by appending parts, without a second copy of everything. A single part is not copied.

    Args:
        expected: the expected number of values. Unused space does not take up physical memory.
        dtype: the type of the array if no part is added.

    >>> column = GrowingArray()
    >>> column.add(np.array([1, 2], np.int8))
    >>> column.add(np.array([0.5]))
    >>> column.finish()
    array([1. , 2. , 0.5])
    """

    def __init__(self, expected: int = 0, dtype: type[np.generic] = np.float64) -> None:
        self._expected = expected
        self._values: NDArray[Any] = np.empty(0, dtype)
        self._is_own = False
        self._count = 0

    def add(self, part: NDArray[Any]) -> None:
        """Append a part. The array takes the smallest type that can hold both."""
        if not self._count:
            self._values, self._count = part, len(part)
            return
        begin, end = self._count, self._count + len(part)
        dtype = np.result_type(self._values, part)
        if dtype != self._values.dtype or not self._is_own:
            larger = np.empty(max(end, self._expected), dtype)
            larger[:begin] = self._values[:begin]
            self._values, self._is_own = larger, True
        if end > len(self._values):
            self._values.resize(end + end // _GROWTH_DIVISOR, refcheck=False)
        self._values[begin:end] = part
        self._count = end

    def finish(self) -> NDArray[Any]:
        """Return the array. No more parts can be added."""
        if len(self._values) > self._count:
            self._values.resize(self._count, refcheck=False)
        return self._values


def arrow_floats(cells: Any) -> Array:
    """Return an Arrow column of doubles as floats with nan for missing values."""
    return np.asarray(_fill_missing(math.nan, cells))


def arrow_native(cells: Any) -> NDArray[Any] | None:
    """Return an Arrow column in its own numeric type, without a copy if it is one chunk; missing cells have any value.

    Returns None for types that backends do not read directly.

    The Arrow buffers are read directly: `to_numpy` of Arrow imports pandas where it is installed, which takes longer
    than a small fit.
    """
    import pyarrow as pa

    if not (pa.types.is_integer(cells.type) or cells.type in (pa.float32(), pa.float64())):
        return None
    name = str(cells.type)
    kind = np.dtype({"float": "float32", "double": "float64"}.get(name, name))
    chunks = [chunk for chunk in cells.chunks if len(chunk)]
    parts = [np.frombuffer(chunk.buffers()[1], kind)[chunk.offset : chunk.offset + len(chunk)] for chunk in chunks]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, kind), *parts])


def has_extremes(table: Any, text: Any = b"") -> bool:
    """Return whether numbers of an Arrow table overflowed or may have underflowed: Arrow reports neither.

    Args:
        text: the text of the table, to tell numbers that underflowed from zeros.
    """
    numbers = [arrow_floats(column) for column in table.columns if str(column.type) == "double"]
    has_zeros = not all(map(np.all, numbers))
    return any(np.isinf(column).any() for column in numbers) or (has_zeros and MINUTE_NUMBER.search(text) is not None)


def _fill_missing(number: float, cells: Any) -> NDArray[Any]:
    """Return a numeric Arrow column with a number in place of missing cells. `fill_null` of Arrow imports pandas."""
    values = np.asarray(arrow_native(cells))
    is_valid = arrow_native(cells.is_valid().cast("int8")) if cells.null_count else None
    return values if is_valid is None else np.where(is_valid, values, number)


def cell_text(cell: Any) -> str:
    """Return the text of a cell of typed data: of midnight the date, of a span of time its seconds, of None nothing."""
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "surrogateescape")
    text = "" if cell is None else str(cell.total_seconds() if isinstance(cell, timedelta) else cell)
    return text.removesuffix(" 00:00:00") if isinstance(cell, datetime) else text


def without_dictionary(cells: Any) -> Any:
    """Return a column, as plain values if it is one of Arrow's that are encoded by dictionaries."""
    arrow_type: Any = getattr(cells, "type", None)
    return cells.cast(arrow_type.value_type) if hasattr(arrow_type, "index_type") else cells


def with_python_values(cells: Any) -> Any:
    """Return an Arrow column whose values Python can represent: spans of time as seconds, and times as text if some
    have nanoseconds.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = without_dictionary(cells)
    unit, is_time = getattr(cells.type, "unit", None), pa.types.is_time64(cells.type)
    if pa.types.is_duration(cells.type):
        rate = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[str(unit)]
        return pa.array([None if x is None else x / rate for x in cells.cast(pa.int64()).to_pylist()], pa.float64())
    if unit == "ns" and pc.max(pc.nanosecond(cells)).as_py():
        zone = "" if is_time or cells.type.tz is None else "%Ez"
        return cells.cast(pa.string()) if is_time else pc.strftime(cells, f"%Y-%m-%d %H:%M:%S{zone}")
    return cells


def arrow_labels(cells: Any, text: Callable[[str], str] = label_text) -> LabelColumn:
    """Return an Arrow column of any type as labels; see `CodeTable`."""
    import pyarrow as pa

    table, parts = CodeTable(text), [np.empty(0, np.int32)]
    for chunk in cells.chunks:
        if pa.types.is_nested(chunk.type) or isinstance(chunk.type, pa.BaseExtensionType):
            chunk = pa.array([None if cell is None else str(cell) for cell in chunk.to_pylist()], pa.string())
        if chunk.type in (pa.float16(), pa.float32()):  # the shortest decimal numbers, as in text files
            chunk = chunk.cast(pa.string()).cast(pa.float64())
        encoded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        positions = _fill_missing(-1, pa.chunked_array([encoded.indices.cast(pa.int64())]))
        parts.append(table.codes((*with_python_values(encoded.dictionary).to_pylist(), None))[positions])
    labels = LabelColumn(np.concatenate(parts), [*table.labels])
    return labels.compacted() if pa.types.is_dictionary(cells.type) else labels

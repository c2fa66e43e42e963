"""Tables of data: named columns of numbers of one length, with labels where a model needs them.

A `Dataset` provides the columns of a model as a `Table`: `MemoryDataset` from mappings, data frames and Arrow tables,
`files.DataFile` from files. The module also converts the values that users and pyarrow provide to arrays, holds rows as
text (`TextBatch`), and selects rows by an expression such as `t > 0 and group == 'A'` (`RowFilter`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.array_types import Array
from autodiff_cli.backends.evaluation import evaluate
from autodiff_cli.data.dialect import DataError as DataError
from autodiff_cli.data.dialect import parse_number
from autodiff_cli.language.errors import ExpressionError, format_names, suggest
from autodiff_cli.language.lexer import canonical_name
from autodiff_cli.language.names import ColumnNames, TextMatch
from autodiff_cli.language.program import read
from autodiff_cli.numbers.conversion import as_float_array, as_label_array, as_real_array


def named_columns(data: Any) -> dict[str, ArrayLike]:
    """Return the columns of data by name, without copying them.

    Args:
        data: a mapping, a pandas or polars data frame, an Arrow table or record batch, or a structured array.

    Raises:
        TypeError: for data without named columns.

    >>> named_columns(np.array([(1, 2.0)], dtype=[("x", int), ("y", float)]))
    {'x': array([1]), 'y': array([2.])}
    """
    if isinstance(data, np.ndarray):
        if data.dtype.names is None:
            raise TypeError('an array has no column names; pass {"x": array[:, 0], …} or a structured array')
        return {name: data[name] for name in data.dtype.names}
    if hasattr(data, "column_names"):  # Arrow
        return {str(name): data.column(position) for position, name in enumerate(data.column_names)}
    if isinstance(data, Mapping) or hasattr(data, "keys"):
        return {str(name): data[name] for name in data.keys()}  # noqa: SIM118 (data frames iterate otherwise)
    if hasattr(data, "columns") and hasattr(data, "get_column"):  # polars
        return {str(name): data.get_column(name) for name in data.columns}
    raise TypeError(f"data must have named columns (a mapping, a data frame or a table), not {type(data).__name__}")


_MAX_PROBLEMS_SHOWN = 5  # in one message: enough to see the pattern
_LABEL_LIMIT = 2**63  # labels are stored as 64-bit integers
_NATIVE_TYPE_CODES = frozenset(
    "?bBhHiIlLqQfd"
)  # NumPy type codes of numbers that every backend reads without conversion


_BLOCK_VALUES = 65_536  # values per block: temporary arrays stay in the cache


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of numbers, each of shape (rows,), or (…, rows) where a row has an array.

    Attributes:
        columns: arrays by name, of float64 or of a type that converts to float64: float32, integers, booleans. They may
            share memory with the caller's data and are never modified.
        rows: the number of rows.
        dropped: the number of rows that were dropped because a cell was missing.
        labels: the column of labels (integers or texts), if one was requested.
        row_mask: for each original row, whether the table has it; None if it has all.
    """

    columns: Mapping[str, NDArray[Any]]
    rows: int
    dropped: int = 0
    labels: NDArray[Any] | None = None
    row_mask: NDArray[np.bool_] | None = None

    def select_rows(self, rows: slice | NDArray[np.intp] | NDArray[np.bool_]) -> Table:
        """Return a table of some rows, given by a slice, row numbers or a mask."""
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

    def load(self, wanted: Collection[str], *, drop_missing: bool = False, labels: str | None = None) -> Table:
        """Return some columns as a table.

        Args:
            wanted: the names of the columns.
            drop_missing: drop rows with a cell that is empty, nan or infinite; without it, such cells are errors.
            labels: the name of one more column, which holds integers or texts.

        Raises:
            DataError: for missing cells, cells that are not numbers, columns of different lengths, and data without
                rows.
        """


class MemoryDataset:
    """A dataset of columns in memory: anything that `named_columns` accepts."""

    def __init__(self, data: Mapping[str, ArrayLike]) -> None:
        self._data = {canonical_name(name): values for name, values in named_columns(data).items()}
        self.names = tuple(self._data)

    def load(self, wanted: Collection[str], *, drop_missing: bool = False, labels: str | None = None) -> Table:
        """Return some columns as a table; see `Dataset.load`. Contiguous arrays of floats and integers are not copied;
        objects and other types become float64.
        """
        columns = {
            name: numeric_vector(values, f"column `{name}`")
            for name, values in self._data.items()
            if name in wanted and name != labels
        }
        label_column = None if labels is None else LabelColumn(labels, *label_array(self._data[labels], labels))
        if not columns and label_column is None:
            raise DataError(f"the model uses none of the columns, which are {format_names(self.names)}")
        lengths = {name: len(values) for name, values in columns.items()}
        if label_column is not None:
            lengths[label_column.name] = len(label_column.values)
        if len(set(lengths.values())) > 1:
            lengths_text = format_names([f"`{name}` has {length}" for name, length in lengths.items()])
            raise DataError(f"the columns differ in length: {lengths_text}")
        return complete_table(columns, drop_missing, labels=label_column)


class RawColumns(NamedTuple):
    """Columns as read from a file, before missing cells are handled.

    Attributes:
        columns: floats, with nan for missing cells; text columns are objects, with None.
        row_numbers: the number of each row in the file, counted from 1.
    """

    columns: dict[str, Any]
    row_numbers: Sequence[int] | NDArray[np.intp]


class LabelColumn(NamedTuple):
    """A column of labels and a mask of the missing ones."""

    name: str
    values: NDArray[Any]
    missing: NDArray[np.bool_]


def label_array(values: ArrayLike, name: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return labels as an array of integers or texts, and a mask of the missing ones.

    Raises:
        DataError: for numbers that are not integers, and for text that is not valid Unicode.
    """
    array = as_label_array(values)
    if array.ndim != 1:
        raise DataError(f"column `{name}` has the shape {array.shape}; expected one label per row")
    if array.dtype.kind in "bi" or (array.dtype.kind == "u" and np.all(array < _LABEL_LIMIT)):
        return array.astype(np.int64, copy=False), np.zeros(len(array), dtype=np.bool_)
    if array.dtype.kind in "fu":
        return _integer_labels(array.astype(np.float64), name)
    missing = np.concatenate([np.empty(0, np.bool_), *([*map(_is_missing, cells)] for cells in _iter_blocks(array))])
    types = {type(cell) for cells in _iter_blocks(array) for cell in cells if not _is_missing(cell)}
    if all(issubclass(kind, int | float) for kind in types):
        return _integer_labels(np.where(missing, math.nan, array).astype(np.float64), name)[0], missing
    texts = np.empty(len(array), dtype=object)
    for start, cells in zip(range(0, len(array), _BLOCK_VALUES), _iter_blocks(array), strict=True):
        texts[start : start + _BLOCK_VALUES] = ["" if _is_missing(cell) else str(cell) for cell in cells]
    _check_unicode(texts, name)
    return texts, missing


def _iter_blocks(array: NDArray[Any]) -> Iterator[list[Any]]:
    """Yield the values of an array as short lists, so that a large array is never copied as a whole."""
    for start in range(0, len(array), _BLOCK_VALUES):
        yield array[start : start + _BLOCK_VALUES].tolist()


def _is_missing(cell: Any) -> bool:
    try:
        return cell is None or bool(cell != cell) or (isinstance(cell, str) and not cell.strip())
    except TypeError:  # pandas.NA != pandas.NA is NA, which has no truth value
        return True


def parse_if_numeric(cells: NDArray[Any]) -> NDArray[Any]:
    """Return text cells as floats, with nan for missing ones, if all of them are numbers; otherwise return them
    unchanged.
    """
    if cells.dtype != object:
        return cells
    numbers, done = np.empty(len(cells)), 0
    parsed: dict[Any, float] = {None: math.nan}
    for block in _iter_blocks(cells):
        for cell in {*block} - parsed.keys():
            if (value := parse_number(str(cell))) is None:
                return cells
            parsed[cell] = value
        numbers[done : done + len(block)] = [parsed[cell] for cell in block]
        done += len(block)
    return numbers


def _check_unicode(texts: Iterable[str], name: str) -> None:
    """Raise DataError for a text that cannot be encoded, and so cannot be saved."""
    for row, text in enumerate(texts, 1):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise DataError(f"row {row}, column `{name}`: {text!r} is not Unicode text") from None


def _integer_labels(array: Array, name: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return floats as integers, and a mask of the missing ones. The integers reuse the memory of the floats."""
    missing, labels = np.empty(len(array), np.bool_), array.view(np.int64)
    for start in range(0, len(array), _BLOCK_VALUES):
        part = array[start : start + _BLOCK_VALUES]
        is_missing = missing[start : start + _BLOCK_VALUES] = ~np.isfinite(part)
        is_invalid = ~is_missing & ((part != np.round(part)) | (np.abs(part) >= _LABEL_LIMIT))
        if is_invalid.any():
            row = int(np.argmax(is_invalid))
            raise DataError(
                f"row {start + row + 1}, column `{name}`: "
                f"a label must be a whole number below 2^63 or text, not {part[row]:g}"
            )
        labels[start : start + _BLOCK_VALUES] = np.where(is_missing, 0, part).astype(np.int64)
    return labels, missing


def float_vector(values: ArrayLike, what: str) -> Array:
    """Return values as a float64 array of shape (rows,). Raises DataError, which names the values by `what`, if they
    are not numbers.
    """
    return numeric_vector(values, what).astype(np.float64, copy=False)


def float_array(values: ArrayLike, name: str) -> Array:
    """Return the values of a column as a float64 array of any shape. Raises DataError if they are not numbers."""
    try:
        return as_float_array(values)
    except (TypeError, ValueError):
        raise DataError(f"column `{name}` holds values that are not numbers") from None


def numeric_vector(values: ArrayLike, what: str) -> NDArray[Any]:
    """Return values as a contiguous array of shape (rows,), of their own numeric type or float64. Raises DataError if
    they are not numbers.
    """
    try:
        array = as_real_array(values)
        if array.dtype.kind not in "biufO":
            raise TypeError(array.dtype)
        if array.dtype.char not in _NATIVE_TYPE_CODES or not array.dtype.isnative:
            array = as_float_array(array)  # None in an object array becomes nan
    except (TypeError, ValueError):
        raise DataError(f"{what} holds values that are not numbers") from None
    if array.ndim != 1:
        raise DataError(f"{what} has the shape {array.shape}; expected one number per row")
    return np.ascontiguousarray(array)


def arrow_floats(cells: Any) -> Array:
    """Return a list, or an Arrow column of doubles, as floats with nan for missing values.

    The Arrow buffers are read directly: `to_numpy` of Arrow imports pandas where it is installed, which takes longer
    than a small fit.
    """
    if not hasattr(cells, "chunks"):
        return np.array(cells, dtype=np.float64)
    return np.concatenate([np.empty(0), *arrow_float_chunks(cells)])


def arrow_float_chunks(cells: Any) -> Iterator[Array]:
    """Yield the chunks of an Arrow column of doubles as floats, with nan for missing values. Chunks without missing
    values are not copied.
    """
    for chunk in cells.chunks:
        valid, values = chunk.buffers()
        part = slice(chunk.offset, chunk.offset + len(chunk))
        if not len(chunk):
            continue
        floats = np.frombuffer(values, np.float64)[part]
        if chunk.null_count:
            is_present = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[part]
            floats = np.where(is_present, floats, np.nan)
        yield floats


def arrow_native(cells: Any) -> NDArray[Any] | None:
    """Return an Arrow column without missing cells in its own numeric type, without a copy if it is one chunk. Returns
    None for types that backends do not read directly.
    """
    import pyarrow as pa

    if not (pa.types.is_integer(cells.type) or cells.type in (pa.float32(), pa.float64())):
        return None
    name = str(cells.type)
    kind = np.dtype({"float": "float32", "double": "float64"}.get(name, name))
    chunks = [chunk for chunk in cells.chunks if len(chunk)]
    parts = [np.frombuffer(chunk.buffers()[1], kind)[chunk.offset : chunk.offset + len(chunk)] for chunk in chunks]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, kind), *parts])


def arrow_labels(cells: Any) -> NDArray[Any]:
    """Return an Arrow column as labels: texts without surrounding blanks, None for missing ones, or integers if it
    holds integers and none is missing. Equal labels of a chunk are one object.
    """
    import pyarrow as pa

    if pa.types.is_integer(cells.type) and not cells.null_count and (integers := arrow_native(cells)) is not None:
        return integers
    parts = [np.empty(0, dtype=object)]
    for chunk in cells.chunks:
        encoded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        words = [cell.strip() if isinstance(cell, str) else cell for cell in encoded.dictionary.to_pylist()]
        codes = encoded.indices.cast(pa.int64()).fill_null(len(words))
        chunk_codes = np.frombuffer(codes.buffers()[1], np.int64)[codes.offset : codes.offset + len(codes)]
        parts.append(np.array([*words, None], dtype=object)[chunk_codes])
    return np.concatenate(parts)


def as_table(raw: RawColumns, drop_missing: bool, labels: str | None, where: str) -> Table:
    """Return columns read from a file as a table without missing cells; see `Dataset.load`.

    Args:
        where: the start of error messages, such as the file's name.
    """
    columns, label_column = raw.columns, None
    if labels is not None:
        label_column = LabelColumn(labels, *label_array(parse_if_numeric(columns.pop(labels)), labels))
    for name in [name for name, cells in columns.items() if cells.dtype == object]:  # text columns that --where needed
        columns[name] = parse_if_numeric(columns[name])
        if columns[name].dtype == object:
            raise DataError(f"{where}column `{name}` holds text, not numbers")
    return complete_table(columns, drop_missing, where, label_column, raw.row_numbers)


def labels_from_texts(texts: Sequence[str], name: str) -> NDArray[Any]:
    """Return texts as labels: integers if all are numbers. Raises DataError for numbers that are not integers."""
    return label_array(parse_if_numeric(np.array(texts, dtype=object)), name)[0]


def complete_table(
    columns: Mapping[str, NDArray[Any]],
    drop_missing: bool,
    where: str = "",
    labels: LabelColumn | None = None,
    rows: Sequence[int] | NDArray[np.intp] | None = None,
) -> Table:
    """Return columns as a table without missing cells; see `Dataset.load`.

    Args:
        where: the start of error messages, such as `"prices.parquet: "`.
        rows: the number of each row for messages; by default 1, 2 and so on.
    """
    count = len(next(iter(columns.values()))) if columns else 0
    if count and all(map(all_finite, columns.values())) and not (labels is not None and labels.missing.any()):
        return Table(columns, count, labels=None if labels is None else labels.values)
    missing = {name: ~np.isfinite(values) for name, values in columns.items()}
    if labels is not None:
        missing[labels.name] = labels.missing
    is_incomplete = np.logical_or.reduce(list(missing.values()))
    if not len(is_incomplete):
        raise DataError(f"{where}there are no rows")
    if not is_incomplete.any():
        return Table(columns, len(is_incomplete), labels=None if labels is None else labels.values)
    if not drop_missing:
        problems = (
            f"row {row + 1 if rows is None else rows[row]}, column `{name}`: "
            f"{columns[name][row] if name in columns else 'no label'}"
            for row in np.flatnonzero(is_incomplete).tolist()
            for name in missing
            if missing[name][row]
        )
        raise DataError(problem_list(problems, where), missing=True)
    if is_incomplete.all():
        raise DataError(f"{where}no rows are left: every row has a missing cell")
    kept_columns = {name: values[~is_incomplete] for name, values in columns.items()}
    dropped = int(np.count_nonzero(is_incomplete))
    return Table(
        kept_columns,
        len(is_incomplete) - dropped,
        dropped,
        None if labels is None else labels.values[~is_incomplete],
        ~is_incomplete,
    )


def all_finite(values: NDArray[Any]) -> bool:
    """Return whether all values are finite, without allocating an array of their length."""
    return all(
        bool(np.isfinite(values[start : start + _BLOCK_VALUES]).all()) for start in range(0, len(values), _BLOCK_VALUES)
    )


def problem_list(problems: Iterable[str], prefix: str) -> str:
    """Return a message that lists the first few problems, one per line, and counts the rest."""
    listed = list(problems)
    if len(listed) == 1:
        return prefix + listed[0]
    rest = [f"… and {len(listed) - _MAX_PROBLEMS_SHOWN} more"] if len(listed) > _MAX_PROBLEMS_SHOWN else []
    return "\n  ".join([f"{prefix}{len(listed)} problems:", *listed[:_MAX_PROBLEMS_SHOWN], *rest])


# --- Rows as text


class FallbackRequired(Exception):  # noqa: N818 - it signals a slower path, not an error
    """Raised where a fast reader cannot handle a file, so that its rows have to be parsed one by one."""


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

    def select_columns(self, positions: Sequence[int]) -> TextBatch:
        """Return the columns at some positions, in that order."""
        return TextBatch(self.batch.select(list(positions)))

    def parse_column(self, position: int) -> NDArray[np.float64]:
        """Return a column as numbers. Raises FallbackRequired if a cell is not a plain number."""
        import pyarrow as pa
        import pyarrow.compute as pc

        cells = self.batch.column(position)
        try:
            numbers = np.asarray(pc.ascii_trim_whitespace(cells.cast(pa.string())).cast(pa.float64()))
            if np.isfinite(numbers).all():
                return numbers
        except pa.ArrowInvalid:
            pass
        # Other readers accept more notations, so the parser of cells decides.
        values = [parse_number(cell.strip()) for cell in _decode_cells(cells)]
        if None in values:
            raise FallbackRequired
        return np.array(values, dtype=np.float64)

    def rows(self) -> list[list[str]]:
        """Return the cells of every row."""
        return [list(cells) for cells in zip(*map(_decode_cells, self.batch.columns), strict=True)]


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


def _decode_cells(cells: Any) -> list[str]:
    return [cell.decode("utf-8", "surrogateescape") for cell in cells.to_pylist()]


# --- Selection of rows


class RowFilter:
    """A filter of rows by an expression of columns. A row is kept if the expression is neither 0 nor nan.

    Args:
        text: the expression.
        names: the names of all columns.
        texts: the names of the text columns, which can be compared with quoted text.

    Attributes:
        numeric_columns: the numeric columns that the expression reads.
        text_columns: the text columns that it reads.

    Raises:
        DataError: for text that is not an expression of these columns.
    """

    def __init__(self, text: str, names: Collection[str], texts: Collection[str]) -> None:
        try:
            program = read(text, columns=ColumnNames(texts=texts))
        except ExpressionError as error:
            raise DataError(f"--where: {error}") from error
        if program.target is not None or program.shapes:
            raise DataError("--where takes a condition on columns, such as `t > 0`")
        self._output = program.output
        self._matches = {name: leaf for name, leaf in program.column_leaves.items() if isinstance(leaf, TextMatch)}
        self.numeric_columns = [name for name in program.leaves if name not in self._matches]
        self.text_columns = {match.column for match in self._matches.values()}
        for name in self.numeric_columns:
            if name not in names:
                closest = suggest(name, names)
                hint = f"did you mean `{closest}`?" if closest else f"the columns are {format_names(names)}"
                raise DataError(f"--where: there is no column `{name}`; {hint}")

    def mask(self, columns: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Return which rows the filter keeps.

        Args:
            columns: arrays of shape (rows,): floats, and objects for text columns.
        """
        point: dict[str, Array] = {name: columns[name] for name in self.numeric_columns}
        for name, match in self._matches.items():
            point[name] = np.array(columns[match.column] == match.text, dtype=np.float64)
        if not point:
            raise DataError("--where: the condition uses no column")
        (values,) = evaluate([self._output], point)
        holds: NDArray[np.bool_] = np.isfinite(values) & (values != 0)
        return holds

    def notes(self, columns: Mapping[str, Any]) -> list[str]:
        """Return a note for each quoted text that no row has, with the closest text."""
        notes = []
        for match in self._matches.values():
            texts: Sequence[str] = [text for text in dict.fromkeys(columns[match.column].tolist()) if text is not None]
            if match.text not in texts:
                close = suggest(match.text, texts)
                hint = f"did you mean '{close}'?" if close else f"there are {format_names(texts)}"
                notes.append(f"--where: no row has '{match.text}' in column `{match.column}`; {hint}")
        return notes

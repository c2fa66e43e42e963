"""Data as a model sees it: named columns of numbers, all of one length; perhaps one of labels."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.data.cells import DataError as DataError
from autodiff_cli.data.cells import number
from autodiff_cli.data.frames import named_columns
from autodiff_cli.language.errors import in_brief
from autodiff_cli.language.lexer import canonical
from autodiff_cli.numbers.given import given_array, given_floats, given_labels

Array = NDArray[np.float64]

_SHOWN = 5  # of several problems
_LARGEST_LABEL = 2**63
_READ = frozenset("?bBhHiIlLqQfd")  # types of numbers that every backend reads as they are


_BLOCK = 65_536  # values that are looked at together


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of numbers, each of shape (rows,), or (…, rows) where a row has an array.

    Attributes:
        columns: by name, of float64, or of a type that every float64 can be read from: float32, whole numbers, truths.
            They may lie in memory of whoever gave them, and are never changed.
        rows: how many.
        dropped: how many more there were, left out because a cell was missing.
        labels: the column of labels, whole numbers or texts, if one was asked for.
        kept: of all rows that there were, whether each is in the table; None if all are.
    """

    columns: Mapping[str, NDArray[Any]]
    rows: int
    dropped: int = 0
    labels: NDArray[Any] | None = None
    kept: NDArray[np.bool_] | None = None

    def part(self, rows: slice | NDArray[np.intp] | NDArray[np.bool_]) -> Table:
        """Some of the rows: a slice, row numbers, or a truth value for each."""
        columns = {name: values[..., rows] for name, values in self.columns.items()}
        return Table(columns, next(iter(columns.values())).shape[-1], self.dropped)


class Record(NamedTuple):
    """A row of a file as text.

    Attributes:
        place: `line 2`, or `row 1` of a file that has no lines.
        cells: of every column, the empty ones too.
    """

    place: str
    cells: list[str]


@runtime_checkable
class Dataset(Protocol):
    """Where columns come from: memory, or a file."""

    @property
    def names(self) -> Sequence[str]:
        """The names of all columns, in the form in which the language compares names."""

    def load(self, wanted: Collection[str], *, drop_missing: bool = False, labels: str | None = None) -> Table:
        """The columns of these names.

        Args:
            drop_missing: leave out rows with a cell that is empty, nan or infinite; without it they are an error.
            labels: one more column, which holds whole numbers or texts.

        Raises:
            DataError: for cells that are missing or hold no number, for columns of unequal length, for no rows.
        """


class Columns:
    """Columns in memory (a mapping, a data frame, a table: see `named_columns`) as a Dataset."""

    def __init__(self, data: Mapping[str, ArrayLike]) -> None:
        self._data = {canonical(name): values for name, values in named_columns(data).items()}
        self.names = tuple(self._data)

    def load(self, wanted: Collection[str], *, drop_missing: bool = False, labels: str | None = None) -> Table:
        """See `Dataset.load`. Arrays are not copied where their numbers lie side by side, float32 and whole numbers
        neither; objects and other types become float64."""
        columns = {
            name: readable(values, f"column `{name}`")
            for name, values in self._data.items()
            if name in wanted and name != labels
        }
        named = None if labels is None else LabelColumn(labels, *as_labels(self._data[labels], labels))
        if not columns and named is None:
            raise DataError(f"the model uses no column of the data ({in_brief(self.names)})")
        lengths = {name: len(values) for name, values in columns.items()}
        if named is not None:
            lengths[named.name] = len(named.values)
        if len(set(lengths.values())) > 1:
            said = in_brief([f"`{name}` has {length}" for name, length in lengths.items()])
            raise DataError(f"the columns differ in length: {said}")
        return complete(columns, drop_missing, labels=named)


class RawColumns(NamedTuple):
    """Columns as a file has them.

    Attributes:
        columns: floats, nan where a cell is missing; of texts, objects, None where one is.
        rows: the number of each in the file, from 1 on.
    """

    columns: dict[str, Any]
    rows: Sequence[int] | NDArray[np.intp]


class LabelColumn(NamedTuple):
    """A column of labels, and which of them are missing."""

    name: str
    values: NDArray[Any]
    missing: NDArray[np.bool_]


def as_labels(values: ArrayLike, name: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Labels as an array of whole numbers or of texts, and which are missing.

    Raises:
        DataError: for numbers that are not whole, and for halves of surrogate pairs.
    """
    array = given_labels(values)
    if array.ndim != 1:
        raise DataError(f"column `{name}` has the shape {array.shape}; one label per row is needed")
    if array.dtype.kind in "bi" or (array.dtype.kind == "u" and np.all(array < _LARGEST_LABEL)):
        return array.astype(np.int64, copy=False), np.zeros(len(array), dtype=np.bool_)
    if array.dtype.kind in "fu":
        return _whole(array.astype(np.float64), name)
    missing = np.concatenate([np.empty(0, np.bool_), *([*map(_is_gone, cells)] for cells in _blocks(array))])
    kinds = {type(cell) for cells in _blocks(array) for cell in cells if not _is_gone(cell)}
    if all(issubclass(kind, int | float) for kind in kinds):
        return _whole(np.where(missing, math.nan, array).astype(np.float64), name)[0], missing
    texts = np.empty(len(array), dtype=object)
    for start, cells in zip(range(0, len(array), _BLOCK), _blocks(array), strict=True):
        texts[start : start + _BLOCK] = ["" if _is_gone(cell) else str(cell) for cell in cells]
    _check_unicode(texts, name)
    return texts, missing


def _blocks(array: NDArray[Any]) -> Iterator[list[Any]]:
    """The values, some at a time."""
    for start in range(0, len(array), _BLOCK):
        yield array[start : start + _BLOCK].tolist()


def _is_gone(cell: Any) -> bool:
    try:
        return cell is None or bool(cell != cell) or (isinstance(cell, str) and not cell.strip())
    except TypeError:  # of pandas' NA nobody knows whether it is itself
        return True


def written_numbers(cells: NDArray[Any]) -> NDArray[Any]:
    """Cells as floats of their own, nan where one is missing, if all are written as numbers; else as they are."""
    if cells.dtype != object:
        return cells
    found, done = np.empty(len(cells)), 0
    known: dict[Any, float] = {None: math.nan}
    for block in _blocks(cells):
        for cell in {*block} - known.keys():
            if (value := number(str(cell))) is None:
                return cells
            known[cell] = value
        found[done : done + len(block)] = [known[cell] for cell in block]
        done += len(block)
    return found


def _check_unicode(texts: Iterable[str], name: str) -> None:
    """Raise DataError for a text that no file can hold."""
    for row, text in enumerate(texts, 1):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise DataError(f"row {row}, column `{name}`: {text!r} is not Unicode text") from None


def _whole(array: Array, name: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Floats as whole numbers, which take their places in memory."""
    missing, found = np.empty(len(array), np.bool_), array.view(np.int64)
    for start in range(0, len(array), _BLOCK):
        part = array[start : start + _BLOCK]
        gone = missing[start : start + _BLOCK] = ~np.isfinite(part)
        broken = ~gone & ((part != np.round(part)) | (np.abs(part) >= _LARGEST_LABEL))
        if broken.any():
            row = int(np.argmax(broken))
            raise DataError(
                f"row {start + row + 1}, column `{name}`: "
                f"a label is a whole number below 2^63 or a text, not {part[row]:g}"
            )
        found[start : start + _BLOCK] = np.where(gone, 0, part).astype(np.int64)
    return found, missing


def numbers(values: ArrayLike, what: str) -> Array:
    """The values as float64, of shape (rows,). Raises DataError, which calls them `what`, if they are not numbers."""
    return readable(values, what).astype(np.float64, copy=False)


def floats(values: ArrayLike, name: str) -> Array:
    """The values of a column as float64, of whatever shape. Raises DataError if they are not numbers."""
    try:
        return given_floats(values)
    except (TypeError, ValueError):
        raise DataError(f"column `{name}` does not hold numbers only") from None


def readable(values: ArrayLike, what: str) -> NDArray[Any]:
    """The values, side by side, as they are or as float64, of shape (rows,). Raises as `numbers` does."""
    try:
        array = given_array(values)
        if array.dtype.kind not in "biufO":
            raise TypeError(array.dtype)
        if array.dtype.char not in _READ or not array.dtype.isnative:
            array = given_floats(array)  # of objects, None becomes nan
    except (TypeError, ValueError):
        raise DataError(f"{what} does not hold numbers only") from None
    if array.ndim != 1:
        raise DataError(f"{what} has the shape {array.shape}; one number per row is needed")
    return np.ascontiguousarray(array)


def as_floats(cells: Any) -> Array:
    """Values as floats, nan where one is missing: a list, or an Arrow column of doubles.

    The latter's buffers are read as they lie. Its own way to NumPy imports pandas, where that is installed, which takes
    longer than all else that a fit of few rows does.
    """
    if not hasattr(cells, "chunks"):
        return np.array(cells, dtype=np.float64)
    return np.concatenate([np.empty(0), *float_parts(cells)])


def float_parts(cells: Any) -> Iterator[Array]:
    """The same of an Arrow column of doubles, chunk by chunk: where they lie, if none is missing."""
    for chunk in cells.chunks:
        valid, values = chunk.buffers()
        place = slice(chunk.offset, chunk.offset + len(chunk))
        if not len(chunk):
            continue
        floats = np.frombuffer(values, np.float64)[place]
        if chunk.null_count:
            there = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[place]
            floats = np.where(there, floats, np.nan)
        yield floats


def as_they_are(cells: Any) -> NDArray[Any] | None:
    """An Arrow column without missing cells in its own type, where every backend reads that: where it lies, if it lies
    in one piece. None for other types."""
    import pyarrow as pa

    if not (pa.types.is_integer(cells.type) or cells.type in (pa.float32(), pa.float64())):
        return None
    name = str(cells.type)
    kind = np.dtype({"float": "float32", "double": "float64"}.get(name, name))
    chunks = [chunk for chunk in cells.chunks if len(chunk)]
    parts = [np.frombuffer(chunk.buffers()[1], kind)[chunk.offset : chunk.offset + len(chunk)] for chunk in chunks]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, kind), *parts])


def as_texts(cells: Any) -> NDArray[Any]:
    """Labels as they stand, without the blanks around them; None for those that are missing. Equal ones of a chunk are
    one object. Whole numbers stay what they are, if none is missing."""
    import pyarrow as pa

    if pa.types.is_integer(cells.type) and not cells.null_count and (whole := as_they_are(cells)) is not None:
        return whole
    found = [np.empty(0, dtype=object)]
    for chunk in cells.chunks:
        encoded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        words = [cell.strip() if isinstance(cell, str) else cell for cell in encoded.dictionary.to_pylist()]
        codes = encoded.indices.cast(pa.int64()).fill_null(len(words))
        own = np.frombuffer(codes.buffers()[1], np.int64)[codes.offset : codes.offset + len(codes)]
        found.append(np.array([*words, None], dtype=object)[own])
    return np.concatenate(found)


def as_table(raw: RawColumns, drop_missing: bool, labels: str | None, where: str) -> Table:
    """Columns as a table without missing cells. See `Dataset.load`.

    Args:
        where: what a message begins with.
    """
    columns, named = raw.columns, None  # what is taken out is not kept
    if labels is not None:
        named = LabelColumn(labels, *as_labels(written_numbers(columns.pop(labels)), labels))
    for name in [name for name, cells in columns.items() if cells.dtype == object]:  # texts, for --where
        columns[name] = written_numbers(columns[name])
        if columns[name].dtype == object:
            raise DataError(f"{where}column `{name}` holds text, not numbers")
    return complete(columns, drop_missing, where, named, raw.rows)


def labels_of(texts: Sequence[str], name: str) -> NDArray[Any]:
    """Texts as the labels of a column: whole numbers, if all are written as numbers. Raises DataError."""
    return as_labels(written_numbers(np.array(texts, dtype=object)), name)[0]


def complete(
    columns: Mapping[str, NDArray[Any]],
    drop_missing: bool,
    where: str = "",
    labels: LabelColumn | None = None,
    rows: Sequence[int] | NDArray[np.intp] | None = None,
) -> Table:
    """The columns as a table without missing cells. See `Dataset.load`.

    Args:
        where: what the message begins with (`"prices.parquet: "`).
        rows: what each row is called in it; 1, 2 and so on by default.
    """
    count = len(next(iter(columns.values()))) if columns else 0
    if count and all(map(is_finite, columns.values())) and not (labels is not None and labels.missing.any()):
        return Table(columns, count, labels=None if labels is None else labels.values)
    missing = {name: ~np.isfinite(values) for name, values in columns.items()}
    if labels is not None:
        missing[labels.name] = labels.missing
    bad = np.logical_or.reduce(list(missing.values()))
    if not len(bad):
        raise DataError(f"{where}there are no rows")
    if not bad.any():
        return Table(columns, len(bad), labels=None if labels is None else labels.values)
    if not drop_missing:
        problems = (
            f"row {row + 1 if rows is None else rows[row]}, column `{name}`: "
            f"{columns[name][row] if name in columns else 'no label'}"
            for row in np.flatnonzero(bad).tolist()
            for name in missing
            if missing[name][row]
        )
        raise DataError(listing(problems, where), missing=True)
    if bad.all():
        raise DataError(f"{where}no row is left: every one has a cell that is missing")
    kept = {name: values[~bad] for name, values in columns.items()}
    dropped = int(np.count_nonzero(bad))
    return Table(kept, len(bad) - dropped, dropped, None if labels is None else labels.values[~bad], ~bad)


def is_finite(values: NDArray[Any]) -> bool:
    """Whether all are. Without another array of their length."""
    return all(bool(np.isfinite(values[start : start + _BLOCK]).all()) for start in range(0, len(values), _BLOCK))


def listing(problems: Iterable[str], where: str) -> str:
    """The first few of several problems, one per line, and how many more there are."""
    found = list(problems)
    if len(found) == 1:
        return where + found[0]
    more = [f"… and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    return "\n  ".join([f"{where}{len(found)} problems:", *found[:_SHOWN], *more])

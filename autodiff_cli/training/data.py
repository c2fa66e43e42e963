"""Data as a model sees it: named columns of floats, all of one length."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.backends.blocks import slices
from autodiff_cli.language.lexer import canonical

Array = NDArray[np.float64]

_SHOWN = 5  # of several problems


class DataError(ValueError):
    """Data that cannot be used; the message says where it is wrong, and what stands there.

    Attributes:
        missing: whether all that is wrong are cells that are empty, nan or infinite, so that dropping rows would help.
    """

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of float64, each of shape (rows,).

    Attributes:
        columns: by name.
        rows: how many.
        dropped: how many more there were, left out because a cell was missing.
    """

    columns: Mapping[str, Array]
    rows: int
    dropped: int = 0

    def part(self, rows: slice | Array | NDArray[np.intp] | NDArray[np.bool_]) -> Table:
        """Some of the rows: a slice, row numbers, or a truth value for each."""
        columns = {name: values[rows] for name, values in self.columns.items()}
        return Table(columns, len(next(iter(columns.values()))))

    def parts(self, size: int) -> Iterator[Table]:
        """All rows in order, `size` at a time."""
        return map(self.part, slices(self.rows, size))


@runtime_checkable
class Dataset(Protocol):
    """Where columns come from: memory, or a file."""

    @property
    def names(self) -> Sequence[str]:
        """The names of all columns, in the form in which the language compares names."""

    def load(self, wanted: Collection[str], *, drop_missing: bool = False) -> Table:
        """The columns of these names.

        Args:
            drop_missing: leave out rows with a cell that is empty, nan or infinite; without it they are an error.

        Raises:
            DataError: for cells that are missing or hold no number, for columns of unequal length, for no rows.
        """


class Columns:
    """A mapping of names to sequences of numbers (a dict, a data frame) as a Dataset."""

    def __init__(self, data: Mapping[str, ArrayLike]) -> None:
        self._data = {canonical(str(name)): data[name] for name in data.keys()}  # noqa: SIM118 (data frames)
        self.names = tuple(self._data)

    def load(self, wanted: Collection[str], *, drop_missing: bool = False) -> Table:
        """See `Dataset.load`. Integers, float32 and lists become float64."""
        columns = {name: numbers(values, f"column `{name}`") for name, values in self._data.items() if name in wanted}
        if not columns:
            raise DataError(f"the model uses no column of the data ({', '.join(self.names)})")
        lengths = {name: len(values) for name, values in columns.items()}
        if len(set(lengths.values())) > 1:
            said = ", ".join(f"`{name}` has {length}" for name, length in lengths.items())
            raise DataError(f"the columns differ in length: {said}")
        return complete(columns, drop_missing)


def numbers(values: ArrayLike, what: str) -> Array:
    """The values as float64, of shape (rows,). Raises DataError, which calls them `what`, if they are not numbers."""
    try:
        array: NDArray[Any] = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError(array.dtype)
        array = array.astype(np.float64)  # of objects, None becomes nan
    except (TypeError, ValueError):
        raise DataError(f"{what} does not hold numbers only") from None
    if array.ndim != 1:
        raise DataError(f"{what} has the shape {array.shape}; one number per row is needed")
    return np.ascontiguousarray(array)


def complete(columns: Mapping[str, Array], drop_missing: bool, where: str = "") -> Table:
    """The columns as a table without missing cells. See `Dataset.load`.

    Args:
        where: what the message begins with (`"prices.parquet: "`).
    """
    missing = {name: ~np.isfinite(values) for name, values in columns.items()}
    bad = np.logical_or.reduce(list(missing.values()))
    table = Table(columns, len(bad))
    if not len(bad):
        raise DataError(f"{where}there are no rows")
    if not bad.any():
        return table
    if not drop_missing:
        problems = (
            f"row {row + 1}, column `{name}`: {columns[name][row]}"
            for row in np.flatnonzero(bad)
            for name in columns
            if missing[name][row]
        )
        raise DataError(listing(problems, where), missing=True)
    if bad.all():
        raise DataError(f"{where}no row is left: every one has a cell that is missing")
    return Table(table.part(~bad).columns, int(np.count_nonzero(~bad)), dropped=int(np.count_nonzero(bad)))


def listing(problems: Iterable[str], where: str) -> str:
    """The first few of several problems, one per line, and how many more there are."""
    found = list(problems)
    if len(found) == 1:
        return where + found[0]
    more = [f"… and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    return "\n  ".join([f"{where}{len(found)} problems:", *found[:_SHOWN], *more])

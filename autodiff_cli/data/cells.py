"""What a cell of a text says."""

from __future__ import annotations

import math
import re
from datetime import datetime
from enum import Enum

# What stands for no value: a blank, or what spreadsheets, R and pandas write.
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL")

_TRUTH = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?")
_TIME = re.compile(r"\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?")
_DAY = "1970-01-01 "  # for times without a date, of which only differences count
_GROUPED = {
    ".": re.compile(r"[+-]?\d{1,3}(?:([, '\u00a0\u2009\u202f])\d{3})(?:\1\d{3})*(?:\.\d*)?"),
    ",": re.compile(r"[+-]?\d{1,3}(?:([. '\u00a0\u2009\u202f])\d{3})(?:\1\d{3})*(?:,\d*)?"),
}


class DataError(ValueError):
    """Data that cannot be used; the message says where it is wrong, and what stands there.

    Attributes:
        missing: whether all that is wrong are cells that are empty, nan or infinite, so that dropping rows would help.

    >>> import autodiff_cli as ad
    >>> ad.fit("y ~ a*x", {"x": [1, 2], "y": [1, float("nan")]})
    Traceback (most recent call last):
        ...
    autodiff_cli.data.cells.DataError: row 2, column `y`: nan
    """

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


class CellKind(Enum):
    """What the cells of a column are, in words."""

    NUMBER = "a number"
    TRUTH = "yes or no, true or false"
    TIME = "a date or a time like the first one"


class CellReader:
    """Reads the cells of one column as numbers. The first one that is not missing says what they all are.

    Args:
        decimal: the mark before decimals.
        origin: the moment from which dates and times are counted; by default that of the first cell.

    Attributes:
        kind: what they are; None until one is read.
        origin: for dates and times, the moment from which they are counted.
        is_grouped: whether a number had separators of thousands.

    >>> reader = CellReader()
    >>> reader.read("2024-01-31"), reader.read("2024-02-01 12:00"), reader.read("3")
    (0.0, 129600.0, None)
    """

    def __init__(self, decimal: str = ".", origin: datetime | None = None) -> None:
        self._decimal = decimal
        self.kind: CellKind | None = None
        self.origin = origin
        self.is_grouped = False

    def read(self, cell: str) -> float | None:
        """The number that a cell stands for, nan where it is missing; None if it is not what the others are."""
        if cell in MISSING:
            return math.nan
        if self.kind is None:
            self.kind = self._kind_of(cell)
        if self.kind is CellKind.TRUTH:
            return _TRUTH.get(cell.lower())
        if self.kind is CellKind.TIME:
            return self._seconds(cell)
        found = number(cell, self._decimal)
        if found is None and _GROUPED[self._decimal].fullmatch(cell):
            self.is_grouped = True
            return number(re.sub("[^-+0-9]", "", cell.partition(self._decimal)[0]) + _decimals(cell, self._decimal))
        return found

    def note(self) -> str | None:
        """What is said of the column; nothing of one of plain numbers."""
        if self.kind is CellKind.TIME and self.origin is not None:
            return f"dates and times are seconds since {self.origin.isoformat(' ').removeprefix(_DAY)}"
        if self.kind is CellKind.TRUTH:
            return "yes and true are 1, no and false are 0"
        return "separators of thousands were left out" if self.is_grouped else None

    def _kind_of(self, cell: str) -> CellKind:
        if cell.lower() in _TRUTH:
            return CellKind.TRUTH
        return CellKind.NUMBER if moment(cell) is None else CellKind.TIME

    def _seconds(self, cell: str) -> float | None:
        found = moment(cell)
        if found is None:
            return None
        if self.origin is None:
            self.origin = found
        if (found.tzinfo is None) is not (self.origin.tzinfo is None):
            return None
        return (found - self.origin).total_seconds()


def moment(cell: str) -> datetime | None:
    """The moment that a cell names as ISO 8601 has it, a date with or without a time, or a time alone; else None.

    >>> moment("2024-01-31T12:30"), moment("31/01/2024")
    (datetime.datetime(2024, 1, 31, 12, 30), None)
    """
    if _TIME.fullmatch(cell):
        cell = _DAY + cell.rjust(8 if cell.count(":") == 2 else 5, "0")
    elif not _DATE.fullmatch(cell):
        return None
    try:
        return datetime.fromisoformat(cell)
    except ValueError:
        return None


def number(cell: str, decimal: str = ".") -> float | None:
    """The number that a cell holds; None if it holds none. What Python reads but files do not mean (`1_0`) is none.

    >>> number("2.5e3"), number("1_0"), number("two"), number("2,5", ",")
    (2500.0, None, None, 2.5)
    """
    if not cell.isascii() or "_" in cell:
        return None
    if decimal != ".":
        if "." in cell:
            return None
        cell = cell.replace(decimal, ".")
    try:
        return float(cell)
    except ValueError:
        return None


def is_absent(cell: str) -> bool:
    """Whether a cell says that there is no value; nan is one."""
    return cell in MISSING and number(cell) is None


def _decimals(cell: str, decimal: str) -> str:
    _, mark, digits = cell.partition(decimal)
    return "." + digits if mark else ""


def is_broken(cell: str) -> bool:
    """Whether it has bytes that are not UTF-8, which were read as surrogates.

    >>> is_broken("caf\\udce9"), is_broken("café")
    (True, False)
    """
    return not cell.isascii() and any("\udc80" <= character <= "\udcff" for character in cell)


def shown(cell: str) -> str:
    """A cell as a message shows it.

    >>> print(shown("two"))
    "two"
    """
    if is_broken(cell):
        return "text that is not UTF-8"
    return f'"{cell}"' if len(cell) <= 40 else f'"{cell[:39]}…"'


def counted(cells: int) -> str:
    """How many cells there are, in words.

    >>> counted(1), counted(2)
    ('1 cell', '2 cells')
    """
    return "1 cell" if cells == 1 else f"{cells} cells"

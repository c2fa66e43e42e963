"""What a cell of a text says."""

from __future__ import annotations

# What stands for no value: a blank, or what spreadsheets, R and pandas write.
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL")


def number(cell: str) -> float | None:
    """The number that a cell holds; None if it holds none. What Python reads but files do not mean (`1_0`) is none.

    >>> number("2.5e3"), number("1_0"), number("two")
    (2500.0, None, None)
    """
    if not cell.isascii() or "_" in cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return None


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

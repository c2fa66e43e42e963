"""How a text of columns is written: what separates its cells, its decimal mark, its comments and its header.

What nobody says is seen in the first lines. Names that nobody wrote are `c1`, `c2` and so on.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from autodiff_cli.data.cells import DataError, is_broken, number

BLANKS = " "  # the delimiter that stands for any run of blanks and tabs
HASH = "#"  # begins lines of comment before the header, also if nobody says so
_LOOKED_AT = 5  # records after the first that say how a text is written
_MOST_LINES = 1000  # of a header
_BOM = b"\xef\xbb\xbf"
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+(?:[eE][+-]?\d+)?\s*")
_GROUPS = re.compile(r"\s*[+-]?\d{1,3}(?:\.\d{3})+\s*")  # thousands, where there are decimal commas
_NAMES = {",": "commas", "\t": "tabs", ";": "semicolons", BLANKS: "blanks"}
_WORDS = {"space": BLANKS, "tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """What is said of how a text is written.

    Attributes:
        delimiter: what separates the cells: a character, or its name (`space`, which is any run of blanks; `tab`);
            None if that is to be seen in the first lines.
        decimal: the mark before decimals, `.` or `,`; None likewise.
        comment: what lines begin with that are left out, wherever they stand.
        no_header: whether the first line has values already.

    Raises:
        DataError: for what cannot be meant.
    """

    delimiter: str | None = None
    decimal: str | None = None
    comment: str | None = None
    no_header: bool = False

    def __post_init__(self) -> None:
        for option, given in (("--delimiter", self.delimiter), ("--comment", self.comment)):
            if given is not None and is_broken(given):
                raise DataError(f"{option} takes text in UTF-8")
        if self.delimiter is not None:
            object.__setattr__(self, "delimiter", _WORDS.get(self.delimiter, self.delimiter))
            if len(self.delimiter) != 1 or self.delimiter in '"\r\n':
                raise DataError(f"--delimiter takes one character, or `space` or `tab`, not `{self.delimiter}`")
        if self.decimal not in (None, ".", ","):
            raise DataError(f"--decimal takes . or , and not `{self.decimal}`")
        if self.decimal is not None and self.decimal == self.delimiter:
            raise DataError(f"--decimal and --delimiter cannot both be `{self.decimal}`")
        if self.comment is not None and (not self.comment.strip() or "\n" in self.comment):
            raise DataError("--comment takes the characters that lines of comment begin with, as #")


class Opening(NamedTuple):
    """The beginning of a text, and how it is written.

    Attributes:
        header: the names of the columns.
        delimiter: what separates the cells.
        decimal: the mark before decimals.
        comment: what lines of comment begin with among the rows; empty where there are none.
        lines: how many lines come before the rows.
        first: the first row, where it has been read already.
        notes: what was seen that nobody said, as sentences.
    """

    header: tuple[str, ...]
    delimiter: str
    decimal: str
    comment: str
    lines: int
    first: bytes
    notes: tuple[str, ...]

    @property
    def separator(self) -> str:
        """What separates the cells, in words."""
        return _NAMES.get(self.delimiter, f"`{self.delimiter}`")

    @property
    def options(self) -> tuple[str, ...]:
        """The options that say how it is written."""
        word = {mark: name for name, mark in _WORDS.items() if name != "\\t"}.get(self.delimiter, self.delimiter)
        found = [] if self.delimiter == "," else [f"--delimiter {word}"]
        if self.decimal != ".":
            found.append(f"--decimal {self.decimal}")
        if self.comment:
            found.append(f"--comment '{self.comment}'")
        return (*found, *(["--no-header"] if self.first and self.header[:1] == ("c1",) else []))


def opened(stream: BinaryIO, dialect: Dialect, look_ahead: bool) -> Opening:
    """Read the beginning of a text.

    Args:
        look_ahead: whether rows may be read to see how they are written; they are gone from the stream then.

    Raises:
        DataError: if it has none, or no names; the message lacks the name of the file.
    """
    comments, record, lines = _beginning(stream, dialect)
    if not record:
        raise DataError("the file is empty")
    text = _decoded(record, lines)
    following = _following(stream, dialect.comment) if look_ahead else []
    delimiter = dialect.delimiter or _delimiter(text, following)
    decimal = dialect.decimal or _decimal(text, following, delimiter)
    cells, notes = split(text, delimiter), []
    if comments:
        said = "line of comment was" if len(comments) == 1 else "lines of comment were"
        notes.append(f"{len(comments)} {said} skipped")
    named = split(comments[-1].lstrip(dialect.comment or HASH).strip(), delimiter) if comments else []
    are_values = [number(cell.strip(), decimal) is not None for cell in cells]
    is_row = dialect.no_header or (any(are_values) and len(named) == len(cells))
    if dialect.no_header:
        header = [f"c{k}" for k in range(1, len(cells) + 1)]
    elif is_row:
        header = [name.strip() for name in named]
        notes.append("the last of them names the columns")
    elif all(are_values):
        raise DataError(
            "the first line holds numbers; it must hold the names of the columns (--no-header names them c1, c2, …)"
        )
    else:
        header = cells
    if dialect.delimiter is None and delimiter not in ",\t" and len(cells) > 1:
        notes.append(f"the columns are separated by {_NAMES[delimiter]}")
    if dialect.decimal is None and decimal != ".":
        notes.append("numbers have decimal commas")
    return Opening(
        tuple(header),
        delimiter,
        decimal,
        dialect.comment or "",
        lines - 1 - record.count(b"\n", 0, -1) if is_row else lines,
        record if is_row else b"",
        tuple(notes),
    )


def split(record: str, delimiter: str) -> list[str]:
    """The cells of a record.

    >>> split('a "b  c" d', BLANKS), split("a;b", ";")
    (['a', 'b  c', 'd'], ['a', 'b'])
    """
    if delimiter == BLANKS:
        record = record.replace("\t", " ").strip()
    return next(csv.reader([record], delimiter=delimiter, skipinitialspace=delimiter == BLANKS), [])


def _beginning(stream: BinaryIO, dialect: Dialect) -> tuple[list[str], bytes, int]:
    """The lines of comment, the first record after them, which may have line ends within quotes, and how many lines
    that are in all. Raises DataError where a quote is never closed."""
    mark = (dialect.comment or HASH).encode()
    comments: list[str] = []
    lines = 0
    for line in iter(stream.readline, b""):
        lines += 1
        if line.removeprefix(_BOM).lstrip().startswith(mark):
            comments.append(line.removeprefix(_BOM).decode("utf-8", "replace").strip())
        elif line.strip(_BOM + b"\r\n"):
            record = _whole(line, stream, dialect.delimiter, lines)
            return comments, record, lines + record.count(b"\n", 0, -1)
    return comments, b"", lines


def _whole(line: bytes, stream: BinaryIO, delimiter: str | None, number: int) -> bytes:
    """The record that begins with a line of this number. Raises DataError where a quote is not closed."""
    record, more = bytearray(line), line
    for _ in range(_MOST_LINES):
        if b'"' not in record or (b'"' in more and not _has_open_quote(record.removeprefix(_BOM), delimiter)):
            return bytes(record)
        more = stream.readline()
        record += more
        if not more:
            break
    raise DataError(f"line {number}: a quote opens in the names of the columns and is never closed")


def _has_open_quote(record: bytearray, delimiter: str | None) -> bool:
    """Whether a cell begins with a quote that is not closed."""
    marks = (delimiter or "".join(mark for mark in ",;\t" if mark.encode() in record) or BLANKS).encode()
    quoted = rb'(?:^|[%s])"[^"]*(?:""[^"]*)*("?)' % re.escape(marks + b"\t" if marks == BLANKS.encode() else marks)
    return any(not found[1] for found in re.finditer(quoted, record))


def _decoded(record: bytes, line: int) -> str:
    try:
        return record.decode("utf-8").strip("\ufeff\r\n")
    except UnicodeDecodeError:
        raise DataError(f"line {line} is not UTF-8 text; save the file as UTF-8") from None


def _following(stream: BinaryIO, comment: str | None) -> list[str]:
    """A few more records, as text."""
    lines = (line.decode("utf-8", "replace").strip("\r\n") for line in iter(stream.readline, b""))
    kept = (line for line in lines if line.strip() and not (comment and line.lstrip().startswith(comment)))
    return list(itertools.islice(kept, _LOOKED_AT))


def _delimiter(first: str, following: Sequence[str]) -> str:
    """What separates the cells: of what can, whatever gives all records equally many."""
    for delimiter in _candidates(first):
        count = len(split(first, delimiter))
        if count > 1 and all(len(split(line, delimiter)) == count for line in following):
            return delimiter
    if "," in first or not following:
        return "," if "," in first or "\t" not in first else "\t"
    count = len(split(first, BLANKS))
    if "\t" not in first and count > 1 and all(len(split(line, BLANKS)) == count for line in following):
        return BLANKS
    return "\t" if "\t" in first else ";" if ";" in first else ","


def _candidates(first: str) -> Iterator[str]:
    if ";" in first and not any(mark in first.replace(";", "") for mark in "\t"):
        yield ";"
    if "," in first:
        yield ","
    if "\t" in first:
        yield "\t"


def _decimal(first: str, following: Sequence[str], delimiter: str) -> str:
    """The mark before decimals: a comma, if there are such numbers and none with a point."""
    if delimiter == ",":
        return "."
    cells = [cell for line in (first, *following) for cell in split(line, delimiter)]
    has_points = any("." in cell and not _GROUPS.fullmatch(cell) and number(cell.strip()) is not None for cell in cells)
    return "," if not has_points and any(_DECIMAL_COMMA.fullmatch(cell) for cell in cells) else "."

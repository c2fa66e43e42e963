"""Dialects of text files of data, and the parsing of their cells.

This module parses single cells: numbers, yes or no, dates and times. It detects the dialect of a text file from its
first lines: its delimiter, decimal mark, comments and header. It also has the options that set the dialect. It is
imported at every start of the command line, so it does not import NumPy.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import itertools
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import BinaryIO, cast

from autodiff_cli.language.errors import InputError, join_words, pluralize
from autodiff_cli.language.lexer import canonical_name, split_assignment
from autodiff_cli.options import as_list, at_least, check_fields, option

# Cells that count as missing: an empty one, and the marks that spreadsheets, R and pandas write.
MISSING_VALUES = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL")

BOOLEANS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
_DATE_PATTERN = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?")
_BEYOND_MICROSECONDS = re.compile(r"[T :]\d+[.,]\d{6}(\d{0,11}[1-9])")  # with the digits that `datetime` drops
_TIME_PATTERN = re.compile(r"\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?")
_OTHER_DATE = re.compile(
    r"(?!\d{4}-\d\d-\d\d(?: \d\d|$))"  # no date in ISO 8601
    r"(\d{1,2}(?=.*[/. -]\d\d(?:\d\d)?(?: |$))|\d{4})([/. -])(\d{1,2}|[A-Za-z]{3})\2(\d{4}|\d{1,2})"
    r"( \d{1,2}:\d\d(?::\d\d)?)?"
)
# Labels such as 12D4 have neither a point nor a sign.
_FORTRAN_NUMBER = re.compile(r"\s*[+-]?((\d+\.\d*|\.\d+)[dD][+-]?|\d+[dD][+-])\d+\s*")
_NONZERO_NUMBER = re.compile(r"[-+.,0]*[1-9]")
_DATE_WORDS = {"YYYY": "%Y", "YY": "%y", "MMM": "%b", "MM": "%m", "M": "%m", "DD": "%d", "D": "%d"}
_DATE_WORDS |= {"hh": "%H", "HH": "%H", "mm": "%M", "ss": "%S"}
# The date of times without one: only their differences are used, and no data have such an early date.
NO_DATE = datetime(2, 1, 1)
_THOUSANDS_PATTERNS = {
    ".": re.compile(r"[+-]?[1-9]\d{0,2}(?:([, '\u00a0\u2009\u202f])\d{3})(?:\1\d{3})*(?:\.\d*)?"),
    ",": re.compile(r"[+-]?[1-9]\d{0,2}(?:([. '\u00a0\u2009\u202f])\d{3})(?:\1\d{3})*(?:,\d*)?"),
}


class DataError(InputError):
    """Data that cannot be used. The message says where the problem is and what the file has there.

    Attributes:
        missing: whether all problems are cells that are empty, nan or infinite, so that dropping rows would solve them.
        text_columns: the columns that should hold numbers and have labels, with one of their texts each; a text that
            begins as a number does, such as `5 %`, is no label.

    >>> import autodiff_cli as ad
    >>> ad.fit("y ~ a*x", {"x": [1, 2], "y": [1, float("nan")]})
    Traceback (most recent call last):
        ...
    autodiff_cli.data.dialect.DataError: row 2, column `y`: nan
    """

    def __init__(
        self, message: str, *, missing: bool = False, text_columns: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init__(message)
        self.missing = missing
        self.text_columns = {name: text for name, text in text_columns.items() if not re.match(r"\W*\d", text)}


class CellKind(Enum):
    """The kind of value that a column holds. The value of a member is its description in messages."""

    NUMBER = "a number"
    BOOLEAN = "yes or no, true or false"
    DATETIME = "a date or a time like the first one"


class CellParser:
    """Parses the cells of one column as numbers. The first cell that is not missing decides the kind of the column.

    Args:
        decimal: the decimal mark, `.` or `,`; None for a point where a comma may be one, too. Then `1,234` is not a
            number.
        date_format: the format of dates besides ISO 8601, as `strptime` takes it.

    Attributes:
        decimal: the decimal mark.
        detected_decimal: the decimal mark that the first rows of the file have; None if that is unknown.
        kind: the kind of the column; None until a cell has been parsed.
        is_comma_ambiguous: whether the comma of `1,234` may be a decimal mark.
        origin: the time from which dates and times are counted; by default the first cell's.
        number_note: a sentence on how a number was converted, if it had thousands separators or was beyond all floats.

    >>> reader = CellParser()
    >>> reader.parse("2024-01-31"), reader.parse("2024-02-01 12:00"), reader.parse("3")
    (0.0, 129600.0, None)
    """

    def __init__(
        self, decimal: str | None = ".", date_format: str | None = None, origin: datetime | None = None
    ) -> None:
        self.decimal, self._date_format, self.origin = decimal or ".", date_format, origin
        self.detected_decimal: str | None = None
        self.is_comma_ambiguous = decimal is None
        self.kind: CellKind | None = None
        self.number_note: str | None = None

    def parse(self, cell: str) -> float | None:
        """Return the number that a cell stands for: nan if it is missing, None if it does not fit the kind of the
        column."""
        if cell in MISSING_VALUES:
            return math.nan
        self.kind = self.kind or self._detect_kind(cell)
        if self.kind is CellKind.BOOLEAN:
            return BOOLEANS.get(cell.lower())
        if self.kind is CellKind.DATETIME:
            return self._parse_seconds(cell)
        value = parse_number(cell, self.decimal)
        is_ambiguous = self.is_comma_ambiguous and has_decimal_comma(cell)
        if value is None and not is_ambiguous and _THOUSANDS_PATTERNS[self.decimal].fullmatch(cell):
            self.number_note = "thousands separators were removed"
            return float(re.sub(f"[^-+0-9{self.decimal}]", "", cell).replace(self.decimal, "."))
        if value is not None and is_beyond_floats(cell, value):
            size = "large" if value else "small"
            self.number_note = f"{quoted_cell(cell)} is too {size} for a float and is read as {value:g}"
        return value

    def label(self, cell: str) -> str:
        """Return the label of a cell; see `label_text`."""
        return label_text(self.plain_text(cell), self._date_format)

    def plain_text(self, cell: str) -> str:
        """Return a cell as text; a number has a decimal point, and no thousands separators if the file has commas.

        >>> [CellParser(",").plain_text(cell) for cell in ("1.234,5", "1 234,5")], CellParser().plain_text("1,234.5")
        (['1234.5', '1234.5'], '1,234.5')
        """
        if self.decimal == "," and is_number(cell, ","):
            return re.sub(r"[. '\u00a0\u2009\u202f]", "", cell).replace(",", ".")
        return cell

    def note(self) -> str | None:
        """Return a sentence on how the column was converted to numbers; None for plain numbers."""
        if self.kind is CellKind.DATETIME and self.origin is not None:
            return f"dates and times are seconds since {time_text(self.origin)}"
        return "yes and true are 1, no and false are 0" if self.kind is CellKind.BOOLEAN else self.number_note

    def _detect_kind(self, cell: str) -> CellKind:
        """Return the kind of a column whose first cell this is."""
        if cell.lower() in BOOLEANS:
            return CellKind.BOOLEAN
        return CellKind.NUMBER if parse_datetime(cell, self._date_format) is None else CellKind.DATETIME

    def _parse_seconds(self, cell: str) -> float | None:
        """Return the seconds since the origin.

        Returns None for a cell that is not a time, or that `counts_from` refuses.
        """
        time = parse_datetime(cell, self._date_format)
        if time is None or not self.counts_from(time):
            return None
        beyond = _BEYOND_MICROSECONDS.search(cell)
        microseconds = (time - cast(datetime, self.origin)) // timedelta(microseconds=1)
        return (microseconds * 10**12 + int(f"{beyond[1] if beyond else '':0<12}")) / 10**18

    def counts_from(self, time: datetime) -> bool:
        """Return whether a time can be counted from the origin, which is this time if it is not set.

        Either both or neither must have a date, and a time zone.
        """
        origin = self.origin = self.origin or time
        return len({(each.year == NO_DATE.year, each.tzinfo is None) for each in (time, origin)}) == 1


def time_text(time: datetime) -> str:
    """Return a date and time as text, or only the time of day if it has no date."""
    return time.isoformat(" ").removeprefix(f"{NO_DATE.date()} ")


def parse_datetime(cell: str, date_format: str | None = None) -> datetime | None:
    """Return the time in a cell in a given format or ISO 8601: a date with or without a time, or a time alone.

    Return None for other text.

    >>> parse_datetime("2024-01-31T12:30"), parse_datetime("31/01/2024")
    (datetime.datetime(2024, 1, 31, 12, 30), None)
    >>> parse_datetime("31/01/2024", "%d/%m/%Y")
    datetime.datetime(2024, 1, 31, 0, 0)
    """
    if date_format is not None:
        with contextlib.suppress(ValueError, re.error):  # re.error: the same directive twice
            return datetime.strptime(cell, date_format)
    if _TIME_PATTERN.fullmatch(cell):
        cell = f"{NO_DATE.date()} " + cell.rjust(8 if cell.count(":") == 2 else 5, "0")
    elif not _DATE_PATTERN.fullmatch(cell):
        return None
    try:
        return datetime.fromisoformat(cell)
    except ValueError:
        return None


def label_text(cell: str, date_format: str | None = None) -> str:
    """Return the text of a label: the same in all notations of a time or of `true` and `false`, otherwise the cell.

    >>> [*map(label_text, ("2024-01-31T12:30", "2024-01-31 00:00:00.000", "3:04:05", "True", "Yes", "1:10"))]
    ['2024-01-31 12:30:00', '2024-01-31', '03:04:05', 'true', 'Yes', '1:10']
    """
    if cell.lower() in ("true", "false"):
        return cell.lower()
    time = parse_datetime(cell, date_format)
    if time is None or _BEYOND_MICROSECONDS.search(cell) or re.fullmatch(r"\d+:\d+", cell):  # 1:10 may be a ratio
        return cell
    return str(time.time()) if _TIME_PATTERN.fullmatch(cell) else str(time).removesuffix(" 00:00:00")


def parse_number(cell: str, decimal: str = ".") -> float | None:
    """Return the number in a cell, or None.

    Notation of Python that data files do not use (`1_0`) is not a number, but Fortran's double precision is.

    >>> parse_number("2.5e3"), parse_number("1_0"), parse_number("two"), parse_number("2,5", ",")
    (2500.0, None, None, 2.5)
    >>> parse_number("1.5D+01")
    15.0
    """
    cell = cell.replace("−", "-")
    if not cell.isascii() or "_" in cell:
        return None
    if decimal != ".":
        if "." in cell:
            return None
        cell = cell.replace(decimal, ".")
    if _FORTRAN_NUMBER.fullmatch(cell):
        cell = cell.replace("D", "e").replace("d", "e")
    try:
        return float(cell)
    except ValueError:
        return None


def is_number(cell: str, decimal: str) -> bool:
    """Return whether a cell is a number, perhaps with thousands separators."""
    return parse_number(cell, decimal) is not None or _THOUSANDS_PATTERNS[decimal].fullmatch(cell) is not None


def has_decimal_comma(cell: str) -> bool:
    """Return whether a cell is a number with a comma, if that is a decimal mark."""
    return "," in cell and is_number(cell, ",")


def is_beyond_floats(cell: str, value: float) -> bool:
    """Return whether a cell is a number so small that its value is 0, or so large that it is infinite.

    >>> is_beyond_floats("1e-400", 0), is_beyond_floats("1e999", math.inf), is_beyond_floats("inf", math.inf)
    (True, True, False)
    """
    return (value == 0 or math.isinf(value)) and _NONZERO_NUMBER.match(cell) is not None


def is_missing(cell: str) -> bool:
    """Return whether a cell marks a missing value. The text `nan` does not count: it is a number."""
    return cell in MISSING_VALUES and parse_number(cell) is None


def has_invalid_utf8(cell: str) -> bool:
    """Return whether a text has bytes that are not UTF-8, which were decoded as surrogates.

    >>> has_invalid_utf8("caf\\udce9"), has_invalid_utf8("café")
    (True, False)
    """
    return not cell.isascii() and any("\udc80" <= character <= "\udcff" for character in cell)


def quoted_cell(cell: str) -> str:
    """Return a cell in quotes for a message, shortened to 40 characters.

    >>> print(quoted_cell("two"))
    "two"
    """
    if has_invalid_utf8(cell):
        return "text that is not UTF-8 (see --encoding)"
    return f'"{cell}"' if len(cell) <= 40 else f'"{cell[:39]}…"'


def describe_bad_cell(cell: str, parser: CellParser) -> str:
    """Return the problem of a cell that does not fit its column, in words."""
    hint = ""
    if date := _OTHER_DATE.fullmatch(cell):
        first, mark, second, last, time = date.groups("")
        month = int(second) if second.isdigit() else 0
        is_american = month and int(first) <= 12 and (mark != "." or month > 12)
        days = ("DD", "MM" if month else "MMM", "Y" * max(len(first), len(last)))
        orders = [days[::-1] if len(first) == 4 else days] * (month <= 12) + [("MM", "DD", days[2])] * bool(is_american)
        end = f" {'hh:mm:ss'[: 2 + 3 * time.count(':')]}" if time else ""
        forms = (mark.join(words) + end for words in orders)
        texts = [f'"{form}"' if " " in form else form for form in forms]
        hint = f"; if it is a date, say so: --date-format {join_words(texts, 'or')}" if texts else ""
    elif cell.startswith(DEFAULT_COMMENT) and not re.fullmatch("#[A-Z0/]+[!?]", cell):  # an error of a spreadsheet
        hint = f"; --comment '{DEFAULT_COMMENT}' skips such lines"
    elif parser.kind is CellKind.NUMBER and parser.detected_decimal not in (None, parser.decimal):
        hint = f"; leave out --decimal {parser.decimal}: numbers of this file have `{parser.detected_decimal}`"
    elif parser.is_comma_ambiguous and parser.kind is CellKind.NUMBER and has_decimal_comma(cell):
        hint = "; if it has a decimal comma, say so: --decimal , (or . for thousands)"
    if is_missing(cell):
        return f"{cell or 'empty'}; --where can leave out such rows"
    return f"{quoted_cell(cell)} is not {(parser.kind or CellKind.NUMBER).value}{hint}"


# --- Dialects of text


WHITESPACE = " "  # as a delimiter: any run of blanks and tabs
DEFAULT_COMMENT = "#"  # starts comment lines before the header, unless the user sets another mark
_SAMPLE_RECORDS = 5  # records after the header: enough to tell delimiters apart, few enough to read from a pipe
_MAX_HEADER_LINES = 1000  # a header with more quoted line ends has a quote that was never closed
_COMMA_BETWEEN_DIGITS = re.compile(r"[+-]?\d[\d.,]*\d(?:[eEdD][+-]?\d+)?")
_MARKS = ",\t;|"  # delimiters, likeliest first, if none splits all records evenly
DELIMITER_NAMES = {"\t": "tabs", ";": "semicolons", "|": "vertical bars", ",": "commas", WHITESPACE: "blanks"}
_DELIMITER_WORDS = {"space": WHITESPACE, "\\t": "\t", "tab": "\t", "comma": ",", "semicolon": ";"}


# --- Options of files

_option = partial(option, group="Data")


@dataclass(frozen=True)
class FileOptions:
    """The options with which data files are read, as `read_data` takes them.

    Attributes:
        delimiter: the delimiter of cells in text: a character, `space` for any run of blanks and tabs, or `tab`.
        decimal: the decimal mark of text, `.` or `,`.
        comment: the text that starts a comment line, anywhere in the file.
        no_header: whether the file has no header; columns are then called `c1`, `c2`, ….
        skip: the number of lines before the header, or the first row, to leave out.
        units_row: whether the row below the header holds units.
        date_format: the format of dates besides ISO 8601, such as `DD/MM/YYYY` or `%d/%m/%Y`.
        encoding: the encoding of text.
        column: new names for columns: a mapping from new to original names, or texts such as `NAME=Original`.
        where: an expression; rows for which it is false are dropped.
        sheet: the sheet of a workbook; by default the first one.

    The delimiter, the decimal mark and the encoding are detected if they are None.

    Raises:
        DataError: for values that contradict each other or are not allowed.

    >>> FileOptions(column={"y": "Signal (mV)"}).renamed_columns
    {'Signal (mV)': 'y'}
    """

    delimiter: str | None = _option("--delimiter CHAR|space", "Column separator (default: detected).")
    decimal: str | None = _option("--decimal .|,", "Decimal mark (default: detected).")
    comment: str | None = _option("--comment CHAR", "Skip lines that begin with CHAR.")
    no_header: bool = _option("--no-header", "Treat the first line as data; columns are named c1, c2, ...")
    skip: int = _option("--skip N", "Skip the first N lines.", at_least(0), default=0)
    units_row: bool = _option("--units-row", "Read the row below the header as units.")
    date_format: str | None = _option("--date-format FORMAT", "Date format, such as DD/MM/YYYY (default: ISO 8601).")
    encoding: str | None = _option("--encoding NAME", "Encoding of text, such as latin-1 (default: detected).")
    column: Mapping[str, str] | list[str] | None = _option('--column NAME="Original"', "Rename a column.", repeats=True)
    where: str | None = _option("--where CONDITION", "Use only rows that satisfy CONDITION, such as t>0.")

    sheet: str | None = _option("--sheet NAME", "Sheet of a workbook (default: the first).")

    def __post_init__(self) -> None:
        check_fields(self)
        if self.units_row and self.no_header:
            raise DataError("--units-row needs a header, so it cannot be combined with --no-header")
        if self.date_format is not None:
            pattern = written = self.date_format
            if "%" not in pattern:
                pattern = re.sub("|".join(_DATE_WORDS), lambda word: _DATE_WORDS[word.group()], pattern)
                pattern = "" if re.search(r"(?<!%)[^\W\d_TZ]", pattern) else pattern
            object.__setattr__(self, "date_format", pattern)
            if parse_datetime(datetime(2003, 2, 1).strftime(pattern), pattern) is None or "%" not in pattern:
                raise DataError(f"--date-format is a format such as DD/MM/YYYY or %d/%m/%Y, not `{written}`")
        try:
            "".encode("utf-8" if self.encoding is None else self.encoding)  # encodings such as base64 are not of text
        except (LookupError, ValueError):
            raise DataError(f"--encoding: there is no encoding `{self.encoding}`") from None
        for flag, text in (("--delimiter", self.delimiter), ("--comment", self.comment)):
            if text is not None and has_invalid_utf8(text):
                raise DataError(f"{flag} takes UTF-8 text")
        if self.delimiter is not None:
            object.__setattr__(self, "delimiter", _DELIMITER_WORDS.get(self.delimiter, self.delimiter))
            if len(self.delimiter) != 1 or self.delimiter in '"\r\n':
                raise DataError(f"--delimiter takes one character, or `space` or `tab`, not `{self.delimiter}`")
        if self.decimal not in (None, ".", ","):
            raise DataError(f"--decimal takes `.` or `,`, not `{self.decimal}`")
        if self.decimal is not None and self.decimal == self.delimiter:
            raise DataError(f"--decimal and --delimiter cannot both be `{self.decimal}`")
        if self.comment is not None and (not self.comment.strip() or "\n" in self.comment):
            raise DataError("--comment takes the text that starts a comment line, such as #")
        _ = self.renamed_columns

    @property
    def renamed_columns(self) -> dict[str, str]:
        """The new names of columns, by the names in the file."""
        new_names: dict[str, str] = {}
        names = self.column
        words = [f"{new}={old}" for new, old in names.items()] if isinstance(names, Mapping) else as_list(names)
        for word in words:
            name, equals, original = split_assignment(str(word))
            name, original = canonical_name(name), canonical_name(original.strip().strip('"'))
            if not (equals and name and original):
                raise DataError(f'--column takes NAME="Original", not `{word}`')
            if name in new_names.values():
                raise DataError(f"--column: two columns are renamed to `{name}`")
            if original in new_names:
                raise DataError(f"--column: `{original}` has two new names, `{new_names[original]}` and `{name}`")
            new_names[original] = name
        return new_names


DEFAULT_FILE_OPTIONS = FileOptions()  # everything is detected


# --- Detection of dialects


class DetectedDialect:
    """The dialect of a text file and its header, read from the first lines.

    Args:
        stream: the text.
        dialect: the properties that the user sets.
        look_ahead: whether the next rows may be read to detect the dialect; otherwise only buffered rows are used.

    Attributes:
        header: the names of the columns.
        delimiter: the delimiter of cells.
        decimal: the decimal mark.
        detected_decimal: the decimal mark that the first rows have; None if they have none.
        certain_decimal: the decimal mark; None if it is a point only because the first rows have no decimals.
        comment: the text that starts a comment line among the rows; empty for none.
        header_lines: the number of lines before the rows.
        first_row: the first row, if it had to be read to find the header.
        notes: sentences on the detected properties.
        units: the unit of each column, if a row states them.

    Raises:
        DataError: if the file is empty or has no column names. The message lacks the name of the file.
    """

    def __init__(self, stream: io.BufferedReader, dialect: FileOptions, look_ahead: bool) -> None:
        comments, record, lines = _read_header(stream, dialect)
        if not record:
            raise DataError("the file is empty" if not dialect.skip else f"there is nothing after {dialect.skip} lines")
        text = _decode_header(record, lines)
        units_line = stream.readline() if dialect.units_row else b""
        units_record = _complete_record(units_line, stream, dialect.delimiter, lines + 1)
        ahead = stream if look_ahead else io.BytesIO(stream.peek().rpartition(b"\n")[0])
        sample = _sample_lines(ahead, dialect.comment)
        text = _name_all_columns(text, sample, dialect.delimiter)
        self.delimiter = delimiter = dialect.delimiter or _detect_delimiter(text, sample)
        self.detected_decimal = _detect_decimal(text, sample, delimiter)
        self.certain_decimal = dialect.decimal or self.detected_decimal
        self.decimal = self.certain_decimal or "."
        self.comment = dialect.comment or ""
        were = "was" if len(comments) == 1 else "were"
        self.notes = [f"{pluralize(len(comments), 'comment line')} {were} skipped"] if comments else []
        last_comment = comments[-1].lstrip(dialect.comment or DEFAULT_COMMENT).strip() if comments else ""
        commented_names = split_record(last_comment, delimiter)
        self.header = split_record(text, delimiter)
        # Empty cells at the end count neither in the header nor in the rows.
        rows = (self.header, *_split_lines(sample, delimiter)[-2:])
        own, *others = (max((n for n, cell in enumerate(row, 1) if cell), default=0) for row in rows)
        width = max(others, default=1)
        is_number = [parse_number(cell.strip(), self.decimal) is not None for cell in self.header]
        if own == 1 and width > 1 and not (dialect.no_header or any(is_number)):
            hint = "leave out the lines before the column names by --skip N"
            raise DataError(f"line {lines} has one cell, but the rows have {width}; {hint}")
        is_row = dialect.no_header or (any(is_number) and len(commented_names) == len(self.header))
        if dialect.no_header:
            self.header = [f"c{k}" for k in range(1, len(self.header) + 1)]
        elif is_row:
            self.header = [name.strip() for name in commented_names]
            self.notes.append("the column names come from the last comment line")
        elif any(is_number):
            hint = "use --no-header to name the columns c1, c2, …"
            values = [CellParser(self.decimal, dialect.date_format).parse(cell.strip()) for cell in self.header]
            if None not in values and self.header[0].strip():  # an empty first cell is above the names of rows
                raise DataError(f"the first line holds numbers, not column names; {hint}")
            self.notes.append(f"some column names on the first line are numbers; if that line is data, {hint}")
        if not all(map(str.strip, self.header[1:width])):
            self.notes.append("columns without a name are not read")
        self.units = [unit.strip() for unit in split_record(_decode_header(units_record, lines + 1), delimiter)]
        if self.units and (is_row or len(self.units) != len(self.header)):
            count = pluralize(len(self.units), "cell")
            raise DataError(f"line {lines + 1}: the row of units has {count}, the header {len(self.header)}")
        if dialect.delimiter is None and delimiter not in ",\t" and len(self.header) > 1:
            self.notes.append(f"the columns are separated by {DELIMITER_NAMES[delimiter]}")
        if dialect.decimal is None and self.decimal != ".":
            self.notes.append("numbers have decimal commas")
        self.first_row, self.header_lines = b"", lines + units_record.count(b"\n")
        if is_row:
            self.first_row, self.header_lines = record, lines - 1 - record.count(b"\n", 0, -1)

    @property
    def options(self) -> tuple[str, ...]:
        """The command-line options that set this dialect."""
        word = {mark: name for name, mark in _DELIMITER_WORDS.items()}.get(self.delimiter, shlex.quote(self.delimiter))
        options = [] if self.delimiter == "," else [f"--delimiter {word}"]
        options += [f"--decimal {self.decimal}"] * (self.decimal != ".")
        options += [f"--comment '{self.comment}'"] * bool(self.comment)
        return (*options, *(["--no-header"] if self.first_row and self.header[:1] == ["c1"] else []))


def split_record(record: str, delimiter: str) -> list[str]:
    """Return the cells of a record.

    >>> split_record('a "b  c" d', WHITESPACE), split_record("a;b", ";")
    (['a', 'b  c', 'd'], ['a', 'b'])
    """
    return next(iter(_split_lines([record], delimiter)), [])


def _split_lines(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """Return the cells of the records in some lines; a record has several lines if a quoted cell has line ends."""
    is_blank = delimiter == WHITESPACE
    lines = [line.replace("\t", " ").strip() for line in lines] if is_blank else lines
    return [row for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=is_blank) if row]


def _read_header(stream: BinaryIO, dialect: FileOptions) -> tuple[list[str], bytes, int]:
    """Read the comments and the first record, which may have quoted line ends.

    Returns the comments, the record, and the number of lines read. Raises DataError for a quote that is never closed.
    """
    mark = (dialect.comment or DEFAULT_COMMENT).encode()
    comments: list[str] = []
    lines = dialect.skip
    for _ in range(dialect.skip):
        stream.readline()
    for line in iter(stream.readline, b""):
        lines += 1
        line = line.removeprefix(codecs.BOM_UTF8)
        if line.lstrip().startswith(mark):
            comments.append(line.decode("utf-8", "replace").strip())
        elif line.strip(b"\r\n") and not (lines == 1 and re.fullmatch(rb"sep=.\s*", line)):  # of Excel
            record = _complete_record(line, stream, dialect.delimiter, lines)
            return comments, record, lines + record.count(b"\n", 0, -1)
    return comments, b"", lines


def _complete_record(line: bytes, stream: BinaryIO, delimiter: str | None, number: int) -> bytes:
    """Return the whole record that starts with a line, reading on while a quote is open.

    Raises DataError if it never closes.
    """
    record, addition = bytearray(line), line
    for _ in range(_MAX_HEADER_LINES):
        if b'"' not in record or (b'"' in addition and not _has_open_quote(record, delimiter)):
            return bytes(record)
        addition = stream.readline()
        record += addition
        if not addition:
            break
    raise DataError(f"line {number}: a quote that opens in the header is never closed")


def _has_open_quote(record: bytearray, delimiter: str | None) -> bool:
    """Return whether a cell starts with a quote that is not closed."""
    marks = (delimiter or "".join(mark for mark in _MARKS if mark.encode() in record) or WHITESPACE).encode()
    quoted = rb'(?:^|[%s])"[^"]*(?:""[^"]*)*("?)' % re.escape(marks + b"\t" if marks == WHITESPACE.encode() else marks)
    return any(not match[1] for match in re.finditer(quoted, record))


def _decode_header(record: bytes, line: int) -> str:
    """Return the header as text. Raises DataError if it is not UTF-8."""
    try:
        return record.decode("utf-8").strip("\r\n")
    except UnicodeDecodeError:
        raise DataError(f"line {line} is not UTF-8 text; save the file as UTF-8") from None


def _sample_lines(stream: BinaryIO, comment: str | None) -> list[str]:
    """Return the lines of the next few records as text."""
    lines = (line.decode("utf-8", "replace").strip("\r\n") for line in iter(stream.readline, b""))
    sample, records, has_open_quote = [], 0, False
    for line in itertools.islice(lines, _MAX_HEADER_LINES):
        if line.strip() and not (comment and line.lstrip().startswith(comment)):
            sample.append(line)
            has_open_quote ^= line.count('"') % 2 == 1
            records += not has_open_quote
        if records == _SAMPLE_RECORDS:
            break
    return sample


def _name_all_columns(header: str, sample: Sequence[str], delimiter: str | None) -> str:
    """Return the header of a table, with an empty name for the names of rows if it lacks one, as R's `write.table`
    writes it: names are in quotes, and those of rows are the first cells.
    """
    lines, marks = (header, *sample), [delimiter] if delimiter else [*DELIMITER_NAMES]
    is_quoted = all(line.startswith('"') for line in lines)
    for mark in marks if is_quoted and not any(_is_regular(mark, lines) for mark in marks) else ():
        named = f'""{mark}{header}'
        if sample and _is_regular(mark, (named, *sample)) and not any(line.endswith(mark) for line in sample):
            return named
    return header


def _detect_delimiter(first: str, sample: Sequence[str]) -> str:
    """Return the likeliest candidate that splits all records into the same number of cells, else the likeliest one."""
    records = (first, *sample)
    regular = [mark for mark in DELIMITER_NAMES if _is_regular(mark, records)]
    if regular == [",", WHITESPACE]:
        cells = (cell for row in _split_lines(records, WHITESPACE) for cell in row if "," in cell)
        regular = [WHITESPACE] if all(map(_COMMA_BETWEEN_DIGITS.fullmatch, cells)) else [","]
    if regular and (sample or regular != [WHITESPACE]):
        return regular[0]
    return next((mark for mark in _MARKS if mark in first), ",")


def _is_regular(delimiter: str, records: Sequence[str]) -> bool:
    """Return whether a delimiter splits all records into the same number of cells, at least two."""
    lines = "\n".join(records).split("\n")  # quotes that do not begin a cell may have line ends in the header
    counts = {*map(len, _split_lines(lines, delimiter))}
    return len(counts) == 1 and counts != {1}


def _detect_decimal(first: str, sample: Sequence[str], delimiter: str) -> str | None:
    """Return the decimal mark: a comma if some numbers have one and none has a point; None if no number has either."""
    cells = [cell.strip() for row in _split_lines((first, *sample), delimiter) for cell in row]
    pointed = [cell for cell in cells if is_number(cell, ".") and ("." in cell or cell.count(",") > 1)]
    has_points = not all(map(_THOUSANDS_PATTERNS[","].fullmatch, pointed))
    if delimiter == ",":  # a quoted 1,234 has thousands, a quoted 1,5 a decimal comma
        cells = [cell for cell in cells if not is_number(cell, ".")]
    has_commas = any(map(has_decimal_comma, cells))
    return "." if has_points or (not has_commas and delimiter == ",") else "," if has_commas else None

"""Dialects of real data files: delimiters, decimal commas, comments, dates, and names that are not identifiers."""

from __future__ import annotations

import encodings.aliases
import gzip
import io
import itertools
import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather, parquet

import autodiff_cli as ad
from autodiff_cli.data import source
from autodiff_cli.data.batches import ColumnQuery, MissingCells
from autodiff_cli.data.dialect import FileOptions
from autodiff_cli.data.files import DataFile, DataSource, DataSummary, open_data
from autodiff_cli.data.table import DataError
from tests.each import each
from tests.support import expect_refusal, run_cli

pytestmark = pytest.mark.usefixtures("size")


def opened(content: str | bytes, **options: object) -> DataSource:
    content = content.encode() if isinstance(content, str) else content
    return open_data(["-"], io.BytesIO(content), options=FileOptions(**options))  # type: ignore[arg-type]


def rows(file: DataSource, wanted: str) -> list[list[str]]:
    """Return the rows that a table of one column has as text."""
    blocks = file.iter_selected_rows(file.load({wanted}))
    return [row for cells in blocks for row in (cells if isinstance(cells, list) else cells.rows())]


DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": "   ", "|": "|"}


def column(file: DataSource, name: str) -> list[float]:
    return [float(x) for x in file.load({name}).columns[name]]


@each(
    ("content", "options", "expected"),
    [
        ("x|y\n1|2\n3|4\n", {"delimiter": "|"}, [2, 4]),
        ("x;y\n1,5;2,5\n3;4\n", {}, [2.5, 4]),
        ("x;y\n1;2,5\n3;4\n", {"decimal": ","}, [2.5, 4]),
        ("x\ty\n1\t2,5\n3\t4\n", {"delimiter": "tab"}, [2.5, 4]),
        ('x,y\n1,"-2,000.5"\n3,"1,234,567"\n', {}, [-2000.5, 1234567]),
        ("x;y\n1;1,234,567\n3;2,000\n", {}, [1234567, 2000]),
        ('x,y\n1,"-2,0005"\n3,"1,234"\n', {}, [-2.0005, 1.234]),
        ("x;y\n1,5;2.000,5\n3;-1.234.567\n", {}, [2000.5, -1234567]),
        ("x;y\n1;2 000\n3;4 500\n", {}, [2000, 4500]),
        ("% by hand\nx,y\n% half time\n1,2\n3,4\n% the end\n", {"comment": "%"}, [2, 4]),
        ("x  y\n1 2\n# no more\n3 4\n", {"comment": "#"}, [2, 4]),
        ("# x y\n1 2\n3 4\n", {}, [2, 4]),
        ("x,y\n1,yes\n3,no\n", {}, [1, 0]),
        ("x,y\n1,TRUE\n3,False\n", {}, [1, 0]),
        ('"first x" y\n1 2\n"3" 4\n', {"delimiter": "space"}, [2, 4]),
        ("x;y\n1;2.000,0\n3;4.500,0\n", {}, [2000, 4500]),
        ("x,y\n1,2.0D+00\n3,.4d1\n", {}, [2, 4]),
        ("x;y\n1;2,0D+00\n3;,4d1\n", {}, [2, 4]),
        ("x,y\n1,2D+00\n3,4D+00\n", {}, [2, 4]),
        ("device 7\n\nx,y\n1,2\n3,4\n", {"skip": 2}, [2, 4]),
        ("x,y\n1,2\n3,4\n5,6\n", {"skip": 2, "no_header": True, "column": ["y=c2"]}, [4, 6]),
        ("# by hand\nx,y\ns,mV\n1,2\n3,4\n", {"units_row": True}, [2, 4]),
        ("x,y\n1,13/02/2024\n3,14/02/2024 06:00\n", {"date_format": "DD/MM/YYYY"}, None),
        ("x,y\n1,13/02/24 10:59:58\n3,13/02/24 11:01:01\n", {"date_format": "DD/MM/YY hh:mm:ss"}, [0, 63]),
        *[(f"x{c}y\n1{c}2\n3{c}4\n", {"delimiter": word}, [2, 4]) for word, c in DELIMITERS.items()],
        ("x,y\n1,13/02/2024\n3,2024-02-14\n", {"date_format": "DD/MM/YYYY"}, [0, 86400]),
        ("x,y\n1,9/2/2024\n3,10/2/2024\n", {"date_format": "D/M/YYYY"}, [0, 86400]),
        ("x,y\n1,\u22122.5\n3,4\n", {}, [-2.5, 4]),  # the minus sign of typesetting
        ('"x" "y"\n"Mazda RX4" 1 2\n"Fiat 128" 3 4\n', {}, [2, 4]),  # names of rows, as R's write.table writes them
        ('"x","y"\n"a, b",1,2\n"c",3,4\n', {}, [2, 4]),
        ('"y";"x"\n"1";2,5;1\n"2";4;3\n', {"delimiter": ";"}, [2.5, 4]),
        ('"x","y"\n"a", 2\n"b", 4\n', {}, [2, 4]),
        ("x,y\n1,Feb 13 2024 10h\n3,Feb 13 2024 12h\n", {"date_format": "%b %d %Y %Hh"}, [0, 7200]),
    ],
)
def test_as_people_write_them(content: str, options: dict[str, Any], expected: list[float] | None) -> None:
    if expected is None:
        with pytest.raises(DataError, match="line 3, column `y`"):
            column(opened(content, **options), "y")
    else:
        assert column(opened(content, **options), "y") == expected


@each("place", range(12))
@each("delimiter", [";", "\t", "|"])
@each("cell", ["1,234", "-12,000", "0,5"])
def test_a_comma_has_the_same_meaning_in_every_row(cell: str, delimiter: str, place: int) -> None:
    """`1,234` was 1.234 in the first rows, but 1234 in later ones."""
    lines = [f"{row}{delimiter}{row}\n" for row in range(12)]
    lines[place] = f"{place}{delimiter}{cell}\n"
    content = f"x{delimiter}y\n" + "".join(lines)
    number = float(cell.replace(",", "."))
    assert column(opened(content, delimiter=delimiter, decimal=","), "y")[place] == number
    if place < 5:
        assert column(opened(content, delimiter=delimiter), "y")[place] == number
    else:
        message = f'line {place + 2}, column `y`: "{cell}" is not a number; if it has a decimal comma, say so'
        with pytest.raises(DataError, match=re.escape(message)):
            column(opened(content, delimiter=delimiter), "y")
    if cell != "0,5":
        assert column(opened(content, delimiter=delimiter, decimal="."), "y")[place] == float(cell.replace(",", ""))


@each("content", ['{"x": "1,5", "y": 2}\n', 'x,y\n"1,5",2.5\n', "x;y\n2.5;2\n1,5;2\n", "x;y\n2024-01-01;2\n1,5;2\n"])
def test_decimal_marks_are_suggested_only_where_they_help(content: str) -> None:
    with pytest.raises(DataError) as caught:
        column(opened(content), "x")
    assert "--decimal" not in str(caught.value)


@each("mark", [".", ","])
@each("delimiter", [";", "\t", "|"])
def test_a_decimal_mark_that_the_file_does_not_have_is_left_out_as_advised(mark: str, delimiter: str) -> None:
    numbers = [0.0, 1.25, 2.5, -3.75]
    content = f"x{delimiter}y\n" + "".join(f"{k}{delimiter}{x}\n".replace(".", mark) for k, x in enumerate(numbers))
    other = ",."[mark == ","]
    with pytest.raises(DataError, match=re.escape(f"leave out --decimal {other}")):
        column(opened(content, decimal=other), "y")
    assert column(opened(content), "y") == numbers


@each("text", ["<LOD", "5.2*", "n.d.", "-", "20%", "$3", "2 mg", "2±0.1"])
def test_a_cell_that_is_no_number_can_be_marked_as_missing_as_advised(text: str) -> None:
    """Not where the whole column is text."""
    content = f"x,y\n1,2.5\n2,{text}\n3,4\n"
    message = (
        f'line 3, column `y`: "{text}" is not a number\nwrite numbers without units or notes, and missing values as NA'
    )
    with pytest.raises(DataError, match=re.escape(message)):
        column(opened(content), "y")
    read = opened(content.replace(text, "NA")).load({"y"}, drop_missing=True)
    assert read.columns["y"].tolist() == [2.5, 4]
    with pytest.raises(DataError) as caught:
        column(opened(re.sub(",[^y]*?\n", f",{text}\n", content)), "y")
    assert "NA" not in str(caught.value)


LINES_OF_NOTES = st.lists(st.sampled_from(["# one", "two", "", ' "3"', "#4,5"]), min_size=1, max_size=3)


@given(st.lists(LINES_OF_NOTES, min_size=1, max_size=5), st.lists(st.booleans(), min_size=5, max_size=5))
def test_a_line_within_quotes_is_no_comment(notes: list[list[str]], has_comment: list[bool]) -> None:
    texts = ["x" + "\n".join(lines) for lines in notes]
    quoted = ['"{}"'.format(text.replace('"', '""')) for text in texts]
    content = "note,y\n" + "".join(
        f"{cell},{row}\n{'# not a row' * has_comment[row]}\n" for row, cell in enumerate(quoted)
    )
    table = opened(content, comment="#").load({"y"}, labels=["note"])
    assert table.columns["y"].tolist() == [*range(len(texts))]
    labels = table.labels["note"]
    assert [labels.values[code] for code in labels.codes] == [text.strip() for text in texts]
    bad_line = content.count("\n") + 1
    with pytest.raises(DataError, match=f"line {bad_line}, column `y`"):
        column(opened(content + "z,bad\n", comment="#"), "y")


def test_every_encoding_of_python_reads_text_or_is_refused() -> None:
    names = sorted(
        {*encodings.aliases.aliases.values(), "idna", "punycode", "undefined", "unicode_escape"} - {"mbcs", "oem"}
    )
    read = []
    for name in names:
        try:
            read += [name] * (column(opened(b"x,y\n1,2\n3,4\n", encoding=name), "y") == [2, 4])
        except DataError:
            continue
    assert {"ascii", "cp1252", "latin_1", "utf_8", "utf_7", "shift_jis"} <= {*read}
    assert {"base64_codec", "rot_13", "utf_16", "idna", "undefined"}.isdisjoint(read)


MARKS = [
    (decimal, thousands)
    for decimal, other in (".,", ",.")
    for thousands in ("", other, " ", "'", "\u00a0", "\u2009", "\u202f")
]


@given(
    st.lists(st.tuples(st.integers(-(10**7), 10**7), st.integers(0, 99)), min_size=1, max_size=5),
    st.sampled_from(MARKS),
    st.sampled_from([";", "\t", "|"]),
)
def test_decimal_marks_are_detected_among_thousands_separators(
    numbers: list[tuple[int, int]], marks: tuple[str, str], delimiter: str
) -> None:
    """`1 234,5` was text. `12,345` beside `1,234.5` was read as 12.345."""
    decimal, thousands = marks
    grouped = [f"{whole:,}".replace(",", thousands) for whole, _ in numbers]
    cells = [f"{whole}{decimal}{part:02}" for whole, (_, part) in zip(grouped, numbers, strict=True)]
    rows = map(delimiter.join, zip(cells, grouped, strict=True))
    file = opened("\n".join([f"x{delimiter}y", *rows]))
    assert column(file, "x") == [float(f"{whole}.{part:02}") for whole, part in numbers]
    assert column(file, "y") == [whole for whole, _ in numbers]


@each("cell", ["0,123", "-0,123", "0.123", "00,123", "0 123", "0,123,456", "01,234"])
def test_digits_after_a_leading_0_are_no_group_of_thousands(cell: str) -> None:
    for first in ("1,5", "1.5", "1"):
        file = opened(f"x;y\n{first};{cell}\n")
        try:
            number = column(file, "y")[0]
        except DataError:
            continue
        assert abs(number) < 2


@each(
    ("encoding", "options"),
    [
        ("latin-1", {}),
        ("utf-16", {}),
        ("utf-16-be", {"encoding": "utf-16-be"}),
        ("utf-16-le", {}),
        ("utf-8-sig", {}),
        ("cp1252", {}),
    ],
)
def test_text_of_other_encodings_is_read(encoding: str, options: dict[str, str]) -> None:
    content = "größe;µ\n1,5;süd\n2,5;nord\n"
    for cell_rows in (1, 10_000):  # large files are read by pyarrow, small ones cell by cell
        file = opened((content + "3,5;süd\n" * cell_rows).encode(encoding), **options)
        table = file.load({"größe"}, labels=["μ"])
        assert table.columns["größe"][:3].tolist() == [1.5, 2.5, 3.5]
        assert set(table.labels["μ"].values) == {"süd", "nord"}
        expected = {"latin-1": "cp1252", "cp1252": "cp1252", "utf-16": "utf-16", "utf-16-le": "utf-16-le"}.get(encoding)
        assert [note for note in file.notes if "read as" in note] == [f"the text is read as {expected}"] * bool(
            expected
        )


@each(
    "cell",
    [
        *("13/02/2024", "02/13/2024", "1.2.24", "31-12-2024 5:07", "01/02/2024 05:07:09", "1/2/24"),
        *("31-Jan-24", "1 feb 2024", "1-MAR-2024 05:07"),
        *("2024/01/31", "2024.1.2", "2024-1-31 5:07", "2024-01-31 5:07:09", "2024 feb 1"),
    ],
)
def test_a_date_in_another_order_suggests_a_format_that_reads_it(cell: str) -> None:
    with pytest.raises(DataError, match="if it is a date, say so") as caught:
        column(opened(f"x;y\n1;{cell}\n"), "y")
    forms = str(caught.value).partition("--date-format ")[2].split(" or ")
    has_two_orders = re.search(r"[.A-Za-z]", cell) is None and max(map(int, re.findall(r"\d+", cell)[:2])) <= 12
    assert len(forms) == 1 + has_two_orders  # a guess would give wrong dates
    for form in forms:
        assert column(opened(f"x;y\n1;{cell}\n", date_format=form.strip('"')), "y") == [0]


def test_a_second_line_of_units_suggests_its_option() -> None:
    content, words = "t,y\ns,mV\n1,2\n", "if line 2 has the units of the columns, add --units-row"
    with pytest.raises(DataError, match=words):
        column(opened(content), "y")
    assert column(opened(content, units_row=True), "y") == [2]
    # A damaged number is no unit: the option would lose its row.
    for other in ("t,y\n1,2\n3,x\n", *(f"t,y\n1,{cell}\n2,3\n" for cell in ("2.5*", "<0.8", "-3 mV", "'2", ".5?"))):
        with pytest.raises(DataError) as caught:
            column(opened(other), "y")
        assert words not in str(caught.value)


def test_columns_and_lines_that_are_left_out_are_mentioned() -> None:
    assert "columns without a name are not read" in opened(",A,,B,\nt,y,z,y,z\n").notes
    for header in ("t,y,,\n", ",t,y\n", "t,y\n"):  # the names of rows, and empty columns behind the others
        assert "columns without a name are not read" not in opened(header).notes
    content = "t,y\n1,2\n# the end\n"
    with pytest.raises(DataError, match="--comment '#' skips such lines"):
        column(opened(content), "y")
    assert column(opened(content, comment="#"), "y") == [2]
    with pytest.raises(DataError, match=r'"#DIV/0!" is not a number\n.* missing values as NA'):  # of a spreadsheet
        column(opened("t,y\n1,2\n2,#DIV/0!\n"), "y")


def test_units_of_columns_are_kept() -> None:
    file = opened("t,y\ns,\n1,2\n", units_row=True)
    assert [summary.unit for summary in DataSummary(file).columns] == ["s", ""]
    for content, options, words in (
        ("t,y\ns\n1,2\n", {"units_row": True}, "line 2: the row of units has 1 cell"),
        ('{"x": 1}\n', {"units_row": True}, "lines of JSON"),
        ('{"x": 1}\n', {"skip": 1}, "lines of JSON"),
        ("t\n1\n", {"units_row": True, "no_header": True}, "needs a header"),
        ("t\n1\n", {"skip": 3}, "nothing after 3 lines"),
        *(
            ("t\n1\n", {"date_format": form}, f"--date-format is a format .*, not `{form}`")
            for form in ("dd", "MM/MM/YYYY", "mm/dd/yyyy", "hh:mm AM", "american", "%m/%m")
        ),
        ("device 7\n\nt,y\n1,2\n3,4\n", {}, "line 1 has one cell, but the rows have 2; .* by --skip N"),
        ("t\n1\n", {"encoding": "runes"}, "no encoding `runes`"),
    ):
        with pytest.raises(DataError, match=words):
            opened(content, **options)


@each(
    ("where", "expected"),
    [
        ("day > '2024-02-13'", [2, 3]),
        ("'2024-02-13' <= day < '2024-02-14 12:00'", [1, 2]),
        ("day == '2024-02-15' or y < 2", [1, 3]),
        ("y > 0 and '2024-02-13' < day", [2, 3]),
    ],
)
def test_dates_are_compared_with_quoted_ones(where: str, expected: list[float]) -> None:
    days = ["2024-02-13", "2024-02-14", "2024-02-15"]
    text = "day,y\n" + "".join(f"{day},{k}\n" for k, day in enumerate(days, 1))
    buffer = io.BytesIO()
    times = pa.array([datetime.fromisoformat(day) for day in days])
    feather.write_feather(pa.table({"day": times, "y": [1.0, 2.0, 3.0]}), buffer)
    for content in (text, buffer.getvalue()):
        assert column(opened(content, where=where), "y") == expected
    dates, numbers = "dates or times such as '2024-02-13 00:00:00'", "a number: write a number without quotes"
    for condition, held in (("day > 'soon'", dates), ("y > '2024-01-01'", numbers), ("day > '2024-01-01T00Z'", dates)):
        with pytest.raises(DataError, match=f"cannot compare .*, which holds {held}"):
            column(opened(text, where=condition), "y")


@each("cells", ["2024-02-29,2023-02-29", "true,0", "2024-02-29,7", "yes,2"])
def test_only_numbers_are_written_without_units(cells: str) -> None:
    """The advice to leave out the units of numbers was given for dates and truth values, too."""
    with pytest.raises(DataError, match=r"line 3.*(like the first one|yes or no, true or false)$"):
        column(opened("x\n" + cells.replace(",", "\n")), "x")


def test_workbooks_are_read_by_their_sheets(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    rows = [datetime(2024, 1, 1), 1.5, "a\nb"], [datetime(2024, 1, 2), None, True]
    for values in (["day", "y", "kind"], [], *rows, [None, None, ""]):  # rows without values are no rows
        book.active.append(values)
    book.create_sheet("more").append(["u"])
    book.save(tmp_path / "book.xlsx")
    content = (tmp_path / "book.xlsx").read_bytes()
    table = opened(content).load({"day"}, labels=["kind"])
    assert table.columns["day"].tolist() == [0, 86400]
    assert table.labels["kind"].values == ["a b", "true"]
    with pytest.raises(DataError, match="line 4, column `y`: empty"):
        opened(content).load({"y"})
    assert opened(content, sheet="more").names == ("u",)
    with pytest.raises(DataError, match="no sheet `other`; the sheets are Sheet, more"):
        opened(content, sheet="other")


def test_the_first_sheet_of_a_workbook_is_the_first_one_with_cells(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.create_chartsheet("chart", 0).add_chart(openpyxl.chart.LineChart())
    book.create_sheet("numbers").append(["u", "v"])
    book.save(tmp_path / "book.xlsx")
    content = (tmp_path / "book.xlsx").read_bytes()
    assert opened(content).names == ("u", "v")
    with pytest.raises(DataError, match="no sheet `chart`; the sheets are Sheet, numbers"):
        opened(content, sheet="chart")


GIVEN: dict[str, Any] = {
    "delimiter": ";", "decimal": ",", "comment": "%", "no_header": True, "skip": 1, "units_row": True,
    "encoding": "latin-1", "sheet": "Sheet",
}  # fmt: skip
USED_IN = {
    ".csv": {*GIVEN} - {"sheet"},
    ".xlsx": {"comment", "no_header", "skip", "units_row", "sheet"},
    ".jsonl": {"encoding"},
    ".parquet": set(),
}


def test_options_without_an_effect_on_a_format_are_refused(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["x", "y"], [1.5, 2.0], [2.5, 3.0]):
        book.active.append(row)
    book.save(tmp_path / "data.xlsx")
    parquet.write_table(pa.table({"x": [1.5, 2.5], "y": [2.0, 3.0]}), tmp_path / "data.parquet")
    (tmp_path / "data.jsonl").write_text('{"x": 1.5, "y": 2}\n{"x": 2.5, "y": 3}\n')
    (tmp_path / "data.csv").write_text("x,y\n1.5,2\n2.5,3\n")
    for (ending, used), (name, value) in itertools.product(USED_IN.items(), GIVEN.items()):
        message = ""
        try:
            open_data([str(tmp_path / f"data{ending}")], options=FileOptions(**{name: value}))
        except DataError as error:
            message = str(error)
        is_refused = f"--{name.replace('_', '-')} has no effect on" in message
        assert is_refused == (name not in used), (ending, name, message)


@each("content", ["x,y\na,1,2\nb,3,4\n", '"x","y"\n"a",1,\n"b",3,\n', '"x","y"\n"a",1\n"b",3,4\n'])
def test_rows_have_names_only_if_all_begin_with_a_quoted_cell_that_the_header_lacks(content: str) -> None:
    assert opened(content).names == ("x", "y")


def test_no_header() -> None:
    file = opened("1 2\n3 4\n", no_header=True)
    assert file.names == ("c1", "c2")
    assert column(file, "c2") == [2, 4]
    assert column(opened("1;2,5\n3;4,5", no_header=True), "c2") == [2.5, 4.5]
    broken = opened('"a\nb",1\n"c\n\nd",2\n', no_header=True)
    assert [row for block in broken.iter_rows() for row in block] == [["a\nb", "1"], ["c\n\nd", "2"]]


@each(
    ("content", "notes", "expected"),
    [
        ('x,note,y\n1,"a\n",2\n2,b,"1,234"\n', [], [2, 1234]),  # the second line has a cell `,2`, by itself
        ('x;note;y\n1;"a\n,2\n,3\n,4\n,5\nb";2,5\n', ["semicolons", "decimal commas"], [2.5]),
        ('note\n"a\n\n2,b,"\n"c"\n', [], []),
    ],
)
def test_line_ends_in_quoted_cells_do_not_change_the_detected_format(
    content: str, notes: list[str], expected: list[float]
) -> None:
    file = opened(content)
    assert [note for note in file.notes if not any(word in note for word in notes)] == []
    assert not expected or column(file, "y") == expected


def test_detected_formats_are_reported() -> None:
    assert opened("# one\n# two\nx;y\n1,5;2\n").notes == [
        "2 comment lines were skipped",
        "the columns are separated by semicolons",
        "numbers have decimal commas",
    ]
    assert opened("x,y\n1,2\n").notes == []


def test_options_that_set_the_detected_dialect_are_listed() -> None:
    assert DataSummary(opened("x;y\n1,5;2\n")).options == ("--delimiter semicolon", "--decimal ,")
    assert DataSummary(opened("x;y\n% one\n1;2\n", comment="%")).options == ("--delimiter semicolon", "--comment '%'")
    assert DataSummary(opened("1\t2\n3\t4\n", no_header=True)).options == ("--delimiter tab", "--no-header")
    assert DataSummary(opened("x|y\n1|2\n")).options == ("--delimiter '|'",)  # for a shell
    assert DataSummary(opened("x,y\n1,2\n")).options == ()


@each(
    ("cells", "expected"),
    [
        (["2024-02-28", "2024-03-01"], [0, 2 * 86400]),
        (["2024-01-01T12:00:00", "2024-01-01 12:00:00.250"], [0, 0.25]),
        (["2024-01-01T12:00:00Z", "2024-01-01T12:00:00+01:00"], [0, -3600]),
        (["9:30", "10:00"], [0, 1800]),
        (["23:59:59.5", "00:00:00"], [0, -86399.5]),
    ],
)
def test_dates_and_times_are_seconds(cells: list[str], expected: list[float]) -> None:
    file = opened("t,y\n" + "".join(f"{cell},1\n" for cell in cells))
    assert column(file, "t") == expected
    assert any("seconds since" in note for note in file.notes)


@given(st.lists(st.datetimes(min_value=datetime(1678, 1, 1), max_value=datetime(2261, 1, 1)), min_size=1, max_size=5))
def test_moments_are_the_same_in_every_format(moments: list[datetime]) -> None:
    text = opened("t\n" + "".join(f"{moment.isoformat()}\n" for moment in moments))
    buffer = io.BytesIO()
    feather.write_feather(pa.table({"t": moments}), buffer)
    expected = [(moment - moments[0]).total_seconds() for moment in moments]
    assert column(text, "t") == pytest.approx(expected, abs=1e-6, rel=1e-15)
    assert column(opened(buffer.getvalue()), "t") == pytest.approx(expected, abs=1e-6, rel=1e-15)


@each("zone", [None, UTC])
@each("unit", ["s", "ms", "us", "ns"])
def test_times_of_arrow_count_from_the_first_as_text_does(zone: Any, unit: str) -> None:
    moments = [None, datetime(2024, 2, 29, 12, 30, 15, tzinfo=zone), datetime(1969, 12, 31, 23, 59, 59, tzinfo=zone)]
    buffer = io.BytesIO()
    times = pa.array(moments, pa.timestamp(unit, None if zone is None else "UTC"))
    feather.write_feather(pa.table({"t": times, "y": [1, 2, 3]}), buffer)
    rows = "".join(f"{'' if moment is None else moment.isoformat()},1\n" for moment in moments)
    for file in (opened(buffer.getvalue()), opened("t,y\n" + rows)):
        found = file.load({"t"}, drop_missing=True)
        assert found.columns["t"].tolist() == [0, (moments[2] - moments[1]).total_seconds()]
        assert file.origins == {"t": moments[1]}


def test_a_date_that_does_not_parse_is_named() -> None:
    file = opened("t,y\n2024-01-01,1\n2024-02-30,2\n")
    with pytest.raises(DataError, match=r'line 3, column `t`: "2024-02-30" is not a date or a time like the first one'):
        file.load({"t"})
    with pytest.raises(DataError, match=r'"31.12.2024" is not a number'):
        opened("t\n31.12.2024\n").load({"t"})


def test_the_first_time_of_a_column_of_dates_can_be_set() -> None:
    file = open_data(["-"], io.BytesIO(b"t\n2024-01-03\n"), origins={"t": datetime(2024, 1, 1)})
    assert column(file, "t") == [2 * 86400]


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=8),
    st.sampled_from([",", ";", "\t", "|", " ", "   "]),
    st.sampled_from([".", ","]),
    st.booleans(),
    st.sampled_from(["", "\ufeff"]),
    st.sampled_from(["", " "]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_a_table_is_read_as_it_was_written(
    values: list[float], delimiter: str, decimal: str, has_header: bool, mark: str, indent: str, ending: str
) -> None:
    """Without a header, decimal commas between blanks or tabs were read as delimiters. A pipe is read once."""
    lines = [["c1", "c2", "c3"]] * has_header + [[repr(x), "0.5", str(k)] for k, x in enumerate(values)]
    quote = '"' if decimal == delimiter else ""
    texts = [[f"{quote}{cell}{quote}".replace(".", decimal) for cell in line] for line in lines]
    content = mark + "".join(indent * (not quote) + delimiter.join(line) + ending for line in texts)
    file, expected = opened(content, no_header=not has_header), [values, [0.5] * len(values), [*range(len(values))]]
    assert [column(file, name) for name in file.names] == expected
    options = FileOptions(no_header=not has_header)
    pipe = DataFile("-", io.BytesIO(content.encode()), options=options, single_pass=True)
    (block,) = pipe.iter_blocks(pipe.names, 10)
    assert [block.columns[name].tolist() for name in pipe.names] == expected


def test_columns_of_any_name_and_other_names() -> None:
    file = opened("Temp [°C],2theta\n20,1\n25,2\n", column=['angle="2theta"'])
    assert file.names == ("Temp [°C]", "angle")
    assert column(file, "angle") == [1, 2]
    with pytest.raises(DataError, match=r"there is no column `2teta`; did you mean `2theta`\?"):
        opened("2theta\n1\n", column=["a=2teta"])
    with pytest.raises(DataError, match=r"there is no column `t`; did you mean --column t=time\?"):
        opened("time,y\n1,2\n", column=["time=t"])
    with pytest.raises(DataError, match=r"there is no column `signl`; did you mean `signal`\?"):
        opened("signal,y\n1,2\n", column=["y=signl"])
    with pytest.raises(DataError, match="the file already has a column `y`"):
        opened("x,y\n1,2\n", column=["y=x"])


# --- rows that count

GROUPS = "t,group,y\n1,A,10\n-1,A,20\n2,B,30\n3,A,\n4,A,50\n"


@each(
    ("where", "expected"),
    [
        ("t > 0 and group == 'A' and t != 3", [10, 50]),
        ("group != 'A'", [30]),
        ("t < 0 or group == 'B'", [20, 30]),
        ("y > 15", [20, 30, 50]),
        ("sin(t) > 0 and t < 3", [10, 30]),
    ],
)
def test_where(where: str, expected: list[float]) -> None:
    file = opened(GROUPS, where=where)
    assert column(file, "y") == expected
    assert f"--where keeps {len(expected)} of 5 rows" in file.notes
    assert [row[2] for row in rows(file, "y")] == [f"{y:g}" for y in expected]


@given(st.permutations(["1", "2.5", "2024-01-31", "x", "NA"]), st.sampled_from(["==", "!="]), st.booleans())
def test_the_order_of_the_rows_does_not_decide_which_are_kept(cells: list[str], operator: str, is_first: bool) -> None:
    """The first cell decides whether a column holds numbers, dates or texts, but not what can be compared with it."""
    content = "g,y\n" + "".join(f"{cell},{y}\n" for y, cell in enumerate(cells))
    operands = ["g", "'x'"] if is_first else ["'x'", "g"]
    kept = opened(content, where=f" {operator} ".join(operands))
    assert column(kept, "y") == [y for y, cell in enumerate(cells) if (cell == "x") == (operator == "==")]


@each("ending", ["", ",", ";", "\t"])
@each("first", ["1{0}NA", "1{0}", "2024-01-31{0}2.5", "1{0}true", "-1e5{0}.5"])
def test_a_first_row_of_data_is_not_lost_as_a_header(first: str, ending: str) -> None:
    """Where a cell of the first row was missing, a date or a truth value, the row gave the names of the columns."""
    delimiter = ending or ","
    content = f"{first}{ending}\n2{{0}}3{ending}\n".format(delimiter)
    with pytest.raises(DataError, match="the first line holds numbers, not column names; use --no-header"):
        opened(content)
    cells = [row[0] for block in opened(content, no_header=True).iter_rows() for row in block]
    assert cells == [first.split("{")[0], "2"]


@each(
    ("content", "message"),
    [
        ("Run 7,,\n\nx,y,z\n1,2,3\n", "line 1 has one cell, but the rows have 3; .* by --skip N"),
        ("Run 7,\n1,2\n", "line 1 has one cell, but the rows have 2"),
        ("x,\n1,\n2,\n", None),
        ("x,y,\n1,2,\n3,4,\n", None),
        ("x,y,\n1,2,\n3,4,late\n", "columns without a name are not read"),
        ("x,,y\n1,2,3\n", "columns without a name are not read"),
        (",x\n1,2\n", None),
    ],
)
def test_cells_below_no_name_are_noted(content: str, message: str | None) -> None:
    """A title above the names, as in many workbooks, was taken for the only name, and the columns were not read."""
    try:
        found = "".join(opened(content).notes)
    except DataError as error:
        found = str(error)
    assert (found == "") if message is None else re.search(message, found)


@each("text", ["x,y,\n1,2,\n3,4,\n", "x,y,\n1,2\n3,4\n", "x;y;\n1;2;\n3;4\n", "x,y\n1,2,\n3,4\n"])
def test_lines_may_end_with_a_delimiter(text: str) -> None:
    file = opened(text)
    assert (column(file, "x"), column(file, "y"), file.notes[1:]) == ([1, 3], [2, 4], [])


def test_cells_beyond_the_header_and_a_short_first_row_are_not_passed_over() -> None:
    with pytest.raises(DataError, match="line 2: 4 cells, but the header has 2"):
        column(opened("x,y\n1,2,3,\n"), "x")
    assert opened("Run 7,\n1,2\n", no_header=True).names == ("c1", "c2")


@each("header", ["gene,2001,2002", "pi,1,x", ",0,1"])
def test_names_that_are_numbers_are_noted(header: str) -> None:
    file = opened(f"{header}\nA,2,3\nB,4,5\n")
    assert file.names == tuple(filter(None, header.split(",")))
    assert "some column names on the first line are numbers" in "".join(file.notes)


@given(st.sampled_from(",;\t|"), st.lists(st.booleans(), min_size=1, max_size=4), st.booleans(), st.booleans())
def test_a_delimiter_at_the_end_of_rows_is_no_cell(
    delimiter: str, endings: list[bool], is_of_header: bool, is_single_pass: bool
) -> None:
    lines = [f"{k}{delimiter}{k + 0.5}{delimiter * ending}" for k, ending in enumerate(endings)]
    content = "\n".join([f"x{delimiter}y{delimiter * is_of_header}", *lines, ""]).encode()
    if is_of_header and not all(endings):
        return
    file = DataFile("-", io.BytesIO(content), options=FileOptions(), single_pass=is_single_pass)
    (block,) = file.iter_blocks(("x", "y"), 10)
    assert [block.columns[name].tolist() for name in "xy"] == [
        [*range(len(endings))],
        [k + 0.5 for k in range(len(endings))],
    ]


@each(
    ("where", "message"),
    [
        ("t > 100", "--where keeps none of 5 rows"),
        ("group == 'a'", r"no row has 'a' in column `group`; did you mean 'A'\?"),
        ("t != NA", "there is no column `NA`; --drop-missing leaves out rows with missing cells"),
        ("group = A", "to compare with text, write `group == 'A'`"),
        ("tt > 0", r"there is no column `tt`; did you mean `t`\?"),
        ("t >", "something must follow"),
        ("1 > 0", "--where takes a condition on columns"),
        ("y ~ t", "--where takes a condition"),
        ("t: 3; t > 0", "--where takes a condition"),
        ("[t, y] > 0", "--where takes a condition"),
        ("dot(t, [1, 2]) > 0", "--where takes a condition"),
    ],
)
def test_a_condition_that_cannot_be_used(where: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        opened(GROUPS, where=where).load({"y"})


@each("rows", ["1,A\n2,B\n", "A,1\nB,2\n", "1,2\n3,4\n", "A,1.5,B\nC,2.5,D\n"])
@each("options", [{}, {"comment": "%"}])
def test_names_in_the_last_comment_are_those_of_tables_with_texts_too(rows: str, options: dict[str, str]) -> None:
    names, mark = ("p", "q", "r")[: rows.split()[0].count(",") + 1], options.get("comment", "#")
    file = opened(f"{mark} made in May\n{mark} {','.join(names)}\n{rows}", **options)
    assert file.names == names
    assert "the column names come from the last comment line" in file.notes
    assert [",".join(row) for block in file.iter_rows() for row in block] == rows.split()


@each("where", ["t > 100", "group == 'a'", "t > 9007199254740993", "group == 'A' and y > 1e9"])
def test_a_message_and_its_notes_say_nothing_twice(where: str) -> None:
    with pytest.raises(DataError) as error:
        opened(GROUPS, where=where).load({"y"})
    lines = str(error.value).splitlines()
    assert sum(" of 5 rows" in line for line in lines) == 1
    assert len({*lines}) == len(lines)


@each("where", [None, "x > 1", "x > 99", "g == 'b' or x < 1"])
@each("labels", [(), ("g",)])
def test_the_mask_of_a_table_says_which_rows_it_has(where: str | None, labels: tuple[str, ...]) -> None:
    every = [(k % 7 / 2, None if k % 3 == 1 else k, "ab"[k % 2] if k % 5 else "") for k in range(40)]
    lines = [f"{x},{'' if y is None else y},{g}\n" for x, y, g in every]
    kept = [
        (where is None or eval(where, {"x": x, "g": g})) and y is not None and (g != "" or not labels)
        for x, y, g in every
    ]
    file = opened("x,y,g\n" + "".join(lines), where=where)
    for size in (1, 7, 100):
        if where == "x > 99":
            with pytest.raises(DataError, match="keeps none of 40 rows"):
                file.load({"x", "y"}, drop_missing=True, labels=labels)
            continue
        table = file.read(ColumnQuery(["x", "y"], labels, MissingCells.DROP, size))
        assert table.row_mask is not None
        assert table.row_mask.tolist() == kept
        assert table.columns["y"].tolist() == [y for (_, y, _), is_kept in zip(every, kept, strict=True) if is_kept]
        blocks = [rows if isinstance(rows, list) else rows.rows() for rows in file.iter_selected_rows(table)]
        assert [float(x) for rows in blocks for x, *_ in rows] == table.columns["x"].tolist()


@each(
    ("where", "doubtful"),
    [
        ("id == 9007199254740993", 2),
        ("id != n", 2),
        ("id % 2 == 1", 2),
        ("id > 5", 0),
        ("abs(id - 9007199254740990) < 1000", 0),
    ],
)
def test_conditions_that_need_more_digits_than_floats_have_are_noted(where: str, doubtful: int) -> None:
    file = opened(
        b"id,n,y\n9007199254740992,9007199254740993,1\n9007199254740993,9007199254740993,2\n5,7,3\n", where=where
    )
    file.load({"y"})
    notes = file.notes
    noted = [note for note in notes if "beyond 2^53" in note]
    assert noted == [f"--where: the condition is uncertain in {doubtful} rows: {APART}"] * bool(doubtful)
    for size in (10, 1):  # the rows of all blocks count
        assert len([*file.files[0].iter_blocks({"y"}, size, is_filtered=True)]) == -(-3 // size)
        assert file.notes == notes


APART = "floats cannot distinguish whole numbers beyond 2^53"


def test_a_missing_cell_counts_only_where_the_row_does() -> None:
    with pytest.raises(DataError, match="row 4, column `y`: nan"):
        opened(GROUPS, where="t > 0").load({"y"})
    assert column(opened(GROUPS, where="t > 0 and t != 3"), "y") == [10, 30, 50]


# --- several files


def test_a_file_may_have_no_row_that_a_condition_keeps_if_another_has(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,y\n1,2\n2,4\n")
    (tmp_path / "b.csv").write_text("t,y\n3,6\n4,8\n")
    paths = [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    for where, expected in (("t > 2", [6, 8]), ("t < 2", [2])):
        files = open_data(paths, options=FileOptions(where=where))
        assert files.load({"y"}).columns["y"].tolist() == expected
        assert f"--where keeps {len(expected)} of 4 rows" in files.notes
    everything = open_data(paths, options=FileOptions(where="y > 0"))
    everything.load({"y"})
    assert everything.notes == ["2 files", "--where keeps 4 of 4 rows"]  # not the 2 of 2 rows that both files have
    with pytest.raises(DataError, match=r"a\.csv, .*b\.csv: --where keeps no row of any file"):
        open_data(paths, options=FileOptions(where="t > 9")).load({"y"})


@each(
    "content, title",
    [
        ("{x},y\n1,2\n", "text with columns separated by commas"),
        ('{"x",y}\n1,2\n', "text with columns separated by commas"),
        ('{"x": 1, "y": 2}\n', "lines of JSON"),
        (' { "a name of many letters" : 1}\n', "lines of JSON"),
        ('{"a\\"b": 1}\n', "lines of JSON"),
    ],
)
def test_a_header_in_braces_is_no_line_of_json(content: str, title: str) -> None:
    assert DataSummary(opened(content)).format == title


def test_files_a_folder_and_a_pattern_are_one_table(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.jsonl").write_text('{"y": 4, "x": 3}\n')
    feather.write_feather(pa.table({"x": [5], "y": [6.0]}), tmp_path / "c.arrow")
    every = [str(tmp_path / name) for name in ("a.csv", "b.jsonl", "c.arrow")]
    for paths in (every, [str(tmp_path)], [str(tmp_path / "[abc].*")]):
        data = open_data(paths)
        table = data.load({"x", "y"})
        assert [*table.columns["x"]] == [1, 3, 5]
        assert [*table.columns["y"]] == [2, 4, 6]
        assert [row[0] for row in rows(data, "y")] == ["1", "3", "5"]


def test_dates_of_several_files_have_one_origin(tmp_path: Path) -> None:
    for day in (1, 2):
        (tmp_path / f"{day}.csv").write_text(f"t\n2024-01-0{day}\n")
    assert [*open_data([str(tmp_path)]).load({"t"}).columns["t"]] == [0, 86400]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("x,z\n1,2\n", r"b\.csv: its columns differ from those of .*a\.csv: it lacks `y`"),
        ("z\n1\n", r"b\.csv: it has no column that all other files have"),
        ("x,y\n1,two\n", r'b\.csv: line 2, column `y`: "two" is not a number'),
        ("x,y\n1,\n", r"b\.csv: line 2, column `y`: empty"),
    ],
)
def test_files_that_disagree_are_named(tmp_path: Path, second: str, message: str) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text(second)
    with pytest.raises(DataError, match=message):
        open_data([str(tmp_path / "*.csv")]).load({"x", "y"})


def test_files_may_have_columns_of_their_own_that_the_model_does_not_use(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("z,y,x\nlow,4,2\n")
    data = open_data([str(tmp_path)])
    table = data.load({"x", "y"}, labels={"file"})
    assert (table.columns["x"].tolist(), table.columns["y"].tolist()) == ([1, 2], [2, 4])
    assert table.labels["file"].values == ["a.csv", "b.csv"]
    assert rows(data, "y") == [["1", "2"], ["2", "4"]]
    assert "only some files have `z`" in data.notes
    assert [summary.name for summary in DataSummary(data).columns] == ["x", "y"]
    for wanted, labels in (({"x", "z"}, ()), ({"x"}, {"z"})):  # not taken for a parameter
        with pytest.raises(DataError, match=r"a\.csv: its columns differ from those of .*b\.csv: it lacks `z`"):
            data.load(wanted, labels=labels)


@pytest.mark.parametrize("first", [True, False])
def test_a_column_of_one_file_is_never_taken_for_a_parameter(first: bool, tmp_path: Path) -> None:
    contents = ["y,x,z\n6,3,1\n8.1,4,1\n", "x,y\n1,2\n2,4\n"]
    for k, content in enumerate(contents if first else contents[::-1]):
        (tmp_path / f"{k}.csv").write_text(content)
    for model in ("y ~ a*x + b*z", "z ~ a*x"):
        for stream in (False, True):
            with pytest.raises(DataError, match="it lacks `z`"):
                ad.fit(model, str(tmp_path), stream=stream)
    assert ad.fit("y ~ a*x", str(tmp_path)).rows == 4


@pytest.mark.parametrize(("separator", "ending"), [*itertools.product(",;\t", ("\n", "\r\n"))])
def test_the_line_that_tells_excel_the_separator_is_skipped(separator: str, ending: str) -> None:
    lines = [f"sep={separator}", f"x{separator}y", f"1{separator}2", f"3{separator}nonsense"]
    file = opened("\ufeff" + ending.join(lines))
    assert file.names == ("x", "y")
    assert file.load({"x"}).columns["x"].tolist() == [1, 3]
    with pytest.raises(DataError, match="line 4, column `y`"):
        file.load({"y"})


_LAYOUT: dict[str, tuple[str, dict[str, object]]] = {  # lines before the rows and the options that they need
    "separator": ("sep=,\n", {}),
    "title": ("A title\n", {"skip": 1}),
    "comment": ("% one\n%two\n", {"comment": "%"}),
    "header": ("x,y,z\n", {}),
    "units": ("s,m,-\n", {"units_row": True}),
}
_ROWS = ["1,2,a\n", "% between\n", "1,2,a\n", "\n", '1,2,"a\nb"\n', " % again\n", "\n", '1,2,"a, ""b"""\n']


@each(
    "parts", [each_part for k in range(6) for each_part in itertools.combinations(_LAYOUT, k) if "header" in each_part]
)
@each("rows_before", [(0, 2), (0, 1, 2, 3), (0, 4, 7), (1, 2, 3, 4, 5, 6, 7)])
def test_a_line_has_its_number_in_the_file(parts: tuple[str, ...], rows_before: tuple[int, ...]) -> None:
    if "separator" in parts and "title" in parts:
        return
    text = "".join([_LAYOUT[part][0] for part in parts] + [_ROWS[k] for k in rows_before])
    options: dict[str, object] = {"comment": "%"}
    for part in parts:
        options |= _LAYOUT[part][1]
    line = text.count("\n") + 1
    for bad, problem in (("1,two,c", "column `y`"), ("1,,c", "column `y`: empty"), ("1,2", "2 cells")):
        file = opened(f"{text}{bad}\n1,2,d\n", **options)
        for labels in ((), ("z",)):
            with pytest.raises(DataError, match=f"line {line}[,:] ?{problem}"):
                file.load({"x", "y"}, labels=labels)


@pytest.mark.parametrize("column", [{"y": "my-y", "t": "s (s)"}, ["y=my-y", 't="s (s)"'], ("y=my-y", "t=s (s)")])
def test_columns_are_renamed_by_a_mapping_or_by_texts(column: Any) -> None:
    assert opened("my-y,s (s)\n1,2\n", column=column).names == ("y", "t")
    assert opened("my-y,s (s)\n1,2\n", column="y=my-y").names == ("y", "s (s)")


def test_columns_of_some_files_can_be_renamed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("x,signal\n3,4\n")
    options = FileOptions(column=["y=signal"])
    assert open_data([str(tmp_path)], options=options).load({"x", "y"}).columns["y"].tolist() == [2, 4]
    with pytest.raises(DataError, match="there is no column `signal`"):
        open_data([str(tmp_path / "a.csv")], options=options)
    with pytest.raises(DataError, match="there is no column `sginal`; did you mean `signal`"):
        open_data([str(tmp_path)], options=FileOptions(column=["y=sginal"]))


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the folder has no files"):
        open_data([str(tmp_path)])
    with pytest.raises(DataError, match="no file matches this pattern"):
        open_data([str(tmp_path / "*.csv")])


@pytest.mark.slow
def test_many_rows_of_files_whose_columns_are_in_another_order(tmp_path: Path) -> None:
    count = 50_000
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{k},-{k}\n" for k in range(count)))
    (tmp_path / "b.csv").write_text("y,x\n" + "".join(f"-{k},{k}\n" for k in range(count)))
    data = open_data([str(tmp_path)], options=FileOptions(where="x > 10"))
    assert rows(data, "y")[:1] == [["11", "-11"]]
    assert rows(data, "y") == 2 * [[f"{k}", f"-{k}"] for k in range(11, count)]


# --- what it is


@each("start", source._UNSUPPORTED_FORMATS)
def test_formats_are_known_by_their_first_bytes(start: bytes) -> None:
    description = source._UNSUPPORTED_FORMATS[start]
    with pytest.raises(DataError, match=f"this is {re.escape(description)}"):
        opened(start + b"\0" * 64)
    with pytest.raises(DataError, match=re.escape(description.partition(":")[0])):
        opened(gzip.compress(start + b"\0" * 64)).load({"x"})


@each(
    ("content", "message"),
    [
        (b"%PDF-1.7", "a PDF"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old workbook"),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
        (b"Obj\x01\x04\x14avro.codec", "an Avro file"),
        (b"ORC\n\x06\x12\x04\x08\x03", "an ORC file"),
        (b'<table border="1">\n<tr><td>1</td></tr>\n</table>\n', "a web page"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"\x93NUMPY\x01", "a NumPy array"),
        (b"\xfd7zXZ\0", "compressed by xz"),
        (b"\xff\xff\xff\xff\xa8\x01\0\0", "a stream of Arrow"),
        (b'{"x": 1}\n{"x": two}\n', "line 2"),
        (b'{"x": 1}\n[2]\n', "line 2: expected an object"),
    ],
)
def test_what_cannot_be_read_is_called_what_it_is(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        opened(content).load({"x"})


def test_an_archive_that_is_no_workbook_is_called_one() -> None:
    pytest.importorskip("openpyxl")
    with pytest.raises(DataError, match="this is not a workbook"):
        opened(b"PK\x03\x04rest of it").load({"x"})


@each(
    ("options", "message"),
    [
        ({"delimiter": "ab"}, "--delimiter takes one character"),
        ({"decimal": ";"}, "--decimal takes"),
        ({"decimal": ",", "delimiter": ","}, "cannot both"),
        ({"comment": ""}, "--comment takes"),
        ({"column": ["x"]}, "--column takes NAME="),
        ({"column": ["x=a", "x=b"]}, "--column: two columns are renamed to `x`"),
        ({"column": ["x=a", "y=a"]}, "--column: `a` has two new names, `x` and `y`"),
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        FileOptions(**options)  # type: ignore[arg-type]


def test_a_summary() -> None:
    file = opened("when,group,y,n\n2024-01-01,A,1.5,1\n2024-01-02,B,,2\n2024-01-03,,-2.5,3\n")
    found = DataSummary(file)
    assert found.rows == 3
    facts = {c.name: (c.type, c.missing, c.minimum, c.maximum, c.levels) for c in found.columns}
    assert facts == {
        "when": ("date or time", 0, 0, 2 * 86400, None),
        "group": ("text", 1, None, None, 2),
        "y": ("number", 1, -2.5, 1.5, None),
        "n": ("whole number", 0, 1, 3, None),
    }
    assert json.dumps(found.first_rows[0]) == '["2024-01-01", "A", "1.5", "1"]'
    assert math.isfinite(found.columns[2].minimum or math.nan)
    assert np.shape(found.first_rows) == (3, 4)


@each(
    "cells, facts",
    [
        (["5"], ("whole number", 0, 5, 5)),
        (["0.5"], ("number", 0, 0.5, 0.5)),
        (["", "-3", "nan"], ("whole number", 2, -3, -3)),
        (["2.5", ""], ("number", 1, 2.5, 2.5)),
        (["1", "2", "2.5"], ("number", 0, 1, 2.5)),
        (["4", "-inf", "1e3"], ("whole number", 1, 4, 1000)),
    ],
)
def test_a_column_of_any_length_is_summarized(cells: list[str], facts: tuple[Any, ...]) -> None:
    found = DataSummary(opened("".join(["x,y\n", *(f"{cell},1\n" for cell in cells)]))).columns[0]
    assert (found.type, found.missing, found.minimum, found.maximum) == facts


@pytest.mark.parametrize("option", ["--delimiter", "--comment"])
def test_marks_that_are_no_text_are_refused(option: str, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("x,y\n1,2\n")
    expect_refusal(run_cli(["data", str(path), option, "\udcff"]), f"{option} takes UTF-8 text")


def test_the_report_shows_the_first_rows_with_decimal_points(tmp_path: Path) -> None:
    path = tmp_path / "site.csv"
    path.write_text("where;x\nnorth;1,50\nsouth;2,25\n", encoding="utf-8")
    report = run_cli(["data", str(path)])
    assert [line.split() for line in report.partition("first rows\n")[2].splitlines()[:3]] == [
        ["where", "x"], ["north", "1.50"], ["south", "2.25"]
    ]  # fmt: skip


@pytest.mark.parametrize("rows", [3, 8000])  # parsed cell by cell, and by Arrow
@pytest.mark.parametrize(
    ("cell", "underflows"),
    [("1e-400", True), ("-2.5E-00400", True), ("0.01e-323", True), ("5e-324", False), ("0e-400", False), ("0", False)],
)
def test_a_number_that_is_0_as_a_float_is_noted(rows: int, cell: str, underflows: bool, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("x,y\n" + "0.25,3.5\n" * rows + f"{cell},1\n")
    source = open_data([str(path)])
    assert bool(source.load(["x", "y"]).columns["x"][-1]) is (cell == "5e-324")
    note = f'column `x`: "{cell}" is too small for a float and is read as {"-0" if cell[0] == "-" else "0"}'
    assert [*source.notes] == [note] * underflows

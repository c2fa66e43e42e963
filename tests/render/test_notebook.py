"""The record that `Expression.trace` returns: its numbers, and how notebooks and terminals show it."""

from __future__ import annotations

import html
import io
import json
import re
import subprocess
import sys
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from rich.console import Console

import autodiff_cli as ad
from autodiff_cli.explain.record import Trace
from autodiff_cli.render.html_page import to_html
from autodiff_cli.render.layout import MAX_NODES
from autodiff_cli.render.trace import TraceDisplay
from tests.support import run_cli

LINE = ["trace", "x*y + sin(x)", "--x", "2", "--y", "3"]


def example() -> TraceDisplay:
    return ad.parse("x*y + sin(x)").trace(x=2, y=3)


def test_the_record_is_a_trace() -> None:
    record = example()
    assert isinstance(record.trace, Trace)
    assert record.value == pytest.approx(6.909297426825682)
    assert record.gradient == ad.parse("x*y + sin(x)").grad(x=2, y=3)
    assert repr(record) == "<trace of x*y + sin(x) at x = 2, y = 3>"


def test_its_document_is_that_of_the_command_line() -> None:
    written = run_cli([*LINE, "--json"])
    assert example().to_dict() == written.json
    assert example().to_json() + "\n" == written


def test_arrays_too() -> None:
    record = ad.parse("sum(tanh(W @ x))").trace({"W": [[1, 0], [0, 1]], "x": [0.5, 2]})
    line = ["trace", "sum(tanh(W @ x))", "--W", "[[1, 0], [0, 1]]", "--x", "[0.5, 2]"]
    assert not record.is_scalar
    assert record.to_dict() == run_cli([*line, "--json"]).json
    assert str(record) + "\n" == run_cli(line)


def test_only_some_variables() -> None:
    f = ad.parse("x*y + sin(x)")
    assert f.trace(x=2, y=3, wrt=["y"]).gradient == {"y": 2.0}
    assert f.trace({"x": 2, "y": 3}, wrt="y").to_dict() == run_cli([*LINE, "--wrt", "y", "--json"]).json
    assert ad.parse("wrt^2").trace({"wrt": 3}).gradient == {"wrt": 6.0}


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"x": 2}, ad.MissingValueError, "no value for `y`"),
        ({"x": 2, "y": 3, "z": 4}, ad.UnknownNameError, "no variable `z`"),
        ({"x": 2, "y": 3, "wrt": ["z"]}, ad.UnknownNameError, "no variable `z`"),
        ({"x": [1, 2], "y": 3}, ad.ExpressionError, "`x` is a number here"),
    ],
)
def test_errors_have_the_messages_of_other_calls(
    arguments: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        ad.parse("x*y").trace(**arguments)  # type: ignore[arg-type]


def test_printed_it_is_the_report_of_the_command_line() -> None:
    assert f"{example()}\n" == run_cli(LINE)


@pytest.mark.parametrize("width", [40, 80])
def test_rich_prints_what_a_terminal_of_that_width_gets(width: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    console.print(example())
    assert isinstance(console.file, io.StringIO)
    plain = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert plain == [line.rstrip() for line in run_cli(LINE, terminal=width).splitlines()]


def test_rich_reads_no_markup_in_names() -> None:
    console = Console(file=io.StringIO(), width=80, color_system="standard", force_terminal=True)
    console.print(ad.parse("M[0]^2 # [red]").trace(M=[2.0]))
    assert isinstance(console.file, io.StringIO)
    assert "M[0]^2 # [red]" in re.sub(r"\x1b\[[\d;]*m", "", console.file.getvalue())


def plain(record: TraceDisplay) -> str:
    """What a notebook shows of a record as text."""
    texts: list[str] = []
    record._repr_pretty_(SimpleNamespace(text=texts.append), False)
    return "".join(texts)


def test_a_notebook_gets_the_report_as_text() -> None:
    assert plain(example()) == str(example())


def test_the_image_is_that_of_the_command_line() -> None:
    assert example()._repr_svg_() == run_cli([*LINE, "--format", "svg"])


def test_the_page_stands_in_a_frame_and_nothing_of_it_outside() -> None:
    record = ad.parse("x*y # \"> </iframe><script>alert('&quot;')</script>").trace(x=2, y=3)
    shown = record._repr_html_()
    assert shown is not None
    frame = ElementTree.fromstring(shown)
    assert (frame.tag, frame.get("sandbox"), len(frame)) == ("iframe", "allow-scripts allow-forms", 0)
    assert frame.get("srcdoc", "").split() == to_html(record).split()
    srcdoc = re.search(r'srcdoc="([^"]*)"', shown)
    assert srcdoc is not None
    assert html.unescape(srcdoc[1]) == to_html(record)


@pytest.mark.slow
def test_too_large_a_graph_is_shown_as_text() -> None:
    record = ad.parse("sin(" * MAX_NODES + "x" + ")" * MAX_NODES).trace(x=1)
    assert record._repr_html_() is None
    assert record._repr_svg_() is None
    text = plain(record)
    assert "2940 steps omitted; `print` shows all" in text
    assert len(text.splitlines()) < 300
    assert len(str(record).splitlines()) > 9000
    assert len(repr(record)) < 200


def test_a_record_of_numbers_needs_neither_numpy_nor_rich() -> None:
    code = (
        "import sys, autodiff_cli as ad; record = ad.parse('x*y').trace(x=2, y=3); record.to_json(); str(record);"
        "print([name for name in ('numpy', 'rich') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_the_document_is_json() -> None:
    record = ad.parse("log(x)").trace(x=0)
    assert json.loads(record.to_json())["value"] == "-inf"


def test_a_fit_that_cannot_begin_is_shown_in_a_notebook() -> None:
    failed = ad.fit("y ~ a*log(x - 5)", {"x": [1, 2, 3], "y": [1, 2, 3]})
    assert failed.history == []
    assert "<svg" in failed._repr_html_()

"""`trace --format html --exercise`: a sheet with blanks and a key."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from tests.support import expect_refusal, run_cli

POINT = '"h = relu(w*x + b); (h - t)^2 + w" --w 3 --x 2 --b 1 --t 5'


def pages(sheet: str) -> list[str]:
    return [unescape(page) for page in re.findall(r'<section class="page.*?</section>', sheet, re.S)]


def words(page: str) -> str:
    """What a page says outside of its drawing."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", re.sub(r"<svg.*?</svg>", "", page, flags=re.S)))


@pytest.fixture(scope="module")
def sheet() -> str:
    return run_cli(f"trace {POINT} --format html --exercise")


def test_the_worksheet_has_all_steps_and_the_key_is_apart(sheet: str) -> None:
    document = run_cli(f"trace {POINT} --json").json
    worksheet, key = pages(sheet)
    contributions = sum(len(step["contributions"]) for step in document["backward"])
    assert worksheet.count("Value of") == len(document["forward"])
    assert worksheet.count("Adjoint of") == len(document["backward"]) - 1  # that of the output is given
    assert worksheet.count("Local derivative towards") == worksheet.count("Amount for") == contributions
    assert "break-after:page" in sheet
    assert "<input" not in key
    assert "<script" not in sheet


def test_answers_stand_only_in_the_key(sheet: str) -> None:
    worksheet, key = pages(sheet)
    document = run_cli(f"trace {POINT} --json").json
    for node in document["nodes"]:
        shown = re.search(rf'data-node="{node["id"]}".*?</g>', worksheet)
        assert shown is not None
        assert ("value ____" in shown[0]) == (node["op"] not in ("input", "constant"))
        assert ("adjoint ____" in shown[0]) == (node["adjoint"] is not None)
    assert not re.search(r"data-(value|adjoint|local)", sheet)
    for sentence in ("w·x = 3 × 2 = 6", "h: 1 × 4 = 4", "d/dw = 9"):
        assert sentence in words(key)
        assert sentence not in words(worksheet)


def test_no_step_tells_the_result_of_an_earlier_one() -> None:
    text = "a = x*y; where(a > 1, tanh(a), -a) + max(x, exp(y))^2"
    words_of = ["trace", text, "--x", "0.5", "--y", "1.5", "--format", "html", "--exercise"]
    worksheet = words(pages(str(run_cli(words_of)))[0])
    document = run_cli(["trace", text, "--x", "0.5", "--y", "1.5", "--json"]).json
    results = [step["value"] for step in document["forward"] if step["value"] not in (0, 1)]
    assert len(results) > 5
    assert not [value for value in results if f"{value:.6g}" in worksheet]
    assert "tanh(a) = tanh(____) =" in worksheet
    assert "a > 1: ____ > 1 gives" in worksheet


def test_derivatives_are_not_revealed(sheet: str) -> None:
    assert "A power scales by its slope" in words(pages(sheet)[0])
    assert "2*2" not in words(pages(sheet)[0])


def test_arrays_and_formulas_that_are_markup(tmp_path: Path) -> None:
    output = run_cli('trace "sum(tanh(W @ x))" --W "[[1, 2], [3, 4]]" --x "[1, 2]" --format html --exercise')
    assert output.status == 0
    assert "Key" in pages(output)[-1]
    target = tmp_path / "sheet.html"
    assert run_cli(["trace", "`<b>`*2", "--set", "`<b>`=3", "--exercise", "-o", str(target)]).status == 0
    assert "<b>" not in target.read_text(encoding="utf-8")


@pytest.mark.parametrize("options", ["--exercise", "--exercise --json", "--exercise --format svg"])
def test_it_is_html(options: str) -> None:
    expect_refusal(run_cli(f"trace {POINT} {options}"), "--exercise writes HTML in reverse mode")


def test_a_large_drawing_tells_nothing_by_its_copies() -> None:
    """Nodes that are drawn once more are as empty as those that they stand for."""
    calls = " + ".join(f"f(x, {k})*f(y, {k})" for k in range(1, 9))
    sheet = run_cli(f'trace "f(t, u) = tanh(sin(t*u) + exp(t)); {calls}" --x 1 --y 2 --format html --exercise')
    copies = re.findall(r'data-copy="\d+".*?</g>', pages(str(sheet))[0])
    assert len(copies) > 16
    assert not [copy for copy in copies if "adjoint" in copy or (">f(" in copy and "value" in copy)]


def test_a_rule_is_explained_once() -> None:
    sheet = run_cli("trace x*y*x*y*2*3 --x 2 --y 3 --format html --exercise")
    assert len(re.findall('class="hint">A product swaps', sheet)) == 1


def test_hints_are_sentences_and_names_of_functions_stay_as_they_are() -> None:
    sheet = run_cli("trace max(x,y)*sin(x) --x 2 --y 3 --format html --exercise")
    hints = re.findall('class="hint">(.*?)</p>', sheet)
    assert len(hints) == 3
    assert all(re.search(r"\w[.?]$", hint) for hint in hints)
    assert "sin scales by its slope." in hints


def test_names_with_signs_stay_as_they_are() -> None:
    words_of = ["trace", "`a*b`^2*`c - d`*x", "--set", "`a*b`=-2", "--set", "`c - d`=3", "--x=1"]
    for kind in (["--format", "svg"], ["--format", "html", "--exercise"]):
        written = str(run_cli([*words_of, *kind]))
        assert ">a*b<" in written
        assert ">c - d<" in written
        assert "a·b" not in written
        assert "c − d" not in written
    assert ">value −2<" in str(run_cli([*words_of, "--format", "svg"]))


def test_signs_stay_behind_names_that_are_written_from_right_to_left() -> None:
    sheet = run_cli(["trace", "א - ب", "--א", "2", "--ب", "3", "--format", "html", "--exercise"])
    shown = re.sub('="[^"]*"|<desc>.*</desc>|<title>.*</title>', "", sheet)
    assert re.findall("[אب](?!\u200e)", shown) == []

"""`autodiff lesson`: listed, as text, asked in a terminal, as JSON and as a page."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from autodiff_cli.cli.environment import Environment
from autodiff_cli.cli.main import run
from autodiff_cli.explain.lessons import lesson_titles
from tests.support import expect_refusal, run_cli


class Keyboard(io.StringIO):
    def isatty(self) -> bool:
        return True


def asked(name: str, *typed: str) -> str:
    """What a terminal shows of a lesson whose questions are answered so."""
    stdout = io.StringIO()
    keyboard = Keyboard("".join(f"{line}\n" for line in typed))
    assert run(["lesson", name], Environment(keyboard, stdout, io.StringIO(), terminal=True)) == 0
    return stdout.getvalue()


def test_all_are_listed() -> None:
    output = run_cli("lesson")
    listed = run_cli("lesson --json").json["lessons"]
    assert len(listed) >= 8
    for lesson in listed:
        assert lesson["name"] in output
        assert lesson["title"] in output


@pytest.mark.parametrize("name", [*lesson_titles()])
def test_each_runs_in_a_pipe_and_as_json(name: str) -> None:
    output = run_cli(f"lesson {name}")
    assert (output.status, output.stderr) == (0, "")
    document = run_cli(f"lesson {name} --json").json
    for part in (document["title"], document["expression"], "forward pass", "backward pass", "questions"):
        assert part in output
    assert document["questions"]
    assert document["backward"]
    for question in document["questions"]:
        assert question["question"] in output


def test_questions_have_hints_in_two_stages() -> None:
    shown = asked("fan-out", "1", "", "0.540", "-1.46", "x: -2")
    assert "Not yet. Only one operation matters: b = sin(x)" in shown
    assert "cos(1): what is that?" in shown
    assert shown.count("Correct.") == 3
    assert shown.rstrip().endswith("2 of 3 correct on the first try.")


def test_after_both_hints_comes_the_answer_and_q_ends() -> None:
    shown = asked("fan-out", "", "", "", "q")
    assert "It is 0.540302." in shown
    assert "first try" not in shown
    assert "Correct" not in asked("fan-out")  # the input ends


def test_what_is_no_answer_costs_no_hint() -> None:
    shown = asked("fan-out", "half", "0.5.4", "0,54", "-1.46", "7", "x")
    assert shown.count("The answer is a number, rounded to two digits or more") == 2
    assert "The answer is a number from 1 to 4." in shown
    assert shown.rstrip().endswith("3 of 3 correct on the first try.")


def test_a_page_is_one_file(tmp_path: Path) -> None:
    page = tmp_path / "gates.html"
    assert run_cli(f"lesson gates -o {page}").status == 0
    text = page.read_text(encoding="utf-8")
    assert "<title>Gates: distribute, swap, route, scale" in text
    assert "default-src 'none'" in text


def test_what_is_no_lesson() -> None:
    expect_refusal(run_cli("lesson chian"), "there is no lesson `chian`; did you mean `chain`?")
    expect_refusal(run_cli("lesson chain --x 2"), "there is no option --x")
    expect_refusal(run_cli("lesson -o page.html"), "needs the name of a lesson")


def test_a_course_is_a_folder_whose_links_lead_to_its_pages(tmp_path: Path) -> None:
    output = run_cli(["lesson", "--course", "-o", str(tmp_path / "course")])
    assert (output.status, output.stderr) == (0, "")
    pages = {page.name: page.read_text(encoding="utf-8") for page in (tmp_path / "course").iterdir()}
    assert {"index.html", *(f"{name}.html" for name in lesson_titles())} < {*pages}
    for text in pages.values():
        assert {*re.findall(r'<a href="([^"#]*)"', text)} <= {*pages}
        shown = re.sub(r"<(script|style|svg|pre)\b.*?</\1>|<[^>]*>", "", text, flags=re.DOTALL)
        assert not re.search(r"(?<!\w)-[\d.]|\w[*^]\w", shown)  # minus signs are minus signs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("autodiff_cli.explain.lessons.lesson_titles", lambda: {"vanishing": "Vanishing gradients"})
        assert run_cli(["lesson", "--course", "-o", str(tmp_path / "short"), "--digits", "2"]).status == 0
    for folder, hint in (("course", "h2 contributes 0.245533 × 0.230947"), ("short", "h2 contributes 0.25 × 0.23")):
        assert hint in (tmp_path / folder / "vanishing.html").read_text(encoding="utf-8")
    for line in ("lesson --course", f"lesson chain --course -o {tmp_path / 'other'}"):
        expect_refusal(run_cli(line), "--course writes all lessons to a folder")
    assert not (tmp_path / "other").exists()


def test_a_file_for_json_has_the_document(tmp_path: Path) -> None:
    path = tmp_path / "slope.json"
    assert run_cli(["lesson", "slope", "-o", str(path)]).status == 0
    assert path.read_text(encoding="utf-8") == str(run_cli("lesson slope --json"))

"""A lesson on paper: its words, its walk, what it asks, and at the end the answers."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from autodiff_cli.explain.lessons.lesson import Lesson
from autodiff_cli.explain.lessons.questions import Question
from autodiff_cli.render.documents import numbers, trace_document
from autodiff_cli.render.numbers import in_full, shows
from autodiff_cli.render.paper import Column, Paper, Style, TextTable
from autodiff_cli.render.report import Report
from autodiff_cli.render.reports.gradient import assigned
from autodiff_cli.render.reports.steps import trace_report

WIDTH = 100  # columns of a paragraph


def listing_report(titles: Mapping[str, str]) -> Report:
    """The lessons, and how to begin one."""

    def write(paper: Paper) -> None:
        paper.line("Lessons on backpropagation", Style.STRONG)
        paper.line()
        paper.table(TextTable((Column("lesson"), Column("what it is about")), [*titles.items()]))
        paper.line()
        first = next(iter(titles))
        paper.line(f"autodiff lesson {first} begins one; with -o {first}.html it is a page.", Style.FAINT)

    listed = [{"name": name, "title": title} for name, title in titles.items()]
    return Report(write, lambda: [{"lessons": listed}])


def lesson_report(lesson: Lesson, digits: int | None, with_questions: bool = True) -> Report:
    """A lesson.

    Args:
        with_questions: what it asks, and the answers; else somebody asks them, one by one.
    """

    def write(paper: Paper) -> None:
        paper.line(lesson.title, Style.STRONG)
        for paragraph in lesson.text:
            paper.line()
            for line in textwrap.wrap(paragraph, min(WIDTH, paper.width)):
                paper.line(line)
        paper.heading("the walk")
        paper.line()
        trace_report(lesson.trace, digits).write(paper)
        if with_questions:
            _write_questions(paper, lesson, digits)
        paper.line()
        paper.line(f"To walk step by step: {command(lesson)} --step", Style.FAINT)

    return Report(write, lambda: [_document(lesson)])


def command(lesson: Lesson) -> str:
    """What traces the formula of a lesson."""
    values = " ".join(f"--{name}={in_full(value)}" for name, value in lesson.trace.point.items())
    return f'autodiff trace "{lesson.trace.expression.text}" {values}'


def _write_questions(paper: Paper, lesson: Lesson, digits: int | None) -> None:
    paper.heading(heading(lesson, digits))
    for k, asked in enumerate(lesson.questions, 1):
        paper.line(f"  {k}. {asked.text}")
        for line in choices(asked):
            paper.line(f"     {line}")
    paper.heading("hints, then the answers")
    for k, asked in enumerate(lesson.questions, 1):
        paper.line(f"  {k}. {asked.hints[0]}")
        paper.line(f"     {asked.hints[1]}")
        paper.line(f"     {answer(asked, digits)}", Style.STRONG)


def heading(lesson: Lesson, digits: int | None) -> str:
    """What stands above the questions: at which values they are asked."""
    return f"questions, at {assigned(lesson.asked.point, shows(digits)[0])}"


def choices(asked: Question) -> list[str]:
    """What there is to choose from, numbered."""
    return [f"{k}) {choice}" for k, choice in enumerate(asked.choices, 1)]


def answer(asked: Question, digits: int | None) -> str:
    """What is right."""
    if asked.choices:
        return " or ".join(f"{k}) {asked.choices[k - 1]}" for k in asked.right)
    return shows(digits)[1](asked.answer)


def _document(lesson: Lesson) -> dict[str, Any]:
    return {
        "name": lesson.name,
        "title": lesson.title,
        "text": [*lesson.text],
        "asked_at": numbers(lesson.asked.point),
        "questions": [*map(question_document, lesson.questions)],
        **trace_document(lesson.trace),
    }


def question_document(asked: Question) -> dict[str, Any]:
    """A question as JSON has it."""
    found = {"kind": asked.kind, "question": asked.text, "answer": asked.answer, "hints": [*asked.hints]}
    return found | ({"choices": [*asked.choices], "right": [*asked.right]} if asked.choices else {})

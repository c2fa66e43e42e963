"""`autodiff lesson`: backpropagation in lessons, each about one thing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from autodiff_cli.cli.answer import Answer
from autodiff_cli.cli.call import Call
from autodiff_cli.cli.declarations import Digits, Json
from autodiff_cli.cli.environment import Environment
from autodiff_cli.cli.errors import BadInput
from autodiff_cli.language.errors import suggest

if TYPE_CHECKING:
    from autodiff_cli.explain.lessons.lesson import Lesson
    from autodiff_cli.render.paper import Paper
    from autodiff_cli.render.report import Report

_PAGES = (".html", ".htm")
_QUIT = ("q", "quit")


def lesson(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A lesson; all are listed without it.", show_default=False)
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE.html", help="Write the lesson as a page.")
    ] = None,
    digits: Digits = None,
    json: Json = False,
) -> Answer:
    """Lessons on backpropagation: words, a formula, its walk, and questions.

    Every number in them is computed. In a terminal the questions are asked one by one, with two hints, the first of
    them without numbers; elsewhere they stand below the lesson, with the answers at the end.

    \b
    Examples:
      autodiff lesson
      autodiff lesson chain
      autodiff lesson fan-out -o fan-out.html
      autodiff lesson chain --json
    """
    from autodiff_cli.explain.lessons import lesson as lessons
    from autodiff_cli.render.lessons.report import lesson_report, listing_report
    from autodiff_cli.render.numbers import shows

    call = Call.of(context)
    if call.values:
        raise BadInput(f"a lesson has its own values, and takes none such as --{next(iter(call.values))}")
    titles = lessons.titles()
    if name is None:
        if output is not None:
            raise BadInput(f"-o {output}: which lesson? autodiff lesson NAME -o {output}")
        return Answer(listing_report(titles), json)
    if name not in titles:
        close = suggest(name, titles)
        hint = f"did you mean `{close}`?" if close else f"there are {', '.join(titles)}"
        raise BadInput(f"there is no lesson `{name}`; {hint}")
    found = lessons.lesson(name, shows(digits)[1])
    json = json or (output or "").lower().endswith(".json")
    if output is not None and output != "-" and not json and output.lower().endswith(_PAGES):
        return Answer(_page(found, digits), json, output=output)
    is_asked = output is None and not json and call.environment.terminal and call.environment.stdin.isatty()
    answer = Answer(lesson_report(found, digits, not is_asked), json, output=None if output == "-" else output)
    if not is_asked:
        return answer
    return answer._replace(then=lambda: _ask(found, call.environment, digits))


def _page(found: Lesson, digits: int | None) -> Report:
    from autodiff_cli.render.lessons.page import lesson_page
    from autodiff_cli.render.report import Report

    text = lesson_page(found, digits)

    def write(paper: Paper) -> None:
        paper.stream.write(text)

    return Report(write, list, is_data=True)


def _ask(found: Lesson, environment: Environment, digits: int | None) -> None:
    """Ask the questions, until all are answered or the reader has enough."""
    from autodiff_cli.render.lessons.report import answer, choices, heading
    from autodiff_cli.render.paper import Style

    paper, right = environment.paper(), 0
    paper.heading(heading(found, digits))
    paper.line("Two digits of a number are enough. An empty answer gives a hint, q ends.", Style.FAINT)
    for k, asked in enumerate(found.questions, 1):
        paper.line()
        paper.line(f"{k}. {asked.text}", Style.STRONG)
        for line in choices(asked):
            paper.line(f"   {line}")
        hints = [*asked.hints]
        while True:
            environment.stdout.write("> ")
            environment.stdout.flush()
            line = environment.stdin.readline()
            typed = line.strip()
            if not line or typed.lower() in _QUIT:
                paper.line()
                return
            if typed and not asked.is_answer(typed):
                paper.line(asked.wanted)
                continue
            if typed and asked.is_right(typed):
                paper.line("Correct.")
                right += len(hints) == len(asked.hints)
                break
            if not hints:
                paper.line(f"{'Not yet. ' if typed else ''}It is {answer(asked, digits)}.")
                break
            paper.line(f"{'Not yet. ' if typed else ''}{hints.pop(0)}")
    paper.line()
    paper.line(f"{right} of {len(found.questions)} at the first try.", Style.STRONG)

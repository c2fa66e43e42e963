"""Lessons as text and as pages, and exercise sheets.

A lesson has a text, the steps of a formula, questions, hints and answers. An exercise sheet is an HTML file to print or
to fill in on the screen. It has a worksheet with the drawing and all steps of a trace, with blanks, and the key on a
separate page. It has no script.
"""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from autodiff_cli.data.json_records import pick, to_json
from autodiff_cli.explain.lessons import Lesson, Question, is_session
from autodiff_cli.explain.record import BackwardStep, Contribution, ForwardStep, Trace
from autodiff_cli.explain.sentences import NEGLIGIBLE, StepSentences, label_with_definition
from autodiff_cli.graph.node import Gate
from autodiff_cli.language.lexer import quote_name
from autodiff_cli.render.drawing import SVG_STYLE, Drawing, View, build_drawing, graph_shapes, safe_label
from autodiff_cli.render.formatting import NumberFormat, in_print, markup, number_formats, shortest_text
from autodiff_cli.render.gradient import assignments_text
from autodiff_cli.render.html_page import PageAddition, plain_page, to_html
from autodiff_cli.render.javascript import page_file
from autodiff_cli.render.report import Column, Paper, Report, Style, TextTable
from autodiff_cli.render.trace import trace_document, trace_report

# --- Lessons ---

PARAGRAPH_WIDTH = 100  # columns: longer lines are hard to read


def lesson_list_report(titles: Mapping[str, str]) -> Report:
    """Report the available lessons and how to start one."""

    def write(paper: Paper) -> None:
        paper.line("Lessons on backpropagation", Style.STRONG)
        paper.line()
        paper.table(TextTable((Column("lesson"), Column("topic")), [*titles.items()]))
        paper.line()
        first = next(iter(titles))
        hint = f"Run `autodiff lesson {first}` to start a lesson; add `-o {first}.html` to write it as a page."
        paper.line(hint, Style.FAINT)

    listed = [{"name": name, "title": title} for name, title in titles.items()]
    return Report(write, lambda: [{"lessons": listed}])


def lesson_report(lesson: Lesson, with_questions: bool = True) -> Report:
    """Report a lesson.

    Args:
        with_questions: whether to write all questions and answers; an interactive lesson asks them one by one.
    """

    def write(paper: Paper) -> None:
        paper.line(lesson.title, Style.STRONG)
        for paragraph in lesson.text:
            paper.line()
            width = min(PARAGRAPH_WIDTH, paper.width)
            for line in paragraph.split("\n") if is_session(paragraph) else textwrap.wrap(paragraph, width):
                paper.line(line)
        paper.heading("step by step")
        paper.line()
        trace_report(lesson.trace).write(paper)
        if with_questions:
            _write_questions(paper, lesson)
        paper.line()
        paper.line(f"To step through it: {trace_command(lesson)} --step", Style.FAINT)

    return Report(write, lambda: [_lesson_document(lesson)])


def trace_command(lesson: Lesson) -> str:
    """Return the command that traces the formula of a lesson."""
    values = " ".join(f"--{name}={shortest_text(value)}" for name, value in lesson.trace.point.items())
    return f'autodiff trace "{lesson.trace.expression.text}" {values}'


def _write_questions(paper: Paper, lesson: Lesson) -> None:
    paper.heading(questions_heading(lesson, paper.in_full))
    for k, question in enumerate(lesson.questions, 1):
        paper.line(f"  {k}. {question.text}")
        for line in numbered_choices(question):
            paper.line(f"     {line}")
    paper.heading("hints, then the answers")
    for k, question in enumerate(lesson.questions, 1):
        paper.line(f"  {k}. {question.hints[0]}")
        paper.line(f"     {question.hints[1]}")
        paper.line(f"     {answer_text(question, paper.brief)}", Style.STRONG)


def questions_heading(lesson: Lesson, show: NumberFormat) -> str:
    """Return the heading of the questions, with the values at which they are asked."""
    return f"questions, at {assignments_text(lesson.question_trace.point, show)}"


def numbered_choices(question: Question) -> list[str]:
    """Return the choices of a question, numbered."""
    return [f"{k}) {choice}" for k, choice in enumerate(question.choices, 1)]


def answer_text(question: Question, show: NumberFormat) -> str:
    """Return the correct answer."""
    if question.choices:
        return " or ".join(f"{k}) {question.choices[k - 1]}" for k in question.correct)
    return show(question.answer)


def _lesson_document(lesson: Lesson) -> dict[str, Any]:
    return {
        **pick(lesson, "name", "title", "text"),
        "asked_at": to_json(lesson.question_trace.point),
        "questions": [*map(question_document, lesson.questions)],
        **trace_document(lesson.trace),
    }


def question_document(question: Question) -> dict[str, Any]:
    """Return a question for JSON."""
    document = {"kind": question.kind, "question": question.text, "answer": question.answer, "hints": [*question.hints]}
    return document | ({"choices": [*question.choices], "right": [*question.correct]} if question.choices else {})


def _printed(text: str) -> str:
    """Return the markup of a text with the signs of mathematics, and code between backticks."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", markup(in_print(text)))


def lesson_page(lesson: Lesson, digits: int | None = None, links: str = "") -> str:
    """Return a lesson as a self-contained HTML page: its text and questions beside the steps of its formula.

    Args:
        links: the markup of links to other pages of a course.
    """
    tags = (("pre", ' tabindex="0"') if is_session(text) else ("p", "") for text in lesson.text)
    texts = (markup(text) if is_session(text) else _printed(text) for text in lesson.text)
    pairs = zip(tags, texts, strict=True)
    paragraphs = "\n".join(f"<{tag}{attributes}>{text}</{tag}>" for (tag, attributes), text in pairs)
    text = page_file("lessons/lesson.html").format(
        title=_printed(lesson.title),
        paragraphs=paragraphs,
        questions=_printed(questions_heading(lesson, number_formats(digits)[0]).capitalize()),
        links=links,
    )
    questions = [question_document(question) for question in lesson.questions]
    data = {"lesson": lesson.name, "questions": questions, "isInCourse": bool(links)}
    style, script = page_file("lessons/lesson.css"), page_file("lessons/lesson.js")
    addition = PageAddition(lesson.title, text.rstrip(), style, script, data, is_panel=True)
    return to_html(lesson.trace, digits=digits, addition=addition)


def course_pages(lessons: Sequence[Lesson], digits: int | None = None) -> Iterator[tuple[str, str]]:
    """Yield the file name and the text of each page of a course: the lessons, an index, the answers for teachers."""
    in_full, brief = number_formats(digits)
    for before, lesson, after in zip([None, *lessons], lessons, [*lessons[1:], None], strict=False):
        others = [(f"{way}: {page.title}", page.name) for way, page in (("Previous", before), ("Next", after)) if page]
        links = [f'<a href="{name}.html">{_printed(text)}</a>' for text, name in [*others, ("All lessons", "index")]]
        navigation = f'<nav class="course" aria-label="Course">{"".join(links)}</nav>\n'
        yield f"{lesson.name}.html", lesson_page(lesson, digits, navigation)
    items = (
        f'<li><a href="{lesson.name}.html">{_printed(lesson.title)}</a> '
        f"<code>{_printed(lesson.trace.expression.text)}</code> "
        f'<span class="progress" data-lesson="{lesson.name}" data-count="{len(lesson.questions)}"></span></li>'
        for lesson in lessons
    )
    start = "<p>In each lesson: read, predict what the next step gives, play it, then answer the questions.</p>"
    yield "index.html", _course_page("Backpropagation, a course", f"{start}<ol>{''.join(items)}</ol>")
    answers = "".join(
        f"<h2>{_printed(lesson.title)}</h2><p>{_printed(questions_heading(lesson, in_full).capitalize())}</p><ol>"
        + "".join(
            f"<li>{_printed(question.text)} <strong>{_printed(answer_text(question, brief))}</strong></li>"
            for question in lesson.questions
        )
        + "</ol>"
        for lesson in lessons
    )
    yield "answers.html", _course_page("Answers, for teachers", answers)


def _course_page(title: str, content: str) -> str:
    """Return a page of a course that has no graph."""
    body = f"<main>\n<h1>{title}</h1>\n{content}\n</main>"
    return plain_page(title, page_file("lessons/course.css"), body, page_file("lessons/course.js"))


# --- Exercise sheets ---

_DRAWING_MARGIN = 8  # pixels
_RESERVED_CHARACTERS = 9  # characters of space for each number, so that blanks have room
_DATA = re.compile(r' data-(?:value|adjoint)="[^"]*"')
_MAX_BLANK_OPERATIONS = 6  # operations of a drawing with blanks; in larger drawings, blanks would be too small
_MAX_PAGE_OPERATIONS = 23  # operations that fit on a page in small print; longer sheets take several pages
_MAX_FULL_SIZE_OPERATIONS = 11  # operations that fit on a page in full size
_BLANK = "____"


def exercise_sheet(trace: Trace, view: View, digits: int | None = None) -> str:
    """Return a trace as a self-contained exercise sheet in HTML.

    Args:
        view: the part of the graph to draw.
        digits: the number of significant digits.

    Raises:
        GraphTooLargeError: if the graph has too many nodes to draw.
    """
    text = safe_label(trace.expression.text)
    body = f"<main>\n{_Sheet(trace, view, digits).pages()}</main>"
    count = sum(1 for _ in trace.forward)
    size = count if count <= _MAX_PAGE_OPERATIONS else _MAX_FULL_SIZE_OPERATIONS
    style = f"{SVG_STYLE}{page_file('lessons/exercise.css')}:root {{ --operations: {size}; }}"
    return plain_page(f"exercise: {text}", style, body)


class _Sheet:
    """The worksheet and the key of an exercise."""

    def __init__(self, trace: Trace, view: View, digits: int | None) -> None:
        self._trace = trace
        self._format_full, self._format_brief = number_formats(digits)
        self._sentences = StepSentences(trace, self._format_brief)
        point = [None if node.op else value for node, value in zip(trace.tape.nodes, trace.values, strict=True)]
        blanked = dataclasses.replace(trace, values=point)
        self._questions = StepSentences(blanked, lambda x: _BLANK if x is None else self._format_brief(x))
        has_blanks = sum(1 for _ in trace.forward) <= _MAX_BLANK_OPERATIONS
        drawing = _without_results(build_drawing(trace, view), _BLANK if has_blanks else None)
        room = _RESERVED_CHARACTERS if has_blanks else 0
        self._size, self._shapes, _ = graph_shapes(drawing, lambda x: x if x is _BLANK else self._format_brief(x), room)
        self._given_hints: set[str] = set()
        self._has_plain_names = all(quote_name(name) == name for name in trace.point)

    def _text(self, text: str) -> str:
        """Return a text for the sheet, with the signs of mathematics unless names have signs, as `a-b` does."""
        return markup(in_print(safe_label(text)) if self._has_plain_names else safe_label(text))

    def pages(self) -> str:
        """Return the worksheet with all steps, and the key."""
        trace, text = self._trace, self._text
        values = ", ".join(f"{text(key)} = {text(self._format_full(x))}" for key, x in trace.point.items())
        blanks = (f"<li>d/d{text(key)} = {_blank_field(f'd/d{key}')}</li>" for key in trace.gradient)
        slopes = (f"<li>d/d{text(key)} = {text(self._format_full(x))}</li>" for key, x in trace.gradient.items())
        answers = (f"<li>{text(self._sentences.forward(step))}</li>" for step in trace.forward)
        width, height = self._size.width + 2 * _DRAWING_MARGIN, self._size.height + 2 * _DRAWING_MARGIN
        steps = map(self._forward_item, trace.forward), map(self._backward_item, trace.backward), blanks
        return page_file("lessons/exercise.html").format(
            formula=text(trace.expression.text),
            point=f"<p>at {values}</p>\n" if values else "",
            shape="tall" if height > width else "wide",
            width=width,
            height=height,
            margin=_DRAWING_MARGIN,
            drawing=_DATA.sub("", "\n".join(self._shapes)),
            steps=_lists(2, *steps),
            key=_lists(3, answers, map(self._backward_answer, trace.backward), slopes),
        )

    def _forward_item(self, step: ForwardStep) -> str:
        question = self._questions.forward(step._replace(value=None)).rpartition(_BLANK)[0]
        return f"<li>{self._text(question)}{_blank_field(f'Value of {self._trace.labels[step.node]}')}</li>"

    def _backward_item(self, step: BackwardStep) -> str:
        label = self._trace.labels[step.node]
        task = self._text(label_with_definition(self._trace, step.node))
        adjoint = "1" if step.node in self._trace.tape.outputs else _blank_field(f"Adjoint of {label}")
        text = self._hint(step)
        rule = " ".join(text.split()[:3])  # as in "A product swaps: x gets …"
        hint = "" if rule in self._given_hints else f'<p class="hint">{self._text(text)}</p>'
        self._given_hints.add(rule)
        items = "".join(self._contribution_item(step, contribution) for contribution in step.contributions)
        return f"<li>{task}: adjoint {adjoint}{hint}<ul>{items}</ul></li>"

    def _hint(self, step: BackwardStep) -> str:
        """Return how the operation passes its adjoint on, without numbers."""
        sentence = self._sentences.backward(step).removesuffix(NEGLIGIBLE)
        if step.op.gate is Gate.ROUTE and not step.op.is_structural:
            return "This operation selects: which input receives the adjoint, and which receives 0?"
        hint = re.split(r"[,:]", sentence)[0] if step.op.gate is Gate.SCALE else sentence
        return re.sub("^(a|its) ", lambda word: word[0].capitalize(), f"{hint}.")

    def _contribution_item(self, step: BackwardStep, contribution: Contribution) -> str:
        label = self._trace.labels[contribution.to]
        if contribution.local is None:
            rule = self._sentences.contribution(step, contribution).partition(": ")[2].partition(" = ")[0]
            product = f"{self._text(rule)} = "
        else:
            product = f"{_blank_field(f'Local derivative towards {label}')} × adjoint = "
        total = ""
        if contribution.uses > 1 and not contribution.is_structural_zero:
            total = f"; total after use {contribution.use} of {contribution.uses}: {_blank_field(f'Total of {label}')}"
        return f"<li>{self._text(label)}: {product}{_blank_field(f'Amount for {label}')}{total}</li>"

    def _backward_answer(self, step: BackwardStep) -> str:
        label = self._text(self._trace.labels[step.node])
        adjoint = self._text(self._format_brief(step.adjoint))
        sentence = self._sentences.backward(step)
        reason = "" if sentence in self._given_hints else f": {self._text(sentence)}"
        self._given_hints.add(sentence)
        contributions = () if self._trace.adjoints_or_none[step.node] is None else step.contributions
        items = "".join(f"<li>{self._text(self._sentences.contribution(step, term))}</li>" for term in contributions)
        return f"<li>{label}, adjoint {adjoint}{reason}<ul>{items}</ul></li>"


def _without_results(drawing: Drawing, blank: str | None) -> Drawing:
    """Return a drawing with `blank` in place of the numbers that are to be computed; with None it needs less room."""
    nodes = drawing.trace.tape.nodes
    boxes = [
        box._replace(value=blank if nodes[box.id].op else box.value, adjoint=None if box.adjoint is None else blank)
        for box in drawing.boxes
    ]
    return drawing._replace(boxes=boxes, arrows=[arrow._replace(local=None) for arrow in drawing.arrows])


def _lists(level: int, forward: Iterable[str], backward: Iterable[str], gradient: Iterable[str]) -> str:
    """Return lists under headings of a level, without those that have no items."""
    lists = ("Forward", "ol", forward), ("Backward", "ol", backward), ("The gradient", "ul", gradient)
    items = [(title, tag, "".join(parts)) for title, tag, parts in lists]
    return "".join(f"<h{level}>{title}</h{level}>\n<{tag}>{text}</{tag}>\n" for title, tag, text in items if text)


def _blank_field(label: str) -> str:
    return f'<input class="blank" autocomplete="off" aria-label="{markup(safe_label(label))}">'

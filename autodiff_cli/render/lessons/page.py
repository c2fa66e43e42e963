"""A lesson as a page: its words and questions above the walk of its formula."""

from __future__ import annotations

from html import escape
from pathlib import Path

from autodiff_cli.explain.lessons.lesson import Lesson
from autodiff_cli.render.lessons.report import heading, question_document
from autodiff_cli.render.page.html import Addition, to_html

_FOLDER = Path(__file__).parent


def lesson_page(lesson: Lesson, digits: int | None = None) -> str:
    """The page, in one file that needs nothing else."""
    paragraphs = "\n".join(f"<p>{escape(text)}</p>" for text in lesson.text)
    markup = f"""<div class="lessons"><section class="lesson" aria-labelledby="lesson-title">
<h2 id="lesson-title">{escape(lesson.title)}</h2>
{paragraphs}
</section>
<section class="lesson" aria-labelledby="asked-title">
<h2 id="asked-title">{escape(heading(lesson, digits).capitalize())}</h2>
<p class="hint">The values below can be changed to these, to see.</p>
<ol id="lesson-questions"></ol>
</section></div>"""
    data = {"questions": [question_document(asked) for asked in lesson.questions]}
    style, script = ((_FOLDER / f"lesson.{ending}").read_text(encoding="utf-8") for ending in ("css", "js"))
    return to_html(lesson.trace, digits=digits, addition=Addition(lesson.title, markup, style, script, data))

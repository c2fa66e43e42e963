"""`autodiff lesson`: lessons on backpropagation, as text, as a page, or with questions in the terminal; and `autodiff
serve`: a web page for formulas and fits, from a server on this machine."""

from __future__ import annotations

import importlib.util
import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from autodiff_cli.cli.command_line import Call, command
from autodiff_cli.cli.environment import BadInput, Environment, Output, errors_as_failure
from autodiff_cli.language.errors import spelling_hint
from autodiff_cli.options import between, option, suffix

if TYPE_CHECKING:
    from autodiff_cli.explain.lessons import Lesson
    from autodiff_cli.render.report import Report


_FILE = suffix(".html", ".htm", ".json", ".txt", "")


_COURSE_HELP = "Write all lessons, an index and the answers to the folder given by -o."


@command()
def lesson(
    call: Call,
    name: str | None = option("[NAME]", "Name of a lesson (default: list all)."),
    output: str | None = option("--output, -o FILE.html", "Write the lesson as a web page."),
    course: bool = option("--course", _COURSE_HELP),
) -> Output:
    """Learn backpropagation: each lesson has text, a formula traced step by step, and questions.

    In a terminal the questions are asked one by one, with two hints each. Elsewhere they follow the lesson, with the
    answers at the end.

    \b
    Examples:
      autodiff lesson
      autodiff lesson chain
      autodiff lesson fan-out -o fan-out.html
      autodiff lesson chain --json
      autodiff lesson --course -o course
    """
    from autodiff_cli.explain import lessons
    from autodiff_cli.render.formatting import number_formats
    from autodiff_cli.render.lesson import course_pages, lesson_list_report, lesson_page, lesson_report
    from autodiff_cli.render.report import text_report

    environment, titles = call.environment, lessons.lesson_titles()
    digits = environment.digits
    if course:
        if name is not None or output is None:
            raise BadInput("--course writes all lessons to a folder: autodiff lesson --course -o FOLDER")
        every = [lessons.load_lesson(key, number_formats(digits)[1]) for key in titles]
        return Output(_write_course(course_pages(every, digits), Path(output)))
    if name is None:
        if output is not None:
            raise BadInput(f"-o {output} needs the name of a lesson: autodiff lesson NAME -o {output}")
        return Output(lesson_list_report(titles))
    if name not in titles:
        hint = spelling_hint(name, titles, f"the lessons are {', '.join(titles)}")
        raise BadInput(f"there is no lesson `{name}`; {hint}")
    lesson_record = lessons.load_lesson(name, number_formats(digits)[1])
    _FILE.require("-o", output or "")
    if output is not None and not environment.json and output.lower().endswith((".html", ".htm")):
        return Output(text_report(lesson_page(lesson_record, digits)), path=output)
    is_interactive = output is None and not environment.json and environment.terminal and environment.stdin.isatty()
    report = lesson_report(lesson_record, not is_interactive)
    ask = (lambda: _ask_questions(lesson_record, environment)) if is_interactive else None
    return Output(report, path=output, after_write=ask)


def _write_course(pages: Iterable[tuple[str, str]], folder: Path) -> Report:
    """Write the pages of a course to a folder, which is created if necessary; return a report of that."""
    from autodiff_cli.render.report import Report
    from autodiff_cli.system import write_text

    texts = dict(pages)
    with errors_as_failure(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            write_text(folder / file, text)
    sentence = f"course of {len(texts)} pages written; open {folder / 'index.html'}"
    return Report(lambda paper: paper.line(sentence), lambda: [{"folder": str(folder), "pages": [*texts]}])


def _ask_questions(lesson: Lesson, environment: Environment) -> None:
    """Ask the questions until all are answered or the reader quits."""
    from autodiff_cli.render.lesson import answer_text, numbered_choices, questions_heading
    from autodiff_cli.render.report import Style

    paper, correct_count = environment.paper(), 0
    paper.heading(questions_heading(lesson, paper.in_full))
    paper.line("Two digits are enough. Press Enter for a hint, q to quit.", Style.FAINT)
    for k, question in enumerate(lesson.questions, 1):
        paper.line()
        paper.line(f"{k}. {question.text}", Style.STRONG)
        for line in numbered_choices(question):
            paper.line(f"   {line}")
        hints = [*question.hints]
        while True:
            environment.stdout.write("> ")
            environment.stdout.flush()
            line = environment.stdin.readline()
            typed = line.strip()
            if not line or typed.lower() in ("q", "quit"):
                paper.line()
                return
            if typed and not question.is_valid(typed):
                paper.line(question.expected_form)
                continue
            if typed and question.is_correct(typed):
                paper.line("Correct.")
                correct_count += len(hints) == len(question.hints)
                break
            if not hints:
                paper.line(f"{'Not yet. ' if typed else ''}It is {answer_text(question, paper.brief)}.")
                break
            paper.line(f"{'Not yet. ' if typed else ''}{hints.pop(0)}")
    paper.line()
    paper.line(f"{correct_count} of {len(lesson.questions)} correct on the first try.", Style.STRONG)


# --- serve ---

_PORT = 8765
_HOST = "127.0.0.1"
_REQUIRED_PACKAGES = ("starlette", "uvicorn")


@command()
def serve(
    call: Call,
    port: int = option("--port N", "Port; 0 chooses a free one.", between(0, 65535), default=_PORT),
    no_browser: bool = option("--no-browser", "Print the address without opening a browser."),
) -> Output:
    """Start a web page for formulas and fits, on this machine.

    The server listens on 127.0.0.1 only and answers only its own page. It reads only the files that you choose there,
    and writes none. A trace may take up to 20 seconds, a fit 60 seconds, and a file may have up to 32 MB.
    Press Ctrl-C to stop.

    \b
    Examples:
      autodiff serve
      autodiff serve --port 9000 --no-browser
    """
    if any(importlib.util.find_spec(name) is None for name in _REQUIRED_PACKAGES):
        raise BadInput(f"serve needs {' and '.join(_REQUIRED_PACKAGES)}: pip install {' '.join(_REQUIRED_PACKAGES)}")
    with _open_listener(port) as listener:
        port = listener.getsockname()[1]
        address = f"http://{_HOST}:{port}/"
        call.environment.stdout.write(f"{address}  (press Ctrl-C to stop)\n")
        call.environment.stdout.flush()
        if not no_browser:
            import webbrowser

            webbrowser.open(address)
        _serve_forever(listener, port)
    return Output(None)


def _open_listener(port: int) -> socket.socket:
    """Return a listening socket on 127.0.0.1.

    Raises:
        BadInput: if the port is in use or not allowed.
    """
    try:
        return socket.create_server((_HOST, port))
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise BadInput(f"--port {port}: {reason}; use --port 0 for a free port") from error


def _serve_forever(listener: socket.socket, port: int) -> None:
    """Serve requests until interrupted."""
    import uvicorn

    from autodiff_cli.cli.server import application

    settings = uvicorn.Config(
        application(port),
        log_level="error",
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        limit_concurrency=32,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(settings).run(sockets=[listener])

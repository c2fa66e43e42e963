"""The worker process of `autodiff serve`: it computes one answer and exits, writes no file, and may be killed.

Standard input has the question, a JSON document on one line, followed by the bytes of a data file if there is one.
Standard output gets the answer, one JSON document. If it has a key `error`, that is the message that a terminal would
show.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from autodiff_cli.cli.environment import BadInput, Environment, open_data_files
from autodiff_cli.cli.inputs import constant_values, split_uncertainties
from autodiff_cli.data.dialect import DEFAULT_FILE_OPTIONS
from autodiff_cli.explain.record import Trace, array_shape
from autodiff_cli.explain.tracing import trace
from autodiff_cli.expression import parse
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.tape import format_shape
from autodiff_cli.language.errors import ExpressionError, InputError
from autodiff_cli.language.lexer import canonical_name, quote_name, split_outside_brackets
from autodiff_cli.render.gradient import example_value
from autodiff_cli.render.html_page import served_addition, to_html
from autodiff_cli.training.options import FitOptions

if TYPE_CHECKING:
    from autodiff_cli.data.files import DataSource


_MAX_MEMORY = 8 << 30  # bytes of address space; most of it is never used
FIT_OPTIONS = {"loss": str, "optimizer": str, "epochs": int, "learning_rate": float}  # options on the page
# Labels of the page's fields, by the options that they stand for in a terminal.
_FIELDS = {f"--{name.replace('_', '-')}": name.replace("_", " ").capitalize() for name in FIT_OPTIONS}
_FIELDS["--lr"] = _FIELDS["--learning-rate"]


def answer_question(question: Mapping[str, Any], data: BinaryIO) -> dict[str, Any]:
    """Return the answer to a question; its key `ask` is `trace`, `fit`, `row`, `learn` or `course`."""
    pages = {"trace": _trace_page, "row": _row_page, "learn": _learning_page, "course": _course_page}
    try:
        return {"fit": _fit_report, **pages}[question["ask"]](question, data)
    except InputError as error:
        return {"error": page_message(f"error: {error}")}
    except MemoryError:
        return {"error": "error: not enough memory"}


def page_message(text: str) -> str:
    """Return a message of a terminal with the names of the page's fields, and a note if it mentions other options.

    >>> print(page_message("try a smaller --lr or --clip-norm"), end="")
    try a smaller Learning rate or --clip-norm
    note: this page has no field for --clip-norm; `autodiff train` in a terminal has
    >>> print(page_message("`t` is no column of the data. If this is intended, add --no-columns"))
    `t` is no column of the data
    """
    text = re.sub(r"[.;] [Ii]f this is intended, add --[\w-]+", "", text.replace("standard input", "the file"))
    text = re.sub(r"--\S+ is not an option, and ", "", text)
    text = re.sub(r"--[a-z][\w-]*", lambda match: _FIELDS.get(match[0], match[0]), text)
    missing = re.search(r"(?<!grad )--[a-z][\w-]*", text)
    note = missing and f"\nnote: this page has no field for {missing[0]}; `autodiff train` in a terminal has\n"
    return text.rstrip() + note if note else text


def parse_values(text: str) -> dict[str, str]:
    """Parse values such as `x=2, v=[1, 2]`, also without commas, into texts by name.

    Raises:
        BadInput: for another form, and for a repeated name.

    >>> parse_values("x=2, W=[[1, 2], [3, 4]]; y=max(1, 2)")
    {'x': '2', 'W': '[[1, 2], [3, 4]]', 'y': 'max(1, 2)'}
    >>> parse_values("x=2 y = 3")
    {'x': '2', 'y': '3'}
    """
    texts: dict[str, str] = {}
    separated = re.sub(r"\s+(?=(?:`[^`]*`|[^\W\d][\w.]*)\s*=(?!=))", ";", text)
    for part in filter(str.strip, split_outside_brackets(separated, ",;\n")):
        name, sign, value = part.partition("=")
        if not sign or not name.strip() or not value.strip():
            raise BadInput(f"values have the form x=2, y=3, not `{part.strip()}`")
        name = canonical_name(name.strip().strip("`"))
        if name in texts:
            raise BadInput(f"`{name}` has two values")
        texts[name] = value.strip()
    return texts


def _trace_page(question: Mapping[str, Any], _data: BinaryIO) -> dict[str, Any]:
    """Return the page of a formula at a point; a note lists the values of variables that had none."""
    texts, errors = split_uncertainties(parse_values(question["values"]))
    if errors:
        raise BadInput(f"the page shows no uncertainty: leave out the error of `{next(iter(errors))}`")
    formula = parse(question["formula"], [*texts])
    formula.check_names(texts)
    values = constant_values(texts)
    examples = {name: text for name, text in _example_values(formula, values).items() if name not in texts}
    values |= constant_values(examples)
    notes = [f"note: {note}" for note in formula.notes]
    if examples:
        notes.append("note: example values were used for " + ", ".join(map(" = ".join, examples.items())))
    trace_record = trace(formula, {name: values[name] for name in formula.variables})
    return _page(trace_record, question["formula"], question["values"], notes)


def _example_values(formula: Formula, values: Mapping[str, Any]) -> dict[str, str]:
    """Return an example value for each variable, as text, with a shape that fits the given values."""
    declared = [f"{quote_name(name)}: {format_shape(array_shape(x))}; " for name, x in values.items() if array_shape(x)]
    try:
        shapes = parse("".join(declared) + formula.text, [*values]).example_shapes()
    except ExpressionError:  # `_trace_page` reports the error with the text as typed
        shapes = formula.example_shapes()
    return {name: example_value(shapes.get(name, ())).strip('"') for name in formula.variables}


def _page(record: Trace, formula: str, values: str, notes: list[str]) -> dict[str, Any]:
    return {"page": to_html(record, addition=served_addition(formula, values, "\n".join(notes)))}


def _fit_report(question: Mapping[str, Any], data: BinaryIO) -> dict[str, Any]:
    """Return the report of a fit as a terminal shows it, and its parameters."""
    content = data.read()
    words = ["train", *(f"--set={name}={text}" for name, text in parse_values(question["values"]).items())]
    words += [f"--{name.replace('_', '-')}={text}" for name, text in question.get("options", {}).items()]
    words += ["--", _check_model(question["model"]), "-"]
    status, *texts = _run_command_line(words, content)
    report, notes = map(page_message, texts)
    if status not in (0, 1) or not report:
        return {"error": notes.strip()}
    document = json.loads(_run_command_line(["train", "--json", *words[1:]], content)[1])
    stored = {"parameters": document["parameters"], "scale": document.get("scale")}
    return {"report": report, "notes": notes, "stored": stored, "rows": document["rows"]}


def _check_model(text: str) -> str:
    """Return the text of a model, which must not name a file here.

    Raises:
        BadInput: for `-`, for `@FILE`, and for an empty text.
    """
    if text.strip().startswith("@") or text.strip() in ("", "-"):
        raise BadInput("type a model, such as y ~ a*exp(-b*x); only the chosen file is read here")
    return text


def _run_command_line(words: list[str], content: bytes) -> tuple[int, str, str]:
    """Run a command line; return its status, its standard output and its standard error."""
    from autodiff_cli.cli.main import run

    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        status = run(words, _environment(content)._replace(stdout=stdout, stderr=stderr))
    return status, stdout.getvalue(), stderr.getvalue()


def _row_page(question: Mapping[str, Any], data: BinaryIO) -> dict[str, Any]:
    """Return the page of the loss at a row of data, at the parameters of a fit."""
    import numpy as np

    from autodiff_cli.training.fitting.row_loss import trace_model_row

    values = {
        name: np.array(value) if isinstance(value, list) else float(value)
        for name, value in question["parameters"].items()
    }
    model, options = _check_model(question["model"]), _fit_options(question)
    options = dataclasses.replace(options, scale=question["scale"])
    row = trace_model_row(model, _open_data(data), question["row"], values, options)
    notes = [f"note: the loss of row {question['row']} at the fitted parameters", *row.notes]
    return _page(trace(row.formula, row.point, row.free_parameters), question["model"], "", notes)


def _learning_page(question: Mapping[str, Any], data: BinaryIO) -> dict[str, Any]:
    """Return the page that shows the progress of a fit."""
    from autodiff_cli.cli.train import learning_page
    from autodiff_cli.training.fitting.fit import fit_objective
    from autodiff_cli.training.fitting.progress import Recorder
    from autodiff_cli.training.objective.model import Model
    from autodiff_cli.training.objective.objective import Objective

    files, start = _open_data(data), constant_values(parse_values(question["values"]))
    choices = dataclasses.replace(_fit_options(question), start=start)
    objective = Objective.of(Model.parse(_check_model(question["model"]), files.names, start), files, choices)
    recorder = Recorder.for_objective(objective)
    fit = fit_objective(objective, dataclasses.replace(choices, on_epoch=recorder.add))
    return {"page": learning_page(objective, recorder, fit, choices, None)}


def _fit_options(question: Mapping[str, Any]) -> FitOptions:
    """Return the options of a fit that were set on the page."""
    return FitOptions(**{name: FIT_OPTIONS[name](text) for name, text in question.get("options", {}).items()})


def _course_page(question: Mapping[str, Any], _data: BinaryIO) -> dict[str, Any]:
    """Return a page of the course by the name of its file."""
    from autodiff_cli.explain.lessons import lesson_titles, load_lesson
    from autodiff_cli.render.formatting import number_formats
    from autodiff_cli.render.lesson import course_pages

    lessons = [load_lesson(name, number_formats(None)[1]) for name in lesson_titles()]
    page = next((text for file, text in course_pages(lessons) if file == question["file"]), None)
    return {"error": "error: the course has no such page"} if page is None else {"page": page}


def _open_data(data: BinaryIO) -> DataSource:
    """Open the data with default options."""
    return open_data_files(["-"], _environment(data.read()), DEFAULT_FILE_OPTIONS)


def _environment(content: bytes) -> Environment:
    """Return an environment with this content on standard input and discarded output."""
    return Environment(io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"), io.StringIO(), io.StringIO())


def _limit_process(seconds: float) -> None:
    """Limit the CPU time and memory of this process, and forbid writing to files."""
    try:
        import resource
    except ImportError:  # Windows: only the server's time limit applies
        return
    limits = {resource.RLIMIT_CPU: 1 + round(8 * seconds), resource.RLIMIT_FSIZE: 0, resource.RLIMIT_AS: _MAX_MEMORY}
    for which, most in limits.items():
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(which, (most, most))


def main() -> None:
    """Answer the question on standard input."""
    os.environ["AUTODIFF_CACHE"] = "off"
    question = json.loads(sys.stdin.buffer.readline())
    _limit_process(question["seconds"])
    sys.stdout.write(json.dumps(answer_question(question, sys.stdin.buffer)))


if __name__ == "__main__":
    main()

"""A process that answers one question and ends: it may be killed when it takes too long, and writes no file.

Standard input has the question, a JSON document on one line, and after that the bytes of a data file if there is one.
Standard output gets the answer, one JSON document: with `error`, the message that a terminal would show, or without.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from autodiff_cli.cli.environment import Environment
    from autodiff_cli.data.several import DataFiles
    from autodiff_cli.explain.record import Trace
    from autodiff_cli.formula.formula import Formula

_MEMORY = 8 << 30  # bytes of addresses, of which most are never used
_STDIN, _FILE = "standard input", "the file"  # what it is called there, and here
_SEPARATOR = re.compile(r"[,;\n](?![^\[]*\])")  # outside brackets


def answer(question: Mapping[str, Any], data: BinaryIO) -> dict[str, Any]:
    """The answer to a question, of which `ask` says what it is."""
    from autodiff_cli.cli.errors import BadInput
    from autodiff_cli.data.table import DataError
    from autodiff_cli.language.errors import ExpressionError
    from autodiff_cli.render.drawing.layout import TooLarge
    from autodiff_cli.training.errors import OptionError

    asked = {"trace": _traced, "fit": _fitted, "row": _row, "learn": _learning}[question["ask"]]
    try:
        return asked(question, data)
    except (BadInput, ExpressionError, DataError, OptionError, TooLarge) as error:
        return {"error": f"error: {error}".replace(_STDIN, _FILE)}
    except MemoryError:
        return {"error": "error: there is not enough memory for this"}


def values_of(text: str) -> dict[str, str]:
    """The texts of values that are written as `x=2, v=[1, 2]`.

    Raises:
        BadInput: for another text.

    >>> values_of("x=2, v=[1, 2]; y=pi/4")
    {'x': '2', 'v': '[1, 2]', 'y': 'pi/4'}
    """
    from autodiff_cli.cli.errors import BadInput
    from autodiff_cli.language.lexer import canonical

    found: dict[str, str] = {}
    for part in filter(str.strip, _SEPARATOR.split(text)):
        name, sign, value = part.partition("=")
        if not sign or not name.strip() or not value.strip():
            raise BadInput(f"values are written as x=2, y=3, not `{part.strip()}`")
        name = canonical(name.strip().strip("`"))
        if name in found:
            raise BadInput(f"`{name}` has two values")
        found[name] = value.strip()
    return found


def _traced(question: Mapping[str, Any], _data: BinaryIO) -> dict[str, Any]:
    """The page of a formula at a point; a variable without a value gets one, which is said."""
    from autodiff_cli.cli.inputs import constant_values
    from autodiff_cli.explain.tracing import trace
    from autodiff_cli.front import parse
    from autodiff_cli.language.errors import UnknownNameError, suggest

    given = values_of(question["values"])
    formula = parse(question["formula"], [*given])
    for name in given:
        if name not in formula.leaves:
            message = f"the expression has no variable `{name}`"
            raise UnknownNameError(message, suggestion=suggest(name, formula.leaves))
    values = constant_values(given)
    chosen = {name: text for name, text in _examples(formula, values).items() if name not in given}
    values |= constant_values(chosen)
    notes = [f"note: {note}" for note in formula.notes]
    if chosen:
        listed = ", ".join(f"{name} = {text}" for name, text in chosen.items())
        notes.append(f"note: chosen, as none was given: {listed}")
    traced = trace(formula, {name: values[name] for name in formula.variables})
    return _page(traced, question["formula"], question["values"], notes)


def _examples(formula: Formula, values: Mapping[str, Any]) -> dict[str, str]:
    """A value that each variable may have beside those that are given, as one types it."""
    from autodiff_cli.explain.record import shape_of
    from autodiff_cli.front import parse
    from autodiff_cli.graph.shapes import in_words
    from autodiff_cli.language.errors import ExpressionError
    from autodiff_cli.language.lexer import written_name
    from autodiff_cli.render.reports.gradient import example_value

    declared = [f"{written_name(name)}: {in_words(shape_of(x))}; " for name, x in values.items() if shape_of(x)]
    try:
        shapes = parse("".join(declared) + formula.text, [*values]).example_shapes
    except ExpressionError:  # what is wrong is said of the text as it was typed
        shapes = formula.example_shapes
    return {name: example_value(shapes.get(name, ())).strip('"') for name in formula.variables}


def _page(traced: Trace, formula: str, values: str, notes: list[str]) -> dict[str, Any]:
    from autodiff_cli.render.page.html import to_html
    from autodiff_cli.render.page.served.pages import addition

    return {"page": to_html(traced, addition=addition(formula, values, "\n".join(notes)))}


def _fitted(question: Mapping[str, Any], data: BinaryIO) -> dict[str, Any]:
    """The report of a fit as a terminal has it, and its parameters."""
    content = data.read()
    words = ["train", *(f"--set={name}={text}" for name, text in values_of(question["values"]).items())]
    words += ["--", _model(question["model"]), "-"]
    status, report, notes = _run(words, content)
    if status not in (0, 1) or not report:
        return {"error": notes.strip()}
    document = json.loads(_run(["train", "--json", *words[1:]], content)[1])
    parameters = {**document["parameters"], **document.get("fixed", {})}
    return {"report": report, "notes": notes, "parameters": parameters, "rows": document["rows"]}


def _model(text: str) -> str:
    """A model, which here is never the name of a file."""
    from autodiff_cli.cli.errors import BadInput

    if text.strip().startswith("@") or text.strip() in ("", "-"):
        raise BadInput("type a model, such as y ~ a*exp(-b*x); no file is read here but the one that was chosen")
    return text


def _run(words: list[str], content: bytes) -> tuple[int, str, str]:
    """A command line's status, and what it wrote on standard output and on standard error."""
    from autodiff_cli.cli.running import run

    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        status = run(words, _environment(content)._replace(stdout=stdout, stderr=stderr))
    return status, stdout.getvalue().replace(_STDIN, _FILE), stderr.getvalue().replace(_STDIN, _FILE)


def _row(question: Mapping[str, Any], data: BinaryIO) -> dict[str, Any]:
    """The page of the loss of a row of data, at the parameters of a fit."""
    import numpy as np

    from autodiff_cli.explain.tracing import trace
    from autodiff_cli.training.options import LossOptions
    from autodiff_cli.training.row import row_of_model

    values = {
        name: np.array(value) if isinstance(value, list) else float(value)
        for name, value in question["parameters"].items()
    }
    found = row_of_model(_model(question["model"]), _files(data), question["row"], values, LossOptions(None))
    notes = [f"note: the loss of row {question['row']} at the fitted parameters", *found.notes]
    return _page(trace(found.formula, found.point, found.wrt), question["model"], "", notes)


def _learning(question: Mapping[str, Any], data: BinaryIO) -> dict[str, Any]:
    """The page of the fit that shows it learning."""
    from autodiff_cli.cli.inputs import constant_values
    from autodiff_cli.cli.tracing.learning import learning_page
    from autodiff_cli.training.fit import fitted_objective
    from autodiff_cli.training.objective.model import Model
    from autodiff_cli.training.objective.objective import Objective
    from autodiff_cli.training.options import LossOptions, Options, ParameterOptions
    from autodiff_cli.training.recording import Recorder

    files, start = _files(data), constant_values(values_of(question["values"]))
    choices = Options(ParameterOptions(start))
    objective = Objective.of(Model.read(_model(question["model"]), files.names, start), files, choices)
    recorder = Recorder.of(objective)
    fit = fitted_objective(objective, choices, recorder.add)
    return {"page": learning_page(objective, recorder, fit, LossOptions(), None)}


def _files(data: BinaryIO) -> DataFiles:
    """The data, read as it is."""
    from autodiff_cli.cli.data import data_files
    from autodiff_cli.data.options import AS_IT_IS

    return data_files(["-"], _environment(data.read()), AS_IT_IS)


def _environment(content: bytes) -> Environment:
    """An environment with this on standard input, and nobody to tell anything."""
    from autodiff_cli.cli.environment import Environment

    return Environment(io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"), io.StringIO(), io.StringIO())


def _limit(seconds: float) -> None:
    """Let this process use so much time, write no file, and take no more memory than there may be."""
    try:
        import resource
    except ImportError:  # Windows: only the clock of the server limits this process
        return
    limits = ((resource.RLIMIT_CPU, 1 + round(8 * seconds)), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_AS, _MEMORY))
    for which, most in limits:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(which, (most, most))


def main() -> None:
    """Answer the question on standard input."""
    os.environ["AUTODIFF_CACHE"] = "off"
    question = json.loads(sys.stdin.buffer.readline())
    _limit(question["seconds"])
    sys.stdout.write(json.dumps(answer(question, sys.stdin.buffer)))


if __name__ == "__main__":
    main()

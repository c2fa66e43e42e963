"""`autodiff export`: a formula and its derivatives as a function in another language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated

import typer

from autodiff_cli.cli.answer import Answer
from autodiff_cli.cli.call import Call
from autodiff_cli.cli.declarations import Expr, Json, Wrt
from autodiff_cli.cli.errors import BadInput
from autodiff_cli.cli.tracing.rows import MODEL_FILE

if TYPE_CHECKING:
    from autodiff_cli.export.program import Wanted


class Language(StrEnum):
    """What can be written."""

    C = "c"
    FORTRAN = "fortran"
    PYTHON = "python"
    NUMPY = "numpy"
    JAX = "jax"
    TORCH = "torch"
    JS = "js"
    LATEX = "latex"
    ONNX = "onnx"


_ENDINGS = {
    ".c": Language.C, ".f90": Language.FORTRAN, ".py": Language.PYTHON, ".js": Language.JS, ".mjs": Language.JS,
    ".tex": Language.LATEX, ".onnx": Language.ONNX,
}  # fmt: skip


def export(
    context: typer.Context,
    expression: Expr,
    to: Annotated[Language | None, typer.Option("--to", help="The language; else by the ending of -o.")] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write to a file, replaced as a whole; - is standard output."
        ),
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The name of the function.")] = "f",
    wrt: Wrt = None,
    value_only: Annotated[bool, typer.Option("--value-only", help="Without derivatives.")] = False,
    hessian: Annotated[bool, typer.Option("--hessian", help="Also all second derivatives.")] = False,
    json: Json = False,
) -> Answer:
    """A formula and its derivatives as a function in another language.

    The source needs nothing else: what the language's own library lacks stands in it. It computes what `grad` computes,
    with the same conventions at kinks, the same nan and infinities, and 13 digits.

    \b
    c        double f(const double x[N], double gradient[N])
    fortran  subroutine f(x, value, gradient)
    python   f(x, y) -> (value, {"x": ...}), with math alone
    numpy    the same of arrays, element by element
    js       f({x, y}) -> {value, gradient}, a module without imports
    jax      f(x, y), the value, for JAX to differentiate
    torch    the same for PyTorch
    latex    the value and its derivatives as equations
    onnx     of a fitted model alone: the prediction, as a file for -o

    EXPR may also be a file that `train --save` wrote, MODEL.json: then it is the prediction of that model, a function
    of the columns that it reads, and its derivatives towards them.

    \b
    Examples:
      autodiff export "x*y + sin(x)" --to c
      autodiff export "a*exp(-b*t)" --to numpy --wrt a,b -o decay.py
      autodiff export "x^2*y" --to python --hessian --name curvature
      autodiff export decay.json --to c --value-only
      autodiff export flowers.json -o flowers.onnx
    """
    from autodiff_cli.cli import inputs
    from autodiff_cli.export import exporters
    from autodiff_cli.export.program import ExportError, TooLargeError, Wanted

    call = Call.of(context)
    if call.values:
        raise BadInput(f"export takes no values such as --{next(iter(call.values))}: the function takes them")
    if value_only and (hessian or wrt is not None):
        raise BadInput(f"--value-only leaves out what {'--hessian' if hessian else '--wrt'} asks for")
    output = None if output == "-" else output
    language = _language(to, output)
    wanted = Wanted(name, None, not value_only, hessian)
    try:
        if expression.endswith(MODEL_FILE):
            return _of_model(expression, language, wanted, wrt, json, output)
        if language is Language.ONNX:
            raise BadInput("--to onnx is for fitted models: give a file that `train --save` wrote, MODEL.json")
        formula = inputs.formula(context, inputs.text_of(expression, call.environment), [])
        names = None if wrt is None else inputs.chosen(formula, wrt)
        source = exporters.export(formula, language, replace(wanted, wrt=names))
    except (ExportError, TooLargeError) as error:
        raise BadInput(str(error)) from None
    document = {"expression": formula.text, "variables": formula.variables}
    return _answer(document, language, name, source, json, output)


def _of_model(path: str, language: Language, wanted: Wanted, wrt: str | None, json: bool, output: str | None) -> Answer:
    """The prediction of a fitted model."""
    from autodiff_cli.cli.data import bad_input, writing
    from autodiff_cli.data.writing import replacing
    from autodiff_cli.export.models import prediction_in_onnx, prediction_source
    from autodiff_cli.training.result.model_file import load

    with bad_input():
        fit = load(path)
    if language is not Language.ONNX:
        names = None if wrt is None else tuple(name.strip() for name in wrt.split(","))
        source = prediction_source(fit, language, replace(wanted, wrt=names))
        document = {"model": fit.model, "variables": fit.predictors}
        return _answer(document, language, wanted.name, source, json, output)
    if output is None:
        raise BadInput("an ONNX file is no text: say where it goes with -o FILE")
    if wrt is not None or wanted.hessian or not wanted.gradient:
        raise BadInput("--to onnx is the prediction alone, without --wrt, --hessian and --value-only")
    content = prediction_in_onnx(fit, wanted.name)
    with writing(output), replacing(output) as stream:
        stream.buffer.write(content)
    return Answer(None, json)


def _answer(
    what: Mapping[str, object], language: Language, name: str, source: str, json: bool, output: str | None
) -> Answer:
    from autodiff_cli.render.report import Report

    document = {**what, "language": language.value, "name": name, "source": source}
    report = Report(lambda paper: paper.stream.writelines([source]), lambda: [document], is_data=True)
    return Answer(report, json, output=output)


def _language(to: Language | None, output: str | None) -> Language:
    """What is to be written: by its name, else by the ending of the file."""
    if to is not None:
        return to
    languages = "|".join(Language)
    if output is None:
        raise BadInput(f"say in which language: --to {languages}")
    ending = PurePath(output).suffix.lower()
    if ending not in _ENDINGS:
        raise BadInput(f"-o {output}: its ending names no language; say which with --to {languages}")
    return _ENDINGS[ending]

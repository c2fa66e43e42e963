"""`autodiff export`: a formula and its derivatives as a function in another language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from autodiff_cli.cli import inputs
from autodiff_cli.cli.command_line import EXPR, OUTPUT_FILE, WRT, Call, command
from autodiff_cli.cli.environment import BadInput, Output, errors_as_failure
from autodiff_cli.options import Restriction, check_restrictions, command_words, exclusive, option

if TYPE_CHECKING:
    from autodiff_cli.export.program import ExportOptions


# The languages, and the suffixes of their files.
LANGUAGES: dict[str, tuple[str, ...]] = {
    "c": (".c",), "fortran": (".f90",), "python": (".py",), "numpy": (), "jax": (), "torch": (),
    "js": (".js", ".mjs"), "latex": (".tex",), "onnx": (".onnx",),
}  # fmt: skip
Language = StrEnum("Language", [(name.upper(), name) for name in LANGUAGES])  # type: ignore[misc]

_RESTRICTIONS = (
    *exclusive("value_only", ("hessian", "wrt")),
    *(
        Restriction(
            option,
            lambda explicit: explicit["language"] == "onnx",
            f"--to onnx writes only the prediction and cannot be combined with {command_words(option)}",
        )
        for option in ("wrt", "hessian", "value_only")
    ),
)


@command()
def export(
    call: Call,
    expression: str = EXPR,
    to: Language | None = option("--to", "Target language (default: by the suffix of -o).", default=None),
    output: str | None = OUTPUT_FILE,
    name: str = option("--name NAME", "Name of the function.", default="f"),
    wrt: str | None = WRT,
    value_only: bool = option("--value-only", "Leave out the derivatives."),
    hessian: bool = option("--hessian", "Also compute all second derivatives."),
    *,
    explicit: Mapping[str, Any],
) -> Output:
    """Write a formula and its derivatives as a function in another language.

    The source is self-contained: functions that the language's standard library lacks are included. It computes the
    same results as `grad` to 13 digits, with the same conventions at kinks and the same nan and infinities.

    \b
    c        double f(const double x[N], double gradient[N])
    fortran  subroutine f(x, value, gradient)
    python   f(x, y) -> (value, {"x": ...}), using only the math module
    numpy    the same for arrays, element by element
    js       f({x, y}) -> {value, gradient}, a module without imports
    jax      f(x, y), the value, for JAX to differentiate
    torch    f(x, y), the value, for PyTorch to differentiate
    latex    the value and its derivatives as equations
    onnx     the prediction of a fitted model, as a file (-o)

    EXPR may also be a model file, MODEL.json, that `train --save` wrote. The function is then the model's prediction
    with its derivatives with respect to the columns that it reads.

    \b
    Examples:
      autodiff export "x*y + sin(x)" --to c
      autodiff export "a*exp(-b*t)" --to numpy --wrt a,b -o decay.py
      autodiff export "x^2*y" --to python --hessian --name curvature
      autodiff export decay.json --to c --value-only
      autodiff export flowers.json -o flowers.onnx
    """
    from autodiff_cli.explain.accuracy import unrepresentable_numbers
    from autodiff_cli.export import languages as exporters
    from autodiff_cli.export.program import ExportOptions
    from autodiff_cli.formula.formula import Formula

    language = _select_language(to, output)
    check_restrictions(_RESTRICTIONS, {**explicit, "language": language})
    options = ExportOptions(name, None, not value_only, hessian)
    if expression.endswith(inputs.MODEL_SUFFIX):
        return _export_model(expression, language, options, wrt, output)
    if language == "onnx":
        raise BadInput("--to onnx needs a fitted model: give a file MODEL.json that `train --save` wrote")
    formula = inputs.read_formula(call, expression)
    names = None if wrt is None else inputs.select_variables(formula, wrt)
    source = exporters.export(formula, language, replace(options, wrt=names))
    if language != "latex":  # LaTeX has numbers of any size
        constants = {node.text: Formula(node, {}) for node in formula.tape.nodes if node.is_constant}
        for text in unrepresentable_numbers(constants):
            used = constants[text].value()
            call.environment.note(f"{text} is not representable as a float; {used:.15g} is used instead")
    document = {"expression": formula.text, "variables": formula.variables}
    return _source_output(document, language, name, source, output)


def _export_model(path: str, language: str, options: ExportOptions, wrt: str | None, output: str | None) -> Output:
    """Export the prediction of a fitted model."""
    from autodiff_cli.export.models import prediction_onnx, prediction_source
    from autodiff_cli.system import open_atomic_text
    from autodiff_cli.training.result.fitted_model import load

    fit = load(path)
    if language != "onnx":
        names = None if wrt is None else inputs.split_names(wrt)
        source = prediction_source(fit, language, replace(options, wrt=names))
        document = {"model": fit.model, "variables": fit.predictors}
        return _source_output(document, language, options.name, source, output)
    if output in (None, "-"):
        raise BadInput("ONNX is a binary format: name the file with -o FILE")
    content = prediction_onnx(fit, options.name)
    with errors_as_failure(output), open_atomic_text(output) as stream:
        stream.buffer.write(content)
    return Output(None)


def _source_output(subject: Mapping[str, object], language: str, name: str, source: str, output: str | None) -> Output:
    from autodiff_cli.render.report import text_report

    document = {**subject, "language": language, "name": name, "source": source}
    return Output(text_report(source, lambda: [document]), path=output)


def _select_language(to: str | None, output: str | None) -> str:
    """Return the target language, given by `--to` or by the suffix of the file.

    Raises:
        BadInput: if neither names one.
    """
    if to is not None:
        return str(to)
    ending = PurePath(output or "").suffix.lower()
    for language, suffixes in LANGUAGES.items():
        if ending in suffixes:
            return language
    reason = f"-o {output}: its suffix belongs to no language; choose one with" if ending else "choose a language:"
    raise BadInput(f"{reason} --to {'|'.join(LANGUAGES)}")

"""Commands that only report: `ops`, `data`, `check` and `doctor`.

`ops` describes the operations of the language, `data` shows how data files are parsed, `check` verifies a gradient, and
`doctor` shows the processor and the compiler that this installation uses.
"""

from __future__ import annotations

from enum import StrEnum

from autodiff_cli.cli.command_line import DATA_HELP, EXPR, IMPLICIT, WRT, Call, command
from autodiff_cli.cli.environment import BadInput, ExitStatus, Output, open_data_files
from autodiff_cli.data.dialect import FileOptions
from autodiff_cli.language.errors import spelling_hint
from autodiff_cli.options import argument, option


@command()
def ops(name: str | None = option("[NAME]", "Name or symbol of an operation (default: list all).")) -> Output:
    """List the operations of the language, or describe one of them.

    A description has the notation, the derivative with respect to each input, what backpropagation does (distribute,
    swap, route, scale or block), the kinks, and the domain. It is printed from the rules that compute gradients. For an
    operation on whole arrays, the derivatives are the contributions of the output's adjoint g to each input.

    \b
    Examples:
      autodiff ops
      autodiff ops tanh
      autodiff ops "*"
      autodiff ops atan2 --json
    """
    from autodiff_cli.explain import operations
    from autodiff_cli.language.diagnostics import translate_call
    from autodiff_cli.language.lexer import LAYER_FUNCTIONS
    from autodiff_cli.render.inspection import operation_details_report, operations_report

    selected = tuple(operations.operations()) if name is None else operations.find_operations(name)
    if name in LAYER_FUNCTIONS:
        raise BadInput(f"`{name}` is a layer made of @, + and an activation; see `autodiff ops @` for the first")
    if not selected:
        names = (each for op in operations.operations() for each in (op.spelling, op.name, *op.aliases) if each)
        words, written = translate_call(name or "", "(x)", 1) or ("", None)
        similar = spelling_hint(name or "", names, "`autodiff ops` lists them all")
        hint = words or (f"it is written `{written}`" if written else similar)
        raise BadInput(f"there is no operation `{name}`; {hint}")
    described = [operations.Description(op) for op in selected]
    return Output(operations_report(described) if name is None else operation_details_report(described))


@command(reading=FileOptions)
def data(call: Call, data: list[str] = argument("DATA", DATA_HELP), *, reading: FileOptions) -> Output:
    """Show how data files are parsed.

    The report has the type, missing cells and range of every column, its name in a model, the first rows, and the
    options that were detected.

    \b
    Examples:
      autodiff data decay.csv
      autodiff data measured.txt --delimiter space --no-header
      autodiff data "2024-*.csv" --where "t > 0" --json
    """
    from autodiff_cli.data.files import DataSummary
    from autodiff_cli.render.inspection import data_report

    return Output(data_report(DataSummary(open_data_files(data, call.environment, reading))))


Framework = StrEnum("Framework", [("TORCH", "torch"), ("JAX", "jax")])  # whose gradient can be compared with ours


@command()
def check(
    call: Call,
    expression: str = EXPR,
    wrt: str | None = WRT,
    implicit: bool = IMPLICIT,
    against: Framework | None = option("--against", "Also compare with the gradient of this framework.", default=None),
) -> Output:
    """Verify the gradient of a formula.

    There are two independent tests. The first compares the gradient with a reference of 50 proven digits, which reveals
    rounding errors. In the second, the remainder f(x + h) - f(x) - h*gradient must shrink like h^2, which holds only
    for the derivative. Arrays are checked element by element. The exit status is 1 if the gradient fails a test. With
    --against, it is also 1 if the framework's gradient differs and there is no kink.

    \b
    Examples:
      autodiff check "x*y + sin(x)" --x 2 --y 3
      autodiff check "gelu(x)" --x -0.75 --json
      autodiff check "abs(x)" --x 0
      autodiff check "gelu(x)" --x 2 --against torch
      autodiff check "sum(tanh(W @ x))" --W "[[1, 2], [3, 4]]" --x "[0.1, -0.2]"
    """
    from autodiff_cli.cli import inputs
    from autodiff_cli.explain.gradient_check import check_gradient
    from autodiff_cli.render.gradient import check_report

    formula = inputs.read_formula(call, expression, implicit)
    names = inputs.select_variables(formula, wrt)
    if not names:
        raise BadInput("nothing to check: the expression has no variables")
    gradient_check = check_gradient(formula, inputs.value_graphs(call, formula), names)
    reference = None
    if against is not None:
        from autodiff_cli.export.languages import framework_gradient
        from autodiff_cli.export.program import ExportError

        try:
            ours = {finding.variable: finding.gradient for finding in gradient_check.findings}
            reference = framework_gradient(against, formula, gradient_check.trace.point, ours)
        except ExportError as error:
            raise BadInput(f"--against {against}: {str(error).partition(';')[0]}") from None
    report, agrees = check_report(gradient_check, reference)
    return Output(report, ExitStatus.DONE if agrees else ExitStatus.FAILED)


@command()
def doctor() -> Output:
    """Show the processor and the compiler that this installation uses.

    The command compiles and runs a small kernel. The report says whether fits run as machine code or on NumPy and why,
    on which processor, with which math library, and where compiled code is cached.

    \b
    Examples:
      autodiff doctor
      autodiff doctor --json
    """
    from autodiff_cli.backends.selection import backend_status
    from autodiff_cli.render.inspection import health_report

    return Output(health_report(backend_status()))

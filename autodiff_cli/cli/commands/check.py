"""`autodiff check`: is the gradient right?"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from autodiff_cli.cli.answer import Answer
from autodiff_cli.cli.call import Call
from autodiff_cli.cli.declarations import Assignments, Expr, Json, Wrt
from autodiff_cli.cli.errors import BadInput, ExitStatus


class Framework(StrEnum):
    """What can judge a gradient."""

    TORCH = "torch"
    JAX = "jax"


def check(
    context: typer.Context,
    expression: Expr,
    assignments: Assignments = None,
    wrt: Wrt = None,
    against: Annotated[
        Framework | None,
        typer.Option("--against", help="Also the gradient as this framework computes it, side by side."),
    ] = None,
    json: Json = False,
) -> Answer:
    """Whether the gradient of a formula is right.

    Two ways to tell, which do not lean on each other: it is compared with the same gradient to 50 right digits, which
    shows what rounding has done. And what is left of f(x + h) after f(x) + h*gradient must shrink as h^2, which holds
    for nothing but the derivative; so small an h is taken, and so many digits, that there is no step to choose. Of an
    array, every element is checked. The status is 1 if the gradient does not hold, or if a framework finds another one
    where there is no kink.

    \b
    Examples:
      autodiff check "x*y + sin(x)" --x 2 --y 3
      autodiff check "gelu(x)" --x -0.75 --json
      autodiff check "abs(x)" --x 0
      autodiff check "gelu(x)" --x 2 --against torch
      autodiff check "sum(tanh(W @ x))" --W "[[1, 2], [3, 4]]" --x "[0.1, -0.2]"
    """
    from autodiff_cli.cli import inputs, options
    from autodiff_cli.explain.digits.check import check as checked
    from autodiff_cli.render.reports.check import check_report

    call = Call.of(context)
    given = options.assignments(call.values, assignments or ())
    inputs.refuse_many(given, "check")
    formula = inputs.formula(context, inputs.text_of(expression, call.environment), given)
    names = inputs.chosen(formula, wrt)
    if not names:
        raise BadInput("there is nothing to check: the expression has no variables")
    found = checked(formula, inputs.graphs(context, formula, given), names)
    judged = None
    if against is not None:
        from autodiff_cli.export.program import ExportError
        from autodiff_cli.export.referees import referee

        try:
            judged = referee(against, formula, found.trace.point, names)
        except ExportError as error:
            raise BadInput(f"--against {against}: {str(error).partition(';')[0]}") from None
    report, agrees = check_report(found, judged)
    return Answer(report, json, ExitStatus.DONE if agrees else ExitStatus.FAILED)

"""`autodiff grad`: the value and the gradient of a formula, or its derivatives as formulas."""

from __future__ import annotations

import typer

from autodiff_cli.cli.call import Call
from autodiff_cli.cli.declarations import Assignments, Digits, Formula, Json, Wrt
from autodiff_cli.cli.errors import ExitStatus


def grad(
    context: typer.Context,
    expression: Formula,
    assignments: Assignments = None,
    wrt: Wrt = None,
    digits: Digits = None,
    json: Json = False,
) -> ExitStatus:
    """The value and the gradient of a formula.

    Also shown is every node, with its value and its sensitivity: how much the output changes with it. Each variable's
    value is an option of its own name: a number, or any constant expression. With no values at all, the derivatives are
    printed as formulas.

    \b
    Examples:
      autodiff grad "x*y + sin(x)" --x 2 --y 3
      autodiff grad "x*y + sin(x)"
      autodiff grad "a = x + y; b = x - y; a*b" --x=-1.5 --y pi/4
      autodiff grad -x^2 --x 2 --digits 10
      autodiff grad "(w*x + b - t)^2" --w 3 --x 2 --b 1 --t 5 --wrt w,b --json
      echo "x^2" | autodiff grad - --x 3
      autodiff grad @formula.txt --set json=2
    """
    from autodiff_cli.cli import inputs, options

    call = Call.of(context)
    given = options.assignments(call.values, assignments or ())
    formula = inputs.formula(context, inputs.text_of(expression, call.environment), given)
    names = inputs.chosen(formula, wrt)
    if formula.variables and not given:
        derivatives = {name: formula.derivative(name) for name in names}
        if json:
            from autodiff_cli.render import documents

            call.environment.stdout.write(documents.dumps(documents.formulas_document(formula, derivatives)))
        else:
            from autodiff_cli.render import gradient

            gradient.write_formulas(call.environment.paper(), formula, derivatives)
        return ExitStatus.DONE
    traced = inputs.traced(formula, given, names)
    if json:
        from autodiff_cli.render import documents

        call.environment.stdout.write(documents.dumps(documents.gradient_document(traced)))
    else:
        from autodiff_cli.render import gradient

        gradient.write_gradient(call.environment.paper(), traced, digits)
    return ExitStatus.DONE

"""`autodiff grad`: the value and the gradient of a formula, or its derivatives as formulas."""

from __future__ import annotations

import functools

import typer

from autodiff_cli.cli.call import Call
from autodiff_cli.cli.declarations import (
    Asked,
    Assignments,
    At,
    Digits,
    Direction,
    Formula,
    Hessian,
    Jacobian,
    Json,
    Mode,
    Order,
    Outputs,
    PassMode,
    Precision,
    Symbolic,
    Wrt,
)
from autodiff_cli.cli.errors import ExitStatus


def grad(
    context: typer.Context,
    expression: Formula,
    assignments: Assignments = None,
    wrt: Wrt = None,
    symbolic: Symbolic = False,
    mode: Mode = PassMode.REVERSE,
    order: Order = None,
    hessian: Hessian = False,
    direction: Direction = None,
    jacobian: Jacobian = False,
    outputs: Outputs = None,
    at: At = None,
    precision: Precision = None,
    digits: Digits = None,
    json: Json = False,
) -> ExitStatus:
    """The value and the gradient of a formula.

    Also shown is every node, with its value and its sensitivity: how much the output changes with it. Each variable's
    value is an option of its own name: a number, or any constant expression. With no values at all, the derivatives are
    printed as formulas. A value may have a standard error, as 2+-0.1: then the value's is shown, and where it is from.

    Many points: the rows of a file (--at), or ranges START:STOP:COUNT as values, in all combinations. These are written
    as CSV: the point, value, and d_NAME for each variable; with --json as one JSON document per line.

    \b
    Examples:
      autodiff grad "x*y + sin(x)" --x 2 --y 3
      autodiff grad "x*y + sin(x)"
      autodiff grad "a = x + y; b = x - y; a*b" --x=-1.5 --y pi/4
      autodiff grad -x^2 --x 2 --digits 10
      autodiff grad "(w*x + b - t)^2" --w 3 --x 2 --b 1 --t 5 --wrt w,b --json
      autodiff grad "x*y + sin(x)" --x 2 --y 3 --symbolic --hessian
      autodiff grad "x*y + sin(x)" --x 2 --y 3 --direction x=1,y=2
      autodiff grad "x*y + sin(x)" --x 2 --y 3 --mode forward
      autodiff grad "ln(1 + x)" --x 0 --order 6
      autodiff grad "[r*cos(t), r*sin(t)]" --r 2 --t pi/3 --jacobian
      autodiff grad "a = x*y; b = x/y; a + b" --x 2 --y 3 --jacobian --outputs a,b
      autodiff grad "x*y + sin(x)" --x 0:10:101 --y 3
      autodiff grad "x*y + sin(x)" --at points.csv > results.csv
      autodiff grad "x*y" --x 2+-0.1 --y 3+-0.2
      autodiff grad "erf(x)" --x 0.1 --precision 50
      echo "x^2" | autodiff grad - --x 3
      autodiff grad @formula.txt --set json=2
    """
    from autodiff_cli.cli import inputs, options

    call = Call.of(context)
    environment = call.environment
    given, errors = inputs.without_errors(options.assignments(call.values, assignments or ()))
    asked = Asked(symbolic, mode is PassMode.FORWARD, order, hessian, direction, jacobian, outputs, at)
    if errors or precision is not None:
        from autodiff_cli.cli import trusted

        form = trusted.Form(precision, wrt, digits, json)
        trusted.write_trusted(context, expression, given, errors, asked, form)
        return ExitStatus.DONE
    if at is not None or any(":" in value for value in given.values()):
        from autodiff_cli.cli import points

        points.write_points(context, expression, given, asked, points.Form(wrt, digits, json))
        return ExitStatus.DONE
    formula = inputs.formula(context, inputs.text_of(expression, environment), given, notes=outputs is None)
    names = inputs.chosen(formula, wrt)
    if asked != Asked():
        from autodiff_cli.cli import further

        further.write_further(context, formula, given, names, asked, digits, json)
        return ExitStatus.DONE
    if formula.variables and not given:
        derivatives = {name: formula.derivative(name) for name in names}
        if json:
            from autodiff_cli.render import documents

            environment.stdout.write(documents.dumps(documents.formulas_document(formula, derivatives)))
        else:
            from autodiff_cli.render import gradient

            spelt = functools.partial(inputs.spelt, context)
            gradient.write_formulas(environment.paper(), formula, derivatives, spelt)
        return ExitStatus.DONE
    traced = inputs.traced(context, formula, given, names)
    if json:
        from autodiff_cli.render import documents

        environment.stdout.write(documents.dumps(documents.gradient_document(traced)))
    else:
        from autodiff_cli.render import gradient

        gradient.write_gradient(environment.paper(), traced, digits)
    return ExitStatus.DONE

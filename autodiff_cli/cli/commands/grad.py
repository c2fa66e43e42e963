"""`autodiff grad`: the value and the gradient of a formula, or its derivatives as formulas."""

from __future__ import annotations

import functools

import typer

from autodiff_cli.cli.answer import Answer
from autodiff_cli.cli.call import Call
from autodiff_cli.cli.declarations import (
    Assignments,
    At,
    Digits,
    Direction,
    Expr,
    Hessian,
    Jacobian,
    Json,
    Mode,
    More,
    Order,
    Outputs,
    PassMode,
    Precision,
    Symbolic,
    Wrt,
)
from autodiff_cli.cli.errors import BadInput


def grad(
    context: typer.Context,
    expression: Expr,
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
) -> Answer:
    """The value and the gradient of a formula.

    Also shown is every node, with its value and its sensitivity: how much the output changes with it. Each variable's
    value is an option of its own name: a number, or any constant expression. With no values at all, the derivatives are
    printed as formulas. A value may have a standard error, as 2+-0.1: then the value's is shown, and where it is from.

    Many points: the rows of a file (--at), or ranges START:STOP:COUNT as values, in all combinations. These are written
    as CSV: the point, value, and d_NAME for each variable; with --json as one JSON document per line.

    A whole interval: LOW..HIGH as a value gives proven bounds of value and gradient on it.

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
      autodiff grad "x^2*sin(x)" --x 1.9..2.1
      echo "x^2" | autodiff grad - --x 3
      autodiff grad @formula.txt --set json=2
    """
    from autodiff_cli.cli import inputs, options

    call = Call.of(context)
    given, errors = inputs.without_errors(options.assignments(call.values, assignments or ()))
    more = More(symbolic, mode is PassMode.FORWARD, order, hessian, direction, jacobian, outputs, at)
    if any(map(inputs.interval, given.values())):
        from autodiff_cli.cli.gradients import enclosed

        if errors or precision is not None:
            others = "an uncertain value" if errors else "--precision"
            raise BadInput(f"an interval goes with value and gradient, not with {others}: leave one of them out")
        return Answer(enclosed.report(context, expression, given, more, wrt, digits), json)
    if errors or precision is not None:
        from autodiff_cli.cli.gradients import trusted

        return Answer(trusted.report(context, expression, given, errors, more, precision, wrt, digits), json)
    if at is not None or any(":" in value for value in given.values()):
        from autodiff_cli.cli.gradients import points

        return points.answer(context, expression, given, more, wrt, digits, json)
    formula = inputs.formula(context, inputs.text_of(expression, call.environment), given, notes=outputs is None)
    names = inputs.chosen(formula, wrt)
    if more != More():
        from autodiff_cli.cli.gradients import further

        return Answer(further.report(context, formula, given, names, more, digits), json)
    from autodiff_cli.render.reports import gradient

    if formula.variables and not given:
        derivatives = {name: formula.derivative(name) for name in names}
        spelt = functools.partial(inputs.spelt, context)
        return Answer(gradient.formulas_report(formula, derivatives, spelt), json)
    return Answer(gradient.gradient_report(inputs.traced(context, formula, given, names), digits), json)

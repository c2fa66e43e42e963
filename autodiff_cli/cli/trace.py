"""`autodiff trace`: backpropagation through a formula, step by step."""

from __future__ import annotations

import typer

from autodiff_cli.cli.call import Call
from autodiff_cli.cli.declarations import Assignments, Digits, Formula, Json, Wrt
from autodiff_cli.cli.errors import ExitStatus


def trace(
    context: typer.Context,
    expression: Formula,
    assignments: Assignments = None,
    wrt: Wrt = None,
    digits: Digits = None,
    json: Json = False,
) -> ExitStatus:
    """Both passes of backpropagation, step by step.

    First each operation with its numbers filled in, from the inputs to the output; then, from the output back, what
    each node hands to each of its inputs: local derivative × adjoint = amount, and the running total.

    \b
    Examples:
      autodiff trace "x*y + sin(x)" --x 2 --y 3
      autodiff trace "h = relu(w*x + b); (h - t)^2" --w 3 --x 2 --b 1 --t 5
      autodiff trace "max(x, y)*x" --x 2 --y 1 --digits 3
      autodiff trace "tanh(a*b)" --a 2 --b 3 --json
    """
    from autodiff_cli.cli import inputs, options
    from autodiff_cli.render import documents, steps

    call = Call.of(context)
    given = options.assignments(call.values, assignments or ())
    formula = inputs.formula(context, inputs.text_of(expression, call.environment), given)
    traced = inputs.traced(formula, given, inputs.chosen(formula, wrt))
    if json:
        call.environment.stdout.write(documents.dumps(documents.trace_document(traced)))
    else:
        steps.write_trace(call.environment.paper(), traced, digits)
    return ExitStatus.DONE

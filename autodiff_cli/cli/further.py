"""What `grad` shows beyond the gradient: formulas, tangents, higher orders, directions, several outputs."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from autodiff_cli.cli import inputs
from autodiff_cli.cli.call import Call
from autodiff_cli.cli.declarations import MOST_ORDER, Asked
from autodiff_cli.cli.errors import BadInput
from autodiff_cli.cli.options import assignments
from autodiff_cli.explain import derivatives
from autodiff_cli.explain.derivatives import Further
from autodiff_cli.explain.steps import Trace, trace
from autodiff_cli.expression import Expression


def write_further(
    context: typer.Context,
    formula: Expression,
    given: Mapping[str, str],
    names: Sequence[str],
    asked: Asked,
    digits: int | None,
    json: bool,
) -> None:
    """Write what is asked for: as formulas if no variable has a value and formulas are possible, else as numbers.

    Raises:
        BadInput: for options that do not go together, or do not fit the expression.
        ExpressionError: for names and shapes that the expression lacks.
    """
    environment = Call.of(context).environment
    _check(asked, names)
    if formula.variables and not given and not asked.mode_forward and asked.direction is None:
        found = _formulas(formula, names, asked)
        if json:
            from autodiff_cli.render import documents

            environment.stdout.write(documents.dumps(documents.further_formulas_document(formula, found)))
        else:
            from autodiff_cli.render import further as report

            report.write_formulas(environment.paper(), formula, found, functools.partial(inputs.spelt, context))
        return
    point = inputs.point(context, formula, given)
    is_array = bool(derivatives.output_shape(formula, formula.sizes(formula.at(point))))
    traced = None if asked.jacobian and is_array else trace(formula, point, names)
    numbers = _numbers(formula, point, traced, names, asked)
    if json:
        from autodiff_cli.render import documents

        environment.stdout.write(documents.dumps(documents.further_document(formula, point, traced, numbers)))
    else:
        from autodiff_cli.render import further as report

        report.write_numbers(environment.paper(), formula, point, traced, numbers, digits)


def _check(asked: Asked, names: Sequence[str]) -> None:
    options = asked.options()
    if asked.outputs is not None and not asked.jacobian:
        raise BadInput("--outputs names the outputs for --jacobian: add --jacobian")
    others = [option for option in options if option not in ("--jacobian", "--outputs")]
    if asked.jacobian and others:
        raise BadInput(f"--jacobian is of several outputs and {others[0]} of one: ask for them one at a time")
    if asked.order is not None and asked.order > MOST_ORDER:
        what = "the factorial of a higher one, which derivatives such as those of 1/x have, is too large for a float"
        raise BadInput(f"--order takes at most {MOST_ORDER}: {what}")
    if asked.order is not None and len(names) != 1:
        raise BadInput("--order takes the derivative in one variable: choose it with --wrt, as --wrt x")


def _formulas(formula: Expression, names: Sequence[str], asked: Asked) -> Further:
    if asked.jacobian:
        chosen = _outputs(formula, asked, formula.shapes)
        rows = {label: {name: output.derivative(name) for name in names} for label, output in chosen.items()}
        return Further(jacobian=rows)
    first = {name: formula.derivative(name) for name in names}
    arrays = [name for name in names if name in formula.shapes]
    if arrays and (asked.hessian or asked.order is not None):
        raise BadInput(
            f"higher derivatives are formulas only towards numbers, and `{arrays[0]}` is an array: "
            "give every variable a value"
        )
    return Further(
        formulas=first,
        hessian=derivatives.second_derivatives(first) if asked.hessian else None,
        **_of_order(asked, names, lambda name, order: derivatives.repeated(formula, name, order)),
    )


def _numbers(
    formula: Expression, point: Mapping[str, Any], traced: Trace | None, names: Sequence[str], asked: Asked
) -> Further:
    if asked.jacobian:
        chosen = _outputs(formula, asked, formula.sizes(formula.at(point)))
        rows = derivatives.jacobian(chosen, point, names)
        return Further(jacobian=rows, outputs={label: output.value(point) for label, output in chosen.items()})
    assert traced is not None
    if asked.mode_forward and not traced.is_scalar:
        raise BadInput("--mode forward shows a number per node, and this expression has arrays: use --direction")
    direction = None if asked.direction is None else _direction(asked.direction)
    return Further(
        formulas={name: formula.derivative(name) for name in names} if asked.symbolic else None,
        tangents=derivatives.forward_mode(traced) if asked.mode_forward else None,
        hessian=derivatives.hessian(formula, point, names) if asked.hessian else None,
        directional=None if direction is None else formula.jvp(direction, point)[1],
        direction=direction,
        **_of_order(asked, names, lambda name, order: formula.derivatives(name, order, point)[-1]),
    )


def _of_order(asked: Asked, names: Sequence[str], derive: Any) -> dict[str, Any]:
    """The fields of `Further` for a derivative of higher order."""
    if asked.order is None:
        return {}
    return {"derivative": derive(names[0], asked.order), "order": asked.order, "variable": names[0]}


def _outputs(formula: Expression, asked: Asked, sizes: Mapping[str, tuple[int, ...]]) -> dict[str, Expression]:
    names = None if asked.outputs is None else inputs.listed(asked.outputs)
    return derivatives.outputs(formula, names, sizes)


def _direction(text: str) -> dict[str, Any]:
    """How fast each variable moves, from a text like `x=1,y=2`; commas may also stand inside a value."""
    parts = re.split(r",(?=[^,()\[\]=]*=)", text)
    return inputs.constant_values(assignments({}, parts, "--direction"))

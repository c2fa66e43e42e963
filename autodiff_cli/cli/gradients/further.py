"""What `grad` shows beyond the gradient: formulas, tangents, higher orders, directions, several outputs."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import typer

from autodiff_cli.cli import inputs
from autodiff_cli.cli.declarations import MOST_ORDER, More
from autodiff_cli.cli.errors import BadInput
from autodiff_cli.cli.options import assignments
from autodiff_cli.explain.digits.right import with_right
from autodiff_cli.explain.digits.right_further import right_further
from autodiff_cli.explain.record import Caveat, Trace
from autodiff_cli.explain.tracing import trace
from autodiff_cli.explain.views.forward_mode import every_tangent
from autodiff_cli.formula import further
from autodiff_cli.formula.formula import Formula
from autodiff_cli.formula.further import Further
from autodiff_cli.render.report import Report
from autodiff_cli.render.reports.further import further_formulas_report, further_report


def report(
    context: typer.Context,
    formula: Formula,
    given: Mapping[str, str],
    names: Sequence[str],
    asked: More,
    digits: int | None,
) -> Report:
    """What is asked for: as formulas if no variable has a value and formulas are possible, else as numbers.

    Raises:
        BadInput: for options that do not go together, or do not fit the expression.
        ExpressionError: for names and shapes that the expression lacks.
    """
    _check(asked, names)
    if formula.variables and not given and not asked.mode_forward and asked.direction is None:
        spelt = functools.partial(inputs.spelt, context)
        return further_formulas_report(formula, _formulas(formula, names, asked), spelt)
    point = inputs.point(context, formula, given)
    is_array = bool(further.output_shape(formula, formula.sizes(formula.at(point))))
    unheld = inputs.unheld_values(formula, given)
    traced = None if asked.jacobian and is_array else trace(formula, point, names, unheld)
    found = _numbers(formula, point, traced, names, asked)
    if asked.jacobian:
        return further_report(formula, point, traced, found, digits, _of_outputs(formula, point, found, asked))
    assert traced is not None
    return further_report(formula, point, replace(traced, warnings=_checked(traced, found)), found, digits)


def _of_outputs(formula: Formula, point: Mapping[str, Any], found: Further, asked: More) -> list[Caveat]:
    from autodiff_cli.explain.digits.right_outputs import warned_outputs

    place = formula.at(point)
    return warned_outputs(formula, _outputs(formula, asked, formula.sizes(place)), place, found)


def _checked(traced: Trace, found: Further) -> list[Caveat]:
    """The warnings of a trace, with the right digits of what is spoilt beyond the gradient."""
    output = traced.tape.outputs[0]
    if traced.is_scalar:
        right = right_further(traced.expression, traced.point, found, traced.unheld)
        return with_right(traced.warnings, right, output, traced.labels[output])
    from autodiff_cli.explain.digits.right_further_arrays import spoilt_further

    spoilt = spoilt_further(traced.expression, traced.point, found)
    return spoilt.told(traced.warnings, output, traced.labels[output])


def _check(asked: More, names: Sequence[str]) -> None:
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


def _formulas(formula: Formula, names: Sequence[str], asked: More) -> Further:
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
        hessian=further.second_derivatives(first) if asked.hessian else None,
        **_of_order(asked, names, lambda name, order: further.repeated(formula, name, order)),
    )


def _numbers(
    formula: Formula, point: Mapping[str, Any], traced: Trace | None, names: Sequence[str], asked: More
) -> Further:
    if asked.jacobian:
        chosen = _outputs(formula, asked, formula.sizes(formula.at(point)))
        rows = further.jacobian(chosen, point, names)
        return Further(jacobian=rows, outputs={label: output.value(point) for label, output in chosen.items()})
    assert traced is not None
    if asked.mode_forward and not traced.is_scalar:
        raise BadInput("--mode forward shows a number per node, and this expression has arrays: use --direction")
    direction = None if asked.direction is None else _direction(asked.direction)
    return Further(
        formulas={name: formula.derivative(name) for name in names} if asked.symbolic else None,
        tangents=every_tangent(traced) if asked.mode_forward else None,
        hessian=further.hessian(formula, point, names) if asked.hessian else None,
        directional=None if direction is None else formula.jvp(direction, point)[1],
        direction=direction,
        **_of_order(asked, names, lambda name, order: formula.derivatives(name, order, point)[-1]),
    )


def _of_order(asked: More, names: Sequence[str], derive: Any) -> dict[str, Any]:
    """The fields of `Further` for a derivative of higher order."""
    if asked.order is None:
        return {}
    return {"derivative": derive(names[0], asked.order), "order": asked.order, "variable": names[0]}


def _outputs(formula: Formula, asked: More, sizes: Mapping[str, tuple[int, ...]]) -> dict[str, Formula]:
    names = None if asked.outputs is None else inputs.listed(asked.outputs)
    return further.outputs(formula, names, sizes)


def _direction(text: str) -> dict[str, Any]:
    """How fast each variable moves, from a text like `x=1,y=2`; commas may also stand inside a value."""
    parts = re.split(r",(?=[^,()\[\]=]*=)", text)
    return inputs.constant_values(assignments({}, parts, "--direction"))

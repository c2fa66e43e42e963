"""What `grad` shows for intervals of values (`--x 1.9..2.1`): proven bounds of value and gradient."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from autodiff_cli.autodiff.digits import evaluate
from autodiff_cli.cli import inputs
from autodiff_cli.cli.call import Call
from autodiff_cli.cli.declarations import More
from autodiff_cli.cli.errors import BadInput
from autodiff_cli.explain.digits.enclosure import Interval, enclosure
from autodiff_cli.formula.formula import Formula
from autodiff_cli.numbers.balls.number import Number, Undecided, compare, is_finite
from autodiff_cli.render.report import Report
from autodiff_cli.render.reports.enclosure import enclosure_report

_DIGITS = 30  # of an end that is no decimal


def report(
    context: typer.Context, argument: str, given: Mapping[str, str], asked: More, wrt: str | None, digits: int | None
) -> Report:
    """The bounds of the value and the gradient.

    Args:
        asked: what else is asked for, which does not go with intervals.
        wrt: the variables towards which, as `--wrt` lists them.

    Raises:
        BadInput: for what is no interval, arrays, and options that do not go with intervals.
        ExpressionError: as for one point.
    """
    others = [*asked.options(), *(f"--{name} {value}" for name, value in given.items() if ":" in value)]
    if others:
        raise BadInput(f"an interval goes with value and gradient, not with {others[0]}: leave one of them out")
    formula = inputs.formula(context, inputs.text_of(argument, Call.of(context).environment), given)
    names = inputs.chosen(formula, wrt)
    inputs.check_all_given(context, formula, given)
    if not formula.is_scalar:
        raise BadInput("intervals are for numbers, and this expression has arrays")
    intervals = {name: _interval(name, given[name]) for name in formula.variables}
    return enclosure_report(formula, intervals, enclosure(formula, intervals, names), digits)


def _interval(name: str, text: str) -> Interval:
    ends = inputs.interval(text)
    if ends is None:
        number = _number(name, text)
        return number, number
    low, high = (_number(name, end) for end in ends)
    try:
        side = compare(low, high)
    except Undecided:
        side = 0
    if side >= 0:
        raise BadInput(f"the value of `{name}`: an interval is LOW..HIGH, as 1.9..2.1, not `{text}`")
    return low, high


def _number(name: str, text: str) -> Number:
    constant: Formula = inputs.constant_expression(f"`{name}`", text)
    if not constant.is_scalar:
        raise BadInput(f"the value of `{name}`: an interval is of numbers, and `{text}` is an array")
    (number,) = evaluate([constant.output], _DIGITS).numbers
    if not is_finite(number):
        raise BadInput(f"the value of `{name}`: an interval goes from one finite number to another, not `{text}`")
    return number

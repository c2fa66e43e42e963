"""What `grad` shows about how far its numbers can be trusted: more right digits, or what uncertain inputs do."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from autodiff_cli.cli import inputs
from autodiff_cli.cli.call import Call
from autodiff_cli.cli.declarations import More
from autodiff_cli.cli.errors import BadInput
from autodiff_cli.explain.record import Trace
from autodiff_cli.formula.formula import Formula
from autodiff_cli.formula.uncertainty import Uncertainty, propagated
from autodiff_cli.render.report import Report, joined
from autodiff_cli.render.reports.gradient import gradient_report, uncertainty_report

MOST_DIGITS = 100_000


def report(
    context: typer.Context,
    argument: str,
    given: Mapping[str, str],
    errors: Mapping[str, str],
    asked: More,
    precision: int | None,
    wrt: str | None,
    digits: int | None,
) -> Report:
    """The value and the gradient, with the digits asked for and the uncertainty that `errors` bring.

    Args:
        asked: what else is asked for, which does not go with these.
        precision: to how many digits to compute; None for as floats.
        wrt: the variables towards which, as `--wrt` lists them.
        digits: how many to show.

    Raises:
        BadInput: for too many digits, a negative error, and options that go with neither.
        ExpressionError: as for floats, and for more digits of an expression with arrays.
    """
    _check(given, asked, precision)
    formula = inputs.formula(context, inputs.text_of(argument, Call.of(context).environment), given)
    found = gradient_report(_traced(context, formula, given, precision, wrt), digits)
    if not errors:
        return found
    return joined(found, uncertainty_report(_uncertainty(context, formula, given, errors), digits))


def _check(given: Mapping[str, str], asked: More, precision: int | None) -> None:
    others = [*asked.options(), *(f"--{name} {value}" for name, value in given.items() if ":" in value)]
    if others:
        what = "an uncertain value" if precision is None else "--precision"
        raise BadInput(f"{what} goes with value and gradient at one point, not with {others[0]}: leave one of them out")
    if precision is not None and precision > MOST_DIGITS:
        raise BadInput(
            f"--precision takes at most {MOST_DIGITS:,} digits; from Python, "
            "`autodiff_cli.explain.digits.precision.precise_trace` takes any number"
        )


def _traced(
    context: typer.Context, formula: Formula, given: Mapping[str, str], precision: int | None, wrt: str | None
) -> Trace:
    names = inputs.chosen(formula, wrt)
    if precision is None:
        return inputs.traced(context, formula, given, names)
    from autodiff_cli.explain.digits.precision import precise_trace

    return precise_trace(formula, inputs.graphs(context, formula, given), names, precision)


def _uncertainty(
    context: typer.Context, formula: Formula, given: Mapping[str, str], errors: Mapping[str, str]
) -> Uncertainty:
    point = inputs.point(context, formula, given)
    deviations = {name: inputs.constant_value(f"the error of `{name}`", text) for name, text in errors.items()}
    for name, deviation in deviations.items():
        if isinstance(deviation, float):
            fits = deviation >= 0
        else:
            fits = deviation.shape == getattr(point[name], "shape", ()) and bool((deviation >= 0).all())
        if not fits:
            words = f"the error of `{name}` must be a number from 0 on, or one for each element, not `{errors[name]}`"
            raise BadInput(words)
    return propagated(formula.grad(point), deviations)

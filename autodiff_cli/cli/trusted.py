"""What `grad` shows about how far its numbers can be trusted: more right digits, or what uncertain inputs do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import typer

from autodiff_cli.cli import inputs
from autodiff_cli.cli.call import Call
from autodiff_cli.cli.declarations import Asked
from autodiff_cli.cli.errors import BadInput
from autodiff_cli.explain.steps import Trace
from autodiff_cli.explain.uncertainty import Uncertainty, propagated
from autodiff_cli.expression import Expression

MOST_DIGITS = 100_000


class Form(NamedTuple):
    """To how many digits to compute (None: as floats), towards which variables, and how to write the results."""

    precision: int | None
    wrt: str | None
    digits: int | None
    json: bool


def write_trusted(
    context: typer.Context, argument: str, given: Mapping[str, str], errors: Mapping[str, str], asked: Asked, form: Form
) -> None:
    """Write the value and the gradient, with the digits asked for and the uncertainty that `errors` bring.

    Raises:
        BadInput: for too many digits, a negative error, and options that go with neither.
        ExpressionError: as for floats, and for more digits of an expression with arrays.
    """
    _check(given, asked, form)
    environment = Call.of(context).environment
    formula = inputs.formula(context, inputs.text_of(argument, environment), given)
    traced = _traced(context, formula, given, form)
    found = _uncertainty(context, formula, given, errors) if errors else None
    if form.json:
        from autodiff_cli.render import documents

        uncertainty = {} if found is None else {"uncertainty": documents.uncertainty_document(found)}
        environment.stdout.write(documents.dumps({**documents.gradient_document(traced), **uncertainty}))
    else:
        from autodiff_cli.render import gradient

        paper = environment.paper()
        gradient.write_gradient(paper, traced, form.digits)
        if found is not None:
            gradient.write_uncertainty(paper, found, form.digits)


def _check(given: Mapping[str, str], asked: Asked, form: Form) -> None:
    others = [*asked.options(), *(f"--{name} {value}" for name, value in given.items() if ":" in value)]
    if others:
        what = "an uncertain value" if form.precision is None else "--precision"
        raise BadInput(f"{what} goes with value and gradient at one point, not with {others[0]}: leave one of them out")
    if form.precision is not None and form.precision > MOST_DIGITS:
        raise BadInput(
            f"--precision takes at most {MOST_DIGITS:,} digits; from Python, "
            "`autodiff_cli.explain.precision.precise_trace` takes any number"
        )


def _traced(context: typer.Context, formula: Expression, given: Mapping[str, str], form: Form) -> Trace:
    names = inputs.chosen(formula, form.wrt)
    if form.precision is None:
        return inputs.traced(context, formula, given, names)
    from autodiff_cli.explain.precision import precise_trace

    return precise_trace(formula, inputs.graphs(context, formula, given), names, form.precision)


def _uncertainty(
    context: typer.Context, formula: Expression, given: Mapping[str, str], errors: Mapping[str, str]
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

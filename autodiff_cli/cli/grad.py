"""`autodiff grad`: the value and the gradient of a formula, or its derivatives as formulas."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from autodiff_cli import options
from autodiff_cli.cli import command_line as cli
from autodiff_cli.cli.environment import Output
from autodiff_cli.data.dialect import FileOptions

_MAX_DIGITS = 100_000  # limit of --precision; more digits take minutes
_MAX_ORDER = 170  # 171! is too large for a float, and derivatives such as those of 1/x grow like it
_ORDER_HELP = "Also compute the derivative of order N with respect to one variable (see --wrt)."
_PRECISION_HELP = "Compute value and gradient to this many proven digits, such as 50."
_derivative = functools.partial(options.option, group="Derivatives")


@dataclass(frozen=True)
class DerivativeRequest(options.CheckedOptions):
    """The options of `grad` that ask for more than value and gradient."""

    symbolic: bool = _derivative("--symbolic", "Also print the derivatives as formulas.")
    mode: cli.PassMode = cli.mode_option()
    order: int | None = _derivative("--order N", _ORDER_HELP, options.between(1, _MAX_ORDER))
    hessian: bool = _derivative("--hessian", "Also compute all second derivatives.")
    direction: str | None = _derivative("--direction x=1,y=2", "Also show the directional derivative, by forward mode.")
    jacobian: bool = _derivative("--jacobian", "Differentiate all elements of an array, or all --outputs.")
    outputs: str | None = _derivative("--outputs a,b", "Names of the statements that --jacobian differentiates.")
    at: str | None = _derivative("--at FILE", "Compute value and gradient at each row of a data file.")
    precision: int | None = _derivative("--precision DIGITS", _PRECISION_HELP, options.between(2, _MAX_DIGITS))


_INTERVAL, _RANGE = "an interval", "a range"
_REQUESTS = tuple(options.option_fields(DerivativeRequest))
_ONE_POINT = tuple(name for name in _REQUESTS if name not in ("at", "precision"))

# The options and kinds of values that cannot be combined.
_RESTRICTIONS = (
    *options.exclusive(_INTERVAL, (*_REQUESTS, cli.UNCERTAIN, _RANGE)),
    *cli.UNCERTAINTY_RESTRICTIONS,
    *options.exclusive("monte_carlo", ("at", _RANGE)),
    *options.exclusive("precision", (*_ONE_POINT, "at", _RANGE)),
    *options.exclusive(_RANGE, (*_ONE_POINT, "at")),
    *options.exclusive("at", _ONE_POINT),
    *options.all_need(options.option_fields(FileOptions), "at", "--at FILE"),
    options.needs("outputs", "jacobian", "--outputs needs --jacobian: add --jacobian"),
    *options.exclusive("jacobian", (name for name in _ONE_POINT if name not in ("jacobian", "outputs"))),
)


@cli.command(request=DerivativeRequest, uncertainty=cli.UncertaintyRequest, reading=FileOptions)
def grad(
    call: cli.Call,
    expression: str = cli.EXPR,
    *,
    request: DerivativeRequest,
    uncertainty: cli.UncertaintyRequest,
    reading: FileOptions,
    explicit: Mapping[str, Any],
    wrt: str | None = cli.WRT,
    implicit: bool = cli.IMPLICIT,
) -> Output:
    """Compute the value and the gradient of a formula.

    Give each variable a value with an option of its name: a number or any constant expression. The output lists every
    node with its value and its sensitivity, which is how fast the output changes with it. Without any values, the
    derivatives are printed as formulas.

    Uncertain values: 2+-0.1, 2+-5% and 2.0(1) are values with standard errors. The output then has the standard error
    of the result, to first and second order, and the share of each variable. With --at, it has a column `stderr`.

    Many points: give a file with one point per row (--at), or ranges START:STOP:COUNT as values for a grid. The result
    is CSV with the columns of the point, `value`, and d_NAME for each variable; with --json, one document per line.

    Intervals: LOW..HIGH as a value gives proven bounds of value and gradient on the interval.

    \b
    Examples:
      autodiff grad "x*y + sin(x)" --x 2 --y 3
      autodiff grad "x*y + sin(x)"
      autodiff grad "a = x + y; b = x - y; a*b" --x=-1.5 --y pi/4
      autodiff grad -x^2 --x 2 --digits 10
      autodiff grad "2x(x + 1)" --x 3 --implicit
      autodiff grad "(w*x + b - t)^2" --w 3 --x 2 --b 1 --t 5 --wrt w,b --json
      autodiff grad "x*y + sin(x)" --x 2 --y 3 --symbolic --hessian
      autodiff grad "x*y + sin(x)" --x 2 --y 3 --direction x=1,y=2
      autodiff grad "x*y + sin(x)" --x 2 --y 3 --mode forward
      autodiff grad "ln(1 + x)" --x 0 --order 6
      autodiff grad "[r*cos(t), r*sin(t)]" --r 2 --t pi/3 --jacobian
      autodiff grad "a = x*y; b = x/y; a + b" --x 2 --y 3 --jacobian --outputs a,b
      autodiff grad "x*y + sin(x)" --x 0:10:101 --y 3
      autodiff grad "x*y + sin(x)" --at points.csv > results.csv
      autodiff grad "x*y" --x 2+-0.1 --y 3.0(2) --correlation x,y=0.8
      autodiff grad "x*y" --at points.csv --sigma x=sx --sigma y=0.2
      autodiff grad "erf(x)" --x 0.1 --precision 50
      autodiff grad "x^2*sin(x)" --x 1.9..2.1
      echo "x^2" | autodiff grad - --x 3
      autodiff grad @formula.txt --set json=2
    """
    from autodiff_cli.cli import inputs

    value_texts, errors = inputs.split_uncertainties(call.values, uncertainty.sigma or ())
    call = call._replace(values=value_texts)
    ranges = [f"--{name} {text}" for name, text in value_texts.items() if ":" in text]
    has_interval = any(map(inputs.split_interval, value_texts.values()))
    kinds = {
        _INTERVAL: has_interval and _INTERVAL,
        cli.UNCERTAIN: errors and cli.UNCERTAIN,
        _RANGE: ranges and ranges[0],
    }
    options.check_restrictions(_RESTRICTIONS, {**explicit, **{kind: words for kind, words in kinds.items() if words}})
    if request.at is not None or ranges:
        from autodiff_cli.cli.gradients import points_output

        return points_output(call, expression, implicit, errors, uncertainty, request.at, reading, wrt)
    formula = inputs.read_formula(call, expression, implicit, notes=request.outputs is None)
    names = inputs.select_variables(formula, wrt)
    if has_interval:
        from autodiff_cli.cli.gradients import interval_report

        return Output(interval_report(call, formula, names))
    from autodiff_cli.render.gradient import formulas_report, gradient_report, uncertainty_report
    from autodiff_cli.render.report import combine_reports

    reports, nonlinear = [], ""
    if errors:
        from autodiff_cli.cli.gradients import propagated_uncertainty, select_outputs

        point = inputs.read_point(call, formula)
        sizes = formula.value_shapes(formula.at(point))
        outputs = select_outputs(formula, request, sizes) if request.jacobian else {"": formula}
        results = {name: propagated_uncertainty(one, point, errors, uncertainty)[0] for name, one in outputs.items()}
        reports = [uncertainty_report(results)]
        nonlinear = "; ".join(f"{name}: {u.warning}" if name else u.warning for name, u in results.items() if u.warning)
    if replace(request, precision=None) != DerivativeRequest():
        from autodiff_cli.cli.gradients import higher_derivatives_report

        report = higher_derivatives_report(call, formula, names, request, nonlinear)
        return Output(combine_reports(report, *reports))
    from autodiff_cli.formula.derivatives import HigherDerivatives

    if request.precision is not None:
        from autodiff_cli.explain.precision import precise_trace

        trace = precise_trace(formula, inputs.value_graphs(call, formula), names, request.precision)
    elif formula.variables and not value_texts:
        derivatives = HigherDerivatives(formulas={name: formula.derivative(name) for name in names})
        return Output(formulas_report(formula, derivatives, functools.partial(inputs.value_option, call)))
    else:
        trace = inputs.trace_at(call, formula, names)
    report = gradient_report(trace.with_warning("nonlinear", nonlinear))
    return Output(combine_reports(report, *reports) if reports else report)

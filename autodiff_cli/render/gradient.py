"""Reports of `grad` and `check`: value and gradient, derivatives as formulas, higher derivatives, proofs and checks.

The first part has the plain gradient, the second what options add: Hessians, Jacobians, directional derivatives,
derivatives of higher order. The third has the bounds that `grad` proves for intervals, and the verdicts of `check`. The
`write_…` functions are shared with the reports of `trace`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from autodiff_cli.data.json_records import pick, to_json
from autodiff_cli.explain.record import NodeWarning, Trace
from autodiff_cli.formula.derivatives import DerivativeMatrix, HigherDerivatives
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.node import Shape
from autodiff_cli.render.formatting import NumberFormat, display_width, shorten_middle, single_line
from autodiff_cli.render.report import NO_VALUE, Column, Paper, Report, Style, TextTable, number_columns

if TYPE_CHECKING:
    from autodiff_cli.explain.gradient_check import Finding, GradientCheck
    from autodiff_cli.explain.precision import Interval, ProvenBounds
    from autodiff_cli.export.languages import FrameworkGradient
    from autodiff_cli.formula.uncertainty import Uncertainty

MAX_EXAMPLE_LENGTH = 4  # elements shown along each axis of an example of an array, to fit on a line


# --- Value, gradient and nodes ---


def gradient_report(trace: Trace) -> Report:
    """Report the value, the gradient, and every node with its value and sensitivity."""
    return derivatives_report(trace.expression, trace.point, trace, HigherDerivatives())


def uncertainty_report(uncertainties: Mapping[str, Uncertainty]) -> Report:
    """Report the uncertainties of outputs by their names; a single output has the name "".

    Each has a standard error, the shares of the inputs in the variance, and the order to use.
    """

    def write(paper: Paper) -> None:
        for name, uncertainty in uncertainties.items():
            _write_uncertainty(paper, f"uncertainty of {name}" if name else "uncertainty", uncertainty)

    def document() -> dict[str, Any]:
        documents = {name: uncertainty_document(uncertainty) for name, uncertainty in uncertainties.items()}
        return {"uncertainty": documents.get("", documents)}

    return Report(write, lambda: [document()])


def _write_uncertainty(paper: Paper, title: str, uncertainty: Uncertainty) -> None:
    brief, second, simulated = paper.brief, uncertainty.second_order, uncertainty.monte_carlo
    paper.heading(f"{title}, to first order")
    paper.line(f"  standard error of the value = {brief(uncertainty.stderr)}", Style.STRONG)
    for name, share in uncertainty.shares.items():
        part = f"{100 * share:.1f} % of its variance" if share == share else "unknown"
        paper.line(f"  from {name}: {part}")
    if second is not None:
        paper.heading(f"{title}, to second order")
        paper.line(f"  mean = {brief(second.mean)}, standard error = {brief(second.stderr)}")
    if simulated is not None:
        paper.heading(f"{title}, by {simulated.draws:,} random draws")
        paper.line(f"  mean = {brief(simulated.mean)}, standard error = {brief(simulated.stderr)}")
        low, _, median, _, high = map(brief, simulated.quantiles.values())
        paper.line(f"  median = {median}; 95 % of the values are from {low} to {high}")
    if uncertainty.reason:
        paper.line(f"  {uncertainty.reason}", Style.STRONG if simulated else Style.FAINT)


def uncertainty_document(uncertainty: Uncertainty) -> dict[str, Any]:
    """Return the uncertainty for JSON. Results that are not known are absent."""
    fields = pick(uncertainty, "stderr", "shares", "second_order", "monte_carlo", "recommended")
    return {"value": fields["stderr"], **{name: field for name, field in fields.items() if field is not None}}


def write_nodes(paper: Paper, trace: Trace, derivatives: Mapping[str, Sequence[Any]]) -> None:
    """Write a table of all nodes: id, label, value, and one column per entry of `derivatives`.

    Args:
        derivatives: for each column its title and one entry per node; None for a node without a derivative.
    """
    show = paper.brief
    columns_of = zip(*derivatives.values(), strict=True) if derivatives else itertools.repeat(())
    rows = [
        (str(i), label, show(value), *(NO_VALUE if slope is None else show(slope) for slope in slopes))
        for i, (label, value, slopes) in enumerate(zip(trace.labels, trace.values, columns_of, strict=False))
    ]
    titles = (Column("id", is_number=True, is_optional=True), Column("node"), *number_columns("value", *derivatives))
    paper.titled_table("nodes, each after its inputs", TextTable(titles, rows))


def write_formula(paper: Paper, name_text: str, derivative: Formula) -> None:
    """Write a derivative as a formula after its name, `d/dx = cos(x)`."""
    text = single_line(str(derivative))
    paper.line(f"{name_text}{':' if ';' in text else ' ='} {shorten_middle(text, paper.max_formula_length)}")


def example_value(shape: Shape) -> str:
    """Return an example value of a shape, as one types it: `2`, or `"[2, 2]"`. Large arrays are abbreviated."""
    text = "2"
    for length in reversed(shape):
        text = f"[{', '.join([text] * min(length, MAX_EXAMPLE_LENGTH))}{', …' if length > MAX_EXAMPLE_LENGTH else ''}]"
    return f'"{text}"' if shape else text


def write_title(paper: Paper, expression: Formula, point: Mapping[str, Any]) -> None:
    """Write an expression and the point at which it was evaluated."""
    paper.line(shorten_middle(single_line(expression.text), paper.max_formula_length), Style.STRONG)
    if point:
        paper.line(f"at {assignments_text(point, paper.in_full)}")


def assignments_text(values: Mapping[str, Any], show: NumberFormat) -> str:
    """Return values with their names: `x = 1, y = 2`."""
    return ", ".join(f"{name} = {show(x)}" for name, x in values.items())


def write_result(paper: Paper, trace: Trace, gradient: Mapping[str, Any] | None = None) -> None:
    """Write the value and the gradient.

    Args:
        gradient: derivatives by variable, if they do not come from reverse mode.
    """
    slopes, show = trace.gradient if gradient is None else gradient, paper.in_full
    paper.line()
    paper.line(f"value = {show(trace.value)}", Style.STRONG)
    width = max(map(display_width, slopes), default=0)
    lines = [f"d/d{name}{' ' * (width - display_width(name))} = {show(slope)}" for name, slope in slopes.items()]
    paper.section("gradient", lines, Style.STRONG)


def write_warnings(paper: Paper, warnings: Sequence[NodeWarning]) -> None:
    """Write a section with warnings, if there are any."""

    def write(warning: NodeWarning) -> None:
        paper.line(f"  {warning.kind}: {warning.message}", Style.WARNING)

    paper.write_items(warnings, write, "warning", "warnings")


# --- Higher derivatives, directions, Jacobians ---


def formulas_report(expression: Formula, request: HigherDerivatives, spell_option: Callable[[str, str], str]) -> Report:
    """Report all requested derivatives as formulas, and how to evaluate them.

    Args:
        spell_option: returns the command-line option that gives a variable a value, from its name and the value.
    """

    def write(paper: Paper) -> None:
        for name, derivative in (request.formulas or {}).items():
            write_formula(paper, f"d/d{name}", derivative)
        hessian = request.hessian or {}
        for row, column in itertools.combinations_with_replacement(hessian, 2):  # it is symmetric
            name = f"d^2/d{row}^2" if row == column else f"d^2/d{row}d{column}"
            write_formula(paper, name, hessian[row][column])
        if request.derivative is not None:
            write_formula(paper, _derivative_name(request), request.derivative)
        for output, derivatives in (request.jacobian or {}).items():
            for name, derivative in derivatives.items():
                write_formula(paper, f"d({output})/d{name}", derivative)
        shapes = expression.example_shapes()
        values = " ".join(spell_option(name, example_value(shapes.get(name, ()))) for name in expression.variables)
        paper.line()
        paper.line(f"To evaluate at a point, give each variable a value: {values}", Style.FAINT)

    document = {"expression": expression.text, "variables": [*expression.variables]}
    return Report(write, lambda: [document | _derivative_fields(request)])


def derivatives_report(
    expression: Formula,
    point: Mapping[str, Any],
    trace: Trace | None,
    request: HigherDerivatives,
    warnings: Sequence[NodeWarning] = (),
) -> Report:
    """Report all requested derivatives at a point.

    Args:
        trace: the forward and backward pass at the point; None for an array output, which has no gradient.
        warnings: warnings about a Jacobian, in addition to other warnings of the trace.
    """
    all_warnings = [*{warning.message: warning for warning in (*warnings, *(trace.warnings if trace else ()))}.values()]
    tangents = request.tangents
    slopes = None if tangents is None else {name: column[-1] for name, column in tangents.items()}

    def write(paper: Paper) -> None:
        write_title(paper, expression, point)
        if request.jacobian is not None:
            outputs = [f"{name} = {paper.in_full(value)}" for name, value in (request.outputs or {}).items()]
            paper.section("outputs", outputs, Style.STRONG)
            _write_matrix(paper, "jacobian", request.jacobian)
        elif trace is not None:
            write_result(paper, trace, slopes)
            _write_sections(paper, request)
            columns = {f"d/d{name}": column for name, column in (tangents or {}).items()}
            write_nodes(paper, trace, {"sensitivity": trace.adjoints} if tangents is None else columns)
        write_warnings(paper, all_warnings)

    def document() -> dict[str, Any]:
        if trace is None:
            elements = to_json([*(request.outputs or {}).values()])
            fields: dict[str, Any] = {"expression": expression.text, "variables": to_json(point), "value": elements}
        else:
            fields = gradient_document(trace)
        fields["warnings"] = [*map(warning_document, all_warnings)]
        if slopes is not None:
            fields["gradient"] = to_json(slopes)
        return fields | _derivative_fields(request)

    return Report(write, lambda: [document()])


def _write_sections(paper: Paper, request: HigherDerivatives) -> None:
    show = paper.in_full
    if request.formulas is not None:
        paper.heading("derivatives")
        for name, derivative in request.formulas.items():
            write_formula(paper, f"  d/d{name}", derivative)
    if request.direction is not None:
        paper.heading(f"along {assignments_text(request.direction, show)}")
        paper.line(f"  derivative = {show(request.directional)}", Style.STRONG)
    _write_matrix(paper, "hessian", request.hessian or {})
    if request.derivative is not None:
        paper.line()
        paper.line(f"{_derivative_name(request)} = {show(request.derivative)}", Style.STRONG)


def _write_matrix(paper: Paper, title: str, matrix: DerivativeMatrix) -> None:
    """Write a matrix of derivatives with named rows and columns; an entry that is an array stands in one cell."""
    rows = [(name, *map(paper.in_full, row.values())) for name, row in matrix.items()]
    titles = next(iter(matrix.values()), {})
    paper.titled_table(title, TextTable((Column(""), *number_columns(*titles)), rows))


def _derivative_fields(request: HigherDerivatives) -> dict[str, Any]:
    """Return the JSON fields of the requested derivatives; others are absent."""
    names = ("tangents", "hessian", "directional", "derivative", "jacobian", "outputs")
    fields = {"derivatives": request.formulas, **{name: getattr(request, name) for name in names}}
    return {name: to_json(field) for name, field in fields.items() if field is not None}


def _derivative_name(request: HigherDerivatives) -> str:
    name, order = request.variable, request.order
    return f"d/d{name}" if order == 1 else f"d^{order}/d{name}^{order}"


# --- JSON documents ---


def gradient_document(trace: Trace) -> dict[str, Any]:
    """Return the document that `grad --json` writes: value, gradient, all nodes, warnings."""
    tape = trace.tape
    nodes = [
        {
            "id": i,
            "label": label,
            "op": "input" if node.is_input else "constant" if node.op is None else node.op.name,
            "inputs": inputs,
            "value": to_json(value),
            "adjoint": to_json(adjoint),
        }
        for i, (node, label, inputs, value, adjoint) in enumerate(
            zip(tape.nodes, trace.labels, tape.inputs, trace.values, trace.adjoints, strict=True)
        )
    ]
    return {
        "expression": trace.expression.text,
        "variables": to_json(trace.point),
        "value": to_json(trace.value),
        "gradient": to_json(trace.gradient),
        "nodes": nodes,
        "order": [*range(len(tape))],
        "warnings": [warning_document(warning) for warning in trace.warnings],
    }


def warning_document(warning: NodeWarning) -> dict[str, Any]:
    """Return a warning for JSON, with the correct digits under "right" if it has any."""
    document = {"node": warning.node, "kind": warning.kind, "message": warning.message}
    return {**document, "right": dict(warning.right)} if warning.right else document


# --- Proofs and checks ---

_UNDEFINED_MESSAGE = "the value or a derivative may be unbounded or undefined in the intervals; try narrower ones"


def enclosure_report(formula: Formula, intervals: Mapping[str, Interval], proven: ProvenBounds) -> Report:
    """Report proven bounds of value and gradient, with a warning if something in the intervals is undefined.

    Args:
        intervals: the ends of the interval of each variable; a single end for a number.
    """
    from autodiff_cli.explain.accuracy import VALUE
    from autodiff_cli.numbers.ball_arithmetic import nearest_float

    ends_by_name = {name: sorted({nearest_float(end) for end in ends}) for name, ends in intervals.items()}

    def write(paper: Paper) -> None:
        show = paper.in_full
        paper.line(formula.text, Style.STRONG)
        variables = (
            f"{name} between {show(ends[0])} and {show(ends[-1])}" if len(ends) > 1 else f"{name} = {show(ends[0])}"
            for name, ends in ends_by_name.items()
        )
        paper.line(f"with {', '.join(variables)}")
        rows = [
            ("value" if name == VALUE else f"d/d{name}", show(low), show(high))
            for name, (low, high) in proven.bounds.items()
        ]
        paper.titled_table("proven bounds", TextTable((Column(""), *number_columns("at least", "at most")), rows))
        paper.section("warnings", [f"domain: {_UNDEFINED_MESSAGE}"] * proven.undefined, Style.WARNING)

    def document() -> dict[str, Any]:
        warnings = [{"node": formula.tape.outputs[0], "kind": "domain", "message": _UNDEFINED_MESSAGE}]
        return {
            "expression": formula.text,
            "variables": {
                name: to_json(ends) if len(ends) > 1 else to_json(ends[0]) for name, ends in ends_by_name.items()
            },
            "enclosure": to_json(proven.bounds),
            "warnings": warnings if proven.undefined else [],
        }

    return Report(write, lambda: [document()])


_NUMBERS = number_columns("gradient", "reference", "relative error", "order")
_COLUMNS = (Column("variable"), *_NUMBERS, Column("verdict"))
_MAX_REFERENCE_LENGTH = 20  # characters: more digits than a float has, and the table stays narrow


def check_report(check: GradientCheck, other: FrameworkGradient | None = None) -> tuple[Report, bool]:
    """Report a check of the gradient; return the report and whether the gradient is correct.

    Args:
        other: the gradient that another framework computes. At a kink it may use another convention, so
            differences there do not count.
    """
    agrees = check.agrees and all(
        other is None or other.agrees[each.variable] or not each.verdict.has_derivative for each in check.findings
    )
    return Report(
        lambda paper: _write_check(paper, check, other, agrees), lambda: [_check_document(check, other, agrees)]
    ), agrees


def _write_check(paper: Paper, check: GradientCheck, other: FrameworkGradient | None, agrees: bool) -> None:
    from autodiff_cli.explain.gradient_check import Verdict

    def write_note(finding: Finding) -> None:
        style = Style.WARNING if finding.verdict is Verdict.DIFFERS else Style.PLAIN
        paper.line(f"  {finding.variable}: {finding.note}", style)

    write_title(paper, check.trace.expression, check.trace.point)
    paper.line()
    rows = [
        (
            finding.variable,
            paper.in_full(finding.gradient),
            _short_reference(finding.reference),
            NO_VALUE if finding.relative_error is None else f"{finding.relative_error:.1e}",
            NO_VALUE if (order := finding.order) is None else "exact" if math.isinf(order) else f"{order:.3f}",
            finding.verdict.value,
        )
        for finding in check.findings
    ]
    paper.table(TextTable(_COLUMNS, rows))
    paper.line("  order: f(x + h) - f(x) - h*gradient shrinks like h^order; if wrong, order 1")
    paper.write_items([finding for finding in check.findings if finding.note], write_note, "note", "notes")
    paper.section("numbers out of the range of floats", check.notes)
    paper.section("an equivalent formula that is more accurate here", [check.rewriting] if check.rewriting else [])
    if other is not None:
        words = {name: "agrees" if same else "differs" for name, same in other.agrees.items()}
        compared = [(name, paper.in_full(slope), words[name]) for name, slope in other.gradient.items()]
        table = TextTable((Column("variable"), *number_columns("gradient"), Column("")), compared)
        paper.titled_table(f"{other.framework} {other.version}", table)
    paper.line()
    verdicts = {finding.verdict for finding in check.findings}
    is_smooth = all(verdict.has_derivative for verdict in verdicts)
    has_nan = math.isfinite(check.trace.value) and any(math.isnan(finding.gradient) for finding in check.findings)
    correct = "correct" + " where there is a derivative" * (not is_smooth) + ", except where it is nan" * has_nan
    is_unknown = Verdict.UNKNOWN in verdicts and verdicts.isdisjoint((Verdict.INACCURATE, Verdict.DIFFERS))
    conclusion = correct if agrees else "not known completely" if is_unknown else "wrong"
    paper.line(f"The gradient is {conclusion}.", Style.STRONG)


def _check_document(check: GradientCheck, other: FrameworkGradient | None, agrees: bool) -> dict[str, Any]:
    """Return the JSON document; the order is null if unknown, and "inf" if there is no remainder at all."""
    return {
        "expression": check.trace.expression.text,
        "variables": check.trace.point,
        "value": check.trace.value,
        "agrees": agrees,
        **({"better": check.rewriting} if check.rewriting is not None else {}),
        **({"notes": check.notes} if check.notes else {}),
        **({"against": other} if other is not None else {}),
        "checks": {
            finding.variable: pick(finding, "gradient", "reference", "relative_error", "order")
            | {"verdict": finding.verdict.value, "note": finding.note}
            for finding in check.findings
        },
    }


def _short_reference(reference: str) -> str:
    mantissa, exponent, power = reference.partition("e")
    shorter = f"{mantissa[:_MAX_REFERENCE_LENGTH]}…{exponent}{power}"
    return mantissa if len(mantissa) <= _MAX_REFERENCE_LENGTH else shorter

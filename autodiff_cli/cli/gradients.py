"""The reports of `grad` beyond value and gradient at one point.

- `higher_derivatives_report`: formulas, tangents, higher orders, directions, several outputs.
- `propagated_uncertainty`: the uncertainty that uncertain values cause.
- `interval_report`: proven bounds over intervals (`--x 1.9..2.1`).
- `points_output`: many points, the rows of a file (`--at FILE`) or a grid of ranges (`--x 0:10:101`).

NumPy and FLINT are imported only by the reports that need them.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autodiff_cli.cli import inputs
from autodiff_cli.cli.command_line import Call, PassMode, UncertaintyRequest, merge_assignments
from autodiff_cli.cli.environment import BadInput, Failure, Output, binary_stdin
from autodiff_cli.data.dialect import FileOptions
from autodiff_cli.explain.record import NodeWarning, Trace
from autodiff_cli.explain.tracing import trace, warnings_of_passes
from autodiff_cli.explain.warnings import check_higher_derivatives, jumping_derivative, unrepresentable_warnings
from autodiff_cli.formula import derivatives
from autodiff_cli.formula.derivatives import HigherDerivatives
from autodiff_cli.formula.formula import Formula
from autodiff_cli.language.errors import InputError, format_names
from autodiff_cli.language.lexer import canonical_name, is_name

if TYPE_CHECKING:
    from autodiff_cli.cli.grad import DerivativeRequest
    from autodiff_cli.data.files import DataFile, RowBlock
    from autodiff_cli.formula.array_derivatives import BatchedGradient, Range
    from autodiff_cli.formula.uncertainty import RowErrors, Uncertainty
    from autodiff_cli.render.report import Report

_COUNT_PATTERN = re.compile("0*[1-9][0-9]*")
_MAX_COUNT_LENGTH = 100  # digits of a count; valid counts are much shorter, and Python does not convert very long texts


def higher_derivatives_report(
    call: Call, formula: Formula, names: Sequence[str], request: DerivativeRequest, nonlinear: str = ""
) -> Report:
    """Return the report of higher derivatives: as formulas if no variable has a value, else as numbers.

    Args:
        nonlinear: the reason why the first-order uncertainty is misleading, for a warning; empty if it is not.

    Raises:
        BadInput: for options that cannot be combined, or do not fit the expression.
        ExpressionError: for unknown names and for shapes that do not fit.
    """
    from autodiff_cli.render.gradient import derivatives_report, formulas_report

    if request.order is not None and len(names) != 1:
        raise BadInput("--order differentiates with respect to one variable: choose it with --wrt, such as --wrt x")
    if formula.variables and not call.values and request.mode is PassMode.REVERSE and request.direction is None:
        format_option = functools.partial(inputs.value_option, call)
        return formulas_report(formula, _derivative_formulas(formula, names, request), format_option)
    point = inputs.read_point(call, formula)
    unrepresentable = inputs.unrepresentable_values(formula, call.values)
    if request.jacobian:
        return _jacobian_report(formula, point, names, request, unrepresentable, nonlinear)
    record = trace(formula, point, names, unrepresentable)
    record = inputs.trace_of_elements(record) if request.mode is PassMode.FORWARD else record
    results = _derivative_values(formula, point, record, names, request)
    from autodiff_cli.explain.accuracy import unrepresentable_numbers

    if request.direction is not None:
        from autodiff_cli.formula.array_derivatives import rate_name

        rates = _direction_texts(request.direction).items()
        components = {rate_name(name): inputs.constant_expression(f"`{name}`", text) for name, text in rates}
        unrepresentable |= unrepresentable_numbers(components)
    inaccurate = check_higher_derivatives(formula, formula.at(point), results, unrepresentable)
    warnings = inaccurate.add_to(record.warnings, record.tape.outputs[0], record.labels[record.tape.outputs[0]])
    singular = "" if warnings or results.is_finite else "a higher derivative is not finite at this point"
    kink = jumping_derivative(record, max(request.order or 0, 2 if request.hessian else 0))
    checked = replace(record, warnings=warnings).with_warning("singular", singular).with_warning("kink", kink)
    return derivatives_report(formula, point, checked.with_warning("nonlinear", nonlinear), results)


def _jacobian_report(
    formula: Formula,
    point: Mapping[str, Any],
    names: Sequence[str],
    request: DerivativeRequest,
    unrepresentable: Mapping[str, Any],
    nonlinear: str,
) -> Report:
    """Return the report of a Jacobian, with the warnings of all outputs; see `higher_derivatives_report`."""
    from autodiff_cli.explain.array_accuracy import output_warnings
    from autodiff_cli.render.gradient import derivatives_report

    values = formula.at(point)
    sizes = formula.value_shapes(values)
    outputs = select_outputs(formula, request, sizes)
    slopes = derivatives.jacobian_by_name(outputs, point, names)
    results = HigherDerivatives(jacobian=slopes, outputs={label: of.value(point) for label, of in outputs.items()})
    warnings = [NodeWarning(formula.tape.outputs[0], "nonlinear", nonlinear)] if nonlinear else []
    warnings += warnings_of_passes(formula, outputs.values(), point, names)
    warnings = output_warnings(formula, outputs, values, results, unrepresentable, warnings)
    warnings += unrepresentable_warnings(formula, unrepresentable)
    whole = None if formula.output_shape(sizes) else trace(formula, point, names, unrepresentable)
    return derivatives_report(formula, point, whole, results, warnings)


def _derivative_formulas(formula: Formula, names: Sequence[str], request: DerivativeRequest) -> HigherDerivatives:
    """Return the requested derivatives as formulas."""
    if request.jacobian:
        outputs = select_outputs(formula, request, formula.shapes)
        rows = {label: {name: output.derivative(name) for name in names} for label, output in outputs.items()}
        return HigherDerivatives(jacobian=rows)
    first = {name: formula.derivative(name) for name in names}
    arrays = [name for name in names if name in formula.shapes]
    if arrays and (request.hessian or request.order is not None):
        raise BadInput(f"`{arrays[0]}` is an array; its higher derivatives have no formula: give all variables values")
    second = derivatives.second_derivatives(first) if request.hessian else None
    if request.order is None:
        return HigherDerivatives(formulas=first, hessian=second)
    nth = formula
    for _ in range(request.order):
        nth = nth.derivative(names[0])
    return HigherDerivatives(first, hessian=second, derivative=nth, order=request.order, variable=names[0])


def _derivative_values(
    formula: Formula, point: Mapping[str, Any], trace: Trace, names: Sequence[str], request: DerivativeRequest
) -> HigherDerivatives:
    """Return the requested derivatives of one number at a point, where its trace is known."""
    from autodiff_cli.explain.views import all_tangents

    results = HigherDerivatives(
        formulas={name: formula.derivative(name) for name in names} if request.symbolic else None,
        tangents=all_tangents(trace) if request.mode is PassMode.FORWARD else None,
        hessian=derivatives.hessian_by_name(formula, point, names) if request.hessian else None,
    )
    if request.direction is not None:
        direction = inputs.rounded_values(_direction_texts(request.direction))
        results = replace(results, direction=direction, directional=formula.jvp(direction, point)[1])
    if request.order is not None:
        nth = formula.derivatives(names[0], request.order, point)[-1]
        results = replace(results, derivative=nth, order=request.order, variable=names[0])
    return results


def _direction_texts(direction: str) -> dict[str, str]:
    """Return the texts of the components of `--direction`, by variable."""
    # commas may also appear inside a value
    return merge_assignments({}, re.split(r",(?=[^,()\[\]=]*=)", direction), "--direction")


def select_outputs(
    formula: Formula, request: DerivativeRequest, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, Formula]:
    """Return the outputs of `--outputs`, or the elements of the output, by label."""
    names = None if request.outputs is None else inputs.split_names(request.outputs)
    return derivatives.select_outputs(formula, names, shapes)


def propagated_uncertainty(
    formula: Formula, point: Mapping[str, Any], errors: Mapping[str, str], request: UncertaintyRequest
) -> tuple[Uncertainty, Trace]:
    """Return the uncertainty of the value of a formula, and the trace with respect to its uncertain variables.

    Derivatives that rounding errors make inaccurate are replaced by their correct digits.

    Args:
        formula: the formula.
        point: the value of every variable.
        errors: the texts of the standard errors.
        request: the options for uncertain values.

    Raises:
        BadInput: for texts that are not numbers.
        ExpressionError: for impossible errors and correlations.
    """
    from autodiff_cli.formula.uncertainty import MAX_ELEMENTS, Correlations, UncertainPoint

    for name in errors:
        inputs.check_variable(f"--sigma {name}", name, formula.leaves)
    texts = {name: errors[name] for name in formula.variables if name in errors}  # the same draws in any order
    deviations = {name: inputs.constant_value(f"the error of `{name}`", text) for name, text in texts.items()}
    correlations = Correlations(inputs.read_correlations(request.correlation or ()))
    uncertain = UncertainPoint(formula, point, deviations, correlations)
    record, hessian = trace(formula, point, tuple(errors)), None
    right = {name: text for warning in record.warnings for name, text in warning.right.items()}
    if len(uncertain.names) <= MAX_ELEMENTS:
        hessian = derivatives.hessian_by_name(formula, point, errors)
        right |= check_higher_derivatives(formula, formula.at(point), HigherDerivatives(hessian=hessian)).correct
    total = uncertain.uncertainty(record.value, record.gradient, hessian, right, request.monte_carlo or 0, request.seed)
    return total, record


def interval_report(call: Call, formula: Formula, names: Sequence[str]) -> Report:
    """Return the report of proven bounds of value and gradient over intervals.

    Args:
        call: the inputs of the command.
        formula: the formula.
        names: the variables to differentiate with respect to.

    Raises:
        BadInput: for a text that is not an interval, and for arrays.
        MissingValueError: for a variable without a value.
    """
    from autodiff_cli.explain.precision import enclosure
    from autodiff_cli.render.gradient import enclosure_report

    inputs.check_all_have_values(call, formula, call.values)
    if not formula.is_scalar:
        raise BadInput("intervals need scalar variables, but this expression has arrays")
    intervals = {name: inputs.read_interval(name, call.values[name]) for name in formula.variables}
    return enclosure_report(formula, intervals, enclosure(formula, intervals, names))


def points_output(
    call: Call,
    argument: str,
    implicit: bool,
    errors: Mapping[str, str],
    uncertainty: UncertaintyRequest,
    path: str | None,
    reading: FileOptions,
    wrt: str | None,
) -> Output:
    """Return the output with value and gradient at the rows of a file, or on the grid of some ranges.

    Args:
        call: the inputs of the command.
        argument: the argument EXPR.
        implicit: whether to insert `*` between factors.
        errors: the texts of the standard errors: numbers, or names of columns of the file.
        uncertainty: the options for uncertain values.
        path: the file of points; None for a grid.
        reading: how to read the file.
        wrt: the list of `--wrt`.

    Raises:
        BadInput: for a file or ranges that cannot be used, and for options that cannot be combined.
        ExpressionError: for an expression that cannot be read.
    """
    if path == argument == "-":
        raise BadInput("the expression and the points cannot both be read from standard input: use a file for one")
    from autodiff_cli.data.files import DataFile
    from autodiff_cli.explain.array_accuracy import RowAccuracy
    from autodiff_cli.formula.array_derivatives import MAX_POINTS, BatchedGradient, grid
    from autodiff_cli.render.rows import GradientTable

    environment = call.environment
    stdin = binary_stdin(environment) if path == "-" else None  # its rows are read only once
    file = None if path is None else DataFile(path, stdin, options=reading, single_pass=path == "-")
    ranges = {name: read_range(name, value) for name, value in call.values.items() if file is None and ":" in value}
    count = math.prod(value_range.count for value_range in ranges.values())
    if count > MAX_POINTS:
        raise BadInput(f"the ranges give {count:,} points; at most {MAX_POINTS:,} are possible")
    names = () if file is None else file.names
    formula = inputs.read_formula(call, argument, implicit, names)
    columns = [variable for variable in formula.variables if variable in names] if file else [*ranges]
    if file:
        _check_columns(file, columns, call.values, formula)
    fixed = {name: value for name, value in call.values.items() if name not in ranges}
    inputs.check_all_have_values(call, formula, {*columns, *fixed})
    row_errors = _row_errors(formula, errors, uncertainty.correlation or (), names)
    chosen = inputs.select_variables(formula, wrt)
    gradients = BatchedGradient(formula, columns, inputs.rounded_values(fixed), chosen, row_errors)
    accuracy = RowAccuracy(gradients, inputs.unrepresentable_values(formula, fixed))
    blocks = _file_blocks(file, gradients) if file else ((block, None) for block in grid(ranges))
    table = GradientTable(gradients, file.header if file else columns, blocks, accuracy)
    if clashes := [name for name in table.result_columns if name in (names if file else columns)]:
        raise BadInput(
            f"{path or 'the grid'}: there is already a column `{clashes[0]}`, which is also the name of a result"
        )
    if file and path != "-":  # a first pass over the file reports errors before anything is written
        count = sum(len(block.cells) for block in _checked_blocks(file, gradients))
    gradients.point_count = 0 if path == "-" else count

    def print_notes() -> None:
        environment.note(*((*file.notes, *file.filter_notes(file.filter_counts)) if file else ()))
        if table.undefined_count:
            environment.note(f"points where the value or a derivative is not finite: {table.undefined_count}")
        if table.inaccurate_count:
            environment.note(f"precision: rows with inaccurate numbers: {table.inaccurate_count}")
            environment.note(*(f"  {row}" for row in table.first_inaccurate))
        if table.misleading_count:
            words = "rows whose standard error is misleading, because the formula is nonlinear within the errors"
            environment.note(f"nonlinear: {words}: {table.misleading_count}, first row {table.first_misleading}")
        if accuracy.unchecked:
            environment.note(f"precision: further rows that may have inaccurate numbers: {accuracy.unchecked}")

    return Output(table.report, after_write=print_notes)


def _row_errors(
    formula: Formula, errors: Mapping[str, str], correlations: Sequence[str], columns: Collection[str]
) -> RowErrors | None:
    """Return the standard errors of variables at many points; None if there are none."""
    if not errors:
        return None
    from autodiff_cli.formula.uncertainty import Correlations, RowErrors

    for name in errors:
        inputs.check_variable(f"--sigma {name}", name, formula.leaves)
    by_column = {name: canonical_name(text.strip()) for name, text in errors.items()}
    fixed = {}
    for name, text in errors.items():
        if by_column[name] not in columns:
            if columns and is_name(by_column.pop(name)):
                hint = f"the columns are {format_names(columns)}"
                raise BadInput(f"--sigma {name}={text}: there is no column `{text}`; {hint}")
            by_column.pop(name, None)
            fixed[name] = inputs.constant_value(f"the error of `{name}`", text)
    return RowErrors(by_column, fixed, Correlations(inputs.read_correlations(correlations)))


def _checked_blocks(file: DataFile, gradients: BatchedGradient) -> Iterator[RowBlock]:
    """Yield the blocks of a file. Raises ExpressionError for a negative standard error."""
    from autodiff_cli.backends.numpy_backend import BLOCK_ROWS
    from autodiff_cli.formula.uncertainty import check_error_columns

    row = 1
    for block in file.iter_blocks([*gradients.columns, *gradients.error_columns], BLOCK_ROWS, is_filtered=True):
        check_error_columns(block.columns, gradients.error_columns, None if file.options.where else row)
        row += len(block.cells)
        yield block


def _file_blocks(file: DataFile, gradients: BatchedGradient) -> Iterator[RowBlock]:
    """Yield the blocks of a file.

    Raises:
        BadInput: for a row that cannot be used, and for a file without rows.
        Failure: for a row that cannot be used after results have been written.
    """
    has_output = False
    try:
        for block in _checked_blocks(file, gradients):
            yield block
            has_output = True
    except InputError as error:
        raise (Failure if has_output else BadInput)(str(error)) from error
    if not has_output:
        raise BadInput(f"{file.name}: there are no rows")


def read_range(name: str, text: str) -> Range:
    """Parse a range `START:STOP:COUNT`; START and STOP may be any constant expressions.

    Raises:
        BadInput: for a text that is not a range.
    """
    from autodiff_cli.formula.array_derivatives import MAX_POINTS, Range

    parts = text.split(":")
    # `0:0.1:1`, with the step in the middle, is of other tools.
    if len(parts) != 3 or not _COUNT_PATTERN.fullmatch(parts[2].strip()) or (parts[2] == "1" and parts[0] != parts[1]):
        raise BadInput(f"the value of `{name}`: a range is START:STOP:COUNT, such as --{name} 0:10:101, not `{text}`")
    if len(parts[2].strip()) > _MAX_COUNT_LENGTH:
        raise BadInput(f"the value of `{name}`: a range has at most {MAX_POINTS:,} points")
    ends = [inputs.constant_value(f"`{name}`", part) for part in parts[:2]]
    if not all(isinstance(end, float) and math.isfinite(end) for end in ends):
        raise BadInput(f"the value of `{name}`: the ends of a range are finite numbers, not `{text}`")
    return Range(ends[0], ends[1], int(parts[2]))


def _check_columns(file: DataFile, columns: Sequence[str], value_texts: Mapping[str, str], formula: Formula) -> None:
    """Raise BadInput if no column is a variable, or a column also has a value."""
    if not columns:
        variables, names = format_names(formula.variables, "`") or "it has none", format_names(file.names)
        raise BadInput(f"{file.name}: no column is a variable ({variables}); the columns are {names}")
    for column in columns:
        if column in value_texts:
            raise BadInput(f"`{column}` is a column of {file.name}, so it takes no value: leave --{column} out")

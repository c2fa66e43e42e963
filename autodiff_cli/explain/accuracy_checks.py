"""Checks of a computation at a point: which of its printed numbers are inaccurate, and the warnings about them.

`check_accuracy` checks the value and the gradient of a trace, `check_higher_derivatives` what a report shows beyond.
NumPy is imported only for arrays, Hessians and directional derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from autodiff_cli.autodiff.sweeps import ReversePass, forward
from autodiff_cli.explain.accuracy import (
    SETTINGS,
    VALUE,
    InaccurateDigits,
    N,
    Numbers,
    as_decimals,
    correct_digits,
    doubtful_numbers,
    exact_computation,
    exact_evaluator,
    inaccurate_numbers,
    is_correct,
)
from autodiff_cli.explain.record import NodeWarning, Trace, array_shape
from autodiff_cli.formula.derivatives import HigherDerivatives
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.kind import Kind


def check_accuracy(trace: Trace, slopes: Mapping[str, Node] = MappingProxyType({})) -> list[NodeWarning]:
    """Return the warnings of a trace, with the correct digits of every inaccurate number.

    Args:
        trace: both passes, with the warnings so far.
        slopes: the graphs of the derivatives, by variable; only for a trace with arrays.
    """
    warnings = trace.warnings
    if trace.is_scalar:
        inaccurate = _inaccurate_scalars(trace)
    else:
        from autodiff_cli.explain.array_accuracy import inaccurate_elements

        graphs = {VALUE: trace.expression.output, **slopes}
        numbers = {name: trace.value if name == VALUE else trace.gradient[name] for name in graphs}
        inaccurate = inaccurate_elements(graphs, numbers, trace.point, trace.expression.leaves, trace.unrepresentable)
    if any(warning.kind in ("singular", "domain") for warning in warnings):
        inaccurate = inaccurate.without_nan()
    is_cancelling = trace.is_scalar and any(warning.kind == "precision" for warning in warnings)
    if is_cancelling and VALUE not in inaccurate.correct and _is_correct_as_written(trace):
        warnings = [warning for warning in warnings if warning.kind != "precision"]
    if inaccurate == ({}, 0):
        return warnings  # computing labels takes time, and nothing needs one
    output = trace.tape.outputs[0]
    return inaccurate.add_to(warnings, output, trace.labels[output])


def _inaccurate_scalars(trace: Trace) -> InaccurateDigits:
    """Return the inaccurate numbers among value and gradient of a trace of numbers."""
    point = _scalars(trace.point)
    numbers = {VALUE: trace.value, **{name: slope for name, slope in trace.gradient.items() if name in point}}
    doubtful = [*numbers] if trace.unrepresentable else doubtful_numbers(numbers, _recomputation(trace))
    if not doubtful:
        return InaccurateDigits({})
    selected = {name: numbers[name] for name in doubtful}
    return InaccurateDigits(inaccurate_numbers(trace.expression, point, selected, trace.unrepresentable))


def _scalars(point: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a point, without the arrays that are declared but that the output does not use."""
    return {name: x for name, x in point.items() if not array_shape(x)}


def _recomputation(trace: Trace) -> Callable[[Kind[float]], Numbers]:
    """Return a function that computes the value and the gradient of a trace with a kind of float."""
    tape = trace.tape
    places = {name: tape.index.get(trace.expression.leaves[name]) for name in trace.wrt}
    back: ReversePass[float] | None = None

    def compute(kind: Kind[float]) -> Numbers:
        nonlocal back
        back = back or ReversePass(tape, kind)
        values = forward(tape, kind, trace.point)
        adjoints = back(values, kind.parse_derivative("1"))
        slopes = {name: None if i is None else adjoints[i] for name, i in places.items()}
        return {VALUE: values[tape.outputs[0]], **{name: 0.0 if x is None else x for name, x in slopes.items()}}

    return compute


def _is_correct_as_written(trace: Trace) -> bool:
    """Whether the value is correct, despite cancellation, at the decimals that the given values are written as."""
    exact = exact_evaluator({VALUE: trace.expression.output})
    at_decimals = exact({**as_decimals(_scalars(trace.point)), **trace.unrepresentable}, [VALUE])
    return is_correct(trace.value, at_decimals[VALUE])


def unrepresentable_warnings(trace: Trace) -> Iterator[NodeWarning]:
    """Yield a warning for every given value that no float represents."""
    for name, exact in trace.unrepresentable.items():
        from autodiff_cli.numbers.ball_arithmetic import format_shortest

        i = trace.tape.index.get(trace.expression.leaves[name], trace.tape.outputs[0])
        text, used = format_shortest(exact, SETTINGS.shown_digits), trace.point[name]
        yield NodeWarning(
            i, "precision", f"{name}: {text} is not representable as a float; {used:.15g} is used instead"
        )


def check_higher_derivatives(
    formula: Formula,
    point: Mapping[str, Any],
    derivatives: HigherDerivatives,
    unrepresentable: Mapping[str, Any] = MappingProxyType({}),
) -> InaccurateDigits:
    """Return the inaccurate numbers among higher derivatives: `derivative`, `directional`, `hessian.x.y`.

    Args:
        formula: the formula, whose output is a number.
        point: a number or an array for every variable.
        derivatives: the derivatives as floats give them.
        unrepresentable: exact values of variables that no float represents.
    """
    parts = []
    if derivatives.derivative is not None:
        parts.append(_check_order(formula, point, derivatives, unrepresentable))
    if derivatives.directional is not None or derivatives.hessian is not None:
        from autodiff_cli.explain.array_accuracy import check_directional, check_hessian

        if derivatives.directional is not None and derivatives.direction is not None:
            direction, slope = derivatives.direction, derivatives.directional
            parts.append(check_directional(formula, point, direction, slope, unrepresentable))
        if derivatives.hessian is not None:
            parts.append(check_hessian(formula, point, derivatives.hessian, unrepresentable))
    correct = {name: text for part in parts for name, text in part.correct.items()}
    return InaccurateDigits(correct, sum(part.unknown_count for part in parts))


def _check_order(
    formula: Formula, point: Mapping[str, Any], request: HigherDerivatives, unrepresentable: Mapping[str, Any]
) -> InaccurateDigits:
    """Check a derivative of higher order, which comes from a Taylor series and has no graph."""
    from autodiff_cli.autodiff.taylor import derivatives

    output, leaf = formula.output, formula.leaves[request.variable]
    if not formula.is_scalar or any(map(array_shape, point.values())):
        from autodiff_cli.autodiff.unrolling import TooManyOperationsError
        from autodiff_cli.explain.array_accuracy import element_values, unroll_at

        try:
            elements, (array,) = unroll_at([output], point, formula.leaves)
        except TooManyOperationsError:
            return InaccurateDigits({}, 1)
        output, leaf, point = array.item(), elements[request.variable].item(), element_values(elements, point)
    tape = Tape((output,), [leaf])

    def compute(kind: Kind[N], point: Mapping[str, N]) -> dict[str, N]:
        return {"derivative": derivatives(tape, leaf, kind, point, request.order)[-1]}

    numbers = {"derivative": float(request.derivative)}
    if not (unrepresentable or doubtful_numbers(numbers, lambda kind: compute(kind, point))):
        return InaccurateDigits({})
    return InaccurateDigits(correct_digits(numbers, point, exact_computation(compute), unrepresentable))

"""The accuracy of computed numbers: which of them rounding made inaccurate, and their correct digits.

This is stochastic arithmetic in the manner of CESTAC (Vignes 1993): everything is computed again with every rounding
error perturbed by a few units in the last place. A number that changes, is tiny although nothing else was, or has
overflowed may be inaccurate. Only then ball arithmetic computes its correct digits, for the formula as written, at the
floats that stand for the given values.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from autodiff_cli.autodiff.sweeps import ReversePass, forward, tangents
from autodiff_cli.explain.record import NodeWarning, Trace, array_shape
from autodiff_cli.formula.derivatives import HigherDerivatives
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.floats import PERTURBED_RUNS, SMALLEST_NORMAL, has_undecided_comparison, start_perturbed_run
from autodiff_cli.numbers.kind import Kind


@dataclass(frozen=True)
class AccuracySettings:
    """The thresholds and the limits of accuracy checks."""

    correct_digits: int = 12  # digits; with this many correct ones a printed number is accurate, as the manual promises
    shown_digits: int = 15  # digits of a correct number in a warning: all that every double has
    tolerance: float = 5e-13  # relative change under perturbation, half a unit of the last of 12 digits
    max_operations: int = 50_000  # scalar operations of a formula that are computed with proven digits: about a second
    large_array: int = 1 << 14  # elements; the perturbations of larger products follow from their factors, to save time
    small_point: int = 1000  # numbers; up to here all perturbations run at once, and extended precision does not pay
    max_rows: int = 10_000  # rows that are computed with proven digits; each takes up to a millisecond
    max_row_operations: int = 1_000_000  # scalar operations with proven digits in all of these rows
    max_output_elements: int = 1_000  # elements of an array output, each of which has a gradient of its own
    max_hessian_operations: int = 1_000_000  # scalar operations with proven digits for all columns of a Hessian


SETTINGS = AccuracySettings()

_MAX_LISTED = 10  # numbers in one message; more are hard to read

UNKNOWN = "unknown"  # in the place of correct digits that no affordable precision determines
VALUE = "value"  # the name of the value among the numbers of a trace; variables name the derivatives

Numbers = Mapping[str, float]


def check_accuracy(trace: Trace) -> list[NodeWarning]:
    """Return the warnings of a trace of numbers, with the correct digits of every inaccurate number."""
    # Arrays that are declared but not used by the output always have derivative 0.
    point = {name: x for name, x in trace.point.items() if not array_shape(x)}
    numbers = {VALUE: trace.value, **{name: slope for name, slope in trace.gradient.items() if name in point}}
    doubtful = [*numbers] if trace.unrepresentable else doubtful_numbers(numbers, _recomputation(trace))
    correct: dict[str, str] = {}
    if doubtful:
        correct = inaccurate_numbers(
            trace.expression, point, {name: numbers[name] for name in doubtful}, trace.unrepresentable
        )
    if any(warning.kind in ("singular", "domain") for warning in trace.warnings):
        correct = {
            name: text for name, text in correct.items() if text != "nan"
        }  # rounding may cross the edge of a domain
    warnings = trace.warnings
    if (
        VALUE not in correct
        and any(warning.kind == "precision" for warning in warnings)
        and _is_correct_as_written(trace, point)
    ):
        warnings = [warning for warning in warnings if warning.kind != "precision"]
    if not correct:
        return warnings  # computing labels takes time, and nothing needs one
    return add_correct_digits(warnings, correct, trace.tape.outputs[0], trace.labels[trace.tape.outputs[0]])


def exact_if_unrepresentable(value: Formula) -> Any:
    """Return the exact value of a constant formula that is out of the range of floats, such as `1e-400`, else None."""
    nearest = value.value()
    if not value.is_scalar or not isinstance(nearest, float) or SMALLEST_NORMAL <= abs(nearest) < math.inf:
        return None
    if not doubtful_numbers({VALUE: nearest}, lambda kind: {VALUE: forward(value.tape, kind, {})[-1]}):
        return None
    from autodiff_cli.autodiff.arbitrary_precision import evaluate_to_digits
    from autodiff_cli.numbers.ball_arithmetic import is_finite, is_zero, nearest_float

    (exact,) = evaluate_to_digits([value.output], 3 * SETTINGS.shown_digits).known_numbers
    if (
        exact is None
        or not is_finite(exact)
        or is_zero(exact)
        or SMALLEST_NORMAL <= abs(nearest_float(exact)) < math.inf
    ):
        return None
    return None if _is_near(_as_decimals({VALUE: nearest})[VALUE], exact) else exact


def unrepresentable_warnings(trace: Trace) -> Iterator[NodeWarning]:
    """Yield a warning for every given value that no float represents."""
    for name, exact in trace.unrepresentable.items():
        from autodiff_cli.numbers.ball_arithmetic import format_shortest

        i = trace.tape.index.get(trace.expression.leaves[name], trace.tape.outputs[0])
        text, used = format_shortest(exact, SETTINGS.shown_digits), trace.point[name]
        yield NodeWarning(
            i, "precision", f"{name}: {text} is not representable as a float; {used:.15g} is used instead"
        )


def add_correct_digits(
    warnings: Sequence[NodeWarning], right: Mapping[str, str], node: int, label: str
) -> list[NodeWarning]:
    """Return warnings with the correct digits added.

    They join the first warning of kind `precision`, else of kind `overflow`, else they become a warning of their own.

    Args:
        warnings: the warnings so far.
        right: the correct digits by name.
        node: the id of the node for a warning of their own.
        label: the label of that node.
    """
    if not right:
        return [*warnings]
    words = describe_correct_digits(right)
    candidates = [k for kind in ("precision", "overflow") for k, warning in enumerate(warnings) if warning.kind == kind]
    if candidates:
        k, warning = candidates[0], warnings[candidates[0]]
        amended = warning._replace(message=f"{warning.message}; correct: {words}", right={**warning.right, **right})
        return [*warnings[:k], amended, *warnings[k + 1 :]]
    message = f"{label}: rounding errors, or the range of floats, make the printed digits inaccurate; correct: {words}"
    return [*warnings, NodeWarning(node, "precision", message, right)]


def describe_correct_digits(right: Mapping[str, str]) -> str:
    """Return the correct digits as a part of a sentence."""
    words = [f"{_quantity_name(name)} is {text}" for name, text in right.items()]
    more = len(words) - _MAX_LISTED
    return ", ".join(words if more < 2 else [*words[:_MAX_LISTED], f"and {more} more; --json lists all"])


def _quantity_name(name: str) -> str:
    if name == VALUE:
        return "the value"
    if name in ("derivative", "directional"):
        return f"the {name} derivative" if name == "directional" else "the derivative"
    kind, _, names = name.partition(".")
    row, _, column = names.partition(".")
    if kind == "outputs" and names:
        return f"output {names}"
    if column and kind in ("hessian", "jacobian"):
        return f"d^2/d{row}d{column}" if kind == "hessian" else f"d({row})/d{column}"
    return f"d/d{name}"


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


def doubtful_numbers(numbers: Numbers, compute: Callable[[Kind[float]], Numbers]) -> list[str]:
    """Return the names of the numbers that may be inaccurate: not finite, or changed by perturbed rounding errors.

    Args:
        numbers: the numbers as floats give them.
        compute: computes the same numbers with a given kind of float.
    """
    doubtful = dict.fromkeys(name for name, x in numbers.items() if not math.isfinite(x))
    for perturbation in PERTURBED_RUNS:
        perturbed = compute(start_perturbed_run(perturbation))
        if has_undecided_comparison():
            return [*numbers]
        doubtful |= dict.fromkeys(
            name for name, x in numbers.items() if not abs(x - perturbed[name]) <= SETTINGS.tolerance * abs(x)
        )
    return [*doubtful]


def inaccurate_numbers(
    expression: Formula,
    point: Mapping[str, Any],
    numbers: Numbers,
    unrepresentable: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, str]:
    """Return the correct digits of those among the value and the gradient that have fewer than 12.

    A number counts as correct if it is correct at the floats that stand for the values, or at the decimals that these
    floats are written as: `x - 0.3` at x = 0.3 is 0.

    Args:
        expression: the formula, of numbers.
        point: a value for every variable.
        numbers: the value (`VALUE`) and derivatives (by variable) as floats give them.
        unrepresentable: exact values of variables that no float represents.
    """
    from autodiff_cli.autodiff.arbitrary_precision import evaluate_to_digits
    from autodiff_cli.graph.gradient import gradient_nodes

    names = [name for name in numbers if name != VALUE]
    slopes = gradient_nodes(expression.output, [expression.leaves[name] for name in names])
    graphs = {VALUE: expression.output} if VALUE in numbers else {}
    graphs |= dict(zip(names, slopes, strict=True))

    def exact(leaves: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
        selected = {name: graphs[name] for name in names}
        return dict(
            zip(
                selected,
                evaluate_to_digits([*selected.values()], SETTINGS.shown_digits, leaves=leaves).known_numbers,
                strict=True,
            )
        )

    return correct_digits(numbers, point, exact, unrepresentable)


def _is_correct_as_written(trace: Trace, point: Mapping[str, float]) -> bool:
    """Whether the value is correct, despite cancellation, at the decimals that the given values are written as."""
    from autodiff_cli.autodiff.arbitrary_precision import evaluate_to_digits

    (exact,) = evaluate_to_digits(
        [trace.expression.output], SETTINGS.shown_digits, leaves={**_as_decimals(point), **trace.unrepresentable}
    ).known_numbers
    return _is_correct(trace.value, exact)


def _as_decimals(point: Mapping[str, float]) -> dict[str, Any]:
    from autodiff_cli.numbers.ball_arithmetic import from_float
    from autodiff_cli.numbers.balls import parse_constant

    return {name: parse_constant(repr(x)) if math.isfinite(x) else from_float(x) for name, x in point.items()}


def correct_digits(
    numbers: Numbers,
    point: Mapping[str, float],
    exact: Callable[[Mapping[str, Any], Iterable[str]], Mapping[str, Any]],
    unrepresentable: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, str]:
    """Return the correct digits of those numbers that have fewer than 12, by name.

    A number counts as correct if it is correct at the floats that stand for the values, or at the decimals that these
    floats are written as.

    Args:
        numbers: the numbers as floats give them at `point`, by name.
        point: a value for every variable.
        exact: computes the numbers of some names with proven digits, at fractions or balls by the name of the variable;
            None for a number that it cannot determine.
        unrepresentable: exact values that replace those in `point` which no float represents.
    """
    from autodiff_cli.numbers.ball_arithmetic import format_shortest, from_float

    at_floats = exact({**{name: from_float(x) for name, x in point.items()}, **unrepresentable}, numbers)
    inaccurate = {name: number for name, number in at_floats.items() if not _is_correct(numbers[name], number)}
    if not inaccurate:
        return {}
    at_decimals = exact({**_as_decimals(point), **unrepresentable}, inaccurate)
    return {
        name: UNKNOWN if number is None else format_shortest(number, SETTINGS.shown_digits)
        for name, number in inaccurate.items()
        if not _is_correct(numbers[name], at_decimals[name])
    }


def _is_correct(number: float, exact: Any) -> bool:
    from autodiff_cli.numbers.ball_arithmetic import from_float, is_finite, nearest_float

    if exact is None:
        return False
    if not (is_finite(exact) and math.isfinite(number)):
        # The sign of an infinity may come from the sign of a zero, which a ball does not have.
        return (
            not is_finite(exact)
            and math.isnan(number) == math.isnan(nearest_float(exact))
            and not math.isfinite(number)
        )
    if number == nearest_float(exact) and abs(number) >= SMALLEST_NORMAL:
        return True
    return _is_near(from_float(number), exact)


def _is_near(x: Any, exact: Any) -> bool:
    from autodiff_cli.numbers.ball_arithmetic import is_finite, log10_relative_size

    return is_finite(x) and is_finite(exact) and log10_relative_size(x - exact, exact) <= -SETTINGS.correct_digits


N = TypeVar("N")
Computation = Callable[[Kind[Any], Mapping[str, Any]], dict[str, Any]]


def inaccurate_higher_derivatives(
    formula: Formula,
    point: Mapping[str, float],
    higher_derivatives: HigherDerivatives,
    unrepresentable: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, str]:
    """Return the correct digits of higher derivatives with fewer than 12: `derivative`, `directional`, `hessian.x.y`.

    Args:
        formula: the formula, of numbers.
        point: a value for every variable.
        higher_derivatives: the derivatives as floats give them.
        unrepresentable: exact values of variables that no float represents.
    """
    correct: dict[str, str] = {}
    # Derivatives with respect to arrays that the output does not use are 0.
    point = {name: x for name, x in point.items() if not array_shape(x)}
    for numbers, compute in _requested_computations(formula, higher_derivatives, point):
        if unrepresentable:
            doubtful = [*numbers]
        else:
            doubtful = doubtful_numbers(numbers, functools.partial(_compute_at, compute, point))
        if doubtful:
            selected = {name: numbers[name] for name in doubtful}
            correct |= correct_digits(selected, point, exact_computation(compute), unrepresentable)
    return correct


def _compute_at(compute: Computation, point: Mapping[str, float], kind: Kind[float]) -> Numbers:
    """Return the results of a computation at a point of floats, with a kind of float."""
    return compute(kind, point)


def _requested_computations(
    formula: Formula, higher_derivatives: HigherDerivatives, names: Collection[str]
) -> Iterator[tuple[dict[str, float], Computation]]:
    """Yield the requested derivatives for the variables `names`, each with a function that computes it.

    The function takes any kind of number.
    """
    if higher_derivatives.derivative is not None:
        leaf = formula.leaves[higher_derivatives.variable]
        tape = Tape((formula.output,), [leaf])

        from autodiff_cli.autodiff.taylor import derivatives

        def of_order(kind: Kind[N], point: Mapping[str, N]) -> dict[str, N]:
            return {"derivative": derivatives(tape, leaf, kind, point, higher_derivatives.order)[-1]}

        yield {"derivative": float(higher_derivatives.derivative)}, of_order
    if higher_derivatives.directional is not None and higher_derivatives.direction is not None:
        rates = {name: rate for name, rate in higher_derivatives.direction.items() if name in names}

        def along(kind: Kind[N], point: Mapping[str, N]) -> dict[str, N]:
            seeds = {name: kind.parse_derivative(repr(float(rate))) for name, rate in rates.items()}
            slope = tangents(formula.tape, kind, forward(formula.tape, kind, point), seeds)[-1]
            return {"directional": kind.parse_constant("0") if slope is None else slope}

        yield {"directional": float(higher_derivatives.directional)}, along
    if higher_derivatives.hessian is not None:
        hessian = {row: of for row, of in higher_derivatives.hessian.items() if row in names}
        slopes = gradient_nodes(formula.output, [formula.leaves[name] for name in hessian])
        numbers = {f"hessian.{row}.{column}": float(of[column]) for row, of in hessian.items() for column in hessian}
        yield numbers, second_derivative_computation(dict(zip(hessian, slopes, strict=True)), [*hessian])


def second_derivative_computation(slopes: Mapping[str, Node], columns: Sequence[str]) -> Computation:
    """Return a function that computes the derivatives of graphs (rows, by name) with respect to leaves (columns)."""
    tape = Tape([*slopes.values()])

    def compute(kind: Kind[N], point: Mapping[str, N]) -> dict[str, N]:
        values, one, nothing = forward(tape, kind, point), kind.parse_derivative("1"), kind.parse_constant("0")
        results = {}
        for column in columns:
            column_tangents = tangents(tape, kind, values, {column: one})
            for row, i in zip(slopes, tape.outputs, strict=True):
                rate = column_tangents[i]
                results[f"hessian.{row}.{column}"] = nothing if rate is None else rate
        return results

    return compute


def exact_computation(compute: Computation) -> Callable[[Mapping[str, Any], Iterable[str]], dict[str, Any]]:
    """Return a computation in ball arithmetic that raises the precision until the digits are proven.

    The function is an `exact` argument of `correct_digits`.
    """

    def exact(leaves: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
        from autodiff_cli.autodiff.arbitrary_precision import refine

        selected = [*names]

        def numbers(kind: Kind[Any], _: int | None) -> list[Any]:
            results = compute(kind, leaves)
            return [results[name] for name in selected]

        return dict(
            zip(selected, refine(numbers, SETTINGS.shown_digits, count=len(selected)).known_numbers, strict=True)
        )

    return exact

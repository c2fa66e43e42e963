"""The accuracy of computed numbers: which of them rounding made inaccurate, and their correct digits.

This is stochastic arithmetic in the manner of CESTAC (Vignes 1993): everything is computed again with every rounding
error perturbed by a few units in the last place. A number that changes, is tiny although nothing else was, or has
overflowed may be inaccurate. Only then ball arithmetic computes its correct digits, for the formula as written, at the
floats that stand for the given values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from autodiff_cli.autodiff.sweeps import ReverseSweep, forward, tangents
from autodiff_cli.autodiff.taylor import derivatives
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
    found = {VALUE: trace.value, **{name: slope for name, slope in trace.gradient.items() if name in point}}
    doubtful = [*found] if trace.unrepresentable else doubtful_numbers(found, _recomputation(trace))
    right: dict[str, str] = {}
    if doubtful:
        right = inaccurate_numbers(
            trace.expression, point, {name: found[name] for name in doubtful}, trace.unrepresentable
        )
    if any(caveat.kind in ("singular", "domain") for caveat in trace.warnings):
        right = {name: text for name, text in right.items() if text != "nan"}  # of an edge that floats round across
    warnings = trace.warnings
    if (
        VALUE not in right
        and any(caveat.kind == "precision" for caveat in warnings)
        and _is_correct_as_written(trace, point)
    ):
        warnings = [caveat for caveat in warnings if caveat.kind != "precision"]
    if not right:
        return warnings  # computing labels takes time, and nothing needs one
    return add_correct_digits(warnings, right, trace.tape.outputs[0], trace.labels[trace.tape.outputs[0]])


def exact_if_unrepresentable(value: Formula) -> Any:
    """Return the exact value of a constant formula that is out of the range of floats, such as `1e-400`, else None."""
    found = value.value()
    if not value.is_scalar or not isinstance(found, float) or SMALLEST_NORMAL <= abs(found) < math.inf:
        return None
    if not doubtful_numbers({VALUE: found}, lambda kind: {VALUE: forward(value.tape, kind, {})[-1]}):
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
    return None if _is_near(_as_decimals({VALUE: found})[VALUE], exact) else exact


def unrepresentable_warnings(trace: Trace) -> Iterator[NodeWarning]:
    """Yield a warning for every given value that no float represents."""
    for name, exact in trace.unrepresentable.items():
        from autodiff_cli.numbers.ball_arithmetic import format_shortest

        i = trace.tape.index.get(trace.expression.leaves[name], trace.tape.outputs[0])
        text, taken = format_shortest(exact, SETTINGS.shown_digits), trace.point[name]
        yield NodeWarning(
            i, "precision", f"{name}: {text} is not representable as a float; {taken:.15g} is used instead"
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
    told = [k for kind in ("precision", "overflow") for k, caveat in enumerate(warnings) if caveat.kind == kind]
    if told:
        k, caveat = told[0], warnings[told[0]]
        said = caveat._replace(message=f"{caveat.message}; correct: {words}", right={**caveat.right, **right})
        return [*warnings[:k], said, *warnings[k + 1 :]]
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
    back: ReverseSweep[float] | None = None

    def compute(kind: Kind[float]) -> Numbers:
        nonlocal back
        back = back or ReverseSweep(tape, kind)
        values = forward(tape, kind, trace.point)
        arrived = back(values, kind.parse_derivative("1"))
        slopes = {name: None if i is None else arrived[i] for name, i in places.items()}
        return {VALUE: values[tape.outputs[0]], **{name: 0.0 if x is None else x for name, x in slopes.items()}}

    return compute


def doubtful_numbers(found: Numbers, compute: Callable[[Kind[float]], Numbers]) -> list[str]:
    """Return the names of the numbers that may be inaccurate: not finite, or changed by perturbed rounding errors.

    Args:
        found: the numbers as floats give them.
        compute: computes the same numbers with a given kind of float.
    """
    doubtful = dict.fromkeys(name for name, x in found.items() if not math.isfinite(x))
    for way in PERTURBED_RUNS:
        moved = compute(start_perturbed_run(way))
        if has_undecided_comparison():
            return [*found]
        doubtful |= dict.fromkeys(
            name for name, x in found.items() if not abs(x - moved[name]) <= SETTINGS.tolerance * abs(x)
        )
    return [*doubtful]


def inaccurate_numbers(
    expression: Formula,
    point: Mapping[str, Any],
    found: Numbers,
    unrepresentable: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, str]:
    """Return the correct digits of those among the value and the gradient that have fewer than 12.

    A number counts as correct if it is correct at the floats that stand for the values, or at the decimals that these
    floats are written as: `x - 0.3` at x = 0.3 is 0.

    Args:
        expression: the formula, of numbers.
        point: a value for every variable.
        found: the value (`VALUE`) and derivatives (by variable) as floats give them.
        unrepresentable: exact values of variables that no float represents.
    """
    from autodiff_cli.autodiff.arbitrary_precision import evaluate_to_digits
    from autodiff_cli.graph.gradient import gradient_nodes

    names = [name for name in found if name != VALUE]
    slopes = gradient_nodes(expression.output, [expression.leaves[name] for name in names])
    graphs = {VALUE: expression.output} if VALUE in found else {}
    graphs |= dict(zip(names, slopes, strict=True))

    def exact(leaves: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
        chosen = {name: graphs[name] for name in names}
        return dict(
            zip(
                chosen,
                evaluate_to_digits([*chosen.values()], SETTINGS.shown_digits, leaves=leaves).known_numbers,
                strict=True,
            )
        )

    return correct_digits(found, point, exact, unrepresentable)


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
    found: Numbers,
    point: Mapping[str, float],
    exact: Callable[[Mapping[str, Any], Iterable[str]], Mapping[str, Any]],
    unrepresentable: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, str]:
    """Return the correct digits of those numbers that have fewer than 12, by name.

    A number counts as correct if it is correct at the floats that stand for the values, or at the decimals that these
    floats are written as.

    Args:
        found: the numbers as floats give them at `point`, by name.
        point: a value for every variable.
        exact: computes the numbers of some names with proven digits, at fractions or balls by the name of the variable;
            None for a number that it cannot determine.
        unrepresentable: exact values that replace those in `point` which no float represents.
    """
    from autodiff_cli.numbers.ball_arithmetic import format_shortest, from_float

    at_floats = exact({**{name: from_float(x) for name, x in point.items()}, **unrepresentable}, found)
    spoilt = {name: number for name, number in at_floats.items() if not _is_correct(found[name], number)}
    if not spoilt:
        return {}
    at_decimals = exact({**_as_decimals(point), **unrepresentable}, spoilt)
    return {
        name: UNKNOWN if number is None else format_shortest(number, SETTINGS.shown_digits)
        for name, number in spoilt.items()
        if not _is_correct(found[name], at_decimals[name])
    }


def _is_correct(found: float, exact: Any) -> bool:
    from autodiff_cli.numbers.ball_arithmetic import from_float, is_finite, nearest_float

    if exact is None:
        return False
    if not (is_finite(exact) and math.isfinite(found)):
        # The sign of an infinity may come from the sign of a zero, which a ball does not have.
        return (
            not is_finite(exact) and math.isnan(found) == math.isnan(nearest_float(exact)) and not math.isfinite(found)
        )
    if found == nearest_float(exact) and abs(found) >= SMALLEST_NORMAL:
        return True
    return _is_near(from_float(found), exact)


def _is_near(x: Any, exact: Any) -> bool:
    from autodiff_cli.numbers.ball_arithmetic import is_finite, log10_relative_size

    return is_finite(x) and is_finite(exact) and log10_relative_size(x - exact, exact) <= -SETTINGS.correct_digits


N = TypeVar("N")
Computation = Callable[[Kind[Any], Mapping[str, Any]], dict[str, Any]]


def inaccurate_higher_derivatives(
    formula: Formula,
    point: Mapping[str, float],
    further: HigherDerivatives,
    unrepresentable: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, str]:
    """Return the correct digits of higher derivatives with fewer than 12: `derivative`, `directional`, `hessian.x.y`.

    Args:
        formula: the formula, of numbers.
        point: a value for every variable.
        further: the derivatives as floats give them.
        unrepresentable: exact values of variables that no float represents.
    """
    right: dict[str, str] = {}
    point = {
        name: x for name, x in point.items() if not array_shape(x)
    }  # derivatives with respect to arrays that the output does not use are 0
    for found, compute in _requested_computations(formula, further, point):
        doubtful = (
            [*found] if unrepresentable else doubtful_numbers(found, lambda kind, compute=compute: compute(kind, point))
        )  # type: ignore[misc]
        if doubtful:
            chosen = {name: found[name] for name in doubtful}
            right |= correct_digits(chosen, point, exact_computation(compute), unrepresentable)
    return right


def _requested_computations(
    formula: Formula, further: HigherDerivatives, names: Collection[str]
) -> Iterator[tuple[dict[str, float], Computation]]:
    """Yield the requested derivatives for the variables `names`, each with a function that computes it in any kind of
    number."""
    if further.derivative is not None:
        leaf = formula.leaves[further.variable]
        tape = Tape((formula.output,), [leaf])

        def of_order(kind: Kind[N], point: Mapping[str, N]) -> dict[str, N]:
            return {"derivative": derivatives(tape, leaf, kind, point, further.order)[-1]}

        yield {"derivative": float(further.derivative)}, of_order
    if further.directional is not None and further.direction is not None:
        rates = {name: rate for name, rate in further.direction.items() if name in names}

        def along(kind: Kind[N], point: Mapping[str, N]) -> dict[str, N]:
            seeds = {name: kind.parse_derivative(repr(float(rate))) for name, rate in rates.items()}
            slope = tangents(formula.tape, kind, forward(formula.tape, kind, point), seeds)[-1]
            return {"directional": kind.parse_constant("0") if slope is None else slope}

        yield {"directional": float(further.directional)}, along
    if further.hessian is not None:
        hessian = {row: of for row, of in further.hessian.items() if row in names}
        slopes = gradient_nodes(formula.output, [formula.leaves[name] for name in hessian])
        found = {f"hessian.{row}.{column}": float(of[column]) for row, of in hessian.items() for column in hessian}
        yield found, second_derivative_computation(dict(zip(hessian, slopes, strict=True)), [*hessian])


def second_derivative_computation(slopes: Mapping[str, Node], columns: Sequence[str]) -> Computation:
    """Return a function that computes the derivatives of graphs (rows, by name) with respect to leaves (columns)."""
    tape = Tape([*slopes.values()])

    def compute(kind: Kind[N], point: Mapping[str, N]) -> dict[str, N]:
        values, one, nothing = forward(tape, kind, point), kind.parse_derivative("1"), kind.parse_constant("0")
        found = {}
        for column in columns:
            moved = tangents(tape, kind, values, {column: one})
            for row, i in zip(slopes, tape.outputs, strict=True):
                rate = moved[i]
                found[f"hessian.{row}.{column}"] = nothing if rate is None else rate
        return found

    return compute


def exact_computation(compute: Computation) -> Callable[[Mapping[str, Any], Iterable[str]], dict[str, Any]]:
    """Return a computation in ball arithmetic that raises the precision until the digits are proven.

    The function is an `exact` argument of `correct_digits`.
    """

    def exact(leaves: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
        from autodiff_cli.autodiff.arbitrary_precision import refine

        chosen = [*names]

        def numbers(kind: Kind[Any], _: int | None) -> list[Any]:
            found = compute(kind, leaves)
            return [found[name] for name in chosen]

        return dict(zip(chosen, refine(numbers, SETTINGS.shown_digits, count=len(chosen)).known_numbers, strict=True))

    return exact

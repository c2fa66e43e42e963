"""The accuracy of computed numbers: which numbers rounding made inaccurate, and their correct digits.

This is stochastic arithmetic in the manner of CESTAC (Vignes 1993): everything is computed again with every rounding
error perturbed by a few units in the last place. A number that changes, is tiny although nothing else was, or has
overflowed may be inaccurate. Only then ball arithmetic computes its correct digits, for the formula as written, at the
floats that stand for the given values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.explain.record import NodeWarning
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node
from autodiff_cli.numbers import floats
from autodiff_cli.numbers.kind import Kind


class AccuracySettings(NamedTuple):
    """The thresholds and the limits of accuracy checks."""

    correct_digits: int = 12  # digits; with this many correct ones a printed number is accurate, as the manual promises
    shown_digits: int = 15  # digits of a correct number in a warning: all that every double has
    tolerance: float = 5e-13  # relative change under perturbation, half a unit of the last of 12 digits
    max_operations: int = 50_000  # scalar operations of a formula that are computed with proven digits: about a second
    large_array: int = 1 << 14  # elements; the perturbations of larger products follow from their factors, to save time
    small_point: int = 1000  # numbers; up to here all perturbations run at once, and extended precision does not pay
    max_rows: int = 10_000  # rows that are computed with proven digits; each takes up to a millisecond
    max_row_operations: int = 1_000_000  # scalar operations with proven digits in all of these rows
    max_output_elements: int = 1_000  # elements of an array output; each has its own gradient
    max_hessian_operations: int = 1_000_000  # scalar operations with proven digits for all columns of a Hessian


SETTINGS = AccuracySettings()

INACCURATE = "rounding errors, or the range of floats, make the printed digits inaccurate"
_MAX_LISTED = 10  # numbers in one message; more are hard to read

UNKNOWN = "unknown"  # replaces correct digits that would take too long to determine
VALUE = "value"  # the name of the value among the numbers of a trace; variables name the derivatives

Numbers = Mapping[str, float]
N = TypeVar("N")
Computation = Callable[[Kind[Any], Mapping[str, Any]], dict[str, Any]]  # named numbers, with any kind, at a point
ExactComputation = Callable[[Mapping[str, Any], Iterable[str]], dict[str, Any]]  # at values of leaves, for some names


class InaccurateDigits(NamedTuple):
    """The printed numbers that are inaccurate, with their correct digits.

    Attributes:
        correct: the correct digits of the numbers that have fewer than 12, by the name of the number.
        unknown_count: how many further numbers may be inaccurate, but would take too many operations to check.
    """

    correct: Mapping[str, str]
    unknown_count: int = 0

    def add_to(self, warnings: list[NodeWarning], node: int, label: str) -> list[NodeWarning]:
        """Return warnings with the correct digits added.

        They join the first warning of kind `precision`, else of kind `overflow`, else they become a warning of their
        own, about the node with this id and label.
        """
        warnings = [*warnings]
        if self.unknown_count:
            what = "1 printed number" if self.unknown_count == 1 else f"{self.unknown_count:,} printed numbers"
            message = (
                f"{label}: {what} may be inaccurate; element by element the formula has more than "
                f"{SETTINGS.max_operations:,} operations, so the correct digits are not computed"
            )
            return [*warnings, NodeWarning(node, "precision", message)]
        if not self.correct:
            return warnings
        words = describe_correct_digits(self.correct)
        for kind in ("precision", "overflow"):
            for k, warning in enumerate(warnings):
                if warning.kind == kind:
                    right = {**warning.right, **self.correct}
                    warnings[k] = warning._replace(message=f"{warning.message}; correct: {words}", right=right)
                    return warnings
        return [*warnings, NodeWarning(node, "precision", f"{label}: {INACCURATE}; correct: {words}", self.correct)]

    def without_nan(self, warnings: Iterable[NodeWarning]) -> InaccurateDigits:
        """Return the numbers that are defined, if a warning says that some are not: rounding may cross the edge."""
        is_said = any(warning.kind in ("singular", "domain") for warning in warnings)
        return self._replace(correct={name: x for name, x in self.correct.items() if not (is_said and x == "nan")})


def _exact_if_unrepresentable(value: Formula) -> Any:
    """Return the exact value of a constant formula that is out of the range of floats, such as `1e-400`, else None."""
    nearest = value.value()
    if not value.is_scalar or not isinstance(nearest, float) or _is_normal(nearest):
        return None
    if not doubtful_numbers({VALUE: nearest}, lambda kind: {VALUE: forward(value.tape, kind, {})[-1]}):
        return None
    from autodiff_cli.autodiff.arbitrary_precision import evaluate_to_digits
    from autodiff_cli.numbers.ball_arithmetic import is_finite, is_zero, nearest_float

    (exact,) = evaluate_to_digits([value.output], 3 * SETTINGS.shown_digits).known_numbers
    if exact is None or not is_finite(exact) or is_zero(exact) or _is_normal(nearest_float(exact)):
        return None
    return None if _is_near(as_decimals({VALUE: nearest})[VALUE], exact) else exact


def unrepresentable_numbers(values: Mapping[str, Formula]) -> dict[str, Any]:
    """Return the exact values of those numbers that are out of the range of floats, by the names of their leaves.

    Args:
        values: the values of variables, as constant formulas. Elements of arrays are named `v[0]`.
    """
    numbers = {}
    for name, value in values.items():
        nearest = value.value()
        if isinstance(nearest, float):
            numbers[name] = value
        elif not all(map(_is_normal, nearest.reshape(-1).tolist())) and nearest.size <= SETTINGS.small_point:
            from autodiff_cli.autodiff.unrolling import element_names, unroll

            (elements,) = unroll([value.output], {})
            nodes = zip(element_names(name, nearest.shape), elements.reshape(-1).tolist(), strict=True)
            numbers |= {element: Formula(node, {}) for element, node in nodes}
    return {name: exact for name, x in numbers.items() if (exact := _exact_if_unrepresentable(x)) is not None}


def _is_normal(x: float) -> bool:
    return floats.SMALLEST_NORMAL <= abs(x) < math.inf


def describe_correct_digits(correct: Mapping[str, str]) -> str:
    """Return the correct digits as a part of a sentence."""
    words = [f"{_quantity_name(name)} is {text}" for name, text in correct.items()]
    if UNKNOWN in correct.values() and find_spec("flint") is None:
        words.append("python-flint computes it: pip install python-flint")
    more = len(words) - _MAX_LISTED
    return ", ".join(words if more < 2 else [*words[:_MAX_LISTED], f"and {more} more; --json lists all"])


def _quantity_name(name: str) -> str:
    words = {VALUE: "value", "stderr": "standard error", "directional": "directional derivative"}
    if name in (*words, "derivative"):
        return f"the {words.get(name, name)}"
    kind, _, names = name.partition(".")
    row, _, column = names.partition(".")
    if kind == "outputs" and names:
        return f"output {names}"
    if column and kind in ("hessian", "jacobian"):
        return f"d^2/d{row}d{column}" if kind == "hessian" else f"d({row})/d{column}"
    return f"d/d{name}"


def doubtful_numbers(numbers: Numbers, compute: Callable[[Kind[float]], Numbers]) -> list[str]:
    """Return the names of the numbers that may be inaccurate: not finite, or changed by perturbed rounding errors.

    Args:
        numbers: the numbers as floats give them.
        compute: computes the same numbers with a given kind of float.
    """
    doubtful = dict.fromkeys(name for name, x in numbers.items() if not math.isfinite(x))
    for perturbation in (*floats.PERTURBED_RUNS, floats.UNPERTURBED):
        if perturbation == floats.UNPERTURBED and not floats.FACTORS.has_comparisons():
            break
        perturbed = compute(floats.start_perturbed_run(perturbation))
        if floats.FACTORS.has_undecided():
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
        numbers: the value (`VALUE`) and derivatives (by `derivative_key`) as floats give them.
        unrepresentable: exact values of variables that no float represents.
    """
    names = [name for name in numbers if name != VALUE]
    slopes = gradient_nodes(expression.output, [expression.leaves[name.strip("`")] for name in names])
    graphs = {VALUE: expression.output, **dict(zip(names, slopes, strict=True))}
    return correct_digits(numbers, point, exact_evaluator(graphs), unrepresentable)


def exact_evaluator(graphs: Mapping[str, Node]) -> ExactComputation:
    """Return a function that computes graphs of numbers with proven digits: an `exact` argument of `correct_digits`."""

    def exact(leaves: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
        from autodiff_cli.autodiff.arbitrary_precision import evaluate_to_digits

        selected = {name: graphs[name] for name in names}
        values = evaluate_to_digits([*selected.values()], SETTINGS.shown_digits, leaves=leaves)
        return dict(zip(selected, values.known_numbers, strict=True))

    return exact


def exact_computation(compute: Computation, operations: int) -> ExactComputation:
    """Return a computation in ball arithmetic that raises the precision until the digits are proven.

    The function is an `exact` argument of `correct_digits`.

    Args:
        compute: the computation, for any kind of number.
        operations: the number of its operations, by which its precision is limited.
    """

    def exact(leaves: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
        from autodiff_cli.autodiff.arbitrary_precision import refine

        selected = [*names]

        def numbers(kind: Kind[Any], _: int | None) -> list[Any]:
            results = compute(kind, leaves)
            return [results[name] for name in selected]

        values = refine(numbers, operations, SETTINGS.shown_digits, count=len(selected))
        return dict(zip(selected, values.known_numbers, strict=True))

    return exact


def as_decimals(point: Mapping[str, float]) -> dict[str, Any]:
    """Return the decimals that the floats of a point are written as, exactly."""
    from autodiff_cli.numbers.ball_arithmetic import from_float
    from autodiff_cli.numbers.balls import parse_constant

    return {name: parse_constant(repr(x)) if math.isfinite(x) else from_float(x) for name, x in point.items()}


def correct_digits(
    numbers: Numbers,
    point: Mapping[str, float],
    exact: ExactComputation,
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
    try:
        from autodiff_cli.numbers.ball_arithmetic import format_shortest, from_float
    except ModuleNotFoundError:  # without FLINT nothing can be proven
        return dict.fromkeys(numbers, UNKNOWN)

    at_floats = exact({**{name: from_float(x) for name, x in point.items()}, **unrepresentable}, numbers)
    inaccurate = {name: number for name, number in at_floats.items() if not is_correct(numbers[name], number)}
    if not inaccurate:
        return {}
    at_decimals = exact({**as_decimals(point), **unrepresentable}, inaccurate)
    return {
        name: UNKNOWN if number is None else format_shortest(number, SETTINGS.shown_digits)
        for name, number in inaccurate.items()
        if not is_correct(numbers[name], at_decimals[name])
    }


def is_correct(number: float, exact: Any) -> bool:
    """Whether a float has 12 correct digits; False if the exact number is None, which means unknown."""
    from autodiff_cli.numbers.ball_arithmetic import from_float, is_finite, nearest_float

    if exact is None:
        return False
    nearest = nearest_float(exact)
    if not (is_finite(exact) and math.isfinite(number)):
        # The sign of an infinity may come from the sign of a zero, which a ball does not have.
        return not (is_finite(exact) or math.isfinite(number)) and math.isnan(number) == math.isnan(nearest)
    return _is_near(from_float(number), exact)


def _is_near(x: Any, exact: Any) -> bool:
    from autodiff_cli.numbers.ball_arithmetic import is_finite, log10_relative_size

    return is_finite(x) and is_finite(exact) and log10_relative_size(x - exact, exact) <= -SETTINGS.correct_digits

"""Checks of a gradient by two independent tests, with advice where digits are lost.

The *reference* is the gradient to 50 proven digits: it shows the rounding error of the result. The *order* tests
the rules themselves: if g is the derivative, the remainder f(x + h) - f(x) - h·g shrinks like h², otherwise like h.
With as many digits as the subtraction needs, h can be so small that its choice does not matter.

At a kink no g satisfies this on both sides, and the one-sided slopes are compared instead. Arrays are checked
element by element.

For an inaccurate gradient, the advice names the operation that causes most of the error, and an equivalent formula that
is more accurate. Both are found by experiment. Each intermediate result is perturbed by a unit in the last place. A
rewriting is recommended only if it makes more numbers accurate at this point, and none worse.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from autodiff_cli.autodiff.arbitrary_precision import evaluate_to_digits
from autodiff_cli.explain.accuracy import VALUE, inaccurate_numbers, unrepresentable_numbers
from autodiff_cli.explain.record import Trace, array_shape
from autodiff_cli.explain.tracing import trace
from autodiff_cli.explain.warnings import unrepresentable_warnings
from autodiff_cli.formula.derivatives import GradientElement, UnrolledFunction, unroll_function
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.gradient import derivative_key
from autodiff_cli.graph.node import Node, constant
from autodiff_cli.graph.tape import substitute
from autodiff_cli.numbers import ball_arithmetic as ball
from autodiff_cli.numbers.ball_arithmetic import Number

# The thresholds of a gradient check. Digits are decimal digits.
_REFERENCE_DIGITS = 50  # digits of the reference: far more than any float has
_SUFFICIENT_DIGITS = 12  # correct digits of an accurate number, as everywhere in the program
_MIN_DIGITS = 6  # correct digits below which a number is inaccurate
# h is 10^-30, or 10^-30 times x where x is small: few functions bend within that. If one seems to, h is 10^-300.
_STEP_EXPONENTS = (30, 300)
_MIN_SECOND_ORDER = 1.001  # a remainder of this order or less shrinks like h; the order itself is rounded
_MAX_JUMP_ORDER = 0.001  # order of the remainder at a jump, where it does not shrink
_MAX_EXPONENT = 100_000  # digits of x before the point, or zeros after it; beyond, steps take too many digits
_VANISHING_DIGITS = 200  # a remainder this many digits below h^2 counts as zero
_SLOPE_TOLERANCE = 1e-10  # relative; one-sided slopes that agree better belong to a smooth point


class Verdict(Enum):
    """The verdict of a gradient check on one number."""

    AGREES = "agrees"
    KINK = "kink"  # the one-sided slopes differ; a convention selects one or a value between
    UNDEFINED = "undefined"  # the rules have no finite derivative, and the gradient is nan or infinite as it should be
    UNKNOWN = "unknown"  # no number of digits decides what the derivative is
    INACCURATE = "spoilt"  # the rules are correct, but fewer than 6 digits of the number
    DIFFERS = "differs"

    @property
    def holds(self) -> bool:
        """Whether the printed number can be trusted."""
        return self not in (Verdict.UNKNOWN, Verdict.INACCURATE, Verdict.DIFFERS)

    @property
    def has_derivative(self) -> bool:
        """Whether the function has a derivative there, with one value."""
        return self not in (Verdict.KINK, Verdict.UNDEFINED)


@dataclass(frozen=True)
class Finding:
    """The check of the derivative with respect to one number.

    Attributes:
        variable: the name of the variable, or of an element of an array: `W[0, 1]`.
        gradient: the derivative as floats give it.
        reference: the derivative to 50 digits, as text.
        relative_error: the difference of the two relative to the reference; None if it has no meaning.
        order: the power of h with which the remainder shrinks, on the side where it shrinks slower. Infinite if there
            is no remainder, None if it is unknown.
        verdict: the verdict.
        note: an explanation in words; may be empty.
        correct_digits: the number of correct digits of the gradient; infinite for the nearest float.
    """

    variable: str
    gradient: float
    reference: str
    relative_error: float | None
    order: float | None
    verdict: Verdict
    note: str = ""
    correct_digits: float = math.inf


@dataclass(frozen=True, eq=False)
class GradientCheck:
    """The check of a gradient at a point.

    Attributes:
        trace: both passes at the point.
        findings: the check of every number of the gradient.
        rewriting: an equivalent formula that keeps more digits at this point, if digits are lost and one is known.
    """

    trace: Trace
    findings: tuple[Finding, ...]
    rewriting: str | None = None

    @property
    def agrees(self) -> bool:
        """Whether every number holds."""
        return all(finding.verdict.holds for finding in self.findings)

    @property
    def notes(self) -> list[str]:
        """Sentences on the numbers of the point that no float represents."""
        return [each.message for each in unrepresentable_warnings(self.trace.expression, self.trace.unrepresentable)]


@dataclass(frozen=True)
class _OneSided:
    """The function on one side of the point.

    Attributes:
        slope: the slope of the secant.
        order: the order of the remainder; None if the function is not defined on this side.
    """

    slope: Number
    order: float | None

    @property
    def agrees(self) -> bool:
        return self.order is not None and self.order > _MIN_SECOND_ORDER

    @property
    def jumps(self) -> bool:
        return self.order is not None and abs(self.order) < _MAX_JUMP_ORDER


def check_gradient(
    expression: Formula, value_graphs: Mapping[str, Node], wrt: Iterable[str], max_operations: int | None = None
) -> GradientCheck:
    """Check the gradient of an expression at a point.

    Args:
        expression: the expression.
        value_graphs: the value of every variable, as a constant graph.
        wrt: the variables whose derivatives are checked.
        max_operations: the maximum number of scalar operations of the gradient, its arrays element by element; half a
            million by default.

    Raises:
        ExpressionError: for too many operations, for shapes that do not fit, and for an output that is an array.
    """
    names = tuple(wrt)
    values = {name: Formula(node, {}) for name, node in value_graphs.items()}
    point = {name: value.value() for name, value in values.items()}
    trace_record = trace(expression, point, names, unrepresentable_numbers(values))
    function = unroll_function(expression, value_graphs, trace_record.gradient, max_operations)
    derivatives = substitute([part.derivative for part in function.gradient], function.values)
    references = evaluate_to_digits(derivatives, _REFERENCE_DIGITS)
    findings = [
        _finding(function, part, trace_record, exact, proven)
        for part, exact, proven in zip(function.gradient, references.numbers, references.is_proven, strict=True)
    ]
    return _with_advice(trace_record, findings)


def _with_advice(trace: Trace, findings: Sequence[Finding]) -> GradientCheck:
    """Return the check; for inaccurate numbers, with the operations that cause the error and a better formula."""
    if all(finding.correct_digits >= _SUFFICIENT_DIGITS for finding in findings):
        return GradientCheck(trace, tuple(findings))

    inaccurate = [finding.variable for finding in findings if finding.verdict is Verdict.INACCURATE]
    causes = worst_operations(trace, inaccurate)
    advised = {finding.variable: finding for finding in findings}
    overflow = next((trace.labels[each.node] for each in trace.warnings if each.kind == "overflow"), None)
    for name, finding in advised.items():
        cause = f"most of the error comes from rounding {causes[name]}" if name in causes else ""
        if not cause and overflow and finding.verdict is Verdict.INACCURATE:
            cause = f"{overflow} or its slope is too large for a float"
        advised[name] = replace(finding, note="; ".join(filter(None, (finding.note, cause))))
    return GradientCheck(trace, tuple(advised.values()), suggest_rewriting(trace))


def _finding(function: UnrolledFunction, part: GradientElement, trace: Trace, exact: Number, proven: bool) -> Finding:
    gradient = part.value

    def verdict(verdict: Verdict, note: str = "", order: float | None = None, digits: float = math.inf) -> Finding:
        reference, relative = ball.format_digits(exact, _REFERENCE_DIGITS), _relative_error(gradient, exact)
        return Finding(part.leaf.text, gradient, reference, relative, order, verdict, note, digits)

    if not ball.is_finite(exact):
        same = math.isnan(gradient) if ball.is_nan(exact) else gradient == ball.nearest_float(exact)
        why = "; ".join(warning.message for warning in trace.warnings) or "there is no finite derivative"
        if not same and not proven:
            return verdict(Verdict.UNKNOWN, f"even a thousand digits do not decide the derivative; {why}")
        if not same and _count_correct_digits(gradient, _derivative_at_floats(function, part)) >= _MIN_DIGITS:
            return verdict(Verdict.INACCURATE, f"it is correct only for inputs rounded to floats; {why}")
        return verdict(Verdict.UNDEFINED if same else Verdict.DIFFERS, why)
    for exponent in _STEP_EXPONENTS:
        sides = [side for side in _one_sided_behaviour(function, part, exponent) if side.order is not None]
        if all(side.agrees for side in sides):
            break
    order = min((side.order for side in sides if side.order is not None), default=None)
    digits = _count_correct_digits(gradient, exact)
    is_close = digits >= _MIN_DIGITS
    if not is_close:  # it may be exact at the floats
        is_close = _count_correct_digits(gradient, _derivative_at_floats(function, part)) >= _MIN_DIGITS
    if is_close and all(side.agrees for side in sides):
        return verdict(Verdict.AGREES, _agreement_note(exact, digits, proven), order, digits)
    slopes = [ball.nearest_float(side.slope) for side in sides]
    has_jump = any(side.jumps for side in sides)
    if is_close and (has_jump or (len(sides) == 2 and not _is_same_slope(*(side.slope for side in sides)))):
        return verdict(Verdict.KINK, _kink_note(sides, gradient), order)
    # Rounding may have moved the point to the wrong side of a kink.
    if not is_close and (all(side.agrees for side in sides) or min(slopes) <= gradient <= max(slopes)):
        count = int(digits) if digits >= 1 else 0  # minus infinity if it should be 0
        quality = "no digit is" if count == 0 else "only 1 digit is" if count == 1 else f"only {count} digits are"
        note = f"{quality} correct; the correct value is {ball.format_digits(exact, _SUFFICIENT_DIGITS + 3)}"
        if nearest := _beyond_floats(exact):
            note += f", which is too {nearest} for a float"
        return verdict(Verdict.INACCURATE, note, order, digits)
    note = "the remainder shrinks like h, so this is not the derivative"
    return verdict(Verdict.DIFFERS, note if is_close else "it is too far from the reference", order)


def _relative_error(number: float, exact: Number) -> float | None:
    """Return the relative error of a float; None if a number is not finite, or if only the exact one is 0."""
    if not (math.isfinite(number) and ball.is_finite(exact)) or (ball.is_zero(exact) and number):
        return None
    return 0.0 if ball.is_zero(exact) else ball.nearest_float(abs(ball.from_float(number) - exact) / abs(exact))


def _count_correct_digits(number: float, exact: Number) -> float:
    """Return the number of correct digits of a float; infinite for the nearest float and its neighbours."""
    if not (math.isfinite(number) and ball.is_finite(exact)):
        return 0.0
    if _beyond_floats(exact) != "small" and abs(number - ball.nearest_float(exact)) <= math.ulp(number):
        return math.inf
    return -ball.log10_relative_size(ball.from_float(number) - exact, exact)


def _beyond_floats(exact: Number) -> str:
    """Return "small" or "large" for a number that is out of the range of floats with full precision, else ""."""
    size = abs(ball.nearest_float(exact))
    is_small = size < sys.float_info.min and not ball.is_zero(exact)
    return "small" if is_small else "large" if math.isinf(size) else ""


def _derivative_at_floats(function: UnrolledFunction, part: GradientElement) -> Number:
    """Return the exact derivative at the floats of the inputs, which is where floats compute it.

    Inputs that no float represents are as given.
    """
    inputs = {leaf.text: Formula(node, {}) for leaf, node in function.values.items()}
    point = {name: ball.from_float(float(x.value())) for name, x in inputs.items()} | unrepresentable_numbers(inputs)
    return evaluate_to_digits([part.derivative], _SUFFICIENT_DIGITS, leaves=point).numbers[0]


def _agreement_note(exact: Number, digits: float, proven: bool) -> str:
    """Return the note on a number that agrees with the reference; empty if it agrees to 12 digits."""
    if not proven:
        return "even a thousand digits do not distinguish it from 0 or from a tie, so it is assumed to be exact"
    if digits >= _SUFFICIENT_DIGITS:
        return ""
    if _beyond_floats(exact):
        return "it is too small for a float to have all digits"
    if digits < _MIN_DIGITS:
        return "its terms cancel: rounding an input to a float changes it by more than 100 %"
    return f"its terms cancel: {int(digits)} digits are correct"


def _one_sided_behaviour(function: UnrolledFunction, part: GradientElement, step_exponent: int) -> list[_OneSided]:
    """Return the behaviour of the function to the left and to the right of the point, where it is known.

    Args:
        function: the function.
        part: the number that changes.
        step_exponent: the change is 10 to minus this power, for a number of at least 1; relative to smaller numbers.
    """
    input_node = function.values[part.leaf]
    value, tangent = substitute([function.output, part.derivative], function.values)
    x, height = evaluate_to_digits([input_node, value], _REFERENCE_DIGITS).numbers
    if not (ball.is_finite(x) and ball.is_finite(height)):
        return []
    magnitude = 0.0 if ball.is_zero(x) else ball.log10_size(x)
    if abs(magnitude) > _MAX_EXPONENT:
        return []
    magnitude = math.floor(magnitude)
    exponent = step_exponent - min(0, magnitude)
    steps = [sign * constant(f"1e-{exponent + more}") for sign in (-1, 1) for more in (0, 1)]
    graphs: list[Node] = []
    for step in steps:
        (shifted,) = substitute([function.output], {**function.values, part.leaf: input_node + step})
        graphs += [shifted - value - step * tangent, (shifted - value) / step]
    most = 2 * (step_exponent + abs(magnitude)) + _VANISHING_DIGITS
    results = evaluate_to_digits(graphs, 10, max_cancelled_digits=most)
    far_left, left, near_left, _, far_right, right, near_right, _ = results.numbers
    sides = (far_left, left, near_left, results.is_proven[1]), (far_right, right, near_right, results.is_proven[5])
    # A function may be so flat or so small that this precision does not show how it changes; then nothing is known.
    return [_OneSided(slope, _order(far, near)) for far, slope, near, proven in sides if proven]


def _order(far: Number, near: Number) -> float | None:
    """Return the power of h with which a remainder shrinks, from its size at h and at h/10; None if unknown."""
    if not (ball.is_finite(far) and ball.is_finite(near)):
        return None
    if ball.is_zero(far) or ball.is_zero(near):
        return math.inf
    ratio = far / near
    return ball.log10_size(ratio) if ball.is_finite(ratio) else None


def _is_same_slope(left: Number, right: Number) -> bool:
    size = max(ball.log10_size(left), ball.log10_size(right))
    return ball.log10_size(left - right) <= math.log10(_SLOPE_TOLERANCE) + size


def _kink_note(sides: list[_OneSided], convention: float) -> str:
    if len(sides) == 1:
        return f"on one side it jumps; the convention is {convention:.6g}"
    left, right = ("it jumps" if side.jumps else f"the slope is {ball.nearest_float(side.slope):.6g}" for side in sides)
    return f"on the left {left}, on the right {right}; the convention is {convention:.6g}"


_MAX_NODES = 200  # nodes of a formula whose operations are perturbed one by one, which takes quadratic time
_PERTURBATION = "1.0000000000000002"  # 1 and a unit in the last place


def suggest_rewriting(trace: Trace) -> str | None:
    """Return an equivalent formula with more accurate value or gradient at this point, or None if none is known.

    No number may be less accurate than before.
    """
    from autodiff_cli.formula.rewriting import stable_form

    if not trace.is_scalar:
        return None
    # A scalar trace may have declared arrays, but its output does not use them.
    leaves = {name: leaf for name, leaf in trace.expression.leaves.items() if not array_shape(trace.point[name])}
    formula = Formula(trace.expression.output, leaves)
    fewest, best = _inaccurate_names(trace, formula), None
    for slopes in (False, True):
        graph = stable_form(formula.output, slopes)
        if graph is not None and (left := _inaccurate_names(trace, Formula(graph, leaves))) < fewest:
            fewest, best = left, str(Formula(graph, leaves))
    return best


def _inaccurate_names(trace: Trace, formula: Formula) -> frozenset[str]:
    """Return the names of the inaccurate numbers among value and gradient if the formula is written in this way."""
    point = {name: trace.point[name] for name in formula.leaves}
    value, gradient = formula.value_and_grad(point)
    slopes = {derivative_key(name): float(gradient[name]) for name in trace.wrt if name in point}
    return frozenset(inaccurate_numbers(trace.expression, point, {VALUE: float(value), **slopes}))


def worst_operations(trace: Trace, names: Sequence[str]) -> dict[str, str]:
    """Return the label of the operation whose rounding error changes a derivative most, by the name of the variable.

    A derivative that no operation of the forward pass changes is left out: its own terms cancel.
    """
    formula, point = trace.expression, trace.point
    if not trace.is_scalar or len(trace.tape.nodes) > _MAX_NODES:
        return {}
    worst: dict[str, tuple[float, int]] = {}
    for i, node in enumerate(trace.tape.nodes):
        if node.op is None or not trace.tape.is_active[i]:
            continue
        (output,) = substitute([formula.output], {node: node * constant(_PERTURBATION)})
        slopes = formula.with_output(output).grad(point)
        for name in names:
            distance = abs(float(slopes[name]) - trace.gradient[name])
            if math.isfinite(distance) and distance > worst.get(name, (0.0, -1))[0]:
                worst[name] = (distance, i)
    return {name: trace.labels[i] for name, (_, i) in worst.items()}

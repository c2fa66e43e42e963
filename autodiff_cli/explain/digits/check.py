"""Is the gradient right? Two answers that do not lean on each other.

The *reference* is the same gradient to 50 digits that are proven: it shows what rounding has done to the number that is
printed. The *order* puts the rules themselves to the test: if g is the derivative, what is left of f(x + h) after
f(x) + h·g shrinks as h², and if it is not, as h. With as many digits as the subtraction needs, h can be so small that
there is no step to choose.

Where f has a kink, no g passes on both sides; the slopes on either side then say what the point is. An array is checked
element by element.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from autodiff_cli.autodiff.digits import evaluate
from autodiff_cli.explain.record import Trace
from autodiff_cli.explain.tracing import trace
from autodiff_cli.formula.elements import Element, WrittenOut, written_out
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.node import Node, constant
from autodiff_cli.graph.tape import rebuild
from autodiff_cli.numbers.balls.number import (
    Number,
    is_finite,
    is_nan,
    is_zero,
    nearest,
    of_float,
    relative_size,
    size,
    text,
)

DIGITS = 50
RIGHT = 12  # right digits with which nothing is left to say
FEWEST = 6  # right digits without which a number is spoilt
_STEP = 30  # h is 10^-30, or that much less than x
_FIRST_ORDER = 1.001  # a remainder that shrinks no faster than h^this does not shrink faster than h
_FARTHEST = 100_000  # digits before the point, or zeros after it, of an x beside which steps are made
_NOTHING = 200  # a remainder that is smaller than h^2 by more digits is nothing
_SMOOTH = 1e-10  # the slopes on both sides of a smooth point agree better than this


class Verdict(Enum):
    """What a check finds for one number."""

    AGREES = "agrees"
    KINK = "kink"  # the slopes on both sides differ; by convention one is taken, or something between
    OVERFLOW = "overflow"  # it is too large for a float, and infinite as a float
    UNDEFINED = "undefined"  # there is no derivative, and the gradient says so
    SPOILT = "spoilt"  # the rules are right, but rounding has left fewer than 6 right digits
    DIFFERS = "differs"

    @property
    def holds(self) -> bool:
        """Whether what is printed is true."""
        return self not in (Verdict.SPOILT, Verdict.DIFFERS)


@dataclass(frozen=True)
class Finding:
    """The check of the derivative towards one number.

    Attributes:
        variable: its name; that of an element of an array is `W[0, 1]`.
        gradient: as floats give it.
        reference: the same to 50 digits, as text.
        relative_error: how far the two are apart, as part of the reference; None where that means nothing.
        order: with which power of h the remainder shrinks, on the side where it does so slower; infinite where nothing
            remains, None where it cannot be told.
        note: what there is to explain, in words.
        digits: how many digits of the gradient are right; infinitely many of the nearest float.
    """

    variable: str
    gradient: float
    reference: str
    relative_error: float | None
    order: float | None
    verdict: Verdict
    note: str = ""
    digits: float = math.inf


@dataclass(frozen=True, eq=False)
class Check:
    """The check of a gradient at a point.

    Attributes:
        better: the formula written so that it keeps more digits at this point, where some are lost and that is known.
    """

    trace: Trace
    findings: tuple[Finding, ...]
    better: str | None = None

    @property
    def agrees(self) -> bool:
        """Whether every number holds."""
        return all(finding.verdict.holds for finding in self.findings)


@dataclass(frozen=True)
class _Side:
    """The function on one side of the point: the slope of the secant, and the order of the remainder (None where the
    function is not defined there)."""

    slope: Number
    order: float | None

    @property
    def agrees(self) -> bool:
        return self.order is not None and self.order > _FIRST_ORDER


def check(expression: Formula, given: Mapping[str, Node], wrt: Iterable[str], most: int | None = None) -> Check:
    """Check the gradient of an expression at a point.

    Args:
        given: the value of every variable, as a graph without variables.
        wrt: the variables towards which to check it.
        most: how many operations on numbers the gradient may have when its arrays are written out; half a million by
            default.

    Raises:
        ExpressionError: for arrays that are larger, do not fit together, or are the output.
    """
    names = tuple(wrt)
    traced = trace(expression, {name: Formula(node, {}).value() for name, node in given.items()}, names)
    function = written_out(expression, given, traced.gradient, most)
    found = evaluate(rebuild([part.slope for part in function.parts], function.place), DIGITS)
    findings = [
        _finding(function, part, traced, exact, proven)
        for part, exact, proven in zip(function.parts, found.numbers, found.proven, strict=True)
    ]
    return _advised(traced, findings)


def _advised(traced: Trace, findings: Sequence[Finding]) -> Check:
    """With what there is to do about lost digits."""
    if all(finding.digits >= RIGHT for finding in findings):
        return Check(traced, tuple(findings))
    from autodiff_cli.explain.digits.advice import spoilers, written_better

    causes = spoilers(traced, (finding.variable for finding in findings if finding.verdict is Verdict.SPOILT))
    told = [
        replace(finding, note=f"{finding.note}; most of that comes from rounding {causes[finding.variable]}")
        if finding.variable in causes
        else finding
        for finding in findings
    ]
    return Check(traced, tuple(told), written_better(traced))


def _finding(function: WrittenOut, part: Element, traced: Trace, exact: Number, proven: bool) -> Finding:
    found = part.found

    def verdict(verdict: Verdict, note: str = "", order: float | None = None, digits: float = math.inf) -> Finding:
        relative = _relative(found, exact)
        return Finding(part.leaf.text, found, text(exact, DIGITS), relative, order, verdict, note, digits)

    if not is_finite(exact):
        same = math.isnan(found) if is_nan(exact) else found == nearest(exact)
        why = "; ".join(caveat.message for caveat in traced.warnings)
        return verdict(Verdict.UNDEFINED if same else Verdict.DIFFERS, why or "there is no finite derivative")
    if math.isinf(found) and found == nearest(exact):
        return verdict(Verdict.OVERFLOW, "the derivative is too large for a float")
    sides = [side for side in _sides(function, part) if side.order is not None]
    order = min((side.order for side in sides if side.order is not None), default=None)
    digits = _right_digits(found, exact)
    is_moved = digits < FEWEST and _right_digits(found, _at_floats(function, part)) >= FEWEST
    is_close = digits >= FEWEST or is_moved
    if is_close and all(side.agrees for side in sides):
        return verdict(Verdict.AGREES, _why_close(found, exact, digits, proven), order, digits)
    if len(sides) == 2 and not _same(*(side.slope for side in sides)) and (is_close or _between(sides, found)):
        return verdict(Verdict.KINK, _kink(sides, found), order)
    if not is_close and all(side.agrees for side in sides):
        return verdict(Verdict.SPOILT, _how_spoilt(digits, exact), order, digits)
    if not is_close:
        return verdict(Verdict.DIFFERS, "the float and the reference are too far apart", order)
    return verdict(Verdict.DIFFERS, "the remainder shrinks as h: this is not the derivative", order)


def _relative(found: float, exact: Number) -> float | None:
    """How far a float is from the exact number, as part of that; None where that means nothing."""
    if not (math.isfinite(found) and is_finite(exact)):
        return None
    distance = abs(of_float(found) - exact)
    return nearest(distance if is_zero(exact) else distance / abs(exact))


def _right_digits(found: float, exact: Number) -> float:
    """How many digits of a float are right: infinitely many of the nearest float and its neighbours."""
    if not (math.isfinite(found) and is_finite(exact)):
        return 0.0
    if abs(found - nearest(exact)) <= math.ulp(found):
        return math.inf
    return -relative_size(of_float(found) - exact, exact)


def _at_floats(function: WrittenOut, part: Element) -> Number:
    """The derivative where every input is the float that stands for it, which is where floats compute."""
    place = {
        leaf.text: of_float(nearest(evaluate([node], RIGHT + 8).numbers[0])) for leaf, node in function.place.items()
    }
    return evaluate([part.slope], RIGHT, leaves=place).numbers[0]


def _why_close(found: float, exact: Number, digits: float, proven: bool) -> str:
    """What there is to say of a number that agrees."""
    if not proven:
        return "it could not be told from 0, or from a tie, with a thousand digits: taken to be one"
    relative = _relative(found, exact)
    if digits >= RIGHT and (relative is None or relative <= 10.0**-RIGHT):
        return ""
    if abs(nearest(exact)) < sys.float_info.min:
        return "it is too small for a float to have all digits"
    if digits < FEWEST:
        return "its terms cancel: the float that stands for an input moves it by more than its size"
    return f"its terms cancel: {int(digits)} digits are right"


def _how_spoilt(digits: float, exact: Number) -> str:
    """How many digits are right, and which they should be."""
    count = int(digits) if digits >= 1 else 0  # infinitely few where it should be 0
    held = "no digit is right" if count == 0 else "1 digit is right" if count == 1 else f"{count} digits are right"
    return f"rounding has spoilt it: {held}; it is {text(exact, RIGHT + 3)}"


def _sides(function: WrittenOut, part: Element) -> list[_Side]:
    """What the function does left and right of the point."""
    here = function.place[part.leaf]
    value, tangent = rebuild([function.output, part.slope], function.place)
    x, height = evaluate([here, value], DIGITS).numbers
    if not (is_finite(x) and is_finite(height)):
        return []
    magnitude = 0.0 if is_zero(x) else size(x)
    if abs(magnitude) > _FARTHEST:
        return []
    magnitude = math.floor(magnitude)
    exponent = _STEP - min(0, magnitude)
    steps = [sign * constant(f"1e-{exponent + more}") for sign in (-1, 1) for more in (0, 1)]
    wanted: list[Node] = []
    for step in steps:
        (moved,) = rebuild([function.output], {**function.place, part.leaf: here + step})
        wanted += [moved - value - step * tangent, (moved - value) / step]
    found = evaluate(wanted, 10, most_cancelled=2 * (_STEP + abs(magnitude)) + _NOTHING)
    far_left, left, near_left, _, far_right, right, near_right, _ = found.numbers
    sides = (far_left, left, near_left, found.proven[1]), (far_right, right, near_right, found.proven[5])
    # A function may be so flat, or so small, that these digits do not show how it changes: then nothing can be told.
    return [_Side(slope, _order(far, near)) for far, slope, near, proven in sides if proven]


def _order(far: Number, near: Number) -> float | None:
    """The power of h with which a remainder shrinks, from its size at h and at h/10; None where that is not known."""
    if not (is_finite(far) and is_finite(near)):
        return None
    if is_zero(far) or is_zero(near):
        return math.inf
    ratio = far / near
    return size(ratio) if is_finite(ratio) else None


def _same(left: Number, right: Number) -> bool:
    return size(left - right) <= math.log10(_SMOOTH) + max(size(left), size(right))


def _between(sides: list[_Side], found: float) -> bool:
    """Whether rounding has only moved the point from a kink to one side of it."""
    slopes = [nearest(side.slope) for side in sides]
    return min(slopes) <= found <= max(slopes)


def _kink(sides: list[_Side], taken: float) -> str:
    left, right = (
        "it jumps" if side.order is not None and abs(side.order) < 0.001 else f"the slope is {nearest(side.slope):.6g}"
        for side in sides
    )
    return f"on the left {left}, on the right {right}; by convention {taken:.6g} is taken"

"""Is the gradient right? Two answers that do not lean on each other.

The *reference* is the same gradient to 50 right digits: it shows what rounding has done. The *order* puts the rules
themselves to the test: if g is the derivative, what is left of f(x + h) after f(x) + h·g shrinks as h², and if it is
not, as h. With as many digits as the subtraction needs, h can be so small that there is no step to choose.

Where f has a kink, no g passes on both sides; the slopes on either side then say what the point is. An array is checked
element by element.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from autodiff_cli.autodiff.digits import Estimate, errors, evaluate
from autodiff_cli.explain.elements import Function, Part, written_out
from autodiff_cli.explain.steps import Trace, trace
from autodiff_cli.expression import Expression
from autodiff_cli.graph.node import Node, constant
from autodiff_cli.graph.tape import rebuild
from autodiff_cli.numbers.digits import MP, Number
from autodiff_cli.numbers.precise import text

DIGITS = 50
_TOLERANCE = 1e-12  # of the largest term that the gradient is the sum of
_STEP = 30  # h is 10^-30, or that much less than x
_FIRST_ORDER = 1.001  # a remainder that shrinks no faster than h^this does not shrink faster than h
_NOTHING = 200  # a remainder that is smaller than h^2 by more digits is nothing
_SMOOTH = 1e-10  # the slopes on both sides of a smooth point agree better than this


class Verdict(Enum):
    """What a check finds for one number."""

    AGREES = "agrees"
    KINK = "kink"  # the slopes on both sides differ; by convention one is taken, or something between
    OVERFLOW = "overflow"  # it is too large for a float, and infinite as a float
    UNDEFINED = "undefined"  # there is no derivative, and the gradient says so
    DIFFERS = "differs"


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
    """

    variable: str
    gradient: float
    reference: str
    relative_error: float | None
    order: float | None
    verdict: Verdict
    note: str = ""


@dataclass(frozen=True, eq=False)
class Check:
    """The check of a gradient at a point."""

    trace: Trace
    findings: tuple[Finding, ...]

    @property
    def agrees(self) -> bool:
        """Whether nothing differs."""
        return all(finding.verdict is not Verdict.DIFFERS for finding in self.findings)


@dataclass(frozen=True)
class _Side:
    """The function on one side of the point: the slope of the secant, and the order of the remainder (None where the
    function is not defined there)."""

    slope: Number
    order: float | None

    @property
    def agrees(self) -> bool:
        return self.order is not None and self.order > _FIRST_ORDER


def check(expression: Expression, given: Mapping[str, Node], wrt: Iterable[str], most: int | None = None) -> Check:
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
    traced = trace(expression, {name: Expression(node, {}).value() for name, node in given.items()}, names)
    function = written_out(traced, given, most)
    slopes = rebuild([part.slope for part in function.parts], function.place)
    exact = evaluate(slopes, DIGITS)
    sizes = errors(slopes, DIGITS)
    findings = [
        _finding(function, part, traced, Estimate(reference, size.error))
        for part, reference, size in zip(function.parts, exact, sizes, strict=True)
    ]
    return Check(traced, tuple(findings))


def _finding(function: Function, part: Part, traced: Trace, reference: Estimate) -> Finding:
    found, exact = part.found, reference.value
    distance = abs(MP.mpf(found) - exact)
    relative = float(distance / abs(exact)) if exact and math.isfinite(distance) else None if exact else float(distance)

    def verdict(verdict: Verdict, note: str = "", order: float | None = None) -> Finding:
        return Finding(part.leaf.text, found, text(exact, DIGITS), relative, order, verdict, note)

    if MP.isnan(exact) or MP.isinf(exact):
        same = math.isnan(found) if MP.isnan(exact) else found == exact
        why = "; ".join(caveat.message for caveat in traced.warnings)
        return verdict(Verdict.UNDEFINED if same else Verdict.DIFFERS, why or "there is no finite derivative")
    if math.isinf(found) and abs(exact) > sys.float_info.max and (found > 0) == (exact > 0):
        return verdict(Verdict.OVERFLOW, "the derivative is too large for a float")
    sides = [side for side in _sides(function, part) if side.order is not None]
    order = min((side.order for side in sides if side.order is not None), default=None)
    is_close = distance <= _TOLERANCE * max(abs(exact), reference.error, sys.float_info.min)
    if is_close and all(side.agrees for side in sides):
        note = "" if relative is None or relative <= _TOLERANCE else _why_close(exact)
        return verdict(Verdict.AGREES, note, order)
    if len(sides) == 2 and not _same(*(side.slope for side in sides)) and (is_close or _between(sides, found)):
        return verdict(Verdict.KINK, _kink(sides, found), order)
    if not is_close:
        return verdict(Verdict.DIFFERS, "the float and the reference are too far apart", order)
    return verdict(Verdict.DIFFERS, "the remainder shrinks as h: this is not the derivative", order)


def _why_close(exact: Number) -> str:
    """Why a gradient that differs in its last digits agrees all the same."""
    if abs(exact) < sys.float_info.min:
        return "it is too small for a float to have all digits"
    return "its terms cancel: the error is small beside them"


def _sides(function: Function, part: Part) -> list[_Side]:
    """What the function does left and right of the point."""
    here = function.place[part.leaf]
    value, tangent = rebuild([function.output, part.slope], function.place)
    x, size = evaluate([here, value], DIGITS)
    if not (MP.isfinite(x) and MP.isfinite(size)):
        return []
    exponent = _STEP - min(0, math.floor(MP.log10(abs(x)))) if x else _STEP
    steps = [sign * constant(f"1e-{exponent + more}") for sign in (-1, 1) for more in (0, 1)]
    wanted: list[Node] = []
    for step in steps:
        (moved,) = rebuild([function.output], {**function.place, part.leaf: here + step})
        wanted += [moved - value - step * tangent, (moved - value) / step]
    cancelling = 2 * _STEP + 2  # what is left is of the size of the square of the smaller step
    found = evaluate(wanted, 10, guard=cancelling + 20, most_cancelled=2 * exponent + _NOTHING)
    far_left, left, near_left, _, far_right, right, near_right, _ = found
    return [_Side(left, _order(far_left, near_left)), _Side(right, _order(far_right, near_right))]


def _order(far: Number, near: Number) -> float | None:
    """The power of h with which a remainder shrinks, from its size at h and at h/10."""
    if not (MP.isfinite(far) and MP.isfinite(near)):
        return None
    return float(MP.log10(abs(far / near))) if far and near else math.inf


def _same(left: Number, right: Number) -> bool:
    return bool(abs(left - right) <= _SMOOTH * max(abs(left), abs(right)))


def _between(sides: list[_Side], found: float) -> bool:
    """Whether rounding has only moved the point from a kink to one side of it."""
    slopes = [float(side.slope) for side in sides]
    return min(slopes) <= found <= max(slopes)


def _kink(sides: list[_Side], taken: float) -> str:
    left, right = (
        "it jumps" if side.order is not None and abs(side.order) < 0.001 else f"the slope is {float(side.slope):.6g}"
        for side in sides
    )
    return f"on the left {left}, on the right {right}; by convention {taken:.6g} is taken"

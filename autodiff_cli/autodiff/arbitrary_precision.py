"""Evaluation of graphs to a given number of correct digits, with a report of whether they are proven.

Every number is a fraction or a ball, an interval that certainly contains the true value (`autodiff_cli.numbers.balls`).
If the ball of a result is too wide, or cannot decide a comparison, everything is computed again with twice the bits, up
to a limit. Some numbers are 0 without being exact fractions, such as sin(x)² + cos(x)² - 1. They never reach the
requested precision. At the limit they are assumed to be 0, which is nearly always right, and the result is marked as
not proven. The limit is a thousand digits, or more if there are few operations: products of numbers near the ends of
the range of floats cancel in thousands of digits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from flint import arb

from autodiff_cli.autodiff.sweeps import ForwardPass, forward
from autodiff_cli.graph.node import Gate, Node
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers import ball_arithmetic as ball
from autodiff_cli.numbers.ball_arithmetic import Number, Undecided
from autodiff_cli.numbers.balls import has_possible_jump, interval_arithmetic, precision, reset_jumps
from autodiff_cli.numbers.kind import Kind
from autodiff_cli.ops.arithmetic import where

_BITS_PER_DIGIT = 3.3219280948873626  # log2(10), rounded up
MAX_CANCELLED_DIGITS = 1000  # if more digits of a result cancel, it is assumed to be 0


# The growth of the working precision, until the results have enough digits.
_GUARD_DIGITS = 10  # decimal digits known beyond the required ones, so that rounding is right except at ties
_GUARD_BITS = 64  # additional bits of the first attempt
_MIN_KNOWN_BITS = 50  # bits of a result that is reported although it lacks the required digits
_MAX_CANCELLED_DIGITS_IF_QUICK = 20_000  # instead of `MAX_CANCELLED_DIGITS`, if that is little work
_MAX_QUICK_WORK = 1 << 18  # operations times bits; at most a tenth of a second, except for gamma functions


def bits_for_digits(digits: int) -> int:
    """Return the number of bits of so many decimal digits, rounded up."""
    return int(digits * _BITS_PER_DIGIT) + 1


@dataclass(frozen=True)
class PreciseValues:
    """The values of graphs, with proofs.

    Attributes:
        numbers: the value of each graph, a fraction or a ball.
        is_proven: whether the digits of each value are certain. A value that is not proven was assumed to be 0, or
            depends on numbers that were assumed to be equal, because they could not be distinguished; or it is nan,
            because nothing is known of it.
    """

    numbers: list[Number]
    is_proven: list[bool]

    @property
    def known_numbers(self) -> list[Number | None]:
        """The numbers, with None in place of those without any known digits."""
        pairs = zip(self.numbers, self.is_proven, strict=True)
        return [x if is_certain or ball.is_finite(x) else None for x, is_certain in pairs]


def evaluate_to_digits(
    outputs: Sequence[Node],
    digits: int,
    required_count: int | None = None,
    max_cancelled_digits: int | None = None,
    leaves: Mapping[str, Number] | None = None,
) -> PreciseValues:
    """Return the values of graphs that have no free inputs except `leaves`, to a number of significant digits.

    Args:
        outputs: scalar graphs.
        digits: the number of significant digits that must be correct.
        required_count: the number of outputs, counted from the first, that must have these digits; further outputs are
            computed with the same precision. All by default.
        max_cancelled_digits: the number of cancelled digits at which a result is assumed to be 0; by default
            `MAX_CANCELLED_DIGITS`, and more if the graphs are small.
        leaves: the values of input leaves, by name.
    """
    tape = Tape(outputs)
    is_assumed: Sequence[bool] = ()

    def compute(kind: Kind[Number], final_bits: int | None) -> list[Number]:
        nonlocal is_assumed
        values, is_assumed = _forward_values(tape, kind, leaves or {}, final_bits)
        return [values[i] for i in tape.outputs]

    result = refine(compute, len(tape), digits, required_count, max_cancelled_digits)
    # An assumption about one number does not affect the proofs of other numbers.
    proven = [is_certain and not is_assumed[i] for i, is_certain in zip(tape.outputs, result.is_proven, strict=True)]
    return PreciseValues(result.numbers, proven)


def refine(
    compute: Callable[[Kind[Number], int | None], list[Number]],
    operations: int,
    digits: int,
    required_count: int | None = None,
    max_cancelled_digits: int | None = None,
    count: int | None = None,
) -> PreciseValues:
    """Return the numbers of a computation with balls, at the precision at which these have enough digits.

    How far the precision rises depends on the number of operations, not on time, so that a busy machine has the same
    results.

    Args:
        compute: returns the numbers for a kind of ball. Its second argument is None, or in the final attempt the
            precision in bits. It may raise Undecided, in the final attempt only if `count` is given.
        operations: the number of operations of the computation.
        digits: the number of significant digits that must be correct.
        required_count: the number of results, from the first, that must have these digits; all by default.
        max_cancelled_digits: the number of cancelled digits at which a result is assumed to be 0.
        count: the number of results. If even the final attempt is undecided, all are nan and not proven.
    """
    required_bits = bits_for_digits(digits + _GUARD_DIGITS)
    bits = required_bits + _GUARD_BITS
    max_bits = bits + bits_for_digits(MAX_CANCELLED_DIGITS if max_cancelled_digits is None else max_cancelled_digits)
    quick_bits = min(bits_for_digits(_MAX_CANCELLED_DIGITS_IF_QUICK), _MAX_QUICK_WORK // max(operations, 1))
    while bits < max(max_bits, quick_bits if max_cancelled_digits is None else 0):
        with suppress(Undecided), precision(bits) as kind:
            numbers = compute(kind, None)
            if all(_has_enough_bits(x, required_bits) for x in numbers[:required_count]):
                return PreciseValues(numbers, [True] * len(numbers))
        bits *= 2
    bits = max(bits // 2, max_bits)
    with precision(bits, assume_equal=True) as kind:
        ball.pop_assumed_equal()  # discard the flag of earlier computations
        try:
            numbers = compute(kind, bits)
        except Undecided:
            assert count is not None, "the final attempt decides"
            return PreciseValues([ball.NAN] * count, [False] * count)
        is_assumed = ball.pop_assumed_equal()
    proven = [not is_assumed and _has_enough_bits(x, required_bits) for x in numbers]
    return PreciseValues(
        [x if is_certain else _assumed_value(x, bits) for x, is_certain in zip(numbers, proven, strict=True)], proven
    )


def _assumed_value(x: Number, bits: int) -> Number:
    """Return the value assumed for a number that the final attempt leaves open: 0 if it is tiny and may be 0, and nan
    if nothing is known of it."""
    if ball.is_finite(x) and _may_be_zero(x) and _is_tiny(x, [], bits):
        return ball.ZERO
    return x if _has_enough_bits(x, _MIN_KNOWN_BITS) else ball.NAN


def _has_enough_bits(x: Number, bits: int) -> bool:
    return not ball.is_finite(x) or ball.is_exact(x) or ball.accurate_bits(x) >= bits


def _forward_values(
    tape: Tape, kind: Kind[Number], leaves: Mapping[str, Number], final_bits: int | None = None
) -> tuple[list[Number], list[bool]]:
    """Return the value of every node, and whether it depends on an assumption.

    In the final attempt, for which `final_bits` is the precision, numbers that may be 0 are 0, and undecided ones are
    nan. A choice that depends on an undecided number is undecided too.
    """
    if final_bits is None:
        return forward(tape, kind, leaves), [False] * len(tape)
    values: list[Number] = []
    enclosures: list[Number] = []  # the values without assumptions, where these are finite
    assumed: list[bool] = []
    for node, inputs in zip(tape.nodes, tape.inputs, strict=True):
        depends = any(assumed[j] for j in inputs)
        if node.op is None:
            value, is_assumed = kind.parse_constant(node.text) if node.is_constant else leaves[node.text], False
            enclosure, is_undecided = value, False
        else:
            arguments = [values[j] for j in inputs]
            value, is_assumed = _final_value(kind, node, arguments)
            enclosure = _final_value(kind, node, [enclosures[j] for j in inputs])[0] if depends else value
            if ball.is_finite(value) and _may_be_zero(value) and _is_tiny(value, arguments, final_bits):
                value, is_assumed = ball.ZERO, True
            deciding = inputs if node.op.gate is Gate.BLOCK else inputs[:1] if node.op is where else ()
            is_undecided = any(assumed[j] and ball.is_nan(values[j]) for j in deciding)
            if is_assumed or depends:
                # At a pole no assumption is safe: numbers next to it have any size and sign. Nor is it where a large
                # factor magnifies what was assumed to be 0.
                is_pole = not ball.is_finite(value) and all(map(ball.is_finite, arguments))
                error = ball.as_ball(enclosure - value).abs_upper()
                limit = ball.as_ball(value).abs_lower().max(arb(1)) * arb(2) ** (-final_bits // 2)
                is_undecided |= is_pole or bool(error > limit)
        values.append(ball.NAN if is_undecided else value)
        enclosures.append(enclosure if ball.is_finite(enclosure) else values[-1])
        assumed.append(is_undecided or is_assumed or depends)
    return values, assumed


def _final_value(kind: Kind[Number], node: Node, arguments: Sequence[Number]) -> tuple[Number, bool]:
    """Return the value of a node, nan if it is undecided, and whether it depends on an assumption."""
    try:
        value = kind.function(node.operation, len(arguments))(*arguments)
    except Undecided:
        return ball.NAN, True
    return value, ball.pop_assumed_equal()


def _may_be_zero(x: Number) -> bool:
    return not ball.is_exact(x) and bool(ball.as_ball(x).contains(0))


def _is_tiny(x: Number, arguments: Sequence[Number], bits: int) -> bool:
    """Whether a finite number is smaller by half of the bits than the largest finite argument, or than 1 if there is
    none; and tiny in itself, since even 1e4000 is small beside arguments of 1e8000."""
    sizes = [ball.as_ball(argument).abs_upper() for argument in arguments if ball.is_finite(argument)]
    limit = max(sizes, default=arb(1)) * arb(2) ** (-bits // 2)
    tiny = arb(2) ** (-min(bits, bits_for_digits(MAX_CANCELLED_DIGITS)) // 2)
    return bool(ball.as_ball(x).abs_upper() <= limit.min(tiny))


class BallFunction:
    """Graphs evaluated in balls, at points and over boxes."""

    def __init__(self, names: Sequence[str], outputs: Sequence[Node], bits: int) -> None:
        self._names, self._bits = names, bits
        self._tape = Tape(outputs)
        with interval_arithmetic(bits) as kind:
            self._sweep = ForwardPass(self._tape, kind)

    def __call__(self, point: Sequence[Number]) -> list[Number] | None:
        """Return the outputs; None if one may be undefined, unbounded or discontinuous there."""
        with interval_arithmetic(self._bits):
            reset_jumps()
            values = self._sweep(dict(zip(self._names, point, strict=True)))
            outputs = [values[i] for i in self._tape.outputs]
            return None if has_possible_jump() or not all(map(ball.is_finite, outputs)) else outputs

    def bounds(self, point: Sequence[Number]) -> list[Number]:
        """Return enclosures of the outputs, nan where they may be undefined; they may be discontinuous."""
        with interval_arithmetic(self._bits):
            values = self._sweep(dict(zip(self._names, point, strict=True)))
        return [values[i] for i in self._tape.outputs]

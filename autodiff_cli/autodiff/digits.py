"""Graphs evaluated to so many right digits, however many cancel on the way: proven, or said not to be.

Every number is a fraction or a ball that holds the true value for certain (`autodiff_cli.numbers.balls`). If a result's
ball is too wide, or cannot decide a comparison on the way, all is computed again with twice the bits, up to a limit. A
number that is 0 without being an exact fraction, as sin(x)² + cos(x)² - 1, never shows it: at the limit it is taken to
be the 0 that it nearly always is, and the result counts as not proven. The limit is a thousand digits, or as many more
as come quickly: products of numbers near the ends of the range of floats cancel in thousands of digits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.balls.number import (
    NAN,
    ZERO,
    Number,
    Undecided,
    ball,
    bits_known,
    is_exact,
    is_finite,
    took_for_granted,
)
from autodiff_cli.numbers.balls.table import precision
from autodiff_cli.numbers.kind import Kind

_BITS = 3.3219280948873626  # in a decimal digit
_BEYOND = 10  # digits that are known beyond those asked for, so that rounding to these is right, but for exact halves
_FEWEST_BITS = 50  # of a number that is not settled, with which it is known nevertheless
_FIRST = 64  # bits to compute with beyond those of a result, at first
_MOST_BITS = 1 << 1000  # of a size that is told from others: exp(exp(x)) may have more than a float can count
MOST_CANCELLED = 1000  # a result that cancels in more digits than this is taken for 0
_MOST_IF_QUICK = 20_000  # the same, as long as all that has taken less than so many seconds
_QUICK = 0.03


def bits_of(digits: int) -> int:
    """How many bits so many decimal digits take."""
    return int(digits * _BITS) + 1


@dataclass(frozen=True)
class Evaluated:
    """The values of graphs.

    Attributes:
        numbers: one for each, fractions or balls.
        proven: for each, whether its digits are certain. What is not proven was taken for the 0, or the tie, that it
            could not be told from; or it is nan, because nothing is known of it.
    """

    numbers: list[Number]
    proven: list[bool]

    @property
    def known(self) -> list[Number | None]:
        """The numbers, but None for those of which no digits are."""
        return [x if sure or _has_digits(x) else None for x, sure in zip(self.numbers, self.proven, strict=True)]


def evaluate(
    outputs: Sequence[Node],
    digits: int,
    sure: int | None = None,
    most_cancelled: int | None = None,
    leaves: Mapping[str, Number] | None = None,
) -> Evaluated:
    """The values of graphs that have no free inputs but `leaves`.

    Args:
        outputs: scalar graphs.
        digits: how many significant digits are to be right.
        sure: for how many of the outputs, from the first; the others have the precision that these need. All by
            default.
        most_cancelled: how many digits may cancel before a result is taken for 0; by default `MOST_CANCELLED`, and more
            where they come quickly.
        leaves: the values of input leaves, by name.
    """
    tape = Tape(outputs)
    first = len(outputs) if sure is None else sure
    taken: Sequence[bool] = ()

    def compute(kind: Kind[Number], last_bits: int | None) -> list[Number]:
        nonlocal taken
        found, taken = _forward(tape, kind, leaves or {}, last_bits)
        return [found[i] for i in tape.outputs]

    found = settle(compute, digits, first, most_cancelled)
    # What one number took for granted says nothing of the others.
    proven = [sure and not taken[i] for i, sure in zip(tape.outputs, found.proven, strict=True)]
    return Evaluated(found.numbers, proven)


def settle(
    compute: Callable[[Kind[Number], int | None], list[Number]],
    digits: int,
    sure: int | None = None,
    most_cancelled: int | None = None,
    count: int | None = None,
) -> Evaluated:
    """The numbers that a computation with balls gives, once these hold so many digits.

    Args:
        compute: gives the numbers, for a kind of ball; its second argument is None, or as a last word the bits that the
            balls have. It may raise Undecided, as a last word only if `count` is given.
        digits: see `evaluate`, as for the others.
        count: how many numbers there are; all are nan, and not proven, where even a last word does not decide.
    """
    enough = bits_of(digits + _BEYOND)
    most = enough + _FIRST + bits_of(MOST_CANCELLED if most_cancelled is None else most_cancelled)
    most_if_quick = most if most_cancelled is not None else bits_of(_MOST_IF_QUICK)
    started = time.monotonic()
    bits = enough + _FIRST
    while bits < most or (bits < most_if_quick and time.monotonic() - started < _QUICK):
        try:
            with precision(bits) as kind:
                numbers = compute(kind, None)
        except Undecided:
            bits *= 2
            continue
        if all(_is_settled(x, enough) for x in numbers[:sure]):
            return Evaluated(numbers, [True] * len(numbers))
        bits *= 2
    bits = max(bits // 2, most)
    with precision(bits, is_last_word=True) as kind:
        took_for_granted()  # forget what others took
        try:
            numbers = compute(kind, bits)
        except Undecided:
            if count is None:
                raise
            return Evaluated([NAN] * count, [False] * count)
        is_taken = took_for_granted()
    proven = [not is_taken and _is_settled(x, enough) for x in numbers]
    return Evaluated([x if sure else _taken_for(x, bits) for x, sure in zip(numbers, proven, strict=True)], proven)


def _taken_for(x: Number, bits: int) -> Number:
    """What a number is taken for that a last word, with so many bits, does not settle: 0, if it is tiny and not told
    from that."""
    return ZERO if is_finite(x) and _is_perhaps_zero(x) and _magnitude(x) <= -bits / 2 else x


def _has_digits(x: Number) -> bool:
    return is_finite(x) and bits_known(x) >= _FEWEST_BITS


def _is_settled(x: Number, bits: int) -> bool:
    return not is_finite(x) or is_exact(x) or bits_known(x) >= bits


def _forward(
    tape: Tape, kind: Kind[Number], leaves: Mapping[str, Number], last_bits: int | None = None
) -> tuple[list[Number], list[bool]]:
    """The value of every node, and whether it rests on something that was taken for granted.

    As a last word (`last_bits` is then the precision) what may be 0 is 0, and what is not decided even so is nan.
    """
    values: list[Number] = []
    taken: list[bool] = []
    for node, inputs in zip(tape.nodes, tape.inputs, strict=True):
        if node.op is None:
            values.append(kind.read(node.text) if node.is_constant else leaves[node.text])
            taken.append(False)
            continue
        arguments = [values[j] for j in inputs]
        if last_bits is None:
            values.append(kind.function(node.op, len(arguments))(*arguments))
            taken.append(False)
            continue
        value, is_taken = _last_word(kind, node, arguments, last_bits)
        values.append(value)
        taken.append(is_taken or any(taken[j] for j in inputs))
    return values, taken


def _last_word(kind: Kind[Number], node: Node, arguments: Sequence[Number], bits: int) -> tuple[Number, bool]:
    assert node.op is not None
    try:
        value = kind.function(node.op, len(arguments))(*arguments)
    except Undecided:
        return NAN, True
    took = took_for_granted()
    if not is_finite(value) or not _is_perhaps_zero(value):
        return value, took
    largest = max((_magnitude(x) for x in arguments if is_finite(x)), default=0.0)
    return (ZERO, True) if _magnitude(value) <= largest - bits / 2 else (value, took)


def _is_perhaps_zero(x: Number) -> bool:
    return not is_exact(x) and bool(ball(x).contains(0))


def _magnitude(x: Number) -> float:
    """About the binary logarithm of the size of a number."""
    size = ball(x).abs_upper()
    if size == 0:
        return float("-inf")
    mantissa, exponent = size.man_exp()
    bits = int(exponent) + int(mantissa).bit_length()
    return float(max(-_MOST_BITS, min(bits, _MOST_BITS)))

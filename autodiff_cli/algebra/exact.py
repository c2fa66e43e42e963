"""Exact numbers: what literals stand for, and how a result is written as a literal again."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from autodiff_cli.graph.node import Node, constant, is_exactly

_LARGEST = 10**30  # numbers with a longer numerator or denominator are left where they stand
_LONGEST = 10**15  # whole numbers from here on are written as floats are
_DIGITS = 40  # literals of more characters are left as they are
_PLAIN = 100  # up to here a numerator and a denominator read better than decimals without end


class Number(NamedTuple):
    """An exact number, and whether it came from decimals: 0.5 stays 0.5, 1/2 stays 1/2."""

    value: Fraction | int
    decimal: bool = False

    def __neg__(self) -> Number:
        return Number(-self.value, self.decimal)

    def plus(self, other: Number) -> Number:
        """The sum."""
        return Number(self.value + other.value, self.decimal or other.decimal)

    def times(self, other: Number) -> Number:
        """The product."""
        if other == UNIT:
            return self
        return other if self == UNIT else Number(self.value * other.value, self.decimal or other.decimal)

    def power(self, exponent: int) -> Number:
        """A whole power; of 0, a positive one only."""
        return self if self.value == 1 else Number(Fraction(self.value) ** exponent, self.decimal)

    def root(self) -> Number | None:
        """The square root, if it is an exact number and not 0."""
        if self.value <= 0:
            return None
        above, below = math.isqrt(self.value.numerator), math.isqrt(self.value.denominator)
        root = Fraction(above, below)
        return Number(root, self.decimal) if root * root == self.value else None

    @property
    def size(self) -> Fraction | int:
        """The number without its sign."""
        return -self.value if self.value < 0 else self.value

    @property
    def is_whole(self) -> bool:
        """Whether it is an integer."""
        return self.value.denominator == 1

    @property
    def is_moderate(self) -> bool:
        """Whether it is short enough to be folded into other numbers."""
        return abs(self.value.numerator) <= _LARGEST and self.value.denominator <= _LARGEST

    def quotient(self) -> tuple[Node, Node | None]:
        """The literals that its size is written with: numerator, and denominator if there is one."""
        size = self.size
        above, below = size.numerator, size.denominator
        if below == 1 and above < _LONGEST:
            return constant(str(above)), None
        text = repr(float(size)).removesuffix(".0")
        longest = _PLAIN if self.decimal else _LONGEST
        if below == 1 or max(above, below) > longest or (self.decimal and Fraction(text) == size):
            return constant(text), None
        return constant(str(above)), constant(str(below))


UNIT = Number(1)


def common_size(numbers: Iterable[Number]) -> Number:
    """The largest size of which all numbers are whole multiples, with a minus if all of them have one; decimals have
    none in common."""
    found = list(numbers)
    sign = -1 if all(number.value < 0 for number in found) else 1
    if any(number.decimal for number in found):
        return Number(sign)
    above = math.gcd(*(number.value.numerator for number in found))
    below = math.lcm(*(number.value.denominator for number in found))
    return Number(Fraction(sign * above, below))


@functools.lru_cache(4096)
def number(text: str) -> Number | None:
    """The number that a literal stands for; None for one that no float holds as written, and for a named constant."""
    if len(text) < 16 and text.isascii() and text.isdigit():
        return Number(int(text))
    if len(text) > _DIGITS:
        return None
    try:
        size = float(text)
    except ValueError:
        return None
    if size == 0:  # not what lies below the smallest float
        return Number(0) if is_exactly(text, 0) else None
    if size > _LARGEST or size < 1 / _LARGEST or math.isnan(size):
        return None
    exact = Fraction(text)
    if Fraction(repr(size)) != exact:
        return None
    return Number(exact, exact.denominator > 1)

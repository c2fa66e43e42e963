"""Exact numbers of literals, and sums and products as dictionaries of exact numbers.

A sum is a dictionary of coefficients by term (`Terms`); a product is a number and a dictionary of exponents by base
(`Product`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from autodiff_cli.graph.node import Node, constant, is_exactly
from autodiff_cli.ops.arithmetic import neg

# --- Numbers


# Limits of exact numbers, so that arithmetic on them stays fast and their literals readable.
_MAX_NUMERATOR = 10**30  # numbers with a larger numerator or denominator are not combined with others
_MAX_PLAIN_INTEGER = 10**15  # larger integers are written in scientific notation, like floats
_MAX_LITERAL_LENGTH = 40  # characters; longer literals are left as they are
_MAX_FRACTION_PART = 100  # decimals become fractions only up to this numerator and denominator


class ExactNumber(NamedTuple):
    """An exact number.

    Attributes:
        value: the number.
        is_decimal: whether it came from a decimal: 0.5 stays 0.5, and 1/2 stays 1/2.
    """

    value: Fraction | int
    is_decimal: bool = False

    def __neg__(self) -> ExactNumber:
        return ExactNumber(-self.value, self.is_decimal)

    def plus(self, other: ExactNumber) -> ExactNumber:
        """Return the sum of two numbers."""
        return ExactNumber(self.value + other.value, self.is_decimal or other.is_decimal)

    def times(self, other: ExactNumber) -> ExactNumber:
        """Return the product of two numbers."""
        if other == UNIT:
            return self
        return other if self == UNIT else ExactNumber(self.value * other.value, self.is_decimal or other.is_decimal)

    def power(self, exponent: int) -> ExactNumber:
        """Return an integer power. The exponent of 0 must be positive."""
        return self if self.value == 1 else ExactNumber(Fraction(self.value) ** exponent, self.is_decimal)

    def root(self) -> ExactNumber | None:
        """Return the square root; None if it is not rational, or 0."""
        if self.value <= 0:
            return None
        above, below = math.isqrt(self.value.numerator), math.isqrt(self.value.denominator)
        root = Fraction(above, below)
        return ExactNumber(root, self.is_decimal) if root * root == self.value else None

    @property
    def magnitude(self) -> Fraction | int:
        """The absolute value."""
        return -self.value if self.value < 0 else self.value

    @property
    def is_integer(self) -> bool:
        """Whether the number is an integer."""
        return self.value.denominator == 1

    @property
    def is_short(self) -> bool:
        """Whether the number is short enough to be combined with others."""
        return abs(self.value.numerator) <= _MAX_NUMERATOR and self.value.denominator <= _MAX_NUMERATOR

    def quotient(self) -> tuple[Node, Node | None]:
        """Return the absolute value as literals: a numerator, and a denominator or None."""
        size = self.magnitude
        above, below = size.numerator, size.denominator
        if below == 1 and above < _MAX_PLAIN_INTEGER:
            return constant(str(above)), None
        text = repr(float(size)).removesuffix(".0")
        longest = _MAX_FRACTION_PART if self.is_decimal else _MAX_PLAIN_INTEGER
        if below == 1 or max(above, below) > longest or (self.is_decimal and Fraction(text) == size):
            return constant(text), None
        return constant(str(above)), constant(str(below))


UNIT = ExactNumber(1)


def common_divisor(numbers: Iterable[ExactNumber]) -> ExactNumber:
    """Return the greatest common divisor of numbers, negative if all numbers are; ±1 if one is a decimal."""
    listed = list(numbers)
    sign = -1 if all(number.value < 0 for number in listed) else 1
    if any(number.is_decimal for number in listed):
        return ExactNumber(sign)
    numerator = math.gcd(*(number.value.numerator for number in listed))
    return ExactNumber(Fraction(sign * numerator, math.lcm(*(number.value.denominator for number in listed))))


@functools.lru_cache(4096)
def exact_number(text: str) -> ExactNumber | None:
    """Return the exact number of a literal; None for a named constant, and for a literal that no float represents."""
    if len(text) < 16 and text.isdecimal():
        return ExactNumber(int(text))
    if len(text) > _MAX_LITERAL_LENGTH:
        return None
    try:
        size = float(text)
    except ValueError:
        return None
    if size == 0:  # the text may be a number below the smallest float
        return ExactNumber(0) if is_exactly(text, 0) else None
    if size > _MAX_NUMERATOR or size < 1 / _MAX_NUMERATOR or math.isnan(size):
        return None
    exact = Fraction(text)
    return None if Fraction(repr(size)) != exact else ExactNumber(exact, exact.denominator > 1)


def literal_value(node: Node) -> Fraction | None:
    """Return the exact number of a literal or a negated literal; None for other nodes.

    >>> literal_value(-constant("0.5")), literal_value(constant("pi"))
    (Fraction(-1, 2), None)
    """
    if node.op is neg:
        size = literal_value(node.inputs[0])
        return None if size is None else -size
    literal = exact_number(node.text) if node.is_constant else None
    return None if literal is None else Fraction(literal.value)


# --- Terms and factors

# Terms or factors that are inlined into a formula which is not their only user; more would take quadratic time.
MAX_SPREAD = 12
EXPANDABLE_COUNTS = (2, 3, 4)  # numbers of terms of sums that are multiplied out; longer products grow too much

Factors = dict[Node, ExactNumber]  # exponents by base; the exponents of roots are multiples of 1/2
Terms = dict[Node, ExactNumber]  # coefficients by term; the term of the constant is the literal 1


class Product(NamedTuple):
    """A product.

    Attributes:
        number: the literal factor.
        factors: the exponents of all other factors, by base.
    """

    number: ExactNumber
    factors: Factors


class Guard(NamedTuple):
    """A formula that is 0 by convention where a condition holds, because it has no value there."""

    condition: Node
    formula: Node


def accumulate(parts: dict[Node, ExactNumber], node: Node, number: ExactNumber) -> None:
    """Multiply factors by a power of a base, or add a multiple of a term to terms, in place."""
    parts[node] = parts[node].plus(number) if node in parts else number


def add_terms(terms: Terms, added: Terms, times: ExactNumber = UNIT) -> None:
    """Add a multiple of one sum to another, in place."""
    for term, coefficient in added.items():
        accumulate(terms, term, coefficient.times(times))


def without_zeros(parts: dict[Node, ExactNumber]) -> dict[Node, ExactNumber]:
    """Return factors without exponents of 0, or terms without coefficients of 0."""
    return {node: number for node, number in parts.items() if number.value}


def replace_members(terms: Terms, members: Sequence[Node], one: Node) -> Terms:
    """Return terms in which one term replaces several others, at the place of the first."""
    changed: Terms = {}
    for term, coefficient in terms.items():
        if term is members[0]:
            accumulate(changed, one, UNIT)
        elif term not in members:
            accumulate(changed, term, coefficient)
    return changed

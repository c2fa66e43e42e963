"""What formulas over vectors are written with: functions of the library, choices, and arithmetic without loss."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autodiff_cli.backends.llvm.functions.vectors import Operand, Vector


def where(condition: Vector, a: Operand, b: Operand) -> Vector:
    """a where the condition holds, else b."""
    return condition.code.where(condition, a, b)


def equal(a: Vector, b: Operand) -> Vector:
    """a == b, false where one is nan."""
    return a.code.compare("oeq", a, b)


def not_equal(a: Vector, b: Operand) -> Vector:
    """a != b, true where one is nan."""
    return a.code.compare("une", a, b)


def is_nan(x: Vector) -> Vector:
    """Whether x is nan."""
    return x.code.compare("uno", x, x)


def is_infinite(x: Vector) -> Vector:
    """Whether x is inf or -inf."""
    return equal(abs(x), math.inf)


def is_finite(x: Vector) -> Vector:
    """Whether x is neither nan nor infinite."""
    return abs(x) < math.inf


def truth(x: Vector) -> Vector:
    """Whether x is not 0; nan is not."""
    is_number = x.op == "select" and x.inputs[1].number == 1.0 and x.inputs[2].number == 0.0
    return x.inputs[0] if is_number else not_equal(x, 0.0)


def number(condition: Vector) -> Vector:
    """1 where the condition holds, else 0."""
    return where(condition, 1.0, 0.0)


def larger(a: Vector, b: Operand) -> Vector:
    """The larger of two; nan where one of them is."""
    other = a.code.vector(b)
    if other.number is not None and other.number == other.number:
        return where(a < other, other, a)
    return where((a > other) | is_nan(a), a, other)


def smaller(a: Vector, b: Operand) -> Vector:
    """The smaller of two; nan where one of them is."""
    other = a.code.vector(b)
    if other.number is not None and other.number == other.number:
        return where(a > other, other, a)
    return where((a < other) | is_nan(a), a, other)


def copysign(size: Operand, sign: Vector) -> Vector:
    """The size of one with the sign of the other."""
    return sign.code.function("copysign", size, sign)


def fma(a: Vector, b: Operand, c: Operand) -> Vector:
    """a·b + c, rounded once."""
    return a.code.function("fma", a, b, c)


def two_product(a: Vector, b: Operand) -> tuple[Vector, Vector]:
    """a·b as a rounded product and its error, 0 where the product is not finite."""
    product = a.code.exactly("fmul", a, b)
    error = fma(a, b, -product)
    return product, where(is_finite(product), error, 0.0)


def two_sum(a: Vector, b: Operand) -> tuple[Vector, Vector]:
    """a + b as a rounded sum and its error, 0 where the sum is not finite (Knuth)."""
    exactly = a.code.exactly
    total = exactly("fadd", a, b)
    b_part = exactly("fsub", total, a)
    a_part = exactly("fsub", total, b_part)
    error = exactly("fadd", exactly("fsub", a, a_part), exactly("fsub", b, b_part))
    return total, where(is_finite(error), error, 0.0)


def polynomial(coefficients: Sequence[float], x: Vector) -> Vector:
    """A polynomial, its coefficients highest power first (Horner)."""
    total = x.code.vector(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def sqrt(x: Vector) -> Vector:
    """The square root."""
    return x.code.function("sqrt", x)


def exp(x: Vector) -> Vector:
    """The exponential."""
    return x.code.function("exp", x)


def expm1(x: Vector) -> Vector:
    """exp(x) - 1."""
    return x.code.function("expm1", x)


def log(x: Vector) -> Vector:
    """The natural logarithm."""
    return x.code.function("log", x)


def log1p(x: Vector) -> Vector:
    """log(1 + x)."""
    return x.code.function("log1p", x)

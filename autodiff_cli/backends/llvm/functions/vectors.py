"""Values in vector registers: arithmetic on them builds a graph of instructions, each made once.

A `Vector` stands for as many numbers as a register holds, one per row of data. The usual operators make instructions;
equal instructions of equal inputs are one, so whatever two formulas have in common is computed once. Nothing is written
down here: `listing` puts instructions into an order and writes them as LLVM's text.
"""

from __future__ import annotations

import enum
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Operand: TypeAlias = "Vector | float"

# Functions that are one instruction, or few, by LLVM's names.
INTRINSICS = frozenset(("sqrt", "floor", "ceil", "roundeven", "copysign", "fma", "fabs"))

# Instructions on the bits of numbers, of which functions are made.
WRITTEN_OUT = frozenset(("scaled", "exponent", "binade", "mantissa", "odd", "turned"))


class Lane(enum.Enum):
    """What the lanes of a vector hold."""

    FLOAT = "double"
    TRUTH = "i1"
    WHOLE = "i64"

    __hash__ = object.__hash__  # instructions are told apart by it, so it is to be fast


class Vector:
    """One instruction, and its result.

    Attributes:
        op: what it does: LLVM's name, or one that `listing` knows.
        inputs: what it does it to.
        detail: what else it needs: a number, a name, a place in memory.
        varies: whether the result differs from one pass of the loop over rows to the next.
        rank: how many instructions were made before it.

    >>> code = VectorCode()
    >>> x = code.make("load", Lane.FLOAT, detail="x", varies=True)
    >>> x * 2 + 1 is x * 2 + 1, x * 2 is x * 3
    (True, False)
    """

    __slots__ = ("code", "detail", "inputs", "kind", "op", "rank", "varies")

    def __init__(
        self, code: VectorCode, rank: int, op: str, kind: Lane, inputs: tuple[Vector, ...], detail: Any, varies: bool
    ) -> None:
        self.code = code
        self.rank = rank
        self.op = op
        self.kind = kind
        self.inputs = inputs
        self.detail = detail
        self.varies = varies

    @property
    def number(self) -> float | None:
        """The number that all lanes hold, if it is known here; else None."""
        return _read(self.detail) if self.op == "number" else None

    def __add__(self, other: Operand) -> Vector:
        return self.code.sum(self, self.code.vector(other))

    def __radd__(self, other: Operand) -> Vector:
        return self.code.sum(self.code.vector(other), self)

    def __sub__(self, other: Operand) -> Vector:
        return self.code.difference(self, self.code.vector(other))

    def __rsub__(self, other: Operand) -> Vector:
        return self.code.difference(self.code.vector(other), self)

    def __mul__(self, other: Operand) -> Vector:
        return self.code.product(self, self.code.vector(other))

    def __rmul__(self, other: Operand) -> Vector:
        return self.code.product(self.code.vector(other), self)

    def __truediv__(self, other: Operand) -> Vector:
        return self.code.quotient(self, self.code.vector(other))

    def __rtruediv__(self, other: Operand) -> Vector:
        return self.code.quotient(self.code.vector(other), self)

    def __neg__(self) -> Vector:
        return self.code.negative(self)

    def __abs__(self) -> Vector:
        return self.code.size(self)

    def __lt__(self, other: Operand) -> Vector:
        return self.code.compare("olt", self, other)

    def __le__(self, other: Operand) -> Vector:
        return self.code.compare("ole", self, other)

    def __gt__(self, other: Operand) -> Vector:
        return self.code.compare("ogt", self, other)

    def __ge__(self, other: Operand) -> Vector:
        return self.code.compare("oge", self, other)

    def __and__(self, other: Vector) -> Vector:
        return self.code.make("and", Lane.TRUTH, self, other)

    def __or__(self, other: Vector) -> Vector:
        return self.code.make("or", Lane.TRUTH, self, other)

    def __invert__(self) -> Vector:
        return self.inputs[0] if self.op == "not" else self.code.make("not", Lane.TRUTH, self)


class VectorCode:
    """The instructions of one body of code, each made once."""

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], Vector] = {}

    def make(self, op: str, kind: Lane, *inputs: Vector, detail: Any = None, varies: bool = False) -> Vector:
        """This instruction with these inputs."""
        key = (op, kind, detail, *[vector.rank for vector in inputs])
        made = self._made.get(key)
        if made is None:
            varies = varies or any(vector.varies for vector in inputs)
            made = self._made[key] = Vector(self, len(self._made), op, kind, inputs, detail, varies)
        return made

    def vector(self, operand: Operand) -> Vector:
        """The operand itself, or a number in all lanes."""
        if isinstance(operand, Vector):
            return operand
        return self.make("number", Lane.FLOAT, detail=bits(operand))

    def sum(self, a: Vector, b: Vector) -> Vector:
        """a + b."""
        if b.op == "fneg":
            return self.difference(a, b.inputs[0])
        if a.op == "fneg":
            return self.difference(b, a.inputs[0])
        return self._folded(lambda x, y: x + y, a, b) or self.make("fadd", Lane.FLOAT, *_sorted(a, b))

    def difference(self, a: Vector, b: Vector) -> Vector:
        """a - b."""
        if b.op == "fneg":
            return self.sum(a, b.inputs[0])
        return self._folded(lambda x, y: x - y, a, b) or self.make("fsub", Lane.FLOAT, a, b)

    def product(self, a: Vector, b: Vector) -> Vector:
        """a·b."""
        if a.op == b.op == "fneg":
            return self.product(a.inputs[0], b.inputs[0])
        for one, other in ((a, b), (b, a)):
            if one.op != "number":
                continue
            if one.number == 1.0:
                return other
            if one.number == -1.0:
                return self.negative(other)
        return self._folded(lambda x, y: x * y, a, b) or self.make("fmul", Lane.FLOAT, *_sorted(a, b))

    def quotient(self, a: Vector, b: Vector) -> Vector:
        """a/b."""
        if a.op == b.op == "fneg":
            return self.quotient(a.inputs[0], b.inputs[0])
        divisor = b.number
        if divisor and math.frexp(divisor)[0] in (0.5, -0.5) and 1e-300 < abs(divisor) < 1e300:
            return self.product(a, self.vector(1 / divisor))  # exact
        return self.make("fdiv", Lane.FLOAT, a, b)

    def negative(self, a: Vector) -> Vector:
        """-a."""
        if a.op == "fneg":
            return a.inputs[0]
        return self._folded(lambda x: -x, a) or self.make("fneg", Lane.FLOAT, a)

    def size(self, a: Vector) -> Vector:
        """|a|."""
        if a.op in ("fneg", "fabs"):
            a = a.inputs[0]
        return self._folded(abs, a) or self.make("fabs", Lane.FLOAT, a)

    def compare(self, how: str, a: Operand, b: Operand) -> Vector:
        """A comparison, by LLVM's name: `olt` is false, `ult` true where one of the two is nan."""
        return self.make("fcmp", Lane.TRUTH, self.vector(a), self.vector(b), detail=how)

    def where(self, condition: Vector, a: Operand, b: Operand) -> Vector:
        """a where the condition holds, else b."""
        yes, no = self.vector(a), self.vector(b)
        if yes is no:
            return yes
        if condition.op == "not":
            return self.where(condition.inputs[0], no, yes)
        return self.make("select", Lane.FLOAT, condition, yes, no)

    def exactly(self, op: str, a: Operand, b: Operand) -> Vector:
        """A sum, difference or product (`fadd`, `fsub`, `fmul`) that is rounded for itself: never a part of a fused
        multiply-add, so that its rounding error can be computed."""
        return self.make(op, Lane.FLOAT, self.vector(a), self.vector(b), detail="rounded")

    def function(self, name: str, *inputs: Operand) -> Vector:
        """A function that is one instruction, or a call of the mathematical library."""
        return self.make("call", Lane.FLOAT, *map(self.vector, inputs), detail=name)

    def rarely(self, needed: Vector, usual: Vector, careful: Callable[..., Vector], *inputs: Vector) -> Vector:
        """What is usual; where `needed` holds what is careful, a function of vectors. Its code is passed by unless a
        lane needs it."""
        body = VectorCode()
        places = [body.make("argument", each.kind, detail=k, varies=True) for k, each in enumerate(inputs)]
        found = careful(*places)
        key = (careful.__module__, careful.__qualname__, len(inputs))
        return self.make("rarely", Lane.FLOAT, needed, usual, *inputs, detail=Aside(key, found))

    def _folded(self, compute: Callable[..., float], *inputs: Vector) -> Vector | None:
        """The result, where all inputs are numbers that are known."""
        for vector in inputs:
            if vector.op != "number":
                return None
        return self.vector(compute(*(_read(vector.detail) for vector in inputs)))


class Aside:
    """Code that stands apart, since it is seldom needed. Two are equal that come from the same function.

    Attributes:
        found: its result, over instructions `argument`.
    """

    def __init__(self, key: tuple[Any, ...], found: Vector) -> None:
        self.key = key
        self.found = found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Aside) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def ordered(roots: Sequence[Vector], done: set[Vector] | None = None) -> list[Vector]:
    """All that the roots need and they themselves, each after its inputs.

    Args:
        done: what is there already; what is found is added to it.
    """
    order: list[Vector] = []
    there = set() if done is None else done
    stack = list(roots)[::-1]
    while stack:
        vector = stack[-1]
        waiting = [] if vector in there else [each for each in vector.inputs if each not in there]
        if waiting:
            stack.extend(reversed(waiting))
            continue
        stack.pop()
        if vector not in there:
            there.add(vector)
            order.append(vector)
    return order


def rebuilt(roots: Sequence[Vector], replaced: Callable[[Vector, Sequence[Vector]], Vector | None]) -> list[Vector]:
    """The same results by other instructions.

    Args:
        replaced: what takes the place of an instruction, given its inputs as they are now; None if it stays.
    """
    code = VectorCode()
    made: dict[Vector, Vector] = {}
    for vector in ordered(roots):
        inputs = [made[each] for each in vector.inputs]
        found = replaced(vector, inputs)
        if found is None:
            found = code.make(vector.op, vector.kind, *inputs, detail=vector.detail, varies=vector.varies)
        made[vector] = found
    return [made[root] for root in roots]


def bits(number: float) -> str:
    """A float as LLVM writes it, to the last bit.

    >>> bits(1.0), bits(-0.0)
    ('0x3FF0000000000000', '0x8000000000000000')
    """
    return f"0x{struct.unpack('>Q', struct.pack('>d', number))[0]:016X}"


def _read(text: str) -> float:
    number: float = struct.unpack(">d", int(text, 16).to_bytes(8, "big"))[0]
    return number


def _sorted(a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """Two inputs whose order says nothing, in one order; numbers last."""
    return (b, a) if (a.op == "number", a.rank) > (b.op == "number", b.rank) else (a, b)

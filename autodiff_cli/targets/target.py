"""Target languages as tables of notations, and short definitions of operations that a language may lack."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from autodiff_cli.graph.codegen import SUM, Fragment, Notation
from autodiff_cli.graph.node import Node, is_literal
from autodiff_cli.ops.arithmetic import equal, max_, min_, where
from autodiff_cli.ops.elementary import cosh, log, log2, log10, sinh, square, tanh
from autodiff_cli.ops.special import exp_minus_half_square, exp_minus_square, exp_square, mish, silu, silu_slope

CODE_WIDTH = 96  # characters of a line of comments or tables in generated code


class Statements(Protocol):
    """Statements of a language. Lines are passed and returned without indentation."""

    def function_definition(self, function: TargetFunction) -> str:
        """Return the code of a function."""

    def declaration(self, name: str, kind: str, value: str | None, is_constant: bool) -> list[str]:
        """Return the declaration of a variable, with an initial value unless `value` is None."""

    def assignment(self, name: str, symbol: str, value: Fragment) -> list[str]:
        """Return an assignment, or an augmented assignment if `symbol` is an operator and not empty."""

    def if_statement(self, cases: Sequence[tuple[str, list[str]]], otherwise: list[str]) -> list[str]:
        """Return a branch to the block of the first condition that is true."""

    def while_loop(self, condition: str, block: list[str]) -> list[str]:
        """Return a loop that runs while a condition is true."""

    def for_loop(self, name: str, start: int, stop: int, step: int, block: list[str]) -> list[str]:
        """Return a loop over the integers from `start` up or down to, but excluding, `stop`."""

    def return_statement(self, value: str, is_last: bool) -> list[str]:
        """Return the statement that returns a value; `is_last` if it is the last statement of the function."""

    def table_definition(self, name: str, numbers: Sequence[str]) -> str:
        """Return the definition of a table of numbers, indexed from 0."""

    def constant_definition(self, name: str, number: str) -> str:
        """Return the definition of a named number."""


class TargetFunction(NamedTuple):
    """A translated function.

    Attributes:
        name: its name.
        parameters: the names of its parameters, which are numbers.
        kind: the kind of its result: `number` or `condition`.
        variables: the kind of each variable by name: `number` or `count`.
        body: its lines.
        comment: a description of what it computes.
        is_recursive: whether it calls itself.
    """

    name: str
    parameters: Sequence[str]
    kind: str
    variables: Mapping[str, str]
    body: Sequence[str]
    comment: str
    is_recursive: bool


def infix(symbol: str, binding: int) -> Notation:
    """Return the notation of a left-associative operator between two operands."""
    return Notation(("", symbol, ""), (binding, binding + 1), binding)


def comparison(symbol: str, binding: int) -> Notation:
    """Return the notation of a comparison of two numbers."""
    return Notation(("", f" {symbol} ", ""), (SUM, SUM), binding, is_condition=True)


def shortest_literal(text: str) -> str:
    """Return the shortest text for the float nearest to a decimal number.

    >>> shortest_literal("1E-09"), shortest_literal("2.50"), shortest_literal("100")
    ('1e-9', '2.5', '100')
    """
    return re.sub(r"e([-+]?)0*(\d)", r"e\1\2", repr(float(text))).replace("e+", "e").removesuffix(".0")


@dataclass(frozen=True, kw_only=True)
class Target:
    """A target language, as tables.

    Attributes:
        name: its name on the command line.
        notations: the notations of operations, by name, or by name and number of operands (`index/3`) if the separator
            of the first two operands is not repeated. Besides the table of operations, these are `isnan`, `isinf`,
            `isfinite`, `copysign`, `fmod`, `element`, and the names of `snippets`.
        definitions: operations that the language expresses by others, as graphs. A definition may return None, and is
            then not used.
        numbers: the code of `pi`, `tau`, `e`, `inf` and `nan`.
        literal: returns the code of a number, given its text.
        as_number: the conversion of a condition to 1 or 0.
        as_condition: the conversion of a number to a condition: whether it is not 0.
        as_real: the conversion of a count to a number.
        has_conditional_expression: whether a choice between two values is an expression that computes only one of them.
        snippets: handwritten code by name. It is included if a notation or a number mentions the name.
        statements: the statements of translated functions; None if the language has none.
        keywords: reserved words.
    """

    name: str
    notations: Mapping[str, Notation]
    numbers: Mapping[str, str]
    literal: Callable[[str], str]
    as_number: Notation
    as_condition: Notation
    as_real: Notation = field(default_factory=lambda: Notation(("", ""), (0,)))
    definitions: Mapping[str, Callable[..., Node | None]] = field(default_factory=dict)
    snippets: Mapping[str, str] = field(default_factory=dict)
    statements: Statements | None = None
    has_conditional_expression: bool = True
    keywords: frozenset[str] = frozenset()

    def notation(self, op: str, arity: int) -> Notation | None:
        """Return the notation of an operation; None if it needs a function or a definition."""
        notation = self.notations.get(f"{op}/{arity}") or self.notations.get(op)
        return notation if notation is None or len(notation.operand_precedences) == arity else notation.for_arity(arity)

    def apply_notation(self, notation: Notation, operands: Iterable[Fragment]) -> Fragment:
        """Return the code of an operation on operands, which are converted to numbers or conditions as needed."""
        are_conditions = (k in notation.conditions for k in range(len(notation.operand_precedences)))
        return notation.format(
            [self.coerce(operand, is_condition) for operand, is_condition in zip(operands, are_conditions, strict=True)]
        )

    def coerce(self, fragment: Fragment, is_condition: bool = False) -> Fragment:
        """Return a fragment converted to a number, or to a condition."""
        if fragment.is_condition == is_condition:
            return fragment
        return (self.as_condition if is_condition else self.as_number).format([fragment])


def expand_small_power(x: Node, exponent: Node) -> Node | None:
    """Return x² or x³ as a product, and None for other powers; for languages in which a power is a function call."""
    if is_literal(exponent, 2):
        return x * x
    if is_literal(exponent, 3):
        return x * x * x
    return None


def pairwise(operation: Callable[..., Node]) -> Callable[..., Node | None]:
    """Return a definition of a variadic operation by nested operations on two inputs; it returns None for two
    inputs."""

    def nested(first: Node, second: Node, *rest: Node) -> Node | None:
        if not rest:
            return None
        total = operation(first, second)
        for node in rest:
            total = operation(total, node)
        return total

    return nested


def _log_base(x: Node, base: Node) -> Node:
    if is_literal(base, 2):
        return log2(x)
    return log10(x) if is_literal(base, 10) else log(x) / log(base)


# Short definitions of operations that floats compute in longer forms for the last digits or for subnormal results. They
# are what a person would write, and are accurate to 1e-13 wherever the result is a normal number.
SHORT_DEFINITIONS: Mapping[str, Callable[..., Node]] = {
    "sech": lambda x: 1 / cosh(x),
    "csch": lambda x: 1 / sinh(x),
    "coth": lambda x: 1 / tanh(x),
    "sech_square": lambda x: 1 / square(cosh(x)),
    "csch_square": lambda x: 1 / square(sinh(x)),
    "atanh_slope": lambda x: 1 / (1 - x) / (1 + x),
    "atan_slope": lambda x: 1 / (1 + square(x)),
    "direction": lambda x, length: where(equal(length, 0), 0, x / length),
    "clip": lambda x, low, high: min_(max_(x, low), high),
    "log_base": _log_base,
    **{
        op.name: op.expansion
        for op in (silu, silu_slope, mish, exp_minus_square, exp_minus_half_square, exp_square)
        if op.expansion is not None
    },
}

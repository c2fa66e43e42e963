"""Operations written on numbers or on labels, as at a blackboard: `2 × (-3)`, `sin(2)`."""

from __future__ import annotations

from collections.abc import Sequence

from autodiff_cli.graph.node import Node, constant
from autodiff_cli.graph.op import Op, Precedence

_SYMBOLS = {"*": "×"}


def applied(op: Op, operands: Sequence[str], loose: Sequence[bool]) -> str:
    """An operation on operands, those that are `loose` in brackets where it is written with a symbol."""
    if not op.symbol:
        return f"{op.spelling or op.name}({', '.join(operands)})"
    bracketed = [f"({text})" if is_loose else text for text, is_loose in zip(operands, loose, strict=True)]
    symbol = _SYMBOLS.get(op.symbol, op.symbol)
    if len(bracketed) == 1:
        return f"{symbol} {bracketed[0]}" if symbol.isalpha() else f"{symbol}{bracketed[0]}"
    return (symbol if op.precedence is Precedence.POWER else f" {symbol} ").join(bracketed)


def applied_to_numbers(op: Op, numbers: Sequence[str]) -> str:
    """An operation on numbers, negative ones in brackets where a sign could be misread."""
    may_begin = len(numbers) > 1 and op.precedence is not Precedence.POWER
    return applied(op, numbers, [text.startswith("-") and not (k == 0 and may_begin) for k, text in enumerate(numbers)])


def is_loose(op: Op, position: int, operand: Node) -> bool:
    """Whether an operand needs brackets under an operator."""
    if operand.op is None or operand.op.precedence > op.precedence:
        return False
    return operand.op.precedence < op.precedence or position > 0 or op.precedence is Precedence.POWER


def literal(number: str) -> Node:
    """The graph of a number as it is shown, the sign being an operation."""
    return -constant(number[1:]) if number.startswith("-") else constant(number)

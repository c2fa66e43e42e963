"""Operations written on numbers or on labels, as at a blackboard: `2 × (-3)`, `sin(2)`."""

from __future__ import annotations

from collections.abc import Sequence

from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Op, Precedence
from autodiff_cli.language.printer import written_as

_SYMBOLS = {"*": "×"}


def around(op: Op, count: int) -> tuple[str, ...]:
    """What is written before, between and after so many operands.

    >>> from autodiff_cli.ops.arithmetic import mul
    >>> around(mul, 2)
    ('', ' × ', '')
    """
    if not op.symbol:
        return written_as(op, count).texts
    symbol = _SYMBOLS.get(op.symbol, op.symbol)
    if count == 1:
        return (f"{symbol} " if symbol.isalpha() else symbol, "")
    between = symbol if op.precedence is Precedence.POWER else f" {symbol} "
    return ("", *[between] * (count - 1), "")


def applied(op: Op, operands: Sequence[str], loose: Sequence[bool]) -> str:
    """An operation on operands, those that are `loose` in brackets where it is written with a symbol."""
    before, *after = around(op, len(operands))
    is_open = [bool(op.symbol) or (k == 0 and not before) for k in range(len(operands))]  # to what stands beside
    bracketed = [
        f"({text})" if is_loose and is_beside else text
        for text, is_loose, is_beside in zip(operands, loose, is_open, strict=True)
    ]
    return before + "".join(text + then for text, then in zip(bracketed, after, strict=True))


def applied_to_numbers(op: Op, numbers: Sequence[str]) -> str:
    """An operation on numbers, negative ones in brackets where a sign could be misread."""
    count = len(numbers)
    loose = [text.startswith("-") and is_loose_number(op, k, count) for k, text in enumerate(numbers)]
    return applied(op, numbers, loose)


def is_loose_number(op: Op, position: int, count: int) -> bool:
    """Whether a negative number in this place needs brackets: beside a symbol, unless a text may begin with it."""
    may_begin = count > 1 and position == 0 and op.precedence is not Precedence.POWER
    return bool(op.symbol) and not may_begin


def is_loose(op: Op, position: int, operand: Node) -> bool:
    """Whether an operand needs brackets under an operator."""
    if operand.op is None or operand.op.precedence > op.precedence:
        return False
    return operand.op.precedence < op.precedence or position > 0 or op.precedence is Precedence.POWER

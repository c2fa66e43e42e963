"""Postfix code: what the parser makes of a text, and what is run to build its graph.

The code of an expression is its instructions in the order of evaluation, each with the number of operands it takes from
a stack: `x*y + sin(x)` is `x y * x sin +`. Being flat, it costs no recursion, however deep the expression.
"""

from __future__ import annotations

from typing import NamedTuple

LAYERS = ("dense", "mlp")  # the functions that bring parameters of their own

# What stands for an operator of the language.
SPELLINGS = {"**": "^", "×": "*", "·": "*", "÷": "/", "−": "-", "≤": "<=", "≥": ">=", "≠": "!="}


class Instruction:
    """One step of evaluation. Equal steps of a text are one instruction, at several places.

    Attributes:
        type: `NAME` or `NUMBER` for a leaf; `INFIX`, `PREFIX` or `POSTFIX` for an operator, `LINK` for each after the
            first of a chained comparison; `GROUP` for brackets, which change nothing; `CALL`, `LAYER`, `ARRAY`,
            `INDEX`; `TEXT` for quoted text, `LEAF` for what it and a column stand for, `WORD` for the two of them.
        text: the word that says which: an operator or the name of a function as written, a name in its canonical form.
        operands: the number of values it takes.
    """

    __slots__ = ("operands", "text", "type")

    def __init__(self, type: str, text: str, operands: int) -> None:
        self.type = type
        self.text = text
        self.operands = operands

    def __repr__(self) -> str:
        return f"<{self.type} {self.text!r} of {self.operands}>"


class LayerCall(Instruction):
    """A call of one of `LAYERS`. `activation` is the number of the lexeme that is its third argument, if that is a
    bare name."""

    __slots__ = ("activation",)

    def __init__(self, text: str, operands: int, activation: int | None) -> None:
        super().__init__("LAYER", text, operands)
        self.activation = activation


class Code(NamedTuple):
    """The code of an expression.

    Attributes:
        places: for each instruction the number of its lexeme: the operator, the name of the function, the opening
            bracket, the leaf.
    """

    instructions: list[Instruction]
    places: list[int]


NO_CODE = Code([], [])


class Statement(NamedTuple):
    """One statement of a text: an expression, `name = code`, `name(parameters) = code`, `target ~ code` or
    `name: shape`.

    `name` and `shape` are numbers of lexemes. `parameters` is the code before the `=` of a function's definition:
    leaves, if the definition is right. `shape` is the colon and what follows it; such a statement has no code.
    """

    code: Code
    name: int | None = None
    parameters: Code | None = None
    target: Code | None = None
    shape: int | None = None

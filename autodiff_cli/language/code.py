"""Postfix code: what the parser makes of a text, and what lowering runs.

The code of an expression is its lexemes in the order of evaluation, each with the number of operands it takes from a
stack: `x*y + sin(x)` is `x y * x sin +`. Being flat, it costs no recursion, however deep the expression.
"""

from __future__ import annotations

from typing import NamedTuple

LAYERS = ("dense", "mlp")  # the functions that bring parameters of their own


class Lexeme:
    """A piece of text that means something, and, once in code, an instruction.

    `type` is the terminal of the grammar, or `CALL` for the name of a function that is called, `ARRAY` and `INDEX` for
    the bracket that opens an array or an index; `text` is as written, a name in its canonical form. `start` and `end`
    are positions in the source; those of a call or of brackets reach to the closing bracket. `operands` is the number
    of values it takes.
    """

    __slots__ = ("end", "operands", "start", "text", "type")

    # Lark gives its end token the place of the last one; here places are counted in characters only.
    start_pos = line = column = end_line = end_column = end_pos = None

    def __init__(self, type: str, text: str, start: int, end: int) -> None:
        self.type = type
        self.text = text
        self.start = start
        self.end = end
        self.operands = 0

    def __repr__(self) -> str:
        return f"<{self.type} {self.text!r} at {self.start}>"


class Chain(Lexeme):
    """The instruction for a chained comparison, `0 < x <= 1`: `links` are its operators, one fewer than operands."""

    __slots__ = ("links",)

    def __init__(self, links: tuple[Lexeme, ...]) -> None:
        super().__init__("CHAIN", "and", links[0].start, links[0].end)
        self.links = links
        self.operands = len(links) + 1


class Layer(Lexeme):
    """The instruction for a call of one of `LAYERS`: `activation` is its third argument, if that is a bare name."""

    __slots__ = ("activation",)

    def __init__(self, function: Lexeme, activation: Lexeme | None) -> None:
        super().__init__("LAYER", function.text, function.start, function.end)
        self.activation = activation


Code = list[Lexeme]


class Statement(NamedTuple):
    """One statement of a text: an expression, `name = code`, `name(parameters) = code`, `target ~ code` or
    `name: shape`.

    `parameters` is the code before the `=` of a function's definition: leaves, if the definition is right. `shape` is
    the colon and what follows it; such a statement has no code.
    """

    code: Code
    name: Lexeme | None = None
    parameters: Code | None = None
    target: Code | None = None
    shape: Lexeme | None = None

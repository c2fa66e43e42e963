"""Python, with its `math` alone.

What raises there where IEEE 754 has an answer comes with a function of its own, as it stands in
`autodiff_cli.numbers.floats`; so do the special functions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from textwrap import fill

from autodiff_cli.graph.straight import PRODUCT, SIGN, SUM, Fragment, Notation, call
from autodiff_cli.numbers.sources import Definition, definition, variable_name
from autodiff_cli.targets.definitions import whole_powers
from autodiff_cli.targets.library import Library
from autodiff_cli.targets.target import Target, shortest

CHOICE, OR, AND, NOT, ORDER = 1, 2, 3, 4, 5
DIVISION = Notation(("", "/", ""), (PRODUCT, PRODUCT + 1), PRODUCT)


def comparison(symbol: str) -> Notation:
    """An operator between two numbers that gives a condition."""
    return Notation(("", f" {symbol} ", ""), (SUM, SUM), ORDER, is_condition=True)


ARITHMETIC = {
    "add": Notation(("", " + ", ""), (SUM, SUM + 1), SUM),
    "sub": Notation(("", " - ", ""), (SUM, SUM + 1), SUM),
    "mul": Notation(("", "*", ""), (PRODUCT, PRODUCT + 1), PRODUCT),
    "neg": Notation(("-", ""), (SIGN + 1,), SIGN),
    "eq": comparison("=="),
    "ne": comparison("!="),
    "lt": comparison("<"),
    "le": comparison("<="),
    "gt": comparison(">"),
    "ge": comparison(">="),
}
# What `math` computes for all numbers without raising.
_LIBRARY = {"atan": 1, "tanh": 1, "asinh": 1, "erf": 1, "erfc": 1, "atan2": 2, "hypot": 2}
NOTATIONS = {
    **ARITHMETIC,
    **{name: call(f"math.{name}", arity) for name, arity in _LIBRARY.items()},
    "abs": call("abs", 1),
    "and": Notation(("", " and ", ""), (NOT, NOT), AND, True, (0, 1)),
    "or": Notation(("", " or ", ""), (NOT, NOT), OR, True, (0, 1)),
    "not": Notation(("not ", ""), (NOT,), NOT, True, (0,)),
    "where": Notation(("", " if ", " else ", ""), (OR, OR, CHOICE), CHOICE, conditions=(0,), order=(1, 0, 2)),
    "within": Notation(("math.nan if math.isnan(", ") else ", ""), (0, CHOICE), CHOICE),
}
PYTHON = Target(
    name="python",
    notations=NOTATIONS,
    numbers={name: f"math.{name}" for name in ("pi", "tau", "e", "inf", "nan")},
    literal=shortest,
    as_number=Notation(("float(", ")"), (0,)),
    as_condition=Notation(("", " != 0"), (SUM,), ORDER, True),
    definitions={"pow": whole_powers},
)


class PythonLibrary(Library):
    """Functions as they stand in floats, without their annotations."""

    def has(self, op: str) -> bool:
        """Whether there is a function for an operation."""
        return variable_name(op) is not None

    def need(self, name: str) -> str:
        """See to it that what has this name is there."""
        if name in self._open or name in self.texts:
            return name
        found = definition(name, in_arithmetic=False)
        assert found is not None, name
        self._open.add(name)
        for other in dict.fromkeys(part.id for part in ast.walk(found.node) if isinstance(part, ast.Name)):
            if other not in _IMPORTED + _TYPES and definition(other, in_arithmetic=False) is not None:
                self.need(other)
        text = self._text(name, found)
        self.texts[name] = "" if text in self.texts.values() else text
        return name

    def operation(self, op: str, operands: Sequence[Fragment]) -> Fragment:
        """An operation on operands, or a call of the function for it."""
        if op == "div" and is_nonzero(operands[1].text):
            return self.target.written(DIVISION, operands)
        if self.target.notation(op, len(operands)) is not None:
            return self.noted(op, operands)
        name = variable_name(op)
        assert name is not None, f"Python has no {op}"
        return self.target.written(call(self.need(name), len(operands)), operands)

    @property
    def imports(self) -> str:
        """What the functions import."""
        words = {word for text in self.texts.values() for word in re.findall(r"(?<![.\w])\w+", text)}
        names = [name for name in _IMPORTED if name in words]
        return f"from math import {', '.join(names)}\n" if names else ""

    def _text(self, name: str, found: Definition) -> str:
        if isinstance(found.node, ast.FunctionDef) and not found.is_cached:
            text = re.sub(r"^( *def .*)$", lambda line: _bare(line[0]), found.text, flags=re.MULTILINE)
        elif found.is_cached and (numbers := found.table) is not None:
            lines = fill(", ".join(map(repr, numbers)), _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
            text = f"{name} = [\n{lines},\n]\n"
        else:
            text = found.text
        for table in self.texts:  # a table that floats make when it is needed stands here as it is
            text = text.replace(f"{table}()", table) if self.texts[table].startswith(f"{table} = [") else text
        return text


_IMPORTED = ("copysign", "inf", "nan", "pi")
_TYPES = ("Function", "Callable")  # of annotations, which are left out
_WIDTH = 96
_INDENT = "    "


def is_nonzero(text: str) -> bool:
    """Whether a piece of code is a number other than 0, as it stands."""
    return re.fullmatch(r"[\d.]+(e-?\d+)?", text) is not None and float(text) != 0


def _bare(line: str) -> str:
    """The first line of a function without annotations."""
    untyped = re.sub(r": (float|int|Function|Callable\[\[float\], \w+\])|(?<=\)) -> [^:]+(?=:$)", "", line)
    return re.sub(r" = ", "=", untyped)

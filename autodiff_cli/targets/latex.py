"""LaTeX for mathematical formulas, with the package amsmath."""

from __future__ import annotations

import re
from collections.abc import Sequence

from autodiff_cli.graph.codegen import ATOM_PRECEDENCE, Fragment, Notation
from autodiff_cli.graph.node import is_representable
from autodiff_cli.numbers.translation import Library, Target
from autodiff_cli.targets.translation import shortest_literal

OR, AND, NOT, ORDER, SUM, SIGN, PRODUCT, POWER = range(1, 9)
_BRACKETS = (r"\left(", r"\right)")


def _notation(
    texts: Sequence[str], least: Sequence[int], binding: int = ATOM_PRECEDENCE, is_condition: bool = False
) -> Notation:
    return Notation(tuple(texts), tuple(least), binding, is_condition, brackets=_BRACKETS)


def _function(name: str, arity: int = 1) -> Notation:
    """Return the notation of a function with its arguments in brackets."""
    return _notation([rf"{name}\left(", *[", "] * (arity - 1), r"\right)"], [0] * arity)


def _comparison(symbol: str) -> Notation:
    return _notation(["", f" {symbol} ", ""], [SUM, SUM], ORDER, is_condition=True)


_COMMANDS = {
    **{name: rf"\{name}" for name in ("sin", "cos", "tan", "sec", "csc", "cot", "sinh", "cosh", "tanh", "coth")},
    "asin": r"\arcsin", "acos": r"\arccos", "atan": r"\arctan", "log": r"\ln", "log2": r"\log_2", "log10": r"\log_{10}",
    "gamma": r"\Gamma", "lgamma": r"\ln\Gamma", "digamma": r"\psi", "normal_cdf": r"\Phi",
}  # fmt: skip
NOTATIONS = {
    "add": _notation(["", " + ", ""], [SUM, PRODUCT], SUM),
    "sub": _notation(["", " - ", ""], [SUM, PRODUCT], SUM),
    "mul": _notation(["", r" \, ", ""], [SIGN, PRODUCT + 1], PRODUCT),
    "div": _notation([r"\frac{", "}{", "}"], [0, 0], PRODUCT),
    "neg": _notation(["-", ""], [PRODUCT], SIGN),
    "pow": _notation(["", "^{", "}"], [POWER + 1, 0], POWER),
    "square": _notation(["", "^{2}"], [POWER + 1], POWER),
    "mod": _notation(["", r" \bmod ", ""], [PRODUCT, PRODUCT + 1], ORDER),  # in brackets in sums and products
    "matmul": _notation(["", r" \, ", ""], [PRODUCT, PRODUCT + 1], PRODUCT),
    "dot": _notation(["", r"^{\mathsf{T}} \, ", ""], [POWER + 1, PRODUCT + 1], PRODUCT),
    "outer": _notation(["", r" \, ", r"^{\mathsf{T}}"], [PRODUCT, POWER + 1], PRODUCT),
    "sum": _notation([r"\sum ", ""], [PRODUCT + 1], PRODUCT),
    "transpose": _notation(["", r"^{\mathsf{T}}"], [POWER + 1], POWER),
    "lt": _comparison("<"),
    "le": _comparison(r"\le"),
    "gt": _comparison(">"),
    "ge": _comparison(r"\ge"),
    "eq": _comparison("="),
    "ne": _comparison(r"\ne"),
    "and": _notation(["", r" \land ", ""], [AND, AND + 1], AND)._replace(is_condition=True, conditions=(0, 1)),
    "or": _notation(["", r" \lor ", ""], [OR, OR + 1], OR)._replace(is_condition=True, conditions=(0, 1)),
    "not": _notation([r"\lnot ", ""], [NOT + 2], NOT)._replace(is_condition=True, conditions=(0,)),
    "where": _notation(
        [r"\begin{cases} ", r" & \text{if } ", r" \\ ", r" & \text{otherwise} \end{cases}"], [0, 0, 0], ORDER
    )._replace(conditions=(0,), order=(1, 0, 2)),
    "sqrt": _notation([r"\sqrt{", "}"], [0]),
    "cbrt": _notation([r"\sqrt[3]{", "}"], [0]),
    "root": _notation([r"\sqrt[", "]{", "}"], [0, 0])._replace(order=(1, 0)),
    "exp": _notation(["e^{", "}"], [0], POWER),
    "exp2": _notation(["2^{", "}"], [0], POWER),
    "abs": _notation([r"\left|", r"\right|"], [0]),
    "floor": _notation([r"\left\lfloor ", r" \right\rfloor"], [0]),
    "ceil": _notation([r"\left\lceil ", r" \right\rceil"], [0]),
    "norm": _notation([r"\left\|", r"\right\|"], [0]),
    "polygamma": _notation([r"\psi^{(", r")}\left(", r"\right)"], [0, 0]),
    "log_base": _notation([r"\log_{", r"}\left(", r"\right)"], [0, 0])._replace(order=(1, 0)),
    "max": _function(r"\max", 2),
    "min": _function(r"\min", 2),
    "largest": _function(r"\max"),
    "smallest": _function(r"\min"),
    "part": _notation(["", "_{", ":", "}"], [POWER + 1, 0, 0]),
    "index": _notation(["", "_{", "}"], [POWER + 1, 0]),
    "index/3": _notation(["", "_{", ", ", "}"], [POWER + 1, 0, 0]),
    "stack": _notation([r"\begin{pmatrix} ", r" \\ ", r" \end{pmatrix}"], [0, 0]),
    **{name: _function(command) for name, command in _COMMANDS.items()},
}


def _literal(text: str) -> str:
    """Return the code of a number. One that is not representable as a float is written as in the formula."""
    digits = shortest_literal(text) if is_representable(text) else text.lower()
    return re.sub(r"e\+?(-?)0*(\d+)$", r" \\cdot 10^{\1\2}", digits)


LATEX = Target(
    name="latex",
    notations=NOTATIONS,
    numbers={"pi": r"\pi", "tau": r"\tau", "e": "e", "inf": r"\infty", "nan": r"\text{undefined}"},
    literal=_literal,
    as_number=_notation(["[", "]"], [0])._replace(conditions=(0,)),  # Iverson brackets
    as_condition=_comparison(r"\ne")._replace(texts=("", r" \ne 0"), operand_precedences=(SUM,)),
)


_VECTOR = re.compile(r"\\begin\{pmatrix\} ((?:(?!\\begin)[^&])*) \\end\{pmatrix\}")


class LatexLibrary(Library):
    """Typesets every operation: those without a notation as named functions."""

    def has_function(self, op: str) -> bool:  # noqa: ARG002 - independent of the operation
        """Return whether there is a function for an operation, which is always true."""
        return True

    def number(self, text: str) -> Fragment:
        """Return the code of a constant, which may be beyond the range of floats."""
        return self.constant(text) if text in self.target.numbers else Fragment(self.target.literal(text))

    def operation(self, op: str, operands: Sequence[Fragment]) -> Fragment:
        """Return the code of an operation on operands; a factor before a number is followed by a dot."""
        if op == "mul" and operands[1].text[:1].isdigit():
            dotted = NOTATIONS["mul"]._replace(texts=("", r" \cdot ", ""))
            return self.target.apply_notation(dotted, operands)
        if op in ("broadcast_like", "place"):  # the second operand only determines a shape
            return self._indicator_array(operands[0], operands[2:])
        rows = [_VECTOR.fullmatch(operand.text) for operand in operands]
        if op == "stack" and all(rows):  # the rows of a matrix
            operands = [Fragment(row[1].replace(r" \\ ", " & ")) for row in rows if row]
        if op in self.target.notations:
            return self.apply_notation(op, operands)
        name = rf"\operatorname{{{op.replace('_', chr(92) + '_')}}}"  # LaTeX has no command for it
        return self.target.apply_notation(_function(name, len(operands)), operands)

    def _indicator_array(self, factor: Fragment, index: Sequence[Fragment]) -> Fragment:
        """Return an array that is `factor` at one index and 0 elsewhere; without an index, `factor` everywhere."""
        subscript = ", ".join(fragment.text for fragment in index)
        ones = Fragment(rf"\mathbf{{{'e' if len(index) == 1 else 'E'}}}_{{{subscript}}}" if index else r"\mathbf{1}")
        return ones if factor.text == "1" else self.apply_notation("mul", [factor, ones])

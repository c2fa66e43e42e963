"""LaTeX, as mathematics is set, with the package amsmath."""

from __future__ import annotations

import re
from collections.abc import Sequence

from autodiff_cli.graph.straight import TIGHTEST, Fragment, Notation
from autodiff_cli.targets.library import Library
from autodiff_cli.targets.target import Target, shortest

OR, AND, NOT, ORDER, SUM, SIGN, PRODUCT, POWER = range(1, 9)
_BRACKETS = (r"\left(", r"\right)")


def _of(texts: Sequence[str], least: Sequence[int], binding: int = TIGHTEST, is_condition: bool = False) -> Notation:
    return Notation(tuple(texts), tuple(least), binding, is_condition, brackets=_BRACKETS)


def _function(name: str, arity: int = 1) -> Notation:
    """A function of its arguments in brackets."""
    return _of([rf"{name}\left(", *[", "] * (arity - 1), r"\right)"], [0] * arity)


def _comparison(symbol: str) -> Notation:
    return _of(["", f" {symbol} ", ""], [SUM, SUM], ORDER, is_condition=True)


def operator(name: str) -> str:
    """A function that LaTeX has no command for."""
    return rf"\operatorname{{{name.replace('_', chr(92) + '_')}}}"


_COMMANDS = {
    **{name: rf"\{name}" for name in ("sin", "cos", "tan", "sec", "csc", "cot", "sinh", "cosh", "tanh", "coth")},
    "asin": r"\arcsin", "acos": r"\arccos", "atan": r"\arctan", "log": r"\ln", "log2": r"\log_2", "log10": r"\log_{10}",
    "gamma": r"\Gamma", "lgamma": r"\ln\Gamma", "digamma": r"\psi", "normal_cdf": r"\Phi",
}  # fmt: skip
NOTATIONS = {
    "add": _of(["", " + ", ""], [SUM, PRODUCT], SUM),
    "sub": _of(["", " - ", ""], [SUM, PRODUCT], SUM),
    "mul": _of(["", r" \, ", ""], [SIGN, PRODUCT + 1], PRODUCT),
    "div": _of([r"\frac{", "}{", "}"], [0, 0], PRODUCT),
    "neg": _of(["-", ""], [PRODUCT], SIGN),
    "pow": _of(["", "^{", "}"], [POWER + 1, 0], POWER),
    "square": _of(["", "^{2}"], [POWER + 1], POWER),
    "mod": _of(["", r" \bmod ", ""], [PRODUCT, PRODUCT + 1], PRODUCT),
    "matmul": _of(["", r" \, ", ""], [PRODUCT, PRODUCT + 1], PRODUCT),
    "dot": _of(["", r"^{\mathsf{T}} \, ", ""], [POWER + 1, PRODUCT + 1], PRODUCT),
    "outer": _of(["", r" \, ", r"^{\mathsf{T}}"], [PRODUCT, POWER + 1], PRODUCT),
    "sum": _of([r"\sum ", ""], [PRODUCT + 1], PRODUCT),
    "transpose": _of(["", r"^{\mathsf{T}}"], [POWER + 1], POWER),
    "lt": _comparison("<"),
    "le": _comparison(r"\le"),
    "gt": _comparison(">"),
    "ge": _comparison(r"\ge"),
    "eq": _comparison("="),
    "ne": _comparison(r"\ne"),
    "and": _of(["", r" \land ", ""], [AND, AND + 1], AND)._replace(is_condition=True, conditions=(0, 1)),
    "or": _of(["", r" \lor ", ""], [OR, OR + 1], OR)._replace(is_condition=True, conditions=(0, 1)),
    "not": _of([r"\lnot ", ""], [NOT + 2], NOT)._replace(is_condition=True, conditions=(0,)),
    "where": _of(
        [r"\begin{cases} ", r" & \text{if } ", r" \\ ", r" & \text{otherwise} \end{cases}"], [0, 0, 0]
    )._replace(conditions=(0,), order=(1, 0, 2)),
    "sqrt": _of([r"\sqrt{", "}"], [0]),
    "cbrt": _of([r"\sqrt[3]{", "}"], [0]),
    "root": _of([r"\sqrt[", "]{", "}"], [0, 0])._replace(order=(1, 0)),
    "exp": _of(["e^{", "}"], [0], POWER),
    "exp2": _of(["2^{", "}"], [0], POWER),
    "abs": _of([r"\left|", r"\right|"], [0]),
    "floor": _of([r"\left\lfloor ", r" \right\rfloor"], [0]),
    "ceil": _of([r"\left\lceil ", r" \right\rceil"], [0]),
    "norm": _of([r"\left\|", r"\right\|"], [0]),
    "polygamma": _of([r"\psi^{(", r")}\left(", r"\right)"], [0, 0]),
    "log_base": _of([r"\log_{", r"}\left(", r"\right)"], [0, 0])._replace(order=(1, 0)),
    "max": _function(r"\max", 2),
    "min": _function(r"\min", 2),
    "largest": _function(r"\max"),
    "smallest": _function(r"\min"),
    "part": _of(["", "_{", ":", "}"], [POWER + 1, 0, 0]),
    "index": _of(["", "_{", "}"], [POWER + 1, 0]),
    "index/3": _of(["", "_{", ", ", "}"], [POWER + 1, 0, 0]),
    "stack": _of([r"\begin{pmatrix} ", r" \\ ", r" \end{pmatrix}"], [0, 0]),
    **{name: _function(command) for name, command in _COMMANDS.items()},
}
LATEX = Target(
    name="latex",
    notations=NOTATIONS,
    numbers={"pi": r"\pi", "tau": r"2\pi", "e": "e", "inf": r"\infty", "nan": r"\text{undefined}"},
    literal=lambda text: re.sub(r"e(-?\d+)$", r" \\cdot 10^{\1}", shortest(text)),
    as_number=_of(["[", "]"], [0])._replace(conditions=(0,)),  # Iverson's brackets
    as_condition=_comparison(r"\ne")._replace(texts=("", r" \ne 0"), least=(SUM,)),
)


class LatexLibrary(Library):
    """Every operation can be set."""

    def has(self, op: str) -> bool:  # noqa: ARG002 - all have a name
        """Whether an operation can be set."""
        return True

    def operation(self, op: str, operands: Sequence[Fragment]) -> Fragment:
        """An operation on operands; a number behind a factor needs a dot."""
        if op == "mul" and operands[1].text[:1].isdigit():
            dotted = NOTATIONS["mul"]._replace(texts=("", r" \cdot ", ""))
            return self.target.written(dotted, operands)
        if op in ("broadcast_like", "place"):  # the array in the second place only says a shape
            return self._times_units(operands[0], operands[2:])
        if op in self.target.notations:
            return self.noted(op, operands)
        return self.target.written(_function(operator(op), len(operands)), operands)

    def _times_units(self, factor: Fragment, place: Sequence[Fragment]) -> Fragment:
        """An array of one number: at a place, with zeros elsewhere; without a place, everywhere."""
        below = ", ".join(part.text for part in place)
        units = Fragment(rf"\mathbf{{{'e' if len(place) == 1 else 'E'}}}_{{{below}}}" if place else r"\mathbf{1}")
        return units if factor.text == "1" else self.noted("mul", [factor, units])

"""LaTeX for mathematical formulas, with the package amsmath."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set

from autodiff_cli.graph.codegen import Fragment, Notation
from autodiff_cli.graph.node import Node, Shape, is_representable
from autodiff_cli.graph.tape import ShapeInference
from autodiff_cli.numbers.translation import Library, Target
from autodiff_cli.targets.translation import GraphWriter, language_notations, shortest_literal

_LEVELS = {"OR": 1, "AND": 2, "NOT": 3, "ORDER": 4, "SUM": 5, "SIGN": 6, "PRODUCT": 7, "POWER": 8}
SUM, SIGN, PRODUCT, POWER = (_LEVELS[name] for name in ("SUM", "SIGN", "PRODUCT", "POWER"))
_BRACKETS = (r"\left(", r"\right)")
NOTATIONS = language_notations(_LEVELS, "latex", brackets=_BRACKETS)


def _literal(text: str) -> str:
    """Return the code of a number. One that is not representable as a float is written as in the formula."""
    digits = shortest_literal(text) if is_representable(text) else text.lower()
    return re.sub(r"e\+?(-?)0*(\d+)$", r" \\cdot 10^{\1\2}", digits)


LATEX = Target(
    name="latex",
    notations=NOTATIONS,
    numbers={"pi": r"\pi", "tau": r"\tau", "e": "e", "inf": r"\infty", "nan": r"\text{undefined}"},
    literal=_literal,
    as_number=Notation(("[", "]"), (0,), conditions=(0,), brackets=_BRACKETS),  # Iverson brackets
    as_condition=NOTATIONS["ne"]._replace(texts=("", r" \ne 0"), operand_precedences=(SUM,)),
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
            return self.target.apply_notation(NOTATIONS["mul"]._replace(texts=("", r" \cdot ", "")), operands)
        if op in ("broadcast_like", "place"):  # the second operand only determines a shape
            return self._indicator_array(operands[0], operands[2:])
        rows = [_VECTOR.fullmatch(operand.text) for operand in operands]
        if op == "stack" and all(rows):  # the rows of a matrix
            operands = [Fragment(row[1].replace(r" \\ ", " & ")) for row in rows if row]
        if op in self.target.notations:
            return self.apply_notation(op, operands)
        name = rf"\operatorname{{{op.replace('_', chr(92) + '_')}}}"  # LaTeX has no command for it
        texts = (rf"{name}\left(", *[", "] * (len(operands) - 1), r"\right)")
        return self.target.apply_notation(Notation(texts, (0,) * len(operands), brackets=_BRACKETS), operands)

    def _indicator_array(self, factor: Fragment, index: Sequence[Fragment]) -> Fragment:
        """Return an array that is `factor` at one index and 0 elsewhere; without an index, `factor` everywhere."""
        subscript = ", ".join(fragment.text for fragment in index)
        ones = Fragment(rf"\mathbf{{{'e' if len(index) == 1 else 'E'}}}_{{{subscript}}}" if index else r"\mathbf{1}")
        return ones if factor.text == "1" else self.apply_notation("mul", [factor, ones])


class LatexWriter(GraphWriter):
    """Writes graphs in LaTeX. Elementwise products and powers are not written like products and powers of matrices.

    Args:
        shapes: the shapes of leaves by name; leaves without an entry are scalars.
        unknown: the names of arrays with an unknown shape.
    """

    def __init__(self, shapes: Mapping[str, Shape] = {}, unknown: Set[str] = frozenset()) -> None:
        super().__init__(LatexLibrary(LATEX))
        self._inference = ShapeInference(shapes, unknown)

    def write(self, node: Node, operands: Sequence[Fragment]) -> Fragment:
        """Return the code of a constant, or of an operation on operands."""
        name = node.op.name if node.op is not None else ""
        if name == "index" and operands[0].text.endswith("}") and operands[0].precedence > POWER:
            operands = [Fragment(rf"\left({operands[0].text}\right)"), *operands[1:]]  # TeX allows only one subscript
        if f"{name}/arrays" in NOTATIONS:
            factors, dimensions = (node.inputs, 1) if name == "mul" else (node.inputs[:1], 2)
            shapes = [self._inference.infer(factor) for factor in factors]
            if all(shape is None or len(shape) >= dimensions for shape in shapes):
                return LATEX.apply_notation(NOTATIONS[f"{name}/arrays"], operands)
        return super().write(node, operands)

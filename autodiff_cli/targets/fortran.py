"""Fortran (as of 2008). Functions that its own library lacks are called from C's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from autodiff_cli.graph.codegen import PRODUCT, SIGN, SUM, Fragment, Notation
from autodiff_cli.numbers.translation import Library, Statements, Target
from autodiff_cli.targets.translation import SOURCE, language_notations, shortest_literal

RESULT = "returned"
ORDER, POWER = 4, PRODUCT + 1
_LEVELS = {"OR": 1, "AND": 2, "NOT": 3, "ORDER": ORDER, "SUM": SUM, "PRODUCT": PRODUCT, "SIGN": SIGN, "POWER": POWER}

# Functions of C's library that have the names of operations.
_C_FUNCTIONS = ("expm1", "log1p", "log2", "cbrt")
_INTERFACES = {
    name: SOURCE["fortran_templates"]["c_interface"].format(name=name, theirs=name.removeprefix("c_"))
    for name in (*_C_FUNCTIONS, "c_floor", "c_ceil")
}
_PARAMETER = "real(dp), parameter :: {name} = {number}\n"


def literal(text: str) -> str:
    """Return the code of a number in double precision."""
    number = shortest_literal(text)
    return f"{number}_dp" if any(mark in number for mark in ".e") else f"{number}.0_dp"


class _Statements(Statements):
    comment = "! "
    kinds = ("real(dp)", "logical")
    head = f"{{recursive}}function {{name}}({{parameters}}) result({RESULT})"
    opening = f"\n    real(dp), value :: {{parameters}}\n    {{kind}} :: {RESULT}\n"
    closing = "end function\n"
    variables = "real(dp) :: {names}"
    assign = "{name} = {value}"
    returns = (f"{RESULT} = {{value}}", "return")
    branches = ("if ({test}) then", "else if ({test}) then", "else", "end if")
    loop = ("do while ({test})", "end do")
    table = "real(dp), parameter :: {name}(0:{last}) = [ &\n{body} &\n]\n"
    continuation = " &"
    constant = _PARAMETER


FORTRAN_STATEMENTS = _Statements()


class FortranLibrary(Library):
    """The library of Fortran programs: the functions that a program contains."""

    def operation(self, op: str, operands: Sequence[Fragment]) -> Fragment:
        """Return the code of an operation on operands; exponents that are integers are written as integers."""
        if op == "pow" and re.fullmatch(r"\d{1,2}\.0_dp", operands[1].text):
            operands = [operands[0], Fragment(operands[1].text.removesuffix(".0_dp"))]
        return super().operation(op, operands)


def split_declarations(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the declarations that precede a program's statements, and the functions that follow them."""
    declared = [text for text in texts if text.startswith((_PARAMETER[:20], "interface"))]
    return declared, [text for text in texts if text not in declared]


FORTRAN = Target(
    name="fortran",
    notations=language_notations(_LEVELS, "fortran"),
    numbers={"pi": "pi", "tau": "tau", "e": "euler_e", "inf": "inf()", "nan": "nan()"},
    literal=literal,
    as_number=Notation(("merge(1.0_dp, 0.0_dp, ", ")"), (0,), conditions=(0,)),
    as_condition=Notation(("", " /= 0"), (SUM,), ORDER, True),
    snippets={**SOURCE["fortran"], **_INTERFACES},
    has_conditional_expression=False,
    statements=FORTRAN_STATEMENTS,
    library_names=("gamma",),
)

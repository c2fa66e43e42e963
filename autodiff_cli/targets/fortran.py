"""Fortran (as of 2008). Functions that its own library lacks are called from C's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from autodiff_cli.graph.codegen import PRODUCT, SUM, Fragment, Notation, call_notation
from autodiff_cli.numbers.translation import Library, Statements, Target
from autodiff_cli.targets.translation import SOURCE, arithmetic, comparison, shortest_literal

RESULT = "returned"
OR, AND, NOT, ORDER = 1, 2, 3, 4
POWER = PRODUCT + 1

# Functions of Fortran's and of C's library that have the names of operations.
_LIBRARY = (
    "sqrt", "exp", "log", "log10", "abs", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc",
)  # fmt: skip
_C_FUNCTIONS = ("expm1", "log1p", "log2", "cbrt")
_INTERFACES = {
    name: SOURCE["fortran_templates"]["c_interface"].format(name=name, theirs=name.removeprefix("c_"))
    for name in (*_C_FUNCTIONS, "c_floor", "c_ceil")
}
NOTATIONS = {
    **arithmetic(ORDER),
    "neg": Notation(("-", ""), (PRODUCT,), SUM),
    **dict.fromkeys(("pow", "platform_pow"), Notation(("", "**", ""), (POWER + 1, POWER + 1), POWER)),
    "exp2": Notation(("2.0_dp**", ""), (POWER + 1,), POWER),
    "ne": comparison("/=", ORDER),
    "and": Notation(("", " .and. ", ""), (AND, AND + 1), AND, True, (0, 1)),
    "or": Notation(("", " .or. ", ""), (OR, OR + 1), OR, True, (0, 1)),
    "not": Notation((".not. ", ""), (ORDER + 1,), NOT, True, (0,)),
    "where": Notation(("merge(", ", ", ", ", ")"), (0, 0, 0), conditions=(0,), order=(1, 2, 0)),
    "element": Notation(("", "(int(", "))"), (POWER + 1, 0)),
    **{name: call_notation(name, 1) for name in (*_LIBRARY, *_C_FUNCTIONS) if name != "cbrt"},
    "platform_cbrt": call_notation("cbrt", 1),
    **{name: call_notation(name, 2) for name in ("atan2", "hypot")},
    "floor": call_notation("c_floor", 1),
    "ceil": call_notation("c_ceil", 1),
    "round": call_notation("ieee_rint", 1),
    "fmod": call_notation("mod", 2),
    "copysign": call_notation("sign", 2),
    "isnan": Notation(("ieee_is_nan(", ")"), (0,), is_condition=True),
    "isfinite": Notation(("ieee_is_finite(", ")"), (0,), is_condition=True),
    "isinf": Notation(("abs(", ") > huge(1.0_dp)"), (0,), ORDER, is_condition=True),
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
    notations=NOTATIONS,
    numbers={"pi": "pi", "tau": "tau", "e": "euler_e", "inf": "inf()", "nan": "nan()"},
    literal=literal,
    as_number=Notation(("merge(1.0_dp, 0.0_dp, ", ")"), (0,), conditions=(0,)),
    as_condition=Notation(("", " /= 0"), (SUM,), ORDER, True),
    snippets={**SOURCE["fortran"], **_INTERFACES},
    has_conditional_expression=False,
    statements=FORTRAN_STATEMENTS,
    library_names=("gamma",),
)

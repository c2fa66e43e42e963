"""Fortran, as of 2008; what its own library lacks is called from C's."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

from autodiff_cli.graph.straight import PRODUCT, SUM, Fragment, Notation, call
from autodiff_cli.targets.library import Library
from autodiff_cli.targets.target import Function, Target, shortest

_WIDTH = 96  # of lines of comments and tables
_INDENT = "    "
RESULT = "returned"
OR, AND, NOT, ORDER = 1, 2, 3, 4
POWER = PRODUCT + 1


def _comparison(symbol: str) -> Notation:
    return Notation(("", f" {symbol} ", ""), (SUM, SUM), ORDER, is_condition=True)


def _from_c(name: str, theirs: str = "") -> tuple[str, str]:
    """A function of C's library, as an interface."""
    return (
        name,
        f"""\
interface
    function {name}(x) bind(c, name="{theirs or name}")
        import :: dp
        real(dp), value :: x
        real(dp) :: {name}
    end function
end interface
""",
    )


def _special(name: str, value: str) -> tuple[str, str]:
    """A number that is no constant expression."""
    return (
        name,
        f"""\
function {name}() result({RESULT})
    real(dp) :: {RESULT}
    {RESULT} = ieee_value({RESULT}, {value})
end function
""",
    )


# The library's functions that are called as the operations are, and C's that are.
_LIBRARY = (
    "sqrt", "exp", "log", "log10", "abs", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "gamma",
)  # fmt: skip
_FROM_C = ("expm1", "log1p", "log2", "cbrt")
NOTATIONS = {
    "add": Notation(("", " + ", ""), (SUM, SUM + 1), SUM),
    "sub": Notation(("", " - ", ""), (SUM, SUM + 1), SUM),
    "mul": Notation(("", "*", ""), (PRODUCT, PRODUCT + 1), PRODUCT),
    "div": Notation(("", "/", ""), (PRODUCT, PRODUCT + 1), PRODUCT),
    "neg": Notation(("-", ""), (PRODUCT,), SUM),
    "pow": Notation(("", "**", ""), (POWER + 1, POWER + 1), POWER),
    "exp2": Notation(("2.0_dp**", ""), (POWER + 1,), POWER),
    "lt": _comparison("<"),
    "le": _comparison("<="),
    "gt": _comparison(">"),
    "ge": _comparison(">="),
    "eq": _comparison("=="),
    "ne": _comparison("/="),
    "and": Notation(("", " .and. ", ""), (AND, AND + 1), AND, True, (0, 1)),
    "or": Notation(("", " .or. ", ""), (OR, OR + 1), OR, True, (0, 1)),
    "not": Notation((".not. ", ""), (ORDER + 1,), NOT, True, (0,)),
    "where": Notation(("merge(", ", ", ", ", ")"), (0, 0, 0), conditions=(0,), order=(1, 2, 0)),
    "within": Notation(("merge(", ", nan(), .not. ieee_is_nan(", "))"), (0, 0), order=(1, 0)),
    "element": Notation(("", "(", ")"), (POWER + 1, 0)),
    **{name: call(name, 1) for name in (*_LIBRARY, *_FROM_C)},
    **{name: call(name, 2) for name in ("atan2", "hypot")},
    "floor": call("c_floor", 1),
    "ceil": call("c_ceil", 1),
    "round": call("ieee_rint", 1),
    "lgamma": call("log_gamma", 1),
    "fmod": call("mod", 2),
    "copysign": call("sign", 2),
    "isnan": Notation(("ieee_is_nan(", ")"), (0,), is_condition=True),
    "isfinite": Notation(("ieee_is_finite(", ")"), (0,), is_condition=True),
    "isinf": Notation(("abs(", ") > huge(1.0_dp)"), (0,), ORDER, is_condition=True),
}
_PARAMETER = "real(dp), parameter :: {name} = {number}\n"
NATIVES = {
    **dict(map(_from_c, _FROM_C)),
    **dict([_from_c("c_floor", "floor"), _from_c("c_ceil", "ceil")]),
    **dict([_special("inf", "ieee_positive_inf"), _special("nan", "ieee_quiet_nan")]),
    "pi": _PARAMETER.format(name="pi", number="3.141592653589793_dp"),
    "tau": _PARAMETER.format(name="tau", number="6.283185307179586_dp"),
    "euler_e": _PARAMETER.format(name="euler_e", number="2.718281828459045_dp"),
}


def literal(text: str) -> str:
    """A number in double precision."""
    number = shortest(text)
    return f"{number}_dp" if any(mark in number for mark in ".e") else f"{number}.0_dp"


class _Statements:
    """Statements with their ends."""

    def function(self, function: Function) -> str:
        """A whole function, its comment before it; its variables are declared at its beginning."""
        kind = "logical" if function.kind == "condition" else "real(dp)"
        numbers = [name for name, kind in function.variables.items() if kind == "number"]
        counts = [name for name, kind in function.variables.items() if kind == "count"]
        lines = [
            *(f"real(dp), value :: {name}" for name in function.parameters),
            f"{kind} :: {RESULT}",
            *([f"real(dp) :: {', '.join(numbers)}"] if numbers else []),
            *([f"integer :: {', '.join(counts)}"] if counts else []),
            *function.body,
        ]
        prefix = "recursive " if function.is_recursive else ""
        head = f"{prefix}function {function.name}({', '.join(function.parameters)}) result({RESULT})\n"
        body = "".join(f"{_INDENT}{line}\n" for line in lines)
        return f"{comment_lines(function.comment)}{head}{body}end function\n"

    def declare(self, name: str, kind: str, value: str | None, is_constant: bool) -> list[str]:  # noqa: ARG002
        """A variable gets its first value; it is declared already."""
        return [] if value is None else [f"{name} = {value}"]

    def assign(self, name: str, symbol: str, value: Fragment) -> list[str]:
        """A variable gets a new value."""
        operation = {"+": "add", "-": "sub", "*": "mul", "/": "div"}.get(symbol)
        new = value if operation is None else NOTATIONS[operation].of([Fragment(name), value])
        return [f"{name} = {new.text}"]

    def branch(self, cases: Sequence[tuple[str, list[str]]], otherwise: list[str]) -> list[str]:
        """The block of the first condition that holds."""
        lines: list[str] = []
        for k, (condition, block) in enumerate(cases):
            lines += [f"{'else ' if k else ''}if ({condition}) then", *_indented(block)]
        return [*lines, *(["else", *_indented(otherwise)] if otherwise else []), "end if"]

    def repeat(self, condition: str, block: list[str]) -> list[str]:
        """A block again and again."""
        return [f"do while ({condition})", *_indented(block), "end do"]

    def count(self, name: str, start: int, stop: int, step: int, block: list[str]) -> list[str]:
        """A block for every whole number."""
        bounds = f"{start}, {stop - step}" + (f", {step}" if step != 1 else "")
        return [f"do {name} = {bounds}", *_indented(block), "end do"]

    def result(self, value: str, is_last: bool) -> list[str]:
        """The function ends with a value."""
        return [f"{RESULT} = {value}", *([] if is_last else ["return"])]

    def table(self, name: str, numbers: Sequence[str]) -> str:
        """A sequence of numbers."""
        body = textwrap.wrap(", ".join(numbers), _WIDTH - 2, initial_indent=_INDENT, subsequent_indent=_INDENT)
        inside = " &\n".join(body)
        return f"real(dp), parameter :: {name}(0:{len(numbers) - 1}) = [ &\n{inside} &\n]\n"

    def number(self, name: str, number: str) -> str:
        """A number with a name."""
        return _PARAMETER.format(name=name, number=number)


class FortranLibrary(Library):
    """Functions contained in a program."""

    def operation(self, op: str, operands: Sequence[Fragment]) -> Fragment:
        """An operation on operands; whole exponents are written as such."""
        if op == "pow" and re.fullmatch(r"\d{1,2}\.0_dp", operands[1].text):
            operands = [operands[0], Fragment(operands[1].text.removesuffix(".0_dp"))]
        return super().operation(op, operands)


def split(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """What is declared before a program's statements, and the functions that it contains after them."""
    declared = [text for text in texts if text.startswith((_PARAMETER[:20], "interface"))]
    return declared, [text for text in texts if text not in declared]


def comment_lines(text: str) -> str:
    """A comment of whole lines."""
    return "".join(f"! {line}\n" for line in textwrap.wrap(text, _WIDTH))


def _indented(block: Sequence[str]) -> list[str]:
    return [f"{_INDENT}{line}" for line in block]


FORTRAN = Target(
    name="fortran",
    notations=NOTATIONS,
    numbers={"pi": "pi", "tau": "tau", "e": "euler_e", "inf": "inf()", "nan": "nan()"},
    literal=literal,
    as_number=Notation(("merge(1.0_dp, 0.0_dp, ", ")"), (0,), conditions=(0,)),
    as_condition=Notation(("", " /= 0"), (SUM,), ORDER, True),
    as_real=Notation(("real(", ", dp)"), (0,)),
    natives=NATIVES,
    has_choices=False,
    statements=_Statements(),
)

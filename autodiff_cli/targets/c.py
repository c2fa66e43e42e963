"""C, as of 1999, with the functions of its mathematical library."""

from __future__ import annotations

from autodiff_cli.graph.straight import SIGN, SUM, Notation, call
from autodiff_cli.targets import braces
from autodiff_cli.targets.braces import EQUALITY, Braces, Phrasing, comparison
from autodiff_cli.targets.definitions import whole_powers
from autodiff_cli.targets.target import Function, Target, shortest

# The library's functions that are called as the operations are.
_LIBRARY = (
    "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "floor", "ceil",
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
    "erf", "erfc", "lgamma",
)  # fmt: skip
NOTATIONS = {
    **braces.NOTATIONS,
    **{name: call(name, 1) for name in _LIBRARY},
    **{name: call(name, 2) for name in ("pow", "atan2", "hypot", "copysign", "fmod")},
    "abs": call("fabs", 1),
    "round": call("nearbyint", 1),
    "gamma": call("tgamma", 1),
    "eq": comparison("==", EQUALITY),
    "ne": comparison("!=", EQUALITY),
    **{name: Notation((f"{name}(", ")"), (0,), is_condition=True) for name in ("isnan", "isinf", "isfinite")},
    "within": Notation(("isnan(", ") ? NAN : ", ""), (0, braces.CHOICE), braces.CHOICE),
}


def literal(text: str) -> str:
    """A number as a double."""
    number = shortest(text)
    return number if any(mark in number for mark in ".e") else f"{number}.0"


STATEMENTS = Braces(
    Phrasing(
        function="static {kind} {name}({parameters})\n",
        indent="    ",
        parameter="double {name}",
        variable="{kind} {name}",
        constant="const {kind} {name}",
        counter="int {name}",
        table="static const double {name}[{count}] = {{|}};",
        number="static const double {name} = {number};",
        kinds={"number": "double", "condition": "int"},
    )
)
C = Target(
    name="c",
    notations=NOTATIONS,
    numbers={
        "pi": "PI", "tau": "TAU", "e": "E", "inf": "INFINITY", "nan": "NAN",
    },
    natives={
        "PI": "static const double PI = 3.141592653589793;\n",
        "TAU": "static const double TAU = 6.283185307179586;\n",
        "E": "static const double E = 2.718281828459045;\n",
    },
    literal=literal,
    definitions={"pow": whole_powers},
    as_number=braces.AS_NUMBER,
    as_condition=Notation(("", " != 0"), (SUM,), EQUALITY, True),
    as_real=Notation(("(double)", ""), (SIGN,), SIGN),
    statements=STATEMENTS,
)  # fmt: skip


def declaration(function: Function) -> str:
    """What is written for a function before it stands."""
    return f"{STATEMENTS.head(function).rstrip()};\n"

"""C (as of 1999, with its mathematical library), JavaScript (with its `Math`) and Fortran (as of 2008).

Fortran calls functions of C's library that its own lacks. `statements.toml` has the statements of each language.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from autodiff_cli.graph.codegen import PRODUCT, SIGN, SUM, Fragment, Notation
from autodiff_cli.numbers.floats import CONSTANTS
from autodiff_cli.numbers.translation import Library, Statements, Target
from autodiff_cli.system import read_tables
from autodiff_cli.targets.translation import SOURCE, expand_small_power, language_notations, shortest_literal

C_STATEMENTS, JAVASCRIPT_STATEMENTS, FORTRAN_STATEMENTS = (
    Statements(**read_tables(__file__, "statements.toml")[language]) for language in ("c", "javascript", "fortran")
)


def double_literal(text: str, kind: str = "") -> str:
    """Return the code of a number as a double, followed by its kind.

    >>> double_literal("2"), double_literal("2.50", "_dp")
    ('2.0', '2.5_dp')
    """
    number = shortest_literal(text)
    return f"{number}{'' if any(mark in number for mark in '.e') else '.0'}{kind}"


# --- C and JavaScript, which share operators

CHOICE, OR, EQUALITY = 1, 2, 4
_LEVELS = {"CHOICE": CHOICE, "OR": OR, "AND": 3, "EQUALITY": EQUALITY, "ORDER": 5}
_LEVELS |= {"SUM": SUM, "PRODUCT": PRODUCT, "SIGN": SIGN}
C = Target(
    name="c",
    notations=language_notations(_LEVELS, "braces", "c"),
    numbers={"pi": "PI", "tau": "TAU", "e": "E", "inf": "INFINITY", "nan": "NAN"},
    snippets={
        name.upper(): C_STATEMENTS.constant.format(name=name.upper(), number=CONSTANTS[name])
        for name in ("pi", "tau", "e")
    },
    literal=double_literal,
    definitions={"pow": expand_small_power},
    as_number=Notation(("", " ? 1.0 : 0.0"), (OR,), CHOICE, conditions=(0,)),
    as_condition=Notation(("", " != 0"), (SUM,), EQUALITY, True),
    statements=C_STATEMENTS,
    library_names=("gamma", "lgamma"),
)
JAVASCRIPT = Target(
    name="js",
    notations=language_notations(_LEVELS, "braces", "javascript", prefix="Math."),
    numbers={"pi": "Math.PI", "tau": "(2*Math.PI)", "e": "Math.E", "inf": "Infinity", "nan": "NaN"},
    literal=shortest_literal,
    definitions={"pow": expand_small_power},
    as_number=Notation(("", " ? 1 : 0"), (OR,), CHOICE, conditions=(0,)),
    as_condition=Notation(("", " !== 0"), (SUM,), EQUALITY, True),
    snippets=SOURCE["javascript"],
    statements=JAVASCRIPT_STATEMENTS,
)

# --- Fortran

_ORDER = 4
_FORTRAN_LEVELS = {"OR": 1, "AND": 2, "NOT": 3, "ORDER": _ORDER}
_FORTRAN_LEVELS |= {"SUM": SUM, "PRODUCT": PRODUCT, "SIGN": SIGN, "POWER": PRODUCT + 1}
# Functions of C's library that have the names of operations.
_C_FUNCTIONS = ("expm1", "log1p", "log2", "cbrt")
_INTERFACES = {
    name: SOURCE["fortran_templates"]["c_interface"].format(name=name, theirs=name.removeprefix("c_"))
    for name in (*_C_FUNCTIONS, "c_floor", "c_ceil")
}
FORTRAN = Target(
    name="fortran",
    notations=language_notations(_FORTRAN_LEVELS, "fortran"),
    numbers={"pi": "pi", "tau": "tau", "e": "euler_e", "inf": "inf()", "nan": "nan()"},
    literal=partial(double_literal, kind="_dp"),
    as_number=Notation(("merge(1.0_dp, 0.0_dp, ", ")"), (0,), conditions=(0,)),
    as_condition=Notation(("", " /= 0"), (SUM,), _ORDER, True),
    snippets={**SOURCE["fortran"], **_INTERFACES},
    has_conditional_expression=False,
    statements=FORTRAN_STATEMENTS,
    library_names=("gamma",),
)


class FortranLibrary(Library):
    """The library of Fortran programs: the functions that a program contains."""

    def operation(self, op: str, operands: Sequence[Fragment]) -> Fragment:
        """Return the code of an operation on operands; exponents that are integers are written as integers."""
        if op == "pow" and re.fullmatch(r"\d{1,2}\.0_dp", operands[1].text):
            operands = [operands[0], Fragment(operands[1].text.removesuffix(".0_dp"))]
        return super().operation(op, operands)

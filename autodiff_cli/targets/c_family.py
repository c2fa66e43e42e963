"""C (as of 1999, with its mathematical library) and JavaScript (with its `Math`), which share operators and
statements."""

from __future__ import annotations

from autodiff_cli.graph.codegen import PRODUCT, SIGN, SUM, Notation
from autodiff_cli.numbers.floats import CONSTANTS
from autodiff_cli.numbers.translation import Statements, Target, TargetFunction
from autodiff_cli.targets.translation import SOURCE, expand_small_power, language_notations, shortest_literal

CHOICE, OR, EQUALITY = 1, 2, 4
_LEVELS = {"CHOICE": CHOICE, "OR": OR, "AND": 3, "EQUALITY": EQUALITY, "ORDER": 5}
_LEVELS |= {"SUM": SUM, "PRODUCT": PRODUCT, "SIGN": SIGN}
AS_NUMBER = Notation(("", " ? 1.0 : 0.0"), (OR,), CHOICE, conditions=(0,))


def c_literal(text: str) -> str:
    """Return the code of a number as a double."""
    number = shortest_literal(text)
    return number if any(mark in number for mark in ".e") else f"{number}.0"


class _CStatements(Statements):
    comment = "// "
    kinds = ("double", "int")
    head = "static {kind} {name}({parameters})"
    parameter = "double {name}"
    opening = "\n{{\n"
    variables = "double {names};"
    table = "static const double {name}[{count}] = {{\n{body}\n}};\n"
    constant = "static const double {name} = {number};\n"


C_STATEMENTS = _CStatements()
C = Target(
    name="c",
    notations=language_notations(_LEVELS, "braces", "c"),
    numbers={"pi": "PI", "tau": "TAU", "e": "E", "inf": "INFINITY", "nan": "NAN"},
    snippets={
        name.upper(): C_STATEMENTS.constant.format(name=name.upper(), number=CONSTANTS[name])
        for name in ("pi", "tau", "e")
    },
    literal=c_literal,
    definitions={"pow": expand_small_power},
    as_number=AS_NUMBER,
    as_condition=Notation(("", " != 0"), (SUM,), EQUALITY, True),
    statements=C_STATEMENTS,
    library_names=("gamma", "lgamma"),
)


def forward_declaration(function: TargetFunction) -> str:
    """Return the forward declaration of a function."""
    return f"{C_STATEMENTS.function_head(function)};\n"


class _JavascriptStatements(Statements):
    comment = "// "
    indent = "  "
    head = "function {name}({parameters})"
    opening = " {{\n"
    variables = "let {names};"
    table = "const {name} = [\n{body}\n];\n"
    constant = "const {name} = {number};\n"


JAVASCRIPT = Target(
    name="js",
    notations=language_notations(_LEVELS, "braces", "javascript", prefix="Math."),
    numbers={"pi": "Math.PI", "tau": "(2*Math.PI)", "e": "Math.E", "inf": "Infinity", "nan": "NaN"},
    literal=shortest_literal,
    definitions={"pow": expand_small_power},
    as_number=Notation(("", " ? 1 : 0"), (OR,), CHOICE, conditions=(0,)),
    as_condition=Notation(("", " !== 0"), (SUM,), EQUALITY, True),
    snippets=SOURCE["javascript"],
    statements=_JavascriptStatements(),
)

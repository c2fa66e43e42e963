"""C (as of 1999, with its mathematical library) and JavaScript (with its `Math`), which share operators and
statements."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from autodiff_cli.graph.codegen import PRODUCT, SIGN, SUM, Fragment, Notation, call_notation
from autodiff_cli.numbers.translation import Block, Target, TargetFunction
from autodiff_cli.targets.translation import CODE_WIDTH, comparison, expand_small_power, infix, shortest_literal

CHOICE, OR, AND, EQUALITY, ORDER = 1, 2, 3, 4, 5


BRACE_NOTATIONS = {
    "add": infix(" + ", SUM),
    "sub": infix(" - ", SUM),
    "mul": infix("*", PRODUCT),
    "div": infix("/", PRODUCT),
    "neg": Notation(("-", ""), (SIGN + 1,), SIGN),
    "lt": comparison("<", ORDER),
    "le": comparison("<=", ORDER),
    "gt": comparison(">", ORDER),
    "ge": comparison(">=", ORDER),
    # bracketed more than needed, because compilers warn about `a && b || c`
    "and": Notation(("", " && ", ""), (EQUALITY, EQUALITY), AND, True, (0, 1)),
    "or": Notation(("", " || ", ""), (EQUALITY, EQUALITY), OR, True, (0, 1)),
    "not": Notation(("!", ""), (SIGN + 1,), SIGN, True, (0,)),
    "where": Notation(("", " ? ", " : ", ""), (OR, CHOICE + 1, CHOICE), CHOICE, conditions=(0,)),
    "element": Notation(("", "[", "]"), (SIGN + 1, 0)),
}
AS_NUMBER = Notation(("", " ? 1.0 : 0.0"), (OR,), CHOICE, conditions=(0,))


class BraceSyntax(NamedTuple):
    """Templates of the code in which languages with braces differ, with fields such as `{name}`."""

    function: str
    indent: str
    parameter: str
    variable: str
    constant: str
    counter: str
    table: str
    number: str
    kinds: dict[str, str]


class BraceStatements:
    """Statements of languages with braces."""

    def __init__(self, words: BraceSyntax) -> None:
        self._syntax = words

    def function_definition(self, function: TargetFunction) -> str:
        """Return the code of a function, after its comment."""
        body = "".join(f"{line}\n" for line in self._indented(function.body))
        return f"{comment_lines(function.comment)}{self.head(function)}{{\n{body}}}\n"

    def head(self, function: TargetFunction) -> str:
        """Return the code before the braces of a function: its name and its parameters."""
        parameters = ", ".join(self._syntax.parameter.format(name=name) for name in function.parameters)
        kind = self._syntax.kinds[function.kind]
        return self._syntax.function.format(kind=kind, name=function.name, parameters=parameters)

    def declaration(self, name: str, kind: str, value: str | None, is_constant: bool) -> list[str]:
        """Return the declaration of a variable, with an initial value unless `value` is None."""
        form = self._syntax.constant if is_constant else self._syntax.variable
        text = form.format(kind=self._syntax.kinds[kind], name=name)
        return [f"{text};" if value is None else f"{text} = {value};"]

    def assignment(self, name: str, symbol: str, value: Fragment) -> list[str]:
        """Return an assignment, or an augmented assignment if `symbol` is not empty."""
        return [f"{name} {symbol}= {value.text};"]

    def if_statement(self, cases: Sequence[tuple[Callable[[], str], Block]], otherwise: Block) -> list[str]:
        """Return a branch to the block of the first condition that is true."""
        lines: list[str] = []
        for k, (condition, block) in enumerate(cases):
            lines += [f"{'} else ' if k else ''}if ({condition()}) {{", *self._indented(block())]
        rest = otherwise()
        return [*lines, *(["} else {", *self._indented(rest)] if rest else []), "}"]

    def while_loop(self, condition: Callable[[], str], block: Block) -> list[str]:
        """Return a loop that runs while a condition is true."""
        return [f"while ({condition()}) {{", *self._indented(block()), "}"]

    def for_loop(self, name: str, start: int, stop: int, step: int, block: Block) -> list[str]:
        """Return a loop over the integers from `start` to, but excluding, `stop`."""
        first = self._syntax.counter.format(name=name)
        forth = f"{name} < {stop}; {name}++" if step == 1 else f"{name} > {stop}; {name}--"
        return [f"for ({first} = {start}; {forth}) {{", *self._indented(block()), "}"]

    def return_statement(self, value: str, is_last: bool) -> list[str]:  # noqa: ARG002 - needed in Fortran
        """Return the statement that returns a value."""
        return [f"return {value};"]

    def table_definition(self, name: str, numbers: Sequence[str]) -> str:
        """Return the definition of a table of numbers, indexed from 0."""
        body = textwrap.fill(
            ", ".join(numbers), CODE_WIDTH, initial_indent=self._syntax.indent, subsequent_indent=self._syntax.indent
        )
        opening, closing = self._syntax.table.format(name=name, count=len(numbers)).split("|")
        return f"{opening}\n{body}\n{closing}\n"

    def constant_definition(self, name: str, number: str) -> str:
        """Return the definition of a named number."""
        return self._syntax.number.format(name=name, number=number) + "\n"

    def _indented(self, block: Iterable[str]) -> list[str]:
        return [f"{self._syntax.indent}{line}" for line in block]


def comment_lines(text: str) -> str:
    """Return a text as a comment of whole lines."""
    return "".join(f"// {line}\n" for line in textwrap.wrap(text, CODE_WIDTH))


# Functions of C's library that have the names of operations.
_C_LIBRARY = (
    "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "floor", "ceil",
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
    "erf", "erfc", "lgamma",
)  # fmt: skip
C_NOTATIONS = {
    **BRACE_NOTATIONS,
    **{name: call_notation(name, 1) for name in _C_LIBRARY},
    **{name: call_notation(name, 2) for name in ("pow", "power", "atan2", "hypot", "copysign", "fmod")},
    "abs": call_notation("fabs", 1),
    "round": call_notation("nearbyint", 1),
    "gamma": call_notation("tgamma", 1),
    "eq": comparison("==", EQUALITY),
    "ne": comparison("!=", EQUALITY),
    **{name: Notation((f"{name}(", ")"), (0,), is_condition=True) for name in ("isnan", "isinf", "isfinite")},
    "where_defined": Notation(("isnan(", ") ? NAN : ", ""), (0, CHOICE), CHOICE),
}


def c_literal(text: str) -> str:
    """Return the code of a number as a double."""
    number = shortest_literal(text)
    return number if any(mark in number for mark in ".e") else f"{number}.0"


C_STATEMENTS = BraceStatements(
    BraceSyntax(
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
    notations=C_NOTATIONS,
    numbers={
        "pi": "PI", "tau": "TAU", "e": "E", "inf": "INFINITY", "nan": "NAN",
    },
    snippets={
        "PI": "static const double PI = 3.141592653589793;\n",
        "TAU": "static const double TAU = 6.283185307179586;\n",
        "E": "static const double E = 2.718281828459045;\n",
        "power": """\
// pow(x, y) as a real number: undefined at -infinity unless y is an integer.
static double power(double x, double y)
{
    return x < 0 && isinf(x) && floor(y) != y ? NAN : pow(x, y);
}
""",
    },
    literal=c_literal,
    definitions={"pow": expand_small_power},
    as_number=AS_NUMBER,
    as_condition=Notation(("", " != 0"), (SUM,), EQUALITY, True),
    as_real=Notation(("(double)", ""), (SIGN,), SIGN),
    statements=C_STATEMENTS,
)  # fmt: skip


def forward_declaration(function: TargetFunction) -> str:
    """Return the forward declaration of a function."""
    return f"{C_STATEMENTS.head(function).rstrip()};\n"


_MATH_FUNCTIONS = (
    "sqrt", "cbrt", "exp", "expm1", "log", "log2", "log10", "log1p", "abs", "floor", "ceil",
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
)  # fmt: skip


def _predicate(name: str) -> Notation:
    """Return the notation of a predicate of one number."""
    return Notation((f"{name}(", ")"), (0,), is_condition=True)


JAVASCRIPT_NOTATIONS = {
    **BRACE_NOTATIONS,
    **{name: call_notation(f"Math.{name}", 1) for name in _MATH_FUNCTIONS},
    **{name: call_notation(f"Math.{name}", 2) for name in ("atan2", "hypot", "max", "min")},
    **{name: call_notation(name, 2) for name in ("copysign", "pow")},
    "round": call_notation("round", 1),
    "exp2": Notation(("2**", ""), (SIGN + 1,), SIGN),
    "eq": comparison("===", EQUALITY),
    "ne": comparison("!==", EQUALITY),
    "fmod": infix(" % ", PRODUCT),
    "isnan": _predicate("Number.isNaN"),
    "isfinite": _predicate("Number.isFinite"),
    "isinf": Notation(("Math.abs(", ") === Infinity"), (0,), EQUALITY, True),
    "where_defined": Notation(("Number.isNaN(", ") ? NaN : ", ""), (0, CHOICE), CHOICE),
}
JAVASCRIPT_SNIPPETS = {
    "copysign": """\
// The size of one number with the sign of another.
function copysign(size, sign) {
  return sign < 0 || Object.is(sign, -0) ? -Math.abs(size) : Math.abs(size);
}
""",
    "round": """\
// Math.round takes halves up; here they go to the even whole number.
function round(x) {
  const whole = Math.round(x);
  return whole - x === 0.5 && Math.abs(whole % 2) === 1 ? whole - 1 : whole;
}
""",
    "pow": """\
// As elsewhere, 1 to any power is 1, also to nan, and so is -1 to an infinite one; -Infinity has integer powers only.
function pow(x, y) {
  if (x === -Infinity && Math.floor(y) !== y) {
    return NaN;
  }
  return x === 1 || (x === -1 && Math.abs(y) === Infinity) ? 1 : x**y;
}
""",
}
JAVASCRIPT = Target(
    name="js",
    notations=JAVASCRIPT_NOTATIONS,
    numbers={"pi": "Math.PI", "tau": "(2*Math.PI)", "e": "Math.E", "inf": "Infinity", "nan": "NaN"},
    literal=shortest_literal,
    definitions={"pow": expand_small_power},
    as_number=Notation(("", " ? 1 : 0"), (OR,), CHOICE, conditions=(0,)),
    as_condition=Notation(("", " !== 0"), (SUM,), EQUALITY, True),
    snippets=JAVASCRIPT_SNIPPETS,
    statements=BraceStatements(
        BraceSyntax(
            function="function {name}({parameters}) ",
            indent="  ",
            parameter="{name}",
            variable="let {name}",
            constant="const {name}",
            counter="let {name}",
            table="const {name} = [|];",
            number="const {name} = {number};",
            kinds={"number": "number", "condition": "boolean"},
        )
    ),
)

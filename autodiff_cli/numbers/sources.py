"""Source code of the functions of floats, for their translation into other languages and into machine code.

The modules `float_functions`, `special_functions`, `gamma_functions` and `floats` have distinct names for their
functions. `portable_functions` redefines, in plain arithmetic, some functions that other modules take from Python's
library. A module is parsed when something in it is needed.
"""

from __future__ import annotations

import ast
import copy
import importlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, cast

_MODULES = ("float_functions", "special_functions", "gamma_functions", "floats")

# The operation of each operator of Python.
OPERATIONS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Mod: "mod",
    ast.USub: "neg", ast.Not: "not", ast.And: "and", ast.Or: "or",
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip


@dataclass(frozen=True)
class Definition:
    """The definition of a name at the top level of a module.

    Attributes:
        node: the syntax tree of the definition.
        value: a number, a sequence of numbers, or a function.
        text: the source code of the definition.
        op: the operation that a function computes; None if there is none.
    """

    node: ast.FunctionDef | ast.Assign
    value: Any
    text: str
    op: str | None = None

    @property
    def is_function(self) -> bool:
        """Whether this is a function that can be translated: it catches no exceptions and is not cached."""
        if not isinstance(self.node, ast.FunctionDef) or self.is_cached:
            return False
        return not any(isinstance(part, ast.Try) for part in ast.walk(self.node))

    @property
    def table(self) -> list[float] | None:
        """The numbers of a sequence, or of a cached function that returns one; None for anything else."""
        value = self.value() if self.is_cached else self.value
        return [float(number) for number in value] if isinstance(value, list | tuple) else None

    @property
    def number(self) -> float | None:
        """The value of a numeric constant; None for anything else."""
        return float(self.value) if isinstance(self.value, int | float) else None

    @property
    def is_cached(self) -> bool:
        """Whether this is a function with a cached result."""
        decorators = self.node.decorator_list if isinstance(self.node, ast.FunctionDef) else []
        return any(isinstance(decorator, ast.Name) and decorator.id == "cache" for decorator in decorators)


@cache
def find_definition(name: str, prefer_portable: bool = True) -> Definition | None:
    """Return the definition of a name; None if no module defines it.

    Args:
        name: the name of a function, a constant or a table.
        prefer_portable: whether to prefer a definition in plain arithmetic, which needs no library.

    >>> find_definition("EULER").number
    0.5772156649015329
    """
    for module in _modules(prefer_portable):
        value = vars(module).get(name)
        is_imported = getattr(value, "__name__", "") == name and getattr(value, "__module__", "") != module.__name__
        if value is not None and not is_imported:
            source = _parse_module(module).get(name)
            if source is not None:
                op = next((op for op, function in module.OPERATIONS.items() if function is value), None)
                return Definition(source[0], value, source[1], op)
    return None


@cache
def function_name(op: str, prefer_portable: bool = True) -> str | None:
    """Return the name, in its module, of the function that computes an operation; None if there is none.

    >>> function_name("Ei"), function_name("round"), function_name("sec")
    ('exponential_integral', 'nearest', None)
    """
    modules = [*_modules(prefer_portable)]
    function = next((module.OPERATIONS[op] for module in modules if op in module.OPERATIONS), None)
    for module in modules:
        name = next((name for name, value in vars(module).items() if value is function is not None), None)
        if name is not None and name in _parse_module(module):
            return name
    return None


@cache
def parse_function(function: FunctionType) -> ast.FunctionDef:
    """Return the syntax tree of a function, without parsing the rest of its module."""
    lines = _source_lines(sys.modules[function.__module__])
    start = function.__code__.co_firstlineno - 1
    stop = next(k for k in range(start + 1, len(lines)) if lines[k][0] not in " )\n")  # tables end each module
    return cast(ast.FunctionDef, ast.parse("".join(lines[start:stop])).body[0])


def returns_condition(node: ast.AST) -> bool:
    """Return whether this is a definition of a function that returns a truth value."""
    return isinstance(node, ast.FunctionDef) and isinstance(node.returns, ast.Name) and node.returns.id == "bool"


@cache
def names_in(node: ast.AST) -> list[str]:
    """Return the names in a syntax tree, with repetitions."""
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]


def range_bounds(bounds: Sequence[ast.expr]) -> tuple[int, int, int]:
    """Return start, stop and step of a `range` with constant arguments."""
    numbers = [_evaluate_bound(bound) for bound in bounds]
    return (0, numbers[0], 1) if len(numbers) == 1 else (numbers[0], numbers[1], (*numbers, 1)[2])


def _evaluate_bound(bound: ast.expr) -> int:
    definitions = {name: find_definition(name, prefer_portable=True) for name in names_in(bound)}
    values = {name: definition.value for name, definition in definitions.items() if definition is not None}
    return int(eval(compile(ast.Expression(bound), "bound", "eval"), {}, values))


def table_name(table: ast.expr) -> str:
    """Return the name of a table, or of the cached function that returns it."""
    return cast(ast.Name, table.func if isinstance(table, ast.Call) else table).id


def specialize(name: str, formula: ast.Lambda, new_name: str, free_names: Sequence[str]) -> ast.FunctionDef:
    """Return a copy of a function that takes a function as its argument, with a formula substituted for that argument.

    Args:
        name: the name of the function.
        formula: the argument, a function of one number.
        new_name: the name of the copy.
        free_names: the other names in the formula, which become the arguments of the copy.
    """
    definition = find_definition(name, prefer_portable=True)
    assert definition is not None
    node = copy.deepcopy(cast(ast.FunctionDef, definition.node))
    parameter, argument = node.args.args[0].arg, formula.args.args[0].arg
    node.name = new_name
    node.args = ast.arguments([], [*map(ast.arg, free_names)], None, [], [], None, [])
    return cast(ast.FunctionDef, _InlineFormula(parameter, argument, formula.body).visit(node))


class _InlineFormula(ast.NodeTransformer):
    """Replaces calls of a parameter by a formula of one number."""

    def __init__(self, parameter: str, argument: str, body: ast.expr) -> None:
        self._parameter, self._own, self._body = parameter, argument, body

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if not isinstance(node.func, ast.Name) or node.func.id != self._parameter:
            return cast(ast.expr, self.generic_visit(node))
        argument = node.args[0]
        assert isinstance(argument, ast.Name)
        assert argument.id == self._own, "the formula names its number as the loop does"
        return self._body


def _modules(prefer_portable: bool) -> Iterator[ModuleType]:
    for name in (("portable_functions",) if prefer_portable else ()) + _MODULES:
        yield importlib.import_module(f"autodiff_cli.numbers.{name}")


@cache
def _source_lines(module: ModuleType) -> list[str]:
    assert module.__file__ is not None
    return Path(module.__file__).read_text(encoding="utf-8").splitlines(keepends=True)


@cache
def _parse_module(module: ModuleType) -> dict[str, tuple[ast.FunctionDef | ast.Assign, str]]:
    """Return the top-level definitions of a module by name: syntax tree and source code."""
    lines = _source_lines(module)
    definitions: dict[str, tuple[ast.FunctionDef | ast.Assign, str]] = {}
    for node in ast.parse("".join(lines)).body:
        if isinstance(node, ast.FunctionDef | ast.Assign):
            first = min([node.lineno, *(part.lineno for part in getattr(node, "decorator_list", []))])
            text = "".join(lines[first - 1 : node.end_lineno])
            names = [node.name] if isinstance(node, ast.FunctionDef) else _assigned_names(node)
            definitions |= dict.fromkeys(names, (node, text))
    return definitions


def _assigned_names(node: ast.Assign) -> list[str]:
    return [part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)]

"""The functions of `autodiff_cli.numbers.floats` as text, so that other languages compute what floats here do.

Every function has one name in all modules of that folder, except where `platform` has in arithmetic what the others
take from Python's own library. A module is read when something in it is needed.
"""

from __future__ import annotations

import ast
import copy
import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, cast

_FOLDER = "autodiff_cli.numbers.floats"
_MODULES = ("elementary", "activations", "special", "integrals", "gamma", "incomplete_gamma", "distributions", "table")
PLATFORM = "platform"


@dataclass(frozen=True)
class Definition:
    """What a name means in a module of floats.

    Attributes:
        node: where it is defined.
        value: a number, a sequence of numbers, or a function.
        text: as it stands there.
        op: the operation that a function stands for, if it does.
    """

    node: ast.FunctionDef | ast.Assign
    value: Any
    text: str
    op: str | None = None

    @property
    def is_function(self) -> bool:
        """Whether it is a function that other languages can have: one that catches no exceptions."""
        if not isinstance(self.node, ast.FunctionDef) or self.is_cached:
            return False
        return not any(isinstance(part, ast.Try) for part in ast.walk(self.node))

    @property
    def table(self) -> list[float] | None:
        """The numbers of a sequence, or of a function that makes one when it is first called."""
        value = self.value() if self.is_cached else self.value
        return [float(number) for number in value] if isinstance(value, list | tuple) else None

    @property
    def number(self) -> float | None:
        """The number that a constant is."""
        return float(self.value) if isinstance(self.value, int | float) else None

    @property
    def is_cached(self) -> bool:
        """Whether it is a function that is computed once, when it is first called."""
        decorators = self.node.decorator_list if isinstance(self.node, ast.FunctionDef) else []
        return any(isinstance(decorator, ast.Name) and decorator.id == "cache" for decorator in decorators)


@cache
def definition(name: str, in_arithmetic: bool) -> Definition | None:
    """What a name means; `in_arithmetic`, in a form that needs no library, where there is one.

    >>> definition("EULER", True).number
    0.5772156649015329
    """
    for module in _modules(in_arithmetic):
        value = vars(module).get(name)
        is_imported = getattr(value, "__name__", "") == name and getattr(value, "__module__", "") != module.__name__
        if value is not None and not is_imported:
            found = _read(module).get(name)
            if found is not None:
                op = next((op for op, function in _table(module).items() if function is value), None)
                return Definition(found[0], value, found[1], op)
    return None


@cache
def function_name(op: str, in_arithmetic: bool) -> str | None:
    """The name of the function that an operation has; None where it has none, or one without a name.

    >>> function_name("Ei", True)
    'exponential_integral'
    """
    for module in _modules(in_arithmetic):
        function = _table(module).get(op)
        name: str = getattr(function, "__name__", "")
        if isinstance(function, FunctionType) and vars(module).get(name) is function:
            return name
    return None


@cache
def variable_name(op: str) -> str | None:
    """The name that an operation's function has in its module, however it was made; None where it has none.

    >>> variable_name("exp"), variable_name("round"), variable_name("sec")
    ('exp', 'nearest', None)
    """
    function = next((_table(module)[op] for module in _modules(in_arithmetic=False) if op in _table(module)), None)
    for module in _modules(in_arithmetic=False):
        name = next((name for name, value in vars(module).items() if value is function is not None), None)
        if name is not None and name in _read(module):
            return name
    return None


def returns_condition(node: ast.AST) -> bool:
    """Whether this is a function that answers a question."""
    return isinstance(node, ast.FunctionDef) and isinstance(node.returns, ast.Name) and node.returns.id == "bool"


def mentioned(node: ast.AST) -> list[str]:
    """The names in a piece of a program, as often as they stand there."""
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]


def counted(bounds: Sequence[ast.expr]) -> tuple[int, int, int]:
    """Start, stop and step of a `range`, which are known beforehand."""
    numbers = [_whole(bound) for bound in bounds]
    return (0, numbers[0], 1) if len(numbers) == 1 else (numbers[0], numbers[1], (*numbers, 1)[2])


def _whole(bound: ast.expr) -> int:
    found = {name: definition(name, in_arithmetic=True) for name in mentioned(bound)}
    values = {name: meant.value for name, meant in found.items() if meant is not None}
    return int(eval(compile(ast.Expression(bound), "bound", "eval"), {}, values))


def table_name(table: ast.expr) -> str:
    """The name of a table, or of the function that makes it when it is first called."""
    return cast(ast.Name, table.func if isinstance(table, ast.Call) else table).id


def specialised(name: str, formula: ast.Lambda, copied: str, free: Sequence[str]) -> ast.FunctionDef:
    """A copy of a function whose argument is a function of one number, with that one's formula put in.

    Args:
        name: of the function.
        copied: the copy's own name.
        free: the other names in the formula, which become the copy's arguments.
    """
    found = definition(name, in_arithmetic=True)
    assert found is not None
    node = copy.deepcopy(cast(ast.FunctionDef, found.node))
    parameter, own = node.args.args[0].arg, formula.args.args[0].arg
    node.name = copied
    node.args = ast.arguments([], [*map(ast.arg, free)], None, [], [], None, [])
    return cast(ast.FunctionDef, _Put(parameter, own, formula.body).visit(node))


class _Put(ast.NodeTransformer):
    """Puts a formula of one number in the place of calls of a parameter."""

    def __init__(self, parameter: str, own: str, body: ast.expr) -> None:
        self._parameter, self._own, self._body = parameter, own, body

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if not isinstance(node.func, ast.Name) or node.func.id != self._parameter:
            return cast(ast.expr, self.generic_visit(node))
        argument = node.args[0]
        assert isinstance(argument, ast.Name)
        assert argument.id == self._own, "the formula names its number as the loop does"
        return self._body


def _modules(in_arithmetic: bool) -> Iterator[ModuleType]:
    for name in ((PLATFORM,) if in_arithmetic else ()) + _MODULES:
        yield importlib.import_module(f"{_FOLDER}.{name}")


def _table(module: ModuleType) -> Mapping[str, Any]:
    """A module's functions by operation."""
    found: Mapping[str, Any] = getattr(module, module.__name__.rpartition(".")[2].upper())
    return found


@cache
def _read(module: ModuleType) -> dict[str, tuple[ast.FunctionDef | ast.Assign, str]]:
    """The definitions at the top of a module, and their texts."""
    assert module.__file__ is not None
    source = Path(module.__file__).read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    found: dict[str, tuple[ast.FunctionDef | ast.Assign, str]] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.Assign):
            first = min([node.lineno, *(part.lineno for part in getattr(node, "decorator_list", []))])
            text = "".join(lines[first - 1 : node.end_lineno])
            names = [node.name] if isinstance(node, ast.FunctionDef) else _assigned(node)
            found |= dict.fromkeys(names, (node, text))
    return found


def _assigned(node: ast.Assign) -> list[str]:
    return [part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)]

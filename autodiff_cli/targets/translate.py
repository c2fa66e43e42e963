"""Functions of floats in other languages: what `autodiff_cli.numbers.floats` says in Python, statement by statement.

They are written there with what all languages have: numbers, conditions, loops over ranges and tables, and calls of one
another (see `numbers/floats/elementary.py`).
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

from autodiff_cli.graph.straight import Fragment, call
from autodiff_cli.numbers.sources import counted, definition, mentioned, returns_condition, specialised, table_name
from autodiff_cli.targets.target import Function

if TYPE_CHECKING:
    from autodiff_cli.targets.library import Library

_OPERATIONS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Mod: "fmod",
    ast.USub: "neg", ast.Not: "not", ast.And: "and", ast.Or: "or",
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip
_SYMBOLS: dict[type[ast.AST], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_CALLED = {"power": "pow", "divide": "div"}  # functions for what is written as an operation
_WIDTH = 90  # of a line with a choice in it; a longer one becomes a branch


class Translation:
    """One function on its way into another language."""

    def __init__(self, library: Library, node: ast.FunctionDef) -> None:
        self._library = library
        self._target = library.target
        assert library.target.statements is not None
        self._statements = library.target.statements
        self._node = node
        self._parameters = [argument.arg for argument in node.args.args]
        self._assigned = Counter(_assigned(node.body))
        loops = [loop.target.id for loop in ast.walk(node) if _is_range(loop)]  # type: ignore[attr-defined]
        self._counts = {_counter(name) for name in loops}
        self._elements: dict[str, str] = {}  # the names of loops over tables
        self._copies: dict[ast.Lambda, str] = {}

    def function(self, name: str) -> Function:
        """The function in the other language."""
        body = self._block(self._node.body, {*self._parameters}, is_last=True)
        kinds = {variable: "number" for variable in self._assigned if variable not in self._parameters}
        return Function(
            name=name,
            parameters=self._parameters,
            kind="condition" if returns_condition(self._node) else "number",
            variables=kinds | dict.fromkeys(self._counts, "count"),
            body=body,
            comment=_described(self._node),
            is_recursive=False,
        )

    # --- statements

    def _block(self, body: Sequence[ast.stmt], known: set[str], is_last: bool) -> list[str]:
        """Statements in a block in which some variables are known already."""
        known = set(known)
        lines: list[str] = []
        for name in self._born_inside(body, known):
            lines += self._statements.declare(name, "number", None, is_constant=False)
            known.add(name)
        for statement in body:
            lines += self._statement(statement, known, is_last and statement is body[-1])
        return lines

    def _born_inside(self, body: Sequence[ast.stmt], known: set[str]) -> list[str]:
        """The variables that get their first value in a block within this one, but are used outside of that."""
        found = []
        for name in self._assigned:
            if name in known or name in self._counts:
                continue
            places = [statement for statement in body if name in {*mentioned(statement)}]
            if len(places) > 1 and not (isinstance(places[0], ast.Assign) and name in _assigned([places[0]])):
                found.append(name)
        return found

    def _statement(self, statement: ast.stmt, known: set[str], is_last: bool) -> list[str]:
        match statement:
            case ast.Expr(value=ast.Constant()):
                return []  # its documentation
            case ast.Return(value=ast.IfExp() as choice) if self._is_wide(choice):
                return self._branch(choice, ast.Return, known, is_last)
            case ast.Return(value=ast.expr() as value):
                return self._statements.result(self._number_or_condition(value), is_last)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.IfExp() as choice) if self._is_wide(choice):
                lines = [] if name in known else self._statements.declare(name, "number", None, is_constant=False)
                known.add(name)
                return lines + self._branch(choice, lambda value: ast.Assign([ast.Name(name)], value), known, False)
            case ast.Assign(targets=targets, value=value):
                return [line for target in targets for line in self._assign(target, value, known)]
            case ast.AugAssign(target=ast.Name(id=name), op=operator, value=value):
                return self._statements.assign(name, _SYMBOLS[type(operator)], self._number(value))
            case ast.If():
                return self._choose(statement, known, is_last)
            case ast.While(test=test, body=body):
                return self._statements.repeat(self._condition(test).text, self._block(body, known, False))
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=bounds), body=body):
                return self._statements.count(_counter(name), *counted(bounds), self._block(body, known, False))
            case ast.For(target=ast.Name(id=name), iter=table, body=body):
                return self._each(name, table, body, known)
        raise NotImplementedError(f"{self._node.name}: {ast.unparse(statement)}")

    def _assign(self, target: ast.expr, value: ast.expr, known: set[str]) -> list[str]:
        assert isinstance(target, ast.Name)
        written = self._number(value)
        if target.id in known:
            return self._statements.assign(target.id, "", written)
        known.add(target.id)
        return self._statements.declare(target.id, "number", written.text, self._assigned[target.id] == 1)

    def _choose(self, statement: ast.If, known: set[str], is_last: bool) -> list[str]:
        cases: list[tuple[str, list[str]]] = []
        rest: list[ast.stmt] = [statement]
        while len(rest) == 1 and isinstance(rest[0], ast.If):
            branch = rest[0]
            cases.append((self._condition(branch.test).text, self._block(branch.body, known, is_last)))
            rest = branch.orelse
        return self._statements.branch(cases, self._block(rest, known, is_last))

    def _branch(self, choice: ast.IfExp, make: object, known: set[str], is_last: bool) -> list[str]:
        """A choice between values as a choice between statements."""
        assert callable(make)
        return self._choose(ast.If(choice.test, [make(choice.body)], [make(choice.orelse)]), known, is_last)

    def _is_wide(self, choice: ast.IfExp) -> bool:
        return not self._target.has_choices or len(self._number(choice).text) > _WIDTH

    def _each(self, name: str, table: ast.expr, body: Sequence[ast.stmt], known: set[str]) -> list[str]:
        """A loop over the elements of a table."""
        counter = "k"
        assert counter not in known
        self._counts.add(counter)
        source = table_name(table)
        found = definition(source, in_arithmetic=True)
        assert found is not None
        assert found.table is not None
        element = self._target.written(
            self._target.notations["element"], [Fragment(self._library.need(source)), Fragment(counter)]
        )
        self._elements[name] = element.text
        return self._statements.count(counter, 0, len(found.table), 1, self._block(body, known, False))

    # --- expressions

    def _number(self, node: ast.expr) -> Fragment:
        """An expression as a number; a count as one too."""
        if isinstance(node, ast.Constant) and not isinstance(node.value, bool):
            return Fragment(self._library.number(float(cast(float, node.value))))
        written = self._target.given(self._written(node))
        return self._target.as_real.of([written]) if self._is_count(node) else written

    def _condition(self, node: ast.expr) -> Fragment:
        return self._target.given(self._written(node), is_condition=True)

    def _number_or_condition(self, node: ast.expr) -> str:
        return (self._condition(node) if returns_condition(self._node) else self._number(node)).text

    def _is_count(self, node: ast.expr) -> bool:
        """Whether an expression is a whole number by its kind."""
        match node:
            case ast.Constant(value=value):
                return isinstance(value, int)
            case ast.Name(id=name):
                return name in self._counts or _whole_constant(name) is not None
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult(), right=right):
                return self._is_count(left) and self._is_count(right)
        return False

    def _operation(self, name: str, *operands: Fragment) -> Fragment:
        return self._library.operation(name, operands)

    def _written(self, node: ast.expr) -> Fragment:
        match node:
            case ast.Constant(value=int(value)):
                return Fragment(str(value))
            case ast.Constant(value=float(value)):
                return Fragment(self._library.number(value))
            case ast.Name(id=name):
                return self._name(name)
            case ast.Attribute(attr=name):
                return self._library.constant(name)
            case ast.BinOp(op=ast.Pow()):
                return Fragment(
                    self._library.number(float(ast.literal_eval(node.left) ** ast.literal_eval(node.right)))
                )
            case ast.BinOp(left=left, op=operator, right=right):
                are_counts = self._is_count(left) and self._is_count(right)
                is_quotient = isinstance(operator, ast.Div) and are_counts
                first = self._number(left) if is_quotient or isinstance(operator, ast.Mod) else self._written(left)
                second = self._number(right) if isinstance(operator, ast.Mod) else self._written(right)
                return self._operation(_OPERATIONS[type(operator)], first, second)
            case ast.UnaryOp(op=operator, operand=operand):
                return self._operation(_OPERATIONS[type(operator)], self._written(operand))
            case ast.BoolOp(op=operator, values=parts):
                return self._operation(_OPERATIONS[type(operator)], *map(self._written, parts))
            case ast.Compare(left=left, ops=operators, comparators=[*rights]):
                return self._compared([left, *rights], operators)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._operation("where", self._condition(test), self._number(body), self._number(orelse))
            case ast.Subscript(value=table, slice=index):
                return self._operation("element", Fragment(self._library.need(table_name(table))), self._written(index))
            case ast.Call(func=function, args=arguments):
                name = function.attr if isinstance(function, ast.Attribute) else cast(ast.Name, function).id
                if arguments and isinstance(arguments[0], ast.Lambda):
                    return self._specialised(name, arguments[0])
                return self._called(name, [*map(self._number, arguments)])
        raise NotImplementedError(f"{self._node.name}: {ast.unparse(node)}")

    def _name(self, name: str) -> Fragment:
        if name in self._elements:
            return Fragment(self._elements[name])
        if name in self._assigned or name in self._parameters or name in self._counts:
            return Fragment(name)
        if name in self._target.numbers:
            return self._library.constant(name)
        whole = _whole_constant(name)
        return Fragment(self._library.need(name) if whole is None else str(whole))

    def _compared(self, sides: Sequence[ast.expr], operators: Sequence[ast.cmpop]) -> Fragment:
        written: Fragment | None = None
        for left, operator, right in zip(sides, operators, sides[1:], strict=False):
            if ast.dump(left) == ast.dump(right):  # x != x is how nan is found out
                link = self._operation("isnan", self._number(left))
                if isinstance(operator, ast.Eq):
                    link = self._operation("not", link)
            else:
                link = self._operation(_OPERATIONS[type(operator)], self._written(left), self._written(right))
            written = link if written is None else self._operation("and", written, link)
        assert written is not None
        return written

    def _called(self, name: str, arguments: list[Fragment]) -> Fragment:
        found = definition(name, in_arithmetic=True)
        op = found.op if found is not None and found.op is not None else _CALLED.get(name, name)
        return self._library.operation(op, arguments)

    def _specialised(self, name: str, function: ast.Lambda) -> Fragment:
        """A call with a function of one number: of a copy that has the function's formula in it."""
        own = function.args.args[0].arg
        names = [name for name in dict.fromkeys(mentioned(function.body)) if name != own]
        free = [name for name in names if name in self._parameters or name in self._assigned]
        if function not in self._copies:
            count = "" if not self._copies else str(len(self._copies) + 1)
            self._copies[function] = f"{self._node.name.lstrip('_')}_terms{count}"
            self._library.add(specialised(name, function, self._copies[function], free))
        return call(self._copies[function], len(free)).of([*map(Fragment, free)])


def _described(node: ast.FunctionDef) -> str:
    """What a function's documentation says, without its examples."""
    text = (ast.get_docstring(node) or "").partition(">>>")[0]
    return " ".join(text.split()).replace("`_", "`")


def _whole_constant(name: str) -> int | None:
    """The whole number that a constant is, which counts and indexes."""
    found = definition(name, in_arithmetic=True)
    return found.value if found is not None and isinstance(found.value, int) else None


def _counter(name: str) -> str:
    """What a loop counts with; a name is needed also where Python needs none."""
    return "i" if name == "_" else name


def _is_range(node: ast.AST) -> bool:
    return isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and ast.unparse(node.iter.func) == "range"


def _assigned(body: Sequence[ast.stmt]) -> Iterator[str]:
    """The variables that statements give a value to, as often as they do."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign):
                yield from (target.id for target in node.targets if isinstance(target, ast.Name))
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                yield node.target.id

"""Translation of functions of floats into a target language, statement by statement.

`Target` describes a language as tables. `Library` collects the functions, tables and constants that a program needs
besides its own lines, and `FunctionTranslator` translates one function.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple, Protocol, TypeAlias, cast

from autodiff_cli.graph.codegen import Fragment, Notation, call_notation
from autodiff_cli.graph.node import Node
from autodiff_cli.numbers import sources

Block: TypeAlias = Callable[[], list[str]]  # returns the lines of a block, which are written when it is called


class Statements(Protocol):
    """Statements of a language. Lines are returned without indentation.

    Conditions and blocks are functions, because some languages write instructions while an expression is translated:
    these must stand where the expression is evaluated.
    """

    def function_definition(self, function: TargetFunction) -> str:
        """Return the code of a function."""

    def declaration(self, name: str, kind: str, value: str | None, is_constant: bool) -> list[str]:
        """Return the declaration of a variable, with an initial value unless `value` is None."""

    def assignment(self, name: str, symbol: str, value: Fragment) -> list[str]:
        """Return an assignment, or an augmented assignment if `symbol` is an operator and not empty."""

    def if_statement(self, cases: Sequence[tuple[Callable[[], str], Block]], otherwise: Block) -> list[str]:
        """Return a branch to the block of the first condition that is true."""

    def while_loop(self, condition: Callable[[], str], block: Block) -> list[str]:
        """Return a loop that runs while a condition is true."""

    def for_loop(self, name: str, start: int, stop: int, step: int, block: Block) -> list[str]:
        """Return a loop over the integers from `start` up or down to, but excluding, `stop`."""

    def return_statement(self, value: str, is_last: bool) -> list[str]:
        """Return the statement that returns a value; `is_last` if it is the last statement of the function."""

    def table_definition(self, name: str, numbers: Sequence[str]) -> str:
        """Return the definition of a table of numbers, indexed from 0."""

    def constant_definition(self, name: str, number: str) -> str:
        """Return the definition of a named number."""


class TargetFunction(NamedTuple):
    """A translated function.

    Attributes:
        name: its name.
        parameters: the names of its parameters, which are numbers.
        kind: the kind of its result: `number` or `condition`.
        variables: the kind of each variable by name: `number` or `count`.
        body: its lines.
        comment: a description of what it computes.
        is_recursive: whether it calls itself.
    """

    name: str
    parameters: Sequence[str]
    kind: str
    variables: Mapping[str, str]
    body: Sequence[str]
    comment: str
    is_recursive: bool


@dataclass(frozen=True, kw_only=True)
class Target:
    """A target language, as tables.

    Attributes:
        name: its name on the command line.
        notations: the notations of operations, by name, or by name and number of operands (`index/3`) if the separator
            of the first two operands is not repeated. Besides the table of operations, these are `isnan`, `isinf`,
            `isfinite`, `copysign`, `fmod`, `element`, and the names of `snippets`.
        definitions: operations that the language expresses by others, as graphs. A definition may return None, and is
            then not used.
        numbers: the code of `pi`, `tau`, `e`, `inf` and `nan`.
        literal: returns the code of a number, given its text.
        as_number: the conversion of a condition to 1 or 0.
        as_condition: the conversion of a number to a condition: whether it is not 0.
        as_real: the conversion of a count to a number.
        has_counts: whether loops count with integers, and not with numbers.
        has_conditional_expression: whether a choice between two values is an expression that computes only one of them.
        snippets: handwritten code by name. It is included if a notation or a number mentions the name.
        statements: the statements of translated functions; None if the language has none.
        keywords: reserved words.
    """

    name: str
    notations: Mapping[str, Notation]
    numbers: Mapping[str, str]
    literal: Callable[[str], str]
    as_number: Notation
    as_condition: Notation
    as_real: Notation = field(default_factory=lambda: Notation(("", ""), (0,)))
    definitions: Mapping[str, Callable[..., Node | None]] = field(default_factory=dict)
    snippets: Mapping[str, str] = field(default_factory=dict)
    statements: Statements | None = None
    has_counts: bool = True
    has_conditional_expression: bool = True
    keywords: frozenset[str] = frozenset()

    def notation(self, op: str, arity: int) -> Notation | None:
        """Return the notation of an operation; None if it needs a function or a definition."""
        notation = self.notations.get(f"{op}/{arity}") or self.notations.get(op)
        return notation if notation is None or len(notation.operand_precedences) == arity else notation.for_arity(arity)

    def apply_notation(self, notation: Notation, operands: Iterable[Fragment]) -> Fragment:
        """Return the code of an operation on operands, which are converted to numbers or conditions as needed."""
        are_conditions = (k in notation.conditions for k in range(len(notation.operand_precedences)))
        return notation.format(
            [self.coerce(operand, is_condition) for operand, is_condition in zip(operands, are_conditions, strict=True)]
        )

    def coerce(self, fragment: Fragment, is_condition: bool = False) -> Fragment:
        """Return a fragment converted to a number, or to a condition."""
        if fragment.is_condition == is_condition:
            return fragment
        return (self.as_condition if is_condition else self.as_number).format([fragment])


_OPERATIONS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Mod: "fmod",
    ast.USub: "neg", ast.Not: "not", ast.And: "and", ast.Or: "or",
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip
_SYMBOLS: dict[type[ast.AST], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_OPERATION_CALLS = {"power": "pow", "divide": "div"}  # functions that other languages write as an operation
_WIDTH = 90  # characters of a line with a conditional expression; a longer one becomes a branch


class FunctionTranslator:
    """Translates one function of floats into a target language."""

    def __init__(self, library: Library, node: ast.FunctionDef) -> None:
        self._library = library
        self._target = library.target
        assert library.target.statements is not None
        self._statements = library.target.statements
        self._node = node
        self._parameters = [argument.arg for argument in node.args.args]
        self._assigned = Counter(_assigned_names(node.body))
        loops = [loop.target.id for loop in ast.walk(node) if _is_range(loop)]  # type: ignore[attr-defined]
        self._counts = {_counter_name(name) for name in loops}
        self._elements: dict[str, str] = {}  # the tables of loop variables, by name
        self._copies: dict[ast.Lambda, str] = {}

    def function(self, name: str) -> TargetFunction:
        """Return the translated function under a given name."""
        body = self._block(self._node.body, {*self._parameters}, is_last=True)
        kinds = {variable: "number" for variable in self._assigned if variable not in self._parameters}
        return TargetFunction(
            name=name,
            parameters=self._parameters,
            kind="condition" if sources.returns_condition(self._node) else "number",
            variables=kinds | dict.fromkeys(sorted(self._counts), "count"),
            body=body,
            comment=_comment(self._node),
            is_recursive=False,
        )

    # Statements

    def _block(self, body: Sequence[ast.stmt], known: set[str], is_last: bool) -> list[str]:
        """Return the lines of a block, in which the variables `known` are already declared."""
        known = set(known)
        lines: list[str] = []
        for name in self._hoisted_names(body, known):
            lines += self._statements.declaration(name, "number", None, is_constant=False)
            known.add(name)
        for statement in body:
            lines += self._statement(statement, known, is_last and statement is body[-1])
        return lines

    def _hoisted_names(self, body: Sequence[ast.stmt], known: set[str]) -> list[str]:
        """Return the variables to declare ahead of a block: assigned first in a nested block, but used outside of
        it."""
        hoisted = []
        for name in self._assigned:
            if name in known or name in self._counts:
                continue
            mentions = [statement for statement in body if name in {*sources.names_in(statement)}]
            if len(mentions) > 1 and not (
                isinstance(mentions[0], ast.Assign) and name in _assigned_names([mentions[0]])
            ):
                hoisted.append(name)
        return hoisted

    def _statement(self, statement: ast.stmt, known: set[str], is_last: bool) -> list[str]:
        match statement:
            case ast.Expr(value=ast.Constant()):
                return []  # the docstring
            case ast.Return(value=ast.IfExp() as choice) if self._is_wide(choice):
                return self._conditional_as_branch(choice, ast.Return, known, is_last)
            case ast.Return(value=ast.expr() as value):
                return self._statements.return_statement(self._number_or_condition(value), is_last)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.IfExp() as choice) if self._is_wide(choice):
                lines = [] if name in known else self._statements.declaration(name, "number", None, is_constant=False)
                known.add(name)
                return lines + self._conditional_as_branch(
                    choice, lambda value: ast.Assign([ast.Name(name)], value), known, False
                )
            case ast.Assign(targets=targets, value=value):
                return [line for target in targets for line in self._assign(target, value, known)]
            case ast.AugAssign(target=ast.Name(id=name), op=operator, value=value):
                return self._statements.assignment(name, _SYMBOLS[type(operator)], self._number(value))
            case ast.If():
                return self._if_statement(statement, known, is_last)
            case ast.While(test=test, body=body):
                return self._statements.while_loop(
                    lambda: self._condition(test).text, lambda: self._block(body, known, False)
                )
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=bounds), body=body):
                return self._statements.for_loop(
                    _counter_name(name), *sources.range_bounds(bounds), lambda: self._block(body, known, False)
                )
            case ast.For(target=ast.Name(id=name), iter=table, body=body):
                return self._table_loop(name, table, body, known)
        raise NotImplementedError(f"{self._node.name}: {ast.unparse(statement)}")

    def _assign(self, target: ast.expr, value: ast.expr, known: set[str]) -> list[str]:
        assert isinstance(target, ast.Name)
        fragment = self._number(value)
        if target.id in known:
            return self._statements.assignment(target.id, "", fragment)
        known.add(target.id)
        return self._statements.declaration(target.id, "number", fragment.text, self._assigned[target.id] == 1)

    def _if_statement(self, statement: ast.If, known: set[str], is_last: bool) -> list[str]:
        cases: list[tuple[Callable[[], str], Block]] = []
        rest: list[ast.stmt] = [statement]
        while len(rest) == 1 and isinstance(rest[0], ast.If):
            cases.append(self._case(rest[0], known, is_last))
            rest = rest[0].orelse
        return self._statements.if_statement(cases, lambda: self._block(rest, known, is_last))

    def _case(self, branch: ast.If, known: set[str], is_last: bool) -> tuple[Callable[[], str], Block]:
        return lambda: self._condition(branch.test).text, lambda: self._block(branch.body, known, is_last)

    def _conditional_as_branch(self, choice: ast.IfExp, make: object, known: set[str], is_last: bool) -> list[str]:
        """Return a conditional expression as a branch between statements."""
        assert callable(make)
        return self._if_statement(ast.If(choice.test, [make(choice.body)], [make(choice.orelse)]), known, is_last)

    def _is_wide(self, choice: ast.IfExp) -> bool:
        return not self._target.has_conditional_expression or len(self._number(choice).text) > _WIDTH

    def _table_loop(self, name: str, table: ast.expr, body: Sequence[ast.stmt], known: set[str]) -> list[str]:
        """Return a loop over the elements of a table, as a loop over indices."""
        counter = "k"
        assert counter not in known
        self._counts.add(counter)
        source = sources.table_name(table)
        definition = sources.find_definition(source)
        assert definition is not None
        assert definition.table is not None
        self._library.require(source)
        self._elements[name] = source
        return self._statements.for_loop(counter, 0, len(definition.table), 1, lambda: self._block(body, known, False))

    # Expressions

    def _number(self, node: ast.expr) -> Fragment:
        """Return an expression as a number; counts are converted."""
        if isinstance(node, ast.Constant) and not isinstance(node.value, bool):
            return Fragment(self._library.literal(float(cast(float, node.value))))
        fragment = self._target.coerce(self._expression(node))
        return self._target.as_real.format([fragment]) if self._is_count(node) else fragment

    def _condition(self, node: ast.expr) -> Fragment:
        return self._target.coerce(self._expression(node), is_condition=True)

    def _number_or_condition(self, node: ast.expr) -> str:
        return (self._condition(node) if sources.returns_condition(self._node) else self._number(node)).text

    def _is_count(self, node: ast.expr) -> bool:
        """Return whether an expression is an integer count."""
        if not self._target.has_counts:
            return False
        match node:
            case ast.Constant(value=value):
                return isinstance(value, int)
            case ast.Name(id=name):
                return name in self._counts or _integer_constant(name) is not None
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult(), right=right):
                return self._is_count(left) and self._is_count(right)
        return False

    def _operation(self, name: str, *operands: Fragment) -> Fragment:
        return self._library.operation(name, operands)

    def _expression(self, node: ast.expr) -> Fragment:
        match node:
            case ast.Constant(value=int(value) | float(value)):
                return self._number_literal(value)
            case ast.Name(id=name):
                return self._name(name)
            case ast.Attribute(attr=name):
                return self._library.constant(name)
            case ast.BinOp(op=ast.Pow()):
                return Fragment(
                    self._library.literal(float(ast.literal_eval(node.left) ** ast.literal_eval(node.right)))
                )
            case ast.BinOp(left=left, op=operator, right=right):
                are_counts = self._is_count(left) and self._is_count(right)
                is_quotient = isinstance(operator, ast.Div) and are_counts
                first = self._number(left) if is_quotient or isinstance(operator, ast.Mod) else self._expression(left)
                second = self._number(right) if isinstance(operator, ast.Mod) else self._expression(right)
                return self._operation(_OPERATIONS[type(operator)], first, second)
            case ast.UnaryOp(op=operator, operand=operand):
                return self._operation(_OPERATIONS[type(operator)], self._expression(operand))
            case ast.BoolOp(op=operator, values=parts):
                return self._operation(_OPERATIONS[type(operator)], *map(self._expression, parts))
            case ast.Compare(left=left, ops=operators, comparators=[*rights]):
                return self._comparison([left, *rights], operators)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._operation("where", self._condition(test), self._number(body), self._number(orelse))
            case ast.Subscript(value=table, slice=index):
                return self._operation(
                    "element", Fragment(self._library.require(sources.table_name(table))), self._expression(index)
                )
            case ast.Call(func=function, args=arguments):
                name = function.attr if isinstance(function, ast.Attribute) else cast(ast.Name, function).id
                if arguments and isinstance(arguments[0], ast.Lambda):
                    return self._call_with_lambda(name, arguments[0])
                return self._call(name, [*map(self._number, arguments)])
        raise NotImplementedError(f"{self._node.name}: {ast.unparse(node)}")

    def _name(self, name: str) -> Fragment:
        if name in self._elements:
            table = Fragment(self._library.require(self._elements[name]))
            return self._operation("element", table, self._library.variable("k"))
        if name in self._assigned or name in self._parameters or name in self._counts:
            return self._library.variable(name)
        if name in self._target.numbers:
            return self._library.constant(name)
        whole = _integer_constant(name)
        return Fragment(self._library.require(name)) if whole is None else self._number_literal(whole)

    def _number_literal(self, value: float) -> Fragment:
        is_count = isinstance(value, int) and self._target.has_counts
        return Fragment(str(value) if is_count else self._library.literal(float(value)))

    def _comparison(self, sides: Sequence[ast.expr], operators: Sequence[ast.cmpop]) -> Fragment:
        condition: Fragment | None = None
        for left, operator, right in zip(sides, operators, sides[1:], strict=False):
            if ast.dump(left) == ast.dump(right):  # x != x tests for nan
                link = self._operation("isnan", self._number(left))
                if isinstance(operator, ast.Eq):
                    link = self._operation("not", link)
            else:
                link = self._operation(_OPERATIONS[type(operator)], self._expression(left), self._expression(right))
            condition = link if condition is None else self._operation("and", condition, link)
        assert condition is not None
        return condition

    def _call(self, name: str, arguments: list[Fragment]) -> Fragment:
        definition = sources.find_definition(name)
        op = definition.op if definition is not None and definition.op is not None else _OPERATION_CALLS.get(name, name)
        return self._library.operation(op, arguments)

    def _call_with_lambda(self, name: str, function: ast.Lambda) -> Fragment:
        """Return a call with a lambda as its argument: a call of a copy of the function with the formula inlined."""
        argument = function.args.args[0].arg
        names = [name for name in dict.fromkeys(sources.names_in(function.body)) if name != argument]
        free_names = [name for name in names if name in self._parameters or name in self._assigned]
        if function not in self._copies:
            count = "" if not self._copies else str(len(self._copies) + 1)
            self._copies[function] = f"{self._node.name.lstrip('_')}_terms{count}"
            self._library.translate(sources.specialize(name, function, self._copies[function], free_names))
        return self._library.call(self._copies[function], [*map(self._library.variable, free_names)])


def is_integer_literal(text: str) -> bool:
    """Return whether a piece of code is the literal of an integer, in any language."""
    return re.fullmatch(r"-?\d+(\.0)?(_dp)?", text) is not None


def _comment(node: ast.FunctionDef) -> str:
    """Return the docstring of a function without examples, as one line."""
    text = (ast.get_docstring(node) or "").partition(">>>")[0]
    return " ".join(text.split()).replace("`_", "`")


def _integer_constant(name: str) -> int | None:
    """Return the value of an integer constant; None for anything else."""
    definition = sources.find_definition(name)
    return definition.value if definition is not None and isinstance(definition.value, int) else None


def _counter_name(name: str) -> str:
    """Return the name of a loop's counter. Python's anonymous `_` needs a name in other languages."""
    return "i" if name == "_" else name


def _is_range(node: ast.AST) -> bool:
    return isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and ast.unparse(node.iter.func) == "range"


def _assigned_names(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the variables that statements assign, with repetitions."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign):
                yield from (target.id for target in node.targets if isinstance(target, ast.Name))
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                yield node.target.id


class Library:
    """The functions, tables and constants that a program needs besides its own lines.

    Attributes:
        target: the language.
        texts: the code of each of them, by name. A function follows the functions it calls, unless these call it too.
        forward_declared: the functions that are called before their definition.
        used_words: the identifiers in the notations that were used, which the program must not redefine.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.texts: dict[str, str] = {}
        self.forward_declared: dict[str, TargetFunction] = {}
        self.used_words: set[str] = set()
        self._in_progress: set[str] = set()
        self._recursive_names: set[str] = set()

    def has_function(self, op: str) -> bool:
        """Return whether there is a function for an operation."""
        name = sources.function_name(op)
        definition = None if name is None else sources.find_definition(name)
        return self.target.statements is not None and definition is not None and definition.is_function

    def require(self, name: str) -> str:
        """Include the function, table or constant with this name, and return its name in the language."""
        public = name.lstrip("_")
        if public in self._in_progress:
            self._recursive_names.add(public)
        elif public not in self.texts:
            self._add_definition(name, public)
        return public

    def _add_definition(self, name: str, public: str) -> None:
        if public in self.target.snippets:
            self.texts[public] = self.target.snippets[public]
            return
        definition, statements = sources.find_definition(name), self.target.statements
        assert definition is not None, f"{self.target.name} has no {name}"
        assert statements is not None, f"{self.target.name} has no {name}"
        if definition.is_function:
            self.translate(cast(ast.FunctionDef, definition.node))
        elif (numbers := definition.table) is not None:
            self.texts[public] = statements.table_definition(public, [*map(self.literal, numbers)])
        else:
            assert definition.number is not None, name
            self.texts[public] = statements.constant_definition(public, self.literal(definition.number))

    def translate(self, node: ast.FunctionDef) -> None:
        """Include the translation of a function."""
        name = node.name.lstrip("_")
        self._in_progress.add(name)
        function = FunctionTranslator(self, node).function(name)
        self._in_progress.remove(name)
        function = function._replace(is_recursive=name in self._recursive_names)
        if any(re.search(rf"\b{name}\(", text) for text in self.texts.values()):
            self.forward_declared[name] = function
        assert self.target.statements is not None
        self.texts[name] = self.target.statements.function_definition(function)

    def constant(self, name: str) -> Fragment:
        """Return the code of a named number: `pi`, `tau`, `e`, `inf` or `nan`."""
        code = self.target.numbers[name]
        self._require_snippets(code)
        return Fragment(code)

    def number(self, text: str) -> Fragment:
        """Return the code of a constant, given its text: a decimal number or a name such as `pi`.

        A number beyond the range of floats is infinite, as in Python.
        """
        if text in self.target.numbers:
            return self.constant(text)
        return self.constant("inf") if math.isinf(float(text)) else Fragment(self.target.literal(text))

    def operation(self, op: str, operands: Sequence[Fragment]) -> Fragment:
        """Return the code of an operation on operands, or a call of the function that computes it."""
        if op == "pow" and "power" in self.target.notations and not is_integer_literal(operands[1].text):
            op = "power"  # the platform's own power is inf or 0 where a power of -inf is undefined
        if self.target.notation(op, len(operands)) is None:
            return self._call_function(sources.function_name(op) or op, operands)
        return self.apply_notation(op, operands)

    def apply_notation(self, op: str, operands: Sequence[Fragment]) -> Fragment:
        """Return the code of an operation that has a notation."""
        notation = self.target.notation(op, len(operands))
        assert notation is not None, op
        self._require_snippets("".join(notation.texts))
        return self.target.apply_notation(notation, operands)

    def _call_function(self, name: str, operands: Sequence[Fragment]) -> Fragment:
        """Return a call of a function of this library, with values for optional parameters too."""
        definition = sources.find_definition(name)
        assert definition is not None, f"{self.target.name} has no {name}"
        node = cast(ast.FunctionDef, definition.node)
        missing = node.args.defaults[len(operands) - len(node.args.args) or len(node.args.defaults) :]
        arguments = [*operands, *(Fragment(self.literal(ast.literal_eval(default))) for default in missing)]
        return self.call(self.require(name), arguments, sources.returns_condition(node))

    def call(self, name: str, arguments: Sequence[Fragment], is_condition: bool = False) -> Fragment:
        """Return a call of a function of this library."""
        notation = call_notation(name, len(arguments))._replace(is_condition=is_condition)
        return self.target.apply_notation(notation, arguments)

    def _require_snippets(self, text: str) -> None:
        mentioned = identifiers(text)
        self.used_words |= mentioned
        for name in self.target.snippets:
            if name in mentioned and name not in self.texts:
                self.require(name)

    def variable(self, name: str) -> Fragment:
        """Return the code that reads a variable of a function."""
        return Fragment(name)

    def literal(self, number: float) -> str:
        """Return the code of a number."""
        return self.target.literal(repr(number))


@cache
def identifiers(text: str) -> frozenset[str]:
    """Return the identifiers in a piece of code."""
    return frozenset(re.findall(r"\w+", text))

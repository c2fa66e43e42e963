"""Translation of functions and graphs into a target language.

`FunctionTranslator` translates a function of floats, statement by statement. `Library` collects the functions, tables
and constants that a program needs besides its own lines. `GraphWriter` writes graphs, and expresses operations that a
language lacks by others.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, reduce
from typing import cast

from autodiff_cli.graph.codegen import Fragment, call_notation
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Op
from autodiff_cli.graph.tape import topological_order
from autodiff_cli.numbers.forms import DEFINITIONS
from autodiff_cli.numbers.sources import (
    find_definition,
    function_name,
    names_in,
    range_bounds,
    returns_condition,
    specialize,
    table_name,
)
from autodiff_cli.targets.target import Target, TargetFunction

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
        self._elements: dict[str, str] = {}  # the code of loop variables over tables, by name
        self._copies: dict[ast.Lambda, str] = {}

    def function(self, name: str) -> TargetFunction:
        """Return the translated function under a given name."""
        body = self._block(self._node.body, {*self._parameters}, is_last=True)
        kinds = {variable: "number" for variable in self._assigned if variable not in self._parameters}
        return TargetFunction(
            name=name,
            parameters=self._parameters,
            kind="condition" if returns_condition(self._node) else "number",
            variables=kinds | dict.fromkeys(self._counts, "count"),
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
            mentions = [statement for statement in body if name in {*names_in(statement)}]
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
                return self._statements.while_loop(self._condition(test).text, self._block(body, known, False))
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=bounds), body=body):
                return self._statements.for_loop(
                    _counter_name(name), *range_bounds(bounds), self._block(body, known, False)
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
        cases: list[tuple[str, list[str]]] = []
        rest: list[ast.stmt] = [statement]
        while len(rest) == 1 and isinstance(rest[0], ast.If):
            branch = rest[0]
            cases.append((self._condition(branch.test).text, self._block(branch.body, known, is_last)))
            rest = branch.orelse
        return self._statements.if_statement(cases, self._block(rest, known, is_last))

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
        source = table_name(table)
        definition = find_definition(source, prefer_portable=True)
        assert definition is not None
        assert definition.table is not None
        element = self._target.apply_notation(
            self._target.notations["element"], [Fragment(self._library.require(source)), Fragment(counter)]
        )
        self._elements[name] = element.text
        return self._statements.for_loop(counter, 0, len(definition.table), 1, self._block(body, known, False))

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
        return (self._condition(node) if returns_condition(self._node) else self._number(node)).text

    def _is_count(self, node: ast.expr) -> bool:
        """Return whether an expression is an integer count."""
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
            case ast.Constant(value=int(value)):
                return Fragment(str(value))
            case ast.Constant(value=float(value)):
                return Fragment(self._library.literal(value))
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
                    "element", Fragment(self._library.require(table_name(table))), self._expression(index)
                )
            case ast.Call(func=function, args=arguments):
                name = function.attr if isinstance(function, ast.Attribute) else cast(ast.Name, function).id
                if arguments and isinstance(arguments[0], ast.Lambda):
                    return self._call_with_lambda(name, arguments[0])
                return self._call(name, [*map(self._number, arguments)])
        raise NotImplementedError(f"{self._node.name}: {ast.unparse(node)}")

    def _name(self, name: str) -> Fragment:
        if name in self._elements:
            return Fragment(self._elements[name])
        if name in self._assigned or name in self._parameters or name in self._counts:
            return Fragment(name)
        if name in self._target.numbers:
            return self._library.constant(name)
        whole = _integer_constant(name)
        return Fragment(self._library.require(name) if whole is None else str(whole))

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
        definition = find_definition(name, prefer_portable=True)
        op = definition.op if definition is not None and definition.op is not None else _OPERATION_CALLS.get(name, name)
        return self._library.operation(op, arguments)

    def _call_with_lambda(self, name: str, function: ast.Lambda) -> Fragment:
        """Return a call with a lambda as its argument: a call of a copy of the function with the formula inlined."""
        argument = function.args.args[0].arg
        names = [name for name in dict.fromkeys(names_in(function.body)) if name != argument]
        free_names = [name for name in names if name in self._parameters or name in self._assigned]
        if function not in self._copies:
            count = "" if not self._copies else str(len(self._copies) + 1)
            self._copies[function] = f"{self._node.name.lstrip('_')}_terms{count}"
            self._library.translate(specialize(name, function, self._copies[function], free_names))
        return call_notation(self._copies[function], len(free_names)).format([*map(Fragment, free_names)])


def _comment(node: ast.FunctionDef) -> str:
    """Return the docstring of a function without examples, as one line."""
    text = (ast.get_docstring(node) or "").partition(">>>")[0]
    return " ".join(text.split()).replace("`_", "`")


def _integer_constant(name: str) -> int | None:
    """Return the value of an integer constant; None for anything else."""
    definition = find_definition(name, prefer_portable=True)
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
        name = function_name(op, prefer_portable=True)
        definition = None if name is None else find_definition(name, prefer_portable=True)
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
        definition, statements = find_definition(name, prefer_portable=True), self.target.statements
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
        if self.target.notation(op, len(operands)) is None:
            return self._call_function(function_name(op, prefer_portable=True) or op, operands)
        return self.apply_notation(op, operands)

    def apply_notation(self, op: str, operands: Sequence[Fragment]) -> Fragment:
        """Return the code of an operation that has a notation."""
        notation = self.target.notation(op, len(operands))
        assert notation is not None, op
        self._require_snippets("".join(notation.texts))
        return self.target.apply_notation(notation, operands)

    def _call_function(self, name: str, operands: Sequence[Fragment]) -> Fragment:
        """Return a call of a function of this library, with values for optional parameters too."""
        definition = find_definition(name, prefer_portable=True)
        assert definition is not None, f"{self.target.name} has no {name}"
        node = cast(ast.FunctionDef, definition.node)
        missing = node.args.defaults[len(operands) - len(node.args.args) or len(node.args.defaults) :]
        arguments = [*operands, *(Fragment(self.literal(ast.literal_eval(default))) for default in missing)]
        notation = call_notation(self.require(name), len(arguments))._replace(is_condition=returns_condition(node))
        return self.target.apply_notation(notation, arguments)

    def _require_snippets(self, text: str) -> None:
        mentioned = identifiers(text)
        self.used_words |= mentioned
        for name in self.target.snippets:
            if name in mentioned and name not in self.texts:
                self.require(name)

    def literal(self, number: float) -> str:
        """Return the code of a number."""
        return self.target.literal(repr(number))


@cache
def identifiers(text: str) -> frozenset[str]:
    """Return the identifiers in a piece of code."""
    return frozenset(re.findall(r"\w+", text))


class UnsupportedOperationError(ValueError):
    """A language can express some operations in no way.

    Attributes:
        ops: the operations of the formula that are not supported.
    """

    def __init__(self, ops: Sequence[Op]) -> None:
        super().__init__(", ".join(op.name for op in ops))
        self.ops = ops


class GraphWriter:
    """Writes graphs in a language, and includes what they need in its library.

    Args:
        library: the library of the language.
        short_definitions: definitions to prefer over a function for operations without a notation.
    """

    def __init__(self, library: Library, short_definitions: Mapping[str, Callable[..., Node]] | None = None) -> None:
        self.target = library.target
        self.library = library
        self._short_definitions = short_definitions or {}

    def write(self, node: Node, operands: Sequence[Fragment]) -> Fragment:
        """Return the code of a constant, or of an operation on operands."""
        if node.op is not None:
            return self.library.operation(node.op.name, operands)
        return self.library.number(node.text)

    def lower(self, roots: Sequence[Node]) -> list[Node]:
        """Return equivalent graphs of operations that the language has, as notations or functions.

        Raises:
            UnsupportedOperationError: if an operation cannot be expressed.
        """
        lowered: dict[Node, Node] = {}
        unsupported: dict[Op, None] = {}
        for node in topological_order(roots):
            inputs = [lowered[child] for child in node.inputs]
            if node.op is None:
                lowered[node] = node
                continue
            try:
                lowered[node] = self._lower_op(node.op, inputs)
            except UnsupportedOperationError as error:
                unsupported |= dict.fromkeys(error.ops)
                lowered[node] = node
        if unsupported:
            raise UnsupportedOperationError([*unsupported])
        return [lowered[root] for root in roots]

    def _lower_op(self, op: Op, inputs: Sequence[Node]) -> Node:
        """Return an operation on lowered inputs, expressed by operations that the language has."""
        if op.max_inputs is None and len(inputs) > 2 and op.name not in self.target.notations:
            return reduce(op, inputs)  # nested operations on two inputs
        for definition in self._candidate_definitions(op):
            if definition is None:
                return op(*inputs)
            graph = definition(*inputs)
            if graph is not None:
                return self._lower_graph(graph, {node: node for node in inputs})
        raise UnsupportedOperationError([op])

    def _candidate_definitions(self, op: Op) -> Iterator[Callable[..., Node | None] | None]:
        """Yield the ways to express an operation, best first: a definition, or None for the operation itself."""
        name = op.name
        if name in self.target.definitions:
            yield self.target.definitions[name]
        if name in self.target.notations:
            yield None
        if name in self._short_definitions:
            yield self._short_definitions[name]
        if self.library.has_function(name):
            yield None
        yield from filter(None, [DEFINITIONS.get(name), op.expansion])

    def _lower_graph(self, graph: Node, lowered: dict[Node, Node]) -> Node:
        """Return a lowered definition. It recurses over the definition, which is small."""
        if graph not in lowered:
            inputs = [self._lower_graph(child, lowered) for child in graph.inputs]
            lowered[graph] = graph if graph.op is None else self._lower_op(graph.op, inputs)
        return lowered[graph]

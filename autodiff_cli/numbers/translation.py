"""Translation of functions of floats into a target language, statement by statement.

`Target` describes a language as tables. `Library` collects the functions, tables and constants that a program needs
besides its own lines, and `TargetFunction` is the translation of one function.
"""

from __future__ import annotations

import ast
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias, cast

from autodiff_cli.graph.codegen import Fragment, Notation, call_notation
from autodiff_cli.graph.node import Node
from autodiff_cli.numbers import sources

Test: TypeAlias = Callable[[], str]  # returns the code of a condition, which is written when it is called
Block: TypeAlias = Callable[[], list[str]]  # returns the lines of a block, likewise
CODE_WIDTH = 96  # characters of a line of comments or tables in generated code


@dataclass(kw_only=True)
class Statements:
    """Statements of a language, as templates. Lines are returned without indentation.

    All variables of a function are numbers, and are declared at its beginning.

    Attributes:
        comment: the start of a line with a comment.
        indent: the indentation of a block.
        kinds: the types of numbers and of truth values.
        head: the first line of a function.
        parameter: a parameter in the head.
        opening, closing: the code between the head and the first line of a function, and after its last line.
        variables: the declaration of variables.
        assign: an assignment.
        returns: the lines that return a value. The last one is left out at the end of a function if there are several.
        branches: the lines that begin the first case of a branch and each further case, `else`, and the end.
        loop: the first and the last line of a loop that runs while a condition is true.
        table: the definition of a table.
        continuation: the end of a line that the next one continues, in languages that need it; lines are then wrapped.
        constant: the definition of a named number.
    """

    comment: str
    indent: str = "    "
    kinds: Sequence[str] = ("", "")
    head: str
    parameter: str = "{name}"
    opening: str
    closing: str = "}\n"
    variables: str
    assign: str = "{name} = {value};"
    returns: Sequence[str] = ("return {value};",)
    branches: Sequence[str] = ("if ({test}) {{", "}} else if ({test}) {{", "} else {", "}")
    loop: Sequence[str] = ("while ({test}) {{", "}")
    table: str
    continuation: str = ""
    constant: str

    def function_definition(self, function: TargetFunction) -> str:
        """Return the code of a function, after its comment."""
        ends_early = len(self.returns) > 1 and function.body[-1] == self.returns[-1]
        lines = [
            *([self.variables.format(names=", ".join(function.variables))] if function.variables else []),
            *(function.body[:-1] if ends_early else function.body),
        ]
        body = "".join(f"{self.wrapped(line)}\n" for line in self._indented(lines))
        opening = self.opening.format(kind=self.kinds[function.is_condition], parameters=", ".join(function.parameters))
        return f"{self.comment_lines(function.comment)}{self.function_head(function)}{opening}{body}{self.closing}"

    def function_head(self, function: TargetFunction) -> str:
        """Return the first line of a function."""
        return self.head.format(
            kind=self.kinds[function.is_condition],
            name=function.name,
            parameters=", ".join(self.parameter.format(name=name) for name in function.parameters),
            recursive="recursive " if function.is_recursive else "",
        )

    def comment_lines(self, text: str) -> str:
        """Return a text as a comment of whole lines."""
        return "".join(f"{self.comment}{line}\n" for line in textwrap.wrap(text, CODE_WIDTH))

    def assignment(self, name: str, value: str) -> list[str]:
        """Return an assignment."""
        return [self.assign.format(name=name, value=value)]

    def if_statement(self, cases: Sequence[tuple[Test, Block]], otherwise: Block) -> list[str]:
        """Return a branch to the block of the first condition that is true.

        Conditions and blocks are functions, because some languages write instructions while an expression is
        translated: these must stand where the expression is evaluated.
        """
        first, further, last, end = self.branches
        lines: list[str] = []
        for test, block in cases:
            lines += [(further if lines else first).format(test=test()), *self._indented(block())]
        rest = otherwise()
        return [*lines, *([last, *self._indented(rest)] if rest else []), end]

    def while_loop(self, test: Test, block: Block) -> list[str]:
        """Return a loop that runs while a condition is true."""
        return [self.loop[0].format(test=test()), *self._indented(block()), self.loop[1]]

    def return_statement(self, value: str) -> list[str]:
        """Return the statement that returns a value."""
        return [line.format(value=value) for line in self.returns]

    def table_definition(self, name: str, numbers: Sequence[str]) -> str:
        """Return the definition of a table of numbers, indexed from 0."""
        lines = textwrap.wrap(", ".join(numbers), CODE_WIDTH - len(self.continuation) - len(self.indent))
        body = f"{self.continuation}\n".join(self._indented(lines))
        return self.table.format(name=name, count=len(numbers), last=len(numbers) - 1, body=body)

    def wrapped(self, line: str) -> str:
        """Return a line with line ends where a language limits its length."""
        if not self.continuation:
            return line
        indent = " " * (len(line) - len(line.lstrip())) + self.indent
        pieces = textwrap.wrap(
            line, CODE_WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        return f"{self.continuation}\n".join(pieces)

    def _indented(self, block: Iterable[str]) -> list[str]:
        return [f"{self.indent}{line}" for line in block]


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
        has_conditional_expression: whether a choice between two values is an expression that computes only one of them.
        snippets: handwritten code by name. It is included if a notation or a number mentions the name.
        statements: the statements of translated functions; None if the language has none.
        array_literal: the code before and after a list of numbers that is an array; None if the language has none.
        binary_ops: operations on any number of operands whose notation takes two.
        library_names: names of its own library that some of our functions have; they get an underscore.
    """

    name: str
    notations: Mapping[str, Notation]
    numbers: Mapping[str, str]
    literal: Callable[[str], str]
    as_number: Notation
    as_condition: Notation
    definitions: Mapping[str, Callable[..., Node | None]] = field(default_factory=dict)
    snippets: Mapping[str, str] = field(default_factory=dict)
    statements: Statements | None = None
    has_conditional_expression: bool = True
    array_literal: tuple[str, str] | None = None
    binary_ops: tuple[str, ...] = ()
    library_names: tuple[str, ...] = ()

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

    def literal_array(self, operands: Sequence[Fragment]) -> Fragment | None:
        """Return an array of numbers, or of such arrays, as one literal; None if an operand is anything else."""
        if self.array_literal is None:
            return None
        head, tail = self.array_literal
        elements = []
        for part in operands:
            is_array = part.text.startswith(f"{head}[") and part.text.endswith(f"]{tail}")
            if not is_array and not re.fullmatch(r"-?\d[\d.]*(e-?\d+)?", part.text):
                return None
            elements.append(part.text[len(head) : -len(tail)] if is_array else part.text)
        return Fragment(f"{head}[{', '.join(elements)}]{tail}")

    def coerce(self, fragment: Fragment, is_condition: bool = False) -> Fragment:
        """Return a fragment converted to a number, or to a condition."""
        if fragment.is_condition == is_condition:
            return fragment
        return (self.as_condition if is_condition else self.as_number).format([fragment])


_OPERATIONS = {**sources.OPERATIONS, ast.Mod: "fmod"}
_OPERATION_CALLS = {"power": "pow", "divide": "div"}  # functions that other languages write as an operation
_WIDTH = 90  # characters of a line with a conditional expression; a longer one becomes a branch


class TargetFunction:
    """A function of floats, translated into a target language.

    Args:
        library: receives what the function needs.
        node: its definition in Python.
        name: its name in the language.

    Attributes:
        name: its name.
        parameters: the names of its parameters, which are numbers.
        is_condition: whether its result is a truth value; otherwise it is a number.
        variables: the names of its variables, which are numbers.
        body: its lines.
        comment: a description of the function.
        is_recursive: whether it calls itself.
    """

    def __init__(self, library: Library, node: ast.FunctionDef, name: str) -> None:
        self._library, self._target, self._node = library, library.target, node
        assert library.target.statements is not None
        self._statements = library.target.statements
        self.name, self.comment = name, _comment(node)
        self.parameters = [argument.arg for argument in node.args.args]
        self.variables = dict.fromkeys(each for each in _assigned_names(node) if each not in self.parameters)
        self.is_condition, self.is_recursive = sources.returns_condition(node), False
        self._elements: dict[str, str] = {}  # the tables of loop variables, by name
        self._copies: dict[ast.Lambda, str] = {}
        self.body = self._block(node.body)

    # Statements

    def _block(self, body: Sequence[ast.stmt]) -> list[str]:
        return [line for statement in body for line in self._statement(statement)]

    def _statement(self, statement: ast.stmt) -> list[str]:
        match statement:
            case ast.Expr(value=ast.Constant()):
                return []  # the docstring
            case ast.Return(value=ast.IfExp() as choice) if self._is_wide(choice):
                return self._conditional_as_branch(choice, ast.Return)
            case ast.Return(value=ast.expr() as value):
                to_text = self._condition if self.is_condition else self._number
                return self._statements.return_statement(to_text(value).text)
            case ast.Assign(targets=[target], value=ast.IfExp() as choice) if self._is_wide(choice):
                return self._conditional_as_branch(choice, lambda value: ast.Assign([target], value))
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return self._statements.assignment(name, self._number(value).text)
            case ast.AugAssign(target=ast.Name(id=name), op=operator, value=value):
                return self._augment(name, operator, self._number(value))
            case ast.If():
                return self._if_statement(statement)
            case ast.While(test=test, body=body):
                return self._statements.while_loop(lambda: self._condition(test).text, lambda: self._block(body))
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=bounds), body=body):
                return self._counted_loop("i" if name == "_" else name, *sources.range_bounds(bounds), body)
            case ast.For(target=ast.Name(id=name), iter=table, body=body):
                source = self._elements[name] = sources.table_name(table)
                definition = sources.find_definition(source)
                assert definition is not None
                assert definition.table is not None
                self._library.require(source)
                return self._counted_loop(_TABLE_COUNTER, 0, len(definition.table), 1, body)
        raise NotImplementedError(f"{self._node.name}: {ast.unparse(statement)}")

    def _augment(self, name: str, operator: ast.operator, value: Fragment) -> list[str]:
        new = self._operation(_OPERATIONS[type(operator)], self._library.variable(name), value)
        return self._statements.assignment(name, new.text)

    def _counted_loop(self, name: str, start: int, stop: int, step: int, body: Sequence[ast.stmt]) -> list[str]:
        """Return a loop over integers from `start` to, but excluding, `stop`."""
        self.variables[name] = None
        first, last, change = (Fragment(self._library.literal(float(number))) for number in (start, stop, abs(step)))
        is_before = "lt" if step > 0 else "gt"
        return [
            *self._statements.assignment(name, first.text),
            *self._statements.while_loop(
                lambda: self._operation(is_before, self._library.variable(name), last).text,
                lambda: [*self._block(body), *self._augment(name, ast.Add() if step > 0 else ast.Sub(), change)],
            ),
        ]

    def _if_statement(self, statement: ast.If) -> list[str]:
        cases: list[tuple[Test, Block]] = []
        rest: list[ast.stmt] = [statement]
        while len(rest) == 1 and isinstance(rest[0], ast.If):
            cases.append(self._case(rest[0]))
            rest = rest[0].orelse
        return self._statements.if_statement(cases, lambda: self._block(rest))

    def _case(self, branch: ast.If) -> tuple[Test, Block]:
        return lambda: self._condition(branch.test).text, lambda: self._block(branch.body)

    def _conditional_as_branch(self, choice: ast.IfExp, make: Callable[[ast.expr], ast.stmt]) -> list[str]:
        """Return a conditional expression as a branch between statements."""
        return self._if_statement(ast.If(choice.test, [make(choice.body)], [make(choice.orelse)]))

    def _is_wide(self, choice: ast.IfExp) -> bool:
        return not self._target.has_conditional_expression or len(self._number(choice).text) > _WIDTH

    # Expressions

    def _number(self, node: ast.expr) -> Fragment:
        return self._target.coerce(self._expression(node))

    def _condition(self, node: ast.expr) -> Fragment:
        return self._target.coerce(self._expression(node), is_condition=True)

    def _operation(self, name: str, *operands: Fragment) -> Fragment:
        return self._library.operation(name, operands)

    def _expression(self, node: ast.expr) -> Fragment:
        match node:
            case ast.Constant(value=int(value) | float(value)):
                return Fragment(self._library.literal(float(value)))
            case ast.Name(id=name):
                return self._name(name)
            case ast.Attribute(attr=name):
                return self._library.constant(name)
            case ast.BinOp(op=ast.Pow()):
                return Fragment(
                    self._library.literal(float(ast.literal_eval(node.left) ** ast.literal_eval(node.right)))
                )
            case ast.BinOp(left=left, op=operator, right=right):
                return self._operation(_OPERATIONS[type(operator)], self._expression(left), self._expression(right))
            case ast.UnaryOp(op=operator, operand=operand):
                return self._operation(_OPERATIONS[type(operator)], self._expression(operand))
            case ast.BoolOp(op=operator, values=parts):
                return self._operation(_OPERATIONS[type(operator)], *map(self._expression, parts))
            case ast.Compare(left=left, ops=operators, comparators=[*rights]):
                return self._comparison([left, *rights], operators)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._operation("where", self._condition(test), self._number(body), self._number(orelse))
            case ast.Subscript(value=table, slice=index):
                return self._element(sources.table_name(table), self._expression(index))
            case ast.Call(func=function, args=arguments):
                name = function.attr if isinstance(function, ast.Attribute) else cast(ast.Name, function).id
                if arguments and isinstance(arguments[0], ast.Lambda):
                    return self._call_with_lambda(name, arguments[0])
                if isinstance(function, ast.Attribute) and f"platform_{name}" in self._target.notations:
                    name = f"platform_{name}"
                return self._call(name, [*map(self._number, arguments)])
        raise NotImplementedError(f"{self._node.name}: {ast.unparse(node)}")

    def _name(self, name: str) -> Fragment:
        if name in self._elements:
            return self._element(self._elements[name], self._library.variable(_TABLE_COUNTER))
        if name in self.variables or name in self.parameters:
            return self._library.variable(name)
        return self._library.constant(name) if name in self._target.numbers else Fragment(self._library.require(name))

    def _element(self, table: str, index: Fragment) -> Fragment:
        return self._operation("element", Fragment(self._library.require(table)), index)

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
        free_names = [name for name in names if name in self.parameters or name in self.variables]
        if function not in self._copies:
            count = "" if not self._copies else str(len(self._copies) + 1)
            self._copies[function] = f"{self._node.name.lstrip('_')}_terms{count}"
            self._library.translate(sources.specialize(name, function, self._copies[function], free_names))
        return self._library.call(self._copies[function], [*map(self._library.variable, free_names)])


_TABLE_COUNTER = "k"  # the counter of loops over the elements of a table


def _comment(node: ast.FunctionDef) -> str:
    """Return the docstring of a function without examples, as one line."""
    return " ".join((ast.get_docstring(node) or "").partition(">>>")[0].split()).replace("`_", "`")


def _assigned_names(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the variables that a function assigns, with repetitions."""
    for node in ast.walk(function):
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
        public = self._public_name(name)
        if public in self._in_progress:
            self._recursive_names.add(public)
        elif public not in self.texts:
            self._add_definition(name, public)
        return public

    def _public_name(self, name: str) -> str:
        return name.lstrip("_") + ("_" if name in self.target.library_names else "")

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
            self.texts[public] = statements.constant.format(name=public, number=self.literal(definition.number))

    def translate(self, node: ast.FunctionDef) -> None:
        """Include the translation of a function."""
        name = self._public_name(node.name)
        self._in_progress.add(name)
        function = TargetFunction(self, node, name)
        self._in_progress.remove(name)
        function.is_recursive = name in self._recursive_names
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
        if op == "stack" and (array := self.target.literal_array(operands)) is not None:
            return array
        # The platform's own power is inf or 0 where a power of -inf is undefined.
        is_integer_power = op == "pow" and re.fullmatch(r"-?\d+(\.0)?(_dp)?", operands[1].text)
        is_careful = op == "pow" and not is_integer_power and self.has_function(op)
        if is_careful or self.target.notation(op, len(operands)) is None:
            return self._call_function(op, operands)
        return self.apply_notation(op, operands)

    def apply_notation(self, op: str, operands: Sequence[Fragment]) -> Fragment:
        """Return the code of an operation that has a notation."""
        notation = self.target.notation(op, len(operands))
        assert notation is not None, op
        self._require_snippets("".join(notation.texts))
        return self.target.apply_notation(notation, operands)

    def _call_function(self, op: str, operands: Sequence[Fragment]) -> Fragment:
        """Return a call of the function that computes an operation, with values for optional parameters too."""
        name = sources.function_name(op) or op
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

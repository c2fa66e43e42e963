"""What a program needs beside its own lines: functions, tables and numbers with names."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import cache
from typing import cast

from autodiff_cli.graph.straight import Fragment, call
from autodiff_cli.numbers.sources import definition, function_name, returns_condition
from autodiff_cli.targets.target import Function, Target
from autodiff_cli.targets.translate import Translation


class Library:
    """The functions, tables and numbers that a program needs beside its own lines.

    Attributes:
        texts: by name, each after what it calls, unless two call each other.
        ahead: the functions that are called before they stand.
        words: the words of the notations that were used, which mean something.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.texts: dict[str, str] = {}
        self.ahead: dict[str, Function] = {}
        self.words: set[str] = set()
        self._open: set[str] = set()
        self._called_back: set[str] = set()

    def has(self, op: str) -> bool:
        """Whether there is a function for an operation."""
        name = function_name(op, in_arithmetic=True)
        found = None if name is None else definition(name, in_arithmetic=True)
        return self.target.statements is not None and found is not None and found.is_function

    def need(self, name: str) -> str:
        """See to it that what has this name is there; gives its name in the language."""
        public = name.lstrip("_")
        if public in self._open:
            self._called_back.add(public)
        elif public not in self.texts:
            self._add(name, public)
        return public

    def _add(self, name: str, public: str) -> None:
        if public in self.target.natives:
            self.texts[public] = self.target.natives[public]
            return
        found, statements = definition(name, in_arithmetic=True), self.target.statements
        assert found is not None, f"{self.target.name} has no {name}"
        assert statements is not None, f"{self.target.name} has no {name}"
        if found.is_function:
            self.add(cast(ast.FunctionDef, found.node))
        elif (numbers := found.table) is not None:
            self.texts[public] = statements.table(public, [*map(self.number, numbers)])
        else:
            assert found.number is not None, name
            self.texts[public] = statements.number(public, self.number(found.number))

    def add(self, node: ast.FunctionDef) -> None:
        """Translate a function."""
        name = node.name.lstrip("_")
        self._open.add(name)
        function = Translation(self, node).function(name)
        self._open.remove(name)
        function = function._replace(is_recursive=name in self._called_back)
        if any(re.search(rf"\b{name}\(", text) for text in self.texts.values()):
            self.ahead[name] = function
        assert self.target.statements is not None
        self.texts[name] = self.target.statements.function(function)

    def constant(self, name: str) -> Fragment:
        """A number that has a name everywhere: `pi`, `inf` and the like."""
        written = self.target.numbers[name]
        self._need_natives(written)
        return Fragment(written)

    def operation(self, op: str, operands: Sequence[Fragment]) -> Fragment:
        """An operation on operands, or a call of the function for it."""
        if self.target.notation(op, len(operands)) is None:
            return self._called(function_name(op, in_arithmetic=True) or op, operands)
        return self.noted(op, operands)

    def noted(self, op: str, operands: Sequence[Fragment]) -> Fragment:
        """An operation for which there is a notation."""
        notation = self.target.notation(op, len(operands))
        assert notation is not None, op
        self._need_natives("".join(notation.texts))
        return self.target.written(notation, operands)

    def _called(self, name: str, operands: Sequence[Fragment]) -> Fragment:
        """A call of a function of this library; what it can do without is given too."""
        found = definition(name, in_arithmetic=True)
        assert found is not None, f"{self.target.name} has no {name}"
        node = cast(ast.FunctionDef, found.node)
        missing = node.args.defaults[len(operands) - len(node.args.args) or len(node.args.defaults) :]
        given = [*operands, *(Fragment(self.number(ast.literal_eval(default))) for default in missing)]
        notation = call(self.need(name), len(given))._replace(is_condition=returns_condition(node))
        return self.target.written(notation, given)

    def _need_natives(self, text: str) -> None:
        mentioned = words(text)
        self.words |= mentioned
        for name in self.target.natives:
            if name in mentioned and name not in self.texts:
                self.need(name)

    def number(self, number: float) -> str:
        """A number as the language writes it."""
        return self.target.literal(repr(number))


@cache
def words(text: str) -> frozenset[str]:
    """The words of a piece of code."""
    return frozenset(re.findall(r"\w+", text))

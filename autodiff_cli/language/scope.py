"""What the names of a text mean: bound values, free names, constants, functions; and what is wrong with their use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from autodiff_cli import ops
from autodiff_cli.graph.node import Node, constant, variable
from autodiff_cli.graph.op import Op, Shape, registered
from autodiff_cli.language.code import LAYERS, Code, Lexeme, Statement
from autodiff_cli.language.errors import ExpressionError, is_quotable, line_and_column, suggest

# The constants, and how to write them where their name means something else.
CONSTANTS = {
    "pi": "3.14159265358979323846264338327950288419716939937511",
    "tau": "6.28318530717958647692528676655900576839433879875021",
    "e": "2.71828182845904523536028747135266249775724709369996",
    "inf": "(1/0)",
    "nan": "(0/0)",
}


_BRACKETS = {"ARRAY": registered("stack"), "INDEX": registered("index")}
_SHAPE = r"([0-9]{1,9})(?:\s*[x×*]\s*([0-9]{1,9}))?"  # compiled when a text declares a shape


class Function(NamedTuple):
    """A function that the text defines."""

    name: str
    parameters: tuple[str, ...]
    code: Code


class Scope:
    """The names of one text. They get their meaning in the order of its statements.

    Attributes:
        values: what each name means so far: the value it is bound to, a constant, or the leaf of a free name.
        leaves: the free names, in the order in which they first stand in the text.
        shapes: those that the text declares, by name, and those of the parameters of its layers.
        functions: those defined so far.
    """

    def __init__(self, text: str, statements: list[Statement], variables: frozenset[str]) -> None:
        self.text = text
        self.values: dict[str, Node] = {}
        self.leaves: dict[str, Node] = {}
        self.shapes: dict[str, Shape] = {}
        self.functions: dict[str, Function] = {}
        self._statements = statements
        self._variables = variables
        self._binders: dict[str, Statement] = {}  # the first statement that binds each name, in the whole text
        for statement in statements:
            if statement.name is not None and statement.shape is None:
                self._binders.setdefault(statement.name.text, statement)
        self._declarations: dict[str, Lexeme] = {}
        self._operations: dict[tuple[str, str, int], Op] = {}
        self._replaced: dict[str, None] = {}  # constants whose names mean something else here, in order

    def claim(self, statement: Statement, name: Lexeme) -> None:
        """Refuse a name that another statement binds."""
        first = self._binders[name.text]
        if first is not statement:
            assert first.name is not None
            line, column = line_and_column(self.text, first.name.start)
            raise self.error(f"`{name.text}` is bound twice; first in line {line}, column {column}", name)
        self._note_constant(name.text)

    def _note_constant(self, name: str) -> None:
        """Remember a name that stands for something else than the constant of that name."""
        if name in CONSTANTS:
            self._replaced[name] = None

    def declare(self, name: Lexeme, shape: Lexeme) -> None:
        """Give a free name the shape that a statement declares."""
        text = name.text
        first = self._declarations.setdefault(text, name)
        if first is not name:
            line, column = line_and_column(self.text, first.start)
            raise self.error(f"`{text}` is declared twice; first in line {line}, column {column}", name)
        if text in self._binders:
            raise self.error(f"`{text}` is bound in this text; a shape is declared for a free name", name)
        if text in CONSTANTS and text not in self._variables:
            raise self.error(f"`{text}` is a constant; a shape is declared for a free name", name)
        if text in self.shapes:
            raise self.error(f"`{text}` is a parameter of a layer, which gives it its shape", name)
        if text in self.values:
            raise self.error(f"`{text}` is used before its declaration", name)
        self.shapes[text] = self._shape(name, shape)
        self.leaves[text] = variable(text)

    def _shape(self, name: Lexeme, shape: Lexeme) -> Shape:
        """The shape that is written in a declaration."""
        written = shape.text[1:].strip()
        start = shape.start + shape.text.index(written, 1)
        if written.startswith("="):
            raise self.error("`:=` is not in the language; a value is bound with `=`", shape, "=")
        found = re.fullmatch(_SHAPE, written)
        if found is None:
            examples = f"`{name.text}: 3` and `{name.text}: 2x3`"
            raise ExpressionError(f"a shape is one or two whole numbers, as in {examples}", self.text, start)
        sizes = tuple(int(size) for size in found.groups() if size is not None)
        if 0 in sizes:
            raise ExpressionError("an array has no dimension of length 0", self.text, start)
        return sizes

    def parameter(self, name: str, shape: Shape, layer: Lexeme) -> Node:
        """The leaf of a parameter that a layer brings."""
        if name in self._binders or name in self._declarations:
            raise self.error(f"`{name}` is a parameter of this `{layer.text}`, and is not declared or bound", layer)
        if self.shapes.setdefault(name, shape) != shape:
            sizes = f"{self.shapes[name][-1]} and {shape[-1]}"
            raise self.error(f"the inputs of one `{layer.text}` have different lengths, {sizes}", layer)
        leaf = self.values.get(name)
        if leaf is None:
            leaf = self.values[name] = self.leaves[name] = variable(name)
        return leaf

    def define(self, statement: Statement) -> Function:
        """The function that a statement defines. It can be called once it is entered in `functions`."""
        name, parameters = statement.name, statement.parameters
        assert name is not None
        assert parameters is not None
        if ops.function(name.text) or name.text in LAYERS:
            raise self.error(f"`{name.text}` is built in; a function of one's own needs another name", name)
        self.claim(statement, name)
        if not parameters:
            raise self.error("a function has parameters; a value is bound without brackets", name, f"{name.text} =")
        known: dict[str, None] = {}
        for parameter in parameters:
            if parameter.type != "NAME":
                raise self.error(f"the parameters of a function are names, as in `{name.text}(t) = t^2`", parameter)
            if parameter.text in known:
                raise self.error(f"`{name.text}` has two parameters named `{parameter.text}`", parameter)
            self._note_constant(parameter.text)
            known[parameter.text] = None
        return Function(name.text, tuple(known), statement.code)

    def lookup(self, lexeme: Lexeme) -> Node:
        """The meaning of a name in the whole text: bound, a constant, or free. A free name gets its leaf here."""
        name = lexeme.text
        node = self.values.get(name)
        if node is not None:
            return node
        if name in self._binders:
            raise self._too_early(lexeme, self._binders[name])
        node = constant(name) if name in CONSTANTS and name not in self._variables else self._free(lexeme)
        self.values[name] = node
        return node

    def _free(self, lexeme: Lexeme) -> Node:
        """The leaf of a free name."""
        name = lexeme.text
        array, dot, attribute = name.rpartition(".")
        if dot and attribute == "T" and name not in self._variables:
            words = "`.T` is not in the language; rows are made columns by a function"
            raise self.error(words, lexeme, f"transpose({array})")
        self._note_constant(name)
        return self.leaves.setdefault(name, variable(name))

    def operation(self, lexeme: Lexeme, known: Mapping[str, Node]) -> Op:
        """The built-in operation that a call, or a pair of square brackets, means."""
        key = lexeme.type, lexeme.text, lexeme.operands
        found = self._operations.get(key)
        if found is None:
            candidates = (_BRACKETS[lexeme.type],) if lexeme.type in _BRACKETS else ops.function(lexeme.text)
            if not candidates:
                raise self._not_a_function(lexeme, lexeme.text in known or lexeme.text in self.values)
            if lexeme.type == "INDEX" and not candidates[0].accepts(lexeme.operands):
                raise self.error("an array takes one or two indices, as in `v[0]` and `M[i, j]`", lexeme)
            self.expect(lexeme, [(op.least, op.most) for op in candidates])
            found = self._operations[key] = next(op for op in candidates if op.accepts(lexeme.operands))
        return found

    def expect(self, lexeme: Lexeme, accepted: list[tuple[int, int | None]]) -> None:
        """Refuse a call with a number of arguments that is in none of the ranges."""
        count = lexeme.operands
        if any(least <= count and (most is None or count <= most) for least, most in accepted):
            return
        least = min(least for least, _ in accepted)
        limits = [most for _, most in accepted if most is not None]
        if len(limits) < len(accepted):
            words = f"{least} argument or more" if least == 1 else f"{least} arguments or more"
        else:
            counts = [str(n) for n in range(least, max(limits) + 1)]
            words = f"{' or '.join(counts)} argument{'s' if counts != ['1'] else ''}"
        raise self.error(f"`{lexeme.text}` takes {words}, not {count}", lexeme)

    def has_arrays(self) -> bool:
        """Whether anything in the text may be an array."""
        return bool(self.shapes) or "@" in self.text or any(op.structural for op in self._operations.values())

    def used_leaves(self) -> dict[str, Node]:
        """The free names and their leaves, without names that are only declared."""
        return {name: leaf for name, leaf in self.leaves.items() if name in self.values}

    def notes(self) -> Iterator[str]:
        """What the reader may want to know of a text without mistakes."""
        for name in self._replaced:
            digits = CONSTANTS[name]
            value = f" {digits[:7]}…" if digits[0].isdigit() else ""
            yield f"`{name}` is a variable here, not the constant{value}"
        used: set[tuple[str, bool]] = set()
        for statement in self._statements:
            own = {(parameter.text, False) for parameter in statement.parameters or ()}
            for code in (statement.target or (), statement.code):
                used |= {(lexeme.text, lexeme.type == "CALL") for lexeme in code} - own
        idle: dict[str, list[str]] = {}
        for statement in self._statements[:-1]:
            assert statement.name is not None
            is_function = statement.parameters is not None
            if (statement.name.text, is_function) not in used:
                done = "declared" if statement.shape is not None else "defined" if is_function else "bound"
                idle.setdefault(done, []).append(f"`{statement.name.text}`")
        for done, names in idle.items():
            yield f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {done} but never used"

    def error(self, message: str, lexeme: Lexeme, suggestion: str | None = None) -> ExpressionError:
        """An error at a lexeme."""
        return ExpressionError(message, self.text, lexeme.start, suggestion)

    def _too_early(self, lexeme: Lexeme, binder: Statement) -> ExpressionError:
        """The error for a name that has a value only later, or is a function."""
        name = lexeme.text
        assert binder.name is not None
        line, column = line_and_column(self.text, binder.name.start)
        if binder.parameters is not None:
            return self.error(
                f"`{name}` is a function (line {line}, column {column}); its arguments stand in brackets",
                lexeme,
                f"{name}(x)",
            )
        if binder.name.start < lexeme.start:
            return self.error(f"`{name}` is used in its own binding", lexeme)
        return self.error(f"`{name}` is used before its binding in line {line}, column {column}", lexeme)

    def _not_a_function(self, lexeme: Lexeme, is_value: bool) -> ExpressionError:
        """The error for a call of something that cannot be called, or not yet."""
        name = lexeme.text
        binder = self._binders.get(name)
        if binder is not None and binder.parameters is not None:
            assert binder.name is not None
            cycle = self._cycle(name)
            if cycle:
                return self.error(f"a function cannot call itself, directly or through others: {cycle}", lexeme)
            line, column = line_and_column(self.text, binder.name.start)
            return self.error(f"`{name}` is called before its definition in line {line}, column {column}", lexeme)
        close = suggest(name, [*ops.function_names(), *LAYERS, *self.functions])
        if is_value or close is None:
            arguments = self.text[self.text.index("(", lexeme.start) : lexeme.end]
            product = f"{name}*{arguments if is_quotable(arguments) else '('}"
            return self.error(f"`{name}` is not a function; multiplication is written `*`", lexeme, product)
        return self.error(f"there is no function `{name}`", lexeme, close)

    def _cycle(self, name: str) -> str:
        """The calls that lead from a function of the text back to it, as "f → g → f"; empty if none do."""
        came_from: dict[str, str] = {}
        waiting = [name]
        while waiting:
            caller = waiting.pop()
            for lexeme in self._binders[caller].code:
                called = lexeme.text
                if lexeme.type == "CALL" and called in self._binders and called not in came_from:
                    came_from[called] = caller
                    waiting.append(called)
        if name not in came_from:
            return ""
        path = [name, came_from[name]]
        while path[-1] != name:
            path.append(came_from[path[-1]])
        path.reverse()
        return " → ".join(path if len(path) <= 6 else [*path[:3], "…", *path[-2:]])

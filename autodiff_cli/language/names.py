"""Second step of reading: what the names of a text mean, and what is wrong with their use."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from autodiff_cli import ops
from autodiff_cli.graph.op import Op, Shape
from autodiff_cli.graph.registry import registered
from autodiff_cli.language.code import LAYERS, NO_CODE, Code, Instruction, LayerCall, Statement
from autodiff_cli.language.columns import ColumnNames, Level, Match, with_leaves
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.language.lexer import TRANSPOSED, Lexemes, is_name_of_level
from autodiff_cli.language.mistakes.names import (
    misplaced,
    misused_column,
    misused_text,
    no_function,
    too_early,
    wanted,
    without_value,
)
from autodiff_cli.language.parser import Parsed

# The constants, and how to write them where their name means something else.
CONSTANTS = {
    "pi": "3.14159265358979323846264338327950288419716939937511",
    "tau": "6.28318530717958647692528676655900576839433879875021",
    "e": "2.71828182845904523536028747135266249775724709369996",
    "inf": "(1/0)",
    "nan": "(0/0)",
}

_BRACKETS = {"ARRAY": registered("stack"), "INDEX": registered("index")}
LAYER_ARGUMENTS = (2, 3)
_SHAPE = r"([0-9]{1,9})(?:\s*[x×*]\s*([0-9]{1,9}))?"  # compiled when a text declares a shape


class Defined(NamedTuple):
    """A function that the text defines."""

    name: str
    parameters: tuple[str, ...]
    code: Code


@dataclass(slots=True)
class Names:
    """What the names of a text mean. One that is neither bound nor a constant is free.

    Attributes:
        statements: as parsed; with an error those before it.
        variables: the names of constants that are variables here.
        columns: what is known of those that are no numbers.
        of_columns: the names of leaves that stand for a match or a level of a column.
        met: the free names and constants that are used, each with the number of the lexeme where it first stands.
        binders: the first statement that binds each name, or defines it as a function, in the whole text.
        functions: those that the text defines.
        declared: the number of the lexeme where each name with a declared shape stands.
        shapes: those that the text declares, by name.
        operations: the built-in operation that each call, and each pair of square brackets, means.
        notes: what the reader may want to know of a text without mistakes.
        error: the first mistake.
    """

    lexemes: Lexemes
    statements: list[Statement]
    variables: frozenset[str]
    columns: ColumnNames
    of_columns: dict[str, Match | Level] = field(default_factory=dict)
    met: dict[str, int] = field(default_factory=dict)
    binders: dict[str, Statement] = field(default_factory=dict)
    functions: dict[str, Defined] = field(default_factory=dict)
    declared: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)
    operations: dict[Instruction, Op] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    error: ExpressionError | None = None

    def is_constant(self, name: str) -> bool:
        """Whether a name that the text does not bind is a constant."""
        return name in CONSTANTS and name not in self.variables


def resolve(parsed: Parsed, variables: frozenset[str], columns: ColumnNames) -> Names:
    """Give the names of a text their meaning.

    Args:
        variables: names of constants that are variables here.
    """
    names = Names(parsed.lexemes, parsed.statements, variables, columns, error=parsed.error)
    if columns.texts or columns.levels:
        names.statements = [_with_leaves(names, statement) for statement in parsed.statements]
    resolver = _Resolver(names)
    for number, statement in enumerate(names.statements):
        try:
            resolver.resolve(statement, number == len(names.statements) - 1)
        except ExpressionError as error:  # earlier in the text than what ended the parsing
            names.statements, names.error = names.statements[:number], error
            break
    if names.error is None:
        names.notes = tuple(resolver.notes())
    return names


def _with_leaves(names: Names, statement: Statement) -> Statement:
    """A statement whose matches and levels are leaves."""
    own = {parameter.text for parameter in (statement.parameters or NO_CODE).instructions}
    columns = ColumnNames(*({name for name in known if name not in own} for known in names.columns))
    code = with_leaves(statement.code, names.lexemes, columns, names.of_columns)
    target = statement.target and with_leaves(statement.target, names.lexemes, columns, names.of_columns)
    return statement._replace(code=code, target=target)


class _Resolver:
    """Goes through the statements of a text in their order."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.lexemes = names.lexemes
        self.known: set[str] = set()  # the names with a value so far
        self.settled: set[Instruction] = set()  # those that are right wherever they stand from here on
        self.replaced: dict[str, None] = {}  # constants whose names mean something else here, in order
        for statement in names.statements:
            if statement.name is not None and statement.shape is None:
                names.binders.setdefault(self.lexemes.words[statement.name], statement)

    def resolve(self, statement: Statement, is_last: bool) -> None:
        """Check one statement, and enter what it binds."""
        name = statement.name
        if name is None:
            if not is_last:
                raise misplaced(self.lexemes, statement)
            self.check(statement.target or NO_CODE)
            self.check(statement.code)
        elif statement.shape is not None:
            self.declare(name, statement.shape)
        elif statement.parameters is not None:
            self.define(statement, name, statement.parameters)
        else:
            self.claim(statement, name)
            self.check(statement.code)
            self.known.add(self.lexemes.words[name])
            return
        if is_last and name is not None:
            raise without_value(self.lexemes, statement, name)

    def claim(self, statement: Statement, name: int) -> None:
        """Refuse a name that another statement binds."""
        word = self.lexemes.words[name]
        first = self.names.binders[word]
        if first is not statement:
            assert first.name is not None
            line, column = self.lexemes.place(first.name)
            raise self.lexemes.error(f"`{word}` is bound twice; first in line {line}, column {column}", name)
        self.note_constant(word)

    def note_constant(self, name: str) -> None:
        """Remember a name that stands for something else than the constant of that name."""
        if name in CONSTANTS:
            self.replaced[name] = None

    def declare(self, name: int, shape: int) -> None:
        """Enter the shape that a statement declares for a free name."""
        names, word = self.names, self.lexemes.words[name]
        if word in names.declared:
            line, column = self.lexemes.place(names.declared[word])
            raise self.lexemes.error(f"`{word}` is declared twice; first in line {line}, column {column}", name)
        for wrong, what in ((word in names.binders, "bound in this text"), (names.is_constant(word), "a constant")):
            if wrong:
                raise self.lexemes.error(f"`{word}` is {what}; a shape is declared for a free name", name)
        if word in self.known:
            raise self.lexemes.error(f"`{word}` is used before its declaration", name)
        names.shapes[word] = self.shape(word, shape)
        names.declared[word] = name

    def shape(self, name: str, number: int) -> Shape:
        """The shape that is written in a declaration."""
        word, text = self.lexemes.words[number], self.lexemes.text
        written = word[1:].strip()
        start = self.lexemes.start(number) + word.index(written, 1)
        if written.startswith("="):
            raise self.lexemes.error("`:=` is not in the language; a value is bound with `=`", number, "=")
        found = re.fullmatch(_SHAPE, written)
        if found is None:
            words = f"a shape is one or two whole numbers, as in `{name}: 3` and `{name}: 2x3`"
            raise ExpressionError(words, text, start)
        sizes = tuple(int(size) for size in found.groups() if size is not None)
        if 0 in sizes:
            raise ExpressionError("an array has no dimension of length 0", text, start)
        return sizes

    def define(self, statement: Statement, name: int, parameters: Code) -> None:
        """Enter a function, once its body is checked."""
        word = self.lexemes.words[name]
        if ops.function(word) or word in LAYERS:
            raise self.lexemes.error(f"`{word}` is built in; a function of one's own needs another name", name)
        self.claim(statement, name)
        if not parameters.places:
            message = "a function has parameters; a value is bound without brackets"
            raise self.lexemes.error(message, name, f"{word} =")
        own: dict[str, None] = {}
        for parameter, place in zip(*parameters, strict=True):
            if parameter.type != "NAME":
                raise self.lexemes.error(f"the parameters of a function are names, as in `{word}(t) = t^2`", place)
            if parameter.text in own:
                raise self.lexemes.error(f"`{word}` has two parameters named `{parameter.text}`", place)
            self.note_constant(parameter.text)
            own[parameter.text] = None
        self.check(statement.code, own)
        self.names.functions[word] = Defined(word, tuple(own), statement.code)

    def check(self, code: Code, parameters: Container[str] = ()) -> None:
        """Refuse what means nothing in an expression, and enter the names that are met.

        Args:
            parameters: of the function whose body it is.
        """
        settled = self.settled
        if settled.issuperset(code.instructions):
            return
        for instruction, place in zip(*code, strict=True):
            if instruction in settled or (instruction.type == "NAME" and instruction.text in parameters):
                continue
            if instruction.type == "NAME":
                self.meet(instruction.text, place)
            elif isinstance(instruction, LayerCall):
                self.check_layer(instruction, place)
            elif instruction.type in ("CALL", *_BRACKETS):
                self.check_call(instruction, place, parameters)
            elif instruction.type == "TEXT":
                raise misused_text(self.names, place)
            elif instruction.type == "LEAF":
                self.check_leaf(self.names.of_columns[instruction.text], place, parameters)
            settled.add(instruction)

    def meet(self, name: str, place: int) -> None:
        """Enter a name, if it has no value so far: a constant, or a free name."""
        if name in self.known:
            return
        if name in self.names.columns.texts:
            raise misused_column(self.lexemes, name, place)
        if name in self.names.binders:
            raise too_early(self.names, name, place)
        is_transposed = name.endswith(TRANSPOSED) and name not in self.names.variables
        if is_transposed and not self.lexemes.is_in_backticks(place):
            words = "`.T` is not in the language; rows are made columns by a function"
            raise self.lexemes.error(words, place, f"transpose({name.removesuffix(TRANSPOSED)})")
        if not self.names.is_constant(name):
            self.note_constant(name)
        self.names.met[name] = place
        self.known.add(name)

    def check_leaf(self, leaf: Match | Level, place: int, parameters: Container[str]) -> None:
        """Enter the leaf for a match or a level, and refuse a level of what is no free name."""
        if isinstance(leaf, Level):
            name = leaf.parameter
            what = "bound in this text" if name in self.names.binders or name in parameters else "a constant"
            if what != "a constant" or self.names.is_constant(name):
                words = f"`{name}` is {what}; what has a value for each level of `{leaf.column}` is a free name"
                raise self.lexemes.error(words, place)
        self.names.met.setdefault(str(leaf), place)

    def check_call(self, call: Instruction, place: int, parameters: Container[str]) -> None:
        """Find the built-in operation that a call, or a pair of square brackets, means, if it is not a function of the
        text."""
        own = self.names.functions.get(call.text) if call.type == "CALL" else None
        if own is not None:
            self.expect(call, place, [(len(own.parameters), len(own.parameters))])
            return
        if call.type == "CALL" and call.text in LAYERS:  # with so few arguments that it is none
            self.expect(call, place, [LAYER_ARGUMENTS])
        candidates = (_BRACKETS[call.type],) if call.type in _BRACKETS else ops.function(call.text)
        if not candidates:
            raise no_function(self.names, call.text, place, call.text in self.known or call.text in parameters)
        if call.type == "INDEX" and not candidates[0].accepts(call.operands):
            raise self.lexemes.error("an array takes one or two indices, as in `v[0]` and `M[i, j]`", place)
        self.expect(call, place, [(op.least, op.most) for op in candidates])
        self.names.operations[call] = next(op for op in candidates if op.accepts(call.operands))

    def check_layer(self, call: LayerCall, place: int) -> None:
        """Refuse a call of a layer that is not written as it should be."""
        from autodiff_cli.language.layers import EXAMPLES, activation

        self.expect(call, place, [LAYER_ARGUMENTS])
        if call.operands == 3:
            words = f"the activation is the name of a function, as in `{EXAMPLES[call.text]}`"
            raise self.lexemes.error(words, place)
        activation(call, self.lexemes)

    def expect(self, call: Instruction, place: int, accepted: list[tuple[int, int | None]]) -> None:
        """Refuse a call with a number of arguments that is in none of the ranges."""
        if not any(least <= call.operands and (most is None or call.operands <= most) for least, most in accepted):
            raise self.lexemes.error(f"`{call.text}` {wanted(accepted)}, not {call.operands}", place)

    def notes(self) -> Iterator[str]:
        """What the reader may want to know of a text without mistakes."""
        for name in self.replaced:
            digits = CONSTANTS[name]
            value = f" {digits[:7]}…" if digits[0].isdigit() else ""
            yield f"`{name}` is a variable here, not the constant{value}"
        used = {(instruction.text, instruction.type == "CALL") for instruction in self.settled}
        idle: dict[str, list[str]] = {}
        for statement in self.names.statements[:-1]:
            assert statement.name is not None
            name, is_function = self.lexemes.words[statement.name], statement.parameters is not None
            if (name, is_function) not in used and not is_name_of_level(name):  # the level's parameter uses it
                done = "declared" if statement.shape is not None else "defined" if is_function else "bound"
                idle.setdefault(done, []).append(f"`{name}`")
        for done, names in idle.items():
            yield f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {done} but never used"

"""First step of reading: text to statements in postfix code.

A loop runs the grammar's tables over the lexemes. It only appends to lists, so no tree is built and nothing recurses
over depth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from autodiff_cli.language.code import LAYERS, Code, Instruction, LayerCall, Statement
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.language.lexer import Lexemes
from autodiff_cli.language.tables import UNFIT, Production, Tables, grammar_tables

LONGEST_TEXT = 5_000_000  # characters


class Parsed(NamedTuple):
    """What a text says.

    Attributes:
        statements: with an error those up to it, the last of them as far as it was read, so that an earlier mistake of
            another kind can be reported first.
        error: what ended the reading before the end of the text.
    """

    lexemes: Lexemes
    statements: list[Statement]
    error: ExpressionError | None


def parse(text: str) -> Parsed:
    """The statements of a text."""
    tables = grammar_tables()
    if not isinstance(text, str):
        raise TypeError(f"an expression is a text, not {type(text).__name__}")
    if len(text) > LONGEST_TEXT:
        message = (
            f"the text has more than {LONGEST_TEXT:,} characters, the most that are read; "
            "from Python, `autodiff_cli.language.parser.LONGEST_TEXT` sets another limit"
        )
        return Parsed(tables.lexer.lex(""), [], ExpressionError(message, text, LONGEST_TEXT))
    lexemes = tables.lexer.lex(text)
    emitter = _Emitter(lexemes)
    unfit = _run(tables, emitter)
    if unfit is None:
        return Parsed(lexemes, emitter.done, lexemes.excess())
    from autodiff_cli.language.mistakes.syntax import syntax_error

    number, states = unfit
    accepts = {type for type in tables.terminals if _fits(tables, states, type)}
    return Parsed(lexemes, emitter.unfinished(), syntax_error(lexemes, number, accepts))


# The rules that append an instruction with a fixed number of operands: its type, which of the rule's symbols is its
# lexeme, counted from the end, and the operands.
FIXED = {
    "name": ("NAME", -1, 0),
    "number": ("NUMBER", -1, 0),
    "text": ("TEXT", -1, 0),
    "infix": ("INFIX", -2, 2),
    "link": ("LINK", -2, 2),
    "prefix": ("PREFIX", -2, 1),
    "postfix": ("POSTFIX", -1, 1),
    "group": ("GROUP", -3, 1),
    "call_of_none": ("CALL", -3, 0),
    "call_of_one": ("CALL", -4, 1),
    "array_of_one": ("ARRAY", -3, 1),
    "element_by_one": ("INDEX", -3, 2),
}


class _Emitter:
    """Appends the code of a text, and its statements once they are complete.

    The methods without an underscore bear the names of rules of the grammar. Each gets the values of the rule's
    symbols: the numbers of lexemes, or what the method for a symbol gave.
    """

    def __init__(self, lexemes: Lexemes) -> None:
        self.lexemes = lexemes
        self.done: list[Statement] = []
        self.code = Code([], [])
        self._begin = 0  # of the statement at hand
        self._counted: dict[tuple[str, str, int], Instruction] = {}

    def two(self, _: list[Any]) -> int:
        return 2

    def further(self, values: list[Any]) -> int:
        count: int = values[0]
        return count + 1

    def call_of_many(self, values: list[Any]) -> None:
        place, count = values[0], values[2]
        name = self.lexemes.words[place]
        if name in LAYERS:
            instructions, places = self.code
            named = count == 3 and instructions[-1].type == "NAME"
            activation = places.pop() if named and instructions.pop() else None
            self._append(LayerCall(name, count - named, activation), place)
        else:
            self._append_counted("CALL", place, count)

    def array_of_many(self, values: list[Any]) -> None:
        self._append_counted("ARRAY", values[0], values[1])

    def element_by_many(self, values: list[Any]) -> None:
        self._append_counted("INDEX", values[1], 1 + values[2])

    def _append_counted(self, type: str, place: int, count: int) -> None:
        key = type, self.lexemes.words[place], count
        self._append(self._counted.setdefault(key, Instruction(*key)), place)

    def _append(self, instruction: Instruction, place: int) -> None:
        self.code.instructions.append(instruction)
        self.code.places.append(place)

    def header(self, values: list[Any]) -> tuple[int, Code]:
        return values[0], self._take()

    def target(self, _: list[Any]) -> Code:
        return self._take()

    def expression(self, _: list[Any]) -> None:
        self.done.append(Statement(self._take()))

    def binding(self, values: list[Any]) -> None:
        self.done.append(Statement(self._take(), name=values[0]))

    def function(self, values: list[Any]) -> None:
        name, parameters = values[0]
        self.done.append(Statement(self._take(), name=name, parameters=parameters))

    def model(self, values: list[Any]) -> None:
        self.done.append(Statement(self._take(), target=values[0]))

    def declaration(self, values: list[Any]) -> None:
        self.done.append(Statement(self._take(), name=values[0], shape=values[1]))

    def sequence(self, _: list[Any]) -> None:
        """The statements are in `done` already."""

    start = sequence

    def unfinished(self) -> list[Statement]:
        """The statements so far, with the code of the one that could not be finished."""
        return [*self.done, Statement(self._take())]

    def _take(self) -> Code:
        """The code since this was last asked for."""
        begin, self._begin = self._begin, len(self.code.places)
        return Code(self.code.instructions[begin:], self.code.places[begin:])


class _Instructions(dict[str, Instruction]):
    """The instructions that a rule appends, by word."""

    def __init__(self, type: str, operands: int) -> None:
        self._type, self._operands = type, operands

    def __missing__(self, word: str) -> Instruction:
        instruction = self[word] = Instruction(self._type, word, self._operands)
        return instruction


class _Completion(NamedTuple):
    """What is done when a rule is complete.

    Attributes:
        symbol: what the rule makes.
        further: how many symbols it has besides its first.
        instructions, lexeme: of a rule that appends one with a fixed number of operands, and which symbol of the rule
            is its lexeme, counted from the end.
        call: of a rule that does something else.
    """

    symbol: str
    further: int
    instructions: _Instructions | None
    lexeme: int
    call: Callable[[list[Any]], Any] | None


def _completion(rule: Production, emitter: _Emitter) -> _Completion:
    if rule.name in FIXED:
        type, lexeme, operands = FIXED[rule.name]
        return _Completion(rule.symbol, rule.size - 1, _Instructions(type, operands), lexeme, None)
    return _Completion(rule.symbol, rule.size - 1, None, 0, getattr(emitter, rule.name) if rule.name else None)


def _run(tables: Tables, emitter: _Emitter) -> tuple[int, list[int]] | None:
    """Run the tables over the lexemes. None if these are a text of the language, else the number of the first that does
    not fit, and the states of the parser there."""
    actions, gotos = tables.actions, tables.gotos
    completions = [_completion(rule, emitter) for rule in reversed(tables.rules)]  # that of rule k at ~k
    words, (instructions, places) = emitter.lexemes.words, emitter.code
    states: list[int] = []
    values: list[Any] = []
    state = tables.start
    for number, type in enumerate(emitter.lexemes.types):
        while (action := actions[state].get(type, UNFIT)) < 0:
            symbol, further, known, lexeme, call = completions[action]
            if known is not None:
                place = values[lexeme]
                instructions.append(known[words[place]])
                places.append(place)
            elif call is not None:
                values[~further] = call(values[~further:])
            if further:
                del states[-further:]
                del values[-further:]
            state = gotos[states[-1]][symbol][type]
        if action == UNFIT:
            return number, [*states, state]
        states.append(state)
        values.append(number)
        state = action
    return None


def _fits(tables: Tables, states: list[int], type: str) -> bool:
    """Whether a text that has led to these states could go on with a lexeme of this type."""
    states = states.copy()
    while (action := tables.actions[states[-1]].get(type, UNFIT)) < 0:
        rule = tables.rules[~action]
        del states[len(states) - rule.size :]
        states.append(tables.gotos[states[-1]][rule.symbol][type])
    return action != UNFIT

"""The parser, the first step of reading an expression: it turns a text into statements in postfix code.

The code of an expression is a flat list of instructions in the order of evaluation. Each takes a number of operands
from a stack: `x*y + sin(x)` is `x y * x sin +`. A loop (`_run_tables`) runs the tables of an LALR(1) parser over the
lexemes and appends instructions. It builds no tree and never recurses, so the depth of an expression costs nothing.

Lark computes the tables from the grammar. They are stored in the user's cache as plain data, and Lark is imported only
when they are not there.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from autodiff_cli.graph.tape import LazyTable
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.language.lexer import END, LAYER_FUNCTIONS, Lexemes, Lexer
from autodiff_cli.system import entry_name, load, store

Span = tuple[int, int]  # start and end in the source, in characters from 0

MAX_TEXT_LENGTH = 5_000_000  # characters, so that a wrong file is refused before it fills the memory


# --- Postfix code

# Other spellings of operators, and the operator that each means.
OPERATOR_ALIASES = {"**": "^", "×": "*", "·": "*", "÷": "/", "−": "-", "≤": "<=", "≥": ">=", "≠": "!="}


class Instruction:
    """One step of evaluation. Equal steps of a text share one instruction.

    Attributes:
        type: `NAME` or `NUMBER` for a leaf; `INFIX`, `PREFIX` or `POSTFIX` for an operator; `LINK` for each operator of
            a chained comparison after the first; `GROUP` for brackets, which do nothing; `CALL`, `LAYER`, `ARRAY` or
            `INDEX`; `TEXT` for quoted text. A comparison with quoted text (`group == 'A'`) and a parameter with levels
            (`a[group]`) become one `LEAF`, after two of type `WORD` that do nothing.
        text: the operator or function as written; the canonical form of a name.
        operands: the number of values it takes from the stack.
    """

    __slots__ = ("operands", "text", "type")

    def __init__(self, type: str, text: str, operands: int) -> None:
        self.type = type
        self.text = text
        self.operands = operands

    def __repr__(self) -> str:
        return f"<{self.type} {self.text!r} of {self.operands}>"


class LayerCall(Instruction):
    """A call of one of `LAYER_FUNCTIONS`.

    Attributes:
        activation: the number of the lexeme that names the activation, its third argument; None if there is no third
            argument, or if it is not a bare name.
    """

    __slots__ = ("activation",)

    def __init__(self, text: str, operands: int, activation: int | None) -> None:
        super().__init__("LAYER", text, operands)
        self.activation = activation


class Code(NamedTuple):
    """The code of an expression.

    Attributes:
        instructions: in the order of evaluation.
        numbers: for each instruction the number of its lexeme: the operator, function name, opening bracket or leaf.
    """

    instructions: list[Instruction]
    numbers: list[int]


EMPTY_CODE = Code([], [])


class Statement(NamedTuple):
    """One statement: an expression, `name = code`, `name(parameters) = code`, `target ~ code` or `name: shape`.

    Attributes:
        code: the expression; empty for a declaration of a shape.
        name: the number of the lexeme of the name.
        parameters: the code between the brackets of a function's definition; correct ones are names only.
        target: the left side of `~`.
        shape: the number of the lexeme that has the colon and the shape.
    """

    code: Code
    name: int | None = None
    parameters: Code | None = None
    target: Code | None = None
    shape: int | None = None


def spans(code: Code, lexemes: Lexemes) -> dict[int, Span]:
    """Return the span in the source of each instruction with its operands, by the number of its lexeme.

    Each link of a chained comparison after the first is two operations. The span of its `and`, which begins where the
    chain begins, is at the lexeme's number; the span of its comparison is at ~number.
    """
    extents: dict[int, Span] = {}
    stack: list[tuple[int, int, int]] = []  # start and end of each value, and where its last operand starts
    for instruction, number in zip(*code, strict=True):
        operands = stack[len(stack) - instruction.operands :]
        del stack[len(stack) - instruction.operands :]
        start = min([lexemes.start(number), *(begin for begin, _, _ in operands)])
        end = max([lexemes.end(number), *(end for _, end, _ in operands)])
        extents[number] = (start, end)
        if instruction.type == "LINK":
            extents[~number] = (operands[0][2], end)
        stack.append((start, end, operands[-1][0] if operands else start))
    return extents


# --- Parser tables

CACHE_FORMAT = "1"  # version of the stored tables

StateRow = dict[str, int]  # a number for each symbol, in one state of the parser
REJECT = sys.maxsize  # the action at a terminal that is not allowed in a state


class Production(NamedTuple):
    """A rule of the grammar.

    Attributes:
        symbol: the symbol on its left side.
        size: the number of symbols on its right side.
        name: the method of `_Emitter`, or the entry of `FIXED_ARITY_RULES`, that handles it; empty for a rule that only
            passes on the one symbol on its right side.
    """

    symbol: str
    size: int
    name: str


class ParserTables:
    """The tables of an LALR(1) parser.

    Attributes:
        rules: the rules of the grammar.
        actions: for each state and terminal, the state to shift to, or ~k to reduce by rule k. A terminal that is
            missing is a syntax error.
        gotos: for each state, completed symbol and following terminal, the next state.
        start: the initial state. A text is complete when its end can be shifted.
        terminals: the names of all terminals.
        lexer: the lexer for the grammar's terminals.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.rules = [Production(*rule) for rule in data["rules"]]
        self.actions: list[StateRow] = data["actions"]
        self.gotos = [
            {symbol: LazyTable(functools.partial(self._next_state, row, symbol)) for symbol in row}
            for row in data["gotos"]
        ]
        self.start: int = data["start"]
        self.terminals = frozenset().union(*self.actions)
        self.lexer = Lexer(data["terminals"], data["blank"])

    def _next_state(self, gotos: StateRow, symbol: str, terminal: str) -> int:
        """Return the state after a completed symbol, if a terminal follows.

        An operand passes through one rule for each level of precedence. The state where that ends depends only on the
        state below and on the terminal that follows, so it is computed once for each, and all those rules are skipped.
        """
        state = gotos[symbol]
        while (action := self.actions[state].get(terminal, REJECT)) < 0 and not self.rules[~action].name:
            state = gotos[self.rules[~action].symbol]
        return state


@functools.cache
def grammar_tables() -> ParserTables:
    """Return the tables of the language, from the user's cache if it has them."""
    grammar = grammar_path().read_text(encoding="utf-8")
    name = entry_name("grammar", CACHE_FORMAT, grammar)
    stored = load(name)
    data = _build_tables(grammar) if stored is None else json.loads(stored)
    if stored is None:
        store(name, json.dumps(data).encode())
    return ParserTables(data)


def _build_tables(grammar: str) -> dict[str, Any]:
    """Compute the tables of a grammar with Lark, as data for JSON."""
    import lark

    class Unused(lark.lexer.Lexer):
        """A placeholder for Lark's lexers, which need a pattern for every terminal."""

        def __init__(self, conf: Any) -> None:
            """Accept Lark's configuration, and ignore it."""

        def lex(self, *_: Any) -> Any:
            raise NotImplementedError

    parser = lark.Lark(grammar, parser="lalr", strict=True, lexer=Unused)
    serialized, memo = parser.memo_serialize([lark.grammar.Rule])
    table = serialized["parser"]["parser"]
    symbols, states = table["tokens"], table["states"]
    numbers: dict[int, int] = {}  # our numbers of the rules, by Lark's numbers
    actions: list[StateRow] = [{} for _ in states]
    gotos: list[StateRow] = [{} for _ in states]
    for state, row in states.items():
        for symbol, (is_rule, argument) in row.items():
            name = symbols[symbol]
            if is_rule:
                actions[state][name] = ~numbers.setdefault(argument["@"], len(numbers))
            else:
                (actions if name.isupper() else gotos)[state][name] = argument
    actions[table["end_states"]["start"]][END] = table["end_states"]["start"]
    patterns = {terminal.name: terminal.pattern.to_regexp() for terminal in parser.terminals if terminal.pattern}
    blank = [patterns.pop(name) for name in parser.ignore_tokens]
    return {
        "rules": [_production(memo[number]) for number in numbers],
        "actions": actions,
        "gotos": gotos,
        "start": table["start_states"]["start"],
        "terminals": patterns,
        "blank": blank,
    }


def _production(rule: dict[str, Any]) -> Production:
    """Return a rule, from Lark's record of it."""
    symbol, size = rule["origin"]["name"], len(rule["expansion"])
    is_passed_on = rule["options"]["expand1"] and size == 1 and rule["alias"] is None
    return Production(symbol, size, "" if is_passed_on else rule["alias"] or symbol)


def grammar_path() -> Path:
    """Return the path of the grammar: inside the package in a wheel, beside the package in a checkout."""
    package = Path(__file__).parents[1]
    for folder in (package, package.parent):
        path = folder / "grammars" / "expression.lark"
        if path.is_file():
            return path
    raise FileNotFoundError(f"the grammar, expression.lark, is missing from the installation at {package}")


# --- Parsing


class ParsedText(NamedTuple):
    """The statements of a text.

    Attributes:
        lexemes: the lexemes of the text.
        statements: the statements; after an error, those before it and the incomplete last one, so that a later step
            can report a mistake of another kind that stands earlier in the text.
        error: the first syntax error; None if there is none.
    """

    lexemes: Lexemes
    statements: list[Statement]
    error: ExpressionError | None


def parse(text: str) -> ParsedText:
    """Parse a text into statements in postfix code.

    A syntax error is returned as `ParsedText.error`, not raised.
    """
    tables = grammar_tables()
    if not isinstance(text, str):
        raise TypeError(f"an expression must be text, not {type(text).__name__}")
    if len(text) > MAX_TEXT_LENGTH:
        message = (
            f"the text is longer than the limit of {MAX_TEXT_LENGTH:,} characters; "
            "from Python, `autodiff_cli.language.parser.MAX_TEXT_LENGTH` sets another limit"
        )
        return ParsedText(Lexemes(tables.lexer, ""), [], ExpressionError(message, text, MAX_TEXT_LENGTH))
    lexemes = Lexemes(tables.lexer, text)
    emitter = _Emitter(lexemes)
    rejected = _run_tables(tables, emitter)
    if rejected is None:
        return ParsedText(lexemes, emitter.statements, lexemes.word_error())
    from autodiff_cli.language.diagnostics import syntax_error

    number, states = rejected
    accepts = {type for type in tables.terminals if _accepts(tables, states, type)}
    return ParsedText(lexemes, emitter.partial_statements(), syntax_error(lexemes, number, accepts))


# The rules that append an instruction with a fixed number of operands: the instruction's type, the index of its lexeme
# among the rule's symbols, and the number of operands.
FIXED_ARITY_RULES = {
    "name": ("NAME", -1, 0), "number": ("NUMBER", -1, 0), "text": ("TEXT", -1, 0), "infix": ("INFIX", -2, 2),
    "link": ("LINK", -2, 2), "prefix": ("PREFIX", -2, 1), "postfix": ("POSTFIX", -1, 1), "group": ("GROUP", -3, 1),
    "call_of_none": ("CALL", -3, 0), "call_of_one": ("CALL", -4, 1), "array_of_one": ("ARRAY", -3, 1),
    "element_by_one": ("INDEX", -3, 2),
}  # fmt: skip


class _Emitter:
    """Collects the code of a text, and its statements as they are completed.

    Each method without an underscore handles the rule of that name in the grammar. It takes the values of the symbols:
    numbers of lexemes for terminals, and for other symbols what their own methods returned.
    """

    def __init__(self, lexemes: Lexemes) -> None:
        self.lexemes = lexemes
        self.statements: list[Statement] = []
        self.code = Code([], [])
        self._start = 0  # the first instruction of the current statement
        self._by_arity: dict[tuple[str, str, int], Instruction] = {}

    def two(self, _: list[Any]) -> int:
        return 2

    def further(self, values: list[Any]) -> int:
        count: int = values[0]
        return count + 1

    def call_of_many(self, values: list[Any]) -> None:
        number, count = values[0], values[2]
        name = self.lexemes.words[number]
        if name in LAYER_FUNCTIONS:
            instructions, numbers = self.code
            named = count == 3 and instructions[-1].type == "NAME"
            activation = numbers.pop() if named and instructions.pop() else None
            self._append(LayerCall(name, count - named, activation), number)
        else:
            self._append_counted("CALL", number, count)

    def array_of_many(self, values: list[Any]) -> None:
        self._append_counted("ARRAY", values[0], values[1])

    def element_by_many(self, values: list[Any]) -> None:
        self._append_counted("INDEX", values[1], 1 + values[2])

    def _append_counted(self, type: str, number: int, count: int) -> None:
        key = type, self.lexemes.words[number], count
        self._append(self._by_arity.setdefault(key, Instruction(*key)), number)

    def _append(self, instruction: Instruction, number: int) -> None:
        self.code.instructions.append(instruction)
        self.code.numbers.append(number)

    def header(self, values: list[Any]) -> tuple[int, Code]:
        return values[0], self._take_code()

    def target(self, _: list[Any]) -> Code:
        return self._take_code()

    def expression(self, _: list[Any]) -> None:
        self.statements.append(Statement(self._take_code()))

    def binding(self, values: list[Any]) -> None:
        self.statements.append(Statement(self._take_code(), name=values[0]))

    def function(self, values: list[Any]) -> None:
        name, parameters = values[0]
        self.statements.append(Statement(self._take_code(), name=name, parameters=parameters))

    def model(self, values: list[Any]) -> None:
        self.statements.append(Statement(self._take_code(), target=values[0]))

    def declaration(self, values: list[Any]) -> None:
        self.statements.append(Statement(self._take_code(), name=values[0], shape=values[1]))

    def sequence(self, _: list[Any]) -> None:
        """Do nothing: `statements` has all statements."""

    start = sequence

    def partial_statements(self) -> list[Statement]:
        """Return the statements so far, with the code of the incomplete one."""
        return [*self.statements, Statement(self._take_code())]

    def _take_code(self) -> Code:
        """Return the code that was appended since the last call."""
        begin, self._start = self._start, len(self.code.numbers)
        return Code(self.code.instructions[begin:], self.code.numbers[begin:])


class _Reduction(NamedTuple):
    """The step of the parser for a complete rule.

    Attributes:
        symbol: the symbol on the rule's left side.
        extra_symbols: the number of symbols on its right side after the first.
        instructions: the instructions to append, for a rule with a fixed number of operands; None for others.
        lexeme: the index of the instruction's lexeme among the rule's symbols.
        action: the method of `_Emitter` for other rules; None if there is nothing to do.
    """

    symbol: str
    extra_symbols: int
    instructions: LazyTable | None
    lexeme: int
    action: Callable[[list[Any]], Any] | None


def _reduction(rule: Production, emitter: _Emitter) -> _Reduction:
    if rule.name in FIXED_ARITY_RULES:
        type, lexeme, operands = FIXED_ARITY_RULES[rule.name]
        instructions = LazyTable(lambda word: Instruction(type, word, operands))
        return _Reduction(rule.symbol, rule.size - 1, instructions, lexeme, None)
    return _Reduction(rule.symbol, rule.size - 1, None, 0, getattr(emitter, rule.name) if rule.name else None)


def _run_tables(tables: ParserTables, emitter: _Emitter) -> tuple[int, list[int]] | None:
    """Run the tables over the lexemes.

    Returns:
        None for a correct text; else the number of the first lexeme that is not allowed, and the parser's states there.
    """
    actions, gotos = tables.actions, tables.gotos
    reductions = [_reduction(rule, emitter) for rule in reversed(tables.rules)]  # rule k is at index ~k
    words, (instructions, numbers) = emitter.lexemes.words, emitter.code
    states: list[int] = []
    values: list[Any] = []
    state = tables.start
    for number, type in enumerate(emitter.lexemes.types):
        while (action := actions[state].get(type, REJECT)) < 0:
            symbol, extra, cache, lexeme, call = reductions[action]
            if cache is not None:
                at = values[lexeme]
                instructions.append(cache[words[at]])
                numbers.append(at)
            elif call is not None:
                values[~extra] = call(values[~extra:])
            if extra:
                del states[-extra:]
                del values[-extra:]
            state = gotos[states[-1]][symbol][type]
        if action == REJECT:
            return number, [*states, state]
        states.append(state)
        values.append(number)
        state = action
    return None


def _accepts(tables: ParserTables, states: list[int], type: str) -> bool:
    """Whether a lexeme of this type is allowed in these states of the parser."""
    states = states.copy()
    while (action := tables.actions[states[-1]].get(type, REJECT)) < 0:
        rule = tables.rules[~action]
        del states[len(states) - rule.size :]
        states.append(tables.gotos[states[-1]][rule.symbol][type])
    return action != REJECT

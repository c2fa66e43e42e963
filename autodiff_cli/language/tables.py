"""The parser's tables: what Lark makes of the grammar, as plain data that the cache can keep.

The only module that imports Lark, and only while there are no tables yet. The tables of a grammar are the same whoever
makes them: its rules, and for each state of the parser what to do at each terminal, and where to go on once a rule is
complete.
"""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from autodiff_cli.cache import entry_name, load, store
from autodiff_cli.language.lexer import END, Lexer

FORMAT = "1"  # of what the cache keeps

Row = dict[str, int]
UNFIT = sys.maxsize  # the action at a terminal that does not fit


class Production(NamedTuple):
    """A rule of the grammar: the symbol that it makes, of how many symbols, and the name of what then happens; empty
    for a rule that hands on the one symbol that it is made of."""

    symbol: str
    size: int
    name: str


class Tables:
    """The tables of an LALR(1) parser.

    Attributes:
        rules: of the grammar.
        actions: for each state what to do at a terminal: go to a state, or complete rule k, which is written ~k. What
            is missing is a mistake.
        gotos: for each state where to go when a symbol is complete and a terminal follows.
        start: the state before a text. A text is whole when its end leads to a state.
        terminals: all that there are.
        lexer: of the grammar's terminals.
    """

    def __init__(self, made: dict[str, Any]) -> None:
        self.rules = [Production(*rule) for rule in made["rules"]]
        self.actions: list[Row] = made["actions"]
        self.gotos = [{symbol: _Settled(self, row, symbol) for symbol in row} for row in made["gotos"]]
        self.start: int = made["start"]
        self.terminals = frozenset().union(*self.actions)
        self.lexer = Lexer(made["terminals"], made["blank"])


class _Settled(Row):
    """Where a state leads when a symbol is complete: beyond the rules that only hand it on, by the terminal that
    follows.

    An operand passes through a rule for every level of precedence. Where that ends depends only on the state below it
    and the terminal after it, so it is found once for each.
    """

    def __init__(self, tables: Tables, gotos: Row, symbol: str) -> None:
        self._tables, self._gotos, self._symbol = tables, gotos, symbol

    def __missing__(self, terminal: str) -> int:
        rules, actions = self._tables.rules, self._tables.actions
        state = self._gotos[self._symbol]
        while (action := actions[state].get(terminal, UNFIT)) < 0 and not rules[~action].name:
            state = self._gotos[rules[~action].symbol]
        self[terminal] = state
        return state


@functools.cache
def grammar_tables() -> Tables:
    """The tables of the language: from the cache if it has them."""
    grammar = grammar_file().read_text(encoding="utf-8")
    name = entry_name("grammar", FORMAT, grammar)
    kept = load(name)
    made = _made(grammar) if kept is None else json.loads(kept)
    if kept is None:
        store(name, json.dumps(made).encode())
    return Tables(made)


def _made(grammar: str) -> dict[str, Any]:
    """The tables of a grammar, as JSON has them."""
    import lark

    class Unused(lark.lexer.Lexer):
        """In the place of Lark's lexers, which want a pattern for every terminal."""

        def __init__(self, conf: Any) -> None:
            """Lark hands over its configuration."""

        def lex(self, *_: Any) -> Any:
            raise NotImplementedError

    parser = lark.Lark(grammar, parser="lalr", strict=True, lexer=Unused)
    whole, memo = parser.memo_serialize([lark.grammar.Rule])
    table = whole["parser"]["parser"]
    symbols, states = table["tokens"], table["states"]
    numbers: dict[int, int] = {}  # of the rules, by those that Lark has for them
    actions: list[Row] = [{} for _ in states]
    gotos: list[Row] = [{} for _ in states]
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
        "rules": [_rule(memo[number]) for number in numbers],
        "actions": actions,
        "gotos": gotos,
        "start": table["start_states"]["start"],
        "terminals": patterns,
        "blank": blank,
    }


def _rule(rule: dict[str, Any]) -> Production:
    """A rule, from Lark's record of it."""
    symbol, size = rule["origin"]["name"], len(rule["expansion"])
    hands_on = rule["options"]["expand1"] and size == 1 and rule["alias"] is None
    return Production(symbol, size, "" if hands_on else rule["alias"] or symbol)


def grammar_file() -> Path:
    """Where the grammar is: inside the package in a wheel, beside it in a checkout or an editable install."""
    package = Path(__file__).parents[1]
    for folder in (package, package.parent):
        found = folder / "grammars" / "expression.lark"
        if found.is_file():
            return found
    raise FileNotFoundError(f"the grammar, expression.lark, is missing from the installation at {package}")

"""Text to postfix code, by Lark's LALR parser. The only module that imports Lark.

The callbacks are embedded in the parser and only append to the code of the statement at hand, so that no tree is built
and nothing recurses over depth.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lark
import lark.lexer

from autodiff_cli.language.code import LAYERS, Chain, Code, Layer, Lexeme, Statement
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.language.lexer import Lexer

LONGEST_TEXT = 5_000_000  # characters

_one_at_a_time = threading.Lock()  # the callbacks write to the one parser's state


def parse(text: str) -> tuple[list[Statement], ExpressionError | None]:
    """The statements of a text, and the error that ended the reading, if one did.

    With an error come the statements up to it, the last of them as far as it was read, so that an earlier mistake of
    another kind can be reported first.
    """
    if len(text) > LONGEST_TEXT:
        message = (
            f"the text has more than {LONGEST_TEXT:,} characters, the most that are read; "
            "from Python, `autodiff_cli.language.parser.LONGEST_TEXT` sets another limit"
        )
        return [], ExpressionError(message, text, LONGEST_TEXT)
    with _one_at_a_time:
        parser, emitter = _parser()
        emitter.done, emitter.code = [], []
        try:
            parser.parse(text)
        except lark.exceptions.UnexpectedToken as unexpected:
            from autodiff_cli.language.mistakes import syntax_error

            lexemes = _LarkLexer(parser.lexer_conf).lex(text)
            return emitter.unfinished(), syntax_error(text, lexemes, unexpected.token, unexpected.accepts or set())
        return emitter.done, None


class _Emitter(lark.Transformer[Any, Any]):
    """The callbacks of the grammar's rules. Each gets what its rule matched: lexemes, or what a callback returned."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[Statement] = []
        self.code: Code = []

    def leaf(self, children: list[Lexeme]) -> None:
        self.code.append(children[0])

    def infix(self, children: list[Lexeme]) -> None:
        operator = children[1]
        operator.operands = 2
        self.code.append(operator)

    def prefix(self, children: list[Lexeme]) -> None:
        operator = children[0]
        operator.operands = 1
        self.code.append(operator)

    def postfix(self, children: list[Lexeme]) -> None:
        operator = children[1]
        operator.operands = 1
        self.code.append(operator)

    def group(self, children: list[Lexeme]) -> None:
        opening, _, closing = children
        opening.operands = 1
        opening.end = closing.end
        self.code.append(opening)

    def chain(self, children: list[Lexeme]) -> None:
        self.code.append(Chain(tuple(child for child in children if child is not None)))

    def call_of_none(self, children: list[Any]) -> None:
        self._call(children[0], 0, children[2])

    def call_of_one(self, children: list[Any]) -> None:
        self._call(children[0], 1, children[3])

    def call_of_many(self, children: list[Any]) -> None:
        self._call(children[0], children[2], children[3])

    def _call(self, function: Lexeme, count: int, closing: Lexeme) -> None:
        if function.text in LAYERS:
            named = count == 3 and self.code[-1].type == "NAME"
            function = Layer(function, self.code.pop() if named else None)
            self._instruction("LAYER", function, count - named, closing)
        else:
            self._instruction("CALL", function, count, closing)

    def array_of_one(self, children: list[Any]) -> None:
        self._instruction("ARRAY", children[0], 1, children[2])

    def array_of_many(self, children: list[Any]) -> None:
        self._instruction("ARRAY", children[0], children[1], children[2])

    def element_by_one(self, children: list[Any]) -> None:
        self._instruction("INDEX", children[1], 2, children[3])

    def element_by_many(self, children: list[Any]) -> None:
        self._instruction("INDEX", children[1], 1 + children[2], children[3])

    def _instruction(self, type: str, lexeme: Lexeme, count: int, closing: Lexeme) -> None:
        """Append the instruction that a lexeme with its brackets is."""
        lexeme.type = type
        lexeme.operands = count
        lexeme.end = closing.end
        self.code.append(lexeme)

    def two(self, _children: list[Any]) -> int:
        return 2

    def further(self, children: list[Any]) -> int:
        count: int = children[0]
        return count + 1

    def header(self, children: list[Any]) -> tuple[Lexeme, Code]:
        return children[0], self._take()

    def target(self, _children: list[Any]) -> Code:
        return self._take()

    def expression(self, _children: list[None]) -> None:
        self.done.append(Statement(self._take()))

    def binding(self, children: list[Any]) -> None:
        self.done.append(Statement(self._take(), name=children[0]))

    def function(self, children: list[Any]) -> None:
        name, parameters = children[0]
        self.done.append(Statement(self._take(), name=name, parameters=parameters))

    def model(self, children: list[Any]) -> None:
        self.done.append(Statement(self._take(), target=children[0]))

    def declaration(self, children: list[Any]) -> None:
        self.done.append(Statement([], name=children[0], shape=children[1]))

    def sequence(self, _children: list[Any]) -> None:
        """Statements put themselves in `done`."""

    def start(self, _children: list[Any]) -> None:
        """Likewise."""

    def unfinished(self) -> list[Statement]:
        """The statements so far, with the code of the one that could not be finished."""
        return [*self.done, Statement(self._take())]

    def _take(self) -> Code:
        code, self.code = self.code, []
        return code


class _LarkLexer(lark.lexer.Lexer):
    """The lexer in the form that Lark calls."""

    def __init__(self, conf: Any) -> None:
        ignored = set(conf.ignore)
        patterns = {t.name: t.pattern.to_regexp() for t in conf.terminals if t.pattern is not None}
        self.lexer = Lexer(
            {name: pattern for name, pattern in patterns.items() if name not in ignored},
            [pattern for name, pattern in patterns.items() if name in ignored],
        )

    def lex(self, text: Any) -> Iterator[Any]:  # type: ignore[override]
        return self.lexer.lex(text)


@functools.cache
def _parser() -> tuple[lark.Lark, _Emitter]:
    """The parser and its callbacks; the tables come from the cache if it has them."""
    grammar = grammar_file().read_text(encoding="utf-8")
    emitter = _Emitter()
    build = functools.partial(lark.Lark, grammar, parser="lalr", strict=True, lexer=_LarkLexer, transformer=emitter)
    folder = cache_folder()
    if folder is None:
        return build(), emitter
    key = f"{sys.implementation.cache_tag}-{lark.__version__}-{grammar}"
    tables = folder / f"expression-{hashlib.sha256(key.encode()).hexdigest()[:16]}.tables"
    if tables.exists():
        return build(cache=_Place(tables)), emitter
    unfinished = tables.with_suffix(f".{os.getpid()}")
    parser = build(cache=_Place(unfinished))
    with contextlib.suppress(OSError):  # a cache that cannot be written is no cache
        unfinished.replace(tables)
    return parser, emitter


class _Place(str):
    """A path that Lark, which makes a hash of the text of its options, does not see there: so tables can be written
    beside their place and moved to it once they are whole."""

    __slots__ = ()

    def __str__(self) -> str:
        return ""


def grammar_file() -> Path:
    """Where the grammar is: inside the package in a wheel, beside it in a checkout or an editable install."""
    package = Path(__file__).parents[1]
    for folder in (package, package.parent):
        found = folder / "grammars" / "expression.lark"
        if found.is_file():
            return found
    raise FileNotFoundError(f"the grammar, expression.lark, is missing from the installation at {package}")


def cache_folder() -> Path | None:
    """The user's own folder for cached tables; None if caching is off or the folder cannot be trusted.

    What is cached are pickles, so the folder has to belong to the user and be writable by nobody else.
    """
    if os.environ.get("AUTODIFF_CACHE") == "off":
        return None
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME", ""))
        folder = (base if base.is_absolute() else Path.home() / ".cache") / "autodiff"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except (OSError, RuntimeError):  # Path.home() raises the latter for a user without a home
        return None
    mine = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    private = stat.S_ISDIR(status.st_mode) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return folder if mine and private else None

"""Postfix code to a graph: names get their meaning, functions are expanded, mistakes of meaning are found."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from autodiff_cli import ops
from autodiff_cli.graph.node import Node, constant, variable
from autodiff_cli.graph.op import registered
from autodiff_cli.language.code import Chain, Code, Lexeme, Statement
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.language.lexer import canonical
from autodiff_cli.language.scope import Function, Scope
from autodiff_cli.language.source import Calls, Source, spans

MOST_STEPS = 2_000_000  # instructions of functions that one text may come to

_SPELLINGS = {"**": "^", "×": "*", "·": "*", "÷": "/", "−": "-", "≤": "<=", "≥": ">=", "≠": "!="}
_INFIX = {op.symbol: op for op in ops.all_ops() if op.symbol and op.least == 2}
_INFIX |= {spelling: _INFIX[symbol] for spelling, symbol in _SPELLINGS.items()}
_NEG, _NOT, _AND, _POW = (registered(name) for name in ("neg", "not", "and", "pow"))
_PREFIX = {"-": _NEG, "−": _NEG, "not": _NOT}
_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", "⁺⁻")


@dataclass(frozen=True, slots=True)
class Program:
    """What a text means.

    Attributes:
        text: as given.
        output: the value of the last statement; for a model `target ~ prediction`, the prediction.
        target: the left side of `~`; None without one.
        leaves: the free names, in the order in which they first stand in the text, and the input leaf of each.
        notes: what the reader may want to know, as sentences.
        source: where the nodes stand in the text.
    """

    text: str
    output: Node
    target: Node | None
    leaves: dict[str, Node]
    notes: tuple[str, ...]
    source: Source


def read(text: str, variables: Iterable[str] = ()) -> Program:
    """Read a text of the expression language.

    Args:
        variables: names of constants (`pi tau e inf nan`) that are variables here.

    Raises:
        ExpressionError: the text is not in the language; the first mistake is reported, with its place.
    """
    from autodiff_cli.language.parser import parse

    with _collector_paused():
        statements, error = parse(text)
        scope = Scope(text, statements, frozenset(map(canonical, variables)))
        lowering = _Lowering(text, scope)
        if error is not None:
            lowering.run_all(statements)  # an earlier mistake is reported first
            raise error
        output, target = lowering.run_all(statements)
        assert output is not None
        codes = [code for s in statements for code in (s.target, s.code) if code is not None]
        source = Source(text, lowering.names, lowering.origin, lowering.calls, codes)
        return Program(text, output, target, scope.leaves, tuple(scope.notes()), source)


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Nearly all that reading makes is kept; looking through it for garbage takes as long as the reading."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class _Frame(NamedTuple):
    """The expansion of a function (or the run of a statement) that is under way."""

    instructions: Iterator[Lexeme]
    known: Mapping[str, Node]
    calls: Calls | None


class _Lowering:
    """Runs the code of one text, statement after statement, and remembers where its nodes come from."""

    def __init__(self, text: str, scope: Scope) -> None:
        self.text = text
        self.scope = scope
        self.names: dict[Node, str] = {}
        self.origin: dict[Node, Lexeme] = {}
        self.calls: dict[Node, Calls] = {}
        self.steps = 0

    def run_all(self, statements: list[Statement]) -> tuple[Node | None, Node | None]:
        """Give every statement its meaning. The output, None if the last statement has none yet; and the target."""
        output: Node | None = None
        target: Node | None = None
        for statement in statements:
            name = statement.name
            last = statement is statements[-1]
            if name is None:
                if not last:
                    raise self.misplaced(statement)
                target = None if statement.target is None else self.run(statement.target)
                output = self.run(statement.code)
            elif statement.parameters is None:
                output = self.bind(statement, name)
            else:
                self.define(statement)
                if last:
                    message = "the last statement is the output, and this one only defines a function"
                    raise self.scope.error(message, name)
        return output, target

    def define(self, statement: Statement) -> None:
        """Enter a function in the scope, once its body is checked."""
        function = self.scope.define(statement)
        self.run(function.code, {name: variable(name) for name in function.parameters}, expand=False)
        self.scope.functions[function.name] = function

    def bind(self, statement: Statement, name: Lexeme) -> Node:
        """Give a name the value of a statement."""
        self.scope.claim(statement, name)
        node = self.run(statement.code)
        assert node is not None
        self.scope.values[name.text] = node
        if not node.is_input:
            self.names.setdefault(node, name.text)
        return node

    def misplaced(self, statement: Statement) -> ExpressionError:
        """The error for a bare expression, or a model, that is not the last statement."""
        code = statement.code if statement.target is None else statement.target
        start, _ = spans(code)[code[-1]]
        if statement.target is not None:
            return ExpressionError("a model `target ~ prediction` is the last statement", self.text, start)
        message = "only the last statement may be an expression; one that continues on the next line stands in brackets"
        return ExpressionError(message, self.text, start)

    def run(self, code: Code, known: Mapping[str, Node] | None = None, expand: bool = True) -> Node | None:
        """Run code on a stack of nodes.

        Args:
            known: what names mean here; those that are missing have their meaning in the whole text.
            expand: whether to expand the functions of the text, or only to check the code; then its nodes leave no
                trace.

        Returns:
            The value; None for unfinished code without one.
        """
        scope, infix, functions, calls_of = self.scope, _INFIX, self.scope.functions, self.calls
        origin = self.origin if expand else {}
        stack: list[Node] = []
        frames = [_Frame(iter(code), scope.values if known is None else known, None)]
        while frames:
            instructions, known, calls = frames[-1]
            for lexeme in instructions:
                count = lexeme.operands
                kind = lexeme.type
                if kind == "NAME":
                    found = known.get(lexeme.text)
                    if found is None:
                        found = scope.lookup(lexeme)
                        self.origin.setdefault(found, lexeme)
                    stack.append(found)
                    continue
                if kind == "CALL":
                    inputs = tuple(stack[len(stack) - count :])
                    del stack[len(stack) - count :]
                    function = functions.get(lexeme.text)
                    if function is None:
                        node = Node(scope.operation(lexeme, known), inputs)
                    elif expand:
                        frames.append(self.enter(function, lexeme, inputs, calls))
                        break
                    else:
                        scope.expect(lexeme, [(len(function.parameters), len(function.parameters))])
                        node = variable(function.name)
                    stack.append(node)
                elif count == 2:
                    right = stack.pop()
                    stack[-1] = node = Node(infix[lexeme.text], (stack[-1], right))
                elif count == 0:
                    node = Node(None, (), lexeme.text, True)
                    stack.append(node)
                elif kind in ("CHAIN", "SUPERSCRIPT"):
                    operands = stack[len(stack) - count :]
                    del stack[len(stack) - count :]
                    *inner, (node, _) = _several(lexeme, operands)
                    for made, place in inner:
                        origin[made] = place
                        if calls is not None:
                            calls_of[made] = calls
                    stack.append(node)
                elif lexeme.text in _PREFIX:
                    stack[-1] = node = Node(_PREFIX[lexeme.text], (stack[-1],))
                else:  # brackets, and a sign that changes nothing
                    continue
                origin[node] = lexeme
                if calls is not None:
                    calls_of[node] = calls
            else:
                frames.pop()
        return stack[-1] if stack else None

    def enter(self, function: Function, lexeme: Lexeme, inputs: tuple[Node, ...], calls: Calls | None) -> _Frame:
        """The expansion of a call of a function of the text."""
        count = len(function.parameters)
        self.scope.expect(lexeme, [(count, count)])
        self.steps += len(function.code)
        if self.steps > MOST_STEPS:
            message = f"the functions of this text expand to more than {MOST_STEPS:,} operations, which is the limit"
            raise self.scope.error(message, lexeme)
        known = dict(zip(function.parameters, inputs, strict=True))
        return _Frame(iter(function.code), known, Calls(function.name, calls))


def _several(lexeme: Lexeme, operands: list[Node]) -> list[tuple[Node, Lexeme]]:
    """The nodes, the value last, of an instruction that makes more than one; each with the lexeme it comes from."""
    if isinstance(lexeme, Chain):
        made = []
        total: Node | None = None
        for link, left, right in zip(lexeme.links, operands, operands[1:], strict=False):
            comparison = Node(_INFIX[link.text], (left, right))
            made.append((comparison, link))
            if total is None:
                total = comparison
            else:
                total = Node(_AND, (total, comparison))
                made.append((total, lexeme))
        return made
    exponent = constant(lexeme.text.translate(_DIGITS))
    made = [(exponent, lexeme)]
    if lexeme.text.startswith("⁻"):
        exponent = Node(_NEG, (exponent,))
        made.append((exponent, lexeme))
    return [*made, (Node(_POW, (operands[0], exponent)), lexeme)]

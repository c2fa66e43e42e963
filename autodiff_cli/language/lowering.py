"""Postfix code to a graph: names get their meaning, functions are expanded, mistakes of meaning are found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from autodiff_cli import ops
from autodiff_cli.graph.collector import collector_paused
from autodiff_cli.graph.node import Node, constant, variable
from autodiff_cli.graph.op import Shape, registered
from autodiff_cli.graph.shapes import ShapeError, Shapes
from autodiff_cli.language.code import Chain, Code, Layer, Lexeme, Statement
from autodiff_cli.language.errors import ExpressionError, shape_error
from autodiff_cli.language.lexer import canonical
from autodiff_cli.language.scope import Function, Scope
from autodiff_cli.language.source import Group, Source, spans
from autodiff_cli.ops.structural import whole_number

if TYPE_CHECKING:
    from autodiff_cli.language.layers import Initial, Layers

MOST_STEPS = 2_000_000  # instructions of functions that one text may come to

SPELLINGS = {"**": "^", "×": "*", "·": "*", "÷": "/", "−": "-", "≤": "<=", "≥": ">=", "≠": "!="}
_INFIX = {op.symbol: op for op in ops.all_ops() if op.symbol and op.least == 2}
_INFIX |= {spelling: _INFIX[symbol] for spelling, symbol in SPELLINGS.items()}
_NEG, _NOT, _AND, _POW = (registered(name) for name in ("neg", "not", "and", "pow"))
_PREFIX = {"-": _NEG, "−": _NEG, "not": _NOT}
_CALLS = frozenset({"CALL", "LAYER", "ARRAY", "INDEX"})
_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", "⁺⁻")


@dataclass(frozen=True, slots=True)
class Program:
    """What a text means.

    Attributes:
        text: as given.
        output: the value of the last statement; for a model `target ~ prediction`, the prediction.
        target: the left side of `~`; None without one.
        leaves: the free names, in the order in which they first stand in the text, and the input leaf of each;
            parameters of layers are among them.
        shapes: those of the leaves that are declared, or are parameters of layers, by name.
        arrays: the names of other leaves that stand where an array is required (see `array_names`); what is in neither
            is a number.
        initial: what each parameter of a layer is, by name.
        bound: the values of the names that the text binds (`a = x + y`).
        notes: what the reader may want to know, as sentences.
        source: where the nodes stand in the text.
    """

    text: str
    output: Node
    target: Node | None
    leaves: dict[str, Node]
    shapes: dict[str, Shape]
    arrays: frozenset[str]
    initial: dict[str, Initial]
    bound: dict[str, Node]
    notes: tuple[str, ...]
    source: Source


def read(text: str, variables: Iterable[str] = (), outputs: int | None = None) -> Program:
    """Read a text of the expression language.

    Args:
        variables: names of constants (`pi tau e inf nan`) that are variables here.
        outputs: how wide the last layer of an `mlp` is; by default as wide as the model's target, and one element of
            it, a number, where that is a number or missing.

    Raises:
        ExpressionError: the text is not in the language; the first mistake is reported, with its place.
    """
    from autodiff_cli.language.parser import parse

    with collector_paused():
        statements, error = parse(text)
        replaced = frozenset(map(canonical, variables))
        if outputs is None and error is None:
            outputs = _target_length(text, statements, replaced)
        lowering = _Lowering(text, statements, replaced, outputs)
        try:
            output, target = lowering.run_all(statements)
            if error is not None:  # an earlier mistake has been reported first
                raise error
            assert output is not None
            arrays = lowering.check([output] if target is None else [target, output])
        except ShapeError as mismatch:
            raise shape_error(mismatch, lowering.source) from None
        scope, initial = lowering.scope, lowering.initial
        leaves = scope.used_leaves()
        shapes = {name: shape for name, shape in scope.shapes.items() if name in leaves}
        bound = {name: node for name, node in scope.values.items() if name not in leaves}
        notes = tuple(scope.notes())
        return Program(text, output, target, leaves, shapes, arrays, initial, bound, notes, lowering.source)


def _target_length(text: str, statements: list[Statement], variables: frozenset[str]) -> int | None:
    """How long the target of a model with an `mlp` is; None if it is a number, or there is none.

    It is found before the model is read, from the target and the statements that it needs, since a network may stand
    before it.
    """
    target = statements[-1].target if "mlp" in text else None
    if target is None:
        return None
    names = {lexeme.text for lexeme in target}
    needed = [Statement(target)]
    for statement in reversed(statements[:-1]):
        if statement.name is not None and statement.name.text in names:
            needed.append(statement)
            names |= {lexeme.text for lexeme in statement.code}
    needed.reverse()
    lowering = _Lowering(text, needed, variables, None)
    try:
        value, _ = lowering.run_all(needed)
        assert value is not None
        shape = Shapes(lowering.scope.shapes).of(value)
    except (ExpressionError, ShapeError):  # reported when the whole text is read
        return None
    return shape[0] if shape else None


class _Frame(NamedTuple):
    """The expansion of a function (or the run of a statement) that is under way."""

    instructions: Iterator[Lexeme]
    known: Mapping[str, Node]
    group: Group | None


class _Lowering:
    """Runs the code of one text, statement after statement, and remembers where its nodes come from."""

    def __init__(self, text: str, statements: list[Statement], variables: frozenset[str], outputs: int | None) -> None:
        self.text = text
        self.scope = Scope(text, statements, variables)
        self.names: dict[Node, str] = {}
        self.origin: dict[Node, Lexeme] = {}
        self.groups: dict[Node, Group] = {}
        self.outputs = outputs
        self.initial: dict[str, Initial] = {}
        codes = [code for s in statements for code in (s.target, s.code) if code is not None]
        self.source = Source(text, self.names, self.origin, self.groups, codes)
        self.steps = 0

    @cached_property
    def layers(self) -> Layers:
        """The layers of the text; most texts have none, and start without what they need."""
        from autodiff_cli.language.layers import Layers

        return Layers(self.scope, self.origin, self.outputs, self.initial)

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
            elif statement.shape is not None:
                self.scope.declare(name, statement.shape)
                self.expect_more(last, name, "declares a shape")
            elif statement.parameters is not None:
                self.define(statement)
                self.expect_more(last, name, "defines a function")
            else:
                output = self.bind(statement, name)
        return output, target

    def expect_more(self, last: bool, name: Lexeme, does: str) -> None:
        """Refuse a statement without a value as the last one."""
        if last:
            raise self.scope.error(f"the last statement is the output, and this one only {does}", name)

    def check(self, outputs: list[Node]) -> frozenset[str]:
        """Refuse shapes that do not fit together, as far as they are known; the names that have to be arrays."""
        if not self.scope.has_arrays():
            return frozenset()
        from autodiff_cli.language.arrays import array_names

        roots = [*self.scope.values.values(), *outputs]
        arrays = array_names(roots, self.scope.shapes)
        self.layers.check_names(self.scope.leaves)
        self.layers.check_inputs(arrays)
        shapes = Shapes(self.scope.shapes, arrays)
        for root in roots:
            shapes.of(root)
        return arrays

    def define(self, statement: Statement) -> None:
        """Enter a function in the scope, once its body is checked."""
        function = self.scope.define(statement)
        self.run(function.code, {name: variable(name) for name in function.parameters}, expand=False)
        self.scope.functions[function.name] = function

    def bind(self, statement: Statement, name: Lexeme) -> Node:
        """Give a name the value of a statement."""
        self.scope.claim(statement, name)
        node = self.run(statement.code, group=Group(name.text, (), None))
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

    def run(
        self, code: Code, known: Mapping[str, Node] | None = None, expand: bool = True, group: Group | None = None
    ) -> Node | None:
        """Run code on a stack of nodes.

        Args:
            known: what names mean here; those that are missing have their meaning in the whole text.
            expand: whether to expand the functions of the text, or only to check the code; then its nodes leave no
                trace.
            group: what the nodes are made for.

        Returns:
            The value; None for unfinished code without one.
        """
        scope, infix, functions, group_of = self.scope, _INFIX, self.scope.functions, self.groups
        origin = self.origin if expand else {}
        stack: list[Node] = []
        frames = [_Frame(iter(code), scope.values if known is None else known, group)]
        while frames:
            instructions, known, group = frames[-1]
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
                if kind in _CALLS:
                    inputs = tuple(stack[len(stack) - count :])
                    del stack[len(stack) - count :]
                    function = functions.get(lexeme.text)
                    if isinstance(lexeme, Layer):
                        node = self.layer(lexeme, inputs, group, expand)
                    elif function is None:
                        node = Node(scope.operation(lexeme, known), inputs)
                        if kind == "INDEX" and expand:
                            self.check_index(inputs)
                    elif expand:
                        frames.append(self.enter(function, lexeme, inputs, group))
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
                        if group is not None:
                            group_of[made] = group
                    stack.append(node)
                elif lexeme.text in _PREFIX:
                    stack[-1] = node = Node(_PREFIX[lexeme.text], (stack[-1],))
                else:  # brackets, and a sign that changes nothing
                    continue
                origin[node] = lexeme
                if group is not None:
                    group_of[node] = group
            else:
                frames.pop()
        return stack[-1] if stack else None

    def layer(self, call: Layer, inputs: tuple[Node, ...], group: Group | None, expand: bool) -> Node:
        """The value of a call of `dense` or `mlp`; a stand-in if the code is only checked."""
        self.layers.check(call)
        if not expand:
            return variable(call.text)
        x, sizes = inputs
        node = x
        whole = Group(call.text, (x,), group)
        layers: dict[str, Group] = {}
        for name, node in self.layers.nodes(call, x, sizes):
            self.origin.setdefault(node, call)
            of_layer = whole if name is None else layers.setdefault(name, Group(name, (), whole))
            self.groups.setdefault(node, of_layer)
        return node

    def check_index(self, inputs: tuple[Node, ...]) -> None:
        """Refuse an index that is not a whole number."""
        base, *positions = inputs
        for position in positions:
            if whole_number(position) is None:
                if base.is_input and ops.function(base.text):
                    message = f"`{base.text}` is a function; its arguments stand in round brackets"
                    raise self.scope.error(message, self.origin[base], f"{base.text}(")
                message = "an index is a whole number, counted from 0 and written as a number"
                raise self.scope.error(message, self.origin[position])

    def enter(self, function: Function, lexeme: Lexeme, inputs: tuple[Node, ...], group: Group | None) -> _Frame:
        """The expansion of a call of a function of the text."""
        count = len(function.parameters)
        self.scope.expect(lexeme, [(count, count)])
        self.steps += len(function.code)
        if self.steps > MOST_STEPS:
            message = (
                f"the functions of this text expand to more than {MOST_STEPS:,} operations, the limit; "
                "from Python, `autodiff_cli.language.lowering.MOST_STEPS` sets another"
            )
            raise self.scope.error(message, lexeme)
        known = dict(zip(function.parameters, inputs, strict=True))
        return _Frame(iter(function.code), known, Group(function.name, inputs, group))


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

"""Third step of reading: names to a graph. The code of each statement is run on a stack of nodes, and the functions of
the text are expanded where they are called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from autodiff_cli import ops
from autodiff_cli.graph.node import Node, constant, variable
from autodiff_cli.graph.op import Shape
from autodiff_cli.graph.registry import registered
from autodiff_cli.graph.shapes import ShapeError, Shapes
from autodiff_cli.language.code import SPELLINGS, Code, Instruction, LayerCall, Statement
from autodiff_cli.language.errors import ExpressionError, shape_error
from autodiff_cli.language.names import Defined, Names
from autodiff_cli.language.source import Group, Source
from autodiff_cli.ops.structural import whole_number

if TYPE_CHECKING:
    from autodiff_cli.language.layers import Initial, Layers, Taken

MOST_STEPS = 2_000_000  # instructions of functions that one text may come to

_INFIX = {op.symbol: op for op in ops.all_ops() if op.symbol and op.least == 2}
_INFIX |= {spelling: _INFIX[symbol] for spelling, symbol in SPELLINGS.items()}
_NEG, _NOT, _AND, _POW = (registered(name) for name in ("neg", "not", "and", "pow"))
_PREFIX = {"-": _NEG, "−": _NEG, "not": _NOT}
_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", "⁺⁻")


@dataclass(slots=True)
class Graph:
    """The graph that a text states.

    Attributes:
        source: where the nodes stand in the text.
        output: the value of the last statement; None after an error.
        target: the left side of `~`; None without one.
        leaves: the input leaves by name, in the order in which they first stand in the text, also of names that are
            declared and not used.
        values: what each name that is used or bound means.
        shapes: those that the text declares, by name, and those of the parameters of its layers.
        initial: what each parameter of a layer is, by name.
        taken: the shapes that the inputs of layers were taken to have.
        error: the first mistake.
    """

    source: Source
    output: Node | None = None
    target: Node | None = None
    leaves: dict[str, Node] = field(default_factory=dict)
    values: dict[str, Node] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)
    initial: dict[str, Initial] = field(default_factory=dict)
    taken: list[Taken] = field(default_factory=list)
    error: ExpressionError | None = None


def build(names: Names, outputs: int | None = None) -> Graph:
    """Build the graph of a text.

    Args:
        outputs: how wide the last layer of an `mlp` is; by default as wide as the model's target, and one element of
            it, a number, where that is a number or missing.
    """
    if outputs is None and names.error is None:
        outputs = _target_length(names)
    builder = _Builder(names, outputs)
    graph = builder.graph
    try:
        builder.run_all(names.statements)
    except ExpressionError as error:  # earlier in the text than what ended the step before
        graph.error = error
    except ShapeError as mismatch:
        graph.error = shape_error(mismatch, graph.source)
    else:
        graph.error = names.error
    return graph


def _target_length(names: Names) -> int | None:
    """How long the target of a model with an `mlp` is; None if it is a number, or there is none.

    It is found before the graph is built, from the target and the statements that it needs, since a network may stand
    before it.
    """
    words = names.lexemes.words
    target = names.statements[-1].target if "mlp" in words else None
    if target is None:
        return None
    used = {instruction.text for instruction in target.instructions}
    needed = [Statement(target)]
    for statement in reversed(names.statements[:-1]):
        if statement.name is not None and words[statement.name] in used:
            needed.append(statement)
            used |= {instruction.text for instruction in statement.code.instructions}
    builder = _Builder(names, None)
    try:
        builder.run_all(needed[::-1])
        assert builder.graph.output is not None
        shape = Shapes(builder.graph.shapes).of(builder.graph.output)
    except (ExpressionError, ShapeError):  # reported when the whole text is built
        return None
    return shape[0] if shape else None


# The run of a statement, or the expansion of a function, that is under way: what is left to do, each step with the
# number of its lexeme; the inputs of the function; what its nodes are made for.
_Frame = tuple[Iterator[tuple[Any, int]], tuple[Node, ...], Group | None]


class _Body(NamedTuple):
    """A function whose code is ready to be run."""

    function: Defined
    steps: list[Any]


class _Builder:
    """Builds one graph."""

    def __init__(self, names: Names, outputs: int | None) -> None:
        self.names = names
        self.outputs = outputs
        self.meanings = _Meanings(self)
        self.bodies: dict[str, _Body] = {}
        self.steps = 0
        self.named: dict[Node, str] = {}
        self.origin: dict[Node, int] = {}
        self.groups: dict[Node, Group] = {}
        codes = [code for s in names.statements for code in (s.target, s.code) if code is not None]
        source = Source(names.lexemes, codes, self.named, self.origin, self.groups)
        self.graph = Graph(source, shapes=dict(names.shapes))

    @cached_property
    def layers(self) -> Layers:
        """The layers of the text; most texts have none, and start without what they need."""
        from autodiff_cli.language.layers import Layers

        return Layers(self.names, self.graph, self.outputs)

    def run_all(self, statements: Iterable[Statement]) -> None:
        """Build what every statement states."""
        graph, words = self.graph, self.names.lexemes.words
        for statement in statements:
            name = None if statement.name is None else words[statement.name]
            if name is None:
                graph.target = None if statement.target is None else self.run(statement.target)
                graph.output = self.run(statement.code)
            elif statement.shape is not None:
                graph.leaves[name] = variable(name)
            elif statement.parameters is not None:
                self.define(self.names.functions[name])
            else:
                self.bind(name, statement.code)

    def bind(self, name: str, code: Code) -> None:
        """Give a name the value of an expression."""
        node = self.run(code, Group(name, (), None))
        assert node is not None
        self.graph.output = self.graph.values[name] = node
        if not node.is_input:
            self.named.setdefault(node, name)

    def define(self, function: Defined) -> None:
        """Make the code of a function ready: what each step means, a parameter being its position."""
        positions = {name: position for position, name in enumerate(function.parameters)}
        steps = [
            positions[instruction.text]
            if instruction.type == "NAME" and instruction.text in positions
            else self.meanings[instruction]
            for instruction in function.code.instructions
        ]
        self.bodies[function.name] = _Body(function, steps)

    def value(self, name: str) -> Node:
        """What a name means; a free name gets its leaf when it is first met."""
        graph = self.graph
        node = graph.values.get(name)
        if node is None:
            is_constant = self.names.is_constant(name)
            node = constant(name) if is_constant else graph.leaves.setdefault(name, variable(name))
            graph.values[name] = node
            self.origin[node] = self.names.met[name]
        return node

    def meaning(self, instruction: Instruction) -> Any:
        """What is done for an instruction: the node of a name, the text of a number, an operation with its number of
        operands, a function's body, None for nothing. Of others it is the instruction itself (see `make`)."""
        match instruction.type:
            case "NAME" | "LEAF":
                return self.value(instruction.text)
            case "NUMBER":
                return instruction.text
            case "INFIX":
                return _INFIX[instruction.text], 2
            case "PREFIX":
                op = _PREFIX.get(instruction.text)
                return None if op is None else (op, 1)
            case "GROUP" | "WORD":
                return None
            case "CALL" if instruction.text in self.bodies:
                return self.bodies[instruction.text]
            case "CALL" | "ARRAY":
                return self.names.operations[instruction], instruction.operands
        return instruction

    def run(self, code: Code, group: Group | None = None) -> Node | None:
        """The value of an expression; None for unfinished code without one.

        Args:
            group: what its nodes are made for.
        """
        stack: list[Node] = []
        meanings = map(self.meanings.__getitem__, code.instructions)
        frames: list[_Frame] = [(zip(meanings, code.places, strict=True), (), group)]
        while frames:
            entered = self.advance(frames[-1], stack)
            if entered is None:
                _, _, ended = frames.pop()
                if ended is not None and ended.place is not None:
                    ended.value = stack[-1]
            else:
                frames.append(entered)
        return stack[-1] if stack else None

    def advance(self, frame: _Frame, stack: list[Node]) -> _Frame | None:
        """Go on with a frame to its end, or to the call of a function, whose frame is returned."""
        origin, groups = self.origin, self.groups
        steps, inputs, group = frame
        for what, place in steps:
            kind = what.__class__
            if kind is Node:
                stack.append(what)
                continue
            if kind is tuple:
                op, count = what
                if count == 2:
                    right = stack.pop()
                    operands: tuple[Node, ...] = (stack[-1], right)
                else:
                    operands = tuple(stack[-count:])
                    del stack[len(stack) - count + 1 :]
                stack[-1] = node = Node(op, operands)
            elif kind is str:
                node = Node(None, (), what, True)
                stack.append(node)
            elif what is None:
                continue
            elif kind is int:
                stack.append(inputs[what])
                continue
            elif kind is _Body:
                return self.enter(what, place, stack, group)
            else:
                self.make(what, place, stack, group)
                continue
            origin[node] = place
            if group is not None:
                groups[node] = group
        return None

    def enter(self, body: _Body, place: int, stack: list[Node], group: Group | None) -> _Frame:
        """The expansion of a call of a function of the text."""
        function, steps = body
        self.steps += len(steps)
        if self.steps > MOST_STEPS:
            message = (
                f"the functions of this text expand to more than {MOST_STEPS:,} operations, the limit; "
                "from Python, `autodiff_cli.language.building.MOST_STEPS` sets another"
            )
            raise self.names.lexemes.error(message, place)
        inputs = tuple(stack[len(stack) - len(function.parameters) :])
        del stack[len(stack) - len(inputs) :]
        return zip(steps, function.code.places, strict=True), inputs, Group(function.name, inputs, group, place)

    def make(self, instruction: Instruction, place: int, stack: list[Node], group: Group | None) -> None:
        """Run an instruction that makes several nodes, or looks at what it is given."""
        operands = stack[len(stack) - instruction.operands :]
        del stack[len(stack) - instruction.operands :]
        if isinstance(instruction, LayerCall):
            node = self.add_layer(instruction, place, operands, group)
        else:
            for node in self.nodes(instruction, operands):
                self.origin[node] = place
                if group is not None:
                    self.groups[node] = group
        stack.append(node)

    def nodes(self, instruction: Instruction, operands: list[Node]) -> list[Node]:
        """The nodes of an instruction, the value last."""
        if instruction.type == "INDEX":
            self.check_index(operands)
            return [Node(self.names.operations[instruction], tuple(operands))]
        if instruction.type == "LINK":
            before, right = operands
            link = before.inputs[1] if before.op is _AND else before
            comparison = Node(_INFIX[instruction.text], (link.inputs[1], right))
            return [comparison, Node(_AND, (before, comparison))]
        made = [constant(instruction.text.translate(_DIGITS))]
        if instruction.text.startswith("⁻"):
            made.append(Node(_NEG, (made[-1],)))
        return [*made, Node(_POW, (operands[0], made[-1]))]

    def check_index(self, operands: list[Node]) -> None:
        """Refuse an index that is not a whole number."""
        base, *positions = operands
        for position in positions:
            if whole_number(position) is None:
                if base.is_input and ops.function(base.text):
                    message = f"`{base.text}` is a function; its arguments stand in round brackets"
                    raise self.names.lexemes.error(message, self.origin[base], f"{base.text}(")
                message = "an index is a whole number, counted from 0 and written as a number"
                raise self.names.lexemes.error(message, self.origin[position])

    def add_layer(self, call: LayerCall, place: int, operands: list[Node], group: Group | None) -> Node:
        """The value of a call of `dense` or `mlp`."""
        x, sizes = operands
        whole = Group(call.text, (x,), group)
        layers: dict[str, Group] = {}
        node = x
        for name, node in self.layers.nodes(call, place, x, sizes):
            self.origin.setdefault(node, place)
            of_layer = whole if name is None else layers.setdefault(name, Group(name, (), whole))
            self.groups.setdefault(node, of_layer)
            of_layer.value = node
        whole.value = node
        return node


class _Meanings(dict[Instruction, Any]):
    """What is done for each instruction of a text, found when it is first run: names get their meaning by then."""

    def __init__(self, builder: _Builder) -> None:
        self._builder = builder

    def __missing__(self, instruction: Instruction) -> Any:
        found = self[instruction] = self._builder.meaning(instruction)
        return found

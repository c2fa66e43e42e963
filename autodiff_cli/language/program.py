"""Reading an expression: `read` turns a text into a `Program`, the graph of its meaning.

There are four steps, and each takes the record of the step before: statements (`parser.parse`), names
(`names.resolve`), graph (`build_graph`), shapes (`check_shapes`). A step that finds a mistake returns its partial
result, so that the next step can report a mistake that stands earlier in the text.

The graph is built by running the code of each statement on a stack of nodes. Functions that the text defines are
expanded where they are called. `Source` maps every node back to its place in the text.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from autodiff_cli import ops
from autodiff_cli.graph.node import Node, Shape, constant, get_op, is_representable, variable
from autodiff_cli.graph.tape import LazyTable, ShapeError, ShapeInference, gc_paused, substitute, topological_order
from autodiff_cli.language import names as naming
from autodiff_cli.language.errors import ExpressionError, format_names, if_quotable, shape_error, suggest
from autodiff_cli.language.lexer import Lexemes, canonical_name
from autodiff_cli.language.parser import OPERATOR_ALIASES, Code, Instruction, LayerCall, Span, Statement, parse, spans
from autodiff_cli.ops.structural import literal_index

if TYPE_CHECKING:
    from autodiff_cli.language.arrays import AssumedInput, LayerBuilder, LayerParameter


# --- Source positions

_AND, _HEAVISIDE, _INDEX, _SPLINE = map(get_op, ("and", "heaviside", "index", "spline"))
_STACK, _SUM, _WHERE = map(get_op, ("stack", "sum", "where"))
_LINE_BREAK = re.compile(r"(?:\s|#.*)+")


@dataclass(slots=True, eq=False)  # not frozen, which would be slow: a text may have a million groups
class Group:
    """Nodes that belong together: a named intermediate, a call of a function of the text, or a layer of a network.

    Attributes:
        name: the name of the intermediate, function or layer.
        inputs: the arguments of a call; empty otherwise.
        parent: the group that contains this one; None for none.
        call_lexeme: the number of the lexeme that calls a function of the text; None otherwise.
        value: the node with the value of a call or a layer; None for an intermediate.
    """

    name: str
    inputs: tuple[Node, ...]
    parent: Group | None
    call_lexeme: int | None = None
    value: Node | None = None


class Subexpression(NamedTuple):
    """A sub-expression as it is written in the text.

    Attributes:
        instruction: its operation.
        operands: the numbers of the lexemes of its operands.
        texts: the source before, between and after the operands, with line breaks and comments as blanks.
    """

    instruction: Instruction
    operands: tuple[int, ...]
    texts: tuple[str, ...]


@dataclass(eq=False, repr=False)
class Source:
    """The text of a program, and the place in it of each node.

    Attributes:
        lexemes: the lexemes of the source text.
        codes: the code of all expressions.
        names: the first name that the text binds to each node; inputs, which have names of their own, are left out.
        origin: the number of the lexeme that each node comes from.
        groups: the innermost group that each node belongs to; nodes outside all groups are left out.
    """

    lexemes: Lexemes
    codes: Iterable[Code]
    names: Mapping[Node, str]
    origin: Mapping[Node, int]
    groups: Mapping[Node, Group]

    @property
    def text(self) -> str:
        """The source text, as it was given."""
        return self.lexemes.text

    def start(self, node: Node) -> int | None:
        """Return the position of a node's operator, function name, bracket, number or (first) name; None for a node of
        another text."""
        number = self.origin.get(node)
        return None if number is None else self.lexemes.start(number)

    def line_and_column(self, node: Node) -> tuple[int, int] | None:
        """Return the line and column of `start`, both counted from 1; None for a node of another text."""
        number = self.origin.get(node)
        return None if number is None else self.lexemes.line_and_column(number)

    def span(self, node: Node) -> Span | None:
        """Return the start and end of the sub-expression that a node was read from; None for a node of another text."""
        number = self.origin.get(node)
        return None if number is None else self._spans[self._key(node, number)]

    def subexpression_key(self, node: Node) -> int | None:
        """Return the key in `subexpressions` of what a node was read from; None for a node of another text."""
        number = self.origin.get(node)
        return None if number is None else self._key(node, number)

    @cached_property
    def subexpressions(self) -> dict[int, Subexpression]:
        """All sub-expressions of the text by their keys; operands come before the operations that use them."""
        parts: dict[int, Subexpression] = {}
        for code in self.codes:
            for instruction, number, operands in _with_operands(code):
                extents = [self._spans[operand] for operand in operands]
                start, end = self._spans[number]
                edges = [start, *(edge for extent in extents for edge in extent), end]
                texts = [_on_one_line(self.text[a:b]) for a, b in zip(edges[::2], edges[1::2], strict=True)]
                parts[number] = Subexpression(instruction, operands, tuple(texts))
                if instruction.type == "LINK":
                    comparison = _on_one_line(self.text[slice(*self._spans[~number])])
                    parts[~number] = Subexpression(instruction, (), (comparison,))
        return parts

    def _key(self, node: Node, number: int) -> int:
        return number if node.op is _AND or ~number not in self._spans else ~number

    @cached_property
    def _spans(self) -> dict[int, Span]:
        return {number: span for code in self.codes for number, span in spans(code, self.lexemes).items()}


def _with_operands(code: Code) -> Iterator[tuple[Instruction, int, tuple[int, ...]]]:
    """Yield each instruction with the number of its lexeme and the numbers of its operands' lexemes."""
    stack: list[int] = []
    for instruction, number in zip(*code, strict=True):
        count = len(stack) - instruction.operands
        yield instruction, number, tuple(stack[count:])
        stack[count:] = [number]


def _on_one_line(text: str) -> str:
    return _LINE_BREAK.sub(" ", text)


# --- Building the graph

# Instructions that the functions of one text may expand to. Nested calls double with each level, so a short text could
# otherwise fill the memory.
MAX_STEPS = 2_000_000

_INFIX = {op.symbol: op for op in ops.all_ops() if op.symbol and op.min_inputs == 2}
_INFIX |= {spelling: _INFIX[symbol] for spelling, symbol in OPERATOR_ALIASES.items()}
_NEG, _NOT, _POW, _EXP = (get_op(name) for name in ("neg", "not", "pow", "exp"))
_PREFIX = {"-": _NEG, "−": _NEG, "not": _NOT}
_SUPERSCRIPT_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", "⁺⁻")


@dataclass(slots=True)
class Graph:
    """The graph of a text, before its shapes are checked.

    Attributes:
        source: the place of each node in the text.
        output: the value of the last statement; None after an error.
        target: the left side of `~`; None without one.
        leaves: the input leaves by name, in order of first appearance; declared names that are not used are included.
        values: the node of each name that is used or bound.
        shapes: the declared shapes, and the shapes of layers' parameters, by name.
        layer_parameters: the role of each parameter of a layer, by name.
        convolutions: by the names of the places and weights of a response, its columns of places and of values.
        assumed_inputs: the shapes that layers assumed for their inputs; `check_shapes` verifies them.
        error: the first mistake; None if there is none.
    """

    source: Source
    output: Node | None = None
    target: Node | None = None
    leaves: dict[str, Node] = field(default_factory=dict)
    values: dict[str, Node] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)
    layer_parameters: dict[str, LayerParameter] = field(default_factory=dict)
    convolutions: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    assumed_inputs: list[AssumedInput] = field(default_factory=list)
    error: ExpressionError | None = None


def build_graph(names: naming.ResolvedNames, outputs: int | None = None) -> Graph:
    """Build the graph of a text.

    Args:
        names: the text with its names resolved.
        outputs: the number of units in the last layer of an `mlp`; by default the length of the model's target. Where
            the target is a number, or missing, the value of an `mlp` is a number too.
    """
    if outputs is None and names.error is None:
        outputs = _target_length(names)
    builder = _Builder(names, outputs)
    graph = builder.graph
    try:
        builder.run_all(names.statements)
    except ExpressionError as error:  # it stands earlier in the text than the error of the step before
        graph.error = error
    except ShapeError as mismatch:
        graph.error = shape_error(mismatch, graph.source)
    else:
        graph.error = names.error
    return graph


def _target_length(names: naming.ResolvedNames) -> int | None:
    """Return the length of the target of a model with an `mlp`; None if it is a number, or missing.

    The length must be known before the graph is built, since a network may stand before the target. So a graph of the
    target alone, and of the statements that it needs, is built first.
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
        shape = ShapeInference(builder.graph.shapes).infer(builder.graph.output)
    except (ExpressionError, ShapeError):  # reported when the whole text is built
        return None
    return shape[0] if shape else None


# A stack frame, for a statement or for a call of a function of the text: the remaining steps, each with the number of
# its lexeme; the arguments of the call; the group of the nodes that it creates.
_Frame = tuple[Iterator[tuple[Any, int]], tuple[Node, ...], Group | None]


class _Body(NamedTuple):
    """A function of the text with the actions of its code looked up, ready to be expanded."""

    function: naming.FunctionDefinition
    steps: list[Any]


class _Builder:
    """Builds the graph of one text."""

    def __init__(self, names: naming.ResolvedNames, outputs: int | None) -> None:
        self.names = names
        self.outputs = outputs
        self.actions = LazyTable(self.action)  # an action is looked up when it first runs: names must be bound by then
        self.bodies: dict[str, _Body] = {}
        self.step_count = 0
        self.named: dict[Node, str] = {}
        self.origin: dict[Node, int] = {}
        self.groups: dict[Node, Group] = {}
        codes = [code for s in names.statements for code in (s.target, s.code) if code is not None]
        source = Source(names.lexemes, codes, self.named, self.origin, self.groups)
        self.graph = Graph(source, shapes=dict(names.shapes))

    @cached_property
    def layers(self) -> LayerBuilder:
        """The builder of neural-network layers. Most texts have none, so it is imported only when needed."""
        from autodiff_cli.language.arrays import LayerBuilder

        return LayerBuilder(self.names, self.graph, self.outputs)

    def run_all(self, statements: Iterable[Statement]) -> None:
        """Build the graph of all statements."""
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
        """Bind a name to the value of an expression."""
        node = self.run(code, Group(name, (), None))
        assert node is not None
        self.graph.output = self.graph.values[name] = node
        if not node.is_input:
            self.named.setdefault(node, name)

    def define(self, function: naming.FunctionDefinition) -> None:
        """Prepare the code of a function: the action of each instruction. A parameter's action is its position."""
        positions = {name: position for position, name in enumerate(function.parameters)}
        steps = []
        for each in function.code.instructions:
            is_parameter = each.type == "NAME" and each.text in positions
            steps.append(positions[each.text] if is_parameter else self.actions[each])
        self.bodies[function.name] = _Body(function, steps)

    def value(self, name: str) -> Node:
        """Return the node of a name. The leaf of a free name is created when the name is first used."""
        graph = self.graph
        node = graph.values.get(name)
        if node is None:
            is_constant = self.names.is_constant(name)
            node = constant(name) if is_constant else graph.leaves.setdefault(name, variable(name))
            graph.values[name] = node
            self.origin[node] = self.names.first_uses[name]
        return node

    def action(self, instruction: Instruction) -> Any:
        """Return what to do for an instruction.

        It is a node to push, the text of a number, a pair of an operation and its number of operands, the body of a
        function to expand, or None for nothing. For all others it is the instruction itself: see `run_composite`.
        """
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
            case "CALL" | "ARRAY" if instruction.text not in (_SPLINE.spelling, "convolve"):
                return self.names.operations[instruction], instruction.operands
        return instruction

    def run(self, code: Code, group: Group | None = None) -> Node | None:
        """Run the code of an expression, and return its value; None for incomplete code without a value.

        Args:
            code: the code of the expression.
            group: the group that its nodes belong to.
        """
        stack: list[Node] = []
        meanings = map(self.actions.__getitem__, code.instructions)
        frames: list[_Frame] = [(zip(meanings, code.numbers, strict=True), (), group)]
        while frames:
            entered = self.advance(frames[-1], stack)
            if entered is None:
                _, _, ended = frames.pop()
                if ended is not None and ended.call_lexeme is not None:
                    ended.value = stack[-1]
            else:
                frames.append(entered)
        return stack[-1] if stack else None

    def advance(self, frame: _Frame, stack: list[Node]) -> _Frame | None:
        """Run a frame to its end, and return None; or to the call of a function, and return the frame of the call."""
        origin, groups = self.origin, self.groups
        steps, inputs, group = frame
        for action, number in steps:
            kind = action.__class__
            if kind is Node:
                stack.append(action)
                continue
            if kind is tuple:
                op, count = action
                if count == 2:
                    right = stack.pop()
                    operands: tuple[Node, ...] = (stack[-1], right)
                else:
                    operands = tuple(stack[-count:])
                    del stack[len(stack) - count + 1 :]
                stack[-1] = node = Node(op, operands)
            elif kind is str:
                node = Node(None, (), action, True)
                stack.append(node)
            elif action is None:
                continue
            elif kind is int:
                stack.append(inputs[action])
                continue
            elif kind is _Body:
                return self.enter(action, number, stack, group)
            else:
                self.run_composite(action, number, stack, group)
                continue
            origin[node] = number
            if group is not None:
                groups[node] = group
        return None

    def enter(self, body: _Body, number: int, stack: list[Node], group: Group | None) -> _Frame:
        """Return the frame for a call of a function of the text."""
        function, steps = body
        self.step_count += len(steps)
        if self.step_count > MAX_STEPS:
            message = (
                f"the functions of this text expand to more than the limit of {MAX_STEPS:,} operations; "
                "from Python, `autodiff_cli.language.program.MAX_STEPS` sets another limit"
            )
            raise self.names.lexemes.error(message, number)
        inputs = tuple(stack[len(stack) - len(function.parameters) :])
        del stack[len(stack) - len(inputs) :]
        return zip(steps, function.code.numbers, strict=True), inputs, Group(function.name, inputs, group, number)

    def run_composite(self, instruction: Instruction, number: int, stack: list[Node], group: Group | None) -> None:
        """Run an instruction that creates several nodes, or that checks its operands."""
        operands = stack[len(stack) - instruction.operands :]
        del stack[len(stack) - instruction.operands :]
        if isinstance(instruction, LayerCall):
            node = self.add_layer(instruction, number, operands, group)
        else:
            for node in self.nodes(instruction, operands):
                self.origin[node] = number
                if group is not None:
                    self.groups[node] = group
        stack.append(node)

    def nodes(self, instruction: Instruction, operands: list[Node]) -> list[Node]:
        """Return the nodes of an instruction; the last one is its value."""
        if instruction.type == "INDEX":
            self.check_index(operands)
            return [Node(self.names.operations[instruction], tuple(operands))]
        if instruction.type == "CALL":
            return self.spline(operands) if instruction.text == _SPLINE.spelling else self.convolution(*operands)
        if instruction.type == "LINK":
            before, right = operands
            link = before.inputs[1] if before.op is _AND else before
            comparison = Node(_INFIX[instruction.text], (link.inputs[1], right))
            return [comparison, Node(_AND, (before, comparison))]
        exponent = [constant(instruction.text.translate(_SUPERSCRIPT_DIGITS))]
        if instruction.text.startswith("⁻"):
            exponent.append(Node(_NEG, (exponent[-1],)))
        return [*exponent, Node(_POW, (operands[0], exponent[-1]))]

    def spline(self, operands: list[Node]) -> list[Node]:
        """Return the nodes of `spline(x, knot, value, …)`, or of `spline(x, [knot, …], values)` with an array.

        An undeclared name that stands for the values becomes an array, as parameters of layers do.
        """
        x, *pairs = operands
        nodes: list[Node] = []
        if len(pairs) == 2 and pairs[0].op is _STACK:
            knots, values = pairs
            if values.is_input and values.text not in self.names.binding_statements:
                self.graph.shapes.setdefault(values.text, (len(knots.inputs),))
            for position, knot in enumerate(knots.inputs):
                index = constant(str(position))
                nodes += [index, Node(_INDEX, (values, index))]
                pairs[2 * position :] = knot, nodes[-1]
        if len(pairs) < 4 or len(pairs) % 2:
            message = "`spline` takes x and two or more pairs of knot and value, or an array of each, of one shape"
            raise self.names.lexemes.error(message, self.origin.get(x, 0), "spline(x, [0, 1, 2], v)")
        return [*nodes, Node(_SPLINE, (x, *pairs))]

    def convolution(self, curve: Node, response: Node) -> list[Node]:
        """Return the nodes of `convolve(curve, response)`: the sum over rows of the response's weight times the curve
        at the distance from that row, where it is not negative; half at the jump at 0.

        The places and the weights of the response are parameters, whose values come from the data.
        """
        known, levels = self.names.columns.levels, self.names.column_leaves
        inputs = [leaf for leaf in topological_order([curve]) if leaf.is_input]
        columns = [leaf for leaf in inputs if leaf.text in known or leaf.text in levels]
        number = self.names.lexemes.words.index("convolve")
        if any(leaf.text in levels for leaf in columns):
            words = "the response of `convolve` is one series, so its formula cannot have levels; select each level by "
            raise self.names.lexemes.error(words + "itself, as with --where \"group == 'A'\"", number)
        if len(columns) != 1 or not response.is_input or response.text not in known:
            words = "`convolve` takes a formula of one column of the data, and a column with a response to it"
            example = ", as in `y ~ convolve(a*exp(-t/tau), response)`"
            raise self.names.lexemes.error(words + example, number)
        (column,) = columns
        pair = column.text, response.text
        names = [f"convolve.{'.'.join(pair)}.{part}" for part in ("place", "weight")]
        places, weights = (self.graph.leaves.setdefault(name, variable(name)) for name in names)
        self.graph.values |= {places.text: places, weights.text: weights}
        self.graph.convolutions[names[0], names[1]] = pair
        lag = column - places
        (shifted,) = substitute([curve], {column: lag})
        value = Node(_SUM, (Node(_WHERE, (lag < 0, constant("0"), Node(_HEAVISIDE, (lag,)) * shifted)) * weights,))
        return [node for node in topological_order([value]) if node not in self.origin and not node.is_input]

    def check_index(self, operands: list[Node]) -> None:
        """Raise ExpressionError for an index that is not an integer literal."""
        from autodiff_cli.language.diagnostics import UNAVAILABLE_FUNCTIONS, translate_call

        base, *positions = operands
        for position in positions:
            if literal_index(position) is None:
                name = base.text.lower() if base.is_input else ""
                if ops.overloads(name) or UNAVAILABLE_FUNCTIONS.keys() & {name, base.text}:  # `Sin[x]` of Mathematica
                    lexemes, number = self.names.lexemes, self.origin[base]
                    arguments = f"({lexemes.text[lexemes.start(number + 1) + 1 : lexemes.end(number + 1) - 1]})"
                    fits = any(op.accepts(len(positions)) for op in ops.overloads(name))  # not in `ArcTan[x, y]`
                    words, call = translate_call(base.text, arguments, 1) or ("", f"{name}{arguments}" * fits)
                    words = words or f"`{name}` is a function; its arguments go in round brackets"
                    raise lexemes.error(words, number, if_quotable(call, f"{name}(") if call else None)
                columns = self.names.columns.levels
                unknown = next((each for each in positions if each.is_input and each.text not in columns), None)
                if unknown is not None and columns:
                    message = f"the data have no column `{unknown.text}` ({format_names(columns)})"
                    raise self.names.lexemes.error(message, self.origin[unknown], suggest(unknown.text, columns))
                message = "an index must be an integer from 0, written as a number"
                raise self.names.lexemes.error(message, self.origin[position])

    def add_layer(self, call: LayerCall, number: int, operands: list[Node], group: Group | None) -> Node:
        """Add the nodes of a call of `dense` or `mlp`, and return its value."""
        x, sizes = operands
        network = Group(call.text, (x,), group)
        layers: dict[str, Group] = {}
        node = x
        for name, node in self.layers.nodes(call, number, x, sizes):
            self.origin.setdefault(node, number)
            of_layer = network if name is None else layers.setdefault(name, Group(name, (), network))
            self.groups.setdefault(node, of_layer)
            of_layer.value = node
        network.value = node
        return node


# --- Shapes


def check_shapes(names: naming.ResolvedNames, graph: Graph) -> frozenset[str]:
    """Check that the shapes in a graph are compatible, as far as they are known.

    Returns:
        The names without a declared shape that must be arrays: see `array_names`.

    Raises:
        ExpressionError: for the first incompatible shapes.
    """
    is_structural = any(op.is_structural for op in names.operations.values())
    if not (graph.shapes or is_structural or "@" in names.lexemes.words):
        return frozenset()
    from autodiff_cli.language.arrays import array_names

    assert graph.output is not None
    roots = [*graph.values.values(), *([] if graph.target is None else [graph.target]), graph.output]
    try:
        arrays = array_names(roots, graph.shapes)
        if graph.assumed_inputs:
            _check_layers(names, graph, arrays)
        shapes = ShapeInference(graph.shapes, arrays)
        for root in roots:
            shapes.infer(root)
    except ShapeError as mismatch:
        raise shape_error(mismatch, graph.source) from None
    return arrays


def _check_layers(names: naming.ResolvedNames, graph: Graph, arrays: frozenset[str]) -> None:
    """Check the names of layers' parameters, and the shapes that layers assumed for their inputs.

    Raises:
        ExpressionError: for a free name that looks like a layer's parameter but is not one, and for a layer whose input
            has another shape than the one that was assumed.
    """
    from autodiff_cli.language.arrays import unknown_length_error

    networks = {name.partition(".")[0] for name in graph.layer_parameters}
    for name, number in names.first_uses.items():
        network, dot, _ = name.partition(".")
        if dot and network in networks and name not in graph.layer_parameters:
            words = f"`{network}` has no parameter `{name}`"
            raise names.lexemes.error(words, number, suggest(name, graph.layer_parameters))
    shapes = ShapeInference(graph.shapes, arrays)
    for call, number, x, shape in graph.assumed_inputs:
        if shapes.infer(x) != shape:
            unknown = [node.text for node in topological_order((x,)) if node.text in arrays]
            raise unknown_length_error(names.lexemes, call, number, unknown)


# --- Programs


@dataclass(frozen=True, slots=True)
class Program:
    """An expression or a model that was read from a text.

    Attributes:
        text: the source text, as it was given.
        output: the value of the last statement; for a model `target ~ prediction`, the prediction.
        target: the left side of `~`; None without one.
        leaves: the input leaf of each free name, in order of first appearance; parameters of layers are included.
        shapes: the shapes of leaves that are declared, or are parameters of layers, by name.
        arrays: the names of other leaves that must be arrays (see `array_names`). Leaves in neither are numbers.
        layer_parameters: the role of each parameter of a layer, by name.
        convolutions: by the names of the places and weights of a response, its columns of places and of values.
        bound: the values of the names that the text binds (`a = x + y`).
        column_leaves: the comparison with text, or the parameter with levels, that a leaf stands for, by its name.
        notes: notes for the user, as sentences.
        source: the place of each node in the text.
    """

    text: str
    output: Node
    target: Node | None
    leaves: dict[str, Node]
    shapes: dict[str, Shape]
    arrays: frozenset[str]
    layer_parameters: dict[str, LayerParameter]
    convolutions: dict[tuple[str, str], tuple[str, str]]
    bound: dict[str, Node]
    column_leaves: dict[str, naming.TextMatch | naming.LevelParameter | naming.LevelEffect]
    notes: tuple[str, ...]
    source: Source


def read_for_floats(
    text: str, variables: Iterable[str] = (), columns: naming.ColumnNames = naming.NO_COLUMNS
) -> Program:
    """Read a text whose numbers must be representable as floats. See `read` for the arguments and errors."""
    program = read(text, variables, columns=columns)
    for node in topological_order([program.output]):
        if node.is_constant and not is_representable(node.text):
            start = program.source.start(node)
            raise ExpressionError(f"this is computed with floats, and no float represents {node.text}", text, start)
    return program


def read(
    text: str,
    variables: Iterable[str] = (),
    outputs: int | None = None,
    columns: naming.ColumnNames = naming.NO_COLUMNS,
) -> Program:
    """Read a text in the expression language.

    Args:
        text: the expression or model.
        variables: names of constants (`pi tau e inf nan`) to read as variables.
        outputs: the number of units in the last layer of an `mlp`; by default the length of the model's target. Where
            the target is a number, or missing, the value of an `mlp` is a number too.
        columns: the columns of the data that do not hold numbers.

    Raises:
        ExpressionError: for the first mistake in the text, with its position.
    """
    with gc_paused():
        variables = frozenset(map(canonical_name, variables))
        names = naming.resolve(parse(text), variables, columns)
        graph = build_graph(names, outputs)
        if graph.error is not None:
            raise graph.error
        arrays = check_shapes(names, graph)
        assert graph.output is not None
        leaves = {name: leaf for name, leaf in graph.leaves.items() if name in graph.values}
        shapes = {name: shape for name, shape in graph.shapes.items() if name in leaves}
        bound = {name: graph.values[name] for name in names.binding_statements if name in graph.values}
        return Program(
            text=text,
            output=graph.output,
            target=graph.target,
            leaves=leaves,
            shapes=shapes,
            arrays=arrays,
            layer_parameters=graph.layer_parameters,
            convolutions=graph.convolutions,
            bound=bound,
            column_leaves=dict(names.column_leaves),
            notes=(*names.notes, *_imaginary_unit_notes(graph, variables)),
            source=graph.source,
        )


def _imaginary_unit_notes(graph: Graph, variables: Container[str]) -> Iterator[str]:
    """Yield a note for a variable `i` or `j` in an exponent, as in `e^(i*x)`, unless it is known to be a variable."""
    for name in ("i", "j"):
        leaf = graph.leaves.get(name)
        if leaf is None or name in variables or graph.output is None:
            continue
        exponents = (
            node.inputs[-1]
            for node in topological_order([graph.output])
            if node.op is _EXP or (node.op is _POW and node.inputs[0].is_constant and node.inputs[0].text == "e")
        )
        if any(leaf in _factors(exponent) for exponent in exponents):
            yield f"`{name}` is a variable here, not the imaginary unit; complex numbers are not in the language"


def _factors(product: Node) -> list[Node]:
    """Return the factors and divisors of a product."""
    factors = [product]
    for node in factors:
        if node.op is not None and node.op.name in ("mul", "div", "neg"):
            factors.extend(node.inputs)
    return factors

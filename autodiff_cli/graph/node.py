"""Nodes of a computation graph, operations on them, and the registry of operations.

A node is one immutable vertex of a graph: an operation applied to other nodes, or a leaf. A leaf is an input (a name)
or a constant (the text of a number). Python's operators on nodes build new nodes, so derivative rules are written as
ordinary formulas. `==` and `hash` keep their identity semantics, because graphs use nodes as dictionary keys; a rule
writes `equal(x, y)` for a comparison.

The registry maps names to operations; the operators of a node look up `add`, `mul` and so on by name. An operation is
a record, `Op`, that declares a name and a derivative rule, written as ordinary arithmetic on nodes. Calling it builds a
node and does nothing else. Its rule is called once per number of inputs, on placeholder leaves, when it is first
needed. The rule returns small graphs in the same representation as formulas, so they can be evaluated, printed,
compiled and differentiated again.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, Self, TypeAlias, TypeVar

T = TypeVar("T")


# --- The registry of operations ---

_REGISTRY: dict[str, Op] = {}
_OVERLOADS: dict[str, list[Op]] = {}  # operations by the name that calls use, which several may share


def register(op: Op) -> Op:
    """Add an operation to the registry, under its name, its spelling and its aliases, and return it."""
    assert op.name not in _REGISTRY, f"two operations named {op.name}"
    _REGISTRY[op.name] = op
    for spelling in (op.spelling, *op.aliases):
        if spelling:
            _OVERLOADS.setdefault(spelling, []).append(op)
    return op


def get_op(name: str) -> Op:
    """Return the operation with this name. Raises KeyError if there is none."""
    return _REGISTRY[name]


def all_ops() -> Iterator[Op]:
    """Iterate over all operations, in the order of their declaration."""
    return iter(_REGISTRY.values())


def function_names() -> tuple[str, ...]:
    """Return all names that the language can call, including aliases."""
    return tuple(_OVERLOADS)


def overloads(name: str) -> tuple[Op, ...]:
    """Return the operations that share the call name `name` and differ in their number of inputs; empty if unknown."""
    return tuple(_OVERLOADS.get(name, ()))


# --- Nodes ---

Operand: TypeAlias = "Node | float"


class Operators:
    """Python's operators on objects that record operations: each calls `_apply` with the name of an operation."""

    __slots__ = ()

    def _apply(self, name: str, *operands: Any) -> Self:
        """Return the operation with this name on operands: this object, objects of its class, and numbers."""
        raise NotImplementedError

    def __add__(self, other: Self | float) -> Self:
        return self._apply("add", self, other)

    def __radd__(self, other: Self | float) -> Self:
        return self._apply("add", other, self)

    def __sub__(self, other: Self | float) -> Self:
        return self._apply("sub", self, other)

    def __rsub__(self, other: Self | float) -> Self:
        return self._apply("sub", other, self)

    def __mul__(self, other: Self | float) -> Self:
        return self._apply("mul", self, other)

    def __rmul__(self, other: Self | float) -> Self:
        return self._apply("mul", other, self)

    def __truediv__(self, other: Self | float) -> Self:
        return self._apply("div", self, other)

    def __rtruediv__(self, other: Self | float) -> Self:
        return self._apply("div", other, self)

    def __pow__(self, other: Self | float) -> Self:
        return self._apply("pow", self, other)

    def __rpow__(self, other: Self | float) -> Self:
        return self._apply("pow", other, self)

    def __neg__(self) -> Self:
        return self._apply("neg", self)


class OrderedOperators(Operators):
    """Operators and comparisons that record operations.

    The result of a comparison is an operation, not a truth value.
    """

    __slots__ = ()

    def __lt__(self, other: Self | float) -> Self:
        return self._apply("lt", self, other)

    def __le__(self, other: Self | float) -> Self:
        return self._apply("le", self, other)

    def __gt__(self, other: Self | float) -> Self:
        return self._apply("gt", self, other)

    def __ge__(self, other: Self | float) -> Self:
        return self._apply("ge", self, other)


class Node(OrderedOperators):
    """An operation applied to input nodes, or a leaf.

    Attributes:
        op: the operation; None for a leaf.
        inputs: the nodes that the operation is applied to; empty for a leaf.
        text: of a leaf, the name of an input, or a constant as it was written (`"2.50"`, `"pi"`). It is text and not a
            float, so that each kind of number parses it to its own precision.
        is_constant: whether this leaf is a constant.
    """

    __slots__ = ("__weakref__", "inputs", "is_constant", "op", "text")

    op: Final[Op | None]
    inputs: Final[tuple[Node, ...]]
    text: Final[str]
    is_constant: Final[bool]

    def __init__(self, op: Op | None, inputs: tuple[Node, ...] = (), text: str = "", is_constant: bool = False) -> None:
        self.op = op
        self.inputs = inputs
        self.text = text
        self.is_constant = is_constant

    @property
    def operation(self) -> Op:
        """The operation of a node that is known not to be a leaf."""
        assert self.op is not None
        return self.op

    @property
    def is_input(self) -> bool:
        """Whether this leaf is a named input."""
        return self.op is None and not self.is_constant

    def _apply(self, name: str, *operands: Operand) -> Node:
        return get_op(name)(*operands)

    def __mod__(self, other: Operand) -> Node:
        return self._apply("mod", self, other)

    def __rmod__(self, other: Operand) -> Node:
        return self._apply("mod", other, self)

    def __bool__(self) -> NoReturn:
        # Python evaluates `a < b < c` as `a < b and b < c`: without this error it would silently drop `a < b`.
        raise TypeError("a node has no truth value before it is evaluated; combine comparisons with and_, or_, not_")

    def __repr__(self) -> str:
        if self.op is None:
            return f"<{'constant' if self.is_constant else 'input'} {self.text}>"
        return f"<{self.op.name} of {len(self.inputs)}>"


def variable(name: str) -> Node:
    """Return a new input leaf.

    Two leaves with the same name are different nodes: share one leaf per name in a graph.
    """
    return Node(None, (), name)


def constant(value: float | str) -> Node:
    """Return a constant leaf for a number or the text of one.

    Constants have no sign, as in the language: a negative number becomes the negation of a constant.
    """
    if isinstance(value, str):
        return Node(None, (), value, True)
    text = repr(value).removesuffix(".0")
    return -constant(text[1:]) if text.startswith("-") else constant(text)


def as_node(operand: Operand) -> Node:
    """Return the operand itself if it is a node, else a constant with its value."""
    return operand if isinstance(operand, Node) else constant(operand)


def is_literal(node: Node, value: float) -> bool:
    """Return whether the node is the constant `value` itself, and not an expression that happens to have that value."""
    if not node.is_constant:
        return value == 0 and node.op is not None and node.op.name == "neg" and is_literal(node.inputs[0], 0)
    try:
        return float(node.text) == value and is_exactly(node.text, value)
    except ValueError:  # a named constant, such as pi: callers compare with plain numbers only
        return False


def is_representable(text: str) -> bool:
    """Return whether a constant is named, or a decimal number that is 0 or does not round to 0 or infinity.

    >>> [is_representable(text) for text in ("1e-400", "1e400", "0e5", "2.5", "pi")]
    [False, False, True, True, True]
    """
    return text[0].isalpha() or 0 < float(text) < math.inf or is_exactly(text, 0)


def is_exactly(text: str, value: float) -> bool:
    """Return whether the decimal number in `text` equals the float `value` exactly: 1e-400 rounds to 0 but is not 0.

    >>> is_exactly("1e-400", 0), is_exactly("0e5", 0), is_exactly("2.00000000000000000001", 2), is_exactly("0.5", 0.5)
    (False, True, False, True)
    """
    if not value:
        return not any(digit in "123456789" for digit in text.lower().partition("e")[0])
    # Decimals of at most 15 digits map to distinct floats; from 2^42 on, every float is a multiple of 1/1024.
    if len(text) < 16 and abs(value) < 2.0**33 and (value * 1024.0).is_integer():
        return True
    from decimal import Decimal

    return Decimal(text) == value


# --- Operations ---

ONE = constant("1")
ZERO = constant("0")


class Gate(enum.Enum):
    """The pattern by which an operation propagates a gradient backward, with the names that courses use."""

    DISTRIBUTE = "distribute"  # every input receives the gradient unchanged (add)
    SWAP = "swap"  # each input receives the gradient times the other input's value (mul)
    ROUTE = "route"  # only the selected input receives the gradient (max, where)
    SCALE = "scale"  # the input receives the gradient times the local derivative (most functions)
    BLOCK = "block"  # no input receives a gradient (comparisons, floor)


class Precedence(enum.IntEnum):
    """Precedence levels of the grammar, loosest first, for the printer."""

    STATEMENT = 0
    OR = 1
    AND = 2
    NOT = 3
    COMPARISON = 4
    SUM = 5
    PRODUCT = 6
    SIGN = 7
    POWER = 8
    ATOM = 9


@dataclass(frozen=True, slots=True)
class Partial:
    """A partial derivative of an operation, with a mask outside which it is exactly 0.

    Masks carry structural zeros through the chain rule. Where a mask is false, nothing is multiplied, so a nan or an
    infinity in a branch that was not taken cannot leak into the result.

    Attributes:
        local: the derivative of the output with respect to one input.
        mask: where the derivative applies; None if everywhere.
        is_masked: whether `local` is already 0 where the mask is false. The mask is then needed only for products.
    """

    local: Node
    mask: Node | None = None
    is_masked: bool = False

    @property
    def masked_graph(self) -> Node:
        """The derivative as one graph: `local` where the mask is true, else 0."""
        return self.local if self.mask is None or self.is_masked else get_op("where")(self.mask, self.local, ZERO)


@dataclass(frozen=True, slots=True)
class Placeholders:
    """The leaves over which a derivative rule is written.

    Attributes:
        output: the placeholder for the output.
        inputs: the placeholders for the inputs.
    """

    output: Node
    inputs: tuple[Node, ...]

    @property
    def places(self) -> tuple[Node, ...]:
        """All placeholders, the output first."""
        return (self.output, *self.inputs)

    def bind(self, output: T, inputs: Iterable[T]) -> dict[Node, T]:
        """Return what stands for the output and the inputs, by their placeholders."""
        return dict(zip(self.places, (output, *inputs), strict=True))

    def point(self, output: T, inputs: Iterable[T]) -> dict[str, T]:
        """Return the values of the output and the inputs, by the names of their placeholders."""
        return {place.text: value for place, value in self.bind(output, inputs).items()}


@dataclass(frozen=True, slots=True)
class Rule(Placeholders):
    """The derivative rule of an operation for one number of inputs, as graphs over placeholder leaves.

    Attributes:
        partials: one partial derivative per input; empty for a structural operation, which has a `StructuralRule`.
    """

    partials: tuple[Partial, ...]


Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StructuralRule(Placeholders):
    """The derivative rule of a structural operation for one set of input shapes, as graphs over placeholder leaves.

    Attributes:
        adjoint: the placeholder for the adjoint of the output.
        vjps: for each input, the contribution of `adjoint` to its adjoint; None if there is none.
    """

    adjoint: Node
    vjps: tuple[Partial | None, ...]

    @property
    def vjp_graphs(self) -> tuple[Node | None, ...]:
        """Each of the `vjps` as one graph that is 0 where its mask is false."""
        return tuple(None if partial is None else partial.masked_graph for partial in self.vjps)


Predicate = Callable[..., Operand]


@dataclass(frozen=True, eq=False, kw_only=True)
class Op:
    """An operation, declared once; every reader (parser, printer, loops, tables, documentation) reads this record.

    There are two ways to declare a derivative:

    - An elementwise operation has a `rule(z, *inputs)`, where `z` is the output. It returns one local derivative per
      input. A selecting operation returns a `Partial` with a mask; where the mask is false, the contribution is a
      structural zero.
    - A *structural* operation (`matmul`, `sum`) works on whole arrays. Its `shape(node, *shapes)` returns the shape of
      the output. `vjp(shapes, g, z, *inputs)` returns the contribution of the output's adjoint `g` to the adjoint of
      each input, or None where there is none; `shapes` are the shapes of the inputs. A contribution that reaches only
      some elements (at least one) is a `Partial` with the mask of these elements. Forward mode is the transpose.

    `expansion(*inputs)` defines the operation in terms of others. A composite has nothing else: its value is the value
    of its expansion, and its rule is the gradient of its expansion. It is still a single node of a graph.

    `kink`, `domain` and `singular` are predicates of the inputs. They are true where the derivative is one-sided, where
    the value is defined, and where the value or a derivative is infinite or undefined at a point of the domain.
    `uncomputed` is true where the function has a value that no float function computes, so that the result is nan.
    """

    name: str
    min_inputs: int
    max_inputs: int | None
    parameters: tuple[str, ...] = ()  # the names of the inputs; with any number of inputs, of the leading ones only
    rule: Callable[..., Sequence[Operand | Partial]] | None = None
    expansion: Callable[..., Node] | None = None
    is_composite: bool = False
    shape: Callable[..., Shape] | None = None
    vjp: Callable[..., Sequence[Node | Partial | None]] | None = None

    # notation
    spelling: str = ""  # its name in calls; empty for operators and helpers
    aliases: tuple[str, ...] = ()
    symbol: str = ""
    precedence: Precedence = Precedence.ATOM
    title: str = ""  # its name in sentences, if that is neither the symbol nor the spelling
    summary: str = ""
    is_helper: bool = False  # used only in derivative rules: not in the language, and printed as its expansion
    vanishes: Predicate | None = None  # where a helper is 0 by convention although its expansion is undefined

    # derivatives
    gate: Gate = Gate.SCALE
    factors: tuple[int | None, ...] = ()  # factors[i]: the position of the input that multiplies the i-th partial
    kink: Predicate | None = None
    kink_note: str = ""
    jumping_order: int | None = None  # order of the first derivative that jumps, at 0 or, of a spline, at its knots
    # the derivative as a function of output and input, as textbooks write it; inaccurate near saturation
    textbook_slope: Predicate | None = None
    domain: Predicate | None = None
    uncomputed: Predicate | None = None
    singular: Predicate | None = None
    unavailable_inputs: tuple[int, ...] = ()  # positions of inputs without a known derivative: the rule returns nan
    ulp_bound: float = 4.0  # largest measured error of value and slopes, in ulps of the exact result or largest term
    # the error near a zero of the value, where it exceeds `ulp_bound`: as a change of an input, in ulps of it
    argument_ulps: float = 0.0
    perturbed_input: int = -1  # the position of that input, from the end
    # the size of that input above which the error is in ulps of this size: larger changes would be of its phase
    argument_unit: float = 1.0

    # values
    parity: int = 0  # symmetry of a function of one number: 1 if even, -1 if odd
    is_positive: bool = False  # positive wherever it is defined
    zero_inputs: tuple[int, ...] | None = None  # positions of inputs at whose 0 the value may be 0; None for any input
    is_exact: bool = False  # an integer result of integer inputs is exact, of an operation that rounds others
    is_rectifier: bool = False  # an activation like relu: the layer before it gets larger initial weights
    saturation_values: tuple[float, float] | None = None  # the limits near which an activation is flat

    # structural operations
    array_inputs: tuple[int, ...] | None = None  # the positions of inputs that must be arrays; None for all
    # whether the output is an array, given the shapes of the inputs (None for an unknown shape)
    returns_array: Callable[..., bool] | None = None
    shape_only_inputs: tuple[int, ...] = ()  # the positions of inputs whose shape matters but not their values
    keeps_all_elements: bool = False  # whether the output contains all elements of the first input

    _rules: dict[int, Rule] = field(default_factory=dict, init=False, repr=False)
    _structural_rules: dict[tuple[Shape, ...], StructuralRule] = field(default_factory=dict, init=False, repr=False)
    _predicates: dict[tuple[str, int], Node] = field(default_factory=dict, init=False, repr=False)

    def __call__(self, *operands: Operand) -> Node:
        return Node(self, tuple(map(as_node, operands)))

    def __reduce__(self) -> tuple[Any, ...]:
        return get_op, (self.name,)

    @property
    def is_structural(self) -> bool:
        """Whether the operation works on whole arrays, and not element by element."""
        return self.shape is not None

    @property
    def is_finite(self) -> bool:
        """Whether the function is finite at all real points, apart from overflow."""
        return self.domain is None and self.singular is None

    @property
    def can_die(self) -> bool:
        """Whether a unit of a network with this activation can die: the activation is 0 and flat for negative
        numbers."""
        return self.is_rectifier and self.saturation_values is not None

    @property
    def propagates_masks(self) -> bool:
        """Whether a structural operation only rearranges or sums elements, so that masks propagate as adjoints do."""
        return self.is_structural and self.gate in (Gate.DISTRIBUTE, Gate.ROUTE)

    def accepts(self, count: int) -> bool:
        """Return whether the operation accepts this number of inputs."""
        return self.min_inputs <= count and (self.max_inputs is None or count <= self.max_inputs)

    def placeholders(self, count: int) -> tuple[Node, ...]:
        """Return the placeholder leaves for the inputs in the rule for `count` inputs."""
        return self.derivative_rule(count).inputs

    def derivative_rule(self, count: int) -> Rule:
        """Return the derivative rule for `count` inputs, traced on first use."""
        rule = self._rules.get(count)
        if rule is None:
            rule = self._rules[count] = self._trace_rule(count)
        return rule

    def structural_rule(self, shapes: tuple[Shape, ...]) -> StructuralRule:
        """Return the derivative rule of a structural operation for inputs with these shapes, traced on first use."""
        rule = self._structural_rules.get(shapes)
        if rule is None:
            rule = self._structural_rules[shapes] = self._trace_structural_rule(shapes)
        return rule

    def predicate(self, name: str, count: int) -> Node | None:
        """Return one of the predicates, by its field, as a graph over the placeholders of `count` inputs."""
        function: Predicate | None = getattr(self, name)
        if function is None:
            return None
        key = (name, count)
        if key not in self._predicates:
            self._predicates[key] = as_node(function(*self.placeholders(count)))
        return self._predicates[key]

    def expand(self, count: int) -> Node | None:
        """Return the expansion as a graph over the placeholders of `count` inputs; None for a primitive operation."""
        return None if self.expansion is None else self.expansion(*self.placeholders(count))

    def _trace_rule(self, count: int) -> Rule:
        output = variable("z")
        inputs = tuple(variable(f"x{i}") for i in range(count))
        if self.rule is None:
            return Rule(output, inputs, ())  # its `StructuralRule` depends on shapes
        # A rule returns a partial for each optional input too; partials of absent inputs are dropped.
        partials = tuple(map(_as_partial, self.rule(output, *inputs)[:count]))
        assert len(partials) == count, self.name
        return Rule(output, inputs, partials)

    def _trace_structural_rule(self, shapes: tuple[Shape, ...]) -> StructuralRule:
        assert self.vjp is not None
        output, adjoint = variable("z"), variable("g")
        inputs = self.placeholders(len(shapes))
        vjps = [None if vjp is None else _as_partial(vjp) for vjp in self.vjp(shapes, adjoint, output, *inputs)]
        return StructuralRule(output, inputs, adjoint, tuple(vjps))


def _as_partial(value: Operand | Partial) -> Partial:
    return value if isinstance(value, Partial) else Partial(as_node(value))

"""Operations: the record that declares a name and a derivative rule, written as ordinary arithmetic on nodes.

Calling an `Op` builds a node and does nothing else. Its rule is called once per number of inputs, on placeholder
leaves, when it is first needed. The rule returns small graphs in the same representation as formulas, so they can be
evaluated, printed, compiled and differentiated again.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from autodiff_cli.graph.node import Node, Operand, as_node, constant, get_op, variable

T = TypeVar("T")

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
        if self.mask is None or self.is_masked:
            return self.local
        return get_op("where")(self.mask, self.local, ZERO)


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
    has_cancelling_slopes: bool = False  # whether a slope is a difference that may lose all digits to cancellation

    # values
    parity: int = 0  # symmetry of a function of one number: 1 if even, -1 if odd
    is_positive: bool = False  # positive wherever it is defined
    zero_inputs: tuple[int, ...] | None = None  # positions of inputs at whose 0 the value may be 0; None for any input
    is_exact: bool = False  # an integer result of integer inputs is exact
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

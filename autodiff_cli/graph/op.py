"""The operation: a name, and a derivative rule written once, as ordinary arithmetic on nodes.

Calling an op builds a node and nothing else. A rule is called once per number of inputs, on placeholder leaves, the
first time it is needed; the small graphs it returns are data in the same language as the formulas they differentiate:
they can be evaluated, printed, compiled and differentiated again.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from autodiff_cli.graph.node import Node, Operand, as_node, constant, variable
from autodiff_cli.graph.registry import registered

ONE = constant("1")
ZERO = constant("0")


class Gate(enum.Enum):
    """What an operation does with the gradient that reaches it, as courses name the patterns."""

    DISTRIBUTE = "distribute"  # hands it on unchanged (add)
    SWAP = "swap"  # hands each input the gradient times the other input's value (mul)
    ROUTE = "route"  # hands it to the input that was chosen (max, where)
    SCALE = "scale"  # hands it on times the local derivative (every function)
    BLOCK = "block"  # hands nothing on (comparisons, floor)


class Precedence(enum.IntEnum):
    """How tightly a piece of text binds, loosest first. The grammar's levels, for the printer."""

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
    """The derivative of an operation's output towards one input, where `mask` holds; elsewhere exactly 0.

    A mask of None holds always. Masks are how structural zeros travel: under a mask that does not hold, nothing is
    multiplied, so that a nan or an infinity in the branch not taken cannot leak. What is `settled` is 0 by itself where
    its mask fails: the mask matters only once it is multiplied.
    """

    local: Node
    mask: Node | None = None
    settled: bool = False

    @property
    def selected(self) -> Node:
        """The amount where the mask holds, else 0, as one graph."""
        if self.mask is None or self.settled:
            return self.local
        return registered("where")(self.mask, self.local, ZERO)


@dataclass(frozen=True, slots=True)
class Rule:
    """An op's derivative rule for one number of inputs, as graphs over placeholder leaves; without partials for a
    structural operation."""

    output: Node
    inputs: tuple[Node, ...]
    partials: tuple[Partial, ...]


Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Passage:
    """How an adjoint and tangents pass through a structural operation, for one set of input shapes.

    `partials[k]` is what an adjoint of the output contributes to the k-th input, over the placeholders `adjoint`,
    `output` and `inputs`; `ahead[k]` what the k-th input's tangent contributes to the output's, over `tangents[k]` and
    these. None where nothing passes.
    """

    output: Node
    inputs: tuple[Node, ...]
    adjoint: Node
    tangents: tuple[Node, ...]
    partials: tuple[Partial | None, ...]
    ahead: tuple[Partial | None, ...]

    @property
    def back(self) -> tuple[Node | None, ...]:
        """The `partials` as one graph each, 0 where the mask does not hold."""
        return tuple(None if partial is None else partial.selected for partial in self.partials)


Predicate = Callable[..., Operand]


@dataclass(frozen=True, eq=False, kw_only=True)
class Op:
    """An operation, declared once; every reader (parser, printer, loops, tables, documentation) reads this record.

    How it differentiates is said in one of two ways:

    - One that works element by element has a `rule(z, *inputs)`: one local derivative per input; `z` is the output.
      One that selects gives a `Partial`, with the mask under which it counts; elsewhere the input gets structurally
      nothing.
    - A *structural* operation (`matmul`, `sum`) works on whole arrays. It has a `shape(node, *shapes)`, and says how an
      adjoint and a tangent pass through: `vjp(shapes, g, z, *inputs)` and `jvp(shapes, tangents, z, *inputs)` give one
      contribution per input, or None where nothing passes; `shapes` are those of the inputs. What reaches some elements
      only, at least one, is a `Partial`, with the mask of these.

    `expansion(*inputs)` is what the op is by definition, in terms of others. Of a composite it is all that there is:
    its value is that of its expansion, its rule the gradient of it. It is one node in a graph nevertheless.

    `kink`, `domain`, `singular` are predicates of the inputs: where the derivative is one-sided, where the value is
    defined, where the value or a slope is infinite or undefined although the value's neighbourhood is in the domain.
    `unavailable` are the positions of the inputs towards which no derivative is known: the rule says nan there.
    `bound` is the largest measured error of the value and the slopes as floats, in units in the last place of the exact
    result or of the largest term of the sum that it is.
    """

    name: str
    least: int
    most: int | None
    parameters: tuple[str, ...] = ()  # what the inputs are called; of any number of inputs, those that have a name
    rule: Callable[..., Sequence[Operand | Partial]] | None = None
    expansion: Callable[..., Node] | None = None
    is_composite: bool = False
    shape: Callable[..., Shape] | None = None
    vjp: Callable[..., Sequence[Node | Partial | None]] | None = None
    jvp: Callable[..., Sequence[Node | Partial | None]] | None = None

    # how it is written
    spelling: str = ""  # how calls write it; empty for operators and helpers
    aliases: tuple[str, ...] = ()
    symbol: str = ""
    precedence: Precedence = Precedence.ATOM
    title: str = ""  # what sentences call it, where that is neither its symbol nor its spelling
    summary: str = ""
    helper: bool = False  # serves rules only: not in the language, printed as its expansion
    vanishes: Predicate | None = None  # of a helper: where it is 0 by convention, while its expansion has no value

    # what it does with a gradient
    gate: Gate = Gate.SCALE
    factors: tuple[int | None, ...] = ()  # factors[i]: the input whose value multiplies the i-th partial
    kink: Predicate | None = None
    kink_note: str = ""
    textbook: Predicate | None = None  # of output and input: the slope as books have it, without digits near `ends`
    domain: Predicate | None = None
    singular: Predicate | None = None
    unavailable: tuple[int, ...] = ()
    bound: float = 4.0

    # what is known of its values
    parity: int = 0  # of one number: 1 if f(-x) is f(x), -1 if it is -f(x)
    is_positive: bool = False  # greater than 0 wherever it has a value
    is_exact: bool = False  # a result that is a whole number, computed from whole numbers, is not rounded
    is_rectifier: bool = False  # as the activation of a layer it is like relu: weights before it begin larger
    ends: tuple[float, float] | None = None  # as an activation: where it is near one of these values it is flat

    # of a structural operation
    array_inputs: tuple[int, ...] | None = None  # those of its inputs that have to be arrays; None for all
    gives_array: Callable[..., bool] | None = None  # whether its output is an array, however little is known of shapes
    shape_only: tuple[int, ...] = ()  # the inputs of which the shape is read and not the value
    keeps_all: bool = False  # whether all elements of its first input are elements of the output

    _rules: dict[int, Rule] = field(default_factory=dict, init=False, repr=False)
    _passages: dict[tuple[Shape, ...], Passage] = field(default_factory=dict, init=False, repr=False)
    _predicates: dict[tuple[str, int], Node] = field(default_factory=dict, init=False, repr=False)

    def __call__(self, *operands: Operand) -> Node:
        return Node(self, tuple(map(as_node, operands)))

    def __reduce__(self) -> tuple[Any, ...]:
        return registered, (self.name,)

    @property
    def structural(self) -> bool:
        """Whether it works on whole arrays, and not element by element."""
        return self.shape is not None

    @property
    def is_finite(self) -> bool:
        """Whether it has a value at all points, and no pole; an overflow is none."""
        return self.domain is None and self.singular is None

    @property
    def dies(self) -> bool:
        """Whether a unit of a network with this activation may go out: it is 0 and flat at all negative numbers."""
        return self.is_rectifier and self.ends is not None

    @property
    def arranges(self) -> bool:
        """Whether a structural operation only arranges elements or adds them up: then a mask passes back through it as
        an adjoint does."""
        return self.structural and self.gate in (Gate.DISTRIBUTE, Gate.ROUTE)

    def accepts(self, count: int) -> bool:
        """Whether the operation takes this many inputs."""
        return self.least <= count and (self.most is None or count <= self.most)

    def placeholders(self, count: int) -> tuple[Node, ...]:
        """The leaves over which the rule for `count` inputs is written."""
        return self.partials(count).inputs

    def partials(self, count: int) -> Rule:
        """The rule for `count` inputs, traced on first use."""
        rule = self._rules.get(count)
        if rule is None:
            rule = self._rules[count] = self._trace(count)
        return rule

    def passage(self, shapes: tuple[Shape, ...]) -> Passage:
        """How derivatives pass through a structural operation whose inputs have these shapes, traced on first use."""
        passage = self._passages.get(shapes)
        if passage is None:
            passage = self._passages[shapes] = self._trace_passage(shapes)
        return passage

    def predicate(self, which: str, count: int) -> Node | None:
        """The predicate `kink`, `domain` or `singular` as a graph over the placeholders of `count` inputs."""
        function: Predicate | None = getattr(self, which)
        if function is None:
            return None
        key = (which, count)
        if key not in self._predicates:
            self._predicates[key] = as_node(function(*self.placeholders(count)))
        return self._predicates[key]

    def expand(self, count: int) -> Node | None:
        """The op's definition, as a graph over the placeholders of `count` inputs; None for one defined by itself."""
        return None if self.expansion is None else self.expansion(*self.placeholders(count))

    def _trace(self, count: int) -> Rule:
        output = variable("z")
        inputs = tuple(variable(f"x{i}") for i in range(count))
        if self.rule is None:
            return Rule(output, inputs, ())  # it differentiates by its passage, which depends on shapes
        # A rule with optional inputs gives a partial for each; those not given are left out.
        partials = tuple(_as_partial(found) for found in self.rule(output, *inputs)[:count])
        assert len(partials) == count, self.name
        return Rule(output, inputs, partials)

    def _trace_passage(self, shapes: tuple[Shape, ...]) -> Passage:
        assert self.vjp is not None
        assert self.jvp is not None
        output, adjoint = variable("z"), variable("g")
        inputs = tuple(variable(f"x{i}") for i in range(len(shapes)))
        tangents = tuple(variable(f"d{i}") for i in range(len(shapes)))
        back, ahead = self.vjp(shapes, adjoint, output, *inputs), self.jvp(shapes, tangents, output, *inputs)
        return Passage(output, inputs, adjoint, tangents, _as_passed(back), _as_passed(ahead))


def _as_passed(found: Sequence[Node | Partial | None]) -> tuple[Partial | None, ...]:
    return tuple(None if amount is None else _as_partial(amount) for amount in found)


def _as_partial(found: Operand | Partial) -> Partial:
    return found if isinstance(found, Partial) else Partial(as_node(found))

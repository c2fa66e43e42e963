"""The operation: a name, and a derivative rule written once, as ordinary arithmetic on nodes.

Calling an op builds a node and nothing else. A rule is called once per number of inputs, on placeholder leaves, the
first time it is needed; the small graphs it returns are data in the same language as the formulas they differentiate:
they can be evaluated, printed, compiled and differentiated again.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from autodiff_cli.graph.node import Node, Operand, as_node, constant, variable


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

    `back[k]` is what an adjoint of the output contributes to the k-th input, over the placeholders `adjoint`, `output`
    and `inputs`; `ahead[k]` what the k-th input's tangent contributes to the output's, over `tangents[k]` and these.
    None where nothing passes. `partials[k]` is `back[k]` with its mask kept apart.
    """

    output: Node
    inputs: tuple[Node, ...]
    adjoint: Node
    tangents: tuple[Node, ...]
    back: tuple[Node | None, ...]
    partials: tuple[Partial | None, ...]
    ahead: tuple[Node | None, ...]


Predicate = Callable[..., Operand]


@dataclass(frozen=True, eq=False, kw_only=True)
class Op:
    """An operation, declared once; every reader (parser, printer, loops, tables, documentation) reads this record.

    `rule`, `choice` or, where neither is given, `expansion` says how it differentiates:

    - `rule(z, *inputs)` gives one local derivative per input; `z` is the output.
    - `choice(z, *inputs)` gives a pair (mask, weight) per input: the op hands on `weight` times its gradient to the
      inputs whose mask holds, and structurally nothing to the others.
    - `expansion(*inputs)` says what the op is by definition, in terms of others. An op with nothing else is a
      composite: still one node in a graph, but its value and partials are those of its expansion.

    All these work element by element. A *structural* operation (`matmul`, `sum`) is not elementwise; it declares how
    an adjoint and a tangent pass through: `vjp(shapes, g, z, *inputs)` and `jvp(shapes, tangents, z, *inputs)` give one
    contribution per input, or None where nothing passes; `shapes` are those of the inputs. Where an adjoint reaches
    some elements of an input only, `vjp` gives a `Partial`, with the mask of these. It may be a composite too.

    `kink`, `domain`, `singular` are predicates of the inputs: where the derivative is one-sided, where the value is
    defined, where the value or a slope is infinite or undefined although the value's neighbourhood is in the domain.
    `unavailable` are the positions of the inputs towards which no derivative is known: the rule says nan there.
    `bound` is the largest measured error of the value and the slopes as floats, in units in the last place of the exact
    result or of the largest term of the sum that it is.
    """

    name: str
    least: int
    most: int | None
    rule: Callable[..., Sequence[Operand]] | None = None
    choice: Callable[..., Sequence[tuple[Operand, Operand]]] | None = None
    expansion: Callable[..., Node] | None = None
    vjp: Callable[..., Sequence[Node | Partial | None]] | None = None
    jvp: Callable[..., Sequence[Node | None]] | None = None
    shape: Callable[..., Shape] | None = None  # of a structural op that is no composite: shape(node, *shapes)
    structural: bool = False
    spelling: str = ""  # how calls write it; empty for operators and helpers
    aliases: tuple[str, ...] = ()
    symbol: str = ""
    precedence: Precedence = Precedence.ATOM
    gate: Gate = Gate.SCALE
    factors: tuple[int | None, ...] = ()  # factors[i]: the input whose value multiplies the i-th partial
    kink: Predicate | None = None
    kink_note: str = ""
    domain: Predicate | None = None
    singular: Predicate | None = None
    bound: float = 4.0
    unavailable: tuple[int, ...] = ()
    summary: str = ""
    helper: bool = False  # serves rules only: not in the language, printed as its expansion
    _rules: dict[int, Rule] = field(default_factory=dict, init=False, repr=False)
    _passages: dict[tuple[Shape, ...], Passage] = field(default_factory=dict, init=False, repr=False)
    _predicates: dict[tuple[str, int], Node] = field(default_factory=dict, init=False, repr=False)

    def __call__(self, *operands: Operand) -> Node:
        return Node(self, tuple(map(as_node, operands)))

    def __reduce__(self) -> tuple[Any, ...]:
        return registered, (self.name,)

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
        if self.structural:
            return Rule(output, inputs, ())  # it differentiates by its passage, which depends on shapes
        if self.rule is not None:
            # A rule with optional inputs gives a partial for each; those not given are left out.
            partials = [Partial(as_node(local)) for local in self.rule(output, *inputs)[:count]]
        elif self.choice is not None:
            partials = [Partial(as_node(weight), as_node(mask)) for mask, weight in self.choice(output, *inputs)]
        else:
            from autodiff_cli.graph.gradient import gradient

            assert self.expansion is not None
            partials = gradient(self.expansion(*inputs), inputs)
        assert len(partials) == count, self.name
        return Rule(output, inputs, tuple(partials))

    def _trace_passage(self, shapes: tuple[Shape, ...]) -> Passage:
        from autodiff_cli.graph.gradient import NOTHING, gradient, selected, tangent

        output, adjoint = variable("z"), variable("g")
        inputs = tuple(variable(f"x{i}") for i in range(len(shapes)))
        tangents = tuple(variable(f"d{i}") for i in range(len(shapes)))
        if self.vjp is not None:
            assert self.jvp is not None
            passed = self.vjp(shapes, adjoint, output, *inputs)
            partials = tuple(Partial(found) if isinstance(found, Node) else found for found in passed)
            ahead = tuple(self.jvp(shapes, tangents, output, *inputs))
        else:
            assert self.expansion is not None
            graph = self.expansion(*inputs)
            sizes = {place.text: shape for place, shape in zip(inputs, shapes, strict=True)}
            sizes |= {place.text: shape for place, shape in zip(tangents, shapes, strict=True)}
            arrived = gradient(graph, inputs, sizes, Partial(adjoint))
            partials = tuple(None if found is NOTHING else Partial(selected(found)) for found in arrived)
            ahead = tuple(tangent(graph, {x: d}, sizes) for x, d in zip(inputs, tangents, strict=True))
        back = tuple(None if partial is None else selected(partial) for partial in partials)
        return Passage(output, inputs, adjoint, tangents, back, partials, ahead)


_REGISTRY: dict[str, Op] = {}


def register(op: Op) -> Op:
    """Enter an op in the table of all operations, under its name."""
    assert op.name not in _REGISTRY, f"two operations named {op.name}"
    assert any(way is not None for way in (op.rule, op.choice, op.expansion, op.vjp)), op.name
    _REGISTRY[op.name] = op
    return op


def registered(name: str) -> Op:
    """The operation of this name. Raises KeyError if there is none."""
    return _REGISTRY[name]


def all_ops() -> Iterator[Op]:
    """Every operation, in the order of declaration."""
    return iter(_REGISTRY.values())


ONE = constant("1")
ZERO = constant("0")

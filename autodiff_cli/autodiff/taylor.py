"""Derivatives of any order in one variable, without expressions that grow.

Every operation says how its output changes: `z' = Σ local(z, x) · x'`. Differentiated k - 1 times by Leibniz, with the
k-th derivative along the variable written as z[k], this is

    z[k] = Σ_j C(k-1, j-1) · local[k-j] · x[j]        over every input x, j = 1 … k,

so the derivatives of z follow one after the other from those of its inputs and of its local derivatives. These are
graphs, whose operations have rules in turn. All are put in one list, each once (the cosine that `sin` needs and the
sine that `cos` needs close the circle), and the derivatives of all are advanced together, one order at a time: a number
of steps that grows with the square of the order, and no faster than the graph. See Griewank and Walther, Evaluating
Derivatives (2008), chapter 13. Derivatives are kept in place of Taylor coefficients, because factorials are whole
numbers and their inverses are rounded.
"""

from __future__ import annotations

import functools
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from autodiff_cli.algebra.simplify import simplify
from autodiff_cli.graph.node import Node, constant, is_literal
from autodiff_cli.graph.op import ONE, Op
from autodiff_cli.graph.tape import Tape, rebuild
from autodiff_cli.numbers.kind import Kind
from autodiff_cli.ops.arithmetic import add, div, mul, neg, sub

N = TypeVar("N")
# The value and the derivatives of one entry, by order. None is structurally nothing, as everywhere.
Series = list[Any]

_TEMPLATES = 1024  # kept, since literal inputs make different ones


def derivatives(tape: Tape, leaf: Node, kind: Kind[N], point: Mapping[str, N], order: int) -> list[N]:
    """The value of a graph and its derivatives up to `order` towards one input leaf.

    Args:
        tape: of the graph and for this leaf: `Tape((output,), [leaf])`, with no structural operation in it.
        point: a number for the name of every input leaf.
    """
    closure = _Closure(tape, leaf, order)
    found = [[value, *[None] * order] for value in _values(closure.entries, kind, point)]
    found[closure.variable][1:2] = [kind.rate("1")] if order else []
    divide = kind.function(div, 2)
    moving = [i for i, entry in enumerate(closure.entries) if entry.moves and entry.op is not None]
    for k in range(1, order + 1):
        row = [math.comb(k, j) for j in range(k + 1)]
        row_before = [math.comb(k - 1, j) for j in range(k)]
        for i in moving:
            entry = closure.entries[i]
            if entry.depth + k > order:
                continue
            recurrence = _RECURRENCES.get(entry.op)
            if recurrence is not None:
                found[i][k] = recurrence(found[i], [found[j] for j in entry.inputs], k, row, divide)
            elif entry.definition is not None:
                # Outside of the domain all is nan, whatever the definition is there; what is absent stays so.
                is_nan = found[i][0] != found[i][0] and found[entry.definition][k] is not None
                found[i][k] = found[i][0] if is_nan else found[entry.definition][k]
            else:
                found[i][k] = _by_rule(entry, found, k, row_before)
    nothing = kind.read("0")
    return [nothing if x is None else x for x in found[closure.output]]


def _values(entries: Sequence[_Entry], kind: Kind[N], point: Mapping[str, N]) -> list[N]:
    values: list[N] = []
    for entry in entries:
        if entry.op is None:
            values.append(kind.read(entry.text) if entry.is_constant else point[entry.text])
        else:
            values.append(kind.function(entry.op, len(entry.inputs))(*[values[i] for i in entry.inputs]))
    return values


# --- the list of everything that takes part


class _Partial(NamedTuple):
    """A local derivative, where its mask (if it has one) holds, and the input towards which it is; as entries."""

    local: int
    mask: int | None
    towards: int


@dataclass(slots=True)
class _Entry:
    """A node among all that take part.

    Attributes:
        inputs: as positions in the list, as are the entries in `partials` and `definition`.
        live: the positions among `inputs` through which a derivative travels.
        moves: whether it depends on the variable.
        depth: its derivatives are needed up to the order asked for less `depth`.
        literal: the number it is as written, with its sign; None for all that is no literal.
        definition: for a composite, what it stands for.
        partials: for all else that moves and has no recurrence of its own.
    """

    op: Op | None
    inputs: tuple[int, ...]
    live: tuple[int, ...]
    moves: bool
    depth: int
    text: str = ""
    is_constant: bool = False
    literal: str | None = None
    definition: int | None = None
    partials: tuple[_Partial, ...] = ()


class _Closure:
    """A graph with the graphs of its derivative rules, and of theirs, as deep as an order needs them.

    Attributes:
        entries: everything, each after its inputs and after its definition.
        variable, output: the positions of the leaf and of the graph's output.
    """

    def __init__(self, tape: Tape, leaf: Node, order: int) -> None:
        self.entries: list[_Entry] = []
        self._made: dict[object, int] = {}
        self._unfolded: deque[int] = deque()
        self.variable = self._leaf(leaf, moves=True)
        (self.output,) = self._put(tape, {leaf: self.variable}, 0)
        while self._unfolded:
            entry = self.entries[self._unfolded.popleft()]
            if entry.depth < order:
                self._unfold(entry)

    def _put(self, tape: Tape, place: Mapping[Node, int], depth: int) -> list[int]:
        """Enter a graph over entries; the entries of its outputs."""
        found: list[int] = []
        for node, inputs, live in zip(tape.nodes, tape.inputs, tape.edges, strict=True):
            if node.op is not None:
                found.append(self._operation(node.op, tuple([found[j] for j in inputs]), live, depth))
            else:
                found.append(place[node] if node in place else self._leaf(node))
        return [found[i] for i in tape.outputs]

    def _leaf(self, node: Node, moves: bool = False) -> int:
        literal = node.text if node.is_constant else None
        entry = _Entry(None, (), (), moves, 0, node.text, node.is_constant, literal)
        return self._enter((node.text, node.is_constant), entry)

    def _operation(self, op: Op, inputs: tuple[int, ...], live: tuple[int, ...], depth: int) -> int:
        key = (op, inputs)
        if key in self._made:
            return self._made[key]
        entry = _Entry(op, inputs, live, bool(live), depth)
        if op is neg:
            size = self.entries[inputs[0]].literal
            entry.literal = None if size is None or size.startswith("-") else f"-{size}"
        if entry.moves and op not in _RECURRENCES:
            if op.is_composite:
                template = self._template(entry)
                (entry.definition,) = self._put(template.tape, template.placed(inputs), depth)
            else:
                self._unfolded.append(len(self.entries))
        return self._enter(key, entry)

    def _enter(self, key: object, entry: _Entry) -> int:
        if key not in self._made:
            self._made[key] = len(self.entries)
            self.entries.append(entry)
        return self._made[key]

    def _unfold(self, entry: _Entry) -> None:
        """Enter the local derivatives of an operation."""
        template = self._template(entry)
        place = template.placed(entry.inputs) | {template.output: self._made[entry.op, entry.inputs]}
        found = iter(self._put(template.tape, place, entry.depth + 1))
        entry.partials = tuple(
            _Partial(next(found), next(found) if is_masked else None, entry.inputs[k])
            for k, is_masked in template.partials
        )

    def _template(self, entry: _Entry) -> _Template:
        assert entry.op is not None
        return _made_template(entry.op, entry.live, tuple([self.entries[i].literal for i in entry.inputs]))


class _Template(NamedTuple):
    """What an operation refers to, as a tape over placeholders: its definition if it is a composite, else for every
    partial (the input's position, whether it has a mask) the local derivative and the mask."""

    tape: Tape
    output: Node
    inputs: tuple[Node, ...]
    partials: tuple[tuple[int, bool], ...] = ()

    def placed(self, inputs: Sequence[int]) -> dict[Node, int]:
        """The entries that stand for the placeholders of the inputs."""
        return dict(zip(self.inputs, inputs, strict=True))


@functools.lru_cache(_TEMPLATES)
def _made_template(op: Op, live: tuple[int, ...], literals: tuple[str | None, ...]) -> _Template:
    """The template of an operation for inputs of which some are literals."""
    rule = op.partials(len(literals))
    known = {place: _literal(text) for place, text in zip(rule.inputs, literals, strict=True) if text is not None}
    moving = [rule.output, *(rule.inputs[k] for k in live)]
    if op.is_composite:
        definition = op.expand(len(literals))
        assert definition is not None
        return _Template(Tape(_tidied([definition], known), moving), rule.output, rule.inputs)
    partials = [rule.partials[k] for k in live]
    roots = _tidied([root for p in partials for root in (p.local, ONE if p.mask is None else p.mask)], known)
    kept = [
        (k, local, mask if p.mask is not None else None)
        for k, p, local, mask in zip(live, partials, roots[::2], roots[1::2], strict=True)
        if not is_literal(local, 0)
    ]
    tape = Tape([root for _, local, mask in kept for root in (local, mask) if root is not None], moving)
    return _Template(tape, rule.output, rule.inputs, tuple((k, mask is not None) for k, _, mask in kept))


def _tidied(roots: Sequence[Node], known: Mapping[Node, Node]) -> list[Node]:
    """Graphs with literals in place: the slope of `x^3` is `3*x^2` then, and after three more the rest is 0 for
    certain. Rules without literals stay as they are written, for their digits."""
    return simplify(rebuild(roots, known)) if known else [*roots]


def _literal(text: str) -> Node:
    return -constant(text[1:]) if text.startswith("-") else constant(text)


# --- how the derivatives of one entry follow from others


def _total(amounts: Iterator[Any]) -> Any:
    total = None
    for amount in amounts:
        if amount is not None:
            total = amount if total is None else total + amount
    return total


def _by_rule(entry: _Entry, found: Sequence[Series], k: int, row: Sequence[int]) -> Any:
    """z[k], by the formula at the top; `row` holds the binomial coefficients of k - 1."""
    taken = (p for p in entry.partials if p.mask is None or found[p.mask][0])
    return _total(_leibniz(row, found[p.local], found[p.towards][1:], k - 1) for p in taken)


def _leibniz(row: Sequence[int], a: Series, b: Series, k: int, start: int = 0) -> Any:
    """Σ row[j] · a[k-j] · b[j] from j = `start` to k."""
    return _total(row[j] * (a[k - j] * b[j]) for j in range(start, k + 1) if a[k - j] is not None and b[j] is not None)


def _quotient(z: Series, inputs: Sequence[Series], k: int, row: Sequence[int], divide: Callable[..., Any]) -> Any:
    """From x = z·y: x[k] = Σ_j C(k, j) · z[k-j] · y[j], solved for z[k]."""
    x, y = inputs
    rest = _leibniz(row, z, y, k, start=1)
    if x[k] is None and rest is None:
        return None
    return divide(-rest if x[k] is None else x[k] if rest is None else x[k] - rest, y[0])


def _difference(_: Series, inputs: Sequence[Series], k: int, *__: Any) -> Any:
    x, y = inputs[0][k], inputs[1][k]
    return x if y is None else -y if x is None else x - y


# Arithmetic by formulas of its own: they round less, and the rules of a quotient would go on for ever.
_RECURRENCES: dict[Op | None, Callable[..., Any]] = {
    add: lambda z, inputs, k, *_: _total(x[k] for x in inputs),
    sub: _difference,
    neg: lambda z, inputs, k, *_: None if inputs[0][k] is None else -inputs[0][k],
    mul: lambda z, inputs, k, row, _: _leibniz(row, inputs[0], inputs[1], k),
    div: _quotient,
}

"""Derivatives of any order in one variable, without expressions that grow with the order.

Every operation determines how its output changes: `z' = Σ local(z, x) · x'`. Differentiated k - 1 times by Leibniz'
rule, with the k-th derivative along the variable written as z[k], this is

    z[k] = Σ_j C(k-1, j-1) · local[k-j] · x[j]        over every input x, j = 1 … k,

so the derivatives of z follow one after the other from those of its inputs and of its local derivatives. These are
graphs, whose operations have rules in turn. All nodes are put in one list, each once, which closes because sin needs
cos and cos needs sin. The derivatives of all entries are advanced together, one order at a time: the number of steps
grows with the square of the order, and linearly with the graph. See Griewank and Walther, Evaluating Derivatives
(2008), chapter 13. Derivatives are stored instead of Taylor coefficients, because factorials are integers and their
inverses are rounded.
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
from autodiff_cli.graph.tape import Tape, substitute
from autodiff_cli.numbers.kind import Kind
from autodiff_cli.ops.arithmetic import add, div, mul, neg, sub

N = TypeVar("N")
# The value and the derivatives of one entry, by order. None is a structural zero.
DerivativeSeries = list[Any]

_MAX_TEMPLATES = 1024  # cached templates: literal inputs make different ones of the same operation


def derivatives(tape: Tape, leaf: Node, kind: Kind[N], point: Mapping[str, N], order: int) -> list[N]:
    """Return the value of a graph and its derivatives up to `order` towards one input leaf.

    Args:
        tape: the tape of the graph for this leaf: `Tape((output,), [leaf])`, without operations on whole arrays.
        leaf: the variable.
        kind: the kind of number.
        point: a number for every input leaf, by name.
        order: the highest order.
    """
    closure = _RuleClosure(tape, leaf, order)
    series = [[value, *[None] * order] for value in _entry_values(closure.entries, kind, point)]
    series[closure.variable][1:2] = [kind.parse_derivative("1")] if order else []
    divide = kind.function(div, 2)
    active_entries = [i for i, entry in enumerate(closure.entries) if entry.is_active and entry.op is not None]
    for k in range(1, order + 1):
        row = [math.comb(k, j) for j in range(k + 1)]
        row_before = [math.comb(k - 1, j) for j in range(k)]
        for i in active_entries:
            entry = closure.entries[i]
            if entry.depth + k > order:
                continue
            recurrence = _RECURRENCES.get(entry.op)
            if recurrence is not None:
                series[i][k] = recurrence(series[i], [series[j] for j in entry.inputs], k, row, divide)
            elif entry.definition is not None:
                # Outside of the domain all derivatives are nan, whatever the definition gives; structural zeros remain.
                is_nan = series[i][0] != series[i][0] and series[entry.definition][k] is not None
                series[i][k] = series[i][0] if is_nan else series[entry.definition][k]
            else:
                series[i][k] = _derivative_by_rule(entry, series, k, row_before)
    zero = kind.parse_constant("0")
    return [zero if x is None else x for x in series[closure.output]]


def _entry_values(entries: Sequence[_Entry], kind: Kind[N], point: Mapping[str, N]) -> list[N]:
    values: list[N] = []
    for entry in entries:
        if entry.op is None:
            values.append(kind.parse_constant(entry.text) if entry.is_constant else point[entry.text])
        else:
            values.append(kind.function(entry.op, len(entry.inputs))(*[values[i] for i in entry.inputs]))
    return values


# --- The list of all nodes that take part


class _Partial(NamedTuple):
    """A local derivative, its mask if it has one, and the input towards which it is: positions of entries."""

    local: int
    mask: int | None
    wrt: int


@dataclass(slots=True)
class _Entry:
    """A node in the list of all nodes that take part.

    Attributes:
        op: the operation; None for a leaf.
        inputs: the positions of the inputs in the list. `partials` and `definition` are positions too.
        active_inputs: the indices among `inputs` through which a derivative passes.
        is_active: whether the node depends on the variable.
        depth: derivatives are needed up to the requested order minus `depth`.
        text: the name or the constant of a leaf.
        is_constant: whether the node is a constant leaf.
        literal: the number as written, with its sign; None if the node is not a literal.
        definition: the expansion of a composite.
        partials: the local derivatives of other active operations without a recurrence of their own.
    """

    op: Op | None
    inputs: tuple[int, ...]
    active_inputs: tuple[int, ...]
    is_active: bool
    depth: int
    text: str = ""
    is_constant: bool = False
    literal: str | None = None
    definition: int | None = None
    partials: tuple[_Partial, ...] = ()


class _RuleClosure:
    """A graph with the graphs of its derivative rules, and of the rules of these, as deep as an order requires.

    Attributes:
        entries: all nodes, each after its inputs and its definition.
        variable: the position of the leaf.
        output: the position of the graph's output.
    """

    def __init__(self, tape: Tape, leaf: Node, order: int) -> None:
        self.entries: list[_Entry] = []
        self._positions: dict[object, int] = {}
        self._pending: deque[int] = deque()
        self.variable = self._add_leaf(leaf, is_active=True)
        (self.output,) = self._add_graph(tape, {leaf: self.variable}, 0)
        while self._pending:
            entry = self.entries[self._pending.popleft()]
            if entry.depth < order:
                self._add_partials(entry)

    def _add_graph(self, tape: Tape, position_of: Mapping[Node, int], depth: int) -> list[int]:
        """Add a graph whose leaves are existing entries, and return the entries of its outputs."""
        positions: list[int] = []
        for node, inputs, active_inputs in zip(tape.nodes, tape.inputs, tape.active_inputs, strict=True):
            if node.op is not None:
                positions.append(
                    self._add_operation(node.op, tuple([positions[j] for j in inputs]), active_inputs, depth)
                )
            else:
                positions.append(position_of[node] if node in position_of else self._add_leaf(node))
        return [positions[i] for i in tape.outputs]

    def _add_leaf(self, node: Node, is_active: bool = False) -> int:
        literal = node.text if node.is_constant else None
        entry = _Entry(None, (), (), is_active, 0, node.text, node.is_constant, literal)
        return self._add_entry((node.text, node.is_constant), entry)

    def _add_operation(self, op: Op, inputs: tuple[int, ...], live: tuple[int, ...], depth: int) -> int:
        key = (op, inputs)
        if key in self._positions:
            return self._positions[key]
        entry = _Entry(op, inputs, live, bool(live), depth)
        if op is neg:
            size = self.entries[inputs[0]].literal
            entry.literal = None if size is None or size.startswith("-") else f"-{size}"
        if entry.is_active and op not in _RECURRENCES:
            if op.is_composite:
                template = self._template_of(entry)
                (entry.definition,) = self._add_graph(template.tape, template.positions_of(inputs), depth)
            else:
                self._pending.append(len(self.entries))
        return self._add_entry(key, entry)

    def _add_entry(self, key: object, entry: _Entry) -> int:
        if key not in self._positions:
            self._positions[key] = len(self.entries)
            self.entries.append(entry)
        return self._positions[key]

    def _add_partials(self, entry: _Entry) -> None:
        """Add the local derivatives of an operation."""
        template = self._template_of(entry)
        position_of = template.positions_of(entry.inputs) | {template.output: self._positions[entry.op, entry.inputs]}
        positions = iter(self._add_graph(template.tape, position_of, entry.depth + 1))
        entry.partials = tuple(
            _Partial(next(positions), next(positions) if is_masked else None, entry.inputs[k])
            for k, is_masked in template.partials
        )

    def _template_of(self, entry: _Entry) -> _Template:
        assert entry.op is not None
        return _make_template(entry.op, entry.active_inputs, tuple([self.entries[i].literal for i in entry.inputs]))


class _Template(NamedTuple):
    """The expansion or the partial derivatives of an operation, as a tape over placeholders.

    For a composite the tape has its expansion. Otherwise it has, for each element of `partials` (input position,
    whether there is a mask), the local derivative and the mask, if any.
    """

    tape: Tape
    output: Node
    inputs: tuple[Node, ...]
    partials: tuple[tuple[int, bool], ...] = ()

    def positions_of(self, inputs: Sequence[int]) -> dict[Node, int]:
        """Return the entries that replace the placeholders of the inputs."""
        return dict(zip(self.inputs, inputs, strict=True))


@functools.lru_cache(_MAX_TEMPLATES)
def _make_template(op: Op, active_inputs: tuple[int, ...], literals: tuple[str | None, ...]) -> _Template:
    """Return the template of an operation whose inputs are partly literals."""
    rule = op.derivative_rule(len(literals))
    literal_of = {
        placeholder: _literal_node(text)
        for placeholder, text in zip(rule.inputs, literals, strict=True)
        if text is not None
    }
    active = [rule.output, *(rule.inputs[k] for k in active_inputs)]
    if op.is_composite:
        definition = op.expand(len(literals))
        assert definition is not None
        return _Template(Tape(_simplified([definition], literal_of), active), rule.output, rule.inputs)
    partials = [rule.partials[k] for k in active_inputs]
    roots = _simplified([root for p in partials for root in (p.local, ONE if p.mask is None else p.mask)], literal_of)
    nonzero = [
        (k, local, mask if p.mask is not None else None)
        for k, p, local, mask in zip(active_inputs, partials, roots[::2], roots[1::2], strict=True)
        if not is_literal(local, 0)
    ]
    tape = Tape([root for _, local, mask in nonzero for root in (local, mask) if root is not None], active)
    return _Template(tape, rule.output, rule.inputs, tuple((k, mask is not None) for k, _, mask in nonzero))


def _simplified(roots: Sequence[Node], known: Mapping[Node, Node]) -> list[Node]:
    """Return graphs with literals substituted and simplified.

    The slope of `x^3` then becomes `3*x^2`, and from the fourth order on it is certainly 0. Rules without literals
    remain as they are written, for their accuracy.
    """
    return simplify(substitute(roots, known)) if known else [*roots]


def _literal_node(text: str) -> Node:
    return -constant(text[1:]) if text.startswith("-") else constant(text)


# --- The derivatives of one entry from those of others


def _sum_present(amounts: Iterator[Any]) -> Any:
    total = None
    for amount in amounts:
        if amount is not None:
            total = amount if total is None else total + amount
    return total


def _derivative_by_rule(entry: _Entry, series: Sequence[DerivativeSeries], k: int, row: Sequence[int]) -> Any:
    """Return z[k] by the formula in the module's docstring; `row` contains the binomial coefficients of k - 1."""
    selected = (p for p in entry.partials if p.mask is None or series[p.mask][0])
    return _sum_present(_leibniz(row, series[p.local], series[p.wrt][1:], k - 1) for p in selected)


def _leibniz(row: Sequence[int], a: DerivativeSeries, b: DerivativeSeries, k: int, start: int = 0) -> Any:
    """Return Σ row[j] · a[k-j] · b[j] for j from `start` to k."""
    return _sum_present(
        row[j] * (a[k - j] * b[j]) for j in range(start, k + 1) if a[k - j] is not None and b[j] is not None
    )


def _quotient_derivative(
    z: DerivativeSeries, inputs: Sequence[DerivativeSeries], k: int, row: Sequence[int], divide: Callable[..., Any]
) -> Any:
    """Return z[k] of z = x/y, from x[k] = Σ_j C(k, j) · z[k-j] · y[j] solved for z[k]."""
    x, y = inputs
    rest = _leibniz(row, z, y, k, start=1)
    if x[k] is None and rest is None:
        return None
    return divide(-rest if x[k] is None else x[k] if rest is None else x[k] - rest, y[0])


def _difference_derivative(_: DerivativeSeries, inputs: Sequence[DerivativeSeries], k: int, *__: Any) -> Any:
    x, y = inputs[0][k], inputs[1][k]
    return x if y is None else -y if x is None else x - y


# Arithmetic has its own formulas: they round less, and the rules of a quotient would never close.
_RECURRENCES: dict[Op | None, Callable[..., Any]] = {
    add: lambda z, inputs, k, *_: _sum_present(x[k] for x in inputs),
    sub: _difference_derivative,
    neg: lambda z, inputs, k, *_: None if inputs[0][k] is None else -inputs[0][k],
    mul: lambda z, inputs, k, row, _: _leibniz(row, inputs[0], inputs[1], k),
    div: _quotient_derivative,
}

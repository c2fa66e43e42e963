"""Derivatives of any order in one variable, without expressions that grow with the order.

Every operation determines how its output changes: `z' = Σ local(z, x) · x'`. Differentiated k - 1 times by Leibniz'
rule, with the k-th derivative along the variable written as z[k], this is

    z[k] = Σ_j C(k-1, j-1) · local[k-j] · x[j]        over every input x, j = 1 … k,

so each derivative of z follows from the derivatives of its inputs and of its local derivatives. Local derivatives are
graphs, whose operations have rules in turn. All nodes are put in one list, each once. The list is finite, because sin
needs cos and cos needs sin. The derivatives of all entries are advanced together, one order at a time: the number of
steps grows with the square of the order, and linearly with the graph. See Griewank and Walther, Evaluating Derivatives
(2008), chapter 13. Derivatives are stored instead of Taylor coefficients, because factorials are integers and their
inverses are rounded.
"""

from __future__ import annotations

import functools
import math
import operator
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from autodiff_cli.algebra.simplify import NodeTable, simplify
from autodiff_cli.graph.node import ONE, Node, Op, constant, is_literal
from autodiff_cli.graph.tape import Tape, infer, substitute
from autodiff_cli.numbers.kind import Kind
from autodiff_cli.ops.arithmetic import add, div, mul, neg, sub

N = TypeVar("N")
# The value and the derivatives of one entry, by order. None is a structural zero.
DerivativeSeries = list[Any]

_MAX_TEMPLATES = 1024  # cached templates; one operation has several, for different literal inputs


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
    series: dict[Node, DerivativeSeries] = {}
    for node in closure.entries:
        if node.op is None:
            value = kind.parse_constant(node.text) if node.is_constant else point[node.text]
        else:
            value = kind.function(node.op, len(node.inputs))(*[series[child][0] for child in node.inputs])
        series[node] = [value, *[None] * order]
    series[closure.variable][1:2] = [kind.parse_derivative("1")] if order else []
    divide = kind.function(div, 2)
    active_entries = [(node, entry) for node, entry in closure.entries.items() if entry.is_active and node.op]
    for k in range(1, order + 1):
        row = [math.comb(k, j) for j in range(k + 1)]
        row_before = [math.comb(k - 1, j) for j in range(k)]
        for node, entry in active_entries:
            if entry.depth + k > order:
                continue
            recurrence = _RECURRENCES.get(node.op)
            if recurrence is not None:
                series[node][k] = recurrence(series[node], [series[child] for child in node.inputs], k, row, divide)
            elif entry.definition is not None:
                # Outside the domain all derivatives are nan, even if the definition has numbers; structural zeros stay.
                is_nan = series[node][0] != series[node][0] and series[entry.definition][k] is not None
                series[node][k] = series[node][0] if is_nan else series[entry.definition][k]
            else:
                series[node][k] = _derivative_by_rule(entry, series, k, row_before)
    zero = kind.parse_constant("0")
    return [zero if x is None else x for x in series[closure.output]]


# --- The nodes of a graph and of its derivative rules


class _Partial(NamedTuple):
    """A local derivative, its mask if it has one, and the input towards which it is."""

    local: Node
    mask: Node | None
    wrt: Node


@dataclass(slots=True)
class _Entry:
    """A node, the order of the derivatives that are needed of it, and the way to compute them.

    Attributes:
        depth: derivatives are needed up to the requested order minus `depth`.
        is_active: whether the node depends on the variable.
        active_inputs: the positions of the inputs through which a derivative passes.
        definition: the expansion of a composite.
        partials: the local derivatives of other active operations without a recurrence of their own.
    """

    depth: int
    is_active: bool
    active_inputs: tuple[int, ...] = ()
    definition: Node | None = None
    partials: Sequence[_Partial] = ()


class _RuleClosure:
    """A graph with the graphs of its derivative rules, and of the rules of these, as deep as an order requires.

    Attributes:
        entries: all nodes, each after its inputs and its definition. Equal nodes are one.
        variable: the node of the leaf.
        output: the node of the graph's output.
    """

    def __init__(self, tape: Tape, leaf: Node, order: int) -> None:
        self.entries: dict[Node, _Entry] = {}
        self._table = NodeTable()
        self._pending: deque[Node] = deque()
        self._depth = 0  # the depth of the nodes that are added
        self.variable = self._table.leaf(leaf)
        _, (self.output,) = self._add([self.variable]), self._add([tape.nodes[tape.outputs[0]]])
        while self._pending:
            node = self._pending.popleft()
            entry = self.entries[node]
            if entry.depth < order:
                self._depth = entry.depth + 1
                graphs, partials = self._rule(node, entry.active_inputs)
                added = iter(graphs)
                entry.partials = [
                    _Partial(next(added), next(added) if is_masked else None, node.inputs[k])
                    for k, is_masked in partials
                ]

    def _add(self, roots: Sequence[Node], replace: Mapping[Node, Node] | None = None) -> list[Node]:
        """Add graphs, of which some nodes stand for nodes that were added before."""
        graphs = self._table.rebuild(roots, replace)
        for graph in graphs:
            infer(graph, self.entries, self._entry)
        return graphs

    def _entry(self, node: Node) -> _Entry:
        """Return the entry of a node whose inputs have entries."""
        op, inputs = node.op, node.inputs
        if op is None:
            return _Entry(0, node is self.variable)
        active = tuple([k for k, child in enumerate(inputs) if self.entries[child].is_active])
        if active and op.factors:
            factors = {k: inputs[f] for k, f in enumerate(op.factors) if f is not None}
            active = tuple([k for k in active if k not in factors or not is_literal(factors[k], 0)])
        entry = _Entry(self._depth, bool(active), active)
        if active and op.is_composite:
            (entry.definition,), _ = self._rule(node, active)
        elif active and op not in _RECURRENCES:
            self._pending.append(node)
        return entry

    def _rule(self, node: Node, active_inputs: tuple[int, ...]) -> tuple[list[Node], Sequence[tuple[int, bool]]]:
        """Add the graphs of a node's rule, and return them as `_rule_graphs` does."""
        graphs, partials = _rule_graphs(node.operation, active_inputs, tuple(map(_literal_text, node.inputs)))
        return self._add(graphs, node.operation.derivative_rule(len(node.inputs)).bind(node, node.inputs)), partials


def _literal_text(node: Node) -> str | None:
    """Return a number as it is written, with its sign; None for other nodes."""
    if node.op is neg and node.inputs[0].is_constant:
        return f"-{node.inputs[0].text}"
    return node.text if node.is_constant else None


@functools.lru_cache(_MAX_TEMPLATES)
def _rule_graphs(
    op: Op, active_inputs: tuple[int, ...], literals: tuple[str | None, ...]
) -> tuple[list[Node], Sequence[tuple[int, bool]]]:
    """Return the graphs of an operation's rule over its placeholders, where some inputs are literals.

    For a composite this is its expansion. Otherwise these are, for each pair that is returned beside them (position of
    the input, whether there is a mask), the local derivative and the mask, if any.
    """
    rule = op.derivative_rule(len(literals))
    literal_of = {
        placeholder: -constant(text[1:]) if text.startswith("-") else constant(text)
        for placeholder, text in zip(rule.inputs, literals, strict=True)
        if text is not None
    }
    if op.is_composite:
        definition = op.expand(len(literals))
        assert definition is not None
        return _simplified([definition], literal_of), ()
    partials = [rule.partials[k] for k in active_inputs]
    roots = _simplified([root for p in partials for root in (p.local, ONE if p.mask is None else p.mask)], literal_of)
    nonzero = [
        (k, local, mask if p.mask is not None else None)
        for k, p, local, mask in zip(active_inputs, partials, roots[::2], roots[1::2], strict=True)
        if not is_literal(local, 0)
    ]
    graphs = [root for _, local, mask in nonzero for root in (local, mask) if root is not None]
    return graphs, [(k, mask is not None) for k, _, mask in nonzero]


def _simplified(roots: Sequence[Node], known: Mapping[Node, Node]) -> list[Node]:
    """Return graphs with literals substituted and simplified.

    The slope of `x^3` then becomes `3*x^2`, and from the fourth order on it is certainly 0. Rules without literals
    remain as they are written, for their accuracy.
    """
    return simplify(substitute(roots, known)) if known else [*roots]


# --- The derivatives of one entry from the derivatives of its inputs


def _sum_present(amounts: Iterator[Any]) -> Any:
    present = [amount for amount in amounts if amount is not None]
    return functools.reduce(operator.add, present) if present else None


def _derivative_by_rule(entry: _Entry, series: Mapping[Node, DerivativeSeries], k: int, row: Sequence[int]) -> Any:
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

"""The trace of an expression with arrays.

Both passes are run as graphs: one reverse sweep on nodes gives the adjoint of every node and what it hands on, and all
of these are evaluated together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autodiff_cli.explain.steps import Handed, Trace
from autodiff_cli.explain.warnings import Caveat, of_the_node, where
from autodiff_cli.expression import Expression
from autodiff_cli.graph.gradient import Sweep, selected, sweep
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Partial, Shape
from autodiff_cli.graph.shapes import in_words, shapes
from autodiff_cli.graph.tape import Tape
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.numbers.arrays import ARRAYS, quiet

MOST_NUMBERS = 250_000_000


@dataclass(frozen=True, eq=False)
class ArrayTrace(Trace):
    """A trace whose reverse pass was evaluated as a whole.

    Attributes:
        handed: for every node, what it hands on, by input position.
    """

    handed: list[dict[int, Handed]]

    @property
    def is_scalar(self) -> bool:
        return False

    def handed_at(self, i: int) -> dict[int, Handed]:
        return self.handed[i]


@dataclass(frozen=True)
class Passes:
    """Both passes over a formula with arrays, as graphs that are still to be evaluated.

    Attributes:
        swept: the reverse sweep, its amounts settled: each is one graph, 0 where its mask does not hold.
    """

    swept: Sweep

    @property
    def graphs(self) -> list[Node]:
        """All graphs, each once."""
        given = [one for contributions in self.swept.contributions for one in contributions]
        amounts = [amount for amount in [*self.swept.adjoints, *(one.amount for one in given)] if amount is not None]
        parts = [node for amount in amounts for node in (amount.local, amount.mask)]
        graphs = [*self.swept.tape.nodes, *(one.local for one in given), *parts]
        return [*dict.fromkeys(node for node in graphs if node is not None)]

    def trace(
        self, expression: Expression, point: Mapping[str, Any], wrt: tuple[str, ...], known: Mapping[Node, Any]
    ) -> ArrayTrace:
        """The trace that these passes are, given the values of all graphs."""
        arrived = [None if adjoint is None else _among(known, adjoint) for adjoint in self.swept.adjoints]
        handed: list[dict[int, Handed]] = [{} for _ in arrived]
        for i, contributions in enumerate(self.swept.contributions):
            for one in contributions:
                amount = _among(known, one.amount)
                if amount is not None and arrived[i] is not None:
                    handed[i][one.position] = Handed(None if one.local is None else known[one.local], amount)
        values = [known[node] for node in self.swept.tape.nodes]
        return ArrayTrace(expression, point, wrt, self.swept.tape, values, arrived, handed)


def _among(known: Mapping[Node, Any], amount: Partial) -> Any:
    """The value of an amount that is settled, given those of all graphs; None if it is absent in every element."""
    return known[amount.local] if amount.mask is None or np.any(known[amount.mask] != 0) else None


def passes(expression: Expression, wrt: tuple[str, ...], sizes: Mapping[str, Shape]) -> Passes:
    """Both passes as graphs, for variables of these shapes."""
    with expression.placed():
        swept = sweep(expression.output, [expression.leaves[name] for name in wrt], sizes)
    adjoints = [None if adjoint is None else _settled(adjoint) for adjoint in swept.adjoints]
    contributions = [[replace(one, amount=_settled(one.amount)) for one in several] for several in swept.contributions]
    return Passes(Sweep(swept.tape, adjoints, contributions))


def _settled(amount: Partial) -> Partial:
    return Partial(selected(amount), amount.mask, settled=True)


def sizes_at(expression: Expression, point: Mapping[str, Any]) -> dict[str, Shape]:
    """The shapes of the variables that are no scalars, at one point. Raises ExpressionError for a batch of points, and
    for an output that is an array."""
    sizes = expression.sizes_of_scalar_output(point)
    for name, value in point.items():
        if np.ndim(value) > len(sizes.get(name, ())):
            declared = f"{name}: {in_words(np.shape(value))}"
            raise ExpressionError(
                f"`{name}` is a number here, not an array; declare it to make it one", suggestion=declared
            )
    return sizes


def array_trace(expression: Expression, point: Mapping[str, Any], wrt: tuple[str, ...]) -> ArrayTrace:
    """Run both passes at a point of arrays and numbers. See `steps.trace`.

    Raises ExpressionError before computing for arrays that would not fit into memory.
    """
    sizes = sizes_at(expression, point)
    both = passes(expression, wrt, sizes)
    count = sum(map(math.prod, shapes(Tape(both.graphs), sizes)))
    if count > MOST_NUMBERS:
        raise ExpressionError(
            f"the arrays of both passes have {count:,} numbers, and {MOST_NUMBERS:,} (2 GB) is the most that is kept "
            "for display; from Python, `Expression.value_and_grad` keeps only what it needs"
        )
    values = expression.evaluate(both.graphs, point, sizes)
    return both.trace(expression, point, wrt, dict(zip(both.graphs, values, strict=True)))


def array_caveats(trace: Trace) -> list[Caveat]:
    """The warnings of a trace with arrays: for each operation and kind, the first element that it holds for."""
    found = []
    for i, node in enumerate(trace.tape.nodes):
        if node.op is None or trace.arrived[i] is None:
            continue
        if node.op.structural:
            if _is_kink(trace, i):
                found.append(Caveat(i, "kink", f"{where(trace, i)}: {node.op.kink_note}"))
            continue
        seen: set[str] = set()
        for position in _suspects(trace, i):
            view = _element(trace, i, position)
            slopes = {k: handed.local for k, handed in view.handed_at(i).items()}
            for kind, reason in of_the_node(view, i, slopes):
                if kind not in seen:
                    seen.add(kind)
                    spot = f", element [{', '.join(map(str, position))}]" if position else ""
                    found.append(Caveat(i, kind, f"{where(view, i)}{spot}: {reason}"))
    return found


def _is_kink(trace: Trace, i: int) -> bool:
    """Whether an operation on whole arrays has a one-sided derivative where it stands."""
    op = trace.tape.nodes[i].op
    assert op is not None
    inputs = [np.asarray(trace.values[j])[..., None] for j in trace.tape.inputs[i]]
    predicate = ARRAYS.predicate(op, "kink", len(inputs))
    with quiet():
        return predicate is not None and bool(np.any(predicate(*inputs)))


def _suspects(trace: Trace, i: int) -> Iterator[tuple[int, ...]]:
    """The elements of a node at which something may have to be said."""
    op = trace.tape.nodes[i].op
    assert op is not None
    inputs = [trace.values[j] for j in trace.tape.inputs[i]]
    shape = np.shape(trace.values[i])
    suspect = np.zeros(shape, dtype=bool)
    with quiet():
        for number in (trace.values[i], trace.arrived[i], *(h.local for h in trace.handed_at(i).values())):
            suspect |= ~np.isfinite(number)
        for which in ("kink", "singular", "domain"):
            predicate = ARRAYS.predicate(op, which, len(inputs))
            if predicate is not None:
                holds = np.asarray(predicate(*inputs)) != 0
                suspect |= ~holds if which == "domain" else holds
    yield from (tuple(map(int, position)) for position in np.argwhere(suspect))


def _element(trace: Trace, i: int, position: tuple[int, ...]) -> Trace:
    """The trace of scalars that stands at one element of an elementwise operation, as far as that node needs it."""
    shape = np.shape(trace.values[i])

    def at(number: Any) -> float:
        return float(np.broadcast_to(number, shape)[position])

    values, arrived = [*trace.values], [*trace.arrived]
    for j in trace.tape.inputs[i]:
        values[j] = at(trace.values[j])
    values[i], arrived[i] = at(trace.values[i]), at(trace.arrived[i])
    view = Trace(trace.expression, trace.point, trace.wrt, trace.tape, values, arrived)
    view.__dict__["labels"] = trace.labels  # computed once, for all elements
    return view

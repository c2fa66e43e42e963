"""The trace of an expression with arrays.

Both passes are run as graphs: one reverse sweep on nodes gives the adjoint of every node and what it hands on, and all
of these are evaluated together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from autodiff_cli.explain.steps import Handed, Trace
from autodiff_cli.explain.warnings import Caveat, of_the_node, where
from autodiff_cli.expression import Expression
from autodiff_cli.graph.gradient import selected, sweep
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.shapes import in_words
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.numbers.arrays import ARRAYS, quiet


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


def array_trace(expression: Expression, point: Mapping[str, Any], wrt: tuple[str, ...]) -> ArrayTrace:
    """Run both passes at a point of arrays and numbers. See `steps.trace`."""
    sizes = expression.sizes_of_scalar_output(point)
    for name, value in point.items():
        if np.ndim(value) > len(sizes.get(name, ())):
            declared = f"{name}: {in_words(np.shape(value))}"
            raise ExpressionError(
                f"`{name}` is a number here, not an array; declare it to make it one", suggestion=declared
            )
    with expression.placed():
        swept = sweep(expression.output, [expression.leaves[name] for name in wrt], sizes)
    wanted: dict[Node, None] = dict.fromkeys(swept.tape.nodes)
    arrived = [None if adjoint is None else selected(adjoint) for adjoint in swept.adjoints]
    handed = [
        {given.position: (given.local, selected(given.amount)) for given in contributions}
        for contributions in swept.contributions
    ]
    wanted.update(dict.fromkeys(node for node in arrived if node is not None))
    for contributions in handed:
        wanted.update(dict.fromkeys(node for pair in contributions.values() for node in pair if node is not None))
    values: dict[Node | None, Any] = dict(zip(wanted, expression.evaluate([*wanted], point, sizes), strict=True))
    values[None] = None
    return ArrayTrace(
        expression,
        point,
        wrt,
        swept.tape,
        [values[node] for node in swept.tape.nodes],
        [values[node] for node in arrived],
        [{k: Handed(values[d], values[amount]) for k, (d, amount) in pairs.items()} for pairs in handed],
    )


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

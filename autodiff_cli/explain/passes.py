"""Both passes as graphs: one reverse sweep on nodes gives the adjoint of every node and what it hands on.

All of these are evaluated together, on arrays or on numbers of any digits, and are a `Trace` then.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from autodiff_cli.explain.record import Trace, added_up, is_anywhere, shape_of
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.gradient import Sweep, partials_at, sweep
from autodiff_cli.graph.node import Node, is_literal
from autodiff_cli.graph.op import ZERO, Partial, Shape
from autodiff_cli.graph.shapes import shapes
from autodiff_cli.graph.tape import Tape
from autodiff_cli.language.errors import ExpressionError

MOST_NUMBERS = 250_000_000


@dataclass(frozen=True)
class PassGraphs:
    """Both passes over a formula, still to be evaluated.

    Attributes:
        wrt: the variables towards which the formula is differentiated.
        swept: the reverse sweep, its amounts settled: each is one graph, 0 where its mask does not hold.
        locals: for every node that takes a gradient, the local derivatives towards the inputs that do, by position;
            None for an operation on whole arrays.
    """

    expression: Formula
    wrt: tuple[str, ...]
    swept: Sweep
    locals: list[dict[int, Node | None]]

    @property
    def graphs(self) -> list[Node]:
        """All graphs, each once; the value and the gradient first."""
        swept = self.swept
        given = [amount for contributions in swept.contributions for amount in contributions.values()]
        amounts = [amount for amount in [*swept.adjoints, *given] if amount is not None]
        parts = [node for amount in amounts for node in (amount.local, amount.mask)]
        locals_ = [local for several in self.locals for local in several.values()]
        graphs = [*self.results, *swept.tape.nodes, *locals_, *parts]
        return [*dict.fromkeys(node for node in graphs if node is not None)]

    @property
    def results(self) -> list[Node]:
        """The graphs of the value and the gradient, each once."""
        return [*dict.fromkeys([self.expression.output, *self.slopes.values()])]

    @property
    def slopes(self) -> dict[str, Node]:
        """The graphs of the derivatives towards the variables that the output depends on, by their names."""
        pairs = zip(self.swept.tape.nodes, self.swept.adjoints, strict=True)
        return {node.text: slope.local for node, slope in pairs if node.is_input and slope is not None}

    def totals(self, sizes: Mapping[str, Shape]) -> int:
        """How many numbers the running totals have that are no amounts themselves."""
        tape = self.swept.tape
        given = Counter(tape.inputs[i][k] for i, several in enumerate(self.swept.contributions) for k in several)
        return sum((given[j] - 1) * math.prod(shape) for j, shape in enumerate(shapes(tape, sizes)) if given[j])

    def at(self, point: Mapping[str, Any], known: Mapping[Node, Any]) -> Trace:
        """The trace that these passes are at a point, without warnings, given the values of all graphs there."""
        tape = self.swept.tape
        values = [known[node] for node in tape.nodes]
        arrived = [None if adjoint is None else _among(known, adjoint) for adjoint in self.swept.adjoints]
        given: list[dict[int, tuple[Any, Any]]] = []
        for adjoint, locals_, contributions in zip(arrived, self.locals, self.swept.contributions, strict=True):
            amounts = {} if adjoint is None else {k: _among(known, amount) for k, amount in contributions.items()}
            given.append({k: (None if graph is None else known[graph], amounts.get(k)) for k, graph in locals_.items()})
        masks = {i: adjoint.mask for i, adjoint in enumerate(self.swept.adjoints) if adjoint is not None}
        absent = {i: known[mask] == 0 for i, mask in masks.items() if mask is not None and shape_of(known[mask])}
        with _quiet(values):
            handed = added_up(tape, values, given)
        return Trace(self.expression, point, self.wrt, tape, values, arrived, handed, absent)


def _quiet(values: Iterable[Any]) -> AbstractContextManager[None]:
    """A context in which arrays say nothing about what IEEE arithmetic defines; where there are none, NumPy is not
    needed."""
    if not any(map(shape_of, values)):
        return nullcontext()
    from autodiff_cli.numbers.arrays.table import quiet

    return quiet()


def _among(known: Mapping[Node, Any], amount: Partial) -> Any:
    """The value of an amount that is settled, given those of all graphs; None if it is absent in every element."""
    if amount.mask is None:
        return known[amount.local]
    return known[amount.local] if is_anywhere(known[amount.mask]) else None


def passes(expression: Formula, wrt: tuple[str, ...], point: Mapping[str, Any]) -> PassGraphs:
    """Both passes as graphs, for variables of the shapes that they have at a point.

    Raises ExpressionError for a batch of points, where shapes do not fit, and for an output that is an array.
    """
    with expression.placed():
        swept = sweep(expression.output, [expression.leaves[name] for name in wrt], sizes_at(expression, point))
    adjoints = [None if adjoint is None else _settled(adjoint) for adjoint in swept.adjoints]
    contributions = [{k: _settled(amount) for k, amount in several.items()} for several in swept.contributions]
    return PassGraphs(expression, wrt, Sweep(swept.tape, adjoints, contributions), [*_locals(swept.tape)])


def _locals(tape: Tape) -> Iterator[dict[int, Node | None]]:
    """The local derivatives towards the inputs that take a gradient, of every node."""
    for node, inputs in zip(tape.nodes, tape.inputs, strict=True):
        wanted = tuple([k for k, j in enumerate(inputs) if tape.reached[j]])
        if node.op is None or node.op.structural:
            yield dict.fromkeys(wanted)
        else:
            partials = partials_at(node, wanted)
            yield {k: _or_zero(partial) for k, partial in zip(wanted, partials, strict=True)}


def _or_zero(partial: Partial) -> Node:
    return ZERO if is_literal(partial.local, 0) else partial.selected


def _settled(amount: Partial) -> Partial:
    return Partial(amount.selected, amount.mask, settled=True)


def sizes_at(expression: Formula, point: Mapping[str, Any]) -> dict[str, Shape]:
    """The shapes of the variables that are no scalars, at one point. Raises ExpressionError for a batch of points, and
    for an output that is an array."""
    sizes = expression.sizes_of_scalar_output(point)
    for name, value in point.items():
        shape = shape_of(value)
        if len(shape) > len(sizes.get(name, ())):
            raise expression.no_array(name, shape)
    return sizes


def trace_of_arrays(
    expression: Formula, point: Mapping[str, Any], wrt: tuple[str, ...]
) -> tuple[Trace, dict[str, Node]]:
    """Run both passes at a point of arrays and numbers; raises as `tracing.trace` does. Warnings are left to it.

    Returns:
        The trace, and the graphs of the derivatives towards the variables that the output depends on.
    """
    both, sizes = passes(expression, wrt, point), sizes_at(expression, point)
    graphs = both.graphs
    count = sum(map(math.prod, shapes(Tape(graphs), sizes))) + both.totals(sizes)
    if count > MOST_NUMBERS:
        raise ExpressionError(
            f"the arrays of both passes have {count:,} numbers, and {MOST_NUMBERS:,} (2 GB) is the most that is kept "
            "for display; from Python, `Expression.value_and_grad` keeps only what it needs"
        )
    values = expression.evaluate(graphs, point, sizes)
    return both.at(point, dict(zip(graphs, values, strict=True))), both.slopes

"""Both passes computed at a point: `trace` returns a `Trace` for numbers and for arrays.

For numbers, the loops of forward and reverse mode run on floats. For arrays, one reverse sweep over the graph gives the
adjoint and the contributions of every node as graphs (`SweepGraphs`); all of them are evaluated together, on arrays or
on numbers of any precision. A trace of numbers does not import NumPy.

`elementwise_trace` turns a trace of arrays into one with every element as a node of its own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from autodiff_cli.autodiff.sweeps import forward, reverse
from autodiff_cli.explain.record import EdgeAmounts, NodeWarning, Trace, accumulate_contributions, any_true, array_shape
from autodiff_cli.explain.warnings import check_accuracy, find_warnings, unrepresentable_warnings
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.gradient import ReverseSweep, partials_at, reverse_sweep
from autodiff_cli.graph.node import ZERO, Node, Partial, Shape, is_literal
from autodiff_cli.graph.tape import Tape, gc_paused, infer_shapes
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.ops.structural import sum_

MAX_NUMBERS = 250_000_000  # numbers of both passes together: 2 GB


class SweepGraphs:
    """The forward and backward pass over a formula as graphs, not yet evaluated.

    Args:
        expression: the formula.
        wrt: the variables to differentiate with respect to.
        point: a point, whose values have the shapes of the variables.

    Attributes:
        sweep: the reverse sweep. Each amount is one graph that is 0 where its mask does not hold.
        locals: for every node that takes a gradient, its local derivatives by input position; None for an operation on
            whole arrays.

    Raises:
        ExpressionError: for a batch of points, for shapes that do not fit, and for an output that is an array.
    """

    def __init__(self, expression: Formula, wrt: tuple[str, ...], point: Mapping[str, Any]) -> None:
        with expression.locate_errors():
            leaves = [expression.leaves[name] for name in wrt]
            sweep = reverse_sweep(expression.output, leaves, expression.array_shapes_at(point))
        adjoints = [None if adjoint is None else _settled(adjoint) for adjoint in sweep.adjoints]
        contributions = [{k: _settled(amount) for k, amount in amounts.items()} for amounts in sweep.contributions]
        self.expression, self.wrt = expression, wrt
        self.sweep = ReverseSweep(sweep.tape, adjoints, contributions)
        self.locals = [*_local_derivatives(sweep.tape)]

    @property
    def graphs(self) -> list[Node]:
        """All graphs without repetition; the value and the gradient come first."""
        sweep = self.sweep
        contributions = [amount for by_position in sweep.contributions for amount in by_position.values()]
        amounts = [amount for amount in [*sweep.adjoints, *contributions] if amount is not None]
        parts = [node for amount in amounts for node in (amount.local, amount.mask)]
        locals_ = [local for by_position in self.locals for local in by_position.values()]
        graphs = [*self.results, *sweep.tape.nodes, *locals_, *parts]
        return [*dict.fromkeys(node for node in graphs if node is not None)]

    @property
    def results(self) -> list[Node]:
        """The graphs of the value and the gradient, without repetition."""
        return [*dict.fromkeys([self.expression.output, *self.derivatives.values()])]

    @property
    def derivatives(self) -> dict[str, Node]:
        """The graphs of the derivatives with respect to the variables that the output depends on, by name."""
        pairs = zip(self.sweep.tape.nodes, self.sweep.adjoints, strict=True)
        return {node.text: slope.local for node, slope in pairs if node.is_input and slope is not None}

    def count_totals(self, sizes: Mapping[str, Shape]) -> int:
        """Return how many numbers the running totals need in addition to the contributions themselves."""
        tape = self.sweep.tape
        uses = Counter(tape.inputs[i][k] for i, by_position in enumerate(self.sweep.contributions) for k in by_position)
        return sum((uses[j] - 1) * math.prod(shape) for j, shape in enumerate(infer_shapes(tape, sizes)) if uses[j])

    def evaluate_at(self, point: Mapping[str, Any], known: Mapping[Node, Any]) -> Trace:
        """Return the trace at a point, without warnings.

        Args:
            point: the value of every variable.
            known: the values of all graphs at this point.
        """
        tape = self.sweep.tape
        values = [known[node] for node in tape.nodes]
        adjoints = [None if adjoint is None else _amount_value(known, adjoint) for adjoint in self.sweep.adjoints]
        amounts_by_node: list[dict[int, tuple[Any, Any]]] = []
        for adjoint, locals_, contributions in zip(adjoints, self.locals, self.sweep.contributions, strict=True):
            passed_on = {} if adjoint is None else contributions
            amounts = {k: _amount_value(known, amount) for k, amount in passed_on.items()}
            edges = {k: (None if graph is None else known[graph], amounts.get(k)) for k, graph in locals_.items()}
            amounts_by_node.append(edges)
        masks = {i: adjoint.mask for i, adjoint in enumerate(self.sweep.adjoints) if adjoint is not None}
        zero_masks = {i: known[mask] == 0 for i, mask in masks.items() if mask is not None and array_shape(known[mask])}
        with _without_numpy_warnings(values):
            accumulated = accumulate_contributions(tape, values, amounts_by_node)
        return Trace(self.expression, point, self.wrt, tape, values, adjoints, accumulated, zero_masks)


def _without_numpy_warnings(values: Iterable[Any]) -> AbstractContextManager[None]:
    """Return a context that silences NumPy's floating-point warnings.

    Without arrays it does nothing, and does not import NumPy.
    """
    if not any(map(array_shape, values)):
        return nullcontext()
    from autodiff_cli.array_types import ignore_float_errors

    return ignore_float_errors()


def _amount_value(known: Mapping[Node, Any], amount: Partial) -> Any:
    """Return the value of an amount whose graphs have been evaluated; None if its mask holds at no element."""
    return known[amount.local] if amount.mask is None or any_true(known[amount.mask]) else None


def _local_derivatives(tape: Tape) -> Iterator[dict[int, Node | None]]:
    """Yield for every node its local derivatives with respect to the inputs that take a gradient."""
    for node, inputs in zip(tape.nodes, tape.inputs, strict=True):
        positions = tuple([k for k, j in enumerate(inputs) if tape.is_active[j]])
        if node.op is None or node.op.is_structural:
            yield dict.fromkeys(positions)
        else:
            partials = partials_at(node, positions)
            graphs = (ZERO if is_literal(each.local, 0) else each.masked_graph for each in partials)
            yield dict(zip(positions, graphs, strict=True))


def _settled(amount: Partial) -> Partial:
    return Partial(amount.masked_graph, amount.mask, is_masked=True)


def trace_arrays(expression: Formula, point: Mapping[str, Any], wrt: tuple[str, ...]) -> tuple[Trace, dict[str, Node]]:
    """Run both passes at a point of arrays and numbers, by evaluating their graphs together.

    Returns:
        The trace without warnings, and the graphs of the derivatives by the name of the variable.

    Raises:
        ExpressionError: if shapes do not fit, the output is an array, or the arrays would not fit into memory.
    """
    both, sizes = SweepGraphs(expression, wrt, point), expression.array_shapes_at(point)
    graphs = both.graphs
    count = sum(map(math.prod, infer_shapes(Tape(graphs), sizes))) + both.count_totals(sizes)
    if count > MAX_NUMBERS:
        raise ExpressionError(
            f"the arrays of both passes have {count:,} numbers, but a trace stores at most {MAX_NUMBERS:,} (2 GB); "
            "in Python, `Expression.value_and_grad` needs far less memory"
        )
    values = expression.evaluate(graphs, point, sizes)
    return both.evaluate_at(point, dict(zip(graphs, values, strict=True))), both.derivatives


def trace(
    expression: Formula,
    point: Mapping[str, Any],
    wrt: Iterable[str] | None = None,
    unrepresentable: Mapping[str, Any] = MappingProxyType({}),
) -> Trace:
    """Run the forward and the backward pass at a point.

    Args:
        point: a value for every variable of the expression.
        wrt: the variables to differentiate with respect to; all by default. Further variables count as constants.
        unrepresentable: exact values (fractions or balls) of those numbers in `point` that no float represents.

    Raises:
        KeyError: if `wrt` names a variable that the expression does not have.
        ExpressionError: if a variable has no value, shapes do not fit, the output is an array, or the arrays would not
            fit into memory.

    >>> from autodiff_cli import parse
    >>> record = trace(parse("x*y + sin(x)"), {"x": 2, "y": 3})
    >>> record.gradient
    {'x': 2.5838531634528574, 'y': 2.0}
    >>> [(record.labels[contribution.to], contribution.amount) for contribution in record.contributions[2]]
    [('x', 3.0), ('y', 2.0)]
    """
    with gc_paused():
        record, slopes = _run_passes(expression, point, expression.variables if wrt is None else tuple(wrt))
        record = replace(record, unrepresentable=unrepresentable) if unrepresentable else record
        record.warnings.extend(find_warnings(record))
        record.warnings[:] = check_accuracy(record, slopes)
        record.warnings.extend(unrepresentable_warnings(expression, unrepresentable))
        return record


def _run_passes(expression: Formula, point: Mapping[str, Any], wrt: tuple[str, ...]) -> tuple[Trace, dict[str, Node]]:
    """Return the trace of both passes without warnings, and for arrays the derivatives as graphs."""
    point = expression.at(point)
    if expression.is_scalar_point(point):
        return _trace_numbers(expression, point, wrt), {}
    return trace_arrays(expression, point, wrt)


def warnings_of_passes(
    formula: Formula, outputs: Iterable[Formula], point: Mapping[str, Any], wrt: Iterable[str]
) -> list[NodeWarning]:
    """Return the warnings of the passes through several outputs of a formula, each once, at nodes of the formula.

    An array is traced as the sum of its elements. Warnings of inaccurate digits are not included.
    """
    sizes, warnings = formula.value_shapes(formula.at(point)), dict[str, NodeWarning]()
    for output in outputs:
        number = sum_(output.output) if output.output_shape(sizes) else output.output
        total = Formula(number, formula.leaves, source=formula.source, shapes=sizes, bound=formula.bound)
        for warning in find_warnings(_run_passes(total, point, tuple(wrt))[0]):
            node = formula.tape.index.get(total.tape.nodes[warning.node], formula.tape.outputs[0])
            warnings.setdefault(warning.message, warning._replace(node=node))
    return [*warnings.values()]


def _trace_numbers(expression: Formula, point: Mapping[str, Any], wrt: tuple[str, ...]) -> Trace:
    everything = set(wrt) == set(expression.variables)
    tape = expression.tape if everything else Tape((expression.output,), [expression.leaves[name] for name in wrt])
    values = forward(tape, FLOATS, point)
    adjoints = reverse(tape, FLOATS, values, 1.0)
    contributions = accumulate_contributions(tape, values, [*_edge_amounts(tape, values, adjoints)])
    return Trace(expression, point, wrt, tape, values, adjoints, contributions)


def _edge_amounts(tape: Tape, values: Sequence[float], adjoints: Sequence[float | None]) -> Iterator[EdgeAmounts]:
    """Yield for every node its contributions to the inputs that take a gradient, by position."""
    for i, (node, inputs, active) in enumerate(zip(tape.nodes, tape.inputs, tape.active_inputs, strict=True)):
        if node.op is None or not tape.is_active[i]:
            yield {}
            continue
        adjoint, positions = adjoints[i], tuple([k for k, j in enumerate(inputs) if tape.is_active[j]])
        locals_ = FLOATS.partials(node.op, len(inputs), positions)(values[i], *[values[j] for j in inputs])
        amounts: dict[int, tuple[Any, Any]] = {}
        for k, local in zip(positions, locals_, strict=True):
            if adjoint is None or local is None or k not in active:
                amounts[k] = 0.0 if local is None else local, None
            else:
                amounts[k] = local, local * adjoint
        yield amounts


MAX_SCALARS = 400  # nodes; a drawing of more scalars is not readable


def elementwise_trace(trace_record: Trace) -> Trace | None:
    """Return a trace of the same computation in which every array element is a node.

    Returns None if there are no arrays, or more than `MAX_SCALARS` nodes.

    >>> from autodiff_cli import parse
    >>> elementwise_trace(trace(parse("sum(v^2)"), {"v": [1, 2]})).gradient
    {'v[0]': 2.0, 'v[1]': 4.0}
    """
    if trace_record.is_scalar or array_shape(trace_record.value):
        return None
    from autodiff_cli.autodiff.unrolling import TooManyOperationsError, unroll_at
    from autodiff_cli.language.printer import to_text

    formula, index = trace_record.expression, trace_record.tape.index
    used = {name: value for name, value in trace_record.point.items() if formula.leaves[name] in index}
    try:
        (output,), elements, point = unroll_at([formula.output], used, formula.leaves, MAX_SCALARS, is_short=True)
    except TooManyOperationsError:
        return None
    leaves = {leaf.text: leaf for array in elements.values() for leaf in array.reshape(-1).tolist()}
    wrt = [leaf.text for name in trace_record.wrt if name in used for leaf in elements[name].reshape(-1).tolist()]
    text = to_text(output.item()).replace("`", "")  # the graph as it is; `v[0]` reads as an element without backticks
    scalar_trace = trace(type(formula)(output.item(), leaves, text=text), point, wrt, trace_record.unrepresentable)
    return scalar_trace if len(scalar_trace.tape) <= MAX_SCALARS else None

"""Where a trace may call for a warning: the operations that take part in the output, on numbers or at elements.

Only what takes part is looked at: not the branch that a choice does not take. An operation on numbers is looked at
always; of one on arrays, only those elements are at which something is not finite, or a predicate of the operation's
record (`kink`, `singular`, `domain`) holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from autodiff_cli.autodiff.forward import forward
from autodiff_cli.explain.record import Trace, is_anywhere
from autodiff_cli.graph.op import Op
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.floats.table import FLOATS

Index = tuple[int, ...]  # of an element in its array; empty for a number


class Spot(NamedTuple):
    """An operation on numbers.

    Attributes:
        inputs: their values.
        adjoint: None where structurally nothing arrives.
        slopes: the local derivatives by which something is handed on, by input position.
    """

    node: int
    op: Op
    inputs: Sequence[float]
    value: float
    adjoint: float | None
    slopes: Mapping[int, float]
    place: Index


def spots(trace: Trace, i: int) -> Iterator[Spot]:
    """Where to look, of an operation that works element by element."""
    op, numbers = trace.tape.nodes[i].op, _inputs(trace, i)
    assert op is not None
    slopes = {given.position: given.local for given in trace.handed[i] if not given.is_nothing}
    if isinstance(trace.values[i], float):
        yield Spot(i, op, numbers, trace.values[i], trace.arrived[i], slopes, ())
        return
    import numpy as np

    shape = trace.values[i].shape

    def at(number: Any, place: Index) -> float:
        return float(np.broadcast_to(number, shape)[place])

    for place in _suspects(trace, i, op, slopes.values()):
        adjoint = None if trace.arrived[i] is None else at(trace.arrived[i], place)
        here = {k: at(local, place) for k, local in slopes.items()}
        yield Spot(i, op, [at(x, place) for x in numbers], at(trace.values[i], place), adjoint, here, place)


def _suspects(trace: Trace, i: int, op: Op, slopes: Iterable[Any]) -> Iterator[Index]:
    """The elements of a node at which something may have to be said."""
    import numpy as np

    from autodiff_cli.numbers.arrays.table import ARRAYS, quiet

    inputs = _inputs(trace, i)
    suspect = np.zeros(trace.values[i].shape, dtype=bool)
    with quiet():
        for number in (trace.values[i], trace.arrived[i], *slopes):
            suspect |= False if number is None else ~np.isfinite(number)
        for which in ("kink", "singular", "domain"):
            predicate = ARRAYS.predicate(op, which, len(inputs))
            if predicate is not None:
                holds = np.asarray(predicate(*inputs)) != 0
                suspect |= ~holds if which == "domain" else holds
    suspect &= ~trace.absent.get(i, np.False_)
    return (tuple(map(int, place)) for place in np.argwhere(suspect))


def is_kink_of_arrays(trace: Trace, i: int) -> bool:
    """Whether an operation on whole arrays has a one-sided derivative where it stands."""
    import numpy as np

    from autodiff_cli.numbers.arrays.table import ARRAYS, quiet

    op = trace.tape.nodes[i].op
    assert op is not None
    inputs = [np.asarray(x)[..., None] for x in _inputs(trace, i)]
    predicate = ARRAYS.predicate(op, "kink", len(inputs))
    with quiet():
        return predicate is not None and bool(np.any(predicate(*inputs)))


def holds(op: Op, which: str, inputs: Sequence[float]) -> bool:
    """Whether an operation says so of these numbers: that they are a `kink`, `singular`, or in its `domain`."""
    predicate = FLOATS.predicate(op, which, len(inputs))
    return predicate is not None and bool(predicate(*inputs))


def taken_part(trace: Trace) -> list[bool]:
    """Which nodes take part in the output: those that an adjoint reaches, the constants that these work on, and
    whatever a nan comes from, also where no derivative goes (`0*log(x)`, `relu(log(x))`)."""
    tape = trace.tape
    taken = [adjoint is not None for adjoint in trace.arrived]
    for i in range(len(tape) - 1, -1, -1):
        op, inputs = tape.nodes[i].op, tape.inputs[i]
        if op is None or not taken[i]:
            continue
        if not all(tape.reached[j] for j in inputs):
            for j, is_chosen in zip(inputs, _chosen(trace, i, op), strict=True):
                if not tape.reached[j]:
                    taken[j] = taken[j] or is_chosen
        if _has_nan(trace.values[i]):
            undefined = [j for j in inputs if _has_nan(trace.values[j])]
            for j in undefined if not any(taken[j] for j in undefined) else ():
                taken[j] = True
    return taken


def _has_nan(number: Any) -> bool:
    is_other = number != number
    return is_other is not False and is_anywhere(is_other)


def _chosen(trace: Trace, i: int, op: Op) -> list[bool]:
    """For each input, whether the operation takes it, at one element at least."""
    if op.structural:
        return [True] * len(trace.tape.inputs[i])
    rule = op.partials(len(trace.tape.inputs[i]))
    masks = {k: partial.mask for k, partial in enumerate(rule.partials) if partial.mask is not None}
    if not masks:
        return [True] * len(rule.inputs)
    values = [trace.values[i], *_inputs(trace, i)]
    point = dict(zip([leaf.text for leaf in (rule.output, *rule.inputs)], values, strict=True))
    tape = Tape([*masks.values()])
    holds = _evaluated(tape, point)
    found = {k: is_anywhere(holds[place]) for k, place in zip(masks, tape.outputs, strict=True)}
    return [found.get(k, True) for k in range(len(rule.inputs))]


def _evaluated(tape: Tape, point: Mapping[str, Any]) -> list[Any]:
    """The value of every node of a tape of operations element by element."""
    if all(isinstance(value, float) for value in point.values()):
        return forward(tape, FLOATS, point)
    from autodiff_cli.numbers.arrays.table import ARRAYS, quiet

    with quiet():
        return forward(tape, ARRAYS, point)


def _inputs(trace: Trace, i: int) -> list[Any]:
    return [trace.values[j] for j in trace.tape.inputs[i]]

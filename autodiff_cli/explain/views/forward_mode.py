"""Forward mode, step by step: how fast every node changes with one variable, from the inputs up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from autodiff_cli.autodiff.forward import tangents
from autodiff_cli.explain.record import Trace
from autodiff_cli.graph.op import Op
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.numbers.floats.table import FLOATS


class Carried(NamedTuple):
    """What an input adds to a node's tangent: `amount = local * tangent`, the tangent being the input's."""

    input: int
    local: float
    tangent: float
    amount: float


class TangentStep(NamedTuple):
    """One operation: its value, and its tangent as the sum of what its inputs add.

    Inputs that the variable does not move add nothing and are left out.
    """

    step: int
    node: int
    op: Op
    value: float
    carried: tuple[Carried, ...]
    tangent: float


class Work(NamedTuple):
    """Arithmetic that a pass carries out besides the values and the local derivatives; choices count as all others."""

    multiplications: int
    additions: int


class ForwardMode(NamedTuple):
    """One variable's tangent on its way to the output.

    Attributes:
        name: the variable that moves, at the rate 1.
        tangents: the derivative of every node towards it; 0 for those that it does not move.
        steps: the operations, in the order in which they are carried out.
        work: what this pass needs; `all_variables` is what one pass for each variable needs.
        reverse: what the reverse pass needs, which gives all derivatives at once.
    """

    trace: Trace
    name: str
    tangents: list[float]
    steps: list[TangentStep]
    work: Work
    all_variables: Work
    reverse: Work


def forward_mode(trace: Trace, name: str) -> ForwardMode:
    """Carry the tangent of one variable, of those that the trace is towards, to the output.

    Raises:
        ExpressionError: for a trace with arrays, along which more than one number travels.
    """
    if not trace.is_scalar:
        raise ExpressionError("forward mode carries one number up, and this formula has arrays; use --mode reverse")
    rates = _rates(trace, name)
    return ForwardMode(
        trace,
        name,
        [0.0 if rate is None else rate for rate in rates],
        [*_steps(trace, rates)],
        forward_work(trace, [name]),
        forward_work(trace, trace.wrt),
        reverse_work(trace),
    )


def every_tangent(trace: Trace) -> dict[str, list[float]]:
    """For each variable of a trace of scalars, the derivative of every node towards it, by one forward pass each."""
    return {name: [rate or 0.0 for rate in _rates(trace, name)] for name in trace.wrt}


def _rates(trace: Trace, name: str) -> list[float | None]:
    return tangents(trace.tape, FLOATS, trace.values, {name: 1.0})


def forward_work(trace: Trace, names: Iterable[str]) -> Work:
    """What one forward pass for each of some variables needs in all.

    A pass multiplies once for each input that its variable moves, and adds to bring those of a node together.
    """
    tape = trace.tape
    bit = {trace.expression.leaves[name]: 1 << k for k, name in enumerate(names)}
    movers: list[int] = []  # for each node, the variables that move it, as a set of bits
    multiplications = additions = 0
    for node, inputs, live in zip(tape.nodes, tape.inputs, tape.edges, strict=True):
        moved = bit.get(node, 0)
        products = 0
        for k in live:
            moved |= movers[inputs[k]]
            products += movers[inputs[k]].bit_count()
        multiplications += products
        additions += products - moved.bit_count() if live else 0
        movers.append(moved)
    return Work(multiplications, additions)


def reverse_work(trace: Trace) -> Work:
    """What the reverse pass needs: a product for each input of a node, and sums where several arrive at one."""
    tape = trace.tape
    handed = [inputs[k] for inputs, live in zip(tape.inputs, tape.edges, strict=True) for k in live]
    return Work(len(handed), len(handed) - len(set(handed)))


def _steps(trace: Trace, rates: list[float | None]) -> Iterator[TangentStep]:
    step = 0
    for i, (node, inputs) in enumerate(zip(trace.tape.nodes, trace.tape.inputs, strict=True)):
        if node.op is None:
            continue
        step += 1
        rate = rates[i]
        carried = tuple(_carried(trace, i, node.op, inputs, rates)) if rate is not None else ()
        yield TangentStep(step, i, node.op, trace.values[i], carried, 0.0 if rate is None else rate)


def _carried(trace: Trace, i: int, op: Op, inputs: tuple[int, ...], rates: list[float | None]) -> Iterator[Carried]:
    live = tuple(k for k in trace.tape.edges[i] if rates[inputs[k]] is not None)
    locals_ = FLOATS.partials(op, len(inputs), live)(trace.values[i], *[trace.values[j] for j in inputs])
    for k, local in zip(live, locals_, strict=True):
        tangent = rates[inputs[k]]
        if local is not None and tangent is not None:
            yield Carried(inputs[k], local, tangent, local * tangent)

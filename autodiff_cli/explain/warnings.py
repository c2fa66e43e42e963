"""Where the value or the derivative is not what a reader may assume, and why.

What an operation does at a point is read from its record (`kink`, `domain`, `singular`) and from the numbers of both
passes; nothing here knows a formula. Only what takes part is looked at: not the branch that a choice does not take.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from autodiff_cli.autodiff.forward import forward
from autodiff_cli.explain.formulas import applied_to_numbers
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Op
from autodiff_cli.graph.tape import Tape, rebuild
from autodiff_cli.numbers.floats import FLOATS

if TYPE_CHECKING:
    from autodiff_cli.explain.steps import Trace


Reason: TypeAlias = tuple[str, str]  # kind, and why

FLOAT_DIGITS = 16
LARGE = 2.0**43  # from here on, every float times 1024 is an integer
MOST_LOST = 1e6  # by how much rounding may be magnified before a warning


class Caveat(NamedTuple):
    """One warning.

    `kind` is `kink` (the derivative is one-sided there), `domain` (undefined there), `singular` (infinite, or 0 × inf),
    `overflow` (too large for a float), `precision` (digits lost to cancellation) or `unavailable` (no derivative is
    known).
    """

    node: int
    kind: str
    message: str


def caveats(trace: Trace) -> list[Caveat]:
    """The warnings of a trace, from the inputs to the output."""
    if not trace.is_scalar:
        from autodiff_cli.explain.arrays import array_caveats

        return array_caveats(trace)
    taken = taken_part(trace)
    worst = [0] * len(trace.tape)  # how bad the amounts are that arrived at each node
    found: list[Caveat] = []
    for i in range(len(trace.tape) - 1, -1, -1):
        if not taken[i]:
            continue
        adjoint, slopes = trace.arrived[i], {k: handed.local for k, handed in trace.handed_at(i).items()}
        here: dict[str, str] = {}  # the first reason of each kind
        if adjoint is not None:
            if _severity(adjoint) > worst[i]:
                here.update([_of_the_sum(adjoint)])
            for k, local in slopes.items():
                j = trace.tape.inputs[i][k]
                worst[j] = max(worst[j], _severity(local * adjoint))
        for kind, reason in of_the_node(trace, i, slopes):
            here.setdefault(kind, reason)
        found.extend(Caveat(i, kind, f"{where(trace, i)}: {reason}") for kind, reason in here.items())
    return [*found[::-1], *_lost_digits(trace)]


def _lost_digits(trace: Trace) -> Iterator[Caveat]:
    """Whether rounding can spoil the value, and the operation that makes it so: the one that magnifies most.

    A number's rounding moves the value by its size times its adjoint.
    """
    spoilt = sum(
        abs(trace.values[i] * adjoint)
        for i, adjoint in enumerate(trace.arrived)
        if adjoint and not _is_exact(trace.values[i], is_computed=bool(trace.tape.inputs[i]))
    )
    size = abs(trace.value)
    if not MOST_LOST * size < spoilt < math.inf:
        return
    lost = min(FLOAT_DIGITS, round(math.log10(spoilt / size))) if size else FLOAT_DIGITS
    worst, magnified = trace.tape.outputs[0], 0.0
    for i, adjoint in enumerate(trace.arrived):
        if adjoint:
            handed = trace.handed_at(i)
            weight = sum(abs(trace.values[trace.tape.inputs[i][k]] * given.amount) for k, given in handed.items())
            kept = abs(trace.values[i] * adjoint)
            if weight > spoilt / MOST_LOST and weight > magnified * kept:
                worst, magnified = i, weight / kept if kept else math.inf
    message = f"digits cancel: rounding its inputs can spoil {lost} of the {FLOAT_DIGITS} digits of the value"
    yield Caveat(worst, "precision", f"{where(trace, worst)}: {message}")


def _is_exact(value: float, is_computed: bool) -> bool:
    """Whether a number can be taken to be exact, as it is short (2, 0.25). Large floats all are, also rounded ones."""
    return (value * 1024).is_integer() and not (is_computed and abs(value) >= LARGE)


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
            chosen = [True] * len(inputs)
            if op.choice is not None:
                everywhere = FLOATS.partials(op, len(inputs), tuple(range(len(inputs))))
                chosen = [p is not None for p in everywhere(trace.values[i], *_values(trace, i))]
            for j, is_chosen in zip(inputs, chosen, strict=True):
                if not tape.reached[j]:
                    taken[j] = taken[j] or is_chosen
        undefined = [j for j in inputs if math.isnan(trace.values[j])]
        if math.isnan(trace.values[i]) and not any(taken[j] for j in undefined):
            for j in undefined:
                taken[j] = True
    return taken


def of_the_node(trace: Trace, i: int, slopes: Mapping[int, float]) -> Iterator[Reason]:
    """What there is to say about an operation at its inputs, the most telling first."""
    op, adjoint = trace.tape.nodes[i].op, trace.arrived[i]
    inputs, value = _values(trace, i), trace.values[i]
    if op is None or any(map(math.isnan, inputs)):  # whatever made the nan has its own warning
        return
    singular = _holds(op, "singular", inputs)
    yield from _of_the_value(op, inputs, value, singular)
    if adjoint is None:
        return
    if _holds(op, "kink", inputs):
        yield "kink", op.kink_note
    for k, local in slopes.items():
        yield from _of_the_amount(local, adjoint)
        if not math.isnan(value):
            yield from _of_the_slope(trace, i, k, local, singular)


def _of_the_value(op: Op, inputs: Sequence[float], value: float, singular: bool) -> Iterator[Reason]:
    if math.isnan(value):
        yield "domain", f"{_called(op, inputs)} is not defined, so nan"
    elif op.domain is not None and not _holds(op, "domain", inputs):
        yield "domain", f"{_called(op, inputs)} is not defined"
    elif math.isinf(value) and singular:
        yield "singular", f"the value is {_shown(value)}"
    elif math.isinf(value) and all(map(math.isfinite, inputs)):
        yield "overflow", f"the value is too large for a float, so {_shown(value)}"


def _of_the_amount(local: float, adjoint: float) -> Iterator[Reason]:
    amount = local * adjoint
    if math.isnan(amount) and not math.isnan(local) and not math.isnan(adjoint):
        yield "singular", f"0 × inf: slope {_shown(local)} times adjoint {_shown(adjoint)} is not defined, so nan"
    elif math.isinf(amount) and math.isfinite(local) and math.isfinite(adjoint):
        yield "overflow", "slope times adjoint is too large for a float, so infinite"


def _of_the_slope(trace: Trace, i: int, k: int, local: float, singular: bool) -> Iterator[Reason]:
    """A slope that is not finite although the value is defined."""
    if math.isfinite(local):
        return
    inputs = _values(trace, i)
    towards = trace.labels[trace.tape.inputs[i][k]]
    op = trace.tape.nodes[i].op
    assert op is not None
    if k in op.unavailable:
        yield "unavailable", f"no derivative of {op.name} towards {towards} is known, so nan"
    elif singular:
        yield "singular", f"the slope towards {towards} is {_shown(local)}"
    elif math.isnan(local):
        missing = _undefined_part(op, k, [*inputs], trace.values[i])
        if missing is None:
            yield "singular", f"the slope towards {towards} is not defined, so nan"
        else:
            yield "domain", f"the slope towards {towards} needs {missing}, which is not defined, so nan"
    elif math.isfinite(trace.values[i]) and all(map(math.isfinite, inputs)):
        yield "overflow", f"the slope towards {towards} is too large for a float, so {_shown(local)}"


def _of_the_sum(adjoint: float) -> Reason:
    """An adjoint that is worse than each of the amounts it is the sum of."""
    if math.isnan(adjoint):
        return "singular", "inf - inf: the amounts handed to it are infinite and of both signs, so nan"
    return "overflow", "the amounts handed to it add up to more than a float can hold, so infinite"


def _undefined_part(op: Op, k: int, inputs: list[float], value: float) -> str | None:
    """The part of a local derivative's formula that is outside of its domain, with numbers: `log(-2)`."""
    rule = op.partials(len(inputs))
    point = dict(zip([leaf.text for leaf in (rule.output, *rule.inputs)], [value, *inputs], strict=True))
    tape = Tape([_spelt_out(rule.partials[k].local)])
    values = forward(tape, FLOATS, point)
    for node, positions in zip(tape.nodes, tape.inputs, strict=True):
        if node.op is not None and node.op.domain is not None:
            arguments = [values[j] for j in positions]
            if not any(map(math.isnan, arguments)) and not _holds(node.op, "domain", arguments):
                return _called(node.op, arguments)
    return None


def _spelt_out(root: Node) -> Node:
    """The graph with a helper operation at its root replaced by what it stands for."""
    expansion = root.op.expand(len(root.inputs)) if root.op is not None and root.op.helper else None
    if root.op is None or expansion is None:
        return root
    return rebuild([expansion], dict(zip(root.op.placeholders(len(root.inputs)), root.inputs, strict=True)))[0]


def _holds(op: Op, which: str, inputs: Sequence[float]) -> bool:
    predicate = FLOATS.predicate(op, which, len(inputs))
    return predicate is not None and bool(predicate(*inputs))


def _values(trace: Trace, i: int) -> list[float]:
    return [trace.values[j] for j in trace.tape.inputs[i]]


def _severity(x: float) -> int:
    return 2 if math.isnan(x) else 1 if math.isinf(x) else 0


def _called(op: Op, inputs: Sequence[float]) -> str:
    return applied_to_numbers(op, [*map(_shown, inputs)])


def _shown(x: float) -> str:
    return f"{x:.6g}"


def where(trace: Trace, i: int) -> str:
    """The sub-expression, its place in the text, and the values that it works on."""
    node, source = trace.tape.nodes[i], trace.expression.source
    place = None if source is None else source.place(node)
    words = trace.labels[i]
    if place is not None:
        line, column = place
        words += f" (column {column})" if "\n" not in trace.expression.text else f" (line {line}, column {column})"
    numbers = [j for j in trace.tape.inputs[i] if isinstance(trace.values[j], float)]
    operands = {trace.labels[j]: _shown(trace.values[j]) for j in numbers}
    known = [f"{label} = {value}" for label, value in operands.items() if label != value]
    if known:
        words += f" at {', '.join(known)}"
    return words

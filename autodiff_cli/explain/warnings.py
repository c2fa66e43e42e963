"""Where the value or the derivative is not what a reader may assume, and why.

What an operation does at a point is read from its record (`kink`, `domain`, `singular`) and from the numbers of both
passes; nothing here knows a formula.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from autodiff_cli.autodiff.forward import forward
from autodiff_cli.explain.formulas import applied_to_numbers
from autodiff_cli.explain.record import Caveat, Trace, is_anywhere
from autodiff_cli.explain.spots import Spot, holds, is_kink_of_arrays, spots, taken_part
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Op
from autodiff_cli.graph.tape import Tape, rebuild
from autodiff_cli.numbers.floats.table import FLOATS

Reason: TypeAlias = tuple[str, str]  # kind, and why

FLOAT_DIGITS = 16
LARGE = 2.0**43  # from here on, every float times 1024 is an integer
MOST_LOST = 1e6  # by how much rounding may be magnified before a warning


def caveats(trace: Trace) -> list[Caveat]:
    """The warnings of a trace, from the inputs to the output; of an array, for the first element of each kind."""
    taken = taken_part(trace)
    worst = _worst_amounts(trace)
    found: list[Caveat] = []
    for i, node in enumerate(trace.tape.nodes):
        if not taken[i]:
            continue
        here: dict[str, str] = {}  # the first message of each kind
        adjoint = trace.arrived[i]
        if adjoint is not None and _severity(adjoint) > worst[i]:
            kind, reason = _of_the_sum(adjoint)
            here[kind] = f"{_where(trace, i)}: {reason}"
        if node.op is not None and node.op.structural:
            if adjoint is not None and is_kink_of_arrays(trace, i):
                here["kink"] = f"{_where(trace, i)}: {node.op.kink_note}"
        elif node.op is not None:
            for spot in spots(trace, i):
                for kind, reason in _of_the_spot(trace, spot):
                    if kind not in here:
                        here[kind] = f"{_where(trace, i, spot)}: {reason}"
        found.extend(Caveat(i, kind, message) for kind, message in here.items())
    return [*found, *(_lost_digits(trace) if trace.is_scalar else ())]


def _worst_amounts(trace: Trace) -> list[int]:
    """For every node, how bad the worst of the amounts is that it is handed."""
    worst = [0] * len(trace.tape)
    for several in trace.handed:
        for given in several:
            worst[given.to] = max(worst[given.to], _severity(given.amount))
    return worst


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
    lost = min(FLOAT_DIGITS, round(math.log10(spoilt) - math.log10(size))) if size else FLOAT_DIGITS
    worst, magnified = trace.tape.outputs[0], 0.0
    for i, adjoint in enumerate(trace.arrived):
        if adjoint:
            handed = [given for given in trace.handed[i] if not given.is_nothing]
            weight = sum(abs(trace.values[given.to] * given.amount) for given in handed)
            kept = abs(trace.values[i] * adjoint)
            if weight > spoilt / MOST_LOST and weight > magnified * kept:
                worst, magnified = i, weight / kept if kept else math.inf
    message = f"digits cancel: rounding its inputs can spoil {lost} of the {FLOAT_DIGITS} digits of the value"
    yield Caveat(worst, "precision", f"{_where(trace, worst)}: {message}")


def _is_exact(value: float, is_computed: bool) -> bool:
    """Whether a number can be taken to be exact, as it is short (2, 0.25). Large floats all are, also rounded ones."""
    return (value * 1024).is_integer() and not (is_computed and abs(value) >= LARGE)


def _of_the_spot(trace: Trace, spot: Spot) -> Iterator[Reason]:
    """What there is to say about an operation at its inputs, the most telling first."""
    if any(map(math.isnan, spot.inputs)):  # whatever made the nan has its own warning
        return
    singular = holds(spot.op, "singular", spot.inputs)
    yield from _of_the_value(spot.op, spot.inputs, spot.value, singular)
    if spot.adjoint is None:
        return
    if holds(spot.op, "kink", spot.inputs):
        yield "kink", spot.op.kink_note
    for k, local in spot.slopes.items():
        yield from _of_the_amount(local, spot.adjoint)
        if not math.isfinite(local) and not math.isnan(spot.value):
            yield from _of_the_slope(spot, k, local, singular, trace.labels[trace.tape.inputs[spot.node][k]])


def _of_the_value(op: Op, inputs: Sequence[float], value: float, singular: bool) -> Iterator[Reason]:
    if math.isnan(value):
        yield "domain", f"{_called(op, inputs)} is not defined, so nan"
    elif op.domain is not None and not holds(op, "domain", inputs):
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


def _of_the_slope(spot: Spot, k: int, local: float, singular: bool, towards: str) -> Iterator[Reason]:
    """A slope that is not finite although the value is defined."""
    if k in spot.op.unavailable:
        yield "unavailable", f"no derivative of {spot.op.name} towards {towards} is known, so nan"
    elif singular:
        yield "singular", f"the slope towards {towards} is {_shown(local)}"
    elif math.isnan(local):
        missing = _undefined_part(spot.op, k, spot.inputs, spot.value)
        if missing is None:
            yield "singular", f"the slope towards {towards} is not defined, so nan"
        else:
            yield "domain", f"the slope towards {towards} needs {missing}, which is not defined, so nan"
    elif math.isfinite(spot.value) and all(map(math.isfinite, spot.inputs)):
        yield "overflow", f"the slope towards {towards} is too large for a float, so {_shown(local)}"


def _of_the_sum(adjoint: Any) -> Reason:
    """An adjoint that is worse than each of the amounts it is the sum of."""
    if _severity(adjoint) == _NAN:
        return "singular", "inf - inf: the amounts handed to it are infinite and of both signs, so nan"
    return "overflow", "the amounts handed to it add up to more than a float can hold, so infinite"


def _undefined_part(op: Op, k: int, inputs: Sequence[float], value: float) -> str | None:
    """The part of a local derivative's formula that is outside of its domain, with numbers: `log(-2)`."""
    rule = op.partials(len(inputs))
    point = dict(zip([leaf.text for leaf in (rule.output, *rule.inputs)], [value, *inputs], strict=True))
    tape = Tape([_spelt_out(rule.partials[k].local)])
    values = forward(tape, FLOATS, point)
    for node, positions in zip(tape.nodes, tape.inputs, strict=True):
        if node.op is not None and node.op.domain is not None:
            arguments = [values[j] for j in positions]
            if not any(map(math.isnan, arguments)) and not holds(node.op, "domain", arguments):
                return _called(node.op, arguments)
    return None


def _spelt_out(root: Node) -> Node:
    """The graph with a helper operation at its root replaced by what it stands for."""
    expansion = root.op.expand(len(root.inputs)) if root.op is not None and root.op.helper else None
    if root.op is None or expansion is None:
        return root
    return rebuild([expansion], dict(zip(root.op.placeholders(len(root.inputs)), root.inputs, strict=True)))[0]


def _severity(number: Any) -> int:
    """How bad a number is, or the worst element of an array."""
    ends = (number,) if isinstance(number, float) else (number.min(), number.max())  # nan if one element is
    if all(map(math.isfinite, ends)):
        return 0
    return _NAN if is_anywhere(number != number) else _INFINITE if is_anywhere(abs(number) == math.inf) else 0


_INFINITE, _NAN = 1, 2


def _called(op: Op, inputs: Sequence[float]) -> str:
    return applied_to_numbers(op, [*map(_shown, inputs)])


def _shown(x: float) -> str:
    return f"{x or 0.0:.6g}"  # a negative zero is a zero


def _where(trace: Trace, i: int, spot: Spot | None = None) -> str:
    """The sub-expression, its place in the text, the numbers that it works on, and which element it is."""
    source = trace.expression.source
    place = None if source is None else source.place(trace.tape.nodes[i])
    words = trace.labels[i]
    if place is not None:
        line, column = place
        words += f" (column {column})" if "\n" not in trace.expression.text else f" (line {line}, column {column})"
    inputs = trace.tape.inputs[i]
    values = [trace.values[j] for j in inputs] if spot is None else spot.inputs
    numbers = [(j, x) for j, x in zip(inputs, values, strict=True) if isinstance(x, float)]
    operands = {trace.labels[j]: _shown(x) for j, x in numbers}
    known = [f"{label} = {value}" for label, value in operands.items() if label != value]
    if known:
        words += f" at {', '.join(known)}"
    return f"{words}, element [{', '.join(map(str, spot.place))}]" if spot is not None and spot.place else words

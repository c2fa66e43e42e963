"""Graphs evaluated to so many right digits, however many cancel on the way.

Beside its value every node carries a bound on its error: that of its own rounding, and that of its inputs times its
local derivatives. The bound says how many digits a result has lost, and so how many to compute with next. A result
counts when it is settled, to all digits asked for, at two precisions that give the same digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.digits import INF, MP, ZERO, Number
from autodiff_cli.numbers.kind import Kind
from autodiff_cli.numbers.precise import precision, text

_GUARD = 20  # digits to compute with beyond those asked for, at first and each time they do not suffice
_SLACK = 3  # of these, digits that the bound itself may be wrong by
_MOST_CANCELLED = 1000  # a result that cancels in more digits than this is 0
_EXACT = {"add", "sub", "mul", "neg", "square", "pow"}  # on whole numbers


class Estimate(NamedTuple):
    """A number, and a bound on its error (to first order)."""

    value: Number
    error: Number


def evaluate(
    outputs: Sequence[Node],
    digits: int,
    sure: int | None = None,
    guard: int = _GUARD,
    most_cancelled: int = _MOST_CANCELLED,
) -> list[Number]:
    """The values of graphs that have no free inputs.

    Args:
        outputs: scalar graphs over constants.
        digits: how many significant digits are to be right.
        sure: for how many of the outputs, from the first; the others have the precision that these need. All by
            default.
        guard: with how many digits more to compute at first. It changes nothing but the time that it takes.
        most_cancelled: a number that is smaller than its terms by more digits is taken for the 0 that it nearly always
            is.
    """
    tape = Tape(outputs)
    needed = [tape.outputs[k] for k in range(len(outputs) if sure is None else sure)]
    working = digits + guard
    before: list[str] | None = None
    while True:
        with precision(working) as kind:
            is_last_word = working - digits > most_cancelled
            found = _estimates(tape, kind, is_last_word)
            # A first-order bound needs every node to have at least its first digit.
            lost = max([0, *(_missing(found[i], digits) for i in needed), *(_missing(node, 0) for node in found)])
            texts = [text(found[i].value, digits) for i in needed] if lost == 0 else None
        if texts is not None and (texts == before or is_last_word):
            return [found[i].value for i in tape.outputs]
        before = texts
        # Where not even the first digit is known, nothing tells how many to compute with: half as many more.
        working += max(_GUARD, lost, working // 2 if lost > digits else 0)


def errors(outputs: Sequence[Node], digits: int) -> list[Estimate]:
    """The values of graphs to a working precision, and how large their errors are if every operation and every
    constant that is no whole number has the relative error 1."""
    tape = Tape(outputs)
    with precision(digits) as kind:
        unit = _unit()
        found = _estimates(tape, kind)
        return [Estimate(found[i].value, found[i].error / unit) for i in tape.outputs]


def _unit() -> Number:
    """The relative error of one operation; mpmath's functions are a few bits worse than its arithmetic."""
    return MP.ldexp(1, 6 - MP.prec)


def _estimates(tape: Tape, kind: Kind[Number], is_last_word: bool = False) -> list[Estimate]:
    """The value of every node and its error bound. As a last word, what may be 0 is 0, and what stands where a slope
    is infinite is taken as it is."""
    found: list[Estimate] = []
    unit = _unit()
    for node, inputs in zip(tape.nodes, tape.inputs, strict=True):
        if node.op is None:
            value = kind.read(node.text)
            found.append(Estimate(value, ZERO if _is_exact(value) else unit * abs(value)))
            continue
        arguments = [found[j].value for j in inputs]
        value = kind.function(node.op, len(inputs))(*arguments)
        wrong = tuple(k for k, j in enumerate(inputs) if found[j].error)
        error = ZERO
        if wrong:
            partials = kind.partials(node.op, len(inputs), wrong)(value, *arguments)
            for k, local in zip(wrong, partials, strict=True):
                if local:
                    error += abs(local) * found[inputs[k]].error
        if error or not (node.op.name in _EXACT and _is_exact(value)):
            error += unit * abs(value)
        if MP.isnan(error):
            error = INF
        if is_last_word and error == INF:
            error = ZERO
        elif is_last_word and abs(value) <= error:
            value = error = ZERO
        found.append(Estimate(value, error))
    return found


def _is_exact(value: Number) -> bool:
    """Whether a value, computed from such values, is a whole number that no rounding has touched; or not finite."""
    return not MP.isfinite(value) or (MP.isint(value) and MP.mag(value) < MP.prec)


def _missing(estimate: Estimate, digits: int) -> int:
    """How many more digits to compute with; none where the result is settled, or nothing will settle it."""
    value, error = estimate
    if not error or not MP.isfinite(value):
        return 0
    if not value or not MP.isfinite(error):
        return int(MP.dps)
    return max(0, int((MP.mag(error) - MP.mag(value)) * 0.30103) + digits + _SLACK + 1)

"""Local derivatives as people read them, beside those that are computed.

A rule may have operations of its own that are 0 by convention, or as undefined as the function is, where the formula
that people read in their place has another value (`log(0)` in the slope of `0^x`). There the formula is no equation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from autodiff_cli.autodiff.forward import forward
from autodiff_cli.explain.record import Handed, Trace
from autodiff_cli.explain.spots import holds, is_kink_of_arrays
from autodiff_cli.graph.helpers import without_helpers
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Op
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.floats.table import FLOATS

NEAR = 1e-6  # of a number, how far one that is computed otherwise may be


@cache
def as_read(op: Op, count: int, position: int) -> Node | None:
    """The graph of a local derivative as it is read; None where that is what is computed."""
    local = op.partials(count).partials[position].local
    read = without_helpers([local])[local]
    return None if read is local else read


def value_as_read(trace: Trace, i: int, given: Handed) -> float | None:
    """What the formula of a local derivative that people read comes to, of an operation on numbers; None where that is
    what is computed."""
    op, inputs = trace.tape.nodes[i].op, trace.tape.inputs[i]
    assert op is not None
    graph = as_read(op, len(inputs), given.position)
    return None if graph is None else float(_value(trace, i, op, graph))


def is_read_right(trace: Trace, i: int, given: Handed) -> bool:
    """Whether a local derivative is a number, and the one that its formula comes to."""
    local, read = given.local, value_as_read(trace, i, given)
    return local == local and (read is None or math.isclose(read, local, rel_tol=NEAR))


def comes_to(formula: Node, point: Mapping[str, float], number: float) -> bool:
    """Whether a formula of numbers, as people read it, has this value at a point: is an equation there."""
    return math.isclose(float(_evaluated(without_helpers([formula])[formula], point)), number, rel_tol=NEAR)


def is_at_kink(trace: Trace, i: int) -> bool:
    """Whether the derivative of an operation on numbers, or on whole arrays, is one-sided where it stands."""
    op, inputs = trace.tape.nodes[i].op, trace.tape.inputs[i]
    assert op is not None
    if op.structural:
        return op.kink is not None and is_kink_of_arrays(trace, i)
    return holds(op, "kink", [trace.values[j] for j in inputs])


def _value(trace: Trace, i: int, op: Op, graph: Node) -> Any:
    inputs = trace.tape.inputs[i]
    rule = op.partials(len(inputs))
    values = [trace.values[i], *(trace.values[j] for j in inputs)]
    return _evaluated(graph, dict(zip((leaf.text for leaf in (rule.output, *rule.inputs)), values, strict=True)))


def _evaluated(graph: Node, point: Mapping[str, Any]) -> Any:
    tape = Tape([graph])
    return forward(tape, FLOATS, point)[tape.outputs[0]]

"""The table: an operation's name, and what it does to vectors.

Composites without an entry in any table are what they expand to. The rest, and what declines, is computed by the table
of NumPy's arrays, a strip of rows at a time: see `calls`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from autodiff_cli.backends.llvm.functions.activations import ACTIVATIONS
from autodiff_cli.backends.llvm.functions.arithmetic import ARITHMETIC
from autodiff_cli.backends.llvm.functions.elementary import ELEMENTARY
from autodiff_cli.backends.llvm.functions.vectors import Vector
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Op
from autodiff_cli.graph.tape import topological
from autodiff_cli.numbers.arrays.table import ARRAYS
from autodiff_cli.numbers.floats.table import read

_TABLE: dict[str, Callable[..., Vector | None]] = {**ARITHMETIC, **ELEMENTARY, **ACTIVATIONS}


def applied(op: Op, *inputs: Vector) -> Vector | None:
    """What an operation that works element by element does to vectors; None if it has no form in vectors."""
    function = _TABLE.get(op.name)
    if function is not None:
        return function(*inputs)
    if op.name in ARRAYS.table:
        return None
    definition = _definition(op, len(inputs))
    if definition is None:
        return None
    order, places = definition
    values: dict[Node, Vector] = dict(zip(places, inputs, strict=True))
    for node in order:
        if node in values:
            continue
        if node.op is None:
            values[node] = inputs[0].code.vector(read(node.text))
            continue
        found = applied(node.op, *[values[child] for child in node.inputs])
        if found is None:
            return None
        values[node] = found
    return values[order[-1]]


@functools.cache
def _definition(op: Op, count: int) -> tuple[list[Node], tuple[Node, ...]] | None:
    """What a composite expands to, in topological order, and its placeholders; None for what is no composite."""
    expansion = op.expand(count)
    return None if expansion is None else (topological([expansion]), op.placeholders(count))

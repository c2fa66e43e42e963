"""Which size the parameters of a model have, from the sizes of its columns: dimensional analysis.

In `y ~ a*exp(-x/t) + c`, `a` and `c` are of the size of y and `t` of that of x. What an operation does to sizes is seen
in its elasticities, `x_k/f * ∂f/∂x_k`: a product of powers has constant ones; where their sum alone is constant the
inputs are of one size, as in a sum; all other functions take and give numbers about 1.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Gate, Op
from autodiff_cli.graph.tape import topological
from autodiff_cli.numbers.floats.table import FLOATS, read

Array = NDArray[np.float64]

# Where elasticities are looked at: numbers with nothing in common. More inputs are taken round and round.
_POINTS = ((0.31, 0.83, 0.47, 0.71, 0.59), (0.67, 0.37, 0.89, 0.53, 0.43), (0.41, 0.61, 0.29, 0.79, 0.97))
_SAME = 1e-9


def units(output: Node, target: Node | None, columns: Mapping[str, float], wanted: Sequence[str]) -> dict[str, float]:
    """The sizes of parameters, 1 where nothing says more.

    Args:
        output, target: the prediction and what it predicts. Where they have arrays, nothing is known.
        columns: the size of each column.
        wanted: the names of the parameters.

    >>> from autodiff_cli.language.lowering import read as parsed
    >>> program = parsed("a*exp(-x/t) + c")
    >>> found = units(program.output, None, {"x": 1e-6}, ["t"])
    >>> round(found["t"] * 1e6, 6)
    1.0
    """
    order = topological([output] if target is None else [output, target])
    if any(node.op is not None and node.op.structural for node in order):
        return dict.fromkeys(wanted, 1.0)
    unknown = [node.text for node in order if node.is_input and node.text not in columns]
    system = _System(len(unknown) + sum(node.op is not None for node in order))
    sizes: dict[Node, Array] = {}
    for node in order:
        if node.op is not None:
            sizes[node] = system.passed(node, [sizes[child] for child in node.inputs])
        elif node.is_constant:
            sizes[node] = system.known(0.0)
        elif node.text in columns:
            sizes[node] = system.known(math.log(columns[node.text]))
        else:
            sizes[node] = system.unknown()
    if target is not None:
        system.equal(sizes[output], sizes[target])
    leaves = {node.text: node for node in order if node.is_input}
    found = system.solution()
    return {
        name: math.exp(min(max(float(sizes[leaves[name]] @ found), -600.0), 600.0)) if name in leaves else 1.0
        for name in wanted
    }


class _System:
    """Linear equations between the logarithms of sizes, each a vector of factors of the unknown ones, and a number."""

    def __init__(self, most: int) -> None:
        self._width = most + 1
        self._count = 0
        self._equations: list[Array] = []

    def known(self, size: float) -> Array:
        vector = np.zeros(self._width)
        vector[-1] = size
        return vector

    def unknown(self) -> Array:
        vector = np.zeros(self._width)
        vector[self._count] = 1.0
        self._count += 1
        return vector

    def equal(self, a: Array, b: Array) -> None:
        self._equations.append(a - b)

    def passed(self, node: Node, inputs: Sequence[Array]) -> Array:
        """The size of what an operation gives."""
        assert node.op is not None
        fixed = tuple(read(child.text) if child.is_constant else None for child in node.inputs)
        powers, is_product = _powers(node.op, fixed)
        if powers is None and len(fixed) > 1 and node.inputs[-1].is_input:  # an exponent, say: as if it were 1
            fixed = (*fixed[:-1], 1.0)
            powers, is_product = _powers(node.op, fixed)
        taking = [k for k, value in enumerate(fixed) if value is None or not is_product]
        if powers is None:
            for k in taking:
                self.equal(inputs[k], self.known(0.0))
            return self.known(0.0)
        if is_product:
            return sum((powers[k] * inputs[k] for k in taking), self.known(0.0))
        for one in taking[1:]:
            if node.inputs[one].text != "0":
                self.equal(inputs[taking[0]], inputs[one])
        return powers[0] * inputs[taking[0]]

    def solution(self) -> Array:
        """The unknown sizes, and 1 for the number: of those that satisfy the equations best, the nearest to 1."""
        found = np.zeros(self._width)
        found[-1] = 1.0
        if self._equations:
            rows = np.array(self._equations)
            found[:-1] = np.linalg.lstsq(rows[:, :-1], -rows[:, -1], rcond=1e-9)[0]
        return found


@functools.lru_cache(1024)
def _powers(op: Op, fixed: tuple[float | None, ...]) -> tuple[tuple[float, ...] | None, bool]:
    """Of a product of powers, these, and True; where all inputs are of one size, the power of it, and False."""
    count = len(fixed)
    if op.gate is Gate.BLOCK:
        return ((0.0,), False) if count > 1 else (None, False)
    found = []
    for point in _POINTS:
        values = [point[k % len(point)] if value is None else value for k, value in enumerate(fixed)]
        output = FLOATS.function(op, count)(*values)
        slopes = FLOATS.partials(op, count, tuple(range(count)))(output, *values)
        if not output or not math.isfinite(output):
            return None, False
        found.append([0.0 if s is None else x * s / output for x, s in zip(values, slopes, strict=True)])
    elasticities = np.array(found)
    moving = [k for k, value in enumerate(fixed) if value is None]
    if not np.ptp(elasticities[:, moving], axis=0).max(initial=0.0) > _SAME:
        return tuple(elasticities[0].tolist()), True
    total = elasticities.sum(axis=1)
    return ((float(total[0]),), False) if float(np.ptp(total)) <= _SAME else (None, False)

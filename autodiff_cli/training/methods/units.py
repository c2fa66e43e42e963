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
from autodiff_cli.training.keeping.memo import Memo

Array = NDArray[np.float64]

# Where elasticities are looked at: numbers with nothing in common. More inputs are taken round and round.
_POINTS = ((0.31, 0.83, 0.47, 0.71, 0.59), (0.67, 0.37, 0.89, 0.53, 0.43), (0.41, 0.61, 0.29, 0.79, 0.97))
_SAME = 1e-9
_KEPT: Memo[dict[str, Array]] = Memo(64)


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
    names = tuple(columns)
    powers = _KEPT.of((output, target, names), lambda: _powers_of_leaves(output, target, names))
    logarithms = np.log([columns[name] for name in names])
    return {
        name: math.exp(min(max(float(powers[name] @ logarithms), -600.0), 600.0)) if name in powers else 1.0
        for name in wanted
    }


def _powers_of_leaves(output: Node, target: Node | None, columns: Sequence[str]) -> dict[str, Array]:
    """Of each leaf, the powers of the columns whose product it is as large as; of none where there are arrays."""
    order = topological([output] if target is None else [output, target])
    if any(node.op is not None and node.op.structural for node in order):
        return {}
    unknown = [node.text for node in order if node.is_input and node.text not in columns]
    system = _System(len(unknown) + sum(node.op is not None for node in order), len(columns))
    sizes: dict[Node, Array] = {}
    for node in order:
        if node.op is not None:
            sizes[node] = system.passed(node, [sizes[child] for child in node.inputs])
        elif node.is_constant:
            sizes[node] = system.one()
        elif node.text in columns:
            sizes[node] = system.known(columns.index(node.text))
        else:
            sizes[node] = system.unknown()
    if target is not None:
        system.equal(sizes[output], sizes[target])
    found = system.solution()
    return {node.text: sizes[node] @ found for node in order if node.is_input}


class _System:
    """Linear equations between the logarithms of sizes, each a vector of factors of those unknown and those known."""

    def __init__(self, most: int, known: int) -> None:
        self._most = most
        self._width = most + known
        self._count = 0
        self._equations: list[Array] = []

    def one(self) -> Array:
        return np.zeros(self._width)

    def known(self, place: int) -> Array:
        vector = np.zeros(self._width)
        vector[self._most + place] = 1.0
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
                self.equal(inputs[k], self.one())
            return self.one()
        if is_product:
            return sum((powers[k] * inputs[k] for k in taking), self.one())
        for one in taking[1:]:
            if node.inputs[one].text != "0":
                self.equal(inputs[taking[0]], inputs[one])
        return powers[0] * inputs[taking[0]]

    def solution(self) -> Array:
        """The sizes, unknown and known, by the known ones: of what satisfies the equations best, the nearest to 1."""
        known = self._width - self._most
        found: Array = np.zeros((self._most, known))
        if self._equations:
            rows = np.array(self._equations)
            found = np.asarray(
                np.linalg.lstsq(rows[:, : self._most], -rows[:, self._most :], rcond=1e-9)[0], np.float64
            )
        return np.vstack((found, np.eye(known)))


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

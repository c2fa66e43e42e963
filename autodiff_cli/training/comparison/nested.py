"""Whether one model is a special case of another, as far as that can be told for certain.

Two ways to tell are sound. Where both predictions are linear in their parameters, one is a special case of the other on
these rows if its columns lie in the span of the other's. Else parameters of the larger one are set to 0 or 1, and what
is left has to be the smaller one, as a formula in the same names. A parameter that has no effect once another is set so
is no parameter there, and the usual distributions of test statistics do not hold (Davies 1977, Biometrika 64, 247).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, islice, product

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.algebra.readable import readable
from autodiff_cli.graph.node import Node, constant
from autodiff_cli.graph.tape import rebuild, topological
from autodiff_cli.language.printer import to_text
from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.objective.structure import linear

Array = NDArray[np.float64]

UNKNOWN = "that one is a special case of the other is not known"

_MOST = 2000  # ways to set parameters that are tried
_MOST_ROWS = 200_000
_IN_SPAN = 1e-9  # the share of a column that may lie outside of a span that it is said to lie in


def why_not_nested(small: Objective, large: Objective) -> str | None:
    """None if the model with fewer parameters is a special case of the other, and a regular one; else why that is not
    known, as a part of a sentence."""
    linear_both = _is_linear(small) and _is_linear(large)
    if linear_both and small.rows <= _MOST_ROWS:
        return None if _in_span(small, large) else UNKNOWN
    if small.model.array_parameters or large.model.array_parameters:
        return "they have arrays of parameters"
    return _set_to_numbers(small, large)


def _is_linear(objective: Objective) -> bool:
    model = objective.model
    if not objective.has_residuals or objective.fixed:
        return False
    leaves = [model.program.leaves[name] for name in objective.parameters]
    return not model.array_parameters and len(linear(model.program.output, leaves, model.shapes)) == len(leaves)


def _in_span(small: Objective, large: Objective) -> bool:
    """Whether the predictions that one model can make on these rows are among those that the other can."""
    with quiet():
        inside, outside = _columns(large), _columns(small)
        # What the predictions are where all parameters are 0 has to be made up for too.
        apart = outside[:, -1] - inside[:, -1]
        basis, others = inside[:, :-1], np.column_stack((outside[:, :-1], apart))
        if not (np.isfinite(basis).all() and np.isfinite(others).all()):
            return False
        lengths = np.linalg.norm(basis, axis=0)
        directions, sizes, _ = np.linalg.svd(basis / np.where(lengths > 0, lengths, 1.0), full_matrices=False)
        directions = directions[:, sizes > _IN_SPAN * sizes[0]]
        left = np.linalg.norm(others - directions @ (directions.T @ others), axis=0)
        return bool((left <= _IN_SPAN * np.linalg.norm(others, axis=0)).all())


def _columns(objective: Objective) -> Array:
    """What each parameter is multiplied with, and last what is added to that, of all rows and components."""
    width = objective.layout.size + 1
    found = objective.per_row(objective.kernels.residuals_and_slopes, np.zeros(objective.layout.size))
    stacked: Array = found.reshape(objective.components, width, -1).swapaxes(1, 2).reshape(-1, width)
    return stacked


def _set_to_numbers(small: Objective, large: Objective) -> str | None:
    """The same by setting parameters of the larger model to 0 or 1."""
    wanted, program = _written(_root(small, {})), large.model.program
    kept = [name for name in large.parameters if name in small.parameters]
    others = [name for name in large.parameters if name not in small.parameters]
    count = large.layout.size - small.layout.size
    if len(others) != count or len(kept) != small.layout.size:
        return UNKNOWN
    leaves = {name: program.leaves[name] for name in others}
    for values in islice(product((0.0, 1.0), repeat=count), _MOST):
        setting = {leaves[name]: constant(value) for name, value in zip(others, values, strict=True)}
        if _written(_root(large, setting)) != wanted:
            continue
        for some in combinations(others, count - 1):
            (left,) = {*others} - {*some}
            (root,) = readable([_root(large, {leaves[name]: setting[leaves[name]] for name in some})])
            if left not in _names(root):
                said = " and ".join(f"{name} = {setting[leaves[name]].text}" for name in some)
                return f"`{left}` has no effect where {said}, so that the test's distribution is not known"
        return None
    return UNKNOWN


def _root(objective: Objective, setting: Mapping[Node, Node]) -> Node:
    fixed = {objective.model.program.leaves[name]: constant(float(x)) for name, x in objective.fixed.items()}
    return rebuild([objective.model.program.output], {**fixed, **setting})[0]


def _written(root: Node) -> str:
    return to_text(readable([root])[0])


def _names(root: Node) -> Iterator[str]:
    return (leaf.text for leaf in topological([root]) if leaf.is_input)

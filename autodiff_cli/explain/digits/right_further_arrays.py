"""The right digits of derivatives beyond the gradient, of formulas with arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from autodiff_cli.autodiff.forward import forward
from autodiff_cli.autodiff.unroll import TooManyOperationsError, elements
from autodiff_cli.explain.digits.right import corrected
from autodiff_cli.explain.digits.right_arrays import (
    Spoilt,
    is_doubtful,
    point_of,
    spoilt_numbers,
    with_ways,
    written_out,
)
from autodiff_cli.explain.digits.right_further import of_second_order, right_further, settled
from autodiff_cli.formula.directions import Moving, basis_of
from autodiff_cli.formula.formula import Formula
from autodiff_cli.formula.further import Further, Matrix
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.arrays.moved import is_undecided, start_array_moves
from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.numbers.floats.moved import WAYS

_MOST_OPERATIONS = 1_000_000  # with proven digits, for all columns of a Hessian


def spoilt_further(formula: Formula, place: Mapping[str, Any], further: Further) -> Spoilt:
    """What rounding has spoilt of a higher, a directional and of second derivatives: see `right_further`.

    Args:
        place: a number or an array for every variable.
        further: what floats give.
    """
    parts = []
    if further.derivative is not None:
        parts.append(_of_order(formula, place, further))
    if further.directional is not None and further.direction is not None:
        moving = Moving(formula, further.direction, place)
        found = {"directional": further.directional}
        point = {name: x if isinstance(x, float) else np.asarray(x, dtype=float) for name, x in moving.place.items()}
        parts.append(spoilt_numbers({"directional": moving.ahead()}, found, point, moving.leaves))
    if further.hessian is not None:
        parts.append(_of_second_order(formula, place, further.hessian))
    right = {name: text for part in parts for name, text in part.right.items()}
    return Spoilt(right, sum(part.unknown for part in parts))


def _of_order(formula: Formula, place: Mapping[str, Any], further: Further) -> Spoilt:
    try:
        numbers, (output,) = written_out([formula.output], place, formula.leaves)
    except TooManyOperationsError:
        return Spoilt({}, 1)
    leaves = {leaf.text: leaf for array in numbers.values() for leaf in array.reshape(-1).tolist()}
    asked = Further(derivative=further.derivative, order=further.order, variable=further.variable)
    return Spoilt(right_further(Formula(output.item(), leaves), point_of(numbers, place), asked), 0)


def _of_second_order(formula: Formula, place: Mapping[str, Any], hessian: Matrix) -> Spoilt:
    found = {row: _side_by_side(of, np.shape(place[row])) for row, of in hessian.items()}
    doubtful = _in_doubt(formula, place, found)
    rows = {row: mask for row, mask in doubtful.items() if mask.any()}
    if not rows:
        return Spoilt({}, 0)
    sizes = formula.sizes(place)
    slopes = gradient_nodes(formula.output, [formula.leaves[row] for row in rows], sizes)
    try:
        numbers, written = written_out(slopes, place, formula.leaves)
    except TooManyOperationsError:
        return Spoilt({}, sum(int(np.count_nonzero(mask)) for mask in rows.values()))
    columns = [leaf.text for name in hessian for leaf in numbers[name].reshape(-1).tolist()]
    exact, shown = {}, {}
    for (row, mask), graphs in zip(rows.items(), written, strict=True):
        for *index, column in np.argwhere(mask):
            leaf = elements(row, graphs.shape)[tuple(index)].text
            exact[leaf] = graphs[tuple(index)]
            shown[f"hessian.{leaf}.{columns[column]}"] = float(found[row][(*index, column)])
    if len(Tape([*exact.values()])) * len(columns) > _MOST_OPERATIONS:
        return Spoilt({}, len(shown))
    taken = [column for k, column in enumerate(columns) if any(mask[..., k].any() for mask in rows.values())]
    return Spoilt(corrected(shown, point_of(numbers, place), settled(of_second_order(exact, taken))), 0)


def _side_by_side(of: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
    """The second derivatives towards a variable of a shape and every number of all variables, along the last axis."""
    return np.concatenate([np.reshape(x, (*shape, -1)) for x in of.values()], axis=-1)


def _in_doubt(formula: Formula, place: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Which of the second derivatives are in doubt: rows of arrays are directions, one for every number."""
    basis = {name: np.asarray(rates) for name, rates in basis_of(formula, place, found).items()}
    moving = Moving(formula, basis, place)
    tape = Tape(moving.curvatures(found, is_sparse=False))
    given = with_ways(place)
    given |= {moving.seeds[formula.leaves[name]].text: np.moveaxis(rates, 0, -1) for name, rates in basis.items()}
    masks = {row: np.zeros(x.shape, dtype=bool) for row, x in found.items()}
    with quiet():
        for way in WAYS:
            values = forward(tape, start_array_moves(way), given)
            for row, i in zip(found, tape.outputs, strict=True):
                masks[row] |= is_doubtful(found[row], values[i]) | is_undecided()
    return masks

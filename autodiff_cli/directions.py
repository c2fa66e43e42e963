"""Derivatives of an expression along directions, over arrays and of second order.

A direction gives every variable a rate of change. Rates are leaves of the graph like any others, so that many
directions are one batch: the columns of a Jacobian or a Hessian are evaluated together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.autodiff.simplify import share
from autodiff_cli.autodiff.taylor import derivatives
from autodiff_cli.autodiff.unroll import TooManyOperationsError, elements, unroll
from autodiff_cli.graph.gradient import gradient_nodes, tangent
from autodiff_cli.graph.node import Node, variable
from autodiff_cli.graph.op import Shape
from autodiff_cli.graph.tape import Tape
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.numbers.floats import FLOATS

if TYPE_CHECKING:
    from autodiff_cli.formula import Formula

Array = NDArray[np.float64]


def slope_along(expression: Formula, rates: Mapping[str, Any], place: Mapping[str, Any]) -> tuple[Any, Any]:
    """The value at a point, and the derivative along the direction `rates`, by forward mode."""
    moving = _Moving(expression, rates, place)
    with expression.placed():
        ahead = tangent(expression.output, moving.seeds, moving.sizes)
    value, slope = expression.evaluate([expression.output, ahead], moving.place, moving.sizes)
    return value, slope


def hessian_times(
    expression: Formula, rates: Mapping[str, Any], place: Mapping[str, Any], wrt: Iterable[str] | None = None
) -> list[Any]:
    """For every variable, or those of `wrt`, the gradient of the derivative along the direction `rates`.

    Raises ExpressionError if the output is an array.
    """
    moving = _Moving(expression, rates, place)
    expression.check_output(moving.sizes)
    leaves = [expression.leaves[name] for name in (expression.variables if wrt is None else wrt)]
    with expression.placed():
        ahead = tangent(share([expression.output])[0], moving.seeds, moving.sizes)
        slopes = gradient_nodes(ahead, leaves, moving.sizes)
    return expression.evaluate(slopes, moving.place, moving.sizes)


def hessian(expression: Formula, place: Mapping[str, Any], wrt: Iterable[str] | None = None) -> Array:
    """The matrix of second derivatives, of shape (n, n) for variables of n numbers in all; by default all variables."""
    names = expression.variables if wrt is None else tuple(wrt)
    if not names:
        return np.zeros((0, 0))
    rows = _hessian_rows(expression, names, place, names)
    if np.isnan(rows).any():
        # Then a variable that stands still is not one that is absent: 0 times nan. So each moves alone.
        rows = np.concatenate([_hessian_rows(expression, (name,), place, names) for name in names])
    return np.asarray((rows + rows.T) / 2)


def _hessian_rows(expression: Formula, moving: Iterable[str], place: Mapping[str, Any], names: Iterable[str]) -> Array:
    """The rows of the Hessian towards `names` that belong to the variables of `moving`."""
    slopes = hessian_times(expression, _basis(expression, place, moving), place, names)
    count = len(np.atleast_1d(slopes[0]))
    return np.concatenate([np.reshape(slope, (count, -1)) for slope in slopes], axis=1)


def jacobian(expression: Formula, place: Mapping[str, Any]) -> dict[str, Array]:
    """The derivative of the output towards each variable, of the output's shape and then the variable's."""
    sizes = expression.sizes(place)
    slopes = (
        np.asarray(slope_along(expression, _basis(expression, place, expression.variables), place)[1])
        if expression.leaves
        else np.zeros(0)
    )
    found, start = {}, 0
    for name in expression.variables:
        shape = sizes.get(name, ())
        stop = start + int(np.prod(shape))
        columns = np.moveaxis(slopes[start:stop], 0, -1)
        found[name] = columns.reshape((*columns.shape[:-1], *shape))
        start = stop
    return found


def derivatives_among_arrays(formula: Formula, name: str, order: int, place: Mapping[str, Any]) -> list[float]:
    """The value at a point and the derivatives up to `order` towards a variable that is a number, where others are
    arrays: Taylor series of the formula with its arrays written out.

    Raises ExpressionError if `name` or the output is an array, for a batch, and for arrays too large for this.
    """
    sizes = formula.sizes_of_scalar_output(place)
    if name in sizes:
        raise ExpressionError(f"`{name}` is an array, and derivatives of higher order are towards a number")
    if any(np.shape(value) != sizes.get(own, ()) for own, value in place.items()):
        raise ExpressionError("derivatives of higher order are at one point, and here is a batch of points")
    written = {own: elements(own, sizes.get(own, ())) for own in formula.variables}
    try:
        (output,) = unroll([formula.output], {leaf: written[own] for own, leaf in formula.leaves.items()})
    except TooManyOperationsError as error:
        raise ExpressionError(str(error)) from error
    point = {
        leaf.text: float(number)
        for own, leaves in written.items()
        for leaf, number in zip(leaves.reshape(-1).tolist(), np.ravel(place[own]), strict=True)
    }
    along = written[name].item()
    return derivatives(Tape([output.item()], [along]), along, FLOATS, point, order)


class _Moving:
    """A point, and leaves for the rates at which variables move from there.

    Attributes:
        seeds: for the leaf of every variable that moves, the leaf of its rate; its name is none that a text can have.
        place: the values of all leaves.
        sizes: the shapes of those that are no scalars.
    """

    def __init__(self, expression: Formula, rates: Mapping[str, Any], place: Mapping[str, Any]) -> None:
        names = {name: f"rate of {name}" for name in rates}
        sizes = expression.sizes(place)
        self.seeds: dict[Node, Node] = {expression.leaves[name]: variable(rate) for name, rate in names.items()}
        self.place = {**place, **{rate: rates[name] for name, rate in names.items()}}
        self.sizes: dict[str, Shape] = sizes | {rate: sizes[name] for name, rate in names.items() if name in sizes}


def _basis(expression: Formula, place: Mapping[str, Any], names: Iterable[str]) -> dict[str, Array]:
    """All directions in which one number of one of these variables moves, as a batch."""
    sizes = expression.sizes(place)
    counts = {name: int(np.prod(sizes.get(name, ()))) for name in names}
    total = sum(counts.values())
    starts = dict(zip(counts, _starts(counts.values()), strict=True))
    return {
        name: np.eye(total, count, -starts[name]).reshape(total, *sizes.get(name, ())) for name, count in counts.items()
    }


def _starts(counts: Iterable[int]) -> list[int]:
    return [0, *np.cumsum([*counts])[:-1].tolist()]

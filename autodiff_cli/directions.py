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
from autodiff_cli.graph.gradient import gradient_nodes, tangent
from autodiff_cli.graph.node import Node, variable
from autodiff_cli.graph.op import Shape

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


def hessian_times(expression: Formula, rates: Mapping[str, Any], place: Mapping[str, Any]) -> list[Any]:
    """For every variable, the gradient of the derivative along the direction `rates`.

    Raises ExpressionError if the output is an array.
    """
    moving = _Moving(expression, rates, place)
    expression.check_output(moving.sizes)
    with expression.placed():
        ahead = tangent(share([expression.output])[0], moving.seeds, moving.sizes)
        slopes = gradient_nodes(ahead, list(expression.leaves.values()), moving.sizes)
    return expression.evaluate(slopes, moving.place, moving.sizes)


def hessian(expression: Formula, place: Mapping[str, Any]) -> Array:
    """The matrix of second derivatives, of shape (n, n) for variables of n numbers in all."""
    slopes = hessian_times(expression, _basis(expression, place), place)
    if not slopes:
        return np.zeros((0, 0))
    count = len(np.atleast_1d(slopes[0]))
    rows = np.concatenate([np.reshape(slope, (count, -1)) for slope in slopes], axis=1)
    return np.asarray((rows + rows.T) / 2)


def jacobian(expression: Formula, place: Mapping[str, Any]) -> dict[str, Array]:
    """The derivative of the output towards each variable, of the output's shape and then the variable's."""
    sizes = expression.sizes(place)
    slopes = (
        np.asarray(slope_along(expression, _basis(expression, place), place)[1]) if expression.leaves else np.zeros(0)
    )
    found, start = {}, 0
    for name in expression.variables:
        shape = sizes.get(name, ())
        stop = start + int(np.prod(shape))
        columns = np.moveaxis(slopes[start:stop], 0, -1)
        found[name] = columns.reshape((*columns.shape[:-1], *shape))
        start = stop
    return found


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


def _basis(expression: Formula, place: Mapping[str, Any]) -> dict[str, Array]:
    """All directions in which one number of one variable moves, as a batch."""
    sizes = expression.sizes(place)
    counts = {name: int(np.prod(sizes.get(name, ()))) for name in expression.variables}
    total = sum(counts.values())
    starts = dict(zip(counts, _starts(counts.values()), strict=True))
    return {
        name: np.eye(total, count, -starts[name]).reshape(total, *sizes.get(name, ())) for name, count in counts.items()
    }


def _starts(counts: Iterable[int]) -> list[int]:
    return [0, *np.cumsum([*counts])[:-1].tolist()]

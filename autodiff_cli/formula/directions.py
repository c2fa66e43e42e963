"""Derivatives of an expression along directions, over arrays and of second order.

A direction gives every variable a rate of change. Rates are leaves of the graph like any others, so that many
directions are one batch: the columns of a Jacobian or a Hessian are evaluated together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.algebra.table import share
from autodiff_cli.autodiff.taylor import derivatives
from autodiff_cli.autodiff.unroll import TooManyOperationsError, elements, unroll
from autodiff_cli.graph.gradient import gradient_nodes, tangent
from autodiff_cli.graph.node import Node, variable
from autodiff_cli.graph.op import ZERO, Partial, Shape
from autodiff_cli.graph.shapes import in_words, shapes
from autodiff_cli.graph.tape import Tape
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.numbers.floats.table import FLOATS
from autodiff_cli.ops.arithmetic import not_equal
from autodiff_cli.ops.choice import where
from autodiff_cli.ops.structural import sum_

if TYPE_CHECKING:
    from autodiff_cli.formula.formula import Formula

Array = NDArray[np.float64]


def slope_along(expression: Formula, rates: Mapping[str, Any], place: Mapping[str, Any]) -> tuple[Any, Any]:
    """The value at a point, and the derivative along the direction `rates`, by forward mode."""
    moving = Moving(expression, rates, place)
    value, slope = expression.evaluate([expression.output, moving.ahead()], moving.place, moving.sizes)
    return value, slope


def hessian_times(
    expression: Formula,
    rates: Mapping[str, Any],
    place: Mapping[str, Any],
    wrt: Iterable[str] | None = None,
    is_sparse: bool = False,
) -> list[Any]:
    """For every variable, or those of `wrt`, the gradient of the derivative along the direction `rates`.

    Args:
        is_sparse: whether a number with the rate 0 is absent from the direction, so that an infinite slope towards it
            does not matter. That takes about half as much time again.

    Raises ExpressionError if the output is an array.
    """
    moving = Moving(expression, rates, place)
    curvatures = moving.curvatures(expression.variables if wrt is None else wrt, is_sparse)
    return expression.evaluate(curvatures, moving.place, moving.sizes)


def hessian(expression: Formula, place: Mapping[str, Any], wrt: Iterable[str] | None = None) -> Array:
    """The matrix of second derivatives, of shape (n, n) for variables of n numbers in all; by default all variables.

    The axes of a batch of points come first.
    """
    names = expression.variables if wrt is None else tuple(wrt)
    if not names:
        return np.zeros((0, 0))
    basis = basis_of(expression, place, names)
    rows = _joined(hessian_times(expression, basis, place, names), expression, place)
    if np.isnan(rows).any():  # 0 times an infinite slope, perhaps
        rows = _joined(hessian_times(expression, basis, place, names, is_sparse=True), expression, place)
    matrix = np.moveaxis(rows, 0, -2)
    return np.asarray((matrix + matrix.swapaxes(-1, -2)) / 2)


def jacobian(expression: Formula, place: Mapping[str, Any]) -> dict[str, Array]:
    """The derivative of the output towards each variable, of the output's shape and then the variable's.

    The axes of a batch of points come first.
    """
    sizes = expression.sizes(place)
    rows = _rows(expression, expression.output, place, expression.variables)
    shape, batch = _shape_of(expression, expression.output, sizes), _batch(expression, place)
    return {
        name: np.moveaxis(found, 0, len(batch)).reshape(batch + shape + sizes.get(name, ()))
        for name, found in zip(expression.variables, rows, strict=True)
    }


def _rows(expression: Formula, output: Node, place: Mapping[str, Any], names: Iterable[str]) -> list[Array]:
    """The derivatives of every element of a graph towards each variable: elements first, then the batch, then the
    variable's shape.

    By reverse mode, in one batch: each element has an adjoint of its own, and structurally nothing arrives at others.
    """
    sizes = expression.sizes(place)
    shape = _shape_of(expression, output, sizes)
    seed, count = variable("adjoint of an element"), math.prod(shape)
    leaves = [expression.leaves[name] for name in names]
    seeded = {**sizes, seed.text: shape}
    with expression.placed():
        start = Partial(seed, not_equal(seed, 0), settled=True)
        slopes = gradient_nodes(share([output])[0], leaves, seeded, start)
    basis = np.eye(count).reshape(count, *(1 for _ in _batch(expression, place)), *shape)
    return [np.asarray(slope) for slope in expression.evaluate(slopes, {**place, seed.text: basis}, seeded)]


def _shape_of(expression: Formula, output: Node, sizes: Mapping[str, Shape]) -> Shape:
    with expression.placed():
        tape = Tape((output,))
        return shapes(tape, sizes)[tape.outputs[0]]


def _batch(expression: Formula, place: Mapping[str, Any]) -> Shape:
    """The shape of the batch of points that a place is; () for one point."""
    sizes = expression.sizes(place)
    own = {name: np.ndim(value) - len(sizes.get(name, ())) for name, value in place.items()}
    return np.broadcast_shapes(*(np.shape(value)[: own[name]] for name, value in place.items()))


def _joined(slopes: Sequence[Any], expression: Formula, place: Mapping[str, Any]) -> Array:
    """Derivatives towards variables side by side: rows, the batch, then the numbers of all variables."""
    leading = 1 + len(_batch(expression, place))
    flat = [np.reshape(x, (*x.shape[:leading], math.prod(x.shape[leading:]))) for x in map(np.asarray, slopes)]
    return np.concatenate(flat, axis=-1)


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


class Moving:
    """A point, and leaves for the rates at which variables move from there.

    Attributes:
        leaves: of all variables and rates, by their names.
        seeds: for the leaf of every variable that moves, the leaf of its rate; its name is none that a text can have.
        place: the values of all leaves.
        sizes: the shapes of those that are no scalars.
    """

    def __init__(self, expression: Formula, rates: Mapping[str, Any], place: Mapping[str, Any]) -> None:
        names = {name: f"rate of {name}" for name in rates}
        sizes = expression.sizes(place)
        for name, rate in rates.items():
            shape, found = sizes.get(name, ()), np.shape(rate)
            if found[len(found) - len(shape) :] != shape:
                words = f"`{name}` has the shape {in_words(shape)}; its direction has {in_words(found)}"
                raise ExpressionError(words)
        self._expression = expression
        self.seeds: dict[Node, Node] = {expression.leaves[name]: variable(rate) for name, rate in names.items()}
        self.leaves = {**expression.leaves, **{rate.text: rate for rate in self.seeds.values()}}
        self.place = {**place, **{rate: rates[name] for name, rate in names.items()}}
        self.sizes: dict[str, Shape] = sizes | {rate: sizes[name] for name, rate in names.items() if name in sizes}

    def ahead(self) -> Node:
        """The derivative of the output along the direction, as a graph, by forward mode."""
        with self._expression.placed():
            return tangent(self._expression.output, self.seeds, self.sizes)

    def curvatures(self, wrt: Iterable[str], is_sparse: bool) -> list[Node]:
        """The derivatives of the derivative along the direction, as graphs; see `hessian_times`."""
        expression = self._expression
        expression.check_output(self.sizes)
        along = ZERO
        with expression.placed():
            slopes = gradient_nodes(share([expression.output])[0], [*self.seeds], self.sizes)
            for slope, (leaf, rate) in zip(slopes, self.seeds.items(), strict=True):
                amounts = where(not_equal(rate, 0), slope * rate, 0) if is_sparse else slope * rate
                along = along + (sum_(amounts) if leaf.text in self.sizes else amounts)
            return gradient_nodes(share([along])[0], [expression.leaves[name] for name in wrt], self.sizes)


def basis_of(expression: Formula, place: Mapping[str, Any], names: Iterable[str]) -> dict[str, Array]:
    """All directions in which one number of one of these variables moves, as a batch in front of that of the place."""
    sizes, batch = expression.sizes(place), _batch(expression, place)
    counts = {name: math.prod(sizes.get(name, ())) for name in names}
    total = sum(counts.values())
    starts = dict(zip(counts, _starts(counts.values()), strict=True))
    return {
        name: np.eye(total, count, -starts[name]).reshape(total, *(1 for _ in batch), *sizes.get(name, ()))
        for name, count in counts.items()
    }


def _starts(counts: Iterable[int]) -> list[int]:
    return [0, *itertools.accumulate(counts)][:-1]

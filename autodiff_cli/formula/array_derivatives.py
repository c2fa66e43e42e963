"""Derivatives of formulas with arrays: directional derivatives, Hessians and Jacobians, and gradients at many points.

A direction has a component for each variable. The components are leaves of the graph like any others, so many
directions are evaluated together as one batch: that gives all columns of a Jacobian or a Hessian at once. Gradients at
many points are computed block by block, so that memory does not grow with the number of points.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.algebra.simplify import share
from autodiff_cli.array_types import Array
from autodiff_cli.autodiff.taylor import derivatives
from autodiff_cli.autodiff.unrolling import unroll_at
from autodiff_cli.backends.numpy_backend import BLOCK_ROWS
from autodiff_cli.backends.protocol import RowGraphs, RowKernel
from autodiff_cli.backends.reductions import block_slices
from autodiff_cli.backends.selection import choose_backend
from autodiff_cli.graph.gradient import derivative_key, gradient_nodes, tangents
from autodiff_cli.graph.node import ZERO, Node, Partial, Shape, variable
from autodiff_cli.graph.tape import Tape, broadcast_shapes, format_shape
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.ops.arithmetic import not_equal, where
from autodiff_cli.ops.structural import sum_

if TYPE_CHECKING:
    from autodiff_cli.formula.formula import Formula
    from autodiff_cli.formula.uncertainty import RowErrors


def directional_derivative(expression: Formula, rates: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the value at a point, and the derivative along the direction `rates`, by forward mode."""
    point = DirectionalPoint(expression, rates, values)
    value, slope = expression.evaluate([expression.output, point.derivative()], point.values, point.shapes)
    return value, slope


def hessian_vector_product(
    expression: Formula, rates: Mapping[str, Any], values: Mapping[str, Any], wrt: Iterable[str] | None = None
) -> list[Any]:
    """Return the product of the Hessian and a direction: the gradient of the derivative along the direction.

    Args:
        expression: the formula.
        rates: the direction, by variable.
        values: the values of all variables.
        wrt: the variables of the result; by default all.

    Returns:
        The product, one number or array for each variable.

    Raises:
        ExpressionError: if the output is an array.
    """
    point = DirectionalPoint(expression, rates, values)
    product = point.hessian_product(expression.variables if wrt is None else wrt)
    return expression.evaluate(product, point.values, point.shapes)


def hessian(expression: Formula, values: Mapping[str, Any], wrt: Iterable[str] | None = None) -> Array:
    """Return the matrix of second derivatives, of shape (n, n) for variables with n elements in total.

    For a batch of points, the axes of the batch come first.

    Args:
        expression: the formula.
        values: the values of all variables.
        wrt: the variables to differentiate by; by default all.
    """
    names = expression.variables if wrt is None else tuple(wrt)
    if not names:
        return np.zeros((0, 0))
    basis = basis_directions(expression, values, names)
    rows = _concatenate(hessian_vector_product(expression, basis, values, names), expression, values)
    matrix = np.moveaxis(rows, 0, -2)
    other = matrix.swapaxes(-1, -2)
    return np.where(matrix == other, matrix, matrix / 2 + other / 2)  # the sum may leave the range of floats


def jacobian(expression: Formula, values: Mapping[str, Any]) -> dict[str, Array]:
    """Return the derivatives of the output with respect to each variable, by name; see `Formula.jacobian`."""
    sizes = expression.value_shapes(values)
    shape, batch = expression.output_shape(sizes), _batch_shape(expression, values)
    seed, count = variable("adjoint of an element"), math.prod(shape)  # no variable of a text can have this name
    seeded = {**sizes, seed.text: shape}
    with expression.locate_errors():
        start = Partial(seed, not_equal(seed, 0), is_masked=True)
        slopes = gradient_nodes(share([expression.output])[0], [*expression.leaves.values()], seeded, start)
    # One batch for all elements: row k has the adjoint 1 at element k, and the other elements contribute exactly 0.
    basis = np.eye(count).reshape(count, *(1 for _ in batch), *shape)
    rows = map(np.asarray, expression.evaluate(slopes, {**values, seed.text: basis}, seeded))
    return {
        name: np.moveaxis(slopes, 0, len(batch)).reshape(batch + shape + sizes.get(name, ()))
        for name, slopes in zip(expression.variables, rows, strict=True)
    }


def _batch_shape(expression: Formula, values: Mapping[str, Any]) -> Shape:
    """Return the shape of a batch of points; () for one point."""
    sizes = expression.value_shapes(values)
    batches = [np.shape(value)[: np.ndim(value) - len(sizes.get(name, ()))] for name, value in values.items()]
    with expression.locate_errors():
        return broadcast_shapes((), *batches)


def _concatenate(slopes: Sequence[Any], expression: Formula, values: Mapping[str, Any]) -> Array:
    """Return the derivatives with respect to all variables in one array: rows, the batch, then all elements."""
    leading = 1 + len(_batch_shape(expression, values))
    flat = [np.reshape(x, (*x.shape[:leading], math.prod(x.shape[leading:]))) for x in map(np.asarray, slopes)]
    return np.concatenate(flat, axis=-1)


def derivatives_with_arrays(formula: Formula, name: str, order: int, values: Mapping[str, Any]) -> list[float]:
    """Return the value at a point and the derivatives up to `order`, for a formula with arrays.

    They are computed by the Taylor series of the formula with its arrays unrolled into elements.

    Args:
        formula: the formula.
        name: the variable to differentiate by, a number.
        order: the highest order.
        values: the values of all variables.

    Raises:
        ExpressionError: if `name` or the output is an array, for a batch of points, and for arrays that are too large.
    """
    sizes = formula.value_shapes_of_scalar_output(values)
    if name in sizes:
        raise ExpressionError(f"`{name}` is an array; derivatives of higher order need a variable that is a number")
    if any(np.shape(value) != sizes.get(variable_name, ()) for variable_name, value in values.items()):
        raise ExpressionError("derivatives of higher order are computed at one point, not for a batch of points")
    (output,), leaves, point = unroll_at([formula.output], values, formula.leaves)
    along = leaves[name].item()
    return derivatives(Tape([output.item()], [along]), along, FLOATS, point, order)


def rate_name(name: str) -> str:
    """Return the name of the leaf of a variable's component of a direction; no variable of a text can have it."""
    return f"rate of {name}"


class DirectionalPoint:
    """A point with a direction, whose components are leaves of their own. Where these are 0, they have no effect.

    Args:
        tiny: names of leaves of components, or of their elements, that are 0 only as floats, such as 1e-400.

    Attributes:
        leaves: the leaves of all variables and components, by name.
        seeds: the leaf of the component, by the leaf of its variable. No variable of a text can have its name.
        values: the values of all leaves, by name.
        shapes: the shapes of the leaves that are arrays, by name.
    """

    def __init__(
        self, expression: Formula, rates: Mapping[str, Any], values: Mapping[str, Any], tiny: Collection[str] = ()
    ) -> None:
        sizes = expression.value_shapes(values)
        for name, rate in rates.items():
            shape, rate_shape = sizes.get(name, ()), np.shape(rate)
            if rate_shape[len(rate_shape) - len(shape) :] != shape:
                words = f"`{name}` has the shape {format_shape(shape)}; its direction has {format_shape(rate_shape)}"
                raise ExpressionError(words)
        # A component of 0 has no effect.
        tiny = {leaf.partition("[")[0] for leaf in tiny}
        names = {name: rate_name(name) for name, rate in rates.items() if np.any(rate) or rate_name(name) in tiny}
        self._expression = expression
        self.seeds: dict[Node, Node] = {expression.leaves[name]: variable(rate) for name, rate in names.items()}
        self.leaves = {**expression.leaves, **{rate.text: rate for rate in self.seeds.values()}}
        self.values = {**values, **{rate: rates[name] for name, rate in names.items()}}
        self.shapes: dict[str, Shape] = sizes | {rate: sizes[name] for name, rate in names.items() if name in sizes}

    def derivative(self) -> Node:
        """Return the derivative of the output along the direction, as a graph, by forward mode."""
        masks = {leaf: not_equal(rate, 0) for leaf, rate in self.seeds.items()}
        with self._expression.locate_errors():
            return tangents([self._expression.output], self.seeds, self.shapes, masks)[0]

    def hessian_product(self, wrt: Iterable[str]) -> list[Node]:
        """Return the product of the Hessian and the direction towards variables, as graphs."""
        expression = self._expression
        expression.check_scalar_output(self.shapes)
        along = ZERO
        with expression.locate_errors():
            slopes = gradient_nodes(share([expression.output])[0], [*self.seeds], self.shapes)
            for slope, (leaf, rate) in zip(slopes, self.seeds.items(), strict=True):
                amounts = where(not_equal(rate, 0), slope * rate, 0)
                along = along + (sum_(amounts) if leaf.text in self.shapes else amounts)
            return gradient_nodes(share([along])[0], [expression.leaves[name] for name in wrt], self.shapes)


def basis_directions(expression: Formula, values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Array]:
    """Return the unit directions of all elements of some variables, by name.

    They are a batch, whose axis comes before the axes of a batch of points.
    """
    sizes, batch = expression.value_shapes(values), _batch_shape(expression, values)
    counts = {name: math.prod(sizes.get(name, ())) for name in names}
    total = sum(counts.values())
    starts = dict(zip(counts, itertools.accumulate(counts.values(), initial=0), strict=False))
    return {
        name: np.eye(total, count, -starts[name]).reshape(total, *(1 for _ in batch), *sizes.get(name, ()))
        for name, count in counts.items()
    }


# --- Gradients at many points

Columns = Mapping[str, Array]  # for each variable, its values at the points, of shape (points,)

# The names of the value and of its standard error among the numbers of a point; variables name the derivatives.
VALUE, STDERR = "value", "stderr"

MAX_POINTS = 2**62  # points of a grid, so that their positions fit 64-bit integers


@dataclass(frozen=True)
class Range:
    """`count` equally spaced numbers, from exactly `start` to exactly `stop`."""

    start: float
    stop: float
    count: int

    def numbers_at(self, positions: NDArray[np.int64]) -> Array:
        """Return the numbers at some positions, counted from 0. In 0.1:0.7:7, they are exactly 0.2, 0.3 and so on."""
        last, ends = max(self.count - 1, 1), (self.start, self.stop)
        decimals = [Fraction(repr(end)) for end in ends]
        denominator, exponent = math.lcm(*(end.denominator for end in decimals)), math.frexp(max(map(abs, ends)))[1]
        # The products with positions are exact; else a power of two keeps them finite, as in 0:1e308:101.
        is_short = max(Fraction(1), *map(abs, decimals)) * denominator * last <= 2**53
        scale = denominator if is_short else math.ldexp(1.0, min(0, 1020 - exponent - last.bit_length()))
        start, stop = (round(end * scale) if is_short else end * scale for end in ends)
        between = np.clip((start * (last - positions) + stop * positions) / (last * scale), min(ends), max(ends))
        return np.where(positions == 0, self.start, np.where(positions == last, self.stop, between))


def grid(ranges: Mapping[str, Range]) -> Iterator[dict[str, Array]]:
    """Yield all combinations of the numbers in ranges, in blocks; the last range varies fastest."""
    shape = [range_.count for range_ in ranges.values()]
    for part in block_slices(math.prod(shape), BLOCK_ROWS):
        positions_by_range = np.unravel_index(np.arange(part.start, part.stop), shape)
        yield {
            name: range_.numbers_at(positions)
            for (name, range_), positions in zip(ranges.items(), positions_by_range, strict=True)
        }


class BatchedGradient:
    """The value and the gradient of an expression, compiled for many points.

    Args:
        expression: the expression.
        columns: the variables that vary from point to point, at least one.
        fixed: the values of all other variables.
        wrt: the variables to differentiate by.
        errors: the standard errors of variables; None if the standard error of the value is not computed.

    Attributes:
        point_count: the number of points, if it is known before the first block, else 0.
        error_columns: the columns of standard errors.
        graphs: the graphs of the value, the derivatives, and the standard error, by name.
        leaves: the leaves of variables and of standard errors, by name.
        point: the values of those leaves that do not vary, by name.

    Raises:
        ExpressionError: if the output, or a variable in `columns` or `wrt`, is not a number.
    """

    def __init__(
        self,
        expression: Formula,
        columns: Sequence[str],
        fixed: Mapping[str, Any],
        wrt: Sequence[str],
        errors: RowErrors | None = None,
    ) -> None:
        self.point_count = 0
        self.columns = tuple(columns)
        self.wrt = tuple(wrt)
        beside_arrays = any(np.ndim(value) for value in fixed.values())
        for name in columns:
            # In `sum(v*x)`, where an array is required, the other factor may be the array.
            if name in expression.shapes or (name in expression.arrays and not beside_arrays):
                raise ExpressionError(f"`{name}` is an array, but each point has one number for it")
        values = expression.at({**fixed, **dict.fromkeys(columns, 0.0)})
        sizes = expression.array_shapes_at(values)
        for name in wrt:
            if sizes.get(name):
                raise ExpressionError(f"`{name}` is an array: choose variables that are numbers with --wrt")
        self.leaves, self.point = dict(expression.leaves), {name: values[name] for name in fixed}
        uncertain = errors.names if errors else ()
        misleads: list[Node] = []
        with expression.locate_errors():
            output = share([expression.output])[0]
            names = [*dict.fromkeys([*wrt, *uncertain])]
            leaves = [expression.leaves[name] for name in names]
            slopes = dict(zip(names, gradient_nodes(output, leaves, sizes), strict=True))
        self.graphs = {VALUE: output, **{derivative_key(name): slopes[name] for name in wrt}}
        if errors:
            self.leaves = errors.leaves | self.leaves
            self.graphs[STDERR], condition = errors.graphs(slopes, self.leaves, sizes)
            misleads = [condition]
            self.point |= errors.leaf_values
            sizes = sizes | {name: np.shape(error) for name, error in errors.leaf_values.items()}
        self.error_columns = tuple(errors.columns.values()) if errors else ()
        self._graphs = RowGraphs([*self.graphs.values(), *misleads], {*self.columns, *self.error_columns}, sizes)

    @cached_property
    def _kernel(self) -> RowKernel:
        return choose_backend("auto", None, self._graphs, self.point_count, passes=1).row_kernel(self._graphs)

    @cached_property
    def _prepared(self) -> Any:
        return self._kernel.prepare(self.point)

    def evaluate(self, columns: Columns) -> Array:
        """Return the numbers of all graphs at the points of one block, of shape (graphs, points).

        With standard errors, the last row is 1 where the standard error to first order is misleading.
        """
        results = np.empty((self._kernel.value_count, len(columns[self.columns[0]])))
        self._kernel.write(self._prepared, columns, results)
        return results

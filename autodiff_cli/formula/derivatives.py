"""Higher derivatives by the names of variables, and formulas with their arrays unrolled.

Derivatives with respect to an array are arrays: the second derivatives with respect to `v`, of shape s, and a number
`x` have the shape s.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node, Shape, constant
from autodiff_cli.language.errors import ExpressionError, check_known
from autodiff_cli.ops.structural import index, stack

# Numbers in a Hessian or a Jacobian that a report shows, each with the names of its variables.
MAX_DERIVATIVES = 1_000_000

# Numbers, arrays or expressions, by the names of the row and of the column.
DerivativeMatrix: TypeAlias = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class HigherDerivatives:
    """Derivatives beyond the gradient, as numbers at a point or as expressions; None for those not requested.

    Attributes:
        formulas: the derivative with respect to each variable, as an expression.
        tangents: from forward mode, the derivatives of all nodes with respect to each variable.
        hessian: the second derivatives, by both variables.
        directional: the derivative along `direction`.
        direction: the component of each variable.
        derivative: the derivative of order `order` with respect to `variable`.
        order: the order of `derivative`.
        variable: the variable of `derivative`.
        jacobian: the derivatives of several outputs, by output and variable.
        outputs: the values of the outputs in `jacobian`.
    """

    formulas: Mapping[str, Formula] | None = None
    tangents: Mapping[str, list[float]] | None = None
    hessian: DerivativeMatrix | None = None
    directional: Any = None
    direction: Mapping[str, Any] | None = None
    derivative: Any = None
    order: int = 0
    variable: str = ""
    jacobian: DerivativeMatrix | None = None
    outputs: Mapping[str, Any] | None = None

    @property
    def is_finite(self) -> bool:
        """Whether all derivatives of higher order, or along a direction, are finite."""
        rows = (self.hessian or {}).values()
        numbers = [self.derivative, self.directional, *(x for row in rows for x in row.values())]
        return all(math.isfinite(abs(x) if isinstance(x, float) else abs(x).max()) for x in numbers if x is not None)


def hessian_by_name(expression: Formula, point: Mapping[str, Any], wrt: Iterable[str]) -> DerivativeMatrix:
    """Return the second derivatives at a point, by both variables.

    Raises:
        ExpressionError: for more than `MAX_DERIVATIVES` numbers, and as `Formula.hessian` does.
    """
    from autodiff_cli.formula.array_derivatives import hessian

    names = tuple(wrt)
    shapes = _shapes_of(expression, point, names)
    counts = [math.prod(shape) for shape in shapes.values()]
    _check_count(sum(counts) ** 2, "hessian", names)
    matrix = hessian(expression, expression.at(point), names)
    ends = itertools.accumulate(counts)
    parts = {name: slice(end - count, end) for name, count, end in zip(shapes, counts, ends, strict=True)}
    return {a: {b: matrix[parts[a], parts[b]].reshape(shapes[a] + shapes[b]) for b in names} for a in names}


def _shapes_of(expression: Formula, point: Mapping[str, Any], names: Iterable[str]) -> dict[str, Shape]:
    sizes = expression.value_shapes(expression.at(point))
    return {name: sizes.get(name, ()) for name in names}


def _check_count(count: int, kind: str, names: Sequence[str]) -> None:
    if count > MAX_DERIVATIVES:
        raise ExpressionError(
            f"the {kind} has {count:,} numbers, more than the {MAX_DERIVATIVES:,} that are shown; choose variables "
            f"with --wrt, as in --wrt {names[0]}, or use `Expression.{kind}` from Python"
        )


def select_outputs(expression: Formula, names: Iterable[str] | None, sizes: Mapping[str, Shape]) -> dict[str, Formula]:
    """Return the outputs of a Jacobian as formulas of all variables: named statements, or elements of the output.

    An element has the name that the text gives it, as `a` in `a = x*y; [a, x + y]`, else its position. The elements of
    a matrix are its rows; a number is its only element.

    Args:
        expression: the formula.
        names: the names of statements; None for the elements of the output.
        sizes: the shapes of the variables that are arrays.

    Raises:
        UnknownNameError: for a name that no statement binds.
        ExpressionError: for incompatible shapes.
    """
    if names is not None:
        for name in names:
            check_known(name, expression.bound, "no statement of the expression defines")
        return {name: expression.with_output(expression.bound[name]) for name in names}
    elements = _elements(expression, sizes)
    names_of = {node: name for name, node in expression.bound.items()}
    labels = [names_of.get(node, str(k)) for k, node in enumerate(elements)]
    if len(set(labels)) < len(labels):
        labels = [str(k) for k in range(len(elements))]
    return {label: expression.with_output(node) for label, node in zip(labels, elements, strict=True)}


def _elements(expression: Formula, sizes: Mapping[str, Shape]) -> Sequence[Node]:
    output, shape = expression.output, expression.output_shape(sizes)
    if output.op is stack:
        return output.inputs
    return [index(output, constant(str(k))) for k in range(shape[0])] if shape else [output]


def jacobian_by_name(chosen: Mapping[str, Formula], point: Mapping[str, Any], wrt: Iterable[str]) -> DerivativeMatrix:
    """Return the derivatives of each output with respect to each variable at a point.

    Args:
        chosen: the outputs by name, from `select_outputs`.
        point: the values of the variables, by name.
        wrt: the names of the variables.

    Raises:
        ExpressionError: for more than `MAX_DERIVATIVES` numbers, and as `Formula.jacobian` does.
    """
    names = tuple(wrt)
    count = 0
    for output in chosen.values():
        shape, shapes = _output_shape_at(output, point), _shapes_of(output, point, names)
        count += math.prod(shape) * sum(map(math.prod, shapes.values()))
        _check_count(count, "jacobian", names)
    matrix = {}
    for label, output in chosen.items():
        slopes = output.jacobian(point) if _output_shape_at(output, point) else output.grad(point)
        matrix[label] = {name: slopes[name] for name in names}
    return matrix


def _output_shape_at(output: Formula, point: Mapping[str, Any]) -> Shape:
    return output.output_shape(output.value_shapes(output.at(point)))


def second_derivatives(derivatives: Mapping[str, Formula]) -> DerivativeMatrix:
    """Return the second derivatives as expressions, given the first derivatives by variable."""
    matrix: DerivativeMatrix = {a: {} for a in derivatives}
    for a in derivatives:
        for b in derivatives:
            matrix[a][b] = matrix[b][a] if a in matrix[b] else derivatives[a].derivative(b)
    return matrix


# --- Formulas with their arrays unrolled


class GradientElement(NamedTuple):
    """One number of a gradient.

    Attributes:
        leaf: the leaf of the variable or of an element of an array, named as in the language: `x`, `W[0, 1]`.
        derivative: the derivative, as a graph.
        value: the derivative in floating point.
    """

    leaf: Node
    derivative: Node
    value: float


@dataclass(frozen=True)
class UnrolledFunction:
    """A formula at a point, as a function of numbers: each element of an array is a leaf.

    Attributes:
        output: the output of the formula.
        values: the value of each leaf, as a graph without variables.
        gradient: the numbers of the gradient.
    """

    output: Node
    values: Mapping[Node, Node]
    gradient: Sequence[GradientElement]


def has_arrays(expression: Formula, values: Mapping[str, Node]) -> bool:
    """Whether there are arrays in a formula, or in the graphs that are the values of its variables."""
    return not all(formula.is_scalar for formula in (expression, *(Formula(node, {}) for node in values.values())))


def unroll_function(
    expression: Formula, point: Mapping[str, Node], gradient: Mapping[str, Any], max_operations: int | None = None
) -> UnrolledFunction:
    """Return a formula as a function of numbers, with one leaf for each element of an array.

    Args:
        expression: the formula.
        point: the value of each variable, as a graph without variables.
        gradient: the derivatives in floating point, by the variables that are requested.
        max_operations: the limit of operations on numbers in the gradient; by default the limit of `unroll`.

    Raises:
        ExpressionError: if the gradient has more operations.
    """
    leaves = {name: expression.leaves[name] for name in point}
    is_scalar = not has_arrays(expression, point)  # without NumPy, numbers are checked too
    sizes = expression.value_shapes({name: Formula(node, {}).value() for name, node in point.items()})
    slopes = gradient_nodes(expression.output, [leaves[name] for name in gradient], sizes)
    if is_scalar:
        parts = [*map(GradientElement, (leaves[name] for name in gradient), slopes, gradient.values())]
        return UnrolledFunction(expression.output, {leaves[name]: node for name, node in point.items()}, parts)
    from autodiff_cli.autodiff.unrolling import TooManyOperationsError, element_leaves, unroll

    try:
        values = dict(zip(point, unroll([*point.values()], {}, max_operations), strict=True))
        numbers = {name: element_leaves(name, array.shape) for name, array in values.items()}
        element_arrays = {leaves[name]: array for name, array in numbers.items()}
        output, *slope_arrays = unroll([expression.output, *slopes], element_arrays, max_operations)
    except TooManyOperationsError as error:
        function = "autodiff_cli.explain.gradient_check.check_gradient"
        raise ExpressionError(f"{error}; from Python, `{function}` takes more with `max_operations=`") from error
    parts = [
        GradientElement(leaf, slope, float(value))
        for name, array in zip(gradient, slope_arrays, strict=True)
        for leaf, slope, value in zip(_flat(numbers[name]), _flat(array), _flat(gradient[name]), strict=True)
    ]
    leaf_values = {
        leaf: value for name in point for leaf, value in zip(_flat(numbers[name]), _flat(values[name]), strict=True)
    }
    return UnrolledFunction(output.item(), leaf_values, parts)


def _flat(array: Any) -> list[Any]:
    """Return the elements of an array in row-major order; a number is its only element."""
    return [array] if isinstance(array, float) else array.reshape(-1).tolist()

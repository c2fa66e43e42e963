"""Derivatives beyond the gradient, by the names of what they are towards.

Towards an array there is one derivative per element, so they are an array too: the second derivatives towards `v` and
`x`, with `v` of shape s and `x` a number, have the shape s.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.node import Node, constant
from autodiff_cli.graph.op import Shape
from autodiff_cli.graph.shapes import shapes
from autodiff_cli.language.errors import ExpressionError, UnknownNameError, suggest
from autodiff_cli.ops.structural import index, stack

MOST_DERIVATIVES = 1_000_000  # of a Hessian or a Jacobian, which has a name for each of its numbers

Matrix: TypeAlias = dict[str, dict[str, Any]]  # by row and column: numbers, arrays or expressions


@dataclass(frozen=True)
class Further:
    """Derivatives beyond the gradient, as numbers at a point or as expressions; None for what was not asked for.

    Attributes:
        formulas: the derivative towards each variable, as an expression.
        tangents: forward mode: for each variable, the derivative of every node towards it.
        hessian: second derivatives, by both variables.
        directional: the derivative along `direction`, which is how fast each variable moves.
        derivative: the derivative of order `order` towards one variable, `variable`.
        jacobian: the derivatives of several outputs, by output and variable.
        outputs: the values of these outputs.
    """

    formulas: Mapping[str, Formula] | None = None
    tangents: Mapping[str, list[float]] | None = None
    hessian: Matrix | None = None
    directional: Any = None
    direction: Mapping[str, Any] | None = None
    derivative: Any = None
    order: int = 0
    variable: str = ""
    jacobian: Matrix | None = None
    outputs: Mapping[str, Any] | None = None


def hessian(expression: Formula, point: Mapping[str, Any], wrt: Iterable[str]) -> Matrix:
    """The second derivatives at a point, by both variables. Raises ExpressionError for more than `MOST_DERIVATIVES`."""
    from autodiff_cli.formula.directions import hessian

    names = tuple(wrt)
    own = _shapes_of(expression, point, names)
    counts = [math.prod(shape) for shape in own.values()]
    _check_count(sum(counts) ** 2, "hessian", names)
    matrix = hessian(expression, expression.at(point), names)
    ends = itertools.accumulate(counts)
    parts = {name: slice(end - count, end) for name, count, end in zip(own, counts, ends, strict=True)}
    return {a: {b: matrix[parts[a], parts[b]].reshape(own[a] + own[b]) for b in names} for a in names}


def _shapes_of(expression: Formula, point: Mapping[str, Any], names: Iterable[str]) -> dict[str, Shape]:
    sizes = {} if expression.is_scalar else expression.sizes(expression.at(point))
    return {name: sizes.get(name, ()) for name in names}


def _check_count(count: int, what: str, names: Sequence[str]) -> None:
    if count > MOST_DERIVATIVES:
        raise ExpressionError(
            f"the {what} has {count:,} numbers, and {MOST_DERIVATIVES:,} is the most that is shown; choose variables "
            f"with --wrt, as --wrt {names[0]}, or use `Expression.{what}` from Python"
        )


def outputs(expression: Formula, names: Iterable[str] | None, sizes: Mapping[str, Shape]) -> dict[str, Formula]:
    """The statements of these names, as expressions of the same variables; for None, the elements of the output.

    An element is called by its name if it has one, as `a` in `a = x*y; [a, x + y]`, else by its position. A number is
    its only element; those of a matrix are its rows.

    Args:
        sizes: the shapes of the variables that are arrays.

    Raises:
        UnknownNameError: for a name that no statement has.
        ExpressionError: where shapes do not fit together.
    """
    if names is not None:
        for name in names:
            if name not in expression.bound:
                raise UnknownNameError(
                    f"the expression has no statement `{name} = …`", suggestion=suggest(name, expression.bound)
                )
        return {name: expression.with_output(expression.bound[name]) for name in names}
    elements = _elements(expression, sizes)
    called = {node: name for name, node in expression.bound.items()}
    labels = [called.get(node, str(k)) for k, node in enumerate(elements)]
    if len(set(labels)) < len(labels):
        labels = [str(k) for k in range(len(elements))]
    return {label: expression.with_output(node) for label, node in zip(labels, elements, strict=True)}


def output_shape(expression: Formula, sizes: Mapping[str, Shape]) -> Shape:
    """The shape of the output, given those of the variables that are arrays. Raises ExpressionError."""
    if expression.is_scalar and not sizes:
        return ()
    with expression.placed():
        return shapes(expression.tape, sizes)[-1]


def _elements(expression: Formula, sizes: Mapping[str, Shape]) -> Sequence[Node]:
    output, shape = expression.output, output_shape(expression, sizes)
    if output.op is stack:
        return output.inputs
    return [index(output, constant(str(k))) for k in range(shape[0])] if shape else [output]


def jacobian(chosen: Mapping[str, Formula], point: Mapping[str, Any], wrt: Iterable[str]) -> Matrix:
    """The derivatives of each output towards each variable, at a point. Raises ExpressionError for more than
    `MOST_DERIVATIVES`."""
    names = tuple(wrt)
    count = 0
    for output in chosen.values():
        shape, own = _output_shape_at(output, point), _shapes_of(output, point, names)
        count += math.prod(shape) * sum(map(math.prod, own.values()))
        _check_count(count, "jacobian", names)
    found = {}
    for label, output in chosen.items():
        slopes = output.jacobian(point) if _output_shape_at(output, point) else output.grad(point)
        found[label] = {name: slopes[name] for name in names}
    return found


def _output_shape_at(output: Formula, point: Mapping[str, Any]) -> Shape:
    return () if output.is_scalar else output_shape(output, output.sizes(output.at(point)))


def second_derivatives(derivatives: Mapping[str, Formula]) -> Matrix:
    """The second derivatives as expressions, from the first."""
    found: Matrix = {a: {} for a in derivatives}
    for a in derivatives:
        for b in derivatives:
            found[a][b] = found[b][a] if a in found[b] else derivatives[a].derivative(b)
    return found


def repeated(expression: Formula, name: str, order: int) -> Formula:
    """The derivative of an order towards one variable, as an expression."""
    for _ in range(order):
        expression = expression.derivative(name)
    return expression

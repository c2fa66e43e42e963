"""A function and its gradient as functions of numbers: arrays element by element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node
from autodiff_cli.language.errors import ExpressionError


class Element(NamedTuple):
    """One number of the gradient.

    Attributes:
        leaf: the number towards which it is the derivative, called as the language writes it: `x`, `W[0, 1]`.
        slope: the derivative, as a graph.
        found: the derivative as floats give it.
    """

    leaf: Node
    slope: Node
    found: float


@dataclass(frozen=True)
class WrittenOut:
    """A function of numbers, at a point.

    Attributes:
        place: the value of every leaf, as a graph without variables.
        parts: of the gradient.
    """

    output: Node
    place: Mapping[Node, Node]
    parts: Sequence[Element]


def has_arrays(expression: Formula, given: Mapping[str, Node]) -> bool:
    """Whether there are arrays in the formula, or in the graphs that are the values of its variables."""
    return not all(formula.is_scalar for formula in (expression, *(Formula(node, {}) for node in given.values())))


def written_out(
    expression: Formula, given: Mapping[str, Node], gradient: Mapping[str, Any], most: int | None = None
) -> WrittenOut:
    """A formula as a function of numbers.

    Args:
        given: the value of every variable, as a graph without variables.
        gradient: as floats give it, towards the variables that are asked for.
        most: how many operations on numbers the gradient may have; as `unroll` has it by default.

    Raises:
        ExpressionError: for more of them.
    """
    leaves = {name: expression.leaves[name] for name in given}
    is_scalar = not has_arrays(expression, given)
    sizes = {} if is_scalar else expression.sizes({name: Formula(node, {}).value() for name, node in given.items()})
    slopes = gradient_nodes(expression.output, [leaves[name] for name in gradient], sizes)
    if is_scalar:
        found = (gradient[name] for name in gradient)
        parts = [*map(Element, (leaves[name] for name in gradient), slopes, found)]
        return WrittenOut(expression.output, {leaves[name]: node for name, node in given.items()}, parts)
    from autodiff_cli.autodiff.unroll import TooManyOperationsError, elements, unroll

    limit = () if most is None else (most,)
    try:
        values = dict(zip(given, unroll([*given.values()], {}, *limit), strict=True))
        numbers = {name: elements(name, array.shape) for name, array in values.items()}
        places = {leaves[name]: array for name, array in numbers.items()}
        output, *written = unroll([expression.output, *slopes], places, *limit)
    except TooManyOperationsError as error:
        words = f"{error}; from Python, `autodiff_cli.explain.digits.check.check` takes more with `most=`"
        raise ExpressionError(words) from error
    parts = [
        Element(leaf, slope, float(found))
        for name, array in zip(gradient, written, strict=True)
        for leaf, slope, found in zip(_flat(numbers[name]), _flat(array), _flat(gradient[name]), strict=True)
    ]
    place = {
        leaf: value for name in given for leaf, value in zip(_flat(numbers[name]), _flat(values[name]), strict=True)
    }
    return WrittenOut(output.item(), place, parts)


def _flat(array: Any) -> list[Any]:
    """The elements in the order of the rows; a number is its only one."""
    return [array] if isinstance(array, float) else array.reshape(-1).tolist()

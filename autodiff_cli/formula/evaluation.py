"""A graph with named leaves and what is known of their shapes: how it is evaluated at points of numbers and arrays.

Outside a function's domain the result is nan, as in NumPy; nothing is raised.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Shape
from autodiff_cli.graph.shapes import ShapeError, in_words, shapes
from autodiff_cli.graph.tape import Tape
from autodiff_cli.language.errors import (
    ExpressionError,
    MissingValueError,
    UnknownNameError,
    in_brief,
    is_quotable,
    shape_error,
    suggest,
)
from autodiff_cli.language.lexer import canonical, written_name

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from autodiff_cli.language.source import Source

    Point: TypeAlias = Mapping[str, ArrayLike]


class Evaluation:
    """A graph, its variables, and the shapes of those.

    Attributes:
        output: the graph.
        leaves: the input leaf of every variable.
        source: where each node stands in the text; None if there is none.
        shapes: the shapes of variables that are declared.
        arrays: the other variables that stand where an array is required; their shape is that of their value.
    """

    def __init__(
        self,
        output: Node,
        leaves: Mapping[str, Node],
        source: Source | None,
        shapes: Mapping[str, Shape],
        arrays: Iterable[str],
    ) -> None:
        self.output = output
        self.leaves = dict(leaves)
        self.source = source
        self.shapes = dict(shapes)
        self.arrays = frozenset(arrays)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables, in order of first appearance."""
        return tuple(self.leaves)

    @cached_property
    def tape(self) -> Tape:
        """The graph's nodes in topological order."""
        return Tape((self.output,))

    @cached_property
    def is_scalar(self) -> bool:
        """Whether every node is a number as long as the variables are."""
        return not self.shapes and not any(node.op is not None and node.op.structural for node in self.tape.nodes)

    def at(self, point: Point | None = None, /, **values: ArrayLike) -> dict[str, Any]:
        """The values of a point, as floats and arrays of floats, one for every variable.

        Raises:
            UnknownNameError: for a name that is no variable.
            MissingValueError: for a variable without a value.
            TypeError, ValueError: for a value that is no real number and no array of these.
        """
        given = {canonical(name): value for name, value in {**by_name(point), **values}.items()}
        self.check_names(given)
        missing = [name for name in self.leaves if name not in given]
        if missing:
            raise MissingValueError(f"no value for {in_brief(missing, '`')}")
        return {name: _value(name, value) for name, value in given.items()}

    def check_names(self, names: Iterable[str]) -> None:
        """Raise UnknownNameError for a name that is no variable."""
        for name in names:
            if name not in self.leaves:
                raise UnknownNameError(
                    f"the expression has no variable `{name}`", suggestion=suggest(name, self.leaves)
                )

    def is_one_point_of_scalars(self, place: Mapping[str, Any]) -> bool:
        """Whether floats are all there is to compute with."""
        return self.is_scalar and all(isinstance(value, float) for value in place.values())

    def sizes(self, place: Mapping[str, Any]) -> dict[str, Shape]:
        """The shapes of the variables that are no scalars: as declared, else those of their values.

        An array for a name that an elementwise operation combines with an array (`b` in `W @ x + b`) is one point if it
        fits as one, else a batch.

        Raises:
            ExpressionError: for a value that has not the shape that is declared.
        """
        if self.is_scalar:
            return {}
        given = {name: array.shape for name, array in place.items() if not isinstance(array, float)}
        for name in self.arrays & given.keys():
            if 0 in given[name]:
                raise ExpressionError(f"`{name}` is empty: an array has no dimension of length 0")
        for name, shape in self.shapes.items():
            found = given.get(name, ())
            if found[-len(shape) :] != shape:
                words = f"`{name}` is declared with the shape {in_words(shape)}; its value has {in_words(found)}"
                raise ExpressionError(words)
        certain = {**{name: given[name] for name in self.arrays & given.keys()}, **self.shapes}
        wider = {**{name: given[name] for name in self._possible_arrays & given.keys()}, **certain}
        if len(wider) > len(certain):
            with contextlib.suppress(ShapeError):
                shapes(self.tape, wider)
                return wider
        return certain

    @cached_property
    def _possible_arrays(self) -> frozenset[str]:
        from autodiff_cli.language.arrays import possible_array_names

        return possible_array_names((self.output,), self.shapes)

    @cached_property
    def example_shapes(self) -> dict[str, Shape]:
        """The shapes of the variables that are arrays; small ones that fit where none is declared.

        >>> from autodiff_cli import parse
        >>> parse("W: 2x4; norm(W @ v) + k").example_shapes
        {'W': (2, 4), 'v': (4,)}
        """
        return self.example_shapes_beside({})

    def example_shapes_beside(self, known: Mapping[str, Shape]) -> dict[str, Shape]:
        """The same where the shapes of some variables are known."""
        if not self.arrays:
            return self.shapes
        from autodiff_cli.language.arrays import example_shapes

        names = [name for name in self.variables if name in self.arrays and name not in known]
        declared = {**self.shapes, **known}
        return {**declared, **example_shapes(self.output, declared, names)}

    def sizes_of_scalar_output(self, place: Mapping[str, Any]) -> dict[str, Shape]:
        """The same as `sizes`. Raises ExpressionError if under them the output is an array, which has no gradient."""
        sizes = self.sizes(place)
        self.check_output(sizes)
        return sizes

    def check_numbers(self, given: Mapping[str, Shape]) -> None:
        """Raise ExpressionError for an array, of such a shape, that is given for a name that can only be a number."""
        for name, shape in given.items():
            if shape and name not in self.arrays | self.shapes.keys() | self._possible_arrays:
                raise self.no_array(name, shape)

    def no_array(self, name: str, shape: Shape) -> ExpressionError:
        """The error for an array that is given for a number."""
        declared = f"{written_name(name)}: {in_words(shape)}"
        whole = declared if self.source is None else f"{declared}; {self.source.text.strip()}"
        return ExpressionError(
            f"`{name}` is a number here, not an array; declare it to make it one",
            suggestion=whole if is_quotable(whole) else declared,
        )

    def check_output(self, sizes: Mapping[str, Shape]) -> None:
        """Raise ExpressionError if under these shapes the output is an array."""
        if self.is_scalar and not sizes:
            return
        with self.placed():
            shape = shapes(self.tape, sizes)[-1]
        if shape:
            found = f"the output is an array of shape {in_words(shape)}"
            raise ExpressionError(
                f"{found}; only a number has a gradient, as the `sum(…)` of an array, or one of its elements; an array "
                "has a jacobian (`grad --jacobian`)"
            )

    def evaluate(
        self, outputs: Sequence[Node], place: Mapping[str, Any], sizes: Mapping[str, Shape] | None = None
    ) -> list[Any]:
        """The values of graphs over the leaves, at a point with arrays: floats where a value is one number."""
        from autodiff_cli.backends.evaluate import evaluate

        with self.placed():
            found = evaluate(outputs, place, self.sizes(place) if sizes is None else sizes)
        return [array if array.ndim else float(array) for array in found]

    @contextlib.contextmanager
    def placed(self) -> Iterator[None]:
        """Inside, shapes that do not fit raise an ExpressionError that shows the place in the text."""
        try:
            yield
        except ShapeError as error:
            raise shape_error(error, self.source) from None


def by_name(given: Any) -> Any:
    """A mapping, or what can be taken for one; nothing for None."""
    if given is not None and not hasattr(given, "keys"):
        raise TypeError(f"a point, or a direction, is a mapping of names to numbers, not {type(given).__name__}")
    return {} if given is None else given


def _value(name: str, value: Any) -> Any:
    try:
        return number(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"the value of `{name}`: {error}") from None


def number(value: Any) -> Any:
    """A float, or an array of floats if an array or a sequence was given. Raises as `given_floats` does."""
    if not hasattr(value, "dtype") or isinstance(value, float):
        if not hasattr(value, "__len__") or isinstance(value, str):
            try:
                return float(value)
            except OverflowError:  # of an integer beyond all floats
                return math.inf if value > 0 else -math.inf
    elif getattr(value.dtype, "kind", None) is None and not getattr(value, "ndim", 1):  # a framework's own number
        return float(value)
    from autodiff_cli.numbers.given import given_floats

    array = given_floats(value)
    return array if array.ndim else float(array)

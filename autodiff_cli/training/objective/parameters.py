"""The free parameters of a model as one vector of numbers, `theta`.

Each array lies in it row by row, one parameter after the other, in the order in which they stand in the text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.backends.descent import views
from autodiff_cli.graph.op import Shape
from autodiff_cli.language.lexer import canonical
from autodiff_cli.numbers.given import given_floats
from autodiff_cli.training.errors import OptionError

Array = NDArray[np.float64]


class ParameterLayout:
    """Where each parameter lies in `theta`.

    Args:
        names: of the free parameters.
        shapes: those of arrays, by name; all others are numbers.

    Attributes:
        size: how many numbers there are: P.
    """

    def __init__(self, names: Sequence[str], shapes: Mapping[str, Shape]) -> None:
        self.names = tuple(names)
        self.shapes = {name: shapes.get(name, ()) for name in names}
        self._has_arrays = any(self.shapes.values())
        ends = [0, *accumulate(math.prod(shape) for shape in self.shapes.values())]
        self.places = {name: slice(a, b) for name, a, b in zip(names, ends, ends[1:], strict=False)}
        self.size = ends[-1]

    @property
    def numbers(self) -> tuple[str, ...]:
        """The name of every number: `a`, `W[0, 1]`."""
        return tuple(text for name, shape in self.shapes.items() for text in _elements(name, shape))

    def views(self, theta: Array) -> dict[str, Any]:
        """The parameters by name: numbers, and arrays in the memory of `theta`. Raises OptionError if it has too few
        values or too many."""
        if theta.shape != (self.size,):
            raise OptionError(f"theta has the shape {theta.shape}; that of the free parameters is {(self.size,)}")
        if self._has_arrays:
            return views(theta, self.shapes)
        return dict(zip(self.names, theta.tolist()))  # noqa: B905 - `strict` takes longer than the rest, at every call

    def values(self, theta: Array) -> dict[str, Any]:
        """The parameters by name: floats, and arrays of their own."""
        return {name: value.copy() if np.ndim(value) else float(value) for name, value in self.views(theta).items()}

    def gather(self, values: Sequence[Any], start: int = 0) -> Array:
        """A vector from values, one per parameter, each of the parameter's shape or a number for all of it.

        Args:
            start: how many places to leave free in front.
        """
        flat = np.empty(start + self.size)
        vector = flat[start:]
        for place, value in zip(self.places.values(), values, strict=True):
            vector[place] = np.ravel(value)
        return flat

    def mask(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """For every number, whether it belongs to one of the parameters named."""
        chosen = np.zeros(self.size, dtype=np.bool_)
        for name in names:
            chosen[self.places[name]] = True
        return chosen


def _elements(name: str, shape: Shape) -> Iterator[str]:
    if not shape:
        yield name
        return
    for position in product(*map(range, shape)):
        yield f"{name}[{', '.join(map(str, position))}]"


def checked(name: str, value: ArrayLike) -> Any:
    """A value of a parameter as a float or an array. Raises OptionError if it is neither, or not finite."""
    try:
        array = np.array(given_floats(value))
    except (TypeError, ValueError):
        raise OptionError(f"the value of `{name}` is not a number, nor an array of them") from None
    if not np.isfinite(array).all():
        wrong = float(array[~np.isfinite(array)][0])
        raise OptionError(f"the value of `{name}` is {wrong}; a parameter is a finite number")
    return array if array.ndim else float(array)


def by_canonical_name(values: Mapping[str, Any] | None) -> dict[str, Any]:
    """Values by the names of parameters in the form in which the language compares names. Raises OptionError for what
    has no names."""
    if values is not None and not hasattr(values, "items"):
        raise OptionError(f"values of parameters are a mapping by their names, not {type(values).__name__}")
    return {} if values is None else {canonical(name): value for name, value in values.items()}

"""Bounds of parameters: as they are written, and as the methods see them, a box in the space of `theta`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.evaluate import evaluate
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import topological
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.language.lexer import canonical, is_name, is_name_of_level
from autodiff_cli.language.lowering import read
from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.options import Limits

Array = NDArray[np.float64]

_LEVEL = re.compile(r"(?<![\w`])[^\W\d]\w*\[[^\]`]+\]")  # a[north]: no bound is an array
_FORMS = "bounds are written NAME=LOW:HIGH, as a=0:1 or a=0:, or as a condition, 0 < a < 1"
_BELOW, _ABOVE = ("lt", "le"), ("gt", "ge")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the greatest value of each number, infinite where there is none.

    Attributes:
        low, high: of shape (P,).

    >>> box = Bounds(np.array([0.0, -np.inf]), np.array([1.0, np.inf]))
    >>> box.clipped(np.array([2.0, 5.0]))
    array([1., 5.])
    """

    low: Array
    high: Array

    @classmethod
    def none(cls, count: int) -> Bounds:
        """No bounds.

        >>> Bounds.none(2).contain(np.array([1e300, -1e300])), Bounds.none(2).are_there
        (True, False)
        """
        return cls(np.full(count, -np.inf), np.full(count, np.inf))

    @property
    def are_there(self) -> bool:
        """Whether any number has a bound."""
        return bool(np.isfinite(self.low).any() or np.isfinite(self.high).any())

    def clipped(self, theta: Array) -> Array:
        """The nearest point between the bounds."""
        return np.clip(theta, self.low, self.high)

    def inside(self, theta: Array) -> Array:
        """The point, with numbers that do not lie between their bounds in the middle of them, or a little off the only
        one.

        >>> Bounds(np.array([0.0, 2.0, 5.0]), np.array([3.0, 4.0, np.inf])).inside(np.ones(3))
        array([ 1.,  3., 10.])
        """
        low, high = self.low, self.high
        with np.errstate(invalid="ignore"):
            off = np.where(np.isfinite(low), low + np.maximum(1, np.abs(low)), high - np.maximum(1, np.abs(high)))
            middle = np.where(np.isfinite(low) & np.isfinite(high), low / 2 + high / 2, off)
        return np.where((low < theta) & (theta < high), theta, middle)

    def contain(self, theta: Array) -> bool:
        """Whether a point lies between the bounds."""
        return bool((theta >= self.low).all() and (theta <= self.high).all())

    def touched(self, theta: Array) -> NDArray[np.bool_]:
        """Which numbers stand at a bound."""
        found: NDArray[np.bool_] = ((theta <= self.low) | (theta >= self.high)) & np.isfinite(theta)
        return found

    def around(self, theta: Array) -> Bounds:
        """The bounds of steps from a point."""
        return Bounds(self.low - theta, self.high - theta)

    def free(self, theta: Array, slopes: Array) -> NDArray[np.bool_]:
        """Which numbers may move down the slope: not those at a bound beyond which the loss falls.

        Args:
            slopes: the derivatives of the loss.
        """
        held: NDArray[np.bool_] = ((theta <= self.low) & (slopes > 0)) | ((theta >= self.high) & (slopes < 0))
        return ~held

    def pinned(self, place: int, value: float) -> Bounds:
        """The same with one number kept at a value.

        >>> Bounds.none(2).pinned(1, 3.0).clipped(np.zeros(2))
        array([0., 3.])
        """
        low, high = self.low.copy(), self.high.copy()
        low[place] = high[place] = value
        return Bounds(low, high)


def limits(texts: Iterable[str]) -> dict[str, Limits]:
    """Bounds as they are written: `NAME=LOW:HIGH`, where one side may be missing, or conditions such as `0 < a < 1`.

    Every condition allows the bound itself.

    Raises:
        OptionError: for another text, or a second one on the same side of the same name.

    >>> limits(["a=0:pi/2", "b=:5", "0 < c < 1 and d >= -2"])
    {'a': (0.0, 1.5707963267948966), 'b': (-inf, 5.0), 'c': (0.0, 1.0), 'd': (-2.0, inf)}
    """
    found: dict[str, Limits] = {}
    for text in texts:
        here: dict[str, Limits] = {}
        for name, low, high in _written(text):
            before = here.get(name, (-math.inf, math.inf))
            if name in found or (low > -math.inf < before[0]) or (high < math.inf > before[1]):
                raise OptionError(f"the bounds of `{name}` are given twice")
            here[name] = max(low, before[0]), min(high, before[1])
        found |= here
    return found


def _written(text: str) -> Iterator[tuple[str, float, float]]:
    name, equals, ends = text.partition("=")
    if equals and (is_name(name.strip()) or is_name_of_level(name.strip())) and ":" in ends:
        low, _, high = (end.strip() for end in ends.partition(":"))
        if low or high:
            yield canonical(name.strip()), _number(low, text, -math.inf), _number(high, text, math.inf)
            return
    try:
        output = read(_LEVEL.sub(r"`\g<0>`", text)).output
    except ExpressionError:
        raise OptionError(f"{_FORMS}; not `{text}`") from None
    yield from _conditions(output, text)


def _number(end: str, text: str, otherwise: float) -> float:
    if not end:
        return otherwise
    try:
        return _constant(read(end).output, text)
    except ExpressionError as error:
        raise OptionError(f"bounds `{text}`: {error}") from None


def _conditions(node: Node, text: str) -> Iterator[tuple[str, float, float]]:
    if node.op is not None and node.op.name == "and":
        for part in node.inputs:
            yield from _conditions(part, text)
        return
    name = "" if node.op is None else node.op.name
    if name not in (*_BELOW, *_ABOVE):
        raise OptionError(f"{_FORMS}; not `{text}`")
    less, more = node.inputs if name in _BELOW else node.inputs[::-1]
    if less.is_input:
        yield less.text, -math.inf, _constant(more, text)
    elif more.is_input:
        yield more.text, _constant(less, text), math.inf
    else:
        raise OptionError(f"{_FORMS}; not `{text}`")


def _constant(node: Node, text: str) -> float:
    if any(below.is_input for below in topological([node])):
        raise OptionError(f"bounds `{text}`: a bound is a number; what depends on other parameters stands in the model")
    value = evaluate([node], {}, {})[0]
    if np.ndim(value):
        raise OptionError(f"bounds `{text}`: a bound is a number, not an array")
    return float(value)


def of_parameters(places: Mapping[str, slice], size: int, given: Mapping[str, Limits]) -> Bounds:
    """The box for parameters that lie in a vector of so many numbers: an array has the bounds of its name in every
    element."""
    box = Bounds.none(size)
    for name, (low, high) in given.items():
        box.low[places[name]], box.high[places[name]] = low, high
    return box

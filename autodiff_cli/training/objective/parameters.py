"""The free parameters of a fit as one vector of numbers, `theta`: its layout, its initial values and its bounds.

`ParameterLayout` places the parameters in the vector, arrays row by row, in the order of the text. `initial_arrays`
draws initial values of arrays. `Bounds` is a box in the space of `theta`; `parse_bounds` reads bounds from text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.array_types import Array
from autodiff_cli.backends.evaluation import evaluate
from autodiff_cli.backends.gradient_descent import parameter_views
from autodiff_cli.graph.node import Node, get_op
from autodiff_cli.graph.op import Shape
from autodiff_cli.graph.tape import topological_order
from autodiff_cli.language.arrays import LayerParameter
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.language.lexer import canonical_name, is_level_name, is_name
from autodiff_cli.language.names import NO_COLUMNS, ColumnNames
from autodiff_cli.language.program import Program, read
from autodiff_cli.numbers.conversion import as_float_array
from autodiff_cli.options import OptionError
from autodiff_cli.training.options import BoundPair


class ParameterLayout:
    """The position of each free parameter in `theta`.

    Args:
        names: the names of the free parameters.
        shapes: the shapes of arrays, by name; all other parameters are numbers.

    Attributes:
        size: the number of values, P.
        slices: the slice of `theta` that holds each parameter.
    """

    def __init__(self, names: Sequence[str], shapes: Mapping[str, Shape]) -> None:
        self.names = tuple(names)
        self.shapes = {name: shapes.get(name, ()) for name in names}
        self._has_arrays = any(self.shapes.values())
        ends = [0, *accumulate(math.prod(shape) for shape in self.shapes.values())]
        self.slices = {name: slice(a, b) for name, a, b in zip(names, ends, ends[1:], strict=False)}
        self.size = ends[-1]

    @property
    def element_names(self) -> tuple[str, ...]:
        """The name of each number: `a`, `W[0, 1]`."""
        return tuple(text for name, shape in self.shapes.items() for text in _element_names(name, shape))

    def views(self, theta: Array) -> dict[str, Any]:
        """Return the parameters by name: numbers, and arrays that share the memory of `theta`.

        Raises OptionError if `theta` has the wrong size.
        """
        if theta.shape != (self.size,):
            raise OptionError(f"theta has the shape {theta.shape}; the free parameters need {(self.size,)}")
        if self._has_arrays:
            return parameter_views(theta, self.shapes)
        return dict(zip(self.names, theta.tolist()))  # noqa: B905 - `strict` takes longer than the rest, at every call

    def values(self, theta: Array) -> dict[str, Any]:
        """Return the parameters by name: floats, and copies of arrays."""
        return {name: value.copy() if np.ndim(value) else float(value) for name, value in self.views(theta).items()}

    def flatten(self, values: Sequence[Any], start: int = 0) -> Array:
        """Return a vector of values, one per parameter: each of the parameter's shape, or a number for all of its
        elements.

        Args:
            start: the number of places to leave free in front.
        """
        flat = np.empty(start + self.size)
        vector = flat[start:]
        for positions, value in zip(self.slices.values(), values, strict=True):
            vector[positions] = np.ravel(value)
        return flat

    def mask(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Return, for every number in `theta`, whether it belongs to one of the named parameters."""
        chosen = np.zeros(self.size, dtype=np.bool_)
        for name in names:
            chosen[self.slices[name]] = True
        return chosen


def _element_names(name: str, shape: Shape) -> Iterator[str]:
    if not shape:
        yield name
        return
    for position in product(*map(range, shape)):
        yield f"{name}[{', '.join(map(str, position))}]"


def check_value(name: str, value: ArrayLike) -> Any:
    """Return a value of a parameter as a float or an array. Raises OptionError if it is neither, or not finite."""
    try:
        array = np.array(as_float_array(value))
    except (TypeError, ValueError):
        raise OptionError(f"the value of `{name}` is neither a number nor an array of numbers") from None
    if not np.isfinite(array).all():
        wrong = float(array[~np.isfinite(array)][0])
        raise OptionError(f"the value of `{name}` is {wrong}; it must be finite")
    return array if array.ndim else float(array)


INITIAL_VALUE = 1.0
_PARAMETERS_LIKE_CONSTANTS = ("tau", "e")  # constants whose names are parameters in models; tau is often a decay time


def read_with_parameters(text: str, names: Iterable[str] = (), columns: ColumnNames = NO_COLUMNS) -> Program:
    """Parse text in which `tau` and `e` are parameters, as they are in models. The arguments are those of `read`."""
    return read(text, (*names, *_PARAMETERS_LIKE_CONSTANTS), columns=columns)


def initial_arrays(shapes: Mapping[str, Shape], layers: Mapping[str, LayerParameter], seed: int) -> dict[str, Array]:
    """Return initial values of the array parameters.

    An array starts at random, because hidden units with equal weights would stay equal. The biases of layers are 0. The
    weights of a layer before a rectifier are normal with variance 2/inputs, because a rectifier passes about half of a
    signal (He et al. 2015, arXiv 1502.01852); other weights are uniform with variance 2/(inputs + outputs) (Glorot &
    Bengio 2010). An array outside of layers is normal with that variance; a vector counts as a matrix with one row.

    Args:
        shapes: the shapes of the parameters, in the order in which they are drawn.
        layers: the kind of each parameter that belongs to a layer.
        seed: of the random number generator. All arrays are drawn even if not all are used, so fixing one does not
            change the others.
    """
    if not any(shapes.values()):
        return {}  # most fits draw nothing, so NumPy's generators need not be imported
    generator = np.random.default_rng(seed)
    return {name: _initial_array(generator, shape, layers.get(name)) for name, shape in shapes.items() if shape}


def _initial_array(generator: np.random.Generator, shape: Shape, layer: LayerParameter | None) -> Array:
    outputs, inputs = (1, *shape)[-2:]
    spread = math.sqrt(2 / (inputs + outputs))
    if layer is None:
        return generator.normal(0, spread, shape)
    if layer.kind == "bias":
        return np.zeros(shape)
    if layer.activation is not None and get_op(layer.activation).is_rectifier:
        return generator.normal(0, math.sqrt(2 / inputs), shape)
    limit = math.sqrt(3) * spread
    return generator.uniform(-limit, limit, shape)


_ZERO_RATIO = 1e-3  # a parameter below this share of its starting value counts as converging to 0
ZERO_LOSS_TOLERANCE = 1e-12  # relative increase of the loss that counts as none when parameters are set to 0

_LEVEL_NAME = re.compile(r"(?<![\w`])[^\W\d]\w*\[[^\]`]+\]")  # a[north]; bounds contain no arrays
_SYNTAX = "write bounds as NAME=LOW:HIGH, such as a=0:1 or a=0:, or as a condition, such as 0 < a < 1"
_LESS_OPS, _GREATER_OPS = ("lt", "le"), ("gt", "ge")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The lower and the upper bound of each number in `theta`, infinite where there is none.

    Attributes:
        low, high: the bounds, of shape (P,).

    >>> box = Bounds(np.array([0.0, -np.inf]), np.array([1.0, np.inf]))
    >>> box.clip(np.array([2.0, 5.0]))
    array([1., 5.])
    """

    low: Array
    high: Array

    @classmethod
    def unbounded(cls, count: int) -> Bounds:
        """Return bounds that are all infinite.

        >>> Bounds.unbounded(2).contains(np.array([1e300, -1e300])), Bounds.unbounded(2).has_bounds
        (True, False)
        """
        return cls(np.full(count, -np.inf), np.full(count, np.inf))

    @property
    def has_bounds(self) -> bool:
        """Whether any number is bounded."""
        return bool(np.isfinite(self.low).any() or np.isfinite(self.high).any())

    def clip(self, theta: Array) -> Array:
        """Return the nearest point within the bounds."""
        return np.clip(theta, self.low, self.high)

    def move_inside(self, theta: Array) -> Array:
        """Return the point with numbers outside of their bounds moved to the middle, or close to the only bound.

        >>> Bounds(np.array([0.0, 2.0, 5.0]), np.array([3.0, 4.0, np.inf])).move_inside(np.ones(3))
        array([ 1.,  3., 10.])
        """
        low, high = self.low, self.high
        with np.errstate(invalid="ignore"):
            off = np.where(np.isfinite(low), low + np.maximum(1, np.abs(low)), high - np.maximum(1, np.abs(high)))
            middle = np.where(np.isfinite(low) & np.isfinite(high), low / 2 + high / 2, off)
        return np.where((low < theta) & (theta < high), theta, middle)

    def contains(self, theta: Array) -> bool:
        """Whether a point is within the bounds."""
        return bool((theta >= self.low).all() and (theta <= self.high).all())

    def contains_each(self, theta: Array) -> NDArray[np.bool_]:
        """Whether each of several points is within the bounds."""
        return np.asarray(((theta >= self.low) & (theta <= self.high)).all(axis=-1))

    @classmethod
    def stack(cls, boxes: Sequence[Bounds]) -> Bounds:
        """Return the bounds of a batch of fits, of shape (fits, P), from those of each fit."""
        return cls(np.array([box.low for box in boxes]), np.array([box.high for box in boxes]))

    def select(self, fits: int | NDArray[np.intp]) -> Bounds:
        """Return the bounds of some fits of a batch; bounds of shape (P,) hold for all fits."""
        return self if self.low.ndim == 1 else Bounds(self.low[fits], self.high[fits])

    def active(self, theta: Array) -> NDArray[np.bool_]:
        """Return the mask of the numbers that are on a bound."""
        is_active: NDArray[np.bool_] = ((theta <= self.low) | (theta >= self.high)) & np.isfinite(theta)
        return is_active

    def step_bounds(self, theta: Array) -> Bounds:
        """Return the bounds of a step from a point."""
        return Bounds(self.low - theta, self.high - theta)

    def free_mask(self, theta: Array, slopes: Array) -> NDArray[np.bool_]:
        """Return the mask of the numbers that can move downhill: not those on a bound beyond which the loss decreases.

        Args:
            slopes: the derivatives of the loss.
        """
        is_blocked: NDArray[np.bool_] = ((theta <= self.low) & (slopes > 0)) | ((theta >= self.high) & (slopes < 0))
        return ~is_blocked

    def with_fixed(self, index: int, value: float) -> Bounds:
        """Return the bounds with one number fixed at a value.

        >>> Bounds.unbounded(2).with_fixed(1, 3.0).clip(np.zeros(2))
        array([0., 3.])
        """
        low, high = self.low.copy(), self.high.copy()
        low[index] = high[index] = value
        return Bounds(low, high)


def snap_to_zero(theta: Array, start: Array, bounds: Bounds) -> tuple[Array, NDArray[np.bool_]] | None:
    """Set parameters to 0 that have shrunk to a small share of their starting values, such as `a` in `a^2`.

    Returns:
        The point, and the mask of these parameters; None if there are none, or if 0 is out of bounds.
    """
    is_small = (theta != 0) & (np.abs(theta) < _ZERO_RATIO * np.abs(start))
    point = np.where(is_small, 0.0, theta)
    return (point, is_small) if is_small.any() and bounds.contains(point) else None


def parse_bounds(texts: Iterable[str]) -> dict[str, BoundPair]:
    """Parse bounds: `NAME=LOW:HIGH`, where one side may be missing, or conditions such as `0 < a < 1`.

    Strict inequalities count as non-strict.

    Raises:
        OptionError: for any other text, or for a second bound on the same side of a name.

    >>> parse_bounds(["a=0:pi/2", "b=:5", "0 < c < 1 and d >= -2"])
    {'a': (0.0, 1.5707963267948966), 'b': (-inf, 5.0), 'c': (0.0, 1.0), 'd': (-2.0, inf)}
    """
    bounds: dict[str, BoundPair] = {}
    for text in texts:
        bounds_in_text: dict[str, BoundPair] = {}
        for name, low, high in _parse_bounds_text(text):
            previous = bounds_in_text.get(name, (-math.inf, math.inf))
            if name in bounds or (low > -math.inf < previous[0]) or (high < math.inf > previous[1]):
                raise OptionError(f"the bounds of `{name}` are given twice")
            bounds_in_text[name] = max(low, previous[0]), min(high, previous[1])
        bounds |= bounds_in_text
    return bounds


def _parse_bounds_text(text: str) -> Iterator[tuple[str, float, float]]:
    name, equals, range_text = text.partition("=")
    if equals and (is_name(name.strip()) or is_level_name(name.strip())) and ":" in range_text:
        low, _, high = (end.strip() for end in range_text.partition(":"))
        if low or high:
            yield canonical_name(name.strip()), _parse_end(low, text, -math.inf), _parse_end(high, text, math.inf)
            return
    try:
        output = read_with_parameters(_LEVEL_NAME.sub(r"`\g<0>`", text)).output
    except ExpressionError:
        raise OptionError(f"{_SYNTAX}; not `{text}`") from None
    yield from _bounds_of_condition(output, text)


def _parse_end(end: str, text: str, otherwise: float) -> float:
    if not end:
        return otherwise
    try:
        return _constant_value(read(end).output, text)
    except ExpressionError as error:
        raise OptionError(f"bounds `{text}`: {error}") from None


def _bounds_of_condition(node: Node, text: str) -> Iterator[tuple[str, float, float]]:
    if node.op is not None and node.op.name == "and":
        for part in node.inputs:
            yield from _bounds_of_condition(part, text)
        return
    name = "" if node.op is None else node.op.name
    if name not in (*_LESS_OPS, *_GREATER_OPS):
        raise OptionError(f"{_SYNTAX}; not `{text}`")
    less, more = node.inputs if name in _LESS_OPS else node.inputs[::-1]
    if less.is_input:
        yield less.text, -math.inf, _constant_value(more, text)
    elif more.is_input:
        yield more.text, _constant_value(less, text), math.inf
    else:
        raise OptionError(f"{_SYNTAX}; not `{text}`")


def _constant_value(node: Node, text: str) -> float:
    if any(below.is_input for below in topological_order([node])):
        raise OptionError(
            f"bounds `{text}`: a bound must be a number; write what depends on other parameters into the model"
        )
    value = evaluate([node], {}, {})[0]
    if np.ndim(value):
        raise OptionError(f"bounds `{text}`: a bound must be a number, not an array")
    return float(value)


def bounds_box(slices: Mapping[str, slice], size: int, bounds_by_name: Mapping[str, BoundPair]) -> Bounds:
    """Return the bounds in the space of `theta`; the bounds of an array hold for each of its elements."""
    box = Bounds.unbounded(size)
    for name, (low, high) in bounds_by_name.items():
        box.low[slices[name]], box.high[slices[name]] = low, high
    return box

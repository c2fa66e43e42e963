"""The free parameters of a fit as one vector of numbers, `theta`: its layout, its initial values and its bounds.

`ParameterLayout` places the parameters in the vector, arrays row by row, in the order of the text. `initial_arrays`
draws initial values of arrays. `dimensional_scales` estimates the size of parameters from the sizes of the columns.
`Bounds` is a box in the space of `theta`; `parse_bounds` reads bounds from text, and `natural_bounds` infers the bounds
of a log-likelihood's parameters.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.array_types import Array, as_float_array
from autodiff_cli.autodiff.unrolling import element_names
from autodiff_cli.backends.gradient_descent import parameter_views
from autodiff_cli.backends.selection import evaluate
from autodiff_cli.graph.node import Gate, Node, Op, Shape, get_op, is_literal, is_representable, variable
from autodiff_cli.graph.tape import leaf_names, topological_order
from autodiff_cli.language.arrays import LayerParameter
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.language.lexer import canonical_name, is_level_name, is_name, quote_name, split_assignment
from autodiff_cli.language.names import NO_COLUMNS, ColumnNames
from autodiff_cli.language.printer import to_text
from autodiff_cli.language.program import Program, read, read_for_floats
from autodiff_cli.numbers.floats import FLOATS, parse_constant
from autodiff_cli.ops.arithmetic import add, div, mul, sub
from autodiff_cli.ops.functions import log
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

    @functools.cached_property
    def element_names(self) -> tuple[str, ...]:
        """The name of each number: `a`, `W[0, 1]`."""
        return tuple(text for name, shape in self.shapes.items() for text in element_names(name, shape))

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

    def flatten(self, values: Sequence[Any]) -> Array:
        """Return a vector of values, one per parameter: each of the parameter's shape, or a number for all of its
        elements.
        """
        vector = np.empty(self.size)
        for positions, value in zip(self.slices.values(), values, strict=True):
            vector[positions] = np.ravel(value)
        return vector

    def mask(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Return, for every number in `theta`, whether it belongs to one of the named parameters."""
        chosen = np.zeros(self.size, dtype=np.bool_)
        for name in names:
            chosen[self.slices[name]] = True
        return chosen


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


INITIAL_VALUE = 1.0  # default starting value of a number
_PARAMETERS_LIKE_CONSTANTS = ("tau", "e")  # constants whose names are parameters in models; tau is often a decay time


def with_columns_of_data(error: ExpressionError, text: str, names: Collection[str]) -> ExpressionError:
    """Return the error for a model, or a clearer one if the model writes columns in another way than the data.

    A column of several words is recognised by them: `Signal (mV)` and `signal_mv` stand for the column "Signal (mV)".
    """
    function = re.fullmatch(r"\s*(\w+)\s*\([^()=]*\)\s*=\s*(.*\S)\s*", text)
    if function and function[1] in names:
        message = f"`{function[1]}` is a column of the data; write its prediction after `~`"
        return ExpressionError(message, suggestion=f"{function[1]} ~ {function[2]}")
    corrected = text
    for name in sorted(names, key=len, reverse=True):
        words = re.findall(r"[^\W_]+", name)
        spelling = rf"(?<![\w.`])[^\W\d]\w*\.{re.escape(name)}(?![\w.(])"  # `df.y` of pandas
        if len(words) > 1:
            end = re.escape(name.rpartition(words[-1])[2])
            column = r"[\s._()\[\]{}°%/:-]+".join(words) + f"(?:{end})?"
            spelling = rf"""Q\(["']{column}["']\)|(?<![\w`])["']?{column}["']?(?![\w`])"""
        corrected = re.sub(spelling, quote_name(name).replace("\\", r"\\"), corrected, flags=re.IGNORECASE)
    if corrected == text:
        return error
    message = "columns are named as in the data; names that are not one word go in backticks"
    return ExpressionError(message, text, error.start, corrected)


def linear_model_hint(program: Program) -> str:
    """Return the linear model that `y ~ x + log(z)` means in R, as the end of a sentence; empty without a target.

    There `x*z` is `x + z` and their product, and `0 +` or `- 1` leaves the constant out.
    """
    if program.target is None:
        return ""
    terms: list[tuple[Node, ...]] = []
    constants = []
    queue = [program.output]
    while queue:
        node = queue.pop(0)
        name = "" if node.op is None else node.op.name
        if name in ("add", "sub"):
            queue[:0] = node.inputs
            constants += [f"-{node.inputs[1].text}"] * (name == "sub")
        elif name == "neg":
            queue[:0] = node.inputs
            constants.append(f"-{node.inputs[0].text}")
        elif name == "mul" and all(factor.is_input for factor in node.inputs):
            terms += [*((factor,) for factor in node.inputs), node.inputs]
        elif leaf_names([node]):
            terms.append((node,))
        else:
            constants.append(node.text)
    letters = (variable(letter) for letter in "abcdfghjkmnpqrstuvwxyz" if letter not in program.leaves)
    parts = [next(letters)] if not terms or {"0", "-1"}.isdisjoint(constants) else []
    parts += [functools.reduce(mul, term, letter) for term, letter in zip(terms, letters, strict=False)]
    linear = to_text(functools.reduce(add, parts))
    return f". Write its parameters, as in `{to_text(program.target)} ~ {linear}`"


def read_with_parameters(text: str, names: Iterable[str] = (), columns: ColumnNames = NO_COLUMNS) -> Program:
    """Parse text in which `tau` and `e` are parameters, as in models. See `read` for the arguments.

    Raises:
        ExpressionError: for errors in the text, and for a number that no float represents.
    """
    return read_for_floats(text, (*names, *_PARAMETERS_LIKE_CONSTANTS), columns)


def initial_arrays(shapes: Mapping[str, Shape], layers: Mapping[str, LayerParameter], seed: int) -> dict[str, Array]:
    """Return initial values of the array parameters.

    An array starts at random, because hidden units with equal weights would stay equal. The biases of layers are 0. The
    weights of a layer before a rectifier are normal with variance 2/inputs, because a rectifier passes about half of a
    signal (He et al. 2015, arXiv 1502.01852); other weights are uniform with variance 2/(inputs + outputs) (Glorot &
    Bengio 2010). An array outside of layers is normal with that variance; a vector counts as a matrix with one row.

    Args:
        shapes: the shapes of the parameters, in the order in which they are drawn.
        layers: the kind of each parameter that belongs to a layer.
        seed: the seed of the random number generator. All arrays are drawn even if not all are used, so fixing one does
            not change the rest.
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


# Points at which elasticities are compared: unrelated numbers. Operations with more inputs reuse them cyclically.
_SAMPLE_POINTS = ((0.31, 0.83, 0.47, 0.71, 0.59), (0.67, 0.37, 0.89, 0.53, 0.43), (0.41, 0.61, 0.29, 0.79, 0.97))
_ELASTICITY_TOLERANCE = 1e-9  # smaller differences of elasticities, which are about 1, are rounding errors


def dimensional_scales(
    output: Node, target: Node | None, columns: Mapping[str, float], parameters: Sequence[str]
) -> dict[str, float]:
    """Return the scale of each parameter by dimensional analysis; 1 where nothing is known.

    The effect of an operation on scales shows in its elasticities, `x_k/f * ∂f/∂x_k`. If they are constant, it is a
    product of powers. If only their sum is constant, its inputs have one scale, as in a sum. All other functions map
    numbers of about 1 to numbers of about 1.

    Args:
        output: the prediction.
        target: the left side of `~`, or None. If either contains arrays, nothing is known.
        columns: the scale of each column.
        parameters: the names of the parameters.

    >>> from autodiff_cli.language.program import read as parsed
    >>> program = parsed("a*exp(-x/t) + c")
    >>> scales = dimensional_scales(program.output, None, {"x": 1e-6}, ["t"])
    >>> round(scales["t"] * 1e6, 6)
    1.0
    """
    names = tuple(columns)
    powers = _leaf_exponents(output, target, names)
    logarithms = np.log([columns[name] for name in names])
    return {
        name: math.exp(min(max(float(powers[name] @ logarithms), -600.0), 600.0)) if name in powers else 1.0
        for name in parameters
    }


@functools.lru_cache(64)
def _leaf_exponents(output: Node, target: Node | None, columns: tuple[str, ...]) -> dict[str, Array]:
    """Return, for each leaf, the exponents of the columns' scales whose product is its scale.

    The result is empty if there are arrays.
    """
    order = topological_order([output] if target is None else [output, target])
    if any(node.op is not None and node.op.is_structural for node in order):
        return {}
    unknown = [node.text for node in order if node.is_input and node.text not in columns]
    # A scale is a vector: the exponents of unknown scales and of the columns' whose product it is.
    scale_of_leaf = dict(zip((*unknown, *columns), np.eye(len(unknown) + len(columns)), strict=True))
    sizes: dict[Node, Array] = {}
    equations: list[Array] = []  # products of scales that are 1
    for node in order:
        if node.op is not None:
            sizes[node], implied = _propagate_scales(node, [sizes[child] for child in node.inputs])
            equations += implied
        else:
            sizes[node] = np.zeros(len(scale_of_leaf)) if node.is_constant else scale_of_leaf[node.text]
    if target is not None:
        equations.append(sizes[output] - sizes[target])
    exponents: Array = np.vstack((np.zeros((len(unknown), len(columns))), np.eye(len(columns))))
    if equations:
        # Long sums repeat an equation for each term; one with their weight has the same solution.
        rows, counts = np.unique(np.array(equations), axis=0, return_counts=True)
        rows = rows * np.sqrt(counts)[:, None]
        solution = np.linalg.lstsq(rows[:, : len(unknown)], -rows[:, len(unknown) :], rcond=1e-9)[0]
        exponents[: len(unknown)] = solution  # the one of least squares whose norm is least
    return {node.text: sizes[node] @ exponents for node in order if node.is_input}


def _propagate_scales(node: Node, inputs: Sequence[Array]) -> tuple[Array, list[Array]]:
    """Return the scale of the result of an operation, and the products of scales that it implies to be 1."""
    constants = tuple(parse_constant(child.text) if child.is_constant else None for child in node.inputs)
    powers, is_product = _exponents(node.operation, constants)
    if powers is None and len(constants) > 1 and node.inputs[-1].is_input:  # e.g. an exponent
        constants = (*constants[:-1], 1.0)
        powers, is_product = _exponents(node.operation, constants)
    varying = [k for k, value in enumerate(constants) if value is None or not is_product]
    if powers is None:
        return np.zeros_like(inputs[0]), [inputs[k] for k in varying]
    if is_product:
        return sum((powers[k] * inputs[k] for k in varying), np.zeros_like(inputs[0])), []
    first = inputs[varying[0]]
    return powers[0] * first, [first - inputs[k] for k in varying[1:] if node.inputs[k].text != "0"]


@functools.lru_cache(1024)
def _exponents(op: Op, constants: tuple[float | None, ...]) -> tuple[tuple[float, ...] | None, bool]:
    """Return the exponents of a product of powers and True; the common exponent and False if all inputs have one scale.

    The first result is None for any other function.
    """
    count = len(constants)
    if op.gate is Gate.BLOCK:
        return ((0.0,), False) if count > 1 else (None, False)
    rows = []
    for point in _SAMPLE_POINTS:
        values = [point[k % len(point)] if value is None else value for k, value in enumerate(constants)]
        output = FLOATS.function(op, count)(*values)
        slopes = FLOATS.partials(op, count, tuple(range(count)))(output, *values)
        if not output or not math.isfinite(output):
            return None, False
        rows.append([0.0 if s is None else x * s / output for x, s in zip(values, slopes, strict=True)])
    elasticities = np.array(rows)
    varying = [k for k, value in enumerate(constants) if value is None]
    if not np.ptp(elasticities[:, varying], axis=0).max(initial=0.0) > _ELASTICITY_TOLERANCE:
        return tuple(elasticities[0].tolist()), True
    total = elasticities.sum(axis=1)
    return ((float(total[0]),), False) if float(np.ptp(total)) <= _ELASTICITY_TOLERANCE else (None, False)


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

        >>> bool(Bounds.unbounded(2).contains(np.array([1e300, -1e300]))), Bounds.unbounded(2).has_bounds
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

    def draw_inside(self, theta: Array, generator: np.random.Generator) -> Array:
        """Return the point with random numbers wherever two bounds limit them. Other numbers get the sign that a bound
        of 0 allows, and move to the nearest bound.
        """
        with np.errstate(invalid="ignore"):
            drawn = generator.uniform(0.1, 0.9, theta.shape) * (self.high - self.low) + self.low
        inside = np.where(np.isfinite(self.low) & np.isfinite(self.high), drawn, theta)
        return self.clip(np.where((inside < self.low) & (self.low == 0), -inside, inside))

    def contains(self, theta: Array) -> NDArray[np.bool_]:
        """Whether a point, or each of several points, is within the bounds."""
        return np.asarray(((theta >= self.low) & (theta <= self.high)).all(axis=-1))

    def select(self, fits: int | NDArray[np.intp]) -> Bounds:
        """Return the bounds of some fits of a batch; bounds of shape (P,) hold for all fits."""
        return self if self.low.ndim == 1 else Bounds(self.low[fits], self.high[fits])

    def active(self, theta: Array) -> NDArray[np.bool_]:
        """Return the mask of the numbers that are on a bound."""
        return ((theta <= self.low) | (theta >= self.high)) & np.isfinite(theta)

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
        box = self.copy()
        box.low[index] = box.high[index] = value
        return box

    def copy(self) -> Bounds:
        """Return a copy that shares no arrays."""
        return Bounds(self.low.copy(), self.high.copy())


_SUM_TOLERANCE = 1e-12  # rounding of the sum of shares


class Dependency(NamedTuple):
    """A linear constraint, solved for one parameter: limit + sign * (sum of the other parameters + slack).

    Attributes:
        position: the position of this parameter in theta.
        others: the positions of the parameters on which it depends.
        limit, sign: 0 and 1 for an order, in which the other parameter is the smaller one; 1 and -1 for shares.
    """

    position: int
    others: list[int]
    limit: float
    sign: float

    @property
    def positions(self) -> list[int]:
        """The positions of all its parameters."""
        return sorted((self.position, *self.others))

    def value(self, theta: Array) -> float:
        """Return the value of the parameter without slack."""
        return float(self.limit + self.sign * theta[self.others].sum())


class Constraints(NamedTuple):
    """Linear constraints of parameters, by their positions in theta.

    Attributes:
        orders: pairs of which the first must not exceed the second.
        shares: shares of a whole, which sum to at most 1.
        limits: the bounds of the user. Ordered parameters that are equal because both are on a bound are not tied.
    """

    orders: Sequence[tuple[int, int]] = ()
    shares: Sequence[tuple[int, ...]] = ()
    limits: Sequence[float] = ()

    def are_met(self, theta: Array) -> bool:
        """Whether ordered parameters are in their order, and the shares of a whole sum to at most 1.

        >>> Constraints([(0, 1)]).are_met(np.array([2.0, 1.0]))
        False
        """
        is_ordered = all(theta[low] <= theta[high] for low, high in self.orders)
        return is_ordered and all(theta[[*part]].sum() <= 1 + _SUM_TOLERANCE for part in self.shares)

    def within(self, bounds: Bounds) -> Bounds:
        """Return bounds with those that follow from the order of parameters.

        >>> Constraints([(0, 1)]).within(Bounds.unbounded(2).with_fixed(0, 3.0)).low
        array([3., 3.])
        """
        box = bounds.copy()
        for low, high in (*self.orders, *reversed(self.orders)):
            box.low[high] = max(box.low[low], box.low[high])
            box.high[low] = min(box.high[low], box.high[high])
        return box

    def restore(self, theta: Array) -> Array:
        """Return the point with values exchanged that are not in order, and shares divided by a sum above 1."""
        point = theta.copy()
        for low, high in self.orders:
            point[low], point[high] = sorted((point[low], point[high]))
        for part in self.shares:
            point[[*part]] /= max(1.0, point[[*part]].sum())
        return point

    def solved(self, theta: Array, bounds: Bounds) -> list[Dependency]:
        """Return each constraint solved for the larger parameter of an order, or the largest share.

        Fixed parameters are not solved for. The bounds keep their order; see `within`.
        """
        is_free = bounds.low < bounds.high
        orders = [Dependency(high, [low], 0.0, 1.0) for low, high in self.orders if is_free[low] and is_free[high]]
        largest = [max(part, key=lambda k: (is_free[k], theta[k])) for part in self.shares]
        shares = zip(largest, self.shares, strict=True)
        return [*orders, *(Dependency(each, [k for k in part if k != each], 1.0, -1.0) for each, part in shares)]

    def active(self, theta: Array) -> list[Dependency]:
        """Return the constraints that hold with equality: ordered parameters that are equal, other than on a bound of
        the user, and shares without a rest.

        >>> [tied] = Constraints([(0, 1)]).active(np.array([2.0, 2.0]))
        >>> tied.positions
        [0, 1]
        """
        parts = [[k for k in part if theta[k] > 0] for part in self.shares]  # shares of 0 are on a bound
        positive = [tuple(part) for part in parts if len(part) > 1 and theta[part].sum() >= 1 - _SUM_TOLERANCE]
        tied = [(low, high) for low, high in self.orders if theta[low] == theta[high] not in self.limits]
        return Constraints(tied, positive).solved(theta, Bounds.unbounded(len(theta)))


_PROBES = (-2.3, -0.7, 0.4, 1.7, 2.6)  # values of a parameter at which an operation is evaluated


def natural_bounds(program: Program, names: Iterable[str]) -> dict[str, BoundPair]:
    """Return the ranges of parameters within which a log-likelihood has a meaning.

    Operations such as `log(s)` must be defined. Shares, such as `w` in `log(w*f + (1 - w)*g)`, are from 0 to 1.

    >>> natural_bounds(read("log(w*normal_pdf(x, m, s) + (1 - w)*k/log(2 - r))"), ["w", "m", "s", "k", "r"])
    {'s': (0.0, inf), 'r': (-inf, 2.0), 'w': (0.0, 1.0)}
    """
    allowed, bounds = {*names}, dict[str, BoundPair]()
    for node in topological_order([program.output]):
        if node.op is None or node.op.is_structural:
            continue
        for position, child in enumerate(node.inputs):
            shift = parse_constant(child.inputs[0].text) if child.op is sub and child.inputs[0].is_constant else None
            leaves = _parameters_of(child if shift is None else child.inputs[1], program)
            if not leaves or not allowed.issuperset(leaves):
                continue
            if [_is_defined_at(node, position, probe) for probe in _PROBES] == [False, False, True, True, True]:
                for name in leaves:
                    low, high = bounds.get(name, (-math.inf, math.inf))
                    bounds[name] = (max(low, 0.0), high) if shift is None else (low, min(high, shift))
        if node.op is log:
            factors = [part for term in list_parts(node.inputs[0], (add,)) for part in list_parts(term, (mul, div))]
            others = {name for part in factors for shares in complemented_shares(part, program) for name in shares}
            shares = others & {name for part in factors for name in _parameters_of(part, program)}
            bounds |= dict.fromkeys(sorted(shares & allowed), (0.0, 1.0))
    return bounds


def mixture_shares(program: Program, layout: ParameterLayout) -> tuple[tuple[int, ...], ...]:
    """Return the positions of the free shares of each mixture of three or more components.

    The last share of a mixture is 1 minus the sum of the free ones. Each level has shares of its own.
    """
    parts = dict[tuple[int, ...], None]()
    for node in topological_order([program.output]):
        for names in zip(*complemented_shares(node, program), strict=False):
            if len(names) > 1 and all(name in layout.slices for name in names):
                parts[tuple(layout.slices[name].start for name in names)] = None
    # `1 - a - b` contains `1 - a`
    return tuple(part for part in parts if not any({*part} < {*other} for other in parts))


def _parameters_of(node: Node, program: Program) -> tuple[str, ...]:
    """Return the name of a parameter, or the names of its values for all levels; none for other expressions.

    A parameter with levels is the sum of its values times the indicators of the levels.
    """
    if node.is_input:
        return (node.text,)
    if node.op is mul and node.inputs[1].is_input and node.inputs[1].text in program.column_leaves:
        return (node.inputs[0].text,) if node.inputs[0].is_input else ()
    sides = [_parameters_of(term, program) for term in node.inputs] if node.op is add else []
    return (*chain(*sides),) if all(sides) else ()


def list_parts(node: Node, operations: tuple[Op, ...]) -> list[Node]:
    """Return the terms of a sum, or the factors of a product or of a numerator."""
    pending, parts = [node], []
    while pending:
        part = pending.pop()
        if part.op not in operations:
            parts.append(part)
        else:
            pending += part.inputs[:1] if part.op is div else part.inputs
    return parts


def _is_defined_at(node: Node, position: int, probe: float) -> bool:
    """Whether an operation with a number as one input is a number for any values of its other inputs."""
    for other in (0.5, 2.0, 3.0):
        known = [parse_constant(child.text) if child.is_constant else other for child in node.inputs]
        known[position] = probe
        if not math.isnan(FLOATS.function(node.operation, len(known))(*known)):
            return True
    return False


def complemented_shares(node: Node, program: Program) -> list[tuple[str, ...]]:
    """Return the parameters in `1 - a - b`, each with its values for all levels; none for other expressions."""
    shares: list[tuple[str, ...]] = []
    while node.op is sub and _parameters_of(node.inputs[1], program):
        shares.insert(0, _parameters_of(node.inputs[1], program))
        node = node.inputs[0]
    return shares if is_literal(node, 1) else []


def snap_to_zero(theta: Array, start: Array, bounds: Bounds) -> tuple[NDArray[np.bool_], Array, NDArray[np.bool_]]:
    """Set parameters to 0 that shrank to a small share of their starting values, such as `a` in `a^2`.

    Args:
        theta: points of shape (fits, P).

    Returns:
        The mask of the points with such parameters, these points with the parameters at 0, and the mask of the
        parameters in them.
    """
    is_small = (theta != 0) & (np.abs(theta) < _ZERO_RATIO * np.abs(start))
    points = np.where(is_small, 0.0, theta)
    chosen = is_small.any(axis=1) & bounds.contains(points)
    return chosen, points[chosen], is_small[chosen]


def parse_bounds(texts: Iterable[str]) -> dict[str, tuple[Any, Any]]:
    """Parse bounds: `NAME=LOW:HIGH`, where one side may be missing, or conditions such as `0 < a < 1` and `a < b`.

    Strict inequalities count as non-strict.

    Raises:
        OptionError: for any other text, or for a second bound on the same side of a name.

    >>> parse_bounds(["a=0:pi/2", "b=:5", "0 < c < 1 and d >= -2"])
    {'a': (0.0, 1.5707963267948966), 'b': (-inf, 5.0), 'c': (0.0, 1.0), 'd': (-2.0, inf)}
    >>> parse_bounds(["0 < a < b"])
    {'a': (0.0, inf), 'b': ('a', inf)}
    """
    bounds: dict[str, tuple[Any, Any]] = {}
    for text in texts:
        earlier = {name for name, limits in bounds.items() if not any(isinstance(limit, str) for limit in limits)}
        for name, low, high in _parse_bounds_text(text):
            previous = bounds.get(name, (-math.inf, math.inf))
            is_repeated = name in earlier and not isinstance(low, str)
            if is_repeated or (low != -math.inf != previous[0]) or (high != math.inf != previous[1]):
                raise OptionError(f"the bounds of `{name}` are given twice")
            bounds[name] = previous[0] if low == -math.inf else low, previous[1] if high == math.inf else high
    return bounds


def _parse_bounds_text(text: str) -> Iterator[tuple[str, Any, Any]]:
    name, equals, range_text = split_assignment(text)
    if equals and (is_name(name) or is_level_name(name)) and ":" in range_text:
        low, _, high = (end.strip() for end in range_text.partition(":"))
        if low or high:
            yield canonical_name(name), _parse_end(low, text, -math.inf), _parse_end(high, text, math.inf)
            return
    try:
        output = read(_LEVEL_NAME.sub(r"`\g<0>`", text), _PARAMETERS_LIKE_CONSTANTS).output
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


def _bounds_of_condition(node: Node, text: str) -> Iterator[tuple[str, Any, Any]]:
    if node.op is not None and node.op.name == "and":
        for part in node.inputs:
            yield from _bounds_of_condition(part, text)
        return
    name = "" if node.op is None else node.op.name
    if name not in (*_LESS_OPS, *_GREATER_OPS):
        raise OptionError(f"{_SYNTAX}; not `{text}`")
    smaller, larger = node.inputs if name in _LESS_OPS else node.inputs[::-1]
    if larger.is_input:
        yield larger.text, smaller.text if smaller.is_input else _constant_value(smaller, text), math.inf
    elif smaller.is_input:
        yield smaller.text, -math.inf, _constant_value(larger, text)
    else:
        raise OptionError(f"{_SYNTAX}; not `{text}`")


def _constant_value(node: Node, text: str) -> float:
    if any(below.is_input for below in topological_order([node])):
        raise OptionError(f"bounds `{text}`: a bound must be a number; write what depends on parameters into the model")
    if not all(is_representable(below.text) for below in topological_order([node]) if below.is_constant):
        raise OptionError(f"bounds `{text}`: a bound must be representable as a float")
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

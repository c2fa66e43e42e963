"""Floats as a kind of number: the table of operations, and perturbed floats for stochastic arithmetic.

Arithmetic follows IEEE 754: it returns infinities and nan, never raises an exception, and never returns complex
numbers.

Stochastic arithmetic (Vignes 1993, "A stochastic arithmetic for reliable scientific computation") evaluates a formula
again with every result perturbed by a few ulps. A result with correct digits does not depend on the last bits of
intermediate results; where digits cancel, perturbed runs differ. Here the perturbations are deterministic, and there
are three runs. The second nearly negates the perturbations of the first, so a value at a tie or a jump falls on both
sides of it. The third is independent of the first two, in case these perturb both parts of a difference equally by
chance.
"""

from __future__ import annotations

import importlib
import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from math import copysign, inf, nan
from typing import Any, TypeAlias

from autodiff_cli.graph.node import Gate, Op, get_op, is_exactly
from autodiff_cli.numbers import float_functions
from autodiff_cli.numbers.float_functions import Function, divide, guard, product_error
from autodiff_cli.numbers.kind import Kind


def modulus(a: float, b: float) -> float:
    """Return the remainder of a / b with the sign of b."""
    try:
        return a % b
    except ZeroDivisionError:
        return nan


def rounding_function(function: Callable[[float], int]) -> Function:
    """Return a rounding function for all floats: it returns floats, and infinities unchanged."""
    return guard(lambda x: copysign(float(function(x)), x), lambda x: x)


floor = rounding_function(math.floor)
ceil = rounding_function(math.ceil)
nearest = rounding_function(round)


def signum(x: float) -> float:
    """The sign of x: -1, 0 or 1; nan for nan."""
    return x if x == 0 or x != x else copysign(1.0, x)


def largest(*xs: float) -> float:
    """The largest of the numbers; nan if one of them is nan."""
    return max(xs) if not any(x != x for x in xs) else nan


def smallest(*xs: float) -> float:
    """The smallest of the numbers; nan if one of them is nan."""
    return min(xs) if not any(x != x for x in xs) else nan


def clip(x: float, low: float, high: float) -> float:
    """x limited to the range from low to high; high if low > high."""
    return smallest(largest(x, low), high)


def _comparison(compare: Callable[[float, float], bool]) -> Callable[[float, float], float]:
    return lambda x, y: 1.0 if compare(x, y) else 0.0


# The irrational constants, to more digits than any float has.
DIGITS = {
    "pi": "3.14159265358979323846264338327950288419716939937511",
    "tau": "6.28318530717958647692528676655900576839433879875021",
    "e": "2.71828182845904523536028747135266249775724709369996",
}
CONSTANTS = {"pi": math.pi, "tau": math.tau, "e": math.e, "inf": inf, "nan": nan}


def parse_constant(text: str) -> float:
    """Return the float nearest to a constant, given its text: a decimal number or a name such as `pi`."""
    named = CONSTANTS.get(text)
    return float(text) if named is None else named


def _lazy_operation(module: str, name: str) -> Callable[..., float]:
    """Return an operation whose module is imported when it is first called."""
    return lambda *xs: importlib.import_module(f"autodiff_cli.numbers.{module}").OPERATIONS[name](*xs)


# Operations in modules that are imported only when needed, so that other formulas start faster.
_LAZY_OPERATIONS = {
    "special_functions": (
        "erfi", "exp_over_x", "cosh_over_x", "sinc_derivative", "sinhc", "sinhc_derivative",
        "lambertw", "lambertw_plus_1", "lambertw_slope",
        "Ei", "Si", "Ci", "Shi", "Chi", "chirp_sine", "chirp_cosine", "fresnels", "fresnelc",
        "wofz_real", "wofz_imag", "wofz_slope_real", "wofz_slope_imag",
        "besselj", "bessely", "besseli", "besselk",
    ),
    "gamma_functions": (
        "gamma", "lgamma", "digamma", "polygamma", "digamma_diff", "polygamma_diff", "beta", "beta_slope",
        "gamma_density", "gammainc", "gammaincc", "gammainc_slope", "gammainc_curvature",
    ),
}  # fmt: skip

# fmt: off
OPERATIONS: dict[str, Callable[..., float]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": divide, "neg": operator.neg,
    "quotient_slope": lambda x, y: divide(divide(x, y), y), "mod": modulus,
    "eq": _comparison(operator.eq), "ne": _comparison(operator.ne), "lt": _comparison(operator.lt),
    "le": _comparison(operator.le), "gt": _comparison(operator.gt), "ge": _comparison(operator.ge),
    "and": _comparison(lambda x, y: x != 0 and y != 0), "or": _comparison(lambda x, y: x != 0 or y != 0),
    "not": lambda x: 0.0 if x else 1.0,
    "abs": abs, "sign": signum, "floor": floor, "ceil": ceil, "round": nearest,
    "where": lambda condition, a, b: a if condition else b, "max": largest, "min": smallest, "clip": clip,
    "relu": lambda x: 0.0 if x <= 0 else x, "where_defined": lambda z, slope: slope if z == z else nan,
    **float_functions.OPERATIONS,
    **{op: _lazy_operation(module, op) for module, ops in _LAZY_OPERATIONS.items() for op in ops},
}  # fmt: skip
# fmt: on

FLOATS: Kind[float] = Kind("floats", OPERATIONS, parse_constant)


# --- Perturbed floats ---

Operation: TypeAlias = Callable[..., Any]

# These are module constants, not fields of a record, because every perturbed operation reads some.
EPSILON = sys.float_info.epsilon  # one ulp of 1
PERTURBED_RUNS = (0, 1, 2)  # a single run may leave an inaccurate result unchanged by chance
UNPERTURBED = 3  # a further run, for the comparisons that the numbers in doubt depend on
MAX_PERTURBATION_ULPS = 8  # ulps: more than rounding errors of most operations, yet few digits
_FACTOR_PERIOD = 509  # factors until they repeat: a prime, so that similar parts of a formula get different ones
SMALLEST_NORMAL = sys.float_info.min  # smaller floats have fewer digits
UNDERFLOW_SUBSTITUTE = 1024 * SMALLEST_NORMAL  # replaces a result that underflowed; normal also when perturbed
_MAX_ULPS_OF_EXPONENT = 100  # functions with larger errors are exponentials of inaccurate exponents
_MAX_CHIRP = 2.0**26  # above, a float has no digits left for the phase pi*x^2/2
_RANGE_MARGIN = 16  # factor by which the range of a few runs is widened to contain all errors
_SECANT_STEP = 2.0**-40  # relative step of an argument for a slope: far above rounding, and nearly straight
SHORT_LIMIT = 2.0**43  # from this size on, sums of multiples of 1/1024 can be rounded


def perturbation_ulps(run: int, count: int) -> list[int]:
    """Return the perturbations of one run, in ulps.

    They are irregular, so that the two parts of a difference are not perturbed equally, and their mean is about 0, so
    that errors do not accumulate in long sums.

    Args:
        run: the run, one of `PERTURBED_RUNS`, or `UNPERTURBED`.
        count: the number of perturbations.
    """
    if run == UNPERTURBED:
        return [0] * count
    # The third run uses other bits of the hash.
    first = [_hashed_ulps(k, shift=20 if run == 2 else 12) for k in range(1, count + 1)]
    # The second run does not exactly negate the first, so a result unchanged in one by chance changes in the other.
    return [-units + (k**3 + k) % 7 - 3 or 1 for k, units in enumerate(first)] if run == 1 else first


def _hashed_ulps(k: int, shift: int) -> int:
    for _ in range(2):
        k = ((k ^ (k >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    units = (k >> shift) % (2 * MAX_PERTURBATION_ULPS) - MAX_PERTURBATION_ULPS
    return units if units < 0 else units + 1


@cache
def _run_factors(run: int) -> list[float]:
    """Return the factors by which one run perturbs its results, in order."""
    return [1 + units * EPSILON for units in perturbation_ulps(run, _FACTOR_PERIOD)]


class _FactorSequence:
    """The sequence of factors that perturb results; it repeats after `_FACTOR_PERIOD` factors."""

    def __init__(self) -> None:
        self._factors: list[float] = []
        self._at = -1
        self._compared: list[list[float]] = [[]]  # for each run, the sides of each comparison and their difference

    def start(self, run: int) -> None:
        self._factors, self._at = _run_factors(run), -1
        if run == PERTURBED_RUNS[0]:
            self._compared.clear()
        self._compared.append([])

    def compared(self, a: float, b: float) -> None:
        """Record the two sides of a comparison."""
        self._compared[-1] += (a, b, a - b)

    def has_comparisons(self) -> bool:
        """Return whether the latest run has compared numbers."""
        return bool(self._compared[-1])

    def has_undecided(self) -> bool:
        """Return whether a comparison in the runs so far is doubtful.

        A comparison is doubtful if its two sides are within their errors of each other, or if one may be infinite by
        overflow. It is also doubtful if one has no correct digit, since its error may then be of any size.
        """
        if not all(map(math.isfinite, self._compared[-1])) or len({*map(len, self._compared)}) > 1:
            return True
        return any(is_undecided(min(of), max(of)) for of in zip(*self._compared, strict=True))

    def next(self) -> float:
        """Return the next factor."""
        self._at = (self._at + 1) % _FACTOR_PERIOD
        return self._factors[self._at]


FACTORS = _FactorSequence()


def start_perturbed_run(run: int) -> Kind[float]:
    """Start one of the `PERTURBED_RUNS`, and return its kind of number."""
    FACTORS.start(run)
    return _perturbed_floats()


def is_undecided(least: Any, greatest: Any) -> Any:
    """Return whether numbers between `least` and `greatest`, the results of perturbed runs, may be rounded zeros.

    The range is widened on both sides, because a few runs do not reach all errors. Numbers that are equal in all runs
    have no error.
    """
    width = _RANGE_MARGIN * (greatest - least)
    return (width > 0) & (least <= width) & (-greatest <= width)


def _perturb(z: float) -> float:
    return z * FACTORS.next() + (z - z)  # an infinity becomes nan, because it may be caused by overflow only


@dataclass(frozen=True)
class Perturbation:
    """The perturbed results of the functions of one kind of number. Exact results are not perturbed.

    Attributes:
        table: the functions by the names of operations.
        perturb: perturbs a result.
        factors_like: returns the next factors, for a number or an array of numbers.
        compared: takes the two sides of a comparison, before it is made.
        lift_underflow: wraps a function so that a result that underflows becomes a tiny normal number. Perturbed runs
            then differ where such a result matters. A result may be exactly 0 where an input is 0; the second argument
            has the positions of these inputs, and is None for all.
        perturb_if_rounded: wraps a function so that only rounded results are perturbed. The results of short numbers
            are exact if they are short and a second function, if there is one, holds for the arguments.
        is_product: returns whether the product of two short numbers is not rounded.
    """

    table: Mapping[str, Operation]
    perturb: Operation
    factors_like: Operation
    compared: Callable[[Any, Any], None]
    lift_underflow: Callable[[Operation, Sequence[int] | None], Operation]
    perturb_if_rounded: Callable[[Operation, Operation | None], Operation]
    is_product: Operation

    def functions(self) -> dict[str, Operation]:
        """Return the functions of the table with perturbed results."""
        return {name: self._perturbed(name, function) for name, function in self.table.items()}

    def _perturbed(self, name: str, function: Operation) -> Operation:
        op = get_op(name)
        if name in self._compared_sides:
            function = self._watch(function, self._compared_sides[name])
        if op.gate in (Gate.ROUTE, Gate.BLOCK) or name in _SIGN_ONLY:
            return function
        if name in self._is_too_large:
            function = self._limit(function, self._is_too_large[name])
        if op.argument_ulps:
            function = self._perturb_argument(function, op)
        if op.gate in (Gate.SCALE, Gate.SWAP):  # other operations underflow only if their exact result is 0
            function = self.lift_underflow(function, () if op.is_positive else op.zero_inputs)
        if op.is_exact:
            return self.perturb_if_rounded(function, self._is_exact.get(name))  # short sums are exact
        perturb = self.perturb_exponential if op.ulp_bound > _MAX_ULPS_OF_EXPONENT else self.perturb
        return lambda *xs: perturb(function(*xs))

    def perturb_exponential(self, z: Any) -> Any:
        """Perturb the result of an exponential, whose error is that of its exponent."""
        size, largest = self.table["abs"], self.table["max"]
        exponent = size(self.table["log"](largest(size(z), SMALLEST_NORMAL)))
        return z + (self.perturb(z) - z) * largest(exponent / 4, 1.0)

    @cached_property
    def _compared_sides(self) -> dict[str, Operation]:
        """Functions that return the pairs of numbers that operations compare."""
        rounded_whole, rounded_down, divide = self.table["round"], self.table["floor"], self.table["div"]
        return {
            **{name: lambda a, b: ((a, b),) for name in COMPARISONS},
            **{name: lambda *xs: [(x, 0.0) for x in xs] for name in ("and", "or", "not", "sign")},
            "where": lambda condition, *_: ((condition, 0.0),),
            **{name: lambda x: ((x, rounded_whole(x)),) for name in ("floor", "ceil")},
            "round": lambda x: ((x, rounded_down(x) + 0.5),),
            "mod": lambda a, b: ((quotient := divide(a, b), rounded_whole(quotient)),),
        }

    def _watch(self, function: Operation, sides: Operation) -> Operation:
        compared = self.compared

        def value(*xs: Any) -> Any:
            for a, b in sides(*xs):
                compared(a, b)
            return function(*xs)

        return value

    @cached_property
    def _is_too_large(self) -> dict[str, Operation]:
        """Functions that return whether arguments are so large that perturbed runs hardly differ.

        They have no digits left for the phase pi*x^2/2, the remainder by a divisor, or the parity of an exponent. Such
        floats are even, also if they are perturbed.
        """
        size = self.table["abs"]
        return {
            **dict.fromkeys(("fresnels", "fresnelc", "chirp_sine", "chirp_cosine"), lambda x: size(x) > _MAX_CHIRP),
            **dict.fromkeys(("pow", "pow_slope_base"), lambda x, y: (x < 0) & (size(y) > 1 / EPSILON)),
            "mod": lambda a, b: size(a) > size(b) / EPSILON,
        }

    def _limit(self, function: Operation, is_too_large: Operation) -> Operation:
        choose = self.table["where"]
        return lambda *xs: choose(is_too_large(*xs), math.nan, function(*xs))

    def _perturb_argument(self, function: Operation, op: Op) -> Operation:
        """Perturb the result as a change of an argument by some ulps does, which may be less than one of it."""
        k, scale = op.perturbed_input, op.argument_ulps / MAX_PERTURBATION_ULPS / _SECANT_STEP
        factors_like, largest, size = self.factors_like, self.table["max"], self.table["abs"]

        def value(*xs: Any) -> Any:
            x, z = xs[k], function(*xs)
            change = (factors_like(x) - 1) * scale / largest(size(x) / op.argument_unit, 1.0)
            return z + (function(*xs[:k], x + x * _SECANT_STEP, *xs[len(xs) + k + 1 :]) - z) * change

        return value

    @cached_property
    def _is_exact(self) -> dict[str, Operation]:
        """Functions that return whether the results of short numbers are exact, if they are short."""
        is_product = self.is_product

        def is_power(x: Any, y: Any) -> Any:
            """Whether a power of short numbers is exact, if it is short. Of fractions, only squares are recognized."""
            return ((x % 1 == 0) & (y % 1 == 0) & (y >= 0)) | (y == 0) | (y == 1) | ((y == 2) & is_product(x, x))

        return {"mul": is_product, "square": lambda x: is_product(x, x), "pow": is_power}


def perturbed_constant(text: str, next_factor: Callable[[], Any]) -> Any:
    """Return the number for the text of a constant, times the next factor if it is not exactly a float.

    A constant that underflows becomes `UNDERFLOW_SUBSTITUTE`; one that overflows becomes nan. Each constant has a
    factor of its own, because constants are rounded independently and their difference may cancel.
    """
    value = parse_constant(text)
    if is_short(value) and is_exactly(text, value):
        return value
    if math.isinf(value) and text not in CONSTANTS:
        return math.nan
    return (UNDERFLOW_SUBSTITUTE if value < SMALLEST_NORMAL else value) * next_factor()


def _rule_constant(text: str) -> float:
    """Return a constant within a derivative rule, which is perturbed by its text, because all runs share it."""
    return float(perturbed_constant(text, lambda: 1 + _hashed_ulps(sum(text.encode()), shift=12) * EPSILON))


def is_short(x: float) -> bool:
    """Return whether a number can be assumed exact because it is short (2, 0.25): a multiple of 1/1024 below the
    limit."""
    return -SHORT_LIMIT < x < SHORT_LIMIT and (x * 1024).is_integer()


def _lift_underflow(function: Operation, inputs: Sequence[int] | None) -> Operation:
    def value(*xs: float) -> float:
        z: float = function(*xs)
        if -SMALLEST_NORMAL < z < SMALLEST_NORMAL and all(xs if inputs is None else [xs[k] for k in inputs]):
            return math.copysign(UNDERFLOW_SUBSTITUTE, z)
        return z

    return value


def _perturb_if_rounded(function: Operation, is_exact: Operation | None) -> Operation:
    def value(*xs: float) -> Any:
        z = function(*xs)
        if is_short(z) and all(map(is_short, xs)) and (is_exact is None or is_exact(*xs)):
            return z
        return _perturb(z)

    return value


def _is_product(x: float, y: float) -> bool:
    """Return whether the product of short numbers is not rounded."""
    return product_error(x, y) == 0


class _PerturbedDerivative(float):
    """A derivative: products and sums of the forward and reverse loops are perturbed too."""

    __slots__ = ()

    def __mul__(self, other: float) -> _PerturbedDerivative:
        a, b = float(self), float(other)
        z = a * b
        if abs(b) == 1.0:
            return _PerturbedDerivative(z)
        if -SMALLEST_NORMAL < z < SMALLEST_NORMAL:
            return _PerturbedDerivative(math.copysign(UNDERFLOW_SUBSTITUTE, z) * FACTORS.next() if a and b else z)
        is_exact = is_short(z) and is_short(a) and is_short(b) and _is_product(a, b)
        return _PerturbedDerivative(z if is_exact else z * FACTORS.next())

    def __add__(self, other: float) -> _PerturbedDerivative:
        a, b = float(self), float(other)
        z = a + b
        return _PerturbedDerivative(z if is_short(z) and is_short(a) and is_short(b) else z * FACTORS.next())

    __rmul__, __radd__ = __mul__, __add__

    def __neg__(self) -> _PerturbedDerivative:
        return _PerturbedDerivative(float.__neg__(self))

    def __sub__(self, other: float) -> _PerturbedDerivative:
        return self + -other

    def __rsub__(self, other: float) -> _PerturbedDerivative:
        return -self + other

    def __truediv__(self, other: float) -> _PerturbedDerivative:
        return _PerturbedDerivative(_perturbed_floats().table["div"](float(self), float(other)))


_SIGN_ONLY = ("neg", "abs", "where_defined", "edge_distance")  # operations that change only the sign, or nothing
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


@cache
def _perturbed_floats() -> Kind[float]:
    perturbation = Perturbation(
        FLOATS.table,
        perturb=_perturb,
        factors_like=lambda x: FACTORS.next(),
        compared=FACTORS.compared,
        lift_underflow=_lift_underflow,
        perturb_if_rounded=_perturb_if_rounded,
        is_product=_is_product,
    )
    return Kind("perturbed floats", perturbation.functions(), _rule_constant, {}).with_constants(
        partial(perturbed_constant, next_factor=FACTORS.next), _PerturbedDerivative
    )

"""Instructions on vector registers: arithmetic on `Vector` objects builds a graph of instructions.

A `Vector` holds as many numbers as a register, one per row of data. The usual operators create instructions; equal
instructions with equal inputs are the same object, so common sub-expressions of all formulas are computed once.
`machine_code` orders the instructions and writes them as LLVM's text.

Two rewrites make graphs faster:

- Repeated division by one number becomes one division and products. The product n·(1/d) is off by up to 1.5 units in
the last place, a quotient by half a unit, and 1/d must neither overflow nor lose digits as a denormal number. Where
that is not certain, as it is for 1 + exp(-|x|), divisors are watched: if one comes too near the ends of the range, its
strip of rows is recomputed with divisions. Quotients that decide a comparison, a rounding function or the domain of a
function remain divisions: see `VectorCode.separate_rounding`.
- Exponentials, logarithms, sines and cosines are inlined instead of calling a library. A call spills every register; a
polynomial between other instructions does not, and the sine and the cosine of one argument share its reduction. The
methods are the usual ones (Cody and Waite, "Software Manual for the Elementary Functions", 1980): a multiple of log(2)
or of π/2 is subtracted in parts with fused multiply-adds, or the exponent is taken off as bits; the remainder goes into
a polynomial, a Chebyshev fit accurate to 2^-56; exponents and signs are restored as bits. Without fused multiply-add
instructions calls remain.

`apply_to_vectors` applies the operations of formulas to vectors, by a table with the instructions of each operation,
like the tables of floats and arrays. The table has the functions of the mathematical library, and functions that share
one exponential, such as tanh and its slope. Other functions are evaluated by their careful forms, graphs of the
operations in the table; see `numbers.forms`. Composite operations are expanded. Special functions, which have loops,
are the compiled functions of floats, called for each lane. Conditions are the numbers 1 and 0. Between comparisons and
choices they remain masks, because `as_condition` of an `as_number` is the mask itself.
"""

from __future__ import annotations

import contextlib
import functools
import math
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from autodiff_cli.backends.protocol import CompilationError
from autodiff_cli.graph.node import Node, Op, OrderedOperators, variable
from autodiff_cli.graph.tape import infer, topological_order
from autodiff_cli.numbers.arrays import ARRAYS, compiled_symbol
from autodiff_cli.numbers.floats import parse_constant
from autodiff_cli.numbers.forms import DEFINITIONS, FORM_FUNCTIONS, RARE_FUNCTIONS, careful_form, function_form
from autodiff_cli.numbers.machine_code import PLATFORM_FUNCTIONS, float_literal

Operand: TypeAlias = "Vector | float"

# Functions that LLVM compiles to one instruction or few, by their names there.
INTRINSICS = frozenset(("sqrt", "floor", "ceil", "roundeven", "copysign", "fma", "fabs"))

# Instructions on the bits of numbers, which inlined functions consist of.
BIT_OPERATIONS = frozenset(("scaled", "exponent", "binade", "mantissa", "is_odd", "flip_sign"))

ROUNDED = "rounded"  # the detail of an arithmetic instruction whose result must be the correctly rounded one


class Vector(OrderedOperators):
    """An instruction and its result.

    Attributes:
        op: the operation: LLVM's name, or a name that `machine_code.InstructionWriter` translates.
        inputs: the operands.
        detail: further information, such as a number, the name of a function, or an address in memory.
        is_varying: whether the result differs from one iteration of the loop over rows to the next.
        rank: the number of instructions that were created before.

    >>> code = VectorCode()
    >>> x = code.make("load", detail="x", is_varying=True)
    >>> x * 2 + 1 is x * 2 + 1, x * 2 is x * 3
    (True, False)
    """

    __slots__ = ("code", "detail", "inputs", "is_varying", "op", "rank")

    def __init__(
        self, code: VectorCode, rank: int, op: str, inputs: tuple[Vector, ...], detail: Any, is_varying: bool
    ) -> None:
        self.code = code
        self.rank = rank
        self.op = op
        self.inputs = inputs
        self.detail = detail
        self.is_varying = is_varying

    @property
    def constant(self) -> float | None:
        """The constant in all lanes; None if the value is not known at compile time."""
        return _parse_literal(self.detail) if self.op == "constant" else None

    def _apply(self, name: str, *operands: Operand) -> Vector:
        if name in ("lt", "le", "gt", "ge"):
            return self.code.compare(f"o{name}", *operands)
        return self.code.make(f"f{name}", *map(self.code.as_vector, operands))

    def __abs__(self) -> Vector:
        return self.code.make("fabs", self.inputs[0] if self.op in ("fneg", "fabs") else self)

    def __and__(self, other: Vector) -> Vector:
        return self.code.make("and", self, other)

    def __or__(self, other: Vector) -> Vector:
        return self.code.make("or", self, other)

    def __invert__(self) -> Vector:
        return self.inputs[0] if self.op == "not" else self.code.make("not", self)


class VectorCode:
    """The instructions of one function body, without duplicates."""

    def __init__(self) -> None:
        self._instructions: dict[tuple[Any, ...], Vector] = {}
        self._rounds_separately = False

    def make(self, op: str, *inputs: Vector, detail: Any = None, is_varying: bool = False) -> Vector:
        """Return the instruction with these inputs, creating it if necessary."""
        if self._rounds_separately and op in ("fadd", "fsub", "fmul", "fdiv"):
            detail = ROUNDED
        if op in ("fadd", "fmul"):  # commutative: in a fixed order, constants last
            inputs = tuple(sorted(inputs, key=lambda vector: (vector.op == "constant", vector.rank)))
        key = (op, detail, *[vector.rank for vector in inputs])
        existing = self._instructions.get(key)
        if existing is None:
            is_varying = is_varying or any(vector.is_varying for vector in inputs)
            existing = self._instructions[key] = Vector(self, len(self._instructions), op, inputs, detail, is_varying)
        return existing

    def as_vector(self, operand: Operand) -> Vector:
        """Return the operand itself, or a number in all lanes."""
        return operand if isinstance(operand, Vector) else self.make("constant", detail=float_literal(operand))

    def compare(self, predicate: str, a: Operand, b: Operand) -> Vector:
        """Return a comparison by LLVM's name: with nan, `olt` is false and `ult` is true."""
        return self.make("fcmp", self.as_vector(a), self.as_vector(b), detail=predicate)

    def unfused(self, op: str, a: Operand, b: Operand) -> Vector:
        """Return a sum, difference or product (`fadd`, `fsub`, `fmul`) that is rounded separately.

        It never becomes part of a fused multiply-add, so that its rounding error can be computed.
        """
        return self.make(op, self.as_vector(a), self.as_vector(b), detail=ROUNDED)

    @contextlib.contextmanager
    def separate_rounding(self) -> Iterator[None]:
        """Within this context, every sum, difference, product and quotient is rounded as in NumPy.

        None of them becomes part of a fused multiply-add, and no quotient becomes a product.
        """
        before, self._rounds_separately = self._rounds_separately, True
        try:
            yield
        finally:
            self._rounds_separately = before

    def call(self, name: str, *inputs: Operand) -> Vector:
        """Return a call of a function: one instruction, or a call of the mathematical library."""
        return self.make("call", *map(self.as_vector, inputs), detail=name)


class ColdPath(NamedTuple):
    """Code that is rarely executed: a separate function, skipped unless a lane needs it.

    Attributes:
        arity: its number of arguments.
        result: its result, over `argument` instructions.
    """

    arity: int
    result: Vector


def rewrite(roots: Sequence[Vector], replacement: Callable[[Vector, Sequence[Vector]], Vector | None]) -> list[Vector]:
    """Return the roots, rebuilt with some instructions replaced.

    Args:
        roots: the vectors.
        replacement: returns the replacement of an instruction, given its rebuilt inputs; None if it remains.
    """
    code = VectorCode()
    rebuilt: dict[Vector, Vector] = {}
    for vector in topological_order(roots):
        inputs = [rebuilt[each] for each in vector.inputs]
        result = replacement(vector, inputs)
        if result is None:
            result = code.make(vector.op, *inputs, detail=vector.detail, is_varying=vector.is_varying)
        rebuilt[vector] = result
    return [rebuilt[root] for root in roots]


def _parse_literal(text: str) -> float:
    number: float = struct.unpack(">d", int(text, 16).to_bytes(8, "big"))[0]
    return number


def where(condition: Vector, a: Operand, b: Operand) -> Vector:
    """Return a where the condition holds, else b."""
    code = condition.code
    yes, no = code.as_vector(a), code.as_vector(b)
    if yes is no:
        return yes
    if condition.op == "not":
        return where(condition.inputs[0], no, yes)
    return code.make("select", condition, yes, no)


def equal(a: Vector, b: Operand) -> Vector:
    """Return a == b, which is false for nan."""
    return a.code.compare("oeq", a, b)


def not_equal(a: Vector, b: Operand) -> Vector:
    """Return a != b, which is true for nan."""
    return a.code.compare("une", a, b)


def is_nan(x: Vector) -> Vector:
    """Return whether x is nan."""
    return x.code.compare("uno", x, x)


def is_finite(x: Vector) -> Vector:
    """Return whether x is neither nan nor infinite."""
    return abs(x) < math.inf


def as_condition(x: Vector) -> Vector:
    """Return whether x is not 0, as a mask; true for nan."""
    is_number = x.op == "select" and x.inputs[1].constant == 1.0 and x.inputs[2].constant == 0.0
    return x.inputs[0] if is_number else not_equal(x, 0.0)


def as_number(condition: Vector) -> Vector:
    """Return 1 where the condition holds, else 0."""
    return where(condition, 1.0, 0.0)


def maximum(a: Vector, b: Operand) -> Vector:
    """Return the larger of two numbers, the first of equal ones; nan if one of them is nan."""
    return _extreme("ogt", a, a.code.as_vector(b))


def minimum(a: Vector, b: Operand) -> Vector:
    """Return the smaller of two numbers, the first of equal ones; nan if one of them is nan."""
    return _extreme("olt", a, a.code.as_vector(b))


def _extreme(wins: str, a: Vector, b: Vector) -> Vector:
    """Return the number that wins a comparison by LLVM's name."""
    has_won = a.code.compare(wins, b, a)
    is_number = b.constant is not None and b.constant == b.constant
    return where(has_won if is_number else has_won | is_nan(b), b, a)


def copysign(size: Operand, sign: Vector) -> Vector:
    """Return the magnitude of the first number with the sign of the second."""
    return sign.code.call("copysign", size, sign)


def fma(a: Vector, b: Operand, c: Operand) -> Vector:
    """Return a·b + c, rounded once."""
    return a.code.call("fma", a, b, c)


def product_error(a: Vector, b: Vector) -> Vector:
    """Return the rounding error of the product a·b, which is 0 if the product is not finite."""
    product = a.code.unfused("fmul", a, b)
    return where(is_finite(product), fma(a, b, -product), 0.0)


def finite_sum_error(a: Vector, b: Operand) -> Vector:
    """Return the rounding error of a finite sum a + b (Knuth)."""
    with a.code.separate_rounding():
        total = a + b
        b_part = total - a
        return (a - (total - b_part)) + (b - b_part)


def sum_error(a: Vector, b: Vector) -> Vector:
    """Return the rounding error of the sum a + b, which is 0 if it is not finite."""
    error = finite_sum_error(a, b)
    return where(is_finite(error), error, 0.0)


def polynomial(coefficients: Sequence[float], x: Vector) -> Vector:
    """Return a polynomial by Horner's rule; coefficients of the highest power come first."""
    total = x.code.as_vector(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def sqrt(x: Vector) -> Vector:
    """Return the square root."""
    return x.code.call("sqrt", x)


def exp(x: Vector) -> Vector:
    """Return the exponential."""
    return x.code.call("exp", x)


Bounds: TypeAlias = tuple[float, float]

# Reciprocals of numbers between these neither overflow nor lose digits.
MAX_MODERATE, MIN_MODERATE = 2.0**1000, 2.0**-1000

_UNBOUNDED: Bounds = (-math.inf, math.inf)


class QuickForms(NamedTuple):
    """Results in a form that is computed quickly.

    Attributes:
        roots: the results.
        watched: numbers that must be at most `MAX_MODERATE` for the results to be accurate, or nan; each with
            whether it must be at least `MIN_MODERATE` too.
    """

    roots: list[Vector]
    watched: list[tuple[Vector, bool]]


def quick_forms(roots: Sequence[Vector], *, may_watch: bool, has_fma: bool, has_scalef: bool) -> QuickForms:
    """Return the results with repeated divisors divided by only once, and with inlined functions.

    Args:
        roots: the results.
        may_watch: whether magnitudes may be watched.
        has_fma: whether the processor multiplies and adds in one instruction.
        has_scalef: whether it multiplies by a power of two in one instruction.
    """
    shared = _share_divisors(roots, may_watch=may_watch)
    if not has_fma:
        return shared
    sizes = [size for size, _ in shared.watched]
    results, watched = inline_functions([*shared.roots, *sizes], may_watch=may_watch, has_scalef=has_scalef)
    return QuickForms(results[: len(roots)], [*((size, True) for size in results[len(roots) :]), *watched])


def value_bounds(order: Sequence[Vector]) -> dict[Vector, Bounds]:
    """Return lower and upper bounds of the value of each vector, given after its inputs. Any value may also be nan."""
    bounds: dict[Vector, Bounds] = {}
    for vector in order:
        bounds[vector] = _bounds_of_result(vector, bounds)
    return bounds


def is_moderate(bounds: Bounds) -> bool:
    """Return whether values between these bounds are positive and far from the ends of the range of floats."""
    low, high = bounds
    return low >= MIN_MODERATE and high <= MAX_MODERATE


def _bounds_of_result(vector: Vector, known: dict[Vector, Bounds]) -> Bounds:
    if vector.constant is not None and vector.constant == vector.constant:
        return vector.constant, vector.constant
    input_bounds = [known[each] for each in vector.inputs]
    match vector.op:
        case "fadd":
            (a, b), (c, d) = input_bounds
            return max(-math.inf, a + c), min(math.inf, b + d)  # for nan, the infinity
        case "fmul" if min(input_bounds)[0] >= 0:
            (a, b), (c, d) = input_bounds
            return max(0.0, a * c), min(math.inf, b * d)
        case "fmul" if vector.inputs[0] is vector.inputs[1]:
            return 0.0, math.inf
        case "fneg":
            return -input_bounds[0][1], -input_bounds[0][0]
        case "fabs":
            return 0.0, max(map(abs, input_bounds[0]))
        case "select":
            (a, b), (c, d) = input_bounds[1:]
            return min(a, c), max(b, d)
        case "call" if vector.detail == "exp":
            return 0.0, 2.0 if input_bounds[0][1] <= 0 else math.inf
    return _UNBOUNDED


def _share_divisors(roots: Sequence[Vector], *, may_watch: bool) -> QuickForms:
    """Return the results, rewritten so that each repeated divisor is divided by only once."""
    order = topological_order(roots)
    bounds = value_bounds(order)
    counts = Counter(vector.inputs[1] for vector in order if _is_approximable(vector) and vector.is_varying)
    repeated = {divisor: is_moderate(bounds[divisor]) for divisor, count in counts.items() if count > 1}
    shared = [divisor for divisor, is_safe in repeated.items() if is_safe or may_watch]
    watched = [divisor for divisor in shared if not repeated[divisor]]

    def replacement(vector: Vector, inputs: Sequence[Vector]) -> Vector | None:
        if not _is_approximable(vector) or vector.inputs[1] not in shared:
            return None
        n, d = inputs
        return n * d.code.make("fdiv", d.code.as_vector(1.0), d)

    results = rewrite([*roots, *watched], replacement)
    return QuickForms(results[: len(roots)], [(abs(divisor), True) for divisor in results[len(roots) :]])


def _is_approximable(vector: Vector) -> bool:
    """Return whether an instruction is a quotient that may be off by more than half a unit in the last place."""
    return vector.op == "fdiv" and vector.detail != ROUNDED


_INLINED_INSTRUCTIONS = 30  # estimated instructions of an inlined function
_MAX_LOOP_INSTRUCTIONS = 2000  # LLVM takes too long for longer loops

# Adding this to a number moves its integer part to the last bits.
_ROUNDING_SHIFT = 1.5 * 2.0**52

_LN2_PARTS = (0.6931471805599453, 2.3190468138462996e-17)  # the parts of log(2)
# (exp(r) - 1 - r)/r² for |r| < log(2)/2, highest power first.
_EXP_COEFFICIENTS = (
    2.510038549551032e-08, 2.7620088445409746e-07, 2.7557268459997064e-06, 2.4801521295954376e-05,
    0.00019841269863053618, 0.0013888888917213717, 0.008333333333330062, 0.04166666666662413, 0.16666666666666669,
    0.5000000000000001,
)  # fmt: skip
_EXP_LIMIT = 750.0  # exp underflows to 0 or overflows beyond

# The parts of π/2, all positive, so that -0 remains -0.
_HALF_PI_PARTS = (1.5707963267948966, 6.123233995736765e-17, 1.082856673921914e-32)
MAX_TRIG_ARGUMENT = 2.0**20  # for larger arguments the parts of π/2 have too few digits
# (sin(r)/r - 1)/r² and (cos(r) - 1 + r²/2)/r⁴ for |r| < π/4, in powers of r², highest first.
_SIN_COEFFICIENTS = (
    1.591810123027412e-10, -2.5051131455427946e-08, 2.755731610068303e-06, -0.0001984126983675497,
    0.008333333333330946, -0.16666666666666666,
)  # fmt: skip
_COS_COEFFICIENTS = (
    -1.1382614868556325e-11, 2.0876146024689747e-09, -2.7557317270560326e-07, 2.4801587298763433e-05,
    -0.0013888888888887395, 0.041666666666666664,
)  # fmt: skip

# (log((1 + s)/(1 - s)) - 2s)/s³ for |s| < (√2 - 1)/(√2 + 1), in powers of s², highest first.
_LOG_COEFFICIENTS = (
    0.14616721179861816, 0.15331699633543858, 0.18182889786191042, 0.2222221112572281, 0.28571428626031065,
    0.3999999999989938, 0.666666666666667,
)  # fmt: skip


def inline_functions(roots: Sequence[Vector], *, may_watch: bool, has_scalef: bool) -> QuickForms:
    """Return the results with all varying function calls inlined, or with none if a call would remain.

    Args:
        roots: the results.
        may_watch: whether functions whose arguments must be watched are inlined.
        has_scalef: whether the processor multiplies by a power of two in one instruction.
    """
    order = topological_order(roots)
    called = {
        vector for vector in order if vector.op == "call" and vector.detail not in INTRINSICS and vector.is_varying
    }
    is_long = len(order) + _INLINED_INSTRUCTIONS * len(called) > _MAX_LOOP_INSTRUCTIONS
    bounds = value_bounds(order)
    risky = {vector for vector in called if not _is_safe(vector.detail, bounds[vector.inputs[0]])} if called else set()
    if is_long or (risky and not may_watch) or any(vector.detail not in _INLINABLE for vector in called):
        return QuickForms([*roots], [])

    def replacement(vector: Vector, inputs: Sequence[Vector]) -> Vector | None:
        if vector not in called:
            return None
        (x,) = inputs
        if vector.detail in _QUARTER_TURNS:
            # scaled, so that the limit is the same for all
            watched[abs(x) * (MAX_MODERATE / MAX_TRIG_ARGUMENT)] = False
            return _inline_sine(x, _QUARTER_TURNS[vector.detail])
        if vector.detail in _LOG_FUNCTIONS:
            value, argument = _LOG_FUNCTIONS[vector.detail](x)
            if vector in risky:
                watched[argument] = True  # with its sign: a negative one is not moderate either
            return value
        return _inline_exp(x, scaling=has_scalef)

    watched: dict[Vector, bool] = {}
    return QuickForms(rewrite(roots, replacement), [*watched.items()])


def _is_safe(function: str, bounds: Bounds) -> bool:
    """Return whether a function's argument between these bounds need not be watched."""
    if function in _QUARTER_TURNS:
        return False
    shift = 1.0 if function == "log1p" else 0.0
    return function == "exp" or is_moderate((bounds[0] + shift, bounds[1] + shift))


def _round_scaled(x: Vector, scale: float) -> tuple[Vector, Vector]:
    """Return x·scale rounded to an integer, and a number that has this integer in its last bits."""
    shifted = fma(x, scale, _ROUNDING_SHIFT)
    return x.code.unfused("fsub", shifted, _ROUNDING_SHIFT), shifted


def _power_of_two(k: Vector) -> Vector:
    """Return 2^k for an integer k."""
    return k.code.make("exponent", k.code.unfused("fadd", k, _ROUNDING_SHIFT + 1023.0))


def _inline_exp(x: Vector, *, scaling: bool) -> Vector:
    near = minimum(maximum(x, -_EXP_LIMIT), _EXP_LIMIT)
    n, _ = _round_scaled(near, 1 / math.log(2))
    r = fma(n, -_LN2_PARTS[1], fma(n, -_LN2_PARTS[0], near))
    z = 1.0 + (r + r * r * polynomial(_EXP_COEFFICIENTS, r))
    if scaling:
        return x.code.make("scaled", z, n)
    half, _ = _round_scaled(n, 0.5)
    return z * _power_of_two(half) * _power_of_two(n - half)  # in two steps, since 2^n may overflow


def _log_of_parts(k: Vector, f: Vector) -> Vector:
    """Return log(2^k·(1 + f)) for f between √½ - 1 and √2 - 1 (the form of fdlibm's e_log.c)."""
    s = f / (2.0 + f)
    square, half = s * s, 0.5 * f * f
    rest = half - fma(k, _LN2_PARTS[1], s * fma(square, polynomial(_LOG_COEFFICIENTS, square), half))
    return fma(k, _LN2_PARTS[0], f - rest)


def _split_exponent(x: Vector) -> tuple[Vector, Vector]:
    """Return k and m with x = 2^k·m and m between √½ and √2, for positive x that is not denormal."""
    code = x.code
    return code.unfused("fsub", code.make("binade", x), 2.0**52 + 1023.0), code.make("mantissa", x)


def _inline_log(x: Vector) -> tuple[Vector, Vector]:
    """Return log(x), and x, which must be watched."""
    k, m = _split_exponent(x)
    return _log_of_parts(k, fma(x, 0.0, m) - 1.0), x  # keeps nan


def _inline_log1p(x: Vector) -> tuple[Vector, Vector]:
    """Return log(1 + x) with the rounding error of the sum corrected, and 1 + x, which must be watched."""
    total = x.code.unfused("fadd", x, 1.0)
    k, m = _split_exponent(total)
    f = fma(finite_sum_error(x, 1.0), _power_of_two(-k), m - 1.0)
    return copysign(_log_of_parts(k, f), x), total


def _reduce_angle(x: Vector) -> tuple[Vector, Vector]:
    """Return x minus a multiple of π/2, and a number that has the multiple in its last bits."""
    n, shifted = _round_scaled(x, 2 / math.pi)
    r = x
    for piece in _HALF_PI_PARTS:
        r = fma(n, -piece, r)
    return r, shifted


def _inline_sine(x: Vector, quarters: float) -> Vector:
    """Return the sine of x plus a number of quarter turns."""
    code = x.code
    r, shifted = _reduce_angle(x)
    square = r * r
    sine = copysign(r + r * square * polynomial(_SIN_COEFFICIENTS, square), r)  # keeps the sign of -0
    cosine = 1.0 - fma(-square * square, polynomial(_COS_COEFFICIENTS, square), 0.5 * square)
    at = code.unfused("fadd", shifted, quarters) if quarters else shifted
    return code.make("flip_sign", where(code.make("is_odd", at), cosine, sine), at)


_LOG_FUNCTIONS = {"log": _inline_log, "log1p": _inline_log1p}
_QUARTER_TURNS = {"sin": 0.0, "cos": 1.0}
_INLINABLE = {"exp", *_LOG_FUNCTIONS, *_QUARTER_TURNS}


# --- Operations of formulas

VectorFunction = Callable[..., Vector]


def _mod(a: Vector, b: Vector) -> Vector:
    """Return the remainder with the sign of b; C's fmod has the sign of a."""
    rest = a.code.make("frem", a, b)
    adjusted = where(~equal(rest, 0.0) & not_equal(as_number(rest < 0.0), as_number(b < 0.0)), rest + b, rest)
    return where(equal(rest, 0.0), copysign(0.0, b), adjusted)


def _sign(x: Vector) -> Vector:
    return where(equal(x, 0.0) | is_nan(x), x, copysign(1.0, x))


def _library_function(name: str) -> VectorFunction:
    return lambda *inputs: inputs[0].code.call(name, *inputs)


ARITHMETIC: dict[str, VectorFunction] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "neg": lambda a: -a, "mod": _mod, "abs": abs, "sign": _sign, "copysign": copysign,
    "eq": lambda a, b: as_number(equal(a, b)), "ne": lambda a, b: as_number(not_equal(a, b)),
    "lt": lambda a, b: as_number(a < b), "le": lambda a, b: as_number(a <= b),
    "gt": lambda a, b: as_number(a > b), "ge": lambda a, b: as_number(a >= b),
    "and": lambda a, b: as_number(as_condition(a) & as_condition(b)),
    "or": lambda a, b: as_number(as_condition(a) | as_condition(b)),
    "not": lambda a: as_number(~as_condition(a)),
    "floor": _library_function("floor"), "ceil": _library_function("ceil"), "round": _library_function("roundeven"),
    "where": lambda condition, a, b: where(as_condition(condition), a, b),
    "max": lambda *xs: functools.reduce(maximum, xs), "min": lambda *xs: functools.reduce(minimum, xs),
    "product_error": product_error, "sum_error": sum_error,
}  # fmt: skip


# --- Powers

_WHOLE_POWERS: dict[float | None, VectorFunction] = {
    -2.0: lambda x: 1.0 / x / x, -1.0: lambda x: 1.0 / x, 0.0: lambda x: x.code.as_vector(1.0),
    0.5: lambda x: sqrt(x) + 0.0,  # adding 0 turns -0 into 0, the power of -0
    1.0: lambda x: x, 2.0: lambda x: x * x, 3.0: lambda x: x * x * x, 4.0: lambda x: (x * x) * (x * x),
}  # fmt: skip

_INEXACT_POWERS = (-2.0, 3.0, 4.0)  # their products have two roundings


# --- Hyperbolic functions, from exponentials that do not overflow

# (tanh(x)/x - 1)/x² as a polynomial in x² for |x| < 1/2, highest power first: a Chebyshev fit, accurate to 2^-56.
_TANH_COEFFICIENTS = (
    5.946956589763009e-05, -0.00022107222975850652, 0.0005849653729021945, -0.001454959384380447,
    0.0035920334653723896, -0.008863229270067843, 0.021869488297234514, -0.05396825396361009,
    0.13333333333329825, -0.3333333333333333,
)  # fmt: skip


def _tanh(x: Vector) -> Vector:
    size = abs(x)
    far = exp(-2.0 * size)
    z = x * x
    near = size + size * (z * polynomial(_TANH_COEFFICIENTS, z))
    return copysign(where(size < 0.5, near, (1.0 - far) / (1.0 + far)), x)


def _sech_square(x: Vector) -> Vector:
    far = exp(-2.0 * abs(x))
    return 4.0 * far / ((1.0 + far) * (1.0 + far))


_VECTOR_FUNCTIONS: dict[str, Callable[..., Vector | None]] = {
    **ARITHMETIC,
    **{name: _library_function(name) for name in (*PLATFORM_FUNCTIONS, "sqrt", "sinh", "hypot") if name != "cbrt"},
    "platform_cbrt": _library_function("cbrt"), "platform_pow": _library_function("pow"),
    "pow": lambda x, y: _WHOLE_POWERS[y.constant](x) if y.constant in _WHOLE_POWERS else None,
    "tanh": _tanh, "coth": lambda x: 1.0 / _tanh(x), "sech_square": _sech_square,
}  # fmt: skip


def apply_rounded(op: Op, *inputs: Vector) -> Vector:
    """Return the result of an elementwise operation whose arithmetic is rounded as in NumPy, as `apply_to_vectors`."""
    if op.name == "pow" and inputs[1].constant in _INEXACT_POWERS:
        return inputs[0].code.call("pow", *inputs)
    with inputs[0].code.separate_rounding():
        return apply_to_vectors(op, *inputs)


def apply_to_vectors(op: Op, *inputs: Vector) -> Vector:
    """Return the result of an elementwise operation on vectors.

    Raises:
        CompilationError: if the platform's library lacks a function that it needs.
    """
    function = _VECTOR_FUNCTIONS.get(op.name)
    value = None if function is None else function(*inputs)
    if value is not None:
        return value
    code = inputs[0].code
    if op.name in RARE_FUNCTIONS:
        needed, usual, *arguments = inputs
        path = _cold_path(op.name, len(arguments))
        return code.make("cold_path", as_condition(needed), usual, *arguments, detail=path)
    definition = _definition(op, tuple(vector.constant for vector in inputs))
    if definition is None:
        symbol = compiled_symbol(op.name)
        if symbol is None:
            raise CompilationError(f"the C library lacks a function that {op.name} needs")
        return code.call(symbol, *inputs)
    with code.separate_rounding() if definition.has_errors else contextlib.nullcontext():
        return definition.evaluate(inputs)


@functools.cache
def _cold_path(name: str, count: int) -> ColdPath:
    """Return the code of a rarely needed form of `count` inputs; one object for each."""
    code, placeholders = VectorCode(), [variable(f"x{k}") for k in range(count)]
    arguments = [code.make("argument", detail=k, is_varying=True) for k in range(count)]
    definition = _define(placeholders, function_form(RARE_FUNCTIONS[name], *placeholders))
    with code.separate_rounding():
        return ColdPath(count, definition.evaluate(arguments))


class _Definition(NamedTuple):
    """The graph of an operation over placeholders.

    Attributes:
        placeholders: the inputs.
        graph: the value.
        has_errors: whether it contains rounding errors. Its operations must then be rounded separately.
    """

    placeholders: Sequence[Node]
    graph: Node
    has_errors: bool

    def evaluate(self, inputs: Sequence[Vector]) -> Vector:
        """Return its value."""
        code, values = inputs[0].code, dict(zip(self.placeholders, inputs, strict=True))

        def value(node: Node) -> Vector:
            if node.op is None:
                return code.as_vector(parse_constant(node.text))
            return apply_to_vectors(node.op, *[values[child] for child in node.inputs])

        return infer(self.graph, values, value)


def _define(placeholders: Sequence[Node], graph: Node) -> _Definition:
    ops = (node.op.name for node in topological_order([graph]) if node.op)
    return _Definition(placeholders, graph, any(name in ("product_error", "sum_error") for name in ops))


@functools.lru_cache(4096)
def _definition(op: Op, constants: tuple[float | None, ...]) -> _Definition | None:
    """Return the careful form of an operation, or its expansion; None if it has neither.

    Args:
        op: the operation.
        constants: the constant at each input; None for an input that is not a constant.
    """
    placeholders = op.placeholders(len(constants))
    if op.name in DEFINITIONS or op.name in FORM_FUNCTIONS:
        operands: list[Node | float] = [x if c is None else c for x, c in zip(placeholders, constants, strict=True)]
        try:
            return _define(placeholders, careful_form(op.name, *operands))
        except NotImplementedError:
            return None
    expansion = None if op.name in ARRAYS.table else op.expand(len(constants))
    return None if expansion is None else _define(placeholders, expansion)

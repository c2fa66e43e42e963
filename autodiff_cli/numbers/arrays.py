"""NumPy arrays as a kind of number: functions of arrays, structural operations, the table of operations, long doubles,
and perturbed arrays.

Rows of data are the last axis of every array. An array of shape `s` in a formula has the shape `s + (rows,)`, or `s +
(1,)` if it is equal for all rows. Elementwise operations then broadcast without reshaping, a layer over a block of rows
is one matrix product, and the rows of each element are contiguous in memory.

Elementary and activation functions that NumPy lacks, or computes carelessly, are evaluated as graphs; see `forms`.
Special functions are the functions of floats, compiled and applied to every element.

Arithmetic follows IEEE 754. Evaluate inside `ignore_float_errors()`, because NumPy would print a warning for every nan
or infinity.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial, reduce
from typing import Any

import numpy as np

from autodiff_cli.array_types import Array
from autodiff_cli.graph.node import Node, Op
from autodiff_cli.graph.tape import LazyTable
from autodiff_cli.numbers import float_functions, floats, forms, gamma_functions, special_functions
from autodiff_cli.numbers.floats import Operation
from autodiff_cli.numbers.forms import careful_form, function_form
from autodiff_cli.numbers.kind import Kind

# --- Functions of floats as machine code ---


class Elementwise:
    """A function of floats that is applied to every element of arrays, which are broadcast together.

    It is compiled when it is first called. Without llvmlite it runs in Python, which takes a hundred times as long.

    >>> import math
    >>> Elementwise(math.erf)([0.0, 1.0]).tolist() == [math.erf(0.0), math.erf(1.0)]
    True
    """

    def __init__(self, function: Callable[..., float]) -> None:
        self._function = function
        self._apply: Callable[..., Array] | None = None

    def __call__(self, *arguments: Any) -> Array:
        arrays = (
            np.broadcast_arrays(*(np.asarray(x, np.float64) for x in arguments)) if len(arguments) > 1 else arguments
        )
        rows = self._apply = (
            self._apply or _compile_rows(self._function, len(arguments)) or _interpret_rows(self._function)
        )
        return rows(*(np.require(array, np.float64, ("C", "A")) for array in arrays))


def _interpret_rows(function: Callable[..., float]) -> Callable[..., Array]:
    def rows(*arrays: Array) -> Array:
        values = map(function, *(array.ravel().tolist() for array in arrays))
        return np.fromiter(values, np.float64, arrays[0].size).reshape(arrays[0].shape)

    return rows


def _compile_rows(function: Callable[..., float], count: int) -> Callable[..., Array] | None:
    """Return the compiled function of arrays; None if llvmlite is not installed or the platform lacks a function."""
    try:
        engine = _machine_code(function)
    except (ImportError, OSError):  # not installed, or too little memory to load it
        return None
    if engine is None:
        return None
    address = ctypes.c_void_p
    run = ctypes.CFUNCTYPE(None, address, ctypes.c_int64, *[address] * count)(engine.get_function_address("rows"))

    def rows(*arrays: Array) -> Array:
        out = np.empty(arrays[0].shape)
        run(out.ctypes.data, out.size, *(array.ctypes.data for array in arrays))
        return out

    return rows


@cache
def compiled_symbol(op: str) -> str | None:
    """Return the symbol of the compiled function of floats that computes an operation, for compiled code to call.

    None if the platform's library lacks a function that it calls.
    """
    from autodiff_cli.numbers.machine_code import add_symbol

    engine = _machine_code(_COMPILABLE[op])
    if engine is None:
        return None
    add_symbol(f"autodiff_{op}", engine.get_function_address("one"))
    return f"autodiff_{op}"


@cache  # keeps the machine code alive
def _machine_code(function: Callable[..., float]) -> Any:
    """Return an engine with the compiled function; None if the platform's library lacks a function that it calls."""
    import llvmlite.binding as llvm

    from autodiff_cli.numbers.machine_code import compile_assembly, initialize, llvm_program

    text = llvm_program(function)
    library = ctypes.CDLL(None if os.name == "posix" else "ucrtbase")
    for name in re.findall(r"^declare double @(\w+)\(", text, re.MULTILINE):
        if not hasattr(library, name):
            return None
        llvm.add_symbol(name, ctypes.cast(getattr(library, name), ctypes.c_void_p).value)
    initialize()
    target = llvm.Target.from_default_triple().create_target_machine(opt=2, reloc="pic", codemodel="default", jit=True)

    def optimize(module: Any, machine: Any) -> None:
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))

    return compile_assembly("function", text, target, optimize=optimize)


# --- Functions of NumPy, and primitives of careful forms ---


def _extremum(pick: np.ufunc) -> Callable[..., Array]:
    """Return the extreme of some numbers; of equal ones the first, as Python does. NumPy may return 0 or -0."""

    def first_extreme(x: Array, y: Array) -> Array:
        z = pick(x, y)
        return z if np.all(z) else np.where(z == x, x, z)

    return lambda *xs: reduce(first_extreme, xs)


# NumPy's comparisons and logical operations, which return truth values.
LOGICAL_UFUNCS: dict[str, np.ufunc] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not,
}  # fmt: skip

ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "mod": np.mod,
    "abs": np.abs, "sign": lambda x: np.where(x == 0, x, np.sign(x)),
    "floor": np.floor, "ceil": np.ceil, "round": np.round,
    "max": _extremum(np.maximum), "min": _extremum(np.minimum),
}  # fmt: skip

NUMPY_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "square": np.square, "sqrt": np.sqrt,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "coth": lambda x: 1 / np.tanh(x), "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "hypot": np.hypot,
    "erf": Elementwise(math.erf), "erfc": Elementwise(math.erfc), "erfinv": Elementwise(float_functions.erfinv),
}  # fmt: skip


# --- Careful forms ---


class ArrayForm:
    """A function of arrays that evaluates the careful form of an operation, compiled for each number of inputs.

    Args:
        form: returns the form as a graph, given nodes.
        kind: returns the kind of number, which may be defined later.
    """

    def __init__(self, form: Callable[..., Node], kind: Callable[[], Kind[Any]] = lambda: _FORM_ARRAYS) -> None:
        self._functions = LazyTable(lambda count: kind().compile_form(form, count))

    def __call__(self, *arrays: Any) -> Any:
        return self._functions[len(arrays)](*arrays)


def _lazily(name: str) -> Callable[..., Any]:
    """Return the function that evaluates a rarely needed form only if an element needs it."""
    careful = ArrayForm(partial(function_form, forms.RARE_FUNCTIONS[name]))
    return lambda needed, usual, *xs: np.where(needed, careful(*xs), usual) if np.any(needed) else usual


_sinc_derivative_elementwise = Elementwise(special_functions.sinc_derivative)
product_error = ArrayForm(partial(function_form, float_functions.product_error))
_sinc_slope = ArrayForm(partial(function_form, special_functions.sinc_slope))


ELEMENTARY: dict[str, Callable[..., Any]] = {
    **{name: ArrayForm(partial(careful_form, name)) for name in {**forms.DEFINITIONS, **forms.FORM_FUNCTIONS}},
    **NUMPY_FUNCTIONS,
    **ARITHMETIC,
}

_SPECIAL_FUNCTIONS = special_functions.OPERATIONS | gamma_functions.OPERATIONS
_COMPILABLE = {**_SPECIAL_FUNCTIONS, "erfinv": float_functions.erfinv}  # functions with loops, which have no form
SPECIAL: dict[str, Any] = {
    **{name: Elementwise(function) for name, function in _SPECIAL_FUNCTIONS.items()},
    # The first derivative, which gradients need, is vectorized.
    "sinc_derivative": lambda n, x: _sinc_slope(x) if np.all(n == 1) else _sinc_derivative_elementwise(n, x),
}


def parse_constant(text: str) -> Any:
    """Return the number of a constant, given its text."""
    return np.float64(floats.parse_constant(text))


# The arrays of careful forms; conditions there are truth values, not numbers.
_FORM_ARRAYS: Kind[Any] = Kind(
    "arrays",
    {
        **ELEMENTARY,
        **SPECIAL,
        **LOGICAL_UFUNCS,
        "where": np.where,
        "product_error": product_error,
        "sum_error": ArrayForm(partial(function_form, float_functions.sum_error)),
        "copysign": np.copysign,
        "platform_cbrt": np.cbrt,
        "platform_pow": np.power,
        **{name: _lazily(name) for name in forms.RARE_FUNCTIONS},
    },
    parse_constant,
)


# --- Structural operations ---


def _with_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of arrays that also accepts plain numbers, which get an axis of one row."""
    return lambda *xs: function(*[np.reshape(x, (1,)) if np.ndim(x) == 0 else x for x in xs])


def _flat(x: Array) -> Any:
    """Return an array with all elements along the first axis and the rows along the second."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])  # -1 has no meaning for no rows


def _sum_like(x: Array, like: Array) -> Any:
    x = x.sum(axis=tuple(range(x.ndim - like.ndim)))
    return x.sum(axis=tuple(i for i in range(like.ndim - 1) if like.shape[i] == 1 < x.shape[i]), keepdims=True)


_SMALL_PRODUCT = 1 << 14  # the product of the sizes of two arrays, up to which BLAS is not faster


def _matmul(a: Array, b: Array) -> Any:
    if a.shape[-1] == b.shape[-1] == 1 and a.size * b.size <= _SMALL_PRODUCT:
        return dots(a[..., 0] if b.ndim == 2 else a[..., None, :, 0], b[..., 0].T)[..., None]
    if a.shape[-1] == 1:
        return np.tensordot(a[..., 0], b, axes=1)
    if b.shape[-1] == 1:
        # The rows, which are where `a` has them, move to the last axis.
        return np.moveaxis(np.tensordot(a, b[..., 0], axes=([-2], [0])), a.ndim - 2, -1)
    left, right = "ij"[2 - (a.ndim - 1) :], "jk"[: b.ndim - 1]
    return np.einsum(f"{left}r,{right}r->{left[:-1]}{right[1:]}r", a, b)


def _broadcast_rows(xs: tuple[Array, ...]) -> list[Array]:
    rows = max((x.shape[-1] for x in xs), key=lambda count: (count != 1, count))  # 0 rows and 1 are 0
    return [np.broadcast_to(x, (*x.shape[:-1], rows)) for x in xs]


def _index(x: Array, *positions: Array) -> Any:
    rows = len(positions[-1])
    if rows == 1:
        return x[_as_index(positions)]
    return x[positions[0].astype(np.intp), np.arange(rows) if x.shape[-1] > 1 else 0]  # an element for each row


def _as_index(positions: tuple[Array, ...]) -> tuple[int, ...]:
    return tuple(int(position[0]) for position in positions)


def _place(x: Array, like: Array, *positions: Array) -> Any:
    rows = len(positions[-1])
    placed = np.zeros((*like.shape[:-1], x.shape[-1] if rows == 1 else rows), x.dtype)
    if rows == 1:
        placed[_as_index(positions)] = x
    else:
        placed[positions[0].astype(np.intp), np.arange(rows)] = x
    return placed


def _pad(x: Array, start: Array, stop: Array, like: Array) -> Any:
    padded = np.zeros((*like.shape[:-1], x.shape[-1]), x.dtype)
    padded[int(start[0]) : int(stop[0])] = x
    return padded


_STRUCTURAL: dict[str, Callable[..., Any]] = {
    "broadcast_like": lambda x, like: np.broadcast_to(x, np.broadcast_shapes(x.shape, like.shape)),
    "sum_like": _sum_like,
    "sum": lambda x: _flat(x).sum(axis=0),
    "size": lambda x: np.full(1, float(math.prod(x.shape[:-1]))),
    "largest": lambda x: _flat(x).max(axis=0),
    "smallest": lambda x: _flat(x).min(axis=0),
    "matmul": _matmul,
    "outer": lambda a, b: a[:, None, :] * b[None, :, :],
    "prod": lambda x: _flat(x).prod(axis=0),
    **{op.name: ArrayForm(definition, lambda: ARRAYS) for op, definition in forms.ARRAY_DEFINITIONS.items()},
    "stack": lambda *xs: np.stack(_broadcast_rows(xs)),
    "index": _index,
    "place": _place,
    "concat": lambda *xs: np.concatenate(_broadcast_rows(xs)),
    "part": lambda x, start, stop: x[int(start[0]) : int(stop[0])],
    "pad": _pad,
    "transpose": lambda x: x.swapaxes(0, -2) if x.ndim > 1 else x,
}

STRUCTURAL = {name: _with_rows(function) for name, function in _STRUCTURAL.items()}


def dots(a: Array, b: Array) -> Array:
    """Return the dot products along the last axis, with bits that depend on nothing else than the numbers.

    BLAS, and so `np.vecdot`, rounds a product and a sum at once on some processors, and on some adds in an order that
    depends on the address.
    """
    return np.asarray(np.add.reduce(a * b, axis=-1))


def _as_float(compare: np.ufunc) -> Callable[..., Array]:
    # Rules add conditions to count ties, but `True + True` is `True` in NumPy, so conditions are floats.
    return lambda *xs: np.asarray(compare(*xs), dtype=np.float64)


ARRAYS: Kind[Any] = Kind(
    "arrays",
    {
        **ELEMENTARY,
        **SPECIAL,
        **{name: _as_float(truth) for name, truth in LOGICAL_UFUNCS.items()},
        "where": lambda condition, a, b: np.where(condition != 0, a, b),
        **STRUCTURAL,
    },
    parse_constant,
)


# --- Long doubles: the platform's extended precision ---

# Functions that have float constants, or are compiled, have no long-double version. On most platforms a long double has
# 11 bits more than a float, on some 60 more. The ratio is that of their rounding errors.
LONGDOUBLE_EPS_RATIO = float(np.finfo(np.longdouble).eps / np.finfo(np.float64).eps)

_PRECISION_GENERIC_OPS = (
    *ARITHMETIC, *LOGICAL_UFUNCS, *STRUCTURAL,
    *(name for name in NUMPY_FUNCTIONS if not name.startswith("erf")),
    "where", "pow", "quotient_slope", "pow_slope_base", "times_log", "vanishing_product", "vanishing_quotient",
    "edge_distance", "direction", "atan_slope", "sech", "csch", "sech_square", "csch_square",
    "sigmoid", "sigmoid_slope", "silu", "silu_slope", "softplus", "logsigmoid", "softsign",
)  # fmt: skip


class _LongDouble(Kind[Any]):
    def function(self, op: Op, count: int) -> Callable[..., Any]:
        """Return the function that applies `op` to `count` arrays.

        Raises:
            NotImplementedError: if float arrays have a function for it and long doubles have none, because the
                expansion may lose digits.
        """
        if op.name in ARRAYS.table and op.name not in self.table:
            raise NotImplementedError(f"{op.name} is not defined for {self.name}")
        return super().function(op, count)


LONGDOUBLE: Kind[Any] = _LongDouble(
    "arrays of long doubles",
    {name: ARRAYS.table[name] for name in _PRECISION_GENERIC_OPS},
    lambda text: np.longdouble(floats.DIGITS.get(text, text)),
)


# --- Perturbed arrays, for stochastic arithmetic: see `floats` ---

_LARGE_ARRAY = 1 << 14  # elements, above which exactness is tested for the whole array only
_FACTOR_PERIOD = 4099  # factors until they repeat: a prime, so that rows and columns of an array get different ones


@lru_cache(maxsize=6)
def _factor_table(run: int, periods: int) -> Array:
    """Return the factors of one run, repeated `periods` times. They are irregular, with a mean of 1."""
    return np.tile(1 + np.array(floats.perturbation_ulps(run, _FACTOR_PERIOD)) * floats.EPSILON, periods)


class _ArrayFactors:
    """The sequences of factors that perturb results in several runs at once.

    Attributes:
        undecided: where a comparison in the runs so far is in doubt, by row; one element if rows are not compared.
    """

    def start(self, runs: Sequence[int]) -> None:
        self._runs, self._at, self._count = runs, 0, 0
        if runs[0] == floats.PERTURBED_RUNS[0]:
            self._ranges: list[tuple[Any, Any]] = []  # ranges of the sides of each comparison, and of their difference
            self.undecided: Any = np.zeros(1, dtype=bool)

    def like(self, x: Any) -> Array:
        """Return the next factors: one for each element of an array and each run, with the runs along the last axis."""
        shape = np.shape(x)[:-1]
        start, stop = self._at, self._at + math.prod(shape)
        self._at = stop % _FACTOR_PERIOD
        periods = 2 << (stop // _FACTOR_PERIOD).bit_length()
        return np.stack([_factor_table(run, periods)[start:stop] for run in self._runs], axis=-1).reshape(*shape, -1)

    def compared(self, a: Any, b: Any) -> None:
        """Record the two sides of a comparison, and whether the runs so far leave it in doubt."""
        for number in (a, b, a - b):
            self._observe(np.atleast_1d(number))

    def has_comparisons(self) -> bool:
        """Return whether the runs so far have compared numbers."""
        return bool(self._ranges)

    def _observe(self, number: Any) -> None:
        least = greatest = number
        if len(self._runs) > 1:
            least, greatest = (pick(number, axis=-1, keepdims=True) for pick in (np.min, np.max))
        if self._count == len(self._ranges):
            self._ranges.append((least, greatest))
        else:
            before = self._ranges[self._count]
            least, greatest = np.minimum(before[0], least), np.maximum(before[1], greatest)
            self._ranges[self._count] = least, greatest
        self._count += 1
        undecided: Any = floats.is_undecided(least, greatest) | ~np.isfinite(number)
        if np.any(undecided):
            rows = undecided if len(self._runs) == 1 else undecided.any(axis=-1, keepdims=True)
            self.undecided = self.undecided | rows.any(axis=tuple(range(rows.ndim - 1)))


ARRAY_FACTORS = _ArrayFactors()


def start_perturbed_array_run(*runs: int) -> Kind[Any]:
    """Start some of the perturbed runs at once, and return their kind of number.

    The runs are the last axis of every array, which has length 1 for a number that is not perturbed yet.
    """
    ARRAY_FACTORS.start(runs)
    return _perturbed_arrays().with_constants(_perturbed_constant, np.float64)


def _perturbed_constant(text: str) -> Any:
    return np.atleast_1d(floats.perturbed_constant(text, lambda: ARRAY_FACTORS.like(np.ones(1))))


def _perturb(z: Any) -> Any:
    z = z * ARRAY_FACTORS.like(z)
    # An infinity becomes nan, because it may be caused by overflow only.
    return z if math.isfinite(np.sum(z)) else np.where(np.isinf(z), np.nan, z)


def _lift_underflow(function: Operation, inputs: Sequence[int] | None) -> Operation:
    def value(*xs: Any) -> Any:
        z, chosen = function(*xs), xs if inputs is None else [xs[k] for k in inputs]
        if not np.any(np.abs(z) < floats.SMALLEST_NORMAL):
            return z
        return _lifted(z, reduce(np.logical_and, [x != 0 for x in chosen], True))

    return value


def _lifted(z: Any, is_nonzero: Any) -> Any:
    """Return a result with a tiny normal number where it underflows although its exact value is not 0."""
    return np.where((np.abs(z) < floats.SMALLEST_NORMAL) & is_nonzero, np.copysign(floats.UNDERFLOW_SUBSTITUTE, z), z)


def _perturb_if_rounded(function: Operation, is_exact: Operation | None) -> Operation:
    def value(*xs: Any) -> Any:
        z = function(*xs)
        if np.size(z) > _LARGE_ARRAY and not _are_all_short(z):
            return _perturb(z)
        exact = _is_short(z)
        if not np.any(exact):
            return _perturb(z)
        for x in xs:
            exact = exact & _is_short(x)
        if is_exact is not None:
            exact = exact & is_exact(*xs)
        return z if np.all(exact) else np.where(exact, z, _perturb(z))

    return value


def _is_short(x: Any) -> Any:
    scaled = np.asarray(x) * 1024
    return (np.floor(scaled) == scaled) & (np.abs(x) < floats.SHORT_LIMIT)


# Structural operations perturb each term of a sum, as if it had been rounded on its own.


def _are_all_short(x: Array) -> bool:
    """Return whether all elements are short. The first row is tested first, since it usually contains one that is
    not."""
    return bool(np.all(_is_short(x[:1])) and np.all(_is_short(x)))


def _perturbed_sum(function: Operation) -> Operation:
    def value(x: Array, *like: Array) -> Any:
        is_exact = _are_all_short(x) and np.sum(np.abs(x)) < floats.SHORT_LIMIT
        return function(x if is_exact else _perturb(x), *like)

    return value


def _perturbed_product(function: Operation) -> Operation:
    """Return a perturbed sum of products, with `UNDERFLOW_SUBSTITUTE` where it underflows from nonzero products."""

    def value(a: Array, b: Array) -> Any:
        is_short = _are_all_short(a) and _are_all_short(b)
        if is_short and np.all(function(np.abs(a), np.abs(b)) * 1024 < floats.SHORT_LIMIT):
            return function(a, b)
        is_large = max(a.size, b.size) > _LARGE_ARRAY
        z = function(a, _perturb(b)) if (a.size > b.size) == is_large else function(_perturb(a), b)
        if is_large:
            z = _perturb(z)  # the perturbed factor was the same for all rows, so perturb their sums too
        underflowed = np.abs(z) < floats.SMALLEST_NORMAL
        if np.any(underflowed):
            terms = function((a != 0) * 1.0, (b != 0) * 1.0)
            z = np.where(underflowed & (terms > 0), _perturb(np.copysign(floats.UNDERFLOW_SUBSTITUTE, z)), z)
        return z

    return value


def _perturbed_logsumexp(x: Array) -> Any:
    flat = x.reshape(-1, x.shape[-1])
    maximum = flat.max(axis=0)
    shift = np.where(np.isfinite(maximum), maximum, 0.0)
    return _perturb(shift + _perturb(np.log(_perturb(np.exp(flat - shift).sum(axis=0)))))


def _perturbed_structural(elementwise: dict[str, Operation], perturb_exponential: Operation) -> dict[str, Operation]:
    multiply, unperturbed = elementwise["mul"], ARRAYS.table
    functions: dict[str, Operation] = {
        **{name: unperturbed[name] for name in ("broadcast_like", "transpose")},
        **{name: _perturbed_sum(unperturbed[name]) for name in ("sum", "sum_like")},
        **{name: _perturbed_product(unperturbed[name]) for name in ("matmul", "dot")},
        "outer": lambda a, b: multiply(a[:, None, :], b[None, :, :]),
        "norm": lambda x: _perturb(_lifted(unperturbed["norm"](x), np.any(_flat(x) != 0, axis=0))),
        "prod": lambda x: _perturb(_lifted(unperturbed["prod"](x), np.all(_flat(x) != 0, axis=0))),
        "logsumexp": _perturbed_logsumexp,
        "softmax": lambda x: perturb_exponential(_lifted(unperturbed["softmax"](x), np.isfinite(x))),
    }
    return {name: _with_rows(function) for name, function in functions.items()}


def _perturbed_operations() -> dict[str, Callable[..., Any]]:
    perturbation = floats.Perturbation(
        ARRAYS.table,
        perturb=_perturb,
        factors_like=ARRAY_FACTORS.like,
        compared=ARRAY_FACTORS.compared,
        lift_underflow=_lift_underflow,
        perturb_if_rounded=_perturb_if_rounded,
        is_product=lambda x, y: product_error(x, y) == 0,
    )
    functions = perturbation.functions()
    return {**functions, **_perturbed_structural(functions, perturbation.perturb_exponential)}


class _PerturbedArrays(Kind[Any]):
    """Perturbed arrays. Constants within rules are not perturbed, because they are computed once for all runs."""

    def _evaluate(self, node: Node, inputs: Sequence[Any]) -> Any:
        return ARRAYS._evaluate(node, inputs)


@cache
def _perturbed_arrays() -> Kind[Any]:
    """Return the kind of number of perturbed arrays. It is made at its first use, since few commands need it."""
    return _PerturbedArrays("perturbed arrays", _perturbed_operations(), _perturbed_constant, {})

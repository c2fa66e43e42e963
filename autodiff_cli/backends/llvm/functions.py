"""Operations on vectors: a table with the instructions of each operation, like the tables of floats and arrays.

Conditions are the numbers 1 and 0. Between comparisons and choices they remain masks, because `as_condition` of an
`as_number` is the mask itself.

The table has the functions of the mathematical library, and functions that share one exponential, such as tanh and
its slope. Other functions are evaluated by their careful forms, graphs of the operations in the table; see
`numbers.forms`. Composite operations are expanded. Special functions, which have loops, are the compiled functions of
floats, called for each lane.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

from autodiff_cli.backends.llvm.vectors import (
    ColdPath,
    Vector,
    VectorCode,
    as_condition,
    as_number,
    copysign,
    equal,
    exp,
    is_nan,
    maximum,
    minimum,
    not_equal,
    polynomial,
    product_error,
    sqrt,
    sum_error,
    where,
)
from autodiff_cli.backends.protocol import CompilationError
from autodiff_cli.graph.node import Node, Op, Operand, variable
from autodiff_cli.graph.tape import infer, topological_order
from autodiff_cli.numbers.array_functions import compiled_symbol
from autodiff_cli.numbers.arrays import ARRAYS
from autodiff_cli.numbers.floats import parse_constant
from autodiff_cli.numbers.forms import DEFINITIONS, FORM_FUNCTIONS, RARE_FUNCTIONS, careful_form, function_form
from autodiff_cli.numbers.machine_code import PLATFORM_FUNCTIONS

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
    "max": lambda *xs: reduce(maximum, xs), "min": lambda *xs: reduce(minimum, xs),
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
        operands: list[Operand] = [x if c is None else c for x, c in zip(placeholders, constants, strict=True)]
        try:
            return _define(placeholders, careful_form(op.name, *operands))
        except NotImplementedError:
            return None
    expansion = None if op.name in ARRAYS.table else op.expand(len(constants))
    return None if expansion is None else _define(placeholders, expansion)

"""Careful forms of operations, as graphs for numbers that are evaluated many at a time.

The careful form of an operation is written once, as a function of floats. This module turns the source code of such a
function into a graph without branches: a conditional expression, or an `if` statement, becomes a `where`; calls of
operations become nodes; other functions are inlined; constants are folded. NumPy arrays, vector instructions and
exported NumPy programs evaluate these graphs.

A function in `RARELY_NEEDED` becomes a lazy branch: it is evaluated only if some element needs it.
"""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import copysign
from types import FunctionType
from typing import Any, TypeAlias, cast

from autodiff_cli.graph.node import Node, Op, Operand, all_ops, as_node, constant, get_op
from autodiff_cli.numbers import float_functions, portable_functions, special_functions
from autodiff_cli.numbers.float_functions import RARELY_NEEDED, divide, product_error, sum_error
from autodiff_cli.numbers.floats import OPERATIONS
from autodiff_cli.numbers.sources import OPERATIONS as OPERATORS
from autodiff_cli.numbers.sources import parse_function
from autodiff_cli.ops.arithmetic import abs_, and_, equal, less, less_equal, max_, min_, not_, not_equal, or_, where
from autodiff_cli.ops.functions import exp, log, sqrt, square
from autodiff_cli.ops.structural import dot, finite_largest, largest, logsumexp, norm, softmax, sum_

_INFINITY = as_node(math.inf)


def _norm(x: Node) -> Node:
    """Return the Euclidean norm, scaled by the largest element so that squares neither overflow nor vanish."""
    sizes = abs_(x)
    scale = largest(sizes)
    is_scalable = and_(scale > 0, scale < _INFINITY)
    return where(is_scalable, scale * sqrt(sum_(square(sizes / where(is_scalable, scale, 1)))), scale)


def _logsumexp(x: Node) -> Node:
    shift = finite_largest(x)
    return shift + log(sum_(exp(x - shift)))


def _softmax(x: Node) -> Node:
    z = exp(x - finite_largest(x))  # as in logsumexp, whose slope this is, so that kernels compute it once
    return z / sum_(z)


# Forms of operations on whole arrays.
ARRAY_DEFINITIONS: Mapping[Op, Callable[..., Node]] = {
    norm: _norm,
    logsumexp: _logsumexp,
    softmax: _softmax,
    dot: lambda a, b: sum_(a * b),
}


# Forms of operations that floats compute by anonymous functions.
DEFINITIONS: Mapping[str, Callable[..., Node]] = {
    "quotient_slope": lambda x, y: x / y / y,
    "relu": lambda x: where(less_equal(x, 0), 0, x),
    "square": lambda x: x * x,
    "edge_distance": abs_,
    "clip": lambda x, low, high: min_(max_(x, low), high),
    "where_defined": lambda z, slope: where(equal(z, z), slope, constant("nan")),
}


def _has_source(function: Callable[..., float]) -> bool:
    """Return whether this is a Python function that is neither a lambda nor a closure."""
    return isinstance(function, FunctionType) and "<" not in function.__qualname__


# The functions of floats that may have such graphs, by the names of their operations.
FORM_FUNCTIONS: Mapping[str, Callable[..., float]] = {
    **{name: function for name, function in float_functions.OPERATIONS.items() if _has_source(function)},
    **{name: special_functions.OPERATIONS[name] for name in ("exp_over_x", "cosh_over_x", "sinhc", "sinc_derivative")},
    "pow": portable_functions.power,
}


# --- Primitives besides the operations of formulas ---


def _primitive(name: str, count: int = 2) -> Op:
    return Op(name=name, min_inputs=count, max_inputs=count)


def _rare_primitive(function: FunctionType) -> Op:
    """Return the operation on a condition, a usual value and arguments of a function: its value where needed."""

    def expansion(needed: Node, usual: Node, *arguments: Node) -> Node:
        return where(needed, function_form(function, *arguments), usual)

    count = 2 + function.__code__.co_argcount
    return Op(name=f"rarely{function.__name__}", min_inputs=count, max_inputs=count, expansion=expansion)


_RARE_OPS = {function: _rare_primitive(cast(FunctionType, function)) for function in RARELY_NEEDED}
RARE_FUNCTIONS: Mapping[str, FunctionType] = {op.name: cast(FunctionType, f) for f, op in _RARE_OPS.items()}

_OPS_OF_FUNCTIONS: dict[Any, Op] = {
    **{getattr(math, op.name): op for op in all_ops() if hasattr(math, op.name)},
    **{function: get_op(name) for name, function in OPERATIONS.items()},
    divide: get_op("div"), max: get_op("max"), min: get_op("min"),
    product_error: _primitive("product_error"), sum_error: _primitive("sum_error"), copysign: _primitive("copysign"),
    math.cbrt: _primitive("platform_cbrt", 1), math.pow: _primitive("platform_pow"),  # less careful than the operations
}  # fmt: skip
_PREDICATES: dict[Any, Callable[[Node], Node]] = {
    math.isnan: lambda x: not_equal(x, x),
    math.isinf: lambda x: equal(abs_(x), _INFINITY),
    math.isfinite: lambda x: less(abs_(x), _INFINITY),
}


# --- Conversion of functions of floats ---

_Value: TypeAlias = "Operand | _RareCall"


class _RareCall:
    """A call of a function in `RARELY_NEEDED`, which a choice turns into a lazy branch."""

    def __init__(self, function: FunctionType, arguments: Sequence[Node]) -> None:
        self.op = _RARE_OPS[function]
        self.arguments = arguments
        self._function = function

    def graph(self) -> Node:
        """Return the function's result as a graph that is always evaluated."""
        return function_form(self._function, *self.arguments)


def careful_form(name: str, *operands: Operand) -> Node:
    """Return an operation as a graph of operations that its float function consists of, with constants folded.

    Raises:
        NotImplementedError: if the function has loops, so that it has no such graph.

    >>> from autodiff_cli.graph.node import variable
    >>> from autodiff_cli.language.printer import to_text
    >>> to_text(careful_form("times_log", variable("a"), variable("x")))
    'where(a == 0 and x >= 0, 0, a*log(x))'
    """
    if name in DEFINITIONS:
        return DEFINITIONS[name](*map(as_node, operands))
    return function_form(FORM_FUNCTIONS[name], *operands)


def function_form(function: Callable[..., float], *operands: Operand) -> Node:
    """Return the graph of a function of floats."""
    return _Converter(cast(FunctionType, function)).convert(operands)


class _Converter:
    """Converts one function of floats to a graph."""

    def __init__(self, function: FunctionType) -> None:
        self._function = function
        self._definition = parse_function(function)

    def convert(self, arguments: Sequence[Operand]) -> Node:
        """Return the graph of the function's result."""
        return as_node(_force(self.call(arguments)))

    def call(self, arguments: Sequence[Operand]) -> _Value:
        """Return the function's result: a number if it does not depend on a node."""
        defaults = self._function.__defaults__ or ()
        names = [argument.arg for argument in self._definition.args.args]
        missing = len(names) - len(arguments)
        values = [*arguments, *defaults[len(defaults) - missing :]]
        result = self._block(self._definition.body, dict(zip(names, values, strict=True)))
        assert result is not None, self._function.__name__
        return result

    def _block(self, body: Sequence[ast.stmt], local: dict[str, Operand]) -> _Value | None:
        """Return the value that statements return; None if they return none. They may assign to `local`."""
        for k, statement in enumerate(body):
            match statement:
                case ast.Expr(value=ast.Constant()):
                    pass  # the docstring
                case ast.Return(value=ast.expr() as value):
                    return self._value(value, local)
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    local[name] = self._operand(value, local)
                case ast.For(target=ast.Name(id=name), iter=ast.Name(id=table), body=repeated):
                    for number in self._function.__globals__[table]:
                        local[name] = number
                        self._block(repeated, local)
                case ast.If(test=test, body=then, orelse=otherwise):
                    rest = body[k + 1 :]
                    condition = self._operand(test, local)
                    if not isinstance(condition, Node):
                        return self._block([*(then if condition else otherwise), *rest], local)
                    first = self._block([*then, *rest], dict(local))
                    second = self._block([*otherwise, *rest], dict(local))
                    assert first is not None
                    assert second is not None
                    return _choose(condition, first, second)
                case _:
                    raise NotImplementedError(ast.unparse(statement))
        return None

    def _operand(self, node: ast.expr, local: Mapping[str, Operand]) -> Operand:
        return _force(self._value(node, local))

    def _value(self, node: ast.expr, local: Mapping[str, Operand]) -> _Value:
        match node:
            case ast.Constant(value=int(value) | float(value)):
                return float(value)
            case ast.Name(id=name):
                return local[name] if name in local else float(self._function.__globals__[name])
            case ast.Attribute(attr=name):
                return float(getattr(math, name))
            case ast.BinOp(op=ast.Pow(), left=left, right=right):
                return float(ast.literal_eval(left) ** ast.literal_eval(right))
            case ast.BinOp(left=left, op=operator, right=right):
                return _apply(
                    get_op(OPERATORS[type(operator)]), self._operand(left, local), self._operand(right, local)
                )
            case ast.UnaryOp(op=operator, operand=operand):
                return _apply(get_op(OPERATORS[type(operator)]), self._operand(operand, local))
            case ast.BoolOp(op=operator, values=parts):
                return _join([self._operand(part, local) for part in parts], isinstance(operator, ast.And))
            case ast.Compare(left=left, ops=operators, comparators=rights):
                sides = [self._operand(side, local) for side in (left, *rights)]
                links = [
                    _apply(get_op(OPERATORS[type(operator)]), a, b)
                    for a, operator, b in zip(sides, operators, sides[1:], strict=False)
                ]
                return _join(links, is_and=True)
            case ast.IfExp(test=test, body=then, orelse=otherwise):
                condition = self._operand(test, local)
                if not isinstance(condition, Node):
                    return self._value(then if condition else otherwise, local)
                return _choose(condition, self._value(then, local), self._value(otherwise, local))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                called = self._function.__globals__.get(name) or getattr(builtins, name)
                return _call(called, [self._operand(argument, local) for argument in arguments])
            case ast.Call(func=ast.Attribute(attr=name), args=arguments):
                return _call(getattr(math, name), [self._operand(argument, local) for argument in arguments])
        raise NotImplementedError(ast.unparse(node))


def _force(value: _Value) -> Operand:
    """Return a value for a place where no lazy branch is possible."""
    return value.graph() if isinstance(value, _RareCall) else value


def _choose(condition: Node, first: _Value, second: _Value) -> Node:
    """Return the first value where a condition holds, else the second."""
    if isinstance(first, _RareCall):
        return first.op(condition, _force(second), *first.arguments)
    if isinstance(second, _RareCall):
        return second.op(not_(condition), first, *second.arguments)
    return where(condition, first, second)


def _join(conditions: Sequence[Operand], is_and: bool) -> Operand:
    """Return the conjunction or disjunction of conditions, without those that are known."""
    unknown = [condition for condition in conditions if isinstance(condition, Node)]
    known = [bool(condition) for condition in conditions if not isinstance(condition, Node)]
    if not unknown or (not is_and) in known:
        return float(all(known) if is_and else any(known))
    return reduce(and_ if is_and else or_, unknown)


def _apply(op: Op, *operands: Operand) -> Operand:
    """Return an operation, as a number if all operands are numbers."""
    if not any(isinstance(operand, Node) for operand in operands):
        return OPERATIONS[op.name](*cast(Sequence[float], operands))
    return operands[0] if (op.name, operands[-1]) in (("sub", 0.0), ("div", 1.0), ("mul", 1.0)) else op(*operands)


def _call(called: Any, operands: Sequence[Operand]) -> _Value:
    """Return a call of a function of floats."""
    nodes = [as_node(operand) for operand in operands]
    if not any(isinstance(operand, Node) for operand in operands):
        return float(called(*operands))
    if called in _PREDICATES:
        return _PREDICATES[called](*nodes)
    if called in _OPS_OF_FUNCTIONS:
        return _OPS_OF_FUNCTIONS[called](*nodes)
    if not _has_source(called):
        raise NotImplementedError(called)
    return _RareCall(called, nodes) if called in _RARE_OPS else _Converter(called).call(operands)

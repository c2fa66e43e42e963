"""NumPy: element by element, by the rules of broadcasting. What it lacks runs in Python, element after element."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from autodiff_cli.graph.node import Node, constant
from autodiff_cli.graph.straight import PRODUCT, SIGN, Fragment, Notation, call
from autodiff_cli.numbers.sources import variable_name
from autodiff_cli.ops.activations import sigmoid, softplus
from autodiff_cli.ops.arithmetic import abs_, and_, equal, greater, greater_equal, less, not_equal, or_, sign
from autodiff_cli.ops.choice import max_, min_, where
from autodiff_cli.ops.elementary import atanh, exp, log, sin
from autodiff_cli.ops.elementary import pow_ as power
from autodiff_cli.targets.definitions import two_at_a_time
from autodiff_cli.targets.python import ARITHMETIC, DIVISION, PythonLibrary
from autodiff_cli.targets.target import Target, shortest

AND, OR, UNARY = 7, 6, 13
POWER = SIGN + 1
_SAME = (
    "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan",
    "sinh", "cosh", "tanh", "abs", "sign", "floor", "ceil", "square",
)  # fmt: skip
_OTHERS = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
    "round": "rint", "sum": "sum", "prod": "prod", "size": "size", "largest": "max", "smallest": "min",
    "transpose": "transpose", "norm": "linalg.norm",
}  # fmt: skip
_OF_TWO = {
    "atan2": "arctan2", "hypot": "hypot", "mod": "mod", "max": "maximum", "min": "minimum", "logaddexp": "logaddexp",
    "outer": "outer", "dot": "vdot",
}  # fmt: skip


def array_notations(module: str) -> dict[str, Notation]:
    """What libraries of arrays write alike, but for the name of the module."""
    return {
        **ARITHMETIC,
        "div": DIVISION,
        "pow": Notation(("", "**", ""), (POWER + 1, POWER), POWER),
        "matmul": Notation(("", " @ ", ""), (PRODUCT, PRODUCT + 1), PRODUCT),
        "and": Notation(("", " & ", ""), (AND + 1, AND + 1), AND, True, (0, 1)),
        "or": Notation(("", " | ", ""), (OR + 2, OR + 2), OR, True, (0, 1)),
        "not": Notation(("~", ""), (UNARY,), SIGN, True, (0,)),
        "where": Notation((f"{module}.where(", ", ", ", ", ")"), (0, 0, 0), conditions=(0,)),
        "stack": Notation((f"{module}.stack([", ", ", "])"), (0, 0)),
        "index": Notation(("", "[", "]"), (UNARY, 0)),
        "index/3": Notation(("", "[", ", ", "]"), (UNARY, 0, 0)),
        "part": Notation(("", "[", ":", "]"), (UNARY, 0, 0)),
    }


def _slope_base(x: Node, y: Node) -> Node:
    z = power(x, y)
    is_usual = or_(not_equal(z, z), and_(greater(abs_(z), 1e-290), less(abs_(z), constant("inf"))))
    return where(equal(y, 0), 0, where(is_usual, y * (z / x), y * power(x, y - 1)))


def _slope_exponent(x: Node, y: Node) -> Node:
    at_0 = where(greater(y, 0), 0, constant("nan"))
    return where(and_(equal(x, 0), greater_equal(y, 0)), at_0, power(x, y) * log(x))


def _sinc(x: Node) -> Node:
    return where(equal(x, 0), 1, where(equal(abs_(x), constant("inf")), 0, sin(x) / x))


def _sigmoid(x: Node) -> Node:
    z = exp(-abs_(x))
    return where(greater_equal(x, 0), 1, z) / (1 + z)


def _sigmoid_slope(x: Node) -> Node:
    z = exp(-abs_(x))
    return z / (1 + z) / (1 + z)


def _logit(x: Node) -> Node:
    is_middle = and_(greater(x, 0.25), less(x, 0.75))
    return where(is_middle, 2 * atanh(2 * x - 1), log(x / (1 - x)))


# Branches that floats take one at a time: here both are computed, and one is chosen element by element.
DEFINITIONS: Mapping[str, Callable[..., Node | None]] = {
    "pow_slope_base": _slope_base,
    "pow_slope_exponent": _slope_exponent,
    "max": two_at_a_time(max_),
    "min": two_at_a_time(min_),
    "times_log": lambda a, x: where(and_(equal(a, 0), equal(x, x)), 0, a * log(x)),
    "sinc": _sinc,
    "sigmoid": _sigmoid,
    "sigmoid_slope": _sigmoid_slope,
    "proportion": lambda x, y: sigmoid(x - y),
    "logsigmoid": lambda x: -softplus(-x),
    "logit": _logit,
    "softsign": lambda x: where(equal(abs_(x), constant("inf")), sign(x), x / (1 + abs_(x))),
}
NOTATIONS = {
    **array_notations("np"),
    **{name: call(f"np.{name}", 1) for name in _SAME},
    **{name: call(f"np.{theirs}", 1) for name, theirs in _OTHERS.items()},
    **{name: call(f"np.{theirs}", 2) for name, theirs in _OF_TWO.items()},
    "relu": Notation(("np.maximum(", ", 0)"), (0,)),
    "heaviside": Notation(("np.heaviside(", ", 0.5)"), (0,)),
    "softplus": Notation(("np.logaddexp(", ", 0)"), (0,)),
    "within": Notation(("np.where(np.isnan(", "), np.nan, ", ")"), (0, 0)),
    "concat": Notation(("np.concatenate([", ", ", "])"), (0, 0)),
    "broadcast_like": Notation(("np.broadcast_to(", ", np.shape(", "))"), (0, 0)),
    **{name: call(name, 1) for name in ("erf", "erfc", "logsumexp", "softmax")},
    "power": call("np.power", 2),
    "sum_like": call("sum_like", 2),
    "place": call("place", 3),
    "pad": call("pad", 4),
}
NATIVES = {
    "erf": "erf = np.vectorize(math.erf, otypes=[float])\n",
    "erfc": "erfc = np.vectorize(math.erfc, otypes=[float])\n",
    "logsumexp": '''\
def logsumexp(x):
    """log(sum(exp(x))), without overflow."""
    top = np.max(x)
    level = top if np.isfinite(top) else 0.0
    return level + np.log(np.sum(np.exp(x - level)))
''',
    "softmax": '''\
def softmax(x):
    """exp(x) over its sum, without overflow."""
    z = np.exp(x - np.max(x))
    return z / np.sum(z)
''',
    "sum_like": '''\
def sum_like(x, like):
    """x summed over the axes along which an array like the other was stretched to it."""
    x = np.sum(x, axis=tuple(range(np.ndim(x) - np.ndim(like))))
    stretched = tuple(k for k, length in enumerate(np.shape(like)) if length == 1 < np.shape(x)[k])
    return np.sum(x, axis=stretched, keepdims=True)
''',
    "place": '''\
def place(x, like, *index):
    """Zeros of the shape of another array, with x at an index."""
    placed = np.zeros(np.shape(like))
    placed[index] = x
    return placed
''',
    "pad": '''\
def pad(x, start, stop, like):
    """Zeros of the shape of another array, with x from one index up to another."""
    padded = np.zeros(np.shape(like))
    padded[start:stop] = x
    return padded
''',
}
NUMPY = Target(
    name="numpy",
    notations=NOTATIONS,
    numbers={"pi": "np.pi", "tau": "(2*np.pi)", "e": "np.e", "inf": "np.inf", "nan": "np.nan"},
    literal=shortest,
    as_number=Notation(("np.where(", ", 1.0, 0.0)"), (0,)),
    as_condition=ARITHMETIC["ne"]._replace(texts=("", " != 0"), least=ARITHMETIC["ne"].least[:1]),
    definitions=DEFINITIONS,
    natives=NATIVES,
)


def literal_array(operands: Sequence[Fragment], head: str, tail: str) -> Fragment | None:
    """An array of numbers, or of such arrays, as one literal; None if anything else is among the operands.

    >>> literal_array([Fragment("1"), Fragment("-2.5")], "np.array(", ")").text
    'np.array([1, -2.5])'
    """
    inside = []
    for part in operands:
        is_array = part.text.startswith(f"{head}[") and part.text.endswith(f"]{tail}")
        if not is_array and not re.fullmatch(r"-?\d[\d.]*(e-?\d+)?", part.text):
            return None
        inside.append(part.text[len(head) : -len(tail)] if is_array else part.text)
    return Fragment(f"{head}[{', '.join(inside)}]{tail}")


class NumpyLibrary(PythonLibrary):
    """Functions of Python, for each element of arrays."""

    def need(self, name: str) -> str:
        """See to it that what has this name is there."""
        if name in self.target.natives and name not in self.texts:
            self.texts[name] = self.target.natives[name]
            return name
        return super().need(name)

    def operation(self, op: str, operands: Sequence[Fragment]) -> Fragment:
        """An operation on operands, or a call of the function for it."""
        if op == "pow" and not operands[1].text.isdigit():
            op = "power"  # for which `**` is not always right: at -inf, say
        if op == "stack" and (found := literal_array(operands, "np.array(", ", dtype=float)")) is not None:
            return found
        if self.target.notation(op, len(operands)) is not None:
            return self.noted(op, operands)
        name = variable_name(op)
        assert name is not None, f"NumPy has no {op}"
        own = f"{self.need(name).lstrip('_')}_of"
        self.texts[own] = f"{own} = np.vectorize({name}, otypes=[float])\n"
        return call(own, len(operands)).of([*map(self.target.given, operands)])

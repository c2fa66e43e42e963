"""JAX and PyTorch, which differentiate by themselves: functions of the value, from what they can differentiate."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from autodiff_cli.graph.node import Node, constant
from autodiff_cli.graph.straight import Fragment, Notation, call
from autodiff_cli.ops.arithmetic import abs_, equal, less, mod, sign
from autodiff_cli.ops.choice import max_, min_, where
from autodiff_cli.ops.elementary import acos, acosh, asin, asinh, atan, atanh, log
from autodiff_cli.targets.definitions import two_at_a_time
from autodiff_cli.targets.library import Library
from autodiff_cli.targets.numpy import array_notations, literal_array
from autodiff_cli.targets.python import ARITHMETIC
from autodiff_cli.targets.target import Target, shortest


def _root(x: Node, n: Node) -> Node:
    is_odd = equal(mod(abs_(n), 2), 1)
    return where(less(x, 0), where(is_odd, -1, constant("nan")), 1) * abs_(x) ** (1 / n)


# Only the value matters: slopes are the frameworks' own.
DEFINITIONS: Mapping[str, Callable[..., Node | None]] = {
    "max": two_at_a_time(max_),
    "min": two_at_a_time(min_),
    "root": _root,
    "log_base": lambda x, base: log(x) / log(base),
    "asec": lambda x: acos(1 / x),
    "acsc": lambda x: asin(1 / x),
    "acot": lambda x: atan(1 / x),
    "asech": lambda x: acosh(1 / x),
    "acsch": lambda x: asinh(1 / x),
    "acoth": lambda x: atanh(1 / x),
    "heaviside": lambda x: 0.5 * (sign(x) + 1),
}
_ALIKE = (
    "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh",
    "abs", "sign", "floor", "ceil", "square", "sum", "prod",
)  # fmt: skip
_AS_CONDITION = ARITHMETIC["ne"]._replace(texts=("", " != 0"), least=ARITHMETIC["ne"].least[:1])


def _library(module: str, names: Mapping[str, str]) -> dict[str, Notation]:
    return {op: call(f"{module}.{theirs}", 1) for op, theirs in names.items()}


def _numbers(module: str) -> dict[str, str]:
    names = {name: f"{module}.{name}" for name in ("pi", "e", "inf", "nan")}
    return names | {"tau": f"(2*{module}.pi)"}


_JAX_NUMPY = {
    "cbrt": "cbrt", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "round": "rint", "size": "size", "largest": "max", "smallest": "min",
    "transpose": "transpose", "norm": "linalg.norm",
}  # fmt: skip
_JAX_NN = {
    "relu": "relu", "sigmoid": "sigmoid", "softplus": "softplus", "logsigmoid": "log_sigmoid", "silu": "silu",
    "mish": "mish", "softsign": "soft_sign", "elu": "elu", "celu": "celu", "selu": "selu", "leaky_relu": "leaky_relu",
    "hardtanh": "hard_tanh", "relu6": "relu6",
}  # fmt: skip
_JAX_SPECIAL = {
    "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "gamma": "gamma", "lgamma": "gammaln", "digamma": "digamma",
    "Ei": "expi", "logit": "logit", "logsumexp": "logsumexp",
}  # fmt: skip
JAX = Target(
    name="jax",
    notations={
        **array_notations("jnp"),
        **{name: call(f"jnp.{name}", 1) for name in _ALIKE},
        **_library("jnp", _JAX_NUMPY),
        **_library("jax.nn", _JAX_NN),
        **_library("jax.scipy.special", _JAX_SPECIAL),
        **{name: call(f"jax.scipy.special.{name}", 2) for name in ("polygamma", "beta", "gammainc", "gammaincc")},
        "atan2": call("jnp.arctan2", 2),
        "hypot": call("jnp.hypot", 2),
        "mod": call("jnp.mod", 2),
        "max": call("jnp.maximum", 2),
        "min": call("jnp.minimum", 2),
        "clip": call("jnp.clip", 3),
        "logaddexp": call("jnp.logaddexp", 2),
        "outer": call("jnp.outer", 2),
        "dot": call("jnp.vdot", 2),
        "gelu": Notation(("jax.nn.gelu(", ", approximate=False)"), (0,)),
        "sinc": Notation(("jnp.sinc(", "/jnp.pi)"), (ARITHMETIC["mul"].binding,)),
        "softmax": Notation(("jax.nn.softmax(", ", axis=None)"), (0,)),
        "concat": Notation(("jnp.concatenate([", ", ", "])"), (0, 0)),
        "stack": Notation(("jnp.array([", ", ", "])"), (0, 0)),
    },
    numbers=_numbers("jnp"),
    literal=shortest,
    as_number=Notation(("jnp.where(", ", 1.0, 0.0)"), (0,)),
    as_condition=_AS_CONDITION,
    definitions=DEFINITIONS,
)

_TORCH = {
    "asin": "asin", "acos": "acos", "atan": "atan", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh",
    "round": "round", "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "lgamma": "lgamma", "digamma": "digamma",
    "logit": "logit", "relu": "relu", "sigmoid": "sigmoid", "celu": "celu", "selu": "selu",
    "largest": "amax", "smallest": "amin", "norm": "linalg.norm", "size": "numel",
}  # fmt: skip
_TORCH_NN = {
    "logsigmoid": "logsigmoid", "silu": "silu", "gelu": "gelu", "softsign": "softsign", "elu": "elu",
    "leaky_relu": "leaky_relu", "hardtanh": "hardtanh", "relu6": "relu6",
}  # fmt: skip
_TORCH_OF_TWO = {
    "atan2": "atan2", "hypot": "hypot", "mod": "remainder", "max": "maximum", "min": "minimum",
    "logaddexp": "logaddexp", "outer": "outer", "gammainc": "special.gammainc", "gammaincc": "special.gammaincc",
}  # fmt: skip
_FUNCTIONAL = "torch.nn.functional"
TORCH = Target(
    name="torch",
    notations={
        **array_notations("torch"),
        **{name: call(f"torch.{name}", 1) for name in _ALIKE},
        **_library("torch", _TORCH),
        **_library(_FUNCTIONAL, _TORCH_NN),
        **{name: call(f"torch.{theirs}", 2) for name, theirs in _TORCH_OF_TWO.items()},
        "clip": call("torch.clamp", 3),
        # from there on it is x to all digits; torch's own default of 20 loses half of them
        "softplus": Notation((f"{_FUNCTIONAL}.softplus(", ", threshold=40)"), (0,)),
        "sinc": Notation(("torch.sinc(", "/torch.pi)"), (ARITHMETIC["mul"].binding,)),
        "dot": Notation(("torch.sum(", "*", ")"), (ARITHMETIC["mul"].binding, ARITHMETIC["mul"].binding + 1)),
        "softmax": Notation(("torch.softmax(", ", 0)"), (0,)),
        "logsumexp": Notation(("torch.logsumexp(", ".flatten(), 0)"), (99,)),
        "transpose": Notation(("", ".T"), (99,)),
        "concat": Notation(("torch.cat([", ", ", "])"), (0, 0)),
    },
    numbers=_numbers("torch"),
    literal=shortest,
    as_number=Notation(("torch.where(", ", 1.0, 0.0)"), (0,)),
    as_condition=_AS_CONDITION,
    definitions=DEFINITIONS,
)


class FrameworkLibrary(Library):
    """Nothing of its own: what a framework cannot differentiate it does not get."""

    def has(self, op: str) -> bool:  # noqa: ARG002 - there are none
        """Whether there is a function for an operation."""
        return False


class JaxLibrary(FrameworkLibrary):
    """Arrays of numbers are one literal."""

    def operation(self, op: str, operands: Sequence[Fragment]) -> Fragment:
        """An operation on operands."""
        found = literal_array(operands, "jnp.array(", ", dtype=float)") if op == "stack" else None
        return super().operation(op, operands) if found is None else found


class TorchLibrary(FrameworkLibrary):
    """PyTorch's functions take tensors, and some no plain number."""

    def operation(self, op: str, operands: Sequence[Fragment]) -> Fragment:
        """An operation on operands."""
        if op == "stack" and (found := literal_array(operands, "torch.tensor(", ", dtype=torch.float64)")) is not None:
            return found
        takes_numbers = op in ARITHMETIC or op in ("div", "pow", "where", "index", "part", "clip")
        if not takes_numbers:
            operands = [self._tensor(part) for part in operands]
        return self.noted(op, operands)

    def _tensor(self, part: Fragment) -> Fragment:
        is_number = re.fullmatch(r"([-+*/() ]|\d[\d.]*(e-?\d+)?|torch\.(pi|e|inf|nan))+", part.text)
        return Fragment(f"torch.tensor({part.text}, dtype=torch.float64)") if is_number else part

"""Python and its numeric frameworks: Python with `math`, NumPy, JAX and PyTorch.

Where a function of `math` raises an exception although IEEE 754 defines a result, a Python program includes the
function of `autodiff_cli.numbers` that replaces it; likewise for special functions. NumPy works element by element,
with broadcasting; functions that it lacks run in Python for each element. JAX and PyTorch differentiate by themselves,
so they get functions of the value, made of operations that they can differentiate.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from textwrap import fill
from types import MappingProxyType

from autodiff_cli.graph.codegen import ATOM_PRECEDENCE, PRODUCT, SIGN, SUM, Fragment, Notation, call_notation
from autodiff_cli.graph.node import Node, Op, constant
from autodiff_cli.numbers.float_functions import product_error, sum_error
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.numbers.forms import ARRAY_DEFINITIONS, DEFINITIONS, careful_form, function_form
from autodiff_cli.numbers.sources import Definition, find_definition, function_name, names_in
from autodiff_cli.numbers.translation import CODE_WIDTH, Library, Target
from autodiff_cli.ops.arithmetic import abs_, equal, greater, less, min_, mod, not_equal, or_, sign, where
from autodiff_cli.ops.functions import exp, gamma, lgamma
from autodiff_cli.ops.structural import logsumexp, norm, softmax
from autodiff_cli.targets.translation import SOURCE, expand_small_power, language_notations, shortest_literal

_LEVELS = {
    "CHOICE": 1, "OR": 2, "AND": 3, "NOT": 4, "ORDER": 5, "BIT_OR": 6, "BIT_AND": 7,
    "SUM": SUM, "PRODUCT": PRODUCT, "SIGN": SIGN, "POWER": SIGN + 1, "ATOM": ATOM_PRECEDENCE,
}  # fmt: skip
ARITHMETIC = language_notations(_LEVELS)
_AS_CONDITION = Notation(("", " != 0"), (SUM,), _LEVELS["ORDER"], True)
PYTHON = Target(
    name="python",
    # division raises an exception for 0
    notations={op: each for op, each in language_notations(_LEVELS, "python").items() if op != "div"},
    numbers={name: f"math.{name}" for name in ("pi", "tau", "e", "inf", "nan")},
    literal=shortest_literal,
    as_number=Notation(("float(", ")"), (0,)),
    as_condition=_AS_CONDITION,
    definitions={"pow": expand_small_power},
)


class PythonLibrary(Library):
    """The library of Python programs: our functions of floats, without type annotations."""

    def has_function(self, op: str) -> bool:
        """Return whether there is a function for an operation."""
        return function_name(op, prefer_portable=False) is not None

    def require(self, name: str) -> str:
        """Include the function or constant with this name and its dependencies, and return its name."""
        if name in self._in_progress or name in self.texts:
            return name
        definition = find_definition(name, prefer_portable=False)
        assert definition is not None, name
        self._in_progress.add(name)
        for other in dict.fromkeys(names_in(definition.node)):
            if other not in IMPORTED + _TYPES and find_definition(other, prefer_portable=False) is not None:
                self.require(other)
        text = self._text(name, definition)
        self.texts[name] = "" if text in self.texts.values() else text
        return name

    def operation(self, op: str, operands: Sequence[Fragment]) -> Fragment:
        """Return the code of an operation on operands, or a call of the function that computes it."""
        if op == "div" and is_nonzero(operands[1].text):
            return self.target.apply_notation(ARITHMETIC["div"], operands)
        if op == "neg" and operands[0].text == "0":
            return Fragment("-0.0", SIGN)  # the integer -0 is 0
        return super().operation(op, operands)

    def _call_function(self, op: str, operands: Sequence[Fragment]) -> Fragment:
        name = function_name(op, prefer_portable=False)
        assert name is not None, f"Python has no {op}"
        return self.target.apply_notation(call_notation(self.require(name), len(operands)), operands)

    @property
    def imports(self) -> str:
        """The import statement that the included functions need; empty if they need none."""
        words = {word for text in self.texts.values() for word in re.findall(r"(?<![.\w])\w+", text)}
        names = [name for name in IMPORTED if name in words]
        return f"from math import {', '.join(names)}\n" if names else ""

    def _text(self, name: str, definition: Definition) -> str:
        if isinstance(definition.node, ast.FunctionDef) and not definition.is_cached:
            text = re.sub(
                r"^( *def .*)$", lambda line: _without_annotations(line[0]), definition.text, flags=re.MULTILINE
            )
        elif definition.is_cached and (numbers := definition.table) is not None:
            lines = fill(", ".join(map(repr, numbers)), CODE_WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
            text = f"{name} = [\n{lines},\n]\n"
        else:
            text = definition.text
        for table in self.texts:  # tables that floats compute on demand are literals here
            text = text.replace(f"{table}()", table) if self.texts[table].startswith(f"{table} = [") else text
        return text


IMPORTED = ("copysign", "inf", "nan", "pi")
_TYPES = ("Function", "Callable")  # names in annotations, which are removed
_INDENT = "    "


_INDEXING = ("index", "part", "place", "pad")  # operations with positions among their operands
_NUMBERS = re.compile(r"([-+*/() .\d]|(?<=\d)e-?(?=\d)|(np|jnp|torch)\.(pi|e|inf|nan)\b)+")  # and operators alone


def is_nonzero(text: str) -> bool:
    """Return whether a piece of code is the literal of a number other than 0."""
    return re.fullmatch(r"[\d.]+(e-?\d+)?", text) is not None and float(text) != 0


def _without_annotations(line: str) -> str:
    """Return the first line of a function without type annotations."""
    untyped = re.sub(r": (float|int|Function|Callable\[\[float\], \w+\])|(?<=\)) -> [^:]+(?=:$)", "", line)
    return re.sub(r" = ", "=", untyped)


def _array_target(
    name: str,
    module: str,
    sections: Sequence[str],
    definitions: Mapping[str, Callable[..., Node]],
    array_literal: tuple[str, str],
    snippets: Mapping[str, str] = MappingProxyType({}),
    as_condition: Notation = _AS_CONDITION,
) -> Target:
    """Return the target of an array library, with what these libraries share.

    Args:
        module: the name of the library's module.
        sections: the sections of `notations.toml` with its notations, the general ones first.
    """
    return Target(
        name=name,
        notations=language_notations(_LEVELS, "arrays", *sections, prefix=f"{module}."),
        numbers={"tau": f"(2*{module}.pi)", **{each: f"{module}.{each}" for each in ("pi", "e", "inf", "nan")}},
        literal=shortest_literal,
        as_number=Notation((f"{module}.where(", ", 1.0, 0.0)"), (0,)),
        as_condition=as_condition,
        definitions={"pow": _real_power, **definitions},
        array_literal=array_literal,
        binary_ops=("max", "min"),
        snippets=snippets,
    )


def _real_power(x: Node, exponent: Node) -> Node:
    """Return the careful form of a power. Constant exponents are folded, so that integers need no condition."""
    return careful_form("pow", x, FLOATS.constant_values([exponent]).get(exponent, exponent))


def _extreme(wins: Op, x: Node, y: Node) -> Node:
    """Return the number that wins a comparison, the first of equal ones; nan if one of them is nan."""
    is_number = y.is_constant and y.text != "nan"
    return where(wins(y, x) if is_number else or_(wins(y, x), not_equal(y, y)), y, x)


# Operations that are defined by their careful forms. Other functions run in Python for each element.
_NUMPY_FORMS = (
    "pow_slope_base", "pow_slope_exponent", "times_log", "vanishing_quotient", "sinc", "sigmoid", "sigmoid_slope",
    "binary_softmax", "logsigmoid", "logit", "softsign",
    "asec", "acsc", "acoth", "asech", "acsch", "cbrt", "log_base", "direction", "coth", "sech_square", "csch_square",
    "atan_slope", "atanh_slope", "exp_minus_square", "exp_minus_half_square", "exp_square",
)  # fmt: skip
NUMPY_DEFINITIONS: Mapping[str, Callable[..., Node]] = {
    **{name: partial(careful_form, name) for name in _NUMPY_FORMS},
    **{op.name: ARRAY_DEFINITIONS[op] for op in (logsumexp, norm, softmax)},
    "clip": DEFINITIONS["clip"],
    "max": partial(_extreme, greater),
    "min": partial(_extreme, less),
    **{function.__name__: partial(function_form, function) for function in (sum_error, product_error)},
}
_NUMPY_ARRAY = ("np.array(", ", dtype=float)")
NUMPY = _array_target("numpy", "np", ("numpy_and_jax", "numpy"), NUMPY_DEFINITIONS, _NUMPY_ARRAY, SOURCE["numpy"])


class ArrayLibrary(Library):
    """The library of an array framework.

    Constants become floats: `np.where(x > 0, 2, 3)` has integers, which overflow.
    """

    def operation(self, op: str, operands: Sequence[Fragment]) -> Fragment:
        """Return the code of an operation on operands."""
        notation = self.target.notation(op, len(operands))
        conditions = () if notation is None else notation.conditions
        numbers = [k for k, part in enumerate(operands) if k not in conditions and _NUMBERS.fullmatch(part.text)]
        if self._needs_floats(op, operands, len(numbers) + len(conditions) == len(operands)):
            operands = [self._float(part) if k in numbers else part for k, part in enumerate(operands)]
        return super().operation(op, operands)

    def _needs_floats(self, op: str, operands: Sequence[Fragment], are_all_numbers: bool) -> bool:
        is_array = op == "stack" and self.target.literal_array(operands) is not None
        is_exact = op == "neg" and operands[0].text != "0"
        return are_all_numbers and not (is_array or is_exact or op in (*_INDEXING, "polygamma"))

    def _float(self, number: Fragment) -> Fragment:
        return number._replace(text=f"{number.text}.0") if number.text.lstrip("-").isdigit() else number


class NumpyLibrary(ArrayLibrary, PythonLibrary):
    """The library of NumPy programs: Python functions, applied to each element of arrays."""

    def require(self, name: str) -> str:
        """Include the function or constant with this name and its dependencies, and return its name."""
        if name in self.target.snippets and name not in self.texts:
            self.texts[name] = self.target.snippets[name]
            return name
        return super().require(name)

    def _call_function(self, op: str, operands: Sequence[Fragment]) -> Fragment:
        name = function_name(op, prefer_portable=False)
        assert name is not None, f"NumPy has no {op}"
        vectorized = f"{self.require(name).lstrip('_')}_of"
        self.texts[vectorized] = f"{vectorized} = np.vectorize({name}, otypes=[float])\n"
        return call_notation(vectorized, len(operands)).format([*map(self.target.coerce, operands)])


def _root(x: Node, n: Node) -> Node:
    return where(less(x, 0), where(equal(mod(abs_(n), 2), 1), -1, constant("nan")), 1) * abs_(x) ** (1 / n)


# The values matter, because the frameworks differentiate by themselves.
FRAMEWORK_DEFINITIONS: Mapping[str, Callable[..., Node]] = {
    "root": _root,
    **{name: partial(careful_form, name) for name in ("asec", "asech", "logit")},
}


def _jax_beta(a: Node, b: Node) -> Node:
    """Return beta by gamma functions. JAX's own has errors of 1e-6 in double precision."""
    is_small = less(a + b, 100)  # where no gamma function overflows
    p, q = where(is_small, a, 1), where(is_small, b, 1)  # so that the slopes of the other branch are finite
    by_logarithms = sign(gamma(min_(a, b))) * exp(lgamma(a) + lgamma(b) - lgamma(a + b))
    return where(is_small, gamma(p) * gamma(q) / gamma(p + q), by_logarithms)


JAX = _array_target(
    "jax",
    "jnp",
    ("numpy_and_jax", "jax"),
    {**FRAMEWORK_DEFINITIONS, "beta": _jax_beta},
    ("jnp.array(", ", dtype=float)"),
)
TORCH = _array_target(
    "torch",
    "torch",
    ("torch",),
    FRAMEWORK_DEFINITIONS,
    ("torch.tensor(", ", dtype=torch.float64)"),
    # PyTorch takes only tensors as conditions: a condition on constants is True or False.
    as_condition=Notation(("torch.as_tensor(", " != 0)"), (SUM,), is_condition=True),
)


class TorchLibrary(ArrayLibrary):
    """Converts numbers to tensors, because some functions of PyTorch accept only tensors."""

    def _needs_floats(self, op: str, operands: Sequence[Fragment], are_all_numbers: bool) -> bool:
        numbers = [k for k, part in enumerate(operands) if _NUMBERS.fullmatch(part.text)]
        is_literal = op == "stack" and self.target.literal_array(operands) is not None
        is_range = op == "clip" and numbers == [1, 2]  # the bounds are two numbers or two tensors
        takes_numbers = op in ARITHMETIC or op in ("pow", "where", *_INDEXING) or is_literal or is_range
        return not takes_numbers or super()._needs_floats(op, operands, are_all_numbers)

    def _float(self, number: Fragment) -> Fragment:
        return Fragment(f"torch.tensor({number.text}, dtype=torch.float64)")


LIBRARIES: Mapping[str, Callable[[], Library]] = {
    "python": partial(PythonLibrary, PYTHON),
    "numpy": partial(NumpyLibrary, NUMPY),
    "jax": partial(ArrayLibrary, JAX),
    "torch": partial(TorchLibrary, TORCH),
}

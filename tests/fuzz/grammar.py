"""Random formulas that mean something, from a seed: numbers, arrays, layers, functions, named intermediates.

Texts are made from the grammar downwards, each part with the shape that its place needs, so that nearly all of them can
be evaluated. Values are drawn from where formulas break: zeros, ends of domains, ties, very large numbers and very
small ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from autodiff_cli import parse
from autodiff_cli.graph.node import Shape
from autodiff_cli.ops import all_ops

CALLED = [op for op in all_ops() if op.spelling and not op.is_structural and not op.is_helper]
# Their first argument is a whole number, or they are so only by name; the general way would nearly always be nan.
WHOLE_FIRST = {"polygamma", "sinc_derivative", "sinhc_derivative"}
LAYER_ACTIVATIONS = ["tanh", "relu", "sigmoid", "softplus", "gelu"]

SCALARS = ("x", "y", "z")
ARRAYS: dict[str, Shape] = {"v": (3,), "w": (2,), "A": (2, 3), "B": (3, 2)}
SHAPES: tuple[Shape, ...] = ((2,), (3,), (2, 3), (3, 2))
NUMBERS = ["0", "1", "2", "3", "0.5", "-1", "1e-3", "2.5", "10", "pi", "e", "1/3", "7", "1e8", ".25", "6.02E23"]
SMALL = ["1", "2", "3", "4"]
SIGNS = {"*": ["*", "×", "·"], "/": ["/", "÷"], "-": ["-", "−"], "^": ["^", "**"], "<=": ["<=", "≤"], ">=": [">=", "≥"]}

SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, 6.0, 1e-8, -3e-8, 1e-300, 1e8, 1e150, -1e200, 54770.0]
BEYOND = [math.inf, -math.inf, math.nan]


@dataclass(frozen=True)
class Case:
    """A formula, and a value for each of its variables.

    Attributes:
        seed: what it was made from.
        has_arrays: whether anything in it is an array.
    """

    seed: int
    text: str
    point: dict[str, Any]
    has_arrays: bool

    def __str__(self) -> str:
        given = " ".join(f"--{name} '{_shown(value)}'" for name, value in self.point.items())
        return f"seed {self.seed}: {self.text!r} {given}"


def _shown(value: Any) -> str:
    return str(np.asarray(value).tolist()) if np.ndim(value) else repr(float(value))


@dataclass
class Writer:
    """Writes one formula.

    Args:
        arrays: whether it may have arrays.
        functions, named, scalars: the functions, named intermediates and variables that it may use.
    """

    chance: Random
    arrays: bool = True
    functions: dict[str, int] = field(default_factory=dict)  # the number of parameters of each
    named: dict[str, Shape] = field(default_factory=dict)
    scalars: tuple[str, ...] = SCALARS
    layers: int = 0

    def formula(self) -> str:
        """Declarations, functions, named intermediates, and an output that is a number."""
        lines: list[str] = []
        for k in range(self.chance.choice([0, 0, 0, 1, 2])):
            names = ("t", "u")[: self.chance.randint(1, 2)]
            inner = Writer(self.chance, arrays=False, functions=dict(self.functions), scalars=names)
            lines.append(f"f{k}({', '.join(names)}) = {inner.text((), 2)}")
            self.functions[f"f{k}"] = len(names)
        for k in range(self.chance.choice([0, 0, 0, 1, 2, 3])):
            shape = self.chance.choice(SHAPES) if self.arrays and self.chance.random() < 0.4 else ()
            lines.append(f"a{k} = {self.text(shape, 2)}")
            self.named[f"a{k}"] = shape
        lines.append(self.text((), self.chance.randint(1, 4)))
        text = "\n".join(lines)
        used = [name for name in ARRAYS if self.arrays and any(c == name for c in _words(text))]
        declared = [f"{name}: {'x'.join(map(str, ARRAYS[name]))}" for name in used]
        return self.chance.choice([";", "\n", "; "]).join([*declared, *lines])

    def text(self, shape: Shape, depth: int) -> str:
        """An expression of a shape, nested so deep at most."""
        if depth <= 0 or self.chance.random() < 0.12:
            return self._leaf(shape)
        forms: list[Callable[[Shape, int], str]] = [self._infix] * 4 + [self._call] * 4 + [self._sign, self._choice]
        if not shape:
            forms += [self._power] * 2 + [self._comparison, self._user]
            if self.arrays:
                forms += [self._reduction] * 3
        else:
            forms += [self._arranged] * 4
        return self.chance.choice(forms)(shape, depth - 1)

    # --- forms, each of a shape and a depth

    def _leaf(self, shape: Shape) -> str:
        bound = [name for name, own in self.named.items() if own == shape]
        if bound and self.chance.random() < 0.5:
            return self.chance.choice(bound)
        if shape:
            return self.chance.choice([name for name, own in ARRAYS.items() if own == shape])
        if self.chance.random() < 0.3:
            number = self.chance.choice(NUMBERS)
            return f"({number})" if "/" in number or number.startswith("-") else number
        return self.chance.choice(self.scalars)

    def _infix(self, shape: Shape, depth: int) -> str:
        sign = self.chance.choice(["+", "-", "*", "/", "+", "*", "-", "%"])
        left, right = self._both(shape, depth)
        return f"({left}{self._spelt(sign)}{right})"

    def _both(self, shape: Shape, depth: int) -> tuple[str, str]:
        """Two expressions that broadcast to a shape."""
        other = () if shape and self.chance.random() < 0.4 else shape
        both = self.text(shape, depth), self.text(other, depth)
        return both if self.chance.random() < 0.5 else (both[1], both[0])

    def _power(self, shape: Shape, depth: int) -> str:
        base = self.text(shape, depth)
        if self.chance.random() < 0.2:
            return f"({base}){self.chance.choice(['²', '³', '⁻¹'])}"
        exponent = self.chance.choice([*SMALL, "0.5", "-1", "-2", "1/3", "0", ""])
        return f"({base}){self._spelt('^')}({exponent or self.text((), depth - 1)})"

    def _call(self, shape: Shape, depth: int) -> str:
        op = self.chance.choice(CALLED)
        count = self.chance.randint(op.min_inputs, op.max_inputs or max(op.min_inputs, 3))
        parts = [self.text(shape if k == 0 else (), depth) for k in range(count)]
        if op.name in WHOLE_FIRST:
            parts = [self.chance.choice(["0", *SMALL]), self.text(shape, depth)]
        if op.name == "root":
            parts[1] = self.chance.choice(SMALL)
        return f"{self.chance.choice([op.spelling, *op.aliases])}({', '.join(parts)})"

    def _sign(self, shape: Shape, depth: int) -> str:
        return f"({self._spelt('-')}{self.text(shape, depth)})"

    def _comparison(self, shape: Shape, depth: int) -> str:
        sign = self._spelt(self.chance.choice(["<", "<=", ">", ">=", "==", "!="]))
        first = f"{self.text(shape, depth)} {sign} {self.text((), depth)}"
        if self.chance.random() < 0.2:
            first += f" {self._spelt(self.chance.choice(['<', '<=']))} {self.text((), depth)}"
        if self.chance.random() < 0.3:
            first = f"{first} {self.chance.choice(['and', 'or'])} not {self.text((), depth)}"
        return f"({first})"

    def _choice(self, shape: Shape, depth: int) -> str:
        left, right = self._both(shape, depth)
        return f"where({self._comparison((), depth - 1)}, {left}, {right})"

    def _user(self, shape: Shape, depth: int) -> str:
        if not self.functions:
            return self._call(shape, depth)
        name, count = self.chance.choice([*self.functions.items()])
        return f"{name}({', '.join(self.text((), depth) for _ in range(count))})"

    def _reduction(self, _: Shape, depth: int) -> str:
        shape = self.chance.choice(SHAPES)
        inner = self.text(shape, depth)
        kind = self.chance.choice(["fold", "fold", "element", "dot", "layer"])
        if kind == "element":
            return f"({inner})[{', '.join(str(self.chance.randrange(n)) for n in shape)}]"
        if kind == "dot":
            return f"dot({self.text(shape[-1:], depth)}, {self.text(shape[-1:], depth)})"
        if kind == "layer" and self.layers < 2 and "t" not in self.scalars:
            self.layers += 1
            vector = self.text(shape[-1:], depth)
            return self.chance.choice([f"mlp({vector}, [2], {self._activation()})", f"sum(dense({vector}, 2))"])
        return f"{self.chance.choice(['sum', 'mean', 'norm', 'prod', 'max', 'min', 'logsumexp'])}({inner})"

    def _arranged(self, shape: Shape, depth: int) -> str:
        """An array that is made of others, or of numbers."""
        if len(shape) == 1:
            forms = [
                lambda: f"[{', '.join(self.text((), depth) for _ in range(shape[0]))}]",
                lambda: f"({self.text((shape[0], 5 - shape[0]), depth)} @ {self.text((5 - shape[0],), depth)})",
                lambda: f"{self.chance.choice(['softmax', 'logsoftmax'])}({self.text(shape, depth)})",
                lambda: f"({self.text((5 - shape[0], shape[0]), depth)})[{self.chance.randrange(5 - shape[0])}]",
            ]
            if shape == (3,):
                forms.append(lambda: f"concat({self.text((2,), depth)}, [{self.text((), depth)}])")
            return self.chance.choice(forms)()
        rows, columns = shape
        return self.chance.choice(
            [
                lambda: f"[{', '.join(self.text((columns,), depth) for _ in range(rows))}]",
                lambda: f"transpose({self.text((columns, rows), depth)})",
                lambda: f"outer({self.text((rows,), depth)}, {self.text((columns,), depth)})",
                lambda: f"({self.text(shape, depth)} @ outer({self.text((columns,), 0)}, {self.text((columns,), 0)}))",
            ]
        )()

    def _activation(self) -> str:
        return self.chance.choice(LAYER_ACTIVATIONS)

    def _spelt(self, sign: str) -> str:
        """The sign in one of its spellings, with or without blanks."""
        chosen = self.chance.choice([sign, *SIGNS.get(sign, [])])
        return self.chance.choice([chosen, f" {chosen} "])


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "_" else " " for c in text).split()


def value(chance: Random, beyond: bool = False) -> float:
    """A number: half of them of moderate size, others where formulas break; with `beyond` also what is no number."""
    kind = chance.random()
    if beyond and kind < 0.03:
        return chance.choice(BEYOND)
    if kind < 0.5:
        return round(chance.gauss(0, 2), chance.choice([1, 2, 17]))
    if kind < 0.85:
        return chance.choice(SPECIAL)
    return chance.choice((1, -1)) * 10.0 ** chance.uniform(-12, 6)


def case(seed: int, arrays: bool = True, beyond: bool = True) -> Case:
    """The case of a seed: always the same."""
    chance = Random(seed)
    has_arrays = arrays and chance.random() < 0.5
    text = Writer(chance, arrays=has_arrays).formula()
    formula = parse(text)
    point = {
        name: np.array([value(chance, beyond) for _ in range(math.prod(formula.shapes[name]))]).reshape(
            formula.shapes[name]
        )
        if name in formula.shapes
        else value(chance, beyond)
        for name in formula.variables
    }
    return Case(seed, text, point, has_arrays)

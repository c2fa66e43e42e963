"""`Expression`: what users hold, and the one front door to everything below.

>>> f = parse("x*y + sin(x)")
>>> f.variables
('x', 'y')
>>> f(x=2, y=3)
6.909297426825682
>>> f.grad(x=2, y=3)
{'x': 2.5838531634528574, 'y': 2.0}
>>> print(f.derivative("x"))
y + cos(x)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from autodiff_cli.autodiff.forward import forward, tangents
from autodiff_cli.autodiff.reverse import reverse
from autodiff_cli.autodiff.simplify import share, simplify
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import ZERO
from autodiff_cli.graph.tape import Tape, pack, topological, unpack
from autodiff_cli.language.errors import ExpressionError, MissingValueError, UnknownNameError, suggest
from autodiff_cli.language.lowering import read
from autodiff_cli.language.printer import to_text
from autodiff_cli.numbers.floats import FLOATS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from autodiff_cli.language.source import Source

    Point: TypeAlias = Mapping[str, ArrayLike]
    Result: TypeAlias = float | NDArray[np.float64]


def parse(text: str, variables: Iterable[str] = ()) -> Expression:
    """Read a formula.

    Args:
        text: in the language of `docs/language.md`; several statements are several lines or separated by `;`.
        variables: names that are variables although they are constants of the language (`["e"]`).

    Raises:
        ExpressionError: if the text is not a formula; its `line` and `column` say where.
    """
    program = read(text, variables)
    if program.target is not None:
        start, _ = program.source.span(program.target) or (0, 0)
        raise ExpressionError(
            "`~` states a model, for `train` and `fit`; an expression has only a right side", text, start
        )
    return Expression(program.output, program.leaves, text=text, source=program.source, notes=program.notes)


class Expression:
    """A formula that can be evaluated and differentiated.

    Values are given as keywords or as one mapping. Numbers give a number; arrays give an array, broadcast against each
    other, one gradient per element. Outside a function's domain the result is nan, as in NumPy; nothing is raised.

    Attributes:
        output: the graph.
        leaves: the input leaf of every variable.
        text: the formula as it was given, or as printed if it was derived.
        source: where each node stands in the text; None if it was derived.
        notes: what a reader of the text may want to know (a binding that nothing uses).
    """

    def __init__(
        self,
        output: Node,
        leaves: Mapping[str, Node],
        *,
        text: str | None = None,
        source: Source | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.output = output
        self.leaves = dict(leaves)
        self.source = source
        self.notes = notes
        self._text = text

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables, in order of first appearance."""
        return tuple(self.leaves)

    @property
    def names(self) -> Mapping[Node, str]:
        """The nodes that the text gives a name to (`a = x + y`)."""
        return {} if self.source is None else self.source.names

    @property
    def text(self) -> str:
        """The formula as it was given."""
        return str(self) if self._text is None else self._text

    @cached_property
    def tape(self) -> Tape:
        """The graph's nodes in topological order."""
        return Tape((self.output,))

    def __str__(self) -> str:
        return to_text(self.output, self.names, share=self.source is not None)

    def __repr__(self) -> str:
        return f"parse({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (pack((self.output, *self.leaves.values())), tuple(self.leaves), self._text)

    def __call__(self, point: Point | None = None, /, **values: ArrayLike) -> Result:
        """The value at a point.

        Raises:
            UnknownNameError: for a name that the expression lacks.
            MissingValueError: for a variable without a value.
        """
        place = self._point(point, values)
        if _has_arrays(place):
            from autodiff_cli.backends.blocks import evaluate

            return evaluate([self.output], place)[0]
        value: float = forward(self.tape, FLOATS, place)[-1]
        return value

    def value(self, point: Point | None = None, /, **values: ArrayLike) -> Result:
        """The same as calling the expression."""
        return self(point, **values)

    def grad(self, point: Point | None = None, /, **values: ArrayLike) -> dict[str, Result]:
        """The partial derivatives towards all variables, by name. Raises as calling does."""
        return self.value_and_grad(point, **values)[1]

    def value_and_grad(self, point: Point | None = None, /, **values: ArrayLike) -> tuple[Result, dict[str, Result]]:
        """The value and the gradient, in one forward and one reverse pass. Raises as calling does."""
        place = self._point(point, values)
        if _has_arrays(place):
            from autodiff_cli.backends.blocks import evaluate

            value, *slopes = evaluate([self.output, *self._gradient], place)
            return value, dict(zip(self.variables, slopes, strict=True))
        tape = self.tape
        numbers = forward(tape, FLOATS, place)
        adjoints = reverse(tape, FLOATS, numbers, 1.0)
        found = (adjoints[tape.index[leaf]] if leaf in tape.index else None for leaf in self.leaves.values())
        return numbers[-1], {
            name: 0.0 if slope is None else slope for name, slope in zip(self.leaves, found, strict=True)
        }

    def jvp(
        self, direction: Mapping[str, float], point: Mapping[str, float] | None = None, /, **values: float
    ) -> tuple[float, float]:
        """The value, and the directional derivative by forward mode.

        Args:
            direction: how fast each variable moves; a variable not named stands still. Raises as calling does.
        """
        self._check_names(direction)
        place = self._point(point, values)
        numbers = forward(self.tape, FLOATS, place)
        tangent = tangents(self.tape, FLOATS, numbers, {name: float(rate) for name, rate in direction.items()})[-1]
        return numbers[-1], 0.0 if tangent is None else tangent

    def derivative(self, name: str) -> Expression:
        """The derivative towards a variable, as an expression; `0` for a name that does not occur."""
        leaf = self.leaves.get(name)
        if leaf is None:
            return Expression(ZERO, {})
        shared = share([self.output])
        slope = simplify(gradient_nodes(shared[0], [leaf]))[0]
        return Expression(slope, {node.text: node for node in topological([slope]) if node.is_input})

    @cached_property
    def _gradient(self) -> list[Node]:
        return gradient_nodes(share([self.output])[0], list(self.leaves.values()))

    def _point(self, point: Point | None, values: Mapping[str, ArrayLike]) -> dict[str, Any]:
        given = {**(point or {}), **values}
        self._check_names(given)
        missing = [name for name in self.leaves if name not in given]
        if missing:
            raise MissingValueError(f"no value for {', '.join(f'`{name}`' for name in missing)}")
        return {name: _number(value) for name, value in given.items()}

    def _check_names(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.leaves:
                raise UnknownNameError(
                    f"the expression has no variable `{name}`", suggestion=suggest(name, self.leaves)
                )


def _number(value: Any) -> Any:
    """A float, or an array of floats if an array or a sequence was given."""
    if getattr(value, "ndim", 0) == 0 and not isinstance(value, list | tuple):
        return float(value)
    import numpy as np

    return np.asarray(value, dtype=np.float64)


def _has_arrays(place: Mapping[str, Any]) -> bool:
    return any(not isinstance(value, float) for value in place.values())


def _unpickle(packed: Any, names: tuple[str, ...], text: str | None) -> Expression:
    output, *leaves = unpack(packed)
    return Expression(output, dict(zip(names, leaves, strict=True)), text=text)

"""`Formula`: what is evaluated and differentiated. Users hold one as an `Expression` (`autodiff_cli.front`).

What rewrites graphs is imported where it is used, so that a gradient at a point starts without it.

>>> from autodiff_cli import parse
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
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

from autodiff_cli.autodiff.forward import Forward, tangents
from autodiff_cli.autodiff.reverse import Reverse
from autodiff_cli.formula.evaluation import Evaluation, by_name, number
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import ZERO, Shape
from autodiff_cli.graph.shapes import in_words
from autodiff_cli.graph.tape import Tape, pack, topological, unpack
from autodiff_cli.language.errors import ExpressionError
from autodiff_cli.language.lexer import canonical, written_name
from autodiff_cli.language.lowering import read
from autodiff_cli.language.printer import to_text
from autodiff_cli.numbers.floats.table import FLOATS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from autodiff_cli.formula.derived import Derived
    from autodiff_cli.formula.evaluation import Point
    from autodiff_cli.language.source import Source

    Result: TypeAlias = float | NDArray[np.float64]

F = TypeVar("F", bound="Formula")


class Formula(Evaluation):
    """A graph with named leaves that can be evaluated and differentiated. What is derived is of the same class.

    Values are given as keywords or as one mapping. Numbers give a number. An array given for a scalar variable is a
    batch: the result is an array, with one value or gradient per element; batches broadcast against each other. A
    variable that is an array itself (`v` in `sum(v)`) takes an array as one point, and, if its shape is declared
    (`v: 3`), one with further axes in front as a batch. Outside a function's domain the result is nan, as in NumPy;
    nothing is raised.

    Attributes:
        output: the graph.
        leaves: the input leaf of every variable.
        text: the formula as it was given, or as printed if it was derived.
        source: where each node stands in the text; None if it was derived.
        notes: what a reader of the text may want to know (a binding that nothing uses).
        shapes: the shapes of variables that the text declares.
        arrays: the other variables that stand where an array is required; their shape is that of their value.
        bound: the values of the names that the text binds (`a = x + y`).

    >>> from autodiff_cli import parse
    >>> f = parse("x^2*y")
    >>> f.grad(x=3, y=2)
    {'x': 12.0, 'y': 9.0}
    >>> f(x=[1, 2, 3], y=2)
    array([ 2.,  8., 18.])
    >>> parse("sum(v^2)").grad(v=[1, 2])
    {'v': array([2., 4.])}
    """

    def __init__(
        self,
        output: Node,
        leaves: Mapping[str, Node],
        *,
        text: str | None = None,
        source: Source | None = None,
        notes: tuple[str, ...] = (),
        shapes: Mapping[str, Shape] | None = None,
        arrays: Iterable[str] = (),
        bound: Mapping[str, Node] | None = None,
    ) -> None:
        super().__init__(output, leaves, source, shapes or {}, arrays)
        self.notes = notes
        self.bound = dict(bound or {})
        self._text = text
        self._family: Derived | None = None  # the derivatives of which this is one
        self._gradients: dict[tuple[tuple[str, Shape], ...], list[Node]] = {}

    @classmethod
    def read(cls, text: str, variables: Iterable[str] = ()) -> Self:
        """The formula that a text states; arguments and errors as for `parse`.

        >>> Formula.read("a = x + y; a^2").variables
        ('x', 'y')
        """
        program = read(text, variables)
        if program.target is not None:
            start, _ = program.source.span(program.target) or (0, 0)
            raise ExpressionError(
                "`~` states a model, for `train` and `fit`; an expression has only a right side", text, start
            )
        return cls(
            program.output,
            program.leaves,
            text=text,
            source=program.source,
            notes=program.notes,
            shapes=program.shapes,
            arrays=program.arrays,
            bound=program.bound,
        )

    @property
    def names(self) -> Mapping[Node, str]:
        """The nodes that the text gives a name to (`a = x + y`)."""
        return {} if self.source is None else self.source.names

    @property
    def text(self) -> str:
        """The formula as it was given, or as printed if it was derived."""
        return str(self) if self._text is None else self._text

    def __str__(self) -> str:
        if self._text is None and self.source is None:
            return to_text(self._written(), share=False, shapes=self.shapes)
        return to_text(self.output, self.names, share=self.source is not None, shapes=self.shapes)

    def _written(self) -> Node:
        """What is printed for a formula that was derived."""
        if self._family is not None:
            return self._family.written(self.output)
        from autodiff_cli.algebra.readable import readable

        return readable([self.output], self._symbols, scalar=not self.shapes)[0]

    def __repr__(self) -> str:
        return f"parse({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        packed = pack((self.output, *self.leaves.values()))
        return _unpickle, (type(self), packed, tuple(self.leaves), self._text, self.notes, self.shapes, self.arrays)

    def __call__(self, point: Point | None = None, /, **values: ArrayLike) -> Result:
        """The value at a point.

        Raises:
            UnknownNameError: for a name that the expression lacks.
            MissingValueError: for a variable without a value.
            ExpressionError: where shapes do not fit together.

        >>> from autodiff_cli import parse
        >>> f = parse("sqrt(x^2 + y^2)")
        >>> f(x=3, y=4), f({"x": 6, "y": 8})
        (5.0, 10.0)
        """
        place = self.at(point, **values)
        if self.is_one_point_of_scalars(place):
            value: Result = self._forward(place)[-1]
        else:
            value = self.evaluate([self.output], place)[0]
        return value

    value = __call__

    def grad(self, point: Point | None = None, /, **values: ArrayLike) -> dict[str, Result]:
        """The partial derivatives towards all variables, by name. Raises as `value_and_grad` does.

        >>> from autodiff_cli import parse
        >>> parse("x*y").grad(x=2, y=3)
        {'x': 3.0, 'y': 2.0}
        """
        return self.value_and_grad(point, **values)[1]

    def value_and_grad(self, point: Point | None = None, /, **values: ArrayLike) -> tuple[Result, dict[str, Result]]:
        """The value and the gradient, in one forward and one reverse pass.

        The derivative towards a variable of shape s has the shape s. Raises as calling does, and ExpressionError if the
        output itself is an array; then `jacobian` has the derivatives.

        >>> from autodiff_cli import parse
        >>> parse("x*y").value_and_grad({"x": 2, "y": 3})
        (6.0, {'x': 3.0, 'y': 2.0})
        """
        place = self.at(point, **values)
        if not self.is_one_point_of_scalars(place):
            value, *slopes = self.evaluate([self.output, *self._gradient(self.sizes_of_scalar_output(place))], place)
            return value, dict(zip(self.variables, slopes, strict=True))
        tape = self.tape
        numbers = self._forward(place)
        adjoints = self._reverse(numbers, 1.0)
        found = (adjoints[tape.index[leaf]] if leaf in tape.index else None for leaf in self.leaves.values())
        slopes = [0.0 if slope is None else slope for slope in found]
        return numbers[-1], dict(zip(self.variables, slopes, strict=True))

    def jvp(
        self, direction: Mapping[str, ArrayLike], point: Point | None = None, /, **values: ArrayLike
    ) -> tuple[Result, Result]:
        """The value, and the derivative along a direction, by forward mode.

        Args:
            direction: how fast each variable moves; a variable not named stands still.

        Raises as calling does, and UnknownNameError for a name in `direction`.

        >>> from autodiff_cli import parse
        >>> parse("x*y").jvp({"x": 1, "y": 10}, x=2, y=3)
        (6.0, 23.0)
        """
        place = self.at(point, **values)
        rates = self._rates(direction)
        if self.is_one_point_of_scalars(place) and self.is_one_point_of_scalars(rates):
            numbers = self._forward(place)
            rate = tangents(self.tape, FLOATS, numbers, rates)[-1]
            return numbers[-1], 0.0 if rate is None else rate
        from autodiff_cli.formula.directions import slope_along

        return slope_along(self, rates, place)

    def hvp(
        self, direction: Mapping[str, ArrayLike], point: Point | None = None, /, **values: ArrayLike
    ) -> dict[str, Result]:
        """The Hessian times a direction, by variable: the gradient of the derivative along the direction.

        Args:
            direction: a number or an array per variable; a variable not named stands still. Raises as `jvp` does.

        >>> from autodiff_cli import parse
        >>> parse("x^2*y").hvp({"x": 1}, x=2, y=3)
        {'x': 6.0, 'y': 4.0}
        """
        from autodiff_cli.formula.directions import hessian_times

        place = self.at(point, **values)
        return dict(zip(self.variables, hessian_times(self, self._rates(direction), place), strict=True))

    def hessian(self, point: Point | None = None, /, **values: ArrayLike) -> NDArray[np.float64]:
        """The matrix of second derivatives, of shape (n, n), in the order of `variables`.

        n counts numbers: an array variable of shape s has as many as s has elements, in the order of its rows. Raises
        as `value_and_grad` does. For a batch of points, its axes come first.

        >>> from autodiff_cli import parse
        >>> parse("x^2*y").hessian(x=2, y=3)
        array([[6., 4.],
               [4., 0.]])
        """
        from autodiff_cli.formula.directions import hessian

        return hessian(self, self.at(point, **values))

    def jacobian(self, point: Point | None = None, /, **values: ArrayLike) -> dict[str, NDArray[np.float64]]:
        """The derivative of an array output towards each variable, of the output's shape and then the variable's.
        For a batch of points, its axes come first. Raises as calling does.

        >>> from autodiff_cli import parse
        >>> parse("[x*y, x + y]").jacobian(x=2, y=3)
        {'x': array([3., 1.]), 'y': array([2., 1.])}
        """
        from autodiff_cli.formula.directions import jacobian

        return jacobian(self, self.at(point, **values))

    def derivatives(self, name: str, order: int, point: Point | None = None, /, **values: ArrayLike) -> list[float]:
        """The value at a point, and the derivatives of order 1, 2, … `order` towards one variable.

        They come from Taylor series, whose cost grows with the square of the order; expressions would grow without
        bound. Raises as calling does, UnknownNameError also for `name`, and ExpressionError for a batch, and where
        `name` or the output is an array.

        >>> from autodiff_cli import parse
        >>> parse("log(1 + x)").derivatives("x", 6, x=0)
        [0.0, 1.0, -1.0, 2.0, -6.0, 24.0, -120.0]
        """
        from autodiff_cli.autodiff.taylor import derivatives

        name = canonical(name)
        self.check_names([name])
        place = self.at(point, **values)
        if not self.is_one_point_of_scalars(place):
            from autodiff_cli.formula.directions import derivatives_among_arrays

            return derivatives_among_arrays(self, name, order, place)
        leaf = self.leaves[name]
        return derivatives(Tape((self.output,), [leaf]), leaf, FLOATS, place, order)

    def with_output(self, output: Node) -> Self:
        """Another node of the same text, such as a named intermediate (see `bound`), as an expression of the same
        variables.

        >>> from autodiff_cli import parse
        >>> f = parse("a = x*y; a^2")
        >>> f.with_output(f.bound["a"])(x=2, y=3)
        6.0
        """
        return type(self)(
            output, self.leaves, source=self.source, shapes=self.shapes, arrays=self.arrays, bound=self.bound
        )

    def derivative(self, name: str) -> Self:
        """The derivative towards a variable, as an expression; `0` for a name that does not occur.

        Raises:
            ExpressionError: if it depends on the shape of a variable that is not declared (`v: 3`).

        >>> from autodiff_cli import parse
        >>> f = parse("x^2*sin(y)")
        >>> print(f.derivative("x"))
        2*x*sin(y)
        >>> print(f.derivative("x").derivative("y"))
        2*x*cos(y)
        """
        name = canonical(name)
        if name not in self.leaves:
            return type(self)(ZERO, {})
        if self.arrays:
            unknown = [name for name in self.variables if name in self.arrays]
            shapes = {name: in_words(self.example_shapes.get(name, (3,))) for name in unknown}
            raise ExpressionError(
                f"the derivative depends on the shape of {', '.join(f'`{name}`' for name in unknown)}: declare it",
                suggestion="; ".join(f"{written_name(name)}: {shape}" for name, shape in shapes.items()),
            )
        self.check_output(self.shapes)
        slope = self._derived.slopes[name]
        found = {node.text: node for node in topological([slope]) if node.is_input}
        leaves = {name: found[name] for name in self.leaves if name in found}
        declared = {name: shape for name, shape in self.shapes.items() if name in leaves}
        derived = type(self)(slope, leaves, shapes=declared)
        derived._symbols = self._symbols
        derived._family = self._derived
        return derived

    @cached_property
    def _forward(self) -> Forward[float]:
        return Forward(self.tape, FLOATS)

    @cached_property
    def _reverse(self) -> Reverse[float]:
        return Reverse(self.tape, FLOATS)

    @cached_property
    def _derived(self) -> Derived:
        from autodiff_cli.formula.derived import Derived

        gradient = dict(zip(self.leaves, self._gradient(self.shapes), strict=True))
        return Derived(gradient, self._symbols, scalar=not self.shapes)

    @cached_property
    def _symbols(self) -> tuple[str, ...]:
        """The variables in the order in which products are written; a derivative has it from its formula."""
        from autodiff_cli.algebra.passes.symbols import symbol_order

        return symbol_order(self.tape.nodes, self.variables)

    def _gradient(self, sizes: Mapping[str, Shape]) -> list[Node]:
        from autodiff_cli.algebra.table import share

        key = tuple(sorted(sizes.items()))
        if key not in self._gradients:
            with self.placed():
                self._gradients[key] = gradient_nodes(share([self.output])[0], list(self.leaves.values()), sizes)
        return self._gradients[key]

    def _rates(self, direction: Mapping[str, ArrayLike]) -> dict[str, Any]:
        rates = {canonical(name): number(rate) for name, rate in by_name(direction).items()}
        self.check_names(rates)
        return rates


def _unpickle(kind: type[F], packed: Any, names: tuple[str, ...], text: str | None, *rest: Any) -> F:
    output, *leaves = unpack(packed)
    notes, shapes_declared, arrays = rest
    found = dict(zip(names, leaves, strict=True))
    return kind(output, found, text=text, notes=notes, shapes=shapes_declared, arrays=arrays)

"""Formulas, evaluated and differentiated at points of numbers and arrays. Users hold a `Formula` as an `Expression`.

Outside a function's domain the result is nan, as in NumPy; nothing is raised. Modules that rewrite graphs are imported
inside functions, so that a gradient at a point starts without them.

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

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from autodiff_cli.autodiff.sweeps import ForwardPass, ReversePass, tangents
from autodiff_cli.graph import tape as tapes
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import ZERO, Node, Shape
from autodiff_cli.language import errors
from autodiff_cli.language.errors import ExpressionError, MissingValueError
from autodiff_cli.language.lexer import canonical_name, canonical_names, quote_name
from autodiff_cli.language.printer import to_text
from autodiff_cli.language.program import read
from autodiff_cli.numbers.floats import FLOATS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from autodiff_cli.language.program import Source

    Point: TypeAlias = Mapping[str, ArrayLike]
    Result: TypeAlias = float | NDArray[np.float64]


# --- Points


def as_mapping(point: Any) -> Any:
    """Return a point or a direction as a mapping; None gives an empty one.

    Raises:
        TypeError: for an object that is not a mapping.
    """
    if point is not None and not hasattr(point, "keys"):
        raise TypeError(f"a point or a direction must be a mapping of names to numbers, not {type(point).__name__}")
    return {} if point is None else point


def as_number(value: Any) -> Any:
    """Return a value as a float, or as an array of floats if it is an array or a sequence.

    Raises:
        TypeError, ValueError: for a value that is neither a real number nor an array of real numbers.
    """
    if not hasattr(value, "dtype") or isinstance(value, float):
        if not hasattr(value, "__len__") or isinstance(value, str):
            try:
                return float(value)
            except OverflowError:  # the integer is larger than all floats
                return math.inf if value > 0 else -math.inf
    elif getattr(value.dtype, "kind", None) is None and not getattr(value, "ndim", 1):  # a scalar tensor of a framework
        return float(value)
    from autodiff_cli.array_types import as_float_array

    array = as_float_array(value)
    return array if array.ndim else float(array)


def _as_numbers(values: Mapping[str, Any], noun: str) -> dict[str, Any]:
    """Return values by name as floats and arrays of floats; errors call each a `noun` of its variable."""
    numbers = {}
    for name, value in values.items():
        try:
            numbers[name] = as_number(value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"the {noun} of `{name}`: {error}") from None
    return numbers


# --- Formulas


class Formula:
    """A formula that can be evaluated and differentiated. Its derivatives are formulas of the same class.

    Pass values as keywords or as one mapping. Numbers give a number. An array for a scalar variable is a batch: the
    result is an array, with one value or gradient per element, and batches broadcast against each other. A variable
    that is an array itself (`v` in `sum(v)`) takes an array as one point. If its shape is declared (`v: 3`), an array
    with further leading axes is a batch. Outside a function's domain the result is nan, as in NumPy; nothing is raised.

    Attributes:
        output: the output of the graph.
        leaves: the input leaf of each variable, by name.
        text: the formula as it was given; for a derivative, as it is printed.
        source: the place of each node in the text; None for a derivative.
        notes: notes for the user, such as a binding that is not used, as sentences.
        shapes: the declared shapes of variables, by name.
        arrays: the other variables that must be arrays; each has the shape of its value.
        bound: the values of the names that the text binds (`a = x + y`).
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
        self.output = output
        self.leaves = dict(leaves)
        self.source = source
        self.shapes = dict(shapes or {})
        self.arrays = frozenset(arrays)
        self.notes = notes
        self.bound = dict(bound or {})
        self._text = text
        self._parent: Formula | None = None  # the formula that this one is a first derivative of
        self._gradients: dict[tuple[tuple[str, Shape], ...], list[Node]] = {}

    @classmethod
    def read(cls, text: str, variables: Iterable[str] = ()) -> Self:
        """Read a formula from a text.

        Args:
            text: the formula in the expression language.
            variables: names of constants (`pi tau e inf nan`) to read as variables.

        Raises:
            ExpressionError: if the text is not a formula.

        >>> Formula.read("a = x + y; a^2").variables
        ('x', 'y')
        """
        program = read(text, variables)
        if program.target is not None:
            start, _ = program.source.span(program.target) or (0, 0)
            raise ExpressionError("`~` makes a model for `train` and `fit`; expressions have no left side", text, start)
        names = ("source", "notes", "shapes", "arrays", "bound")
        return cls(program.output, program.leaves, text=text, **{name: getattr(program, name) for name in names})

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables, in order of first appearance."""
        return tuple(self.leaves)

    @cached_property
    def tape(self) -> tapes.Tape:
        """The graph's nodes in topological order."""
        return tapes.Tape((self.output,))

    @cached_property
    def is_scalar(self) -> bool:
        """Whether every node is a number if all variables are numbers."""
        return not self.shapes and not tapes.has_array_operations(self.tape.nodes)

    def at(self, point: Point | None = None, /, **values: ArrayLike) -> dict[str, Any]:
        """Return the values of a point by canonical names, as floats and arrays of floats.

        Raises:
            UnknownNameError: for a name that is not a variable.
            MissingValueError: for a variable without a value.
            TypeError, ValueError: for a value that is neither a real number nor an array of real numbers.
        """
        return _as_numbers(self.by_names({**as_mapping(point), **values}), "value")

    def by_names(self, values: Mapping[str, Any], noun: str = "value") -> dict[str, Any]:
        """Return values by canonical names.

        Raises:
            UnknownNameError: for a name that is not a variable.
            MissingValueError: for a variable without a value, which the message calls `noun`.
        """
        by_name = canonical_names(values.items())
        self.check_names(by_name)
        if missing := [name for name in self.leaves if name not in by_name]:
            raise MissingValueError(f"no {noun} for {errors.format_names(missing, '`')}")
        return by_name

    def check_names(self, names: Iterable[str]) -> None:
        """Raise UnknownNameError for a name that is not a variable."""
        for name in names:
            errors.check_known(name, self.leaves)

    def is_scalar_point(self, point_values: Mapping[str, Any]) -> bool:
        """Whether a point has only floats, and the graph needs only floats."""
        return self.is_scalar and all(isinstance(value, float) for value in point_values.values())

    def value_shapes(self, point_values: Mapping[str, Any]) -> dict[str, Shape]:
        """Return the shapes of the variables that are arrays at a point: the declared shapes, or the values' shapes.

        A variable may be a number or an array where an elementwise operation combines it with an array, as it does `b`
        in `W @ x + b`. An array for such a variable is one point if its shape fits, else a batch. It is refused if it
        may also have a number for each point of a batch of another array.

        Args:
            point_values: the values by name, from `at`.

        Raises:
            ExpressionError: for a value that does not have the declared shape, an empty array, and an array that may be
                read in two ways.
        """
        if self.is_scalar:
            return {}
        value_shapes = {name: array.shape for name, array in point_values.items() if not isinstance(array, float)}
        for name in self.arrays & value_shapes.keys():
            if 0 in value_shapes[name]:
                raise ExpressionError(f"`{name}` is empty: an array cannot have a dimension of length 0")
        for name, shape in self.shapes.items():
            value_shape = value_shapes.get(name, ())
            if value_shape[-len(shape) :] != shape:
                raise self._declared_shape_error(name, value_shape)
        certain = {name: value_shapes[name] for name in self.arrays & value_shapes.keys()} | self.shapes
        with_possible = {name: value_shapes[name] for name in self._possible_arrays & value_shapes.keys()} | certain
        if len(with_possible) > len(certain):
            with contextlib.suppress(tapes.ShapeError):
                tapes.infer_shapes(self.tape, with_possible)
                numbers = {name: shape for name, shape in value_shapes.items() if name not in with_possible}
                declared = {name: value_shapes[name][: -len(shape)] for name, shape in self.shapes.items()}
                batches = {*numbers.values(), *declared.values()}
                if either := [name for name in with_possible if name not in certain and value_shapes[name] in batches]:
                    words = "may be an array, or a number for each point: declare its shape, or give points one by one"
                    suggestion = self.with_declarations({either[0]: value_shapes[either[0]]})
                    raise ExpressionError(f"`{either[0]}` {words}", suggestion=suggestion)
                return with_possible
        return certain

    @cached_property
    def _possible_arrays(self) -> frozenset[str]:
        from autodiff_cli.language.arrays import array_names

        return array_names((self.output,), self.shapes, include_possible=True)

    def example_shapes(self, known: Mapping[str, Shape] | None = None) -> dict[str, Shape]:
        """Return shapes of the variables that are arrays: declared and known shapes, or small examples.

        >>> from autodiff_cli import parse
        >>> parse("W: 2x4; norm(W @ v) + k").example_shapes()
        {'W': (2, 4), 'v': (4,)}
        """
        if not self.arrays:
            return self.shapes
        from autodiff_cli.language.arrays import example_shapes

        declared = {**self.shapes, **(known or {})}
        names = [name for name in self.variables if name in self.arrays and name not in declared]
        return {**declared, **example_shapes(self.output, declared, names)}

    def value_shapes_of_scalar_output(self, point_values: Mapping[str, Any]) -> dict[str, Shape]:
        """Return the shapes of the variables that are arrays at a point, where the output must be a number.

        Raises:
            ExpressionError: if the output is an array, which has no gradient, and as `value_shapes` does.
        """
        sizes = self.value_shapes(point_values)
        self.check_scalar_output(sizes)
        return sizes

    def array_shapes_at(self, point_values: Mapping[str, Any]) -> dict[str, Shape]:
        """Return the shapes of the variables that are arrays at one point, where the output must be a number.

        Raises:
            ExpressionError: for a batch of points, and as `value_shapes_of_scalar_output` does.
        """
        sizes = self.value_shapes_of_scalar_output(point_values)
        for name, value in point_values.items():
            shape = getattr(value, "shape", ())
            if len(shape) > len(sizes.get(name, ())):
                raise self.unexpected_array_error(name, shape)
        return sizes

    def check_no_arrays(self, value_shapes: Mapping[str, Shape]) -> None:
        """Raise ExpressionError for a variable that can only be a number and has an array as its value.

        Args:
            value_shapes: the shapes of the values, by name.
        """
        for name, shape in value_shapes.items():
            if shape and name not in self.arrays | self.shapes.keys() | self._possible_arrays:
                raise self.unexpected_array_error(name, shape)

    def _declared_shape_error(self, name: str, shape: Shape) -> ExpressionError:
        actual = f"has the shape {tapes.format_shape(shape)}" if shape else "is a number"
        declared = tapes.format_shape(self.shapes[name])
        return ExpressionError(f"`{name}` is declared with the shape {declared}, but its value {actual}")

    def unexpected_array_error(self, name: str, shape: Shape) -> ExpressionError:
        """Return the error for an array of this shape as the value of a variable that is a number, or smaller."""
        if name in self.shapes:
            return self._declared_shape_error(name, shape)
        points = f"`autodiff grad` takes several points as a range, --{name} START:STOP:COUNT"
        words = f"`{name}` is a number here, not an array; {points}; to make it an array, declare its shape"
        return ExpressionError(words, suggestion=self.with_declarations({name: shape}))

    def with_declarations(self, shapes: Mapping[str, Shape]) -> str:
        """Return the text with declarations of shapes before it; the declarations alone if the text is long."""
        declared = "; ".join(f"{quote_name(name)}: {tapes.format_shape(shape)}" for name, shape in shapes.items())
        corrected = declared if self.source is None else f"{declared}; {self.source.text.strip()}"
        return corrected if errors.is_quotable(corrected) else declared

    def output_shape(self, sizes: Mapping[str, Shape]) -> Shape:
        """Return the shape of the output, given the shapes of the variables that are arrays.

        Raises:
            ExpressionError: for incompatible shapes.
        """
        if self.is_scalar and not sizes:
            return ()
        with self.locate_errors():
            return tapes.infer_shapes(self.tape, sizes)[-1]

    def check_scalar_output(self, sizes: Mapping[str, Shape]) -> None:
        """Raise ExpressionError if the output is an array, given the shapes of the variables that are arrays."""
        shape = self.output_shape(sizes)
        if shape:
            reason = f"the output is an array of shape {tapes.format_shape(shape)}"
            raise ExpressionError(
                f"{reason}; only a number has a gradient: take the `sum(…)` of the array or one of its elements, "
                "or ask for the Jacobian (`grad --jacobian`)"
            )

    def evaluate(
        self, outputs: Sequence[Node], point_values: Mapping[str, Any], sizes: Mapping[str, Shape] | None = None
    ) -> list[Any]:
        """Evaluate graphs over the leaves at a point with arrays.

        Args:
            outputs: the graphs.
            point_values: the values by name, from `at`.
            sizes: the shapes of the variables that are arrays; by default `value_shapes(point_values)`.

        Returns:
            A float or an array for each graph.
        """
        from autodiff_cli.backends.selection import evaluate

        with self.locate_errors():
            values = evaluate(outputs, point_values, self.value_shapes(point_values) if sizes is None else sizes)
        return [array if array.ndim else float(array) for array in values]

    @contextlib.contextmanager
    def locate_errors(self) -> Iterator[None]:
        """Return a context manager that turns errors of shapes into ExpressionErrors with their place in the text."""
        try:
            yield
        except tapes.ShapeError as error:
            raise errors.shape_error(error, self.source) from None

    @property
    def names(self) -> Mapping[Node, str]:
        """The names that the text gives to nodes (`a = x + y`)."""
        return {} if self.source is None else self.source.names

    @property
    def text(self) -> str:
        """The formula as it was given; for a derivative, as it is printed."""
        return str(self) if self._text is None else self._text

    def __str__(self) -> str:
        if self._text is None and self.source is None:
            return to_text(self._readable_form(), share=False, shapes=self.shapes)
        return to_text(self.output, self.names, share=self.source is not None, shapes=self.shapes)

    def _readable_form(self) -> Node:
        """Return the form of a derivative that is printed."""
        if self._parent is not None:
            return self._parent._readable_slopes[self.output]
        from autodiff_cli.algebra.readable import readable

        return readable([self.output], self._symbols, self.shapes)[0]

    def __repr__(self) -> str:
        return f"parse({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self.source is not None and self._text is not None:
            return type(self).read, (self._text, self.variables)
        packed = tapes.pack((self.output, *self.leaves.values()))
        options = {"text": self._text, "notes": self.notes, "shapes": self.shapes, "arrays": self.arrays}
        return _unpickle, (type(self), packed, self.variables, options)

    def __call__(self, point: Point | None = None, /, **values: ArrayLike) -> Result:
        """Evaluate the formula at a point.

        Raises:
            UnknownNameError: for a name that is not a variable.
            MissingValueError: for a variable without a value.
            ExpressionError: for incompatible shapes.

        >>> from autodiff_cli import parse
        >>> f = parse("sqrt(x^2 + y^2)")
        >>> f(x=3, y=4), f({"x": 6, "y": 8})
        (5.0, 10.0)
        """
        point_values = self.at(point, **values)
        is_scalar = self.is_scalar_point(point_values)
        value: Result = (self._forward(point_values) if is_scalar else self.evaluate([self.output], point_values))[-1]
        return value

    value = __call__

    def grad(self, point: Point | None = None, /, **values: ArrayLike) -> dict[str, Result]:
        """Return the partial derivatives with respect to all variables, by name. Raises as `value_and_grad` does.

        >>> from autodiff_cli import parse
        >>> parse("x*y").grad(x=2, y=3)
        {'x': 3.0, 'y': 2.0}
        """
        return self.value_and_grad(point, **values)[1]

    def value_and_grad(self, point: Point | None = None, /, **values: ArrayLike) -> tuple[Result, dict[str, Result]]:
        """Return the value and the gradient, from one forward and one reverse pass.

        The derivative with respect to a variable of shape s has the shape s. Raises as calling does, and
        ExpressionError if the output is an array: use `jacobian` then.

        >>> from autodiff_cli import parse
        >>> parse("x*y").value_and_grad({"x": 2, "y": 3})
        (6.0, {'x': 3.0, 'y': 2.0})
        """
        point_values = self.at(point, **values)
        if not self.is_scalar_point(point_values):
            graphs = self._gradient(self.value_shapes_of_scalar_output(point_values))
            value, *slopes = self.evaluate([self.output, *graphs], point_values)
            return value, dict(zip(self.variables, slopes, strict=True))
        tape = self.tape
        numbers = self._forward(point_values)
        adjoints = self._reverse(numbers, 1.0)
        derivatives = (adjoints[tape.index[leaf]] if leaf in tape.index else None for leaf in self.leaves.values())
        slopes = [0.0 if slope is None else slope for slope in derivatives]
        return numbers[-1], dict(zip(self.variables, slopes, strict=True))

    def jvp(
        self, direction: Mapping[str, ArrayLike], point: Point | None = None, /, **values: ArrayLike
    ) -> tuple[Result, Result]:
        """Return the value and the derivative along a direction, by forward mode (a Jacobian-vector product).

        Args:
            direction: the component of each variable; 0 for variables that are left out.
            point: the values by name; or pass them as keywords.

        Raises as calling does, and UnknownNameError for a name in `direction` that is not a variable.

        >>> from autodiff_cli import parse
        >>> parse("x*y").jvp({"x": 1, "y": 10}, x=2, y=3)
        (6.0, 23.0)
        """
        point_values = self.at(point, **values)
        rates = self._rates(direction)
        if self.is_scalar_point(point_values) and self.is_scalar_point(rates):
            numbers = self._forward(point_values)
            moving = {name: rate for name, rate in rates.items() if rate}  # a component of 0 has no effect
            rate = tangents(self.tape, FLOATS, numbers, moving)[-1]
            return numbers[-1], 0.0 if rate is None else rate
        from autodiff_cli.formula.array_derivatives import directional_derivative

        return directional_derivative(self, rates, point_values)

    def hvp(
        self, direction: Mapping[str, ArrayLike], point: Point | None = None, /, **values: ArrayLike
    ) -> dict[str, Result]:
        """Return the Hessian times a direction, by variable (a Hessian-vector product).

        Args:
            direction: a number or an array for each variable; 0 for variables that are left out.
            point: the values by name; or pass them as keywords.

        Raises as `jvp` does.

        >>> from autodiff_cli import parse
        >>> parse("x^2*y").hvp({"x": 1}, x=2, y=3)
        {'x': 6.0, 'y': 4.0}
        """
        from autodiff_cli.formula.array_derivatives import hessian_vector_product

        product = hessian_vector_product(self, self._rates(direction), self.at(point, **values))
        return dict(zip(self.variables, product, strict=True))

    def hessian(self, point: Point | None = None, /, **values: ArrayLike) -> NDArray[np.float64]:
        """Return the matrix of second derivatives, of shape (n, n), in the order of `variables`.

        n is the number of elements of all variables; the elements of an array are in row-major order. For a batch of
        points, the axes of the batch come first. Raises as `value_and_grad` does.

        >>> from autodiff_cli import parse
        >>> parse("x^2*y").hessian(x=2, y=3)
        array([[6., 4.],
               [4., 0.]])
        """
        from autodiff_cli.formula.array_derivatives import hessian

        return hessian(self, self.at(point, **values))

    def jacobian(self, point: Point | None = None, /, **values: ArrayLike) -> dict[str, Result]:
        """Return the derivatives of an output with respect to each variable, by name.

        Each has the shape of the output followed by the shape of the variable. For a batch of points, the axes of the
        batch come first. Raises as calling does.

        >>> from autodiff_cli import parse
        >>> parse("[x*y, x + y]").jacobian(x=2, y=3)
        {'x': array([3., 1.]), 'y': array([2., 1.])}
        """
        from autodiff_cli.formula.array_derivatives import jacobian

        return {name: as_number(slope) for name, slope in jacobian(self, self.at(point, **values)).items()}

    def derivatives(self, name: str, order: int, point: Point | None = None, /, **values: ArrayLike) -> list[float]:
        """Return the value at a point and the derivatives of order 1, 2, … `order` with respect to one variable.

        They are computed by Taylor series, whose cost grows with the square of the order; repeated symbolic derivatives
        would grow exponentially. Raises as calling does, UnknownNameError also for `name`, and ExpressionError for a
        batch, where `name` or the output is an array, and for a negative order.

        >>> from autodiff_cli import parse
        >>> parse("log(1 + x)").derivatives("x", 6, x=0)
        [0.0, 1.0, -1.0, 2.0, -6.0, 24.0, -120.0]
        """
        from autodiff_cli.autodiff.taylor import derivatives

        name = canonical_name(name)
        self.check_names([name])
        if index(order) < 0:
            raise ExpressionError(f"the order of a derivative must be at least 0, not {order}")
        point_values = self.at(point, **values)
        if not self.is_scalar_point(point_values):
            from autodiff_cli.formula.array_derivatives import derivatives_with_arrays

            return derivatives_with_arrays(self, name, order, point_values)
        leaf = self.leaves[name]
        return derivatives(tapes.Tape((self.output,), [leaf]), leaf, FLOATS, point_values, order)

    def with_output(self, output: Node) -> Self:
        """Return another node of the text, such as a named intermediate (see `bound`), as a formula of all variables.

        >>> from autodiff_cli import parse
        >>> f = parse("a = x*y; a^2")
        >>> f.with_output(f.bound["a"])(x=2, y=3)
        6.0
        """
        return type(self)(
            output, self.leaves, source=self.source, shapes=self.shapes, arrays=self.arrays, bound=self.bound
        )

    def derivative(self, name: str) -> Self:
        """Return the derivative with respect to a variable, as an expression; `0` for a name that does not occur.

        Raises:
            ExpressionError: if the derivative depends on the shape of a variable that is not declared (`v: 3`).

        >>> from autodiff_cli import parse
        >>> f = parse("x^2*sin(y)")
        >>> print(f.derivative("x"))
        2*x*sin(y)
        >>> print(f.derivative("x").derivative("y"))
        2*x*cos(y)
        """
        name = canonical_name(name)
        if name not in self.leaves:
            return type(self)(ZERO, {})
        if self.arrays:
            unknown = [name for name in self.variables if name in self.arrays]
            examples = self.example_shapes()
            raise ExpressionError(
                f"declare the shape of {', '.join(f'`{name}`' for name in unknown)}: the derivative depends on it",
                suggestion=self.with_declarations({name: examples.get(name, (3,)) for name in unknown}),
            )
        self.check_scalar_output(self.shapes)
        slope = self._slopes[name]
        used = {node.text: node for node in tapes.topological_order([slope]) if node.is_input}
        leaves = {name: used[name] for name in self.leaves if name in used}
        declared = {name: shape for name, shape in self.shapes.items() if name in leaves}
        derived = type(self)(slope, leaves, shapes=declared)
        derived._symbols = self._symbols
        derived._parent = self
        return derived

    @cached_property
    def _forward(self) -> ForwardPass[float]:
        return ForwardPass(self.tape, FLOATS)

    @cached_property
    def _reverse(self) -> ReversePass[float]:
        return ReversePass(self.tape, FLOATS)

    @cached_property
    def _slopes(self) -> dict[str, Node]:
        """The first derivatives by variable. They share most of their parts, so they are simplified together."""
        from autodiff_cli.algebra.simplify import simplify

        return dict(zip(self.leaves, simplify(self._gradient(self.shapes)), strict=True))

    @cached_property
    def _readable_slopes(self) -> dict[Node, Node]:
        """The form in which each of the first derivatives is printed."""
        from autodiff_cli.algebra.readable import readable

        slopes = [*self._slopes.values()]
        return dict(zip(slopes, readable(slopes, self._symbols, self.shapes), strict=True))

    @cached_property
    def _symbols(self) -> tuple[str, ...]:
        """The variables in the order in which products are written; a derivative inherits it from its formula."""
        from autodiff_cli.algebra.readable import symbol_order

        return symbol_order(self.tape.nodes, self.variables)

    def _gradient(self, sizes: Mapping[str, Shape]) -> list[Node]:
        from autodiff_cli.algebra.simplify import share

        key = tuple(sorted(sizes.items()))
        if key not in self._gradients:
            with self.locate_errors():
                self._gradients[key] = gradient_nodes(share([self.output])[0], list(self.leaves.values()), sizes)
        return self._gradients[key]

    def _rates(self, direction: Mapping[str, ArrayLike]) -> dict[str, Any]:
        rates = canonical_names(as_mapping(direction).items())
        self.check_names(rates)
        return _as_numbers(rates, "direction")


def _unpickle(
    kind: type[Formula], packed: tapes.PackedGraph, names: Sequence[str], options: Mapping[str, Any]
) -> Formula:
    output, *leaves = tapes.unpack(packed)
    return kind(output, dict(zip(names, leaves, strict=True)), **options)

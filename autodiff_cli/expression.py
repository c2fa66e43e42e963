"""Expressions in Python: `parse` reads a formula, and returns an `Expression` to evaluate, differentiate and trace.

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
from typing import TYPE_CHECKING, Any, TypeAlias

from autodiff_cli.formula.formula import Formula
from autodiff_cli.language.lexer import canonical_name
from autodiff_cli.options import as_list
from autodiff_cli.solving import MAX_BOXES

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from autodiff_cli.formula.formula import Point
    from autodiff_cli.render.trace import TraceDisplay
    from autodiff_cli.solving.solutions import Optima, Solution

Box: TypeAlias = Mapping[str, Any]  # a range (low, high) for each unknown, and a number for each other variable


def parse(text: str, variables: Iterable[str] = ()) -> Expression:
    """Read a formula.

    Args:
        text: the formula, in the language of `docs/language.md`; newlines or `;` separate statements.
        variables: names of constants (`pi tau e inf nan`) to read as variables, as in `["e"]`.

    Raises:
        ExpressionError: if the text is not a formula; `line` and `column` are the position of the mistake.

    >>> parse("a = x + y; a^2").variables
    ('x', 'y')
    >>> parse("e*x", variables=["e"]).grad(e=3, x=2)
    {'e': 2.0, 'x': 3.0}
    """
    return Expression.read(text, as_list(variables))


class Expression(Formula):
    """A formula to evaluate, differentiate and trace; `parse` returns one.

    >>> f = parse("x^2*y")
    >>> f.grad(x=3, y=2)
    {'x': 12.0, 'y': 9.0}
    >>> f(x=[1, 2, 3], y=2)
    array([ 2.,  8., 18.])
    >>> parse("sum(v^2)").grad(v=[1, 2])
    {'v': array([2., 4.])}
    """

    def trace(
        self, point: Point | None = None, /, *, wrt: Iterable[str] | None = None, **values: ArrayLike
    ) -> TraceDisplay:
        """Trace both passes of backpropagation at a point, as a record that a terminal or a notebook displays.

        Args:
            point: the values by name; or pass them as keywords.
            wrt: the variables to differentiate by; all by default. Pass the value of a variable named `wrt` in `point`.

        Raises as `value_and_grad` does, UnknownNameError also for a name in `wrt`, and ExpressionError for a batch.

        >>> record = parse("x*y + sin(x)").trace(x=2, y=3)
        >>> record
        <trace of x*y + sin(x) at x = 2, y = 3>
        >>> record.gradient
        {'x': 2.5838531634528574, 'y': 2.0}
        >>> record.to_dict()["forward"][0]
        {'step': 1, 'node': 2, 'op': 'mul', 'inputs': [0, 1], 'value': 6.0}
        """
        from autodiff_cli.explain.tracing import trace
        from autodiff_cli.render.trace import TraceDisplay

        names = None if wrt is None else [*map(canonical_name, as_list(wrt))]
        self.check_names(names or ())
        return TraceDisplay(trace(self, self.at(point, **values), names))

    def solve(
        self, box: Box | None = None, /, *, max_boxes: int = MAX_BOXES, precision: int | None = None, **values: Any
    ) -> Solution:
        """Find all zeros in a box, and prove each.

        Args:
            box: a range (low, high) for each unknown and a number for each other variable; or pass them as keywords.
            max_boxes: the number of boxes after which the search ends.
            precision: the number of digits of the results, which are then texts.

        Raises UnknownNameError and MissingValueError, and ExpressionError if there are not as many equations as
        unknowns and for a range that is empty or infinite.

        >>> parse("x^2 - 2").solve(x=(0, 2)).roots[0].enclosure
        {'x': (1.414213562373095, 1.4142135623730951)}
        """
        from autodiff_cli.solving import solutions

        return solutions.solve(solutions.read_problem(self, box, values, max_boxes, precision))

    def minimize(
        self, box: Box | None = None, /, *, max_boxes: int = MAX_BOXES, precision: int | None = None, **values: Any
    ) -> Optima:
        """Find all stationary points in a box, and the global minimum; without any range, search from a start.

        Takes the arguments of `solve`, and raises the same errors.

        >>> found = parse("x^4 - 2*x^2 + y^2").minimize(x=(-2, 2), y=(-1, 2))
        >>> [(point.point["x"], point.kind) for point in found.points]
        [(-1.0, 'minimum'), (0.0, 'saddle'), (1.0, 'minimum')]
        """
        from autodiff_cli.solving import solutions

        return solutions.optimize(solutions.read_problem(self, box, values, max_boxes, precision))

    def maximize(
        self, box: Box | None = None, /, *, max_boxes: int = MAX_BOXES, precision: int | None = None, **values: Any
    ) -> Optima:
        """Find all stationary points in a box, and the global maximum; without any range, search from a start.

        Takes the arguments of `solve`, and raises the same errors.

        >>> parse("x*(1 - x)").maximize(x=(0, 1)).points[0].value
        0.25
        """
        from autodiff_cli.solving import solutions

        return solutions.optimize(solutions.read_problem(self, box, values, max_boxes, precision), is_maximum=True)

    def _repr_latex_(self) -> str:
        r"""Return the formula in LaTeX, for a notebook.

        >>> parse("x^2/y")._repr_latex_()
        '$\\displaystyle \\frac{x^{2}}{y}$'
        """
        from autodiff_cli.export.latex import fresh_symbols, latex_symbols
        from autodiff_cli.graph.codegen import Fragment
        from autodiff_cli.graph.tape import topological_order
        from autodiff_cli.render.solution import latex_formula
        from autodiff_cli.targets.latex import LatexWriter

        symbols = latex_symbols(self.leaves, topological_order([self.output]))
        leaves = {leaf: Fragment(symbols[name]) for name, leaf in self.leaves.items()}
        fresh = fresh_symbols(symbols.values())
        writer = LatexWriter(self.shapes, self.arrays)
        text, parts = latex_formula(self.output, leaves, lambda _: next(fresh), writer=writer)
        definitions = "".join(rf",\quad {name} = {part}" for name, part in parts)
        return rf"$\displaystyle {text}{definitions}$"

"""The front door: `parse` reads a formula, and an `Expression` is a formula that can also show its trace.

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

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from autodiff_cli.formula.formula import Formula
from autodiff_cli.language.lexer import canonical

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from autodiff_cli.formula.evaluation import Point
    from autodiff_cli.render.notebook import ShownTrace


def parse(text: str, variables: Iterable[str] = ()) -> Expression:
    """Read a formula.

    Args:
        text: in the language of `docs/language.md`; several statements are several lines or separated by `;`.
        variables: names that are variables although they are constants of the language (`["e"]`).

    Raises:
        ExpressionError: if the text is not a formula; its `line` and `column` say where.

    >>> parse("a = x + y; a^2").variables
    ('x', 'y')
    >>> parse("e*x", variables=["e"]).grad(e=3, x=2)
    {'e': 2.0, 'x': 3.0}
    """
    return Expression.read(text, variables)


class Expression(Formula):
    """A formula that can also show its trace: what users hold.

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
    ) -> ShownTrace:
        """Both passes of backpropagation at a point, as a record that shows itself, printed or in a notebook.

        Args:
            wrt: the variables to differentiate towards; all by default. (The value of a variable of this name is given
                in a mapping.)

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
        from autodiff_cli.render.notebook import ShownTrace

        names = None if wrt is None else [*map(canonical, [wrt] if isinstance(wrt, str) else wrt)]
        self.check_names(names or ())
        return ShownTrace(trace(self, self.at(point, **values), names))

    def _repr_latex_(self) -> str:
        r"""The formula as a notebook sets it.

        >>> parse("x^2/y")._repr_latex_()
        '$\\displaystyle \\frac{x^{2}}{y}$'
        """
        from autodiff_cli.export.latex import symbol
        from autodiff_cli.graph.straight import Fragment
        from autodiff_cli.render.solution.setting import formula

        known = {leaf: Fragment(symbol(name)) for name, leaf in self.leaves.items()}
        count = itertools.count(1)
        text, parts = formula(self.output, known, lambda _: f"t_{{{next(count)}}}")
        also = "".join(rf",\quad {name} = {part}" for name, part in parts)
        return rf"$\displaystyle {text}{also}$"

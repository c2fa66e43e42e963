"""The front door of fits: `fit` finds parameters, `load` reads those of a file, and a `Fit` can also say what it found.

>>> found = fit("y ~ a*x + b", {"x": [0, 1, 2, 3], "y": [1, 3, 5, 7.5]})
>>> {name: round(value, 6) for name, value in found.parameters.items()}
{'a': 2.15, 'b': 0.9}
"""

from __future__ import annotations

import dataclasses
import functools
import io
from collections.abc import Callable
from typing import Any, ParamSpec

from autodiff_cli.render.fits.report import fit_report
from autodiff_cli.render.notebook import LONGEST
from autodiff_cli.render.paper import Paper
from autodiff_cli.render.plots.files import body
from autodiff_cli.render.text import on_one_line, shortened
from autodiff_cli.training import fit as training
from autodiff_cli.training.comparison import compare as comparison
from autodiff_cli.training.groups import by_group
from autodiff_cli.training.result import fit as result
from autodiff_cli.training.result import model_file

P = ParamSpec("P")


class Fit(result.FittedModel):
    """A fitted model: see the attributes of `training.result.fit.FittedModel`, whose record it is.

    >>> found = fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6.6]})
    >>> found.dof, found.columns
    (2, ('y', 'x'))
    """

    __slots__ = ()

    def summary(self, digits: int | None = None) -> str:
        """What `autodiff train` prints of a fit.

        Args:
            digits: to show of every number; by default values are rounded by their errors.

        >>> print(fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6.6]}).summary().splitlines()[4].strip())
        a     2.129           0.068  1.837 to 2.420
        """
        stream = io.StringIO()
        fit_report(self, digits, saved=True).write(Paper(stream))
        return stream.getvalue().lstrip("\n")

    def __repr__(self) -> str:
        """The model and its parameters.

        >>> fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6]})
        <Fit of y ~ a*x: a = 2>
        """
        numbers = (
            f"{name} = {value:.6g}" if isinstance(value, float) else f"{name} of {'x'.join(map(str, value.shape))}"
            for name, value in self.parameters.items()
        )
        return on_one_line(f"<Fit of {shortened(self.model, LONGEST)}: {shortened(', '.join(numbers), LONGEST)}>")

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002 - a fit is in no circle
        """What IPython shows in a terminal: the summary."""
        printer.text(self.summary())

    def _repr_html_(self) -> str:
        """What a notebook shows: the data with the curve, the losses, the parameters, the formula.

        >>> fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6.6]})._repr_html_().count("<svg")
        1
        """
        return body(self)


def _shown(found: result.FittedModel) -> Fit:
    return Fit(**{field.name: getattr(found, field.name) for field in dataclasses.fields(found)})


def _fronted(make: Callable[P, result.FittedModel]) -> Callable[P, Fit]:
    """What makes a fit, with one that can say what it found."""

    @functools.wraps(make)
    def fronted(*arguments: P.args, **options: P.kwargs) -> Fit:
        try:
            return _shown(make(*arguments, **options))
        except training.Interrupted as interruption:
            interruption.fit = _shown(interruption.fit)
            raise

    return fronted


@functools.wraps(by_group.fit_by)
def _fit_by(*arguments: Any, **options: Any) -> by_group.FittedGroups:
    found = by_group.fit_by(*arguments, **options)
    shown = (dataclasses.replace(one, fit=None if one.fit is None else _shown(one.fit)) for one in found)
    return dataclasses.replace(found, groups=tuple(shown))


compare = comparison.compare
fit_by: Callable[..., by_group.FittedGroups] = _fit_by
fit = _fronted(training.fit)
load = _fronted(model_file.load)

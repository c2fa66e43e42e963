"""Fits in Python: `fit` estimates parameters, `load` reads a model file, and both return a `Fit`.

A `Fit` adds displays to the fitted model: a summary, a line for the interactive prompt, and a page for notebooks.

>>> result = fit("y ~ a*x + b", {"x": [0, 1, 2, 3], "y": [1, 3, 5, 7.5]})
>>> {name: round(value, 6) for name, value in result.parameters.items()}
{'a': 2.15, 'b': 0.9}
"""

from __future__ import annotations

import dataclasses
import functools
import io
from collections.abc import Callable
from typing import Any, ParamSpec

from autodiff_cli.render.fit import fit_report
from autodiff_cli.render.formatting import shorten_middle, single_line
from autodiff_cli.render.plots import plot_html
from autodiff_cli.render.report import Paper
from autodiff_cli.render.trace import MAX_NAME_LENGTH
from autodiff_cli.training.fitting import comparison, groups
from autodiff_cli.training.fitting import fit as model_fit
from autodiff_cli.training.result import fitted_model

P = ParamSpec("P")


class Fit(fitted_model.FittedModel):
    """A fitted model that can be displayed. Its attributes are those of `FittedModel`.

    >>> result = fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6.6]})
    >>> result.dof, result.columns
    (2, ('y', 'x'))
    """

    __slots__ = ()

    def summary(self, digits: int | None = None) -> str:
        """Return the report of the fit, as `autodiff train` prints it.

        Args:
            digits: the significant digits of every number; by default values are rounded by their standard errors.

        >>> print(fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6.6]}).summary().splitlines()[4].strip())
        a     2.129           0.068  1.837 to 2.420
        """
        stream = io.StringIO()
        fit_report(self, digits, is_saved=True).write(Paper(stream))
        return stream.getvalue().lstrip("\n")

    def __repr__(self) -> str:
        """Return the model and its parameters in one line.

        >>> fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6]})
        <Fit of y ~ a*x: a = 2>
        """
        numbers = (
            f"{name} = {value:.6g}" if isinstance(value, float) else f"{name} of {'x'.join(map(str, value.shape))}"
            for name, value in self.parameters.items()
        )
        model = shorten_middle(self.model, MAX_NAME_LENGTH)
        parameters = shorten_middle(", ".join(numbers), MAX_NAME_LENGTH)
        return single_line(f"<Fit of {model}: {parameters}>")

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002 - a fit never contains itself
        """Print the summary, for IPython in a terminal."""
        printer.text(self.summary())

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the data with the fitted curve, the losses, the parameters and the formula.

        >>> fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6.6]})._repr_html_().count("<svg")
        1
        """
        return plot_html(self)


def _public_fit(model: fitted_model.FittedModel) -> Fit:
    """Return a public `Fit` for an internal `FittedModel`."""
    return Fit(**{field.name: getattr(model, field.name) for field in dataclasses.fields(model)})


def _with_public_fit(make: Callable[P, fitted_model.FittedModel]) -> Callable[P, Fit]:
    """Return a function like `make` whose result is a public `Fit`."""

    @functools.wraps(make)
    def with_public_fit(*arguments: P.args, **options: P.kwargs) -> Fit:
        try:
            return _public_fit(make(*arguments, **options))
        except model_fit.Interrupted as interruption:
            interruption.fit = _public_fit(interruption.fit)
            raise

    return with_public_fit


@functools.wraps(groups.fit_by)
def _fit_by(*arguments: Any, **options: Any) -> groups.FittedGroups:
    fits = groups.fit_by(*arguments, **options)
    public = (dataclasses.replace(one, fit=None if one.fit is None else _public_fit(one.fit)) for one in fits)
    return dataclasses.replace(fits, groups=tuple(public))


compare = comparison.compare
fit_by: Callable[..., groups.FittedGroups] = _fit_by
fit = _with_public_fit(model_fit.fit)
load = _with_public_fit(fitted_model.load)

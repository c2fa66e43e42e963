"""Fits in Python: `fit` estimates parameters, `load` reads a model file, and both return a `Fit`.

A `Fit` adds displays to the fitted model: a summary, a line for the interactive prompt, and a page for notebooks.

>>> result = fit("y ~ a*x + b", {"x": [0, 1, 2, 3], "y": [1, 3, 5, 7.5]})
>>> {name: round(value, 6) for name, value in result.parameters.items()}
{'a': 2.15, 'b': 0.9}
"""

from __future__ import annotations

import dataclasses
import io
import os
import sys
from collections.abc import Sequence
from typing import Any, cast

from autodiff_cli.data.dialect import FileOptions
from autodiff_cli.data.files import DataSource, open_data
from autodiff_cli.options import as_list, between, convert_plain_value, takes_options
from autodiff_cli.render import formatting, plots, report, trace
from autodiff_cli.render.fit import fit_report
from autodiff_cli.training.fitting.comparison import Comparison, compare_models
from autodiff_cli.training.fitting.fit import Interrupted, fit_dataset
from autodiff_cli.training.fitting.groups import FittedGroups, fit_groups
from autodiff_cli.training.objective.loading import Data, as_dataset
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.options import ComparisonOptions, FigureOptions, FitOptions
from autodiff_cli.training.result import fitted_model, prediction


class Fit(fitted_model.FittedModel):
    """A fitted model that predicts new rows and can be displayed. It has the attributes of `FittedModel`.

    >>> result = fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6.6]})
    >>> result.dof, result.columns
    (2, ('y', 'x'))
    """

    __slots__ = ()

    predict = prediction.predict
    predict_posterior = prediction.predict_posterior
    inverse = prediction.inverse

    def summary(self, digits: int | None = None) -> str:
        """Return the report of the fit, as `autodiff train` prints it.

        Args:
            digits: the significant digits of every number, 1 to 17; by default values are rounded by their standard
                errors.

        Raises:
            OptionError: for another number of digits.

        >>> print(fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6.6]}).summary().splitlines()[4].strip())
        a     2.129           0.068  31.41  0.001  1.837 to 2.420
        """
        if digits is not None:
            between(1, 17).require("digits", convert_plain_value(digits, int, "digits"))
        stream = io.StringIO()
        fit_report(self, is_saved=True).write(report.Paper(stream, digits))
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
        model = formatting.shorten_middle(self.model, trace.MAX_NAME_LENGTH)
        parameters = formatting.shorten_middle(", ".join(numbers), trace.MAX_NAME_LENGTH)
        return formatting.single_line(f"<Fit of {model}: {parameters}>")

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002 - a fit never contains itself
        """Print the summary, for IPython in a terminal."""
        printer.text(self.summary())

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the data with the fitted curve, the losses, the parameters and the formula.

        >>> fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6.6]})._repr_html_().count("<svg")
        1
        """
        return plots.plot_html({"": self})

    def save_plot(self, path: str | os.PathLike[str], log: str | None = None, panels: str = "data,residuals") -> None:
        """Write a plot of the fit as an SVG, PDF, PNG or HTML file. The fit needs the option `plot=True`.

        Args:
            log: the logarithmic axes, `x`, `y`, `x,y` or `none`; by default they are chosen by the data.
            panels: `data`, `residuals` and `loss`, separated by commas; or `posterior`.

        Raises:
            OSError: if the file cannot be written.
            OptionError: for a file of another kind, and for other axes and panels.

        >>> import tempfile
        >>> result = fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6.6]}, plot=True)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result.save_plot(os.path.join(folder, "fit.svg"), panels="data")
        ...     os.listdir(folder)
        ['fit.svg']
        """
        plots.save_plot({"": self}, path, FigureOptions(log=log, panels=panels))


def _public_fit(model: fitted_model.FittedModel) -> Fit:
    """Return a fitted model as a `Fit`, which has the same fields.

    It is the same object: a copy takes as long as a small fit.
    """
    object.__setattr__(model, "__class__", Fit)
    return cast(Fit, model)


@takes_options(FileOptions)
def read_data(paths: str | os.PathLike[str] | Sequence[str], options: FileOptions) -> DataSource:
    """Open data files as one dataset, for `fit`, `fit_by`, `compare` and `Objective`.

    Args:
        paths: the path of a file, a folder or a pattern (`2024-*.csv`), or several of these.
        options: the fields of `autodiff_cli.FileOptions`, as keywords: `skip=3`, `where="t > 0"`.

    Raises:
        DataError: for missing and unreadable files, and for options that do not suit them.
        OptionError: for values that an option cannot have.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "data.csv")
    ...     with open(path, "w") as stream:
    ...         _ = stream.write("measured in May\\nx,y\\nm,s\\n1,2\\n2,4\\n3,6.6\\n")
    ...     fit("y ~ a*x", read_data(path, skip=1, units_row=True)).rows
    3
    """
    return open_data([convert_plain_value(each, os.PathLike, "each path") for each in as_list(paths)], options=options)


@takes_options(FitOptions)
def fit(model: str | Model, data: Data, options: FitOptions) -> Fit:
    """Fit the parameters of a model to data.

    Args:
        model: `target ~ prediction`, or an expression that is itself the loss of a row. Names that are not columns of
            the data are parameters. `column ~ softmax(…)` is a classification of whole numbers or texts.
        data: the columns by name, or the path of a file, a folder or a pattern (`2024-*.csv`).
        options: the fields of `FitOptions`, as keywords.

    Raises:
        ExpressionError: if the model cannot be parsed, or lacks a parameter that is named.
        DataError: if the data cannot be used.
        OptionError: for options with a value that they cannot have, or that cannot be combined.
        CheckpointError: for a checkpoint that cannot be resumed, or that another run writes.
        ClusterError: if the cluster fails for good.
        OSError: if the first checkpoint cannot be written. If a later one fails, the fit continues with a warning.
        Interrupted: on Ctrl-C.

    >>> import numpy as np
    >>> x = np.linspace(0, 2, 21)
    >>> found = fit("y ~ a*exp(-b*x)", {"x": x, "y": 2.5*np.exp(-1.3*x)}, start={"b": 0.5})
    >>> {name: round(value, 9) for name, value in found.parameters.items()}
    {'a': 2.5, 'b': 1.3}
    """
    if options.plot is None and "ipykernel" in sys.modules:
        options = dataclasses.replace(options, plot=True)
    try:
        return _public_fit(fit_dataset(model, as_dataset(data, [model]), options))
    except Interrupted as interruption:
        _public_fit(interruption.fit)
        raise


@takes_options(FitOptions)
def fit_by(model: str | Model, data: Data, by: str, options: FitOptions) -> FittedGroups:
    """Fit a model to each group of rows. If a group fails, the other groups are still fitted.

    Args:
        model: the model, and `data`: the data; see `fit`, also for the options.
        by: the column whose labels (texts or numbers) define the groups.

    Raises:
        ExpressionError, DataError, OptionError: for an invalid model, data that cannot be used at all, and invalid
            options.

    >>> data = {"x": [1, 2, 3, 1, 2, 3], "y": [2, 4, 6, 5, 10, 15.3], "site": ["u", "u", "u", "v", "v", "v"]}
    >>> found = fit_by("y ~ a*x", data, "site")
    >>> [(group.by, round(group.fit.parameters["a"], 3)) for group in found]
    [('u', 2.0), ('v', 5.064)]
    """
    fits = fit_groups(model, data, by, options)
    for group in fits:
        if group.fit is not None:
            _public_fit(group.fit)
    return fits


@takes_options(ComparisonOptions)
def compare(models: Sequence[str], data: Data, options: ComparisonOptions) -> Comparison:
    """Fit several models of one target to the same rows, and compare them.

    Args:
        models: the texts of the models. Starting values and bounds apply to all models that have the parameter.
        data: the data; see `fit`.
        options: the fields of `ComparisonOptions` that apply to all models alike, as keywords.

    Raises:
        OptionError: for fewer than two models, and for models of different targets.
        ExpressionError, DataError: see `fit`.

    >>> x = [0, 1, 2, 3, 4, 5, 6, 7]
    >>> found = compare(["y ~ a + b*x", "y ~ a"], {"x": x, "y": [1, 3.1, 4.9, 7, 9.2, 11, 12.8, 15]})
    >>> [one.fit.model for one in found.models], found.tests[0].name, found.tests[0].p < 1e-6
    (['y ~ a + b*x', 'y ~ a'], 'F', True)
    """
    comparison = compare_models(models, as_dataset(data, as_list(models)), options)
    for one in comparison.models:
        _public_fit(one.fit)
    return comparison


def load(path: str | os.PathLike[str]) -> Fit:
    """Read a fitted model that `Fit.save` or `train --save` wrote. Raises ModelFileError.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.json")
    ...     fit("y ~ a*x", {"x": [1, 2], "y": [2, 4]}).save(path)
    ...     load(path)
    <Fit of y ~ a*x: a = 2>
    """
    return _public_fit(fitted_model.load(path))

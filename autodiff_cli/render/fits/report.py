"""What `train` shows when a fit has ended: the parameters, how well they are known, and how good the fit is."""

from __future__ import annotations

import numpy as np

from autodiff_cli.render.fits.derived import write_derived, write_intervals
from autodiff_cli.render.fits.diagnosis import write_diagnosis
from autodiff_cli.render.fits.document import fit_document
from autodiff_cli.render.fits.networks import is_summarised, layers_table, write_confusion
from autodiff_cli.render.fits.rounding import Rounding
from autodiff_cli.render.numbers import Show, shows
from autodiff_cli.render.paper import Column, Paper, Style, TextTable
from autodiff_cli.render.report import Report
from autodiff_cli.render.text import counted, on_one_line
from autodiff_cli.training.result.diagnosis import layer_of
from autodiff_cli.training.result.fit import FittedModel

ON_BOUND = "on its bound"
UNKNOWN = "-"  # a standard error that is not known
LONGEST_FORMULA = 300  # characters of one that is shown
CORRELATED = 0.5  # the least correlation that is shown
MOST_CORRELATIONS = 10


def fit_report(fit: FittedModel, digits: int | None, saved: bool = False, drawn: bool = False) -> Report:
    """How the run ended, the parameters with their standard errors, the figures of the fit, the formula.

    Args:
        saved: whether the model will be kept in a file.
        drawn: whether to draw its picture too.
    """

    def write(paper: Paper) -> None:
        _write_fit(paper, fit, digits, saved)
        if drawn:
            from autodiff_cli.render.plots.terminal import write_picture

            write_picture(paper, fit)

    return Report(write, lambda: [fit_document(fit)])


def _write_fit(paper: Paper, fit: FittedModel, digits: int | None, saved: bool) -> None:
    brief = shows(digits)[1]
    paper.line()
    paper.line(_ending(fit, brief), Style.STRONG)
    _write_parameters(paper, fit, digits)
    write_derived(paper, fit, digits)
    write_intervals(paper, fit, digits)
    _write_correlations(paper, fit)
    paper.heading("figures")
    for line in _figures(fit, brief):
        paper.line(f"  {line}")
    if fit.classes is not None and fit.confusion is not None:
        write_confusion(paper, fit.classes, fit.confusion)
    if 0 < len(fit.formula) <= LONGEST_FORMULA:
        paper.heading("fitted formula" if fit.labelled else "fitted formula, ready for `autodiff grad`")
        paper.verbatim(on_one_line(fit.formula))
    elif not saved:
        paper.line()
        paper.line(
            "--save MODEL.json keeps the model for `autodiff predict`; --json has all of its numbers", Style.FAINT
        )
    if fit.diagnosis is not None:
        write_diagnosis(paper, fit.diagnosis, brief)
    # What is said of the model stands below its title, and the failure on standard error.
    warnings = [warning for warning in fit.warnings if warning not in (*fit.doubts, fit.failure)]
    if warnings:
        paper.heading("warnings")
        for warning in warnings:
            paper.line(f"  {warning}", Style.WARNING)


def _write_parameters(paper: Paper, fit: FittedModel, digits: int | None) -> None:
    """Those that people read with their standard errors, those of networks layer by layer."""
    everything = {**fit.parameters, **fit.fixed}
    summarised = {name for name, value in everything.items() if is_summarised(name, value)}
    if len(summarised) < len(everything):
        paper.heading("parameters")
        paper.table(_parameters(fit, [name for name in everything if name not in summarised], digits))
        if fit.definition:
            paper.line(f"  standard errors: {fit.definition}", Style.FAINT)
    if summarised:
        layers = {name: value for name, value in everything.items() if name in summarised}
        paper.heading("layers")
        paper.table(layers_table(layers, fit.fixed, shows(digits)[1]))


def _parameters(fit: FittedModel, names: list[str], digits: int | None) -> TextTable:
    """Values and errors to two digits of the error; with intervals, where any is known."""
    intervals = fit.confidence() if fit.definition else {}
    rows = []
    for name in names:
        if name in fit.fixed:
            rows.append((name, shows(digits)[0](fit.fixed[name]), "fixed", ""))
            continue
        error = fit.stderr[name]
        rounding = Rounding.of(fit.parameters[name], error, digits)
        ends = intervals.get(name)
        interval = "" if ends is None or np.isnan(ends).any() else " to ".join(map(rounding.of_value, ends))
        shown = ON_BOUND if name in fit.on_bounds else UNKNOWN
        shown = shown if error is None else rounding.of_error(error)
        rows.append((name, rounding.of_value(fit.parameters[name]), shown, interval))
    titles = [Column("name"), Column("value", is_number=True), Column("standard error", is_number=True)]
    if not any(interval for *_, interval in rows):
        return TextTable(tuple(titles), [row[:3] for row in rows])
    titles.append(Column(f"{100 * fit.confidence_level:g} % interval", is_number=True, is_dispensable=True))
    return TextTable(tuple(titles), rows)


def _write_correlations(paper: Paper, fit: FittedModel) -> None:
    """The pairs of parameters that hang together most."""
    if not fit.numbers or not fit.definition:
        return
    matrix = fit.correlation
    pairs = [
        (float(matrix[i, j]), one, other)
        for i, one in enumerate(fit.numbers)
        for j, other in enumerate(fit.numbers[:i])
        if abs(matrix[i, j]) > CORRELATED
    ]
    if not pairs:
        return
    pairs.sort(key=lambda pair: -abs(pair[0]))
    paper.heading(f"correlations above {CORRELATED:g}")
    for value, one, other in pairs[:MOST_CORRELATIONS]:
        paper.line(f"  {other}, {one}  {_correlation(value)}")
    if len(pairs) > MOST_CORRELATIONS:
        paper.line(f"  … {len(pairs) - MOST_CORRELATIONS} more; --json has all", Style.FAINT)


def _correlation(value: float) -> str:
    """Two digits of what is missing to 1, so that 0.9998 is not 1."""
    for decimals in range(3, 9):
        shown = f"{value:.{decimals}f}"
        if abs(value) >= 1 or not shown.endswith("1." + decimals * "0"):
            return shown
    return f"{value:g}"


def _ending(fit: FittedModel, show: Show) -> str:
    end = "converged" if fit.converged else "stopped"
    change = f": loss {show(fit.history[0]['loss'])} before, {show(fit.loss)} after" if fit.history else ""
    return f"{fit.optimizer} {end} after {counted(fit.epochs, 'epoch')}{change}"


def _figures(fit: FittedModel, show: Show) -> list[str]:
    found = fit.figures
    lines = []
    if fit.accuracy is not None:
        lines.append(f"accuracy = {show(fit.accuracy)}")
    if fit.r_squared is not None and not np.isnan(fit.r_squared):
        adjusted = "" if found.adjusted_r_squared is None else f", adjusted {show(found.adjusted_r_squared)}"
        lines.append(f"R²  = {show(fit.r_squared)}{adjusted}")
    if fit.rss is not None and found.deviance is None:
        lines.append(f"rss = {show(fit.rss)}")
    if found.deviance is not None:
        null = "" if found.null_deviance is None else f", {show(found.null_deviance)} for the mean alone"
        lines.append(f"deviance = {show(found.deviance)}{null}")
    if found.dispersion is not None:
        lines.append(f"dispersion = {show(found.dispersion)}")
    lines.append(_size(fit))
    if found.residual_std is not None:
        lines.append(f"standard deviation of residuals = {show(found.residual_std)}")
    if fit.penalty is not None:
        lines.append(f"penalty = {show(fit.penalty)}, a part of the loss")
    if fit.scale is not None:
        lines.append(f"scale of residuals = {show(fit.scale)}")
    if found.chi_squared_p is not None and found.reduced_chi_squared is not None:
        lines.append(f"χ²/dof = {show(found.reduced_chi_squared)}, probability {show(found.chi_squared_p)}")
    if found.aic is not None and found.aicc is not None and found.bic is not None:
        lines.append(f"AIC = {show(found.aic)}, AICc = {show(found.aicc)}, BIC = {show(found.bic)}")
    if found.residual_quantiles is not None and found.deviance is None:
        least, lower, median, upper, most = map(show, found.residual_quantiles)
        lines.append(f"residuals from {least} to {most}, quartiles {lower}, {median}, {upper}")
    if found.durbin_watson is not None:
        lines.append(f"Durbin-Watson = {show(found.durbin_watson)} (2 where neighbours are independent)")
    if fit.validation_loss is not None:
        right = "" if fit.validation_accuracy is None else f", accuracy {show(fit.validation_accuracy)}"
        held_out = counted(fit.validation_rows, "row")
        lines.append(f"validation: loss {show(fit.validation_loss)}{right} ({held_out} held out)")
    return lines


def _size(fit: FittedModel) -> str:
    """The degrees of freedom; for networks, which have no such figure worth the name, what they are counted from."""
    free = sum(np.size(value) for value in fit.parameters.values())
    targets = max(1, (fit.dof + free) // fit.rows)
    rows = f"{counted(fit.rows, 'row')}{'' if targets == 1 else f' of {targets} targets'}"
    if not fit.definition and any(layer_of(name) != name for name in fit.parameters):
        return f"{rows}, {counted(free, 'parameter')}"
    idle = fit.rows * targets - free - fit.dof
    counting = f"{rows}{f', {idle} of no weight,' if idle else ''} - {counted(free, 'parameter')}"
    return f"dof = {fit.dof} ({counting})"

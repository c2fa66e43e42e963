"""The report of a fit, which `train` writes at its end, and the fit as a JSON document.

The report has the parameters with their standard errors, derived quantities, intervals, correlations, the figures of
the fit, and the fitted formula. Networks are summarised layer by layer; classifications have a confusion table.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array
from autodiff_cli.render.formatting import (
    NumberFormat,
    Rounding,
    drop_double_negations,
    interval_text,
    number_formats,
    pluralize,
    single_line,
)
from autodiff_cli.render.progress import method_name, step_noun
from autodiff_cli.render.report import NO_VALUE, Column, Paper, Report, Style, TextTable, json_number, json_numbers
from autodiff_cli.training.result.diagnosis import Diagnosis, LayerUnits, Problem, layer_name
from autodiff_cli.training.result.fitted_model import FittedModel
from autodiff_cli.training.result.prediction import FitPlot

# --- The report ---

ON_BOUND = "on its bound"
MAX_FORMULA_LENGTH = 300  # characters; longer fitted formulas are not shown, since nobody reads them
MIN_CORRELATION = 0.5  # weaker correlations are not listed
MAX_CORRELATIONS = 10  # pairs listed, strongest first


def fit_report(fit: FittedModel, digits: int | None, is_saved: bool = False, has_plot: bool = False) -> Report:
    """Report how the fit ended, the parameters with their standard errors, the figures of the fit, the formula.

    Args:
        is_saved: whether the model is also saved to a file.
        has_plot: whether to draw the fit after the report.
    """

    def write(paper: Paper) -> None:
        _write_fit(paper, fit, digits, is_saved)
        if has_plot:
            from autodiff_cli.render.plots import write_plot

            write_plot(paper, fit)

    return Report(write, lambda: [fit_document(fit)])


def _write_fit(paper: Paper, fit: FittedModel, digits: int | None, is_saved: bool) -> None:
    brief = number_formats(digits)[1]
    paper.line()
    paper.line(_outcome(fit, brief), Style.STRONG)
    _write_parameters(paper, fit, digits)
    write_derived(paper, fit, digits)
    write_intervals(paper, fit, digits)
    _write_correlations(paper, fit)
    paper.heading("figures")
    for line in _figure_lines(fit, brief):
        paper.line(f"  {line}")
    if fit.classes is not None and fit.confusion is not None:
        write_confusion(paper, fit.classes, fit.confusion)
    if 0 < len(fit.formula) <= MAX_FORMULA_LENGTH:
        paper.heading("fitted formula" if fit.label_columns else "fitted formula, ready for `autodiff grad`")
        paper.verbatim(drop_double_negations(single_line(fit.formula)))
    elif not is_saved:
        paper.line()
        paper.line("--save MODEL.json saves the model for `autodiff predict`; --json has all its numbers", Style.FAINT)
    if fit.diagnosis is not None:
        write_diagnosis(paper, fit.diagnosis, brief)
    if fit.notes:
        paper.heading("notes")
        for note in fit.notes:
            paper.line(f"  {note}")
    # Warnings about the model are already below its title, and the failure is on standard error.
    warnings = [warning for warning in fit.warnings if warning not in (*fit.model_warnings, fit.failure)]
    if warnings:
        paper.heading("warnings")
        for warning in warnings:
            paper.line(f"  {warning}", Style.WARNING)


def _write_parameters(paper: Paper, fit: FittedModel, digits: int | None) -> None:
    """Write parameters with their standard errors, and those of networks as a table of layers."""
    values = {**fit.parameters, **fit.fixed}
    summarised = {name for name, value in values.items() if is_summarised(name, value)}
    if len(summarised) < len(values):
        paper.heading("parameters")
        paper.table(_parameters_table(fit, [name for name in values if name not in summarised], digits))
        if fit.definition:
            paper.line(f"  standard errors: {fit.definition}", Style.FAINT)
    if summarised:
        layers = {name: value for name, value in values.items() if name in summarised}
        paper.heading("layers")
        paper.table(layers_table(layers, fit.fixed, number_formats(digits)[1]))


def _parameters_table(fit: FittedModel, names: list[str], digits: int | None) -> TextTable:
    """Table of values and standard errors, rounded to two digits of the error, and of intervals if any is known."""
    intervals = fit.confidence() if fit.definition else {}
    rows = []
    for name in names:
        if name in fit.fixed:
            rows.append((name, number_formats(digits)[0](fit.fixed[name]), "fixed", ""))
            continue
        error = fit.stderr[name]
        rounding = Rounding.from_error(fit.parameters[name], error, digits)
        ends = intervals.get(name)
        interval = "" if ends is None or np.isnan(ends).any() else " to ".join(map(rounding.format_value, ends))
        no_error = ON_BOUND if name in fit.on_bounds else NO_VALUE
        error_text = no_error if error is None else rounding.format_error(error)
        rows.append((name, rounding.format_value(fit.parameters[name]), error_text, interval))
    titles = [Column("name"), Column("value", is_number=True), Column("standard error", is_number=True)]
    if not any(interval for *_, interval in rows):
        return TextTable(tuple(titles), [row[:3] for row in rows])
    titles.append(Column(f"{100 * fit.confidence_level:g} % interval", is_number=True, is_optional=True))
    return TextTable(tuple(titles), rows)


def _write_correlations(paper: Paper, fit: FittedModel) -> None:
    """Write the pairs of parameters that are correlated most strongly."""
    if not fit.element_names or not fit.definition:
        return
    matrix = fit.correlation
    pairs = [
        (float(matrix[i, j]), one, other)
        for i, one in enumerate(fit.element_names)
        for j, other in enumerate(fit.element_names[:i])
        if abs(matrix[i, j]) > MIN_CORRELATION
    ]
    if not pairs:
        return
    pairs.sort(key=lambda pair: -abs(pair[0]))
    paper.heading(f"correlations above {MIN_CORRELATION:g}")
    for value, one, other in pairs[:MAX_CORRELATIONS]:
        paper.line(f"  {other}, {one}  {_correlation_text(value)}")
    if len(pairs) > MAX_CORRELATIONS:
        paper.line(f"  … {len(pairs) - MAX_CORRELATIONS} more; --json has all", Style.FAINT)


def _correlation_text(value: float) -> str:
    """Return a correlation with enough decimals that 0.9998 is not rounded to 1."""
    for decimals in range(3, 9):
        text = f"{value:.{decimals}f}"
        if abs(value) >= 1 or not text.endswith("1." + decimals * "0"):
            return text
    return f"{value:g}"


def _outcome(fit: FittedModel, show: NumberFormat) -> str:
    end = "converged" if fit.converged else "stopped"
    change = f": loss {show(fit.history[0]['loss'])} before, {show(fit.loss)} after" if fit.history else ""
    return f"{method_name(fit.optimizer)} {end} after {pluralize(fit.epochs, step_noun(fit.optimizer))}{change}"


def _figure_lines(fit: FittedModel, show: NumberFormat) -> list[str]:
    figures = fit.figures
    lines = []
    if fit.accuracy is not None:
        lines.append(f"accuracy = {show(fit.accuracy)}")
    if fit.r_squared is not None and not np.isnan(fit.r_squared):
        adjusted = "" if figures.adjusted_r_squared is None else f", adjusted {show(figures.adjusted_r_squared)}"
        lines.append(f"R²  = {show(fit.r_squared)}{adjusted}")
    if fit.rss is not None and figures.deviance is None:
        lines.append(f"rss = {show(fit.rss)}")
    if figures.deviance is not None:
        null = "" if figures.null_deviance is None else f", {show(figures.null_deviance)} for the mean alone"
        lines.append(f"deviance = {show(figures.deviance)}{null}")
    if figures.dispersion is not None:
        lines.append(f"dispersion = {show(figures.dispersion)}")
    lines.append(_degrees_of_freedom(fit))
    if figures.residual_std is not None:
        lines.append(f"standard deviation of residuals = {show(figures.residual_std)}")
    if fit.penalty is not None:
        lines.append(f"penalty = {show(fit.penalty)} (included in the loss)")
    if fit.scale is not None:
        lines.append(f"scale of residuals = {show(fit.scale)}")
    if figures.chi_squared_p is not None and figures.reduced_chi_squared is not None:
        lines.append(f"χ²/dof = {show(figures.reduced_chi_squared)}, probability {show(figures.chi_squared_p)}")
    if figures.aic is not None and figures.aicc is not None and figures.bic is not None:
        lines.append(f"AIC = {show(figures.aic)}, AICc = {show(figures.aicc)}, BIC = {show(figures.bic)}")
    if figures.residual_quantiles is not None and figures.deviance is None:
        least, lower, median, upper, most = map(show, figures.residual_quantiles)
        lines.append(f"residuals from {least} to {most}, quartiles {lower}, {median}, {upper}")
    if figures.durbin_watson is not None:
        lines.append(f"Durbin-Watson = {show(figures.durbin_watson)} (2 where neighbours are independent)")
    if fit.validation_loss is not None:
        accuracy = "" if fit.validation_accuracy is None else f", accuracy {show(fit.validation_accuracy)}"
        held_out = pluralize(fit.validation_rows, "row")
        lines.append(f"validation: loss {show(fit.validation_loss)}{accuracy} ({held_out} held out)")
    return lines


def _degrees_of_freedom(fit: FittedModel) -> str:
    """Return the degrees of freedom; for networks, where they mean little, only the numbers they are counted from."""
    free = sum(np.size(value) for value in fit.parameters.values())
    targets = max(1, (fit.dof + free) // fit.rows)
    rows = f"{pluralize(fit.rows, 'row')}{'' if targets == 1 else f' of {targets} targets'}"
    if not fit.definition and any(layer_name(name) != name for name in fit.parameters):
        return f"{rows}, {pluralize(free, 'parameter')}"
    without_weight = fit.rows * targets - free - fit.dof
    note = f", {without_weight} with weight 0," if without_weight else ""
    return f"dof = {fit.dof} ({rows}{note} - {pluralize(free, 'parameter')})"


# --- Derived quantities and intervals ---


def write_derived(paper: Paper, fit: FittedModel, digits: int | None) -> None:
    """Write the derived quantities with standard errors and intervals, if there are any."""
    if not fit.derived:
        return
    quantile = fit.quantile()
    rows = []
    for name, quantity in fit.derived.items():
        value, error = quantity["value"], quantity["stderr"]
        value = math.nan if value is None else value
        rounding = Rounding.from_error(value, error, digits)
        if error is None:
            rows.append((name, rounding.format_value(value), NO_VALUE, ""))
            continue
        ends = (value - quantile * error, value + quantile * error)
        interval = "" if math.isnan(quantile) else " to ".join(map(rounding.format_value, ends))
        rows.append((name, rounding.format_value(value), rounding.format_error(error), interval))
    titles = [Column("name"), Column("value", is_number=True), Column("standard error", is_number=True)]
    titles.append(Column(f"{100 * fit.confidence_level:g} % interval", is_number=True, is_optional=True))
    paper.heading("derived quantities (standard errors by the delta method)")
    paper.table(TextTable(tuple(titles), rows))


def write_intervals(paper: Paper, fit: FittedModel, digits: int | None) -> None:
    """Write the intervals by profile likelihood and by bootstrap side by side, if there are any."""
    if not fit.intervals:
        return
    kinds = [*fit.intervals]
    names = dict.fromkeys(name for intervals in fit.intervals.values() for name in intervals)
    rows = [
        (name, *(_interval_text(fit, name, fit.intervals[kind].get(name), digits) for kind in kinds)) for name in names
    ]
    paper.heading(f"{100 * fit.confidence_level:g} % intervals")
    paper.table(TextTable((Column("name"), *(Column(kind, is_number=True) for kind in kinds)), rows))


def _interval_text(fit: FittedModel, name: str, ends: Any, digits: int | None) -> str:
    if ends is None:
        return NO_VALUE
    value = fit.derived[name]["value"] if name in fit.derived else fit.parameters[name]
    error = (ends[1] - ends[0]) / 4 if np.isfinite(ends).all() else None
    rounding = Rounding.from_error(value, error, digits)
    return interval_text(ends, rounding.format_value)


# --- Networks and classifications ---

MAX_ELEMENTS = 9  # larger arrays are summarised
MAX_CLASSES = 20  # with more classes a confusion table is too wide to read
MAX_MISTAKES = 10  # pairs of classes listed in place of a confusion table


def is_summarised(name: str, value: Any) -> bool:
    """Whether a parameter is a large array or belongs to a network layer, and is not shown number by number."""
    return np.size(value) > MAX_ELEMENTS or layer_name(name) != name


def layers_table(values: Mapping[str, Any], fixed: Collection[str], show: NumberFormat) -> TextTable:
    """Table with one row per layer: the shapes of its parameters, the number of elements, and their norm.

    Args:
        fixed: the names of parameters that were not fitted.
    """
    layers: dict[str, list[str]] = {}
    for name in values:
        layers.setdefault(layer_name(name), []).append(name)
    rows = [
        (
            layer,
            ", ".join(_parameter_shape(name, values[name], name in fixed) for name in names),
            str(sum(np.size(values[name]) for name in names)),
            show(math.sqrt(sum(float(np.sum(np.square(values[name]))) for name in names))),
        )
        for layer, names in sorted(layers.items(), key=lambda item: _layer_order(item[0]))
    ]
    return TextTable((Column("layer"), Column("shapes"), Column("numbers", True), Column("norm", True)), rows)


def _layer_order(layer: str) -> list[tuple[int, str]]:
    """Sort key that orders layers by their numbers."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in layer.split(".")]


def _parameter_shape(name: str, value: Any, is_fixed: bool) -> str:
    part = name.removeprefix(f"{layer_name(name)}.")
    shape = "x".join(map(str, np.shape(value))) or "number"
    text = shape if part == name else f"{part} {shape}"
    return f"{text} (fixed)" if is_fixed else text


def write_confusion(paper: Paper, classes: Sequence[Any], confusion: NDArray[np.int64]) -> None:
    """Write the confusion table of a classification, or if it is too large the most frequent mistakes.

    Args:
        confusion: number of rows by true class (first axis) and predicted class.
    """
    titles = (Column(""), *(Column(str(label), is_number=True) for label in classes))
    rows = [(str(label), *map(str, counts)) for label, counts in zip(classes, confusion.tolist(), strict=True)]
    table = TextTable(titles, rows)
    if len(classes) <= MAX_CLASSES and paper.has_room_for(table):
        paper.heading("confusion of the fitted rows (true classes down, predicted classes across)")
        paper.table(table)
        return
    mistakes = list(_worst_mistakes(classes, confusion))
    paper.heading("most frequent mistakes in the fitted rows")
    titles = (Column("class"), Column("predicted as"), Column("rows", is_number=True))
    rows = [(str(true), str(predicted), str(count)) for count, true, predicted in mistakes[:MAX_MISTAKES]]
    paper.table(TextTable(titles, rows))
    if len(mistakes) > MAX_MISTAKES:
        paper.line(f"  … {pluralize(len(mistakes) - MAX_MISTAKES, 'pair')} more; --json has all", Style.FAINT)


def _worst_mistakes(classes: Sequence[Any], confusion: NDArray[np.int64]) -> Iterator[tuple[int, Any, Any]]:
    """Yield the number of rows, the true and the predicted class of each kind of mistake, most frequent first."""
    wrong = confusion - np.diag(np.diag(confusion))
    for index in np.argsort(-wrong, axis=None, kind="stable"):
        true, predicted = divmod(int(index), len(classes))
        if not wrong[true, predicted]:
            return
        yield int(wrong[true, predicted]), classes[true], classes[predicted]


# --- Diagnosis ---

# For each kind of problem: its name, a description of one occurrence, and possible remedies.
_PROBLEM_TEXTS = {
    "dead": (
        "dead units",
        "{amount:g} of {of:g} units are dead: they are 0 in every row and no longer learn",
        "a smaller --lr, another --seed, leaky_relu or elu instead of relu, inputs scaled to about 1",
    ),
    "saturated": (
        "saturated units",
        "{amount:g} of {of:g} units are saturated: they are flat in nearly all rows and hardly learn",
        "inputs scaled to about 1, a smaller --lr, smaller starting weights, relu in hidden layers",
    ),
    "vanishing": (
        "vanishing gradients",
        "at the {when} the gradient is only {amount:.1g}{comparison}",
        "fewer layers, relu or gelu instead of sigmoid or tanh, inputs scaled to about 1",
    ),
    "exploding": (
        "exploding gradients",
        "at the {when} the gradient is {amount:.1g}{comparison}",
        "a smaller --lr, smaller starting weights, inputs and targets scaled to about 1",
    ),
}


def diagnosis_document(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the field that `--diagnose` adds to the document of `train --json`."""
    return {
        "units": [layer._asdict() for layer in diagnosis.units],
        "gradients": [
            {"layer": layer.layer, "start": json_number(layer.start), "end": json_number(layer.end)}
            for layer in diagnosis.gradients
        ],
        "problems": [
            {"kind": problem.kind, "layer": problem.layer, "when": problem.when, "message": _problem_sentence(problem)}
            for problem in diagnosis.problems
        ],
    }


def write_diagnosis(paper: Paper, diagnosis: Diagnosis, show: NumberFormat) -> None:
    """Write the units and gradients of each layer, the problems that they show, and possible remedies."""
    paper.heading("diagnosis")
    if not (diagnosis.units or diagnosis.gradients):
        paper.line("  the model has no layers to examine")
        return
    if diagnosis.units:
        titles = (Column("layer"), Column("units"), Column("inactive"))
        rows = [(layer.layer, f"{layer.units} {layer.activation}", _inactive_units(layer)) for layer in diagnosis.units]
        paper.table(TextTable(titles, rows))
    if diagnosis.gradients:
        titles = (Column("layer"), Column("gradient at start", is_number=True), Column("at end", is_number=True))
        rows = [(layer.layer, show(layer.start), show(layer.end)) for layer in diagnosis.gradients]
        paper.table(TextTable(titles, rows))
    problems = diagnosis.problems
    if not problems:
        paper.line("  healthy: all units are active, and no gradient vanishes or explodes")
    for problem in _distinct_problems(problems):
        paper.line(f"  {_problem_sentence(problem)}", Style.WARNING)
    for kind in dict.fromkeys(problem.kind for problem in problems):
        name, _, advice = _PROBLEM_TEXTS[kind]
        paper.line(f"  to avoid {name}, try: {advice}")


def _distinct_problems(problems: Sequence[Problem]) -> list[Problem]:
    """Drop repeated gradient problems: of each kind, at the start or end of the fit, only the first layer stays."""
    gradients = {(problem.kind, problem.when): problem for problem in reversed(problems)}
    return [
        problem
        for problem in problems
        if problem.kind in ("dead", "saturated") or problem is gradients[problem.kind, problem.when]
    ]


def _inactive_units(layer: LayerUnits) -> str:
    counts = [f"{count} {state}" for count, state in ((layer.dead, "dead"), (layer.saturated, "saturated")) if count]
    return ", ".join(counts) or "none"


def _problem_sentence(problem: Problem) -> str:
    comparison = "" if problem.amount == problem.of else f", but {problem.of:.1g} in the last layer"
    return f"{problem.layer}: {_PROBLEM_TEXTS[problem.kind][1].format(**problem._asdict(), comparison=comparison)}"


# --- The JSON document ---


def fit_document(fit: FittedModel) -> dict[str, Any]:
    """Return the document that `train --json` writes; numbers that are not known are null.

    >>> import autodiff_cli as ad
    >>> fit_document(ad.fit("y ~ a*x", {"x": [1, 2], "y": [2, 4.1]}))["dof"]
    1
    """
    return {
        "model": fit.model,
        "rows": fit.rows,
        "parameters": json_numbers(fit.parameters),
        "fixed": json_numbers(fit.fixed),
        "stderr": {name: _number_or_null(error) for name, error in fit.stderr.items()},
        "confidence": _confidence_document(fit),
        "covariance": _matrix_document(fit, fit.covariance),
        "correlation": _matrix_document(fit, fit.correlation),
        "loss": json_number(fit.loss),
        "rss": json_number(fit.rss),
        "dof": fit.dof,
        "r_squared": _number_or_null(fit.r_squared),
        **_figures_document(fit),
        "optimizer": fit.optimizer,
        "epochs": fit.epochs,
        "converged": fit.converged,
        "formula": fit.formula or None,
        **(
            {"intervals": {kind: _intervals_document(ends) for kind, ends in fit.intervals.items()}}
            if fit.intervals
            else {}
        ),
        **(
            {"derived": {name: json_numbers(quantity) for name, quantity in fit.derived.items()}} if fit.derived else {}
        ),
        **({"bounds": {name: [*map(json_number, ends)] for name, ends in fit.bounds.items()}} if fit.bounds else {}),
        **({} if fit.scale is None else {"scale": json_number(fit.scale)}),
        **({} if fit.penalty is None else {"penalty": json_number(fit.penalty)}),
        **_classification_document(fit),
        **_validation_document(fit),
        **({} if fit.diagnosis is None else {"diagnosis": diagnosis_document(fit.diagnosis)}),
        **({} if fit.plot_data is None else {"plot": _plot_document(fit.plot_data)}),
        "history": [
            {name: value if name == "epoch" else json_number(value) for name, value in record.items()}
            for record in fit.history
        ],
        "warnings": fit.warnings,
        "notes": fit.notes,
    }


def _figures_document(fit: FittedModel) -> dict[str, Any]:
    """Return the figures of a fit: the common ones, which may be null, and those that only some fits have."""
    figures = fit.figures
    common = {
        "adjusted_r_squared": figures.adjusted_r_squared,
        "rmse": figures.rmse,
        "reduced_chi_squared": figures.reduced_chi_squared,
        "log_likelihood": figures.log_likelihood,
        "aic": figures.aic,
        "aicc": figures.aicc,
        "bic": figures.bic,
    }
    rare = {
        "chi_squared_p": figures.chi_squared_p,
        "deviance": figures.deviance,
        "null_deviance": figures.null_deviance,
        "dispersion": figures.dispersion,
        "durbin_watson": figures.durbin_watson,
        "residual_quantiles": figures.residual_quantiles and [*figures.residual_quantiles],
    }
    return {name: json_number(x) for name, x in {**common, **{k: x for k, x in rare.items() if x is not None}}.items()}


def _number_or_null(value: Any) -> Any:
    """Convert a number or an array for JSON, with null for nan."""
    if isinstance(value, np.ndarray):
        return [_number_or_null(part) for part in value]
    return None if value is None or math.isnan(value) else json_number(float(value))


def _confidence_document(fit: FittedModel) -> dict[str, Any]:
    pairs = fit.confidence().items()
    return {"level": fit.confidence_level, **{name: ends and [*map(_number_or_null, ends)] for name, ends in pairs}}


def _intervals_document(intervals: dict[str, Any]) -> dict[str, Any]:
    """Return intervals for JSON, with null for an end that the data do not set."""
    return {
        name: ends and [_number_or_null(np.where(np.isinf(end), np.nan, end)[()]) for end in ends]
        for name, ends in intervals.items()
    }


def _plot_document(plot: FitPlot) -> dict[str, Any] | None:
    """Return the points of a plot and its curve with the confidence band; None without rows."""
    rows = plot.rows
    if rows is None:
        return None
    band = {} if rows.low is None or rows.high is None else {"low": [*rows.low], "high": [*rows.high]}
    return {
        "x_name": rows.predictor or "prediction",
        "y_name": rows.target,
        "points": json_numbers({"x": rows.x, "y": rows.y, "residual": rows.residuals}),
        "curve": json_numbers(
            {"x": rows.curve_x, "y": rows.curve_y, **{name: np.array(ends) for name, ends in band.items()}}
        ),
    }


def _matrix_document(fit: FittedModel, matrix: Array) -> dict[str, Any]:
    """Return a matrix as nested mappings by parameter; empty if nothing is known and there are arrays."""
    has_arrays = any(map(np.ndim, fit.parameters.values()))
    if not fit.element_names or (has_arrays and not fit.definition):
        return {}
    rows = zip(fit.element_names, matrix.tolist(), strict=True)
    return {name: dict(zip(fit.element_names, map(_number_or_null, row), strict=True)) for name, row in rows}


def _classification_document(fit: FittedModel) -> dict[str, Any]:
    accuracy = {} if fit.accuracy is None else {"accuracy": json_number(fit.accuracy)}
    if fit.classes is None or fit.confusion is None:
        return accuracy
    return {"classes": [*fit.classes], **accuracy, "confusion": fit.confusion.tolist()}


def _validation_document(fit: FittedModel) -> dict[str, Any]:
    if fit.validation_loss is None:
        return {}
    accuracy = {} if fit.validation_accuracy is None else {"validation_accuracy": json_number(fit.validation_accuracy)}
    return {"validation_rows": fit.validation_rows, "validation_loss": json_number(fit.validation_loss), **accuracy}

"""The report of a fit, which `train` writes at its end, and the fit as a JSON document.

The report has the parameters with their standard errors, derived quantities, intervals, correlations, the figures of
the fit, and the fitted formula. Networks are summarised layer by layer; classifications have a confusion table.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array
from autodiff_cli.autodiff.unrolling import element_names
from autodiff_cli.data.json_records import NAN_IS_NULL, pick, to_document, to_json
from autodiff_cli.graph.tape import group_pairs
from autodiff_cli.language.errors import format_correlation, pluralize
from autodiff_cli.render.formatting import NumberFormat, Rounding, drop_double_negations, number_formats, single_line
from autodiff_cli.render.progress import method_name, step_noun
from autodiff_cli.render.report import NO_VALUE, Column, Paper, Report, Style, TextTable, number_columns
from autodiff_cli.system import read_tables
from autodiff_cli.training.result.diagnosis import Diagnosis, LayerUnits, Problem, layer_name
from autodiff_cli.training.result.fitted_model import FitPlot, FittedModel
from autodiff_cli.training.result.goodness import DRAWN, SignificanceTest

if TYPE_CHECKING:
    from autodiff_cli.training.fitting.comparison import NestedTest

# --- The report ---

ON_BOUND = "on its bound"
MAX_FORMULA_LENGTH = 300  # characters; longer fitted formulas are too long to read
MIN_CORRELATION = 0.5  # weaker correlations are not listed
MAX_CORRELATIONS = 10  # pairs listed, strongest first


def fit_report(fit: FittedModel, is_saved: bool = False, known_remarks: Collection[str] = ()) -> Report:
    """Report how the fit ended, the parameters with their standard errors, the figures of the fit, the formula.

    Args:
        is_saved: whether the model is also saved to a file.
        known_remarks: the notes and warnings that the reader has seen already.
    """

    def write(paper: Paper) -> None:
        for write_section in _SECTIONS:
            write_section(paper, fit)
        _write_remarks(paper, fit, known_remarks)
        if not is_saved and not has_short_formula(fit):
            hint = "--save MODEL.json saves the model for `autodiff predict`; --json has all its numbers"
            paper.line()
            paper.line(hint, Style.FAINT)

    return Report(write, lambda: [fit_document(fit)])


def has_short_formula(fit: FittedModel) -> bool:
    """Whether the fitted formula is short enough to be shown."""
    return 0 < len(fit.formula) <= MAX_FORMULA_LENGTH


def verdict_text(fit: FittedModel, digits: int | None) -> str:
    """Return how a fit ended, with the notes and warnings of its report, and the reason of a failure."""
    stream = io.StringIO()
    paper = Paper(stream, digits)
    _write_outcome(paper, fit)
    _write_remarks(paper, fit, (fit.failure,))
    paper.line(f"error: {fit.failure}" * bool(fit.failure))
    return stream.getvalue().strip().replace("\n\n", "\n")


def _write_outcome(paper: Paper, fit: FittedModel) -> None:
    show = paper.brief
    has_mixed = all(each.has_converged for each in fit.posterior.values())
    end = "converged" if fit.converged else "stopped" if has_mixed else "ended"
    change = f": loss {show(fit.history[0]['loss'])} before, {show(fit.loss)} after" if fit.history else ""
    steps = pluralize(fit.epochs, step_noun(fit.optimizer))
    paper.line()
    outcome = f"{method_name(fit.optimizer)} {end} after {steps}{change}"
    if fit.definition == DRAWN:  # under hierarchical priors no mode is searched
        outcome = "The parameters are the means of draws by the No-U-Turn sampler"
    if not has_mixed:
        outcome += "; the chains have not converged"
    paper.line(outcome, Style.STRONG)


def _write_parameters(paper: Paper, fit: FittedModel) -> None:
    """Write parameters with their standard errors, and the parameters of networks as a table of layers."""
    responses = {name for names in fit.parsed_model.program.convolutions for name in names}
    values = {name: x for name, x in {**fit.parameters, **fit.fixed}.items() if name not in responses}
    layers = {name: x for name, x in values.items() if is_summarised(name, x)}
    names = [name for name in values if name not in layers]
    paper.titled_table("parameters", estimates_table(fit, names, paper.digits, [CONFIDENCE]))
    if names and fit.definition:
        paper.line(f"  standard errors: {fit.definition}", Style.FAINT)
    paper.titled_table("layers", layers_table(layers, fit.fixed, paper.brief))


def _write_derived(paper: Paper, fit: FittedModel) -> None:
    title = "derived quantities (standard errors by the delta method)"
    paper.titled_table(title, estimates_table(fit, fit.derived, paper.digits, [CONFIDENCE]))


def write_posteriors(paper: Paper, fits: Sequence[tuple[tuple[str, ...], FittedModel]], *labels: Column) -> None:
    """Write the summaries of the draws from posteriors, rounded by the standard deviations.

    Args:
        fits: the fits, each with the cells that identify it, in the columns `labels`.
    """
    rows, chains, draws = [], 0, 0
    for cells, fit in fits:
        for name, each in fit.posterior.items():
            chains, draws = fit.draw_counts
            rounding = Rounding.from_error(each.mean, each.sd, paper.digits)
            mean, *quantiles = map(rounding.format_value, (each.mean, each.q05, each.median, each.q95))
            numbers = mean, rounding.format_error(each.sd), *quantiles
            rows.append((*cells, name, *numbers, f"{each.ess_bulk:.0f}", f"{each.ess_tail:.0f}", f"{each.rhat:.3f}"))
    divergent = sum(fit.divergences for _, fit in fits)
    title = f"posterior ({pluralize(chains, 'chain')} of {pluralize(draws, 'draw')}, {divergent} divergent)"
    titles = ("mean", "sd", "5 %", "median", "95 %", "ESS bulk", "ESS tail", "R-hat")
    paper.titled_table(title, TextTable((*labels, Column("name"), *number_columns(*titles)), rows))


def _write_random_effects(paper: Paper, fit: FittedModel) -> None:
    """Write the distributions of the random effects, and their modes if there are few."""
    show = paper.brief
    rows, modes = [], []
    for name, effect in fit.random_effects.items():
        numbers = str(len(effect.modes)), show(effect.mean), show(effect.sd)
        rows.append((f"{name}[{effect.column}]", effect.distribution, *numbers))
        for level, value in effect.modes.items() if len(effect.modes) <= MAX_SHOWN_LEVELS else ():
            rounding = Rounding.from_error(value, effect.errors[level], paper.digits)
            cells = rounding.format_value(value), rounding.format_error(effect.errors[level])
            modes.append((f"{name}[{level}]", *cells))
    titles = number_columns("levels", "mean", "standard deviation")
    paper.titled_table("random effects", TextTable((Column("name"), Column("distribution"), *titles), rows))
    title = "modes of the random effects, with errors given the parameters"
    paper.titled_table(title, TextTable((Column("name"), *number_columns("mode", "error")), modes))


def estimates_table(fit: FittedModel, names: Iterable[str], digits: int | None, kinds: Sequence[str]) -> TextTable:
    """Return a table of parameters or derived quantities: values, standard errors, and intervals if any is known.

    Args:
        kinds: the kinds of intervals, each in a column.
    """
    titles = ["name", "value", "standard error", "z" if fit.interval_dof is None else "t", "p"]
    columns = [Column(title, is_number=title != "name", is_optional=len(title) == 1) for title in titles]
    intervals = [interval_title(fit, kind) for kind in kinds]
    columns += [Column(title, True, is_optional=True) for title in (*intervals, "odds ratio")]
    rows = []
    for name, figures in iter_estimates(fit, names, ["t", "p", "odds", *kinds]):
        value, error, *intervals = estimate_cells(figures, digits, kinds)
        t, p, odds = figures["t"], figures["p"], figures["odds"]
        cells = (NO_VALUE, NO_VALUE) if t is None or p is None else (f"{t:.2f}", p_value_text(p))
        ratio = "{:.3g} ({:.3g} to {:.3g})".format(*odds) if odds and t is not None else NO_VALUE
        rows.append((name, value, error, *cells, *intervals, ratio))
    shown = [k for k, cells in enumerate(zip(*rows, strict=True)) if k < 3 or {*cells} - {"", NO_VALUE}]
    return TextTable(tuple(columns), rows).pick_columns(shown)


def iter_estimates(
    fit: FittedModel, names: Iterable[str], titles: Iterable[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield parameters and derived quantities, arrays element by element, each with its figures.

    The figures are `value`, `stderr` and those of `titles`, all None if unknown, and `no_error`, the text in place of
    an unknown error.

    Args:
        titles: the other figures: `t`, `p`, the `odds` ratio with its ends, or the ends of a kind of interval.
    """
    known = {title: _figures_by_name(fit, title) for title in titles}
    for name in names:
        value, error = fit.estimate(name)
        figures = {"stderr": error, **{title: of.get(name) for title, of in known.items()}}
        columns = {title: _elements(of, np.size(value)) for title, of in figures.items()}
        columns["value"] = np.ravel(value).tolist()
        reason, ends = "fixed" if name in fit.fixed else NO_VALUE, fit.bounds.get(name, ())
        columns["no_error"] = [ON_BOUND if number in ends else reason for number in columns["value"]]
        for k, element in enumerate(element_names(name, np.shape(value))):
            yield element, {title: column[k] for title, column in columns.items()}


def _figures_by_name(fit: FittedModel, title: str) -> Mapping[str, Any]:
    """Return a figure of all estimates by name; see `iter_estimates`."""
    if title == "odds":
        return {name: tuple(ratio.values()) for name, ratio in fit.odds_ratios.items()}
    return fit.t_values if title == "t" else fit.p_values if title == "p" else interval_ends(fit, title)


def _elements(numbers: Any, count: int) -> list[Any]:
    """Return the number, or the tuple of numbers, of each element of an array; None if any is unknown.

    >>> _elements([1, math.nan], 2), _elements(([1, 2], [3, 4]), 2), _elements(None, 1)
    ([1.0, None], [(1.0, 3.0), (2.0, 4.0)], [None])
    """
    if numbers is None:
        return [None] * count
    rows = np.reshape(np.asarray(numbers, dtype=float), (-1, count)).T.tolist()
    return [None if any(map(math.isnan, row)) else row[0] if len(row) == 1 else tuple(row) for row in rows]


def p_value_text(p: float) -> str:
    """Return a p-value with two digits, as R shows it.

    >>> p_value_text(0.0312), p_value_text(1e-30)
    ('0.031', '<2e-16')
    """
    return "<2e-16" if p < 2e-16 else f"{p:.2g}"


def test_text(test: SignificanceTest | NestedTest, show: NumberFormat) -> str:
    """Return the result of a test in words."""
    name = f"F({', '.join(map(str, test.dof))})" if test.name == "F" else f"{test.name}, χ²({test.dof[0]})"
    return f"{name} = {show(test.statistic)}, p = {test.p:.3g}"


CONFIDENCE = "confidence"  # the kind of interval that every fit has; profile and bootstrap intervals are optional


def interval_title(fit: FittedModel, kind: str) -> str:
    """Return the title of a column of intervals."""
    return f"{100 * fit.confidence_level:g} % {'interval' if kind == CONFIDENCE else kind}"


def interval_ends(fit: FittedModel, kind: str) -> Mapping[str, tuple[Any, Any] | None]:
    """Return the intervals of one kind by parameter or derived quantity; None for an unknown interval."""
    if kind != CONFIDENCE:
        return fit.intervals.get(kind, {})
    return fit.confidence() if fit.definition else {}


def estimate_cells(figures: Mapping[str, Any], digits: int | None, kinds: Iterable[str]) -> Iterator[str]:
    """Yield the value, the standard error and the intervals of an estimate, rounded to two digits of the error.

    Args:
        figures: the figures of the estimate; see `iter_estimates`.
        kinds: the kinds of intervals.
    """
    value, error = figures["value"], figures["stderr"]
    if error is None and figures["no_error"] == "fixed":
        yield from (number_formats(digits)[0](value), "fixed", *["" for _ in kinds])
        return
    rounding = Rounding.from_error(value, error, digits)
    yield rounding.format_value(value)
    yield figures["no_error"] if error is None else rounding.format_error(error)
    for ends in (figures[kind] for kind in kinds):
        if error is None and ends is not None and np.isfinite(ends).all():
            rounding = Rounding.from_error(value, (ends[1] - ends[0]) / 4, digits)
        yield NO_VALUE if ends is None else interval_text(ends, rounding.format_value)


def interval_text(ends: tuple[Any, Any], show: Callable[[Any], str]) -> str:
    """Return an interval as words; an infinite end is no limit.

    >>> [interval_text(ends, str) for ends in ((1, 2), (1, math.inf), (-math.inf, 2), (-math.inf, math.inf))]
    ['1 to 2', 'at least 1', 'at most 2', 'no limits']
    """
    low, high = ("" if np.isinf(end).all() else show(end) for end in ends)
    if low and high:
        return f"{low} to {high}"
    return f"at least {low}" if low else f"at most {high}" if high else "no limits"


def _write_intervals(paper: Paper, fit: FittedModel) -> None:
    """Write the intervals by profile likelihood and by bootstrap side by side, if there are any."""
    names = dict.fromkeys(name for intervals in fit.intervals.values() for name in intervals)
    estimates = iter_estimates(fit, names, fit.intervals)
    rows = [(name, *[*estimate_cells(of, paper.digits, fit.intervals)][2:]) for name, of in estimates]
    table = TextTable((Column("name"), *number_columns(*fit.intervals)), rows)
    paper.titled_table(f"{100 * fit.confidence_level:g} % intervals", table)


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
    pairs.sort(key=lambda pair: -abs(pair[0]))
    lines = [f"{other}, {one}  {format_correlation(value, 3)}" for value, one, other in pairs]
    paper.section(f"correlations above {MIN_CORRELATION:g}", lines, limit=MAX_CORRELATIONS)


def _write_figures(paper: Paper, fit: FittedModel) -> None:
    show = paper.brief
    figures: dict[str, Any] = {
        name: show(value) for name in _FIGURE_NAMES if isinstance(value := getattr(fit, name), float)
    }
    figures["at_weight"] = " of weight 1" if fit.settings.weighted else ""
    figures["degrees_of_freedom"] = _degrees_of_freedom(fit)
    if math.isnan(fit.r_squared or 0.0):
        del figures["r_squared"]
    if fit.deviance is not None:  # a likelihood is not judged by its squares
        figures.pop("rss", None)
        figures.pop("scale", None)
    elif fit.chi_squared is not None:
        figures["chi_squared"] = figures.pop("rss")
        if {"reduced_chi_squared", "residual_std"} <= figures.keys() and not fit.settings.absolute_sigma:
            figures["reduced"], figures["root"] = figures["reduced_chi_squared"], figures["residual_std"]
        figures.pop("residual_std", None)
    if fit.scale is not None:
        figures.pop("residual_std", None)  # it excludes outliers
    if fit.null_test is not None:
        figures["null_test"] = test_text(fit.null_test, show)
    if fit.deviance is None and fit.residual_quantiles is not None:
        figures["quantiles"] = [*map(show, fit.residual_quantiles)]
    paper.heading("figures")
    for line, *more in read_tables(__file__, "figures.toml")["lines"]:
        with contextlib.suppress(KeyError):
            text = line.format_map(figures)
            with contextlib.suppress(KeyError):
                text += "".join(more).format_map(figures)
            held_out = f" ({pluralize(fit.validation_rows, 'row')} held out)" if "validation" in line else ""
            paper.line(f"  {text}{held_out}")


_FIGURE_NAMES = [field.name for field in dataclasses.fields(FittedModel) if field.type in ("float", "float | None")]


def _degrees_of_freedom(fit: FittedModel) -> str:
    """Return the degrees of freedom; for networks, where they mean little, only the numbers they are counted from."""
    free = sum(np.size(value) for value in fit.parameters.values())
    targets = max(1, (fit.dof + fit.rank) // fit.rows)
    rows = f"{pluralize(fit.rows, 'row')}{'' if targets == 1 else f' of {targets} targets'}"
    if not fit.definition and any(layer_name(name) != name for name in fit.parameters):
        return f"{rows}, {pluralize(free, 'parameter')}"
    determined = f"{fit.rank} of {pluralize(free, 'parameter')}".removeprefix(f"{free} of ")
    return f"dof = {fit.dof} ({rows} - {determined})"


def _write_formula(paper: Paper, fit: FittedModel) -> None:
    if has_short_formula(fit):
        paper.heading("fitted formula" if fit.label_columns else "fitted formula, ready for `autodiff grad`")
        paper.verbatim(drop_double_negations(single_line(fit.formula)))


def _write_remarks(paper: Paper, fit: FittedModel, known: Collection[str]) -> None:
    for title, remarks, style in (("notes", fit.notes, Style.PLAIN), ("warnings", fit.warnings, Style.WARNING)):
        paper.section(title, [remark for remark in remarks if remark not in known], style)


# --- Networks and classifications ---

MAX_SHOWN_LEVELS = 30  # levels of a random effect; modes of more are in the JSON document and in model files
MAX_ELEMENTS = 9  # larger arrays are summarised
MAX_CLASSES = 20  # with more classes a confusion table is too wide to read
MAX_MISTAKES = 10  # pairs of classes listed in place of a confusion table


def is_summarised(name: str, value: Any) -> bool:
    """Whether the report summarises a parameter: a large array, or one of a layer."""
    return np.size(value) > MAX_ELEMENTS or layer_name(name) != name


def layers_table(values: Mapping[str, Any], fixed: Collection[str], show: NumberFormat) -> TextTable:
    """Table with one row per layer: the shapes of its parameters, the number of elements, and their norm.

    Args:
        fixed: the names of parameters that were not fitted.
    """
    layers = group_pairs((layer_name(name), name) for name in values)
    rows = [
        (
            layer,
            ", ".join(_parameter_shape(name, values[name], name in fixed) for name in names),
            str(sum(np.size(values[name]) for name in names)),
            show(math.sqrt(sum(float(np.sum(np.square(values[name]))) for name in names))),
        )
        for layer, names in sorted(layers.items(), key=lambda item: _layer_order(item[0]))
    ]
    return TextTable((Column("layer"), Column("shapes"), *number_columns("numbers", "norm")), rows)


def _layer_order(layer: str) -> list[tuple[int, str]]:
    """Sort key that orders layers by their numbers."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in layer.split(".")]


def _parameter_shape(name: str, value: Any, is_fixed: bool) -> str:
    part = name.removeprefix(f"{layer_name(name)}.")
    shape = "x".join(map(str, np.shape(value))) or "number"
    text = shape if part == name else f"{part} {shape}"
    return f"{text} (fixed)" if is_fixed else text


def _write_confusion(paper: Paper, fit: FittedModel) -> None:
    if fit.classes is not None and fit.confusion is not None:
        write_confusion(paper, fit.classes, fit.confusion)


def write_confusion(paper: Paper, classes: Sequence[Any], confusion: NDArray[np.int64]) -> None:
    """Write the confusion table of a classification, or if it is too large the most frequent mistakes.

    Args:
        confusion: number of rows by true class (first axis) and predicted class.
    """
    titles = (Column(""), *number_columns(*map(str, classes)))
    rows = [(str(label), *map(str, counts)) for label, counts in zip(classes, confusion.tolist(), strict=True)]
    table = TextTable(titles, rows)
    if len(classes) <= MAX_CLASSES and paper.has_room_for(table):
        paper.titled_table("confusion of the fitted rows (true classes down, predicted classes across)", table)
        return
    mistakes = [(i, j) for i, j in np.argwhere(confusion).tolist() if i != j]
    mistakes.sort(key=lambda pair: -confusion[pair])
    titles = (Column("class"), Column("predicted as"), *number_columns("rows"))
    rows = [(str(classes[i]), str(classes[j]), str(confusion[i, j])) for i, j in mistakes]
    paper.titled_table("most frequent mistakes in the fitted rows", TextTable(titles, rows), MAX_MISTAKES)


# --- Diagnosis ---


@cache
def _problem_texts() -> dict[str, dict[str, str]]:
    """Return, for each kind of problem, its `name`, a description of an `occurrence`, and possible `remedies`."""
    return read_tables(__file__, "problems.toml")


def diagnosis_document(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the field that `--diagnose` adds to the document of `train --json`."""
    problems, fields = diagnosis.problems, ("kind", "layer", "when")
    described = [pick(each, *fields) | {"message": _problem_sentence(each)} for each in problems]
    return {**to_document(diagnosis), "problems": described}


def write_diagnosis(paper: Paper, diagnosis: Diagnosis) -> None:
    """Write the units and gradients of each layer, the problems that they show, and possible remedies."""
    paper.heading("diagnosis")
    if not (diagnosis.units or diagnosis.gradients):
        paper.line("  the model has no layers to examine")
        return
    if diagnosis.units:
        rows = [(layer.layer, f"{layer.units} {layer.activation}", _inactive_units(layer)) for layer in diagnosis.units]
        paper.table(TextTable((Column("layer"), Column("units"), Column("inactive")), rows))
    if diagnosis.gradients:
        rows = [(layer.layer, paper.brief(layer.start), paper.brief(layer.end)) for layer in diagnosis.gradients]
        paper.table(TextTable((Column("layer"), *number_columns("gradient at start", "at end")), rows))
    problems = diagnosis.problems
    if not problems:
        paper.line("  healthy: all units are active, and no gradient vanishes or explodes")
    for problem in _distinct_problems(problems):
        paper.line(f"  {_problem_sentence(problem)}", Style.WARNING)
    for kind in dict.fromkeys(problem.kind for problem in problems):
        paper.line("  to avoid {name}, try: {remedies}".format_map(_problem_texts()[kind]))


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
    occurrence = _problem_texts()[problem.kind]["occurrence"]
    return f"{problem.layer}: {occurrence.format(**problem._asdict(), comparison=comparison)}"


def _write_diagnosis(paper: Paper, fit: FittedModel) -> None:
    if fit.diagnosis is not None:
        write_diagnosis(paper, fit.diagnosis)


_SECTIONS = (
    _write_outcome,
    _write_parameters,
    _write_derived,
    lambda paper, fit: write_posteriors(paper, [((), fit)]),
    _write_random_effects,
    _write_intervals,
    _write_correlations,
    _write_figures,
    _write_confusion,
    _write_formula,
    _write_diagnosis,
)


# --- The JSON document ---

# The keys that come first; the rest follow in the order of the fields of the record.
_FIRST_KEYS = (
    *("model", "rows", "parameters", "fixed", "stderr", "t_values", "p_values", "confidence"),
    *("covariance", "correlation", "loss", "rss", "dof", "r_squared"),
)


def fit_document(fit: FittedModel) -> dict[str, Any]:
    """Return the document that `train --json` writes; numbers that are not known are null.

    >>> import autodiff_cli as ad
    >>> fit_document(ad.fit("y ~ a*x", {"x": [1, 2], "y": [2, 4.1]}))["dof"]
    1
    """
    document = {**dict.fromkeys(_FIRST_KEYS), **to_document(fit), "formula": fit.formula or None}
    document["confidence"] = {"level": fit.confidence_level, **to_json(fit.confidence(), **NAN_IS_NULL)}
    for name in ("t_values", "p_values", "chi_squared", "odds_ratios"):
        if (values := getattr(fit, name)) not in (None, {}):
            document[name] = to_json(values, **NAN_IS_NULL)
    document["covariance"] = _matrix_document(fit, fit.covariance)
    document["correlation"] = _matrix_document(fit, fit.correlation)
    if fit.posterior:
        chains, draws = fit.draw_counts
        document |= {"divergences": fit.divergences, "chains": chains, "draws": draws}
    if fit.diagnosis is not None:
        document["diagnosis"] = diagnosis_document(fit.diagnosis)
    if fit.plot is not None:
        document["plot"] = _plot_document(fit.plot)
    return document


def _plot_document(plot: FitPlot) -> dict[str, Any]:
    """Return the points of a plot and its curve with the confidence band, or one curve per combination of labels."""
    points = {"x": plot.x, "y": plot.y, "residual": plot.residuals}
    curves = [pick(one, "x", "y", *(() if one.low is None else ("low", "high"))) for one in plot.curves]
    names = [curve.name for curve in plot.curves]
    document = {"x_name": plot.predictor or "prediction", "y_name": plot.target, "points": to_json(points)}
    if len(curves) == 1:
        return {**document, "curve": curves[0]}
    document["points"]["group"] = [names[group] for group in plot.groups.tolist()]
    return {**document, "curves": dict(zip(names, curves, strict=True))}


def _matrix_document(fit: FittedModel, matrix: Array) -> dict[str, Any]:
    """Return a matrix as nested mappings by parameter; empty if nothing is known and there are arrays."""
    has_arrays = any(map(np.ndim, fit.parameters.values()))
    if not fit.element_names or (has_arrays and not fit.definition):
        return {}
    rows = zip(fit.element_names, to_json(matrix, **NAN_IS_NULL), strict=True)
    return {name: dict(zip(fit.element_names, row, strict=True)) for name, row in rows}

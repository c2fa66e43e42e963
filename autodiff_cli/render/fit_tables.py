"""Tables of several fits: the groups of `train --by`, and the models of `compare`.

Groups are written as a table, as CSV, or as a JSON document with the document of each fit. Compared models are ranked
by AICc, and nested models are tested against each other.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from autodiff_cli.graph.tape import gc_paused
from autodiff_cli.render.fit import fit_document
from autodiff_cli.render.formatting import (
    NumberFormat,
    Rounding,
    interval_text,
    number_formats,
    pluralize,
    shortest_text,
)
from autodiff_cli.render.report import NO_VALUE, Column, Paper, Report, Style, TextTable, json_number, json_numbers
from autodiff_cli.training.fitting.comparison import NESTING_UNKNOWN, ComparedModel, Comparison, NestedTest
from autodiff_cli.training.fitting.groups import FittedGroup, FittedGroups
from autodiff_cli.training.result.fitted_model import FittedModel

# --- Groups of rows ---

_MAX_LISTED_WARNINGS = 10  # warnings of groups in the text; --json and CSV have all


def groups_report(groups: FittedGroups, digits: int | None) -> Report:
    """Report the parameters of each group with their standard errors, and warnings."""
    return Report(lambda paper: _write_groups(paper, groups, digits), lambda: [_groups_document(groups)])


def groups_csv(groups: FittedGroups) -> Report:
    """Report the groups as CSV, with compared line per group and all digits, or as a JSON document."""

    def write(paper: Paper) -> None:
        writer = csv.writer(paper.stream, lineterminator="\n")
        numbers, kinds = _number_names(groups), _interval_kinds(groups)
        errors = [f"{name}_stderr" for name in numbers]
        named = [name for pair in zip(numbers, errors, strict=True) for name in pair]
        marks = ["" if kind == CONFIDENCE else f"_{kind}" for kind in kinds]
        ends = [f"{name}{mark}_{end}" for mark in marks for name in numbers for end in ("low", "high")]
        writer.writerow([groups.column, "rows", *named, *ends, *_CSV_FIGURES, "converged", "warnings"])
        for group in groups:
            writer.writerow(_csv_line(group, numbers, kinds))

    return Report(write, lambda: [_groups_document(groups)], is_data=True)


CONFIDENCE = "confidence"  # the kind of interval that every fit has; profile and bootstrap intervals are optional
_CSV_FIGURES = ("loss", "rss", "dof", "r_squared", "aicc", "bic")


def _csv_line(group: FittedGroup, numbers: list[str], kinds: list[str]) -> list[str]:
    fit = group.fit
    if fit is None:
        empty = 2 * len(numbers) * (1 + len(kinds)) + len(_CSV_FIGURES)
        return [_group_label(group), "", *[""] * empty, "false", group.error]
    values = (
        _flatten_arrays(fit.parameters)
        | _flatten_arrays(fit.fixed)
        | {name: q["value"] for name, q in fit.derived.items()}
    )
    errors = _flatten_arrays(fit.stderr) | {name: q["stderr"] for name, q in fit.derived.items()}
    pairs = [_csv_cell(of.get(name)) for name in numbers for of in (values, errors)]
    for kind in kinds:
        intervals = _interval_ends(fit, kind)
        lows, highs = (_flatten_arrays({name: ends[k] for name, ends in intervals.items() if ends}) for k in (0, 1))
        pairs += [_csv_cell(of.get(name)) for name in numbers for of in (lows, highs)]
    figures = [_csv_cell(getattr(fit, name)) for name in _CSV_FIGURES]
    return [_group_label(group), str(fit.rows), *pairs, *figures, str(fit.converged).lower(), "; ".join(fit.warnings)]


def _interval_kinds(groups: FittedGroups) -> list[str]:
    """Return the kinds of intervals that the fits have."""
    kinds = dict.fromkeys(kind for group in groups if group.fit is not None for kind in group.fit.intervals)
    return [CONFIDENCE, *kinds]


def _interval_ends(fit: FittedModel, kind: str) -> dict[str, Any]:
    """Return the intervals of compared kind by name, as pairs (low, high); None for an unknown interval."""
    if kind != CONFIDENCE:
        return fit.intervals.get(kind, {})
    if not fit.definition:
        return {}
    quantile, intervals = fit.quantile(), dict(fit.confidence())
    for name, quantity in fit.derived.items():
        value, error = quantity["value"], quantity["stderr"]
        if value is not None and error is not None:
            intervals[name] = (value - quantile * error, value + quantile * error)
    return intervals


def _group_label(group: FittedGroup) -> str:
    return shortest_text(group.by) if isinstance(group.by, float) else str(group.by)


def _csv_cell(value: Any) -> str:
    if value is None or math.isnan(value):
        return ""
    return str(value) if isinstance(value, int) else shortest_text(float(value))


def _number_names(groups: FittedGroups) -> list[str]:
    """Return the names of all parameters, element by element, and of derived quantities."""
    fit = next((group.fit for group in groups if group.fit is not None), None)
    return (
        [*groups.parameters]
        if fit is None
        else [*(_flatten_arrays(fit.parameters) | _flatten_arrays(fit.fixed)), *fit.derived]
    )


def _flatten_arrays(values: dict[str, Any]) -> dict[str, Any]:
    """Replace arrays by their elements, named `W[0, 1]`."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if not np.ndim(value):
            flat[name] = value
            continue
        for index in np.ndindex(np.shape(value)):
            flat[f"{name}[{', '.join(map(str, index))}]"] = float(value[index])
    return flat


def _write_groups(paper: Paper, groups: FittedGroups, digits: int | None) -> None:
    count = pluralize(len(groups), "group")
    paper.line(f"{groups.model}, by `{groups.column}`: {count}, {pluralize(groups.rows, 'row')}", Style.STRONG)
    paper.line()
    first, last = paper.head_and_tail(len(groups))
    shown = [*groups.groups[:first], *(groups.groups[-last:] if last else ())]
    paper.table(_groups_table(groups, shown, digits))
    paper.write_omitted(len(groups) - len(shown), "group")
    definitions = dict.fromkeys(group.fit.definition for group in groups if group.fit is not None)
    for definition in filter(None, [*definitions][:1]):
        paper.line(f"  standard errors: {definition}", Style.FAINT)
    failures = sum(1 for group in groups if group.fit is None or not group.fit.converged)
    paper.line()
    paper.line(f"  converged: {len(groups) - failures} of {len(groups)}")
    warnings = [(group, text) for group in groups for text in _group_warnings(group)]
    if groups.dropped:
        paper.line(f"  rows left out because of missing cells: {groups.dropped}")
    if warnings:
        paper.heading("warnings")
        for group, text in warnings[:_MAX_LISTED_WARNINGS]:
            paper.line(f"  {_group_label(group)}: {text}", Style.WARNING)
        if len(warnings) > _MAX_LISTED_WARNINGS:
            paper.line(f"  … {len(warnings) - _MAX_LISTED_WARNINGS} more; --json and -o FILE.csv have all", Style.FAINT)


def _group_warnings(group: FittedGroup) -> Iterator[str]:
    if group.fit is None:
        yield group.error
    else:
        yield from group.fit.warnings


def _groups_table(groups: FittedGroups, shown: list[FittedGroup], digits: int | None) -> TextTable:
    columns = [Column(groups.column), Column("rows", is_number=True)]
    level = next((100 * group.fit.confidence_level for group in groups if group.fit is not None), 95)
    kinds = _interval_kinds(groups)
    titles = [f"{level:g} % interval" if kind == CONFIDENCE else f"{level:g} % {kind}" for kind in kinds]
    for name in _shown_names(groups):
        columns += [Column(name, is_number=True), Column("± ", is_number=True, is_optional=True)]
        columns += [Column(title, is_number=True, is_optional=True) for title in titles]
    columns.append(Column(_quality_figure(groups), is_number=True))
    return TextTable(tuple(columns), [tuple(_group_cells(group, groups, kinds, digits)) for group in shown])


def _quality_figure(groups: FittedGroups) -> str:
    """Return the title of the last column: R² where fits have it, else the loss."""
    fits = (group.fit for group in groups if group.fit is not None)
    return "R²" if any(fit.r_squared is not None for fit in fits) else "loss"


def _group_cells(group: FittedGroup, groups: FittedGroups, kinds: list[str], digits: int | None) -> Iterator[str]:
    yield _group_label(group)
    fit = group.fit
    if fit is None or fit.failure:
        yield "" if fit is None else str(fit.rows)
        yield from [NO_VALUE] * ((2 + len(kinds)) * len(_shown_names(groups)) + 1)
        return
    yield str(fit.rows)
    intervals = [_interval_ends(fit, kind) for kind in kinds]
    for name in _shown_names(groups):
        yield from _value_cells(fit, name, digits, [ends_by_name.get(name) for ends_by_name in intervals])
    quality = fit.loss if fit.r_squared is None else fit.r_squared
    yield NO_VALUE if math.isnan(quality) else number_formats(digits)[1](quality)


def _shown_names(groups: FittedGroups) -> list[str]:
    """Return the names of the parameters and derived quantities that the table shows."""
    fit = next((group.fit for group in groups if group.fit is not None), None)
    return [*groups.parameters, *(() if fit is None else fit.derived)]


def _value_cells(fit: FittedModel, name: str, digits: int | None, intervals: list[Any]) -> Iterator[str]:
    """Yield the cells of compared quantity: value, standard error and intervals, rounded by the error."""
    if name in fit.fixed:
        yield from (number_formats(digits)[1](fit.fixed[name]), "fixed", *[""] * len(intervals))
        return
    if name in fit.derived:
        value, error = fit.derived[name]["value"], fit.derived[name]["stderr"]
    else:
        value, error = fit.parameters[name], fit.stderr[name]
    rounding = Rounding.from_error(value, error, digits)
    yield rounding.format_value(value)
    yield NO_VALUE if error is None else rounding.format_error(error)
    for ends in intervals:
        is_known = ends is not None and not np.isnan(ends).any()
        yield interval_text(ends, rounding.format_value) if is_known else NO_VALUE


def _groups_document(groups: FittedGroups) -> dict[str, Any]:
    with gc_paused():  # with many groups, garbage collections take most of the time and free nothing
        documents = [_group_document(group) for group in groups]
    return {"model": groups.model, "by": groups.column, "rows": groups.rows, "groups": documents}


def _group_document(group: FittedGroup) -> dict[str, Any]:
    label = json_number(float(group.by)) if isinstance(group.by, float) else group.by
    if group.fit is None:
        return {"by": label, "error": group.error, "converged": False, "warnings": [group.error]}
    return {"by": label, **fit_document(group.fit)}


# --- Compared models ---


def comparison_report(comparison: Comparison, digits: int | None) -> Report:
    """Report the models, best first, and the tests of nested models."""
    return Report(
        lambda paper: _write_comparison(paper, comparison, number_formats(digits)[1]),
        lambda: [_comparison_document(comparison)],
    )


def _write_comparison(paper: Paper, comparison: Comparison, show: NumberFormat) -> None:
    paper.line(
        f"{pluralize(len(comparison.models), 'model')} fitted to {pluralize(comparison.rows, 'row')}, best first"
    )
    paper.line()
    for place, compared in enumerate(comparison.models, 1):
        paper.line(f"  {place}  {compared.fit.model}")
    paper.line()
    paper.table(_comparison_table(comparison, show))
    if comparison.folds:
        note = f"  CV error: mean loss of held-out rows, {_fraction_name(comparison.folds)} of the rows at a time"
        paper.line(note, Style.FAINT)
    places = {compared.fit.model: place for place, compared in enumerate(comparison.models, 1)}
    if comparison.tests:
        paper.heading("tests of nested models: is the larger one significantly better?")
        tested = [test for test in comparison.tests if test.reason != NESTING_UNKNOWN]
        for test in tested:
            paper.line(f"  {places[test.smaller]} within {places[test.larger]}: {_test_sentence(test, show)}")
        if len(tested) < len(comparison.tests):
            paper.line(f"  no test for {'other' if tested else 'these'} pairs: {NESTING_UNKNOWN}", Style.FAINT)
    warnings = [
        (places[compared.fit.model], text) for compared in comparison.models for text in _model_warnings(compared)
    ]
    if warnings:
        paper.heading("warnings")
        for place, text in warnings:
            paper.line(f"  {place}  {text}", Style.WARNING)


def _model_warnings(compared: ComparedModel) -> list[str]:
    return [*dict.fromkeys([*compared.fit.warnings, *([compared.fit.failure] if compared.fit.failure else [])])]


def _fraction_name(folds: int) -> str:
    return {2: "a half", 3: "a third", 4: "a quarter", 5: "a fifth", 10: "a tenth"}.get(folds, f"1/{folds}")


def _comparison_table(comparison: Comparison, show: NumberFormat) -> TextTable:
    def cell(value: float | None) -> str:
        return NO_VALUE if value is None or math.isnan(value) else show(value)

    columns = [
        Column("", is_number=True),
        Column("k", is_number=True),
        Column("loss", is_number=True),
        Column("AICc", is_number=True),
        Column("ΔAICc", is_number=True),
        Column("weight", is_number=True, is_optional=True),
        Column("BIC", is_number=True),
    ]
    if comparison.folds:
        columns.append(Column("CV error", is_number=True))
    rows = []
    for place, compared in enumerate(comparison.models, 1):
        fit = compared.fit
        figures = [str(place), str(compared.k), cell(fit.loss), cell(fit.aicc), _fixed_or_dash(compared.delta, ".2f")]
        figures += [_fixed_or_dash(compared.weight, ".3f"), cell(fit.bic)]
        rows.append((*figures, cell(compared.cv_error)) if comparison.folds else (*figures,))
    return TextTable(tuple(columns), rows)


def _fixed_or_dash(value: float | None, format_spec: str) -> str:
    return NO_VALUE if value is None or math.isnan(value) else format(value, format_spec)


def _test_sentence(test: NestedTest, show: NumberFormat) -> str:
    if not test.name:
        return f"not tested: {test.reason}"
    statistic = f"F({', '.join(map(str, test.dof))})" if test.name == "F" else f"likelihood ratio, χ²({test.dof[0]})"
    return f"{statistic} = {show(test.statistic)}, p = {format(test.p, '.3g')}"


def _comparison_document(comparison: Comparison) -> dict[str, Any]:
    return {
        "rows": comparison.rows,
        "folds": comparison.folds,
        "models": [_model_document(compared) for compared in comparison.models],
        "tests": [_test_document(test) for test in comparison.tests],
    }


def _model_document(compared: ComparedModel) -> dict[str, Any]:
    fit = compared.fit
    figures = {
        "loss": fit.loss,
        "aicc": fit.aicc,
        "aic": fit.aic,
        "bic": fit.bic,
        "delta_aicc": compared.delta,
        "weight": compared.weight,
        "cv_error": None if compared.cv_error is None or math.isnan(compared.cv_error) else compared.cv_error,
        "log_likelihood": fit.log_likelihood,
        "rss": fit.rss,
        "r_squared": fit.r_squared,
        "rmse": fit.rmse,
    }
    return {
        "model": fit.model,
        "k": compared.k,
        **json_numbers(figures),
        "dof": fit.dof,
        "parameters": json_numbers(fit.parameters),
        "converged": fit.converged,
        "warnings": _model_warnings(compared),
        "notes": fit.notes,
    }


def _test_document(test: NestedTest) -> dict[str, Any]:
    models = {"smaller": test.smaller, "larger": test.larger}
    if not test.name:
        return {**models, "test": None, "reason": test.reason}
    return {
        **models,
        "test": test.name,
        "statistic": json_number(test.statistic),
        "dof": [*test.dof],
        "p": json_number(test.p),
    }

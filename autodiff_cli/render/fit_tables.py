"""Tables of several fits: the groups of `train --by`, and the models of `compare`.

Groups are written as a table, as CSV, or as a JSON document with the document of each fit. Compared models are ranked
by AICc, and nested models are tested against each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from autodiff_cli.autodiff.unrolling import element_names
from autodiff_cli.data.json_records import pick, to_json
from autodiff_cli.data.table import csv_text
from autodiff_cli.graph.tape import gc_paused
from autodiff_cli.language.errors import pluralize
from autodiff_cli.render import fit as fit_report
from autodiff_cli.render.formatting import NumberFormat, shortest_text
from autodiff_cli.render.report import NO_VALUE, Column, Paper, Report, Style, TextTable
from autodiff_cli.training.fitting.comparison import NESTING_UNKNOWN, ComparedModel, Comparison, NestedTest
from autodiff_cli.training.fitting.groups import FittedGroup, FittedGroups
from autodiff_cli.training.fitting.posterior import LeaveOneOut
from autodiff_cli.training.result.fitted_model import FittedModel

# --- Groups of rows ---

_MAX_LISTED_WARNINGS = 10  # warnings of groups in the text; --json and CSV have all


def groups_report(groups: FittedGroups) -> Report:
    """Report the parameters of each group with their standard errors, and warnings."""
    return Report(lambda paper: _write_groups(paper, groups), lambda: [_groups_document(groups)])


def groups_csv(groups: FittedGroups) -> Report:
    """Report the groups as CSV, with one line per group and all digits, or as a JSON document."""

    def write(paper: Paper) -> None:
        fits, kinds = [group.fit for group in groups if group.fit is not None], _interval_kinds(groups)
        columns = [*_csv_cells(fits[0], kinds)] if fits else []
        rows = [[*dict.fromkeys([groups.column, "rows", *columns, "converged", "warnings"])]]
        for group in groups:
            fit, cells = group.fit, {"warnings": "; ".join(_group_warnings(group))}
            cells["converged"] = str(fit is not None and fit.converged).lower()
            if fit is not None:
                cells |= {"rows": str(fit.rows), **_csv_cells(fit, kinds)}
            cells[groups.column] = _group_label(group)
            rows.append([cells.get(name, "") for name in rows[0]])
        paper.stream.write(csv_text(rows))

    return Report(write, lambda: [_groups_document(groups)], is_data=True)


def estimates_text(fit: FittedModel, path: str, digits: int | None) -> str:
    """Return the table of all parameters and derived quantities, in the format of a file's suffix.

    CSV has all digits; LaTeX and Markdown are rounded as in the report.

    >>> import autodiff_cli as ad
    >>> print(estimates_text(ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4.1, 5.9]}), "fit.md", None))
    | name | value | standard error | t | p | 95 % interval |
    | :--- | ---: | ---: | ---: | ---: | ---: |
    | a | 1.993 | 0.026 | 75.93 | 0.00017 | 1.880 to 2.106 |
    <BLANKLINE>
    """
    names = [*fit.parameters, *fit.fixed, *fit.derived]
    if path.lower().endswith(".csv"):
        rows = [row for name in names for row in _estimate_rows(fit, name)]
        return csv_text([rows[0], *(row.values() for row in rows)])
    table = fit_report.estimates_table(fit, [name for name in names if name not in fit.fixed], digits)
    cells = [[column.title for column in table.columns], *table.rows]
    if path.lower().endswith(".md"):
        lines = ["| " + " | ".join(text.replace("|", r"\|") for text in row) + " |" for row in cells]
        return "\n".join([lines[0], "| :--- " + "| ---: " * (len(table.columns) - 1) + "|", *lines[1:], ""])
    lines = [" & ".join(text.translate(_LATEX_ESCAPES) for text in row) + r" \\" for row in cells]
    body = [r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
    return "\n".join([rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}", *body, r"\end{tabular}", ""])


_LATEX_ESCAPES = str.maketrans(
    {"^": r"\^{}", "~": r"\~{}", "\\": r"\textbackslash{}"} | {mark: rf"\{mark}" for mark in "&%$#_{}"}
)


def _estimate_rows(fit: FittedModel, name: str) -> Iterator[dict[str, str]]:
    """Yield the cells of a parameter, or of each element of an array."""
    value, error = fit.estimate(name)
    low, high = fit_report.interval_ends(fit, fit_report.CONFIDENCE).get(name) or (None, None)
    test = {"z" if fit.interval_dof is None else "t": fit.t_values.get(name), "p": fit.p_values.get(name)}
    columns = {"value": value, "stderr": error, **test, "low": low, "high": high}
    for element, cells in _element_cells(name, value, columns):
        yield {"name": element, **cells}


_CSV_FIGURES = ("loss", "rss", "dof", "r_squared", "aicc", "bic")


def _csv_cells(fit: FittedModel, kinds: Sequence[str]) -> dict[str, str]:
    """Return the numbers of a fit by the names of their columns: estimates with errors, intervals, and figures.

    If names are equal, the first one counts: a parameter may be called `loss`.
    """
    estimates = {name: fit.estimate(name) for name in (*fit.parameters, *fit.fixed, *fit.derived)}
    columns = [({"": value, "_stderr": error}, name) for name, (value, error) in estimates.items()]
    for kind in kinds:
        mark, intervals = "" if kind == fit_report.CONFIDENCE else f"_{kind}", fit_report.interval_ends(fit, kind)
        for name in estimates:
            low, high = intervals.get(name) or (None, None)
            columns.append(({f"{mark}_low": low, f"{mark}_high": high}, name))
    cells = dict[str, str]()
    for numbers, name in columns:
        for element, parts in _element_cells(name, estimates[name][0], numbers):
            for title, cell in parts.items():
                cells.setdefault(f"{element}{title}", cell)
    return cells | {name: _csv_cell(getattr(fit, name)) for name in _CSV_FIGURES if name not in cells}


def _element_cells(name: str, value: Any, columns: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the elements of a parameter by name, each with its cells by the titles of columns."""
    parts = {title: _elements(name, of, np.shape(value)) for title, of in columns.items()}
    for element in _elements(name, value):
        yield element, {title: _csv_cell(of[element]) for title, of in parts.items()}


def _elements(name: str, value: Any, shape: tuple[int, ...] = ()) -> dict[str, Any]:
    """Return the elements of an array by name, such as `W[0, 1]`; None stands for an array of unknown elements."""
    array = np.asarray(value, dtype=object) if value is not None else np.full(shape, None)
    return dict(zip(element_names(name, array.shape), array.ravel(), strict=True))


def _interval_kinds(groups: FittedGroups) -> list[str]:
    """Return the kinds of intervals that the fits have."""
    kinds = dict.fromkeys(kind for group in groups if group.fit is not None for kind in group.fit.intervals)
    return [fit_report.CONFIDENCE, *kinds]


def _group_label(group: FittedGroup) -> str:
    return shortest_text(group.by) if isinstance(group.by, float) else str(group.by)


def _csv_cell(value: Any) -> str:
    if value is None or math.isnan(value):
        return ""
    return str(value) if isinstance(value, int) else shortest_text(float(value))


def _write_groups(paper: Paper, groups: FittedGroups) -> None:
    count = pluralize(len(groups), "group")
    paper.line(f"{groups.model}, by `{groups.column}`: {count}, {pluralize(groups.rows, 'row')}", Style.STRONG)
    paper.line()
    first, last = paper.head_and_tail(len(groups))
    shown = [*groups.groups[:first], *(groups.groups[-last:] if last else ())]
    paper.table(_groups_table(paper, groups, shown), first if last else None)
    paper.write_omitted(len(groups) - len(shown), "group")
    fits = [group.fit for group in groups if group.fit is not None]
    if fits and fits[0].definition:
        paper.line(f"  standard errors: {fits[0].definition}", Style.FAINT)
    drawn = [((_group_label(group),), group.fit) for group in shown if group.fit is not None]
    fit_report.write_posteriors(paper, drawn, Column(groups.column))
    paper.line()
    paper.line(f"  converged: {sum(fit.converged for fit in fits)} of {len(groups)}")
    warnings = [f"{_group_label(group)}: {text}" for group in groups for text in _group_warnings(group)]
    for note in groups.notes:
        paper.line(f"  {note}")
    paper.section("warnings", warnings, Style.WARNING, _MAX_LISTED_WARNINGS)


def _group_warnings(group: FittedGroup) -> Sequence[str]:
    return [group.error] if group.fit is None else group.fit.warnings


def _groups_table(paper: Paper, groups: FittedGroups, shown: Sequence[FittedGroup]) -> TextTable:
    """Return the table of groups: label, rows, the cells of every estimate, and R² where fits have it, else the
    loss.
    """
    fits, kinds = [group.fit for group in groups if group.fit is not None], _interval_kinds(groups)
    names = [*groups.parameters, *(fits[0].derived if fits else ())]
    columns = [Column(groups.column), Column("rows", is_number=True)]
    for name in names:
        columns += [Column(name, is_number=True), Column("± ", is_number=True, is_optional=True)]
        columns += [Column(fit_report.interval_title(fits[0], kind), True, is_optional=True) for kind in kinds if fits]
    columns.append(Column("R²" if any(fit.r_squared is not None for fit in fits) else "loss", is_number=True))
    rows = []
    for group in shown:
        fit = group.fit
        if fit is None or fit.failure:
            row = [_group_label(group), "" if fit is None else str(fit.rows)]
            row += [NO_VALUE] * (len(columns) - 2)
        else:
            intervals = [fit_report.interval_ends(fit, kind) for kind in kinds]
            quality = fit.loss if fit.r_squared is None else fit.r_squared
            row = [_group_label(group), str(fit.rows)]
            row += [cell for name in names for cell in fit_report.estimate_cells(fit, name, paper.digits, intervals)]
            row.append(NO_VALUE if math.isnan(quality) else paper.brief(quality))
        rows.append(tuple(row))
    return TextTable(tuple(columns), rows)


def _groups_document(groups: FittedGroups) -> dict[str, Any]:
    with gc_paused():  # with many groups, garbage collections take most of the time and free nothing
        documents = [_group_document(group) for group in groups]
    return {"model": groups.model, "by": groups.column, "rows": groups.rows, "groups": documents}


def _group_document(group: FittedGroup) -> dict[str, Any]:
    label = to_json(group.by)
    if group.fit is None:
        return {"by": label, "error": group.error, "converged": False, "warnings": [group.error]}
    return {"by": label, **fit_report.fit_document(group.fit)}


# --- Compared models ---


def comparison_report(comparison: Comparison) -> Report:
    """Report the models, best first, and the tests of nested models."""
    return Report(lambda paper: _write_comparison(paper, comparison), lambda: [_comparison_document(comparison)])


def _write_comparison(paper: Paper, comparison: Comparison) -> None:
    figures = [x for one in comparison.models for x in (one.fit.aicc, one.cv_error, one.loo, one.fit.is_perfect)]
    counts = f"{pluralize(len(comparison.models), 'model')} fitted to {pluralize(comparison.rows, 'row')}"
    paper.line(f"{counts}, {'best' if any(figures) else 'lowest loss'} first")
    paper.line()
    for place, compared in enumerate(comparison.models, 1):
        paper.line(f"  {place}  {compared.fit.model}")
    paper.line()
    paper.table(_comparison_table(comparison, paper.brief))
    if comparison.folds:
        note = f"  CV error: mean loss of held-out rows, 1/{comparison.folds} of the rows at a time"
        has_scales = len({one.fit.scale for one in comparison.models}) > 1
        note += ", all with the scale of the model with the least scatter" * has_scales
        paper.line(note, Style.FAINT)
    places = {compared.fit.model: place for place, compared in enumerate(comparison.models, 1)}
    if comparison.tests:
        paper.heading("tests of nested models: is the larger one significantly better?")
        tested = [test for test in comparison.tests if test.reason != NESTING_UNKNOWN]
        for test in tested:
            sentence = fit_report.test_text(test, paper.brief) if test.name else f"not tested: {test.reason}"
            paper.line(f"  {places[test.smaller]} within {places[test.larger]}: {sentence}")
        if len(tested) < len(comparison.tests):
            paper.line(f"  no test for {'other' if tested else 'these'} pairs: {NESTING_UNKNOWN}", Style.FAINT)
    common = set.intersection(*({*one.fit.notes} for one in comparison.models))
    paper.section("notes", [note for note in comparison.models[0].fit.notes if note in common])
    warnings = [f"{places[one.fit.model]}  {text}" for one in comparison.models for text in _model_warnings(one)]
    paper.section("warnings", warnings, Style.WARNING)


_MAX_PARETO_K = 0.7  # Vehtari et al. 2024, Journal of Machine Learning Research 25 (72), 1


def _model_warnings(compared: ComparedModel) -> list[str]:
    loo = compared.loo
    doubt = "Pareto k is above 0.7, so the leave-one-out estimate is unreliable: it depends on single rows"
    others = [doubt] if loo and loo.max_k > _MAX_PARETO_K else []
    others += [compared.fit.failure] if compared.fit.failure else []
    return [*dict.fromkeys([*compared.fit.warnings, *others])]


def _comparison_table(comparison: Comparison, show: NumberFormat) -> TextTable:
    def cell(value: float | None, write: NumberFormat = show) -> str:
        return NO_VALUE if value is None or math.isnan(value) else write(value)

    def row(place: int, compared: ComparedModel) -> dict[str, str]:
        fit, loo = compared.fit, compared.loo or LeaveOneOut(*[math.nan] * 4)
        cells = {"": str(place), "k": str(compared.k), "loss": cell(fit.loss), "AICc": cell(fit.aicc)}
        cells |= {"ΔAICc": cell(compared.delta, "{:.2f}".format), "weight": cell(compared.weight, "{:.3f}".format)}
        cells["BIC"] = cell(fit.bic)
        if has_draws:
            cells |= {"elpd LOO": cell(loo.elpd, "{:.1f}".format), "± se": cell(loo.se, "{:.1f}".format)}
            cells["max k"] = cell(loo.max_k, "{:.2f}".format)
        return cells | ({"CV error": cell(compared.cv_error)} if comparison.folds else {})

    has_draws = any(compared.loo for compared in comparison.models)
    rows = [row(place, compared) for place, compared in enumerate(comparison.models, 1)]
    columns = tuple(Column(title, is_number=True, is_optional=title == "weight") for title in rows[0])
    return TextTable(columns, [tuple(cells.values()) for cells in rows])


def _comparison_document(comparison: Comparison) -> dict[str, Any]:
    return {
        **pick(comparison, "rows", "folds"),
        "models": [_model_document(compared) for compared in comparison.models],
        "tests": [_test_document(test) for test in comparison.tests],
    }


def _model_document(compared: ComparedModel) -> dict[str, Any]:
    fit = compared.fit
    return {
        "model": fit.model,
        "k": compared.k,
        **pick(fit, "loss", "aicc", "aic", "bic"),
        "delta_aicc": to_json(compared.delta),
        **pick(compared, "weight", "cv_error"),
        **({"loo": to_json(compared.loo)} if compared.loo else {}),
        **pick(fit, "log_likelihood", "rss", "r_squared", "rmse", "dof", "parameters", "converged"),
        "warnings": _model_warnings(compared),
        "notes": fit.notes,
    }


def _test_document(test: NestedTest) -> dict[str, Any]:
    result = pick(test, "statistic", "dof", "p") if test.name else {"reason": test.reason}
    return {"smaller": test.smaller, "larger": test.larger, "test": test.name or None, **result}

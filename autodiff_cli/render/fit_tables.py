"""Tables of several fits: the groups of `train --by`, and the models of `compare`.

Groups are written as a table, as CSV, or as a JSON document with the document of each fit. Compared models are ranked
by AICc, and nested models are tested against each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from autodiff_cli.data.json_records import pick, to_json
from autodiff_cli.data.table import csv_text
from autodiff_cli.graph.tape import gc_paused
from autodiff_cli.language.errors import pluralize
from autodiff_cli.render import fit as fit_report
from autodiff_cli.render.formatting import NumberFormat, shortest_text
from autodiff_cli.render.report import NO_VALUE, Column, Paper, Report, Style, TextTable, number_columns
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
        fits = [group.fit for group in groups if group.fit is not None]
        kinds = _interval_kinds(fits)
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
    names, kinds = [*fit.parameters, *fit.fixed, *fit.derived], _interval_kinds([fit])
    if path.lower().endswith(".csv"):
        rows = [["name", "value", "stderr", "z" if fit.interval_dof is None else "t", "p", *_end_titles(kinds)]]
        for name, figures in fit_report.iter_estimates(fit, names, ["t", "p", *kinds]):
            numbers = [*(figures[title] for title in ("value", "stderr", "t", "p")), *_ends(figures, kinds)]
            rows.append([name, *map(_csv_cell, numbers)])
        return csv_text(rows)
    table = fit_report.estimates_table(fit, [name for name in names if name not in fit.fixed], digits, kinds)
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


def _csv_cells(fit: FittedModel, kinds: Sequence[str]) -> dict[str, str]:
    """Return the numbers of a fit by the names of their columns: estimates with errors, intervals, and figures.

    If names are equal, the first one counts: a parameter may be called `loss`.
    """
    estimates = [*fit_report.iter_estimates(fit, (*fit.parameters, *fit.fixed, *fit.derived), kinds)]
    columns = [pair for name, of in estimates for pair in ((name, of["value"]), (f"{name}_stderr", of["stderr"]))]
    for kind in kinds:
        for name, figures in estimates:
            columns += zip((f"{name}_{title}" for title in _end_titles([kind])), _ends(figures, [kind]), strict=True)
    columns += [(name, getattr(fit, name)) for name in ("loss", "rss", "dof", "r_squared", "aicc", "bic")]
    return {name: _csv_cell(cell) for name, cell in (dict(columns) | dict(reversed(columns))).items()}


def _end_titles(kinds: Iterable[str]) -> list[str]:
    """Return the titles of the columns with the ends of intervals, such as "profile_low"."""
    marks = ["" if kind == fit_report.CONFIDENCE else f"{kind}_" for kind in kinds]
    return [f"{mark}{end}" for mark in marks for end in ("low", "high")]


def _ends(figures: Mapping[str, Any], kinds: Iterable[str]) -> list[float | None]:
    """Return the ends of the intervals of an estimate, in the order of `_end_titles`."""
    return [end for kind in kinds for end in figures[kind] or (None, None)]


def _interval_kinds(fits: Iterable[FittedModel]) -> list[str]:
    """Return the kinds of intervals that fits have."""
    return [fit_report.CONFIDENCE, *dict.fromkeys(kind for fit in fits for kind in fit.intervals)]


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
    fits = [group.fit for group in groups if group.fit is not None]
    kinds, names = _interval_kinds(fits), [*groups.parameters, *fits[0].derived] if fits else []
    names = [name for name in names if not fit_report.is_summarised(name, fits[0].estimate(name)[0])]
    columns = [Column(groups.column), *number_columns("rows")]
    for name, _ in fit_report.iter_estimates(fits[0], names, ()) if fits else ():
        columns += [Column(name, is_number=True), Column("± ", is_number=True, is_optional=True)]
        columns += [Column(fit_report.interval_title(fits[0], kind), True, is_optional=True) for kind in kinds]
    columns += number_columns("R²" if any(fit.r_squared is not None for fit in fits) else "loss")
    rows = []
    for group in shown:
        fit = group.fit
        if fit is None or fit.failure:
            row = [_group_label(group), "" if fit is None else str(fit.rows)]
            row += [NO_VALUE] * (len(columns) - 2)
        else:
            quality = fit.loss if fit.r_squared is None else fit.r_squared
            row = [_group_label(group), str(fit.rows)]
            for _, figures in fit_report.iter_estimates(fit, names, kinds):
                row += fit_report.estimate_cells(figures, paper.digits, kinds)
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

"""Models side by side: what `compare` shows, and its document."""

from __future__ import annotations

import math
from typing import Any

from autodiff_cli.render.documents import number, numbers
from autodiff_cli.render.numbers import Show, shows
from autodiff_cli.render.paper import Column, Paper, Style, TextTable
from autodiff_cli.render.report import Report
from autodiff_cli.render.text import counted
from autodiff_cli.training.comparison.compare import Compared, Comparison, NestedTest
from autodiff_cli.training.comparison.nested import UNKNOWN

_UNKNOWN = "-"


def comparison_report(comparison: Comparison, digits: int | None) -> Report:
    """The models, best first, then the tests of those that are special cases of others."""
    return Report(lambda paper: _write(paper, comparison, shows(digits)[1]), lambda: [_document(comparison)])


def _write(paper: Paper, comparison: Comparison, show: Show) -> None:
    paper.line(f"{counted(len(comparison.models), 'model')} of {counted(comparison.rows, 'row')}, best first")
    paper.line()
    for place, one in enumerate(comparison.models, 1):
        paper.line(f"  {place}  {one.fit.model}")
    paper.line()
    paper.table(_table(comparison, show))
    if comparison.folds:
        words = f"  CV error: the mean loss of rows held out, a {_fraction(comparison.folds)} of them at a time"
        paper.line(words, Style.FAINT)
    places = {one.fit.model: place for place, one in enumerate(comparison.models, 1)}
    if comparison.tests:
        paper.heading("does the larger model fit better than chance lets it?")
        known = [test for test in comparison.tests if test.reason != UNKNOWN]
        for test in known:
            paper.line(f"  {places[test.smaller]} within {places[test.larger]}: {_sentence(test, show)}")
        if len(known) < len(comparison.tests):
            paper.line(f"  no test for {'other' if known else 'these'} pairs: {UNKNOWN}", Style.FAINT)
    warnings = [(places[one.fit.model], text) for one in comparison.models for text in _said(one)]
    if warnings:
        paper.heading("warnings")
        for place, text in warnings:
            paper.line(f"  {place}  {text}", Style.WARNING)


def _said(one: Compared) -> list[str]:
    return [*dict.fromkeys([*one.fit.warnings, *([one.fit.failure] if one.fit.failure else [])])]


def _fraction(folds: int) -> str:
    return {2: "half", 3: "third", 4: "quarter", 5: "fifth", 10: "tenth"}.get(folds, f"1/{folds}")


def _table(comparison: Comparison, show: Show) -> TextTable:
    def cell(value: float | None) -> str:
        return _UNKNOWN if value is None or math.isnan(value) else show(value)

    columns = [
        Column("", is_number=True),
        Column("k", is_number=True),
        Column("loss", is_number=True),
        Column("AICc", is_number=True),
        Column("ΔAICc", is_number=True),
        Column("weight", is_number=True, is_dispensable=True),
        Column("BIC", is_number=True),
    ]
    if comparison.folds:
        columns.append(Column("CV error", is_number=True))
    rows = []
    for place, one in enumerate(comparison.models, 1):
        fit = one.fit
        figures = [str(place), str(one.k), cell(fit.loss), cell(fit.aicc), _short(one.delta, ".2f")]
        figures += [_short(one.weight, ".3f"), cell(fit.bic)]
        rows.append((*figures, cell(one.cv_error)) if comparison.folds else (*figures,))
    return TextTable(tuple(columns), rows)


def _short(value: float | None, form: str) -> str:
    return _UNKNOWN if value is None or math.isnan(value) else format(value, form)


def _sentence(test: NestedTest, show: Show) -> str:
    if not test.name:
        return f"not tested: {test.reason}"
    sign = f"F({', '.join(map(str, test.dof))})" if test.name == "F" else f"likelihood ratio, χ²({test.dof[0]})"
    return f"{sign} = {show(test.statistic)}, p = {format(test.p, '.3g')}"


def _document(comparison: Comparison) -> dict[str, Any]:
    return {
        "rows": comparison.rows,
        "folds": comparison.folds,
        "models": [_model(one) for one in comparison.models],
        "tests": [_tested(test) for test in comparison.tests],
    }


def _model(one: Compared) -> dict[str, Any]:
    fit = one.fit
    figures = {
        "loss": fit.loss,
        "aicc": fit.aicc,
        "aic": fit.aic,
        "bic": fit.bic,
        "delta_aicc": one.delta,
        "weight": one.weight,
        "cv_error": None if one.cv_error is None or math.isnan(one.cv_error) else one.cv_error,
        "log_likelihood": fit.log_likelihood,
        "rss": fit.rss,
        "r_squared": fit.r_squared,
        "rmse": fit.rmse,
    }
    return {
        "model": fit.model,
        "k": one.k,
        **numbers(figures),
        "dof": fit.dof,
        "parameters": numbers(fit.parameters),
        "converged": fit.converged,
        "warnings": _said(one),
    }


def _tested(test: NestedTest) -> dict[str, Any]:
    models = {"smaller": test.smaller, "larger": test.larger}
    if not test.name:
        return {**models, "test": None, "reason": test.reason}
    return {
        **models,
        "test": test.name,
        "statistic": number(test.statistic),
        "dof": [*test.dof],
        "p": number(test.p),
    }

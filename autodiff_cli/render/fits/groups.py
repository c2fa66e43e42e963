"""The fits of groups of rows: a table, CSV, or a document with that of each."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from autodiff_cli.graph.collector import collector_paused
from autodiff_cli.render.documents import number
from autodiff_cli.render.fits.document import fit_document
from autodiff_cli.render.fits.report import UNKNOWN
from autodiff_cli.render.fits.rounding import Rounding
from autodiff_cli.render.numbers import in_full, shows
from autodiff_cli.render.paper import Column, Paper, Style, TextTable
from autodiff_cli.render.report import Report
from autodiff_cli.render.text import counted
from autodiff_cli.training.groups.by_group import FittedGroup, FittedGroups
from autodiff_cli.training.result.fit import FittedModel

_NAMED = 10  # of the groups of which there is something to say


def groups_report(groups: FittedGroups, digits: int | None) -> Report:
    """The parameters of each group with their standard errors, and what went wrong."""
    return Report(lambda paper: _write(paper, groups, digits), lambda: [_document(groups)])


def groups_table(groups: FittedGroups) -> Report:
    """CSV: a line for each group, numbers in full; or the document."""

    def write(paper: Paper) -> None:
        writer = csv.writer(paper.stream, lineterminator="\n")
        numbers, kinds = _numbers(groups), _kinds(groups)
        errors = [f"{name}_stderr" for name in numbers]
        named = [name for pair in zip(numbers, errors, strict=True) for name in pair]
        marks = ["" if kind == CONFIDENCE else f"_{kind}" for kind in kinds]
        ends = [f"{name}{mark}_{end}" for mark in marks for name in numbers for end in ("low", "high")]
        writer.writerow([groups.column, "rows", *named, *ends, *_FIGURES, "converged", "warnings"])
        for group in groups:
            writer.writerow(_line(group, numbers, kinds))

    return Report(write, lambda: [_document(groups)], is_data=True)


CONFIDENCE = "confidence"  # the intervals that every fit has; others are asked for
_FIGURES = ("loss", "rss", "dof", "r_squared", "aicc", "bic")


def _line(group: FittedGroup, numbers: list[str], kinds: list[str]) -> list[str]:
    fit = group.fit
    if fit is None:
        empty = 2 * len(numbers) * (1 + len(kinds)) + len(_FIGURES)
        return [_label(group), "", *[""] * empty, "false", group.error]
    values = _elements(fit.parameters) | _elements(fit.fixed) | {name: q["value"] for name, q in fit.derived.items()}
    errors = _elements(fit.stderr) | {name: q["stderr"] for name, q in fit.derived.items()}
    pairs = [_cell(of.get(name)) for name in numbers for of in (values, errors)]
    for kind in kinds:
        found = _intervals(fit, kind)
        lows, highs = (_elements({name: ends[k] for name, ends in found.items() if ends}) for k in (0, 1))
        pairs += [_cell(of.get(name)) for name in numbers for of in (lows, highs)]
    figures = [_cell(getattr(fit, name)) for name in _FIGURES]
    return [_label(group), str(fit.rows), *pairs, *figures, str(fit.converged).lower(), "; ".join(fit.warnings)]


def _kinds(groups: FittedGroups) -> list[str]:
    """The kinds of intervals that the fits have."""
    kinds = dict.fromkeys(kind for group in groups if group.fit is not None for kind in group.fit.intervals)
    return [CONFIDENCE, *kinds]


def _intervals(fit: FittedModel, kind: str) -> dict[str, Any]:
    """The ends of the intervals of one kind, by name, as pairs; None where they are not known."""
    if kind != CONFIDENCE:
        return fit.intervals.get(kind, {})
    if not fit.definition:
        return {}
    width, found = fit.quantile(), dict(fit.confidence())
    for name, quantity in fit.derived.items():
        value, error = quantity["value"], quantity["stderr"]
        if value is not None and error is not None:
            found[name] = (value - width * error, value + width * error)
    return found


def _label(group: FittedGroup) -> str:
    return in_full(group.by) if isinstance(group.by, float) else str(group.by)


def _cell(value: Any) -> str:
    if value is None or math.isnan(value):
        return ""
    return str(value) if isinstance(value, int) else in_full(float(value))


def _numbers(groups: FittedGroups) -> list[str]:
    """The names of all numbers, those of arrays one by one, and of derived quantities."""
    fit = next((group.fit for group in groups if group.fit is not None), None)
    return [*groups.parameters] if fit is None else [*(_elements(fit.parameters) | _elements(fit.fixed)), *fit.derived]


def _elements(values: dict[str, Any]) -> dict[str, Any]:
    """Parameters by name, arrays element by element."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if not np.ndim(value):
            found[name] = value
            continue
        for place in np.ndindex(np.shape(value)):
            found[f"{name}[{', '.join(map(str, place))}]"] = float(value[place])
    return found


def _write(paper: Paper, groups: FittedGroups, digits: int | None) -> None:
    many = counted(len(groups), "group")
    paper.line(f"{groups.model}, by `{groups.column}`: {many}, {counted(groups.rows, 'row')}", Style.STRONG)
    paper.line()
    first, last = paper.shown(len(groups))
    shown = [*groups.groups[:first], *(groups.groups[-last:] if last else ())]
    paper.table(_table(groups, shown, digits))
    paper.left_out(len(groups) - len(shown), "group")
    definitions = dict.fromkeys(group.fit.definition for group in groups if group.fit is not None)
    for definition in filter(None, [*definitions][:1]):
        paper.line(f"  standard errors: {definition}", Style.FAINT)
    bad = sum(1 for group in groups if group.fit is None or not group.fit.converged)
    paper.line()
    paper.line(f"  converged: {len(groups) - bad} of {len(groups)}")
    said = [(group, text) for group in groups for text in _said(group)]
    if groups.dropped:
        paper.line(f"  rows left out because a cell is missing: {groups.dropped}")
    if said:
        paper.heading("warnings")
        for group, text in said[:_NAMED]:
            paper.line(f"  {_label(group)}: {text}", Style.WARNING)
        if len(said) > _NAMED:
            paper.line(f"  … {len(said) - _NAMED} more; --json and -o FILE.csv have all", Style.FAINT)


def _said(group: FittedGroup) -> Iterator[str]:
    if group.fit is None:
        yield group.error
    else:
        yield from group.fit.warnings


def _table(groups: FittedGroups, shown: list[FittedGroup], digits: int | None) -> TextTable:
    columns = [Column(groups.column), Column("rows", is_number=True)]
    level = next((100 * group.fit.confidence_level for group in groups if group.fit is not None), 95)
    kinds = _kinds(groups)
    titles = [f"{level:g} % interval" if kind == CONFIDENCE else f"{level:g} % {kind}" for kind in kinds]
    for name in _shown(groups):
        columns += [Column(name, is_number=True), Column("± ", is_number=True, is_dispensable=True)]
        columns += [Column(title, is_number=True, is_dispensable=True) for title in titles]
    columns.append(Column(_figure(groups), is_number=True))
    return TextTable(tuple(columns), [tuple(_cells(group, groups, kinds, digits)) for group in shown])


def _figure(groups: FittedGroups) -> str:
    """What a fit is judged by in the table."""
    known = (group.fit for group in groups if group.fit is not None)
    return "R²" if any(fit.r_squared is not None for fit in known) else "loss"


def _cells(group: FittedGroup, groups: FittedGroups, kinds: list[str], digits: int | None) -> Iterator[str]:
    yield _label(group)
    fit = group.fit
    if fit is None or fit.failure:
        yield "" if fit is None else str(fit.rows)
        yield from [UNKNOWN] * ((2 + len(kinds)) * len(_shown(groups)) + 1)
        return
    yield str(fit.rows)
    intervals = [_intervals(fit, kind) for kind in kinds]
    for name in _shown(groups):
        yield from _value(fit, name, digits, [of_kind.get(name) for of_kind in intervals])
    judged = fit.loss if fit.r_squared is None else fit.r_squared
    yield UNKNOWN if math.isnan(judged) else shows(digits)[1](judged)


def _shown(groups: FittedGroups) -> list[str]:
    """The parameters and the derived quantities of a table."""
    fit = next((group.fit for group in groups if group.fit is not None), None)
    return [*groups.parameters, *(() if fit is None else fit.derived)]


def _value(fit: FittedModel, name: str, digits: int | None, intervals: list[Any]) -> Iterator[str]:
    """A value, its error, and the ends of intervals, all to the place of the error."""
    if name in fit.fixed:
        yield from (shows(digits)[1](fit.fixed[name]), "fixed", *[""] * len(intervals))
        return
    if name in fit.derived:
        value, error = fit.derived[name]["value"], fit.derived[name]["stderr"]
    else:
        value, error = fit.parameters[name], fit.stderr[name]
    rounding = Rounding.of(value, error, digits)
    yield rounding.of_value(value)
    yield UNKNOWN if error is None else rounding.of_error(error)
    for ends in intervals:
        is_known = ends is not None and not np.isnan(ends).any()
        yield " to ".join(map(rounding.of_value, ends)) if is_known else UNKNOWN


def _document(groups: FittedGroups) -> dict[str, Any]:
    with collector_paused():  # for many groups, all of which is kept
        documents = [_of_group(group) for group in groups]
    return {"model": groups.model, "by": groups.column, "rows": groups.rows, "groups": documents}


def _of_group(group: FittedGroup) -> dict[str, Any]:
    label = number(float(group.by)) if isinstance(group.by, float) else group.by
    if group.fit is None:
        return {"by": label, "error": group.error, "converged": False, "warnings": [group.error]}
    return {"by": label, **fit_document(group.fit)}

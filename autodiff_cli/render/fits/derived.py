"""What `train` shows of quantities derived from the parameters, and of intervals that were asked for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autodiff_cli.render.fits.rounding import Rounding
from autodiff_cli.render.paper import Column, Paper, TextTable
from autodiff_cli.training.result.fit import FittedModel

_UNKNOWN = "-"


def write_derived(paper: Paper, fit: FittedModel, digits: int | None) -> None:
    """Values, errors and intervals, like those of parameters."""
    if not fit.derived:
        return
    width = fit.quantile()
    rows = []
    for name, found in fit.derived.items():
        value, error = found["value"], found["stderr"]
        value = math.nan if value is None else value
        rounding = Rounding.of(value, error, digits)
        if error is None:
            rows.append((name, rounding.of_value(value), _UNKNOWN, ""))
            continue
        ends = "" if math.isnan(width) else " to ".join(rounding.of_value(value + k * width * error) for k in (-1, 1))
        rows.append((name, rounding.of_value(value), rounding.of_error(error), ends))
    titles = [Column("name"), Column("value", is_number=True), Column("standard error", is_number=True)]
    titles.append(Column(f"{100 * fit.confidence_level:g} % interval", is_number=True, is_dispensable=True))
    paper.heading("derived quantities, errors by the delta method")
    paper.table(TextTable(tuple(titles), rows))


def write_intervals(paper: Paper, fit: FittedModel, digits: int | None) -> None:
    """Intervals by profile and by bootstrap, side by side."""
    if not fit.intervals:
        return
    kinds = [*fit.intervals]
    names = dict.fromkeys(name for of_kind in fit.intervals.values() for name in of_kind)
    rows = [(name, *(_interval(fit, name, fit.intervals[kind].get(name), digits) for kind in kinds)) for name in names]
    paper.heading(f"{100 * fit.confidence_level:g} % intervals")
    paper.table(TextTable((Column("name"), *(Column(kind, is_number=True) for kind in kinds)), rows))


def _interval(fit: FittedModel, name: str, ends: Any, digits: int | None) -> str:
    if ends is None:
        return _UNKNOWN
    value = fit.derived[name]["value"] if name in fit.derived else fit.parameters[name]
    error = (ends[1] - ends[0]) / 4 if np.isfinite(ends).all() else None
    rounding = Rounding.of(value, error, digits)
    return " to ".join(map(rounding.of_value, ends))

"""The intervals that were asked for, put into a fit."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.training.intervals.bootstrap import check_resampled, resamples
from autodiff_cli.training.intervals.profile import check_profiled, profiles
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.options import Options, ReportOptions
from autodiff_cli.training.result.derived import Quantities
from autodiff_cli.training.result.fit import FittedModel

Array = NDArray[np.float64]


def check_intervals(objective: Objective, report: ReportOptions) -> None:
    """Raise OptionError for intervals that this objective cannot have."""
    if report.profile:
        check_profiled(objective)
    if report.bootstrap is not None:
        check_resampled(objective)


def with_intervals(fit: FittedModel, objective: Objective, options: Options, quantities: Quantities) -> FittedModel:
    """The fit with the intervals that were asked for; the bootstrap has those of derived quantities too."""
    report = options.report
    if not report.profile and report.bootstrap is None:
        return fit
    found: dict[str, dict[str, Any]] = {}
    said: list[str] = []
    if not fit.converged:
        said.append("no profile or bootstrap intervals: the fit did not get to a solution")
        return dataclasses.replace(fit, warnings=[*fit.warnings, *said])
    theta = objective.layout.gather([*fit.parameters.values()])
    if report.profile:
        profiled = profiles(objective, theta, fit)
        found["profile"] = _named(objective, profiled.low, profiled.high)
        said += profiled.said
    if report.bootstrap is not None:
        drawn = resamples(objective, theta, report.bootstrap, options.method.seed, fit.confidence_level)
        found["bootstrap"] = _named(objective, *drawn.ends(drawn.thetas, fit.confidence_level))
        said += drawn.said
        if quantities.names:
            values = np.array([quantities.values(objective.point(end)) for end in drawn.thetas])
            low, high = drawn.ends(values.reshape(-1, len(quantities.names)), fit.confidence_level)
            pairs = zip(quantities.names, low.tolist(), high.tolist(), strict=True)
            found["bootstrap"] |= {name: None if np.isnan(a + b) else (a, b) for name, a, b in pairs}
    return dataclasses.replace(fit, intervals=found, warnings=[*fit.warnings, *said])


def _named(objective: Objective, low: Array, high: Array) -> dict[str, Any]:
    """Pairs by name, of arrays for arrays; None where neither end is known."""
    lows, highs = objective.layout.values(low), objective.layout.values(high)
    return {name: None if np.isnan([lows[name], highs[name]]).all() else (lows[name], highs[name]) for name in lows}

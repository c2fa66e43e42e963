"""Fits with errors in x begin where the same fit ends without these.

Far from the solution a steep model has a large effective variance, which would hide how far off it is: such a fit can
end on a curve that is steep everywhere.
"""

from __future__ import annotations

import dataclasses

from autodiff_cli.training.methods.loop import Outcome
from autodiff_cli.training.objective.graphs import x_error
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.options import MethodOptions
from autodiff_cli.training.progress import Progress
from autodiff_cli.training.rows.zeroed import Zeroed
from autodiff_cli.training.run import optimize


def begun_without(objective: Objective, method: str, options: MethodOptions) -> Objective:
    """The objective with the start that a fit without errors in x leads to, if that has an end."""
    if options.epochs is not None or method not in ("lm", "lbfgs"):
        return objective
    plain = objective.over(Zeroed(objective.data, frozenset(map(x_error, objective.kernels.graphs.x_errors))))
    outcome: Outcome = optimize(method, plain, dataclasses.replace(options, starts=None), Progress())
    if outcome.failure:
        return objective
    begun = objective.over(objective.data)
    begun.start = outcome.theta
    return begun


def in_words(objective: Objective) -> str:
    """What is said of such a fit."""
    names = ", ".join(f"`{name}`" for name in objective.kernels.graphs.x_errors)
    return f"errors in {names} count by the effective variance, sigma² + (∂f/∂x·sigma_x)², to first order"

"""Why a fit failed, in words: what ran away, what is not defined, what cannot be told apart, and what to try next."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.training.methods.loop import Diverged, Outcome
from autodiff_cli.training.objective.losses import LossKind
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.objective.undefined import undefined
from autodiff_cli.training.result.statistics import MOST

Array = NDArray[np.float64]

_FAR = 100.0  # times the start, or 1: a parameter that has gone so far runs away
_VANISHED = 1e-12  # times the start: one that has become so small, too
_BADLY = 1e6  # the condition number from which on it is part of the explanation
_INVOLVED = 0.3  # the least share in the worst direction of what is named
_NAMED = 5  # parameters in a sentence
_STEPS = tuple(10.0**-k for k in range(12))  # of a step beyond the edge of a domain


def of_divergence(error: Diverged, objective: Objective) -> str:
    """Where a loss that is no number came from, as the end of a sentence; empty if that cannot be told."""
    theta = error.theta
    if theta is None:
        return ""
    lost = [name for name, value in zip(_numbers(objective), theta.tolist(), strict=True) if not math.isfinite(value)]
    if lost:
        return f": {_listed(lost)} ran to infinity"
    with quiet():
        where = undefined(objective, theta)
    return "" if where is None else f": {where}"


def explained(objective: Objective, outcome: Outcome, losses: list[float]) -> list[str]:
    """Sentences on a fit that did not get to a solution, the last one on what to try.

    Args:
        losses: from epoch to epoch.
    """
    if outcome.converged or outcome.failure == "interrupted":
        return []
    with quiet():
        runaways = _runaways(objective, outcome.theta)
        said = [*runaways.values()]
        if losses and losses[-1] > losses[0]:
            said.append(
                f"the loss rose, from {losses[0]:.6g} to {losses[-1]:.6g}: a smaller --lr may help, or --clip-norm"
            )
        if not outcome.failure:
            return said
        has_squares = objective.kind is LossKind.SQUARES and objective.layout.size <= MOST and not objective.is_network
        tied: list[str] = []
        if has_squares and losses:
            said += _edge(objective, outcome.theta)
            sentences, tied = _conditioning(objective, outcome.theta)
            said += sentences
    if losses and not objective.is_network and not outcome.is_endless:
        said.append(_advice([*runaways], tied))
    return said


def _numbers(objective: Objective) -> tuple[str, ...]:
    layout = objective.layout
    return layout.numbers if layout.size <= MOST else tuple(f"parameter {k + 1}" for k in range(layout.size))


def _runaways(objective: Objective, theta: Array) -> dict[str, str]:
    """A sentence for each number that went far from its start, the farthest first."""
    if objective.layout.size > MOST or objective.is_network:
        return {}
    start = objective.start
    far = np.abs(theta - start) / np.maximum(np.abs(start), 1.0)
    far[(theta != 0) & (np.abs(theta) < _VANISHED * np.abs(start))] = math.inf
    names = objective.layout.numbers
    order = [k for k in np.argsort(-far)[:_NAMED] if far[k] > _FAR]
    return {names[k]: f"`{names[k]}` ran from {start[k]:g} to {theta[k]:.6g}" for k in order}


def _edge(objective: Objective, theta: Array) -> Iterator[str]:
    """What is not defined next to where a fit ended, in the direction in which the squares would fall."""
    triangle = objective.triangle(theta)
    if not np.isfinite(triangle).all():
        return
    step = -np.linalg.lstsq(triangle[:, :-1], triangle[:, -1], rcond=1e-10)[0]
    nearest = None
    for part in _STEPS:
        found = undefined(objective, objective.bounds.clipped(theta + part * step))
        if found is None:
            break
        nearest = found
    if nearest is not None:
        yield f"the way down leads out of the model's domain: {nearest}"


def _conditioning(objective: Objective, theta: Array) -> tuple[list[str], list[str]]:
    """A sentence on parameters that hang together, and their names."""
    jacobian = objective.triangle(theta)[:, :-1]
    if not np.isfinite(jacobian).all():
        return [], []
    names = objective.layout.numbers
    lengths = np.sqrt(np.sum(np.square(jacobian), axis=0))
    idle = [name for name, length in zip(names, lengths, strict=True) if not length > 0]
    if idle:
        return [f"{_listed(idle)} has no effect on the prediction there"], idle
    _, sizes, directions = np.linalg.svd(jacobian / lengths)
    condition = math.inf if sizes[-1] == 0 else float(sizes[0] / sizes[-1])
    if condition < _BADLY:
        return [], []
    tied = [name for name, share in zip(names, np.abs(directions[len(names) - 1]), strict=True) if share > _INVOLVED]
    words = f"the condition number there is {condition:.0e} (parameters scaled)"
    if len(tied) > 1:
        words += f": a change of {_listed(tied, 'and')} together hardly changes the prediction"
    return [words], tied


def _advice(runaways: list[str], tied: list[str]) -> str:
    ways = ["other starts (--starts 20)"]
    if runaways:
        ways.append(f"bounds for what ran away (--bounds {_parameter(runaways[0])}=LOW:HIGH)")
    if len(tied) > 1:
        ways.append(f"a value for one of those that hang together (--fix {_parameter(tied[0])}=VALUE)")
    *others, last = [*ways, "a simpler model"]
    return f"what to try: {', '.join(others)}, or {last}"


def _parameter(number: str) -> str:
    """The parameter that a number belongs to: options know elements of arrays by the name of the array."""
    return number.partition("[")[0]


def _listed(names: list[str], last: str = "and") -> str:
    shown = [f"`{name}`" for name in names[:_NAMED]]
    if len(names) > _NAMED:
        return f"{', '.join(shown)} {last} {len(names) - _NAMED} more"
    *others, end = shown
    return f"{', '.join(others)} {last} {end}" if others else end

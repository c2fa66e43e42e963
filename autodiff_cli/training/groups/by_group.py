"""One fit for each group of rows: the model is read and its kernels are made once."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autodiff_cli.data.table import DataError, Dataset
from autodiff_cli.graph.collector import collector_paused
from autodiff_cli.language.errors import ExpressionError, in_brief, suggest
from autodiff_cli.language.lexer import canonical
from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.fit import concluded, fitted_objective
from autodiff_cli.training.groups.conclusions import Conclusions
from autodiff_cli.training.groups.together import GroupedRows, Together, by_groups, fit_together
from autodiff_cli.training.levels.indicators import coded
from autodiff_cli.training.levels.shared import SharedRows
from autodiff_cli.training.methods.loop import Epoch, Outcome
from autodiff_cli.training.objective.loading import as_dataset
from autodiff_cli.training.objective.losses import LossKind
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.objective.parameters import by_canonical_name
from autodiff_cli.training.objective.structure import linear
from autodiff_cli.training.options import (
    DataOptions,
    LossOptions,
    MethodOptions,
    Options,
    ParameterOptions,
    ReportOptions,
    ValidationOptions,
)
from autodiff_cli.training.progress import Progress
from autodiff_cli.training.result.derived import Quantities, written
from autodiff_cli.training.result.fit import FittedModel
from autodiff_cli.training.run import chosen
from autodiff_cli.training.squares import POOR, doubt

Array = NDArray[np.float64]
Order = NDArray[np.intp]

_FEW = 4  # groups that are not worth fitting together
_LARGE = 2**15  # rows of a group, on average: with more it takes time enough by itself
_LARGEST = 2**20  # rows of any group
_MOST = 30  # parameters of groups that are
_SEEDS = 3  # groups whose poor fits are looked into, on behalf of the others
_CLEARLY = 0.99  # of the sum of squares: the most that another start may leave to be preferred


@dataclass(frozen=True, slots=True)
class FittedGroup:
    """The rows with one label, and what was found.

    Attributes:
        by: the label.
        fit: None where there is none, for the `error`.
    """

    by: float | str
    fit: FittedModel | None
    error: str = ""

    @property
    def failure(self) -> str:
        """Why the group has no result; empty if it has one."""
        return self.error or (self.fit.failure if self.fit is not None else "")


@dataclass(frozen=True, slots=True)
class FittedGroups:
    """The fits of all groups, in the order of their labels.

    Attributes:
        column: that holds the labels.
        parameters: the names of the parameters of each fit, and of those that are fixed.
        rows: of all groups; `dropped` more have a cell that is missing.
    """

    model: str
    column: str
    parameters: tuple[str, ...]
    groups: tuple[FittedGroup, ...]
    rows: int
    dropped: int

    def __iter__(self) -> Iterator[FittedGroup]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, by: float | str) -> FittedModel:
        """The fit of the group with this label. Raises KeyError if there is none."""
        for group in self.groups:
            if group.by == by and group.fit is not None:
                return group.fit
        raise KeyError(by)


def fit_groups(
    model: str | Model, data: Mapping[str, ArrayLike] | Dataset, by: str, options: Options | None = None
) -> FittedGroups:
    """The same as `fit_by`, with the options in their groups."""
    asked = options or Options()
    _check_options(asked)
    if asked.data.stream:
        raise OptionError("by: rows are sorted by their groups, in memory; leave out stream")
    dataset = as_dataset(data)
    name = canonical(by)
    if name not in dataset.names:
        close = suggest(name, dataset.names)
        hint = f"; did you mean `{close}`?" if close else f" ({in_brief(dataset.names)})"
        raise DataError(f"by: the data have no column `{name}`{hint}")
    read = model if isinstance(model, Model) else Model.read(model, dataset.names, asked.parameters.named)
    shared = SharedRows(dataset, [read], asked.data, name)
    # Its labels go with the rows of the objective, which are all that it has.
    objective = Objective.of(read, shared, asked)
    if not objective.parameters:
        raise OptionError("there is nothing to fit: every parameter is fixed")
    method = chosen(asked.method, objective)
    asked.method.check_used(method)
    labels, codes = coded(shared.labels.pop(name))  # what is known by its codes need not stay
    order, sizes = by_groups(codes, len(labels))
    del codes
    rows = GroupedRows(objective, order, sizes)
    together = _Several(objective, rows, asked) if _fits_together(objective, method, asked, sizes) else None
    groups: list[FittedGroup] = []
    # With many groups, most of what is made is kept.
    with contextlib.nullcontext() if together is None else collector_paused():
        for which, label in enumerate(labels.tolist()):
            fit = None if together is None else together.fitted(which)
            groups.append(_group(label, rows.of_group(which), asked) if fit is None else FittedGroup(label, fit))
    names = (*objective.parameters, *objective.fixed)
    return FittedGroups(objective.model.text, name, names, tuple(groups), objective.rows, objective.data.dropped)


def fit_by(
    model: str,
    data: Mapping[str, ArrayLike] | Dataset,
    by: str,
    *,
    start: Mapping[str, ArrayLike] | None = None,
    fixed: Mapping[str, ArrayLike | None] | None = None,
    bounds: Mapping[str, tuple[float | None, float | None]] | None = None,
    loss: str | None = None,
    family: str | None = None,
    weights: ArrayLike | str | None = None,
    sigma: ArrayLike | str | None = None,
    absolute_sigma: bool = False,
    optimizer: str = "auto",
    seed: int = 0,
    drop_missing: bool = False,
    confidence: float = 0.95,
    derive: Mapping[str, str] | Sequence[str] = (),
) -> FittedGroups:
    """Fit a model to each group of rows by itself. A group that fails does not stop the others.

    Args:
        model: see `fit`, also for the other options.
        by: the column whose labels, texts or numbers, are the groups.

    Raises:
        ExpressionError, DataError, OptionError: for what is wrong with the model, the data as a whole and the options.

    >>> data = {"x": [1, 2, 3, 1, 2, 3], "y": [2, 4, 6, 5, 10, 15.3], "site": ["u", "u", "u", "v", "v", "v"]}
    >>> found = fit_by("y ~ a*x", data, "site")
    >>> [(group.by, round(group.fit.parameters["a"], 3)) for group in found]
    [('u', 2.0), ('v', 5.064)]
    """
    options = Options(
        ParameterOptions(by_canonical_name(start), by_canonical_name(fixed), by_canonical_name(bounds)),
        DataOptions(weights, sigma, absolute_sigma, drop_missing),
        LossOptions(loss, family=family),
        MethodOptions(optimizer, seed=seed),
        report=ReportOptions(confidence=confidence, derive=written(derive)),
    )
    return fit_groups(model, data, by, options)


def _check_options(options: Options) -> None:
    if any(value is not None for value in dataclasses.astuple(options.keeping)):
        raise OptionError("a checkpoint keeps one fit, not those of groups: leave checkpoint and resume out")


def _group(label: Any, part: Objective, options: Options) -> FittedGroup:
    try:
        return FittedGroup(label, fitted_objective(part, options))
    except (DataError, ExpressionError, OptionError, ArithmeticError, np.linalg.LinAlgError) as error:
        return FittedGroup(label, None, str(error))


def _fits_together(objective: Objective, method: str, options: Options, sizes: NDArray[np.intp]) -> bool:
    """Whether all groups can take their steps together: plain least squares of numbers."""
    plain = dataclasses.replace(options.method, backend="auto", threads=None, seed=0)
    return (
        method == "lm"
        and len(sizes) >= _FEW
        and objective.rows <= _LARGE * len(sizes)
        and max(sizes) <= _LARGEST
        and objective.kind is LossKind.SQUARES
        and objective.layout.size <= _MOST
        and not objective.model.array_parameters
        and not objective.is_network
        and not objective.is_penalised
        and not objective.limits
        and not options.data.x_sigma
        and dataclasses.replace(plain, optimizer="auto") == MethodOptions()
        and options.validation == ValidationOptions()
        and dataclasses.replace(options.report, confidence=0.95, derive={}) == ReportOptions()
    )


class _Several:
    """Groups that are fitted together."""

    def __init__(self, objective: Objective, rows: GroupedRows, options: Options) -> None:
        self._part, self._options, self._layout = rows.of_group, options, objective.layout
        self._quantities = Quantities(options.report.derive, objective.model, objective.layout)
        leaves = [objective.model.program.leaves[name] for name in objective.parameters]
        names = linear(objective.model.program.output, leaves, objective.model.shapes)
        self._rows = rows
        start = np.tile(objective.start, (len(rows.sizes), 1))
        self._found = fit_together(self._rows, start)
        variations = _variations(rows)
        self._enough = rows.sizes * objective.components > objective.layout.size
        self._poor = ~self._found.converged | ~(self._squares() <= (1 - POOR) * variations)
        if len(names) < len(leaves):
            self._try_again(start, variations)
        self._conclusions = Conclusions(objective, self._rows, self._found, variations, options)

    def fitted(self, which: int) -> FittedModel | None:
        """The fit of a group; None if it has to be fitted by itself."""
        found = self._found
        if not found.converged[which] or not self._enough[which]:
            return None
        if self._conclusions.plain[which] and not self._poor[which] and not self._options.report.derive:
            return self._conclusions.fit(which)
        part, theta = self._part(which), found.theta[which].copy()
        triangle = found.triangles[which]
        triangle.setflags(write=False)
        part._triangles = {theta.tobytes(): triangle}
        progress = Progress()
        losses = found.losses[:, which]
        for number, loss in enumerate(losses[~np.isnan(losses)].tolist()):
            progress.record(Epoch(number, part.mean_of_squares(loss), theta))
        outcome = Outcome(theta, True)
        if self._poor[which]:
            doubt(part, progress, outcome)
        return concluded(part, "lm", progress, outcome, self._options, self._quantities)

    def _squares(self) -> Array:
        found: Array = np.sum(np.square(self._found.triangles[:, :, -1]), axis=1)
        return found

    def _try_again(self, start: Array, variations: Array) -> None:
        """Fit groups that ended badly from where good ones did, and from starts that are found in the data of some."""
        for seed in self._seeds():
            which = np.flatnonzero(self._poor & self._enough)
            if not len(which):
                return
            begun = start.copy()
            begun[which] = seed
            rows = self._rows.some(which)
            self._take(which, fit_together(rows, begun[which]))
            self._poor = ~self._found.converged | ~(self._squares() <= (1 - POOR) * variations)

    def _seeds(self) -> Iterator[Array]:
        good = ~self._poor & self._enough
        if good.any():
            yield np.median(self._found.theta[good], axis=0)
        for _ in range(_SEEDS):
            waiting = np.flatnonzero(self._poor & self._enough)
            if not len(waiting):
                return
            which = int(waiting[len(waiting) // 2])
            single = _group(which, self._part(which), self._options).fit
            if single is None or single.failure:
                return
            yield self._layout.gather([*single.parameters.values()])

    def _take(self, which: Order, again: Together) -> None:
        """Of each group, what left clearly less."""
        mine, found = self._squares()[which], self._found
        theirs = np.sum(np.square(again.triangles[:, :, -1]), axis=1)
        better = again.converged & (~found.converged[which] | (theirs < _CLEARLY * mine))
        longer = max(len(found.losses), len(again.losses))
        losses = np.full((longer, len(found.theta)), math.nan)
        losses[: len(found.losses)] = found.losses
        taken = which[better]
        losses[:, taken] = math.nan
        losses[: len(again.losses), taken] = again.losses[:, better]
        theta, triangles, converged = found.theta.copy(), found.triangles.copy(), found.converged.copy()
        theta[taken], triangles[taken], converged[taken] = again.theta[better], again.triangles[better], True
        self._found = Together(theta, triangles, converged, losses)


def _variations(rows: GroupedRows) -> Array:
    """The (weighted) sum of squares of each group's target about its mean."""
    found = np.empty(len(rows.sizes))
    for which in rows.batches():
        target, weight, sizes = rows.target(which), rows.weights(which), rows.sizes[which]
        starts = np.cumsum(sizes) - sizes
        total = np.add.reduceat(weight, starts)
        with np.errstate(all="ignore"):
            means = np.add.reduceat(target * weight, starts, axis=1) / total
            apart = target - np.repeat(means, sizes, axis=1)
            found[which] = np.add.reduceat(np.sum(weight * np.square(apart), axis=0), starts)
    return found

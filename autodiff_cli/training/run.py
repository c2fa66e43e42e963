"""One optimization under way: which method runs, from where, and what has happened so far."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.language.errors import suggest
from autodiff_cli.training.least_squares import levenberg_marquardt
from autodiff_cli.training.loop import Diverged, Epoch, Observer, Outcome, full_batch, mini_batches
from autodiff_cli.training.objective import Objective, OptionError
from autodiff_cli.training.optimizers import OPTIMIZERS
from autodiff_cli.training.quasi_newton import lbfgs
from autodiff_cli.training.starts import Found, search
from autodiff_cli.training.statistics import statistics

Array = NDArray[np.float64]

METHODS = ("auto", "lm", "lbfgs", *OPTIMIZERS)
EPOCHS = 100  # of the gradient methods, where no number is given
LEARNING_RATE = 0.01

_SETTLED = 1e-6  # a gradient method has converged if its last epoch changed the loss by less, relative to it
_POOR = 0.9  # R² below which default starts are not trusted
_PERFECT = 0.999999  # R² above which no other start can help
_CLEARLY = 0.99  # of the loss: the most that another start may leave to be preferred


@dataclass(frozen=True, slots=True)
class Options:
    """How to optimize. See `fit` for what each means.

    Raises:
        OptionError: for values that cannot be.
    """

    optimizer: str = "auto"
    learning_rate: float = LEARNING_RATE
    epochs: int | None = None
    batch_size: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.optimizer not in METHODS:
            close = suggest(self.optimizer, METHODS)
            hint = f"did you mean {close}?" if close else f"there are {', '.join(METHODS)}"
            raise OptionError(f"there is no optimizer {self.optimizer}; {hint}")
        if not 0 < self.learning_rate < math.inf:
            raise OptionError(f"the learning rate must be positive, not {self.learning_rate:g}")
        if self.epochs is not None and self.epochs < 0:
            raise OptionError(f"the number of epochs cannot be negative: {self.epochs}")
        if self.batch_size is not None and self.batch_size < 1:
            raise OptionError(f"a batch has at least one row, not {self.batch_size}")
        if self.seed < 0:
            raise OptionError(f"the seed cannot be negative: {self.seed}")
        if self.batch_size is not None and self.optimizer in ("lm", "lbfgs"):
            raise OptionError(
                f"{self.optimizer} sees all rows at once; mini-batches need one of {', '.join(OPTIMIZERS)}"
            )

    def method(self, objective: Objective) -> str:
        """The optimizer that runs. Raises OptionError if it does not fit the objective."""
        squares = objective.has_target and objective.loss == "mse"
        if self.optimizer == "lm" and not squares:
            raise OptionError(
                "lm minimises squares of residuals: it needs a model `target ~ prediction`, and the loss mse"
            )
        if self.optimizer != "auto":
            return self.optimizer
        if self.batch_size is not None:
            return "adam"
        return "lm" if squares else "lbfgs"


@dataclass(slots=True)
class Run:
    """An optimization.

    Args:
        start: where parameters begin; 1 for those not named.
        observe: is told the start and every epoch.

    Attributes:
        method: the optimizer that runs.
        history: the start and each epoch; begun anew when a better start is found.
        best: the one with the least loss.
        warnings: what happened on the way.
    """

    objective: Objective
    options: Options
    start: Mapping[str, float]
    observe: Observer | None = None
    method: str = field(init=False)
    history: list[Epoch] = field(default_factory=list, init=False)
    best: Epoch | None = field(default=None, init=False)
    warnings: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.method = self.options.method(self.objective)

    def optimize(self) -> Outcome:
        """Run to the end. A divergence is an outcome too, at the parameters before it."""
        theta = np.array([self.start.get(name, 1.0) for name in self.objective.parameters])
        try:
            if self.method == "lm":
                return self._least_squares(theta)
            if self.method == "lbfgs":
                return lbfgs(self.objective, theta, self._record, self.options.epochs)
            return self._descend(theta)
        except Diverged as error:
            if not self.history:
                where = self.objective.where_undefined(theta)
                begun = f"{error}, first {where}" if where else str(error)
                return Outcome(theta, False, f"{begun}: other starting values are needed")
            explained = (
                f"diverged: {error}; the parameters are those of epoch {error.epoch - 1}. "
                f"A smaller learning rate (--lr, now {self.options.learning_rate:g}) may help"
            )
            return Outcome(self.history[-1].theta, False, explained)

    def _descend(self, theta: Array) -> Outcome:
        for epoch in self._epochs(theta):
            self._record(epoch)
        end = self.history[-1]
        before = self.history[-2].loss if len(self.history) > 1 else math.inf
        return Outcome(end.theta, abs(end.loss - before) <= _SETTLED * abs(before))

    def _epochs(self, theta: Array) -> Iterator[Epoch]:
        options = self.options
        rule = OPTIMIZERS[self.method](options.learning_rate)
        epochs = EPOCHS if options.epochs is None else options.epochs
        if options.batch_size is None:
            return full_batch(self.objective, rule, theta, epochs)
        return mini_batches(self.objective, rule, theta, epochs, options.batch_size, options.seed)

    def _least_squares(self, theta: Array) -> Outcome:
        """Levenberg-Marquardt, and again from values found in the data if it ends badly."""
        first: Outcome | Diverged
        try:
            first = levenberg_marquardt(self.objective, theta, self._record, self.options.epochs)
        except Diverged as error:
            first = error
        if isinstance(first, Outcome) and not self._ends_badly(first):
            return first
        given = np.array([name in self.start for name in self.objective.parameters])
        found = search(self.objective, theta, np.ones_like(given) if given.all() else ~given, self.options.seed)
        loss = self.history[-1].loss if self.history else math.inf
        reachable = math.inf if found is None else self.objective.value_and_grad(found.end)[0]
        if found is not None and reachable < _CLEARLY * loss:
            return self._again(found, reachable)
        if isinstance(first, Diverged):
            raise first
        return first

    def _again(self, found: Found, reachable: float) -> Outcome:
        """From a start found in a sample of the rows; from its end, should all of the rows lead elsewhere."""
        values = ", ".join(f"{name} = {value:.4g}" for name, value in self.objective.point(found.start).items())
        self.warnings.append(f"the starting values led to a bad fit; better ones were found in the data: {values}")
        outcome = levenberg_marquardt(self.objective, found.start, self._record, self.options.epochs)
        if self.options.epochs is not None or self.history[-1].loss <= reachable / _CLEARLY:
            return outcome
        return levenberg_marquardt(self.objective, found.end, self._record)

    def _ends_badly(self, outcome: Outcome) -> bool:
        if self.options.epochs is not None:
            return False
        found = statistics(self.objective, outcome.theta)
        explained = found.r_squared
        if found.dof <= 0 or explained is None or explained > _PERFECT:
            return False
        guessed = any(name not in self.start for name in self.objective.parameters)
        return not outcome.converged or bool(found.reasons) or (guessed and explained < _POOR)

    def _record(self, epoch: Epoch) -> None:
        if epoch.number == 0:
            self.history.clear()
            self.best = None
        self.history.append(epoch)
        if self.best is None or epoch.loss < self.best.loss:
            self.best = epoch
        if self.observe is not None:
            self.observe(epoch)

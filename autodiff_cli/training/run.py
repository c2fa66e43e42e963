"""One optimization under way: which method runs, from where, and what has happened so far."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.language.errors import suggest
from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.least_squares import levenberg_marquardt
from autodiff_cli.training.loop import Diverged, Epoch, Observer, Outcome, full_batch, mini_batches
from autodiff_cli.training.objective import Objective
from autodiff_cli.training.optimizers import OPTIMIZERS
from autodiff_cli.training.quasi_newton import lbfgs
from autodiff_cli.training.starts import Found, search
from autodiff_cli.training.statistics import MOST, statistics
from autodiff_cli.training.validation import Exhausted, Validation, standing

Array = NDArray[np.float64]

METHODS = ("auto", "lm", "lbfgs", *OPTIMIZERS)
EPOCHS = 100  # of the gradient methods, where no number is given
LEARNING_RATE = 0.01

_SETTLED = 1e-6  # a gradient method has converged if its last epoch changed the loss by less, relative to it
_POOR = 0.9  # R² below which default starts are not trusted
_PERFECT = 0.999999  # R² above which no other start can help
_MATRIX = 5000  # parameters, at most, of lm
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
        squares = objective.has_residuals and objective.loss == "mse"
        if self.optimizer == "lm" and not squares:
            raise OptionError(
                "lm minimises squares of residuals: it needs a model `target ~ prediction`, and the loss mse"
            )
        if self.optimizer == "lm" and objective.layout.size > _MATRIX:
            raise OptionError(
                f"lm works on a matrix of all pairs of parameters: {objective.layout.size} are too many; try adam"
            )
        if self.optimizer != "auto":
            return self.optimizer
        if self.batch_size is not None or objective.is_network:
            return "adam"
        return "lm" if squares and objective.layout.size <= MOST else "lbfgs"


@dataclass(slots=True)
class Run:
    """An optimization.

    Args:
        observe: is told the start and every epoch.
        validation: judges every epoch, and may end the run.

    Attributes:
        method: the optimizer that runs.
        history: the records of the start and each epoch; begun anew when a better start is found.
        first, last: the epochs at its ends.
        best: the one with the least loss, over the rows held out if there are any.
        warnings: what happened on the way.
    """

    objective: Objective
    options: Options
    observe: Observer | None = None
    validation: Validation | None = None
    method: str = field(init=False)
    history: list[dict[str, float]] = field(default_factory=list, init=False)
    first: Epoch | None = field(default=None, init=False)
    last: Epoch | None = field(default=None, init=False)
    best: Epoch | None = field(default=None, init=False)
    warnings: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.method = self.options.method(self.objective)

    def optimize(self) -> Outcome:
        """Run to the end. A divergence is an outcome too, at the parameters before it."""
        try:
            outcome = self._optimize()
        except Exhausted:
            outcome = Outcome(self._reached.theta, True)
        return outcome if self.validation is None else self._restored(self.validation, outcome)

    def _restored(self, validation: Validation, outcome: Outcome) -> Outcome:
        """The outcome at the epoch that was best for the rows held out, if the fit was to wait for one."""
        best = self.best
        if outcome.failure or not validation.restores or best is None or best is self.last:
            return outcome
        least = f"{standing(best):.6g}"
        self.warnings.append(f"the parameters are those of epoch {best.number}, of the least validation loss: {least}")
        return Outcome(best.theta, outcome.converged)

    def _optimize(self) -> Outcome:
        theta = self.objective.start
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
            return Outcome(self._reached.theta, False, explained)

    def _descend(self, theta: Array) -> Outcome:
        for epoch in self._epochs(theta):
            self._record(epoch)
        loss = self._reached.loss
        before = self.history[-2]["loss"] if len(self.history) > 1 else math.inf
        return Outcome(self._reached.theta, abs(loss - before) <= _SETTLED * abs(before))

    @property
    def _reached(self) -> Epoch:
        assert self.last is not None
        return self.last

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
        found = None
        if self._numbers:
            free = self.objective.layout.mask(self._guessed or self._numbers)
            found = search(self.objective, theta, free, self.options.seed)
        loss = self.last.loss if self.last else math.inf
        reachable = math.inf if found is None else self.objective.value_and_grad(found.end)[0]
        if found is not None and reachable < _CLEARLY * loss:
            return self._again(found, reachable)
        if isinstance(first, Diverged):
            raise first
        return first

    def _again(self, found: Found, reachable: float) -> Outcome:
        """From a start found in a sample of the rows; from its end, should all of the rows lead elsewhere."""
        point = self.objective.point(found.start)
        values = ", ".join(f"{name} = {point[name]:.4g}" for name in self._numbers)
        self.warnings.append(f"the starting values led to a bad fit; better ones were found in the data: {values}")
        outcome = levenberg_marquardt(self.objective, found.start, self._record, self.options.epochs)
        if self.options.epochs is not None or self._reached.loss <= reachable / _CLEARLY:
            return outcome
        return levenberg_marquardt(self.objective, found.end, self._record)

    def _ends_badly(self, outcome: Outcome) -> bool:
        if self.options.epochs is not None:
            return False
        found = statistics(self.objective, outcome.theta)
        explained = found.r_squared
        if found.dof <= 0 or explained is None or explained > _PERFECT:
            return False
        return not outcome.converged or bool(found.reasons) or (bool(self._guessed) and explained < _POOR)

    @property
    def _numbers(self) -> list[str]:
        """The parameters that are numbers, for which other starts can be looked for."""
        return [name for name, shape in self.objective.layout.shapes.items() if not shape]

    @property
    def _guessed(self) -> list[str]:
        """Those of them for which none was given."""
        return [name for name in self._numbers if name not in self.objective.given]

    def _record(self, epoch: Epoch) -> None:
        if epoch.number == 0:
            self.history.clear()
            self.first, self.best = None, None
        if self.validation is not None:
            epoch = self.validation.judged(epoch)
        self.history.append(epoch.record())
        self.first, self.last = self.first or epoch, epoch
        if self.best is None or standing(epoch) < standing(self.best):
            self.best = epoch
        if self.observe is not None:
            self.observe(epoch)
        if self.validation is not None:
            self.validation.check(epoch, self.best)

"""Gradient methods, and the records that every method reports: progress within an epoch, and the outcome.

`GradientMethod` runs an update rule such as Adam, by full or mini-batches, and yields an `Epoch` per pass.
`has_converged` judges its losses. Nothing here knows how progress is displayed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array, Mask
from autodiff_cli.backends.gradient_descent import Stepper, clip_gradient
from autodiff_cli.backends.protocol import OptimizerState, Update
from autodiff_cli.backends.selection import make_backend
from autodiff_cli.training import optimizers
from autodiff_cli.training.checkpoint import CheckpointState
from autodiff_cli.training.objective.objective import Objective

# Called with the numbers of some fits of a batch, the number of the epoch of each, its loss, and its parameters.
BatchCallback = Callable[[NDArray[np.intp], NDArray[np.intp], Array, Array], None]


def ignore_steps(*_: object) -> None:
    """Do nothing: the callback of a batch whose steps are not reported."""


def renumber(on_step: BatchCallback, active: NDArray[np.intp], epoch_counts: NDArray[np.intp]) -> BatchCallback:
    """Return a callback for some fits of a batch, which continues the numbers of their epochs.

    Args:
        on_step: is called with the numbers of the fits in the whole batch. A start is reported only once.
        active: the numbers of these fits in the whole batch.
        epoch_counts: the number of epochs of each fit of the whole batch so far, which the callback keeps up to date.
    """
    counts_before = epoch_counts.copy()

    def report(some: NDArray[np.intp], numbers: NDArray[np.intp], losses: Array, theta: Array) -> None:
        fits = active[some]
        epoch_counts[fits] = counts_before[fits] + numbers
        is_new = (numbers > 0) | (counts_before[fits] == 0)
        if is_new.any():
            on_step(fits[is_new], epoch_counts[fits[is_new]], losses[is_new], theta[is_new])

    return report


def report_single_fit(on_epoch: optimizers.EpochCallback) -> BatchCallback:
    """Return the callback of a batch of one fit, which reports its epochs."""

    def report(_: NDArray[np.intp], numbers: NDArray[np.intp], losses: Array, theta: Array) -> None:
        on_epoch(optimizers.Epoch(int(numbers[0]), float(losses[0]), theta[0].copy()))

    return report


@dataclass(frozen=True, slots=True)
class EpochProgress:
    """The progress within a long epoch.

    Attributes:
        number: the number of the epoch.
        fraction: the share of its rows that were processed.
        loss: the mean loss of the batches so far.
    """

    number: int
    fraction: float
    loss: float


EpochProgressCallback = Callable[[EpochProgress], None]


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """The limits at which the fits of a batch stop, and the criterion of convergence.

    Attributes:
        epochs: the maximum number of steps.
        tolerance: the relative decrease of the loss at which to stop; by default the methods continue to the last
            digits.
        evaluations: the maximum number of evaluations of a fit by Levenberg-Marquardt.
        searches: the number of the search to which each fit by Levenberg-Marquardt belongs, and the lowest sum of
            squares of each search so far. Fits that fall too slowly to reach it stop, since only the lowest end counts.
    """

    epochs: int | None = None
    tolerance: float | None = None
    evaluations: int | None = None
    searches: tuple[NDArray[np.intp], Array] | None = None

    def after(self, epochs: int) -> StoppingRule:
        """Return the rule for the rest of a fit that has taken some steps."""
        return self if self.epochs is None else dataclasses.replace(self, epochs=self.epochs - epochs)


CONVERGENCE = StoppingRule()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of an optimization.

    Attributes:
        theta: the parameters at the end, of shape (P,).
        converged: whether it stopped because no further improvement was possible.
        failure: why it stopped, if neither by convergence nor after the requested number of epochs; else empty.
        is_unbounded: whether it stopped because the loss decreases without bound.
        is_stuck: whether it stopped at a point that is not a minimum, although no lower point was found.
        note: a remark about the point where it converged.
        kinks: the indices of the parameters that end at a kink of the loss.
        divergence: the error if the loss or its derivatives at the start, `theta`, are not finite.
    """

    theta: Array
    converged: bool
    failure: str = ""
    is_unbounded: bool = False
    is_stuck: bool = False
    note: str = ""
    kinks: tuple[int, ...] = ()
    divergence: Diverged | None = None

    @classmethod
    def of_undefined_start(cls, start: Array, loss: float) -> Outcome:
        """Return the outcome of a fit that could not begin."""
        error = Diverged(0, loss, start)
        return cls(start, False, str(error), divergence=error)


class RunawayDetector:
    """Recognises fits whose parameters run to infinity or to 0, so that they have no minimum, by their paths.

    A path is examined whenever the number of steps has doubled. On the way to infinity, parameters change by a factor
    with every doubling, while the loss falls ever less, but does not come to rest.

    Args:
        start: the starting points, of shape (fits, P).
    """

    STEPS_PER_PARAMETER = 48  # steps before the first verdict, for each parameter and one more
    GROWTH = 2.0  # least factor by which a parameter changes while the number of steps doubles, twice
    MOST_FALL = 0.1  # decrease of the loss meanwhile, relative to its size, above which a fit may still turn
    LEAST_FALL = 1e-6  # the same, below which a fit is about to converge, unless parameters run to infinity
    REASON = "the loss falls ever more slowly, as if it had no minimum, while parameters run to infinity or to 0"

    def __init__(self, start: Array) -> None:
        count, size = start.shape
        self._origin = np.log(np.where(start != 0, np.abs(start), 1.0))
        self._next = np.full(count, self.STEPS_PER_PARAMETER * (size + 1) // 4)
        self._logs, self._losses = np.full((3, count, size), np.nan), np.full((3, count), np.nan)
        self.is_found = np.zeros(count, np.bool_)

    def examine(
        self, fits: NDArray[np.intp], steps: NDArray[np.intp], losses: Array, theta: Array, unit: Array
    ) -> Mask:
        """Return the mask of the fits whose parameters run away.

        Args:
            steps: the numbers of steps so far.
            unit: the size of each loss.
        """
        due = np.flatnonzero(steps == self._next[fits])
        if len(due):
            some = fits[due]
            self._next[some] *= 2
            self._logs[:, some] = [*self._logs[1:, some], np.log(np.abs(theta[due]))]
            self._losses[:, some] = [*self._losses[1:, some], losses[due]]
            growth = np.diff(self._logs[:, some], axis=0)
            moves = growth * np.sign(self._logs[-1, some] - self._origin[some])
            runs, runs_up = np.any(np.stack((moves, growth)).min(axis=1) > math.log(self.GROWTH), axis=2)
            first, second = -np.diff(self._losses[:, some], axis=0)
            is_slower = (second > 0) & (second < np.fmin(first, self.MOST_FALL * unit[due]))
            self.is_found[some] = is_slower & runs & (runs_up | (second > self.LEAST_FALL * unit[due]))
        return self.is_found[fits]


class Diverged(ArithmeticError):  # noqa: N818 - named after the event
    """A loss that is nan or infinite, or has such a derivative.

    Attributes:
        epoch: the epoch in which it occurred; 0 at the start.
        theta: the parameters there.
    """

    def __init__(self, epoch: int, loss: float, theta: Array) -> None:
        problem = "a derivative is not finite" if math.isfinite(loss) else f"the loss is {loss}"
        super().__init__(f"{problem} {f'in epoch {epoch}' if epoch else 'at the start'}")
        self.epoch = epoch
        self.theta = theta


class GradientConvergenceSettings(NamedTuple):
    """Criteria for the convergence of gradient methods."""

    tolerance: float = 1e-6  # predicted further change relative to the loss
    patience_epochs: int = 10  # losses are compared over this many epochs
    window_share: float = 0.1  # share of the epochs over which losses are compared, if these are more
    scatter_sigmas: float = 4.0  # range of as many losses that only scatter, in standard deviations


GRADIENT_CONVERGENCE = GradientConvergenceSettings()


def has_converged(losses: Sequence[float]) -> bool:
    """Whether a gradient method has little more to gain relative to its loss, judged by a window of its last losses.

    If the losses change as a geometric series, the changes in the two halves of the window determine how much is left.
    They may rise if the scale of the loss is estimated along. A small last step alone proves nothing, because a small
    learning rate makes all steps small.

    >>> has_converged([1 + 0.5**k for k in range(20)]), has_converged([1 + 0.5**k for k in range(40)])
    (False, True)
    >>> has_converged([100.0, *(1 - 0.002 * k for k in range(40))])
    False
    """
    window = max(GRADIENT_CONVERGENCE.patience_epochs, round(GRADIENT_CONVERGENCE.window_share * len(losses)))
    if len(losses) <= window:
        return False
    before, middle, last = losses[-window - 1], losses[-window // 2 - 1], losses[-1]
    previous_fall, last_fall = before - middle, middle - last
    if previous_fall * last_fall < 0:  # the loss scatters about its limit
        remaining = max(abs(previous_fall), abs(last_fall))
    elif abs(last_fall) < abs(previous_fall):
        remaining = last_fall * last_fall / abs(previous_fall - last_fall)
    else:
        return last_fall == previous_fall == 0
    return remaining <= GRADIENT_CONVERGENCE.tolerance * abs(last)


def has_plateaued(losses: Sequence[float], tolerance: float, *, drawn: bool) -> bool:
    """Whether the loss has not changed by more than `tolerance` (relative) for 10 epochs.

    Args:
        losses: the loss of each epoch.
        tolerance: the relative change below which a loss counts as unchanged.
        drawn: whether batches are random. Then losses that only scatter count as unchanged, too.

    >>> has_plateaued([1.0, *[0.5]*9], 1e-3, drawn=False), has_plateaued([1.0, *[0.5]*10], 1e-3, drawn=False)
    (False, True)
    """
    last = np.array(losses[-GRADIENT_CONVERGENCE.patience_epochs :])
    if len(last) < GRADIENT_CONVERGENCE.patience_epochs:
        return False
    scatter = math.sqrt(float(np.mean(np.square(np.diff(last, 2)))) / 6) if drawn else 0.0
    return float(np.ptp(last)) <= max(
        tolerance * abs(float(np.mean(last))), GRADIENT_CONVERGENCE.scatter_sigmas * scatter
    )


@dataclass
class GradientMethod:
    """A gradient method under way.

    Attributes:
        objective: the objective to be minimised.
        update: the update rule of a step, which is projected onto the bounds if there are any.
        rates: the learning rate of each epoch.
        batch_size: the number of rows per step, drawn anew in each epoch; None for all rows.
        clip_norm: the norm to which a longer gradient is scaled down.
        seed: the seed of the generator that draws the batches.
        on_progress: is called from time to time during a long epoch.
        scale_at: estimates the scale of the loss at a point; None to keep the scale.
        state: the state of the update rule; with `generator` it determines how the fit continues.
        number: the number of epochs passed.
    """

    objective: Objective
    update: Update
    rates: optimizers.LearningRateSchedule
    batch_size: int | None = None
    clip_norm: float | None = None
    seed: int = 0
    on_progress: EpochProgressCallback | None = None
    scale_at: Callable[[Array], float] | None = None
    number: int = 0
    _resumed_loss: float | None = None  # loss of the epoch from which the fit resumes

    def __post_init__(self) -> None:
        if self.objective.has_relative_gradients:
            self._estimate_scale(self.objective.start)
            self.update = optimizers.divide_gradients(self.update, self.objective.value(self.objective.start))
        self.update, self.state = _initial_state(self.objective, self.update)
        self.generator = np.random.default_rng(self.seed)

    def checkpoint_state(self) -> CheckpointState:
        """Return the state of the method that a checkpoint stores."""
        return CheckpointState(0, self.state.values.copy(), self.state.step_count, self.generator.bit_generator.state)

    def resume(self, checkpoint: CheckpointState) -> None:
        """Continue from a checkpoint of the same fit, whose last epoch is the first to be reported."""
        assert checkpoint.optimizer_values is not None
        assert checkpoint.generator_state is not None
        self.state.values[...] = checkpoint.optimizer_values
        self.state.step_count = checkpoint.step_count
        self.generator.bit_generator.state = checkpoint.generator_state
        self.number, self._resumed_loss = int(checkpoint.history[-1, 0]), float(checkpoint.history[-1, 1])

    def epochs(self, losses: Sequence[float]) -> Iterator[optimizers.Epoch]:
        """Yield the start (or the epoch from which the method resumes) and every epoch after it. Raises Diverged.

        Args:
            losses: the losses of all epochs so far, a growing list, for schedules that depend on them.
        """
        self._estimate_scale(self.state.theta)
        return self._by_epoch(losses) if self.batch_size is None else self._by_batch(self.batch_size, losses)

    def _by_epoch(self, losses: Sequence[float]) -> Iterator[optimizers.Epoch]:
        """Take one step per epoch, with the gradient over all rows."""
        state, stepper = self.state, Stepper(make_backend(), self.update)
        loss, gradient = self.objective.value_and_grad(state.theta)
        yield self._current_epoch(loss)
        while self.number < self.rates.epochs:
            rate = self.rates.rate(self.number + 1, losses)
            stepper.step(state, rate, clip_gradient(gradient, self.clip_norm))
            self._estimate_scale(self.state.theta)
            loss, gradient = self.objective.value_and_grad(state.theta)
            self.number += 1
            yield self._current_epoch(loss)

    def _by_batch(self, size: int, losses: Sequence[float]) -> Iterator[optimizers.Epoch]:
        """Take one step per batch."""
        run = self.objective.epoch_runner(self.update, self.clip_norm)
        yield self._current_epoch(
            self.objective.value(self.state.theta) if self._resumed_loss is None else self._resumed_loss
        )
        while self.number < self.rates.epochs:
            rate = self.rates.rate(self.number + 1, losses)
            loss = run(self.state, rate, size, self.generator, None if self.on_progress is None else self._report)
            self._estimate_scale(self.state.theta)
            self.number += 1
            yield self._current_epoch(loss)

    def _estimate_scale(self, theta: Array) -> None:
        """Set the scale of the loss to its estimate at a point; a scale of 0 is not used."""
        if self.scale_at is not None and (scale := self.scale_at(theta)) > 0:
            self.objective.set_scale(scale)

    def _report(self, fraction: float, loss: float) -> None:
        assert self.on_progress is not None
        self.on_progress(EpochProgress(self.number + 1, fraction, loss))

    def _current_epoch(self, loss: float) -> optimizers.Epoch:
        epoch = optimizers.Epoch(self.number, loss, self.state.theta.copy())
        if not (math.isfinite(epoch.loss) and np.isfinite(epoch.theta).all()):
            raise Diverged(epoch.number, epoch.loss, epoch.theta)
        return epoch


def _initial_state(objective: Objective, update: Update) -> tuple[Update, OptimizerState]:
    """Return the update rule, projected onto the bounds if there are any, and the state before the first step."""
    bounds = objective.bounds
    if not bounds.has_bounds:
        return update, OptimizerState.initial(objective.start, update)
    update = optimizers.project_onto_bounds(update)
    state = OptimizerState.initial(objective.start, update)
    names = [*update.accumulators]
    state.values[1 + names.index(optimizers.LOWER_BOUND)] = bounds.low
    state.values[1 + names.index(optimizers.UPPER_BOUND)] = bounds.high
    return update, state

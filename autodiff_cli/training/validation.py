"""Rows held out of a fit, which say how well it does on data that it has not seen, and when to stop."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.data.table import DataError
from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.methods.loop import Epoch
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.result.accuracy import accuracy
from autodiff_cli.training.rows.protocol import Columns

Array = NDArray[np.float64]

_SHUFFLED = 2**20  # rows, at most, that are drawn by shuffling all
_BLOCK = 65_536
_MOST = 10**9  # rows that NumPy draws so from


def split(objective: Objective, fraction: float, seed: int) -> tuple[Objective, Objective]:
    """The objective over the rows to fit, and over those held out: a share of them, drawn at random.

    Raises:
        OptionError: if either would have no row.
        DataError: if a class is in rows held out only, so that the fit would never see it.
    """
    held = round(fraction * objective.rows)
    if not 0 < held < objective.rows:
        raise OptionError(f"validation: a fraction of {fraction:g} of {objective.rows} rows leaves one part empty")
    mask = _drawn(np.random.default_rng(seed), objective.rows, held)
    held_out = objective.restricted(mask)
    fitted = objective.restricted(np.logical_not(mask, out=mask))  # what was chosen keeps bits of its own, or rows
    _check_classes(fitted, held_out)
    return fitted, held_out


def _drawn(generator: np.random.Generator, rows: int, count: int) -> NDArray[np.bool_]:
    """So many of the rows, every set of them as likely as any other. Of many rows, block by block."""
    mask = np.zeros(rows, dtype=np.bool_)
    if rows <= _SHUFFLED:
        mask[generator.permutation(rows)[:count]] = True
        return mask
    if rows >= _MOST:
        raise OptionError(f"validation: rows are held out of fewer than {_MOST:.0e}, and these are {rows}")
    for start in range(0, rows, _BLOCK):
        size = min(_BLOCK, rows - start)
        own = int(generator.hypergeometric(count, rows - start - count, size))
        mask[start : start + size][generator.permutation(size)[:own]] = True
        count -= own
    return mask


def _check_classes(fitted: Objective, held_out: Objective) -> None:
    column = fitted.model.class_column
    if fitted.classes is None or column is None:
        return
    held, seen = (part.fold_columns({column}, Values(column), np.union1d) for part in (held_out, fitted))
    unseen = np.setdiff1d(held, seen)
    for code in unseen[:1]:
        raise DataError(
            f"column `{column}`: every row of the class {fitted.classes[int(code)]} is held out of the fit, "
            "which would never see it; a smaller fraction or another seed may help"
        )


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a column that occur in a block."""

    name: str

    def __call__(self, columns: Columns) -> Array:
        """Of a block, sorted."""
        return np.unique(columns[self.name])


class Exhausted(Exception):  # noqa: N818 - what happened
    """The validation loss has not fallen for as many epochs as patience allows."""


class Validation:
    """Judges epochs by rows that the fit does not see.

    Args:
        objective: over the rows held out.
        patience: how many epochs may pass without a new least loss; None for any number.
        min_delta: how far below the last one a new one lies, at least.
    """

    def __init__(self, objective: Objective, patience: int | None = None, min_delta: float = 0.0) -> None:
        self.objective = objective.without_penalty()
        self._patience = patience
        self._min_delta = min_delta
        self._mark = 0, math.inf  # the epoch that patience counts from, and its loss

    def judged(self, epoch: Epoch) -> Epoch:
        """The epoch, with its loss over the rows held out."""
        return dataclasses.replace(epoch, validation_loss=self.objective.value(epoch.theta))

    def check(self, epoch: Epoch) -> None:
        """Raise Exhausted if the loss has not fallen for too many epochs, of which this is the last."""
        self.remember(epoch)
        if self._patience is not None and epoch.number - self._mark[0] >= self._patience:
            raise Exhausted

    def remember(self, epoch: Epoch) -> None:
        """Take note of an epoch."""
        loss = standing(epoch)
        if epoch.number == 0 or loss < self._mark[1] - self._min_delta:
            self._mark = epoch.number, loss

    def figures(self, theta: Array) -> dict[str, Any]:
        """What a fit that ended at `theta` says of the rows held out, by the names of its attributes."""
        objective = self.objective
        return {
            "validation_rows": objective.rows,
            "validation_loss": objective.value(theta),
            "validation_accuracy": accuracy(objective, theta),
        }

    @property
    def restores(self) -> bool:
        """Whether a fit ends with the parameters of the epoch that was best."""
        return self._patience is not None


def standing(epoch: Epoch) -> float:
    """What epochs are compared by: the validation loss where there is one, else the loss; infinite for nan."""
    loss = epoch.loss if epoch.validation_loss is None else epoch.validation_loss
    return math.inf if math.isnan(loss) else loss

"""What makes a fit the one that it is: with all of this the same, it goes the same way, to the last bit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.keeping.checkpoint import CheckpointFile, Kept, read
from autodiff_cli.training.keeping.keeper import Keeper
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.options import EPOCHS, LEARNING_RATE, Options
from autodiff_cli.training.rows.protocol import Columns


def identity(objective: Objective, method: str, options: Options) -> dict[str, Any]:
    """What a fit is, by names for people; JSON can say all of the values.

    The number of epochs is not part of it, nor is what computes, nor what is reported.

    Args:
        objective: over all rows, those held out too.
    """
    how, loss = options.method, options.loss
    rate = how.learning_rate
    bounds = objective.bounds
    return {
        "model": objective.model.text,
        "optimizer": method,
        "data": objective.fold_columns(objective.data.names, digest_of_rows, digest_of_two),
        "fixed parameters": {name: np.asarray(value).tolist() for name, value in objective.fixed.items()},
        "start": digest([objective.start, bounds.low, bounds.high]),
        "loss": objective.loss,
        "scale": loss.scale,
        "huber_delta": loss.huber_delta,
        "l1": loss.l1,
        "l2": loss.l2,
        "learning rate": LEARNING_RATE if rate is None else rate,
        "lr_schedule": how.lr_schedule,
        "clip_norm": how.clip_norm,
        "tolerance": how.tolerance,
        "batch size": how.batch_size,
        "seed": how.seed,
        "validation": options.validation.validation,
    }


def kept_by(options: Options, objective: Objective, method: str) -> tuple[Keeper | None, Kept | None]:
    """What keeps a fit under way, and the checkpoint that it goes on from; None each if that was not asked for.

    Args:
        objective: over all rows, those held out too.

    Raises:
        CheckpointError, OptionError, OSError: see `fit`.
    """
    keeping = options.keeping
    if keeping.checkpoint is None and keeping.resume is None:
        return None, None
    itself = identity(objective, method, options)
    kept = None if keeping.resume is None else read(keeping.resume, itself)
    epochs = EPOCHS if options.method.epochs is None else options.method.epochs
    if kept is not None and len(kept.history) > epochs + 1:
        passed = len(kept.history) - 1
        raise OptionError(f"{keeping.resume} is of epoch {passed} already; epochs, here {epochs}, is the number in all")
    if keeping.checkpoint is None:
        return None, kept
    return Keeper(CheckpointFile(keeping.checkpoint), keeping.checkpoint_every, itself), kept


def digest_of_rows(columns: Columns) -> str:
    """That of some rows of columns, the same whatever type of number they have."""
    return digest(np.asarray(column, np.float64) for _, column in sorted(columns.items()))


def digest_of_two(a: str, b: str) -> str:
    """That of rows and of rows after them."""
    return hashlib.blake2b((a + b).encode(), digest_size=16).hexdigest()


def digest(arrays: Iterable[Any]) -> str:
    """A text that differs where a bit of an array does.

    >>> digest([np.zeros(3)]) == digest([np.zeros(3)]), digest([np.zeros(3)]) == digest([np.zeros(2)])
    (True, False)
    """
    found = hashlib.blake2b(digest_size=16)
    for array in arrays:
        found.update(repr(np.shape(array)).encode())
        found.update(np.ascontiguousarray(array, dtype=np.float64).data)
    return found.hexdigest()

"""When a fit under way is kept: in a file, now and then, and at its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from autodiff_cli.training.keeping.checkpoint import CheckpointError, CheckpointFile, Kept

_PAUSE = 1.0  # seconds between two checkpoints, at least, where no number of epochs is given


class Keeper:
    """Writes checkpoints of a fit.

    A checkpoint that cannot be written leaves the one before, and the fit goes on.

    Args:
        file: is written to.
        every: after how many epochs; None for at most once a second.
        identity: of the fit.

    Attributes:
        failure: why the last checkpoint was not written, in words; else empty.
    """

    def __init__(
        self,
        file: CheckpointFile,
        every: int | None,
        identity: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file = file
        self._every = every
        self._identity = identity
        self._clock = clock
        self._next = -1.0
        self._waiting: Callable[[], Kept] | None = None
        self._has_begun = False
        self.failure = ""

    def passed(self, number: int, kept: Callable[[], Kept]) -> None:
        """An epoch has passed. Raises OSError or CheckpointError if the first checkpoint cannot be written."""
        self._waiting = kept
        is_due = self._clock() >= self._next if self._every is None else number % self._every == 0
        if is_due or not self._has_begun:
            self._write()

    def end(self) -> None:
        """Keep what the last epoch left, if that was not done, and let others have the file."""
        if self._waiting is not None:
            self._write()
        self._file.close()

    def _write(self) -> None:
        assert self._waiting is not None
        try:
            self._file.write(self._identity, self._waiting())
        except (OSError, CheckpointError) as error:
            if not self._has_begun:
                raise
            reason = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
            self.failure = f"the checkpoint {self._file.path} was not written to the end: {reason}"
        else:
            self._waiting, self.failure = None, ""
        self._has_begun = True
        self._next = self._clock() + _PAUSE

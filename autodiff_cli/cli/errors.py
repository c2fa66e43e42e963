"""How a command ends, and the errors that it ends with."""

from __future__ import annotations

import enum


class ExitStatus(enum.IntEnum):
    """The statuses of the process. Scripts rely on them."""

    DONE = 0
    FAILED = 1  # ran, and failed: diverged, a file that could not be written
    BAD_INPUT = 2  # syntax, an unknown name, a missing value, an unreadable file, a bad option
    INTERRUPTED = 130


class BadInput(Exception):  # noqa: N818 - what it is, not that it is an error
    """Something the user gave cannot be used. The message names the thing and says what to do."""


class Failure(Exception):  # noqa: N818
    """The command ran and failed. What is known of the result has been written already."""

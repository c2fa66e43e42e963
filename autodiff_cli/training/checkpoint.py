"""Checkpoints: the state of a running fit on disk, from which an interrupted fit resumes bit for bit.

A checkpoint is an archive of NumPy arrays (`.npz`) with a JSON header among them. The header states which program wrote
it, which fit it belongs to, and the state of the random generator; the arrays hold all numbers exactly. Reading a
checkpoint executes nothing, and a hash over the content detects damage. A new file is written beside the old one and
then replaces it, so the file is complete at any moment.

`CheckpointFile` writes one checkpoint, `CheckpointWriter` decides when to write. `EvaluationLog` remembers evaluations
of the objective: deterministic methods without a state of their own, and chains, resume by running again over the
remembered values.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import json
import math
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array
from autodiff_cli.data.json_records import parse_json
from autodiff_cli.data.table import DataError
from autodiff_cli.system import error_reason
from autodiff_cli.version import __version__

try:
    import fcntl
except ImportError:  # without file locks, `_check_sole_writer` alone detects a second run
    fcntl = None  # type: ignore[assignment]


CHECKPOINT_FORMAT = "autodiff checkpoint"
CHECKPOINT_VERSION = 4  # version of the file format


class CheckpointError(DataError):
    """A file that is not a checkpoint, or not one of this fit; the message says why and what to do.

    >>> import autodiff_cli as ad
    >>> ad.fit("y ~ a*x", {"x": [1, 2], "y": [1, 2]}, resume="nowhere")
    Traceback (most recent call last):
        ...
    autodiff_cli.training.checkpoint.CheckpointError: nowhere: no such file or directory
    """


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """The state of a fit after an epoch: everything that determines how it continues.

    Attributes:
        reported_epochs: the number of epochs that were reported, including the start. Restarts count again.
        optimizer_values, step_count, generator_state: the state of a gradient method; see `OptimizerState`.
        history: number, loss and validation loss (nan for none) of each epoch, of shape (epochs, 3).
        first_theta: the parameters at the start.
        best_theta, best_number: the parameters of the best epoch, and its number.
        evaluations: the results of an `EvaluationLog`, for methods that resume by running again.
    """

    reported_epochs: int
    optimizer_values: Array | None = None
    step_count: int = 0
    generator_state: Mapping[str, Any] | None = None
    history: Array = field(default_factory=lambda: np.empty((0, 3)))
    first_theta: Array = field(default_factory=lambda: np.empty(0))
    best_theta: Array = field(default_factory=lambda: np.empty(0))
    best_number: int = 0
    evaluations: dict[bytes, Array] = field(default_factory=dict)


def read_checkpoint(path: str | os.PathLike[str], identity: Mapping[str, Any]) -> CheckpointState:
    """Read a checkpoint and check that it belongs to this fit.

    Args:
        identity: the properties that identify the fit; see `fit_identity`.

    Raises:
        CheckpointError: if the file is missing or damaged, or belongs to another fit or another version of the program.
    """
    try:
        with Path(path).open("rb") as stream:
            head, arrays = _read_archive(stream, path)
    except OSError as error:
        raise CheckpointError(f"{path}: {error_reason(error)}") from None
    if head.get("version") != CHECKPOINT_VERSION or head.get("autodiff") != __version__:
        raise CheckpointError(
            f"{path}: written by autodiff {head.get('autodiff')}; this is {__version__}, which may give other results. "
            "Finish the fit with the version that began it, or start again"
        )
    if arrays.pop("hash", np.empty(0)).tobytes() != _content_hash(arrays):
        raise CheckpointError(f"{path}: {_DAMAGED_MESSAGE}")
    del arrays["head"]
    for name, expected in json.loads(json.dumps(identity)).items():  # lists, as those that are stored, for tuples
        stored = head["identity"].get(name)
        if stored != expected:
            words = "" if name in _DIGEST_KEYS else f": {_abbreviate(stored)} there, {_abbreviate(expected)} here"
            raise CheckpointError(f"{path}: the checkpoint belongs to another fit; it differs in its {name}{words}")
    return _state_from_archive(head, arrays)


_DAMAGED_MESSAGE = "damaged or truncated; use an earlier copy"
_DIGEST_KEYS = ("data", "bounds or start")  # only their digests are stored, which readers cannot interpret


def _abbreviate(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"`{text}`" if len(text) <= 60 else f"`{text[:59]}…`"


def _read_archive(stream: IO[bytes], path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    try:
        with np.load(stream, allow_pickle=False) as archive:
            if any(entry.compress_type for entry in archive.zip.infolist()):
                raise ValueError("packed: it may be of any length")
            arrays = {name: archive[name] for name in archive.files}
        head = parse_json(arrays["head"].tobytes())
    except (OSError, MemoryError):
        raise
    except Exception as error:  # NumPy and zipfile raise many types for bytes that are not a valid archive
        begins_well = _has_zip_header(stream)
        raise CheckpointError(f"{path}: {_DAMAGED_MESSAGE if begins_well else 'not a checkpoint'}") from error
    if (
        not isinstance(head, dict)
        or head.get("format") != CHECKPOINT_FORMAT
        or not isinstance(head.get("identity"), dict)
    ):
        raise CheckpointError(f"{path}: not a checkpoint; `train --checkpoint` writes one")
    return head, arrays


def _content_hash(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    digest = hashlib.blake2b()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.digest()


def _has_zip_header(stream: IO[bytes]) -> bool:
    stream.seek(0)
    return stream.read(4) == b"PK\x03\x04"


def _state_from_archive(head: Mapping[str, Any], arrays: dict[str, Array]) -> CheckpointState:
    shapes, keys = head["shapes"], arrays.pop("keys").tobytes()
    results = np.split(arrays.pop("evaluations"), np.cumsum([math.prod(shape) for shape in shapes], dtype=np.intp))
    evaluations = {
        keys[_KEY_BYTES * k :][:_KEY_BYTES]: result.reshape(shape)
        for k, (result, shape) in enumerate(zip(results, shapes, strict=False))
    }
    values: dict[str, Any] = {**head["state"], **arrays}
    return CheckpointState(**values, evaluations=evaluations)


def _archive_from_state(identity: Mapping[str, Any], state: CheckpointState) -> dict[str, NDArray[Any]]:
    values = {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
    evaluations = values.pop("evaluations")
    head = {
        "format": CHECKPOINT_FORMAT,
        "version": CHECKPOINT_VERSION,
        "autodiff": __version__,
        "identity": dict(identity),
        "state": {name: value for name, value in values.items() if not isinstance(value, np.ndarray)},
        "shapes": [result.shape for result in evaluations.values()],
    }
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    arrays["evaluations"] = np.concatenate([np.empty(0), *(result.ravel() for result in evaluations.values())])
    arrays["keys"] = np.frombuffer(b"".join(evaluations), np.uint8)
    arrays["head"] = np.frombuffer(json.dumps(head).encode(), np.uint8)
    arrays["hash"] = np.frombuffer(_content_hash(arrays), np.uint8)
    return arrays


class CheckpointFile:
    """A file to which a single run writes checkpoints.

    The run holds a lock on the file that it wrote last. A run that finds the file locked, or replaced by another file,
    reports that two runs write to it.

    Raises:
        CheckpointError: if the file exists and is not a checkpoint, or if another run writes it.
        OSError: if the file cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        self._target = Path(os.path.realpath(path))
        self._descriptor: int | None = None  # has the lock of the file, where there are locks
        self._status: os.stat_result | None = None  # of the file, which no other run must replace
        self._lock = threading.Lock()  # chains write from threads of their own
        with contextlib.suppress(FileNotFoundError):
            mode = self._target.stat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise CheckpointError(f"{path}: not a regular file, so a checkpoint cannot replace it")
            self._descriptor = os.open(self._target, os.O_RDWR | getattr(os, "O_BINARY", 0))
            with open(self._descriptor, "rb", closefd=False) as stream:
                # An empty file may have been created to reserve the name.
                if os.fstat(self._descriptor).st_size and not _has_zip_header(stream):
                    raise CheckpointError(f"{path}: the file exists and is not a checkpoint; it is not overwritten")
            self._status = os.fstat(self._descriptor)
            self._descriptor = self._locked(self._descriptor)

    def write(self, identity: Mapping[str, Any], state: CheckpointState) -> None:
        """Replace the file atomically by a new checkpoint.

        Raises OSError; CheckpointError if another run writes it too.
        """
        part = self._target.with_name(f".{secrets.token_hex(8)}.part")
        with self._lock:
            try:
                with part.open("xb") as stream:
                    np.savez(stream, **_archive_from_state(identity, state))  # type: ignore[arg-type]
                    stream.flush()
                    os.fsync(stream.fileno())
                    status, descriptor = os.fstat(stream.fileno()), os.dup(stream.fileno())
                lock = self._locked(descriptor)
                self._check_sole_writer()
                part.replace(self._target)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
            self.close()
            self._descriptor, self._status = lock, status

    def close(self) -> None:
        """Release the lock, so that another run can write the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _check_sole_writer(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            current = os.stat(self._target)
            if self._status is None or not os.path.samestat(current, self._status):
                raise self._contested_error()

    def _locked(self, file: int) -> int | None:
        """Lock an open file and return its descriptor; close it where there are no locks: Windows renames no open file.

        Raises CheckpointError if another run has the lock.
        """
        if fcntl is None:
            os.close(file)
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise self._contested_error() from None
            # A file system without locks: see `_check_sole_writer`.
        return file

    def _contested_error(self) -> CheckpointError:
        return CheckpointError(f"{self.path}: another run writes this checkpoint too; give each run its own file")


_MIN_INTERVAL_SECONDS = 1.0  # seconds between two checkpoints, so that writing does not slow the fit


class CheckpointWriter:
    """Decides when a running fit writes a checkpoint.

    If a checkpoint cannot be written, the previous one stays in place and the fit continues.

    Args:
        file: the file to write.
        every: the number of epochs between checkpoints; None for at most one per second.
        identity: the properties that identify the fit.

    Attributes:
        failure: why the last checkpoint could not be written, in words; empty if it was.
    """

    def __init__(self, file: CheckpointFile, every: int | None, identity: Mapping[str, Any]) -> None:
        self._file = file
        self._every = every
        self._identity = identity
        self._next_time = -1.0
        self._pending_state: Callable[[], CheckpointState] | None = None
        self._has_written = False
        self.failure = ""

    def on_epoch(self, number: int, state: Callable[[], CheckpointState]) -> None:
        """Write a checkpoint after an epoch if one is due.

        Args:
            number: the number of the epoch.
            state: returns the state after the epoch; it is called only when a checkpoint is written.

        Raises:
            OSError, CheckpointError: if the first checkpoint cannot be written.
        """
        self._pending_state = state
        is_due = time.monotonic() >= self._next_time if self._every is None else number % self._every == 0
        if is_due or not self._has_written:
            self._write()

    def close(self) -> None:
        """Write the state after the last epoch if that was not done yet, and release the file."""
        if self._pending_state is not None:
            self._write()
        self._file.close()

    def _write(self) -> None:
        assert self._pending_state is not None
        try:
            self._file.write(self._identity, self._pending_state())
        except (OSError, CheckpointError) as error:
            if not self._has_written:
                raise
            self.failure = f"the checkpoint {self._file.path} could not be written: {error_reason(error)}"
        else:
            self._pending_state, self.failure = None, ""
        self._has_written = True
        self._next_time = time.monotonic() + _MIN_INTERVAL_SECONDS


_MAX_LOGGED_NUMBERS = 2**23  # 64 MB of doubles; evaluations beyond that are computed again on resuming
_KEY_BYTES = 16  # bytes of the digest of a point


class EvaluationLog:
    """A record of evaluations, from which a deterministic method, or a chain with the same seed, resumes by running
    again: known results are returned without being computed.

    Results are stored by their points, because chains run concurrently, in no fixed order.

    Attributes:
        results: the result of each evaluation, by a digest of its point.

    >>> log = EvaluationLog()
    >>> first = log.evaluate(b"1", lambda: np.array([2.0]))
    >>> again = EvaluationLog(log.results)
    >>> again.evaluate(b"1", lambda: np.array([3.0])), again.evaluate(b"2", lambda: np.array([3.0]))
    (array([2.]), array([3.]))
    """

    def __init__(self, results: Mapping[bytes, Array] | None = None) -> None:
        self.results = dict(results or {})
        self._size = sum(result.size for result in self.results.values())

    def evaluate(self, point: bytes, compute: Callable[[], Array]) -> Array:
        """Return the result at a point, from the record or computed. The caller may modify it."""
        key = hashlib.blake2b(point, digest_size=_KEY_BYTES).digest()
        if (stored := self.results.get(key)) is not None:
            return stored.copy()
        result = compute()
        if self._size + result.size <= _MAX_LOGGED_NUMBERS:
            self._size += result.size
            self.results[key] = result.copy()
        return result

"""Checkpoints on disk: an archive of NumPy arrays (`.npz`), with a text in JSON among them.

The text says what wrote it, of which fit it is, and how the generator stands; the arrays are numbers to the last bit.
Nothing in it is run when it is read, and a hash of the whole tells whether it is what was written. A file is written
beside the old one and takes its place as a whole.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.data.table import DataError
from autodiff_cli.version import __version__

try:
    import fcntl
except ImportError:  # where files have no such locks, two runs are told apart by what they wrote alone
    fcntl = None  # type: ignore[assignment]

Array = NDArray[np.float64]

FORMAT = "autodiff checkpoint"
VERSION = 2


class CheckpointError(DataError):
    """A file that is no checkpoint, or not one of this fit; the message says why, and what to do.

    >>> import autodiff_cli as ad
    >>> ad.fit("y ~ a*x", {"x": [1, 2], "y": [1, 2]}, resume="nowhere")
    Traceback (most recent call last):
        ...
    autodiff_cli.training.keeping.checkpoint.CheckpointError: nowhere: no such file or directory
    """


@dataclass(frozen=True, slots=True)
class Kept:
    """How a fit stands after an epoch: all that decides how it goes on.

    Attributes:
        told: how many epochs were told of, the start among them, anew where it began anew.
        numbers, steps, generator: where a gradient method stands: see `State`.
        history: the number, the loss and the validation loss (nan for none) of each epoch: of shape (told, 3).
        first, best: the parameters of these epochs, and the number of the latter.
        answers: see `Answers`; of methods that run again over them.
    """

    told: int
    numbers: Array | None = None
    steps: int = 0
    generator: Mapping[str, Any] | None = None
    history: Array = field(default_factory=lambda: np.empty((0, 3)))
    first: Array = field(default_factory=lambda: np.empty(0))
    best: Array = field(default_factory=lambda: np.empty(0))
    best_number: int = 0
    answers: list[tuple[int, Array]] = field(default_factory=list)


def read(path: str | os.PathLike[str], identity: Mapping[str, Any]) -> Kept:
    """The checkpoint of a fit.

    Args:
        identity: what the fit is, by names for people: see `identity`.

    Raises:
        CheckpointError: if it is not there, is damaged, or is that of another fit or program.
    """
    try:
        with Path(path).open("rb") as stream:
            head, arrays = _opened(stream, path)
    except OSError as error:
        raise CheckpointError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    if head.get("version") != VERSION or head.get("autodiff") != __version__:
        raise CheckpointError(
            f"{path}: written by autodiff {head.get('autodiff')}; this is {__version__}, which may go on differently. "
            "End the fit with the one that began it, or begin anew"
        )
    if arrays.pop("hash", np.empty(0)).tobytes() != _hash(arrays):
        raise CheckpointError(f"{path}: {_DAMAGED}")
    for name, here in identity.items():
        there = head["identity"].get(name)
        if there != here:
            words = "" if name in _UNSHOWN else f": {_shown(there)} there, {_shown(here)} here"
            raise CheckpointError(f"{path}: the checkpoint of another fit; its {name} is not the same{words}")
    return _kept(head, arrays)


_DAMAGED = "damaged, or cut off: an earlier copy is needed"
_UNSHOWN = ("data", "start")  # of which there is a digest alone


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"`{text}`" if len(text) <= 60 else f"`{text[:59]}…`"


def _opened(stream: IO[bytes], path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    try:
        with np.load(stream, allow_pickle=False) as archive:
            if any(entry.compress_type for entry in archive.zip.infolist()):
                raise ValueError("packed: it may be of any length")
            arrays = {name: archive[name] for name in archive.files}
        head = json.loads(arrays["head"].tobytes())
    except (OSError, MemoryError):
        raise
    except Exception as error:  # of many kinds, where bytes are those of no archive or of a damaged one
        begins_well = _begins_well(stream)
        raise CheckpointError(f"{path}: {_DAMAGED if begins_well else 'not a checkpoint'}") from error
    if not isinstance(head, dict) or head.get("format") != FORMAT or not isinstance(head.get("identity"), dict):
        raise CheckpointError(f"{path}: not a checkpoint; `train --checkpoint` writes one")
    return head, arrays


def _hash(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    found = hashlib.blake2b()
    for name, array in sorted(arrays.items()):
        found.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        found.update(array.tobytes())
    return found.digest()


def _begins_well(stream: IO[bytes]) -> bool:
    stream.seek(0)
    return stream.read(4) == b"PK\x03\x04"


def _kept(head: Mapping[str, Any], arrays: Mapping[str, Array]) -> Kept:
    answers = []
    start = 0
    for mark, shape in head["answers"]:
        size = int(np.prod(shape, dtype=np.intp))
        answers.append((int(mark), arrays["answers"][start : start + size].reshape(shape)))
        start += size
    return Kept(
        told=int(head["told"]),
        numbers=arrays["numbers"] if head["generator"] is not None else None,
        steps=int(head["steps"]),
        generator=head["generator"],
        history=arrays["history"].reshape(-1, 3),
        first=arrays["first"],
        best=arrays["best"],
        best_number=int(head["best_number"]),
        answers=answers,
    )


class CheckpointFile:
    """A file that one run alone writes checkpoints to.

    The run holds a lock on the file that it wrote last. Whoever finds it locked, or replaced by another one, knows that
    there are two.

    Raises:
        CheckpointError: if there is a file already that is no checkpoint, or that another run is writing.
        OSError: if it cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        self._target = Path(os.path.realpath(path))
        self._held: int | None = None
        with contextlib.suppress(FileNotFoundError):
            mode = self._target.stat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise CheckpointError(f"{path}: not an ordinary file; a checkpoint takes the place of its file")
            self._held = os.open(self._target, os.O_RDWR)
            with open(self._held, "rb", closefd=False) as stream:
                if os.fstat(self._held).st_size:  # an empty file is one that somebody made to have a name
                    if not _begins_well(stream):
                        raise CheckpointError(f"{path}: there already, and not a checkpoint: it is not written over")
                    stream.seek(0)
            self._lock(self._held)

    def write(self, identity: Mapping[str, Any], kept: Kept) -> None:
        """Write a checkpoint, as a whole or not at all. Raises OSError; CheckpointError if another run writes too."""
        head = {
            "format": FORMAT,
            "version": VERSION,
            "autodiff": __version__,
            "identity": dict(identity),
            "told": kept.told,
            "steps": kept.steps,
            "generator": kept.generator,
            "best_number": kept.best_number,
            "answers": [(mark, answer.shape) for mark, answer in kept.answers],
        }
        arrays: dict[str, NDArray[Any]] = {
            "head": np.frombuffer(json.dumps(head).encode(), np.uint8),
            "numbers": np.empty(0) if kept.numbers is None else kept.numbers,
            "history": kept.history,
            "first": kept.first,
            "best": kept.best,
            "answers": np.concatenate([np.empty(0), *(answer.ravel() for _, answer in kept.answers)]),
        }
        arrays["hash"] = np.frombuffer(_hash(arrays), np.uint8)
        part = self._target.with_name(f".{secrets.token_hex(8)}.part")
        try:
            with part.open("xb") as stream:
                np.savez(stream, **arrays)  # type: ignore[arg-type]
                stream.flush()
                os.fsync(stream.fileno())
                mine = os.dup(stream.fileno())
            self._lock(mine)
            self._check_alone()
            part.replace(self._target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        self.close()
        self._held = mine

    def close(self) -> None:
        """Let another run have the file."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def _check_alone(self) -> None:
        try:
            there = os.stat(self._target)
        except FileNotFoundError:
            return
        if self._held is None or not os.path.samestat(there, os.fstat(self._held)):
            raise self._contested()

    def _lock(self, file: int) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise self._contested() from None
            # A file system without locks: see `_check_alone`.

    def _contested(self) -> CheckpointError:
        return CheckpointError(f"{self.path}: another run writes this checkpoint too; give each a file of its own")

"""What runs on workers."""

from __future__ import annotations

import functools
import importlib.util
import math
import pickle
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends import remaking
from autodiff_cli.backends.fold import fold, slices
from autodiff_cli.data.sharing.shares import FileShare, ReadShare, read_share
from autodiff_cli.data.table import DataError
from autodiff_cli.training.rows.protocol import LARGEST_BLOCK, WEIGHT, Columns
from autodiff_cli.training.rows.tasks import SumTask
from autodiff_cli.version import __version__


@dataclass(frozen=True, slots=True)
class Partition:
    """Some rows: 2^k largest blocks of them, but for those at the end."""

    columns: Columns
    rows: int


@dataclass(frozen=True, slots=True)
class Installation:
    """What has to be the same wherever rows are for results to have the same bits.

    Attributes:
        program: the version of this package.
        numpy: that of NumPy.
        width: how many doubles a vector of compiled code has; 0 where nothing is compiled.
    """

    program: str
    numpy: str
    width: int


def place() -> Installation:
    """This process."""
    width = 0
    if importlib.util.find_spec("llvmlite") is not None:
        from autodiff_cli.backends.llvm.target import host

        width = host().width
    return Installation(__version__, np.__version__, width)


def of_part(part: Partition, content: bytes) -> bytes:
    """What a task gives for the rows of a part, pickled as the task is with what combines its results.

    A kernel in it is made when the first task comes that has it, for as many threads as the worker has.
    """
    from distributed import get_worker

    threads = get_worker().state.nthreads
    remaking.use_threads(threads)
    task, combine = pickle.loads(content)
    if threads == 1 or part.rows <= LARGEST_BLOCK or (isinstance(task, SumTask) and remaking.is_shared(task.kernel)):
        found = task(part.columns, part.rows)
    else:
        found = _by_threads(part, content, threads, combine)
    return pickle.dumps(found, protocol=5)


def _by_threads(part: Partition, content: bytes, threads: int, combine: Callable[[Any, Any], Any]) -> Any:
    """The same on several threads, each for pieces of the part: with the same bits."""

    def of_piece(rows: slice) -> Any:
        task, _ = pickle.loads(content)  # plans of NumPy calls are for one thread
        return task({name: column[..., rows] for name, column in part.columns.items()}, rows.stop - rows.start)

    return fold(_pool(threads).map(of_piece, slices(part.rows, divided(part.rows, threads))), combine)


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "autodiff")


def divided(rows: int, pieces: int) -> int:
    """How many rows a piece has, so that there are about so many, or half: 2^k largest blocks, so that what is folded
    has the same bits however many there are.

    >>> divided(10, 4), divided(1_000_000, 4)
    (8192, 262144)
    """
    blocks = max(1.0, rows / (pieces * LARGEST_BLOCK))
    return int(LARGEST_BLOCK * 2 ** math.ceil(math.log2(blocks)))


def together(results: Sequence[bytes], combine: bytes) -> bytes:
    """Results of neighbours as one."""
    joined: Callable[[Any, Any], Any] = pickle.loads(combine)
    return pickle.dumps(fold(map(pickle.loads, results), joined), protocol=5)


def some_of(part: Partition, rows: slice | NDArray[np.intp]) -> Columns:
    """The columns of some rows of a part, to be sent away."""
    return {name: np.ascontiguousarray(column[..., rows]) for name, column in part.columns.items()}


@dataclass(frozen=True, slots=True)
class ShareFacts:
    """What is to be known of a share that was read, beside its columns. See `ReadShare`.

    Attributes:
        limits: of columns that say how much rows count: the least number, the greatest, and whether any is not 0.
    """

    rows: int
    dropped: int
    others: int
    texts: Mapping[str, list[str]]
    seen: Mapping[str, list[str | None]]
    check: int
    limits: Mapping[str, tuple[float, float, bool]]


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """The columns that kernels read, out of those of a share.

    Attributes:
        numbers: those that are taken as they are.
        weight: the column of weights, and whether it holds standard deviations instead.
        others: columns that kernels read by another name.
        coded: columns of texts, each with the number that a text stands for, by the name that kernels read.
        gathered: vectors: the names of their columns.
    """

    numbers: tuple[str, ...]
    weight: tuple[str, bool] | None = None
    others: Mapping[str, str] = field(default_factory=dict)
    coded: Mapping[str, tuple[str, Mapping[str, float]]] = field(default_factory=dict)
    gathered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        """The columns that come out."""
        return {*self.numbers, *self.others, *self.coded, *self.gathered, *([] if self.weight is None else [WEIGHT])}

    def of(self, share: ReadShare, rows: slice) -> dict[str, NDArray[Any]]:
        """These columns, of some rows; vectors not yet."""
        found = {name: share.columns[name][rows] for name in self.numbers}
        found |= {name: share.columns[own][rows] for name, own in self.others.items()}
        for name, (column, meaning) in self.coded.items():
            values = np.array([meaning[text] for text in share.texts[column]], np.float64)
            found[name] = values[share.columns[column][rows]]
        if self.weight is not None:
            column, is_sigma = self.weight
            values = np.asarray(share.columns[column][rows], np.float64)
            found[WEIGHT] = 1 / np.square(values) if is_sigma else values
        return found


def read(share: FileShare, wanted: Collection[str], texts: Collection[str], drop_missing: bool) -> ReadShare:
    """Read a share. Raises as `read_share` does; what cannot be read names the worker."""
    from distributed import get_worker

    try:
        return read_share(share, wanted, texts, drop_missing=drop_missing)
    except DataError as error:
        raise DataError(
            f"the worker {get_worker().address} cannot read {error}; "
            "each worker has to find the file under this name, as it was when the fit began"
        ) from None


def facts(share: ReadShare, counting: Collection[str]) -> ShareFacts:
    """What there is to know of a share."""
    limits = {}
    for name in counting:
        column = share.columns[name]
        if len(column):
            limits[name] = float(column.min()), float(column.max()), bool(column.any())
    return ShareFacts(share.rows, share.dropped, share.others, share.texts, share.seen, share.check, limits)


def assembled(pieces: Sequence[ReadShare], rows: Sequence[slice], checks: Sequence[int], plan: ColumnPlan) -> Partition:
    """A partition out of some rows of shares that follow one another.

    Raises DataError if a share is not what it was when it was read first.
    """
    if [piece.check for piece in pieces] != [*checks]:
        raise DataError("the data changed while the fit was running: a worker that read them again found other numbers")
    parts = [plan.of(piece, part) for piece, part in zip(pieces, rows, strict=True)]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    for name, own in plan.gathered.items():
        columns[name] = np.stack([columns[each] for each in own])
    return Partition(columns, sum(part.stop - part.start for part in rows))


def is_there(part: Partition) -> bool:
    """Whether a partition has been made."""
    return part.rows > 0

"""What runs on workers."""

from __future__ import annotations

import importlib.util
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends import remaking
from autodiff_cli.backends.fold import fold
from autodiff_cli.training.rows.protocol import Columns
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
    """What a task gives for the rows of a part, pickled as the task is.

    A kernel in it is made when the first task comes that has it, for as many threads as the worker has.
    """
    from distributed import get_worker

    remaking.use_threads(get_worker().state.nthreads)
    task = pickle.loads(content)
    return pickle.dumps(task(part.columns, part.rows), protocol=5)


def together(results: Sequence[bytes], combine: bytes) -> bytes:
    """Results of neighbours as one."""
    joined: Callable[[Any, Any], Any] = pickle.loads(combine)
    return pickle.dumps(fold(map(pickle.loads, results), joined), protocol=5)


def some_of(part: Partition, rows: slice | NDArray[np.intp]) -> Columns:
    """The columns of some rows of a part, to be sent away."""
    return {name: np.ascontiguousarray(column[..., rows]) for name, column in part.columns.items()}

"""What a backend is: graphs of one row of data, made ready to run over many.

A backend is handed graphs, gradients among them, and compiles each set of them once. It has no derivative rule and
knows neither models nor losses. A new one is a folder beside this file and a line in `choice.py`.

Rows are the last axis of every array, so that the rows of each number lie side by side in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.update import Update
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Shape
from autodiff_cli.graph.shapes import shapes
from autodiff_cli.graph.tape import Packed, Tape, pack, unpack

Array = NDArray[np.float64]
# Each of shape (rows,), or (*shape, rows) where a row has an array. Numbers of other types are read as doubles.
Columns = Mapping[str, NDArray[Any]]
Point = Mapping[str, Any]  # a number or an array for every leaf that is no column
Tell = Callable[[float, float], None]  # is told which part of an epoch is over, and the mean of its batches' losses


class NotCompiled(RuntimeError):  # noqa: N818 - what it is
    """A kernel could not be made ready for the columns that it was handed first; nothing has been computed."""


@dataclass(frozen=True, slots=True)
class RowGraphs:
    """Graphs written for one row, to be run over many.

    Args:
        outputs: the graphs; equal parts of them are to be computed once.
        columns: the names of the leaves that vary from row to row; all others are the same for all rows.
        leaves: the shapes of leaves that are no scalars, by name.
        filled: the shape that each output is to have, where a graph that is a number may stand for an array of equal
            ones; by default the graphs' own.

    Attributes:
        sizes: the shape of each output.
        numbers: how many numbers the outputs have together; `places` says which of them are those of each output.

    >>> from autodiff_cli.language.lowering import read
    >>> graphs = RowGraphs([read("a*x").output, read("[x, 2, a]").output], {"x"})
    >>> graphs.sizes, graphs.numbers
    (((), (3,)), 4)
    """

    outputs: Sequence[Node]
    columns: Set[str]
    leaves: Mapping[str, Shape] = field(default_factory=dict)
    filled: Sequence[Shape] | None = None
    sizes: tuple[Shape, ...] = field(init=False)
    numbers: int = field(init=False)
    places: tuple[slice, ...] = field(init=False)

    def __post_init__(self) -> None:
        if self.filled is None:
            tape = Tape(self.outputs)
            found = shapes(tape, self.leaves)
            sizes = tuple(found[i] for i in tape.outputs)
        else:
            sizes = tuple(self.filled)
        object.__setattr__(self, "sizes", sizes)
        ends = [0, *accumulate(map(math.prod, sizes))]
        object.__setattr__(self, "numbers", ends[-1])
        object.__setattr__(self, "places", tuple(slice(*two) for two in pairwise(ends)))

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpacked, (pack(self.outputs), sorted(self.columns), dict(self.leaves), self.filled)


def _unpacked(outputs: Packed, columns: Sequence[str], *rest: Any) -> RowGraphs:
    return RowGraphs(unpack(outputs), {*columns}, *rest)


class SumKernel(Protocol):
    """Graphs made ready for sums over rows: a loss, and its gradient.

    Rows fall into blocks of `block_rows`. What is summed within a block is the kernel's affair; the sums of blocks are
    added in the order of `fold`, whoever computed them. So the result has the same bits with any number of threads, and
    the sums of parts of 2^k blocks each, folded, are those of all rows at once.

    A kernel pickles as what it was made of (`remaking.py`), and is made again once in a process.
    """

    @property
    def names(self) -> frozenset[str]:
        """The names of the leaves that are read."""

    @property
    def block_rows(self) -> int:
        """How many rows a block has."""

    def sums(self, point: Point, columns: Columns, rows: int) -> Array:
        """The sums of the outputs over all rows, one after the other, arrays row by row: of shape (numbers,).

        Args:
            point: a value for every leaf that is no column; more may be there.
            columns: whole columns, of any strides; more may be there. They are not changed.
            rows: how many rows they have. The sums over none are 0.

        What is not defined comes out as nan; nothing is raised for it, and NumPy warns of nothing.
        """


class RowKernel(Protocol):
    """Graphs made ready for a value per row: predictions, or residuals beside their derivatives. Pickles as sums do."""

    @property
    def names(self) -> frozenset[str]:
        """The names of the leaves that are read."""

    @property
    def block_rows(self) -> int:
        """How many rows at a time are fast, for callers that need not have all of them at once."""

    @property
    def numbers(self) -> int:
        """How many numbers the outputs of a row have."""

    @property
    def places(self) -> Sequence[slice]:
        """Which of the numbers are those of each output."""

    def prepare(self, point: Point) -> Any:
        """What is the same for all rows, at a point: see `SumKernel.sums`. For `write` alone."""

    def write(self, prepared: Any, columns: Columns, out: Array) -> None:
        """Write the outputs for some rows, each number once.

        Args:
            prepared: from `prepare`; it is not changed.
            columns: the columns of these rows.
            out: of shape (numbers, rows), rows contiguous: the outputs one below the other, arrays row by row.
        """


@dataclass(frozen=True, slots=True)
class Descent:
    """A mean loss over rows, and the gradient method that makes it small.

    Attributes:
        loss: the loss of a row, times its weight, then its slope towards each of the parameters.
        parameters: the names of their leaves, in the order of the slopes and of `theta`, arrays row by row.
        weight: the name of the column of weights; None where every row counts 1.
        update: the step.
        clip_norm: the length that a batch's gradient is shortened to if it is longer; None for no limit.
    """

    loss: RowGraphs
    parameters: Sequence[str]
    weight: str | None
    update: Update
    clip_norm: float | None = None


@dataclass(slots=True)
class State:
    """Where a gradient method stands; with the generator that shuffles, all that decides how it goes on.

    Attributes:
        numbers: of shape (1 + memory, P): the parameters, then what is remembered of each, in the order of the update.
        steps: how many were taken.
    """

    numbers: Array
    steps: int = 0

    @classmethod
    def begun(cls, theta: Array, update: Update) -> State:
        """The state before the first step."""
        numbers = np.zeros((1 + len(update.memory), len(theta)))
        numbers[0] = theta
        return cls(numbers)

    @property
    def theta(self) -> Array:
        """The parameters, in the memory of the state."""
        theta: Array = self.numbers[0]
        return theta


class EpochKernel(Protocol):
    """A gradient method made ready to run whole epochs."""

    def run(
        self,
        state: State,
        rate: float,
        point: Point,
        columns: Columns,
        batch_rows: int,
        order: NDArray[Any] | None = None,
        tell: Tell | None = None,
        losses: list[float] | None = None,
    ) -> float:
        """Take one step per batch, over some rows in an order.

        A batch is the next `batch_rows` rows of that order, the last one what is left; one whose weights are all 0 is
        left out. Its loss and gradient are the (weighted) mean over its rows.

        Args:
            state: is moved on, in place.
            rate: the learning rate.
            point: a value for every leaf that is neither a column nor a parameter; more may be there.
            columns: whole columns, one at least.
            order: the numbers of the rows; by default all of them, as they lie.
            tell: is called now and then within an epoch that lasts.
            losses: gets the loss of each batch, after those of earlier rows of the epoch.

        Returns:
            The mean of the batches' losses, each taken before its step; nan or infinite where the method diverged.
        """

    def whole(
        self, state: State, rate: float, point: Point, weight: float, sums: Callable[[SumKernel, Point], Array]
    ) -> float:
        """Take one step over all rows, wherever these are: with the bits of `run` for more rows than a block has.

        Args:
            state: is moved on, in place.
            rate: the learning rate.
            point: as for `run`.
            weight: of all rows.
            sums: what a kernel sums up over all rows at a point.

        Returns:
            The loss before the step; nan if the weight is 0.
        """


class Backend(Protocol):
    """Makes kernels."""

    @property
    def name(self) -> str:
        """As users choose it."""

    def sums(self, graphs: RowGraphs, *, recompute_every: int | None = None) -> SumKernel:
        """Make graphs ready for sums.

        Args:
            graphs: a value first; its derivatives, if there are any, after it.
            recompute_every: forget what lies within so many layers of the first output, and compute it again for the
                others: slower, with less memory and the same result. A backend that keeps no values per row need not.
        """

    def rows(self, graphs: RowGraphs) -> RowKernel:
        """Make graphs ready for a value per row."""

    def epochs(self, descent: Descent, *, recompute_every: int | None = None) -> EpochKernel:
        """Make a gradient method ready. A backend without loops of its own for it returns `descent.EpochLoop`.

        Args:
            recompute_every: see `sums`.
        """

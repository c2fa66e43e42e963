"""From graphs to items: what is done over elements, each item with the places that it reads.

An item is done for every element of an array, and for every row of data if it depends on one. Whatever only picks or
turns elements (an index, a transpose, a stretch) is no item but a way to read.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from autodiff_cli.backends.llvm.functions.vectors import Vector
from autodiff_cli.graph.op import Op, Shape

Compute: TypeAlias = Callable[..., Vector | None]


class Stage(enum.IntEnum):
    """How much a value varies: not at all at one point, from row to row; or it is a sum over rows."""

    UNIFORM = 0
    ROW = 1
    TOTAL = 2


@dataclass(frozen=True, slots=True)
class Leaf:
    """An input of a kernel.

    Attributes:
        place: its number among the columns; or where its numbers begin among those of the point.
    """

    name: str
    shape: Shape
    level: Stage
    place: int


ROW_COUNT = Leaf("", (), Stage.TOTAL, 0)  # how many rows a block has


@dataclass(frozen=True, slots=True)
class Reading:
    """How the elements of an array are found among those of the item or the leaf that holds them.

    Attributes:
        source: the item, by its number, or the leaf.
        offset: of the first element.
        strides: how far the next one is along each axis; 0 where one element stands for all.
    """

    source: int | Leaf
    shape: Shape
    offset: int
    strides: tuple[int, ...]

    @property
    def is_plain(self) -> bool:
        """Whether it reads elements one after the other, from the first."""
        return self.offset == 0 and self.strides == contiguous(self.shape)


Input: TypeAlias = Reading | float


class Effect(enum.Enum):
    """What becomes of a value."""

    KEEP = "keep"  # an element of an array
    ADD = "add"  # combined along the axes in which the result has no extent
    MULTIPLY = "multiply"
    LARGEST = "largest"
    SMALLEST = "smallest"
    TOTAL = "total"  # added up over rows
    WRITE = "write"  # handed out


@dataclass(frozen=True, slots=True)
class Each:
    """A function of vectors, for each element.

    Attributes:
        shape: over which it is done; the readings have it.
        strides: where the result's elements lie, along each of these axes.
        size: how many elements the result has.
        offset: where those begin that are handed out.
    """

    compute: Compute
    inputs: tuple[Input, ...]
    shape: Shape
    level: Stage
    effect: Effect
    strides: tuple[int, ...]
    size: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Called:
    """A function of NumPy's arrays, called for all elements and a strip of rows at once; the inputs are plain."""

    op: Op
    inputs: tuple[Input, ...]
    shape: Shape
    level: Stage
    size: int


@dataclass(frozen=True, slots=True)
class Arranged:
    """An array put together from parts, each with the offset and the strides of its elements; elsewhere it is 0."""

    inputs: tuple[Input, ...]
    shapes: tuple[Shape, ...]
    offsets: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    level: Stage
    size: int

    @property
    def is_full(self) -> bool:
        """Whether the parts leave nothing out."""
        return sum(map(math.prod, self.shapes)) == self.size


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """A matrix that is the same for all rows times a vector per row, read over (size, inner) and (inner,)."""

    inputs: tuple[Reading, Reading]
    inner: int
    size: int
    level: Stage = Stage.ROW


Item: TypeAlias = Each | Called | Arranged | MatrixProduct


@dataclass(slots=True)
class Plan:
    """All that a kernel does.

    Attributes:
        columns: in the order of their places.
        points: in the order of their places.
        items: each after those that it reads.
        numbers: how many numbers are handed out: for each row, or as sums.
    """

    columns: list[Leaf] = field(default_factory=list)
    points: list[Leaf] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    numbers: int = 0

    def level(self, given: Input) -> Stage:
        """That of what is read."""
        if isinstance(given, float):
            return Stage.UNIFORM
        if isinstance(given.source, Leaf):
            return given.source.level
        item = self.items[given.source]
        return Stage.TOTAL if isinstance(item, Each) and item.effect is Effect.TOTAL else item.level

    def highest(self, inputs: Iterable[Input]) -> Stage:
        """The level of what depends on all of these."""
        return max(map(self.level, inputs), default=Stage.UNIFORM)


def contiguous(shape: Shape) -> tuple[int, ...]:
    """The strides of an array whose elements lie one after the other, the last axis fastest.

    >>> contiguous((2, 3))
    (3, 1)
    """
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def stretched(given: Input, shape: Shape) -> Input:
    """An input read as an array of this shape, by the rules of broadcasting."""
    if isinstance(given, float) or given.shape == shape:
        return given
    missing = len(shape) - len(given.shape)
    strides = tuple(0 if n == 1 else stride for n, stride in zip(given.shape, given.strides, strict=True))
    return Reading(given.source, shape, given.offset, (0,) * missing + strides)


def along(given: Input, over: Shape, axes: Sequence[int]) -> Input:
    """An input whose axes are these among those of a loop; along the others it does not vary."""
    if isinstance(given, float):
        return given
    strides = dict(zip(axes, given.strides, strict=True))
    return Reading(given.source, over, given.offset, tuple(strides.get(axis, 0) for axis in range(len(over))))

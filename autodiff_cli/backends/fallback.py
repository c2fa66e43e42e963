"""A backend that compiles, with NumPy's behind it: what cannot be compiled runs there, and somebody is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from numpy.typing import NDArray

from autodiff_cli.backends.protocol import (
    Array,
    Backend,
    Columns,
    Descent,
    EpochKernel,
    NotCompiled,
    Point,
    RowGraphs,
    RowKernel,
    State,
    SumKernel,
    Tell,
)

Kernel = TypeVar("Kernel")
OverRows = TypeVar("OverRows", SumKernel, RowKernel)
Say: TypeAlias = Callable[[str], object]


def log(sentence: str) -> None:
    """Tell who watches the log `autodiff_cli`; where nobody has set one up it is standard error."""
    import logging

    logging.getLogger("autodiff_cli").warning(sentence)


class Fallback:
    """See `Backend`. Once it fails to compile it does not try again.

    Args:
        compiled: makes this backend, if it can be made at all.
        plain: the one behind it.
        say: is told, once, that and why the other one is in use.
    """

    def __init__(self, compiled: Callable[[], Backend], plain: Backend, say: Say = log) -> None:
        self._plain = plain
        self._say = say
        self._compiled: Backend | None = None
        try:
            self._compiled = compiled()
        except (ImportError, OSError, RuntimeError) as error:  # llvmlite is not there, or broken
            self.give_up(error)

    @property
    def name(self) -> str:
        """That of the backend in use."""
        return self.in_use.name

    @property
    def in_use(self) -> Backend:
        """What makes kernels now."""
        return self._compiled or self._plain

    def give_up(self, error: Exception) -> None:
        """Compile no more."""
        if self._compiled is None and isinstance(error, NotCompiled):
            return  # another kernel has said so
        self._compiled = None
        lines = str(error).strip().splitlines() or [type(error).__name__]
        self._say(f"no machine code could be made ({lines[0]}): all runs on NumPy, slower; see `autodiff doctor`")

    def sums(self, graphs: RowGraphs, *, recompute_every: int | None = None) -> SumKernel:
        """See `Backend.sums`."""
        return _Sums(self, lambda backend: backend.sums(graphs, recompute_every=recompute_every))

    def rows(self, graphs: RowGraphs) -> RowKernel:
        """See `Backend.rows`."""
        return _Rows(self, lambda backend: backend.rows(graphs))

    def epochs(self, descent: Descent, *, recompute_every: int | None = None) -> EpochKernel:
        """See `Backend.epochs`."""
        return _Epochs(self, lambda backend: backend.epochs(descent, recompute_every=recompute_every))


class _Careful(Generic[Kernel]):
    """A kernel that may turn out not to compile when it is made, or when it first sees its columns."""

    def __init__(self, owner: Fallback, make: Callable[[Backend], Kernel]) -> None:
        self._owner = owner
        self._make = make
        try:
            self._kernel = make(owner.in_use)
        except (NotCompiled, MemoryError) as error:
            self._turn(error)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._kernel.__reduce__()  # type: ignore[return-value]  # as what it is at last

    def _turn(self, error: Exception) -> None:
        """Take the other backend's kernel; raise what is wrong if this is that one."""
        self._owner.give_up(error)
        self._kernel = self._make(self._owner.in_use)


class _OverRows(_Careful[OverRows]):
    @property
    def names(self) -> frozenset[str]:
        return self._kernel.names

    @property
    def block_rows(self) -> int:
        return self._kernel.block_rows


class _Sums(_OverRows[SumKernel]):
    def sums(self, point: Point, columns: Columns, rows: int) -> Array:
        try:
            return self._kernel.sums(point, columns, rows)
        except NotCompiled as error:
            self._turn(error)
            return self._kernel.sums(point, columns, rows)


class _Rows(_OverRows[RowKernel]):
    @property
    def numbers(self) -> int:
        return self._kernel.numbers

    @property
    def places(self) -> Sequence[slice]:
        return self._kernel.places

    def prepare(self, point: Point) -> list[Any]:
        return [self._kernel, point, self._kernel.prepare(point)]

    def write(self, prepared: list[Any], columns: Columns, out: Array) -> None:
        if prepared[0] is not self._kernel:  # made before this one
            prepared[:] = self.prepare(prepared[1])
        try:
            self._kernel.write(prepared[2], columns, out)
        except NotCompiled as error:
            self._turn(error)
            self.write(prepared, columns, out)


class _Epochs(_Careful[EpochKernel]):
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
        given = state, rate, point, columns, batch_rows, order, tell, losses
        try:
            return self._kernel.run(*given)
        except NotCompiled as error:  # before the first step
            self._turn(error)
            return self._kernel.run(*given)

    def whole(
        self, state: State, rate: float, point: Point, weight: float, sums: Callable[[SumKernel, Point], Array]
    ) -> float:
        given = state, rate, point, weight, sums
        try:
            return self._kernel.whole(*given)
        except NotCompiled as error:
            self._turn(error)
            return self._kernel.whole(*given)

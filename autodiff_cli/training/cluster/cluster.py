"""The cluster itself: parts of the rows, kept by workers, and tasks that are folded over them."""

from __future__ import annotations

import itertools
import pickle
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from numpy.typing import NDArray

from autodiff_cli.backends.fold import fold, slices
from autodiff_cli.training.cluster import on_worker
from autodiff_cli.training.cluster.on_worker import Partition
from autodiff_cli.training.errors import ClusterError
from autodiff_cli.training.rows.protocol import Columns, Task

if TYPE_CHECKING:
    from distributed import Client, Future

T = TypeVar("T")

_PATIENCE = 60.0  # seconds without a worker
_TRIES = 20  # to send what was lost again, for one answer
_MANY = 64  # results: of more, neighbours are put together by workers
_GROUP = 16  # of them, a power of two
_LARGE = 50_000  # bytes

_names = itertools.count()


class Parts:
    """The parts of some rows, wherever they are.

    Attributes:
        futures: what Dask knows each of them by.
    """

    def __init__(self, futures: list[Future], send: Callable[[int], Partition] | None) -> None:
        self.futures = futures
        self._send = send

    def restore(self, client: Client, patience: float) -> bool:
        """Send those again that died with their workers; whether there were any. Dask reads by itself what was read.

        Raises TimeoutError if there is no worker for so many seconds.
        """
        lost = [k for k, future in enumerate(self.futures) if future.status in ("cancelled", "lost")]
        if self._send is not None:
            for k in lost:
                self.futures[k] = client.scatter(self._send(k), hash=False, timeout=patience)
        return bool(lost)


class Cluster:
    """A scheduler and its workers.

    Args:
        client: connected, and not asynchronous.
        name: for messages.
        patience: seconds for which no worker may be there.

    Attributes:
        workers, threads: how many there were when it was found, of all workers.
    """

    def __init__(self, client: Client, name: str, workers: int, threads: int, patience: float = _PATIENCE) -> None:
        self._client = client
        self._name = name
        self._patience = patience
        self.workers, self.threads = workers, threads

    def sent(self, part: Callable[[int], Partition], count: int) -> Parts:
        """Parts that are here, sent to workers, and again where one dies.

        Args:
            part: makes each of them, by its number.
        """
        return Parts([self._client.scatter(part(k), hash=False) for k in range(count)], part)

    def made(self, function: Callable[..., Any], *arguments: Sequence[Any], common: Sequence[Any]) -> Parts:
        """Parts that workers make, and make again where one dies."""
        return Parts(self._map(function, *arguments, common=common), None)

    def answers(self, parts: Parts, function: Callable[..., Any], *common: Any) -> list[Any]:
        """What a function says of each part. Raises what making the parts raised."""
        return self._answered(parts, lambda: self._map(function, parts.futures, common=common))

    def fold(self, parts: Parts, task: Task[T], combine: Callable[[T, T], T]) -> T:
        """A task over all parts, combined in the order of `fold`. Raises ClusterError, and what the task raises."""
        content = pickle.dumps((task, combine), protocol=5)
        joining = pickle.dumps(combine, protocol=5)

        def asked() -> list[Future]:
            futures = self._map(on_worker.of_part, parts.futures, common=[content])
            while len(futures) > _MANY:
                groups = [futures[group] for group in slices(len(futures), _GROUP)]
                futures = self._map(on_worker.together, groups, common=[joining])
            return futures

        results: list[T] = [pickle.loads(content) for content in self._answered(parts, asked)]
        return fold(results, combine)

    def gathered(self, parts: Parts, which: Sequence[int], rows: Sequence[slice | NDArray[Any]]) -> list[Columns]:
        """The columns of some rows of some parts."""

        def asked() -> list[Future]:
            return self._map(on_worker.some_of, [parts.futures[k] for k in which], rows)

        return self._answered(parts, asked)

    def _map(self, function: Callable[..., Any], *arguments: Sequence[Any], common: Sequence[Any] = ()) -> list[Future]:
        """A task for each of the arguments, with what is common to all after them. Dask gives what is large and has a
        name a key of that name, the same in each call, so nothing has a name here."""
        count = len(arguments[0])
        names = [f"autodiff-{function.__name__}-{next(_names)}" for _ in range(count)]
        repeated = ([self._once(value)] * count for value in common)
        found: list[Future] = self._client.map(function, *arguments, *repeated, key=names)
        return found

    def _once(self, value: Any) -> Any:
        """The same; what is large goes to the workers once, and not with each task."""
        if isinstance(value, bytes) and len(value) > _LARGE:
            return self._client.scatter(value, hash=False)
        return value

    def _answered(self, parts: Parts, ask: Callable[[], list[Future]]) -> list[Any]:
        """The results of what is asked; asked again where parts were lost with their worker."""
        import asyncio
        from concurrent.futures import CancelledError

        from distributed import KilledWorker

        for _ in range(_TRIES):
            try:
                found: list[Any] = self._client.sync(self._waited, ask())
                return found
            except KilledWorker as error:
                raise ClusterError(
                    f"{self._name}: {error.allowed_failures + 1} workers died over the same rows; "
                    "they may have too little memory"
                ) from None
            except (CancelledError, asyncio.CancelledError, OSError) as error:
                if self._client.status != "running":
                    raise ClusterError(f"{self._name}: the scheduler is no longer there") from error
                try:
                    if not parts.restore(self._client, self._patience):
                        time.sleep(0.1)  # a worker died as it was about to answer
                except TimeoutError:
                    raise self._alone() from error
        raise ClusterError(f"{self._name}: workers die faster than rows can be given to others")

    async def _waited(self, futures: list[Future]) -> list[Any]:
        """The results, waited for as long as there are workers."""
        import asyncio

        client = self._client
        gathering = asyncio.ensure_future(client.gather(futures, asynchronous=True))
        alone: float | None = None
        try:
            while not (await asyncio.wait([gathering], timeout=1.0))[0]:
                there = await client.scheduler.identity(n_workers=1)
                if there["total_threads"]:
                    alone = None
                elif alone is None:
                    alone = time.monotonic()
                elif time.monotonic() - alone > self._patience:
                    raise self._alone()
            found: list[Any] = gathering.result()
            return found
        finally:
            gathering.cancel()

    def _alone(self) -> ClusterError:
        return ClusterError(f"{self._name}: no worker has been there for {self._patience:g} seconds")

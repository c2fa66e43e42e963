"""A fit on a cluster: partitions of the rows on Dask workers, and tasks that are folded over them.

`Cluster` submits tasks, retries when workers die, and combines results. `ClusterRows` is the implementation of `Rows`:
a fold is one Dask task per partition. The functions before `Cluster` run on workers. Rows get there in two ways:
workers read shares of the files themselves (`ClusterData`), or the data are read here and sent (`ScatteredData`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.util
import itertools
import math
import os
import pickle
import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends import protocol
from autodiff_cli.backends.protocol import CompilationError
from autodiff_cli.backends.reductions import block_slices, fold
from autodiff_cli.data.batches import CodeTable, ColumnQuery, FallbackRequired, LabelColumn, MissingCells
from autodiff_cli.data.dialect import CellKind, DataError, FileOptions
from autodiff_cli.data.files import DataFile, DataSource
from autodiff_cli.data.streaming import extend_checksum, label_key
from autodiff_cli.data.table import Dataset, FilterCounts, Table, check_has_rows
from autodiff_cli.system import error_reason
from autodiff_cli.training.objective.loading import ColumnRecipe, FitData, LoadedData, Weighting
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.options import ClusterError, FitOptions
from autodiff_cli.training.rows import MAX_BLOCK_ROWS, ColumnArrays, RowIndex, Rows, SumTask, Task
from autodiff_cli.version import __version__

if TYPE_CHECKING:
    from distributed import Client, Future


def current_installation() -> dict[str, Any]:
    """Return the versions and the hardware that must be equal on all machines for results to have the same bits.

    They are the versions of this package and of NumPy, and the number of doubles in a vector of compiled code, which is
    0 if nothing is compiled.
    """
    width = 0
    if importlib.util.find_spec("llvmlite") is not None:
        from autodiff_cli.backends.llvm.machine_code import host_processor

        width = host_processor().width
    return {"autodiff-cli": __version__, "NumPy": np.__version__, "vectors of width": width}


def run_task(partition: Table, content: bytes) -> bytes:
    """Run a pickled task on a partition, and return the pickled result.

    Args:
        content: the pickled task. A kernel in it is compiled when the first task with it arrives, for as many threads
            as the worker has.
    """
    from distributed import get_worker

    threads = get_worker().state.nthreads
    protocol.set_thread_limit(threads)
    task = pickle.loads(content)
    has_threads = isinstance(task, SumTask) and getattr(task.kernel, "is_shared", False)
    if threads == 1 or partition.rows <= MAX_BLOCK_ROWS or has_threads:
        result = task(partition.columns, partition.rows)
    else:
        result = _run_threaded(partition, content, threads, task.combine)
    return pickle.dumps(result, protocol=5)


def _run_threaded(partition: Table, content: bytes, threads: int, combine: Callable[[Any, Any], Any]) -> Any:
    """Run a task on several threads, each on pieces of the partition. The result has the same bits."""

    def of_piece(rows: slice) -> Any:
        task = pickle.loads(content)  # the plan of a NumPy kernel is not thread-safe
        return task({name: column[..., rows] for name, column in partition.columns.items()}, rows.stop - rows.start)

    pieces = block_slices(partition.rows, piece_rows(partition.rows, threads))
    return fold(_thread_pool(threads, "autodiff").map(of_piece, pieces), combine)


_thread_pool = functools.cache(ThreadPoolExecutor)


def piece_rows(rows: int, pieces: int) -> int:
    """Return the number of rows in a piece, so that there are about `pieces` pieces, or half as many.

    It is 2^k maximal blocks, so that the result of a fold has the same bits for any number of pieces.

    >>> piece_rows(10, 4), piece_rows(1_000_000, 4)
    (8192, 262144)
    """
    return int(MAX_BLOCK_ROWS * 2 ** math.ceil(math.log2(max(1.0, rows / (pieces * MAX_BLOCK_ROWS)))))


def combine_results(results: Sequence[bytes], combine: bytes) -> bytes:
    """Combine pickled results of neighbouring partitions into one."""
    joined: Callable[[Any, Any], Any] = pickle.loads(combine)
    return pickle.dumps(fold(map(pickle.loads, results), joined), protocol=5)


def take_rows(partition: Table, rows: slice | NDArray[np.intp]) -> ColumnArrays:
    """Return the columns of some rows of a partition, ready to be sent."""
    return {name: np.ascontiguousarray(column[..., rows]) for name, column in partition.columns.items()}


# --- Shares of files


@dataclass(frozen=True, slots=True)
class FileShare:
    """A part of the rows of a file.

    Attributes:
        path: the absolute path of the file.
        size: the size of the file in bytes.
        options: how to read the file.
        extent: the part of the divisible range; see `DelimitedText.restrict`. None for the whole file.
    """

    path: str
    size: int
    options: FileOptions
    extent: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class ShareData:
    """The data of a share.

    Attributes:
        table: the columns. Labels are texts, even if all of them are numbers.
        filter_counts: the effect of the filter.
        checksum: a checksum of the columns of numbers.
    """

    table: Table
    filter_counts: FilterCounts
    checksum: int


def divide_files(files: DataSource, count: int) -> list[list[FileShare]] | None:
    """Divide files into about `count` shares, listed by file in the order of the rows. Returns None for sources that
    cannot be read twice.

    >>> from autodiff_cli.data.files import open_data
    >>> import io
    >>> divide_files(open_data(["-"], io.BytesIO(b"x,y\\n1,2\\n")), 3) is None
    True
    """
    file_list = files.files
    if not all(os.path.isfile(file.path) for file in file_list):
        return None
    sizes = [os.path.getsize(file.path) for file in file_list]
    shares = []
    for file, size in zip(file_list, sizes, strict=True):
        path = os.path.abspath(file.path)
        extent = file.format.divisible_range
        if extent is None:
            shares.append([FileShare(path, size, file.options, None)])
            continue
        begin, end = extent
        parts = min(max(1, round(count * size / max(1, sum(sizes)))), max(1, end - begin))
        ends = [begin + (end - begin) * k // parts for k in range(parts + 1)]
        shares.append([FileShare(path, size, file.options, share) for share in itertools.pairwise(ends)])
    return shares


def read_share(share: FileShare, names: Collection[str], labels: Collection[str], *, drop_missing: bool) -> ShareData:
    """Read the columns of a share.

    Args:
        names: the columns to read as numbers.
        labels: the columns to read as labels.
        drop_missing: drop rows with a missing cell.

    Raises:
        FallbackRequired: if the share cannot be interpreted, or an error cannot be located, without the rest of the
            file.
        DataError: if the file is missing or has another size.
    """
    try:
        size = os.path.getsize(share.path)
    except OSError as error:
        raise DataError(f"{share.path}: {error_reason(error)}") from None
    if size != share.size:
        raise DataError(f"{share.path}: the file has {size} bytes on a worker, but {share.size} where the fit started")
    file = DataFile(share.path, options=share.options)
    files = DataSource([file])
    file.is_one_of_several = True
    try:
        if share.extent is not None:
            file.format.restrict(*share.extent)
        missing = MissingCells.DROP if drop_missing else MissingCells.REFUSE
        table = files.read_once(ColumnQuery(names, labels, missing))
    except DataError:
        raise FallbackRequired from None  # the error has a location in the share, not in the file
    if any(parser.kind not in (None, CellKind.NUMBER) for parser in file.parsers.values()):
        raise FallbackRequired  # the first cell of the file decides the kind of a column
    checksum = 0
    for name in sorted(table.columns):
        checksum = extend_checksum(checksum, np.ascontiguousarray(table.columns[name], np.float64))
    return ShareData(table, file.filter_counts, checksum)


def read_on_worker(share: FileShare, names: Collection[str], labels: Collection[str], drop_missing: bool) -> ShareData:
    """Read a share. Raises as `read_share` does; a message about a file that cannot be read names the worker."""
    from distributed import get_worker

    try:
        return read_share(share, names, labels, drop_missing=drop_missing)
    except DataError as error:
        raise DataError(
            f"the worker {get_worker().address} cannot read {error}; "
            "each worker must find the file under this name, unchanged since the fit began"
        ) from None


def summarize_share(share: ShareData, weightings: Sequence[Weighting]) -> ShareData:
    """Return a share without the cells of its rows: their number and the different labels.

    Raises FallbackRequired if a weight or an error is not valid: its location is in the share, not in the file.
    """
    table = share.table
    for weighting in weightings:
        try:
            weighting.check(weighting.evaluate(table.columns, table.rows))
        except DataError:
            raise FallbackRequired from None
    labels = {name: LabelColumn(np.empty(0, np.int32), column.values) for name, column in table.labels.items()}
    return dataclasses.replace(share, table=Table({}, table.rows, table.dropped, labels))


def assemble_partition(
    pieces: Sequence[ShareData],
    rows: Sequence[slice],
    checks: Sequence[int],
    recipe: ColumnRecipe,
    codes: Mapping[str, Mapping[Any, int]],
) -> Table:
    """Assemble a partition from rows of consecutive shares.

    Args:
        codes: the code of each label of each column, which is the same for all shares.

    Raises DataError if a share differs from when it was read first.
    """
    if [piece.checksum for piece in pieces] != [*checks]:
        raise DataError("the data changed during the fit: a worker that read them again found other numbers")
    columns: dict[str, NDArray[Any]] = {
        name: np.concatenate([piece.table.columns[name][part] for piece, part in zip(pieces, rows, strict=True)])
        for name in pieces[0].table.columns
    }
    for name, code_of in codes.items():
        labels = ((piece.table.labels[name], part) for piece, part in zip(pieces, rows, strict=True))
        codes_of = (([code_of[value] for value in column.values], column.codes[part]) for column, part in labels)
        columns[label_key(name)] = np.concatenate([np.array(new, np.int32)[old] for new, old in codes_of])
    count = sum(part.stop - part.start for part in rows)
    return Table(recipe.build(columns, recipe.names, count), count)


T = TypeVar("T")

_WORKER_TIMEOUT_SECONDS = 60.0  # seconds without any worker after which a fit fails
_MAX_RETRIES = 20  # repetitions of a computation after partitions were lost
_MAX_LOCAL_RESULTS = 64  # if there are more results, workers combine neighbours first
_MERGE_GROUP_SIZE = 16  # neighbours combined at a time; a power of two, to keep the order of the fold
_SCATTER_BYTES = 50_000  # larger values are sent to the workers once, and not with every task

_key_numbers = itertools.count()


class Partitions:
    """The partitions of some rows on a cluster. Each is a table of 2^k maximal blocks, except for the last one.

    Attributes:
        futures: Dask's future of each partition.
    """

    def __init__(self, futures: list[Future], send: Callable[[int], Table] | None) -> None:
        self.futures = futures
        self._make_partition = send

    def restore(self, client: Client, patience: float) -> bool:
        """Send partitions again that were lost with their workers, and return whether there were any.

        Dask itself repeats the reading of partitions that workers read. Raises TimeoutError if there is no worker for
        `patience` seconds.
        """
        lost = [k for k, future in enumerate(self.futures) if future.status in ("cancelled", "lost")]
        if self._make_partition is not None:
            for k in lost:
                self.futures[k] = client.scatter(self._make_partition(k), hash=False, timeout=patience)
        return bool(lost)


class Cluster:
    """A Dask scheduler and its workers.

    Args:
        client: a connected client that is not asynchronous.
        name: the name in messages.

    Attributes:
        workers, threads: the numbers of workers and of their threads when the cluster was connected.
    """

    def __init__(self, client: Client, name: str, workers: int, threads: int) -> None:
        self._client, self._name, self._worker_timeout = client, name, _WORKER_TIMEOUT_SECONDS
        self.workers, self.threads = workers, threads

    def scatter_partitions(self, make_partition: Callable[[int], Table], count: int) -> Partitions:
        """Send partitions to workers, and again if a worker dies.

        Args:
            make_partition: creates a partition, given its number.
        """
        return Partitions([self._client.scatter(make_partition(k), hash=False) for k in range(count)], make_partition)

    def create_partitions(
        self, function: Callable[..., Any], *arguments: Sequence[Any], common: Sequence[Any]
    ) -> Partitions:
        """Create partitions by a function on workers, and again if a worker dies."""
        return Partitions(self._submit(function, *arguments, common=common), None)

    def apply(self, parts: Partitions, function: Callable[..., Any], *common: Any) -> list[Any]:
        """Return the results of a function for all partitions. Raises what creating the partitions raised."""
        return self._compute_with_retries(parts, lambda: self._submit(function, parts.futures, common=common))

    def fold(self, parts: Partitions, task: Task[T]) -> T:
        """Fold a task over all partitions, combined in the order of `fold`.

        Raises ClusterError, and what the task raises.
        """
        content, combine_content = pickle.dumps(task, protocol=5), pickle.dumps(task.combine, protocol=5)

        def submit() -> list[Future]:
            futures = self._submit(run_task, parts.futures, common=[content])
            while len(futures) > _MAX_LOCAL_RESULTS:
                groups = [futures[group] for group in block_slices(len(futures), _MERGE_GROUP_SIZE)]
                futures = self._submit(combine_results, groups, common=[combine_content])
            return futures

        results: list[T] = [pickle.loads(content) for content in self._compute_with_retries(parts, submit)]
        return fold(results, task.combine)

    def gather_rows(
        self, parts: Partitions, which: Sequence[int], rows: Sequence[slice | NDArray[Any]]
    ) -> list[ColumnArrays]:
        """Return the columns of some rows of some partitions."""
        return self._compute_with_retries(
            parts, lambda: self._submit(take_rows, [parts.futures[k] for k in which], rows)
        )

    def _submit(
        self, function: Callable[..., Any], *arguments: Sequence[Any], common: Sequence[Any] = ()
    ) -> list[Future]:
        """Submit a task for each of the arguments; `common` arguments follow.

        Dask derives the key of a large named value from its name, so equal names in two calls would collide. All tasks
        here have explicit, unique keys.
        """
        count = len(arguments[0])
        names = [f"autodiff-{function.__name__}-{next(_key_numbers)}" for _ in range(count)]
        repeated = ([self._scatter_if_large(value)] * count for value in common)
        futures: list[Future] = self._client.map(function, *arguments, *repeated, key=names)
        return futures

    def _scatter_if_large(self, value: Any) -> Any:
        """Return the value, or a future of it if it is large, so that it is sent once and not with every task."""
        if isinstance(value, bytes) and len(value) > _SCATTER_BYTES:
            return self._client.scatter(value, hash=False)
        return value

    def _compute_with_retries(self, parts: Partitions, submit: Callable[[], list[Future]]) -> list[Any]:
        """Return the results of submitted tasks; submit them again if partitions were lost with a worker."""
        import asyncio

        from distributed import KilledWorker

        for _ in range(_MAX_RETRIES):
            try:
                results: list[Any] = self._client.sync(self._gather_async, submit())
                return results
            except KilledWorker as error:
                raise ClusterError(
                    f"{self._name}: {error.allowed_failures + 1} workers died while processing the same rows; "
                    "they may have too little memory"
                ) from None
            except (CancelledError, asyncio.CancelledError, OSError) as error:
                if self._client.status != "running":
                    raise ClusterError(f"{self._name}: the connection to the scheduler is lost") from error
                try:
                    if not parts.restore(self._client, self._worker_timeout):
                        time.sleep(0.1)  # a worker died just before it returned its result
                except TimeoutError:
                    raise self._no_workers_error() from error
        raise ClusterError(f"{self._name}: workers die faster than their rows can be sent to others")

    async def _gather_async(self, futures: list[Future]) -> list[Any]:
        """Return the results, and wait for them as long as there are workers."""
        import asyncio

        client = self._client
        gathering = asyncio.ensure_future(client.gather(futures, asynchronous=True))
        without_workers_since: float | None = None
        try:
            while not (await asyncio.wait([gathering], timeout=1.0))[0]:
                identity = await client.scheduler.identity(n_workers=1)
                if identity["total_threads"]:
                    without_workers_since = None
                elif without_workers_since is None:
                    without_workers_since = time.monotonic()
                elif time.monotonic() - without_workers_since > self._worker_timeout:
                    raise self._no_workers_error()
            results: list[Any] = gathering.result()
            return results
        finally:
            gathering.cancel()

    def _no_workers_error(self) -> ClusterError:
        return ClusterError(f"{self._name}: no worker has been available for {self._worker_timeout:g} seconds")


PARTITIONS_PER_WORKER = 2  # at most: with two, a fast worker can take over from a slow one
_MAX_PARTITION_ROWS = 2**26  # rows; limits the work that is repeated when a worker dies
_MAX_LOCAL_ROWS = 2**22  # a larger selection of rows goes back to the cluster


def partition_rows(rows: int, workers: int) -> int:
    """Return the number of rows in a partition.

    >>> partition_rows(10, 2), partition_rows(1_000_000, 2), partition_rows(10**12, 1000)
    (8192, 262144, 67108864)
    """
    return min(_MAX_PARTITION_ROWS, piece_rows(rows, PARTITIONS_PER_WORKER * workers))


class ClusterRows(Rows):
    """Rows on a cluster.

    Args:
        cluster: the cluster that holds them.
        parts: the partitions, in order.
        size: the number of rows in each partition except for the last one.
        names: the names of the columns.
    """

    def __init__(
        self, cluster: Cluster, parts: Partitions, rows: int, size: int, names: Set[str], *, dropped: int = 0
    ) -> None:
        self._cluster = cluster
        self._partitions = parts
        self._partition_rows = size
        self.rows, self.names, self.dropped = rows, names, dropped

    @classmethod
    def from_table(cls, cluster: Cluster, table: Table) -> ClusterRows:
        """Send the rows of a table to a cluster."""
        size = partition_rows(table.rows, cluster.workers)
        count = -(-table.rows // size)
        parts = cluster.scatter_partitions(lambda k: table.select_rows(slice(k * size, (k + 1) * size)), count)
        return cls(cluster, parts, table.rows, size, frozenset(table.columns), dropped=table.dropped)

    def fold(self, task: Task[T]) -> T:
        """Return the combined results of a task for all partitions.

        Raises ClusterError if the cluster fails for good.
        """
        try:
            return self._cluster.fold(self._partitions, task)
        except CompilationError:
            # What cannot be compiled there cannot be compiled here either: the task switches to another kernel.
            task(self.select_rows(slice(0, 1)).to_table().columns, 1)
            return self._cluster.fold(self._partitions, task)

    def select_rows(self, rows: RowIndex) -> Rows:
        """Return some of the rows: in memory, or on the cluster again if there are very many."""
        if isinstance(rows, slice) and rows.indices(self.rows) == (0, self.rows, 1):
            return self
        selected = super().select_rows(rows)
        is_large = selected.rows > _MAX_LOCAL_ROWS
        return ClusterRows.from_table(self._cluster, selected.to_table()) if is_large else selected

    def gather(self, numbers: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return all columns of the rows with these numbers."""
        of_part = numbers // self._partition_rows
        order = np.argsort(of_part, kind="stable")
        partition_numbers, begins = np.unique(of_part[order], return_index=True)
        row_lists = [
            _as_slice(part - k * self._partition_rows)
            for k, part in zip(partition_numbers, np.split(numbers[order], begins[1:]), strict=True)
        ]
        gathered = self._cluster.gather_rows(self._partitions, [int(k) for k in partition_numbers], row_lists)
        return {
            name: np.concatenate([columns[name] for columns in gathered], axis=-1)[..., np.argsort(order)]
            for name in (gathered[0] if gathered else ())
        }


def _as_slice(rows: NDArray[Any]) -> slice | NDArray[Any]:
    """Return row numbers as a slice if they are consecutive.

    >>> _as_slice(np.array([2, 3, 4])), _as_slice(np.array([2, 4, 3]))
    (slice(2, 5, None), array([2, 4, 3]))
    """
    begin, end = int(rows[0]), int(rows[-1]) + 1
    return slice(begin, end) if end - begin == len(rows) and (np.diff(rows) == 1).all() else rows


class ClusterData(FitData):
    """The columns that a model uses, read by workers from shares of the files.

    Args:
        shares: the shares of each file.

    Raises:
        FallbackRequired: if only a process that reads all rows can interpret the file, or name the problem.
        DataError: if a worker does not find a file, or if no row is left.
    """

    def __init__(
        self, cluster: Cluster, files: DataSource, shares: list[list[FileShare]], model: Model, options: FitOptions
    ) -> None:
        super().__init__(files, model, options)
        if any(weighting.values is not None for weighting in self.weightings.values()):
            raise FallbackRequired
        self._cluster = cluster
        flat = [*itertools.chain(*shares)]
        common = self.numeric, self.label_names, options.drop_missing
        self._shares = cluster.create_partitions(read_on_worker, flat, common=common)
        self._summaries: list[ShareData] = cluster.apply(self._shares, summarize_share, [*self.weightings.values()])
        remaining = iter(self._summaries)
        for file, own_shares in zip(files.files, shares, strict=True):
            counts = FilterCounts()
            for summary in itertools.islice(remaining, len(own_shares)):
                counts.add(summary.filter_counts)
            file.set_filter_counts(counts)
        self.rows = sum(summary.table.rows for summary in self._summaries)
        self._dropped = sum(summary.table.dropped for summary in self._summaries)
        self.selections = None if files.is_filtered or self._dropped else ()
        if not self.rows:
            raise FallbackRequired  # reading the data here gives the error message
        self._codes = {name: CodeTable() for name in self.label_names}
        for summary in self._summaries:
            for name, column in summary.table.labels.items():
                self._codes[name].codes(column.values)
        self.labels = self._labels_by_code({name: table.parsed() for name, table in self._codes.items()})

    def rows_by(self, recipe: ColumnRecipe) -> Rows:
        """Return the rows, with columns that are built by a recipe."""
        size = partition_rows(self.rows, self._cluster.workers)
        ends = [*itertools.accumulate(summary.table.rows for summary in self._summaries)]
        pieces, slices, checks = [], [], []
        for begin in range(0, self.rows, size):
            end = min(begin + size, self.rows)
            first, last = (int(np.searchsorted(ends, row, side="right")) for row in (begin, end - 1))
            used = [k for k in range(first, last + 1) if self._summaries[k].table.rows]
            starts = {k: ends[k] - self._summaries[k].table.rows for k in used}
            pieces.append([self._shares.futures[k] for k in used])
            slices.append([slice(max(begin - starts[k], 0), min(end, ends[k]) - starts[k]) for k in used])
            checks.append([self._summaries[k].checksum for k in used])
        codes = {name: dict(table) for name, table in self._codes.items()}
        parts = self._cluster.create_partitions(assemble_partition, pieces, slices, checks, common=[recipe, codes])
        self._cluster.apply(parts, check_has_rows)  # which computes the partitions
        return ClusterRows(self._cluster, parts, self.rows, size, recipe.names, dropped=self._dropped)


class ScatteredData(LoadedData):
    """Data that are read here as a whole and sent to a cluster."""

    def __init__(self, cluster: Cluster, dataset: Dataset, model: Model, options: FitOptions) -> None:
        super().__init__(dataset, model, options)
        self._cluster = cluster

    def rows_by(self, recipe: ColumnRecipe) -> Rows:
        """Return the rows on the cluster, with columns that are built by a recipe."""
        return ClusterRows.from_table(self._cluster, super().rows_by(recipe).to_table())


def open_on_cluster(
    cluster: Cluster, dataset: Dataset, model: Model, options: FitOptions
) -> ScatteredData | ClusterData:
    """Open data on a cluster: workers read the files if each can interpret its share; otherwise the data are read here.

    Raises the exceptions of `open_fit_data`.
    """
    if isinstance(dataset, DataSource) and all({*model.columns} <= {*file.names} for file in dataset.files):
        file_shares = divide_files(dataset, PARTITIONS_PER_WORKER * cluster.threads)
        if file_shares is not None:
            with contextlib.suppress(FallbackRequired):  # reading all rows here gives the data, or the error message
                return ClusterData(cluster, dataset, file_shares, model, options)
    return ScatteredData(cluster, dataset, model, options)

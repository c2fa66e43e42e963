"""A fit on a cluster: partitions of the rows on Dask workers, and tasks that are folded over them.

`Cluster` submits tasks, retries when workers die, and combines results. `ClusterRows` is the implementation of `Rows`:
a fold is one Dask task per partition. The functions before `Cluster` run on workers. Rows get there in two ways:
workers read shares of the files themselves (`ClusterData`), or the data are read here and sent (`ScatteredData`).
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import math
import operator
import pickle
import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends import protocol
from autodiff_cli.backends.protocol import CompilationError
from autodiff_cli.backends.reductions import block_slices, fold
from autodiff_cli.data.files import DataFile, FileCollection
from autodiff_cli.data.shares import FileShare, ShareData, divide_files, individual_files, read_share
from autodiff_cli.data.table import DataError, Dataset, FallbackRequired, Table, labels_from_texts
from autodiff_cli.language.names import TextMatch
from autodiff_cli.training.objective.kernels import LossGraphs, x_sigma_column
from autodiff_cli.training.objective.loading import Classes, LoadedData, check_classes, distinct_levels
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.options import ClusterError, FitOptions
from autodiff_cli.training.rows import (
    MAX_BLOCK_ROWS,
    WEIGHT,
    ColumnArrays,
    ColumnTask,
    EpochRun,
    MemoryRows,
    RowIndex,
    Rows,
    SumTask,
    Task,
    row_numbers,
)
from autodiff_cli.version import __version__

if TYPE_CHECKING:
    from distributed import Client, Future

    from autodiff_cli.data.files import DataSource
    from autodiff_cli.training.options import FitOptions


@dataclass(frozen=True, slots=True)
class Partition:
    """Some of the rows on a worker: 2^k maximal blocks, except for the last partition."""

    columns: ColumnArrays
    rows: int


@dataclass(frozen=True, slots=True)
class Installation:
    """The versions and hardware that must be equal on all machines for results to have the same bits.

    Attributes:
        program: the version of this package.
        numpy: the version of NumPy.
        vector_width: the number of doubles in a vector of compiled code; 0 if nothing is compiled.
    """

    program: str
    numpy: str
    vector_width: int


def current_installation() -> Installation:
    """Return the installation of this process."""
    width = 0
    if importlib.util.find_spec("llvmlite") is not None:
        from autodiff_cli.backends.llvm.machine_code import host_processor

        width = host_processor().width
    return Installation(__version__, np.__version__, width)


def run_task(partition: Partition, content: bytes) -> bytes:
    """Run a pickled task on a partition, and return the pickled result.

    Args:
        content: the pickled task, with the function that combines its results. A kernel in it is compiled when the
            first task with it arrives, for as many threads as the worker has.
    """
    from distributed import get_worker

    threads = get_worker().state.nthreads
    protocol.set_thread_limit(threads)
    task, combine = pickle.loads(content)
    if (
        threads == 1
        or partition.rows <= MAX_BLOCK_ROWS
        or (isinstance(task, SumTask) and protocol.is_shared(task.kernel))
    ):
        result = task(partition.columns, partition.rows)
    else:
        result = _run_threaded(partition, content, threads, combine)
    return pickle.dumps(result, protocol=5)


def _run_threaded(partition: Partition, content: bytes, threads: int, combine: Callable[[Any, Any], Any]) -> Any:
    """Run a task on several threads, each on pieces of the partition. The result has the same bits."""

    def of_piece(rows: slice) -> Any:
        task, _ = pickle.loads(content)  # the plan of a NumPy kernel is not thread-safe
        return task({name: column[..., rows] for name, column in partition.columns.items()}, rows.stop - rows.start)

    return fold(
        _thread_pool(threads).map(of_piece, block_slices(partition.rows, piece_rows(partition.rows, threads))), combine
    )


@functools.cache
def _thread_pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "autodiff")


def piece_rows(rows: int, pieces: int) -> int:
    """Return the number of rows in a piece, so that there are about `pieces` of them, or half as many.

    It is 2^k maximal blocks, so that the result of a fold has the same bits for any number of pieces.

    >>> piece_rows(10, 4), piece_rows(1_000_000, 4)
    (8192, 262144)
    """
    blocks = max(1.0, rows / (pieces * MAX_BLOCK_ROWS))
    return int(MAX_BLOCK_ROWS * 2 ** math.ceil(math.log2(blocks)))


def combine_results(results: Sequence[bytes], combine: bytes) -> bytes:
    """Combine pickled results of neighbouring partitions into one."""
    joined: Callable[[Any, Any], Any] = pickle.loads(combine)
    return pickle.dumps(fold(map(pickle.loads, results), joined), protocol=5)


def take_rows(partition: Partition, rows: slice | NDArray[np.intp]) -> ColumnArrays:
    """Return the columns of some rows of a partition, ready to be sent."""
    return {name: np.ascontiguousarray(column[..., rows]) for name, column in partition.columns.items()}


@dataclass(frozen=True, slots=True)
class ShareSummary:
    """The summary of a share of a file, without its columns. See `ShareData`.

    Attributes:
        weight_ranges: for columns of weights or errors: the minimum, the maximum, and whether any number is not 0.
    """

    rows: int
    dropped: int
    filtered_out: int
    texts: Mapping[str, list[str]]
    observed_texts: Mapping[str, list[str | None]]
    checksum: int
    weight_ranges: Mapping[str, tuple[float, float, bool]]


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """A plan to build the columns that kernels read from those of a share.

    Attributes:
        numeric: the columns that are used as they are.
        weight: the column of weights, and whether it holds standard deviations instead.
        renamed: the names in the share, by the names that kernels read.
        encoded: by the name that kernels read, the column of texts and the number for each text.
        vectors: the columns of each vector, by its name.
    """

    numeric: tuple[str, ...]
    weight: tuple[str, bool] | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    encoded: Mapping[str, tuple[str, Mapping[str, float]]] = field(default_factory=dict)
    vectors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        """The columns that the plan builds."""
        return {*self.numeric, *self.renamed, *self.encoded, *self.vectors, *([] if self.weight is None else [WEIGHT])}

    def build(self, share: ShareData, rows: slice) -> dict[str, NDArray[Any]]:
        """Return these columns for some rows, except for vectors."""
        columns = {name: share.columns[name][rows] for name in self.numeric}
        columns |= {name: share.columns[source][rows] for name, source in self.renamed.items()}
        for name, (column, number_of_text) in self.encoded.items():
            values = np.array([number_of_text[text] for text in share.texts[column]], np.float64)
            columns[name] = values[share.columns[column][rows]]
        if self.weight is not None:
            column, is_sigma = self.weight
            values = np.asarray(share.columns[column][rows], np.float64)
            columns[WEIGHT] = 1 / np.square(values) if is_sigma else values
        return columns


def read_on_worker(share: FileShare, wanted: Collection[str], texts: Collection[str], drop_missing: bool) -> ShareData:
    """Read a share. Raises as `read_share` does; a message about a file that cannot be read names the worker."""
    from distributed import get_worker

    try:
        return read_share(share, wanted, texts, drop_missing=drop_missing)
    except DataError as error:
        raise DataError(
            f"the worker {get_worker().address} cannot read {error}; "
            "each worker must find the file under this name, unchanged since the fit began"
        ) from None


def summarize_share(share: ShareData, counting: Collection[str]) -> ShareSummary:
    """Return the summary of a share."""
    weight_ranges = {}
    for name in counting:
        column = share.columns[name]
        if len(column):
            weight_ranges[name] = float(column.min()), float(column.max()), bool(column.any())
    return ShareSummary(
        share.rows, share.dropped, share.filtered_out, share.texts, share.observed_texts, share.checksum, weight_ranges
    )


def assemble_partition(
    pieces: Sequence[ShareData], rows: Sequence[slice], checks: Sequence[int], plan: ColumnPlan
) -> Partition:
    """Assemble a partition from rows of consecutive shares.

    Raises DataError if a share differs from when it was read first.
    """
    if [piece.checksum for piece in pieces] != [*checks]:
        raise DataError("the data changed during the fit: a worker that read them again found other numbers")
    built = [plan.build(piece, part) for piece, part in zip(pieces, rows, strict=True)]
    columns = {name: np.concatenate([part[name] for part in built]) for name in built[0]}
    for name, names in plan.vectors.items():
        columns[name] = np.stack([columns[each] for each in names])
    return Partition(columns, sum(part.stop - part.start for part in rows))


def has_rows(partition: Partition) -> bool:
    """Whether a partition has rows; as a task it forces the partition to be computed."""
    return partition.rows > 0


T = TypeVar("T")

_WORKER_TIMEOUT_SECONDS = 60.0  # without any worker, before a fit fails
_MAX_RETRIES = 20  # per computation, after partitions were lost
_MAX_LOCAL_RESULTS = 64  # if there are more results, workers combine neighbours first
_MERGE_GROUP_SIZE = 16  # neighbours combined at a time; a power of two, to keep the order of the fold
_SCATTER_BYTES = 50_000  # larger values are sent to the workers once, and not with every task

_key_numbers = itertools.count()


class Partitions:
    """The partitions of some rows on a cluster.

    Attributes:
        futures: Dask's future of each partition.
    """

    def __init__(self, futures: list[Future], send: Callable[[int], Partition] | None) -> None:
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
        worker_timeout: the number of seconds for which no worker may be available.

    Attributes:
        workers, threads: the numbers of workers and of their threads when the cluster was connected.
    """

    def __init__(
        self, client: Client, name: str, workers: int, threads: int, worker_timeout: float = _WORKER_TIMEOUT_SECONDS
    ) -> None:
        self._client = client
        self._name = name
        self._worker_timeout = worker_timeout
        self.workers, self.threads = workers, threads

    def scatter_partitions(self, make_partition: Callable[[int], Partition], count: int) -> Partitions:
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

    def fold(self, parts: Partitions, task: Task[T], combine: Callable[[T, T], T]) -> T:
        """Fold a task over all partitions, combined in the order of `fold`.

        Raises ClusterError, and what the task raises.
        """
        content = pickle.dumps((task, combine), protocol=5)
        combine_content = pickle.dumps(combine, protocol=5)

        def submit() -> list[Future]:
            futures = self._submit(run_task, parts.futures, common=[content])
            while len(futures) > _MAX_LOCAL_RESULTS:
                groups = [futures[group] for group in block_slices(len(futures), _MERGE_GROUP_SIZE)]
                futures = self._submit(combine_results, groups, common=[combine_content])
            return futures

        results: list[T] = [pickle.loads(content) for content in self._compute_with_retries(parts, submit)]
        return fold(results, combine)

    def gather_rows(
        self, parts: Partitions, which: Sequence[int], rows: Sequence[slice | NDArray[Any]]
    ) -> list[ColumnArrays]:
        """Return the columns of some rows of some partitions."""

        def submit() -> list[Future]:
            return self._submit(take_rows, [parts.futures[k] for k in which], rows)

        return self._compute_with_retries(parts, submit)

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
        from concurrent.futures import CancelledError

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


PARTITIONS_PER_WORKER = 2  # at most; with two, a fast worker can take over from a slow one
_MAX_PARTITION_ROWS = 2**26  # limits what is read again when a worker dies
_MAX_LOCAL_ROWS = 2**22  # a larger selection of rows goes back to the cluster


def partition_rows(rows: int, workers: int) -> int:
    """Return the number of rows in a partition.

    >>> partition_rows(10, 2), partition_rows(1_000_000, 2), partition_rows(10**12, 1000)
    (8192, 262144, 67108864)
    """
    return min(_MAX_PARTITION_ROWS, piece_rows(rows, PARTITIONS_PER_WORKER * workers))


class ClusterRows:
    """Rows on a cluster. Implements `Rows`.

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
        self._weight: float | None = None

    @classmethod
    def from_table(cls, cluster: Cluster, table: Table) -> ClusterRows:
        """Send the rows of a table to a cluster."""
        size = partition_rows(table.rows, cluster.workers)
        columns = table.columns

        def part(k: int) -> Partition:
            rows = slice(k * size, min((k + 1) * size, table.rows))
            return Partition({name: column[..., rows] for name, column in columns.items()}, rows.stop - rows.start)

        parts = cluster.scatter_partitions(part, -(-table.rows // size))
        return cls(cluster, parts, table.rows, size, columns.keys(), dropped=table.dropped)

    def fold(self, task: Task[T], combine: Callable[[T, T], T]) -> T:
        """Return the combined results of a task for all partitions.

        Raises ClusterError if the cluster fails for good.
        """
        try:
            return self._cluster.fold(self._partitions, task, combine)
        except CompilationError:
            # What cannot be compiled there cannot be compiled here either: the task switches to another kernel.
            task(self.select_rows(slice(0, 1)).to_table().columns, 1)
            return self._cluster.fold(self._partitions, task, combine)

    def select_rows(self, rows: RowIndex) -> Rows:
        """Return some of the rows: in memory, or on the cluster again if there are very many."""
        if isinstance(rows, slice) and rows.indices(self.rows) == (0, self.rows, 1):
            return self
        table = self._gather_table(row_numbers(rows, self.rows))
        return MemoryRows(table) if table.rows <= _MAX_LOCAL_ROWS else ClusterRows.from_table(self._cluster, table)

    def run_epoch(self, epoch: EpochRun) -> float:
        """Run an epoch over the rows and return the mean loss. The options ensure that it is a single batch."""
        if self.rows <= MAX_BLOCK_ROWS:  # a single block; in memory the order of the rows is random too
            return MemoryRows(self.to_table()).run_epoch(epoch)
        assert epoch.batch_rows >= self.rows, "mini-batches"
        return epoch.run_full_batch(self._total_weight(), lambda sums, at: self.fold(SumTask(sums, at), np.add))

    def to_table(self) -> Table:
        """Return all rows in memory."""
        return self._gather_table(np.arange(self.rows))

    def _total_weight(self) -> float:
        """Return the sum of the weights."""
        if self._weight is None:
            weights = ColumnTask(frozenset({WEIGHT}), _block_weight, operator.add)
            self._weight = self.fold(weights, operator.add) if WEIGHT in self.names else float(self.rows)
        return self._weight

    def _gather_table(self, rows: NDArray[Any]) -> Table:
        """Return these rows, in this order, in memory."""
        of_part = rows // self._partition_rows
        order = np.argsort(of_part, kind="stable")
        partition_numbers, begins = np.unique(of_part[order], return_index=True)
        wanted = [
            _as_slice(part - k * self._partition_rows)
            for k, part in zip(partition_numbers, np.split(rows[order], begins[1:]), strict=True)
        ]
        gathered = self._cluster.gather_rows(self._partitions, [int(k) for k in partition_numbers], wanted)
        inverse_order = None if (np.diff(order) == 1).all() else np.argsort(order)
        columns: dict[str, NDArray[Any]] = {}
        for name in gathered[0] if gathered else ():
            joined = np.concatenate([columns[name] for columns in gathered], axis=-1)
            columns[name] = joined if inverse_order is None else joined[..., inverse_order]
        return Table(columns, len(rows), self.dropped)


def _as_slice(rows: NDArray[Any]) -> slice | NDArray[Any]:
    """Return row numbers as a slice if they are consecutive."""
    begin, end = int(rows[0]), int(rows[-1]) + 1
    return slice(begin, end) if end - begin == len(rows) and (np.diff(rows) == 1).all() else rows


def _block_weight(columns: ColumnArrays) -> float:
    return float(np.sum(columns[WEIGHT]))


class ClusterData:
    """The columns that a model uses, read by workers from shares of the files. See `LoadedData` for the methods.

    Args:
        shares: the shares of each file.

    Raises:
        NotPlain: if only a process that reads all rows can interpret the file, or say what is wrong with it.
        DataError: if a worker does not find a file, or if no row is left.
    """

    def __init__(
        self, cluster: Cluster, files: DataSource, shares: list[list[FileShare]], model: Model, options: FitOptions
    ) -> None:
        self._cluster = cluster
        self._weight = None if options.weights is None else (_column_name(options.weights), False)
        if options.sigma is not None:
            self._weight = _column_name(options.sigma), True
        self._renamed = {x_sigma_column(name): _column_name(given) for name, given in options.x_errors.items()}
        classes = model.class_column
        self._numeric = tuple(sorted({*model.numeric, *options.column_names} - {classes}))
        self._label_columns = tuple(dict.fromkeys([*([] if classes is None else [classes]), *model.label_columns]))
        flat = [*itertools.chain(*shares)]
        common = self._numeric, self._label_columns, options.drop_missing
        self._shares = cluster.create_partitions(read_on_worker, flat, common=common)
        self._summaries: list[ShareSummary] = cluster.apply(self._shares, summarize_share, options.column_names)
        begin = 0
        for file, own in zip(individual_files(files), shares, strict=True):
            own_summaries, begin = self._summaries[begin : begin + len(own)], begin + len(own)
            observed: dict[str, dict[str | None, None]] = {}
            for fact in own_summaries:
                for name, texts in fact.observed_texts.items():
                    observed.setdefault(name, {}).update(dict.fromkeys(texts))
            kept_rows = sum(fact.rows + fact.dropped for fact in own_summaries)
            file.note_filter_result(
                kept_rows,
                kept_rows + sum(fact.filtered_out for fact in own_summaries),
                {n: [*texts] for n, texts in observed.items()},
            )
        self.rows = sum(fact.rows for fact in self._summaries)
        self._dropped = sum(fact.dropped for fact in self._summaries)
        if not self.rows or not self._has_valid_weights():
            raise FallbackRequired
        self.is_weighted = self._weight is not None
        self._encoded: dict[str, tuple[str, Mapping[str, float]]] = {}
        self._labels = {name: self._labels_of_texts(name) for name in self._label_columns}

    def encode_classes(self, name: str) -> Classes:
        """Use the positions of labels among the classes for a column, and return the classes. Raises DataError."""
        texts, labels = self._labels[name]
        distinct, positions = np.unique(labels, return_inverse=True)
        classes = check_classes(distinct, self.rows, name)
        self._encoded[name] = name, dict(zip(texts, map(float, positions), strict=True))
        return classes

    def levels(self, name: str) -> tuple[Any, ...]:
        """Return the different labels of a column, sorted."""
        return distinct_levels(self._labels[name][1])

    def add_indicators(self, matches: Mapping[str, TextMatch]) -> list[str]:
        """Add indicator columns by the names of their leaves; return the names of those that are 0 in all rows."""
        empty = []
        for name, match in matches.items():
            texts, labels = self._labels[match.column]
            is_level = (labels.astype(str) == match.text).astype(np.float64)
            self._encoded[name] = match.column, dict(zip(texts, is_level.tolist(), strict=True))
            if not is_level.any():
                empty.append(name)
        return empty

    def build_rows(self, graphs: LossGraphs) -> ClusterRows:
        """Return the rows, with the columns that the graphs read."""
        plan = ColumnPlan(self._numeric, self._weight, self._renamed, self._encoded, graphs.vectors)
        size = partition_rows(self.rows, self._cluster.workers)
        ends = [*itertools.accumulate(fact.rows for fact in self._summaries)]
        pieces, slices, checks = [], [], []
        for begin in range(0, self.rows, size):
            end = min(begin + size, self.rows)
            first, last = (int(np.searchsorted(ends, row, side="right")) for row in (begin, end - 1))
            used = [k for k in range(first, last + 1) if self._summaries[k].rows]
            starts = {k: ends[k] - self._summaries[k].rows for k in used}
            pieces.append([self._shares.futures[k] for k in used])
            slices.append([slice(max(begin - starts[k], 0), min(end, ends[k]) - starts[k]) for k in used])
            checks.append([self._summaries[k].checksum for k in used])
        parts = self._cluster.create_partitions(assemble_partition, pieces, slices, checks, common=[plan])
        self._cluster.apply(parts, has_rows)
        return ClusterRows(self._cluster, parts, self.rows, size, plan.names, dropped=self._dropped)

    def _has_valid_weights(self) -> bool:
        """Whether all weights and errors are valid. Otherwise the data are read here, which gives the error message."""
        for name, is_sigma in [
            *([] if self._weight is None else [self._weight]),
            *((n, False) for n in self._renamed.values()),
        ]:
            limits = [fact.weight_ranges[name] for fact in self._summaries if name in fact.weight_ranges]
            if any(low < 0 or (is_sigma and low == 0) or math.isinf(high) for low, high, _ in limits):
                return False
        return self._weight is None or any(
            fact.weight_ranges.get(self._weight[0], (0, 0, False))[2] for fact in self._summaries
        )

    def _labels_of_texts(self, name: str) -> tuple[list[str], NDArray[Any]]:
        """Return the different texts of a column, and the label of each."""
        texts = [*dict.fromkeys(itertools.chain(*(fact.texts[name] for fact in self._summaries)))]
        return texts, labels_from_texts(texts, name)


def _column_name(given: Any) -> str:
    """Return the name of a column. Raises NotPlain for an array."""
    if not isinstance(given, str):
        raise FallbackRequired
    return given


class ScatteredData(LoadedData):
    """Data that are read here as a whole and sent to a cluster."""

    def __init__(self, cluster: Cluster, dataset: Dataset, model: Model, options: FitOptions) -> None:
        super().__init__(dataset, model, options)
        self._cluster = cluster

    def build_rows(self, graphs: LossGraphs) -> Rows:
        """Return the rows on the cluster, with the columns that the graphs read."""
        return ClusterRows.from_table(self._cluster, super().build_rows(graphs).to_table())


def open_on_cluster(
    cluster: Cluster, dataset: Dataset, model: Model, options: FitOptions
) -> ScatteredData | ClusterData:
    """Open data on a cluster: workers read the files if each can interpret its share; otherwise the data are read here.

    Raises the exceptions of `open_fit_data`.
    """
    has_all_columns = {*model.columns, *options.column_names} <= {*dataset.names}
    file_shares = None
    if has_all_columns and isinstance(dataset, DataFile | FileCollection):
        file_shares = divide_files(dataset, PARTITIONS_PER_WORKER * cluster.threads)
    if file_shares is not None and isinstance(dataset, DataFile | FileCollection):
        try:
            return ClusterData(cluster, dataset, file_shares, model, options)
        except FallbackRequired:
            pass  # reading the whole file here gives the data, or the error message
    return ScatteredData(cluster, dataset, model, options)

"""A fit to rows on a cluster is the one in memory, to the last bit."""

from __future__ import annotations

import asyncio
import re
import signal
import time
from concurrent.futures import CancelledError
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.backends.protocol import CompilationError
from autodiff_cli.data.table import DataError, Table
from autodiff_cli.options import OptionError
from autodiff_cli.training.objective import cluster as on_worker
from autodiff_cli.training.objective import cluster_connection
from autodiff_cli.training.objective.cluster import ClusterRows, partition_rows
from autodiff_cli.training.objective.cluster_connection import _block_interrupts, connect_cluster
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.options import ClusterError
from tests.each import each
from tests.training.cluster.support import local_cluster

distributed = pytest.importorskip("distributed")

ROWS = 30_000
MODEL = "y ~ a*exp(-b*x) + c"


def data() -> dict[str, Any]:
    generator = np.random.default_rng(5)
    x = generator.uniform(0, 3, ROWS)
    y = 2 * np.exp(-1.3 * x) + 0.3 + generator.normal(size=ROWS) * 0.05
    return {
        "x": x,
        "y": y,
        "w": generator.uniform(0, 2, ROWS),
        "s": generator.uniform(0.1, 0.2, ROWS),
        "g": np.array(["A", "B", "C"])[generator.integers(0, 3, ROWS)],
        "k": (x + generator.normal(size=ROWS) > 1.5).astype(np.int64),
        "n": generator.poisson(np.exp(0.3 * x)),
    }


DATA = data()


FITS: dict[str, tuple[str, dict[str, Any]]] = {
    "least squares": (MODEL, {}),
    "compiled": (MODEL, {"backend": "llvm"}),
    "weights": (MODEL, {"weights": "w", "loss": "huber"}),
    "errors in y": (MODEL, {"sigma": "s", "absolute_sigma": True}),
    "errors in x": (MODEL, {"sigma": "s", "x_sigma": {"x": "s"}, "start": {"a": 2}}),
    "robust": (MODEL, {"loss": "cauchy", "optimizer": "lbfgs"}),
    "absolute values": (MODEL, {"loss": "mae"}),
    "a bad start": (MODEL, {"start": {"b": -5}, "epochs": 50}),
    "several starts": (MODEL, {"starts": 3, "epochs": 10}),
    "between bounds": (MODEL, {"bounds": {"b": (0, 1)}}),
    "a penalty": (MODEL, {"l2": 0.01}),
    "all rows at each step": (MODEL, {"optimizer": "adam", "epochs": 30, "learning_rate": 0.05, "weights": "w"}),
    "levels": ("y ~ a[g]*exp(-b*x) + c", {}),
    "text": ("y ~ a*exp(-b*x) + c*(g == 'A')", {}),
    "classes": ("k ~ softmax([0, a*x + b])", {}),
    "counts": ("n ~ exp(a*x + b)", {"family": "poisson"}),
    "a likelihood": ("exp(a*x + b) - n*(a*x + b)", {"likelihood": True}),
    "vectors": ("y ~ dot(v, [x, x^2, 1])", {"start": {"v": [0.0, 0.0, 0.0]}}),
    "a network": ("y ~ mlp(x, [4], tanh)", {"epochs": 10, "diagnosis": True}),
    "many parameters": ("y ~ mlp(x, [90, 90], tanh)", {"epochs": 2}),
    "rows held out": (MODEL, {"validation": 0.2, "optimizer": "adam", "epochs": 10}),
    "profile": ("y ~ a*exp(-1.3*x) + c", {"profile": True}),
    "plot": (MODEL, {"plot": True}),
}


SHORT = {"compiled", "classes"}
# By hand: streamed rows, whose code a cluster shares, are tried with these options too.
BY_HAND = {"absolute values", "a penalty", "errors in y", "profile", "several starts", "text"}


def marks(name: str) -> list[pytest.MarkDecorator]:
    """When a fit on a cluster is tried."""
    return [] if name in SHORT else [pytest.mark.exhaustive if name in BY_HAND else pytest.mark.slow]


@pytest.mark.sampled
@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in FITS])
def test_the_fit_has_the_same_bits(name: str, client: Any) -> None:
    model, options = FITS[name]
    some = {name: column[:17_000] for name, column in DATA.items()}  # two whole chunks and a part
    here, there = ad.fit(model, some, **options), ad.fit(model, some, cluster=client, **options)
    assert repr(there) == repr(here)
    for one, other in zip(there.history, here.history, strict=True):
        assert one == other
    assert (there.covariance is None) == (here.covariance is None)
    if here.covariance is not None:
        np.testing.assert_array_equal(there.covariance, here.covariance)


@pytest.mark.slow
@each("options", [{}, {"weights": "w", "loss": "huber"}], ids=str)
def test_groups_have_the_same_bits(options: dict[str, Any], client: Any) -> None:
    here = ad.fit_by(MODEL, DATA, "g", **options)
    assert repr(ad.fit_by(MODEL, DATA, "g", cluster=client, **options)) == repr(here)


@pytest.mark.slow
@each("rows", [1, 7, 8192, 8193, 3 * 8192 + 1, ROWS])
def test_any_number_of_rows_has_the_bits_of_memory(rows: int, client: Any) -> None:
    some = {name: DATA[name][:rows] for name in ("x", "y", "w")}
    here = Objective("y ~ a*sin(b*x)", some, weights="w")
    with connect_cluster(client) as cluster:
        assert cluster is not None
        there = here.with_rows(ClusterRows.from_table(cluster, here.table))
        theta = [0.7, 1.9]
        assert there.value(theta) == here.value(theta)
        np.testing.assert_array_equal(there.triangle(theta), here.triangle(theta))
        np.testing.assert_array_equal(there.hessian(theta), here.hessian(theta))


@pytest.mark.slow
@each("options", [{}, {"backend": "llvm"}], ids=str)
def test_workers_with_several_threads_have_the_same_bits(options: dict[str, Any]) -> None:
    here = ad.fit(MODEL, DATA, **options)
    with local_cluster(1, threads=3) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        there = ad.fit(MODEL, DATA, cluster=client, **options)
    assert repr(there) == repr(here)
    on_worker._thread_pool(3).shutdown()
    on_worker._thread_pool.cache_clear()


@pytest.mark.slow
def test_very_many_parts_are_put_together_by_workers(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 90 * 8192 + 5
    columns = {"x": np.linspace(0, 3, rows), "y": np.sin(np.arange(rows))}
    here = Objective("y ~ a*sin(b*x)", columns)
    monkeypatch.setattr("autodiff_cli.training.objective.cluster.PARTITIONS_PER_WORKER", 1000)
    with connect_cluster(client) as cluster:
        assert cluster is not None
        there = here.with_rows(ClusterRows.from_table(cluster, here.table))
        assert len(there.data._partitions.futures) == 91  # type: ignore[attr-defined]
        np.testing.assert_array_equal(there.value_and_grad([0.7, 1.9])[1], here.value_and_grad([0.7, 1.9])[1])
        np.testing.assert_array_equal(there.score_triangle([0.7, 1.9]), here.score_triangle([0.7, 1.9]))


def test_parts_depend_on_the_workers_and_results_do_not() -> None:
    sizes = {partition_rows(10_000_000, threads) for threads in (1, 2, 3, 100)}
    assert len(sizes) > 1
    assert all(size % 8192 == 0 and (size // 8192).bit_count() == 1 for size in sizes)


@each(
    "rows",
    [
        slice(None),
        slice(5, 6),
        slice(8190, 8195),
        slice(10, 28_000, 777),
        np.array([29_000, 3, 3, 20_000]),
        np.array([29_000, 20_000, 3]),
        np.arange(ROWS) % 1000 == 1,
    ],
    ids=str,
)
def test_selected_rows_come_in_the_requested_order(rows: Any, client: Any) -> None:
    table = Table({"x": DATA["x"], "v": np.arange(2 * ROWS).reshape(2, ROWS)}, ROWS, 4)
    with connect_cluster(client) as cluster:
        assert cluster is not None
        found = ClusterRows.from_table(cluster, table).select_rows(rows).to_table()
    np.testing.assert_array_equal(found.columns["x"], DATA["x"][rows])
    np.testing.assert_array_equal(found.columns["v"], table.columns["v"][:, rows])
    assert found.rows == len(DATA["x"][rows])


def test_what_was_lost_is_sent_again(client: Any) -> None:
    here = Objective(MODEL, {name: DATA[name] for name in "xy"})
    with connect_cluster(client) as cluster:
        assert cluster is not None
        rows = ClusterRows.from_table(cluster, here.table)
        there = here.with_rows(rows)
        assert there.value([1, 1, 1]) == here.value([1, 1, 1])
        client.cancel([rows._partitions.futures[1]], force=True)  # as Dask forgets what died with its worker
        assert there.value([2, 1, 1]) == here.value([2, 1, 1])


@pytest.mark.slow
def test_what_cannot_be_compiled_runs_on_numpy_there_too(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise CompilationError("no machine code today")

    monkeypatch.setattr("autodiff_cli.backends.llvm.runtime.compile_module", fails)
    model = "y ~ a*exp(-b*x) + c/2"  # not compiled before
    here, there = (ad.fit(model, DATA, backend="llvm", cluster=given) for given in (None, client))
    assert there.parameters == here.parameters
    assert there.notes == here.notes
    assert any("NumPy" in note for note in there.notes)


def test_an_error_of_the_data_is_that_of_memory(client: Any) -> None:
    for columns in ({"x": DATA["x"], "y": DATA["y"] - 5}, {"x": DATA["x"], "y": np.where(DATA["x"] > 2.9, np.nan, 1)}):
        said = []
        for given in (None, client):
            with pytest.raises(DataError) as caught:
                ad.fit("log(y) ~ a + b*x", columns, cluster=given)
            said.append(str(caught.value))
        assert said[0] == said[1]


def test_mini_batches_and_draws_of_all_rows_are_refused_by_name(client: Any) -> None:
    with pytest.raises(OptionError, match="a mini-batch needs rows"):
        ad.fit(MODEL, DATA, cluster=client, batch_size=32, optimizer="adam")
    with pytest.raises(OptionError, match="a resample needs rows"):
        ad.fit(MODEL, DATA, cluster=client, bootstrap=50)
    with pytest.raises(OptionError, match="cluster cannot be combined with stream"):
        ad.fit(MODEL, DATA, cluster=client, stream=True)


def test_a_cluster_without_workers_is_reported_at_once() -> None:
    with (
        local_cluster(0) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("autodiff_cli.training.objective.cluster_connection._FIRST_WORKER_SECONDS", 0.2)
        with pytest.raises(OptionError, match="has no worker; start some with `dask worker`"):
            ad.fit(MODEL, DATA, cluster=client)


@pytest.mark.slow
def test_workers_that_go_for_good_end_the_fit() -> None:
    with (
        local_cluster(1) as local,
        distributed.Client(local, set_as_default=False) as client,
        connect_cluster(client) as cluster,
    ):
        assert cluster is not None
        cluster._worker_timeout = 0.5
        rows = ClusterRows.from_table(cluster, Table({"x": DATA["x"]}, ROWS))
        local.scale(0)
        begun = time.monotonic()
        with pytest.raises(ClusterError, match="no worker has been available"):
            rows.to_table()
        assert time.monotonic() - begun < 30


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("localhost:9", "cluster localhost:9: no Dask scheduler answers there"),
        ("nohost.invalid:8786", "no Dask scheduler answers there"),
        ("local:0", "local:N starts 1 to 256 workers"),
        ("local:many", "not `many`"),
        ("nonsense://x", "this is not an address"),
        (3, "a dask.distributed client, not int"),
    ],
)
def test_what_is_no_cluster_is_named_within_seconds(given: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autodiff_cli.training.objective.cluster_connection._CONNECT_SECONDS", 1.0)
    begun = time.monotonic()
    with pytest.raises(OptionError, match=said):
        ad.fit(MODEL, DATA, cluster=given)
    assert time.monotonic() - begun < 10


def test_clients_that_cannot_be_used_here_are_refused(client: Any) -> None:
    from distributed import Client

    other = Client(client.scheduler.address, set_as_default=False)
    other.close()
    with pytest.raises(OptionError, match="the client is not connected"):
        ad.fit(MODEL, DATA, cluster=other)


def test_without_dask_the_message_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(OptionError, match="pip install distributed"):
        ad.fit(MODEL, DATA, cluster="local:2")


def test_processes_that_cannot_be_started_are_a_reason_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_connection, "_start_local", mock.Mock(side_effect=OSError("no more processes")))
    with pytest.raises(OptionError, match=r"local:2: its processes could not be started \(no more processes\)"):
        ad.fit(MODEL, DATA, cluster="local:2")


def test_workers_that_are_not_as_this_machine_are_refused(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    here = on_worker.current_installation()
    monkeypatch.setattr(on_worker, "current_installation", lambda: {**here, "NumPy": "1.0"})
    monkeypatch.setattr(client, "run", lambda *_, **__: {"tcp://far": here})
    with pytest.raises(OptionError, match="tcp://far has NumPy"):
        ad.fit(MODEL, DATA, cluster=client)


def test_a_part_pickles() -> None:
    import pickle

    part = pickle.loads(pickle.dumps(Table({"x": np.arange(3.0)}, 3)))
    assert part.columns["x"].tolist() == [0, 1, 2]


class _Scheduler:
    """A client of workers that come and go as a script says.

    Args:
        gathered: what each attempt to gather results gives: a result, an exception to raise, or None for no answer.
        threads: the threads of all workers, each time that someone asks for them.
        restoring: an exception to raise where lost rows are sent again.
    """

    def __init__(self, gathered: list[Any], threads: list[int], restoring: Exception | None, status: str) -> None:
        self.gathered, self.threads, self.restoring, self.status = iter(gathered), iter(threads), restoring, status
        self.scheduler, self.sent = self, 0

    def sync(self, function: Any, *arguments: Any) -> Any:
        return asyncio.run(function(*arguments))

    async def gather(self, *_: Any, asynchronous: bool) -> Any:
        assert asynchronous
        answer = next(self.gathered, None)
        if isinstance(answer, BaseException):
            raise answer
        while answer is None:
            await asyncio.sleep(3600)
        return answer

    async def identity(self, **_: Any) -> dict[str, int]:
        return {"total_threads": next(self.threads)}

    def scatter(self, *_: Any, **__: Any) -> SimpleNamespace:
        self.sent += 1
        if self.restoring is not None:
            raise self.restoring
        return SimpleNamespace(status="finished")


@each(
    ("gathered", "threads", "restoring", "status", "expected"),
    [
        ([["found"]], [], None, "running", "found"),
        ([CancelledError(), ["found"]], [], None, "running", "found"),
        ([None], [0, 2, 0, 0], None, "running", "c: no worker has been available for 0 seconds"),
        ([None], [0, 0], None, "running", "c: no worker has been available for 0 seconds"),
        ([CancelledError()], [], TimeoutError(), "running", "c: no worker has been available for 0 seconds"),
        ([CancelledError()], [], None, "closed", "c: the connection to the scheduler is lost"),
        ([OSError()] * 99, [], None, "running", "c: workers die faster than their rows can be sent to others"),
        ([distributed.KilledWorker("task", None, 3)], [], None, "running", "c: 4 workers died while"),
    ],
)
def test_results_are_gathered_until_there_are_no_workers(
    gathered: list[Any], threads: list[int], restoring: Exception | None, status: str, expected: str
) -> None:
    client, wait = _Scheduler(gathered, threads, restoring, status), asyncio.wait
    cluster, lost = on_worker.Cluster(client, "c", 1, 1), SimpleNamespace(status="lost")
    cluster._worker_timeout = 0
    parts = on_worker.Partitions([lost, SimpleNamespace(status="finished")], str)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(asyncio, "wait", lambda awaited, timeout: wait(awaited, timeout=0.001 * timeout))
        patched.setattr(time, "sleep", lambda _: None)
        if expected == "found":
            assert cluster._compute_with_retries(parts, list) == ["found"]
            assert client.sent == len(gathered) - 1
            return
        with pytest.raises(ClusterError, match=re.escape(expected)):
            cluster._compute_with_retries(parts, list)
    assert not [*client.threads]


def test_workers_are_started_without_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in a terminal reaches all processes, of which the first one is to end the others."""
    with _block_interrupts():
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    monkeypatch.delattr(signal, "pthread_sigmask")  # as on Windows
    with _block_interrupts():
        pass

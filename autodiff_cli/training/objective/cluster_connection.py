"""Connecting to a cluster: from an address, `local`, or a connected client to a `Cluster`.

Every fit imports this module. Modules that only a cluster needs (asyncio, logging, the code for workers) are imported
inside functions.
"""

from __future__ import annotations

import contextlib
import importlib.util
import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autodiff_cli.options import OptionError

if TYPE_CHECKING:
    from distributed import Client

    from autodiff_cli.training.objective.cluster import Cluster
    from autodiff_cli.training.options import FitOptions


_CONNECT_SECONDS = 5.0  # seconds to wait for the answer of a scheduler
_FIRST_WORKER_SECONDS = 10.0  # seconds to wait for the first worker of a scheduler
_STARTUP_SECONDS = 60.0  # seconds to wait for local workers, which start slowly on a busy machine
_SHUTDOWN_SECONDS = 20.0  # seconds to wait for the end of local workers
_MAX_LOCAL_WORKERS = 256  # processes; more are certainly a mistake
_ALLOWED_FAILURES = 20  # deaths of local workers at the same rows; they may have other causes
_NOISY_LOGGERS = ("distributed", "tornado", "asyncio")

_NOT_INSTALLED = "cluster needs Dask's scheduler, which is not installed: pip install distributed"


def local_workers(address: str) -> int | None:
    """Return the number of workers that `local` or `local:N` asks for; None for the address of a scheduler.

    Raises OptionError for an invalid number.

    >>> local_workers("local:3"), local_workers("10.0.0.1:8786")
    (3, None)
    """
    from autodiff_cli.backends.protocol import available_cores

    kind, colon, count = address.partition(":")
    if kind != "local":
        return None
    if not colon:
        return available_cores()
    if not count.isdecimal() or not 1 <= int(count) <= _MAX_LOCAL_WORKERS:
        raise OptionError(f"cluster: local:N starts 1 to {_MAX_LOCAL_WORKERS} workers on this machine, not `{count}`")
    return int(count)


@contextlib.contextmanager
def connect_cluster(address_or_client: str | Client | Cluster | None) -> Iterator[Cluster | None]:
    """Connect to a cluster for the duration of a context. Workers started for it end with it; a given client stays
    open.

    Args:
        address_or_client: the address of a scheduler, `local` or `local:N` for workers on this machine, a client,
            a cluster that is connected already, or None.

    Raises:
        OptionError: if a package is missing, if there is no scheduler or no worker at the address, and for workers
            whose results would not have the same bits.
    """
    if address_or_client is None:
        yield None
        return
    if importlib.util.find_spec("distributed") is None:
        raise OptionError(_NOT_INSTALLED)
    from autodiff_cli.training.objective.cluster import Cluster

    if isinstance(address_or_client, Cluster):
        yield address_or_client
        return
    if not isinstance(address_or_client, str):
        client = _check_client(address_or_client)
        yield _verified_cluster(client, f"cluster {client.scheduler.address if client.scheduler else ''}")
        return
    count = local_workers(address_or_client)
    with _local_client(count) if count is not None else _remote_client(address_or_client) as client:
        yield _verified_cluster(client, f"cluster {address_or_client}")


@contextlib.contextmanager
def connected(options: FitOptions) -> Iterator[FitOptions]:
    """Yield options with their cluster connected, if they name one; see `connect_cluster`."""
    with connect_cluster(options.cluster) as cluster:
        yield options if cluster is options.cluster else replace(options, cluster=cluster)


def _check_client(client: Any) -> Client:
    """Return a client that can be used here; raise OptionError for anything else."""
    from distributed import Client

    if not isinstance(client, Client):
        raise OptionError(f"cluster is an address, local[:N] or a dask.distributed client, not {type(client).__name__}")
    if client.asynchronous:
        raise OptionError("cluster: the client is asynchronous; a synchronous one is needed")
    if client.status != "running":
        raise OptionError(f"cluster: the client is not connected ({client.status})")
    return client


@contextlib.contextmanager
def _remote_client(address: str) -> Iterator[Client]:
    """Connect to a scheduler that runs elsewhere."""
    from distributed import Client

    hint = "start one with `dask scheduler`, or use local for workers on this machine"
    with contextlib.ExitStack() as stack:
        stack.enter_context(_silence_loggers())
        try:
            client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            reason = f"no Dask scheduler answers there within {_CONNECT_SECONDS:g} seconds"
            if isinstance(error, ValueError | TypeError):
                reason = f"this is not an address ({error})"
            raise OptionError(f"cluster {address}: {reason}; {hint}") from error
        stack.callback(_close, client, _CONNECT_SECONDS)
        yield client


@contextlib.contextmanager
def _local_client(count: int) -> Iterator[Client]:
    """Start workers on this machine, each a process with one thread. They end with the context, with all they wrote."""
    import tempfile

    import dask
    import distributed  # noqa: F401 - importing it registers the settings that are changed below

    settings = {
        "distributed.scheduler.allowed-failures": _ALLOWED_FAILURES,
        "distributed.scheduler.work-stealing": False,  # partitions must stay on their workers
        "distributed.admin.system-monitor.gil.enabled": False,
    }
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="autodiff-", ignore_cleanup_errors=True))
        stack.enter_context(dask.config.set({**settings, "temporary-directory": folder}))
        stack.enter_context(_silence_loggers())
        try:
            client = _start_local(stack, count)
        except (OSError, RuntimeError) as error:
            raise OptionError(f"cluster local:{count}: its processes could not be started ({error})") from error
        yield client


def _start_local(stack: contextlib.ExitStack, count: int) -> Client:
    """Start workers on this machine and return a client; both are closed with the stack."""
    import logging

    from distributed import Client, LocalCluster

    with _block_interrupts():
        cluster = LocalCluster(
            n_workers=0,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # otherwise a second cluster warns about its port
            silence_logs=logging.CRITICAL + 1,
            host="127.0.0.1",
        )
    stack.callback(_close, cluster, _SHUTDOWN_SECONDS)
    client = Client(cluster, timeout=_STARTUP_SECONDS, set_as_default=False)
    stack.callback(_close, client, _SHUTDOWN_SECONDS)
    cluster.scale(count)
    client.wait_for_workers(count, timeout=_STARTUP_SECONDS)
    return client


def _close(resource: Any, seconds: float) -> None:
    """Close a client or a cluster. One that does not close in time ends with this process."""
    from asyncio import CancelledError

    with contextlib.suppress(OSError, RuntimeError, CancelledError):
        resource.close(timeout=seconds)


@contextlib.contextmanager
def _block_interrupts() -> Iterator[None]:
    """Block Ctrl-C for threads and processes that are started in this context; it is for the main process only."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # starting it later would undo the following call
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _silence_loggers() -> Iterator[None]:
    """Silence Dask's log of lost connections and workers; errors report what matters."""
    import logging

    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in _NOISY_LOGGERS]
    levels = {logger: logger.level for logger in map(logging.getLogger, {*names, *_NOISY_LOGGERS})}
    for logger in levels:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


def _verified_cluster(client: Client, name: str) -> Cluster:
    """Return the cluster of a client.

    Raises OptionError without workers, or if their installation differs from this one.
    """
    from distributed import TimeoutError as TooLate

    from autodiff_cli.training.objective.cluster import Cluster, current_installation

    try:
        client.wait_for_workers(1, timeout=_FIRST_WORKER_SECONDS)
    except (TimeoutError, TooLate):
        raise OptionError(f"{name}: the scheduler has no worker; start some with `dask worker`") from None
    expected = current_installation()
    for worker, installation in client.run(current_installation, on_error="return").items():
        if isinstance(installation, BaseException):
            program = f"autodiff-cli {expected['autodiff-cli']}"
            raise OptionError(f"{name}: worker {worker} cannot run {program} ({installation})")
        for part, own_value in expected.items():
            worker_value = installation.get(part)
            if worker_value != own_value:
                raise OptionError(
                    f"{name}: the worker {worker} has {part} {worker_value}, but this machine has {own_value}: "
                    "results would not have the same bits"
                )
    threads = client.nthreads().values()
    return Cluster(client, name, len(threads), sum(threads))

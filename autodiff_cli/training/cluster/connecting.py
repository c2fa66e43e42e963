"""From what a user says to a cluster: an address, `local`, or a client that is connected already.

Every fit comes by here. What only a cluster needs (asyncio, logging, what runs on workers) is imported for one alone.
"""

from __future__ import annotations

import contextlib
import importlib.util
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from autodiff_cli.training.errors import OptionError

if TYPE_CHECKING:
    from distributed import Client

    from autodiff_cli.training.cluster.cluster import Cluster

_ANSWER = 5.0  # seconds within which a scheduler answers
_WORKERS = 10.0  # seconds within which one of its workers is there
_START = 60.0  # seconds within which workers of our own are there, on a machine that is busy
_END = 20.0  # seconds within which they end
_MOST = 256  # of these
_FAILURES = 20  # workers of our own that may die over the same rows
_LOCAL = "local"
_TALKATIVE = ("distributed", "tornado", "asyncio")  # loggers

_MISSING = "a cluster needs Dask's scheduler, which is not installed: pip install 'autodiff-cli[cluster]'"


def local_workers(address: str) -> int | None:
    """How many workers `local` or `local:N` asks for; None for the address of a scheduler. Raises OptionError.

    >>> local_workers("local:3"), local_workers("10.0.0.1:8786")
    (3, None)
    """
    from autodiff_cli.backends.llvm.machine.threads import cores

    kind, colon, count = address.partition(":")
    if kind != _LOCAL:
        return None
    if not colon:
        return cores()
    if not count.isdecimal() or not 1 <= int(count) <= _MOST:
        raise OptionError(f"cluster: local:N starts N workers on this machine, 1 to {_MOST}, not `{count}`")
    return int(count)


@contextlib.contextmanager
def connected(given: str | Client | None) -> Iterator[Cluster | None]:
    """The cluster that is meant. What was started for it ends with it; a client that was given stays as it is.

    Args:
        given: the address of a scheduler, `local` or `local:N` for workers on this machine, or a client.

    Raises:
        OptionError: if what is needed is not installed, if there is no scheduler or no worker at the address, and for
            workers whose results would not have the same bits.
    """
    if given is None:
        yield None
        return
    if importlib.util.find_spec("distributed") is None:
        raise OptionError(_MISSING)
    if not isinstance(given, str):
        yield _checked(_synchronous(given), f"cluster {_address(given)}")
        return
    count = local_workers(given)
    with _local(count) if count is not None else _remote(given) as client:
        yield _checked(client, f"cluster {given}")


def _synchronous(client: Any) -> Client:
    from distributed import Client

    if not isinstance(client, Client):
        raise OptionError(
            f"cluster is an address, local[:N], or a client of dask.distributed, not {type(client).__name__}"
        )
    if client.asynchronous:
        raise OptionError("cluster: an asynchronous client cannot be waited for here; give one that is not")
    if client.status != "running":
        raise OptionError(f"cluster: this client is not connected ({client.status})")
    return client


def _address(client: Client) -> str:
    return str(client.scheduler.address) if client.scheduler is not None else ""


@contextlib.contextmanager
def _remote(address: str) -> Iterator[Client]:
    """A client of a scheduler that runs somewhere."""
    from distributed import Client

    hint = "start one by `dask scheduler`, or say local, for workers on this machine"
    with contextlib.ExitStack() as stack:
        stack.enter_context(_quiet())
        try:
            client = Client(address, timeout=_ANSWER, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            reason = f"no Dask scheduler answers there within {_ANSWER:g} seconds"
            if isinstance(error, ValueError | TypeError):
                reason = f"this is no address ({error})"
            raise OptionError(f"cluster {address}: {reason}; {hint}") from error
        stack.callback(_close, client, _ANSWER)
        yield client


@contextlib.contextmanager
def _local(count: int) -> Iterator[Client]:
    """A client of workers on this machine, each a process with one thread. They, and what they wrote, end with it."""
    import tempfile

    import dask
    import distributed  # noqa: F401 - its own settings have to be there before they are changed, and changed back

    settings = {
        "distributed.scheduler.allowed-failures": _FAILURES,
        "distributed.scheduler.work-stealing": False,  # rows stay where they are
        "distributed.admin.system-monitor.gil.enabled": False,
    }
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="autodiff-", ignore_cleanup_errors=True))
        stack.enter_context(dask.config.set({**settings, "temporary-directory": folder}))
        stack.enter_context(_quiet())
        try:
            client = _started(stack, count)
        except (OSError, RuntimeError) as error:
            raise OptionError(f"cluster local:{count}: its processes could not be started ({error})") from error
        yield client


def _started(stack: contextlib.ExitStack, count: int) -> Client:
    """Workers on this machine, and a client of theirs, until the stack is closed."""
    import logging

    from distributed import Client, LocalCluster

    with _uninterrupted():
        cluster = LocalCluster(
            n_workers=0,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # else a second cluster warns of its port
            silence_logs=logging.CRITICAL + 1,
            host="127.0.0.1",
        )
    stack.callback(_close, cluster, _END)
    client = Client(cluster, timeout=_START, set_as_default=False)
    stack.callback(_close, client, _END)
    cluster.scale(count)
    client.wait_for_workers(count, timeout=_START)
    return client


def _close(what: Any, seconds: float) -> None:
    """Let go of a client, or end a cluster. What does not end in time ends with this process."""
    from asyncio import CancelledError

    with contextlib.suppress(OSError, RuntimeError, CancelledError):
        what.close(timeout=seconds)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Threads that are started within, and processes that these start, are not interrupted by Ctrl-C: it is for us."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # it would undo this as it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what Dask logs of connections and workers that are lost: what matters is said by errors."""
    import logging

    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in _TALKATIVE]
    levels = {logger: logger.level for logger in map(logging.getLogger, {*names, *_TALKATIVE})}
    for logger in levels:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


def _checked(client: Client, name: str) -> Cluster:
    """The cluster of a client. Raises OptionError without workers, or where these are not as this process is."""
    from distributed import TimeoutError as TooLate

    from autodiff_cli.training.cluster import on_worker
    from autodiff_cli.training.cluster.cluster import Cluster

    try:
        client.wait_for_workers(1, timeout=_WORKERS)
    except (TimeoutError, TooLate):
        raise OptionError(f"{name}: the scheduler has no worker; start some by `dask worker`") from None
    here = on_worker.place()
    for worker, there in client.run(on_worker.place, on_error="return").items():
        if isinstance(there, BaseException):
            raise OptionError(f"{name}: the worker {worker} cannot run autodiff-cli {here.program} ({there})")
        for what, own, its in (
            ("autodiff-cli", here.program, there.program),
            ("NumPy", here.numpy, there.numpy),
            ("vectors of width", here.width, there.width),
        ):
            if own != its:
                raise OptionError(
                    f"{name}: the worker {worker} has {what} {its}, and here is {own}: "
                    "results would not have the same bits"
                )
    threads = client.nthreads().values()
    return Cluster(client, name, len(threads), sum(threads))

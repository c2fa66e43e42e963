"""Threads that wait for work: calls of compiled code, which run beside each other since they hold no lock of Python."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import TypeAlias

Work: TypeAlias = Callable[[], object]


class _Task:
    """Work under way.

    Attributes:
        failure: what it raised.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._is_running = threading.Lock()
        self._is_running.acquire()
        self._is_done = False
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._work()
        except BaseException as failure:  # raised again by who waits
            self.failure = failure
        finally:
            self._is_done = True
            self._is_running.release()

    def wait(self) -> None:
        # An interrupt may come once the lock is taken and before anyone knows; who waits again must not wait for that.
        while not self._is_done:
            self._is_running.acquire(timeout=_PATIENCE)


_PATIENCE = 0.1  # seconds for which a lock is waited for at a time

_waiting: SimpleQueue[_Task] = SimpleQueue()
_count = 0
_starting = threading.Lock()


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def together(works: Sequence[Work], stop: Work) -> None:
    """Do all of this beside each other, the first in this thread; come back when all is done.

    Args:
        stop: what makes the others end soon; called when this thread is interrupted, or one of them fails.

    Raises:
        Whatever one of them raises, or the interrupt.
    """
    shared = min(len(works) - 1, _start(len(works) - 1))
    tasks = [_Task(work) for work in works[1 : 1 + shared]]
    for task in tasks:
        _waiting.put(task)
    failure: BaseException | None = None
    try:
        works[0]()
        for work in works[1 + shared :]:
            work()
    except BaseException as raised:  # raised again below
        failure = raised
        stop()
    for task in tasks:
        failure = _waited(task, stop) or failure or task.failure
    if failure is not None:
        raise failure


def _waited(task: _Task, stop: Work) -> BaseException | None:
    """Wait for a task, whatever comes; what came."""
    interrupt: BaseException | None = None
    while True:
        try:
            task.wait()
        except KeyboardInterrupt as raised:
            interrupt = raised
            stop()
        else:
            return interrupt


def _start(count: int) -> int:
    """See to it that there are so many threads, or as many as there is memory for; how many there are."""
    global _count
    with _starting:
        while _count < count:
            try:
                threading.Thread(target=_work, daemon=True, name=f"autodiff-{_count}").start()
            except RuntimeError:  # can't start new thread
                break
            _count += 1
        return _count


def _work() -> None:
    while True:
        _waiting.get().run()


def _forget() -> None:
    """In a process that was forked there are no threads."""
    global _count, _starting, _waiting
    _count, _starting, _waiting = 0, threading.Lock(), SimpleQueue()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

"""Threads that help: they share jobs of compiled code, beside each other since they hold no lock of Python."""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Callable

import llvmlite.binding as llvm

from autodiff_cli.backends.llvm.machine.compile import compiled
from autodiff_cli.backends.llvm.target import host
from autodiff_cli.backends.llvm.writing.sharing import AWAY, BOX, sharing_written

_MOST = 1024  # helpers
_TRIED = 2000  # looks whose time is taken

_SHARE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
_SERVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Crew:
    """Helpers, each with a mailbox of compiled code: see `writing/sharing.py`.

    One who has done a task looks for the next one for a while, in compiled code, where it takes nanoseconds to begin;
    then it sleeps in Python, where it takes some 50 µs. Threads are daemons and hold all that their code needs, so a
    process may end at any moment.

    Raises:
        NotCompiled: if the code that they wait in cannot be made.
    """

    def __init__(self) -> None:
        target = host()
        naps = bool(llvm.address_of_symbol("usleep"))
        self._machine = compiled(lambda: sharing_written(target, naps=naps), target)
        self._share = self._machine.function("share", _SHARE)
        self._serve = self._machine.function("serve", _SERVE)
        self._memory = (ctypes.c_int64 * (BOX // 8 * (_MOST + 1)))()
        self._boxes = -(-ctypes.addressof(self._memory) // BOX) * BOX
        self._words = (ctypes.c_int64 * (BOX // 8 * _MOST)).from_address(self._boxes)
        self._bells: list[_thread.LockType] = []
        self._starting = threading.Lock()
        self._patience = 0
        look = self._machine.function("look", _SERVE)
        self._look = min(_seconds(look, self._boxes, _TRIED) for _ in range(3)) / _TRIED

    def looks(self, seconds: float) -> int:
        """How many looks into a mailbox take so long."""
        return int(seconds / self._look)

    def share(self, tasks: int, count: int, patience: int) -> None:
        """Do tasks beside each other, the first in this thread; come back when no thread is at work on them.

        Tasks that no helper takes in time are not done at all: they have to be work that all take from one heap.

        Args:
            tasks: the address of so many, one after the other: see `TASK`.
            patience: for how many looks helpers who come later wait for another job.
        """
        self._patience = patience
        helpers = self._started(count - 1)
        for number in range(helpers):
            if self._words[BOX // 8 * number] == AWAY:
                with contextlib.suppress(RuntimeError):  # it has been called already
                    self._bells[number].release()
        self._share(tasks, count, self._boxes, helpers)

    def _started(self, wanted: int) -> int:
        """How many helpers there are of those wanted: as many as there is memory for."""
        if len(self._bells) >= wanted:
            return wanted
        with self._starting, contextlib.suppress(RuntimeError):  # can't start new thread
            while len(self._bells) < min(wanted, _MOST):
                bell = _thread.allocate_lock()
                bell.acquire()
                number = len(self._bells)
                name = f"autodiff-{number}"
                threading.Thread(target=self._help, args=(number, bell), daemon=True, name=name).start()
                self._bells.append(bell)
        return min(wanted, len(self._bells))

    def _help(self, number: int, bell: _thread.LockType) -> None:
        box = self._boxes + BOX * number
        while True:
            bell.acquire()
            self._serve(box, self._patience)


def _seconds(function: Callable[..., object], *arguments: int) -> float:
    begun = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - begun


_crew: Crew | None = None
_making = threading.Lock()


def crew() -> Crew:
    """The one of this process."""
    global _crew
    if _crew is None:
        with _making:
            _crew = _crew or Crew()
    return _crew


def _forget() -> None:
    """In a process that was forked there are no threads."""
    global _crew, _making
    _crew, _making = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

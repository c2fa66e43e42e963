"""Compiled code at work: blocks of rows, shared between threads."""

from __future__ import annotations

import ctypes
import math
import threading
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.llvm.machine.binding import Bound
from autodiff_cli.backends.llvm.machine.calls import Calls
from autodiff_cli.backends.llvm.machine.compile import Machine, compiled
from autodiff_cli.backends.llvm.machine.threads import Crew, cores, crew
from autodiff_cli.backends.llvm.plans.cost import seconds_per_row
from autodiff_cli.backends.llvm.plans.items import Plan
from autodiff_cli.backends.llvm.plans.layout import ALIGNMENT, laid_out
from autodiff_cli.backends.llvm.plans.nests import nests
from autodiff_cli.backends.llvm.target import Processor
from autodiff_cli.backends.llvm.writing.program import JOB, written
from autodiff_cli.backends.llvm.writing.sharing import TASK
from autodiff_cli.backends.protocol import Columns, Point

_LONG = 0.05  # seconds of a call into compiled code, about: after it comes the turn of Ctrl-C
# Seconds of work, about, that one thread does alone: where helpers are asleep, and where jobs are so near to each other
# that helpers wait for the next one awake.
_ALONE, _ALONE_IF_NEAR = 100e-6, 10e-6
_NEAR = 100e-6  # seconds from one job to the next
_OFTEN = 6  # so many doublings, at most, of the jobs that are done alone after some with helpers took longer
_LEAST = 1e-9  # seconds that a block takes, if the clock did not move
_NOBODY = 2**62  # beyond any block

_POINT, _COLUMNS, _OUT, _ROWS, _NEXT, _END, _STRIDE = range(len(JOB))

_ended = 0.0  # when the last job was over, whoever had it


class Runner:
    """A plan ready to run, for one caller at a time.

    Args:
        threads: how many to use, at most.
        block: how many rows a block has.
        summed: whether sums are handed out, one set per block; else values by row.

    Attributes:
        lock: to hold by whoever uses it.
    """

    def __init__(self, plan: Plan, target: Processor, threads: int, block: int, *, summed: bool) -> None:
        self.plan = plan
        self.lock = threading.Lock()
        self._target = target
        self._threads = threads
        self._block = block
        self._summed = summed
        self._nests = nests(plan)
        self._layout = laid_out(plan, self._nests, target.width)
        self._calls = Calls(plan, self._layout.strip)
        self._machines: dict[tuple[str, ...], Machine] = {}
        self._memories: list[NDArray[np.uint64]] = []
        self._addresses: list[int] = []
        self._in_vain = self._alone_for = 0  # jobs that took longer with helpers; how many are to be done without
        self._helpers_wait = threads <= cores()  # awake, for the next job
        self._tasks: Any = None  # of the last job that was shared
        self._tasks_for, self._asked = (0, 0, False), (0, 0, 0)
        self._job = (ctypes.c_uint64 * len(JOB))()
        self._job_address = ctypes.addressof(self._job)
        self._bound: Bound | None = None
        self._run: Any = None
        self._run_address = 0
        self._fold: Any = None
        self._pace = seconds_per_row(plan, target.width) * block or _LEAST  # seconds per block
        self._names = [leaf.name for leaf in plan.points]
        self._numbers = ctypes.c_double * len(self._names)
        self._has_arrays = any(leaf.shape for leaf in plan.points)

    def point(self, values: Point) -> Any:
        """The numbers of a point, one after the other: an array of ctypes, whose address is found in no time."""
        given = [values[name] for name in self._names]
        if self._has_arrays:
            joined: Any = np.concatenate([np.ravel(each) for each in given], dtype=np.float64)
            return (ctypes.c_double * len(joined)).from_buffer(joined)
        numbers = self._numbers()
        numbers[:] = given  # half of the time that `self._numbers(*given)` takes
        return numbers

    def bind(self, columns: Columns, rows: int) -> None:
        """Take these columns, and compile for their types if that is not done. Raises NotCompiled if that fails."""
        if self._bound is not None and self._bound.is_of(columns, rows):
            return
        bound = Bound(self.plan.columns, columns, rows)
        if bound.types not in self._machines:
            self._machines[bound.types] = self._machine(bound.types)
        machine = self._machines[bound.types]
        self._run, self._run_address = machine.function("run"), machine.address("run")
        if self._summed:
            self._fold = machine.function("fold")
        self._bound = bound
        self._job[_COLUMNS], self._job[_ROWS] = bound.table.ctypes.data, rows

    def _machine(self, types: tuple[str, ...]) -> Machine:
        def write() -> str:
            return written(self._target, self.plan, self._nests, self._layout, types, self._block, summed=self._summed)

        return compiled(write, self._target)

    def groups(self, blocks: int, most: int) -> list[tuple[int, int]]:
        """Blocks in groups that are computed at a time: as many as take a while, a power of two."""
        fitting = min(most, _LONG * self._threads / self._pace)
        if blocks <= fitting:
            return [(0, blocks)]
        size = 2 ** max(0, int(math.log2(max(1.0, fitting))))
        return [(start, min(start + size, blocks)) for start in range(0, blocks, size)]

    def run(self, point: Any, out: int, first: int, end: int, stride: int = 0) -> None:
        """Compute the blocks from `first` up to `end`.

        Args:
            point: see `point`.
            out: the address of what is handed out.
            stride: how many bytes the numbers of a row are apart there.
        """
        job = self._job
        job[_POINT], job[_OUT], job[_NEXT], job[_END], job[_STRIDE] = ctypes.addressof(point), out, first, end, stride
        if not self._calls.address:
            self._work(end - first)
            return
        with self._calls.uninterrupted(self._stop):
            self._work(end - first)
        self._calls.check()

    def _work(self, blocks: int) -> None:
        """Do the job, with helpers where that is faster."""
        global _ended
        begun = time.perf_counter()
        alone = blocks * self._pace
        is_near = self._helpers_wait and begun - _ended < _NEAR
        if blocks == 1 or self._threads == 1 or self._alone_for or alone < (_ALONE_IF_NEAR if is_near else _ALONE):
            self._run(self._job_address, self._address(0))
            _ended = time.perf_counter()
            self._pace = (_ended - begun) / blocks or _LEAST
            if self._alone_for:
                self._alone_for -= 1
            return
        helpers, count = crew(), min(self._threads, blocks)
        helpers.share(*self._shared(helpers, count, is_near=is_near))
        _ended = time.perf_counter()
        # Where other processes keep the cores busy, helpers come too late, or take turns with this thread. But they may
        # also have slept, and be there for the next job; so every other time decides.
        if _ended - begun < alone:
            self._in_vain = 0
        else:
            self._in_vain += 1
            self._alone_for = 0 if self._in_vain % 2 else 2 ** min(self._in_vain // 2, _OFTEN) - 1
        self._pace = min(self._pace, (_ended - begun) * count / blocks) or _LEAST

    def _shared(self, helpers: Crew, count: int, *, is_near: bool) -> tuple[int, int, int]:
        """What a crew is asked to share: so many tasks, each of which does blocks until none is left."""
        wanted = self._run_address, count, is_near
        if wanted != self._tasks_for:
            patience = helpers.looks(_NEAR) if is_near else 0
            fields = (
                field
                for address in map(self._address, range(count))
                for field in (self._run_address, self._job_address, address, patience, 0, 0, 0)
            )
            self._tasks = (ctypes.c_uint64 * (len(TASK) * count))(*fields)
            self._tasks_for, self._asked = wanted, (ctypes.addressof(self._tasks), count, patience)
        return self._asked

    def add_up(self, out: int, blocks: int) -> None:
        """Add the sums of blocks up, as `fold` does, into those of the first.

        Args:
            out: the address of those.
        """
        self._fold(out, blocks)

    def _stop(self) -> None:
        self._job[_NEXT] = _NOBODY

    def _address(self, number: int) -> int:
        """Memory of one of the threads."""
        while len(self._addresses) <= number:
            memory = np.zeros((self._layout.size + ALIGNMENT) // 8, np.uint64)
            start = -memory.ctypes.data % ALIGNMENT
            memory[start // 8] = self._calls.address
            self._memories.append(memory)
            self._addresses.append(memory.ctypes.data + start)
        return self._addresses[number]

"""The execution of compiled kernels: threads, the binding of columns, and the runner of blocks.

Threads share a job in compiled code: one word has the address of the job that is under way, and a counter the number
of helpers at work. A helper that finds a job counts itself, and works on it if it is still the same. The thread with
the job removes it when no block is left, and waits until no helper is at work. A helper that comes too late finds
nothing, so a job never waits for a thread that has not begun.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import math
import os
import threading
import time
import timeit
from collections.abc import Sequence
from functools import partial
from operator import is_
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from numpy.typing import NDArray

from autodiff_cli.array_types import Array
from autodiff_cli.backends.llvm.codegen import BLOCK_JOB_FIELDS, kernel_module
from autodiff_cli.backends.llvm.layout import ALIGNMENT, COLUMN_TYPES, MemoryLayout
from autodiff_cli.backends.llvm.machine_code import Processor, compile_module, host_processor
from autodiff_cli.backends.llvm.plan import KernelInput, KernelPlan, seconds_per_row
from autodiff_cli.backends.protocol import Columns, Point, available_cores
from autodiff_cli.graph.tape import LazyTable

_NAP_MICROSECONDS = 50  # duration of each sleep of a thread that waits for helpers
# The instruction that tells the processor that a thread is polling. Its duration is the unit of patience.
_PAUSE_CALLS = {"x86_64": "@llvm.x86.sse2.pause()", "aarch64": "@llvm.aarch64.hint(i32 1)"}


def sharing_module(target: Processor, *, has_usleep: bool) -> str:
    """Return the text of the module that shares jobs between threads: `share` and `serve` of sharing.ll.

    Args:
        target: the processor.
        has_usleep: whether the C library has `usleep`.
    """
    pause = _PAUSE_CALLS.get(target.triple.split("-")[0])
    wait = f"call void {pause}" if pause else ""
    sleep = f"call i32 @usleep(i32 {_NAP_MICROSECONDS})" if has_usleep else wait
    head = [f'target triple = "{target.triple}"', "declare i32 @usleep(i32)"]
    head += [f"declare void {pause.replace('i32 1', 'i32')}"] if pause else []
    waits = (("pause", wait), ("nap", sleep))
    head += [f"define internal void @{name}() {{\n  {instruction}\n  ret void\n}}" for name, instruction in waits]
    return "\n".join([*head, Path(__file__).with_name("sharing.ll").read_text(encoding="utf-8")])


def job_table(run: int, argument: int, memories: Sequence[int]) -> Any:
    """Return a job for several threads: the addresses of a function and of its argument, and each thread's memory.

    All threads take their work from one supply, since it is unknown which of them come in time.
    """
    fields = (run, argument, len(memories), *memories)
    return (ctypes.c_uint64 * len(fields))(*fields)


def aligned_zeros(count: int) -> Array:
    """Return an array of zeros that begins at a cache line."""
    space = np.zeros(count + ALIGNMENT // 8)
    start = -space.ctypes.data % ALIGNMENT // 8
    return space[start : start + count]


_TIMED_SPINS = 2000  # polls that are timed, to convert seconds to polls

_ShareFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_ServeFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class ThreadPool:
    """Helper threads that work on jobs in compiled code, in parallel since they hold no Python lock.

    After a job a thread polls for a while in compiled code, where the next job begins within nanoseconds. Then it
    sleeps in Python, where waking up takes some 50 µs. The threads are daemons and own everything that their code
    needs, so that the process can end at any moment.

    Args:
        patience: the time for which threads poll after a job, in seconds.

    Raises:
        CompilationError: if the module cannot be compiled.
    """

    def __init__(self, patience: float) -> None:
        target = host_processor()
        has_usleep = bool(llvm.address_of_symbol("usleep"))
        self._module = compile_module(lambda: sharing_module(target, has_usleep=has_usleep), target)
        self._share = self._module.function("share", _ShareFunction)
        self._serve = self._module.function("serve", _ServeFunction)
        self._memory = (ctypes.c_int64 * (3 * ALIGNMENT // 8))()
        self._words = -(-ctypes.addressof(self._memory) // ALIGNMENT) * ALIGNMENT
        self._wake_locks: list[_thread.LockType] = []
        self._asleep: list[bool] = []
        self._start_lock = threading.Lock()
        seconds = min(timeit.repeat(lambda: self._serve(self._words, 0, _TIMED_SPINS), number=1, repeat=3))
        self._patience = int(patience / seconds * _TIMED_SPINS)

    def run(self, job: int, count: int) -> None:
        """Work on a job in this thread and in helpers that come in time. Return when no thread works on it any more.

        Args:
            job: the address of a `job_table`.
            count: the number of its threads.
        """
        for number in range(self._start_helpers(count - 1)):
            if self._asleep[number]:
                with contextlib.suppress(RuntimeError):  # the helper has been woken already
                    self._wake_locks[number].release()
        self._share(self._words, job)

    def _start_helpers(self, required: int) -> int:
        """Start the required helpers, as far as there is memory for them, and return their number."""
        if len(self._wake_locks) >= required:
            return required
        with self._start_lock, contextlib.suppress(RuntimeError):  # the system allows no more threads
            while len(self._wake_locks) < required:
                wake_lock = _thread.allocate_lock()
                wake_lock.acquire()
                number = len(self._wake_locks)
                name = f"autodiff-{number}"
                threading.Thread(target=self._helper_loop, args=(number, wake_lock), daemon=True, name=name).start()
                self._asleep.append(True)
                self._wake_locks.append(wake_lock)
        return min(required, len(self._wake_locks))

    def _helper_loop(self, number: int, wake_lock: _thread.LockType) -> None:
        while True:
            wake_lock.acquire()
            self._asleep[number] = False
            # With more threads than cores, polling would take time from those at work.
            patience = self._patience if len(self._wake_locks) < available_cores() else 0
            self._serve(self._words, number + 1, patience)
            self._asleep[number] = True


_pool: ThreadPool | None = None
_pool_lock = threading.Lock()


def thread_pool() -> ThreadPool:
    """Return the thread pool of this process."""
    global _pool
    if _pool is None:
        with _pool_lock:
            _pool = _pool or ThreadPool(_POLLING_SECONDS)
    return _pool


def _discard_pool() -> None:
    """Discard the pool in a forked process, in which its threads do not exist."""
    global _pool, _pool_lock
    _pool, _pool_lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_discard_pool)


class BoundColumns:
    """The columns of a kernel as compiled code reads them.

    Arrays are read in place if their type is common and native, and rows are contiguous; other arrays are copied.

    Args:
        leaves: the columns that the kernel reads.
        columns: the arrays by name.
        rows: the number of rows.

    Attributes:
        type_codes: the types of the columns, as NumPy type codes.
        table: for each column its address and the distance between its elements.

    Raises:
        ValueError: if a column does not have the shape of its leaf, or the wrong number of rows.
    """

    def __init__(self, leaves: Sequence[KernelInput], columns: Columns, rows: int) -> None:
        self._rows = rows
        self._names = [leaf.name for leaf in leaves]
        self._arrays = [columns[name] for name in self._names]
        self._read_arrays = [_readable_array(leaf, np.asarray(columns[leaf.name]), rows) for leaf in leaves]
        self._is_direct = all(map(is_, self._arrays, self._read_arrays))
        self.type_codes = tuple(_type_code(array) for array in self._read_arrays)
        places = [(array.ctypes.data, array.strides[-2] if array.ndim > 1 else 0) for array in self._read_arrays]
        self.table = np.array(places, np.int64)

    def is_bound_to(self, columns: Columns, rows: int) -> bool:
        """Return whether exactly these arrays are bound, and all are read in place."""
        return (
            rows == self._rows
            and self._is_direct
            and all(map(is_, map(columns.__getitem__, self._names), self._arrays))
        )


def _readable_array(leaf: KernelInput, array: NDArray[Any], rows: int) -> NDArray[Any]:
    if array.shape != (*leaf.shape, rows):
        expected = "x".join(map(str, (*leaf.shape, rows)))
        actual = "x".join(map(str, array.shape)) or "none"
        raise ValueError(f"column `{leaf.name}` has {actual} numbers; {expected} are needed")
    return array if _is_readable_in_place(array) else np.ascontiguousarray(array, dtype=np.float64)


def _is_readable_in_place(array: NDArray[Any]) -> bool:
    """Return whether compiled code can read an array without a copy."""
    *outer, rows = array.shape
    if _type_code(array) not in COLUMN_TYPES or not array.dtype.isnative or not array.flags.aligned:
        return False
    # The table of columns has room for one distance between elements only.
    steps = [array.strides[-2] * math.prod(outer[axis + 1 :]) for axis in range(len(outer))]
    return [*array.strides[:-1]] == steps and (rows < 2 or array.strides[-1] == array.itemsize)


def _type_code(array: NDArray[Any]) -> str:
    return f"{array.dtype.kind}{array.dtype.itemsize}"


# When blocks run on several threads, and for how long at a time. Times are for whole jobs, in seconds.
_CALL_SECONDS = 0.05  # duration of a call of compiled code; Ctrl-C is handled between calls
_SOLO_SECONDS = 100e-6  # shorter jobs run on one thread, since waking helpers takes about half as long
_SOLO_SECONDS_IF_AWAKE = 10e-6  # limit of such jobs while helpers still poll for the next job
_POLLING_SECONDS = 100e-6  # helpers poll after a job, and jobs that follow within this time find them awake
_MAX_SOLO_DOUBLINGS = 6  # doublings of the number of jobs on one thread, one each time that helpers make jobs slower

_MIN_BLOCK_SECONDS = 1e-9  # estimate where the clock did not advance; it must not be 0

_FoldFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_POINT, _COLUMNS, _OUT, _ROWS, _NEXT, _END, _STRIDE = range(len(BLOCK_JOB_FIELDS))

_last_job_end = 0.0  # the time at which the last job of any runner ended


class PlanRunner:
    """A compiled plan that runs blocks of rows on several threads, for one caller at a time.

    Args:
        plan: the plan.
        target: the processor.
        threads: the maximum number of threads.
        block: the number of rows in a block.

    Attributes:
        lock: callers must hold it.
        fold_level: adds up pairs of sums, given the address of the sums, their number, and the distance in a pair.
    """

    def __init__(self, plan: KernelPlan, target: Processor, threads: int, block: int) -> None:
        self.plan = plan
        self.lock = threading.Lock()
        self._threads = threads
        self._layout = layout = MemoryLayout(plan, target.width)
        self._modules = LazyTable(
            lambda types: compile_module(partial(kernel_module, target, layout, types, block), target)
        )
        self._memories: list[Array] = []
        self._addresses: list[int] = []
        self._slower_jobs = 0  # consecutive jobs that took longer with helpers
        self._solo_jobs_left = 0  # jobs to run without helpers
        self._may_keep_helpers_awake = threads <= available_cores()
        self._shared_job: Any = None
        self._shared_job_key = 0, 0
        self._job = (ctypes.c_uint64 * len(BLOCK_JOB_FIELDS))()
        self._job_address = ctypes.addressof(self._job)
        self._bound: BoundColumns | None = None
        self._run_blocks: Any = None
        self._run_address = 0
        self.fold_level: Any = None
        self._seconds_per_block = seconds_per_row(plan, target.width) * block or _MIN_BLOCK_SECONDS
        self._input_names = [leaf.name for leaf in plan.point_inputs]
        self._PointArray = ctypes.c_double * len(self._input_names)
        self._has_arrays = any(leaf.shape for leaf in plan.point_inputs)

    def pack_point(self, values: Point) -> Any:
        """Return the numbers of a point as a ctypes array, whose address is found quickly."""
        inputs = [values[name] for name in self._input_names]
        if self._has_arrays:
            joined: Any = np.concatenate([np.ravel(each) for each in inputs], dtype=np.float64)
            return (ctypes.c_double * len(joined)).from_buffer(joined)
        numbers = self._PointArray()
        numbers[:] = inputs  # twice as fast as `self._PointArray(*given)`
        return numbers

    def bind(self, columns: Columns, rows: int) -> None:
        """Use these columns, and compile the plan for their types if necessary.

        Raises:
            CompilationError: if that fails.
        """
        if self._bound is not None and self._bound.is_bound_to(columns, rows):
            return
        bound = BoundColumns(self.plan.column_inputs, columns, rows)
        module = self._modules[bound.type_codes]
        self._run_blocks, self._run_address = module.function("run"), module.address("run")
        self.fold_level = module.function("fold_level", _FoldFunction)
        self._bound = bound
        self._job[_COLUMNS], self._job[_ROWS] = bound.table.ctypes.data, rows

    def block_groups(self, blocks: int, max_blocks: int) -> list[tuple[int, int]]:
        """Return ranges of at most `max_blocks` blocks, whose number is a power of two, to run per call."""
        fitting = min(max_blocks, _CALL_SECONDS * self._threads / self._seconds_per_block)
        if blocks <= fitting:
            return [(0, blocks)]
        size = 2 ** max(0, int(math.log2(max(1.0, fitting))))
        return [(start, min(start + size, blocks)) for start in range(0, blocks, size)]

    def run(self, point: Any, out: int, first: int, end: int, stride: int = 0) -> None:
        """Compute the blocks from `first` up to, but not including, `end`, on several threads if that is faster.

        Args:
            point: the result of `pack_point`.
            out: the address of the outputs.
            first: the first block.
            end: the end of the blocks.
            stride: the distance of the rows of `out` in bytes.
        """
        global _last_job_end
        job, blocks = self._job, end - first
        job[_POINT], job[_OUT], job[_NEXT], job[_END], job[_STRIDE] = ctypes.addressof(point), out, first, end, stride
        start = time.perf_counter()
        solo_estimate = blocks * self._seconds_per_block
        is_near = self._may_keep_helpers_awake and start - _last_job_end < _POLLING_SECONDS
        if (
            blocks == 1
            or self._threads == 1
            or self._solo_jobs_left
            or solo_estimate < (_SOLO_SECONDS_IF_AWAKE if is_near else _SOLO_SECONDS)
        ):
            self._run_blocks(self._job_address, self._memory_address(0))
            _last_job_end = time.perf_counter()
            self._seconds_per_block = (_last_job_end - start) / blocks or _MIN_BLOCK_SECONDS
            if self._solo_jobs_left:
                self._solo_jobs_left -= 1
            return
        count = min(self._threads, blocks)
        if self._shared_job_key != (self._run_address, count):
            memories = [*map(self._memory_address, range(count))]
            self._shared_job = job_table(self._run_address, self._job_address, memories)
            self._shared_job_key = self._run_address, count
        thread_pool().run(ctypes.addressof(self._shared_job), count)
        _last_job_end = time.perf_counter()
        seconds = _last_job_end - start
        # If other processes keep the cores busy, helpers come too late, or compete with this thread. But they may also
        # have been asleep and be awake for the next job, so only every second slow job counts.
        if seconds < solo_estimate:
            self._slower_jobs = 0
        else:
            self._slower_jobs += 1
            doublings = min(self._slower_jobs // 2, _MAX_SOLO_DOUBLINGS)
            self._solo_jobs_left = 0 if self._slower_jobs % 2 else 2**doublings - 1
        self._seconds_per_block = min(self._seconds_per_block, seconds * count / blocks) or _MIN_BLOCK_SECONDS

    def _memory_address(self, number: int) -> int:
        """Return the address of the memory of a thread."""
        while len(self._addresses) <= number:
            memory = aligned_zeros(self._layout.size // 8)
            self._memories.append(memory)
            self._addresses.append(memory.ctypes.data)
        return self._addresses[number]

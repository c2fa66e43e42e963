"""The execution of compiled kernels: threads, the binding of columns, and the runner of blocks.

Threads share a job through mailboxes in compiled code. A mailbox is one word: `AWAY` if its thread sleeps, `READY` if
its thread is waiting for a task, `BUSY` while a task is being executed, otherwise the address of a task. Only the
thread with the job changes a mailbox to a task, and back if nobody has taken it; only the waiting thread changes it
from a task to `BUSY` and then to `READY`. A task that no thread has taken by the end of the job is withdrawn, so a job
never waits for a thread that has not begun.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.llvm.codegen import BLOCK_JOB_FIELDS, kernel_module
from autodiff_cli.backends.llvm.layout import ALIGNMENT, COLUMN_TYPES, lay_out, loop_nests
from autodiff_cli.backends.llvm.machine_code import CompiledModule, Processor, compile_module, host_processor
from autodiff_cli.backends.llvm.plan import KernelInput, KernelPlan, seconds_per_row
from autodiff_cli.backends.protocol import Columns, Point, available_cores

# The fields of a task, 8 bytes each: the function, its two arguments, and the number of polls for another task after
# it; then, only for `share`: whether it is finished, its mailbox, and the mailbox's previous content.
TASK_FIELDS = ("run", "job", "memory", "patience", "done", "box", "before")
MAILBOX_BYTES = 64  # a cache line for each mailbox

AWAY, _READY, _BUSY = range(3)
_SPINS = 2000  # polls for the end of a task, before the waiting thread sleeps between polls
_NAP_MICROSECONDS = 50  # of each sleep
_NAPS = 4  # sleeps while waiting for a task, before a helper goes back to Python
# The instruction that tells the processor that a thread is polling. Its duration is the unit of patience.
_PAUSE_CALLS = {"x86_64": "@llvm.x86.sse2.pause()", "aarch64": "@llvm.aarch64.hint(i32 1)"}


def mailbox_module(target: Processor, *, has_usleep: bool) -> str:
    """Return the text of the module that shares tasks between threads.

    It exports three functions:

    - `share(tasks, count, boxes, many)` executes the first of `count` tasks and posts the others to `many` mailboxes,
    as far as threads are waiting there. It returns when every task that was taken is finished.
    - `serve(box, patience)` executes the tasks that arrive in a mailbox, until none has arrived for `patience` polls
    and a few sleeps, during which a poster on the same core can run.
    - `poll(box, polls)` polls a mailbox so many times, to measure the time that this takes.

    Args:
        target: the processor.
        has_usleep: whether the C library has `usleep`.
    """
    pause = _PAUSE_CALLS.get(target.triple.split("-")[0])
    field = {name: 8 * k for k, name in enumerate(TASK_FIELDS)}
    declared = [f"declare void {pause.replace('i32 1', 'i32')}"] if pause else []
    declared += ["declare i32 @usleep(i32)"] if has_usleep else []
    wait = f"call void {pause}" if pause else ""
    sleep = f"call i32 @usleep(i32 {_NAP_MICROSECONDS})" if has_usleep else wait

    def run(task: str) -> str:
        return f"""
  %run.place = getelementptr i8, ptr {task}, i64 {field["run"]}
  %run = load ptr, ptr %run.place
  %job.place = getelementptr i8, ptr {task}, i64 {field["job"]}
  %job = load ptr, ptr %job.place
  %memory.place = getelementptr i8, ptr {task}, i64 {field["memory"]}
  %memory = load ptr, ptr %memory.place
  call void %run(ptr %job, ptr %memory)"""

    return f"""target triple = "{target.triple}"
{chr(10).join(declared)}

define void @serve(ptr %box, i64 %patience) {{
entry:
  %arrived = cmpxchg ptr %box, i64 {AWAY}, i64 {_READY} seq_cst seq_cst
  %all = add i64 %patience, {_NAPS}
  br label %look
look:
  %left = phi i64 [ %all, %entry ], [ %less, %wait ], [ %less, %nap ], [ %left, %take ], [ 0, %leave ], [ %again, %do ]
  %word = load atomic i64, ptr %box acquire, align 8
  %is.task = icmp ugt i64 %word, {_BUSY}
  br i1 %is.task, label %take, label %idle
idle:
  %less = sub i64 %left, 1
  %is.over = icmp eq i64 %left, 0
  br i1 %is.over, label %leave, label %stay
stay:
  %is.tired = icmp ule i64 %left, {_NAPS}
  br i1 %is.tired, label %nap, label %wait
wait:
  {wait}
  br label %look
nap:
  {sleep}
  br label %look
leave:
  %left.box = cmpxchg ptr %box, i64 {_READY}, i64 {AWAY} seq_cst seq_cst
  %was = extractvalue {{ i64, i1 }} %left.box, 0
  %has.more = icmp ugt i64 %was, {_READY}
  br i1 %has.more, label %look, label %end
take:
  %taken = cmpxchg ptr %box, i64 %word, i64 {_BUSY} seq_cst seq_cst
  %is.taken = extractvalue {{ i64, i1 }} %taken, 1
  br i1 %is.taken, label %do, label %look
do:
  %task = inttoptr i64 %word to ptr{run("%task")}
  %patience.place = getelementptr i8, ptr %task, i64 {field["patience"]}
  %patience.again = load i64, ptr %patience.place
  %again = add i64 %patience.again, {_NAPS}
  store atomic i64 {_READY}, ptr %box release, align 8
  %done.place = getelementptr i8, ptr %task, i64 {field["done"]}
  store atomic i64 1, ptr %done.place release, align 8
  br label %look
end:
  ret void
}}

define void @poll(ptr %box, i64 %polls) {{
entry:
  br label %again
again:
  %number = phi i64 [ 0, %entry ], [ %next, %again ]
  %word = load atomic i64, ptr %box acquire, align 8
  {wait}
  %next = add i64 %number, 1
  %is.more = icmp ult i64 %next, %polls
  br i1 %is.more, label %again, label %end
end:
  ret void
}}

define void @share(ptr %tasks, i64 %count, ptr %boxes, i64 %many) {{
entry:
  br label %post
post:
  %number = phi i64 [ 0, %entry ], [ %next.number, %posted ]
  %given = phi i64 [ 1, %entry ], [ %more, %posted ]
  %has.box = icmp ult i64 %number, %many
  %has.task = icmp ult i64 %given, %count
  %goes.on = and i1 %has.box, %has.task
  br i1 %goes.on, label %try, label %work
try:
  %next.number = add i64 %number, 1
  %box.start = mul i64 %number, {MAILBOX_BYTES}
  %box = getelementptr i8, ptr %boxes, i64 %box.start
  %before = load atomic i64, ptr %box monotonic, align 8
  %is.free = icmp ule i64 %before, {_READY}
  br i1 %is.free, label %put, label %posted
put:
  %put.start = mul i64 %given, {8 * len(TASK_FIELDS)}
  %put.task = getelementptr i8, ptr %tasks, i64 %put.start
  %done.put = getelementptr i8, ptr %put.task, i64 {field["done"]}
  store atomic i64 0, ptr %done.put monotonic, align 8
  %box.put = getelementptr i8, ptr %put.task, i64 {field["box"]}
  store ptr %box, ptr %box.put
  %before.put = getelementptr i8, ptr %put.task, i64 {field["before"]}
  store i64 %before, ptr %before.put
  %address = ptrtoint ptr %put.task to i64
  %try.put = cmpxchg ptr %box, i64 %before, i64 %address seq_cst seq_cst
  %is.put = extractvalue {{ i64, i1 }} %try.put, 1
  %one = zext i1 %is.put to i64
  %given.now = add i64 %given, %one
  br label %posted
posted:
  %more = phi i64 [ %given, %try ], [ %given.now, %put ]
  br label %post
work:{run("%tasks")}
  br label %collect
collect:
  %at = phi i64 [ 1, %work ], [ %at.next, %collected ]
  %is.left = icmp ult i64 %at, %given
  br i1 %is.left, label %recall, label %end
recall:
  %at.start = mul i64 %at, {8 * len(TASK_FIELDS)}
  %task = getelementptr i8, ptr %tasks, i64 %at.start
  %box.place = getelementptr i8, ptr %task, i64 {field["box"]}
  %own.box = load ptr, ptr %box.place
  %before.place = getelementptr i8, ptr %task, i64 {field["before"]}
  %was = load i64, ptr %before.place
  %own = ptrtoint ptr %task to i64
  %done.place = getelementptr i8, ptr %task, i64 {field["done"]}
  %recalled = cmpxchg ptr %own.box, i64 %own, i64 %was seq_cst seq_cst
  %is.recalled = extractvalue {{ i64, i1 }} %recalled, 1
  br i1 %is.recalled, label %collected, label %watch
watch:
  %looks = phi i64 [ 0, %recall ], [ %looks.next, %soon ], [ %looks.next, %nap ]
  %done = load atomic i64, ptr %done.place acquire, align 8
  %is.done = icmp ne i64 %done, 0
  br i1 %is.done, label %collected, label %on
on:
  %looks.next = add i64 %looks, 1
  %is.soon = icmp ult i64 %looks, {_SPINS}
  br i1 %is.soon, label %soon, label %nap
soon:
  {wait}
  br label %watch
nap:
  {sleep}
  br label %watch
collected:
  %at.next = add i64 %at, 1
  br label %collect
end:
  ret void
}}
"""


_MAX_HELPERS = 1024  # the number of mailboxes
_TIMED_SPINS = 2000  # polls that are timed, to convert seconds to polls

_ShareFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
_ServeFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


class ThreadPool:
    """Helper threads that execute tasks in compiled code, in parallel since they hold no Python lock.

    Each thread has a mailbox; see `mailbox_module`. After a task a thread polls its mailbox for a while in compiled
    code, where the next task begins within nanoseconds. Then it sleeps in Python, where waking up takes some 50 µs. The
    threads are daemons and own everything that their code needs, so that the process can end at any moment.

    Raises:
        CompilationError: if the module cannot be compiled.
    """

    def __init__(self) -> None:
        target = host_processor()
        has_usleep = bool(llvm.address_of_symbol("usleep"))
        self._module = compile_module(lambda: mailbox_module(target, has_usleep=has_usleep), target)
        self._share_tasks = self._module.function("share", _ShareFunction)
        self._serve = self._module.function("serve", _ServeFunction)
        self._memory = (ctypes.c_int64 * (MAILBOX_BYTES // 8 * (_MAX_HELPERS + 1)))()
        self._mailboxes = -(-ctypes.addressof(self._memory) // MAILBOX_BYTES) * MAILBOX_BYTES
        self._mailbox_words = (ctypes.c_int64 * (MAILBOX_BYTES // 8 * _MAX_HELPERS)).from_address(self._mailboxes)
        self._wake_locks: list[_thread.LockType] = []
        self._start_lock = threading.Lock()
        self._idle_spins = 0
        poll = self._module.function("poll", _ServeFunction)
        self._seconds_per_spin = (
            min(_elapsed_seconds(poll, self._mailboxes, _TIMED_SPINS) for _ in range(3)) / _TIMED_SPINS
        )

    def spins_for(self, seconds: float) -> int:
        """Return the number of polls of a mailbox that take so many seconds."""
        return int(seconds / self._seconds_per_spin)

    def run_tasks(self, tasks: int, count: int, patience: int) -> None:
        """Execute tasks in parallel, the first one in this thread, and return when no thread works on them any more.

        Tasks that no helper takes in time are not executed at all. So all tasks must take their work from one shared
        supply.

        Args:
            tasks: the address of consecutive tasks; see `TASK_FIELDS`.
            count: the number of tasks.
            patience: the number of polls for which helpers that start later wait for another job.
        """
        self._idle_spins = patience
        helpers = self._start_helpers(count - 1)
        for number in range(helpers):
            if self._mailbox_words[MAILBOX_BYTES // 8 * number] == AWAY:
                with contextlib.suppress(RuntimeError):  # the helper has been woken already
                    self._wake_locks[number].release()
        self._share_tasks(tasks, count, self._mailboxes, helpers)

    def _start_helpers(self, required: int) -> int:
        """Start the required helpers, as far as there is memory for them, and return their number."""
        if len(self._wake_locks) >= required:
            return required
        with self._start_lock, contextlib.suppress(RuntimeError):  # the system allows no more threads
            while len(self._wake_locks) < min(required, _MAX_HELPERS):
                wake_lock = _thread.allocate_lock()
                wake_lock.acquire()
                number = len(self._wake_locks)
                name = f"autodiff-{number}"
                threading.Thread(target=self._helper_loop, args=(number, wake_lock), daemon=True, name=name).start()
                self._wake_locks.append(wake_lock)
        return min(required, len(self._wake_locks))

    def _helper_loop(self, number: int, wake_lock: _thread.LockType) -> None:
        mailbox = self._mailboxes + MAILBOX_BYTES * number
        while True:
            wake_lock.acquire()
            self._serve(mailbox, self._idle_spins)


def _elapsed_seconds(function: Callable[..., object], *arguments: int) -> float:
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


_pool: ThreadPool | None = None
_pool_lock = threading.Lock()


def thread_pool() -> ThreadPool:
    """Return the thread pool of this process."""
    global _pool
    if _pool is None:
        with _pool_lock:
            _pool = _pool or ThreadPool()
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
        self.table = np.zeros(2 * max(1, len(leaves)), np.int64)
        for k, array in enumerate(self._read_arrays):
            self.table[2 * k] = array.ctypes.data
            if array.ndim > 1:
                self.table[2 * k + 1] = array.strides[-2]

    def is_bound_to(self, columns: Columns, rows: int) -> bool:
        """Return whether these are the arrays that are bound, all of them read in place."""
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
    if _is_readable_in_place(array):
        return array
    return np.ascontiguousarray(array, dtype=np.float64)


def _is_readable_in_place(array: NDArray[Any]) -> bool:
    """Return whether compiled code can read an array without a copy."""
    if _type_code(array) not in COLUMN_TYPES or not array.dtype.isnative or not array.flags.aligned:
        return False
    *outer, rows = array.shape
    if rows > 1 and array.strides[-1] != array.itemsize:
        return False
    # The table of columns has room for one distance between elements only.
    return all(
        stride == array.strides[-2] * math.prod(outer[axis + 1 :]) for axis, stride in enumerate(array.strides[:-1])
    )


def _type_code(array: NDArray[Any]) -> str:
    return f"{array.dtype.kind}{array.dtype.itemsize}"


@dataclass(frozen=True)
class SchedulingSettings:
    """When blocks run on several threads, and for how long at a time. Times are for whole jobs, in seconds."""

    call_seconds: float = 0.05  # of a call of compiled code; Ctrl-C is handled between calls
    solo_seconds: float = 100e-6  # shorter jobs run on one thread, since waking helpers takes about half as long
    solo_seconds_if_awake: float = 10e-6  # likewise where helpers still poll for the next job
    polling_seconds: float = 100e-6  # helpers poll after a job, and jobs that follow within this time find them awake
    max_solo_doublings: int = 6  # of the number of jobs on one thread, each time that helpers made jobs slower


SCHEDULING = SchedulingSettings()

_MIN_BLOCK_SECONDS = 1e-9  # estimate where the clock did not advance; it must not be 0

_POINT, _COLUMNS, _OUT, _ROWS, _NEXT, _END, _STRIDE = range(len(BLOCK_JOB_FIELDS))

_last_job_end = 0.0  # the time at which the last job of any runner ended


class PlanRunner:
    """A compiled plan that runs blocks of rows on several threads, for one caller at a time.

    Args:
        plan: the plan.
        target: the processor.
        threads: the maximum number of threads.
        block: the number of rows in a block.
        is_summed: whether the outputs are sums, one set per block, or values by row.

    Attributes:
        lock: callers must hold it.
    """

    def __init__(self, plan: KernelPlan, target: Processor, threads: int, block: int, *, is_summed: bool) -> None:
        self.plan = plan
        self.lock = threading.Lock()
        self._target = target
        self._threads = threads
        self._block = block
        self._is_summed = is_summed
        self._nests = loop_nests(plan)
        self._layout = lay_out(plan, self._nests, target.width)
        self._modules: dict[tuple[str, ...], CompiledModule] = {}
        self._memories: list[NDArray[np.uint64]] = []
        self._addresses: list[int] = []
        self._slower_jobs = 0  # consecutive jobs that took longer with helpers
        self._solo_jobs_left = 0  # jobs to run without helpers
        self._may_keep_helpers_awake = threads <= available_cores()
        self._tasks: Any = None  # the memory of the tasks of the last shared job
        self._tasks_key, self._task_arguments = (0, 0, False), (0, 0, 0)
        self._job = (ctypes.c_uint64 * len(BLOCK_JOB_FIELDS))()
        self._job_address = ctypes.addressof(self._job)
        self._bound: BoundColumns | None = None
        self._run_blocks: Any = None
        self._run_address = 0
        self._fold_blocks: Any = None
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
        if bound.type_codes not in self._modules:
            self._modules[bound.type_codes] = self._module(bound.type_codes)
        module = self._modules[bound.type_codes]
        self._run_blocks, self._run_address = module.function("run"), module.address("run")
        if self._is_summed:
            self._fold_blocks = module.function("fold")
        self._bound = bound
        self._job[_COLUMNS], self._job[_ROWS] = bound.table.ctypes.data, rows

    def _module(self, types: tuple[str, ...]) -> CompiledModule:
        def write() -> str:
            return kernel_module(
                self._target, self.plan, self._nests, self._layout, types, self._block, is_summed=self._is_summed
            )

        return compile_module(write, self._target)

    def block_groups(self, blocks: int, most: int) -> list[tuple[int, int]]:
        """Return ranges of blocks to run per call: a power of two of blocks that take some time."""
        fitting = min(most, SCHEDULING.call_seconds * self._threads / self._seconds_per_block)
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
        is_near = self._may_keep_helpers_awake and start - _last_job_end < SCHEDULING.polling_seconds
        if (
            blocks == 1
            or self._threads == 1
            or self._solo_jobs_left
            or solo_estimate < (SCHEDULING.solo_seconds_if_awake if is_near else SCHEDULING.solo_seconds)
        ):
            self._run_blocks(self._job_address, self._memory_address(0))
            _last_job_end = time.perf_counter()
            self._seconds_per_block = (_last_job_end - start) / blocks or _MIN_BLOCK_SECONDS
            if self._solo_jobs_left:
                self._solo_jobs_left -= 1
            return
        helpers, count = thread_pool(), min(self._threads, blocks)
        helpers.run_tasks(*self._prepare_tasks(helpers, count, is_near=is_near))
        _last_job_end = time.perf_counter()
        # If other processes keep the cores busy, helpers come too late, or compete with this thread. But they may also
        # have been asleep and be awake for the next job, so only every second slow job counts.
        if _last_job_end - start < solo_estimate:
            self._slower_jobs = 0
        else:
            self._slower_jobs += 1
            self._solo_jobs_left = (
                0 if self._slower_jobs % 2 else 2 ** min(self._slower_jobs // 2, SCHEDULING.max_solo_doublings) - 1
            )
        self._seconds_per_block = (
            min(self._seconds_per_block, (_last_job_end - start) * count / blocks) or _MIN_BLOCK_SECONDS
        )

    def _prepare_tasks(self, helpers: ThreadPool, count: int, *, is_near: bool) -> tuple[int, int, int]:
        """Return the arguments of `ThreadPool.run_tasks` for tasks that each run blocks until none is left."""
        key = self._run_address, count, is_near
        if key != self._tasks_key:
            patience = helpers.spins_for(SCHEDULING.polling_seconds) if is_near else 0
            fields = (
                field
                for address in map(self._memory_address, range(count))
                for field in (self._run_address, self._job_address, address, patience, 0, 0, 0)
            )
            self._tasks = (ctypes.c_uint64 * (len(TASK_FIELDS) * count))(*fields)
            self._tasks_key, self._task_arguments = key, (ctypes.addressof(self._tasks), count, patience)
        return self._task_arguments

    def fold_sums(self, out: int, blocks: int) -> None:
        """Add the sums of blocks, in the order of `fold`, into those of the first block.

        Args:
            out: the address of the sums.
            blocks: the number of blocks.
        """
        self._fold_blocks(out, blocks)

    def _memory_address(self, number: int) -> int:
        """Return the address of the memory of a thread."""
        while len(self._addresses) <= number:
            memory = np.zeros((self._layout.size + ALIGNMENT) // 8, np.uint64)
            start = -memory.ctypes.data % ALIGNMENT
            self._memories.append(memory)
            self._addresses.append(memory.ctypes.data + start)
        return self._addresses[number]

"""Operations without a form in vectors: compiled code calls the table of NumPy's arrays, a strip of rows at a time."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.llvm.plans.items import Called, Plan, Stage
from autodiff_cli.numbers.arrays.table import ARRAYS, quiet

_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


class Calls:
    """What compiled code may call of one plan.

    Args:
        strip: how many rows the arrays have room for.

    Attributes:
        address: of the function that is called; 0 if none is.
    """

    def __init__(self, plan: Plan, strip: int) -> None:
        self._items = {k: item for k, item in enumerate(plan.items) if isinstance(item, Called)}
        self._plan = plan
        self._strip = strip
        self._failure: BaseException | None = None
        self._function = _SIGNATURE(self._called)  # alive as long as this
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value or 0 if self._items else 0

    def check(self) -> None:
        """Raise what a call has raised: compiled code cannot."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def uninterrupted(self, stop: Callable[[], object]) -> AbstractContextManager[None]:
        """Put off Ctrl-C while compiled code runs that calls Python, where an exception could be lost at any moment.

        Args:
            stop: is called when Ctrl-C comes; KeyboardInterrupt, or whatever it does, is raised at the end.
        """
        return _interrupts_wait(stop) if self.address else contextlib.nullcontext()

    def _called(self, number: int, arguments: int, out: int, rows: int) -> None:
        item = self._items[number]
        result = self._view(out, item.size, item.level, rows)
        try:
            given = [
                each
                if isinstance(each, float)
                else self._view(_pointer(arguments, k), item.size, self._plan.level(each), rows)
                for k, each in enumerate(item.inputs)
            ]
            with quiet():
                result[...] = ARRAYS.function(item.op, len(given))(*given)
        except BaseException as failure:  # kept for `check`
            result[...] = np.nan
            self._failure = failure

    def _view(self, address: int, size: int, level: Stage, rows: int) -> NDArray[np.float64]:
        """The numbers at an address: for each element those of all rows, or one."""
        strip = self._strip if level is Stage.ROW else 1
        memory: Any = (ctypes.c_double * (size * strip)).from_address(address)
        return np.frombuffer(memory, np.float64).reshape(size, strip)[:, : rows if level is Stage.ROW else 1]


@contextlib.contextmanager
def _interrupts_wait(stop: Callable[[], object]) -> Iterator[None]:
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # Python handles signals in its main thread alone
        return
    came: list[tuple[int, Any]] = []

    def note(*what: Any) -> None:
        came.append(what)
        stop()

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if came:
        handler(*came[0])


def _pointer(table: int, number: int) -> int:
    return ctypes.c_void_p.from_address(table + 8 * number).value or 0

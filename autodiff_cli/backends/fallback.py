"""A backend that compiles kernels and falls back to NumPy, with a notice, when compilation fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

from autodiff_cli.array_types import Array
from autodiff_cli.backends import protocol

Kernel = TypeVar("Kernel")
Notify: TypeAlias = Callable[[str], object]


def log_warning(sentence: str) -> None:
    """Log a warning as `autodiff_cli`; without a logging configuration it goes to standard error."""
    import logging

    logging.getLogger("autodiff_cli").warning(sentence)


class FallbackBackend:
    """A `Backend` that compiles kernels until compilation fails once, and uses NumPy from then on.

    Args:
        compiled: creates the compiling backend; it may raise.
        plain: the backend to fall back to.
        notify: called once, with the reason, when the fallback comes into use.
    """

    def __init__(
        self, compiled: Callable[[], protocol.Backend], plain: protocol.Backend, notify: Notify = log_warning
    ) -> None:
        self._plain = plain
        self._notify = notify
        self._compiled: protocol.Backend | None = None
        try:
            self._compiled = compiled()
        except (ImportError, OSError, RuntimeError) as error:  # llvmlite is missing or broken
            self.disable_compilation(error)

    @property
    def name(self) -> str:
        """The name of the backend in use."""
        return self.active_backend.name

    @property
    def active_backend(self) -> protocol.Backend:
        """The backend that makes kernels at present."""
        return self._compiled or self._plain

    def disable_compilation(self, error: Exception) -> None:
        """Use the plain backend from now on, and notify the user of the error."""
        if self._compiled is None and isinstance(error, protocol.CompilationError):
            return  # the user has been notified for another kernel
        self._compiled = None
        lines = str(error).strip().splitlines() or [type(error).__name__]
        self._notify(
            f"machine code could not be generated ({lines[0]}); "
            "NumPy is used instead, which is slower; see `autodiff doctor`"
        )

    def sum_kernel(self, graphs: protocol.RowGraphs, *, recompute_every: int | None = None) -> protocol.SumKernel:
        """Compile graphs whose outputs are summed over rows; see `Backend.sum_kernel`."""
        return self._kernel(lambda backend: backend.sum_kernel(graphs, recompute_every=recompute_every))

    def row_kernel(self, graphs: protocol.RowGraphs) -> protocol.RowKernel:
        """Compile graphs that give values for each row; see `Backend.row_kernel`."""
        return self._kernel(lambda backend: backend.row_kernel(graphs))

    def epoch_kernel(
        self, descent: protocol.GradientDescent, *, recompute_every: int | None = None
    ) -> protocol.EpochKernel:
        """Compile a gradient method; see `Backend.epoch_kernel`."""
        return self._kernel(lambda backend: backend.epoch_kernel(descent, recompute_every=recompute_every))

    def _kernel(self, make: Callable[[protocol.Backend], Kernel]) -> Kernel:
        return cast(Kernel, _FallbackKernel(self, make))


class _FallbackKernel:
    """A kernel of any kind that may fail to compile when it is made, or when it is first called with columns.

    Its attributes are those of the kernel in use. What a row kernel prepares names the kernel that prepared it.
    """

    def __init__(self, owner: FallbackBackend, make: Callable[[protocol.Backend], Any]) -> None:
        self._owner = owner
        self._make = make
        try:
            self._kernel = make(owner.active_backend)
        except (protocol.CompilationError, MemoryError) as error:
            self._switch(error)

    def __reduce__(self) -> Any:
        return self._kernel.__reduce__()  # as the kernel that is in use

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        attribute = getattr(self._kernel, name)
        if not callable(attribute):
            return attribute

        def call(*arguments: Any, **options: Any) -> Any:
            try:
                return getattr(self._kernel, name)(*arguments, **options)
            except protocol.CompilationError as error:
                self._switch(error)
                return getattr(self._kernel, name)(*arguments, **options)

        self.__dict__[name] = call
        return call

    def prepare(self, point: protocol.Point) -> list[Any]:
        return [self._kernel, point, self._kernel.prepare(point)]

    def write(self, prepared: list[Any], columns: protocol.Columns, out: Array) -> None:
        if prepared[0] is not self._kernel:  # prepared by the kernel before the switch
            prepared[:] = self.prepare(prepared[1])
        try:
            self._kernel.write(prepared[2], columns, out)
        except protocol.CompilationError as error:
            self._switch(error)
            self.write(prepared, columns, out)

    def _switch(self, error: Exception) -> None:
        """Replace the kernel by the plain backend's; errors of that one are raised."""
        self._owner.disable_compilation(error)
        self._kernel = self._make(self._owner.active_backend)

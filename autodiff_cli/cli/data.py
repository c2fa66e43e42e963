"""What commands on data share: reading DATA, writing a file, and how these fail."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autodiff_cli.cli.environment import Environment
from autodiff_cli.cli.errors import BadInput, Failure

if TYPE_CHECKING:
    from autodiff_cli.data.files import DataFile


def data_file(path: str, environment: Environment, *, once: bool = False) -> DataFile:
    """The file of this name, or standard input for `-`. Raises DataError.

    Args:
        once: see `DataFile`.
    """
    from autodiff_cli.data.files import DataFile

    if path != "-":
        return DataFile(path)
    stream = environment.stdin
    return DataFile(path, stream.buffer if hasattr(stream, "buffer") else io.BytesIO(stream.read().encode()), once=once)


@contextlib.contextmanager
def bad_input(hint: str = "") -> Iterator[None]:
    """Data that cannot be used, options that do not go together and files that are no models are bad input.

    Args:
        hint: what helps if all that is wrong are cells that are missing.
    """
    from autodiff_cli.data.table import DataError
    from autodiff_cli.training.errors import OptionError

    try:
        yield
    except DataError as error:
        raise BadInput(f"{error}\n{hint}" if hint and error.missing else str(error)) from error
    except OptionError as error:
        raise BadInput(str(error)) from error


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """A file that cannot be written is a failure, with status 1."""
    try:
        yield
    except OSError as error:
        raise Failure(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from error

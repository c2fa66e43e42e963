"""What commands on data share: reading DATA, writing a file, and how these fail."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO

from autodiff_cli.cli.environment import Environment
from autodiff_cli.cli.errors import BadInput, Failure

if TYPE_CHECKING:
    from autodiff_cli.data.files import DataFile
    from autodiff_cli.data.options import FileOptions
    from autodiff_cli.data.several import DataFiles


def data_file(path: str, environment: Environment, *, once: bool = False) -> DataFile:
    """The file of this name, or standard input for `-`. Raises DataError.

    Args:
        once: see `DataFile`.
    """
    from autodiff_cli.data.files import DataFile

    return DataFile(path, _stdin(environment), once=once) if path == "-" else DataFile(path)


def data_files(
    paths: Sequence[str],
    environment: Environment,
    options: FileOptions,
    origins: Mapping[str, datetime] = MappingProxyType({}),
    on_disk: bool = False,
) -> DataFiles:
    """The data at these paths, `-` standing for standard input. Raises DataError. See `open_data`."""
    from autodiff_cli.data.several import open_data

    stdin = _stdin(environment) if "-" in paths else None
    return open_data(paths, stdin, options=options, origins=origins, on_disk=on_disk)


def _stdin(environment: Environment) -> BinaryIO:
    stream: Any = environment.stdin
    return stream.buffer if hasattr(stream, "buffer") else io.BytesIO(stream.read().encode())


@contextlib.contextmanager
def bad_input(hint: str = "") -> Iterator[None]:
    """Data that cannot be used, options that do not go together and files that are no models are bad input.

    Args:
        hint: what helps if all that is wrong are cells that are missing.
    """
    from autodiff_cli.data.cells import DataError
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
    except BrokenPipeError:
        raise  # whoever reads the report has seen enough
    except OSError as error:
        raise Failure(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from error

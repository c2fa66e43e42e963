"""The environment of a command: its streams, data files, output and exit status.

`Environment` holds the streams of the process, so that tests can replace them. A command opens data files here, and
returns an `Output`: a report, and how to write it. `Output.write` is the one place where a report
becomes text or JSON, on standard output or in a file. `BadInput` and `Failure` are the errors that end a command.
"""

from __future__ import annotations

import contextlib
import enum
import io
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple, TextIO

from autodiff_cli.language.errors import InputError, escape_controls
from autodiff_cli.system import error_reason, open_atomic_text

if TYPE_CHECKING:
    from datetime import datetime

    from autodiff_cli.data.dialect import FileOptions
    from autodiff_cli.data.files import DataSource
    from autodiff_cli.render.progress import ProgressBar
    from autodiff_cli.render.report import OutputGuard, Paper, Report


class ExitStatus(enum.IntEnum):
    """The exit statuses of the process. Scripts rely on them."""

    DONE = 0
    FAILED = 1  # ran, and failed: diverged, a file that could not be written
    BAD_INPUT = 2  # syntax, an unknown name, a missing value, an unreadable file, a bad option
    INTERRUPTED = 130


class BadInput(InputError):  # noqa: N818 - named after the input, not as an error
    """Input that cannot be used. The message names the input and says what to do. Exit status 2."""


class Failure(Exception):  # noqa: N818
    """The command ran and failed. Any partial result has already been written. Exit status 1."""


DATA_SUFFIXES = (".csv", ".tsv", ".txt", ".dat", ".gz", ".parquet", ".arrow", ".feather", ".jsonl", ".ndjson")
_MAX_LINE_LENGTH = 2000  # characters; a longer line of a message loses its middle


class Environment(NamedTuple):
    """The standard streams of a command and the properties of its terminal; tests replace it.

    Attributes:
        stdin: standard input.
        stdout: standard output.
        stderr: standard error.
        terminal: whether standard output is a terminal that supports control sequences.
        width: the columns of the terminal; only output to a terminal is wrapped or shortened.
        colour: whether output may be coloured.
        json: whether reports are written as JSON documents instead of text.
        digits: the number of significant digits of numbers in reports; None for the default.
        clock: returns seconds, for progress.
    """

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    terminal: bool = False
    width: int = 80
    colour: bool = False
    json: bool = False
    digits: int | None = None
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def of_process(cls) -> Environment:
        """Return the environment of this process."""
        from autodiff_cli.render.formatting import LOOKALIKE_ERRORS

        stdin, stdout = sys.stdin or _null_stream("r"), sys.stdout or _null_stream("w")
        stderr = sys.stderr or _null_stream("w")
        for stream in (stdout, stderr):
            # A character that the encoding lacks must not make a command fail.
            getattr(stream, "reconfigure", lambda **_: None)(errors=LOOKALIKE_ERRORS)
        terminal = stdout.isatty() and os.environ.get("TERM") != "dumb"
        width = shutil.get_terminal_size().columns if terminal else 80
        return cls(stdin, stdout, stderr, terminal, width, colour=terminal and not os.environ.get("NO_COLOR"))

    def paper(self) -> Paper:
        """Return the paper to write a report on: with colour and boxes in a terminal, plain lines elsewhere."""
        from autodiff_cli.render.report import Paper, TerminalPaper

        if self.terminal:
            return TerminalPaper(self.stdout, self.width, self.colour, self.digits)
        return Paper(self.stdout, self.digits)

    def progress_bar(self, total: int | None = None) -> ProgressBar:
        """Return a progress bar on the terminal, which is never shown elsewhere; see `ProgressBar`."""
        from autodiff_cli.render.progress import ProgressBar

        clock = self.clock if self.terminal and not self.json else None
        return ProgressBar(self.stdout, self.width, self.colour, total, clock)

    def note(self, *messages: str) -> None:
        """Write messages to standard error. Nothing happens if the stream is closed; very long lines are shortened."""
        from autodiff_cli.render.formatting import shorten_middle

        lines = (line for message in messages for line in escape_controls(message).split("\n"))
        with contextlib.suppress(OSError):
            self.stderr.write("".join(f"{shorten_middle(line, _MAX_LINE_LENGTH)}\n" for line in lines))


def _null_stream(mode: Literal["r", "w"]) -> TextIO:
    """Return a stream on the null device, in place of a standard stream that the process was started without."""
    return open(os.open(os.devnull, os.O_RDONLY), mode, encoding="utf-8")


def open_data_files(
    paths: Sequence[str],
    environment: Environment,
    options: FileOptions,
    origins: Mapping[str, datetime | None] = MappingProxyType({}),
    on_disk: bool = False,
    outputs: Iterable[str | os.PathLike[str] | None] = (),
) -> DataSource:
    """Open several data files as one table; `-` is standard input. See `open_data` for further arguments.

    Args:
        outputs: the files that the command will write.

    Raises:
        DataError: if one of them cannot be read.
        BadInput: if a file that will be written is one of them.
    """
    from autodiff_cli.data.files import open_data

    stdin = binary_stdin(environment) if "-" in paths else None
    source = open_data(paths, stdin, options=options, origins=origins, spool_to_disk=on_disk)
    check_not_replaced((file.path for file in source.files), outputs)
    return source


def check_not_replaced(inputs: Iterable[str], outputs: Iterable[str | os.PathLike[str] | None]) -> None:
    """Raise BadInput if a file that a command will write is one that it reads, or that it writes already."""
    paths = {os.path.realpath(path) for path in inputs if os.path.isfile(path)}
    for output in (os.fspath(output) for output in outputs if output):
        path = os.path.realpath(output)
        if path in paths:
            raise BadInput(f"{output} is an input or another output, which would be replaced: choose another name")
        if output != "-" and (os.path.isfile(path) or not os.path.exists(path)):
            paths.add(path)


def binary_stdin(environment: Environment) -> BinaryIO:
    """Return standard input as a stream of bytes."""
    stream: Any = environment.stdin
    return stream.buffer if hasattr(stream, "buffer") else io.BytesIO(stream.read().encode())


@contextlib.contextmanager
def hint_about_missing_cells(hint: str) -> Iterator[None]:
    """Add a line to the message of an error about data whose only problem is missing cells."""
    try:
        yield
    except InputError as error:
        if not getattr(error, "missing", False):
            raise
        raise BadInput(f"{error}\n{hint}") from error


@contextlib.contextmanager
def errors_as_failure(path: str) -> Iterator[None]:
    """Turn an OSError while a file is written into `Failure`."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of standard output has gone; that is not a failure of this file
    except OSError as error:
        raise Failure(f"cannot write {path}: {error_reason(error)}") from error


class Output(NamedTuple):
    """The result of a command: a report, and how to write it.

    Attributes:
        report: the report; None for a command that has written everything already.
        status: the exit status of the process.
        path: the file to write, replaced as a whole; None or - for standard output.
        after_write: work that is left once the report is written, such as saving files. A failure there does not lose
            the report, and it runs even if standard output was closed early or is full.
        guard: the guard of standard output during the command; a new one by default.
        json: whether to write JSON documents unless the environment says so; by default to a path that ends in .json.
    """

    report: Report | None
    status: ExitStatus = ExitStatus.DONE
    path: str | None = None
    after_write: Callable[[], None] | None = None
    guard: OutputGuard | None = None
    json: bool | None = None

    def write(self, environment: Environment) -> ExitStatus:
        """Write the report, then run `after_write`.

        Raises:
            Failure: for a file that cannot be written.
        """
        if self.after_write is None:
            self._write_report(environment)
            return self.status
        from autodiff_cli.render.report import OutputGuard

        guard = self.guard or OutputGuard(environment.stdout)
        with guard:
            self._write_report(environment)
            environment.stdout.flush()
        self.after_write()
        if guard.error is not None:
            raise Failure(f"cannot write the report: {error_reason(guard.error)}")
        return self.status

    def _write_report(self, environment: Environment) -> None:
        if self.report is not None:
            json = environment.json or ((self.path or "").lower().endswith(".json") if self.json is None else self.json)
            with _paper_for(self.report, json, self.path, environment) as paper:
                if json:
                    from autodiff_cli.render.report import dumps

                    paper.stream.writelines(map(dumps, self.report.documents()))
                else:
                    self.report.write(paper)


@contextlib.contextmanager
def _paper_for(report: Report, json: bool, path: str | None, environment: Environment) -> Iterator[Paper]:
    """Yield the paper to write a report on. Files and file formats get no colour and no boxes."""
    from autodiff_cli.render.report import Paper

    if path not in (None, "-"):
        with errors_as_failure(path), open_atomic_text(path) as stream:
            yield Paper(stream, environment.digits)
    elif json or report.is_data:
        if isinstance(environment.stdout, io.TextIOWrapper):
            # File formats are always UTF-8, unlike the terminal; bytes of the input stay unchanged.
            environment.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
        yield Paper(environment.stdout, environment.digits)
    else:
        yield environment.paper()

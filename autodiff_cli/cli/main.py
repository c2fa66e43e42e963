"""The entry point of the command `autodiff`, and the one place where exceptions become messages and exit statuses.

Importing is most of a short run. So at its top, this module imports only `gc` and `sys`. Everything else is imported
later, where Ctrl-C ends the program with a message instead of a traceback.
"""

from __future__ import annotations

import gc
import sys

MAX_HELP_WIDTH = 100  # columns; longer lines are hard to read
TYPE_CHECKING = False  # like `typing.TYPE_CHECKING`, without importing `typing`

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from autodiff_cli.cli.environment import Environment, ExitStatus
    from autodiff_cli.language.errors import InputError


def main() -> int:
    """Run the command line of this process and return its exit status."""
    # Imports create no garbage. Collecting at the usual rate, and again at the end, would take a fifth of a short run.
    gc.set_threshold(100_000)
    sys.unraisablehook = _raise_lost_interrupt
    try:
        import signal

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupt)
        from autodiff_cli.cli.environment import Environment
        from autodiff_cli.system import configure_libraries

        configure_libraries()
        return run(sys.argv[1:], Environment.of_process())
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write("interrupted\n")
        return 130  # `ExitStatus.INTERRUPTED`; its module may be the one whose import was interrupted
    finally:
        gc.freeze()


def _interrupt(_: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but not within an import: what imports there may take it for a module that is missing.

    Python itself does so for the modules of `xml` that are written in C, and a class that is created wraps it. Nor is
    it raised while a lost interrupt is being raised again, since Python drops the exceptions of that hook too.
    """
    while frame is not None:
        code = frame.f_code
        if code is _raise_lost_interrupt.__code__ or code.co_filename.startswith("<frozen importlib"):
            return _interrupt_again()
        frame = frame.f_back
    raise KeyboardInterrupt


def _raise_lost_interrupt(lost: sys.UnraisableHookArgs) -> None:
    """Raise an interrupt again that came in a destructor or a callback, whose exceptions Python drops."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        _interrupt_again()
    else:
        sys.__unraisablehook__(lost)


def _interrupt_again() -> None:
    """Interrupt the main thread in a moment."""
    import signal
    from threading import Timer, main_thread

    # A signal to the main thread wakes it. Windows has none for threads.
    again = getattr(signal, "pthread_kill", lambda _, number: signal.raise_signal(number))
    Timer(0.01, again, (main_thread().ident, signal.SIGINT)).start()


def run(words: Sequence[str], environment: Environment) -> int:
    """Run a command line (without the program's name) and return its exit status.

    Exceptions become messages and statuses here. Only KeyboardInterrupt is passed on.
    """
    from autodiff_cli.cli.environment import ExitStatus, Failure
    from autodiff_cli.language.errors import InputError

    try:
        status = _run_command(words, environment)
        environment.stdout.flush()
        return status
    except InputError as error:
        return _fail(environment, _with_flags(error), ExitStatus.BAD_INPUT)
    except Failure as error:
        return _fail(environment, str(error), ExitStatus.FAILED)
    except BrokenPipeError:
        from autodiff_cli.render.report import discard_output

        discard_output(environment.stdout)
        return ExitStatus.DONE
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module in ("", "autodiff_cli"):
            raise
        package = {"flint": "python-flint"}.get(module, module)
        message = f"this needs {package}, which is not installed: pip install {package}"
        return _fail(environment, message, ExitStatus.BAD_INPUT)
    except OSError as error:
        from autodiff_cli.render.report import discard_output
        from autodiff_cli.system import error_reason

        try:
            environment.stdout.flush()
        except OSError:
            discard_output(environment.stdout)
        return _fail(environment, f"cannot write: {error_reason(error)}", ExitStatus.FAILED)
    except Exception as error:
        from autodiff_cli.data.source import is_memory_low

        if not isinstance(error, MemoryError) and not is_memory_low():  # libraries raise errors of many types
            raise
        detail = str(error).strip("()") or "all of it is used"  # the message is often empty
        return _fail(environment, f"not enough memory ({detail})", ExitStatus.FAILED)


def _run_command(words: Sequence[str], environment: Environment) -> int:
    """Run the command that the first word names, or write help or the version."""
    from autodiff_cli.cli.command_line import HELP, VERSION, find_command, overview

    first, *rest = words or ["help"]
    if first == "help":
        first, rest = (rest[0], ["--help"]) if rest else ("--help", [])
    width = min(environment.width, MAX_HELP_WIDTH)
    if first in HELP:
        environment.stdout.write(overview(width))
        return 0
    if first in VERSION:
        from autodiff_cli.version import __version__

        environment.stdout.write(f"autodiff {__version__}\n")
        return 0
    command = find_command(first)
    options = rest[: rest.index("--")] if "--" in rest else rest
    if any(word in HELP for word in options):
        environment.stdout.write(command.help(width))
        return 0
    return command.run(environment, rest)


def _with_flags(error: InputError) -> str:
    """Return the message of an error with the options of fits as users type them.

    >>> from autodiff_cli.options import OptionError
    >>> _with_flags(OptionError("chains needs posterior, the number of draws of each chain"))
    '--chains needs --posterior, the number of draws of each chain'
    """
    import re

    from autodiff_cli.options import OptionError, option_fields
    from autodiff_cli.training.options import FitOptions

    fields = option_fields(FitOptions).items()
    flags = {name: field.option.flags[0] for name, field in fields if field.option.flags} | {"by": "--by"}
    compound, every = "|".join(name for name in flags if "_" in name), "|".join(flags)
    pattern = rf"^(?:{every})(?=: )"
    if isinstance(error, OptionError):
        pattern = rf"(?<![\w-])(?:{compound})\b|^(?:{every})(?=:? )|(?<=needs )(?:{every})\b"
        pattern += rf"|(?<=combined with )(?:{every})(?=:| or )|(?<= use )(?:{every})\b|(?<= or )(?:{every})$"
    return re.sub(pattern, lambda match: flags[match[0]], str(error))


def _fail(environment: Environment, message: str, status: ExitStatus) -> int:
    environment.note(f"error: {message}")
    return status

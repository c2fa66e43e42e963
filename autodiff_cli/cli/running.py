"""A command line, run: the one place where exceptions become messages and statuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autodiff_cli.cli.errors import BadInput, ExitStatus, Failure

if TYPE_CHECKING:
    from autodiff_cli.cli.answer import Answer
    from autodiff_cli.cli.environment import Environment


def run(words: Sequence[str], environment: Environment) -> int:
    """Run a command line (without the program's name) and return its exit status. Lets only KeyboardInterrupt pass."""
    from typer import TyperException

    from autodiff_cli.language.errors import ExpressionError

    try:
        status = _command(words, environment)
        environment.stdout.flush()
        return status
    except (BadInput, ExpressionError) as error:
        return _fail(environment, str(error), ExitStatus.BAD_INPUT)
    except TyperException as error:
        return _fail(environment, error.format_message(), ExitStatus.BAD_INPUT)
    except Failure as error:
        return _fail(environment, str(error), ExitStatus.FAILED)
    except BrokenPipeError:
        from autodiff_cli.render.paper import silence

        silence(environment.stdout)
        return ExitStatus.DONE
    except MemoryError as error:
        detail = str(error).strip("()") or "all is used"  # what it says is often nothing
        return _fail(environment, f"there is not enough memory for this ({detail})", ExitStatus.FAILED)
    except OSError as error:
        return _fail(environment, f"cannot write: {error.strerror}", ExitStatus.FAILED)


def _command(words: Sequence[str], environment: Environment) -> int:
    """Let Typer read the options and run the command. Typer's own handling of exceptions stays out of it."""
    from typer import Exit

    from autodiff_cli.cli.app import commands
    from autodiff_cli.cli.call import Call
    from autodiff_cli.cli.options import arrange

    group = commands(words[0] if words else "")
    arranged, values = arrange(group, words)
    try:
        with group.make_context("autodiff", arranged, obj=Call(environment, values)) as context:
            answer: Answer = group.invoke(context)
            return answer.give(environment)
    except Exit as done:  # --help and --version have been answered
        return done.exit_code


def _fail(environment: Environment, message: str, status: ExitStatus) -> int:
    environment.note(f"error: {message}")
    return status

"""The command line in a test: `run_cli("grad x^2 --x 3")` reads as a sentence."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import shlex
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from autodiff_cli.cli.environment import Environment
from autodiff_cli.cli.main import run
from autodiff_cli.training.result.goodness import GoodnessOfFit

ROOT = Path(__file__).parents[1]  # of the checkout
SETS = ROOT / "tests" / "data"  # data sets; its README says where they are from


class Output(str):
    """What a command wrote on standard output, with `.stderr` and the exit `.status`."""

    stderr: str
    status: int

    @cached_property
    def json(self) -> Any:
        """Standard output as the one JSON document that it is."""
        return json.loads(self, parse_constant=_refuse)


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def run_cli(line: str | Sequence[str], stdin: str = "", terminal: int | None = None, colour: bool = False) -> Output:
    """Run a command line in this process.

    Args:
        line: what follows `autodiff`, as one would type it in a shell, or as separate words.
        terminal: the columns of a terminal to write to; none by default.
    """
    words = shlex.split(line) if isinstance(line, str) else [*line]
    stdout, stderr = io.StringIO(), io.StringIO()
    environment = Environment(
        io.StringIO(stdin), stdout, stderr, terminal=terminal is not None, width=terminal or 80, colour=colour
    )
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        status = run(words, environment)
    output = Output(stdout.getvalue())
    output.stderr = stderr.getvalue()
    output.status = int(status)
    return output


def expect_refusal(output: Output, message: str) -> None:
    """What bad input gets: status 2, a message that says `message`, and nothing on standard output."""
    assert (output.status, output) == (2, "")
    assert output.stderr.startswith("error: ")
    assert message in output.stderr


def goodness(fit: GoodnessOfFit) -> dict[str, Any]:
    """Return the figures of a fit that say how well it fits, by name."""
    return {field.name: getattr(fit, field.name) for field in dataclasses.fields(GoodnessOfFit)}

"""`autodiff doctor`: what this installation computes with."""

from __future__ import annotations

import typer

from autodiff_cli.cli.answer import Answer
from autodiff_cli.cli.call import Call
from autodiff_cli.cli.declarations import Json
from autodiff_cli.cli.errors import BadInput


def doctor(context: typer.Context, json: Json = False) -> Answer:
    """What this installation computes with, and why.

    Compiles a small kernel and runs it: whether fits over many rows run as machine code or on NumPy, on which
    processor, with which functions, and where the code is kept.

    \b
    Examples:
      autodiff doctor
      autodiff doctor --json
    """
    from autodiff_cli.backends.health import health
    from autodiff_cli.render.reports.health import health_report

    call = Call.of(context)
    if call.values:
        raise BadInput(f"doctor takes no values such as --{next(iter(call.values))}: it is about no point")
    return Answer(health_report(health()), json)

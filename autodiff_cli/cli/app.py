"""The Typer app: its commands, and what the whole of it says.

Each command is a function in a module of its own, both of the command's name. Modules are imported, and options made,
only for the command that runs.
"""

from __future__ import annotations

import importlib
from typing import Annotated

import typer
from typer.core import TyperGroup
from typer.main import get_group

from autodiff_cli.cli.options import HELP
from autodiff_cli.version import __version__

COMMANDS = (
    "grad", "trace", "lesson", "serve", "train", "predict", "compare", "data", "check", "ops", "doctor", "export",
    "completion",
)  # fmt: skip

_HELP = """Type a formula: get its gradient, watch backpropagation, fit it to data.

\b
  autodiff grad  "x*y + sin(x)" --x 2 --y 3     value, gradient, every node
  autodiff grad  "x*y + sin(x)"                 the derivatives as formulas
  autodiff trace "x*y + sin(x)" --x 2 --y 3     both passes, step by step
  autodiff lesson                               backpropagation, lesson by lesson
  autodiff serve                                all that in the browser, typed there
  autodiff train "y ~ a*exp(-b*x)" decay.csv    parameters from data
  autodiff predict MODEL.json new.csv           what a saved model says of new data
  autodiff compare DATA MODEL MODEL...          which model serves the data best
  autodiff data measured.csv                    what the reader makes of a data file
  autodiff check "x*y + sin(x)" --x 2 --y 3     is the gradient right?
  autodiff ops tanh                             an operation, its derivative, where it kinks
  autodiff doctor                               what this installation computes with, and why
  autodiff completion bash                      completion for bash, zsh or fish
  autodiff export "x*y + sin(x)" --to c         value and gradient in another language

`autodiff COMMAND --help` says more, with examples.
"""


def commands(wanted: str) -> TyperGroup:
    """The command `wanted` alone, or all of them if there is none of that name."""
    app = typer.Typer(
        name="autodiff",
        help=_HELP,
        callback=_autodiff,
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": [*HELP]},
    )
    for name in [wanted] if wanted in COMMANDS else COMMANDS:
        command = getattr(importlib.import_module(f"autodiff_cli.cli.commands.{name}"), name)
        values = "[--VARIABLE VALUE]... " if "assignments" in command.__annotations__ else ""
        app.command(options_metavar=f"{values}[OPTIONS]")(command)
    return get_group(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"autodiff {__version__}")
        raise typer.Exit


def _autodiff(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """What holds for all commands."""

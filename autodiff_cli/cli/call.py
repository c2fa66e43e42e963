"""What a command gets from `main` besides the options that it declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import typer

from autodiff_cli.cli.environment import Environment


class Call(NamedTuple):
    """The environment, and the text given for each variable (`--x pi/4`) by the variable's name."""

    environment: Environment
    values: Mapping[str, str]

    @classmethod
    def of(cls, context: typer.Context) -> Call:
        """The call that `main` put into Typer's context."""
        call = context.obj
        assert isinstance(call, cls)
        return call

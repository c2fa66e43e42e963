"""The options of `train` that say how to go down, and when to stop."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from autodiff_cli.training.methods.schedules import SCHEDULES
from autodiff_cli.training.options import listed

# Those that are fields of records, by these names.
DESCENT: dict[str, Any] = {
    "lr_schedule": Annotated[
        str,
        typer.Option(
            "--lr-schedule",
            metavar="NAME",
            help=f"How the learning rate changes: {listed([form for form, _ in SCHEDULES.values()])}.",
        ),
    ],
    "clip_norm": Annotated[
        float | None,
        typer.Option("--clip-norm", metavar="LENGTH", help="Shorten longer gradients to this length."),
    ],
    "tolerance": Annotated[
        float | None,
        typer.Option("--tolerance", metavar="SHARE", help="End where the loss falls by no more than this share of it."),
    ],
    "l1": Annotated[float, typer.Option("--l1", metavar="FACTOR", help="Add this times the sum of |parameter|.")],
    "l2": Annotated[float, typer.Option("--l2", metavar="FACTOR", help="Add this times the sum of parameter^2.")],
    "min_delta": Annotated[
        float,
        typer.Option("--min-delta", metavar="D", help="How far the loss falls, at least, for --patience to count it."),
    ],
}

KEEPING: dict[str, Any] = {
    "checkpoint": Annotated[
        str | None,
        typer.Option("--checkpoint", metavar="FILE", help="Keep the fit in a file while it runs, once a second."),
    ],
    "checkpoint_every": Annotated[
        int | None,
        typer.Option("--checkpoint-every", metavar="N", help="After every N epochs instead."),
    ],
    "resume": Annotated[
        str | None,
        typer.Option("--resume", metavar="FILE", help="Go on from a checkpoint; --epochs is the number in all."),
    ],
}

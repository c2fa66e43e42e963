"""Options and arguments that several commands have, each declared once."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

Formula: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="EXPR",
        help="The expression, in quotes; - reads it from standard input, @FILE from a file.",
        show_default=False,
    ),
]
Assignments: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A variable's value, where its name is also an option."),
]
Wrt: TypeAlias = Annotated[
    str | None, typer.Option("--wrt", metavar="x,y", help="Differentiate towards these variables only.")
]
Digits: TypeAlias = Annotated[
    int | None,
    typer.Option("--digits", min=1, max=17, metavar="N", help="Show all numbers to N significant digits."),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Write one JSON document, numbers in full.")]

"""Options and arguments that several commands have, each declared once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, NamedTuple, TypeAlias

import typer

MOST_ORDER = 170  # the factorial of a higher order is no float


class PassMode(StrEnum):
    """The pass that computes the gradient."""

    REVERSE = "reverse"
    FORWARD = "forward"


Expr: TypeAlias = Annotated[
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

# --- kinds of derivatives


class More(NamedTuple):
    """What is asked for beyond value and gradient, by the names of the options."""

    symbolic: bool = False
    mode_forward: bool = False
    order: int | None = None
    hessian: bool = False
    direction: str | None = None
    jacobian: bool = False
    outputs: str | None = None
    at: str | None = None

    def options(self) -> list[str]:
        """The options that were given, as they are typed."""
        given = (name for name, value in self._asdict().items() if value is not None and value is not False)
        return [f"--{name.replace('_', ' ')}" for name in given]


Symbolic: TypeAlias = Annotated[bool, typer.Option("--symbolic", help="Also the derivatives as formulas.")]
Mode: TypeAlias = Annotated[
    PassMode,
    typer.Option(
        "--mode",
        show_default=False,
        help="The pass that computes the gradient; forward shows the tangents of all nodes.",
    ),
]
Order: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--order",
        min=1,
        metavar="N",
        help="Also the derivative of order N in one variable (see --wrt).",
    ),
]
Hessian: TypeAlias = Annotated[bool, typer.Option("--hessian", help="Also all second derivatives.")]
Direction: TypeAlias = Annotated[
    str | None,
    typer.Option("--direction", metavar="x=1,y=2", help="Also the derivative along a direction, by forward mode."),
]
Jacobian: TypeAlias = Annotated[
    bool, typer.Option("--jacobian", help="The derivatives of several outputs: the elements of an array, or --outputs.")
]
Outputs: TypeAlias = Annotated[
    str | None, typer.Option("--outputs", metavar="a,b", help="With --jacobian: the statements that are the outputs.")
]
At: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--at", metavar="FILE", help="The value and gradient at each row of a CSV file (- is standard input)."
    ),
]
Precision: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--precision", min=2, metavar="DIGITS", help="Value and gradient to so many right digits, 50 say, or 1000."
    ),
]

"""Options and arguments that several commands share, each declared once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated, TypeAlias

from autodiff_cli.options import Option, between, check_fields

MAX_DIGITS = 100_000  # of --precision; more take minutes
MAX_ORDER = 170  # 171! is too large for a float, and derivatives such as those of 1/x grow like it


class PassMode(StrEnum):
    """The differentiation mode."""

    REVERSE = "reverse"
    FORWARD = "forward"


output_option = partial(Option, group="Output")

Expr: TypeAlias = Annotated[
    str, Option("EXPR", "Expression, in quotes; - reads it from standard input, @FILE from a file.")
]
Implicit: TypeAlias = Annotated[bool, Option("--implicit", "Read 2x and 3(x + 1) as products.")]
Wrt: TypeAlias = Annotated[str | None, Option("--wrt x,y", "Differentiate with respect to these variables only.")]
Digits: TypeAlias = Annotated[
    int | None, Option("--digits N", "Show numbers with N significant digits (1 to 17).", between(1, 17))
]
Json: TypeAlias = Annotated[bool, output_option("--json", "Write one JSON document, with numbers in full.")]
OutputFile: TypeAlias = Annotated[
    str | None, Option("--output, -o FILE", "Write to a file, replaced as a whole; - is standard output.")
]


_derivative = partial(Option, group="Derivatives")
_ORDER_HELP = "Also compute the derivative of order N in one variable (see --wrt)."
_PRECISION_HELP = "Compute value and gradient to this many proven digits, such as 50."
MODE = _derivative("--mode", "Differentiation mode; forward shows the tangents of all nodes.")


@dataclass(frozen=True)
class DerivativeRequest:
    """The options of `grad` that ask for more than value and gradient."""

    symbolic: Annotated[bool, _derivative("--symbolic", "Also print the derivatives as formulas.")] = False
    mode: Annotated[PassMode, MODE] = PassMode.REVERSE
    order: Annotated[int | None, _derivative("--order N", _ORDER_HELP, between(1, MAX_ORDER))] = None
    hessian: Annotated[bool, _derivative("--hessian", "Also compute all second derivatives.")] = False
    direction: Annotated[
        str | None, _derivative("--direction x=1,y=2", "Also compute the directional derivative, by forward mode.")
    ] = None
    jacobian: Annotated[
        bool, _derivative("--jacobian", "Differentiate several outputs: the elements of an array, or --outputs.")
    ] = False
    outputs: Annotated[
        str | None, _derivative("--outputs a,b", "With --jacobian: names of the statements that are outputs.")
    ] = None
    at: Annotated[
        str | None,
        _derivative("--at FILE", "Compute value and gradient at each row of a CSV file (- for standard input)."),
    ] = None
    precision: Annotated[int | None, _derivative("--precision DIGITS", _PRECISION_HELP, between(2, MAX_DIGITS))] = None

    def __post_init__(self) -> None:
        check_fields(self)


DATA_HELP = (
    "Data files: CSV, TSV, JSON lines (also gzipped), Parquet or Arrow; - is standard input. Several files, a folder "
    "or a pattern are read as one table."
)

"""Options and arguments that several commands share, each declared once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated, TypeAlias

from autodiff_cli.options import Option, at_least, between, check_fields, needs

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


uncertainty_option = partial(Option, group="Uncertain values")
_MONTE_CARLO_HELP = "Also draw N random inputs, and show the distribution of the value."


@dataclass(frozen=True)
class UncertaintyRequest:
    """The options for values with standard errors, besides the values themselves."""

    sigma: Annotated[
        list[str] | None,
        uncertainty_option(
            "--sigma x=COLUMN", "Standard error of a variable: a number, or with --at a column.", repeats=True
        ),
    ] = None
    correlation: Annotated[
        list[str] | None,
        uncertainty_option("--correlation x,y=0.8", "Correlation of the errors of two variables.", repeats=True),
    ] = None
    monte_carlo: Annotated[
        int | None, uncertainty_option("--monte-carlo N", _MONTE_CARLO_HELP, between(100, 100_000_000))
    ] = None
    seed: Annotated[int, uncertainty_option("--seed N", "Seed for the random number generator.", at_least(0))] = 0

    def __post_init__(self) -> None:
        check_fields(self)


UNCERTAIN = "an uncertain value"  # stands for uncertain values in tables of restrictions
UNCERTAINTY_RESTRICTIONS = (
    *(
        needs(option, UNCERTAIN, f"--{option.replace('_', '-')} needs uncertain values, such as --x 2+-0.1")
        for option in ("correlation", "monte_carlo")
    ),
    needs("seed", "monte_carlo", "--seed needs --monte-carlo N; for a variable of this name, use --set seed={seed}"),
)


DATA_HELP = (
    "Data files: CSV, TSV, JSON lines (also gzipped), Parquet or Arrow; - is standard input. Several files, a folder "
    "or a pattern are read as one table."
)

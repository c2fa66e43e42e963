"""Options and arguments that several commands share, each declared once.

Options of data files (`FILE_OPTIONS`) are fields of a record. `with_option_records` turns a command that takes records
into one with an option for each of their fields.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar

import typer

from autodiff_cli.cli.environment import errors_as_bad_input

MAX_ORDER = 170  # 171! is too large for a float, and derivatives such as those of 1/x grow like it


class PassMode(StrEnum):
    """The differentiation mode."""

    REVERSE = "reverse"
    FORWARD = "forward"


Expr: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="EXPR",
        help="Expression, in quotes; - reads it from standard input, @FILE from a file.",
        show_default=False,
    ),
]
Assignments: TypeAlias = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Set a variable whose name is also an option.")
]
Wrt: TypeAlias = Annotated[
    str | None, typer.Option("--wrt", metavar="x,y", help="Differentiate with respect to these variables only.")
]
Digits: TypeAlias = Annotated[
    int | None, typer.Option("--digits", min=1, max=17, metavar="N", help="Show numbers with N significant digits.")
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Write one JSON document, with numbers in full.")]


class DerivativeRequest(NamedTuple):
    """The options of `grad` that ask for more than value and gradient. Field names are option names."""

    symbolic: bool = False
    mode_forward: bool = False
    order: int | None = None
    hessian: bool = False
    direction: str | None = None
    jacobian: bool = False
    outputs: str | None = None
    at: str | None = None

    def option_names(self) -> list[str]:
        """Return the options that were given, as typed on the command line."""
        given = (name for name, value in self._asdict().items() if value is not None and value is not False)
        return [f"--{name.replace('_', ' ')}" for name in given]


Symbolic: TypeAlias = Annotated[bool, typer.Option("--symbolic", help="Also print the derivatives as formulas.")]
Mode: TypeAlias = Annotated[
    PassMode,
    typer.Option("--mode", show_default=False, help="Differentiation mode; forward shows the tangents of all nodes."),
]
Order: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--order", min=1, metavar="N", help="Also compute the derivative of order N in one variable (see --wrt)."
    ),
]
Hessian: TypeAlias = Annotated[bool, typer.Option("--hessian", help="Also compute all second derivatives.")]
Direction: TypeAlias = Annotated[
    str | None,
    typer.Option("--direction", metavar="x=1,y=2", help="Also compute the directional derivative, by forward mode."),
]
Jacobian: TypeAlias = Annotated[
    bool, typer.Option("--jacobian", help="Differentiate several outputs: the elements of an array, or --outputs.")
]
Outputs: TypeAlias = Annotated[
    str | None,
    typer.Option("--outputs", metavar="a,b", help="With --jacobian: names of the statements that are outputs."),
]
At: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--at", metavar="FILE", help="Compute value and gradient at each row of a CSV file (- is standard input)."
    ),
]
Precision: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--precision",
        min=2,
        metavar="DIGITS",
        help="Compute value and gradient to this many proven digits, such as 50.",
    ),
]


DATA_HELP = (
    "Data files: CSV, TSV, JSON lines (also gzipped), Parquet or Arrow; - is standard input. Several files, a folder "
    "or a pattern are read as one table."
)

# The options of commands that read data files, by the name of the field of `FileOptions`.
FILE_OPTIONS: dict[str, Any] = {
    "delimiter": Annotated[
        str | None, typer.Option("--delimiter", metavar="CHAR|space", help="Column separator (default: detected).")
    ],
    "decimal": Annotated[
        str | None, typer.Option("--decimal", metavar=".|,", help="Decimal mark (default: detected).")
    ],
    "comment": Annotated[
        str | None, typer.Option("--comment", metavar="CHAR", help="Skip lines that begin with CHAR.")
    ],
    "no_header": Annotated[
        bool, typer.Option("--no-header", help="Treat the first line as data; columns are named c1, c2, ...")
    ],
    "column": Annotated[
        list[str] | None, typer.Option("--column", metavar='NAME="Original"', help="Rename a column for use in models.")
    ],
    "where": Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="CONDITION",
            help="Use only rows that satisfy CONDITION, e.g. \"t > 0 and group == 'A'\".",
        ),
    ],
}

# The option of commands that may read data in blocks, by the name of the field of `DataOptions`.
STREAM_OPTION: dict[str, Any] = {
    "stream": Annotated[
        bool,
        typer.Option("--stream", help="Read DATA in blocks on every pass (automatic for data larger than memory)."),
    ]
}


Command = TypeVar("Command", bound=Callable[..., Any])


def with_option_records(declared: Mapping[str, Any], **records: type[Any]) -> Callable[[Command], Command]:
    """Return a decorator that gives a command one option for each field of the records that it takes.

    Defaults come from the records. A value that a record refuses is bad input.

    Args:
        declared: the type and option of each field that is an option, `Annotated[int, typer.Option(…)]`, in the order
            of the help page. Other fields keep their defaults.
        records: the dataclass of each keyword parameter of the command that is a record.
    """

    fields = {field.name: field for record in records.values() for field in dataclasses.fields(record)}
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_default(fields[name]), annotation=annotation)
        for name, annotation in declared.items()
    ]

    def decorated(command: Command) -> Command:
        def run(**given: Any) -> Any:
            with errors_as_bad_input():
                records_by_parameter = {
                    parameter: record(**_pop_fields(given, record, declared)) for parameter, record in records.items()
                }
            return command(**given, **records_by_parameter)

        own_parameters = inspect.signature(command, eval_str=True).parameters.values()
        first, *others = (
            [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in group]
            for is_record, group in itertools.groupby(own_parameters, lambda parameter: parameter.name in records)
            if not is_record
        )
        parameters = [*first, *options, *itertools.chain(*others)]
        run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run  # type: ignore[return-value]

    return decorated


def _pop_fields(arguments: dict[str, Any], record: type[Any], declared: Collection[str]) -> dict[str, Any]:
    """Remove the options of a record from all options, and return them."""
    return {field.name: arguments.pop(field.name) for field in dataclasses.fields(record) if field.name in declared}


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is dataclasses.MISSING:
        raise TypeError(f"`{field.name}` is an option and has no default")
    return field.default

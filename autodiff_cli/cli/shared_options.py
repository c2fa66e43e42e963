"""Options and arguments that several commands share, each declared once.

`with_options` turns a command that takes records of options into one with an option for each of their fields.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar

import typer

from autodiff_cli.cli.environment import errors_as_bad_input
from autodiff_cli.options import Option, OptionField, Restriction, check_restrictions, is_given, option_fields

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

Command = TypeVar("Command", bound=Callable[..., Any])


def with_options(
    *restrictions: Restriction, is_included: Callable[[Option], bool] = lambda option: True, **records: type[Any]
) -> Callable[[Command], Command]:
    """Return a decorator that gives a command one option for each field with a flag of the records that it takes.

    A field that is a parameter of the command too is passed to the command, as it was typed; the record keeps its
    default. Options that a record or a restriction refuses are bad input.

    Args:
        restrictions: the combinations of options that are refused.
        is_included: whether the command has an option.
        records: the dataclass of each keyword parameter of the command that is a record.
    """
    fields = {
        name: field
        for record in records.values()
        for name, field in option_fields(record).items()
        if field.option.usage and is_included(field.option)
    }

    def decorated(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True).parameters
        options = [_parameter(name, field) for name, field in fields.items()]
        others = [parameter for name, parameter in own.items() if name not in records and name not in fields]
        defaults = {parameter.name: parameter.default for parameter in (*others, *options)}

        def run(**given: Any) -> Any:
            with errors_as_bad_input():
                check_restrictions(restrictions, {name: x for name, x in given.items() if is_given(x, defaults[name])})
                made = {
                    parameter: record(
                        **{
                            name: given.pop(name)
                            for name in option_fields(record)
                            if name in fields and name not in own
                        }
                    )
                    for parameter, record in records.items()
                }
            return command(**given, **made)

        # Arguments come first, then the options of the records, then those of the command alone.
        first = [each for each in others if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        last = [each for each in others if each not in first]
        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*first, *options, *last)]
        run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run  # type: ignore[return-value]

    return decorated


def _parameter(name: str, field: OptionField) -> inspect.Parameter:
    """Return the parameter of a command for an option. What is no plain type is typed as text."""
    kind: Any = next((kind for kind in field.kinds if kind in (bool, int, float)), str)
    kind = list[str] | None if field.option.repeats else kind if field.default is not None else kind | None
    option = typer.Option(
        *field.option.flags, metavar=field.option.metavar, help=field.option.help, rich_help_panel=field.option.group
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=Annotated[kind, option]
    )

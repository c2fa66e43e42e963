"""Options and arguments that several commands share, each declared once.

`with_options` turns a command that takes records of options into one with an option for each of their fields.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import partial
from typing import Annotated, Any, TypeAlias, TypeVar

import typer

from autodiff_cli.cli.environment import errors_as_bad_input
from autodiff_cli.options import (
    Option,
    OptionError,
    OptionField,
    Restriction,
    between,
    check_fields,
    check_restrictions,
    declared_option,
    is_explicit,
    option_fields,
)

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

SET = OptionField(
    Option("--set NAME=VALUE", "Set a variable whose name is also an option.", repeats=True), None, (str,)
)


_derivative = partial(Option, group="Derivatives")
MODE = _derivative("--mode", "Differentiation mode; forward shows the tangents of all nodes.")


@dataclass(frozen=True)
class DerivativeRequest:
    """The options of `grad` that ask for more than value and gradient."""

    symbolic: Annotated[bool, _derivative("--symbolic", "Also print the derivatives as formulas.")] = False
    mode: Annotated[PassMode, MODE] = PassMode.REVERSE
    order: Annotated[
        int | None,
        _derivative(
            "--order N", "Also compute the derivative of order N in one variable (see --wrt).", between(1, MAX_ORDER)
        ),
    ] = None
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
    precision: Annotated[
        int | None,
        _derivative(
            "--precision DIGITS",
            "Compute value and gradient to this many proven digits, such as 50.",
            between(2, MAX_DIGITS),
        ),
    ] = None

    def __post_init__(self) -> None:
        check_fields(self)


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
    default. A parameter `explicit` of the command gets all options that are given. Options that a record or a
    restriction refuses are bad input.

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
        options = [record_parameter(name, field) for name, field in fields.items()]
        others = [
            _with_declaration(parameter)
            for name, parameter in own.items()
            if name not in records and name not in fields and name != "explicit"
        ]
        defaults = {parameter.name: parameter.default for parameter in (*others, *options)}
        declared = {each.name: option for each in (*others, *options) if (option := declared_option(each.annotation))}

        def run(**values: Any) -> Any:
            with errors_as_bad_input():
                typed = {name: value for name, value in values.items() if is_explicit(value, defaults[name])}
                for name, value in typed.items():
                    check = declared[name].check if name in declared else None
                    if check is not None and not check.holds(value):
                        raise OptionError(check.explain(declared[name].flags[0], value))
                check_restrictions(restrictions, typed)
                arguments = {
                    parameter: record(
                        **{
                            name: values.pop(name)
                            for name in option_fields(record)
                            if name in fields and name not in own
                        }
                    )
                    for parameter, record in records.items()
                }
            if "explicit" in own:
                arguments["explicit"] = typed
            return command(**values, **arguments)

        # Arguments come first, then the options of the records, then those of the command alone.
        first = [each for each in others if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        last = [each for each in others if each not in first]
        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*first, *options, *last)]
        run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run  # type: ignore[return-value]

    return decorated


def record_parameter(name: str, field: OptionField) -> inspect.Parameter:
    """Return the parameter of a command for a field of a record. What is no plain type is typed as text."""
    kind: Any = next((kind for kind in field.kinds if kind in (bool, int, float) or type(kind) is type(PassMode)), str)
    kind = list[str] | None if field.option.repeats else kind if field.default is not None else kind | None
    annotation = Annotated[kind, field.option]
    return _with_declaration(
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=annotation)
    )


def _with_declaration(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter with Typer's declaration of its option, or of its argument."""
    option = declared_option(parameter.annotation)
    if option is None:
        return parameter
    declaration = (
        typer.Option(
            *option.flags,
            metavar=option.metavar,
            help=option.help,
            rich_help_panel=option.group,
            show_default=not isinstance(parameter.default, Enum),
        )
        if option.flags
        else typer.Argument(metavar=option.metavar, help=option.help, show_default=False)
    )
    return parameter.replace(annotation=Annotated[parameter.annotation.__origin__, declaration, option])

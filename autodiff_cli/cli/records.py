"""Commands whose options travel as records: a field of a record is an option, declared in a table by the command."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from autodiff_cli.cli.data import bad_input

Command = TypeVar("Command", bound=Callable[..., Any])


def with_records(declared: Mapping[str, Any], **records: type[Any]) -> Callable[[Command], Command]:
    """Turn a command that takes records into one that takes an option for each of their fields, as Typer wants it.

    The defaults are the records'. What a record refuses is bad input.

    Args:
        declared: the type and the option of each field that is one, as `Annotated[int, typer.Option(…)]`, in the order
            of the help page; other fields keep their defaults.
        records: the dataclass that each keyword parameter of the command is.
    """

    fields = {field.name: field for record in records.values() for field in dataclasses.fields(record)}
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_default(fields[name]), annotation=annotation)
        for name, annotation in declared.items()
    ]

    def decorated(command: Command) -> Command:
        def run(**given: Any) -> Any:
            with bad_input():
                made = {parameter: record(**_taken(given, record, declared)) for parameter, record in records.items()}
            return command(**given, **made)

        own = inspect.signature(command, eval_str=True).parameters.values()
        first, *others = (
            [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in group]
            for is_record, group in itertools.groupby(own, lambda parameter: parameter.name in records)
            if not is_record
        )
        parameters = [*first, *options, *itertools.chain(*others)]
        run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run  # type: ignore[return-value]

    return decorated


def _taken(given: dict[str, Any], record: type[Any], declared: Collection[str]) -> dict[str, Any]:
    """The options of a record, taken out of those that were given."""
    return {field.name: given.pop(field.name) for field in dataclasses.fields(record) if field.name in declared}


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is dataclasses.MISSING:
        raise TypeError(f"`{field.name}` is an option and has no default")
    return field.default

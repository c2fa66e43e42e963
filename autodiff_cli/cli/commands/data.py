"""`autodiff data`: what the reader makes of data files."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from autodiff_cli.cli.answer import Answer
from autodiff_cli.cli.call import Call
from autodiff_cli.cli.declarations import Digits, Json
from autodiff_cli.cli.errors import BadInput
from autodiff_cli.cli.files import DATA_HELP, FILE_OPTIONS
from autodiff_cli.cli.records import with_records
from autodiff_cli.data.options import FileOptions


@with_records(FILE_OPTIONS, reading=FileOptions)
def data(
    context: typer.Context,
    data: Annotated[list[str], typer.Argument(metavar="DATA", help=DATA_HELP, show_default=False)],
    *,
    reading: FileOptions,
    digits: Digits = None,
    json: Json = False,
) -> Answer:
    """What the reader makes of data files.

    Columns with their types, missing cells and ranges, how each is written in a model, the first rows, and the options
    that say the same outright.

    \b
    Examples:
      autodiff data decay.csv
      autodiff data measured.txt --delimiter space --no-header
      autodiff data "2024-*.csv" --where "t > 0" --json
    """
    from autodiff_cli.cli.data import bad_input, data_files
    from autodiff_cli.data.summary import summary
    from autodiff_cli.render.reports.data import data_report

    call = Call.of(context)
    if call.values:
        name: Any = next(iter(call.values))
        raise BadInput(f"data takes no values such as --{name}: it is about files alone")
    with bad_input():
        found = summary(data_files(data, call.environment, reading))
    return Answer(data_report(found, digits), json)

"""The options that say how data files are to be read, of every command that reads them; each declared once."""

from __future__ import annotations

from typing import Annotated, Any

import typer

DATA_HELP = (
    "CSV, TSV, Parquet, Arrow or lines of JSON, gzip of text too; - is standard input. Several files, a folder or a "
    "pattern are one table."
)

# Fields of `FileOptions`, by these names.
FILE_OPTIONS: dict[str, Any] = {
    "delimiter": Annotated[
        str | None,
        typer.Option("--delimiter", metavar="CHAR|space", help="What separates the columns, if it is not seen."),
    ],
    "decimal": Annotated[str | None, typer.Option("--decimal", metavar=".|,", help="The mark before decimals.")],
    "comment": Annotated[
        str | None, typer.Option("--comment", metavar="CHAR", help="Leave out lines that begin with it.")
    ],
    "no_header": Annotated[
        bool, typer.Option("--no-header", help="The first line has values; the columns are c1, c2 and so on.")
    ],
    "column": Annotated[
        list[str] | None,
        typer.Option("--column", metavar='NAME="Original"', help="Another name for a column, in models."),
    ],
    "where": Annotated[
        str | None,
        typer.Option(
            "--where", metavar="CONDITION", help="Use the rows where it holds, as \"t > 0 and group == 'A'\"."
        ),
    ],
}

# A field of `DataOptions`.
STREAM: dict[str, Any] = {
    "stream": Annotated[
        bool, typer.Option("--stream", help="Read DATA in blocks at every pass; what is larger than memory is anyway.")
    ],
}

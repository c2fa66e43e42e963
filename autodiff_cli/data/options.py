"""What is said of data files: how they are written, what their columns are called, which rows count."""

from __future__ import annotations

from dataclasses import dataclass

from autodiff_cli.data.cells import DataError
from autodiff_cli.data.dialect import Dialect
from autodiff_cli.language.lexer import canonical


@dataclass(frozen=True)
class FileOptions(Dialect):
    """How data files are to be read: the dialect of their text, and what is the same in every format.

    Attributes:
        column: other names for columns, each `NAME=Original`.
        where: an expression that holds in the rows that count.

    Raises:
        DataError: for what cannot be meant.
    """

    column: list[str] | None = None
    where: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.renamed

    @property
    def renamed(self) -> dict[str, str]:
        """Other names for columns, by the names that files have."""
        found: dict[str, str] = {}
        for word in self.column or ():
            name, equals, own = word.partition("=")
            name, own = canonical(name.strip()), canonical(own.strip().strip('"'))
            if not (equals and name and own):
                raise DataError(f'--column takes NAME="Original", not `{word}`')
            if name in found.values():
                raise DataError(f"--column {name} is given twice")
            if own in found:
                raise DataError(f"--column: `{own}` is given two names, `{found[own]}` and `{name}`")
            found[own] = name
        return found


AS_IT_IS = FileOptions()  # of files of which nothing is said

"""A model: its text, read against the columns that the data have."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from autodiff_cli.graph.node import constant
from autodiff_cli.graph.tape import rebuild, topological
from autodiff_cli.language.errors import ExpressionError, suggest
from autodiff_cli.language.lowering import Program, read
from autodiff_cli.language.printer import to_text

_ALIKE = 0.8  # how similar (difflib's ratio) a name without a start is to a column that may have been meant
_LONG = 4  # shorter names are alike by chance


@dataclass(frozen=True, slots=True)
class Model:
    """What a model's text means for given data.

    Attributes:
        program: the graph, with `target` (left of `~`; None where the text is itself the loss of a row) and `output`.
        columns: the names in the text that are columns.
        parameters: the other names, in order of appearance.
        warnings: what a reader may not have meant.
    """

    text: str
    program: Program
    columns: tuple[str, ...]
    parameters: tuple[str, ...]
    warnings: tuple[str, ...]

    @classmethod
    def read(cls, text: str, names: Sequence[str], given: Collection[str] = ()) -> Model:
        """Read a model.

        Args:
            names: of the columns that the data have.
            given: names to which the user gives values: they are parameters, also if they look like a misspelt column.

        Raises:
            ExpressionError: if the text is not a model, if a parameter stands left of `~`, or if there is no parameter.
        """
        program = read(text, variables=(*names, *given))
        columns = tuple(name for name in program.leaves if name in names)
        parameters = tuple(name for name in program.leaves if name not in names)
        if program.target is not None:
            for leaf in topological([program.target]):
                if leaf.is_input and leaf.text not in names:
                    raise ExpressionError(
                        f"`{leaf.text}`, left of `~`, is not a column of the data ({', '.join(names)})",
                        suggestion=suggest(leaf.text, names),
                    )
        if not parameters:
            raise ExpressionError("there is nothing to fit: every name of the model is a column of the data")
        warnings = (*program.notes, *_misspelt(parameters, names, given))
        return cls(text, program, columns, parameters, warnings)

    def formula(self, values: Mapping[str, float]) -> str:
        """The prediction (the loss, if there is no target) with numbers for the parameters, at full precision."""
        numbers = {self.program.leaves[name]: constant(value) for name, value in values.items()}
        return to_text(rebuild([self.program.output], numbers)[0])

    def predictors(self) -> tuple[str, ...]:
        """The columns that the prediction reads."""
        return tuple(leaf.text for leaf in topological([self.program.output]) if leaf.text in self.columns)


def _misspelt(parameters: Sequence[str], names: Sequence[str], given: Collection[str]) -> list[str]:
    """A word on every parameter without a start that looks like a column."""
    warnings = []
    for parameter in parameters:
        if parameter in given:
            continue
        close = [name for name in names if name.casefold() == parameter.casefold()]
        if len(parameter) >= _LONG:
            close += difflib.get_close_matches(parameter, names, n=1, cutoff=_ALIKE)
        if close:
            warnings.append(
                f"the data have no column `{parameter}`, so it is a parameter; was the column `{close[0]}` meant?"
            )
    return warnings

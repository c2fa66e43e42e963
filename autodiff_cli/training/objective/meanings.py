"""What a model says that its writer may not have meant, given the columns of the data."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from autodiff_cli.graph.tape import topological
from autodiff_cli.language.errors import ExpressionError, in_brief, is_quotable, suggest
from autodiff_cli.language.lowering import Program
from autodiff_cli.language.names import CONSTANTS

if TYPE_CHECKING:
    from autodiff_cli.training.objective.model import Model

_ALIKE = 0.8  # how similar (difflib's ratio) a name without a start is to a column that may have been meant
_LONG = 4  # shorter names are alike by chance
_NAMES = ("tau", "e")  # constants that people take for names of parameters


def doubts(program: Program, parameters: Sequence[str], names: Sequence[str], given: Collection[str]) -> Iterator[str]:
    """A sentence for each thing that may not be meant.

    Args:
        names: of the columns that the data have.
        given: names to which the user gives values.
    """
    roots = [program.output] if program.target is None else [program.target, program.output]
    met = {node.text for node in topological(roots) if node.is_constant}
    for name in _NAMES:
        if name in met:
            value = float(CONSTANTS[name])
            yield f"`{name}` is the constant {value:.6g} here; a start for it, as --{name} 1, makes it a parameter"
    for parameter in parameters:
        if parameter in given:
            continue
        close = [name for name in names if name.casefold() == parameter.casefold()]
        if len(parameter) >= _LONG:
            close += difflib.get_close_matches(parameter, names, n=1, cutoff=_ALIKE)
        if close:
            yield f"the data have no column `{parameter}`, so it is a parameter; was the column `{close[0]}` meant?"


def check_not_bound(program: Program, names: Sequence[str]) -> None:
    """Raise ExpressionError for `y = a*x` where `y ~ a*x` must be meant: as a loss it would leave out the column."""
    if program.target is not None:
        return
    for name in names:
        if name in program.bound:
            text = program.text
            meant = text.replace("=", "~") if text.count("=") == 1 and is_quotable(text) else None
            message = f"`{name}` is a column of the data; what predicts it stands right of a `~`, not of a `=`"
            raise ExpressionError(message, suggestion=meant)


def check_reads_a_column(model: Model, names: Sequence[str], named: Collection[str], given: Collection[str]) -> None:
    """Raise ExpressionError for a prediction that reads no column while the data have some to offer.

    Args:
        names: of the columns that the data have.
        named: those that the options name.
        given: parameters to which the user gives values.
    """
    others = [name for name in names if name not in model.columns and name not in named]
    if model.program.target is None or not others or model.predictors():
        return
    unknown = [name for name in model.parameters if name not in given]
    typed = next(((name, close) for name in unknown if (close := suggest(name, others))), None)
    if typed is None and len(others) == 1 and unknown:
        typed = unknown[-1], others[0]
    there = in_brief(others, "`")
    message = f"the prediction reads no column of the data, which have {there}; --no-columns says that this is meant"
    if typed is None:
        raise ExpressionError(message)
    name, close = typed
    text, leaf = model.text, model.program.leaves[name]
    raise ExpressionError(f"{message}. `{name}` is none of them", text, model.program.source.start(leaf), close)


def without_end(model: Model) -> str:
    """What may have been meant by a loss that falls without end, as a sentence; empty if there is nothing to say."""
    if model.program.target is not None:
        return ""
    column = next((name for name in model.others), None)
    if column is None or not is_quotable(model.text):
        return "A model without `~` is itself the loss of a row"
    return f"A model without `~` is itself the loss of a row; was `{column} ~ {model.text}` meant?"

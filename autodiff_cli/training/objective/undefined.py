"""Where a loss is not defined: the row, and the part of the formula that is not a finite number there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from autodiff_cli.backends.choice import backend
from autodiff_cli.backends.protocol import RowGraphs
from autodiff_cli.data.table import DataError
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import Tape, topological
from autodiff_cli.language.printer import to_text
from autodiff_cli.training.objective.losses import LOSSES, LossKind
from autodiff_cli.training.rows.reductions import Bad, bad, extremes, join_bad

if TYPE_CHECKING:
    from autodiff_cli.training.objective.objective import Objective

_HUGE = 1e150  # numbers whose squares are next to infinite
_LONGEST = 80  # characters of a formula in a sentence


@dataclass(frozen=True, slots=True)
class Undefined:
    """A part of a formula that is not a finite number.

    Attributes:
        text: of the part, whose own parts are finite; empty where it is too long to be read.
        value: of it: nan or infinite.
        row: counted from 1, with its cells in words.
        more: how many more rows are like that.
        parameters: those that the part reads, with their values in words; empty if it reads none.
        is_of_data: whether a target that is too large for its square makes it so.
    """

    text: str
    value: float
    row: str
    more: int
    parameters: str
    is_of_data: bool

    def __str__(self) -> str:
        what = f"`{self.text}`" if self.text else "a part of the formula"
        rows = f"{self.row}{f' and {self.more} more' if self.more else ''}"
        return f"{what} is {self.value} in {rows}{f', where {self.parameters}' if self.parameters else ''}"

    @property
    def advice(self) -> str:
        """What to do."""
        if self.is_of_data:
            return "numbers of this size are too large for their loss: leave such rows out, or divide the column"
        if self.parameters:
            return "other starting values are needed"
        return "no parameter changes that: leave such rows out, or write the model so that it is defined there"


def undefined(objective: Objective, theta: ArrayLike) -> Undefined | None:
    """Where the loss, or else its gradient, is not finite first; None if all is.

    >>> from autodiff_cli.training.objective.objective import Objective
    >>> print(undefined(Objective("y ~ a*log(t)", {"t": [1, 0], "y": [1, 2]}), [1.0]))
    `log(t)` is -inf in row 2 (y = 2, t = 0)
    """
    for kernel, graphs in (
        (objective.kernels.row_loss, [objective.kernels.graphs.loss]),
        (objective.kernels.row_loss_and_slopes, objective.kernels.loss_and_its_slopes),
    ):
        found = objective.fold_rows(kernel, theta, bad, join_bad)
        if found.count:
            return _found(objective, graphs, theta, found)
    return None


def check_target(objective: Objective) -> None:
    """Raise DataError if the target is not finite, too small, or not what the loss needs."""
    nowhere = np.zeros(objective.layout.size)
    found = objective.fold_rows(objective.kernels.target, nowhere, extremes, np.minimum)
    least, most = found[0], -found[1]
    if not np.isfinite(found).all():
        row = _row(objective, objective.fold_rows(objective.kernels.target, nowhere, bad, join_bad).first)
        raise DataError(f"the left side of `~` is not finite in {row}")
    loss = LOSSES[objective.loss]
    size = float(max(-least, most))
    if loss.kind is LossKind.SQUARES and size > 0 and size * size == 0:
        raise DataError(f"the left side of `~` is at most {size:g} in size, and squares of this vanish: multiply it")
    if least < loss.least or most > loss.most or (loss.above and least <= loss.least):
        low = f"above {loss.least:g}" if loss.above else f"not below {loss.least:g}"
        needed = low if math.isinf(loss.most) else f"between {loss.least:g} and {loss.most:g}"
        raise DataError(f"the loss {objective.loss} needs a target {needed}; this one goes from {least:g} to {most:g}")


def _found(objective: Objective, graphs: Sequence[Node], theta: ArrayLike, bad: Bad) -> Undefined:
    model, row = objective.model, bad.first
    tape = Tape(graphs)
    kernel = backend().rows(RowGraphs(tape.nodes, objective.kernels.columns, objective.kernels.graphs.leaves))
    values = objective.restricted(slice(row, row + 1)).per_row(kernel, theta)
    finite = [bool(np.isfinite(values[place]).all()) for place in kernel.places]
    first = next(
        i for i, inputs in enumerate(tape.inputs) if not finite[i] and all(finite[j] for j in inputs if tape.inputs[i])
    )
    node = tape.nodes[first]
    target = objective.kernels.graphs.target
    targets = values[kernel.places[tape.index[target]]].ravel().tolist() if target in tape.index else []
    text = to_text(node)
    value = values[kernel.places[first]]
    point = objective.point(theta)
    read = [leaf.text for leaf in topological([node]) if leaf.is_input and leaf.text in model.parameters]
    named = [f"{name} = {point[name]:.6g}" for name in read if not np.ndim(point[name])]
    return Undefined(
        text if len(text) <= _LONGEST else "",
        float(value[~np.isfinite(value)][0]) if len(value) else math.nan,
        _row(objective, row),
        bad.count - 1,
        ", ".join(named) or ("the parameters are arrays" if read else ""),
        math.isinf(float(value.max())) and any(abs(size) > _HUGE for size in targets),
    )


def _row(objective: Objective, row: int) -> str:
    classes = objective.model.class_column
    columns = (name for name in objective.model.numeric if name != classes)
    its = objective.data.part(slice(row, row + 1)).table().columns
    cells = ", ".join(f"{name} = {its[name][0]:g}" for name in columns)
    return f"row {row + 1} ({cells})"

"""The graphs that a fit evaluates: the loss of a row, its residual, and what comes before them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autodiff_cli.graph.node import Node, constant, variable
from autodiff_cli.graph.op import Shape
from autodiff_cli.graph.tape import rebuild, topological
from autodiff_cli.language.printer import to_text
from autodiff_cli.ops.arithmetic import equal
from autodiff_cli.ops.structural import index, mean, stack
from autodiff_cli.training.data import Table
from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.losses import LOSSES
from autodiff_cli.training.model import Model

WEIGHT = ""  # the column of weights; no column of a model has an empty name


@dataclass(frozen=True, slots=True)
class Graphs:
    """What a model comes to for a loss.

    Attributes:
        loss: of a row; `weighted` is that times the row's weight, if there are weights.
        residuals: target minus prediction, one graph per component; none for a classification, or without a target.
        target: None without one.
        prediction: right of `~`, or the loss itself.
        gathered: vectors that stand in the text as columns in brackets (`[x1, x2]`): the names of their columns by that
            of the leaf that stands for them. They are laid side by side once, not in every step.
        leaves: the shapes of leaves that are no scalars.
    """

    loss: Node
    weighted: Node
    residuals: tuple[Node, ...]
    target: Node | None
    prediction: Node
    gathered: Mapping[str, tuple[str, ...]]
    leaves: Mapping[str, Shape]

    def extended(self, table: Table) -> Table:
        """The table with a column of vectors for each that is gathered. The single columns become views of them."""
        columns = dict(table.columns)
        for leaf, names in self.gathered.items():
            vectors = columns[leaf] = np.stack([columns[name] for name in names])
            columns.update(zip(names, vectors, strict=True))
        return Table(columns, table.rows, table.dropped)


def graphs(model: Model, loss: str, classes: int | None, weighted: bool) -> Graphs:
    """Build them.

    Args:
        model: resolved.
        classes: how many there are, if the model tells classes apart.
        weighted: whether rows have weights, in the column `WEIGHT`.

    Raises:
        OptionError: for an unknown loss, or one that does not go with the model.
    """
    _check(model, loss, classes)
    program = model.program
    roots = [program.output] if program.target is None else [program.output, program.target]
    gathered = _brackets(roots, model)
    prediction, *targets = rebuild(roots, {node: variable(to_text(node)) for node in gathered})
    names = {to_text(node): tuple(leaf.text for leaf in node.inputs) for node in gathered}
    leaves = {**model.shapes, **{name: (len(columns),) for name, columns in names.items()}}
    residuals: tuple[Node, ...] = ()
    target = targets[0] if targets else None
    if target is None:
        row_loss = prediction
    elif classes is not None:
        levels = stack(*(constant(str(k)) for k in range(classes)))
        row_loss = LOSSES[loss](equal(target, levels), prediction)
    else:
        row_loss = LOSSES[loss](target, prediction)
        difference = target - prediction
        residuals = (difference,)
        for length in model.target_shape:
            row_loss = mean(row_loss)
            residuals = tuple(index(difference, k) for k in range(length))
    times = variable(WEIGHT) * row_loss if weighted else row_loss
    return Graphs(row_loss, times, residuals, target, prediction, names, leaves)


def default_loss(model: Model, loss: str) -> str:
    """The loss that a fit uses: of a classification, where `mse` stands for the default, the cross-entropy."""
    return "cross_entropy" if loss == "mse" and model.class_column is not None else loss


def _check(model: Model, loss: str, classes: int | None) -> None:
    if loss not in LOSSES:
        raise OptionError(f"there is no loss {loss}; there are {', '.join(LOSSES)}")
    if model.program.target is None and loss != "mse":
        raise OptionError(f"the loss {loss} compares two things: write the model as `target ~ prediction`")
    if classes is not None and loss != "cross_entropy":
        raise OptionError(f"a model of classes has the loss cross_entropy, not {loss}")
    if classes is None and loss == "cross_entropy":
        raise OptionError("the loss cross_entropy is that of a model of classes: `column ~ softmax(…)`")


def _brackets(roots: Sequence[Node], model: Model) -> list[Node]:
    """The vectors of nothing but columns."""
    return [
        node
        for node in topological(roots)
        if node.op is stack and all(leaf.is_input and leaf.text in model.columns for leaf in node.inputs)
    ]

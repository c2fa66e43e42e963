"""The graphs that a fit evaluates: the loss of a row, its residual, and what comes before them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autodiff_cli.algebra.table import share
from autodiff_cli.data.table import Table
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node, constant, variable
from autodiff_cli.graph.op import Shape
from autodiff_cli.graph.tape import rebuild, topological
from autodiff_cli.language.printer import to_text
from autodiff_cli.ops.arithmetic import equal
from autodiff_cli.ops.elementary import sqrt, square
from autodiff_cli.ops.structural import index, mean, stack
from autodiff_cli.training.errors import OptionError
from autodiff_cli.training.objective.losses import FAMILIES, HUBER_DELTA, LOSSES, LossKind, penalty_on
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.options import LossOptions
from autodiff_cli.training.rows.protocol import WEIGHT


@dataclass(frozen=True, slots=True)
class Graphs:
    """What a model comes to for a loss.

    Attributes:
        loss: of a row; `weighted` is that with the penalty on the parameters, times the row's weight if it has one.
        residuals: target minus prediction, one graph per component; none for a classification, or without a target.
        target: None without one.
        prediction: right of `~`, or the loss itself.
        gathered: vectors that stand in the text as columns in brackets (`[x1, x2]`): the names of their columns by that
            of the leaf that stands for them. They are laid side by side once, not in every step.
        leaves: the shapes of leaves that are no scalars.
        x_errors: the columns that have errors of their own, by which residuals are divided: see `effective`.
    """

    loss: Node
    weighted: Node
    residuals: tuple[Node, ...]
    target: Node | None
    prediction: Node
    gathered: Mapping[str, tuple[str, ...]]
    leaves: Mapping[str, Shape]
    has_weight: bool
    x_errors: tuple[str, ...] = ()

    def extended(self, table: Table) -> Table:
        """The table with a column of vectors for each that is gathered. The single columns become views of them."""
        columns = dict(table.columns)
        for leaf, names in self.gathered.items():
            vectors = columns[leaf] = np.stack([columns[name] for name in names])
            columns.update(zip(names, vectors, strict=True))
        return Table(columns, table.rows, table.dropped)


def graphs(
    model: Model,
    loss: str,
    options: LossOptions,
    classes: int | None,
    weighted: bool,
    free: Sequence[str],
    x_errors: Iterable[str] = (),
) -> Graphs:
    """Build them.

    Args:
        model: resolved.
        loss: see `chosen_loss`; the options say more of it.
        classes: how many there are, if the model tells classes apart.
        weighted: whether rows have weights, in the column `WEIGHT`.
        free: the parameters that a penalty is on.
        x_errors: the columns that have errors of their own.
    """
    program = model.program
    x_errors = tuple(x_errors)
    roots = [program.output] if program.target is None else [program.output, program.target]
    gathered = [] if x_errors else _brackets(roots, model)
    prediction, *targets = rebuild(roots, {node: variable(to_text(node)) for node in gathered})
    names = {to_text(node): tuple(leaf.text for leaf in node.inputs) for node in gathered}
    leaves = {**model.shapes, **{name: (len(columns),) for name, columns in names.items()}}
    residuals: tuple[Node, ...] = ()
    target = targets[0] if targets else None
    row_loss = loss_of_row(model, loss, options, classes, target, prediction)
    if target is not None and classes is None:
        difference = target - prediction
        residuals = (difference,)
        for length in model.target_shape:
            residuals = tuple(index(difference, k) for k in range(length))
    if x_errors:
        residuals = (effective(model, loss, residuals, x_errors),)
        row_loss = square(residuals[0])
    # A mean over rows of the same penalty is that penalty, so it may stand in the loss of a row.
    penalty = penalty_on([program.leaves[name] for name in free], model.shapes, options.l1, options.l2)
    summed = row_loss if penalty is None else row_loss + penalty
    times = variable(WEIGHT) * summed if weighted else summed
    return Graphs(row_loss, times, residuals, target, prediction, names, leaves, weighted, x_errors)


def x_error(name: str) -> str:
    """The column of the standard deviations of another; no name in a text has such a character."""
    return f"\0{name}"


def effective(model: Model, loss: str, residuals: Sequence[Node], x_errors: Sequence[str]) -> Node:
    """A residual in units of what errors in y and in x make of it together: r/√(1 + w·Σ(∂r/∂x·σx)²), w = 1/σy².

    The effective variance of Orear 1982, Am. J. Phys. 50, 912: that of y, and to first order that of each x. The slopes
    are exact, and move with the parameters.

    Raises:
        OptionError: where the loss, the target or a column does not go with it.
    """
    if len(residuals) != 1 or model.target_shape or loss != "mse":
        raise OptionError("errors in x are for least squares of one target (the loss mse)")
    for name in x_errors:
        if name not in model.columns:
            words = "a parameter" if name in model.parameters else "not in the model"
            raise OptionError(f"x_sigma: `{name}` is {words}; errors in x are those of a column that the model reads")
    leaves = [model.program.leaves[name] for name in x_errors]
    shared, *own = share([residuals[0], *leaves])
    slopes = gradient_nodes(shared, own, model.shapes)
    weight = variable(WEIGHT)
    parts = [square(slope * variable(x_error(name))) for name, slope in zip(x_errors, slopes, strict=True)]
    return shared / sqrt(1 + weight * functools.reduce(operator.add, parts))


def loss_of_row(
    model: Model, loss: str, options: LossOptions, classes: int | None, target: Node | None, prediction: Node
) -> Node:
    """What a row costs, without its weight; arguments as for `graphs`."""
    if target is None:
        return prediction
    delta = HUBER_DELTA if options.huber_delta is None else options.huber_delta
    if classes is not None:
        levels = stack(*(constant(str(k)) for k in range(classes)))
        return LOSSES[loss].of(equal(target, levels), prediction, delta)
    row_loss = LOSSES[loss].of(target, prediction, delta)
    return mean(row_loss) if model.target_shape else row_loss


def chosen_loss(model: Model, options: LossOptions) -> str:
    """The loss of a row that a fit uses; empty where the model is its own.

    Raises:
        OptionError: for a loss that does not go with the model.
    """
    asked, tells_classes = options.loss, model.class_column is not None
    if options.family is not None:
        if model.program.target is None or tells_classes:
            raise OptionError("a family is a distribution of numbers about a prediction: `target ~ prediction`")
        return FAMILIES[options.family]
    if options.likelihood and model.program.target is not None:
        raise OptionError("likelihood says that the model is minus a log-likelihood itself; this one has a `~`")
    if model.program.target is None:
        if asked is not None:
            raise OptionError(f"the loss {asked} compares two things: write the model as `target ~ prediction`")
        return ""
    if tells_classes and asked not in (None, "cross_entropy"):
        raise OptionError(f"a model of classes has the loss cross_entropy, not {asked}")
    if asked == "cross_entropy" and not tells_classes:
        raise OptionError("the loss cross_entropy is that of a model of classes: `column ~ softmax(…)`")
    loss = asked or ("cross_entropy" if tells_classes else "mse")
    if options.scale is not None and LOSSES[loss].kind is not LossKind.ROBUST:
        robust = [name for name, loss in LOSSES.items() if loss.kind is LossKind.ROBUST]
        raise OptionError(f"the loss {loss} has no scale; those with one are {', '.join(robust)}")
    if options.huber_delta is not None and loss != "huber":
        raise OptionError(f"the loss {loss} has no bend; huber_delta goes with the loss huber")
    return loss


def _brackets(roots: Sequence[Node], model: Model) -> list[Node]:
    """The vectors of nothing but columns."""
    return [
        node
        for node in topological(roots)
        if node.op is stack and all(leaf.is_input and leaf.text in model.columns for leaf in node.inputs)
    ]

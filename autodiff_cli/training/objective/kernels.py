"""What a fit evaluates over rows, each made ready when it is first needed."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any, TypeVar

from autodiff_cli.algebra.simplify import simplify
from autodiff_cli.algebra.table import share
from autodiff_cli.backends.choice import backend
from autodiff_cli.backends.protocol import Backend, Descent, EpochKernel, RowGraphs, RowKernel, SumKernel
from autodiff_cli.backends.update import Update
from autodiff_cli.graph.gradient import gradient_nodes, tangent
from autodiff_cli.graph.node import Node, variable
from autodiff_cli.graph.op import ONE, Shape
from autodiff_cli.ops.elementary import square
from autodiff_cli.ops.structural import mean
from autodiff_cli.training.objective.graphs import Graphs, x_error
from autodiff_cli.training.objective.smoothing import rounded
from autodiff_cli.training.rows.protocol import WEIGHT

T = TypeVar("T")

DIRECTION = "direction"  # the leaf of what an array is moved by
_PRODUCTS = 12  # columns of [J | r]: the products of more take as long as a factorization


class Kernels:
    """The kernels of one objective; objectives over parts of the rows share them.

    Args:
        graphs: what they compute.
        columns: the names of the model's columns.
        parameters: the leaves of the free parameters.
        recompute_every: see `Backend.sums`.
        backend: what makes them.
        notes: what it has had to say so far, as sentences.
        stepping: what makes those of gradient methods that go by batches; by default the same.
    """

    def __init__(
        self,
        graphs: Graphs,
        columns: Collection[str],
        parameters: Sequence[Node],
        recompute_every: int | None,
        backend: Backend,
        notes: Sequence[str] = (),
        stepping: Backend | None = None,
    ) -> None:
        self.notes = notes
        self.graphs = graphs
        self.columns = {*columns, *graphs.gathered, *map(x_error, graphs.x_errors), WEIGHT}
        self._parameters = parameters
        self._recompute_every = recompute_every
        self._backend = backend
        self._stepping = stepping or backend
        self.radii: Sequence[str] = ()  # the leaves that say how far corners are rounded
        self._corners: Sequence[Node] = ()
        self._curvatures: dict[int, SumKernel] = {}
        self._more: dict[str, Any] = {}

    def once(self, what: str, make: Callable[[], T]) -> T:
        """What else the graphs come to, made ready once."""
        if what not in self._more:
            self._more[what] = make()
        made: T = self._more[what]
        return made

    @cached_property
    def without_corners(self) -> Kernels | None:
        """The same of a loss with its corners rounded; None if it has none."""
        graphs = self.graphs
        found = rounded([graphs.weighted, graphs.loss], set(self._parameters))
        if not found.corners:
            return None
        weighted, loss = found.graphs
        smooth = dataclasses.replace(graphs, weighted=weighted, loss=loss)
        kernels = Kernels(smooth, self.columns, self._parameters, self._recompute_every, self._backend)
        kernels.radii, kernels._corners = found.radii, found.corners
        return kernels

    @cached_property
    def corner_sizes(self) -> SumKernel:
        """The sums of what has corners, each the mean over the elements of an array."""
        shapes = RowGraphs(self._corners, self.columns, self.graphs.leaves).sizes
        means = [mean(corner) if shape else corner for corner, shape in zip(self._corners, shapes, strict=True)]
        return self._backend.sums(self._of(means))

    @property
    def corners_of_parameters(self) -> list[int]:
        """Which of the corners are those of a parameter alone."""
        return [k for k, corner in enumerate(self._corners) if corner.inputs[0] in self._parameters]

    @cached_property
    def loss(self) -> SumKernel:
        """The sum of the rows' losses, with the penalty for each."""
        return self._backend.sums(self._of([self.graphs.weighted]))

    @cached_property
    def loss_and_slopes(self) -> SumKernel:
        """The same, and its derivative towards each free parameter."""
        return self._backend.sums(self._loss_and_slopes, recompute_every=self._recompute_every)

    def epochs(self, update: Update, clip_norm: float | None = None) -> EpochKernel:
        """The epochs of a gradient method on the loss."""
        weight = WEIGHT if self.graphs.has_weight else None
        names = [leaf.text for leaf in self._parameters]
        descent = Descent(self._loss_and_slopes, names, weight, update, clip_norm)
        return self._stepping.epochs(descent, recompute_every=self._recompute_every)

    @cached_property
    def row_loss(self) -> RowKernel:
        """The loss of every row, without its weight."""
        return self._backend.rows(self._of([self.graphs.loss]))

    @property
    def loss_and_its_slopes(self) -> list[Node]:
        """The loss of a row, without its weight, and its derivative towards each free parameter, as graphs."""
        return self._with_slopes(self.graphs.loss)

    @cached_property
    def row_loss_and_slopes(self) -> RowKernel:
        """The same, for every row."""
        return self._backend.rows(self._of(self.loss_and_its_slopes, [(), *self._shapes]))

    @cached_property
    def squares(self) -> SumKernel:
        """The sum of the squares of each component of the residual, times the weight of the row."""
        weight = [variable(WEIGHT)] if self.graphs.has_weight else []
        return self._backend.sums(self._of([_product([*weight, square(node)]) for node in self.graphs.residuals]))

    @cached_property
    def residuals(self) -> RowKernel:
        """Each component of the residual of a row."""
        return self._backend.rows(self._of(self.graphs.residuals))

    @cached_property
    def residuals_and_slopes(self) -> RowKernel:
        """For each component of the residual of a row: its derivative towards each free parameter, then itself."""
        outputs = []
        for residual in self.graphs.residuals:
            itself, *slopes = self._with_slopes(residual)
            outputs += [*slopes, itself]
        return self._backend.rows(self._of(outputs, [*self._shapes, ()] * len(self.graphs.residuals)))

    @cached_property
    def products(self) -> SumKernel | None:
        """The sums of the products of every two columns of [J | r] (see `Objective.triangle`), column by column up to
        the diagonal; None where these are too many to be worth it."""
        if len(self._parameters) >= _PRODUCTS or any(self._shapes):
            return None
        columns = [_slopes_first(self._with_slopes(residual)) for residual in self.graphs.residuals]
        weight = [variable(WEIGHT)] if self.graphs.has_weight else []
        outputs = []
        for j in range(len(self._parameters) + 1):
            for i in range(j + 1):
                pairs = [own[i] * own[j] if i != j else square(own[j]) for own in columns]
                outputs.append(_product([*weight, functools.reduce(operator.add, pairs)]))
        return self._backend.sums(self._of(outputs, [()] * len(outputs)))

    @cached_property
    def residuals_and_slopes_of_groups(self) -> RowKernel:
        """The same where every row has parameters of its own: the free ones, all numbers, are columns."""
        outputs = [part for residual in self.graphs.residuals for part in _slopes_first(self._with_slopes(residual))]
        columns = {*self.columns, *(leaf.text for leaf in self._parameters)}
        return self._backend.rows(RowGraphs(outputs, columns, self.graphs.leaves))

    @cached_property
    def target(self) -> RowKernel:
        """What stands left of `~`, a column as a rule: nothing that would be worth compiling."""
        assert self.graphs.target is not None
        return backend().rows(self._of([self.graphs.target]))

    @cached_property
    def target_and_prediction(self) -> RowKernel:
        """Both sides of `~`."""
        assert self.graphs.target is not None
        return self._backend.rows(self._of([self.graphs.target, self.graphs.prediction]))

    def curvatures(self, which: int) -> SumKernel:
        """The derivatives of the summed loss's gradient, parameter by parameter, as one parameter moves.

        Args:
            which: its position. A number moves by 1, an array by the leaf `DIRECTION`, which has its shape.
        """
        if which not in self._curvatures:
            self._curvatures[which] = self._curvature(which)
        return self._curvatures[which]

    def _curvature(self, which: int) -> SumKernel:
        loss, *leaves = share([self.graphs.weighted, *self._parameters])
        leaf = leaves[which]
        shapes = dict(self.graphs.leaves)
        moved = ONE
        if leaf.text in shapes:
            shapes[DIRECTION] = shapes[leaf.text]
            moved = variable(DIRECTION)
        slopes = gradient_nodes(loss, leaves, shapes)
        outputs = simplify([tangent(slope, {leaf: moved}, shapes) for slope in slopes])
        return self._backend.sums(RowGraphs(outputs, self.columns, shapes, self._shapes))

    def _with_slopes(self, output: Node) -> list[Node]:
        shared, *leaves = share([output, *self._parameters])
        return simplify([shared, *gradient_nodes(shared, leaves, self.graphs.leaves)])

    @cached_property
    def _loss_and_slopes(self) -> RowGraphs:
        return self._of(self._with_slopes(self.graphs.weighted), [(), *self._shapes])

    @property
    def _shapes(self) -> list[Shape]:
        """The shapes of the free parameters."""
        return [self.graphs.leaves.get(leaf.text, ()) for leaf in self._parameters]

    def _of(self, outputs: Sequence[Node], filled: Sequence[Shape] | None = None) -> RowGraphs:
        return RowGraphs(outputs, self.columns, self.graphs.leaves, filled)


def _slopes_first(value_and_slopes: Sequence[Node]) -> list[Node]:
    value, *slopes = value_and_slopes
    return [*slopes, value]


def _product(factors: Sequence[Node]) -> Node:
    first, *rest = factors
    return first * rest[0] if rest else first

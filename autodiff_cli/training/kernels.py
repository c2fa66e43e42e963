"""What a fit evaluates over rows, each made ready when it is first needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from autodiff_cli.autodiff.simplify import share, simplify
from autodiff_cli.backends.blocks import Kernel
from autodiff_cli.graph.gradient import gradient_nodes, tangent
from autodiff_cli.graph.node import Node, variable
from autodiff_cli.graph.op import ONE, Shape
from autodiff_cli.ops.elementary import square
from autodiff_cli.training.graphs import WEIGHT, Graphs

DIRECTION = "direction"  # the leaf of what an array is moved by


class Kernels:
    """The kernels of one objective; objectives over parts of the rows share them.

    Args:
        graphs: what they compute.
        columns: the names of the model's columns.
        parameters: the leaves of the free parameters.
        recompute_every: see `Kernel`.
    """

    def __init__(
        self, graphs: Graphs, columns: Sequence[str], parameters: Sequence[Node], recompute_every: int | None
    ) -> None:
        self._graphs = graphs
        self._columns = {*columns, *graphs.gathered, WEIGHT}
        self._parameters = parameters
        self._recompute_every = recompute_every

    @cached_property
    def loss(self) -> Kernel:
        """The sum of the rows' losses."""
        return self._made([self._graphs.weighted], summed=True)

    @cached_property
    def loss_and_slopes(self) -> Kernel:
        """The same, and its derivative towards each free parameter."""
        outputs = self._with_slopes(self._graphs.weighted)
        return self._made(outputs, summed=True, recompute_every=self._recompute_every)

    @cached_property
    def row_loss(self) -> Kernel:
        """The loss of every row, without its weight."""
        return self._made([self._graphs.loss])

    @cached_property
    def squares(self) -> Kernel:
        """The sum of the squares of each component of the residual, times the weight of the row."""
        weight = [variable(WEIGHT)] if self._graphs.weighted is not self._graphs.loss else []
        return self._made([_product([*weight, square(node)]) for node in self._graphs.residuals], summed=True)

    @cached_property
    def residuals_and_slopes(self) -> Kernel:
        """For each component of the residual of a row: its derivative towards each free parameter, then itself."""
        outputs = []
        for residual in self._graphs.residuals:
            itself, *slopes = self._with_slopes(residual)
            outputs += [*slopes, itself]
        return self._made(outputs)

    @cached_property
    def target(self) -> Kernel:
        """What stands left of `~`."""
        assert self._graphs.target is not None
        return self._made([self._graphs.target])

    @cached_property
    def target_and_prediction(self) -> Kernel:
        """Both sides of `~`."""
        assert self._graphs.target is not None
        return self._made([self._graphs.target, self._graphs.prediction])

    def curvatures(self, which: int) -> Kernel:
        """The derivatives of the summed loss's gradient, parameter by parameter, as one parameter moves.

        Args:
            which: its position. A number moves by 1, an array by the leaf `DIRECTION`, which has its shape.
        """
        loss, *leaves = share([self._graphs.weighted, *self._parameters])
        leaf = leaves[which]
        shapes = dict(self._graphs.leaves)
        moved = ONE
        if leaf.text in shapes:
            shapes[DIRECTION] = shapes[leaf.text]
            moved = variable(DIRECTION)
        slopes = gradient_nodes(loss, leaves, shapes)
        outputs = simplify([tangent(slope, {leaf: moved}, shapes) for slope in slopes])
        return Kernel(outputs, self._columns, shapes, summed=True)

    def _with_slopes(self, output: Node) -> list[Node]:
        shared, *leaves = share([output, *self._parameters])
        return simplify([shared, *gradient_nodes(shared, leaves, self._graphs.leaves)])

    def _made(self, outputs: Sequence[Node], *, summed: bool = False, recompute_every: int | None = None) -> Kernel:
        leaves: Mapping[str, Shape] = self._graphs.leaves
        return Kernel(outputs, self._columns, leaves, summed=summed, recompute_every=recompute_every)


def _product(factors: Sequence[Node]) -> Node:
    first, *rest = factors
    return first * rest[0] if rest else first

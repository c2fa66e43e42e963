"""The prediction of a fitted model as a graph, for those who take it elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Shape
from autodiff_cli.training.objective.model import Model


class PredictionGraph(NamedTuple):
    """The prediction of a row as a graph.

    Attributes:
        output: of the model without its target.
        shapes: of the leaves that are arrays.
        values: of parameters, by name.
        columns: the leaves that are columns.
        matches: the leaves that are 1 where a column has a label, else 0.
    """

    output: Node
    shapes: dict[str, Shape]
    values: dict[str, Any]
    columns: tuple[str, ...]
    matches: tuple[str, ...]


def prediction_graph(model: Model, values: Mapping[str, Any]) -> PredictionGraph:
    """The prediction of a model at fitted parameters."""
    program = model.program
    shapes = {name: shape for name, shape in model.shapes.items() if name in program.leaves}
    return PredictionGraph(program.output, shapes, dict(values), model.predictors(), tuple(model.matches))

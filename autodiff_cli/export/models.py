"""Fitted models, exported: the prediction, as a function of the columns that it reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from autodiff_cli.export.exporters import EXPORTERS, export
from autodiff_cli.export.layout import listed
from autodiff_cli.export.onnx import model_bytes
from autodiff_cli.export.program import ExportError, Wanted
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.node import Node, constant
from autodiff_cli.graph.shapes import Shapes
from autodiff_cli.graph.tape import rebuild, topological
from autodiff_cli.ops.structural import stack
from autodiff_cli.training.prediction.graph import PredictionGraph
from autodiff_cli.training.result.fit import FittedModel

MOST_NUMBERS = 20_000  # of parameters, that a source spells out


def prediction_source(fit: FittedModel, target: str, wanted: Wanted) -> str:
    """The prediction of a fitted model, and its derivatives towards the columns, as the source of a function.

    Args:
        target: one of `EXPORTERS`.

    Raises:
        ExportError: for derivatives of predictions that are arrays, for models that read labels, for more parameters
            than a source spells out, and as `export` does.
    """
    graph = _of_numbers(fit)
    shape = Shapes(graph.shapes).of(graph.output) or ()
    if shape and wanted.gradient and not EXPORTERS[target].differentiates:
        what = "gives a probability for each class" if fit.classes is not None else f"gives {shape[0]} numbers"
        raise ExportError(f"this model {what}; derivatives are written of one number: --value-only leaves them out")
    count = sum(np.size(value) for value in graph.values.values())
    if count > MOST_NUMBERS:
        raise ExportError(
            f"the model has {count:,} parameters; a source spells out {MOST_NUMBERS:,}: --to onnx has more"
        )
    leaves = {leaf.text: leaf for leaf in topological([graph.output]) if leaf.is_input}
    numbers = {leaf: _written(graph.values[name]) for name, leaf in leaves.items() if name not in graph.columns}
    (output,) = rebuild([graph.output], numbers)
    formula = Formula(output, {name: leaves[name] for name in graph.columns})
    if shape and fit.classes is not None:
        wanted = replace(wanted, note=f"the probabilities of {listed([str(label) for label in fit.classes])}")
    return export(formula, target, wanted)


def prediction_in_onnx(fit: FittedModel, name: str) -> bytes:
    """The prediction of a fitted model as an ONNX file: inputs are the columns, of shape (rows,), the output is
    `prediction`, of shape (rows,) or, where it is an array, (rows, …).

    Raises:
        ExportError: see `model_bytes`; for models that read labels, and for those that read no column.
    """
    graph = _of_numbers(fit)
    if not graph.columns:
        raise ExportError("the prediction reads no column, so there is no number of rows to give it for")
    return model_bytes(graph.output, graph.shapes, graph.values, graph.columns, name)


def _of_numbers(fit: FittedModel) -> PredictionGraph:
    graph = fit.prediction
    if graph.matches:
        raise ExportError(f"the model reads labels ({', '.join(graph.matches)}); a function of numbers cannot")
    return graph


def _written(value: Any) -> Node:
    """A number, or an array, as a graph without leaves."""
    if np.ndim(value):
        return stack(*map(_written, value))
    return constant(float(value))

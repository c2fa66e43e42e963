"""Is a network healthy? Units that do nothing, and gradients that vanish or explode on their way through the layers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.choice import backend
from autodiff_cli.backends.protocol import RowGraphs
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Op
from autodiff_cli.graph.tape import topological
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.objective.objective import Objective
from autodiff_cli.training.rows.protocol import Columns

Array = NDArray[np.float64]

VANISHING = 1e-3  # the least that the gradient of a layer may be beside that of the last, per weight
EXPLODING = 1e3  # and the most; also the most that any gradient may be where inputs and targets are of the size of 1
SATURATED = 0.98  # how near its ends (0 and 1 of the way between them) a unit is flat: its slope is below a tenth
MOSTLY = 0.95  # of the rows


class Units(NamedTuple):
    """The units of one layer, over all rows.

    Attributes:
        layer: its name (`mlp.0`).
        dead: rectified units that are 0 in every row, so that nothing can change them any more.
        saturated: sigmoid and tanh units that are near one of their ends in nearly all rows, where they hardly learn.
    """

    layer: str
    activation: str
    units: int
    dead: int
    saturated: int


class LayerGradients(NamedTuple):
    """How large the gradient towards a layer is at both ends of a fit: the root of the mean square of its numbers."""

    layer: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found in a network.

    Attributes:
        units: of every layer with an activation that can die or saturate.
        gradients: of every layer with parameters, the first first.
    """

    units: tuple[Units, ...]
    gradients: tuple[LayerGradients, ...]

    @property
    def problems(self) -> list[Problem]:
        """What is not as it should be; empty for a healthy network."""
        return [*_unit_problems(self.units), *_gradient_problems(self.gradients)]


class Problem(NamedTuple):
    """Something that is not as it should be.

    Attributes:
        kind: `dead`, `saturated`, `vanishing` or `exploding`.
        layer: where.
        amount: how many units; of a gradient, its size.
        of: how many units there are; the size of the last layer's gradient.
        when: at the `start` or at the `end` of the fit.
    """

    kind: str
    layer: str
    amount: float
    of: float
    when: str


def diagnose(objective: Objective, start: Array, end: Array) -> Diagnosis:
    """Examine a network over the rows of an objective.

    Args:
        start, end: the free parameters before and after a fit, of shape (P,).
    """
    return Diagnosis(tuple(_units(objective, end)), tuple(_gradients(objective, start, end)))


# --- units


def _units(objective: Objective, theta: Array) -> Iterator[Units]:
    model = objective.model
    hidden = [*_hidden(model)]
    if not hidden:
        return
    graphs = RowGraphs([node for node, *_ in hidden], {*model.of_rows}, model.shapes)
    ends = [(*_ends(op), op.dies) for _, op, _ in hidden]
    counts = FlatRows(tuple((*end, place) for end, place in zip(ends, graphs.places, strict=True)))
    total = objective.fold_rows(backend().rows(graphs), theta, counts, np.add)
    for (_, op, layer), place in zip(hidden, graphs.places, strict=True):
        flat = total[place]
        always = int(np.count_nonzero(flat == objective.rows))
        mostly = int(np.count_nonzero(flat >= MOSTLY * objective.rows))
        dead, saturated = (always, 0) if op.dies else (0, mostly)
        yield Units(layer, op.name, flat.size, dead, saturated)


def _hidden(model: Model) -> Iterator[tuple[Node, Op, str]]:
    """The activations that can die or saturate, but not the output itself: node, operation and layer of each."""
    for node in topological([model.program.output]):
        op = node.op
        if op is not None and op.ends is not None and node is not model.program.output:
            layer = _layer(node, model.parameters)
            if layer:
                yield node, op, layer


def _layer(node: Node, parameters: Sequence[str]) -> str:
    """The name of the layer whose activation a node is: of the parameters between it and the activations below."""
    names: set[str] = set()
    waiting, seen = [*node.inputs], {node}
    while waiting:
        below = waiting.pop()
        if below in seen:
            continue
        seen.add(below)
        if below.is_input:
            names.add(below.text)
        elif below.op is None or below.op.ends is None:
            waiting += below.inputs
    return ", ".join(dict.fromkeys(layer_of(name) for name in parameters if name in names))


def _ends(op: Op) -> tuple[float, float]:
    assert op.ends is not None
    return op.ends


@dataclass(frozen=True, slots=True)
class FlatRows:
    """In how many rows of a block each unit is flat: it does nothing, or hardly anything, with its input.

    Attributes:
        layers: of each, the ends of its activation, whether it is exactly flat there, and which values are its units'.
    """

    layers: tuple[tuple[float, float, bool, slice], ...]

    def __call__(self, values: Array, _: Columns) -> NDArray[np.intp]:
        """Of values of shape (units, rows)."""
        found = []
        for low, high, dies, part in self.layers:
            if dies:
                flat = np.less_equal(values[part], low)
            else:
                place = (values[part] - low) / (high - low)
                flat = np.maximum(place, 1 - place) > SATURATED
            found.append(np.asarray(np.count_nonzero(flat, axis=-1)))
        return np.concatenate(found)


def layer_of(name: str) -> str:
    """The layer that a parameter belongs to: `mlp.0` of `mlp.0.weight`; itself if it was written by hand."""
    return name.rpartition(".")[0] or name


def _unit_problems(units: Sequence[Units]) -> Iterator[Problem]:
    for layer in units:
        if layer.dead:
            yield Problem("dead", layer.layer, layer.dead, layer.units, "end")
        if layer.saturated:
            yield Problem("saturated", layer.layer, layer.saturated, layer.units, "end")


# --- gradients


def _gradients(objective: Objective, start: Array, end: Array) -> Iterator[LayerGradients]:
    first = _sizes(objective, start)
    last = _sizes(objective, end)
    for layer, size in first.items():
        yield LayerGradients(layer, size, last[layer])


def _sizes(objective: Objective, theta: Array) -> dict[str, float]:
    """The root of the mean square of the gradient towards each layer, in the order of the text."""
    gradient, layout = objective.value_and_grad(theta)[1], objective.layout
    parts: dict[str, list[Array]] = {}
    for name, shape in layout.shapes.items():
        if shape:
            parts.setdefault(layer_of(name), []).append(gradient[layout.places[name]])
    return {layer: _root_mean_square(np.concatenate(own)) for layer, own in parts.items()}


def _root_mean_square(values: Array) -> float:
    """Scaled by the largest, so that no square overflows or vanishes."""
    largest = float(np.max(np.abs(values)))
    if not 0 < largest < math.inf:
        return largest
    return largest * float(np.sqrt(np.mean(np.square(values / largest))))


def _gradient_problems(gradients: Sequence[LayerGradients]) -> Iterator[Problem]:
    for when in ("start", "end"):
        sizes = {layer.layer: getattr(layer, when) for layer in gradients}
        last = [*sizes.values()][-1] if sizes else 0.0
        for layer, size in sizes.items():
            if not size <= EXPLODING or (last and size > EXPLODING * last):
                yield Problem("exploding", layer, size, last, when)
            elif size < VANISHING * last:
                yield Problem("vanishing", layer, size, last, when)

"""Quantities derived from the parameters of a fit, with errors by the delta method: `half = ln(2)/b`.

Of a quantity with the gradient g towards the parameters, and their covariance C, the variance is gᵀ·C·g, to first
order. The gradient is exact, a graph like every other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.backends.evaluate import evaluate
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.shapes import ShapeError, Shapes
from autodiff_cli.graph.tape import rebuild, topological
from autodiff_cli.language.errors import ExpressionError, UnknownNameError, in_brief, shape_error, suggest
from autodiff_cli.language.lexer import canonical, is_name
from autodiff_cli.language.lowering import Program, read
from autodiff_cli.numbers.arrays.table import quiet
from autodiff_cli.training.errors import OptionError, plain_value
from autodiff_cli.training.levels.expansion import in_backticks
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.objective.parameters import ParameterLayout
from autodiff_cli.training.result.covariance import variance_of_combination
from autodiff_cli.training.result.statistics import Statistics

Array = NDArray[np.float64]
Derived = dict[str, dict[str, float | None]]  # {"half": {"value": 0.5, "stderr": 0.01}, …}


def written(given: Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    """Quantities by name: from a mapping, or from texts such as `half = ln(2)/b`. A text without a name is its own.

    Raises:
        OptionError: for what is no text, a name without an expression, and one that is there twice.

    >>> written(["half = ln(2)/b", "a*b"])
    {'half': 'ln(2)/b', 'a*b': 'a*b'}
    """
    found: dict[str, str] = {}
    texts = [given] if isinstance(given, str) or not isinstance(given, Iterable) else given
    pairs = given.items() if isinstance(given, Mapping) else map(_named, texts)
    for name, text in pairs:
        plain_value(name, "str", "the name of a derived quantity")
        if not plain_value(text, "str", "a derived quantity").strip():
            raise OptionError(f"derive takes NAME=EXPR, as half=ln(2)/b: `{name}` has no expression")
        if name in found:
            raise OptionError(f"the derived quantity `{name}` is given twice")
        found[name] = text
    return found


def _named(text: str) -> tuple[str, str]:
    name, equals, rest = str(plain_value(text, "str", "a derived quantity")).partition("=")
    if equals and is_name(name.strip()):
        return canonical(name.strip()), rest.strip()
    return text.strip(), text.strip()


class Quantities:
    """Derived quantities of a model, as graphs of its parameters.

    Args:
        given: their texts by name. They may read parameters, names that the model's text binds (unless a column stands
            behind one), and quantities in front of them.
        layout: of the free parameters.

    Raises:
        ExpressionError: for a text that cannot be read, a name that is not there, an array.
        OptionError: for a quantity with the name of something else.
    """

    def __init__(self, given: Mapping[str, str], model: Model, layout: ParameterLayout) -> None:
        self._layout, self._shapes = layout, dict(model.shapes)
        self._leaves = [model.program.leaves[name] for name in layout.names]
        made: dict[str, Node] = {}
        for name, text in given.items():
            if name in (*model.columns, *model.parameters, *model.program.bound) and name != text:
                raise OptionError(f"`{name}` is in the model already: the derived quantity needs another name")
            made[name] = self._graph(text, model, made)
        self.names = tuple(made)
        self._values = [*made.values()]
        slopes = [gradient_nodes(value, self._leaves, self._shapes) for value in self._values]
        self._slopes = [slope for of_one in slopes for slope in of_one]
        nodes = topological([*self._values, *self._slopes])
        self._read = {node.text for node in nodes if node.is_input}

    def _graph(self, text: str, model: Model, before: Mapping[str, Node]) -> Node:
        declared = {name for name in (*model.parameters, *model.program.bound, *before) if is_name(name)}
        program = read(in_backticks(text, (*model.parameters, *model.program.bound)), declared)
        if program.target is not None:
            raise ExpressionError("a derived quantity is an expression, without `~`", text)
        replaced = {leaf: _meant(name, program, model, before) for name, leaf in program.leaves.items()}
        output = rebuild([program.output], replaced)[0]
        try:
            shape = Shapes(self._shapes).of(output)
        except ShapeError as error:
            raise shape_error(error, program.source) from None
        if shape:
            raise ExpressionError(f"a derived quantity is a number; `{text}` is an array: sum it, or take an element")
        return output

    def values(self, point: Mapping[str, Any]) -> Array:
        """Their values where the parameters have these, by name."""
        with quiet():
            return np.array([float(value) for value in self._evaluated(self._values, point)])

    def slopes(self, point: Mapping[str, Any]) -> Array:
        """Their derivatives towards all free numbers, of shape (quantities, P)."""
        with quiet():
            found = self._evaluated(self._slopes, point)
        shapes = self._layout.shapes.values()
        rows = [found[k : k + len(shapes)] for k in range(0, len(found), max(1, len(shapes)))]
        filled = [[np.broadcast_to(x, shape).ravel() for x, shape in zip(row, shapes, strict=True)] for row in rows]
        return np.array([np.concatenate(row) for row in filled])

    def _evaluated(self, nodes: list[Node], point: Mapping[str, Any]) -> list[Array]:
        return evaluate(nodes, {name: value for name, value in point.items() if name in self._read}, self._shapes)


def _meant(name: str, program: Program, model: Model, before: Mapping[str, Node]) -> Node:
    """What a name of a quantity stands for."""
    if name in before:
        return before[name]
    if name in model.parameters:
        return model.program.leaves[name]
    bound = model.program.bound.get(name)
    start = program.source.start(program.leaves[name])
    if name in model.columns:
        words = f"`{name}` is a column of the data; a derived quantity is one number for all rows"
        raise ExpressionError(words, program.text, start)
    if bound is None:
        names = [*model.parameters, *model.program.bound, *before]
        words = f"the model has no parameter `{name}`; there are {in_brief(names, '`')}"
        raise UnknownNameError(words, program.text, start, suggest(name, names))
    columns = [node.text for node in topological([bound]) if node.is_input and node.text in model.of_rows]
    if columns:
        words = f"`{name}` depends on the column `{columns[0]}`; a derived quantity is one number for all rows"
        raise ExpressionError(words, program.text, start)
    return bound


def derived(quantities: Quantities, point: Mapping[str, Any], known: Statistics) -> tuple[Derived, list[str]]:
    """Values and standard errors of quantities, and a sentence for each error that is not known.

    Args:
        point: the parameters, the fixed ones too.
        known: what is known of the free numbers. A quantity may be known though its parameters are not, as `a*b` is in
            the model `a*b*x`.
    """
    if not quantities.names:
        return {}, []
    values, slopes = quantities.values(point), quantities.slopes(point)
    found: Derived = {}
    for name, value, slope in zip(quantities.names, values, slopes, strict=True):
        found[name] = {"value": float(value), "stderr": _error(slope, known)}
    return found, [*_unknown(found, known.covariance)]


def _error(slope: Array, known: Statistics) -> float | None:
    used, covariance = slope != 0, known.covariance
    if not used.any():
        return 0.0
    with quiet():
        spread = np.sqrt(np.diag(covariance)[used])
        # Scaled by the errors, so that neither large nor small parameters are lost in the product.
        share = slope[used] * spread
        matrix = covariance[np.ix_(used, used)] / np.outer(spread, spread)
        variance = float(share @ np.where(np.isnan(matrix) & (np.outer(share, share) == 0), 0.0, matrix) @ share)
    if math.isnan(variance) and known.tied is not None:
        factor, scale = known.tied
        with quiet():
            variance = variance_of_combination(slope, factor) * scale * scale
    return math.sqrt(max(variance, 0.0)) if math.isfinite(variance) else None


def _unknown(found: Derived, covariance: Array) -> Iterator[str]:
    for name, of_one in found.items():
        value = of_one["value"]
        if value is None or not math.isfinite(value):
            yield f"the derived quantity `{name}` is {value} at the solution"
        elif of_one["stderr"] is None and not np.isnan(covariance).all():
            yield f"`{name}` has no standard error: a parameter that it depends on has none"

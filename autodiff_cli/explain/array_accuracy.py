"""The accuracy of formulas with arrays, element by element, and of many points at once.

Whole arrays are computed again with perturbed rounding errors. Points of a file and columns of a Hessian are rows of
these arrays. In large arrays some elements are nearly always suspicious, and extended precision (longdouble) clears
most of them. Only for the remaining elements are arrays unrolled into scalar nodes, and ball arithmetic gives the
correct digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from autodiff_cli.array_types import Array, Mask, ignore_float_errors
from autodiff_cli.autodiff.sweeps import forward, tangents
from autodiff_cli.autodiff.unrolling import TooManyOperationsError, element_leaves, element_names, unroll_at
from autodiff_cli.explain import accuracy
from autodiff_cli.explain.accuracy import Computation, InaccurateDigits
from autodiff_cli.explain.labels import Labels
from autodiff_cli.explain.record import NodeWarning
from autodiff_cli.formula.array_derivatives import BatchedGradient, DirectionalPoint, basis_directions
from autodiff_cli.formula.derivatives import DerivativeMatrix, HigherDerivatives
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node, constant
from autodiff_cli.graph.tape import Tape, has_array_operations
from autodiff_cli.numbers import arrays
from autodiff_cli.numbers.floats import PERTURBED_RUNS, SMALLEST_NORMAL, UNPERTURBED
from autodiff_cli.numbers.kind import Kind
from autodiff_cli.ops.structural import index

_FACTOR_COUNTS = {"outer": 2, "broadcast_like": 1}  # the first inputs of these operations are factors of the result


def inaccurate_elements(
    graphs: Mapping[str, Node],
    numbers: Mapping[str, Any],
    point: Mapping[str, Any],
    leaves: Mapping[str, Node],
    unrepresentable: Mapping[str, Any] = MappingProxyType({}),
) -> InaccurateDigits:
    """Return the inaccurate elements of the values of graphs at a point of numbers and arrays.

    Args:
        graphs: the graphs by name. Their elements are named as in the language: `v[0]`.
        numbers: the values of the graphs as floats give them.
        point: the value of every leaf, by its name.
        leaves: the leaves by their names.
        unrepresentable: exact values of leaves that no float represents.
    """
    numbers = {name: np.asarray(numbers[name], dtype=float) for name in graphs}
    extended_values: dict[str, Any] = {}
    distances: dict[str, Any] = dict.fromkeys(graphs, math.inf)
    if not unrepresentable:
        distances = _distances_of_elements(graphs, numbers, point)
    doubtful = _doubtful_elements(numbers, distances)
    if doubtful and not unrepresentable and _count_numbers(point) >= accuracy.SETTINGS.small_point:
        extended_values = _evaluate_longdouble({name: graphs[name] for name in doubtful}, point)
        for name, extended in extended_values.items():
            doubtful[name] &= ~_is_certainly_correct(numbers[name], extended, distances[name])
        doubtful = {name: mask for name, mask in doubtful.items() if mask.any()}
    if not doubtful:
        return InaccurateDigits({})
    try:
        unrolled = unroll_at([graphs[name] for name in doubtful], point, leaves, accuracy.SETTINGS.max_operations)
    except TooManyOperationsError:
        correct: dict[str, str] = {}
        for name, extended in extended_values.items():
            if name in doubtful:
                correct |= _longdouble_digits(name, doubtful[name], extended, distances[name])
        return InaccurateDigits(correct, sum(int(np.count_nonzero(mask)) for mask in doubtful.values()) - len(correct))
    exact: dict[str, Node] = {}
    printed: dict[str, float] = {}
    for (name, mask), array in zip(doubtful.items(), unrolled.graphs, strict=True):
        labels = element_leaves(name, mask.shape)
        for position in map(tuple, np.argwhere(mask)):
            label = labels[position].text
            exact[label] = np.broadcast_to(array, mask.shape)[position]
            printed[label] = float(numbers[name][position])
    evaluate = accuracy.exact_evaluator(exact)
    return InaccurateDigits(accuracy.correct_digits(printed, unrolled.point, evaluate, unrepresentable))


def _distances_of_elements(
    graphs: Mapping[str, Node], numbers: Mapping[str, Array], point: Mapping[str, Any]
) -> dict[str, Array]:
    """Return how far elements move when rounding errors are perturbed.

    Large outer products (gradients with respect to matrices) and broadcast numbers are not computed again: their
    distances follow from the distances of their factors.
    """
    factors = {
        name: graph.inputs[: _FACTOR_COUNTS.get(graph.op.name, 0)]
        for name, graph in graphs.items()
        if graph.op is not None and numbers[name].size > accuracy.SETTINGS.large_array
    }
    parts = [*dict.fromkeys(part for inputs in factors.values() for part in inputs)]
    values = dict(zip(parts, _evaluate(arrays.ARRAYS, parts, with_row_axis(point)), strict=True))
    is_product = {
        name: bool(inputs) and _is_within_range([np.abs(values[part]) for part in inputs])
        for name, inputs in factors.items()
    }
    values |= {graph: numbers[name] for name, graph in graphs.items() if not is_product.get(name)}
    tape = Tape([*values])
    # For large arrays one matrix product per perturbation is faster than one product with an extra axis.
    at_once = _count_numbers(point) < accuracy.SETTINGS.small_point
    shifts = perturbation_distances(tape, [x[..., None] for x in values.values()], with_row_axis(point), at_once)
    distances = {graph: distance[..., 0] for graph, distance in zip(values, shifts, strict=True)}
    for name, inputs in factors.items():
        if is_product[name]:
            sizes, changes = [np.abs(values[part]) for part in inputs], [distances[part] for part in inputs]
            with ignore_float_errors():
                distances[graphs[name]] = (
                    np.outer(changes[0], sizes[1] + changes[1]) + np.outer(sizes[0], changes[1])
                    if len(inputs) > 1
                    else np.broadcast_to(changes[0], numbers[name].shape)
                )
    return {name: distances[graph] for name, graph in graphs.items()}


def _evaluate(kind: Kind[Any], graphs: Sequence[Node], leaf_values: Mapping[str, Any]) -> list[Array]:
    """Return the values of graphs at one point, which is a single row."""
    tape = Tape(graphs)
    with ignore_float_errors():
        values = forward(tape, kind, leaf_values)
    # except for constants, the last axis is the axis of rows
    return [np.asarray(values[i])[(..., 0) if np.ndim(values[i]) else ...] for i in tape.outputs]


def _is_within_range(sizes: Sequence[Any]) -> bool:
    """Whether no product of one element of each array overflows or underflows."""
    least = math.prod(float(np.min(size, where=size > 0, initial=math.inf)) for size in sizes)
    return least >= SMALLEST_NORMAL and math.prod(float(np.max(size)) for size in sizes) < math.inf


def perturbation_distances(
    tape: Tape, numbers: Sequence[Array], leaf_values: Mapping[str, Any], at_once: bool = False
) -> list[Array]:
    """Return how far the outputs of a tape move when every rounding error is perturbed.

    The distance is infinite for numbers that are not finite or are subnormal, and for rows in which a comparison is
    undecided.

    Args:
        tape: the graphs.
        numbers: the outputs as floats give them. Rows are the last axis.
        leaf_values: the values of the leaves.
        at_once: whether the perturbed runs are rows of one evaluation; only for a single point.
    """
    sizes = [np.abs(x) for x in numbers]
    is_normal = [(size == 0) | ((size >= SMALLEST_NORMAL) & (size < math.inf)) for size in sizes]
    farthest = [np.where(mask, 0.0, math.inf) for mask in is_normal]
    with ignore_float_errors():
        for runs in [PERTURBED_RUNS] if at_once else [(run,) for run in PERTURBED_RUNS]:
            values = forward(tape, arrays.start_perturbed_array_run(*runs), leaf_values)
            for k, i in enumerate(tape.outputs):
                distance = np.abs(values[i] - numbers[k])
                if at_once:
                    distance = distance.max(axis=-1, keepdims=True)  # a nan stays nan
                farthest[k] = np.maximum(farthest[k], distance)
        if arrays.ARRAY_FACTORS.has_comparisons():
            forward(tape, arrays.start_perturbed_array_run(UNPERTURBED), leaf_values)
    undecided = arrays.ARRAY_FACTORS.undecided
    return [np.where(undecided, math.inf, distance) for distance in farthest] if np.any(undecided) else farthest


def _is_doubtful(numbers: Array, distances: Array | float) -> Mask:
    """Return where numbers may have fewer than 12 correct digits."""
    return np.asarray(~(distances <= accuracy.SETTINGS.tolerance * np.abs(numbers)) | np.isinf(distances))


def _doubtful_elements(numbers: Mapping[str, Array], distances: Mapping[str, Any]) -> dict[str, Mask]:
    """Return masks of the doubtful elements of arrays, without those of arrays that have none."""
    masks = {name: _is_doubtful(numbers[name], distance) for name, distance in distances.items()}
    return {name: mask for name, mask in masks.items() if mask.any()}


def _count_numbers(point: Mapping[str, Any]) -> int:
    return sum(map(np.size, point.values()))


def _evaluate_longdouble(graphs: Mapping[str, Node], point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of graphs in extended precision (longdouble).

    Returns nothing if the platform's longdouble has no more digits, or lacks one of the operations.
    """
    if arrays.LONGDOUBLE_EPS_RATIO == 1:
        return {}
    leaf_values = {name: np.asarray(x, dtype=np.longdouble)[..., None] for name, x in point.items()}
    try:
        return dict(zip(graphs, _evaluate(arrays.LONGDOUBLE, [*graphs.values()], leaf_values), strict=True))
    except NotImplementedError:
        return {}


def _longdouble_error(extended: Any, distance: Any) -> Any:
    """Return a bound of the relative error of extended precision; inf or nan where a number is 0.

    It follows from the distances of perturbed double precision.

    Perturbations exceed the rounding errors of doubles; the rounding errors of longdouble are smaller by a known
    factor.
    """
    return distance * arrays.LONGDOUBLE_EPS_RATIO / np.abs(extended)


def _is_certainly_correct(number: Any, extended: Any, distance: Any) -> Mask:
    """Return where doubles certainly have 12 correct digits: longdouble agrees, and its own error is negligible."""
    with ignore_float_errors():
        close = np.abs(number - extended) <= 0.9 * 10.0**-accuracy.SETTINGS.correct_digits * np.abs(extended)
        error = _longdouble_error(extended, distance)
        return np.asarray(close & (error < 0.1 * 10.0**-accuracy.SETTINGS.correct_digits))


def _longdouble_digits(name: str, mask: Mask, extended: Any, distance: Any) -> dict[str, str]:
    """Return the correct digits that longdouble has for certain, for those elements where they are at least 12."""
    from flint import fmpq

    from autodiff_cli.numbers.ball_arithmetic import format_shortest

    labels, correct = element_leaves(name, mask.shape), {}
    with ignore_float_errors():
        error = np.broadcast_to(_longdouble_error(extended, distance), mask.shape)
    for position in map(tuple, np.argwhere(mask & (error < 10.0**-accuracy.SETTINGS.correct_digits))):
        digits = min(accuracy.SETTINGS.shown_digits, math.floor(-math.log10(error[position])))
        number = np.broadcast_to(extended, mask.shape)[position]
        correct[labels[position].text] = format_shortest(fmpq(*number.as_integer_ratio()), digits)
    return correct


def with_row_axis(point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of leaves; arrays get a last axis for rows, or for perturbed runs."""
    return {name: x[..., None] if np.ndim(x) else np.float64(x) for name, x in point.items()}


class RowAccuracy:
    """Checks the numbers at many points for inaccurate digits, a block of rows at a time.

    Args:
        gradients: computes these numbers.
        unrepresentable: exact values of variables that no float represents.

    Attributes:
        unchecked: how many further rows may be inaccurate, beyond the rows whose correct digits were computed.
    """

    def __init__(self, gradients: BatchedGradient, unrepresentable: Mapping[str, Any] = MappingProxyType({})) -> None:
        self._leaves, self._graphs = gradients.leaves, gradients.graphs
        self._point = {**dict.fromkeys(self._leaves, 0.0), **gradients.point}
        self._fixed = with_row_axis(gradients.point)
        self._tape = Tape([*self._graphs.values()])
        self._unrepresentable = unrepresentable
        self._checked = 0
        self.unchecked = 0

    def check(self, columns: Mapping[str, Array], numbers: Array) -> dict[int, dict[str, str]]:
        """Return the correct digits of the numbers in a block that have fewer than 12, by row and name.

        Args:
            columns: a number per row for each leaf that varies.
            numbers: the numbers as floats give them, of shape (graphs, rows).
        """
        inaccurate = {}
        for row in self._doubtful_rows(columns, numbers):
            if self._checked >= self._max_checked:
                self.unchecked += 1
                continue
            self._checked += 1
            graphs, fixed = self._unrolled
            point = {**fixed, **{name: float(column[row]) for name, column in columns.items()}}
            of_row = dict(zip(self._graphs, numbers[:, row].tolist(), strict=True))
            exact = accuracy.exact_evaluator(graphs)
            if correct := accuracy.correct_digits(of_row, point, exact, self._unrepresentable):
                inaccurate[row] = correct
        return inaccurate

    @cached_property
    def _unrolled(self) -> tuple[dict[str, Node], dict[str, float]]:
        """The graphs element by element, and the value of every number; both empty if there are too many operations."""
        if not has_array_operations(self._tape.nodes):
            return self._graphs, self._point
        try:
            unrolled = unroll_at([*self._graphs.values()], self._point, self._leaves, accuracy.SETTINGS.max_operations)
        except TooManyOperationsError:
            return {}, {}
        return {name: array.item() for name, array in zip(self._graphs, unrolled.graphs, strict=True)}, unrolled.point

    @cached_property
    def _max_checked(self) -> int:
        """The maximum number of rows that are checked with proven digits."""
        graphs, _ = self._unrolled
        rows = 1 + accuracy.SETTINGS.max_row_operations // max(1, len(Tape([*graphs.values()])))
        return min(accuracy.SETTINGS.max_rows, rows) if graphs else 0

    def _doubtful_rows(self, columns: Mapping[str, Array], numbers: Array) -> list[int]:
        if self._unrepresentable:
            return [*range(numbers.shape[1])]
        distances = perturbation_distances(self._tape, [*numbers], {**self._fixed, **columns})
        masks = [_is_doubtful(row, distance) for row, distance in zip(numbers, distances, strict=True)]
        return np.flatnonzero(np.any(masks, axis=0)).tolist()


def output_warnings(
    formula: Formula,
    outputs: Mapping[str, Formula],
    point: Mapping[str, Any],
    derivatives: HigherDerivatives,
    unrepresentable: Mapping[str, Any],
    warnings: list[NodeWarning],
) -> list[NodeWarning]:
    """Return warnings with the inaccurate outputs and the inaccurate numbers of their Jacobian added.

    These are named `outputs.NAME` and `jacobian.NAME.x`.

    Args:
        formula: the formula that has the outputs.
        outputs: the outputs by name, as formulas of the variables of `formula`.
        point: a number or an array for every variable.
        derivatives: the outputs and the Jacobian as floats give them.
        unrepresentable: exact values of variables that no float represents.
        warnings: other warnings about the outputs.
    """
    graphs: dict[str, Node] = {}
    printed: dict[str, Any] = {}
    unknown = 0
    for label, of in (derivatives.jacobian or {}).items():
        output = outputs[label]
        sizes = output.value_shapes(point)
        shape = output.output_shape(sizes)
        if math.prod(shape) > accuracy.SETTINGS.max_output_elements:
            unknown += math.prod(shape) + sum(map(np.size, of.values()))
            continue
        for position, called in zip(np.ndindex(shape), element_names(label, shape), strict=True):
            element = index(output.output, *(constant(str(k)) for k in position)) if position else output.output
            graphs[f"outputs.{called}"] = element
            printed[f"outputs.{called}"] = np.asarray((derivatives.outputs or {})[label])[position]
            slopes = gradient_nodes(element, [formula.leaves[name] for name in of], sizes)
            for name, slope in zip(of, slopes, strict=True):
                graphs[f"jacobian.{called}.{name}"] = slope
                printed[f"jacobian.{called}.{name}"] = np.asarray(of[name])[position]
    checked = inaccurate_elements(graphs, printed, point, formula.leaves, unrepresentable).without_nan(warnings)
    node = formula.tape.outputs[0]
    label = Labels(formula.tape, formula.names, formula.source).texts[node]
    return checked._replace(unknown_count=checked.unknown_count + unknown).add_to(warnings, node, label)


def check_directional(
    formula: Formula,
    point: Mapping[str, Any],
    direction: Mapping[str, Any],
    slope: float,
    unrepresentable: Mapping[str, Any],
) -> InaccurateDigits:
    """Return whether a directional derivative is inaccurate; its name is `directional`."""
    moving = DirectionalPoint(formula, direction, point, unrepresentable)
    values = {name: x if isinstance(x, float) else np.asarray(x, dtype=float) for name, x in moving.values.items()}
    graphs = {"directional": moving.derivative()}
    return inaccurate_elements(graphs, {"directional": slope}, values, moving.leaves, unrepresentable)


def check_hessian(
    formula: Formula, point: Mapping[str, Any], hessian: DerivativeMatrix, unrepresentable: Mapping[str, Any]
) -> InaccurateDigits:
    """Return the inaccurate numbers of a Hessian, named `hessian.x.y`."""
    parts = {row: [np.reshape(x, (*np.shape(point[row]), -1)) for x in of.values()] for row, of in hessian.items()}
    rows_of_hessian = {row: np.concatenate(blocks, axis=-1) for row, blocks in parts.items()}
    distances: dict[str, Any] = dict.fromkeys(hessian, math.inf)
    if not unrepresentable:
        distances = _distances_of_second_derivatives(formula, point, rows_of_hessian)
    doubtful = _doubtful_elements(rows_of_hessian, distances)
    if not doubtful:
        return InaccurateDigits({})
    slopes = gradient_nodes(formula.output, [formula.leaves[row] for row in doubtful], formula.value_shapes(point))
    try:
        unrolled = unroll_at(slopes, point, formula.leaves, accuracy.SETTINGS.max_operations)
    except TooManyOperationsError:
        return InaccurateDigits({}, sum(int(np.count_nonzero(mask)) for mask in doubtful.values()))
    columns = [leaf.text for name in hessian for leaf in unrolled.leaves[name].reshape(-1).tolist()]
    exact, printed = {}, {}
    for (row, mask), graphs in zip(doubtful.items(), unrolled.graphs, strict=True):
        graphs = np.broadcast_to(graphs, mask.shape[:-1])
        for *position, column in np.argwhere(mask):
            leaf = element_leaves(row, graphs.shape)[tuple(position)].text
            exact[leaf] = graphs[tuple(position)]
            printed[f"hessian.{leaf}.{columns[column]}"] = float(rows_of_hessian[row][(*position, column)])
    operations = len(Tape([*exact.values()])) * len(columns)
    if operations > accuracy.SETTINGS.max_hessian_operations:
        return InaccurateDigits({}, len(printed))
    needed = [column for k, column in enumerate(columns) if any(mask[..., k].any() for mask in doubtful.values())]
    compute = accuracy.exact_computation(second_derivative_computation(exact, needed), operations)
    return InaccurateDigits(accuracy.correct_digits(printed, unrolled.point, compute, unrepresentable))


def _distances_of_second_derivatives(
    formula: Formula, point: Mapping[str, Any], rows_of_hessian: Mapping[str, Array]
) -> dict[str, Array]:
    """Return how far second derivatives move when rounding errors are perturbed.

    All directions are evaluated at once, as rows of arrays: one direction for every element of the variables.
    """
    basis = {name: np.asarray(rates) for name, rates in basis_directions(formula, point, rows_of_hessian).items()}
    moving = DirectionalPoint(formula, basis, point)
    leaf_values = with_row_axis(point)
    leaf_values |= {moving.seeds[formula.leaves[name]].text: np.moveaxis(rates, 0, -1) for name, rates in basis.items()}
    tape = Tape(moving.hessian_product(rows_of_hessian))
    distances = perturbation_distances(tape, [*rows_of_hessian.values()], leaf_values)
    return dict(zip(rows_of_hessian, distances, strict=True))


def second_derivative_computation(slopes: Mapping[str, Node], columns: Sequence[str]) -> Computation:
    """Return a function that computes the derivatives of graphs (rows, by name) with respect to leaves (columns)."""
    tape = Tape([*slopes.values()])

    def compute(kind: Kind[Any], point: Mapping[str, Any]) -> dict[str, Any]:
        values, one, nothing = forward(tape, kind, point), kind.parse_derivative("1"), kind.parse_constant("0")
        results = {}
        for column in columns:
            column_tangents = tangents(tape, kind, values, {column: one})
            for row, i in zip(slopes, tape.outputs, strict=True):
                rate = column_tangents[i]
                results[f"hessian.{row}.{column}"] = nothing if rate is None else rate
        return results

    return compute

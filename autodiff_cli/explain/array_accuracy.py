"""The accuracy of formulas with arrays, element by element, and of many points at once.

Whole arrays are computed again with perturbed rounding errors. In large arrays some elements are nearly always
suspicious, and extended precision (longdouble) clears most of them. Only for the remaining elements are arrays unrolled
into scalar nodes, and ball arithmetic gives the correct digits.

`check_array_accuracy` checks value and gradient, `output_warnings` several outputs, `check_higher_derivatives` higher
derivatives, and `RowAccuracy` value and gradient at many points, a block of rows at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from autodiff_cli.array_types import Array, Mask
from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.autodiff.unrolling import NodeArray, TooManyOperationsError, element_leaves, unroll
from autodiff_cli.explain import accuracy
from autodiff_cli.explain.accuracy import (
    VALUE,
    add_correct_digits,
    correct_digits,
    exact_computation,
    inaccurate_higher_derivatives,
    second_derivative_computation,
)
from autodiff_cli.explain.labels import Labels
from autodiff_cli.explain.record import NodeWarning, Trace
from autodiff_cli.formula.array_derivatives import DirectionalPoint, basis_directions
from autodiff_cli.formula.derivatives import DerivativeMatrix, HigherDerivatives
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node, constant
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.arrays import (
    ARRAYS,
    LONGDOUBLE,
    LONGDOUBLE_EPS_RATIO,
    ignore_float_errors,
    start_perturbed_array_run,
    undecided_array_comparisons,
)
from autodiff_cli.numbers.floats import PERTURBED_RUNS, SMALLEST_NORMAL
from autodiff_cli.ops.structural import index

_FACTOR_COUNTS = {"outer": 2, "broadcast_like": 1}  # the first inputs of these operations are factors of the result


class InaccurateDigits(NamedTuple):
    """The inaccurate numbers of a formula with arrays.

    Attributes:
        correct: the correct digits of the numbers that have fewer than 12, by the name of the number.
        unknown_count: how many further numbers may be inaccurate, but would take too many operations to check.
    """

    correct: dict[str, str]
    unknown_count: int

    def add_to(self, warnings: list[NodeWarning], node: int, label: str) -> list[NodeWarning]:
        """Return warnings with these numbers added; `node` and `label` are those of the output."""
        if not self.unknown_count:
            return add_correct_digits(warnings, self.correct, node, label)
        what = "1 printed number" if self.unknown_count == 1 else f"{self.unknown_count:,} printed numbers"
        message = (
            f"{label}: {what} may be inaccurate; element by element the formula has more than "
            f"{accuracy.SETTINGS.max_operations:,} operations, so the correct digits are not computed"
        )
        return [*warnings, NodeWarning(node, "precision", message)]


def check_array_accuracy(trace: Trace, graphs: Mapping[str, Node]) -> list[NodeWarning]:
    """Return the warnings of a trace with arrays, with the correct digits of every inaccurate number.

    Args:
        trace: both passes, with the warnings so far.
        graphs: the graphs of the value (`VALUE`) and of the derivative with respect to each variable, by name.
    """
    numbers = {name: trace.value if name == VALUE else trace.gradient[name] for name in graphs}
    inaccurate = inaccurate_elements(graphs, numbers, trace.point, trace.expression.leaves, trace.unrepresentable)
    if any(warning.kind in ("singular", "domain") for warning in trace.warnings):
        # rounding may cross the edge of a domain; that has its own warning
        inaccurate = inaccurate._replace(
            correct={name: text for name, text in inaccurate.correct.items() if text != "nan"}
        )
    if not inaccurate.correct and not inaccurate.unknown_count:
        return trace.warnings
    output = trace.tape.outputs[0]
    return inaccurate.add_to(trace.warnings, output, trace.labels[output])


def inaccurate_elements(
    graphs: Mapping[str, Node],
    found: Mapping[str, Any],
    point: Mapping[str, Any],
    leaves: Mapping[str, Node],
    unrepresentable: Mapping[str, Any] = MappingProxyType({}),
) -> InaccurateDigits:
    """Return the inaccurate elements of the values of graphs at a point of numbers and arrays.

    Args:
        graphs: the graphs by name. Elements are named like those of a variable: `v[0]`.
        found: the values of the graphs as floats give them.
        point: the value of every leaf, by its name.
        leaves: the leaves by their names.
        unrepresentable: exact values of leaves that no float represents.
    """
    distances = _perturbation_distances(graphs, found, point)
    doubtful = {
        name: ~(distance <= accuracy.SETTINGS.tolerance * np.abs(found[name])) | np.isinf(distance)
        for name, distance in distances.items()
        if distance.any()
    }
    doubtful = {name: mask for name, mask in doubtful.items() if mask.any()}
    if unrepresentable:
        doubtful = {name: np.ones(np.shape(found[name]), dtype=bool) for name in graphs}
    finer: dict[str, Any] = {}
    if doubtful and not unrepresentable and _count_numbers(point) >= accuracy.SETTINGS.small_point:
        finer = _evaluate_longdouble({name: graphs[name] for name in doubtful}, point)
        for name, fine in finer.items():
            doubtful[name] &= ~_is_certainly_correct(found[name], fine, distances[name])
        doubtful = {name: mask for name, mask in doubtful.items() if mask.any()}
    if not doubtful:
        return InaccurateDigits({}, 0)
    try:
        numbers, written = unroll_at([graphs[name] for name in doubtful], point, leaves)
    except TooManyOperationsError:
        correct: dict[str, str] = {}
        for name, mask in doubtful.items():
            if name in finer:
                correct |= _longdouble_digits(name, mask, finer[name], distances[name])
        return InaccurateDigits(correct, sum(int(np.count_nonzero(mask)) for mask in doubtful.values()) - len(correct))
    exact: dict[str, Node] = {}
    printed: dict[str, float] = {}
    for (name, mask), array in zip(doubtful.items(), written, strict=True):
        called, floats = element_leaves(name, mask.shape), np.broadcast_to(found[name], mask.shape)
        for position in map(tuple, np.argwhere(mask)):
            label = called[position].text
            exact[label], printed[label] = np.broadcast_to(array, mask.shape)[position], float(floats[position])
    return InaccurateDigits(
        correct_digits(printed, element_values(numbers, point), exact_evaluator(exact), unrepresentable), 0
    )


def unroll_at(
    graphs: Sequence[Node], point: Mapping[str, Any], leaves: Mapping[str, Node]
) -> tuple[dict[str, NodeArray], list[NodeArray]]:
    """Return the element nodes of every leaf, by its name, and the graphs of every element of some graphs.

    Raises:
        TooManyOperationsError: for more than `AccuracySettings.max_operations` operations on numbers.
    """
    if _count_numbers(point) > accuracy.SETTINGS.max_operations:
        raise TooManyOperationsError
    numbers = {name: element_leaves(name, np.shape(x)) for name, x in point.items()}
    return numbers, unroll(
        graphs, {leaves[name]: array for name, array in numbers.items()}, accuracy.SETTINGS.max_operations
    )


def element_values(numbers: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, float]:
    """Return the value of every element at a point, by the name of the element."""
    return {
        leaf.text: float(x)
        for name, array in numbers.items()
        for leaf, x in zip(array.reshape(-1).tolist(), np.ravel(point[name]), strict=True)
    }


def exact_evaluator(graphs: Mapping[str, Node]) -> Any:
    """Return a function that computes graphs with proven digits: the argument `exact` of `correct_digits`."""
    from autodiff_cli.autodiff.arbitrary_precision import evaluate_to_digits

    def exact(leaves: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
        selected = [*names]
        return dict(
            zip(
                selected,
                evaluate_to_digits(
                    [graphs[name] for name in selected], accuracy.SETTINGS.shown_digits, leaves=leaves
                ).known_numbers,
                strict=True,
            )
        )

    return exact


def _perturbation_distances(
    graphs: Mapping[str, Node], numbers: Mapping[str, Any], point: Mapping[str, Any]
) -> dict[str, Any]:
    """Return how far elements move when rounding errors are perturbed.

    Large outer products (gradients with respect to matrices) and broadcast numbers are not computed again: their
    distances follow from those of their factors.
    """
    factored = {
        name: {f"{name} {k}": part for k, part in enumerate(graph.inputs[: _FACTOR_COUNTS.get(graph.op.name, 0)])}
        for name, graph in graphs.items()
        if graph.op is not None and np.size(numbers[name]) > accuracy.SETTINGS.large_array
    }
    factored = {name: parts for name, parts in factored.items() if parts}
    if not factored:
        return perturbation_distances(graphs, numbers, point)
    each = {label: part for parts in factored.values() for label, part in parts.items()}
    tape = Tape([*each.values()])
    with ignore_float_errors():
        values = forward(tape, ARRAYS, with_perturbation_axis(point))
        factor_values = {label: _drop_row_axis(values[i]) for label, i in zip(each, tape.outputs, strict=True)}
        unfactored = {name: graph for name, graph in graphs.items() if name not in factored}
        distances = perturbation_distances({**unfactored, **each}, {**numbers, **factor_values}, point)
        for name, parts in factored.items():
            sizes, factor_distances = (
                [np.abs(factor_values[label]) for label in parts],
                [distances.pop(label) for label in parts],
            )
            if not _is_within_range(sizes):
                distances |= perturbation_distances({name: graphs[name]}, numbers, point)
            elif all(
                np.all(distance <= accuracy.SETTINGS.tolerance / 2 * size)
                for distance, size in zip(factor_distances, sizes, strict=True)
            ):
                distances[name] = np.zeros(())
            elif len(parts) == 1:
                distances[name] = np.broadcast_to(factor_distances[0], np.shape(numbers[name]))
            else:
                distances[name] = np.outer(factor_distances[0], sizes[1] + factor_distances[1]) + np.outer(
                    sizes[0], factor_distances[1]
                )
    return distances


def _is_within_range(sizes: Sequence[Any]) -> bool:
    """Whether no product of one element of each array overflows or underflows."""
    least = math.prod(float(np.min(size, where=size > 0, initial=math.inf)) for size in sizes)
    return least >= SMALLEST_NORMAL and math.prod(float(np.max(size)) for size in sizes) < math.inf


def perturbation_distances(
    graphs: Mapping[str, Node], numbers: Mapping[str, Any], point: Mapping[str, Any]
) -> dict[str, Any]:
    """Return how far elements move when every rounding error is perturbed.

    The distance is infinite for elements that are not finite or are subnormal, and if a comparison becomes undecided.
    """
    tape, leaf_values = Tape([*graphs.values()]), with_perturbation_axis(point)
    # For large arrays one matrix product per perturbation is faster than one product with an extra axis.
    at_once = (
        [PERTURBED_RUNS]
        if _count_numbers(point) < accuracy.SETTINGS.small_point
        else [(way,) for way in PERTURBED_RUNS]
    )
    farthest: dict[str, Any] = {name: np.zeros(np.shape(numbers[name])) for name in graphs}
    with ignore_float_errors():
        for ways in at_once:
            values = forward(tape, start_perturbed_array_run(*ways), leaf_values)
            for name, i in zip(graphs, tape.outputs, strict=True):
                value = np.asarray(numbers[name])
                distance = np.abs(values[i] - value[..., None])
                distance = distance[..., 0] if distance.shape[-1] == 1 else distance.max(axis=-1)  # a nan stays nan
                farthest[name] = np.maximum(
                    farthest[name], math.inf if np.any(undecided_array_comparisons()) else distance
                )
    for name in graphs:
        size = np.abs(numbers[name])
        farthest[name] = np.where(
            (size == 0) | ((size >= SMALLEST_NORMAL) & (size < math.inf)), farthest[name], math.inf
        )
    return farthest


def _drop_row_axis(values: Any) -> Any:
    """Return values without their last axis, the axis of rows, which has length 1; a constant has no such axis."""
    return np.asarray(values)[..., 0] if np.ndim(values) else np.asarray(values)


def _count_numbers(point: Mapping[str, Any]) -> int:
    return sum(map(np.size, point.values()))


def _evaluate_longdouble(graphs: Mapping[str, Node], point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of graphs in extended precision (longdouble).

    Returns nothing if the platform's longdouble has no more digits, or lacks one of the operations.
    """
    if LONGDOUBLE_EPS_RATIO == 1:
        return {}
    tape = Tape([*graphs.values()])
    leaf_values = {name: np.asarray(x, dtype=np.longdouble)[..., None] for name, x in point.items()}
    try:
        with ignore_float_errors():
            values = forward(tape, LONGDOUBLE, leaf_values)
    except NotImplementedError:
        return {}
    return {name: _drop_row_axis(values[i]) for name, i in zip(graphs, tape.outputs, strict=True)}


def _longdouble_error(fine: Any, distance: Any) -> Any:
    """Return a bound of the relative error of extended precision, from the distances of perturbed double precision.

    Perturbations exceed the rounding errors of doubles, and those of longdouble are smaller in a known proportion.
    """
    return np.where(fine == 0, math.inf, distance * LONGDOUBLE_EPS_RATIO / np.abs(fine))


def _is_certainly_correct(value: Any, fine: Any, distance: Any) -> Mask:
    """Return where doubles certainly have 12 correct digits: longdouble agrees, and its own error is negligible."""
    with ignore_float_errors():
        close = np.abs(value - fine) <= 0.9 * 10.0**-accuracy.SETTINGS.correct_digits * np.abs(fine)
        return np.asarray(close & (_longdouble_error(fine, distance) < 0.1 * 10.0**-accuracy.SETTINGS.correct_digits))


def _longdouble_digits(name: str, mask: Mask, fine: Any, distance: Any) -> dict[str, str]:
    """Return the correct digits that longdouble has for certain, for those elements where they are at least 12."""
    from flint import fmpq

    from autodiff_cli.numbers.ball_arithmetic import format_shortest

    called, correct = element_leaves(name, mask.shape), {}
    with ignore_float_errors():
        error = np.broadcast_to(_longdouble_error(fine, distance), mask.shape)
    for position in map(tuple, np.argwhere(mask & (error < 10.0**-accuracy.SETTINGS.correct_digits))):
        digits = min(accuracy.SETTINGS.shown_digits, math.floor(-math.log10(error[position])))
        correct[called[position].text] = format_shortest(
            fmpq(*np.broadcast_to(fine, mask.shape)[position].as_integer_ratio()), digits
        )
    return correct


def with_perturbation_axis(point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of leaves; arrays get a last axis for the perturbations."""
    return {name: x[..., None] if np.ndim(x) else np.float64(x) for name, x in point.items()}


def is_doubtful(value: Any, perturbed: Any) -> Mask:
    """Return where numbers differ from the perturbed ones by more than their last digits, or are not normal floats."""
    size = np.abs(value)
    is_accurate = (
        (np.abs(value - perturbed) <= accuracy.SETTINGS.tolerance * size)
        & np.isfinite(value)
        & ((value == 0) | (size >= SMALLEST_NORMAL))
    )
    return np.asarray(~is_accurate)


class RowAccuracy:
    """Checks the value and gradient at many points for inaccurate digits, a block of rows at a time.

    Args:
        formula: a formula whose output is a number.
        fixed: the values of the variables that are equal in all rows.
        columns: the names of the scalar variables that vary.
        wrt: the scalar variables whose derivatives are checked.
        unrepresentable: exact values of variables that no float represents.

    Attributes:
        unchecked: how many further rows may be inaccurate, beyond the rows whose correct digits were computed.
    """

    def __init__(
        self,
        formula: Formula,
        fixed: Mapping[str, Any],
        columns: Sequence[str],
        wrt: Sequence[str],
        unrepresentable: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._leaves = formula.leaves
        self._point = {**fixed, **dict.fromkeys(columns, 0.0)}
        self._fixed = with_perturbation_axis(fixed)
        slopes = gradient_nodes(
            formula.output, [formula.leaves[name] for name in wrt], formula.value_shapes(self._point)
        )
        self._graphs = dict(zip([VALUE, *wrt], [formula.output, *slopes], strict=True))
        self._tape = Tape([*self._graphs.values()])
        self._unrepresentable = unrepresentable
        self._checked = 0
        self.unchecked = 0

    def check(self, columns: Mapping[str, Array], found: Array) -> dict[int, dict[str, str]]:
        """Return the correct digits of the numbers in a block that have fewer than 12, by row and name.

        Args:
            columns: a number per row for each variable that varies.
            found: the value and the derivatives as floats give them, of shape (1 + derivatives, rows).
        """
        inaccurate = {}
        for row in self._doubtful_rows(columns, found):
            if self._checked >= self._max_checked:
                self.unchecked += 1
                continue
            self._checked += 1
            point = {**self._unrolled[1], **{name: float(column[row]) for name, column in columns.items()}}
            numbers = dict(zip(self._graphs, found[:, row].tolist(), strict=True))
            if correct := correct_digits(numbers, point, exact_evaluator(self._unrolled[0]), self._unrepresentable):
                inaccurate[row] = correct
        return inaccurate

    @cached_property
    def _unrolled(self) -> tuple[dict[str, Node], dict[str, float]]:
        """The graphs element by element, and the value of every number; both empty if there are too many operations."""
        if not any(map(np.ndim, self._point.values())):
            return self._graphs, self._point
        try:
            numbers, written = unroll_at([*self._graphs.values()], self._point, self._leaves)
        except TooManyOperationsError:
            return {}, {}
        graphs = {name: array.item() for name, array in zip(self._graphs, written, strict=True)}
        return graphs, element_values(numbers, self._point)

    @cached_property
    def _max_checked(self) -> int:
        """The maximum number of rows that are checked with proven digits."""
        graphs, _ = self._unrolled
        return (
            min(accuracy.SETTINGS.max_rows, 1 + accuracy.SETTINGS.max_row_operations // len(Tape([*graphs.values()])))
            if graphs
            else 0
        )

    def _doubtful_rows(self, columns: Mapping[str, Array], numbers: Array) -> Iterator[int]:
        doubtful = np.full(numbers.shape[1], bool(self._unrepresentable))
        with ignore_float_errors():
            for way in PERTURBED_RUNS:
                values = forward(self._tape, start_perturbed_array_run(way), {**self._fixed, **columns})
                for row_values, i in zip(numbers, self._tape.outputs, strict=True):
                    doubtful |= is_doubtful(row_values, values[i]) | undecided_array_comparisons()
        return map(int, np.flatnonzero(doubtful))


def output_warnings(
    formula: Formula, outputs: Mapping[str, Formula], point: Mapping[str, Any], derivatives: HigherDerivatives
) -> list[NodeWarning]:
    """Return the warnings about several outputs and their Jacobian, named `outputs.NAME` and `jacobian.NAME.x`.

    Args:
        formula: the formula that has the outputs.
        outputs: the outputs by name, as formulas of the variables of `formula`.
        point: a number or an array for every variable.
        derivatives: the outputs and the Jacobian as floats give them.
    """
    tape = formula.tape
    output = tape.outputs[0]
    label = Labels(tape, formula.names, formula.source).texts[output]
    return _check_outputs(outputs, point, derivatives).add_to([], output, label)


def _check_outputs(
    outputs: Mapping[str, Formula], point: Mapping[str, Any], derivatives: HigherDerivatives
) -> InaccurateDigits:
    graphs: dict[str, Node] = {}
    printed: dict[str, Any] = {}
    leaves: dict[str, Node] = {}
    unknown = 0
    for label, of in (derivatives.jacobian or {}).items():
        output = outputs[label]
        sizes, leaves = output.value_shapes(point), dict(output.leaves)
        shape = output.output_shape(sizes)
        if math.prod(shape) > accuracy.SETTINGS.max_output_elements:
            unknown += math.prod(shape) + sum(map(np.size, of.values()))
            continue
        for position in np.ndindex(shape):
            called = f"{label}[{', '.join(map(str, position))}]" if position else label
            element = index(output.output, *(constant(str(k)) for k in position)) if position else output.output
            graphs[f"outputs.{called}"] = element
            printed[f"outputs.{called}"] = np.asarray((derivatives.outputs or {})[label])[position]
            slopes = gradient_nodes(element, [leaves[name] for name in of], sizes)
            for name, slope in zip(of, slopes, strict=True):
                graphs[f"jacobian.{called}.{name}"] = slope
                printed[f"jacobian.{called}.{name}"] = np.asarray(of[name])[position]
    inaccurate = inaccurate_elements(graphs, printed, point, leaves)
    # Rounding may cross the edge of a domain; the gradient does not report that here either.
    correct = {name: text for name, text in inaccurate.correct.items() if text != "nan"}
    return InaccurateDigits(correct, inaccurate.unknown_count + unknown)


def check_higher_derivatives(
    formula: Formula, place: Mapping[str, Any], derivatives: HigherDerivatives
) -> InaccurateDigits:
    """Return the inaccurate numbers among higher derivatives of a formula with arrays.

    Args:
        formula: the formula.
        place: a number or an array for every variable.
        derivatives: the derivatives as floats give them.
    """
    parts = []
    if derivatives.derivative is not None:
        parts.append(_check_order(formula, place, derivatives))
    if derivatives.directional is not None and derivatives.direction is not None:
        moving = DirectionalPoint(formula, derivatives.direction, place)
        found = {"directional": derivatives.directional}
        point = {name: x if isinstance(x, float) else np.asarray(x, dtype=float) for name, x in moving.values.items()}
        parts.append(inaccurate_elements({"directional": moving.derivative()}, found, point, moving.leaves))
    if derivatives.hessian is not None:
        parts.append(_check_hessian(formula, place, derivatives.hessian))
    correct = {name: text for part in parts for name, text in part.correct.items()}
    return InaccurateDigits(correct, sum(part.unknown_count for part in parts))


def _check_order(formula: Formula, point: Mapping[str, Any], derivatives: HigherDerivatives) -> InaccurateDigits:
    try:
        numbers, (output,) = unroll_at([formula.output], point, formula.leaves)
    except TooManyOperationsError:
        return InaccurateDigits({}, 1)
    leaves = {leaf.text: leaf for array in numbers.values() for leaf in array.reshape(-1).tolist()}
    request = HigherDerivatives(
        derivative=derivatives.derivative, order=derivatives.order, variable=derivatives.variable
    )
    return InaccurateDigits(
        inaccurate_higher_derivatives(Formula(output.item(), leaves), element_values(numbers, point), request), 0
    )


def _check_hessian(formula: Formula, point: Mapping[str, Any], hessian: DerivativeMatrix) -> InaccurateDigits:
    rows_of_hessian = {row: _concatenate_columns(of, np.shape(point[row])) for row, of in hessian.items()}
    doubtful = _doubtful_elements(formula, point, rows_of_hessian)
    rows = {row: mask for row, mask in doubtful.items() if mask.any()}
    if not rows:
        return InaccurateDigits({}, 0)
    sizes = formula.value_shapes(point)
    slopes = gradient_nodes(formula.output, [formula.leaves[row] for row in rows], sizes)
    try:
        numbers, written = unroll_at(slopes, point, formula.leaves)
    except TooManyOperationsError:
        return InaccurateDigits({}, sum(int(np.count_nonzero(mask)) for mask in rows.values()))
    columns = [leaf.text for name in hessian for leaf in numbers[name].reshape(-1).tolist()]
    exact, printed = {}, {}
    for (row, mask), graphs in zip(rows.items(), written, strict=True):
        for *position, column in np.argwhere(mask):
            leaf = element_leaves(row, graphs.shape)[tuple(position)].text
            exact[leaf] = graphs[tuple(position)]
            printed[f"hessian.{leaf}.{columns[column]}"] = float(rows_of_hessian[row][(*position, column)])
    if len(Tape([*exact.values()])) * len(columns) > accuracy.SETTINGS.max_hessian_operations:
        return InaccurateDigits({}, len(printed))
    doubtful_columns = [column for k, column in enumerate(columns) if any(mask[..., k].any() for mask in rows.values())]
    return InaccurateDigits(
        correct_digits(
            printed,
            element_values(numbers, point),
            exact_computation(second_derivative_computation(exact, doubtful_columns)),
        ),
        0,
    )


def _concatenate_columns(of: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
    """Return the rows of a Hessian for one variable, its blocks concatenated along the last axis.

    Args:
        of: the block for each column variable.
        shape: the shape of the row variable.
    """
    return np.concatenate([np.reshape(x, (*shape, -1)) for x in of.values()], axis=-1)


def _doubtful_elements(
    formula: Formula, point: Mapping[str, Any], rows_of_hessian: Mapping[str, Any]
) -> dict[str, Any]:
    """Return masks of the second derivatives that may be inaccurate.

    All directions are evaluated at once, as rows of arrays: one direction for every element of the variables.
    """
    basis = {name: np.asarray(rates) for name, rates in basis_directions(formula, point, rows_of_hessian).items()}
    moving = DirectionalPoint(formula, basis, point)
    tape = Tape(moving.hessian_product(rows_of_hessian, is_sparse=False))
    leaf_values = with_perturbation_axis(point)
    leaf_values |= {moving.seeds[formula.leaves[name]].text: np.moveaxis(rates, 0, -1) for name, rates in basis.items()}
    masks = {row: np.zeros(x.shape, dtype=bool) for row, x in rows_of_hessian.items()}
    with ignore_float_errors():
        for way in PERTURBED_RUNS:
            values = forward(tape, start_perturbed_array_run(way), leaf_values)
            for row, i in zip(rows_of_hessian, tape.outputs, strict=True):
                masks[row] |= is_doubtful(rows_of_hessian[row], values[i]) | np.any(undecided_array_comparisons())
    return masks

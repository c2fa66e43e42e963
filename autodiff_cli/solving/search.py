"""Branch and prune: all zeros of a system of equations in a box, on arrays of boxes.

A box is dropped where the enclosure of an equation, or its mean-value form, excludes 0. It is narrowed by constraint
propagation and by interval Newton steps (the operator of Hansen and Sengupta), and bisected where that does not help. A
step that maps a box into its interior proves that it has exactly one zero (Neumaier 1990, "Interval methods for systems
of equations"). A zero on the border of a box cannot be proven inside it, so a box with a regular Jacobian is inflated
first.

A minimum of an objective is a zero of its gradient, or lies on an edge of the domain. So the domain is divided into its
inside and its faces. On a face some coordinates are fixed, and the objective must not fall inward along them. The
search finds all stationary points inside and all Karush-Kuhn-Tucker points on the faces.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autodiff_cli.algebra.conditions import with_pairwise_choices
from autodiff_cli.algebra.simplify import simplify
from autodiff_cli.array_types import Array, Mask
from autodiff_cli.autodiff.sweeps import ForwardPass
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node, is_literal, variable
from autodiff_cli.graph.tape import LazyTable, Tape, rebuild, topological_order, with_inputs
from autodiff_cli.numbers.ball_arithmetic import Number, float_bounds
from autodiff_cli.numbers.intervals import INTERVALS, INVERSES, Function, Intervals
from autodiff_cli.ops.arithmetic import abs_, and_, div, greater, greater_equal, less, less_equal, not_, sign, where

_BATCH = 4096  # boxes that are evaluated together
_EPS = 2.0**-48  # relative rounding error of a short sum of products, with a margin
_SLACK = 1 + 1e-9  # covers the rounding of sums of positive bounds
_MAX_REGULAR_DEVIATION = 0.9  # largest row sum of |I - Y·J| for which inflating a box is worthwhile
_INFLATION = 0.1  # part of its width by which a box grows on each side
_MIN_GROWTH = 2.0**-40  # part of its ends by which it grows at least, so that rounding does not hide the zero
TINY = 1e-290  # added to widths of boxes around 0, where relative widths are 0
_MIN_RELATIVE_WIDTH = 2.0**-30  # boxes narrower than this, relative to their place, are not bisected
_MIN_DOMAIN_PART = 2.0**-44  # boxes narrower than this, relative to the domain, are not bisected either
_FACE_PART = 2.0**-7  # relative to the domain; smaller boxes on faces that cannot hold the global minimum are skipped
_NOISE_WIDTH = 2.0**-16  # relative width below which a box is left undecided if rounding hides the sign at its middle
_SPLIT_POSITION = 0.4873  # part of the width at which a box is cut: not 1/2, because zeros are often there
_CLOSED = 2  # side of a coordinate whose edges are not separated from the inside yet
_MAX_PASSES = 3  # passes of constraint propagation in large systems, whose boxes are costly to cut
_LARGE_SYSTEM = 4  # equations of a system that counts as large
_KINK_PASSES = 2  # passes of constraint propagation: one bounds the truths of conditions, the next uses them
_COMPARISONS = {greater: 1, greater_equal: 1, less: -1, less_equal: -1}
_NEGLIGIBLE_SLOPE = 1e-300  # of an objective: intervals of exponentials that underflow do not separate it from 0
_MIN_NARROWING = 0.6  # a box that a Newton step narrows by this factor is not bisected


class System:
    """Equations F = 0 in as many unknowns, or the gradient of an objective to minimise.

    Attributes:
        names: the unknowns.
        leaves: their leaves in the graphs.
        equations: the functions F.
        jacobian: the derivatives of F, row by row.
        objective: the function to minimise; None for equations.
        borders: the functions whose signs decide the conditions in the equations.
    """

    def __init__(self, unknowns: Mapping[str, Node], equations: Sequence[Node], objective: Node | None = None) -> None:
        self.names, self.leaves = tuple(unknowns), [*unknowns.values()]
        self.equations, self.objective = [*equations], objective
        self.jacobian = simplify(
            [slope for equation in equations for slope in gradient_nodes(with_pairwise_choices(equation), self.leaves)]
        )
        self.enclose = enclosure_function(self.names, self.equations)
        self.enclose_jacobian = enclosure_function(self.names, self.jacobian)
        self.enclose_objective = enclosure_function(self.names, [] if objective is None else [objective])
        self._propagation = Propagation(self.equations)
        self.borders = [*dict.fromkeys(border_functions(self.equations).values())]
        self.enclose_borders = enclosure_function(self.names, self.borders)
        truths = {border: truth_of(k) for k, border in enumerate(self.borders)}
        relaxed = relax(self.equations, truths) if self.borders else None
        self._relaxed_propagation = None if relaxed is None else Propagation(relaxed)

    @classmethod
    def of_objective(cls, unknowns: Mapping[str, Node], objective: Node) -> System:
        """Return the system whose zeros are the stationary points of a function."""
        gradient = gradient_nodes(with_pairwise_choices(objective), [*unknowns.values()])
        return cls(unknowns, simplify(gradient), objective)

    def lower_bounds(self, boxes: Boxes) -> Array:
        """Return lower bounds of the objective on boxes: of the natural enclosure, or of the mean-value form."""
        natural = self.enclose_objective(boxes.lower, boxes.upper)
        slope = self.enclose(boxes.lower, boxes.upper)
        middle = np.clip(boxes.lower / 2 + boxes.upper / 2, boxes.lower, boxes.upper)
        at_middle = self.enclose_objective(middle, middle).lower[0]
        radius = np.maximum(boxes.upper - middle, middle - boxes.lower) * _SLACK
        with np.errstate(all="ignore"):
            change = (np.maximum(np.abs(slope.lower), np.abs(slope.upper)) * radius).sum(axis=0) * _SLACK
            mean = at_middle - change - _EPS * (np.abs(at_middle) + change)
        is_valid = natural.is_continuous[0] & np.isfinite(mean)
        low = np.where(is_valid, np.fmax(natural.lower[0], mean), natural.lower[0])
        return np.asarray(np.where(np.isnan(low), np.inf, low))

    def contract(self, boxes: Boxes) -> Boxes:
        """Return the parts of boxes that may hold zeros, by constraint propagation; empty ones have reversed ends.

        The equations of fixed coordinates are left out. Points where an equation is undefined are not zeros.
        """
        return self._propagate(self._propagation, boxes, {})[0]

    def contract_at_kinks(self, boxes: Boxes, truths: Mapping[str, Intervals]) -> Boxes:
        """Return the parts of boxes that may hold points with 0 in the generalised gradient.

        At a kink the truth of a condition may be any number from 0 to 1, but the same one in all equations.

        Args:
            truths: bounds of the truths, by name; see `truths`.
        """
        if self._relaxed_propagation is None:
            return boxes
        for _ in range(_KINK_PASSES):
            narrowed, truths, is_continuous = self._propagate(self._relaxed_propagation, boxes, truths)
            boxes = boxes.replace(is_continuous & ~boxes.is_empty, narrowed)
        return boxes

    def truths(self, boxes: Boxes) -> dict[str, Intervals]:
        """Return bounds of the truths of all conditions on boxes: 0, 1 or between."""
        border = self.enclose_borders(boxes.lower, boxes.upper)
        ends = enumerate(zip(border.lower, border.upper, strict=True))
        return {truth_of(k).text: Intervals.between(low > 0, ~(high < 0)) for k, (low, high) in ends}

    def _propagate(
        self, propagation: Propagation, boxes: Boxes, truths: Mapping[str, Intervals]
    ) -> tuple[Boxes, dict[str, Intervals], Mask]:
        ends = zip(self.names, boxes.lower, boxes.upper, strict=True)
        is_free = boxes.side == 0
        outputs = [Intervals.between(-bound, bound) for bound in np.where(is_free, 0.0, np.inf)]
        point = {**truths, **{name: Intervals.between(low, high) for name, low, high in ends}}
        point, is_empty, is_continuous = propagation(point, outputs)
        lower, upper = (np.array([point[name][k] for name in self.names]) for k in (0, 1))
        lower, upper = np.where(is_empty, np.inf, lower), np.where(is_empty, -np.inf, upper)
        narrowed = boxes.replace(is_free | is_empty, Boxes(lower, upper, boxes.side))
        return narrowed, {name: point[name] for name in truths}, is_continuous


def enclosure_function(names: Sequence[str], outputs: Sequence[Node]) -> Callable[[Array, Array], Intervals]:
    """Return a function of the ends of boxes, of shape (unknowns, boxes), that encloses outputs in such arrays."""
    tape = Tape(outputs)
    sweep = ForwardPass(tape, INTERVALS)

    def enclose(lower: Array, upper: Array) -> Intervals:
        ends = zip(names, lower, upper, strict=True)
        with np.errstate(all="ignore"):
            values = sweep({name: Intervals.between(low, high) for name, low, high in ends})
        shape = len(tape.outputs), lower.shape[1]
        rows = np.empty(shape), np.empty(shape), np.empty(shape, dtype=bool)
        for k, i in enumerate(tape.outputs):
            for row, part in zip(rows, values[i], strict=True):
                row[k] = part
        return Intervals(*rows)

    return enclose


class Propagation:
    """Constraint propagation over a graph: known bounds of its outputs narrow the intervals of its inputs.

    The intervals of all nodes are computed from the inputs to the outputs. Then the interval of each node narrows the
    intervals of its inputs, from the outputs back (HC4; Benhamou, Goualard, Granvilliers and Puget 1999, "Revising hull
    and box consistency"). In large systems both passes are repeated with the narrowed intervals, because equations
    share nodes (Vu, Schichl and Sam-Haroud 2009, "Interval propagation and search on directed acyclic graphs for
    numerical constraint solving").
    """

    def __init__(self, outputs: Sequence[Node]) -> None:
        self._tape = tape = Tape(outputs)
        self._sweep = ForwardPass(tape, INTERVALS)
        self._passes = _MAX_PASSES if len(outputs) >= _LARGE_SYSTEM else 1
        self._leaves = {node.text: i for i, node in enumerate(tape.nodes) if node.is_input}
        self._steps: list[tuple[int, tuple[int, ...], int, Function]] = []
        reached = {*tape.outputs}  # nodes that must be defined wherever the outputs have such values
        for i in reversed(range(len(tape))):
            node, inputs = tape.nodes[i], tape.inputs[i]
            inverses = INVERSES.get(node.op.name, ()) if node.op is not None and i in reached else ()
            for k in tape.active_inputs[i]:
                if k < len(inverses) and len(inputs) <= 2:
                    self._steps.append((i, inputs, inputs[k], inverses[k]))
                    reached.add(inputs[k])

    def __call__(
        self, point: Mapping[str, Intervals], outputs: Sequence[Intervals]
    ) -> tuple[dict[str, Intervals], Mask, Mask]:
        """Return the narrowed intervals of the inputs, where no point has such outputs, and where all are defined."""
        is_empty = np.asarray(False)
        with np.errstate(all="ignore"):
            values = self._sweep(point)
            is_continuous = functools.reduce(np.logical_and, (values[i].is_continuous for i in self._tape.outputs))
            for i, bounds in zip(self._tape.outputs, outputs, strict=True):
                values[i] = values[i].intersect(bounds)
            for again in range(self._passes):
                for i, function, inputs in self._sweep.steps if again else ():
                    values[i] = values[i].intersect(function(*(values[k] for k in inputs)))
                for i, inputs, j, inverse in self._steps:
                    values[j] = values[j].intersect(inverse(values[i], *(values[k] for k in inputs)))
                    is_empty = is_empty | (values[j].lower > values[j].upper)
        return {**point, **{name: values[i] for name, i in self._leaves.items()}}, is_empty, is_continuous


def truth_of(number: int) -> Node:
    """Return the leaf for the truth of a condition, by the number of its border function in `System.borders`."""
    return variable(f"truth {number}")


def border_functions(equations: Sequence[Node]) -> dict[Node, Node]:
    """Return the conditions and signs in equations, each with the function whose sign decides it."""
    differences = LazyTable(lambda sides: sides[0] - sides[1])  # one node for each pair of sides
    borders: dict[Node, Node] = {}
    for node in topological_order(equations):
        if node.op is sign:
            borders[node] = node.inputs[0]
        elif node.op in _COMPARISONS:
            a, b = node.inputs
            if is_literal(b, 0):
                borders[node] = a.inputs[0] if a.op is div and a.inputs[1].op is abs_ else a  # x/|y| > 0
            else:
                borders[node] = differences[a, b]
    return borders


def relax(equations: Sequence[Node], truths: Mapping[Node, Node]) -> list[Node] | None:
    """Return equations in which conditions are replaced by their truths; None for conditions that are not comparisons.

    Args:
        truths: for functions whose signs decide conditions, whether they are positive: a number from 0 to 1.
    """
    borders = border_functions(equations)
    soft: set[Node] = set()
    failed = False

    def rewrite(node: Node, inputs: tuple[Node, ...]) -> Node:
        nonlocal failed
        result = with_inputs(node, inputs)
        if node in borders and borders[node] in truths:
            truth = truths[borders[node]]
            if node.op is sign:
                return 2 * truth - 1
            soft.add(result := truth if _COMPARISONS[node.operation] > 0 else 1 - truth)
        elif node.op is abs_ and node.inputs[0] in truths:
            return (2 * truths[node.inputs[0]] - 1) * inputs[0]
        elif not soft.isdisjoint(inputs):
            if node.op is where and inputs[0] in soft:
                return inputs[0] * inputs[1] + (1 - inputs[0]) * inputs[2]
            if node.op in (not_, and_):
                soft.add(result := 1 - inputs[0] if node.op is not_ else inputs[0] * inputs[1])
            else:
                failed = True
        return result

    new = rebuild(equations, rewrite)
    return None if failed else [new[equation] for equation in equations]


@dataclass(frozen=True)
class Boxes:
    """An array of boxes.

    Attributes:
        lower, upper: their ends, of shape (unknowns, boxes).
        side: -1 or 1 where a coordinate is fixed to the lower or upper edge of the domain, 0 where it is free, and
            `_CLOSED` where the edges are not separated from the inside yet.
    """

    lower: Array
    upper: Array
    side: Array

    @classmethod
    def empty(cls, size: int) -> Boxes:
        """Return an array of no boxes, with `size` coordinates."""
        return cls(*(np.empty((size, 0)) for _ in range(3)))

    def select(self, which: Any) -> Boxes:
        """Return some of the boxes."""
        return Boxes(self.lower[:, which], self.upper[:, which], self.side[:, which])

    def replace(self, which: Mask, others: Boxes) -> Boxes:
        """Return these boxes, with some replaced by the corresponding ones of others."""
        lower, upper = (np.where(which, *ends) for ends in ((others.lower, self.lower), (others.upper, self.upper)))
        return Boxes(lower, upper, self.side)

    @property
    def is_empty(self) -> Mask:
        """Mask of the boxes that are empty: their ends are reversed."""
        return np.asarray((self.lower > self.upper).any(axis=0))

    def split(self, axis: NDArray[np.intp], position: float) -> tuple[Boxes, Boxes]:
        """Return both parts of each box, cut along an axis at a position that is a part of its width."""
        places = np.arange(len(self))
        low, high = self.lower[axis, places], self.upper[axis, places]
        first, second = self.upper.copy(), self.lower.copy()
        first[axis, places] = second[axis, places] = low + position * (high - low)
        return Boxes(self.lower, first, self.side), Boxes(second, self.upper, self.side)

    def join(self, *others: Boxes) -> Boxes:
        """Return these boxes and others."""
        parts = (self, *others)
        return Boxes(*(np.concatenate([getattr(p, f) for p in parts], axis=1) for f in ("lower", "upper", "side")))

    def __len__(self) -> int:
        return int(self.lower.shape[1])


class NewtonStep:
    """An interval Newton step on each of some boxes; fixed coordinates stay as they are.

    Args:
        system: the equations.
        boxes: the boxes.
        value: the enclosure of the equations on the boxes, if known.

    Attributes:
        lower, upper: the boxes that hold all zeros of the boxes; infinite where nothing is known.
        is_valid: whether the equations are continuous and the Jacobian bounded, so that the step is a proof.
        is_regular: whether the Jacobian is so narrow that inflating the box may give a proof.
        is_hidden: whether the rounding error at the middle exceeds the value of every equation.
        smear: how much the equations change along each coordinate.
    """

    def __init__(self, system: System, boxes: Boxes, value: Intervals | None = None) -> None:
        lower, upper, is_free = boxes.lower, boxes.upper, (boxes.side == 0).T
        value = system.enclose(lower, upper) if value is None else value
        size = len(lower)
        middle = np.clip(lower / 2 + upper / 2, lower, upper)
        radius = (np.maximum(upper - middle, middle - lower) * _SLACK).T
        at_middle, slopes = system.enclose(middle, middle), system.enclose_jacobian(lower, upper)
        is_hidden = (at_middle.contains(0) | (boxes.side != 0)).all(axis=0)
        with np.errstate(all="ignore"):
            centre, error = centre_and_radius(slopes)
            jacobian, jacobian_error = (x.T.reshape(-1, size, size) for x in (centre, error))
            f, f_error = (x.T for x in centre_and_radius(at_middle))
            is_bounded = (slopes.is_bounded.T.reshape(-1, size, size) | ~is_free[:, :, None]).all(axis=(1, 2))
            is_bounded &= ((value.is_continuous & at_middle.is_bounded).T | ~is_free).all(axis=1)
            changes = (np.abs(jacobian) + jacobian_error) * radius[:, None, :]
            smear = np.where(is_bounded[:, None], changes.max(axis=1), 0)
            is_excluded = is_bounded & (
                is_free & (np.abs(f) * (1 - _EPS) > (changes.sum(axis=2) + f_error) * _SLACK)
            ).any(axis=1)
            jacobian = np.where(is_bounded[:, None, None], jacobian, np.eye(size))
            jacobian_error = np.where(is_bounded[:, None, None], jacobian_error, np.inf)
            # The equation of a fixed coordinate is dropped; its width, if its edge is not a float, is an error of the
            # others.
            f_error = f_error + _times(np.abs(jacobian) + jacobian_error, np.where(is_free, 0, radius))
            pair = is_free[:, :, None] & is_free[:, None, :]
            jacobian = np.where(pair, jacobian, np.eye(size))
            jacobian_error = np.where(pair, jacobian_error, 0)
            f, f_error = np.where(is_free, f, 0), np.where(is_free, f_error, 0)
            inverse = inverse_matrices(jacobian)
            size_of_inverse = np.abs(inverse)
            deviation = np.abs(np.eye(size) - inverse @ jacobian) + size_of_inverse @ (
                jacobian_error + size * _EPS * np.abs(jacobian)
            )
            deviation *= _SLACK
            is_regular = is_bounded & (deviation.sum(axis=2) < _MAX_REGULAR_DEVIATION).all(axis=1)
            # Where the Jacobian is nearly singular, a combination of the equations has almost no slope; the row of the
            # inverse with the largest numbers is near it. Its mean-value form excludes more than those of the
            # equations.
            k = np.flatnonzero(is_bounded & ~is_excluded & ~is_regular)
            if k.size:
                largest = np.argmax(size_of_inverse[k].sum(axis=2), axis=1)
                weights = inverse[k, largest][:, None]
                weights = weights / np.abs(weights).max(axis=2, keepdims=True)
                slope = np.abs(weights @ jacobian[k])
                slope += np.abs(weights) @ (jacobian_error[k] + size * _EPS * np.abs(jacobian[k]))
                noise = _times(np.abs(weights), f_error[k] + size * _EPS * np.abs(f[k]))[:, 0]
                size_of_value, change = np.abs(_times(weights, f[k])[:, 0]), (slope[:, 0] * radius[k]).sum(axis=1)
                is_excluded[k] = size_of_value > (change + noise) * _SLACK
                is_hidden[k] |= ~is_excluded[k] & (size_of_value <= noise)
            diagonal = np.diagonal(deviation, axis1=1, axis2=2)
            shift = _times(inverse, f)
            shift_error = _times(size_of_inverse, f_error + size * _EPS * np.abs(f))
            shift_error = (shift_error + _times(np.where(np.eye(size), 0, deviation), radius)) * _SLACK
            low, high = shift - shift_error, shift + shift_error
            low = low / np.where(low < 0, 1 - diagonal, 1 + diagonal)
            high = high / np.where(high > 0, 1 - diagonal, 1 + diagonal)
            margin = _EPS * (np.abs(middle.T) + np.maximum(np.abs(low), np.abs(high))) + 1e-300
            is_solvable = is_bounded[:, None] & (diagonal < 1) & np.isfinite(low) & np.isfinite(high)
            new_lower = np.where(is_solvable, middle.T - high - margin, -np.inf).T
            new_upper = np.where(is_solvable, middle.T - low + margin, np.inf).T
            new_lower, new_upper = np.where(is_free.T, new_lower, lower), np.where(is_free.T, new_upper, upper)
            new_lower, new_upper = np.where(is_excluded, np.inf, new_lower), np.where(is_excluded, np.inf, new_upper)
        self.lower, self.upper, self.smear = new_lower, new_upper, smear.T
        self.is_valid, self.is_regular, self.is_hidden = is_bounded, is_regular & ~is_excluded, is_hidden

    def is_inside(self, boxes: Boxes) -> Mask:
        """Return whether the step leads from boxes into their interior, so that each holds exactly one zero."""
        is_inside = (self.lower > boxes.lower) & (self.upper < boxes.upper) | (boxes.side != 0)
        return np.asarray(is_inside.all(axis=0) & self.is_valid)


def centre_and_radius(x: Intervals) -> tuple[Array, Array]:
    centre = x.lower / 2 + x.upper / 2
    return centre, np.maximum(x.upper - centre, centre - x.lower) * _SLACK


def _times(matrices: Array, vectors: Array) -> Array:
    """Return the products of matrices and vectors, of shapes (boxes, n, n) and (boxes, n); inf times 0 is 0."""
    return np.asarray(np.nan_to_num(matrices * vectors[:, None, :], nan=0.0, posinf=np.inf, neginf=-np.inf).sum(axis=2))


def inverse_matrices(matrices: Array) -> Array:
    """Return approximate inverses; of singular matrices pseudo-inverses."""
    try:
        return np.asarray(np.linalg.inv(matrices))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(matrices))


@dataclass
class Search:
    """A search for all zeros of a system in a box.

    Args:
        system: the system.
        lower, upper: the ends of the domain, of shape (unknowns, 1), rounded outward.
        inner_lower, inner_upper: the ends rounded inward.
        max_boxes: the number of boxes after which the search ends.
        on_progress: receives the number of boxes examined, and of those left to examine: 0 at the end.

    Attributes:
        zeros: boxes each of which holds exactly one zero.
        regions: for each, the wider box in which there is no other zero.
        undecided: boxes that may hold zeros.
        count: the number of boxes examined.
        best: an upper bound of the minimum of the objective.
    """

    system: System
    lower: Array
    upper: Array
    inner_lower: Array
    inner_upper: Array
    max_boxes: int
    on_progress: Callable[[int, int], None] = lambda done, left: None

    def __post_init__(self) -> None:
        size, self.count, self.best = len(self.lower), 0, math.inf
        self._width = self.upper - self.lower
        self.zeros = self.regions = self.undecided = Boxes.empty(size)
        side = 0.0 if self.system.objective is None else _CLOSED
        queue = Boxes(self.lower, self.upper, np.full((size, 1), side))
        while len(queue) and self.count < self.max_boxes:
            batch_size = min(_BATCH, self.max_boxes - self.count)
            if self.system.objective is not None and len(queue) > batch_size:
                # The boxes with the lowest bounds are next, so that the global minimum is narrow if the search is cut.
                low = self.system.enclose_objective(queue.lower, queue.upper).lower[0]
                queue = queue.select(np.argsort(-np.nan_to_num(low, nan=-np.inf, neginf=-np.inf)))
            batch, queue = queue.select(slice(-batch_size, None)), queue.select(slice(None, -batch_size))
            self.count += len(batch)
            queue = queue.join(*self._examine(batch))
            self.on_progress(self.count, len(queue) if self.count < self.max_boxes else 0)
        undecided = self._without_dominated_faces(self.undecided.join(queue))
        self.undecided = replace(undecided, side=np.where(undecided.side == _CLOSED, 0, undecided.side))

    def _examine(self, boxes: Boxes) -> list[Boxes]:
        """Examine boxes: record zeros and undecided boxes, and return the boxes that are left to examine."""
        value = self._enclose_beside(self.system.enclose, boxes)
        if self.system.objective is None:
            is_candidate, is_continuous = value.contains(0).all(axis=0), np.ones(len(boxes), dtype=bool)
        else:
            is_candidate, is_continuous = self._select_candidates(boxes, value)
        is_open = (boxes.side != _CLOSED).all(axis=0)
        faces = self._separate_edges(boxes.select(is_candidate & ~is_open))
        selected = is_candidate & is_open
        boxes, value, is_continuous = boxes.select(selected), value.select(selected), is_continuous[selected]
        if not len(boxes):
            return faces
        is_free = boxes.side == 0
        narrowed = self.system.contract(boxes)
        if self.system.objective is not None:
            # A minimum at a jump or a kink is not a zero of the gradient, so a step must not remove it.
            is_smooth = is_continuous & (value.is_continuous | ~is_free).all(axis=0)
            has_kink = is_continuous & ~is_smooth
            narrowed = boxes.replace(is_smooth, narrowed)
            if has_kink.any() and self.system.borders:
                narrowed = narrowed.replace(has_kink, self.system.contract_at_kinks(boxes, self.system.truths(boxes)))
        is_empty = narrowed.is_empty
        narrowed = narrowed.replace(is_empty, boxes)
        step = NewtonStep(self.system, narrowed, value)
        step.is_valid &= is_continuous
        is_proven = step.is_valid & ~is_empty & self._rises_inward(narrowed, value)
        is_inside = step.is_inside(narrowed) & is_proven
        image = Boxes(np.maximum(narrowed.lower, step.lower), np.minimum(narrowed.upper, step.upper), boxes.side)
        narrowed = narrowed.replace(step.is_valid, image)
        self._record(narrowed.select(is_inside), boxes.select(is_inside))
        is_left = ~(is_empty | narrowed.is_empty | is_inside)
        is_left &= ~self._inflate(boxes, step, is_left & step.is_regular & is_proven)
        is_flat = np.maximum(-value.lower, value.upper) <= (0 if self.system.objective is None else _NEGLIGIBLE_SLOPE)
        is_terminal = (self._is_narrow(boxes) | is_flat).all(axis=0)
        is_terminal |= step.is_hidden & self._is_narrow(boxes, _NOISE_WIDTH, _NOISE_WIDTH).all(axis=0)
        if self.system.objective is not None:
            # Whole curves on faces may be stationary; those that cannot hold the minimum are dropped in the end.
            is_small = self._is_narrow(boxes, 0, _FACE_PART).all(axis=0)
            k = np.flatnonzero(~is_free.all(axis=0) & is_small & is_left & ~is_terminal)
            is_terminal[k] = self.system.lower_bounds(boxes.select(k)) > self.best
        self.undecided = self.undecided.join(narrowed.select(is_left & is_terminal))
        rest = is_left & ~is_terminal
        return [*faces, *self._bisect(narrowed.select(rest), boxes.select(rest), step.smear[:, rest], is_flat[:, rest])]

    def _is_narrow(self, boxes: Boxes, relative: float = _MIN_RELATIVE_WIDTH, part: float = _MIN_DOMAIN_PART) -> Mask:
        """Return which coordinates of boxes are fixed, or narrow relative to their place or as a part of the domain."""
        least = np.maximum(np.abs(boxes.lower / 2 + boxes.upper / 2) * relative, self._width * part)
        return np.asarray((boxes.upper - boxes.lower <= least) | (boxes.side != 0))

    def _separate_edges(self, boxes: Boxes) -> list[Boxes]:
        """Return the parts of boxes on both edges along one coordinate, and inside."""
        places = np.arange(len(boxes))
        axis = np.argmax(boxes.side == _CLOSED, axis=0)
        parts = [replace(boxes, **{f: getattr(boxes, f).copy() for f in ("lower", "upper", "side")}) for _ in range(3)]
        for side, part in zip((-1, 0, 1), parts, strict=True):
            part.side[axis, places] = side
        parts[0].upper[axis, places] = self.inner_lower[axis, 0]
        parts[2].lower[axis, places] = self.inner_upper[axis, 0]
        return parts

    def _without_dominated_faces(self, boxes: Boxes) -> Boxes:
        """Return undecided boxes without those on edges that cannot hold the global minimum."""
        is_fixed = (np.abs(boxes.side) == 1).any(axis=0)
        if not is_fixed.any():
            return boxes
        return boxes.select(~(is_fixed & (self.system.lower_bounds(boxes) > self.best)))

    def _bisect(self, boxes: Boxes, previous: Boxes, smear: Array, is_flat: Mask) -> list[Boxes]:
        """Cut boxes in two where the equations change most; return those as they are that a step has narrowed well."""
        width, is_narrow = boxes.upper - boxes.lower, self._is_narrow(boxes) | is_flat
        with np.errstate(all="ignore"):
            ratio = np.where(is_narrow, 0, width / (previous.upper - previous.lower))
            is_narrowed = np.nanmax(ratio, axis=0, initial=0) < _MIN_NARROWING
        has_smear = np.isfinite(smear).all(axis=0) & (smear > 0).any(axis=0)
        weight = np.where(is_narrow, -1, np.where(has_smear, smear, width / self._width))
        cut, rest = boxes.select(~is_narrowed), boxes.select(is_narrowed)
        return [rest, *cut.split(np.argmax(weight[:, ~is_narrowed], axis=0), _SPLIT_POSITION)]

    def _inflate(self, boxes: Boxes, step: NewtonStep, selected: Mask) -> Mask:
        """Try to prove a zero in inflated boxes; record those inside their box, and return which boxes are decided."""
        is_decided = np.zeros(len(boxes), dtype=bool)
        if not selected.any():
            return is_decided
        regular = boxes.select(selected)
        size = np.maximum(np.abs(regular.lower), np.abs(regular.upper))
        growth = (regular.upper - regular.lower) * _INFLATION + size * _MIN_GROWTH + TINY
        growth = np.where(regular.side == 0, growth, 0)
        lower = np.minimum(regular.lower, step.lower[:, selected]) - growth
        upper = np.maximum(regular.upper, step.upper[:, selected]) + growth
        region = Boxes(lower, upper, regular.side)
        value = self._enclose_beside(self.system.enclose, region)
        second = NewtonStep(self.system, region, value)
        is_inside = second.is_inside(region) & self._rises_inward(region, value)
        if self.system.objective is not None:
            is_inside &= self._enclose_beside(self.system.enclose_objective, region).is_continuous[0]
        zero = Boxes(np.maximum(lower, second.lower), np.minimum(upper, second.upper), regular.side)
        is_in_box = ((zero.upper >= regular.lower) & (zero.lower <= regular.upper)).all(axis=0)
        self._record(zero.select(is_inside & is_in_box), region.select(is_inside & is_in_box))
        is_decided[selected] = is_inside
        return is_decided

    def _record(self, zeros: Boxes, regions: Boxes) -> None:
        self.zeros, self.regions = self.zeros.join(zeros), self.regions.join(regions)

    def _select_candidates(self, boxes: Boxes, slope: Intervals) -> tuple[Mask, Mask]:
        """Return which boxes may hold a stationary point or a minimum, and on which the objective is continuous."""
        objective = self._enclose_beside(self.system.enclose_objective, boxes)
        low, is_continuous = objective.lower[0], objective.is_continuous[0]
        # Values at the middle, and at the corner to which the function falls, bound the minimum from above.
        corner = np.where(slope.upper > -slope.lower, boxes.lower, boxes.upper)
        samples = np.concatenate([boxes.lower / 2 + boxes.upper / 2, corner], axis=1)
        samples = np.clip(samples, self.inner_lower, self.inner_upper)
        sampled = self.system.enclose_objective(samples, samples)
        upper_bounds = np.where(sampled.is_continuous[0], sampled.upper[0], np.inf)
        self.best = min(self.best, float(np.min(upper_bounds, initial=np.inf)))
        rises, falls = slope.lower > 0, slope.upper < 0
        falls_inward = (boxes.side == -1) & falls | (boxes.side == 1) & rises
        is_excluded = np.where(boxes.side == 0, rises | falls, falls_inward).any(axis=0)
        # A discontinuous function may have its minimum anywhere.
        return ~np.isnan(low) & ~(is_excluded & (is_continuous | (low > self.best))), is_continuous

    def _enclose_beside(self, enclose: Callable[[Array, Array], Intervals], boxes: Boxes) -> Intervals:
        """Return the enclosure of a function on boxes, extended by a margin to the inside of their faces.

        If a function or its slope jumps on a face, its value there does not bound the values beside it.
        """
        margin = self._width * _MIN_DOMAIN_PART
        lower = np.where(boxes.side == 1, np.nextafter(boxes.lower - margin, -np.inf), boxes.lower)
        upper = np.where(boxes.side == -1, np.nextafter(boxes.upper + margin, np.inf), boxes.upper)
        return enclose(lower, upper)

    def _rises_inward(self, boxes: Boxes, slope: Intervals) -> Mask:
        """Return on which boxes the objective certainly rises inward along all fixed coordinates."""
        rises = np.where(boxes.side < 0, slope.lower > 0, slope.upper < 0)
        return np.asarray(((boxes.side == 0) | rises).all(axis=0))


# --- Kinds of points ---

_FACE_PARTS = 64  # parts of a face along each coordinate; fewer for many unknowns
_MAX_PARTS = 1000  # parts of a face in total


def kinds_of_points(system: System, lower: Array, upper: Array, side: Array) -> list[str]:
    """Return `minimum`, `maximum`, `saddle` or `degenerate` for boxes, by the signs of the Hessian's eigenvalues there.

    With V of approximate eigenvectors, VᵀHV has eigenvalues of the same signs (Sylvester), and its Gershgorin discs are
    narrow. If none contains 0, then V is regular.

    Args:
        lower, upper: the ends of the boxes, of shape (unknowns, boxes).
        side: 0 for free coordinates; the Hessian is taken with respect to these. Along fixed coordinates, the function
            rises inward.
    """
    size, is_free = len(system.names), (side == 0).T
    slopes = system.enclose_jacobian(lower, upper)
    low, high = (part.T.reshape(-1, size, size) for part in slopes[:2])
    pair = is_free[:, :, None] & is_free[:, None, :]
    is_bounded = (slopes.is_bounded.T.reshape(-1, size, size) | ~pair).all(axis=(1, 2))
    low, high = (np.where(pair & is_bounded[:, None, None], part, np.eye(size)) for part in (low, high))
    centre = low / 2 + high / 2
    error = np.maximum(high - centre, centre - low)
    symmetric = centre / 2 + centre.transpose(0, 2, 1) / 2
    error = np.maximum(error, error.transpose(0, 2, 1)) + np.abs(centre - symmetric)
    vectors = np.linalg.eigh(symmetric)[1]
    product, sizes = vectors.transpose(0, 2, 1) @ symmetric @ vectors, np.abs(vectors)
    error = sizes.transpose(0, 2, 1) @ (error + 4 * size * _EPS * np.abs(symmetric)) @ sizes
    diagonal = np.diagonal(product, axis1=1, axis2=2)
    discs = (np.abs(product).sum(axis=2) - np.abs(diagonal) + error.sum(axis=2)) * (1 + 1e-9)
    is_decided = is_bounded & (np.abs(diagonal) > discs).all(axis=1)
    negative = np.signbit(diagonal).sum(axis=1)
    return [
        "degenerate" if not decided else "minimum" if not n else "maximum" if n == size else "saddle"
        for decided, n in zip(is_decided, negative.tolist(), strict=True)
    ]


def kind_by_surroundings(system: System, value: Number, low: Array, high: Array) -> str:
    """Return `minimum` or `maximum` if the objective is larger, or smaller, on the whole border of a box; else
    `degenerate`.

    Args:
        value: the objective at the only stationary point in the box.
    """
    size = len(low)
    count = min(_FACE_PARTS, max(2, int(_MAX_PARTS ** (1 / max(size - 1, 1)))))
    cells = [*itertools.product(range(count), repeat=size - 1)]
    lowers, uppers = [], []
    for i, end in itertools.product(range(size), (low, high)):
        for cell in cells:
            places = np.insert(np.array(cell, dtype=float), i, 0)
            step = (high - low) / count
            a, b = low + places * step, np.where(places == count - 1, high, low + (places + 1) * step)
            a[i] = b[i] = end[i]
            lowers.append(a)
            uppers.append(b)
    on_border = system.enclose_objective(np.array(lowers).T, np.array(uppers).T)
    least, most = float_bounds(value)
    if (on_border.lower[0] > most).all():
        return "minimum"
    return "maximum" if (on_border.upper[0] < least).all() else "degenerate"

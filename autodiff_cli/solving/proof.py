"""Proofs in ball arithmetic, of what the search has found.

A zero is refined to the working precision and proven by a Krawczyk step: K = p - Y·F(p) + (I - Y·J(B))·(B - p) lies in
the interior of the box B, so B has exactly one zero, and it is in K. Where the Jacobian is singular, so that no such
step can succeed, a zero of one equation may still be proven by exact values of its derivatives.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb, fmpq

from autodiff_cli.algebra.simplify import simplify
from autodiff_cli.array_types import Array
from autodiff_cli.autodiff.sweeps import ForwardPass
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node, is_literal, variable
from autodiff_cli.graph.op import ONE, ZERO
from autodiff_cli.graph.tape import LazyTable, Tape, rebuild, substitute, topological_order, with_inputs
from autodiff_cli.numbers import ball_arithmetic as ball
from autodiff_cli.numbers import balls
from autodiff_cli.numbers.ball_arithmetic import Number
from autodiff_cli.numbers.intervals import ball_between, float_bounds
from autodiff_cli.ops.arithmetic import abs_, and_, div, greater, greater_equal, less, less_equal, not_, sign, where
from autodiff_cli.solving.search import Boxes, Search, System

_FLOAT_STEPS = 6  # of Newton's method in floats
_MAX_STEPS = 4000  # of Newton's method in balls, with an inverse in floats that adds up to 50 bits each
_MAX_MULTIPLICITY = 8
_EPS = 2.0**-48


class BallFunction:
    """Graphs evaluated in balls, at points and over boxes."""

    def __init__(self, names: Sequence[str], outputs: Sequence[Node], bits: int) -> None:
        self._names, self._bits = names, bits
        self._tape = Tape(outputs)
        with balls.interval_arithmetic(bits) as kind:
            self._sweep = ForwardPass(self._tape, kind)

    def __call__(self, point: Sequence[Number]) -> list[Number] | None:
        """Return the outputs; None if one may be undefined, unbounded or discontinuous there."""
        with balls.interval_arithmetic(self._bits):
            balls.reset_jumps()
            values = self._sweep(dict(zip(self._names, point, strict=True)))
            outputs = [values[i] for i in self._tape.outputs]
            return None if balls.has_possible_jump() or not all(map(ball.is_finite, outputs)) else outputs

    def bounds(self, point: Sequence[Number]) -> list[Number]:
        """Return enclosures of the outputs, nan where they may be undefined; they may be discontinuous."""
        with balls.interval_arithmetic(self._bits):
            values = self._sweep(dict(zip(self._names, point, strict=True)))
        return [values[i] for i in self._tape.outputs]


@dataclass(frozen=True)
class Domain:
    """The box of a search.

    Attributes:
        lower, upper: the exact ends for each unknown.
    """

    lower: Sequence[Number]
    upper: Sequence[Number]

    def floats(self) -> tuple[Array, Array, Array, Array]:
        """Return the ends rounded outward, lower and upper, and the same rounded inward, as columns."""
        low, high = ([*map(float_bounds, ends)] for ends in (self.lower, self.upper))
        columns = [[a for a, _ in low], [b for _, b in high], [b for _, b in low], [a for a, _ in high]]
        return tuple(np.array(column).reshape(-1, 1) for column in columns)  # type: ignore[return-value]

    def excludes(self, point: Sequence[Number]) -> bool:
        """Whether an enclosure certainly lies outside."""
        ends = zip(point, self.lower, self.upper, strict=True)
        return any(bool(ball.as_ball(x) < low) or bool(ball.as_ball(x) > high) for x, low, high in ends)

    def is_on_edge(self, point: Sequence[Number]) -> bool:
        """Whether an enclosure reaches an edge."""
        ends = zip(point, self.lower, self.upper, strict=True)
        return any(not (ball.as_ball(x) > low and ball.as_ball(x) < high) for x, low, high in ends)


class Prover:
    """Proves zeros of a system at a working precision."""

    def __init__(self, system: System, domain: Domain, bits: int) -> None:
        self._system, self._domain, self._bits = system, domain, bits
        self._equations = BallFunction(system.names, system.equations, bits)
        self._jacobian = BallFunction(system.names, system.jacobian, bits)

    def prove(self, zeros: Boxes) -> list[list[Number] | None]:
        """Return an enclosure of the zero of each box, which holds one; None where the proof fails.

        A coordinate that is known exactly is a fraction.
        """
        size = len(zeros.lower)
        middle, jacobian = self._approximate(zeros)
        found = []
        for k in range(len(zeros)):
            free = np.flatnonzero(zeros.side[:, k] == 0).tolist()
            start = [
                ball.from_float(middle[i, k].item())
                if i in free
                else (self._domain.lower if zeros.side[i, k] < 0 else self._domain.upper)[i]
                for i in range(size)
            ]
            widths = (zeros.upper[:, k] - zeros.lower[:, k]).tolist()
            try:
                inverse = np.linalg.inv(jacobian[k][np.ix_(free, free)]).tolist()
            except np.linalg.LinAlgError:
                inverse = None
            found.append(None if inverse is None else self._refine(start, free, inverse, widths))
        return found

    def _approximate(self, zeros: Boxes) -> tuple[Array, Array]:
        """Return the zeros in boxes as floats, and the Jacobian at each, by Newton's method."""
        size = len(zeros.lower)
        point = zeros.lower / 2 + zeros.upper / 2
        jacobian: Array = np.empty(0)
        is_free = (zeros.side == 0).T
        for _ in range(_FLOAT_STEPS):
            point = np.clip(point, zeros.lower, zeros.upper)
            value, slopes = self._system.enclose(point, point), self._system.enclose_jacobian(point, point)
            f = np.where(is_free, (value.lower / 2 + value.upper / 2).T, 0)
            jacobian = (slopes.lower / 2 + slopes.upper / 2).T.reshape(-1, size, size)
            pair = is_free[:, :, None] & is_free[:, None, :]
            jacobian = np.nan_to_num(np.where(pair, jacobian, np.eye(size)), posinf=0, neginf=0)
            try:
                point = point - np.nan_to_num(np.linalg.solve(jacobian, f[:, :, None])[:, :, 0].T)
            except np.linalg.LinAlgError:
                break
        return np.clip(point, zeros.lower, zeros.upper), jacobian

    def _refine(
        self, point: list[Number], free: Sequence[int], inverse: list[list[float]], widths: Sequence[float]
    ) -> list[Number] | None:
        """Return the enclosure of the zero near a point, or None.

        Args:
            point: the point.
            free: the coordinates that are not fixed.
            inverse: the approximate inverse of the Jacobian, over the free coordinates.
            widths: the widths of the box in which the zero was found.
        """
        if not free:
            return point
        size = len(free)
        steps = 0
        point = [*point]
        with ball.working_precision(self._bits):
            weights = [[arb(x) for x in row] for row in inverse]
            last = math.inf
            while steps < _MAX_STEPS:
                value = self._equations(point)
                if value is None:
                    return None
                shifts = [sum(weights[i][j] * value[free[j]] for j in range(size)) for i in range(size)]
                for i, k in enumerate(free):
                    point[k] = arb((ball.as_ball(point[k]) - shifts[i]).mid())
                steps += 1
                moved = max(
                    float(abs(shift).mid()) / (abs(float(ball.as_ball(point[k]).mid())) + widths[k] + 1e-300)
                    for shift, k in zip(shifts, free, strict=True)
                )
                if moved <= 2.0 ** -(self._bits - 12) or (moved < 1e-12 and moved > last / 16):
                    break
                last = moved
            value = self._equations(point)
            if value is None:
                return None
            shifts = [sum(weights[i][j] * value[free[j]] for j in range(size)) for i in range(size)]
            radii = [
                arb((2 * abs(shifts[i])).upper())
                + (abs(ball.as_ball(point[k])) + arb(widths[k])) * arb(2) ** (16 - self._bits)
                for i, k in enumerate(free)
            ]
            box = [*point]
            for i, k in enumerate(free):
                box[k] = ball.as_ball(point[k]) + arb(0, radii[i].upper())
            slopes = self._jacobian.bounds(box)
            if self._equations(box) is None or not all(map(ball.is_finite, slopes)):
                return None
            total = len(point)
            enclosure = [*point]
            for i, k in enumerate(free):
                image = ball.as_ball(point[k]) - shifts[i]
                for j, m in enumerate(free):
                    product = sum(weights[i][h] * slopes[free[h] * total + m] for h in range(size))
                    image += ((1 if i == j else 0) - product) * arb(0, radii[j].upper())
                if not (image > box[k].lower() and image < box[k].upper()):
                    return None
                enclosure[k] = image
            exact = self._exact_zero(point, free)
            is_here = exact is not None and all(ball.as_ball(box[k]).contains(exact[k]) for k in free)
            return exact if is_here else enclosure

    def _exact_zero(self, point: Sequence[Number], free: Sequence[int]) -> list[Number] | None:
        """Return the nearest point of floats, if it is exactly a zero."""
        candidate = [*point]
        for k in free:
            nearest = ball.nearest_float(point[k])
            candidate[k] = ball.from_float(nearest if abs(nearest) > 1e-25 else 0.0)
        value = self._equations(candidate)
        return candidate if value is not None and all(value[k] == 0 for k in free) else None


def prove_multiple_zero(leaf: Node, equation: Node, low: float, high: float, bits: int) -> list[Number] | None:
    """Return the only zero of one equation in an interval, where its first derivatives vanish too; None if not proven.

    If F, F', …, F⁽ᵏ⁻¹⁾ are exactly 0 at p and F⁽ᵏ⁾ has no zero in the interval, then F(x) = F⁽ᵏ⁾(ξ)·(x - p)ᵏ/k!, which
    is 0 at p only.
    """
    point = [simplest_number(low, high)]
    derivative = equation
    for order in range(_MAX_MULTIPLICITY):
        function = BallFunction([leaf.text], [derivative], bits)
        over, value = function([ball_between(low, high)]), function(point)
        if over is not None and order and not ball.as_ball(over[0]).contains(0):
            return point
        if over is None or value is None or not value[0] == 0:  # noqa: SIM201 - a ball
            return None
        (derivative,) = simplify(gradient_nodes(derivative, [leaf]))
    return None


def simplest_number(low: float, high: float) -> Number:
    """Return a fraction in an interval with a denominator that is nearly as small as possible."""
    middle = Fraction(low) / 2 + Fraction(high) / 2
    for exponent in range(40):
        simple = middle.limit_denominator(2**exponent)
        if low <= simple <= high:
            return fmpq(simple.numerator, simple.denominator)
    return ball.from_float(low)


def kinds_of_points(system: System, lower: Array, upper: Array, side: Array) -> list[str]:
    """Return `minimum`, `maximum`, `saddle` or `degenerate` for boxes, by the signs of the Hessian's eigenvalues there.

    With V of approximate eigenvectors, VᵀHV has eigenvalues of the same signs (Sylvester), and its Gershgorin discs are
    narrow. If none contains 0, then V is regular.

    Args:
        lower, upper: the ends of the boxes, of shape (unknowns, boxes).
        side: 0 for the coordinates that are free; the Hessian is that with respect to these.
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
    negative = (diagonal < 0).sum(axis=1)
    return [
        "degenerate" if not decided else "minimum" if not n else "maximum" if n == free else "saddle"
        for decided, n, free in zip(is_decided, negative.tolist(), is_free.sum(axis=1).tolist(), strict=True)
    ]


# --- Kinks ---

_MAX_SWITCHES = 3  # conditions that change in a box; each makes three systems
_KINK_BOXES = 200  # of the search in each system
_FACE_PARTS = 64  # parts of a face along each coordinate, but for more unknowns fewer
_MAX_PARTS = 1000  # of a face
_COMPARISONS = {greater: 1, greater_equal: 1, less: -1, less_equal: -1}


def kink_points(system: System, low: Array, high: Array, bits: int) -> list[list[Number]] | None:
    """Return the points of a small box where 0 is in the generalised gradient; None if that cannot be proven.

    Each condition of the gradient that changes in the box is true, false, or at its border. There its truth is replaced
    by an unknown between 0 and 1, and the border is one more equation. Each combination is a smooth system. Together
    their zeros are all points where a mean of the slopes on the sides of the kinks is 0.
    """
    conditions = _changing_conditions(system, low, high)
    borders = [*dict.fromkeys(conditions.values())]
    if not 0 < len(borders) <= _MAX_SWITCHES:
        return None
    names = [f"switch {k}" for k in range(len(borders))]
    truths = [variable(name) for name in names]
    truth_of = dict(zip(borders, truths, strict=True))
    relaxed = _relax(system.equations, {node: truth_of[border] for node, border in conditions.items()})
    if relaxed is None:
        return None
    found: list[list[Number]] = []
    width = np.maximum(high - low, np.abs(high) * 1e-12 + 1e-300)
    for states in itertools.product((-1, 0, 1), repeat=len(borders)):
        active = [k for k, state in enumerate(states) if not state]
        known = {truths[k]: ONE if state > 0 else ZERO for k, state in enumerate(states) if state}
        unknowns = dict(zip(system.names, system.leaves, strict=True)) | {names[k]: truths[k] for k in active}
        part = System(unknowns, substitute(relaxed, known) + [borders[k] for k in active])
        lower, upper = (
            np.array([*side, *[end] * len(active)]).reshape(-1, 1)
            for side, end in ((low - width, 0.0), (high + width, 1.0))
        )
        result = Search(part, lower, upper, lower, upper, _KINK_BOXES).run()
        proven = Prover(part, Domain([], []), bits).prove(result.zeros)
        if len(result.undecided):
            return None
        side_of = BallFunction(system.names, [borders[k] for k, state in enumerate(states) if state], bits)
        for enclosure in proven:
            if enclosure is None:
                return None
            point, weights = enclosure[: len(low)], [ball.as_ball(x) for x in enclosure[len(low) :]]
            sides = zip(side_of.bounds(point), [state for state in states if state], strict=True)
            directed = [ball.as_ball(side) * state for side, state in sides]
            if any(x < 0 for x in directed) or any(x < 0 or x > 1 for x in weights):
                continue
            if not (all(x > 0 for x in directed) and all(x > 0 and x < 1 for x in weights)):
                return None
            if not any(overlap(point, other) for other in found):
                found.append(point)
    return found


def overlap(a: Sequence[Number], b: Sequence[Number]) -> bool:
    """Whether two enclosures overlap. If each holds exactly one zero of a region around it, it is the same zero."""
    return all(ball.as_ball(x).overlaps(ball.as_ball(y)) for x, y in zip(a, b, strict=True))


def _changing_conditions(system: System, low: Array, high: Array) -> dict[Node, Node]:
    """Return the conditions and signs that change in a box, each with the function whose sign decides it."""
    differences = LazyTable(lambda sides: sides[0] - sides[1])  # one node for each pair of sides
    borders: dict[Node, Node] = {}
    for node in topological_order(system.equations):
        if node.op is sign:
            borders[node] = node.inputs[0]
        elif node.op in _COMPARISONS:
            a, b = node.inputs
            if a.op is div and a.inputs[1].op is abs_ and a.inputs[1].inputs[0] is a.inputs[0]:
                borders[node] = a.inputs[0]  # x/|x| > 0
            else:
                borders[node] = a if is_literal(b, 0) else differences[a, b]
    if not borders:
        return {}
    values = system.function([*borders.values()])(low.reshape(-1, 1), high.reshape(-1, 1))
    return {
        node: border
        for (node, border), is_open in zip(borders.items(), values.contains(0)[:, 0], strict=True)
        if is_open
    }


def _relax(equations: Sequence[Node], truths: Mapping[Node, Node]) -> list[Node] | None:
    """Return equations with conditions replaced by their truths, numbers from 0 to 1; None for other conditions."""
    soft: set[Node] = set()
    failed = False

    def rewrite(node: Node, inputs: tuple[Node, ...]) -> Node:
        nonlocal failed
        result = with_inputs(node, inputs)
        if node in truths:
            if node.op is sign:
                return 2 * truths[node] - 1
            soft.add(result := truths[node] if _COMPARISONS[node.operation] > 0 else 1 - truths[node])
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

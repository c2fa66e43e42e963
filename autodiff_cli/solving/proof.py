"""Proofs in ball arithmetic, of what the search has found.

A zero is refined to the working precision and proven by a Krawczyk step: K = p - Y·F(p) + (I - Y·J(B))·(B - p) lies in
the interior of the box B, so B has exactly one zero, and it is in K. Where the Jacobian is singular, so that no such
step can succeed, a zero of one equation may still be proven by exact values of its derivatives.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from flint import arb, fmpq, fmpq_poly

from autodiff_cli.algebra.exact import literal_value
from autodiff_cli.algebra.simplify import simplify
from autodiff_cli.array_types import Array
from autodiff_cli.autodiff.sweeps import ForwardPass
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node, constant, is_literal
from autodiff_cli.graph.op import ONE, ZERO, Op
from autodiff_cli.graph.tape import LazyTable, Tape, substitute, topological_order
from autodiff_cli.numbers import ball_arithmetic as ball
from autodiff_cli.numbers import balls
from autodiff_cli.numbers.ball_arithmetic import Number
from autodiff_cli.numbers.intervals import Intervals, ball_between, float_bounds
from autodiff_cli.ops.arithmetic import abs_, add, div, mul, neg, sub
from autodiff_cli.ops.elementary import cbrt, pow_, sqrt, square
from autodiff_cli.solving.search import Boxes, Search, System, relax, truth_of

_FLOAT_STEPS = 6  # of Newton's method in floats
_MAX_STEPS = 4000  # of Newton's method in balls, with an inverse in floats that adds up to 50 bits each
_MAX_MULTIPLICITY = 8
_MAX_SYSTEMS = 16  # of factors of the equations
_MAX_DEGREE = 64  # of polynomials whose multiple zeros are made simple
_EPS = 2.0**-48
_SAME_ZEROS = (neg, abs_, square, sqrt, cbrt)
_POLYNOMIAL_OPERATIONS: dict[Op | None, Callable[..., fmpq_poly | None]] = {
    add: operator.add, sub: operator.sub, mul: operator.mul, neg: operator.neg, square: lambda x: x * x,
    div: lambda x, y: x / y[0] if y.degree() == 0 else None,
}  # fmt: skip


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
        if not len(zeros):
            return []
        size = len(zeros.lower)
        middle, jacobian = self._approximate(zeros)
        enclosures: list[list[Number] | None] = []
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
            enclosures.append(None if inverse is None else self._refine(start, free, inverse, widths))
        return enclosures

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
        point = [*point]
        with ball.working_precision(self._bits):
            weights = [[arb(x) for x in row] for row in inverse]

            def newton_shifts() -> list[arb] | None:
                value = self._equations(point)
                return value and [sum(w * value[k] for w, k in zip(row, free, strict=True)) for row in weights]

            last = math.inf
            for _ in range(_MAX_STEPS):
                if (shifts := newton_shifts()) is None:
                    return None
                for shift, k in zip(shifts, free, strict=True):
                    point[k] = arb((ball.as_ball(point[k]) - shift).mid())
                change = max(
                    float(abs(shift).mid()) / (abs(float(ball.as_ball(point[k]).mid())) + widths[k] + 1e-300)
                    for shift, k in zip(shifts, free, strict=True)
                )
                if change <= 2.0 ** -(self._bits - 12) or (change < 1e-12 and change > last / 16):
                    break
                last = change
            if (shifts := newton_shifts()) is None:
                return None
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
                    product = sum(w * slopes[h * total + m] for w, h in zip(weights[i], free, strict=True))
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


def factor_systems(equations: Sequence[Node], leaves: Sequence[Node]) -> dict[tuple[Node, ...], list[Node]]:
    """Return systems without evident multiple zeros, whose zeros together are those of the equations.

    A product is 0 where a factor is, and a power where its base is. With one unknown, a polynomial with rational
    coefficients is divided by its common divisor with its derivative, so that it has simple zeros only.

    Returns:
        for each system the functions that must be defined at its zeros.
    """
    choices = [_factors(equation) for equation in equations]
    if math.prod(map(len, choices)) > _MAX_SYSTEMS:
        choices = [[(equation, [])] for equation in equations]
    systems: dict[tuple[Node, ...], list[Node]] = {}
    for choice in itertools.product(*choices):
        factors = [factor for factor, _ in choice]
        system = (_squarefree(factors[0], leaves[0]),) if len(leaves) == 1 else tuple(factors)
        systems.setdefault(system, [node for _, others in choice for node in others])
    return systems


def _factors(node: Node) -> list[tuple[Node, list[Node]]]:
    """Return the factors that make a function 0, each with the functions that must be defined there."""
    factors: list[tuple[Node, list[Node]]] = []
    stack: list[tuple[Node, list[Node]]] = [(node, [])]
    while stack:
        factor, others = stack.pop()
        inputs = factor.inputs
        exponent = literal_value(inputs[1]) if factor.op is pow_ else None
        is_positive_power = exponent is not None and exponent > 0
        if factor.op in _SAME_ZEROS or is_positive_power or (factor.op is sub and is_literal(inputs[1], 0)):
            stack.append((inputs[0], others))
        elif factor.op is mul:
            stack += [(inputs[1], [*others, inputs[0]]), (inputs[0], [*others, inputs[1]])]
        elif factor.op is div:
            stack.append((inputs[0], [*others, ONE / inputs[1]]))
        else:
            factors.append((factor, others))
        if len(factors) + len(stack) > _MAX_SYSTEMS:
            return [(node, [])]
    return factors


def _squarefree(equation: Node, leaf: Node) -> Node:
    """Return a polynomial with the same zeros, all simple; other functions and polynomials without multiple zeros as
    they are."""
    polynomials: dict[Node, fmpq_poly] = {leaf: fmpq_poly([0, 1])}
    for node in topological_order([equation]):
        number, operation = literal_value(node), _POLYNOMIAL_OPERATIONS.get(node.op)
        if number is not None:
            polynomials[node] = fmpq_poly([fmpq(number.numerator, number.denominator)])
        elif node is not leaf:
            inputs = [polynomials.get(x) for x in node.inputs]
            result = operation(*inputs) if operation and all(x is not None for x in inputs) else None
            if result is None or result.degree() > _MAX_DEGREE:
                return equation
            polynomials[node] = result
    polynomial = polynomials[equation]
    common = polynomial.gcd(polynomial.derivative()) if polynomial else polynomial
    if common.degree() < 1:
        return equation
    coefficients = [
        constant(str(abs(c.p))) / constant(str(c.q)) * (1 if c >= 0 else -1) for c in (polynomial // common).coeffs()
    ]
    return functools.reduce(lambda value, c: value * leaf + c, coefficients[::-1])


def _power(base: fmpq_poly, exponent: fmpq_poly) -> fmpq_poly | None:
    number = exponent[0]
    is_small = exponent.degree() < 1 and number.q == 1 and 0 <= number * max(1, base.degree()) <= _MAX_DEGREE
    return base ** int(number.p) if is_small else None


_POLYNOMIAL_OPERATIONS[pow_] = _power


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


class KinkProver:
    """Finds the points of small boxes where 0 is in the generalised gradient.

    Each condition of the gradient that changes in a box is true, false, or at its border. There its truth is replaced
    by an unknown between 0 and 1, and the border is one more equation. Each combination is a smooth system. Together
    their zeros are all points where a mean of the slopes on the sides of the kinks is 0.
    """

    def __init__(self, system: System, bits: int) -> None:
        self._system, self._bits = system, bits
        self._parts = LazyTable(self._smooth_part)

    def prove(self, low: Array, high: Array) -> list[list[Number]] | None:
        """Return these points of a box; None if that cannot be proven."""
        if not self._system.borders:
            return None
        values = self._system.enclose_borders(low.reshape(-1, 1), high.reshape(-1, 1))
        borders = [k for k, changes in enumerate(values.contains(0)[:, 0]) if changes]
        if not 0 < len(borders) <= _MAX_SWITCHES:
            return None
        points: list[list[Number]] = []
        width = np.maximum(high - low, np.abs(high) * 1e-12 + 1e-300)
        for states in self._possible_states(borders, low - width, high + width):
            part = self._parts[(*borders,), states]
            if part is None:
                return None
            lower, upper = (
                np.array([*side, *[end] * part.truths]).reshape(-1, 1)
                for side, end in ((low - width, 0.0), (high + width, 1.0))
            )
            result = Search(part.system, lower, upper, lower, upper, _KINK_BOXES).run()
            if len(result.undecided):
                return None
            for enclosure in part.prover.prove(result.zeros):
                if enclosure is None:
                    return None
                point, weights = enclosure[: len(low)], [ball.as_ball(x) for x in enclosure[len(low) :]]
                sides = zip(part.sides.bounds(point), part.signs, strict=True)
                directed = [ball.as_ball(side) * sign for side, sign in sides]
                if any(x < 0 for x in directed) or any(x < 0 or x > 1 for x in weights):
                    continue
                if not (all(x > 0 for x in directed) and all(x > 0 and x < 1 for x in weights)):
                    return None
                if not any(overlap(point, other) for other in points):
                    points.append(point)
        return points

    def _possible_states(self, borders: Sequence[int], low: Array, high: Array) -> list[tuple[int, ...]]:
        """Return the combinations of true (1), false (-1) and at the border (0) that constraint propagation allows."""
        states = [*itertools.product((-1, 0, 1), repeat=len(borders))]
        boxes = Boxes(*(np.repeat(end.reshape(-1, 1), len(states), axis=1) for end in (low, high, np.zeros_like(low))))
        truths = self._system.truths(boxes)
        for k, state in zip(borders, np.array(states).T, strict=True):
            truths[truth_of(k).text] = Intervals.between(state > 0, state >= 0)
        is_empty = self._system.contract_at_kinks(boxes, truths).is_empty
        return [state for state, is_excluded in zip(states, is_empty, strict=True) if not is_excluded]

    def _smooth_part(self, key: tuple[Sequence[int], Sequence[int]]) -> _SmoothPart | None:
        """Return the smooth system of some states of the conditions that change, by their numbers."""
        changing, states = key
        system, borders = self._system, [self._system.borders[k] for k in changing]
        truths = [truth_of(k) for k in changing]
        relaxed = relax(system.equations, dict(zip(borders, truths, strict=True)))
        if relaxed is None:
            return None
        constants = {t: ONE if state > 0 else ZERO for t, state in zip(truths, states, strict=True) if state}
        active = {truth.text: truth for truth, state in zip(truths, states, strict=True) if not state}
        edges = [border for border, state in zip(borders, states, strict=True) if not state]
        unknowns = dict(zip(system.names, system.leaves, strict=True)) | active
        smooth = System(unknowns, substitute(relaxed, constants) + edges)
        sides = BallFunction(system.names, [b for b, s in zip(borders, states, strict=True) if s], self._bits)
        signs = [state for state in states if state]
        return _SmoothPart(smooth, Prover(smooth, Domain([], []), self._bits), sides, signs, len(active))


class _SmoothPart(NamedTuple):
    """A smooth system of `KinkProver`: some conditions are at their border, the others true or false.

    Attributes:
        system: the gradient and the borders, in the unknowns and the truths of the conditions at their border.
        prover: proves its zeros.
        sides: the functions whose signs decide the other conditions.
        signs: these signs.
        truths: the number of conditions at their border.
    """

    system: System
    prover: Prover
    sides: BallFunction
    signs: list[int]
    truths: int


def overlap(a: Sequence[Number], b: Sequence[Number]) -> bool:
    """Whether two enclosures overlap. If each holds exactly one zero of a region around it, it is the same zero."""
    return all(ball.as_ball(x).overlaps(ball.as_ball(y)) for x, y in zip(a, b, strict=True))


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

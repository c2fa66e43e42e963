"""Proofs, in ball arithmetic, of the zeros that the search finds.

A zero is refined to the working precision and proven by an interval Newton step: N = p - J(B)⁻¹·F(p), with p in B, lies
in the interior of the box B, so B has exactly one zero, and it is in N. Where the Jacobian is singular, so that no such
step can succeed, a zero of one equation may still be proven by exact values of its derivatives.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from flint import arb, arb_mat, fmpq, fmpq_mat, fmpq_poly, fmpz, fmpz_mat

from autodiff_cli.algebra.exact import literal_value
from autodiff_cli.algebra.simplify import simplify
from autodiff_cli.array_types import Array
from autodiff_cli.autodiff.arbitrary_precision import BallFunction
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import ONE, ZERO, Node, Op, constant, is_literal, variable
from autodiff_cli.graph.tape import LazyTable, substitute, topological_order
from autodiff_cli.numbers import ball_arithmetic as ball
from autodiff_cli.numbers import balls
from autodiff_cli.numbers.ball_arithmetic import Number, float_bounds
from autodiff_cli.numbers.intervals import Intervals
from autodiff_cli.ops.arithmetic import abs_, add, div, mul, neg, sub
from autodiff_cli.ops.functions import cbrt, cos, exp, pow_, sin, sqrt, square, tan
from autodiff_cli.solving import search

_FLOAT_STEPS = 40  # steps of Newton's method in floats
_FLOAT_PRECISION = 2.0**-46  # relative length of the step at which it ends
_SPARE_BITS = 12  # bits of the working precision beyond those of a refined zero, for rounding errors
_LOSS = 70  # most bits of the working precision that a refined zero may lack, if its equations are ill-conditioned
_NEGLIGIBLE = arb("1e-2000")  # the size of a coordinate that gets no more digits; it may be 0
_MAX_STEPS = 100  # steps of Newton's method in balls, each of which doubles the digits in the end
_MAX_MULTIPLICITY = 8  # multiplicity of zeros of one equation that is tried
_MAX_MULTIPLICITY_OF_SYSTEMS = 4  # lower, because derivatives along curves are long formulas
_MIN_SINGULAR_VALUE = 1e-6  # relative; a Jacobian with two smaller ones has two directions without a slope
_CURVE_STEPS = 8  # attempts to enclose the curve in a wider box
_DIRECTION_STEPS = 40  # bisections of the cube of directions
_MAX_DIRECTIONS = 4000  # parts of the cube of directions
_RELATION_GUARD = 16  # bits of a number that are not used in the search for an integer relation
_EXACT_BITS = 128  # working precision at which a number is recognised as a fraction
_MAX_SYSTEMS = 16  # systems of factors of the equations that are solved
_MAX_DEGREE = 64  # degree of polynomials whose multiple zeros are made simple
_SAME_ZEROS = (neg, abs_, square, sqrt, cbrt)
_POLYNOMIAL_OPERATIONS: dict[Op | None, Callable[..., fmpq_poly | None]] = {
    add: operator.add, sub: operator.sub, mul: operator.mul, neg: operator.neg, square: lambda x: x * x,
    div: lambda x, y: x / y[0] if y.degree() == 0 else None,
}  # fmt: skip


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


def _newton_shifts(slopes: Sequence[Number], values: Sequence[Number]) -> list[arb] | None:
    """Return an enclosure of the solutions of linear equations, J·shift = F; None where J may be singular.

    Args:
        slopes: the elements of J, row by row.
        values: the elements of F.
    """
    size = len(values)
    matrix, column = arb_mat(size, size, [*map(ball.as_ball, slopes)]), arb_mat(size, 1, [*map(ball.as_ball, values)])
    try:
        return list(matrix.solve(column, algorithm="precond").entries())
    except ZeroDivisionError:
        return None


class Prover:
    """Proves zeros of a system, and refines them to a relative error of 2^(spare_bits - bits)."""

    def __init__(self, system: search.System, domain: Domain, bits: int, spare_bits: int = _SPARE_BITS) -> None:
        self._system, self._domain, self._bits, self._error = system, domain, bits, arb(2) ** (spare_bits - bits)
        self._equations = BallFunction(system.names, system.equations, bits)
        self._jacobian = BallFunction(system.names, system.jacobian, bits)

    def prove(self, zeros: search.Boxes) -> list[list[Number] | None]:
        """Return an enclosure of the only zero in each box; None where the proof fails.

        A coordinate that is known exactly is a fraction.
        """
        edges = {-1: self._domain.lower, 1: self._domain.upper}
        enclosures: list[list[Number] | None] = []
        with ball.working_precision(self._bits):
            for middle, sides in zip(self._float_zeros(zeros).T.tolist(), zeros.side.T.tolist(), strict=True):
                point = [edges[s][i] if s else arb(x) for i, (x, s) in enumerate(zip(middle, sides, strict=True))]
                enclosures.append(self._enclosure(point, [i for i, side in enumerate(sides) if not side]))
        return enclosures

    def _float_zeros(self, zeros: search.Boxes) -> Array:
        """Return points near the zeros in boxes, by Newton's method in floats."""
        size, is_free = len(zeros.lower), (zeros.side == 0).T
        pair = is_free[:, :, None] & is_free[:, None, :]
        point = zeros.lower / 2 + zeros.upper / 2
        for _ in range(_FLOAT_STEPS):
            ends = np.where(is_free.T, point, [zeros.lower, zeros.upper])
            value, slopes = (
                (x.lower / 2 + x.upper / 2).T
                for x in (self._system.enclose(*ends), self._system.enclose_jacobian(point, point))
            )
            jacobian = slopes.reshape(-1, size, size)
            inverse = search.inverse_matrices(np.where(pair & np.isfinite(jacobian), jacobian, np.eye(size)))
            step = np.nan_to_num(inverse @ np.where(is_free, value, 0)[:, :, None])[:, :, 0].T
            if (np.abs(step) <= np.abs(point) * _FLOAT_PRECISION).all():
                break
            point = np.clip(point - step, zeros.lower, zeros.upper)
        return point

    def _enclosure(self, point: list[Number], free: Sequence[int]) -> list[Number] | None:
        """Return an enclosure of the zero near a point; None where the proof fails, and where it stays wide.

        An interval Newton step (p - J(B)⁻¹·F(p), for p in the middle of a box B) into the interior of the box proves
        that this has exactly one zero. Until then, the box moves to the image.

        Args:
            point: the point.
            free: the coordinates that are not fixed.
        """
        box, scale, largest = [*point], {k: arb(0) for k in free}, arb(0)
        for k in free:
            box[k] = point[k] + arb(0, (abs(point[k]) * _FLOAT_PRECISION + search.TINY).upper())
        is_proven = not free
        for _ in range(_MAX_STEPS if free else 0):
            value, slopes = self._equations(point), self._jacobian.bounds(box)
            rates = [slopes[h * len(box) + m] for h in free for m in free]
            if value is None or self._equations(box) is None or not all(map(ball.is_finite, rates)):
                return None
            if (shifts := _newton_shifts(rates, [value[k] for k in free])) is None:
                return None
            images = {k: point[k] - shift for k, shift in zip(free, shifts, strict=True)}
            is_inside = all(box[k].contains_interior(image) for k, image in images.items())
            if is_proven and not is_inside:
                break  # more steps give no more digits
            for k, image in images.items():
                scale[k] = scale[k] if is_proven else abs(point[k]) + box[k].rad()
                # The next shift is about the square of this one; a box as wide as this one may hold other zeros.
                wide = abs(image - point[k]) / 8 + 4 * image.rad() + (abs(point[k]) + box[k].rad()) * self._error / 2**8
                width = image.rad() if is_inside else wide.upper()
                point[k] = image.mid()
                box[k] = point[k] + arb(0, width)
            is_proven, largest = is_inside, max((box[k].rad() / scale[k]).upper() for k in free)
            if is_proven and all(box[k].rad() <= self._error * (abs(point[k]) + _NEGLIGIBLE) for k in free):
                break
        exact = self._exact_zero(box, free)
        return exact or (box if is_proven and largest < arb(2) ** (_LOSS - self._bits) else None)

    def _exact_zero(self, enclosure: Sequence[Number], free: Sequence[int]) -> list[Number] | None:
        """Return the point of floats in an enclosure, if it is exactly a zero."""
        candidate = [*enclosure]
        for k in free:
            nearest = ball.nearest_float(enclosure[k])
            candidate[k] = ball.from_float(nearest if abs(nearest) > 1e-25 else 0.0)
            if not enclosure[k].contains(candidate[k]):
                return None
        value = self._equations(candidate)
        return candidate if value is not None and all(value[k] == 0 for k in free) else None


class SingularZeros(NamedTuple):
    """The zeros of a system in a box where its Jacobian may be singular.

    Attributes:
        lower, upper: the ends of the box.
        points: the zeros; or, if `error` is not 0, the only place where there may be some.
        error: a bound of the equations there; 0 if it is proven which zeros there are.
        is_kink: whether the slopes jump there, and these points are zeros of means of them.
    """

    lower: Array
    upper: Array
    points: list[list[Number]]
    error: float = 0.0
    is_kink: bool = False


def prove_singular_zeros(system: search.System, low: Array, high: Array, bits: int) -> SingularZeros | None:
    """Return the zeros in a box where the rank of the Jacobian may be one less than full; None if not decided.

    All equations but F = 0 describe a curve, which has one point for each number t along an axis. Its direction v
    consists of minors of the Jacobian; let D = v·∇. If F, DF, …, Dᵐ⁻¹F are 0 at a point of the curve, and DᵐF has no
    zero in the box, then Dᵐ⁻¹F is monotone along the curve, and F has no other zero there (as in the reduction of
    Lyapunov and Schmidt). Whether they are 0 is known if the coordinates are in a field of exact numbers. If F has an
    extremum there that is not 0, F has two zeros beside it, or none.
    """
    size, names, leaves = len(low), system.names, system.leaves
    middle = (low / 2 + high / 2).reshape(-1, 1)
    slopes = system.enclose_jacobian(middle, middle)
    matrix = (slopes.lower / 2 + slopes.upper / 2).reshape(size, size)
    if not np.isfinite(matrix).all():
        return None
    left, sizes, right = np.linalg.svd(matrix)
    if size > 1 and sizes[-2] <= _MIN_SINGULAR_VALUE * sizes[0]:
        return None
    row, axis = int(np.argmax(np.abs(left[:, -1]))), int(np.argmax(np.abs(right[-1])))
    rows, free = ([i for i in range(size) if i != k] for k in (row, axis))
    box = _box_with_curve(system, rows, free, (low, high), bits)
    if box is None:
        return None
    jacobian = [system.jacobian[i * size : (i + 1) * size] for i in rows]
    direction = [_determinant([[*r[:j], *r[j + 1 :]] for r in jacobian]) * (-1) ** j for j in range(size)]
    chain = [system.equations[row]]  # F, DF, D²F, …
    while (over := BallFunction(names, chain[-1:], bits)(box)) is not None:
        if len(chain) > 1 and not ball.as_ball(over[0]).contains(0):
            break
        if len(chain) > (_MAX_MULTIPLICITY if size == 1 else _MAX_MULTIPLICITY_OF_SYSTEMS):
            return None
        chain.append(_derivative_along(direction, chain[-1], leaves))
    else:
        return None
    curve = [system.equations[i] for i in rows]
    lower, upper = (np.array(ends).reshape(-1, 1) for ends in zip(*map(float_bounds, box), strict=True))

    def is_inside(point: Sequence[Number]) -> bool:
        return all(ball.as_ball(b).contains(ball.as_ball(x)) for x, b in zip(point, box, strict=True))

    def zeros_of(equations: Sequence[Node], lows: Array, highs: Array) -> list[list[Number]]:
        part = search.System(dict(zip(names, leaves, strict=True)), equations)
        zeros = Prover(part, Domain([], []), bits).prove(search.Boxes(lows, highs, np.zeros_like(lows)))
        return [zero for zero in zeros if zero is not None and is_inside(zero)]

    candidates = zeros_of([*curve, chain[-2]], lower, upper)
    if not candidates:
        return None
    (point,) = candidates
    if len(chain) == 2:
        return SingularZeros(low, high, [point])
    for exact in exact_points(point, leaves, [*curve, *chain[:-1]], bits):
        if is_inside(exact):
            return SingularZeros(low, high, [exact])
    values = BallFunction(names, [*chain, direction[axis]], bits)(point)
    if values is None:
        return None
    *parts, curvature, speed = map(ball.as_ball, values)
    if any(not part.contains(0) for part in parts):
        if len(parts) != 2:
            return None
        if (parts[0] > 0) == (curvature > 0):
            return SingularZeros(low, high, [])
        shift = right[-1] / right[-1][axis] * math.sqrt(abs(float(2 * parts[0] / curvature))) * abs(float(speed))
        at = np.array([ball.nearest_float(x) for x in point])[:, None] + shift[:, None] * [-1, 1]
        margin = np.abs(shift)[:, None] / 4
        pair = zeros_of(system.equations, at - margin, at + margin)
        return SingularZeros(low, high, pair) if len(pair) == 2 and not overlap(*pair) else None
    spans = BallFunction(names, [chain[-1], *direction], bits)(box)
    if spans is None or ball.as_ball(spans[1 + axis]).contains(0):
        return None
    # By Taylor's theorem along the curve, F is not 0 at a distance d in t with a·dᵐ/(m!·Vᵐ) > Σ εᵢ·dⁱ/(i!·wⁱ). Here a
    # is the least |DᵐF|, w and V bound the component of v along t, and εᵢ bounds DⁱF at the point, for i < m - 1.
    a, *speeds = (abs(ball.as_ball(x)) for x in spans)
    m, errors, slowest, fastest = len(parts), [abs(x) for x in parts], speeds[axis].lower(), speeds[axis].upper()
    with ball.working_precision(bits):
        distance = arb(0)
        for i, error in enumerate(errors[:-1]):
            share = m * math.perm(m, m - i) * error * fastest**m / (a * slowest**i)
            distance = distance.max(arb(share.upper()).root(m - i))
        place = [ball.as_ball(x) + arb(0, (v / slowest * distance).upper()) for x, v in zip(point, speeds, strict=True)]
    return SingularZeros(low, high, [place], max(sys.float_info.min, *(float(x.upper()) for x in errors)))


def _derivative_along(direction: Sequence[Node], function: Node, leaves: Sequence[Node]) -> Node:
    """Return the derivative of a function along a direction, as a graph."""
    terms = map(operator.mul, direction, gradient_nodes(function, leaves))
    return simplify([functools.reduce(operator.add, terms)])[0]


def prove_isolated_zero(
    system: search.System, cluster: tuple[Array, Array], low: Array, high: Array
) -> SingularZeros | None:
    """Return the only zero in a box, if it is a simple fraction in a cluster and the leading forms of the equations
    prove it; else None.

    Let D = u·∇ for a direction u. If all derivatives of F of lower order than k are 0 at p, then Taylor's theorem says
    F(p + s·u) = sᵏ/k!·DᵏF(q) for some q in the box. So p is the only zero if for each u one of the equations has a DᵏF
    that is not 0 in the whole box. First the equations are combined so that as many as possible have a k above 1.
    """
    names, leaves, size = system.names, system.leaves, len(low)
    place = [fmpq_poly([simplest_number(*ends)]) for ends in zip(*(end.tolist() for end in cluster), strict=True)]
    values = _Field().evaluate([*system.equations, *system.jacobian], dict(zip(leaves, place, strict=True)))
    numbers = [x[0] for x in values if x is not None]
    if len(numbers) < len(values) or any(numbers[:size]):
        return None
    slopes = [numbers[size * (i + 1) : size * (i + 2)] for i in range(size)]
    table = fmpq_mat([[*row, *(fmpq(i == j) for j in range(size))] for i, row in enumerate(slopes)])
    combinations = [row[size:] for row in table.rref()[0].tolist()]
    direction = [variable(f"direction {k}") for k in range(size)]
    chains: list[Node] = []
    leading: list[Node] = []
    for weights in combinations:
        form = functools.reduce(
            operator.add, (fraction_node(w) * f for w, f in zip(weights, system.equations, strict=True))
        )
        for order in range(1, _MAX_MULTIPLICITY_OF_SYSTEMS + 1):
            form = _derivative_along(direction, form, leaves)
            chains.append(form)
            # A form of this order is 0 for all u if it is 0 for those with natural numbers of this sum.
            lattice = (u for u in itertools.product(range(order + 1), repeat=size) if sum(u) == order)
            at = ({leaf: fmpq_poly([x]) for leaf, x in zip(direction, u, strict=True)} for u in lattice)
            residuals = [_Field().evaluate([form], {**dict(zip(leaves, place, strict=True)), **u})[0] for u in at]
            if any(x is None for x in residuals):
                return None
            if any(residuals):
                leading.append(form)
                break
    every_name = [*names, *(leaf.text for leaf in direction)]
    # The forms are polynomials in the direction, so any direction shows where they are continuous.
    ends = (np.r_[x, np.ones(size)].reshape(-1, 1) for x in (low, high))
    whole = search.enclosure_function(every_name, chains)(*ends)
    if not (whole.is_bounded & whole.is_continuous).all():
        return None
    enclose = search.enclosure_function(every_name, leading)
    # One face of the cube of directions for each coordinate; -u is as good as u.
    directions = search.Boxes(2 * np.eye(size) - 1, np.ones((size, size)), np.zeros((size, size)))
    for _ in range(_DIRECTION_STEPS):
        count, faces = len(directions), ((low, directions.lower), (high, directions.upper))
        ends = (np.r_[np.repeat(x.reshape(-1, 1), count, axis=1), u] for x, u in faces)
        directions = directions.select(enclose(*ends).contains(0).all(axis=0))
        if not len(directions):
            return SingularZeros(low, high, [[x[0] for x in place]])
        if len(directions) > _MAX_DIRECTIONS:
            return None
        first, second = directions.split(np.argmax(directions.upper - directions.lower, axis=0), 0.5)
        directions = first.join(second)
    return None


def _determinant(rows: Sequence[Sequence[Node]]) -> Node:
    """Return the determinant of a small matrix, expanded along its first row."""
    if not rows:
        return ONE
    minors = (_determinant([[*r[:j], *r[j + 1 :]] for r in rows[1:]]) for j in range(len(rows)))
    return sum((x * minor * (-1) ** j for j, (x, minor) in enumerate(zip(rows[0], minors, strict=True))), ZERO)


def _box_with_curve(
    system: search.System, rows: Sequence[int], free: Sequence[int], ends: tuple[Array, Array], bits: int
) -> list[Number] | None:
    """Return a box around another one in which some equations have exactly one zero for each number along an axis.

    Args:
        rows, free: the numbers of the equations, and of the coordinates that they determine.
        ends: the ends of the other box.
    """
    low, high = ([*map(ball.from_float, end.tolist())] for end in ends)
    box = [*map(ball.interval_between, low, high)]
    if not free:
        return box
    equations = BallFunction(system.names, [system.equations[i] for i in rows], bits)
    jacobian = BallFunction(system.names, [system.jacobian[i * len(low) + j] for i in rows for j in free], bits)
    with ball.working_precision(bits):
        middle = [arb(ball.as_ball(x).mid()) for x in box]
        for _ in range(_CURVE_STEPS):
            value, slopes = equations([middle[i] if i in free else x for i, x in enumerate(box)]), jacobian(box)
            shifts = None if value is None or slopes is None else _newton_shifts(slopes, value)
            if shifts is None:
                return None
            images = {i: middle[i] - shift for i, shift in zip(free, shifts, strict=True)}
            if all(ball.as_ball(box[i]).contains_interior(image) for i, image in images.items()):
                return box
            for i, image in images.items():
                box[i] = middle[i] + arb(0, (2 * abs(image.union(ball.as_ball(box[i])) - middle[i])).upper())
    return None


def factor_systems(equations: Sequence[Node], leaves: Sequence[Node]) -> dict[tuple[Node, ...], list[Node]]:
    """Return systems without evident multiple zeros that together have the zeros of the equations.

    A product is 0 where a factor is, a power where its base is, a quotient also where its divisor is infinite. With one
    unknown, a polynomial with rational coefficients is divided by its common divisor with its derivative, so that it
    has simple zeros only.

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
            reciprocal = ONE / inputs[1]
            stack.append((inputs[0], [*others, reciprocal]))
            if any(map(_may_be_infinite, topological_order(inputs[1:]))):
                factors.append((reciprocal, [*others, inputs[0]]))
        else:
            factors.append((factor, others))
        if len(factors) + len(stack) > _MAX_SYSTEMS:
            return [(node, [])]
    return factors


def _may_be_infinite(node: Node) -> bool:
    """Whether an operation may be infinite, so that a quotient by it is 0."""
    is_positive_power = node.op is pow_ and (literal_value(node.inputs[1]) or 0) > 0
    return node.op is tan or not (node.op is None or node.op.is_finite or is_positive_power)


def _squarefree(equation: Node, leaf: Node) -> Node:
    """Return a polynomial with the same zeros, all simple; other functions and polynomials without multiple zeros as
    they are."""
    (polynomial,) = _Field().evaluate([equation], {leaf: fmpq_poly([0, 1])})
    if polynomial is None:
        return equation
    common = polynomial.gcd(polynomial.derivative()) if polynomial else polynomial
    if common.degree() < 1:
        return equation
    coefficients = map(fraction_node, (polynomial // common).coeffs())
    return functools.reduce(lambda value, c: value * leaf + c, [*coefficients][::-1])


def fraction_node(x: fmpq) -> Node:
    """Return the graph of a fraction."""
    size = constant(str(abs(x.p))) / constant(str(x.q))
    return -size if x < 0 else size


def _power(base: fmpq_poly, exponent: fmpq_poly) -> fmpq_poly | None:
    number = exponent[0]
    is_small = exponent.degree() < 1 and number.q == 1 and 0 <= number * max(1, base.degree()) <= _MAX_DEGREE
    return base ** int(number.p) if is_small else None


_POLYNOMIAL_OPERATIONS[pow_] = _power


# --- Exact numbers ---


@dataclass(frozen=True)
class _Field:
    """Numbers a + b·g + c·g² + … with rational coefficients, as polynomials in g: an unknown, π, e or a square root.

    π and e are transcendental, so such a number is 0 only if all its coefficients are.

    Attributes:
        constants: the named constants that are rational multiples of g, the first of them g.
        square: g², if g is a square root.
    """

    constants: Mapping[str, int] = field(default_factory=dict)
    square: int = 0

    @property
    def generator(self) -> arb:
        """The number g."""
        return arb(self.square).sqrt() if self.square else arb(balls.parse_constant(next(iter(self.constants))))

    def _reduced(self, x: fmpq_poly) -> fmpq_poly | None:
        """Return a number with powers of a square root replaced; None if it is too long."""
        x = x % fmpq_poly([-self.square, 0, 1]) if self.square else x
        return None if x.degree() > _MAX_DEGREE else x

    def evaluate(self, outputs: Sequence[Node], point: Mapping[Node, fmpq_poly]) -> list[fmpq_poly | None]:
        """Return the values of graphs, or None for those that are not known to be in the field."""
        values: dict[Node, fmpq_poly | None] = dict(point)
        for node in topological_order(outputs):
            if node in values:
                continue
            number = literal_value(node)
            if number is not None:
                values[node] = fmpq_poly([fmpq(number.numerator, number.denominator)])
            elif node.op is None:
                values[node] = fmpq_poly([0, self.constants[node.text]]) if node.text in self.constants else None
            else:
                inputs = [x for x in map(values.__getitem__, node.inputs) if x is not None]
                value = self._call(node.op, inputs) if len(inputs) == len(node.inputs) else None
                if node.op is mul and fmpq_poly() in inputs:  # the other factor is finite where the result is
                    value = fmpq_poly()
                values[node] = None if value is None else self._reduced(value)
        return [values[node] for node in outputs]

    def _call(self, op: Op, inputs: Sequence[fmpq_poly]) -> fmpq_poly | None:
        """Return the value of an operation, if it is known to be in the field."""
        if op in _POLYNOMIAL_OPERATIONS and (value := _POLYNOMIAL_OPERATIONS[op](*inputs)) is not None:
            return value
        x, unit = inputs[0], fmpq_poly([0, 1])
        if all(y.degree() < 1 for y in inputs):
            if op is sqrt and self.square:
                return unit * root if (root := _exact_value(sqrt, [x[0] / self.square])) is not None else None
            if op is exp and "e" in self.constants and x[0].q == 1 and 0 < x[0] <= _MAX_DEGREE:
                return unit ** int(x[0].p)
            return None if (exact := _exact_value(op, [y[0] for y in inputs])) is None else fmpq_poly([exact])
        if op in _TRIGONOMETRIC and "pi" in self.constants and x == unit * x[1]:
            exact = as_fraction(_TRIGONOMETRIC[op](x[1]))
            return None if exact is None else fmpq_poly([exact])
        return None


_FIELDS = (_Field({"pi": 1, "tau": 2}), _Field({"e": 1}))
_TRIGONOMETRIC: dict[Op, Callable[[fmpq], arb]] = {
    sin: arb.sin_pi_fmpq, cos: arb.cos_pi_fmpq, tan: lambda x: arb.sin_pi_fmpq(x) / arb.cos_pi_fmpq(x),
}  # fmt: skip


def exact_points(
    point: Sequence[Number], leaves: Sequence[Node], functions: Sequence[Node], bits: int
) -> Iterator[list[Number]]:
    """Yield the points with exact coordinates, near another one, at which all functions are exactly 0."""
    squares = {square: _Field(square=square) for x in point if (square := _square_in_quadratic(x, bits)) > 1}
    for numbers in (*_FIELDS, *squares.values()):
        with ball.working_precision(bits):
            unit = numbers.generator
        relations = [_integer_relation([arb(1), ball.as_ball(x), unit], bits) for x in point]
        if all(b for _, b, _ in relations):
            exact = [fmpq_poly([fmpq(-a, b), fmpq(-c, b)]) for a, b, c in relations]
            values = numbers.evaluate(functions, dict(zip(leaves, exact, strict=True)))
            if all(value is not None and not value for value in values):
                with ball.working_precision(bits):
                    yield [x[0] if x.degree() < 1 else x[0] + x[1] * unit for x in exact]


def simplest_number(low: float, high: float) -> fmpq:
    """Return a fraction in an interval with a denominator that is nearly as small as possible."""
    middle = Fraction(low) / 2 + Fraction(high) / 2
    for exponent in range(40):
        simple = middle.limit_denominator(2**exponent)
        if low <= simple <= high:
            return fmpq(simple.numerator, simple.denominator)
    return fmpq(middle.numerator, middle.denominator)


def _square_in_quadratic(x: Number, bits: int) -> int:
    """Return the d without square factors of a number a + b·√d; 1 or less for other numbers."""
    number = ball.as_ball(x)
    with ball.working_precision(bits):
        a, b, c = _integer_relation([arb(1), number, number * number], bits)  # FLINT's number**2 is nan around 0
    square = b * b - 4 * a * c if c else 0
    return math.prod(int(p) for p, power in fmpz(square).factor() if power % 2) if square > 0 else 0


def _integer_relation(numbers: Sequence[arb], bits: int) -> tuple[int, ...]:
    """Return small integers with which a sum of numbers is nearly 0 (Lenstra, Lenstra and Lovász); zeros for none."""
    size = len(numbers)
    scaled = [((as_fraction(x.mid()) or fmpq(0)) * fmpq(2) ** (bits - _RELATION_GUARD)).floor() for x in numbers]
    rows = [[*(int(i == k) for k in range(size)), scaled[i]] for i in range(size)]
    *relation, _ = map(int, fmpz_mat(rows).lll().table()[0])
    return tuple(relation) if max(map(abs, relation)) < 2 ** (bits // 8) else (0,) * size


def _exact_value(op: Op, inputs: Sequence[fmpq]) -> Any:
    """Return the value of a function at fractions, if it is known to be a fraction."""
    try:
        with balls.precision(_EXACT_BITS) as kind:
            return as_fraction(kind.function(op, len(inputs))(*inputs))
    except ball.Undecided:
        return None


def as_fraction(x: Number) -> Any:
    """Return an exact number as a fraction; None for others, and for those whose fractions would fill the memory."""
    if isinstance(x, fmpq) or not ball.is_exact(x):
        return x if isinstance(x, fmpq) else None
    significand, exponent = x.man_exp()
    return fmpq(significand) * fmpq(2) ** exponent if abs(exponent) < ball.MAX_INTEGER_BITS else None


# --- Kinks ---

_MAX_SWITCHES = 5  # conditions that change in a box; each makes up to three systems
_KINK_BOXES = 200  # boxes that the search in each system examines


class KinkProver:
    """Finds the points of small boxes where 0 is in the generalised gradient.

    Each condition of the gradient that changes in a box is true, false, or at its border. There its truth is replaced
    by an unknown between 0 and 1, and the border is one more equation. Each combination is a smooth system. Together
    their zeros are all points where a mean of the slopes on the sides of the kinks is 0.
    """

    def __init__(self, system: search.System, bits: int) -> None:
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
        width = np.maximum(high - low, np.abs(high) * 1e-12 + search.TINY)
        for states in self._possible_states(borders, low - width, high + width):
            part = self._parts[(*borders,), states]
            if part is None:
                return None
            lower, upper = (
                np.array([*side, *[end] * part.truths]).reshape(-1, 1)
                for side, end in ((low - width, 0.0), (high + width, 1.0))
            )
            result = search.Search(part.system, lower, upper, lower, upper, _KINK_BOXES)
            if len(result.undecided):
                return None
            for enclosure in part.prover.prove(result.zeros):
                if enclosure is None:
                    return None
                point, weights = enclosure[: len(low)], [ball.as_ball(x) for x in enclosure[len(low) :]]
                sides = zip(part.sides.bounds(point), part.signs, strict=True)
                margins = [*(ball.as_ball(side) * sign for side, sign in sides), *weights, *(1 - x for x in weights)]
                is_outside = any(x < 0 for x in margins)
                if not is_outside and not all(x > 0 for x in margins):
                    return None
                if not is_outside and not any(overlap(point, other) for other in points):
                    points.append(point)
        return points

    def _possible_states(self, borders: Sequence[int], low: Array, high: Array) -> list[tuple[int, ...]]:
        """Return the combinations of true (1), false (-1) and at the border (0) that constraint propagation allows."""
        states = [*itertools.product((-1, 0, 1), repeat=len(borders))]
        boxes = search.Boxes(
            *(np.repeat(end.reshape(-1, 1), len(states), axis=1) for end in (low, high, np.zeros_like(low)))
        )
        truths = self._system.truths(boxes)
        for k, state in zip(borders, np.array(states).T, strict=True):
            truths[search.truth_of(k).text] = Intervals.between(state > 0, state >= 0)
        is_empty = self._system.contract_at_kinks(boxes, truths).is_empty
        return [state for state, is_excluded in zip(states, is_empty, strict=True) if not is_excluded]

    def _smooth_part(self, key: tuple[Sequence[int], Sequence[int]]) -> _SmoothPart | None:
        """Return the smooth system of some states of the conditions that change, by their numbers."""
        changing, states = key
        system, borders = self._system, [self._system.borders[k] for k in changing]
        truths = [search.truth_of(k) for k in changing]
        relaxed = search.relax(system.equations, dict(zip(borders, truths, strict=True)))
        if relaxed is None:
            return None
        constants = {t: ONE if state > 0 else ZERO for t, state in zip(truths, states, strict=True) if state}
        active = {truth.text: truth for truth, state in zip(truths, states, strict=True) if not state}
        edges = [border for border, state in zip(borders, states, strict=True) if not state]
        unknowns = dict(zip(system.names, system.leaves, strict=True)) | active
        smooth = search.System(unknowns, substitute(relaxed, constants) + edges)
        sides = BallFunction(system.names, [b for b, s in zip(borders, states, strict=True) if s], self._bits)
        signs = [state for state in states if state]
        return _SmoothPart(smooth, Prover(smooth, Domain([], []), self._bits), sides, signs, len(active))


class _SmoothPart(NamedTuple):
    """A smooth system of `KinkProver`: each condition is at its border, true or false.

    Attributes:
        system: the gradient and the borders, in the unknowns and the truths of the conditions at their border.
        prover: proves its zeros.
        sides: the functions whose signs decide the other conditions.
        signs: these signs.
        truths: the number of conditions at their border.
    """

    system: search.System
    prover: Prover
    sides: BallFunction
    signs: list[int]
    truths: int


def overlap(a: Sequence[Number], b: Sequence[Number]) -> bool:
    """Whether two enclosures overlap. If each holds exactly one zero of a region around it, it is the same zero."""
    return all(ball.as_ball(x).overlaps(ball.as_ball(y)) for x, y in zip(a, b, strict=True))

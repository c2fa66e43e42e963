"""Where an operation is defined, singular or kinked: what its record says, against mathematics at and beside edges.

The reference is the value of the table's row. Where it is complex it is undefined; where it is infinite, or its
difference quotients grow without bound, it is singular; where they differ from side to side, or it jumps, is a kink.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from mpmath import mp, mpc, mpf

from autodiff_cli import Objective
from autodiff_cli.array_types import ignore_float_errors
from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.explain.tracing import trace
from autodiff_cli.expression import parse
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Gate, Op, constant, variable
from autodiff_cli.graph.tape import Tape
from autodiff_cli.language.printer import to_text
from autodiff_cli.language.program import read
from autodiff_cli.numbers.arrays import ARRAYS
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.ops import all_ops, get_op
from tests.each import amount, each, evenly_spread_part, is_exhaustive, is_slow
from tests.ops.domains import VALUES
from tests.ops.table import ROWS, Number, Row
from tests.ops.test_rules import is_cheap

STEP = mpf(10) ** -20
GROWS = 10  # how much larger a quotient is for the square of that step, if it has no limit

# By number of inputs: the numbers at which something may happen, and how far from them a point beside them is. Powers
# just below 1 have slopes that grow too slowly to be seen, so that there it is further.
EDGES = {
    1: ((-2.0, -1.5, -1.0, -1 / math.e, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 6.0), 2**-30),
    2: ((-2.0, -0.5, 0.0, 0.5, 1.0, 3.0), 2**-3),
    3: ((-1.0, 0.0, 1.0), 2**-3),
    4: ((0.0, 1.0), 2**-3),
}


MEANING = VALUES | {
    "pow": lambda x, y: mpf(1) if x == 0 and abs(y) < STEP else x**y  # 0^0 is 1, and does not count as a pole
}
# Comparisons and conditions jump as a matter of course; nothing is said of it.
JUMP = {op.name for op in all_ops() if op.gate is Gate.BLOCK and op.symbol} | {"where"}


@dataclass(frozen=True)
class Nature:
    """What the reference says of a point: all False where nothing happens."""

    undefined: bool = False
    infinite: bool = False
    steep: bool = False
    kinked: bool = False


def nature(value: Callable[..., Number], point: tuple[Number, ...]) -> Nature:
    here = real(value, point)
    if here is None:
        return Nature(undefined=True)
    if mp.isinf(here):
        return Nature(infinite=True)
    steep = kinked = False
    for k in range(len(point)):
        below, above = (quotients(value, point, here, k, sign) for sign in (-1, 1))
        grows = [side is not None and abs(side[1]) > GROWS * (abs(side[0]) + STEP) for side in (below, above)]
        if below is None or above is None:
            beside = [real(value, (*point[:k], point[k] + sign * STEP**2, *point[k + 1 :])) for sign in (-1, 1)]
            steep = steep or any(grows) or all(there is not None and mp.isinf(there) for there in beside)
        elif any(side[1] * STEP**2 > 1e-3 for side in map(abs_, (below, above))):
            kinked = True  # it jumps
        elif any(grows):
            steep = True
        else:
            kinked = kinked or abs(below[1] - above[1]) > 1e-6 * (1 + abs(below[1]))
    return Nature(steep=steep, kinked=kinked and not steep)


def abs_(pair: tuple[Number, Number]) -> tuple[Number, Number]:
    return abs(pair[0]), abs(pair[1])


def quotients(
    value: Callable[..., Number], point: tuple[Number, ...], here: Number, k: int, sign: int
) -> tuple[Number, Number] | None:
    """The difference quotients towards one input for both steps to one side; None if it has no values there."""
    found = []
    for step in (sign * STEP, sign * STEP**2):
        there = real(value, (*point[:k], point[k] + step, *point[k + 1 :]))
        if there is None or mp.isinf(there):
            return None
        found.append((there - here) / step)
    return found[0], found[1]


@functools.cache
def real(value: Callable[..., Number], point: tuple[Number, ...]) -> Number | None:
    """A real value, infinite at a pole; None where there is none."""
    try:
        found = value(*point)
    except (ZeroDivisionError, ValueError):
        return mp.inf
    if isinstance(found, mpc) and abs(found.imag) > 1e-25 * (1 + abs(found.real)):
        return None
    found = mpf(found.real) if isinstance(found, mpc) else mpf(found)
    return None if mp.isnan(found) else found


def points(count: int) -> Iterator[tuple[float, ...]]:
    if count not in EDGES:  # too many to try all
        chance = random.Random(count)
        return (tuple(chance.sample([k / 2 for k in range(-4, 9)], count)) for _ in range(amount(37, 60, 300)))
    edges, beside = EDGES[count]
    return itertools.product([x + d for x in edges for d in (-beside, 0, beside)], repeat=count)


def tried_points(row: Row) -> list[tuple[float, ...]]:
    """The points at which an operation is tried. Of one input, in a quick run, each edge and one side of it in turn. Of
    two and more inputs, where all are at edges, in a quick run half of these points, and every seventh other
    combination or fewer, unless all are asked for and the reference does not take long.
    """
    count = len(row.domain)
    if count == 1 and not is_slow():
        return [point for k, point in enumerate(points(1)) if k % 6 not in (0, 5)]
    if count == 1 or (is_exhaustive() and is_cheap(row)):
        return [*points(count)]
    corners: list[tuple[float, ...]] = []
    if count in EDGES and (count > 2 or is_cheap(row)):
        edges = EDGES[count][0]
        corners = [*itertools.product(edges, repeat=count)]
        if not is_slow():
            corners = [p for p in corners if len({*p}) == 1 or sum(map(edges.index, p)) % 2 == 0]
    return [*corners, *[*points(count)][:: 7 if is_slow() else 59]]


def exactly(point: Sequence[float]) -> tuple[Number, ...]:
    return tuple(-1 / mp.e if x == -1 / math.e else mpf(x) for x in point)


def is_degenerate(name: str, point: Sequence[float]) -> bool:
    """Where what is said is a convention, or concerns constants only."""
    if name == "log_base":  # the slope towards the base is 0/0, with the limit 0
        return tuple(point) == (1.0, 0.0)
    if name.startswith("weibull"):  # where it begins, a slope above may be infinite; another test has those points
        return point[0] == 0
    if name.startswith("bessel"):  # as a function of the order, J jumps there; its slope towards the order is unknown
        return point[1] == 0 and point[0] <= 0
    if name.startswith("gammainc_"):  # the slope is infinite as a logarithm is
        return tuple(point) == (1.0, 0.0)
    return name == "beta" and sum(point) <= 0 and sum(point) == round(sum(point))  # both are infinite there


@each("row", ROWS, ids=lambda row: row.name)
def test_predicates_and_slopes_at_edges(row: Row) -> None:
    check_predicates(row)
    check_slopes(row)
    real.cache_clear()  # both need the same references, which take most of the time


@each("k", [0.5, 0.99, 1.0, 1.5, 2.0, 2.5, 3.0])
@each("name", ["weibull_pdf", "weibull_cdf", "weibull_sf"])
def test_a_weibull_distribution_has_a_kink_where_the_slopes_of_both_sides_differ(name: str, k: float) -> None:
    (row,) = (row for row in ROWS if row.name == name)
    at = mpf(k), mpf(1)

    def value(x: Number) -> Number:
        return row.value(x, *at) if x > 0 else mpf(name == "weibull_sf")  # 0 or 1 below

    with mp.workdps(70):
        step = mpf(10) ** -40
        limit = value(step)
        is_infinite = name == "weibull_pdf" and k < 1
        above, below = (value(2 * step) - limit) / step, (value(-step) - value(-2 * step)) / step
        is_kinked = abs(above) > 1e-3 or abs(limit - value(-step)) > 1e-3
    assert below == 0
    assert predicates(name, "kink", (0.0, k, 1.0)) is (is_kinked and not is_infinite)
    assert bool(predicates(name, "singular", (0.0, k, 1.0))) is is_infinite


@each("name", ["gamma_logpdf", "beta_logpdf"])
@each("shape", [0.5, 1.0, 2.0])
def test_a_log_density_with_an_infinite_slope_is_singular(name: str, shape: float) -> None:
    ends = (0.0,) if name == "gamma_logpdf" else (0.0, 1.0)
    f = parse(f"{name}(x, a, b)")
    for x in (*ends, 0.3):
        slopes = f.grad(x=x, a=shape, b=shape)
        is_infinite = any(not math.isfinite(slope) for slope in slopes.values())
        assert predicates(name, "singular", (x, shape, shape)) is is_infinite


def check_predicates(row: Row) -> None:
    """The predicates hold where they should, and nowhere else."""
    op, count = get_op(row.name), len(row.domain)
    with mp.workdps(70):
        for point in tried_points(row):
            if is_degenerate(row.name, point):
                continue
            found = nature(MEANING.get(row.name, row.value), exactly(point))
            domain, singular, kink = (predicates(row.name, which, point) for which in ("domain", "singular", "kink"))
            in_domain, value = domain is not False, FLOATS.function(op, count)(*point)
            if predicates(row.name, "uncomputed", point):
                assert not found.undefined, point
                assert math.isnan(value), point
            elif found.undefined:
                assert not in_domain, point
            elif found.infinite:
                assert not in_domain or singular, point
                assert not kink, point
            else:
                assert in_domain, point
                # Of so narrow a Gaussian the reference has no digits left.
                is_unknown = row.name == "voigt" and point[1] == 0
                assert bool(singular) is found.steep or is_unknown, (point, found)
                if row.name not in JUMP:
                    assert bool(kink) is found.kinked, (point, found)
                assert not math.isnan(value), point
            assert in_domain or math.isnan(value), point


def check_slopes(row: Row) -> None:
    """Slopes at edges are limits of difference quotients, also where a function is defined on one side only, if nothing
    is said of the point.
    """
    op, count = get_op(row.name), len(row.domain)
    rule = op.derivative_rule(count)
    tape = Tape([partial.masked_graph for partial in rule.partials], [rule.output, *rule.inputs])
    value = MEANING.get(row.name, row.value)
    with mp.workdps(70):
        for point in tried_points(row):
            here = real(value, exactly(point))
            is_convention = is_degenerate(row.name, point) or predicates(row.name, "kink", point)
            if here is None or mp.isinf(here) or is_convention or predicates(row.name, "uncomputed", point):
                continue
            numbers = [FLOATS.function(op, count)(*point), *point]
            leaves = zip([leaf.text for leaf in (rule.output, *rule.inputs)], numbers, strict=True)
            values = forward(tape, FLOATS, dict(leaves))
            for k in {*range(count)} - {*op.unavailable_inputs}:
                sides = [quotients(value, exactly(point), here, k, sign) for sign in (-1, 1)]
                limits = [b for a, b in filter(None, sides) if abs(a - b) < 1e-8 * (1 + abs(b))]
                slope = values[tape.outputs[k]]
                if limits:
                    assert any(abs(slope - limit) <= 1e-6 * (1 + abs(limit)) for limit in limits), (point, k)


SAID = re.compile(r"(\d+(?:\.\d+)?),? is used")


@each("row", [row for row in ROWS if SAID.search(get_op(row.name).kink_note or "")], ids=lambda row: row.name)
def test_at_a_kink_the_slope_is_the_one_that_its_note_names(row: Row) -> None:
    op, count = get_op(row.name), len(row.domain)
    (said,) = SAID.findall(op.kink_note)
    kinks = [
        point for point in itertools.product((*EDGES[1][0], 4.0), repeat=count) if predicates(row.name, "kink", point)
    ]
    leaves = [variable(name) for name in "abcd"[:count]]
    tape = Tape(gradient_nodes(op(*leaves), leaves), leaves)
    assert kinks or count > 2
    for point in kinks:
        values = forward(tape, FLOATS, dict(zip("abcd", point, strict=False)))
        slopes = [values[k] for k in tape.outputs]
        assert any(abs(slope - float(said)) <= 1e-3 or math.isnan(slope) for slope in slopes), (point, slopes)


def limit(value: Callable[..., Number], edge: float, sign: int) -> float | None:
    """The limit of a function from one side, or at infinity; None where two numbers near the edge do not show it."""
    far = mpf(math.copysign(1e10, edge))
    points = [edge + sign * STEP, edge + sign * STEP**2] if math.isfinite(edge) else [far, far * 1e5]
    before, near = (real(value, (point,)) for point in points)
    if before is None or near is None:
        return None
    if abs(near) > 20 and abs(near) > 1.05 * abs(before):
        return math.copysign(math.inf, near)
    return float(near) if abs(before - near) < 1e-7 * abs(near) else 0.0 if abs(near) < 1e-8 else None


# The products of infinity and 0 are nan, as everywhere, by which some operations are defined, such as `silu(-inf)`.
PRODUCTS = {"silu", "mish", "gelu"}
UNARY = [row for row in ROWS if len(row.domain) == 1 and row.name not in JUMP | PRODUCTS]


@each("row", UNARY, ids=lambda row: row.name)
def test_values_at_edges_and_infinity_are_the_limits_of_both_sides(row: Row) -> None:
    function = FLOATS.function(get_op(row.name), 1)
    with mp.workdps(60):
        for edge in (0.0, 1.0, -1.0, -2.0, 2.0, math.inf, -math.inf):
            sides = {limit(VALUES.get(row.name, row.value), edge, sign) for sign in (-1, 1)}
            is_defined = get_op(row.name).domain is None or predicates(row.name, "domain", (edge,))
            if is_defined and None not in sides and len(sides) == 1:
                assert function(edge) == pytest.approx(sides.pop(), rel=1e-7, abs=1e-8), edge


T = variable("t")
NUMBERS = (-2.5, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0)
OF_DOMAINS = [op for op in all_ops() if op.domain is not None]


@each("op", [op for op in OF_DOMAINS if op.spelling.isidentifier()], ids=lambda op: op.name)
def test_the_slope_at_the_edge_of_a_domain_has_the_sign_of_its_one_side(op: Op) -> None:
    """The negative of 0 is -0 in floats, and 1/-0 is -inf."""
    for k, other in itertools.product(range(op.min_inputs), (0.5, 2.0)):
        around = [op(*(x if j == k else constant(repr(other)) for j in range(op.min_inputs))) for x in (T, -T)]
        values = [forward(Tape([around[0]], [T]), FLOATS, {"t": x})[-1] for x in (-1e-30, 0.0, 1e-30)]
        if math.isnan(values[0]) and not math.isnan(values[1] + values[2]):
            tape = Tape([slope for f in around for slope in gradient_nodes(f, [T])], [T])
            for kind in (FLOATS, ARRAYS):
                with ignore_float_errors():
                    found = forward(tape, kind, {"t": kind.parse_constant("0")})
                right, left = (float(found[k]) for k in tape.outputs)
                assert right == -left or math.isnan(right + left), (k, other)


def predicates(name: str, which: str, point: tuple[float, ...]) -> bool | None:
    """A predicate at a point, by floats and by arrays alike; None if the operation has none."""
    found = [kind.predicate(get_op(name), which, len(point)) for kind in (FLOATS, ARRAYS)]
    with ignore_float_errors():
        values = {bool(holds(*point)) for holds in found if holds is not None}
    assert len(values) <= 1, (name, which, point)
    return values.pop() if values else None


@each("op", OF_DOMAINS, ids=lambda op: op.name)
def test_outside_of_its_domain_an_operation_is_nan_in_every_kind_of_number(op: Op) -> None:
    """Also its definition, which other languages and proven digits are made of, and however many inputs it gets."""
    for count in range(op.min_inputs, (op.max_inputs or op.min_inputs) + 1):
        points = [*itertools.product(NUMBERS[:: 1 if count < 5 else 3], repeat=count)]
        tried = points if count < 3 else evenly_spread_part(points)
        outside = [point for point in tried if predicates(op.name, "domain", point) is False]
        if not outside:
            continue
        columns = np.array(outside).T
        with ignore_float_errors():
            found = {
                "floats": [FLOATS.function(op, count)(*point) for point in outside],
                "arrays": ARRAYS.function(op, count)(*columns),
            }
            definition = None if op.is_helper else op.expand(count)
            if definition is not None:
                names = [leaf.text for leaf in op.placeholders(count)]
                tape = Tape([definition])
                found["definition"] = [
                    forward(tape, FLOATS, dict(zip(names, point, strict=True)))[-1] for point in outside
                ]
        for kind, values in found.items():
            assert np.isnan(values).all(), (kind, outside[int(np.argmin(np.isnan(values)))])


# The slope of `x % y` by x is the constant 1; orders of derivatives are constants of a formula.
ALWAYS_SLOPED = ("mod", "polygamma", "sinc_derivative", "sinhc_derivative")


@each("op", [op for op in OF_DOMAINS if not op.is_helper and op.name not in ALWAYS_SLOPED], ids=lambda op: op.name)
def test_outside_of_its_domain_an_operation_has_no_slope(op: Op) -> None:
    for count in range(op.min_inputs, (op.max_inputs or op.min_inputs) + 1):
        points = [*itertools.product(NUMBERS[:: 1 if count < 4 else 3], repeat=count)]
        leaves = op.placeholders(count)
        tape = Tape(gradient_nodes(op(*leaves), leaves), leaves)
        for point in evenly_spread_part(points):
            if predicates(op.name, "domain", point) is False:
                values = forward(tape, FLOATS, dict(zip((leaf.text for leaf in leaves), point, strict=True)))
                slopes = np.array([values[k] for k in tape.outputs])
                assert (np.isnan(slopes) | (slopes == 0)).all(), point


@each("op", OF_DOMAINS, ids=lambda op: op.name)
def test_inside_of_its_domain_an_operation_is_a_number(op: Op) -> None:
    """A domain that is too large is seen. Poles are singular points of a domain."""
    for count in range(op.min_inputs, (op.max_inputs or op.min_inputs) + 1):
        for point in itertools.product(NUMBERS[:: 1 if count < 5 else 3], repeat=count):
            is_regular = predicates(op.name, "domain", point) and not predicates(op.name, "singular", point)
            if is_regular and (op.name, point[-1]) != ("root", 0.0):
                assert not math.isnan(FLOATS.function(op, count)(*point)), point


@each("backend", ["numpy", "llvm"])
@each("name", ["normal_pdf", "normal_cdf"])
def test_a_fit_has_no_density_of_a_negative_deviation(name: str, backend: str) -> None:
    data = {"x": np.linspace(-1, 1, 100), "y": np.ones(100)}
    objective = Objective(f"y ~ {name}(x, m, s)", data, backend=backend)
    for deviation in (-1.0, 0.0):
        value, slopes = objective.value_and_grad(np.array([0.5, deviation]))
        assert math.isnan(value)
        assert np.isnan(slopes).all()
    assert math.isfinite(objective.value(np.array([0.5, 1.0])))


@each("name", ["normal_pdf", "normal_cdf"])
def test_a_deviation_is_positive(name: str) -> None:
    assert [predicates(name, "domain", (0.5, 1.0, deviation)) for deviation in (1e-9, 0.0, -1e-9)] == [
        True,
        False,
        False,
    ]
    assert predicates(name, "domain", (0.5,)) is True


ARRAYS_WITH_KINKS = {
    "norm": {(0.0, 0.0): True, (0.0, 1e-9): False, (-3.0, 4.0): False},
    "largest": {(1.0, 1.0): True, (1.0, 1.0 - 1e-9): False, (1.0, 1.0 + 1e-9): False, (2.0,): False},
    "smallest": {(1.0, 1.0): True, (1.0, 1.0 - 1e-9): False, (1.0, 1.0 + 1e-9): False, (2.0,): False},
}


def test_kinks_of_operations_on_whole_arrays() -> None:
    assert {op.name for op in all_ops() if op.is_structural and op.kink} == ARRAYS_WITH_KINKS.keys()
    for name, cases in ARRAYS_WITH_KINKS.items():
        kink = ARRAYS.predicate(get_op(name), "kink", 1)
        assert kink is not None
        for numbers, expected in cases.items():
            assert bool(kink(np.array(numbers)[:, None])) is expected, (name, numbers)


@each("op", [op for op in all_ops() if op.vanishes], ids=lambda op: op.name)
def test_helpers_vanish_where_their_formula_is_undefined_and_their_value_is_0(op: Op) -> None:
    names = [*"abc"[: op.min_inputs]]
    helper = op(*map(variable, names))
    tapes = Tape([helper]), Tape([read(to_text(helper)).output])
    for point in itertools.product((-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0), repeat=len(names)):
        with ignore_float_errors():
            value, formula = (forward(tape, FLOATS, dict(zip(names, point, strict=True)))[-1] for tape in tapes)
        if predicates(op.name, "vanishes", point):
            assert value == 0 or math.isnan(value), point
        else:
            assert value != 0 or formula == 0, point


SPECIAL = [-1.0, 0.0, 0.5, 1.0, 1.5]  # arguments at which slopes are infinite, or just not


@each("op", [op for op in all_ops() if op.singular is not None and op.spelling], ids=lambda op: op.name)
def test_a_point_is_singular_where_a_slope_is_not_finite_and_only_there(op: Op) -> None:
    """Also beside the edge of its condition: a gamma density is infinite at 0 only for shapes below 1."""
    assert op.singular is not None
    for count in range(1, 3):
        if not op.accepts(count):
            continue
        leaves = [variable(name) for name in "ab"[:count]]
        formula, condition = parse(f"{op.spelling}({', '.join('ab'[:count])})"), Tape([op.singular(*leaves)])
        for numbers in itertools.product(SPECIAL, repeat=count):
            point = dict(zip("ab", numbers, strict=False))
            found = trace(formula, point, tuple(point))
            is_defined = not any(math.isnan(slope) for slope in found.gradient.values())  # as `x^y` at (0, 0) is not
            if math.isfinite(found.value) and is_defined:
                is_singular = bool(forward(condition, FLOATS, point)[-1])
                assert is_singular is any(map(math.isinf, found.gradient.values())), point

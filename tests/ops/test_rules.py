"""Every operation's value and slopes, in every way the project computes them, against mpmath with 60 digits."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from mpmath import mp, mpf

from autodiff_cli.algebra.readable import readable
from autodiff_cli.array_types import ignore_float_errors
from autodiff_cli.autodiff.sweeps import forward, reverse, tangents
from autodiff_cli.backends.numpy_backend import BlockEvaluator
from autodiff_cli.backends.protocol import RowGraphs
from autodiff_cli.expression import parse
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node, Op, variable
from autodiff_cli.graph.tape import Tape
from autodiff_cli.language.printer import to_text
from autodiff_cli.language.program import read
from autodiff_cli.numbers.ball_arithmetic import Undecided, as_ball, from_float
from autodiff_cli.numbers.balls import precision
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.ops import all_ops, get_op
from tests.each import amount, each, evenly_spread_part
from tests.ops.table import COSTLY, LOG_DENSITIES, ROWS, Row

BY_NAME = {row.name: row for row in ROWS}
NAMES = ("a", "b", "c", "d", "p", "q", "r")

# What the printed text cannot hold: the careful forms behind helpers, and how a person would write them. Numbers are
# computed from y*(x^y/x) and (1 - x)*(1 + x), people read y*x^(y - 1) and 1 - x^2.
READS_SHORTER = {"pow": 1e3, "erf": 2e3, "erfc": 2e3, "logaddexp": 2e3, "silu": 1e2, "mish": 1e2}
READS_SHORTER |= {"erfi": 2e3, "lambertw": 2e5, "beta": 1e5, "fresnels": 1e7, "fresnelc": 1e7}
READS_SHORTER |= dict.fromkeys(("asin", "acos", "asec", "acsc", "acosh", "atanh", "asech", "acoth"), 1e7)


def is_cheap(row: Row) -> bool:
    return row.name not in COSTLY


def random_points(row: Row, count: int) -> int:
    """The number of random points at which an operation is tried: `count` with `--exhaustive`, else few; fewer of those
    of which 80 digits take long."""
    return amount(8, count // 3, count) // (1 if is_cheap(row) else 3)


def every_point(row: Row) -> Iterator[tuple[float, ...]]:
    yield from row.points
    for which in range(7):
        yield tuple(
            low + (high - low) * (0.03 + 0.137 * which + 0.05 * k) % (high - low or 1)
            for k, (low, high) in enumerate(row.domain)
        )


def ulps(found: float, exact: mpf, terms: mpf) -> float:
    """The error in units in the last place of the exact result, or of the largest term of the sum it is."""
    if not mp.isfinite(exact):
        return 0.0 if math.isinf(found) or math.isnan(found) else math.inf
    if abs(exact) > mpf(1.797e308):
        return 0.0 if found == math.copysign(math.inf, exact) else math.inf
    if not math.isfinite(found):
        return math.inf
    size = float(max(abs(exact), terms))
    return float(abs(mpf(found) - exact) / mpf(math.ulp(size)))


def evaluate(output: Node, point: dict[str, float]) -> float:
    return forward(Tape((output,)), FLOATS, point)[-1]


def by_reverse(output: Node, leaves: list[Node], point: dict[str, float]) -> list[float]:
    tape = Tape((output,))
    adjoints = reverse(tape, FLOATS, forward(tape, FLOATS, point), 1.0)
    return [adjoints[tape.index[leaf]] or 0.0 for leaf in leaves]


def by_forward(output: Node, leaves: list[Node], point: dict[str, float]) -> list[float]:
    slopes = []
    for leaf in leaves:
        tape = Tape((output,), [leaf])
        slopes.append(tangents(tape, FLOATS, forward(tape, FLOATS, point), {leaf.text: 1.0})[-1] or 0.0)
    return slopes


def by_graph(output: Node, leaves: list[Node], point: dict[str, float]) -> list[float]:
    return [evaluate(slope, point) for slope in gradient_nodes(output, leaves)]


def by_text(output: Node, leaves: list[Node], point: dict[str, float]) -> list[float]:
    texts = [to_text(slope) for slope in readable(gradient_nodes(output, leaves))]
    return [evaluate(read(text).output, point) for text in texts]


WAYS: dict[str, Callable[[Node, list[Node], dict[str, float]], list[float]]] = {
    "reverse": by_reverse,
    "forward": by_forward,
    "graph": by_graph,
    "text": by_text,
}


def check(row: Row, point: tuple[float, ...], ways: tuple[str, ...]) -> None:
    leaves = [variable(name) for name in NAMES[: len(point)]]
    output = get_op(row.name)(*leaves)
    named = dict(zip(NAMES, point, strict=False))
    value = evaluate(output, named)
    for way in ways:
        if way == "text" and any(abs(x) > 1e150 for x in point):
            continue  # what reads well may square x
        bound = row.bound if way != "text" else max(row.bound + 4, READS_SHORTER.get(row.name, 0))
        compare(row, point, [value, *WAYS[way](output, leaves, named)], bound, way)


def compare(row: Row, point: tuple[float, ...], found: list[float], bound: float, way: str) -> None:
    """Value and slopes at a point against the row's own, to 80 digits."""
    with mp.workdps(80):
        for number, reference in zip(found, references(row, point), strict=True):
            if reference is not None:
                error = ulps(number, *reference)
                assert error <= bound, f"{way}: {number!r} at {point}, {error:.1f} ulp"


@functools.cache
def references(row: Row, point: tuple[float, ...]) -> list[tuple[mpf, mpf] | None]:
    """Return value and slopes at a point to 80 digits, each with the size of the terms that cancel in it."""
    exactly = [mpf(x) for x in point]
    terms = [row.terms] + [row.slope_terms or row.terms] * len(point)
    with mp.workdps(80):
        return [
            None if exact is None else (mpf(exact(*exactly)), mpf(0) if term is None else mpf(term(*exactly)))
            for exact, term in zip((row.value, *row.slopes), terms, strict=True)
        ]


def test_every_operation_has_a_row() -> None:
    assert {op.name for op in all_ops() if not op.is_helper and not op.is_structural} == set(BY_NAME)


# A special function may be further off, by 1e-12 at most; so many ulps.
SPECIAL = {
    "sinc_derivative",
    "erfi",
    "erfinv",
    "gamma",
    "lgamma",
    "digamma",
    "polygamma",
    "beta",
    "gammainc",
    "gammaincc",
}
SPECIAL |= {"weibull_pdf", "weibull_cdf", "weibull_sf", "student_t_pdf"}
SPECIAL |= {f"{name}_logpdf" for name in LOG_DENSITIES}
SPECIAL |= {"wofz_real", "wofz_imag", "voigt", "gammainc_slope", "gammainc_curvature", "spline"}
SPECIAL |= {"besselj", "bessely", "besseli", "besselk"}
SPECIAL |= {"Ei", "Ci", "Shi", "Chi", "sinhc_derivative"}


def test_what_operations_promise() -> None:
    for row in ROWS:
        assert row.bound <= (1e-12 * 2**52 if row.name in SPECIAL else 4), row.name


@each("row", ROWS, ids=lambda row: row.name, sampled=is_cheap)
def test_values_and_slopes(row: Row) -> None:
    """At special points and all over the domain; the references take most of the time, so all ways have the same."""
    chance = random.Random(row.name)
    special = [*every_point(row)]
    anywhere_in = [tuple(anywhere(interval, chance) for interval in row.domain) for _ in range(random_points(row, 75))]
    for point in special:
        check(row, point, tuple(WAYS))
    for point in anywhere_in[::2]:
        check(row, point, ("reverse", "forward", "graph"))
    check_arrays(row, special + anywhere_in)


@each("row", ROWS, ids=lambda row: row.name)
def test_every_operation_at_two_points(row: Row) -> None:
    """All operations, also without `--slow`."""
    points = [*every_point(row)][-4::3]
    for point in points:
        check(row, point, ("reverse", "text"))
    check_arrays(row, points)


def check_arrays(row: Row, points: list[tuple[float, ...]]) -> None:
    leaves = [variable(name) for name in NAMES[: len(row.domain)]]
    output = get_op(row.name)(*leaves)
    kernel = BlockEvaluator(RowGraphs([output, *gradient_nodes(output, leaves)], {leaf.text for leaf in leaves}))
    columns = dict(zip(NAMES, np.array(points).T, strict=False))
    with ignore_float_errors():
        outputs = kernel.evaluate_block(kernel.prepare({}), columns, slice(0, len(points)))
    found = [np.broadcast_to(out, len(points)) for out in outputs]
    for point, numbers in zip(points, np.array(found).T.tolist(), strict=True):
        compare(row, point, numbers, row.bound, "arrays")


def anywhere(interval: tuple[float, float], chance: random.Random) -> float:
    """A number of an interval, as likely in one power of ten as in another; half the time near its middle range."""
    low, high = interval
    if chance.random() < 0.5:
        return chance.uniform(max(low, min(-40.0, high)), min(high, max(40.0, low)))
    sizes = [bound for bound in (low, high) if bound] or [1.0]
    size = max(map(abs, sizes))
    x = size * 10.0 ** -chance.uniform(0, math.log10(size) + 12) * chance.choice((1, -1))
    return min(max(x, low), high)


@each("row", [row for row in ROWS if len(row.domain) == 1], ids=lambda row: row.name)
def test_the_reference_slopes_are_derivatives(row: Row) -> None:
    """The table's own formulas, checked against differences of 100 digits inside the domain."""
    low, high = max(row.domain[0][0], -3.0), min(row.domain[0][1], 3.0)
    with mp.workdps(100):
        x = mpf(low + (high - low) * 0.7123)
        difference = mp.diff(lambda t: mpf(row.value(t)), x)
        slope = row.slopes[0]
        assert slope is not None
        assert abs(difference - slope(x)) <= mpf(10) ** -30 * (1 + abs(difference))


def test_what_is_unknown_stays_unknown_when_differentiated_again() -> None:
    f = parse("gammainc_curvature(a, x)")
    curvature = f.hessian(a=2, x=1)
    assert np.isnan(curvature[0]).all()
    assert np.isnan(curvature[:, 0]).all()
    assert math.isfinite(curvature[1, 1])


@each("row", [row for row in ROWS if len(row.domain) == 1], ids=lambda row: row.name)
def test_outside_the_domain_no_slope_is_a_number(row: Row) -> None:
    """Also where the formula of the slope has a value, as 1/x below 0. At poles it may be infinite."""
    x = variable("x")
    output = get_op(row.name)(x)
    is_defined = FLOATS.predicate(get_op(row.name), "domain", 1)
    for place in (-3.0, -1.5, -0.5, 0.5, 1.5, 3.0) if is_defined else ():
        if not is_defined(place):
            for way in ("reverse", "forward", "graph"):
                assert not math.isfinite(WAYS[way](output, [x], {"x": place})[0]), (place, way)


@pytest.mark.slow
@each("row", [row for row in ROWS if len(row.domain) == 1], ids=lambda row: row.name)
@each("x", [0.0, -0.0, 1.0, -1.0])
def test_second_derivatives_at_edges_agree_in_every_way(row: Row, x: float) -> None:
    """By the graph of the gradient as by series, so that an infinite one at the edge of a domain is not nan."""
    f = Formula(get_op(row.name)(leaf := variable("x")), {"x": leaf})
    np.testing.assert_allclose(f.hessian(x=x), [[f.derivatives("x", 2, x=x)[2]]], rtol=1e-12)


# Helpers that rules use only where the number is positive, or only where it is not 0.
OF_POSITIVE_NUMBERS = {"edge_distance", "logit_slope"}
OFF_ZERO = {"direction", "pow_slope_base"}


@each("op", [op for op in all_ops() if not op.is_structural], ids=lambda op: op.name)
def test_every_rule_is_the_derivative_also_that_of_helpers(op: Op) -> None:
    """Rules of rules follow, and no row of the table says what a helper is. Values are proven to 100 digits, and
    compared where they have a slope, so edges of domains where a rule says something of its own count as well."""
    leaves = [variable(name) for name in NAMES[: op.min_inputs]]
    tape = Tape([output := op(*leaves), *gradient_nodes(output, leaves)])
    step = 2.0**-100
    numbers = (0.25, 1.75) if len(leaves) > 3 else (0.0, 0.25, 1.75) if len(leaves) > 1 else (0.0, 0.25, 1.75, -0.6)
    points = [*itertools.product(numbers, repeat=len(leaves))]
    for point in points if len(leaves) == 1 else evenly_spread_part(points[1:]):
        if (op.name in OFF_ZERO and 0 in point) or (op.name in OF_POSITIVE_NUMBERS and min(point) < 0):
            continue
        with precision(500) as kind:
            at = [*map(from_float, point)]
            for k in {*range(len(leaves))} - {*op.unavailable_inputs}:
                try:
                    slope = as_ball(forward(tape, kind, dict(zip(NAMES, at, strict=False)))[tape.outputs[1 + k]])
                    moved = [[*at[:k], at[k] + side * from_float(step), *at[k + 1 :]] for side in (-1, 0, 1)]
                    low, middle, high = (as_ball(kind.function(op, len(at))(*place)) for place in moved)
                except Undecided:
                    continue
                exact = (high - low) / (2 * step)
                is_smooth = abs(high - 2 * middle + low) < 1e-9 * step and abs(exact) < 1e9
                assert not is_smooth or abs(slope - exact) < 1e-15 * (1 + abs(exact)), (point, k)


def test_slopes_of_helpers_are_those_of_their_expansions() -> None:
    """They come up only in second derivatives. The slope of `flat_slope` is unknown. Orders are whole numbers."""
    tried = 0
    for op in (op for op in all_ops() if op.is_helper and op.expansion and not op.is_structural):
        leaves = [variable(name) for name in NAMES[: op.min_inputs]]
        inputs = [leaf for k, leaf in enumerate(leaves) if k not in op.unavailable_inputs]
        tapes = [Tape(gradient_nodes(node, inputs)) for node in (op(*leaves), op.expansion(*leaves))]
        for first, rest in itertools.product((0.3, 1.0, 2.0), ((0.7, 1.6, 0.4), (1.6, 0.3, 0.8))):
            point = {leaf.text: number for leaf, number in zip(leaves, (first, *rest), strict=False)}
            slopes, wanted = ([forward(tape, FLOATS, point)[k] for k in tape.outputs] for tape in tapes)
            for found, exact in zip(slopes, wanted, strict=True):
                if math.isfinite(exact):
                    assert found == pytest.approx(exact, rel=1e-8, abs=1e-12), (op.name, point)
                    tried += 1
    assert tried > 300


@each(
    "op",
    [op for op in all_ops() if op.spelling and not op.is_structural and op.min_inputs <= 3],
    ids=lambda op: op.name,
    quick=lambda op: op.name in ("erf", "erfinv", "voigt"),  # the rules of which have the number π
)
def test_variables_with_the_names_of_numbers_are_not_those_of_rules(op: Op) -> None:
    names = ("pi", "e", "x")[: op.min_inputs]
    formula = parse(f"{op.spelling}({', '.join(names)})", names)
    point = dict(zip(names, (0.7, 0.4, 1.3), strict=False))
    for name, slope in formula.grad(**point).items():
        derivative = formula.derivative(name)
        found = derivative(**{each: point[each] for each in derivative.variables})
        np.testing.assert_allclose(found, slope, rtol=1e-9, atol=1e-12)


@each("name", LOG_DENSITIES)
def test_log_densities_of_what_is_unknown_are_unknown(name: str) -> None:
    """Also outside of the support."""
    names = "xabc"[: len(LOG_DENSITIES[name][1])]
    density = parse(f"{name}_logpdf({', '.join(names)})")
    for x, unknown in itertools.product((-1.0, 0.5, 3.0), names):
        assert math.isnan(density({**dict(zip(names, (x, 1.0, 2.0, 3.0), strict=False)), unknown: math.nan}))

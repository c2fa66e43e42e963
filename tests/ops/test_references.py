"""Values and slopes of every operation at stored points of all magnitudes: floats, arrays and proven digits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from flint import arb
from mpmath import mpf

from autodiff_cli.array_types import ignore_float_errors
from autodiff_cli.backends.numpy_backend import BlockEvaluator
from autodiff_cli.backends.protocol import RowGraphs
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Op, get_op, variable
from autodiff_cli.numbers.ball_arithmetic import Number, Undecided, as_ball, from_float, nearest_float
from autodiff_cli.numbers.balls import precision
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.ops import all_ops
from tests.ops.references import read_references
from tests.ops.test_rules import NAMES, by_reverse, evaluate, ulps

REFERENCES = read_references()


@pytest.mark.parametrize("name", REFERENCES)
def test_floats_and_arrays_have_the_stored_digits(name: str) -> None:
    op = get_op(name)
    bad = []
    for count in {len(point) for point, _ in REFERENCES[name]}:
        known = [(point, numbers) for point, numbers in REFERENCES[name] if len(point) == count]
        leaves = [variable(x) for x in NAMES[:count]]
        output = op(*leaves)
        kernel = BlockEvaluator(RowGraphs([output, *gradient_nodes(output, leaves)], {leaf.text for leaf in leaves}))
        columns = dict(zip(NAMES, np.array([point for point, _ in known]).T, strict=False))
        with ignore_float_errors():
            outputs = kernel.evaluate_block(kernel.prepare({}), columns, slice(0, len(known)))
        found = [np.broadcast_to(out, len(known)) for out in outputs]
        for k, (point, numbers) in enumerate(known):
            named = dict(zip(NAMES, point, strict=False))
            floats = [evaluate(output, named), *by_reverse(output, leaves, named)]
            for kind, results in (("floats", floats), ("arrays", [out[k] for out in found])):
                for which, (result, exact) in enumerate(zip(results, numbers, strict=True)):
                    if exact is None:
                        continue
                    number, terms = exact
                    error = ulps(float(result), mpf(number), mpf(terms))
                    if error > op.ulp_bound + 1:
                        bad.append((kind, point, which, float(result), number, round(error, 1), op.ulp_bound))
    assert not bad


@pytest.mark.parametrize("name", REFERENCES)
def test_balls_have_the_stored_values_and_enclose_those_around(name: str) -> None:
    """Balls of some width enclose the values at their corners, and are not much wider than these are apart."""
    op, bad, known = get_op(name), [], REFERENCES[name]
    is_of_an_order = name in {"polygamma", "sinc_derivative", "sinhc_derivative"} or name.startswith("bessel")
    with precision(100) as kind:
        for point, numbers in known[:: max(1, len(known) // (20 if len(known[0][0]) < 4 else 4))]:
            assert numbers[0] is not None
            function, (number, terms) = kind.function(op, len(point)), numbers[0]
            value = as_ball(function(*map(from_float, point)))
            if ulps(nearest_float(value), mpf(number), mpf(terms)) > 1 or value.rad() > abs(value.mid()) * 1e-14:
                bad.append((point, value, number))
            for share in (1e-9, 1e-2):
                radii = [arb(abs(x) * share) for x in point]
                if is_of_an_order:
                    radii[0] = arb(0)
                enclosed = value_of(function, [arb(x, radius) for x, radius in zip(point, radii, strict=True)])
                hull = value
                for sides in itertools.product((-1, 1), repeat=len(point)):
                    corner = [arb(x) + side * radius for x, side, radius in zip(point, sides, radii, strict=True)]
                    at_corner = value_of(function, corner)
                    hull = hull if at_corner is None or at_corner.is_nan() else hull.union(at_corner)
                if enclosed is None:
                    bad += [] if share > 1e-6 else [(point, "undecided")]
                elif not (enclosed + arb(0, float(enclosed.rad()) * 0.02) + value * arb(0, 1e-25)).contains(hull):
                    bad.append((point, enclosed, hull))
                elif share < 1e-6 and name not in WIDE and enclosed.rad() > 1000 * hull.rad() + 1e-12 * abs(value):
                    bad.append((point, enclosed, "is wider than", hull))
    assert not bad, "\n".join(map(str, bad))


# FLINT's balls are wide there, and so are results where the arguments occur more than once.
WIDE = {"besselj", "bessely", "besseli", "beta", "wofz_real", "wofz_imag", "voigt", "cosh", "sech", "student_t_pdf"}
WIDE |= {"sinc_derivative", "fresnels", "fresnelc", "softsign", "spline", "gammainc_slope", "gammainc_curvature"}


def value_of(function: Callable[..., Number], point: Sequence[Number]) -> arb | None:
    try:
        return as_ball(function(*point))
    except Undecided:
        return None


HELPERS = [op for op in all_ops() if op.is_helper and not op.is_structural and op.name in FLOATS.table]
# Products of a gamma density may be large where it is small, and slopes of others have terms that cancel.
FEWER_DIGITS = {"gamma_density": 400, "beta_slope": 20}


@pytest.mark.parametrize("op", HELPERS, ids=lambda op: op.name)
def test_helpers_have_the_digits_of_balls(op: Op) -> None:
    """No row of the table says what a helper is; its balls are computed from its definition."""
    count, bound, compared = op.min_inputs, max(op.ulp_bound, FEWER_DIGITS.get(op.name, 0)), 0
    if count == 1:
        numbers: tuple[float, ...] = (-2.5, -0.3, 0.0, 1e-6, 0.4, 1.0, 3.7, 12.5)
        numbers += (-1e300, -1e9, -746.0, -709.5, -40.0, -1e-9, 1e-300, 1e-9, 40.0, 709.5, 713.0, 1e9, 1e300)
    else:
        numbers = (0.0, 1.0, 2.0, 0.3, -0.7, 5.5, 1e-3, 40.0)
    points = itertools.product(numbers, repeat=count)
    if op.name == "polygamma_diff":  # of low orders, between numbers above 0
        points = (point for point in points if point[0] < 4 and point[1] > 0 <= point[2])
    with precision(300) as kind:
        for point in points:
            value = value_of(kind.function(op, count), [*map(from_float, point)])
            if value is None or not value.is_finite() or value.rad() > max(abs(value.mid()) * 1e-18, 1e-320):
                continue  # not enough is known
            compared += 1
            number, exact = FLOATS.function(op, count)(*point), nearest_float(value)
            if abs(exact) > 1e-80:  # smaller ones are zeros
                assert number == exact or abs(number - exact) <= (bound + 1) * math.ulp(exact), point
            else:
                assert abs(number) < 1e-70, point
    assert compared > 4

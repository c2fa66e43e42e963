"""Values and slopes of every operation at stored points of all magnitudes: floats, arrays and proven digits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from flint import arb
from mpmath import mpf

from autodiff_cli.backends.numpy_backend import BlockEvaluator
from autodiff_cli.backends.protocol import RowGraphs
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import get_op, variable
from autodiff_cli.numbers.arrays import ignore_float_errors
from autodiff_cli.numbers.ball_arithmetic import Number, Undecided, as_ball, from_float, nearest_float
from autodiff_cli.numbers.balls import precision
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
            found = [np.broadcast_to(out, len(known)) for out in kernel.evaluate_block(kernel.prepare({}), columns)]
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


def value_of(function: Callable[..., Number], point: Sequence[arb]) -> arb | None:
    try:
        return as_ball(function(*point))
    except Undecided:
        return None

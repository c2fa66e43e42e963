"""Constants and definitions of operations hold to any number of digits: values and slopes to 60, against mpmath."""

from __future__ import annotations

from mpmath import mp, mpf

from autodiff_cli.autodiff.arbitrary_precision import evaluate_to_digits
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import get_op, variable
from autodiff_cli.numbers.ball_arithmetic import format_digits, from_float, is_finite
from autodiff_cli.ops.functions import SELU_ALPHA, SELU_SCALE
from tests.each import amount, each
from tests.ops.table import ROWS, Row
from tests.ops.test_rules import NAMES

PLACES = (0.3, 0.7, 1.6, -0.4, -2.5)


@each("row", ROWS, ids=lambda row: row.name)
def test_values_and_slopes_to_60_digits(row: Row) -> None:
    leaves = [variable(name) for name in NAMES[: len(row.domain)]]
    output = get_op(row.name)(*leaves)
    outputs = [output, *gradient_nodes(output, leaves)]
    for place in PLACES[: amount(1, 5, 5)]:
        point = [min(max(place + 0.25 * k, low), high) for k, (low, high) in enumerate(row.domain)]
        leaves_at = {leaf.text: from_float(x) for leaf, x in zip(leaves, point, strict=True)}
        found = evaluate_to_digits(outputs, 62, leaves=leaves_at)
        with mp.workdps(150):
            for number, is_proven, exact in zip(found.numbers, found.is_proven, (row.value, *row.slopes), strict=True):
                if exact is None or not is_finite(number) or not is_proven:
                    continue
                expected = mpf(exact(*map(mpf, point)))
                assert abs(mpf(format_digits(number, 62)) - expected) <= mpf(10) ** -60 * abs(expected), (point, number)


def test_the_constants_of_selu_are_the_fixed_point_that_they_stand_for() -> None:
    """The closed forms of Klambauer et al. 2017, to the digits that are published."""
    with mp.workdps(60):
        inside, outside = mp.erfc(1 / mp.sqrt(2)), mp.erfc(mp.sqrt(2))
        alpha = -mp.sqrt(2 / mp.pi) / (inside * mp.sqrt(mp.e) - 1)
        below = 2 * outside * mp.e**2 + mp.pi * inside**2 * mp.e - 2 * (2 + mp.pi) * inside * mp.sqrt(mp.e) + mp.pi + 2
        scale = (1 - inside * mp.sqrt(mp.e)) * mp.sqrt(2 * mp.pi / below)
        assert mp.nstr(alpha, 32) == SELU_ALPHA.text
        assert mp.nstr(scale, 32) == SELU_SCALE.text

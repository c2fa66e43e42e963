"""What records say of values, against the reference."""

from __future__ import annotations

import itertools
import math

from mpmath import mp, mpc, mpf

from autodiff_cli.algebra.simplify import is_increasing
from autodiff_cli.graph.node import variable
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.ops import all_ops, get_op
from tests.each import each, evenly_spread_part
from tests.ops.table import ROWS, Number, Row

OF_ONE_NUMBER = [row for row in ROWS if get_op(row.name).max_inputs == 1]
EXACT = [row for row in ROWS if get_op(row.name).is_exact]
SAMPLES = sorted({*(k / 7 for k in range(-60, 61)), -1.5, -0.01, 0.01, 0.25, 1.5})
WHOLE = (-98_765_432_109, -94_906_265, -7, -3, -2, -1, 0, 1, 2, 3, 11, 94_906_263, 123_456_789_012)


def value(row: Row, *point: float) -> Number | None:
    """The reference's value, None where it is not real."""
    try:
        found = row.value(*map(mpf, point))
    except (ZeroDivisionError, ValueError):
        return None
    return None if isinstance(found, mpc) or mp.isnan(found) else mpf(found)


@each("row", OF_ONE_NUMBER, ids=lambda row: row.name)
def test_parity(row: Row) -> None:
    with mp.workdps(60):
        pairs = [(value(row, x), value(row, -x)) for x in (0.25, 0.5, 0.875, 1.5, 2.25, 5.0)]
        found = {0}
        for parity in (-1, 1):
            same = [
                there is None if here is None else there is not None and abs(there - parity * here) < 1e-40
                for here, there in pairs
            ]
            if all(same):
                found = {parity}
    assert {get_op(row.name).parity} == found


def test_only_functions_of_one_number_have_a_parity() -> None:
    assert [op.name for op in all_ops() if op.parity and (op.max_inputs != 1 or op.is_structural)] == []


@each("row", OF_ONE_NUMBER, ids=lambda row: row.name, quick=lambda row: row.name not in ("sinc", "sinhc"))
def test_what_is_always_positive_or_recognised_as_increasing_is(row: Row) -> None:
    with mp.workdps(60):
        found = [there for x in SAMPLES if (there := value(row, x)) is not None]
    assert found
    assert get_op(row.name).is_positive == all(there > 0 for there in found)
    if is_increasing(get_op(row.name)(variable("x"))):
        assert found == sorted(set(found))


def test_bounded_link_functions_are_recognised_as_increasing() -> None:
    for name in ("exp", "exp2", "sigmoid", "normal_cdf", "softplus", "tanh", "erf", "atan"):
        assert is_increasing(get_op(name)(variable("x"))), name


@each("row", EXACT, ids=lambda row: row.name)
def test_whole_numbers_stay_exact(row: Row) -> None:
    op, count = get_op(row.name), len(row.domain)
    points = [*itertools.product(WHOLE, repeat=count)]
    for point in points if count < 3 else evenly_spread_part(points):
        if row.name == "pow" and abs(point[1]) > 12:
            continue
        with mp.workdps(300):
            exact = value(row, *point)
        if exact is not None and mp.isint(exact) and abs(exact) < 2**53:
            assert FLOATS.function(op, count)(*map(float, point)) == exact, point


@each("op", [op for op in all_ops() if op.saturation_values is not None], ids=lambda op: op.name)
def test_activations_are_flat_at_their_ends(op) -> None:  # type: ignore[no-untyped-def]
    function = FLOATS.function(op, 1)
    slope = FLOATS.partials(op, 1, (0,))
    assert op.saturation_values is not None
    for x, end in zip((-800.0, 800.0), op.saturation_values, strict=True):
        if math.isfinite(end):
            assert function(x) == end
            assert slope(function(x), x)[0] in (None, 0)
        else:
            assert function(x) == x


def test_units_that_die() -> None:
    assert {op.name for op in all_ops() if op.can_die} == {"relu", "relu6"}

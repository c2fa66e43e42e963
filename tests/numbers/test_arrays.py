"""Operations on arrays agree with operations on floats, and both propagate nan."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.array_types import Array, ignore_float_errors
from autodiff_cli.graph.node import Gate, Op
from autodiff_cli.numbers.arrays import ARRAYS, SPECIAL, _ArrayFactors, start_perturbed_array_run
from autodiff_cli.numbers.balls import precision
from autodiff_cli.numbers.floats import FLOATS, OPERATIONS, PERTURBED_RUNS, _FactorSequence, start_perturbed_run
from autodiff_cli.ops import all_ops, get_op
from autodiff_cli.ops.functions import LOG_DENSITIES
from tests.each import amount, each, evenly_spread_part

ELEMENTWISE = [op for op in all_ops() if not op.is_structural]
SIZES = (
    5e-324, 1e-310, 2.3e-308, 1e-200, 1e-20, 1e-9, 0.01, 0.3, 0.5, 0.7, 1 - 2**-53, 1.0, 1 + 2**-52, 1.5, 2.0, 2.5, 3.0,
    7.0, 20.5, 30.0, 100.0, 709.5, 745.0, 800.0, 1e4, 1e10, 1e16, 1e22, 1e155, 1e200, 1e300, inf,
)  # fmt: skip
GRID = (*(-x for x in SIZES), -0.0, 0.0, *SIZES, nan)
COARSE = (-inf, -800.0, -2.5, -2.0, -1.0, -0.5, -0.0, 0.0, 1e-200, 0.5, 1.0, 2.0, 3.0, 800.0, 1e200, inf, nan)
OF_AN_ORDER = {"sinc_derivative", "sinhc_derivative", "polygamma"}

LOG_GAMMAS = {"gamma_logpdf", "beta_logpdf"}


def inputs_of(op: Op) -> list[tuple[float, ...]]:
    if op.name in OF_AN_ORDER:
        return list(itertools.product((0.0, 1.0, 2.0, 3.0, 1.5, -1.0, inf, nan), GRID))
    count = max(op.min_inputs, 1) if op.max_inputs is not None else max(op.min_inputs, 2)
    if count > 4:
        return [*itertools.product((-1.0, 0.0, 2.0, nan), repeat=count)]
    # Terms of gamma and beta densities are as large as their arguments, and cancel: of large ones no digit is left.
    values = [x for x in COARSE if not 1e15 < abs(x) < inf] if op.name in LOG_GAMMAS else COARSE
    return [(x,) for x in GRID] if count == 1 else evenly_spread_part([*itertools.product(values, repeat=count)])


def by_arrays(op: Op, points: list[tuple[float, ...]]) -> list[float]:
    columns = [np.array(column) for column in zip(*points, strict=True)]
    with ignore_float_errors():
        found: list[float] = np.broadcast_to(ARRAYS.function(op, len(columns))(*columns), (len(points),)).tolist()
    return found


def by_floats(op: Op, points: list[tuple[float, ...]]) -> list[float]:
    return [FLOATS.function(op, len(point))(*point) for point in points]


# Sums that cancel: there the last digits of the terms count. Those of log-densities are logarithms, up to about 1000.
CANCELS = dict.fromkeys(("logaddexp", "silu_slope", "mish_slope"), 4e-15)
CANCELS |= {f"{name}_logpdf": 4e-13 for name in LOG_DENSITIES}


def same(op: Op, a: float, b: float) -> bool:
    relative, absolute = max(4e-15, op.ulp_bound * 2**-52), CANCELS.get(op.name, 1e-307)
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=relative, abs_tol=absolute)


@each("op", ELEMENTWISE, ids=lambda op: op.name)
def test_arrays_agree_with_floats_at_the_edges(op: Op) -> None:
    points = inputs_of(op)
    found = zip(points, by_arrays(op, points), by_floats(op, points), strict=True)
    wrong = [difference for difference in found if not same(op, *difference[1:])]
    assert not wrong, wrong[:5]


@each("op", ELEMENTWISE, ids=lambda op: op.name)
def test_a_zero_has_the_same_sign_in_a_column(op: Op) -> None:
    ends = (0.0, -0.0, 1.0, -1.0, 2.5, -2.5, math.inf, -math.inf, 5e-324, -5e-324, 1e308)
    count = min(op.max_inputs or max(op.min_inputs, 2), max(op.min_inputs, 2))
    points = [*itertools.product(ends[: (11, 11, 6, 4, 3)[count - 1]], repeat=count)]
    found = zip(points, by_arrays(op, points), by_floats(op, points), strict=True)
    wrong = [row for row in found if row[1] == 0 and math.copysign(1, row[1]) != math.copysign(1, row[2])]
    assert not wrong, wrong[:5]


# Special functions cross zero in places where a relative difference says nothing; `test_special` compares them.
PLAIN = [op for op in ELEMENTWISE if op.name not in {*SPECIAL, "sinc_derivative"}]


@each("op", PLAIN, ids=lambda op: op.name)
def test_arrays_agree_with_floats_at_random_points(op: Op) -> None:
    """Half of the numbers have any bits."""
    count = max(op.min_inputs, 1) if op.max_inputs is not None else max(op.min_inputs, 2)
    generator = np.random.default_rng([*op.name.encode()])
    size = (amount(200, 1000, 5000), count)
    of_any_bits = generator.integers(2**64, size=size, dtype=np.uint64).view(np.float64)
    numbers = np.where(generator.random(size) < 0.5, of_any_bits, generator.uniform(-50, 50, size))
    points = [*map(tuple, numbers.tolist())]
    compared = zip(points, by_arrays(op, points), by_floats(op, points), strict=True)
    wrong = [difference for difference in compared if not same(op, *difference[1:])]
    assert not wrong, wrong[:5]


# What may not depend on the input that is nan: nan^0 and 1^nan are 1, hypot(nan, inf) is inf; a choice hands on what it
# chose; a comparison with nan does not hold.
KNOWS_BETTER = {"pow", "pow_slope_base", "pow_slope_exponent", "hypot", "direction", "where", "vanishing_product"}
KNOWS_BETTER |= {"neighbours_slope", "scaled_slope_base", "vanishing_quotient"}
KNOWS_BETTER |= {"eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not"}


@each("op", [op for op in ELEMENTWISE if op.name not in KNOWS_BETTER], ids=lambda op: op.name)
def test_nan_propagates(op: Op) -> None:
    count = max(op.min_inputs, 1 if op.max_inputs else 2)
    ends = (nan, 0.0, -1.0, 0.5, 2.0, inf, -inf, -0.0)[: (8, 8, 5, 3)[min(count, 4) - 1]]
    points = [point for point in itertools.product(ends, repeat=count) if any(map(math.isnan, point))]
    for by in (by_floats, by_arrays):
        assert all(map(math.isnan, by(op, points))), by.__name__


@each(
    ("name", "point", "value"),
    [
        ("pow", (nan, 0.0), 1.0),
        ("pow", (1.0, nan), 1.0),
        ("pow", (nan, 2.0), nan),
        ("pow", (2.0, nan), nan),
        ("hypot", (nan, inf), inf),
        ("hypot", (nan, 1.0), nan),
        ("where", (0.0, nan, 3.0), 3.0),
        ("where", (1.0, nan, 3.0), nan),
        ("eq", (nan, nan), 0.0),
        ("ne", (nan, nan), 1.0),
        ("lt", (nan, 1.0), 0.0),
        ("ge", (1.0, nan), 0.0),
    ],
)
def test_nan_in_an_irrelevant_input_is_ignored(name: str, point: tuple[float, ...], value: float) -> None:
    op = next(op for op in ELEMENTWISE if op.name == name)
    for by in (by_floats, by_arrays):
        assert by(op, [point]) == pytest.approx([value], nan_ok=True)


@given(st.integers(0, 2**32 - 1), st.sampled_from([((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((4, 5), (5, 3))]))
def test_products_of_small_arrays_are_rounded_as_products_and_sums_of_floats(
    seed: int, shapes: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    """On any processor: some libraries round a product and a sum at once, so `[x, k] @ [k, -x]` is not 0."""
    generator = np.random.default_rng(seed)
    a, b = (generator.normal(size=shape) for shape in shapes)
    found = ARRAYS.function(get_op("matmul"), 2)(a[..., None], b[..., None])[..., 0]
    left, right = np.atleast_2d(a), b[:, None] if b.ndim == 1 else b
    wanted = [
        [functools.reduce(operator.add, map(operator.mul, row, column)) for column in right.T.tolist()]
        for row in left.tolist()
    ]
    np.testing.assert_array_equal(found, np.reshape(wanted, found.shape))


@each("op", [op for op in all_ops() if not op.is_structural])
def test_arrays_are_perturbed_as_floats_are(op: Op) -> None:
    """Also within operations that are defined by others."""
    for start in (0.3, 1.3, 2.7, 1234.567):
        xs = [start + 0.137 * k for k in range(op.min_inputs)]
        with ignore_float_errors():
            numbers = [start_perturbed_run(run).function(op, len(xs))(*xs) for run in PERTURBED_RUNS]
            kinds = [start_perturbed_array_run(run) for run in PERTURBED_RUNS]
            columns = [kind.function(op, len(xs))(*(np.array([x]) for x in xs)) for kind in kinds]
            of_numbers, of_columns = np.ptp(numbers), np.ptp(columns)
        assert not of_columns < of_numbers / 100, (start, numbers, columns)


def in_runs(name: str, *inputs: float | list[Any]) -> Array:
    """Return the results of an operation in the perturbed runs, which are the last axis."""
    kind = start_perturbed_array_run(*PERTURBED_RUNS)
    arrays = [np.array(x, dtype=float)[..., None] for x in inputs]
    with ignore_float_errors():
        return np.asarray(kind.function(get_op(name), len(arrays))(*arrays))


SHORT, LONG, TINY = [[1.5, -2.0], [0.25, 3.0]], [[0.1, -0.7], [0.3, 1.9]], [[1e-200, 2e-200], [3e-250, 1e-300]]


@each(
    "name, inputs",
    [
        *(("sum", (x,)) for x in (LONG, LONG[0])),
        *(("matmul", (a, b)) for a in (LONG, SHORT, LONG[0]) for b in (LONG, LONG[1])),
        ("matmul", (SHORT, [[0.1, 0.3], [1e-3, 2.0]])),
        ("outer", (LONG[0], LONG[1])),
        ("outer", (SHORT[0], LONG[1])),
        *((name, (x,)) for name in ("norm", "prod", "logsumexp", "softmax") for x in (LONG, SHORT, LONG[0])),
        *((name, (a, b)) for name in ("add", "mul", "sub", "div", "pow", "hypot") for a, b in ((0.3, 1.7), (1.5, 2.1))),
        *((name, (x,)) for name in ("exp", "sqrt", "square", "sin", "tanh", "log") for x in (0.3, 1.1)),
    ],
)
def test_rounded_results_of_arrays_are_perturbed_by_a_few_ulps(name: str, inputs: tuple[Any, ...]) -> None:
    runs = in_runs(name, *inputs)
    plain = np.asarray(
        ARRAYS.function(get_op(name), len(inputs))(*(np.array(x, dtype=float)[..., None] for x in inputs))
    )
    assert runs.shape == (*plain.shape[:-1], 3)
    terms = (
        np.abs(plain)
        if name != "matmul"
        else np.asarray(ARRAYS.function(get_op(name), 2)(*(np.abs(np.array(x))[..., None] for x in inputs)))
    )
    terms = terms + (1.0 if name == "logsumexp" else float(np.abs(np.array(inputs[0])).sum()) if name == "sum" else 0.0)
    spread = np.ptp(runs, axis=-1)
    assert (spread > 0).all()
    assert (np.abs(runs - plain) <= 40 * 2.0**-52 * terms).all()
    of_floats = (
        np.array([start_perturbed_run(run).function(get_op(name), len(inputs))(*inputs) for run in PERTURBED_RUNS])
        if not np.ndim(inputs[0])
        else None
    )
    assert of_floats is None or np.ptp(of_floats) > 0


@each(
    "name, inputs",
    [
        ("sum", (SHORT,)),
        *(("matmul", (a, b)) for a in (SHORT, SHORT[0]) for b in (SHORT, SHORT[1])),
        ("outer", (SHORT[0], SHORT[1])),
        ("transpose", (LONG,)),
        *((name, (a, b)) for name in ("add", "sub", "mul") for a, b in ((0.5, 1.25), (-3.0, 0.0), (2.0**40, 1.0))),
        *((name, (a, b)) for name in ("max", "min") for a, b in ((0.1, 0.7), (0.3, -0.1))),
        *(("pow", (a, b)) for a, b in ((3.0, 4.0), (1.5, 2.0), (2.5, 1.0), (0.25, 0.0), (-2.0, 3.0))),
        *((name, (x,)) for name in ("square", "abs", "neg", "floor", "relu") for x in (1.5, -2.0, 0.0)),
        *((name, (x,)) for name in ("sqrt", "sin", "tanh") for x in (0.0,)),
    ],
)
def test_exact_results_of_short_numbers_are_not_perturbed(name: str, inputs: tuple[Any, ...]) -> None:
    runs = in_runs(name, *inputs)
    assert (np.ptp(runs, axis=-1) == 0).all()
    plain = ARRAYS.function(get_op(name), len(inputs))(*(np.array(x, dtype=float)[..., None] for x in inputs))
    np.testing.assert_array_equal(runs, np.broadcast_to(plain, runs.shape))


@each(
    "name, inputs",
    [
        ("mul", (1e-200, 1e-200)),
        ("div", (1e-200, 1e200)),
        ("square", (1e-170,)),
        ("exp", (-800.0,)),
        ("matmul", (TINY, TINY)),
        ("matmul", (TINY[0], TINY[1])),
        ("prod", (TINY,)),
        ("norm", ([1e-310, 0.0],)),
        ("outer", (TINY[0], TINY[1])),
        ("softmax", ([0.0, -900.0],)),
    ],
)
def test_results_that_underflow_are_told_from_0(name: str, inputs: tuple[Any, ...]) -> None:
    runs = in_runs(name, *inputs)
    assert (runs > 2.0**-1022).all()
    assert (np.ptp(runs, axis=-1) > 0).all()
    if not np.ndim(inputs[0]):
        of_floats = [start_perturbed_run(run).function(get_op(name), len(inputs))(*inputs) for run in PERTURBED_RUNS]
        assert min(of_floats) > 2.0**-1022
        assert np.ptp(of_floats) > 0
    assert (in_runs(name, *(np.multiply(x, 0.0) for x in inputs)) == 0).all() or name in ("exp", "softmax", "div")


SMALL_AND_LARGE = [0.0, 1e-200, -1e-200, 0.5, -2.0, 30.0, -100.0, 700.0, -800.0, 1e5, -1e5, 1e200]


@each("name", [name for name in OPERATIONS if get_op(name).gate in (Gate.SCALE, Gate.SWAP)])
def test_no_function_underflows_to_0_unnoticed_whatever_inputs_are_0(name: str) -> None:
    op = get_op(name)
    with precision(200) as balls:
        for xs in (*itertools.product(SMALL_AND_LARGE), *itertools.product(SMALL_AND_LARGE, repeat=2)):
            if not op.accepts(len(xs)):
                continue
            try:
                result, exact = OPERATIONS[name](*xs), arb(balls.function(op, len(xs))(*map(arb, xs)))
            except (ArithmeticError, ValueError):
                continue
            if abs(result) >= 2.0**-1022 or exact.contains(0) or not abs(exact) < 2.0**-1022:
                continue
            runs = [start_perturbed_run(run).function(op, len(xs))(*xs) for run in PERTURBED_RUNS]
            assert min(map(abs, runs)) > 2.0**-1022, xs


@each(
    "runs",
    [
        [[(1.0, 2.0)], [(1.001, 2.0)], [(0.999, 2.0)]],
        [[(1.0, 1.0)], [(1.0, 1.0)], [(1.0, 1.0)]],
        [[(1.0, 1.01)], [(1.02, 1.0)], [(1.0, 1.01)]],
        [[(0.01, 5.0)], [(-0.01, 5.0)], [(0.02, 5.0)]],
        [[(5.0, 0.01)], [(5.0, -0.01)], [(5.0, 0.02)]],
        [[(1.0, 2.0)], [(1.0, 2.0)], [(math.inf, 2.0)]],
        [[(7.0, 2.0), (1.0, 1.01)], [(7.0, 2.0), (1.02, 1.0)], [(7.0, 2.0), (1.0, 1.01)]],
        [[(7.0, 2.0), (1.0, 2.0)], [(7.0, 2.0), (1.0, 2.0)], [(7.0, 2.0), (1.0, 2.0)]],
    ],
)
def test_comparisons_of_arrays_are_in_doubt_as_those_of_numbers_are(runs: list[list[tuple[float, float]]]) -> None:
    numbers, one_by_one, together = _FactorSequence(), _ArrayFactors(), _ArrayFactors()
    for run, sides in zip(PERTURBED_RUNS, runs, strict=True):
        numbers.start(run)
        one_by_one.start([run])
        for a, b in sides:
            numbers.compared(a, b)
            one_by_one.compared(np.array([a]), np.array([b]))
    together.start(PERTURBED_RUNS)
    assert not together.has_comparisons()
    for sides in zip(*runs, strict=True):
        together.compared(*(np.array([side[k] for side in sides]) for k in (0, 1)))
    assert together.has_comparisons()
    assert one_by_one.undecided.any() == together.undecided.any() == numbers.has_undecided()
    together.start(PERTURBED_RUNS)
    assert not together.undecided.any()

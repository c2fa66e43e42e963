"""Arrays of intervals enclose the exact values of every operation."""

from __future__ import annotations

import itertools
import math

import numpy as np
from mpmath import mp, mpf

from autodiff_cli import parse
from autodiff_cli.array_types import ignore_float_errors
from autodiff_cli.autodiff.arbitrary_precision import evaluate_to_digits
from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.graph.node import Op
from autodiff_cli.numbers import ball_arithmetic as ball
from autodiff_cli.numbers.arrays import ARRAYS
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.numbers.intervals import INTERVALS, INVERSES, Intervals
from autodiff_cli.ops import all_ops, get_op
from autodiff_cli.solving.search import Propagation
from tests.each import each
from tests.fuzz.references import references

FORMULAS = (
    "x^3 - 2*x - 5",
    "x + 0.1",
    "x/y",
    "x^y",
    "x^-2",
    "x^2.5",
    "x^3",
    "sqrt(x*y)",
    "cbrt(x)",
    "root(x, 3)",
    "hypot(x, y)",
    "sin(x)",
    "cos(x)*y",
    "tan(x)",
    "sec(x)",
    "coth(x)",
    "asin(x)",
    "acos(x)",
    "atan(x)",
    "atan2(y, x)",
    "acot(x)",
    "sinh(x)",
    "cosh(y)",
    "tanh(x)",
    "asinh(x)",
    "acosh(y)",
    "atanh(x)",
    "exp(x) - y",
    "exp2(x)",
    "expm1(x)",
    "log(x)",
    "log1p(x)",
    "log2(x)",
    "log10(x)",
    "sinc(x)",
    "erf(x)",
    "gamma(x)",
    "lambertw(x)",
    "sigmoid(x)",
    "gelu(x)",
    "silu(x)",
    "softplus(x)",
    "logaddexp(x, y)",
    "abs(x) - max(x, y)",
    "min(x, y, 1)",
    "clip(x, -1, y)",
    "relu(x)",
    "sign(x)*y",
    "where(x > y, x, 2)",
    "x > y",
    "x == y or not y < 1",
    "floor(x)*2",
    "ceil(y)",
    "round(x)",
    "x % y",
    "mod(x, 2)",
    "heaviside(x)",
    "where(log(x) > 0, 1, 2)",
    "1/(x - y)",
)


@each("text", FORMULAS)
def test_exact_values_at_points_of_boxes_are_enclosed(text: str) -> None:
    formula = parse(text)
    random = np.random.default_rng(len(text))
    count = 12
    middle, width = random.normal(size=(2, count)) * 2, 10.0 ** random.uniform(-8, 0.5, size=(2, count))
    lower, upper = np.floor((middle - width) * 8) / 8, middle + width
    point = {name: Intervals.between(*ends) for name, *ends in zip("xy", lower, upper, strict=True)}
    with np.errstate(all="ignore"):
        enclosed = forward(formula.tape, INTERVALS, point)[formula.tape.outputs[0]]
    low, high, is_continuous = (np.broadcast_to(part, count) for part in enclosed)
    for k in range(count):
        for share in (np.zeros(2), np.ones(2), *random.uniform(size=(3, 2))):
            at = np.clip(lower[:, k] + share * (upper[:, k] - lower[:, k]), lower[:, k], upper[:, k])
            leaves = {name: ball.from_float(x) for name, x in zip("xy", at.tolist(), strict=True)}
            (exact,) = evaluate_to_digits([formula.output], 25, leaves=leaves).numbers
            with ball.working_precision(200):
                if ball.is_finite(exact):
                    inside = not (ball.as_ball(exact) < low[k].item() or ball.as_ball(exact) > high[k].item())
                    assert inside, (text, at, exact, low[k], high[k])
                    assert not np.isnan(low[k])
                else:
                    assert not is_continuous[k], (text, at, exact)


@each("text", FORMULAS)
def test_unbounded_intervals_are_not_empty(text: str) -> None:
    tape = parse(text).tape
    everything = Intervals.between([-np.inf, 0, -1], [np.inf, np.inf, 1])
    with np.errstate(all="ignore"):
        enclosed = forward(tape, INTERVALS, {"x": everything, "y": Intervals.between([2, -1, 0], np.inf)})
    result = enclosed[tape.outputs[0]]
    assert not np.isnan(result.lower).any()
    assert not np.isnan(result.upper).any()
    assert not np.isposinf(result.lower).any()


def test_a_step_function_is_continuous_only_between_its_jumps() -> None:
    tape = parse("floor(x)").tape
    enclosed = forward(tape, INTERVALS, {"x": Intervals.between([0.2, 0.2], [0.9, 1.0])})[1]
    assert enclosed.is_continuous.tolist() == [True, False]
    assert (enclosed.lower.tolist(), enclosed.upper.tolist()) == ([0, 0], [0, 1])


CHOICES = ("and", "or", "where")  # which may be defined where an operand is not
ENDS = ((0.0, 0.0), (1.0, 1.0), (2.0, 2.0), (0.5, 0.5), (-1.0, -1.0), (0.2, 0.7), (-0.5, 0.5))


@each("name", [name for name in INTERVALS.table if get_op(name).max_inputs in (1, 2) and name not in CHOICES])
def test_nothing_is_defined_where_an_operand_may_not_be(name: str) -> None:
    count = get_op(name).max_inputs or 1
    function = INTERVALS.function(get_op(name), count)
    for ends in itertools.product(ENDS, repeat=count):
        for k in range(count):
            operands = [Intervals.between(*pair) for pair in ends]
            operands[k] = operands[k]._replace(is_continuous=np.asarray(False))
            with np.errstate(all="ignore"):
                assert not function(*operands).is_continuous, (ends, k)


@each(
    "name",
    [name for name in INTERVALS.table if get_op(name).max_inputs in (1, 2) and name not in (*CHOICES, "direction")],
)
@ignore_float_errors()
def test_values_at_infinities_are_enclosed(name: str) -> None:
    count = get_op(name).max_inputs or 1
    of_floats, of_intervals = (kind.function(get_op(name), count) for kind in (FLOATS, INTERVALS))
    for point in itertools.product((-math.inf, -2.0, 0.5, 3.0, math.inf), repeat=count):
        found = of_intervals(*(Intervals.between(x, x) for x in point))
        value = of_floats(*point)
        is_enclosed = found.lower - 1e-12 * abs(value) <= value <= found.upper + 1e-12 * abs(value)
        assert math.isnan(value) or is_enclosed or value in (found.lower, found.upper), point


GRID = (-1.0, -0.5, 0.0, 0.5, 1.0, 2.0)
CLOSE = 1e-9  # distance of points between which a function changes by more than 0.01 only if it jumps


@each(
    "name",
    [
        name
        for name, function in INTERVALS.table.items()
        if get_op(name).max_inputs in (1, 2) and "_by_balls" not in function.__qualname__ and name != "direction"
    ],
)
@ignore_float_errors()
def test_ends_that_meet_are_enclosed_and_jumps_are_not_continuous(name: str) -> None:
    """Of all boxes with ends on a grid, the values at and beside the points of the grid."""
    count = get_op(name).max_inputs or 1
    ends = [pair for pair in itertools.product(GRID, repeat=2) if pair[0] <= pair[1]]
    boxes = np.array([*itertools.product(ends, repeat=count)])
    enclosed = INTERVALS.function(get_op(name), count)(*(Intervals.between(*boxes[:, k].T) for k in range(count)))
    low, high, is_continuous = (
        np.broadcast_to(part, len(boxes)).reshape(-1, *[1] * count) for part in map(np.asarray, enclosed)
    )
    places = np.unique(np.add.outer(GRID, (-CLOSE, 0, CLOSE)))
    values = ARRAYS.function(get_op(name), count)(*np.meshgrid(*[places] * count, indexing="ij"))
    values, is_inside = np.broadcast_to(values, [len(places)] * count) * 1.0, np.ones((len(boxes), 1), np.bool_)
    for k in range(count):
        within = (boxes[:, k, :1] <= places) & (places <= boxes[:, k, 1:])
        is_inside = is_inside & within if k == 0 else is_inside[..., None] & within[:, None]
    is_known, margin = np.isfinite(values), 1e-9 * (1 + np.abs(values))
    assert not (is_inside & is_known & ~((low - margin <= values) & (values <= high + margin))).any()
    assert not (is_inside & ~is_known & is_continuous).any()
    for axis in range(count):
        is_near = np.moveaxis((np.diff(places) < 2 * CLOSE).reshape(-1, *[1] * (count - 1)), 0, axis)
        jumps = (np.abs(np.diff(values, axis=axis)) > 0.01) & is_near
        both = np.lib.stride_tricks.sliding_window_view(is_inside, 2, axis=axis + 1).all(axis=-1)
        assert not (both & jumps & is_continuous).any()


CLOSED = {"sqrt", "asin", "acos", "acosh"}  # functions that are known to be continuous from the ends of their domains


@each("op", [op for op in all_ops() if op.min_inputs == 1 == op.max_inputs and op.domain is not None])
def test_a_function_is_continuous_from_the_end_of_its_domain_only_if_it_has_a_value_there(op: Op) -> None:
    value = FLOATS.function(op, 1)
    for end in (-1.0, 0.0, 1.0):
        for other in (end - 0.25, end + 0.25):
            with np.errstate(all="ignore"):
                beside = Intervals.between(min(end, other), max(end, other))
                is_continuous = bool(INTERVALS.function(op, 1)(beside).is_continuous)
            has_values = math.isfinite(value(end)) and math.isfinite(value(other))
            assert has_values or not is_continuous, (end, other)
            assert is_continuous or not has_values or op.name not in CLOSED, (end, other)


def test_constants_are_exact_decimals() -> None:
    tape = parse("0.1 + 0.2 - 0.3").tape
    enclosed = forward(tape, INTERVALS, {})[tape.outputs[0]]
    assert enclosed.lower < 0 < enclosed.upper


@each("text", FORMULAS)
def test_propagation_keeps_points_where_a_formula_has_a_value(text: str) -> None:
    formula = parse(text)
    random = np.random.default_rng(len(text))
    propagation = Propagation([formula.output])
    size = 20
    points = {name: random.choice([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0], size) for name in formula.variables}
    spread = {name: random.choice([0.0, 0.1, 5.0], (2, size)) for name in points}
    boxes = {name: Intervals.between(x - spread[name][0], x + spread[name][1]) for name, x in points.items()}
    with np.errstate(all="ignore"):
        value = forward(formula.tape, INTERVALS, {name: Intervals.between(x, x) for name, x in points.items()})[-1]
    narrowed, is_empty, _ = propagation(boxes, [value])
    is_defined = value.is_continuous & value.is_bounded
    for name, x in points.items():
        assert ((narrowed[name].lower <= x) & (x <= narrowed[name].upper) | ~is_defined).all(), name
    assert not (is_empty & is_defined).any()


def test_propagation_narrows() -> None:
    box = {"x": Intervals.between(np.array([-9.0]), 9.0), "y": Intervals.between(np.array([0.0]), 9.0)}
    narrowed, *_ = Propagation([parse("x^2 + exp(y)").output])(box, [Intervals.between(0.0, 4.0)])
    assert abs(narrowed["x"].upper[0] - 3**0.5) < 1e-9
    assert abs(narrowed["y"].upper[0] - np.log(4)) < 1e-9


@each("text", ["x*y", "x*x*y", "-x*y", "x^2", "square(x)", "x^4", "hypot(x, y)^2", "x/y", "1/x^-2"])
def test_values_that_underflow_are_enclosed(text: str) -> None:
    formula = parse(text)
    point = {"x": 3e-200, "y": 2e-190}
    with np.errstate(all="ignore"):
        boxes = {name: Intervals.between(np.array([value]), value) for name, value in point.items()}
        value = forward(formula.tape, INTERVALS, boxes)[-1]
    with mp.workdps(40):
        exact = eval(
            text.replace("^", "**"),
            {"square": lambda x: x * x, "hypot": mp.hypot, **{n: mpf(v) for n, v in point.items()}},
        )
        assert mpf(value.lower[0]) <= exact <= mpf(value.upper[0])


@each(
    "text",
    ["exp(x)", "exp2(1.44*x)", "tanh(exp(x))", "sin(exp(x))", "erfc(sqrt(-x))", "sigmoid(x)", "normal_pdf(sqrt(-2*x))"],
)
def test_functions_whose_values_are_subnormal_are_enclosed(text: str) -> None:
    """Near the smallest floats a relative margin is none, and the error of a function is many of them."""
    formula = parse(text)
    for x in (-744.0 + 0.37 * k for k in range(30)):
        with np.errstate(all="ignore"):
            value = forward(formula.tape, INTERVALS, {"x": Intervals.between(np.array([x]), x)})[-1]
        (exact,) = references([formula.output], {"x": x})
        assert exact is not None
        assert mpf(value.lower[0]) <= exact <= mpf(value.upper[0]), x


@each("name, exponent", [*((name, None) for name in INVERSES), *(("pow", k) for k in (-3, -2, -0.5, 0.5, 1, 2, 3))])
@np.errstate(all="ignore")
def test_an_inverse_keeps_the_points_that_have_the_value_and_loses_others(name: str, exponent: float | None) -> None:
    """The search for zeros removes what an inverse loses: at random points, none may be lost that has the value."""
    chance, op = np.random.default_rng(len(name)), get_op(name)
    count = len(INVERSES[name])
    drawn = chance.normal(size=(2, 400))
    points = np.where(np.arange(400) % 3 == 0, drawn, np.where(np.arange(400) % 3 == 1, 20 * drawn, np.rint(drawn)))
    points = points[: max(count, op.min_inputs)]
    points[1:] = points[1:] if exponent is None else exponent
    exact = INTERVALS.function(op, len(points))(*map(Intervals.between, points, points))
    is_defined = np.isfinite(exact.lower) & np.isfinite(exact.upper)
    points, low, high = points[:, is_defined], exact.lower[is_defined], exact.upper[is_defined]
    assert len(low) > 30
    widths = chance.choice([0.0, 1e-6, 0.5], (2 * len(points) + 2, len(low)))
    z = Intervals.between(low - widths[0], high + widths[1])
    boxes = [
        Intervals.between(point - below, point + above)
        for point, below, above in zip(points, widths[2::2], widths[3::2], strict=True)
    ]
    if exponent is not None:
        boxes[1] = Intervals.between([exponent], [exponent])
    wide = Intervals.between(np.full(len(low), -1e3), np.full(len(low), 1e3))  # nothing is known of an input
    for k in range(count):
        found = INVERSES[name][k](z, *boxes)
        is_kept = (found.lower <= points[k]) & (points[k] <= found.upper)
        assert is_kept.all(), [(z.lower[i], z.upper[i], points[:, i]) for i in np.flatnonzero(~is_kept)[:3]]
        found = wide.intersect(INVERSES[name][k](z, *boxes[:k], wide, *boxes[k + 1 :]))
        assert (name, exponent) == ("pow", None) or np.median(found.upper - found.lower) < 1500


@each("divisor", [3.0, -3.0, 0.75, -0.75, 5.5])
def test_remainders_lie_between_0_and_the_divisor(divisor: float) -> None:
    """Where the quotient passes a whole number."""
    f = parse("x % y")
    low, high = (np.array([x]) for x in sorted((0.5 * divisor, 1.25 * divisor)))
    ends = {"x": Intervals.between(low, high), "y": Intervals.between(np.array([divisor]), np.array([divisor]))}
    found = forward(f.tape, INTERVALS, ends)[-1]
    assert (found.lower, found.upper) == (min(divisor, 0.0), max(divisor, 0.0))


@each("name, first, is_pole", [
    ("tan", 0.5, True),
    ("sec", 0.5, True),
    ("cot", 1.0, True),
    ("csc", 1.0, True),
    ("sin", 0.5, False),
    ("cos", 1.0, False),
])  # fmt: skip
def test_poles_and_maxima_between_two_neighbouring_floats_are_enclosed(name: str, first: float, is_pole: bool) -> None:
    with mp.workdps(50):
        places = [(mpf(first) + k) * mp.pi for k in range(-500, 500)]
        nearest = [float(place) for place in places]
        below = np.array(
            [x if x < place else np.nextafter(x, -np.inf) for x, place in zip(nearest, places, strict=True)]
        )
    f = parse(f"{name}(x)")
    found = forward(f.tape, INTERVALS, {"x": Intervals.between(below, np.nextafter(below, np.inf))})[-1]
    if is_pole:
        assert np.isneginf(found.lower).all()
        assert np.isposinf(found.upper).all()
        assert not found.is_continuous.any()
    else:
        assert ((found.lower == -1) | (found.upper == 1)).all()


def test_a_product_that_cannot_be_negative_is_never_negative() -> None:
    """So that its root is defined everywhere, and likewise one that cannot be positive."""
    sides = [pair for pair in itertools.product((-2.0, -1.0, 0.0, 1.0, 2.0), repeat=2) if pair[0] <= pair[1]]
    for a, b in itertools.product(sides, repeat=2):
        found = Intervals.between(*a) * Intervals.between(*b)
        exact = [x * y for x, y in itertools.product(a, b)]
        assert (np.sign(found.lower), np.sign(found.upper)) == (np.sign(min(exact)), np.sign(max(exact)))

"""Arrays of intervals enclose the exact values of every operation."""

from __future__ import annotations

import numpy as np

from autodiff_cli import parse
from autodiff_cli.autodiff.arbitrary_precision import evaluate_to_digits
from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.numbers import ball_arithmetic as ball
from autodiff_cli.numbers.intervals import INTERVALS, Intervals
from tests.each import each

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


@each("text", FORMULAS, sampled=True)
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


def test_constants_are_exact_decimals() -> None:
    tape = parse("0.1 + 0.2 - 0.3").tape
    enclosed = forward(tape, INTERVALS, {})[tape.outputs[0]]
    assert enclosed.lower < 0 < enclosed.upper

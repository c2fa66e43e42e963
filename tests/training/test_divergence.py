"""Fits that fail say why."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.training.fitting import minimization
from autodiff_cli.training.methods.gradient_descent import Outcome, RunawayDetector, has_converged, has_plateaued
from autodiff_cli.training.objective.batch import ObjectiveBatch
from autodiff_cli.training.result.diagnosis import explain_failure
from tests.each import each

X = np.linspace(0, 4, 30)
NOISE = np.random.default_rng(0).standard_normal(30)
DATA = {"x": X, "y": 2.5 * np.exp(-1.3 * X) + 0.03 * NOISE}


def said(found: ad.Fit) -> str:
    return "\n".join(found.warnings)


EXTREME_TARGETS: list[list[float]] = [
    [2.5, 2.5, 2.5, 2.5], [0, 0, 0, 0], [5e199, 5e199, 5e199, 5e199], [5e199, -7e199, 2e199, 0], [1e-100, 0, 0, 0],
]  # fmt: skip


@each(
    "form, y",
    [
        *itertools.product(
            [
                ("y ~ a + b*x", {"loss": "mae"}),
                ("y ~ a + b*x", {"loss": "huber"}),
                ("y ~ a*exp(-b*x)", {"bounds": {"b": (None, 0.8)}}),
                ("y ~ mlp(x, [2], tanh)", {"epochs": 3}),
            ],
            EXTREME_TARGETS,
        )
    ],
    quick=lambda form, y: form[1] != {"loss": "mae"} or y[1] != -7e199,  # hundreds of steps
)
def test_extreme_targets_give_no_warnings_of_numpy(form: tuple[str, dict[str, Any]], y: list[float]) -> None:
    model, options = form
    data = {"x": [1.8, 1.9, 2.2, 3.0], "y": y, "group": [1, 1, 1, 1]}
    assert ad.fit(model, data, **options).rows == 4
    if options.get("loss") != "mae":  # fits of groups alone take the same steps, hundreds of them
        assert len(ad.fit_by(model, data, "group", **options)) == 1


@pytest.mark.parametrize("batch_size", [None, 30])
def test_a_divergence_names_row_formula_and_parameters(batch_size: int | None) -> None:
    found = ad.fit("y ~ a + b*x^8", DATA, optimizer="sgd", learning_rate=1.0, epochs=200, batch_size=batch_size)
    assert not found.converged
    assert re.search(
        r"diverged: the loss is (inf|nan) in epoch \d+: (`.*` is (inf|nan|-inf) in row \d+ .* where a = .*, b = "
        r"|`b` diverged to infinity)",
        found.failure,
    )
    assert "`b` went from 1 to " in said(found)
    assert re.search("the loss rose from .* to .*; try a lower --lr", said(found))


def test_a_finite_loss_that_rose_is_reported() -> None:
    found = ad.fit("y ~ a*exp(-b*x)", DATA, optimizer="sgd", learning_rate=50.0)
    assert not found.failure
    assert "the loss rose" in said(found)
    quiet = ad.fit("y ~ a*exp(-b*x)", DATA, optimizer="adam", learning_rate=0.05, epochs=20)
    assert "the loss rose" not in said(quiet)


def test_the_edge_of_a_domain_is_named() -> None:
    data = {"x": X, "y": np.sqrt(np.maximum(3 - X, 0))}
    found = ad.fit("y ~ sqrt(a - x)*b", data, start={"a": 4.5, "b": 1})
    assert not found.converged
    words = "towards the edge of the model's domain: `sqrt(a - x)` is nan in row 30 (y = 0, x = 4), where a = "
    assert words in said(found)


@pytest.mark.slow
def test_conditioning_and_runaways_are_named_with_what_to_try() -> None:
    wide = {"a": (-1e9, 1e9), "c": (-1e9, 1e9)}
    found = ad.fit("y ~ a*sqrt(b - x) + c", DATA, start={"b": 4.1}, bounds=wide)
    assert not found.converged
    words = said(found)
    assert "`b` went from 4.1 to " in words
    assert re.search(r"the condition number at the last point is \de\+07", words)
    assert "changing `a`, `b` and `c` together hardly changes the prediction" in words
    assert re.search("what to try: .*--starts 20.*--bounds .*=LOW:HIGH.*--fix .*=VALUE.*a simpler model", words)


def test_fits_that_end_well_need_no_explanation() -> None:
    found = ad.fit("y ~ a*exp(-b*x)", DATA)
    assert found.converged
    assert found.warnings == []


@pytest.mark.slow
def test_nearly_unidentifiable_parameters_are_named() -> None:
    found = ad.fit("y ~ a + b*x + c*(x + 1e-6*x^2)", DATA)
    assert re.search(
        "`b` and `c` are hardly distinguishable with these data: their correlation is -0.9999999", said(found)
    )
    two = ad.fit("y ~ a*exp(-b*x) + c*exp(-d*x)", DATA)
    assert "`a` and `c` are hardly distinguishable with these data: their correlation is -0.999" in said(two)


def test_two_parameters_alone_that_are_nearly_unidentifiable_are_named() -> None:
    """The correlation of a line's parameters is known from the moments of x. The errors are larger than `a`."""
    x = 1000 + X
    found = ad.fit("y ~ a + b*x", {"x": x, "y": NOISE})
    correlation = -np.mean(x) / np.sqrt(np.mean(x**2))
    assert found.correlation[0, 1] == pytest.approx(correlation, abs=1e-9)
    (warning,) = [each for each in found.warnings if "hardly distinguishable" in each]
    assert warning.startswith("`a` and `b` are hardly distinguishable with these data: their correlation is -0.999")


def test_high_correlations_of_well_known_parameters_do_not_matter() -> None:
    years = 2000 + 10 * X
    found = ad.fit("y ~ a + b*t", {"t": years, "y": 3 * years + NOISE})
    assert found.correlation[0, 1] < -0.999
    assert abs(found.stderr["b"] / found.parameters["b"]) < 0.1
    few = ad.fit("y ~ a + b*t", {"t": years, "y": 3 * (years - 2000) + 5000 + NOISE})
    assert "hardly" in said(few) or all(few.stderr[name] < 0.1 * abs(few.parameters[name]) for name in "ab")


# The sum of squares of `a*exp(-b*x) + c` falls as b goes to 0, and a and c to infinity: its curve is then a line.
PLACES = np.linspace(-3, 3, 13)
ALMOST_A_LINE = {"x": PLACES, "y": 2 * PLACES - 0.05 * PLACES**3}


@each("loss", ["mse", "huber", "cauchy"], quick=lambda loss: loss != "cauchy")
def test_a_fit_that_runs_to_infinity_is_recognised_by_its_path(loss: str) -> None:
    objective = ad.Objective("y ~ a*exp(-b*x) + c", ALMOST_A_LINE, loss=loss)
    batch, steps = ObjectiveBatch([objective]), list[int]()
    method = "lm" if loss == "mse" else "lbfgs"
    (end,) = minimization.minimize_batch(
        method, batch, objective.start[None], lambda *step: steps.append(int(step[1][0]))
    )
    assert not end.converged
    assert end.failure == RunawayDetector.REASON
    assert max(steps) < 500


@pytest.mark.slow
def test_a_slow_fit_converges_although_its_parameters_change_by_factors() -> None:
    """On a plateau, `k` grows from 1e-93 by a factor in each of hundreds of steps."""
    x = [0.43, 1.06, 1.7, 2.34, 2.98, 3.62, 4.26, 4.89, 5.53, 6.17, 6.81, 7.45, 8.09, 8.72, 9.36, 10.0]
    y = [0, 0, 0, 0, 0, 2, 3, 5, 13, 9, 12, 11, 7, 18, 11, 18]
    found = ad.fit("y ~ a*x^n/(k^n + x^n)", {"x": x, "y": y}, family="poisson", start={"a": 1.0, "n": 1.0, "k": 1.0})
    assert found.converged
    assert found.parameters == pytest.approx({"a": 13.271, "n": 7.443, "k": 4.934}, rel=1e-3)


def test_the_edge_of_the_domain_of_a_likelihood_is_named() -> None:
    found = ad.fit("y ~ a + b*x", {"x": range(5), "y": [0, 2, 5, 6, 9]}, family="poisson")
    assert not found.converged
    assert re.search(r"towards the edge of the model's domain: .* in row 1 \(y = 0, x = 0\), .*--bounds", said(found))


def test_a_fit_at_the_edge_of_its_domain_has_no_parameter_at_infinity() -> None:
    """The location of a shifted exponential is best at the first row; the search for its scale stops there too."""
    found = ad.fit("log(s) + (y - m)/s + 0*log(y - m)", {"y": [0.1, 2, 5, 6, 9]}, likelihood=True)
    assert "infinity" not in said(found)


def test_a_fit_that_fails_where_the_loss_is_flat_is_at_no_edge_of_its_domain() -> None:
    objective = ad.Objective("y ~ a*x", {"x": X, "y": X})
    (advice,) = explain_failure(objective, Outcome(np.ones(1), False, "a limit"), [0.0, 0.0])
    assert advice.startswith("what to try: ")


def path(curve: Callable[[float], float], loss: Callable[[float], float], start: float, steps: int = 800) -> int | None:
    """Return the step in which a path is found to run away; None if it is not."""
    detector = RunawayDetector(np.array([[start, 1.0]]))
    for step in range(steps):
        theta, fits = np.array([[curve(step), 1.0]]), np.arange(1)
        if detector.examine(fits, np.array([step]), np.array([loss(step)]), theta, np.ones(1))[0]:
            return step
    return None


@each("curve, loss, start, is_found", [
    (lambda n: 1.0 + n**1.2, lambda n: 1 + 10 / (1 + n), 1.0, True),
    (lambda n: 1.0 + n**0.9, lambda n: 1 + 10 / (1 + n), 1.0, False),  # grows by less than a factor of 2
    (lambda n: 1 / (1.0 + n**1.2), lambda n: 1 + 10 / (1 + n), 1.0, True),  # to 0
    (lambda n: 2.0 + 0 * n, lambda n: 1 + 10 / (1 + n), 1.0, False),
    (lambda n: 1.0 + n**1.2, lambda n: 100 - n / 3, 1.0, False),  # falls as fast as before
    (lambda n: 1.0 + n**1.2, lambda n: 1 + 1e-5 / (1 + n), 1.0, True),
    (lambda n: 1 / (1.0 + n**1.2), lambda n: 1 + 1e-5 / (1 + n), 1.0, False),  # is about to converge
    (lambda n: 1.0 + n**1.2, lambda n: 1 - 1e-5 / (1 + n), 1.0, False),  # rises
    (lambda n: 1.0 + n**1.2, lambda n: 1 + 1e4 / (1 + n), 1.0, False),  # still falls by much
    (lambda n: 1e6 / (1.0 + n**1.2) + 1, lambda n: 1 + 10 / (1 + n), 1e6, True),
    (lambda n: -1.0 - n**1.2, lambda n: 1 + 10 / (1 + n), 0.0, True),
])  # fmt: skip
def test_paths_that_run_away_double_while_losses_fall_ever_less(
    curve: Callable[[float], float], loss: Callable[[float], float], start: float, is_found: bool
) -> None:
    assert (path(curve, loss, start) is not None) is is_found


def test_a_verdict_takes_three_looks_at_doubled_steps() -> None:
    """With two parameters, after 36, 72 and 144 steps."""
    found = path(lambda n: 1.0 + n**1.2, lambda n: 1 + 10 / (1 + n), 1.0)
    assert found == 48 * 3


LOSSES: list[tuple[Callable[[int], float], bool]] = [
    (lambda k: 1 + 0.5**k, True),
    (lambda k: 1 + 0.9**k, False),
    (lambda k: 1 - 1e-9 * k, False),  # falls evenly, without an end in sight
    (lambda k: 1.0, True),
    (lambda k: 1 + 1e-7 * (-1) ** (k // 5), True),  # scatters by less than a millionth
    (lambda k: 1 + 1e-5 * (-1) ** (k // 5), False),
    (lambda k: 1 - 0.5**k, True),  # rises to its limit
    (lambda k: 1 + 1e-9 * 1.2**k, False),
]


@each("loss, is_over", LOSSES)
def test_losses_have_converged_if_a_series_has_little_left(loss: Callable[[int], float], is_over: bool) -> None:
    assert has_converged([loss(k) for k in range(51)]) is is_over
    assert not has_converged([loss(k) for k in range(10)])


@each("changes", [(-0.1, 1e-9), (1e-9, -0.1), (0.1, -1e-9)])
def test_a_loss_that_turns_has_not_converged(changes: tuple[float, float]) -> None:
    """However little it changes on one of the sides."""
    first, second = changes
    losses = [1 + first * min(k, 45) + second * max(k - 45, 0) for k in range(51)]
    assert not has_converged(losses)


def test_of_many_epochs_the_last_tenth_shows_whether_the_loss_still_falls() -> None:
    assert not has_converged([1 - 0.001 * (k // 30) for k in range(1020)])


@each("change, is_over", [(0.9e-3, True), (1.1e-3, False)])
@each("sign", [1, -1])
def test_a_loss_on_a_plateau_changes_by_less_than_the_tolerance_in_ten_epochs(
    change: float, is_over: bool, sign: int
) -> None:
    losses = [5.0 * sign, *(sign * (1 + change * k / 9) for k in range(10))]
    for unit in (1e-9, 1.0, 1e9):
        assert has_plateaued([unit * loss for loss in losses], 1e-3, drawn=False) is is_over
    assert not has_plateaued(losses[-9:], 1e-3, drawn=False)
    noise = np.random.default_rng(0).normal(1, 0.1, 20).tolist()
    assert has_plateaued(noise, 1e-3, drawn=True)
    assert not has_plateaued(noise, 1e-3, drawn=False)
    assert not has_plateaued([5 - k / 2 for k in range(10)], 1e-3, drawn=True)
    # Losses that only scatter have a range of at most four of their standard deviations.
    assert not has_plateaued([1 + 0.01 * (-1) ** k - 0.009 * k for k in range(10)], 1e-9, drawn=True)

"""How a fit goes down, and when it stops: schedules, clipping, penalties, tolerances."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autodiff_cli import Objective, fit, fit_by
from autodiff_cli.options import OptionError
from autodiff_cli.training.optimizers import LearningRateSchedule
from tests.each import amount, each

LINEAR = "y ~ a*x1 + b*x2 + c"


def plane(rows: int = 60) -> dict[str, Any]:
    generator = np.random.default_rng(1)
    x1, x2 = generator.normal(0, 1, (2, rows))
    return {"x1": x1, "x2": 3 * x2, "y": 2 * x1 - 0.5 * x2 + 0.3 + generator.normal(0, 0.1, rows)}


def ridge(data: dict[str, Any], factor: float, weights: Any = None) -> Any:
    """The closed form: Hoerl & Kennard 1970, for the mean of squares."""
    matrix = np.column_stack((data["x1"], data["x2"], np.ones_like(data["x1"])))
    w = np.ones(len(matrix)) if weights is None else np.asarray(weights)
    inner = matrix.T @ (w[:, None] * matrix) / w.sum() + factor * np.eye(3)
    return np.linalg.solve(inner, matrix.T @ (w * data["y"]) / w.sum())


# --- penalties


@pytest.mark.slow
@each("optimizer", ["auto", "lm", "lbfgs"])
@each("backend", ["numpy", "llvm"])
def test_a_penalty_by_squares_is_ridge_regression(optimizer: str, backend: str) -> None:
    data = plane()
    weights = np.linspace(0.5, 2, 60)
    for given in (None, weights):
        found = fit(LINEAR, data, optimizer=optimizer, l2=0.3, weights=given, backend=backend)
        assert [*found.parameters.values()] == pytest.approx(ridge(data, 0.3, given), rel=1e-9)
        assert found.optimizer == ("lm" if optimizer == "auto" else optimizer)


def test_a_penalty_by_squares_on_several_targets() -> None:
    data = plane()
    found = fit("[y, 2*y] ~ [a*x1, b*x2]", data, l2=0.2)
    by_hand = [
        np.dot(x, y) / (np.dot(x, x) + 0.2 * 2 * len(x))
        for x, y in ((data["x1"], data["y"]), (data["x2"], 2 * data["y"]))
    ]
    assert [*found.parameters.values()] == pytest.approx(by_hand, rel=1e-9)


@pytest.mark.slow
@each("batch_size", [None, 60])
def test_gradient_methods_have_the_penalty_in_every_step(batch_size: int | None) -> None:
    data = plane()
    found = fit(LINEAR, data, optimizer="sgd", learning_rate=0.05, epochs=2000, l2=0.3, batch_size=batch_size)
    assert [*found.parameters.values()] == pytest.approx(ridge(data, 0.3), rel=1e-6)


def test_a_penalty_by_sizes_is_the_lasso() -> None:
    # With columns at right angles of mean square 1, the solution is a soft threshold of what each column says alone.
    x1, x2, x3 = np.array([*itertools.product((-1.0, 1.0), repeat=3)] * 5).T
    y = 2.0 * x1 - 0.3 * x2 + 0.01 * x3
    found = fit("y ~ a*x1 + b*x2 + c*x3", {"x1": x1, "x2": x2, "x3": x3, "y": y}, l1=0.2, start={"c": 0})
    assert found.optimizer == "lbfgs"
    assert found.converged
    assert found.parameters == {"a": pytest.approx(1.9, rel=1e-7), "b": pytest.approx(-0.2, rel=1e-6), "c": 0.0}


def test_the_loss_is_the_minimised_objective_and_reports_its_penalty() -> None:
    found = fit(LINEAR, plane(), l1=0.1, l2=0.2)
    sizes = np.array([*found.parameters.values()])
    assert found.penalty == pytest.approx(0.1 * np.abs(sizes).sum() + 0.2 * np.square(sizes).sum())
    assert found.rss is not None
    assert found.loss == pytest.approx(found.rss / 60 + found.penalty)
    assert found.history[-1]["loss"] == pytest.approx(found.loss)
    assert fit(LINEAR, plane()).penalty is None


def test_a_penalty_is_on_free_parameters_alone_and_on_those_of_layers() -> None:
    found = fit(LINEAR, plane(), l2=0.3, fixed={"c": 5.0})
    sizes = np.array([*found.parameters.values()])
    assert found.penalty == pytest.approx(0.3 * np.square(sizes).sum())
    network = fit("y ~ mlp([x1, x2], [4], tanh)", plane(), l2=0.01, epochs=3)
    total = sum(float(np.square(value).sum()) for value in network.parameters.values())
    assert network.penalty == pytest.approx(0.01 * total)


def test_errors_under_a_penalty_by_squares_are_those_of_ridge_regression() -> None:
    """Hoerl & Kennard 1970, with the variance of the rows about the fit without a penalty."""
    data = plane()
    for optimizer in ("lm", "lbfgs"):
        found = fit(LINEAR, data, l2=0.3, optimizer=optimizer)
        matrix = np.column_stack((data["x1"], data["x2"], np.ones(60)))
        inner = matrix.T @ matrix
        inverse = np.linalg.inv(inner + 60 * 0.3 * np.eye(3))
        free = np.linalg.lstsq(matrix, np.asarray(data["y"]))[0]
        variance = np.sum((data["y"] - matrix @ free) ** 2) / (60 - 3)
        np.testing.assert_allclose(found.covariance, variance * inverse @ inner @ inverse, rtol=1e-9)
        assert "excluding the bias towards 0" in found.definition
        assert found.aic is None


def test_errors_of_penalised_counts_are_those_of_the_sandwich_formula() -> None:
    """inv(H)·I·inv(H), with the information I of the counts and the penalised Hessian H."""
    x = np.linspace(0, 2, 15)
    data = {"x": x, "n": np.random.default_rng(1).poisson(np.exp(1 + x / 2))}
    found = fit("n ~ exp(a + b*x)", data, family="poisson", l2=0.5)
    matrix = np.column_stack((np.ones_like(x), x))
    information = matrix.T @ (matrix * np.exp(matrix @ [*found.parameters.values()])[:, None])
    inverse = np.linalg.inv(information + len(x) * 2 * 0.5 * np.eye(2))
    np.testing.assert_allclose(found.covariance, inverse @ information @ inverse, rtol=1e-9)


@each(
    ("model", "options"),
    [
        ("y ~ a*x1 + b*x2", {"l2": 0.04}),
        ("y ~ a*x1 + b*x2", {"l2": 1.0}),
        ("y ~ exp(a*x1 + b*x2) - 1", {"l2": 0.5}),
        ("y ~ a*x1 + b*x2", {"l2": 0.04, "loss": "huber"}),
        ("y ~ a*x1 + b*x2", {"l2": 0.04, "family": "gaussian"}),
        ("h ~ sigmoid(a*x1 + b*x2)", {"l2": 0.02, "loss": "bce"}),
        ("n ~ exp(a*x1 + b*x2)", {"l2": 0.05, "family": "poisson"}),
    ],
    sampled=True,
)
@pytest.mark.slow
def test_penalised_values_scatter_as_their_errors_say(model: str, options: dict[str, Any]) -> None:
    generator, samples = np.random.default_rng(3), 150
    x1, x2 = np.tile(generator.normal(0, 0.6, (2, 200)), samples)
    mean = 0.8 * x1 - 0.4 * x2
    data = {
        "x1": x1,
        "x2": x2,
        "y": mean + generator.normal(0, 0.5, len(mean)),
        "h": (generator.random(len(mean)) < 1 / (1 + np.exp(-mean))).astype(float),
        "n": generator.poisson(np.exp(mean)),
        "sample": np.repeat(np.arange(samples), 200),
    }
    found = [group.fit for group in fit_by(model, data, "sample", **options)]
    values = [[*one.parameters.values()] for one in found]
    errors = [[*one.stderr.values()] for one in found]
    assert np.mean(errors, axis=0) == pytest.approx(np.std(values, axis=0), rel=0.2)  # one standard deviation: 6 %


def test_an_l1_penalty_leaves_no_standard_errors_and_gives_the_reason() -> None:
    found = fit(LINEAR, plane(), l1=0.3)
    assert set(found.stderr.values()) == {None}
    assert any("an l1 penalty" in warning for warning in found.warnings)
    assert found.aic is None


def test_an_l1_penalty_without_an_end_sets_nothing_to_0() -> None:
    x = np.linspace(0, 1, 9)
    found = fit("y ~ a*exp(b*x)", {"x": x, "y": np.exp(x) + 1}, l1=0.1, epochs=1)
    assert not found.converged
    assert min(found.parameters.values()) > 0.5


def test_an_l1_penalty_sets_no_parameter_to_0_where_the_model_is_undefined() -> None:
    generator = np.random.default_rng(4)
    x = np.sort(generator.uniform(0, 20, 16))
    y = 1.2 * np.sin(2 * np.pi * x / 5 + 0.3) + generator.normal(0, 0.8, 16)
    model, data = "y ~ a*sin(2*pi*x/P + f)", {"x": x, "y": y}
    found = fit(model, data, l1=1e-9)
    assert found.converged
    assert found.loss == pytest.approx(fit(model, data).loss, rel=1e-6)


def test_the_validation_loss_is_that_of_the_data() -> None:
    options: dict[str, Any] = {"optimizer": "adam", "epochs": 1, "learning_rate": 1e-9, "validation": 0.3}
    with_penalty, without = (fit(LINEAR, plane(), l2=factor, **options) for factor in (5.0, 0.0))
    assert with_penalty.validation_loss == pytest.approx(without.validation_loss, rel=1e-6)
    assert with_penalty.history[0]["loss"] == pytest.approx(without.history[0]["loss"] + 15)


def test_lm_has_no_penalty_by_sizes() -> None:
    with pytest.raises(OptionError, match="l1"):
        fit(LINEAR, plane(), optimizer="lm", l1=0.1)
    for name in ("l1", "l2"):
        with pytest.raises(OptionError, match=name):
            fit(LINEAR, plane(), **{name: -1.0})  # type: ignore[arg-type]


# --- schedules and clipping: the loss `a` has the slope 1, so that every step is the learning rate


def steps(text: str, epochs: int = 9, slope: float = 1.0, **options: Any) -> list[float]:
    thetas: list[float] = []
    fit(
        f"{slope}*a + 0*y",
        {"y": [1.0, 2.0]},
        optimizer="sgd",
        learning_rate=1.0,
        epochs=epochs,
        lr_schedule=text,
        on_epoch=lambda epoch: thetas.append(float(epoch.theta[0])),
        **options,
    )
    return [before - after for before, after in itertools.pairwise(thetas)]


@each("batch_size", [None, 2])
@each(
    ("text", "rates"),
    [
        ("constant", [1] * 9),
        ("step:3:0.5", [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25]),
        ("exponential:0.5", [0.5**k for k in range(9)]),
        ("cosine", [(1 + np.cos(np.pi * k / 9)) / 2 for k in range(9)]),
    ],
)
def test_schedules(text: str, rates: list[float], batch_size: int | None) -> None:
    assert steps(text, batch_size=batch_size) == pytest.approx(rates)


def test_a_plateau_is_where_the_loss_does_not_fall() -> None:
    losses = [9.0, 5.0, 5.0, 5.0, 5.0, 1.0, 1.0, 1.0]
    schedule = LearningRateSchedule("plateau:2:0.1", 1.0, 100)
    rates = [schedule.rate(number, losses[:number]) for number in range(1, 9)]
    assert rates == pytest.approx([1, 1, 1, 0.1, 0.1, 0.1, 0.1, 0.01])
    assert LearningRateSchedule("plateau:2:0.1", 1.0, 100).rate(8, losses) == pytest.approx(rates[-1])


@each("batch_size", [None, 2])
def test_long_gradients_are_shortened(batch_size: int | None) -> None:
    assert steps("constant", 3, 50.0, clip_norm=2.0, batch_size=batch_size) == pytest.approx([2, 2, 2])
    assert steps("constant", 3, 1.5, clip_norm=2.0, batch_size=batch_size) == pytest.approx([1.5, 1.5, 1.5])


@each("text", ["stairs", "step:0", "step:2:3", "step:1:0.5:7", "exponential:x", "cosine:3", "step:1.5"])
def test_schedules_that_make_no_sense(text: str) -> None:
    with pytest.raises(OptionError, match="schedule"):
        fit("y ~ a", {"y": [1.0, 2.0]}, optimizer="sgd", lr_schedule=text)


@each("options", [{"lr_schedule": "cosine"}, {"clip_norm": 1.0}])
def test_methods_with_steps_of_their_own_have_neither(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="chooses its own step sizes"):
        fit("y ~ a", {"y": [1.0, 2.0]}, **options)


# --- when to stop


@each("optimizer", ["lm", "lbfgs"])
def test_a_tolerance_ends_earlier(optimizer: str) -> None:
    x = np.linspace(0, 4, 50)
    data = {"x": x, "y": 2.5 * np.exp(-1.3 * x) + 0.01 * np.sin(40 * x)}
    runs = [fit("y ~ a*exp(-b*x)", data, optimizer=optimizer, tolerance=tolerance) for tolerance in (None, 1e-2)]
    assert runs[1].epochs < runs[0].epochs
    assert runs[1].converged
    assert runs[1].loss == pytest.approx(runs[0].loss, rel=0.2)


@each("batch_size", [None, 20])
def test_gradient_methods_end_where_the_loss_falls_no_more(batch_size: int | None) -> None:
    found = fit(
        LINEAR, plane(), optimizer="adam", epochs=5000, learning_rate=0.05, tolerance=1e-3, batch_size=batch_size
    )
    assert found.converged
    assert 10 < found.epochs < 2000
    assert found.loss < 0.05


def test_steps_that_circle_around_the_minimum_have_not_converged() -> None:
    x = np.linspace(0, 1, 60)
    data = {"x": x, "y": 2 + 0.3 * x + np.random.default_rng(0).normal(0, 0.1, 60)}
    found = fit("y ~ a + b*x", data, optimizer="rmsprop", learning_rate=0.3, epochs=1000)
    assert not found.converged
    assert any("this learning rate leads close to the minimum, but not to it" in warning for warning in found.warnings)


def test_a_fall_of_less_than_min_delta_is_none() -> None:
    options: dict[str, Any] = {
        "optimizer": "sgd",
        "epochs": 300,
        "learning_rate": 0.02,
        "validation": 0.3,
        "patience": 5,
    }
    runs = [fit(LINEAR, plane(), min_delta=delta, **options) for delta in (0.0, 0.01)]
    assert runs[1].epochs < runs[0].epochs
    with pytest.raises(OptionError, match="patience"):
        fit(LINEAR, plane(), min_delta=0.1)


def test_a_step_to_where_no_parameter_has_an_effect_is_not_convergence() -> None:
    data = {"x": [1.0, 2.0, 3.0, 4.0], "y": [2.0, 4.0, 6.0, 8.0]}
    found = fit("y ~ exp(a*x)*b", data, optimizer="sgd", learning_rate=1000, epochs=30)
    assert not found.converged
    assert "no parameter has an effect where the fit ended" in found.warnings[-1]


@pytest.mark.slow
@each("loss", ["huber", "mae", "cauchy"])
def test_no_more_steps_are_taken_than_asked_for(loss: str) -> None:
    """Also where the scale of the residuals is estimated, or corners are rounded, again and again."""
    x = np.linspace(0, 3, 30)
    data = {"x": x, "y": 2.5 * np.exp(-1.3 * x) + 0.05 * np.cos(9 * np.arange(30)) + (np.arange(30) % 7 == 0)}
    whole = fit("y ~ a*exp(-b*x)", data, loss=loss)
    for epochs in range(1, whole.epochs + 1, amount(12, 12, 4)):
        part = fit("y ~ a*exp(-b*x)", data, loss=loss, optimizer="lbfgs", epochs=epochs)
        assert [record["epoch"] for record in part.history] == [*range(part.epochs + 1)]
        assert part.epochs <= epochs


@each(
    "optimizer, loss, weights",
    [*itertools.product(["adam", "sgd"], ["huber", "soft_l1", "negative_binomial"], [None, "w"])],
    quick=lambda *case: case in [("adam", "soft_l1", None), ("sgd", "negative_binomial", "w")],
)
def test_gradient_methods_estimate_the_scale_as_others_do(optimizer: str, loss: str, weights: str | None) -> None:
    model, generator = "y ~ a + b*x", np.random.default_rng(1)
    if loss == "negative_binomial":
        model = "k ~ exp(a + b*x)"
    x = np.linspace(-1, 1, 50)
    y = 1 + 2 * x + 0.1 * generator.standard_t(2, size=50)
    data = {"x": x, "y": y, "k": generator.negative_binomial(2, 2 / (2 + np.exp(1 + x))), "w": 1 + (x > 0)}
    wanted = fit(model, data, loss=loss, weights=weights)
    rate = {"adam": 0.03, "sgd": 0.1}[optimizer]
    found = fit(model, data, loss=loss, weights=weights, optimizer=optimizer, learning_rate=rate, epochs=400)
    assert found.scale == pytest.approx(wanted.scale, rel=1e-4)
    assert found.parameters == pytest.approx(wanted.parameters, rel=1e-4)
    assert found.stderr == pytest.approx(wanted.stderr, rel=1e-4)
    assert found.loss == pytest.approx(wanted.loss, rel=1e-4)


@pytest.mark.parametrize("batch_size", [None, 7])
def test_a_resumed_fit_has_the_same_scales(batch_size: int | None, tmp_path: Path) -> None:
    data = plane()
    options: dict[str, Any] = {"loss": "huber", "optimizer": "adam", "batch_size": batch_size}
    whole = fit(LINEAR, data, epochs=12, **options)
    fit(LINEAR, data, epochs=5, checkpoint=tmp_path / "state", **options)
    resumed = fit(LINEAR, data, epochs=12, resume=tmp_path / "state", **options)
    assert (resumed.scale, resumed.parameters, resumed.history) == (whole.scale, whole.parameters, whole.history)


@pytest.mark.parametrize("turns", [2, *(pytest.param(each, marks=pytest.mark.slow) for each in (0, -1))])
def test_of_equal_curves_that_with_the_least_penalty_is_found(turns: int) -> None:
    """Half turns of `p` with another sign of `a`, and whole ones, change the penalty alone, which is least near 0."""
    generator = np.random.default_rng(abs(turns))
    x = np.tile(generator.uniform(0.1, 5, 30), 2)
    y = 2 * np.sin(3.7 * x + 0.4) + 3 + 0.1 * generator.normal(size=60)
    groups = {"x": x, "y": y, "g": np.repeat([0, 1], 30)}
    start = {"w": 3.7, "p": 0.4 + 2 * math.pi * turns} if turns else None
    alone = fit("y ~ a*sin(w*x + p) + c", {"x": x[:30], "y": y[:30]}, l2=1e-3, start=start)
    both = fit_by("y ~ a*sin(w*x + p) + c", groups, "g", l2=1e-3, start=start)
    for found in (alone, *(each_group.fit for each_group in both)):
        assert found is not None
        assert found.converged
        assert abs(found.parameters["p"]) <= math.pi / 2
    again = fit("y ~ a*sin(w*x + p) + c", {"x": x[:30], "y": y[:30]}, l2=1e-3, start=alone.parameters)
    assert not any("a better minimum" in note for note in again.notes)


@pytest.mark.parametrize("factor", [1e-3, 0.1, 0.3])
def test_a_penalty_costs_least_squares_no_digits(factor: float) -> None:
    """Gauss-Newton steps converge slowly where a penalty leaves large residuals."""
    x = np.linspace(0, 5, 30)
    data = {"x": x, "y": 3 * np.exp(-0.7 * x) + 0.1 * (-1) ** np.arange(len(x))}
    found = fit("y ~ a*exp(-b*x) + c", data, l2=factor)
    objective = Objective("y ~ a*exp(-b*x) + c", data, l2=factor)
    theta = np.array([found.parameters[name] for name in objective.parameters])
    step = np.linalg.solve(objective.hessian(theta) / len(x), objective.value_and_grad(theta)[1])
    assert found.converged
    assert found.optimizer == "lm"
    assert np.abs(step / theta).max() < 1e-13

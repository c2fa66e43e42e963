"""Networks: their gradient against complex arithmetic, what courses train, and what each fit says."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from autodiff_cli import Objective, fit
from autodiff_cli.data.files import open_data
from autodiff_cli.options import OptionError
from tests.each import each, part
from tests.support import SETS

STEP = 1e-200
IRIS = "species ~ softmax(mlp([sepal_length, sepal_width, petal_length, petal_width], [16], relu))"


def wave(rows: int, noise: float = 0.02, seed: int = 0) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    x = generator.uniform(0, 2 * np.pi, rows)
    return {"x": x, "z": x / 2 - 1, "y": np.sin(x) + generator.normal(0, noise, rows)}


# --- the objective


def network(theta: Any, inputs: Any, widths: tuple[int, ...]) -> Any:
    """A tanh network by hand, for complex parameters too; inputs are (rows, n)."""
    start = 0
    for before, after in pairwise(widths):
        weight = theta[start : start + before * after].reshape(after, before)
        start += before * after
        inputs = inputs @ weight.T + theta[start : start + after]
        start += after
        inputs = np.tanh(inputs) if start < len(theta) else inputs
    return inputs


@pytest.mark.parametrize("rows", [1, 7, pytest.param(3000, marks=pytest.mark.slow)])
def test_value_and_gradient_of_a_network(rows: int) -> None:
    columns = {**wave(rows), "w": np.random.default_rng(1).uniform(0, 2, rows)}
    objective = Objective("y ~ mlp([x, z], [5, 4], tanh)", columns, weights="w")
    theta = objective.start + 0.1

    def loss(theta: Any) -> Any:
        residual = columns["y"] - network(theta, np.stack([columns["x"], columns["z"]], axis=1), (2, 5, 4, 1))[:, 0]
        return np.sum(columns["w"] * residual**2) / np.sum(columns["w"])

    value, gradient = objective.value_and_grad(theta)
    expected = [loss(theta + 1j * STEP * unit).imag / STEP for unit in np.eye(len(theta))]
    assert value == pytest.approx(loss(theta), rel=1e-13)
    assert objective.value(theta) == value
    np.testing.assert_allclose(gradient, expected, rtol=1e-10, atol=1e-14)


def test_the_loss_of_several_targets_is_their_mean_and_rss_their_sum() -> None:
    columns = {**wave(20), "q": np.arange(20.0)}
    both = Objective("[y, q] ~ [a, b]*x", columns)
    theta = [0.3, 0.7]
    alone = [
        Objective(f"{name} ~ a*x", columns).value_and_grad([slope])[0] for name, slope in zip("yq", theta, strict=True)
    ]
    assert both.value(theta) == pytest.approx(sum(alone) / 2, rel=1e-14)
    assert both.rss(theta) == pytest.approx(sum(alone) * 20, rel=1e-14)
    assert np.square(both.triangle(theta)[:, -1]).sum() == pytest.approx(both.rss(theta), rel=1e-13)


def test_cross_entropy_keeps_its_digits_where_a_probability_is_next_to_0() -> None:
    for score in (-800.0, -30.0, 0.0, 800.0):
        objective = Objective("c ~ softmax([a, 0*a])", {"c": [0, 1, 1]})
        expected = (np.logaddexp(0, -score) + 2 * np.logaddexp(0, score)) / 3
        assert objective.value([score]) == pytest.approx(expected, rel=1e-14)


def test_the_covariance_of_a_linear_softmax_is_that_of_the_same_sigmoid() -> None:
    generator = np.random.default_rng(2)
    x = generator.normal(size=200)
    columns = {"x": x, "c": (generator.uniform(size=200) < 1 / (1 + np.exp(1 - 2 * x))).astype(int)}
    classes = fit("c ~ softmax([0, a*x + b])", columns)
    sigmoid = fit("c ~ sigmoid(a*x + b)", columns, loss="bce")
    assert classes.loss == pytest.approx(sigmoid.loss, rel=1e-12)
    assert classes.parameters == pytest.approx(sigmoid.parameters, rel=1e-5)
    np.testing.assert_allclose(classes.covariance, sigmoid.covariance, rtol=1e-4)
    assert classes.definition == sigmoid.definition


# --- what must come out


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_a_sine(activation: str) -> None:
    columns = wave(150)
    found = fit(f"y ~ mlp(z, [32], {activation})", columns, epochs=3000, learning_rate=0.01)
    assert sum(np.size(value) for value in found.parameters.values()) == 97
    assert found.optimizer == "adam"
    assert found.loss < 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_a_parabola_by_plain_gradient_descent_row_by_row(seed: int) -> None:
    x = np.linspace(-1, 1, 50)
    columns = {"x": x, "y": 0.5 * x**2 + 0.3 * x + 0.1}
    found = fit("y ~ mlp(x, [10, 10], tanh)", columns, optimizer="sgd", batch_size=1, seed=seed)
    assert (found.epochs, found.optimizer) == (100, "sgd")
    assert found.loss < found.history[0]["loss"] / 100


@pytest.mark.slow
def test_xor_from_nearly_every_seed() -> None:
    columns = {"a": [0, 0, 1, 1], "b": [0, 1, 0, 1], "y": [0, 1, 1, 0]}
    solved = 0
    count = part(20)
    for seed in range(count):
        found = fit(
            "y ~ sigmoid(mlp([a, b], [8], tanh))", columns, loss="bce", learning_rate=0.05, epochs=200, seed=seed
        )
        solved += bool((np.round(found.predict(columns)) == columns["y"]).all())
    assert solved >= 0.9 * count


def test_two_moons() -> None:
    found = fit(
        "moon ~ softmax(mlp([x1, x2], [16, 16], relu))",
        open_data([str(SETS / "moons.csv")]),
        epochs=100,
        batch_size=32,
        validation=0.25,
    )
    assert found.validation_accuracy is not None
    assert found.validation_accuracy > 0.97


def test_iris() -> None:
    found = fit(IRIS, open_data([str(SETS / "iris.csv")]), epochs=300, learning_rate=0.02)
    assert found.classes == ("setosa", "versicolor", "virginica")
    assert found.accuracy is not None
    assert found.accuracy > 0.95
    assert found.confusion is not None
    assert found.confusion.sum(axis=1).tolist() == [50, 50, 50]
    assert found.accuracy == np.trace(found.confusion) / 150
    row = {"sepal_length": [5.0], "sepal_width": [3.4], "petal_length": [1.5], "petal_width": [0.2]}
    assert found.predict(row).tolist() == ["setosa"]
    assert found.probabilities(row).sum() == pytest.approx(1)


@pytest.mark.slow
def test_digits() -> None:
    pixels = ", ".join(f"p{k}" for k in range(64))
    found = fit(
        f"digit ~ softmax(mlp([{pixels}]/16, [32], relu))",
        open_data([str(SETS / "digits.csv.gz")]),
        epochs=15,
        batch_size=32,
        validation=0.2,
    )
    assert found.classes == tuple(range(10))
    assert found.validation_accuracy is not None
    assert found.validation_accuracy > 0.95


# --- what a fit says


def test_a_network_has_no_standard_errors_and_no_formula_to_read() -> None:
    found = fit("y ~ mlp(z, [40], tanh)", wave(30), epochs=2)
    assert found.stderr == dict.fromkeys(found.parameters)
    assert any("hidden units are interchangeable" in warning for warning in found.warnings)
    assert found.formula == ""
    assert found.rss == pytest.approx(found.loss * 30)
    assert np.isnan(found.covariance).all()
    assert {name: np.shape(value) for name, value in found.parameters.items()} == {
        "mlp.0.weight": (40, 1),
        "mlp.0.bias": (40,),
        "mlp.1.weight": (1, 40),
        "mlp.1.bias": (1,),
    }


def test_a_seed_gives_a_network_again_and_another_seed_another() -> None:
    runs = [fit("y ~ mlp(z, [4], tanh)", wave(30), epochs=3, batch_size=7, seed=seed) for seed in (0, 0, 1)]
    weights = [run.parameters["mlp.0.weight"].tolist() for run in runs]
    assert weights[0] == weights[1] != weights[2]
    assert runs[0].history == runs[1].history


def test_fixed_arrays_keep_their_value_or_their_start() -> None:
    free = fit("y ~ mlp(z, [3], tanh)", wave(30), epochs=0)
    held = {"mlp.0.weight": None, "mlp.1.bias": [0.5]}
    found = fit("y ~ mlp(z, [3], tanh)", wave(30), epochs=5, fixed=held)
    np.testing.assert_array_equal(found.fixed["mlp.0.weight"], free.parameters["mlp.0.weight"])
    np.testing.assert_array_equal(found.fixed["mlp.1.bias"], [0.5])
    assert [*found.parameters] == ["mlp.0.bias", "mlp.1.weight"]
    assert found.parameters["mlp.0.bias"].any()


def test_arrays_without_layers_are_least_squares_like_any_other() -> None:
    generator = np.random.default_rng(3)
    x = generator.normal(size=(50, 2))
    noise = generator.normal(0, 0.1, (50, 2))
    y = x @ np.array([[2.0, -1.0], [0.5, 3.0]]).T + [1.0, -1.0] + noise
    columns = {"u": x[:, 0], "v": x[:, 1], "p": y[:, 0], "q": y[:, 1]}
    found = fit("W: 2x2; k: 2; [p, q] ~ W @ [u, v] + k", columns)
    design = np.column_stack((x, np.ones(50)))
    solution, rss, _, _ = np.linalg.lstsq(design, y)
    assert found.optimizer == "lm"
    np.testing.assert_allclose(found.parameters["W"], solution[:2].T, rtol=1e-9)
    np.testing.assert_allclose(found.parameters["k"], solution[2], rtol=1e-9)
    assert found.rss == pytest.approx(rss.sum(), rel=1e-10)
    assert found.dof == 100 - 6
    spread = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * rss.sum() / 94)
    np.testing.assert_allclose(found.stderr["W"], [spread[:2]] * 2, rtol=1e-8)
    assert found.element_names == ("W[0, 0]", "W[0, 1]", "W[1, 0]", "W[1, 1]", "k[0]", "k[1]")
    np.testing.assert_allclose(found.predict(columns), design @ solution, rtol=1e-9)
    variation = np.square(y - y.mean(axis=0)).sum()
    assert found.r_squared == pytest.approx(1 - rss.sum() / variation, rel=1e-12)


def test_a_vector_is_inferred_from_what_it_is_multiplied_with() -> None:
    columns = {"u": [0.0, 1.0, 0.0, 2.0], "v": [0.0, 0.0, 1.0, 1.0], "y": [1.0, 3.0, 0.0, 4.0]}
    for model in ("y ~ w @ [u, v] + k", "y ~ [u, v] @ w + k", "y ~ dot(w, [u, v]) + k"):
        found = fit(model, columns)
        np.testing.assert_allclose(found.parameters["w"], [2, -1], rtol=1e-9)
        assert found.formula.count("[") == 2


def test_the_defaults_of_auto_for_arrays() -> None:
    columns = wave(12)
    assert fit("y ~ dense([x], 1, tanh)[0]", columns, epochs=1).optimizer == "adam"
    assert fit("y ~ mlp(x, [2])", columns).epochs == 100
    assert fit("w: 2; c ~ softmax(w*x)", {"x": [1.0, 2, 3], "c": [0, 1, 0]}).optimizer == "lbfgs"
    assert fit("y ~ mlp(z, [2], tanh)", columns, optimizer="lm", epochs=50).optimizer == "lm"
    far = fit("y ~ mlp(x, [2], tanh)", {**columns, "x": 1e6 + columns["x"]}, epochs=1)
    assert any(note.startswith("columns are standardised for the network") for note in far.notes)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("c ~ softmax(mlp(x, [2]))", {"loss": "mae"}, "a classification has the loss cross_entropy, not mae"),
        ("c ~ softmax(mlp(x, [2]))", {"loss": "mse"}, "a classification has the loss cross_entropy, not mse"),
        ("y ~ a*x", {"loss": "cross_entropy"}, "cross_entropy requires a classification"),
        ("c ~ softmax(mlp(x, [2]))", {"optimizer": "lm"}, "lm minimises squared residuals"),
        ("y ~ mlp(x, [100, 100])", {"optimizer": "lm"}, "lm takes at most 5000 parameters"),
        ("y ~ a*x", {"start": {"a": "two"}}, "the value of `a` is neither a number"),
    ],
)
def test_options_that_do_not_go_with_a_network(model: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        fit(model, {**wave(5), "c": [0, 1, 0, 1, 0]}, **options)


@pytest.mark.slow
@each("model", ["y ~ mlp(x, [8], tanh)", "h = dense([x, z], 8, tanh); y ~ dense(h, 1)[0]"])
def test_networks_learn_from_columns_far_from_1(model: str) -> None:
    generator = np.random.default_rng(0)
    x = np.linspace(1900, 2020, 121)
    data = {"x": x, "y": 5000 + 300 * np.sin((x - 1900) / 20), "z": generator.uniform(0, 1e-4, 121)}
    found = fit(model, data, epochs=400)
    assert found.r_squared is not None
    assert found.r_squared > 0.9
    assert "(x - 1960)/35" in found.model
    assert any("columns are standardised for the network" in note for note in found.notes)


def test_networks_learn_targets_far_from_0() -> None:
    x = np.linspace(-2, 2, 60)
    shares = [fit("y ~ mlp(x, [6], tanh)", {"x": x, "y": mean + np.tanh(3 * x)}).r_squared for mean in (0, 9)]
    assert shares == pytest.approx([0.966, 0.966], abs=0.01)


@each("options", [{}, {"loss": "mae"}, {"loss": "huber"}, {"optimizer": "adagrad"}, {"batch_size": 20}])
def test_what_networks_learn_does_not_depend_on_the_unit_of_the_target(options: dict[str, Any]) -> None:
    x = np.linspace(-2, 3, 40)  # of symmetric data some gradients are 0 up to rounding
    data = {"x": x, "y": 3 + np.tanh(3 * x)}
    units = (1e-8, 1e-4, 1e4, 1e8)
    found = [fit("y ~ mlp(x, [6])", {**data, "y": unit * data["y"]}, epochs=20, **options) for unit in units]
    assert [one.r_squared for one in found] == pytest.approx([found[0].r_squared] * len(units), rel=1e-6)

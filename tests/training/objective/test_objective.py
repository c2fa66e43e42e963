"""The objective: its gradient against complex arithmetic, its value whatever the blocks, its losses as defined."""

from __future__ import annotations

import copy
import math
import pickle
import threading
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff_cli as ad
from autodiff_cli import DataError, ExpressionError, Objective, UnknownNameError
from autodiff_cli.array_types import ignore_float_errors
from autodiff_cli.backends import numpy_backend
from autodiff_cli.backends.numpy_backend import BLOCK_ROWS
from autodiff_cli.backends.selection import evaluate
from autodiff_cli.graph import gradient as derivation
from autodiff_cli.graph.node import variable
from autodiff_cli.ops.functions import sigmoid
from autodiff_cli.ops.structural import softmax
from autodiff_cli.options import OptionError
from autodiff_cli.training.losses import LOSSES, textbook_form
from autodiff_cli.training.objective import preparation
from autodiff_cli.training.objective.model import Model
from autodiff_cli.training.objective.preparation import ThreadLocalCache, model_cache
from autodiff_cli.training.rows import WEIGHT, spreads
from tests.each import each

MODEL = "y ~ a*exp(-b*x) + c*sin(d*x)"
THETA = np.array([1.3, 0.7, -0.4, 2.1])
STEP = 1e-200


def data(rows: int) -> dict[str, Any]:
    generator = np.random.default_rng(1)
    return {"x": generator.uniform(0, 3, rows), "y": generator.normal(size=rows), "w": generator.uniform(0, 2, rows)}


def by_hand(columns: dict[str, Any], weights: Any) -> Callable[[Any], Any]:
    """The weighted mean squared error of the model, for complex parameters too."""

    def loss(theta: Any) -> Any:
        a, b, c, d = theta
        residual = columns["y"] - a * np.exp(-b * columns["x"]) - c * np.sin(d * columns["x"])
        return np.sum(weights * residual**2) / np.sum(weights)

    return loss


@each("weights", [None, "w"])
def test_value_and_gradient(weights: str | None) -> None:
    columns = data(2 * BLOCK_ROWS + 11)
    loss = by_hand(columns, columns["w"] if weights else np.ones(2 * BLOCK_ROWS + 11))
    objective = Objective(MODEL, columns, weights=weights)
    value, gradient = objective.value_and_grad(THETA)
    # The slope of an analytic function is what an imaginary step, too small to count in the real part, adds.
    expected = [loss(THETA + 1j * STEP * unit).imag / STEP for unit in np.eye(4)]
    assert objective.parameters == ("a", "b", "c", "d")
    assert value == pytest.approx(loss(THETA), rel=1e-14)
    np.testing.assert_allclose(gradient, expected, rtol=1e-12)


@given(st.integers(1, 3 * 64 + 1), st.sampled_from([7, 64, 1000]))
def test_blocks_do_not_change_the_objective(rows: int, size: int) -> None:
    columns = data(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numpy_backend, "BLOCK_ROWS", size)
        model_cache.clear()
        value, gradient = Objective(MODEL, columns).value_and_grad(THETA)
        triangle = Objective(MODEL, columns).triangle(THETA)
    model_cache.clear()
    whole, whole_gradient = Objective(MODEL, columns).value_and_grad(THETA)
    assert value == pytest.approx(whole, rel=1e-13)
    np.testing.assert_allclose(gradient, whole_gradient, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(triangle.T @ triangle, _gram(columns), rtol=1e-10, atol=1e-10)


def _gram(columns: dict[str, Any]) -> Any:
    """[J | r]ᵀ·[J | r], by hand."""
    a, b, c, d = THETA
    x = columns["x"]
    decay, wave = np.exp(-b * x), np.sin(d * x)
    residual = columns["y"] - a * decay - c * wave
    matrix = np.stack([-decay, a * x * decay, -wave, -c * x * np.cos(d * x), residual], axis=1)
    return matrix.T @ matrix


def test_the_variation_of_the_target_whatever_the_blocks() -> None:
    columns = data(1000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numpy_backend, "BLOCK_ROWS", 7)
        model_cache.clear()
        variation = Objective("y + 1e6 ~ a*x", columns, weights="w").target_variation()
    mean = np.average(columns["y"], weights=columns["w"])
    assert variation == pytest.approx(np.sum(columns["w"] * (columns["y"] - mean) ** 2), rel=1e-9)


def test_an_objective_over_some_rows() -> None:
    columns = data(30)
    whole = Objective(MODEL, columns)
    whole.triangle(THETA)
    some = whole.select_rows(slice(5, 25))
    alone = Objective(MODEL, {name: values[5:25] for name, values in columns.items()})
    assert some.rows == 20
    assert some.value_and_grad(THETA)[0] == alone.value_and_grad(THETA)[0]
    np.testing.assert_array_equal(some.triangle(THETA), alone.triangle(THETA))


def test_sums_are_accurate() -> None:
    value = Objective("0.1*a*x", {"x": np.ones(1_000_000)}).value_and_grad([1.0])[0]
    assert value == pytest.approx(0.1, rel=1e-15)


RESIDUALS = (-3.0, -1.5, -1.0, -0.25, 0.0, 0.5, 1.0, 7.0)


@each(
    ("loss", "of_residual"),
    [("mse", lambda r: r**2), ("mae", abs), ("huber", lambda r: r**2 / 2 if abs(r) <= 1 else abs(r) - 0.5)],
)
@each("residual", RESIDUALS)
def test_losses_of_a_residual(loss: str, of_residual: Callable[[float], float], residual: float) -> None:
    options = {"huber_delta": 1} if loss == "huber" else {}
    assert Objective("y ~ a", {"y": [residual]}, loss=loss, **options).value_and_grad([0.0])[0] == of_residual(residual)


@each("score", [-800.0, -40.0, -1.0, 0.0, 3.0, 40.0, 800.0])
@each("target", [0.0, 0.3, 1.0])
def test_bce_keeps_its_digits_where_the_model_ends_in_sigmoid(score: float, target: float) -> None:
    value, gradient = Objective("t ~ sigmoid(a)", {"t": [target]}, loss="bce").value_and_grad([score])
    with mpmath.workdps(800):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(score)))
        expected = -target * mpmath.log(p) - (1 - mpmath.mpf(target)) * mpmath.log(1 - p)
        slope = p - target
    assert value == pytest.approx(float(expected), rel=1e-15)
    assert gradient[0] == pytest.approx(float(slope), rel=1e-14, abs=1e-16)


def test_bce_of_a_probability() -> None:
    value, gradient = Objective("t ~ p", {"t": [1, 0]}, loss="bce").value_and_grad([0.25])
    assert value == pytest.approx((-math.log(0.25) - math.log(0.75)) / 2, rel=1e-15)
    assert gradient[0] == pytest.approx((-1 / 0.25 + 1 / 0.75) / 2, rel=1e-15)
    assert Objective("t ~ p", {"t": [1, 1]}, loss="bce").value_and_grad([1.0])[0] == 0
    assert Objective("t ~ p", {"t": [0, 0]}, loss="bce").value_and_grad([0.0])[0] == 0
    for missed, target in ((0.0, 1), (1.0, 0)):  # what is certain and does not happen
        assert Objective("t ~ p", {"t": [target]}, loss="bce").value_and_grad([missed])[0] == math.inf


def test_an_expression_is_its_own_loss() -> None:
    value, gradient = Objective("(y - a*x)^4", {"x": [1, 2], "y": [1, 1]}).value_and_grad([2.0])
    assert (value, gradient.tolist()) == ((1 + 81) / 2, [(4 * 1 + 2 * 4 * 27) / 2])


def test_sigma_is_weights_of_one_over_its_square() -> None:
    columns = data(50)
    sigma = Objective(MODEL, columns, sigma=columns["w"]).value_and_grad(THETA)
    weights = Objective(MODEL, columns, weights=1 / columns["w"] ** 2).value_and_grad(THETA)
    assert sigma[0] == weights[0]
    assert sigma[1].tolist() == weights[1].tolist()


def test_fixed_parameters_are_not_in_theta() -> None:
    objective = Objective(MODEL, data(20), fixed={"b": 0.7})
    value, gradient = Objective(MODEL, data(20)).value_and_grad(THETA)
    assert objective.parameters == ("a", "c", "d")
    assert objective.value_and_grad([1.3, -0.4, 2.1])[0] == pytest.approx(value, rel=1e-15)
    np.testing.assert_allclose(objective.value_and_grad([1.3, -0.4, 2.1])[1], gradient[[0, 2, 3]], rtol=1e-13)


def test_the_hessian_of_the_summed_loss() -> None:
    hessian = Objective("(a*x - y)^2 + exp(a*b)", {"x": [1, 2, 3], "y": [1, 1, 1]}).hessian([0.5, 2.0])
    e = math.e
    np.testing.assert_allclose(hessian, [[2 * 14 + 3 * 4 * e, 3 * (e + e)], [3 * (e + e), 3 * 0.25 * e]], rtol=1e-14)


def test_outside_the_domain_it_is_nan_and_nothing_is_raised() -> None:
    value, gradient = Objective("y ~ log(a)*x", {"x": [1, 2], "y": [1, 2]}).value_and_grad([-1.0])
    assert math.isnan(value)
    assert math.isnan(gradient[0])


@each(
    ("options", "error", "message"),
    [
        ({"loss": "mze"}, OptionError, "there is no loss mze; did you mean mse?"),
        ({"loss": "l1"}, OptionError, "there is no loss l1; did you mean mae?"),
        ({"loss": "l2"}, OptionError, "there is no loss l2; did you mean mse?"),
        ({"loss": "l3"}, OptionError, "there is no loss l3; there are mse, mae, huber, logcosh, .*, cross_entropy"),
        ({"loss": "bce"}, DataError, "a target between 0 and 1, not from"),
        ({"weights": [1, 2]}, DataError, "weights: 2 values for 20 rows"),
        ({"weights": "z"}, DataError, r"weights: the data have no column `z` \(x, y, w\)"),
        ({"weights": "[x, w]"}, DataError, r"weights: `\[x, w\]` must be a single number in each row"),
        ({"weights": "dot(x, [1, 2])"}, DataError, "must be a single number in each row"),
        ({"weights": "w: 20; w"}, DataError, "must be a single number in each row"),
        ({"sigma": "[[x, w], [w, x]]"}, DataError, "must be a single number in each row"),
        ({"sigma": 1.0, "x_sigma": {"x": "[x, w]"}}, DataError, "must be a single number in each row"),
        ({"weights": [-1.0, *[1.0] * 19]}, DataError, "weights: row 1 has -1.0; a weight cannot be negative"),
        ({"weights": [math.nan, *[1.0] * 19]}, DataError, "weights: row 1 has nan"),
        ({"weights": [0] * 20}, DataError, "all weights are 0"),
        ({"sigma": [*[1.0] * 19, 0]}, DataError, "sigma: row 20 has 0.0; a standard deviation must be positive"),
        ({"sigma": "w", "weights": "w"}, OptionError, "so give only one"),
        ({"fixed": {"k": 1}}, UnknownNameError, "no parameter `k`"),
        ({"fixed": {"x": 1}}, UnknownNameError, "`x` is a column of the data"),
    ],
)
def test_mismatched_columns_and_options_are_reported(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Objective(MODEL, data(20), **options)


def test_a_target_that_is_not_finite_is_named_by_row() -> None:
    with pytest.raises(DataError, match=r"left side of `~` is not finite in row 2 \(y = 0, x = 5\)"):
        Objective("log(y) ~ a*x", {"x": [4, 5, 6], "y": [1, 0, -1]})


def test_models_that_are_none() -> None:
    with pytest.raises(ExpressionError, match="`z`, left of `~`, is not a column"):
        Objective("z ~ a*x", data(3))
    with pytest.raises(ExpressionError, match="nothing to fit"):
        Objective("y ~ 2*x", data(3))
    with pytest.raises(OptionError, match="requires a model `target ~ prediction`"):
        Objective("a*x", data(3), loss="mae")
    with pytest.raises(OptionError, match="the loss mse requires a model `target ~ prediction`"):
        Objective("a*x", data(3), loss="mse")


def test_second_derivatives_are_made_once() -> None:
    objective = Objective("y ~ a*x", {"x": [1, 2], "y": [2, 5]})
    before = objective.kernels.hessian_rows(0)
    objective.hessian([3])
    assert objective.select_rows(slice(1)).kernels.hessian_rows(0) is before


def test_a_cached_model_is_not_used_for_another() -> None:
    columns = data(20)
    other = {**data(30), "d": np.ones(30)}
    asked: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (columns, {}),
        (other, {}),  # where `d` is a column
        (columns, {"weights": "w"}),
        (columns, {"loss": "mae"}),
        (columns, {"loss": "huber", "huber_delta": 0.5}),
        (columns, {"loss": "huber", "huber_delta": 1.5}),
        (columns, {"fixed": {"a": 2.0}}),
        (columns, {"fixed": {"d": 2.0}}),
        (columns, {"start": {"a": 3.0}}),
    ]

    def answers(objective: Objective) -> tuple[Any, ...]:
        theta = objective.start + 0.3
        return objective.parameters, objective.value(theta), objective.value_and_grad(theta)[1].tolist()

    alone = []
    for given_data, options in asked:
        model_cache.clear()
        alone.append(answers(Objective(MODEL, given_data, **options)))
    assert [answers(Objective(MODEL, given_data, **options)) for given_data, options in [*asked, *asked]] == alone * 2
    assert len({str(answer) for answer in alone}) == len(asked)


def decay(seed: int) -> dict[str, Any]:
    """Columns of two groups, whose fits need no better starting values."""
    x = np.tile(np.linspace(0.0, 3.0, 20), 2)
    y = 2.5 * np.exp(-1.3 * x) + 0.02 * np.random.default_rng(seed).normal(size=40)
    return {"x": x, "y": y, "group": np.repeat([1, 2], 20)}


DECAY = "y ~ a*exp(-b*x)"


@each(
    "run",
    [
        lambda columns: [ad.fit(DECAY, columns)],
        lambda columns: [ad.fit(DECAY, columns, starts=5)],
        lambda columns: [group.fit for group in ad.fit_by(DECAY, columns, "group")],
        lambda columns: [one.fit for one in ad.compare([DECAY, "y ~ a + b*x"], columns).models],
    ],
)
def test_a_formula_is_prepared_once_for_all_data(run: Callable[[dict[str, Any]], list[Any]]) -> None:
    """Neither parsed nor compiled again for other data, whose fit has the same bits as without the first one."""

    def answers(seed: int) -> list[Any]:
        return [(each.loss, each.parameters, each.stderr, each.warnings, each.notes) for each in run(decay(seed))]

    def refuse(*_: Any) -> None:
        raise AssertionError("prepared again")

    model_cache.clear()
    alone = answers(2)
    model_cache.clear()
    answers(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Model, "parse", refuse)
        patch.setattr(preparation, "build_graphs", refuse)
        patch.setattr(numpy_backend, "BlockEvaluator", refuse)
        assert answers(2) == alone


def test_threads_share_no_memory_of_a_model() -> None:
    columns = data(BLOCK_ROWS + 7)  # so many that arrays are used again
    objectives: list[Objective] = []
    thread = threading.Thread(target=lambda: objectives.append(Objective(MODEL, columns)))
    thread.start()
    thread.join()
    here = Objective(MODEL, columns)
    assert here.kernels is Objective(MODEL, columns).kernels
    assert here.kernels is not objectives[0].kernels


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("y ~ a*exp(-b*x) + c", {}),
        ("y ~ a*exp(-b*x) + c*exp(-d*x)", {}),
        ("y ~ a*sin(v*x + p) + c", {}),
        ("y ~ a*exp(-b*x) + c", {"loss": "huber"}),
        ("y ~ a*exp(-b*x) + c", {"optimizer": "lbfgs", "bounds": {"a": (0, None)}}),
        ("-log(normal_pdf(y, m, s))", {"likelihood": True}),
    ],
)
def test_a_second_fit_of_a_model_derives_no_graph_again(
    model: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.linspace(0, 4, 40)
    columns = {"x": x, "y": 2 * (np.sin(3 * x) if "sin" in model else np.exp(-x)) + 0.3 + 0.05 * np.sin(40 * x)}
    first = ad.fit(model, columns, **options)
    monkeypatch.setattr(derivation, "reverse_sweep", lambda *_: pytest.fail("a graph is derived again"))
    second = ad.fit(model, columns, **options)
    assert second.parameters == first.parameters
    assert second.notes == first.notes


def test_typical_sizes_are_root_mean_squares_and_deviations() -> None:
    x, constant = np.array([3.0, -1.0, 4.0, 10.0]), np.full(4, 2.0)
    weights = np.array([1.0, 0.0, 2.0, 5.0])
    for columns, repeats in (({}, np.ones(4, int)), ({WEIGHT: weights}, weights.astype(int))):
        found = spreads(np.array([x, constant]), columns)
        every = np.repeat([x, constant], repeats, axis=1)
        assert found[:2] == (pytest.approx([-1, 2]), pytest.approx([10, 2]))
        np.testing.assert_allclose(found.means, every.mean(axis=1))
        sizes = [*np.sqrt(np.mean(np.square(every), axis=1)), every[0].std()]  # a constant has no deviation
        with ignore_float_errors():
            np.testing.assert_allclose(found.typical_sizes, [1, *sizes, *np.reciprocal(sizes)])


@pytest.mark.parametrize("rows", [1, 2, 3, 20_000])
def test_triangles_have_the_products_of_their_matrices(rows: int) -> None:
    """Also where there are fewer rows than parameters."""
    x = np.linspace(0.1, 2, rows)
    y = np.sin(9 * x)
    own = Objective("y ~ a + b*x + c*x^2", {"x": x, "y": y})
    theta = np.array([0.3, -0.2, 0.5])
    jacobian = -np.stack((np.ones(rows), x, x**2), axis=1)
    residuals = y + jacobian @ theta
    matrix = np.column_stack((jacobian, residuals))
    triangle = own.triangle(theta)
    np.testing.assert_allclose(triangle.T @ triangle, matrix.T @ matrix, rtol=1e-12, atol=1e-12)
    scores = own.score_triangle(theta)
    gradients = 2 * jacobian * residuals[:, None]
    np.testing.assert_allclose(scores.T @ scores, gradients.T @ gradients, rtol=1e-12, atol=1e-12)
    for factor in (triangle, scores):
        np.testing.assert_array_equal(factor, np.triu(factor))


@each("model", ["y ~ a*exp(-b*x)", "y ~ a[g]*exp(-b*x)", "g ~ softmax(dense(x, 2))"])
def test_copies_have_the_same_values(model: str) -> None:
    data = {"x": np.arange(5.0), "y": np.arange(5.0), "g": [*"aabbb"]}
    objective = Objective(model, data)
    theta = np.full(objective.layout.size, 0.5)
    for other in (copy.copy(objective), copy.deepcopy(objective), pickle.loads(pickle.dumps(objective))):
        value, gradient = other.value_and_grad(theta)
        assert value == objective.value(theta)
        assert gradient.tolist() == objective.value_and_grad(theta)[1].tolist()


def test_a_cache_forgets_what_was_not_used_for_longest_and_never_an_exception() -> None:
    cache, computed = ThreadLocalCache[str](2), list[str]()

    def get(key: str) -> str:
        return cache.get(key, lambda: computed.append(key) or key.upper())

    for key, before in (("a", 0), ("b", 1), ("a", 2), ("c", 2), ("a", 3), ("b", 3), ("c", 4), ("b", 5)):
        assert len(computed) == before
        assert get(key) == key.upper()
    with pytest.raises(ZeroDivisionError):
        cache.get("d", lambda: str(1 / 0))
    assert get("b") == "B"
    assert len(computed) == 5
    cache.clear()
    assert get("b") == "B"
    assert len(computed) == 6


@pytest.mark.parametrize("loss", ["bce", "cross_entropy"])
def test_textbook_forms_of_the_cross_entropy_are_those_of_the_losses(loss: str) -> None:
    target, scores = variable("t"), variable("s")
    shapes = {} if loss == "bce" else {"t": (3,), "s": (3,)}
    prediction = sigmoid(scores) if loss == "bce" else softmax(scores)
    textbook = textbook_form(loss, target, prediction)
    assert textbook is not None
    graphs = [LOSSES[loss].graph(target, prediction, 1.0), textbook]
    points = ((0.3, 0.7), (1.0, -2.0)) if loss == "bce" else (([0.0, 1, 0], [1.0, 2, -1]), ([1.0, 0, 0], [0.1, 0, 3]))
    for t, s in points:
        found = evaluate(graphs, {"t": np.array(t), "s": np.array(s)}, shapes)
        assert float(found[1]) == pytest.approx(float(found[0]), rel=1e-12)
    assert textbook_form("mse", target, prediction) is None
    assert textbook_form("bce", target, scores) is None


MIXTURE = "-log(u*normal_pdf(y, m, 1) + v*normal_pdf(y, n, 1) + (1 - u - v)*normal_pdf(y, 9, 1))"
ORDERED: list[tuple[str, dict[str, Any], list[float]]] = [
    ("y ~ a*x + b", {"bounds": {"b": ("a", None)}}, [1.0, 4.0]),
    ("y ~ a*x + b", {"bounds": {"b": ("a", None)}}, [4.0, 1.0]),
    ("y ~ a*x + b + c*x^2", {"bounds": {"b": ("a", None), "c": ("b", None)}}, [1.0, 2.0, 5.0]),
    (MIXTURE, {"likelihood": True}, [0.2, 0.5, 1.0, 4.0]),
    (MIXTURE, {"likelihood": True}, [0.8, 0.7, 1.0, 4.0]),
]


@pytest.mark.parametrize(("model", "options", "values"), ORDERED)
def test_slacks_stand_for_differences_and_remainders(model: str, options: dict[str, Any], values: list[float]) -> None:
    """The loss is the same, and the solution with slacks leads back to parameters in order."""
    objective = Objective(model, {"x": [1.0, 2.0, 3.0], "y": [3.0, 5.0, 4.0]}, **options)
    names = sorted(objective.parameters, key="uvmnabc".index)
    theta = np.array([dict(zip(names, values, strict=True))[name] for name in objective.parameters])
    inside = objective.constraints.restore(theta)
    slack = objective.with_slacks(theta)
    assert slack.value(slack.start) == pytest.approx(objective.value(inside), rel=1e-12)
    assert slack.bounds.contains(slack.start)
    assert slack.user_starts == {*objective.parameters}
    moved = slack.bounds.clip(slack.start * 0.9)
    again = objective.add_slacks(moved, theta)
    assert objective.constraints.are_met(again.start)
    assert objective.value(again.start) == pytest.approx(slack.value(moved), rel=1e-12)
    assert again.bounds.contains(again.start)


@pytest.mark.parametrize(
    ("model", "options", "values", "free"),
    [
        ("y ~ a*x + b", {"bounds": {"b": ("a", None)}}, [2.0, 2.0], [0]),
        ("y ~ a*x + b + c*x^2", {"bounds": {"b": ("a", None), "c": ("b", None)}}, [2.0, 2.0, 2.0], [0]),
        (MIXTURE, {"likelihood": True}, [0.4, 0.6, 1.0, 4.0], [0, 2, 3]),
    ],
)
def test_derivatives_on_constraints_are_along_them(
    model: str, options: dict[str, Any], values: list[float], free: list[int]
) -> None:
    objective = Objective(model, {"x": [1.0, 2.0, 3.0], "y": [3.0, 5.0, 4.0]}, **options)
    names = sorted(objective.parameters, key="uvmnabc".index)
    theta = np.array([dict(zip(names, values, strict=True))[name] for name in objective.parameters])
    restricted, slopes = objective.on_constraints(theta)
    assert restricted.value(theta) == pytest.approx(objective.value(theta), rel=1e-12)
    gradient, along = objective.value_and_grad(theta)[1], restricted.value_and_grad(theta)[1]
    moving = [objective.parameters.index(names[k]) for k in free]
    np.testing.assert_allclose(along[moving], (slopes.T @ gradient)[moving], rtol=1e-9)
    fixed = restricted.bounds.low == restricted.bounds.high
    assert not fixed[moving].any()
    assert fixed.sum() == len(theta) - len(free)


@pytest.mark.parametrize("share", [0.0, 0.3, 2.0])
def test_kinks_are_smoothed_by_a_share_of_the_mean_size_of_their_arguments(share: float) -> None:
    """`abs(u)` becomes `hypot(u, e)`, in losses, models and penalties; the size is that at a given point."""
    x = np.linspace(-1, 2, 9)
    data, theta, at = {"x": x, "y": np.sin(5 * x)}, np.array([0.7, -0.4]), np.array([1.5, 0.2])

    def smooth(objective: Objective) -> float:
        kinked = objective.without_kinks()
        assert kinked is not None
        return kinked.with_smoothing(share, at).value(theta)

    def residuals(point: Any) -> Any:
        return data["y"] - point[0] * x - point[1]

    absolute = np.mean(np.hypot(residuals(theta), share * np.mean(np.abs(residuals(at)))))
    assert smooth(Objective("y ~ a*x + b", data, loss="mae")) == pytest.approx(absolute, rel=1e-12)
    penalty = 0.3 * np.sum(np.hypot(theta, share * np.abs(at).max()))  # parameters share one radius
    squares = np.mean(residuals(theta) ** 2)
    assert smooth(Objective("y ~ a*x + b", data, l1=0.3)) == pytest.approx(squares + penalty, rel=1e-12)
    own = np.hypot(theta[0] - x, share * np.mean(np.abs(at[0] - x)))
    bent = Objective("y ~ abs(a - x) + b", data)
    assert smooth(bent) == pytest.approx(np.mean((data["y"] - own - theta[1]) ** 2), rel=1e-12)
    assert Objective("y ~ a*exp(b*x)", data).without_kinks() is None
    assert Objective("y ~ a*abs(x) + b", data).without_kinks() is None  # no parameter moves it


@pytest.mark.parametrize("options", [{}, {"weights": "w"}, {"l2": 0.3}, {"l2": 0.3, "weights": "w"}], ids=str)
@pytest.mark.parametrize("model", ["y ~ a*exp(-b*x)", "[y, x] ~ [a*exp(-b*x), a + c*x]"])
def test_the_triangle_has_the_loss_and_its_gradient(model: str, options: dict[str, Any]) -> None:
    x = np.linspace(0, 2, 9)
    objective = ad.Objective(model, {"x": x, "y": np.cos(3 * x), "w": 1 + x}, **options)
    theta = np.linspace(0.4, 1.1, len(objective.parameters))
    triangle, total = objective.triangle(theta), objective.total_weight * objective.components
    value, gradient = objective.value_and_grad(theta)
    assert triangle[:, -1] @ triangle[:, -1] / total == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(2 * triangle[:, :-1].T @ triangle[:, -1] / total, gradient, rtol=1e-10)

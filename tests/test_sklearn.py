"""Formulas as scikit-learn estimators."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from tests.each import each

sklearn = pytest.importorskip(
    "sklearn", reason="scikit-learn is not installed; `pip install -e '.[sklearn]'` brings it"
)

X = np.linspace(0, 3, 60).reshape(-1, 1)
Y = 2.5 * np.exp(-1.3 * X[:, 0])


def estimators() -> list[Any]:
    from autodiff_cli.sklearn import FormulaClassifier, FormulaRegressor

    return [FormulaRegressor(), FormulaRegressor("a + b*x0 + c*x0^2"), FormulaClassifier()]


@pytest.mark.slow
@pytest.mark.parametrize("k", [0, 2])
def test_what_scikit_learn_asks_of_an_estimator(k: int) -> None:
    from sklearn.utils.estimator_checks import check_estimator

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of checks that it skips
        found = check_estimator(estimators()[k], on_fail=None)
    assert [(one["check_name"], one["exception"]) for one in found if one["status"] == "failed"] == []
    assert sum(one["status"] == "passed" for one in found) > 50


def test_attributes_after_a_fit_are_those_of_the_fit() -> None:
    from autodiff_cli.sklearn import FormulaClassifier, FormulaRegressor

    model = FormulaRegressor("target*exp(-b*x0)").fit(X, Y)  # the target has another name than the parameter
    assert model.parameters_ == pytest.approx({"target": 2.5, "b": 1.3})
    assert model.n_iter_ == model.fit_.epochs > 1
    weights = np.repeat([1.0, 1.0, 0.0], 20)
    chosen = FormulaClassifier().fit(X, np.repeat(["a", "b", "c"], 20), sample_weight=weights)
    assert chosen.classes_.tolist() == ["a", "b"]  # no row of the third class has a weight


def test_estimators_work_with_pipelines_grid_search_and_pickle() -> None:
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from autodiff_cli.sklearn import FormulaRegressor

    model = FormulaRegressor("a*exp(-b*x0)").fit(X, Y)
    assert model.parameters_ == pytest.approx({"a": 2.5, "b": 1.3})
    assert model.score(X, Y) == pytest.approx(1)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    formulas = {"formula": ["a + b*x0", "a*exp(-b*x0)"]}
    assert GridSearchCV(FormulaRegressor(), formulas, cv=3).fit(X, Y).best_params_["formula"] == "a*exp(-b*x0)"
    scaled = make_pipeline(StandardScaler(), FormulaRegressor("a*exp(-b*x0) + c")).fit(X, Y)
    np.testing.assert_allclose(scaled.predict(X), Y, atol=1e-8)


@pytest.mark.parametrize("k", [0, 2])
def test_a_negative_weight_is_refused_and_does_not_drop_its_row(k: int) -> None:
    weights = np.ones(len(X))
    weights[7] = -1
    with pytest.raises(ValueError, match="Negative values"):
        estimators()[k].fit(X, Y > 1, sample_weight=weights)


def test_the_random_state_chooses_the_initial_weights() -> None:
    from autodiff_cli.sklearn import FormulaRegressor

    def weights(seed: int) -> dict[str, Any]:
        network = FormulaRegressor("mlp(x0, [2, 1])", epochs=1, optimizer="sgd", random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one epoch is too few
            return {name: np.ravel(value).tolist() for name, value in network.fit(X, Y).parameters_.items()}

    assert weights(1) == weights(1) != weights(2)


def test_columns_of_a_frame_have_its_names() -> None:
    pandas = pytest.importorskip("pandas")
    from autodiff_cli.sklearn import FormulaRegressor

    frame = pandas.DataFrame({"t": X[:, 0], "Temp [°C]": X[:, 0] ** 2})
    model = FormulaRegressor("a*exp(-b*t) + c*`Temp [°C]`").fit(frame, Y + 0.5 * X[:, 0] ** 2)
    assert model.parameters_ == pytest.approx({"a": 2.5, "b": 1.3, "c": 0.5})


@pytest.mark.parametrize(
    "formula",
    [
        "a*exp(-b*x0)  # decay; see the book", "a*exp(-b*x0)\n# decay\n", "a*exp(-b*x0);", "p = a*exp(-b*x0)",
        "a*exp(\n  -b*x0\n)", "a*\n exp(-b*x0)", "u = -b*x0\n v = exp(u); a*v", "u = -b*x0; a*exp(u) # ; 1",
        "f(t) = exp(-b*t)\r\na*f(x0)\r\n", "`p; q` = b*x0; `r ~` = a*exp(-`p; q`)",
    ],
)  # fmt: skip
def test_the_last_statement_of_a_formula_is_the_prediction(formula: str) -> None:
    from autodiff_cli.sklearn import FormulaRegressor

    assert FormulaRegressor(formula).fit(X, Y).parameters_ == pytest.approx({"a": 2.5, "b": 1.3})


def test_a_formula_is_not_a_model() -> None:
    from autodiff_cli.sklearn import FormulaRegressor

    with pytest.raises(ValueError, match="leave out `~` and its left side"):
        FormulaRegressor("y ~ a*x0").fit(X, Y)


def test_a_column_that_an_array_lacks_is_no_parameter() -> None:
    from autodiff_cli.sklearn import FormulaRegressor

    with pytest.raises(ValueError, match="the formula has `x1`, but the columns are only x0"):
        FormulaRegressor("a*x0 + b*x1").fit(X, Y)


@pytest.mark.parametrize(
    "names",
    [
        ("a;b", "x1"),
        ("x`y", ""),
        ("x1", "x0"),
        *(
            pytest.param(pair, marks=pytest.mark.slow)
            for pair in [("slope_0", "intercept"), ("and", "x1"), ("µ", "μ"), ("pi", "x")]
        ),
    ],
)
def test_the_default_formula_does_not_depend_on_the_names_of_columns(names: tuple[str, str]) -> None:
    pandas = pytest.importorskip("pandas")
    rows = np.random.default_rng(0).normal(size=(30, 2))
    target = rows @ [1.0, -2.0] + 3
    frame = pandas.DataFrame(rows, columns=[*names])
    for expected in estimators()[::2]:
        model = sklearn.base.clone(expected).fit(frame, np.round(target))
        expected.fit(rows, np.round(target))
        np.testing.assert_array_equal(model.predict(frame), expected.predict(rows))


def test_classes() -> None:
    from sklearn.exceptions import NotFittedError
    from sklearn.linear_model import LogisticRegression

    from autodiff_cli.sklearn import FormulaClassifier

    random = np.random.default_rng(0)
    rows = random.normal(size=(200, 2))
    labels = np.where(rows @ [1.0, -2.0] + random.normal(size=200) > 0, "yes", "no")
    binary = FormulaClassifier("sigmoid(a*x0 + b*x1 + c)")
    with pytest.raises(NotFittedError):
        binary.predict_proba(rows)
    binary.fit(rows, labels)
    reference = LogisticRegression(C=np.inf, tol=1e-10).fit(rows, labels)
    np.testing.assert_allclose(binary.predict_proba(rows), reference.predict_proba(rows), atol=1e-6)
    of_all = FormulaClassifier().fit(rows, labels)
    assert of_all.score(rows, labels) == pytest.approx(reference.score(rows, labels), abs=0.02)
    with pytest.raises(ValueError, match=r"one number for 3 classes: use softmax"):
        FormulaClassifier("sigmoid(a*x0)").fit(rows, np.arange(200) % 3)


@pytest.mark.parametrize("options", [{"loss": "mse"}, {"family": "gaussian"}, {"family": "quasibinomial"}])
def test_the_loss_of_two_classes_can_be_chosen(options: dict[str, Any]) -> None:
    from autodiff_cli.sklearn import FormulaClassifier

    rows = np.arange(8.0).reshape(-1, 1)
    labels = np.array([0, 0, 1, 0, 1, 1, 0, 1])
    model = FormulaClassifier("sigmoid(a*x0 + b)", **options).fit(rows, labels)
    expected = ad.fit("y ~ sigmoid(a*x + b)", {"x": rows[:, 0], "y": labels}, **options)
    assert model.parameters_ == expected.parameters
    np.testing.assert_array_equal(model.predict_proba(rows)[:, 1], expected.probabilities({"x": rows[:, 0]}))


@pytest.mark.parametrize("formula", ["a*x0 + b", "log(x0 - 1) + a"])
def test_numbers_that_are_no_probabilities_are_refused(formula: str) -> None:
    from autodiff_cli.sklearn import FormulaClassifier

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit diverges
        model = FormulaClassifier(formula, loss="mse", no_columns=True).fit(X, Y > 1)
    for predict in (model.predict, model.predict_proba):
        with pytest.raises(ValueError, match="not between 0 and 1"):
            predict(X)


OPTIONS: list[dict[str, Any]] = [
    {"loss": "logcosh"}, {"family": "poisson"}, {"l2": 0.3}, {"sigma": "x1"}, {"weights": "x1"}, {"confidence": 0.5},
    {"priors": {"slope_1": "normal(0, 0.1)"}}, {"start": {"slope_1": 7}, "optimizer": "lbfgs"},
    {"derive": {"q": "2*slope_0"}},
    {"batch_size": 30, "optimizer": "adam", "epochs": 3, "lr_schedule": "cosine", "validation": 0.3, "seed": 2},
]  # fmt: skip


@each(
    "formula, options",
    [*itertools.product([None, "intercept + slope_0*x0 + slope_1*x1"], OPTIONS)],
    quick=lambda formula, options: (formula is None) == (OPTIONS.index(options) % 2 == 0),
)
def test_the_options_of_an_estimator_are_those_of_a_fit(formula: str | None, options: dict[str, Any]) -> None:
    from autodiff_cli.sklearn import FormulaRegressor

    rows = np.column_stack([X[:, 0], 1 + np.arange(60) % 7])
    target = np.round(4 + 2 * X[:, 0] + rows[:, 1] + np.sin(9 * X[:, 0]))
    data = {"x0": rows[:, 0], "x1": rows[:, 1], "target": target}
    expected = ad.fit("target ~ intercept + slope_0*x0 + slope_1*x1", data, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few epochs are too few
        found = FormulaRegressor(formula, **options).fit(rows, target)
    assert found.parameters_ == expected.parameters
    assert (found.fit_.confidence(), found.fit_.derived) == (expected.confidence(), expected.derived)


@each("unit_of_x", [1e-8, 1e-4, 1e6])
@each("unit_of_y", [1e-8, 1.0, 1e5])
def test_the_default_regressor_is_linear_regression_in_any_unit(unit_of_x: float, unit_of_y: float) -> None:
    """Also for columns that are collinear."""
    from sklearn.linear_model import LinearRegression

    from autodiff_cli.sklearn import FormulaRegressor

    generator = np.random.default_rng(4)
    rows = generator.uniform(0, 1, (9, 3)) * unit_of_x
    target = (rows @ [2, -1, 0.5] / unit_of_x + generator.normal(0, 0.1, 9)) * unit_of_y
    for columns in (rows, np.column_stack([rows, rows[:, 0]])):
        expected = LinearRegression().fit(columns, target).predict(columns)
        found = FormulaRegressor().fit(columns, target)
        np.testing.assert_allclose(found.predict(columns), expected, rtol=1e-6, atol=1e-6 * unit_of_y)


@each("unit, zero", [(1e-8, 0.0), (1e-3, 5.0), (30.0, -2.0), (1.8, 32.0), (1e6, 0.0)])
def test_the_default_classifier_is_the_same_in_any_unit(unit: float, zero: float) -> None:
    from autodiff_cli.sklearn import FormulaClassifier

    generator = np.random.default_rng(4)
    rows = np.column_stack([generator.normal(0, 1, (60, 2)), np.ones(60)])  # a column may be constant
    labels = rows[:, 0] - 2 * rows[:, 1] + generator.normal(0, 1, 60) > 0
    expected = FormulaClassifier().fit(rows, labels).predict_proba(rows)
    found = FormulaClassifier().fit(rows * unit + zero, labels).predict_proba(rows * unit + zero)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert found[:, 1].min() < 0.05 < 0.95 < found[:, 1].max()


def test_a_fit_that_does_not_converge_warns() -> None:
    from autodiff_cli.sklearn import FormulaRegressor

    with pytest.warns(sklearn.exceptions.ConvergenceWarning):
        FormulaRegressor("a*exp(-b*x0)", optimizer="sgd", epochs=1).fit(X, Y)


def test_weights_of_rows_count_them_and_0_leaves_them_out() -> None:
    """Standard errors count rows, so that they differ."""
    from autodiff_cli.sklearn import FormulaClassifier, FormulaRegressor

    counts = np.arange(len(X)) % 3
    y = Y + np.sin(7 * np.arange(len(X)))
    weighted = FormulaRegressor("a*exp(-b*x0)").fit(X, y, sample_weight=counts)
    repeated = FormulaRegressor("a*exp(-b*x0)").fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert weighted.parameters_ == pytest.approx(repeated.parameters_, rel=1e-6)
    alone = ad.fit("y ~ a*exp(-b*x)", {"x": X[:, 0], "y": y, "w": counts}, weights="w")
    assert weighted.stderr_ == pytest.approx(alone.stderr, rel=1e-5)
    for row in X[::20]:
        assert weighted.predict([row]) == pytest.approx(alone.predict({"x": row}), rel=1e-6)
    labels = y > np.median(y)
    classes = FormulaClassifier().fit(X, labels, sample_weight=counts)
    as_often = FormulaClassifier().fit(np.repeat(X, counts, axis=0), np.repeat(labels, counts))
    for name, values in classes.parameters_.items():
        np.testing.assert_allclose(values, as_often.parameters_[name], rtol=1e-5)
    prior = {"dense.0.weight": "normal(0, 1)"}  # in place of the default penalty
    assert FormulaClassifier(priors=prior).fit(X, labels).fit_.priors == prior


def test_columns_may_have_the_name_of_the_target() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    from autodiff_cli.sklearn import FormulaRegressor

    frame = pandas.DataFrame({"target": X[:, 0], "target_": X[::-1, 0] ** 2})
    model = FormulaRegressor("a + b*target + c*target_").fit(frame, 3 - frame["target"] + 2 * frame["target_"])
    assert model.parameters_ == pytest.approx({"a": 3, "b": -1, "c": 2})


def test_weights_are_given_once() -> None:
    from autodiff_cli.sklearn import FormulaRegressor

    with pytest.raises(ValueError, match="not both"):
        FormulaRegressor("a*x0", weights="x0").fit(X, Y, sample_weight=np.ones(len(X)))


def test_labels_that_are_measured_numbers_are_refused() -> None:
    from autodiff_cli.sklearn import FormulaClassifier

    with pytest.raises(ValueError, match="continuous"):
        FormulaClassifier("sigmoid(a*x0 + b)").fit([[0.0], [1.0], [2.0]], [0.5, 1.5, 2.25])


@pytest.mark.slow
def test_without_the_extra_the_message_names_what_to_install() -> None:
    code = "import sys; sys.modules['sklearn'] = None; import autodiff_cli.sklearn"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.rstrip().endswith("pip install scikit-learn")


@pytest.mark.slow
def test_frames_tables_and_structured_arrays() -> None:
    pandas, polars, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    columns = {"x": X[:, 0], "y": Y}
    structured = np.zeros(len(X), dtype=[("x", float), ("y", float)])
    structured["x"], structured["y"] = X[:, 0], Y
    expected = ad.fit("y ~ a*exp(-b*x)", columns)
    for data in (pandas.DataFrame(columns), polars.DataFrame(columns), pa.table(columns), structured):
        found = ad.fit("y ~ a*exp(-b*x)", data)
        assert found.parameters == expected.parameters
        np.testing.assert_array_equal(found.predict(data), expected.predict(columns))
    with pytest.raises(TypeError, match="an array has no column names"):
        ad.fit("y ~ a*x", np.ones((3, 2)))  # type: ignore[arg-type]

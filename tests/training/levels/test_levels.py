"""One parameter per level (`a[group]`), compared with least squares on explicit indicator columns."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

import autodiff_cli as ad
from autodiff_cli.data.table import DataError, csv_text
from autodiff_cli.language.errors import ExpressionError, MissingValueError, UnknownNameError
from autodiff_cli.options import OptionError
from tests.support import run_cli

X = np.tile(np.linspace(0, 3, 8), 3)
SITE = np.repeat(["north", "south", "far east"], 8)
CODE = np.repeat([3, 1, 2], 8)
TRUE = {"north": 2.0, "south": 3.0, "far east": 5.0}
Y = np.array([TRUE[site] for site in SITE]) * np.exp(-0.7 * X) + 0.05 * np.sin(11 * X + CODE)
DATA = {"x": X, "y": Y, "site": SITE, "code": CODE}


def test_parameters_of_levels_are_compared_with_numbers() -> None:
    """`a[site] < 3` compares a parameter, unlike `site[0] < 3`."""
    start = {"a[far east]": 1, "a[north]": 4, "a[south]": 5}
    found = ad.Objective("y ~ b*where(a[site] < 3, 2, x)", DATA, start=start)
    assert found.parameters == ("b", *start)
    wanted = ad.Objective("y ~ b*where(site == 'far east', 2, x)", DATA)
    assert found.value_and_grad(np.array([1.5, *start.values()]))[0] == wanted.value_and_grad(np.array([1.5]))[0]


def test_each_level_has_a_parameter_and_the_rest_is_shared() -> None:
    def curve(x: np.ndarray, a: float, b: float, c: float, d: float) -> np.ndarray:
        size = np.select([SITE == "far east", SITE == "north"], [a, b], c)
        return size * np.exp(-d * x)

    values, covariance = optimize.curve_fit(curve, X, Y, [1, 1, 1, 1])
    fit = ad.fit("y ~ a[site]*exp(-b*x)", DATA)
    assert [*fit.parameters] == ["a[far east]", "a[north]", "a[south]", "b"]
    np.testing.assert_allclose([*fit.parameters.values()], values, rtol=1e-6)
    np.testing.assert_allclose([*fit.stderr.values()], np.sqrt(np.diag(covariance)), rtol=1e-5)
    assert fit.dof == 20
    assert fit.columns == ("y", "site", "x")


@pytest.mark.parametrize("name", ["tau", pytest.param("e", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("y ~ a*exp(-x/NAME[site])", {}),
        ("y ~ a*exp(-x/NAME[site])", {"start": {"NAME[north]": 2}, "bounds": {"NAME": (0, 9)}}),
        ("y ~ a*exp(-x/NAME[site])", {"fixed": {"NAME[north]": "2*NAME[south]"}, "derive": {"r": "NAME[south]/2"}}),
        ("y ~ a*exp(-x/NAME[site])", {"priors": {"NAME[site]": "normal(2, 1)"}}),
        ("y ~ (a + NAME[site])*exp(-x)", {"laplace": "NAME", "priors": {"NAME[site]": "normal(0, s)"}}),
    ],
)
def test_names_of_constants_can_have_levels(model: str, options: dict[str, object], name: str, tmp_path: Path) -> None:
    """`tau` and `e` are parameters in models, as the documentation says; with levels they were constants."""
    fits = [
        ad.fit(model.replace("NAME", each), DATA, **json.loads(json.dumps(options).replace("NAME", each)))
        for each in (name, "q")
    ]
    fits[0].save(tmp_path / "model.json")
    loaded = ad.load(tmp_path / "model.json")
    assert [key.replace(f"{name}[", "q[") for key in loaded.parameters] == [*fits[1].parameters]
    np.testing.assert_allclose(loaded.predict(DATA), fits[1].predict(DATA), rtol=1e-9)


def test_whole_numbers_are_levels_and_numbers() -> None:
    fit = ad.fit("y ~ a[code]*exp(-b*x) + c*(code - 2)^2", DATA)
    assert [*fit.parameters] == ["a[1]", "a[2]", "a[3]", "b", "c"]
    alike = ad.fit("y ~ a[site]*exp(-b*x) + c*(code - 2)^2", DATA)
    assert fit.loss == pytest.approx(alike.loss, rel=1e-9)


def test_text_is_compared_with_quoted_text() -> None:
    fit = ad.fit("y ~ (a + d*(site == 'south'))*exp(-b*x)*(site != 'north')", DATA)
    north = SITE == "north"
    alike = ad.fit("y ~ a[site]*exp(-b*x)", {name: values[~north] for name, values in DATA.items()})
    assert fit.parameters["a"] == pytest.approx(alike.parameters["a[far east]"], rel=1e-7)
    assert fit.parameters["a"] + fit.parameters["d"] == pytest.approx(alike.parameters["a[south]"], rel=1e-7)


def test_starts_bounds_and_fixed_values_are_for_all_levels_or_for_one() -> None:
    fit = ad.fit(
        "y ~ a[site]*exp(-b*x)", DATA, start={"a": 4, "a[north]": 3}, fixed={"a[south]": 3}, bounds={"a": (2.5, None)}
    )
    assert fit.fixed == {"a[south]": 3}
    assert fit.on_bounds == ("a[north]",)
    assert [*fit.parameters] == ["a[far east]", "a[north]", "b"]
    everything = ad.fit("y ~ a[site]*exp(-b*x)", DATA, fixed={"a": 1})
    assert [*everything.parameters] == ["b"]
    with pytest.raises(UnknownNameError, match=r"no `a\[west\]`"):
        ad.fit("y ~ a[site]*exp(-b*x)", DATA, start={"a[west]": 1})
    for options in ({"start": {"b[north]": 1}}, {"fixed": {"b[0]": 1}}, {"bounds": {"b[0]": (0, 1)}}):
        with pytest.raises(UnknownNameError, match=r"no parameter `b\["):
            ad.fit("y ~ a[site]*exp(-b*x)", DATA, **options)


def test_quantities_are_derived_of_levels() -> None:
    fit = ad.fit("y ~ a[site]*exp(-b*x)", DATA, derive={"more": "a[south] - a[north]"})
    assert fit.derived["more"]["value"] == fit.parameters["a[south]"] - fit.parameters["a[north]"]
    of = fit.covariance[1:3, 1:3]
    assert fit.derived["more"]["stderr"] == pytest.approx(np.sqrt(of[0, 0] + of[1, 1] - 2 * of[0, 1]))


def test_new_rows_have_levels_that_are_known(tmp_path: Path) -> None:
    fit = ad.fit("y ~ a[site]*exp(-b*x)", DATA)
    fit.save(tmp_path / "m.json")
    again = ad.load(tmp_path / "m.json")
    new = {"x": [0, 0, 1], "site": ["south", "north", "south"]}
    np.testing.assert_array_equal(again.predict(new), fit.predict(new))
    assert again.predict(new)[0] == fit.parameters["a[south]"]
    assert np.isfinite(again.predict(new, interval=0.95).prediction_high).all()
    with pytest.raises(DataError, match=r"^column `site`: the model was not fitted with the level `west`"):
        again.predict({"x": [0, 1], "site": ["south", "west"]})
    np.testing.assert_allclose(fit.residuals(DATA), Y - fit.predict(DATA))


def test_rows_without_a_level_are_named_or_left_out() -> None:
    data = {**DATA, "site": [None, *SITE[1:]], "x": [*X[:-1], np.nan]}
    with pytest.raises(DataError, match="row"):
        ad.fit("y ~ a[site]*exp(-b*x)", data)
    fit = ad.fit("y ~ a[site]*exp(-b*x)", data, drop_missing=True)
    kept = slice(1, -1)
    alike = ad.fit("y ~ a[site]*exp(-b*x)", {name: values[kept] for name, values in DATA.items()})
    assert (fit.rows, fit.parameters) == (22, alike.parameters)


@pytest.mark.parametrize("model", ["y ~ m[g] + b*x", "y ~ m*(g == 'a') + b*x"])
def test_a_prediction_at_a_missing_label_is_refused(model: str) -> None:
    labels = np.array(["a", "b", "a", "b", "c", "c"], object)
    found = ad.fit(model, {"x": np.arange(6.0), "g": labels, "y": [1, 2, 3, 4.5, 5, 6.2]})
    for missing in (None, float("nan"), "", " "):
        with pytest.raises(DataError, match="row 2, column `g`: no label"):
            found.predict({"x": [1.0, 2.0], "g": np.array(["a", missing], object)})


def test_an_objective_has_the_levels_too() -> None:
    objective = ad.Objective("y ~ a[site]*exp(-b*x)", DATA)
    theta = np.array([5.0, 2.0, 3.0, 0.7])
    loss, gradient = objective.value_and_grad(theta)
    for k in range(4):
        step = 1e-6 * np.eye(4)[k]
        slope = (objective.value(theta + step) - objective.value(theta - step)) / 2e-6
        assert gradient[k] == pytest.approx(slope, rel=1e-4, abs=1e-9)
    assert objective.parameters == ("a[far east]", "a[north]", "a[south]", "b")
    assert loss < 0.01


@pytest.mark.slow
def test_classes_and_comparisons_go_with_levels() -> None:
    kind = np.where(X + 0.3 * np.sin(9 * X) > 1.5, "late", "early")
    fit = ad.fit("kind ~ softmax([a[site] + b*x, 0])", {**DATA, "kind": kind})
    assert fit.classes == ("early", "late")
    assert "a[north]" in fit.parameters
    found = ad.compare(["y ~ a*exp(-b*x)", "y ~ a[site]*exp(-b*x)"], DATA, start={"a[north]": 2})
    assert found.models[0].fit.model == "y ~ a[site]*exp(-b*x)"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("y ~ a[site]*x + a", "use two names"),
        ("y ~ a[site]*x + a[code]", "cannot have levels of `code`"),
        ("y ~ b*(site == 'north') + a[site]*x + a[code]", "cannot have levels of `code`"),
        ("y ~ x[site]*b", "is a column"),
        ("a[site] ~ b*x", "left of `~`"),
    ],
)
def test_what_a_level_cannot_be(model: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        ad.fit(model, DATA)


def test_levels_that_are_hardly_any() -> None:
    with pytest.raises(DataError, match="a label must be a whole number"):
        ad.fit("y ~ a[x]", DATA)
    many = {"y": np.arange(501.0), "id": np.arange(501)}
    with pytest.raises(OptionError, match="--by id"):
        ad.fit("y ~ a[id]", many)
    fit = ad.fit("y ~ a*x*(site == 'nrth') + b", DATA)
    assert any("no row has the text 'nrth'" in warning for warning in fit.warnings)


def test_what_shows_a_fit_knows_levels() -> None:
    fit = ad.fit("y ~ a[site]*exp(-b*x)", DATA, profile=True, bootstrap=10)
    assert {*fit.intervals["profile"]} == {"a[far east]", "a[north]", "a[south]", "b"}
    assert "a[north]" in fit.summary()


def test_levels_of_two_columns_are_their_combinations(tmp_path: Path) -> None:
    kinds, doses = ["a", "a", "b", "b", "a", "b"], [1, 2, 1, 2, 1, 2]
    data = {"kind": kinds, "dose": doses, "y": [1.0, 2, 3, 4, 1.2, 4.4]}
    means = {"m[a, 1]": 1.1, "m[a, 2]": 2.0, "m[b, 1]": 3.0, "m[b, 2]": 4.2}
    fit = ad.fit("y ~ m[kind, dose]", data, start={"m[a, 2]": 7})
    assert fit.parameters == pytest.approx(means)
    fit.save(tmp_path / "model.json")
    loaded = ad.load(tmp_path / "model.json")
    assert loaded.predict({"kind": ["b", "a"], "dose": [1, 2]}) == pytest.approx([3, 2])
    path = tmp_path / "data.csv"
    path.write_text("kind,dose,y\n" + "".join(f"{k},{d},{y}\n" for k, d, y in zip(*data.values(), strict=True)))
    assert ad.fit("y ~ m[kind, dose]", path, stream=True).parameters == pytest.approx(means)
    groups = ad.fit_by("y ~ m", data, by="kind,dose", no_columns=True)
    assert {f"m[{group.by}]": group.fit.parameters["m"] for group in groups} == pytest.approx(means)
    output = run_cli(f"predict {tmp_path}/model.json {path}")
    *columns, prediction = output.splitlines()[1].split(",")
    assert columns == ["a", "1", "1.0"]
    assert float(prediction) == pytest.approx(1.1, rel=1e-14)


def test_files_are_levels(tmp_path: Path) -> None:
    for name, y in (("run1", (1, 3)), ("run2", (4, 8))):
        (tmp_path / f"{name}.csv").write_text(f"x,y\n1,{y[0]}\n1,{y[1]}\n")
    model = tmp_path / "model.json"
    fit = run_cli(f"train 'y ~ a[file]*x' '{tmp_path}/*.csv' --save {model} --json").json
    assert fit["parameters"] == pytest.approx({"a[run1.csv]": 2, "a[run2.csv]": 6})
    assert float(run_cli(f"predict {model} {tmp_path}/run2.csv").split(",")[-1]) == pytest.approx(6)


PIECES = st.sampled_from(["a", ",", '"', ", ", '", "'])
WORDS = st.lists(PIECES, min_size=1, max_size=3).map(lambda pieces: "".join(pieces).strip())


@given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=3), st.booleans())
def test_different_combinations_of_labels_have_different_parameters(
    words: list[tuple[str, str, str]], is_saved: bool
) -> None:
    """`A, B` with `C` and `A` with `B, C` had one parameter, `a[A, B, C]`."""
    pairs = [pair for a, b, c in words for pair in ((f"{a}, {b}", c), (a, f"{b}, {c}"))]
    combinations = [*dict.fromkeys(pairs)]
    columns = {"g": [g for g, _ in combinations] * 2, "h": [h for _, h in combinations] * 2}
    y = [*map(float, range(2 * len(combinations)))]
    fit = ad.fit("y ~ a[g, h]", {**columns, "y": y})
    assert len(fit.parameters) == len(combinations)
    with tempfile.TemporaryDirectory() as folder:
        if is_saved:
            fit.save(Path(folder) / "model.json")
            fit = ad.load(Path(folder) / "model.json")
        path = Path(folder) / "data.csv"
        path.write_text(csv_text([["g", "h", "y"], *zip(columns["g"], columns["h"], y, strict=True)]))
        from_file = ad.fit("y ~ a[g, h]", str(path))
    means = [k + len(combinations) / 2 for k in range(len(combinations))]
    assert fit.predict(columns)[: len(means)] == pytest.approx(means)
    assert from_file.parameters == pytest.approx(fit.parameters)
    assert len(ad.fit_by("y ~ a", {**columns, "y": y}, "g, h", no_columns=True)) == len(means)


def test_a_prediction_needs_each_part_of_joint_labels() -> None:
    data = {"x": np.arange(1.0, 21.0), "y": 3 * np.arange(1.0, 21.0) + 1}
    parts = {"g": ["u"] * 10 + ["v"] * 10, "h": ["p", "q"] * 10}
    fit = ad.fit("y ~ a[g, h]*x", {**data, **parts})
    at = {"x": [2.0], "g": ["v"], "h": ["q"]}
    assert fit.predict(at) == pytest.approx([2 * fit.parameters["a[v, q]"]])
    for missing in "gh":
        with pytest.raises(MissingValueError, match="no value for `g, h`"):
            fit.predict({name: column for name, column in at.items() if name != missing})

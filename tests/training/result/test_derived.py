"""Derived quantities of parameters, with standard errors by the delta method."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.options import OptionError
from tests.each import each

X = np.linspace(0, 4, 40)
DATA = {"x": X, "y": 2.5 * np.exp(-1.3 * X) + 0.1 + 0.02 * np.random.default_rng(1).standard_normal(40)}
MODEL = "y ~ a*exp(-b*x) + c"


def test_a_quantity_has_the_error_that_it_has_as_a_parameter() -> None:
    fit = ad.fit(MODEL, DATA, derive={"half": "ln(2)/b", "top": "a + c"})
    by_half = ad.fit("y ~ a*exp(-ln(2)/half*x) + c", DATA)
    by_top = ad.fit("y ~ (top - c)*exp(-b*x) + c", DATA)
    assert fit.derived["half"]["value"] == pytest.approx(by_half.parameters["half"], rel=1e-8)
    assert fit.derived["half"]["stderr"] == pytest.approx(by_half.stderr["half"], rel=1e-6)
    assert fit.derived["top"]["stderr"] == pytest.approx(by_top.stderr["top"], rel=1e-6)


def test_a_quantity_of_an_exact_fit_has_errors_of_rounding_alone() -> None:
    fit = ad.fit("y ~ a*x + b", {"x": [1, 2, 3, 4], "y": [2, 4, 6, 8]}, derive={"d": "2*a + b"})
    assert fit.derived["d"]["value"] == 4.0
    assert 0 <= fit.derived["d"]["stderr"] < 1e-13


def test_many_quantities_at_once_have_the_variances_of_the_formula() -> None:
    texts = ["p = a*b", "q = p/c", "r = sqrt(a) - log(b)*c"]
    fit = ad.fit(MODEL, DATA, derive=texts)
    a, b, c = fit.parameters.values()
    slopes = {"p": [b, a, 0], "q": [b / c, a / c, -a * b / c**2], "r": [0.5 / math.sqrt(a), -c / b, -math.log(b)]}
    for name, slope in slopes.items():
        error = math.sqrt(np.array(slope) @ fit.covariance @ np.array(slope))
        assert fit.derived[name]["stderr"] == pytest.approx(error, rel=1e-10)


def test_quantities_read_fixed_parameters_arrays_and_what_the_text_binds() -> None:
    fit = ad.fit("k = 1/b; y ~ a*exp(-x/k) + c", DATA, fixed={"c": 0.1}, derive=["k", "s = a + c", "two = 2"])
    assert fit.derived["k"]["stderr"] == pytest.approx(fit.stderr["b"] / fit.parameters["b"] ** 2)
    assert fit.derived["s"] == pytest.approx({"value": fit.parameters["a"] + 0.1, "stderr": fit.stderr["a"]})
    assert fit.derived["two"] == {"value": 2, "stderr": 0}
    data = {**DATA, "z": X**2}
    array = ad.fit("y ~ dot(w, [x, z])", data, derive=["s = sum(w)"])
    assert array.derived["s"]["stderr"] == pytest.approx(math.sqrt(array.covariance.sum()))


def test_small_and_large_numbers_keep_their_errors() -> None:
    data = {"x": X * 1e-9, "y": DATA["y"] * 1e100}
    fit = ad.fit(MODEL, data, start={"a": 1e100, "b": 1e9, "c": 1e99}, derive=["half = ln(2)/b", "d = 2*a"])
    assert fit.derived["half"]["stderr"] / fit.derived["half"]["value"] == pytest.approx(
        fit.stderr["b"] / fit.parameters["b"]
    )
    assert fit.derived["d"]["stderr"] == pytest.approx(2 * fit.stderr["a"])


@pytest.mark.parametrize("sigma", [None, np.linspace(0.01, 0.03, 40)])
def test_a_combination_may_be_known_though_its_parameters_are_not(sigma: Any) -> None:
    found = ad.fit("y ~ a*d*exp(-b*x) + c", DATA, sigma=sigma, derive=["p = a*d", "half = ln(2)/b", "q = a + d"])
    alone = ad.fit("y ~ p*exp(-b*x) + c", DATA, sigma=sigma)
    assert found.stderr["a"] is None
    assert found.derived["p"]["value"] == pytest.approx(alone.parameters["p"], rel=1e-6)
    assert found.derived["p"]["stderr"] == pytest.approx(alone.stderr["p"] * math.sqrt(alone.dof / found.dof), rel=1e-6)
    assert found.derived["half"]["stderr"] > 0
    assert found.derived["q"]["stderr"] is None


def test_without_an_error_of_a_parameter_there_is_none_of_what_depends_on_it() -> None:
    fit = ad.fit(MODEL, DATA, bounds={"b": (0, 1.1)}, derive=["half = ln(2)/b", "top = a + c"])
    assert fit.derived["half"] == {"value": pytest.approx(math.log(2) / 1.1), "stderr": None}
    assert fit.derived["top"]["stderr"] > 0
    assert "`half` has no standard error: a variance that it depends on is unknown" in fit.warnings
    undefined = ad.fit(MODEL, DATA, derive=["q = log(-a)"])
    assert undefined.derived["q"]["stderr"] is None
    assert "the derived quantity `q` is nan at the solution" in undefined.warnings


@each("jump", ["a > {}", "floor(a/{})", "where({} < a, 1, 2)", "sign(a - {}) + heaviside(a)"])
@each(("distance", "is_near"), [(-3, False), (-1.5, True), (-0.5, True), (1.5, True), (3, False)])
def test_a_quantity_is_exact_only_where_it_is_constant(jump: str, distance: float, is_near: bool) -> None:
    data = {"x": [1, 2, 3, 4, 5, 6], "y": [5.1, 6.9, 9.2, 10.8, 13.1, 15.0]}
    plain = ad.fit("y ~ a*x + b", data)
    place = plain.parameters["a"] + distance * plain.stderr["a"]
    fit = ad.fit("y ~ a*x + b", data, derive={"q": jump.format(repr(place)), "none": "a - a"})
    assert fit.derived["q"]["stderr"] == (None if is_near else 0)
    assert ("`q` has no standard error: it jumps within the errors of the parameters" in fit.warnings) == is_near
    assert fit.derived["none"]["stderr"] == 0


@pytest.mark.parametrize(
    ("derive", "words"),
    [
        ({"q": "bb"}, "no parameter `bb`"),
        ({"q": "x*b"}, "`x` is a column"),
        ({"q": "k"}, "`k` depends on the column `x`"),
        ({"q": "a +"}, "something must follow"),
        ({"q": "[a, b]"}, "an array"),
        ({"q": "q2", "q2": "a"}, "no parameter `q2`"),
        ({"b": "2"}, "`b` is a name of the model"),
        ({"q": " "}, r"derive takes NAME=EXPR, .* not `q= `"),
        (["=a"], r"derive takes NAME=EXPR, .* not `=a`"),
        (["h = a; g = b"], "derive takes one NAME=EXPR; repeat it for each quantity"),
        (["h = a, g = b"], "derive takes one NAME=EXPR; repeat it for each quantity"),
        (["q = a", "q = b"], "defined twice"),
    ],
)
def test_other_quantities_are_refused_before_the_fit(derive: Any, words: str) -> None:
    def never(_: Any) -> None:
        raise AssertionError

    with pytest.raises((ad.ExpressionError, OptionError), match=words):
        ad.fit("k = b*x; y ~ a*exp(-k) + c", DATA, derive=derive, on_epoch=never)


def test_a_model_file_keeps_them(tmp_path: Path) -> None:
    fit = ad.fit(MODEL, DATA, derive=["half = ln(2)/b"])
    fit.save(tmp_path / "model.json")
    loaded = ad.load(tmp_path / "model.json")
    assert loaded.derived == fit.derived
    assert "half" in loaded.summary()


def test_a_combination_is_known_beside_a_parameter_on_its_bound() -> None:
    """The parameter on the bound is fixed there, as errors assume."""
    x = np.linspace(0, 1, 20)
    y = 2 * x - 0.3 + 0.05 * np.cos(9 * x)
    found = ad.fit("y ~ a*b*x + c", {"x": x, "y": y}, bounds={"c": (0, 5)}, derive={"slope": "a*b"})
    plain = ad.fit("y ~ k*x", {"x": x, "y": y})
    assert found.parameters["c"] == 0
    freedom = math.sqrt((len(x) - 1) / (len(x) - 2))  # a*b and c are counted
    assert found.derived["slope"]["stderr"] == pytest.approx(plain.stderr["k"] * freedom, rel=1e-6)


def test_a_parameter_itself_is_a_quantity() -> None:
    found = ad.fit(MODEL, DATA, derive=["a"])
    assert found.derived["a"] == {"value": found.parameters["a"], "stderr": pytest.approx(found.stderr["a"], rel=1e-12)}

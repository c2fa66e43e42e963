"""Arguments of any type: numbers of all kinds are accepted, other objects are refused, and nothing is modified."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.data.dialect import DataError
from autodiff_cli.options import OptionError
from tests.each import each

LINE = {"x": np.array([1.0, 2.0, 3.0]), "y": np.array([2.0, 4.0, 6.0])}


class Length(float):
    pass


@each(
    "value",
    [
        2,
        True + 1,
        Length(2),
        Decimal(2),
        Fraction(2),
        np.float16(2),
        np.int8(2),
        np.uint64(2),
        np.longdouble(2),
        np.array(2.0),
        np.array(2, dtype=object),
        np.ma.array(2.0),
        "2",
    ],
    ids=repr,
)
def test_one_number_of_any_type(value: Any) -> None:
    assert ad.parse("x^2").value_and_grad(x=value) == (4.0, {"x": 4.0})


@each("value", [10**400, -(10**400)], ids=["large", "small"])
def test_integers_beyond_all_floats_are_infinite(value: int) -> None:
    sign = 1 if value > 0 else -1
    assert ad.parse("x")(x=value) == sign * math.inf
    assert ad.parse("x")(x=[1, value]).tolist() == [1, sign * math.inf]
    with pytest.raises(OptionError, match="must be finite"):
        ad.fit("y ~ a*x", LINE, start={"a": value})
    with pytest.raises(DataError, match=r"row 2, column `x`: -?inf"):
        ad.fit("y ~ a*x", {**LINE, "x": [1, value, 3]})


def test_masked_values_are_missing() -> None:
    x = np.ma.array([1.0, 100.0, 3.0], mask=[False, True, False])
    before = x.copy()
    np.testing.assert_array_equal(ad.parse("2*x")(x=x), [2, math.nan, 6])
    with pytest.raises(DataError, match="row 2, column `x`: nan"):
        ad.fit("y ~ a*x", {**LINE, "x": x})
    assert ad.fit("y ~ a*x", {**LINE, "x": x}, drop_missing=True).parameters == pytest.approx({"a": 2})
    np.testing.assert_array_equal(ad.fit("y ~ a*x", LINE).predict({"x": x}), [2, math.nan, 6])
    labels = np.ma.array(["a", "b", "a"], mask=[False, True, False])
    with pytest.raises(DataError, match="row 2, column `g`"):
        ad.fit("y ~ a[g]*x", {**LINE, "g": labels})
    assert x.mask.tolist() == before.mask.tolist()
    assert x.data.tolist() == before.data.tolist()


@each(
    "value",
    [
        None,
        1j,
        np.complex64(2),
        np.array([1, 2j, 3]),
        np.datetime64("2024-01-01"),
        np.timedelta64(3, "s"),
        b"2",
        np.array(["2024-01-01"] * 3, "M8[D]"),
        np.array([1, 2, 3], "m8[s]"),
        np.zeros(3, [("a", float)]),
        {1},
        object(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_real_number_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="the value of `x`"):
        ad.parse("x*y").grad(x=value, y=2)
    with pytest.raises((DataError, OptionError)):
        ad.fit("y ~ a*x", LINE, fixed={"a": value if value is not None else 1j})
    with pytest.raises(DataError):
        ad.fit("y ~ a*x", LINE).predict({"x": value if value is not None else 1j})


def test_labels_and_numbers_of_pandas_may_be_missing() -> None:
    pandas = pytest.importorskip("pandas")
    for kind in ("boolean", "Int64", "Float64", object):
        with pytest.raises(DataError, match="row 2, column `x`: nan"):
            ad.fit("y ~ a*x", {**LINE, "x": pandas.Series([True, pandas.NA, True], dtype=kind)})
    for labels in (["a", pandas.NA, "a"], pandas.array(["a", None, "a"], dtype="string")):
        with pytest.raises(DataError, match="row 2, column `g`"):
            ad.fit("y ~ a[g]*x", {**LINE, "g": labels})


def test_names_and_texts_are_texts() -> None:
    wrong: list[Any] = [None, 1, b"x", np.float64(1), np.ones(3)]
    for given in wrong:
        with pytest.raises(TypeError, match="an expression must be text, not"):
            ad.parse(given)
        with pytest.raises(TypeError, match="a name must be text, not"):
            ad.parse("x").derivative(given)
    for given in (1, b"y ~ a*x", ad.parse("a*x"), ["y ~ a*x"]):
        for use in (ad.fit, ad.Objective, lambda model, data: ad.fit_by(model, data, "x")):
            with pytest.raises(TypeError, match="a model must be text, not"):
                use(given, LINE)
            with pytest.raises(TypeError, match="a model must be text, not"):
                use(given, "no file")
    with pytest.raises(TypeError, match="a model must be text, not dict"):
        ad.fit(LINE, "y ~ a*x")  # type: ignore[arg-type]
    for given in wrong[1:]:
        with pytest.raises(TypeError, match="a point or a direction must be a mapping"):
            ad.parse("x")(given)
        with pytest.raises(TypeError, match="a point or a direction must be a mapping"):
            ad.parse("x").jvp(given, x=1)


@each(
    ("option", "value", "message"),
    [
        ("learning_rate", "fast", "learning_rate is a number, not 'fast'"),
        ("learning_rate", 1j, "learning_rate is a number, not complex"),
        ("epochs", 2.5, "epochs is a whole number, not 2.5"),
        ("epochs", np.array([1, 2]), "epochs is a whole number, not ndarray"),
        ("batch_size", "8", "batch_size is a whole number, not '8'"),
        ("seed", None, "seed is a whole number, not NoneType"),
        ("loss", ["mse"], "loss is a text, not list"),
        ("optimizer", None, "optimizer is a text, not NoneType"),
        ("absolute_sigma", "no", "absolute_sigma is true or false, not 'no'"),
        ("confidence", "high", "confidence is a number, not 'high'"),
        ("l2", 10**400, "l2 is a number, not int"),
        *(
            (option, value, f"{option} must be a mapping of names to values, not {type(value).__name__}")
            for option in ("start", "fixed", "bounds", "x_sigma")
            for value in ([1, 2], "0 < a < 1")
        ),
        ("bounds", {"a": (0, 10**400)}, "a pair of numbers"),
    ],
)
def test_options_of_a_wrong_type_are_refused_by_name(option: str, value: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message.replace("(", r"\(")):
        ad.fit("y ~ a*x", LINE, **{option: value})


def test_options_may_be_numbers_of_numpy() -> None:
    options: dict[str, Any] = {
        "learning_rate": 0.05,
        "epochs": 7,
        "batch_size": 2,
        "seed": 3,
        "l2": 0.5,
        "diagnosis": True,
    }
    types = (np.float32(0.05), np.uint8(7), np.uint64(2), np.int16(3), np.float16(0.5), np.True_)
    plain = ad.fit("y ~ a*x + b", LINE, optimizer="adam", **{**options, "learning_rate": float(types[0])})
    other = ad.fit("y ~ a*x + b", LINE, optimizer="adam", **dict(zip(options, types, strict=True)))
    assert other.parameters == plain.parameters


@each("theta", [[1], [1, 2, 3], [[1, 2]], 1.0, []], ids=repr)
def test_parameters_of_another_number_are_refused(theta: Any) -> None:
    for model in ("y ~ a*x + b", "v: 2; y ~ sum(v)*x"):
        with pytest.raises(OptionError, match=r"theta has the shape .*; the free parameters need \(2,\)"):
            ad.Objective(model, LINE).value_and_grad(theta)


@each(
    ("theirs", "ours"),
    [
        ("lr", "learning_rate"), ("LR", "learning_rate"), ("p0", "start"), ("method", "optimizer"),
        ("maxfev", "epochs"), ("random_state", "seed"), ("batchsize", "batch_size"),
        ("yerr", "sigma"), ("Bounds", "bounds"),
    ],
)  # fmt: skip
def test_keywords_of_other_tools_are_answered_with_ours(theirs: str, ours: str) -> None:
    options: dict[str, Any] = {theirs: 1}
    with pytest.raises(
        TypeError, match=rf"^fit\(\) got an unexpected keyword argument '{theirs}'; did you mean '{ours}'\?$"
    ):
        ad.fit("y ~ a*x", LINE, **options)


def test_an_objective_says_in_which_order_theta_has_the_parameters() -> None:
    objective = ad.Objective("v: 2; y ~ b + sum(v)*x", {"x": [1, 2], "y": [2, 4]})
    assert repr(objective) == "<Objective of 'v: 2; y ~ b + sum(v)*x': 2 rows, theta is v[0], v[1], b>"


def test_a_file_is_no_number(tmp_path: Any) -> None:
    fit: Any = ad.fit("y ~ a*x", LINE)
    for path in (2, 2.5, None, np.float64(1)):
        with pytest.raises(TypeError):
            fit.save(path)
    fit.save(tmp_path / "model.json")
    assert ad.load(tmp_path / "model.json").parameters == fit.parameters


@pytest.mark.parametrize("name", ["e", "tau", "pi"])
def test_a_name_in_place_of_a_list_of_names_is_one_name(name: str) -> None:
    assert ad.parse(f"x*{name}", variables=name).variables == ("x", name)
    assert ad.parse(f"x*{name}", variables=name).grad({"x": 2, name: 3}) == {"x": 3, name: 2}


def test_a_model_in_place_of_a_list_of_models_is_one_model() -> None:
    with pytest.raises(OptionError, match="needs at least two models"):
        ad.compare("y ~ a*x", LINE)

"""What a model says that was hardly meant is said, or refused where the fit would be of nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli import ExpressionError, Objective, fit, fit_by, load
from tests.each import examples
from tests.support import run_cli

T = np.linspace(0, 5, 30)
DATA = {"t": T, "v": 2 * np.exp(-T / 1.5), "my-col": T**2}


@pytest.mark.parametrize(
    ("model", "suggestion"),
    [("df.v ~ a*exp(-df.t)", "v ~ a*exp(-t)"), ("v ~ a*exp(-b*df.t)", "t"), ("df.v ~ a*t", "v ~ a*t")],
)
def test_a_column_after_a_dot_is_suggested_by_itself(model: str, suggestion: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        fit(model, DATA)
    assert caught.value.suggestion == suggestion
    assert any("did you mean the column `t`?" in each for each in fit("v ~ a*df.t + t", DATA).warnings)


@pytest.mark.parametrize(("model", "name"), [("v ~ a*exp(-t/tau)", "tau"), ("v ~ a/e^t", "e")])
def test_constants_but_pi_are_parameters(model: str, name: str, tmp_path: Any) -> None:
    """In models, ties, bounds, derived quantities, groups, model files and rows that are traced."""
    found = fit(model, DATA, derive={"half": f"{name}*log(2)"})
    plain = fit(model.replace(name, "k").replace("kxp", "exp"), DATA, derive={"half": "k*log(2)"})
    assert found.parameters == {"a": plain.parameters["a"], name: plain.parameters["k"]}
    assert found.derived == plain.derived
    assert found.derived["half"]["stderr"] is not None
    path, saved = tmp_path / "decay.csv", tmp_path / "model.json"
    path.write_text("t,v\n" + "".join(f"{t},{v}\n" for t, v in zip(DATA["t"], DATA["v"], strict=True)))
    line = ["train", model, str(path), "--json"]
    assert run_cli([*line, "--save", str(saved)]).json["parameters"] == found.parameters
    assert load(saved).parameters == found.parameters
    assert run_cli([*line, "--bounds", f"0 < {name} < 2*pi"]).json["parameters"] == pytest.approx(found.parameters)
    tied = run_cli([*line, "--fix", f"a=2*{name}"]).json
    assert list(tied["parameters"]) == [name]
    assert tied["derived"]["a"]["value"] == pytest.approx(2 * tied["parameters"][name])
    grouped = {"t": np.tile(T, 2), "v": np.tile(DATA["v"], 2), "g": np.repeat([1, 2], len(T))}
    assert fit_by(model, grouped, "g")[1].parameters == pytest.approx(found.parameters)
    assert (
        name
        in run_cli(["trace", model, str(path), "--row", "1", f"--{name}", "2", "--a", "1", "--json"]).json["gradient"]
    )


def test_the_way_to_write_eulers_number_is_suggested() -> None:
    hint = "write `exp(x)` for a power of Euler's number"
    assert any(hint in note for note in fit("v ~ a*e^(-b*t)", DATA, epochs=2).notes)
    assert not any(hint in note for note in fit("v ~ a*e^(-b*t)", DATA, epochs=2, start={"e": 2}).notes)


@pytest.mark.parametrize("name", ["inf", "nan"])
def test_infinite_and_undefined_constants_are_refused(name: str) -> None:
    for make in (fit, Objective):
        with pytest.raises(ExpressionError, match=f"`{name}` is not a number that a model can use") as refused:
            make(f"v ~ a*exp(-t) + {name}", DATA)
        assert refused.value.column == 17


def test_pi_is_pi() -> None:
    assert not any("pi" in warning for warning in fit("v ~ a*sin(2*pi*t) + b", DATA).warnings)


@pytest.mark.parametrize(
    ("model", "suggestion"),
    [
        ("v ~ a*exp(-b*x)", None),
        ("v ~ a*exp(-b*T)", "t"),
        ("v ~ a + bt", "b*t"),
        ("v ~ a*my - col", "`my-col`"),
        ("log(v) ~ a - b", None),
    ],
)
def test_a_prediction_that_reads_no_column_is_refused(model: str, suggestion: str | None) -> None:
    for made in (fit, Objective):
        with pytest.raises(ExpressionError, match=r"uses no column of the data .`t`, `my-col`.;") as refused:
            made(model, DATA)
        assert "f this is intended, add --no-columns" in str(refused.value)
        assert refused.value.suggestion == suggestion


MEASURED = {"Time (s)": T, "Signal [mV]": 2 * np.exp(-T), "site name": T, "flow_rate": T, "T °C": T}
OTHERWISE = ["{}", "'{}'", '"{}"', "Q('{}')"]


@pytest.mark.parametrize("target", ["Signal [mV]", "signal [mV]", "Signal_mV", "Signal mV", "signal.mv", "Signal"])
def test_columns_that_are_written_otherwise_are_suggested(target: str) -> None:
    for form in OTHERWISE:
        with pytest.raises(ExpressionError) as refused:
            fit(f"{form.format(target)} ~ a*exp(-b*Time (s)) + c*flow-rate", MEASURED)
        if target != "Signal":
            assert refused.value.suggestion == "`Signal [mV]` ~ a*exp(-b*`Time (s)`) + c*flow_rate"
            assert fit(refused.value.suggestion, MEASURED).parameters.keys() == {"a", "b", "c"}
    with pytest.raises(ExpressionError, match=r"Did you mean ``Signal \[mV\]``\? \(In a shell, .* single quotes"):
        fit("Signal ~ a", MEASURED)


@given(
    st.lists(st.sampled_from(["net", "weight", "of", "dry", "soil", "24", "h"]), min_size=2, max_size=5, unique=True),
    st.lists(st.sampled_from([" ", ". ", " (", "_ ", " [", " % "]), min_size=4, max_size=4),
    st.sampled_from(["", ")", " %", "]"]),
    st.sampled_from(["_", " ", ".", "-"]),
)
@examples(60)
def test_columns_of_any_number_of_words_are_suggested(words: list[str], seams: list[str], end: str, blank: str) -> None:
    """A column is found by its words, whatever stands between them, and with or without what follows the last."""
    column = "".join(f"{seam}{word}" for seam, word in zip(["", *seams], words, strict=False)) + end
    for name in (blank.join(words), blank.join(words).upper(), column):
        with pytest.raises(ExpressionError) as refused:
            Objective(f"v ~ a*{name} + b*{column}", {column: T, "v": T})
        assert refused.value.suggestion == f"v ~ a*`{column}` + b*`{column}`"


@pytest.mark.parametrize(
    ("formula", "meant"),
    [
        ("v ~ t", "v ~ a + b*t"),
        ("v ~ exp(t) + u", "v ~ a + b*exp(t) + c*u"),
        ("v ~ t*u", "v ~ a + b*t + c*u + d*t*u"),
        ("v ~ 0 + t", "v ~ a*t"),
        ("v ~ t - 1", "v ~ a*t"),
        ("v ~ -1 + log(u + 1)", "v ~ a*log(u + 1)"),
        ("log(v) ~ t/u + t^2", "log(v) ~ a + b*t/u + c*t^2"),
        ("v ~ 1", "v ~ a"),
        ("v ~ `my-col`", "v ~ a + b*`my-col`"),
    ],
)
def test_a_formula_of_r_is_written_with_parameters(formula: str, meant: str) -> None:
    data = {**DATA, "u": T**3 + 1}
    with pytest.raises(ExpressionError, match="there is nothing to fit") as refused:
        fit(formula, data)
    suggested = str(refused.value).rpartition("as in `")[2].removesuffix("`")
    assert suggested.replace("(t/u)", "t/u") == meant
    assert fit(suggested, data, no_columns=True).parameters


def test_a_function_with_the_name_of_a_column_is_a_model() -> None:
    with pytest.raises(ExpressionError, match=r"`v` is a column of the data") as refused:
        fit("v(t) = a*exp(-b*t)", DATA)
    assert refused.value.suggestion == "v ~ a*exp(-b*t)"
    with pytest.raises(ExpressionError, match="use single quotes"):  # a shell has removed the name in backticks
        fit(" ~ a*t", DATA)


def test_a_parameter_with_the_name_of_a_function_is_noted() -> None:
    for name in ("exp", "log", "sqrt"):
        words = f"`{name}` is a parameter here; the function is written `{name}(x)`"
        assert words in fit(f"v ~ a*{name}*t", DATA).warnings
        assert words not in fit(f"v ~ a*{name}*t", DATA, start={name: 2}, fixed={"a": 1}).warnings
    assert not any("is written" in warning for warning in fit("v ~ gamma*exp(-beta*t)", DATA).warnings)


def test_the_only_other_column_is_suggested_whatever_its_name() -> None:
    with pytest.raises(ExpressionError, match=r"`x` is not one of them(.|\n)*Did you mean `t`\?"):
        fit("v ~ a*exp(-b*x)", {"t": T, "v": T})


def test_a_prediction_may_read_no_column_where_there_is_none_or_where_that_is_meant() -> None:
    data = {"y": [1.0, 2.0, 6.0], "w": [1.0, 1.0, 2.0]}
    assert fit("y ~ m", {"y": data["y"]}).parameters["m"] == pytest.approx(3)
    assert fit("y ~ m", data, weights="w").parameters["m"] == pytest.approx(15 / 4)
    assert fit("y ~ m", data, no_columns=True).parameters["m"] == pytest.approx(3)


def test_no_columns_is_an_option(tmp_path: Any) -> None:
    path = tmp_path / "data.csv"
    path.write_text("x,y\n1,1\n2,2\n3,6\n")
    refused = run_cli(["train", "y ~ m", str(path)])
    assert (refused.status, refused) == (2, "")
    assert "uses no column of the data (`x`); `m` is not one of them" in refused.stderr
    assert run_cli(["train", "y ~ m", str(path), "--no-columns", "--json"]).json["parameters"]["m"] == pytest.approx(3)


@pytest.mark.parametrize("model", ["a*exp(-b*t)", "a*t", "a*t + b*v", "-(a*t)^2"])
@pytest.mark.parametrize("optimizer", ["auto", "lbfgs"])
def test_a_loss_without_a_least_value_is_recognised(model: str, optimizer: str) -> None:
    found = fit(model, DATA, optimizer=optimizer)
    assert not found.converged
    assert "the loss has no minimum: it decreases without bound" in found.failure
    if "v" not in model:
        assert f"did you mean `v ~ {model}`?" in found.failure
    assert all(np.isfinite(record["loss"]) for record in found.history)


@pytest.mark.parametrize(
    ("model", "wanted"), [("mpg ~ wt + hp", "`mpg ~ a + b*wt + c*hp`"), ("log(mpg) ~ 1 + a", "`log(mpg) ~ b + c*a`")]
)
def test_a_formula_of_r_is_answered_with_the_model_that_it_means(model: str, wanted: str) -> None:
    columns = {"mpg": [21.0, 22, 18], "wt": [2.6, 2.3, 3.2], "hp": [110.0, 93, 175], "a": [1.0, 2, 3]}
    with pytest.raises(ExpressionError, match="nothing to fit") as error:
        fit(model, columns)
    assert wanted in str(error.value)


@pytest.mark.parametrize("model", ["normal_pdf(x, m, s)", "normal_logpdf(x, m, s)"])
def test_a_likelihood_without_its_minus_is_told_how_it_is_written(model: str) -> None:
    x = np.random.default_rng(0).normal(3, 1, 60)
    failure = fit(model, {"x": x}, likelihood=True).failure
    assert "the loss has no minimum" in failure
    assert "the negative log-likelihood of a row, such as `-log(normal_pdf(x, m, s))`" in failure
    assert not fit("-log(normal_pdf(x, m, s))", {"x": x}, likelihood=True).failure

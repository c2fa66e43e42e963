"""Model files: loading returns what was saved, and damaged files are refused with a reason."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import hashlib
import json
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import autodiff_cli as ad
from autodiff_cli.options import OptionError
from autodiff_cli.render.fit import fit_report
from tests.each import evenly_spread_part, examples

X = np.linspace(0, 2, 12)
DATA = {"x": X, "y": 2 * np.exp(-X) + 0.01 * np.cos(40 * X)}
FLOWERS = {
    "a": [1.0, 1.5, 1.2, 4.0, 4.2, 3.9],
    "b": [0.1, 0.2, 0.1, 2.0, 2.2, 2.1],
    "kind": ["x", "x", "x", "y", "y", "y"],
}


def fits() -> dict[str, ad.Fit]:
    return {
        "scalars": ad.fit("y ~ a*exp(-b*x)", DATA, fixed={"b": 1}),
        "loss": ad.fit("(y - c)^2 + x*0", DATA),
        "network": ad.fit("y ~ mlp(x, [3], tanh)", DATA, epochs=3, validation=0.25),
        "two targets": ad.fit("[y, 2*y] ~ mlp(x, [3], relu)", DATA, epochs=3),
        "matrix": ad.fit("y ~ sum(W @ [x, 1])", DATA, start={"W": [[1.0, 2.0], [3.0, 4.0]]}, epochs=3),
        "classes": ad.fit("kind ~ softmax(mlp([a, b], [3], relu))", FLOWERS, epochs=3),
    }


@pytest.fixture(scope="module")
def fitted() -> dict[str, ad.Fit]:
    return fits()


NAMES = ["scalars", "loss", "network", "two targets", "matrix", "classes"]


@pytest.mark.parametrize("name", NAMES)
def test_a_loaded_model_predicts_the_same_to_the_last_bit(name: str, fitted: dict[str, ad.Fit], tmp_path: Path) -> None:
    fit = fitted[name]
    fit.save(tmp_path / "model.json")
    again = ad.load(tmp_path / "model.json")
    data = FLOWERS if name == "classes" else DATA
    assert np.array_equal(again.predict(data), fit.predict(data))
    assert (again.model, again.loss, again.history, again.warnings) == (fit.model, fit.loss, fit.history, fit.warnings)
    for parameter, value in fit.parameters.items():
        assert np.array_equal(again.parameters[parameter], value)


@pytest.mark.parametrize("name", NAMES)
def test_saving_what_was_loaded_gives_the_same_bytes(name: str, fitted: dict[str, ad.Fit], tmp_path: Path) -> None:
    fitted[name].save(tmp_path / "model.json")
    ad.load(tmp_path / "model.json").save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "model.json").read_bytes()


def test_the_file_is_one_json_document_in_a_named_format(fitted: dict[str, ad.Fit], tmp_path: Path) -> None:
    fitted["classes"].save(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text(), parse_constant=pytest.fail)
    assert document["format"] == "autodiff model"
    assert document["version"] == 4
    assert document["classes"] == ["x", "y"]
    assert np.shape(document["parameters"]["mlp.0.weight"]) == (3, 2)


CHANCE = np.random.default_rng(4)
MANY = {
    "x": np.linspace(0.1, 3, 24),
    "u": CHANCE.normal(size=24),
    "w": CHANCE.uniform(0.5, 2, 24),
    "s": np.full(24, 0.05),
    "n": CHANCE.poisson(3, 24),
    "z": np.arange(24) % 3 // 2,
    "Temp [°C]": CHANCE.normal(20, 1, 24),
    "λ₁": CHANCE.normal(size=24),
    "g": ["07", "7", "x, y", 'say "h"'] * 6,
    "k": [3, 1, 2, 1] * 6,
}
MANY["y"] = 2 * np.exp(-MANY["x"]) + 0.3 + 0.05 * CHANCE.normal(size=24)
DRAWN = {"posterior": 8, "chains": 2, "sigma": "s", "absolute_sigma": True, "priors": ["M ~ normal(0, 1)"]}
FITS: list[tuple[str, dict[str, Any]]] = [
    ("y ~ a*exp(-b*x) + c", {"bootstrap": 10, "derive": ["half = ln(2)/b"], "confidence": 0.9, "profile": True}),
    ("y ~ α*exp(-β*x) + γ₀", {"bounds": {"γ₀": (0.35, None)}, "priors": ["β ~ normal(1, 1)"]}),
    ("y ~ a[g] + b*u", {"sigma": "s", "absolute_sigma": True, "x_sigma": {"u": "s"}}),
    ("y ~ a[g, k] + b*`λ₁`", {"weights": "1/w^2", "fixed": {"b": 0.1}}),
    ("y ~ a + b*`Temp [°C]`", {"fixed": {"b": "2*a"}}),
    ("y ~ e*u + pi*a", {"loss": "huber"}),
    ("n ~ exp(a + b*u)", {"family": "negative_binomial"}),
    ("z ~ sigmoid(a + b*u)", {"family": "binomial", "l2": 0.01}),
    ("f(t) = a*t^2; h = f(u); [y, w] ~ [h, c]", {"validation": 0.25, "absolute_sigma": False}),
    ("y ~ v @ [1, u, w]", {"fixed": {}}),
    ("g ~ softmax(dense([u, w], 4))", {"epochs": 3, "validation": 0.25}),
    ("M: 2x2; log(y) ~ M[0, 1]*u + sum(M)*w", DRAWN),
]


@pytest.mark.parametrize(("model", "options"), FITS, ids=[model for model, _ in FITS])
def test_a_loaded_fit_reports_what_the_fit_reported(model: str, options: dict[str, Any], tmp_path: Path) -> None:
    """The summary of a fit lacked the notes on its model, which that of the loaded one had."""
    if "posterior" in options:
        pytest.importorskip("nutpie", reason="the extra bayes is not installed")
    fit = ad.fit(model, MANY, **options)
    fit.save(tmp_path / "model.json")
    again = ad.load(tmp_path / "model.json")
    for note in (*fit.notes, *fit.warnings):
        assert note in " ".join(fit.summary(17).split())
    assert again.summary(17) == fit.summary(17)
    unsaved = {"roc", "diagnosis"}
    (document,), (other,) = (fit_report(each).documents() for each in (fit, again))
    assert other == {name: value for name, value in document.items() if name not in unsaved}
    assert np.array_equal(again.predict(MANY), fit.predict(MANY))
    if fit.classes is None:
        assert np.array_equal(again.residuals(MANY), fit.residuals(MANY))
        bands, others = fit.predict(MANY, interval=0.8), again.predict(MANY, interval=0.8)
        for name in ("confidence_low", "confidence_high", "prediction_low", "prediction_high"):
            assert np.array_equal(getattr(bands, name), getattr(others, name), equal_nan=True)


# --- files that cannot be read


@pytest.fixture
def document(fitted: dict[str, ad.Fit], tmp_path: Path) -> dict[str, Any]:
    fitted["classes"].save(tmp_path / "good.json")
    found: dict[str, Any] = json.loads((tmp_path / "good.json").read_text())
    return found


def refused(content: str | bytes, tmp_path: Path) -> str:
    path = tmp_path / "bad.json"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ad.ModelFileError) as error:
        ad.load(path)
    return str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "damaged"),
        ("x,y\n1,2\n", "not a model file"),
        ("[1, 2]", "not a model file"),
        ('{"format": "autodiff model", "version": NaN}', "version NaN"),
        ('{"format": "autodiff model", "version": "1"}', "version"),
        ("[" * 100_000, "not a model file"),
        (b"\x80\x81", "not a model file"),
        (b"PK\x03\x04", "not a model file"),
    ],
)
def test_other_files_are_refused(content: str | bytes, message: str, tmp_path: Path) -> None:
    assert message in refused(content, tmp_path)


def test_a_file_of_an_earlier_version_is_refused_with_the_reason(document: dict[str, Any], tmp_path: Path) -> None:
    assert "fit the model again" in refused(json.dumps({**document, "version": 1}), tmp_path)


def test_a_file_of_a_later_version_is_refused_with_the_reason(document: dict[str, Any], tmp_path: Path) -> None:
    message = refused(json.dumps({**document, "version": 5, "autodiff": "7.0"}), tmp_path)
    assert "the file has version 5 of the format (written by autodiff 7.0)" in message
    assert "update" in message


def test_a_message_quotes_at_most_40_characters_of_a_value(document: dict[str, Any], tmp_path: Path) -> None:
    for length in (0, 37, 38, 39, 100_000):
        value = "é" * length
        quoted = f'"{value}"' if length <= 38 else f'"{value[:38]}…'
        assert refused(signed({**document, "rows": value}), tmp_path).endswith(f"`rows` cannot be {quoted}")


def test_a_file_cut_short_is_refused_wherever_it_is_cut(document: dict[str, Any], tmp_path: Path) -> None:
    text = json.dumps(document)
    for length in range(0, len(text), 97):
        assert "damaged" in refused(text[:length], tmp_path)


def test_a_key_that_occurs_twice_is_refused(document: dict[str, Any], tmp_path: Path) -> None:
    text = json.dumps(document)
    for key in document:
        twice = text.replace(f'"{key}": ', f'"{key}": 1, "{key}": ', 1)
        assert f"the key `{key}` occurs more than once" in refused(twice, tmp_path)


def signed(document: dict[str, Any]) -> str:
    """A document as text, with the checksum of its content."""
    content = {name: value for name, value in document.items() if name != "checksum"}
    return json.dumps(
        {**content, "checksum": hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()}
    )


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("model", "kind ~ softmax(mlp([a, b], [3], relu)", "column"),
        ("model", 3, "`model` cannot be 3"),
        ("model", "kind ~ softmax(mlp([a, b], [4], relu))", "4x2"),
        ("columns", ["a"], "is not a column of the data (a)"),
        ("columns", ["a", "b", "kind", "c"], "columns do not match its model"),
        ("parameters", {}, "parameters"),
        ("parameters", [1], "`parameters` cannot be [1]"),
        ("parameters", {"mlp.0.weight": [[1, 2], [3]]}, "`parameters` cannot be"),
        ("parameters", {"mlp.0.weight": "many"}, "`parameters` cannot be"),
        ("parameters", {"mlp.0.weight": []}, "`parameters` cannot be"),
        ("parameters", {"mlp.0.weight": 10**400}, "`parameters` cannot be"),
        ("rows", True, "`rows` cannot be true"),
        ("loss", [], "`loss` cannot be []"),
        ("history", {}, "`history` cannot be {}"),
        ("classes", [["x"], "y"], "`classes` cannot be"),
        ("classes", {}, "`classes` cannot be {}"),
        ("classes", [1, "y"], "`classes` cannot be"),
        ("classes", ["x", "\ud800"], "`classes` cannot be"),
        ("model", "kind ~ softmax(mlp([a, b], [3], relu)) # \ud800", "`model` cannot be"),
    ],
)
def test_values_of_other_types_and_other_models_are_named(
    key: str, value: Any, message: str, document: dict[str, Any], tmp_path: Path
) -> None:
    """Such a file was not written by this release, but its checksum is right."""
    assert message in refused(signed({**document, key: value}), tmp_path)


def test_every_key_is_missed(document: dict[str, Any], tmp_path: Path) -> None:
    assert signed(document) == json.dumps(document)
    for key in document.keys() - {"format", "version", "autodiff"}:
        assert f"`{key}`" in refused(
            (json.dumps if key == "checksum" else signed)({k: v for k, v in document.items() if k != key}), tmp_path
        )


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_file_with_a_damaged_byte_is_the_same_model_or_is_refused(
    place: int, byte: int, document: dict[str, Any], tmp_path: Path
) -> None:
    content = bytearray(json.dumps(document).encode())
    content[place % len(content)] = byte
    (tmp_path / "bad.json").write_bytes(content)
    with contextlib.suppress(ad.ModelFileError):
        ad.load(tmp_path / "bad.json").save(tmp_path / "again.json")
        assert json.loads((tmp_path / "again.json").read_text()) == document


def damaged(value: Any, place: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Any:
    """A copy of a document in which one value is changed."""
    document = copy.deepcopy(value)
    parent = functools.reduce(operator.getitem, place[:-1], document)
    change(parent, place[-1])
    return document


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, item in items:
        yield (*above, key)
        yield from places(item, (*above, key))


VALUES: list[Any] = [None, True, -1, 1.5, "nan", "inf", "text", [], {}, [1], {"zzz": 1.0}]


def test_a_model_file_with_one_value_changed_is_refused(document: dict[str, Any], tmp_path: Path) -> None:
    """Each value is left out, doubled under another name, changed by a digit, and given other types and signs."""
    changes: list[Callable[[Any, Any], None]] = [operator.delitem]
    changes += [lambda parent, key, value=value: operator.setitem(parent, key, value) for value in VALUES]
    changes.append(lambda parent, key: parent.update(zzz=parent[key]) if isinstance(parent, dict) else parent.append(1))
    changes.append(lambda parent, key: operator.setitem(parent, key, np.nextafter(parent[key], 9)))
    cases = [(place, change) for place in places(document) for change in changes]
    for place, change in evenly_spread_part(cases):
        with contextlib.suppress(TypeError):
            bad = json.dumps(damaged(document, place, change))
            if bad != json.dumps(document):
                refused(bad, tmp_path)


FORGED: list[tuple[str, dict[str, Any]]] = [
    ("y ~ a[g] + b*u", {"sigma": "s", "absolute_sigma": True, "derive": ["c = 2*b"], "bootstrap": 5}),
    ("y ~ v @ [1, u, w]", {"bounds": {"v": (0, None)}}),
    ("g ~ softmax(dense([u, w], 4))", {"epochs": 3}),
    ("n ~ exp(a + b*u)", {"family": "negative_binomial"}),
    ("y ~ a + m[g] + b*x", {"laplace": "m", "priors": ["m[g] ~ normal(0, s0)"]}),
    ("y ~ a + b*u + c*2*u", {}),
]


def assign(value: Any, parent: Any, key: Any) -> None:
    parent[key] = value


@pytest.mark.parametrize(("model", "options"), FORGED, ids=[model for model, _ in FORGED])
def test_a_forged_value_is_refused_or_gives_a_model_that_predicts_and_reports(
    model: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """The checksum of such a file is right, but its fields may contradict each other."""
    ad.fit(model, MANY, **options).save(tmp_path / "good.json")
    document = json.loads((tmp_path / "good.json").read_text())
    random = np.random.default_rng(2)
    forged = [0, 1e300, 10**400, "", [1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]], {"a": 1.0}, {"u": [0, 1]}, *VALUES]
    unused = {"format", "version", "checksum", "history", "notes", "warnings"}
    spots = [place for place in places(document) if place[0] not in unused]
    for _ in range(48):
        place, value = spots[random.integers(len(spots))], forged[random.integers(len(forged))]
        forge = operator.delitem if random.random() < 0.2 else functools.partial(assign, value)
        (tmp_path / "bad.json").write_text(signed(damaged(document, place, forge)))
        with contextlib.suppress(ad.ModelFileError):
            fit = ad.load(tmp_path / "bad.json")
            fit.summary()
            with contextlib.suppress(OptionError, ad.DataError):  # levels and classes have other names
                fit.predict(MANY)
                fit.predict(MANY, interval=0.9)


def test_a_model_file_may_be_indented(document: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "indented.json").write_text(json.dumps(document, indent=2))
    assert ad.load(tmp_path / "indented.json").parameters.keys() == document["parameters"].keys()


def test_fits_are_compared_by_identity_and_errors_name_the_file(tmp_path: Path) -> None:
    fit = ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4, 6.6]})
    assert fit == fit
    assert fit != copy.copy(fit)
    assert fit in {fit}
    with pytest.raises(FileNotFoundError, match=r"nowhere/model\.json'$"):
        fit.save(tmp_path / "nowhere" / "model.json")


def test_draws_are_counted_by_chains_whatever_shape_they_have() -> None:
    found = ad.fit("y ~ a*x", {"x": [1.0, 2, 3], "y": [2.0, 4.1, 6]})
    assert found.draw_counts == (0, 0)
    for draws in ({"v": np.zeros((4, 50, 2))}, {"a": np.zeros((4, 50)), "v": np.zeros((4, 50, 2, 3))}):
        assert dataclasses.replace(found, draws=draws).draw_counts == (4, 50)


@pytest.mark.parametrize("count", [1, 250, 251, 499, 2000])
def test_a_model_file_has_at_most_a_thousand_draws_of_all_chains(count: int, tmp_path: Path) -> None:
    found = ad.fit("y ~ a*x", {"x": [1.0, 2, 3], "y": [2.0, 4.1, 6]})
    dataclasses.replace(found, draws={"a": np.arange(4.0 * count).reshape(4, count)}).save(tmp_path / "m.json")
    saved = np.array(json.loads((tmp_path / "m.json").read_text())["draws"]["a"])
    assert saved.shape[0] == 4
    assert min(4 * count, 500) <= saved.size <= 1000
    steps = np.diff(saved, axis=1)
    assert (steps == steps[:1, :1]).all()


def test_a_model_file_has_no_matrix_of_unknown_correlations(tmp_path: Path) -> None:
    """It would have a number for each pair of a network's parameters."""
    for loss, is_known in (("mse", True), ("mae", False)):
        fit = ad.fit("y ~ a*x + b", {"x": [1.0, 2, 3, 4], "y": [2.0, 4.1, 6, 9]}, loss=loss)
        fit.save(tmp_path / "m.json")
        assert (json.loads((tmp_path / "m.json").read_text())["correlation"] is not None) is is_known
        assert np.isnan(ad.load(tmp_path / "m.json").correlation).all() != is_known

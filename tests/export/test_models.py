"""Exported models predict the same values as `predict`."""

from __future__ import annotations

import ctypes
import itertools
import json
import math
import re
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.export import models
from autodiff_cli.export.languages import EXPORTERS
from autodiff_cli.export.models import onnx_model, prediction_onnx, prediction_source
from autodiff_cli.export.program import ExportError, ExportOptions
from autodiff_cli.language.program import read
from autodiff_cli.training.result.fitted_model import FittedModel
from tests.export.support import STRICT, Case, in_c, run
from tests.support import run_cli
from tests.tools import program

RANDOM = np.random.default_rng(3)
X = np.linspace(-1.5, 2, 40)
Z = RANDOM.normal(size=40)
DATA: dict[str, Any] = {
    "x": X,
    "z": Z,
    "y": 2.5 * np.exp(-0.7 * X) + 0.1 * Z,
    "kind": np.where(X + Z > 0.3, "warm", "cold"),
}


def fitted(model: str, **options: Any) -> FittedModel:
    return ad.fit(model, DATA, **options)


MODELS = ["y ~ a*exp(-b*x)", "y ~ a + b*x + c*abs(z)^1.5", "y ~ mlp([x, z], [5], tanh)", "y ~ dot(w, [x, z, 1])"]


@pytest.mark.parametrize("model", MODELS)
def test_python_and_numpy_predict_the_same(model: str) -> None:
    fit = fitted(model, epochs=5)
    expected = fit.predict(DATA)
    for target in ("python", "numpy"):
        made: dict[str, Any] = {}
        exec(prediction_source(fit, target, ExportOptions("f")), made)  # our own source
        rows = [made["f"](**{name: float(DATA[name][k]) for name in fit.predictors}) for k in range(40)]
        np.testing.assert_allclose([float(value) for value, _ in rows], expected, rtol=1e-13, atol=1e-14)
        moved = fit.predict({**DATA, "x": X + 1e-6}) - fit.predict({**DATA, "x": X - 1e-6})
        np.testing.assert_allclose([float(slopes["x"]) for _, slopes in rows], moved / 2e-6, rtol=1e-4, atol=1e-6)


def test_c_predicts_the_same(tmp_path: Path) -> None:
    fit = fitted("y ~ a*exp(-b*x) + c*z")
    source = prediction_source(fit, "c", ExportOptions("f"))
    points = [(float(x), float(z)) for x, z in zip(X, Z, strict=True)]
    found = in_c([Case(source, "f", fit.predictors, points)], tmp_path)[0]
    np.testing.assert_allclose([value for value, _ in found], fit.predict(DATA), rtol=1e-13)


SEVERAL = ["kind ~ softmax(mlp([x, z], [3], tanh))", "[y, z] ~ dense([x, x^2], 2)"]


@pytest.mark.parametrize("model", [SEVERAL[0], pytest.param(SEVERAL[1], marks=pytest.mark.slow)])
def test_predictions_of_several_numbers(model: str, tmp_path: Path) -> None:
    fit = fitted(model, epochs=5)
    expected = fit.predict(DATA) if fit.classes is None else fit.probabilities(DATA)
    rows = [[float(DATA[name][k]) for name in fit.predictors] for k in range(7)]
    sources = {target: prediction_source(fit, target, ExportOptions("f", gradient=False)) for target in EXPORTERS}
    found = {target: in_python_alone(sources[target], rows) for target in ("python", "numpy")}
    found["c"] = in_library(["gcc", *STRICT], "f.c", "f", sources["c"], rows, len(expected[0]), tmp_path)
    found["fortran"] = in_library(
        ["gfortran", "-Wall", "-Werror"], "f.f90", "f_", sources["fortran"], rows, len(expected[0]), tmp_path
    )
    (tmp_path / "f.mjs").write_text(sources["js"])
    given = json.dumps([dict(zip(fit.predictors, row, strict=True)) for row in rows])
    (tmp_path / "run.mjs").write_text(
        f"import {{ f }} from './f.mjs';\nconsole.log(JSON.stringify({given}.map((row) => f(row).value)));\n"
    )
    found["js"] = json.loads(run([program("node", "nodejs"), tmp_path / "run.mjs"]))
    for target, values in found.items():
        np.testing.assert_allclose(values, expected[:7], rtol=1e-13, err_msg=target)
    if fit.classes is not None:
        assert all("probabilities of cold and warm" in source for source in sources.values())


def in_python_alone(source: str, rows: list[list[float]]) -> Any:
    made: dict[str, Any] = {}
    exec(source, made)  # our own source
    return [made["f"](*row) for row in rows]


def in_library(
    command: list[str], file: str, name: str, source: str, rows: list[list[float]], count: int, folder: Path
) -> list[list[float]]:
    """What a compiled function writes into its second argument, row by row."""
    (folder / file).write_text(source)
    library = folder / f"{file}.so"
    run([program(command[0], command[0]), *command[1:], "-shared", "-fPIC", "-o", library, folder / file, "-lm"])
    function, found = getattr(ctypes.CDLL(str(library)), name), []
    for row in rows:
        value = (ctypes.c_double * count)()
        function((ctypes.c_double * len(row))(*row), value)
        found.append([*value])
    return found


IN_ONNX = [
    *MODELS,
    "kind ~ softmax(mlp([x, z], [4, 3], relu))",
    "[y, z] ~ mlp(x, [4], sigmoid)",
    "y ~ a*max(x, z) + b*where(x > 0 and not z > 1, x, -z) + c*clip(x, -1, 1) + d",
    "y ~ a*sinh(x)^2 % 3 + b*log10(2 + x^2)*log1p(x^2)*expm1(z/9) + c*elu(z) + d*silu(x)",
    "y ~ sum(W @ [x, z]) + norm([x, a, z]) + mean([x, b]) + norm(x) + sum(x)",
    "y ~ sum([x, a] @ W) + [x, z] @ [z, b] + q @ [x, z] + sum([[x, b], [z, x]] @ [z, x]) + sum(q @ [[x, b], [z, x]])",
    "y ~ sum([[x, a], [z, x]] @ W) + sum(W @ [[x, a], [z, x]]) + sum([[x, a], [z, x]] @ q) + sum(q @ W)*x",
    "y ~ a*softmax([[x, z], [z, 1]])[0, 0] + b*softmax([[1, 2], [2, a]])[1, 0] + prod([x, z, b])",
    "y ~ a*heaviside(x) + b*log(2 + x^2, 7)",
    "y ~ a + 0*b*x",
    "y ~ dot(concat([x, z], [a, 1]), v)*outer([x, 1], [z, b])[0, 1] + transpose(M)[1, 0]",
]


@pytest.mark.parametrize("model", IN_ONNX)
def test_onnx_predicts_the_same(model: str) -> None:
    onnx, reference = pytest.importorskip("onnx"), pytest.importorskip("onnx.reference")
    shapes = {"W": "W: 2x2\n", "v": "v: 4\n", "M": "M: 2x2\n", "q": "q: 2\n"}
    text = "".join(shapes[name] for name in shapes if name in model) + model
    fit = fitted(text, optimizer="adam", epochs=3)
    content = prediction_onnx(fit, "model")
    assert onnx.load_from_string(content).opset_import[0].version == 18
    given = {name: np.asarray(DATA[name], dtype=np.float64) for name in fit.predictors}
    with np.errstate(all="ignore"):
        found = reference.ReferenceEvaluator(onnx.load_from_string(content)).run(None, given)[0]
    np.testing.assert_allclose(found, fit.probabilities(DATA), rtol=1e-13, atol=1e-14)


# A number, a vector and a matrix that differ from row to row, and others that do not.
NUMBERS, VECTORS, MATRICES = ("x", "a"), ("[x, z]", "v"), ("[[x, 1], [z, x*z]]", "M")
OPERANDS = (*NUMBERS, *VECTORS, *MATRICES)
ON_ARRAYS = [
    *(f"outer({p}, {q})" for p in VECTORS for q in VECTORS),
    *(f"{p} @ {q}" for p in VECTORS + MATRICES for q in VECTORS + MATRICES),
    *(f"{p} * {q}" for p in OPERANDS for q in OPERANDS),
    *(f"where({p} > 0.4, {q}, -1)" for p in OPERANDS for q in OPERANDS),
    *(f"concat({p}, {q})" for p in VECTORS for q in VECTORS),
    *(f"[{p}, {q}]" for p in OPERANDS for q in OPERANDS if {p, q} <= {*NUMBERS} or {p, q} <= {*VECTORS}),
    *(f"{name}({p})" for name in ("transpose", "softmax") for p in VECTORS + MATRICES),
    *(f"{name}({p})" for name in ("sum", "mean", "max", "min", "prod", "norm", "logsumexp") for p in OPERANDS),
    *(f"{p}[1]" for p in VECTORS),
    *(f"{p}[1, 0]" for p in MATRICES),
]


def test_onnx_has_arrays_that_differ_from_row_to_row_and_others() -> None:
    onnx, reference = pytest.importorskip("onnx"), pytest.importorskip("onnx.reference")
    values = {"a": 0.7, "v": np.array([0.3, -1.2]), "M": np.array([[1.5, -0.2], [0.4, 0.9]])}
    columns = {"x": np.array([0.5, -0.3, 2.0]), "z": np.array([1.0, 0.25, -0.6])}
    shapes = {name: np.shape(value) for name, value in values.items() if np.ndim(value)}
    for each_text in ON_ARRAYS:
        text = f"{'v: 2; ' * ('v' in each_text)}{'M: 2x2; ' * ('M' in each_text)}{each_text}"
        content = onnx_model(read(text).output, shapes, values, dict.fromkeys(columns, ""), "f")
        found = reference.ReferenceEvaluator(onnx.load_from_string(content)).run(None, columns)[0]
        formula = ad.parse(text)
        for k in range(3):
            point = {**values, "x": columns["x"][k], "z": columns["z"][k]}
            expected = formula(**{name: point[name] for name in formula.variables})
            np.testing.assert_allclose(found[k], expected, rtol=1e-14, err_msg=each_text)


@pytest.mark.parametrize("function", ["log1p", "expm1", "cbrt", "sinc", "logsigmoid", "hypot", "log10", "log2", "exp2"])
def test_onnx_has_the_digits_of_functions_that_it_defines_by_others(function: str) -> None:
    """Next to 0, where their definitions would cancel or divide by 0, and far out."""
    onnx, reference = pytest.importorskip("onnx"), pytest.importorskip("onnx.reference")
    positive = [1e-300, 1e-17, 2.0**-53, 1e-16, 3e-10, 1e-3, 0.3, 1.0, 2.5, 40.0]
    x = np.array([*positive, *([] if function in ("log10", "log2") else [0.0, *(-0.9 * np.array(positive[:7]))])])
    data = {"x": x, "z": x[::-1].copy(), "y": x}
    fit = ad.fit(f"y ~ a*{function}(x{', z' if function == 'hypot' else ''})", data)
    content = onnx.load_from_string(prediction_onnx(fit, "model"))
    with np.errstate(all="ignore"):
        given = {name: data[name] for name in fit.predictors}
        found = reference.ReferenceEvaluator(content).run(None, given)[0]
    np.testing.assert_allclose(np.ravel(found), fit.predict(data), rtol=1e-13)


def test_a_runtime_of_others_predicts_the_same() -> None:
    runtime = pytest.importorskip("onnxruntime")
    fit = fitted("kind ~ softmax(mlp([x, z], [4, 3], tanh))", epochs=3)
    session = runtime.InferenceSession(prediction_onnx(fit, "model"), providers=["CPUExecutionProvider"])
    found = session.run(None, {"x": X, "z": Z})[0]
    np.testing.assert_allclose(found, fit.probabilities(DATA), rtol=1e-13, atol=1e-14)


def test_remainders_in_onnx_are_exact() -> None:
    """A quotient that is rounded down to a whole number loses the digits of the remainder, or all of it: 1 % 0.1."""
    onnx, reference = pytest.importorskip("onnx"), pytest.importorskip("onnx.reference")
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(size=300) * 10.0 ** rng.integers(-5, 18, 300), [1, -1, 0, 6, -6]])
    z = np.concatenate([rng.normal(size=300), [0.1, 0.1, -3, -3, 3]])
    fit = ad.fit("y ~ x % z + 0*a", {"x": x, "y": x, "z": z})
    evaluator = reference.ReferenceEvaluator(onnx.load_from_string(prediction_onnx(fit, "model")))
    np.testing.assert_array_equal(evaluator.run(None, {"x": x, "z": z})[0], fit.predict({"x": x, "z": z}))


def test_an_onnx_file_has_the_name_that_is_asked_for(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    ad.fit("y ~ a*x", {"x": [1, 2, 3], "y": [2, 4.1, 5.9]}).save(tmp_path / "m.json")
    assert run_cli(f"export {tmp_path}/m.json --name half_life -o {tmp_path}/m.onnx").status == 0
    assert onnx.load(tmp_path / "m.onnx").graph.name == "half_life"


def test_a_network_in_onnx_is_its_layers() -> None:
    onnx = pytest.importorskip("onnx")
    model = onnx.load_from_string(prediction_onnx(fitted("y ~ mlp([x, z], [5], tanh)", epochs=1), "model"))
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("MatMul") == 2
    assert kinds.count("Tanh") == 1
    assert {tensor.name for tensor in model.graph.initializer} >= {"mlp.0.weight", "mlp.0.bias", "mlp.1.weight"}


@pytest.mark.parametrize(
    ("model", "target", "words"),
    [
        ("kind ~ softmax(dense([x, z], 2))", "c", "predicts a probability for each class; .* --value-only"),
        ("[y, z] ~ dense(x, 2)", "python", "predicts 2 numbers"),
        (
            "y ~ a*gamma(2 + abs(x))",
            "onnx",
            "ONNX has no `gamma`; c, fortran, python, numpy, jax, js and latex have it",
        ),
        ("y ~ a*(kind == 'warm') + b*x", "c", "reads labels"),
    ],
)
def test_what_cannot_be_written(model: str, target: str, words: str) -> None:
    fit = fitted(model, epochs=1)
    if target == "onnx":
        pytest.importorskip("onnx")
        with pytest.raises(ExportError, match=words):
            prediction_onnx(fit, "f")
    else:
        with pytest.raises(ExportError, match=words):
            prediction_source(fit, target, ExportOptions("f"))


def test_source_code_has_a_limited_number_of_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = fitted("y ~ dense(x, 2)[0] + a", epochs=1)
    monkeypatch.setattr(models, "MAX_SOURCE_PARAMETERS", 5)
    assert "def f(" in prediction_source(fit, "python", ExportOptions("f"))
    monkeypatch.setattr(models, "MAX_SOURCE_PARAMETERS", 4)
    with pytest.raises(ExportError, match="the model has 5 parameters; source code has at most 4: use --to onnx"):
        prediction_source(fit, "python", ExportOptions("f"))


def test_variables_of_a_model_are_chosen_in_backticks(tmp_path: Path) -> None:
    model = str(tmp_path / "model.json")
    ad.fit("y ~ k*`a, b` + c*x", {"a, b": [1, 2, 3], "x": [1, 1, 2], "y": [1, 2, 4]}).save(model)
    source = run_cli(["export", model, "--to", "python", "--wrt", "`a, b`"])
    assert '{"a, b": ' in source
    assert '"x": ' not in source


def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "decay.json"
    fit = fitted("y ~ a*exp(-b*x)")
    fit.save(model)
    document = json.loads(run_cli(["export", str(model), "--to", "python", "--name", "decay", "--json"]))
    assert document["variables"] == ["x"]
    made: dict[str, Any] = {}
    exec(document["source"], made)
    assert math.isclose(made["decay"](0.5)[0], fit.predict({"x": [0.5]})[0], rel_tol=1e-13)
    only = run_cli(["export", str(model), "--to", "js", "--value-only"])
    assert "gradient" not in only
    refused = run_cli(["export", str(model), "--to", "onnx"])
    assert (refused.status, refused) == (2, "")
    assert "name the file with -o FILE" in refused.stderr
    formula = run_cli(["export", "x^2", "--to", "onnx", "-o", str(tmp_path / "f.onnx")])
    assert formula.status == 2
    assert "--to onnx needs a fitted model" in formula.stderr
    monkeypatch.setitem(sys.modules, "onnx", None)
    lacking = run_cli(["export", str(model), "-o", str(tmp_path / "decay.onnx")])
    assert lacking.status == 2
    assert "pip install onnx" in lacking.stderr
    assert not (tmp_path / "decay.onnx").exists()


def test_times_of_a_model_are_described(tmp_path: Path) -> None:
    """An exported function takes numbers for dates; it does not know from when they are counted."""
    onnx, data = pytest.importorskip("onnx"), tmp_path / "days.csv"
    data.write_text("day,y\n" + "".join(f"2024-01-{day:02},{day}\n" for day in range(1, 9)))
    fit, inverse = (ad.fit(model, str(data)) for model in ("y ~ a + b*day", "day ~ a + b*y"))
    for each, target in itertools.product((fit, inverse), EXPORTERS):
        words = " ".join(re.sub("//|[!%]", "", prediction_source(each, target, ExportOptions("f"))).split())
        assert "the prediction with day in seconds since 2024-01-01 00:00:00" in words, target
    inverse.save(tmp_path / "inverse.json")
    predicted = run_cli(["predict", str(tmp_path / "inverse.json"), "--y", "3"])
    assert predicted.stderr == "predicted `day`: seconds since 2024-01-01 00:00:00\n"
    assert float(predicted.split(",")[-1]) == pytest.approx(2 * 86400)
    reading = ["predict", str(tmp_path / "inverse.json"), "--inverse", "y", "--day"]
    (found,) = run_cli([*reading, "2024-01-03+-3600", "--json"]).json["solutions"]
    assert (found["value"], found["stderr"]) == pytest.approx((3, 1 / 24))  # a day is 1 of y
    for error in ("2024-01-02", "5%"):
        assert "the error of `day` is a number of seconds" in run_cli([*reading, f"2024-01-03+-{error}"]).stderr
    (column,) = onnx.load_from_string(prediction_onnx(fit, "f")).graph.input
    assert column.doc_string == "seconds since 2024-01-01 00:00:00"


def test_onnx_has_a_column_with_the_name_of_its_output() -> None:
    onnx, reference = pytest.importorskip("onnx"), pytest.importorskip("onnx.reference")
    columns = {"prediction": X, "prediction_2": Z}
    fit = ad.fit("y ~ a*prediction + b*prediction_2", {**DATA, **columns})
    evaluator = reference.ReferenceEvaluator(onnx.load_from_string(prediction_onnx(fit, "f")))
    np.testing.assert_allclose(evaluator.run(None, columns)[0], fit.predict(columns), rtol=1e-13)


@pytest.mark.parametrize("target", ["numpy", "jax"])
@pytest.mark.parametrize("model", ["y ~ a + b*sum([x, z])", "y ~ a*softmax([x, z])[0]", "[y, z] ~ [a*x, b*x + c*z]"])
def test_exported_functions_predict_many_rows_or_refuse_them(
    model: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sum over the elements of a list is not a sum over rows."""
    monkeypatch.setitem(sys.modules, "jax", types.SimpleNamespace(numpy=np))  # has the same functions
    monkeypatch.setitem(sys.modules, "jax.numpy", np)
    fit, made = fitted(model), dict[str, Any]()
    exec(prediction_source(fit, target, ExportOptions("f", gradient=False)), made)
    if model.startswith("["):
        np.testing.assert_allclose(made["f"](x=X, z=Z).T, fit.predict(DATA), rtol=1e-13)
        return
    with pytest.raises(ValueError, match="cannot reshape"):
        made["f"](x=X, z=Z)


def test_an_onnx_file_is_written(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    model, file = tmp_path / "line.json", tmp_path / "line.onnx"
    fitted("y ~ a*x + b").save(model)
    assert run_cli(["export", str(model), "-o", str(file)]).status == 0
    onnx.checker.check_model(onnx.load(file), full_check=True)

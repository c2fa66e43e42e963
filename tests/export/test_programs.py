"""Exported programs: their names, their arrays, their second derivatives, their size; compiled and run."""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import re
import subprocess
import types
import unicodedata
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.explain.tracing import trace
from autodiff_cli.export.languages import EXPORTERS, export
from autodiff_cli.export.program import MAX_HESSIAN_SIZE, ExportError, ExportOptions, transliterate
from autodiff_cli.expression import Expression, parse
from autodiff_cli.formula.formula import Formula
from autodiff_cli.graph.node import constant, is_literal, variable
from autodiff_cli.graph.tape import Tape
from autodiff_cli.language.lexer import quote_name
from autodiff_cli.numbers import arrays
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.numbers.translation import identifiers
from autodiff_cli.ops.arithmetic import where
from autodiff_cli.render.html_page import panels_document
from autodiff_cli.targets.languages import FORTRAN
from tests.each import amount, each, evenly_spread_part, part
from tests.export.support import (
    STRICT,
    Case,
    Found,
    close,
    in_c,
    in_fortran,
    in_javascript,
    in_jax,
    in_python,
    in_torch,
    run,
)  # fmt: skip
from tests.fuzz import grammar
from tests.numbers.test_arrays import ELEMENTWISE
from tests.support import run_cli
from tests.tools import program

Runner = Callable[[Sequence[Case], Path], list[list[Found]]]
RUNNERS: dict[str, Runner] = {
    "c": in_c, "fortran": in_fortran, "python": in_python, "numpy": in_python, "js": in_javascript,
}  # fmt: skip
EVERY = pytest.mark.parametrize("target", RUNNERS)


def agree(target: str, folder: Path, texts: Sequence[str], point: dict[str, float], **wanted: Any) -> None:
    """Export formulas, run them at a point, and compare with `grad`."""
    formulas = [parse(text) for text in texts]
    cases = [
        Case(
            export(f, target, ExportOptions(f"f{k}", **wanted)),
            f"f{k}",
            f.variables,
            [tuple(point[n] for n in f.variables)],
        )
        for k, f in enumerate(formulas)
    ]
    for f, case, ((value, slopes),) in zip(formulas, cases, RUNNERS[target](cases, folder), strict=True):
        wanted_value, gradient = f.value_and_grad({name: point[name] for name in f.variables})
        expected = pytest.approx([wanted_value, *gradient.values()], rel=1e-13)
        assert [value, *slopes] == expected, case.source


@pytest.mark.slow
@EVERY
@pytest.mark.sampled
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e5, 1e300])
def test_operations_on_arrays_of_any_scale(tmp_path: Path, target: str, scale: float) -> None:
    """A length does not overflow before its elements do, and scores of any size that differ little have all digits."""
    texts = ["norm([x, y])", "norm([x, y, z])", "[1, 2, 4] @ softmax([u, v, w])", "softmax([u, v])[0]"]
    scores = {"u": 0.125 + scale, "v": 1.25 + scale, "w": 2.5 + scale}
    agree(target, tmp_path, texts, {"x": 0.3 * scale, "y": -1.2 * scale, "z": 2.5 * scale, **scores})


# fmt: off
NAMES = [
    "x", "gradient", "hessian", "value", "t1", "for", "class", "end", "double", "lambda", "λ", "θ_0", "x₁", "x1", "x̂",
    "X", "function", "sin", "erf", "sqrt", "math", "np", "zeros", "dp", "данные", "f0", "exp", "returned",
    "product_error", "undefined", "PI", "Temp [°C]",
]
# fmt: on


@EVERY
def test_any_name_becomes_a_legal_one_of_its_own(tmp_path: Path, target: str) -> None:
    point = {name: 0.1 + 0.05 * k for k, name in enumerate(NAMES)}
    products = [f"sin({quote_name(a)})*{quote_name(b)}" for a, b in pairwise(NAMES)]
    f = parse(f"{' + '.join(products)} + erf(x)*sqrt(X)*exp(λ)*pi*normal_pdf(λ)")
    case = Case(export(f, target, ExportOptions("f0")), "f0", f.variables, [tuple(point[name] for name in f.variables)])
    ((value, slopes),) = RUNNERS[target]([case], tmp_path)[0]
    expected, gradient = f.value_and_grad(point)
    assert [value, *slopes] == pytest.approx([expected, *gradient.values()], rel=1e-13)


C_WORDS = (
    "auto bool class const constexpr double inline int restrict return static typeof void while result abs x gradient "
    "NaN nan inf E PI fabs sin j0 y1 gamma printf signbit isnan main errno undefined"
)


@pytest.mark.slow
@pytest.mark.parametrize("standard", [pytest.param("c99", marks=pytest.mark.exhaustive), "gnu17"])
def test_c_compiles_without_warnings_whatever_names_a_formula_has(tmp_path: Path, standard: str) -> None:
    """Also where they are those of macros that the compiler itself lists."""
    gcc = program("gcc", "gcc")
    macros = run([gcc, f"-std={standard}", "-dM", "-E", "-include", "math.h", "-"])
    names = {*C_WORDS.split(), *re.findall(r"^#define ([A-Za-z]\w*)", macros, re.MULTILINE)}
    assert {"INFINITY", "signbit"} <= names
    sources = [export(parse(" + ".join(f"{quote_name(name)}^2" for name in names)), "c")]
    some = sorted(names)[:: len(names) // part(len(names))]
    for k, name in enumerate(some):
        texts = [f"{quote_name(name)}*x*gamma(y) + where(y > 1e400, nan, inf)"]
        texts.append(f"{quote_name(name)} = u*v; exp({quote_name(name)})*{quote_name(name)}")
        sources += [export(parse(text), "c", ExportOptions(f"f{k}")) for text in texts]
        if EXPORTERS["c"].names.allows(name):
            sources.append(export(parse("x*y"), "c", ExportOptions(name)))
    for k, source in enumerate(sources):
        (tmp_path / f"f{k}.c").write_text(source, encoding="utf-8")
    flags = [f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
    run([gcc, *flags, *sorted(tmp_path.glob("*.c"))])


@pytest.mark.slow
def test_c_compiles_as_cpp_with_names_that_are_words_of_cpp(tmp_path: Path) -> None:
    compiler = [program("g++", "g++"), "-std=c++17", "-fsyntax-only", "-x", "c++"]
    macros = run([*compiler[:2], "-dM", "-E", "-include", "math.h", "-x", "c++", "-"])
    names = ["class", "new", "template", "this", "operator", "namespace", "virtual", "concept", "co_await"]
    names += ["and", "or", "not", "xor", "and_eq", "compl", "bitand"]
    names += re.findall(r"^#define ([A-Za-z]\w*) ", macros, re.MULTILINE)
    text = " + ".join(f"{quote_name(name)}^2.5*erf(x)" for name in dict.fromkeys(names))
    file = tmp_path / "f.cpp"
    file.write_text(export(parse(text), "c"), encoding="utf-8")
    run([*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", file])


# Each has a branch with an infinite derivative, or none, where it is not taken.
SELECTIONS = [
    ("where(x > 0, sqrt(x), 5*x)", [-1, 0, 2]),
    ("where(x > 0, where(x < 1, sqrt(x)*log(1 - x), acosh(x)), 1/x)", [0.5, 1, 2, -1, 3]),
    ("where(x == 0, 1, sin(x)/x)", [0, 1]),
    ("where(0 < x and x < 1, log(x/(1 - x)), 0)", [0, 1, 0.5, 2]),
    ("relu(log(x)) + x", [0, 0.5, 2]),
    ("max(log(x), x, sqrt(x))", [0, 0.5, 2]),
    ("min(exp(x), 3) + x", [1000, 0, 1]),
    ("clip(log(x), -1, 1) + x", [0, 1, 2, 100]),
    ("hardtanh(1/x) + relu6(1/x)", [0, 0.5, 3]),
    ("where(x > 0, x^1.5, x)", [-2, 0, 4]),
]


@pytest.mark.parametrize(("text", "points"), SELECTIONS, ids=[text for text, _ in SELECTIONS])
def test_a_framework_that_multiplies_by_0_has_our_gradient(text: str, points: list[float]) -> None:
    """The graph that JAX and PyTorch get is differentiated without masks, as they do it."""
    f = parse(text)
    (graph,) = EXPORTERS["jax"].graph_pass([f.output], {})
    tape = Tape([graph])
    for x in map(float, points):
        values = forward(tape, FLOATS, {"x": x})
        adjoints = {tape.outputs[0]: 1.0}
        for i in reversed(range(len(values))):
            node = tape.nodes[i]
            if node.op is None or i not in adjoints:
                continue
            rule = node.op.derivative_rule(len(node.inputs))
            slopes = Tape([partial.masked_graph for partial in rule.partials])
            place = dict(zip([leaf.text for leaf in rule.inputs], [values[k] for k in tape.inputs[i]], strict=True))
            local = forward(slopes, FLOATS, {**place, rule.output.text: values[i]})
            for k, slot, partial in zip(tape.inputs[i], slopes.outputs, rule.partials, strict=True):
                if is_literal(partial.local, 0):
                    continue  # nothing is passed on to the sides of a comparison
                # A selection passes 0 on, whatever arrives; all other operations multiply by it.
                amount = 0.0 if node.op is where and local[slot] == 0 else adjoints[i] * local[slot]
                adjoints[k] = adjoints.get(k, 0.0) + amount
        value, gradient = f.value_and_grad(x=x)
        assert values[tape.outputs[0]] == pytest.approx(value, rel=1e-13), x
        assert adjoints[tape.index[f.leaves["x"]]] == pytest.approx(gradient["x"], rel=1e-12, nan_ok=True), x


@pytest.mark.parametrize(
    "branch",
    [
        "sum(log(x*v))",
        "log(x*v[1])",
        "log(x*v)[1] + dot(1/(x*v), v)",
        "log(norm(x*v))",
        "1/sum(x*(M @ v))",
        "sum(M @ log(x*v)) + log(transpose(M*x)[0, 1])",
        "prod(v/x) + mean(concat(v, v/x)) + outer(v, 1/x*v)[1, 0]",
    ],
)
def test_in_branches_of_arrays_that_are_not_taken_nothing_is_infinite(branch: str) -> None:
    """A framework would multiply it by 0. Where they are taken, they have the value that they had."""
    f = parse(f"v: 2; M: 2x2; where(x > 0, {branch}, 2) + 0*M[0, 0]*v[0]")
    v, matrix = np.array([2.0, 3.0]), np.array([[1.0, 2.0], [3.0, 4.0]])
    tape = Tape(EXPORTERS["jax"].graph_pass([f.output], {"v": (2,), "M": (2, 2)}))
    for x in (0.0, 1.5):
        columns = {"x": np.array([x]), "v": v[:, None], "M": matrix[..., None]}
        values = forward(tape, arrays.ARRAYS, columns)
        assert all(np.isfinite(value).all() for value in values)
        assert values[tape.outputs[0]] == pytest.approx(f(x=x, v=v, M=matrix), rel=1e-14)


@EVERY
def test_names_of_objects_in_javascript_and_long_names(tmp_path: Path, target: str) -> None:
    names = ["__proto__", "constructor", "hasOwnProperty", "toString", "__defineGetter__", "a" * 70, "A" * 70, "a" * 71]
    f = parse(" + ".join(f"{k + 2}*{name}" for k, name in enumerate(names)))
    case = Case(export(f, target, ExportOptions("f0")), "f0", f.variables, [tuple(range(len(names)))])
    ((_, slopes),) = RUNNERS[target]([case], tmp_path)[0]
    assert slopes == [k + 2 for k in range(len(names))]


@pytest.mark.slow
def test_variables_are_called_like_everything_that_fortran_code_calls(tmp_path: Path) -> None:
    texts = [text for notation in FORTRAN.notations.values() for text in notation.texts]
    words = identifiers(" ".join([*texts, *FORTRAN.snippets.values(), "ieee_class ieee_rem"]))
    names = sorted(word for word in words if not word[0].isdigit() and word not in ("x", "y"))
    sums = " + ".join(f"{k + 2}*{quote_name(name)}" for k, name in enumerate(names))
    calls = "round(x)/max(x, inf) + digamma(x) + lgamma(y) + erfinv(y) + expm1(x) + where(x > y, log(x), y)"
    f = parse(f"{sums} + {calls}", variables=names)
    case = Case(export(f, "fortran", ExportOptions("f0")), "f0", f.variables, [(0.5,) * len(f.variables)])
    ((value, slopes),) = in_fortran([case], tmp_path)[0]
    assert value == pytest.approx(f(dict.fromkeys(f.variables, 0.5)), rel=1e-13)
    assert slopes[: len(names)] == [k + 2 for k in range(len(names))]


@pytest.mark.parametrize("target", ["python", "numpy"])
def test_a_function_called_like_a_word_of_its_module_computes_the_same_or_is_refused(target: str) -> None:
    f = parse("digamma(z)")
    words = identifiers(export(f, target, ExportOptions(wrt=())))
    allowed = 0
    for name in sorted(word for word in words if word.isidentifier())[:: amount(2, 1, 1)]:
        with contextlib.suppress(ExportError):
            source, scope = export(f, target, ExportOptions(name, wrt=())), {}
            exec(source, scope)
            assert [float(scope[name](z)[0]) for z in (0.3, -2.5, 1e9)] == [f(z=z) for z in (0.3, -2.5, 1e9)], name
            allowed += 1
    assert allowed > 10


@pytest.mark.parametrize("name", ["INF", "ieee_value", "IEEE_Quiet_NaN"])
def test_a_subroutine_is_not_called_like_what_it_calls_in_any_case(name: str) -> None:
    with pytest.raises(ExportError, match="choose another"):
        export(parse("x + inf"), "fortran", ExportOptions(name))


@each("target", ["c", "fortran", "js", "python"])
def test_a_function_has_no_name_of_a_function_that_it_calls(target: str) -> None:
    with pytest.raises(ExportError, match="choose another"):
        export(parse("digamma(x)"), target, ExportOptions("digamma"))
    if target in ("c", "fortran"):
        with pytest.raises(ExportError, match="is not a legal name"):
            export(parse("exp(x)"), target, ExportOptions("exp"))
    if target == "fortran":
        with pytest.raises(ExportError, match="is not a legal name"):
            export(parse("exp(x)"), target, ExportOptions("value"))


@each("name", ["温度", "שלום", "درجة", "한글", "のべる", "Жук", "ქართული", "Ωμέγα", "łódź", "ნ_ა", "ß"])
def test_letters_of_every_script_become_few_latin_ones(name: str) -> None:
    latin = transliterate(name)
    assert latin.isascii()
    assert latin.isidentifier()
    assert len(latin) <= 6.5 * len(unicodedata.normalize("NFD", name))
    assert len(name) == 1 or latin != transliterate(name[::-1])


def test_a_comment_lists_renamed_variables() -> None:
    f = parse("λ*for*x₁ + class")
    assert "λ (here lambda); for (here for_); x₁ (here x1); class (here class_)." in export(f, "c", ExportOptions())
    assert "Here for is for_, x₁ is x1 and class is class_." in export(f, "python", ExportOptions())


FORMULAS = [
    "x*y + sin(x)",
    "a = x + y; b = a*y; a^2*b - b/a",
    "where(x > 0 and y < 2, x^y, gamma(x))*max(x, y, 2*x)",
    "x^3 + x^-2 + 2^y + x^0.5 + (x - y)^2",
    "-x*-y - (x - (y - 1)) + x/(y/2)/3 - -x",
    "normal_cdf(x)*log(y)/log(x + 3, 2) + root(y, 3)",
    "1e-300*x + 123456789012345678*y + 0.1",
    "5*x + 3",
    "x",
    "7",
    "x > y",
    "0*x + y",
    "(x > y) + (x < y)*2 + (not x == y)",
    "(x % 0.3) + hypot(x, y) + atan2(y, x)",
]


@pytest.mark.sampled
@EVERY
def test_formulas(tmp_path: Path, target: str) -> None:
    agree(target, tmp_path, FORMULAS, {"x": 0.3, "y": 1.7})


ARRAYS = [
    (
        "W: 2x3; v: 3; b: 2; sum(tanh(W @ v + b))",
        {"W": [[0.3, -1.2, 2], [0.5, 0.25, -0.75]], "v": [1, -2, 0.5], "b": [0.1, -0.2]},
    ),
    ("v: 3; w: 3; sum(v*softmax(w)) + logsumexp(v)", {"v": [1, 2, -3], "w": [0.5, 3, 2]}),
    ("v: 2; norm(v)*v[0] + s*mean(v)", {"v": [3, 4], "s": 2}),
    ("v: 2; norm(v)", {"v": [0, 0]}),
    ("v: 3; max(v) - min(v)*prod(v)", {"v": [2, -1, 2]}),
    ("M: 3x2; sum(transpose(M) @ M)*M[0, 1] + sum(M[1])", {"M": [[1, 2], [3, 4], [5, 6]]}),
    ("v: 2; w: 2; dot(v, w)*sum(outer(v, w)) + sum(concat(v, w)^2)", {"v": [2, -1], "w": [0.5, 3]}),
    ("v: 3; a = v*2; sum(where(a > 0, log(a), v)) + a[1]", {"v": [1, -2, 3]}),
]  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("target", ["python", "numpy", "js"])
@pytest.mark.parametrize(("text", "point"), ARRAYS, ids=[text for text, _ in ARRAYS])
def test_arrays_where_there_are_lists(tmp_path: Path, target: str, text: str, point: dict[str, Any]) -> None:
    f = parse(text)
    source = export(f, target, ExportOptions())
    if target == "js":
        (tmp_path / "f.mjs").write_text(source, encoding="utf-8")
        driver = f'import {{ f }} from "./f.mjs"; console.log(JSON.stringify(f({json.dumps(point)})));'
        (tmp_path / "run.mjs").write_text(driver, encoding="utf-8")
        found = json.loads(run([program("node", "nodejs"), tmp_path / "run.mjs"]))
        value, gradient = found["value"], found["gradient"]
    else:
        scope: dict[str, Any] = {}
        exec(source, scope)
        value, gradient = scope["f"](**point)
    expected, slopes = f.value_and_grad(point)
    assert value == pytest.approx(expected, rel=1e-13)
    assert gradient.keys() == slopes.keys()
    for name, slope in slopes.items():
        np.testing.assert_allclose(gradient[name], slope, rtol=1e-13, atol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["c", "fortran"])
def test_arrays_where_all_numbers_stand_in_a_row(tmp_path: Path, target: str) -> None:
    cases = []
    for k, (text, point) in enumerate(ARRAYS):
        f = parse(text)
        numbers = tuple(float(x) for name in f.variables for x in np.ravel(point[name]))
        cases.append(Case(export(f, target, ExportOptions(f"f{k}")), f"f{k}", f.variables, [numbers]))
    for (text, point), ((value, slopes),) in zip(ARRAYS, RUNNERS[target](cases, tmp_path), strict=True):
        expected, gradient = parse(text).value_and_grad(point)
        assert value == pytest.approx(expected, rel=1e-13)
        np.testing.assert_allclose(slopes, np.concatenate([np.ravel(s) for s in gradient.values()]), 1e-13, 1e-15)


@each(
    "options",
    [ExportOptions(), ExportOptions(gradient=False), ExportOptions(wrt=("z",)), ExportOptions(wrt=("z", "u"))],
)
def test_arrays_that_are_not_used_have_their_places_in_the_row(options: ExportOptions) -> None:
    formula = parse("u: 2; W: 2x3; g(t) = sum(u @ W)*t; exp(z)*y")
    assert "const double x[10]" in export(formula, "c", options)
    assert "const double z = x[8];" in export(formula, "c", options)
    assert "z = x(9)" in export(formula, "fortran", options)


def test_numpy_takes_arrays_of_points() -> None:
    f = parse("a*exp(-b*t) + gamma(b) + where(t > 1, a, 3)")
    scope: dict[str, Any] = {}
    exec(export(f, "numpy", ExportOptions()), scope)
    point = {"a": 2.0, "b": np.array([0.5, 1.5]), "t": np.array([[0.1], [2.0], [30.0]])}
    value, gradient = scope["f"](**point)
    expected, slopes = f.value_and_grad(point)
    np.testing.assert_allclose(value, expected, 1e-13)
    for name, slope in slopes.items():
        np.testing.assert_allclose(gradient[name], slope, 1e-13)
        assert gradient[name].shape == (3, 2)


SECOND = "a = x*y; where(x > 0, a^3, 1) + sinc(x) + max(x, y) + log(z)/y"
POINT = {"x": 0.3, "y": 1.7, "z": 0.9}


def test_names_of_fortran_differ_not_only_in_case() -> None:
    """Variables called like intermediate results, arguments or functions, in capital letters."""
    for names in (("T1", "T2", "F"), ("T4", "X", "Gradient"), ("VALUE", "Dp", "t5"), ("SIN", "T6", "T10")):
        text = "sin({0}*{2})*exp({0}*{2})/({1} + {0}*{2}) + {1}".format(*map(quote_name, names))
        source = export(parse(text, variables=names), "fortran", ExportOptions(hessian=True))
        code = "\n".join(line.partition("!")[0] for line in source.splitlines())
        words = {*re.findall(r"[A-Za-z_]\w*", code)}
        assert len({word.lower() for word in words}) == len(words), names


@pytest.mark.slow
def test_second_derivatives(tmp_path: Path) -> None:
    f = parse(SECOND)
    expected = f.hessian(POINT)
    for target in ("python", "numpy"):
        scope: dict[str, Any] = {}
        exec(export(f, target, ExportOptions(hessian=True)), scope)
        rows = scope["f"](**POINT)[2]
        np.testing.assert_allclose([[rows[a][b] for b in "xyz"] for a in "xyz"], expected, 1e-12)
    (tmp_path / "f.c").write_text(export(f, "c", ExportOptions(hessian=True)), encoding="utf-8")
    run([program("gcc", "gcc"), *STRICT, "-shared", "-fPIC", "-o", tmp_path / "c.so", tmp_path / "f.c", "-lm"])
    (tmp_path / "f.f90").write_text(export(f, "fortran", ExportOptions(hessian=True)), encoding="utf-8")
    run(
        [
            program("gfortran", "gfortran"),
            "-Wall",
            "-Werror",
            "-shared",
            "-fPIC",
            "-o",
            tmp_path / "f.so",
            tmp_path / "f.f90",
        ]
    )
    x, value, gradient = (ctypes.c_double * 3)(*POINT.values()), ctypes.c_double(), (ctypes.c_double * 3)()
    for library, name, arguments in (("c.so", "f", [x, gradient]), ("f.so", "f_", [x, ctypes.byref(value), gradient])):
        hessian = (ctypes.c_double * 9)()
        getattr(ctypes.CDLL(str(tmp_path / library)), name)(*arguments, hessian)
        np.testing.assert_allclose(np.reshape(hessian, (3, 3)), expected, 1e-12)


def test_second_derivatives_of_arrays() -> None:
    f = parse("v: 2; sum(v^3)*s + v[0]*v[1]")
    point = {"v": [2.0, 3.0], "s": 5.0}
    expected = f.hessian(point)
    for target in ("python", "numpy"):
        scope: dict[str, Any] = {}
        exec(export(f, target, ExportOptions(hessian=True)), scope)
        rows = scope["f"](**point)[2]
        np.testing.assert_allclose(rows["v"]["v"], expected[:2, :2])
        np.testing.assert_allclose(rows["v"]["s"], expected[:2, 2])
        np.testing.assert_allclose(rows["s"]["v"], expected[2, :2])


def test_only_requested_derivatives_are_exported(tmp_path: Path) -> None:
    f = parse("x*y*z")
    assert "gradient[1] = z*x_;" in (source := export(f, "c", ExportOptions(wrt=("z", "y"))))
    assert "double f(const double x[3], double gradient[2])" in source
    assert "In gradient, in this order: z; y." in source
    source = export(f, "c", ExportOptions("volume", gradient=False))
    assert "double volume(const double x[3])" in source
    assert "gradient" not in source
    (tmp_path / "volume.c").write_text(source, encoding="utf-8")
    run([program("gcc", "gcc"), *STRICT, "-c", "-o", tmp_path / "volume.o", tmp_path / "volume.c"])


@pytest.mark.slow
@EVERY
def test_size_and_time_grow_with_the_formula(target: str, tmp_path: Path) -> None:
    """2,400 operations, each used twice, would be endless if they were written out."""
    sizes = []
    for count in (600, 1200):
        statements = ["a0 = x"] + [f"a{k + 1} = sin(a{k})*a{k} + y" for k in range(count // 2)]
        f = parse("; ".join([*statements, f"a{count // 2}"]))
        sizes.append(len(export(f, target, ExportOptions())))
    assert sizes[1] < 2.1 * sizes[0]
    chain = "y"
    for k in range(1500):
        chain = f"x + {chain}" if k % 2 else f"cos({chain})"
    agree(target, tmp_path, [chain], {"x": 0.3, "y": 1.7}) if target in ("python", "js") else export(
        parse(chain), target, ExportOptions()
    )


def test_a_hessian_of_too_many_numbers_is_refused_with_the_limit() -> None:
    f = parse(" + ".join(f"x{k}^2" for k in range(300)))
    with pytest.raises(
        ExportError, match=rf"300 numbers .* at most {MAX_HESSIAN_SIZE} numbers: choose some with --wrt"
    ):
        export(f, "c", ExportOptions(hessian=True))
    assert "hessian[1][1]" in export(f, "c", ExportOptions(wrt=("x7", "x9"), hessian=True))


@each(
    ("target", "text", "message"),
    [
        ("torch", "gamma(x)", "PyTorch has no `gamma`; c, fortran, python, numpy, jax, js and latex have it"),
        ("jax", "Si(x) + erfi(y)", "JAX has no `Si` and no `erfi`; c, fortran, python, numpy, js and latex have them"),
    ],
)
def test_what_a_language_lacks_is_refused_by_name(target: str, text: str, message: str) -> None:
    with pytest.raises(ExportError) as error:
        export(parse(text), target, ExportOptions())
    assert str(error.value) == f"{message}: choose with --to"


@each("target", [t for t in EXPORTERS if t != "latex"])
@each("name", ["2x", "a b", "", "for", "x-y"])
def test_a_function_has_a_legal_name(target: str, name: str) -> None:
    if name == "for" and target == "fortran":
        return  # it has no reserved words
    with pytest.raises(ExportError, match="is not a legal name"):
        export(parse("x"), target, ExportOptions(name))


@EVERY
def test_comments_end_nothing(target: str, tmp_path: Path) -> None:
    """Names in backticks may have any characters in them."""
    strange = ["a */ b", 'c" + d', "e\\", "// g", '"""', "??/", "%s {x}", "! h", "'", "i j"]
    f = parse(" + ".join(f"`{name}`^2" for name in strange))
    case = Case(export(f, target, ExportOptions("f0")), "f0", f.variables, [tuple(range(1, len(strange) + 1))])
    ((value, slopes),) = RUNNERS[target]([case], tmp_path)[0]
    assert value == sum(k * k for k in range(1, len(strange) + 1))
    assert slopes == [2 * k for k in range(1, len(strange) + 1)]


@pytest.mark.parametrize(("target", "runner"), [("jax", in_jax), ("torch", in_torch)])
def test_frameworks_differentiate_formulas(tmp_path: Path, target: str, runner: Runner) -> None:
    texts = [text for text in FORMULAS if "gamma" not in text and text != "7"]
    formulas = [parse(text) for text in texts]
    cases = [
        Case(export(f, target, ExportOptions()), "f", f.variables, [(0.3, 1.7)[: len(f.variables)]]) for f in formulas
    ]
    for f, ((value, slopes),) in zip(formulas, runner(cases, tmp_path), strict=True):
        expected, gradient = f.value_and_grad(dict(zip(f.variables, (0.3, 1.7), strict=False)))
        assert [value, *slopes] == pytest.approx([expected, *gradient.values()], rel=1e-12)


class Tensor(float):
    """A number of a stand-in for PyTorch. Its functions refuse numbers where PyTorch does."""

    def __gt__(self, other: float) -> Any:
        return Tensor(float(self) > other)

    def reshape(self, shape: tuple[int, ...]) -> Tensor:
        assert shape == ()
        return self


def strict_torch() -> types.SimpleNamespace:
    def elements(parts: Sequence[Any]) -> np.ndarray:
        assert all(isinstance(part, (Tensor, np.ndarray)) for part in parts), parts
        return np.array(parts, dtype=float)

    def clamp(x: Any, low: Any, high: Any) -> Tensor:
        assert isinstance(x, Tensor)
        assert isinstance(low, Tensor) == isinstance(high, Tensor), (low, high)
        return Tensor(min(max(x, low), high))

    def tensor(x: Any, dtype: type) -> Any:
        return np.array(x, dtype) if isinstance(x, list) else Tensor(x)

    def as_tensor(x: Any, **_: Any) -> Tensor:
        return x if isinstance(x, Tensor) else Tensor(x)

    def where(condition: Any, a: Any, b: Any) -> Tensor:
        assert isinstance(condition, Tensor)
        return Tensor(a if condition else b)

    names = {"sum": np.sum, "float64": float, "inf": math.inf, "nan": math.nan}
    return types.SimpleNamespace(tensor=tensor, as_tensor=as_tensor, stack=elements, clamp=clamp, where=where, **names)


@each(
    "text",
    [
        "clip(x, 0, y)", "clip(x, y, 1)", "clip(1, x, y)", "clip(x, -1, 1)", "[1, x] @ [x, 2]",
        "[x > 0, -inf] @ [1, 0.5]", "sum([[1, 2], [x, 3]])", "sum([[1, -2.5], [1e-9, 3]] @ [x, 1])",
        "where(x > 0, 3, 2)^60*y", "where(1 > 0, x, y)", "where(2 > 3, x, 1) + y*where(0, 1, 2)",
    ],
)  # fmt: skip
def test_pytorch_gets_tensors_where_it_takes_no_numbers(text: str) -> None:
    f = parse(text)
    source = export(f, "torch")
    scope: dict[str, Any] = {"torch": strict_torch()}
    exec(source.replace("import torch", ""), scope)
    point = {name: {"x": 0.25, "y": 0.5}[name] for name in f.variables}
    assert float(scope["f"](*point.values())) == pytest.approx(f(point)), source


@each(
    ("text", "x"), [("asec(x)", -1 - 1e-12), ("asech(x)", 1 - 1e-12), ("asech(x)", 1e-310), ("logit(x)", 0.5 + 1e-12)]
)
def test_values_of_frameworks_do_not_cancel(text: str, x: float) -> None:
    f = parse(text)
    scope: dict[str, Any] = {}
    with np.errstate(all="ignore"):  # of branches that are not taken
        exec(export(f, "jax").replace("jax.numpy", "numpy"), scope)
        assert float(scope["f"](np.float64(x))) == pytest.approx(f(x=x), rel=1e-12)


def test_numbers_of_choices_and_arrays_are_floats_in_numpy(tmp_path: Path) -> None:
    """Integers would overflow."""
    texts = ["where(x > 0, 3, 2)^60*y", "[[10, -2.5], [1e-9, 3]] @ [x, y] @ [1, 7]^30", "max([10, 3])^30*x"]
    agree("numpy", tmp_path, texts, {"x": 1.5, "y": 0.5})
    assert "np.array([[10, -2.5], [1e-9, 3]], dtype=float)" in export(parse(texts[1]), "numpy")


@pytest.mark.parametrize("target", ["python", "numpy"])
def test_functions_of_constants_are_real_numbers_in_python(target: str) -> None:
    """Python raises an error for 0.0**-1.0, and (-1.0)**0.5 is complex: definitions of functions must meet neither."""
    scope: dict[str, Any] = {}
    x = variable("x")
    for op in [op for op in ELEMENTWISE if not op.is_helper]:
        points = [*product((-1, 0, 0.5), repeat=min(op.min_inputs, 3))]
        for numbers in points[:: amount(5, 1, 1) if len(points) > 9 else 1]:
            inputs = [constant(number) for number in (*numbers, *[0.5] * (op.min_inputs - len(numbers)))]
            formula = Formula(op(*inputs) + x, {"x": x})
            exec(export(formula, target), scope)
            found, expected = float(scope["f"](1.5)[0]), formula(x=1.5)
            assert found == pytest.approx(expected, rel=1e-14, nan_ok=True), f"{op.name}{numbers}"


@each("text", ["max([sqrt(x), log(y)])", "min([sqrt(x), log(y), x/y])", "max(sqrt([x, y]))", "min(1/[x, y])"])
def test_guarded_elements_leave_the_value_as_it_is(text: str) -> None:
    f = parse(text)
    tape = Tape(EXPORTERS["jax"].graph_pass([f.output], {}))
    for x, y in product([0.25, 1.0, 4.0], repeat=2):
        values = forward(tape, arrays.ARRAYS, {"x": np.array([x]), "y": np.array([y])})
        assert values[tape.outputs[0]] == pytest.approx(f(x=x, y=y))


# --- LaTeX


@each(
    ("text", "parts"),
    [
        ("v: 3; dot(v, v) + sum(v)", [r"v^{\mathsf{T}} \, v", r"\sum v", r"2 \, v + \mathbf{1}"]),
        ("M: 2x2; M[0, 1]*M[1, 0]", [r"M_{1, 0} \, \mathbf{E}_{0, 1}"]),
        ("v: 3; v[0]^2", [r"2 \, v_{0} \, \mathbf{e}_{0}"]),
        ("W: 2x3; x: 3; sum(W @ x)", [r"\mathbf{1} \, x^{\mathsf{T}}", r"W^{\mathsf{T}} \, \mathbf{1}"]),
    ],
)
def test_latex_sets_arrays_as_people_write_them(text: str, parts: list[str]) -> None:
    source = export(parse(text), "latex")
    assert all(part in source for part in parts), source
    assert "operatorname" not in source


def test_the_value_alone_may_be_an_array() -> None:
    polar = parse("[[r*cos(t), r*sin(t)], [r, t]]")
    alone = ExportOptions(gradient=False)
    scope: dict[str, Any] = {}
    exec(export(polar, "python", alone), scope)
    assert scope["f"](2.0, 0.5) == polar(r=2.0, t=0.5).tolist()
    assert "void f(const double x[2], double value[4])" in export(polar, "c", alone)
    assert "real(dp), intent(out) :: value(4)" in export(polar, "fortran", alone)
    assert "\n// In value: 2x2, row by row.\n" in export(polar, "c", alone)
    assert "In value" not in export(parse("[r, 2*r]"), "c", alone)
    with pytest.raises(ValueError, match="only a number has a gradient"):
        export(polar, "c")


def test_latex_sets_formulas_as_people_write_them() -> None:
    source = export(parse("a*exp(-b*t^2) + sqrt(x₁)/Δ"), "latex", ExportOptions(wrt=("b", "x₁")))
    assert source.splitlines()[1:] == [
        r"\begin{align*}",
        r"f\left(a, b, t, x_{1}, \Delta\right) &= a \, e^{-b \, t^{2}} + \frac{\sqrt{x_{1}}}{\Delta} \\",
        r"\frac{\partial f}{\partial b} &= -a \, t^{2} \, e^{-b \, t^{2}} \\",
        r"\frac{\partial f}{\partial x_{1}} &= \frac{1}{2 \, \Delta \, \sqrt{x_{1}}}",
        r"\end{align*}",
    ]


@each("text", [*FORMULAS, *(text for text, _ in ARRAYS), SECOND])
def test_latex_is_balanced(text: str) -> None:
    source = export(parse(text), "latex", ExportOptions(hessian=": " not in text))
    assert source.count("{") == source.count("}")
    assert len(re.findall(r"\\left\b", source)) == len(re.findall(r"\\right\b", source))
    assert source.count(r"\begin{") == source.count(r"\end{")


@each("seed", range(20))
def test_different_names_are_different_symbols_in_latex(seed: int) -> None:
    chance = Random(seed)
    stems = ["t", "f", "x", "λ", "lambda", "Λ", "e", "rate", "a b", "ab", "é", "τ"]
    names = {stem + place + digit for stem in stems for place in ("", "_", ".") for digit in ("", "1", "₁", " 1", "_b")}
    chosen = [quote_name(name) for name in chance.sample(sorted(names), 40)]
    sums = [" + ".join(chance.sample(chosen, 12)) for _ in range(2)]
    product = f"({sums[0]})^2*sin({sums[0]})*cos({sums[1]})*exp({sums[1]}) + e*tau"  # its sums get symbols of their own
    variables = ["e"] if chance.random() < 0.5 else []
    source = export(parse(f"{product} + {' + '.join(chosen)}", variables=variables), "latex", ExportOptions(wrt=()))
    arguments = source[source.index("(", source.index("f\\left")) + 1 : source.index(r"\right")].split(", ")
    defined = re.findall(r"^(t_\{\d+\}) &=", source, re.MULTILINE)
    symbols = [symbol.replace(" ", "") for symbol in ["f", "e", r"\tau", *arguments, *defined]]
    assert defined
    assert len({*symbols}) == len(symbols), source


@each(
    "texts",
    [("A*B", "A @ B"), ("A^2", "A @ A"), ("A*A^2", "A @ A^2"), ("where(A > 1, A*B, A)", "where(A > 1, A @ B, A)")],
)
def test_products_of_matrices_and_of_their_elements_differ_in_latex(texts: tuple[str, str]) -> None:
    formulas = [parse(f"A: 2x2; B: 2x2; sum({text}*B)") for text in texts]
    point = {"A": np.array([[1.0, 2.0], [3.0, 4.0]]), "B": np.array([[2.0, 0.5], [1.0, 3.0]])}
    exported = [export(formula, "latex", ExportOptions(wrt=())).partition("&=")[2] for formula in formulas]
    typeset = [formula._repr_latex_() for formula in formulas]
    on_pages = [panels_document(formula.trace(point))["latex"]["formula"] for formula in formulas]
    for first, second in (exported, typeset, on_pages):
        assert first != second


@pytest.mark.slow
def test_latex_compiles(tmp_path: Path) -> None:
    body = "".join(export(parse(text), "latex", ExportOptions()) for text in [*FORMULAS, *(text for text, _ in ARRAYS)])
    document = rf"\documentclass{{article}}\usepackage{{amsmath,amssymb}}\begin{{document}}{body}\end{{document}}"
    (tmp_path / "f.tex").write_text(document, encoding="utf-8")
    command = [program("pdflatex", "texlive-latex-base"), "-interaction=nonstopmode", "-halt-on-error", "f.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.slow
def test_latex_of_names_in_any_script_compiles_with_amsmath_alone(tmp_path: Path) -> None:
    names = [
        "Λ",
        "данные",
        "名前",
        "é",
        "Å",
        "ß",
        "Temp [°C]",
        "a&b",
        "x%y",
        "# n",
        "$ price",
        "a\\b",
        "{",
        "}",
        "~",
        "^x",
    ]
    names += ["ñandú", "שלום", "θ_ж", "ø", "ﬁ", "한글", "x'", "_", "x_", "ϕ", "½", "%", "\u200bz"]
    texts = [f"sin({quote_name(name)})*{quote_name(name)}^2 + y" for name in names]
    body = "".join(export(parse(text), "latex", ExportOptions()) for text in texts)
    document = rf"\documentclass{{article}}\usepackage{{amsmath}}\begin{{document}}{body}\end{{document}}"
    (tmp_path / "f.tex").write_text(document, encoding="utf-8")
    command = [program("pdflatex", "texlive-latex-base"), "-interaction=nonstopmode", "-halt-on-error", "f.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    assert "invalid in math mode" not in done.stdout


def test_what_is_not_finite_anywhere_is_written_as_such(tmp_path: Path) -> None:
    """Compilers refuse to compute it, and Python raises."""
    for target in RUNNERS:
        f = parse("x + log(0) + 1/0 - 1/0 + acot(0) + log(2, 0) + atan2(0, 0)")
        case = Case(export(f, target, ExportOptions("f0")), "f0", ("x",), [(1.0,)])
        ((value, slopes),) = RUNNERS[target]([case], tmp_path)[0]
        assert math.isnan(value)
        assert slopes == [1.0]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["c", "fortran", "python"])
def test_constant_parts_at_poles_and_edges_compile(target: str, tmp_path: Path) -> None:
    """Compilers refuse log(0) and 1/0, also within a definition: `acot(0)` is atan(1/0)."""
    x = output = variable("x")
    for op in ELEMENTWISE:
        for values in product(["0", "1", "inf"], repeat=min(op.min_inputs, 2)):
            part = op(*map(constant, (*values, *["2"] * (op.min_inputs - 2))))
            if is_exported(Expression(x + part, {"x": x}), target):
                output = output + part
    case = Case(export(Expression(output, {"x": x}), target, ExportOptions("f0")), "f0", ("x",), [(1.0,)])
    ((value, slopes),) = RUNNERS[target]([case], tmp_path)[0]
    assert math.isnan(value)
    assert slopes == [1.0]


@EVERY
def test_constants_within_definitions_compile(tmp_path: Path, target: str) -> None:
    """Fortran refuses powers of negative numbers, and the logarithm of 0 also in a branch that is not taken."""
    texts = [
        "(-2)^(-2) + x",
        "(-0.5)^(-3)*x",
        "normal_logpdf(x, 0, 0)",
        "cauchy_logpdf(x, 0, 0)",
        "weibull_sf(x, 0, 0)",
    ]
    formulas = [parse(text) for text in texts]
    cases = [Case(export(f, target, ExportOptions(f"f{k}")), f"f{k}", ("x",), [(0.7,)]) for k, f in enumerate(formulas)]
    for f, ((value, slopes),) in zip(formulas, RUNNERS[target](cases, tmp_path), strict=True):
        wanted, gradient = f.value_and_grad(x=0.7)
        np.testing.assert_allclose([value, *slopes], [wanted, *gradient.values()], rtol=1e-13)


def is_exported(f: Expression, target: str) -> bool:
    """Whether a language has all operations of a formula."""
    try:
        return bool(export(f, target))
    except ExportError:
        return False


@pytest.mark.slow
@pytest.mark.sampled
@EVERY
def test_constants_of_any_size(tmp_path: Path, target: str) -> None:
    texts = [f"{digits}e{exponent}*x" for digits in (1, 25, 10**25) for exponent in (-400, -324, -1, 0, 290, 308, 400)]
    agree(target, tmp_path, [*texts, "x + 1e400", "x/1e400", "2e308 - x"], {"x": 1.5})


EXTREMES = [
    "x*(1e-10*y)", "y*(1e-5*(x*1e-5))", "0*x", "x*0 + y", "0/x", "0/y + x", "0*log(x)", "0/0 + x", "-0.0/x",
    "1/(x*-0.0)", "atan2(y, -0.0)", "where(-0.0/-0.0 <= x, x, y)", "where(not (1 < 2) or x < y, x^2, y)",
    "norm([x, y])", "logsumexp([x, y])", "1/max(x, y)", "1/min(x, y, 0)", "1/max(0, -x)", "1/clip(x, 0, y)",
    "max(x, nan)", "max(nan, x, 1)", "max(x, 0/0) + y",
]  # fmt: skip


def test_a_negative_zero_is_exported_as_one() -> None:
    made: dict[str, Any] = {}
    exec(export(parse("atan2(y, -0)"), "python", ExportOptions("f")), made)  # our own source
    assert made["f"](0.0)[0] == math.pi


@pytest.mark.sampled
@EVERY
def test_zeros_and_numbers_of_all_sizes_have_what_grad_has(tmp_path: Path, target: str) -> None:
    """Nothing overflows, underflows or vanishes that does not in `grad`, and 0/0 is not 0."""
    numbers = [0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, 1e200, -1e105, 1e-300]
    formulas = [parse(text) for text in EXTREMES]
    cases = [
        Case(
            export(f, target, ExportOptions(f"f{k}")),
            f"f{k}",
            f.variables,
            [*product(numbers, repeat=len(f.variables))],
        )
        for k, f in enumerate(formulas)
    ]
    for f, case, results in zip(formulas, cases, RUNNERS[target](cases, tmp_path), strict=True):
        for point, (value, slopes) in zip(case.points, results, strict=True):
            wanted, gradient = f.value_and_grad(dict(zip(f.variables, point, strict=True)))
            pairs = zip([value, *slopes], [wanted, *gradient.values()], strict=True)
            assert all(close(*pair) for pair in pairs), (str(f), point, value, slopes, wanted, gradient)


# Products and quotients that could be combined, contributions that cancel exactly, and slopes that are small numbers.
CHAINS = [
    "x/y/y", "x*y*x/y", "x/(y/x)", "1/x/y", "(1/y)*x*x", "x^2/y", "x^-1/y", "x/1e300/y", "x*0.5*y*4", "log(x/y)",
    "y*(x/x)", "x*(y*x)^-1", "tan((y/x)/x^-1)", "y - (1e160*x)/x", "(x/y)^1.5/x",
    "elu(tanh(lgamma(x)))*y", "tanh(x)*y/1e-300", "sech(x)*y/1e-300", "silu(x)*y/1e-300", "y*atan(x)/1e-300",
    "mish(x)*y/1e-300", "gelu(x) - y", "(x/1e-5)*(y/x)", "x*(0.1*3) - y*(0.1 + 0.2)",
]  # fmt: skip
MAGNITUDES = [
    5e-324, -1e-320, 2.3e-308, 3e-200, -1e-155, -1e-100, 0.0266, 1.5, -356.0, 705.0, -720.0, 5678.9, -1e100, 3e160,
    1e200, 1.7e308, math.inf, -math.inf,
]  # fmt: skip


@pytest.mark.sampled
@EVERY
def test_programs_have_what_grad_has_at_numbers_of_all_sizes(tmp_path: Path, target: str) -> None:
    """Except for numbers that `grad` corrects in a warning, and for the last bit of powers in JavaScript."""
    formulas = [parse(text) for text in evenly_spread_part(CHAINS)]
    points = evenly_spread_part([*product(MAGNITUDES, repeat=2)])
    cases = [
        Case(export(f, target, ExportOptions(f"f{k}")), f"f{k}", f.variables, points) for k, f in enumerate(formulas)
    ]
    for f, results in zip(formulas, RUNNERS[target](cases, tmp_path), strict=True):
        for point, (value, slopes) in zip(points, results, strict=True):
            at = trace(f, dict(zip(f.variables, point, strict=True)))
            corrected = {name for warning in at.warnings for name in warning.right}
            found = {"value": value, **dict(zip(f.variables, slopes, strict=True))}
            amounts = [given.amount for several in at.contributions for given in several]
            rounding = math.ulp(max(filter(math.isfinite, map(abs, amounts)), default=0.0)) if target == "js" else 0.0
            for name, wanted in {"value": at.value, **at.gradient}.items():
                is_same = name in corrected or close(found[name], wanted, 1e-12, rounding)
                assert is_same, (str(f), point, name, found[name], wanted)


def _of_whole_numbers(chance: Random, depth: int) -> str:
    """A formula of x and whole numbers, small and large."""
    if not depth or chance.random() < 0.1:
        return chance.choice(["x", "0", "1", "2", "3", "4000000000", "2^40"])
    a, b, c = (_of_whole_numbers(chance, depth - 1) for _ in range(3))
    forms = ["{a} + {b}", "{a}*{b}", "({a})^-1", "({a})^9", "-{a}", "max({a}, {b})", "abs({a})", "sign({a})/{b}"]
    forms += [
        "where({a} > {b}, {b}, {c})",
        "where(not ({a} > {b}) and {c} < 2, {b}, {c})",
        "where({a} > {b} or {c} < 2, {b}, {c})",
        "where(({a} > {b} or not {c} < 2) and ({b} < 2 or {a} < 1 and {c} > {b}), {b}, {c})",
        "floor({a}) - min({b}, {c})",
    ]
    return f"({chance.choice(forms).format(a=a, b=b, c=c)})"


@pytest.mark.slow
@pytest.mark.parametrize("target", ["python", "numpy"])
def test_whole_numbers_are_floats(tmp_path: Path, target: str) -> None:
    """NumPy makes arrays of integers of numbers alone, which overflow and have no power of -1; ~True is -2."""
    chance = Random(1)
    texts = [f"x + {_of_whole_numbers(chance, 3)}" for _ in range(150)]
    formulas = [parse(text) for text in texts]
    points = [(x,) for x in (-3.0, 0.0, 2.0)]
    cases = [Case(export(f, target, ExportOptions(f"f{k}")), f"f{k}", ("x",), points) for k, f in enumerate(formulas)]
    for f, case, results in zip(formulas, cases, RUNNERS[target](cases, tmp_path), strict=True):
        for (x,), (value, (slope,)) in zip(points, results, strict=True):
            wanted, gradient = f.value_and_grad(x=x)
            pairs = [(value, wanted), (slope, gradient["x"])]
            pairs = [(abs(a), abs(b)) if math.isinf(b) else (a, b) for a, b in pairs]  # a zero may have the other sign
            assert all(close(*pair) for pair in pairs), (str(f), x, pairs, case.source)


@pytest.mark.parametrize("target", EXPORTERS)
def test_no_language_gets_brackets_that_it_does_not_need(target: str) -> None:
    source = export(parse("a + b*c - c*a"), target, ExportOptions(gradient=False))
    (formula,) = re.findall(r"(?:return|value:|value =|&=) (a \+ .*)", source)
    assert "(" not in formula


def test_a_formula_without_variables_says_that_its_gradient_is_empty() -> None:
    for text, is_empty in (("pi", True), ("x^2", False)):
        source = run_cli(["export", text, "--to", "fortran"])
        assert ("there is nothing in it" in source) == ("x is not used" in source) == is_empty


def test_latex_has_the_value_of_constants_that_are_not_floats() -> None:
    """A float would be infinite or 0, and the formula is not."""
    text = export(parse("x/1E+0400 + 0e9*x + 2e-400"), "latex", ExportOptions(gradient=False))
    assert r"\frac{x}{1 \cdot 10^{400}} + 0 \, x + 2 \cdot 10^{-400}" in text


def test_expressions_without_source_are_exported_too() -> None:
    f = parse("x^2*sin(y)").derivative("x")
    assert isinstance(f, Expression)
    assert "return { value, gradient };" in export(f, "js", ExportOptions())


def test_jax_differentiates_drawn_formulas(tmp_path: Path) -> None:
    """JAX loses some digits where slopes cancel, and follows its own conventions at kinks."""
    formulas, cases = [], []
    for drawn in (grammar.case(seed, arrays=False, beyond=False) for seed in range(amount(70, 200, 200))):
        f = parse(drawn.text)
        traced = f.trace(drawn.point)
        if traced.warnings or not all(map(math.isfinite, (traced.value, *traced.gradient.values()))):
            continue
        with contextlib.suppress(ExportError):
            source = export(f, "jax", ExportOptions())
            cases.append(Case(source, "f", f.variables, [tuple(float(drawn.point[name]) for name in f.variables)]))
            formulas.append((drawn, traced))
    assert len(cases) > amount(20, 60, 60)
    for (drawn, traced), ((value, slopes),) in zip(formulas, in_jax(cases, tmp_path), strict=True):
        assert close(value, traced.value, 1e-11, 1e-14), str(drawn)
        for slope, (name, expected) in zip(slopes, traced.gradient.items(), strict=True):
            scale = abs(traced.value) / max(abs(drawn.point[name]), 1e-300)
            assert close(slope, expected, 1e-9, 1e-13 * scale), f"{name} of {drawn}"


JAX_TEXTS = {
    "7": {},
    "x - x": {"x": 2.5},
    "polygamma(1, 1/pi) + x": {"x": 1},
    "beta(x, y)": {"x": 0.5, "y": 9.75},
    "beta(y, x)": {"x": 60, "y": 70},
    "beta(-0.5, x)": {"x": 150},
    "student_t_logpdf(x, y)": {"x": 0.7, "y": 25},
    "exponential_logpdf(x, y)": {"x": -3, "y": 2},
    "half_cauchy_logpdf(x, y)": {"x": -1, "y": 0.3},
    "lognormal_logpdf(x, y, z)": {"x": -1, "y": 0.3, "z": 2},
}


def test_jax_has_the_values_and_slopes_of_grad(tmp_path: Path) -> None:
    formulas = {text: parse(text) for text in JAX_TEXTS}
    cases = [
        Case(export(f, "jax"), "f", f.variables, [tuple(JAX_TEXTS[text][name] for name in f.variables)])
        for text, f in formulas.items()
    ]
    for (text, f), ((value, slopes),) in zip(formulas.items(), in_jax(cases, tmp_path), strict=True):
        expected, gradient = f.value_and_grad(JAX_TEXTS[text])
        assert [value, *slopes] == pytest.approx([expected, *gradient.values()], rel=1e-12), text


def test_jax_source_avoids_what_jax_does_inaccurately() -> None:
    assert "return 7.0\n" in export(parse("7"), "jax")
    assert "special.beta(" not in export(parse("beta(x, y)"), "jax")
    assert "polygamma(1, " in export(parse("polygamma(1, 1/pi)"), "jax")
    f = parse("lognormal_logpdf(x, m, 1)")
    assert f(x=-1, m=0) == -math.inf
    assert math.isnan(f(x=-1, m=math.nan))

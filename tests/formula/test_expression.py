"""`Expression`, as it is used from Python."""

from __future__ import annotations

import array
import copy
import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.formula.derivatives import select_outputs
from tests.each import each


def test_the_first_example() -> None:
    f = ad.parse("x*y + sin(x)")
    assert f.variables == ("x", "y")
    assert f(x=2, y=3) == f.value({"x": 2, "y": 3}) == 6.909297426825682
    assert f.grad(x=2, y=3) == {"x": 2.5838531634528574, "y": 2.0}
    assert f.value_and_grad({"x": 2, "y": 3}) == (6.909297426825682, {"x": 2.5838531634528574, "y": 2.0})
    assert isinstance(f(x=np.float32(2), y=np.int64(3)), float)


WORKED = [
    ("(w*x + b - t)^2", {"x": 2, "w": 3, "b": 1, "t": 5}, 4, {"w": 8, "b": 4, "x": 12, "t": -4}),
    ("a*b + c", {"a": 2, "b": 3, "c": 10}, 16, {"a": 3, "b": 2, "c": 1}),
    ("a*b + a", {"a": 2, "b": 3}, 8, {"a": 4, "b": 2}),
    ("a = x + y; b = x - y; a*b", {"x": 3, "y": 2}, 5, {"x": 6, "y": -4}),
    ("log(sigmoid(w*x + b))", {"w": 2, "x": 1, "b": -1}, math.log(1 / (1 + math.exp(-1))),
     {"w": 1 / (1 + math.e), "x": 2 / (1 + math.e), "b": 1 / (1 + math.e)}),
    ("tanh(a*b)", {"a": 2, "b": 3}, math.tanh(6), {"a": 3 / math.cosh(6) ** 2, "b": 2 / math.cosh(6) ** 2}),
    ("3*x^2 + 2*x + 1", {"x": 2}, 17, {"x": 14}),
    ("(w*x + b)^2", {"x": 3, "w": 2, "b": 1}, 49, {"w": 42, "b": 14, "x": 28}),
    ("max(x, y)", {"x": 2, "y": 1}, 2, {"x": 1, "y": 0}),
    ("max(x, y)", {"x": 1, "y": 1}, 1, {"x": 0.5, "y": 0.5}),
    ("relu(x)", {"x": 2}, 2, {"x": 1}),
    ("relu(x)", {"x": -2}, 0, {"x": 0}),
    ("relu(x)", {"x": 0}, 0, {"x": 0}),
    ("x^n", {"x": -2, "n": 3}, -8, {"x": 12, "n": math.nan}),
]  # fmt: skip


@each(("text", "point", "value", "gradient"), WORKED)
def test_worked_examples(text: str, point: dict[str, float], value: float, gradient: dict[str, float]) -> None:
    found = ad.parse(text).value_and_grad(point)
    assert found[0] == pytest.approx(value, rel=1e-15)
    assert found[1] == pytest.approx(gradient, rel=4e-15, nan_ok=True)


def test_what_is_wrong_with_values() -> None:
    f = ad.parse("x*y")
    with pytest.raises(ad.MissingValueError, match="`y`"):
        f(x=1)
    with pytest.raises(ad.UnknownNameError, match="`speed`"):
        ad.parse("sped*x").grad(sped=1, x=1, speed=2)
    assert issubclass(ad.MissingValueError, ad.ExpressionError)
    assert issubclass(ad.ExpressionError, ValueError)


def test_a_text_that_cannot_be_read() -> None:
    with pytest.raises(ad.ExpressionError) as caught:
        ad.parse("x + \n  2y")
    assert (caught.value.line, caught.value.column) == (2, 4)
    assert "^" in str(caught.value)
    with pytest.raises(ad.ExpressionError, match="makes a model"):
        ad.parse("y ~ a*x")


def test_constants_are_variables_only_if_declared() -> None:
    assert ad.parse("e*x").variables == ("x",)
    assert ad.parse("e*x", variables=["e"])(e=2, x=3) == 6


def test_a_constant_has_no_gradient() -> None:
    assert ad.parse("2 + 3").value_and_grad() == (5.0, {})
    assert ad.parse("sum([1, 2])").hessian().shape == (0, 0)


def test_outside_the_domain_is_nan_and_nothing_is_raised() -> None:
    assert math.isnan(ad.parse("log(x)")(x=-1))
    assert ad.parse("1/x")(x=0) == math.inf
    assert np.isnan(ad.parse("log(x)")(x=np.array([-1.0]))).all()


# --- arrays as batches


def test_arrays_for_numbers_are_a_batch() -> None:
    f = ad.parse("x*y + sin(x)")
    xs, ys = np.linspace(-2, 2, 5)[:, None], np.array([1.0, 2.0, 3.0])
    value, gradient = f.value_and_grad(x=xs, y=ys)
    assert value.shape == gradient["x"].shape == gradient["y"].shape == (5, 3)
    for i in range(5):
        for j in range(3):
            one = f.value_and_grad(x=xs[i, 0], y=ys[j])
            assert value[i, j] == pytest.approx(one[0], rel=1e-15)
            assert gradient["x"][i, j] == pytest.approx(one[1]["x"], rel=1e-15)
    assert f(x=[1, 2], y=1).tolist() == pytest.approx([f(x=1, y=1), f(x=2, y=1)])
    assert f(x=np.zeros((0,)), y=1).shape == (0,)


def test_a_slope_that_depends_on_nothing_still_has_one_element_per_point() -> None:
    assert ad.parse("2*x").grad(x=np.arange(3.0))["x"].tolist() == [2.0, 2.0, 2.0]


def test_more_rows_than_a_block() -> None:
    xs = np.linspace(0, 1, 20_001)
    value, gradient = ad.parse("exp(-x)*x").value_and_grad(x=xs)
    np.testing.assert_allclose(value, np.exp(-xs) * xs, rtol=1e-15)
    np.testing.assert_allclose(gradient["x"], np.exp(-xs) * (1 - xs), rtol=1e-12, atol=1e-15)


# --- arrays as values


def test_the_gradient_towards_an_array_has_its_shape() -> None:
    f = ad.parse("sum((W @ x + b)^2)")
    w, x, b = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.array([1.0, 0.0, -1.0]), np.array([0.5, -0.5])
    value, gradient = f.value_and_grad(W=w, x=x, b=b)
    residual = w @ x + b
    assert value == pytest.approx(np.sum(residual**2))
    np.testing.assert_allclose(gradient["W"], 2 * np.outer(residual, x))
    np.testing.assert_allclose(gradient["x"], 2 * w.T @ residual)
    np.testing.assert_allclose(gradient["b"], 2 * residual)


def test_a_declared_shape_with_an_axis_in_front_is_a_batch() -> None:
    f = ad.parse("v: 3; sum(v^2)*s")
    value, gradient = f.value_and_grad(v=np.arange(6.0).reshape(2, 3), s=2.0)
    assert value.tolist() == [10.0, 100.0]
    np.testing.assert_allclose(gradient["v"], 4 * np.arange(6.0).reshape(2, 3))
    assert gradient["s"].tolist() == [5.0, 50.0]


def test_an_array_beside_an_array_is_one_point_if_it_fits() -> None:
    f = ad.parse("W: 2x2; sum(relu(W @ x + b))")
    w = np.eye(2)
    assert f.grad(W=w, x=[1.0, 2.0], b=[1.0, -5.0])["b"].tolist() == [1.0, 0.0]
    assert f(W=w, x=[1.0, 2.0], b=np.arange(5.0)).tolist() == [3.0, 5.0, 7.0, 9.0, 11.0]


@each(
    ("text", "count"),
    itertools.product(
        ["w: 2; min(z - w)", "w: 2; sum(w*z)", "w: 2; z*sum(w)", "w: 2; sum(w*[z, 1])/z", "A: 2x3; max(A/z) - z"],
        [1, 2, 3, 4],
    ),
)
def test_a_batch_of_arrays_and_numbers_has_the_numbers_of_its_points_or_is_refused(text: str, count: int) -> None:
    f, random = ad.parse(text), np.random.default_rng(count)
    batch = {name: random.normal(size=(count, *f.shapes.get(name, ()))) for name in f.variables}
    points = [{name: numbers[k] for name, numbers in batch.items()} for k in range(count)]
    try:
        value, gradient = f.value_and_grad(batch)
    except ad.ExpressionError:  # as many as an axis of the array has
        with pytest.raises(ad.ExpressionError, match="`z` may be an array, or a number for each point") as refused:
            f(batch)
        assert refused.value.suggestion == f"z: {count}; {text}"
        return
    np.testing.assert_allclose(value, [f(point) for point in points])
    for name, slopes in gradient.items():
        np.testing.assert_allclose(slopes, [f.grad(point)[name] for point in points])


def test_a_batch_inside_an_array() -> None:
    value = ad.parse("[x, 2*x]")(x=np.arange(4.0))
    assert value.tolist() == [[0, 0], [1, 2], [2, 4], [3, 6]]


@each(
    ("text", "point", "message"),
    [
        ("sum(W @ x)", {"W": [[1, 2]], "x": [1, 2, 3]}, "1x2 @ 3"),
        ("v: 3; v[3]", {"v": [1, 2, 3]}, "index 3 is out of range"),
        ("v: 3; sum(v)", {"v": [1, 2]}, "`v` is declared with the shape 3, but its value has the shape 2"),
        ("v: 3; sum(v)", {"v": 2.0}, "`v` is declared with the shape 3, but its value is a number"),
        ("dot(v, w)", {"v": [1, 2], "w": [1, 2, 3]}, "2 and 3"),
    ],
)
def test_shapes_that_do_not_fit(text: str, point: dict[str, list[float]], message: str) -> None:
    with pytest.raises(ad.ExpressionError, match=message):
        ad.parse(text)(point)


def test_a_trace_of_a_batch_of_arrays_is_refused() -> None:
    with pytest.raises(ad.ExpressionError, match=r"declared with the shape 2, but its value has the shape 3x2$"):
        ad.parse("v: 2; sum(v)").trace(v=np.ones((3, 2)))


def test_the_jacobian_of_a_number_is_its_gradient() -> None:
    found = ad.parse("x*y^2").jacobian(x=2, y=3)
    assert found == {"x": 9.0, "y": 12.0}
    assert all(type(slope) is float for slope in found.values())


def test_an_array_has_no_gradient_but_a_jacobian() -> None:
    f = ad.parse("[x*y, x + y]")
    with pytest.raises(ad.ExpressionError, match="array of shape 2"):
        f.grad(x=2, y=3)
    jacobian = f.jacobian(x=2, y=3)
    assert jacobian["x"].tolist() == [3, 1]
    assert jacobian["y"].tolist() == [2, 1]
    by_vector = ad.parse("W @ v").jacobian(W=[[1.0, 2.0], [3.0, 4.0]], v=[5.0, 6.0])
    assert by_vector["v"].tolist() == [[1, 2], [3, 4]]
    assert by_vector["W"].tolist() == [[[5, 6], [0, 0]], [[0, 0], [5, 6]]]


# --- higher orders


def test_the_directional_derivative() -> None:
    f = ad.parse("x*y + sin(x)")
    value, slope = f.jvp({"x": 1.0, "y": 2.0}, x=2, y=3)
    assert (value, slope) == pytest.approx((f(x=2, y=3), 2.5838531634528574 + 2 * 2.0))
    assert f.jvp({}, x=2, y=3)[1] == 0.0
    for text in ("x^y", "sum([x^y, x])"):  # no derivative towards y at 0
        slopes = [ad.parse(text).jvp(direction, x=0, y=0)[1] for direction in ({"x": 1}, {"x": 1, "y": 0})]
        assert slopes[0] == slopes[1]
    with pytest.raises(ad.UnknownNameError, match="`z`"):
        f.jvp({"z": 1.0}, x=2, y=3)


def test_the_hessian_and_its_products() -> None:
    f = ad.parse("x^2*y + exp(x*y)")
    x, y = 0.5, -1.25
    growth = math.exp(x * y)
    expected = np.array(
        [[2 * y + y * y * growth, 2 * x + growth + x * y * growth], [2 * x + growth + x * y * growth, x * x * growth]]
    )
    np.testing.assert_allclose(f.hessian(x=x, y=y), expected, rtol=1e-14)
    product = f.hvp({"x": 2.0, "y": -1.0}, x=x, y=y)
    np.testing.assert_allclose([product["x"], product["y"]], expected @ [2.0, -1.0], rtol=1e-14)


@each(("expression", "second"), [("expm1(x)", math.exp(709.78)), ("x^2*8e307", 1.6e308), ("x^2*2.5e-323", 5e-323)])
def test_the_hessian_at_the_ends_of_the_range_of_floats(expression: str, second: float) -> None:
    assert ad.parse(expression).hessian(x=709.78) == pytest.approx(second, rel=1e-13)


def test_the_hessian_counts_the_elements_of_arrays() -> None:
    f = ad.parse("sum(v)^2*s")
    hessian = f.hessian(v=[1.0, 2.0], s=3.0)
    np.testing.assert_allclose(hessian, [[6, 6, 6], [6, 6, 6], [6, 6, 0]])


def test_structural_zeros_hold_in_second_derivatives() -> None:
    f = ad.parse("where(x > 0, x^3, sqrt(x)*log(x))")
    np.testing.assert_allclose(f.hessian(x=2.0), [[12.0]])


# --- derivatives as expressions


def test_a_derivative_is_an_expression_that_reads_back() -> None:
    f = ad.parse("x*y + sin(x)")
    slope = f.derivative("x")
    assert str(slope) == "y + cos(x)"
    assert ad.parse(str(slope)).grad(x=1, y=2) == slope.grad(x=1, y=2)
    assert str(f.derivative("x").derivative("x")) == "-sin(x)"
    assert str(f.derivative("z")) == "0"


def test_the_derivative_of_an_element_is_that_of_what_stands_there() -> None:
    f = ad.parse("v = [x^2, sin(x)]; v[0]*v[1]")
    assert str(f.derivative("x")) == str(ad.parse("x^2*sin(x)").derivative("x"))
    assert str(ad.parse("[sqrt(x), y][1]").derivative("x")) == "0"


@each(
    ("text", "expected"),
    [
        ("sum(v^2)", "2*v"),
        ("x*sum(v^2)", "2*v*x"),
        ("sum(where(v > 0, v^2, sin(v)))", "where(v > 0, 2*v, cos(v))"),
        ("mean(exp(v))", "exp(v)/size(exp(v))"),
        ("v[0]^2", "place(2*v[0], v, 0)"),
    ],
)
def test_derivatives_of_arrays_have_no_redundant_terms(text: str, expected: str) -> None:
    assert str(ad.parse(f"v: 2; {text}").derivative("v")) == f"v: 2; {expected}"


def test_a_derivative_needs_known_shapes() -> None:
    with pytest.raises(ad.ExpressionError, match="shape of `v`"):
        ad.parse("sum(v^2)").derivative("v")
    slope = ad.parse("v: 3; sum(v^2)").derivative("v")
    np.testing.assert_allclose(slope(v=[1.0, 2.0, 3.0]), [2.0, 4.0, 6.0])


@pytest.mark.slow
def test_pickling() -> None:
    f = pickle.loads(pickle.dumps(ad.parse("a = x*y; v: 2; a + sin(a)*sum(v)")))
    assert f.variables == ("x", "y", "v")
    assert f(x=1, y=2, v=[1.0, 1.0]) == 2 + 2 * math.sin(2)
    deep = ad.parse("sin(" * 50_000 + "x" + ")" * 50_000)
    assert pickle.loads(pickle.dumps(deep))(x=1.0) == deep(x=1.0)


def test_derivatives_of_higher_order_among_arrays() -> None:
    f = ad.parse("v: 2; sum(exp(t*v))")
    assert f.derivatives("t", 5, t=0, v=[1, 2]) == [2.0, 3.0, 5.0, 9.0, 17.0, 33.0]
    for point, name, message in (
        ({"t": 0, "v": [1, 2]}, "v", "need a variable that is a number"),
        ({"t": [0, 1, 2], "v": [1, 2]}, "t", "a batch of points"),
    ):
        with pytest.raises(ad.ExpressionError, match=message):
            f.derivatives(name, 2, point)
    with pytest.raises(ad.ExpressionError, match="at least 0, not -1"):
        f.derivatives("t", -1, t=0, v=[1, 2])


def test_the_directional_derivative_over_a_batch() -> None:
    f = ad.parse("x*y + floor(x)")
    value, slope = f.jvp({"x": 1.0}, x=np.array([1.5, 2.5]), y=3)
    assert value.tolist() == [5.5, 9.5]
    assert slope.tolist() == [3, 3]
    assert ad.parse("1/x").jvp({"x": 1.0}, x=[0.0, 1.0])[1].tolist() == [-math.inf, -1]
    assert ad.parse("x + y").jvp({"x": 1.0}, x=[1.0, 2.0], y=3)[1].tolist() == [1, 1]


def test_a_direction_has_the_shape_of_its_variable() -> None:
    f = ad.parse("v: 2; sum(v)")
    assert f.jvp({"v": [1, 2]}, v=[1, 2])[1] == 3
    assert f.jvp({"v": [[1, 2], [3, 4]]}, v=[1, 2])[1].tolist() == [3, 7]
    for rate in (1.0, [1.0, 2.0, 3.0]):
        with pytest.raises(ad.ExpressionError, match="`v` has the shape 2"):
            f.jvp({"v": rate}, v=[1, 2])
        with pytest.raises(ad.ExpressionError, match="`v` has the shape 2"):
            f.hvp({"v": rate}, v=[1, 2])


@each("batch", [(3,), (2, 3), (0,)])
def test_hessians_and_jacobians_over_a_batch_are_those_of_its_points(batch: tuple[int, ...]) -> None:
    f = ad.parse("v: 2; sin(x*y)*sum(v^2) + v[0]*x")
    random = np.random.default_rng(1)
    x, y, v = random.normal(size=batch), random.normal(size=batch[-1:]), random.normal(size=(*batch, 2))
    hessians, jacobians = f.hessian(x=x, y=y, v=v), ad.parse("v: 2; x*[y, 1]*v").jacobian(x=x, y=y, v=v)
    assert hessians.shape == (*batch, 4, 4)
    assert jacobians["v"].shape == (*batch, 2, 2)
    assert jacobians["x"].shape == jacobians["y"].shape == (*batch, 2)
    for spot in np.ndindex(*batch):
        point = {"x": x[spot], "y": y[spot[-1]], "v": v[spot]}
        np.testing.assert_allclose(hessians[spot], f.hessian(point), rtol=1e-12)
        for name, slopes in ad.parse("v: 2; x*[y, 1]*v").jacobian(point).items():
            np.testing.assert_allclose(jacobians[name][spot], slopes, rtol=1e-12)


def test_derivatives_that_are_0_have_their_shape() -> None:
    f = ad.parse("M: 2x3; v: 2; [floor(v), 0*v] + floor(M[0, 0])")
    point = {"M": np.ones((2, 3)), "v": [1, 2]}
    found = f.jacobian(point)
    assert found["v"].tolist() == np.zeros((2, 2, 2)).tolist()
    assert found["M"].tolist() == np.zeros((2, 2, 2, 3)).tolist()
    assert f.jvp({"v": [1, 1]}, point)[1].tolist() == [[0, 0], [0, 0]]


def test_names_of_values_are_compared_as_names_in_the_text() -> None:
    f = ad.parse("é*μ^2")  # one character
    point = {"e\u0301": 2, "\u00b5": 3}  # e and an accent; the micro sign
    assert f(point) == 18
    assert f.jvp({"\u00b5": 1}, point) == (18, 12)
    assert str(f.derivative("e\u0301")) == "μ^2"
    assert f.derivatives("\u00b5", 2, point) == [18, 12, 4]
    assert f.trace(point, wrt="e\u0301").gradient == {"é": 9}


def test_what_counts_as_an_array() -> None:
    f = ad.parse("x^2")
    assert f.grad(x=range(3))["x"].tolist() == [0, 2, 4]
    assert f.grad(x=array.array("d", [1, 2]))["x"].tolist() == [2, 4]
    assert f(x=10**400) == math.inf
    with pytest.raises(TypeError, match="real"):
        f(x=1j)
    with pytest.raises(TypeError, match="real"):
        f(x=np.array([1j]))


@each("text", ["sum(v)", "max(v)", "prod(v)", "norm(v)", "logsumexp(v)"])
def test_an_array_has_elements(text: str) -> None:
    with pytest.raises(ad.ExpressionError, match="`v` is empty"):
        ad.parse(text).grad(v=[])


@each(("value", "kind"), [("a", ValueError), (None, TypeError), ([1, "b"], ValueError)])
def test_a_value_that_is_no_number_is_named(value: object, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="the value of `x`: "):
        ad.parse("x*y").grad({"x": value, "y": 1})


@each(
    ("text", "sizes", "outputs"),
    [
        ("a = x*y; [a, x, y]", {}, {"a": "a = x*y", "1": "x", "2": "y"}),
        ("a = x*y; [a, a, x]", {}, {"0": "a = x*y", "1": "a = x*y", "2": "x"}),  # a name stands for one output only
        ("a = x*y; a", {}, {"a": "a = x*y"}),
        ("v @ [x, 1]", {"v": (2, 2)}, {"0": "(v @ [x, 1])[0]", "1": "(v @ [x, 1])[1]"}),
    ],
)
def test_outputs_have_the_names_that_the_text_gives_them(
    text: str, sizes: dict[str, tuple[int, ...]], outputs: dict[str, str]
) -> None:
    found = select_outputs(ad.parse(text), None, sizes)
    assert [(name, str(formula)) for name, formula in found.items()] == [*outputs.items()]


def _copies(thing: Any) -> list[Any]:
    return [copy.copy(thing), copy.deepcopy(thing), pickle.loads(pickle.dumps(thing))]


@each("text", ["a = x*y; sin(a) + a", "f(t) = t^2; b = f(x); b + y", "v: 3; a = sum(v)*x; a^2", "e*x + 2*inf"])
def test_a_copy_has_the_names_and_the_places_of_the_text(text: str) -> None:
    f = ad.parse(text, variables=["e"])
    for other in _copies(f):
        assert (repr(other), other.text, other.variables, other.notes) == (repr(f), f.text, f.variables, f.notes)
        assert [*other.bound] == [*f.bound]
        assert str(other.derivative("x")) == str(f.derivative("x"))


@each("method", ["__call__", "grad", "hessian", "jacobian"])
def test_batches_that_do_not_fit_together_are_refused_with_their_shapes(method: str) -> None:
    with pytest.raises(ad.ExpressionError, match="shapes 2 and 3 do not fit together"):
        getattr(ad.parse("x*y*b"), method)(x=[1, 2], y=[1, 2, 3], b=1)


def test_only_a_number_has_a_hessian() -> None:
    assert ad.parse("[x, x^2]").jvp({"x": 1.0}, x=2)[1].tolist() == [1, 4]
    with pytest.raises(ad.ExpressionError, match="the output is an array of shape 2; only a number has a gradient"):
        ad.parse("[x, x^2]").hvp({"x": 1.0}, x=2)


@each("method", ["jvp", "hvp"])
@each("direction", [1j, None, [1, "b"], [1j]])
def test_a_direction_that_is_no_number_is_named(method: str, direction: object) -> None:
    with pytest.raises((TypeError, ValueError), match="the direction of `x`: "):
        getattr(ad.parse("x*y"), method)({"x": direction}, x=1, y=2)

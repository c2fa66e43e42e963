"""`autodiff ops`: all that is printed comes from the records, and reads back."""

from __future__ import annotations

import itertools
import math
from typing import Any
from unittest import mock

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.explain.operations import Description, operations
from autodiff_cli.graph.node import Op, is_literal
from autodiff_cli.graph.tape import topological_order
from autodiff_cli.language.printer import to_text
from autodiff_cli.render import inspection
from tests.each import each
from tests.support import run_cli

ALL = [Description(op) for op in operations()]
ELEMENTWISE = [description for description in ALL if not description.op.is_structural]
AT = {"acosh": 1.7, "acoth": 1.7, "asec": 1.7, "acsc": 1.7}


def by_name(description: Description) -> str:
    return description.op.name


@each("description", ELEMENTWISE, ids=by_name)
def test_the_printed_derivatives_are_the_gradient(description: Description) -> None:
    f = ad.parse(description.call)
    # Whole numbers first, for operations that count with their first argument.
    values = [AT.get(description.op.name, 0.7)] if len(f.variables) == 1 else [1.0, 0.3, 0.6, 1.3, 2.0]
    point = dict(zip(f.variables, values, strict=False))
    gradient = f.grad(point)
    assert [*description.derivatives] == [*gradient]
    for name, text in description.derivatives.items():
        g = ad.parse(text)
        found = g({variable: point[variable] for variable in g.variables})
        assert found == pytest.approx(gradient[name], rel=1e-12, nan_ok=True)


@each("description", ALL, ids=by_name)
def test_no_formula_has_a_product_with_0_or_two_equal_branches(description: Description) -> None:
    for text in (description.definition, *description.derivatives.values()):
        for node in topological_order([ad.parse(text or "x").output]):
            name = "" if node.op is None else node.op.name
            assert name not in ("mul", "div") or not is_literal(node.inputs[0], 0), text
            assert name != "where" or to_text(node.inputs[1]) != to_text(node.inputs[2]), text


@each("x", [-1.0, 0.4, 2.5])
def test_the_printed_slopes_of_a_spline_hold_between_its_knots_and_beyond_them(x: float) -> None:
    (spline,) = (description for description in ALL if description.op.name == "spline")
    point = {"x": x, "k0": 0.25, "v0": 3.0, "k1": 2.0, "v1": -0.5}
    right = {"x": -2.0, "v0": (2 - x) / 1.75, "v1": (x - 0.25) / 1.75}  # of the straight line through both pairs
    right |= {"k0": 2 * right["v0"], "k1": 2 * right["v1"]}
    for name, text in spline.derivatives.items():
        f = ad.parse(text)
        assert f({variable: point[variable] for variable in f.variables}) == pytest.approx(right[name], rel=1e-12)


@each("description", [d for d in ALL if d.op.is_structural], ids=by_name)
def test_the_printed_contributions_of_operations_on_arrays_are_the_gradient(description: Description) -> None:
    names = ad.parse(description.call).variables
    random = np.random.default_rng(0)
    for shapes in itertools.product(("2x2", "3", ""), repeat=len(names)):
        declared = "".join(f"{name}: {shape}; " for name, shape in zip(names, shapes, strict=True) if shape)
        sizes = [tuple(map(int, shape.split("x"))) if shape else () for shape in shapes]
        point = {name: random.normal(size=size) for name, size in zip(names, sizes, strict=True)}
        try:
            adjoint = random.normal(size=np.shape(ad.parse(declared + description.call)(point)))
        except ad.ExpressionError:
            continue
        break
    total = f"g*({description.call})"
    if np.shape(adjoint):
        declared, total = f"{declared}g: {'x'.join(map(str, adjoint.shape))}; ", f"sum({total})"
    gradient = ad.parse(declared + total).grad({**point, "g": adjoint})
    for name in names:
        contribution = ad.parse(declared + description.derivatives.get(name, "0"))
        found = contribution({leaf: {**point, "g": adjoint}[leaf] for leaf in contribution.variables})
        assert np.allclose(found, gradient[name], rtol=1e-12)


@each("description", ALL, ids=by_name)
def test_conditions_and_definitions_are_in_the_language(description: Description) -> None:
    for text in (description.kink, description.domain, description.singular, description.definition):
        assert text is None or ad.parse(text).variables is not None


def test_the_table_has_every_operation() -> None:
    output = run_cli("ops")
    assert output.status == 0
    for description in ALL:
        assert description.call in output
    assert "1/cosh(x)^2" in output


def test_no_line_of_the_list_is_wide() -> None:
    assert max(map(len, run_cli("ops").splitlines())) <= 120


@each("width", [40, 80])
@each("name", ["tanh", "gamma", "max", "prod", "gelu", "normal_pdf"])
def test_an_operation_fits_a_terminal(name: str, width: int) -> None:
    output = run_cli(["ops", name], terminal=width)
    assert output.status == 0
    assert max(map(len, output.splitlines())) <= width


def test_the_list_has_derivatives_conditions_and_definitions() -> None:
    listed = run_cli("ops")
    assert "abs(x)  (scale)\n  d/dx = sign(x)\n  kink where x == 0: the slopes are -1 and 1; 0 is used\n" in listed
    assert "silu(x)  (scale)\n  defined as sigmoid(x)*x\n" in listed
    assert "sqrt(x)  (scale)\n  d/dx = 1/(2*sqrt(x))\n  defined where x >= 0\n" in listed


def test_one_operation_with_its_plot() -> None:
    output = run_cli("ops relu")
    assert "d/dx = where(x > 0, 1, 0)" in output
    assert "kink where x == 0: the slopes are 0 and 1; 0 is used" in output
    assert "gate: route" in output
    assert "y = relu(x)" in output
    assert "(x)\n" not in run_cli("ops atan2")


@each(
    ("name", "call"),
    [("*", "x*y"), ("mul", "x*y"), ("×", "x*y"), ("**", "x^y"), ("ln", "log(x)"), ("@", "a @ b"), ("-", "-x")],
)
def test_names_symbols_and_aliases(name: str, call: str) -> None:
    found = run_cli(["ops", name, "--json"]).json["operations"]
    assert call in [operation["call"] for operation in found]


def test_a_name_with_two_meanings_shows_both() -> None:
    assert [o["call"] for o in run_cli("ops max --json").json["operations"]] == ["max(x, y)", "max(x)"]
    assert "adjoint of x grows by: t1 = x == max(x); where(" in run_cli("ops max")


def test_json_has_what_the_record_has() -> None:
    (tan,) = run_cli("ops tan --json").json["operations"]
    assert tan["derivatives"] == {"x": "1/cos(x)^2"}
    (product,) = run_cli("ops @ --json").json["operations"]
    assert product["contributions"] == {"a": "g @ transpose(b)", "b": "transpose(a) @ g"}
    assert len(run_cli("ops --json").json["operations"]) == len(ALL)


@each(
    "op",
    [op for op in operations() if not op.is_structural and op.min_inputs == 1],
    ids=lambda op: op.name,
    sampled=True,
)
def test_every_function_of_one_number_can_be_plotted(op: Op) -> None:
    output = run_cli(["ops", op.name])
    assert output.status == 0
    assert str(math.nan) not in output.partition("derivatives")[2]  # the definition may say where there is no value


@each(
    ("line", "message"),
    [("ops tahn", "did you mean `tan"), ("ops qqqqq", "`autodiff ops` lists them all"),
     ("ops mlp", "`mlp` is a layer made of"),
     ("ops sin --x 2", "there is no option --x"), ("ops sin cos", "unexpected argument")],
)  # fmt: skip
def test_bad_input(line: str, message: str) -> None:
    output = run_cli(line)
    assert (output.status, output) == (2, "")
    assert message in output.stderr


@each(
    "name, function, low, high", [("tanh", np.tanh, -6, 6), ("exp", np.exp, -6, math.log(6)), ("log", np.log, 0.01, 6)]
)
def test_the_plot_of_an_operation_is_that_of_its_values(name: str, function: Any, low: float, high: float) -> None:
    """And of its slopes, below; within 6 on both axes."""
    drawn: list[Any] = []
    with mock.patch.object(inspection, "dot_plot", lambda *given, **options: drawn.append((given, options)) or []):
        run_cli(["ops", name])
    for (box, (_, ys), points, (columns, _)), options in drawn:
        assert (box["x"], points, options) == ((-6.0, 6.0), (), {"has_axes": True})
        margin = (max(ys) - min(ys)) / 20
        assert box["y"] == pytest.approx((min(ys) - margin, max(ys) + margin))
        assert columns % 10 == 0
        assert max(map(abs, ys)) <= 6
    (_, (xs, ys), *_), _ = drawn[0]
    assert ys == pytest.approx(function(xs))
    every = np.linspace(-6, 6, 601)
    assert xs == pytest.approx(every[(every > low - 1e-9) & (every < high + 1e-9)], abs=1e-9)

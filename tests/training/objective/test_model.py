"""What a model's text means for given data: its shapes, and what is wrong with them, at the place in the text."""

from __future__ import annotations

from typing import Any

import pytest

from autodiff_cli import ExpressionError
from autodiff_cli.training.objective.model import Model, other_networks
from tests.each import each

NAMES = ("x", "y", "z", "c")


def resolved(text: str, values: dict[str, Any] | None = None, classes: int | None = None) -> Model:
    return Model.parse(text, NAMES, values or {}).resolve(values, classes)


@pytest.mark.parametrize(
    ("text", "values", "shapes"),
    [
        ("y ~ a*x + b", {}, {}),
        ("W: 3x2; y ~ sum(W @ [x, z])", {}, {"W": (3, 2)}),
        ("y ~ w @ [x, z]", {}, {"w": (2,)}),
        ("y ~ [x, z, 1] @ w", {}, {"w": (3,)}),
        ("y ~ dot(w, [x, z])", {}, {"w": (2,)}),
        ("y ~ dot(w, [[x, 1, 2], [3, z, 4]])", {}, {"w": (2, 3)}),
        ("y ~ sum(w @ [[x, 1, 2], [3, z, 4]])", {}, {"w": (2,)}),
        ("y ~ sum([[x, 1, 2], [3, z, 4]] @ w)", {}, {"w": (3,)}),
        ("W: 3x2; y ~ v @ tanh(W @ [x, z])", {}, {"W": (3, 2), "v": (3,)}),
        ("y ~ v @ (W @ [x, z])", {"W": [[1, 2], [3, 4], [5, 6]]}, {"W": (3, 2), "v": (3,)}),
        ("y ~ sum(w)*x", {"w": [1, 2, 3, 4]}, {"w": (4,)}),
        ("[y, z] ~ k*x", {"k": [1, 2]}, {"k": (2,)}),
        ("y ~ dense([x, z], 4, relu)[0]", {}, {"dense.0.weight": (4, 2), "dense.0.bias": (4,)}),
    ],
)
def test_shapes_are_declared_passed_or_inferred(text: str, values: dict[str, Any], shapes: dict[str, Any]) -> None:
    model = resolved(text, values)
    assert model.shapes == shapes
    assert [*model.array_parameters] == [name for name in model.parameters if name in shapes]


def test_the_last_layer_is_as_wide_as_the_target_or_the_classes() -> None:
    assert resolved("y ~ mlp(x, [3])").shapes["mlp.1.weight"] == (1, 3)
    assert resolved("[y, z] ~ mlp(x, [3])").shapes["mlp.1.weight"] == (2, 3)
    model = resolved("c ~ softmax(mlp(x, [3]))", classes=5)
    assert model.class_column == "c"
    assert model.shapes["mlp.1.bias"] == (5,)


@each(
    "text, declaration",
    [
        ("y ~ w[0] + w[1]*x", "w: 2"),
        ("y ~ w[3]*x", "w: 4"),
        ("y ~ M[1, 0]*x + M[0, 2]", "M: 2x3"),
        ("y ~ sum(w)*x", "w: 3"),
        ("y ~ `my w`[1]*x", "`my w`: 2"),
    ],
)
def test_the_suggested_shape_of_an_array_has_all_elements_that_the_model_uses(text: str, declaration: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        resolved(text)
    assert caught.value.suggestion == declaration
    resolved(f"{declaration}; {text}")


@pytest.mark.parametrize("text", ["y ~ mlp(x, [3])", "2*c ~ softmax(mlp(x, [3]))", "softmax(mlp(x, [3]))"])
def test_models_that_tell_no_classes_apart(text: str) -> None:
    assert Model.parse(text, NAMES).class_column is None


@pytest.mark.parametrize(
    ("text", "values", "classes", "column", "message"),
    [
        ("y ~ sum(W @ v)", {}, None, 9, "the shape of the array `W` is unknown: declare it"),
        ("W: 3x2; y ~ sum(W @ [x, 1])", {"W": [1, 2]}, None, 17, "`W` is a vector of 2; a matrix of 3x2 is needed"),
        ("y ~ w @ [x, 1]", {"w": [1, 2, 3]}, None, 7, "3 @ 2: the left side"),
        ("y ~ sum(w)", {"w": [[[1]]]}, None, 9, "has 3 dimensions"),
        ("y ~ [x, a]", {}, None, 5, "the target is a number, but the prediction a vector of 2"),
        ("[y, z] ~ a*x", {}, None, 11, "the target is a vector of 2, but the prediction a number"),
        ("[[y, z], [x, c]] ~ a", {}, None, 1, "a target must be a number or a vector, not a matrix of 2x2"),
        ("a*[x, y]", {}, None, 2, "the loss of a row must be a number, not a vector of 2"),
        ("c ~ softmax([a, b]*x)", {}, 3, 5, "there are 3 classes, but the softmax is over a vector of 2"),
        ("x: 3; y ~ a*x", {}, None, 13, "`x` is a column of the data"),
    ],
)
def test_shapes_that_do_not_fit_are_shown_in_the_text(
    text: str, values: dict[str, Any], classes: int | None, column: int, message: str
) -> None:
    with pytest.raises(ExpressionError) as caught:
        resolved(text, values, classes)
    assert message in caught.value.message
    assert (caught.value.line, caught.value.column, caught.value.text) == (1, column, text)


def test_the_formula_of_arrays_reads_back_and_that_of_many_numbers_is_empty() -> None:
    model = resolved("w: 2; k: 3; y ~ w @ [x, 1] + sum(k)")
    assert model.formula({"w": [0.5, -2.0], "k": [1.0, 2.0, 3.0]}) == "[0.5, -2] @ [x, 1] + sum([1, 2, 3])"
    assert resolved("y ~ mlp(x, [50])").formula({"mlp.0.weight": [[1.0]] * 50, "mlp.0.bias": [0.0] * 51}) == ""


def test_a_column_that_is_bound_and_not_predicted_is_a_mistake() -> None:
    with pytest.raises(ExpressionError, match="write its prediction after `~`, not after `=`") as error:
        Model.parse("y = a*x", NAMES)
    assert error.value.suggestion == "y ~ a*x"
    assert Model.parse("u = a*x; (y - u)^2", NAMES).parameters == ("a",)


def test_a_loss_that_no_parameter_changes_smoothly_is_a_mistake() -> None:
    for text in ("y == a*x", "y < a*x", "(y == a*x)*2", "(y - floor(a*x))^2", "where(x > a, 1, 2)", "not a"):
        with pytest.raises(ExpressionError, match="the derivative of this loss is 0") as error:
            Model.parse(text, NAMES)
        assert error.value.suggestion == ("y ~ a*x" if text == "y == a*x" else None)
    for text in ("(y - a*(x > 1))^2", "where(x > a, a, 2)", "floor(y) * a^2", "y ~ a*(x > b)"):
        assert "a" in Model.parse(text, NAMES).parameters


def test_other_networks_have_one_to_three_hidden_layers_of_each_activation() -> None:
    found = other_networks(resolved("y ~ mlp([x, z], [5], softplus)"), {}, None)
    assert [*found] == [f"{count} {name}" for name in ("softplus", "tanh", "relu", "sigmoid") for count in (1, 2, 3)]
    assert {name: network.shapes for name, network in found.items()}["2 relu"] == {
        "mlp.0.weight": (2, 2), "mlp.0.bias": (2,), "mlp.1.weight": (2, 2), "mlp.1.bias": (2,),
        "mlp.2.weight": (1, 2), "mlp.2.bias": (1,),
    }  # fmt: skip
    assert other_networks(resolved("y ~ a*x"), {}, None) == {}

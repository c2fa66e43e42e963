"""Example shapes are compatible with the formula."""

from __future__ import annotations

import numpy as np
import pytest

import autodiff_cli as ad

TEXTS = [
    "sum(v^2)",
    "sum(W @ x + b)",
    "softmax(W @ x + b)[0] + k",
    "W: 2x4; norm(W @ v)",
    "v: 5; sum(M @ v)",
    "v[5] + M[1, 7] + transpose(M)[6, 0]",
    "dot(u, W @ x)",
    "sum(x @ A @ x)",
    "sum(A @ B @ c) + sum(d)",
    "sum(tanh(V @ tanh(W @ x + b) + c))",
    "a = sum(u); b = max(v); a*b + logsumexp(w)",
]


@pytest.mark.parametrize("text", TEXTS)
def test_an_example_of_every_shape_can_be_evaluated(text: str) -> None:
    f = ad.parse(text)
    assert f.example_shapes().keys() == f.shapes.keys() | f.arrays
    point = {name: np.ones(f.example_shapes().get(name, ())) for name in f.variables}
    assert np.isfinite(f(point))
    assert {name: np.shape(slope) for name, slope in f.grad(point).items()} == {
        name: f.example_shapes().get(name, ()) for name in f.variables
    }


@pytest.mark.parametrize("text", [text for text in TEXTS if ad.parse(text).arrays])
def test_what_is_suggested_instead_of_a_formula_without_shapes_has_derivatives(text: str) -> None:
    f = ad.parse(text)
    with pytest.raises(ad.ExpressionError, match="declare the shape of") as caught:
        f.derivative(f.variables[0])
    suggestion = caught.value.suggestion
    assert suggestion is not None
    declared = ad.parse(suggestion if text in suggestion else f"{suggestion}\n{text}")  # a long text is not repeated
    assert declared.variables[0] in f.variables
    assert str(declared.derivative(f.variables[0]))


def test_where_nothing_small_fits_there_is_no_example() -> None:
    assert ad.parse("v[1000]").example_shapes() == {}

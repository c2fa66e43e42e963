"""A trace of arrays written out in numbers: the same value and gradient, element by element."""

from __future__ import annotations

import numpy as np
import pytest

from autodiff_cli.explain.tracing import elementwise_trace, trace
from autodiff_cli.expression import parse

FORMULAS = [
    ("-log(softmax(W @ x + b)[0])", {"W": [[1, 2, 0.5], [3, 4, -1]], "x": [1, -1, 2], "b": [0, 1]}),
    ("sum(tanh(A @ transpose(A)))*s", {"A": [[0.1, 0.2], [-0.3, 0.4]], "s": 2.0}),
    ("norm(v) + max(v)*dot(v, v)", {"v": [1.0, 3.0, -2.0]}),
]


@pytest.mark.parametrize(("text", "point"), FORMULAS)
def test_elements_have_the_derivatives_that_arrays_have(text: str, point: dict[str, object]) -> None:
    whole = trace(parse(text), point)
    found = elementwise_trace(whole)
    assert found is not None
    assert found.is_scalar
    assert found.value == pytest.approx(float(whole.value), rel=1e-12)
    for name, slope in whole.gradient.items():
        for place, number in np.ndenumerate(slope):
            called = f"{name}[{', '.join(map(str, place))}]" if place else name
            assert found.gradient[called] == pytest.approx(number, rel=1e-9, abs=1e-12)


def test_what_has_no_arrays_or_too_many_elements_stays() -> None:
    assert elementwise_trace(trace(parse("x*y"), {"x": 2, "y": 3})) is None
    assert elementwise_trace(trace(parse("sum(v^2)"), {"v": np.arange(1000.0)})) is None

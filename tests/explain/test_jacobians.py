"""Jacobians of operations on arrays, and what softmax hands on below a cross-entropy."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.explain.operations import cross_entropy_above, cross_entropy_above_logsumexp, has_jacobian, jacobian
from autodiff_cli.explain.tracing import trace
from autodiff_cli.expression import parse
from tests.each import examples
from tests.support import run_cli

VECTORS = st.lists(st.floats(-3, 3), min_size=2, max_size=5)


@pytest.mark.parametrize("name", ["softmax", "logsoftmax", "norm", "logsumexp", "mean", "prod"])
@examples(20)
@given(x=VECTORS)
def test_a_jacobian_is_what_differences_say(name: str, x: list[float]) -> None:
    f = parse(f"{name}(x)")
    found = trace(parse(f"sum({name}(x))"), {"x": np.array(x)})
    (i,) = [i for i, node in enumerate(found.tape.nodes) if node.op is not None and node.op.name == name]
    assert has_jacobian(found, i)
    if name == "norm" and np.linalg.norm(x) < 1e-3:
        return  # near its tip
    steps = 1e-6 * np.eye(len(x))
    columns = [(np.asarray(f(x=x + step)) - f(x=x - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(jacobian(found, i), np.stack(columns, axis=-1), rtol=1e-5, atol=1e-7)


def test_a_jacobian_has_the_shapes_of_output_and_input() -> None:
    found = trace(parse("M: 2x3; sum(softmax(M)^2) + norm(M)"), {"M": np.arange(6.0).reshape(2, 3)})
    shapes = {found.labels[i]: jacobian(found, i).shape for i in range(len(found.tape)) if has_jacobian(found, i)}
    assert shapes == {"softmax(M)": (2, 3, 2, 3), "norm(M)": (2, 3)}


def test_large_derivatives_are_drawn_under_their_name() -> None:
    for text, size, names in (("max(softmax(v))", 8, ["Jacobian"]), ("2*norm(v)", 60, ["slope"])):
        report = run_cli(["trace", text, "--v", str([*range(size)])])
        assert re.findall(r"^ +([A-Za-z]+) +\|", report.partition("backward pass")[2], re.M) == names


@examples(30)
@given(z=VECTORS, scale=st.floats(-2, 2), data=st.data())
@pytest.mark.parametrize("text", ["c*sum(y*log(softmax(z)))", "c*dot(log(softmax(z)), y)", "c*sum(logsoftmax(z)*y)"])
def test_sentences_state_the_actual_contributions(text: str, z: list[float], scale: float, data: st.DataObject) -> None:
    y = data.draw(st.lists(st.floats(-1, 1), min_size=len(z), max_size=len(z)))
    found = trace(parse(text), {"z": np.array(z), "y": np.array(y), "c": scale})
    ((i, above),) = [(i, above) for i in range(len(found.tape)) if (above := cross_entropy_above(found, i)) is not None]
    assert above.weights is not None
    p = np.exp(z) / np.sum(np.exp(z))
    collapsed = (found.values[above.weights] - p * np.sum(found.values[above.weights])) * found.adjoints[above.total]
    np.testing.assert_allclose(found.contributions[i][0].amount, collapsed, rtol=1e-9, atol=1e-12)


@examples(30)
@given(z=VECTORS, scale=st.floats(-2, 2), data=st.data())
def test_the_sentence_names_all_contributions_to_logits(z: list[float], scale: float, data: st.DataObject) -> None:
    y = data.draw(st.lists(st.floats(-1, 1), min_size=len(z), max_size=len(z)))
    found = trace(parse("c*(logsumexp(z) - dot(y, z))"), {"z": np.array(z), "y": np.array(y), "c": scale})
    ((i, above),) = [
        (i, a) for i in range(len(found.tape)) if (a := cross_entropy_above_logsumexp(found, i)) is not None
    ]
    weights, total = above
    p = np.exp(z) / np.sum(np.exp(z))
    arrives = (p - found.values[weights]) * found.adjoints[total]
    np.testing.assert_allclose(found.adjoints[found.tape.inputs[i][0]], arrives, rtol=1e-9, atol=1e-12)

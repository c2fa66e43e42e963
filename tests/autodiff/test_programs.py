"""Whole graphs, with fan-out: all ways to differentiate agree."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp

from autodiff_cli.autodiff.sweeps import forward, reverse, tangents
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.gradient import tangents as tangent_graphs
from autodiff_cli.graph.node import ONE, Node
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.floats import FLOATS
from tests.each import examples
from tests.graphs import SMOOTH, graphs

moderate = st.floats(-3, 3, allow_subnormal=False)
points = st.fixed_dictionaries(dict.fromkeys("xyz", moderate))
Drawn = tuple[Node, list[Node]]


def values_of(outputs: list[Node], point: dict[str, float]) -> list[float]:
    tape = Tape(outputs)
    values = forward(tape, FLOATS, point)
    return [values[i] for i in tape.outputs]


def reverse_slopes(output: Node, leaves: list[Node], point: dict[str, float]) -> list[float]:
    tape = Tape((output,))
    adjoints = reverse(tape, FLOATS, forward(tape, FLOATS, point), 1.0)
    found = (adjoints[tape.index[leaf]] if leaf in tape.index else None for leaf in leaves)
    return [0.0 if slope is None else slope for slope in found]


def close(a: float, b: float) -> bool:
    if not (math.isfinite(a) and math.isfinite(b)) or max(abs(a), abs(b)) > 1e100:
        return True  # where one order of summation overflows or cancels infinities, another need not
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-6 * (1 + min(abs(a), abs(b))))


@examples(300)
@given(graphs(), points)
def test_reverse_forward_and_both_graph_modes_agree(drawn: Drawn, point: dict[str, float]) -> None:
    output, leaves = drawn
    backward = reverse_slopes(output, leaves, point)
    as_graphs = values_of(gradient_nodes(output, leaves), point)
    for leaf, slope, graph_slope in zip(leaves, backward, as_graphs, strict=True):
        tape = Tape((output,), [leaf])
        forward_slope = tangents(tape, FLOATS, forward(tape, FLOATS, point), {leaf.text: 1.0})[tape.outputs[0]]
        (forward_graph,) = values_of([tangent_graphs([output], {leaf: ONE})[0]], point)
        assert close(slope, graph_slope)
        assert close(slope, 0.0 if forward_slope is None else forward_slope)
        assert close(slope, forward_graph)


@examples(150)
@given(graphs(SMOOTH), points)
def test_smooth_gradients_are_the_limit_of_difference_quotients(drawn: Drawn, point: dict[str, float]) -> None:
    """With 100 digits a difference quotient is good to 40: an oracle that shares no rule with the project."""
    output, leaves = drawn
    functions = {
        "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "neg": lambda a: -a,
        "sin": mp.sin, "cos": mp.cos, "tanh": mp.tanh, "exp": mp.exp, "atan": mp.atan,
        "sigmoid": lambda a: 1 / (1 + mp.exp(-a)),
    }  # fmt: skip
    tape = Tape((output,))

    def value(place: dict[str, object]) -> object:
        numbers: list[object] = []
        for node, inputs in zip(tape.nodes, tape.inputs, strict=True):
            if node.op is None:
                numbers.append(
                    (mp.pi if node.text == "pi" else mp.mpf(node.text)) if node.is_constant else place[node.text]
                )
            else:
                numbers.append(functions[node.op.name](*(numbers[i] for i in inputs)))
        return numbers[-1]

    with mp.workdps(100):
        place = {name: mp.mpf(x) for name, x in point.items()}
        if abs(value(place)) > 1e10:
            return
        step = mp.mpf(10) ** -40
        for leaf, slope in zip(leaves, reverse_slopes(output, leaves, point), strict=True):
            ahead = value({**place, leaf.text: place[leaf.text] + step})
            quotient = (ahead - value(place)) / step
            assert abs(quotient - slope) <= 1e-9 * (1 + abs(quotient)) or abs(quotient) > 1e10


@pytest.mark.parametrize("number", [1, 3])
def test_an_adjoint_starts_from_the_seed(number: int) -> None:
    from autodiff_cli.graph.node import variable

    x = variable("x")
    tape = Tape((x * x,))
    assert reverse(tape, FLOATS, forward(tape, FLOATS, {"x": 2.0}), float(number))[0] == 4.0 * number

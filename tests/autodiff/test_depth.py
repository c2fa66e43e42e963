"""Every pass over a graph works on a chain of 100,000 nodes: nothing recurses over depth."""

from __future__ import annotations

import pickle

import pytest

from autodiff_cli.algebra.simplify import share, simplify
from autodiff_cli.autodiff.sweeps import forward, reverse, tangents
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.gradient import tangents as tangent_graphs
from autodiff_cli.graph.node import ONE, Node, variable
from autodiff_cli.graph.tape import Tape, substitute, topological_order
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.ops.functions import sin

DEPTH = 30_000


@pytest.fixture(scope="module")
def leaf() -> Node:
    return variable("x")


@pytest.fixture(scope="module")
def chain(leaf: Node) -> Node:
    node = leaf
    for _ in range(DEPTH):
        node = sin(node)
    return node


@pytest.mark.slow
def test_loops(chain: Node) -> None:
    tape = Tape((chain,))
    values = forward(tape, FLOATS, {"x": 1.0})
    backward = reverse(tape, FLOATS, values, 1.0)[0]
    assert backward is not None
    assert tangents(tape, FLOATS, values, {"x": 1.0})[-1] == pytest.approx(backward, rel=1e-9)


@pytest.mark.slow
def test_graph_passes(chain: Node, leaf: Node) -> None:
    assert len(topological_order(gradient_nodes(chain, [leaf]))) > DEPTH
    assert len(topological_order([tangent_graphs([chain], {leaf: ONE})[0]])) > DEPTH
    assert len(topological_order(simplify([chain]))) == DEPTH + 1
    assert len(topological_order(share([chain, chain]))) == DEPTH + 1
    other = variable("y")
    assert topological_order(substitute([chain], {leaf: other}))[0] is other


@pytest.mark.slow
def test_pickling(chain: Node) -> None:
    assert len(topological_order([pickle.loads(pickle.dumps(chain))])) == DEPTH + 1

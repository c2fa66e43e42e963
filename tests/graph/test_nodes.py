"""Nodes, ops and tapes as data."""

from __future__ import annotations

import pickle

import pytest

from autodiff_cli.graph.node import constant, is_literal, variable
from autodiff_cli.graph.tape import Tape, topological_order
from autodiff_cli.ops import all_ops, get_op
from autodiff_cli.ops.functions import exp, sin
from tests.each import each

x, y = variable("x"), variable("y")


def test_operators_only_build_nodes() -> None:
    node = 2 * x + x / y - 3**x
    assert node.op is get_op("sub")
    assert [n.op.name for n in topological_order([node]) if n.op] == ["mul", "div", "add", "pow", "sub"]


def test_an_order_leaves_out_nodes_that_were_visited() -> None:
    product = x * y
    wave, visited = sin(product), {product}
    assert topological_order([wave, exp(x)], visited)[0] is wave
    assert topological_order([wave, x], visited) == []


def test_equality_and_hash_are_identity() -> None:
    assert (x + y) != (x + y)
    assert len({x, x, variable("x")}) == 2


def test_a_comparison_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match="truth value"):
        bool(x < y)
    with pytest.raises(TypeError, match="truth value"):
        _ = 0 < x < y


def test_constants_are_written_without_a_sign() -> None:
    assert [node.text for node in topological_order([constant(-2.5)])] == ["2.5", ""]
    assert constant(3.0).text == "3"
    assert is_literal(constant(-0.0), 0)
    assert not is_literal(sin(constant("0")), 0)


def test_the_tape_lists_inputs_first_in_the_order_of_the_text() -> None:
    tape = Tape([x * y + sin(x)])
    assert [node.text or node.op.name for node in tape.nodes if node.op or node.text] == ["x", "y", "mul", "sin", "add"]
    assert tape.inputs == [(), (), (0, 1), (0,), (2, 3)]


def test_the_tape_knows_active_nodes_and_inputs() -> None:
    shared = exp(constant("2"))
    tape = Tape([x * shared + y], wrt=[x])
    reached = {
        node.text or node.op.name: is_reached for node, is_reached in zip(tape.nodes, tape.is_active, strict=True)
    }
    assert reached == {"x": True, "2": False, "exp": False, "mul": True, "y": False, "add": True}


def test_pickling_preserves_sharing() -> None:
    shared = sin(x)
    copy = pickle.loads(pickle.dumps(shared * shared))
    assert copy.inputs[0] is copy.inputs[1]


@each("op", list(all_ops()), ids=lambda op: op.name)
def test_every_record_is_complete(op) -> None:  # type: ignore[no-untyped-def]
    count = op.min_inputs if op.max_inputs is not None else max(op.min_inputs, 3)
    assert len(op.derivative_rule(count).partials) == (0 if op.is_structural else count)
    assert (op.kink is None) == (op.kink_note == "")
    assert op.spelling or op.symbol or op.is_helper or op.name in {"stack", "index"}  # these are written with brackets
    for which in ("kink", "domain", "singular"):
        op.predicate(which, count)
    assert pickle.loads(pickle.dumps(op)) is op

"""The positions of nodes in the text."""

from __future__ import annotations

import pytest

from autodiff_cli.graph.node import Node, variable
from autodiff_cli.graph.tape import topological_order
from autodiff_cli.language.program import Program, Source, read


def quoted(program: Program) -> dict[str, list[str]]:
    """For each op name or leaf text, the pieces of source that its nodes were read from, in order."""
    found: dict[str, list[str]] = {}
    for node in topological_order((program.output,)):
        span = program.source.span(node)
        assert span is not None
        found.setdefault(node.op.name if node.op else node.text, []).append(program.text[slice(*span)])
    return found


def test_a_span_is_the_text_of_a_sub_expression() -> None:
    found = quoted(read("a = (x + y)*2 # two\n -max( a , x²)"))
    assert found == {
        "x": ["x"],
        "y": ["y"],
        "add": ["x + y"],
        "2": ["2", "x²"],
        "mul": ["(x + y)*2"],
        "pow": ["x²"],
        "max": ["max( a , x²)"],
        "neg": ["-max( a , x²)"],
    }


def test_the_span_of_an_array_and_of_an_element_has_the_brackets() -> None:
    found = quoted(read("[x, M[0, 1]] @ (v[2] + [u])"))
    assert found["stack"] == ["[x, M[0, 1]]", "[u]"]
    assert found["index"] == ["M[0, 1]", "v[2]"]
    assert found["matmul"] == ["[x, M[0, 1]] @ (v[2] + [u])"]


def test_the_nodes_of_a_layer_stand_where_it_is_called() -> None:
    found = quoted(read("1 + dense(x, 3, relu)[0]"))
    assert found["matmul"] == found["relu"] == found["dense.0.bias"] == ["dense(x, 3, relu)"]


def test_the_links_of_a_chain_have_spans_of_their_own() -> None:
    found = quoted(read("0 < (x) <= 1"))
    assert (found["lt"], found["le"], found["and"]) == (["0 < (x)"], ["(x) <= 1"], ["0 < (x) <= 1"])


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("x*y + sin(x)", (1, 5)),
        ("sin(x)", (1, 1)),
        ("\n 1 +\r\n 2", (2, 4)),
        ("-x", (1, 1)),
        ("é^2", (1, 2)),
        ("2*v[0]", (1, 2)),
        ("v[0]", (1, 2)),
        (" [x]", (1, 2)),
        ("A @ x", (1, 3)),
    ],
)
def test_the_place_of_an_operation_is_its_operator_or_name(text: str, place: tuple[int, int]) -> None:
    program = read(text)
    assert program.source.line_and_column(program.output) == place


def groups(source: Source, node: Node) -> list[str]:
    """The names of the groups that a node was made for, innermost first."""
    found = []
    group = source.groups.get(node)
    while group is not None:
        found.append(group.name)
        group = group.parent
    return found


def test_an_expanded_node_knows_its_calls_and_stands_in_the_body() -> None:
    program = read("f(t) = sin(t)\ng(u) = f(u)^2\ng(x)*f(y)")
    first, second = program.output.inputs
    source = program.source
    assert groups(source, program.output) == []
    assert groups(source, first) == ["g"]
    assert groups(source, first.inputs[0]) == ["f", "g"]
    assert groups(source, second) == ["f"]
    assert source.line_and_column(first.inputs[0]) == source.line_and_column(second) == (1, 8)
    assert groups(source, first.inputs[0].inputs[0]) == []


def test_every_call_is_a_group_with_its_arguments() -> None:
    program = read("f(t) = sin(t); a = f(x) + f(x); 2*a")
    (_, total), source = program.output.inputs, program.source
    first, second = map(source.groups.get, total.inputs)
    assert first is not second
    assert first is not None
    assert first.inputs == (program.leaves["x"],)
    assert groups(source, total) == ["a"]
    assert groups(source, total.inputs[0]) == ["f", "a"]


def test_the_layers_of_a_network_are_groups() -> None:
    program = read("x: 2\nsum(mlp(x, [3]))", outputs=1)
    (last,) = program.output.inputs
    assert groups(program.source, last) == ["mlp.1", "mlp"]
    product, _ = last.inputs
    assert groups(program.source, product.inputs[1]) == ["mlp.0", "mlp"]


def test_a_node_of_another_graph_has_no_place() -> None:
    source = read("x").source
    assert source.line_and_column(variable("x")) is None
    assert source.span(variable("x")) is None
    assert source.groups.get(variable("x")) is None

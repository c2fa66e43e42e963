"""Reading the printed text of a graph gives the same graph."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Node, constant, variable
from autodiff_cli.graph.tape import Tape, infer_shapes, topological_order
from autodiff_cli.language.printer import _Printer, to_text
from autodiff_cli.language.program import read
from autodiff_cli.ops import all_ops, get_op
from tests.each import each
from tests.graphs import SHAPES, SMOOTH, array_graphs, graphs
from tests.language.compare import identical


@given(graphs(), st.data())
def test_shared_text_reads_back_to_the_same_graph_and_names(
    graph: tuple[Node, list[Node]], data: st.DataObject
) -> None:
    root, _ = graph
    interior = [node for node in topological_order((root,)) if node.op is not None]
    named = data.draw(st.lists(st.sampled_from(interior), unique=True)) if interior else []
    names = {node: f"t{i}" for i, node in enumerate(named)}
    program = read(to_text(root, names))
    assert identical(program.output, root)
    assert set(names.values()) <= set(program.source.names.values())
    assert dict(zip(names.values(), map(kind, names), strict=True)) == {
        name: kind(node) for node, name in program.source.names.items() if name in names.values()
    }


def kind(node: Node) -> str:
    """The name of a node's operation."""
    assert node.op is not None
    return node.op.name


@given(array_graphs())
def test_arrays_read_back_to_the_same_graph_and_shapes(graph: tuple[Node, list[Node]]) -> None:
    root, _ = graph
    program = read(to_text(root, shapes=SHAPES))
    assert identical(program.output, root)
    assert program.shapes == {name: SHAPES[name] for name in program.leaves if SHAPES[name]}
    assert program.arrays <= {"x", "y"}  # numbers, where a sum of one is taken


@given(array_graphs(ops=SMOOTH, most=6))
def test_derivatives_of_arrays_read_back(graph: tuple[Node, list[Node]]) -> None:
    root, leaves = graph
    for slope in gradient_nodes(get_op("sum")(root), leaves, SHAPES):
        text = to_text(slope, shapes=SHAPES)
        output = read(text).output
        assert to_text(output, shapes=SHAPES) == text
        before, after = Tape((slope,)), Tape((output,))
        assert infer_shapes(after, SHAPES)[after.outputs[0]] == infer_shapes(before, SHAPES)[before.outputs[0]]


@given(graphs())
def test_text_without_sharing_is_the_same_formula_and_no_longer_than_repeating(graph: tuple[Node, list[Node]]) -> None:
    root, _ = graph
    text = to_text(root, share=False)
    assert identical(unshared(read(text).output), unshared(root))
    assert len(text) <= len(to_text(unshared(root)))


@each("text", ["(x + y)*(z - (a - b))^2", "-(x + y)/(z*(a/b))", "exp(-(x - 1))*(y <= z)", "max(v @ (w + 1))"])
def test_the_length_of_a_text_is_known_before_it_is_written(text: str) -> None:
    printer = _Printer(topological_order((read(text).output,)), {}, False, {}, {})
    lengths: dict[Node, int] = {}
    for node in printer.order:
        lengths[node] = printer._length(node, lengths)
    assert lengths[printer.root] == len(text) == len("".join(map(str, printer.pieces())))


def unshared(root: Node) -> Node:
    """The graph as a tree, leaves apart; small graphs only."""
    leaves: dict[str, Node] = {}

    def copy(node: Node) -> Node:
        if node.op is None:
            return leaves.setdefault(node.text, node)
        return Node(node.op, tuple(map(copy, node.inputs)))

    return copy(root)


@given(graphs(most=6))
def test_no_bracket_can_be_left_out(graph: tuple[Node, list[Node]]) -> None:
    root, _ = graph
    text = to_text(root)
    for opening, closing in bare_brackets(text):
        without = f"{text[:opening]} {text[opening + 1 : closing]} {text[closing + 1 :]}"
        try:
            program = read(without)
        except ValueError:
            continue
        assert not identical(program.output, root), without


def bare_brackets(text: str) -> list[tuple[int, int]]:
    """The places of the brackets that are not those of a call."""
    found, opened = [], []
    for i, character in enumerate(text):
        if character == "(":
            opened.append(i)
        elif character == ")":
            opening = opened.pop()
            if opening == 0 or not (text[opening - 1].isalnum() or text[opening - 1] == "_"):
                found.append((opening, i))
    return found


@each(
    "text",
    [
        "x*y + sin(x)",
        "(w*x + b - t)^2",
        "a - (b - c)",
        "a/(b*c)",
        "a%b*c",
        "-x^2",
        "(-x)^2",
        "x^-1",
        "2^-x^y",
        "(x^y)^z",
        "x*-y",
        "--x",
        "-(x + y)",
        "(-2)^x",
        "0 < x + y <= 1",
        "(a < b) < c",
        "a < b and b2 < c",
        "x and a < b < c",
        "not (x or y) and z",
        "(not x) + 1",
        "max(x, y, 2.50)",
        "log(x, 1e-3)",
        "a = x + y; b = x - y; a*b",
        "c = 2; c*x",
        "c = a < b; c and b < d",
        "t1 = a < b; (t1 and b < d) + t1",
        "a = x + 1; b = a*2",
        "t = x + 1; 0 < t < 1 and t*t",
        "[[a, b], [c, d]] @ [x + 1, y < 2]",
        "A @ (B @ x)",
        "-A @ x + b",
        "(a + b) @ (c*d)",
        "v[0] + M[1, 2]*M[0][1]",
        "(x + y)[0]^2",
        "[x, y][1]",
        "i = 1; v[i]",
        "max(v) - min(v, w)",
        "t = [x, y]; t @ t",
        "mlp.0.weight @ x + mlp.0.bias",
        "where(A > 0, A, sum_like(B, A)) + place(x, v, 1)",
    ],
)
def test_the_usual_way_to_write(text: str) -> None:
    program = read(text)
    assert to_text(program.output, program.source.names) == text


def test_printed_text_declares_shapes() -> None:
    text = "W: 2x3; v: 3; h = W @ v; h*h + b"
    program = read(text)
    assert to_text(program.output, program.source.names, shapes=program.shapes) == text
    network = read("y ~ mlp([a, b], [2])")
    printed = to_text(network.output, shapes=network.shapes)
    assert printed.startswith("mlp.1.weight: 1x2; mlp.0.weight: 2x2; mlp.0.bias: 2; mlp.1.bias: 1; ")
    assert read(printed).shapes == network.shapes
    assert to_text(variable("x"), shapes={"x": (), "W": (2, 3)}) == "x"


def test_generated_names_clash_with_nothing() -> None:
    program = read("m = t1*t2; m^m*t4")
    assert to_text(program.output) == "t3 = t1*t2; t3^t3*t4"
    other = read("a = x*y; b = a + 1; b*b + a")
    assert to_text(other.output, {other.output.inputs[1]: "t1"}) == "t1 = x*y; t2 = t1 + 1; t2*t2 + t1"


def test_generated_names_differ_from_names_of_inputs() -> None:
    program = read("(x + 1)*y")
    assert to_text(program.output, {program.output.inputs[0]: "y"}) == "t1 = x + 1; t1*y"


def test_a_constant_whose_name_means_something_else_is_written_out() -> None:
    pi = variable("pi")
    text = to_text(pi * constant("pi") + constant("inf"))
    program = read(text, variables=["pi"])
    assert text.startswith("pi*3.14159265358979")
    assert list(program.leaves) == ["pi"]
    bound = constant("nan") + variable("x")
    assert to_text(bound * constant("nan"), {bound: "nan"}).startswith("nan = (0/0) + x; nan*(0/0)")


@each("op", [op for op in all_ops() if op.is_helper], ids=lambda op: op.name)
def test_helpers_are_printed_as_what_they_stand_for(op: object) -> None:
    helper = next(candidate for candidate in all_ops() if candidate is op)
    inputs = [variable(name) for name in "xyt"[: helper.min_inputs]]
    text = to_text(1 + helper(*inputs))
    assert helper.name not in text
    assert {node.op.is_helper for node in topological_order((read(text).output,)) if node.op} == {False}


def test_derivatives_print_in_the_language() -> None:
    program = read("x^y*hypot(x, y) + erf(x)*where(x > y, x, y)")
    for slope in gradient_nodes(program.output, list(program.leaves.values())):
        for share in (True, False):
            assert read(to_text(slope, share=share)).leaves


def test_repetition_stops_where_a_name_is_shorter() -> None:
    x = variable("x")
    node = x * x
    for _ in range(200):
        node = node * node
    text = to_text(node, share=False)
    assert len(text) < len(to_text(node))
    assert read(text).output.op is node.op
    assert to_text((x + 1) * (x + 1), share=False) == "(x + 1)*(x + 1)"
    compared = x <= constant("0.5")
    assert to_text(compared + compared, share=False) == "t1 = x <= 0.5; t1 + t1"
    shared = x + 1
    assert to_text(shared * shared, share=False) == "(x + 1)*(x + 1)"
    assert to_text(shared * shared) == "t1 = x + 1; t1*t1"

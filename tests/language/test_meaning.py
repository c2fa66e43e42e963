"""The meaning of the language, as pairs of texts with the same graph, and the names of a program."""

from __future__ import annotations

import pytest

from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import ShapeError, Tape, infer_shapes
from autodiff_cli.language.errors import shape_error
from autodiff_cli.language.program import read
from autodiff_cli.ops import all_ops, function_names
from tests.each import each
from tests.language.compare import identical

SAME = [
    ("-x^2", "-(x^2)"),
    ("(-x)^2", "pow(-x, 2)"),
    ("2^-x", "2^(-x)"),
    ("x^y^z", "x^(y^z)"),
    ("x**y", "x^y"),
    ("x - y - z", "(x - y) - z"),
    ("x/y*z", "(x/y)*z"),
    ("x % y*z", "mod(x, y)*z"),
    ("+x - +y", "x - y"),
    ("x*-y", "x*(-y)"),
    ("-x*y", "(-x)*y"),
    ("not x < y", "not (x < y)"),
    ("not x and y or z", "((not x) and y) or z"),
    ("x or y and z", "x or (y and z)"),
    ("a + b < c*d", "(a + b) < (c*d)"),
    ("0 < x <= 1", "0 < x and x <= 1"),
    ("0 < x + y <= 1", "m = x + y; 0 < m and m <= 1"),
    ("a < b < c < d", "a < b and b < c and c < d"),
    ("x²", "x^2"),
    ("x⁻¹", "x^-1"),
    ("x⁺¹²", "x^12"),
    ("-x²", "-(x^2)"),
    ("(x + 1)²", "(x + 1)^2"),
    ("x^2²", "x^(2^2)"),
    ("x²^3", "(x^2)^3"),
    ("2×x·y÷z−1", "2*x*y/z - 1"),
    ("x ≤ y", "x <= y"),
    ("x ≥ y", "x >= y"),
    ("x ≠ y", "x != y"),
    ("2*π*r", "2*pi*r"),
    ("µ", "μ"),
    ("cafe\u0301", "café"),
    ("ln(x)", "log(x)"),
    ("Φ(x)", "normal_cdf(x)"),
    ("sin (x)", "sin(x)"),
    ("a = x + y; b = x - y; a*b", "(x + y)*(x - y)"),
    ("a = x + y; a*a", "square_of(t) = t*t; square_of(x + y)"),
    ("a = x + 1\n", "x + 1"),
    ("f(t) = t^2 + 1; f(x)*f(y)", "(x^2 + 1)*(y^2 + 1)"),
    ("f(t) = t + x; f(y)", "y + x"),
    ("f(t) = t*c\n g(u, v) = f(u) + f(v)\n g(x, y)", "x*c + y*c"),
    ("a = 2*x; f(t) = t + a; f(a)", "a = 2*x; a + a"),
    ("f(x) = x^2; f(y) + x", "y^2 + x"),
    ("(x\n + y)", "x + y"),
    ("((x)\n + y)", "x + y"),
    ("x +\n\n y", "x + y"),
    *[(f"x {op}\n y", f"x {op} y") for op in ("+", "-", "*", "/", "^", "%", "<", "==", "and", "or")],
    ("not\n x", "not x"),
    ("-\n x", "-x"),
    ("max(x,\n y)", "max(x, y)"),
    ("a =\r\n x\r\n a*2", "x*2"),
    ("x # half\n", "x"),
    ("# first\n\n x # last", "x"),
    (";;x;;", "x"),
    ("\ufeffx\u00a0+ y", "x + y"),
    ("gamma*beta + sin", "gamma*beta+sin"),
    ("sin = 2*x; sin(sin)", "t = 2*x; sin(t)"),
    ("a*b @ c*d", "((a*b) @ c)*d"),
    ("-A @ x + b", "((-A) @ x) + b"),
    ("A @ x^2", "A @ (x^2)"),
    ("v[0]^2", "(v[0])^2"),
    ("-v[0]", "-(v[0])"),
    ("M[0][1]", "(M[0])[1]"),
    ("[a, b]²[0]", "([a, b]^2)[0]"),
    ("i = 1; v[i]", "v[1]"),
    ("f(v, i) = v[i] + v[0]; f(u, 1)", "u[1] + u[0]"),
    ("[a,\n b\n]", "[a, b]"),
    ("W: 2x3\nv : 3 # three\nW @ v", "W @ v"),
    ("W:2 x 3;W@v", "W @ v"),
    ("W: 2×3; W@v", "W @ v"),
]


@each(("text", "meaning"), SAME)
def test_two_ways_to_write_one_graph(text: str, meaning: str) -> None:
    assert identical(read(text).output, read(meaning).output)


LAYERS = [
    ("dense(v, 2, relu)", "relu(dense.0.weight @ v + dense.0.bias)", ["v: 3"]),
    ("dense(x, 2)", "dense.0.weight @ [x] + dense.0.bias", []),
    ("dense(x, 2, swish)[0]", "silu(dense.0.weight @ [x] + dense.0.bias)[0]", []),
    (
        "h = dense([a, b], 4, tanh); softmax(dense(h, 3))",
        "h = tanh(dense.0.weight @ [a, b] + dense.0.bias); softmax(dense.1.weight @ h + dense.1.bias)",
        [],
    ),
    (
        "y ~ mlp([a, b], [4, 3], relu)",
        "h = relu(mlp.0.weight @ [a, b] + mlp.0.bias)\n"
        "(mlp.2.weight @ relu(mlp.1.weight @ h + mlp.1.bias) + mlp.2.bias)[0]",
        [],
    ),
    ("mlp(x, [5])", "(mlp.1.weight @ tanh(mlp.0.weight @ [x] + mlp.0.bias) + mlp.1.bias)[0]", []),
    ("[y1, y2] ~ mlp(x, [5])", "mlp.1.weight @ tanh(mlp.0.weight @ [x] + mlp.0.bias) + mlp.1.bias", []),
    (
        "f(t) = sum(dense(t, 2)); f(x) + f(y)",
        "sum(dense.0.weight @ [x] + dense.0.bias) + sum(dense.0.weight @ [y] + dense.0.bias)",
        [],
    ),
]


@each(("text", "meaning", "declarations"), LAYERS, ids=[text for text, _, _ in LAYERS])
def test_a_layer_is_what_it_stands_for(text: str, meaning: str, declarations: list[str]) -> None:
    assert identical(read("\n".join([*declarations, text])).output, read("\n".join([*declarations, meaning])).output)


def test_the_parameters_of_layers_have_names_shapes_and_beginnings() -> None:
    program = read("y ~ mlp([a, b], [4], relu) + mlp(a, [2])")
    assert list(program.leaves)[:4] == ["y", "a", "b", "mlp.0.weight"]
    assert program.shapes == {
        "mlp.0.weight": (4, 2),
        "mlp.0.bias": (4,),
        "mlp.1.weight": (1, 4),
        "mlp.1.bias": (1,),
        "mlp2.0.weight": (2, 1),
        "mlp2.0.bias": (2,),
        "mlp2.1.weight": (1, 2),
        "mlp2.1.bias": (1,),
    }
    assert list(program.layer_parameters) == list(program.shapes)
    assert program.layer_parameters["mlp.0.weight"] == ("weight", "relu")
    assert program.layer_parameters["mlp2.0.bias"] == ("bias", "tanh")
    assert program.layer_parameters["mlp.1.weight"] == ("weight", None)


@each(
    ("text", "outputs", "length"),
    [
        ("y ~ mlp(x, [5])", None, 1),
        ("[y1, y2] ~ mlp(x, [5])", None, 2),
        ("h = mlp(x, [5]); [y1, y2, y3] ~ h", None, 3),
        ("t = [y1, y2]; u = t; h = mlp(x, [5]); log(u) ~ h*2", None, 2),
        ("v: 4; v ~ mlp(x, [5])", None, 4),
        ("k ~ softmax(mlp(x, [5]))", 3, 3),
        ("mlp(x, [5])", 2, 2),
    ],
)
def test_a_network_is_as_wide_as_the_target(text: str, outputs: int | None, length: int) -> None:
    assert read(text, outputs=outputs).shapes["mlp.1.bias"] == (length,)


def test_a_parameter_of_a_layer_can_be_used_by_its_name() -> None:
    program = read("y ~ mlp(x, [5]) + sum(mlp.0.weight^2)")
    assert list(program.leaves).count("mlp.0.weight") == 1
    assert program.arrays == set()


def test_the_names_of_layers_are_ordinary_where_nothing_is_called() -> None:
    assert list(read("mlp*dense + relu + mlp.0").leaves) == ["mlp", "dense", "relu", "mlp.0"]


def test_declared_shapes_are_those_of_names_that_are_used() -> None:
    program = read("W: 2x3; unused: 4; b: 2; x + b + W @ v")
    assert program.shapes == {"W": (2, 3), "b": (2,)}
    assert list(program.leaves) == ["W", "b", "x", "v"]
    assert program.notes == ("`unused` is declared but never used",)


@each(
    ("text", "names"),
    [
        ("x*y", ""),
        ("[x, y]", ""),
        ("A @ x", "A x"),
        ("A: 2x3; A @ x", "x"),
        ("sum(v)", "v"),
        ("mean(2*v + 1)", "v"),
        ("sum(v*w)", "v w"),
        ("sum(a*[x, y])", ""),
        ("v: 3; softmax(v/t)", ""),
        ("v: 3; sum(broadcast_like(x, v)*y)", ""),
        ("W: 2x3; softmax(W @ x + b)", "x"),
        ("softmax(W @ x + b)", "W x b"),
        ("W: 2x3; sum(x @ W + b)", "x"),
        ("v: 3; sum(v @ x + b)", "x b"),
        ("sum(v)*w", "v"),
        ("max(v)", "v"),
        ("max(v, w)", ""),
        ("M[0, 1]", "M"),
        ("exp(v)[0]", "v"),
        ("concat(u, [x, y])", "u"),
        ("dot(transpose(u), outer(p, q))", "u p q"),
        ("norm(a) + prod(b) + logsumexp(c) + logsoftmax(d) + min(f)", "a b c d f"),
        ("f(t) = sum(t); f(v)", "v"),
        ("u = sum(v); x", "v"),
    ],
)
def test_names_that_have_to_be_arrays(text: str, names: str) -> None:
    assert read(text).arrays == set(names.split())


def test_what_is_known_only_later_is_not_refused() -> None:
    for text in ("A @ [1, 2, 3]", "dot(v, [1, 2])", "v + [1, 2]", "[a, b] + v[3]", "M: 2x3; M @ x + b"):
        assert read(text).leaves


def test_shapes_that_turn_out_wrong_later_are_shown_at_their_place() -> None:
    program = read("x + A @ v")
    with pytest.raises(ShapeError) as caught:
        infer_shapes(Tape((program.output,)), {"A": (2, 3), "v": (2,)})
    error = shape_error(caught.value, program.source)
    assert (error.line, error.column) == (1, 7)
    assert "2x3 @ 2" in error.message
    assert shape_error(caught.value, None).start is None


@each("text", ["2", "2.5", ".5", "2.", "1e-3", "6.02E23", "2.50", "0007", "1e+22"])
def test_a_number_stays_as_written(text: str) -> None:
    assert read(text).output.text == text


def test_a_name_used_twice_is_one_node_and_repeated_text_is_two() -> None:
    total = read("sin(x) + sin(x)").output
    first, second = total.inputs
    assert first is not second
    assert first.inputs[0] is second.inputs[0]


@each(
    "name",
    [
        "x.y",
        "mlp.0.weight",
        "x.0.1",
        "é.ŷ.2",
        "x1.2",
        "λ",
        "x₁",
        "θ_0",
        "x̂",
        "_",
        "длина",
        "変数",
        "e1",
        "x2y",
        "not_",
        "android",
        "ifo",
    ],
)
def test_names_of_any_script(name: str) -> None:
    assert list(read(f"{name} + 1").leaves) == [name]


def test_free_names_come_in_the_order_of_the_text() -> None:
    text = "f(t) = t*d + c\n unused = b\n y ~ f(x) + a*b + pi"
    assert list(read(text).leaves) == ["d", "c", "b", "y", "x", "a"]


def test_a_model_has_a_target() -> None:
    model = read("log(y) ~ a*exp(-b*x)")
    assert model.target is not None
    assert identical(model.target, read("log(y)").output)
    assert identical(model.output, read("a*exp(-b*x)").output)
    assert read("x + y").target is None


def test_a_function_can_be_the_target_of_a_model() -> None:
    model = read("f(t) = t^2; f(y) ~ x")
    assert model.target is not None
    assert identical(model.target, read("y^2").output)


def test_the_last_binding_is_the_output_and_has_its_name() -> None:
    program = read("a = x + 1; b = a*2")
    assert program.source.names == {program.output.inputs[0]: "a", program.output: "b"}


def test_a_node_with_two_names_goes_by_the_first() -> None:
    program = read("a = x + 1; b = a; a*b")
    assert list(program.source.names.values()) == ["a"]


def test_constants_are_not_variables_unless_they_are_declared_or_bound() -> None:
    assert list(read("pi*tau*e*inf*nan*x").leaves) == ["x"]
    assert list(read("e*x", variables=["e"]).leaves) == ["e", "x"]
    assert list(read("π*x", variables=["π"]).leaves) == ["pi", "x"]
    assert list(read("x", variables=["e"]).leaves) == ["x"]
    assert identical(read("e = x + 1; e*2").output, read("(x + 1)*2").output)


@each(
    ("text", "variables", "notes"),
    [
        ("x", [], []),
        ("c = x; 2", [], ["`c` is bound but never used"]),
        ("f(t) = t; 2", [], ["`f` is defined but never used"]),
        ("a = x; f(t) = t; b = x; 2", [], ["`a`, `b` are bound but never used", "`f` is defined but never used"]),
        ("f(c) = c; c = 1; f(2)", [], ["`c` is bound but never used"]),
        ("a = 1; b = a", [], []),
        ("e*x", ["e"], ["`e` is a variable here, not the constant 2.71828…"]),
        ("x", ["e"], []),
        ("pi = 3; pi*x", [], ["`pi` is a variable here, not the constant 3.14159…"]),
        ("inf = 3; inf*x", [], ["`inf` is a variable here, not the constant"]),
        ("f(e) = e^2; f(x) + e", [], []),  # the parameter `e` is one in `f` only
        ("e(t) = t^2; e(x)", [], []),
    ],
)
def test_notes(text: str, variables: list[str], notes: list[str]) -> None:
    assert list(read(text, variables).notes) == notes


def test_every_function_of_the_table_can_be_called() -> None:
    reached: set[Node | object] = set()
    for name in function_names():
        for count in (1, 2, 3, 4, 5):
            op = next((op for op in all_ops() if name in (op.spelling, *op.aliases) and op.accepts(count)), None)
            if op is not None:
                assert read(f"{name}({', '.join('vwxyz'[:count])})").output.op is op
                reached.add(op)
    assert reached == {op for op in all_ops() if op.spelling}


def test_the_text_of_a_program_is_stored_unchanged() -> None:
    assert read(" π*x # c\n").text == " π*x # c\n"

"""What the language means, as pairs of texts that are one graph, and what a program tells of its names."""

from __future__ import annotations

import pytest

from autodiff_cli.graph.node import Node
from autodiff_cli.language.lowering import read
from autodiff_cli.ops import all_ops, function_names
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
    ("max(x,\n y)", "max(x, y)"),
    ("a =\r\n x\r\n a*2", "x*2"),
    ("x # half\n", "x"),
    ("# first\n\n x # last", "x"),
    (";;x;;", "x"),
    ("\ufeffx\u00a0+ y", "x + y"),
    ("gamma*beta + sin", "gamma*beta+sin"),
    ("sin = 2*x; sin(sin)", "t = 2*x; sin(t)"),
]


@pytest.mark.parametrize(("text", "meaning"), SAME)
def test_two_ways_to_write_one_graph(text: str, meaning: str) -> None:
    assert identical(read(text).output, read(meaning).output)


@pytest.mark.parametrize("text", ["2", "2.5", ".5", "2.", "1e-3", "6.02E23", "2.50", "0007", "1e+22"])
def test_a_number_stays_as_written(text: str) -> None:
    assert read(text).output.text == text


def test_a_name_used_twice_is_one_node_and_repeated_text_is_two() -> None:
    total = read("sin(x) + sin(x)").output
    first, second = total.inputs
    assert first is not second
    assert first.inputs[0] is second.inputs[0]


@pytest.mark.parametrize("name", ["λ", "x₁", "θ_0", "x̂", "_", "длина", "変数", "e1", "x2y", "not_", "android", "ifo"])
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


@pytest.mark.parametrize(
    ("text", "variables", "notes"),
    [
        ("x", [], []),
        ("c = x; 2", [], ["`c` is bound but never used"]),
        ("f(t) = t; 2", [], ["`f` is defined but never used"]),
        ("f(c) = c; c = 1; f(2)", [], ["`c` is bound but never used"]),
        ("a = 1; b = a", [], []),
        ("e*x", ["e"], ["`e` is a variable here, not the constant 2.71828…"]),
        ("x", ["e"], []),
        ("pi = 3; pi*x", [], ["`pi` is a variable here, not the constant 3.14159…"]),
        ("f(inf) = inf + 1; f(x)", [], ["`inf` is a variable here, not the constant"]),
    ],
)
def test_notes(text: str, variables: list[str], notes: list[str]) -> None:
    assert list(read(text, variables).notes) == notes


def test_every_function_of_the_table_can_be_called() -> None:
    reached: set[Node | object] = set()
    for name in function_names():
        for count in (1, 2, 3):
            call = f"{name}({', '.join('xyz'[:count])})"
            op = next((op for op in all_ops() if name in (op.spelling, *op.aliases) and op.accepts(count)), None)
            if op is not None:
                assert read(call).output.op is op
                reached.add(op)
    assert reached == {op for op in all_ops() if op.spelling}


def test_text_is_kept_as_given() -> None:
    assert read(" π*x # c\n").text == " π*x # c\n"

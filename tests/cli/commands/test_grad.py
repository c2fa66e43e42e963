"""`autodiff grad`, as text and as JSON."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.each import each
from tests.support import expect_refusal, run_cli

X, Y = 3 + math.cos(2), 2.0


def test_value_gradient_and_nodes_in_a_pipe() -> None:
    output = run_cli('grad "x*y + sin(x)" --x 2 --y 3')
    assert output.status == 0
    assert output.stderr == ""
    assert output == (
        "x*y + sin(x)\n"
        "at x = 2, y = 3\n"
        "\n"
        "value = 6.909297426825682\n"
        "\n"
        "gradient\n"
        "  d/dx = 2.5838531634528574\n"
        "  d/dy = 2\n"
        "\n"
        "nodes, each after its inputs\n"
        "  id  node             value  sensitivity\n"
        "   0  x                    2      2.58385\n"
        "   1  y                    3            2\n"
        "   2  x*y                  6            1\n"
        "   3  sin(x)        0.909297            1\n"
        "   4  x*y + sin(x)    6.9093            1\n"
    )


def test_json() -> None:
    document = run_cli('grad "x*y + sin(x)" --x 2 --y 3 --json').json
    assert document["gradient"] == {"x": X, "y": Y}
    assert document["variables"] == {"x": 2.0, "y": 3.0}


def test_without_values_the_derivatives_are_formulas_with_a_hint() -> None:
    output = run_cli('grad "x*y + sin(x)"')
    assert output.status == 0
    assert output.splitlines()[:2] == ["d/dx = y + cos(x)", "d/dy = x"]
    assert "--x 2 --y 2" in output
    assert run_cli('grad "x*y + sin(x)" --json').json == {
        "expression": "x*y + sin(x)",
        "variables": ["x", "y"],
        "derivatives": {"x": "y + cos(x)", "y": "x"},
    }


def test_an_expression_without_variables_is_evaluated() -> None:
    output = run_cli("grad 2*3 --json")
    assert (output.json["value"], output.json["gradient"], output.status) == (6.0, {}, 0)
    assert "value = 6" in run_cli("grad 2*3")


def test_wrt_chooses_variables() -> None:
    assert run_cli('grad "x*y*z" --x 2 --y 3 --z 4 --wrt "z, x" --json').json["gradient"] == {"z": 6.0, "x": 12.0}
    assert [*run_cli("grad x*y --wrt y --json").json["derivatives"]] == ["y"]


def test_digits_set_all_numbers() -> None:
    output = run_cli("grad sin(x) --x 2 --digits 3")
    assert "value = 0.909\n" in output
    assert "d/dx = -0.416\n" in output
    assert "0.90929742682568171" in run_cli("grad sin(x) --x 2 --digits 17")


@each("value", ["pi/4", "-(1/3)^2", "1e-3", "sqrt(2)", "tau", "-.5"])
def test_a_value_is_any_constant_expression(value: str) -> None:
    names = {"pi": math.pi, "tau": math.tau, "sqrt": math.sqrt}
    expected = eval(value.replace("^", "**"), names)
    assert run_cli(["grad", "x", "--x", value, "--json"]).json["value"] == expected


def test_a_variable_may_have_the_name_of_an_option_or_of_a_constant() -> None:
    assert run_cli("grad json*wrt --set json=2 --set wrt=3 --json").json["gradient"] == {"json": 3.0, "wrt": 2.0}
    output = run_cli("grad e*x --e 3 --x 2 --json")
    assert output.json["gradient"] == {"e": 2.0, "x": 3.0}
    assert "`e`" in output.stderr


def test_expressions_come_from_files_and_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "formula.txt"
    file.write_bytes("\ufeffa = x + y\na*λ\n".encode())
    assert run_cli(["grad", f"@{file}", "--x", "1", "--y", "2", "--λ", "3", "--json"]).json["value"] == 9.0
    assert run_cli("grad - --x 3 --json", stdin="x^2\n").json["gradient"] == {"x": 6.0}


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "formula.txt"
    if content is not None:
        file.write_bytes(content)
    output = run_cli(["grad", f"@{file}"])
    assert (output.status, output) == (2, "")
    assert "formula.txt" in output.stderr


# fmt: off
BAD = [
    ("grad x*y --x 2",           "no value for `y`; add --y 2"),
    ("grad x*y*z --x 2",         "no value for `y`, `z`"),
    ("trace a+b+c+d+f+g+h+k",    "--g 2 --h 2 --k 2\n"),
    ("trace a+b+c+d+f+g+h+k+l",  "--g 2 --h 2 --k 2 …\n"),
    ("grad x*digits --x 2",      "no value for `digits`; add --set digits=2"),
    ("grad x*help --x 2",        "no value for `help`; add --set help=2"),
    ("grad x*step --x 2",        "no value for `step`; add --step 2"),
    ("trace x*step --x 2",       "no value for `step`; add --set step=2"),
    ("grad x*yy --x 2 --y 2",    "Did you mean `--yy`?"),
    ("grad x --x 2 --dgits 3",   "did you mean --digits?"),
    ("grad x --x 2 --digits 0",  "--digits"),
    ("grad x --x 2 --digits z",  "not `z`"),
    ("grad x --x y",             "the value of `x` must be a number or a constant expression, not `y`"),
    ("grad x --x '2 kg'",        "not `2 kg`; numbers have no units: write 2"),
    ("grad x --x '9.81 m/s^2'",  "numbers have no units: write 9.81"),
    ("grad x --x -1.5e-3mm",     "numbers have no units: write -1.5e-3"),
    ("grad x --x 2pm0.1",        "not `2pm0.1`\n"),
    ("grad x --x 1k",            "not `1k`\n"),
    ("grad x --x '(2.0 ± 0.1)'", "a value and its error are written 2+-0.1"),
    ("grad x --x (2±1)e-3",      "not `(2±1)e-3`"),
    ("grad x --x 2*",            "the value of `x`: line 1, column 3"),
    ("grad x --wrt y --x 2",     "--wrt y: the expression has no variable `y`"),
    ("grad 'a = x^2; a' --a 3",  "`a`"),
    ("grad 'x*'",                "line 1, column 3"),
    ("grad sine(x) --x 1",       "sin"),
    ("grad 2x --x 1",            "2*x"),
    ("grad 'y ~ x' --x 1",       "`~`"),
    ("grad x --set x",           "--set takes NAME=VALUE"),
    ("grad ''",                  "error: "),
]
# fmt: on


@each(("line", "message"), BAD)
def test_bad_input_has_status_2_a_message_and_no_output(line: str, message: str) -> None:
    expect_refusal(run_cli(line), message)


def test_warnings_are_shown() -> None:
    output = run_cli("grad x^n --x -2 --n 3")
    assert "d/dx = 12\n" in output
    assert "d/dn = nan\n" in output
    assert "domain: x^n" in output
    (warning,) = run_cli("grad x^n --x -2 --n 3 --json").json["warnings"]
    assert (warning["kind"], warning["node"]) == ("domain", 2)


def test_no_text_gives_the_terminal_orders() -> None:
    assert "\x1b" not in run_cli(["grad", "x # \x1b[31mred", "--x", "1"], terminal=80)
    assert "\x1b" not in run_cli(["grad", "x + \x1b[31m"]).stderr


@pytest.mark.slow
def test_a_long_expression_fits_a_terminal_and_a_pipe_gets_all_of_it() -> None:
    line = ["grad", "+".join(["x*y"] * 1000), "--x", "1", "--y", "2"]
    drawn, piped = run_cli(line, terminal=80), run_cli(line)
    assert len(drawn.splitlines()) < 200
    assert "rows omitted" in drawn
    assert len(piped.splitlines()) > 2000
    assert len(run_cli(line[:2], terminal=80).splitlines()) < 30


def test_the_hint_how_to_evaluate_can_be_typed() -> None:
    for line in ("grad json*x", "grad json*x --symbolic"):
        assert run_cli(line).endswith("give each variable a value: --set json=2 --x 2\n")
    assert run_cli("grad json*x --set json=2 --x 2 --json").json["value"] == 4.0

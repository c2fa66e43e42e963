"""`autodiff trace`, as text and as JSON."""

from __future__ import annotations

import pytest

from tests.each import each
from tests.support import expect_refusal, run_cli

POINT = "--x 2 --y 3"


def test_both_passes_in_words() -> None:
    output = run_cli(f'trace "x*y + sin(x)" {POINT}')
    assert output.status == 0
    assert output == (
        "x*y + sin(x)\n"
        "at x = 2, y = 3\n"
        "\n"
        "forward pass: from the inputs to the output\n"
        "  1. x*y = 2 × 3 = 6\n"
        "  2. sin(x) = sin(2) = 0.909297\n"
        "  3. x*y + sin(x) = 6 + 0.909297 = 6.9093\n"
        "\n"
        "backward pass: from the output to the inputs\n"
        "  The output's adjoint is 1. A node is processed once all its users have contributed to its adjoint.\n"
        "  1. x*y + sin(x), adjoint 1: a sum distributes: each term gets the adjoint, unchanged\n"
        "       x*y: 1 × 1 = 1\n"
        "       sin(x): 1 × 1 = 1\n"
        "  2. sin(x), adjoint 1: sin scales by its slope, cos(2) = -0.416147\n"
        "       x: -0.416147 × 1 = -0.416147, use 1 of 2: total so far -0.416147\n"
        "  3. x*y, adjoint 1: a product swaps: each factor gets the adjoint times the value of the other factor\n"
        "       x: 3 × 1 = 3, the last of 2 uses: total 2.58385\n"
        "       y: 2 × 1 = 2\n"
        "\n"
        "value = 6.909297426825682\n"
        "\n"
        "gradient\n"
        "  d/dx = 2.5838531634528574\n"
        "  d/dy = 2\n"
    )


def test_json_has_the_keys_of_grad_and_the_steps() -> None:
    document = run_cli(f'trace "x*y + sin(x)" {POINT} --json').json
    gradient = run_cli(f'grad "x*y + sin(x)" {POINT} --json').json
    assert {key: document.pop(key) for key in gradient} == gradient
    assert [*document] == ["forward", "backward"]
    assert [step["node"] for step in document["forward"]] == [2, 3, 4]
    assert [step["node"] for step in document["backward"]] == [4, 3, 2]


def test_digits_set_all_numbers() -> None:
    output = run_cli(f'trace "x*y + sin(x)" {POINT} --digits 3')
    assert "cos(2) = -0.416\n" in output
    assert "value = 6.91\n" in output


def test_values_are_needed() -> None:
    output = run_cli("trace x*y --x 2")
    assert (output.status, output) == (2, "")
    assert "no value for `y`" in output.stderr


@pytest.mark.parametrize("width", [40, 60, 100])
def test_a_terminal_of_any_width_loses_nothing(width: int) -> None:
    piped = run_cli(f'trace "x*y + sin(x)" {POINT}')
    drawn = run_cli(f'trace "x*y + sin(x)" {POINT}', terminal=width)
    assert max(map(len, drawn.splitlines())) <= width
    assert drawn.split() == piped.split()


@pytest.mark.slow
def test_a_long_trace_fits_a_terminal_and_a_pipe_gets_all_of_it() -> None:
    line = ["trace", "sin(" * 3000 + "x" + ")" * 3000, "--x", "1"]
    drawn, piped = run_cli(line, terminal=80), run_cli(line)
    assert len(drawn.splitlines()) < 400
    assert "2940 steps omitted" in drawn
    assert len(piped.splitlines()) > 9000


def test_a_pass_without_steps_has_a_sentence() -> None:
    assert run_cli("trace x --x 2").count("  There is nothing to do.\n") == 2


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ('"W @ x" --x [1,2]', '--W "[[2, 2], [2, 2]]"'),
        ('"W @ x" --W [[1,2],[3,4]]', '--x "[2, 2]"'),
        ('"p = softmax(W @ x + b); -dot(y, log(p))" --x [1,2,3,4] --y [0,1,0]', '[2, 2, 2, 2]]" --b "[2, 2, 2]"'),
    ],
)
def test_suggested_values_fit_the_users_values(words: str, wanted: str) -> None:
    expect_refusal(run_cli(f"trace {words}"), wanted)


@each(
    ("scale", "last"),
    [
        ("1e200", "variance = 1e+299^2 + 1e+299^2 = 2.00000e+598, so the standard error is 1.41421e+299"),
        ("1e-300", "variance = 1e-201^2 + 1e-201^2 = 2.00000e-402, so the standard error is 1.41421e-201"),
        ("1", "variance = 1e+99^2 + 1e+99^2 = 2e+198, so the standard error is 1.41421e+99"),
        ("0", "variance = 0^2 + 0^2 = 0, so the standard error is 0"),
    ],
)
def test_a_variance_may_be_beyond_the_range_of_floats(scale: str, last: str) -> None:
    said = run_cli(["trace", f"x*y*{scale}", "--x", "1e100+-1e99", "--y", "1+-0.1"])
    assert (said.status, said.splitlines()[-1].strip()) == (0, last)

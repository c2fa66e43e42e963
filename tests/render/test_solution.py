"""`trace --format latex`: a worked solution that LaTeX sets."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autodiff_cli as ad
from autodiff_cli.explain.tracing import trace
from autodiff_cli.render.solution import equation_rows, worked_solution
from tests.support import run_cli
from tests.tools import program

_LONG = " + ".join(f"a_{k}*x^{k}" for k in range(1, 15))
_DEEP = "sin(" * 30 + "x" + "*2 + 1)" * 30
_WIDE = f"max({', '.join(f'a{k}*x' for k in range(20))})"
FORMULAS = {
    "x*y + sin(x)": {"x": 2, "y": 3},
    "h = relu(w_1*x + bias); (h - t)^2": {"w_1": 3, "x": -2, "bias": 1, "t": 5},
    "λ*exp(-θ_0^2)/x̂ + learning_rate_max*log(x₁ + x_1 + x1)": dict.fromkeys(
        ("λ", "θ_0", "x̂", "learning_rate_max", "x₁", "x_1", "x1"), 1.25e-7
    ),
    "where(x > 0 and y <= 2, x^y, abs(x))": {"x": -2, "y": 3},
    "`Temp [°C] 50%`*ж + naïve_é": {"Temp [°C] 50%": 2, "ж": 3, "naïve_é": 4},
    "x*f + v*v - v1/(-2) + 2^-v": {"x": 1, "f": 2, "v": 3, "v1": 4},
    "f(t) = t*sin(t); f(x)*f(y)": {"x": 2, "y": 3},
    "min(x, y) + clip(x, 0, 1) + floor(y) + x % y": {"x": 2, "y": 3},
    "log(-x) + sqrt(0*x)": {"x": 1},
    "p = softmax(W @ x + b); -log(p[0])": {"W": [[1, 2], [3, 4]], "x": [1, 2], "b": [0, 1]},
    "sum(tanh(W @ x)*c) + norm(x)": {"W": [[0.1] * 12] * 12, "x": [0.1] * 12, "c": 2},
    "y - x*y + x*exp(x)": {"x": 2, "y": 3},
    "a = x; a": {"x": 2},
    "sum(logsumexp(W @ tanh(V @ [petal_length, petal_width] + b)) - where(moon > 0, moon*softplus(-c), 0))": {
        "W": [[0.4880713598506012, -0.7104831, 0.46369134348052, -0.98720156, 0.3] * 1] * 3,
        "V": [[0.084479851, -0.6]] * 5,
        "b": [0.1] * 5,
        "petal_length": 3.9,
        "petal_width": 1.4,
        "moon": 1,
        "c": 2,
    },
    "2": {},
    _LONG: {"x": 0.5} | {f"a_{k}": k / 7 for k in range(1, 15)},
    _DEEP: {"x": 0.5},
    _WIDE: {"x": 0.5} | {f"a{k}": k / 7 for k in range(20)},
}


def solution(text: str) -> str:
    return worked_solution(trace(ad.parse(text), FORMULAS[text]))


def compiled(source: str, folder: Path) -> str:
    """What pdflatex says of a document."""
    (folder / "f.tex").write_text(source, encoding="ascii")
    command = [program("pdflatex", "texlive-latex-base"), "-interaction=nonstopmode", "-halt-on-error", "f.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout


def test_the_steps_and_the_chain_rule_in_symbols_then_in_numbers() -> None:
    rows = [row.removesuffix(r" \\[2pt]") for row in solution("x*y + sin(x)").splitlines()]
    for row in (
        r"f &= x \, y + \sin\left(x\right)",
        r"v_{1} &= x \, y = 2 \cdot 3 = 6",
        r"v_{2} &= \sin\left(x\right) = \sin\left(2\right) = 0.909297",
        r"\bar{f} &= 1",
        r"\bar{x} &= \bar{v}_{2} \, \frac{\partial v_{2}}{\partial x}"
        r" + \bar{v}_{1} \, \frac{\partial v_{1}}{\partial x}"
        r" = \bar{v}_{2} \cdot \cos\left(x\right) + \bar{v}_{1} \cdot y"
        r" = 1 \cdot \left(-0.416147\right) + 1 \cdot 3 = 2.58385",
        r"\frac{\partial f}{\partial x} &= y + \cos\left(x\right)",
        " &= 2.5838531634528574",
    ):
        assert row in rows


def test_nodes_without_contributions_show_their_true_local_derivative() -> None:
    source = solution("h = relu(w_1*x + bias); (h - t)^2")
    assert r"\bar{v}_{2} &= \bar{h} \, \frac{\partial h}{\partial v_{2}} = \bar{h} \cdot 0" in source
    assert r"\bar{w}_{1} &= 0 \qquad \text{(no contributions)}" in source


def test_a_long_side_is_broken_between_its_terms() -> None:
    terms = [rf"a_{{{k}}} \cdot 12345678" for k in range(20)]
    first, *others = equation_rows("y", [terms, ["3"]])
    assert len(others) > 2
    sides = " ".join([first, *(row.replace(r"&\quad ", "") for row in others)])
    assert sides == f"y &= {' + '.join(terms)}  &= 3"


@pytest.mark.parametrize("text", [text for text in FORMULAS if text != _DEEP])
def test_a_negative_term_of_a_sum_has_brackets(text: str) -> None:
    assert not re.search(r"[+] -", solution(text))


@pytest.mark.slow
def test_all_compile_with_amsmath_alone_and_stay_within_their_lines(tmp_path: Path) -> None:
    sources = [solution(text) for text in FORMULAS]
    preamble = sources[0].partition(r"\begin{document}")[0]
    assert re.findall(r"\\usepackage\{(.*)\}", preamble) == ["amsmath"]
    bodies = [source.partition(r"\begin{document}")[2].rpartition(r"\end{document}")[0] for source in sources]
    log = compiled(preamble + r"\begin{document}" + "\n\\newpage\n".join(bodies) + r"\end{document}", tmp_path)
    assert "Overfull" not in log


def test_names_that_look_alike_are_distinguished() -> None:
    source = solution("λ*exp(-θ_0^2)/x̂ + learning_rate_max*log(x₁ + x_1 + x1)")
    point = re.findall(r"^(\S+) &= 1\.25 \\cdot 10\^\{-7\}", source, re.M)
    assert len(point) == len({*point}) == 7
    assert {r"\lambda", r"\theta_{0}", r"\hat{x}", "x_{1}"} <= {*point}


# fmt: off
SAID = [
    ("sum(v*w)",       {"v": [1, 2], "w": [3, 4]}, [r"u_{1} &= v \odot w", r"&= \bar{u}_{1} \odot w"]),
    ("sum(v + w)",     {"v": [1, 2], "w": [3, 4]}, [r"\bar{v} &= \bar{u}_{1} = "]),
    ("sum(W @ v)",     {"W": [[1, 2]], "v": [3, 4]}, [r"u_{1} &= W \, v"]),
    ("norm(v)",        {"v": [3, 4]}, [r"\frac{v}{f}"]),
    ("rate = 0.5; rate*x", {"x": 3}, [r"\mathrm{rate} &= 0.5", r"f &= \mathrm{rate} \, x = 0.5 \cdot 3 = 1.5"]),
    ("log(x)",         {"x": -1}, [r"\bar{f} \cdot \text{undefined}"]),
    ("0^x + x",        {"x": 2}, [r"\bar{v}_{1} \cdot 0 "]),
]
# fmt: on


@pytest.mark.parametrize(("text", "point", "lines"), SAID)
def test_products_names_and_slopes_are_set_as_what_they_are(text: str, point: dict[str, Any], lines: list[str]) -> None:
    source = worked_solution(trace(ad.parse(text), point))
    assert [line for line in lines if line not in source] == []
    assert "direction" not in source


def test_a_matrix_of_rows_has_rows() -> None:
    values = {name: k for k, name in enumerate("abcd")}
    text = worked_solution(trace(ad.parse("sum([[a, b, 1], [c, d, 2]] @ [a, b, where(c > 0, a, d)])"), values))
    assert r"\begin{pmatrix} a & b & 1 \\ c & d & 2 \end{pmatrix}" in text


def test_a_derivative_without_a_value_has_no_formula() -> None:
    source = worked_solution(trace(ad.parse("log(x)*y"), {"x": -1, "y": 2}))
    assert r"\frac{\partial f}{\partial x} &= \text{undefined}" in source


def test_a_derivative_whose_formula_has_another_value_there_is_a_number_alone() -> None:
    source = worked_solution(trace(ad.parse("x^y"), {"x": 0.0, "y": 0.0}))
    assert r"\frac{\partial f}{\partial x} &= 0" in source
    source = worked_solution(trace(ad.parse("x^y"), {"x": 2.0, "y": 3.0}))
    assert r"\frac{\partial f}{\partial x} &= y \, x^{y - 1}" in source


@pytest.mark.parametrize("options", ["--format latex", "-o solution.tex"])
def test_the_command(options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    output = run_cli(f"trace x*y --x 2 --y 3 --digits 3 {options}")
    written = output or (tmp_path / "solution.tex").read_text()
    assert output.status == 0
    assert written.startswith("% x*y\n\\documentclass")


def test_the_loss_of_a_row(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("x,y\n1,2\n")
    output = run_cli(f'trace "y ~ a*x" {tmp_path}/d.csv --row 1 --a 3 --format latex')
    assert r"L &= \left(y - a \, x\right)^{2}" in output
    assert r"\frac{\partial L}{\partial a} &= -2 \, x \, \left(y - a \, x\right)" in output


def test_derivatives_of_large_formulas_are_numbers_alone() -> None:
    for terms in (9, 60):
        text = worked_solution(trace(ad.parse(" + ".join(f"x^{k}" for k in range(2, terms))), {"x": 1}))
        slope = sum(range(2, terms))
        assert (rf"\frac{{\partial f}}{{\partial x}} &= {slope}" in text) == (terms == 60)
        assert (r"\frac{\partial f}{\partial x} &= 2 \, x" in text) == (terms == 9)


@pytest.mark.parametrize("count", [7, 8, 9, 12])
def test_of_many_operands_the_first_and_the_last_are_set(count: int) -> None:
    point = {f"a{k}": float(k) for k in range(1, count + 1)}
    text = worked_solution(trace(ad.parse(f"max({', '.join(point)})"), point))
    assert (r"\dots" in text) == (count > 8)
    shown = [*point] if count <= 8 else [*[*point][:6], f"a{count}"]
    (line,) = {line for line in re.findall(r"\\max\\left\(([^()]*)\\right\)", text) if "a_" in line}
    assert re.findall(r"a_\{?(\d+)", line) == [name[1:] for name in shown]


@pytest.mark.parametrize(("low", "words"), [(1.0, "from $1$ to $1600$"), (1600.0, "all $1600$")])
def test_a_large_array_is_set_as_its_shape_and_range(low: float, words: str) -> None:
    values = np.linspace(low, 1600, 1600).reshape(20, 80)
    text = worked_solution(trace(ad.parse("sum(M*M)"), {"M": values}))
    assert rf"\text{{$20 \times 80$ numbers, {words}}}" in text

"""Reports are paragraphs: a line at the margin begins one, and an empty line stands before it."""

from __future__ import annotations

from itertools import pairwise

from tests.each import each
from tests.support import ROOT, run_cli

DECAY = ROOT / "docs" / "data" / "decay.csv"


@each(
    "line",
    [
        'grad "x*y + sin(x)" --x 2 --y 3 --hessian --symbolic --direction x=1,y=2',
        'grad "x^3" --x 2 --order 2',
        'grad "x^3" --x 0.1 --precision 30',
        'grad "[r*cos(t), r*sin(t)]" --r 2 --t pi/3 --jacobian',
        'grad "x*y" --x 2+-0.1 --y "3.0(2)" --monte-carlo 1000',
        'grad "x^2*sin(x)" --x 1.9..2.1',
        'grad "x*y + sin(x)" --x 2 --y 3 --mode forward',
        'grad "sum(tanh(W @ x))" --W "[[1, 2], [3, 4]]" --x "[1, 2]"',
        'grad "abs(x)" --x 0',
        'trace "x*y + sin(x)" --x 2 --y 3 --paths',
        'check "(1 - cos(x))/x^2" --x 1e-8',
        'solve "x^3 - 2*x - 5" --x 0..3',
        'minimize "x^2 + y^2 + x*y" --x -1..1 --y -1..1',
        'minimize "x^2 + y^2 + x*y" --x 1 --y 2',
        f'train "y ~ a*exp(-b*x)" {DECAY} --profile --derive "half = ln(2)/b" --bounds b=0:1',
        f'train "y ~ a*exp(-b*x)" {DECAY} --optimizer adam --epochs 5 --validation 0.2',
        f'compare {DECAY} "y ~ a*exp(-b*x)" "y ~ a + b*x"',
        f"data {DECAY}",
        "ops sin",
        "doctor",
    ],
)
def test_paragraphs_stand_apart(line: str) -> None:
    lines = run_cli(line).removesuffix("\n").split("\n")
    assert lines[0]
    assert lines[-1]
    assert all(text == text.rstrip() for text in lines)
    for before, after in pairwise(lines):
        assert before or after, "two empty lines"
        assert not (before.startswith(" ") and after and not after.startswith(" ")), (before, after)

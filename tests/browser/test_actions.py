"""What readers do in any order: pages go on working, whatever is pressed, typed, dragged or scrolled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.support import opened, resize
from tests.support import run_cli

if TYPE_CHECKING:
    from playwright.sync_api import Page

ACTIONS = Path(__file__).with_name("actions.js").read_text(encoding="utf-8")
D1 = "d1 = (log(S/K) + (r + s^2/2)*T)/(s*sqrt(T))"
BLACK_SCHOLES = f"{D1}; S*normal_cdf(d1) - K*normal_cdf(d1 - s*sqrt(T))"
TRACES = {
    "arrays": ["W: 2x3; norm(tanh(W@x))", "--W=[[1, 2, 3], [0.5, -1, 2]]", "--x=[0.1, 0.2, -0.3]"],
    "folds": [BLACK_SCHOLES, "--S=100", "--K=95", "--r=0.02", "--s=0.2", "--T=0.5"],
    "constants": ["2^10 + pi"],
    "kinks": ["where(x > 0, sqrt(x), 5*x) + max(x, y) + abs(y)", "--x=0", "--y=0"],
}
SIZES = ((1280, 800), (390, 844), (844, 390))


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", [*TRACES, "fit", "classes", "lesson"])
def test_no_action_breaks_a_page(page: Page, tmp_path: Path, name: str, seed: int) -> None:
    resize(page, *SIZES[seed])
    if name in TRACES:
        opened(page, TRACES[name])
    else:
        page.goto(_written(name, tmp_path).as_uri())
    assert page.evaluate(ACTIONS, [1 + seed, 60]) == []
    page.evaluate("() => new Promise((done) => setTimeout(done, 300))")  # what plays goes on


def _written(name: str, folder: Path) -> Path:
    """Return the page of a fit, or of a lesson."""
    data, file = folder / "data.csv", folder / "page.html"
    rows = [(k / 5, 2.5 * 0.8**k + 0.05 * (-1) ** k, "ab"[k % 3 == 0]) for k in range(20)]
    data.write_text("\n".join(["x,y,c", *(",".join(map(str, row)) for row in rows), ""]))
    lines = {
        "fit": ["train", "y ~ a*exp(-b*x)", str(data), "--page", str(file)],
        "classes": ["train", "c ~ softmax(mlp([x, y], [4]))", str(data), "--epochs", "20", "--page", str(file)],
        "lesson": ["lesson", "training-step", "-o", str(file)],
    }
    assert run_cli(lines[name]).status == 0
    return file

"""An operation added in a module of its own is read everywhere: nothing else has to know of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COMPOSITE = """
from autodiff_cli.ops.arithmetic import equal, where
from autodiff_cli.ops.declaration import composite

ramp = composite(
    "ramp", lambda x: where(x > 1, x * x, x), aliases=("slope",),
    kink=lambda x: equal(x, 1), kink_note="the slopes are 1 and 2; 1 is used", summary="x, and x^2 beyond 1",
)
"""
ELEMENTARY = """
import numpy as np

from autodiff_cli.numbers.arrays import ARRAYS
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.ops.arithmetic import equal, where
from autodiff_cli.ops.declaration import elementary

ramp = elementary(
    "ramp", lambda z, x: where(x > 1, 2 * x, 1), aliases=("slope",),
    kink=lambda x: equal(x, 1), kink_note="the slopes are 1 and 2; 1 is used", summary="x, and x^2 beyond 1",
)
FLOATS.table["ramp"] = lambda x: x * x if x > 1 else x
ARRAYS.table["ramp"] = lambda x: np.where(x > 1, x * x, x)
"""
WALK = """
import sys

import numpy as np

import autodiff_cli as ad
from autodiff_cli.cli.main import main
from autodiff_cli.render.html_page import to_html

assert "ramp" in ad.parse("ramp(x)").text and ad.parse("slope(x)")(x=2) == 4
f = ad.parse("3*ramp(x) + y")
assert f.grad(x=2, y=1) == {"x": 12.0, "y": 1.0} and f.grad(x=0.5, y=1) == {"x": 3.0, "y": 1.0}
assert str(f.derivative("x")) in ("where(x > 1, 6*x, 3)", "3*where(x > 1, 2*x, 1)"), str(f.derivative("x"))
assert f.hessian(x=2, y=1).tolist() == [[6, 0], [0, 0]]
assert f.jvp({"x": 1}, x=2, y=1) == (13.0, 12.0)
assert f.derivatives("x", 2, x=2, y=1) == [13.0, 12.0, 6.0]
assert f.grad(x=[0.5, 2], y=1)["x"].tolist() == [3, 12]
traced = f.trace(x=1, y=1)
assert [warning.kind for warning in traced.warnings] == ["kink"], traced.warnings
assert "ramp" in str(traced)
grid = np.linspace(0, 3, 50)
fit = ad.fit("y ~ a*ramp(x)", {"x": grid, "y": 2.5 * np.where(grid > 1, grid**2, grid)})
assert abs(fit.parameters["a"] - 2.5) < 1e-12
sys.argv = ["autodiff", "ops", "slope"]
assert main() == 0
"""
PAGE = """
assert "function ramp" in to_html(traced)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("module", "page"), [(COMPOSITE, PAGE), (ELEMENTARY, "")], ids=["composite", "elementary"])
def test_a_new_operation_is_one_record_and_its_tables(module: str, page: str, tmp_path: Path) -> None:
    script = tmp_path / "temporary.py"
    script.write_text(module + WALK + page, encoding="utf-8")
    result = subprocess.run([sys.executable, script], capture_output=True, encoding="utf-8", check=False)
    assert result.returncode == 0, result.stderr
    assert "x, and x^2 beyond 1" in result.stdout

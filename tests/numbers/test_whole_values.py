"""Where a value is a whole number it is exact, in every kind of number and language: `floor(log10(1000))` is 3."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from autodiff_cli.backends.llvm.backend import LlvmBackend
from autodiff_cli.backends.numpy_backend import NumpyBackend
from autodiff_cli.export.languages import export
from autodiff_cli.export.program import ExportOptions
from autodiff_cli.expression import parse
from autodiff_cli.graph.node import variable
from autodiff_cli.graph.tape import substitute
from autodiff_cli.language.program import read
from tests.backends.llvm.compiled import by_row, every_width
from tests.each import each
from tests.export.support import Case, in_c, in_fortran, in_javascript, in_python

# Of each formula in x: points, and the values there.
WHOLE = {
    "log10(x)": ([float(f"1e{k}") for k in range(-307, 309)], range(-307, 309)),
    "log(x, 10)": ([float(f"1e{k}") for k in range(-307, 309)], range(-307, 309)),
    "log2(x)": ([2.0**k for k in range(-1022, 1024)], range(-1022, 1024)),
    "log(x, 2)": ([2.0**k for k in range(-1022, 1024)], range(-1022, 1024)),
    "log(x, 3)": ([3.0**k for k in range(33)], range(33)),
    "log(x, 0.5)": ([0.5**k for k in range(60)], range(60)),
    "cbrt(x)": ([float(k**3) for k in range(-2000, 2000)], range(-2000, 2000)),
    "root(x, 3)": ([float(k**3) for k in range(-2000, 2000)], range(-2000, 2000)),
    "root(x, 4)": ([float(k**4) for k in range(2000)], range(2000)),
    "root(x, 5)": ([float(k**5) for k in range(-1000, 1000)], range(-1000, 1000)),
    "sqrt(x)": ([float(k**2) for k in range(2000)], range(2000)),
    "x^0.5": ([float(k**2) for k in range(2000)], range(2000)),
    "exp2(x)": (range(-1022, 1024), [2.0**k for k in range(-1022, 1024)]),
    "2^x": (range(-1022, 1024), [2.0**k for k in range(-1022, 1024)]),
    "10^x": (range(23), [10.0**k for k in range(23)]),
    "x^5": (range(-1000, 1000), [float(k**5) for k in range(-1000, 1000)]),
    "gamma(x)": (range(1, 24), [float(math.factorial(k)) for k in range(23)]),
    "hypot(3*x, 4*x)": (range(2000), range(0, 10_000, 5)),
    "hypot(x, 0)": ([0.1 + k for k in range(2000)], [0.1 + k for k in range(2000)]),
}


def columns(text: str) -> tuple[np.ndarray, np.ndarray]:
    points, values = WHOLE[text]
    return np.array(points, dtype=float), np.array(values, dtype=float)


@each("text", [*WHOLE])
def test_floats_and_arrays(text: str) -> None:
    x, values = columns(text)
    f = parse(text)
    np.testing.assert_array_equal(by_row(NumpyBackend(), [read(text).output], {"x": x}), [values])
    np.testing.assert_array_equal([f(x=each) for each in x[:: 1 + len(x) // 50].tolist()], values[:: 1 + len(x) // 50])


@every_width
def test_kernels(width: int) -> None:
    """All in one kernel, each with a column of its own; a short one begins anew."""
    rows = max(len(points) for points, _ in WHOLE.values())
    at, graphs = {}, []
    for k, text in enumerate(WHOLE):
        at[f"x{k}"] = np.resize(columns(text)[0], rows)
        for program in map(read, (text, f"floor({text})", f"ceil({text})")):
            graphs += substitute([program.output], {program.leaves["x"]: variable(f"x{k}")})
    found = by_row(LlvmBackend(1, width), graphs, at)
    for k, text in enumerate(WHOLE):
        values = np.resize(columns(text)[1], rows)
        wanted = [values, np.floor(values), np.ceil(values)]
        np.testing.assert_array_equal(found[3 * k : 3 * k + 3], wanted, err_msg=text)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "runner"),
    [("c", in_c), ("fortran", in_fortran), ("python", in_python), ("numpy", in_python), ("js", in_javascript)],
)
def test_exported_programs(tmp_path: Path, target: str, runner) -> None:  # type: ignore[no-untyped-def]
    cases = []
    for k, text in enumerate(WHOLE):
        source = export(parse(text), target, ExportOptions(f"f{k}"))
        cases.append(Case(source, f"f{k}", ("x",), [(each,) for each in columns(text)[0].tolist()]))
    for text, results in zip(WHOLE, runner(cases, tmp_path), strict=True):
        np.testing.assert_array_equal([value for value, _ in results], columns(text)[1], err_msg=text)

"""Value and gradient over rows: compiled kernels beside NumPy by hand and C by hand, on one thread, in the same run.

Run it with `python benchmarks/kernels.py`; C needs gcc and glibc's libmvec. Times are the least of many, in
microseconds a call; `/C` is the ratio to C by hand.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # NumPy's too; read when it is imported

import numpy as np

import autodiff_cli as ad

MODELS = {"a": "y ~ a*exp(-b*x) + c*sin(d*x)", "c": "y ~ (a + b*x + c*x^2)/(1 + d*x + f*x^2)"}
ROWS = (1000, 100_000, 1_000_000)

# Functions stand in loops of their own: in one loop, gcc makes one scalar call of sin and cos.
C = """
#include <math.h>
#define STRIP 512
void a(const double *restrict x, const double *restrict y, long n, const double *p, double *out) {
  double v = 0, ga = 0, gb = 0, gc = 0, gd = 0, e[STRIP], s[STRIP], k[STRIP];
  for (long begin = 0; begin < n; begin += STRIP) {
    long m = n - begin < STRIP ? n - begin : STRIP;
    const double *u = x + begin, *w = y + begin;
    for (long i = 0; i < m; i++) e[i] = exp(-p[1] * u[i]);
    for (long i = 0; i < m; i++) s[i] = sin(p[3] * u[i]);
    for (long i = 0; i < m; i++) k[i] = cos(p[3] * u[i]);
    for (long i = 0; i < m; i++) {
      double r = w[i] - (p[0] * e[i] + p[2] * s[i]), g = -2 * r;
      v += r * r; ga += g * e[i]; gb -= g * p[0] * u[i] * e[i]; gc += g * s[i]; gd += g * p[2] * u[i] * k[i];
    }
  }
  out[0] = v / n; out[1] = ga / n; out[2] = gb / n; out[3] = gc / n; out[4] = gd / n;
}
void c(const double *restrict x, const double *restrict y, long n, const double *p, double *out) {
  double v = 0, g0 = 0, g1 = 0, g2 = 0, g3 = 0, g4 = 0;
  for (long i = 0; i < n; i++) {
    double u = x[i], q = 1 / (1 + p[3] * u + p[4] * u * u), z = (p[0] + p[1] * u + p[2] * u * u) * q;
    double r = y[i] - z, g = -2 * r * q, h = -g * z;
    v += r * r; g0 += g; g1 += g * u; g2 += g * u * u; g3 += h * u; g4 += h * u * u;
  }
  out[0] = v / n; out[1] = g0 / n; out[2] = g1 / n; out[3] = g2 / n; out[4] = g3 / n; out[5] = g4 / n;
}
"""


def numpy_a(x: Any, y: Any, p: Any) -> Any:
    e, s, k = np.exp(-p[1] * x), np.sin(p[3] * x), np.cos(p[3] * x)
    r = y - (p[0] * e + p[2] * s)
    g = -2 * r / len(x)
    return [r @ r / len(x), g @ e, -(g * e) @ x * p[0], g @ s, (g * k) @ x * p[2]]


def numpy_c(x: Any, y: Any, p: Any) -> Any:
    square = x * x
    q = 1 / (1 + p[3] * x + p[4] * square)
    z = (p[0] + p[1] * x + p[2] * square) * q
    r = y - z
    g = -2 * r * q / len(x)
    h = -g * z
    return [r @ r / len(x), g.sum(), g @ x, g @ square, h @ x, h @ square]


def compiled_by_gcc(folder: str) -> ctypes.CDLL:
    """C by hand."""
    source, library = Path(folder, "peer.c"), Path(folder, "peer.so")
    source.write_text(C, encoding="utf-8")
    flags = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, str(source), "-o", str(library), "-lmvec", "-lm"], check=True)
    return ctypes.CDLL(str(library))


def least(calls: dict[str, Callable[[], Any]], times: int) -> dict[str, float]:
    """The shortest time of each, taken in turn, in microseconds."""
    found = dict.fromkeys(calls, np.inf)
    for _ in range(times):
        for name, call in calls.items():
            begun = time.perf_counter()
            call()
            found[name] = min(found[name], 1e6 * (time.perf_counter() - begun))
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        library = compiled_by_gcc(folder)
        print(f"{'case':5}{'rows':>9}{'autodiff':>11}{'C':>11}{'/C':>7}{'NumPy':>11}{'/C':>7}")
        for name, model in MODELS.items():
            for rows in ROWS:
                x = np.linspace(0, 5, rows)
                y = np.cos(x)
                objective = ad.Objective(model, {"x": x, "y": y}, backend="llvm", threads=1)
                p = np.full(len(objective.parameters), 0.5)
                out = np.empty(len(p) + 1)
                by_c, by_numpy = getattr(library, name), {"a": numpy_a, "c": numpy_c}[name]
                places = [ctypes.c_void_p(array.ctypes.data) for array in (x, y, p, out)]
                calls = {
                    "autodiff": lambda: objective.value_and_grad(p),  # noqa: B023 - called in this pass
                    "C": lambda: by_c(places[0], places[1], ctypes.c_long(rows), *places[2:]),  # noqa: B023
                    "NumPy": lambda: by_numpy(x, y, p),  # noqa: B023
                }
                value, gradient = objective.value_and_grad(p)
                calls["C"]()
                np.testing.assert_allclose(out, [value, *gradient], rtol=1e-9)
                np.testing.assert_allclose(by_numpy(x, y, p), [value, *gradient], rtol=1e-9)
                found = least(calls, 200 if rows <= 100_000 else 20)
                ratios = [found[who] / found["C"] for who in ("autodiff", "NumPy")]
                print(
                    f"{name:5}{rows:9}{found['autodiff']:11.1f}{found['C']:11.1f}{ratios[0]:7.2f}"
                    f"{found['NumPy']:11.1f}{ratios[1]:7.2f}"
                )


if __name__ == "__main__":
    main()

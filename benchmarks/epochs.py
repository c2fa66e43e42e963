"""Epochs of mini-batches over a million shuffled rows, and steps of a small network: autodiff beside peers, in one run.

Run it with `python benchmarks/epochs.py`. C by hand needs gcc and glibc's libmvec; JAX and PyTorch take part where they
are installed (`pip install --group peers`). All on one thread. Times are the least of some, in milliseconds an
epoch, or microseconds a step. PyTorch is measured over fewer rows, since it takes the same time for each step.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # read when libraries are imported
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import numpy as np

import autodiff_cli as ad
from autodiff_cli.backends.protocol import OptimizerState
from autodiff_cli.training.optimizers import OPTIMIZERS

MODEL = "y ~ a*exp(-b*x) + c*sin(d*x)"
START = {"a": 1.8, "b": 1.1, "c": 0.4, "d": 2.9}
NETWORK = "y ~ mlp(x, [10, 10], tanh)"
ROWS, RATE = 1_000_000, 0.001
CASES = (("sgd", 32), ("adam", 256))
FEWER = 20  # times fewer rows for PyTorch

# Stretches of 32 rows are shuffled, and the rows of windows of 256 stretches, as autodiff does it. Functions stand in
# loops of their own: in one loop, gcc makes one scalar call of sin and cos.
C = """
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#define WINDOW 8192
#define STRETCH 32
#define MOST 256
static uint64_t seed = 88172645463325252ull;
static uint32_t below(uint32_t n) {
  seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17;
  return (uint32_t)(((seed >> 32) * n) >> 32);
}
static void shuffle(int32_t *a, long n) {
  for (long i = n - 1; i > 0; i--) { long j = below(i + 1); int32_t t = a[i]; a[i] = a[j]; a[j] = t; }
}
static void gradient(const double *u, const double *w, long m, const double *p, double *g) {
  double e[MOST], s[MOST], k[MOST], v = 0, ga = 0, gb = 0, gc = 0, gd = 0;
  for (long i = 0; i < m; i++) e[i] = exp(-p[1] * u[i]);
  for (long i = 0; i < m; i++) s[i] = sin(p[3] * u[i]);
  for (long i = 0; i < m; i++) k[i] = cos(p[3] * u[i]);
  for (long i = 0; i < m; i++) {
    double r = w[i] - (p[0] * e[i] + p[2] * s[i]), h = -2 * r;
    v += r * r; ga += h * e[i]; gb -= h * p[0] * u[i] * e[i]; gc += h * s[i]; gd += h * p[2] * u[i] * k[i];
  }
  g[0] = v / m; g[1] = ga / m; g[2] = gb / m; g[3] = gc / m; g[4] = gd / m;
}
double epoch(const double *x, const double *y, long n, long batch, double rate, int adam, double *p, double *memory) {
  long stretches = n / STRETCH, count = 0;
  int32_t *begin = malloc(4 * stretches), *within = malloc(4 * WINDOW);
  double *u = malloc(8 * WINDOW), *w = malloc(8 * WINDOW), total = 0, g[5], b1 = memory[8], b2 = memory[9];
  for (long i = 0; i < stretches; i++) begin[i] = i * STRETCH;
  for (long i = 0; i < WINDOW; i++) within[i] = i;
  shuffle(begin, stretches); shuffle(within, WINDOW);
  for (long first = 0; first < stretches; first += WINDOW / STRETCH) {
    long some = stretches - first < WINDOW / STRETCH ? stretches - first : WINDOW / STRETCH, rows = 0;
    for (long i = 0; i < WINDOW; i++) {
      long stretch = within[i] / STRETCH;
      if (stretch < some) {
        long row = begin[first + stretch] + within[i] % STRETCH;
        u[rows] = x[row]; w[rows] = y[row]; rows++;
      }
    }
    for (long at = 0; at < rows; at += batch) {
      gradient(u + at, w + at, rows - at < batch ? rows - at : batch, p, g);
      total += g[0]; count++;
      if (adam) {
        b1 *= 0.9; b2 *= 0.999;
        for (int i = 0; i < 4; i++) {
          memory[i] = 0.9 * memory[i] + 0.1 * g[i + 1];
          memory[4 + i] = 0.999 * memory[4 + i] + 0.001 * g[i + 1] * g[i + 1];
          p[i] -= rate / (1 - b1) * memory[i] / (sqrt(memory[4 + i]) / sqrt(1 - b2) + 1e-8);
        }
      } else for (int i = 0; i < 4; i++) p[i] -= rate * g[i + 1];
    }
  }
  memory[8] = b1; memory[9] = b2;
  free(begin); free(within); free(u); free(w);
  return total / count;
}
"""


def c_by_hand(folder: str, x: Any, y: Any, method: str, batch: int) -> Callable[[], float]:
    source, library = Path(folder, "peer.c"), Path(folder, "peer.so")
    source.write_text(C, encoding="utf-8")
    flags = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, str(source), "-o", str(library), "-lmvec", "-lm"], check=True)
    function = ctypes.CDLL(str(library)).epoch
    function.restype = ctypes.c_double
    p, memory = np.array([*START.values()]), np.zeros(10)
    memory[8:] = 1
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (x, y, p, memory)]
    sizes = ctypes.c_long(len(x)), ctypes.c_long(batch), ctypes.c_double(RATE), ctypes.c_int(method == "adam")

    def run(_: Any = (p, memory)) -> float:
        found: float = function(pointers[0], pointers[1], *sizes, *pointers[2:])
        return found

    return run


def autodiff(model: str, data: dict[str, Any], method: str, batch: int, start: Any = None) -> Callable[[], float]:
    objective = ad.Objective(model, data, start=start, backend="llvm", threads=1)
    update, generator = OPTIMIZERS[method], np.random.default_rng(0)
    state, run = OptimizerState.initial(objective.start, update), objective.epoch_runner(update)
    return lambda: run(state, RATE, batch, generator)


def numpy_by_hand(x: Any, y: Any, method: str, batch: int) -> Callable[[], float]:
    p, mean, squares, generator = np.array([*START.values()]), np.zeros(4), np.zeros(4), np.random.default_rng(0)
    steps = 0

    def run() -> float:
        nonlocal p, mean, squares, steps
        order = generator.permutation(len(x))
        drawn, target, total = x[order], y[order], 0.0
        for at in range(0, len(x), batch):
            u, w = drawn[at : at + batch], target[at : at + batch]
            e, s, k = np.exp(-p[1] * u), np.sin(p[3] * u), np.cos(p[3] * u)
            r = w - (p[0] * e + p[2] * s)
            g = -2 / len(u) * r
            total += r @ r / len(u)
            slopes = np.array([g @ e, -p[0] * (g @ (u * e)), g @ s, p[2] * (g @ (u * k))])
            if method == "adam":
                steps += 1
                mean, squares = 0.9 * mean + 0.1 * slopes, 0.999 * squares + 0.001 * slopes**2
                slopes = mean / (1 - 0.9**steps) / (np.sqrt(squares / (1 - 0.999**steps)) + 1e-8)
            p = p - RATE * slopes
        return total / -(-len(x) // batch)

    return run


def jax_peer(x: Any, y: Any, method: str, batch: int) -> Callable[[], float]:
    import jax

    jax.config.update("jax_enable_x64", True)
    jnp, count = jax.numpy, len(x) // batch

    def loss(p: Any, u: Any, w: Any) -> Any:
        return jnp.mean((w - (p[0] * jnp.exp(-p[1] * u) + p[2] * jnp.sin(p[3] * u))) ** 2)

    def step(state: Any, rows: Any) -> Any:
        p, mean, squares, steps = state
        value, slopes = jax.value_and_grad(loss)(p, *rows)
        steps = steps + 1
        if method == "adam":
            mean, squares = 0.9 * mean + 0.1 * slopes, 0.999 * squares + 0.001 * slopes**2
            slopes = mean / (1 - 0.9**steps) / (jnp.sqrt(squares / (1 - 0.999**steps)) + 1e-8)
        return (p - RATE * slopes, mean, squares, steps), value

    @jax.jit
    def epoch(state: Any, key: Any) -> Any:
        order = jax.random.permutation(key, len(x))[: count * batch]
        drawn = [column[order].reshape(count, batch) for column in (x, y)]
        state, losses = jax.lax.scan(step, state, drawn)
        return state, jnp.mean(losses)

    x, y = jnp.asarray(x), jnp.asarray(y)
    state = jnp.array([*START.values()]), jnp.zeros(4), jnp.zeros(4), 0.0
    key = jax.random.PRNGKey(0)

    def run() -> float:
        nonlocal state, key
        key, used = jax.random.split(key)
        state, value = epoch(state, used)
        return float(value)

    return run


def torch_peer(x: Any, y: Any, method: str, batch: int) -> Callable[[], float]:
    import torch

    torch.set_num_threads(1)
    columns = [torch.from_numpy(column[: len(x) // FEWER].copy()) for column in (x, y)]
    p = torch.tensor([*START.values()], dtype=torch.float64, requires_grad=True)
    optimizer = (torch.optim.Adam if method == "adam" else torch.optim.SGD)([p], lr=RATE)

    def run() -> float:
        order = torch.randperm(len(columns[0]))
        total, drawn = 0.0, [column[order].split(batch) for column in columns]
        for u, w in zip(*drawn, strict=True):
            optimizer.zero_grad()
            loss = torch.mean((w - (p[0] * torch.exp(-p[1] * u) + p[2] * torch.sin(p[3] * u))) ** 2)
            loss.backward()
            optimizer.step()
            total += loss.item()
        return total / len(drawn[0])

    return run


def torch_network(x: Any, y: Any, batch: int) -> Callable[[], float]:
    import torch

    torch.set_num_threads(1)
    layers = torch.nn.Linear(1, 10), torch.nn.Tanh(), torch.nn.Linear(10, 10), torch.nn.Tanh(), torch.nn.Linear(10, 1)
    network = torch.nn.Sequential(*layers).double()
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE)
    u, w = (torch.from_numpy(column).reshape(-1, 1) for column in (x, y))

    def run() -> float:
        total = 0.0
        for inputs, targets in zip(u.split(batch), w.split(batch), strict=True):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(network(inputs), targets)
            loss.backward()
            optimizer.step()
            total += loss.item()
        return total

    return run


def installed() -> Iterator[str]:
    return (name for name in ("jax", "torch") if importlib.util.find_spec(name) is not None)


def seconds(calls: dict[str, Callable[[], Any]], times: int) -> dict[str, float]:
    """The shortest time of each, taken in turn, after a first one."""
    for call in calls.values():
        call()
    found = dict.fromkeys(calls, np.inf)
    for _ in range(times):
        for name, call in calls.items():
            begun = time.perf_counter()
            call()
            found[name] = min(found[name], time.perf_counter() - begun)
    return found


def main() -> None:
    generator, peers = np.random.default_rng(1), set(installed())
    x = generator.uniform(0, 5, ROWS)
    y = 2 * np.exp(-1.3 * x) + 0.5 * np.sin(3 * x) + generator.normal(0, 0.01, ROWS)
    print(f"{'epoch of':>14}{'by':>10}{'ms':>10}{'/C':>9}")
    for method, batch in CASES:
        with tempfile.TemporaryDirectory() as folder:
            fast = {
                "autodiff": autodiff(MODEL, {"x": x, "y": y}, method, batch, START),
                "C": c_by_hand(folder, x, y, method, batch),
            }
            losses = {name: [call() for _ in range(3)][-1] for name, call in fast.items()}
            np.testing.assert_allclose(losses["autodiff"], losses["C"], rtol=0.02)
            found = seconds(fast, 15)
        slow = {"NumPy": numpy_by_hand(x, y, method, batch)}
        if "jax" in peers:
            slow["JAX"] = jax_peer(x, y, method, batch)
        found |= seconds(slow, 2)
        if "torch" in peers:
            found["PyTorch"] = FEWER * seconds({"PyTorch": torch_peer(x, y, method, batch)}, 2)["PyTorch"]
        for name, time_ in found.items():
            print(f"{method:>9} {batch:>4}{name:>10}{1e3 * time_:10.1f}{time_ / found['C']:9.2f}")
    print(f"\n{'step of':>14}{'by':>10}{'us':>10}")
    rows = 32 * 400
    calls = {"autodiff": autodiff(NETWORK, {"x": x[:rows], "y": y[:rows]}, "sgd", 32)}
    if "torch" in peers:
        calls["PyTorch"] = torch_network(x[:rows], y[:rows], 32)
    for name, time_ in seconds(calls, 5).items():
        print(f"{'1-10-10-1, 32':>14}{name:>10}{1e6 * time_ * 32 / rows:10.2f}")


if __name__ == "__main__":
    main()

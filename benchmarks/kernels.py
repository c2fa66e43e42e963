"""Value and gradient over rows: compiled kernels beside C by hand, NumPy by hand, JAX and torch.

    python benchmarks/kernels.py [--threads 1 2] [--cases a b c d] [--rows 1000 100000 1000000] [--peers C NumPy …]
    python benchmarks/kernels.py --set-up 7 [--cases a b c d] [--peers JAX torch.compile]

C needs gcc and glibc's libmvec; JAX and torch come with `pip install --group peers` in a checkout; what is missing is
left out. For each number of threads a process of its own is bound to so many cores. All take turns there, so that
whatever else the machine does hits all alike; times are the least of many, in microseconds a call, and a column
`/ C` has the time of autodiff divided by that of C. Between turns on several threads all wait until nobody's helpers
are awake any more. Set-up is the time from a text (or a function) to the first result over 1,000 rows, nothing being
kept from before: in so many processes of their own, in turn, by which time they are loaded and have compiled something
small; the middle one counts (of torch.compile, which takes long, the first).
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PEERS = ("C", "NumPy", "JAX", "torch", "torch.compile")
NEEDS = {"C": "gcc", "JAX": "jax", "torch": "torch", "torch.compile": "torch"}
PATIENCE = 0.5  # seconds for the calls of one peer at one size
TURN = 5e-3  # seconds that a turn takes at least
REST = 1e-2  # seconds for which helpers, OpenMP's among them, may stay awake after a turn
Call = Callable[[], Any]


def here(peer: str) -> bool:
    """Whether a peer can be run."""
    if peer == "C":
        return shutil.which("gcc") is not None
    return peer == "NumPy" or importlib.util.find_spec(NEEDS[peer]) is not None


def compiled_by_gcc(folder: str) -> ctypes.CDLL:
    """C by hand."""
    source, library = Path(__file__).with_name("by_hand.c"), Path(folder, "by_hand.so")
    flags = ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, str(source), "-o", str(library), "-lmvec", "-lm"], check=True)
    # Its start-up code would have the whole process flush denormal numbers to zero; loaded beside us it does no harm.
    return ctypes.CDLL(str(library))


def by_c(library: ctypes.CDLL, name: str, columns: Any, y: Any, p: Any, threads: int) -> Call:
    import numpy as np

    out = np.empty(len(p) + 1)
    table = (ctypes.c_void_p * len(columns))(*(column.ctypes.data for column in columns))
    places = [ctypes.c_void_p(array.ctypes.data) for array in (y, p, out)]
    function = getattr(library, name)

    def call() -> Any:
        function(table, places[0], ctypes.c_long(len(y)), *places[1:], threads)
        return out

    return call


def by_jax(case: Any, columns: Any, y: Any, p: Any) -> Call:
    import jax
    import jax.numpy as jnp

    function = jax.jit(jax.value_and_grad(lambda q, x, t: case.mean_loss(jnp, x, t, q)))
    x, t = jnp.asarray(columns), jnp.asarray(y)

    def call() -> Any:
        value, gradient = function(jnp.asarray(p), x, t)
        return [float(value), *gradient.block_until_ready().tolist()]

    return call


def by_torch(case: Any, columns: Any, y: Any, p: Any, compiled: bool) -> Call:
    import torch

    x, t = torch.from_numpy(columns), torch.from_numpy(y)
    q = torch.tensor(p, requires_grad=True)

    def mean_loss(x: Any, t: Any, q: Any) -> Any:
        return case.mean_loss(torch, x, t, q)

    function = torch.compile(mean_loss) if compiled else mean_loss

    def call() -> Any:
        q.grad = None
        value = function(x, t, q)
        value.backward()
        return [value.item(), *q.grad.tolist()]

    return call


def warm_up(peers: Sequence[str]) -> None:
    """Have everybody load what they need, once."""
    import autodiff_cli as ad

    ad.Objective("y ~ a", {"y": [1.0, 2.0]}, backend="llvm", threads=1).value_and_grad([1.0])
    if "JAX" in peers:
        import jax

        jax.config.update("jax_enable_x64", True)
        jax.jit(jax.value_and_grad(lambda x: x * x))(1.0)
    if any(peer.startswith("torch") for peer in peers):
        import torch

        square = torch.compile(lambda x: x * x) if "torch.compile" in peers else lambda x: x * x
        square(torch.tensor(1.0, requires_grad=True)).backward()


def measured(calls: dict[str, Call], threads: int) -> dict[str, float]:
    """The shortest time of each, taken in turn, in microseconds. Short calls are made several times in each turn: one
    that follows on somebody else's finds the caches full of what is not its own."""
    found = dict.fromkeys(calls, float("inf"))
    spent = dict.fromkeys(calls, 0.0)
    rounds = 0
    while rounds < 5 or (rounds < 2000 and min(spent.values()) < PATIENCE / 4 and max(spent.values()) < PATIENCE * 8):
        rounds += 1
        for name, call in calls.items():
            if rounds > 5 and spent[name] > PATIENCE:
                continue
            turn = 0.0
            if threads > 1:
                time.sleep(REST)
            while turn < TURN:
                begun = time.perf_counter()
                call()
                taken = time.perf_counter() - begun
                turn += taken
                found[name] = min(found[name], 1e6 * taken)
            spent[name] += turn
    return found


class Problem:
    """A case over so many rows, and how everybody makes it ready: each gives a function that computes once."""

    def __init__(self, name: str, rows: int, threads: int, library: Any = None) -> None:
        import numpy as np
        from cases import CASES

        case = CASES[name]
        generator = np.random.default_rng(1)
        columns = generator.uniform(0, 2, (case.columns, rows))
        y = np.cos(columns[0]) if case.loss == "mse" else (generator.uniform(size=rows) < 0.5).astype(float)
        p = generator.normal(0, 0.5, len(case.parameters)) if name in "bd" else np.full(len(case.parameters), 0.5)
        names = ["x"] if case.columns == 1 else [f"x{k}" for k in range(case.columns)]
        self._case, self._threads = case, threads
        self._data = {**dict(zip(names, columns, strict=True)), "y": y}
        self._p = p
        self.makers: dict[str, Callable[[], Call]] = {
            "autodiff": self._by_autodiff,
            "C": lambda: by_c(library, name, columns, y, p, threads),
            "NumPy": lambda: lambda: case.by_numpy(columns, y, p),
            "JAX": lambda: by_jax(case, columns, y, p),
            "torch": lambda: by_torch(case, columns, y, p, False),
            "torch.compile": lambda: by_torch(case, columns, y, p, True),
        }

    def _by_autodiff(self) -> Call:
        import autodiff_cli as ad

        objective = ad.Objective(
            self._case.model, self._data, loss=self._case.loss, backend="llvm", threads=self._threads
        )
        self._order = [objective.parameters.index(each) for each in self._case.parameters]
        theta = self._p.copy()
        theta[self._order] = self._p
        return lambda: objective.value_and_grad(theta)

    def numbers(self, who: str, answer: Any) -> Any:
        """The loss and the slopes, in the order of the case."""
        import numpy as np

        return np.array([answer[0], *answer[1][self._order]] if who == "autodiff" else answer)


def run(name: str, rows: int, threads: int, peers: Sequence[str], library: Any) -> None:
    """One line of the table."""
    import numpy as np

    problem = Problem(name, rows, threads, library)
    calls = {who: problem.makers[who]() for who in ("autodiff", *peers)}
    found = {who: problem.numbers(who, call()) for who, call in calls.items()}
    for peer in peers:
        np.testing.assert_allclose(found[peer], found["autodiff"], rtol=1e-8, atol=1e-10, err_msg=f"{name} by {peer}")
    times = measured(calls, threads)
    ours = times["autodiff"]
    ratios = [f"{ours / times[peer]:.2f}" if peer in times else "" for peer in RATIOS]
    print_row(name, f"{rows:,}", threads, f"{ours:,.1f}", *[f"{times[peer]:,.1f}" for peer in peers], *ratios)


def set_up_once(name: str, who: str) -> None:
    """Print the milliseconds that it takes in this process."""
    warm_up([who])
    problem = Problem(name, 1000, 1)
    begun = time.perf_counter()
    problem.makers[who]()()
    print(1e3 * (time.perf_counter() - begun))


def set_up(cases: Sequence[str], compilers: Sequence[str], times: int) -> None:
    """The table of what it takes to set up."""
    print_head("set-up in ms", "autodiff", *compilers, *[f"/ {peer}" for peer in compilers])
    for name in cases:
        found: dict[str, list[float]] = {who: [] for who in ("autodiff", *compilers)}
        for turn in range(times):
            for who, taken in found.items():
                if who != "torch.compile" or not turn:
                    command = [sys.executable, __file__, "--threads", "1", "--once", name, who]
                    taken.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        ours, *theirs = (statistics.median(taken) for taken in found.values())
        print_row(name, f"{ours:.0f}", *[f"{each:,.0f}" for each in theirs], *[f"{ours / each:.2f}" for each in theirs])


def print_row(*cells: object) -> None:
    """A line of a table in Markdown, as docs/kernels.md has it."""
    print("| " + " | ".join(f"{cell!s:>{WIDTH}}" for cell in cells) + " |", flush=True)


def print_head(*cells: str) -> None:
    """The first two lines of a table."""
    print()
    print_row(*cells)
    print_row(*["-" * WIDTH for _ in cells])


RATIOS = ("C", "JAX", "torch.compile")
WIDTH = 13  # characters of a cell
ROWS = (1000, 100_000, 1_000_000)


def bound(threads: int) -> None:
    """Be a process of so many cores, before anything counts them."""
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(threads)
    os.environ["AUTODIFF_CACHE"] = "off"
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()  # empty, so that set-up is honest
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])


def main() -> None:
    parser = argparse.ArgumentParser(description="Value and gradient, beside others, in one run.")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--cases", nargs="+", choices="abcd", default=list("abcd"))
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS))
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--set-up", type=int, help="measure the set-up so many times, and nothing else")
    parser.add_argument("--once", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    peers = [peer for peer in given.peers if here(peer)]
    for peer in given.peers:
        if peer not in peers and not given.once:
            how = "needs gcc" if peer == "C" else "is not installed: pip install --group peers (in a checkout)"
            print(f"{peer} {how}")
    if given.set_up:
        set_up(given.cases, [peer for peer in ("JAX", "torch.compile") if peer in peers], given.set_up)
        return
    if len(given.threads) > 1:
        for threads in given.threads:
            rest = [*("--cases", *given.cases), "--rows", *map(str, given.rows), *("--peers", *peers)]
            subprocess.run([sys.executable, __file__, "--threads", str(threads), *rest], check=True)
        return
    threads = given.threads[0]
    bound(threads)
    if given.once:
        set_up_once(*given.once)
        return
    warm_up(peers)
    with tempfile.TemporaryDirectory() as folder:
        library = compiled_by_gcc(folder) if "C" in peers else None
        print_head("case", "rows", "threads", "autodiff", *peers, *[f"/ {peer}" for peer in RATIOS])
        for name in given.cases:
            for rows in given.rows:
                run(name, rows, threads, peers, library)


if __name__ == "__main__":
    main()

"""Symbolic gradients, simplified, against SymPy's `diff` of the same text in the same process.

Run with `python benchmarks/derivatives.py`. Reading is in neither time. The best of a few runs counts, since other work
on the machine only ever adds time; each run starts anew, SymPy's with its cache cleared. "Printed" is ours with the
text of every derivative made as well; SymPy's time is without printing.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import sympy
from sympy.core.cache import clear_cache

import autodiff_cli as ad

RUNS = 3
OPERATIONS = 1000
TEXTS = {
    "gaussians": " + ".join(f"a*exp(-b*(x - {k})^2)" for k in range(OPERATIONS // 7)),
    "rational": " + ".join(f"({k}*x + y)/(x^2 + {k + 1})" for k in range(1, OPERATIONS // 6)),
    "long product": "*".join(f"(x + {k})" for k in range(OPERATIONS // 2)),
    "neurons": " + ".join(f"a*tanh({k + 1}*x + b*y)" for k in range(OPERATIONS // 6)),
    "chains of calls": " + ".join("sin(" * 30 + f"{k + 1}*x" + "*y)" * 30 for k in range(OPERATIONS // 62)),
}


def seconds(prepare: Callable[..., Callable[[], object]], *arguments: object) -> float:
    """The time of an action, made ready anew for each run: the best of the runs."""
    times = []
    for _ in range(RUNS):
        action = prepare(*arguments)
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def ours(text: str, printed: bool) -> Callable[[], object]:
    """Our derivatives towards all variables."""
    f = ad.parse(text)
    if printed:
        return lambda: [str(f.derivative(name)) for name in f.variables]
    return lambda: [f.derivative(name) for name in f.variables]


def theirs(text: str) -> Callable[[], object]:
    """SymPy's."""
    clear_cache()
    f = sympy.sympify(text.replace("^", "**"))
    return lambda: [f.diff(symbol) for symbol in f.free_symbols]


def main() -> None:
    """Print a table."""
    print("derivatives towards all variables, in milliseconds")
    print(f"{'expression':>16} {'operations':>10} {'ours':>8} {'printed':>8} {'sympy':>8} {'ratio':>6} {'printed':>8}")
    for name, text in TEXTS.items():
        operations = sum(1 for node in ad.parse(text).tape.nodes if node.op is not None)
        quick, printed = (seconds(ours, text, with_text) for with_text in (False, True))
        slow = seconds(theirs, text)
        times = f"{quick * 1e3:8.1f} {printed * 1e3:8.1f} {slow * 1e3:8.1f}"
        print(f"{name:>16} {operations:>10,} {times} {slow / quick:6.1f} {slow / printed:8.1f}")


if __name__ == "__main__":
    main()

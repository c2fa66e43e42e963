"""Symbolic gradients, simplified, against SymPy's `diff` of the same text.

Run with `python benchmarks/derivatives.py` where SymPy is installed. Reading is in no time. "Printed" is ours with the
text of every derivative made as well; SymPy's time is without printing. Ours is the best of a few runs, each with a
formula read anew, since other work on the machine only ever adds time. SymPy runs each row once, in a process of its
own, which ends when its limit is reached.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import autodiff_cli as ad

RUNS = 5
LIMIT = 30  # seconds for SymPy's derivatives of one row
OPERATIONS = 1000
LETTERS = "abcdefghij"
TEXTS = {
    "gaussians": " + ".join(f"a*exp(-b*(x - {k})^2)" for k in range(OPERATIONS // 7)),
    "rational": " + ".join(f"({k}*x + y)/(x^2 + {k + 1})" for k in range(1, OPERATIONS // 6)),
    "polynomial": " + ".join(f"{k + 1}*x^{k % 9 + 1}*y^{k % 7 + 1}*z^{k % 5 + 1}" for k in range(OPERATIONS // 9)),
    "ten variables": " + ".join(
        f"{LETTERS[k % 10]}*sin({LETTERS[(3 * k + 1) % 10]}*{LETTERS[(7 * k + 2) % 10]} + {k})/{k + 1}"
        for k in range(OPERATIONS // 7)
    ),
    "long product": "*".join(f"(x + {k})" for k in range(OPERATIONS // 2)),
    "neurons": " + ".join(f"a*tanh({k + 1}*x + b*y)" for k in range(OPERATIONS // 6)),
    "chains of calls": " + ".join("sin(" * 30 + f"{k + 1}*x" + "*y)" * 30 for k in range(OPERATIONS // 62)),
}


def ours(text: str, printed: bool) -> float:
    """Seconds for our derivatives towards all variables: the best of the runs."""
    times = []
    for _ in range(RUNS):
        f = ad.parse(text)
        start = time.perf_counter()
        for name in f.variables:
            derivative = f.derivative(name)
            if printed:
                str(derivative)
        times.append(time.perf_counter() - start)
    return min(times)


def theirs(row: str) -> float | None:
    """Seconds for SymPy's, in a process of its own; None if they reach the limit."""
    done = subprocess.run([sys.executable, __file__, row], capture_output=True, text=True, check=False)
    if done.returncode == -signal.SIGALRM:
        return None
    done.check_returncode()
    return float(done.stdout)


def time_sympy(row: str) -> None:
    """Print how many seconds SymPy's derivatives of a row take; end this process at the limit."""
    import sympy

    f = sympy.sympify(TEXTS[row].replace("^", "**"))
    signal.alarm(LIMIT)
    start = time.perf_counter()
    for symbol in f.free_symbols:
        f.diff(symbol)
    print(time.perf_counter() - start)


def main() -> None:
    """Print a table."""
    ad.parse("x").derivative("x")  # what is imported on first use
    print("derivatives towards all variables, in milliseconds; the ratios are SymPy's time over ours")
    print(f"{'expression':>16} {'operations':>10} {'ours':>6} {'printed':>8} {'sympy':>8} {'ratio':>7} {'printed':>8}")
    for row, text in TEXTS.items():
        operations = sum(1 for node in ad.parse(text).tape.nodes if node.op is not None)
        quick, printed = ours(text, printed=False), ours(text, printed=True)
        found = theirs(row)
        slow = LIMIT if found is None else found
        sign = ">" if found is None else ""
        columns = f"{quick * 1e3:6.1f} {printed * 1e3:8.1f} {sign + format(slow * 1e3, '.0f'):>8}"
        ratios = f"{sign + format(slow / quick, '.0f'):>7} {sign + format(slow / printed, '.0f'):>8}"
        print(f"{row:>16} {operations:>10,} {columns} {ratios}", flush=True)


if __name__ == "__main__":
    time_sympy(sys.argv[1]) if sys.argv[1:] else main()

"""Reading and differentiating long expressions: microseconds per operation, and how they grow.

Run with `python benchmarks/expressions.py`. For each shape and size the best of a few runs counts, since other work on
the machine only ever adds time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import autodiff_cli as ad

RUNS = 5
SIZES = (25_000, 100_000)
SHAPES: dict[str, Callable[[int], str]] = {
    "sum of products": lambda n: " + ".join(["x*y"] * (n // 2)),
    "chain of calls": lambda n: "sin(" * n + "x" + ")" * n,
    "bindings": lambda n: "a0 = x\n" + "".join(f"a{i} = a{i - 1}*y + x\n" for i in range(1, n // 2 + 1)),
}


def microseconds(action: Callable[[], object], operations: int) -> float:
    """The processor time of an action per operation: the best of the runs."""
    times = []
    for _ in range(RUNS):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return min(times) / operations * 1e6


def main() -> None:
    """Print a table."""
    ad.parse("x")  # the grammar's tables are loaded once
    print(f"{'expression':>16} {'operations':>10} {'read':>7} {'gradient':>9} {'both':>7} {'again':>7}  (µs/operation)")
    for name, text_of in SHAPES.items():
        both = []
        for size in SIZES:
            text = text_of(size)
            point = {"x": 0.5, "y": 1.5} if "y" in text else {"x": 0.5}
            f = ad.parse(text)
            read = microseconds(lambda text=text: ad.parse(text), size)
            again = microseconds(lambda f=f, point=point: f.grad(point), size)
            both.append(microseconds(lambda text=text, point=point: ad.parse(text).grad(point), size))
            print(f"{name:>16} {size:>10,} {read:7.2f} {both[-1] - read:9.2f} {both[-1]:7.2f} {again:7.2f}")
        print(f"{'':>16} growth per operation from {SIZES[0]:,} to {SIZES[-1]:,}: {both[-1] / both[0]:.2f} ×")


if __name__ == "__main__":
    main()

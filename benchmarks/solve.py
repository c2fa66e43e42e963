"""How long proofs of zeros and minima take, as whole processes, against a program that does nothing.

The do-nothing program imports the same libraries (Typer, Rich, Lark) and runs an empty command; it and our commands are
run in turn, and medians are printed. The tasks: one equation, Himmelblau's function, four equations (Broyden), and all
529 stationary points of Rastrigin's function on -5..6, a test of IntervalRootFinding.jl. SciPy's `brentq` and `shgo`
run the first two, and prove nothing. The numbers of points found are checked.

Then the published systems and functions of `tests/solving/functions.py` are solved in this process. All solutions of
the systems must be found and proven complete; the global minima must be enclosed to 12 digits.

    python benchmarks/solve.py [ROUNDS]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from startup import AUTODIFF, NOTHING

import autodiff_cli as ad
from autodiff_cli.solving.solutions import Optima, Solution

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.solving.functions import MINIMA, SYSTEMS

RASTRIGIN = "20 + x^2 - 10*cos(2*pi*x) + y^2 - 10*cos(2*pi*y)"
HIMMELBLAU = "(x^2 + y - 11)^2 + (x + y^2 - 7)^2"
BROYDEN = "[(3-2*a)*a-2*b+1, (3-2*b)*b-a-2*c+1, (3-2*c)*c-b-2*d+1, (3-2*d)*d-c+1]"
SQUARE = ["--x", "-5..5", "--y", "-5..5"]
SCIPY_ROOT = "from scipy.optimize import brentq; print(brentq(lambda x: x**3 - 2*x - 5, 0, 3))"
SCIPY_MINIMUM = """
from scipy.optimize import shgo
print(shgo(lambda p: (p[0]**2 + p[1] - 11)**2 + (p[0] + p[1]**2 - 7)**2, [(-5, 5), (-5, 5)]).fun)
"""
# name: (arguments, the list of results in the document, their number, the most seconds or None)
TASKS = {
    "equation": (["solve", "x^3 - 2*x - 5", "--x", "0..3"], "roots", 1, None),
    "Himmelblau": (["minimize", HIMMELBLAU, *SQUARE], "points", 9, None),
    "Broyden, 4 unknowns": (["solve", BROYDEN, *(w for n in "abcd" for w in (f"--{n}", "-1..1.2"))], "roots", 1, None),
    "Rastrigin, 529 points": (["minimize", RASTRIGIN, "--x", "-5..6", "--y", "-5..6"], "points", 529, 1.0),
}
PEERS = {"SciPy brentq": SCIPY_ROOT, "SciPy shgo": SCIPY_MINIMUM}


def seconds(command: list[str], environment: dict[str, str]) -> tuple[float, str]:
    """The time from starting a process to its end, and what it prints."""
    begin = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return time.perf_counter() - begin, done.stdout


def published_problems() -> bool:
    """Solve the published systems and functions, and return whether all results are right, complete and narrow."""
    holds = True
    for text, box, count in SYSTEMS:
        begin = time.process_time()
        found = ad.parse(text).solve(box)
        is_right = found.complete and len(found.roots) == count
        holds = holds and is_right
        print(line(f"system in {len(box)} unknowns: {text}", begin, found, is_right, f"{len(found.roots)} solutions"))
    for name, text, box, value in MINIMA:
        begin = time.process_time()
        found = ad.parse(text).minimize(box)
        low, high = found.global_.value_enclosure
        is_right = high - low <= 1e-12 * max(1, abs(value)) and abs(low - value) <= 1e-6 * max(1, abs(value))
        holds = holds and is_right
        print(line(f"minimum in {len(box)} unknowns: {name}", begin, found, is_right, f"global minimum {low:.12g}"))
    return holds


def line(title: str, begin: float, found: Solution | Optima, is_right: bool, result: str) -> str:
    """One line about a problem: its time, boxes, completeness and result."""
    milliseconds = 1000 * (time.process_time() - begin)
    words = "complete" if found.complete else "incomplete"
    verdict = "" if is_right else "   WRONG"
    return f"{title[:56]:<56} {milliseconds:7.0f} ms {found.boxes:7,} boxes   {words}, {result}{verdict}"


def main(rounds: int = 15) -> int:
    """Run everything `rounds` times in turn; the status is 1 if a result is wrong or a time too long."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "nothing.py")
        program.write_text(NOTHING)
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        commands = {"do nothing": [sys.executable, str(program)]}
        commands |= {name: [*AUTODIFF, *task[0], "--json"] for name, task in TASKS.items()}
        commands |= {name: [sys.executable, "-c", source] for name, source in PEERS.items()}
        times: dict[str, list[float]] = {name: [] for name in commands}
        holds = True
        for name, command in commands.items():  # compiles all modules, as an installation does
            _, printed = seconds(command, environment)
            if name in TASKS:
                _, key, count, _ = TASKS[name]
                document = json.loads(printed)
                holds = holds and document["complete"] and len(document[key]) == count
        for _ in range(rounds):
            for name, command in commands.items():
                times[name].append(seconds(command, environment)[0])
    medians = {name: statistics.median(found) for name, found in times.items()}
    for name, median in medians.items():
        bound = TASKS[name][3] if name in TASKS else None
        holds = holds and (bound is None or median < bound)
        limit = "" if bound is None else f"   (less than {bound} s)"
        print(f"{name:<22} {1000 * median:7.1f} ms   {median / medians['do nothing']:.2f} × do nothing{limit}")
    return 0 if published_problems() and holds else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))

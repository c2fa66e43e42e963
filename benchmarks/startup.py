"""How long `autodiff` takes as a whole process, against a program that does nothing.

The do-nothing program imports the same libraries (Typer, Rich, Lark) and runs an empty command; `train` fits twenty
rows. All commands are run in turn, many times, so that whatever else the machine does strikes them alike; medians and
their ratios are printed.

    python benchmarks/startup.py [ROUNDS]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NOTHING = """
import lark
import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer()


@app.command()
def nothing() -> None:
    pass


app()
"""

AUTODIFF = [str(Path(sys.executable).with_name("autodiff"))]
POINT = ["x*y + sin(x)", "--x", "2", "--y", "3"]
# name: (command, most it may take as a multiple of the do-nothing program)
CLAIMS = {
    "grad": ([*AUTODIFF, "grad", *POINT], 1.2),
    "grad --json": ([*AUTODIFF, "grad", *POINT, "--json"], 0.95),
    "trace": ([*AUTODIFF, "trace", *POINT], 1.25),
    "train": ([*AUTODIFF, "train", "y ~ a*exp(-b*x)", "decay.csv"], 2.2),
}
DECAY = "x,y\n" + "".join(f"{k / 10},{2.5 * 0.88**k + 0.01 * (-1) ** k}\n" for k in range(20))


def seconds(command: list[str], environment: dict[str, str], folder: str) -> float:
    """The time from starting a process, in a folder, to its end."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment, cwd=folder)
    return time.perf_counter() - begin


def main(rounds: int = 40) -> int:
    """Run everything `rounds` times in turn; the status is 1 if a claim does not hold."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "nothing.py")
        program.write_text(NOTHING)
        Path(folder, "decay.csv").write_text(DECAY)
        commands = {"do nothing": [sys.executable, str(program)], **{name: c for name, (c, _) in CLAIMS.items()}}
        times: dict[str, list[float]] = {name: [] for name in commands}
        # As after an ordinary installation, all modules are compiled, which the first round sees to.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for command in commands.values():
            seconds(command, environment, folder)
        for _ in range(rounds):
            for name, command in commands.items():
                times[name].append(seconds(command, environment, folder))
    medians = {name: statistics.median(found) for name, found in times.items()}
    holds = True
    for name, median in medians.items():
        ratio = median / medians["do nothing"]
        bound = CLAIMS[name][1] if name in CLAIMS else 1.0
        holds = holds and ratio <= bound
        print(f"{name:<12} {1000 * median:6.1f} ms   {ratio:.2f} × do nothing   (at most {bound})")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))

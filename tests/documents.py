"""The JSON documents of some 200 commands, to compare two versions of the program.

    python -m tests.documents before.json                    write the documents of this version
    python -m tests.documents after.json --compare before.json

A change that only rearranges code must leave every document as it was. The comparison reports for each command whether
the documents are equal byte for byte, equal except for English sentences (messages, warnings, notes), or different.
"""

from __future__ import annotations

import json
import math
import os
import random
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

SCALARS = {
    "x*y + sin(x)": "--x 2 --y 3",
    "x^n": "--x -2 --n 3",
    "(w*x + b - t)^2": "--w 3 --x 2 --b 1 --t 5",
    "h = relu(w*x + b); (h - t)^2": "--w 3 --x 2 --b 1 --t 5",
    "(1 - cos(x))/x^2": "--x 1e-8",
    "sqrt(x + 1) - sqrt(x)": "--x 1e15",
    "where(x > 0, sqrt(x), 5*x)": "--x 0",
    "abs(x)": "--x 0",
    "log(x)": "--x -1",
    "gammainc(a, x)": "--a 2 --x 3",
    "erf(x)*lambertw(x)": "--x 0.7",
    "max(a, b)*c": "--a 1 --b 1 --c 4",
    "f(t) = t*sin(t); f(x)*f(y)": "--x 2 --y 3",
    "x % y": "--x -7 --y 3",
    "exp(1000*x)": "--x 1",
    "silu(x) + gelu(x)": "--x 1.5",
}
ARRAYS = {"sum(tanh(W @ x))": "--W [[1,0],[0,1]] --x [0,0.5]", "softmax(v)[0]": "--v [1,2,3]", "norm(v)": "--v [0,0]"}
COMMANDS = """
grad "x*y + sin(x)" --x 2 --y 3 --direction x=1,y=2
grad "ln(1 + x)" --x 0 --order 6
grad "[r*cos(t), r*sin(t)]" --r 2 --t pi/3 --jacobian
grad "a = x*y; b = x/y; a + b" --x 2 --y 3 --jacobian --outputs a,b
grad "x*y" --x 2+-0.1 --y 3+-0.2
grad "x^2*sin(x)" --x 1.9..2.1
grad "x*y + sin(x)" --mode forward --x 2 --y 3
grad "x*y" --at points.csv
grad "x*y" --x 0:1:5 --y 2
ops
ops tanh
ops matmul
data decay.csv
data wave.csv
lesson
trace "y ~ a*exp(-b*x)" decay.csv --row 3 --a 2 --b 1
train "y ~ a*exp(-b*x)" decay.csv --sigma s
train "y ~ a[site]*exp(-b*x) + c" decay.csv
train "y ~ m*a + n*b + c" linear.csv
train "y ~ m*a + n*b + c" linear.csv --l2 0.1
train "y ~ m*a + n*b + c" linear.csv --l1 0.1
train "k ~ exp(m*a + c)" linear.csv --family poisson
train "p ~ sigmoid(m*a + n*b + c)" linear.csv --loss bce
train "p ~ sigmoid(m*a + n*b + c)" linear.csv --family binomial
train "class ~ softmax(mlp([x], [4], tanh))" decay.csv --epochs 20
train "y ~ mlp([a, b], [6], tanh)" linear.csv --epochs 30 --diagnose
train "v ~ A*sin(w*t + f)" wave.csv
train "v ~ A*sin(w*t + f)" wave.csv --validation 0.2
train "r ~ low + (high - low)/(1 + (d/ec50)^-h)" dose.csv --profile
train "log(y + 1) ~ a - b*x" decay.csv
train "(y - a*exp(-b*x) - c)^2" decay.csv
compare decay.csv "y ~ a*exp(-b*x) + c" "y ~ a + b*x" "y ~ a*exp(-b*x)"
compare linear.csv "y ~ m*a + c" "y ~ m*a + n*b + c" --folds 4
predict model.json decay.csv
predict model.json decay.csv --interval 0.95
predict model.json decay.csv --residuals
"""
DECAY_OPTIONS = """

--sigma s
--sigma s --absolute-sigma
--sigma s --x-sigma x=s
--by site
--fix c=0.3
--bounds b=0:1
--profile
--bootstrap 50
--loss huber
--loss mae
--loss cauchy
--derive half=ln(2)/b
--optimizer lbfgs
--optimizer adam --epochs 50 --lr 0.05
--optimizer sgd --epochs 20 --batch-size 16
--starts 5
--where x>1
--stream
--backend numpy
"""
SENTENCES = (
    "message", "summary", "note", "notes", "title", "description", "text", "explanation", "reason", "warnings",
)  # fmt: skip


def commands() -> list[list[str]]:
    """Return the commands, each without `--json`."""
    lines = [line for line in COMMANDS.splitlines() if line]
    for formula, values in {**SCALARS, **ARRAYS}.items():
        views = ["grad {} {}", "trace {} {}", "trace {} {} --tape", "check {} {}", "grad {}"]
        if formula in SCALARS:
            views += [f"grad {{}} {{}} {option}" for option in ("--hessian", "--symbolic", "--precision 30")]
            views += ["trace {} {} --paths"]
        lines += [view.format(f'"{formula}"', values) for view in views]
    lines += [f'train "y ~ a*exp(-b*x) + c" decay.csv {options}' for options in DECAY_OPTIONS.splitlines()[1:]]
    return [shlex.split(line) for line in lines]


def write_table(folder: Path, name: str, header: str, rows: list[tuple[Any, ...]]) -> None:
    """Write a table as CSV."""
    (folder / name).write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")


def write_data(folder: Path) -> None:
    """Write the tables that the commands read; the same in every run."""
    draw, write = random.Random(5), partial(write_table, folder)
    xs = [0.05 * i for i in range(200)]
    write(
        "decay.csv",
        "x,y,s,site,class",
        [
            (x, 2.5 * math.exp(-1.3 * x) + 0.3 + draw.gauss(0, 0.03), 0.03 + 0.01 * (i % 3), "ABC"[i % 3], x > 5)
            for i, x in enumerate(xs)
        ],
    )
    pairs = [(draw.gauss(0, 1), draw.gauss(0, 2)) for _ in range(80)]
    write(
        "linear.csv",
        "a,b,y,k,p",
        [
            (a, b, 1 + 2 * a - b + draw.gauss(0, 0.1), draw.randint(0, 5), int(a + b + draw.gauss(0, 1) > 0))
            for a, b in pairs
        ],
    )
    times = [0.1 * i for i in range(100)]
    write("wave.csv", "t,v", [(t, 3 * math.sin(2.2 * t + 0.4) + draw.gauss(0, 0.2)) for t in times])
    doses = [d for d in (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100) for _ in range(3)]
    write("dose.csv", "d,r", [(d, 10 + 90 / (1 + (d / 3) ** -1.4) + draw.gauss(0, 1)) for d in doses])
    write("points.csv", "x,y", [(draw.gauss(0, 1), draw.gauss(0, 1)) for _ in range(7)])


def documents() -> list[dict[str, Any]]:
    """Run all commands in a folder of their own; return their arguments, exit statuses and standard output."""
    environment = {**os.environ, "COLUMNS": "80", "AUTODIFF_CACHE": "off"}
    if "PYTHONPATH" not in environment:
        environment["PYTHONPATH"] = os.getcwd()
    with tempfile.TemporaryDirectory() as name:
        write_data(Path(name))

        def run(arguments: list[str]) -> dict[str, Any]:
            result = subprocess.run(
                [sys.executable, "-m", "autodiff_cli", *arguments, "--json"],
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                env=environment,
                cwd=name,
            )
            return {"command": shlex.join(arguments), "status": result.returncode, "output": result.stdout}

        run(["train", "y ~ a*exp(-b*x) + c", "decay.csv", "--save", "model.json"])
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(run, commands()))


def without_sentences(value: Any, key: str = "") -> Any:
    """Return a document in which every English sentence is the same."""
    if isinstance(value, dict):
        return {name: without_sentences(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [without_sentences(item, key) for item in value]
    return "" if key in SENTENCES and isinstance(value, str) else value


def difference(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Compare two runs of one command: "equal", "equal except for sentences", or "different"."""
    if before == after:
        return "equal"
    if before["status"] == after["status"]:
        try:
            old, new = (without_sentences(json.loads(run["output"])) for run in (before, after))
        except json.JSONDecodeError:
            return "different"
        if json.dumps(old) == json.dumps(new):
            return "equal except for sentences"
    return "different"


def main() -> None:
    path, *rest = sys.argv[1:]
    after = documents()
    Path(path).write_text(json.dumps(after, indent=1))
    print(len(after), "documents")
    if rest[:1] == ["--compare"]:
        before = {run["command"]: run for run in json.loads(Path(rest[1]).read_text())}
        results = {run["command"]: difference(before[run["command"]], run) for run in after if run["command"] in before}
        print(Counter(results.values()))
        print(*(command for command, result in results.items() if result == "different"), sep="\n")


if __name__ == "__main__":
    main()

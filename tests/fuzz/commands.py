"""Random command lines: whatever is typed ends with the right status and a message, and never in a traceback.

    python -m tests.fuzz.commands                          for ten minutes, from a new seed
    python -m tests.fuzz.commands --seconds 60 --seed 7    for a minute, from the line of this seed

Options come from the declarations of the commands, most of them with values that they take. Lines run in this process,
in an empty folder of their own. Ends with status 1 if one of them ends badly.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import sys
import tempfile
import time
import warnings
from pathlib import Path
from random import Random, SystemRandom

from autodiff_cli.cli.command_line import Command, Parameter, find_command
from tests.support import Output, run_cli

FORMULAS = (
    "x*y + sin(x)", "x", "x^2 + y", "exp(-x^2/2)", "where(x > 0, sqrt(x), y)", "[x^2, x*y]", "norm([x, y])", "x^y",
    "v: 2; sum(v)*x", "f(t) = t^2; f(x) + y", "cos(x) == x", "x > y", "max(x, x)", "softmax([x, y, 1])", "1/0", "2",
    "y ~ a*x", "x + 1e400", "sin(", "2x", "", "@formula.txt", "@none", "-",
)  # fmt: skip
MODELS = (
    "y ~ a + b*x", "y ~ w@[x, n, 1]", "y ~ a*exp(-b*x)", "t ~ sigmoid(a + b*x)", "n ~ exp(a + b*x)", "y ~ a[g] + b*x",
    "y ~ a*sin(w*x + p)", "g ~ softmax(dense([x], 2))", "y ~ mlp([x, n], [3, 1])", "log(y) ~ a + b*x",
    "(y - a - b*x)^2", "[y, n] ~ [a*x, b]", "y ~ where(x < c, a, b)", "y ~ a", "y ~ a*x + b*x", "q ~ a", "y ~ a[x]",
    "y ~", "y ~ a ~ b",
)  # fmt: skip
DATA = (
    *("data.csv",) * 8,
    *("gaps.csv", "data.jsonl", "one.csv", "header.csv", "empty.csv", "bytes.csv", "none.csv", "*"),
)
SAVED = {
    "line.json": MODELS[0],
    "arrays.json": MODELS[1],
    "chances.json": MODELS[3],
    "levels.json": MODELS[5],
    "classes.json": MODELS[7],
}
NUMBERS = ("2", "1", "0.5", "3", "0", "-1", "1e308", "nan", "-inf", "[1, 2]", "2+-0.1", "1..2", "0:1:3", "", "word")
# Options whose values are no plain numbers, each with values for it.
VALUES = {
    flag: (*values,)
    for flag, *values in map(
        str.split,
        """
        --wrt x y x,y q
        --direction x=1 x=1,y=2 x
        --at data.csv - none
        --set x=2 q=3 x
        --outputs a
        --correlation x,y=0.5 x,y=2
        --paths x y q
        --output o.svg o.html o.json o.tex o.csv o.none none/o.svg .
        --weights n s g q
        --sigma s x=0.1 q
        --fix a=1 b a q=1 a=x
        --bounds a=0:1 b=:2 a=1:0 a=b: q=0:1
        --x-sigma x=s q=s x
        --validation 0.2 0
        --save m.json none/m.json data.csv
        --checkpoint c none/c
        --resume c none line.json
        --by g n q g,n
        --where x>2 g=='a' q>1 x> x>99
        --derive h=a/b h=q h
        --prior a~normal(0,9) b~gamma(2,1) q~normal(0,1) a
        --bootstrap 10 0
        --posterior 10
        --starts 3 0
        --draws d.csv d.none
        --delimiter , ; space ab
        --decimal . , x
        --comment # % ab
        --skip 1 99
        --encoding utf-8 latin-1 none
        --column q=x x=q =
        --interval 0.9 0
        --inverse x q
        --page p.html
        --plot p.svg p.png p.none
        --panels data none
        --laplace g a
        --epochs 1 5 0
        --threads 1 2 0
        --row 1 5 99
        --highlight x q
        --only x q
        --name g 2f for
        --max-boxes 10 1000 0
        --loss mae huber poisson none
        --family poisson gamma none
        --lr-schedule cosine none
        --order 1 3 99
        --precision 20 0
        --monte-carlo 10 0
        --batch-size 4 0
        --chains 1 0
        --max-epochs 2 0
        """.strip().splitlines(),
    )
}
COMMANDS = (
    "grad", "trace", "train", "predict", "check", "export", "solve", "minimize", "compare", "data", "ops", "lesson",
)  # fmt: skip
LEFT_OUT = {"--step", "--cluster"}  # they wait for a person, and for other processes
MOSTLY = 0.8  # the share of words that are taken from the first half of their list, where they are right


def write_files() -> None:
    """Write data, damaged data and models to the current folder."""
    rows = [(k / 3, 2 + k / 2 + k * 7 % 5 / 9, 0.1 + k % 3 / 20, "ab"[k % 2], k % 4 + 1, k % 3 % 2) for k in range(24)]
    names = ["x", "y", "s", "g", "n", "t"]
    lines = [",".join(map(str, row)) for row in (names, *rows)]
    gaps = [line.replace("1", "", k % 2) for k, line in enumerate(lines)]
    texts = {"data.csv": lines, "gaps.csv": gaps, "one.csv": lines[:2], "header.csv": lines[:1], "empty.csv": []}
    texts |= {"data.jsonl": [json.dumps(dict(zip(names, row, strict=True))) for row in rows], "formula.txt": ["x*y"]}
    for name, content in texts.items():
        Path(name).write_text("\n".join(content), "utf-8")
    Path("bytes.csv").write_bytes(bytes(range(256)))
    for name, model in SAVED.items():
        assert run_cli(["train", model, "data.csv", "--save", name]).status == 0


def pick(random: Random, words: tuple[str, ...]) -> str:
    """One of the words, most often of the first half."""
    return random.choice(words[: -(-len(words) // 2)] if random.random() < MOSTLY else words)


def value_of(random: Random, option: Parameter) -> str:
    """A value for an option."""
    return pick(random, (*option.choices, *VALUES.get(option.option.flags[-1], ())) or NUMBERS)


def command_line(seed: int) -> list[str]:
    """The words of a seed."""
    random = Random(seed)
    name = random.choice(COMMANDS)
    command: Command = find_command(name)
    words, variables = [name], ["a", "b"] if name in ("train", "compare") else ["x", "y"]
    match name:
        case "train" | "compare":
            words += [pick(random, MODELS), pick(random, DATA)]
            words += [pick(random, MODELS)] * (name == "compare")
        case "predict":
            words += [pick(random, (*SAVED, "data.csv", "none.json")), pick(random, DATA)]
        case "data":
            words.append(pick(random, DATA))
        case "ops" | "lesson":
            words.append(pick(random, ("softmax", "slope", "none")))
        case "trace" if random.random() < 0.3:
            words += [pick(random, (*MODELS, *SAVED)), pick(random, DATA), "--row", "3"]
        case _:
            words.append(pick(random, (*FORMULAS, *SAVED) if name == "export" else FORMULAS))
    if (command.takes_values and name not in ("train", "compare")) or random.random() < 0.2:
        for variable in variables:
            words += [f"--{variable}", pick(random, NUMBERS)] * (random.random() < MOSTLY)
    flags = sorted(command.options.keys() - LEFT_OUT)
    for flag in random.sample(flags, min(len(flags), random.choice([0, 1, 1, 2, 3]))):
        option = command.options[flag]
        words += [flag] if option.is_flag else [flag, value_of(random, option)]
    return words


def trouble(words: list[str]) -> str:
    """What is wrong with how a command line ends; empty if nothing is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what Python warns of, users see
            output = run_cli(words, stdin="x,y\n1,2\n")
    except Exception as error:  # all that a user would see a traceback of
        return f"{type(error).__name__}: {error}"
    is_table = "--at" in words or any(":" in word for word in words)  # a document for each row
    return what_is_wrong(output, "--json" in words and not is_table)


def what_is_wrong(output: Output, is_json: bool) -> str:
    """What is wrong with the status, the message and the streams of a command."""
    if output.status not in (0, 1, 2):
        return f"status {output.status}"
    if "Traceback" in output + output.stderr:
        return "a traceback"
    if output.status == 2 and ((output and is_json) or "error: " not in output.stderr):
        return "refused, with a document on standard output, or without a message"
    if is_json and output:
        try:
            json.loads(output, parse_constant=lambda name: sys.exit(name))
        except (ValueError, SystemExit) as error:
            return f"no JSON: {error}"
    return ""


def main() -> int:
    """Try command lines until the time is over."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.commands", description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**9))
    asked = parser.parse_args()
    end, seed, findings = time.monotonic() + asked.seconds, asked.seed, 0
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        while time.monotonic() < end:
            if (seed - asked.seed) % 100 == 0:
                write_files()  # lines may have replaced them
            words = command_line(seed)
            if why := trouble(words):
                findings += 1
                print(f"seed {seed}: autodiff {shlex.join(words)}\n  {why}", flush=True)
            seed += 1
    print(f"{seed - asked.seed} lines from seed {asked.seed}: {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

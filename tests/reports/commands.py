"""Commands, and the reports that they are expected to write: one file a topic, as one would see them in a terminal.

Each command of a topic follows on `$ `, and what it writes to standard output and standard error follows it.
"""

from __future__ import annotations

import contextlib
import math
import random
import re
import shlex
import shutil
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from tests import documents
from tests.support import ROOT, SETS, run_cli

FOLDER = Path(__file__).parent
TOPICS = sorted(path.stem for path in FOLDER.glob("*.txt"))
WORD = re.compile(r"[-+−]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|\s+|[^\s\d]+", re.I)
RELATIVE, ABSOLUTE = 2e-6, 1e-12  # how far numbers may be from those that are stored: processors round differently

MODELS = {
    "decay": ["y ~ a*exp(-b*x) + c", "decay.csv"],
    "sites": ["y ~ a[site]*exp(-b*x) + c", "decay.csv"],
    "poisson": ["k ~ exp(m*a + c)", "linear.csv", "--family", "poisson"],
    "binomial": ["p ~ sigmoid(m*a + n*b + c)", "linear.csv", "--family", "binomial"],
    "two": ["[y, z] ~ [a*x + b, a*x^2 + c]", "two.csv"],
}
FILES = {
    "messy.csv": 'size, kind ,"a ""b""",y\n1.5,"red, dark",x,2\n2.5,blue,,3.5\n,red,y,\n4e0,red,z,5\n3,blue,q,1',
    "german.csv": "Länge;Masse;Ort\n1,5;2.000,25;Köln\n2,5;1.000;Ulm\n3,25;500,5;Köln\n",
    "units.csv": "mass of sample,t\nkg,s\n1.5,0\n2.5,1\n",
    "blanks.txt": "1.0   2.0 3\n 4.0 5.5  6\n7.0 8.0   9\n",
    "comments.csv": "# made by hand\n# x, y\n1,2\n3,4\n# the, end\n5,6\n",
    "dates.csv": "t,y\n03/01/2024,1\n13/01/2024,2.1\n23/01/2024,2.9\n02/02/2024,4\n",
    "tabs.tsv": "x\ty\tflag\n1\t2\ttrue\n3\t4\tfalse\n",
    "rows.jsonl": '{"x": 1, "y": 2.5, "name": "a"}\n{"x": 3, "y": null, "name": "b"}\n',
    "noheader.csv": "1,2,a\n3,4,b\n",
    "ragged.csv": "x,y\n1,2\n3\n4,5,6\n",
    "twice.csv": "x,x,y\n1,2,3\n",
    "empty.csv": "",
    "header.csv": "x,y\n",
    "missing.csv": "x,y\n1,2\n2,\n3,6.1\nnan,5\n4,7.9\n5,10.2\n",
    "part1.csv": "x,y\n1,2\n3,4\n",
    "part2.csv": "y,x\n5,6\n7,8\n",
    "few.csv": "x,a,b,site\n0.5,0.2,1,A\n1,-0.7,0.3,B\n30,2,-4,C\n",
    "exact.csv": "x,y,group\n0,1,1\n1,3,1\n2,7,1\n3,13,2\n4,21,2\n5,31,2\n",
    "separated.csv": "a,p\n-3,0\n-2,0\n-1,0\n1,1\n2,1\n3,1\n",
}


def write_data(folder: Path) -> None:
    """Write the tables that the commands read; the same in every run."""
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    documents.write_data(folder)
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "latin.csv").write_bytes("größe,y\n1,2\n3,4\n".encode("latin-1"))
    for path in (SETS / "iris.csv", ROOT / "docs/data/puromycin.csv", ROOT / "docs/data/warpbreaks.csv"):
        shutil.copy(path, folder)
    draw = random.Random(8)
    write = documents.write_table
    rows = (folder / "decay.csv").read_text().splitlines()
    (folder / "short.csv").write_text("\n".join([rows[0], *rows[1::7]]) + "\n")
    places = [0.1 * i for i in range(60)]

    def peak(x: float, at: float, width: float) -> float:
        return math.exp(-((x - at) ** 2) / (2 * width**2))

    write(
        folder,
        "peaks.csv",
        "x,p",
        [(x, 3 * peak(x, 2, 0.4) + 2 * peak(x, 4, 0.6) + draw.gauss(0, 0.05)) for x in places],
    )
    write(
        folder,
        "two.csv",
        "x,y,z",
        [(x, 2 * x + 1 + draw.gauss(0, 0.1), 2 * x * x - 3 + draw.gauss(0, 0.3)) for x in places],
    )
    write(
        folder,
        "outliers.csv",
        "x,y",
        [(x, 1 + 2 * x + draw.gauss(0, 0.1) + 8 * (i % 9 == 4)) for i, x in enumerate(places)],
    )
    effects = [draw.gauss(0, 1) for _ in range(8)]
    write(
        folder,
        "mixed.csv",
        "a,y,g",
        [(x, 2 * x + 1 + effects[i % 8] + draw.gauss(0, 0.5), f"g{i % 8}") for i, x in enumerate(places)],
    )
    table = pa.table({"x": pa.array([1, 2, None], pa.int32()), "y": [1.5, 2.5, -1.0], "kind": ["a", "b", "a"]})
    pa.parquet.write_table(table, folder / "table.parquet")
    pa.feather.write_feather(table, folder / "table.arrow", compression="uncompressed")


def write_models(folder: Path) -> None:
    """Write the model files that the commands read."""
    with contextlib.chdir(folder):
        for name, words in MODELS.items():
            assert run_cli(["train", *words, "--save", f"{name}.json"]).status == 0, name


def read_topic(topic: str) -> Iterator[tuple[str, str]]:
    """Yield the commands of a topic, each with its stored report."""
    for text in re.split(r"^\$ ", (FOLDER / f"{topic}.txt").read_text(encoding="utf-8"), flags=re.M)[1:]:
        command, _, shown = text.partition("\n")
        yield command, shown


def report(command: str, folder: Path) -> str:
    """Run a command in a folder, and return what it writes, and the text of the files that it leaves there.

    A command that begins with `COLUMNS=N` writes to a terminal with colours and as many columns.
    """
    columns, words = re.match(r"(?:COLUMNS=(\d+) )?autodiff ?(.*)", command).groups()
    before = {*folder.iterdir()}
    with contextlib.chdir(folder):
        result = run_cli(shlex.split(words), terminal=columns and int(columns), colour=columns is not None)
    text = without_last_steps(command, f"{result}{result.stderr}")
    if result.status:
        text += f"exit status {result.status}\n"
    for path in sorted({*folder.iterdir()} - before):
        text += f"wrote {path.name}\n{without_last_steps(command, path.read_text(encoding='utf-8'))}\n"
        path.unlink()
    text = re.sub("<style>.*?</style>", "<style></style>", text.replace("\x1b", "␛"), flags=re.S)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def without_last_steps(command: str, text: str) -> str:
    """Return a report without the steps of methods that end when they converge: their number may depend on rounding."""
    if "--epochs" in command:
        return text
    text = re.sub(r'"epochs": \d+, |"history": \[.*?\], ', "", text)
    text = re.sub(r"after \d+ iterations?", "after some iterations", text)
    most = 4 if "--every 1" in command else -1
    return re.sub(r"^ +(\d+) +-?\d\S*\n", lambda line: line[0] if int(line[1]) <= most else "", text, flags=re.M)


def difference(shown: str, stored: str) -> str | None:
    """Return the first line in which a report differs from the stored one, by more than the last digits of numbers."""
    for new, old in zip_longest(shown.splitlines(), stored.splitlines()):
        if new != old and not (new and old and is_same_line(new, old)):
            return f"stored: {old}\n    now: {new}"
    return None


def is_same_line(new: str, old: str) -> bool:
    """Whether lines differ by the last digits of numbers, and by the blanks that align them."""
    pairs = [*zip_longest(*(WORD.findall(line) for line in (new, old)))]
    return any(map(are_close, pairs)) and all(a == b or are_close((a, b)) or f"{a}{b}".isspace() for a, b in pairs)


def are_close(pair: tuple[str | None, str | None]) -> bool:
    """Whether two words are different ways to write almost the same number."""
    a, b = pair
    if a is None or b is None or a == b or not (a[-1:].isdigit() and b[-1:].isdigit()):
        return False
    return math.isclose(*(float(x.replace("−", "-")) for x in (a, b)), rel_tol=RELATIVE, abs_tol=ABSOLUTE)

"""Break the program in many ways, one at a time, in a copy of the tree, and see which tests notice.

    python -m tests.mutations            all of the table
    python -m tests.mutations sqrt fold  those whose file or text has one of these words in it

First the copy itself is tried: unbroken, the tests have to pass, and with a module that raises they have to fail. Ends
with status 1 where something stays unnoticed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutations.table import MUTATIONS, Mutation
from tests.support import ROOT

SECONDS = 600  # for the tests of one mutation; what hangs is noticed too


def main() -> int:
    """Try all mutations, or those that are named."""
    words = sys.argv[1:]
    chosen = [found for found in MUTATIONS if not words or any(word in found.file + found.old for word in words)]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", ".hypothesis", "__pycache__"))
        sick = set()
        for tests in dict.fromkeys(found.tests for found in chosen):
            if why := failure(copy, tests):
                print(f"{' '.join(tests)} fails with nothing broken, so notices nothing: {why}", flush=True)
                sick.add(tests)
        forced = Mutation("autodiff_cli/graph/node.py", "from __future__ import annotations", "raise ImportError", ())
        if not noticed(copy, forced, ("tests/graph/test_nodes.py",)):
            print("a module that cannot be imported is not noticed: these are not the tests of the copy")
            return 1
        unnoticed = 0
        for number, found in enumerate(chosen, 1):
            begun = time.monotonic()
            why = None if found.tests in sick else noticed(copy, found, found.tests)
            unnoticed += not why
            what = f"{found.file}: {found.old.strip()} -> {found.new.strip()}"
            print(f"{number:3} {time.monotonic() - begun:5.1f} s  {what}\n      {why or 'NOT NOTICED'}", flush=True)
    print(f"{len(chosen)} mutations, {unnoticed} not noticed")
    return 1 if unnoticed else 0


def noticed(copy: Path, mutation: Mutation, tests: tuple[str, ...]) -> str | None:
    """Which test fails where the copy is broken; None if none does."""
    path = copy / mutation.file
    source = path.read_text(encoding="utf-8")
    if source.count(mutation.old) != 1:
        return None  # the table has to follow the program
    path.write_text(source.replace(mutation.old, mutation.new), encoding="utf-8")
    try:
        return failure(copy, tests)
    finally:
        path.write_text(source, encoding="utf-8")


def failure(copy: Path, tests: tuple[str, ...]) -> str | None:
    """The first test that fails in the copy, or that something hangs; None if all pass."""
    # What is imported has to be the copy's, also where the package is installed from this tree.
    world = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    line = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(line, cwd=copy, env=world, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"takes more than {SECONDS} s"
    if done.returncode == 0:
        return None
    told = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR", "E  ", "____"))]
    return (told[0] if told else done.stdout[-300:] + done.stderr[-300:])[:160]


if __name__ == "__main__":
    sys.exit(main())

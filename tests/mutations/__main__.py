"""Break the program in many ways, one at a time, in copies of the tree, and see which tests notice.

    python -m tests.mutations                             300 mutations of the whole package
    python -m tests.mutations --count 40 --seed 7         others, and fewer
    python -m tests.mutations --prefix autodiff_cli/ops   of some files only
    python -m tests.mutations --quick                     without the tests marked slow
    python -m tests.mutations --again mutations.log       those that the output of an earlier run calls unnoticed

The tests that call the broken function run, the quick ones first and those marked slow last, up to the first failure.
To know which tests call it, every test file runs once by itself, traced, also in the processes that it starts; this
takes minutes, and is kept in `.pytest_cache/calls` until the file changes, or the name of any function of the package.
A test that fails is run again with nothing broken, where it has to pass. Ends with status 1 if fewer than 95 % of the
mutations are noticed.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from tests.mutations.operators import PACKAGE, Mutation, draw
from tests.support import ROOT

GOAL = 0.95
UNNOTICED = "NOT NOTICED"
CPU_SECONDS = 600  # of all tests of a file, when they are recorded
SLOWER = 5  # times as long as with nothing broken tests may take, and a start: a loop without end is noticed
START_SECONDS = 20
FIRST = 20  # tests that run before all others, most of which notice what these do not
SLOW = ("--slow", "-mslow")  # options that run the tests marked slow, and no others
RECORDED = ROOT / ".pytest_cache" / "calls"
SERVER = ROOT / "tests" / "mutations" / "server.py"


def main() -> int:
    """Try mutations, and report those that stay unnoticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--skip", type=int, default=0, help="leave out the first of those that are drawn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--prefix", default=PACKAGE, help="a folder or a file of the package")
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=400, help="of the tests of one mutation")
    parser.add_argument("--without", nargs="*", default=[], help="folders of tests to leave out, such as tests/browser")
    parser.add_argument("--quick", action="store_true", help="leave out the tests marked slow")
    parser.add_argument("--again", type=Path, metavar="LOG", help="an earlier run: try what it calls unnoticed")
    parser.add_argument("--list", action="store_true", help="print the mutations, and run nothing")
    chosen = parser.parse_args()
    mutations = draw(ROOT, chosen.count, chosen.seed, chosen.prefix)[chosen.skip :]
    if chosen.again:
        lines = chosen.again.read_text(encoding="utf-8").splitlines()
        unnoticed_changes = {change_of(line) for line, below in pairwise(lines) if below.strip() == UNNOTICED}
        mutations = [mutation for mutation in mutations if change_of(str(mutation)) in unnoticed_changes]
    if chosen.list:
        print(*mutations, sep="\n")
        return 0
    unnoticed = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(chosen.parallel) as pool:
        copies: queue.Queue[Copy] = queue.Queue()
        for k in range(chosen.parallel):
            copies.put(Copy(Path(folder) / f"copy{k}"))
        files = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "tests").rglob("test_*.py"))]
        files = [file for file in files if not file.startswith(tuple(chosen.without))]
        files += [file for file in sorted({mutation.file for mutation in mutations}) if ">>>" in text_of(file)]
        kinds = [(file, True) for file in files if "mark.slow" in text_of(file) and not chosen.quick]
        kinds += [(file, False) for file in files]
        calls = {
            name: test
            for known in pool.map(lambda kind: with_copy(copies, Copy.calls_of, *kind), kinds)
            for name, test in known.items()
        }

        def attempt(mutation: Mutation) -> tuple[str | None, float]:
            begun = time.monotonic()
            tests = callers(mutation, calls, chosen.seconds)
            found: str | None = with_copy(copies, Copy.noticing_test, mutation, tests, calls)
            return found, time.monotonic() - begun

        for number, (mutation, (why, seconds)) in enumerate(
            zip(mutations, pool.map(attempt, mutations), strict=True), chosen.skip + 1
        ):
            print(f"{number:3} {seconds:6.1f} s  {mutation}\n      {why or UNNOTICED}", flush=True)
            unnoticed += [] if why else [mutation]
    share = 1 - len(unnoticed) / max(len(mutations), 1)
    print(f"{len(mutations)} mutations, {len(unnoticed)} not noticed: {share:.1%} noticed", *unnoticed, sep="\n")
    return 0 if share >= GOAL else 1


def change_of(line: str) -> tuple[str, str]:
    """Return what a line says of a mutation, without the number of the line, which may have changed since."""
    file, change = re.findall(r"(autodiff_cli/\S+\.py):\d+ (.*)", line)[0]
    return file, change


def with_copy(copies: queue.Queue[Copy], method: Any, *arguments: Any) -> Any:
    """Call a method of a copy that no other thread uses."""
    copy = copies.get()
    try:
        return method(copy, *arguments)
    finally:
        copies.put(copy)


@dataclass(frozen=True)
class Calls:
    """What a test calls, and how long it takes.

    Attributes:
        seconds: its processor time.
        called: functions of the package, as `file:function`; the function of a module is `<module>`.
        is_slow: whether it is marked slow.
    """

    seconds: float
    called: frozenset[str]
    is_slow: bool = False


class Copy:
    """A copy of the tree, in which one place at a time is broken, and a process that runs its tests."""

    def __init__(self, path: Path) -> None:
        ignored = shutil.ignore_patterns(".git", ".venv", ".hypothesis", "__pycache__", "node_modules")
        shutil.copytree(ROOT, path, ignore=ignored)
        self.path = path
        self.sick: set[str] = set()  # tests that fail with nothing broken
        self.healthy: set[str] = set()
        environment = {**os.environ, "PYTHONPATH": str(path)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.server = subprocess.Popen(
            [sys.executable, str(path / SERVER.relative_to(ROOT))],
            cwd=path,
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def run(self, tests: list[str], seconds: float, is_traced: bool = False) -> dict[str, Any]:
        """Run tests, and return the first that fails, and what each of them calls if it is traced."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        request = {"tests": tests, "seconds": int(seconds), "is_traced": is_traced}
        print(json.dumps(request), file=self.server.stdin, flush=True)
        found: dict[str, Any] = json.loads(self.server.stdout.readline())
        return found

    def calls_of(self, file: str, is_slow: bool) -> dict[str, Calls]:
        """Run the quick or the slow tests of a file by themselves, and return what each of them calls. What is recorded
        is read from a file."""
        read = (ROOT / file).read_bytes() + SERVER.read_bytes() + "\n".join(names_of_package()).encode()
        digest = hashlib.sha256(read).hexdigest()[:16]
        record = RECORDED / f"{file.replace('/', '.')}.{digest}{'.slow' if is_slow else ''}.json"
        if not record.exists():
            RECORDED.mkdir(parents=True, exist_ok=True)
            found = self.run([*(SLOW if is_slow else ()), file], CPU_SECONDS, is_traced=True)
            if found["failure"] and not found["tests"]:
                print(f"no test of {file} runs: {found['failure']}", file=sys.stderr)
                return {}
            record.write_text(json.dumps(found), encoding="utf-8")
        known = json.loads(record.read_text(encoding="utf-8"))
        return {
            name: Calls(seconds, frozenset(known["functions"][k] for k in called), is_slow)
            for name, (seconds, called) in known["tests"].items()
        }

    def noticing_test(self, mutation: Mutation, tests: list[str], calls: Mapping[str, Calls]) -> str | None:
        """Return the first test that fails because of a mutation, or None."""
        path = self.path / mutation.file
        source = path.read_bytes()
        quick, slow = ([test for test in tests if calls[test].is_slow == is_slow] for is_slow in (False, True))
        for part, options in ((quick[:FIRST], ()), (quick[FIRST:], ()), (slow, SLOW)):
            limit = START_SECONDS + SLOWER * sum(calls[test].seconds for test in part)
            while part:
                self._write(path, mutation.apply(source))
                failed = self.run([*options, *(f"--deselect={test}" for test in self.sick), *part], limit)["failure"]
                self._write(path, source)
                if failed is None:
                    break
                if "::" not in failed:  # the process was ended, by the mutation or because its tests take that long
                    if self.run([*options, *part], limit)["failure"] is None:
                        return str(failed)
                    break
                if not self._is_sick(failed, options):
                    return str(failed)
        return None

    @staticmethod
    def _write(path: Path, source: bytes) -> None:
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()  # the change may have the size and the second of the original
        path.write_bytes(source)

    def _is_sick(self, test: str, options: tuple[str, ...]) -> bool:
        """Whether a test fails with nothing broken; it is then left out from now on."""
        if test in self.healthy:
            return False
        failed = self.run([*options, test], CPU_SECONDS)["failure"]
        (self.healthy if failed is None else self.sick).add(test)
        return failed is not None


def callers(mutation: Mutation, calls: Mapping[str, Calls], most_seconds: float) -> list[str]:
    """Return the tests that call a broken function, the quick ones first and those marked slow last, of each kind as
    many as take a number of seconds.

    What no test calls, or none but those that import its file, such as a function that builds a table, is looked for in
    the tests that are about its file and those that call others of it, and if there are none, in the tests of files
    that start processes. Tables at the top of a module are looked for first in the tests that are about it.
    """
    file = f"{mutation.file}:"
    function = f"{file}{mutation.function}"
    # A class and the top of a module run when they are imported: the tests that matter call their functions.
    inside = f"{function}." if mutation.function else function
    called = {test: known.called - {f"{file}<module>"} for test, known in calls.items()}
    found = [test for test, names in called.items() if any(x == function or x.startswith(inside) for x in names)]
    likely: set[str] = set()
    if not mutation.function or all(f"{file}<module>" in calls[test].called for test in found):
        likely = {test for test in calls if is_about(test.partition("::")[0], mutation.file)}
        found = found or [test for test, names in called.items() if any(x.startswith(file) for x in names)]
        found = found or [test for test in calls if "subprocess" in text_of(test.partition("::")[0])]
    found = [*likely.union(found)]
    found.sort(key=lambda test: (test not in likely, calls[test].seconds, test))
    chosen = []
    for is_slow in (False, True):
        kind = [test for test in found if calls[test].is_slow == is_slow]
        totals = accumulate(calls[test].seconds for test in kind)
        chosen += [test for test, total in zip(kind, totals, strict=True) if total <= most_seconds]
    return chosen


@cache
def names_of_package() -> tuple[str, ...]:
    """Return the names of all functions and classes of the package, each after its file.

    A record of calls by old names would say that no test calls a function that has been renamed or moved.
    """
    return tuple(
        f"{path.relative_to(ROOT).as_posix()}:{node.name}"
        for path in sorted((ROOT / PACKAGE).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    )


@cache
def is_about(tests: str, file: str) -> bool:
    """Whether a file of tests stands in the folder of tests that mirrors that of a module, or imports the module."""
    folder = file.removeprefix(PACKAGE).rpartition("/")[0]
    if folder and tests.startswith(f"tests{folder}/"):
        return True
    module = file.removesuffix(".py").replace("/", ".")
    return re.search(rf"\b{re.escape(module)}\b", text_of(tests)) is not None


@cache
def text_of(file: str) -> str:
    """Return the text of a file of the tree."""
    return (ROOT / file).read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

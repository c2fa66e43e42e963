"""Break the program in many ways, one at a time, in copies of the tree, and see which tests notice.

    python -m tests.mutations                             300 mutations of the whole package, which takes hours
    python -m tests.mutations --count 40 --seed 7         others, and fewer
    python -m tests.mutations --prefix autodiff_cli/ops   of some files only
    python -m tests.mutations --near                      with the tests next to a module only

The tests whose imports lead to the broken module on the shortest path run first, and stop at the first failure. Where
all of these pass, other tests that call the broken function follow. To know which these are, every test file runs once
by itself; this takes a quarter of an hour, and is kept in `.pytest_cache/calls`. A test that fails is run again with
nothing broken, where it has to pass. Ends with status 1 if fewer than 95 % of the mutations are noticed.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import queue
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path

from tests.mutations.operators import PACKAGE, Mutation, draw
from tests.support import ROOT

GOAL = 0.95
CPU_SECONDS = 600  # of one process; a loop without end is noticed, however busy the machine is
WALL_SECONDS = 3600  # for processes that wait for each other
MOST_SECONDS = 400  # of the further tests of one mutation, the quick ones first
NEAREST = 6  # test files next to a module, if no test imports it
RECORDED = ROOT / ".pytest_cache" / "calls"
NO_TESTS_COLLECTED = 5


def main() -> int:
    """Try mutations, and report those that stay unnoticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--skip", type=int, default=0, help="leave out the first of those that are drawn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--prefix", default=PACKAGE, help="a folder or a file of the package")
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--near", action="store_true", help="run only the tests next to a module")
    parser.add_argument("--list", action="store_true", help="print the mutations, and run nothing")
    chosen = parser.parse_args()
    mutations = draw(ROOT, chosen.count, chosen.seed, chosen.prefix)[chosen.skip :]
    if chosen.list:
        print(*mutations, sep="\n")
        return 0
    calls = {} if chosen.near else record_calls(chosen.parallel)
    unnoticed = []
    with tempfile.TemporaryDirectory() as folder:
        copies: queue.Queue[Copy] = queue.Queue()
        for k in range(chosen.parallel):
            copies.put(Copy(Path(folder) / f"copy{k}"))

        def attempt(mutation: Mutation) -> tuple[str | None, float]:
            copy = copies.get()
            begun = time.monotonic()
            try:
                return copy.noticing_test(mutation, calls), time.monotonic() - begun
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(chosen.parallel) as pool:
            for number, (mutation, (why, seconds)) in enumerate(
                zip(mutations, pool.map(attempt, mutations), strict=True), chosen.skip + 1
            ):
                print(f"{number:3} {seconds:6.1f} s  {mutation}\n      {why or 'NOT NOTICED'}", flush=True)
                unnoticed += [] if why else [mutation]
    share = 1 - len(unnoticed) / max(len(mutations), 1)
    print(f"{len(mutations)} mutations, {len(unnoticed)} not noticed: {share:.1%} noticed", *unnoticed, sep="\n")
    return 0 if share >= GOAL else 1


class Copy:
    """A copy of the tree, in which one place at a time is broken."""

    def __init__(self, path: Path) -> None:
        ignored = shutil.ignore_patterns(".git", ".venv", ".hypothesis", "__pycache__", "node_modules")
        shutil.copytree(ROOT, path, ignore=ignored)
        self.path = path
        self.sick: set[str] = set()  # tests that fail with nothing broken
        self.healthy: set[str] = set()

    def noticing_test(self, mutation: Mutation, calls: Mapping[str, Calls]) -> str | None:
        """Return the first test that fails because of a mutation, or None."""
        for tests in stages(mutation, calls):
            while tests:
                failed = self._broken_by(mutation, tests)
                if failed is None or not self._is_sick(failed):
                    break
            if tests and failed is not None:
                return failed
        return None

    def _broken_by(self, mutation: Mutation, tests: list[str]) -> str | None:
        path = self.path / mutation.file
        source = path.read_bytes()
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()  # the change may have the size and the second of the original
        path.write_bytes(mutation.apply(source))
        try:
            return self._failure(tests)
        finally:
            path.write_bytes(source)
            for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
                compiled.unlink()

    def _is_sick(self, test: str) -> bool:
        """Whether a test fails with nothing broken; it is then left out from now on."""
        if "::" not in test or test in self.healthy:
            return False
        failed = self._failure([test])
        (self.healthy if failed is None else self.sick).add(test)
        return failed is not None

    def _failure(self, tests: list[str]) -> str | None:
        """Return the first test that fails in the copy, or that something hangs; None if all pass."""
        kernels = tempfile.mkdtemp(dir=self.path.parent)  # kernels of a broken program are not for the next one
        environment = {**os.environ, "PYTHONPATH": str(self.path), "XDG_CACHE_HOME": kernels}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        deselected = [f"--deselect={test}" for test in self.sick]
        line = [sys.executable, "-m", "pytest", "-q", "-x", "-rfE", "--no-header", "--tb=no", *deselected, *tests]
        try:
            done = subprocess.run(
                line, cwd=self.path, env=environment, capture_output=True, text=True, timeout=WALL_SECONDS,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS)),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"takes more than {WALL_SECONDS} s"
        finally:
            shutil.rmtree(kernels, ignore_errors=True)
        if done.returncode in (0, NO_TESTS_COLLECTED):
            return None
        match = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
        return match[1] if match else f"status {done.returncode}: {(done.stdout + done.stderr)[-150:]!r}"


# --- which tests concern a function


@dataclass(frozen=True)
class Calls:
    """What the tests of one file call, and how long they take.

    Attributes:
        seconds: their processor time.
        called: functions of the package, as `file:function`; the function of a module is `<module>`.
    """

    seconds: float
    called: frozenset[str]


def record_calls(parallel: int) -> dict[str, Calls]:
    """Run every test file by itself, and return what each calls. What is recorded already is read from files."""
    RECORDED.mkdir(parents=True, exist_ok=True)
    files = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "tests").rglob("test_*.py"))]

    def record(file: str) -> Calls:
        found = RECORDED / f"{file.replace('/', '.')}.json"
        if not found.exists():
            line = [sys.executable, "-m", "pytest", "-q", "-p", "tests.mutations.calls", "-p", "no:cacheprovider", file]
            environment = {**os.environ, "CALLS": str(found), "PYTHONPATH": str(ROOT)}
            subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, check=False, timeout=WALL_SECONDS)
        if not found.exists():
            return Calls(0.0, frozenset())
        known = json.loads(found.read_text(encoding="utf-8"))
        return Calls(known["seconds"], frozenset(known["called"]))

    with ThreadPoolExecutor(parallel) as pool:
        return dict(zip(files, pool.map(record, files), strict=True))


def stages(mutation: Mutation, calls: Mapping[str, Calls]) -> Iterator[list[str]]:
    """Yield the tests to run in turn: those next to the module, then all that call the function.

    What is called only in other processes is looked for in the tests that start some.
    """
    near = near_tests(mutation.file)
    yield near
    callers = [file for file, known in calls.items() if _is_called(mutation, known.called) and file not in near]
    callers.sort(key=lambda file: calls[file].seconds)
    seconds = accumulate(calls[file].seconds for file in callers)
    yield [file for file, total in zip(callers, seconds, strict=True) if total <= MOST_SECONDS]
    if not callers:
        yield [file for file in calls if "subprocess" in (ROOT / file).read_text(encoding="utf-8")]


def near_tests(file: str) -> list[str]:
    """Return the examples of a module, tests with its name, and those whose imports lead to it in the fewest steps."""
    module = Path(file)
    steps = steps_to(file)
    tests = sorted(
        (test for test in steps if Path(test).name.startswith("test_")), key=lambda test: (steps[test], test)
    )
    direct = [test for test in tests if steps[test] <= 1]
    named = [test for test in tests if module.stem in Path(test).stem or module.stem == Path(test).parent.name]
    examples = [file] if ">>>" in (ROOT / file).read_text(encoding="utf-8") else []
    return [*examples, *dict.fromkeys([*named, *direct, *tests[:NEAREST]])]


@cache
def imports() -> dict[str, set[str]]:
    """Return which files of the package each file imports, for tests and the package."""
    files = [path for folder in (PACKAGE, "tests") for path in (ROOT / folder).rglob("*.py")]
    known = {path.relative_to(ROOT).as_posix() for path in files}
    return {name: {*_imported(ROOT / name)} & known for name in known}


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            yield f"{name.replace('.', '/')}.py"


def steps_to(file: str) -> dict[str, int]:
    """Return the number of imports from each file to a module, on the shortest path."""
    steps, level = {file: 0}, 0
    while True:
        level += 1
        above = {name for name, found in imports().items() if name not in steps and found & steps.keys()}
        if not above:
            return steps
        steps |= dict.fromkeys(above, level)


def _is_called(mutation: Mutation, called: Set[str]) -> bool:
    function = f"{mutation.file}:{mutation.function}"
    # A class and the top of a module run when they are imported: the tests that matter call their functions.
    inside = {name for name in called if name.startswith(function)} - {f"{mutation.file}:<module>"}
    return bool(inside)


if __name__ == "__main__":
    sys.exit(main())

"""Break the program in many ways, one at a time, in copies of the tree, and see which tests notice.

    python -m tests.mutations                             300 mutations of the whole package
    python -m tests.mutations --count 40 --seed 7         others, and fewer
    python -m tests.mutations --prefix autodiff_cli/ops   of some files only
    python -m tests.mutations --near                      with the tests next to a module only
    python -m tests.mutations --again mutations.log       those that the output of an earlier run calls unnoticed

The tests whose imports lead to the broken module on the shortest path run first, then other tests that call the broken
function, the quick ones first, up to the first failure. To know which tests call it, every test file runs once by
itself; this takes minutes, and is kept in `.pytest_cache/calls`. A test that fails is run again with nothing broken,
where it has to pass. Ends with status 1 if fewer than 95 % of the mutations are noticed.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Set
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
UNKNOWN_SECONDS = 4.0  # of the tests of a file that are not recorded
NEAREST = 6  # test files next to a module, if no test imports it
RECORDED = ROOT / ".pytest_cache" / "calls"


def main() -> int:
    """Try mutations, and report those that stay unnoticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--skip", type=int, default=0, help="leave out the first of those that are drawn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--prefix", default=PACKAGE, help="a folder or a file of the package")
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=400, help="of the tests of one mutation")
    parser.add_argument("--near", action="store_true", help="run only the tests next to a module, and record nothing")
    parser.add_argument("--without", nargs="*", default=[], help="folders of tests to leave out, such as tests/browser")
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
        files = [file for file in files if not (chosen.near or file.startswith(tuple(chosen.without)))]
        calls = dict(zip(files, pool.map(lambda file: with_copy(copies, Copy.calls_of, file), files), strict=True))

        def attempt(mutation: Mutation) -> tuple[str | None, float]:
            begun = time.monotonic()
            tests = [*stages(mutation, calls, chosen.seconds, tuple(chosen.without))]
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
    """What the tests of one file call, and how long they take.

    Attributes:
        seconds: their processor time.
        called: functions of the package, as `file:function`; the function of a module is `<module>`.
    """

    seconds: float
    called: frozenset[str]


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
        server = [sys.executable, str(path / "tests" / "mutations" / "server.py")]
        self.server = subprocess.Popen(
            server, cwd=path, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def run(self, tests: list[str], seconds: float, is_traced: bool = False) -> dict[str, Any]:
        """Run tests, and return the first that fails, the seconds, and the functions that they call if it is traced."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        request = {"tests": tests, "seconds": int(seconds), "is_traced": is_traced}
        print(json.dumps(request), file=self.server.stdin, flush=True)
        found: dict[str, Any] = json.loads(self.server.stdout.readline())
        return found

    def calls_of(self, file: str) -> Calls:
        """Run a test file by itself, and return what it calls. What is recorded already is read from a file."""
        record = RECORDED / f"{file.replace('/', '.')}.json"
        if not record.exists():
            RECORDED.mkdir(parents=True, exist_ok=True)
            record.write_text(json.dumps(self.run([file], CPU_SECONDS, is_traced=True)), encoding="utf-8")
        known = json.loads(record.read_text(encoding="utf-8"))
        return Calls(known["seconds"], frozenset(known["called"]))

    def noticing_test(self, mutation: Mutation, stages: Iterable[list[str]], calls: Mapping[str, Calls]) -> str | None:
        """Return the first test that fails because of a mutation, or None."""
        path = self.path / mutation.file
        source = path.read_bytes()
        for tests in stages:
            seconds = sum(calls[test].seconds if test in calls else UNKNOWN_SECONDS for test in tests)
            limit = START_SECONDS + SLOWER * seconds
            while tests:
                self._write(path, mutation.apply(source))
                failed = self.run([*(f"--deselect={test}" for test in self.sick), *tests], limit)["failure"]
                self._write(path, source)
                if failed is None:
                    break
                if "::" not in failed:  # the process was ended, by the mutation or because its tests take that long
                    if self.run(tests, limit)["failure"] is None:
                        return str(failed)
                    break
                if not self._is_sick(failed):
                    return str(failed)
        return None

    @staticmethod
    def _write(path: Path, source: bytes) -> None:
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()  # the change may have the size and the second of the original
        path.write_bytes(source)

    def _is_sick(self, test: str) -> bool:
        """Whether a test fails with nothing broken; it is then left out from now on."""
        if test in self.healthy:
            return False
        failed = self.run([test], CPU_SECONDS)["failure"]
        (self.healthy if failed is None else self.sick).add(test)
        return failed is not None


# --- which tests concern a function


def stages(
    mutation: Mutation, calls: Mapping[str, Calls], most_seconds: float, left_out: tuple[str, ...]
) -> Iterator[list[str]]:
    """Yield the tests to run in turn: those next to the module that call the function, then all others that do.

    What no test calls in its own process is looked for in the tests that start some.
    """
    callers = [file for file, known in calls.items() if _is_called(mutation, known.called)] or [
        file for file in calls if "subprocess" in (ROOT / file).read_text(encoding="utf-8")
    ]
    near = [file for file in near_tests(mutation.file) if not file.startswith(left_out)]
    near = [file for file in near if file in callers or file not in calls]
    yield near
    callers = sorted({*callers} - {*near}, key=lambda file: (calls[file].seconds, file))
    seconds = accumulate(calls[file].seconds for file in callers)
    yield [file for file, total in zip(callers, seconds, strict=True) if total <= most_seconds]


def near_tests(file: str) -> list[str]:
    """Return the examples of a module, tests with its name, tests whose imports lead to it in the fewest steps, and
    those in the folder of tests that has the name of its folder.
    """
    module = Path(file)
    steps = steps_to(file)
    tests = sorted(
        (test for test in steps if Path(test).name.startswith("test_")), key=lambda test: (steps[test], test)
    )
    direct = [test for test in tests if steps[test] <= 1]
    named = [test for test in tests if module.stem in Path(test).stem or module.stem == Path(test).parent.name]
    folder = Path("tests", *module.parent.parts[1:])
    while not (ROOT / folder / "__init__.py").exists():
        folder = folder.parent
    beside = sorted((ROOT / folder).rglob("test_*.py")) if len(folder.parts) > 1 else []
    examples = [file] if ">>>" in (ROOT / file).read_text(encoding="utf-8") else []
    return [
        *examples,
        *dict.fromkeys([*named, *direct, *tests[:NEAREST], *(test.relative_to(ROOT).as_posix() for test in beside)]),
    ]


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

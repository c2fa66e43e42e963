"""A warm process that runs tests of one copy of the tree, each time in a child that imports the program afresh.

Libraries take most of the second that pytest needs to start, and the program's own modules only a part: so libraries
are imported once, and the program in each child. Requests and answers are lines of JSON, on standard input and output.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

PACKAGE = "autodiff_cli"
WALL_SECONDS = 3600  # for processes that wait for each other; a busy machine is no finding
OPTIONS = ("-q", "--tb=no", "-pno:cacheprovider", "-pno:xdist", "-Wignore::pytest.PytestAssertRewriteWarning")
LIBRARIES = """
    numpy pyarrow pyarrow.csv pyarrow.parquet pyarrow.compute llvmlite.binding flint hypothesis hypothesis.strategies
    mpmath scipy.special scipy.optimize lark rich.console typer pytest _pytest.assertion.rewrite
"""


class Watcher:
    """A plugin for pytest that keeps the first failure, and what each test calls, also in processes that it starts.

    Args:
        package: the folder of the package.
        calls: a folder in which such processes write what they call; see `startup/sitecustomize.py`.

    Attributes:
        failure: the test that failed first.
        tests: by the name of a test, its processor time in seconds and the numbers of the functions that it calls. All
            tests of a file call what its fixtures call, and the cases of a test are one.
        functions: the functions of the package that the tests call, as `file:function`.
    """

    def __init__(self, package: Path, calls: Path) -> None:
        self.failure: str | None = None
        self.tests: dict[str, tuple[float, set[int]]] = {}
        self.functions: dict[str, int] = {}
        self._package = f"{package}{os.sep}"
        self._calls = calls
        self._codes: set[CodeType] = set()
        self._shared: set[int] = set()
        self._begun = 0.0

    def trace(self, frame: FrameType, _event: str, _argument: object) -> None:
        """Note the function of a new frame; its lines are not traced."""
        self._codes.add(frame.f_code)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep a test that fails, and what was called in this part of a test."""
        self.pytest_collectreport(report)
        codes, self._codes = self._codes, set()  # what follows is traced too
        places = {(code.co_filename, code.co_qualname) for code in codes} | self._called_by_processes()
        called = {self.functions.setdefault(name, len(self.functions)) for name in self._names(places)}
        if report.when == "setup":
            self._shared |= called
        name, now = report.nodeid.partition("[")[0], time.process_time()
        seconds, known = self.tests.get(name, (0.0, set()))
        self.tests[name], self._begun = (seconds + now - self._begun, known | called), now

    def pytest_collectreport(self, report: Any) -> None:
        """Keep what cannot be imported."""
        self.failure = self.failure or (report.nodeid if report.failed else None)

    def pytest_collection_finish(self) -> None:
        """Forget what importing the tests calls."""
        self._codes.clear()
        self._begun = time.process_time()

    def record(self) -> dict[str, Any]:
        """Return the functions, and for each test its seconds and the numbers of the functions that it calls."""
        tests = {name: (seconds, sorted(called | self._shared)) for name, (seconds, called) in self.tests.items()}
        return {"functions": [*self.functions], "tests": tests}

    def _called_by_processes(self) -> set[tuple[str, ...]]:
        """Return what processes called that have ended since the last time: files and names of functions."""
        places = set[tuple[str, ...]]()
        for path in self._calls.iterdir():
            places.update(tuple(line.split("\t")) for line in path.read_text(encoding="utf-8").splitlines())
            path.unlink()
        return places

    def _names(self, places: set[tuple[str, ...]]) -> list[str]:
        """Return the names of functions of the package, with the file's path from the root of the tree."""
        return [
            f"{PACKAGE}/{file[len(self._package) :]}:{name.replace('.<locals>', '')}"
            for file, name in places
            if file.startswith(self._package)
        ]


def run(tests: list[str], seconds: int, is_traced: bool) -> dict[str, Any]:
    """Run tests in this process up to the first failure."""
    import pytest

    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    with tempfile.TemporaryDirectory() as calls:
        watcher = Watcher(Path.cwd() / PACKAGE, Path(calls))
        if is_traced:
            startup = Path(__file__).with_name("startup")
            os.environ.update(RECORDED_CALLS=calls, PYTHONPATH=f"{startup}{os.pathsep}{os.environ['PYTHONPATH']}")
            threading.settrace(watcher.trace)
            sys.settrace(watcher.trace)
        status = pytest.main([*OPTIONS, *([] if is_traced else ["-x"]), *tests], [watcher])
        sys.settrace(None)
    ended = watcher.failure or (None if status in (0, 5) else f"status {status}")  # 5: no tests are left
    return {"failure": ended, **(watcher.record() if is_traced else {})}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Run what a request asks for in a child, and return its results, or how it ended."""
    with tempfile.NamedTemporaryFile() as results:
        child = os.fork()
        if child == 0:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os.dup2(0, 1)
            os.dup2(0, 2)
            with contextlib.suppress(BaseException):
                Path(results.name).write_text(json.dumps(run(**request)), encoding="utf-8")
            os._exit(0)
        late = threading.Timer(WALL_SECONDS, os.killpg, [child, signal.SIGKILL])
        late.start()
        _, status = os.waitpid(child, 0)
        late.cancel()
        late.join()
        with contextlib.suppress(ProcessLookupError):  # what the child has started and left
            os.killpg(child, signal.SIGKILL)
        text = results.read()
    ended: dict[str, Any] = {"failure": f"ends with status {status}", "functions": [], "tests": {}}
    return json.loads(text) if text else ended


def main() -> None:
    """Answer requests until there are no more."""
    sys.path[0] = os.getcwd()
    for library in LIBRARIES.split():
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(library)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()

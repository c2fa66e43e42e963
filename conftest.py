"""How the tests run.

python -m pytest                          all tests except slow ones, on all cores
python -m pytest --slow                   slow tests too, and more examples and cases
python -m pytest --exhaustive             as --slow, with every point, seed and example; by hand
python -m pytest --slow --skip-passed     the tests and cases that `--slow` adds to the last whole run without it
python -m pytest --share 2/3              every third test, from the second on
python -m pytest tests/graph              one folder, in this process

Tests that need a missing program or library are skipped, and with `REQUIRE_TOOLS` set they fail; see `tests/tools.py`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import os
import re
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from tests import each

pytest.register_assert_rewrite("tests.support")

# Modules that need an extra are searched for doctests only if it is installed.
EXTRAS = {"sklearn": "autodiff_cli/sklearn.py", "starlette": "autodiff_cli/cli/server.py"}
collect_ignore = [file for module, file in EXTRAS.items() if importlib.util.find_spec(module) is None]

# No deadline, because a busy machine is no error; the same examples every time, because tests/fuzz looks for new ones.
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=10)
settings.register_profile("slow", deadline=None, derandomize=True, max_examples=15)
settings.register_profile("exhaustive", deadline=None, derandomize=True, max_examples=100)
# Hypothesis also draws constants from the source code of all modules that are imported by then: other ones in each run
# with several workers. Reading them all takes each worker seconds.
vars(providers)["_get_local_constants"] = lambda: providers._local_constants


CACHE = Path(__file__).parent / ".pytest_cache" / "home"  # in place of ~/.cache
FRAMEWORKS = re.compile(r"\b(torch|jax)\b")  # too large for continuous integration; `.ci/run` has JAX where it installs
MORE_CASES = "has more cases with --slow"  # a property of reports
PASSED = "autodiff/passed"  # the key in pytest's cache under which a whole run without --slow stores what passed

R = TypeVar("R", pytest.TestReport, pytest.CollectReport)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of this project."""
    parser.addoption("--slow", action="store_true", help="run slow tests too, and try properties on more examples")
    parser.addoption("--exhaustive", action="store_true", help="as --slow, with every point, seed and example, by hand")
    parser.addoption(
        "--skip-passed",
        action="store_true",
        help="with --slow: leave out tests that passed in the last whole run and of which --slow has no more cases",
    )
    parser.addoption("--share", metavar="K/N", default="1/1", help="run only every Nth test, from the Kth on")


def pytest_configure(config: pytest.Config) -> None:
    """Choose how many examples each property is tried on, and keep the caches of the tests apart from the user's."""
    if config.getoption("--exhaustive"):
        config.option.slow = True
    settings.load_profile(
        "exhaustive" if config.getoption("--exhaustive") else "slow" if config.getoption("--slow") else "quick"
    )
    os.environ["XDG_CACHE_HOME"] = str(CACHE)
    # Hundreds of processes load the package; without bytecode each would compile it.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a job of the background; tests interrupt processes
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Run the whole suite on all cores if pytest-xdist is installed. Files named by the user run in this process."""
    if hasattr(config, "workerinput"):
        return  # a worker starts no workers of its own
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if whole and not config.getoption("--slow"):
        config.pluginmanager.register(PassedTests())
    if whole and getattr(config.option, "numprocesses", 0) is None and not config.option.usepdb:
        config.option.numprocesses = "auto"
        config.option.dist = "worksteal"


def pytest_collection_finish() -> None:
    """Spare the garbage collector the thousands of objects that stay until the end."""
    gc.enable()
    gc.freeze()


def pytest_collection(session: pytest.Session) -> None:
    """Import the test files last to first in every second worker of a whole run: two workers that collect at the same
    time then meet in the middle, and each reads from the disk what the other compiled."""
    gc.disable()  # until everything is collected: nearly nothing of it is garbage
    worker = getattr(session.config, "workerinput", {}).get("workerid", "gw0")
    if int(worker.removeprefix("gw")) % 2 and session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        root = session.config.rootpath
        for file in sorted((root / "tests").rglob("test_*.py"), reverse=True):
            # What cannot be imported is reported when it is collected.
            with contextlib.suppress(BaseException):
                importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that need an option, and of tests that are marked `sampled` all but a part of the cases. With
    `--skip-passed`, leave out tests that passed before with all cases that `--slow` has. With `--share`, leave out all
    but every Nth of the others."""
    cache, missing = getattr(config, "cache", None), missing_options(config)
    chosen = [*each.chosen_cases([item for item in items if not any(map(item.get_closest_marker, missing))])]
    if config.getoption("--slow") and config.getoption("--skip-passed") and cache is not None:
        passed = set(cache.get(PASSED, []))
        chosen = [item for item in chosen if item.nodeid not in passed]
    first, step = map(int, config.getoption("--share").split("/"))
    chosen = chosen[first - 1 :: step]
    config.hook.pytest_deselected(items=[*set(items).difference(chosen)])
    items[:] = chosen


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Note whether a test has more cases with `--slow`."""
    before = each.asked
    yield
    if each.asked > before:
        item.user_properties.append((MORE_CASES, True))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that is skipped, where `REQUIRE_TOOLS` is set."""
    return require_tools((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail a file that is skipped, where `REQUIRE_TOOLS` is set."""
    return require_tools((yield))


def require_tools(report: R) -> R:
    """Make a skip a failure where `REQUIRE_TOOLS` is set, except for frameworks that continuous integration lacks."""
    if report.skipped and os.environ.get("REQUIRE_TOOLS") and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr)
        if not FRAMEWORKS.search(reason):
            report.outcome, report.longrepr = "failed", reason
    return report


def missing_options(config: pytest.Config) -> list[str]:
    """Return the options without which some tests do not run."""
    return [name for name in ("slow", "exhaustive") if not config.getoption(f"--{name}")]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how to run the tests that are left out."""
    for name in missing_options(config)[:1]:
        terminalreporter.write_line(f"`.venv/bin/python -m pytest --{name}` runs {name} tests too")


class PassedTests:
    """Stores the names of the tests that passed in a whole run without `--slow`, and have no more cases with it, for
    `--skip-passed`. More examples of a property that held are no reason to repeat it."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a test that passed."""
        if report.when == "call" and report.passed and MORE_CASES not in dict(report.user_properties):
            self.names.append(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the names to pytest's cache."""
        if (cache := getattr(session.config, "cache", None)) is not None:
            cache.set(PASSED, self.names)

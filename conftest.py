"""How the tests run: all of them on every core, slow ones only when asked for, properties without a deadline.

python -m pytest                  everything but what is slow, and the browser tests where their tools are
python -m pytest --slow           everything, and properties tried on more examples
python -m pytest tests/graph      some of it, in this process
"""

from __future__ import annotations

import importlib.util

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("tests.support")

# What needs an extra is looked at for examples where that is there.
EXTRAS = {"sklearn": "autodiff_cli/sklearn.py", "starlette": "autodiff_cli/cli/server.py"}
collect_ignore = [file for module, file in EXTRAS.items() if importlib.util.find_spec(module) is None]

# No deadline, since a busy machine is no error; always the same examples, since tests/fuzz looks for new ones.
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("slow", deadline=None, derandomize=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--slow` runs what takes long too."""
    parser.addoption("--slow", action="store_true", help="run slow tests too, and try properties on more examples")


def pytest_configure(config: pytest.Config) -> None:
    """Choose how many examples a property is tried on."""
    settings.load_profile("slow" if config.getoption("--slow") else "quick")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Let pytest-xdist, if it is there, run the whole suite on all cores. What is named runs in this process."""
    if hasattr(config, "workerinput"):
        return  # a worker starts no workers of its own
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if whole and getattr(config.option, "numprocesses", 0) is None and not config.option.usepdb:
        config.option.numprocesses = "auto"
        config.option.dist = "worksteal"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what is slow, in one line that says how to run it."""
    if item.get_closest_marker("slow") and not item.config.getoption("--slow"):
        pytest.skip("slow: `.venv/bin/python -m pytest --slow` runs these too")

"""What the process asks of libraries before NumPy is imported, with and without a limit on its memory."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import pytest

from autodiff_cli import fit
from autodiff_cli.data import source
from autodiff_cli.system import has_memory_limits

PROGRAM = """
import os, sys
if sys.argv[1] == "limited":
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (1 << 33, resource.RLIM_INFINITY))
from autodiff_cli.system import configure_libraries
configure_libraries()
print(*(os.environ.get(name) for name in sys.argv[2:]))
"""
NAMES = ["OPENBLAS_NUM_THREADS", "OPENBLAS_THREAD_TIMEOUT", "ARROW_DEFAULT_MEMORY_POOL"]


def variables(kind: str, **given: str) -> list[str]:
    """Return variables of the environment of a process, limited or not, that has some already."""
    environment = {name: value for name, value in os.environ.items() if name not in NAMES} | given
    command = [sys.executable, "-c", PROGRAM, kind, *NAMES]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32" or has_memory_limits(), reason="the test sets a limit of its own")
def test_under_a_memory_limit_linear_algebra_has_one_thread_unless_the_user_says_otherwise() -> None:
    assert variables("limited") == ["1", "18", "system"]
    assert variables("unlimited") == ["None", "18", "system"]
    assert variables("limited", OPENBLAS_NUM_THREADS="3", ARROW_DEFAULT_MEMORY_POOL="mimalloc") == [
        "3", "18", "mimalloc"
    ]  # fmt: skip


@pytest.mark.parametrize(("is_limited", "megabytes"), [(True, 0), (True, 1 << 20), (False, 0)])
def test_a_fit_is_refused_only_where_a_limit_leaves_too_little_memory(
    is_limited: bool, megabytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "has_memory_limits", lambda: is_limited)
    monkeypatch.setattr(source, "available_memory", lambda: megabytes << 20)
    refused = pytest.raises(MemoryError, match=r"a fit needs \d+ MB besides its data")
    with refused if is_limited and not megabytes else contextlib.nullcontext():
        fit("y ~ a*x", {"x": [1, 2], "y": [1, 2]})

"""What the process asks of libraries before NumPy is imported, with and without a limit on its memory."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

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

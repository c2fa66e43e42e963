"""Show that no test file needs what another has imported, registered or left behind.

python .ci/alone.py                  import every test file in a process of its own
python .ci/alone.py --run [FILE]...  run every test file in a process of its own; browser tests are collected
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import subprocess
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTHING_COLLECTED = 5
# Libraries of others that most test files import; loading them once makes a process per file cheap.
LIBRARIES = ("hypothesis", "lark", "mpmath", "numpy", "pyarrow", "pytest", "rich", "scipy.special", "typer")


def import_failure(file: str) -> str | None:
    """Return the traceback if a test file cannot be imported in a process that has imported none of ours."""
    try:
        importlib.import_module(file.removesuffix(".py").replace("/", "."))
    except pytest.skip.Exception:
        return None
    except BaseException:
        return f"{file}\n{traceback.format_exc()}"
    return None


def test_failure(file: str) -> str | None:
    """Return pytest's output if a test file fails by itself."""
    collect = ["--collect-only"] if "browser" in Path(file).parts else []
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", *collect, file]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return None if result.returncode in (0, NOTHING_COLLECTED) else f"{file}\n{result.stdout}{result.stderr}"


def report(failures: list[str], count: int) -> int:
    """Print the failures; return the exit status."""
    print(*failures, f"{count} test files, each by itself: {len(failures)} failed", sep="\n")
    return 1 if failures else 0


def main() -> int:
    """Import or run the test files, on all cores."""
    arguments = sys.argv[1:]
    run = arguments[:1] == ["--run"]
    files = arguments[1:] or sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
    if run:
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            return report([failure for failure in threads.map(test_failure, files) if failure], len(files))
    sys.path.insert(0, str(ROOT))
    for library in LIBRARIES:
        importlib.import_module(library)
    with multiprocessing.get_context("fork").Pool(os.cpu_count(), maxtasksperchild=1) as processes:
        return report([failure for failure in processes.map(import_failure, files, chunksize=1) if failure], len(files))


if __name__ == "__main__":
    sys.exit(main())

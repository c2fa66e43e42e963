"""Run every test file in a process of its own: none may need what another has imported, registered or left behind.

python .ci/alone.py [--collect-only] [FILE]...     by default all, on all cores; those for a browser are only collected
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTHING_COLLECTED = 5


COLLECT = "--collect-only"


def failure(file: str) -> str | None:
    """What pytest says of a test file that fails by itself."""
    more = [COLLECT] if COLLECT in sys.argv or "browser" in Path(file).parts else []
    words = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", *more, file]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    return None if done.returncode in (0, NOTHING_COLLECTED) else f"{file}\n{done.stdout}{done.stderr}"


def main() -> int:
    """Run all; 1 if any fails."""
    named = [word for word in sys.argv[1:] if word != COLLECT]
    files = named or sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failures = [found for found in pool.map(failure, files) if found]
    for found in failures:
        print(found)
    print(f"{len(files)} test files, each by itself: {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

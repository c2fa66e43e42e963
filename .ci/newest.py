"""What commands without arrays print, as JSON; or whether that is what they print here, but for last digits.

    python .ci/newest.py                   print the documents of this Python
    python .ci/newest.py documents.json    compare those of another with them

`.ci/newest.mjs` runs it in Node on the newest Python, as Pyodide has it: compiled for browsers.
"""

from __future__ import annotations

import io
import json
import math
import shlex
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from autodiff_cli.cli.environment import Environment
from autodiff_cli.cli.main import run
from tests.documents import SCALARS

OTHERS = ['check "x^3*y" --x 2 --y 3', 'export "x*y + sin(x)" --to c', 'grad "ln(1 + x)" --x 0 --order 6']
OTHERS += ['grad "x^2*sin(x)" --x 1.9..2.1', 'trace "tanh(x)" --x 1 --ascii']


def documents() -> list[list[Any]]:
    """Return each command with its status and output."""
    lines = [f'{command} "{text}" {point} --json' for text, point in SCALARS.items() for command in ("grad", "trace")]
    found = []
    for line in [*lines, *OTHERS]:
        out = io.StringIO()
        status = run(shlex.split(line), Environment(io.StringIO(), out, io.StringIO()))
        found.append([line, int(status), json.loads(out.getvalue()) if "--json" in line else out.getvalue()])
    return found


def are_alike(one: Any, other: Any) -> bool:
    """Whether two documents are equal but for the last digits of numbers."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-13, abs_tol=1e-300)
    if isinstance(one, dict) and isinstance(other, dict):
        return [*one] == [*other] and all(are_alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(are_alike, one, other))
    return bool(one == other)


if __name__ == "__main__":
    if not sys.argv[1:]:
        print(json.dumps(documents()))
        sys.exit()
    pairs = list(zip(documents(), json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), strict=True))
    different = [(one, other) for one, other in pairs if not are_alike(one, other)]
    print(f"{len(pairs) - len(different)} of {len(pairs)} commands print the same")
    for one, other in different:
        print(one, other, sep="\n")
    sys.exit(bool(different))

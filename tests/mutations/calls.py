"""A plugin for pytest that records which functions of the package are called; see `tests.mutations.__main__`.

CALLS=out.json python -m pytest -p tests.mutations.calls tests/graph/test_nodes.py
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from types import CodeType, FrameType

PACKAGE = Path(__file__).parents[2] / "autodiff_cli"

_codes: set[CodeType] = set()
_begun = time.process_time()


def _trace(frame: FrameType, _event: str, _argument: object) -> None:
    """Note the function of a new frame; its lines are not traced."""
    _codes.add(frame.f_code)


def pytest_sessionfinish() -> None:
    """Write the functions, as `file:function`, and the processor time that the tests took."""
    sys.settrace(None)
    prefix = f"{PACKAGE}{os.sep}"
    called = {
        f"{Path(code.co_filename).relative_to(PACKAGE.parent).as_posix()}:{code.co_qualname.replace('.<locals>', '')}"
        for code in [*_codes]
        if code.co_filename.startswith(prefix)
    }
    record = {"seconds": time.process_time() - _begun, "called": sorted(called)}
    Path(os.environ["CALLS"]).write_text(json.dumps(record), encoding="utf-8")


threading.settrace(_trace)
sys.settrace(_trace)

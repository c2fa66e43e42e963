"""Records the functions that a process of a test calls, for `tests/mutations/server.py`. Python imports it at start."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType

codes: set[CodeType] = set()


def trace(frame: FrameType, _event: str, _argument: object) -> None:
    """Note the function of a new frame; its lines are not traced."""
    codes.add(frame.f_code)


def write_calls() -> None:
    """Write a line for each function: its file and its name."""
    sys.settrace(None)
    lines = [f"{code.co_filename}\t{code.co_qualname}\n" for code in codes]
    Path(os.environ["RECORDED_CALLS"], str(os.getpid())).write_text("".join(lines), encoding="utf-8")


if "RECORDED_CALLS" in os.environ:
    atexit.register(write_calls)
    threading.settrace(trace)
    sys.settrace(trace)

"""The page's evaluator in Node, one process for many formulas."""

from __future__ import annotations

import atexit
import json
import math
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from autodiff_cli.explain.record import Trace
from autodiff_cli.render.javascript import evaluator
from tests.tools import program


class PageError(Exception):
    """What JavaScript raised."""


@cache
def _node() -> subprocess.Popen[str]:
    script = Path(__file__).with_name("evaluate.js")
    node = subprocess.Popen(
        [program("node", "nodejs"), str(script)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    atexit.register(node.communicate)
    return node


def computed(at: Trace, point: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The value and the gradient that the page of a trace computes at a point.

    Raises:
        PageError: for an exception in JavaScript.
        NotImplementedError: for an operation that JavaScript lacks.
    """
    node = _node()
    assert node.stdin is not None
    assert node.stdout is not None
    node.stdin.write(json.dumps({"source": evaluator(at), "point": {k: _sent(v) for k, v in point.items()}}) + "\n")
    node.stdin.flush()
    found = json.loads(node.stdout.readline())
    if "error" in found:
        raise PageError(found["error"])
    index, leaves = at.tape.index, at.expression.leaves
    adjoints = {name: found["adjoints"][index[leaves[name]]] if leaves[name] in index else 0.0 for name in at.wrt}
    return _number(found["values"][at.tape.outputs[0]]), {name: _number(slope) for name, slope in adjoints.items()}


def _sent(value: Any) -> Any:
    if np.ndim(value):
        return [_sent(element) for element in value]
    return {"number": str(float(value)).replace("inf", "Infinity").replace("nan", "NaN")}


def _number(found: Any) -> Any:
    if isinstance(found, dict):
        return np.array([float(element) for element in found["data"]]).reshape(found["shape"])
    return math.nan if found is None else float(found)

"""Helpers that compile and run exported code."""

from __future__ import annotations

import ctypes
import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.tools import program

Point = tuple[float, ...]
Found = tuple[float, list[float]]  # a value, and the derivatives in the order of the variables

STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]


@dataclass(frozen=True)
class Case:
    """A function's source, its variables, and where to evaluate it."""

    source: str
    name: str
    variables: tuple[str, ...]
    points: Sequence[Point]


def run(command: Sequence[str | Path], text: str = "") -> str:
    """What a program prints that must not complain."""
    done = subprocess.run([*map(str, command)], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[:3000]
    return done.stdout


def in_c(cases: Sequence[Case], folder: Path) -> list[list[Found]]:
    """The functions compiled into one library."""
    library = _built([program("gcc", "gcc"), *STRICT, "-O1"], "c", cases, folder, ["-lm"])
    return [[_called_c(getattr(library, case.name), point) for point in case.points] for case in cases]


def _called_c(function: Any, point: Point) -> Found:
    count = len(point)
    gradient = (ctypes.c_double * max(count, 1))()
    function.restype = ctypes.c_double
    value = function((ctypes.c_double * max(count, 1))(*point), gradient)
    return value, [*gradient][:count]


def in_fortran(cases: Sequence[Case], folder: Path) -> list[list[Found]]:
    """The same of subroutines."""
    library = _built([program("gfortran", "gfortran"), "-std=f2008", "-Wall", "-Werror"], "f90", cases, folder, [])
    return [[_called_fortran(getattr(library, f"{case.name}_"), point) for point in case.points] for case in cases]


def _called_fortran(function: Any, point: Point) -> Found:
    count = len(point)
    value, gradient = ctypes.c_double(), (ctypes.c_double * max(count, 1))()
    function((ctypes.c_double * max(count, 1))(*point), ctypes.byref(value), gradient)
    return value.value, [*gradient][:count]


def _built(
    command: Sequence[str], suffix: str, cases: Sequence[Case], folder: Path, libraries: Sequence[str]
) -> ctypes.CDLL:
    files = []
    for case in cases:
        files.append(folder / f"{case.name}.{suffix}")
        files[-1].write_text(case.source, encoding="utf-8")
    binary = folder / f"library_{suffix}.so"
    run([*command, "-shared", "-fPIC", "-o", binary, *files, *libraries])
    return ctypes.CDLL(str(binary))


def in_python(cases: Sequence[Case], folder: Path) -> list[list[Found]]:  # noqa: ARG001 - it needs no file
    """Run here."""
    results = []
    for case in cases:
        scope: dict[str, Any] = {}
        exec(compile(case.source, case.name, "exec"), scope)
        found = [scope[case.name](*point) for point in case.points]
        results.append([(float(value), [float(slope) for slope in gradient.values()]) for value, gradient in found])
    return results


_NODE = """
import { readFileSync } from "node:fs";
const number = (text) => Number(text.replace("inf", "Infinity"));
const results = [];
for (const { file, name, variables, points } of JSON.parse(readFileSync(0, "utf8"))) {
  const module = await import(file);
  results.push(points.map((point) => {
    const given = Object.fromEntries(variables.map((variable, k) => [variable, number(point[k])]));
    const { value, gradient } = module[name](given);
    return [String(value), Object.values(gradient).map(String)];
  }));
}
console.log(JSON.stringify(results));
"""


def in_javascript(cases: Sequence[Case], folder: Path) -> list[list[Found]]:
    """Run by Node."""
    driver = folder / "driver.mjs"
    driver.write_text(_NODE, encoding="utf-8")
    given = []
    for case in cases:
        file = folder / f"{case.name}.mjs"
        file.write_text(case.source, encoding="utf-8")
        points = [[repr(x) for x in point] for point in case.points]
        given.append({"file": str(file), "name": case.name, "variables": case.variables, "points": points})
    found = json.loads(run([program("node", "nodejs"), driver], json.dumps(given)))
    return [[(_number(value), [*map(_number, slopes)]) for value, slopes in results] for results in found]


_FRAMEWORKS = """
import json, sys
cases = json.loads(sys.stdin.read())
results = []
for case in cases:
    scope = {}
    exec(case["source"], scope)
    f = scope[case["name"]]
    results.append([differentiated(f, [float(x) for x in point]) for point in case["points"]])
print(json.dumps(results))
"""
_BY_JAX = """
import jax
jax.config.update("jax_enable_x64", True)
def differentiated(f, point):
    value, slopes = jax.value_and_grad(lambda xs: f(*xs))(point)
    return [repr(float(value)), [repr(float(slope)) for slope in slopes]]
"""
_BY_TORCH = """
import torch
def differentiated(f, point):
    xs = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in point]
    value = f(*xs)
    if value.requires_grad:
        value.backward()
    return [repr(float(value.detach())), [repr(0.0 if x.grad is None else float(x.grad)) for x in xs]]
"""


def in_jax(cases: Sequence[Case], folder: Path) -> list[list[Found]]:
    """Differentiated by JAX, in the interpreter that `FRAMEWORKS` names, else this one."""
    return _in_framework("jax", _BY_JAX, cases, folder)


def in_torch(cases: Sequence[Case], folder: Path) -> list[list[Found]]:
    """Differentiated by PyTorch, likewise."""
    return _in_framework("torch", _BY_TORCH, cases, folder)


def _in_framework(module: str, by: str, cases: Sequence[Case], folder: Path) -> list[list[Found]]:
    python = os.environ.get("FRAMEWORKS", sys.executable)
    if subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode:
        pytest.skip(f"{module} is not installed; set FRAMEWORKS to a Python that has it")
    driver = folder / "driver.py"
    driver.write_text(by + _FRAMEWORKS, encoding="utf-8")
    given = [
        {"source": case.source, "name": case.name, "points": [[*map(repr, point)] for point in case.points]}
        for case in cases
    ]
    found = json.loads(run([python, driver], json.dumps(given)))
    return [[(_number(value), [*map(_number, slopes)]) for value, slopes in results] for results in found]


def _number(text: str) -> float:
    return float(text.replace("Infinity", "inf"))


def close(found: float, expected: float, relative: float = 1e-13, absolute: float = 1e-300) -> bool:
    """Whether two numbers agree: to so many digits, or both nan, or both the same infinity."""
    if math.isnan(found) or math.isnan(expected):
        return math.isnan(found) and math.isnan(expected)
    return math.isclose(found, expected, rel_tol=relative, abs_tol=absolute)


def named(case: Case) -> Mapping[str, float]:
    """The first point, by variable."""
    return dict(zip(case.variables, case.points[0], strict=True))

"""Every operation in every target language: compiled, run, and compared with floats.

At ordinary points results agree to 1e-13; at the ends of domains nan, infinities and zeros are equal.
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.export.languages import split_declarations
from autodiff_cli.graph.codegen import Fragment, StraightLineCode, straight_line_code
from autodiff_cli.graph.node import Node, Op, constant, get_op, variable
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.floats import FLOATS
from autodiff_cli.numbers.translation import Library, Target
from autodiff_cli.ops.functions import exp2
from autodiff_cli.targets.languages import C_STATEMENTS, FORTRAN, JAVASCRIPT, C, FortranLibrary
from autodiff_cli.targets.python import PYTHON, PythonLibrary
from autodiff_cli.targets.translation import GraphWriter
from tests.numbers.test_arrays import ELEMENTWISE, by_floats, inputs_of
from tests.tools import program


class Operator(NamedTuple):
    """An operator, or a power with a number as its exponent, for which languages have notations of their own."""

    name: str
    count: int
    build: Callable[..., Node]


class Nested(NamedTuple):
    """An operator as the k-th operand of another one: `(x^y)^z` or `x^(y^z)`. Brackets stand where they must."""

    outer: Operator
    inner: Operator
    k: int

    @property
    def name(self) -> str:
        return f"{self.outer.name} of {self.inner.name} at {self.k}"

    @property
    def count(self) -> int:
        """The number of inputs."""
        return self.outer.count + self.inner.count - 1

    def __call__(self, *inputs: Node) -> Node:
        end = self.k + self.inner.count
        return self.outer.build(*inputs[: self.k], self.inner.build(*inputs[self.k : end]), *inputs[end:])


TAU = constant("tau")  # which some languages write as a product
OPERATORS = [Operator(op.name, op.min_inputs, op) for op in ELEMENTWISE if op.symbol]
OPERATORS += [Operator("square", 1, lambda x: x**2), Operator("fifth", 1, lambda x: x**5)]
OPERATORS += [Operator("over tau", 1, lambda x: x / TAU), Operator("power of tau", 1, lambda x: TAU**x)]
OPERATORS += [Operator("exp2", 1, exp2)]
NESTED = [Nested(outer, inner, k) for outer in OPERATORS for inner in OPERATORS for k in range(outer.count)]
NESTED_POINTS = [(0.75, 1.5, 2.5), (3.0, 0.5, 2.0), (-2.0, 3.0, 2.0), (2.0, 2.0, 0.0)]
Calls = list[tuple[Op | Nested, int]]
CALLS: Calls = [(op, len(inputs_of(op)[0])) for op in ELEMENTWISE if op.min_inputs <= 3]  # a line of input has three
CALLS += [(op, 3) for op in ELEMENTWISE if op.max_inputs is None and op.min_inputs <= 3]
CALLS += [(nested, nested.count) for nested in NESTED]


def lines_of(pen: GraphWriter, op: Op | Nested, count: int, names: Sequence[str]) -> StraightLineCode:
    """What an operation is in a language, given the names of its inputs."""
    leaves = [variable(name) for name in names[:count]]
    roots = pen.lower([op(*leaves)])
    lines = straight_line_code(roots, {leaf: Fragment(leaf.text) for leaf in leaves}, pen.write, 60)
    return StraightLineCode(lines.lines, [pen.target.coerce(result) for result in lines.results])


def in_c(calls: Calls) -> str:
    pen = GraphWriter(Library(C))
    functions = []
    for k, (op, count) in enumerate(calls):
        lines, (result,) = lines_of(pen, op, count, ["x[0]", "x[1]", "x[2]"])
        body = "".join(f"{'int' if part.is_condition else 'double'} {name} = {part.text};\n" for name, part in lines)
        functions.append(f"static double op_{k}(const double x[3])\n{{\n{body}return {result.text};\n}}\n")
    table = ", ".join(f"op_{k}" for k in range(len(calls)))
    return "\n".join(
        [
            "#include <math.h>\n#include <stdio.h>",
            *(f"{C_STATEMENTS.function_head(each)};\n" for each in pen.library.forward_declared.values()),
            *pen.library.texts.values(),
            *functions,
            f"static double (*const ops[])(const double x[3]) = {{{table}}};",
            "int main(void) {\nint k; double x[3];",
            'while (scanf("%d %lf %lf %lf", &k, x, x + 1, x + 2) == 4) printf("%.17g\\n", ops[k](x));',
            "return 0;\n}\n",
        ]
    )


def in_fortran(calls: Calls) -> str:
    pen = GraphWriter(FortranLibrary(FORTRAN))
    cases, names = [], {"y"}
    for k, (op, count) in enumerate(calls):
        lines, (result,) = lines_of(pen, op, count, ["x(1)", "x(2)", "x(3)"])
        assert not any(part.is_condition for _, part in lines)
        body = "".join(f"{name} = {part.text}\n" for name, part in lines)
        names |= {name for name, _ in lines}
        cases.append(f"case ({k})\n{body}y = {result.text}\n")
    declarations, procedures = split_declarations(pen.library.texts.values())
    return "\n".join(
        [
            "program run\nuse, intrinsic :: ieee_arithmetic\nuse, intrinsic :: iso_c_binding, only: dp => c_double",
            "implicit none",
            *declarations,
            f"integer :: k, status\nreal(dp) :: x(3), {', '.join(sorted(names))}",
            "do\nread (*, *, iostat=status) k, x\nif (status /= 0) exit\nselect case (k)",
            *cases,
            "end select\nprint *, y\nend do\ncontains",
            *procedures,
            "end program\n",
        ]
    )


def in_javascript(calls: Calls) -> str:
    pen = GraphWriter(Library(JAVASCRIPT))
    functions = []
    for op, count in calls:
        lines, (result,) = lines_of(pen, op, count, ["x", "y", "z"])
        body = "".join(f"const {name} = {part.text};\n" for name, part in lines)
        functions.append(f"(x, y, z) => {{\n{body}return {result.text};\n}}")
    return "\n".join(
        [
            '"use strict";',
            *pen.library.texts.values(),
            f"const ops = [{', '.join(functions)}];",
            'const number = (text) => Number(text.replace("inf", "Infinity"));',
            'for (const line of require("fs").readFileSync(0, "utf8").trim().split("\\n")) {',
            'const [k, ...x] = line.split(" ").map(number);\nconsole.log(String(ops[k](...x)));\n}\n',
        ]
    )


def run(command: Sequence[str | Path], text: str = "") -> str:
    done = subprocess.run([*map(str, command)], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[:2000]
    return done.stdout


def compiled(target: Target, source: str, folder: Path) -> list[str | Path]:
    """The command that runs a program."""
    file, binary = folder / f"run.{ {'c': 'c', 'fortran': 'f90', 'js': 'js'}[target.name] }", folder / "run"
    file.write_text(source, encoding="utf-8")
    match target.name:
        case "c":
            warnings = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]
            run([program("gcc", "gcc"), *warnings, "-O1", "-o", binary, file, "-lm"])
        case "fortran":
            run([program("gfortran", "gfortran"), "-std=f2008", "-Wall", "-Werror", "-o", binary, file])
        case _:
            return [program("node", "nodejs"), file]
    return [binary]


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize(
    ("target", "write"),
    [(C, in_c), (FORTRAN, in_fortran), (JAVASCRIPT, in_javascript)],
    ids=lambda x: getattr(x, "name", ""),
)
def test_every_operation_computes_what_floats_do(tmp_path: Path, target: Target, write: Callable[[Calls], str]) -> None:
    command = compiled(target, write(CALLS), tmp_path)
    text = "".join(f"{k} {' '.join(map(repr, (*point, 0.0, 0.0)[:3]))}\n" for k, _, point, _ in by_points())
    found = [float(line.replace("Infinity", "inf")) for line in run(command, text).split()]
    wrong = [
        (op.name, point, number, expected)
        for (_, op, point, expected), number in zip(by_points(), found, strict=True)
        if not is_close(op, number, expected)
    ]
    assert not wrong, (len(wrong), sorted({name for name, *_ in wrong}), wrong[:: 1 + len(wrong) // 12])


@functools.cache
def by_points() -> list[tuple[int, Op | Nested, tuple[float, ...], float]]:
    """The number of each operation, the operation, every point at which it is tried, and its value by floats."""
    found = []
    for k, (op, count) in enumerate(CALLS):
        points = points_of(op, count)
        found += [(k, op, *pair) for pair in zip(points, values_of(op, points), strict=True)]
    return found


def values_of(op: Op | Nested, points: list[tuple[float, ...]]) -> list[float]:
    if isinstance(op, Op):
        return by_floats(op, points)
    tape = Tape([op(*(variable(name) for name in "xyz"[: op.count]))])
    return [forward(tape, FLOATS, dict(zip("xyz", point, strict=False)))[-1] for point in points]


def points_of(op: Op | Nested, count: int) -> list[tuple[float, ...]]:
    if isinstance(op, Nested):
        return [point[:count] for point in NESTED_POINTS]
    points = inputs_of(op)
    return points if len(points[0]) == count else [(*point, 0.5)[:count] for point in points]


def is_close(op: Op | Nested, number: float, expected: float) -> bool:
    if math.isnan(number) or math.isnan(expected):
        return math.isnan(number) and math.isnan(expected)
    lost = 4e-13 if op.name.endswith("_logpdf") else 1e-300  # the terms of log-densities cancel
    return math.isclose(number, expected, rel_tol=1e-13, abs_tol=lost)


def test_brackets_stand_only_where_they_change_the_meaning() -> None:
    arithmetic = [Operator(name, get_op(name).min_inputs, get_op(name)) for name in ("add", "sub", "mul", "div", "neg")]
    for library, outer, inner in itertools.product(
        (PythonLibrary(PYTHON), Library(C), Library(JAVASCRIPT)), arithmetic, arithmetic
    ):
        for k in range(outer.count):
            nested = Nested(outer, inner, k)
            lines = lines_of(GraphWriter(library), nested, nested.count, "xyz")
            text = lines.results[0].text
            plain = text.replace("(", "").replace(")", "")
            is_needed = "--" in plain or ast.dump(ast.parse(text)) != ast.dump(ast.parse(plain))  # -- is C's decrement
            assert is_needed == ("(" in text), text
            assert not lines.lines

"""The evaluator of the page: a formula and its two passes, printed in JavaScript.

No derivative rule is written in JavaScript. Rules are the graphs of the table of operations, printed; what an operation
does to a number is one more table by name, the files beside this one. A page carries only what its formula needs.

The text defines one constant, `evaluator`, with one function:

    evaluator.run(point) -> {values, adjoints, contributions}

`point` has a number, or nested lists of numbers, for the name of every variable. All three are lists by node:

- A value is a number or an array, `{shape: [rows, columns], data: Float64Array}`.
- An adjoint too; it is null where the node takes no gradient.
- The contributions of a node are, in the order of its inputs and only of those that take a gradient, records
  `{position, to, local, amount, nothing}` that mean what `explain.steps.Contribution` does: `nothing` where the input
  structurally gets nothing, `local` null for an operation on whole arrays.

Amounts of which a choice selects some elements away have `present` besides: an array of 1 and 0 that broadcasts to
theirs, 0 for what is absent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from math import inf
from pathlib import Path

from autodiff_cli.explain.steps import Trace
from autodiff_cli.graph.node import Node, is_literal
from autodiff_cli.graph.op import Op, Partial
from autodiff_cli.graph.tape import topological
from autodiff_cli.numbers.floats import read
from autodiff_cli.numbers.kind import INFIX

_FOLDER = Path(__file__).parent
_NUMBERS = ("numbers.js", "special.js", "gamma.js")
_COMMENT = re.compile(r"^ *//.*\n", re.MULTILINE)
_DECLARATION = re.compile(r"^(?=(?:const|function) )", re.MULTILINE)
_NAME = re.compile(r"Math\.\w+|[$\w]+")


def evaluator(trace: Trace) -> str:
    """The evaluator of a trace's formula, as a JavaScript statement that may stand in a script element.

    Raises:
        NotImplementedError: for an operation that JavaScript's table lacks and that is no composite.
    """
    return _Program(trace).text()


@cache
def table(*files: str) -> dict[str, str]:
    """The declarations of JavaScript files beside this one: name to source, without comments, in their order."""
    found: dict[str, str] = {}
    for file in files:
        source = _COMMENT.sub("", (_FOLDER / file).read_text(encoding="utf-8"))
        for declaration in _DECLARATION.split(source)[1:]:
            name = _NAME.findall(declaration)[1]
            assert name not in found, f"{file} declares {name} again"
            found[name] = declaration.rstrip() + "\n"
    return found


class _Program:
    """A trace on its way to JavaScript: its steps, and the functions that these call for.

    Operations have their names of the table of operations. Where there are arrays, `$name` is the function `name` of
    numbers, lifted to arrays.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._has_arrays = not trace.is_scalar
        self._primitives = table(*_NUMBERS, "arrays.js" if self._has_arrays else "scalars.js", "passes.js")
        self._printed: dict[str, str] = {}  # functions made from graphs: name to source
        self._rules: dict[tuple[object, ...], str] = {}  # names of rules

    def text(self) -> str:
        """The whole program."""
        nodes = list(enumerate(self._trace.tape.nodes))
        tables = [
            [str(int(reached)) for reached in self._trace.tape.reached],
            [f"[{i},{_number(node.text)}]" for i, node in nodes if node.is_constant],
            [f"[{i},{_string(node.text)}]" for i, node in nodes if node.is_input],
            [self._step(i, node.op) for i, node in nodes if node.op is not None],
        ]
        result = f"return passes({','.join(map(_list, tables))});"
        printed = "\n".join(self._printed.values())
        needed = "".join(self._needed(f"{printed} {result}"))
        return f'const evaluator = (() => {{\n"use strict";\n{needed}{printed}\n{result}\n}})();\n'

    def _step(self, i: int, op: Op) -> str:
        """A node's operation, as `passes.js` reads it."""
        tape = self._trace.tape
        inputs, live = tape.inputs[i], tape.edges[i]
        apply = self._function(op, len(inputs), self._has_arrays)
        rule = self._rule(op, inputs, live) if live else "null"
        return f"[{i},{apply},{_list(inputs)},{rule},{_list(live)},{int(op.structural)},{int(op.arranges)}]"

    def _function(self, op: Op, count: int, lifted: bool) -> str:
        """The name of the function that does to `count` inputs what `op` does."""
        name = op.name
        if name not in self._primitives:
            name = f"{op.name}_of_{count}"
            if name not in self._printed:
                expansion = op.expand(count)
                if expansion is None:
                    raise NotImplementedError(f"{op.name} is not defined in JavaScript")
                self._print(name, op.placeholders(count), [expansion], "{}", op.structural)
        return f"${name}" if lifted and not op.structural else name

    def _rule(self, op: Op, inputs: tuple[int, ...], live: tuple[int, ...]) -> str:
        """The name of the function for what the inputs at the positions `live` get."""
        shapes = tuple(getattr(self._trace.values[j], "shape", ()) for j in inputs)
        key = op, shapes if op.structural else len(inputs), live
        if key not in self._rules:
            name = self._rules[key] = f"{op.name}_rule_{len(self._rules)}"
            if op.structural:
                passage = op.passage(shapes)
                parameters = (passage.adjoint, passage.output, *passage.inputs)
                self._print_rule(name, parameters, [passage.partials[k] for k in live])
            else:
                rule = op.partials(len(inputs))
                self._print_rule(name, (rule.output, *rule.inputs), [rule.partials[k] for k in live])
        return self._rules[key]

    def _print_rule(self, name: str, parameters: Sequence[Node], partials: Sequence[Partial | None]) -> None:
        roots: list[Node] = []
        parts = []
        for partial in partials:
            if partial is None or is_literal(partial.local, 0):  # as everywhere
                parts.append("null")
                continue
            roots += [partial.local] if partial.mask is None else [partial.local, partial.mask]
            parts.append("{}" if partial.mask is None else "chosen({}, {})")
        self._print(name, parameters, roots, f"[{', '.join(parts)}]", self._has_arrays)

    def _print(self, name: str, parameters: Sequence[Node], roots: Sequence[Node], result: str, lifted: bool) -> None:
        """Make a function of the parameters' values that returns the roots' values in the places of `result`."""
        names = {node: node.text for node in parameters}
        lines: list[str] = []
        for node in topological(roots):
            if node in names:
                continue
            if node.op is None:
                names[node] = _number(node.text)
                continue
            arguments = [names[child] for child in node.inputs]
            if node.op.name in INFIX and not lifted:
                value = INFIX[node.op.name].format(*arguments)
            else:
                value = f"{self._function(node.op, len(arguments), lifted)}({', '.join(arguments)})"
            names[node] = f"t{len(lines)}"
            lines.append(f"  const {names[node]} = {value};")
        body = "\n".join([*lines, f"  return {result.format(*(names[root] for root in roots))};"])
        self._printed[name] = f"function {name}({', '.join(names[node] for node in parameters)}) {{\n{body}\n}}"

    def _needed(self, text: str) -> Iterator[str]:
        """The declarations that a text calls for, and what these call for: first the tables', then the lifted ones."""
        found: set[str] = set()
        waiting = [text]
        while waiting:
            for name in {*_NAME.findall(waiting.pop())} - found:
                found.add(name)
                waiting.append(_lifted(name) if name.startswith("$") else self._primitives.get(name, ""))
        yield from (source for name, source in self._primitives.items() if name in found)
        yield from (_lifted(name) for name in sorted(found) if name.startswith("$"))


def _lifted(name: str) -> str:
    return f"const {name} = lift({name[1:]});\n"


def _number(text: str) -> str:
    """A constant in JavaScript, from its text."""
    number = read(text)
    return "NaN" if number != number else "Infinity" if number == inf else repr(number).removesuffix(".0")


def _string(text: str) -> str:
    """A string in JavaScript that may stand in a script element, whatever it holds."""
    return json.dumps(text).replace("<", "\\u003c")


def _list(items: Iterable[object]) -> str:
    return f"[{','.join(map(str, items))}]"

"""The evaluator of the page: a formula and its two passes, printed in JavaScript.

No derivative rule is written in JavaScript. Rules are the graphs of the table of operations, printed, and what an
operation does to a number is printed too, from what floats here do. Written by hand are the two passes and what is done
to whole arrays, in the files beside this one. A page carries only what its formula needs.

The text defines one constant, `evaluator`, with functions:

    evaluator.run(point) -> {values, adjoints, contributions}
    evaluator.forward(point) -> values
    evaluator.reverse(values, overwritten) -> {adjoints, contributions}
    evaluator.tangents(values, seeds) -> {rates, carried}

`point` has a number, or nested lists of numbers, for the name of every variable. All three are lists by node:

- A value is a number or an array, `{shape: [rows, columns], data: Float64Array}`.
- An adjoint too; it is null where the node takes no gradient.
- The contributions of a node are, in the order of its inputs and only of those that take a gradient, records
  `{position, to, local, amount, nothing}` that mean what `explain.record.Handed` does: `nothing` where the input
  structurally gets nothing, `local` null for an operation on whole arrays; those of an operation whose `jacobian` is
  shown have that too. Others may have `read`, what the formula of `local` comes to that people read, and `kink`, 1
  where the operation has one.

Forward mode, which is there if asked for, carries the rates `seeds`, by name, from the variables up. The rate of a node
is null where they do not move it; what its inputs add is listed as `{position, to, local, amount}`. `overwritten` is
the number of a node at which what arrives is not added up: the mistake that a question of the page is about.

Amounts of which a choice selects some elements away have `present` besides: an array of 1 and 0 that broadcasts to
theirs, 0 for what is absent.

Gradient methods for the page: their steps, printed in JavaScript and as sentences, from the graphs that fits run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from autodiff_cli.backends.protocol import GRADIENT, RATE, STEP, THETA, Update
from autodiff_cli.explain.operations import has_jacobian, readable_local_derivative
from autodiff_cli.explain.record import Trace
from autodiff_cli.explain.sentences import Phrase, Slot
from autodiff_cli.graph.codegen import Fragment, FunctionSyntax, StraightLineCode, call_notation, straight_line_code
from autodiff_cli.graph.node import Node, get_op, variable
from autodiff_cli.graph.op import Op, Partial
from autodiff_cli.graph.tape import substitute, topological_order
from autodiff_cli.language.printer import to_pieces
from autodiff_cli.targets.c_family import JAVASCRIPT
from autodiff_cli.targets.translation import GraphWriter, Library
from autodiff_cli.training.options import OPTIMIZERS

_JAVASCRIPT = FunctionSyntax(
    function="function {name}({parameters}) {{\n{lines}  return {result};\n}}\n",
    line="  const {name} = {value};\n",
    sequence="[{}]",
    nothing="null",
    selected="chosen({}, {})",
)
_MAX_LINE_WIDTH = 80  # of an expression
_PRIMITIVES_FOLDER = Path(__file__).parent / "page" / "primitives"
_COMMENT = re.compile(r"^ *//.*\n", re.MULTILINE)
_DECLARATION = re.compile(r"^(?=(?:const|function) )", re.MULTILINE)
_NAME = re.compile(r"Math\.\w+|[$\w]+")


def evaluator(trace: Trace, tangents: bool = False, name: str = "evaluator") -> str:
    """The evaluator of a trace's formula, as a JavaScript statement that may stand in a script element.

    Args:
        tangents: whether it has forward mode too.
        name: what to call it.

    Raises:
        NotImplementedError: for an operation that JavaScript's table lacks and that is no composite.
    """
    return f"const {name} = {_Program(trace).text(tangents)}"


@cache
def javascript_declarations(*files: str) -> dict[str, str]:
    """The declarations of JavaScript files beside this one: name to source, without comments, in their order."""
    found: dict[str, str] = {}
    for file in files:
        source = _COMMENT.sub("", (_PRIMITIVES_FOLDER / file).read_text(encoding="utf-8"))
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
        self._primitives = javascript_declarations(
            "arrays.js" if self._has_arrays else "scalars.js", "passes.js", "tangents.js"
        )
        self._pen = GraphWriter(Library(JAVASCRIPT))
        self._printed: dict[str, str] = {}  # functions made from graphs: name to source
        self._rules: dict[tuple[object, ...], str] = {}  # names of rules

    def text(self, tangents: bool) -> str:
        """The whole program."""
        nodes = list(enumerate(self._trace.tape.nodes))
        tables = [
            [str(int(reached)) for reached in self._trace.tape.is_active],
            [f"[{i},{self._pen.write(node, ()).text}]" for i, node in nodes if node.is_constant],
            [f"[{i},{_js_string(node.text)}]" for i, node in nodes if node.is_input],
            [self._step_text(i, node.op) for i, node in nodes if node.op is not None],
        ]
        passes = f"passes({','.join(map(_js_list, tables))})"
        result = f"return with_tangents({passes});" if tangents else f"return {passes};"
        needed, lifted = self._dependencies(result)
        library = (_COMMENT.sub("", text) for text in self._pen.library.texts.values())
        parts = [*needed, *library, *self._printed.values(), *(f"const ${name} = lift({name});\n" for name in lifted)]
        return f'(() => {{\n"use strict";\n{"".join(parts)}{result}\n}})();\n'

    def _step_text(self, i: int, op: Op) -> str:
        """A node's operation, as `passes.js` reads it."""
        tape = self._trace.tape
        inputs, live = tape.inputs[i], tape.active_inputs[i]
        apply = self._function_name(op, len(inputs), self._has_arrays)
        wanted = tuple(k for k, j in enumerate(inputs) if tape.is_active[j])
        rule = self._rule_name(op, inputs, wanted) if wanted else "null"
        places = ",".join(map(_js_list, (wanted, live)))
        flags = ",".join(
            str(int(flag)) for flag in (op.is_structural, op.propagates_masks, has_jacobian(self._trace, i))
        )
        return f"[{i},{apply},{_js_list(inputs)},{rule},{places},{flags}]"

    def _function_name(self, op: Op, count: int, lifted: bool) -> str:
        """The name of the function that does to `count` inputs what `op` does."""
        name = op.name if op.min_inputs == op.max_inputs else f"{op.name}_of_{count}"
        if not op.is_structural:
            if name not in self._printed:
                self._add_operation(name, op, count)
            return f"${name}" if lifted else name
        if op.name in self._primitives:
            return op.name
        if name not in self._printed:
            expansion = op.expand(count)
            if expansion is None:
                raise NotImplementedError(f"{op.name} is not defined in JavaScript")
            self._add_function(name, op.placeholders(count), [expansion], "{}", lifted=True)
        return name

    def _rule_name(self, op: Op, inputs: tuple[int, ...], wanted: tuple[int, ...]) -> str:
        """The name of the function for what the inputs at the positions `wanted` get."""
        shapes = tuple(getattr(self._trace.values[j], "shape", ()) for j in inputs)
        key = op, shapes if op.is_structural else len(inputs), wanted
        if key not in self._rules:
            name = self._rules[key] = f"{op.name}_rule_{len(self._rules)}"
            if op.is_structural:
                passage = op.structural_rule(shapes)
                parameters = (passage.adjoint, passage.output, *passage.inputs)
                partials = [passage.vjps[k] for k in wanted]
            else:
                rule = op.derivative_rule(len(inputs))
                parameters = (rule.output, *rule.inputs)
                partials = [*(rule.partials[k] for k in wanted), *_extra_partials(op, len(inputs), wanted)]
            self._add_function(name, parameters, *_JAVASCRIPT.rule_result(partials), self._has_arrays)
        return self._rules[key]

    def _add_operation(self, name: str, op: Op, count: int) -> None:
        """Make a function for an operation on numbers, unless the pen has one of this name."""
        inputs = op.placeholders(count)
        (graph,) = self._pen.lower([op(*inputs)])
        text = f"{name}({', '.join(place.text for place in inputs)})"
        if graph.op is op and self._pen.write(graph, [Fragment(place.text) for place in inputs]).text == text:
            self._printed[name] = ""
        else:
            self._add_function(name, inputs, [graph], "{}", lifted=False)

    def _add_function(
        self, name: str, parameters: Sequence[Node], roots: Sequence[Node], result: str, lifted: bool
    ) -> None:
        """Make a function of the parameters' values that returns the roots' values in the places of `result`."""
        names = {node: Fragment(node.text) for node in parameters}
        if lifted:
            lines = straight_line_code(roots, names, self._write_lifted, _MAX_LINE_WIDTH)
        else:
            lines = straight_line_code(self._pen.lower(roots), names, self._pen.write, _MAX_LINE_WIDTH)
        written = StraightLineCode(lines.lines, [*map(JAVASCRIPT.coerce, lines.results)])
        self._printed[name] = _JAVASCRIPT.write_function(name, [node.text for node in parameters], written, result)

    def _write_lifted(self, node: Node, operands: Sequence[Fragment]) -> Fragment:
        if node.op is None:
            return self._pen.write(node, operands)
        return call_notation(self._function_name(node.op, len(operands), lifted=True), len(operands)).format(operands)

    def _dependencies(self, result: str) -> tuple[list[str], list[str]]:
        """What the program calls for, and what that calls for: declarations of tables, and functions to be lifted."""
        found: set[str] = set()
        waiting = [result, *self._printed.values()]
        while waiting:
            for name in {*_NAME.findall(waiting.pop())} - found:
                found.add(name)
                waiting.append("lift" if name.startswith("$") else self._primitives.get(name, ""))
                if name.startswith("$") and name[1:] not in self._printed:
                    op = get_op(name[1:])
                    waiting.append(self._printed[self._function_name(op, op.min_inputs, lifted=False)])
        declarations = [source for name, source in self._primitives.items() if name in found]
        return declarations, sorted(name[1:] for name in found if name.startswith("$"))


def _extra_partials(op: Op, count: int, wanted: tuple[int, ...]) -> list[Partial | None]:
    """What a page says of an operation's local derivatives besides: what the formulas come to that people read, where
    these are not what is computed, and whether there is a kink; nothing where nothing is said."""
    found = [*(readable_local_derivative(op, count, k) for k in wanted), op.predicate("kink", count)]
    if all(graph is None for graph in found):
        return []
    return [None if graph is None else Partial(graph) for graph in found]


def _js_string(text: str) -> str:
    """A string in JavaScript that may stand in a script element, whatever it holds."""
    return json.dumps(text).replace("<", "\\u003c")


def _js_list(items: Iterable[object]) -> str:
    return f"[{','.join(map(str, items))}]"


PAGE_OPTIMIZERS = ("sgd", "momentum", "adam")
_UPDATE_LINE_WIDTH = 100  # of an expression
_LONG_NUMBER = re.compile(r"\d+\.\d{7,}(?:e-?\d+)?")  # a number that shows how it was rounded, as 1 - 0.9 does


def optimizer_functions() -> str:
    """A JavaScript statement: `methods`, by name functions of (theta, gradient, rate, step, memory), for one number.

    Each returns what is remembered, by name, and the number after the step as `theta`. What is remembered is 0 before
    the first step, which is number 1.
    """
    pen = GraphWriter(Library(JAVASCRIPT))
    written = [f"  {name}: {_update_function(pen, OPTIMIZERS[name])},\n" for name in PAGE_OPTIMIZERS]
    needed = "".join(pen.library.texts.values())
    return f"const methods = (() => {{\n{needed}return {{\n{''.join(written)}}};\n}})();\n"


def _update_function(pen: GraphWriter, update: Update) -> str:
    roots = [update.theta, *update.accumulators.values()]
    words = pen.lower(roots)
    names = {leaf: Fragment(leaf.text) for leaf in topological_order(words) if leaf.is_input}
    lines = straight_line_code(words, names, pen.write, _UPDATE_LINE_WIDTH)
    body = "".join(f" const {name} = {piece.text};" for name, piece in lines.lines)
    results = zip(("theta", *(f"{name}Next" for name in update.accumulators)), lines.results, strict=True)
    remembered = ", ".join(f"{name} = 0" for name in update.accumulators)
    returned = ", ".join(f"{name.removesuffix('Next')}: {piece.text}" for name, piece in results)
    signature = f"{THETA}, {GRADIENT}, {RATE}, {STEP}, {{{remembered}}} = {{}}"
    return f"({signature}) => {{{body} return {{ {returned} }}; }}"


def optimizer_equations() -> dict[str, list[list[Any]]]:
    """For each method its equations in order, `[name, phrase]`, the last that of `theta`.

    The slots of a phrase are named as the leaves of the graphs; in that of `theta` what is remembered is so already.
    """
    return {name: _update_equations(OPTIMIZERS[name]) for name in PAGE_OPTIMIZERS}


def _update_equations(update: Update) -> list[list[Any]]:
    remembered = {node: variable(name) for name, node in update.accumulators.items()}
    (theta,) = substitute([update.theta], remembered)
    equations = [*update.accumulators.items(), (THETA, theta)]
    return [[name, [_phrase_part(part) for part in _formula_phrase(graph)]] for name, graph in equations]


def _formula_phrase(graph: Node) -> Phrase:
    """A formula as at a blackboard, all of its leaves slots; a negative number stands in brackets but at the start."""
    leaves = [node for node in topological_order([graph]) if node.is_input]
    parts: list[str | Slot] = []
    for piece in to_pieces(graph, leaves):
        if isinstance(piece, str):
            parts.append(_LONG_NUMBER.sub(_six_digits, piece).replace("*", " × ").replace("/", " / "))
        else:
            parts.append(Slot(piece.leaf.text, 0, bool(parts)))
    return tuple(parts)


def _six_digits(found: re.Match[str]) -> str:
    return f"{float(found[0]):.6g}"


def _phrase_part(part: Any) -> Any:
    return part if isinstance(part, str) else part.data()

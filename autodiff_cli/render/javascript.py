"""JavaScript that is generated for the page: the evaluator of a formula, and the steps of gradient methods.

No derivative rule is written by hand in JavaScript: the rules in the table of operations are graphs, which are printed
as JavaScript functions, and so are the operations on numbers. Only the two passes and the operations on whole arrays
are written by hand, in `page/primitives`. A page contains only the functions that its formula needs.

The evaluator is one constant, `evaluator`, with functions:

    evaluator.run(point) -> {values, adjoints, contributions}
    evaluator.forward(point) -> values
    evaluator.reverse(values, overwritten) -> {adjoints, contributions}
    evaluator.tangents(values, seeds) -> {rates, carried}

`point` maps the name of every variable to a number or to nested lists of numbers. `values`, `adjoints` and
`contributions` are lists with one entry per node:

- A value is a number or an array, `{shape: [rows, columns], data: Float64Array}`.
- An adjoint is a number, an array, or null if no derivative passes through the node.
- Contributions are a list with a record `{position, to, local, amount, nothing}` for each input with an adjoint, in the
  order of the inputs. The fields are explained in `explain.record.Contribution`; `nothing` is true for a structural
  zero, and `local` is null for an operation on whole arrays. A record may also have `jacobian`, if the page shows it,
  `read`, the value of the formula that the page shows for `local`, `kink`, which is 1 at a kink, and `singular`, which
  is 1 where the value or a derivative is infinite or undefined.

Forward mode is optional. It propagates the tangents `seeds` (by name) from the variables to the output. The rate
(tangent) of a node is null if it does not depend on these variables; `carried` lists its terms as
`{position, to, local, amount}`.

`overwritten` is the id of a node whose adjoint is overwritten by each contribution instead of accumulated: the bug that
a question of the quiz is about. An amount from which a choice removed some elements has `present`: an array that
broadcasts to it, 0 for removed elements and 1 for others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from autodiff_cli.backends.protocol import GRADIENT, RATE, STEP, THETA, Update
from autodiff_cli.explain.operations import has_jacobian, readable_local_derivative
from autodiff_cli.explain.record import Trace
from autodiff_cli.explain.sentences import Phrase, Slot, phrase_json
from autodiff_cli.graph.codegen import Fragment, FunctionSyntax, StraightLineCode, call_notation, straight_line_code
from autodiff_cli.graph.node import Gate, Node, Op, Partial, Shape, get_op, variable
from autodiff_cli.graph.tape import substitute, topological_order
from autodiff_cli.language.printer import to_pieces
from autodiff_cli.numbers.translation import Library
from autodiff_cli.targets.languages import JAVASCRIPT
from autodiff_cli.targets.translation import GraphWriter
from autodiff_cli.training.optimizers import OPTIMIZERS

# --- The evaluator ---

_JAVASCRIPT = FunctionSyntax(
    function="function {name}({parameters}) {{\n{lines}  return {result};\n}}\n",
    line="  const {name} = {value};\n",
    sequence="[{}]",
    nothing="null",
    selected="chosen({}, {})",
)
_PRODUCTS = ("mul", "div", "pow", "square", "prod", "outer")  # 0 only by underflow, unless an input is 0
_MAX_LINE_WIDTH = 80  # characters of an expression; longer ones are split into several statements
_COMMENT = re.compile(r"^\n|^ *(?://|/\*\* |\* |\*/).*\n| +// .*$", re.MULTILINE)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_TEXT = re.compile(rf"{_STRING.pattern}|`(?:[^`{{}}]|\{{[^`{{}}]*\}})*`")
_SIGNS = re.compile(rf"({_TEXT.pattern})| *([=?:,;{{}}()&|<>*!]+) *")
_STYLE_SIGNS = re.compile(r"\s*([{};,])\s*|(?<=:) +")
_DECLARATION = re.compile(r"^(?=(?:const|function) )", re.MULTILINE)
_NAME = re.compile(r"Math\.\w+|[$\w]+")


def evaluator(trace: Trace, name: str = "evaluator") -> str:
    """Return the evaluator of the formula of a trace, as a JavaScript statement for a script element.

    Args:
        name: the name of the constant.

    Raises:
        NotImplementedError: for an operation that has neither a JavaScript function nor an expansion.
    """
    return f"const {name} = {_Program([trace]).text('with_tangents({})')}"


def evaluators(traces: Mapping[str, Trace], name: str) -> str:
    """Return the evaluators of several formulas with arrays that share their functions, as a constant `name` with one
    property for each."""
    properties = ",".join(f"{_js_string(key)}:{{}}" for key in traces)
    return f"const {name} = {_Program([*traces.values()]).text('{{' + properties + '}}')}"


@cache
def page_file(path: str) -> str:
    """Return a file of the pages, whose path begins at `render/`; ours without comments and needless spaces."""
    text = (Path(__file__).parent / path).read_text(encoding="utf-8")
    if path.endswith(".css"):
        return _STYLE_SIGNS.sub(r"\1", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)).replace(";}", "}")
    if path.endswith(".js") and not path.endswith(".min.js"):
        return "\n".join(map(_without_spaces, _COMMENT.sub("", text).split("\n")))
    return text


def _without_spaces(line: str) -> str:
    """Return a line of a script without spaces around signs; lines with regular expressions are left."""
    rest = _TEXT.sub("", line)
    return line if "/" in rest or "`" in rest else _SIGNS.sub(lambda match: match[1] or match[2], line)


@cache
def javascript_declarations(*files: str) -> dict[str, str]:
    """Return the declarations in files of `page/primitives` by name, without comments, in their order."""
    declarations: dict[str, str] = {}
    for file in files:
        for declaration in _DECLARATION.split(page_file(f"page/primitives/{file}"))[1:]:
            name = _NAME.findall(declaration)[1]
            assert name not in declarations, f"{file} declares {name} again"
            declarations[name] = declaration.rstrip() + "\n"
    return declarations


class _Program:
    """The translation of traces to JavaScript: their steps and the functions that they call.

    Functions have the names of operations. `$name` is the function `name` of numbers, applied to arrays element by
    element.
    """

    def __init__(self, traces: Sequence[Trace]) -> None:
        self._traces = traces
        self._has_arrays = not all(trace.is_scalar for trace in traces)
        numbers = "arrays.js" if self._has_arrays else "scalars.js"
        self._primitives = javascript_declarations(numbers, "passes.js", "tangents.js")
        self._writer = GraphWriter(Library(JAVASCRIPT))
        self._functions: dict[str, str] = {}  # functions generated from graphs: name to source
        self._rules: dict[tuple[object, ...], str] = {}  # names of rules

    def text(self, result: str) -> str:
        """Return the whole program.

        Args:
            result: the code of its result, with `{}` in place of the passes of each trace.
        """
        result = f"return {result.format(*map(self._passes, self._traces))};"
        needed, lifted = self._dependencies(result)
        library = (_COMMENT.sub("", text) for text in self._writer.library.texts.values())
        parts = [*needed, *library, *self._functions.values(), *(f"const ${name} = lift({name});\n" for name in lifted)]
        return f'(() => {{\n"use strict";\n{"".join(parts)}{result}\n}})();\n'

    def _passes(self, trace: Trace) -> str:
        """Return the passes of a trace as a call of the function in `passes.js`."""
        nodes = list(enumerate(trace.tape.nodes))
        tables = [
            [str(int(reached)) for reached in trace.tape.is_active],
            [f"[{i},{self._writer.write(node, ()).text}]" for i, node in nodes if node.is_constant],
            [f"[{i},{_js_string(node.text)}]" for i, node in nodes if node.is_input],
            [self._step_text(trace, i, node.op) for i, node in nodes if node.op is not None],
        ]
        return f"passes({','.join(map(_js_list, tables))})"

    def _step_text(self, trace: Trace, i: int, op: Op) -> str:
        """Return the operation of a node as a row for `passes.js`."""
        tape = trace.tape
        inputs, live = tape.inputs[i], tape.active_inputs[i]
        apply = self._function_name(op, len(inputs), self._has_arrays)
        positions = tuple(k for k, j in enumerate(inputs) if tape.is_active[j])
        shapes = tuple(getattr(trace.values[j], "shape", ()) for j in inputs)
        rule = self._rule_name(op, shapes, positions) if positions else "null"
        rounded = 3 if op.is_positive or op.name in ("softmax", "logsumexp") else 2 if op.name in _PRODUCTS else 1
        rounding = 0 if op.gate in (Gate.ROUTE, Gate.BLOCK) else rounded
        flags = map(int, (op.is_structural, op.propagates_masks, has_jacobian(trace, i), rounding))
        return _js_list([i, apply, _js_list(inputs), rule, _js_list(positions), _js_list(live), *flags])

    def _function_name(self, op: Op, count: int, lifted: bool) -> str:
        """Return the name of the function for an operation on `count` inputs, and generate it if necessary."""
        name = op.name if op.min_inputs == op.max_inputs else f"{op.name}_of_{count}"
        if not op.is_structural:
            if name not in self._functions:
                self._add_operation(name, op, count)
            return f"${name}" if lifted else name
        if op.name in self._primitives:
            return op.name
        if name not in self._functions:
            expansion = op.expand(count)
            if expansion is None:
                raise NotImplementedError(f"{op.name} is not defined in JavaScript")
            self._add_function(name, op.placeholders(count), [expansion], "{}", lifted=True)
        return name

    def _rule_name(self, op: Op, shapes: tuple[Shape, ...], positions: tuple[int, ...]) -> str:
        """Return the name of the function for the derivatives with respect to the inputs at `positions`."""
        key = op, shapes if op.is_structural else len(shapes), positions
        if key not in self._rules:
            name = self._rules[key] = f"{op.name}_rule_{len(self._rules)}"
            if op.is_structural:
                rule_graphs = op.structural_rule(shapes)
                parameters = (rule_graphs.adjoint, *rule_graphs.places)
                kink = op.predicate("kink", len(shapes))
                partials = [*(rule_graphs.vjps[k] for k in positions), *([] if kink is None else [Partial(kink)])]
            else:
                rule = op.derivative_rule(len(shapes))
                parameters = rule.places
                partials = [*(rule.partials[k] for k in positions), *_extra_partials(op, len(shapes), positions)]
            self._add_function(name, parameters, *_JAVASCRIPT.rule_result(partials), self._has_arrays)
        return self._rules[key]

    def _add_operation(self, name: str, op: Op, count: int) -> None:
        """Generate a function for an operation on numbers, unless the library already has one of this name."""
        inputs = op.placeholders(count)
        (graph,) = self._writer.lower([op(*inputs)])
        text = f"{name}({', '.join(leaf.text for leaf in inputs)})"
        if graph.op is op and self._writer.write(graph, [Fragment(leaf.text) for leaf in inputs]).text == text:
            self._functions[name] = ""
        else:
            self._add_function(name, inputs, [graph], "{}", lifted=False)

    def _add_function(
        self, name: str, parameters: Sequence[Node], roots: Sequence[Node], result: str, lifted: bool
    ) -> None:
        """Generate a function of the values of `parameters` that returns the values of `roots` in the form `result`."""
        names = {node: Fragment(node.text) for node in parameters}
        if lifted:
            lines = straight_line_code(roots, names, self._write_lifted, _MAX_LINE_WIDTH)
        else:
            lines = straight_line_code(self._writer.lower(roots), names, self._writer.write, _MAX_LINE_WIDTH)
        body = StraightLineCode(lines.lines, [*map(JAVASCRIPT.coerce, lines.results)])
        self._functions[name] = _JAVASCRIPT.write_function(name, [node.text for node in parameters], body, result)

    def _write_lifted(self, node: Node, operands: Sequence[Fragment]) -> Fragment:
        if node.op is None:
            return self._writer.write(node, operands)
        return call_notation(self._function_name(node.op, len(operands), lifted=True), len(operands)).format(operands)

    def _dependencies(self, result: str) -> tuple[list[str], list[str]]:
        """Return the declarations that the program needs, directly or not, and the functions to apply elementwise."""
        names: set[str] = set()
        waiting = [_STRING.sub("", result), *self._functions.values()]  # strings are names of variables, not code
        while waiting:
            for name in sorted({*_NAME.findall(waiting.pop())} - names):
                names.add(name)
                waiting.append("lift" if name.startswith("$") else self._primitives.get(name, ""))
                if name.startswith("$") and name[1:] not in self._functions:
                    op = get_op(name[1:])
                    waiting.append(self._functions[self._function_name(op, op.min_inputs, lifted=False)])
        declarations = [source for name, source in self._primitives.items() if name in names]
        return declarations, sorted(name[1:] for name in names if name.startswith("$"))


def _extra_partials(op: Op, count: int, positions: tuple[int, ...]) -> list[Partial | None]:
    """Return what a rule computes besides the local derivatives, for the explanations on the page.

    These are the values of the formulas that readers see, if other formulas are computed, and the conditions of kinks
    and singular points. Empty if there is none of these.
    """
    predicates = [op.predicate(name, count) for name in ("kink", "singular")]
    graphs = [*(readable_local_derivative(op, count, k) for k in positions), *predicates]
    if all(graph is None for graph in graphs):
        return []
    return [None if graph is None else Partial(graph) for graph in graphs]


def _js_string(text: str) -> str:
    """Return a JavaScript string that is safe in a script element."""
    return json.dumps(text).replace("<", "\\u003c")


def _js_list(items: Iterable[object]) -> str:
    return f"[{','.join(map(str, items))}]"


# --- Gradient methods ---

PAGE_OPTIMIZERS = ("sgd", "momentum", "adam")
_UPDATE_LINE_WIDTH = 100  # characters of an expression
_LONG_NUMBER = re.compile(r"\d+\.\d{7,}(?:e-?\d+)?")  # a number with visible rounding errors, such as 1 - 0.9


def optimizer_functions() -> str:
    """Return a JavaScript statement that defines `methods`: functions for one step of each method, by name.

    A function takes (theta, gradient, rate, step, memory) for one parameter and returns the accumulators by name and
    the new parameter as `theta`. Accumulators are 0 before the first step, which has the number 1.
    """
    writer = GraphWriter(Library(JAVASCRIPT))
    update_functions = [f"  {name}: {_update_function(writer, OPTIMIZERS[name])},\n" for name in PAGE_OPTIMIZERS]
    needed = "".join(writer.library.texts.values())
    return f"const methods = (() => {{\n{needed}return {{\n{''.join(update_functions)}}};\n}})();\n"


def _update_function(writer: GraphWriter, update: Update) -> str:
    lowered = writer.lower([update.theta, *update.accumulators.values()])
    names = {leaf: Fragment(leaf.text) for leaf in topological_order(lowered) if leaf.is_input}
    lines = straight_line_code(lowered, names, writer.write, _UPDATE_LINE_WIDTH)
    body = "".join(f" const {name} = {part.text};" for name, part in lines.lines)
    results = zip(("theta", *(f"{name}Next" for name in update.accumulators)), lines.results, strict=True)
    accumulators = ", ".join(f"{name} = 0" for name in update.accumulators)
    result_fields = ", ".join(f"{name.removesuffix('Next')}: {part.text}" for name, part in results)
    signature = f"{THETA}, {GRADIENT}, {RATE}, {STEP}, {{{accumulators}}} = {{}}"
    return f"({signature}) => {{{body} return {{ {result_fields} }}; }}"


def optimizer_equations() -> dict[str, list[list[Any]]]:
    """Return the equations of each method in order, as `[name, phrase]`; the last is for `theta`.

    The slots of a phrase have the names of the leaves of the graphs. The phrase of `theta` uses the new accumulators.
    """
    return {name: _update_equations(OPTIMIZERS[name]) for name in PAGE_OPTIMIZERS}


def _update_equations(update: Update) -> list[list[Any]]:
    accumulators = {node: variable(name) for name, node in update.accumulators.items()}
    (theta,) = substitute([update.theta], accumulators)
    equations = [*update.accumulators.items(), (THETA, theta)]
    return [[name, phrase_json(_formula_phrase(graph))] for name, graph in equations]


def _formula_phrase(graph: Node) -> Phrase:
    """Return a formula as a phrase whose slots are its leaves; negative ones are parenthesized except at the start."""
    leaves = [node for node in topological_order([graph]) if node.is_input]
    parts: list[str | Slot] = []
    for part in to_pieces(graph, leaves):
        if isinstance(part, str):
            text = _LONG_NUMBER.sub(lambda match: f"{float(match[0]):.6g}", part)
            parts.append(text.replace("*", " × ").replace("/", " / "))
        else:
            parts.append(Slot(part.leaf.text, 0, bool(parts)))
    return tuple(parts)

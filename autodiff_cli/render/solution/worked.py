"""A trace as a worked solution: a LaTeX document that needs nothing but amsmath.

It has the formula, the steps of its graph with their numbers, the chain rule at every node in symbols and then in
numbers, and the gradient. It says what the record of the trace says; formulas of local derivatives are the rules of the
operations.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from autodiff_cli.algebra.readable import readable
from autodiff_cli.algebra.simplify import simplify
from autodiff_cli.explain.labels import is_constant_name
from autodiff_cli.explain.record import Handed, Trace, shape_of
from autodiff_cli.explain.slopes import comes_to, is_at_kink, is_read_right
from autodiff_cli.export.latex import for_reading
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.helpers import without_helpers
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Gate
from autodiff_cli.graph.shapes import shapes
from autodiff_cli.graph.straight import TIGHTEST, Fragment
from autodiff_cli.graph.tape import Tape, rebuild
from autodiff_cli.render.numbers import shows
from autodiff_cli.render.solution.setting import (
    WIDEST,
    Symbols,
    barred,
    equation,
    formula,
    number,
    operation,
    operation_on_numbers,
    product,
    width,
    words,
)
from autodiff_cli.render.text import on_one_line, shortened
from autodiff_cli.targets.latex import LATEX, PRODUCT, SUM

_PREAMBLE = r"""\documentclass{article}
\usepackage{amsmath}
\addtolength{\textwidth}{110pt}
\addtolength{\oddsidemargin}{-55pt}
\addtolength{\textheight}{80pt}
\addtolength{\topmargin}{-40pt}
\setlength{\parindent}{0pt}
\setcounter{MaxMatrixCols}{20}
\allowdisplaybreaks
\raggedright
\begin{document}
"""
_MOST_ROWS = 40  # of equations that are aligned with each other
_LARGEST_DERIVATIVE = 80  # nodes of a formula whose derivatives are given as formulas too
_MOST_PARTS = 4  # of a derivative as a formula
_WHERE = 14  # signs for what stands before a part
_LONGEST_TITLE = 300
_BACK = "The chain rule, from the output back"


def worked_solution(trace: Trace, digits: int | None = None) -> str:
    """The document.

    Args:
        digits: how many digits of a number to show.
    """
    return "".join(_Solution(trace, digits).document())


class _Solution:
    def __init__(self, trace: Trace, digits: int | None) -> None:
        self._trace = trace
        self._full, self._brief = shows(digits)
        self._nodes = trace.tape.nodes
        names = trace.expression.names
        named = {names[node]: node for node in self._nodes if node in names}
        self._symbols = Symbols([*trace.expression.leaves, *named])
        output = trace.tape.outputs[0]
        is_loss = "~" in trace.expression.text
        self._own = self._symbols.letter("LJfF" if is_loss else "fFgy")
        letter = self._own_letter = self._symbols.letter("vuzsq")
        self._called = [""] * len(self._nodes)
        values = zip(self._nodes, trace.values, strict=True)
        self._arrays = frozenset(node for node, value in values if shape_of(value))
        steps = {step.node: step.step for step in trace.forward}
        for i, node in enumerate(self._nodes):
            if node.is_input:
                self._called[i] = self._symbols.of(node.text)
            elif node.is_constant and (node not in names or is_constant_name(node)):
                self._called[i] = _constant(node)
            elif node in names:
                self._called[i] = self._symbols.of(names[node])
            else:
                self._called[i] = self._own if i == output else f"{letter}_{{{steps[i]}}}"
        self._output = self._own if self._nodes[output].op is None else self._called[output]

    def document(self) -> Iterator[str]:
        """The parts of the document."""
        yield f"% {words(shortened(on_one_line(self._trace.expression.text), _LONGEST_TITLE))}\n"
        yield _PREAMBLE
        for title, rows in (
            ("The formula", self._formula()),
            ("The point", self._point()),
            ("The steps of its graph", self._forward()),
            (_BACK, self._backward()),
            ("The gradient", self._gradient()),
        ):
            first = next(rows, None)
            if first is None:
                continue
            yield f"\\section*{{{title}}}\n"
            if title == _BACK:
                bar, whole = barred(self._own_letter), rf"\partial {self._output}/\partial {self._own_letter}"
                yield f"Here ${bar} = {whole}$ is how fast ${self._output}$ changes with ${self._own_letter}$.\n"
            yield from _aligned(itertools.chain([first], rows))
        if self._trace.warnings:
            yield "\\section*{Remarks}\n\\begin{itemize}\n"
            yield from (f"\\item {words(caveat.message)}\n" for caveat in self._trace.warnings)
            yield "\\end{itemize}\n"
        yield "\\end{document}\n"

    def _value(self, x: Any) -> Fragment:
        return number(x, self._brief)

    def _formula(self) -> Iterator[str]:
        """The formula, and the names in it."""
        trace, index = self._trace, self._trace.tape.index
        leaves = {node: Fragment(self._called[i]) for i, node in enumerate(self._nodes) if node.op is None}
        constants = [node for node in leaves if node.is_constant and leaves[node].text != _constant(node)]
        yield from (f"{leaves[node].text} &= {_constant(node)}" for node in constants)
        named = {node: Fragment(self._called[index[node]]) for node in self._nodes if node in trace.expression.names}

        def fresh(node: Node) -> str:
            return self._called[index[node]]

        for node in (*named, self._nodes[trace.tape.outputs[0]]):
            others = {other: part for other, part in named.items() if other is not node}
            if node.op is None:
                if node not in named:
                    yield f"{self._own} &= {self._called[index[node]]}"
                continue
            text, parts = formula(node, leaves | others, fresh, arrays=self._arrays)
            for name, part in parts:
                yield f"{name} &= {part}"
            yield f"{self._called[index[node]]} &= {text}"
            if node is self._nodes[trace.tape.outputs[0]]:
                break

    def _point(self) -> Iterator[str]:
        """What the variables are."""
        for name, x in self._trace.point.items():
            yield f"{self._symbols.of(name)} &= {number(x, self._full, self._brief).text}"

    def _forward(self) -> Iterator[str]:
        """Each operation in symbols, with its numbers filled in, and what comes out."""
        for step in self._trace.forward:
            node = self._nodes[step.node]
            symbols = [Fragment(self._called[i]) if self._nodes[i].op else _leaf(self, i) for i in step.inputs]
            sides = [LATEX.given(operation(node, symbols, self._arrays)).text]
            if self._are_numbers(step.inputs):
                numbers = [self._value(self._trace.values[i]) for i in step.inputs]
                sides.append(LATEX.given(operation_on_numbers(node, numbers)).text)
            sides.append(self._value(step.value).text)
            yield from equation(self._called[step.node], [[side] for side in sides])

    def _are_numbers(self, nodes: Iterable[int]) -> bool:
        return not any(shape_of(self._trace.values[i]) for i in nodes)

    def _slope(self, i: int) -> str:
        return barred(self._called[i])

    def _backward(self) -> Iterator[str]:
        """The adjoint of every node that takes a gradient: as a sum over its users in symbols, then in numbers."""
        trace, index = self._trace, self._trace.tape.index
        users: dict[int, list[tuple[int, Handed]]] = {}
        for step in trace.backward:
            for given in step.contributions:
                users.setdefault(given.to, []).append((step.node, given))
        output = trace.tape.outputs[0]
        if trace.tape.reached[output]:
            yield f"{self._slope(output)} &= 1"
        leaves = [index[node] for name in trace.wrt if (node := trace.expression.leaves[name]) in index]
        for i in [*(step.node for step in trace.backward), *leaves]:
            if i != output:
                yield from self._adjoint(i, users.get(i, []))

    def _adjoint(self, i: int, users: list[tuple[int, Handed]]) -> Iterator[str]:
        adjoints = self._trace.adjoints
        own, result = self._slope(i), self._value(adjoints[i]).text
        arriving = [(user, given) for user, given in users if self._is_shown(user, given)]
        if not arriving:
            yield rf"{own} &= 0 \qquad \text{{(nothing arrives)}}"
            return
        if any(given.local is None for _, given in arriving) or not self._are_numbers(
            [i, *(user for user, _ in users)]
        ):
            passed = [self._passage(user, given) for user, given in arriving]
            yield from equation(own, [passed, [result]])
            return
        chain = [
            rf"{self._slope(user)} \, \frac{{\partial {self._called[user]}}}{{\partial {self._called[i]}}}"
            for user, _ in arriving
        ]
        slopes = [rf"{self._slope(user)} \cdot {self._local(user, given)}" for user, given in arriving]
        amounts = [
            "0" if given.is_nothing else product([self._value(adjoints[user]), self._value(given.local)])
            for user, given in arriving
        ]
        bracketed = [rf"\left({text}\right)" if k and text.startswith("-") else text for k, text in enumerate(amounts)]
        yield from equation(own, [chain, slopes, bracketed, [result]])

    def _is_shown(self, user: int, given: Handed) -> bool:
        """Whether a term stands in the sum: not where nothing arrives at the user itself."""
        if not given.is_nothing:
            return True
        is_number = isinstance(given.local, float)
        return self._trace.arrived[user] is not None and is_number and given.local == 0

    def _local(self, user: int, given: Handed) -> str:
        """A local derivative as a formula of symbols; of a choice, and of what takes more room, as a number."""
        op, inputs = self._nodes[user].op, self._trace.tape.inputs[user]
        assert op is not None
        as_number = product([Fragment(""), self._value(given.local)]).removeprefix(r" \cdot ")
        is_number = self._are_numbers([user, *inputs])
        if op.gate in (Gate.ROUTE, Gate.BLOCK) or (is_number and not is_read_right(self._trace, user, given)):
            return as_number
        rule = op.partials(len(inputs))
        constants = {
            leaf: self._nodes[j]
            for leaf, j in zip(rule.inputs, inputs, strict=True)
            if self._nodes[j].is_constant and self._called[j] == _constant(self._nodes[j])
        }
        (local,) = readable(rebuild([rule.partials[given.position].local], constants))
        known = {leaf: _leaf(self, j) for leaf, j in zip(rule.inputs, inputs, strict=True)}
        known[rule.output] = Fragment(self._called[user])
        text, parts = formula(local, known, lambda _: "")
        if parts or width(text) > WIDEST // 2:
            return as_number
        is_loose = " + " in text or " - " in text or text.startswith("-")
        return rf"\left({text}\right)" if is_loose and not text.startswith(r"\frac") else text

    def _passage(self, user: int, given: Handed) -> str:
        """What an operation hands on where there are arrays, by its rule."""
        op, inputs = self._nodes[user].op, self._trace.tape.inputs[user]
        assert op is not None
        if given.local is not None:
            local = self._local(user, given)
            text = self._slope(user) if local == "1" else rf"{self._slope(user)} \odot {local}"
            is_stretched = shape_of(self._trace.values[user]) != shape_of(self._trace.values[given.to])
            return text if not is_stretched else rf"\operatorname{{sum}}\left({text}\right)"
        passage = op.passage(tuple(shape_of(self._trace.values[j]) for j in inputs))
        graph = passage.back[given.position]
        assert graph is not None
        if op.gate is Gate.SCALE and is_at_kink(self._trace, user):
            return rf"{self._slope(user)} \cdot 0"
        both = zip(passage.inputs, inputs, strict=True)
        constants = {leaf: self._nodes[j] for leaf, j in both if self._nodes[j].is_constant}
        (graph,) = simplify(rebuild([without_helpers([graph])[graph]], constants), scalar=False)
        known = {leaf: _leaf(self, j) for leaf, j in zip(passage.inputs, inputs, strict=True)}
        known |= {passage.adjoint: Fragment(self._slope(user)), passage.output: Fragment(self._called[user])}
        placeholders = {passage.output: user, passage.adjoint: user, **dict(zip(passage.inputs, inputs, strict=True))}
        sizes = {leaf.text: shape_of(self._trace.values[j]) for leaf, j in placeholders.items()}
        tape = Tape([graph])
        arrays = [node for node, shape in zip(tape.nodes, shapes(tape, sizes), strict=True) if shape]
        text, parts = formula(graph, known, lambda _: "", arrays=arrays)
        if parts:
            return rf"\text{{the part of }} {self._slope(user)} \text{{ that comes from }} {self._called[given.to]}"
        return text

    def _gradient(self) -> Iterator[str]:
        """The derivatives as formulas, where these are short, and as numbers in full."""
        trace = self._trace
        leaves = trace.expression.leaves
        formulas: dict[str, list[str]] = {}
        if trace.is_scalar and len(trace.tape) <= _LARGEST_DERIVATIVE and trace.wrt:
            output = trace.expression.output
            slopes = gradient_nodes(output, [leaves[name] for name in trace.wrt])
            known = {leaf: Fragment(self._symbols.of(name)) for name, leaf in leaves.items()}
            fresh = (f"t_{{{k}}}" for k in itertools.count(1))
            for name, slope in zip(trace.wrt, for_reading([output, *slopes], True)[1:], strict=True):
                text, parts = formula(slope, known, lambda _: next(fresh), WIDEST - _WHERE)
                if len(parts) <= _MOST_PARTS and comes_to(slope, trace.point, trace.gradient[name]):
                    rows = [f"&= {text}"] if not slope.is_constant else []
                    formulas[name] = [*rows, *(rf"&\qquad \text{{where }} {part} = {of}" for part, of in parts)]
        yield f"{self._output} &= {number(trace.value, self._full).text}"
        for name, slope_ in trace.gradient.items():
            own = rf"\frac{{\partial {self._output}}}{{\partial {self._symbols.of(name)}}}"
            rows = formulas.get(name, [])
            for k, row in enumerate(rows):
                yield f"{'' if k else own} {row}"
            yield f"{'' if rows else own} &= {number(slope_, self._full, self._brief).text}"


def _constant(node: Node) -> str:
    """A constant as it was written."""
    return formula(node, {}, lambda _: "")[0]


def _leaf(solution: _Solution, i: int) -> Fragment:
    """A node's symbol, a constant with its sign and power as loose as it is."""
    text = solution._called[i]
    return Fragment(text, SUM if text.startswith("-") else PRODUCT if r"\cdot" in text else TIGHTEST)


def _aligned(rows: Iterable[str]) -> Iterator[str]:
    """Rows of equations, aligned; of very many always some."""
    waiting = iter(rows)
    while some := [*itertools.islice(waiting, _MOST_ROWS)]:
        yield "\\begin{align*}\n" + " \\\\[2pt]\n".join(some) + "\n\\end{align*}\n"

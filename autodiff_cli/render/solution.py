r"""Worked solutions: a trace as a LaTeX document that needs only amsmath.

The document has the formula, the steps of its graph with their numbers, the chain rule at every node in symbols and
then in numbers, and the gradient. Formulas of local derivatives are the rules of the operations. All text is ASCII, for
any names in the formula, so that pdflatex sets it with its own fonts.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from autodiff_cli.algebra.readable import readable
from autodiff_cli.algebra.simplify import simplify_text
from autodiff_cli.explain.labels import is_constant_name
from autodiff_cli.explain.operations import has_value_at, is_at_kink, is_readable_form_equal
from autodiff_cli.explain.record import Contribution, Trace, array_shape
from autodiff_cli.export.latex import fresh_symbols, latex_symbols, readable_derivatives
from autodiff_cli.graph.codegen import ATOM_PRECEDENCE, Fragment
from autodiff_cli.graph.gradient import gradient_nodes
from autodiff_cli.graph.node import Gate, Node
from autodiff_cli.graph.tape import group_pairs, substitute, topological_order
from autodiff_cli.render.formatting import number_formats, shorten_middle, single_line
from autodiff_cli.system import read_tables
from autodiff_cli.targets.latex import LATEX, PRODUCT, SIGN, SUM, LatexWriter

# --- Names, numbers and operations in LaTeX ---

MAX_LINE_WIDTH = 78  # characters of a formula that fit on a line of the document, as `latex_width` counts them
_MAX_OPERANDS = 8  # operands of a variadic operation such as max; more are abbreviated
_MATRIX_MARGIN = 18  # characters reserved for the left side of an equation with a matrix
_MAX_MATRIX_SIDE = 8  # rows and columns of a matrix that is written out
_COMMAND = re.compile(r"\\[a-zA-Z]+\*?")
_FRACTION = re.compile(r"\\frac\{((?:[^{}]|\{[^{}]*\})*)\}\{((?:[^{}]|\{[^{}]*\})*)\}")
_ENVIRONMENT = re.compile(r"\\begin\{\w+\}((?:(?!\\begin|\\end).)*)\\end\{\w+\}", re.DOTALL)
_EXPONENT_NUMBER = re.compile(r"(-?[\d.]+)e([-+]\d+)")
_TEXT_ESCAPES = read_tables(__file__, "latex_escapes.toml")


def latex_text(text: str) -> str:
    r"""Return text with everything that is special in LaTeX escaped.

    >>> print(latex_text("50 % of a_1, naïve, ж"))
    50 \% of a\_1, naive, [U+0436]
    """
    return "".join(_TEXT_ESCAPES.get(character) or _ascii_text(character) for character in text)


def _ascii_text(character: str) -> str:
    """Return a character without accents, or its code point if it is not Latin."""
    if character.isascii():
        return character if character.isprintable() else " "
    plain = "".join(c for c in unicodedata.normalize("NFKD", character) if not unicodedata.combining(c))
    return plain if plain.isascii() and plain else f"[U+{ord(character):04X}]"


def _free_letter(symbols: Mapping[str, str], choice: str) -> str:
    """Return the first of some letters with which no symbol begins; the last letter if there is none."""
    used = {re.sub(r"^\\\w+\{", "", text)[:1] for text in symbols.values()}
    return next((letter for letter in choice if letter not in used), choice[-1])


def adjoint_symbol(symbol_: str) -> str:
    r"""Return the symbol of the adjoint of a node: a bar above its letter.

    >>> adjoint_symbol("v_{2}"), adjoint_symbol(r"\mathrm{rate}")
    ('\\bar{v}_{2}', '\\overline{\\mathrm{rate}}')
    """
    stem, low, index = symbol_.partition("_{") if "{" not in symbol_.partition("_{")[0] else (symbol_, "", "")
    short = re.fullmatch(r"\\?[a-zA-Z]+", stem) and (len(stem) == 1 or stem.startswith("\\"))
    return rf"\{'bar' if short else 'overline'}{{{stem}}}{low}{index}"


def latex_number(x: Any, show: Callable[[Any], str], shorter: Callable[[Any], str] | None = None) -> Fragment:
    r"""Return a number, or an array as a matrix; a large array as its shape and range.

    Args:
        shorter: writes the numbers of a matrix that would be too wide.

    >>> latex_number(-1.5e-7, lambda x: f"{x:.3g}").text
    '-1.5 \\cdot 10^{-7}'
    """
    shape = getattr(x, "shape", ())
    if not shape:
        return _scalar_fragment(show(x))
    if len(shape) > 2 or max(shape) > _MAX_MATRIX_SIDE:
        return _array_summary(x, show)
    rows = [[item] for item in x.tolist()] if len(shape) == 1 else x.tolist()
    for write in filter(None, (show, shorter)):
        body = r" \\ ".join(" & ".join(_scalar_fragment(write(item)).text for item in row) for row in rows)
        matrix = rf"\begin{{pmatrix}} {body} \end{{pmatrix}}"
        if latex_width(matrix) <= MAX_LINE_WIDTH - _MATRIX_MARGIN:
            return Fragment(matrix)
    return _array_summary(x, shorter or show)


def _array_summary(x: Any, show: Callable[[Any], str]) -> Fragment:
    """Return the shape and range of an array."""
    size, smallest, largest = r" \times ".join(map(str, x.shape)), float(x.min()), float(x.max())
    low, high = (_scalar_fragment(show(end)).text for end in (smallest, largest))
    range_text = f"all ${low}$" if low == high else f"from ${low}$ to ${high}$"
    return Fragment(rf"\text{{${size}$ numbers, {range_text}}}")


def _scalar_fragment(text: str) -> Fragment:
    if text in ("inf", "-inf", "nan"):
        symbol = LATEX.numbers[text.removeprefix("-")]
        return Fragment("-" + symbol, SIGN) if text.startswith("-") else Fragment(symbol)
    match = _EXPONENT_NUMBER.fullmatch(text)
    latex = text if match is None else rf"{match[1]} \cdot 10^{{{int(match[2])}}}"
    return Fragment(latex, SIGN if text.startswith("-") else PRODUCT if match else ATOM_PRECEDENCE)


def latex_product(factors: Sequence[Fragment]) -> str:
    """Return a product of numbers; negative factors except the first are in parentheses."""
    texts = [
        rf"\left({part.text}\right)" if k and part.precedence <= SIGN and part.text.startswith("-") else part.text
        for k, part in enumerate(factors)
    ]
    return r" \cdot ".join(texts)


def latex_operation(node: Node, operands: Sequence[Fragment], writer: LatexWriter) -> Fragment:
    """Return a constant, or an operation applied to operands; a long list of operands is abbreviated."""
    if len(operands) > _MAX_OPERANDS:
        operands = [*operands[: _MAX_OPERANDS - 2], Fragment(r"\dots"), operands[-1]]
    return writer.write(node, operands)


def latex_formula(
    root: Node,
    known: Mapping[Node, Fragment],
    fresh: Callable[[Node], str],
    max_width: int = MAX_LINE_WIDTH,
    writer: LatexWriter | None = None,
) -> tuple[str, list[tuple[str, str]]]:
    """Return a graph as a formula, and pairs (name, formula) of parts that would not fit on its line.

    Args:
        known: the LaTeX of leaves and of other nodes that are not to be expanded.
        fresh: returns a new name for a part.
        max_width: the width at which parts get names.
        writer: a writer that knows which leaves are arrays; by default, none is.
    """
    writer = writer or LatexWriter()
    parts: list[tuple[str, str]] = []
    fragments = dict(known)
    for node in topological_order([root]):
        if node in fragments:
            continue
        operands = [fragments[child] for child in node.inputs]
        piece = latex_operation(node, operands, writer)
        if node.op is not None and latex_width(piece.text) > max_width:
            operands = []
            for child in node.inputs:
                part = fragments[child]
                is_long = latex_width(part.text) > max_width // (2 * len(node.inputs))
                if child.op is not None and child not in known and is_long:
                    name = fresh(child)
                    parts.append((name, LATEX.coerce(part).text))
                    part = fragments[child] = Fragment(name)
                operands.append(part)
            piece = latex_operation(node, operands, writer)
        fragments[node] = piece
    return LATEX.coerce(fragments[root]).text, parts


def latex_width(text: str) -> int:
    r"""Estimate the width of a formula in characters.

    >>> latex_width(r"\frac{x + 1}{2 \, y} + \sin\left(x\right)")
    13
    """
    while (match := _FRACTION.search(text)) is not None:
        above, below = match.groups()
        text = text[: match.start()] + max(below, above, key=latex_width) + text[match.end() :]
    while (inner := _ENVIRONMENT.search(text)) is not None:
        rows = inner[1].split(r"\\")
        text = text[: inner.start()] + "xxx" + max(rows, key=len).replace("&", "xxx") + text[inner.end() :]
    text = text.replace(r"\left", "").replace(r"\right", "").replace(r"\,", "")
    names = re.sub(r"\\(?:operatorname|mathrm|text)\{([^}]*)\}", r"\1", text)
    plain = re.sub(r"[{}^_ ]", "", _COMMAND.sub("xx", names))
    return len(re.sub(r"(?<=[^({])[-+=<>]", "   ", plain))  # with the space around signs


def equation_rows(left: str, sides: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the rows of an equation between several sides, each given by its terms.

    The equation is one row if it fits, else one row per side, and a long side is broken between terms. A side that
    repeats the one before is left out.
    """
    distinct = [side for side, _ in itertools.groupby(sides)]
    equation = " = ".join(" + ".join(side) for side in distinct)
    if latex_width(equation) <= MAX_LINE_WIDTH:
        yield f"{left} &= {equation}"
        return
    for k, side in enumerate(distinct):
        row = f"{'' if k else left} &= "
        for n, term in enumerate(side):
            sign = " + " if n else ""
            if n and latex_width(row + sign + term) > MAX_LINE_WIDTH:
                yield row
                row = rf"&\quad + {term}"
            else:
                row += sign + term
        yield row


# --- The document ---

_PREAMBLE = Path(__file__).with_name("solution_preamble.tex").read_text(encoding="utf-8")
_MAX_ALIGNED_ROWS = 40  # TeX needs much memory for one environment with very many rows
_MAX_DERIVATIVE_NODES = 80  # derivatives of larger formulas are given as numbers only
_MAX_DERIVATIVE_PARTS = 4  # a derivative that needs more named parts is given as a number only
_WHERE_WIDTH = 14  # characters of "where t_1 = " before a part
_MAX_TITLE_LENGTH = 300  # characters of the formula in the comment at the top
_BACKWARD_TITLE = "The chain rule, from the output back"


def worked_solution(trace: Trace, digits: int | None = None) -> str:
    """Return the worked solution of a trace as a LaTeX document.

    Args:
        digits: the number of significant digits.
    """
    return "".join(_Solution(trace, digits).document())


class _Solution:
    """The sections of a worked solution, and the symbols of all nodes."""

    def __init__(self, trace: Trace, digits: int | None) -> None:
        self._trace = trace
        self._format_full, self._format_brief = number_formats(digits)
        self._nodes = trace.tape.nodes
        names = trace.expression.names
        named = {names[node]: node for node in self._nodes if node in names}
        self._symbols = latex_symbols([*trace.expression.leaves, *named], self._nodes)
        output = trace.tape.outputs[0]
        is_loss = "~" in trace.expression.text
        self._output_letter = _free_letter(self._symbols, "LJfF" if is_loss else "fFgy")
        letter = self._node_letter = _free_letter(self._symbols, "vuzsq")
        self._node_symbols = [""] * len(self._nodes)
        self._writer = LatexWriter({name: array_shape(value) for name, value in trace.point.items()})
        steps = {step.node: step.step for step in trace.forward}
        for i, node in enumerate(self._nodes):
            if node.is_input:
                self._node_symbols[i] = self._symbols[node.text]
            elif node.is_constant and (node not in names or is_constant_name(node)):
                self._node_symbols[i] = _constant_text(node)
            elif node in names:
                self._node_symbols[i] = self._symbols[names[node]]
            else:
                self._node_symbols[i] = self._output_letter if i == output else f"{letter}_{{{steps[i]}}}"
        self._output_symbol = self._output_letter if self._nodes[output].op is None else self._node_symbols[output]

    def document(self) -> Iterator[str]:
        """Yield the parts of the document."""
        trace = self._trace
        yield f"% {latex_text(shorten_middle(single_line(trace.expression.text), _MAX_TITLE_LENGTH))}\n"
        yield _PREAMBLE
        numbers = {name: latex_number(x, self._format_full, self._format_brief) for name, x in trace.point.items()}
        point = (f"{self._symbols[name]} &= {number.text}" for name, number in numbers.items())
        for title, rows in (
            ("The formula", self._formula_rows()),
            ("The point", point),
            ("The steps of its graph", self._forward_rows()),
            (_BACKWARD_TITLE, self._backward_rows()),
            ("The gradient", self._gradient_rows()),
        ):
            if (first := next(rows, None)) is not None:
                yield f"\\section*{{{title}}}\n"
                if title == _BACKWARD_TITLE:
                    output, letter = self._output_symbol, self._node_letter
                    derivative = rf"\partial {output}/\partial {letter}"
                    yield f"Here ${adjoint_symbol(letter)} = {derivative}$ is the adjoint of ${letter}$: "
                    yield f"how fast ${output}$ changes with ${letter}$.\n"
                yield from _aligned_blocks(itertools.chain([first], rows))
        if self._trace.warnings:
            yield "\\section*{Remarks}\n\\begin{itemize}\n"
            yield from (f"\\item {latex_text(warning.message)}\n" for warning in self._trace.warnings)
            yield "\\end{itemize}\n"
        yield "\\end{document}\n"

    def _number(self, x: Any) -> Fragment:
        return latex_number(x, self._format_brief)

    def _formula_rows(self) -> Iterator[str]:
        """Yield the formula, and the formulas of the names in it."""
        trace = self._trace
        symbols = dict(zip(self._nodes, self._node_symbols, strict=True))
        leaves = {node: Fragment(symbol) for node, symbol in symbols.items() if node.op is None}
        constants = [node for node in leaves if node.is_constant and leaves[node].text != _constant_text(node)]
        yield from (f"{leaves[node].text} &= {_constant_text(node)}" for node in constants)
        named = {node: Fragment(symbols[node]) for node in self._nodes if node in trace.expression.names}
        for node in dict.fromkeys((*named, self._nodes[trace.tape.outputs[0]])):
            others = {other: part for other, part in named.items() if other is not node}
            if node.op is not None:
                text, parts = latex_formula(node, leaves | others, symbols.__getitem__, writer=self._writer)
                for name, part in parts:
                    yield f"{name} &= {part}"
                yield f"{symbols[node]} &= {text}"
            elif node not in named:
                yield f"{self._output_letter} &= {symbols[node]}"

    def _forward_rows(self) -> Iterator[str]:
        """Yield each operation in symbols, then with numbers, then its result."""
        for step in self._trace.forward:
            node = self._nodes[step.node]
            symbols = [
                Fragment(self._node_symbols[i]) if self._nodes[i].op else _leaf_fragment(self, i) for i in step.inputs
            ]
            sides = [LATEX.coerce(latex_operation(node, symbols, self._writer)).text]
            if self._are_scalars(step.inputs):
                numbers = [self._number(self._trace.values[i]) for i in step.inputs]
                is_product = node.operation.symbol == "*"  # its factors are separated by a dot
                result = latex_operation(node, numbers, self._writer)
                sides.append(latex_product(numbers) if is_product else LATEX.coerce(result).text)
            sides.append(self._number(step.value).text)
            yield from equation_rows(self._node_symbols[step.node], [[side] for side in sides])

    def _are_scalars(self, nodes: Iterable[int]) -> bool:
        return not any(array_shape(self._trace.values[i]) for i in nodes)

    def _adjoint_of(self, i: int) -> str:
        return adjoint_symbol(self._node_symbols[i])

    def _backward_rows(self) -> Iterator[str]:
        """Yield the adjoint of every node that has one: as a sum over its users in symbols, then in numbers."""
        trace, index = self._trace, self._trace.tape.index
        users = group_pairs((part.to, (step.node, part)) for step in trace.backward for part in step.contributions)
        output = trace.tape.outputs[0]
        if trace.tape.is_active[output]:
            yield f"{self._adjoint_of(output)} &= 1"
        leaves = [index[node] for name in trace.wrt if (node := trace.expression.leaves[name]) in index]
        for i in [*(step.node for step in trace.backward), *leaves]:
            if i != output:
                yield from self._adjoint_rows(i, users.get(i, []))

    def _adjoint_rows(self, i: int, users: list[tuple[int, Contribution]]) -> Iterator[str]:
        adjoints = self._trace.adjoints
        left_side, result = self._adjoint_of(i), self._number(adjoints[i]).text
        arriving = [(user, contribution) for user, contribution in users if self._is_shown(user, contribution)]
        if not arriving:
            yield rf"{left_side} &= 0 \qquad \text{{(no contributions)}}"
            return
        are_scalars = self._are_scalars([i, *(user for user, _ in users)])
        if not are_scalars or any(contribution.local is None for _, contribution in arriving):
            terms = [self._structural_term(user, contribution) for user, contribution in arriving]
            yield from equation_rows(left_side, [terms, [result]])
            return
        symbols = self._node_symbols
        bars = [self._adjoint_of(user) for user, _ in arriving]
        slopes = [rf"{bar} \cdot {self._local_text(*each)}" for bar, each in zip(bars, arriving, strict=True)]
        rates = (rf"\frac{{\partial {symbols[user]}}}{{\partial {symbols[i]}}}" for user, _ in arriving)
        chain = [rf"{bar} \, {rate}" for bar, rate in zip(bars, rates, strict=True)]
        amounts = []
        for user, contribution in arriving:
            factors = [self._number(adjoints[user]), self._number(contribution.local)]
            amounts.append("0" if contribution.is_structural_zero else latex_product(factors))
        bracketed = [rf"\left({text}\right)" if k and text.startswith("-") else text for k, text in enumerate(amounts)]
        yield from equation_rows(left_side, [chain, slopes, bracketed, [result]])

    def _is_shown(self, user: int, contribution: Contribution) -> bool:
        """Whether a contribution is shown: a zero only if the user has an adjoint and its local derivative is 0."""
        if not contribution.is_structural_zero:
            return True
        is_number = isinstance(contribution.local, float)
        return self._trace.adjoints_or_none[user] is not None and is_number and contribution.local == 0

    def _local_text(self, user: int, contribution: Contribution) -> str:
        """Return a local derivative in symbols; as a number if the operation selects, or the formula is too long."""
        op, inputs = self._nodes[user].operation, self._trace.tape.inputs[user]
        as_number = latex_product([Fragment(""), self._number(contribution.local)]).removeprefix(r" \cdot ")
        if op.gate in (Gate.ROUTE, Gate.BLOCK):
            return as_number
        if self._are_scalars([user, *inputs]) and not is_readable_form_equal(self._trace, user, contribution):
            return as_number
        rule = op.derivative_rule(len(inputs))
        constants = {
            leaf: self._nodes[j]
            for leaf, j in zip(rule.inputs, inputs, strict=True)
            if self._nodes[j].is_constant and self._node_symbols[j] == _constant_text(self._nodes[j])
        }
        (local,) = readable(substitute([rule.partials[contribution.position].local], constants))
        known = rule.bind(Fragment(self._node_symbols[user]), [_leaf_fragment(self, j) for j in inputs])
        text, parts = latex_formula(local, known, lambda _: "", writer=self._writer_of(rule.bind(user, inputs)))
        if parts or latex_width(text) > MAX_LINE_WIDTH // 2:
            return as_number
        is_loose = " + " in text or " - " in text or text.startswith("-")
        return rf"\left({text}\right)" if is_loose and not text.startswith(r"\frac") else text

    def _structural_term(self, user: int, contribution: Contribution) -> str:
        """Return the contribution of an operation on arrays, by its rule."""
        op, inputs = self._nodes[user].operation, self._trace.tape.inputs[user]
        if contribution.local is not None:
            local = self._local_text(user, contribution)
            text = self._adjoint_of(user) if local == "1" else rf"{self._adjoint_of(user)} \odot {local}"
            is_stretched = array_shape(self._trace.values[user]) != array_shape(self._trace.values[contribution.to])
            return text if not is_stretched else rf"\operatorname{{sum}}\left({text}\right)"
        rule_graphs = op.structural_rule(tuple(array_shape(self._trace.values[j]) for j in inputs))
        graph = rule_graphs.vjp_graphs[contribution.position]
        assert graph is not None
        if op.gate is Gate.SCALE and is_at_kink(self._trace, user):
            return rf"{self._adjoint_of(user)} \cdot 0"
        places = rule_graphs.bind(user, inputs)
        constants = {leaf: self._nodes[j] for leaf, j in places.items() if self._nodes[j].is_constant}
        graph = simplify_text(substitute([graph], constants)[0])
        known = rule_graphs.bind(Fragment(self._node_symbols[user]), [_leaf_fragment(self, j) for j in inputs])
        known[rule_graphs.adjoint] = Fragment(self._adjoint_of(user))
        places[rule_graphs.adjoint] = user
        text, parts = latex_formula(graph, known, lambda _: "", writer=self._writer_of(places))
        if parts:
            adjoint, source = self._adjoint_of(user), self._node_symbols[contribution.to]
            return rf"\text{{the part of }} {adjoint} \text{{ that comes from }} {source}"
        return text

    def _writer_of(self, places: Mapping[Node, int]) -> LatexWriter:
        """Return a writer of graphs whose leaves are the nodes at some places."""
        return LatexWriter({leaf.text: array_shape(self._trace.values[j]) for leaf, j in places.items()})

    def _gradient_rows(self) -> Iterator[str]:
        """Yield the derivatives as formulas if these are short, and as numbers with all digits."""
        trace = self._trace
        leaves = trace.expression.leaves
        formulas: dict[str, list[str]] = {}
        if trace.is_scalar and len(trace.tape) <= _MAX_DERIVATIVE_NODES:
            output = trace.expression.output
            slopes = gradient_nodes(output, [leaves[name] for name in trace.wrt])
            known = {leaf: Fragment(self._symbols[name]) for name, leaf in leaves.items()}
            fresh = fresh_symbols(self._symbols.values())
            for name, slope in zip(trace.wrt, readable_derivatives([output, *slopes], {})[1:], strict=True):
                text, parts = latex_formula(slope, known, lambda _: next(fresh), MAX_LINE_WIDTH - _WHERE_WIDTH)
                if len(parts) <= _MAX_DERIVATIVE_PARTS and has_value_at(slope, trace.point, trace.gradient[name]):
                    rows = [f"&= {text}"] if not slope.is_constant else []
                    formulas[name] = [*rows, *(rf"&\qquad \text{{where }} {part} = {of}" for part, of in parts)]
        yield f"{self._output_symbol} &= {latex_number(trace.value, self._format_full).text}"
        for name, slope_ in trace.gradient.items():
            left_side = rf"\frac{{\partial {self._output_symbol}}}{{\partial {self._symbols[name]}}}"
            rows = formulas.get(name, [])
            for k, row in enumerate(rows):
                yield f"{'' if k else left_side} {row}"
            yield f"{'' if rows else left_side} &= {latex_number(slope_, self._format_full, self._format_brief).text}"


def _constant_text(node: Node) -> str:
    """Return a constant as it was written."""
    return latex_formula(node, {}, lambda _: "")[0]


def _leaf_fragment(solution: _Solution, i: int) -> Fragment:
    """Return the symbol of a node, with the precedence of its sign or product if it is a constant."""
    text = solution._node_symbols[i]
    return Fragment(text, SUM if text.startswith("-") else PRODUCT if r"\cdot" in text else ATOM_PRECEDENCE)


def _aligned_blocks(rows: Iterable[str]) -> Iterator[str]:
    """Yield environments of aligned equations, with at most `_MAX_ALIGNED_ROWS` rows each."""
    remaining = iter(rows)
    while block := [*itertools.islice(remaining, _MAX_ALIGNED_ROWS)]:
        yield "\\begin{align*}\n" + " \\\\[2pt]\n".join(block) + "\n\\end{align*}\n"

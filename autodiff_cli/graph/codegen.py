"""Code generation: graphs as straight-line code in another language, with common subexpressions computed once.

One function, `straight_line_code`, generates the rules of every kind of number, the JavaScript of pages, and exported
programs. Languages differ only in tables: how each operation is written (`Notation`), and how a function is written
(`FunctionSyntax`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from autodiff_cli.graph.node import Node, Partial, is_literal
from autodiff_cli.graph.tape import topological_order

ATOM_PRECEDENCE = 99  # precedence of a name, a number or a call, which never need brackets
_OPERAND = re.compile(r"⟨([a-d])(\??) ?(\w*)(\+1)?⟩")


class Fragment(NamedTuple):
    """The code of an expression.

    Attributes:
        text: the code.
        precedence: the precedence of its outermost operator.
        is_condition: whether it is a truth value, in languages where truth values are not numbers.
    """

    text: str
    precedence: int = ATOM_PRECEDENCE
    is_condition: bool = False


class Notation(NamedTuple):
    """The notation of an operation in a language.

    Attributes:
        texts: the code before, between and after the operands.
        operand_precedences: for each operand, the lowest precedence that needs no brackets.
        precedence: the precedence of the operation itself.
        is_condition: whether the result is a truth value.
        conditions: the positions of operands that are truth values.
        order: the operands from left to right, if that is not their own order.
        brackets: the code around an operand that needs brackets.

    >>> Notation(("", "*", ""), (2, 3), 2).format([Fragment("a"), Fragment("b + c", 1)]).text
    'a*(b + c)'
    """

    texts: tuple[str, ...]
    operand_precedences: tuple[int, ...]
    precedence: int = ATOM_PRECEDENCE
    is_condition: bool = False
    conditions: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    brackets: tuple[str, str] = ("(", ")")

    def for_arity(self, arity: int) -> Notation:
        """Return this notation for another number of operands.

        The separator of the first two operands is repeated; a comma separates the operands of a unary notation.
        """
        before, *between, after = self.texts
        return self._replace(
            texts=(before, *[between[0] if between else ", "] * (arity - 1), after),
            operand_precedences=(self.operand_precedences[0], *[self.operand_precedences[-1]] * (arity - 1)),
            conditions=tuple(range(arity)) if self.conditions else (),
        )

    def format(self, operands: Sequence[Fragment]) -> Fragment:
        """Return the code of the operation on these operands, with brackets where they are needed."""
        pieces = [self.texts[0]]
        opening, closing = self.brackets
        ordered = [operands[k] for k in self.order] if self.order else operands
        for (text, precedence, _), min_precedence, after in zip(
            ordered, self.operand_precedences, self.texts[1:], strict=True
        ):
            pieces += [text if precedence >= min_precedence else f"{opening}{text}{closing}", after]
        return Fragment("".join(pieces), self.precedence, self.is_condition)


def call_notation(name: str, arity: int) -> Notation:
    """Return the notation of a call of a function with `arity` arguments.

    >>> call_notation("sin", 1).format([Fragment("x + 1", 1)]).text
    'sin(x + 1)'
    """
    return Notation((f"{name}(", *[", "] * (arity - 1), ")"), (0,) * arity)


def read_notations(
    tables: Mapping[str, Mapping[str, Sequence[str]]],
    levels: Mapping[str, int],
    brackets: tuple[str, str] = ("(", ")"),
    prefix: str = "",
) -> dict[str, Notation]:
    """Return the notations of a language by operation, from the text of each and the name of its precedence.

    Args:
        tables: texts such as `⟨a SUM⟩ + ⟨b PRODUCT⟩`; those under `conditions` are truth values.
        levels: the precedence levels of the language by name.
        brackets: the code around an operand that needs brackets.
        prefix: the code before the names of library functions, for ⟨m⟩.

    >>> read_notations({"numbers": {"mul": ["⟨a PRODUCT⟩*⟨b PRODUCT+1⟩", "PRODUCT"]}}, {"PRODUCT": 11})["mul"].texts
    ('', '*', '')
    """
    notations: dict[str, Notation] = {}
    for kind, table in tables.items():
        for name, (text, *level) in table.items():
            text = text.replace("⟨m⟩", prefix)
            operands = _OPERAND.findall(text)
            order = tuple("abcd".index(letter) for letter, *_ in operands)
            notations[name] = Notation(
                tuple(_OPERAND.split(text)[::5]),
                tuple(levels[least] + bool(more) if least else 0 for _, _, least, more in operands),
                levels[level[0]] if level else ATOM_PRECEDENCE,
                kind == "conditions",
                tuple(k for k, (_, truth, *_) in zip(order, operands, strict=True) if truth),
                () if order == (*range(len(order)),) else order,
                brackets,
            )
    return notations


# The precedence levels of sums, products and signs, and the notations that most languages share.
SUM, PRODUCT, SIGN = 10, 11, 12
INFIX = {
    "add": Notation(("", " + ", ""), (SUM, SUM + 1), SUM),
    "sub": Notation(("", " - ", ""), (SUM, SUM + 1), SUM),
    "mul": Notation(("", " * ", ""), (PRODUCT, PRODUCT + 1), PRODUCT),
    "neg": Notation(("-", ""), (SIGN + 1,), SIGN),
}


class StraightLineCode(NamedTuple):
    """Code without branches: assignments in order, and results.

    Attributes:
        lines: the assignments, each a name and its value.
        results: the code of each root.
    """

    lines: list[tuple[str, Fragment]]
    results: list[Fragment]


def straight_line_code(
    roots: Sequence[Node],
    names: Mapping[Node, Fragment],
    write: Callable[[Node, Sequence[Fragment]], Fragment],
    max_width: int = 0,
    line_names: Mapping[Node, str] | None = None,
    fresh_names: Iterator[str] | None = None,
    max_repeated_width: int = 0,
) -> StraightLineCode:
    """Return code for the graphs of `roots`, in topological order and with common subexpressions assigned once.

    Args:
        roots: the nodes to compute.
        names: the code of nodes that need no assignment: all input leaves, and any other known values.
        write: returns the code of a constant, or of the operation of a node on its operands.
        max_width: the longest expression, in characters. A value that is used once, a condition, or a signed number is
            nested into the expression that uses it while this allows it. With 0, each line is one operation.
        line_names: names for the assignments of some nodes; nodes that are not part of the graphs are ignored.
        fresh_names: names for the other assignments; `t0`, `t1` and so on by default.
        max_repeated_width: expressions up to this length, in characters, are repeated instead of assigned.

    >>> from autodiff_cli.graph.node import variable
    >>> x, y = variable("x"), variable("y")
    >>> names = {x: Fragment("x"), y: Fragment("y")}
    >>> def write(node, operands):
    ...     return INFIX[node.op.name].format(operands) if node.op else Fragment(node.text)
    >>> lines, results = straight_line_code([x*y + 1, x*y], names, write)
    >>> for name, fragment in lines:
    ...     print(name, "=", fragment.text)
    t0 = x * y
    t1 = t0 + 1
    >>> [result.text for result in results]
    ['t1', 't0']
    """
    order, representative = _deduplicate(roots, names)
    uses = Counter(representative[child] for node in order for child in node.inputs) if max_width else Counter[Node]()
    uses.update(representative[root] for root in roots)
    line_name = {representative[node]: name for node, name in (line_names or {}).items() if node in representative}
    unused_names = fresh_names or (f"t{i}" for i in count())
    fragments = dict(names)
    lines: list[tuple[str, Fragment]] = []
    for node in order:
        fragment = write(node, [fragments[representative[child]] for child in node.inputs])
        is_small = (
            uses[node] == 1
            or fragment.is_condition
            or len(fragment.text) <= max_repeated_width
            or (node.op is not None and node.op.name == "neg" and node.inputs[0].is_constant)
        )
        is_nested = is_small and len(fragment.text) <= max_width and node not in line_name
        if node.op is not None and not is_nested:
            name = line_name.get(node) or next(unused_names)
            lines.append((name, fragment))
            fragment = Fragment(name, is_condition=fragment.is_condition)
        fragments[node] = fragment
    return StraightLineCode(lines, [fragments[representative[root]] for root in roots])


def _deduplicate(roots: Sequence[Node], names: Mapping[Node, Fragment]) -> tuple[list[Node], dict[Node, Node]]:
    """Return the distinct nodes in topological order, and the representative of every node."""
    order: list[Node] = []
    representative = {node: node for node in names}
    first: dict[object, Node] = {}
    for node in topological_order(roots):
        if node in representative:
            continue
        key = node.text if node.op is None else (node.op, *[representative[child] for child in node.inputs])
        representative[node] = first.setdefault(key, node)
        if representative[node] is node:
            order.append(node)
    return order, representative


class FunctionSyntax(NamedTuple):
    """Templates of a language for a function of straight-line code and for the result of a derivative rule.

    Attributes:
        function: a function, with `{name}`, `{parameters}`, `{lines}` and `{result}`.
        line: an assignment, with `{name}` and `{value}`.
        sequence: the sequence of partial derivatives that a rule returns.
        nothing: a structural zero.
        selected: a partial derivative with a mask: the derivative where the mask is true, else a structural zero.
    """

    function: str
    line: str
    sequence: str
    nothing: str
    selected: str

    def write_function(self, name: str, parameters: Sequence[str], lines: StraightLineCode, result: str) -> str:
        """Return the code of a function that returns the results of straight-line code, filled into `result`."""
        body = "".join(self.line.format(name=name, value=fragment.text) for name, fragment in lines.lines)
        returned_value = result.format(*(fragment.text for fragment in lines.results))
        return self.function.format(name=name, parameters=", ".join(parameters), lines=body, result=returned_value)

    def rule_result(self, partials: Sequence[Partial | None]) -> tuple[list[Node], str]:
        """Return the graphs of some partial derivatives, and a template of the sequence with a place for each graph.

        A partial derivative that is None or literally 0 is a structural zero and has no graph.
        """
        roots: list[Node] = []
        items = []
        for partial in partials:
            if partial is None or is_literal(partial.local, 0):
                items.append(self.nothing)
            elif partial.mask is None:
                roots.append(partial.local)
                items.append("{}")
            else:
                roots += (partial.local, partial.mask)
                items.append(self.selected)
        return roots, self.sequence.format(", ".join(items))

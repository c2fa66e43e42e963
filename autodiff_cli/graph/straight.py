"""Straight lines of code: graphs written in another language, equal parts once, in order.

One walk writes the rules of every kind of number, the page's JavaScript and whatever else is compiled from a graph.
What differs from language to language is a table: how an operation is written there (a `Notation`), and what a function
looks like (a `Syntax`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from autodiff_cli.graph.node import Node, is_literal
from autodiff_cli.graph.op import Partial
from autodiff_cli.graph.tape import topological

TIGHTEST = 99  # how tightly a name binds, a number, or a call


class Fragment(NamedTuple):
    """A piece of code.

    Attributes:
        text: what is written.
        binding: how tightly its outermost operator binds.
        is_condition: whether it is true or false, in languages where that is no number.
    """

    text: str
    binding: int = TIGHTEST
    is_condition: bool = False


class Notation(NamedTuple):
    """How an operation is written.

    Attributes:
        texts: what stands before, between and after the operands.
        least: how tightly each operand has to bind to stand there without brackets.
        binding: how tightly the whole binds.
        is_condition: whether the whole is a condition.
        conditions: which operands are conditions.
        brackets: what stands around an operand that needs brackets.
        order: the operands from left to right; by default in their own order.

    >>> Notation(("", "*", ""), (2, 3), 2).of([Fragment("a"), Fragment("b + c", 1)]).text
    'a*(b + c)'
    """

    texts: tuple[str, ...]
    least: tuple[int, ...]
    binding: int = TIGHTEST
    is_condition: bool = False
    conditions: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    brackets: tuple[str, str] = ("(", ")")

    def extended(self, arity: int) -> Notation:
        """The same of another number of operands: what stands between two is repeated; a comma, where there was one."""
        before, *between, after = self.texts
        return self._replace(
            texts=(before, *[between[0] if between else ", "] * (arity - 1), after),
            least=(self.least[0], *[self.least[-1]] * (arity - 1)),
            conditions=tuple(range(arity)) if self.conditions else (),
        )

    def of(self, operands: Sequence[Fragment]) -> Fragment:
        """The operation on these operands."""
        written = [self.texts[0]]
        opening, closing = self.brackets
        placed = [operands[k] for k in self.order] if self.order else operands
        for (text, binding, _), least, after in zip(placed, self.least, self.texts[1:], strict=True):
            written += [text if binding >= least else f"{opening}{text}{closing}", after]
        return Fragment("".join(written), self.binding, self.is_condition)


def call(name: str, arity: int) -> Notation:
    """A call of a function of so many arguments.

    >>> call("sin", 1).of([Fragment("x + 1", 1)]).text
    'sin(x + 1)'
    """
    return Notation((f"{name}(", *[", "] * (arity - 1), ")"), (0,) * arity)


# What most languages write alike, and loosest first: sums, products, signs.
SUM, PRODUCT, SIGN = 10, 11, 12
INFIX = {
    "add": Notation(("", " + ", ""), (SUM, SUM + 1), SUM),
    "sub": Notation(("", " - ", ""), (SUM, SUM + 1), SUM),
    "mul": Notation(("", " * ", ""), (PRODUCT, PRODUCT + 1), PRODUCT),
    "neg": Notation(("-", ""), (SIGN + 1,), SIGN),
}


class Lines(NamedTuple):
    """Straight-line code.

    Attributes:
        lines: names, and what each is for.
        results: the roots.
    """

    lines: list[tuple[str, Fragment]]
    results: list[Fragment]


def straight_lines(
    roots: Sequence[Node],
    names: Mapping[Node, Fragment],
    write: Callable[[Node, Sequence[Fragment]], Fragment],
    width: int = 0,
    called: Mapping[Node, str] | None = None,
    fresh: Iterator[str] | None = None,
    repeated: int = 0,
) -> Lines:
    """The graphs of `roots`, inputs before what uses them, each equal part once.

    Args:
        names: what is written for nodes that need no line: all input leaves, and whatever else is known.
        write: how a constant is written, or the operation of a node on its operands.
        width: what is used once, a condition, or a number with its sign is written inside what uses it, as long as that
            stays within so many characters. With 0, each line is one operation.
        called: the names of lines that are to have one; of other nodes too, which then change nothing.
        fresh: the names of the other lines; `t0`, `t1` and so on by default.
        repeated: what is no longer than so many characters is written again wherever it is used.

    >>> from autodiff_cli.graph.node import variable
    >>> x, y = variable("x"), variable("y")
    >>> names = {x: Fragment("x"), y: Fragment("y")}
    >>> def write(node, operands):
    ...     return INFIX[node.op.name].of(operands) if node.op else Fragment(node.text)
    >>> lines, results = straight_lines([x*y + 1, x*y], names, write)
    >>> for name, piece in lines:
    ...     print(name, "=", piece.text)
    t0 = x * y
    t1 = t0 + 1
    >>> [result.text for result in results]
    ['t1', 't0']
    """
    order, same = _distinct(roots, names)
    uses = Counter(same[child] for node in order for child in node.inputs) if width else Counter[Node]()
    uses.update(same[root] for root in roots)
    given = {same[node]: name for node, name in (called or {}).items() if node in same}
    spare = fresh or (f"t{i}" for i in count())
    written = dict(names)
    lines: list[tuple[str, Fragment]] = []
    for node in order:
        piece = write(node, [written[same[child]] for child in node.inputs])
        is_small = uses[node] == 1 or piece.is_condition or len(piece.text) <= repeated or _is_signed_number(node)
        is_nested = is_small and len(piece.text) <= width and node not in given
        if node.op is not None and not is_nested:
            name = given.get(node) or next(spare)
            lines.append((name, piece))
            piece = Fragment(name, is_condition=piece.is_condition)
        written[node] = piece
    return Lines(lines, [written[same[root]] for root in roots])


def _is_signed_number(node: Node) -> bool:
    return node.op is not None and node.op.name == "neg" and node.inputs[0].is_constant


def _distinct(roots: Sequence[Node], names: Mapping[Node, Fragment]) -> tuple[list[Node], dict[Node, Node]]:
    """The nodes to write, equal ones once, and for every node the one that is written for it."""
    order: list[Node] = []
    same = {node: node for node in names}
    first: dict[object, Node] = {}
    for node in topological(roots):
        if node in same:
            continue
        key = node.text if node.op is None else (node.op, *[same[child] for child in node.inputs])
        same[node] = first.setdefault(key, node)
        if same[node] is node:
            order.append(node)
    return order, same


class Syntax(NamedTuple):
    """What a function of straight lines looks like in a language, with `{name}`, `{parameters}`, `{lines}`, `{result}`;
    and what a rule hands to its inputs: a sequence, of amounts, of `nothing`, and of amounts where a mask holds."""

    function: str
    line: str
    sequence: str
    nothing: str
    selected: str

    def written(self, name: str, parameters: Sequence[str], lines: Lines, result: str) -> str:
        """A function that returns the results of straight lines in the places of `result`."""
        body = "".join(self.line.format(name=name, value=piece.text) for name, piece in lines.lines)
        returned = result.format(*(piece.text for piece in lines.results))
        return self.function.format(name=name, parameters=", ".join(parameters), lines=body, result=returned)

    def rule(self, partials: Sequence[Partial | None]) -> tuple[list[Node], str]:
        """The graphs of a rule, and the result that has them in its places: structurally nothing where a partial is 0
        everywhere, or its mask does not hold."""
        roots: list[Node] = []
        parts = []
        for partial in partials:
            if partial is None or is_literal(partial.local, 0):
                parts.append(self.nothing)
            elif partial.mask is None:
                roots.append(partial.local)
                parts.append("{}")
            else:
                roots += (partial.local, partial.mask)
                parts.append(self.selected)
        return roots, self.sequence.format(", ".join(parts))

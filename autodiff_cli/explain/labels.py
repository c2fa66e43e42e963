"""Labels of the nodes of a graph, and operations written with labels or numbers.

A node that the text names has that name, and the value of a call is labelled as the call, `n(0, 1)`. A node inside a
call is labelled as the function's text has it, followed by the call: `w1*a in n(0, 1)`. Every other node is labelled by
its sub-expression.

A label that is too long leaves out whole operands, so that it still shows which operation it is; only names lose their
middle. If two different nodes end up with the same shortened label, each gets its number.

`format_operation_on_numbers` writes an operation as at a blackboard: `2 × (-3)`, `sin(2)`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property

from autodiff_cli.graph.codegen import Fragment, Notation
from autodiff_cli.graph.node import Node, Op, Precedence
from autodiff_cli.graph.tape import Tape
from autodiff_cli.language.lexer import quote_name
from autodiff_cli.language.printer import comparison_chains, node_notation, node_precedence, op_notation
from autodiff_cli.language.program import Group, Source

# Lengths in characters. They are plain constants because a label is made for every node of graphs with 100,000 nodes.
MAX_LABEL_LENGTH = 40  # of a sub-expression; two labels and their numbers fit on a line of a terminal
MAX_CALL_LENGTH = 24  # of the call that follows it
ELLIPSIS = "…"
_MIN_LABEL_LENGTH = 12  # of a sub-expression before its call; where less is left, the call is left out
_MIN_NAME_LENGTH = 7  # of a name without its middle; a shorter one cannot be recognized
_OPERANDS_PER_END = 3  # operands at either end that a long sum stores: the cost of its label is bounded
_CHAIN_ENDS = ((3, 3), (2, 3), (2, 2), (1, 2), (1, 1))  # numbers of operands at both ends of a shortened sum


class Label:
    """A sub-expression that can be written in any number of characters, from 1 up.

    It stores its operands and the texts before, between and after them. A long sum or product stores only a few
    operands from either end, so that the cost of a label does not depend on the size of its sub-expression.

    Attributes:
        text: the label in at most `MAX_LABEL_LENGTH` characters.
    """

    __slots__ = ("_leading", "_operands", "_texts", "_trailing", "text")

    def __init__(self, texts: Sequence[str], operands: Sequence[Label] = (), chain: Label | None = None) -> None:
        """Make a label.

        Args:
            texts: the texts before, between and after the operands.
            operands: the labels of the operands.
            chain: the first of two operands, if it is a sum or a product that this operation continues.
        """
        self._texts, self._operands = texts, operands
        self._leading: tuple[tuple[str, Label], ...] = ()
        self._trailing: tuple[tuple[str, Label], ...] = ()
        if chain is not None:
            self._extend_chain(chain, (texts[1], operands[1]))
        self.text: str = self._join(operand.text for operand in operands)
        if operands and len(self.text) > MAX_LABEL_LENGTH:
            self.text = self._abbreviate(MAX_LABEL_LENGTH)

    def fit(self, room: int) -> str:
        """Return the text in at most `room` characters."""
        return self.text if len(self.text) <= room else self._abbreviate(room)

    def _abbreviate(self, room: int) -> str:
        if not self._operands:
            return _abbreviate_name(self.text, room)
        if self._leading:
            return self._abbreviate_chain(room)
        left = room - sum(map(len, self._texts))
        if left >= len(self._operands):
            return self._join(operand.fit(width) for operand, width in self._operand_widths(left))
        before, after = self._texts[0], self._texts[-1]
        if len(brief := f"{before}{ELLIPSIS}{after}") <= room:
            return brief
        if not before[1:].endswith("("):
            return ELLIPSIS
        name = _abbreviate_name(before[:-1], room - len(f"({ELLIPSIS}{after}"))
        return name if name == ELLIPSIS else f"{name}({ELLIPSIS}{after}"

    def _extend_chain(self, chain: Label, operand: tuple[str, Label]) -> None:
        if chain._leading:
            self._leading, self._trailing = chain._leading, chain._trailing
        else:
            self._leading = ("", chain._operands[0]), (chain._texts[1], chain._operands[1])
            self._trailing = self._leading[1:]
        if len(self._leading) <= _OPERANDS_PER_END:  # one more: its sign stands before the ellipsis
            self._leading = (*self._leading, operand)
        self._trailing = (*self._trailing[-_OPERANDS_PER_END + 1 :], operand)

    def _join(self, operands: Iterable[str]) -> str:
        before, *after = self._texts
        return before + "".join(text + then for text, then in zip(operands, after, strict=True))

    def _abbreviate_chain(self, room: int) -> str:
        """Return as many operands from both ends as fit. The last comes first: it tells a sum from its partial sums."""
        for first, last in _CHAIN_ENDS:
            if first < len(self._leading) and last <= len(self._trailing):
                head = "".join(sign + operand.text for sign, operand in self._leading[:first]) + self._leading[first][0]
                tail = "".join(sign + operand.text for sign, operand in self._trailing[-last:])
                if len(text := f"{head}{ELLIPSIS}{tail}") <= room:
                    return text
        *_, (sign, operand) = self._trailing
        left = room - len(ELLIPSIS) - len(sign)
        return ELLIPSIS if left < 1 else f"{ELLIPSIS}{sign}{operand.fit(left)}"

    def _operand_widths(self, room: int) -> Iterator[tuple[Label, int]]:
        """Yield each operand with its width: short operands get their width, and long ones share the rest equally."""
        widths = [len(operand.text) for operand in self._operands]
        order = sorted(range(len(widths)), key=widths.__getitem__)
        for done, k in enumerate(order):
            widths[k] = min(widths[k], room // (len(order) - done))
            room -= widths[k]
        return zip(self._operands, widths, strict=True)


def _abbreviate_name(text: str, room: int) -> str:
    """Return a long name without its middle. A number or an index is left out whole: fewer digits would change it."""
    if room < _MIN_NAME_LENGTH or not (text[0].isalpha() or text[0] in "_`") or "[" in text:
        return ELLIPSIS
    end = (room - len(ELLIPSIS)) // 2
    return f"{text[: room - len(ELLIPSIS) - end]}{ELLIPSIS}{text[-end:]}"


class Labels:
    """The labels of the nodes of a tape.

    Args:
        names: the names that the text gives to nodes.
        source: the positions of the nodes in the text; None for a graph that was not parsed.

    Attributes:
        calls: for each node, the call in which it is computed; empty for a node outside any call.
    """

    def __init__(self, tape: Tape, names: Mapping[Node, str], source: Source | None) -> None:
        names = {node: name for node, name in names.items() if not is_constant_name(node)}
        self._nodes, self._names, self._source = tape.nodes, names, source
        self._groups: Mapping[Node, Group] = {} if source is None else source.groups
        valued = {node: group for node in tape.nodes if (group := _group_with_value(self._groups, node))}
        uses = Counter(tape.nodes[j] for inputs in tape.inputs for j in inputs)
        self._named = names.keys() | valued.keys()
        self._chains = comparison_chains(tape.nodes, uses, self._named)
        self._plain_labels: dict[Node, Label] = {}  # without the call they belong to
        self._labels_in_call: list[Label] = []
        self.calls: list[str] = []
        for node in tape.nodes:
            self._plain_labels[node] = plain = self._label(node, valued.get(node))
            part = None if node in self._named or node.op is None else self._source_part(node)
            if node in self._names or node.op is None:
                plain = Label([self._names.get(node, node.text)])  # a name that stands alone needs no backticks
            self._labels_in_call.append(plain if part is None else self._source_labels[part])
            around = None if part is None else self._groups.get(node)
            self.calls.append("" if around is None else self.call_label(around))

    @cached_property
    def texts(self) -> list[str]:
        """The label of every node."""
        texts = [self._text(i) for i in range(len(self._labels_in_call))]
        counts = Counter(texts)
        return [
            self._text(i, f" #{i}") if counts[text] > 1 and ELLIPSIS in text else text for i, text in enumerate(texts)
        ]

    def _text(self, i: int, number: str = "") -> str:
        label, call = self.label_in_call(i, MAX_LABEL_LENGTH - len(number)), self.calls[i]
        return f"{label}{number} in {call}" if call else f"{label}{number}"

    def label_in_call(self, i: int, room: int = MAX_LABEL_LENGTH) -> str:
        """Return the label of a node without its call, in at most `room` characters."""
        label = self._labels_in_call[i]
        return label.text if room == MAX_LABEL_LENGTH else label.fit(room)

    def precedence(self, i: int) -> Precedence:
        """Return the precedence of the operation that a label shows; names and calls bind like atoms."""
        node = self._nodes[i]
        return Precedence.ATOM if node in self._named else node_precedence(node, self._chains)

    def fit(self, i: int, room: int) -> str:
        """Return the label of a node in at most `room` characters; its call is left out first."""
        beside = f" in {self.calls[i]}" if self.calls[i] else ""
        left = room - len(beside)
        has_room = left >= min(len(self.label_in_call(i)), _MIN_LABEL_LENGTH)
        return f"{self.label_in_call(i, left)}{beside}" if has_room else self.label_in_call(i, room)

    def call_label(self, group: Group) -> str:
        """Return the label of a call with its arguments, `f(x)`, or the name of a layer."""
        return self._group_label(group).fit(MAX_CALL_LENGTH)

    def is_call(self, node: Node) -> bool:
        """Whether a node is labelled by the call or the layer whose value it is."""
        return node in self._named and node not in self._names

    def definition(self, node: Node) -> str:
        """Return the operation that computes a named node or the value of a call."""
        part = self._source_part(node)
        return (self._operation_label(node) if part is None else self._source_labels[part]).text

    def _source_part(self, node: Node) -> int | None:
        """Return the number of the sub-expression in a function's text that a node comes from, or None."""
        group = self._groups.get(node)
        if self._source is None or group is None or group.call_lexeme is None:
            return None
        return self._source.subexpression_key(node)

    def _label(self, node: Node, group: Group | None) -> Label:
        """Return a label without the call that the node belongs to.

        Args:
            group: the outermost call or layer whose value the node is.
        """
        if node in self._names or node.op is None:
            name = self._names.get(node)
            is_name = name or (node.is_input and not node.text.endswith("]"))  # an element, `v[0]`, reads as it is
            return Label([quote_name(name or node.text) if is_name else node.text])
        return self._operation_label(node) if group is None else self._group_label(group)

    def _group_label(self, group: Group) -> Label:
        if not group.inputs:
            return Label([group.name])
        arguments = [self._plain_labels.get(node) or Label([node.text or ELLIPSIS]) for node in group.inputs]
        return Label([f"{group.name}(", *[", "] * (len(arguments) - 1), ")"], arguments)

    def _operation_label(self, node: Node) -> Label:
        """Return the label of an operation on its operands."""
        notation, nodes = node_notation(node, self._chains)
        operands = []
        for operand, least in zip(nodes, notation.operand_precedences, strict=True):
            is_tight = operand in self._named or node_precedence(operand, self._chains) >= least
            label = self._plain_labels[operand]
            operands.append(label if is_tight else Label(["(", ")"], [label]))
        is_chained = (
            notation.precedence in (Precedence.SUM, Precedence.PRODUCT)
            and nodes[0] not in self._named
            and node_precedence(nodes[0], self._chains) == notation.precedence
        )
        return Label(notation.texts, operands, operands[0] if is_chained else None)

    @cached_property
    def _source_labels(self) -> dict[int, Label]:
        """The labels of all sub-expressions as written in the text, by the numbers of their lexemes."""
        assert self._source is not None
        parts = self._source.subexpressions
        labels: dict[int, Label] = {}
        for number, part in parts.items():
            is_chained = any(
                part.instruction.type == "INFIX" == parts[part.operands[0]].instruction.type
                and part.instruction.text in signs
                and parts[part.operands[0]].instruction.text in signs
                for signs in ("+-−", "*/%@×·÷")
            )
            operands = [labels[operand] for operand in part.operands]
            labels[number] = Label(part.texts, operands, operands[0] if is_chained else None)
        return labels


def is_constant_name(node: Node) -> bool:
    """Whether a node is a named constant such as `pi`. It keeps that name even if the text binds the name."""
    return node.is_constant and node.text.isidentifier()


def _group_with_value(groups: Mapping[Node, Group], node: Node) -> Group | None:
    """Return the outermost call or layer whose value a node is, or None."""
    outermost, group = None, groups.get(node)
    while group is not None and group.value is node:
        outermost, group = group, group.parent
    return outermost


# --- Operations as at a blackboard: `2 × (-3)`, `sin(2)`


@cache
def blackboard_notation(op: Op, count: int) -> Notation:
    """Return the notation of an operation on `count` labels or numbers.

    >>> from autodiff_cli.ops.arithmetic import mul
    >>> blackboard_notation(mul, 2).texts
    ('', ' × ', '')
    """
    notation = op_notation(op, count)
    if not op.symbol or count == 1:
        return notation
    if op.precedence is Precedence.POWER:
        return notation._replace(operand_precedences=(Precedence.ATOM, Precedence.ATOM))
    return notation._replace(texts=("", " × " if op.symbol == "*" else f" {op.symbol} ", ""))


def negative_number_precedence(position: int, count: int) -> Precedence:
    """Return how tightly a negative number binds as one of `count` operands: its sign can be misread after another."""
    return Precedence.SIGN if position == 0 and count > 1 else Precedence.STATEMENT


def format_operation_on_numbers(op: Op, numbers: Sequence[str]) -> str:
    """Return an operation written with numbers; negative ones in brackets where a sign could be misread."""
    count = len(numbers)
    operands = [
        Fragment(text, negative_number_precedence(k, count) if text.startswith("-") else Precedence.ATOM)
        for k, text in enumerate(numbers)
    ]
    return blackboard_notation(op, count).format(operands).text

"""What to call the nodes of a graph: as the reader did, else by what they are, short and still told apart.

A node with a name has that, and the value of a call is the call, `n(0, 1)`. What is computed inside a call is called as
the function's text has it, with the call beside it: `w1*a in n(0, 1)`. All else is its sub-expression. Of one that is
too long, whole operands are left out, never half of one but of a long name the middle, so that it still shows which
operation it is; where two that are different come out the same all the same, their numbers tell them apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Precedence
from autodiff_cli.graph.tape import Tape
from autodiff_cli.language.lexer import written_name
from autodiff_cli.language.printer import chains, level, written
from autodiff_cli.language.source import Group, Source

LONGEST = 40  # characters of a sub-expression
LONGEST_CALL = 24  # of the call that stands beside it
LEFT_OUT = "…"
_LEAST = 12  # of a sub-expression, with the call beside it
_LEAST_NAME = 7  # of a name without its middle
_ENDS = 3  # operands of a long sum that are known from either end
_GOES_ON = {" + ": " + ", " - ": " + ", " @ ": " @ "}  # what stands before the operands that are left out


class Label:
    """A sub-expression that can be written in any number of characters, from 1 on.

    It keeps its operands, with the texts before, between and after them; of a sum or a product of many those at either
    end. So it costs the same however much it stands for.

    Attributes:
        text: in at most `LONGEST` characters.
    """

    __slots__ = ("_count", "_first", "_last", "_operands", "_texts", "text")

    def __init__(self, texts: Sequence[str], operands: Sequence[Label] = (), begun: Label | None = None) -> None:
        """Args:
        begun: the first of two operands, if that is a sum which goes on here, or a product that does.
        """
        self._texts, self._operands = texts, operands
        self._first: tuple[tuple[str, Label], ...] = ()
        self._last: tuple[tuple[str, Label], ...] = ()
        self._count = len(operands)
        if begun is not None:
            self._go_on(begun, (texts[1], operands[1]))
        self.text: str = self._of(operand.text for operand in operands)
        if operands and len(self.text) > LONGEST:
            self.text = self._cut(LONGEST)

    def within(self, room: int) -> str:
        """The text in at most so many characters."""
        return self.text if len(self.text) <= room else self._cut(room)

    def _cut(self, room: int) -> str:
        if not self._operands:
            return _name_within(self.text, room)
        if self._first:
            return self._ends(room)
        left = room - sum(map(len, self._texts))
        if left >= len(self._operands):
            return self._of(operand.within(width) for operand, width in self._shares(left))
        brief = f"{self._texts[0]}{LEFT_OUT}{self._texts[-1]}"
        return brief if len(brief) <= room else LEFT_OUT

    def _go_on(self, begun: Label, added: tuple[str, Label]) -> None:
        if begun._first:
            self._first, self._last, self._count = begun._first, begun._last, begun._count + 1
        else:
            self._first = ("", begun._operands[0]), (begun._texts[1], begun._operands[1])
            self._last, self._count = self._first[1:], 3
        if len(self._first) < _ENDS:
            self._first = (*self._first, added)
        self._last = (*self._last[-_ENDS + 1 :], added)

    def _of(self, operands: Iterable[str]) -> str:
        before, *after = self._texts
        return before + "".join(text + then for text, then in zip(operands, after, strict=True))

    def _ends(self, room: int) -> str:
        """As many operands from both ends as fit, the last one first: it tells a sum from those it goes on from."""
        *_, (sign, last) = self._last
        left = room - len(LEFT_OUT) - len(sign)
        if left < 1:
            return LEFT_OUT
        head, tail = "", sign + last.within(left)
        if len(last.text) > left:
            return LEFT_OUT + tail
        gap = _GOES_ON.get(self._texts[1], "*") + LEFT_OUT
        first, later = 0, 1  # how many are written of either end
        while first + later + 1 < self._count:
            if first <= later - 1 and first < len(self._first):
                sign, operand = self._first[first]
                if len(head) + len(sign + operand.text) + len(gap) + len(tail) > room:
                    break
                head, first = head + sign + operand.text, first + 1
            elif later < len(self._last):
                sign, operand = self._last[-later - 1]
                if len(head) + len(gap) + len(sign + operand.text) + len(tail) > room:
                    break
                tail, later = sign + operand.text + tail, later + 1
            else:
                break
        return (head + gap if head else LEFT_OUT) + tail

    def _shares(self, room: int) -> Iterator[tuple[Label, int]]:
        """The operands, each with its part of the room: short ones what they need, others the rest in equal parts."""
        widths: dict[int, int] = {}
        order = sorted(range(len(self._operands)), key=lambda k: len(self._operands[k].text))
        for done, k in enumerate(order):
            widths[k] = min(len(self._operands[k].text), room // (len(order) - done))
            room -= widths[k]
        return ((operand, widths[k]) for k, operand in enumerate(self._operands))


def _name_within(text: str, room: int) -> str:
    """A long name without its middle; of a number nothing, since its digits would be another's."""
    if room < _LEAST_NAME or not (text[0].isalpha() or text[0] in "_`"):
        return LEFT_OUT
    end = (room - len(LEFT_OUT)) // 2
    return f"{text[: room - len(LEFT_OUT) - end]}{LEFT_OUT}{text[-end:]}"


class Labels:
    """The labels of the nodes of a tape.

    Args:
        names: of the nodes that the text gives one.
        source: where the nodes stand in a text; None for a graph that was not read.

    Attributes:
        calls: for each node the call inside of which it is computed; empty for a node outside of any.
    """

    def __init__(self, tape: Tape, names: Mapping[Node, str], source: Source | None) -> None:
        names = {node: name for node, name in names.items() if not is_constant_name(node)}
        self._nodes, self._names, self._source = tape.nodes, names, source
        valued = {} if source is None else {node: group for node in tape.nodes if (group := _valued(source, node))}
        uses = Counter(tape.nodes[j] for inputs in tape.inputs for j in inputs)
        self._named = names.keys() | valued.keys()
        self._chains = chains(tape.nodes, uses, self._named)
        self._plain: dict[Node, Label] = {}  # with nothing beside them
        self._own: list[Label] = []
        self.calls: list[str] = []
        for node in tape.nodes:
            self._plain[node] = plain = self._label(node, valued.get(node))
            part = None if node in self._named or node.op is None else self._part(node)
            if node in self._names or node.op is None:
                plain = Label([self._names.get(node, node.text)])  # alone, a name needs no backticks
            self._own.append(plain if part is None else self._as_written[part])
            self.calls.append("" if part is None else self._call_of(node))

    @cached_property
    def texts(self) -> list[str]:
        """What to call each node."""
        texts = [self._text(i) for i in range(len(self._own))]
        alike = Counter(texts)
        return [
            self._text(i, f" #{i}") if alike[text] > 1 and LEFT_OUT in text else text for i, text in enumerate(texts)
        ]

    def _text(self, i: int, number: str = "") -> str:
        own, call = self.own(i, LONGEST - len(number)), self.calls[i]
        return f"{own}{number} in {call}" if call else f"{own}{number}"

    def own(self, i: int, room: int = LONGEST) -> str:
        """What to call a node where its call is known, in at most so many characters."""
        label = self._own[i]
        return label.text if room == LONGEST else label.within(room)

    def level(self, i: int) -> Precedence:
        """How tightly the operation binds that a label shows; as a name does where it is one, or a call."""
        node = self._nodes[i]
        return Precedence.ATOM if node in self._named else level(node, self._chains)

    def fitting(self, i: int, room: int) -> str:
        """What to call a node in at most so many characters; the call beside it is left out first."""
        beside = f" in {self.calls[i]}" if self.calls[i] else ""
        left = room - len(beside)
        return f"{self.own(i, left)}{beside}" if left >= min(len(self.own(i)), _LEAST) else self.own(i, room)

    def call(self, group: Group) -> str:
        """A call with what it was given, `f(x)`; a layer by its name."""
        return self._given(group).within(LONGEST_CALL)

    def is_call(self, node: Node) -> bool:
        """Whether a node is called by the call, or the layer, whose value it is."""
        return node in self._named and node not in self._names

    def written_out(self, node: Node) -> str:
        """What a node with a name, or the value of a call, stands for: the operation that computes it."""
        part = self._part(node)
        return (self._printed(node) if part is None else self._as_written[part]).text

    def _part(self, node: Node) -> int | None:
        """The sub-expression of a function's text that a node is; None for a node that was made otherwise."""
        group = None if self._source is None else self._source.group(node)
        return None if self._source is None or group is None or group.place is None else self._source.part(node)

    def _call_of(self, node: Node) -> str:
        group = None if self._source is None else self._source.group(node)
        return "" if group is None else self.call(group)

    def _label(self, node: Node, group: Group | None) -> Label:
        """A label with nothing beside it.

        Args:
            group: the outermost call or layer of which the node is the value.
        """
        if node in self._names or node.op is None:
            name = self._names.get(node)
            return Label([written_name(name or node.text) if name or node.is_input else node.text])
        return self._printed(node) if group is None else self._given(group)

    def _given(self, group: Group) -> Label:
        if not group.inputs:
            return Label([group.name])
        given = [self._plain.get(node) or Label([node.text or LEFT_OUT]) for node in group.inputs]
        return Label([f"{group.name}(", *[", "] * (len(given) - 1), ")"], given)

    def _printed(self, node: Node) -> Label:
        """An operation on its operands."""
        notation, nodes = written(node, self._chains)
        operands = []
        for operand, least in zip(nodes, notation.least, strict=True):
            is_tight = operand in self._named or level(operand, self._chains) >= least
            made = self._plain[operand]
            operands.append(made if is_tight else Label(["(", ")"], [made]))
        goes_on = (
            notation.binding in (Precedence.SUM, Precedence.PRODUCT)
            and nodes[0] not in self._named
            and level(nodes[0], self._chains) == notation.binding
        )
        return Label(notation.texts, operands, operands[0] if goes_on else None)

    @cached_property
    def _as_written(self) -> dict[int, Label]:
        """The labels of all sub-expressions as they stand in the text, by the numbers of their lexemes."""
        assert self._source is not None
        parts = self._source.parts
        found: dict[int, Label] = {}
        for number, part in parts.items():
            goes_on = any(
                part.instruction.type == "INFIX" == parts[part.operands[0]].instruction.type
                and part.instruction.text in signs
                and parts[part.operands[0]].instruction.text in signs
                for signs in _SIGNS
            )
            operands = [found[operand] for operand in part.operands]
            found[number] = Label(part.texts, operands, operands[0] if goes_on else None)
        return found


_SIGNS = ("+-−", "*/%@×·÷")


def is_constant_name(node: Node) -> bool:
    """Whether a node is `pi` or another constant with a name: that one stays, whatever else the text calls it."""
    return node.is_constant and node.text.isidentifier()


def _valued(source: Source, node: Node) -> Group | None:
    """The outermost call or layer of which a node is the value."""
    found, group = None, source.group(node)
    while group is not None and group.value is node:
        found, group = group, group.outer
    return found

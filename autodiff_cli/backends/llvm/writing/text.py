"""LLVM's text of one function, line by line: names, labels and loops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Loop:
    """A counted loop under way.

    Attributes:
        index: the name of its counter.
    """

    def __init__(self, index: str) -> None:
        self.index = index
        self._carried: list[tuple[str, str, str]] = []  # name, type, start
        self._next: list[str] = []

    def carry(self, name: str, kind: str, start: str) -> str:
        """A value that each pass hands to the next."""
        self._carried.append((name, kind, start))
        return name

    def hand_on(self, value: str) -> None:
        """What the next pass gets for the next of the carried values, in the order of `carry`."""
        self._next.append(value)

    @property
    def reached(self) -> list[str]:
        """What has been handed on: after the loop, what it came to."""
        return self._next

    def phis(self, before: str, latch: str) -> Iterator[str]:
        """The lines that bring the carried values in."""
        for (name, kind, start), following in zip(self._carried, self._next, strict=True):
            yield f"  {name} = phi {kind} [ {start}, %{before} ], [ {following}, %{latch} ]"


class Text:
    """The lines of a function.

    Args:
        head: what stands before its body: `define … {`.
    """

    def __init__(self, head: str) -> None:
        self.lines = [head, "entry:"]
        self._names = 0
        self._block = "entry"

    def name(self) -> str:
        """A name that nothing has yet."""
        self._names += 1
        return f"%t{self._names}"

    def put(self, instruction: str) -> str:
        """A line that computes something; the name of the result."""
        name = self.name()
        self.lines.append(f"  {name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        """A line that computes nothing."""
        self.lines.append(f"  {instruction}")

    def label(self) -> str:
        """A name for a block of lines."""
        self._names += 1
        return f"b{self._names}"

    def begin(self, label: str) -> None:
        """From here on lines are in this block."""
        self.lines.append(f"{label}:")
        self._block = label

    @property
    def block(self) -> str:
        """The block that lines are in."""
        return self._block

    def close(self) -> str:
        """The whole function, which returns here."""
        return "\n".join([*self.lines, "  ret void", "}\n"])

    @contextmanager
    def loop(self, start: str, stop: str, step: int | str = 1) -> Iterator[Loop]:
        """Lines that are done for a counter from `start` on, `step` further each time, as long as it is below `stop`;
        at least once."""
        before, head = self._block, self.label()
        self.do(f"br label %{head}")
        self.begin(head)
        place = len(self.lines)
        loop = Loop(self.name())
        yield loop
        following = self.put(f"add nuw nsw i64 {loop.index}, {step}")
        more = self.put(f"icmp ult i64 {following}, {stop}")
        latch, after = self._block, self.label()
        self.do(f"br i1 {more}, label %{head}, label %{after}")
        counter = f"  {loop.index} = phi i64 [ {start}, %{before} ], [ {following}, %{latch} ]"
        self.lines[place:place] = [counter, *loop.phis(before, latch)]
        self.begin(after)

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Lines that are done only if a condition holds."""
        then, after = self.label(), self.label()
        self.do(f"br i1 {condition}, label %{then}, label %{after}")
        self.begin(then)
        yield
        self.do(f"br label %{after}")
        self.begin(after)

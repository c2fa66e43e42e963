"""An eye on values that quick code relies on, so that a strip of rows can be gone through again with care."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autodiff_cli.backends.llvm.functions.division import FAR, NEAR
from autodiff_cli.backends.llvm.functions.inline import FARTHEST
from autodiff_cli.backends.llvm.functions.vectors import Vector, bits
from autodiff_cli.backends.llvm.writing.cells import Memory
from autodiff_cli.backends.llvm.writing.text import Loop


class Watch:
    """An eye on what must be of some size: the least and the largest that there is in the loops over a strip.

    Args:
        sizes: what must be between `NEAR` and `FAR`.
        turned: what must be at most as large as `FARTHEST`.

    Attributes:
        sizes: what is to be looked at, and whether it must not be small either.
    """

    def __init__(self, memory: Memory, sizes: Sequence[Vector], turned: Sequence[Vector]) -> None:
        self._text = memory.text
        self._floats, self._target = memory.module.floats, memory.target
        self._places = memory.watched()
        self._under_way = ["", ""]
        self.sizes = [(size, True) for size in sizes]
        self.sizes += [(abs(x) * (FAR / FARTHEST), False) for x in turned]  # one limit for all
        for place, start in zip(self._places, (math.inf, 0.0), strict=True):
            self._store(f"splat (double {bits(start)})", place)

    def begin(self, loop: Loop, before: Sequence[str]) -> None:
        """Carry the sizes through a loop, ahead of which they were loaded."""
        self._under_way = [loop.carry(self._text.name(), self._floats, each) for each in before]

    def loaded(self) -> list[str]:
        """The sizes up to here. A nan leaves them as they are."""
        load = f"load {self._floats}, ptr %s, align {self._target.bytes}"
        return [self._text.put(load % place) for place in self._places]

    def look(self, size: str, *, is_least: bool) -> None:
        """Note a size."""
        put, masks = self._text.put, f"<{self._target.width} x i1>"
        for k, how in ((0, "olt"), (1, "ogt")) if is_least else ((1, "ogt"),):
            before = self._under_way[k]
            further = put(f"fcmp {how} {self._floats} {size}, {before}")
            self._under_way[k] = put(f"select {masks} {further}, {self._floats} {size}, {self._floats} {before}")

    def end(self, loop: Loop) -> None:
        """Hand the sizes on."""
        for each in self._under_way:
            loop.hand_on(each)

    def store(self, reached: Sequence[str]) -> None:
        """Keep what a loop came to."""
        for value, place in zip(reached, self._places, strict=True):
            self._store(value, place)

    def is_alarmed(self) -> str:
        """Whether something came too near the ends."""
        put, width = self._text.put, self._target.width
        least, most = self.loaded()
        is_near = put(f"fcmp olt {self._floats} {least}, splat (double {bits(NEAR)})")
        is_far = put(f"fcmp ogt {self._floats} {most}, splat (double {bits(FAR)})")
        either = put(f"or <{width} x i1> {is_near}, {is_far}")
        return put(f"icmp ne i{width} {put(f'bitcast <{width} x i1> {either} to i{width}')}, 0")

    def _store(self, value: str, place: str) -> None:
        self._text.do(f"store {self._floats} {value}, ptr {place}, align {self._target.bytes}")

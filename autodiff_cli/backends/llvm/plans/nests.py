"""Items gathered into nests of loops: what goes over the same elements is done in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autodiff_cli.backends.llvm.plans.items import Each, Effect, Item, Leaf, Plan, Reading, Stage
from autodiff_cli.graph.op import Shape

# Items of one nest: more would take LLVM longer than their number says.
MOST = 5000


@dataclass(frozen=True, slots=True)
class Nest:
    """Items that share their loops; an item that is not an `Each` is alone.

    Attributes:
        shape: over which the loops go.
        numbers: of the items.
    """

    level: Stage
    shape: Shape
    numbers: tuple[int, ...]


def nests(plan: Plan) -> list[Nest]:
    """The nests, each after those that it reads: what is the same for all rows, by row, what comes after all rows."""
    return [nest for level in Stage for nest in _of_level(plan.items, level)]


def _of_level(items: Sequence[Item], level: Stage) -> Iterator[Nest]:
    waiting = [k for k, item in enumerate(items) if item.level is level]
    open_ones = set(waiting)
    while waiting:
        first = next(k for k in waiting if open_ones.isdisjoint(_sources(items[k])))
        opener = items[first]
        taken = [first]
        if isinstance(opener, Each):
            taken = list(_fused(items, waiting, open_ones, opener.shape))
        yield Nest(level, opener.shape if isinstance(opener, Each) else (), tuple(taken))
        open_ones.difference_update(taken)
        waiting = [k for k in waiting if k in open_ones]


def _fused(items: Sequence[Item], waiting: Sequence[int], open_ones: set[int], shape: Shape) -> Iterator[int]:
    """Those that can be done in one pass over this shape."""
    taken: set[int] = set()
    for k in waiting:
        item = items[k]
        if not isinstance(item, Each) or item.shape != shape:
            continue
        missing = open_ones.intersection(_sources(item)) - taken
        if not missing and all(_is_at_hand(items, each, taken) for each in item.inputs):
            taken.add(k)
            yield k
            if len(taken) == MOST:
                return


def _is_at_hand(items: Sequence[Item], given: Reading | float, taken: set[int]) -> bool:
    """Whether an input does not wait for a pass to end."""
    return isinstance(given, float) or given.source not in taken or is_direct(items, given)


def is_direct(items: Sequence[Item], given: Reading) -> bool:
    """Whether an input reads, in each pass, just the element that is computed in it."""
    source = items[given.source] if isinstance(given.source, int) else None
    return isinstance(source, Each) and source.effect is Effect.KEEP and source.shape == given.shape and given.is_plain


def _sources(item: Item) -> set[int]:
    """The items that it reads."""
    return {each.source for each in item.inputs if isinstance(each, Reading) and not isinstance(each.source, Leaf)}


def kept(plan: Plan, found: Sequence[Nest]) -> set[int]:
    """The items whose results have to lie in memory: those that are read outside of their nest, or not directly."""
    home = {k: place for place, nest in enumerate(found) for k in nest.numbers}
    stored = set()
    for k, item in enumerate(plan.items):
        if not isinstance(item, Each) or item.effect is not Effect.KEEP:
            stored.add(k)
        for given in item.inputs:
            if isinstance(given, Reading) and isinstance(given.source, int):
                together = home[given.source] == home[k] and is_direct(plan.items, given)
                if not together:
                    stored.add(given.source)
    return stored

"""Where everything lies in the memory that a thread works in."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from autodiff_cli.backends.llvm.plans.items import Called, Each, Effect, Item, Leaf, Plan, Reading, Stage
from autodiff_cli.backends.llvm.plans.nests import Nest, kept

ALIGNMENT = 64  # bytes: a line of the cache, and the widest vector

# Rows of a strip, measured. Where nothing is kept per row a strip only bounds how many numbers are summed in a row;
# else its values are to stay in the nearest caches; where Python is called, calls are to be few.
_UNKEPT, _CALLED, _FEWEST, _MOST = 1024, 4096, 64, 512
_NEAR = 128 * 1024  # bytes of the cache that a strip may fill

# Totals of more elements than this are added up over the lanes of a vector after every strip, to save memory.
_NARROW = 1024


@dataclass(slots=True)
class PlanLayout:
    """The places of a plan's values, in bytes.

    Attributes:
        strip: how many rows a strip has, at most.
        arguments: of the pointers that calls of Python get; what lies before is the address that is called.
        places: of every item that is kept: a number per element, or for values by row a strip per element.
        lanes: of the totals that are added up in whole vectors, one per element, from the start of those.
        summed, tail_summed: where these vectors begin, for all rows and for the last ones that fill no vector.
        summed_size: of either.
        totals: where what they come to lies, in the same order.
        watched: of the least and the largest size of the divisors that are watched, in each lane.
        sums: where numbers that are summed begin and end; the first is how many rows there are.
        tails: of the copies of the last rows of each column.
        size: of all.
    """

    strip: int
    arguments: int = 0
    places: dict[int, int] = field(default_factory=dict)
    lanes: dict[int, int] = field(default_factory=dict)
    summed: int = 0
    tail_summed: int = 0
    summed_size: int = 0
    totals: int = 0
    watched: int = 0
    sums: tuple[int, int] = (0, 0)
    tail_table: int = 0
    tails: list[int] = field(default_factory=list)
    tail_out: int = 0
    size: int = 0


def laid_out(plan: Plan, nests: list[Nest], width: int) -> PlanLayout:
    """Places for all that has to be kept.

    Args:
        width: how many numbers a vector has.
    """
    stored = kept(plan, nests)
    by_row = {k: item for k, item in enumerate(plan.items) if k in stored and _lies_by_row(item)}
    layout = PlanLayout(_strip(plan, by_row, width))
    place = _Counter()
    place.take(8)
    layout.arguments = place.take(
        8 * max([len(item.inputs) for item in plan.items if isinstance(item, Called)], default=0)
    )
    totals = 0
    for k, item in enumerate(plan.items):
        if is_total(item) and item.size <= _NARROW:
            layout.lanes[k] = totals * width * 8
            totals += item.size
    layout.summed_size = totals * width * 8
    layout.summed, layout.tail_summed = place.take(layout.summed_size), place.take(layout.summed_size)
    layout.watched = place.take(2 * width * 8)
    start = place.take(8)
    layout.totals = place.take(8 * totals)
    for k, lanes in layout.lanes.items():
        layout.places[k] = layout.totals + lanes // width
    for k, item in enumerate(plan.items):
        if k in stored and k not in layout.lanes and (is_total(item) or item.level is Stage.TOTAL):
            layout.places[k] = place.take(item.size * 8)
    layout.sums = (start, place.end)
    for k, item in enumerate(plan.items):
        if k in stored and item.level is Stage.UNIFORM:
            layout.places[k] = place.take(item.size * 8)
    _place_by_row(plan, nests, by_row, layout, place)
    layout.tail_table = place.take(16 * len(plan.columns))
    layout.tails = [place.take(width * 8 * math.prod(leaf.shape)) for leaf in plan.columns]
    layout.tail_out = place.take(plan.numbers * width * 8)
    layout.size = place.end
    return layout


def is_total(item: Item) -> bool:
    """Whether a value per row is added up."""
    return isinstance(item, Each) and item.effect is Effect.TOTAL


def _lies_by_row(item: Item) -> bool:
    is_out = isinstance(item, Each) and item.effect in (Effect.TOTAL, Effect.WRITE)
    return item.level is Stage.ROW and not is_out


def _strip(plan: Plan, by_row: dict[int, Item], width: int) -> int:
    if any(isinstance(item, Called) and item.level is Stage.ROW for item in plan.items):
        return _CALLED
    if not by_row:
        return _UNKEPT
    bytes_per_row = 8 * sum(item.size for item in by_row.values())
    fitting = min(_MOST, max(_FEWEST, _NEAR // bytes_per_row))
    return fitting // (4 * width) * 4 * width


def _place_by_row(plan: Plan, nests: list[Nest], by_row: dict[int, Item], layout: PlanLayout, place: _Counter) -> None:
    """Strips, whose memory is used again after the last nest that reads them."""
    last: dict[int, int] = {}
    for n, nest in enumerate(nests):
        for k in nest.numbers:
            last[k] = n
            for given in plan.items[k].inputs:
                if isinstance(given, Reading) and not isinstance(given.source, Leaf):
                    last[given.source] = n
    free: dict[int, list[int]] = {}
    for n, nest in enumerate(nests):
        for k in nest.numbers:
            if k in by_row:
                size = by_row[k].size * layout.strip * 8
                reusable = free.get(size)
                layout.places[k] = reusable.pop() if reusable else place.take(size)
        for k, end in last.items():
            if end == n and k in by_row:
                free.setdefault(by_row[k].size * layout.strip * 8, []).append(layout.places[k])


class _Counter:
    """Hands out memory."""

    def __init__(self) -> None:
        self.end = 0

    def take(self, size: int) -> int:
        start = self.end
        self.end += -(-size // ALIGNMENT) * ALIGNMENT
        return start

"""Operations that choose one of their inputs, and hand their gradient to the one chosen.

The others get structurally nothing: not 0 times something, so that a nan or an infinity that stands there cannot leak.
"""

from __future__ import annotations

from math import inf

from autodiff_cli.graph.node import Node
from autodiff_cli.graph.op import Gate, Op
from autodiff_cli.ops.arithmetic import add, and_, equal, greater, less, not_, or_
from autodiff_cli.ops.declare import chooser, elementary

where = chooser(
    "where", lambda z, c, a, b: ((0, 0), (c, 1), (not_(c), 1)), gate=Gate.ROUTE, is_exact=True,
    summary="a where the condition holds (is not 0), else b",
)  # fmt: skip


max_: Op
min_: Op


def _wins(z: Node, inputs: tuple[Node, ...]) -> tuple[list[Node], Node]:
    """For every input whether it is the value, and how many are."""
    wins = [equal(x, z) for x in inputs]
    total = wins[0]
    for win in wins[1:]:
        total = add(total, win)
    return wins, total


# Equal shares among all that tie. Where the value is nan, so is every share: 0/0.
def _shares(z: Node, inputs: tuple[Node, ...], beaten: Op) -> tuple[tuple[Node, Node], ...]:
    wins, total = _wins(z, inputs)
    return tuple((not_(beaten(x, z)), win / total) for x, win in zip(inputs, wins, strict=True))


max_ = chooser(
    "max", lambda z, *xs: _shares(z, xs, less), gate=Gate.ROUTE, is_exact=True,
    kink=lambda *xs: _wins(max_(*xs), xs)[1] > 1, kink_note="two or more are the largest; they get equal shares",
    summary="the largest of its arguments",
)  # fmt: skip
min_ = chooser(
    "min", lambda z, *xs: _shares(z, xs, greater), gate=Gate.ROUTE, is_exact=True,
    kink=lambda *xs: _wins(min_(*xs), xs)[1] > 1, kink_note="two or more are the smallest; they get equal shares",
    summary="the smallest of its arguments",
)  # fmt: skip
clip = chooser(
    "clip",
    lambda z, x, low, high: (
        (and_(x > low, x < high), 1),
        (and_(x < low, low < high), 1),
        (or_(x > high, low > high), 1),
    ),
    gate=Gate.ROUTE, is_exact=True,
    kink=lambda x, low, high: or_(
        and_(low < high, or_(equal(x, low), equal(x, high))),
        and_(equal(low, high), x <= low),
    ),
    kink_note="the slopes are 0 and 1; 0 is taken",
    summary="x kept between low and high",
)  # fmt: skip
relu = chooser(
    "relu", lambda z, x: ((x > 0, 1),), gate=Gate.ROUTE, is_exact=True, is_rectifier=True, ends=(0, inf),
    kink=lambda x: equal(x, 0), kink_note="the slopes are 0 and 1; 0 is taken",
    summary="x where it is positive, else 0",
)  # fmt: skip
heaviside = elementary(
    "heaviside", lambda z, x: 0, gate=Gate.BLOCK,
    kink=lambda x: equal(x, 0), kink_note="it jumps there; slope 0 is taken",
    summary="0 below 0, 1 above, 1/2 at 0",
)  # fmt: skip

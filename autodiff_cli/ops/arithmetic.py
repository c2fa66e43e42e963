"""Operators and choices: arithmetic, comparisons, logic, rounding, `where`, `max`, `min`, `clip` and `relu`.

The value of a comparison is the number 1 or 0, and its derivative is 0.

A choice propagates its gradient only to the selected input. The other inputs receive a structural zero and not 0 times
something, so a nan or an infinity among them cannot leak.
"""

from __future__ import annotations

from math import inf

from autodiff_cli.graph.node import Gate, Node, Op, Precedence
from autodiff_cli.ops.declaration import OpFields, chooser, elementary, helper, operator

SUM, PRODUCT, SIGN, COMPARISON = Precedence.SUM, Precedence.PRODUCT, Precedence.SIGN, Precedence.COMPARISON

PIECEWISE_CONSTANT: OpFields = {"gate": Gate.BLOCK}  # jumps between integers, so the derivative is 0

# x/y², computed as (x/y)/y: the square would overflow or underflow long before the quotient does.
quotient_slope: Op = helper(
    "quotient_slope", lambda z, x, y: (quotient_slope(1, y), -(2 * z / y)), lambda x, y: x / y**2
)

# fmt: off
add = operator("add", "+", SUM,     lambda z, x, y: (1, 1),           gate=Gate.DISTRIBUTE, is_exact=True)
sub = operator("sub", "-", SUM,     lambda z, x, y: (1, -1),          gate=Gate.DISTRIBUTE, is_exact=True)
mul = operator("mul", "*", PRODUCT, lambda z, x, y: (y, x),           gate=Gate.SWAP, factors=(1, 0), is_exact=True)
div = operator("div", "/", PRODUCT, lambda z, x, y: (1 / y, -quotient_slope(x, y)), factors=(None, 0), singular=lambda x, y: equal(y, 0), title="a quotient")
neg = operator("neg", "-", SIGN,    lambda z, x: (-1,),               parity=-1, title="a minus sign")

COMPARED: OpFields = {**PIECEWISE_CONSTANT, "kink": lambda x, y: equal(x, y), "kink_note": "it changes there, so the slope is one-sided"}
equal         = operator("eq", "==", COMPARISON, lambda z, x, y: (0, 0), **COMPARED)
not_equal     = operator("ne", "!=", COMPARISON, lambda z, x, y: (0, 0), **COMPARED)
less          = operator("lt", "<",  COMPARISON, lambda z, x, y: (0, 0), **COMPARED)
less_equal    = operator("le", "<=", COMPARISON, lambda z, x, y: (0, 0), **COMPARED)
greater       = operator("gt", ">",  COMPARISON, lambda z, x, y: (0, 0), **COMPARED)
greater_equal = operator("ge", ">=", COMPARISON, lambda z, x, y: (0, 0), **COMPARED)

and_ = operator("and", "and", Precedence.AND, lambda z, x, y: (0, 0), **PIECEWISE_CONSTANT)
or_  = operator("or",  "or",  Precedence.OR,  lambda z, x, y: (0, 0), **PIECEWISE_CONSTANT)
not_ = operator("not", "not", Precedence.NOT, lambda z, x: (0,),      **PIECEWISE_CONSTANT, parity=1)
# fmt: on

# The remainder has the sign of b. Its derivative with respect to b is -floor(a/b). The quotient (z - a)/b equals that
# up to rounding, whereas floor(a/b) would be off by one where a/b rounds up to an integer.
mod = operator(
    "mod", "%", PRODUCT, lambda z, a, b: (1, round_((z - a) / b)),
    spelling="mod", title="a remainder", kink=lambda a, b: equal(a % b, 0), kink_note="it jumps there; the slope on either side is used",
    singular=lambda a, b: equal(b, 0),
)  # fmt: skip

round_ = elementary(
    "round", lambda z, x: 0, **PIECEWISE_CONSTANT, parity=-1,
    kink=lambda x: equal(abs_(x - floor(x)), 0.5), kink_note="it jumps there; slope 0 is used",
    summary="the nearest whole number, halves to the even one",
)  # fmt: skip
floor = elementary(
    "floor", lambda z, x: 0, **PIECEWISE_CONSTANT,
    kink=lambda x: equal(floor(x), x), kink_note="it jumps there; slope 0 is used",
)  # fmt: skip
ceil = elementary(
    "ceil", lambda z, x: 0, **PIECEWISE_CONSTANT,
    kink=lambda x: equal(ceil(x), x), kink_note="it jumps there; slope 0 is used",
)  # fmt: skip
sign = elementary(
    "sign", lambda z, x: 0, **PIECEWISE_CONSTANT, parity=-1,
    kink=lambda x: equal(x, 0), kink_note="it jumps there; slope 0 is used",
)  # fmt: skip
abs_ = elementary(
    "abs", lambda z, x: sign(x), parity=1,
    kink=lambda x: equal(x, 0), kink_note="the slopes are -1 and 1; 0 is used",
)  # fmt: skip

# --- Choices ---

where = chooser(
    "where", lambda z, c, a, b: ((0, 0), (c, 1), (not_(c), 1)), gate=Gate.ROUTE,
    summary="a where the condition holds (is not 0), else b",
)  # fmt: skip


def _tie_indicators(z: Node, inputs: tuple[Node, ...]) -> tuple[list[Node], Node]:
    """Return an indicator for each input of whether it equals the output, and the number of inputs that do."""
    wins = [equal(x, z) for x in inputs]
    total = wins[0]
    for win in wins[1:]:
        total = add(total, win)
    return wins, total


# Inputs that tie share the gradient equally. If the value is nan, so is every share: 0/0.
def _tied_shares(z: Node, inputs: tuple[Node, ...], loses_to: Op) -> tuple[tuple[Node, Node], ...]:
    wins, total = _tie_indicators(z, inputs)
    return tuple((not_(loses_to(x, z)), win / total) for x, win in zip(inputs, wins, strict=True))


max_ = chooser(
    "max", lambda z, *xs: _tied_shares(z, xs, less), gate=Gate.ROUTE,
    kink=lambda *xs: _tie_indicators(max_(*xs), xs)[1] > 1, kink_note="two or more are the largest; they get equal shares",
    summary="the largest of its arguments",
)  # fmt: skip
min_ = chooser(
    "min", lambda z, *xs: _tied_shares(z, xs, greater), gate=Gate.ROUTE,
    kink=lambda *xs: _tie_indicators(min_(*xs), xs)[1] > 1, kink_note="two or more are the smallest; they get equal shares",
    summary="the smallest of its arguments",
)  # fmt: skip
clip = chooser(
    "clip",
    lambda z, x, low, high: (
        (and_(x > low, x < high), 1),
        (and_(x < low, low < high), 1),
        (or_(x > high, low > high), 1),
    ),
    gate=Gate.ROUTE,
    kink=lambda x, low, high: or_(
        and_(low < high, or_(equal(x, low), equal(x, high))),
        and_(equal(low, high), x <= low),
    ),
    kink_note="the slopes are 0 and 1; 0 is used",
    summary="x kept between low and high",
)  # fmt: skip
relu = chooser(
    "relu", lambda z, x: ((x > 0, 1),), gate=Gate.ROUTE, is_rectifier=True, saturation_values=(0, inf),
    kink=lambda x: equal(x, 0), kink_note="the slopes are 0 and 1; 0 is used",
    summary="x where it is positive, else 0",
)  # fmt: skip
heaviside = elementary(
    "heaviside", lambda z, x: 0, gate=Gate.BLOCK, expansion=lambda x: 0.5 * (sign(x) + 1),
    kink=lambda x: equal(x, 0), kink_note="it jumps there; slope 0 is used",
    summary="0 below 0, 1 above, 1/2 at 0",
)  # fmt: skip

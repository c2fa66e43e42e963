"""The operators: arithmetic, comparisons, logic.

A comparison is a number, 1 or 0, and its derivative is 0: it jumps, it has no slope.
"""

from __future__ import annotations

from autodiff_cli.graph.op import Gate, Op, Precedence
from autodiff_cli.ops.declare import Fields, elementary, helper, operator

# Rules may name operations that are defined further down.
equal: Op
round_: Op
abs_: Op
floor: Op
ceil: Op

SUM, PRODUCT, SIGN, COMPARISON = Precedence.SUM, Precedence.PRODUCT, Precedence.SIGN, Precedence.COMPARISON

JUMPS: Fields = {"gate": Gate.BLOCK, "is_exact": True}  # between whole numbers; flat elsewhere

# x/y², in numbers as (x/y)/y: the square would overflow or vanish long before the quotient does.
quotient_slope: Op = helper(
    "quotient_slope", lambda z, x, y: (quotient_slope(1, y), -(2 * z / y)), lambda x, y: x / y**2
)

# fmt: off
add = operator("add", "+", SUM,     lambda z, x, y: (1, 1),           gate=Gate.DISTRIBUTE, is_exact=True)
sub = operator("sub", "-", SUM,     lambda z, x, y: (1, -1),          gate=Gate.DISTRIBUTE, is_exact=True)
mul = operator("mul", "*", PRODUCT, lambda z, x, y: (y, x),           gate=Gate.SWAP, factors=(1, 0), is_exact=True)
div = operator("div", "/", PRODUCT, lambda z, x, y: (1 / y, -quotient_slope(x, y)), factors=(None, 0), singular=lambda x, y: equal(y, 0), title="a quotient")
neg = operator("neg", "-", SIGN,    lambda z, x: (-1,),               parity=-1, is_exact=True, title="a minus sign")

equal         = operator("eq", "==", COMPARISON, lambda z, x, y: (0, 0), **JUMPS)
not_equal     = operator("ne", "!=", COMPARISON, lambda z, x, y: (0, 0), **JUMPS)
less          = operator("lt", "<",  COMPARISON, lambda z, x, y: (0, 0), **JUMPS)
less_equal    = operator("le", "<=", COMPARISON, lambda z, x, y: (0, 0), **JUMPS)
greater       = operator("gt", ">",  COMPARISON, lambda z, x, y: (0, 0), **JUMPS)
greater_equal = operator("ge", ">=", COMPARISON, lambda z, x, y: (0, 0), **JUMPS)

and_ = operator("and", "and", Precedence.AND, lambda z, x, y: (0, 0), **JUMPS)
or_  = operator("or",  "or",  Precedence.OR,  lambda z, x, y: (0, 0), **JUMPS)
not_ = operator("not", "not", Precedence.NOT, lambda z, x: (0,),      **JUMPS, parity=1)
# fmt: on

# The quotient has the sign of b. Its slope towards b is minus the whole number of times that b fits in a; the quotient
# (z - a)/b is that number up to rounding, while floor(a/b) would be one off where a/b rounds up to a whole number.
mod = operator(
    "mod", "%", PRODUCT, lambda z, a, b: (1, round_((z - a) / b)),
    spelling="mod", title="a remainder", kink=lambda a, b: equal(a % b, 0), kink_note="it jumps there; the slope on either side is taken",
    singular=lambda a, b: equal(b, 0),
)  # fmt: skip

round_ = elementary(
    "round", lambda z, x: 0, **JUMPS, parity=-1,
    kink=lambda x: equal(abs_(x - floor(x)), 0.5), kink_note="it jumps there; slope 0 is taken",
    summary="the nearest whole number, halves to the even one",
)  # fmt: skip
floor = elementary(
    "floor", lambda z, x: 0, **JUMPS,
    kink=lambda x: equal(floor(x), x), kink_note="it jumps there; slope 0 is taken",
)  # fmt: skip
ceil = elementary(
    "ceil", lambda z, x: 0, **JUMPS,
    kink=lambda x: equal(ceil(x), x), kink_note="it jumps there; slope 0 is taken",
)  # fmt: skip
sign = elementary(
    "sign", lambda z, x: 0, **JUMPS, parity=-1,
    kink=lambda x: equal(x, 0), kink_note="it jumps there; slope 0 is taken",
)  # fmt: skip
abs_ = elementary(
    "abs", lambda z, x: sign(x), parity=1, is_exact=True,
    kink=lambda x: equal(x, 0), kink_note="the slopes are -1 and 1; 0 is taken",
)  # fmt: skip

"""Value and gradient by mpmath, at the floats of a point: a reference that shares nothing with balls.

The operations are those of `tests/ops/table.py`; the derivatives are the graphs of the gradient. Numbers that agree to
nearly all digits are equal, so that ties are ties.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from mpmath import libmp, mp, mpf

from autodiff_cli.autodiff.sweeps import forward
from autodiff_cli.graph.node import Node
from autodiff_cli.graph.tape import Tape
from autodiff_cli.numbers.kind import Kind
from tests.ops.domains import VALUES
from tests.ops.table import ROWS

DIGITS = (60, 180, 720)
SURE = (1100, 2200)  # digits with which a difference is confirmed
AGREEMENT = 30  # digits
LONGEST_QUOTIENT = 700  # digits before the point of a quotient of floats
MAX_SECONDS = 10  # of a reference, which does not exist if it takes longer
MAX_BITS = 1_000_000  # of a number before or after its point; balls give up on some of the larger ones
LARGEST = mpf(2) ** MAX_BITS
TIE = 20  # digits less than all, to which equal numbers agree
UNABLE = (
    ArithmeticError,
    ValueError,
    NotImplementedError,
    TypeError,
    MemoryError,
    RecursionError,
    mp.NoConvergence,
    TimeoutError,
)  # what mpmath raises where it has no value


def _parse(text: str) -> mpf:
    named = {"pi": mp.pi, "e": mp.e, "tau": 2 * mp.pi}
    return +named[text] if text in named else mpf(text)


def _difference(x: mpf, y: mpf) -> mpf:
    z = x - y
    return mpf(0) if abs(z) < max(abs(x), abs(y)) * mpf(10) ** (TIE - mp.dps) else z


def _comparison(x: mpf, y: mpf) -> mpf:
    """A number whose sign is that of x - y, also where both are infinite."""
    return mpf(0) if x == y else _difference(x, y)


def _whole(x: mpf) -> mpf:
    """The number, or the whole number that it agrees with to nearly all digits."""
    nearest = mp.nint(x) if mp.isfinite(x) else x
    return nearest if _difference(x, nearest) == 0 else x


def _remainder(a: mpf, b: mpf) -> mpf:
    if mp.isinf(b) and mp.isfinite(a):
        return a if a == 0 or (a > 0) == (b > 0) else b
    quotient = a / b
    if abs(quotient) < mpf(10) ** (mp.dps // 2) and mp.isint(_whole(quotient)):
        return mpf(0)
    with mp.workdps(mp.dps + LONGEST_QUOTIENT):
        return a - b * mp.floor(a / b)


OTHERS: dict[str, Any] = {
    "add": lambda x, y: _difference(x, -y),
    "sub": _difference,
    "eq": lambda x, y: _comparison(x, y) == 0,
    "ne": lambda x, y: _comparison(x, y) != 0,
    "lt": lambda x, y: _comparison(x, y) < 0,
    "le": lambda x, y: _comparison(x, y) <= 0,
    "gt": lambda x, y: _comparison(x, y) > 0,
    "ge": lambda x, y: _comparison(x, y) >= 0,
    "floor": lambda x: mp.floor(_whole(x)),
    "ceil": lambda x: mp.ceil(_whole(x)),
    "round": lambda x: mp.nint(_whole(2 * x) / 2),
    "mod": _remainder,
    # Of Euler's integrals with both signs beside a pole, the value is nan; 0 counts as positive.
    "beta": lambda a, b: mp.nan if any(mp.isint(x) and x < 0 for x in (a, b)) or a == b == 0 else mp.beta(a, b),
    # Not computed below the real axis, which is nan by convention.
    **{name: lambda x, y, value=VALUES[name]: mp.nan if y < 0 else value(x, y) for name in ("wofz_real", "wofz_imag")},
}
MAX_BESSEL_ORDER = 1000
OTHERS |= {
    f"bessel{kind}": lambda n, x, value=VALUES[f"bessel{kind}"]: mp.nan if abs(n) > MAX_BESSEL_ORDER else value(n, x)
    for kind in "ijky"
}
# All other operations are nan if an argument is.
MAY_IGNORE_NAN = {"where", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "pow", "hypot"}
ARITHMETIC = {"add", "sub", "mul", "div"}


def _limit_exponentials() -> None:
    """Make mpmath raise OverflowError where an exponential would have more digits than memory: GMP ends the process."""
    unlimited = libmp.mpf_exp

    def limited(x: Any, *options: Any) -> Any:
        _, _, exponent, bits = x
        if exponent + bits > MAX_BITS:
            raise OverflowError("the exponential of a number with too many digits")
        return unlimited(x, *options)

    for name, module in [*sys.modules.items()]:
        if name.startswith("mpmath") and vars(module).get("mpf_exp") is unlimited:
            module.mpf_exp = limited  # type: ignore[attr-defined]
    mp.exp = mp._wrap_libmp_function(limited, libmp.mpc_exp)


_limit_exponentials()


def _table() -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for row in ROWS:
        rows.setdefault(row.name, []).append(row)
    table: dict[str, Any] = {}
    for name, several in rows.items():
        by_count = {len(row.domain): row.value for row in several}
        value = VALUES.get(name, several[0].value)
        table[name] = lambda *xs, by_count=by_count, value=value: by_count.get(len(xs), value)(*xs)
    return {name: _at_numbers(name, value) for name, value in (table | VALUES | OTHERS).items()}


def _at_numbers(name: str, value: Any) -> Any:
    """Return a function that is nan where an argument or the value is no real number."""

    def at(*xs: mpf) -> mpf:
        if any(map(mp.isnan, xs)) and name not in MAY_IGNORE_NAN:
            return mp.nan
        if name not in ARITHMETIC and any(mp.isfinite(x) and abs(x) > LARGEST for x in xs):
            raise OverflowError("mpmath has functions that would fill the memory")
        result = _real(value(*xs))
        if mp.isnan(result) and any(map(mp.isinf, xs)) and name not in ARITHMETIC:
            raise ValueError("mpmath knows few limits")
        return result

    return at


def _real(x: Any) -> mpf:
    number = mpf(x) if isinstance(x, int | float) else x
    return number if isinstance(number, mpf) else mp.nan if mp.im(number) else mp.re(number)


def references(
    graphs: Sequence[Node], point: Mapping[str, Any], precisions: Sequence[int] = DIGITS
) -> list[mpf | None]:
    """The value of each graph, to `AGREEMENT` digits; None where mpmath has none, or digits are not enough.

    Args:
        graphs: the graphs.
        point: the value of each leaf: a float, or a decimal as text.
        precisions: the numbers of digits to compute with, tried in turn until two results agree.
    """
    tape, before = Tape(graphs), None
    for digits in precisions:
        with mp.workdps(digits):
            kind: Kind[Any] = Kind("mpmath", _table(), _parse)
            at = {name: _parse(x) if isinstance(x, str) else mpf(x) for name, x in point.items()}
            try:
                with _limited():
                    values = forward(tape, kind, at)
            except UNABLE:
                return [None] * len(graphs)
            now = [values[i] for i in tape.outputs]
            if before is not None:
                known = [_agreed(a, b) for a, b in zip(before, now, strict=True)]
                # What seems to be 0 may be a small number that takes more digits.
                if all(known) or digits == precisions[-1]:
                    return known
            before = now
    return [None] * len(graphs)


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Raise TimeoutError after `MAX_SECONDS` of the processor: some functions of mpmath take hours."""

    def stop(*_: object) -> NoReturn:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, MAX_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _agreed(a: mpf, b: mpf) -> mpf | None:
    if not (mp.isfinite(a) and mp.isfinite(b)) or (b and abs(mp.mag(b)) > MAX_BITS):
        return None
    return b if a == b == 0 or abs(a - b) <= mpf(10) ** -AGREEMENT * abs(b) else None


def confirmed(graphs: Sequence[Node], point: Mapping[str, float]) -> list[list[mpf | None]]:
    """The value of each graph at the floats, and at the decimals that they are written as, with many digits."""
    return [references(graphs, at, SURE) for at in (point, {name: repr(x) for name, x in point.items()})]


def is_near(text: str | float, exact: mpf) -> bool:
    """Whether a number has 12 digits of another one."""
    with mp.workdps(AGREEMENT):
        return bool(mp.isfinite(mpf(text)) and abs(mpf(text) - exact) <= mpf(10) ** -12 * abs(exact))

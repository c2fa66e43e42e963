"""Look for formulas and points at which a property does not hold.

    python -m tests.fuzz                         for ten minutes, from a new seed
    python -m tests.fuzz --seconds 28800         for eight hours
    python -m tests.fuzz --seed 4711 --cases 1   one case again, as a finding names it

Each finding is printed with what is wrong, then again as small as it goes. A case that takes too much processor time is
a finding too. Ends with status 1 if there are any.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import itertools
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from random import SystemRandom

from autodiff_cli import ExpressionError
from tests.fuzz.delicate import delicate_case
from tests.fuzz.grammar import Case, case
from tests.fuzz.properties import PROPERTIES, broken
from tests.fuzz.shrinking import shrink

REPORT_CASES = 500  # between two reports of progress
CASE_SECONDS = 60.0  # of processor time for a property of a case
SHRINK_SECONDS = 600.0
TOO_LONG = f"takes more than {CASE_SECONDS:g} s of processor time"


class TimeLimitError(BaseException):
    """Processor time is over; no handler of errors catches it."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TimeLimitError in a `with` block that takes more processor time."""

    def stop(*_: object) -> None:
        raise TimeLimitError

    signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def main() -> int:
    """Run until the time or the cases are over."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--cases", type=int)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**9))
    parser.add_argument("--only", choices=PROPERTIES, action="append", help="a property; all by default")
    asked = parser.parse_args()
    faulthandler.enable()  # a library that ends the process is a finding too
    warnings.simplefilter("error")  # what Python warns of, users see
    names = asked.only or [*PROPERTIES]
    end = time.monotonic() + asked.seconds
    tried: Counter[str] = Counter()
    findings: dict[str, int] = {}
    for seed in itertools.count(asked.seed):
        if time.monotonic() > end or tried["cases"] == asked.cases:
            break
        if tried["cases"] % REPORT_CASES == 0:
            print(
                f"{tried['cases']} cases in {time.process_time():.0f} s of processor time", file=sys.stderr, flush=True
            )
        found = made(seed)
        tried["cases"] += 1
        tried["refused"] += found is None
        for name in names if found is not None else ():
            assert found is not None
            try:
                with limited(CASE_SECONDS):
                    why = broken(name, found)
            except TimeLimitError:
                why = TOO_LONG
            if why is None:
                continue
            print(f"{found}\n  {name}: {why}\n", flush=True)
            findings.setdefault(f"{name}: {why}", seed)
            if why != TOO_LONG:
                with contextlib.suppress(TimeLimitError), limited(SHRINK_SECONDS):
                    small = shrink(name, found)
                    print(f"shrunk: {small}\n  {name}: {broken(name, small)}\n", flush=True)
    print(f"{tried['cases']} cases from seed {asked.seed}, {tried['refused']} refused: {len(findings)} findings")
    return 1 if findings else 0


def made(seed: int) -> Case | None:
    """The case of a seed, every third at a point where digits are lost; None if the language refuses its text."""
    try:
        return case(seed) if seed % 3 else delicate_case(seed)
    except ExpressionError:
        return None


if __name__ == "__main__":
    sys.exit(main())

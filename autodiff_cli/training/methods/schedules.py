"""Learning rates that change from epoch to epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from autodiff_cli.language.errors import suggest
from autodiff_cli.training.errors import OptionError

_BETTER = 1e-4  # of a loss: how far it falls, at least, on a slope that is no plateau

# How each is written, with the numbers that it has when none are given: how many epochs, and the factor.
SCHEDULES: dict[str, tuple[str, tuple[float, ...]]] = {
    "constant": ("constant", ()),
    "cosine": ("cosine", ()),
    "step": ("step[:EPOCHS[:FACTOR]]", (30, 0.1)),
    "exponential": ("exponential[:FACTOR]", (0.95,)),
    "plateau": ("plateau[:EPOCHS[:FACTOR]]", (10, 0.1)),
}


@dataclass(slots=True)
class Schedule:
    """The learning rate of each epoch, from the first one's.

    - `constant`;
    - `cosine`: falls to 0 over all epochs as half a wave does (Loshchilov & Hutter 2017, arXiv 1608.03983, without
      restarts);
    - `step`: is multiplied by the factor after so many epochs, again and again;
    - `exponential`: is multiplied by the factor after every epoch;
    - `plateau`: is multiplied by the factor when the loss (over the rows held out, if there are any) has not fallen by
      0.01 % for so many epochs.

    Args:
        text: its name, and the numbers after colons, as `step:30:0.1`.
        first: the rate of the first epoch.
        epochs: how many there are to be.

    Raises:
        OptionError: for a schedule that does not exist, or has no such numbers.

    >>> cosine = Schedule("cosine", 0.1, 100)
    >>> cosine.rate(1, []), cosine.rate(51, [])
    (0.1, 0.05)
    >>> Schedule("step:2:0.5", 1.0, 9).rate(5, [])
    0.25
    >>> Schedule("plateau:2:0.5", 1.0, 9).rate(4, [1.0, 0.5, 0.6, 0.5])
    0.5
    """

    text: str
    first: float
    epochs: int
    _name: str = field(init=False)
    _numbers: tuple[float, ...] = field(init=False)
    _judged: int = field(default=0, init=False)  # how many losses a plateau was looked for in
    _least: float = field(default=math.inf, init=False)
    _waited: int = field(default=0, init=False)
    _falls: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._name, self._numbers = read_schedule(self.text)

    def rate(self, number: int, losses: Sequence[float]) -> float:
        """The rate of an epoch.

        Args:
            number: 1 for the first.
            losses: of the start and of all epochs before it.
        """
        return self.first * _FACTORS[self._name](self, number - 1, losses)

    def _stepped(self, passed: int) -> float:
        epochs, factor = self._numbers
        return factor ** (passed // int(epochs))

    def _levelled(self, losses: Sequence[float]) -> float:
        epochs, factor = self._numbers
        for loss in losses[self._judged :]:
            if loss < self._least - _BETTER * abs(self._least) or math.isinf(self._least):
                self._least, self._waited = loss, 0
                continue
            self._waited += 1
            if self._waited >= epochs:
                self._falls, self._waited = self._falls + 1, 0
        self._judged = len(losses)
        return factor**self._falls


_FACTORS: dict[str, Callable[[Schedule, int, Sequence[float]], float]] = {
    "constant": lambda _, passed, losses: 1.0,
    "cosine": lambda own, passed, losses: (1 + math.cos(math.pi * passed / own.epochs)) / 2,
    "step": lambda own, passed, losses: own._stepped(passed),
    "exponential": lambda own, passed, losses: own._numbers[0] ** passed,
    "plateau": lambda own, passed, losses: own._levelled(losses),
}


def read_schedule(text: str) -> tuple[str, tuple[float, ...]]:
    """The name of a schedule and its numbers.

    Raises:
        OptionError: see `Schedule`.

    >>> read_schedule("step:10")
    ('step', (10.0, 0.1))
    """
    name, *given = text.split(":")
    if name not in SCHEDULES:
        close = suggest(name, SCHEDULES)
        hint = f"did you mean {close}?" if close else f"there are {', '.join(SCHEDULES)}"
        raise OptionError(f"there is no learning-rate schedule {name}; {hint}")
    form, defaults = SCHEDULES[name]
    try:
        numbers = [float(word) for word in given]
    except ValueError:
        numbers = [math.nan]
    found = (*numbers, *defaults[len(numbers) :])
    epochs, factor = found[:-1], found[-1:]
    sensible = all(n >= 1 and n == int(n) for n in epochs if math.isfinite(n)) and all(0 < n < 1 for n in factor)
    if len(found) != len(defaults) or not all(map(math.isfinite, found)) or not sensible:
        raise OptionError(f"the schedule is written {form}, a factor between 0 and 1, not `{text}`")
    return name, found

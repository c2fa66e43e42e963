"""The table and the bar of a running fit."""

from __future__ import annotations

import io
import re

import numpy as np

from autodiff_cli.data.streaming import PassProgress
from autodiff_cli.render import progress
from autodiff_cli.render.progress import EpochTable, ProgressBar
from autodiff_cli.render.report import Paper
from autodiff_cli.training.methods.gradient_descent import EpochProgress
from autodiff_cli.training.optimizers import Epoch
from tests.each import each


class Screen(io.StringIO):
    """A terminal, and a clock that a test turns forward."""

    time = 0.0

    def shown(self, seconds: float = 1.0) -> str:
        """Return what was written since the last call, without colours, and turn the clock forward."""
        text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", self.getvalue())
        self.seek(0)
        self.truncate()
        self.time += seconds
        return text


def table_on(screen: Screen, total: int | None = 10, every: int | None = None) -> EpochTable:
    bar = ProgressBar(screen, 80, False, total, lambda: screen.time)
    return EpochTable(Paper(io.StringIO()), ["y ~ a*x"], every, bar)


def test_a_long_epoch_shows_its_own_number_and_how_much_of_it_is_done() -> None:
    screen = Screen()
    table = table_on(screen)
    for number in range(1, 4):
        table.add(Epoch(number - 1, 4.0, np.zeros(1)))
        screen.shown(2)
        table.update(EpochProgress(number, 0.25, 1.5))
        shown = screen.shown(2)
        assert f"epoch {number}, 25%" in shown
        assert "loss 1.5" in shown
    table.add(Epoch(3, 4.0, np.zeros(1)))
    assert "epoch 3 " in screen.shown()


def test_the_bar_waits_and_is_drawn_at_most_every_interval() -> None:
    screen = Screen()
    table = table_on(screen)
    table.update(EpochProgress(1, 0.1, 1.0))
    assert screen.shown(progress.BAR_DELAY - 0.01) == ""
    table.update(EpochProgress(1, 0.2, 1.0))
    assert screen.shown(0.02) == ""
    table.update(EpochProgress(1, 0.3, 1.0))
    assert "epoch 1, 30%" in screen.shown(progress.BAR_INTERVAL / 2)
    table.update(EpochProgress(1, 0.4, 1.0))
    assert screen.shown(progress.BAR_INTERVAL) == ""
    table.bar.update_reading(PassProgress(2, 3_000_000, 6_000_000, 1.5))
    shown = screen.shown()
    assert "pass 2" in shown
    assert "2 million rows/s" in shown
    table.bar.update_draws(7, 20)
    assert "draw 7" in screen.shown()


@each(
    "every, last, numbers",
    [
        (None, 1, [0, 1]),
        (None, 137, [*range(11), *range(20, 101, 10), 137]),
        (None, 200, [*range(11), *range(20, 101, 10), 200]),
        (7, 20, [0, 7, 14, 20]),
        (7, 21, [0, 7, 14, 21]),
    ],
)
def test_the_table_thins_out_and_ends_with_the_last_epoch(every: int | None, last: int, numbers: list[int]) -> None:
    stream = io.StringIO()
    table = EpochTable(Paper(stream), ["y ~ a*x", "3 rows"], every, ProgressBar(stream, 80, False, None, None))
    for number in range(last + 1):
        table.add(Epoch(number, 1 / (1 + number), np.zeros(1)))
    table.end()
    lines = stream.getvalue().splitlines()
    assert lines[:2] == ["y ~ a*x", "3 rows"]
    rows = [line.split() for line in lines if re.match(r" +\d", line)]
    assert rows == [[str(number), f"{1 / (1 + number):.6g}"] for number in numbers]

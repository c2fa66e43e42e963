"""The progress of a running fit: a table of losses that grows epoch by epoch, and a progress bar below it.

Least squares and L-BFGS count iterations, gradient methods count epochs (passes over the rows); the table has the
method's own word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TextIO

from autodiff_cli.render.formatting import shorten_middle, single_line
from autodiff_cli.render.report import Paper, Style

if TYPE_CHECKING:
    from rich.progress import Progress

    from autodiff_cli.data.streaming import PassProgress
    from autodiff_cli.training.methods.gradient_descent import EpochProgress
    from autodiff_cli.training.optimizers import Epoch

MAX_MODEL_LENGTH = 300  # characters; longer models are shortened
BAR_DELAY = 1.0  # seconds before the bar appears, so that short fits show none
BAR_INTERVAL = 0.1  # seconds between updates: more often costs time and cannot be read

_METHOD_NAMES = {"lm": "Levenberg-Marquardt", "lbfgs": "L-BFGS"}  # methods that use all rows in every iteration


def method_name(method: str) -> str:
    """Return the name of an optimizer as publications write it; `method` is its name in options."""
    return _METHOD_NAMES.get(method, method)


def step_noun(method: str) -> str:
    """Return the word for one step of an optimizer: "iteration" for least squares and L-BFGS, else "epoch"."""
    return "iteration" if method in _METHOD_NAMES else "epoch"


def _short_model(text: str) -> str:
    """Return a model on one line; a long text of several lines is reduced to its last line, the model itself."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = single_line("\n".join(lines))
    if len(joined) <= MAX_MODEL_LENGTH or len(lines) == 1:
        return shorten_middle(joined, MAX_MODEL_LENGTH)
    return f"…; {shorten_middle(single_line(lines[-1]), MAX_MODEL_LENGTH)}"


class EpochTable:
    """The table of epochs and losses, written line by line while a fit runs.

    Args:
        title: lines above the table, the model first; they are written with the first epoch.
        every: show each epoch whose number is a multiple of it. Without it, 1 to 10, then 20 to 100, and so on.
        bar: the progress bar below the table.

    Attributes:
        step_noun: the word for one step of the method, `step_noun(method)`.
    """

    step_noun = "epoch"

    def __init__(self, paper: Paper, title: Sequence[str], every: int | None, bar: ProgressBar) -> None:
        self._paper = paper
        self._title = title
        self._every = every
        self.bar = bar
        self._unwritten: Epoch | None = None  # the latest epoch, unless the table has it
        self._has_begun = False

    def add(self, epoch: Epoch) -> None:
        """Add an epoch that is complete."""
        if epoch.number == 0 or not self._has_begun:
            self._begin(epoch)
        if epoch.number % (self._every or 10 ** (len(str(epoch.number)) - 1)) == 0:
            self._write(epoch)
        else:
            self._unwritten = epoch
        self.bar.update(epoch.number, 0.0, epoch.loss, self.step_noun)

    def update(self, progress: EpochProgress) -> None:
        """Show the progress within a long epoch."""
        self.bar.update(progress.number - 1, progress.fraction, progress.loss, self.step_noun)

    def end(self) -> None:
        """Show the last epoch, even if `every` skips it, and remove the bar."""
        self.bar.hide()
        if self._unwritten is not None:
            self._write(self._unwritten)

    def _begin(self, epoch: Epoch) -> None:
        if self._has_begun:
            self.end()
            self._paper.line("  restarted from better starting values, estimated from the data:", Style.FAINT)
            return
        self._has_begun = True
        model, *others = self._title
        self._paper.line(_short_model(model), Style.STRONG)
        for line in others:
            self._paper.line(line)
        validation = "" if epoch.validation_loss is None else "  validation loss"
        self._paper.heading(f"{self.step_noun:>9}          loss{validation}")

    def _write(self, epoch: Epoch) -> None:
        self.bar.hide()
        validation = "" if epoch.validation_loss is None else f"  {self._paper.brief(epoch.validation_loss):>15}"
        self._paper.line(f"  {epoch.number:>7}  {self._paper.brief(epoch.loss):>12}{validation}")
        self._paper.flush()
        self._unwritten = None


class ProgressBar:
    """A progress bar at the foot of a terminal, which appears when work takes longer than `BAR_DELAY`.

    Args:
        total: the number of epochs; None if it is not known.
        clock: returns the time in seconds; None if the output is not a terminal, which has no bar.
    """

    def __init__(
        self, stream: TextIO, width: int, colour: bool, total: int | None, clock: Callable[[], float] | None
    ) -> None:
        self._stream = stream
        self._width = width
        self._colours: Literal["standard"] | None = "standard" if colour else None
        self._total = total
        self._clock = clock
        self._next_refresh = BAR_DELAY + (clock() if clock else 0.0)
        self._bar: Progress | None = None
        self._work = ""  # what the bar shows: "epochs", or "reading" rows

    def update(self, completed: int, fraction: float, loss: float, noun: str) -> None:
        """Show the progress of the fit.

        Args:
            completed: the number of complete epochs.
            fraction: the part of the next epoch that is done.
            noun: "epoch" or "iteration".
        """
        at = f"{noun} {completed + 1}, {fraction:.0%}" if fraction else f"{noun} {completed}"
        self._show("epochs", completed + fraction, self._total, at, f"loss {loss:.6g}")

    def update_reading(self, reading: PassProgress) -> None:
        """Show the progress of a pass over streamed rows: rows read, rows per second, and the remaining time."""
        rate = reading.rows / max(reading.seconds, 1e-9)
        self._show("reading", reading.rows, reading.total, f"pass {reading.number}", f"{rate / 1e6:.3g} million rows/s")

    def update_draws(self, count: int, total: int) -> None:
        """Show the number of draws from the posterior."""
        self._show("sampling", count, total, f"draw {count}", "")

    def update_search(self, done: int, left: int) -> None:
        """Show the number of boxes that a search has examined; remove the bar when none are left."""
        if left:
            self._show("search", done, done + left, f"{done:,} boxes examined", f"{left:,} left")
        else:
            self.hide()

    def _show(self, work: str, completed: float, total: int | None, before: str, after: str) -> None:
        """Show the progress with a text before and after the bar, at most every `BAR_INTERVAL` seconds."""
        if self._clock is None or (time := self._clock()) < self._next_refresh:
            return
        self._next_refresh = time + BAR_INTERVAL
        if self._work != work:
            self.hide()
        if self._bar is None:
            self._bar, self._work = self._start(), work
        self._bar.update(
            self._bar.task_ids[0], completed=completed, total=total, before=before, after=after, refresh=True
        )

    def hide(self) -> None:
        """Remove the bar until the next update."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _start(self) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TimeRemainingColumn

        bar = Progress(
            "  {task.fields[before]}",
            BarColumn(),
            "{task.fields[after]}",
            TimeRemainingColumn(),
            console=Console(file=self._stream, width=self._width, color_system=self._colours, force_terminal=True),
            auto_refresh=False,
            transient=True,
        )
        bar.start()
        bar.add_task("", total=None, before="", after="")
        return bar

"""The table of epochs and losses that grows while a fit runs, and the bar below it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TextIO

from autodiff_cli.data.streaming.columns import Passing
from autodiff_cli.language.errors import in_brief
from autodiff_cli.render.numbers import shows
from autodiff_cli.render.paper import Paper, Style
from autodiff_cli.render.text import on_one_line, shortened
from autodiff_cli.training.methods.loop import Epoch, Underway

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LONGEST_MODEL = 300  # characters of one that is shown
LONG = 1.0  # seconds from which on a run shows a bar
REFRESH = 0.1  # seconds between two states of the bar


def columns_in_words(names: Sequence[str]) -> str:
    """The columns that a model uses, of many the first and the last."""
    return f"columns {in_brief(names)}"


def _model_in_words(text: str) -> str:
    """A model on one line; of several lines that are too long for it, the last, which is the model itself."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    whole = on_one_line("\n".join(lines))
    if len(whole) <= LONGEST_MODEL or len(lines) == 1:
        return shortened(whole, LONGEST_MODEL)
    return f"…; {shortened(on_one_line(lines[-1]), LONGEST_MODEL)}"


class EpochTable:
    """The table of epochs and losses, written line by line while a fit runs.

    Args:
        title: the model and more lines to begin with; nothing is written before the first epoch.
        every: show each epoch whose number is a multiple of it. Without it, 1 to 10, then 20 to 100, and so on.
        bar: what is shown below the table while a run lasts; None away from terminals.
    """

    def __init__(
        self, paper: Paper, title: Sequence[str], every: int | None, digits: int | None, bar: Bar | None = None
    ) -> None:
        self._paper = paper
        self._title = title
        self._every = every
        self._show = shows(digits)[1]
        self._bar = bar
        self._waiting: Epoch | None = None  # the last epoch, if it is not shown
        self._begun = False

    def add(self, epoch: Epoch) -> None:
        """An epoch has passed."""
        if epoch.number == 0 or not self._begun:
            self._begin(epoch)
        if epoch.number % (self._every or 10 ** (len(str(epoch.number)) - 1)) == 0:
            self._write(epoch)
        else:
            self._waiting = epoch
        if self._bar is not None:
            self._bar.move(epoch.number, 0.0, epoch.loss)

    def move(self, underway: Underway) -> None:
        """An epoch is under way that takes long."""
        if self._bar is not None:
            self._bar.move(underway.number - 1, underway.part, underway.loss)

    def read(self, passing: Passing) -> None:
        """A pass over rows that are streamed is under way."""
        if self._bar is not None:
            self._bar.read(passing)

    def end(self) -> None:
        """Show the last epoch, whatever its number, and take the bar away."""
        if self._bar is not None:
            self._bar.hide()
        if self._waiting is not None:
            self._write(self._waiting)

    def _begin(self, epoch: Epoch) -> None:
        if self._begun:
            self.end()
            self._paper.line("  better starting values were found in the data; from there:", Style.FAINT)
            return
        self._begun = True
        model, *others = self._title
        self._paper.line(_model_in_words(model), Style.STRONG)
        for line in others:
            self._paper.line(line)
        validation = "" if epoch.validation_loss is None else "  validation loss"
        self._paper.heading(f"    epoch          loss{validation}")

    def _write(self, epoch: Epoch) -> None:
        if self._bar is not None:
            self._bar.hide()
        validation = "" if epoch.validation_loss is None else f"  {self._show(epoch.validation_loss):>15}"
        self._paper.line(f"  {epoch.number:>7}  {self._show(epoch.loss):>12}{validation}")
        self._paper.flush()
        self._waiting = None


class Bar:
    """A progress bar for runs that last, at the foot of a terminal.

    Args:
        total: the number of epochs; None if it is not known.
        clock: seconds.
    """

    def __init__(self, stream: TextIO, width: int, colour: bool, total: int | None, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._width = width
        self._colours: Literal["standard"] | None = "standard" if colour else None
        self._total = total
        self._clock = clock
        self._next = clock() + LONG
        self._shown: tuple[Progress, TaskID] | None = None
        self._reading: tuple[Progress, TaskID] | None = None

    def move(self, passed: int, part: float, loss: float) -> None:
        """Show how far the run is, if it is time to: how many epochs have passed, and which part of the next."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + REFRESH
        if self._reading is not None:
            self.hide()
        progress, task = self._shown = self._shown or self._drawn()
        at = f"{passed + 1}, {part:.0%}" if part else str(passed)
        progress.update(task, completed=passed + part, at=at, loss=f"{loss:.6g}", refresh=True)

    def read(self, passing: Passing) -> None:
        """Show how far a pass over streamed rows is, how fast they come, and when it will be over."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + REFRESH
        if self._reading is None:
            self.hide()
            self._reading = self._drawn_reading()
        progress, task = self._reading
        rate = passing.rows / max(passing.seconds, 1e-9)
        left = "" if passing.total is None else clock_time((passing.total - passing.rows) / max(rate, 1e-9))
        shown = f"{rate / 1e6:.3g} million rows/s"
        progress.update(
            task,
            completed=passing.rows,
            total=passing.total,
            number=passing.number,
            rate=shown,
            left=left,
            refresh=True,
        )

    def hide(self) -> None:
        """Take the bar away until the next move."""
        if self._shown is not None:
            self._shown[0].stop()
            self._shown = None
        if self._reading is not None:
            self._reading[0].stop()
            self._reading = None

    def _drawn_reading(self) -> tuple[Progress, TaskID]:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        progress = Progress(
            TextColumn("  pass {task.fields[number]}"),
            BarColumn(),
            TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[left]}"),
            console=Console(file=self._stream, width=self._width, color_system=self._colours, force_terminal=True),
            auto_refresh=False,
            transient=True,
        )
        progress.start()
        return progress, progress.add_task("", total=None, number=1, rate="", left="")

    def _drawn(self) -> tuple[Progress, TaskID]:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        progress = Progress(
            TextColumn("  epoch {task.fields[at]}"),
            BarColumn(),
            TextColumn("loss {task.fields[loss]}"),
            TimeRemainingColumn(),
            console=Console(file=self._stream, width=self._width, color_system=self._colours, force_terminal=True),
            auto_refresh=False,
            transient=True,
        )
        progress.start()
        return progress, progress.add_task("", total=self._total, at="", loss="")


def clock_time(seconds: float) -> str:
    """A time that is left.

    >>> clock_time(75), clock_time(7322)
    ('1:15 left', '2:02:02 left')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02} left" if hours else f"{minutes}:{rest:02} left"

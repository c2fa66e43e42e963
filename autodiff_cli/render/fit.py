"""What `train` shows: the epochs as they pass, then the parameters and how good the fit is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TextIO

from autodiff_cli.render.documents import number, numbers
from autodiff_cli.render.numbers import Show, shows
from autodiff_cli.render.paper import Column, Paper, Style, Table
from autodiff_cli.render.text import counted, on_one_line
from autodiff_cli.training.fit import Fit
from autodiff_cli.training.loop import Epoch

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

UNKNOWN = "-"  # a standard error that is not known
LONG = 1.0  # seconds from which on a run shows a bar
REFRESH = 0.1  # seconds between two states of the bar


def fit_document(fit: Fit) -> dict[str, Any]:
    """What `train --json` writes."""
    names = [*fit.parameters]
    return {
        "model": fit.model,
        "rows": fit.rows,
        "parameters": numbers(fit.parameters),
        "fixed": numbers(fit.fixed),
        "stderr": {name: number(error) for name, error in fit.stderr.items()},
        "covariance": {
            name: numbers(dict(zip(names, row, strict=True)))
            for name, row in zip(names, fit.covariance.tolist(), strict=True)
        },
        "loss": number(fit.loss),
        "rss": number(fit.rss),
        "dof": fit.dof,
        "r_squared": number(fit.r_squared),
        "optimizer": fit.optimizer,
        "epochs": fit.epochs,
        "converged": fit.converged,
        "formula": fit.formula,
        "history": [{"epoch": record["epoch"], "loss": number(record["loss"])} for record in fit.history],
        "warnings": fit.warnings,
    }


class EpochTable:
    """The table of epochs and losses, written line by line while a fit runs.

    Args:
        title: lines to begin with; nothing is written before the first epoch.
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
        if epoch.number == 0:
            self._begin()
        if epoch.number % (self._every or 10 ** (len(str(epoch.number)) - 1)) == 0:
            self._write(epoch)
        else:
            self._waiting = epoch
        if self._bar is not None:
            self._bar.move(epoch)

    def end(self) -> None:
        """Show the last epoch, whatever its number, and take the bar away."""
        if self._bar is not None:
            self._bar.hide()
        if self._waiting is not None:
            self._write(self._waiting)

    def _begin(self) -> None:
        if self._begun:
            self.end()
            self._paper.line("  better starting values were found in the data; from there:", Style.FAINT)
            return
        self._begun = True
        first, *others = self._title
        self._paper.line(on_one_line(first), Style.STRONG)
        for line in others:
            self._paper.line(line)
        self._paper.heading("    epoch          loss")

    def _write(self, epoch: Epoch) -> None:
        if self._bar is not None:
            self._bar.hide()
        self._paper.line(f"  {epoch.number:>7}  {self._show(epoch.loss):>12}")
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

    def move(self, epoch: Epoch) -> None:
        """Show how far the run is, if it is time to."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + REFRESH
        progress, task = self._shown = self._shown or self._drawn()
        progress.update(task, completed=epoch.number, loss=f"{epoch.loss:.6g}", refresh=True)

    def hide(self) -> None:
        """Take the bar away until the next move."""
        if self._shown is not None:
            self._shown[0].stop()
            self._shown = None

    def _drawn(self) -> tuple[Progress, TaskID]:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        progress = Progress(
            TextColumn("  epoch {task.completed}"),
            BarColumn(),
            TextColumn("loss {task.fields[loss]}"),
            TimeRemainingColumn(),
            console=Console(file=self._stream, width=self._width, color_system=self._colours, force_terminal=True),
            auto_refresh=False,
            transient=True,
        )
        progress.start()
        return progress, progress.add_task("", total=self._total, loss="")


def write_fit(paper: Paper, fit: Fit, digits: int | None) -> None:
    """How the run ended, the parameters with their standard errors, the figures of the fit, the formula."""
    in_full, brief = shows(digits)
    paper.line()
    paper.line(_ending(fit, brief), Style.STRONG)
    paper.heading("parameters")
    titles = (Column("name"), Column("value", is_number=True), Column("standard error", is_number=True))
    rows = [
        (name, in_full(value), UNKNOWN if (error := fit.stderr[name]) is None else brief(error))
        for name, value in fit.parameters.items()
    ]
    fixed = [(name, in_full(value), "fixed") for name, value in fit.fixed.items()]
    paper.table(Table(titles, [*rows, *fixed]))
    if fit.definition:
        paper.line(f"  standard errors: {fit.definition}", Style.FAINT)
    paper.heading("figures")
    for line in _figures(fit, brief):
        paper.line(f"  {line}")
    paper.heading("fitted formula, ready for `autodiff grad`")
    paper.verbatim(on_one_line(fit.formula))
    warnings = [warning for warning in fit.warnings if warning != fit.failure]  # which is said on standard error
    if warnings:
        paper.heading("warnings")
        for warning in warnings:
            paper.line(f"  {warning}", Style.WARNING)


def _ending(fit: Fit, show: Show) -> str:
    end = "converged" if fit.converged else "stopped"
    change = f": loss {show(fit.history[0]['loss'])} before, {show(fit.loss)} after" if fit.history else ""
    return f"{fit.optimizer} {end} after {counted(fit.epochs, 'epoch')}{change}"


def _figures(fit: Fit, show: Show) -> list[str]:
    lines = []
    if fit.r_squared is not None and fit.rss is not None:
        lines += [f"R²  = {show(fit.r_squared)}", f"rss = {show(fit.rss)}"]
    count = f"{counted(fit.rows, 'row')} - {counted(len(fit.parameters), 'parameter')}"
    return [*lines, f"dof = {fit.dof} ({count})"]

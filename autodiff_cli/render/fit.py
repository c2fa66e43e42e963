"""What `train` shows: the epochs as they pass, then the parameters and how good the fit is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TextIO

import numpy as np

from autodiff_cli.render.diagnosis import diagnosis_document, write_diagnosis
from autodiff_cli.render.documents import number, numbers
from autodiff_cli.render.networks import is_summarised, layers_table, write_confusion
from autodiff_cli.render.numbers import Show, shows
from autodiff_cli.render.paper import Column, Paper, Style, Table
from autodiff_cli.render.text import counted, on_one_line, shortened
from autodiff_cli.training.diagnosis import layer_of
from autodiff_cli.training.fit import Fit
from autodiff_cli.training.loop import Epoch

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

UNKNOWN = "-"  # a standard error that is not known
LONGEST_FORMULA = 300  # characters of one that is shown
MOST_COLUMNS = 8  # named of the data
LONG = 1.0  # seconds from which on a run shows a bar
REFRESH = 0.1  # seconds between two states of the bar


def fit_document(fit: Fit) -> dict[str, Any]:
    """What `train --json` writes."""
    return {
        "model": fit.model,
        "rows": fit.rows,
        "parameters": numbers(fit.parameters),
        "fixed": numbers(fit.fixed),
        "stderr": numbers(fit.stderr),
        "covariance": _covariance(fit),
        "loss": number(fit.loss),
        "rss": number(fit.rss),
        "dof": fit.dof,
        "r_squared": number(fit.r_squared),
        "optimizer": fit.optimizer,
        "epochs": fit.epochs,
        "converged": fit.converged,
        "formula": fit.formula or None,
        **_classification(fit),
        **_validation(fit),
        **({} if fit.diagnosis is None else {"diagnosis": diagnosis_document(fit.diagnosis)}),
        "history": [
            {name: value if name == "epoch" else number(value) for name, value in record.items()}
            for record in fit.history
        ],
        "warnings": fit.warnings,
    }


def _covariance(fit: Fit) -> dict[str, Any]:
    """Of every pair of numbers; empty where nothing is known and the pairs are too many to say so for each."""
    has_arrays = any(map(np.ndim, fit.parameters.values()))
    if not fit.numbers or (has_arrays and not fit.definition):
        return {}
    rows = zip(fit.numbers, fit.covariance.tolist(), strict=True)
    return {name: numbers(dict(zip(fit.numbers, row, strict=True))) for name, row in rows}


def _classification(fit: Fit) -> dict[str, Any]:
    if fit.classes is None or fit.confusion is None:
        return {}
    return {"classes": [*fit.classes], "accuracy": number(fit.accuracy), "confusion": fit.confusion.tolist()}


def _validation(fit: Fit) -> dict[str, Any]:
    if fit.validation_loss is None:
        return {}
    right = {} if fit.validation_accuracy is None else {"validation_accuracy": number(fit.validation_accuracy)}
    return {"validation_rows": fit.validation_rows, "validation_loss": number(fit.validation_loss), **right}


def columns_in_words(names: Sequence[str]) -> str:
    """The columns that a model uses, of many the first and the last."""
    if len(names) <= MOST_COLUMNS:
        return f"columns {', '.join(names)}"
    return f"columns {', '.join(names[: MOST_COLUMNS - 1])}, … {names[-1]} ({len(names)} in all)"


def _model_in_words(text: str) -> str:
    """A model on one line; of several lines that are too long for it, the last, which is the model itself."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    whole = on_one_line("\n".join(lines))
    if len(whole) <= LONGEST_FORMULA or len(lines) == 1:
        return shortened(whole, LONGEST_FORMULA)
    return f"…; {shortened(on_one_line(lines[-1]), LONGEST_FORMULA)}"


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
        if epoch.number == 0:
            self._begin(epoch)
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


def write_fit(paper: Paper, fit: Fit, digits: int | None, saved: bool = False) -> None:
    """How the run ended, the parameters with their standard errors, the figures of the fit, the formula.

    Args:
        saved: whether the model will be kept in a file.
    """
    in_full, brief = shows(digits)
    paper.line()
    paper.line(_ending(fit, brief), Style.STRONG)
    _write_parameters(paper, fit, in_full, brief)
    paper.heading("figures")
    for line in _figures(fit, brief):
        paper.line(f"  {line}")
    if fit.classes is not None and fit.confusion is not None:
        write_confusion(paper, fit.classes, fit.confusion)
    if 0 < len(fit.formula) <= LONGEST_FORMULA:
        paper.heading("fitted formula, ready for `autodiff grad`")
        paper.verbatim(on_one_line(fit.formula))
    elif not saved:
        paper.line()
        paper.line(
            "--save MODEL.json keeps the model for `autodiff predict`; --json has all of its numbers", Style.FAINT
        )
    if fit.diagnosis is not None:
        write_diagnosis(paper, fit.diagnosis, brief)
    warnings = [warning for warning in fit.warnings if warning != fit.failure]  # which is said on standard error
    if warnings:
        paper.heading("warnings")
        for warning in warnings:
            paper.line(f"  {warning}", Style.WARNING)


def _write_parameters(paper: Paper, fit: Fit, in_full: Show, brief: Show) -> None:
    """Those that people read with their standard errors, those of networks layer by layer."""
    everything = {**fit.parameters, **fit.fixed}
    summarised = {name for name, value in everything.items() if is_summarised(name, value)}
    if len(summarised) < len(everything):
        paper.heading("parameters")
        titles = (Column("name"), Column("value", is_number=True), Column("standard error", is_number=True))
        rows = [
            (name, in_full(value), UNKNOWN if (error := fit.stderr[name]) is None else brief(error))
            for name, value in fit.parameters.items()
            if name not in summarised
        ]
        fixed = [(name, in_full(value), "fixed") for name, value in fit.fixed.items() if name not in summarised]
        paper.table(Table(titles, [*rows, *fixed]))
        if fit.definition:
            paper.line(f"  standard errors: {fit.definition}", Style.FAINT)
    if summarised:
        layers = {name: value for name, value in everything.items() if name in summarised}
        paper.heading("layers")
        paper.table(layers_table(layers, fit.fixed, brief))


def _ending(fit: Fit, show: Show) -> str:
    end = "converged" if fit.converged else "stopped"
    change = f": loss {show(fit.history[0]['loss'])} before, {show(fit.loss)} after" if fit.history else ""
    return f"{fit.optimizer} {end} after {counted(fit.epochs, 'epoch')}{change}"


def _figures(fit: Fit, show: Show) -> list[str]:
    lines = []
    if fit.accuracy is not None:
        lines.append(f"accuracy = {show(fit.accuracy)}")
    if fit.r_squared is not None and fit.rss is not None:
        lines += [f"R²  = {show(fit.r_squared)}", f"rss = {show(fit.rss)}"]
    lines.append(_size(fit))
    if fit.validation_loss is not None:
        right = "" if fit.validation_accuracy is None else f", accuracy {show(fit.validation_accuracy)}"
        held_out = counted(fit.validation_rows, "row")
        lines.append(f"validation: loss {show(fit.validation_loss)}{right} ({held_out} held out)")
    return lines


def _size(fit: Fit) -> str:
    """The degrees of freedom; for networks, which have no such figure worth the name, what they are counted from."""
    free = sum(np.size(value) for value in fit.parameters.values())
    targets = (fit.dof + free) // fit.rows
    rows = f"{counted(fit.rows, 'row')}{'' if targets == 1 else f' of {targets} targets'}"
    if not fit.definition and any(layer_of(name) != name for name in fit.parameters):
        return f"{rows}, {counted(free, 'parameter')}"
    return f"dof = {fit.dof} ({rows} - {counted(free, 'parameter')})"
